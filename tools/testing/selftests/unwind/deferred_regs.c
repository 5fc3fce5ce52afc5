// SPDX-License-Identifier: GPL-2.0
/*
 * Places where the kernel itself changes the user registers: rseq, restarted
 * system calls, emulated instructions, signal frames, uprobes. Requests before the
 * change are answered with the old registers, requests in the middle are refused.
 * And walks at the stops of a traced task, which must not wait for anything that
 * the tracer may have to supply.
 */
#include "deferred_regs.h"
#include "engine_test.h"
#include "slow_page.h"
#include "unwind_perf.h"
#include "unwind_harness.h"

#include <stdalign.h>
#include <sys/io.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/user.h>

/*
 * call_regs() calls a function of one argument with a frame pointer of the
 * caller's choice; regs_ip_call is the return address. The others are called by
 * it, and have no callees.
 */
asm(".pushsection .text\n"
	".globl call_regs\n"
	"call_regs:\n"
	"	push %rbp\n"
	"	mov %rdx, %rbp\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	call *%rax\n"
	".globl regs_ip_call\n"
	"regs_ip_call:\n"
	"	pop %rbp\n"
	"	ret\n"

	/* A restartable sequence that does not end by itself */
	".globl rseq_spin\n"
	"rseq_spin:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	lea rseq_section(%rip), %rax\n"
	"	mov %rax, 8(%rdi)\n"
	".globl rseq_start\n"
	"rseq_start:\n"
	"1:	pause\n"
	"	jmp 1b\n"
	".globl rseq_end\n"
	"rseq_end:\n"
	"	ud2\n"
	/* RSEQ_SIG, as an operand of ud1 */
	"	.byte 0x0f, 0xb9, 0x3d\n"
	"	.long 0x53053053\n"
	".globl rseq_abort\n"
	"rseq_abort:\n"
	"	pop %rbp\n"
	"	ret\n"

	/* One with a system call in it. Returns 0, or 1 if it was aborted. */
	".globl rseq_syscall\n"
	"rseq_syscall:\n"
	"	lea rseq_syscall_section(%rip), %rax\n"
	"	mov %rax, 8(%rdi)\n"
	"	mov %rsi, %rax\n"
	"	mov %rdx, %rdi\n"
	"	mov %rcx, %rsi\n"
	"	mov %r8, %rdx\n"
	"rseq_syscall_start:\n"
	"	syscall\n"
	"	xor %eax, %eax\n"
	"rseq_syscall_end:\n"
	"	ret\n"
	"	.byte 0x0f, 0xb9, 0x3d\n"
	"	.long 0x53053053\n"
	"rseq_syscall_abort:\n"
	"	mov $1, %eax\n"
	"	ret\n"

	".globl do_sgdt\n"
	"do_sgdt:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	sub $16, %rsp\n"
	".globl ip_sgdt\n"
	"ip_sgdt:\n"
	"	sgdt (%rsp)\n"
	"	leave\n"
	"	ret\n"

	".globl do_cli\n"
	"do_cli:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	".globl ip_cli\n"
	"ip_cli:\n"
	"	cli\n"
	"	pop %rbp\n"
	"	ret\n"

	/* To be probed: a function, its return, and one that has no frame */
	".globl framed_fn\n"
	"framed_fn:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	nop\n"
	"	pop %rbp\n"
	"	ret\n"
	".globl bare_fn\n"
	"bare_fn:\n"
	"	lea 1(%rdi), %rax\n"
	"	nop\n"
	"	ret\n"
	".globl other_fn\n"
	"other_fn:\n"
	"	lea 2(%rdi), %rax\n"
	"	ret\n"
	".popsection\n"
	".pushsection .data\n"
	".balign 32\n"
	"rseq_section:\n"
	"	.long 0, 0\n"
	"	.quad rseq_start, rseq_end - rseq_start, rseq_abort\n"
	"rseq_syscall_section:\n"
	"	.long 0, 0\n"
	"	.quad rseq_syscall_start, rseq_syscall_end - rseq_syscall_start\n"
	"	.quad rseq_syscall_abort\n"
	".popsection\n");

FIXTURE(regs)
{
	struct session s;
	int event;
	int pipefd[2];
};

FIXTURE_SETUP(regs)
{
	self->event = -1;
	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&self->s, 3));
	ASSERT_EQ(0, pipe(self->pipefd));
}

