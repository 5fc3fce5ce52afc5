/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_RULE_CACHE_H
#define _KERNEL_UNWIND_RULE_CACHE_H

/*
 * Rules that were found in tables, by the address for which they were looked up: a
 * cache per mm. A lookup takes no lock and calls no function, so it can be made with user
 * access enabled.
 */

#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/types.h>

/**
 * struct rule_slot - A rule that was looked up
 * @key:	rule_slot_key() of its tag and @word. Both are 0 if the slot is empty
 * @word:	See UNWIND_WORD_TABLE
 *
 * Both are written and read one after the other, in any order and without a lock. So
 * a slot, or what a reader gets of it, may be the key of one rule and the word of
 * another, and stay so until it is overwritten. Such a slot matches no address, except
 * by chance: the word is multiplied, so a difference between two words changes the
 * generation in the key, too.
 */
struct rule_slot {
	u64	key;
	u64	word;
};

/* No user address has more, see TASK_SIZE_MAX. */
#define RULE_ADDRESS_BITS	56

/*
 * Room for a few times the depth of an ordinary stack, in enough ways for all of its
 * frames: a stack that is walked again and again stays in the cache.
 */
#define RULE_WAYS	4
#define RULE_SETS	256

/* The rules of addresses that have the same hash */
struct rule_set {
	struct rule_slot	slots[RULE_WAYS];
};

/*
 * Makes sure that rules of one generation do not match in the next. No user address
 * has the top bit, so no empty slot matches one.
 */
static __always_inline u64 rule_cache_mix(u64 gen)
{
	return gen * GOLDEN_RATIO_64 | 1ULL << 63;
}

static __always_inline struct rule_slot *
rule_cache_slots(struct rule_set *cache, unsigned long pc)
{
	return cache[(pc ^ (pc >> 8)) % RULE_SETS].slots;
}

static __always_inline u64 rule_cache_tag(unsigned long pc, u64 mix)
{
	return pc ^ mix;
}

static __always_inline u64 rule_slot_key(u64 tag, u64 word)
{
	return tag ^ word * GOLDEN_RATIO_64;
}

static __always_inline bool rule_slot_has(const struct rule_slot *slot, u64 tag,
					  u64 *word)
{
	u64 val = READ_ONCE(slot->word);

	if (READ_ONCE(slot->key) != rule_slot_key(tag, val))
		return false;
	*word = val;
	return true;
}

/**
 * rule_slots_get - Is there a rule for an address?
 * @slots:	rule_cache_slots() of the address
 * @tag:	rule_cache_tag() of it
 * @word:	The rule
 *
 * Return: false if not; @word is unchanged then.
 */
static __always_inline bool rule_slots_get(const struct rule_slot *slots,
					   u64 tag, u64 *word)
{
	/* No loop: that would be as long again as what is to be done. */
	BUILD_BUG_ON(RULE_WAYS != 4);

	return likely(rule_slot_has(&slots[0], tag, word)) ||
	       rule_slot_has(&slots[1], tag, word) ||
	       rule_slot_has(&slots[2], tag, word) ||
	       rule_slot_has(&slots[3], tag, word);
}

/*
 * The first slot whose rule is of another generation; or else one by bits of the
 * address in which those of a set differ
 */
static __always_inline struct rule_slot *rule_slots_room(struct rule_slot *slots,
							 u64 tag)
{
	unsigned int i;
	u64 other;

	for (i = 0; i < RULE_WAYS; i++) {
		other = rule_slot_key(READ_ONCE(slots[i].key),
				      READ_ONCE(slots[i].word));
		/* User addresses differ in the lower bits only. */
		if (likely((other ^ tag) >> RULE_ADDRESS_BITS))
			return &slots[i];
	}
	return &slots[(tag >> 8) % RULE_WAYS];
}

/**
 * rule_slots_set - Remember a rule
 * @slots:	rule_cache_slots() of the address that the rule is for
 * @tag:	rule_cache_tag() of it, and of the generation in which it was found
 * @word:	The rule
 *
 * If another CPU writes to the same slot meanwhile, neither rule may be remembered.
 */
static __always_inline void rule_slots_set(struct rule_slot *slots, u64 tag, u64 word)
{
	struct rule_slot *slot = rule_slots_room(slots, tag);

	WRITE_ONCE(slot->word, word);
	WRITE_ONCE(slot->key, rule_slot_key(tag, word));
}

#endif /* _KERNEL_UNWIND_RULE_CACHE_H */
