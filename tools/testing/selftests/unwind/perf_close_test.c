// SPDX-License-Identifier: GPL-2.0
/*
 * The perf ABI: events that are opened and closed while records are pending,
 * and buffers that are full.
 */
#include "walker_stubs.h"
#include "perf_fixture.h"

/* ------------------------------------------------------------------------ */
/* Events that are opened and closed					    */

TEST_F(abi, record_comes_after_the_sampling_event_is_closed)
{
	struct up_ring *holder = open_holder(0, -1);
	struct perf_event_attr attr;
	int fd;

	attr_enter(&attr, DEFER);
	fd = open_into(holder, &attr, -1, SYS_close);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	/* Sampled at its entry, and the last user of the event */
	ASSERT_EQ(0, chain_syscall(SYS_close, fd, 0, 0, 0, 0, 0));
	up_drain(holder);
	EXPECT_EQ(0, up_count_bad(holder));
	ASSERT_EQ(1, count_samples(holder));
	ASSERT_EQ(1, count_records(holder));
	EXPECT_TRUE(has_chain(sample_nr(holder, 0), holder));
}

TEST_F(abi, closing_the_only_holder_while_pending_is_harmless)
{
	struct up_ring *ring = open_enter(SYS_close, DEFER);
	struct perf_event_attr attr;
	int i, fd;

	attr_holder(&attr);
	for (i = 0; i < 100; i++) {
		fd = perf_open(&attr, 0, -1, -1, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, up_enable(ring));
		ASSERT_EQ(0, chain_syscall(SYS_close, fd, 0, 0, 0, 0, 0));
		ASSERT_EQ(0, up_disable(ring));
	}
	EXPECT_TRUE(drain_all());
	EXPECT_EQ(100, count_samples(ring));
	EXPECT_EQ(0, count_records(ring));
}

TEST_F(abi, event_disabled_while_pending_gets_no_record)
{
	struct up_ring *ring = open_enter(SYS_ioctl, DEFER | OUTPUT);
	struct up_ring *holder = open_holder(0, -1);

	ASSERT_EQ(0, up_enable(ring));
	ASSERT_EQ(0, chain_syscall(SYS_ioctl, ring->fd, PERF_EVENT_IOC_DISABLE, 0, 0, 0, 0));
	EXPECT_TRUE(drain_all());
	ASSERT_EQ(1, count_samples(ring));
	EXPECT_EQ(0, count_records(ring));
	EXPECT_NE(NULL, answer_to(sample_nr(ring, 0), holder));
}

/* Off and on again: nothing of the first time is left. */
TEST_F(abi, events_opened_again_after_all_were_closed_work)
{
	struct perf_event_attr attr;
	struct up_ring ring;
	struct up_rec *rec;
	uint64_t cookies[20];
	int i, j;
	size_t wrong = 0;

	for (i = 0; i < 20; i++) {
		attr_enter(&attr, DEFER | OUTPUT);
		ASSERT_EQ(0, up_open(&ring, &attr, 0, -1, -1));
		ASSERT_EQ(0, set_filter(&ring, "id == %d", SYS_getppid));
		ASSERT_EQ(0, up_enable(&ring));
		getppid_from_chain();
		ASSERT_EQ(0, up_disable(&ring));
		up_drain(&ring);
		ASSERT_EQ(1, count_samples(&ring));
		ASSERT_EQ(1, count_records(&ring));
		rec = answer_to(sample_nr(&ring, 0), &ring);
		ASSERT_NE(NULL, rec);
		EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
		cookies[i] = rec->cookie;
		for (j = 0; j < i; j++)
			wrong += cookies[j] == cookies[i];
		EXPECT_EQ(0, wrong);
		up_close(&ring);
	}
}

TEST_F(abi, full_buffer_counts_what_it_loses)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	uint64_t lost = 0;
	int i;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = &rings[nr_rings++];
	ASSERT_EQ(0, up_open_pages(ring, &attr, 0, -1, -1, 1));
	ASSERT_EQ(0, set_filter(ring, "id == %d", SYS_getppid));
	ASSERT_EQ(0, up_enable(ring));
	for (i = 0; i < 1000; i++)
		getppid_from_chain();
	up_drain(ring);
	/* The number of the lost ones comes with the next record that fits */
	getppid_from_chain();
	ASSERT_EQ(0, up_disable(ring));
	up_drain(ring);
	lost = up_count_lost(ring);
	EXPECT_LT(0, lost);
	EXPECT_EQ(2 * 1001, count_samples(ring) + count_records(ring) + lost);
}

TEST_F(abi, record_too_large_for_the_buffer_is_counted_as_lost)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *small;
	uint64_t *stack;
	struct probe p;
	int i;

	/* 510 frames take more than a page */
	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_STACK, 1024));
	stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)stack);
	ASSERT_TRUE(map_code(0x10000000, 600));
	for (i = 0; i < 600; i++) {
		stack[2000 + 2 * i] = A(&stack[2000 + 2 * i + 2]);
		stack[2000 + 2 * i + 1] = 0x10000000 + i;
	}
	p = (struct probe){ .stub = A(stub_plain), .sp = A(stack + 1900),
			    .fp = A(stack + 2000), .nr = SYS_getppid };
	ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	attr_holder(&attr);
	small = &rings[nr_rings++];
	ASSERT_EQ(0, up_open_pages(small, &attr, 0, -1, -1, 1));
	ASSERT_TRUE(enable_all());
	probe_at(&p);
	getppid_from_chain();
	EXPECT_TRUE(drain_all());
	EXPECT_EQ(2, count_records(ring));
	EXPECT_EQ(UT_MAX_ENTRIES, record_nr(ring, 0)->nr);
	EXPECT_EQ(1, count_records(small));
	EXPECT_EQ(1, up_count_lost(small));
	EXPECT_EQ(record_nr(ring, 1)->cookie, record_nr(small, 0)->cookie);
}

TEST_HARNESS_MAIN
