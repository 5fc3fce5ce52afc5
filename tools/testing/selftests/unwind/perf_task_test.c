// SPDX-License-Identifier: GPL-2.0
/*
 * The perf ABI: children, threads, CPUs, and the ends of user contexts.
 */
#include <pthread.h>
#include <signal.h>

#include "perf_fixture.h"

/* ------------------------------------------------------------------------ */
/* Inheritance, threads, CPUs						    */

/* Switch on an inherited event on each CPU. */
static bool trace_children(long nr)
{
	struct perf_event_attr attr;

	attr_enter(&attr, DEFER | OUTPUT);
	open_inherited(&attr);
	return !set_filter_all("id == %ld", nr) && enable_all();
}

TEST_F(abi, inherited_event_defers_in_child_processes)
{
	int status, i, n;
	pid_t pid[4];
	size_t wrong = 0;

	ASSERT_TRUE(trace_children(SYS_getppid));
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
	EXPECT_TRUE(drain_all());
	for (i = 0; i < 4; i++)
		wrong += count_answered(pid[i]) != 10;
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(1, count_answered(getpid()));
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
	pthread_t thread[4];
	pid_t tid[4];
	int i;
	size_t wrong = 0;

	ASSERT_TRUE(trace_children(SYS_getppid));
	for (i = 0; i < 4; i++)
		wrong += pthread_create(&thread[i], NULL, getppid_thread, &tid[i]) != 0;
	ASSERT_EQ(0, wrong);
	for (i = 0; i < 4; i++)
		wrong += pthread_join(thread[i], NULL) != 0;
	ASSERT_EQ(0, wrong);
	EXPECT_TRUE(drain_all());
	for (i = 0; i < 4; i++)
		wrong += count_answered(tid[i]) != 10;
	EXPECT_EQ(0, wrong);
}

static long migrate_from_chain(int index)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(nth_cpu(index), &set);
	return chain_syscall(SYS_sched_setaffinity, 0, sizeof(set), (long)&set, 0, 0, 0);
}

TEST_F(abi, sample_and_record_are_on_the_cpus_where_they_happened)
{
	struct perf_event_attr attr;
	struct up_rec *sample, *rec;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	attr_enter(&attr, DEFER | OUTPUT);
	open_ring(&attr, -1, nth_cpu(0));
	open_ring(&attr, -1, nth_cpu(1));
	ASSERT_EQ(0, set_filter_all("id == %d && common_pid == %d", SYS_sched_setaffinity,
				    my_tid()));
	ASSERT_TRUE(enable_all());
	/* The sample is taken on the first CPU, the system call ends on the second */
	ASSERT_EQ(0, migrate_from_chain(1));
	EXPECT_TRUE(drain_all());
	ASSERT_EQ(1, count_samples(&rings[0]));
	EXPECT_EQ(0, count_records(&rings[0]));
	EXPECT_EQ(0, count_samples(&rings[1]));
	ASSERT_EQ(1, count_records(&rings[1]));
	sample = sample_nr(&rings[0], 0);
	rec = answer_to(sample, &rings[1]);
	ASSERT_NE(NULL, rec);
	EXPECT_EQ(nth_cpu(0), sample->cpu);
	EXPECT_EQ(nth_cpu(1), rec->cpu);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
}

TEST_F(abi, task_event_finds_its_record_after_a_migration)
{
	struct up_ring *ring;
	int i;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	ring = open_enter(SYS_sched_setaffinity, DEFER | OUTPUT);
	ASSERT_TRUE(enable_all());
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, migrate_from_chain(i & 1));
	EXPECT_TRUE(drain_all());
	ASSERT_EQ(100, count_samples(ring));
	ASSERT_EQ(100, count_records(ring));
	for (i = 0; i < 100; i++)
		EXPECT_TRUE(has_chain(sample_nr(ring, i), ring));
}

static void *getppid_without_memory(void *rec)
{
	struct up_ring *ring;
	struct up_rec *sample;

	ring = open_enter(SYS_getppid, DEFER | OUTPUT);
	/* This thread has no memory for traces yet. */
	if (!enable_all() || write_file(FAIL_NTH, "1"))
		return NULL;
	getppid_from_chain();
	if (write_file(FAIL_NTH, "0") || !drain_all())
		return NULL;
	sample = sample_nr(ring, 0);
	*(struct up_rec **)rec = sample ? answer_to(sample, ring) : NULL;
	return rec;
}

TEST_F(abi, record_says_that_there_was_no_memory)
{
	struct up_rec *rec = NULL;
	pthread_t thread;
	void *ok;

	if (must_skip(_metadata, need_failing_allocations()))
		return;
	ASSERT_EQ(0, let_allocations_fail(true));
	ASSERT_EQ(0, pthread_create(&thread, NULL, getppid_without_memory, &rec));
	ASSERT_EQ(0, pthread_join(thread, &ok));
	let_allocations_fail(false);
	ASSERT_NE(NULL, ok);
	ASSERT_NE(NULL, rec);
	EXPECT_EQ(0, rec->nr);
	EXPECT_EQ(UT_END_REFUSED, UT_MISC_END(rec->misc));
	EXPECT_FALSE(rec->misc & UT_MISC_OUTERMOST);
}

