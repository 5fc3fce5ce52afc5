// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for the bookkeeping of deferred user unwinding. They work on a
 * state of their own, on whatever CPU they run; no task is ever unwound.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/irqflags.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/unwind_deferred.h>

#include "../deferred.h"

#define WORK_A		BIT(UNWIND_WORK_SHIFT)
#define WORK_B		BIT(UNWIND_WORK_SHIFT + 1)
#define WORK_LAST	BIT(BITS_PER_LONG - 1)
#define EPOCH		7

/* Adds as a request does; @cookie gets what a requester would see. */
static unsigned long add(struct unwind_task_info *info, unsigned long bits,
			 u16 epoch, u64 *cookie)
{
	unsigned long flags, old;

	raw_local_irq_save(flags);
	old = unwind_context_add(info, bits, epoch);
	raw_local_irq_restore(flags);
	*cookie = unwind_id_cookie(info->id);

	return old;
}

static unsigned long mask_of(struct unwind_task_info *info)
{
	return atomic_long_read(&info->mask);
}

static void id_holds_cpu_count_and_epoch_apart(struct kunit *test)
{
	static const struct {
		unsigned int cpu;
		u32 count;
		u16 epoch;
		u64 cookie;
	} table[] = {
		{ 0,	   3,		1,	 0x0000000300000001ULL },
		{ 5,	   11,		1,	 0x0000000b00000006ULL },
		{ 5,	   11,		U16_MAX, 0x0000000b00000006ULL },
		{ 8191,	   U32_MAX,	2,	 0xffffffff00002000ULL },
		{ U16_MAX - 1, 1,	0,	 0x000000010000ffffULL },
	};
	u64 id;
	int i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		id = unwind_id_make(table[i].cpu, table[i].count,
				    table[i].epoch);
		KUNIT_EXPECT_EQ(test, unwind_id_cookie(id), table[i].cookie);
		KUNIT_EXPECT_EQ(test, unwind_id_epoch(id), table[i].epoch);

		id = unwind_id_set_epoch(id, 0x5aa5);
		KUNIT_EXPECT_EQ(test, unwind_id_cookie(id), table[i].cookie);
		KUNIT_EXPECT_EQ(test, unwind_id_epoch(id), 0x5aa5);
	}
}

