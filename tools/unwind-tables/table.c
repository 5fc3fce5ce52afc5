// SPDX-License-Identifier: GPL-2.0
/* Shared by show and check: the table of a file, and its summary */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/unwind_table.h>

#include "unwind-table.h"
#include "unwind-tables.h"

double table_percent(__u64 part, __u64 whole)
{
	return whole ? 100.0 * part / whole : 0;
}

int table_read(const char *path, struct unwind_table **table)
{
	struct stat st;
	int fd, error;

	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		log_error("%s: cannot open it: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	error = S_ISREG(st.st_mode) ? unwind_table_from_fd(fd, table) : -ENOEXEC;
	if (!error)
		return fd;

	close(fd);
	switch (error) {
	case -ENOEXEC:
		log_error("%s: no program or library for this machine", path);
		break;
	case -ENODATA:
		log_error("%s: has no unwind information (.eh_frame or .debug_frame)",
			  path);
		break;
	case -EFBIG:
		log_error("%s: too large for a table", path);
		break;
	case -E2BIG:
		log_error("%s: takes more work than a file of its size may", path);
		break;
	default:
		log_error("%s: no table can be made: %s", path, strerror(-error));
	}
	return -1;
}

void table_print_summary(const struct unwind_table *table)
{
	const struct unwind_table_stats *stats = unwind_table_stats(table);
	size_t len;
	int i;

	unwind_table_data(table, &len);
	printf("%llu bytes of code, %.2f %% covered; %llu FDEs, %llu rows, %llu rules, %zu bytes\n",
	       (unsigned long long)stats->code_bytes,
	       table_percent(stats->covered_bytes, stats->code_bytes),
	       (unsigned long long)stats->fdes, (unsigned long long)stats->rows,
	       (unsigned long long)stats->rules, len);
	for (i = 0; i < UNWIND_TABLE_NR_ORIGINS; i++) {
		if (stats->origins[i])
			printf("%s%s: %llu bytes\n",
			       i == UNWIND_TABLE_O_FRAME_POINTER ? "" : "rules from ",
			       unwind_table_origin_name(i),
			       (unsigned long long)stats->origins[i]);
	}
	for (i = 0; i < UNWIND_TABLE_NR_REASONS; i++) {
		if (!stats->places[i])
			continue;
		printf("%s: %llu bytes in %llu places\n",
		       unwind_table_reason_name(i),
		       (unsigned long long)stats->bytes[i],
		       (unsigned long long)stats->places[i]);
	}
}

void table_set_view(struct view *view, const struct unwind_table *table)
{
	const struct unwind_table_header *header;
	__u32 nr_blocks;
	size_t len;

	header = unwind_table_data(table, &len);
	view->header = header;
	view->runs = (const void *)(header + 1);
	view->blocks = (const void *)(view->runs + header->nr_runs);
	nr_blocks = header->nr_pages << (UNWIND_TABLE_PAGE_SHIFT - header->block_shift);
	view->rows = (const void *)(view->blocks + nr_blocks + 1);
	view->rules = (const void *)(view->rows + header->nr_rows);
}

__u32 table_first_row(const struct view *view, __u32 page)
{
	__u32 block = page << (UNWIND_TABLE_PAGE_SHIFT - view->header->block_shift);

	return page ? view->blocks[block] + 1 : 0;
}

GElf_Phdr *table_code_segments(Elf *elf, size_t *nr_code)
{
	GElf_Phdr *segments, segment;
	size_t i, nr;

	if (!elf || elf_getphdrnum(elf, &nr))
		return NULL;
	segments = calloc(nr ?: 1, sizeof(*segments));
	if (!segments)
		return NULL;
	*nr_code = 0;
	for (i = 0; i < nr; i++)
		if (gelf_getphdr(elf, i, &segment) &&
		    segment.p_type == PT_LOAD && (segment.p_flags & PF_X))
			segments[(*nr_code)++] = segment;
	return segments;
}
