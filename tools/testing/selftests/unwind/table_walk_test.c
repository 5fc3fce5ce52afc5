// SPDX-License-Identifier: GPL-2.0
/*
 * Walks by tables for files: each kind of rule in a topmost frame and in a caller,
 * where rules begin and end, and the marks of perf for a complete walk. The stacks are
 * made up, and their frames known.
 */
#include <pthread.h>
#include <sys/auxv.h>

#include "engine_test.h"
#include "sframe_image.h"
#include "table_lib.h"
#include "unwind_harness.h"

#define DEFERRED	(UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT)

/* Return addresses: of the rule under test, and of the frames after it */
#define AT_CALLER	(8 * PAGE + 0x10)
#define AT_CALLER_2	(9 * PAGE + 0x20)
#define AT_OUTER	(12 * PAGE + 0x30)

FIXTURE(walk)
{
	struct code_file file;
	struct stack s;
	struct trace t;
	struct table *table;
	int fd;
	int nr;
};

FIXTURE_SETUP(walk)
{
	self->fd = -1;
	if (must_skip(_metadata, need_tables()))
		return;
	ASSERT_TRUE(tables_start("walk", &self->file, &self->table, &self->fd));
	ASSERT_TRUE(stack_start(&self->s, self->file.mem + CALL_MIDDLE));
}

FIXTURE_TEARDOWN(walk)
{
	if (self->fd < 0)
		return;
	stack_end(&self->s);
	tables_end(&self->file, self->table, self->fd);
}

/*
 * A table with these rules for AT_MIDDLE and for the two callers; the code after them is
 * outermost, and all else unknown.
 */
static bool use_rules(struct _test_data_walk *self, struct unwind_table_rule top,
		      struct unwind_table_rule caller,
		      struct unwind_table_rule caller_2)
{
	struct table *t = self->table;

	if (self->nr > 0)
		dev_drop(self->fd, self->nr);
	table_start(t);
	table_row(t, PAGE, UNKNOWN);
	table_row(t, AT_MIDDLE, top);
	table_row(t, AT_MIDDLE + 1, UNKNOWN);
	table_row(t, AT_CALLER - 1, caller);
	table_row(t, AT_CALLER, UNKNOWN);
	table_row(t, AT_CALLER_2 - 1, caller_2);
	table_row(t, AT_CALLER_2, UNKNOWN);
	table_row(t, 12 * PAGE, OUTERMOST);
	table_end(t, FILE_PAGES * PAGE);
	self->nr = file_use(self->fd, t, &self->file);
	if (self->nr < 0)
		fprintf(stderr, "# the table is refused: %d\n", self->nr);
	return self->nr > 0;
}

static u64 at(struct _test_data_walk *self, u64 offset)
{
	return (unsigned long)self->file.mem + offset;
}

/*
 * Walk it twice, since then more is known. The frames are AT_MIDDLE, @nr others,
 * and no more.
 */
static bool walks_as(struct _test_data_walk *self, const u64 *offsets, int nr,
		     bool outermost)
{
	u64 ips[16];
	int i;

	ips[0] = self->s.ip + 2;
	for (i = 0; i < nr; i++)
		ips[i + 1] = at(self, offsets[i]);
	for (i = 0; i < 2; i++) {
		table_walk(&self->s, &self->t);
		if (!is_trace(&self->t, ips, nr + 1, outermost))
			return false;
	}
	return true;
}

/* Walks of the stack have the frames at these offsets; and they are all there are, or not. */
#define FRAMES(outermost, ...)						\
	walks_as(self, (const u64[]){ __VA_ARGS__ },			\
		 sizeof((const u64[]){ __VA_ARGS__ }) / 8, outermost)

/* Return addresses in code, and the address of a word of the stack */
#define CALLER		at(self, AT_CALLER)
#define CALLER_2	at(self, AT_CALLER_2)
#define OUTER		at(self, AT_OUTER)
#define SLOT(nr)	((unsigned long)&self->s.words[nr])

/* These words of the stack; those between them are 0. */
#define WORDS(...)	memcpy(self->s.words, (const u64[]){ __VA_ARGS__ },	\
			       sizeof((const u64[]){ __VA_ARGS__ }))

/* All frames that use_rules() has rules for */
static bool finds_all(struct _test_data_walk *self)
{
	return FRAMES(true, AT_CALLER, AT_CALLER_2, AT_OUTER);
}

/* Does the walk end with the caller, or with the caller of that, for this reason? */
static bool ends_at_caller(struct _test_data_walk *self, unsigned int end)
{
	return FRAMES(false, AT_CALLER) && ends_with(&self->t, end);
}

static bool ends_at_caller_2(struct _test_data_walk *self, unsigned int end)
{
	return FRAMES(false, AT_CALLER, AT_CALLER_2) && ends_with(&self->t, end);
}

/* ------------------------------------------------------------------------ */
/* Rules									      */

/* CFA is the word at @reg + @off, plus @add. */
static struct unwind_table_rule rule_deref(unsigned int reg, s32 off, s32 add)
{
	struct unwind_table_rule rule = rule_cfa(0, 0);

	rule.cfa = LOC(REG_DEREF, reg, off);
	rule.cfa_add = add;
	return rule;
}

/* As rule_cfa(), with these places of the return address and of the frame pointer */
static struct unwind_table_rule rule_ra(unsigned int reg, s32 off, struct unwind_table_loc ra)
{
	struct unwind_table_rule rule = rule_cfa(reg, off);

	rule.ra = ra;
	return rule;
}

static struct unwind_table_rule rule_fp(unsigned int reg, s32 off, struct unwind_table_loc fp)
{
	struct unwind_table_rule rule = rule_cfa(reg, off);

	rule.fp = fp;
	return rule;
}

/* ... of which nothing is known */
static struct unwind_table_rule rule_no_fp(unsigned int reg, s32 off)
{
	return rule_fp(reg, off, LOC(NONE, 0, 0));
}

static struct unwind_table_rule rule_flag(s32 off, unsigned int flag)
{
	struct unwind_table_rule rule = rule_cfa(RSP, off);

	rule.flags = flag;
	return rule;
}

#define rule_signal(off)	rule_flag(off, UNWIND_TABLE_SIGNAL)
#define rule_new_thread()	rule_flag(8, UNWIND_TABLE_NEW_THREAD)
/* The return address is at the stack pointer. */
#define rule_leaf()		rule_cfa(RSP, 8)

TEST_F(walk, rules_by_the_stack_pointer)
{
	ASSERT_TRUE(use_rules(self, rule_cfa(RSP, 16), rule_cfa(RSP, 32), rule_leaf()));
	WORDS([1] = CALLER, [5] = CALLER_2, [6] = OUTER);
	EXPECT_TRUE(finds_all(self));
}

TEST_F(walk, rules_by_the_frame_pointer)
{
	ASSERT_TRUE(use_rules(self, rule_saved(RBP, 16, -16), rule_cfa(RBP, 24),
			      rule_saved(RBP, 48, -24)));
	self->s.regs[RBP] = SLOT(4);
	/* The frame pointer is the same in the last two frames. */
	WORDS([4] = SLOT(7), [5] = CALLER, [9] = CALLER_2, [12] = OUTER);
	EXPECT_TRUE(finds_all(self));
}

TEST_F(walk, frame_pointer_is_found_where_the_rule_says)
{
	ASSERT_TRUE(use_rules(self, rule_saved(RSP, 64, -2048 + 2000),
			      rule_saved(RSP, 2064, -2048), rule_cfa(RBP, 16)));
	/* CFA is word 8, and then word 266. */
	WORDS([7] = CALLER, [10] = SLOT(270), [265] = CALLER_2, [271] = OUTER);
	EXPECT_TRUE(finds_all(self));
}

/* More than are read in one go, so that this is left and entered again */
TEST_F(walk, stack_of_hundred_frames_is_complete)
{
	int n = 120, i;
	u64 ips[122];

	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_leaf(), rule_saved(RSP, 24, -16)));
	ips[0] = at(self, AT_MIDDLE);
	ips[1] = CALLER;
	self->s.words[0] = CALLER;
	/* From word 2 on, each frame has three words. */
	for (i = 2; i <= n; i++) {
		ips[i] = i < n ? CALLER_2 : OUTER;
		self->s.words[3 * i - 5] = ips[i];
	}
	for (i = 0; i < 3; i++) {
		table_walk(&self->s, &self->t);
		EXPECT_TRUE(is_trace(&self->t, ips, n + 1, true));
	}
}

