// SPDX-License-Identifier: GPL-2.0
/*
 * The walker in signal frames: of each kind, from each trampoline, nested, on
 * alternate stacks, and forged.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>

#include "walker_fixture.h"

#ifndef __x86_64__
/* The parts of a 32-bit ELF file that are needed to find a symbol */
#define VDSO_SHOFF	32
#define VDSO_SHNUM	48
#define VDSO_DYNSYM	11

struct vdso_section {
	uint32_t name, type, flags, addr, offset, size, link, info, align, entsize;
};

struct vdso_symbol {
	uint32_t name, value, size;
	uint8_t info, other;
	uint16_t section;
};
#endif

/* An address in the vDSO by its name, or NULL. */
static void *vdso_symbol(const char *name)
{
#ifndef __x86_64__
	char *base = (char *)getauxval(AT_SYSINFO_EHDR);
	struct vdso_section *sections;
	int i;

	if (!base)
		return NULL;
	sections = (void *)(base + *(uint32_t *)(base + VDSO_SHOFF));
	for (i = 0; i < *(uint16_t *)(base + VDSO_SHNUM); i++) {
		struct vdso_symbol *sym = (void *)(base + sections[i].offset);
		struct vdso_symbol *end = (void *)((char *)sym + sections[i].size);
		char *names = base + sections[sections[i].link].offset;

		if (sections[i].type != VDSO_DYNSYM)
			continue;
		for (; sym < end; sym++)
			if (!strcmp(names + sym->name, name))
				return base + sym->value;
	}
#endif
	return NULL;
}

/* The four kinds of frame, and who supplies the way out of it. */
struct sigkind {
	const char *name;
	unsigned long flags;
	/* Restorer for sigaction; NULL is the vDSO's */
	void *restorer;
	/* Contents of the stack */
	void *trampoline;
};

static size_t sigkinds(struct sigkind *kinds)
{
	size_t n = 0;

#ifdef __x86_64__
	kinds[n++] = (struct sigkind){ "rt", SA_SIGINFO, restorer_rt, restorer_rt };
#else
	kinds[n++] = (struct sigkind){ "old, vDSO", 0, NULL,
				       vdso_symbol("__kernel_sigreturn") };
	kinds[n++] = (struct sigkind){ "rt, vDSO", SA_SIGINFO, NULL,
				       vdso_symbol("__kernel_rt_sigreturn") };
	kinds[n++] = (struct sigkind){ "old, restorer", 0, restorer_old, restorer_old };
	kinds[n++] = (struct sigkind){ "rt, restorer", SA_SIGINFO, restorer_rt, restorer_rt };
#endif
	return n;
}

#define MAX_SIGKINDS	4

static int install(int sig, const void *handler, const struct sigkind *kind,
		   unsigned long flags)
{
	return raw_sigaction(sig, handler, kind->flags | flags, kind->restorer);
}

/* That of a program which is not built for anything else */
static int install_rt(int sig, const void *handler)
{
	return raw_sigaction(sig, handler, SA_SIGINFO, restorer_rt);
}

/* stub_plain with four frames, interrupted by a signal */
static struct probe plain_kill(int sig)
{
	return probe_kill(stub_plain, walk.sp, build(walk.fp, 4), sig);
}

/* A handler interrupted it. */
static void want_handler(void *trampoline)
{
	WANT(A(handler_probe_ip), A(trampoline), A(stub_plain_ip));
	want_frames(0, 4);
}

/* The signal that handler_raise() sends to its own thread */
static void raise_in_handler(int sig)
{
	handler_raise_args[0] = NR_TGKILL;
	handler_raise_args[1] = getpid();
	handler_raise_args[2] = my_tid();
	handler_raise_args[3] = sig;
}

#define ALTSTACK_SIZE	(128 * 1024)

static void set_altstack(struct __test_metadata *_metadata, unsigned long base)
{
	stack_t ss = { .ss_sp = (void *)base, .ss_size = ALTSTACK_SIZE };

	ASSERT_EQ(0, sigaltstack(&ss, NULL));
}

