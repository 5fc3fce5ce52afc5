// SPDX-License-Identifier: GPL-2.0
/*
 * Which SFrame table has the rules for an address: one store per mm, made when
 * the mm is unwound for the first time or gets its first table by prctl().
 *
 * A store knows for ranges of code, which do not overlap, what table there is, or that
 * there is none. The walker looks entries up without a lock and holds a reference for
 * as long as it reads the table. That may take any time, as the table is user memory,
 * which another process may have to supply.
 *
 * Removing an entry or a range takes no memory, so unmapping never fails because
 * of it.
 */

#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sframe.h>
#include <linux/slab.h>

#include <asm/sframe.h>

#include "rule_cache.h"
#include "sframe_mm.h"

#include <trace/events/unwind.h>

/* Entries that go with the lock held once. */
#define SFRAME_UNMAP_BATCH	64

static struct sframe_entry *entry_of_text(const struct rb_node *node)
{
	return rb_entry_safe(node, struct sframe_entry, text);
}

/**
 * sframe_trace_entry - Tell the trace what became of an entry
 * @entry:	Entry
 * @what:	A word or a few
 */
void sframe_trace_entry(const struct sframe_entry *entry, const char *what)
{
	const struct sframe_section *sec = &entry->sec;

	if (entry->has_table)
		trace_unwind_sframe_section(entry->code.start, entry->code.end,
					    sec->start, sec->num_fdes,
					    sec->version, what);
	else
		trace_unwind_sframe_section(entry->code.start, entry->code.end,
					    0, 0, 0, what);
}

/**
 * sframe_mm_of - The store of an mm
 * @mm:	Address space
 *
 * Return: The store, which lives as long as the mm has users, or NULL.
 */
struct sframe_mm *sframe_mm_of(struct mm_struct *mm)
{
	/* Pairs with cmpxchg() in sframe_mm_get(). */
	return smp_load_acquire(&mm->sframe);
}

static void sm_free(struct sframe_mm *sm)
{
	sframe_bare_free(sm);
	rule_cache_free(sm->cache);
	kfree(sm);
}

static struct sframe_mm *sm_alloc(gfp_t gfp)
{
	struct sframe_mm *sm;

	sm = kzalloc(sizeof(*sm), gfp);
	if (!sm)
		return NULL;

	spin_lock_init(&sm->lock);
	seqcount_spinlock_init(&sm->seq, &sm->lock);
	sm->texts = RB_ROOT;
	sm->tables = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&sm->found);
	INIT_LIST_HEAD(&sm->searches);
	sm->gen = 1;
	sm->files_epoch = unwind_files_get_epoch();
	sm->no_memory = jiffies - SFRAME_RETRY - 1;
	return sm;
}

/**
 * sframe_mm_get - The store of an mm, which is made if there is none
 * @mm:		Address space that has users
 * @gfp:	How to get the memory
 *
 * Return: The store, which lives as long as the mm has users; NULL if there was
 *	   no memory to make it.
 */
struct sframe_mm *sframe_mm_get(struct mm_struct *mm, gfp_t gfp)
{
	struct sframe_mm *sm, *old;

	sm = sframe_mm_of(mm);
	if (likely(sm))
		return sm;

	sm = sm_alloc(gfp);
	if (!sm)
		return NULL;

	old = cmpxchg(&mm->sframe, NULL, sm);
	if (!old)
		return sm;

	sm_free(sm);
	return old;
}

/**
 * sframe_mm_cache - The cache of rules of a store, which has a table
 * @sm:	Store of current's mm
 *
 * Return: The cache, which lives as long as the store; NULL if there is no
 *	   memory for it.
 */
struct rule_cache *sframe_mm_cache(struct sframe_mm *sm)
{
	struct rule_cache *cache, *old;

	/* Pairs with cmpxchg() below. */
	cache = smp_load_acquire(&sm->cache);
	if (likely(cache))
		return cache;

