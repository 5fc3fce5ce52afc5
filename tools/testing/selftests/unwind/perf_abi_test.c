// SPDX-License-Identifier: GPL-2.0
/*
 * The perf ABI of deferred callchains: attribute bits, what a sample holds,
 * what a PERF_RECORD_CALLCHAIN_DEFERRED record holds, and who gets how many of
 * them. Frames are those of chain_syscall(), compared one by one.
 */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <linux/hw_breakpoint.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/io.h>
#include <sys/prctl.h>
#include <time.h>

#include "unwind_perf.h"
#include "walker_stubs.h"
#include "../kselftest_harness.h"

#define SYSCTL_MAX_STACK	"/proc/sys/kernel/perf_event_max_stack"
#define SYSCTL_MAX_CONTEXTS	"/proc/sys/kernel/perf_event_max_contexts_per_stack"
#define SYSCTL_OPTIMIZE		"/proc/sys/debug/kprobes-optimization"

#define DEFER		UT_ATTR_DEFER_CALLCHAIN
#define OUTPUT		UT_ATTR_DEFER_OUTPUT
#define MAX_RINGS	16
#define MAX_CPUS	16

#define A(label)	((unsigned long)(label))

FIXTURE(abi)
{
	struct up_ring rings[MAX_RINGS];
	int nr_rings;
	long long max_stack;
	long long max_contexts;
};

FIXTURE_SETUP(abi)
{
	if (must_skip(_metadata, need_perf_deferred()))
		return;
	if (must_skip(_metadata, need_tracepoint("raw_syscalls", "sys_enter")))
		return;
	if (must_skip(_metadata, need_tracepoint("raw_syscalls", "sys_exit")))
		return;
	self->max_stack = up_read_number(SYSCTL_MAX_STACK);
	self->max_contexts = up_read_number(SYSCTL_MAX_CONTEXTS);
}

FIXTURE_TEARDOWN(abi)
{
	while (self->nr_rings)
		up_close(&self->rings[--self->nr_rings]);
	if (up_read_number(SYSCTL_MAX_STACK) != self->max_stack)
		up_write_number(SYSCTL_MAX_STACK, self->max_stack);
	if (up_read_number(SYSCTL_MAX_CONTEXTS) != self->max_contexts)
		up_write_number(SYSCTL_MAX_CONTEXTS, self->max_contexts);
}

static struct up_ring *open_ring(struct __test_metadata *_metadata,
				 struct _test_data_abi *self,
				 struct perf_event_attr *attr, pid_t pid, int cpu)
{
	struct up_ring *ring = &self->rings[self->nr_rings];

	ASSERT_GT(MAX_RINGS, self->nr_rings);
	ASSERT_EQ(0, up_open(ring, attr, pid, cpu, -1));
	self->nr_rings++;
	return ring;
}

static void attr_tracepoint(struct perf_event_attr *attr, const char *system,
			    const char *name, uint64_t bits)
{
	up_attr_init(attr, PERF_TYPE_TRACEPOINT, tracepoint_id(system, name), bits);
	attr->exclude_callchain_kernel = 1;
}

static void attr_enter(struct perf_event_attr *attr, uint64_t bits)
{
	attr_tracepoint(attr, "raw_syscalls", "sys_enter", bits);
}

static void attr_exit(struct perf_event_attr *attr, uint64_t bits)
{
	attr_tracepoint(attr, "raw_syscalls", "sys_exit", bits);
}

/* An event that does nothing but hold records. */
static void attr_holder(struct perf_event_attr *attr)
{
	up_attr_init(attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, OUTPUT);
	attr->sample_type &= ~PERF_SAMPLE_CALLCHAIN;
	attr->disabled = 0;
}

static int set_filter(struct up_ring *ring, const char *fmt, ...)
{
	char filter[128];
	va_list args;

	va_start(args, fmt);
	vsnprintf(filter, sizeof(filter), fmt, args);
	va_end(args);
	return ioctl(ring->fd, PERF_EVENT_IOC_SET_FILTER, filter) ? -errno : 0;
}

/* A tracepoint event of this task, filtered for one system call. */
static struct up_ring *open_syscall(struct __test_metadata *_metadata,
				    struct _test_data_abi *self,
				    struct perf_event_attr *attr, long nr)
{
	struct up_ring *ring = open_ring(_metadata, self, attr, 0, -1);

	ASSERT_EQ(0, set_filter(ring, "id == %ld", nr));
	return ring;
}

static void enable_all(struct _test_data_abi *self)
{
	int i;

	for (i = 0; i < self->nr_rings; i++)
		up_enable(&self->rings[i]);
}

static void drain_all(struct _test_data_abi *self)
{
	int i;

	for (i = 0; i < self->nr_rings; i++)
		up_disable(&self->rings[i]);
	for (i = 0; i < self->nr_rings; i++)
		up_drain(&self->rings[i]);
}

static size_t bad_all(struct _test_data_abi *self)
{
	size_t n = 0;
	int i;

	for (i = 0; i < self->nr_rings; i++)
		n += up_count_bad(&self->rings[i]);
	return n;
}

static void getppid_from_chain(void)
{
	chain_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
}

static size_t count_samples(struct up_ring *ring)
{
	return up_count(ring, PERF_RECORD_SAMPLE);
}

static size_t count_records(struct up_ring *ring)
{
	return up_count(ring, UT_RECORD_CALLCHAIN_DEFERRED);
}

static struct up_rec *sample_nr(struct up_ring *ring, size_t n)
{
	return up_nth(ring, PERF_RECORD_SAMPLE, n);
}

static struct up_rec *record_nr(struct up_ring *ring, size_t n)
{
	return up_nth(ring, UT_RECORD_CALLCHAIN_DEFERRED, n);
}

/* The sample of @ring is deferred, and @holder has its one record. */
static struct up_rec *expect_answer(struct __test_metadata *_metadata,
				    struct up_rec *sample, struct up_ring *holder)
{
	struct up_rec *rec;

	ASSERT_NE(NULL, sample);
	ASSERT_TRUE(sample->deferred);
	ASSERT_FALSE(sample->has_user);
	ASSERT_NE(0, sample->cookie);
	ASSERT_EQ(1, up_count_cookie(holder, sample->cookie));
	rec = up_find_cookie(holder, sample->cookie);
	EXPECT_EQ(sample->pid, rec->pid);
	EXPECT_EQ(sample->tid, rec->tid);
	return rec;
}

/* ------------------------------------------------------------------------ */
/* Attributes								     */

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
/* Layout								     */

TEST_F(abi, sample_without_kernel_part_is_marker_and_cookie)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *sample, *rec;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(ring));
	ASSERT_EQ(1, count_records(ring));
	sample = sample_nr(ring, 0);
	ASSERT_EQ(2, sample->nr);
	EXPECT_EQ(UT_CONTEXT_USER_DEFERRED, sample->ips[0]);
	EXPECT_EQ(UP_SAMPLE_SIZE(2), sample->size);
	rec = expect_answer(_metadata, sample, ring);
	EXPECT_EQ(sample->ips[1], rec->cookie);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, kernel_part_comes_before_marker_and_cookie)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *sample, *rec;
	uint64_t i;
	size_t wrong = 0;

	attr_enter(&attr, DEFER | OUTPUT);
	attr.exclude_callchain_kernel = 0;
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(ring));
	sample = sample_nr(ring, 0);
	ASSERT_LT(3, sample->nr);
	EXPECT_EQ(PERF_CONTEXT_KERNEL, sample->ips[0]);
	EXPECT_EQ(sample->nr, sample->nr_kernel + 3);
	for (i = 0; i < sample->nr_kernel; i++)
		wrong += sample->kernel[i] <= 1ULL << 63;
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(UT_CONTEXT_USER_DEFERRED, sample->ips[sample->nr - 2]);
	rec = expect_answer(_metadata, sample, ring);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, record_has_user_mode_exact_size_and_sample_id)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *sample, *rec;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	ASSERT_EQ(1, count_records(ring));
	sample = sample_nr(ring, 0);
	rec = record_nr(ring, 0);
	EXPECT_FALSE(rec->bad);
	EXPECT_EQ(22, rec->type);
	EXPECT_EQ(PERF_RECORD_MISC_USER, rec->misc);
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
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	ASSERT_EQ(1, count_records(ring));
	rec = record_nr(ring, 0);
	EXPECT_FALSE(rec->bad);
	EXPECT_EQ(24 + 8 * CHAIN_NR, rec->size);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, sample_id_follows_the_holders_sample_type)
{
	struct perf_event_attr attr;
	struct up_ring *sampling, *holder;
	struct record raw;
	uint64_t nr, id;

	attr_enter(&attr, DEFER);
	sampling = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	attr.sample_type = PERF_SAMPLE_IDENTIFIER;
	holder = open_ring(_metadata, self, &attr, 0, -1);
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
	ring = open_ring(_metadata, self, &attr, 0, -1);
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
			user += sample->ip >= A(chain_spin_lo) &&
				sample->ip < A(chain_spin_hi);
	}
	EXPECT_EQ(0, bad_all(self));
	for (i = 0; (sample = sample_nr(ring, i)); i++) {
		if (sample->ip < A(chain_spin_lo) || sample->ip >= A(chain_spin_hi))
			continue;
		EXPECT_EQ(PERF_RECORD_MISC_USER, sample->misc & PERF_RECORD_MISC_CPUMODE_MASK);
		EXPECT_EQ(2, sample->nr);
		rec = expect_answer(_metadata, sample, ring);
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
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	holder = open_ring(_metadata, self, &attr, 0, -1);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(ring));
	EXPECT_FALSE(sample_nr(ring, 0)->deferred);
	EXPECT_FALSE(sample_nr(ring, 0)->has_user);
	EXPECT_LT(0, sample_nr(ring, 0)->nr_kernel);
	EXPECT_EQ(0, count_records(ring));
	EXPECT_EQ(0, count_records(holder));
}

TEST_F(abi, holder_that_excludes_user_callchains_gets_no_record)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *holder;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	attr.exclude_callchain_user = 1;
	holder = open_ring(_metadata, self, &attr, 0, -1);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	expect_answer(_metadata, sample_nr(ring, 0), ring);
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
	attr_holder(&attr);
	holder = open_ring(_metadata, self, &attr, 0, -1);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	getppid_from_chain();
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DISABLE, 0));
	EXPECT_FALSE(ring_next(&holder->ring, &raw));
	close(fd);
}

