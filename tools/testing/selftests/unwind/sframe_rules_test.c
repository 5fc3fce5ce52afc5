// SPDX-License-Identifier: GPL-2.0
/*
 * Walks by all sorts of rules of an SFrame table.
 */
#include <signal.h>

#include "sframe_code.h"
#include "unwind_harness.h"

static struct area area;

static void rules_set_up(struct __test_metadata *_metadata)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&area, 3, true, false));
	sframe_build_init(&build, 3, true, area.table);
}

/* Finish the table that a test has built, and add it. */
static int rules_add(void)
{
	table_write(area.table);
	return area_add(&area);
}

/* Take a trace as well. */
static int rules_trace(uint64_t *ips)
{
	if (rules_add())
		return -1;
	return stack_of((void *)area.code.top, ips);
}

/* The number of addresses with the stack pointer and the frame pointer at @words */
static int rules_words(u64 *words)
{
	if (rules_add())
		return -1;
	return frames_of_words(words);
}

/* A function with one row, whose CFA is told by a register */
static void func_reg(unsigned long start, u32 size, s32 reg, s32 offset)
{
	s32 words[] = { reg, offset, 0 };

	sframe_build_func(&build, start, size, SFRAME_BUILD_ROW1)->info2 = 1;
	sframe_build_row(&build, 0, 3 << 1, words);
}

/* One of signal frames, whose CFA is at a fixed distance from the stack pointer */
static void func_signal(unsigned long start, u32 size, s32 cfa)
{
	sframe_build_func(&build, start, size, SFRAME_BUILD_ROW1 | SFRAME_BUILD_SIGNAL);
	sframe_build_sp(&build, 0, cfa);
}

/* ------------------------------------------------------------------------ */
/* Rules that end a trace						      */

FIXTURE(end) {};

FIXTURE_VARIANT(end)
{
	/* The offsets of the CFA in the leaf and in its caller, which can be outermost */
	s32 leaf;
	s32 caller;
	bool outermost;
	int frames;
};

FIXTURE_VARIANT_ADD(end, outermost_row) { .leaf = 8, .outermost = true, .frames = 2 };
FIXTURE_VARIANT_ADD(end, cfa_that_does_not_grow) { .leaf = 8, .caller = 0, .frames = 2 };
FIXTURE_VARIANT_ADD(end, misaligned_cfa) { .leaf = 12, .caller = 32, .frames = 1 };
FIXTURE_VARIANT_ADD(end, cfa_in_no_mans_land) { .leaf = 0x7ffffff8, .caller = 32, .frames = 1 };

FIXTURE_SETUP(end)
{
	rules_set_up(_metadata);
}

FIXTURE_TEARDOWN(end) {}

TEST_F(end, ends_the_trace)
{
	uint64_t ips[MAX_IPS];

	func_sp(area.code.leaf, 7, variant->leaf);
	sframe_build_func(&build, area.code.stub[0], 14, SFRAME_BUILD_ROW1);
	if (variant->outermost)
		sframe_build_end(&build, 0);
	else
		sframe_build_sp(&build, 0, variant->caller);
	/* Cold and warm */
	EXPECT_EQ(variant->frames, rules_trace(ips));
	EXPECT_EQ(variant->frames, stack_of((void *)area.code.top, ips));
	EXPECT_TRUE(up_frames_equal(ips, variant->frames, area.code.ips, variant->frames));
}

/* ------------------------------------------------------------------------ */
/* Rules that are followed						      */

FIXTURE(rules) {};

FIXTURE_SETUP(rules)
{
	rules_set_up(_metadata);
}

FIXTURE_TEARDOWN(rules) {}

/* The word there would pass as a return address. */
TEST_F(rules, misaligned_cfa_of_a_caller_ends_the_trace)
{
	u64 words[6] = { 0, area.code.ips[0] };

	memcpy((u8 *)&words[2] + 4, &area.code.ips[1], sizeof(u64));
	func_sp(area.code.leaf, 7, 12);
	EXPECT_EQ(2, rules_words(words));
}

/* A table for the system call itself; its caller goes by frame pointer. */
TEST_F(rules, frame_pointer_that_the_topmost_frame_saved_is_restored)
{
	unsigned long ip = (unsigned long)framed_ip_syscall;
	u64 ra = (u64)call_code_ip;
	u64 words[] = { 0, ra, 0, 0, 0, ra };

	words[0] = (u64)&words[4];
	sframe_build_func(&build, ip - 2, 4, SFRAME_BUILD_ROW1);
	sframe_build_saved(&build, 0, SFRAME_BUILD_SP, 16, -16);
	table_write(area.table);
	ASSERT_EQ(0, add_table(area.table, area.table_end, ip - 2, ip + 2));
	EXPECT_EQ(3, frames_of_words(words));
}

