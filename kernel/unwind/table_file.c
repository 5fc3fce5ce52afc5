// SPDX-License-Identifier: GPL-2.0
/*
 * Which table applies to a file.
 *
 * A file is identified by its inode. Nothing here holds a reference to the inode, or
 * a file system could not be unmounted. Instead, a hook where inodes are destroyed
 * removes what was kept for it. While some code is mapped from a file, its inode
 * stays.
 */

#include <linux/err.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/jump_label.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/unwind_table.h>

#include "table.h"
#include "table_file.h"

#include <trace/events/unwind.h>

DEFINE_STATIC_KEY_FALSE(unwind_files_key);

unsigned int unwind_files_nr_added;

/* Most files that have tables */
#define MAX_FILES		BIT(16)

static DEFINE_HASHTABLE(files, 12);
static unsigned int nr_files;
/* Protects @files, @nr_files, what is said at struct unwind_file, and all attachments */
static DEFINE_SPINLOCK(files_lock);

/* How often the device is open */
static unsigned int nr_open;
/* Protects @nr_open and the key */
static DEFINE_MUTEX(open_lock);

static DEFINE_PER_CPU(struct unwind_file_counts, file_counts);

/* Attachments that go with the lock held once */
#define DETACH_BATCH	64

static void use_first(struct unwind_file *file)
{
	struct unwind_attach *first;
	struct unwind_table *table, *old;

	lockdep_assert_held(&files_lock);

	first = list_first_entry_or_null(&file->attached, struct unwind_attach,
					 of_file);
	table = first ? first->table : NULL;
	old = rcu_dereference_protected(file->table, true);
	if (table == old)
		return;
	rcu_assign_pointer(file->table, table);
	/* Pairs with unwind_file_count(): whoever sees this sees the table. */
	smp_store_release(&file->count, file->count + 1);
	if (!old) {
		/* Pairs with unwind_files_added(), likewise. */
		smp_store_release(&unwind_files_nr_added, unwind_files_nr_added + 1);
	}
}

static void unhash(struct unwind_file *file)
{
	lockdep_assert_held(&files_lock);

	if (!file->key)
		return;
	hash_del_rcu(&file->hash);
	WRITE_ONCE(file->key, NULL);
	nr_files--;
}

static void put_locked(struct unwind_file *file)
{
	if (refcount_dec_and_test(&file->ref)) {
		unhash(file);
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
	guard(spinlock)(&files_lock);
	put_locked(file);
}

static void detach(struct unwind_attach *attach)
{
	struct unwind_file *file = attach->file;

	lockdep_assert_held(&files_lock);

	list_del(&attach->of_file);
	list_del(&attach->of_table);
	atomic_dec(&attach->owner->attached);
	use_first(file);
	trace_unwind_table_file(attach->table->serial, file->dev, file->ino,
				"detached");
	put_locked(file);
	kfree(attach);
}

static void detach_all(struct unwind_file *file)
{
	struct unwind_attach *attach, *next;

	list_for_each_entry_safe_reverse(attach, next, &file->attached, of_file)
		detach(attach);
}

static struct unwind_file *find_file(const void *key)
{
	struct unwind_file *file;

	hash_for_each_possible_rcu(files, file, hash, (unsigned long)key,
				   lockdep_is_held(&files_lock)) {
		if (READ_ONCE(file->key) == key)
			return file;
	}
	return NULL;
}

/* The inode is gone: so are its tables, and another one can be at its place. */
static void forget(struct unwind_file *file)
{
	lockdep_assert_held(&files_lock);

	refcount_inc(&file->ref);
	unhash(file);
	detach_all(file);
	put_locked(file);
}

void __unwind_file_forget(const struct inode *inode)
{
	struct unwind_file *file;

	/* Most inodes have none. */
	scoped_guard(rcu) {
		if (!find_file(inode))
			return;
	}

	guard(spinlock)(&files_lock);
	file = find_file(inode);
	if (file)
		forget(file);
}

/*
 * Tables that were made before the file was changed are of no use. Not the change of
 * the inode counts, which a new name or mode is, too.
 */
static void drop_stale(struct unwind_file *file, const struct inode *inode)
{
	struct timespec64 mtime = inode_get_mtime(inode);
	struct unwind_attach *attach, *next;

	lockdep_assert_held(&files_lock);

	list_for_each_entry_safe(attach, next, &file->attached, of_file) {
		if (attach->size != i_size_read(inode) ||
		    !timespec64_equal(&attach->mtime, &mtime))
			detach(attach);
	}
}

/**
 * unwind_file_has_table - Is there a table for a file?
 * @key:	What the file is known by
 *
 * Context: Any, in an RCU reader
 * Return: True if so.
 */
bool unwind_file_has_table(const void *key)
{
	const struct unwind_file *file = find_file(key);

	return file && rcu_access_pointer(file->table);
}

/**
 * unwind_file_note - Note in a range of code which file with a table it is from
 * @range:	Range with key. Gets the file, if it has a table, with a reference, and the
 *		count
 * @inode:	Inode that cannot be destroyed now; NULL if it is the vDSO
 *
 * Tables that were made for earlier contents of the inode are detached.
 *
 * Context: Process context, may be atomic.
 */
void unwind_file_note(struct unwind_range *range, const struct inode *inode)
{
	struct unwind_file *file;

	range->count = unwind_files_added();
	scoped_guard(rcu) {
		if (!unwind_files_used() || !unwind_file_has_table(range->key))
			return;
	}

	guard(spinlock)(&files_lock);
	file = find_file(range->key);
	if (!file || !refcount_inc_not_zero(&file->ref))
		return;
	if (inode)
		drop_stale(file, inode);
	if (rcu_access_pointer(file->table)) {
		range->file = file;
		range->count = file->count;
	} else {
		put_locked(file);
	}
}

/* The file that is known by @key, with a reference. It is made if there is none. */
static struct unwind_file *get_file_by(const void *key, const struct inode *inode)
{
	struct unwind_file *file, *new;

	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN);
	if (!new)
		return ERR_PTR(-ENOMEM);
	new->key = key;
	if (inode) {
		new->dev = inode->i_sb->s_dev;
		new->ino = inode->i_ino;
	}
	INIT_LIST_HEAD(&new->attached);
	refcount_set(&new->ref, 1);

	guard(spinlock)(&files_lock);
	file = find_file(key);
	if (file && refcount_inc_not_zero(&file->ref)) {
		kfree(new);
		if (inode)
			drop_stale(file, inode);
		return file;
	}
	if (nr_files >= MAX_FILES) {
		kfree(new);
		return ERR_PTR(-ENOSPC);
	}
	hash_add_rcu(files, &new->hash, (unsigned long)key);
	nr_files++;
	return new;
}

