/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_KEEPER_H
#define __UNWIND_KEEPER_H

/*
 * Keep /dev/unwind_tables supplied with tables for the files that processes have
 * mapped. Used by unwind-tables. One thread at a time may call in. It starts a process
 * that reads files, and waits for it: the caller may wait for its own children only.
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
	 * Tables of files that no process has mapped any more are kept for
	 * this long, unless room is needed: many programs are started again
	 * and again.
	 */
	unsigned int keep_seconds;
	/*
	 * NULL, or directories, the last one NULL, whose programs and libraries get tables
	 * before anybody has them mapped; see unwind_keeper_ahead(). These
	 * tables may take half the room that there is for all tables.
	 */
	const char * const *ahead;
	/* NULL, or is told in a line what went wrong with which file */
	void (*complain)(void *arg, const char *message);
	/* NULL, or is called before anything that takes up to 15 seconds */
	void (*alive)(void *arg);
	void *arg;
};

struct unwind_keeper_stats {
	uint64_t files;			/* that were looked at */
	uint64_t tables;		/* in the kernel now */
	uint64_t bytes;			/* of them */
	uint64_t no_cfi;		/* files without unwind information */
	uint64_t refused;		/* by the kernel, or not to be read */
	/* Of these, and the vDSO: for want of CAP_SYS_ADMIN; see unwind_keeper_open() */
	uint64_t denied;
	uint64_t unused;		/* files kept for @keep_seconds now */
	uint64_t dropped;		/* tables whose files nobody had mapped any more */
	uint64_t ahead;			/* of the tables: made ahead, or kept like those */
	uint64_t ahead_rows;		/* that these have */
	uint64_t ahead_bytes;		/* ... and their size */
	uint64_t build_ns;		/* spent on making tables */
	uint64_t cpu_ns;		/* of the reader, @build_ns included */
	/* Of that and of the calls: what is no look, but makes tables, or is charged to users */
	uint64_t apart_ns;
};

/*
 * -ENOENT: no such device in this kernel; -EPERM, -EACCES: not allowed.
 *
 * All tracers believe what is handed in. So the process that calls this has to have
 * CAP_SYS_ADMIN, at this time only. Without it, only files that belong to its user get tables,
 * except on overlayfs.
 */
int unwind_keeper_open(struct unwind_keeper **keeper, const struct unwind_keeper_opts *opts);
void unwind_keeper_close(struct unwind_keeper *keeper);

/*
 * Make sure that the file mapped executable at @address of process @pid has a table.
 * Cheap for a file that was seen before. 0 if it has a table; -ENODATA if none can be
 * made from it; -ESRCH if the process is gone; -ENOENT if nothing is mapped there any
 * more, as after execve(), in which case nothing is known about the file that
 * was there; -EBUSY if @pid is the process that reads files for the keeper,
 * which does not count. After other errors, a later call may succeed.
 */
int unwind_keeper_map(struct unwind_keeper *keeper, pid_t pid, uint64_t address);

/*
 * Make sure that the file at @path has a table, before anybody has it mapped. It is
 * kept as if somebody had just ceased to. Returns what unwind_keeper_map() does.
 */
int unwind_keeper_path(struct unwind_keeper *keeper, const char *path);

/* Give tables to the files of all executable mappings of @pid, and to the vDSO. */
int unwind_keeper_process(struct unwind_keeper *keeper, pid_t pid);

/* ... of all processes */
int unwind_keeper_all(struct unwind_keeper *keeper);

/*
 * Do a little of what is to be done ahead: read a part of a directory, or make the
 * table of one file. Returns whether there is more to do. These tables are kept until
 * the file is removed or replaced, or other files need the room because they run.
 * Directories are read again when this is asked for, or when a sweep finds that some
 * have been changed. Then the tables of files that the kernel has forgotten in
 * between are attached anew; otherwise that happens when the file is mapped.
 */
bool unwind_keeper_ahead(struct unwind_keeper *keeper);
bool unwind_keeper_is_ahead_due(const struct unwind_keeper *keeper);
/* From the beginning. Returns whether there is anything to do. */
bool unwind_keeper_ahead_again(struct unwind_keeper *keeper);

/*
 * Drop tables of files that no process has had mapped for @keep_seconds. Returns how
 * many.
 */
int unwind_keeper_sweep(struct unwind_keeper *keeper);

/*
 * Somebody else's tables are gone. Those files get tables that had none for want of room, or
 * that had the other's.
 */
void unwind_keeper_others_went(struct unwind_keeper *keeper);

/*
 * Give up all capabilities but these, for good. What the keeper starts has of the permitted ones
 * what it needs: CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE and CAP_DAC_READ_SEARCH; CAP_SETUID,
 * CAP_SETGID and CAP_KILL for those that become a user. The keeper itself uses CAP_PERFMON and
 * CAP_SYS_PTRACE.
 */
int unwind_keeper_limit_capabilities(uint64_t permitted, uint64_t effective);

/* Tables last as long as this descriptor of the device, or a copy of it. */
int unwind_keeper_device(const struct unwind_keeper *keeper);

/*
 * Leave out what the file at @path names, see unwind-tables(8); if that is not what was
 * left out before, all tables are dropped. 0, also if there is no such file; else what was
 * left out before still is.
 */
int unwind_keeper_exclude(struct unwind_keeper *keeper, const char *path);

/*
 * A line for each owner of files that are known: name, files, KB of their tables, and
 * "exhausted:" with "files", "room" or "time" if he gets no more of it for now.
 */
void unwind_keeper_print_shares(struct unwind_keeper *keeper, FILE *out);

void unwind_keeper_get_stats(const struct unwind_keeper *keeper,
			     struct unwind_keeper_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* __UNWIND_KEEPER_H */
