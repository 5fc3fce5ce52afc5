/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLE_STATE_H
#define __UNWIND_TABLE_STATE_H

/* The known state of registers and stack at an instruction: see state.c */

#include "insn.h"
#include "internal.h"

#define RETURN_ADDRESS	INSN_NR_REGS

/* The value of a register or a word of the stack */
enum what {
	UNKNOWN,
	ENTRY,			/* the caller's value of register @reg, or the return address */
	CFA,			/* CFA + @off */
	OPAQUE,			/* something + @off, see state.opaque */
	ADDRESS,		/* of the file, @off */
	ELEMENT,		/* of the table at @off, each of @size bytes */
	TARGET,			/* the same + @base */
};

struct value {
	__u8	what;
	__u8	reg;
	__u8	size;
	__u8	is_signed;
	__s32	off;
	__u32	base;
	__u32	values;		/* of the index, 0: not known */
};

/* A word of the stack, at CFA + @at or, if @opaque, at something + @at */
struct slot {
	__s32		at;
	__u32		opaque;		/* 0 or 1, without padding after it */
	struct value	value;
};

#define MAX_SLOTS	13

struct state {
	struct value	regs[INSN_NR_REGS];
	/* Where the something comes from: the address of the instruction */
	__u32		opaque;
	/*
	 * With what something was compared last, and how many values something has behind
	 * such a branch; each with the registers that have it
	 */
	__u16		compared;
	__u16		compared_regs;
	__u16		values;
	__u16		values_regs;
	__u8		equal[2];	/* registers, if that branch is taken */
	__u16		nr_slots;
	struct slot	slots[MAX_SLOTS];
};

/* Registers that a function preserves, as the ABI has it; and those that it need not */
#define PRESERVED	(1U << 3 | 1U << INSN_RBP | 0xf000)
#define SCRATCH		(0xffff & ~(PRESERVED | 1U << INSN_RSP))

/* More entries than a table of jumps has */
#define MAX_TARGETS	4096

static inline bool same_value(const struct value *a, const struct value *b)
{
	return !memcmp(a, b, sizeof(*a));
}

void ut_state_enter(struct state *s);
bool ut_state_join(struct state *a, const struct state *b);
bool ut_state_same_stack(const struct state *a, const struct state *b);
__u32 ut_state_hash(const struct state *s);
void ut_state_execute(struct state *s, const struct insn *insn, __u64 pc);
void ut_state_push(struct state *s, __u64 pc);
void ut_state_after_call(struct state *s, unsigned int clobbers, unsigned int pops);
void ut_state_note_equal(struct state *s);
void ut_state_note_limit(struct state *s);
bool ut_state_is_entry(const struct state *s);
bool ut_state_has_fp(const struct state *s);
unsigned int ut_state_clobbers(const struct state *s);
struct value ut_state_table(const struct state *s, const struct insn *insn);
bool ut_state_rule(const struct state *s, struct unwind_table_rule *rule);

/* Does the state agree with a rule? */
enum state_verdict {
	STATE_NO_RULE,		/* nothing is known */
	STATE_SAME,
	STATE_LESS,		/* but for the frame pointer, which is not known */
	STATE_CANNOT_TELL,
	STATE_DIFFERENT,
	STATE_NR_VERDICTS
};

enum state_verdict ut_state_agrees(const struct state *s, const struct unwind_table_rule *rule);

#endif /* __UNWIND_TABLE_STATE_H */
