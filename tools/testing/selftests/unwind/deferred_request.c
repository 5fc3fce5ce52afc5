// SPDX-License-Identifier: GPL-2.0
/*
 * Requests for deferred user stacks: from every context, by one work and by many,
 * and their answers.
 */
#include <ftw.h>
#include <sys/sysinfo.h>

#include "engine_test.h"
#include "slow_page.h"
#include "unwind_harness.h"

#include <stdalign.h>

FIXTURE(request)
{
	struct session s;
};

FIXTURE_VARIANT(request)
{
	const char *ctx;
};

FIXTURE_VARIANT_ADD(request, task) { .ctx = "task" };
FIXTURE_VARIANT_ADD(request, irq) { .ctx = "irq" };
FIXTURE_VARIANT_ADD(request, nmi) { .ctx = "nmi" };

FIXTURE_SETUP(request)
{
	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&self->s, 2));
}

FIXTURE_TEARDOWN(request)
{
	session_end(&self->s);
}

/* One request: queued, one callback, with the frames of the system call. */
TEST_F(request, once_gets_one_callback_with_exact_frames)
{
	struct log *log = &self->s.log;
	struct log_entry *r, *c;

	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 %s", variant->ctx));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(2, log->nr);
	EXPECT_EQ(0, log->overflow);
	r = log_find(log, 'R', 0, 0);
	c = log_find(log, 'C', 0, 0);
	ASSERT_TRUE(r && c);
	EXPECT_EQ(UT_QUEUED, r->ret);
	EXPECT_NE(0, r->cookie);
	EXPECT_STREQ(variant->ctx, r->ctx);
	EXPECT_EQ(my_tid(), r->tid);
	EXPECT_EQ(r->cookie, c->cookie);
	EXPECT_STREQ("task", c->ctx);
	EXPECT_EQ(my_tid(), c->tid);
	EXPECT_TRUE(log_is_chain(c));
}

/* Five requests in one entry: one cookie, one callback. */
TEST_F(request, repeated_in_one_entry_shares_cookie_and_callback)
{
	struct log *log = &self->s.log;
	unsigned int i;

	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 %s -1 5", variant->ctx));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(5, log_count(log, 'R', 0));
	ASSERT_EQ(1, log_count(log, 'C', 0));
	for (i = 0; i < 5; i++) {
		EXPECT_EQ(i ? UT_ALREADY_PENDING : UT_QUEUED,
			  log_find(log, 'R', 0, i)->ret);
		EXPECT_EQ(log_find(log, 'C', 0, 0)->cookie,
			  log_find(log, 'R', 0, i)->cookie);
	}
	EXPECT_TRUE(log_is_chain(log_find(log, 'C', 0, 0)));
}

/* Two works in one entry: the same cookie, one callback and one trace each. */
TEST_F(request, by_two_works_gives_each_one_callback_with_the_same_cookie)
{
	struct log *log = &self->s.log;
	struct log_entry *c;
	int work;

	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 3 %s -1 2", variant->ctx));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	for (work = 0; work < 2; work++) {
		ASSERT_EQ(2, log_count(log, 'R', work));
		ASSERT_EQ(1, log_count(log, 'C', work));
		EXPECT_EQ(UT_QUEUED, log_find(log, 'R', work, 0)->ret);
		EXPECT_EQ(UT_ALREADY_PENDING, log_find(log, 'R', work, 1)->ret);
		c = log_find(log, 'C', work, 0);
		EXPECT_EQ(log_find(log, 'R', 0, 0)->cookie, c->cookie);
		EXPECT_TRUE(log_is_chain(c));
	}
	EXPECT_EQ(log_find(log, 'C', 0, 0)->timestamp,
		  log_find(log, 'C', 1, 0)->timestamp);
}

/* Every entry has a cookie, a callback and a timestamp of its own. */
TEST_F(request, in_the_next_entry_gets_a_new_cookie_and_a_later_timestamp)
{
	struct log *log = &self->s.log;
	struct log_entry *r, *c, *last = NULL;
	int i;

	/* Timestamps of one CPU can be compared. */
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 %s", variant->ctx));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(100, log_count(log, 'R', 0));
	ASSERT_EQ(100, log_count(log, 'C', 0));
	for (i = 0; i < 100; i++) {
		r = log_find(log, 'R', 0, i);
		c = log_find(log, 'C', 0, i);
		ASSERT_EQ(UT_QUEUED, r->ret);
		ASSERT_EQ(r->cookie, c->cookie);
		ASSERT_TRUE(log_is_chain(c));
		/* The request is logged after it was made. */
		ASSERT_LE(c->timestamp, r->now);
		if (last) {
			ASSERT_NE(last->cookie, c->cookie);
			ASSERT_GE(c->timestamp, last->now);
		}
		last = c;
	}
}

FIXTURE(user_mode)
{
	struct session s;
};

FIXTURE_VARIANT(user_mode)
{
	const char *ctx;
};

