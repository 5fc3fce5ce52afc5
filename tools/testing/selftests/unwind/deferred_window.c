// SPDX-License-Identifier: GPL-2.0
/*
 * The last steps to user mode: events that fire there, and NMIs at every point
 * of them. A request there is refused or answered, with the frames of this
 * entry; it is never carried to the next one, and never makes the task go
 * round. Also: the static key that switches all of this on, and the state that tasks
 * still have from before.
 */
#include <time.h>

#include "engine_test.h"
#include "unwind_perf.h"
#include "unwind_harness.h"

#define ENTRIES		500

FIXTURE(window)
{
	struct session s;
};

FIXTURE_SETUP(window)
{
	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&self->s, 3));
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
}

FIXTURE_TEARDOWN(window)
{
	session_end(&self->s);
}

/* Make many entries with a probe in place; then nothing may be left open. */
static int enter_many(struct session *s, const char *point, const char *ctx,
		      int max, const char *caller)
{
	int ret, i;

	ret = mod_cmd(s->fd, "probe 0 %s %d 1 %s 0 %d %s", point, my_tid(), ctx,
		      max, caller);
	if (ret)
		return ret;
	for (i = 0; i < ENTRIES; i++)
		chain0(SYS_getppid);
	ret = mod_cmd(s->fd, "unprobe 0");
	return ret ?: mod_log(s->fd, &s->log);
}

/*
 * Checks that hold for all of these: each cookie has exactly one record, which
 * came before any request of this task got another cookie. Returns what is
 * wrong, or an empty string.
 */
static const char *check_order(struct log *log, pid_t tid)
{
	uint64_t open = 0, last = 0;
	unsigned int i;

	if (log->overflow)
		return "the log was full";
	if (log_unpaired(log))
		return "a cookie without exactly one record";
	for (i = 0; i < log->nr; i++) {
		struct log_entry *e = &log->entries[i];

		if (e->tid != tid || (e->type != 'R' && e->type != 'C'))
			continue;
		if (e->type == 'C') {
			if (e->cookie != open)
				return "a record nobody waits for";
			last = open;
			open = 0;
			continue;
		}
		if (e->ret < 0 || e->ret == UT_ALREADY_EXECUTED)
			continue;
		if (open && e->cookie != open)
			return "a new cookie before the record of the last one";
		if (e->ret == UT_ALREADY_PENDING && !open) {
			/* The callback has logged, but not returned. */
			if (e->cookie != last)
				return "pending, but nothing is";
			continue;
		}
		open = e->cookie;
	}
	return open ? "a cookie without a record" : "";
}

/* Drop everything else from the log. */
static void keep_work(struct log *log, int work)
{
	unsigned int i, nr = 0;

	for (i = 0; i < log->nr; i++) {
		if (log->entries[i].work == work)
			log->entries[nr++] = log->entries[i];
	}
	log->nr = nr;
}

static unsigned int count_chains(struct log *log)
{
	unsigned int i, nr = 0;

	for (i = 0; i < log->nr; i++)
		nr += log->entries[i].type == 'C' &&
		      chain_syscall_ok(log->entries[i].ips, log->entries[i].nr);
	return nr;
}

/*
 * preemptirq:irq_enable fires after the last look at the flags. In task context
 * nothing could be queued: refused, each time.
 */
TEST_F(window, irq_enable_on_the_way_out_is_refused_in_task_context)
{
	struct log *log = &self->s.log;

	if (must_skip(_metadata, need_tracepoint("preemptirq", "irq_enable")))
		return;
	ASSERT_EQ(0, enter_many(&self->s, "tp:irq_enable", "task", 100000,
				"syscall_exit_to_user_mode"));
	/* Each entry's last one; a reschedule before it has another, answered. */
	EXPECT_GE(log_rets(log, 0, -EINVAL), ENTRIES);
	EXPECT_STREQ("", check_order(log, my_tid()));
}

