// SPDX-License-Identifier: GPL-2.0
/*
 * The perf ABI: how many records there are, which events get them, and how deep
 * they are.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "walker_stubs.h"
#include "perf_fixture.h"

/* Of the kprobe PMU: a bit of config */
#define RETPROBE	1

/* ------------------------------------------------------------------------ */
/* One unwind, one record						    */

TEST_F(abi, two_samples_of_one_entry_share_a_cookie_and_a_record)
{
	struct up_ring *enter = open_enter(SYS_getppid, DEFER | OUTPUT);
	struct up_ring *exit = open_exit(SYS_getppid, DEFER);

	ASSERT_TRUE(sample_getppid(1));
	ASSERT_EQ(1, count_samples(enter));
	ASSERT_EQ(1, count_samples(exit));
	EXPECT_EQ(1, count_records(enter));
	EXPECT_EQ(0, count_records(exit));
	EXPECT_EQ(sample_nr(enter, 0)->cookie, sample_nr(exit, 0)->cookie);
	EXPECT_TRUE(has_chain(sample_nr(exit, 0), enter));
}

TEST_F(abi, each_entry_has_its_own_cookie_and_record)
{
	struct up_ring *ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	size_t i, j;
	size_t wrong = 0;

	ASSERT_TRUE(sample_getppid(50));
	ASSERT_EQ(50, count_samples(ring));
	ASSERT_EQ(50, count_records(ring));
	for (i = 0; i < 50; i++) {
		EXPECT_NE(NULL, answer_to(sample_nr(ring, i), ring));
		for (j = 0; j < i; j++)
			wrong += sample_nr(ring, i)->cookie == sample_nr(ring, j)->cookie;
		EXPECT_EQ(0, wrong);
	}
}

/* CPU number plus one in the low 16 bits, a count above */
TEST_F(abi, cookie_holds_the_cpu_of_the_request_and_a_count)
{
	struct up_ring *ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	uint64_t last = 0;
	int i;

	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	ASSERT_TRUE(sample_getppid(10));
	ASSERT_EQ(10, count_samples(ring));
	for (i = 0; i < 10; i++) {
		uint64_t cookie = sample_nr(ring, i)->cookie;

		EXPECT_EQ(nth_cpu(0) + 1, cookie & 0xffff);
		EXPECT_LT(last, cookie >> 16);
		last = cookie >> 16;
	}
}

TEST_F(abi, many_events_on_one_sample_share_a_cookie_and_a_record)
{
	int i;

	for (i = 0; i < 5; i++)
		open_enter(SYS_getppid, i ? DEFER : DEFER | OUTPUT);
	ASSERT_TRUE(sample_getppid(1));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(1, count_samples(&rings[i]));
		EXPECT_EQ(!i, count_records(&rings[i]));
		EXPECT_NE(NULL, answer_to(sample_nr(&rings[i], 0), &rings[0]));
	}
}

/*
 * When the callback returns, all events that were on have their record. An event
 * that is switched on only now gets none: its samples must have the frames.
 */
TEST_F(abi, sample_within_the_callback_needs_no_record)
{
	struct up_ring *enter = open_enter(SYS_getppid, DEFER | OUTPUT);
	struct up_ring *within;
	struct perf_event_attr attr;

	up_attr_init(&attr, pmu_type("kprobe"), RETPROBE, DEFER);
	attr.exclude_callchain_kernel = 1;
	attr.kprobe_func = A("perf_unwind_callback");
	within = open_ring(&attr, 0, -1);
	ASSERT_TRUE(sample_getppid(1));
	ASSERT_EQ(1, count_samples(enter));
	EXPECT_TRUE(has_chain(sample_nr(enter, 0), enter));
	/* Other entries into the kernel have no stack to tell. */
	ASSERT_EQ(1, count_samples(within));
	EXPECT_TRUE(has_chain_in_place(sample_nr(within, 0)));
}