FIXTURE_VARIANT_ADD(user_mode, irq) { .ctx = "irq" };
FIXTURE_VARIANT_ADD(user_mode, nmi) { .ctx = "nmi" };

FIXTURE_SETUP(user_mode)
{
	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&self->s, 1));
}

FIXTURE_TEARDOWN(user_mode)
{
	session_end(&self->s);
}

/* The CPU may do something else just then, for as long as a slow machine likes. */
#define MOST_TRIES	10000

/* An interrupt of user mode on another CPU: the stack it came upon. */
TEST_F(user_mode, interrupt_gets_the_interrupted_frames)
{
	struct log *log = &self->s.log;
	struct log_entry *r, *c = NULL;
	struct actor spinner;
	unsigned int i, met = 0;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	ASSERT_TRUE(spinner_start(&spinner, nth_cpu(1)));
	for (i = 0; i < MOST_TRIES && met < 20; i++) {
		ASSERT_EQ(0, mod_cmd(self->s.fd, "req 1 %s %d", variant->ctx,
				     spinner.cpu));
		/* A line that is being written holds up those after it. */
		while (!(r = log_find(log, 'R', 0, i)))
			ASSERT_EQ(0, mod_log(self->s.fd, log));
		EXPECT_EQ(spinner.cpu, r->cpu);
		if (r->tid == spinner.tid)
			met++;
		else
			usleep(1000);
	}
	actor_end(&spinner);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(20, met);
	for (i = 0; (r = log_find(log, 'R', 0, i)); i++) {
		/* Others may sleep before they answer. */
		if (r->tid != spinner.tid)
			continue;
		EXPECT_EQ(1, log_answers(log, 0, r->cookie));
		c = log_answer(log, 0, r->cookie);
		ASSERT_NE(NULL, c);
		EXPECT_EQ(spinner.tid, c->tid);
		if (c->nr == CHAIN_NR)
			EXPECT_TRUE(chain_spin_ok(c->ips, c->nr));
	}
	/* The first ones may come before the loop, but not the last. */
	EXPECT_TRUE(c && chain_spin_ok(c->ips, c->nr));
}

FIXTURE(engine)
{
	struct session s;
};

FIXTURE_SETUP(engine)
{
	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&self->s, 3));
}

FIXTURE_TEARDOWN(engine)
{
	session_end(&self->s);
}

/* An NMI that hits within an interrupt, after that has made its request. */
TEST_F(engine, nmi_within_an_irq_joins_the_context_of_the_irq)
{
	struct log *log = &self->s.log;
	struct log_entry *irq, *nmi, *c;

	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 irqnmi"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(2, log_count(log, 'R', 0));
	ASSERT_EQ(1, log_count(log, 'C', 0));
	irq = log_find(log, 'R', 0, 0);
	nmi = log_find(log, 'R', 0, 1);
	c = log_find(log, 'C', 0, 0);
	EXPECT_STREQ("irq", irq->ctx);
	EXPECT_STREQ("nmi", nmi->ctx);
	EXPECT_EQ(UT_QUEUED, irq->ret);
	EXPECT_EQ(UT_ALREADY_PENDING, nmi->ret);
	EXPECT_EQ(irq->cookie, nmi->cookie);
	EXPECT_EQ(irq->cookie, c->cookie);
	EXPECT_TRUE(log_is_chain(c));
}

/*
 * An NMI in the middle of a request: the mask says pending, the task_work is
 * not queued yet. By another work, and by the same.
 */
TEST_F(engine, nmi_in_the_middle_of_a_request_shares_its_context)
{
	struct log *log = &self->s.log;
	struct log_entry *outer, *nmi0, *nmi1;

	/* Not where a tick adds a work of the scheduler's. */
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:task_work_add",
			      my_tid(), "3 nmi 0 1 unwind_*"));
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 task"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "unprobe 0"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	nmi0 = log_asked(log, "kprobe:task_work_add", 0, UT_ALREADY_PENDING);
	nmi1 = log_asked(log, "kprobe:task_work_add", 1, UT_QUEUED);
	outer = log_at(log, "write", 0, 0);
	ASSERT_TRUE(nmi0 && nmi1 && outer);
	EXPECT_STREQ("nmi", nmi0->ctx);
	EXPECT_LT(nmi0->seq, outer->seq);
	EXPECT_EQ(outer->cookie, nmi0->cookie);
	EXPECT_EQ(outer->cookie, nmi1->cookie);
	EXPECT_EQ(1, log_count(log, 'C', 0));
	EXPECT_EQ(1, log_count(log, 'C', 1));
	EXPECT_TRUE(log_is_chain(log_answer(log, 0, outer->cookie)));
	EXPECT_TRUE(log_is_chain(log_answer(log, 1, outer->cookie)));
}

static void ignore_signal(int sig)
{
}

