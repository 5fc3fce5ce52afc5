/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_OWNER_H
#define __UNWIND_TABLES_OWNER_H

/* The user that a process works for */

#include <stdbool.h>
#include <linux/types.h>
#include <sys/types.h>

/* No user's ID */
#define OWNER_UNKNOWN	(~0U)

struct owner {
	char cgroup[256];
	/* For whom it counts if no cgroup tells: a user, or OWNER_UNKNOWN and a namespace */
	__u32 user;
	__u64 userns;
	/* Of the process; OWNER_UNKNOWN if these have not been read */
	__u32 uid;
	__u32 gid;
};

/* From here on, user IDs may be subordinate ones: a user namespace has as many as it likes. */
#define OWNER_MAX_UID	65536

/* The user with this ID, or who has it by /etc/subuid; OWNER_UNKNOWN: nobody, or root by that */
__u32 owner_of_uid(__u32 uid);

/* Of a user in /etc/passwd, or a number; OWNER_UNKNOWN: there is none */
__u32 owner_uid_named(const char *name);

/*
 * The user who has made the outermost user namespace below ours that @userns is in, and may enter
 * it and all in it; and its number. False: there is none.
 */
bool owner_of_namespace(int userns, __u32 *owner, __u64 *outermost);

/*
 * What the share of a process depends on. @proc: its directory in /proc. False: it has ended. The
 * user ID is not read if the others suffice: it stands in one file with all its groups, of which a
 * container may have given it 65536, and then takes 4 ms to read.
 */
bool owner_read(int proc, struct owner *owner);
/* The rest, if that has not been read */
bool owner_read_ids(int proc, struct owner *owner);
/* Is it in a cgroup that does not tell the user that its processes work for? */
bool owner_is_in_roots_cgroup(const struct owner *owner);
/* Is its share root's own? */
bool owner_is_root(const struct owner *owner);

#endif /* __UNWIND_TABLES_OWNER_H */
