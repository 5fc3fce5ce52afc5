/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_H
#define __UNWIND_TABLES_H

#include <gelf.h>
#include <stdbool.h>
#include <linux/types.h>
#include <sys/types.h>

/* Exit status */
enum {
	EXIT_OK,
	EXIT_FAILED,	/* or differences were found */
	EXIT_USAGE,
};

struct unwind_table;

/* The parts of a table */
struct view {
	const struct unwind_table_header *header;
	const struct unwind_table_run *runs;
	const __u32 *blocks;
	const struct unwind_table_row *rows;
	const struct unwind_table_rule *rules;
};

/* The verbs. They return the exit status; argv[0] is the verb. */
int cmd_serve(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_stat(int argc, char **argv);

#define __printf(format, first) __attribute__((__format__(printf, format, first)))

/* log.c: levels are those of syslog(3) */
#define LOG_ERR		3
#define LOG_WARNING	4
#define LOG_INFO	6

void __printf(2, 3) log_line(int level, const char *format, ...);

#define log_error(...)	log_line(LOG_ERR, __VA_ARGS__)

/* Why the device cannot be opened, given the error of open() */
void log_no_device(const char *device, int error);

/* Replace the control characters of a name: it may go to a terminal. */
void log_printable(char *text);

/* table.c */

/*
 * Make the table of a file for reading. Returns the open file, or -1 after it has printed
 * why not.
 */
int table_read(const char *path, struct unwind_table **table);
void table_print_summary(const struct unwind_table *table);
double table_percent(__u64 part, __u64 whole);
void table_set_view(struct view *view, const struct unwind_table *table);

/* The first row of a page; of the one after the last, the number of rows */
__u32 table_first_row(const struct view *view, __u32 page);

/* The executable segments of a file; NULL if they cannot be read */
GElf_Phdr *table_code_segments(Elf *elf, size_t *nr_code);

/* workload.c */
typedef void (*workload_file_t)(void *arg, const char *path, unsigned int left, __u64 list_ns);

void workload_files(const char *name, workload_file_t found, void *arg);

/* events.c: executable mappings of files, and ends, of all processes */
struct events;

struct events_seen {
	bool exited;	/* Some process has ended. */
	bool lost;	/* Records were lost. */
};

/* Called for a mapping. @key identifies the file, by all that the kernel says of it. */
typedef void (*events_mapping_t)(void *arg, pid_t pid, __u64 address, __u64 key);

/* Once, before capabilities are given up: the process that opens events keeps its own. */
int events_start(void);
int events_open(struct events **events);
void events_close(struct events *events);
int events_nr(const struct events *events);
int events_fd(const struct events *events, int i);
void events_read(struct events *events, events_mapping_t mapped, void *arg,
		 struct events_seen *seen);

/* Are other CPUs online than when the events were opened, or have some been off since? */
bool events_outdated(const struct events *events);

#endif /* __UNWIND_TABLES_H */
