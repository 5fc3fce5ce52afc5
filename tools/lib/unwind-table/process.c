// SPDX-License-Identifier: GPL-2.0
/* Tables of files that cannot be opened any more, from a process's memory */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

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
static int find_headers(FILE *maps, uint64_t address, __u64 *start, bool *has_inode)
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
	*has_inode = found.inode;
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

int unwind_table_from_process(int pid, uint64_t address, struct unwind_table **table)
{
	struct ut_source src = { .loaded = true, .relocated = true, .stored = STORED };
	bool has_inode;
	FILE *maps;
	int fd, err;

	*table = NULL;
	fd = open_of(pid, "maps");
	if (fd < 0)
		return fd;
	maps = fdopen(fd, "r");
	if (!maps) {
		close(fd);
		return -ENOMEM;
	}
	err = find_headers(maps, address, &src.start, &has_inode);
	fclose(maps);
	if (err)
		return err;

	src.fd = open_of(pid, "mem");
	if (src.fd < 0)
		return src.fd;
	/* The vDSO is no page of a file. */
	if (has_inode)
		src.pagemap = open_of(pid, "pagemap");
	err = src.pagemap < 0 ? src.pagemap : ut_make(&src, table);
	if (src.pagemap > 0)
		close(src.pagemap);
	close(src.fd);
	return err;
}
