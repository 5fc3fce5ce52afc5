// SPDX-License-Identifier: GPL-2.0
/*
 * The walker in 32-bit code of a 64-bit task, in segments with and without a base.
 */
#include <asm/ldt.h>
#include <signal.h>

#include "walker_fixture.h"

#define USER32_CS	0x23
#define USER_DS		0x2b
#define LDT_CODE	0
#define LDT_DATA	1
#define LDT_SELECTOR(n)	((n) << 3 | 7)
#define NR_GETPPID_32	64

static void set_ldt(struct __test_metadata *_metadata, int entry, uint32_t base,
		    bool code)
{
	/*
	 * 32 bits, code or data, readable or writable, limit in pages, present,
	 * free for use
	 */
	struct user_desc desc = {
		entry, base, 0xfffff, 1, code ? 2 : 0, 0, 1, 0, 1
	};

	ASSERT_EQ(0, syscall(SYS_modify_ldt, 0x11, &desc, sizeof(desc)));
}

static void put32(unsigned long at, uint32_t val)
{
	*(uint32_t *)at = val;
}

/* Frames as 32-bit code in these segments would lay them. */
static void build32(unsigned long fp, int n, uint32_t cs_base, uint32_t ss_base)
{
	int i;

	for (i = 0; i < n; i++, fp += 16) {
		put32(fp, i == n - 1 ? 0 : fp + 16 - ss_base);
		put32(fp + 4, (uint32_t)RA(i) - cs_base);
	}
}

/* ------------------------------------------------------------------------ */
/* 32-bit code								      */

FIXTURE(segment)
{
	uint32_t cs;
	uint32_t ss;
};

FIXTURE_VARIANT(segment)
{
	/* Those of segments of the LDT; 0 is one of the GDT. */
	uint32_t cs_base;
	uint32_t ss_base;
};

FIXTURE_VARIANT_ADD(segment, flat) {};
FIXTURE_VARIANT_ADD(segment, code_with_a_base) { .cs_base = 0x10000 };
FIXTURE_VARIANT_ADD(segment, stack_with_a_base) { .ss_base = 0x20000 };
FIXTURE_VARIANT_ADD(segment, both_with_a_base) { .cs_base = 0x10000, .ss_base = 0x20000 };
/* Offsets wrap: the sum is cut to 32 bits, as the CPU cuts it. */
FIXTURE_VARIANT_ADD(segment, base_above_the_addresses) { .cs_base = 0xe0000000 };

FIXTURE_SETUP(segment)
{
	if (!walk_set_up(_metadata))
		return;
	self->cs = USER32_CS;
	self->ss = USER_DS;
	if (variant->cs_base) {
		set_ldt(_metadata, LDT_CODE, variant->cs_base, true);
		self->cs = LDT_SELECTOR(LDT_CODE);
	}
	if (variant->ss_base) {
		set_ldt(_metadata, LDT_DATA, variant->ss_base, false);
		self->ss = LDT_SELECTOR(LDT_DATA);
	}
	build32(walk.fp, 4, variant->cs_base, variant->ss_base);
}

FIXTURE_TEARDOWN(segment)
{
	walk_end();
}

/*
 * All addresses here are linear ones; what the code sees is less the bases. A
 * last frame pointer of 0 is linear address ss_base, so that must not lie above.
 */
static struct probe probe_far(void *code, uint32_t cs, uint32_t cs_base, uint32_t ss,
			      uint32_t ss_base)
{
	struct probe p = probe_of(stub_far, walk.sp + 16 * W,
				  (uint32_t)(walk.fp - ss_base), NR_GETPPID_32);

	p.args[0] = cs;
	p.args[1] = (uint32_t)(A(code) - cs_base);
	p.args[2] = ss;
	p.args[3] = (uint32_t)(walk.sp - ss_base);
	return p;
}

static void check_far(struct __test_metadata *_metadata, struct _test_data_segment *self,
		      const struct _fixture_variant_segment *variant, void *code)
{
	struct probe p = probe_far(code, self->cs, variant->cs_base, self->ss,
				   variant->ss_base);

	ASSERT_TRUE(sample_syscall(NR_GETPPID_32));
	EXPECT_TRUE(sample_is_wanted(&p));
}

TEST_F(segment, frames_are_found)
{
	WANT(A(far_plain_ip));
	want_frames(0, 4);
	check_far(_metadata, self, variant, far_plain);
}

TEST_F(segment, caller_of_a_function_at_its_push_is_kept)
{
	put32(walk.sp, RA(100) - variant->cs_base);
	WANT(A(far_push_ip), RA(100));
	want_frames(0, 4);
	check_far(_metadata, self, variant, far_push);
}

TEST_F(segment, caller_of_a_function_at_its_ret_is_kept)
{
	put32(walk.sp, A(far_ret_to) - variant->cs_base);
	WANT(A(far_ret_ip), A(far_ret_to));
	want_frames(0, 4);
	check_far(_metadata, self, variant, far_ret);
}

/* The outermost frame's: offset 0 is not an address, base or not. */
TEST_F(segment, return_address_of_0_ends_the_walk)
{
	int i;

	for (i = 0; i < 3; i++) {
		WANT(A(far_plain_ip));
		want_frames(0, i);
		build32(walk.fp, 4, variant->cs_base, variant->ss_base);
		put32(walk.fp + i * 16 + 4, 0);
		check_far(_metadata, self, variant, far_plain);
	}
}