/* ------------------------------------------------------------------------ */
/* Other places								      */

TEST_F(walk, cfa_in_memory)
{
	ASSERT_TRUE(use_rules(self, rule_deref(RSP, 24, 8), rule_deref(RSP, 8, -16),
			      rule_deref(RBP, -8, 0)));
	self->s.regs[RBP] = SLOT(30);
	/* SP is word 10, and then word 20; FP is still word 30. */
	WORDS([3] = SLOT(9), [9] = CALLER, [11] = SLOT(22), [19] = CALLER_2, [29] = SLOT(41),
	      [40] = OUTER);
	EXPECT_TRUE(finds_all(self));
}

TEST_F(walk, cfa_in_memory_that_cannot_be_read_ends_the_walk)
{
	const u64 words[] = { 0x1000, -8, 1ULL << 63 | SLOT(1) };
	unsigned int i;

	ASSERT_TRUE(use_rules(self, rule_deref(RBP, 0, 8), UNKNOWN, UNKNOWN));
	for (i = 0; i < ARRAY_SIZE(words); i++) {
		self->s.regs[RBP] = words[i];
		EXPECT_TRUE(FRAMES(false));
	}
}

/* But for RAX, which has the result, and RCX and R11, which the processor changes */
TEST_F(walk, cfa_by_each_register_of_the_topmost_frame)
{
	static const unsigned int regs[] = {
		RDX, RBX, RSI, RDI, RBP, RSP, R8, R9, R10, R12, R13, R14, R15
	};
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(regs); i++) {
		ASSERT_TRUE(use_rules(self, rule_cfa(regs[i], 16), rule_leaf(), UNKNOWN));
		for (j = 0; j < ARRAY_SIZE(regs); j++) {
			if (regs[j] != RSP)
				self->s.regs[regs[j]] = SLOT(4 + 4 * j);
		}
		memset(self->s.words, 0, 64 * 8);
		j = regs[i] == RSP ? 0 : 4 + 4 * i;
		self->s.words[j + 1] = CALLER;
		self->s.words[j + 2] = OUTER;
		EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER)) {
			TH_LOG("register %u", regs[i]);
		}
	}
}

/* A caller's registers are not known, whatever they are in the topmost frame. */
TEST_F(walk, cfa_by_another_register_in_a_caller_ends_the_walk)
{
	struct unwind_table_rule rules[] = {
		rule_cfa(RBX, 8), rule_deref(RBX, 0, 0), rule_ra(RSP, 8, LOC(REG, R12, 0)),
		rule_ra(RSP, 8, LOC(REG_DEREF, R12, 0)),
	};
	unsigned int i;

	WORDS(CALLER, OUTER, SLOT(2));
	self->s.regs[RBX] = SLOT(1);
	self->s.regs[R12] = OUTER;
	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		ASSERT_TRUE(use_rules(self, rule_leaf(), rules[i], UNKNOWN));
		EXPECT_TRUE(FRAMES(false, AT_CALLER)) {
			TH_LOG("rule %u", i);
		}
	}
}

/* ------------------------------------------------------------------------ */
/* Frame pointers that are not known					      */

TEST_F(walk, frame_pointer_that_nobody_needs_may_be_unknown)
{
	const struct unwind_table_rule sp16 = rule_cfa(RSP, 16), no_fp16 = rule_no_fp(RSP, 16);
	const struct unwind_table_rule sp32 = rule_cfa(RSP, 32), no_fp32 = rule_no_fp(RSP, 32);
	const struct unwind_table_rule rules[][3] = {
		{ no_fp16, sp32, rule_leaf() },
		{ sp16, no_fp32, rule_leaf() },
		{ no_fp16, no_fp32, rule_no_fp(RSP, 8) },
		/* The topmost frame has one, which is as good as in any other rule. */
		{ rule_no_fp(RBP, 16), sp32, rule_leaf() },
	};
	unsigned int i;

	WORDS([1] = CALLER, [5] = CALLER_2, [6] = OUTER);
	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		self->s.regs[RBP] = i == 3 ? SLOT(0) : 0;
		ASSERT_TRUE(use_rules(self, rules[i][0], rules[i][1], rules[i][2]));
		EXPECT_TRUE(finds_all(self) && ends_with(&self->t, 0)) {
			TH_LOG("rules %u", i);
		}
	}
}

/* By the register as it is in the topmost frame, all of these lead to AT_OUTER. */
TEST_F(walk, first_frame_that_needs_an_unknown_frame_pointer_is_the_last)
{
	struct unwind_table_rule rules[] = {
		rule_cfa(RBP, 16), rule_saved(RBP, 16, -16), rule_no_fp(RBP, 16),
		rule_deref(RBP, 0, 16), rule_ra(RSP, 8, LOC(REG_DEREF, RBP, 8)),
		rule_ra(RSP, 8, LOC(REG, RBP, 0)), NOT_COVERED,
	};
	unsigned int i;

	WORDS(CALLER, CALLER_2, [10] = SLOT(10), [11] = OUTER);
	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		self->s.regs[RBP] = i == 5 ? OUTER : SLOT(10);
		ASSERT_TRUE(use_rules(self, rule_no_fp(RSP, 8), rules[i], UNKNOWN));
		EXPECT_TRUE(ends_at_caller(self, UT_END_NO_FP)) {
			TH_LOG("rule %u", i);
		}
		/* One frame further on, which has the register as its callee had it */
		ASSERT_TRUE(use_rules(self, rule_no_fp(RSP, 8), rule_leaf(), rules[i]));
		EXPECT_TRUE(ends_at_caller_2(self, UT_END_NO_FP)) {
			TH_LOG("rule %u", i);
		}
	}
}

TEST_F(walk, frame_pointer_that_a_rule_restores_is_known_again)
{
	/* CFA is word 4; all of these are word 20. */
	struct unwind_table_rule rules[] = {
		rule_saved(RSP, 24, -16), rule_fp(RSP, 24, LOC(CFA, 0, 16 * 8)),
		rule_fp(RSP, 24, LOC(REG_DEREF, RSP, 8)),
	};
	unsigned int i;

	self->s.regs[RBP] = SLOT(12);
	WORDS(CALLER, [2] = SLOT(20), [3] = CALLER_2, [21] = OUTER);
	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		ASSERT_TRUE(use_rules(self, rule_no_fp(RSP, 8), rules[i], rule_cfa(RBP, 16)));
		EXPECT_TRUE(finds_all(self)) {
			TH_LOG("rule %u", i);
		}
	}
}

/* With @top and @caller the frame pointer is not known, which is the end if it is needed. */
static bool loses_the_frame_pointer(struct _test_data_walk *self, struct unwind_table_rule top,
				    struct unwind_table_rule caller)
{
	self->s.regs[RBP] = SLOT(10);
	self->s.regs[R13] = SLOT(10);
	WORDS(CALLER, CALLER_2, OUTER, [10] = SLOT(10), [11] = OUTER);
	return use_rules(self, top, caller, rule_leaf()) && finds_all(self) &&
	       use_rules(self, top, caller, rule_cfa(RBP, 16)) &&
	       ends_at_caller_2(self, UT_END_NO_FP);
}

/* Places relative to it, or in it, are not known either. */
TEST_F(walk, frame_pointer_by_an_unknown_one_is_unknown)
{
	const struct unwind_table_rule top = rule_no_fp(RSP, 8);

	EXPECT_TRUE(loses_the_frame_pointer(self, top, rule_fp(RSP, 8, LOC(REG, RBP, -16))));
	EXPECT_TRUE(loses_the_frame_pointer(self, top, rule_fp(RSP, 8, LOC(REG_DEREF, RBP, 0))));
	EXPECT_TRUE(loses_the_frame_pointer(self, top, rule_leaf()));
}