/* A request from an NMI there is answered, after the return, with the right frames. */
TEST_F(window, nmi_at_irq_enable_on_the_way_out_is_answered_in_place)
{
	struct log *log = &self->s.log;

	if (must_skip(_metadata, need_tracepoint("preemptirq", "irq_enable")))
		return;
	ASSERT_EQ(0, enter_many(&self->s, "tp:irq_enable", "nmi", 100000,
				"syscall_exit_to_user_mode"));
	EXPECT_GE(log_rets(log, 0, UT_QUEUED), ENTRIES);
	EXPECT_EQ(0, log_rets(log, 0, -EINVAL));
	EXPECT_STREQ("", check_order(log, my_tid()));
	EXPECT_GE(count_chains(log), ENTRIES);
}

/* All irq_enable events of the task, most of them far from the way out. */
TEST_F(window, irq_enable_everywhere_makes_no_livelock)
{
	struct log *log = &self->s.log;

	if (must_skip(_metadata, need_tracepoint("preemptirq", "irq_enable")))
		return;
	ASSERT_EQ(0, enter_many(&self->s, "tp:irq_enable", "task", 5000, ""));
	EXPECT_GE(log_count(log, 'R', 0), ENTRIES);
	EXPECT_STREQ("", check_order(log, my_tid()));
}

/* context_tracking:user_enter is even later. */
TEST_F(window, user_enter_is_refused_in_task_context)
{
	struct log *log = &self->s.log;

	if (must_skip(_metadata, need_tracepoint("context_tracking", "user_enter")))
		return;
	ASSERT_EQ(0, enter_many(&self->s, "tp:user_enter", "task", 100000, ""));
	EXPECT_GE(log_count(log, 'R', 0), ENTRIES);
	EXPECT_EQ(log_count(log, 'R', 0), log_rets(log, 0, -EINVAL));
	EXPECT_EQ(0, log_count(log, 'C', 0));
}

/*
 * Each answer takes an interrupt, whose return is the next hit: three in a row
 * here, all of them in the entry that sets the probe up, and with its frames.
 */
TEST_F(window, nmi_at_user_enter_is_answered_in_place)
{
	struct log *log = &self->s.log;
	int i;

	if (must_skip(_metadata, need_tracepoint("context_tracking", "user_enter")))
		return;
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, chain_cmd(self->s.fd,
				       "probe 0 tp:user_enter %d 1 nmi 0 3",
				       my_tid()));
		ASSERT_EQ(0, mod_cmd(self->s.fd, "unprobe 0"));
	}
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(300, log_count(log, 'R', 0));
	EXPECT_EQ(300, log_rets(log, 0, UT_QUEUED));
	EXPECT_STREQ("", check_order(log, my_tid()));
	EXPECT_EQ(300, count_chains(log));
}

/* sys_exit comes before the loop: an ordinary request. */
TEST_F(window, sys_exit_is_answered_in_every_entry)
{
	struct log *log = &self->s.log;

	if (must_skip(_metadata, need_tracepoint("raw_syscalls", "sys_exit")))
		return;
	ASSERT_EQ(0, enter_many(&self->s, "tp:sys_exit", "task", 100000, ""));
	EXPECT_GE(log_count(log, 'R', 0), ENTRIES);
	EXPECT_EQ(log_count(log, 'R', 0), log_rets(log, 0, UT_QUEUED));
	EXPECT_STREQ("", check_order(log, my_tid()));
	EXPECT_EQ(ENTRIES, count_chains(log));
}

/*
 * An NMI at the entry of the function that ends a context: the context is
 * still the old one, whose callback is done, or a new one; never cookie 0.
 */
