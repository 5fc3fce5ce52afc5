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
static int find_headers(FILE *maps, uint64_t address, __u64 *start)
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

int unwind_table_from_process(int pid, uint64_t address, struct unwind_table **table)
{
	struct ut_source src = { .loaded = true, .relocated = true };
	char path[32];
	FILE *maps;
	int err;

	*table = NULL;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		return errno == ENOENT ? -ESRCH : -errno;
	err = find_headers(maps, address, &src.start);
	fclose(maps);
	if (err)
		return err;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	src.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (src.fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	err = ut_make(&src, table);
	close(src.fd);
	return err;
}
