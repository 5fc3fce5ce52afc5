/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_RULE_H
#define _LINUX_UNWIND_RULE_H

/*
 * A rule says how to get from a frame to its caller. Providers (the table for a file,
 * an SFrame table, the code, the frame pointer) find the rule for an address;
 * unwind_user_apply() in user.c applies it to a frame.
 *
 * Nearly all rules are ordinary ones, which fit into a word: the CFA is SP or FP
 * plus an offset, the return address is the stack slot right below the CFA, and
 * the caller's FP is still in its register or in another slot below the CFA.
 * All others have a long form.
 *
 * Also builds in user space, together with the decoder of SFrame tables.
 */

#include <linux/compiler.h>
#include <linux/types.h>

/* DWARF numbers of the registers that ordinary rules are based on */
#define UNWIND_REG_FP		6
#define UNWIND_REG_SP		7
/* General purpose registers are 0 to 15. */
#define UNWIND_NR_REGS		16

/**
 * enum unwind_where - Where a value of the calling frame is
 * @UNWIND_UNDEFINED:	Nowhere
 * @UNWIND_SAME:	Still in its register
 * @UNWIND_REG:		It is register + offset
 * @UNWIND_REG_DEREF:	In memory at register + offset
 * @UNWIND_CFA:		It is CFA + offset
 * @UNWIND_CFA_DEREF:	In memory at CFA + offset
 */
enum unwind_where {
	UNWIND_UNDEFINED,
	UNWIND_SAME,
	UNWIND_REG,
	UNWIND_REG_DEREF,
	UNWIND_CFA,
	UNWIND_CFA_DEREF,
};

/**
 * struct unwind_loc - Place of one value
 * @off:	Offset; 0 if @where has none
 * @where:	enum unwind_where
 * @reg:	DWARF number, less than UNWIND_NR_REGS; 0 if @where has none
 */
struct unwind_loc {
	s32	off;
	u8	where;
	u8	reg;
};

/**
 * struct unwind_rule - How to get from a frame to its caller
 * @cfa:	Canonical frame address, which is the caller's SP. UNWIND_REG or
 *		UNWIND_REG_DEREF
 * @ra:		Return address, never UNWIND_SAME or UNWIND_UNDEFINED
 * @fp:		Caller's frame pointer; UNWIND_UNDEFINED if it is not known
 * @outermost:	There is no caller; the three above are UNWIND_UNDEFINED
 * @signal:	The frame was made by a signal: the return address is not one of
 *		a call but where the caller was interrupted
 * @new_thread:	A new thread starts here, too: there is no caller if the register
 *		of a system call's result is 0
 * @no_call:	No call is there: a frame found as a caller is none
 * @cfa_add:	Added to the CFA, if that is UNWIND_REG_DEREF
 * @word:	The rule as a word, if it is an ordinary one; else 0
 *
 * The values of registers other than SP and FP are known in the topmost frame only.
 */
struct unwind_rule {
	struct unwind_loc	cfa;
	struct unwind_loc	ra;
	struct unwind_loc	fp;
	bool			outermost;
	bool			signal;
	bool			new_thread;
	bool			no_call;
	s32			cfa_add;
	u64			word;
};

/*
 * An ordinary rule, or something else that is worth remembering about an address,
 * in one word. Words are never 0.
 *
 *	bit 0		UNWIND_WORD_TABLE: the rule is from a table. If clear, no
 *			table covers the address: the rule is that of a frame
 *			pointer, unless the code of a topmost frame says otherwise
 *	bit 1		UNWIND_WORD_OUTERMOST: there is no caller
 *	bit 2		set in UNWIND_WORD_STOP(): the walk cannot go on, bits 16-31
 *			are the enum unwind_user_status that says why
 *	bit 3		UNWIND_WORD_USE_FP: the CFA is based on the FP, not the SP
 *	bit 12		UNWIND_WORD_FILE, with bit 0: it is a table for the file
 *	bits 16-31	from the CFA down to the lowest slot that is read, in
 *			bytes: the FP's, or the return address's if the FP is in
 *			its register
 *	bits 32-63	offset of the CFA, signed, more than 0
 *
 * If bit 1 or 2 is set, the rest means nothing. Since the offset is more than 0,
 * each step moves the SP up, provided that the register is not below the SP.
 */