TEST_F(window, nmi_at_the_reset_sees_the_old_context_or_none)
{
	struct log *log = &self->s.log;
	unsigned int i;

	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:unwind_context_reset", my_tid(),
			      "1 nmi 0 100000"));
	ASSERT_EQ(0, enter_many(&self->s, "tp:sys_exit", "task", 100000, ""));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "unprobe 1"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_GE(log_count(log, 'R', 0), 2 * ENTRIES);
	EXPECT_EQ(0, log_rets(log, 0, -EINVAL));
	for (i = 0; i < log->nr; i++) {
		if (log->entries[i].type == 'R')
			ASSERT_NE(0, log->entries[i].cookie);
	}
	EXPECT_STREQ("", check_order(log, my_tid()));
}

/* In the scheduler, under its raw lock: no deadlock, and answered. */
TEST_F(window, sched_switch_is_answered)
{
	struct log *log = &self->s.log;
	int i;

	ASSERT_EQ(0, probe_on(&self->s, 0, "tp:sched_switch", my_tid(), "1 task 0 200"));
	for (i = 0; i < 50; i++) {
		struct { long sec, nsec; } delay = { 0, 1000000 };

		chain_syscall(SYS_nanosleep, (long)&delay, 0, 0, 0, 0, 0);
	}
	ASSERT_EQ(0, mod_cmd(self->s.fd, "unprobe 0"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	/* Not each of them need have slept: the timer can be faster. */
	EXPECT_GE(log_count(log, 'R', 0), 25);
	EXPECT_EQ(0, log_rets(log, 0, -EINVAL));
	EXPECT_STREQ("", check_order(log, my_tid()));
	EXPECT_GE(count_chains(log), 25);
}

struct storm {
	int stop;
	int tid;
	int cpu;
};

static void *storm_main(void *arg)
{
	struct storm *storm = arg;

	pin_to_cpu(storm->cpu);
	set_flag(&storm->tid, my_tid());
	while (!get_flag(&storm->stop))
		chain0(SYS_getppid);
	return NULL;
}

/*
 * NMIs from another CPU at arbitrary moments of a task that enters and leaves
 * the kernel all the time: each cookie has one record, before the next one.
 * How many NMIs hit the same entry depends on the machine, so they are sent
 * until enough entries were hit.
 */
TEST_F_TIMEOUT(window, nmi_storm_gives_each_cookie_exactly_one_record, 120)
{
	struct log *log = &self->s.log;
	int queued, sum;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	for (sum = 0; sum < 1000; sum += queued) {
		struct storm storm = { .cpu = nth_cpu(1) };
		pthread_t thread;

		ASSERT_EQ(0, pthread_create(&thread, NULL, storm_main, &storm));
		wait_flag(&storm.tid);
		ASSERT_EQ(0, mod_cmd(self->s.fd, "req 3 nmi %d 2000 7", storm.cpu));
		set_flag(&storm.stop, 1);
		pthread_join(thread, NULL);
		ASSERT_EQ(0, mod_log(self->s.fd, log));
		EXPECT_EQ(0, log->overflow);
		EXPECT_EQ(4000, log_count(log, 'R', -1));
		EXPECT_EQ(NULL, log_unpaired(log));
		/* The two works share a cookie: check the order of one of them. */
		keep_work(log, 0);
		EXPECT_STREQ("", check_order(log, storm.tid));
		queued = log_rets(log, 0, UT_QUEUED);
		ASSERT_LT(0, queued);
		log_free(log);
	}
}

/* ------------------------------------------------------- the static key */

FIXTURE(key)
{
	struct session s;
};

FIXTURE_SETUP(key)
{
	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&self->s, 2));
}

FIXTURE_TEARDOWN(key)
{
	session_end(&self->s);
}

/* While nobody is armed, requests are refused; then they work again. */
TEST_F(key, requests_are_refused_while_nobody_is_armed)
{
	struct log *log = &self->s.log;

	ASSERT_STREQ("", switch_off(&self->s));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "req 1 task"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "req 1 irq"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "req 1 nmi"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(3, log_rets(log, 0, -EINVAL));
	EXPECT_EQ(0, log_count(log, 'C', 0));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "arm"));
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 task"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(1, log_rets(log, 0, UT_QUEUED));
	ASSERT_EQ(1, log_count(log, 'C', 0));
	EXPECT_TRUE(log_is_chain(log_find(log, 'C', 0, 0)));
}

