// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that a program adds by prctl(), for instance for code that it has
 * compiled at run time.
 */

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/mmu_context.h>
#include <linux/pagemap.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/unwind_code.h>

#include "code.h"

#include <trace/events/unwind.h>

/* The program can be told that there is no memory. */
#define PRCTL_GFP	(GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN)

/* Is all of a range mapped, without a hole, with these flags, and no device memory? */
static int sframe_prctl_check_mapped(struct mm_struct *mm, unsigned long start, unsigned long end,
				     unsigned long flags)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	for_each_vma_range(vmi, vma, end) {
		if (vma->vm_start > start)
			return -EFAULT;
		if ((vma->vm_flags & flags) != flags || vma->vm_flags & (VM_IO | VM_PFNMAP))
			return -EACCES;
		start = vma->vm_end;
	}
	return start < end ? -EFAULT : 0;
}

static int sframe_prctl_check_range(unsigned long start, unsigned long end)
{
	if (start >= end)
		return -EINVAL;
	if (!start || end > TASK_SIZE_MAX)
		return -EFAULT;
	return 0;
}

static int sframe_prctl_error(enum sframe_status status)
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

/* Note what is mapped there: the table counts as long as it is. */
static int sframe_prctl_check_memory(struct unwind_range *range, const struct sframe_section *sec)
{
	unsigned long start = range->start, end = range->end;
	struct mm_struct *mm = current->mm;
	int ret;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	ret = sframe_prctl_check_mapped(mm, start, end, VM_EXEC) ?:
	      sframe_prctl_check_mapped(mm, sec->start, sec->end, VM_READ);
	if (!ret)
		unwind_range_set(range, vma_lookup(mm, start));
	mmap_read_unlock(mm);
	range->start = start;
	range->end = end;
	return ret;
}

/**
 * sframe_prctl_add - prctl(PR_ADD_SFRAME): use a table for a range of code
 * @sframe_start:	Address of the table's header, a multiple of 8
 * @sframe_end:		The end of its memory (exclusive), which may be longer
 * @text_start:		First byte of the code
 * @text_end:		The end of it (exclusive)
 *
 * The table stays in use until PR_REMOVE_SFRAME or exec, but not while other memory than
 * now is mapped where the code is. A copied mm has it as well. It replaces any table that
 * was added before for some of the code, and comes before all that the kernel finds. To
 * change a table in place, remove it and add it again: rules are cached.
 *
 * Return: 0, or one of the errors in Documentation/userspace-api/sframe-unwinding.rst.
 */
int sframe_prctl_add(unsigned long sframe_start, unsigned long sframe_end,
		     unsigned long text_start, unsigned long text_end)
{
	struct unwind_range range = {
		.start = text_start, .end = text_end, .added = true,
	};
	struct sframe_section sec = {
		.start = sframe_start, .end = sframe_end,
		.text_start = text_start, .text_end = text_end,
	};
	struct unwind_mm *um;
	int ret;

	if (!is_64bit_mm(current->mm))
		return -EINVAL;
	ret = sframe_prctl_check_range(sframe_start, sframe_end) ?:
	      sframe_prctl_check_range(text_start, text_end);
	if (ret)
		return ret;
	if (!IS_ALIGNED(sframe_start, sizeof(u64)))
		return -EINVAL;
	if (sframe_end - sframe_start > BIT(32))
		return -EFBIG;

	/* Unlike a walk, the program can wait for a process that supplies its memory. */
	fault_in_readable((const char __user *)sframe_start, SFRAME_HEADER_LEN);
	ret = sframe_prctl_error(sframe_open(&sec)) ?: sframe_prctl_check_memory(&range, &sec);
	if (ret)
		return ret;

	um = unwind_mm_get(current->mm, PRCTL_GFP);
	range.sframe = unwind_sframe_alloc(&sec, PRCTL_GFP);
	ret = -ENOMEM;
	if (um && range.sframe) {
		scoped_guard(mutex, &um->added_lock)
			ret = unwind_map_insert(um, &range, PRCTL_GFP);
	}
	if (ret) {
		unwind_sframe_put(range.sframe);
		return ret;
	}
	trace_unwind_sframe_section(text_start, text_end, sframe_start, sec.num_fdes,
				    sec.version, "added");
	return 0;
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
 * Return: As sframe_prctl_add().
 */
int sframe_prctl_remove(unsigned long sframe_start, unsigned long arg3,
			unsigned long arg4, unsigned long arg5)
{
	struct unwind_mm *um = READ_ONCE(current->mm->unwind);
	int ret = -ENOENT;

	if (arg3 || arg4 || arg5)
		return -EINVAL;
	/* None starts at 0. */
	if (um && sframe_start) {
		scoped_guard(mutex, &um->added_lock)
			ret = unwind_map_remove(um, sframe_start, PRCTL_GFP);
	}
	if (!ret)
		trace_unwind_sframe_section(0, 0, sframe_start, 0, 0, "removed");
	return ret;
}
