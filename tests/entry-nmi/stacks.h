/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbols of stacks.S
 */
#ifndef _ENTRY_NMI_STACKS_H
#define _ENTRY_NMI_STACKS_H

#include "table_lib.h"

/* SP and frame pointer */
struct stack_regs {
	u64 *sp;
	u64 *fp;
};

typedef void enter_fn(const struct stack_regs *first, const struct stack_regs *second,
		      unsigned long arg);

enter_fn enter_syscall, enter_hostile, enter_interrupt, enter_exception;
void report(const u64 *words, u64 nr);

extern u8 code_start[], callers[], outermost[], code_end[];
extern u8 first_caller[], first_outermost[], second_caller[], second_outermost[];

#endif /* _ENTRY_NMI_STACKS_H */
