/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_RULE_CACHE_H
#define _KERNEL_UNWIND_RULE_CACHE_H

/*
 * Rules that were found in tables, by the address for which they were looked up: a
 * cache per mm, made with the mm's first table. A lookup takes no lock and calls no
 * function, so it can be made with user access enabled.
 */

#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/gfp_types.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/types.h>

/**
 * struct rule_slot - A rule that was looked up
 * @tag:	Address and generation, see rule_cache_tag(); 0 if the slot is empty,
 *		RULE_BUSY while somebody changes @word
 * @word:	See UNWIND_WORD_TABLE. It belongs to @tag if @tag is the same before
 *		and after @word is read
 */
struct rule_slot {
	u64	tag;
	u64	word;
};

#define RULE_BUSY	1

/* No user address has more, see TASK_SIZE_MAX. */
#define RULE_ADDRESS_BITS	56

/*
 * Room for a few times the depth of an ordinary stack, in enough ways for all of its
 * frames: a stack that is walked again and again stays in the cache.
 */
#define RULE_WAYS	4
#define RULE_PAGES	4
#define RULE_SETS	(PAGE_SIZE / sizeof(struct rule_set))

/* The rules of addresses that have the same hash */
struct rule_set {
	struct rule_slot	slots[RULE_WAYS];
};

/**
 * struct rule_cache - Rules of an mm
 * @pages:	RULE_SETS each
 * @next_way:	Which slot of a set goes next. Changes of it may get lost
 */
struct rule_cache {
	struct rule_set	*pages[RULE_PAGES];
	unsigned int	next_way;
};

#ifdef CONFIG_UNWIND_USER_SFRAME

struct rule_cache *rule_cache_alloc(gfp_t gfp);
void rule_cache_free(struct rule_cache *cache);

#endif

/*
 * Makes sure that rules of one generation do not match in the next. No user address
 * has the top bit, so no empty or busy slot matches one.
 */
static __always_inline u64 rule_cache_mix(u64 gen)
{
	return gen * GOLDEN_RATIO_64 | 1ULL << 63;
}

static __always_inline struct rule_slot *
rule_cache_slots(const struct rule_cache *cache, unsigned long pc)
{
	unsigned long hash = pc ^ (pc >> 8);

	return cache->pages[hash / RULE_SETS % RULE_PAGES][hash % RULE_SETS].slots;
}

static __always_inline u64 rule_cache_tag(unsigned long pc, u64 mix)
{
	return pc ^ mix;
}

static __always_inline bool rule_slot_has(const struct rule_slot *slot, u64 tag,
					  u64 *word)
{
	u64 val;

	/* The word is not read before the tag: pairs with rule_slot_set(). */
	if (smp_load_acquire(&slot->tag) != tag)
		return false;
	val = READ_ONCE(slot->word);
	/* Nor after the tag is read again, which was 0 if the word is newer. */
	smp_rmb();
	if (READ_ONCE(slot->tag) != tag)
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

/* The first slot whose rule is of another generation, or else any slot in turn */
static __always_inline struct rule_slot *
rule_slots_room(struct rule_cache *cache, struct rule_slot *slots, u64 tag)
{
	unsigned int i;

	for (i = 0; i < RULE_WAYS; i++) {
		/* User addresses differ in the lower bits only. */
		if (likely((READ_ONCE(slots[i].tag) ^ tag) >> RULE_ADDRESS_BITS))
			return &slots[i];
	}
	/* It does not matter which: data_race() may lose a change. */
	return &slots[data_race(cache->next_way++) % RULE_WAYS];
}

/**
 * rule_slots_set - Remember a rule
 * @cache:	Cache
 * @slots:	rule_cache_slots() of the address that the rule is for
 * @tag:	rule_cache_tag() of it, and of the generation in which it was found
 * @word:	The rule
 *
 * If another CPU is changing the same slot, the rule is not remembered, and nothing
 * is lost.
 */
static __always_inline void rule_slots_set(struct rule_cache *cache,
					   struct rule_slot *slots, u64 tag,
					   u64 word)
{
	struct rule_slot *slot = rule_slots_room(cache, slots, tag);
	u64 old = READ_ONCE(slot->tag);

	/*
	 * Nobody takes @word for that of the old tag: pairs with smp_rmb(). Not
	 * instrumented, since no function must be called with user access enabled.
	 */
	if (old == RULE_BUSY || !raw_try_cmpxchg(&slot->tag, &old, RULE_BUSY))
		return;
	WRITE_ONCE(slot->word, word);
	/* Whoever sees the tag sees the word: pairs with smp_load_acquire(). */
	smp_store_release(&slot->tag, tag);
}

#endif /* _KERNEL_UNWIND_RULE_CACHE_H */
