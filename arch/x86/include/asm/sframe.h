/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_SFRAME_H
#define _ASM_X86_SFRAME_H

#include <linux/mm_types.h>

#include <linux/mmu_context.h>
#include <asm/vdso.h>

/* Tables are for 64-bit code, and for addresses of 64 bits. */
static inline bool sframe_arch_mm_ok(struct mm_struct *mm)
{
	return is_64bit_mm(mm);
}

/* Where the vDSO for 64-bit code is mapped, 0 if it is not. */
static inline unsigned long sframe_arch_vdso(struct mm_struct *mm)
{
	/* With the lock of another mapping held, that of the vDSO may move. */
	if (READ_ONCE(mm->context.vdso_image) != &vdso_image_64)
		return 0;
	return (unsigned long)READ_ONCE(mm->context.vdso);
}

/*
 * Is this mapping that vDSO? Its address alone does not say so: a program can unmap
 * it, and map something else there.
 */
static inline bool sframe_arch_is_vdso(const struct vm_area_struct *vma)
{
	unsigned long vdso = sframe_arch_vdso(vma->vm_mm);

	return vdso && vma_is_vdso(vma);
}

/* What the same vDSO is known by in all processes. */
static inline const void *sframe_arch_vdso_key(struct mm_struct *mm)
{
	return mm->context.vdso_image;
}

#endif /* _ASM_X86_SFRAME_H */
