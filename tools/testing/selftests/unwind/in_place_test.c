// SPDX-License-Identifier: GPL-2.0
/*
 * Stacks that are walked in place by tables: from each context, in a process that is not known
 * yet, with missing memory, and in a task that is about to sleep. The other tests check the
 * frames, and are built for this, too: see in_place.c.
 */
#include <pthread.h>
#include <signal.h>

#include "table_lib.h"
#include "unwind_harness.h"
#include "unwind_module.h"

#define SYSCTL		"/proc/sys/kernel/unwind_in_place"

FIXTURE(in_place)
{
	struct code_file file;
	struct table *table;
	struct up_ring ring;
	int fd;
	int nr;
};

FIXTURE_SETUP(in_place)
{
	self->fd = -1;
	self->ring.fd = -1;
	if (must_skip(_metadata, need_tables() ?: need_file(SYSCTL)))
		return;
	ASSERT_TRUE(tables_start("in_place", &self->file, &self->table, &self->fd));
	self->nr = plain_use(self->fd, 0, &self->file);
	ASSERT_LT(0, self->nr);
}

FIXTURE_TEARDOWN(in_place)
{
	if (self->fd < 0)
		return;
	if (self->ring.fd >= 0)
		up_close(&self->ring);
	tables_end(&self->file, self->table, self->fd);
}

/* An event of this task that the kernel makes in its system call */
static bool open_event(struct _test_data_in_place *self, const char *system,
		       const char *name, uint64_t bits)
{
	struct perf_event_attr attr;

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT, tracepoint_id(system, name), bits);
	attr.exclude_callchain_kernel = 1;
	return !up_open_pages(&self->ring, &attr, 0, -1, -1, 4);
}

static bool open_getppid(struct _test_data_in_place *self)
{
	struct perf_event_attr attr;

	syscall_attr_init(&attr, "sys_enter", 0);
	return syscall_open(&self->ring, &attr, 0, "id == 110");
}

static bool open_kprobe(struct up_ring *ring, const char *symbol, bool ret)
{
	struct perf_event_attr attr;

	up_attr_init(&attr, pmu_type("kprobe"), ret, 0);
	attr.exclude_callchain_kernel = 1;
	attr.kprobe_func = (unsigned long)symbol;
	return !up_open_pages(ring, &attr, 0, -1, -1, 4);
}

/* From here on the ring has samples of what the task does. */
static void start_sampling(struct _test_data_in_place *self)
{
	up_forget(&self->ring);
	up_enable(&self->ring);
}

/* Returns the first one, or NULL if that has no user part. */
static struct up_rec *stop_sampling(struct _test_data_in_place *self)
{
	struct up_rec *sample;

	up_disable(&self->ring);
	up_drain(&self->ring);
	sample = up_nth(&self->ring, PERF_RECORD_SAMPLE, 0);
	return sample && sample->has_user ? sample : NULL;
}

/* Run a plain stack of @nr in the file. */
static struct up_rec *plain_sample(struct _test_data_in_place *self, long nr, struct stack *s)
{
	if (!s->words && !plain_stack(s, self->file.mem))
		return NULL;
	s->regs[RAX] = nr;
	start_sampling(self);
	table_enter(s);
	return stop_sampling(self);
}

/* A plain stack in a mapping of the file where nobody has walked, without page faults */
static const u8 *new_stack(struct _test_data_in_place *self, struct stack *s)
{
	const u8 *mem = mmap(NULL, FILE_PAGES * PAGE, PROT_READ | PROT_EXEC,
			     MAP_PRIVATE | MAP_POPULATE, self->file.fd, 0);

	return mem != MAP_FAILED && plain_stack(s, mem) ? mem : NULL;
}

/* Does the user part of a sample have the frames that the table tells? */
static bool has_plain(struct _test_data_in_place *self, const struct up_rec *sample)
{
	const u64 at = (unsigned long)self->file.mem;
	const u64 ips[] = { at + AT_MIDDLE, at + PLAIN_CALLER, at + PLAIN_OUTER };

	return sample && !sample->deferred &&
	       up_frames_equal(sample->user, sample->nr_user, ips, 3);
}

static bool has_fp(struct _test_data_in_place *self, const struct up_rec *sample)
{
	const u64 at = (unsigned long)self->file.mem;
	const u64 ips[] = { at + AT_MIDDLE, at + PLAIN_FP };

	return sample && sample->nr_user >= 2 && up_frames_equal(sample->user, 2, ips, 2);
}

TEST_F(in_place, first_walk_of_a_process_has_the_tables)
{
	struct stack s = { };
	int i;

	ASSERT_TRUE(open_getppid(self));
	for (i = 0; i < 3; i++)
		EXPECT_TRUE(has_plain(self, plain_sample(self, SYS_getppid, &s)));
}