/* Armed twice, disarmed once: still armed. */
TEST_F(key, one_of_two_armed_users_is_enough)
{
	struct log *log = &self->s.log;
	int i;

	ASSERT_EQ(0, mod_cmd(self->s.fd, "arm"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "disarm"));
	for (i = 0; i < 30; i++) {
		usleep(100000);
		ASSERT_EQ(0, mod_cmd(self->s.fd, "req 1 task"));
	}
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(30, log_rets(log, 0, UT_QUEUED));
	EXPECT_EQ(30, log_count(log, 'C', 0));
}

static int stall_rcu(void *arg)
{
	pin_to_cpu(nth_cpu(1));
	return mod_cmd(*(int *)arg, "stall 0");
}

/*
 * Arming the engine after it has gone off does not wait for a grace period: it is done
 * with locks held that others need, those of tracepoints.
 */
TEST_F(key, arming_does_not_wait_for_a_grace_period)
{
	struct log *log = &self->s.log;
	struct side reader;
	time_t start;
	int tries;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	for (tries = 1; ; tries++) {
		ASSERT_STREQ("", switch_off(&self->s));
		/* If this is not over, it waits for the reader, and so do others. */
		usleep(tries * 1000000);
		ASSERT_EQ(0, mod_cmd(self->s.fd, "arm"));
		ASSERT_EQ(0, mod_cmd(self->s.fd, "hold 0"));
		ASSERT_TRUE(side_start(&reader, stall_rcu, &self->s.fd));
		usleep(500000);
		start = time(NULL);
		session_forget(&self->s);
		ASSERT_EQ(0, mod_cmd(self->s.fd, "disarm"));
		/* It goes off after a second. */
		while (!log_rets(log, 1, -EINVAL) && !get_flag(&reader.done)) {
			usleep(50000);
			ASSERT_EQ(0, mod_cmd(self->s.fd, "req 2 task"));
			log_free(log);
			ASSERT_EQ(0, mod_log(self->s.fd, log));
		}
		/* A reader gives up before RCU would complain: that is far off? */
		if (time(NULL) - start < 6)
			break;
		ASSERT_EQ(0, mod_cmd(self->s.fd, "release 0"));
		side_end(&reader);
		ASSERT_EQ(0, mod_cmd(self->s.fd, "arm"));
		if (tries == 2)
			SKIP(return, "too slow: the engine takes many seconds to go off");
	}
	start = time(NULL);
	ASSERT_EQ(0, mod_cmd(self->s.fd, "arm"));
	EXPECT_EQ(0, get_flag(&reader.done)) {
		TH_LOG("arming took %ld s", (long)(time(NULL) - start));
	}
	session_forget(&self->s);
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 2 task"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "release 0"));
	EXPECT_EQ(0, side_end(&reader));
	/* It stays on: contexts end. */
	usleep(1000000);
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 2 task"));
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 2 task"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(3, log_rets(log, 1, UT_QUEUED));
	EXPECT_EQ(3, log_count(log, 'C', 1));
	EXPECT_EQ(NULL, log_unpaired(log));
}

static int open_perf_event(uint64_t sample_type, bool exclude_user)
{
	struct perf_event_attr attr;

	perf_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY,
		       UT_ATTR_DEFER_CALLCHAIN);
	attr.sample_type = sample_type;
	attr.exclude_callchain_user = exclude_user;
	return perf_open(&attr, 0, -1, -1, 0);
}

