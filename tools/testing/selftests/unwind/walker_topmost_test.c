// SPDX-License-Identifier: GPL-2.0
/*
 * The walker at the topmost frame: whether the caller of a function is found
 * depends on the instruction, with a uprobe on it or not, and must not. In memory of no
 * file this also holds for callers that only return.
 */
#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include "walker_fixture.h"

/* ------------------------------------------------------------------------ */
/* One instruction							      */

FIXTURE(topmost) {};

FIXTURE_VARIANT(topmost)
{
	char *stub;
	char *ip;
	/* The word at the stack pointer, which has to be real if the function returns */
	void *top;
	/* It is a return address. */
	bool has_caller;
	bool has_caller_if_probed;
};

#define CALLER		((void *)RA(100))

FIXTURE_VARIANT_ADD(topmost, push) { stub_push, stub_push_ip, CALLER, true, true };
FIXTURE_VARIANT_ADD(topmost, endbr_and_push)
	{ stub_endbr_push, stub_endbr_push_ip, CALLER, true, true };
FIXTURE_VARIANT_ADD(topmost, ret) { stub_ret, stub_ret_ip, probe_back, true, true };
FIXTURE_VARIANT_ADD(topmost, rep_ret) { stub_rep_ret, stub_rep_ret_ip, probe_back, true, true };
FIXTURE_VARIANT_ADD(topmost, bnd_ret) { stub_bnd_ret, stub_bnd_ret_ip, probe_back, true, true };
FIXTURE_VARIANT_ADD(topmost, ret_with_arguments)
	{ stub_ret_imm, stub_ret_imm_ip, probe_back, true, true };
/* Nobody sets a probe on any other landing pad than that of a function. */
FIXTURE_VARIANT_ADD(topmost, lone_endbr) { stub_endbr, stub_endbr_ip, CALLER, false, true };
FIXTURE_VARIANT_ADD(topmost, middle) { stub_plain, stub_plain_ip, CALLER, false, false };

FIXTURE_SETUP(topmost)
{
	if (!walk_set_up(_metadata))
		return;
	put(walk.sp, A(variant->top));
	put(walk.sp + W, RA(101));
	build(walk.fp, 3);
}

FIXTURE_TEARDOWN(topmost)
{
	walk_end();
}

static void want_topmost(const struct _fixture_variant_topmost *variant, bool has_caller)
{
	WANT(A(variant->ip));
	if (has_caller)
		want(A(variant->top));
	want_frames(0, 3);
}

TEST_F(topmost, frames_are_exact)
{
	want_topmost(variant, variant->has_caller);
	EXPECT_TRUE(stub_is_wanted(variant->stub, walk.fp));
}

/*
 * The walk sees a breakpoint where the instruction was, at a system call before
 * it. Then the breakpoint is hit and is sampled itself.
 */
TEST_F(topmost, frames_are_exact_with_a_uprobe)
{
	struct up_ring probe;

	ASSERT_EQ(0, open_uprobe(&probe, variant->ip, false, DEFER));
	ASSERT_EQ(0, up_enable(&probe));
	walk.records = in_place ? 0 : 2;
	want_topmost(variant, variant->has_caller_if_probed);
	/* Looking for the probe takes a lock, which is not done in place. */
	if (!stub_is_wanted(variant->stub, walk.fp))
		EXPECT_TRUE(in_place);
	ASSERT_EQ(0, up_disable(&probe));
	up_drain(&probe);
	/* This one holds the record of the system call too. */
	EXPECT_TRUE(is_wanted(only_answer(&probe)));
	EXPECT_EQ(A(variant->ip), up_nth(&probe, PERF_RECORD_SAMPLE, 0)->ip);
}

/* A system call precedes it, and not the push. */
TEST_F(walk, mov_without_a_push_does_not_invent_a_frame)
{
	put(walk.sp, walk.fp);
	put(walk.sp + W, RA(100));
	WANT(A(stub_mov_ip));
	want_frames(0, 3);
	EXPECT_TRUE(stub_is_wanted(stub_mov, build(walk.fp, 3)));
}