TEST_F(rules, gap_between_functions_goes_by_frame_pointer)
{
	uint64_t ips[MAX_IPS];
	int nr;

	func_sp(area.code.leaf, 7, 8);
	nr = rules_trace(ips);
	/* The leaf by table; its caller has no frame, the next known one does */
	ASSERT_LT(3, nr);
	EXPECT_EQ(area.code.ips[1], ips[1]);
	EXPECT_FALSE(ips[2] >= area.text && ips[2] < area.text_end);
	nr = stack_of((void *)area.code.top, ips);
	ASSERT_LT(3, nr);
	EXPECT_EQ(area.code.ips[1], ips[1]);
}

/* Code without a table would be noted for so many frames. */
TEST_F(rules, gap_that_many_frames_are_in_leaves_the_table)
{
	u64 words[36] = { };
	int i;

	for (i = 0; i < 16; i++) {
		words[2 * i] = (u64)&words[2 * i + 2];
		words[2 * i + 1] = area.code.ips[1];
	}
	words[33] = area.code.ips[0];
	words[34] = area.code.ips[0];
	func_sp(area.code.leaf, 7, 8);
	/* The system call, those frames, and two by the table */
	EXPECT_EQ(19, rules_words(words));
}

/* leaf: lea 8(%rsp), %r10; and $-32, %rsp; the CFA is in %r10 only */
static void make_realigned_leaf(void)
{
	u8 *to = (u8 *)area.text;

	to = code_bytes(to, "\x4c\x8d\x54\x24\x08\x48\x83\xe4\xe0", 9);
	to = code_bytes(to, "\x48\x89\xf8\x0f\x05\x90", 6);
	code_bytes(to, "\x49\x8d\x62\xf8\xc3", 5);
	area.code.ips[0] = area.text + 14;
}

static void add_stubs(void)
{
	unsigned int i;

	for (i = 0; i < NR_STUBS; i++) {
		sframe_build_func(&build, area.code.stub[i], 14, SFRAME_BUILD_ROW1);
		sframe_build_sp(&build, 0, 8);
		sframe_build_sp(&build, 4, 32);
		sframe_build_sp(&build, 13, 8);
	}
}

TEST_F(rules, register_of_the_topmost_frame_is_followed)
{
	uint64_t ips[MAX_IPS];

	make_realigned_leaf();
	func_reg(area.code.leaf, 20, SFRAME_BUILD_REG(10), 0);
	add_stubs();
	ASSERT_LT((int)area.code.nr_ips, rules_trace(ips));
	EXPECT_TRUE(up_frames_equal(ips, area.code.nr_ips, area.code.ips, area.code.nr_ips));
}

TEST_F(rules, signal_row_makes_the_callers_address_exact)
{
	uint64_t ips[MAX_IPS];

	/*
	 * The return address of the leaf is the first byte of a row: as that of
	 * a call it would belong to the row before, which ends the trace.
	 */
	func_signal(area.code.leaf, 7, 8);
	sframe_build_func(&build, area.code.stub[0], 14, SFRAME_BUILD_ROW1);
	sframe_build_end(&build, 0);
	sframe_build_sp(&build, 9, 32);
	EXPECT_LT(2, rules_trace(ips));
	EXPECT_EQ(area.code.ips[2], ips[2]);
}

/* A leaf of so many rows, of which the last one counts */
static void func_rows(u32 size, int rows)
{
	sframe_build_func(&build, area.code.leaf, size, SFRAME_BUILD_ROW1);
	while (rows--)
		sframe_build_sp(&build, 0, 8);
}

TEST_F(rules, function_of_very_many_rows_is_bounded)
{
	uint64_t ips[MAX_IPS];

	/* Every row before the right one is to be read. */
	func_rows(7, 4000);
	EXPECT_LE(1, rules_trace(ips));
}

TEST_F(rules, register_of_a_caller_is_not_followed)
{
	uint64_t ips[MAX_IPS];

	/* Nor is the frame pointer, which would skip the other stubs. */
	func_sp(area.code.leaf, 7, 8);
	func_reg(area.code.stub[0], 14, SFRAME_BUILD_REG(10), 32);
	ASSERT_EQ(2, rules_trace(ips));
	EXPECT_EQ(area.code.ips[1], ips[1]);
}

