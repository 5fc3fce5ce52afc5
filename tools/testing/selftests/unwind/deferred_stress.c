// SPDX-License-Identifier: GPL-2.0
/*
 * Everything at once: works that are registered and cancelled while they are
 * requested on all CPUs, tasks that start and end while they are asked, arming
 * and disarming. Run on a kernel with lockdep and KASAN, too.
 */
#include "engine_test.h"
#include "unwind_harness.h"
#include "unwind_perf.h"

#include <time.h>

FIXTURE(stress)
{
	struct session s;
};

FIXTURE_SETUP(stress)
{
	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&self->s, 8));
}

FIXTURE_TEARDOWN(stress)
{
	session_end(&self->s);
}

struct racer {
	int fd;
	int index;
	const int *stop;
	unsigned long rounds;
	int failed;
};

static void *requester_main(void *arg)
{
	static const char * const contexts[] = { "task", "irq", "nmi" };
	struct racer *racer = arg;

	/* At least once, and no more than fits the log: 16 lines each */
	do {
		if (chain_cmd(racer->fd, "req ff %s",
			      contexts[racer->rounds % 3]))
			racer->failed++;
		racer->rounds++;
	} while (!get_flag(racer->stop) && racer->rounds < 200);
	return NULL;
}

static void *canceller_main(void *arg)
{
	struct racer *racer = arg;
	int work;

	while (!get_flag(racer->stop)) {
		/* The odd works are left alone. */
		work = 2 * (racer->rounds % 2) + 4 * racer->index;
		if (mod_cmd(racer->fd, "cancel %d", work) ||
		    mod_cmd(racer->fd, "init %d", work))
			racer->failed++;
		racer->rounds++;
	}
	return NULL;
}

/* Threads that are racers, until 100 ms have passed. Afterwards the log is read. */
static void race(struct __test_metadata *_metadata, struct session *s, int nr,
		 void *(*const mains[])(void *arg))
{
	struct racer racers[4];
	pthread_t threads[4];
	int i, stop = 0;

	for (i = 0; i < nr; i++) {
		racers[i] = (struct racer){ .fd = s->fd, .index = i % 2, .stop = &stop };
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, mains[i], &racers[i]));
	}
	usleep(100000);
	set_flag(&stop, 1);
	for (i = 0; i < nr; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, racers[i].failed);
	}
	ASSERT_EQ(0, mod_log(s->fd, &s->log));
	ASSERT_EQ(0, s->log.overflow);
}

/* Read the log while it fills; check that a callback belongs to a request. */
static void check_part(struct __test_metadata *_metadata, struct log *log)
{
	struct log_entry *c, *r;
	unsigned int i, j;

	for (i = 0; i < log->nr; i++) {
		c = &log->entries[i];
		if (c->type != 'C')
			continue;
		EXPECT_TRUE(log_is_chain(c));
		EXPECT_EQ(1, log_answers(log, c->work, c->cookie));
		for (j = 0; j < log->nr; j++) {
			r = &log->entries[j];
			if (r->type == 'R' && r->work == c->work &&
			    r->cookie == c->cookie)
				break;
		}
		ASSERT_LT(j, log->nr);
		EXPECT_EQ(r->tid, c->tid);
	}
}

/*
 * Two threads request eight works; two others cancel and register four of them.
 * The permanent works get all their records; the others never one too many.
 */
TEST_F_TIMEOUT(stress, cancel_and_register_while_requested_everywhere, 120)
{
	void *(*const mains[])(void *arg) = {
		requester_main, requester_main, canceller_main, canceller_main,
	};
	struct log *log = &self->s.log;
	unsigned int work;
	int round;

	for (round = 0; round < 10; round++) {
		race(_metadata, &self->s, ARRAY_SIZE(mains), mains);
		check_part(_metadata, log);
		for (work = 1; work < 8; work += 2) {
			EXPECT_LT(0, log_count(log, 'C', work));
			EXPECT_EQ(log_rets(log, work, UT_QUEUED),
				  log_count(log, 'C', work));
			EXPECT_EQ(0, log_rets(log, work, -EINVAL));
		}
		log_free(log);
	}
}

static void *arm_main(void *arg)
{
	struct racer *racer = arg;

	while (!get_flag(racer->stop)) {
		if (mod_cmd(racer->fd, "arm") || mod_cmd(racer->fd, "disarm"))
			racer->failed++;
		racer->rounds++;
	}
	return NULL;
}

/* Arming and disarming in between changes nothing for an armed tracer. */
TEST_F(stress, arm_and_disarm_while_requested)
{
	void *(*const mains[])(void *arg) = { requester_main, arm_main, arm_main };
	struct log *log = &self->s.log;

	race(_metadata, &self->s, ARRAY_SIZE(mains), mains);
	EXPECT_EQ(0, log_rets(log, -1, -EINVAL));
	EXPECT_LT(0, log_count(log, 'C', -1));
	EXPECT_EQ(log_rets(log, -1, UT_QUEUED), log_count(log, 'C', -1));
}

/*
 * Objects of the slab cache that has tasks' traces; -1 if that is not known. Freed
 * objects in the quarantine of KASAN and in slabs of a CPU count as active until the
 * slab cache is shrunk.
 */