/* A caller's registers are not known, but it may not be needed. */
TEST_F(walk, frame_pointer_in_another_register_of_a_caller_is_unknown)
{
	const struct unwind_table_rule top = rule_leaf();

	EXPECT_TRUE(loses_the_frame_pointer(self, top, rule_fp(RSP, 8, LOC(REG, R13, 0))));
	EXPECT_TRUE(loses_the_frame_pointer(self, top, rule_fp(RSP, 8, LOC(REG_DEREF, R13, 0))));
}

TEST_F(walk, trace_event_tells_that_the_frame_pointer_was_unknown)
{
	if (must_skip(_metadata, need_deferral()))
		return;
	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_user_done", true));
	self->s.regs[RBP] = SLOT(10);
	WORDS(CALLER);
	ASSERT_TRUE(use_rules(self, rule_no_fp(RSP, 8), rule_cfa(RBP, 16), UNKNOWN));
	EXPECT_TRUE(FRAMES(false, AT_CALLER));
	ASSERT_EQ(0, trace_event("unwind_user_done", false));
	EXPECT_EQ(2, trace_count_of_task(" end=no frame pointer"));
}

/* ------------------------------------------------------------------------ */
/* Other places of values						      */

TEST_F(walk, frame_pointer_of_each_kind)
{
	/* CFA is word 1; all of these are word 20. */
	const struct unwind_table_loc fp[] = {
		LOC(CFA, 0, 19 * 8), LOC(REG, RBX, -16), LOC(REG_DEREF, R12, 8),
		LOC(CFA_DEREF, 0, 8), LOC(REG_DEREF, RBP, 0),
	};
	unsigned int i;

	self->s.regs[RBX] = SLOT(22);
	self->s.regs[R12] = SLOT(30);
	self->s.regs[RBP] = SLOT(32);
	WORDS(CALLER, [2] = SLOT(20), [21] = CALLER_2, [22] = OUTER, [31] = SLOT(20),
	      [32] = SLOT(20));
	for (i = 0; i < ARRAY_SIZE(fp); i++) {
		ASSERT_TRUE(use_rules(self, rule_fp(RSP, 8, fp[i]), rule_cfa(RBP, 16),
				      rule_leaf()));
		EXPECT_TRUE(finds_all(self)) {
			TH_LOG("place %u", i);
		}
	}
}

TEST_F(walk, return_address_at_any_place_of_the_frame)
{
	/* CFA is word 4, and then word 8. */
	const struct unwind_table_rule by_cfa = rule_ra(RSP, 32, LOC(CFA_DEREF, 0, -24));
	const struct unwind_table_rule by_sp = rule_ra(RSP, 32, LOC(REG_DEREF, RSP, 8));

	WORDS([1] = CALLER, [5] = CALLER_2, [8] = OUTER);
	ASSERT_TRUE(use_rules(self, by_cfa, by_cfa, rule_leaf()));
	EXPECT_TRUE(finds_all(self));
	ASSERT_TRUE(use_rules(self, by_sp, by_sp, rule_leaf()));
	EXPECT_TRUE(finds_all(self));
}

/* As vfork() has it, which keeps its return address for the child to return, too */
TEST_F(walk, return_address_in_a_register)
{
	const struct unwind_table_rule caller = rule_cfa(RSP, 16);

	self->s.regs[RDI] = CALLER;
	WORDS([1] = OUTER);
	ASSERT_TRUE(use_rules(self, rule_ra(RSP, 0, LOC(REG, RDI, 0)), caller, UNKNOWN));
	EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER));

	/* Without the register's help, the SP does not move up. */
	WORDS(CALLER);
	ASSERT_TRUE(use_rules(self, rule_ra(RSP, 0, LOC(CFA_DEREF, 0, 0)), caller, UNKNOWN));
	EXPECT_TRUE(FRAMES(false));
}

TEST_F(walk, stack_pointer_that_does_not_move_up_ends_the_walk_in_a_caller)
{
	struct unwind_table_rule rules[] = {
		rule_ra(RSP, 0, LOC(REG, RBP, 0)), rule_cfa(RSP, -8), rule_cfa(RBP, 16),
		rule_cfa(RSP, 4),
		/* To where it is already, which is no other stack */
		rule_deref(RSP, 0, 0),
		/* Not an ordinary rule, but not one from memory either */
		rule_fp(RBP, 16, LOC(CFA, 0, 0)), rule_ra(RBP, 16, LOC(REG_DEREF, RBP, 8)),
	};
	unsigned int i;

	WORDS([2] = OUTER, OUTER, CALLER, SLOT(5));
	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		self->s.regs[RBP] = i ? SLOT(2) : OUTER;
		ASSERT_TRUE(use_rules(self, rule_cfa(RSP, 40), rules[i], UNKNOWN));
		EXPECT_TRUE(FRAMES(false, AT_CALLER)) {
			TH_LOG("rule %u", i);
		}
	}
}

/* ------------------------------------------------------------------------ */
/* Switches of stacks							      */

/* Code that has saved the stack pointer of another stack, and goes on there */
TEST_F(walk, cfa_in_memory_leads_to_a_lower_stack_and_back)
{
	struct unwind_table_rule down = rule_deref(RSP, 0, 16);

	/* The topmost frame is at word 200, its caller at word 12, then word 303. */
	self->s.regs[RSP] = SLOT(200);
	WORDS([11] = CALLER, [13] = SLOT(303), [200] = SLOT(10), [302] = CALLER_2, OUTER);
	ASSERT_TRUE(use_rules(self, down, rule_deref(RSP, 8, 0), rule_leaf()));
	EXPECT_TRUE(finds_all(self));

	/* The frame pointer that is saved there is that of the other stack. */
	down.fp = LOC(CFA_DEREF, 0, -16);
	self->s.regs[RBP] = SLOT(250);
	WORDS([10] = SLOT(20), CALLER, [20] = SLOT(30), CALLER_2, [31] = OUTER,
	      [200] = SLOT(10));
	ASSERT_TRUE(use_rules(self, down, rule_saved(RBP, 16, -16), rule_cfa(RBP, 16)));
	EXPECT_TRUE(finds_all(self));

	/* A caller does it, and the topmost frame does not. */
	WORDS([5] = CALLER_2, OUTER, [200] = CALLER, [202] = SLOT(6));
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_deref(RSP, 8, 0), rule_leaf()));
	EXPECT_TRUE(finds_all(self));
}

/* The register is known in the topmost frame only, as for code that is called from C. */
TEST_F(walk, cfa_in_another_register_leads_to_a_lower_stack)
{
	self->s.regs[RSP] = SLOT(200);
	self->s.regs[R12] = SLOT(10);
	WORDS([11] = CALLER, [13] = CALLER_2, OUTER);
	ASSERT_TRUE(use_rules(self, rule_cfa(R12, 16), rule_cfa(RSP, 16), rule_leaf()));
	EXPECT_TRUE(finds_all(self));

	/* SP and FP are those of the stack at hand. */
	self->s.regs[RBP] = SLOT(10);
	ASSERT_TRUE(use_rules(self, rule_cfa(RBP, 16), rule_cfa(RSP, 16), rule_leaf()));
	EXPECT_TRUE(FRAMES(false));
	EXPECT_TRUE(ends_with(&self->t, UT_END_CORRUPT));
}

/* From the lower stack on, SP moves up as from any other. */
TEST_F(walk, rules_on_a_lower_stack_move_the_stack_pointer_up)
{
	self->s.regs[RSP] = SLOT(200);
	self->s.regs[RBP] = SLOT(4);
	WORDS([5] = CALLER_2, [11] = CALLER, [200] = SLOT(12));
	ASSERT_TRUE(use_rules(self, rule_deref(RSP, 0, 0), rule_cfa(RBP, 16), rule_leaf()));
	EXPECT_TRUE(ends_at_caller(self, UT_END_CORRUPT));
}

TEST_F(walk, lower_stack_that_is_none_ends_the_walk)
{
	const struct {
		const char *what;
		u64 stack;
		unsigned int end;
	} cases[] = {
		{ "not aligned", SLOT(12) + 4, UT_END_CORRUPT },
		{ "nothing", 0, UT_END_CORRUPT },
		{ "no memory", 0x1000, UT_END_ABSENT },
		{ "no return address", SLOT(8), UT_END_NO_RULE },
	};
	unsigned int i;

	ASSERT_TRUE(use_rules(self, rule_deref(RSP, 0, 0), UNKNOWN, UNKNOWN));
	self->s.regs[RSP] = SLOT(200);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		WORDS([11] = CALLER, [200] = cases[i].stack);
		EXPECT_TRUE(FRAMES(false) && ends_with(&self->t, cases[i].end)) {
			TH_LOG("%s", cases[i].what);
		}
	}
}

