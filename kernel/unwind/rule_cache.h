/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_RULE_CACHE_H
#define _KERNEL_UNWIND_RULE_CACHE_H

/*
 * Rules that were found in tables, by the place for which they were looked up: one cache
 * for the system, of fixed size. What one process has looked up in the table for a file is
 * there for all that have the file mapped. A lookup takes no lock and calls no function, so
 * it can be made with user access enabled.
 *
 * Each table has a random number, which is made with it, is not told to anybody, and is not
 * used again. It is in the tag of all its rules. So nothing has to be removed when rules are
 * no longer valid, and one that is of a program's own making is found for that program only.
 */

#include <linux/compiler.h>
#include <linux/types.h>

/**
 * struct rule_slot - A rule that was looked up
 * @key:	rule_slot_key() of its tag and @word; both are 0 if the slot is empty
 * @word:	See UNWIND_WORD_TABLE
 *
 * Both are written and read one after the other, in any order and without a lock. So
 * a slot, or what a reader gets of it, may be the key of one rule and the word of
 * another, and stay so until it is overwritten. Such a slot matches no place, except by
 * chance: in the key, a word is multiplied by the table's number, so choosing a word that
 * matches takes knowing that number. See rule+slot.litmus.
 */
struct rule_slot {
	u64	key;
	u64	word;
};

/**
 * struct rule_cache - Slots by the lowest bits of the tag, over which calls are spread
 * @slots:	As many as a power of two
 * @mask:	Their number less 1
 */
struct rule_cache {
	struct rule_slot	*slots;
	unsigned int		mask;
};

extern struct rule_cache unwind_rules;

/*
 * The number that makes tags of addresses, or of offsets in a file. Neither has the top bit,
 * which tags have: so none matches an empty slot. It is odd, so that no two words have the
 * same product.
 */
static __always_inline u64 rule_cache_mix(u64 random)
{
	return random | 1ULL << 63 | 1;
}

static __always_inline u64 rule_cache_tag(u64 place, u64 mix)
{
	return place ^ mix;
}

static __always_inline struct rule_slot *
rule_cache_slot(const struct rule_cache *cache, u64 tag)
{
	return &cache->slots[tag & cache->mask];
}

static __always_inline u64 rule_slot_key(u64 tag, u64 mix, u64 word)
{
	return tag ^ word * mix;
}

/**
 * rule_slot_get - Is the rule with a tag in a slot?
 * @slot:	rule_cache_slot() of the tag
 * @tag:	rule_cache_tag() of the place
 * @mix:	The number that the tag was made by
 * @word:	The rule
 *
 * Return: false if not; @word is unchanged then.
 */
static __always_inline bool
rule_slot_get(const struct rule_slot *slot, u64 tag, u64 mix, u64 *word)
{
	u64 val = READ_ONCE(slot->word);

	if (READ_ONCE(slot->key) != rule_slot_key(tag, mix, val))
		return false;
	*word = val;
	return true;
}

/* The same for a place, in the cache of the system */
static __always_inline bool rule_cache_get(u64 place, u64 mix, u64 *word)
{
	u64 tag = rule_cache_tag(place, mix);

	return rule_slot_get(rule_cache_slot(&unwind_rules, tag), tag, mix, word);
}

/**
 * rule_slot_set - Cache a rule, replacing what was in its slot
 * @slot:	rule_cache_slot() of the tag
 * @tag:	rule_cache_tag() of the place
 * @mix:	The number that the tag was made by
 * @word:	The rule
 *
 * If another CPU writes to the same slot meanwhile, neither rule may be cached.
 */
static __always_inline void rule_slot_set(struct rule_slot *slot, u64 tag, u64 mix, u64 word)
{
	WRITE_ONCE(slot->word, word);
	WRITE_ONCE(slot->key, rule_slot_key(tag, mix, word));
}

#endif /* _KERNEL_UNWIND_RULE_CACHE_H */
