/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_TABLE_FILE_H
#define _KERNEL_UNWIND_TABLE_FILE_H

/*
 * Which table applies to a file. Code maps (code.c) point to the file that code is
 * mapped from, so every mm sees a table for it as soon as that is attached, and until it
 * is detached.
 *
 *	unwind_file	one for each inode that has a table, and as long as a code map
 *			has it. The inode does not point to it, and it holds no
 *			reference to the inode
 *	unwind_attach	one for each table that is attached to it: the first
 *			one applies
 */

#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <linux/unwind_user_types.h>

#include "table.h"

struct inode;
struct unwind_identity;

/**
 * struct unwind_file - Something that tables can be attached to
 * @first:	The attachment that applies, or NULL. Read under RCU
 * @key:	What it is found by: an inode, or the image of a vDSO. NULL once the inode
 *		is gone
 * @dev:	Device of the inode, for the trace
 * @ino:	Number of the inode; 0 if there is none
 * @hash:	In the hash table of files, as long as @key is not NULL
 * @attached:	Tables that were attached, see struct unwind_attach
 * @ref:	One for each range of a code map, one for each attachment
 * @rcu:	To free it
 *
 * @key, @hash and @attached are protected by the lock of table_file.c.
 */
struct unwind_file {
	struct unwind_attach __rcu	*first;
	const void			*key;
	dev_t				dev;
	unsigned long			ino;
	struct hlist_node		hash;
	struct list_head		attached;
	refcount_t			ref;
	struct rcu_head			rcu;
};

/**
 * struct unwind_attach - A table and a file that it is for
 * @table:	The table
 * @file:	The file, which detaches its attachments when it is removed
 * @of_file:	In unwind_file::attached
 * @of_table:	In unwind_table::attached
 * @size:	Of the inode, when the table was attached
 * @mtime:	Its time of modification
 * @rcu:	To free it
 */
struct unwind_attach {
	struct unwind_table	*table;
	struct unwind_file	*file;
	struct list_head	of_file;
	struct list_head	of_table;
	loff_t			size;
	struct timespec64	mtime;
	struct rcu_head		rcu;
};

/*
 * May this mapping have other code than its file? Only if it is private, as long as it can
 * be written. Pages that were copied for breakpoints do not count: the code around these is
 * the same.
 */
static inline bool unwind_vma_may_differ(const struct vm_area_struct *vma)
{
	return (READ_ONCE(vma->vm_flags) & (VM_WRITE | VM_SHARED)) == VM_WRITE;
}

DECLARE_STATIC_KEY_FALSE(unwind_files_key);

/* Is the device open? Code that depends on this needs no stubs. */
static inline bool unwind_files_used(void)
{
	return IS_ENABLED(CONFIG_UNWIND_USER_TABLE) &&
	       static_branch_unlikely(&unwind_files_key);
}

/* Changes after a file without table has got one */
extern unsigned int unwind_files_nr_added;

static inline unsigned int unwind_files_added(void)
{
	if (!IS_ENABLED(CONFIG_UNWIND_USER_TABLE))
		return 0;
	/* Pairs with unwind_file_attach(): read before the search for the file. */
	return smp_load_acquire(&unwind_files_nr_added);
}

/* Is the inode gone? Another one may have its address, and tables. */
static inline bool unwind_file_is_dead(const struct unwind_file *file)
{
	return !READ_ONCE(file->key);
}

void unwind_files_open(void);
void unwind_files_close(void);

struct unwind_table *unwind_file_find_table(const void *key,
					    const struct unwind_identity *identity);
struct unwind_file *unwind_file_get(const void *key, const struct inode *inode);
int unwind_file_attach(const void *key, const struct inode *inode,
		       struct unwind_attach *attach);
void unwind_table_detach(struct unwind_table *table);

void unwind_files_count_walk(enum unwind_user_status end, unsigned int frames,
			     unsigned int fp_frames);

/*
 * The table that applies, in an RCU reader, which keeps it. User access may be enabled: no
 * rcu_dereference() here, whose checks may schedule, and the task would lose that access.
 */
static inline struct unwind_table *unwind_file_table(const struct unwind_file *file)
{
	struct unwind_attach *first;

	if (!IS_ENABLED(CONFIG_UNWIND_USER_TABLE))
		return NULL;
	first = rcu_dereference_raw(file->first);
	return first ? first->table : NULL;
}

#ifdef CONFIG_UNWIND_USER_TABLE
void unwind_file_put(struct unwind_file *file);
#else
static inline void unwind_file_put(struct unwind_file *file) { }
#endif

#endif /* _KERNEL_UNWIND_TABLE_FILE_H */
