/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_SHARE_H
#define __UNWIND_TABLES_SHARE_H

/*
 * The share that pays for a file: for its place in the keeper, for the room of its table, and for
 * the time that its worker and the keeper take for it.
 *
 * If a process of root's own share has a file mapped, or the file is in a directory of --ahead,
 * the file belongs to the share of its owner. All other files belong to the share of the process
 * that maps them, not of the owner: a file system may name any owner, and a container have
 * processes of any user. This also holds if the owner is root, or a user ID that nobody has.
 *
 * The share of a process is the first two parts of its cgroup, as user.slice/user-1000.slice or
 * system.slice/cron.service, below which others may make more. A process in the root cgroup, in
 * init.scope or in user.slice/user-0.slice belongs to root's own share if its user is root, and
 * to the share of its user otherwise. See owner.c for which user that is if the ID is a
 * subordinate one, or in a user namespace.
 *
 * Where there is not enough for all, the largest share gives way to smaller ones. Nobody takes
 * anything from root's own share.
 */

#include <stdbool.h>
#include <time.h>
#include <linux/types.h>

#include "owner.h"

/* If there are more, those unused for longest are dropped. */
#define SHARES_MAX	1024

/* CPU time for a share that is not root's: at once, and as a part of all time */
#define SHARE_TIME_NS	10000000000ll
#define SHARE_TIME_PART	50
/* A share that has not used more than this need not wait for others. */
#define SHARE_IDLE_NS	200000000ll

/* Lines of the log that a share may cause at once, and when there is one more */
#define SHARE_LINES		10
#define SHARE_LINE_SECONDS	3600
/* When the log says that some were left out; again only after the time for a line */
#define SHARE_SAY_SECONDS	60

/* Bytes of a name */
#define SHARE_NAME	160

enum share_lack {
	SHARE_FILES	= 1,
	SHARE_ROOM	= 2,
};

struct share {
	struct share *next;
	char name[SHARE_NAME];
	bool root;
	unsigned int nr_files;
	__u64 bytes;
	/* The resources that it was refused, until there may be some again; enum share_lack */
	unsigned int lacks;
	__s64 used_at;
	/* Nanoseconds that are left, as of @when; not for root's own */
	__s64 time;
	__s64 when;
	/* Its worker waits for a process that looks at its files and cannot be ended. */
	bool hung;
	/* Its worker, or NULL; how many need it to stay, the worker included */
	struct worker *worker;
	unsigned int users;
	/* It missed something, as when its queue was full: the next look includes it. */
	bool again;
	/* The look that is under way includes it. */
	bool looked_at;
	/* It had not finished the last look when this one began, which leaves it out. */
	bool looks;
	/* It needs room, so the next sweep drops its unused tables at once. */
	bool needy;
	/* Not all of its processes were listed in this sweep, so its unused files are not known. */
	bool unlisted;
	/* Lines that it has caused, as of @line_at; how many were left out, and when to say so */
	unsigned int lines;
	unsigned int left_out;
	time_t line_at;
	time_t say_at;
	time_t said_at;
};

struct shares {
	struct share *first;
	unsigned int nr;
	/* Memory that others find among our descriptors, if they may look at those; or -1 */
	int published;
};

/* The name of that memory */
#define SHARES_PUBLISHED	"unwind-tables-shares"

void shares_open(struct shares *shares);

/* NULL: no memory */
struct share *share_of_process(struct shares *shares, const struct owner *owner);
struct share *share_of_owner(struct shares *shares, __u32 uid);
struct share *share_of_root(struct shares *shares);

/* The largest share, if it is larger than @than would become; otherwise NULL */
struct share *share_with_more_files(struct shares *shares, const struct share *than);
struct share *share_with_more_room(struct shares *shares, const struct share *than,
				   __u64 bytes);

/* The name of the share of a process that has this owner */
void share_name(const struct owner *owner, char *name);

/* Root's own share always has time. Another one has none while one of its processes hangs. */
bool share_has_time(struct share *share);
/* Has it used next to nothing lately? */
bool share_is_idle(const struct share *share);
void share_take_time(struct share *share, __u64 ns);
/* Seconds until it has time again */
unsigned int share_wait(struct share *share);

/* May a line about its files be logged? If not, the line is counted as left out. */
bool share_may_complain(struct share *share);
/* How many lines were left out, once that is to be said; otherwise 0 */
unsigned int share_left_out(struct share *share);

/* The share to be removed, with its files: the oldest that nobody uses; or NULL */
struct share *shares_oldest(const struct shares *shares);
/* It has no files any more. */
void shares_remove(struct shares *shares, struct share *share);
/* Forget shares that have no files, no work, all of their time, and no left-out lines to report. */
void shares_tidy(struct shares *shares);
void shares_free(struct shares *shares);
/*
 * Publish the use of each share, for "stat": a line for each share, with its name, files, KB of
 * their tables, and "exhausted:" with "files", "room" or "time" if it gets no more of it for now. 0
 * or a negative errno
 */
int shares_publish(struct shares *shares);

#endif /* __UNWIND_TABLES_SHARE_H */
