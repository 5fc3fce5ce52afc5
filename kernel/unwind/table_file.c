// SPDX-License-Identifier: GPL-2.0
/*
 * Which table applies to a file.
 *
 * A file is identified by its inode. Nothing here holds a reference to the inode, or
 * a file system could not be unmounted. Instead, a hook where inodes are destroyed
 * removes what was kept for it. While some code is mapped from a file, its inode
 * stays.
 */

#include <linux/atomic.h>
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
#include "user.h"

#include <trace/events/unwind.h>

DEFINE_STATIC_KEY_FALSE(unwind_files_key);

atomic64_t unwind_files_gen = ATOMIC64_INIT(1);
unsigned int unwind_files_epoch;

static DEFINE_HASHTABLE(files, 12);
/* Protects @files, what is said at struct unwind_file, and all attachments */
static DEFINE_SPINLOCK(files_lock);

/* How often the device is open */
static unsigned int nr_open;
/* Protects @nr_open and the key. @nr_open changes with files_lock held, too. */
static DEFINE_MUTEX(open_lock);

static DEFINE_PER_CPU(struct unwind_file_counts, file_counts);

/* Attachments that go with the lock held once */
#define DETACH_BATCH	64

/* Whatever was learnt from a table before is not used any more. */
static void next_gen(void)
{
	/* Pairs with unwind_files_get_gen(). */
	smp_mb__before_atomic();
	atomic64_inc(&unwind_files_gen);
}

static void use_first(struct unwind_file *file)
{
	struct unwind_attach *first;
	struct unwind_table *table;

	lockdep_assert_held(&files_lock);

	first = list_first_entry_or_null(&file->attached, struct unwind_attach,
					 of_file);
	table = first ? first->table : NULL;
	if (table == rcu_dereference_protected(file->table, true))
		return;
	rcu_assign_pointer(file->table, table);
	next_gen();
}

/**
 * unwind_file_put - Drop a reference
 * @file:	File, or NULL
 */