/* Nothing is mapped after it, and fewer bytes are there than are looked at. */
TEST_F(walk, caller_of_a_function_with_its_ret_at_the_end_of_a_page_is_kept)
{
#ifdef __x86_64__
	static const unsigned char code[] = { 0x0f, 0x05, 0xc3 };
#else
	static const unsigned char code[] = { 0xcd, 0x80, 0xc3 };
#endif
	unsigned long end = walk.stack + STACK_SIZE - PAGE;
	unsigned long at = end - sizeof(code);

	memcpy((void *)at, code, sizeof(code));
	ASSERT_EQ(0, mprotect((void *)(end - PAGE), PAGE, PROT_READ | PROT_EXEC));
	ASSERT_EQ(0, munmap((void *)end, PAGE));
	put(walk.sp, A(probe_back));
	WANT(at + 2, A(probe_back));
	want_frames(0, 3);
	EXPECT_TRUE(stub_is_wanted((void *)at, build(walk.fp, 3)));
}

TEST_F(walk, function_start_on_a_dropped_stack_page_keeps_its_caller)
{
	if (must_skip(_metadata, need_deferral()))
		return;
	ASSERT_TRUE(stack_from_file());
	put(walk.sp, RA(100));
	build(walk.fp, 3);
	WANT(A(stub_push_ip), RA(100));
	want_frames(0, 3);
	ASSERT_EQ(0, madvise((void *)walk.stack, STACK_SIZE, MADV_DONTNEED));
	EXPECT_TRUE(stub_is_wanted(stub_push, walk.fp));
}

/* ------------------------------------------------------------------------ */
/* Each instruction of a function					      */

FIXTURE(function) {};

FIXTURE_VARIANT(function)
{
	char *fn;
	/* Its instructions, and what follows until its caller goes on */
	char *ips[12];
	size_t nr;
	size_t nr_following;
	bool uretprobe;
};

FIXTURE_VARIANT_ADD(function, plain) {
	plain_fn, { plain_fn, plain_fn_mov, plain_fn_nop, plain_fn_pop, plain_fn_ret }, 5
};

FIXTURE_VARIANT_ADD(function, endbr) {
	endbr_fn, { endbr_fn, endbr_fn_push, endbr_fn_mov, endbr_fn_nop, endbr_fn_pop,
		    endbr_fn_ret }, 6
};

FIXTURE_VARIANT_ADD(function, other_encoding) {
	alt_fn, { alt_fn, alt_fn_mov, alt_fn_nop, alt_fn_pop, alt_fn_ret }, 5
};

/*
 * With a return probe, there is a trampoline between the function and its caller.
 * It does not show, although it has words on the stack at some of its instructions.
 */
FIXTURE_VARIANT_ADD(function, with_a_uretprobe) {
	plain_fn,
	{ plain_fn, plain_fn_mov, plain_fn_nop, plain_fn_pop, plain_fn_ret,
#ifdef __x86_64__
	  /* Of the eight; there is no trap right after a system call. */
	  stub_step_ret, stub_step_ret, stub_step_ret, stub_step_ret,
	  stub_step_ret, stub_step_ret, stub_step_ret },
	.nr_following = 7,
#else
	},
#endif
	.nr = 5,
	.uretprobe = true,
};

FIXTURE_SETUP(function)
{
	struct up_ring ring;

	/* In place, its breakpoint hides what a function begins with. */
	if (variant->uretprobe && must_skip(_metadata, need_deferral()))
		return;
	if (!walk_set_up(_metadata))
		return;
	build(walk.fp, 3);
	if (!variant->uretprobe)
		return;
	/* It stays until the process ends. */
	ASSERT_EQ(0, open_uprobe(&ring, variant->fn, true, 0));
	ASSERT_EQ(0, up_enable(&ring));
}