/*
 * A signal makes the pending request run in get_signal(). Later requests in the same
 * entry are sent to the cache, or get a callback with the cached trace.
 */
TEST_F(engine, requests_after_the_callback_get_the_cached_trace)
{
	struct log *log = &self->s.log;
	struct log_entry *first, *again, *other, *c;
	pid_t pid = getpid();

	if (must_skip(_metadata, need_tracepoint("signal", "signal_deliver")))
		return;
	signal(SIGUSR1, ignore_signal);
	ASSERT_EQ(0, probe_on(&self->s, 0, "tp:signal_deliver", my_tid(), "3 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 1, "tp:sys_enter", my_tid(), "1 task 0 1"));
	chain_syscall(SYS_kill, pid, SIGUSR1, 0, 0, 0, 0);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	first = log_asked(log, "tp:sys_enter", 0, UT_QUEUED);
	again = log_asked(log, "tp:signal_deliver", 0, UT_ALREADY_EXECUTED);
	other = log_asked(log, "tp:signal_deliver", 1, UT_QUEUED);
	ASSERT_TRUE(first && again && other);
	c = log_answer(log, 0, first->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_TRUE(log_is_chain(c));
	EXPECT_LT(c->seq, again->seq);

	EXPECT_EQ(first->cookie, again->cookie);
	EXPECT_EQ(c->nr, again->nr);
	EXPECT_EQ(0, memcmp(c->ips, again->ips, sizeof(c->ips)));

	EXPECT_EQ(first->cookie, other->cookie);
	EXPECT_EQ(1, log_count(log, 'C', 0));
	EXPECT_EQ(1, log_count(log, 'C', 1));
	EXPECT_TRUE(log_is_chain(log_answer(log, 1, first->cookie)));
}

#define COOKIE_THREADS	4
#define COOKIES		300

static void *cookie_main(void *arg)
{
	int fd = *(int *)arg;
	int i;

	/* Half of the time wherever the scheduler likes. */
	for (i = 0; i < COOKIES; i++) {
		if (i % 2)
			pin_to_cpu(nth_cpu(i / 2 % 2) < 0 ? nth_cpu(0) :
				   nth_cpu(i / 2 % 2));
		mod_cmd(fd, "req 1 task");
	}
	return NULL;
}

static int compare_cookies(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* CPU + 1 in the low 16 bits, a counter above; none twice. */
TEST_F(engine, cookies_name_the_cpu_and_are_unique)
{
	static uint64_t cookies[COOKIE_THREADS * COOKIES];
	pthread_t threads[COOKIE_THREADS];
	struct log *log = &self->s.log;
	struct log_entry *r;
	unsigned int i;

	nth_cpu(0);
	for (i = 0; i < COOKIE_THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, cookie_main,
					    &self->s.fd));
	for (i = 0; i < COOKIE_THREADS; i++)
		pthread_join(threads[i], NULL);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(COOKIE_THREADS * COOKIES, log_count(log, 'R', 0));
	for (i = 0; i < COOKIE_THREADS * COOKIES; i++) {
		r = log_find(log, 'R', 0, i);
		ASSERT_EQ(UT_QUEUED, r->ret);
		cookies[i] = r->cookie;
		ASSERT_GE(r->cookie >> 16, 1);
		ASSERT_GE((uint16_t)r->cookie, 1);
		ASSERT_LE((uint16_t)r->cookie, get_nprocs_conf());
	}
	EXPECT_EQ(NULL, log_unpaired(log));
	qsort(cookies, COOKIE_THREADS * COOKIES, sizeof(cookies[0]),
	      compare_cookies);
	for (i = 1; i < COOKIE_THREADS * COOKIES; i++)
		ASSERT_NE(cookies[i - 1], cookies[i]);
}

/* The cookie is that of the CPU on which the request was made. */
TEST_F(engine, cookie_has_the_cpu_of_the_request)
{
	struct log *log = &self->s.log;
	int i, cpu;

	for (i = 0; (cpu = nth_cpu(i)) >= 0; i++) {
		ASSERT_EQ(0, pin_to_cpu(cpu));
		ASSERT_EQ(0, mod_cmd(self->s.fd, "req 1 task"));
		session_forget(&self->s);
		ASSERT_EQ(0, mod_cmd(self->s.fd, "req 1 nmi"));
		ASSERT_EQ(0, mod_log(self->s.fd, log));
		ASSERT_NE(NULL, log_find(log, 'R', 0, 0));
		EXPECT_EQ(cpu + 1, (uint16_t)log_find(log, 'R', 0, 0)->cookie);
	}
}

/*
 * 62 works at a time: the places that this kernel's own tracers leave (perf and BPF
 * hold one each, and so does the top level instance of ftrace once it has had the
 * option on), all of them served by one unwind, and one more refused.
 */
TEST_F(engine, works_beyond_the_limit_are_refused_and_all_below_are_served)
{
	struct log *log = &self->s.log;
	unsigned long mask;
	int works, i;

	for (works = 3; works < 64; works++) {
		int ret = mod_cmd(self->s.fd, "init %d", works);

		if (ret) {
			ASSERT_EQ(-EBUSY, ret);
			break;
		}
	}
	ASSERT_LE(works, 61);
	ASSERT_GE(works, 59);

	/* Only a place that becomes free can be used again. */
	ASSERT_EQ(0, mod_cmd(self->s.fd, "cancel 7"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "init 7"));
	ASSERT_EQ(-EBUSY, mod_cmd(self->s.fd, "init %d", works));

	mask = (1UL << works) - 1;
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req %lx nmi", mask));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(works, log_count(log, 'R', -1));
	ASSERT_EQ(works, log_count(log, 'C', -1));
	for (i = 0; i < works; i++) {
		struct log_entry *c = log_find(log, 'C', i, 0);

		ASSERT_NE(NULL, c);
		EXPECT_EQ(UT_QUEUED, log_find(log, 'R', i, 0)->ret);
		EXPECT_EQ(log_find(log, 'R', 0, 0)->cookie, c->cookie);
		EXPECT_TRUE(log_is_chain(c));
	}
}

/* A cancelled work, and one that never was registered. */
TEST_F(engine, request_by_a_cancelled_work_is_refused)
{
	struct log *log = &self->s.log;
	unsigned int i;

	ASSERT_EQ(0, mod_cmd(self->s.fd, "cancel 1"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "req 6 task"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "req a irq"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "req a nmi"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(6, log_count(log, 'R', -1));
	for (i = 0; i < log->nr; i++) {
		struct log_entry *e = &log->entries[i];

		if (e->type != 'R' || e->work == 2)
			continue;
		EXPECT_EQ(-EINVAL, e->ret);
		EXPECT_EQ(0, e->cookie);
	}
	EXPECT_EQ(1, log_count(log, 'C', -1));
	EXPECT_EQ(1, log_count(log, 'C', 2));
}

/*
 * A task sleeps with requests of works 0 and 1 pending; 1 is cancelled, and 3
 * registered, which gets its place. Then only 0 is called: 3 has not asked.
 */
TEST_F(engine, a_work_in_a_cancelled_ones_place_inherits_nothing)
{
	struct log *log = &self->s.log;
	struct actor actor;
	int pipefd[2];

	ASSERT_EQ(0, pipe(pipefd));
	ASSERT_TRUE(actor_start(&actor, -1));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:vfs_read", actor.tid, "3 task 0 1"));
	actor_go(&actor, SYS_read, pipefd[0], (long)&self->s, 0 + 1);
	ASSERT_TRUE(wait_blocked(actor.tid, SYS_read));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "cancel 1"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "init 3"));
	ASSERT_EQ(1, write(pipefd[1], &self->s.fd, 1));
	wait_flag(&actor.done);
	actor_end(&actor);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(2, log_count(log, 'R', -1));
	EXPECT_EQ(UT_QUEUED, log_find(log, 'R', 0, 0)->ret);
	EXPECT_EQ(UT_QUEUED, log_find(log, 'R', 1, 0)->ret);
	EXPECT_EQ(1, log_count(log, 'C', 0));
	EXPECT_EQ(0, log_count(log, 'C', 1));
	EXPECT_EQ(0, log_count(log, 'C', 3));
	EXPECT_TRUE(log_is_chain(log_find(log, 'C', 0, 0)));

	/* It works for itself. */
	session_forget(&self->s);
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 8 task"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(1, log_count(log, 'C', 3));
}

/*
 * Here the callbacks of 0 and 1 are done already: 3 has the place of 1, but inherits
 * neither the request nor the answer of 1.
 */
TEST_F(engine, a_work_in_a_served_ones_place_is_served_in_the_same_context)
{
	struct log *log = &self->s.log;
	struct log_entry *first, *r;
	struct child child;
	int status;

	signal(SIGCONT, ignore_signal);
	ASSERT_TRUE(child_start(&child, SYS_pause, 0, 0, 0));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:__x64_sys_pause", child.pid, "3 task 0 1"));
	child_go(&child);
	ASSERT_TRUE(wait_blocked(child.pid, SYS_pause));
	/* Answered on the way to the stop */
	ASSERT_EQ(0, kill(child.pid, SIGSTOP));
	ASSERT_EQ(child.pid, waitpid(child.pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(1, log_count(log, 'C', 1));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "cancel 1"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "init 3"));
	ASSERT_EQ(0, probe_on(&self->s, 1, "tp:signal_deliver", child.pid, "8 task 0 1"));
	ASSERT_EQ(0, kill(child.pid, SIGCONT));
	ASSERT_EQ(77 << 8, child_wait(&child));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	first = log_find(log, 'R', 1, 0);
	r = log_find(log, 'R', 3, 0);
	ASSERT_TRUE(first && r);
	EXPECT_EQ(first->cookie, r->cookie);
	EXPECT_EQ(UT_QUEUED, r->ret);
	EXPECT_EQ(1, log_count(log, 'C', 0));
	EXPECT_EQ(1, log_count(log, 'C', 1));
	ASSERT_EQ(1, log_count(log, 'C', 3));
	EXPECT_TRUE(log_is_chain(log_answer(log, 3, r->cookie)));
}

/* While the callback of a work runs, its cancel does not return. */
TEST_F(engine, cancel_waits_for_a_callback_that_runs)
{
	struct held held;

	ASSERT_EQ(0, held_start(&held));
	EXPECT_EQ(1, log_count(&held.s.log, 'C', 0));
	EXPECT_EQ(0, held_end(&held));
}

static int init_work_3(void *arg)
{
	return mod_cmd(*(int *)arg, "init 3");
}

/* Registering does not wait for a cancellation. */
TEST_F(engine, work_is_registered_while_another_one_is_being_cancelled)
{
	struct held held;
	struct side init;

	ASSERT_EQ(0, held_start(&held));
	ASSERT_TRUE(side_start(&init, init_work_3, &self->s.fd));
	EXPECT_TRUE(side_returns(&init));
	EXPECT_EQ(0, held_end(&held));
	EXPECT_EQ(0, side_end(&init));

	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 8 task"));
	ASSERT_EQ(0, mod_log(self->s.fd, &self->s.log));
	EXPECT_EQ(1, log_count(&self->s.log, 'C', 3));
	EXPECT_EQ(NULL, log_unpaired(&self->s.log));
}

/* Wait until thread @tid sleeps in a function whose name contains @name. */
static const char *wait_in_kernel(int tid, const char *name)
{
	char path[64], line[128];
	int tries;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/wchan", tid);
	for (tries = 0; tries < 20000; tries++) {
		f = fopen(path, "r");
		if (!f)
			return "needs /proc/PID/wchan";
		if (!fgets(line, sizeof(line), f))
			line[0] = 0;
		fclose(f);
		if (strstr(line, name))
			return NULL;
		usleep(1000);
	}
	return "does not see where a thread waits in the kernel";
}

/*
 * A callback that runs while its work is cancelled notes at its end that the work
 * has been served. That must be forgotten as well: otherwise the next work in that
 * place would never be called in this context.
 */
TEST_F(engine, a_work_in_the_place_of_one_that_was_cancelled_in_its_callback_is_called)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_READ, .len = 1 };
	struct log *log = &self->s.log;
	struct log_entry *first, *r, *c;
	struct actor actor;
	struct side cancel;
	int pipefd[2], ring;
	char byte;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	ASSERT_EQ(0, pipe(pipefd));
	sqe.fd = pipefd[0];
	sqe.addr = (unsigned long)&byte;
	ring = uring_open(&sqe);
	ASSERT_LE(0, ring);
	ASSERT_TRUE(actor_start(&actor, -1));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "hold 0"));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:__x64_sys_io_uring_enter",
			      actor.tid, "1 task 0 1"));
	/* The callback comes in the middle of the call, and is held there. */
	actor.call = (struct chain_call){
		.nr = SYS_io_uring_enter,
		.args = { ring, 1, 1, IORING_ENTER_GETEVENTS },
	};
	set_flag(&actor.go, 1);
	ASSERT_EQ(0, session_wait(&self->s, 'C', 0, 1));
	/* Cancel is to be as far as it can get when the callback ends. */
	ASSERT_TRUE(side_start(&cancel, cancel_work_0, &self->s));
	if (must_skip(_metadata, wait_in_kernel(cancel.tid, "synchronize_srcu")))
		return;
	ASSERT_EQ(0, mod_cmd(self->s.fd, "release 0"));
	EXPECT_EQ(0, side_end(&cancel));
	/* Work 0 again: the lowest place that is free is the same one. */
	ASSERT_EQ(0, mod_cmd(self->s.fd, "init 0"));
	ASSERT_EQ(0, probe_on(&self->s, 1, "tp:sys_exit", actor.tid, "1 task 0 1"));
	ASSERT_EQ(0, actor_feed(&actor, pipefd[1]));
	actor_end(&actor);
	close(ring);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	first = log_at(log, "kprobe:__x64_sys_io_uring_enter", 0, 0);
	r = log_asked(log, "tp:sys_exit", 0, UT_QUEUED);
	ASSERT_TRUE(first && r);
	EXPECT_EQ(first->cookie, r->cookie);
	ASSERT_EQ(2, log_count(log, 'C', 0));
	c = log_find(log, 'C', 0, 1);
	EXPECT_EQ(r->cookie, c->cookie);
	EXPECT_LT(r->seq, c->seq);
	EXPECT_TRUE(log_is_chain(c));
}

