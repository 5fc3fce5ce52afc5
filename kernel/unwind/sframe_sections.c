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
 * Removing an entry takes no memory, so unmapping never fails because of it.
 */

#define pr_fmt(fmt) "unwind_sframe: " fmt

#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/prctl.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sframe.h>
#include <linux/slab.h>

#include <asm/sframe.h>

#include "sframe_sections.h"

#define CREATE_TRACE_POINTS
#include <trace/events/unwind.h>

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

/* The store of an mm, or NULL. */
static struct sframe_mm *sm_of(struct mm_struct *mm)
{
	/* Pairs with cmpxchg() in sframe_mm_get(). */
	return smp_load_acquire(&mm->sframe);
}

static void sm_free(struct sframe_mm *sm)
{
	free_pages((unsigned long)sm->cache, SFRAME_CACHE_ORDER);
	kfree(sm);
}

static struct sframe_mm *sm_alloc(gfp_t gfp)
{
	struct sframe_mm *sm;

	sm = kzalloc(sizeof(*sm), gfp);
	if (!sm)
		return NULL;

	/* An empty slot matches no user address: the first mix is not 0. */
	sm->cache = (void *)__get_free_pages(gfp | __GFP_ZERO,
					     SFRAME_CACHE_ORDER);
	if (!sm->cache) {
		kfree(sm);
		return NULL;
	}

	spin_lock_init(&sm->lock);
	seqcount_spinlock_init(&sm->seq, &sm->lock);
	sm->texts = RB_ROOT;
	sm->tables = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&sm->found);
	INIT_LIST_HEAD(&sm->probes);
	sm->gen = 1;
	return sm;
}

/**
 * sframe_mm_get - The store of current's mm
 *
 * Return: The store, which lives as long as the mm has users; NULL if there was
 *	   no memory to make it.
 */
struct sframe_mm *sframe_mm_get(void)
{
	struct mm_struct *mm = current->mm;
	struct sframe_mm *sm, *old;

	sm = sm_of(mm);
	if (likely(sm))
		return sm;

	sm = sm_alloc(SFRAME_GFP);
	if (!sm)
		return NULL;

	old = cmpxchg(&mm->sframe, NULL, sm);
	if (!old)
		return sm;

