/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __DWARF_EVAL_H
#define __DWARF_EVAL_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <linux/types.h>
#include <linux/unwind_table.h>

#define NR_REGS		17	/* DWARF numbers of x86-64; the last one is RIP */
#define REG_FP		6
#define REG_SP		7
#define REG_IP		16

/*
 * An imaginary machine: registers and memory have contents that depend on the seed
 * alone. Two rules that give the same results on two machines are the same.
 */
struct machine {
	__u64 seed;
	__u64 regs[NR_REGS];
	__u64 cfa;
};

void machine_init(struct machine *machine, __u64 seed, __u64 ip);
__u64 machine_read(const struct machine *machine, __u64 address);

/*
 * Evaluate an expression; @is_value: the top of the stack at the end is the value
 * itself, not its address. false: with an operation that is not known here
 */
bool dwarf_eval(const struct machine *machine, const Dwarf_Op *ops, size_t nr,
		__u64 *result, bool *is_value);

/* The frame that calls, as both sides see it */
struct frame {
	bool none;		/* No information */
	bool outermost;
	bool strange;
	bool signal;
	bool no_fp;
	__u64 sp;
	__u64 ip;
	__u64 fp;
};

/* What calls, by a rule (NULL: there is none), and by what elfutils found (NULL: nothing) */
void frame_of_rule(struct machine *machine, const struct unwind_table_rule *rule,
		   struct frame *frame);
void frame_of_dwarf(struct machine *machine, Dwarf_Frame *dwarf, struct frame *frame);

#endif /* __DWARF_EVAL_H */