/*
 * While a callback runs, the trace is not yet available to everybody: an NMI that
 * hits the callback is told that its work is pending.
 */
TEST_F(engine, request_from_within_the_callback_is_still_pending)
{
	struct log *log = &self->s.log;
	struct actor actor;
	char cmd[] = "req 1 task";

	if (must_skip(_metadata, need_cpus(2)))
		return;
	ASSERT_TRUE(actor_start(&actor, nth_cpu(1)));
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "hold 0"));
	/* The callback sleeps: the context switch hits in the middle of it. */
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:prepare_to_wait_event",
			      actor.tid, "1 nmi 0 1"));
	actor_go(&actor, SYS_write, self->s.fd, (long)cmd, sizeof(cmd) - 1);
	while (!log_at(log, "kprobe:prepare_to_wait_event", 0, 0)) {
		usleep(1000);
		ASSERT_EQ(0, mod_log(self->s.fd, log));
	}
	ASSERT_EQ(0, mod_cmd(self->s.fd, "release 0"));
	wait_flag(&actor.done);
	actor_end(&actor);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	EXPECT_EQ(UT_ALREADY_PENDING,
		  log_at(log, "kprobe:prepare_to_wait_event", 0, 0)->ret);
	EXPECT_EQ(log_at(log, "write", 0, 0)->cookie,
		  log_at(log, "kprobe:prepare_to_wait_event", 0, 0)->cookie);
	EXPECT_EQ(1, log_count(log, 'C', 0));
}

