/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_SFRAME_H
#define _ASM_X86_SFRAME_H

#include <linux/mm_types.h>

#include <linux/mmu_context.h>
#include <asm/ptrace.h>
#include <asm/vdso.h>

/* Tables are for 64-bit code, and for addresses of 64 bits. */
static inline bool sframe_arch_mm_ok(struct mm_struct *mm)
{
	return is_64bit_mm(mm);
}

/* Where the vDSO for 64-bit code is mapped, 0 if it is not. */
static inline unsigned long sframe_arch_vdso(struct mm_struct *mm)
{
	if (mm->context.vdso_image != &vdso_image_64)
		return 0;
	return (unsigned long)mm->context.vdso;
}

/* A general purpose register by its number in DWARF, which is less than 16. */
static inline unsigned long sframe_arch_reg(const struct pt_regs *regs,
					    unsigned int nr)
{
	static const u8 offsets[] = {
		offsetof(struct pt_regs, ax),	offsetof(struct pt_regs, dx),
		offsetof(struct pt_regs, cx),	offsetof(struct pt_regs, bx),
		offsetof(struct pt_regs, si),	offsetof(struct pt_regs, di),
		offsetof(struct pt_regs, bp),	offsetof(struct pt_regs, sp),
		offsetof(struct pt_regs, r8),	offsetof(struct pt_regs, r9),
		offsetof(struct pt_regs, r10),	offsetof(struct pt_regs, r11),
		offsetof(struct pt_regs, r12),	offsetof(struct pt_regs, r13),
		offsetof(struct pt_regs, r14),	offsetof(struct pt_regs, r15),
	};

	return regs_get_register((struct pt_regs *)regs, offsets[nr & 15]);
}

#endif /* _ASM_X86_SFRAME_H */
