// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of kernel/unwind/rule_cache.h.
 */

#include <kunit/test.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/unwind_rule.h>

#include "../rule_cache.h"

#define PLACE		0x26a120UL

static bool slot_has(const struct rule_slot *slot, u64 place, u64 mix, u64 *word)
{
	return rule_slot_get(slot, rule_cache_tag(place, mix), mix, word);
}

static void rule_is_found_by_its_place_and_owner_alone(struct kunit *test)
{
	u64 word = unwind_word_make(false, 32, 0), mix = rule_cache_mix(5), found = 0;
	struct rule_slot slot = { };

	KUNIT_EXPECT_FALSE(test, slot_has(&slot, 0, mix, &found));
	rule_slot_set(&slot, rule_cache_tag(PLACE, mix), mix, word);
	KUNIT_ASSERT_TRUE(test, slot_has(&slot, PLACE, mix, &found));
	KUNIT_EXPECT_EQ(test, found, word);
	KUNIT_EXPECT_FALSE(test, slot_has(&slot, PLACE + 1, mix, &found));
	KUNIT_EXPECT_FALSE(test, slot_has(&slot, PLACE, rule_cache_mix(6), &found));
}

/* Whatever the number is: an address may have the same bits, but for the highest. */
static void empty_slot_matches_nothing(struct kunit *test)
{
	struct rule_slot slot = { };
	unsigned int i;
	u64 found;

	for (i = 0; i < 64; i++) {
		u64 mix = rule_cache_mix(1ULL << i);

		KUNIT_EXPECT_FALSE(test, slot_has(&slot, mix & ~(1ULL << 63), mix, &found));
	}
}

/*
 * Two CPUs remember rules in the same slot: the first one's word, the other's word and
 * key, the first one's key. What is left has the tag of no place near by, whichever the
 * words are; the last two are those that would, if words were multiplied by a constant,
 * GOLDEN_RATIO_64.
 */
static void slot_of_two_writers_matches_no_place(struct kunit *test)
{
	static const u64 numbers[] = { 0x8c1f0a9d3b7e6425, 0x1d2e7c3f5a9b8064, 0x6b4d12f0e39a75c8 };
	static u64 words[2 * 256 + 2];
	unsigned int i, j, k;

	for (i = 0; i < 256; i++) {
		words[2 * i] = unwind_word_make(false, 8 * (i + 1), 0);
		words[2 * i + 1] = unwind_word_make(false, 8 * (i + 2), -16);
	}
	words[2 * i] = 0x1000101009;
	words[2 * i + 1] = 0x37f0bcab01b00001;

	for (k = 0; k < ARRAY_SIZE(numbers); k++) {
		u64 mix = rule_cache_mix(numbers[k]), tag = rule_cache_tag(PLACE, mix);

		for (i = 0; i < ARRAY_SIZE(words); i++) {
			for (j = 0; j < ARRAY_SIZE(words); j++) {
				u64 key = rule_slot_key(tag, mix, words[i]);
				u64 torn = rule_slot_key(key, mix, words[j]);

				KUNIT_EXPECT_FALSE(test, i != j && (torn ^ tag) < SZ_1G);
			}
		}
	}
}

/* How many of the frames of a stack in two files are not there when it is walked again? */
static unsigned int misses(const struct rule_cache *cache, unsigned int depth, u64 seed)
{
	u64 mix[2] = { rule_cache_mix(seed), rule_cache_mix(~seed * GOLDEN_RATIO_64) };
	unsigned int round, i, missed = 0;
	u64 found;

	for (round = 0; round < 3; round++) {
		missed = 0;
		for (i = 0; i < depth; i++) {
			u64 place = 0x28000 + i / 2 * 0x6d3, owner = mix[i % 2];
			u64 tag = rule_cache_tag(place, owner);
			struct rule_slot *slot = rule_cache_slot(cache, tag);

			if (slot_has(slot, place, owner, &found))
				continue;
			missed++;
			rule_slot_set(slot, tag, owner, unwind_word_make(false, 8 * i + 8, 0));
		}
	}
	return missed;
}

static void stacks_in_two_files_stay(struct kunit *test)
{
	const size_t size = SZ_1M;
	struct rule_cache cache = { .mask = 0xffff };
	unsigned int i;

	cache.slots = kvzalloc(size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, cache.slots);
	for (i = 0; i < 100; i++) {
		u64 seed = (i + 1) * 0xd1342543de82ef95;

		KUNIT_EXPECT_LE(test, misses(&cache, 64, seed), 5);
		memset(cache.slots, 0, size);
		KUNIT_EXPECT_LE(test, misses(&cache, 264, seed), 9);
		memset(cache.slots, 0, size);
	}
	kvfree(cache.slots);
}

static struct kunit_case rule_cache_cases[] = {
	KUNIT_CASE(rule_is_found_by_its_place_and_owner_alone),
	KUNIT_CASE(empty_slot_matches_nothing),
	KUNIT_CASE(slot_of_two_writers_matches_no_place),
	KUNIT_CASE(stacks_in_two_files_stay),
	{ }
};

static struct kunit_suite rule_cache_suite = {
	.name = "unwind_rule_cache",
	.test_cases = rule_cache_cases,
};

kunit_test_suite(rule_cache_suite);

MODULE_DESCRIPTION("KUnit tests of the cache of unwind rules");
MODULE_LICENSE("GPL");