/**
 * unwind_file_attach - Use a table for a file
 * @key:	What the file is known by
 * @inode:	Inode that cannot be destroyed now; NULL if it is the vDSO
 * @attach:	The attachment, with table, owner, size and time
 * @of_table:	List of the table's attachments
 *
 * Context: Process context with the device open, may sleep.
 * Return: 0; -EEXIST if @attach->owner has attached a table to it before; -ENOMEM; -ENOSPC
 *	   if MAX_FILES have tables.
 */
int unwind_file_attach(const void *key, const struct inode *inode,
		       struct unwind_attach *attach, struct list_head *of_table)
{
	struct unwind_attach *other;
	struct unwind_file *file;

	file = get_file_by(key, inode);
	if (IS_ERR(file))
		return PTR_ERR(file);

	guard(spinlock)(&files_lock);
	list_for_each_entry(other, &file->attached, of_file) {
		if (other->owner == attach->owner) {
			put_locked(file);
			return -EEXIST;
		}
	}

	attach->file = file;
	list_add_tail(&attach->of_file, &file->attached);
	list_add_tail(&attach->of_table, of_table);
	atomic_inc(&attach->owner->attached);
	use_first(file);
	trace_unwind_table_file(attach->table->serial, file->dev, file->ino,
				"attached");
	return 0;
}

/**
 * unwind_table_note_use - A walk has come to code that a table has
 * @table:	Table
 */
void unwind_table_note_use(struct unwind_table *table)
{
	if (likely(READ_ONCE(table->used)))
		return;
	WRITE_ONCE(table->used, true);
	trace_unwind_table(table->serial, table->nr_rows, table->size, "used");
}

/**
 * unwind_files_detach_some - Take back what a table was attached to
 * @of_table:	List of its attachments
 *
 * Return: false when none is left. From then on no new lookup finds the table, and
 *	   it can be freed after a grace period.
 */
bool unwind_files_detach_some(struct list_head *of_table)
{
	unsigned int i;

	guard(spinlock)(&files_lock);
	for (i = 0; i < DETACH_BATCH && !list_empty(of_table); i++)
		detach(list_first_entry(of_table, struct unwind_attach,
					of_table));
	return !list_empty(of_table);
}

/**
 * unwind_files_open - Somebody is going to hand in tables
 *
 * Context: May sleep.
 */
void unwind_files_open(void)
{
	guard(mutex)(&open_lock);

	/* No file is made before inodes that go are noticed. */
	if (!nr_open++)
		static_branch_enable(&unwind_files_key);
}

/**
 * unwind_files_close - Somebody has taken back all tables
 *
 * When the last user is gone, nobody notices inodes that go: the files that code maps
 * still have, without a table, are known by them no longer.
 *
 * Context: May sleep.
 */
void unwind_files_close(void)
{
	struct unwind_file *file;
	struct hlist_node *next;
	unsigned int bucket;

	guard(mutex)(&open_lock);

	if (--nr_open)
		return;
	for (bucket = 0; bucket < HASH_SIZE(files); bucket++) {
		scoped_guard(spinlock, &files_lock) {
			hlist_for_each_entry_safe(file, next, &files[bucket], hash)
				forget(file);
		}
		cond_resched();
	}
	static_branch_disable(&unwind_files_key);
}

/**
 * unwind_files_count_walk - Count a walk
 * @state:	Its result
 */
void unwind_files_count_walk(const struct unwind_user_state *state)
{
	this_cpu_inc(file_counts.walks);
	if (state->status == UNWIND_USER_END)
		this_cpu_inc(file_counts.complete);
	this_cpu_add(file_counts.frames, state->frames[UNWIND_USER_TYPE_FILE]);
	this_cpu_add(file_counts.fp_frames, state->frames[UNWIND_USER_TYPE_FP]);
}

/**
 * unwind_files_counts - What all walks did while the device was open
 * @counts:	Since the kernel was booted
 */
void unwind_files_counts(struct unwind_file_counts *counts)
{
	unsigned int cpu;

	*counts = (struct unwind_file_counts) { };
	for_each_possible_cpu(cpu) {
		const struct unwind_file_counts *one = per_cpu_ptr(&file_counts, cpu);

		counts->walks += READ_ONCE(one->walks);
		counts->complete += READ_ONCE(one->complete);
		counts->frames += READ_ONCE(one->frames);
		counts->fp_frames += READ_ONCE(one->fp_frames);
	}
}