/* An event of perf is armed from where it is opened to where it is closed. */
TEST_F(key, perf_event_is_armed_as_long_as_it_is_open)
{
	struct log *log = &self->s.log;
	int fd;

	ASSERT_STREQ("", switch_off(&self->s));
	fd = open_perf_event(PERF_SAMPLE_CALLCHAIN, false);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 task"));
	close(fd);
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(1, log_rets(log, 0, UT_QUEUED));
	EXPECT_EQ(1, log_count(log, 'C', 0));
	/* After this disarm nobody is left. */
	session_forget(&self->s);
	ASSERT_EQ(0, mod_cmd(self->s.fd, "arm"));
	EXPECT_STREQ("", switch_off(&self->s));
}

/* An event that never asks for a user stack is not armed. */
TEST_F(key, perf_event_without_user_callchains_is_not_armed)
{
	struct log *log = &self->s.log;
	int fds[2];

	ASSERT_STREQ("", switch_off(&self->s));
	fds[0] = open_perf_event(PERF_SAMPLE_IP, false);
	fds[1] = open_perf_event(PERF_SAMPLE_CALLCHAIN, true);
	ASSERT_TRUE(fds[0] >= 0 && fds[1] >= 0);
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 task"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(1, log_rets(log, 0, -EINVAL));
	EXPECT_EQ(0, log_count(log, 'C', 0));
	close(fds[0]);
	close(fds[1]);
}

/*
 * A task sleeps with a request pending while the engine goes off and on again.
 * When it asks again in the same entry its callback is still queued: it must
 * not be queued twice, and both requests get the one record.
 */
TEST_F(key, callback_still_queued_from_before_is_not_queued_twice)
{
	struct log *log = &self->s.log;
	struct log_entry *old, *again;
	struct actor actor;
	int pipefd[2];
	char byte;

	ASSERT_EQ(0, pipe(pipefd));
	ASSERT_TRUE(actor_start(&actor, -1));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:vfs_read", actor.tid, "1 task 0 1"));
	actor_go(&actor, SYS_read, pipefd[0], (long)&byte, 1);
	ASSERT_TRUE(wait_blocked(actor.tid, SYS_read));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "unprobe 0"));
	ASSERT_STREQ("", switch_off(&self->s));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "arm"));
	/* When it wakes up; and on its way out. */
	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:touch_atime", actor.tid, "1 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 2, "tp:sys_exit", actor.tid, "1 task 0 1"));
	ASSERT_EQ(0, actor_feed(&actor, pipefd[1]));
	actor_end(&actor);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	old = log_asked(log, "kprobe:vfs_read", 0, UT_QUEUED);
	again = log_asked(log, "tp:sys_exit", 0, UT_ALREADY_PENDING);
	ASSERT_TRUE(old && again);
	EXPECT_EQ(old->cookie, again->cookie);
	EXPECT_EQ(1, log_count(log, 'C', 0));
	EXPECT_TRUE(log_is_chain(log_answer(log, 0, old->cookie)));
}

/*
 * A thread that waits in io_uring_enter() for a byte from a pipe. Requests that it
 * has made by then are answered, so that it goes back to user space with a context
 * which only the hook on the way out would end.
 */
struct waiter {
	struct actor	actor;
	int		pipefd[2];
	int		ring;
	char		byte;
};

static const char *waiter_start(struct waiter *waiter)
{
	if (pipe(waiter->pipefd))
		return "no pipe";
	return actor_start(&waiter->actor, -1) ? NULL : "no thread";
}

static const char *waiter_wait(struct waiter *waiter)
{
	struct io_uring_sqe sqe = {
		.opcode	= IORING_OP_READ,
		.fd	= waiter->pipefd[0],
		.addr	= (unsigned long)&waiter->byte,
		.len	= 1,
	};
	struct actor *actor = &waiter->actor;

	waiter->ring = uring_open(&sqe);
	if (waiter->ring < 0)
		return "needs io_uring";
	actor->call = (struct chain_call){
		.nr = SYS_io_uring_enter,
		.args = { waiter->ring, 1, 1, IORING_ENTER_GETEVENTS },
	};
	set_flag(&actor->done, 0);
	set_flag(&actor->go, 1);
	return wait_blocked(actor->tid, SYS_io_uring_enter) ? NULL : "it does not wait";
}