	sm_free(sm);
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

/* The first entry that has code behind @start. */
static struct sframe_entry *first_behind(struct sframe_mm *sm,
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

	/* Pairs with unwind_user_sframe_sync(). */
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

	if (rcu_access_pointer(sm->none) == entry)
		RCU_INIT_POINTER(sm->none, NULL);

	next_gen(sm);
	sframe_entry_put(entry);
}

/* Drop what was found, as opposed to added, in a range. */
static void unlink_found(struct sframe_mm *sm, unsigned long start,
			 unsigned long end)
{
	struct sframe_entry *entry, *next;

	for (entry = first_behind(sm, start); entry && entry->start < end;
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

	for (entry = first_behind(sm, start); entry && entry->start < end;
	     entry = next_entry(entry)) {
		if (entry->added)
			return true;
	}
	return false;
}

/* Leave to added entries what is theirs; none of them has @pc. */
static void clip_to_gap(struct sframe_mm *sm, struct sframe_entry *entry,
			unsigned long pc)
{
	struct sframe_entry *other;

	for (other = first_behind(sm, entry->start);
	     other && other->start < entry->end; other = next_entry(other)) {
		if (!other->added)
			continue;
		if (other->end <= pc)
			entry->start = other->end;
		else
			entry->end = other->start;
	}
}

/**
 * sframe_probe_begin - Start to watch mappings
 * @sm:		Store
 * @probe:	With @probe->start and @probe->end
 *
 * Context: mmap lock of current's mm held, for reading
 */
void sframe_probe_begin(struct sframe_mm *sm, struct sframe_probe *probe)
{
	mmap_assert_locked(current->mm);

	probe->gone = false;
	guard(spinlock)(&sm->lock);
	list_add(&probe->list, &sm->probes);
}

/**
 * sframe_probe_extend - Watch more of them
 * @sm:		Store
 * @probe:	Probe that has begun
 * @start:	First byte of what is to be read next
 * @end:	Behind the last one
 */
void sframe_probe_extend(struct sframe_mm *sm, struct sframe_probe *probe,
			 unsigned long start, unsigned long end)
{
	guard(spinlock)(&sm->lock);
	probe->start = min(probe->start, start);
	probe->end = max(probe->end, end);
}

/**
 * sframe_probe_end - Stop to watch them
 * @sm:		Store
 * @probe:	What sframe_probe_begin() got
 */
void sframe_probe_end(struct sframe_mm *sm, struct sframe_probe *probe)
{
	guard(spinlock)(&sm->lock);
	list_del(&probe->list);
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

/**
 * sframe_insert_found - Remember what a search has found
 * @sm:		Store
 * @entry:	Result. It is the store's now, whatever is returned
 * @probe:	Search, or NULL if the mmap lock was held all the time
 * @pc:		Address that was searched for, in the range of @entry
 *
 * Context: mmap lock of current's mm held, for reading
 * Return: The entry that covers @pc, with a reference: @entry, or that of
 *	   somebody who was faster. NULL if a mapping has gone meanwhile, or not
 *	   all of the table is mapped.
 */
struct sframe_entry *sframe_insert_found(struct sframe_mm *sm,
					 struct sframe_entry *entry,
					 struct sframe_probe *probe,
					 unsigned long pc)
{
	struct sframe_entry *other;

	mmap_assert_locked(current->mm);

	/*
	 * munmap() downgrades the lock before it tells the probes, so a table
	 * that they did not watch yet can still have been readable.
	 */
	if (entry->has_table && check_mapped(current->mm, entry->sec.start,
					     entry->sec.end, VM_READ)) {
		sframe_entry_put(entry);
		return NULL;
	}

	guard(spinlock)(&sm->lock);

	if (probe && probe->gone) {
		sframe_entry_put(entry);
		return NULL;
	}

	other = first_behind(sm, pc);
	if (other && sframe_entry_has(other, pc)) {
		refcount_inc(&other->ref);
		sframe_entry_put(entry);
		return other;
	}

	clip_to_gap(sm, entry, pc);
	unlink_found(sm, entry->start, entry->end);
	if (sm->nr_found >= SFRAME_MAX_FOUND)
		unlink_entry(sm, list_first_entry(&sm->found,
						  struct sframe_entry, list),
			     "evicted");

	refcount_inc(&entry->ref);
	link_entry(sm, entry);
	trace_entry(entry, entry->reason ?: "found");
	return entry;
}

/**
 * sframe_entry_note_none - Remember an entry without table as the usual case
 * @sm:		Store
 * @entry:	Entry that the caller has a reference to
 */
void sframe_entry_note_none(struct sframe_mm *sm, struct sframe_entry *entry)
{
	if (rcu_access_pointer(sm->none) == entry)
		return;

	guard(spinlock)(&sm->lock);
	/* Once it is out of the tree nobody would take it back. */
	if (!RB_EMPTY_NODE(&entry->text))
		rcu_assign_pointer(sm->none, entry);
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
		next_gen(sm);

	trace_entry(entry, reason);
	pr_notice_ratelimited("%s[%d]: bad table at %#llx for code at %#lx-%#lx: %s\n",
			      current->comm, task_pid_nr(current),
			      entry->sec.start, entry->start, entry->end,
			      reason);
}

void __sframe_unmap(struct mm_struct *mm, unsigned long start,
		    unsigned long end)
{
	struct sframe_mm *sm = sm_of(mm);
	struct interval_tree_node *node;
	struct sframe_entry *entry, *next;
	struct sframe_probe *probe;

	mmap_assert_locked(mm);

	if (start >= end)
		return;

	guard(spinlock)(&sm->lock);

	list_for_each_entry(probe, &sm->probes, list) {
		if (probe->start < end && start < probe->end)
			probe->gone = true;
	}

	for (entry = first_behind(sm, start); entry && entry->start < end;
	     entry = next) {
		next = next_entry(entry);
		unlink_entry(sm, entry, "unmapped");
	}

	while ((node = interval_tree_iter_first(&sm->tables, start, end - 1)))
		unlink_entry(sm, container_of(node, struct sframe_entry, table),
			     "unmapped");
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
	struct sframe_mm *old = sm_of(oldmm);
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
 * @sframe_end:		Behind the memory of the table, which may be longer
 * @text_start:		First byte of the code
 * @text_end:		Behind the last one
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

	sm = sframe_mm_get();
	entry = sframe_entry_alloc(SFRAME_GFP);
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

	sm = sm_of(mm);
	if (!sm)
		return -ENOENT;

	/* Keeps out a fork, which copies what was added without sm->lock. */
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	ret = remove_added(sm, sframe_start);
	mmap_read_unlock(mm);
	return ret;
}