FIXTURE_TEARDOWN(function)
{
	walk_end();
}

static void step_over(struct __test_metadata *_metadata, struct up_ring *ring,
		      const struct _fixture_variant_function *variant, void *handler)
{
	struct probe p = probe_of(stub_step, walk.sp, walk.fp, 0);
	size_t nr = variant->nr + variant->nr_following + 4;

	p.args[0] = A(variant->fn);
	ASSERT_EQ(0, raw_sigaction(SIGTRAP, handler, SA_SIGINFO, restorer_rt));
	ASSERT_EQ(0, up_enable(ring));
	probe_at(&p);
	ASSERT_EQ(0, up_disable(ring));
	up_drain(ring);
	ASSERT_EQ(nr, up_count(ring, PERF_RECORD_SAMPLE));
	ASSERT_EQ(nr, up_count(ring, UP_STACKS));
}

/* The trace of step i: in the function, or in the code that called it */
static void want_step(const struct _fixture_variant_function *variant, size_t i)
{
	static char * const after[] = {
		stub_step_ret, stub_step_and, stub_step_popf, stub_step_jmp
	};
	size_t nr = variant->nr + variant->nr_following;

	want(A(i < nr ? variant->ips[i] : after[i - nr]));
	if (i < nr && variant->ips[i] != stub_step_ret)
		want(A(stub_step_ret));
	want_frames(0, 3);
}

TEST_F(function, stepping_keeps_the_caller_at_each_instruction)
{
	struct up_ring ring;
	size_t i;

	if (must_skip(_metadata, need_tracepoint("signal", "signal_generate")))
		return;
	ASSERT_EQ(0, open_tracepoint(&ring, "signal", "signal_generate", DEFER));
	step_over(_metadata, &ring, variant, handler_empty);
	for (i = 0; i < variant->nr + variant->nr_following + 4; i++) {
		want_nothing();
		want_step(variant, i);
		EXPECT_TRUE(is_wanted(answer_nr(&ring, i)));
	}
}

/* Sampled in the handler of each step's signal */
TEST_F(function, interrupted_at_each_instruction_keeps_the_caller)
{
	size_t i;

	handler_probe_nr = NR_GETPPID;
	step_over(_metadata, &walk.ring, variant, handler_probe);
	for (i = 0; i < variant->nr + variant->nr_following + 4; i++) {
		WANT(A(handler_probe_ip), A(restorer_rt));
		want_step(variant, i);
		EXPECT_TRUE(is_wanted(answer_nr(&walk.ring, i)));
	}
}

TEST_F(function, uprobe_on_each_instruction_keeps_the_caller)
{
	struct probe p = probe_of(stub_call, walk.sp, walk.fp, NR_GETPPID);
	struct up_ring ring;
	size_t i;

	p.args[0] = A(variant->fn);
	for (i = 0; i < variant->nr; i++) {
		WANT(A(variant->ips[i]), A(stub_call_ret));
		want_frames(0, 3);
		ASSERT_EQ(0, open_uprobe(&ring, variant->ips[i], false, DEFER));
		EXPECT_TRUE(event_is_wanted(&ring, &p));
		EXPECT_EQ(1, up_count(&ring, UP_STACKS));
		up_close(&ring);
	}
}

/* ------------------------------------------------------------------------ */
/* Epilogues in memory of no file					      */

#ifdef __x86_64__
struct epilogue {
	const char *what;
	unsigned char code[20];
	/* From the stack pointer to the return address, and to the frame pointer */
	int ra;
	int fp;
};

#define NOT_SAVED	-1