/* ------------------------------------------------------------------------ */
/* One signal								      */

FIXTURE(interrupted) {};

FIXTURE_VARIANT(interrupted)
{
	char *stub;
	char *ip;
	/* The word at the stack pointer, and whether it is a return address */
	void *top;
	bool has_caller;
	unsigned long flags;
	/* Where in the memory of the test the alternate stack is */
	unsigned long altstack;
};

#define CALLER		((void *)RA(100))
#define ABOVE		(STACK_SIZE - ALTSTACK_SIZE)

FIXTURE_VARIANT_ADD(interrupted, plain) { stub_plain, stub_plain_ip };
FIXTURE_VARIANT_ADD(interrupted, at_its_push) { stub_push, stub_push_ip, CALLER, true };
FIXTURE_VARIANT_ADD(interrupted, at_its_ret) { stub_ret, stub_ret_ip, probe_back, true };
FIXTURE_VARIANT_ADD(interrupted, at_a_lone_endbr) { stub_endbr, stub_endbr_ip, CALLER };
FIXTURE_VARIANT_ADD(interrupted, alternate_stack_above)
	{ stub_plain, stub_plain_ip, .flags = SA_ONSTACK, .altstack = ABOVE };
FIXTURE_VARIANT_ADD(interrupted, alternate_stack_below)
	{ stub_plain, stub_plain_ip, .flags = SA_ONSTACK };

FIXTURE_SETUP(interrupted)
{
	if (!walk_set_up(_metadata))
		return;
	set_altstack(_metadata, walk.stack + variant->altstack);
	put(walk.sp, A(variant->top));
	build(walk.fp, 4);
}

FIXTURE_TEARDOWN(interrupted)
{
	walk_end();
}

/* With a handler of each kind, in which the sample is taken */
TEST_F(interrupted, function_is_found_from_the_handler)
{
	struct sigkind kinds[MAX_SIGKINDS];
	size_t i, nr = sigkinds(kinds);

	for (i = 0; i < nr; i++) {
		struct probe p = probe_kill(variant->stub, walk.sp, walk.fp, SIGUSR1);

		TH_LOG("%s", kinds[i].name);
		ASSERT_NE(0, A(kinds[i].trampoline));
		ASSERT_EQ(0, install(SIGUSR1, handler_probe, &kinds[i], variant->flags));
		WANT(A(handler_probe_ip), A(kinds[i].trampoline), A(variant->ip));
		if (variant->has_caller)
			want(A(variant->top));
		want_frames(0, 4);
		EXPECT_TRUE(sample_is_wanted(&p));
	}
}

/* ------------------------------------------------------------------------ */
/* A signal in the handler of another					      */

FIXTURE(nested) {};

FIXTURE_VARIANT(nested)
{
	unsigned long outer_flags;
	unsigned long inner_flags;
};

FIXTURE_VARIANT_ADD(nested, on_the_stack) {};
FIXTURE_VARIANT_ADD(nested, on_the_alternate_stack) { SA_ONSTACK, SA_ONSTACK };
FIXTURE_VARIANT_ADD(nested, inner_on_the_alternate_stack) { .inner_flags = SA_ONSTACK };

FIXTURE_SETUP(nested)
{
	if (walk_set_up(_metadata))
		set_altstack(_metadata, walk.stack + ABOVE);
}

FIXTURE_TEARDOWN(nested)
{
	walk_end();
}

/* SIGUSR1's handler sends SIGUSR2, whose handler is sampled. */
TEST_F(nested, signal_frames_are_all_followed)
{
	struct sigkind kinds[MAX_SIGKINDS];
	size_t i, j, nr = sigkinds(kinds);

	for (i = 0; i < nr; i++) {
		for (j = 0; j < nr; j++) {
			struct probe p = plain_kill(SIGUSR1);

			TH_LOG("%s in %s", kinds[j].name, kinds[i].name);
			raise_in_handler(SIGUSR2);
			ASSERT_EQ(0, install(SIGUSR1, handler_raise, &kinds[i],
					     variant->outer_flags));
			ASSERT_EQ(0, install(SIGUSR2, handler_probe, &kinds[j],
					     variant->inner_flags));
			WANT(A(handler_probe_ip), A(kinds[j].trampoline),
			     A(handler_raise_ip), A(kinds[i].trampoline), A(stub_plain_ip));
			want_frames(0, 4);
			EXPECT_TRUE(sample_is_wanted(&p));
		}
	}
}