TEST_F(abi, in_place_event_beside_a_deferred_one_has_the_same_frames)
{
	struct perf_event_attr attr;
	struct up_ring *deferred, *in_place;
	struct up_rec *sample, *rec;

	attr_enter(&attr, DEFER | OUTPUT);
	deferred = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_enter(&attr, 0);
	in_place = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	rec = expect_answer(_metadata, sample_nr(deferred, 0), deferred);
	ASSERT_EQ(1, count_samples(in_place));
	EXPECT_EQ(0, count_records(in_place));
	sample = sample_nr(in_place, 0);
	ASSERT_TRUE(sample->has_user);
	EXPECT_FALSE(sample->deferred);
	EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user, rec->ips, rec->nr));
}

static void attr_fault(struct perf_event_attr *attr, uint64_t bits)
{
	up_attr_init(attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, bits);
	attr->exclude_callchain_kernel = 1;
	attr->exclude_kernel = 1;
}

/* All events of one kind are served one behind the other, the last opened first. */
TEST_F(abi, software_events_of_one_kind_have_the_user_part_that_each_asks_for)
{
	struct up_ring *first, *deferred, *last, *in_place[2];
	struct perf_event_attr attr;
	char *page;
	size_t i, j, nr, size = getpagesize();

	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	attr_fault(&attr, 0);
	first = open_ring(_metadata, self, &attr, 0, -1);
	attr_fault(&attr, DEFER | OUTPUT);
	deferred = open_ring(_metadata, self, &attr, 0, -1);
	attr_fault(&attr, 0);
	last = open_ring(_metadata, self, &attr, 0, -1);
	in_place[0] = first;
	in_place[1] = last;
	enable_all(self);
	*page = 1;
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	nr = count_samples(deferred);
	ASSERT_LE(1, nr);
	for (j = 0; j < 2; j++) {
		ASSERT_EQ(nr, count_samples(in_place[j]));
		EXPECT_EQ(0, count_records(in_place[j]));
		for (i = 0; i < nr; i++) {
			struct up_rec *rec, *sample = sample_nr(in_place[j], i);

			rec = expect_answer(_metadata, sample_nr(deferred, i), deferred);
			ASSERT_TRUE(sample->has_user);
			EXPECT_FALSE(sample->deferred);
			EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user,
						    rec->ips, rec->nr));
		}
	}
	munmap(page, size);
}

/* Each of these samples is prepared anew, and the address is the event's. */
TEST_F(abi, software_events_of_one_kind_have_the_address_of_the_fault)
{
	static const uint64_t bits[] = { 0, DEFER | OUTPUT, 0 };
	struct perf_event_attr attr;
	struct up_ring *ring[3];
	char *page;
	size_t i, j, nr, hits, size = getpagesize();

	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	for (j = 0; j < 3; j++) {
		attr_fault(&attr, bits[j]);
		attr.sample_type |= PERF_SAMPLE_ADDR;
		ring[j] = open_ring(_metadata, self, &attr, 0, -1);
	}
	enable_all(self);
	page[123] = 1;
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	nr = count_samples(ring[0]);
	for (j = 0; j < 3; j++) {
		ASSERT_EQ(nr, count_samples(ring[j]));
		for (i = hits = 0; i < nr; i++) {
			uint64_t addr = sample_nr(ring[j], i)->addr;

			/* Other faults, if any, are the same for all. */
			EXPECT_EQ(sample_nr(ring[0], i)->addr, addr);
			hits += addr == (unsigned long)page + 123;
		}
		EXPECT_EQ(1, hits);
	}
	munmap(page, size);
}

/* ------------------------------------------------------------------------ */
/* One unwind, one record						     */

TEST_F(abi, two_samples_of_one_entry_share_a_cookie_and_a_record)
{
	struct perf_event_attr attr;
	struct up_ring *enter, *exit;
	struct up_rec *rec;

	attr_enter(&attr, DEFER | OUTPUT);
	enter = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_exit(&attr, DEFER);
	exit = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	ASSERT_EQ(1, count_samples(enter));
	ASSERT_EQ(1, count_samples(exit));
	EXPECT_EQ(1, count_records(enter));
	EXPECT_EQ(0, count_records(exit));
	EXPECT_EQ(sample_nr(enter, 0)->cookie, sample_nr(exit, 0)->cookie);
	rec = expect_answer(_metadata, sample_nr(exit, 0), enter);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, each_entry_has_its_own_cookie_and_record)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	size_t i, j;
	size_t wrong = 0;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	for (i = 0; i < 50; i++)
		getppid_from_chain();
	drain_all(self);
	ASSERT_EQ(50, count_samples(ring));
	ASSERT_EQ(50, count_records(ring));
	for (i = 0; i < 50; i++) {
		expect_answer(_metadata, sample_nr(ring, i), ring);
		for (j = 0; j < i; j++)
			wrong += sample_nr(ring, i)->cookie == sample_nr(ring, j)->cookie;
		EXPECT_EQ(0, wrong);
	}
}

/* CPU number plus one in the low half, an odd count in the high one */
TEST_F(abi, cookie_holds_the_cpu_of_the_request_and_an_odd_count)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	uint64_t last = 0;
	int i;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	enable_all(self);
	for (i = 0; i < 10; i++)
		getppid_from_chain();
	drain_all(self);
	ASSERT_EQ(10, count_samples(ring));
	for (i = 0; i < 10; i++) {
		uint64_t cookie = sample_nr(ring, i)->cookie;

		EXPECT_EQ(nth_cpu(0) + 1, cookie & 0xffffffff);
		EXPECT_EQ(1, cookie >> 32 & 1);
		EXPECT_LT(last, cookie >> 32);
		last = cookie >> 32;
	}
}

TEST_F(abi, many_events_on_one_sample_share_a_cookie_and_a_record)
{
	struct perf_event_attr attr;
	int i;

	for (i = 0; i < 5; i++) {
		attr_enter(&attr, i ? DEFER : DEFER | OUTPUT);
		open_syscall(_metadata, self, &attr, SYS_getppid);
	}
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(1, count_samples(&self->rings[i]));
		EXPECT_EQ(!i, count_records(&self->rings[i]));
		expect_answer(_metadata, sample_nr(&self->rings[i], 0), &self->rings[0]);
	}
}

TEST_F(abi, entry_that_sleeps_is_answered_once)
{
	struct timespec ts = { .tv_nsec = 100000000 };
	struct perf_event_attr attr;
	struct up_ring *enter, *exit, *sleep;
	size_t i, same = 0;
	struct up_rec *rec;

	attr_enter(&attr, DEFER | OUTPUT);
	enter = open_syscall(_metadata, self, &attr, SYS_nanosleep);
	attr_exit(&attr, DEFER);
	exit = open_syscall(_metadata, self, &attr, SYS_nanosleep);
	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, DEFER);
	attr.exclude_callchain_kernel = 1;
	sleep = open_ring(_metadata, self, &attr, 0, -1);
	enable_all(self);
	chain_syscall(SYS_nanosleep, (long)&ts, 0, 0, 0, 0, 0);
	drain_all(self);
	ASSERT_EQ(1, count_samples(enter));
	ASSERT_EQ(1, count_samples(exit));
	EXPECT_EQ(1, up_count_cookie(enter, sample_nr(enter, 0)->cookie));
	EXPECT_EQ(sample_nr(enter, 0)->cookie, sample_nr(exit, 0)->cookie);
	rec = expect_answer(_metadata, sample_nr(exit, 0), enter);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
	/* The switch away is of the same entry; others may be of others */
	for (i = 0; i < count_samples(sleep); i++)
		same += sample_nr(sleep, i)->cookie == sample_nr(enter, 0)->cookie;
	EXPECT_LT(0, same);
}

/* ------------------------------------------------------------------------ */
/* Who gets the record							     */

TEST_F(abi, holder_of_the_task_that_samples_nothing_gets_the_record)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *holder;
	struct up_rec *rec;

	attr_enter(&attr, DEFER);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	holder = open_ring(_metadata, self, &attr, 0, -1);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, count_records(ring));
	EXPECT_EQ(1, count_records(holder));
	rec = expect_answer(_metadata, sample_nr(ring, 0), holder);
	EXPECT_EQ(holder->id, rec->id);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, holder_of_a_cpu_with_no_other_side_band_bit_gets_the_record)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *holder;

	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	attr_enter(&attr, DEFER);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	holder = open_ring(_metadata, self, &attr, -1, nth_cpu(0));
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(1, count_records(holder));
	expect_answer(_metadata, sample_nr(ring, 0), holder);
}

TEST_F(abi, each_holder_gets_the_record_once)
{
	struct perf_event_attr attr;
	struct up_rec *rec;
	int i;

	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	/* Sampling, two of the task, one of the task on this CPU, two of the CPU */
	attr_enter(&attr, DEFER | OUTPUT);
	open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	open_ring(_metadata, self, &attr, 0, -1);
	open_ring(_metadata, self, &attr, 0, -1);
	open_ring(_metadata, self, &attr, 0, nth_cpu(0));
	open_ring(_metadata, self, &attr, -1, nth_cpu(0));
	open_ring(_metadata, self, &attr, -1, nth_cpu(0));
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	for (i = 0; i < 6; i++) {
		rec = expect_answer(_metadata, sample_nr(&self->rings[0], 0),
				    &self->rings[i]);
		EXPECT_EQ(1, count_records(&self->rings[i]));
		EXPECT_EQ(self->rings[i].id, rec->id);
		EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
	}
}

TEST_F(abi, holder_of_another_cpu_gets_no_record)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *other, *both;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	other = open_ring(_metadata, self, &attr, -1, nth_cpu(1));
	both = open_ring(_metadata, self, &attr, 0, nth_cpu(1));
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	expect_answer(_metadata, sample_nr(ring, 0), ring);
	EXPECT_EQ(0, count_records(other));
	EXPECT_EQ(0, count_records(both));
}