/* The documented limit of the kernel */
#define MAX_SWITCHES	16

/*
 * Each frame of these leads ten words down, and then there is the outermost. Returns
 * how many addresses the walk should have if it is complete.
 */
static int switch_down(struct _test_data_walk *self, unsigned int switches, u64 *ips)
{
	unsigned int i, sp = 1000;

	self->s.regs[RSP] = SLOT(sp);
	ips[0] = at(self, AT_MIDDLE);
	for (i = 1; i <= switches; i++, sp -= 10) {
		ips[i] = at(self, i < switches ? AT_CALLER : AT_OUTER);
		self->s.words[sp] = SLOT(sp - 10);
		self->s.words[sp - 11] = ips[i];
	}
	return i;
}

TEST_F(walk, number_of_switches_to_lower_stacks_is_bounded)
{
	u64 ips[MAX_SWITCHES + 4];
	int i, nr;

	ASSERT_TRUE(use_rules(self, rule_deref(RSP, 0, 0), rule_deref(RSP, 0, 0), UNKNOWN));
	for (i = 0; i < 2; i++) {
		nr = switch_down(self, MAX_SWITCHES, ips);
		table_walk(&self->s, &self->t);
		EXPECT_TRUE(is_trace(&self->t, ips, nr, true));
		EXPECT_TRUE(ends_with(&self->t, 0));

		/* One less than there are, so that the outermost is not reached */
		nr = switch_down(self, MAX_SWITCHES + 1, ips) - 1;
		table_walk(&self->s, &self->t);
		EXPECT_TRUE(is_trace(&self->t, ips, nr, false));
		EXPECT_TRUE(ends_with(&self->t, UT_END_CORRUPT));
	}
}

/* Two stacks that lead to each other */
TEST_F(walk, stacks_in_a_circle_end_the_walk)
{
	int i;

	ASSERT_TRUE(use_rules(self, rule_deref(RSP, 0, 0), rule_deref(RSP, 0, 0), UNKNOWN));
	self->s.regs[RSP] = SLOT(500);
	WORDS([99] = CALLER, SLOT(500), [499] = CALLER, SLOT(100));
	for (i = 0; i < 2; i++) {
		table_walk(&self->s, &self->t);
		/* Down and up as often */
		EXPECT_EQ(1 + 2 * MAX_SWITCHES, self->t.nr);
		EXPECT_FALSE(self->t.outermost);
		EXPECT_TRUE(ends_with(&self->t, UT_END_CORRUPT));
	}
}

/* ------------------------------------------------------------------------ */
/* At exit								      */

/* A thread that exits on the stack that was made up */
struct exiting {
	const struct stack *s;
	pthread_barrier_t barrier;
	pid_t tid;
};

static void *exit_thread(void *arg)
{
	struct exiting *e = arg;

	e->tid = my_tid();
	pthread_barrier_wait(&e->barrier);
	pthread_barrier_wait(&e->barrier);
	table_enter(e->s);
	return NULL;
}

static bool walk_at_exit(struct stack *s, struct trace *t)
{
	struct exiting e = { .s = s };
	struct perf_event_attr attr;
	struct up_ring ring;
	struct up_rec *rec;
	pthread_t thread;
	bool ok;

	t->nr = -1;
	s->regs[RAX] = SYS_exit;
	pthread_barrier_init(&e.barrier, NULL, 2);
	if (pthread_create(&thread, NULL, exit_thread, &e))
		return false;
	pthread_barrier_wait(&e.barrier);
	syscall_attr_init(&attr, "sys_enter", DEFERRED);
	/* exit() */
	ok = syscall_open(&ring, &attr, e.tid, "id == 60") && !up_enable(&ring);
	pthread_barrier_wait(&e.barrier);
	pthread_join(thread, NULL);
	s->regs[RAX] = SYS_getppid;
	if (!ok)
		return false;
	up_drain(&ring);
	rec = up_nth(&ring, UT_RECORD_CALLCHAIN_DEFERRED, 0);
	if (rec && rec->nr < ARRAY_SIZE(t->ips)) {
		t->nr = rec->nr;
		t->outermost = rec->misc & UT_MISC_OUTERMOST;
		memcpy(t->ips, rec->ips, t->nr * sizeof(*t->ips));
	}
	up_close(&ring);
	return true;
}

/*
 * A separate process, whose code is not known yet. The kernel's state of it takes memory,
 * but no page fault.
 */
TEST_F(walk, first_walk_of_a_process_is_by_tables_at_its_exit)
{
	u64 ips[] = { at(self, AT_MIDDLE), CALLER, OUTER };

	ASSERT_TRUE(use_rules(self, rule_cfa(RSP, 16), rule_cfa(RSP, 32), UNKNOWN));
	/* By frame pointer there would be another caller. */
	self->s.regs[RBP] = SLOT(8);
	WORDS([1] = CALLER, [5] = OUTER, [9] = CALLER_2);
	EXPECT_EQ(0, IN_CHILD(!walk_at_exit(&self->s, &self->t) ||
			      !is_trace(&self->t, ips, 3, true)));
}

/* ------------------------------------------------------------------------ */
/* Ends									      */

TEST_F(walk, outermost_frame_is_the_topmost_one)
{
	ASSERT_TRUE(use_rules(self, OUTERMOST, UNKNOWN, UNKNOWN));
	self->s.regs[RBP] = SLOT(10);
	WORDS(CALLER, [11] = CALLER);
	EXPECT_TRUE(FRAMES(true));
}

/* By rules that are ordinary ones, and by others, where the caller returns to @word */
static bool ends_at_return_to(struct _test_data_walk *self, u64 word)
{
	const struct unwind_table_rule rule = rule_leaf();
	const struct unwind_table_rule other = rule_fp(RSP, 8, LOC(CFA, 0, 0));

	WORDS(CALLER, word);
	return use_rules(self, rule, rule, UNKNOWN) && FRAMES(false, AT_CALLER) &&
	       use_rules(self, other, other, UNKNOWN) && FRAMES(false, AT_CALLER);
}

/* Only the table itself says which frame is outermost. */
TEST_F(walk, return_address_of_0_is_not_complete)
{
	EXPECT_TRUE(ends_at_return_to(self, 0));
}

TEST_F(walk, return_address_that_is_none_is_not_complete)
{
	EXPECT_TRUE(ends_at_return_to(self, -4096ULL));
}

/* That is how a thread begins, but not in code whose table needs it. */
TEST_F(walk, frame_pointer_of_0_in_code_with_a_table_is_not_complete)
{
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_cfa(RBP, 16), UNKNOWN));
	WORDS(CALLER);
	EXPECT_TRUE(FRAMES(false, AT_CALLER));
}

/* Without a table, 0 tells that a thread begins only if frame pointers led to it. */
TEST_F(walk, frame_pointer_that_was_not_followed_tells_nothing)
{
	EXPECT_TRUE(FRAMES(false));
	self->s.regs[RBP] = SLOT(10);
	WORDS([10] = SLOT(20), 0);
	EXPECT_TRUE(FRAMES(false));

	/* A frame pointer of 0, then a return address of 0 */
	WORDS([10] = 0, CALLER);
	EXPECT_TRUE(FRAMES(false, AT_CALLER));
	WORDS([10] = SLOT(20), CALLER, [20] = SLOT(30), 0);
	EXPECT_TRUE(FRAMES(false, AT_CALLER));

	/* A frame by the table for a file, whose rules are not about this code */
	table_of_one(self->table, PAGE, rule_leaf(), 4 * PAGE + 0x100);
	ASSERT_LT(0, file_use(self->fd, self->table, &self->file));
	self->s.regs[RBP] = 0;
	WORDS(at(self, 5 * PAGE + 0x200));
	EXPECT_TRUE(FRAMES(false, 5 * PAGE + 0x200));
}