static const struct epilogue epilogues[] = {
	{ "ret", { 0xc3 }, 0, NOT_SAVED },
	{ "rep ret", { 0xf3, 0xc3 }, 0, NOT_SAVED },
	{ "bnd ret", { 0xf2, 0xc3 }, 0, NOT_SAVED },
	{ "ret $16", { 0xc2, 0x10, 0x00 }, 0, NOT_SAVED },
	{ "add $8", { 0x48, 0x83, 0xc4, 0x08, 0xc3 }, 0x08, NOT_SAVED },
	{ "add $120", { 0x48, 0x83, 0xc4, 0x78, 0xc3 }, 0x78, NOT_SAVED },
	{ "add $0x108", { 0x48, 0x81, 0xc4, 0x08, 0x01, 0, 0, 0xc3 }, 0x108, NOT_SAVED },
	{ "lea 8", { 0x48, 0x8d, 0x64, 0x24, 0x08, 0xc3 }, 0x08, NOT_SAVED },
	{ "lea 0x208", { 0x48, 0x8d, 0xa4, 0x24, 0x08, 0x02, 0, 0, 0xc3 }, 0x208, NOT_SAVED },
	{ "pop %rbx", { 0x5b, 0xc3 }, 0x08, NOT_SAVED },
	{ "pop %r12, %r13", { 0x41, 0x5c, 0x41, 0x5d, 0xc3 }, 0x10, NOT_SAVED },
	{ "pop %rbp", { 0x5d, 0xc3 }, 0x08, 0x00 },
	{ "pop %rbp; rep ret", { 0x5d, 0xf3, 0xc3 }, 0x08, 0x00 },
	{ "pop %rbx, %rbp", { 0x5b, 0x5d, 0xc3 }, 0x10, 0x08 },
	{ "add $8; pop %rbp", { 0x48, 0x83, 0xc4, 0x08, 0x5d, 0xc3 }, 0x10, 0x08 },
	{ "lea 8; pop %rbp", { 0x48, 0x8d, 0x64, 0x24, 0x08, 0x5d, 0xc3 }, 0x10, 0x08 },
	{ "add $16; pop %rbx, %rbp, %r12",
	  { 0x48, 0x83, 0xc4, 0x10, 0x5b, 0x5d, 0x41, 0x5c, 0xc3 }, 0x28, 0x18 },
	{ "add $8; six pops", { 0x48, 0x83, 0xc4, 0x08, 0x5b, 0x5d, 0x41, 0x5c, 0x41, 0x5d,
				0x41, 0x5e, 0x41, 0x5f, 0xc3 }, 0x38, 0x10 },
};

/* Code that is none of these, or not yet; by frame pointer, all have the same caller. */
static const struct epilogue others[] = {
	{ "leave", { 0xc9, 0xc3 } },
	{ "nop", { 0x90, 0xc3 } },
	{ "mov", { 0x48, 0x89, 0xd8, 0xc3 } },
	{ "add $4", { 0x48, 0x83, 0xc4, 0x04, 0xc3 } },
	{ "add $-8", { 0x48, 0x83, 0xc4, 0xf8, 0xc3 } },
	{ "add $-8, long", { 0x48, 0x81, 0xc4, 0xf8, 0xff, 0xff, 0xff, 0xc3 } },
	{ "add $0x7ffffff8", { 0x48, 0x81, 0xc4, 0xf8, 0xff, 0xff, 0x7f, 0xc3 } },
	{ "add $8,%esp", { 0x83, 0xc4, 0x08, 0xc3 } },
	{ "add $8,%rbx", { 0x48, 0x83, 0xc3, 0x08, 0xc3 } },
	{ "sub", { 0x48, 0x83, 0xec, 0x08, 0xc3 } },
	{ "lea to %rax", { 0x48, 0x8d, 0x44, 0x24, 0x08, 0xc3 } },
	{ "lea of %rbx", { 0x48, 0x8d, 0x63, 0x08, 0xc3 } },
	{ "lea $-8", { 0x48, 0x8d, 0x64, 0x24, 0xf8, 0xc3 } },
	{ "pop %rsp", { 0x5c, 0xc3 } },
	{ "pop %rbx, %rsp", { 0x5b, 0x5c, 0xc3 } },
	{ "inc", { 0x41, 0xff, 0xc3 } },
	{ "add; nop", { 0x48, 0x83, 0xc4, 0x08, 0x90, 0xc3 } },
	{ "add; jmp", { 0x48, 0x83, 0xc4, 0x08, 0xe9, 0xc3, 0, 0, 0 } },
	{ "add; add", { 0x48, 0x83, 0xc4, 0x08, 0x48, 0x83, 0xc4, 0x08, 0xc3 } },
	{ "pop; add", { 0x5b, 0x48, 0x83, 0xc4, 0x08, 0xc3 } },
	{ "pop; call", { 0x5b, 0xe8, 0xc3, 0, 0, 0 } },
	{ "nothing", { 0 } },
};

