// SPDX-License-Identifier: GPL-2.0
/* Tables of files that cannot be opened any more, from a process's memory */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <linux/const.h>

#include "internal.h"

struct mapping {
	uint64_t	start;
	uint64_t	end;
	uint64_t	offset;
	uint64_t	inode;
	char		device[16];
	char		name[16];
};

/* A line of /proc/PID/maps; of the name, its beginning */
static bool parse(const char *line, struct mapping *map)
{
	map->name[0] = 0;
	return sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %15s %" SCNu64
		      " %15s", &map->start, &map->end, &map->offset, map->device,
		      &map->inode, map->name) >= 5;
}

/* Anonymous memory is no file, but for the vDSO. */
static bool is_file(const struct mapping *map)
{
	return map->inode || !strcmp(map->name, "[vdso]");
}

static bool same_file(const struct mapping *a, const struct mapping *b)
{
	return a->inode == b->inode && !strcmp(a->device, b->device) &&
	       (a->inode || !strcmp(a->name, b->name));
}

/*
 * Where the headers are of the file that is mapped at @address: the last mapping
 * of its beginning that is not above it, as a file may be mapped several times.
 */
static int find_headers(FILE *maps, uint64_t address, __u64 *start, struct mapping *file)
{
	struct mapping map, found = { 0 };
	char *line = NULL;
	size_t size = 0;
	int err = -EFAULT;

	/* Pass 1: which file is it? Pass 2: where does it begin? */
	while (err && getline(&line, &size, maps) > 0) {
		if (parse(line, &found) && address >= found.start && address < found.end)
			err = 0;
	}
	if (!err && !is_file(&found))
		err = -ENOEXEC;
	if (err)
		goto out;
	*file = found;
	rewind(maps);
	err = -ENOEXEC;
	while (getline(&line, &size, maps) > 0) {
		if (!parse(line, &map))
			continue;
		if (map.start > address)
			break;
		if (!map.offset && same_file(&map, &found)) {
			*start = map.start;
			err = 0;
		}
	}
out:
	free(line);
	return err;
}

static int open_of(int pid, const char *name)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

/* How much of a file there is in a process is not known; no program has more code. */
#define STORED		(128 * 1024 * 1024ULL)
/* Pages that are copied at once */
#define NR_PAGES	64
#define PAGE_BYTES	4096ULL

#define PAGEMAP_FILE	_BITULL(61)
#define PAGEMAP_SWAP	_BITULL(62)
#define PAGEMAP_PRESENT	_BITULL(63)

/* Is it the file's, and not the process's own? */
static bool is_of_file(uint64_t entry)
{
	return !(entry & PAGEMAP_SWAP) &&
	       (entry & (PAGEMAP_PRESENT | PAGEMAP_FILE)) != PAGEMAP_PRESENT;
}

struct copy {
	int	pid;
	int	mem;		/* for kernels without process_vm_readv() */
	int	pagemap;	/* -1: all pages are good */
	int	to;
	__u64	left;
};

static void copy_page(struct copy *copy, __u64 pos, const __u8 *page)
{
	if (copy->left && pwrite(copy->to, page, PAGE_BYTES, pos) == PAGE_BYTES)
		copy->left -= PAGE_BYTES;
}

/* Copy the good ones of some pages. Returns how many were read; pages are looked at after that. */
static size_t copy_pages(struct copy *copy, __u64 start, size_t nr)
{
	static __u8 pages[NR_PAGES * PAGE_BYTES];
	struct iovec to = { pages, nr * PAGE_BYTES };
	struct iovec from = { (void *)(uintptr_t)start, nr * PAGE_BYTES };
	uint64_t entries[NR_PAGES];
	ssize_t len;
	size_t i;

	len = process_vm_readv(copy->pid, &to, 1, &from, 1, 0);
	if (len < 0)
		len = pread(copy->mem, pages, nr * PAGE_BYTES, start);
	nr = len < 0 ? 0 : len / PAGE_BYTES;
	if (copy->pagemap >= 0 &&
	    pread(copy->pagemap, entries, nr * sizeof(*entries),
		  start / PAGE_BYTES * sizeof(*entries)) != (ssize_t)(nr * sizeof(*entries)))
		return nr;
	for (i = 0; i < nr; i++)
		if (copy->pagemap < 0 || is_of_file(entries[i]))
			copy_page(copy, start + i * PAGE_BYTES, pages + i * PAGE_BYTES);
	return nr;
}

/* What cannot be read is left out. */
static void copy_mapping(struct copy *copy, const struct mapping *map)
{
	__u64 pos = map->start;
	size_t nr;

	while (pos < map->end && copy->left) {
		nr = (map->end - pos) / PAGE_BYTES;
		nr = copy_pages(copy, pos, nr < NR_PAGES ? nr : NR_PAGES);
		pos += (nr ? nr : 1) * PAGE_BYTES;
	}
}

static int copy_file(struct copy *copy, FILE *maps, __u64 start, const struct mapping *file)
{
	struct mapping map;
	char *line = NULL;
	size_t size = 0;

	rewind(maps);
	while (getline(&line, &size, maps) > 0)
		if (parse(line, &map) && map.start >= start && same_file(&map, file))
			copy_mapping(copy, &map);
	free(line);
	return copy->left == STORED ? -EACCES : 0;
}

/* What a process has mapped of a file is copied to memory, which becomes @src->fd. */
static int copy_process(int pid, __u64 address, struct ut_source *src)
{
	struct copy copy = { .pid = pid, .pagemap = -1, .left = STORED };
	struct mapping file;
	FILE *maps;
	int fd, err;

	*src = (struct ut_source){
		.loaded = true, .relocated = true, .sparse = true, .stored = STORED
	};
	fd = open_of(pid, "maps");
	if (fd < 0)
		return fd;
	maps = fdopen(fd, "r");
	if (!maps) {
		close(fd);
		return -ENOMEM;
	}
	copy.mem = open_of(pid, "mem");
	err = find_headers(maps, address, &src->start, &file);
	if (!err && file.inode) {
		copy.pagemap = open_of(pid, "pagemap");
		err = copy.pagemap < 0 ? copy.pagemap : 0;
	}
	if (!err) {
		src->fd = memfd_create("unwind-table-source", UT_MEMFD_FLAGS);
		copy.to = src->fd;
		err = src->fd < 0 ? -errno : copy_file(&copy, maps, src->start, &file);
		if (err && src->fd >= 0)
			close(src->fd);
	}
	if (copy.mem >= 0)
		close(copy.mem);
	if (copy.pagemap >= 0)
		close(copy.pagemap);
	fclose(maps);
	return err;
}

int unwind_table_from_process(int pid, uint64_t address, struct unwind_table **table)
{
	struct ut_source src;
	int err;

	*table = NULL;
	err = copy_process(pid, address, &src);
	if (err)
		return err;
	err = ut_make(&src, table);
	close(src.fd);
	return err;
}