FIXTURE_TEARDOWN(regs)
{
	close(self->event);
	session_end(&self->s);
}

/* ------------------------------------------------------------------ rseq */

static struct rseq *my_rseq(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

static void *rseq_main(void *arg)
{
	struct actor *actor = arg;

	pin_to_cpu(actor->cpu);
	set_flag(&actor->tid, my_tid());
	wait_flag(&actor->go);
	call_regs(rseq_spin, (long)my_rseq(), 0);
	set_flag(&actor->done, 1);
	/* It may have been preempted, and so aborted, before it is moved. */
	wait_flag(&actor->end);
	return NULL;
}

/*
 * The task is moved to another CPU in the middle of a restartable sequence. The
 * tracepoint fires where the kernel knows that it will abort it.
 */
TEST_F(regs, rseq_abort_answers_before_the_ip_moves)
{
	struct log *log = &self->s.log;
	struct actor actor;
	struct log_entry *c;
	cpu_set_t set;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	if (must_skip(_metadata, need_tracepoint("rseq", "rseq_ip_fixup")))
		return;
	if (!__rseq_size)
		SKIP(return, "needs a C library that has registered rseq");
	ASSERT_TRUE(actor_run(&actor, nth_cpu(1), rseq_main));
	ASSERT_EQ(0, probe_on(&self->s, 0, "tp:rseq_ip_fixup", actor.tid, "1 task 0 1"));
	set_flag(&actor.go, 1);
	usleep(100000);
	CPU_ZERO(&set);
	CPU_SET(nth_cpu(0), &set);
	ASSERT_EQ(0, sched_setaffinity(actor.tid, sizeof(set), &set));
	wait_flag(&actor.done);
	actor_end(&actor);
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	EXPECT_EQ(1, log_rets(log, 0, UT_QUEUED));
	c = log_only(log, 'C', 0);
	ASSERT_NE(NULL, c);
	ASSERT_EQ(2, c->nr);
	EXPECT_GE(c->ips[0], (unsigned long)rseq_start);
	EXPECT_LT(c->ips[0], (unsigned long)rseq_end);
	EXPECT_EQ((unsigned long)regs_ip_call, c->ips[1]);
}

#define SEQUENCES	50

/*
 * A task is preempted, and later asked for its stack in a restartable sequence,
 * which the request does not abort. Here a system call asks within the sequence,
 * to which only kernels with CONFIG_DEBUG_RSEQ object.
 */
TEST_F(regs, request_aborts_no_restartable_sequence)
{
	static const char cmd[] = "req 1 task";
	int i, aborted = 0;

	if (!__rseq_size)
		SKIP(return, "needs a C library that has registered rseq");
	for (i = 0; i < SEQUENCES; i++) {
		usleep(1);
		aborted += rseq_syscall(my_rseq(), SYS_write, self->s.fd,
					(long)cmd, strlen(cmd));
	}
	ASSERT_EQ(0, mod_log(self->s.fd, &self->s.log));
	EXPECT_EQ(SEQUENCES, log_rets(&self->s.log, 0, UT_QUEUED));
	EXPECT_EQ(SEQUENCES, log_count(&self->s.log, 'C', 0));
	/* It may be preempted just there, too. */
	EXPECT_GT(SEQUENCES / 2, aborted);
}

/* --------------------------------------------------------------- signals */

static void handler_nothing(int sig)
{
}

/*
 * Writing the frame can fault, and does so on a fresh alternate stack: the
 * handler is not running yet.
 */
TEST_F(regs, request_while_a_signal_frame_is_set_up_is_refused)
{
	struct sigaction action = { .sa_handler = handler_nothing };
	struct log_entry *before, *middle, *after, *c;
	struct log *log = &self->s.log;

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_EQ(0, probe_on(&self->s, 0, "tp:signal_deliver", my_tid(), "1 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:x64_setup_rt_frame", my_tid(), "3 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 2, "kprobe:x64_setup_rt_frame", my_tid(), "3 nmi 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 3, "kprobe:signal_setup_done", my_tid(), "4 task 0 1"));
	ASSERT_EQ(0, chain_syscall(SYS_kill, getpid(), SIGUSR1, 0, 0, 0, 0));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	EXPECT_EQ(NULL, log_unpaired(log));
	EXPECT_EQ(4, log_rets(log, -1, -EAGAIN));
	before = log_at(log, "tp:signal_deliver", 0, 0);
	middle = log_at(log, "kprobe:x64_setup_rt_frame", 0, 0);
	after = log_asked(log, "kprobe:signal_setup_done", 2, UT_QUEUED);
	ASSERT_TRUE(before && middle && after);
	ASSERT_EQ(1, log_count(log, 'C', 0));
	c = log_answer(log, 0, before->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_LT(c->seq, middle->seq);
	EXPECT_TRUE(log_is_chain(c));
	c = log_answer(log, 2, after->cookie);
	ASSERT_NE(NULL, c);
	EXPECT_EQ((unsigned long)handler_nothing, c->ips[0]);
}

/*
 * An event at the end of the function that answers requests starts a context each
 * time. That happens twice; from then on its requests are refused.
 */
TEST_F(regs, event_at_the_end_of_each_answer_makes_no_livelock)
{
	static const char point[] = "kretprobe:unwind_context_reset";
	struct sigaction action = { .sa_handler = handler_nothing };
	struct log_entry *first, *again;
	struct log *log = &self->s.log;

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_EQ(0, probe_on(&self->s, 0, "tp:signal_deliver", my_tid(), "1 task 0 1"));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "probe 1 %s %d 2 task 0 1000", point, my_tid()));
	ASSERT_EQ(0, chain_syscall(SYS_kill, getpid(), SIGUSR1, 0, 0, 0, 0));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "unprobe 1"));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	EXPECT_EQ(NULL, log_unpaired(log));
	first = log_find(log, 'R', 0, 0);
	again = log_find(log, 'R', 1, 0);
	ASSERT_TRUE(first && again);
	EXPECT_EQ(1, log_rets(log, 1, UT_QUEUED));
	EXPECT_EQ(UT_QUEUED, again->ret);
	EXPECT_NE(first->cookie, again->cookie);
	EXPECT_EQ(1, log_rets(log, 1, -EAGAIN));
	/* It is of the same registers. */
	EXPECT_TRUE(log_is_chain(log_answer(log, 1, again->cookie)));
}