static pid_t idle_child(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

TEST_F(abi, holder_of_another_task_gets_no_record)
{
	pid_t child = idle_child();
	struct perf_event_attr attr;
	struct up_ring *ring, *other;

	ASSERT_LT(0, child);
	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	other = open_ring(_metadata, self, &attr, child, -1);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	expect_answer(_metadata, sample_nr(ring, 0), ring);
	EXPECT_EQ(0, count_records(other));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

TEST_F(abi, disabled_holder_gets_no_record)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *holder;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	attr.disabled = 1;
	holder = open_ring(_metadata, self, &attr, 0, -1);
	ASSERT_EQ(0, up_enable(ring));
	getppid_from_chain();
	drain_all(self);
	expect_answer(_metadata, sample_nr(ring, 0), ring);
	EXPECT_EQ(0, count_records(holder));
}

TEST_F(abi, group_delivers_samples_and_one_record_to_the_leaders_buffer)
{
	struct perf_event_attr attr;
	struct up_ring *leader;
	struct up_rec *rec;
	int enter, exit;

	/* The leader switches all of them on */
	attr_holder(&attr);
	attr.disabled = 1;
	leader = open_ring(_metadata, self, &attr, 0, -1);
	attr_enter(&attr, DEFER);
	attr.disabled = 0;
	enter = perf_open(&attr, 0, -1, leader->fd, 0);
	ASSERT_LE(0, enter);
	attr_exit(&attr, DEFER);
	attr.disabled = 0;
	exit = perf_open(&attr, 0, -1, leader->fd, 0);
	ASSERT_LE(0, exit);
	ASSERT_EQ(0, ioctl(enter, PERF_EVENT_IOC_SET_OUTPUT, leader->fd));
	ASSERT_EQ(0, ioctl(exit, PERF_EVENT_IOC_SET_OUTPUT, leader->fd));
	ASSERT_EQ(0, ioctl(enter, PERF_EVENT_IOC_SET_FILTER, "id == 110"));
	ASSERT_EQ(0, ioctl(exit, PERF_EVENT_IOC_SET_FILTER, "id == 110"));
	ASSERT_EQ(110, SYS_getppid);
	ASSERT_EQ(0, up_enable(leader));
	getppid_from_chain();
	ASSERT_EQ(0, up_disable(leader));
	up_drain(leader);
	/* The dummy has no callchain: only its records can be read by up_parse() */
	ASSERT_EQ(2, count_samples(leader));
	ASSERT_EQ(1, count_records(leader));
	rec = expect_answer(_metadata, sample_nr(leader, 0), leader);
	expect_answer(_metadata, sample_nr(leader, 1), leader);
	EXPECT_EQ(sample_nr(leader, 0)->cookie, sample_nr(leader, 1)->cookie);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
	EXPECT_EQ(leader->id, rec->id);
	close(enter);
	close(exit);
}

TEST_F(abi, holders_that_share_a_buffer_put_a_record_each)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	int second;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	second = perf_open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, second);
	ASSERT_EQ(0, ioctl(second, PERF_EVENT_IOC_SET_OUTPUT, ring->fd));
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(ring));
	ASSERT_EQ(2, count_records(ring));
	EXPECT_EQ(record_nr(ring, 0)->cookie, record_nr(ring, 1)->cookie);
	EXPECT_NE(record_nr(ring, 0)->id, record_nr(ring, 1)->id);
	close(second);
}

/* ------------------------------------------------------------------------ */
/* Inheritance, threads, CPUs						     */

/* An inherited event of this task and its children on each CPU. */
static void open_inherited(struct __test_metadata *_metadata, struct _test_data_abi *self,
			   struct perf_event_attr *attr)
{
	int i;

	attr->inherit = 1;
	for (i = 0; i < MAX_CPUS && nth_cpu(i) >= 0; i++)
		open_ring(_metadata, self, attr, 0, nth_cpu(i));
}

/* Samples of @tid in all rings: each has one record in all rings. */
static size_t check_answers(struct __test_metadata *_metadata, struct _test_data_abi *self,
			    __u32 tid, bool exact)
{
	size_t samples = 0, n;
	int i, j;

	for (i = 0; i < self->nr_rings; i++) {
		struct up_rec *sample, *rec = NULL;

		for (n = 0; (sample = sample_nr(&self->rings[i], n)); n++) {
			size_t answers = 0;

			if (sample->tid != tid)
				continue;
			samples++;
			ASSERT_TRUE(sample->deferred);
			for (j = 0; j < self->nr_rings; j++) {
				struct up_ring *ring = &self->rings[j];

				answers += up_count_cookie(ring, sample->cookie);
				if (up_find_cookie(ring, sample->cookie))
					rec = up_find_cookie(ring, sample->cookie);
			}
			ASSERT_EQ(1, answers);
			EXPECT_EQ(tid, rec->tid);
			EXPECT_TRUE(!exact || chain_syscall_ok(rec->ips, rec->nr));
		}
	}
	return samples;
}

TEST_F(abi, inherited_event_defers_in_child_processes)
{
	struct perf_event_attr attr;
	int status, i, n;
	pid_t pid[4];
	size_t wrong = 0;

	attr_enter(&attr, DEFER | OUTPUT);
	open_inherited(_metadata, self, &attr);
	for (i = 0; i < self->nr_rings; i++)
		wrong += set_filter(&self->rings[i], "id == %d", SYS_getppid) != 0;
	ASSERT_EQ(0, wrong);
	enable_all(self);
	for (i = 0; i < 4; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			for (n = 0; n < 10; n++)
				getppid_from_chain();
			_exit(0);
		}
	}
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		ASSERT_EQ(0, status);
	}
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	for (i = 0; i < 4; i++)
		wrong += check_answers(_metadata, self, pid[i], true) != 10;
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(1, check_answers(_metadata, self, getpid(), true));
}

static void *getppid_thread(void *tid)
{
	int n;

	*(pid_t *)tid = my_tid();
	for (n = 0; n < 10; n++)
		getppid_from_chain();
	return NULL;
}

TEST_F(abi, inherited_event_defers_in_threads)
{
	struct perf_event_attr attr;
	pthread_t thread[4];
	pid_t tid[4];
	int i;
	size_t wrong = 0;

	attr_enter(&attr, DEFER | OUTPUT);
	open_inherited(_metadata, self, &attr);
	for (i = 0; i < self->nr_rings; i++)
		wrong += set_filter(&self->rings[i], "id == %d", SYS_getppid) != 0;
	ASSERT_EQ(0, wrong);
	enable_all(self);
	for (i = 0; i < 4; i++)
		wrong += pthread_create(&thread[i], NULL, getppid_thread, &tid[i]) != 0;
	ASSERT_EQ(0, wrong);
	for (i = 0; i < 4; i++)
		wrong += pthread_join(thread[i], NULL) != 0;
	ASSERT_EQ(0, wrong);
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	for (i = 0; i < 4; i++)
		wrong += check_answers(_metadata, self, tid[i], true) != 10;
	EXPECT_EQ(0, wrong);
}

TEST_F(abi, sample_and_record_are_on_the_cpus_where_they_happened)
{
	struct perf_event_attr attr;
	struct up_rec *sample, *rec;
	cpu_set_t set;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	attr_enter(&attr, DEFER | OUTPUT);
	open_ring(_metadata, self, &attr, -1, nth_cpu(0));
	open_ring(_metadata, self, &attr, -1, nth_cpu(1));
	ASSERT_EQ(0, set_filter(&self->rings[0], "id == %d && common_pid == %d",
				SYS_sched_setaffinity, my_tid()));
	ASSERT_EQ(0, set_filter(&self->rings[1], "id == %d && common_pid == %d",
				SYS_sched_setaffinity, my_tid()));
	enable_all(self);
	/* The sample is taken on the first CPU, the system call ends on the second */
	CPU_ZERO(&set);
	CPU_SET(nth_cpu(1), &set);
	ASSERT_EQ(0, chain_syscall(SYS_sched_setaffinity, 0, sizeof(set), (long)&set, 0, 0, 0));
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(&self->rings[0]));
	EXPECT_EQ(0, count_records(&self->rings[0]));
	EXPECT_EQ(0, count_samples(&self->rings[1]));
	ASSERT_EQ(1, count_records(&self->rings[1]));
	sample = sample_nr(&self->rings[0], 0);
	rec = expect_answer(_metadata, sample, &self->rings[1]);
	EXPECT_EQ(nth_cpu(0), sample->cpu);
	EXPECT_EQ(nth_cpu(1), rec->cpu);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, task_event_finds_its_record_after_a_migration)
{
	struct perf_event_attr attr;
	struct up_rec *rec;
	struct up_ring *ring;
	cpu_set_t set;
	int i;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_sched_setaffinity);
	enable_all(self);
	for (i = 0; i < 100; i++) {
		CPU_ZERO(&set);
		CPU_SET(nth_cpu(i & 1), &set);
		ASSERT_EQ(0, chain_syscall(SYS_sched_setaffinity, 0, sizeof(set),
					   (long)&set, 0, 0, 0));
	}
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(100, count_samples(ring));
	ASSERT_EQ(100, count_records(ring));
	for (i = 0; i < 100; i++) {
		rec = expect_answer(_metadata, sample_nr(ring, i), ring);
		EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
	}
}

/* ------------------------------------------------------------------------ */
/* Limits								     */

TEST_F(abi, record_is_cut_to_the_holders_depth)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *shallow, *one;
	struct up_rec *rec;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	attr.sample_max_stack = 2;
	shallow = open_ring(_metadata, self, &attr, 0, -1);
	attr.sample_max_stack = 1;
	one = open_ring(_metadata, self, &attr, 0, -1);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	rec = expect_answer(_metadata, sample_nr(ring, 0), ring);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
	rec = expect_answer(_metadata, sample_nr(ring, 0), shallow);
	ASSERT_EQ(2, rec->nr);
	EXPECT_EQ(A(chain_ip_syscall), rec->ips[0]);
	EXPECT_EQ(A(chain_ip_middle), rec->ips[1]);
	EXPECT_EQ(UP_DEFERRED_SIZE(2), rec->size);
	rec = expect_answer(_metadata, sample_nr(ring, 0), one);
	ASSERT_EQ(1, rec->nr);
	EXPECT_EQ(A(chain_ip_syscall), rec->ips[0]);
}

TEST_F(abi, depth_of_the_sampling_event_limits_its_kernel_part_only)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *holder;
	struct up_rec *rec;

	attr_enter(&attr, DEFER);
	attr.exclude_callchain_kernel = 0;
	attr.sample_max_stack = 1;
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	holder = open_ring(_metadata, self, &attr, 0, -1);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(ring));
	EXPECT_EQ(1, sample_nr(ring, 0)->nr_kernel);
	EXPECT_EQ(4, sample_nr(ring, 0)->nr);
	rec = expect_answer(_metadata, sample_nr(ring, 0), holder);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, record_is_cut_to_the_sysctl_depth)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *rec;

	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_STACK, 3));
	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	rec = expect_answer(_metadata, sample_nr(ring, 0), ring);
	ASSERT_EQ(3, rec->nr);
	EXPECT_EQ(A(chain_ip_syscall), rec->ips[0]);
	EXPECT_EQ(A(chain_ip_middle), rec->ips[1]);
	EXPECT_EQ(A(chain_ip_outer), rec->ips[2]);
}

TEST_F(abi, holder_cannot_exceed_the_sysctl_depth)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *holder;

	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_STACK, 2));
	attr_enter(&attr, DEFER);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	attr.sample_max_stack = 100;
	holder = open_ring(_metadata, self, &attr, 0, -1);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(2, expect_answer(_metadata, sample_nr(ring, 0), holder)->nr);
}