TEST_F(walk, unknown_code_ends_the_walk)
{
	self->s.regs[RBP] = SLOT(10);
	WORDS(CALLER, OUTER, [11] = OUTER);
	ASSERT_TRUE(use_rules(self, UNKNOWN, UNKNOWN, UNKNOWN));
	EXPECT_TRUE(FRAMES(false));
	ASSERT_TRUE(use_rules(self, rule_leaf(), UNKNOWN, UNKNOWN));
	EXPECT_TRUE(FRAMES(false, AT_CALLER));
}

/* Where clone() returns, 0 is what a new thread gets. */
TEST_F(walk, new_thread_has_no_caller)
{
	/* In place, the system call has not returned yet. */
	if (must_skip(_metadata, need_deferral()))
		return;
	ASSERT_EQ(0, getuid());
	ASSERT_TRUE(use_rules(self, rule_new_thread(), rule_leaf(), UNKNOWN));
	WORDS(CALLER, OUTER);
	/* getppid() */
	EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER));
	self->s.regs[RAX] = SYS_getuid;
	EXPECT_TRUE(FRAMES(true));
}

TEST_F(walk, caller_in_the_code_of_new_threads_is_none)
{
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_new_thread(), UNKNOWN));
	WORDS(CALLER, OUTER);
	self->s.regs[RAX] = SYS_getuid;
	EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER));
}

/* Where no call ends, there is no caller; but code may be executed there. */
TEST_F(walk, caller_where_no_call_ends_is_none)
{
	const struct unwind_table_rule no_call = rule_flag(8, UNWIND_TABLE_NO_CALL);

	WORDS(CALLER, OUTER);
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_leaf(), UNKNOWN));
	EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER));
	ASSERT_TRUE(use_rules(self, rule_leaf(), no_call, UNKNOWN));
	EXPECT_TRUE(FRAMES(false, AT_CALLER));
	ASSERT_TRUE(use_rules(self, no_call, rule_leaf(), UNKNOWN));
	EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER));
}

/* ------------------------------------------------------------------------ */
/* A frame that a signal made, in code that is interrupted there */
static int use_interrupted(struct _test_data_walk *self, struct unwind_table_rule rule)
{
	struct table *t = self->table;

	table_start(t);
	table_row(t, PAGE, rule_signal(8));
	table_row(t, 8 * PAGE, rule);
	table_row(t, 9 * PAGE, UNKNOWN);
	table_row(t, 12 * PAGE, OUTERMOST);
	table_end(t, FILE_PAGES * PAGE);
	return file_use(self->fd, t, &self->file);
}

/* The address it leads to is not after a call: the rule is that of the address itself. */
TEST_F(walk, signal_frame_leads_to_code_that_was_interrupted)
{
	struct table *t = self->table;

	table_start(t);
	table_row(t, PAGE, rule_signal(8));
	table_row(t, AT_CALLER - 1, UNKNOWN);
	table_row(t, AT_CALLER, rule_cfa(RSP, 16));
	table_row(t, 9 * PAGE, UNKNOWN);
	table_row(t, AT_CALLER_2 - 1, rule_signal(24));
	table_row(t, AT_CALLER_2, UNKNOWN);
	table_row(t, AT_OUTER - 1, UNKNOWN);
	table_row(t, AT_OUTER, OUTERMOST);
	table_end(t, FILE_PAGES * PAGE);
	ASSERT_LT(0, file_use(self->fd, t, &self->file));
	WORDS(CALLER, [2] = CALLER_2, [5] = OUTER);
	EXPECT_TRUE(finds_all(self));
}

TEST_F(walk, registers_of_interrupted_code_are_not_those_of_the_topmost_frame)
{
	ASSERT_LT(0, use_interrupted(self, rule_cfa(RBX, 16)));
	self->s.regs[RBX] = SLOT(8);
	WORDS(CALLER, [9] = OUTER);
	EXPECT_TRUE(FRAMES(false, AT_CALLER));
}

/* Nor is the result of a system call that of theirs. */
TEST_F(walk, interrupted_code_is_no_new_thread)
{
	ASSERT_EQ(0, getuid());
	ASSERT_LT(0, use_interrupted(self, rule_new_thread()));
	self->s.regs[RAX] = SYS_getuid;
	WORDS(CALLER, OUTER);
	EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER));
}

TEST_F(walk, number_of_signal_frames_is_bounded)
{
	struct unwind_table_rule rule = rule_signal(0);

	/* The SP stays where it is, so there would be no end. */
	rule.ra = LOC(REG, RBP, 0);
	table_of_one(self->table, PAGE, rule, FILE_PAGES * PAGE);
	ASSERT_LT(0, file_use(self->fd, self->table, &self->file));
	self->s.regs[RBP] = CALLER;
	table_walk(&self->s, &self->t);
	EXPECT_EQ(17, self->t.nr);
	EXPECT_FALSE(self->t.outermost);
}

/* Both are where SP may move down. */
TEST_F(walk, signal_frames_and_switches_to_lower_stacks_are_counted_together)
{
	u64 ips[MAX_SWITCHES + 4];
	int i, nr;

	ASSERT_LT(0, use_interrupted(self, rule_deref(RSP, 0, 0)));
	for (i = MAX_SWITCHES - 1; i <= MAX_SWITCHES; i++) {
		nr = switch_down(self, i, ips + 1);
		/* The frame that a signal made comes before. */
		ips[0] = at(self, AT_MIDDLE);
		ips[1] = CALLER;
		self->s.words[999] = CALLER;
		self->s.regs[RSP] = SLOT(999);
		table_walk(&self->s, &self->t);
		if (i < MAX_SWITCHES) {
			EXPECT_TRUE(is_trace(&self->t, ips, nr + 1, true));
		} else {
			EXPECT_TRUE(is_trace(&self->t, ips, nr, false));
			EXPECT_TRUE(ends_with(&self->t, UT_END_CORRUPT));
		}
	}
}

/* ------------------------------------------------------------------------ */
/* Where rules count							      */

TEST_F(walk, code_that_is_not_covered_is_walked_by_frame_pointer)
{
	struct table *t = self->table;

	table_start(t);
	table_row(t, PAGE, rule_leaf());
	/* A rule that says so; a page without rows; and a page in no run */
	table_end(t, 4 * PAGE + 0x100);
	table_empty(t);
	table_row(t, 7 * PAGE, UNKNOWN);
	table_row(t, 7 * PAGE + 0x10, OUTERMOST);
	table_end(t, 8 * PAGE);
	ASSERT_LT(0, file_use(self->fd, t, &self->file));
	self->s.regs[RBP] = SLOT(2);
	/* The fourth caller is after the end of all runs. */
	WORDS(at(self, 4 * PAGE + 0x200), [2] = SLOT(4), at(self, 5 * PAGE + 0x200), SLOT(6),
	      at(self, 6 * PAGE + 0x200), SLOT(8), at(self, 9 * PAGE + 0x200), SLOT(10),
	      at(self, 7 * PAGE + 0x20));
	EXPECT_TRUE(FRAMES(true, 4 * PAGE + 0x200, 5 * PAGE + 0x200,
			   6 * PAGE + 0x200, 9 * PAGE + 0x200, 7 * PAGE + 0x20));
}

/*
 * The same topmost frame, whose caller is at @ip in code without a table: that has an
 * outermost caller by frame pointer, or by the word on the stack.
 */
static bool walks_through(struct _test_data_walk *self, u64 ip, bool by_fp, bool checked)
{
	u64 ips[] = { at(self, AT_MIDDLE), ip, OUTER };
	int i;

	self->s.regs[RBP] = SLOT(4);
	WORDS(ip, by_fp ? CALLER : OUTER, [4] = SLOT(6), by_fp ? OUTER : CALLER);
	/* At the event, the first walk only asks for a look at an SFrame table. */
	if (in_place)
		table_walk(&self->s, &self->t);
	for (i = 0; i < 3; i++) {
		table_walk(&self->s, &self->t);
		if (!is_trace(&self->t, ips, 3, checked) ||
		    !ends_with(&self->t, checked ? 0 : UT_END_UNCHECKED))
			return false;
	}
	return true;
}

