/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_CODE_H
#define _LINUX_UNWIND_CODE_H

/*
 * Hooks of memory management and prctl() for what is known about the code of an
 * address space, see kernel/unwind/code.h. Until its first walk, or its first
 * SFrame table by prctl(), an mm has no more than a NULL pointer.
 *
 *			held by the caller		may fail
 * unwind_mm_init()	nobody else knows @mm yet	no
 * unwind_mm_dup()	both mmap locks, for writing	yes, so does the fork
 * unwind_mm_exit()	the last user of @mm is gone	no
 */

#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/mm_types.h>

#ifdef CONFIG_UNWIND_USER_CODE

int __unwind_mm_dup(struct unwind_mm *old, struct mm_struct *mm);
void __unwind_mm_exit(struct mm_struct *mm);

static inline void unwind_mm_init(struct mm_struct *mm)
{
	mm->unwind = NULL;
}

/* A copied mm gets the tables that prctl() added; all else is found again. */
static inline int unwind_mm_dup(struct mm_struct *oldmm, struct mm_struct *mm)
{
	struct unwind_mm *old = READ_ONCE(oldmm->unwind);

	return unlikely(old) ? __unwind_mm_dup(old, mm) : 0;
}

static inline void unwind_mm_exit(struct mm_struct *mm)
{
	if (unlikely(mm->unwind))
		__unwind_mm_exit(mm);
}

#else /* !CONFIG_UNWIND_USER_CODE */

static inline void unwind_mm_init(struct mm_struct *mm) { }
static inline void unwind_mm_exit(struct mm_struct *mm) { }

static inline int unwind_mm_dup(struct mm_struct *oldmm, struct mm_struct *mm)
{
	return 0;
}

#endif /* CONFIG_UNWIND_USER_CODE */

#ifdef CONFIG_UNWIND_USER_SFRAME

int sframe_prctl_add(unsigned long sframe_start, unsigned long sframe_end,
		     unsigned long text_start, unsigned long text_end);
int sframe_prctl_remove(unsigned long sframe_start, unsigned long arg3,
			unsigned long arg4, unsigned long arg5);

#else /* !CONFIG_UNWIND_USER_SFRAME */

static inline int
sframe_prctl_add(unsigned long sframe_start, unsigned long sframe_end,
		 unsigned long text_start, unsigned long text_end)
{
	return -EINVAL;
}

static inline int
sframe_prctl_remove(unsigned long sframe_start, unsigned long arg3,
		    unsigned long arg4, unsigned long arg5)
{
	return -EINVAL;
}

#endif /* CONFIG_UNWIND_USER_SFRAME */
#endif /* _LINUX_UNWIND_CODE_H */