#define UNWIND_WORD_TABLE	0x01ULL
#define UNWIND_WORD_OUTERMOST	0x02ULL
#define UNWIND_WORD_STOPS	0x04ULL
#define UNWIND_WORD_USE_FP	0x08ULL
#define UNWIND_WORD_FILE	0x1000ULL

/* Words are added up to count the frames of each kind. */
#define UNWIND_WORD_COUNTS	(UNWIND_WORD_TABLE | UNWIND_WORD_FILE)
#define UNWIND_WORD_BY_TABLE(sum)	((sum) & (UNWIND_WORD_FILE - 1))
#define UNWIND_WORD_BY_FILE(sum)	((sum) / UNWIND_WORD_FILE)

/*
 * How far below the CFA a slot can be. A pointer that was masked can be followed
 * this far up: the page after the last user address is never mapped.
 */
#define UNWIND_WORD_MAX_DEPTH	2048

#define UNWIND_WORD(flags, cfa_off, depth)				\
	((flags) | (u64)(depth) << 16 | (u64)(cfa_off) << 32)

#define UNWIND_WORD_STOP(status)					\
	UNWIND_WORD(UNWIND_WORD_TABLE | UNWIND_WORD_STOPS, 0, status)

static __always_inline s32 unwind_word_cfa_off(u64 word)
{
	return (s32)(word >> 32);
}

static __always_inline unsigned int unwind_word_depth(u64 word)
{
	return (u16)(word >> 16);
}

/* The rule of a function that has begun with push %rbp; mov %rsp,%rbp */
static __always_inline u64 unwind_word_fp(const unsigned int word_size)
{
	return UNWIND_WORD(UNWIND_WORD_USE_FP, 2 * word_size, 2 * word_size);
}

/**
 * unwind_word_make - Make the word of a table's ordinary rule for 64-bit code
 * @use_fp:	The CFA is based on the FP, not the SP
 * @cfa_off:	Offset of the CFA from there
 * @fp_off:	Slot of the caller's FP, relative to the CFA; 0 if the FP is in
 *		its register
 *
 * Return: The word, or 0 if it has no room for such a rule.
 */
static __always_inline u64 unwind_word_make(bool use_fp, s32 cfa_off,
					    s32 fp_off)
{
	const s32 word_size = sizeof(u64);

	if (cfa_off <= 0)
		return 0;
	/* The slot above these is that of the return address. */
	if (fp_off && (fp_off > -2 * word_size ||
		       fp_off < -UNWIND_WORD_MAX_DEPTH))
		return 0;

	return UNWIND_WORD(UNWIND_WORD_TABLE | (use_fp ? UNWIND_WORD_USE_FP : 0),
			   (u32)cfa_off, fp_off ? -fp_off : word_size);
}

/**
 * unwind_rule_pack - Express a rule in one word, if it is an ordinary one
 * @rule:	Rule in its long form; gets a word, or 0 there
 */
static inline void unwind_rule_pack(struct unwind_rule *rule)
{
	rule->word = 0;
	if (rule->outermost) {
		rule->word = UNWIND_WORD_TABLE | UNWIND_WORD_OUTERMOST;
		return;
	}
	if (rule->signal || rule->new_thread || rule->no_call ||
	    rule->cfa.where != UNWIND_REG || rule->ra.where != UNWIND_CFA_DEREF ||
	    rule->ra.off != -8)
		return;
	if (rule->cfa.reg != UNWIND_REG_FP && rule->cfa.reg != UNWIND_REG_SP)
		return;
	/* An offset of 0 would stand for "in its register". */
	if (rule->fp.where != UNWIND_SAME &&
	    (rule->fp.where != UNWIND_CFA_DEREF || !rule->fp.off))
		return;

	rule->word = unwind_word_make(rule->cfa.reg == UNWIND_REG_FP,
				      rule->cfa.off, rule->fp.off);
}

#endif /* _LINUX_UNWIND_RULE_H */