/* A child has another mm, which is not known yet. */
TEST_F(in_place, first_walk_of_a_child_has_the_tables)
{
	struct stack s = { };

	ASSERT_TRUE(open_getppid(self));
	EXPECT_TRUE(has_plain(self, plain_sample(self, SYS_getppid, &s)));
	up_close(&self->ring);
	EXPECT_EQ(0, IN_CHILD(!open_getppid(self) ||
			      !has_plain(self, plain_sample(self, SYS_getppid, &s))));
	self->ring.fd = -1;
}

TEST_F(in_place, sysctl_says_whether_tables_are_used)
{
	struct stack s = { };

	ASSERT_TRUE(open_getppid(self));
	EXPECT_TRUE(has_plain(self, plain_sample(self, SYS_getppid, &s)));
	ASSERT_EQ(0, up_write_number(SYSCTL, 0));
	EXPECT_TRUE(has_fp(self, plain_sample(self, SYS_getppid, &s)));
	ASSERT_EQ(0, up_write_number(SYSCTL, 1));
	EXPECT_TRUE(has_plain(self, plain_sample(self, SYS_getppid, &s)));
}

TEST_F(in_place, tables_are_not_used_any_more_when_the_device_is_closed)
{
	struct stack s = { };

	ASSERT_TRUE(open_getppid(self));
	EXPECT_TRUE(has_plain(self, plain_sample(self, SYS_getppid, &s)));
	close(self->fd);
	EXPECT_TRUE(has_fp(self, plain_sample(self, SYS_getppid, &s)));
	self->fd = dev_open();
	EXPECT_LE(0, self->fd);
}

/* The table is for the old contents of the file, and no faultable walk has noticed. */
TEST_F(in_place, changed_file_has_no_table)
{
	const struct timespec old[2] = { { 1000000000, 1 }, { 1000000000, 1 } };
	struct stack s = { };
	struct up_rec *sample;

	ASSERT_TRUE(open_getppid(self));
	ASSERT_EQ(0, utimensat(AT_FDCWD, self->file.path, old, 0));
	sample = plain_sample(self, SYS_getppid, &s);
	ASSERT_NE(NULL, sample);
	EXPECT_FALSE(has_plain(self, sample));
}

/* A stack whose upper page is not there ends, and the page is not fetched. */
TEST_F(in_place, page_that_is_absent_is_not_fetched)
{
	const u64 at = (unsigned long)self->file.mem;
	const u64 ips[] = { at + AT_MIDDLE, at + PLAIN_CALLER };
	unsigned char in_core = 1;
	struct stack s = { };
	struct up_rec *sample;
	int fd;

	ASSERT_TRUE(open_getppid(self));
	/* The code is known, so the task does not walk for itself, which takes page faults. */
	ASSERT_TRUE(walks_plain(self->file.mem, 0));
	ASSERT_TRUE(plain_stack(&s, self->file.mem));
	/* The caller's frame ends 512 bytes up, in the next page. */
	fd = syscall(SYS_memfd_create, "stack", 0);
	ASSERT_EQ(0, ftruncate(fd, 2 * PAGE));
	ASSERT_EQ(PAGE / 2, pwrite(fd, s.words, PAGE / 2, PAGE - 8 - 256));
	s.words = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, s.words);
	s.regs[RSP] = (unsigned long)s.words + PAGE - 8 - 256;
	s.regs[RBP] = 0;
	ASSERT_NE(0, s.words[(PAGE - 8 - 256) / 8]);
	ASSERT_EQ(0, madvise((u8 *)s.words + PAGE, PAGE, MADV_REMOVE));
	sample = plain_sample(self, SYS_getppid, &s);
	ASSERT_NE(NULL, sample);
	EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user, ips, 2));
	ASSERT_EQ(0, mincore((u8 *)s.words + PAGE, PAGE, &in_core));
	EXPECT_EQ(0, in_core & 1);
}

static int stop_churning;

/* Map the file elsewhere, and unmap it. */
static void *churns(void *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	while (!get_flag(&stop_churning)) {
		void *mem = mmap(NULL, FILE_PAGES * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE,
				 fd, 0);

		munmap(mem, FILE_PAGES * PAGE);
	}
	close(fd);
	return NULL;
}

/* Two files take turns at one address: the frames are those of the present one. */
TEST_F(in_place, files_that_take_turns_while_another_thread_maps)
{
	struct code_file other, *files[] = { &self->file, &other };
	unsigned long addr = (unsigned long)self->file.mem;
	unsigned int i, exact = 0, j;
	struct up_rec *sample;
	struct stack s = { };
	pthread_t thread;

	ASSERT_LT(0, plain_other(self->fd, 5, &other));
	ASSERT_TRUE(open_getppid(self));
	ASSERT_EQ(0, pthread_create(&thread, NULL, churns, self->file.path));
	for (i = 0; i < 1000; i++) {
		const u64 ips[] = { addr + AT_MIDDLE, addr + PLAIN_CALLER + 16 * 5 * (i % 2),
				    addr + PLAIN_OUTER };

		ASSERT_TRUE(file_map_over(files[i % 2], self->file.mem));
		for (j = 0; j < 2; j++) {
			sample = plain_sample(self, SYS_getppid, &s);
			ASSERT_NE(NULL, sample);
			exact += sample->nr_user == 3;
			ASSERT_GE(3, sample->nr_user);
			ASSERT_TRUE(up_frames_equal(sample->user, sample->nr_user, ips,
						    sample->nr_user));
		}
	}
	set_flag(&stop_churning, 1);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	fprintf(stderr, "# %u of 2000 walks are complete\n", exact);
	EXPECT_LT(1000, exact);
	file_end(&other);
}

