// SPDX-License-Identifier: GPL-2.0
/*
 * The perf ABI: attribute bits, the contents of a sample, and those of a
 * PERF_RECORD_CALLCHAIN_DEFERRED record.
 */
#include <pthread.h>

#include "perf_fixture.h"

/* ------------------------------------------------------------------------ */
/* Attributes								    */

static int try_open(struct perf_event_attr *attr)
{
	int fd = perf_open(attr, 0, -1, -1, 0);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

TEST_F(abi, each_defer_bit_and_both_are_accepted)
{
	struct perf_event_attr attr;

	attr_enter(&attr, DEFER);
	EXPECT_EQ(0, try_open(&attr));
	attr_enter(&attr, OUTPUT);
	EXPECT_EQ(0, try_open(&attr));
	attr_enter(&attr, DEFER | OUTPUT);
	EXPECT_EQ(0, try_open(&attr));
	attr_holder(&attr);
	EXPECT_EQ(0, try_open(&attr));
}

TEST_F(abi, defer_bits_without_callchains_are_accepted)
{
	struct perf_event_attr attr;

	attr_enter(&attr, DEFER | OUTPUT);
	attr.sample_type &= ~PERF_SAMPLE_CALLCHAIN;
	EXPECT_EQ(0, try_open(&attr));
	attr_enter(&attr, DEFER | OUTPUT);
	attr.exclude_callchain_user = 1;
	EXPECT_EQ(0, try_open(&attr));
}

TEST_F(abi, every_reserved_bit_is_refused)
{
	struct perf_event_attr attr;
	int bit;

	for (bit = 40; bit < 64; bit++) {
		attr_enter(&attr, 1ULL << bit);
		EXPECT_EQ(-EINVAL, try_open(&attr));
		attr_enter(&attr, 1ULL << bit | DEFER | OUTPUT);
		EXPECT_EQ(-EINVAL, try_open(&attr));
	}
}

/* The bits lie in the first published size of the structure already. */
TEST_F(abi, defer_bits_work_with_the_smallest_attr_size)
{
	struct perf_event_attr attr;
	int fd;

	attr_enter(&attr, DEFER | OUTPUT);
	attr.size = PERF_ATTR_SIZE_VER0;
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	EXPECT_LE(0, fd);
	close(fd);
}

/* ------------------------------------------------------------------------ */
/* Layout								    */

TEST_F(abi, sample_without_kernel_part_is_marker_and_cookie)
{
	struct up_ring *ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	struct up_rec *sample, *rec;

	ASSERT_TRUE(sample_getppid(1));
	ASSERT_EQ(1, count_samples(ring));
	ASSERT_EQ(1, count_records(ring));
	sample = sample_nr(ring, 0);
	ASSERT_EQ(2, sample->nr);
	EXPECT_EQ(UT_CONTEXT_USER_DEFERRED, sample->ips[0]);
	EXPECT_EQ(UP_SAMPLE_SIZE(2), sample->size);
	rec = answer_to(sample, ring);
	ASSERT_NE(NULL, rec);
	EXPECT_EQ(sample->ips[1], rec->cookie);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, kernel_part_comes_before_marker_and_cookie)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *sample;
	uint64_t i;
	size_t wrong = 0;

	attr_enter(&attr, DEFER | OUTPUT);
	attr.exclude_callchain_kernel = 0;
	ring = open_syscall(&attr, SYS_getppid);
	ASSERT_TRUE(sample_getppid(1));
	ASSERT_EQ(1, count_samples(ring));
	sample = sample_nr(ring, 0);
	ASSERT_LT(3, sample->nr);
	EXPECT_EQ(PERF_CONTEXT_KERNEL, sample->ips[0]);
	EXPECT_EQ(sample->nr, sample->nr_kernel + 3);
	for (i = 0; i < sample->nr_kernel; i++)
		wrong += sample->kernel[i] <= 1ULL << 63;
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(UT_CONTEXT_USER_DEFERRED, sample->ips[sample->nr - 2]);
	EXPECT_TRUE(has_chain(sample, ring));
}