	/* Whoever is short of memory is not asked for it in each walk. */
	if (time_before_eq(jiffies, READ_ONCE(sm->no_memory) + SFRAME_RETRY))
		return NULL;
	cache = rule_cache_alloc(SFRAME_GFP);
	if (!cache) {
		WRITE_ONCE(sm->no_memory, jiffies);
		return NULL;
	}

	old = cmpxchg(&sm->cache, NULL, cache);
	if (!old)
		return cache;

	rule_cache_free(cache);
	return old;
}

/**
 * sframe_entry_alloc - Memory for an entry
 * @gfp:	How to get it
 *
 * Return: An entry that covers nothing, with the reference that an insertion
 *	   passes on to the tree; NULL if there is no memory.
 */
struct sframe_entry *sframe_entry_alloc(gfp_t gfp)
{
	struct sframe_entry *entry;

	entry = kzalloc(sizeof(*entry), gfp);
	if (!entry)
		return NULL;

	RB_CLEAR_NODE(&entry->text);
	INIT_LIST_HEAD(&entry->list);
	refcount_set(&entry->ref, 1);
	return entry;
}

/**
 * sframe_entry_put - Drop a reference
 * @entry:	Entry, or NULL
 */
void sframe_entry_put(struct sframe_entry *entry)
{
	if (entry && refcount_dec_and_test(&entry->ref)) {
		unwind_file_put(entry->code.file);
		kfree_rcu(entry, rcu);
	}
}

/**
 * sframe_entry_first - The first entry that ends after an address
 * @sm:		Store
 * @start:	Address
 *
 * Context: sm->lock held
 * Return: The entry, without a reference, or NULL.
 */