/* ------------------------------------------------------------------------ */
/* Contexts								      */

/*
 * The event shows the handler of the NMI, not the code that the NMI has hit: that may have been
 * the entry code, in which the user registers are those of an earlier entry.
 */
TEST_F(in_place, event_in_the_handler_of_an_nmi_has_no_user_part)
{
	struct session session;
	struct stack s = { };

	if (must_skip(_metadata, need_module() ?: need_tracepoint("nmi", "nmi_handler")))
		return;
	ASSERT_EQ(0, session_start(&session, 0));
	ASSERT_TRUE(open_event(self, "nmi", "nmi_handler", 0));
	/* An NMI without requests, at a system call of the stack */
	ASSERT_EQ(0, mod_cmd(session.fd, "probe 0 kprobe:__x64_sys_getppid %d 0 nmi 0 1",
			     my_tid()));
	EXPECT_EQ(NULL, plain_sample(self, SYS_getppid, &s));
	EXPECT_LE(1, up_count(&self->ring, PERF_RECORD_SAMPLE));
	session_end(&session);
}

TEST_F(in_place, interrupt_has_exact_frames)
{
	struct session session;
	struct stack s = { };

	if (must_skip(_metadata, need_module() ?:
				 need_tracepoint("irq_vectors", "irq_work_entry")))
		return;
	ASSERT_EQ(0, session_start(&session, 0));
	ASSERT_TRUE(open_event(self, "irq_vectors", "irq_work_entry", 0));
	ASSERT_EQ(0, mod_cmd(session.fd, "probe 0 kprobe:__x64_sys_getppid %d 0 irq 0 1",
			     my_tid()));
	EXPECT_TRUE(has_plain(self, plain_sample(self, SYS_getppid, &s)));
	session_end(&session);
}

/* The task itself holds the mmap lock for writing: the walk waits for nothing. */
TEST_F(in_place, kprobe_that_holds_the_mmap_lock_has_exact_frames)
{
	struct stack s = { };
	int i;

	ASSERT_TRUE(open_kprobe(&self->ring, "do_mmap", false));
	ASSERT_TRUE(plain_stack(&s, self->file.mem));
	/* Known from an earlier walk, of a mapping that does not change */
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
	/* mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) */
	s.regs[RSI] = PAGE;
	s.regs[RDX] = PROT_NONE;
	s.regs[R10] = MAP_PRIVATE | MAP_ANONYMOUS;
	s.regs[R8] = -1;
	for (i = 0; i < 3; i++)
		EXPECT_TRUE(has_plain(self, plain_sample(self, SYS_mmap, &s)));
}

/*
 * After the last read of the thread flags an event finds code that is not known, so a look
 * is queued, for the next entry. A request from an NMI right then is still answered in this
 * one. Each time, the file is mapped where nobody has walked.
 */
TEST_F(in_place, nmi_is_answered_on_the_way_out_beside_a_queued_look)
{
	unsigned int n, i, exact = 0;
	struct session session;
	struct stack on = { };
	char command[64];

	if (must_skip(_metadata, need_module() ?:
				 need_tracepoint("context_tracking", "user_enter")))
		return;
	ASSERT_EQ(0, session_start(&session, 1));
	ASSERT_TRUE(open_event(self, "context_tracking", "user_enter", 0));
	/* The event is switched on below a stack that is known, so that nothing else is missed. */
	ASSERT_TRUE(walks_plain(self->file.mem, 0));
	ASSERT_TRUE(plain_stack(&on, self->file.mem));
	on.regs[RAX] = SYS_ioctl;
	on.regs[RDI] = self->ring.fd;
	on.regs[RSI] = PERF_EVENT_IOC_ENABLE;
	on.regs[RDX] = 0;
	snprintf(command, sizeof(command), "probe 0 tp:user_enter %d 1 nmi 0 1", my_tid());
	for (n = 0; n < 10; n++) {
		struct stack s;
		const u8 *mem = new_stack(self, &s);
		const u64 ips[] = { (u64)mem + AT_MIDDLE, (u64)mem + PLAIN_CALLER,
				    (u64)mem + PLAIN_OUTER };

		ASSERT_NE(NULL, mem);
		s.regs[RAX] = SYS_write;
		s.regs[RDI] = session.fd;
		s.regs[RSI] = (u64)command;
		s.regs[RDX] = strlen(command);
		table_enter(&on);
		table_enter(&s);
		ASSERT_EQ(0, up_disable(&self->ring));
		ASSERT_EQ(0, mod_cmd(session.fd, "unprobe 0"));
		ASSERT_EQ(0, mod_log(session.fd, &session.log));
		EXPECT_EQ(n + 1, log_rets(&session.log, 0, UT_QUEUED));
		for (i = 0; i < session.log.nr; i++) {
			const struct log_entry *c = &session.log.entries[i];

			exact += c->type == 'C' && c->ips[0] == ips[0] &&
				 up_frames_equal(c->ips, c->nr, ips, 3);
		}
		stack_end(&s);
	}
	EXPECT_EQ(10, exact);
	session_end(&session);
}