/* ------------------------------------------------------------------------ */
/* Trampolines								      */

/* The last page, and that before, which the byte before an address may be in */
static int stack_end_is_code(void)
{
	return mprotect((void *)(walk.stack + STACK_SIZE - 2 * PAGE), 2 * PAGE,
			PROT_READ | PROT_WRITE | PROT_EXEC);
}

#ifdef __x86_64__
TEST_F(walk, both_encodings_of_a_restorer_are_known_in_one_process)
{
	struct probe p = plain_kill(SIGUSR1);

	raise_in_handler(SIGUSR2);
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_raise, SA_SIGINFO, restorer_rt_short));
	ASSERT_EQ(0, install_rt(SIGUSR2, handler_probe));
	WANT(A(handler_probe_ip), A(restorer_rt), A(handler_raise_ip), A(restorer_rt_short),
	     A(stub_plain_ip));
	want_frames(0, 4);
	EXPECT_TRUE(sample_is_wanted(&p));
}

TEST_F(walk, three_restorers_are_known_in_one_process)
{
	void *restorers[] = { restorer_rt, restorer_rt_short, restorer_rt_endbr };
	struct probe p = plain_kill(SIGUSR1);
	struct probe p2 = plain_kill(SIGUSR2);
	int i;

	/* The C library's may be a fourth. */
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, raw_sigaction(i ? SIGUSR2 : SIGUSR1, handler_probe,
					   SA_SIGINFO, restorers[i]));
		want_handler(restorers[i]);
		EXPECT_TRUE(sample_is_wanted(i ? &p2 : &p));
	}
	/* The first one still is known. */
	walk.want.ips[1] = A(restorers[0]);
	EXPECT_TRUE(sample_is_wanted(&p));
}

/* An address that looks like a trampoline, and was given to no sigaction() */
TEST_F(walk, restorer_bytes_never_installed_are_an_ordinary_address)
{
	/* Own bytes: those of the stubs may have been installed before the fork */
	static const unsigned char bytes[] = {
		0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };
	unsigned long at = walk.stack + STACK_SIZE - PAGE;

	ASSERT_EQ(0, stack_end_is_code());
	memcpy((void *)at, bytes, sizeof(bytes));
	put_frame(walk.fp, walk.fp + 4 * W, at);
	put_frame(walk.fp + 4 * W, 0, RA(1));
	WANT(A(stub_plain_ip), at, RA(1));
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}
#endif

TEST_F(walk, trampoline_with_an_endbr_leads_to_the_interrupted_function)
{
	struct probe p = plain_kill(SIGUSR1);

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt_endbr));
	want_handler(restorer_rt_endbr);
	EXPECT_TRUE(sample_is_wanted(&p));
#ifndef __x86_64__
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, 0, restorer_old_endbr));
	walk.want.ips[1] = A(restorer_old_endbr);
	EXPECT_TRUE(sample_is_wanted(&p));
#endif
}

/* A system call within reach of a trampoline's start, and after its end */
TEST_F(walk, code_after_a_trampoline_is_ordinary_code)
{
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_near));
	WANT(A(stub_near_ip));
	want_frames(0, 4);
	EXPECT_TRUE(stub_is_wanted(stub_near, build(walk.fp, 4)));
}