static void waiter_wake(struct waiter *waiter)
{
	if (write(waiter->pipefd[1], "x", 1) != 1)
		abort();
	wait_flag(&waiter->actor.done);
	close(waiter->ring);
}

/* Have @waiter back in user space with a context that nobody has ended. */
static void leave_context(struct __test_metadata *_metadata,
			  struct session *s, struct waiter *waiter)
{
	ASSERT_EQ(0, probe_on(s, 0, "kprobe:__x64_sys_io_uring_enter",
			      waiter->actor.tid, "1 task 0 1"));
	ASSERT_EQ(NULL, waiter_wait(waiter));
	ASSERT_EQ(0, session_wait(s, 'C', 0, 1));
	ASSERT_EQ(0, mod_cmd(s->fd, "unprobe 0"));
	ASSERT_STREQ("", switch_off(s));
	waiter_wake(waiter);
}

/* The answer that @waiter, which waits, gets when the engine is on again */
static void ask_again(struct __test_metadata *_metadata, struct session *s,
		      struct waiter *waiter)
{
	struct log *log = &s->log;
	struct log_entry *old, *new, *c;

	ASSERT_EQ(0, mod_cmd(s->fd, "arm"));
	ASSERT_EQ(0, probe_on(s, 1, "tp:sys_exit", waiter->actor.tid, "1 task 0 1"));
	waiter_wake(waiter);
	actor_end(&waiter->actor);
	ASSERT_EQ(0, mod_log(s->fd, log));

	old = log_at(log, "kprobe:__x64_sys_io_uring_enter", 0, 0);
	new = log_asked(log, "tp:sys_exit", 0, UT_QUEUED);
	ASSERT_TRUE(old && new);
	EXPECT_NE(old->cookie, new->cookie);
	EXPECT_EQ(2, log_count(log, 'C', 0));
	c = log_answer(log, 0, new->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_LT(new->seq, c->seq);
	EXPECT_TRUE(log_is_chain(c));
}

/*
 * A task goes back to user space while the engine is off: nothing resets its
 * context. When the engine is on again, that left-over is not taken for a live
 * context: a new cookie, and a walk of its own.
 */
TEST_F(key, context_left_from_before_is_not_taken_for_a_live_one)
{
	struct waiter waiter = { };

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	ASSERT_EQ(NULL, waiter_start(&waiter));
	leave_context(_metadata, &self->s, &waiter);
	/* Back in the kernel while it is off: no hook sees it before it asks. */
	ASSERT_EQ(NULL, waiter_wait(&waiter));
	ask_again(_metadata, &self->s, &waiter);
}

/*
 * A CPU is in user mode, that is closed, when the engine goes off; nothing opens it
 * after that. When the engine is on again it is open for the next entry.
 */
TEST_F(key, cpu_that_was_in_user_mode_when_it_went_off_is_open_again)
{
	struct log *log = &self->s.log;
	struct actor actor, spinner;
	int pipefd[2];
	char byte;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	ASSERT_EQ(0, pipe(pipefd));
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	ASSERT_TRUE(spinner_start(&spinner, nth_cpu(1)));
	ASSERT_STREQ("", switch_off(&self->s));
	actor_end(&spinner);

	ASSERT_TRUE(actor_start(&actor, nth_cpu(1)));
	actor_go(&actor, SYS_read, pipefd[0], (long)&byte, 1);
	ASSERT_TRUE(wait_blocked(actor.tid, SYS_read));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "arm"));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:touch_atime", actor.tid, "1 task 0 1"));
	ASSERT_EQ(0, actor_feed(&actor, pipefd[1]));
	actor_end(&actor);
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(1, log_rets(log, 0, UT_QUEUED));
	ASSERT_EQ(1, log_count(log, 'C', 0));
	EXPECT_TRUE(log_is_chain(log_find(log, 'C', 0, 0)));
}

TEST_HARNESS_MAIN
