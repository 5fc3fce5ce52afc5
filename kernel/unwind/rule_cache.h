/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_RULE_CACHE_H
#define _KERNEL_UNWIND_RULE_CACHE_H

/*
 * Rules that were found in tables, by the address for which they were looked up: a
 * cache per mm, made with the mm's first table. A lookup takes no lock and calls no
 * function, so it can be made with user access enabled.
 */

#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/gfp_types.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/**
 * struct rule_slot - A rule that was looked up
 * @tag:	Address and generation, see rule_cache_tag(); 0 while @word changes
 * @word:	See UNWIND_WORD_TABLE. It belongs to @tag if @tag is the same before
 *		and after @word is read
 */
struct rule_slot {
	u64	tag;
	u64	word;
};

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
 * @lock:	For changes
 * @next_way:	Which slot of a set goes next. Protected by @lock
 */
struct rule_cache {
	struct rule_set	*pages[RULE_PAGES];
	/* See above. */
	spinlock_t	lock;
	unsigned int	next_way;
};

#ifdef CONFIG_UNWIND_USER_SFRAME

struct rule_cache *rule_cache_alloc(gfp_t gfp);
void rule_cache_free(struct rule_cache *cache);

#endif

/*
 * Makes sure that rules of one generation do not match in the next. No user address
 * has the top bit, so an empty slot matches none.
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
 * rule_cache_get - Is there a rule for an address?
 * @cache:	Cache
 * @pc:		Address
 * @mix:	rule_cache_mix() of the generation
 * @word:	The rule
 *
 * Return: false if not; @word is unchanged then.
 */
static __always_inline bool rule_cache_get(const struct rule_cache *cache,
					   unsigned long pc, u64 mix, u64 *word)
{
	const struct rule_slot *slots = rule_cache_slots(cache, pc);
	const u64 tag = rule_cache_tag(pc, mix);

	/* No loop: that would be as long again as what is to be done. */
	BUILD_BUG_ON(RULE_WAYS != 4);

	return likely(rule_slot_has(&slots[0], tag, word)) ||
	       rule_slot_has(&slots[1], tag, word) ||
	       rule_slot_has(&slots[2], tag, word) ||
	       rule_slot_has(&slots[3], tag, word);
}

static inline void rule_slot_set(struct rule_slot *slot, u64 tag, u64 word)
{
	WRITE_ONCE(slot->tag, 0);
	/* Nobody takes @word for that of the old tag: pairs with smp_rmb(). */
	smp_wmb();
	WRITE_ONCE(slot->word, word);
	/* Whoever sees the tag sees the word: pairs with smp_load_acquire(). */
	smp_store_release(&slot->tag, tag);
}

/**
 * rule_cache_set - Remember a rule
 * @cache:	Cache
 * @pc:		Address that the rule is for
 * @mix:	rule_cache_mix() of the generation in which it was found
 * @word:	The rule
 *
 * The newest rule is put first in its set, where it is found fastest; one of the
 * others makes room. If another CPU is changing the cache, the rule is not
 * remembered, and nothing is lost.
 */
static inline void rule_cache_set(struct rule_cache *cache, unsigned long pc,
				  u64 mix, u64 word)
{
	struct rule_slot *slots = rule_cache_slots(cache, pc);
	unsigned int way;

	if (!spin_trylock(&cache->lock))
		return;
	way = cache->next_way++ % RULE_WAYS;
	if (way)
		rule_slot_set(&slots[way], slots[0].tag, slots[0].word);
	rule_slot_set(&slots[0], rule_cache_tag(pc, mix), word);
	spin_unlock(&cache->lock);
}

#endif /* _KERNEL_UNWIND_RULE_CACHE_H */