/* How many allocations there are on the way out of a first walk whose look gets no memory */
static size_t allocations_of_a_look(struct _test_data_in_place *self)
{
	int fail = open(FAIL_NTH, O_RDWR);
	struct perf_event_attr attr;
	struct stack s = { };
	struct up_ring ring;
	size_t nr = 0;

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT, tracepoint_id("kmem", "kmalloc"), 0);
	attr.exclude_callchain_kernel = 1;
	if (fail < 0 || up_open_pages(&ring, &attr, 0, -1, -1, 4) || !open_getppid(self) ||
	    !plain_stack(&s, self->file.mem))
		return 0;
	up_enable(&self->ring);
	if (write(fail, "1", 1) == 1 && !up_enable(&ring)) {
		table_enter(&s);
		up_disable(&ring);
		up_drain(&ring);
		if (write(fail, "0", 1) == 1)
			nr = up_count(&ring, PERF_RECORD_SAMPLE);
	}
	return nr;
}

/*
 * An event in the allocation misses the code, too. If it asked for the next look, and that
 * got no memory either, the task would never come to its end. In a child, of whose memory
 * nothing is known.
 */
TEST_F(in_place, look_that_gets_no_memory_is_not_repeated_on_the_same_way_out)
{
	if (must_skip(_metadata, need_failing_allocations() ?:
				 need_tracepoint("kmem", "kmalloc")))
		return;
	ASSERT_EQ(0, let_allocations_fail(true));
	EXPECT_EQ(1, IN_CHILD(allocations_of_a_look(self)));
	let_allocations_fail(false);
}

/* From here on it is counted how often this task looks. Returns the event, or -1. */
static int count_looks(void)
{
	struct perf_event_attr attr;
	int fd;

	up_attr_init(&attr, pmu_type("kprobe"), 0, 0);
	attr.sample_period = 0;
	attr.kprobe_func = (unsigned long)"unwind_look_task_work";
	fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) ? -1 : fd;
}

/* How often it has looked, or -1 */
static long long looks(int counter)
{
	long long nr;

	if (ioctl(counter, PERF_EVENT_IOC_DISABLE, 0) ||
	    read(counter, &nr, sizeof(nr)) != sizeof(nr))
		nr = -1;
	close(counter);
	return nr;
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Has the task looked at least @min times since @start, and not more often than it may? */
static bool looks_are_right(int counter, double start, unsigned int min)
{
	long long nr = looks(counter);
	double allowed = 16 + 1 + (seconds() - start) * 10;

	fprintf(stderr, "# %lld looks, %.0f are allowed\n", nr, allowed);
	return nr >= min && nr <= allowed;
}

/* Each event finds code that is not known. The first sixteen looks come at once. */
TEST_F(in_place, looks_are_limited)
{
	double start = seconds();
	int counter, i;

	counter = count_looks();
	ASSERT_LE(0, counter);
	ASSERT_TRUE(open_getppid(self));
	for (i = 0; i < 200; i++) {
		struct stack s;

		ASSERT_NE(NULL, new_stack(self, &s));
		plain_sample(self, SYS_getppid, &s);
		stack_end(&s);
	}
	EXPECT_TRUE(looks_are_right(counter, start, 16));
}

/* A task with a real-time policy does not look; with its usual policy it does. */
TEST_F(in_place, real_time_task_takes_no_look)
{
	static const struct {
		int policy, priority, looks;
	} cases[] = { { SCHED_FIFO, 1, 0 }, { SCHED_RR, 1, 0 }, { SCHED_OTHER, 0, 1 } };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sched_param param = { .sched_priority = cases[i].priority };
		struct stack s;
		int counter;

		ASSERT_TRUE(open_getppid(self));
		ASSERT_NE(NULL, new_stack(self, &s));
		ASSERT_EQ(0, sched_setscheduler(0, cases[i].policy, &param));
		up_enable(&self->ring);
		counter = count_looks();
		table_enter(&s);
		EXPECT_EQ(cases[i].looks, looks(counter));
		stack_end(&s);
		up_close(&self->ring);
		self->ring.fd = -1;
	}
}

