// SPDX-License-Identifier: GPL-2.0
/*
 * bench FILE... - how long tables take: the best of several times, of each file
 * and of all together
 */

#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "unwind-table.h"

#define TIMES	7

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double all = 0, all_bytes = 0;
	int i, k, fd, rc;

	for (i = 1; i < argc; i++) {
		const char *base = strrchr(argv[i], '/');
		struct unwind_table_stats stats;
		struct unwind_table *table;
		double best = 1e9, start;
		size_t len = 0;

		fd = open(argv[i], O_RDONLY);
		if (fd < 0)
			err(2, "%s", argv[i]);
		for (k = 0, rc = 0; k < TIMES && !rc; k++) {
			start = now();
			rc = unwind_table_from_fd(fd, &table);
			if (rc)
				break;
			if (now() - start < best)
				best = now() - start;
			stats = *unwind_table_stats(table);
			unwind_table_data(table, &len);
			unwind_table_free(table);
		}
		close(fd);
		if (rc) {
			printf("%s: %s\n", argv[i], strerror(-rc));
			continue;
		}
		printf("%8.2f ms %7.1f MB/s %9llu bytes of CFI %9llu rows %9zu of table  %s\n",
		       best * 1e3, stats.cfi_bytes / best / 1e6,
		       (unsigned long long)stats.cfi_bytes, (unsigned long long)stats.rows,
		       len, base ? base + 1 : argv[i]);
		all += best;
		all_bytes += stats.cfi_bytes;
	}
	printf("%8.2f ms %7.1f MB/s together\n", all * 1e3, all ? all_bytes / all / 1e6 : 0);
	return 0;
}
