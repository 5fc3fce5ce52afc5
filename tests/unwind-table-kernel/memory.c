// SPDX-License-Identifier: GPL-2.0
/*
 * memory - how much memory of the kernel the tables for files take, whose names are
 * read from standard input, each with a NUL after it. Fails where a file of many rows
 * takes more bytes for each of them than a table may.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../tools/lib/unwind-table/unwind-table.h"
#include "memory.h"

/* The target of the design, and where it begins: small tables have other costs. */
#define MANY_ROWS	10000
#define BYTES_A_ROW	5

int main(void)
{
	unsigned long long files = 0, all_rows = 0, all_bytes = 0;
	double worst = 0;
	char *name = NULL;
	size_t room = 0;
	int failed = 0;

	while (getdelim(&name, &room, '\0', stdin) > 0) {
		struct unwind_table *table;
		unsigned long long rows;
		const void *data;
		size_t len;
		long bytes;
		int fd;

		fd = open(name, O_RDONLY);
		if (fd < 0 || unwind_table_from_fd(fd, &table)) {
			/* Of another machine, or without code */
			if (fd >= 0)
				close(fd);
			continue;
		}
		close(fd);
		rows = unwind_table_stats(table)->rows;
		data = unwind_table_data(table, &len);
		bytes = kernel_bytes(data, len);
		unwind_table_free(table);
		if (bytes < 0) {
			printf("%s: the kernel refuses its table: %ld\n", name, bytes);
			failed = 1;
			continue;
		}
		files++;
		all_rows += rows;
		all_bytes += bytes;
		if (rows < MANY_ROWS)
			continue;
		if ((double)bytes / rows > worst)
			worst = (double)bytes / rows;
		if ((double)bytes / rows > BYTES_A_ROW) {
			printf("%s: %.2f bytes a row\n", name, (double)bytes / rows);
			failed = 1;
		}
	}
	free(name);
	printf("%llu files, %llu rows, %.1f MB of kernel memory; at most %.2f bytes a row in files of %d rows and more\n",
	       files, all_rows, all_bytes / 1e6, worst, MANY_ROWS);
	return failed;
}
