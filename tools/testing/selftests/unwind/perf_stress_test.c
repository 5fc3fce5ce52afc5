// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred callchains of the whole system under load: many tasks, many events,
 * migration, exit, exec, signals, events that are opened and closed. Every cookie
 * of a task that has ended must have exactly one record, and the buffers nothing
 * else.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "unwind_chain.h"
#include "unwind_perf.h"
#include "unwind_harness.h"

#define DEFER		UT_ATTR_DEFER_CALLCHAIN
#define OUTPUT		UT_ATTR_DEFER_OUTPUT
#define MAX_CPUS	8
#define MAX_RINGS	(6 * MAX_CPUS)
#define RING_PAGES	1024

FIXTURE(stress)
{
	struct up_ring rings[MAX_RINGS];
	int nr_rings;
	int nr_cpus;
};

FIXTURE_SETUP(stress)
{
	if (must_skip(_metadata, need_perf_deferred()))
		return;
	if (must_skip(_metadata, need_tracepoint("raw_syscalls", "sys_enter")))
		return;
	while (self->nr_cpus < MAX_CPUS && nth_cpu(self->nr_cpus) >= 0)
		self->nr_cpus++;
}

FIXTURE_TEARDOWN(stress)
{
	while (self->nr_rings)
		up_close(&self->rings[--self->nr_rings]);
}

static void open_everywhere(struct __test_metadata *_metadata,
			    struct _test_data_stress *self,
			    struct perf_event_attr *attr, pid_t pid)
{
	int i;

	for (i = 0; i < self->nr_cpus; i++) {
		ASSERT_GT(MAX_RINGS, self->nr_rings);
		ASSERT_EQ(0, up_open_pages(&self->rings[self->nr_rings], attr, pid,
					   nth_cpu(i), -1, RING_PAGES));
		self->nr_rings++;
	}
}

static void open_software(struct __test_metadata *_metadata,
			  struct _test_data_stress *self, uint64_t config,
			  uint64_t period, uint64_t bits, pid_t pid)
{
	struct perf_event_attr attr;

	up_attr_init(&attr, PERF_TYPE_SOFTWARE, config, bits);
	attr.sample_period = period;
	attr.exclude_callchain_kernel = 1;
	attr.inherit = pid >= 0;
	if (config == PERF_COUNT_SW_DUMMY)
		attr.sample_type &= ~PERF_SAMPLE_CALLCHAIN;
	open_everywhere(_metadata, self, &attr, pid);
}

/* -e cpu-clock,task-clock,context-switches and a holder on each CPU */
static void open_all(struct __test_metadata *_metadata, struct _test_data_stress *self,
		     pid_t pid)
{
	open_software(_metadata, self, PERF_COUNT_SW_CPU_CLOCK, 500000, DEFER, pid);
	open_software(_metadata, self, PERF_COUNT_SW_TASK_CLOCK, 700000, DEFER, pid);
	open_software(_metadata, self, PERF_COUNT_SW_CONTEXT_SWITCHES, 1, DEFER, pid);
	open_software(_metadata, self, PERF_COUNT_SW_DUMMY, 1, OUTPUT, pid);
}

static void enable_all(struct _test_data_stress *self)
{
	int i;

	for (i = self->nr_rings; i--;)
		up_enable(&self->rings[i]);
}

static void drain_all(struct _test_data_stress *self)
{
	int i;

	for (i = 0; i < self->nr_rings; i++)
		up_disable(&self->rings[i]);
	for (i = 0; i < self->nr_rings; i++)
		up_drain(&self->rings[i]);
}

struct cookie {
	uint64_t cookie;
	uint32_t tid;
	uint32_t records;
};

static int cmp_cookie(const void *a, const void *b)
{
	const struct cookie *x = a, *y = b;

	return x->cookie < y->cookie ? -1 : x->cookie > y->cookie;
}

struct totals {
	size_t samples;
	size_t deferred;
	size_t in_place;
	size_t bare;
	size_t records;
	size_t cookies;
};

/* All records by cookie, in order: each cookie of a task once. */
static struct cookie *sort_records(struct __test_metadata *_metadata,
				   struct _test_data_stress *self, size_t *nr)
{
	struct cookie *all;
	size_t n = 0, i;
	int r;
	size_t wrong = 0;

	for (r = 0; r < self->nr_rings; r++)
		n += up_count(&self->rings[r], UT_RECORD_CALLCHAIN_DEFERRED);
	all = calloc(n + 1, sizeof(*all));
	*nr = 0;
	for (r = 0; r < self->nr_rings; r++) {
		for (i = 0; i < self->rings[r].nr_recs; i++) {
			struct up_rec *rec = &self->rings[r].recs[i];

			if (rec->type != UT_RECORD_CALLCHAIN_DEFERRED)
				continue;
			all[(*nr)++] = (struct cookie){ rec->cookie, rec->tid, 1 };
		}
	}
	qsort(all, *nr, sizeof(*all), cmp_cookie);
	for (i = 1; i < *nr; i++)
		wrong += all[i - 1].cookie == all[i].cookie;
	ASSERT_EQ(0, wrong);
	return all;
}