TEST_F(abi, entry_that_sleeps_is_answered_once)
{
	struct up_ring *enter = open_enter(SYS_nanosleep, DEFER | OUTPUT);
	struct up_ring *exit = open_exit(SYS_nanosleep, DEFER);
	struct timespec ts = { .tv_nsec = 100000000 };
	struct perf_event_attr attr;
	struct up_ring *sleep;
	size_t i, same = 0;

	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, DEFER);
	attr.exclude_callchain_kernel = 1;
	sleep = open_ring(&attr, 0, -1);
	ASSERT_TRUE(enable_all());
	chain_syscall(SYS_nanosleep, (long)&ts, 0, 0, 0, 0, 0);
	EXPECT_TRUE(drain_all());
	ASSERT_EQ(1, count_samples(enter));
	ASSERT_EQ(1, count_samples(exit));
	EXPECT_EQ(1, up_count_cookie(enter, sample_nr(enter, 0)->cookie));
	EXPECT_EQ(sample_nr(enter, 0)->cookie, sample_nr(exit, 0)->cookie);
	EXPECT_TRUE(has_chain(sample_nr(exit, 0), enter));
	/* The switch away is of the same entry; others may be of others */
	for (i = 0; i < count_samples(sleep); i++)
		same += sample_nr(sleep, i)->cookie == sample_nr(enter, 0)->cookie;
	EXPECT_LT(0, same);
}

/* ------------------------------------------------------------------------ */
/* Receivers of the record						    */

FIXTURE(holder)
{
	pid_t child;
};

FIXTURE_VARIANT(holder)
{
	/* Of this task, of another one, of any */
	enum { THIS, OTHER, ANY } task;
	/* The nth CPU; -1 is any. The test runs on CPU 0. */
	int cpu;
	bool disabled;
	bool exclude_user;
	bool gets_it;
};

FIXTURE_VARIANT_ADD(holder, of_the_task) { .cpu = -1, .gets_it = true };

/* With no other side-band bit */
FIXTURE_VARIANT_ADD(holder, of_the_cpu) { .task = ANY, .gets_it = true };
FIXTURE_VARIANT_ADD(holder, of_the_task_on_the_cpu) { .gets_it = true };
FIXTURE_VARIANT_ADD(holder, of_another_task) { .task = OTHER, .cpu = -1 };
FIXTURE_VARIANT_ADD(holder, of_another_cpu) { .task = ANY, .cpu = 1 };
FIXTURE_VARIANT_ADD(holder, of_the_task_on_another_cpu) { .cpu = 1 };
FIXTURE_VARIANT_ADD(holder, disabled) { .cpu = -1, .disabled = true };
FIXTURE_VARIANT_ADD(holder, without_user_callchains) { .cpu = -1, .exclude_user = true };

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

FIXTURE_SETUP(holder)
{
	if (must_skip(_metadata, need_abi()))
		return;
	if (variant->cpu > 0 && must_skip(_metadata, need_cpus(2)))
		return;
	abi_begin();
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	self->child = idle_child();
	ASSERT_LT(0, self->child);
}

FIXTURE_TEARDOWN(holder)
{
	kill(self->child, SIGKILL);
	waitpid(self->child, NULL, 0);
	abi_end();
}

/* The sampling event is one itself, or asks for no records. */
static void check_holder(struct __test_metadata *_metadata, struct _test_data_holder *self,
			 const struct _fixture_variant_holder *variant, uint64_t bits)
{
	const pid_t task[] = { [THIS] = 0, [OTHER] = self->child, [ANY] = -1 };
	int cpu = variant->cpu < 0 ? -1 : nth_cpu(variant->cpu);
	struct up_ring *ring, *holder;
	struct perf_event_attr attr;

	ring = open_enter(SYS_getppid, bits);
	attr_holder(&attr);
	attr.disabled = variant->disabled;
	attr.exclude_callchain_user = variant->exclude_user;
	holder = open_ring(&attr, task[variant->task], cpu);
	ASSERT_EQ(0, up_enable(ring));
	getppid_from_chain();
	EXPECT_TRUE(drain_all());
	ASSERT_EQ(1, count_samples(ring));
	EXPECT_EQ(!!(bits & OUTPUT), count_records(ring));
	if (bits & OUTPUT)
		EXPECT_TRUE(has_chain(sample_nr(ring, 0), ring));
	EXPECT_EQ(variant->gets_it, count_records(holder));
	if (!variant->gets_it)
		return;
	EXPECT_TRUE(has_chain(sample_nr(ring, 0), holder));
	EXPECT_EQ(holder->id, record_nr(holder, 0)->id);
}

