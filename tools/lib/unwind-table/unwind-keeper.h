/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_KEEPER_H
#define __UNWIND_KEEPER_H

/*
 * Keep /dev/unwind_tables supplied with tables for the files that processes have
 * mapped. Used by unwind-tables and by perf. One thread at a time may call in, which
 * need not be the one that opened it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct unwind_keeper;

struct unwind_keeper_opts {
	const char *device;		/* NULL: /dev/unwind_tables */
	uint64_t max_bytes;		/* of tables in the kernel; 0: no limit of its own */
	/*
	 * Tables of files that no process has mapped any more are kept for so long,
	 * unless room is needed: many programs are started again and again.
	 */
	unsigned int keep_seconds;
	/* NULL, or is told in a line what went wrong with which file */
	void (*complain)(void *arg, const char *message);
	void *arg;
};

struct unwind_keeper_stats {
	uint64_t files;			/* that were looked at */
	uint64_t tables;		/* in the kernel now */
	uint64_t bytes;			/* of them */
	uint64_t no_cfi;		/* files without unwind information */
	uint64_t refused;		/* by the kernel, or not to be read */
	uint64_t unused;		/* files that nobody had mapped at the last sweep */
	uint64_t dropped;		/* tables whose files nobody had mapped any more */
	uint64_t build_ns;		/* spent on making tables */
};

/* -ENOENT: no such device in this kernel; -EPERM, -EACCES: not allowed */
int unwind_keeper_open(struct unwind_keeper **keeper, const struct unwind_keeper_opts *opts);
void unwind_keeper_close(struct unwind_keeper *keeper);

/*
 * See to the executable mapping at @address of process @pid: its file gets a table
 * unless it has one. Cheap for a file that was seen before. 0 if it has a table;
 * -ENODATA if none can be made of it; -ESRCH if the process is gone.
 */
int unwind_keeper_map(struct unwind_keeper *keeper, pid_t pid, uint64_t address);

/* ... to all executable mappings of a process, its vDSO included */
int unwind_keeper_process(struct unwind_keeper *keeper, pid_t pid);

/* ... of all processes */
int unwind_keeper_all(struct unwind_keeper *keeper);

/*
 * Drop tables of files that no process has had mapped for @keep_seconds. Returns how
 * many.
 */
int unwind_keeper_sweep(struct unwind_keeper *keeper);

void unwind_keeper_get_stats(const struct unwind_keeper *keeper,
			     struct unwind_keeper_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* __UNWIND_KEEPER_H */