static void count_is_odd_also_when_it_wraps(struct kunit *test)
{
	static const struct {
		u32 count;
		u32 next;
	} table[] = {
		{ 0, 3 }, { 3, 5 }, { 5, 7 }, { 0x7fffffff, 0x80000001 },
		{ U32_MAX - 2, U32_MAX }, { U32_MAX, 1 }, { 1, 3 },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		KUNIT_EXPECT_EQ(test, unwind_next_count(table[i].count),
				table[i].next);
}

static void request_without_context_starts_one(struct kunit *test)
{
	struct unwind_task_info info = { };
	u64 cookie;

	KUNIT_EXPECT_EQ(test, add(&info, UNWIND_PENDING | WORK_A, EPOCH, &cookie), 0);
	KUNIT_EXPECT_EQ(test, mask_of(&info), UNWIND_PENDING | WORK_A);
	KUNIT_EXPECT_NE(test, info.timestamp, 0);
	KUNIT_EXPECT_EQ(test, unwind_id_epoch(info.id), EPOCH);

	/* CPU + 1 below, an odd counter above */
	KUNIT_EXPECT_GE(test, lower_32_bits(cookie), 1);
	KUNIT_EXPECT_LE(test, lower_32_bits(cookie), nr_cpu_ids);
	KUNIT_EXPECT_EQ(test, upper_32_bits(cookie) & 1, 1);
}

static void second_work_shares_cookie_and_time(struct kunit *test)
{
	struct unwind_task_info info = { };
	u64 first, second, time;

	add(&info, UNWIND_PENDING | WORK_A, EPOCH, &first);
	time = info.timestamp;
	KUNIT_EXPECT_EQ(test, add(&info, UNWIND_PENDING | WORK_LAST, EPOCH, &second),
			UNWIND_PENDING | WORK_A);
	KUNIT_EXPECT_EQ(test, first, second);
	KUNIT_EXPECT_EQ(test, info.timestamp, time);
	KUNIT_EXPECT_EQ(test, mask_of(&info), UNWIND_PENDING | WORK_A | WORK_LAST);
}

static void next_context_has_the_next_cookie(struct kunit *test)
{
	struct unwind_task_info info = { };
	u64 first, second;

	migrate_disable();
	add(&info, UNWIND_USED | WORK_A, EPOCH, &first);
	KUNIT_EXPECT_TRUE(test, unwind_context_reset(&info));
	add(&info, UNWIND_USED | WORK_A, EPOCH, &second);
	migrate_enable();

	KUNIT_EXPECT_EQ(test, lower_32_bits(first), lower_32_bits(second));
	/* Other tasks of this CPU may have started contexts in between. */
	KUNIT_EXPECT_GE(test, upper_32_bits(second) - upper_32_bits(first), 2);
	KUNIT_EXPECT_EQ(test, (upper_32_bits(second) - upper_32_bits(first)) & 1, 0);
}

static void reset_leaves_a_pending_context_alone(struct kunit *test)
{
	struct unwind_task_info info = { };
	unsigned long mask = UNWIND_PENDING | UNWIND_USED | WORK_A;
	u64 cookie;

	KUNIT_EXPECT_TRUE(test, unwind_context_reset(&info));

	add(&info, mask, EPOCH, &cookie);
	KUNIT_EXPECT_FALSE(test, unwind_context_reset(&info));
	KUNIT_EXPECT_EQ(test, mask_of(&info), mask);
	KUNIT_EXPECT_EQ(test, unwind_id_cookie(info.id), cookie);

	atomic_long_andnot(UNWIND_PENDING, &info.mask);
	KUNIT_EXPECT_TRUE(test, unwind_context_reset(&info));
	KUNIT_EXPECT_EQ(test, mask_of(&info), 0);
}

static void leftover_of_an_old_epoch_is_replaced(struct kunit *test)
{
	struct unwind_task_info info = { };
	u64 old, new;

	add(&info, UNWIND_USED | WORK_A | WORK_B, EPOCH, &old);
	KUNIT_EXPECT_EQ(test, add(&info, UNWIND_PENDING | WORK_A, EPOCH + 1, &new), 0);
	KUNIT_EXPECT_NE(test, old, new);
	KUNIT_EXPECT_EQ(test, mask_of(&info), UNWIND_PENDING | WORK_A);
	KUNIT_EXPECT_EQ(test, unwind_id_epoch(info.id), EPOCH + 1);
}

static void pending_context_lives_on_in_a_new_epoch(struct kunit *test)
{
	struct unwind_task_info info = { };
	u64 old, new;

	add(&info, UNWIND_PENDING | WORK_A, EPOCH, &old);
	KUNIT_EXPECT_EQ(test, add(&info, UNWIND_PENDING | WORK_B, EPOCH + 1, &new),
			UNWIND_PENDING | WORK_A);
	KUNIT_EXPECT_EQ(test, old, new);
	KUNIT_EXPECT_EQ(test, unwind_id_epoch(info.id), EPOCH + 1);

	/* So what it leaves behind when it is done is of the new epoch as well. */
	atomic_long_andnot(UNWIND_PENDING, &info.mask);
	KUNIT_EXPECT_EQ(test, add(&info, WORK_A, EPOCH + 1, &new), WORK_A | WORK_B);
	KUNIT_EXPECT_EQ(test, old, new);
}

static void executed_only_when_the_own_callback_returned(struct kunit *test)
{
	struct unwind_task_info info = { };
	struct unwind_cache *cache;

	cache = kunit_kzalloc(test, sizeof(*cache), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, cache);
	info.cache = cache;
	atomic_long_set(&cache->completed, WORK_A | WORK_LAST);

	/* Not unwound in this context: what the cache says is of an old one. */
	KUNIT_EXPECT_FALSE(test, unwind_executed(&info, UNWIND_PENDING | WORK_A, WORK_A));
	/* Unwound, but this work has not asked before. */
	KUNIT_EXPECT_FALSE(test, unwind_executed(&info, UNWIND_USED | WORK_B, WORK_A));
	/* Unwound and asked for, the callback is to come. */
	KUNIT_EXPECT_FALSE(test, unwind_executed(&info, UNWIND_USED | WORK_B, WORK_B));
	KUNIT_EXPECT_TRUE(test, unwind_executed(&info, UNWIND_USED | WORK_A, WORK_A));
	/* Others still pending do not matter; neither does the highest bit. */
	KUNIT_EXPECT_TRUE(test, unwind_executed(&info, UNWIND_USED | UNWIND_PENDING |
						WORK_B | WORK_LAST, WORK_LAST));

	/* Before the first unwind of the task there is no cache to look at. */
	info.cache = NULL;
	KUNIT_EXPECT_FALSE(test, unwind_executed(&info, UNWIND_PENDING | WORK_B, WORK_B));
}

/*
 * A context without memory for a trace was answered with an empty one. Whoever
 * has memory by now must not put another trace under the same cookie.
 */
static void context_that_had_no_memory_gets_no_cache(struct kunit *test)
{
	struct unwind_task_info info = { };
	struct unwind_cache *cache;
	u64 cookie;

	add(&info, UNWIND_USED, EPOCH, &cookie);
	KUNIT_EXPECT_NULL(test, unwind_get_cache(&info, EPOCH));
	KUNIT_EXPECT_NULL(test, info.cache);

	/* In another epoch that context is a left-over, and so it is no context. */
	cache = unwind_get_cache(&info, EPOCH + 1);
	KUNIT_EXPECT_NOT_NULL(test, cache);
	KUNIT_EXPECT_PTR_EQ(test, info.cache, cache);
	kfree(cache);
	info.cache = NULL;

	/* The next context, or one that is still to be answered, gets one. */
	KUNIT_EXPECT_TRUE(test, unwind_context_reset(&info));
	add(&info, UNWIND_PENDING | WORK_A, EPOCH, &cookie);
	cache = unwind_get_cache(&info, EPOCH);
	KUNIT_EXPECT_NOT_NULL(test, cache);
	KUNIT_EXPECT_PTR_EQ(test, unwind_get_cache(&info, EPOCH), cache);
	kfree(cache);
}

struct nmi_test {
	struct unwind_task_info info;
	unsigned long old;
	u64 cookie;
	u64 timestamp;
	bool fired;
};

/* The next request of the context, as an NMI would make it. */
static void request_from_nmi(struct nmi_test *nmi, struct unwind_task_info *info)
{
	nmi->fired = true;
	nmi->old = unwind_context_add(info, UNWIND_PENDING | WORK_B, EPOCH);
	nmi->cookie = unwind_id_cookie(info->id);
	nmi->timestamp = info->timestamp;
}

/* An NMI that hits after the id was stored, just before its publication. */
static bool publish_with_nmi(struct unwind_task_info *info, long *old, long bits)
{
	struct kunit *test = kunit_get_current_test();

	/* Once, and both go on with the real one. */
	kunit_deactivate_static_stub(test, unwind_context_publish);
	request_from_nmi(test->priv, info);
	return unwind_context_publish(info, old, bits);
}

static void nmi_before_publication_agrees_on_the_cookie(struct kunit *test)
{
	struct nmi_test *nmi;
	u64 cookie, next;

	nmi = kunit_kzalloc(test, sizeof(*nmi), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, nmi);
	test->priv = nmi;

	kunit_activate_static_stub(test, unwind_context_publish, publish_with_nmi);
	migrate_disable();
	/* The NMI has started the context; this request finds it. */
	KUNIT_EXPECT_EQ(test, add(&nmi->info, UNWIND_PENDING | WORK_A, EPOCH, &cookie),
			UNWIND_PENDING | WORK_B);
	KUNIT_EXPECT_TRUE(test, nmi->fired);
	KUNIT_EXPECT_EQ(test, nmi->old, 0);
	KUNIT_EXPECT_EQ(test, nmi->cookie, cookie);
	KUNIT_EXPECT_LE(test, nmi->info.timestamp, nmi->timestamp);
	KUNIT_EXPECT_EQ(test, mask_of(&nmi->info), UNWIND_PENDING | WORK_A | WORK_B);

	/* And the counter has moved on: the cookie is not given out again. */
	atomic_long_set(&nmi->info.mask, 0);
	add(&nmi->info, UNWIND_PENDING | WORK_A, EPOCH, &next);
	migrate_enable();
	KUNIT_EXPECT_NE(test, next, cookie);
}

/* An NMI that hits right after the publication. */
static bool publish_then_nmi(struct unwind_task_info *info, long *old, long bits)
{
	struct kunit *test = kunit_get_current_test();

	kunit_deactivate_static_stub(test, unwind_context_publish);
	if (!unwind_context_publish(info, old, bits))
		return false;

	request_from_nmi(test->priv, info);
	return true;
}

static void nmi_after_publication_sees_the_cookie(struct kunit *test)
{
	struct nmi_test *nmi;
	u64 cookie;

	nmi = kunit_kzalloc(test, sizeof(*nmi), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, nmi);
	test->priv = nmi;

	kunit_activate_static_stub(test, unwind_context_publish, publish_then_nmi);
	migrate_disable();
	KUNIT_EXPECT_EQ(test, add(&nmi->info, UNWIND_PENDING | WORK_A, EPOCH, &cookie), 0);
	migrate_enable();
	KUNIT_EXPECT_TRUE(test, nmi->fired);
	KUNIT_EXPECT_EQ(test, nmi->old, UNWIND_PENDING | WORK_A);
	KUNIT_EXPECT_EQ(test, nmi->cookie, cookie);
	KUNIT_EXPECT_EQ(test, nmi->timestamp, nmi->info.timestamp);
	KUNIT_EXPECT_EQ(test, mask_of(&nmi->info), UNWIND_PENDING | WORK_A | WORK_B);
}

static void cache_fits_a_page(struct kunit *test)
{
	struct unwind_cache *cache;

	KUNIT_EXPECT_EQ(test, UNWIND_MAX_ENTRIES, 510);
	KUNIT_EXPECT_LE(test, struct_size(cache, entries, UNWIND_MAX_ENTRIES), 4096);
	KUNIT_EXPECT_LE(test, sizeof(struct unwind_task_info),
			IS_ENABLED(CONFIG_DEBUG_ENTRY) ? 64 : 48);
	KUNIT_EXPECT_EQ(test, UNWIND_MAX_WORKS, 62);
}

static struct kunit_case unwind_deferred_cases[] = {
	KUNIT_CASE(id_holds_cpu_count_and_epoch_apart),
	KUNIT_CASE(count_is_odd_also_when_it_wraps),
	KUNIT_CASE(request_without_context_starts_one),
	KUNIT_CASE(second_work_shares_cookie_and_time),
	KUNIT_CASE(next_context_has_the_next_cookie),
	KUNIT_CASE(reset_leaves_a_pending_context_alone),
	KUNIT_CASE(leftover_of_an_old_epoch_is_replaced),
	KUNIT_CASE(pending_context_lives_on_in_a_new_epoch),
	KUNIT_CASE(executed_only_when_the_own_callback_returned),
	KUNIT_CASE(context_that_had_no_memory_gets_no_cache),
	KUNIT_CASE(nmi_before_publication_agrees_on_the_cookie),
	KUNIT_CASE(nmi_after_publication_sees_the_cookie),
	KUNIT_CASE(cache_fits_a_page),
	{}
};

static struct kunit_suite unwind_deferred_suite = {
	.name = "unwind_deferred",
	.test_cases = unwind_deferred_cases,
};

kunit_test_suite(unwind_deferred_suite);

MODULE_DESCRIPTION("KUnit tests for deferred user unwinding");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_LICENSE("GPL");
