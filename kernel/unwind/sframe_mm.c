// SPDX-License-Identifier: GPL-2.0
/*
 * Which SFrame table has the rules for an address: one store per mm, made when
 * the mm is unwound for the first time or gets its first table by prctl().
 *
 * A store knows, by ranges of code that do not overlap, what table there is or
 * that there is none. The walker looks entries up without a lock and keeps a
 * reference for as long as it reads the table, which may take any time: it is
 * user memory that somebody else may have to supply.
 *
 * Removing an entry or a range takes no memory, so unmapping never fails because
 * of it.
 */

#define pr_fmt(fmt) "unwind_sframe: " fmt

#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/kdev_t.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/prctl.h>
#include <linux/printk.h>
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

static void trace_entry(const struct sframe_entry *entry, const char *what)
{
	const struct sframe_section *sec = &entry->sec;

	if (entry->has_table)
		trace_unwind_sframe_section(entry->start, entry->end,
					    sec->start, sec->num_fdes,
					    sec->version, what);
	else
		trace_unwind_sframe_section(entry->start, entry->end, 0, 0, 0,
					    what);
}

static void trace_bare(const struct sframe_range *range, const char *what)
{
	trace_unwind_sframe_section(range->start, range->end, 0, 0, 0, what);
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
	kfree(rcu_dereference_protected(sm->bare, true));
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
	sm->no_memory = jiffies - SFRAME_RETRY - 1;
	return sm;
}

/**
 * sframe_mm_get - The store of current's mm, which is made if there is none
 * @gfp:	How to get the memory
 *
 * Return: The store, which lives as long as the mm has users; NULL if there was
 *	   no memory to make it.
 */
struct sframe_mm *sframe_mm_get(gfp_t gfp)
{
	struct mm_struct *mm = current->mm;
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
	if (entry && refcount_dec_and_test(&entry->ref))
		kfree_rcu(entry, rcu);
}