TEST_F(rules, register_after_a_signal_frame_is_not_followed)
{
	unsigned long other = area.code.leaf + 16;
	u64 words[] = { 0, area.code.ips[0], other, 0, 0, (u64)call_code_ip };
	uint64_t ips[MAX_IPS];

	/* The registers are those of the system call, not of the interrupted one. */
	words[0] = (u64)&words[4];
	func_signal(area.code.leaf, 7, 8);
	func_reg(other, 7, SFRAME_BUILD_REG(10), 32);
	ASSERT_EQ(0, rules_add());
	EXPECT_EQ(3, stack_of_words(words, ips));
	EXPECT_EQ(other, ips[2]);
}

/* A call as the last instruction: it returns to where the next function is. */
TEST_F(rules, return_address_after_the_function_is_the_functions)
{
	u64 words[] = { 0, area.code.leaf + 7, area.code.leaf + 7, area.code.leaf + 7, 0 };

	func_sp(area.code.leaf, 7, 8);
	func_sp(area.code.leaf + 7, 7, 16);
	EXPECT_EQ(4, rules_words(words));
}

/* A rule that is not cached leads there: the CFA is on the stack. */
TEST_F(rules, return_address_after_a_function_with_a_rare_rule_is_the_functions)
{
	u64 next = area.code.leaf + 7;
	u64 words[] = { 0, next, 0, next, 0, next, 0, 0 };
	uint64_t ips[MAX_IPS];
	int i;

	for (i = 2; i < 8; i += 2)
		words[i] = (u64)&words[i + 2];
	func_reg(area.code.leaf, 7, SFRAME_BUILD_REG(7) | SFRAME_BUILD_DEREF, 0);
	func_sp(next, 7, 8);
	EXPECT_EQ(4, rules_words(words));
	EXPECT_EQ(4, stack_of_words(words, ips));
	EXPECT_EQ(next, ips[3]);
}

TEST_F(rules, kernel_address_is_not_stored)
{
	u64 words[] = { 0, area.code.ips[0], area.code.ips[0], -640UL, area.code.ips[0], 0 };
	uint64_t ips[MAX_IPS];

	func_sp(area.code.leaf, 7, 8);
	EXPECT_EQ(3, rules_words(words));
	words[3] = 1UL << 56;
	EXPECT_EQ(3, stack_of_words(words, ips));
}

/* A stack that is made of return addresses into the same function. */
#define NR_LOOPS	40

static void put_loops(u64 *words)
{
	int i;

	for (i = 1; i <= NR_LOOPS; i++)
		words[i] = area.code.ips[0];
}

TEST_F(rules, function_that_calls_itself_gives_a_frame_a_call)
{
	u64 words[NR_LOOPS + 2] = {};
	uint64_t ips[MAX_IPS];
	int i;

	func_sp(area.code.leaf, 7, 8);
	put_loops(words);
	/* A caller by frame pointer, the others by the table, cold and warm */
	EXPECT_EQ(NR_LOOPS + 1, rules_words(words));
	EXPECT_EQ(NR_LOOPS + 1, stack_of_words(words, ips));
	for (i = 1; i <= NR_LOOPS; i++)
		EXPECT_EQ(area.code.ips[0], ips[i]);
}

TEST_F(rules, signal_rows_that_lead_to_themselves_are_bounded)
{
	u64 words[NR_LOOPS + 2] = {};

	func_signal(area.code.leaf, 7, 8);
	put_loops(words);
	/* The system call, its caller, and 16 frames that were interrupted */
	EXPECT_EQ(18, rules_words(words));
}