/* The address given to sigaction() need not be a trampoline at all. */
TEST_F(walk, restorer_that_is_no_trampoline_is_an_ordinary_address)
{
	/* Nothing like it, another system call, none, that of another mode */
	static const unsigned char codes[][16] = {
		{ 0x90, 0x90, 0x90, 0x90 },
#ifdef __x86_64__
		{ 0xb8, 0x0e, 0x00, 0x00, 0x00, 0x0f, 0x05 },
		{ 0xb8, 0x0f, 0x00, 0x00, 0x00, 0x90, 0x90 },
		{ 0xb8, 0x0f, 0x00, 0x00, 0x00, 0xcd, 0x80 },
		{ 0x58, 0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 },
#else
		{ 0xb8, 0xae, 0x00, 0x00, 0x00, 0xcd, 0x80 },
		{ 0xb8, 0xad, 0x00, 0x00, 0x00, 0x90, 0x90 },
		{ 0xb8, 0xad, 0x00, 0x00, 0x00, 0x0f, 0x05 },
		/* Each with the stack of the other */
		{ 0x58, 0xb8, 0xad, 0x00, 0x00, 0x00, 0xcd, 0x80 },
		{ 0xb8, 0x77, 0x00, 0x00, 0x00, 0xcd, 0x80 },
#endif
	};
	unsigned long at = walk.stack + STACK_SIZE - PAGE;
	unsigned int i;

	ASSERT_EQ(0, stack_end_is_code());
	for (i = 0; i < ARRAY_SIZE(codes); i++, at += 64) {
		memcpy((void *)at, codes[i], sizeof(codes[i]));
		ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_empty, SA_SIGINFO, (void *)at));
		put_frame(walk.fp, walk.fp + 4 * W, at);
		put_frame(walk.fp + 4 * W, 0, RA(1));
		WANT(A(stub_plain_ip), at, RA(1));
		EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	}
}

/* Room is for few, but any number of signals can have the same. */
TEST_F(walk, restorer_of_many_signals_takes_the_place_of_one)
{
	struct probe p = plain_kill(SIGUSR1);
	int sig;

	for (sig = SIGHUP; sig <= SIGTRAP; sig++)
		ASSERT_EQ(0, install_rt(sig, handler_empty));
	ASSERT_EQ(0, raw_sigaction(SIGUSR2, handler_empty, SA_SIGINFO, restorer_near));
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt_endbr));
	want_handler(restorer_rt_endbr);
	EXPECT_TRUE(sample_is_wanted(&p));
}

/* The C library's own sigaction(), whatever its restorer is */
TEST_F(walk, handler_of_the_c_library_leads_to_the_interrupted_function)
{
	struct probe p = plain_kill(SIGUSR1);
	struct sigaction sa = { .sa_flags = SA_SIGINFO };
	struct raw_sigaction raw;
	void *trampoline;

	sa.sa_sigaction = (void *)handler_probe;
	ASSERT_EQ(0, sigaction(SIGUSR1, &sa, NULL));
	ASSERT_EQ(0, syscall(SYS_rt_sigaction, SIGUSR1, NULL, &raw, 8));
	trampoline = raw.flags & SA_RESTORER ? (void *)raw.restorer :
		     vdso_symbol("__kernel_rt_sigreturn");
	want_handler(trampoline);
	EXPECT_TRUE(sample_is_wanted(&p));
}

static void *signal_in_thread(void *data)
{
	struct __test_metadata *_metadata = data;
	struct probe p = plain_kill(SIGUSR1);

	EXPECT_TRUE(sample_syscall(NR_GETPPID));
	EXPECT_TRUE(sample_is_wanted(&p));
	return NULL;
}