/*
 * Compare all samples of the tasks in @tids (of all but this one, without) with
 * the records. The tasks have ended, so none can still be on its way.
 */
static void check_all(struct __test_metadata *_metadata, struct _test_data_stress *self,
		      const pid_t *tids, size_t nr_tids, struct totals *tot)
{
	struct cookie *all;
	size_t nr, i, j;
	int r;

	memset(tot, 0, sizeof(*tot));
	for (r = 0; r < self->nr_rings; r++) {
		ASSERT_EQ(0, up_count_bad(&self->rings[r]));
		ASSERT_EQ(0, up_count_lost(&self->rings[r]));
	}
	all = sort_records(_metadata, self, &nr);
	tot->records = nr;
	for (r = 0; r < self->nr_rings; r++) {
		for (i = 0; i < self->rings[r].nr_recs; i++) {
			struct up_rec *rec = &self->rings[r].recs[i];
			struct cookie key = { rec->cookie }, *found;

			if (rec->type != PERF_RECORD_SAMPLE)
				continue;
			for (j = 0; j < nr_tids && rec->tid != tids[j]; j++)
				;
			if (j == nr_tids)
				continue;
			tot->samples++;
			if (!rec->deferred) {
				if (rec->has_user)
					tot->in_place++;
				else
					tot->bare++;
				continue;
			}
			tot->deferred++;
			found = bsearch(&key, all, nr, sizeof(*all), cmp_cookie);
			ASSERT_NE(NULL, found) {
				TH_LOG("cookie %llx of %u without a record",
				       (unsigned long long)rec->cookie, rec->tid);
			}
			ASSERT_EQ(rec->tid, found->tid);
			tot->cookies++;
		}
	}
	TH_LOG("%zu samples: %zu deferred, %zu in place, %zu without user part; %zu records",
	       tot->samples, tot->deferred, tot->in_place, tot->bare, tot->records);
	free(all);
}

struct worker {
	pthread_t thread;
	pid_t tid;
	int rounds;
};

/* Changes its CPU in every round, with samples on both sides of the change. */
static void *migrate(void *data)
{
	struct worker *worker = data;
	unsigned int x = 0;
	int i, j;

	worker->tid = my_tid();
	for (i = 0; i < worker->rounds; i++) {
		cpu_set_t set;
		int nr = 0;

		while (nth_cpu(nr) >= 0)
			nr++;
		CPU_ZERO(&set);
		CPU_SET(nth_cpu(i % nr), &set);
		chain_syscall(SYS_sched_setaffinity, 0, sizeof(set), (long)&set, 0, 0, 0);
		for (j = 0; j < 2000; j++)
			__atomic_add_fetch(&x, j, __ATOMIC_RELAXED);
		chain0(SYS_sched_yield);
	}
	return NULL;
}

#define WORKERS	6

static void run_workers(struct __test_metadata *_metadata, struct worker *workers,
			pid_t *tids, int rounds)
{
	int i;

	/* Fixed before the threads ask for it */
	nth_cpu(0);
	for (i = 0; i < WORKERS; i++) {
		workers[i].rounds = rounds;
		ASSERT_EQ(0, pthread_create(&workers[i].thread, NULL, migrate, &workers[i]));
	}
	for (i = 0; i < WORKERS; i++) {
		ASSERT_EQ(0, pthread_join(workers[i].thread, NULL));
		tids[i] = workers[i].tid;
	}
}

/* Events of the whole system, or with @pid of 0, inherited ones of this process */
static void check_migrating(struct __test_metadata *_metadata,
			    struct _test_data_stress *self, pid_t pid)
{
	struct worker workers[WORKERS];
	pid_t tids[WORKERS];
	struct totals tot;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	open_all(_metadata, self, pid);
	enable_all(self);
	run_workers(_metadata, workers, tids, 200);
	drain_all(self);
	check_all(_metadata, self, tids, WORKERS, &tot);
	EXPECT_LT(0, tot.deferred);
}

TEST_F_TIMEOUT(stress, system_wide_events_answer_every_cookie_of_migrating_threads, 120)
{
	check_migrating(_metadata, self, -1);
}

TEST_F_TIMEOUT(stress, inherited_events_answer_every_cookie_of_migrating_threads, 120)
{
	check_migrating(_metadata, self, 0);
}

#define CHILDREN	32

/* Children that exit, exec, die of a signal or leave by a thread. */
static void child_end(int how)
{
	static const char * const argv[] = { "true", NULL };
	int i;

	for (i = 0; i < 20; i++)
		chain0(SYS_getppid);
	switch (how % 4) {
	case 0:
		chain0(SYS_exit_group);
		break;
	case 1:
		chain_syscall(SYS_execve, (long)"/bin/true", (long)argv, 0, 0, 0, 0);
		break;
	case 2:
		signal(SIGTERM, SIG_DFL);
		chain_syscall(SYS_kill, getpid(), SIGTERM, 0, 0, 0, 0);
		break;
	case 3:
		chain0(SYS_exit);
		break;
	}
	_exit(1);
}

