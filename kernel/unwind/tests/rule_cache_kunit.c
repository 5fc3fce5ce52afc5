// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the slots of kernel/unwind/rule_cache.h.
 */

#include <kunit/test.h>
#include <linux/sizes.h>
#include <linux/unwind_rule.h>

#include "../rule_cache.h"

#define ADDRESS		0x55555566a120UL

static void rule_is_found_by_its_address_alone(struct kunit *test)
{
	u64 word = unwind_word_make(false, 32, 0), found = 0;
	u64 mix = rule_cache_mix(5);
	struct rule_set set = { };

	KUNIT_EXPECT_FALSE(test, rule_slots_get(set.slots, rule_cache_tag(0, mix),
						&found));
	rule_slots_set(set.slots, rule_cache_tag(ADDRESS, mix), word);
	KUNIT_ASSERT_TRUE(test, rule_slots_get(set.slots,
					       rule_cache_tag(ADDRESS, mix), &found));
	KUNIT_EXPECT_EQ(test, found, word);
	KUNIT_EXPECT_FALSE(test, rule_slots_get(set.slots,
						rule_cache_tag(ADDRESS + 1, mix),
						&found));
	KUNIT_EXPECT_FALSE(test, rule_slots_get(set.slots,
						rule_cache_tag(ADDRESS, rule_cache_mix(6)),
						&found));
}

/*
 * Two CPUs remember rules in the same slot: the first one's word, the other's word and
 * key, the first one's key. What is left has the tag of no address near by, whichever
 * the words are.
 */
static void slot_of_two_writers_matches_no_address(struct kunit *test)
{
	u64 mix = rule_cache_mix(5), tag = rule_cache_tag(ADDRESS, mix), torn;
	static u64 words[2 * 256];
	unsigned int i, j;

	for (i = 0; i < 256; i++) {
		words[2 * i] = unwind_word_make(false, 8 * (i + 1), 0);
		words[2 * i + 1] = unwind_word_make(false, 8 * (i + 2), -16);
	}

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		for (j = 0; j < ARRAY_SIZE(words); j++) {
			if (i == j)
				continue;
			torn = rule_slot_key(rule_slot_key(tag, words[i]), words[j]);
			if ((torn ^ tag) < SZ_1G)
				KUNIT_FAIL(test, "words %llx and %llx: %llx", words[i],
					   words[j], torn ^ mix);
		}
	}
}

static struct kunit_case rule_cache_cases[] = {
	KUNIT_CASE(rule_is_found_by_its_address_alone),
	KUNIT_CASE(slot_of_two_writers_matches_no_address),
	{ }
};

static struct kunit_suite rule_cache_suite = {
	.name = "unwind_rule_cache",
	.test_cases = rule_cache_cases,
};

kunit_test_suite(rule_cache_suite);

MODULE_DESCRIPTION("KUnit tests of the cache of unwind rules");
MODULE_LICENSE("GPL");
