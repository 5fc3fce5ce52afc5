// SPDX-License-Identifier: GPL-2.0
/*
 * Which table applies to a file.
 *
 * A file is identified by its inode. Nothing here holds a reference to the inode:
 * otherwise a file system could not be unmounted. Instead, a hook where inodes are
 * destroyed removes what was kept for it. While some code is mapped from a file, its
 * inode stays.
 */

#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/jump_label.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/unwind_table.h>
#include <linux/unwind_user.h>

#include "code.h"
#include "table_file.h"

#define CREATE_TRACE_POINTS
#include <trace/events/unwind_table.h>

DEFINE_STATIC_KEY_FALSE(unwind_files_key);

unsigned int unwind_files_nr_added;

/* Most files that have tables */
#define MAX_FILES		BIT(16)

static DEFINE_HASHTABLE(unwind_files_hash, 12);
static unsigned int unwind_files_nr;
/* Protects the two above, the fields that struct unwind_file names, and all attachments */
static DEFINE_SPINLOCK(unwind_files_lock);

/* How often the device is open; and whether there are tables for walks in place */
static unsigned int unwind_files_nr_open;
DEFINE_STATIC_KEY_FALSE(unwind_in_place_key);
/* Protects @unwind_files_nr_open and the keys */
static DEFINE_MUTEX(unwind_files_open_lock);

static void unwind_file_use_first(struct unwind_file *file)
{
	struct unwind_attach *first, *old;

	lockdep_assert_held(&unwind_files_lock);

	first = list_first_entry_or_null(&file->attached, struct unwind_attach,
					 of_file);
	old = rcu_dereference_protected(file->first, true);
	if (first == old)
		return;
	rcu_assign_pointer(file->first, first);
	if (!old) {
		/*
		 * Pairs with unwind_files_added(): a walk that sees this sees the table,
		 * see table+range.litmus.
		 */
		smp_store_release(&unwind_files_nr_added, unwind_files_nr_added + 1);
	}
}

static void unwind_file_unhash(struct unwind_file *file)
{
	lockdep_assert_held(&unwind_files_lock);

	if (!file->key)
		return;
	hash_del_rcu(&file->hash);
	WRITE_ONCE(file->key, NULL);
	unwind_files_nr--;
}

static void unwind_file_put_locked(struct unwind_file *file)
{
	if (refcount_dec_and_test(&file->ref)) {
		unwind_file_unhash(file);
		kfree_rcu(file, rcu);
	}
}

/**
 * unwind_file_put - Drop a reference
 * @file:	File, or NULL
 */
void unwind_file_put(struct unwind_file *file)
{
	if (!file || refcount_dec_not_one(&file->ref))
		return;
	guard(spinlock)(&unwind_files_lock);
	unwind_file_put_locked(file);
}

static void unwind_file_detach(struct unwind_attach *attach)
{
	struct unwind_file *file = attach->file;

	lockdep_assert_held(&unwind_files_lock);

	list_del(&attach->of_file);
	list_del(&attach->of_table);
	atomic_dec(attach->table->owner);
	unwind_file_use_first(file);
	trace_unwind_table_file(attach->table->serial, file->dev, file->ino,
				"detached");
	unwind_file_put_locked(file);
	kfree_rcu(attach, rcu);
}

static struct unwind_file *unwind_file_find(const void *key)
{
	struct unwind_file *file;

	hash_for_each_possible_rcu(unwind_files_hash, file, hash, (unsigned long)key,
				   lockdep_is_held(&unwind_files_lock)) {
		if (READ_ONCE(file->key) == key)
			return file;
	}
	return NULL;
}

/* The inode is gone: so are its tables, and another one can be at its address. */
static void unwind_file_remove(struct unwind_file *file)
{
	struct unwind_attach *attach, *next;

	lockdep_assert_held(&unwind_files_lock);

	refcount_inc(&file->ref);
	unwind_file_unhash(file);
	/* The one that applies is detached last, so that no other takes its place. */
	list_for_each_entry_safe_reverse(attach, next, &file->attached, of_file)
		unwind_file_detach(attach);
	unwind_file_put_locked(file);
}

void __unwind_file_forget(const struct inode *inode)
{
	struct unwind_file *file;

	/* Most inodes have none. */
	scoped_guard(rcu) {
		if (!unwind_file_find(inode))
			return;
	}

	guard(spinlock)(&unwind_files_lock);
	file = unwind_file_find(inode);
	if (file)
		unwind_file_remove(file);
}

/*
 * Detach tables that were made before the file was changed. The time of change of the
 * inode does not count, since a new name or mode sets it, too.
 */
static void unwind_file_drop_stale(struct unwind_file *file, const struct inode *inode)
{
	struct timespec64 mtime = inode_get_mtime(inode);
	struct unwind_attach *attach, *next;

	lockdep_assert_held(&unwind_files_lock);

	list_for_each_entry_safe(attach, next, &file->attached, of_file) {
		if (attach->size != i_size_read(inode) ||
		    !timespec64_equal(&attach->mtime, &mtime))
			unwind_file_detach(attach);
	}
}

/**
 * unwind_file_find_table - Find the table for a file as it is now
 * @key:	What the file is known by
 * @identity:	Identity of its contents; NULL if any will do
 *
 * Context: Any, in an RCU reader, until the end of which the table is valid
 * Return: The table, or NULL.
 */