/*
 * A signal without a handler: the system call is restarted, and for that the IP
 * goes back over the instruction. Earlier requests have it after the instruction.
 */
TEST_F(regs, restart_without_a_handler_answers_before_the_ip_moves)
{
	struct log *log = &self->s.log;
	struct log_entry *r;
	struct child child;
	static char byte;
	int status;

	ASSERT_TRUE(child_start(&child, SYS_read, self->pipefd[0], (long)&byte, 1));
	child_go(&child);
	ASSERT_TRUE(wait_blocked(child.pid, SYS_read));
	/* It may still be in the read() from child_start()'s pipe. */
	usleep(100000);
	ASSERT_TRUE(wait_blocked(child.pid, SYS_read));
	ASSERT_EQ(0, probe_on(&self->s, 0, "tp:signal_deliver", child.pid, "1 task 0 1"));
	ASSERT_EQ(0, kill(child.pid, SIGSTOP));
	ASSERT_EQ(child.pid, waitpid(child.pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	ASSERT_EQ(0, kill(child.pid, SIGCONT));
	ASSERT_EQ(1, write(self->pipefd[1], "x", 1));
	ASSERT_EQ(77 << 8, child_wait(&child));
	ASSERT_EQ(0, mod_log(self->s.fd, log));

	r = log_asked(log, "tp:signal_deliver", 0, UT_QUEUED);
	ASSERT_EQ(1, log_count(log, 'C', 0));
	EXPECT_TRUE(log_is_chain(log_answer_to(log, r)));
}

/* ------------------------------------------------- emulated instructions */

/* The kernel emulates the instruction of @func at @ip, and moves on. */
static void check_emulated(struct __test_metadata *_metadata,
			   struct _test_data_regs *self, const char *point,
			   void (*func)(long arg), const char *ip)
{
	struct log *log = &self->s.log;

	ASSERT_EQ(0, mod_cmd(self->s.fd, "probe 0 kprobe:%s %d 1 task 0 1",
			     point, my_tid()));
	call_regs(func, 0, 0);
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(1, log_rets(log, 0, UT_QUEUED));
	EXPECT_TRUE(log_is_trace(log_only(log, 'C', 0), 2, ip, regs_ip_call));
}

TEST_F(regs, emulated_sgdt_answers_before_the_ip_moves)
{
	if (!cpu_has("umip"))
		SKIP(return, "needs a CPU with umip");
	check_emulated(_metadata, self, "fixup_umip_exception", do_sgdt, ip_sgdt);
}

TEST_F(regs, emulated_cli_answers_before_the_ip_moves)
{
	if (iopl(3))
		SKIP(return, "needs iopl()");
	check_emulated(_metadata, self, "insn_get_effective_ip", do_cli, ip_cli);
}

/* --------------------------------------------------------------- uprobes */

/* For the process @pid, or for all of them if it is -1 */
static int open_uprobe(const void *at, bool ret, pid_t pid)
{
	struct perf_event_attr attr;
	char path[512] = "";
	uint64_t offset = file_offset(at, path, sizeof(path));

	if (pmu_type("uprobe") < 0 || !offset)
		return -ENODEV;
	memset(&attr, 0, sizeof(attr));
	attr.type = pmu_type("uprobe");
	/* retprobe */
	attr.config = ret;
	attr.config1 = (unsigned long)path;
	attr.config2 = offset;
	return perf_open(&attr, pid, pid < 0 ? nth_cpu(0) : -1, -1, 0);
}

/*
 * sys_uretprobe() moves the stack pointer, calls the handlers as if the function
 * had just returned, and moves it back.
 */
TEST_F(regs, uretprobe_is_answered_in_its_handlers_only)
{
	struct log *log = &self->s.log;

	if (pmu_type("uprobe") < 0)
		SKIP(return, "needs uprobes");
	self->event = open_uprobe(framed_fn, true, 0);
	ASSERT_GE(self->event, 0);
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:uprobe_handle_trampoline",
			      my_tid(), "1 task 0 1"));
	ASSERT_EQ(0, probe_on(&self->s, 1, "kprobe:uretprobe_dispatcher", my_tid(), "2 task 0 1"));
	call_regs(framed_fn, 0, 0);
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	ASSERT_EQ(1, log_count(log, 'R', 0));
	EXPECT_EQ(1, log_rets(log, 0, -EAGAIN));
	ASSERT_EQ(1, log_rets(log, 1, UT_QUEUED));
	ASSERT_EQ(1, log_count(log, 'C', -1));
	EXPECT_TRUE(log_is_trace(log_find(log, 'C', 1, 0), 1, regs_ip_call));
}

