/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_UNWIND_USER_H
#define _ASM_X86_UNWIND_USER_H

#include <linux/unwind_user_types.h>

struct pt_regs;

#ifdef CONFIG_UNWIND_USER

#include <linux/mm_types.h>
#include <linux/nmi.h>
#include <linux/thread_info.h>

#include <asm/ptrace.h>
#include <asm/vdso.h>

/* The longest signal return trampoline: endbr64; mov $nr, %rax; syscall */
#define ARCH_UNWIND_USER_SIGRETURN_LEN	(4 + 7 + 2)

/**
 * arch_unwind_in_nmi - Is this CPU handling an NMI?
 *
 * Unlike in_nmi(), this is false in the handlers of #DB and int3. These are entered
 * because of what the CPU itself executes, and are entered again if it does so again.
 *
 * Return: True if it is.
 */
static inline bool arch_unwind_in_nmi(void)
{
	return nmi_is_running();
}

/* Has the current task taken a look on this way to user mode? */
static inline bool arch_unwind_looked(void)
{
	return current_thread_info()->status & TS_UNWIND_LOOKED;
}

/* Until the task is in user mode, see arch_exit_to_user_mode_prepare() */
static inline void arch_unwind_set_looked(void)
{
	current_thread_info()->status |= TS_UNWIND_LOOKED;
}

/* A general purpose register by its number in DWARF, which is less than 16. */
static inline unsigned long
arch_unwind_user_reg(const struct pt_regs *regs, unsigned int nr)
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

/* Is mm->saved_auxv that of a 32-bit ELF file, as those of ia32 and x32 are? */
static inline bool arch_unwind_user_compat_auxv(const struct mm_struct *mm)
{
	return !test_bit(MM_CONTEXT_HAS_VSYSCALL, &mm->context.flags);
}

/*
 * The key of the vDSO for 64-bit code, the same in all processes, if @vma maps it; otherwise
 * NULL. A program can unmap it, and map something else there.
 */
static inline const void *arch_unwind_vdso_key(const struct mm_struct *mm,
					       const struct vm_area_struct *vma)
{
	/* Another thread may change it, see prctl_map_vdso(). */
	const struct vdso_image *image = READ_ONCE(mm->context.vdso_image);

	return image == &vdso_image_64 && vma_is_vdso(vma) ? image : NULL;
}

/* The ELF file that it is */
static inline const void *arch_unwind_vdso_data(const void *key)
{
	return ((const struct vdso_image *)key)->data;
}

bool arch_unwind_user_init(struct unwind_user_state *state,
			   struct pt_regs *regs);
enum unwind_user_status
arch_unwind_user_topmost(const struct unwind_user_state *state,
			 u64 *word);
enum unwind_user_status
arch_unwind_user_epilogue(const struct unwind_user_state *state,
			  u64 *word);
enum unwind_user_status
arch_unwind_user_sigframe(struct unwind_user_state *state);

#ifdef CONFIG_UPROBES
void arch_unwind_user_uretprobe(struct unwind_user_state *state);
#else
static inline void
arch_unwind_user_uretprobe(struct unwind_user_state *state) { }
#endif

#endif /* CONFIG_UNWIND_USER */
#endif /* _ASM_X86_UNWIND_USER_H */
