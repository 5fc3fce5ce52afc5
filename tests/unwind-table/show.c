// SPDX-License-Identifier: GPL-2.0
/*
 * show [-m] [-p] FILE [START END] - the table of a file, with statistics of its
 * code; -m: as if it were in memory; -p: only rows
 */

#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "unwind-table.h"

static void print_stats(const struct unwind_table_stats *stats)
{
	int i;

	printf("%llu FDEs, %llu rows, %llu rules, %llu bytes of CFI\n",
	       (unsigned long long)stats->fdes, (unsigned long long)stats->rows,
	       (unsigned long long)stats->rules, (unsigned long long)stats->cfi_bytes);
	printf("%llu of %llu bytes of code covered (%.4f %%)\n",
	       (unsigned long long)stats->covered_bytes,
	       (unsigned long long)stats->code_bytes,
	       stats->covered_bytes * 100.0 / stats->code_bytes);
	for (i = 0; i < UNWIND_TABLE_NR_REASONS; i++) {
		if (stats->places[i])
			printf("%s: %llu bytes in %llu places\n",
			       unwind_table_reason_name(i),
			       (unsigned long long)stats->bytes[i],
			       (unsigned long long)stats->places[i]);
	}
}

int main(int argc, char **argv)
{
	struct unwind_table *table;
	uint64_t start = 0, end = ~0ULL;
	const char *wrong;
	const void *data;
	size_t len;
	int opt, fd, rc;
	bool only_rows = false;

	while ((opt = getopt(argc, argv, "p")) != -1)
		only_rows = opt == 'p';
	if (argc - optind < 1)
		errx(2, "usage: show [-p] FILE [START END]");
	fd = open(argv[optind], O_RDONLY);
	if (fd < 0)
		err(2, "%s", argv[optind]);
	if (argc - optind > 2) {
		start = strtoull(argv[optind + 1], NULL, 0);
		end = strtoull(argv[optind + 2], NULL, 0);
	}
	rc = unwind_table_from_fd(fd, &table);
	if (rc) {
		printf("%s\n", strerrorname_np(-rc));
		return 0;
	}
	data = unwind_table_data(table, &len);
	wrong = unwind_table_check(data, len);
	if (wrong)
		errx(1, "%s: bad table: %s", argv[optind], wrong);
	unwind_table_print(table, start, end, stdout);
	if (!only_rows)
		print_stats(unwind_table_stats(table));
	unwind_table_free(table);
	return 0;
}
