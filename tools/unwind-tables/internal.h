/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_INTERNAL_H
#define __UNWIND_TABLES_INTERNAL_H

/*
 * The parts of the keeper:
 *
 *	keeper.c	finds the share of a process; what to look at, and what to leave out
 *	jobs.c		a thread for each share that has work
 *	ask.c		asks the reader of a share, and charges the share that pays for it
 *	tables.c	has the table of a file made and attached, and sees what came of it
 *	room.c		decides which share gives way if there is not enough for all
 *	sweep.c		looks at what is still mapped
 *	walk.c		handles the files that ahead.c finds
 *
 * The others know nothing of it: files.c, share.c, kernel.c, reader.c; ahead.c only what is in
 * ahead.h.
 *
 * One lock protects all that is in here, and all that is called from here. A thread holds it
 * while it runs, and releases it to wait only: for an answer, a job, its turn, a place for a
 * parser, another share's work on the same file, the end of a process, events, or the close of a
 * user's file. After a call that may wait, files and shares have to be looked up again. Processes
 * and files of a share make only the thread of that share wait.
 */

#include <dirent.h>
#include <pthread.h>

#include "ahead.h"
#include "exclude.h"
#include "files.h"
#include "kernel.h"
#include "keeper.h"
#include "reader.h"
#include "share.h"

#define __printf(format, first) __attribute__((__format__(printf, format, first)))

struct job {
	struct job *next;
	enum job_kind kind;
	pid_t pid;
	__u64 address;
	/* Of an event: identifies its file */
	__u64 key;
	/* Of JOB_RETRY */
	struct mapping file;
	/* Of JOB_PATH */
	char *path;
};

/* Does the work of a share: a thread, with a reader. It ends when there is no more work. */
struct worker {
	struct worker *next;
	struct keeper *keeper;
	struct share *share;
	struct reader reader;
	/* The two queues: [0] for JOB_EVENT, JOB_LOOK and JOB_PATH, [1] for the later ones */
	struct job *first[2];
	struct job **last[2];
	unsigned int nr_jobs[JOB_KINDS];
	pthread_cond_t more;
	/* When it last made progress, with a question or a job */
	__s64 progress;
	/* It has its turn; the next worker that waits for one */
	bool at_work;
	struct worker *behind;
	/* The process of the last question about one; whether it is another share's now */
	struct process asked;
	bool moved;
	/* The share that pays for the next question, if it is not this one */
	struct share *payer;
	/* Questions that were not answered in time */
	unsigned int hangs;
	/* A walk ahead has found the present file: its table may take a part of the room. */
	bool on_walk;
	/* The file whose table is being made, and since when; 0: none is */
	struct file_id making;
	__s64 making_since;
	/* Since when it waits for a parser to begin, and to end, or 0; memory of the parser */
	__s64 awaits_parser;
	__s64 parsing_since;
	__u64 parser_bytes;
};

/* A look at what is still mapped */
struct sweep {
	bool runs;
	/* /proc, while not all processes have been given to their shares; otherwise NULL */
	DIR *proc;
	/* This is the second pass over /proc. */
	bool again;
	/* When the last process of this pass was given to its share */
	__s64 given;
	/* Somebody needs room. */
	bool wanted;
	/* When the last one ended */
	time_t last;
};

/* A process that did not answer in time is left alone for so long. */
#define KEEPER_SLOW_SECONDS	300
/* Processes whose shares are known, files that were looked at a moment ago */
#define KEEPER_NR_MAPPERS	4096
#define KEEPER_NR_RECENT	1024
/* Processes that could not be ended, and that nobody waits for: of root's share only */
#define KEEPER_MAX_LEFT		8

struct keeper {
	struct keeper_opts opts;
	pthread_mutex_t lock;
	/* A parser, or the making of a table, has ended. */
	pthread_cond_t changed;
	/* Can be read when there is news for the main thread */
	int news;
	struct worker *workers;
	/* Those that wait for their turn, in that order */
	struct worker *line;
	struct kernel kernel;
	struct files files;
	struct exclude exclude;
	unsigned int nr_excludes;
	/* Root's own */
	struct share *root;
	struct {
		pid_t pid;
		int pidfd;
		/* The process that it was to look at, which is left alone until it has ended */
		struct process asked;
	} left[KEEPER_MAX_LEFT];
	/* By the last bits of their PIDs; until when a process that hangs is left alone */
	struct {
		struct process process;
		struct share *share;
		time_t slow_until;
	} mappers[KEEPER_NR_MAPPERS];
	/* A shell script starts the same programs again and again. */
	struct {
		__u64 key;
		__s64 when;
	} recent[KEEPER_NR_RECENT];
	/* /proc, during a look at all processes, otherwise NULL; whether it is for all shares */
	DIR *scan;
	bool scan_all;
	/* A look is needed for the shares that missed something. */
	bool scan_wanted;
	struct sweep sweep;
	/* Something may have changed in the published shares. */
	bool changes;
	/* Room was made: files without a table may have one now. */
	bool made_room;
	/* The vDSO has a table, or cannot get one; the table is ours; the next try */
	bool vdso_done;
	bool has_vdso;
	time_t vdso_retry;
	/* Walks ahead; NULL if there are none. It is root's worker's. */
	struct ahead *ahead;
	bool walked;
	__u64 walk_cpu_ns;
	unsigned int walk;
	__u64 kernel_max;
	/* There was no room on this walk, or on the one before it. */
	bool ahead_full;
	bool ahead_was_full;
};

