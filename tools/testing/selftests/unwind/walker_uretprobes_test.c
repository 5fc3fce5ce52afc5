// SPDX-License-Identifier: GPL-2.0
/*
 * The walker with return probes: the return addresses that the probes have
 * replaced are shown as they were.
 */
#include "walker_fixture.h"

#define MAX_PROBES	3

static struct up_ring rings[MAX_PROBES];
static int nr_rings;

static bool add_retprobe(const void *fn, uint64_t bits)
{
	struct up_ring *ring = &rings[nr_rings++];

	return !open_uprobe(ring, fn, true, bits) && !up_enable(ring);
}

/* A call of @fn, and the frames that its caller has */
static struct probe call_of(void *fn)
{
	struct probe p = probe_of(stub_call, walk.sp, build(walk.fp, 2), NR_GETPPID);

	p.args[0] = A(fn);
	return p;
}

static void want_callers(void)
{
	want(A(stub_call_ret));
	want_frames(0, 2);
}

/* ------------------------------------------------------------------------ */
/* outer_fn() calls middle_fn(), which calls inner_fn()			      */

FIXTURE(returns) {};

FIXTURE_VARIANT(returns)
{
	/* Probes in the order in which they are set; the last one hits first. */
	char *probed[MAX_PROBES];
	int nr;
};

FIXTURE_VARIANT_ADD(returns, one) { { middle_fn }, 1 };
FIXTURE_VARIANT_ADD(returns, nested) { { outer_fn, middle_fn, inner_fn }, 3 };
FIXTURE_VARIANT_ADD(returns, outer_one_pending) { { outer_fn, inner_fn }, 2 };
/* Two that share a slot, and one further out */
FIXTURE_VARIANT_ADD(returns, shared_slot) { { outer_fn, middle_fn_jmp, middle_fn }, 3 };

FIXTURE_SETUP(returns)
{
	walk_set_up(_metadata);
}

FIXTURE_TEARDOWN(returns)
{
	walk_end();
}

/* The only sample, whose walk was in place */
static bool sample_in_place_is_wanted(struct up_ring *ring)
{
	struct up_rec *rec = up_nth(ring, PERF_RECORD_SAMPLE, 0);

	return up_count(ring, PERF_RECORD_SAMPLE) == 1 && !up_count_bad(ring) &&
	       up_frames_equal(rec->user, rec->nr_user, walk.want.ips, walk.want.nr);
}

TEST_F(returns, sample_shows_the_real_return_addresses)
{
	struct probe p = call_of(outer_fn);
	struct up_ring in_place;
	int i;

	for (i = 0; i < variant->nr; i++)
		ASSERT_TRUE(add_retprobe(variant->probed[i], 0));
	ASSERT_EQ(0, open_syscall_event(&in_place, NR_GETPPID, 0));
	ASSERT_EQ(0, up_enable(&in_place));
	WANT(A(inner_fn_ip), A(middle_fn_ret), A(outer_fn_ret));
	want_callers();
	EXPECT_TRUE(sample_is_wanted(&p));
	for (i = 0; i < variant->nr; i++) {
		up_drain(&rings[i]);
		EXPECT_EQ(1, up_count(&rings[i], PERF_RECORD_SAMPLE));
	}

	up_drain(&in_place);
	EXPECT_TRUE(sample_in_place_is_wanted(&in_place));
}

/* The function that has returned is gone, and its caller is the topmost frame. */
static void check_hit(struct __test_metadata *_metadata,
		      const struct _fixture_variant_returns *variant, uint64_t bits)
{
	struct up_ring *last = &rings[variant->nr - 1];
	struct probe p = call_of(outer_fn);
	int i;

	for (i = 0; i < variant->nr; i++)
		ASSERT_TRUE(add_retprobe(variant->probed[i], i == variant->nr - 1 ? bits : 0));
	probe_at(&p);
	if (variant->probed[variant->nr - 1] == inner_fn)
		want(A(middle_fn_ret));
	want(A(outer_fn_ret));
	want_callers();
	up_drain(last);
	EXPECT_EQ(!!bits, up_count(last, UT_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_TRUE(bits ? is_wanted(only_answer(last)) : sample_in_place_is_wanted(last));
}

TEST_F(returns, event_itself_shows_the_callers)
{
	check_hit(_metadata, variant, DEFER);
}

TEST_F(returns, event_itself_shows_the_callers_in_place)
{
	check_hit(_metadata, variant, 0);
}

/* ------------------------------------------------------------------------ */
/* Other calls								      */

TEST_F(walk, recursive_uretprobe_shows_every_real_return_address)
{
	struct probe p = call_of(recurse_fn);
	int i;

	ASSERT_TRUE(add_retprobe(recurse_fn, 0));
	p.args[1] = 20;
	WANT(A(recurse_fn_ip));
	for (i = 0; i < 20; i++)
		want(A(recurse_fn_ret));
	want_callers();
	EXPECT_TRUE(sample_is_wanted(&p));
	up_drain(&rings[0]);
	EXPECT_EQ(21, up_count(&rings[0], PERF_RECORD_SAMPLE));
}

#ifdef __x86_64__
#define NR_URETPROBE	335

/*
 * The trampoline is a system call here, with three registers pushed before
 * it: samples at its entry and its exit still have the caller on top.
 */
TEST_F(walk, system_call_of_the_uretprobe_shows_the_callers)
{
	/* It has no number any more when it is done. */
	static const struct {
		const char *name;
		long nr;
	} points[] = { { "sys_enter", NR_URETPROBE }, { "sys_exit", -1 } };
	struct probe p = call_of(outer_fn);
	unsigned int i;

	ASSERT_TRUE(add_retprobe(middle_fn, 0));
	WANT(A(outer_fn_ret));
	want_callers();
	for (i = 0; i < ARRAY_SIZE(points); i++) {
		up_close(&walk.ring);
		ASSERT_EQ(0, open_tracepoint(&walk.ring, "raw_syscalls", points[i].name,
					     DEFER));
		ASSERT_TRUE(set_filter(walk.ring.fd, points[i].nr));
		EXPECT_TRUE(sample_is_wanted(&p));
	}
}
#endif

TEST_HARNESS_MAIN