/* Another work that asks meanwhile gets its own, in the same context. */
TEST_F(engine, request_by_another_work_within_the_callback_is_answered)
{
	struct log *log = &self->s.log;
	struct log_entry *r;

	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:callback", my_tid(), "2 task 0 1"));
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 task"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	r = log_asked(log, "kprobe:callback", 1, UT_QUEUED);
	ASSERT_NE(NULL, r);
	EXPECT_EQ(log_find(log, 'R', 0, 0)->cookie, r->cookie);
	EXPECT_EQ(1, log_count(log, 'C', 0));
	ASSERT_EQ(1, log_count(log, 'C', 1));
	EXPECT_TRUE(log_is_chain(log_answer(log, 1, r->cookie)));
}

/* Kernel threads have no user stack. */
TEST_F(engine, kernel_thread_is_refused)
{
	struct log *log = &self->s.log;

	ASSERT_EQ(0, mod_cmd(self->s.fd, "req 1 kthread"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(1, log_count(log, 'R', 0));
	EXPECT_EQ(-EINVAL, log_find(log, 'R', 0, 0)->ret);
	EXPECT_EQ(0, log_find(log, 'R', 0, 0)->cookie);
	EXPECT_NE(my_tid(), log_find(log, 'R', 0, 0)->tid);
	EXPECT_EQ(0, log_count(log, 'C', 0));
}

/* A user worker of io_uring: user mm, but no user stack. */
TEST_F(engine, io_worker_is_refused)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_READ,
		.flags = IOSQE_ASYNC,
	};
	struct log *log = &self->s.log;
	unsigned int refused = 0, i;
	char buf[16];
	int ring;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	sqe.fd = open("/dev/zero", O_RDONLY);
	ASSERT_LE(0, sqe.fd);
	sqe.addr = (unsigned long)buf;
	sqe.len = sizeof(buf);
	ring = uring_open(&sqe);
	if (ring == -EPERM)
		SKIP(return, "needs io_uring");
	ASSERT_LE(0, ring);

	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:io_read", -getpid(), "1 task 0 9"));
	ASSERT_EQ(1, syscall(SYS_io_uring_enter, ring, 1, 1,
			     IORING_ENTER_GETEVENTS, NULL, 0));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "unprobe 0"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	for (i = 0; i < log->nr; i++) {
		if (log->entries[i].type != 'R' ||
		    log->entries[i].tid == my_tid())
			continue;
		EXPECT_EQ(-EINVAL, log->entries[i].ret);
		refused++;
	}
	EXPECT_EQ(1, refused);
	EXPECT_EQ(0, log_count(log, 'C', 0));
}