/* --------------------------------------------- stacks that a disk withholds */

static alignas(16) char clone_stack[65536];

/* A child in this memory that does something when told to */
struct shared_child {
	/* Two pages; unless a test brings them, the second is slow */
	char		*stack;
	struct slow_disk disk;
	pid_t		pid;
	int		go;
	long		nr;
};

/* The second is not touched. */
static char *two_pages(void)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return NULL;
	pages[0] = 1;
	return pages;
}

static int shared_child_start(struct shared_child *child, int (*func)(void *))
{
	if (!child->stack) {
		child->stack = two_pages();
		if (!child->stack ||
		    !slow_page_map(&child->disk, child->stack + 4096, NULL))
			return -EIO;
	}
	child->pid = clone(func, clone_stack + sizeof(clone_stack),
			   CLONE_VM | SIGCHLD, child);
	return child->pid < 0 ? -errno : 0;
}

static int child_hits_probe(void *arg)
{
	struct shared_child *child = arg;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	wait_flag(&child->go);
	call_regs(bare_fn, 0, (long)child->stack + 4096);
	return 77;
}

/* The answer to the request at its hit is in the log. */
static void hit_ends(struct __test_metadata *_metadata, struct session *s,
		     struct shared_child *child)
{
	int status;

	ASSERT_EQ(child->pid, waitpid(child->pid, &status, 0));
	EXPECT_EQ(77 << 8, status);
	ASSERT_EQ(0, mod_log(s->fd, &s->log));
}

static int close_fd(void *fd)
{
	return close(*(int *)fd);
}

/*
 * A uprobe, @fd, can be removed while the answer to a hit of the child waits for a page.
 * The hit ends with the page.
 */