TEST_F(abi, record_has_user_mode_exact_size_and_sample_id)
{
	struct up_ring *ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	struct up_rec *sample, *rec;

	ASSERT_TRUE(sample_getppid(1));
	ASSERT_EQ(1, count_records(ring));
	sample = sample_nr(ring, 0);
	rec = record_nr(ring, 0);
	EXPECT_FALSE(rec->bad);
	EXPECT_EQ(22, rec->type);
	/* Frame pointers do not prove that all of the stack is there: no rule leads on */
	EXPECT_EQ(PERF_RECORD_MISC_USER | 1 << 8, rec->misc);
	EXPECT_EQ(UP_DEFERRED_SIZE(CHAIN_NR), rec->size);
	EXPECT_EQ(getpid(), rec->pid);
	EXPECT_EQ(my_tid(), rec->tid);
	EXPECT_EQ(ring->id, rec->id);
	EXPECT_LE(sample->time, rec->time);
}

TEST_F(abi, record_without_sample_id_ends_with_its_addresses)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *rec;

	attr_enter(&attr, DEFER | OUTPUT);
	attr.sample_id_all = 0;
	ring = open_syscall(&attr, SYS_getppid);
	ASSERT_TRUE(sample_getppid(1));
	ASSERT_EQ(1, count_records(ring));
	rec = record_nr(ring, 0);
	EXPECT_FALSE(rec->bad);
	EXPECT_EQ(24 + 8 * CHAIN_NR, rec->size);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, sample_id_follows_the_holders_sample_type)
{
	struct up_ring *sampling = open_enter(SYS_getppid, DEFER);
	struct perf_event_attr attr;
	struct up_ring *holder;
	struct record raw;
	uint64_t nr, id;

	attr_holder(&attr);
	attr.sample_type = PERF_SAMPLE_IDENTIFIER;
	holder = open_ring(&attr, 0, -1);
	ASSERT_EQ(0, up_enable(sampling));
	getppid_from_chain();
	ASSERT_EQ(0, up_disable(sampling));
	ASSERT_TRUE(ring_next(&holder->ring, &raw));
	EXPECT_EQ(UT_RECORD_CALLCHAIN_DEFERRED, raw.header.type);
	EXPECT_EQ(24 + 8 * CHAIN_NR + 8, raw.header.size);
	memcpy(&nr, raw.body + 8, 8);
	EXPECT_EQ(CHAIN_NR, nr);
	memcpy(&id, raw.body + 16 + 8 * CHAIN_NR, 8);
	EXPECT_EQ(holder->id, id);
	EXPECT_FALSE(ring_next(&holder->ring, &raw));
}

static bool in_spin_loop(const struct up_rec *sample)
{
	return sample->ip >= A(chain_spin_lo) && sample->ip < A(chain_spin_hi);
}

static void *stop_spinning(void *flag)
{
	usleep(20000);
	__atomic_store_n((int *)flag, 1, __ATOMIC_RELAXED);
	return NULL;
}

TEST_F(abi, sample_of_user_mode_is_marker_and_cookie)
{
	struct perf_event_attr attr;
	struct up_rec *sample, *rec;
	struct up_ring *ring;
	int flag;
	pthread_t thread;
	size_t i, user = 0;

	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, DEFER | OUTPUT);
	attr.sample_period = 1000000;
	ring = open_ring(&attr, 0, -1);
	while (!user) {
		flag = 0;
		up_reset(ring);
		ASSERT_EQ(0, pthread_create(&thread, NULL, stop_spinning, &flag));
		ASSERT_EQ(0, up_enable(ring));
		chain_spin(&flag);
		ASSERT_EQ(0, up_disable(ring));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		up_drain(ring);
		for (i = 0; (sample = sample_nr(ring, i)); i++)
			user += in_spin_loop(sample);
	}
	EXPECT_EQ(0, up_count_bad(ring));
	for (i = 0; (sample = sample_nr(ring, i)); i++) {
		if (!in_spin_loop(sample))
			continue;
		EXPECT_EQ(PERF_RECORD_MISC_USER, sample->misc & PERF_RECORD_MISC_CPUMODE_MASK);
		EXPECT_EQ(2, sample->nr);
		rec = answer_to(sample, ring);
		ASSERT_NE(NULL, rec);
		EXPECT_TRUE(chain_spin_ok(rec->ips, rec->nr));
		EXPECT_EQ(sample->ip, rec->ips[0]);
	}
}