/* The first entry that ends after @start. */
static struct sframe_entry *first_after(struct sframe_mm *sm,
					unsigned long start)
{
	struct rb_node *node = sm->texts.rb_node;
	struct sframe_entry *found = NULL;

	lockdep_assert_held(&sm->lock);

	while (node) {
		struct sframe_entry *entry = entry_of_text(node);

		if (entry->end > start) {
			found = entry;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

static struct sframe_entry *next_entry(const struct sframe_entry *entry)
{
	return entry_of_text(rb_next(&entry->text));
}

/*
 * The tree may be changing: then an entry can be missed, and sframe_entry_get()
 * tries again, but there are no loops and what is found is an entry that has
 * the address.
 */
static struct sframe_entry *find_rcu(struct sframe_mm *sm, unsigned long pc)
{
	struct rb_node *node = rcu_dereference_raw(sm->texts.rb_node);

	while (node) {
		struct sframe_entry *entry = entry_of_text(node);

		if (sframe_entry_has(entry, pc))
			return entry;
		if (pc < entry->start)
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

static void link_entry(struct sframe_mm *sm, struct sframe_entry *entry)
{
	struct rb_node **link = &sm->texts.rb_node, *parent = NULL;

	lockdep_assert_held(&sm->lock);

	while (*link) {
		parent = *link;
		if (entry->start < entry_of_text(parent)->start)
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

	if (entry->added) {
		sm->nr_added++;
	} else {
		list_add_tail(&entry->list, &sm->found);
		sm->nr_found++;
	}
}

/* Rules of the old generation are not used any more once this is seen. */
static void next_gen(struct sframe_mm *sm)
{
	lockdep_assert_held(&sm->lock);

	/* Pairs with tables_sync(). */
	smp_store_release(&sm->gen, sm->gen + 1);
}

static void unlink_entry(struct sframe_mm *sm, struct sframe_entry *entry,
			 const char *what)
{
	lockdep_assert_held(&sm->lock);

	trace_entry(entry, what);

	write_seqcount_begin(&sm->seq);
	rb_erase(&entry->text, &sm->texts);
	write_seqcount_end(&sm->seq);
	RB_CLEAR_NODE(&entry->text);

	if (entry->has_table)
		interval_tree_remove(&entry->table, &sm->tables);

	if (entry->added) {
		sm->nr_added--;
	} else {
		list_del_init(&entry->list);
		sm->nr_found--;
	}

	next_gen(sm);
	sframe_entry_put(entry);
}

/* The index of the first bare range that ends after @pc. */
static unsigned int bare_index(const struct sframe_bare *bare, unsigned int nr,
			       unsigned long pc)
{
	unsigned int first = 0;

	while (nr) {
		if (READ_ONCE(bare->ranges[first + nr / 2].end) <= pc) {
			first += nr / 2 + 1;
			nr -= nr / 2 + 1;
		} else {
			nr /= 2;
		}
	}
	return first;
}

static bool range_has(const struct sframe_range *range, unsigned long pc)
{
	return pc - range->start < range->end - range->start;
}

/* The ranges may be changing: then sframe_bare_find() tries again. */
static bool bare_find_rcu(struct sframe_mm *sm, unsigned long pc,
			  struct sframe_range *range)
{
	const struct sframe_bare *bare = rcu_dereference(sm->bare);
	unsigned int i, nr;

	if (!bare)
		return false;

	nr = READ_ONCE(bare->nr);
	i = bare_index(bare, nr, pc);
	if (i >= nr)
		return false;
	/* If it changes meanwhile, it is read again. */
	*range = data_race(bare->ranges[i]);
	if (!range_has(range, pc))
		return false;

	WRITE_ONCE(sm->last_bare[sframe_bare_slot(range)], i);
	return true;
}

/**
 * sframe_bare_find - Is this address known to have no table?
 * @sm:		Store
 * @pc:		Address of code
 * @range:	Code around it that has none either
 *
 * Return: true if so.
 */
bool sframe_bare_find(struct sframe_mm *sm, unsigned long pc,
		      struct sframe_range *range)
{
	unsigned int seq;
	bool found;

	guard(rcu)();
	do {
		seq = read_seqcount_begin(&sm->seq);
		found = bare_find_rcu(sm, pc, range);
	} while (read_seqcount_retry(&sm->seq, seq));

	return found;
}

/**
 * sframe_bare_last - Ranges that were needed last
 * @sm:		Store
 * @last:	UNWIND_USER_BARE of them, which may be empty or be the same
 */
void sframe_bare_last(struct sframe_mm *sm, struct unwind_user_bare *last)
{
	const struct sframe_bare *bare;
	unsigned int seq, i, nr;

	guard(rcu)();
	do {
		seq = read_seqcount_begin(&sm->seq);
		bare = rcu_dereference(sm->bare);
		nr = bare ? READ_ONCE(bare->nr) : 0;
		for (i = 0; i < UNWIND_USER_BARE; i++) {
			/* Once: others change it, and it may be beyond this array. */
			unsigned int index = READ_ONCE(sm->last_bare[i]);
			const struct sframe_range *range;

			last[i].len = 0;
			if (index >= nr)
				continue;
			range = &bare->ranges[index];
			last[i].start = READ_ONCE(range->start);
			last[i].len = READ_ONCE(range->end) - last[i].start;
		}
	} while (read_seqcount_retry(&sm->seq, seq));
}

/* Drop @nr ranges from index @first on. */
static void bare_cut(struct sframe_mm *sm, struct sframe_bare *bare,
		     unsigned int first, unsigned int nr)
{
	lockdep_assert_held(&sm->lock);

	write_seqcount_begin(&sm->seq);
	memmove(&bare->ranges[first], &bare->ranges[first + nr],
		(bare->nr - first - nr) * sizeof(bare->ranges[0]));
	WRITE_ONCE(bare->nr, bare->nr - nr);
	write_seqcount_end(&sm->seq);
}

static struct sframe_bare *bare_locked(struct sframe_mm *sm)
{
	return rcu_dereference_protected(sm->bare, lockdep_is_held(&sm->lock));
}

/*
 * Forget bare ranges that have some of [start, end). No cached rule comes of
 * them, so the generation stays.
 */
static void bare_remove(struct sframe_mm *sm, unsigned long start,
			unsigned long end, const char *what)
{
	struct sframe_bare *bare = bare_locked(sm);
	unsigned int first, nr = 0;

	if (!bare)
		return;

	first = bare_index(bare, bare->nr, start);
	while (first + nr < bare->nr && bare->ranges[first + nr].start < end) {
		trace_bare(&bare->ranges[first + nr], what);
		nr++;
	}
	if (nr)
		bare_cut(sm, bare, first, nr);
}

/* The array with room for one more, or NULL if there is no memory. */
static struct sframe_bare *bare_with_room(struct sframe_mm *sm)
{
	struct sframe_bare *old = bare_locked(sm), *bare;
	unsigned int nr = old ? old->nr : 0, i;
	size_t size;

	if (nr >= SFRAME_MAX_BARE) {
		/* Which ones does not matter: all can be found again. */
		for (i = 0; i < SFRAME_EVICT; i++)
			trace_bare(&old->ranges[i], "evicted");
		bare_cut(sm, old, 0, SFRAME_EVICT);
		return old;
	}
	if (old && nr < old->room)
		return old;

	size = kmalloc_size_roundup(struct_size(bare, ranges, nr + nr / 4 + 1));
	bare = kmalloc(size, SFRAME_GFP);
	if (!bare)
		return NULL;

	bare->room = (size - sizeof(*bare)) / sizeof(bare->ranges[0]);
	bare->nr = nr;
	if (old)
		memcpy(bare->ranges, old->ranges, nr * sizeof(old->ranges[0]));
	rcu_assign_pointer(sm->bare, bare);
	if (old)
		kfree_rcu(old, rcu);
	return bare;
}

/* Add a range that overlaps no other. */
static void bare_add(struct sframe_mm *sm, const struct sframe_range *range)
{
	struct sframe_bare *bare = bare_with_room(sm);
	unsigned int i;

	if (!bare)
		return;

	i = bare_index(bare, bare->nr, range->start);
	write_seqcount_begin(&sm->seq);
	WRITE_ONCE(bare->nr, bare->nr + 1);
	memmove(&bare->ranges[i + 1], &bare->ranges[i],
		(bare->nr - 1 - i) * sizeof(bare->ranges[0]));
	bare->ranges[i] = *range;
	write_seqcount_end(&sm->seq);
}

/* Drop the entries that were found, as opposed to added, in a range. */
static void unlink_found(struct sframe_mm *sm, unsigned long start,
			 unsigned long end)
{
	struct sframe_entry *entry, *next;

	for (entry = first_after(sm, start); entry && entry->start < end;
	     entry = next) {
		next = next_entry(entry);
		if (!entry->added)
			unlink_entry(sm, entry, "replaced");
	}
}

static bool overlaps_added(struct sframe_mm *sm, unsigned long start,
			   unsigned long end)
{
	struct sframe_entry *entry;

	for (entry = first_after(sm, start); entry && entry->start < end;
	     entry = next_entry(entry)) {
		if (entry->added)
			return true;
	}
	return false;
}

/* Leave to added entries what is theirs; none of them has @pc. */
static void clip_to_gap(struct sframe_mm *sm, unsigned long *start,
			unsigned long *end, unsigned long pc)
{
	struct sframe_entry *other;

	for (other = first_after(sm, *start); other && other->start < *end;
	     other = next_entry(other)) {
		if (!other->added)
			continue;
		if (other->end <= pc)
			*start = other->end;
		else
			*end = other->start;
	}
}

/* The entry that has an address, without a reference, or NULL. */
static struct sframe_entry *entry_at(struct sframe_mm *sm, unsigned long pc)
{
	struct sframe_entry *entry = first_after(sm, pc);

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

/*
 * Is [start, end) mapped without a hole, with all of @flags? 0, or -EFAULT for a
 * hole, -EACCES for a mapping that is not like that.
 */
static int check_mapped(struct mm_struct *mm, unsigned long start,
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

/* Each entry that goes makes all cached rules invalid: several of them at once. */
static void evict_found(struct sframe_mm *sm)
{
	unsigned int i;

	for (i = 0; i < SFRAME_EVICT; i++)
		unlink_entry(sm, list_first_entry(&sm->found,
						  struct sframe_entry, list),
			     "evicted");
}

/**
 * sframe_insert_found - Remember what a search has found
 * @sm:		Store
 * @entry:	Result. It is the store's now, whatever is returned
 * @search:	Search, or NULL if the mmap lock was held all the time
 * @pc:		Address that was searched for, in the range of @entry
 *
 * Context: mmap lock of current's mm held, for reading
 * Return: The entry that covers @pc, with a reference: @entry, or that of
 *	   somebody who was faster. NULL if a mapping has gone meanwhile, or not
 *	   all of the table is mapped.
 */
struct sframe_entry *sframe_insert_found(struct sframe_mm *sm,
					 struct sframe_entry *entry,
					 struct sframe_search *search,
					 unsigned long pc)
{
	struct sframe_entry *other;

	mmap_assert_locked(current->mm);

	/*
	 * munmap() downgrades the lock before it tells the searches, so a table
	 * that they did not watch yet can still have been readable.
	 */
	if (entry->has_table && check_mapped(current->mm, entry->sec.start,
					     entry->sec.end, VM_READ)) {
		sframe_entry_put(entry);
		return NULL;
	}

	guard(spinlock)(&sm->lock);

	if (search && search->gone) {
		sframe_entry_put(entry);
		return NULL;
	}

	other = entry_at(sm, pc);
	if (other) {
		refcount_inc(&other->ref);
		sframe_entry_put(entry);
		return other;
	}

	clip_to_gap(sm, &entry->start, &entry->end, pc);
	unlink_found(sm, entry->start, entry->end);
	bare_remove(sm, entry->start, entry->end, "replaced");
	if (sm->nr_found >= SFRAME_MAX_FOUND)
		evict_found(sm);

	refcount_inc(&entry->ref);
	link_entry(sm, entry);
	trace_entry(entry, entry->reason ?: "found");
	return entry;
}

/**
 * sframe_bare_insert - Remember that some code has no table
 * @sm:		Store
 * @range:	The code; becomes what is left of it beside added entries
 * @search:	Search, or NULL if the mmap lock was held all the time
 * @pc:		Address that was searched for, in @range
 * @reason:	Why there is no table
 *
 * If it cannot be remembered, that is as good: it will be found again.
 *
 * Context: mmap lock of current's mm held, for reading
 */
void sframe_bare_insert(struct sframe_mm *sm, struct sframe_range *range,
			struct sframe_search *search, unsigned long pc,
			const char *reason)
{
	struct sframe_bare *bare;
	unsigned int i;

	mmap_assert_locked(current->mm);
	guard(spinlock)(&sm->lock);

	if ((search && search->gone) || entry_at(sm, pc)) {
		/* Good for this address at this time */
		range->start = pc;
		range->end = pc + 1;
		return;
	}

	clip_to_gap(sm, &range->start, &range->end, pc);
	unlink_found(sm, range->start, range->end);

	/*
	 * A mapping that has grown, as those of compilers do, or somebody who was
	 * faster: what was known stays true.
	 */
	bare = bare_locked(sm);
	if (bare) {
		i = bare_index(bare, bare->nr, pc);
		if (i < bare->nr && range_has(&bare->ranges[i], pc))
			return;
		bare_remove(sm, range->start, range->end, "replaced");
	}

	bare_add(sm, range);
	trace_bare(range, reason);
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
		unlink_entry(sm, entry, "retried");
}

/* Files whose tables the log has complained about, the newest of them */
static struct {
	dev_t		dev;
	unsigned long	ino;
} complaints[64];
/* Where the next one goes */
static unsigned int next_complaint;
/* Protects both */
static DEFINE_SPINLOCK(complaint_lock);

/* One bad library of the system is in very many processes. */
static bool is_new_complaint(dev_t dev, unsigned long ino)
{
	unsigned int i;

	guard(spinlock)(&complaint_lock);
	for (i = 0; i < ARRAY_SIZE(complaints); i++) {
		if (complaints[i].dev == dev && complaints[i].ino == ino)
			return false;
	}
	complaints[next_complaint].dev = dev;
	complaints[next_complaint].ino = ino;
	next_complaint = (next_complaint + 1) % ARRAY_SIZE(complaints);
	return true;
}

/**
 * sframe_entry_bad - Never look at a table again
 * @sm:		Store
 * @entry:	Entry of the table; the caller has a reference
 * @status:	What is wrong
 *
 * The log says so once for each file. What a program has added by prctl() is its
 * own business, and only in the trace.
 */
void sframe_entry_bad(struct sframe_mm *sm, struct sframe_entry *entry,
		      enum sframe_status status)
{
	const char *reason = sframe_status_text(status);

	/* Of several threads that notice, one reports. */
	if (cmpxchg(&entry->reason, NULL, reason))
		return;

	scoped_guard(spinlock, &sm->lock)
		next_gen(sm);

	trace_entry(entry, reason);
	if (entry->ino && is_new_complaint(entry->dev, entry->ino))
		pr_notice_ratelimited("%s[%d]: bad table in inode %lu of device %u:%u, at %#llx for code at %#lx-%#lx: %s\n",
				      current->comm, task_pid_nr(current),
				      entry->ino, MAJOR(entry->dev),
				      MINOR(entry->dev), entry->sec.start,
				      entry->start, entry->end, reason);
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
		entry = first_after(sm, start);
		if (entry && entry->start < end) {
			unlink_entry(sm, entry, "unmapped");
			continue;
		}

		node = interval_tree_iter_first(&sm->tables, start, end - 1);
		if (!node)
			return false;
		unlink_entry(sm, container_of(node, struct sframe_entry, table),
			     "unmapped");
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
		bare_remove(sm, start, end, "unmapped");
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

	rbtree_postorder_for_each_entry_safe(entry, next, &sm->texts, text)
		kfree(entry);

	mm->sframe = NULL;
	sm_free(sm);
}

static int check_entry_mapped(struct mm_struct *mm,
			      const struct sframe_entry *entry)
{
	int ret;

	ret = check_mapped(mm, entry->start, entry->end, VM_EXEC);
	if (ret)
		return ret;
	return check_mapped(mm, entry->sec.start, entry->sec.end, VM_READ);
}

static struct sframe_entry *copy_entry(const struct sframe_entry *old)
{
	struct sframe_entry *entry = sframe_entry_alloc(GFP_KERNEL_ACCOUNT);

	if (!entry)
		return NULL;

	entry->sec = old->sec;
	entry->start = old->start;
	entry->end = old->end;
	entry->reason = READ_ONCE(old->reason);
	entry->has_table = true;
	entry->added = true;
	return entry;
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
 * Each entry and each mapping is looked at once: many entries may have the same
 * table, which may be in very many mappings.
 *
 * Return: 0 or -ENOMEM.
 */
int sframe_mm_dup(struct mm_struct *oldmm, struct mm_struct *mm)
{
	struct sframe_mm *old = sframe_mm_of(oldmm);
	struct sframe_entry *entry, *copy;
	struct sframe_mm *sm;
	struct rb_node *node;

	mmap_assert_write_locked(oldmm);

	/* With the lock held for writing nobody adds or removes any. */
	if (!old || !READ_ONCE(old->nr_added))
		return 0;

	sm = sm_alloc(GFP_KERNEL_ACCOUNT);
	if (!sm)
		return -ENOMEM;
	mm->sframe = sm;

	for (node = rb_first(&old->texts); node; node = rb_next(node)) {
		entry = entry_of_text(node);
		if (!entry->added)
			continue;

		/* What was linked goes in sframe_mm_exit(). */
		copy = copy_entry(entry);
		if (!copy)
			return -ENOMEM;

		scoped_guard(spinlock, &sm->lock)
			link_entry(sm, copy);
		trace_entry(copy, "copied");
	}

	drop_not_copied(oldmm, mm);
	return 0;
}

static int insert_added(struct sframe_mm *sm, struct sframe_entry *entry)
{
	guard(spinlock)(&sm->lock);

	if (overlaps_added(sm, entry->start, entry->end))
		return -EEXIST;
	if (sm->nr_added >= SFRAME_MAX_ADDED)
		return -ENOSPC;

	unlink_found(sm, entry->start, entry->end);
	bare_remove(sm, entry->start, entry->end, "replaced");
	link_entry(sm, entry);
	trace_entry(entry, "added");
	return 0;
}

static int check_add_range(unsigned long start, unsigned long end)
{
	if (start >= end)
		return -EINVAL;
	if (!start || end > TASK_SIZE_MAX)
		return -EFAULT;
	return 0;
}

static int open_error(enum sframe_status status)
{
	switch (status) {
	case SFRAME_OK:
		return 0;
	case SFRAME_FAULT:
		return -EFAULT;
	case SFRAME_BAD_VERSION:
	case SFRAME_BAD_ABI:
		return -EOPNOTSUPP;
	default:
		return -ENOEXEC;
	}
}

static int add_entry(struct sframe_mm *sm, struct sframe_entry *entry)
{
	struct mm_struct *mm = current->mm;
	int ret;

	/*
	 * Not under the lock, since it may take a page fault. What it says of
	 * the table's shape is checked, whatever becomes of the memory.
	 */
	ret = open_error(sframe_open_user(&entry->sec));
	if (ret)
		return ret;

	if (mmap_read_lock_killable(mm))
		return -EINTR;

	ret = check_entry_mapped(mm, entry);
	if (!ret)
		ret = insert_added(sm, entry);

	mmap_read_unlock(mm);
	return ret;
}

/**
 * sframe_prctl_add - prctl(PR_ADD_SFRAME): use a table for a range of code
 * @sframe_start:	Address of the table's header, a multiple of 8
 * @sframe_end:		The end of its memory (exclusive), which may be longer
 * @text_start:		First byte of the code
 * @text_end:		The end of it (exclusive)
 *
 * The table stays in use until PR_REMOVE_SFRAME, or until some of its memory or
 * of the code is unmapped, moved or mapped over. A copied mm has it as well. To
 * change a table in place, remove it and add it again: rules are cached.
 *
 * It takes the place of whatever the kernel has found for the code by itself.
 *
 * Return: 0, or
 *
 *	=============	========================================================
 *	-EINVAL		a range is empty or ends before it starts; the table is
 *			not aligned; the mm is not of 64-bit kind; the kernel
 *			does not read SFrame tables
 *	-EFAULT		a range is not within user space, starts at 0, or has a
 *			hole; the header cannot be read
 *	-EFBIG		a table of more than 4 GiB
 *	-EACCES		some of the code is not executable, or some of the table
 *			not readable, or one of them is device memory
 *	-EOPNOTSUPP	a table of another version or for another machine
 *	-ENOEXEC	no table, or one that is refused for another reason
 *	-EEXIST		some of the code has a table that was added before
 *	-ENOSPC		SFRAME_MAX_ADDED tables have been added
 *	-ENOMEM		no memory, or the limit of the memory cgroup
 *	-EINTR		the task is being killed
 *	=============	========================================================
 */
int sframe_prctl_add(unsigned long sframe_start, unsigned long sframe_end,
		     unsigned long text_start, unsigned long text_end)
{
	struct sframe_entry *entry;
	struct sframe_mm *sm;
	int ret;

	if (!sframe_arch_mm_ok(current->mm))
		return -EINVAL;
	ret = check_add_range(sframe_start, sframe_end) ?:
	      check_add_range(text_start, text_end);
	if (ret)
		return ret;
	if (!IS_ALIGNED(sframe_start, sizeof(u64)))
		return -EINVAL;
	if (sframe_end - sframe_start > SFRAME_MAX_TABLE)
		return -EFBIG;

	sm = sframe_mm_get(SFRAME_ADD_GFP);
	entry = sframe_entry_alloc(SFRAME_ADD_GFP);
	if (!sm || !entry) {
		sframe_entry_put(entry);
		return -ENOMEM;
	}

	entry->sec.start = sframe_start;
	entry->sec.end = sframe_end;
	entry->sec.text_start = text_start;
	entry->sec.text_end = text_end;
	entry->start = text_start;
	entry->end = text_end;
	entry->has_table = true;
	entry->added = true;

	ret = add_entry(sm, entry);
	if (ret)
		sframe_entry_put(entry);
	return ret;
}

static int remove_added(struct sframe_mm *sm, unsigned long sframe_start)
{
	struct interval_tree_node *node, *next;
	int ret = -ENOENT;

	guard(spinlock)(&sm->lock);

	for (node = interval_tree_iter_first(&sm->tables, sframe_start,
					     sframe_start);
	     node; node = next) {
		struct sframe_entry *entry;

		next = interval_tree_iter_next(node, sframe_start,
					       sframe_start);
		entry = container_of(node, struct sframe_entry, table);
		if (!entry->added || entry->sec.start != sframe_start)
			continue;
		unlink_entry(sm, entry, "removed");
		ret = 0;
	}
	return ret;
}

/**
 * sframe_prctl_remove - prctl(PR_REMOVE_SFRAME): undo PR_ADD_SFRAME
 * @sframe_start:	Address of the table's header
 * @arg3:		Not used, must be 0
 * @arg4:		Likewise
 * @arg5:		Likewise
 *
 * If the table was added for several ranges of code, all of them go. Walks that
 * are reading the table meanwhile may still do so for a moment.
 *
 * Return: 0, or
 *
 *	=======		========================================================
 *	-EINVAL		an argument that must be 0 is not, or the kernel does
 *			not read SFrame tables
 *	-ENOENT		there is no such table that was added
 *	-EINTR		the task is being killed
 *	=======		========================================================
 */
int sframe_prctl_remove(unsigned long sframe_start, unsigned long arg3,
			unsigned long arg4, unsigned long arg5)
{
	struct mm_struct *mm = current->mm;
	struct sframe_mm *sm;
	int ret;

	if (arg3 || arg4 || arg5)
		return -EINVAL;

	sm = sframe_mm_of(mm);
	if (!sm)
		return -ENOENT;

	/* Keeps out a fork, which copies what was added without sm->lock. */
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	ret = remove_added(sm, sframe_start);
	mmap_read_unlock(mm);
	return ret;
}