/* Where the register holds something else, callers may be missing before the outermost. */
TEST_F(walk, outermost_frame_behind_a_frame_pointer_that_nothing_checks)
{
	u8 *code = map_anon(0, PAGE, PROT_CODE, 0);
	struct code_file other;

	ASSERT_NE(MAP_FAILED, (void *)code);
	memset(code, 0xcc, PAGE);
	ASSERT_TRUE(use_rules(self, rule_leaf(), UNKNOWN, UNKNOWN));
	/* Memory of no file; and if its bytes are an epilogue, that is a proof. */
	EXPECT_TRUE(walks_through(self, (u64)code + 0x10, true, false));
	code[0x20] = 0xc3;
	EXPECT_TRUE(walks_through(self, (u64)code + 0x20, false, true));
	code[0x30] = 0xc9;
	code[0x31] = 0xc3;
	EXPECT_TRUE(walks_through(self, (u64)code + 0x30, true, true));
	munmap(code, PAGE);

	/* A file without a table */
	ASSERT_TRUE(file_make(&other, test_path("other"), 0xcc));
	EXPECT_TRUE(walks_through(self, (u64)other.mem + 0x10, true, false));
	file_end(&other);
}

/* An SFrame table says nothing about code without a row. */
TEST_F(walk, outermost_frame_behind_a_hole_in_an_sframe_table)
{
	u8 *code = map_anon(0, PAGE, PROT_CODE, 0);
	u64 table = (u64)code + 0x800;
	size_t len;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_NE(MAP_FAILED, (void *)code);
	ASSERT_TRUE(use_rules(self, rule_leaf(), UNKNOWN, UNKNOWN));
	sframe_build_init(&build, 3, true, table);
	sframe_build_func(&build, (u64)code + 0x100, 16, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	len = sframe_build_finish(&build);
	memcpy(code + 0x800, build.mem, len);
	ASSERT_EQ(0, add_table(table, table + len, (u64)code, table));
	EXPECT_TRUE(walks_through(self, (u64)code + 0x10, true, false));
	EXPECT_TRUE(walks_through(self, (u64)code + 0x108, false, true));
	remove_table(table);
	munmap(code, PAGE);
}

/* The rule for a topmost frame is that of its address. */
TEST_F(walk, topmost_frame_at_the_edges_of_pages_and_rows)
{
	static const struct {
		u64 call, at;
	} where[] = {
		{ CALL_PAGE, AT_PAGE }, { CALL_MIDDLE, AT_MIDDLE }, { CALL_LAST, AT_LAST },
	};
	struct table *t = self->table;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(where); i++) {
		table_start(t);
		table_row(t, PAGE, UNKNOWN);
		table_row(t, where[i].at, rule_cfa(RSP, 8 + 8 * i));
		table_row(t, where[i].at + 1, UNKNOWN);
		table_row(t, 12 * PAGE, OUTERMOST);
		table_end(t, FILE_PAGES * PAGE);
		self->nr = file_use(self->fd, t, &self->file);
		ASSERT_LT(0, self->nr);
		self->s.ip = at(self, where[i].call);
		memset(self->s.words, 0, 64);
		self->s.words[i] = OUTER;
		EXPECT_TRUE(FRAMES(true, AT_OUTER)) {
			TH_LOG("at %#llx", (unsigned long long)where[i].at);
		}
		ASSERT_EQ(0, dev_drop(self->fd, self->nr));
	}
}

/*
 * A call may be the last instruction of its function, of its page, and of all
 * that the table covers: the rule for a caller is that of the byte before.
 */
TEST_F(walk, caller_has_the_rule_of_its_call)
{
	static const u64 where[] = {
		6 * PAGE + 1, 6 * PAGE + 0x10, 7 * PAGE - 1, 7 * PAGE,
		7 * PAGE + 1, 10 * PAGE,
	};
	struct table *t = self->table;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(where); i++) {
		table_start(t);
		table_row(t, PAGE, rule_leaf());
		table_row(t, 4 * PAGE, OUTERMOST);
		table_row(t, 5 * PAGE, UNKNOWN);
		table_row(t, where[i] - 1, rule_cfa(RSP, 24));
		if (where[i] < 10 * PAGE)
			table_row(t, where[i], UNKNOWN);
		table_end(t, 10 * PAGE);
		self->nr = file_use(self->fd, t, &self->file);
		ASSERT_LT(0, self->nr);
		WORDS(at(self, where[i]), [3] = at(self, 4 * PAGE + 8));
		EXPECT_TRUE(FRAMES(true, where[i], 4 * PAGE + 8)) {
			TH_LOG("at %#llx", (unsigned long long)where[i]);
		}
		ASSERT_EQ(0, dev_drop(self->fd, self->nr));
	}
}

/* Linkers do that: one page of the file is the end of one, and starts another. */
TEST_F(walk, page_of_the_file_that_is_in_two_segments)
{
	struct table *t = self->table;
	u8 *mem = map_anon(0, 32 * PAGE, PROT_NONE, 0);
	/* Page 8 is mapped at its place, and once more after 16 other pages. */
	u64 first = (u64)mem, second = first + 16 * PAGE;
	u64 ips[] = { first + AT_MIDDLE, first + 8 * PAGE + 0x10, second + 8 * PAGE + 0x10,
		      second + 8 * PAGE + 0x810, first + 8 * PAGE + 0x810,
		      second + 9 * PAGE + 0x10 };
	int i;

	ASSERT_NE(MAP_FAILED, (void *)mem);
	ASSERT_TRUE(file_map_at(self->file.path, first + PAGE, PAGE, 8 * PAGE));
	ASSERT_TRUE(file_map_at(self->file.path, second + 8 * PAGE, 8 * PAGE, 4 * PAGE));
	table_start(t);
	table_row(t, PAGE, rule_leaf());
	table_row(t, 8 * PAGE, rule_cfa(RSP, 16));
	table_row(t, 8 * PAGE + 0x800, rule_cfa(RSP, 24));
	table_row(t, 9 * PAGE, OUTERMOST);
	table_end(t, FILE_PAGES * PAGE);
	ASSERT_LT(0, file_use(self->fd, t, &self->file));
	self->s.ip = first + CALL_MIDDLE;
	WORDS(ips[1], [2] = ips[2], [4] = ips[3], [7] = ips[4], [10] = ips[5]);
	for (i = 0; i < 2; i++) {
		table_walk(&self->s, &self->t);
		EXPECT_TRUE(is_trace(&self->t, ips, ARRAY_SIZE(ips), true));
	}
	munmap(mem, 32 * PAGE);
}

/*
 * Where offsets in the file are higher than addresses, the table has rules for code that
 * would be at addresses below 0 and from there on. The code below the mapping is another
 * one.
 */