/*
 * With @contexts allowed: a marker takes one, the cookie another. Returns
 * whether the sample is deferred; never is half of it stored.
 */
static bool try_contexts(struct __test_metadata *_metadata, struct _test_data_abi *self,
			 int contexts, bool kernel)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *sample;
	bool deferred;
	uint64_t i;

	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_CONTEXTS, contexts));
	attr_enter(&attr, DEFER | OUTPUT);
	attr.exclude_callchain_kernel = !kernel;
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	ASSERT_EQ(1, count_samples(ring));
	sample = sample_nr(ring, 0);
	EXPECT_FALSE(sample->bad);
	deferred = sample->deferred;
	if (deferred)
		expect_answer(_metadata, sample, ring);
	for (i = 0; i < sample->nr && !deferred; i++) {
		EXPECT_NE(UT_CONTEXT_USER_DEFERRED, sample->ips[i]);
		EXPECT_EQ(0, up_count_cookie(ring, sample->ips[i]));
	}
	up_close(ring);
	self->nr_rings--;
	return deferred;
}

TEST_F(abi, marker_is_not_stored_without_room_for_the_cookie)
{
	EXPECT_FALSE(try_contexts(_metadata, self, 0, false));
	EXPECT_FALSE(try_contexts(_metadata, self, 1, false));
	EXPECT_TRUE(try_contexts(_metadata, self, 2, false));
	EXPECT_FALSE(try_contexts(_metadata, self, 0, true));
	EXPECT_FALSE(try_contexts(_metadata, self, 1, true));
	EXPECT_FALSE(try_contexts(_metadata, self, 2, true));
	EXPECT_TRUE(try_contexts(_metadata, self, 3, true));
}

/*
 * Where a deferring event falls back to the walk in place, user memory must not
 * be able to make up a marker and a cookie.
 */
TEST_F(abi, return_address_cannot_pose_as_the_marker)
{
	uint64_t *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct probe p = {
		.stub = A(stub_plain), .sp = A(stack + 4096), .fp = A(stack + 4100),
		.nr = SYS_getppid,
	};
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *sample;

	ASSERT_NE(MAP_FAILED, (void *)stack);
	stack[4100] = A(stack + 4110);
	stack[4101] = UT_CONTEXT_USER_DEFERRED;
	stack[4110] = 0;
	stack[4111] = 0x123456;
	/* Room for PERF_CONTEXT_USER and not for marker and cookie */
	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_CONTEXTS, 1));
	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	probe_at(&p);
	drain_all(self);
	ASSERT_EQ(1, count_samples(ring));
	sample = sample_nr(ring, 0);
	EXPECT_FALSE(sample->deferred);
	ASSERT_TRUE(sample->has_user);
	EXPECT_EQ(A(stub_plain_ip), sample->user[0]);
}

/* ------------------------------------------------------------------------ */
/* Samples that cannot be deferred					     */

/*
 * Too late on the way out to queue anything: the stack is walked there.
 * Interrupts return to user space too, also to where the system call does: only
 * the next sample behind the end of a system call is certainly its own.
 */
TEST_F(abi, refused_sample_has_its_frames_taken_in_place)
{
	struct perf_event_attr attr;
	struct up_rec *sample;
	struct up_ring *ring;
	size_t i, chains = 0;
	bool behind = false;
	int end;

	if (must_skip(_metadata, need_tracepoint("context_tracking", "user_enter")))
		return;
	attr_tracepoint(&attr, "context_tracking", "user_enter", DEFER | OUTPUT);
	ring = open_ring(_metadata, self, &attr, 0, -1);
	/* In the same buffer: where the system call ends */
	attr_exit(&attr, 0);
	end = perf_open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, end);
	ASSERT_EQ(0, ioctl(end, PERF_EVENT_IOC_SET_OUTPUT, ring->fd));
	/* getppid() */
	ASSERT_EQ(0, ioctl(end, PERF_EVENT_IOC_SET_FILTER, "id == 110"));
	ASSERT_EQ(0, ioctl(end, PERF_EVENT_IOC_ENABLE, 0));
	enable_all(self);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	EXPECT_EQ(0, count_records(ring));
	for (i = 0; (sample = sample_nr(ring, i)); i++) {
		EXPECT_FALSE(sample->deferred);
		ASSERT_TRUE(sample->has_user);
		if (behind)
			chains += chain_syscall_ok(sample->user, sample->nr_user);
		behind = sample->id != ring->id;
	}
	EXPECT_EQ(1, chains);
	close(end);
}

static void handler_nothing(int sig)
{
}

/*
 * The kernel writes a signal frame to a page of the alternate stack that was never
 * used. The registers are neither those of the interrupted code nor those of the
 * handler: no walk in place, no cookie.
 */
TEST_F(abi, fault_while_a_signal_frame_is_set_up_has_an_empty_user_part)
{
	struct sigaction action = { .sa_handler = handler_nothing, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_size = 64 * 1024 };
	struct perf_event_attr attr;
	struct up_rec *sample;
	struct up_ring *ring;
	size_t i, hits = 0;

	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, stack.ss_sp);
	ASSERT_EQ(0, sigaltstack(&stack, NULL));
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	attr_fault(&attr, DEFER | OUTPUT);
	attr.exclude_kernel = 0;
	attr.sample_type |= PERF_SAMPLE_ADDR;
	ring = open_ring(_metadata, self, &attr, 0, -1);
	enable_all(self);
	ASSERT_EQ(0, chain_syscall(SYS_kill, getpid(), SIGUSR1, 0, 0, 0, 0));
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	for (i = 0; (sample = sample_nr(ring, i)); i++) {
		/* What the handler touches itself is a fault of user mode. */
		if (sample->addr - (unsigned long)stack.ss_sp >= stack.ss_size ||
		    sample->ip < (1UL << 63))
			continue;
		hits++;
		EXPECT_FALSE(sample->deferred);
		EXPECT_TRUE(sample->has_user);
		EXPECT_EQ(0, sample->nr_user);
	}
	EXPECT_LE(1, hits);
}

static bool is_kthread(pid_t tid)
{
	unsigned int flags = 0;
	char path[64];
	char buf[512];
	char *p;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	p = fgets(buf, sizeof(buf), f);
	fclose(f);
	p = p ? strrchr(buf, ')') : NULL;
	if (!p || sscanf(p, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		return false;
	/* PF_KTHREAD */
	return flags & 0x00200000;
}

TEST_F(abi, kernel_threads_have_no_user_part)
{
	struct perf_event_attr attr;
	struct up_rec *sample;
	struct up_ring *ring;
	size_t i, seen = 0;
	int tries;

	attr_tracepoint(&attr, "sched", "sched_switch", DEFER | OUTPUT);
	attr.exclude_callchain_kernel = 0;
	ring = open_ring(_metadata, self, &attr, -1, nth_cpu(0));
	for (tries = 0; tries < 50 && !seen; tries++) {
		up_reset(ring);
		ASSERT_EQ(0, up_enable(ring));
		sync();
		usleep(50000);
		ASSERT_EQ(0, up_disable(ring));
		up_drain(ring);
		EXPECT_EQ(0, up_count_bad(ring));
		for (i = 0; (sample = sample_nr(ring, i)); i++) {
			if (sample->tid && !is_kthread(sample->tid))
				continue;
			seen++;
			EXPECT_FALSE(sample->deferred);
			EXPECT_FALSE(sample->has_user);
			EXPECT_LT(0, sample->nr_kernel);
		}
	}
	EXPECT_LT(0, seen);
}

/* Have a worker of io_uring read @fd: returns the ring's fd or -errno. */
static int async_read(int fd, void *buf, size_t size)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_READ,
		.flags = IOSQE_ASYNC,
		.fd = fd,
		.addr = A(buf),
		.len = size,
	};
	int uring = uring_open(&sqe);

	if (uring < 0)
		return uring;
	if (syscall(SYS_io_uring_enter, uring, 1, 0, 0, NULL, 0) != 1)
		return -errno;
	return uring;
}

/* Samples of threads of this process that never run in user space. */
static size_t check_workers(struct __test_metadata *_metadata, struct _test_data_abi *self)
{
	struct up_rec *sample;
	size_t i, seen = 0;
	int c;

	for (c = 0; c < self->nr_rings; c++) {
		for (i = 0; (sample = sample_nr(&self->rings[c], i)); i++) {
			if (sample->pid != getpid() || sample->tid == getpid())
				continue;
			seen++;
			EXPECT_FALSE(sample->deferred);
			EXPECT_FALSE(sample->has_user);
			EXPECT_LT(0, sample->nr_kernel);
		}
	}
	return seen;
}

TEST_F(abi, user_workers_have_no_user_part)
{
	struct perf_event_attr attr;
	int pipefd[2], fd, c, tries;
	size_t seen = 0;
	char buf[8];

	if (must_skip(_metadata, need_tracepoint("sched", "sched_switch")))
		return;
	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	ASSERT_EQ(0, pipe(pipefd));
	attr_tracepoint(&attr, "sched", "sched_switch", DEFER | OUTPUT);
	attr.exclude_callchain_kernel = 0;
	for (c = 0; c < MAX_CPUS && nth_cpu(c) >= 0; c++)
		open_ring(_metadata, self, &attr, -1, nth_cpu(c));
	enable_all(self);
	fd = async_read(pipefd[0], buf, sizeof(buf));
	ASSERT_LE(0, fd);
	/* The worker sleeps in its read, or goes idle after it */
	ASSERT_EQ(1, write(pipefd[1], "x", 1));
	for (tries = 0; tries < 200 && !seen; tries++) {
		usleep(10000);
		for (c = 0; c < self->nr_rings; c++)
			up_drain(&self->rings[c]);
		seen = check_workers(_metadata, self);
	}
	EXPECT_EQ(0, bad_all(self));
	EXPECT_LT(0, seen);
	close(fd);
}

/* ------------------------------------------------------------------------ */
/* Task work in the middle of a system call				     */

/*
 * io_uring_enter() runs task work when it looks for completions. What comes
 * after that in the same system call has the trace in the sample itself.
 */
