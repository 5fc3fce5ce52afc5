// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that a program adds by prctl(), for instance for code that it has
 * compiled at run time.
 */

#include <linux/interval_tree.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/sframe.h>

#include <asm/sframe.h>

#include "sframe_mm.h"

static int check_entry_mapped(struct mm_struct *mm,
			      const struct sframe_entry *entry)
{
	int ret;

	ret = sframe_check_mapped(mm, entry->code.start, entry->code.end, VM_EXEC);
	if (ret)
		return ret;
	return sframe_check_mapped(mm, entry->sec.start, entry->sec.end, VM_READ);
}

static bool overlaps_added(struct sframe_mm *sm, unsigned long start,
			   unsigned long end)
{
	struct sframe_entry *entry;

	for (entry = sframe_entry_first(sm, start);
	     entry && entry->code.start < end; entry = sframe_entry_next(entry)) {
		if (entry->added && !entry->attached)
			return true;
	}
	return false;
}

/* What a profiler knows of the code does not keep a program from saying more. */
static void unlink_attached(struct sframe_mm *sm, unsigned long start,
			    unsigned long end)
{
	struct sframe_entry *entry, *next;

	for (entry = sframe_entry_first(sm, start);
	     entry && entry->code.start < end; entry = next) {
		next = sframe_entry_next(entry);
		if (entry->attached)
			sframe_entry_unlink(sm, entry, "replaced");
	}
}

static int insert_added(struct sframe_mm *sm, struct sframe_entry *entry)
{
	guard(spinlock)(&sm->lock);

	if (overlaps_added(sm, entry->code.start, entry->code.end))
		return -EEXIST;
	if (sm->nr_added >= SFRAME_MAX_ADDED)
		return -ENOSPC;
	unlink_attached(sm, entry->code.start, entry->code.end);

	sframe_unlink_found(sm, entry->code.start, entry->code.end);
	sframe_bare_remove(sm, entry->code.start, entry->code.end, "replaced");
	sframe_entry_link(sm, entry);
	sframe_trace_entry(entry, "added");
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
 * It replaces any table that the kernel has found for the code.
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

	sm = sframe_mm_get(current->mm, SFRAME_ADD_GFP);
	entry = sframe_entry_alloc(SFRAME_ADD_GFP);
	if (!sm || !entry) {
		sframe_entry_put(entry);
		return -ENOMEM;
	}

	entry->sec.start = sframe_start;
	entry->sec.end = sframe_end;
	entry->sec.text_start = text_start;
	entry->sec.text_end = text_end;
	entry->code.start = text_start;
	entry->code.end = text_end;
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
		sframe_entry_unlink(sm, entry, "removed");
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
 * If the table was added for several ranges of code, it is removed from all of them.
 * Walks that are reading the table may go on doing so for a moment.
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
	/* This keeps out a fork, which copies what was added without sm->lock. */
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	ret = remove_added(sm, sframe_start);
	mmap_read_unlock(mm);
	return ret;
}