static void *alloc_fails_main(void *arg)
{
	struct session *s = arg;

	/* The first allocation of this thread from here on is the cache's. */
	if (write_file(FAIL_NTH, "1"))
		return (void *)1;
	chain_cmd(s->fd, "req 3 task");
	write_file(FAIL_NTH, "0");
	chain_cmd(s->fd, "req 1 task");
	return NULL;
}

struct pauser {
	int tid;
	int go;
};

/* Its next allocation fails, and that is the one for the trace. */
static void *pause_main(void *arg)
{
	struct pauser *pauser = arg;
	int fd = open(FAIL_NTH, O_WRONLY);

	set_flag(&pauser->tid, my_tid());
	while (!get_flag(&pauser->go))
		;
	if (write(fd, "1", 1) == 1)
		chain0(SYS_pause);
	close(fd);
	return NULL;
}

/* No memory for the trace: an empty one, once; the next entry is fine. */
TEST_F(engine, failed_allocation_gives_an_empty_trace_once)
{
	struct log *log = &self->s.log;
	pthread_t thread;
	void *failed;

	if (must_skip(_metadata, need_failing_allocations()))
		return;
	ASSERT_EQ(0, let_allocations_fail(true));
	ASSERT_EQ(0, pthread_create(&thread, NULL, alloc_fails_main, &self->s));
	ASSERT_EQ(0, pthread_join(thread, &failed));
	let_allocations_fail(false);
	ASSERT_EQ(NULL, failed);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(3, log_count(log, 'R', -1));
	ASSERT_EQ(2, log_count(log, 'C', 0));
	ASSERT_EQ(1, log_count(log, 'C', 1));
	EXPECT_EQ(NULL, log_unpaired(log));
	EXPECT_EQ(0, log_find(log, 'C', 0, 0)->nr);
	EXPECT_EQ(0, log_find(log, 'C', 1, 0)->nr);
	EXPECT_TRUE(log_is_chain(log_find(log, 'C', 0, 1)));
}

