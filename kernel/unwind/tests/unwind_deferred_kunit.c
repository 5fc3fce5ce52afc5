// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for the bookkeeping of deferred user unwinding, part of deferred.c.
 * They work on a state of their own, on whatever CPU they run; no task is ever
 * unwound.
 */

#include <kunit/test.h>
#include <linux/limits.h>

#define WORK_A		BIT(UNWIND_WORK_SHIFT)
#define WORK_B		BIT(UNWIND_WORK_SHIFT + 1)
#define WORK_LAST	BIT(BITS_PER_LONG - 1)

/* Adds as a request does; @cookie gets what a requester would see. */
static unsigned long add(struct unwind_task_info *info, unsigned long bits,
			 u64 *cookie)
{
	unsigned long flags, old;

	raw_local_irq_save(flags);
	old = unwind_context_add(info, bits);
	raw_local_irq_restore(flags);
	*cookie = info->cookie;

	return old;
}

static unsigned long mask_of(struct unwind_task_info *info)
{
	return atomic_long_read(&info->mask);
}

/* It takes a CPU less than an hour to start 2^32 contexts. */
static void cookie_holds_cpu_and_count_of_48_bits(struct kunit *test)
{
	static const struct {
		u64 last;
		unsigned int cpu;
		u64 next;
	} table[] = {
		{ 0,			 0,		0x10001ULL },
		{ 0,			 5,		0x10006ULL },
		{ 0x10006ULL,		 5,		0x20006ULL },
		{ 0x7fffffff0006ULL,	 5,		0x800000000006ULL },
		{ 0xffffffff2000ULL,	 8191,		0x1000000002000ULL },
		{ 0xfffffffffffeffffULL, U16_MAX - 1,	U64_MAX },
		/* Never 0, not even if it is used up. */
		{ U64_MAX - 1,		 U16_MAX - 2,	U16_MAX - 1 },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		KUNIT_EXPECT_EQ(test, unwind_next_cookie(table[i].last, table[i].cpu),
				table[i].next);
}

static void request_without_context_starts_one(struct kunit *test)
{
	struct unwind_task_info info = { };
	u64 cookie;

	KUNIT_EXPECT_EQ(test, add(&info, UNWIND_PENDING | WORK_A, &cookie), 0);
	KUNIT_EXPECT_EQ(test, mask_of(&info), UNWIND_PENDING | WORK_A);
	KUNIT_EXPECT_NE(test, info.timestamp, 0);

	/* CPU + 1 below, a counter above */
	KUNIT_EXPECT_GE(test, (u16)cookie, 1);
	KUNIT_EXPECT_LE(test, (u16)cookie, nr_cpu_ids);
	KUNIT_EXPECT_GE(test, cookie >> 16, 1);
}

static void second_work_shares_cookie_and_time(struct kunit *test)
{
	struct unwind_task_info info = { };
	u64 first, second, time;

	add(&info, UNWIND_PENDING | WORK_A, &first);
	time = info.timestamp;
	KUNIT_EXPECT_EQ(test, add(&info, UNWIND_PENDING | WORK_LAST, &second),
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
	add(&info, UNWIND_USED | WORK_A, &first);
	KUNIT_EXPECT_TRUE(test, unwind_context_reset(&info));
	add(&info, UNWIND_USED | WORK_A, &second);
	migrate_enable();

	KUNIT_EXPECT_EQ(test, (u16)first, (u16)second);
	/* Other tasks of this CPU may have started contexts in between. */
	KUNIT_EXPECT_GT(test, second >> 16, first >> 16);
}

static void reset_leaves_a_pending_context_alone(struct kunit *test)
{
	struct unwind_task_info info = { };
	unsigned long mask = UNWIND_PENDING | UNWIND_USED | WORK_A;
	u64 cookie;

	KUNIT_EXPECT_TRUE(test, unwind_context_reset(&info));

	add(&info, mask, &cookie);
	KUNIT_EXPECT_FALSE(test, unwind_context_reset(&info));
	KUNIT_EXPECT_EQ(test, mask_of(&info), mask);
	KUNIT_EXPECT_EQ(test, info.cookie, cookie);

	atomic_long_andnot(UNWIND_PENDING, &info.mask);
	KUNIT_EXPECT_TRUE(test, unwind_context_reset(&info));
	KUNIT_EXPECT_EQ(test, mask_of(&info), 0);
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

	/* Before the first unwind of the task there is no cache. */
	info.cache = NULL;
	KUNIT_EXPECT_FALSE(test, unwind_executed(&info, UNWIND_PENDING | WORK_B, WORK_B));
}

/*
 * A context without memory for a trace was answered with an empty one. Memory
 * by now must not lead to another trace under the same cookie.
 */
static void context_that_had_no_memory_gets_no_cache(struct kunit *test)
{
	struct unwind_task_info info = { };
	struct unwind_cache *cache;
	u64 cookie;

	add(&info, UNWIND_USED, &cookie);
	KUNIT_EXPECT_NULL(test, unwind_get_cache(&info));
	KUNIT_EXPECT_NULL(test, info.cache);

	/* The next context, or one that is still to be answered, gets one. */
	KUNIT_EXPECT_TRUE(test, unwind_context_reset(&info));
	add(&info, UNWIND_PENDING | WORK_A, &cookie);
	cache = unwind_get_cache(&info);
	KUNIT_EXPECT_NOT_NULL(test, cache);
	KUNIT_EXPECT_PTR_EQ(test, unwind_get_cache(&info), cache);
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
	nmi->old = unwind_context_add(info, UNWIND_PENDING | WORK_B);
	nmi->cookie = info->cookie;
	nmi->timestamp = info->timestamp;
}

/* An NMI that hits after the cookie was stored, just before its publication. */
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
	KUNIT_EXPECT_EQ(test, add(&nmi->info, UNWIND_PENDING | WORK_A, &cookie),
			UNWIND_PENDING | WORK_B);
	KUNIT_EXPECT_TRUE(test, nmi->fired);
	KUNIT_EXPECT_EQ(test, nmi->old, 0);
	KUNIT_EXPECT_EQ(test, nmi->cookie, cookie);
	KUNIT_EXPECT_LE(test, nmi->info.timestamp, nmi->timestamp);
	KUNIT_EXPECT_EQ(test, mask_of(&nmi->info), UNWIND_PENDING | WORK_A | WORK_B);

	/* And the counter has moved on: the cookie is not given out again. */
	atomic_long_set(&nmi->info.mask, 0);
	add(&nmi->info, UNWIND_PENDING | WORK_A, &next);
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
	KUNIT_EXPECT_EQ(test, add(&nmi->info, UNWIND_PENDING | WORK_A, &cookie), 0);
	migrate_enable();
	KUNIT_EXPECT_TRUE(test, nmi->fired);
	KUNIT_EXPECT_EQ(test, nmi->old, UNWIND_PENDING | WORK_A);
	KUNIT_EXPECT_EQ(test, nmi->cookie, cookie);
	KUNIT_EXPECT_EQ(test, nmi->timestamp, nmi->info.timestamp);
	KUNIT_EXPECT_EQ(test, mask_of(&nmi->info), UNWIND_PENDING | WORK_A | WORK_B);
}

/* A token in the time that one takes to come back is one more, whatever jiffies are. */
static void bucket_has_sixteen_tokens(struct kunit *test)
{
	static const u32 ago[] = { 0, 1, UNWIND_BUCKET_FILL, S32_MAX, 1U << 31, U32_MAX / 2 + HZ };
	u32 bucket, i, j, taken;

	for (i = 0; i < ARRAY_SIZE(ago); i++) {
		bucket = (u32)jiffies - ago[i];
		for (taken = 0; unwind_bucket_take(&bucket); taken++)
			;
		/* One may have come back meanwhile. */
		KUNIT_EXPECT_GE(test, taken, UNWIND_BUCKET);
		KUNIT_EXPECT_LE(test, taken, UNWIND_BUCKET + 1);
		for (j = 1; j < 4; j++) {
			bucket -= j * UNWIND_BUCKET_FILL;
			for (taken = 0; unwind_bucket_take(&bucket); taken++)
				;
			KUNIT_EXPECT_GE(test, taken, j);
			KUNIT_EXPECT_LE(test, taken, j + 1);
		}
	}
}

/* An empty bucket alone does not forbid reclaim: otherwise looks would get no memory. */
static void reclaim_in_vain_is_not_repeated_for_a_second(struct kunit *test)
{
	const u32 looks = current->unwind_looks;

	current->unwind_looks = (u32)jiffies;
	while (unwind_bucket_take(&current->unwind_looks))
		;
	unwind_no_memory(GFP_NOWAIT);
	KUNIT_EXPECT_TRUE(test, gfpflags_allow_blocking(unwind_gfp()));
	unwind_no_memory(GFP_KERNEL);
	KUNIT_EXPECT_FALSE(test, gfpflags_allow_blocking(unwind_gfp()));
	current->unwind_looks -= HZ;
	KUNIT_EXPECT_TRUE(test, gfpflags_allow_blocking(unwind_gfp()));
	KUNIT_EXPECT_FALSE(test, unwind_bucket_take(&current->unwind_looks));
	current->unwind_looks = looks;
}

static void cache_fits_a_kilobyte_or_a_page(struct kunit *test)
{
	struct unwind_cache *cache;

	KUNIT_EXPECT_EQ(test, UNWIND_MAX_ENTRIES, 510);
	KUNIT_EXPECT_LE(test, struct_size(cache, entries, UNWIND_MAX_ENTRIES), 4096);
	/* As many in a slab as if it had a kilobyte */
	KUNIT_EXPECT_LE(test, struct_size(cache, entries, PERF_MAX_STACK_DEPTH), 1040);
	KUNIT_EXPECT_EQ(test, sizeof(struct unwind_task_info),
			IS_ENABLED(CONFIG_DEBUG_ENTRY) ? 64 : 48);
	KUNIT_EXPECT_EQ(test, UNWIND_MAX_WORKS, 62);
}

static struct kunit_case unwind_deferred_cases[] = {
	KUNIT_CASE(cookie_holds_cpu_and_count_of_48_bits),
	KUNIT_CASE(request_without_context_starts_one),
	KUNIT_CASE(second_work_shares_cookie_and_time),
	KUNIT_CASE(next_context_has_the_next_cookie),
	KUNIT_CASE(reset_leaves_a_pending_context_alone),
	KUNIT_CASE(executed_only_when_the_own_callback_returned),
	KUNIT_CASE(context_that_had_no_memory_gets_no_cache),
	KUNIT_CASE(nmi_before_publication_agrees_on_the_cookie),
	KUNIT_CASE(nmi_after_publication_sees_the_cookie),
	KUNIT_CASE(bucket_has_sixteen_tokens),
	KUNIT_CASE(reclaim_in_vain_is_not_repeated_for_a_second),
	KUNIT_CASE(cache_fits_a_kilobyte_or_a_page),
	{}
};

static struct kunit_suite unwind_deferred_suite = {
	.name = "unwind_deferred",
	.test_cases = unwind_deferred_cases,
};

kunit_test_suite(unwind_deferred_suite);