/* Events that come before the look do not ask for another one. */
TEST_F(in_place, many_events_ask_for_one_look)
{
	struct up_ring rings[20] = { };
	int counter, i;

	for (i = 0; i < (int)ARRAY_SIZE(rings); i++) {
		ASSERT_TRUE(open_getppid(self));
		rings[i] = self->ring;
		up_enable(&rings[i]);
	}
	self->ring.fd = -1;
	counter = count_looks();
	for (i = 0; i < 10; i++) {
		struct stack s;

		ASSERT_NE(NULL, new_stack(self, &s));
		table_enter(&s);
		stack_end(&s);
	}
	EXPECT_EQ(10, looks(counter));
	for (i = 0; i < (int)ARRAY_SIZE(rings); i++)
		up_close(&rings[i]);
}

/* A look comes to all code that an event does, the last frames of a deep stack included. */
TEST_F(in_place, look_learns_as_deep_as_perf_walks)
{
	struct code_file files[2];
	const struct up_rec *sample;
	struct stack s = { };
	int counter, i;

	table_start(self->table);
	table_row(self->table, PAGE, UNKNOWN);
	table_row(self->table, AT_MIDDLE, rule_cfa(RSP, 8));
	table_row(self->table, AT_MIDDLE + 1, UNKNOWN);
	table_row(self->table, 8 * PAGE, rule_cfa(RSP, 8));
	table_row(self->table, 9 * PAGE, OUTERMOST);
	table_end(self->table, 10 * PAGE);
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(file_make(&files[i], test_path(i ? "outer" : "inner"), 0xcc));
		ASSERT_LT(0, file_use(self->fd, self->table, &files[i]));
	}
	ASSERT_TRUE(stack_start(&s, files[0].mem + CALL_MIDDLE));
	for (i = 0; i < 120; i++)
		s.words[i] = (unsigned long)files[i >= 117].mem + PLAIN_CALLER;
	s.words[i] = (unsigned long)files[1].mem + PLAIN_OUTER;

	ASSERT_TRUE(open_getppid(self));
	counter = count_looks();
	for (i = 0; i < 10; i++) {
		sample = plain_sample(self, SYS_getppid, &s);
		ASSERT_NE(NULL, sample);
		EXPECT_EQ(122, sample->nr_user);
		EXPECT_EQ(s.words[120], sample->user[121]);
	}
	EXPECT_EQ(1, looks(counter));
	for (i = 0; i < 2; i++)
		file_end(&files[i]);
}

#define FULL_DIR	"/sys/fs/cgroup/unwind_look"
#define FULL_LIMIT	(8UL << 20)
#define FULL_EVENTS	5000

/* Take all memory that the cgroup allows. */
static int fill_cgroup(void)
{
	static char buf[PAGE] = { 1 };
	int ends[2], i;

	if (write_file("/proc/self/oom_score_adj", "-1000") ||
	    write_file(FULL_DIR "/cgroup.procs", "0"))
		return -1;
	for (i = 0; i < 500 && !pipe2(ends, O_NONBLOCK); i++) {
		fcntl(ends[0], F_SETPIPE_SZ, 16 * PAGE);
		while (write(ends[1], buf, sizeof(buf)) > 0)
			;
		if (errno == ENOMEM)
			return 0;
	}
	return i < 500 && errno == ENOMEM ? 0 : -1;
}

/* An event in each system call, and one after each run of task work, in a full cgroup */
static int events_without_memory(struct _test_data_in_place *self)
{
	struct stack s = { };
	struct up_ring way_out;
	int counter, i;
	double start;

	if (!open_kprobe(&way_out, "task_work_run", true) || !open_getppid(self) ||
	    !plain_stack(&s, self->file.mem))
		return 1;
	counter = count_looks();
	if (counter < 0 || fill_cgroup())
		return 2;
	start = seconds();
	up_enable(&way_out);
	up_enable(&self->ring);
	for (i = 0; i < FULL_EVENTS; i++)
		table_enter(&s);
	up_disable(&self->ring);
	up_disable(&way_out);
	return looks_are_right(counter, start, 1) ? 0 : 3;
}

/*
 * A look that gets no memory leaves the code unknown. It is not repeated on the same way
 * out, though an event there misses the code as well; nor in each system call.
 */
TEST_F(in_place, looks_without_memory_are_limited)
{
	if (must_skip(_metadata, need_file("/sys/fs/cgroup/cgroup.controllers")))
		return;
	write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	mkdir(FULL_DIR, 0755);
	if (must_skip(_metadata, need_file(FULL_DIR "/memory.max")))
		return;
	ASSERT_EQ(0, up_write_number(FULL_DIR "/memory.max", FULL_LIMIT));
	EXPECT_EQ(0, IN_CHILD(events_without_memory(self)));
	rmdir(FULL_DIR);
}

/* ------------------------------------------------------------------------ */
/* SFrame tables of the program						      */

/* Code with a table, which is added */
static bool area_start(struct area *area)
{
	return area_make(area, 3, true, false) && !area_add(area);
}

static void area_end(const struct area *area)
{
	remove_table(area->table);
	munmap(area->mem, AREA_SIZE);
}

/* The sample of a system call below @code */
static struct up_rec *code_sample(struct _test_data_in_place *self, const struct code *code)
{
	start_sampling(self);
	call_code(SYS_getppid, (void *)code->top);
	return stop_sampling(self);
}

