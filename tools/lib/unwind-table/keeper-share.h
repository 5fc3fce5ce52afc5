/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_KEEPER_SHARE_H
#define __UNWIND_KEEPER_SHARE_H

/*
 * Who pays for a file: what the keeper remembers of it, room for its table, and the time
 * that the reader and the keeper take for it.
 *
 * A file belongs to the share of its owner, if he or root has it mapped, or it is in a
 * directory of --ahead. Other files belong to the share of the process that maps them: a file
 * system may name any owner. So do files of root, and those of users from SHARE_MAX_UID on, of
 * which a user namespace has as many as it likes. The share of a process is the first two parts
 * of its cgroup, as user.slice/user-1000.slice or system.slice/cron.service, below which others
 * may make more. A process that is in the root cgroup, in init.scope or in user-0.slice stands for
 * root if it is root's, and else for its user.
 *
 * Where there is not enough for all, who has most gives way to who has less. Nobody takes
 * anything from root's own share.
 */

#include <stdbool.h>
#include <stdio.h>
#include <linux/types.h>

#define SHARE_MAX_UID	65536
/* Of a process that has ended */
#define OWNER_UNKNOWN	(~0U)

/* Time for a share that is not root's: at once, and of all time */
#define SHARE_TIME_NS	10000000000ll
#define SHARE_TIME_PART	50

/* What CLOCK_MONOTONIC says */
__s64 monotonic_ns(void);

/* A process that maps files, as the reader sees it */
struct owner {
	__u32 uid;
	__u32 gid;
	char cgroup[256];
};

void owner_read(int proc, struct owner *owner);
/* Is its share root's own? */
bool owner_is_root(const struct owner *owner);

enum share_lack {
	SHARE_FILES	= 1,
	SHARE_ROOM	= 2,
};

struct share {
	struct share *next;
	char name[160];
	bool root;
	unsigned int nr_files;
	__u64 bytes;
	/* What it has been refused since it last got some; enum share_lack */
	unsigned int lacks;
	/* Nanoseconds that are left, as of @when; not for root's own */
	__s64 time;
	__s64 when;
	/* A pidfd, or -1: what looks at its files, waits for one, and cannot be ended */
	int hung;
};

struct shares {
	struct share *first;
	unsigned int nr;
};

/* NULL: no memory */
struct share *share_of_process(struct shares *shares, const struct owner *owner);
struct share *share_of_owner(struct shares *shares, __u32 uid);
struct share *share_of_root(struct shares *shares);

/* Whoever has the most, and more than this one would have; NULL: nobody */
struct share *share_with_more_files(struct shares *shares, const struct share *than);
struct share *share_with_more_room(struct shares *shares, const struct share *than,
				   __u64 bytes);

/* None while something hangs: what comes next would, too, and there is no end to it. */
bool share_has_time(struct share *share);
/* Takes the pidfd. What hangs for root, whose devices are left alone, is not waited for. */
void share_set_hung(struct share *share, int pidfd);
void share_take_time(struct share *share, __u64 ns);
/* Seconds until there is some again */
unsigned int share_wait(struct share *share);

/* Forget those that have nothing and lack nothing. */
void shares_tidy(struct shares *shares);
void shares_free(struct shares *shares);
void shares_print(struct shares *shares, FILE *out);

#endif /* __UNWIND_KEEPER_SHARE_H */