static void close_while_waiting(struct __test_metadata *_metadata, struct session *s,
				struct shared_child *child, int fd, const char *how)
{
	struct side side;

	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, probe_on(s, 0, "kprobe:uprobe_dispatcher", child->pid, how));
	set_flag(&child->go, 1);
	ASSERT_TRUE(slow_page_is_asked_for(&child->disk));
	ASSERT_TRUE(side_start(&side, close_fd, &fd));
	EXPECT_TRUE(side_returns(&side));
	slow_page_supply(&child->disk);
	EXPECT_EQ(0, side_end(&side));
	hit_ends(_metadata, s, child);
}

/*
 * A hit is answered before the instruction is executed. While the answer waits for
 * a page, other uprobes can be removed; a removal waits for all hits that are
 * being handled.
 */
TEST_F_TIMEOUT(regs, uprobe_hit_that_waits_for_a_page_stalls_no_other, 120)
{
	struct shared_child child = { };
	struct log *log = &self->s.log;

	if (pmu_type("uprobe") < 0)
		SKIP(return, "needs uprobes");
	if (must_skip(_metadata, need_slow_disk()))
		return;
	self->event = open_uprobe(bare_fn, false, -1);
	ASSERT_GE(self->event, 0);
	ASSERT_EQ(0, shared_child_start(&child, child_hits_probe));
	/* After the fork: otherwise the child would have it open as well. */
	close_while_waiting(_metadata, &self->s, &child, open_uprobe(other_fn, false, 0),
			    "1 task 0 1");
	EXPECT_EQ(1, log_rets(log, 0, UT_QUEUED));
	EXPECT_TRUE(log_is_trace(log_only(log, 'C', 0), 1, bare_fn));
}

/* The probe is removed while its hit waits: the instruction is executed all the same. */
TEST_F_TIMEOUT(regs, uprobe_that_goes_while_its_hit_waits_for_a_page, 120)
{
	struct shared_child child = { };

	if (pmu_type("uprobe") < 0)
		SKIP(return, "needs uprobes");
	if (must_skip(_metadata, need_slow_disk()))
		return;
	ASSERT_EQ(0, shared_child_start(&child, child_hits_probe));
	close_while_waiting(_metadata, &self->s, &child, open_uprobe(bare_fn, false, -1),
			    "1 task 0 9");
	EXPECT_EQ(1, log_count(&self->s.log, 'R', 0));
	EXPECT_EQ(1, log_count(&self->s.log, 'C', 0));
}

/* Requests after that answer are answered, too, but without waiting for a page. */
TEST_F(regs, request_after_a_uprobe_hits_answer_waits_for_no_page)
{
	struct shared_child child = { .stack = absent_stack(other_fn) };
	struct log *log = &self->s.log;

	if (pmu_type("uprobe") < 0)
		SKIP(return, "needs uprobes");
	ASSERT_NE(NULL, child.stack);
	self->event = open_uprobe(bare_fn, false, -1);
	ASSERT_GE(self->event, 0);
	ASSERT_EQ(0, shared_child_start(&child, child_hits_probe));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:arch_uprobe_skip_sstep",
			      child.pid, "1 task 0 1"));
	set_flag(&child.go, 1);
	hit_ends(_metadata, &self->s, &child);
	EXPECT_EQ(1, log_rets(log, 0, UT_QUEUED));
	EXPECT_TRUE(log_is_trace(log_only(log, 'C', 0), 1, bare_fn));
}

/* ---------------------------------------------------------- traced tasks */

FIXTURE(traced)
{
	struct session s;
};

FIXTURE_VARIANT(traced)
{
	/* The action of the tracee, and the place where it is asked for its stack */
	long nr;
	const char *point;
	/* How it is resumed, and what stops it. */
	int request;
	int signal;
};

/* ptrace_notify() */
FIXTURE_VARIANT_ADD(traced, system_call_stop)
{
	.nr = SYS_getppid,
	.point = "kprobe:__x64_sys_getppid",
	.request = PTRACE_SYSCALL,
};

/* get_signal() */
FIXTURE_VARIANT_ADD(traced, signal_stop)
{
	.nr = SYS_pause,
	.point = "kprobe:__x64_sys_pause",
	.request = PTRACE_CONT,
	.signal = SIGUSR1,
};

/* ptrace_stop() */
FIXTURE_VARIANT_ADD(traced, signal_that_is_sampled)
{
	.nr = SYS_pause,
	.point = "kprobe:dequeue_signal",
	.request = PTRACE_CONT,
	.signal = SIGUSR1,
};