void unwind_file_put(struct unwind_file *file)
{
	if (file && refcount_dec_and_test(&file->ref))
		kfree_rcu(file, rcu);
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

/* Take a file out of the hash table, with all that is attached to it. */
static void forget(struct unwind_file *file)
{
	lockdep_assert_held(&files_lock);

	detach_all(file);
	hash_del_rcu(&file->hash);
	WRITE_ONCE(file->key, NULL);
	unwind_file_put(file);
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

static struct unwind_file *alloc_file(const struct inode *inode,
				      const void *key, gfp_t gfp)
{
	struct unwind_file *file;

	file = kzalloc(sizeof(*file), gfp);
	if (!file)
		return NULL;
	file->key = key;
	if (inode) {
		file->dev = inode->i_sb->s_dev;
		file->ino = inode->i_ino;
	}
	INIT_LIST_HEAD(&file->attached);
	refcount_set(&file->ref, 1);
	return file;
}

static bool is_known(const void *key)
{
	guard(rcu)();
	return find_file(key);
}

/**
 * unwind_file_get - The file that an inode, or a vDSO, is known as
 * @inode:	Inode that cannot be destroyed now, such as one that is mapped; or NULL
 * @key:	@inode, or the image of a vDSO
 * @gfp:	How to get memory for it
 *
 * It is made if there is none. Tables that were made for earlier contents of the
 * inode are detached.
 *
 * Context: Process context; may sleep if @gfp allows it.
 * Return: The file, with a reference; NULL if nobody has the device open;
 *	   ERR_PTR(-ENOMEM).
 */
struct unwind_file *unwind_file_get(const struct inode *inode, const void *key,
				    gfp_t gfp)
{
	struct unwind_file *file, *new = NULL;

	if (!is_known(key)) {
		new = alloc_file(inode, key, gfp);
		if (!new)
			return ERR_PTR(-ENOMEM);
	}

	guard(spinlock)(&files_lock);

	file = find_file(key);
	if (file) {
		kfree(new);
		if (inode)
			drop_stale(file, inode);
	} else {
		if (!nr_open) {
			kfree(new);
			return NULL;
		}
		/* It went with the last descriptor, and another was opened. */
		if (!new)
			return ERR_PTR(-ENOMEM);
		file = new;
		hash_add_rcu(files, &file->hash, (unsigned long)key);
	}
	refcount_inc(&file->ref);
	return file;
}

/**
 * unwind_file_new - Some memory that is going to have tables of its own
 * @gfp:	How to get memory for what stands for it
 *
 * Return: What stands for it, with a reference; NULL if there is no memory.
 */
struct unwind_file *unwind_file_new(gfp_t gfp)
{
	struct unwind_file *file = alloc_file(NULL, NULL, gfp);

	if (file)
		file->key = file;
	return file;
}

/**
 * unwind_file_gone - Some memory that had tables of its own is gone
 * @file:	What stood for it; the caller has a reference
 */
void unwind_file_gone(struct unwind_file *file)
{
	guard(spinlock)(&files_lock);

	WRITE_ONCE(file->key, NULL);
	detach_all(file);
}

/**
 * unwind_file_attach - Use a table for a file
 * @file:	File; the caller has a reference
 * @attach:	The attachment, with table, owner, size and time
 * @of_table:	List of the table's attachments
 *
 * Return: 0; -EEXIST if @attach->owner has attached a table to it before; -ESTALE
 *	   if the inode has gone.
 */
int unwind_file_attach(struct unwind_file *file, struct unwind_attach *attach,
		       struct list_head *of_table)
{
	struct unwind_attach *other;

	guard(spinlock)(&files_lock);

	if (!file->key)
		return -ESTALE;
	list_for_each_entry(other, &file->attached, of_file) {
		if (other->owner == attach->owner)
			return -EEXIST;
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
 * unwind_file_rule - Find the rule for a place in a file
 * @file:	File
 * @offset:	Offset in it, of an address that user space may have made up
 * @rule:	The rule; its word is 0 if there is only a long one, or no table
 *
 * Context: In an RCU reader
 * Return: UNWIND_USER_FOUND; or UNWIND_USER_NO_RULE, with the word of a frame
 *	   pointer if the table says that it does not cover the place.
 */
enum unwind_user_status unwind_file_rule(const struct unwind_file *file,
					 u64 offset, struct unwind_rule *rule)
{
	struct unwind_table *table = rcu_dereference(file->table);
	enum unwind_user_status status;

	rule->word = 0;
	if (!table)
		return UNWIND_USER_NO_RULE;

	status = unwind_table_find(table, offset, rule);
	if (status == UNWIND_USER_NO_RULE) {
		rule->word = unwind_word_fp(sizeof(u64));
	} else if (unlikely(!READ_ONCE(table->used))) {
		WRITE_ONCE(table->used, true);
		trace_unwind_table(table->serial, table->nr_rows, table->size,
				   "used");
	}
	return status;
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
	if (!nr_open)
		static_branch_enable(&unwind_files_key);

	guard(spinlock)(&files_lock);
	if (nr_open++)
		return;
	/* Ranges from before have no file: each store drops them. */
	WRITE_ONCE(unwind_files_epoch, unwind_files_epoch + 1);
}

/**
 * unwind_files_close - Somebody has taken back all tables
 *
 * When the last user is gone, all files are dropped. Ranges of mms that are not
 * walked any more keep theirs, without a table, until they are unmapped.
 *
 * Context: May sleep.
 */
void unwind_files_close(void)
{
	struct unwind_file *file;
	struct hlist_node *next;
	unsigned int bucket;

	guard(mutex)(&open_lock);

	scoped_guard(spinlock, &files_lock) {
		if (--nr_open)
			return;
	}
	/* From here on nobody adds a file. */
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
 * unwind_files_count - Count a walk
 * @state:	Its result
 */
void unwind_files_count(const struct unwind_user_state *state)
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
