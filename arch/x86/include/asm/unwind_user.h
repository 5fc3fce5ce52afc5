/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_UNWIND_USER_H
#define _ASM_X86_UNWIND_USER_H

#include <linux/unwind_user_types.h>

struct pt_regs;

#ifdef CONFIG_UNWIND_USER

#include <linux/nmi.h>

/* The longest signal return trampoline: endbr64; mov $nr, %rax; syscall */
#define ARCH_UNWIND_USER_SIGRETURN_LEN	(4 + 7 + 2)

/**
 * arch_unwind_in_nmi - Is this CPU handling an NMI?
 *
 * Unlike in_nmi() false in the handlers of #DB and int3, which are entered by
 * what the CPU itself does, and again when it does so again.
 */
static inline bool arch_unwind_in_nmi(void)
{
	return nmi_is_running();
}

bool arch_unwind_user_init(struct unwind_user_state *state,
			   struct pt_regs *regs);
enum unwind_user_status
arch_unwind_user_topmost(const struct unwind_user_state *state,
			 struct unwind_user_frame *frame);
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