TEST_F(rules, frame_pointer_that_leads_to_itself_ends_the_trace)
{
	u64 words[NR_LOOPS + 2] = {};
	uint64_t ips[MAX_IPS];

	sframe_build_func(&build, area.code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_saved(&build, 0, SFRAME_BUILD_FP, 16, -16);
	put_loops(words);
	ASSERT_EQ(0, rules_add());
	words[0] = (u64)&words[2];
	words[2] = (u64)&words[2];
	EXPECT_EQ(3, frames_of_words(words));
	/* And in a circle of two */
	words[2] = (u64)&words[4];
	words[4] = (u64)&words[2];
	EXPECT_EQ(4, stack_of_words(words, ips));
}

/* The kernel's own addresses of this very stack would look like a frame. */
TEST_F(rules, frame_in_the_kernels_mapping_of_the_stack_is_not_followed)
{
	u64 *words = (u64 *)area.mem;
	s32 cfa = 16;

	words[1] = area.code.ips[0];
	words[5] = area.code.ips[0];
	sframe_build_func(&build, area.code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_row(&build, 0, SFRAME_BUILD_FP | 1 << 1, &cfa);
	ASSERT_EQ(0, rules_add());
	words[0] = (u64)&words[4];
	EXPECT_EQ(3, frames_of_words(words));
	words[0] = kernel_alias(words[0]);
	ASSERT_NE(0, words[0]);
	EXPECT_EQ(2, frames_of_words(words));
}

/* The frame pointer is the interrupted code's, and would lead past it. */
TEST_F(rules, handler_with_a_table_leads_to_what_it_interrupted)
{
	u64 *words = (u64 *)(area.mem + CODE_OFF - PAGE);
	/* As the kernel has it: handler, flags, restorer, mask */
	unsigned long action[4];
	uint64_t ips[MAX_IPS], want[NR_STUBS + 4];
	int i, nr;

	words[0] = (u64)&words[2];
	words[1] = (u64)call_code_ip;
	/* mov $SYS_getppid, %eax; syscall; nop; ret */
	code_bytes((u8 *)area.text, "\xb8\x6e\0\0\0\x0f\x05\x90\xc3", 9);
	area.code.ips[0] = area.text + 7;
	func_sp(area.code.leaf, 9, 8);
	add_stubs();
	ASSERT_EQ(0, rules_add());
	ASSERT_TRUE(stack_ring_open());

	signal(SIGUSR1, (void (*)(int))area.code.top);
	ASSERT_EQ(0, syscall(SYS_rt_sigaction, SIGUSR1, NULL, action, 8));
	ASSERT_EQ(area.code.top, action[0]);
	memcpy(want, area.code.ips, sizeof(*want) * (NR_STUBS + 1));
	want[NR_STUBS + 1] = action[2];
	want[NR_STUBS + 2] = (u64)framed_ip_syscall;
	want[NR_STUBS + 3] = words[1];
	for (i = 0; i < 2; i++) {
		up_enable(&stack_ring);
		framed_syscall(SYS_kill, getpid(), SIGUSR1, 0, words, words);
		nr = stack_take(ips);
		EXPECT_TRUE(up_frames_equal(ips, nr < 0 ? 0 : nr, want,
					    ARRAY_SIZE(want)));
	}
}

/* All rows have to be read, for each address. */
TEST_F(rules, function_of_too_many_rows_ends_the_walk)
{
	u64 words[14] = {};
	uint64_t ips[MAX_IPS];
	int i;

	for (i = 1; i <= 12; i++)
		words[i] = area.code.leaf + i;
	func_rows(STUB_SIZE, 2000);
	ASSERT_EQ(0, rules_add());
	EXPECT_EQ(13, stack_of_words(words, ips));

	ASSERT_EQ(0, remove_table(area.table));
	sframe_build_init(&build, 3, true, area.table);
	func_rows(STUB_SIZE, 4000);
	ASSERT_EQ(0, rules_add());
	EXPECT_EQ(2, stack_of_words(words, ips));
}

/* Kinds of random tables: the part that is not */
enum { RANDOM_BUT_HEADER, RANDOM_BUT_INDEX, RANDOM_BYTES, NR_RANDOM };

#define RANDOM_ROUNDS	150

/* Make the table in @build, which is in order, one of that kind. */
static void randomize(int kind, size_t len, unsigned int *seed)
{
	size_t fdes = (build.version == 2 ? 20 : 16) * build.nr_funcs;
	size_t from = SFRAME_BUILD_HEADER, i;

	if (kind == RANDOM_BUT_INDEX)
		from += fdes;
	if (kind == RANDOM_BYTES) {
		for (i = 0; i < 3; i++)
			build.mem[from + rand_r(seed) % (len - from)] = rand_r(seed);
		return;
	}
	for (i = from; i < len; i++)
		build.mem[i] = rand_r(seed);
}

TEST(random_tables_end_every_walk)
{
	unsigned int seed = 54321;
	int i, j;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&area, 3, true, true));
	for (i = 0; i < NR_RANDOM * RANDOM_ROUNDS; i++) {
		uint64_t ips[MAX_IPS];
		size_t len;
		int nr;

		len = code_table(&area.code, true, &build, 2 + rand_r(&seed) % 2,
				 rand_r(&seed) % 2, area.table);
		randomize(i % NR_RANDOM, len, &seed);
		memcpy((void *)area.table, build.mem, len);
		ASSERT_EQ(0, area_add(&area));
		/* By frame pointer there is more than this. */
		nr = stack_of((void *)area.code.top, ips);
		ASSERT_LE(1, nr);
		EXPECT_EQ(area.code.ips[0], ips[0]);
		for (j = 0; j < nr; j++)
			EXPECT_GT(1UL << 56, ips[j]);
		ASSERT_EQ(0, remove_table(area.table));
	}
}