/* The way out; the stop comes later. */
FIXTURE_VARIANT_ADD(traced, return_to_user_space)
{
	.nr = SYS_getppid,
	.point = "kprobe:__x64_sys_getppid",
	.request = PTRACE_CONT,
};

FIXTURE_SETUP(traced)
{
	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&self->s, 1));
}

FIXTURE_TEARDOWN(traced)
{
	session_end(&self->s);
}

static int child_is_traced(void *arg)
{
	struct shared_child *child = arg;
	char *stack = child->stack;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP);
	framed_syscall(child->nr, 0, 0, 0, stack + 2048, stack + 4096);
	syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP);
	return 77;
}

/* Does it stop? waitpid() would wait for ever if not. */
static bool stops(pid_t pid)
{
	int status, i;

	for (i = 0; i < 400; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFSTOPPED(status);
		usleep(50000);
	}
	return false;
}

/*
 * The tracer waits for the tracee's next stop, and has the page that the tracee's
 * stack goes on in: a debugger with a single thread, such as one that restores a
 * process lazily. Profiling must not make them wait for each other.
 */
TEST_F_TIMEOUT(traced, task_does_not_wait_for_its_tracer, 120)
{
	struct user_regs_struct regs = { .orig_rax = -1 };
	struct shared_child child = { .nr = variant->nr };
	struct log *log = &self->s.log;
	int status, uffd;

	child.stack = two_pages();
	ASSERT_NE(NULL, child.stack);
	uffd = uffd_on((unsigned long)child.stack + 4096, 4096,
		       UFFDIO_REGISTER_MODE_MISSING, 0);
	if (uffd < 0)
		SKIP(return, "needs userfaultfd");
	ASSERT_EQ(0, shared_child_start(&child, child_is_traced));
	ASSERT_TRUE(stops(child.pid));
	/* To the entry of the system call */
	while ((long)regs.orig_rax != variant->nr) {
		ASSERT_EQ(0, ptrace(PTRACE_SYSCALL, child.pid, 0, 0));
		ASSERT_TRUE(stops(child.pid));
		ASSERT_EQ(0, ptrace(PTRACE_GETREGS, child.pid, 0, &regs));
	}
	ASSERT_EQ(0, mod_cmd(self->s.fd, "probe 0 %s %d 1 task 0 1",
			     variant->point, child.pid));
	ASSERT_EQ(0, ptrace(variant->request, child.pid, 0, 0));
	if (variant->signal) {
		ASSERT_TRUE(wait_blocked(child.pid, variant->nr));
		ASSERT_EQ(0, kill(child.pid, variant->signal));
	}
	EXPECT_TRUE(stops(child.pid)) {
		close(uffd);
		stops(child.pid);
	}
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_EQ(1, log_rets(log, 0, UT_QUEUED));
	EXPECT_TRUE(log_is_trace(log_only(log, 'C', 0), 1, framed_ip_syscall));
	ASSERT_EQ(0, kill(child.pid, SIGKILL));
	ASSERT_EQ(child.pid, waitpid(child.pid, &status, 0));
}

/* Pages that the kernel has are read in, as for any task. */
TEST_F(regs, traced_task_has_stack_pages_faulted_in)
{
	struct shared_child child = { .stack = absent_stack(other_fn), .nr = SYS_getppid };
	struct log *log = &self->s.log;
	int status;

	ASSERT_NE(NULL, child.stack);
	ASSERT_EQ(0, shared_child_start(&child, child_is_traced));
	ASSERT_TRUE(stops(child.pid));
	ASSERT_EQ(0, probe_on(&self->s, 0, "kprobe:__x64_sys_getppid", child.pid, "1 task 0 1"));
	ASSERT_EQ(0, ptrace(PTRACE_CONT, child.pid, 0, 0));
	ASSERT_TRUE(stops(child.pid));
	ASSERT_EQ(0, mod_log(self->s.fd, log));
	EXPECT_TRUE(log_is_trace(log_only(log, 'C', 0), 2, framed_ip_syscall, other_fn));
	ASSERT_EQ(0, kill(child.pid, SIGKILL));
	ASSERT_EQ(child.pid, waitpid(child.pid, &status, 0));
}

TEST_HARNESS_MAIN