/* There is no second callback, and other requests in this entry are refused. */
TEST_F(engine, request_after_a_failed_allocation_is_refused)
{
	struct log *log = &self->s.log;
	struct pauser pauser = { };
	struct log_entry *r;
	pthread_t thread;

	if (must_skip(_metadata, need_failing_allocations()))
		return;
	signal(SIGUSR1, ignore_signal);
	ASSERT_EQ(0, let_allocations_fail(true));
	ASSERT_EQ(0, pthread_create(&thread, NULL, pause_main, &pauser));
	wait_flag(&pauser.tid);
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:__x64_sys_pause", pauser.tid, "1 task 0 1"));
	/* The signal makes it unwind; this request follows. */
	ASSERT_EQ(0, probe_on(&self->s, 1, "tp:signal_deliver", pauser.tid, "3 task 0 1"));
	set_flag(&pauser.go, 1);
	ASSERT_TRUE(wait_blocked(pauser.tid, SYS_pause));
	ASSERT_EQ(0, syscall(SYS_tgkill, getpid(), pauser.tid, SIGUSR1));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	let_allocations_fail(false);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(1, log_count(log, 'C', -1));
	EXPECT_EQ(0, log_find(log, 'C', 0, 0)->nr);
	r = log_at(log, "tp:signal_deliver", 0, 0);
	ASSERT_NE(NULL, r);
	EXPECT_EQ(-ENOMEM, r->ret);
	r = log_at(log, "tp:signal_deliver", 1, 0);
	ASSERT_NE(NULL, r);
	EXPECT_EQ(-ENOMEM, r->ret);
}

/*
 * The normal state of a container: at its limit, with nearly all of that page cache.
 * Then the first trace of each thread needs a page that has to be reclaimed.
 */
#define FULL_LIMIT	(40UL << 20)
#define FULL_THREADS	150

static pthread_barrier_t full_barrier;
static size_t full_read;

static void *full_main(void *arg)
{
	/* Whatever memory that takes */
	chain0(SYS_gettid);
	pthread_barrier_wait(&full_barrier);
	/* Memory is full. Until all have a trace, nobody makes room for another. */
	pthread_barrier_wait(&full_barrier);
	chain0(SYS_getppid);
	pthread_barrier_wait(&full_barrier);
	return NULL;
}

