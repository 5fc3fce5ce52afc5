// SPDX-License-Identifier: GPL-2.0
/*
 * The perf ABI on a kernel without CONFIG_UNWIND_USER: both bits are refused, so
 * that a tool finds out and falls back, and the fallback works.
 */
#include "unwind_chain.h"
#include "unwind_perf.h"
#include "unwind_harness.h"

static int try_bits(uint64_t bits)
{
	struct perf_event_attr attr;
	int fd;

	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, bits);
	attr.sample_period = 1000000;
	fd = perf_open(&attr, 0, -1, -1, 0);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

TEST(both_bits_are_accepted_or_both_are_refused)
{
	if (must_skip(_metadata, need_root()))
		return;
	EXPECT_EQ(0, try_bits(0));
	EXPECT_EQ(try_bits(UT_ATTR_DEFER_CALLCHAIN), try_bits(UT_ATTR_DEFER_OUTPUT));
	EXPECT_EQ(try_bits(UT_ATTR_DEFER_CALLCHAIN),
		  try_bits(UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT));
}

TEST(refused_bits_give_einval)
{
	if (must_skip(_metadata, need_root()))
		return;
	if (!try_bits(UT_ATTR_DEFER_CALLCHAIN))
		SKIP(return, "this kernel has CONFIG_UNWIND_USER");
	EXPECT_EQ(-EINVAL, try_bits(UT_ATTR_DEFER_CALLCHAIN));
	EXPECT_EQ(-EINVAL, try_bits(UT_ATTR_DEFER_OUTPUT));
	EXPECT_EQ(-EINVAL, try_bits(UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT));
}

TEST(callchains_in_place_work_either_way)
{
	struct perf_event_attr attr;
	struct up_rec *sample;
	struct up_ring ring;

	if (must_skip(_metadata, need_tracepoint("raw_syscalls", "sys_enter")))
		return;
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"), 0);
	ASSERT_EQ(0, up_open(&ring, &attr, 0, -1, -1));
	ASSERT_EQ(0, ioctl(ring.fd, PERF_EVENT_IOC_SET_FILTER, "id == 110"));
	ASSERT_EQ(110, SYS_getppid);
	ASSERT_EQ(0, up_enable(&ring));
	chain0(SYS_getppid);
	ASSERT_EQ(0, up_disable(&ring));
	up_drain(&ring);
	EXPECT_EQ(0, up_count_bad(&ring));
	ASSERT_EQ(1, up_count(&ring, PERF_RECORD_SAMPLE));
	EXPECT_EQ(0, up_count(&ring, UT_RECORD_CALLCHAIN_DEFERRED));
	sample = up_nth(&ring, PERF_RECORD_SAMPLE, 0);
	EXPECT_FALSE(sample->deferred);
	EXPECT_LT(0, sample->nr_kernel);
	ASSERT_TRUE(sample->has_user);
	EXPECT_TRUE(chain_syscall_ok(sample->user, sample->nr_user));
	up_close(&ring);
}

TEST_HARNESS_MAIN