static bool begins_with(const struct up_rec *sample, const struct code *code)
{
	return sample && sample->has_user && sample->nr_user >= code->nr_ips &&
	       up_frames_equal(sample->user, code->nr_ips, code->ips, code->nr_ips);
}

/*
 * At the event the memory of the program is left alone, even where all of it is present: the
 * stack is cut until the task has looked, and then does not need that memory any more.
 */
TEST_F(in_place, table_of_the_program_is_not_read_at_the_event)
{
	const struct up_rec *sample;
	struct area area;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_start(&area));
	ASSERT_TRUE(open_getppid(self));
	sample = code_sample(self, &area.code);
	ASSERT_NE(NULL, sample);
	EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user, area.code.ips, 1));
	EXPECT_TRUE(begins_with(code_sample(self, &area.code), &area.code));
	memset((void *)area.table, 0, area.table_end - area.table);
	EXPECT_TRUE(begins_with(code_sample(self, &area.code), &area.code));
	area_end(&area);
}

/* Add a table for functions with rows of 16 bytes. The last one of the first is outermost. */
static int rows_add(struct area *area, unsigned int nr)
{
	static const s32 deref[] = { SFRAME_BUILD_REG(7) | SFRAME_BUILD_DEREF, 0 };
	unsigned int i;
	size_t len;

	sframe_build_init(&build, 3, true, area->table);
	sframe_build_func(&build, area->text, 16 * nr, SFRAME_BUILD_ROW2);
	for (i = 0; i < nr - 1; i++)
		sframe_build_sp(&build, 16 * i, 8 * (1 + i % 5));
	sframe_build_row(&build, 16 * i, SFRAME_BUILD_SP, NULL);
	/* Its rules have no word: the CFA is in memory. */
	sframe_build_func(&build, area->text + 16 * nr, 32, SFRAME_BUILD_ROW1)->info2 = 1;
	sframe_build_row(&build, 0, 2 << 1 | SFRAME_BUILD_WORD4, deref);
	sframe_build_row(&build, 16, 2 << 1 | SFRAME_BUILD_WORD4, deref);
	len = sframe_build_finish(&build);
	memcpy((void *)area->table, build.mem, len);
	return add_table(area->table, area->table + len, area->text, area->text + 16 * nr + 32);
}

/* Is a stack seen that has the caller at words[1]; and the caller of that, if it is @found? */
static bool words_show(struct _test_data_in_place *self, u64 *words, u64 outermost, bool found)
{
	u64 want[] = { words[1], outermost };
	const struct up_rec *sample;

	start_sampling(self);
	framed_syscall(SYS_getppid, 0, 0, 0, words, words);
	sample = stop_sampling(self);
	return sample && sample->nr_user &&
	       up_frames_equal(sample->user + 1, sample->nr_user - 1, want, 1 + found);
}

/* The same for a caller in this row */
static bool row_has(struct _test_data_in_place *self, const struct area *area, unsigned int nr,
		    unsigned int row, bool found)
{
	u64 words[16] = { 0, area->text + 16 * row + 2 };
	u64 outermost = area->text + 16 * (nr - 1) + 2;

	if (row < nr) {
		words[2 + row % 5] = outermost;
	} else {
		words[2] = (u64)&words[8];
		words[7] = outermost;
	}
	return words_show(self, words, outermost, found);
}

/* Where the task is in a function is new in nearly each sample. */
TEST_F(in_place, rules_of_a_function_are_kept_once_it_was_come_to)
{
	unsigned int nr = 64, i;
	struct area area;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&area, 3, true, false));
	ASSERT_EQ(0, rows_add(&area, nr));
	ASSERT_TRUE(open_getppid(self));
	EXPECT_TRUE(row_has(self, &area, nr, 20, false));
	for (i = 0; i < nr - 1; i++)
		EXPECT_TRUE(row_has(self, &area, nr, i, true));
	EXPECT_TRUE(row_has(self, &area, nr, nr, false));
	EXPECT_TRUE(row_has(self, &area, nr, nr, true));
	EXPECT_TRUE(row_has(self, &area, nr, nr + 1, true));

	/* A removed table leaves no rules; of a function with more rows, used ones are kept. */
	remove_table(area.table);
	EXPECT_TRUE(row_has(self, &area, nr, 5, false));
	ASSERT_EQ(0, rows_add(&area, ++nr));
	EXPECT_TRUE(row_has(self, &area, nr, 5, false));
	EXPECT_TRUE(row_has(self, &area, nr, 6, false));
	EXPECT_TRUE(row_has(self, &area, nr, 6, true));
	area_end(&area);
}