/* Frames that frame pointers lead to, which are beyond all epilogues' */
#define EPILOGUE_FP	(walk.fp + 256 * W)

#define PROT_CODE	(PROT_READ | PROT_WRITE | PROT_EXEC)

/* A page of code of no file */
static unsigned char *code_page(void)
{
	return mmap(NULL, PAGE, PROT_CODE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/*
 * The caller of the topmost frame returns to the epilogue at @at, and that to RA(100); or
 * by frame pointer, to the first of the others. What @e restores is the frame pointer; in
 * the register is another one, or none.
 */
static bool epilogue_is_wanted(const struct epilogue *e, const unsigned char *at, bool taken)
{
	unsigned long sp = walk.fp + 2 * W;
	bool restores = taken && e->fp != NOT_SAVED;

	build(EPILOGUE_FP, 3);
	put_frame(walk.fp, restores ? 0x1234 : EPILOGUE_FP, A(at));
	put(sp + e->ra, RA(100));
	if (e->fp != NOT_SAVED)
		put(sp + e->fp, EPILOGUE_FP);
	WANT(A(stub_plain_ip), A(at));
	if (taken)
		want(RA(100));
	want_frames(0, 3);
	return stub_is_wanted(stub_plain, walk.fp);
}

static void check_epilogues(struct __test_metadata *_metadata, const struct epilogue *e,
			    size_t nr, unsigned char *code, bool taken)
{
	unsigned char *at = code + 0x100;

	ASSERT_NE(MAP_FAILED, (void *)code);
	for (; nr--; e++) {
		memcpy(at, e->code, sizeof(e->code));
		EXPECT_TRUE(epilogue_is_wanted(e, at, taken)) {
			TH_LOG("%s", e->what);
		}
	}
}

TEST_F(walk, epilogue_after_a_call_tells_where_the_caller_is)
{
	check_epilogues(_metadata, epilogues, ARRAY_SIZE(epilogues), code_page(), true);
}

TEST_F(walk, other_code_after_a_call_is_walked_by_frame_pointer)
{
	check_epilogues(_metadata, others, ARRAY_SIZE(others), code_page(), false);
}

/* Code whose changes are not reported is not remembered. */
TEST_F(walk, epilogue_that_comes_and_goes)
{
	unsigned char *code = code_page(), *at = code + 0x100;
	const struct epilogue *e = &epilogues[ARRAY_SIZE(epilogues) - 1];
	int i;

	ASSERT_NE(-1UL, A(code));
	for (i = 0; i < 4; i++) {
		memcpy(at, others[0].code, sizeof(others[0].code));
		EXPECT_TRUE(epilogue_is_wanted(e, at, false));
		memcpy(at, e->code, sizeof(e->code));
		EXPECT_TRUE(epilogue_is_wanted(e, at, true));
	}
}

/* The ret is the last byte of all, or would be the next one. */
TEST_F(walk, epilogue_at_the_end_of_the_last_page)
{
	const struct epilogue *e = &epilogues[ARRAY_SIZE(epilogues) - 1];
	unsigned char *code = mmap(NULL, 2 * PAGE, PROT_CODE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const size_t len = 15;

	ASSERT_NE(-1UL, A(code));
	memcpy(code + PAGE - len, e->code, len);
	ASSERT_EQ(0, munmap(code + PAGE, PAGE));
	EXPECT_TRUE(epilogue_is_wanted(e, code + PAGE - len, true));
	memcpy(code + PAGE - len + 1, e->code, len - 1);
	EXPECT_TRUE(epilogue_is_wanted(e, code + PAGE - len + 1, false));
}

/* As above, but the walk ends at @at, for this reason; no caller is outside of code. */
static bool epilogue_ends_walk(const struct epilogue *e, const unsigned char *at,
			       unsigned int end)
{
	struct probe p = probe_of(stub_plain, walk.sp, walk.fp, NR_GETPPID);
	struct up_rec *rec;

	put_frame(walk.fp, EPILOGUE_FP, A(at));
	put(walk.fp + 2 * W + e->ra, RA(100));
	WANT(A(stub_plain_ip));
	if (end != UT_END_CORRUPT)
		want(A(at));
	rec = sample(&p);
	return is_wanted(rec) && !(rec->misc & UT_MISC_OUTERMOST) &&
	       UT_MISC_END(rec->misc) == end;
}

/* Only the kernel is asked for its page, and addresses without code are not looked at. */
TEST_F(walk, epilogue_that_is_not_there_is_not_made_up)
{
	const struct epilogue *e = &epilogues[4];
	unsigned char *code = code_page(), *at = code + 0x100;
	struct pollfd asked = { .events = POLLIN };
	int i;

	if (must_skip(_metadata, need_deferral()))
		return;
	ASSERT_NE(-1UL, A(code));
	for (i = 0; i < 2; i++) {
		memcpy(at, e->code, sizeof(e->code));
		EXPECT_TRUE(epilogue_is_wanted(e, at, true));
		/* An empty page is supplied, which has other code. */
		ASSERT_EQ(0, madvise(code, PAGE, MADV_DONTNEED));
		EXPECT_TRUE(epilogue_is_wanted(e, at, false));

		memcpy(at, e->code, sizeof(e->code));
		ASSERT_EQ(0, mprotect(code, PAGE, PROT_NONE));
		EXPECT_TRUE(epilogue_ends_walk(e, at, UT_END_CORRUPT));
		ASSERT_EQ(0, mprotect(code, PAGE, PROT_CODE));
		EXPECT_TRUE(epilogue_is_wanted(e, at, true));
		ASSERT_EQ(0, munmap(code, PAGE));
		EXPECT_TRUE(epilogue_ends_walk(e, at, UT_END_CORRUPT));
		ASSERT_EQ(code, mmap(code, PAGE, PROT_CODE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
				     -1, 0));
	}

	asked.fd = uffd_on(A(code), PAGE, UFFDIO_REGISTER_MODE_MISSING, 0);
	if (asked.fd < 0)
		SKIP(return, "needs userfaultfd");
	EXPECT_TRUE(epilogue_ends_walk(e, at, UT_END_ABSENT));
	EXPECT_EQ(0, poll(&asked, 1, 0));
}

/* A file can have tables, and its code keeps a frame pointer where it has none. */
TEST_F(walk, epilogue_in_a_file_is_not_looked_at_after_a_call)
{
	int fd = syscall(SYS_memfd_create, "code", 0);
	unsigned char *code;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, PAGE));
	code = mmap(NULL, PAGE, PROT_CODE, MAP_SHARED, fd, 0);
	check_epilogues(_metadata, epilogues, ARRAY_SIZE(epilogues), code, false);
}

/*
 * A system call right before it, and then it is what it says. The registers that it
 * restores are those of probe_at(), which has the struct probe in the last of them.
 */
TEST_F(walk, epilogue_is_where_the_topmost_frame_is)
{
	unsigned char *code = code_page(), *at = code + 0x100;
	unsigned int i;
	int slot;

	ASSERT_NE(-1UL, A(code));
	memcpy(at, "\x0f\x05", 2);
	for (i = 0; i < ARRAY_SIZE(epilogues); i++) {
		const struct epilogue *e = &epilogues[i];
		struct probe p = probe_of(at, walk.sp, EPILOGUE_FP, NR_GETPPID);

		memcpy(at + 2, e->code, sizeof(e->code));
		build(EPILOGUE_FP, 3);
		for (slot = 0; slot < e->ra; slot += W)
			put(walk.sp + slot, A(&p));
		put(walk.sp + e->ra, A(probe_back));
		if (e->fp != NOT_SAVED) {
			put(walk.sp + e->fp, EPILOGUE_FP);
			p.fp = 0x1234;
		}
		WANT(A(at + 2), A(probe_back));
		want_frames(0, 3);
		EXPECT_TRUE(sample_is_wanted(&p)) {
			TH_LOG("%s", e->what);
		}
	}
}
#endif

/* ------------------------------------------------------------------------ */
/* Out-of-line slots							      */

static int open_fault_event(struct up_ring *ring)
{
	struct perf_event_attr attr;

	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, DEFER);
	attr.exclude_callchain_kernel = 1;
	attr.exclude_kernel = 1;
	return up_open(ring, &attr, 0, -1, -1);
}