TEST_F(abi, sample_after_the_unwind_holds_the_frames_of_the_record)
{
	struct io_uring_params params = {};
	struct perf_event_attr attr;
	struct up_ring *enter, *exit, *in_place;
	struct up_rec *sample, *rec;
	int fd;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	fd = syscall(SYS_io_uring_setup, 4, &params);
	ASSERT_LE(0, fd);
	attr_enter(&attr, DEFER | OUTPUT);
	enter = open_syscall(_metadata, self, &attr, SYS_io_uring_enter);
	attr_exit(&attr, DEFER);
	exit = open_syscall(_metadata, self, &attr, SYS_io_uring_enter);
	attr_exit(&attr, 0);
	in_place = open_syscall(_metadata, self, &attr, SYS_io_uring_enter);
	enable_all(self);
	EXPECT_EQ(0, chain_syscall(SYS_io_uring_enter, fd, 0, 0,
				   IORING_ENTER_GETEVENTS, 0, 0));
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(enter));
	ASSERT_EQ(1, count_records(enter));
	rec = expect_answer(_metadata, sample_nr(enter, 0), enter);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));

	ASSERT_EQ(1, count_samples(exit));
	sample = sample_nr(exit, 0);
	EXPECT_LE(rec->time, sample->time);
	EXPECT_FALSE(sample->deferred);
	ASSERT_TRUE(sample->has_user);
	EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user, rec->ips, rec->nr));
	sample = sample_nr(in_place, 0);
	ASSERT_TRUE(sample->has_user);
	EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user, rec->ips, rec->nr));
	close(fd);
}

static void ignore_signal(int sig)
{
}

/*
 * At a function's first instruction, where a walk in place does not know better
 * than to skip the caller: the frames are those of the record.
 */
TEST_F(abi, frames_from_the_cache_are_not_walked_in_place)
{
	static uint64_t stack[8192];
	uint64_t frames[] = { A(stub_push_ip), 0x10000000, 0x20000000 };
	struct sigaction sa = { .sa_handler = ignore_signal };
	struct perf_event_attr attr;
	struct up_ring *enter, *deliver;
	struct up_rec *sample, *rec;
	struct probe p = {
		.stub = A(stub_push), .sp = A(&stack[8000]), .fp = A(&stack[8008]),
		.nr = SYS_tgkill, .args = { getpid(), my_tid(), SIGUSR1 },
	};

	if (must_skip(_metadata, need_tracepoint("signal", "signal_deliver")))
		return;
	stack[8000] = frames[1];
	stack[8009] = frames[2];
	ASSERT_EQ(0, sigaction(SIGUSR1, &sa, NULL));
	attr_enter(&attr, DEFER | OUTPUT);
	enter = open_syscall(_metadata, self, &attr, SYS_tgkill);
	attr_tracepoint(&attr, "signal", "signal_deliver", DEFER);
	deliver = open_ring(_metadata, self, &attr, 0, -1);
	enable_all(self);
	probe_at(&p);
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	rec = expect_answer(_metadata, sample_nr(enter, 0), enter);
	EXPECT_TRUE(up_frames_equal(rec->ips, rec->nr, frames, ARRAY_SIZE(frames)));
	ASSERT_EQ(1, count_samples(deliver));
	sample = sample_nr(deliver, 0);
	EXPECT_FALSE(sample->deferred);
	ASSERT_TRUE(sample->has_user);
	EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user, frames,
				    ARRAY_SIZE(frames)));
}

TEST_F(abi, frames_from_the_cache_respect_the_events_depth)
{
	struct io_uring_params params = {};
	struct perf_event_attr attr;
	struct up_ring *enter, *exit;
	struct up_rec *sample;
	int fd;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	fd = syscall(SYS_io_uring_setup, 4, &params);
	ASSERT_LE(0, fd);
	attr_enter(&attr, DEFER | OUTPUT);
	enter = open_syscall(_metadata, self, &attr, SYS_io_uring_enter);
	attr_exit(&attr, DEFER);
	attr.sample_max_stack = 2;
	exit = open_syscall(_metadata, self, &attr, SYS_io_uring_enter);
	enable_all(self);
	EXPECT_EQ(0, chain_syscall(SYS_io_uring_enter, fd, 0, 0,
				   IORING_ENTER_GETEVENTS, 0, 0));
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	expect_answer(_metadata, sample_nr(enter, 0), enter);
	ASSERT_EQ(1, count_samples(exit));
	sample = sample_nr(exit, 0);
	ASSERT_TRUE(sample->has_user);
	ASSERT_EQ(2, sample->nr_user);
	EXPECT_EQ(A(chain_ip_syscall), sample->user[0]);
	EXPECT_EQ(A(chain_ip_middle), sample->user[1]);
	close(fd);
}

/* ------------------------------------------------------------------------ */
/* Events that come and go						     */

TEST_F(abi, record_comes_after_the_sampling_event_is_closed)
{
	struct perf_event_attr attr;
	struct up_ring *holder;
	struct up_rec *rec;
	int fd;

	attr_holder(&attr);
	holder = open_ring(_metadata, self, &attr, 0, -1);
	attr_enter(&attr, DEFER);
	fd = perf_open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, holder->fd));
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "id == 3"));
	ASSERT_EQ(3, SYS_close);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	/* Sampled at its entry, and the last user of the event */
	ASSERT_EQ(0, chain_syscall(SYS_close, fd, 0, 0, 0, 0, 0));
	up_drain(holder);
	EXPECT_EQ(0, up_count_bad(holder));
	ASSERT_EQ(1, count_samples(holder));
	ASSERT_EQ(1, count_records(holder));
	rec = expect_answer(_metadata, sample_nr(holder, 0), holder);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

/*
 * An event that has reached its limit is off before the task gets to unwind. The
 * last but one may be taken for the last.
 */
TEST_F(abi, last_sample_before_the_limit_is_unwound_in_place)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *rec;
	int i, j;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	for (i = 1; i <= 4; i++) {
		up_reset(ring);
		ASSERT_EQ(0, ioctl(ring->fd, PERF_EVENT_IOC_REFRESH, i));
		for (j = 0; j < 6; j++)
			chain_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
		up_drain(ring);
		EXPECT_EQ(0, up_count_bad(ring));
		ASSERT_EQ(i, count_samples(ring));
		for (j = 0; j < i - 2; j++)
			expect_answer(_metadata, sample_nr(ring, j), ring);
		for (; j < i; j++) {
			rec = sample_nr(ring, j);
			if (rec->deferred && j < i - 1) {
				expect_answer(_metadata, rec, ring);
				continue;
			}
			EXPECT_FALSE(rec->deferred);
			ASSERT_TRUE(rec->has_user);
			EXPECT_TRUE(chain_syscall_ok(rec->user, rec->nr_user));
		}
	}
}

/*
 * An int3 on each way to user mode: the answer to it would come with the next
 * interrupt from user mode, on the way back from which it hits again. That must
 * not go on for ever. The function is called for tasks that may use I/O ports.
 */
TEST_F(abi, breakpoint_on_the_way_out_is_answered_in_place_and_makes_no_livelock)
{
	static const char func[] = "native_tss_update_io_bitmap";
	long long type = up_read_number("/sys/bus/event_source/devices/kprobe/type");
	long long optimized = up_read_number(SYSCTL_OPTIMIZE);
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *rec;
	size_t i, samples, ours = 0;

	if (type < 0)
		SKIP(return, "no kprobe events");
	up_attr_init(&attr, type, 0, DEFER | OUTPUT);
	attr.exclude_callchain_kernel = 1;
	attr.kprobe_func = A(func);
	/* Behind what ftrace has put there, with endbr64 in front of it or not */
	attr.probe_offset = 9;
	ring = &self->rings[self->nr_rings];
	if (up_open(ring, &attr, 0, -1, -1)) {
		attr.probe_offset = 5;
		if (up_open(ring, &attr, 0, -1, -1))
			SKIP(return, "cannot probe %s", func);
	}
	self->nr_rings++;
	if (ioperm(0x80, 1, 1))
		SKIP(return, "no ioperm()");
	/* Not a jump: this is about what int3 looks like */
	up_write_number(SYSCTL_OPTIMIZE, 0);
	ASSERT_EQ(0, up_enable(ring));
	for (i = 0; i < 20; i++)
		chain_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
	ASSERT_EQ(0, up_disable(ring));
	if (optimized > 0)
		up_write_number(SYSCTL_OPTIMIZE, optimized);
	up_drain(ring);
	EXPECT_EQ(0, up_count_bad(ring));
	EXPECT_EQ(0, count_records(ring));
	samples = count_samples(ring);
	ASSERT_LE(20, samples);
	for (i = 0; i < samples; i++) {
		rec = sample_nr(ring, i);
		EXPECT_FALSE(rec->deferred);
		ASSERT_TRUE(rec->has_user);
		ours += chain_syscall_ok(rec->user, rec->nr_user);
	}
	/* An interrupt at the same place is an exit of its own. */
	EXPECT_LE(20, ours);
	ioperm(0x80, 1, 0);
}

TEST_F(abi, closing_the_only_holder_while_pending_is_harmless)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	int i, fd;

	attr_enter(&attr, DEFER);
	ring = open_syscall(_metadata, self, &attr, SYS_close);
	attr_holder(&attr);
	for (i = 0; i < 100; i++) {
		fd = perf_open(&attr, 0, -1, -1, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, up_enable(ring));
		ASSERT_EQ(0, chain_syscall(SYS_close, fd, 0, 0, 0, 0, 0));
		ASSERT_EQ(0, up_disable(ring));
	}
	drain_all(self);
	EXPECT_EQ(100, count_samples(ring));
	EXPECT_EQ(0, count_records(ring));
	EXPECT_EQ(0, bad_all(self));
}

TEST_F(abi, event_disabled_while_pending_gets_no_record)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *holder;

	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_ioctl);
	attr_holder(&attr);
	holder = open_ring(_metadata, self, &attr, 0, -1);
	ASSERT_EQ(0, up_enable(ring));
	ASSERT_EQ(0, chain_syscall(SYS_ioctl, ring->fd, PERF_EVENT_IOC_DISABLE, 0, 0, 0, 0));
	drain_all(self);
	ASSERT_EQ(1, count_samples(ring));
	EXPECT_EQ(0, count_records(ring));
	expect_answer(_metadata, sample_nr(ring, 0), holder);
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
		rec = expect_answer(_metadata, sample_nr(&ring, 0), &ring);
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
	ring = &self->rings[self->nr_rings++];
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
	EXPECT_EQ(0, bad_all(self));
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
	for (i = 0; i < 600; i++) {
		stack[2000 + 2 * i] = A(&stack[2000 + 2 * i + 2]);
		stack[2000 + 2 * i + 1] = 0x10000000 + i;
	}
	p = (struct probe){ .stub = A(stub_plain), .sp = A(stack + 1900),
			    .fp = A(stack + 2000), .nr = SYS_getppid };
	attr_enter(&attr, DEFER | OUTPUT);
	ring = open_syscall(_metadata, self, &attr, SYS_getppid);
	attr_holder(&attr);
	small = &self->rings[self->nr_rings++];
	ASSERT_EQ(0, up_open_pages(small, &attr, 0, -1, -1, 1));
	enable_all(self);
	probe_at(&p);
	getppid_from_chain();
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	EXPECT_EQ(2, count_records(ring));
	EXPECT_EQ(UT_MAX_ENTRIES, record_nr(ring, 0)->nr);
	EXPECT_EQ(1, count_records(small));
	EXPECT_EQ(1, up_count_lost(small));
	EXPECT_EQ(record_nr(ring, 1)->cookie, record_nr(small, 0)->cookie);
}

