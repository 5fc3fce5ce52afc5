/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_TESTS_RULE_UNPACK_H
#define _KERNEL_UNWIND_TESTS_RULE_UNPACK_H

#include <linux/unwind_rule.h>

/**
 * unwind_rule_unpack - Fill in the long form of a rule that may have only a word
 * @rule:	The rule
 */
static inline void unwind_rule_unpack(struct unwind_rule *rule)
{
	u64 word = rule->word;

	if (!word)
		return;
	*rule = (struct unwind_rule) { .word = word };
	rule->outermost = word & UNWIND_WORD_OUTERMOST;
	if (rule->outermost)
		return;

	rule->cfa.off = unwind_word_cfa_off(word);
	rule->cfa.where = UNWIND_REG;
	rule->cfa.reg = word & UNWIND_WORD_USE_FP ? UNWIND_REG_FP : UNWIND_REG_SP;
	rule->ra.off = -8;
	rule->ra.where = UNWIND_CFA_DEREF;
	rule->fp.where = UNWIND_SAME;
	if (unwind_word_depth(word) > sizeof(u64)) {
		rule->fp.off = -(s32)unwind_word_depth(word);
		rule->fp.where = UNWIND_CFA_DEREF;
	}
}

#endif /* _KERNEL_UNWIND_TESTS_RULE_UNPACK_H */