/* keeper.c */
/* Charged to a share, which may cause only so many lines; NULL: it is about the service */
void __printf(3, 4) keeper_complain(struct keeper *keeper, struct share *share, const char *format,
				    ...);
/* Once, for all files: it is about the user, and not about a file. */
void keeper_complain_denied(struct keeper *keeper);
void keeper_see_to_vdso(struct keeper *keeper);
/* Wake the main thread. */
void keeper_tell(struct keeper *keeper);
/*
 * The share of a process. It is read from /proc at once, and not by the share's thread: as long
 * as a share is not known, no time can be charged to it, and its user could start ever new
 * processes. NULL: the process has ended, a reader has started it, or there is no memory.
 */
struct share *keeper_share_of(struct keeper *keeper, pid_t pid);
void keeper_set_share(struct keeper *keeper, const struct process *process, struct share *share);
/* A process that hangs is left alone for a while. */
void keeper_leave_alone(struct keeper *keeper, const struct process *process);
bool keeper_leaves_alone(const struct keeper *keeper, const struct process *process);
/* May remove shares. */
void keeper_forget_mappers(struct keeper *keeper);
/* There are too many shares. */
void keeper_forget_old_shares(struct keeper *keeper);
/* Give more processes to their shares. Returns whether there are more; if not, closes @proc. */
bool keeper_give_processes(struct keeper *keeper, DIR **proc, enum job_kind kind);
/*
 * Ask the reader which files a process has mapped (@address 0), or which one it has at @address,
 * and see to each. Returns whether there is nothing left to do for the file at @address.
 */
bool keeper_see_process(struct worker *worker, pid_t pid, __u64 address);
void keeper_see_named(struct worker *worker, const char *path);

/* jobs.c */
/* Returns whether a worker will do it. */
bool keeper_give(struct keeper *keeper, struct share *share, const struct job *job);
/*
 * Cancel all JOB_LISTs that have not begun, and mark their shares as unlisted: their mappings are
 * not known, so the sweep drops none of their tables.
 */
void keeper_give_up_lists(struct keeper *keeper);
/*
 * Wait until a parser may begin. Their number is limited, since each takes memory and most take
 * a CPU. But for a small file of root's own share, or of one that has used next to no time of
 * late, there is nearly always a place. A parser that is not done after STUCK_NS does not count.
 * One that has waited for PATIENCE_NS begins before all others that are not for such files.
 */
void keeper_begin_parser(struct worker *worker);
void keeper_end_parser(struct worker *worker);
/* Wait while another share has the table of this file made, unless that takes long. */
void keeper_await_maker(struct worker *worker, const struct file_id *id);
/*
 * Wait until the process that the reader could not end has ended. Root's own worker leaves it
 * behind instead, as long as there is a place in keeper->left.
 */
void keeper_await_end(struct worker *worker);
/* May something be asked about a process, or if there is none, about a path? */
bool keeper_may_ask(const struct keeper *keeper, const struct process *process);
/* Is it a reader, has it been one, or was it started by one? */
bool keeper_is_own(const struct keeper *keeper, pid_t pid);

/* ask.c */
/* The file that the reader was at, or the process that it belongs to if it has no name */
const char *keeper_file_name(const struct worker *worker, char *text, size_t size);
/* About a process, or if @pid is 0 about the path in the page */
enum outcome keeper_ask(struct worker *worker, enum reader_question question, pid_t pid,
			__u64 address);
/* About the file that was asked about last */
enum outcome keeper_ask_more(struct worker *worker, enum reader_question question);

/* tables.c */
/* Handle a mapping that the reader has just listed. Returns whether it is settled. */
bool keeper_see_to(struct worker *worker, pid_t pid, const struct mapping *mapping);
/*
 * Make a table for a file that has none. It is for the file that the reader finds at the address,
 * which may be another one than before.
 */
bool keeper_new_table(struct worker *worker, struct share *share, pid_t pid, __u64 address,
		      const struct file_id *id);
/*
 * The kernel may have forgotten the file while nobody had it mapped; then the table exists, but is
 * not attached.
 */
void keeper_attach_to_seen(struct worker *worker, struct file *file);
/*
 * Attach a table again. OUTCOME_CHANGED: the table is of another file, or of other content;
 * OUTCOME_GONE: the file has been forgotten, or does not exist.
 */
enum outcome keeper_attach_again(struct worker *worker, pid_t pid, __u64 address,
				 const struct held *held);
bool keeper_excludes_user(const struct keeper *keeper, const struct file_id *id);
/* Once, as long as it does not change from one walk to the next */
void keeper_complain_ahead(struct keeper *keeper, const char *name, const char *why);

/* room.c */
/* For a table */
__u64 keeper_room(const struct worker *worker);
/*
 * There is no room for so many bytes. Returns whether there is more now; if not, there may be
 * after a sweep.
 */
bool keeper_make_room(struct worker *worker, struct share *share, __u64 bytes);
/* Make a place for one more file. Returns whether there is one now. */
bool keeper_make_place(struct worker *worker, struct share *share);
/* Drop the table of a file for which there is no need or no room. */
void keeper_drop(struct keeper *keeper, struct file *file);

/* sweep.c */
void keeper_list(struct worker *worker, pid_t pid);
/* @dropped: others were to give way, or did */
void keeper_try_again(struct worker *worker, const struct mapping *due, bool dropped);

/* walk.c */
/* From the beginning, or if anything has changed. */
void keeper_walk(struct worker *worker, bool anew);
/* Do a little. Returns whether there was something to do. */
bool keeper_walk_on(struct worker *worker);

#endif /* __UNWIND_TABLES_INTERNAL_H */