/*
 * The one page fault that the probed instruction takes out of line: its record
 * shows the probed address, and no record shows an address of the slots.
 */
static void check_slot(struct __test_metadata *_metadata, struct probe *warm,
		       struct probe *p, void *ip)
{
	struct up_ring probe, faults;
	size_t i, j, found = 0;

	ASSERT_EQ(0, open_uprobe(&probe, ip, false, 0));
	ASSERT_EQ(0, open_fault_event(&faults));
	ASSERT_EQ(0, up_enable(&probe));
	/* The first time, the slot itself is not there. */
	probe_at(warm);
	up_reset(&probe);
	ASSERT_EQ(0, up_enable(&faults));
	probe_at(p);
	ASSERT_EQ(0, up_disable(&faults));
	ASSERT_EQ(0, up_disable(&probe));
	up_drain(&faults);
	up_drain(&probe);
	EXPECT_EQ(1, up_count(&probe, PERF_RECORD_SAMPLE));
	EXPECT_EQ(0, up_count_bad(&faults));
	for (i = 0; i < faults.nr_recs; i++) {
		struct up_rec *deferred, *rec = &faults.recs[i];
		char path[512];

		if (rec->type != PERF_RECORD_SAMPLE)
			continue;
		deferred = up_answer(&faults, rec);
		ASSERT_NE(NULL, deferred);
		ASSERT_LT(0, deferred->nr);
		/* The slots are not backed by a file, but maps has a name for them. */
		for (j = 0; j < deferred->nr; j++) {
			path[0] = 0;
			file_offset((void *)A(deferred->ips[j]), path, sizeof(path));
			EXPECT_STRNE("[uprobes]", path);
		}
		if (deferred->ips[0] != A(ip))
			continue;
		found++;
		EXPECT_TRUE(is_wanted(deferred));
	}
	EXPECT_EQ(1, found);
}

