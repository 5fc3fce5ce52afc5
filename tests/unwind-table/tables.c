// SPDX-License-Identifier: GPL-2.0
/*
 * tables < FILES - make the tables of files, whose names end with NUL, and print how long
 * that took. Files that are not ELF files of this machine are skipped.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unwind-table.h"

static double user_time(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6;
}

int main(void)
{
	uint64_t files = 0, code = 0, no_fde = 0, followed = 0;
	double start = user_time();
	char *name = NULL;
	size_t size = 0;

	while (getdelim(&name, &size, 0, stdin) > 0) {
		const struct unwind_table_stats *stats;
		struct unwind_table *table;
		int fd = open(name, O_RDONLY);

		if (fd < 0)
			continue;
		if (!unwind_table_from_fd(fd, &table)) {
			stats = unwind_table_stats(table);
			files++;
			code += stats->code_bytes;
			followed += stats->origins[UNWIND_TABLE_O_INSTRUCTIONS];
			no_fde += stats->bytes[UNWIND_TABLE_R_GAP] +
				  stats->bytes[UNWIND_TABLE_R_LOST];
			unwind_table_free(table);
		}
		close(fd);
	}
	free(name);
	printf("%.2f s: %llu tables, %.1f MB of code: ", user_time() - start,
	       (unsigned long long)files, code / 1e6);
	printf("%.2f MB have rules by instructions, %.2f MB neither these nor an FDE\n",
	       followed / 1e6, no_fde / 1e6);
	return 0;
}