static void run_children(struct __test_metadata *_metadata, pid_t *pids)
{
	int i, status;

	for (i = 0; i < CHILDREN; i++) {
		pids[i] = fork();
		ASSERT_LE(0, pids[i]);
		if (!pids[i])
			child_end(i);
	}
	for (i = 0; i < CHILDREN; i++) {
		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		/* Without /bin/true the exec fails; that is one more way to end */
		ASSERT_EQ(i % 4 == 2, !!WIFSIGNALED(status));
		ASSERT_TRUE(i % 4 == 1 || i % 4 == 2 || !status);
	}
}

static void open_enter(struct __test_metadata *_metadata, struct _test_data_stress *self,
		       pid_t pid)
{
	struct perf_event_attr attr;

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"), DEFER);
	attr.exclude_callchain_kernel = 1;
	attr.inherit = pid >= 0;
	open_everywhere(_metadata, self, &attr, pid);
}

static void check_ending(struct __test_metadata *_metadata, struct _test_data_stress *self,
			 pid_t pid)
{
	pid_t pids[CHILDREN];
	struct totals tot;

	open_all(_metadata, self, pid);
	open_enter(_metadata, self, pid);
	enable_all(self);
	run_children(_metadata, pids);
	drain_all(self);
	check_all(_metadata, self, pids, CHILDREN, &tot);
	EXPECT_LE(20 * CHILDREN, tot.deferred);
}

TEST_F_TIMEOUT(stress, system_wide_events_answer_every_cookie_of_ending_tasks, 120)
{
	check_ending(_metadata, self, -1);
}

TEST_F_TIMEOUT(stress, inherited_events_answer_every_cookie_of_ending_tasks, 120)
{
	check_ending(_metadata, self, 0);
}

struct toggle {
	bool stop;
	int failures;
	unsigned long rounds;
};

/* An event that is opened, used and closed while others sample. */
static void *open_and_close(void *data)
{
	struct toggle *toggle = data;
	struct perf_event_attr attr;
	int fd;

	while (!__atomic_load_n(&toggle->stop, __ATOMIC_RELAXED)) {
		up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
			     tracepoint_id("raw_syscalls", "sys_enter"),
			     DEFER | OUTPUT);
		attr.disabled = 0;
		fd = perf_open(&attr, -1, nth_cpu(toggle->rounds % 2), -1, 0);
		if (fd < 0) {
			toggle->failures++;
			break;
		}
		chain0(SYS_getppid);
		close(fd);
		toggle->rounds++;
	}
	return NULL;
}

TEST_F_TIMEOUT(stress, events_that_come_and_go_leave_the_others_answered, 120)
{
	struct toggle toggle[2] = {};
	struct worker workers[WORKERS];
	pid_t tids[WORKERS];
	pthread_t thread[2];
	struct totals tot;
	int i;
	size_t wrong = 0;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	nth_cpu(0);
	open_all(_metadata, self, 0);
	enable_all(self);
	for (i = 0; i < 2; i++)
		wrong += pthread_create(&thread[i], NULL, open_and_close, &toggle[i]) != 0;
	ASSERT_EQ(0, wrong);
	run_workers(_metadata, workers, tids, 100);
	for (i = 0; i < 2; i++) {
		__atomic_store_n(&toggle[i].stop, true, __ATOMIC_RELAXED);
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
		EXPECT_EQ(0, toggle[i].failures);
	}
	drain_all(self);
	check_all(_metadata, self, tids, WORKERS, &tot);
	EXPECT_LT(0, tot.deferred);
}

/* On and off for the whole system: the first and the last user, over and over. */
TEST_F_TIMEOUT(stress, only_event_switched_on_and_off_answers_every_sample, 120)
{
	struct perf_event_attr attr;
	struct up_ring ring;
	int i, j;

	for (i = 0; i < 60; i++) {
		up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
			     tracepoint_id("raw_syscalls", "sys_enter"), DEFER | OUTPUT);
		attr.exclude_callchain_kernel = 1;
		ASSERT_EQ(0, up_open(&ring, &attr, 0, -1, -1));
		ASSERT_EQ(0, ioctl(ring.fd, PERF_EVENT_IOC_SET_FILTER, "id == 110"));
		ASSERT_EQ(110, SYS_getppid);
		ASSERT_EQ(0, up_enable(&ring));
		for (j = 0; j < 5; j++)
			chain0(SYS_getppid);
		ASSERT_EQ(0, up_disable(&ring));
		up_drain(&ring);
		ASSERT_EQ(0, up_count_bad(&ring));
		ASSERT_EQ(5, up_count(&ring, PERF_RECORD_SAMPLE));
		ASSERT_EQ(5, up_count(&ring, UT_RECORD_CALLCHAIN_DEFERRED));
		for (j = 0; j < 5; j++) {
			struct up_rec *rec = up_nth(&ring, PERF_RECORD_SAMPLE, j);

			ASSERT_TRUE(rec->deferred);
			ASSERT_EQ(1, up_count_cookie(&ring, rec->cookie));
			rec = up_find_cookie(&ring, rec->cookie);
			ASSERT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
		}
		up_close(&ring);
	}
}

TEST_HARNESS_MAIN