/*
 * Code with a table, in @with, and code with frame pointers, in @without, call
 * each other in turns: @ips is what the trace begins with.
 */
#define NR_TURNS	8

struct turns {
	u8 *with;
	u8 *without;
	unsigned long top;
	uint64_t ips[NR_TURNS + 1];
};

/* push %rbp; mov %rsp, %rbp; call or system call; pop %rbp; ret */
static uint64_t turn_without(u8 *to, unsigned long target)
{
	u8 *start = to;

	to = code_bytes(to, "\x55\x48\x89\xe5", 4);
	if (target)
		to = code_call(to, (unsigned long)to, target);
	else
		to = code_bytes(to, "\x48\x89\xf8\x0f\x05", 5);
	code_bytes(to, "\x90\x5d\xc3", 3);
	return (uint64_t)start + 9;
}

/* As in code_make() */
static uint64_t turn_with(u8 *to, unsigned long target, bool odd)
{
	unsigned long start = (unsigned long)to;

	if (!target) {
		func_sp(start, 7, 8);
		code_bytes(to, "\x48\x89\xf8\x0f\x05\x90\xc3", 7);
		return start + 5;
	}
	if (odd) {
		sframe_build_func(&build, start, 13, SFRAME_BUILD_ROW1);
		sframe_build_sp(&build, 0, 8);
		sframe_build_saved(&build, 1, SFRAME_BUILD_SP, 16, -16);
		sframe_build_sp(&build, 12, 8);
		to = code_bytes(to, "\x55\xbd\x34\x12\0\0", 6);
		to = code_call(to, start + 6, target);
		code_bytes(to, "\x5d\xc3", 2);
		return start + 11;
	}
	sframe_build_func(&build, start, 14, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	sframe_build_sp(&build, 4, 32);
	sframe_build_sp(&build, 13, 8);
	to = code_bytes(to, "\x48\x83\xec\x18", 4);
	to = code_call(to, start + 4, target);
	code_bytes(to, "\x48\x83\xc4\x18\xc3", 5);
	return start + 9;
}

static void turns_make(struct turns *turns, bool leaf_with)
{
	unsigned long target = 0;
	int i;

	for (i = 0; i < NR_TURNS; i++) {
		bool with = leaf_with == !(i % 2);
		u8 *to = (with ? turns->with : turns->without) + i * STUB_SIZE;

		turns->ips[i] = with ? turn_with(to, target, i % 4 > 1) :
				       turn_without(to, target);
		target = (unsigned long)to;
	}
	turns->top = target;
	turns->ips[i] = (uint64_t)call_code_ip;
}

TEST(tables_and_frame_pointers_take_turns)
{
	struct turns turns;
	uint64_t ips[MAX_IPS];
	int i, warm;

	if (must_skip(_metadata, need_sframe()))
		return;
	for (i = 0; i < 4; i++) {
		ASSERT_TRUE(area_make(&area, 3, true, true));
		turns.with = (u8 *)area.text;
		turns.without = area.mem;
		sframe_build_init(&build, 3, true, area.table);
		turns_make(&turns, i % 2);
		table_write(area.table);
		ASSERT_EQ(0, add_table(area.table, area.table_end, area.text,
				       area.text + NR_TURNS * STUB_SIZE));
		for (warm = 0; warm < 2; warm++) {
			ASSERT_LT(NR_TURNS, stack_of((void *)turns.top, ips));
			EXPECT_TRUE(up_frames_equal(ips, NR_TURNS + 1, turns.ips, NR_TURNS + 1));
		}
		munmap(area.mem, AREA_SIZE);
	}
}

TEST_HARNESS_MAIN
