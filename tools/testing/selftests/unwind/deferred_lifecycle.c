// SPDX-License-Identifier: GPL-2.0
/*
 * Events that end a user context or change the user stack between a request and the
 * return to user space: execve, exit, signals, sigreturn, ptrace, uprobes, fork, and
 * task_work in the middle of a system call. In each case every cookie has exactly
 * one callback, with the frames at the time of the request.
 */
#include "deferred_lifecycle.h"
#include "engine_test.h"
#include "slow_page.h"
#include "unwind_perf.h"
#include "unwind_harness.h"

#include <linux/elf.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <ucontext.h>

FIXTURE(life)
{
	struct session s;
	int pipefd[2];
};

FIXTURE_SETUP(life)
{
	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&self->s, 3));
	ASSERT_EQ(0, pipe(self->pipefd));
}

FIXTURE_TEARDOWN(life)
{
	session_end(&self->s);
}

static char buffer[64];

/* ------------------------------------------------------------------ exec */

/*
 * A request at the entry of execve() gets the old image's frames. From there until
 * the registers are those of the new image requests are refused; one after that
 * gets the new image's frames, under another cookie.
 */
TEST_F(life, execve_answers_in_the_old_image_then_starts_a_new_context)
{
	struct log_entry *before, *between, *loading, *after, *c;
	const char *target = test_file("exec_target");
	struct log *log = &self->s.log;
	struct child child;

	if (must_skip(_metadata, need_program("exec_target")))
		return;
	ASSERT_TRUE(child_start(&child, SYS_execve, (long)target,
				(long)no_strings, (long)no_strings));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:bprm_execve", child.pid, "1 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:set_mm_exe_file", child.pid, "2 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 2, "tp:sched_process_exec", child.pid, "5 task 0 1"));
	/* The new memory map is in place, the registers are still the old ones. */
	ASSERT_EQ(0, probe_on(&self->s, 3, "kprobe:setup_arg_pages", child.pid, "2 task 0 1"));
	ASSERT_EQ(0, child_run(&child));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	before = log_asked(log, "kprobe:bprm_execve", 0, UT_QUEUED);
	between = log_asked(log, "kprobe:set_mm_exe_file", 1, -EAGAIN);
	loading = log_asked(log, "kprobe:setup_arg_pages", 1, -EAGAIN);
	after = log_asked(log, "tp:sched_process_exec", 0, UT_QUEUED);
	ASSERT_TRUE(before && between && loading && after);
	EXPECT_NE(before->cookie, after->cookie);
	EXPECT_EQ(NULL, log_unpaired(log));

	c = log_answer(log, 0, before->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_LT(c->seq, between->seq);
	EXPECT_TRUE(log_is_chain(c));

	c = log_answer(log, 0, after->cookie);
	EXPECT_TRUE(log_is_trace(c, 1, (void *)elf_entry(target)));
	EXPECT_EQ(1, log_answers(log, 2, after->cookie));
}

/* A process whose second thread makes a system call when a byte is written to @go */
struct threaded {
	pid_t pid;
	pid_t tid;
	int go;
};

/* After another byte, the leader ends both. */
static void threaded_start(struct __test_metadata *_metadata, struct threaded *threaded,
			   long nr, const char *path)
{
	int ready[2], go[2];
	struct actor actor;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	threaded->pid = fork();
	if (!threaded->pid) {
		actor_start(&actor, -1);
		if (write(ready[1], &actor.tid, sizeof(actor.tid)) != sizeof(actor.tid) ||
		    read(go[0], buffer, 1) != 1)
			_exit(77);
		actor_go(&actor, nr, (long)path, (long)no_strings, (long)no_strings);
		_exit(read(go[0], buffer, 1) == 1 ? 0 : 77);
	}
	ASSERT_EQ(sizeof(pid_t), read(ready[0], &threaded->tid, sizeof(pid_t)));
	ASSERT_NE(threaded->pid, threaded->tid);
	threaded->go = go[1];
}

