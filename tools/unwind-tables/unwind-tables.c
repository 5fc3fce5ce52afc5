// SPDX-License-Identifier: GPL-2.0
/*
 * unwind-tables - keep the kernel supplied with tables of unwind rules for the
 * programs that run, and show what is in such tables.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "unwind-table.h"
#include "unwind-tables.h"

#ifndef VERSION
#define VERSION "6.12"
#endif

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
} verbs[] = {
	{ "serve",	cmd_serve },
	{ "show",	cmd_show },
	{ "check",	cmd_check },
	{ "stat",	cmd_stat },
	{ }
};

static void print_usage(FILE *out)
{
	fputs("usage: unwind-tables serve [--max-mb N] [--keep SECONDS] [--keep-priority]\n"
	      "                           [--ahead PATH[:PATH...]] [--device PATH] [--parent]\n"
	      "                           [--only=[PID,...]] [--exclude FILE]\n"
	      "       unwind-tables show [--samples PERF.DATA] FILE\n"
	      "       unwind-tables show --rows FILE | FILE START[-END]\n"
	      "       unwind-tables check [--all] [--instructions[=given]] FILE...\n"
	      "       unwind-tables stat [PID]\n"
	      "       unwind-tables --help | --version\n"
	      "\n"
	      "serve  keep the kernel supplied with tables for the files that\n"
	      "       processes execute, until it is told to end\n"
	      "show   print how much of the code of an ELF file has rules, and which\n"
	      "       functions have none: the largest ones, or those where most user\n"
	      "       stacks of a recording are cut; or the rows of the table. START and\n"
	      "       END are offsets in the file, hexadecimal\n"
	      "check  compare tables with what elfutils reads in the same files; or rules\n"
	      "       that are made by following instructions with those of .eh_frame\n"
	      "stat   print which tables the kernel has, or which files of a process\n"
	      "       have one\n"
	      "\n"
	      "See unwind-tables(8).\n", out);
}

static int bad_usage(const char *what, const char *word)
{
	log_error("%s: %s; see unwind-tables --help", word, what);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	const struct verb *verb;

	if (argc < 2) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_usage(stdout);
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("unwind-tables " VERSION ", %s\n", unwind_table_follows() ?
		       "follows instructions with Zydis" :
		       "does not follow instructions: built without Zydis");
		return EXIT_OK;
	}
	if (argv[1][0] == '-')
		return bad_usage("unknown option", argv[1]);

	for (verb = verbs; verb->name; verb++) {
		if (strcmp(argv[1], verb->name))
			continue;
		/* "show --help" is asked for easily. */
		if (argc > 2 && !strcmp(argv[2], "--help")) {
			print_usage(stdout);
			return EXIT_OK;
		}
		return verb->run(argc - 1, argv + 1);
	}
	return bad_usage("unknown command", argv[1]);
}