/* ------------------------------------------------------------------------ */
/* The life of a task							     */

/* Two events of a child that waits for a byte before it goes on. */
static pid_t traced_child(struct __test_metadata *_metadata, struct _test_data_abi *self,
			  long nr, int *go)
{
	struct perf_event_attr attr;
	int pipefd[2];
	pid_t pid;

	ASSERT_EQ(0, pipe(pipefd));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		static const char * const argv[] = { "true", NULL };
		char c;

		close(pipefd[1]);
		if (read(pipefd[0], &c, 1) != 1)
			_exit(1);
		if (nr == SYS_execve)
			chain_syscall(nr, (long)"/bin/true", (long)argv, 0, 0, 0, 0);
		else
			chain_syscall(nr, 0, 0, 0, 0, 0, 0);
		_exit(1);
	}
	close(pipefd[0]);
	attr_enter(&attr, DEFER | OUTPUT);
	open_ring(_metadata, self, &attr, pid, -1);
	ASSERT_EQ(0, set_filter(&self->rings[0], "id == %ld", nr));
	attr_exit(&attr, DEFER | OUTPUT);
	open_ring(_metadata, self, &attr, pid, -1);
	ASSERT_EQ(0, set_filter(&self->rings[1], "id == %ld", nr));
	enable_all(self);
	*go = pipefd[1];
	return pid;
}

TEST_F(abi, exec_is_answered_with_the_old_image_then_the_new_one)
{
	struct up_rec *rec, *enter, *exit;
	int status, go;
	pid_t pid;

	if (must_skip(_metadata, need_file("/bin/true")))
		return;
	pid = traced_child(_metadata, self, SYS_execve, &go);
	ASSERT_EQ(1, write(go, "x", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(&self->rings[0]));
	ASSERT_EQ(1, count_samples(&self->rings[1]));
	enter = sample_nr(&self->rings[0], 0);
	exit = sample_nr(&self->rings[1], 0);
	rec = expect_answer(_metadata, enter, &self->rings[0]);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
	EXPECT_NE(enter->cookie, exit->cookie);
	rec = expect_answer(_metadata, exit, &self->rings[1]);
	/* A program that has not run yet has one frame */
	ASSERT_EQ(1, rec->nr);
	EXPECT_NE(A(chain_ip_syscall), rec->ips[0]);
}

TEST_F(abi, exit_is_answered_before_the_events_go)
{
	struct up_rec *rec;
	int status, go;
	pid_t pid;

	pid = traced_child(_metadata, self, SYS_exit_group, &go);
	ASSERT_EQ(1, write(go, "x", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(&self->rings[0]));
	EXPECT_EQ(0, count_samples(&self->rings[1]));
	rec = expect_answer(_metadata, sample_nr(&self->rings[0], 0), &self->rings[0]);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, exit_of_inherited_events_is_answered)
{
	struct perf_event_attr attr;
	int status, i;
	pid_t pid[20];
	size_t wrong = 0;

	attr_enter(&attr, DEFER | OUTPUT);
	open_inherited(_metadata, self, &attr);
	for (i = 0; i < self->nr_rings; i++)
		wrong += set_filter(&self->rings[i], "id == %d", SYS_exit_group) != 0;
	ASSERT_EQ(0, wrong);
	enable_all(self);
	for (i = 0; i < 20; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			chain_syscall(SYS_exit_group, 0, 0, 0, 0, 0, 0);
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		ASSERT_EQ(0, status);
	}
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	for (i = 0; i < 20; i++)
		wrong += check_answers(_metadata, self, pid[i], true) != 1;
	EXPECT_EQ(0, wrong);
}

TEST_F(abi, parent_and_child_of_a_fork_have_cookies_of_their_own)
{
	struct perf_event_attr attr;
	size_t records = 0;
	int status, i;
	pid_t pid;
	size_t wrong = 0;

	attr_exit(&attr, DEFER | OUTPUT);
	open_inherited(_metadata, self, &attr);
	attr_enter(&attr, DEFER);
	open_inherited(_metadata, self, &attr);
	for (i = 0; i < self->nr_rings; i++)
		wrong += set_filter(&self->rings[i], "id == %d", SYS_fork) != 0;
	ASSERT_EQ(0, wrong);
	enable_all(self);
	pid = chain_syscall(SYS_fork, 0, 0, 0, 0, 0, 0);
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	/* The parent on its way in and out, the child on its way out */
	EXPECT_EQ(2, check_answers(_metadata, self, getpid(), true));
	EXPECT_EQ(1, check_answers(_metadata, self, pid, true));
	for (i = 0; i < self->nr_rings; i++)
		records += count_records(&self->rings[i]);
	EXPECT_EQ(2, records);
}

static void on_signal(int sig)
{
	getppid_from_chain();
}

TEST_F(abi, signal_within_a_system_call_starts_a_new_context)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct perf_event_attr attr;
	struct up_ring *kill, *ppid;
	struct up_rec *rec;

	ASSERT_EQ(0, sigaction(SIGUSR1, &sa, NULL));
	attr_enter(&attr, DEFER | OUTPUT);
	kill = open_syscall(_metadata, self, &attr, SYS_tgkill);
	attr_enter(&attr, DEFER);
	ppid = open_syscall(_metadata, self, &attr, SYS_getppid);
	enable_all(self);
	chain_syscall(SYS_tgkill, getpid(), my_tid(), SIGUSR1, 0, 0, 0);
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(kill));
	ASSERT_EQ(1, count_samples(ppid));
	EXPECT_EQ(2, count_records(kill));
	EXPECT_NE(sample_nr(kill, 0)->cookie, sample_nr(ppid, 0)->cookie);
	rec = expect_answer(_metadata, sample_nr(kill, 0), kill);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
	/* The chain in the handler ends with a frame pointer of 0 */
	rec = expect_answer(_metadata, sample_nr(ppid, 0), kill);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

/* ------------------------------------------------------------------------ */
/* BPF									     */

struct bpf_result {
	int64_t hits;
	int64_t user_id;
	int64_t kernel_id;
	int64_t user_size;
	int64_t kernel_size;
	int64_t pad;
	uint64_t user[32];
	uint64_t kernel[32];
};

#define STACK_DEPTH	32

static int sys_bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

static int bpf_map(int type, int key, int value, int entries)
{
	union bpf_attr attr = {
		.map_type = type, .key_size = key, .value_size = value,
		.max_entries = entries,
	};

	return sys_bpf(BPF_MAP_CREATE, &attr);
}

static int bpf_lookup(int fd, uint32_t key, void *value)
{
	union bpf_attr attr = {
		.map_fd = fd, .key = A(&key), .value = A(value),
	};

	return sys_bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

#define INSN(c, d, s, o, i) \
	((struct bpf_insn){ .code = c, .dst_reg = d, .src_reg = s, .off = o, .imm = i })
#define MOV_REG(d, s)	INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOV_IMM(d, i)	INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD_IMM(d, i)	INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define STORE(d, o, s)	INSN(BPF_STX | BPF_MEM | BPF_DW, d, s, o, 0)
#define LOAD(d, s, o)	INSN(BPF_LDX | BPF_MEM | BPF_DW, d, s, o, 0)
#define STORE_IMM(d, o, i) INSN(BPF_ST | BPF_MEM | BPF_W, d, 0, o, i)
#define CALL(f)		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define JNE_IMM(d, i, o) INSN(BPF_JMP | BPF_JNE | BPF_K, d, 0, o, i)
#define EXIT()		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define MAP_FD(d, f)	INSN(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_FD, 0, f)
/* The second half of it */
#define MAP_FD_END()	INSN(0, 0, 0, 0, 0)

/* Returns the program's fd or -errno. */
static int bpf_load(const struct bpf_insn *insns, size_t nr)
{
	static char log[65536];
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_PERF_EVENT,
		.insns = A(insns), .insn_cnt = nr,
		.license = A("GPL"),
		.log_buf = A(log), .log_size = sizeof(log), .log_level = 1,
	};
	int fd = sys_bpf(BPF_PROG_LOAD, &attr);

	if (fd < 0)
		fprintf(stderr, "# %s\n", log);
	return fd;
}

/*
 * Into the one element of the array: bpf_get_stackid() and bpf_get_stack() of
 * the user and of the kernel part. @keep: the sample goes to the ring buffer as
 * well. Returns the program's fd or -errno.
 */
static int bpf_stack_prog(int array, int stacks, bool keep)
{
	struct bpf_insn insns[] = {
		MOV_REG(6, 1),
		STORE_IMM(10, -4, 0),
		MAP_FD(1, array),
		MAP_FD_END(),
		MOV_REG(2, 10),
		ADD_IMM(2, -4),
		CALL(BPF_FUNC_map_lookup_elem),
		JNE_IMM(0, 0, 2),
		MOV_IMM(0, 0),
		EXIT(),
		MOV_REG(7, 0),
		LOAD(1, 7, offsetof(struct bpf_result, hits)),
		ADD_IMM(1, 1),
		STORE(7, offsetof(struct bpf_result, hits), 1),

		MOV_REG(1, 6),
		MAP_FD(2, stacks),
		MAP_FD_END(),
		MOV_IMM(3, BPF_F_USER_STACK),
		CALL(BPF_FUNC_get_stackid),
		STORE(7, offsetof(struct bpf_result, user_id), 0),

		MOV_REG(1, 6),
		MAP_FD(2, stacks),
		MAP_FD_END(),
		MOV_IMM(3, 0),
		CALL(BPF_FUNC_get_stackid),
		STORE(7, offsetof(struct bpf_result, kernel_id), 0),

		MOV_REG(1, 6),
		MOV_REG(2, 7),
		ADD_IMM(2, offsetof(struct bpf_result, user)),
		MOV_IMM(3, STACK_DEPTH * 8),
		MOV_IMM(4, BPF_F_USER_STACK),
		CALL(BPF_FUNC_get_stack),
		STORE(7, offsetof(struct bpf_result, user_size), 0),

		MOV_REG(1, 6),
		MOV_REG(2, 7),
		ADD_IMM(2, offsetof(struct bpf_result, kernel)),
		MOV_IMM(3, STACK_DEPTH * 8),
		MOV_IMM(4, 0),
		CALL(BPF_FUNC_get_stack),
		STORE(7, offsetof(struct bpf_result, kernel_size), 0),

		MOV_IMM(0, keep),
		EXIT(),
	};

	return bpf_load(insns, ARRAY_SIZE(insns));
}

/* One that takes no stack. */
static int bpf_plain_prog(bool keep)
{
	struct bpf_insn insns[] = {
		MOV_IMM(0, keep),
		EXIT(),
	};

	return bpf_load(insns, ARRAY_SIZE(insns));
}

/* One that takes no more of the user part than two of its entries. */
static int bpf_short_stack_prog(void)
{
	struct bpf_insn insns[] = {
		MOV_REG(2, 10),
		ADD_IMM(2, -16),
		MOV_IMM(3, 16),
		MOV_IMM(4, BPF_F_USER_STACK),
		CALL(BPF_FUNC_get_stack),
		MOV_IMM(0, 1),
		EXIT(),
	};

	return bpf_load(insns, ARRAY_SIZE(insns));
}

/* One that is followed by the first of @progs. */
static int bpf_tail_prog(int progs)
{
	struct bpf_insn insns[] = {
		MAP_FD(2, progs),
		MAP_FD_END(),
		MOV_IMM(3, 0),
		CALL(BPF_FUNC_tail_call),
		MOV_IMM(0, 0),
		EXIT(),
	};

	return bpf_load(insns, ARRAY_SIZE(insns));
}

/*
 * A context switch below chain_syscall(), with the program on the event, and at
 * most @depth frames in a chain. Returns the number of those that are the kernel's.
 */
static size_t check_bpf(struct __test_metadata *_metadata, struct _test_data_abi *self,
			uint64_t bits, unsigned int depth)
{
	/* The helpers take the marker of the user part for one of its frames */
	uint64_t expected[] = {
		PERF_CONTEXT_USER, A(chain_ip_syscall), A(chain_ip_middle),
		A(chain_ip_outer), A(chain_ip_base),
	};
	int nr = ARRAY_SIZE(expected);
	struct timespec ts = { .tv_nsec = 2000000 };
	uint64_t user[STACK_DEPTH], kernel[STACK_DEPTH];
	struct bpf_result res = {}, zero = {};
	struct perf_event_attr attr;
	int array, stacks, prog, i, tries;
	struct up_ring *ring;
	struct up_rec *sample;
	uint32_t key = 0;
	size_t wrong = 0;

	union bpf_attr update = { .key = A(&key), .value = A(&zero) };

	if (must_skip(_metadata, need_file("/proc/sys/kernel/unprivileged_bpf_disabled")))
		return 0;
	array = bpf_map(BPF_MAP_TYPE_ARRAY, 4, sizeof(res), 1);
	ASSERT_LE(0, array);
	stacks = bpf_map(BPF_MAP_TYPE_STACK_TRACE, 4, STACK_DEPTH * 8, 4096);
	ASSERT_LE(0, stacks);
	prog = bpf_stack_prog(array, stacks, true);
	ASSERT_LE(0, prog);
	update.map_fd = array;

	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, bits);
	attr.sample_max_stack = depth;
	ring = open_ring(_metadata, self, &attr, 0, -1);
	ASSERT_EQ(0, ioctl(ring->fd, PERF_EVENT_IOC_SET_BPF, prog));
	/* Until the one switch is that of the sleep, and not of the tick */
	for (tries = 0; tries < 50; tries++) {
		up_reset(ring);
		ASSERT_EQ(0, sys_bpf(BPF_MAP_UPDATE_ELEM, &update));
		ASSERT_EQ(0, up_enable(ring));
		chain_syscall(SYS_nanosleep, (long)&ts, 0, 0, 0, 0, 0);
		ASSERT_EQ(0, up_disable(ring));
		ASSERT_EQ(0, bpf_lookup(array, 0, &res));
		up_drain(ring);
		if (res.hits == 1 && count_samples(ring) == 1)
			break;
	}
	ASSERT_EQ(1, res.hits);
	ASSERT_EQ(1, count_samples(ring));
	EXPECT_EQ(0, bad_all(self));
	sample = sample_nr(ring, 0);
	if (depth)
		nr = 1 + depth - sample->nr_kernel;

	/* What the program saw in place */
	ASSERT_EQ(nr * 8, res.user_size);
	EXPECT_TRUE(up_frames_equal(res.user, nr, expected, nr));
	ASSERT_LE(0, res.user_id);
	ASSERT_EQ(0, bpf_lookup(stacks, res.user_id, user));
	EXPECT_TRUE(up_frames_equal(user, nr, expected, nr));
	for (i = nr; i < STACK_DEPTH; i++)
		wrong += user[i] != 0;
	EXPECT_EQ(0, wrong);

	/* The first of its kernel entries is the context marker */
	ASSERT_EQ((sample->nr_kernel + 1) * 8, res.kernel_size);
	EXPECT_TRUE(up_frames_equal(res.kernel, sample->nr_kernel + 1, sample->ips,
				    sample->nr_kernel + 1));
	ASSERT_LE(0, res.kernel_id);
	ASSERT_EQ(0, bpf_lookup(stacks, res.kernel_id, kernel));
	EXPECT_TRUE(up_frames_equal(kernel, sample->nr_kernel + 1, sample->ips,
				    sample->nr_kernel + 1));
	for (i = sample->nr_kernel + 1; i < STACK_DEPTH; i++)
		wrong += kernel[i] != 0;
	EXPECT_EQ(0, wrong);

	/* The sample itself is what it would be without the program */
	if (bits) {
		struct up_rec *rec = expect_answer(_metadata, sample, ring);

		EXPECT_TRUE(up_frames_equal(rec->ips, rec->nr, expected + 1,
					    depth && depth < 4 ? depth : 4));
		for (i = 0; i < STACK_DEPTH; i++) {
			EXPECT_NE(rec->cookie, user[i]);
			EXPECT_NE(rec->cookie, kernel[i]);
			EXPECT_NE(rec->cookie, res.user[i]);
			EXPECT_NE(rec->cookie, res.kernel[i]);
		}
	} else {
		EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user, expected + 1,
					    nr - 1));
	}
	close(prog);
	close(array);
	close(stacks);
	return sample->nr_kernel;
}

