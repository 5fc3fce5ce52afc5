/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_TABLE_H
#define _LINUX_UNWIND_TABLE_H

/* Hook of the VFS for tables of unwind rules for files */

#include <linux/jump_label.h>

struct inode;

#ifdef CONFIG_UNWIND_USER_TABLE

DECLARE_STATIC_KEY_FALSE(unwind_files_key);

void __unwind_file_forget(const struct inode *inode);

/**
 * unwind_file_forget - Forget what was kept for an inode that is being destroyed
 * @inode:	Inode without users
 *
 * Context: Any in which an inode can be destroyed. While the device for tables is
 *	    open, takes a spinlock if something was kept.
 */
static inline void unwind_file_forget(const struct inode *inode)
{
	if (static_branch_unlikely(&unwind_files_key))
		__unwind_file_forget(inode);
}

#else

static inline void unwind_file_forget(const struct inode *inode) { }

#endif
#endif /* _LINUX_UNWIND_TABLE_H */