/* ------------------------------------------------------------------------ */
/* The life of a task							    */

/*
 * Two events of a child that makes a system call, and ends with status 0. It waits for
 * them to be there.
 */
static void trace_child(struct __test_metadata *_metadata, long nr, const char *path)
{
	static const char * const argv[] = { "true", NULL };
	struct perf_event_attr attr;
	int go[2], status;
	pid_t pid;
	char c;

	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(go[1]);
		if (read(go[0], &c, 1) == 1)
			chain_syscall(nr, (long)path, path ? (long)argv : 0, 0, 0, 0, 0);
		_exit(1);
	}
	close(go[0]);
	attr_enter(&attr, DEFER | OUTPUT);
	open_ring(&attr, pid, -1);
	attr_exit(&attr, DEFER | OUTPUT);
	open_ring(&attr, pid, -1);
	ASSERT_EQ(0, set_filter_all("id == %ld", nr));
	ASSERT_TRUE(enable_all());
	ASSERT_EQ(1, write(go[1], "x", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(drain_all());
	ASSERT_EQ(1, count_samples(&rings[0]));
	EXPECT_TRUE(has_chain(sample_nr(&rings[0], 0), &rings[0]));
}

TEST_F(abi, exec_is_answered_with_the_old_image_then_the_new_one)
{
	struct up_rec *rec, *exit;

	if (must_skip(_metadata, need_file("/bin/true")))
		return;
	trace_child(_metadata, SYS_execve, "/bin/true");
	ASSERT_EQ(1, count_samples(&rings[1]));
	exit = sample_nr(&rings[1], 0);
	EXPECT_NE(sample_nr(&rings[0], 0)->cookie, exit->cookie);
	rec = answer_to(exit, &rings[1]);
	ASSERT_NE(NULL, rec);
	/* A program that has not run yet has one frame */
	ASSERT_EQ(1, rec->nr);
	EXPECT_NE(A(chain_ip_syscall), rec->ips[0]);
}

TEST_F(abi, exit_is_answered_before_the_events_go)
{
	trace_child(_metadata, SYS_exit_group, NULL);
	EXPECT_EQ(0, count_samples(&rings[1]));
}

TEST_F(abi, exit_of_inherited_events_is_answered)
{
	int status, i;
	pid_t pid[20];
	size_t wrong = 0;

	ASSERT_TRUE(trace_children(SYS_exit_group));
	for (i = 0; i < 20; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			chain0(SYS_exit_group);
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		ASSERT_EQ(0, status);
	}
	EXPECT_TRUE(drain_all());
	for (i = 0; i < 20; i++)
		wrong += count_answered(pid[i]) != 1;
	EXPECT_EQ(0, wrong);
}

TEST_F(abi, parent_and_child_of_a_fork_have_cookies_of_their_own)
{
	struct perf_event_attr attr;
	size_t records = 0;
	int status, i;
	pid_t pid;

	attr_exit(&attr, DEFER | OUTPUT);
	open_inherited(&attr);
	attr_enter(&attr, DEFER);
	open_inherited(&attr);
	ASSERT_EQ(0, set_filter_all("id == %d", SYS_fork));
	ASSERT_TRUE(enable_all());
	pid = chain0(SYS_fork);
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(drain_all());
	/* The parent on its way in and out, the child on its way out */
	EXPECT_EQ(2, count_answered(getpid()));
	EXPECT_EQ(1, count_answered(pid));
	for (i = 0; i < nr_rings; i++)
		records += count_records(&rings[i]);
	EXPECT_EQ(2, records);
}

static void on_signal(int sig)
{
	getppid_from_chain();
}

TEST_F(abi, signal_within_a_system_call_starts_a_new_context)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct up_ring *kill, *ppid;

	ASSERT_EQ(0, sigaction(SIGUSR1, &sa, NULL));
	kill = open_enter(SYS_tgkill, DEFER | OUTPUT);
	ppid = open_enter(SYS_getppid, DEFER);
	ASSERT_TRUE(enable_all());
	chain_syscall(SYS_tgkill, getpid(), my_tid(), SIGUSR1, 0, 0, 0);
	EXPECT_TRUE(drain_all());
	ASSERT_EQ(1, count_samples(kill));
	ASSERT_EQ(1, count_samples(ppid));
	EXPECT_EQ(2, count_records(kill));
	EXPECT_NE(sample_nr(kill, 0)->cookie, sample_nr(ppid, 0)->cookie);
	EXPECT_TRUE(has_chain(sample_nr(kill, 0), kill));
	/* The chain in the handler ends with a frame pointer of 0 */
	EXPECT_TRUE(has_chain(sample_nr(ppid, 0), kill));
}

TEST_HARNESS_MAIN
