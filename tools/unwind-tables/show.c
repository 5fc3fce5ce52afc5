// SPDX-License-Identifier: GPL-2.0
/* unwind-tables show: the table of a file */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unwind-table.h"
#include "unwind-tables.h"

static bool parse_offset(const char *text, char **end, __u64 *offset)
{
	errno = 0;
	*offset = strtoull(text, end, 16);
	return !errno && *end != text && *text != '-' && *text != '+' &&
	       *text != ' ';
}

/* START or START-END, which is not included; only START: what counts there */
static bool parse_range(const char *text, __u64 *start, __u64 *end)
{
	char *rest;

	if (!parse_offset(text, &rest, start))
		return false;
	if (!*rest) {
		*end = *start + 1;
		return true;
	}
	return *rest == '-' && parse_offset(rest + 1, &rest, end) && !*rest &&
	       *start < *end;
}

int cmd_show(int argc, char **argv)
{
	__u64 start = 0, end = UINT64_MAX;
	struct unwind_table *table;
	int fd, error;

	if (argc > 1 && !strcmp(argv[1], "--")) {
		argv++;
		argc--;
	} else if (argc > 1 && argv[1][0] == '-') {
		error_line("show: unknown option %s; see unwind-tables --help",
			   argv[1]);
		return EXIT_USAGE;
	}
	if (argc < 2 || argc > 3) {
		error_line("show: needs a file, and perhaps a range; see unwind-tables --help");
		return EXIT_USAGE;
	}
	if (argc == 3 && !parse_range(argv[2], &start, &end)) {
		error_line("show: %s: no range of offsets such as 1000 or 1000-1fff",
			   argv[2]);
		return EXIT_USAGE;
	}

	fd = table_of(argv[1], &table);
	if (fd < 0)
		return EXIT_FAILED;
	close(fd);
	error = unwind_table_print(table, start, end, stdout);
	if (!error && argc == 2)
		print_summary(table);
	unwind_table_free(table);
	if (error || fflush(stdout) || ferror(stdout)) {
		error_line("show: cannot print: %s",
			   strerror(error ? -error : errno));
		return EXIT_FAILED;
	}
	return EXIT_OK;
}