TEST_F(abi, excluded_user_part_gives_neither_marker_nor_record)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *holder;

	attr_enter(&attr, DEFER | OUTPUT);
	attr.exclude_callchain_kernel = 0;
	attr.exclude_callchain_user = 1;
	ring = open_syscall(&attr, SYS_getppid);
	holder = open_holder(0, -1);
	ASSERT_TRUE(sample_getppid(1));
	ASSERT_EQ(1, count_samples(ring));
	EXPECT_FALSE(sample_nr(ring, 0)->deferred);
	EXPECT_FALSE(sample_nr(ring, 0)->has_user);
	EXPECT_LT(0, sample_nr(ring, 0)->nr_kernel);
	EXPECT_EQ(0, count_records(ring));
	EXPECT_EQ(0, count_records(holder));
}

TEST_F(abi, event_without_callchains_defers_nothing)
{
	struct perf_event_attr attr;
	struct up_ring *holder;
	struct record raw;
	int fd;

	attr_enter(&attr, DEFER);
	attr.sample_type = PERF_SAMPLE_IP;
	fd = perf_open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	holder = open_holder(0, -1);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	getppid_from_chain();
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DISABLE, 0));
	EXPECT_FALSE(ring_next(&holder->ring, &raw));
	close(fd);
}

TEST_F(abi, in_place_event_beside_a_deferred_one_has_the_same_frames)
{
	struct up_ring *deferred = open_enter(SYS_getppid, DEFER | OUTPUT);
	struct up_ring *in_place = open_enter(SYS_getppid, 0);
	struct up_rec *sample, *rec;

	ASSERT_TRUE(sample_getppid(1));
	rec = answer_to(sample_nr(deferred, 0), deferred);
	ASSERT_NE(NULL, rec);
	ASSERT_EQ(1, count_samples(in_place));
	EXPECT_EQ(0, count_records(in_place));
	sample = sample_nr(in_place, 0);
	EXPECT_TRUE(has_frames(sample, rec->ips, rec->nr));
}

/*
 * Three events of one kind, of which the second is deferred, and a fault at @addr. They
 * are served one after the other, the last opened first.
 */
static void sample_fault(struct __test_metadata *_metadata, struct up_ring *ring[3],
			 uint64_t sample_type, char *addr)
{
	struct perf_event_attr attr;
	int i;

	for (i = 0; i < 3; i++) {
		attr_fault(&attr, i == 1 ? DEFER | OUTPUT : 0);
		attr.sample_type |= sample_type;
		ring[i] = open_ring(&attr, 0, -1);
	}
	ASSERT_TRUE(enable_all());
	*addr = 1;
	EXPECT_TRUE(drain_all());
}

TEST_F(abi, software_events_of_one_kind_have_the_user_part_that_each_asks_for)
{
	size_t i, j, nr, size = getpagesize();
	struct up_ring *ring[3];
	struct up_rec *rec;
	char *page;

	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	sample_fault(_metadata, ring, 0, page);
	nr = count_samples(ring[1]);
	ASSERT_LE(1, nr);
	for (j = 0; j < 3; j += 2) {
		ASSERT_EQ(nr, count_samples(ring[j]));
		EXPECT_EQ(0, count_records(ring[j]));
		for (i = 0; i < nr; i++) {
			rec = answer_to(sample_nr(ring[1], i), ring[1]);
			ASSERT_NE(NULL, rec);
			EXPECT_TRUE(has_frames(sample_nr(ring[j], i), rec->ips, rec->nr));
		}
	}
	munmap(page, size);
}

/* Each of these samples is prepared anew, and the address is the event's. */
TEST_F(abi, software_events_of_one_kind_have_the_address_of_the_fault)
{
	size_t i, j, nr, hits, size = getpagesize();
	struct up_ring *ring[3];
	char *page;

	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	sample_fault(_metadata, ring, PERF_SAMPLE_ADDR, page + 123);
	nr = count_samples(ring[0]);
	for (j = 0; j < 3; j++) {
		ASSERT_EQ(nr, count_samples(ring[j]));
		for (i = hits = 0; i < nr; i++) {
			uint64_t addr = sample_nr(ring[j], i)->addr;

			/* Other faults, if any, are the same for all. */
			EXPECT_EQ(sample_nr(ring[0], i)->addr, addr);
			hits += addr == A(page) + 123;
		}
		EXPECT_EQ(1, hits);
	}
	munmap(page, size);
}

TEST_HARNESS_MAIN