TEST_F(holder, beside_another_one_gets_the_record_if_it_is_its)
{
	check_holder(_metadata, self, variant, DEFER | OUTPUT);
}

TEST_F(holder, alone_gets_the_record_if_it_is_its)
{
	check_holder(_metadata, self, variant, DEFER);
}

TEST_F(abi, each_holder_gets_the_record_once)
{
	int i;

	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	/* Sampling, two of the task, one of the task on this CPU, two of the CPU */
	open_enter(SYS_getppid, DEFER | OUTPUT);
	open_holder(0, -1);
	open_holder(0, -1);
	open_holder(0, nth_cpu(0));
	open_holder(-1, nth_cpu(0));
	open_holder(-1, nth_cpu(0));
	ASSERT_TRUE(sample_getppid(1));
	for (i = 0; i < 6; i++) {
		ASSERT_TRUE(has_chain(sample_nr(&rings[0], 0), &rings[i]));
		EXPECT_EQ(1, count_records(&rings[i]));
		EXPECT_EQ(rings[i].id, record_nr(&rings[i], 0)->id);
	}
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
	leader = open_ring(&attr, 0, -1);
	attr_enter(&attr, DEFER);
	attr.disabled = 0;
	enter = open_into(leader, &attr, leader->fd, SYS_getppid);
	ASSERT_LE(0, enter);
	attr_exit(&attr, DEFER);
	attr.disabled = 0;
	exit = open_into(leader, &attr, leader->fd, SYS_getppid);
	ASSERT_LE(0, exit);
	ASSERT_EQ(0, up_enable(leader));
	getppid_from_chain();
	ASSERT_EQ(0, up_disable(leader));
	up_drain(leader);
	/* The dummy has no callchain: only its records can be read by up_parse() */
	ASSERT_EQ(2, count_samples(leader));
	ASSERT_EQ(1, count_records(leader));
	rec = answer_to(sample_nr(leader, 0), leader);
	ASSERT_NE(NULL, rec);
	EXPECT_NE(NULL, answer_to(sample_nr(leader, 1), leader));
	EXPECT_EQ(sample_nr(leader, 0)->cookie, sample_nr(leader, 1)->cookie);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
	EXPECT_EQ(leader->id, rec->id);
	close(enter);
	close(exit);
}

TEST_F(abi, holders_that_share_a_buffer_put_a_record_each)
{
	struct up_ring *ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	struct perf_event_attr attr;
	int second;

	attr_holder(&attr);
	second = open_into(ring, &attr, -1, -1);
	ASSERT_LE(0, second);
	ASSERT_TRUE(sample_getppid(1));
	ASSERT_EQ(1, count_samples(ring));
	ASSERT_EQ(2, count_records(ring));
	EXPECT_EQ(record_nr(ring, 0)->cookie, record_nr(ring, 1)->cookie);
	EXPECT_NE(record_nr(ring, 0)->id, record_nr(ring, 1)->id);
	close(second);
}

/* ------------------------------------------------------------------------ */
/* Limits								    */

TEST_F(abi, record_is_cut_to_the_holders_depth)
{
	struct up_ring *ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	struct perf_event_attr attr;
	struct up_ring *shallow, *one;
	struct up_rec *rec;

	attr_holder(&attr);
	attr.sample_max_stack = 2;
	shallow = open_ring(&attr, 0, -1);
	attr.sample_max_stack = 1;
	one = open_ring(&attr, 0, -1);
	ASSERT_TRUE(sample_getppid(1));
	EXPECT_TRUE(has_chain(sample_nr(ring, 0), ring));
	rec = answer_to(sample_nr(ring, 0), shallow);
	ASSERT_NE(NULL, rec);
	EXPECT_TRUE(up_frames_equal(rec->ips, rec->nr, chain_frames, 2));
	EXPECT_EQ(UP_DEFERRED_SIZE(2), rec->size);
	EXPECT_TRUE(is_answered(sample_nr(ring, 0), one, chain_frames, 1));
}