TEST_F(abi, bpf_stacks_of_a_deferred_event_are_those_taken_in_place)
{
	check_bpf(_metadata, self, DEFER | OUTPUT, 0);
}

/* Two frames are left for the user part. */
TEST_F(abi, bpf_stacks_of_a_deferred_event_respect_its_depth)
{
	size_t nr = check_bpf(_metadata, self, DEFER | OUTPUT, 0);

	check_bpf(_metadata, self, DEFER | OUTPUT, nr + 2);
}

TEST_F(abi, bpf_stacks_of_an_in_place_event_respect_its_depth)
{
	size_t nr = check_bpf(_metadata, self, 0, 0);

	check_bpf(_metadata, self, 0, nr + 2);
}

TEST_F(abi, bpf_stacks_of_an_in_place_event_are_unchanged)
{
	check_bpf(_metadata, self, 0, 0);
}

/*
 * touch_at() writes to the watched word from below two frames, of which a walk
 * that may not wait for pages finds one only:
 *
 *	touch_ip		behind the write
 *	TOUCH_NEAR		of a frame in memory
 *	TOUCH_FAR		of a frame in a page that is not mapped yet
 */
#define TOUCH_NEAR	0x10000000UL
#define TOUCH_FAR	0x20000000UL

static __u64 touch_word;
static const uint64_t touch_frames[] = { A(touch_ip), TOUCH_NEAR, TOUCH_FAR };

FIXTURE(touch)
{
	struct _test_data_abi abi;
	struct up_ring *ring;
	/* Page faults of the kernel at the frame that is far */
	struct up_ring *faults;
	unsigned long sp;
	unsigned long fp;
	int array;
	int stacks;
};

static void attr_touch(struct perf_event_attr *attr, uint64_t bits)
{
	up_attr_init(attr, PERF_TYPE_BREAKPOINT, 0, bits);
	attr->bp_type = HW_BREAKPOINT_W;
	attr->bp_addr = A(&touch_word);
	attr->bp_len = HW_BREAKPOINT_LEN_8;
	attr->exclude_kernel = 1;
}

FIXTURE_SETUP(touch)
{
	struct perf_event_attr attr;
	unsigned long far;
	uint64_t *frame;
	int fd;

	if (must_skip(_metadata, need_perf_deferred()))
		return;
	if (must_skip(_metadata, need_file("/proc/sys/kernel/unprivileged_bpf_disabled")))
		return;
	if (must_skip(_metadata, need_tracepoint("exceptions", "page_fault_kernel")))
		return;
	self->array = bpf_map(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct bpf_result), 1);
	ASSERT_LE(0, self->array);
	self->stacks = bpf_map(BPF_MAP_TYPE_STACK_TRACE, 4, STACK_DEPTH * 8, 4096);
	ASSERT_LE(0, self->stacks);

	fd = memfd_create("far", 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, 4096));
	frame = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, (void *)frame);
	frame[0] = 0;
	frame[1] = TOUCH_FAR;
	frame = mmap(NULL, 0x20000, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)frame);
	self->sp = A(frame) + 0x8000;
	self->fp = A(frame) + 0x9000;
	far = A(frame) + 0x10000;
	frame = (uint64_t *)self->fp;
	frame[0] = far;
	frame[1] = TOUCH_NEAR;
	ASSERT_EQ(far, A(mmap((void *)far, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0)));
	close(fd);

	attr_touch(&attr, DEFER | OUTPUT);
	self->ring = open_ring(_metadata, &self->abi, &attr, 0, -1);
	/* Not deferred, and longer than the other's chain */
	attr_tracepoint(&attr, "exceptions", "page_fault_kernel", 0);
	attr.exclude_callchain_kernel = 0;
	self->faults = open_ring(_metadata, &self->abi, &attr, 0, -1);
	ASSERT_EQ(0, set_filter(self->faults, "address >= %#lx && address < %#lx",
				far, far + 4096));
}

FIXTURE_TEARDOWN(touch)
{
	while (self->abi.nr_rings)
		up_close(&self->abi.rings[--self->abi.nr_rings]);
	close(self->array);
	close(self->stacks);
}

