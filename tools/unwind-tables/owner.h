/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_OWNER_H
#define __UNWIND_TABLES_OWNER_H

/* For whom a process works */

#include <stdbool.h>
#include <linux/types.h>
#include <sys/types.h>

/* Of a process that has ended */
#define OWNER_UNKNOWN	(~0U)

struct owner {
	/* Of the process */
	pid_t parent;
	__u32 uid;
	__u32 gid;
	/* Whom it counts for where no cgroup tells: a user, or OWNER_UNKNOWN and a namespace */
	__u32 user;
	__u64 userns;
	char cgroup[256];
};

/* From here on, user IDs may be subordinate ones: a user namespace has as many as it likes. */
#define OWNER_MAX_UID	65536

/* Who has a user ID: himself, or by /etc/subuid; OWNER_UNKNOWN: nobody, or root by that */
__u32 owner_of_uid(__u32 uid);

/*
 * Who has made the outermost user namespace below @own that @userns is in, and may enter that and
 * all that are in it; and its number. False: there is none.
 */
bool owner_of_namespace(int userns, int own, __u32 *owner, __u64 *outermost);

/* @proc: its directory in /proc */
void owner_read(int proc, struct owner *owner);
/* Is it in a cgroup that says nothing about whom its processes work for? */
bool owner_is_in_roots_cgroup(const struct owner *owner);
/* Is its share root's own? */
bool owner_is_root(const struct owner *owner);

#endif /* __UNWIND_TABLES_OWNER_H */