TEST_F(abi, depth_of_the_sampling_event_limits_its_kernel_part_only)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *holder;

	attr_enter(&attr, DEFER);
	attr.exclude_callchain_kernel = 0;
	attr.sample_max_stack = 1;
	ring = open_syscall(&attr, SYS_getppid);
	holder = open_holder(0, -1);
	ASSERT_TRUE(sample_getppid(1));
	ASSERT_EQ(1, count_samples(ring));
	EXPECT_EQ(1, sample_nr(ring, 0)->nr_kernel);
	EXPECT_EQ(4, sample_nr(ring, 0)->nr);
	EXPECT_TRUE(has_chain(sample_nr(ring, 0), holder));
}

TEST_F(abi, record_is_cut_to_the_sysctl_depth)
{
	struct up_ring *ring;

	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_STACK, 3));
	ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	ASSERT_TRUE(sample_getppid(1));
	EXPECT_TRUE(is_answered(sample_nr(ring, 0), ring, chain_frames, 3));
}

TEST_F(abi, holder_cannot_exceed_the_sysctl_depth)
{
	struct perf_event_attr attr;
	struct up_ring *ring, *holder;

	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_STACK, 2));
	ring = open_enter(SYS_getppid, DEFER);
	attr_holder(&attr);
	attr.sample_max_stack = 100;
	holder = open_ring(&attr, 0, -1);
	ASSERT_TRUE(sample_getppid(1));
	EXPECT_TRUE(is_answered(sample_nr(ring, 0), holder, chain_frames, 2));
}

/*
 * With @contexts allowed: a marker takes one, the cookie another. Returns
 * whether the sample is deferred; never is half of it stored.
 */
static bool try_contexts(struct __test_metadata *_metadata, int contexts, bool kernel)
{
	struct perf_event_attr attr;
	struct up_ring *ring;
	struct up_rec *sample;
	bool deferred;
	uint64_t i;

	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_CONTEXTS, contexts));
	attr_enter(&attr, DEFER | OUTPUT);
	attr.exclude_callchain_kernel = !kernel;
	ring = open_syscall(&attr, SYS_getppid);
	ASSERT_TRUE(sample_getppid(1));
	ASSERT_EQ(1, count_samples(ring));
	sample = sample_nr(ring, 0);
	EXPECT_FALSE(sample->bad);
	deferred = sample->deferred;
	if (deferred)
		EXPECT_NE(NULL, answer_to(sample, ring));
	for (i = 0; i < sample->nr && !deferred; i++) {
		EXPECT_NE(UT_CONTEXT_USER_DEFERRED, sample->ips[i]);
		EXPECT_EQ(0, up_count_cookie(ring, sample->ips[i]));
	}
	up_close(ring);
	nr_rings--;
	return deferred;
}

TEST_F(abi, marker_is_not_stored_without_room_for_the_cookie)
{
	EXPECT_FALSE(try_contexts(_metadata, 0, false));
	EXPECT_FALSE(try_contexts(_metadata, 1, false));
	EXPECT_TRUE(try_contexts(_metadata, 2, false));
	EXPECT_FALSE(try_contexts(_metadata, 0, true));
	EXPECT_FALSE(try_contexts(_metadata, 1, true));
	EXPECT_FALSE(try_contexts(_metadata, 2, true));
	EXPECT_TRUE(try_contexts(_metadata, 3, true));
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
	struct up_ring *ring;
	struct up_rec *sample;

	ASSERT_NE(MAP_FAILED, (void *)stack);
	stack[4100] = A(stack + 4110);
	stack[4101] = UT_CONTEXT_USER_DEFERRED;
	stack[4110] = 0;
	stack[4111] = 0x123456;
	/* Room for PERF_CONTEXT_USER and not for marker and cookie */
	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_CONTEXTS, 1));
	ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	ASSERT_TRUE(enable_all());
	probe_at(&p);
	EXPECT_TRUE(drain_all());
	ASSERT_EQ(1, count_samples(ring));
	sample = sample_nr(ring, 0);
	EXPECT_FALSE(sample->deferred);
	ASSERT_TRUE(sample->has_user);
	EXPECT_EQ(A(stub_plain_ip), sample->user[0]);
}

TEST_HARNESS_MAIN