TEST_F(walk, restorer_installed_by_another_thread_is_known)
{
	struct sigkind kinds[MAX_SIGKINDS];
	pthread_t thread;

	sigkinds(kinds);
	ASSERT_EQ(0, install(SIGUSR1, handler_probe, &kinds[0], 0));
	want_handler(kinds[0].trampoline);
	ASSERT_EQ(0, pthread_create(&thread, NULL, signal_in_thread, _metadata));
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

TEST_F(walk, restorer_installed_before_fork_is_known_in_the_child)
{
	struct sigkind kinds[MAX_SIGKINDS];
	int status;
	pid_t pid;

	if (must_skip(_metadata, need_deferral()))
		return;
	sigkinds(kinds);
	ASSERT_EQ(0, install(SIGUSR1, handler_probe, &kinds[0], 0));
	want_handler(kinds[0].trampoline);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		signal_in_thread(_metadata);
		_exit(_metadata->exit_code);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* The bytes of the trampoline are not what they were. */
TEST_F(walk, trampoline_with_a_uprobe_is_recognized)
{
	struct probe p = plain_kill(SIGUSR1);
	struct up_ring probe;

	if (must_skip(_metadata, need_deferral()))
		return;
	ASSERT_EQ(0, install_rt(SIGUSR1, handler_probe));
	ASSERT_EQ(0, open_uprobe(&probe, restorer_rt, false, DEFER));
	ASSERT_EQ(0, up_enable(&probe));
	walk.records = 2;
	want_handler(restorer_rt);
	EXPECT_TRUE(sample_is_wanted(&p));

	/* The probe's own sample has the trampoline as its topmost frame. */
	ASSERT_EQ(0, up_disable(&probe));
	up_drain(&probe);
	WANT(A(restorer_rt), A(stub_plain_ip));
	want_frames(0, 4);
	EXPECT_TRUE(is_wanted(only_answer(&probe)));
}

#ifdef __x86_64__
/* There is no uprobe on int $0x80. */
TEST_F(walk, uprobe_on_the_trampolines_system_call_shows_the_interrupted_function)
{
	struct probe p = plain_kill(SIGUSR1);
	struct up_ring probe;

	ASSERT_EQ(0, install_rt(SIGUSR1, handler_empty));
	ASSERT_EQ(0, open_uprobe(&probe, restorer_rt_syscall, false, DEFER));
	WANT(A(restorer_rt_syscall), A(stub_plain_ip));
	want_frames(0, 4);
	EXPECT_TRUE(event_is_wanted(&probe, &p));
}
#endif

FIXTURE(trampoline) {};

FIXTURE_VARIANT(trampoline)
{
	unsigned long flags;
	/* Its instructions, and the address after it */
	char *ips[3];
	size_t nr;
	char *end;
	long sigreturn;
};

FIXTURE_VARIANT_ADD(trampoline, rt) {
	SA_SIGINFO, { restorer_rt, restorer_rt_syscall }, 2, restorer_rt_end, NR_SIGRETURN
};

#ifndef __x86_64__
FIXTURE_VARIANT_ADD(trampoline, old) {
	0, { restorer_old, restorer_old_mov, restorer_old_syscall }, 3, restorer_old_end, 119
};
#endif

FIXTURE_SETUP(trampoline)
{
	walk_set_up(_metadata);
}

FIXTURE_TEARDOWN(trampoline)
{
	walk_end();
}

/* Stepped through from the end of a handler */
TEST_F(trampoline, each_instruction_shows_the_interrupted_function)
{
	struct probe p = plain_kill(SIGUSR1);
	struct up_ring ring;
	size_t i;

	if (must_skip(_metadata, need_tracepoint("signal", "signal_generate")))
		return;
	ASSERT_EQ(0, open_tracepoint(&ring, "signal", "signal_generate", DEFER));
	ASSERT_EQ(0, ioctl(ring.fd, PERF_EVENT_IOC_SET_FILTER, "sig == 5"));
	ASSERT_EQ(5, SIGTRAP);
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_step, variant->flags, variant->ips[0]));
	ASSERT_EQ(0, install_rt(SIGTRAP, handler_empty));
	ASSERT_EQ(0, up_enable(&ring));
	probe_at(&p);
	ASSERT_EQ(0, up_disable(&ring));
	up_drain(&ring);
	ASSERT_EQ(variant->nr, up_count(&ring, PERF_RECORD_SAMPLE));
	ASSERT_EQ(variant->nr, up_count(&ring, UP_STACKS));
	for (i = 0; i < variant->nr; i++) {
		WANT(A(variant->ips[i]), A(stub_plain_ip));
		want_frames(0, 4);
		EXPECT_TRUE(is_wanted(answer_nr(&ring, i)));
	}
}