TEST_F(walk, fault_in_an_out_of_line_slot_shows_the_probed_address)
{
	struct probe p = probe_of(stub_call, walk.sp, build(walk.fp, 2), 0);
	struct probe warm;

	p.args[0] = A(load_fn);
	p.args[1] = walk.sp;
	warm = p;
	/* A page that has never been touched */
	p.args[1] = walk.stack + STACK_SIZE - PAGE;
	WANT(A(load_fn_load), A(stub_call_ret));
	want_frames(0, 2);
	check_slot(_metadata, &warm, &p, load_fn_load);
}

TEST_F(walk, ret_faulting_in_an_out_of_line_slot_keeps_the_caller)
{
	struct probe p, warm;
	unsigned long page;

	if (must_skip(_metadata, need_deferral()))
		return;
	ASSERT_TRUE(stack_from_file());
	page = walk.sp & ~(PAGE - 1);
	/* The frames stay on the next page; the return address goes with its page. */
	warm = probe_of(stub_ret, walk.sp, build(page + PAGE, 2), NR_GETPPID);
	p = warm;
	p.nr = NR_MADVISE;
	p.args[0] = page;
	p.args[1] = PAGE;
	p.args[2] = MADV_DONTNEED;
	put(walk.sp, A(probe_back));
	WANT(A(stub_ret_ip), A(probe_back));
	want_frames(0, 2);
	check_slot(_metadata, &warm, &p, stub_ret_ip);
}