struct unwind_table *unwind_file_find_table(const void *key,
					    const struct unwind_identity *identity)
{
	const struct unwind_file *file = unwind_file_find(key);
	const struct unwind_attach *first = file ? rcu_dereference(file->first) : NULL;

	if (!first || (identity && (first->size != identity->size ||
				    first->mtime.tv_sec != identity->mtime_sec ||
				    first->mtime.tv_nsec != identity->mtime_nsec)))
		return NULL;
	return first->table;
}

/**
 * unwind_file_get - Get a file that has a table
 * @key:	What it is known by
 * @inode:	Inode that cannot be destroyed now; NULL if it is the vDSO
 *
 * Tables that were made for earlier contents of the inode are detached.
 *
 * Context: Process context, may be atomic.
 * Return: The file, with a reference; NULL if there is no table for it.
 */
struct unwind_file *unwind_file_get(const void *key, const struct inode *inode)
{
	struct unwind_file *file;

	scoped_guard(rcu) {
		if (!unwind_file_find(key))
			return NULL;
	}

	guard(spinlock)(&unwind_files_lock);
	file = unwind_file_find(key);
	if (!file)
		return NULL;
	refcount_inc(&file->ref);
	if (inode)
		unwind_file_drop_stale(file, inode);
	if (rcu_access_pointer(file->first))
		return file;
	unwind_file_put_locked(file);
	return NULL;
}

/**
 * unwind_file_attach - Use a table for a file
 * @key:	What the file is known by
 * @inode:	Inode that cannot be destroyed now; NULL if it is the vDSO
 * @attach:	The attachment, with table, size and time
 *
 * Context: Process context with the device open, may sleep.
 * Return: 0; -EEXIST if the table's owner has attached one to it before; -ENOMEM; -ENOSPC
 *	   if MAX_FILES have tables.
 */
int unwind_file_attach(const void *key, const struct inode *inode,
		       struct unwind_attach *attach)
{
	struct unwind_file *new __free(kfree) =
		kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN);
	struct unwind_table *table = attach->table;
	struct unwind_attach *other;
	struct unwind_file *file;

	if (!new)
		return -ENOMEM;

	guard(spinlock)(&unwind_files_lock);
	file = unwind_file_find(key);
	if (file) {
		refcount_inc(&file->ref);
		if (inode)
			unwind_file_drop_stale(file, inode);
	} else if (unwind_files_nr < MAX_FILES) {
		file = no_free_ptr(new);
		file->key = key;
		if (inode) {
			file->dev = inode->i_sb->s_dev;
			file->ino = inode->i_ino;
		}
		INIT_LIST_HEAD(&file->attached);
		refcount_set(&file->ref, 1);
		hash_add_rcu(unwind_files_hash, &file->hash, (unsigned long)key);
		unwind_files_nr++;
	} else {
		return -ENOSPC;
	}
	list_for_each_entry(other, &file->attached, of_file) {
		if (other->table->owner == table->owner) {
			unwind_file_put_locked(file);
			return -EEXIST;
		}
	}

	attach->file = file;
	list_add_tail(&attach->of_file, &file->attached);
	list_add_tail(&attach->of_table, &table->attached);
	atomic_inc(table->owner);
	unwind_file_use_first(file);
	trace_unwind_table_file(table->serial, file->dev, file->ino, "attached");
	return 0;
}

static bool unwind_table_detach_one(struct unwind_table *table)
{
	guard(spinlock)(&unwind_files_lock);
	if (list_empty(&table->attached))
		return false;
	unwind_file_detach(list_first_entry(&table->attached, struct unwind_attach, of_table));
	return true;
}

/**
 * unwind_table_detach - Detach a table from all files
 * @table:	Table. Afterwards no new lookup finds it, and it can be freed after a
 *		grace period, see table+walk.litmus
 *
 * Context: May sleep.
 */
void unwind_table_detach(struct unwind_table *table)
{
	while (unwind_table_detach_one(table))
		cond_resched();
}

/**
 * unwind_files_open - The device was opened: tables may be handed in
 *
 * Context: May sleep.
 */
void unwind_files_open(void)
{
	guard(mutex)(&unwind_files_open_lock);

	/* Destroyed inodes are noticed before any file is made. */
	if (!unwind_files_nr_open++) {
		static_branch_enable(&unwind_files_key);
		static_branch_enable(&unwind_in_place_key);
	}
}

/**
 * unwind_files_close - The device was closed, and its tables are gone
 *
 * After the last user, nobody notices destroyed inodes: files that code maps still have,
 * without a table, are no longer known by their inodes.
 *
 * Context: May sleep.
 */
void unwind_files_close(void)
{
	struct unwind_file *file;
	struct hlist_node *next;
	unsigned int bucket;

	guard(mutex)(&unwind_files_open_lock);

	if (--unwind_files_nr_open)
		return;
	static_branch_disable(&unwind_in_place_key);
	for (bucket = 0; bucket < HASH_SIZE(unwind_files_hash); bucket++) {
		scoped_guard(spinlock, &unwind_files_lock) {
			hlist_for_each_entry_safe(file, next, &unwind_files_hash[bucket], hash)
				unwind_file_remove(file);
		}
		cond_resched();
	}
	static_branch_disable(&unwind_files_key);
}
