/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_TABLE_FILE_H
#define _KERNEL_UNWIND_TABLE_FILE_H

/*
 * Which table applies to a file. The store of an mm (sframe_mm.c) points to the
 * file that code is mapped from, so every mm sees a table for it as soon as that is
 * attached, and until it is detached.
 *
 *	unwind_file	one for each inode that a stack was walked through, or
 *			that has a table, while the device is open. The inode
 *			does not point to it, and it holds no reference to the
 *			inode
 *	unwind_attach	one for each table that is attached to it: the first
 *			one applies
 */

#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <linux/unwind_rule.h>
#include <linux/unwind_user_types.h>

#include "table.h"

struct inode;

/**
 * struct unwind_file - Something that tables can be attached to
 * @table:	The one that applies, or NULL. Read under RCU
 * @key:	What it is found by: an inode, or the image of a vDSO. The file itself
 *		for memory that has a table of its own. NULL after that has gone
 * @dev:	Device of the inode, for the trace
 * @ino:	Number of the inode; 0 if there is none
 * @hash:	In the hash table of files, unless it is memory
 * @attached:	Tables that were attached, see struct unwind_attach
 * @ref:	One for each range or entry of a store, one for the hash table
 * @rcu:	To free it
 *
 * @key, @hash and @attached are protected by the lock of table_file.c.
 */
struct unwind_file {
	struct unwind_table __rcu	*table;
	const void			*key;
	dev_t				dev;
	unsigned long			ino;
	struct hlist_node		hash;
	struct list_head		attached;
	refcount_t			ref;
	struct rcu_head			rcu;
};

/**
 * struct unwind_owner - Somebody who attaches tables
 * @attached:	How many attachments there are
 */
struct unwind_owner {
	atomic_t	attached;
};

/**
 * struct unwind_attach - A table and a file that it is for
 * @table:	The table
 * @file:	The file, which knows its attachments when it goes
 * @of_file:	In unwind_file::attached
 * @of_table:	In the list of whoever made the table
 * @size:	Of the inode, when the table was attached
 * @mtime:	Its time of modification
 * @owner:	The descriptor that attached it
 */
struct unwind_attach {
	struct unwind_table	*table;
	struct unwind_file	*file;
	struct list_head	of_file;
	struct list_head	of_table;
	loff_t			size;
	struct timespec64	mtime;
	struct unwind_owner	*owner;
};

/**
 * struct unwind_file_counts - What walks did while the device was open
 * @walks:	How many there were of 64-bit code
 * @complete:	Those that reached the outermost frame
 * @frames:	Callers that were found by tables for files
 * @fp_frames:	Callers that were found by frame pointer, as there was no table
 */
struct unwind_file_counts {
	u64	walks;
	u64	complete;
	u64	frames;
	u64	fp_frames;
};

/*
 * May this mapping have other code than its file? After it was written to, as long as
 * it can be. Pages that were copied for breakpoints do not count: the code around these
 * is the same.
 */
static inline bool unwind_vma_may_differ(const struct vm_area_struct *vma)
{
	return (vma->vm_flags & (VM_WRITE | VM_SHARED)) == VM_WRITE;
}

#ifdef CONFIG_UNWIND_USER_TABLE

/* Does anybody have the device open? */
DECLARE_STATIC_KEY_FALSE(unwind_files_key);

static inline bool unwind_files_used(void)
{
	return static_branch_unlikely(&unwind_files_key);
}

/*
 * Changes with each table that begins to count for a file, or ceases to. Read
 * before the table is, and so older than what is learnt from that.
 */
extern atomic64_t unwind_files_gen;

static inline u64 unwind_files_get_gen(void)
{
	/* Pairs with next_gen() in table_file.c. */
	return atomic64_read_acquire(&unwind_files_gen);
}

/* Changes when the device is opened for the first time: no store has files. */
extern unsigned int unwind_files_epoch;

static inline unsigned int unwind_files_get_epoch(void)
{
	return READ_ONCE(unwind_files_epoch);
}

void unwind_files_open(void);
void unwind_files_close(void);

struct unwind_file *unwind_file_get(const struct inode *inode, const void *key,
				    gfp_t gfp);
struct unwind_file *unwind_file_new(gfp_t gfp);
void unwind_file_put(struct unwind_file *file);
void unwind_file_gone(struct unwind_file *file);
int unwind_file_attach(struct unwind_file *file, struct unwind_attach *attach,
		       struct list_head *of_table);
enum unwind_user_status unwind_file_rule(const struct unwind_file *file,
					 u64 offset, struct unwind_rule *rule);
bool unwind_files_detach_some(struct list_head *of_table);

void unwind_files_count(const struct unwind_user_state *state);
void unwind_files_counts(struct unwind_file_counts *counts);

/* The table that applies. In an RCU reader, which keeps it */
static inline const struct unwind_table *
unwind_file_table(const struct unwind_file *file)
{
	return rcu_dereference(file->table);
}

/* Does the table that applies say that the file has no SFrame table? */
static inline bool unwind_file_claims_no_sframe(const struct unwind_file *file)
{
	const struct unwind_table *table;

	guard(rcu)();
	table = unwind_file_table(file);
	return table && table->no_sframe;
}

#else /* !CONFIG_UNWIND_USER_TABLE */

static inline bool unwind_files_used(void)
{
	return false;
}

static inline u64 unwind_files_get_gen(void)
{
	return 0;
}

static inline unsigned int unwind_files_get_epoch(void)
{
	return 0;
}

static inline struct unwind_file *
unwind_file_get(const struct inode *inode, const void *key, gfp_t gfp)
{
	return NULL;
}

static inline const struct unwind_table *
unwind_file_table(const struct unwind_file *file)
{
	return NULL;
}

static inline bool unwind_file_claims_no_sframe(const struct unwind_file *file)
{
	return false;
}

static inline void unwind_file_put(struct unwind_file *file) { }
static inline void unwind_file_gone(struct unwind_file *file) { }

static inline enum unwind_user_status
unwind_file_rule(const struct unwind_file *file, u64 offset,
		 struct unwind_rule *rule)
{
	return UNWIND_USER_NO_RULE;
}

static inline int unwind_file_attach(struct unwind_file *file,
				     struct unwind_attach *attach,
				     struct list_head *of_table)
{
	return -EINVAL;
}

static inline void unwind_files_count(const struct unwind_user_state *state) { }

#endif /* CONFIG_UNWIND_USER_TABLE */
#endif /* _KERNEL_UNWIND_TABLE_FILE_H */