/* ------------------------------------------------------------------------ */
/* System calls that are not instructions				      */

#ifndef __x86_64__
/*
 * sysenter, syscall or int $0x80, whichever this CPU has: the vDSO's entry has
 * pushed three registers, the frame pointer last, and its caller must be kept.
 */
TEST_F(walk, system_call_through_the_vdso_finds_the_frames)
{
	struct probe p = probe_of(stub_call, walk.sp, build(walk.fp, 2), NR_GETPPID);
	unsigned long base = getauxval(AT_SYSINFO_EHDR);
	struct up_rec *rec;

	vsyscall_entry = getauxval(AT_SYSINFO);
	ASSERT_NE(0, vsyscall_entry);
	p.args[0] = A(vsyscall_fn);
	rec = sample(&p);
	ASSERT_NE(0, A(rec));
	ASSERT_LT(0, rec->nr);
	EXPECT_LE(base, rec->ips[0]);
	EXPECT_GT(base + 2 * PAGE, rec->ips[0]);
	WANT(rec->ips[0], A(vsyscall_fn_ret), A(stub_call_ret));
	want_frames(0, 2);
	EXPECT_TRUE(is_wanted(rec));
}
#endif

#if defined(__x86_64__) && !defined(__ILP32__)
/* It is emulated when fetched. Its address is in the kernel's half, its caller is not. */
TEST_F(walk, vsyscall_shows_its_caller)
{
	struct probe p = probe_of(stub_vsyscall_time, walk.sp, build(walk.fp, 3), 0);
	struct up_ring ring;

	if (must_skip(_metadata, need_tracepoint("vsyscall", "emulate_vsyscall")))
		return;
	ASSERT_EQ(0, open_tracepoint(&ring, "vsyscall", "emulate_vsyscall", DEFER));
	WANT(A(stub_vsyscall_time_ret));
	want_frames(0, 3);
	EXPECT_TRUE(event_is_wanted(&ring, &p));
}

static void return_from_vsyscall(int sig, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	regs[REG_RIP] = *(greg_t *)regs[REG_RSP];
	regs[REG_RSP] += 8;
}

/* One that is not emulated: the IP is still there when the signal comes. */
TEST_F(walk, vsyscall_that_faults_shows_its_caller)
{
	struct probe p = probe_of(stub_vsyscall_bad, walk.sp, build(walk.fp, 3), 0);
	struct sigaction sa = { .sa_flags = SA_SIGINFO };
	struct up_ring ring;

	if (must_skip(_metadata, need_tracepoint("signal", "signal_generate")))
		return;
	sa.sa_sigaction = return_from_vsyscall;
	ASSERT_EQ(0, sigaction(SIGSEGV, &sa, NULL));
	ASSERT_EQ(0, open_tracepoint(&ring, "signal", "signal_generate", DEFER));
	WANT(A(stub_vsyscall_bad_ret));
	want_frames(0, 3);
	EXPECT_TRUE(event_is_wanted(&ring, &p));
}
#endif

TEST_HARNESS_MAIN