TEST_F(walk, code_below_a_mapping_with_a_high_offset_has_no_rules)
{
	const unsigned long low = 0x18000, addr = 0x20000, offset = 0x80000;
	const size_t size = FILE_PAGES * PAGE;
	u64 ips[] = { addr + AT_MIDDLE, low + 0x11, addr + AT_OUTER };
	struct table *t = self->table;
	struct code_file f = { };
	u8 *mem;
	int i;

	snprintf(f.path, sizeof(f.path), "%s", test_path("high"));
	f.fd = open(f.path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
	ASSERT_EQ((ssize_t)size, pwrite(f.fd, self->file.mem, size, offset));
	close(f.fd);
	f.fd = open(f.path, O_RDONLY | O_CLOEXEC);
	ASSERT_EQ(0, fstat(f.fd, &f.st));
	wait_for_clock(&f.st);
	f.mem = mmap((void *)addr, size, PROT_READ | PROT_EXEC,
		     MAP_PRIVATE | MAP_FIXED_NOREPLACE, f.fd, offset);
	ASSERT_EQ(addr, (unsigned long)f.mem);
	mem = map_anon(low, PAGE, PROT_CODE, MAP_FIXED_NOREPLACE);
	ASSERT_EQ(low, (unsigned long)mem);
	memset(mem, 0xcc, PAGE);

	table_start(t);
	table_row(t, 0x50000, UNKNOWN);
	table_row(t, offset + AT_MIDDLE, rule_leaf());
	table_row(t, offset + AT_MIDDLE + 1, UNKNOWN);
	table_row(t, offset + 12 * PAGE, OUTERMOST);
	table_end(t, offset + size);
	self->nr = dev_make_table(self->fd, t);
	ASSERT_LT(0, self->nr);
	ASSERT_EQ(0, attach_as(self->fd, self->nr, getpid(), f.mem, &f));
	self->s.ip = addr + CALL_MIDDLE;
	self->s.regs[RBP] = SLOT(10);
	WORDS(ips[1], [11] = ips[2]);
	for (i = 0; i < 2; i++) {
		table_walk(&self->s, &self->t);
		EXPECT_TRUE(is_trace(&self->t, ips, 3, false));
		EXPECT_TRUE(ends_with(&self->t, UT_END_UNCHECKED));
	}
	munmap(mem, PAGE);
	file_end(&f);
}

/*
 * Code without an SFrame table begins and ends where the program says, not with a
 * page. Each rule there is needed for the first time, by the first frame or later.
 */
TEST_F(walk, code_beside_an_added_sframe_table_has_its_own_rules)
{
	unsigned long text = at(self, 0), end = text + 7 * PAGE + 0x31;
	u8 *added = map_anon(0, PAGE, PROT_READ | PROT_WRITE, 0);
	static const u64 callers[] = {
		7 * PAGE + 0x40, 7 * PAGE + 0x51, 7 * PAGE + 0x180,
		7 * PAGE + 0x1f1, 8 * PAGE + 0x1, 8 * PAGE + 0x131,
	};
	struct table *t = self->table;
	u64 ips[ARRAY_SIZE(callers) + 2];
	unsigned int i, slot = 0;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_NE(NULL, added);
	table_start(t);
	/* Each 16 bytes have a rule that differs from those of their neighbours. */
	for (i = 0; i < 9 * PAGE / 16; i++)
		table_row(t, PAGE + 16 * i, rule_cfa(RSP, 8 + 8 * (i % 7)));
	table_row(t, 10 * PAGE, OUTERMOST);
	table_end(t, FILE_PAGES * PAGE);
	self->nr = file_use(self->fd, t, &self->file);
	ASSERT_LT(0, self->nr);

	sframe_build_init(&build, 3, true, (unsigned long)added);
	sframe_build_func(&build, end - 16, 16, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	ASSERT_LT(0, sframe_build_finish(&build));
	memcpy(added, build.mem, PAGE);
	ASSERT_EQ(0, add_table((unsigned long)added, (unsigned long)added + PAGE,
			       text + 6 * PAGE + 0x45, end));

	ips[0] = text + AT_MIDDLE;
	slot += (AT_MIDDLE - PAGE) / 16 % 7;
	for (i = 0; i < ARRAY_SIZE(callers); i++) {
		self->s.words[slot] = text + callers[i];
		slot += 1 + (callers[i] - 1 - PAGE) / 16 % 7;
		ips[i + 1] = text + callers[i];
	}
	self->s.words[slot] = text + 10 * PAGE + 8;
	ips[i + 1] = text + 10 * PAGE + 8;

	for (i = 0; i < 2; i++) {
		table_walk(&self->s, &self->t);
		EXPECT_TRUE(is_trace(&self->t, ips, ARRAY_SIZE(ips), true));
	}
	ASSERT_EQ(0, remove_table((unsigned long)added));
	munmap(added, PAGE);
}

/* ------------------------------------------------------------------------ */
/* What the descriptor has counted since it had so many walks, complete walks, and frames */
static bool has_counted(struct _test_data_walk *self, const long long *before,
			const long long *more)
{
	static const char * const names[] = {
		"walks", "walks_complete", "frames", "frames_by_fp",
	};
	bool ok = true;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		long long seen = dev_info(self->fd, names[i]) - before[i];

		if (seen == more[i])
			continue;
		fprintf(stderr, "# %s: %lld more, not %lld\n", names[i], seen, more[i]);
		ok = false;
	}
	return ok;
}

/* Reports of walks							      */

TEST_F(walk, descriptor_counts_walks_and_frames)
{
	long long before[4];

	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_deref(RSP, 0, 8), UNKNOWN));
	WORDS(CALLER, SLOT(2), OUTER);
	EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER));
	before[0] = dev_info(self->fd, "walks");
	before[1] = dev_info(self->fd, "walks_complete");
	before[2] = dev_info(self->fd, "frames");
	before[3] = dev_info(self->fd, "frames_by_fp");
	/* Each of these is two walks. */
	EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER));
	EXPECT_TRUE(has_counted(self, before, (long long[]){ 2, 2, 4, 0 }));

	/* The table knows nothing of page 0. */
	self->s.regs[RBP] = SLOT(10);
	WORDS(at(self, 0x10), [10] = 1, at(self, 0x20));
	EXPECT_TRUE(FRAMES(false, 0x10, 0x20));
	EXPECT_TRUE(has_counted(self, before, (long long[]){ 4, 2, 6, 2 }));
}

TEST_F(walk, trace_event_tells_what_frames_were_found_by)
{
	if (must_skip(_metadata, need_deferral()))
		return;
	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_user_done", true));
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_deref(RSP, 0, 8), UNKNOWN));
	WORDS(CALLER, SLOT(2), OUTER);
	EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER));
	ASSERT_EQ(0, trace_event("unwind_user_done", false));
	EXPECT_EQ(2, trace_count_of_task("nr=3 file=2 sframe=0 fp=0 entry=0 signal=0"));
}

TEST_F(walk, record_says_why_it_is_cut)
{
	WORDS(CALLER, OUTER);
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_leaf(), UNKNOWN));
	EXPECT_TRUE(FRAMES(true, AT_CALLER, AT_OUTER));
	EXPECT_TRUE(ends_with(&self->t, 0));

	ASSERT_TRUE(use_rules(self, rule_leaf(), UNKNOWN, UNKNOWN));
	EXPECT_TRUE(ends_at_caller(self, UT_END_NO_RULE));
	/* The CFA of the caller is not aligned. */
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_cfa(RSP, 12), UNKNOWN));
	EXPECT_TRUE(ends_at_caller(self, UT_END_CORRUPT));

	/* A return address that is no code */
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_leaf(), UNKNOWN));
	WORDS(CALLER, 8);
	EXPECT_TRUE(ends_at_caller(self, UT_END_CORRUPT));
	/* By frame pointer, which leads nowhere */
	WORDS(CALLER, (unsigned long)test_dir);
	EXPECT_TRUE(FRAMES(false, AT_CALLER, (unsigned long)test_dir - at(self, 0)));
	EXPECT_TRUE(ends_with(&self->t, UT_END_NO_RULE));

	ASSERT_EQ(0, mprotect(self->s.words, PAGE, PROT_NONE));
	EXPECT_TRUE(FRAMES(false));
	EXPECT_TRUE(ends_with(&self->t, UT_END_ABSENT));
}

/* A record has less than the walk has found. */
TEST_F(walk, record_that_was_cut_is_not_complete)
{
	struct perf_event_attr attr;
	struct up_ring ring;
	struct up_rec *rec;
	int most;

	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_leaf(), rule_leaf()));
	WORDS(CALLER, CALLER_2, OUTER);
	for (most = 3; most <= 5; most++) {
		syscall_attr_init(&attr, "sys_enter", DEFERRED);
		attr.exclude_callchain_kernel = 0;
		attr.sample_max_stack = most;
		ASSERT_TRUE(syscall_open(&ring, &attr, 0, "id == 110"));
		up_enable(&ring);
		table_enter(&self->s);
		up_disable(&ring);
		up_drain(&ring);
		ASSERT_EQ(1, up_count(&ring, UT_RECORD_CALLCHAIN_DEFERRED));
		rec = up_nth(&ring, UT_RECORD_CALLCHAIN_DEFERRED, 0);
		EXPECT_EQ(most < 4 ? most : 4, rec->nr);
		EXPECT_EQ(most >= 4, !!(rec->misc & UT_MISC_OUTERMOST));
		EXPECT_EQ(most >= 4 ? 0 : UT_END_DEPTH, UT_MISC_END(rec->misc));
		up_close(&ring);
	}
}

#define IS_IO_URING_ENTER	"id == 426"

/*
 * io_uring_enter() runs task work when it looks for completions: the walk is in the
 * middle of the system call. Returns the descriptor it uses.
 */
