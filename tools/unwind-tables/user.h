/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_USER_H
#define __UNWIND_TABLES_USER_H

/*
 * Files that a file system shows to the user of a process and not to the reader. The user is
 * that of the process of the last question about one.
 */

#include <stdbool.h>
#include <linux/types.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "owner.h"

/*
 * @proc stays open until the next call of user_forget(). @child has the PID of each child while it
 * lives.
 */
void user_set(int proc, const struct owner *owner, pid_t *child);
void user_forget(void);

/* Has the user been needed since? Then he pays for the file, and may have interfered. */
bool user_was_needed(void);

/*
 * As fstat(), and open() of a known regular file: 0 or a descriptor, otherwise a negative errno.
 * -EAGAIN: the user interfered.
 */
int user_stat(int fd, struct stat *st);
int user_open(int fd);

/*
 * This process becomes the user, and keeps neither capabilities nor a descriptor from @first on; or
 * it ends. Once.
 */
void user_become(pid_t parent, int first);

#endif /* __UNWIND_TABLES_USER_H */
