// SPDX-License-Identifier: GPL-2.0
/*
 * The perf ABI: samples that cannot be deferred, and those that come after the
 * walk, which have its frames.
 */
#include <signal.h>
#include <sys/io.h>

#include "walker_stubs.h"
#include "perf_fixture.h"

#define SYSCTL_OPTIMIZE		"/proc/sys/debug/kprobes-optimization"

/* ------------------------------------------------------------------------ */
/* Samples that cannot be deferred					    */

/*
 * Too late on the way out to queue anything: the stack is walked there.
 * Interrupts return to user space too, also to where the system call does: only
 * the next sample after the end of a system call is certainly its own.
 */
TEST_F(abi, refused_sample_has_its_frames_taken_in_place)
{
	struct perf_event_attr attr;
	struct up_rec *sample;
	struct up_ring *ring;
	size_t i, chains = 0;
	bool after = false;
	int end;

	if (must_skip(_metadata, need_tracepoint("context_tracking", "user_enter")))
		return;
	attr_tracepoint(&attr, "context_tracking", "user_enter", DEFER | OUTPUT);
	ring = open_ring(&attr, 0, -1);
	/* In the same buffer: where the system call ends */
	attr_exit(&attr, 0);
	end = open_into(ring, &attr, -1, SYS_getppid);
	ASSERT_LE(0, end);
	ASSERT_EQ(0, ioctl(end, PERF_EVENT_IOC_ENABLE, 0));
	ASSERT_TRUE(sample_getppid(1));
	EXPECT_EQ(0, count_records(ring));
	for (i = 0; (sample = sample_nr(ring, i)); i++) {
		EXPECT_FALSE(sample->deferred);
		ASSERT_TRUE(sample->has_user);
		if (after)
			chains += chain_syscall_ok(sample->user, sample->nr_user);
		after = sample->id != ring->id;
	}
	EXPECT_EQ(1, chains);
	close(end);
}

static void ignore_signal(int sig)
{
}

/*
 * The kernel writes a signal frame to a page of the alternate stack that was never
 * used. The registers are neither those of the interrupted code nor those of the
 * handler: no walk in place, no cookie.
 */