/* Without the device no walk at the event uses them. */
TEST_F(in_place, no_rules_are_kept_while_the_device_is_closed)
{
	unsigned int nr = 64;
	uint64_t ips[MAX_IPS];
	u64 words[16] = { };
	struct area area;

	if (must_skip(_metadata, need_sframe()))
		return;
	close(self->fd);
	ASSERT_TRUE(area_make(&area, 3, true, false));
	ASSERT_EQ(0, rows_add(&area, nr));
	words[1] = area.text + 2;
	words[2] = area.text + 16 * (nr - 1) + 2;
	ASSERT_EQ(3, stack_of_words(words, ips));
	EXPECT_EQ(words[2], ips[2]);
	self->fd = dev_open();
	ASSERT_LE(0, self->fd);
	ASSERT_TRUE(open_getppid(self));
	/* That of row 0 alone is in the cache. */
	EXPECT_TRUE(row_has(self, &area, nr, 1, false));
	EXPECT_TRUE(row_has(self, &area, nr, 2, true));
	area_end(&area);
}

/* As many rules as a process can have, by the rows of these functions, and one more function */
#define ROOM_ROWS	64
#define ROOM_FUNCS	(16384 / ROOM_ROWS + 1)
#define ROOM_TABLE	(8 * PAGE)
#define ROOM_SIZE	(32 * PAGE)

static int room_add(u8 *mem)
{
	u64 text = (u64)mem, table = text + ROOM_TABLE;
	unsigned int i, row;
	size_t len;

	sframe_build_init(&build, 3, true, table);
	for (i = 0; i < ROOM_FUNCS; i++) {
		sframe_build_func(&build, text + i * ROOM_ROWS, ROOM_ROWS, SFRAME_BUILD_ROW1);
		for (row = 0; row < ROOM_ROWS; row++)
			sframe_build_sp(&build, row, 8 * (1 + row % 5));
	}
	sframe_build_func(&build, text + i * ROOM_ROWS, ROOM_ROWS, SFRAME_BUILD_ROW1);
	sframe_build_row(&build, 0, SFRAME_BUILD_SP, NULL);
	len = sframe_build_finish(&build);
	memcpy(mem + ROOM_TABLE, build.mem, len);
	return add_table(table, table + len, text, text + (i + 1) * ROOM_ROWS);
}

/* A stack whose caller is in this row of this function. Returns the caller of that. */
static u64 room_words(const u8 *mem, unsigned int func, unsigned int row, u64 *words)
{
	u64 outermost = (u64)mem + ROOM_FUNCS * ROOM_ROWS + 1;

	memset(words, 0, 16 * sizeof(*words));
	words[1] = (u64)mem + func * ROOM_ROWS + row + 1;
	words[2 + row % 5] = outermost;
	return outermost;
}

/* A process can have so many rules kept; for the next ones the kernel forgets these. */
TEST_F(in_place, rules_that_are_kept_make_room)
{
	uint64_t ips[MAX_IPS];
	u64 words[16], outermost;
	unsigned int i;
	u8 *mem;

	if (must_skip(_metadata, need_sframe()))
		return;
	mem = map_anon(0, ROOM_SIZE, PROT_CODE, 0);
	ASSERT_NE(MAP_FAILED, (void *)mem);
	ASSERT_EQ(0, room_add(mem));
	ASSERT_TRUE(open_getppid(self));
	for (i = 0; i < ROOM_FUNCS - 1; i++) {
		room_words(mem, i, 10, words);
		ASSERT_EQ(3, stack_of_words(words, ips));
	}
	for (i = 0; i < ROOM_FUNCS - 1; i += 51) {
		outermost = room_words(mem, i, 20 + i % 40, words);
		EXPECT_TRUE(words_show(self, words, outermost, true));
	}
	room_words(mem, i = ROOM_FUNCS - 1, 10, words);
	ASSERT_EQ(3, stack_of_words(words, ips));
	outermost = room_words(mem, i, 20, words);
	EXPECT_TRUE(words_show(self, words, outermost, true));
	outermost = room_words(mem, 0, 30, words);
	EXPECT_TRUE(words_show(self, words, outermost, false));
	remove_table((u64)mem + ROOM_TABLE);
	munmap(mem, ROOM_SIZE);
}

/* An alleged restorer is checked, and if it is none, its rule applies. */
TEST_F(in_place, caller_that_is_no_restorer_has_its_rule)
{
	struct area area;
	unsigned int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_start(&area));
	ASSERT_TRUE(open_getppid(self));
	ASSERT_TRUE(is_exact(&area.code));
	for (i = 1; i < area.code.nr_ips; i++) {
		ASSERT_EQ(0, raw_sigaction(SIGUSR1, (void *)SIG_IGN, SA_SIGINFO,
					   (void *)area.code.ips[i]));
		EXPECT_TRUE(begins_with(code_sample(self, &area.code), &area.code));
		EXPECT_TRUE(is_exact(&area.code));
	}
	EXPECT_EQ(0, raw_sigaction(SIGUSR1, (void *)SIG_DFL, 0, NULL));
	area_end(&area);
}