static int full_read_file(const char *path, const struct stat *st, int type)
{
	static char buf[1 << 20];
	ssize_t len;
	int fd;

	fd = type == FTW_F && S_ISREG(st->st_mode) ? open(path, O_RDONLY) : -1;
	if (fd < 0)
		return 0;
	/* Pages in memory already are charged to others. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	while ((len = read(fd, buf, sizeof(buf))) > 0)
		full_read += len;
	close(fd);
	return full_read > FULL_LIMIT + (FULL_LIMIT >> 2);
}

#define FULL_DIR	"/sys/fs/cgroup/unwind_full"

/* The container's only process. Returns its exit status. */
static int full_process(int fd)
{
	pthread_t threads[FULL_THREADS];
	pthread_attr_t attr;
	int i;

	if (mod_cmd(fd, "probe 0 kprobe:__x64_sys_getppid %d 1 task 0 %d",
		    -getpid(), FULL_THREADS) ||
	    write_file(FULL_DIR "/cgroup.procs", "0"))
		return 1;
	pthread_barrier_init(&full_barrier, NULL, FULL_THREADS + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (i = 0; i < FULL_THREADS; i++) {
		if (pthread_create(&threads[i], &attr, full_main, NULL))
			return 2;
	}
	pthread_barrier_wait(&full_barrier);
	if (ftw("/usr/lib", full_read_file, 16) != 1)
		return KSFT_SKIP;
	/* The limit is exact to the page: the first one drains the CPUs' stocks. */
	for (i = 1; i >= 0; i--)
		up_write_number(FULL_DIR "/memory.max", i * -4096 +
				up_read_number(FULL_DIR "/memory.current"));
	pthread_barrier_wait(&full_barrier);
	pthread_barrier_wait(&full_barrier);
	for (i = 0; i < FULL_THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

TEST_F(engine, container_full_of_page_cache_has_no_empty_trace)
{
	struct log *log = &self->s.log;
	struct log_entry *c;
	unsigned int i, empty = 0;
	int status;
	pid_t pid;

	if (must_skip(_metadata, need_file("/sys/fs/cgroup/cgroup.controllers")))
		return;
	write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	mkdir(FULL_DIR, 0755);
	if (must_skip(_metadata, need_file(FULL_DIR "/memory.max")))
		return;
	ASSERT_EQ(0, up_write_number(FULL_DIR "/memory.max", FULL_LIMIT));
	pid = fork();
	if (!pid)
		_exit(full_process(self->s.fd));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	rmdir(FULL_DIR);
	ASSERT_TRUE(WIFEXITED(status));
	if (WEXITSTATUS(status) == KSFT_SKIP)
		SKIP(return, "needs 50 MB of files in /usr/lib");
	ASSERT_EQ(0, WEXITSTATUS(status));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(FULL_THREADS, log_rets(log, 0, UT_QUEUED));
	ASSERT_EQ(FULL_THREADS, log_count(log, 'C', 0));
	for (i = 0; i < FULL_THREADS; i++) {
		c = log_find(log, 'C', 0, i);
		empty += !c->nr;
		if (c->nr)
			EXPECT_TRUE(log_is_chain(c));
	}
	EXPECT_EQ(0, empty);
}

/* Two made-up frames in memory of the test's choice. */
struct frames {
	uint64_t fp0, ret0;
	uint64_t fp1, ret1;
};

#define RET0	0x11111000UL
#define RET1	0x22222000UL

static void set_frames(struct frames *frames, unsigned long at)
{
	frames->fp0 = at + offsetof(struct frames, fp1);
	frames->ret0 = RET0;
	frames->fp1 = 0;
	frames->ret1 = RET1;
}

/* Part of the stack was never touched by this process: it is read in. */
TEST_F(engine, stack_page_that_is_not_resident_is_faulted_in)
{
	struct log *log = &self->s.log;
	struct frames frames;
	struct log_entry *c;
	char cmd[] = "req 1 nmi";
	char *stack, *map;
	int file;

	stack = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, stack);
	file = memfd_create("stack", MFD_CLOEXEC);
	ASSERT_GE(file, 0);
	ASSERT_TRUE(map_code(RET0, 1));
	ASSERT_TRUE(map_code(RET1, 1));
	set_frames(&frames, (unsigned long)stack + 4096);
	ASSERT_EQ(sizeof(frames), write(file, &frames, sizeof(frames)));
	ASSERT_EQ(0, ftruncate(file, 4096));
	map = mmap(stack + 4096, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_FIXED, file, 0);
	ASSERT_EQ(stack + 4096, map);
	stack[0] = 1;

	ASSERT_EQ(sizeof(cmd) - 1,
		  framed_syscall(SYS_write, self->s.fd, (long)cmd,
				 sizeof(cmd) - 1, stack + 4096, map));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	c = log_only(log, 'C', 0);
	EXPECT_TRUE(log_is_trace(c, 3, framed_ip_syscall, (void *)RET0, (void *)RET1));
}

struct stalled {
	int fd;
	char *stack;
};

static alignas(16) char clone_stack[65536];

static int stalled_main(void *arg)
{
	static const char cmd[] = "req 1 task";
	struct stalled *stalled = arg;

	framed_syscall(SYS_write, stalled->fd, (long)cmd, sizeof(cmd) - 1,
		       stalled->stack + 2048, stalled->stack + 4096);
	return 77;
}

/*
 * The disk withholds a page of the stack: the unwind waits for it, but a kill ends
 * the wait, and the callback runs.
 */
TEST_F(engine, unwind_that_waits_for_a_page_can_be_killed)
{
	struct log *log = &self->s.log;
	struct stalled stalled;
	struct slow_disk disk;
	char *stack;
	int status;
	pid_t pid;

	if (must_skip(_metadata, need_slow_disk()))
		return;
	stack = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, stack);
	stack[0] = 1;
	ASSERT_TRUE(slow_page_map(&disk, stack + 4096, NULL));

	stalled.fd = self->s.fd;
	stalled.stack = stack;
	pid = clone(stalled_main, clone_stack + sizeof(clone_stack),
		    CLONE_VM | SIGCHLD, &stalled);
	ASSERT_GT(pid, 0);
	ASSERT_TRUE(slow_page_is_asked_for(&disk));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(0, log_count(log, 'C', 0));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_TRUE(log_is_trace(log_only(log, 'C', 0), 1, framed_ip_syscall));
}

TEST_HARNESS_MAIN