TEST_F(abi, fault_while_a_signal_frame_is_set_up_has_an_empty_user_part)
{
	struct sigaction action = { .sa_handler = ignore_signal, .sa_flags = SA_ONSTACK };
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
	ring = open_ring(&attr, 0, -1);
	ASSERT_TRUE(enable_all());
	ASSERT_EQ(0, chain_syscall(SYS_kill, getpid(), SIGUSR1, 0, 0, 0, 0));
	EXPECT_TRUE(drain_all());
	for (i = 0; (sample = sample_nr(ring, i)); i++) {
		/* A page that the handler itself touches is a fault of user mode. */
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
	ring = open_ring(&attr, -1, nth_cpu(0));
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
static size_t check_workers(struct __test_metadata *_metadata)
{
	struct up_rec *sample;
	size_t i, seen = 0;
	int c;

	for (c = 0; c < nr_rings; c++) {
		for (i = 0; (sample = sample_nr(&rings[c], i)); i++) {
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
		open_ring(&attr, -1, nth_cpu(c));
	ASSERT_TRUE(enable_all());
	fd = async_read(pipefd[0], buf, sizeof(buf));
	ASSERT_LE(0, fd);
	/* The worker sleeps in its read, or goes idle after it */
	ASSERT_EQ(1, write(pipefd[1], "x", 1));
	for (tries = 0; tries < 200 && !seen; tries++) {
		usleep(10000);
		for (c = 0; c < nr_rings; c++)
			up_drain(&rings[c]);
		seen = check_workers(_metadata);
	}
	EXPECT_TRUE(drain_all());
	EXPECT_LT(0, seen);
	close(fd);
}

/*
 * An event that has reached its limit is off before the task gets to unwind. The
 * last but one may be taken for the last.
 */
TEST_F(abi, last_sample_before_the_limit_is_unwound_in_place)
{
	struct up_ring *ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	struct up_rec *rec;
	int i, j;

	for (i = 1; i <= 4; i++) {
		up_reset(ring);
		ASSERT_EQ(0, ioctl(ring->fd, PERF_EVENT_IOC_REFRESH, i));
		for (j = 0; j < 6; j++)
			chain0(SYS_getppid);
		up_drain(ring);
		EXPECT_EQ(0, up_count_bad(ring));
		ASSERT_EQ(i, count_samples(ring));
		for (j = 0; j < i - 2; j++)
			EXPECT_NE(NULL, answer_to(sample_nr(ring, j), ring));
		for (; j < i; j++) {
			rec = sample_nr(ring, j);
			if (rec->deferred && j < i - 1) {
				EXPECT_NE(NULL, answer_to(rec, ring));
				continue;
			}
			EXPECT_TRUE(has_chain_in_place(rec));
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
	int type = pmu_type("kprobe");
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
	/* After the nop of ftrace, with endbr64 in front of it or not */
	attr.probe_offset = 9;
	ring = &rings[nr_rings];
	if (up_open(ring, &attr, 0, -1, -1)) {
		attr.probe_offset = 5;
		if (up_open(ring, &attr, 0, -1, -1))
			SKIP(return, "cannot probe %s", func);
	}
	nr_rings++;
	if (ioperm(0x80, 1, 1))
		SKIP(return, "no ioperm()");
	/* Not a jump: this test needs an int3 */
	up_write_number(SYSCTL_OPTIMIZE, 0);
	ASSERT_EQ(0, up_enable(ring));
	for (i = 0; i < 20; i++)
		chain0(SYS_getppid);
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

/* ------------------------------------------------------------------------ */
/* Task work in the middle of a system call				    */

/* io_uring_enter() runs task work when it looks for completions. */
static void sample_uring_enter(struct __test_metadata *_metadata)
{
	struct io_uring_params params = {};
	int fd = syscall(SYS_io_uring_setup, 4, &params);

	ASSERT_LE(0, fd);
	ASSERT_TRUE(enable_all());
	EXPECT_EQ(0, chain_syscall(SYS_io_uring_enter, fd, 0, 0,
				   IORING_ENTER_GETEVENTS, 0, 0));
	EXPECT_TRUE(drain_all());
	close(fd);
}

/* Later samples in the same system call have the trace in themselves. */
TEST_F(abi, sample_after_the_unwind_holds_the_frames_of_the_record)
{
	struct up_ring *enter, *exit, *in_place;
	struct up_rec *rec;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	enter = open_enter(SYS_io_uring_enter, DEFER | OUTPUT);
	exit = open_exit(SYS_io_uring_enter, DEFER);
	in_place = open_exit(SYS_io_uring_enter, 0);
	sample_uring_enter(_metadata);
	ASSERT_EQ(1, count_samples(enter));
	ASSERT_EQ(1, count_records(enter));
	ASSERT_TRUE(has_chain(sample_nr(enter, 0), enter));
	rec = record_nr(enter, 0);
	ASSERT_EQ(1, count_samples(exit));
	EXPECT_LE(rec->time, sample_nr(exit, 0)->time);
	EXPECT_TRUE(has_chain_in_place(sample_nr(exit, 0)));
	EXPECT_TRUE(has_chain_in_place(sample_nr(in_place, 0)));
}

TEST_F(abi, frames_from_the_cache_respect_the_events_depth)
{
	struct up_ring *enter, *exit;
	struct perf_event_attr attr;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	enter = open_enter(SYS_io_uring_enter, DEFER | OUTPUT);
	attr_exit(&attr, DEFER);
	attr.sample_max_stack = 2;
	exit = open_syscall(&attr, SYS_io_uring_enter);
	sample_uring_enter(_metadata);
	EXPECT_NE(NULL, answer_to(sample_nr(enter, 0), enter));
	ASSERT_EQ(1, count_samples(exit));
	EXPECT_TRUE(has_frames(sample_nr(exit, 0), chain_frames, 2));
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
	struct probe p = {
		.stub = A(stub_push), .sp = A(&stack[8000]), .fp = A(&stack[8008]),
		.nr = SYS_tgkill, .args = { getpid(), my_tid(), SIGUSR1 },
	};

	if (must_skip(_metadata, need_tracepoint("signal", "signal_deliver")))
		return;
	ASSERT_TRUE(map_code(frames[1], 1));
	ASSERT_TRUE(map_code(frames[2], 1));
	stack[8000] = frames[1];
	stack[8009] = frames[2];
	ASSERT_EQ(0, sigaction(SIGUSR1, &sa, NULL));
	enter = open_enter(SYS_tgkill, DEFER | OUTPUT);
	attr_tracepoint(&attr, "signal", "signal_deliver", DEFER);
	deliver = open_ring(&attr, 0, -1);
	ASSERT_TRUE(enable_all());
	probe_at(&p);
	EXPECT_TRUE(drain_all());
	EXPECT_TRUE(is_answered(sample_nr(enter, 0), enter, frames, ARRAY_SIZE(frames)));
	ASSERT_EQ(1, count_samples(deliver));
	EXPECT_TRUE(has_frames(sample_nr(deliver, 0), frames, ARRAY_SIZE(frames)));
}

TEST_HARNESS_MAIN
