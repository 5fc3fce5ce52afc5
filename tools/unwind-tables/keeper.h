/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_KEEPER_H
#define __UNWIND_TABLES_KEEPER_H

/*
 * Keep /dev/unwind_tables supplied with tables for the files that processes have
 * mapped. It starts processes that read files, and threads that wait for these, so the caller
 * must not wait for just any child. keeper_open() returns with the lock held, and the caller has
 * to hold it for every other call but keeper_lock().
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct keeper;

struct keeper_opts {
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
	 * before anybody has them mapped; see keeper_ahead(). These
	 * tables may take half the room that there is for all tables.
	 */
	const char * const *ahead;
	/* Called with a line that says which file failed, and why */
	void (*complain)(void *arg, const char *message);
	void *arg;
};

struct keeper_stats {
	uint64_t files;			/* that were looked at */
	uint64_t tables;		/* in the kernel now */
	uint64_t bytes;			/* of them */
	uint64_t no_cfi;		/* files without unwind information */
	uint64_t refused;		/* by the kernel, or not to be read */
	/* Of these, and the vDSO: for want of CAP_SYS_ADMIN; see keeper_open() */
	uint64_t denied;
	uint64_t unused;		/* files kept for @keep_seconds now */
	uint64_t dropped;		/* tables whose files nobody had mapped any more */
	uint64_t ahead;			/* of the tables: made ahead, or kept like those */
	uint64_t ahead_rows;		/* that these have */
	uint64_t ahead_bytes;		/* ... and their size */
	uint64_t build_ns;		/* spent on making tables */
	uint64_t cpu_ns;		/* of the reader, @build_ns included */
	uint64_t ahead_cpu_ns;		/* that the last walk ahead took, with all else meanwhile */
};

/*
 * -ENOENT: no such device in this kernel; -EPERM, -EACCES: not allowed.
 *
 * All tracers believe the tables. So the process that calls this needs CAP_SYS_ADMIN, at this
 * time only. Without it, only files that belong to its user get tables, except on overlayfs.
 */
int keeper_open(struct keeper **keeper, const struct keeper_opts *opts);
/* Before there are threads */
void keeper_close(struct keeper *keeper);
/* End the processes that read files. The caller ends with all threads, and waits for none. */
void keeper_stop(struct keeper *keeper);

void keeper_lock(struct keeper *keeper);
void keeper_unlock(struct keeper *keeper);
/* A descriptor that is readable as long as the keeper has news for the caller */
int keeper_news(const struct keeper *keeper);
void keeper_hear_news(struct keeper *keeper);

/*
 * The jobs of a share's thread. There are two queues, each first come, first served: one for the
 * first three kinds, and one for the last three, which wait until the first is empty.
 */
enum job_kind {
	JOB_EVENT,	/* A process has mapped something. */
	JOB_LOOK,	/* Look at all that a process has mapped. */
	JOB_PATH,	/* A file that need not be mapped */
	JOB_LIST,	/* What does a process still have mapped? */
	JOB_RETRY,	/* A file that has none may have a table now. */
	JOB_WALK,	/* Has anything changed that gets tables ahead? */
	JOB_KINDS,
};

/*
 * How many of them are still to be done? Those of a share that has not got on for some seconds do
 * not count.
 */
unsigned int keeper_awaits(const struct keeper *keeper, enum job_kind kind);

/*
 * Make sure that the file mapped executable at @address of process @pid has a table.
 * Cheap for a file that was seen before. @key identifies the file.
 */
void keeper_map(struct keeper *keeper, pid_t pid, uint64_t address, uint64_t key);

/*
 * Make sure that the file at @path has a table, before anybody has it mapped. It is kept as if
 * the last process had just unmapped it.
 */
void keeper_path(struct keeper *keeper, const char *path);

/* Give tables to the files of all executable mappings of @pid, and to the vDSO. */
void keeper_process(struct keeper *keeper, pid_t pid);

/*
 * ... of all processes, or those of shares that missed something. One call begins it; each call
 * of keeper_scan_on() gives some processes to their shares and returns whether there are more.
 */
void keeper_scan(struct keeper *keeper, bool all);
bool keeper_scan_on(struct keeper *keeper);
bool keeper_wants_scan(const struct keeper *keeper);

/*
 * Begin a walk ahead, from the beginning: make the tables of the files in the directories. Each
 * of these tables is kept until its file is removed or replaced, or until a running file of
 * root's own share needs the room. Directories are read again when this is asked for, or when a
 * sweep finds that some have been changed. Then the tables of files that the kernel has forgotten
 * in between are attached anew; otherwise that happens when the file is mapped.
 */
void keeper_ahead(struct keeper *keeper);
/* Has a walk ended since this was asked? */
bool keeper_has_walked(struct keeper *keeper);

/*
 * Drop tables of files that no process has had mapped for @keep_seconds. Returns whether there is
 * more to do: now, or when all shares have listed their mappings, of which there is news.
 */
bool keeper_sweep(struct keeper *keeper);
/* Can a look at all processes, or a sweep, go on at once? */
bool keeper_is_busy(const struct keeper *keeper);
/* When there should be a sweep, in seconds of CLOCK_MONOTONIC; 0: no matter */
time_t keeper_sweep_at(const struct keeper *keeper);

/*
 * The tables of another service are gone. Files that had none for want of room, or that had the
 * other's, get tables.
 */
void keeper_others_went(struct keeper *keeper);

/* Tables last as long as this descriptor of the device, or a copy of it. */
int keeper_device(const struct keeper *keeper);

/*
 * Leave out what the file at @path names, see unwind-tables(8); if the exclusions change, all
 * tables are dropped. If the file is wrong, the previous exclusions remain.
 */
void keeper_exclude(struct keeper *keeper, const char *path);

/*
 * Log how many lines of shares were left out, if it is time for that. Returns when there will be
 * more to say, in seconds of CLOCK_MONOTONIC, or 0.
 */
time_t keeper_say_left_out(struct keeper *keeper);

/* Have the published shares changed since they were written? */
bool keeper_has_changed(const struct keeper *keeper);
/* Publish the use of each share, for others to read. */
void keeper_publish_shares(struct keeper *keeper);

const struct keeper_stats *keeper_stats(const struct keeper *keeper);

#endif /* __UNWIND_TABLES_KEEPER_H */
