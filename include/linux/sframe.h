/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_SFRAME_H
#define _LINUX_SFRAME_H

/*
 * The hooks of memory management and prctl() for the SFrame tables of an address
 * space. Until its first unwind, or its first table, an mm has no more than a NULL
 * pointer.
 *
 *			held by the caller		may fail
 * sframe_mm_init()	nobody else knows @mm yet	no
 * sframe_mm_dup()	both mmap locks, for writing	yes, so does the fork
 * sframe_mm_exit()	the last user of @mm is gone	no
 * sframe_unmap()	mmap lock, for writing; or for	no
 *			reading, if the mappings are
 *			out of the tree already
 */

#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/mm_types.h>

#ifdef CONFIG_UNWIND_USER_SFRAME

int sframe_mm_dup(struct mm_struct *oldmm, struct mm_struct *mm);
void __sframe_mm_exit(struct mm_struct *mm);
void __sframe_unmap(struct mm_struct *mm, unsigned long start,
		    unsigned long end);

int sframe_prctl_add(unsigned long sframe_start, unsigned long sframe_end,
		     unsigned long text_start, unsigned long text_end);
int sframe_prctl_remove(unsigned long sframe_start, unsigned long arg3,
			unsigned long arg4, unsigned long arg5);

static inline void sframe_mm_init(struct mm_struct *mm)
{
	mm->sframe = NULL;
}

static inline void sframe_mm_exit(struct mm_struct *mm)
{
	if (unlikely(mm->sframe))
		__sframe_mm_exit(mm);
}

/**
 * sframe_unmap - Forget what was known about a range of addresses
 * @mm:		Address space
 * @start:	First byte that is unmapped or gets other contents
 * @end:	The end of them (exclusive)
 *
 * A table is dropped as a whole if any of its code, or of its own memory, is touched.
 */
static inline void sframe_unmap(struct mm_struct *mm, unsigned long start,
				unsigned long end)
{
	if (unlikely(READ_ONCE(mm->sframe)))
		__sframe_unmap(mm, start, end);
}

#else /* !CONFIG_UNWIND_USER_SFRAME */

static inline void sframe_mm_init(struct mm_struct *mm) { }
static inline void sframe_mm_exit(struct mm_struct *mm) { }

static inline int sframe_mm_dup(struct mm_struct *oldmm, struct mm_struct *mm)
{
	return 0;
}

static inline void sframe_unmap(struct mm_struct *mm, unsigned long start,
				unsigned long end) { }

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
#endif /* _LINUX_SFRAME_H */