struct sframe_entry *sframe_entry_first(struct sframe_mm *sm,
					unsigned long start)
{
	struct rb_node *node = sm->texts.rb_node;
	struct sframe_entry *found = NULL;

	lockdep_assert_held(&sm->lock);

	while (node) {
		struct sframe_entry *entry = entry_of_text(node);

		if (entry->code.end > start) {
			found = entry;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

/**
 * sframe_entry_next - The entry after another one
 * @entry:	Entry in a store
 *
 * Context: lock of the store held
 * Return: The entry, without a reference, or NULL.
 */
struct sframe_entry *sframe_entry_next(const struct sframe_entry *entry)
{
	return entry_of_text(rb_next(&entry->text));
}

/*
 * The tree may be changing. Then an entry can be missed, in which case
 * sframe_entry_get() tries again. But the search always ends, and an entry that is
 * found covers the address.
 */
static struct sframe_entry *find_rcu(struct sframe_mm *sm, unsigned long pc)
{
	struct rb_node *node = rcu_dereference_raw(sm->texts.rb_node);

	while (node) {
		struct sframe_entry *entry = entry_of_text(node);

		if (sframe_entry_has(entry, pc))
			return entry;
		if (pc < entry->code.start)
			node = rcu_dereference_raw(node->rb_left);
		else
			node = rcu_dereference_raw(node->rb_right);
	}
	return NULL;
}

/**
 * sframe_entry_get - Look up an address
 * @sm:	Store
 * @pc:	Address of code
 *
 * Return: The entry that covers it, with a reference, or NULL.
 */
struct sframe_entry *sframe_entry_get(struct sframe_mm *sm, unsigned long pc)
{
	struct sframe_entry *entry;
	unsigned int seq;

	guard(rcu)();
	do {
		seq = read_seqcount_begin(&sm->seq);
		entry = find_rcu(sm, pc);
		if (entry && refcount_inc_not_zero(&entry->ref))
			return entry;
	} while (read_seqcount_retry(&sm->seq, seq));

	return NULL;
}

/**
 * sframe_entry_link - Put an entry into the store
 * @sm:		Store
 * @entry:	Entry that overlaps no other; its reference is the store's now
 *
 * Context: sm->lock held
 */
void sframe_entry_link(struct sframe_mm *sm, struct sframe_entry *entry)
{
	struct rb_node **link = &sm->texts.rb_node, *parent = NULL;

	lockdep_assert_held(&sm->lock);

	while (*link) {
		parent = *link;
		if (entry->code.start < entry_of_text(parent)->code.start)
			link = &parent->rb_left;
		else
			link = &parent->rb_right;
	}

	write_seqcount_begin(&sm->seq);
	rb_link_node_rcu(&entry->text, parent, link);
	rb_insert_color(&entry->text, &sm->texts);
	write_seqcount_end(&sm->seq);

	if (entry->has_table) {
		entry->table.start = entry->sec.start;
		entry->table.last = entry->sec.end - 1;
		interval_tree_insert(&entry->table, &sm->tables);
	}

	if (entry->attached) {
		sm->nr_attached++;
	} else if (entry->added) {
		sm->nr_added++;
	} else {
		list_add_tail(&entry->list, &sm->found);
		sm->nr_found++;
	}
}

/**
 * sframe_next_gen - Stop using the rules that were cached until now
 * @sm:	Store
 *
 * Context: sm->lock held
 */
void sframe_next_gen(struct sframe_mm *sm)
{
	lockdep_assert_held(&sm->lock);

	/* Pairs with tables_sync(): from then on old rules are not used. */
	smp_store_release(&sm->gen, sm->gen + 1);
}

/**
 * sframe_entry_unlink - Take an entry out of the store
 * @sm:		Store
 * @entry:	Entry in it, which may be freed by this
 * @what:	Why, for the trace
 *
 * Context: sm->lock held
 */
void sframe_entry_unlink(struct sframe_mm *sm, struct sframe_entry *entry,
			 const char *what)
{
	lockdep_assert_held(&sm->lock);

	sframe_trace_entry(entry, what);

	write_seqcount_begin(&sm->seq);
	rb_erase(&entry->text, &sm->texts);
	write_seqcount_end(&sm->seq);
	RB_CLEAR_NODE(&entry->text);

	if (entry->has_table)
		interval_tree_remove(&entry->table, &sm->tables);

	if (entry->attached) {
		sm->nr_attached--;
	} else if (entry->added) {
		sm->nr_added--;
	} else {
		list_del_init(&entry->list);
		sm->nr_found--;
	}

	sframe_next_gen(sm);
	if (entry->attached)
		unwind_file_gone(entry->code.file);
	sframe_entry_put(entry);
}

/**
 * sframe_unlink_found - Drop the entries that were found, as opposed to added
 * @sm:		Store
 * @start:	First byte of the code
 * @end:	The end of it (exclusive)
 *
 * Context: sm->lock held
 */
void sframe_unlink_found(struct sframe_mm *sm, unsigned long start,
			 unsigned long end)
{
	struct sframe_entry *entry, *next;

	for (entry = sframe_entry_first(sm, start);
	     entry && entry->code.start < end; entry = next) {
		next = sframe_entry_next(entry);
		if (!entry->added)
			sframe_entry_unlink(sm, entry, "replaced");
	}
}

/* Leave to added entries what is theirs; none of them has @pc. */
static void clip_to_gap(struct sframe_mm *sm, unsigned long *start,
			unsigned long *end, unsigned long pc)
{
	struct sframe_entry *other;

	for (other = sframe_entry_first(sm, *start);
	     other && other->code.start < *end; other = sframe_entry_next(other)) {
		if (!other->added)
			continue;
		if (other->code.end <= pc)
			*start = other->code.end;
		else
			*end = other->code.start;
	}
}

/* The entry that has an address, without a reference, or NULL. */
static struct sframe_entry *entry_at(struct sframe_mm *sm, unsigned long pc)
{
	struct sframe_entry *entry = sframe_entry_first(sm, pc);

	return entry && sframe_entry_has(entry, pc) ? entry : NULL;
}

/**
 * sframe_search_begin - Start to watch mappings
 * @sm:		Store
 * @search:	With @search->start and @search->end
 *
 * Context: mmap lock of current's mm held, for reading
 */
void sframe_search_begin(struct sframe_mm *sm, struct sframe_search *search)
{
	mmap_assert_locked(current->mm);

	search->gone = false;
	guard(spinlock)(&sm->lock);
	list_add(&search->list, &sm->searches);
}

/**
 * sframe_search_extend - Watch more of them
 * @sm:		Store
 * @search:	Search that has begun
 * @start:	First byte of what is to be read next
 * @end:	The end of it (exclusive)
 */
void sframe_search_extend(struct sframe_mm *sm, struct sframe_search *search,
			  unsigned long start, unsigned long end)
{
	guard(spinlock)(&sm->lock);
	search->start = min(search->start, start);
	search->end = max(search->end, end);
}

/**
 * sframe_search_end - Stop watching them
 * @sm:		Store
 * @search:	What sframe_search_begin() got
 */
void sframe_search_end(struct sframe_mm *sm, struct sframe_search *search)
{
	guard(spinlock)(&sm->lock);
	list_del(&search->list);
}

/**
 * sframe_check_mapped - Is all of a range mapped in a certain way?
 * @mm:		Address space
 * @start:	First byte of the range
 * @end:	The end of it (exclusive)
 * @flags:	What each mapping needs to have
 *
 * Context: mmap lock of @mm held
 * Return: 0; -EFAULT if there is a hole; -EACCES if there is a mapping of device
 *	   memory, or without some of @flags.
 */
int sframe_check_mapped(struct mm_struct *mm, unsigned long start,
			unsigned long end, unsigned long flags)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	mmap_assert_locked(mm);

	for_each_vma_range(vmi, vma, end) {
		if (vma->vm_start > start)
			return -EFAULT;
		if ((vma->vm_flags & flags) != flags)
			return -EACCES;
		/* Looking at device memory can have effects. */
		if (vma->vm_flags & (VM_IO | VM_PFNMAP))
			return -EACCES;
		start = vma->vm_end;
	}
	return start < end ? -EFAULT : 0;
}

/**
 * sframe_is_anonymous - Is all of a range anonymous memory?
 * @mm:		Address space
 * @start:	First byte of the range, which is mapped without a hole
 * @end:	The end of it (exclusive)
 *
 * Context: mmap lock of @mm held
 * Return: true if so.
 */
bool sframe_is_anonymous(struct mm_struct *mm, unsigned long start,
			 unsigned long end)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	mmap_assert_locked(mm);

	for_each_vma_range(vmi, vma, end) {
		if (!vma_is_anonymous(vma))
			return false;
	}
	return true;
}

/* Each entry that goes makes all cached rules invalid: several of them at once. */
static void evict_found(struct sframe_mm *sm)
{
	unsigned int i;

	for (i = 0; i < SFRAME_EVICT; i++)
		sframe_entry_unlink(sm, list_first_entry(&sm->found,
							 struct sframe_entry,
							 list), "evicted");
}

/* Has somebody begun to make tables since, so that files have to be noted? */
static bool is_outdated(const struct sframe_mm *sm, unsigned int epoch)
{
	return unwind_files_used() && sm->files_epoch != epoch;
}

/**
 * sframe_insert_found - Remember what a search has found
 * @sm:		Store
 * @entry:	Result. It is the store's now, whatever is returned
 * @search:	Search, or NULL if the mmap lock was held all the time
 * @pc:		Address that was searched for, in the range of @entry
 * @epoch:	unwind_files_get_epoch() before the file was looked at
 *
 * Context: mmap lock of current's mm held, for reading
 * Return: The entry that covers @pc, with a reference: @entry, or that of another
 *	   walk that was faster. NULL if a mapping has gone meanwhile, not all of the
 *	   table is mapped, or the device was opened.
 */
struct sframe_entry *sframe_insert_found(struct sframe_mm *sm,
					 struct sframe_entry *entry,
					 struct sframe_search *search,
					 unsigned long pc, unsigned int epoch)
{
	struct sframe_entry *other;

	mmap_assert_locked(current->mm);

	/*
	 * munmap() downgrades the lock before it tells the searches, so a table
	 * that they did not watch yet can still have been readable.
	 */
	if (entry->has_table &&
	    sframe_check_mapped(current->mm, entry->sec.start, entry->sec.end,
				VM_READ)) {
		sframe_entry_put(entry);
		return NULL;
	}

	guard(spinlock)(&sm->lock);

	if ((search && search->gone) || is_outdated(sm, epoch)) {
		sframe_entry_put(entry);
		return NULL;
	}

	other = entry_at(sm, pc);
	if (other) {
		refcount_inc(&other->ref);
		sframe_entry_put(entry);
		return other;
	}

	clip_to_gap(sm, &entry->code.start, &entry->code.end, pc);
	sframe_unlink_found(sm, entry->code.start, entry->code.end);
	sframe_bare_remove(sm, entry->code.start, entry->code.end, "replaced");
	if (sm->nr_found >= SFRAME_MAX_FOUND)
		evict_found(sm);

	refcount_inc(&entry->ref);
	sframe_entry_link(sm, entry);
	sframe_trace_entry(entry, entry->reason ?: "found");
	return entry;
}

/**
 * sframe_bare_insert - Remember that some code has no table
 * @sm:		Store
 * @range:	The code; becomes what is left of it beside added entries. Its file is
 *		the store's now; it has none any more if it was not remembered
 * @search:	Search, or NULL if the code was kept mapped all the time
 * @pc:		Address that was searched for, in @range
 * @epoch:	unwind_files_get_epoch() before the file was looked at
 * @reason:	Why there is no table
 * @cuts:	As long as this is sm->cuts, a @range with a file is in the store
 *
 * Context: Process context. mmap lock of current's mm held, for reading, or that of the
 *	    VMA with @pc
 * Return: false if there is no memory for it, or if the mapping may have changed: then
 *	   nobody can tell whether the file has a table. It will be found again.
 */
bool sframe_bare_insert(struct sframe_mm *sm, struct sframe_range *range,
			struct sframe_search *search, unsigned long pc,
			unsigned int epoch, const char *reason, u64 *cuts)
{
	struct sframe_bare *room = sframe_bare_room(sm);
	bool known;

	spin_lock(&sm->lock);
	if ((search && search->gone) || is_outdated(sm, epoch) ||
	    entry_at(sm, pc)) {
		/* Without a file, good for this address at this time */
		known = !range->file;
		range->start = pc;
		range->end = pc + 1;
		unwind_file_put(range->file);
		range->file = NULL;
	} else {
		clip_to_gap(sm, &range->start, &range->end, pc);
		sframe_unlink_found(sm, range->start, range->end);
		known = sframe_bare_add(sm, range, pc, reason, &room);
		*cuts = sm->cuts;
	}
	spin_unlock(&sm->lock);
	kfree(room);
	return known;
}

/* Can a table be attached to what @old stands for as well? */
static bool is_same_memory(const struct sframe_entry *old,
			   const struct sframe_entry *entry)
{
	return old->attached && old->code.start == entry->code.start &&
	       old->code.end == entry->code.end &&
	       old->code.delta == entry->code.delta;
}

/**
 * sframe_entry_attach - Use a table for some memory
 * @sm:		Store of an mm
 * @entry:	Entry with the code, anonymous memory, and a file that nothing else
 *		has. It is the store's now, whatever is returned
 * @attach:	As for unwind_file_attach()
 * @of_table:	Likewise
 *
 * Context: mmap lock of the mm held, for reading
 * Return: 0; -EEXIST if some of the code has a table that prctl() added, or one of
 *	   its own that was attached to other memory or by the same owner; -ENOSPC
 *	   if SFRAME_MAX_ADDED ranges have tables of their own.
 */
int sframe_entry_attach(struct sframe_mm *sm, struct sframe_entry *entry,
			struct unwind_attach *attach,
			struct list_head *of_table)
{
	struct sframe_entry *old, *next;
	int ret;

	guard(spinlock)(&sm->lock);

	for (old = sframe_entry_first(sm, entry->code.start);
	     old && old->code.start < entry->code.end; old = next) {
		next = sframe_entry_next(old);
		if (!old->added)
			continue;
		if (is_same_memory(old, entry)) {
			ret = unwind_file_attach(old->code.file, attach,
						 of_table);
			sframe_entry_put(entry);
			return ret;
		}
		if (!old->attached || rcu_access_pointer(old->code.file->table)) {
			sframe_entry_put(entry);
			return -EEXIST;
		}
		/* All of its tables have gone. */
		sframe_entry_unlink(sm, old, "replaced");
	}

	ret = -ENOSPC;
	if (sm->nr_attached < SFRAME_MAX_ADDED)
		ret = unwind_file_attach(entry->code.file, attach, of_table);
	if (ret) {
		sframe_entry_put(entry);
		return ret;
	}

	sframe_unlink_found(sm, entry->code.start, entry->code.end);
	sframe_bare_remove(sm, entry->code.start, entry->code.end, "replaced");
	entry->added = true;
	entry->attached = true;
	sframe_entry_link(sm, entry);
	sframe_trace_entry(entry, "attached");
	return 0;
}

/**
 * sframe_mm_renew - Forget all that was found, so that it is found again
 * @sm:		Store
 *
 * While nobody had the device for tables open, the files of the mappings were not
 * noted.
 */
void sframe_mm_renew(struct sframe_mm *sm)
{
	guard(spinlock)(&sm->lock);

	if (sm->files_epoch == unwind_files_get_epoch())
		return;
	WRITE_ONCE(sm->files_epoch, unwind_files_get_epoch());
	sframe_unlink_found(sm, 0, ULONG_MAX);
	sframe_bare_remove(sm, 0, ULONG_MAX, "replaced");
}

/**
 * sframe_entry_drop - Forget an entry
 * @sm:		Store
 * @entry:	Entry that the caller has a reference to
 */
void sframe_entry_drop(struct sframe_mm *sm, struct sframe_entry *entry)
{
	guard(spinlock)(&sm->lock);
	if (!RB_EMPTY_NODE(&entry->text))
		sframe_entry_unlink(sm, entry, "retried");
}

/**
 * sframe_entry_bad - Never look at a table again
 * @sm:		Store
 * @entry:	Entry of the table; the caller has a reference
 * @status:	What is wrong
 */
void sframe_entry_bad(struct sframe_mm *sm, struct sframe_entry *entry,
		      enum sframe_status status)
{
	const char *reason = sframe_status_text(status);

	/* Of several threads that notice, one reports. */
	if (cmpxchg(&entry->reason, NULL, reason))
		return;

	scoped_guard(spinlock, &sm->lock)
		sframe_next_gen(sm);

	sframe_trace_entry(entry, reason);
}

/* Unlink some of what is touched. Returns false when that was all. */
static bool unmap_some(struct sframe_mm *sm, unsigned long start,
		       unsigned long end)
{
	struct interval_tree_node *node;
	struct sframe_entry *entry;
	unsigned int i;

	guard(spinlock)(&sm->lock);

	for (i = 0; i < SFRAME_UNMAP_BATCH; i++) {
		entry = sframe_entry_first(sm, start);
		if (entry && entry->code.start < end) {
			sframe_entry_unlink(sm, entry, "unmapped");
			continue;
		}

		node = interval_tree_iter_first(&sm->tables, start, end - 1);
		if (!node)
			return false;
		entry = container_of(node, struct sframe_entry, table);
		sframe_entry_unlink(sm, entry, "unmapped");
	}
	return true;
}

void __sframe_unmap(struct mm_struct *mm, unsigned long start,
		    unsigned long end)
{
	struct sframe_mm *sm = sframe_mm_of(mm);
	struct sframe_search *search;

	mmap_assert_locked(mm);

	if (start >= end)
		return;

	scoped_guard(spinlock, &sm->lock) {
		list_for_each_entry(search, &sm->searches, list) {
			if (search->start < end && start < search->end)
				search->gone = true;
		}
		sframe_bare_remove(sm, start, end, "unmapped");
	}

	/*
	 * What is still there between two batches is looked up as it was before:
	 * the mappings are on their way, and so is the next generation.
	 */
	while (unmap_some(sm, start, end))
		cond_resched();
}

void __sframe_mm_exit(struct mm_struct *mm)
{
	struct sframe_mm *sm = mm->sframe;
	struct sframe_entry *entry, *next;

	/* Walks and searches are those of tasks that use the mm. */
	WARN_ON_ONCE(atomic_read(&mm->mm_users));

	rbtree_postorder_for_each_entry_safe(entry, next, &sm->texts, text) {
		if (entry->attached)
			unwind_file_gone(entry->code.file);
		unwind_file_put(entry->code.file);
		kfree(entry);
	}

	mm->sframe = NULL;
	sm_free(sm);
}

/*
 * Make @copy a copy of the first entry from @start on that prctl() added. Returns
 * false if there is none. Other entries may be dropped at any time, even with the
 * mmap lock held.
 */
static bool copy_added(struct sframe_mm *sm, unsigned long start,
		       struct sframe_entry *copy)
{
	struct sframe_entry *entry;

	guard(spinlock)(&sm->lock);

	entry = sframe_entry_first(sm, start);
	while (entry && (!entry->added || entry->attached))
		entry = sframe_entry_next(entry);
	if (!entry)
		return false;

	copy->sec = entry->sec;
	copy->code.start = entry->code.start;
	copy->code.end = entry->code.end;
	copy->reason = READ_ONCE(entry->reason);
	copy->has_table = true;
	copy->added = true;
	return true;
}

/* The copy of an mm does not have these mappings. */
static void drop_not_copied(struct mm_struct *oldmm, struct mm_struct *mm)
{
	VMA_ITERATOR(vmi, oldmm, 0);
	struct vm_area_struct *vma;

	for_each_vma(vmi, vma) {
		if (vma->vm_flags & VM_DONTCOPY)
			__sframe_unmap(mm, vma->vm_start, vma->vm_end);
	}
}

/**
 * sframe_mm_dup - Give a copied mm the tables that prctl() added
 * @oldmm:	Current's mm
 * @mm:		Copy of it with all its mappings, not yet in use
 *
 * All others are found again when they are needed. Code or tables that the copy
 * does not have (MADV_DONTFORK) are left out.
 *
 * Each entry and each mapping is looked at only once, since many entries may have the
 * same table, and it may be in very many mappings.
 *
 * Return: 0 or -ENOMEM.
 */
int sframe_mm_dup(struct mm_struct *oldmm, struct mm_struct *mm)
{
	struct sframe_mm *old = sframe_mm_of(oldmm);
	struct sframe_entry *copy;
	unsigned long start = 0;
	struct sframe_mm *sm;

	mmap_assert_write_locked(oldmm);

	/* With the lock held for writing nobody adds or removes any of these. */
	if (!old || !READ_ONCE(old->nr_added))
		return 0;

	sm = sm_alloc(GFP_KERNEL_ACCOUNT);
	if (!sm)
		return -ENOMEM;
	mm->sframe = sm;

	for (;;) {
		/* What was linked goes in sframe_mm_exit(). */
		copy = sframe_entry_alloc(GFP_KERNEL_ACCOUNT);
		if (!copy)
			return -ENOMEM;
		if (!copy_added(old, start, copy)) {
			sframe_entry_put(copy);
			break;
		}

		start = copy->code.end;
		scoped_guard(spinlock, &sm->lock)
			sframe_entry_link(sm, copy);
		sframe_trace_entry(copy, "copied");
	}

	drop_not_copied(oldmm, mm);
	return 0;
}