/* execve() in a thread: the record comes under the thread's own id. */
TEST_F(life, execve_in_a_thread_answers_before_the_thread_id_changes)
{
	const char *target = test_file("exec_target");
	struct log_entry *before, *after, *c;
	struct log *log = &self->s.log;
	struct threaded t;
	int status;

	if (must_skip(_metadata, need_program("exec_target")))
		return;
	threaded_start(_metadata, &t, SYS_execve, target);
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:bprm_execve", t.tid, "1 task 0 1"));
	/* By then it has the id of the leader. */
	ASSERT_EQ(0, probe_on(&self->s, 1, "tp:sched_process_exec", t.pid, "1 task 0 1"));
	ASSERT_EQ(1, write(t.go, "x", 1));
	ASSERT_EQ(t.pid, waitpid(t.pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	before = log_at(log, "kprobe:bprm_execve", 0, 0);
	after = log_at(log, "tp:sched_process_exec", 0, 0);
	ASSERT_TRUE(before && after);
	EXPECT_EQ(NULL, log_unpaired(log));
	c = log_answer(log, 0, before->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(t.tid, c->tid);
	EXPECT_TRUE(log_is_chain(c));
	c = log_answer(log, 0, after->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(t.pid, c->tid);
	EXPECT_EQ(elf_entry(target), c->ips[0]);
}

/* A file that can be executed, at @path, which is a template for mkstemp() */
static bool write_program(char *path, const void *image, size_t size)
{
	int fd = mkstemp(path);
	bool ok = fd >= 0 && write(fd, image, size) == (ssize_t)size && !fchmod(fd, 0755);

	close(fd);
	return ok;
}

/* A failed execve() is a system call like any other; the next one as well. */
TEST_F(life, failed_execve_answers_once_and_refuses_nothing_afterwards)
{
	char path[] = "/tmp/unwind_no_elf_XXXXXX";
	struct log *log = &self->s.log;
	struct log_entry *r;

	/* Neither a script nor a program. */
	ASSERT_TRUE(write_program(path, "\1\2\3\4not a program", 16));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:bprm_execve", my_tid(), "1 task 0 1"));
	ASSERT_EQ(-ENOEXEC, chain_syscall(SYS_execve, (long)path,
					  (long)no_strings, (long)no_strings,
					  0, 0, 0));
	unlink(path);
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 task"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	EXPECT_EQ(2, log_rets(log, 0, UT_QUEUED));
	EXPECT_EQ(NULL, log_unpaired(log));
	ASSERT_EQ(2, log_count(log, 'C', 0));
	r = log_at(log, "kprobe:bprm_execve", 0, 0);
	ASSERT_NE(NULL, r);
	EXPECT_TRUE(log_is_chain(log_answer(log, 0, r->cookie)));
}

/*
 * A program that cannot be mapped: execve() fails after the point of no return.
 * The old registers mean nothing in the new memory map.
 */
TEST_F(life, execve_that_kills_its_caller_answers_once)
{
	char path[] = "/tmp/unwind_bad_elf_XXXXXX";
	struct log *log = &self->s.log;
	struct elf64_phdr *phdr;
	struct elf64_hdr *ehdr;
	struct child child;
	struct log_entry *r;
	static char image[4096];
	int fd, i, status;

	if (must_skip(_metadata, need_program("exec_target")))
		return;
	fd = open(test_file("exec_target"), O_RDONLY);
	ASSERT_EQ(sizeof(image), read(fd, image, sizeof(image)));
	close(fd);
	ehdr = (struct elf64_hdr *)image;
	phdr = (struct elf64_phdr *)(image + ehdr->e_phoff);
	for (i = 0; i < ehdr->e_phnum; i++)
		if (phdr[i].p_type == PT_LOAD)
			phdr[i].p_vaddr |= 1UL << 63;
	ASSERT_TRUE(write_program(path, image, sizeof(image)));
	ASSERT_TRUE(child_start(&child, SYS_execve, (long)path,
				(long)no_strings, (long)no_strings));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:bprm_execve", child.pid, "1 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:force_fatal_sig", child.pid, "1 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 2, "kprobe:do_exit", child.pid, "1 nmi 0 1"));
	status = child_run(&child);
	unlink(path);
	ASSERT_TRUE(WIFSIGNALED(status));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(2, log_rets(log, 0, -EAGAIN));
	ASSERT_EQ(1, log_count(log, 'C', 0));
	r = log_at(log, "kprobe:bprm_execve", 0, 0);
	ASSERT_NE(NULL, r);
	EXPECT_TRUE(log_is_chain(log_answer(log, 0, r->cookie)));
}

/* Shared with a process of which one thread calls execve() */
struct execer {
	int tid;
	int go_thread;
	int go_leader;
	/* The result of pthread_create(), plus 1 */
	int created;
};

static void *execer_thread(void *arg)
{
	return arg;
}

static void execer_process(struct execer *execer)
{
	pthread_t thread;
	struct actor actor;

	actor_start(&actor, -1);
	set_flag(&execer->tid, actor.tid);
	wait_flag(&execer->go_thread);
	actor_go(&actor, SYS_execve, (long)test_file("exec_target"),
		 (long)no_strings, (long)no_strings);
	wait_flag(&execer->go_leader);
	set_flag(&execer->created,
		 1 + pthread_create(&thread, NULL, execer_thread, NULL));
	for (;;)
		pause();
}

/* Called by a thread that ends, and thereby lets execve() go on. */
static int seize(void *arg)
{
	return ptrace(PTRACE_SEIZE, *(int *)arg, 0, 0) ? -errno : 0;
}

/*
 * While requests from before execve() are being answered, however long that takes,
 * other threads can be created, and a debugger can attach.
 */
TEST_F(life, execve_answers_before_it_locks_others_out)
{
	struct execer *execer;
	struct side side;
	int status;
	pid_t pid;

	if (must_skip(_metadata, need_program("exec_target")))
		return;
	execer = mmap(NULL, sizeof(*execer), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, execer);
	pid = fork();
	if (!pid)
		execer_process(execer);
	wait_flag(&execer->tid);
	ASSERT_EQ(0, mod_cmd(self->s.fd, "hold 0"));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:bprm_execve", execer->tid, "1 task 0 1"));
	set_flag(&execer->go_thread, 1);
	ASSERT_EQ(0, session_wait(&self->s, 'C', 0, 1));
	set_flag(&execer->go_leader, 1);
	wait_flag(&execer->created);
	EXPECT_EQ(1, execer->created);
	ASSERT_TRUE(side_start(&side, seize, &execer->tid));
	EXPECT_TRUE(side_returns(&side));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "release 0"));
	EXPECT_EQ(0, side_end(&side));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/*
 * A child that makes a system call with a frame that is not in its page tables,
 * when it has read a byte
 */
static pid_t absent_start(int go, long nr, long a0, long a1, long a2)
{
	char *stack = absent_stack(other_place);
	pid_t pid;

	pid = stack ? fork() : -1;
	if (pid)
		return pid;
	if (read(go, buffer, 1) == 1)
		framed_syscall(nr, a0, a1, a2, stack + 4096, stack + 4096);
	_exit(77);
}

/* It is asked for its stack when it has locked others out, and maybe before, too. */
static void absent_execve(struct __test_metadata *_metadata, struct session *s,
			  bool before)
{
	int go[2], status;
	pid_t pid;

	ASSERT_EQ(0, pipe(go));
	pid = absent_start(go[0], SYS_execve, (long)test_file("exec_target"),
			   (long)no_strings, (long)no_strings);
	ASSERT_LT(0, pid);
	if (before)
		ASSERT_EQ(0, probe_on(s, 0, "kprobe:bprm_execve", pid, "1 task 0 1"));
	ASSERT_EQ(0, probe_on(s, 1, "kprobe:prepare_exec_creds", pid, "3 task 0 1"));
	ASSERT_EQ(1, write(go[1], "x", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, mod_log(s->fd, &s->log));
}

/* Later requests are answered without page faults. */
TEST_F(life, execve_that_has_locked_others_out_faults_no_stack_pages_in)
{
	struct log *log = &self->s.log;
	struct log_entry *r;

	if (must_skip(_metadata, need_program("exec_target")))
		return;
	absent_execve(_metadata, &self->s, false);
	r = log_find(log, 'R', 0, 0);
	ASSERT_NE(NULL, r);
	EXPECT_EQ(UT_QUEUED, r->ret);
	ASSERT_EQ(1, log_count(log, 'C', 0));
	EXPECT_TRUE(log_is_trace(log_answer(log, 0, r->cookie), 1, framed_ip_syscall));
}

/* It has the whole stack after an earlier request: it is one user context. */
TEST_F(life, execve_that_has_locked_others_out_shares_the_trace_from_before)
{
	struct log_entry *before, *again, *other, *c;
	struct log *log = &self->s.log;

	if (must_skip(_metadata, need_program("exec_target")))
		return;
	absent_execve(_metadata, &self->s, true);
	before = log_asked(log, "kprobe:bprm_execve", 0, UT_QUEUED);
	again = log_asked(log, "kprobe:prepare_exec_creds", 0, UT_ALREADY_EXECUTED);
	other = log_asked(log, "kprobe:prepare_exec_creds", 1, UT_QUEUED);
	ASSERT_TRUE(before && again && other);
	EXPECT_EQ(before->cookie, again->cookie);
	EXPECT_EQ(before->cookie, other->cookie);
	EXPECT_EQ(1, log_count(log, 'C', 0));
	EXPECT_EQ(1, log_count(log, 'C', 1));
	c = log_answer(log, 1, other->cookie);
	EXPECT_TRUE(log_is_trace(c, 2, framed_ip_syscall, other_place));
}

/* ------------------------------------------------------------------ exit */

/* A request in exit_group(): before PF_EXITING, with the mm still there. */
TEST_F(life, exit_group_answers_with_exact_frames)
{
	struct log *log = &self->s.log;
	struct child child;
	struct log_entry *c;

	ASSERT_TRUE(child_start(&child, SYS_exit_group, 5, 0, 0));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:do_exit", child.pid, "3 nmi 0 1"));
	ASSERT_EQ(5 << 8, child_run(&child));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	EXPECT_EQ(2, log_rets(log, -1, UT_QUEUED));
	ASSERT_EQ(1, log_count(log, 'C', 0));
	ASSERT_EQ(1, log_count(log, 'C', 1));
	c = log_find(log, 'C', 0, 0);
	EXPECT_EQ(log_find(log, 'R', 0, 0)->cookie, c->cookie);
	EXPECT_EQ(child.pid, c->tid);
	EXPECT_TRUE(log_is_chain(c));
}

/* The last chance to ask: PF_EXITING is not set yet. */
TEST_F(life, request_on_the_way_to_exit_signals_is_answered_with_exact_frames)
{
	struct log *log = &self->s.log;
	struct child child;
	struct log_entry *c;

	ASSERT_TRUE(child_start(&child, SYS_exit_group, 5, 0, 0));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:exit_signals", child.pid, "1 task 0 1"));
	ASSERT_EQ(5 << 8, child_run(&child));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	EXPECT_EQ(1, log_rets(log, 0, UT_QUEUED));
	c = log_only(log, 'C', 0);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(log_find(log, 'R', 0, 0)->cookie, c->cookie);
	EXPECT_TRUE(log_is_chain(c));
}

/* A thread that ends while its process goes on. */
TEST_F(life, exit_of_a_thread_answers_with_exact_frames)
{
	struct log *log = &self->s.log;
	struct actor actor;
	struct log_entry *c;

	ASSERT_TRUE(actor_start(&actor, -1));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:do_exit", actor.tid, "1 task 0 1"));
	actor_go(&actor, SYS_exit, 0, 0, 0);
	ASSERT_EQ(0, pthread_join(actor.thread, NULL));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(1, log_count(log, 'R', 0));
	c = log_only(log, 'C', 0);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(log_find(log, 'R', 0, 0)->cookie, c->cookie);
	EXPECT_EQ(actor.tid, c->tid);
	EXPECT_TRUE(log_is_chain(c));
}

/* Killed while it sleeps with a request pending: its stack is there to be read. */
TEST_F(life, killed_task_answers_what_was_pending)
{
	struct log *log = &self->s.log;
	struct child child;
	struct log_entry *c;
	int status;

	ASSERT_TRUE(child_start(&child, SYS_pause, 0, 0, 0));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:__x64_sys_pause", child.pid, "1 task 0 1"));
	child_go(&child);
	ASSERT_TRUE(wait_blocked(child.pid, SYS_pause));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(1, log_count(log, 'R', 0));
	ASSERT_EQ(0, log_count(log, 'C', 0));
	kill(child.pid, SIGKILL);
	status = child_wait(&child);
	ASSERT_TRUE(WIFSIGNALED(status));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	c = log_only(log, 'C', 0);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(log_find(log, 'R', 0, 0)->cookie, c->cookie);
	EXPECT_TRUE(log_is_chain(c));
}

/* The exit of one thread kills another, which has a request pending. */
TEST_F(life, exit_group_answers_for_the_other_threads)
{
	struct log *log = &self->s.log;
	struct log_entry *c;
	struct threaded t;
	int status;

	threaded_start(_metadata, &t, SYS_pause, NULL);
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:__x64_sys_pause", t.tid, "1 irq 0 1"));
	ASSERT_EQ(1, write(t.go, "x", 1));
	ASSERT_TRUE(wait_blocked(t.tid, SYS_pause));
	ASSERT_EQ(1, write(t.go, "x", 1));
	ASSERT_EQ(t.pid, waitpid(t.pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(1, log_rets(log, 0, UT_QUEUED));
	c = log_only(log, 'C', 0);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(t.tid, c->tid);
	EXPECT_TRUE(log_is_chain(c));
}

/* A task that cannot take page faults any more: the record is short. */
TEST_F(life, exit_does_not_fault_stack_pages_in)
{
	struct log *log = &self->s.log;
	int go[2], status;
	pid_t pid;

	ASSERT_EQ(0, pipe(go));
	pid = absent_start(go[0], SYS_exit_group, 0, 0, 0);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:do_exit", pid, "1 task 0 1"));
	ASSERT_EQ(1, write(go[1], "x", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_TRUE(log_is_trace(log_only(log, 'C', 0), 1, framed_ip_syscall));
}

/*
 * SIGKILL is consumed on the way to do_exit(), and no other one is taken from then
 * on: a task that waits for a page there waits for ever. In between a task can be
 * asked, and answers at its last ptrace stop.
 */
FIXTURE(dying)
{
	struct session s;
};

FIXTURE_VARIANT(dying)
{
	/* The action of the other thread; 0: they are killed from outside. */
	long nr;
};

FIXTURE_VARIANT_ADD(dying, by_kill) { .nr = 0 };
FIXTURE_VARIANT_ADD(dying, by_exit_group) { .nr = SYS_exit_group };
FIXTURE_VARIANT_ADD(dying, by_execve) { .nr = SYS_execve };

FIXTURE_SETUP(dying)
{
	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&self->s, 1));
}

FIXTURE_TEARDOWN(dying)
{
	session_end(&self->s);
}

/* Shared with the process that is to end */
struct dying {
	pid_t tid;
	int go_thread;
	int go_leader;
};

static struct dying *dying;
static uint64_t *dying_stack;

static void *dying_thread(void *arg)
{
	(void)arg;
	set_flag(&dying->tid, my_tid());
	wait_flag(&dying->go_thread);
	framed_syscall(SYS_pause, 0, 0, 0, dying_stack, dying_stack);
	return NULL;
}

/* The leader. Returns if a prerequisite is missing. */
static void dying_process(long nr)
{
	const char *target = test_file("exec_target");
	pthread_t thread;

	if (pthread_create(&thread, NULL, dying_thread, NULL))
		return;
	wait_flag(&dying->go_leader);
	if (nr == SYS_execve)
		execl(target, target, NULL);
	if (nr == SYS_exit_group)
		_exit(0);
	for (;;)
		pause();
}

/* Does the process end, once its thread has gone on from its last stop? */
static bool dying_ends(pid_t pid, int *status)
{
	int i, st;

	*status = -1;
	for (i = 0; i < 400; i++) {
		if (waitpid(dying->tid, &st, __WALL | WNOHANG) == dying->tid &&
		    WIFSTOPPED(st))
			ptrace(PTRACE_CONT, dying->tid, 0, 0);
		if (waitpid(pid, status, WNOHANG) == pid)
			return true;
		usleep(50000);
	}
	return false;
}

/* The second frame of the thread's stack is in a page that the disk withholds. */
TEST_F_TIMEOUT(dying, task_does_not_wait_for_pages, 120)
{
	struct log *log = &self->s.log;
	struct slow_disk disk;
	struct log_entry *c;
	int status;
	char *pages;
	pid_t pid;

	if (must_skip(_metadata, need_program("exec_target")) ||
	    must_skip(_metadata, need_slow_disk()))
		return;
	dying = mmap(NULL, sizeof(*dying), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, dying);
	pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, pages);
	dying_stack = (uint64_t *)(pages + 4096) - 2;
	dying_stack[0] = (uint64_t)pages + 4096;
	dying_stack[1] = (uint64_t)other_place;
	ASSERT_TRUE(slow_page_map(&disk, pages + 4096, NULL));
	pid = fork();
	if (!pid) {
		dying_process(variant->nr);
		_exit(77);
	}
	while (!get_flag(&dying->tid)) {
		ASSERT_EQ(0, waitpid(pid, &status, WNOHANG));
		usleep(1000);
	}
	ASSERT_EQ(0, ptrace(PTRACE_SEIZE, dying->tid, 0, PTRACE_O_TRACEEXIT));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:do_exit", dying->tid, "1 task 0 1"));
	set_flag(&dying->go_thread, 1);
	ASSERT_TRUE(wait_blocked(dying->tid, SYS_pause));
	set_flag(&dying->go_leader, 1);
	if (!variant->nr)
		kill(pid, SIGKILL);

	EXPECT_TRUE(dying_ends(pid, &status)) {
		slow_page_supply(&disk);
		dying_ends(pid, &status);
	}
	EXPECT_EQ(variant->nr ? 0 : SIGKILL, status);

	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(1, log_rets(log, 0, UT_QUEUED));
	c = log_only(log, 'C', 0);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(dying->tid, c->tid);
	EXPECT_TRUE(log_is_trace(c, 2, framed_ip_syscall, other_place));
}

/* From PF_EXITING on, nothing would be answered. */
TEST_F(life, exiting_task_is_refused)
{
	struct log *log = &self->s.log;
	struct child child;

	ASSERT_TRUE(child_start(&child, SYS_exit_group, 0, 0, 0));
	ASSERT_EQ(0, probe_on(&self->s, 0, "tp:sched_process_exit", child.pid, "1 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:perf_event_exit_task", child.pid, "2 nmi 0 1"));
	ASSERT_EQ(0, child_run(&child));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(1, log_count(log, 'R', 0));
	ASSERT_EQ(1, log_count(log, 'R', 1));
	EXPECT_EQ(2, log_rets(log, -1, -EINVAL));
	EXPECT_EQ(0, log_count(log, 'C', -1));
}

/* ------------------------------------------------------------------ fork */

/* Requests of the parent in fork() are not the child's. */
TEST_F(life, forked_child_starts_without_context_and_cache)
{
	struct log *log = &self->s.log;
	struct log_entry *r, *m, *c;
	pid_t pid;
	int status;

	/* The parent has a cache, and a context while it forks. */
	ASSERT_EQ(0, chain_cmd(self->s.fd, "req 1 task"));
	session_forget(&self->s);
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:kernel_clone", my_tid(), "3 task 0 1"));
	pid = chain0(SYS_fork);
	if (!pid) {
		char cmd[32];
		int len;

		len = snprintf(cmd, sizeof(cmd), "state %d", my_tid());
		if (write(self->s.fd, cmd, len) != len)
			_exit(1);
		_exit(chain_cmd(self->s.fd, "req 1 task") ? 2 : 0);
	}
	ASSERT_GT(pid, 0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	m = log_find(log, 'M', -1, 0);
	ASSERT_NE(NULL, m);
	EXPECT_EQ(pid, m->tid);
	EXPECT_EQ(0, m->ret);
	EXPECT_EQ(0, m->nr);

	r = log_at(log, "kprobe:kernel_clone", 0, 0);
	ASSERT_NE(NULL, r);
	EXPECT_EQ(2, log_count(log, 'C', 0));
	EXPECT_EQ(1, log_count(log, 'C', 1));
	c = log_answer(log, 0, r->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(my_tid(), c->tid);
	EXPECT_TRUE(log_is_chain(c));

	r = log_at(log, "write", 0, 0);
	ASSERT_NE(NULL, r);
	EXPECT_EQ(UT_QUEUED, r->ret);
	c = log_answer(log, 0, r->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(pid, c->tid);
	EXPECT_TRUE(log_is_chain(c));
}

/* --------------------------------------------------------------- signals */

static struct session *handler_session;

static void handler_nothing(int sig)
{
}

/*
 * read() of a thread is interrupted and restarted, and there are @nr entries of @type in
 * the log before it gets its byte. Work 0 asks for its stack at @point.
 */
static void restart_read(struct __test_metadata *_metadata, struct _test_data_life *self,
			 const char *point, const char *how, char type, unsigned int nr)
{
	struct sigaction action = {
		.sa_handler = handler_nothing, .sa_flags = SA_RESTART,
	};
	struct actor actor;

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_TRUE(actor_start(&actor, -1));
	ASSERT_EQ(0, probe_on(&self->s, 0, point, actor.tid, how));
	actor_go(&actor, SYS_read, self->pipefd[0], (long)buffer, 1);
	ASSERT_TRUE(wait_blocked(actor.tid, SYS_read));
	ASSERT_EQ(0, syscall(SYS_tgkill, getpid(), actor.tid, SIGUSR1));
	ASSERT_EQ(0, session_wait(&self->s, type, 0, nr));
	/* It has been restarted. */
	ASSERT_TRUE(wait_blocked(actor.tid, SYS_read));
	EXPECT_EQ(0, actor_feed(&actor, self->pipefd[1]));
	actor_end(&actor);
	ASSERT_EQ(0, mod_log(self->s.fd, &self->s.log));
}

/*
 * A request by the tracepoint that fires just before the handler is set up gets the IP
 * as it was, before the restart moves it back over the instruction; and never the
 * handler's stack.
 */
TEST_F(life, signal_delivery_answers_before_the_restart_moves_the_ip)
{
	struct log *log = &self->s.log;
	struct log_entry *r;

	restart_read(_metadata, self, "tp:signal_deliver", "1 task 0 1", 'C', 1);
	r = log_asked(log, "tp:signal_deliver", 0, UT_QUEUED);
	ASSERT_EQ(1, log_count(log, 'C', 0));
	EXPECT_TRUE(log_is_chain(log_answer_to(log, r)));
}

/* Requests in the system call are answered with its frames, too. */
TEST_F(life, signal_delivery_answers_what_the_system_call_asked_for)
{
	struct log *log = &self->s.log;
	struct log_entry *r;

	restart_read(_metadata, self, "kprobe:vfs_read", "1 task 0 2", 'R', 2);
	/* The restarted call is another entry. */
	ASSERT_EQ(2, log_count(log, 'C', 0));
	EXPECT_EQ(NULL, log_unpaired(log));
	r = log_find(log, 'R', 0, 0);
	EXPECT_TRUE(log_is_chain(log_answer(log, 0, r->cookie)));
	EXPECT_NE(r->cookie, log_find(log, 'R', 0, 1)->cookie);
	EXPECT_TRUE(log_is_chain(log_find(log, 'C', 0, 1)));
}

/*
 * A request that comes in the callbacks of the first is answered before the
 * registers change as well. Later requests are in another context.
 */
TEST_F(life, request_in_the_callbacks_at_signal_delivery_is_answered_there)
{
	struct sigaction action = { .sa_handler = handler_nothing };
	struct log *log = &self->s.log;
	struct log_entry *r, *late, *c;

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_EQ(0, probe_on(&self->s, 0, "tp:signal_deliver", my_tid(), "1 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:callback", my_tid(), "2 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 2, "kprobe:signal_setup_done", my_tid(), "4 task 0 1"));
	ASSERT_EQ(0, chain_syscall(SYS_kill, getpid(), SIGUSR1, 0, 0, 0, 0));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(NULL, log_unpaired(log));
	r = log_asked(log, "kprobe:callback", 1, UT_QUEUED);
	ASSERT_NE(NULL, r);
	EXPECT_EQ(log_find(log, 'R', 0, 0)->cookie, r->cookie);
	late = log_asked(log, "kprobe:signal_setup_done", 2, UT_QUEUED);
	ASSERT_NE(NULL, late);
	EXPECT_NE(r->cookie, late->cookie);
	c = log_answer(log, 1, r->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_LT(c->seq, late->seq);
	EXPECT_TRUE(log_is_chain(c));
}

/* A signal handler returns through code of this test's own. */
asm(".pushsection .text\n"
	".globl restorer\n"
	"	nop\n"
	"restorer:\n"
	"	mov $15, %rax\n"
	"	syscall\n"
	".globl restorer_end\n"
	"restorer_end:\n"
	"	nop\n"
	".popsection\n");

struct kernel_sigaction {
	void		(*handler)(int sig, siginfo_t *info, void *uc);
	unsigned long	flags;
	void		(*restorer)(void);
	unsigned long	mask;
};

static const char *handler_point;
static const char *handler_works;
static int handler_skip;
static bool handler_spoils;

static void handler_probes(int sig, siginfo_t *info, void *uc)
{
	/* Page 0, where nothing is */
	if (handler_spoils)
		((ucontext_t *)uc)->uc_mcontext.fpregs = (void *)64;
	mod_cmd(handler_session->fd, "probe 0 %s %d %s task %d 1",
		handler_point, my_tid(), handler_works, handler_skip);
}

static int raise_with_probe(struct session *s, const char *point, int skip,
			    const char *works)
{
	struct kernel_sigaction action = {
		.handler = handler_probes,
		/* SA_RESTORER */
		.flags = 0x04000000 | SA_SIGINFO,
		.restorer = restorer,
	};

	handler_session = s;
	handler_point = point;
	handler_works = works;
	handler_skip = skip;
	if (syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8))
		return -errno;
	return chain_syscall(SYS_kill, getpid(), SIGUSR1, 0, 0, 0, 0);
}

/*
 * A request at the entry of sigreturn gets the handler's frames: the IP in the
 * trampoline, and from the signal frame on those of the interrupted code. It must be
 * answered before the registers are restored.
 */
TEST_F(life, sigreturn_answers_before_the_registers_change)
{
	struct log *log = &self->s.log;
	struct log_entry *r, *c;

	/* The gettid() of the handler comes before the probe. */
	ASSERT_EQ(0, raise_with_probe(&self->s, "tp:sys_enter", 0, "3"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(2, log_count(log, 'R', -1));
	EXPECT_EQ(NULL, log_unpaired(log));
	r = log_find(log, 'R', 0, 0);
	c = log_answer(log, 0, r->cookie);
	ASSERT_NE(NULL, c);
	ASSERT_EQ(5, c->nr);
	EXPECT_EQ((unsigned long)restorer_end, c->ips[0]);
	EXPECT_TRUE(chain_syscall_ok(c->ips + 1, c->nr - 1));
}

/*
 * In the middle of sigreturn the registers belong to no code: requests are refused,
 * and nothing may be walked in place. This is independent of requests before and
 * after it.
 */
TEST_F(life, request_in_the_middle_of_sigreturn_is_refused)
{
	struct log *log = &self->s.log;
	struct log_entry *top, *middle, *late, *c;

	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:restore_altstack", my_tid(), "3 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 2, "kprobe:restore_altstack", my_tid(), "3 nmi 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 3, "tp:sys_exit", my_tid(), "2 task 5 1"));
	ASSERT_EQ(0, raise_with_probe(&self->s, "tp:sys_enter", 0, "1"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(NULL, log_unpaired(log));
	top = log_asked(log, "tp:sys_enter", 0, UT_QUEUED);
	middle = log_at(log, "kprobe:restore_altstack", 0, 0);
	late = log_asked(log, "tp:sys_exit", 1, UT_QUEUED);
	ASSERT_TRUE(top && middle && late);
	EXPECT_EQ(4, log_rets(log, -1, -EAGAIN));
	EXPECT_NE(top->cookie, late->cookie);
	EXPECT_EQ(1, log_count(log, 'C', 0));
	c = log_answer(log, 0, top->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_LT(c->seq, middle->seq);
	EXPECT_EQ(5, c->nr);
	EXPECT_EQ(1, log_count(log, 'C', 1));
}

/* A sigreturn that cannot restore the registers ends in SIGSEGV. */
TEST_F(life, request_in_the_middle_of_a_failing_sigreturn_is_refused)
{
	struct sigaction action = { .sa_handler = handler_nothing };
	struct log *log = &self->s.log;

	ASSERT_EQ(0, sigaction(SIGSEGV, &action, NULL));
	handler_spoils = true;
	/* The resulting signal is in a context of its own again. */
	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:force_sig", my_tid(), "1 task 0 1"));
	ASSERT_EQ(0, raise_with_probe(&self->s, "kprobe:fpu__restore_sig", 0, "3"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_NE(NULL, log_at(log, "kprobe:fpu__restore_sig", 0, 0));
	EXPECT_EQ(2, log_rets(log, -1, -EAGAIN));
	EXPECT_EQ(1, log_rets(log, 0, UT_QUEUED));
	EXPECT_EQ(NULL, log_unpaired(log));
	EXPECT_EQ(1, log_count(log, 'C', -1));
}

/* Later in sigreturn, the registers are those of the interrupted code. */
TEST_F(life, request_at_the_end_of_sigreturn_gets_the_resumed_frames)
{
	struct log *log = &self->s.log;
	struct log_entry *r;

	/* Once for the write() that sets the probe up. */
	ASSERT_EQ(0, raise_with_probe(&self->s, "tp:sys_exit", 1, "1"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	r = log_asked(log, "tp:sys_exit", 0, UT_QUEUED);
	ASSERT_EQ(1, log_count(log, 'C', 0));
	EXPECT_TRUE(log_is_chain(log_answer_to(log, r)));
}

FIXTURE(sigreturn)
{
	struct session s;
};

FIXTURE_VARIANT(sigreturn)
{
	const char *program;
	const char *kind;
};

FIXTURE_VARIANT_ADD(sigreturn, ia32_rt) { .program = "sigreturn_target_32", .kind = "rt" };
FIXTURE_VARIANT_ADD(sigreturn, ia32_old) { .program = "sigreturn_target_32", .kind = "old" };
FIXTURE_VARIANT_ADD(sigreturn, x32) { .program = "sigreturn_target_x32", .kind = "rt" };

FIXTURE_SETUP(sigreturn)
{
	if (must_skip(_metadata, need_module()))
		return;
	if (must_skip(_metadata, need_program(variant->program)))
		return;
	ASSERT_EQ(0, session_start(&self->s, 2));
}

FIXTURE_TEARDOWN(sigreturn)
{
	session_end(&self->s);
}

/* What the program tells: the thread, and the frames at its sigreturn */
struct sigreturn {
	int tid;
	unsigned long top, resumed;
};

static void run_sigreturn(struct __test_metadata *_metadata,
			  struct _test_data_sigreturn *self,
			  const struct _fixture_variant_sigreturn *variant,
			  const char *how, const char *point, struct sigreturn *told)
{
	char fd[16], line[128] = "";
	int out[2], status;
	pid_t pid;

	ASSERT_EQ(0, pipe(out));
	snprintf(fd, sizeof(fd), "%d", self->s.fd);
	fcntl(self->s.fd, F_SETFD, 0);
	pid = fork();
	if (!pid) {
		dup2(out[1], 1);
		execl(test_file(variant->program), variant->program, fd, point, "3",
		      variant->kind, how, NULL);
		_exit(77);
	}
	close(out[1]);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_LE(0, read(out[0], line, sizeof(line) - 1));
	close(out[0]);
	ASSERT_TRUE(sscanf(line, "%d %lx %lx", &told->tid, &told->top, &told->resumed) == 3);
	ASSERT_EQ(0, mod_log(self->s.fd, &self->s.log));
}

TEST_F(sigreturn, answers_before_the_registers_change)
{
	struct log *log = &self->s.log;
	struct sigreturn told;
	struct log_entry *r;

	run_sigreturn(_metadata, self, variant, NULL, "tp:sys_enter", &told);
	ASSERT_EQ(2, log_count(log, 'R', -1));
	EXPECT_EQ(NULL, log_unpaired(log));
	r = log_find(log, 'R', 0, 0);
	EXPECT_EQ(told.tid, r->tid);
	EXPECT_TRUE(log_is_trace(log_answer(log, 0, r->cookie), 2, (void *)told.top,
				 (void *)told.resumed));
}

/* An earlier answer makes no difference in its middle. */
TEST_F(sigreturn, answered_is_refused_in_its_middle)
{
	struct log *log = &self->s.log;
	struct log_entry *r, *c;
	struct sigreturn told;

	run_sigreturn(_metadata, self, variant, "twice", "tp:sys_enter", &told);
	EXPECT_EQ(NULL, log_unpaired(log));
	r = log_asked(log, "kprobe:fpu__restore_sig", 0, -EAGAIN);
	ASSERT_NE(NULL, r);
	c = log_only(log, 'C', 0);
	ASSERT_NE(NULL, c);
	EXPECT_EQ(2, c->nr);
}

/* With @bad the registers cannot be restored, and SIGSEGV comes. */
static void check_middle(struct __test_metadata *_metadata,
			 struct _test_data_sigreturn *self,
			 const struct _fixture_variant_sigreturn *variant,
			 const char *bad)
{
	struct log *log = &self->s.log;
	struct sigreturn told;

	run_sigreturn(_metadata, self, variant, bad, "kprobe:fpu__restore_sig", &told);
	ASSERT_NE(NULL, log_at(log, "kprobe:fpu__restore_sig", 0, 0));
	EXPECT_EQ(2, log_rets(log, -1, -EAGAIN));
	EXPECT_EQ(2, log_count(log, 'R', -1));
	EXPECT_EQ(0, log_count(log, 'C', -1));
}

TEST_F(sigreturn, is_refused_in_its_middle)
{
	check_middle(_metadata, self, variant, NULL);
}

TEST_F(sigreturn, that_fails_is_refused_in_its_middle)
{
	check_middle(_metadata, self, variant, "bad");
}

/* ---------------------------------------------------------------- ptrace */

/* Where the tracer sends the tracee: ends the process with status 42. */
asm(".pushsection .text\n"
	".globl other_place\n"
	"other_place:\n"
	"	mov $231, %eax\n"
	"	mov $42, %edi\n"
	"	syscall\n"
	"	ud2\n"
	".popsection\n");

/*
 * The tracer changes the registers in a stop. Requests from before the stop have
 * been answered with the old ones; a request from inside the stop is answered with
 * those in force at resume, under another cookie.
 */
TEST_F(life, ptrace_stop_separates_the_old_registers_from_the_new)
{
	struct log_entry *before, *inside;
	struct log *log = &self->s.log;
	struct user_regs_struct regs;
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		chain0(SYS_getppid);
		_exit(77);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	/* To the entry of getppid(). */
	do {
		ASSERT_EQ(0, ptrace(PTRACE_SYSCALL, pid, 0, 0));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSTOPPED(status));
		ASSERT_EQ(0, ptrace(PTRACE_GETREGS, pid, 0, &regs));
	} while (regs.orig_rax != SYS_getppid);
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:__x64_sys_getppid", pid, "1 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:do_notify_parent_cldstop", pid, "3 task 0 1"));
	/* To its exit. */
	ASSERT_EQ(0, ptrace(PTRACE_SYSCALL, pid, 0, 0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFSTOPPED(status));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	before = log_at(log, "kprobe:__x64_sys_getppid", 0, 0);
	inside = log_at(log, "kprobe:do_notify_parent_cldstop", 0, 0);
	ASSERT_TRUE(before && inside);
	EXPECT_EQ(UT_QUEUED, before->ret);
	EXPECT_EQ(UT_QUEUED, inside->ret);
	EXPECT_NE(before->cookie, inside->cookie);
	EXPECT_EQ(1, log_count(log, 'C', 0));
	EXPECT_EQ(0, log_answers(log, 0, inside->cookie));

	ASSERT_EQ(0, ptrace(PTRACE_GETREGS, pid, 0, &regs));
	ASSERT_EQ((unsigned long)chain_ip_syscall, regs.rip);
	regs.rip = (unsigned long)other_place;
	regs.rbp = 0;
	ASSERT_EQ(0, ptrace(PTRACE_SETREGS, pid, 0, &regs));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, pid, 0, 0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(42 << 8, status);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	before = log_at(log, "kprobe:__x64_sys_getppid", 0, 0);
	inside = log_at(log, "kprobe:do_notify_parent_cldstop", 0, 0);
	EXPECT_EQ(NULL, log_unpaired(log));
	EXPECT_TRUE(log_is_chain(log_answer(log, 0, before->cookie)));
	EXPECT_TRUE(log_is_trace(log_answer(log, 0, inside->cookie), 1, other_place));
}

/* ------------------------------------------- task_work in the middle of a call */

/*
 * io_uring_enter() runs task_work while it waits. Later requests in the same entry
 * have a record already: no second one, no lost one.
 */
TEST_F(life, task_work_in_io_uring_enter_sends_later_requests_to_the_cache)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_READ };
	struct log *log = &self->s.log;
	struct log_entry *first, *later, *c;
	int ring;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	sqe.fd = self->pipefd[0];
	sqe.addr = (unsigned long)buffer;
	sqe.len = 1;
	ring = uring_open(&sqe);
	if (ring == -EPERM)
		SKIP(return, "needs io_uring");
	ASSERT_LE(0, ring);
	ASSERT_EQ(1, write(self->pipefd[1], "x", 1));

	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:__x64_sys_io_uring_enter",
			      my_tid(), "1 task 0 1"));
	/* Once for the write() that sets it up. */
	ASSERT_EQ(0, probe_on(&self->s, 1, "tp:sys_exit", my_tid(), "3 task 1 1"));
	ASSERT_EQ(1, chain_syscall(SYS_io_uring_enter, ring, 1, 1,
				   IORING_ENTER_GETEVENTS, 0, 0));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	first = log_asked(log, "kprobe:__x64_sys_io_uring_enter", 0, UT_QUEUED);
	later = log_at(log, "tp:sys_exit", 0, 0);
	ASSERT_TRUE(first && later);
	EXPECT_EQ(first->cookie, later->cookie);
	EXPECT_EQ(UT_ALREADY_EXECUTED, later->ret);
	EXPECT_TRUE(chain_syscall_ok(later->ips, later->nr));
	EXPECT_EQ(1, log_count(log, 'C', 0));
	c = log_answer(log, 0, first->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_LT(c->seq, later->seq);
	EXPECT_TRUE(log_is_chain(c));

	/* The other work has a record of its own, with the same frames. */
	later = log_at(log, "tp:sys_exit", 1, 0);
	ASSERT_NE(NULL, later);
	EXPECT_EQ(UT_QUEUED, later->ret);
	EXPECT_EQ(first->cookie, later->cookie);
	EXPECT_EQ(1, log_count(log, 'C', 1));
	EXPECT_TRUE(log_is_chain(log_answer(log, 1, later->cookie)));
}

/* --------------------------------------------------------------- uprobes */

/*
 * Functions to be probed: at an instruction that the kernel emulates (push,
 * nop) and at one that it steps out of line (lea). They are called with a
 * frame pointer of 0 from a known place, which must not be lost.
 */
asm(".pushsection .text\n"
	".globl call_probed\n"
	"call_probed:\n"
	"	push %rbp\n"
	"	xor %ebp, %ebp\n"
	"	call *%rdi\n"
	".globl call_probed_ip\n"
	"call_probed_ip:\n"
	"	pop %rbp\n"
	"	ret\n"
	".globl probed_push\n"
	"probed_push:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	pop %rbp\n"
	"	ret\n"
	".globl probed_nop\n"
	"probed_nop:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	".globl probed_nop_ip\n"
	"probed_nop_ip:\n"
	"	nop\n"
	"	pop %rbp\n"
	"	ret\n"
	".globl probed_lea\n"
	"probed_lea:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	".globl probed_lea_ip\n"
	"probed_lea_ip:\n"
	"	lea 8(%rsp), %rax\n"
	"	pop %rbp\n"
	"	ret\n"
	".popsection\n");

FIXTURE(uprobe)
{
	struct session s;
	int event;
};

FIXTURE_VARIANT(uprobe)
{
	void (*func)(void);
	const void *at;
};

FIXTURE_VARIANT_ADD(uprobe, push) { .func = probed_push, .at = probed_push };
FIXTURE_VARIANT_ADD(uprobe, nop) { .func = probed_nop, .at = probed_nop_ip };
FIXTURE_VARIANT_ADD(uprobe, lea) { .func = probed_lea, .at = probed_lea_ip };

FIXTURE_SETUP(uprobe)
{
	struct perf_event_attr attr;
	char path[512] = "";
	uint64_t offset;

	self->event = -1;
	if (must_skip(_metadata, need_module()))
		return;
	if (pmu_type("uprobe") < 0)
		SKIP(return, "needs uprobes");
	ASSERT_EQ(0, session_start(&self->s, 3));
	offset = file_offset(variant->at, path, sizeof(path));
	ASSERT_NE(0, offset);
	memset(&attr, 0, sizeof(attr));
	attr.type = pmu_type("uprobe");
	attr.config1 = (unsigned long)path;
	attr.config2 = offset;
	self->event = perf_open(&attr, 0, -1, -1, 0);
	ASSERT_GE(self->event, 0);
}

FIXTURE_TEARDOWN(uprobe)
{
	close(self->event);
	session_end(&self->s);
}

/* A request in the uprobe's handler: the probed address, and its caller. */
TEST_F(uprobe, hit_answers_before_the_ip_moves)
{
	struct log *log = &self->s.log;
	struct log_entry *r;

	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:uprobe_dispatcher", my_tid(), "3 task 0 2"));
	call_probed(variant->func);
	call_probed(variant->func);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	ASSERT_EQ(2, log_count(log, 'R', 0));
	ASSERT_EQ(2, log_count(log, 'C', 0));
	ASSERT_EQ(2, log_count(log, 'C', 1));
	EXPECT_EQ(4, log_rets(log, -1, UT_QUEUED));
	EXPECT_EQ(NULL, log_unpaired(log));
	r = log_find(log, 'R', 0, 0);
	EXPECT_TRUE(log_is_trace(log_answer(log, 0, r->cookie), 2, variant->at, call_probed_ip));
	EXPECT_NE(r->cookie, log_find(log, 'R', 0, 1)->cookie);
}

/* The next instruction, or the copy of this one, is another place. */
TEST_F(uprobe, request_after_the_hit_is_in_a_new_context)
{
	struct log *log = &self->s.log;
	struct log_entry *r, *late, *c;

	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:uprobe_dispatcher", my_tid(), "1 task 0 1"));
	/* Still queued from the first one, it comes when the hit is handled. */
	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:unwind_deferred_task_work",
			      my_tid(), "1 task 0 1"));
	call_probed(variant->func);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	EXPECT_EQ(NULL, log_unpaired(log));
	r = log_at(log, "kprobe:uprobe_dispatcher", 0, 0);
	late = log_asked(log, "kprobe:unwind_deferred_task_work", 0, UT_QUEUED);
	ASSERT_TRUE(r && late);
	EXPECT_NE(r->cookie, late->cookie);
	ASSERT_EQ(2, log_count(log, 'C', 0));
	c = log_answer(log, 0, late->cookie);
	ASSERT_NE(NULL, c);
	ASSERT_EQ(2, c->nr);
	EXPECT_EQ((unsigned long)call_probed_ip, c->ips[1]);
}

TEST_HARNESS_MAIN