static int enter_io_uring(struct stack *s)
{
	struct io_uring_params params = { };
	int fd = syscall(SYS_io_uring_setup, 4, &params);

	/* Without arguments in RSI, RDX, R8 and R9 */
	s->regs[RAX] = SYS_io_uring_enter;
	s->regs[RDI] = fd;
	s->regs[R10] = IORING_ENTER_GETEVENTS;
	return fd;
}

/*
 * A sample at the end of that system call has the frames itself. @most is the room of such
 * a sample. The @last one of an event that has an output is walked in place.
 */
static bool walk_in_the_middle(struct _test_data_walk *self, unsigned int most, bool last,
			       struct up_ring *enter, struct up_ring *exit)
{
	int fd = enter_io_uring(&self->s);
	struct perf_event_attr attr;
	bool ok;

	syscall_attr_init(&attr, "sys_enter", DEFERRED);
	ok = syscall_open(enter, &attr, 0, IS_IO_URING_ENTER);
	syscall_attr_init(&attr, "sys_exit", last ? DEFERRED : UT_ATTR_DEFER_CALLCHAIN);
	attr.sample_max_stack = most;
	ok = ok && syscall_open(exit, &attr, 0, IS_IO_URING_ENTER) && !up_enable(enter) &&
	     !(last ? ioctl(exit->fd, PERF_EVENT_IOC_REFRESH, 1) : up_enable(exit));
	if (!ok)
		return false;
	table_enter(&self->s);
	up_disable(enter);
	up_disable(exit);
	up_drain(enter);
	up_drain(exit);
	close(fd);
	return up_count(enter, UT_RECORD_CALLCHAIN_DEFERRED) == 1 &&
	       up_count(exit, PERF_RECORD_SAMPLE) == 1;
}

static void check_in_the_middle(struct __test_metadata *_metadata,
				struct _test_data_walk *self, unsigned int most,
				const u64 *ips, int nr, bool outermost)
{
	struct up_ring enter = { }, exit = { };
	struct up_rec *rec, *sample;
	int cut = most && (int)most < nr ? (int)most : nr;

	ASSERT_TRUE(walk_in_the_middle(self, most, false, &enter, &exit));
	rec = up_nth(&enter, UT_RECORD_CALLCHAIN_DEFERRED, 0);
	EXPECT_TRUE(up_frames_equal(rec->ips, rec->nr, ips, nr));
	EXPECT_EQ(outermost, !!(rec->misc & UT_MISC_OUTERMOST));
	/* The sample whose frames are still to come has none itself. */
	sample = up_nth(&enter, PERF_RECORD_SAMPLE, 0);
	EXPECT_TRUE(sample->deferred);
	EXPECT_EQ(PERF_RECORD_MISC_KERNEL, sample->misc);

	sample = up_nth(&exit, PERF_RECORD_SAMPLE, 0);
	EXPECT_FALSE(sample->deferred);
	EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user, ips, cut));
	EXPECT_EQ(outermost && cut == nr, !!(sample->misc & UT_MISC_OUTERMOST));
	EXPECT_EQ(cut < nr ? UT_END_DEPTH : UT_MISC_END(rec->misc),
		  UT_MISC_END(sample->misc));
	up_close(&enter);
	up_close(&exit);
}

TEST_F(walk, sample_that_comes_after_the_walk_says_whether_it_is_complete)
{
	const u64 ips[] = { at(self, AT_MIDDLE), CALLER, CALLER_2, OUTER };
	/* All of them, and a part of them */
	static const unsigned int most[] = { 0, 4, 3, 1 };
	unsigned int i;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	WORDS(CALLER, CALLER_2, OUTER);
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_leaf(), rule_leaf()));
	for (i = 0; i < ARRAY_SIZE(most); i++)
		check_in_the_middle(_metadata, self, most[i], ips, 4, true);
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_leaf(), UNKNOWN));
	check_in_the_middle(_metadata, self, 0, ips, 3, false);
	ASSERT_TRUE(use_rules(self, UNKNOWN, UNKNOWN, UNKNOWN));
	check_in_the_middle(_metadata, self, 0, ips, 1, false);
}

/* By frame pointer it has as many frames, but two differ. */
TEST_F(walk, sample_walked_in_place_after_the_walk_says_whether_it_is_complete)
{
	u64 frames[6] = { (u64)&frames[2], OUTER, (u64)&frames[4], CALLER_2, 0, OUTER };
	const u64 by_fp[4] = { at(self, AT_MIDDLE), OUTER, CALLER_2, OUTER };
	const u64 by_table[4] = { at(self, AT_MIDDLE), CALLER, CALLER_2, OUTER };
	struct up_ring enter = { }, exit = { };
	struct up_rec *rec;
	int i;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	WORDS(CALLER, CALLER_2, OUTER);
	self->s.regs[RBP] = (u64)frames;
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_leaf(), rule_leaf()));
	for (i = 1; i >= 0; i--) {
		ASSERT_EQ(0, up_write_number("/proc/sys/kernel/unwind_in_place", i));
		ASSERT_TRUE(walk_in_the_middle(self, 0, true, &enter, &exit));
		rec = up_nth(&enter, UT_RECORD_CALLCHAIN_DEFERRED, 0);
		EXPECT_EQ(4, rec->nr);
		EXPECT_TRUE(rec->misc & UT_MISC_OUTERMOST);
		rec = up_nth(&exit, PERF_RECORD_SAMPLE, 0);
		EXPECT_FALSE(rec->deferred);
		EXPECT_TRUE(up_frames_equal(rec->user, rec->nr_user, i ? by_table : by_fp, 4));
		EXPECT_EQ(i ? UT_MISC_OUTERMOST : UT_END_REFUSED << 8, rec->misc & 0x3f00);
		up_close(&enter);
		up_close(&exit);
	}
	ASSERT_EQ(0, up_write_number("/proc/sys/kernel/unwind_in_place", 1));
}

/* Another tracer has asked before the walk, and perf asks only after it. */
static void check_after_the_walk(struct __test_metadata *_metadata,
				 struct _test_data_walk *self, const u64 *ips, int nr,
				 bool outermost)
{
	int fd = enter_io_uring(&self->s);
	struct perf_event_attr attr;
	struct session other;
	struct up_ring exit;
	struct up_rec *rec;

	syscall_attr_init(&attr, "sys_exit", DEFERRED);
	ASSERT_TRUE(syscall_open(&exit, &attr, 0, IS_IO_URING_ENTER));
	ASSERT_EQ(0, session_start(&other, 1));
	up_enable(&exit);
	ASSERT_EQ(0, mod_cmd(other.fd, "probe 0 tp:sys_enter %d 1 task 0 1", my_tid()));
	table_enter(&self->s);
	up_disable(&exit);
	up_drain(&exit);
	ASSERT_EQ(0, mod_log(other.fd, &other.log));
	ASSERT_EQ(1, log_count(&other.log, 'R', 0));
	ASSERT_EQ(1, log_count(&other.log, 'C', 0));
	EXPECT_EQ(nr, log_find(&other.log, 'C', 0, 0)->nr);

	ASSERT_EQ(1, up_count(&exit, PERF_RECORD_SAMPLE));
	ASSERT_EQ(1, up_count(&exit, UT_RECORD_CALLCHAIN_DEFERRED));
	rec = up_nth(&exit, UT_RECORD_CALLCHAIN_DEFERRED, 0);
	EXPECT_EQ(log_find(&other.log, 'C', 0, 0)->cookie, rec->cookie);
	EXPECT_TRUE(up_frames_equal(rec->ips, rec->nr, ips, nr));
	EXPECT_EQ(outermost, !!(rec->misc & UT_MISC_OUTERMOST));
	session_end(&other);
	up_close(&exit);
	close(fd);
}

TEST_F(walk, record_of_who_asks_after_the_walk_says_whether_it_is_complete)
{
	const u64 ips[] = { at(self, AT_MIDDLE), CALLER, CALLER_2, OUTER };

	if (must_skip(_metadata, need_module()) ||
	    must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	WORDS(CALLER, CALLER_2, OUTER);
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_leaf(), rule_leaf()));
	check_after_the_walk(_metadata, self, ips, 4, true);
	ASSERT_TRUE(use_rules(self, rule_leaf(), rule_leaf(), UNKNOWN));
	check_after_the_walk(_metadata, self, ips, 3, false);
}

TEST_HARNESS_MAIN