/* Nobody can switch walks by tables on for the whole system by a table of his own. */
TEST_F(in_place, table_of_the_program_does_not_switch_walks_by_tables_on)
{
	const struct up_rec *sample;
	struct area area;
	unsigned int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	close(self->fd);
	ASSERT_TRUE(area_start(&area));
	ASSERT_TRUE(is_exact(&area.code));
	ASSERT_TRUE(open_getppid(self));
	sample = code_sample(self, &area.code);
	ASSERT_NE(NULL, sample);
	ASSERT_LE(1, sample->nr_user);
	EXPECT_EQ(area.code.ips[0], sample->user[0]);
	for (i = 1; i < sample->nr_user; i++)
		EXPECT_TRUE(sample->user[i] < area.code.addr ||
			    sample->user[i] >= area.code.end);
	area_end(&area);
	self->fd = dev_open();
	EXPECT_LE(0, self->fd);
}

/* ------------------------------------------------------------------------ */
/* A task that is about to sleep					      */

#define DEFERRED	(UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT)

/* Samples of this stack, and of others, where the task sleeps a while */
static void sample_sleep(struct _test_data_in_place *self, struct stack *s)
{
	struct timespec ts = { .tv_nsec = 100000000 };

	s->regs[RDI] = (unsigned long)&ts;
	s->regs[RSI] = 0;
	plain_sample(self, SYS_nanosleep, s);
}

/* It has its stack in the sample, which says so, and nothing is pending. */
TEST_F(in_place, task_that_sleeps_has_its_stack_in_the_sample)
{
	struct stack s = { };
	struct up_rec *sample;
	size_t i, seen = 0;

	ASSERT_TRUE(open_event(self, "sched", "sched_switch", DEFERRED));
	/* Once, so that the file is known */
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
	ASSERT_TRUE(plain_stack(&s, self->file.mem));
	sample_sleep(self, &s);
	for (i = 0; (sample = up_nth(&self->ring, PERF_RECORD_SAMPLE, i)); i++) {
		/* It may be preempted, too. */
		if (sample->deferred || !has_plain(self, sample))
			continue;
		EXPECT_TRUE(sample->misc & UT_MISC_OUTERMOST);
		seen++;
	}
	EXPECT_EQ(1, seen);
}

/* Where the walk in place is cut, the later walk of the task is better. */
TEST_F(in_place, task_that_sleeps_without_its_stack_at_hand_is_deferred)
{
	struct table *t = self->table;
	struct stack s = { };
	struct up_rec *sample;
	size_t i, seen = 0;

	/* Nothing is outermost. */
	ASSERT_EQ(0, dev_drop(self->fd, self->nr));
	table_start(t);
	table_row(t, AT_MIDDLE, rule_cfa(RSP, 8));
	table_row(t, AT_MIDDLE + 1, UNKNOWN);
	table_end(t, 10 * PAGE);
	ASSERT_LT(0, file_use(self->fd, t, &self->file));
	ASSERT_TRUE(open_event(self, "sched", "sched_switch", DEFERRED));
	ASSERT_TRUE(plain_stack(&s, self->file.mem));
	sample_sleep(self, &s);
	for (i = 0; (sample = up_nth(&self->ring, PERF_RECORD_SAMPLE, i)); i++) {
		EXPECT_TRUE(sample->deferred);
		seen += up_count_cookie(&self->ring, sample->cookie) == 1;
	}
	EXPECT_LE(1, seen);
	EXPECT_EQ(i, seen);
}

/* The same where the walk in place cannot say that no caller is missing. */
TEST_F(in_place, task_that_sleeps_with_an_unchecked_stack_is_deferred)
{
	u8 *code = map_anon(0, PAGE, PROT_CODE, 0);
	struct up_rec *sample, *answer;
	struct stack s = { };
	size_t i, seen = 0;

	/* The frame pointer leads from code without a table to the outermost frame. */
	ASSERT_NE(MAP_FAILED, (void *)code);
	memset(code, 0xcc, PAGE);
	ASSERT_TRUE(plain_stack(&s, self->file.mem));
	s.words[0] = (unsigned long)code + 0x10;
	s.words[257] = (unsigned long)self->file.mem + PLAIN_OUTER;
	ASSERT_TRUE(open_getppid(self));
	sample = plain_sample(self, SYS_getppid, &s);
	ASSERT_NE(NULL, sample);
	EXPECT_EQ(3, sample->nr_user);
	EXPECT_EQ(s.words[257], sample->user[sample->nr_user - 1]);
	up_close(&self->ring);

	ASSERT_TRUE(open_event(self, "sched", "sched_switch", DEFERRED));
	sample_sleep(self, &s);
	for (i = 0; (sample = up_nth(&self->ring, PERF_RECORD_SAMPLE, i)); i++) {
		EXPECT_TRUE(sample->deferred);
		answer = up_answer(&self->ring, sample);
		ASSERT_NE(NULL, answer);
		/* It may be preempted elsewhere, too. */
		seen += answer->nr == 3 && UT_MISC_END(answer->misc) == UT_END_UNCHECKED;
	}
	EXPECT_LE(1, seen);
	munmap(code, PAGE);
}

TEST_HARNESS_MAIN
