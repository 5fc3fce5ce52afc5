/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_UNWIND_USER_H
#define _ASM_X86_UNWIND_USER_H

#include <linux/unwind_user_types.h>

struct pt_regs;

#ifdef CONFIG_UNWIND_USER

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