static long trace_objects(void)
{
	char line[512];
	long active = -1;
	FILE *file;

	file = fopen("/sys/kernel/slab/unwind_cache/shrink", "w");
	if (file) {
		fputs("1", file);
		fclose(file);
	}
	file = fopen("/proc/slabinfo", "r");
	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file) &&
	       sscanf(line, "unwind_cache %ld", &active) != 1)
		;
	fclose(file);
	return active;
}

/* Tasks and what they have replaced are freed after a grace period. */
static long more_trace_objects(long before, long allowed)
{
	long more;
	int i;

	for (i = 0; i < 100; i++) {
		more = trace_objects() - before;
		if (more < allowed)
			break;
		usleep(100000);
	}
	return more;
}

static void *ask_main(void *arg)
{
	struct session *s = arg;

	chain_cmd(s->fd, "req 3 task");
	return NULL;
}

#define TASKS	50

/*
 * Processes and threads that are asked once and exit, some of them killed: their
 * caches are freed with them.
 */
TEST_F_TIMEOUT(stress, fork_and_exit_storm_leaks_no_cache, 600)
{
	struct log *log = &self->s.log;
	pthread_t thread;
	int i, status;
	long before;
	pid_t pid;

	if (trace_objects() < 0)
		SKIP(return, "needs /proc/slabinfo with unwind_cache");
	/* One round to warm up, one that counts. */
	for (i = 0, before = 0; i < 2 * TASKS; i++) {
		if (i == TASKS)
			before = trace_objects();
		pid = fork();
		ASSERT_GE(pid, 0);
		if (!pid) {
			chain_cmd(self->s.fd, "req 3 %s", i % 2 ? "nmi" : "irq");
			if (!pthread_create(&thread, NULL, ask_main, &self->s) &&
			    i % 4)
				pthread_join(thread, NULL);
			if (i % 8 == 7)
				kill(getpid(), SIGKILL);
			_exit(0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		if (i % 50 == 49) {
			ASSERT_EQ(0, mod_log(self->s.fd, log));
			EXPECT_EQ(0, log->overflow);
			EXPECT_EQ(NULL, log_unpaired(log));
			log_free(log);
		}
	}
	/* A leak would be one or two for each of the tasks. */
	EXPECT_LT(more_trace_objects(before, TASKS / 2), TASKS / 2);
}

/* A task has one cache, however often it is asked. */
TEST_F(stress, task_that_is_asked_often_has_one_cache)
{
	long before;
	int i;

	before = trace_objects();
	if (before < 0)
		SKIP(return, "needs /proc/slabinfo with unwind_cache");
	for (i = 0; i < TASKS; i++) {
		ASSERT_EQ(0, chain_cmd(self->s.fd, "req 3 task"));
		if (i % 50 == 49) {
			ASSERT_EQ(0, mod_log(self->s.fd, &self->s.log));
			EXPECT_EQ(NULL, log_unpaired(&self->s.log));
			log_free(&self->s.log);
		}
	}
	EXPECT_LT(more_trace_objects(before, TASKS / 2), TASKS / 2);
}

static void *ask_twice_main(void *arg)
{
	struct session *s = arg;

	if (up_write_number(SYSCTL_MAX_STACK, 127))
		return "the sysctl cannot be set";
	chain_cmd(s->fd, "req 3 task");
	up_write_number(SYSCTL_MAX_STACK, 1024);
	chain_cmd(s->fd, "req 3 task");
	return NULL;
}

/* A larger cache takes the place of the first one, which is freed. */
TEST_F(stress, tasks_that_get_a_larger_cache_have_only_that)
{
	long before = trace_objects();
	long long allowed = up_read_number(SYSCTL_MAX_STACK);
	pthread_t thread;
	void *failed;
	int i;

	if (before < 0)
		SKIP(return, "needs /proc/slabinfo with unwind_cache");
	for (i = 0, failed = NULL; i < TASKS && !failed; i++) {
		ASSERT_EQ(0, pthread_create(&thread, NULL, ask_twice_main,
					    &self->s));
		pthread_join(thread, &failed);
	}
	up_write_number(SYSCTL_MAX_STACK, allowed);
	ASSERT_EQ(NULL, failed);
	EXPECT_LT(more_trace_objects(before, TASKS / 2), TASKS / 2);
}

/* A session that ends with requests pending: nobody is called any more. */
TEST_F(stress, works_that_vanish_with_requests_pending)
{
	struct actor actor;
	struct session s;
	int pipefd[2];
	char byte;
	int i;

	ASSERT_EQ(0, pipe(pipefd));
	ASSERT_TRUE(actor_start(&actor, -1));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, session_start(&s, 4));
		ASSERT_EQ(0, probe_on(&s, 0, "kprobe:vfs_read", actor.tid, "f nmi 0 1"));
		actor_go(&actor, SYS_read, pipefd[0], (long)&byte, 1);
		ASSERT_TRUE(wait_blocked(actor.tid, SYS_read));
		ASSERT_EQ(0, mod_log(s.fd, &s.log));
		EXPECT_EQ(4, log_rets(&s.log, -1, UT_QUEUED) +
			     log_rets(&s.log, -1, UT_ALREADY_PENDING));
		log_free(&s.log);
		session_end(&s);
		ASSERT_EQ(0, actor_feed(&actor, pipefd[1]));
	}
	actor_end(&actor);
}

TEST_HARNESS_MAIN