/* Plain 64-bit frames follow the far code, and no base is left over. */
TEST_F(segment, sixty_four_bit_code_afterwards_has_no_base)
{
	WANT(A(far_plain_ip));
	want_frames(0, 4);
	check_far(_metadata, self, variant, far_plain);

	ASSERT_TRUE(sample_syscall(NR_GETPPID));
	EXPECT_TRUE(plain_has_frames(build(walk.fp, 4), 4));
}

/* ------------------------------------------------------------------------ */
/* Segments in signal frames						      */

/*
 * A signal frame after the first frame: it says that far_plain was interrupted, with these
 * selectors, in memory that is returned.
 */
static unsigned long forge_segments(unsigned int cs, unsigned int ss)
{
	unsigned long stack = walk.stack + STACK_SIZE - PAGE;
	struct forged_frame *frame = (void *)(walk.fp + 2 * W);

	raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt);
	put_frame(walk.fp, 0, A(restorer_rt));
	build32(stack, 4, 0, 0);
	forge_frame(A(frame), A(far_plain_ip), walk.sp, stack);
	frame->gregs[18] = cs | (uint64_t)ss << 48;
	return stack;
}

/*
 * The selectors in a signal frame are made up as easily as its addresses. The
 * GDT's own segments begin where the kernel has its structures, and no such base
 * must be found out by the stack that a walk reads with it.
 */
TEST_F(walk, kernel_segment_in_a_signal_frame_has_no_base)
{
	/* The task state segment's halves, the LDT's, data, per CPU */
	static const unsigned int selectors[] = { 0x43, 0x4b, 0x53, 0x5b, 0x1b, 0x7b };
	unsigned int i;

	WANT(A(stub_plain_ip), A(restorer_rt), A(far_plain_ip));
	want_frames(0, 4);
	for (i = 0; i < ARRAY_SIZE(selectors); i++) {
		forge_segments(USER32_CS, selectors[i]);
		EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	}
}

/* Nor does user space run in the kernel's code segment. */
TEST_F(walk, kernel_code_segment_in_a_signal_frame_ends_the_walk)
{
	static const unsigned int selectors[] = { 0x13, 0x0b, 0x1b, 0x43, 0x7b };
	unsigned int i;

	WANT(A(stub_plain_ip), A(restorer_rt));
	for (i = 0; i < ARRAY_SIZE(selectors); i++) {
		forge_segments(selectors[i], USER_DS);
		EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	}
}

/* sigreturn makes them user space's, whatever the lowest bits say. */
TEST_F(walk, selectors_in_a_signal_frame_are_those_of_user_space)
{
	WANT(A(stub_plain_ip), A(restorer_rt), A(far_plain_ip));
	want_frames(0, 4);
	build(forge_segments(0x30, 0x28), 4);
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	forge_segments(0x20, 0x28);
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

/* Pushed by the kernel for 32-bit code, from the registers on */
struct forged_regs_32 {
	uint32_t seg[4];
	uint32_t di, si, bp, sp, bx, dx, cx, ax;
	uint32_t trapno, err, ip, cs, flags, sp_at_signal, ss;
};

/*
 * A handler of 32-bit code that has switched to a stack segment of its own: the
 * frame is at an offset in that, and so is the stack that it leads to.
 */
TEST_F(walk, signal_frame_in_an_ldt_segment_leads_to_the_interrupted_function)
{
	/* mov $173, %eax; int $0x80, and pop %eax; mov $119, %eax; int $0x80 */
	static const unsigned char rt[] = { 0xb8, 0xad, 0, 0, 0, 0xcd, 0x80 };
	static const unsigned char old[] = { 0x58, 0xb8, 0x77, 0, 0, 0, 0xcd, 0x80 };
	unsigned long at = walk.stack + STACK_SIZE - PAGE;
	unsigned long stack = at - PAGE;
	const uint32_t base = 0x20000;
	struct forged_regs_32 regs = {
		.bp = stack - base, .sp = walk.sp - base, .ip = A(far_plain_ip),
		.cs = USER32_CS, .ss = LDT_SELECTOR(LDT_DATA),
	};
	struct probe p;
	int i;

	ASSERT_TRUE(sample_syscall(NR_GETPPID_32));
	set_ldt(_metadata, LDT_DATA, base, false);
	memcpy((void *)at, rt, sizeof(rt));
	memcpy((void *)(at + 64), old, sizeof(old));
	for (i = 0; i < 2; i++) {
		WANT(A(far_plain_ip), at + 64 * i, A(far_plain_ip));
		want_frames(0, 4);
		ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_empty, SA_SIGINFO,
					   (void *)(at + 64 * i)));
		put32(walk.fp, 0);
		put32(walk.fp + 4, at + 64 * i);
		memset((void *)(walk.fp + 8), 0, 512);
		/* Both without the address that the handler's return popped */
		memcpy((void *)(walk.fp + 8 + (i ? 4 : 12 + 128 + 20)), &regs, sizeof(regs));
		build32(stack, 4, 0, base);
		p = probe_far(far_plain, USER32_CS, 0, LDT_SELECTOR(LDT_DATA), base);
		EXPECT_TRUE(sample_is_wanted(&p));
	}
}

TEST_HARNESS_MAIN