/* The frame is still on the stack. */
TEST_F(trampoline, sample_in_sigreturn_shows_the_interrupted_function)
{
	struct probe p = plain_kill(SIGUSR1);

	ASSERT_TRUE(sample_syscall(variant->sigreturn));
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_empty, variant->flags, variant->ips[0]));
	WANT(A(variant->end), A(stub_plain_ip));
	want_frames(0, 4);
	EXPECT_TRUE(sample_is_wanted(&p));
}

/* ------------------------------------------------------------------------ */
/* Delivery, and forged frames						      */

/* The signal's own sample is taken on the stack as it was when it came. */
TEST_F(walk, sample_at_signal_delivery_shows_the_stack_before_the_frame)
{
	struct probe p = plain_kill(SIGUSR1);
	struct up_ring ring;

	if (must_skip(_metadata, need_tracepoint("signal", "signal_deliver")))
		return;
	ASSERT_EQ(0, open_tracepoint(&ring, "signal", "signal_deliver", DEFER));
	ASSERT_EQ(0, install_rt(SIGUSR1, handler_probe));
	WANT(A(stub_plain_ip));
	want_frames(0, 4);
	EXPECT_TRUE(event_is_wanted(&ring, &p));
}

#if defined(__x86_64__) && !defined(__ILP32__)
/* Signal frames that a walk passes: UNWIND_USER_MAX_SIGNALS of the kernel */
#define MAX_SIGNALS	16

/* The registers in a signal frame are user memory like any other. */
static void check_forged(struct __test_metadata *_metadata, uint64_t ip, uint64_t sp,
			 uint64_t fp)
{
	ASSERT_EQ(0, install_rt(SIGUSR1, handler_probe));
	put_frame(walk.fp, 0, A(restorer_rt));
	forge_frame(walk.fp + 2 * W, ip, sp, fp);
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

TEST_F(walk, signal_frames_in_a_circle_end_the_walk)
{
	int i;

	/* Where it began, two for each frame that was passed, and a trampoline */
	for (i = 0; i <= MAX_SIGNALS; i++) {
		want(A(stub_plain_ip));
		want(A(restorer_rt));
	}
	check_forged(_metadata, A(stub_plain_ip), walk.sp, walk.fp);
}

TEST_F(walk, kernel_address_in_a_signal_frame_is_not_stored)
{
	static const uint64_t bad[] = {
		0xffffffff81000000, 0xffff800000000000, 0x0100000000000000,
		(uint64_t)-1, (uint64_t)-512, (uint64_t)-640,
	};
	unsigned int i;

	WANT(A(stub_plain_ip), A(restorer_rt));
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		check_forged(_metadata, bad[i], walk.sp,
			     build(walk.stack + STACK_SIZE - PAGE, 2));
}

TEST_F(walk, kernel_frame_pointer_in_a_signal_frame_is_not_followed)
{
	WANT(A(stub_plain_ip), A(restorer_rt), A(stub_plain_ip));
	check_forged(_metadata, A(stub_plain_ip), walk.sp, 0xffffffff81000000);
	check_forged(_metadata, A(stub_plain_ip), walk.sp, 0xffff888000000000);
}

TEST_F(walk, signal_frame_in_an_unmapped_page_ends_the_walk)
{
	unsigned long end = walk.stack + STACK_SIZE - 2 * PAGE;

	ASSERT_EQ(0, install_rt(SIGUSR1, handler_probe));
	ASSERT_EQ(0, munmap((void *)end, PAGE));
	/* The frames that the frame pointer leads to are not its caller's. */
	put_frame(end - 2 * W, build(end + PAGE, 2), A(restorer_rt));
	WANT(A(stub_plain_ip), A(restorer_rt));
	EXPECT_TRUE(stub_is_wanted(stub_plain, end - 2 * W));
}
#endif

TEST_HARNESS_MAIN