/* With @prog on the event: one sample at most. */
static void touch(struct __test_metadata *_metadata, struct _test_data_touch *self,
		  int prog)
{
	ASSERT_LE(0, prog);
	ASSERT_EQ(0, ioctl(self->ring->fd, PERF_EVENT_IOC_SET_BPF, prog));
	close(prog);
	enable_all(&self->abi);
	touch_at(self->sp, self->fp, &touch_word);
	drain_all(&self->abi);
	EXPECT_EQ(0, bad_all(&self->abi));
}

/* What the program saw. */
static void expect_touch_in_place(struct __test_metadata *_metadata,
				  struct _test_data_touch *self)
{
	uint64_t expected[] = { PERF_CONTEXT_USER, A(touch_ip), TOUCH_NEAR };
	struct bpf_result res = {};
	uint64_t user[STACK_DEPTH];
	int nr = ARRAY_SIZE(expected);

	ASSERT_EQ(0, bpf_lookup(self->array, 0, &res));
	EXPECT_EQ(1, res.hits);
	ASSERT_EQ(sizeof(expected), res.user_size);
	EXPECT_TRUE(up_frames_equal(res.user, nr, expected, nr));
	ASSERT_LE(0, res.user_id);
	ASSERT_EQ(0, bpf_lookup(self->stacks, res.user_id, user));
	EXPECT_TRUE(up_frames_equal(user, nr, expected, nr));
	EXPECT_EQ(0, user[nr]);
	EXPECT_EQ(0, res.kernel_size);
}

static void expect_touch_deferred(struct __test_metadata *_metadata,
				  struct _test_data_touch *self)
{
	struct up_rec *rec;

	ASSERT_EQ(1, count_samples(self->ring));
	ASSERT_EQ(1, count_records(self->ring));
	EXPECT_EQ(2, sample_nr(self->ring, 0)->nr);
	rec = expect_answer(_metadata, sample_nr(self->ring, 0), self->ring);
	EXPECT_TRUE(up_frames_equal(rec->ips, rec->nr, touch_frames,
				    ARRAY_SIZE(touch_frames)));
}

/*
 * The walk in place stumbles over the page, which is a sample with a callchain
 * of its own in the same context. Then the one on the way out brings it in.
 */
TEST_F(touch, bpf_program_has_its_chain_although_the_walk_is_sampled)
{
	struct up_rec *fault;

	touch(_metadata, self, bpf_stack_prog(self->array, self->stacks, true));
	expect_touch_in_place(_metadata, self);
	expect_touch_deferred(_metadata, self);
	ASSERT_EQ(2, count_samples(self->faults));
	/* Its place was taken */
	EXPECT_EQ(0, sample_nr(self->faults, 0)->nr);
	fault = sample_nr(self->faults, 1);
	EXPECT_LT(0, fault->nr_kernel);
	ASSERT_TRUE(fault->has_user);
	EXPECT_EQ(A(touch_ip), fault->user[0]);
}

TEST_F(touch, bpf_program_that_takes_no_stack_costs_no_walk_in_place)
{
	touch(_metadata, self, bpf_plain_prog(true));
	expect_touch_deferred(_metadata, self);
	EXPECT_EQ(1, count_samples(self->faults));
}

TEST_F(touch, sample_that_a_bpf_program_drops_asks_for_no_record)
{
	touch(_metadata, self, bpf_plain_prog(false));
	EXPECT_EQ(0, count_samples(self->ring));
	EXPECT_EQ(0, count_records(self->ring));
	EXPECT_EQ(0, count_samples(self->faults));
}

TEST_F(touch, sample_dropped_by_a_bpf_program_that_took_the_stack_asks_for_no_record)
{
	touch(_metadata, self, bpf_stack_prog(self->array, self->stacks, false));
	expect_touch_in_place(_metadata, self);
	EXPECT_EQ(0, count_samples(self->ring));
	EXPECT_EQ(0, count_records(self->ring));
	EXPECT_EQ(1, count_samples(self->faults));
}

/* The program that is attached has no idea what the next one does. */
TEST_F(touch, bpf_program_at_the_end_of_a_tail_call_has_the_stack)
{
	int progs = bpf_map(BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 1);
	int next = bpf_stack_prog(self->array, self->stacks, true);
	uint32_t key = 0;
	union bpf_attr update = {
		.map_fd = progs, .key = A(&key), .value = A(&next),
	};

	ASSERT_LE(0, progs);
	ASSERT_LE(0, next);
	ASSERT_EQ(0, sys_bpf(BPF_MAP_UPDATE_ELEM, &update));
	touch(_metadata, self, bpf_tail_prog(progs));
	expect_touch_in_place(_metadata, self);
	expect_touch_deferred(_metadata, self);
	close(next);
	close(progs);
}

/* The last sample before the limit, which is as long as it turns out. */
TEST_F(touch, last_sample_of_a_bpf_program_is_unwound_in_place)
{
	struct up_rec *rec;

	ASSERT_EQ(0, ioctl(self->ring->fd, PERF_EVENT_IOC_SET_BPF, bpf_plain_prog(true)));
	ASSERT_EQ(0, up_enable(self->faults));
	ASSERT_EQ(0, ioctl(self->ring->fd, PERF_EVENT_IOC_REFRESH, 1));
	touch_at(self->sp, self->fp, &touch_word);
	drain_all(&self->abi);
	EXPECT_EQ(0, bad_all(&self->abi));
	ASSERT_EQ(1, count_samples(self->ring));
	EXPECT_EQ(0, count_records(self->ring));
	rec = sample_nr(self->ring, 0);
	EXPECT_FALSE(rec->deferred);
	ASSERT_TRUE(rec->has_user);
	EXPECT_TRUE(up_frames_equal(rec->user, rec->nr_user, touch_frames, 2));
	EXPECT_EQ(1, count_samples(self->faults));
}

/* A dump takes what the rest of the largest record leaves: 65528 in all. */
static void check_dump(struct __test_metadata *_metadata, struct _test_data_touch *self,
		       bool last)
{
	struct perf_event_attr attr;
	struct up_rec *rec;

	up_close(self->ring);
	attr_touch(&attr, DEFER | OUTPUT);
	attr.sample_type |= PERF_SAMPLE_STACK_USER;
	attr.sample_stack_user = 65528;
	ASSERT_EQ(0, up_open(self->ring, &attr, 0, -1, -1));
	ASSERT_EQ(0, ioctl(self->ring->fd, PERF_EVENT_IOC_SET_BPF, bpf_plain_prog(true)));
	ASSERT_EQ(0, last ? ioctl(self->ring->fd, PERF_EVENT_IOC_REFRESH, 1) :
			    up_enable(self->ring));
	touch_at(self->sp, self->fp, &touch_word);
	ASSERT_EQ(0, up_disable(self->ring));
	up_drain(self->ring);
	EXPECT_EQ(0, up_count_bad(self->ring));
	ASSERT_EQ(1, count_samples(self->ring));
	rec = sample_nr(self->ring, 0);
	EXPECT_EQ(65528, rec->size);
	EXPECT_EQ(65528 - UP_SAMPLE_SIZE(rec->nr) - 2 * 8, rec->stack_size);
}

TEST_F(touch, dump_of_the_stack_leaves_room_for_marker_and_cookie)
{
	check_dump(_metadata, self, false);
	expect_touch_deferred(_metadata, self);
}

TEST_F(touch, dump_of_the_stack_leaves_room_for_the_frames)
{
	struct up_rec *rec;

	check_dump(_metadata, self, true);
	EXPECT_EQ(0, count_records(self->ring));
	rec = sample_nr(self->ring, 0);
	ASSERT_TRUE(rec->has_user);
	EXPECT_TRUE(up_frames_equal(rec->user, rec->nr_user, touch_frames, 2));
}

/* What a program has room for does not limit the sample. */
static void check_short_stack(struct __test_metadata *_metadata,
			      struct _test_data_touch *self, uint64_t bits)
{
	struct perf_event_attr attr;

	up_close(self->ring);
	attr_touch(&attr, bits);
	ASSERT_EQ(0, up_open(self->ring, &attr, 0, -1, -1));
	touch(_metadata, self, bpf_short_stack_prog());
}

TEST_F(touch, sample_is_whole_after_a_bpf_program_took_a_part_of_the_stack)
{
	struct up_rec *rec;

	check_short_stack(_metadata, self, 0);
	ASSERT_EQ(1, count_samples(self->ring));
	rec = sample_nr(self->ring, 0);
	ASSERT_TRUE(rec->has_user);
	EXPECT_TRUE(up_frames_equal(rec->user, rec->nr_user, touch_frames, 2));
}

TEST_F(touch, deferred_sample_is_whole_after_a_bpf_program_took_a_part_of_the_stack)
{
	check_short_stack(_metadata, self, DEFER | OUTPUT);
	expect_touch_deferred(_metadata, self);
}

/*
 * io_uring_enter() unwinds when it runs task work, then it sleeps: the sample of
 * the context switch has the frames from the cache.
 */
TEST_F(abi, sample_of_a_bpf_program_holds_the_frames_of_the_record)
{
	struct __kernel_timespec ts = { .tv_nsec = 2000000 };
	struct io_uring_getevents_arg arg = { .ts = A(&ts) };
	struct io_uring_params params = {};
	struct up_ring *enter, *sleeps;
	struct perf_event_attr attr;
	struct up_rec *sample, *rec;
	int fd;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	fd = syscall(SYS_io_uring_setup, 4, &params);
	ASSERT_LE(0, fd);
	attr_enter(&attr, DEFER | OUTPUT);
	enter = open_syscall(_metadata, self, &attr, SYS_io_uring_enter);
	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, DEFER);
	sleeps = open_ring(_metadata, self, &attr, 0, -1);
	ASSERT_EQ(0, ioctl(sleeps->fd, PERF_EVENT_IOC_SET_BPF, bpf_plain_prog(true)));
	enable_all(self);
	EXPECT_EQ(-ETIME, chain_syscall(SYS_io_uring_enter, fd, 0, 1,
					IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
					A(&arg), sizeof(arg)));
	drain_all(self);
	EXPECT_EQ(0, bad_all(self));
	ASSERT_EQ(1, count_samples(enter));
	ASSERT_EQ(1, count_records(enter));
	rec = expect_answer(_metadata, sample_nr(enter, 0), enter);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
	/* The last one: the tick may have come between */
	ASSERT_LE(1, count_samples(sleeps));
	sample = sample_nr(sleeps, count_samples(sleeps) - 1);
	EXPECT_LE(rec->time, sample->time);
	EXPECT_LT(0, sample->nr_kernel);
	EXPECT_FALSE(sample->deferred);
	ASSERT_TRUE(sample->has_user);
	EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user, rec->ips, rec->nr));
	close(fd);
}

TEST_HARNESS_MAIN
