// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for the decoder of SFrame tables. The tables are made here: what
 * assemblers emit is compared with other decoders elsewhere, this is for what
 * no assembler emits, and for the edges of what they do.
 */

#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "../sframe.h"
#include "rule_unpack.h"
#include "sframe_build.h"

/* User memory. A table ends where it does, so reading past the table is a fault. */
#define MEM_LEN		0x40000
#define MEM_END		0x7f0000200000ULL
#define TEXT_BEFORE	0x7f0000001000ULL
#define TEXT_BEHIND	0x7f0000801000ULL
#define TEXT_LEN	0x80000

#define SP		SFRAME_BUILD_SP
#define FP		SFRAME_BUILD_FP
#define WORDS(n)	((n) << 1)
#define REG(nr)		SFRAME_BUILD_REG(nr)
#define DEREF		SFRAME_BUILD_DEREF

/* Places of values, as in struct unwind_loc; the last three are those of most rules */
#define IN_REG(nr, off)	{ off, UNWIND_REG, nr }
#define SLOT(off)	{ off, UNWIND_CFA_DEREF }
#define CFA_SP		IN_REG(7, 8)
#define RA_SLOT		SLOT(-8)
#define FP_SAME		{ 0, UNWIND_SAME }

/* All the kinds of tables there are */
static const struct layout {
	u8	version;
	bool	pcrel;
	u64	text;
} layouts[] = {
	{ 2, false, TEXT_BEFORE },
	{ 2, false, TEXT_BEHIND },
	{ 2, true, TEXT_BEFORE },
	{ 2, true, TEXT_BEHIND },
	{ 3, false, TEXT_BEFORE },
	{ 3, false, TEXT_BEHIND },
	{ 3, true, TEXT_BEFORE },
	{ 3, true, TEXT_BEHIND },
};

struct table {
	struct kunit		*test;
	const struct layout	*layout;
	struct sframe_build	b;
	struct sframe_section	sec;
	struct sframe_span	span;
	u32			len;
	s32			room;	/* bytes after the table; < 0: that it lacks */
	u64			text;
};

static struct table *new_table(struct kunit *test)
{
	struct table *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_EQ(test, MEM_END - MEM_LEN,
			kunit_vm_mmap(test, NULL, MEM_END - MEM_LEN, MEM_LEN,
				      PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS |
				      MAP_FIXED_NOREPLACE, 0));
	t->test = test;
	return t;
}

static void start(struct table *t, u8 version, bool pcrel, u64 text)
{
	sframe_build_init(&t->b, version, pcrel, 0);
	t->room = 0;
	t->text = text;
}

/* A V3 table as linkers make it */
static void start_v3(struct table *t)
{
	start(t, 3, true, TEXT_BEHIND);
}

/* Another table of the same kind */
static void restart(struct table *t)
{
	start(t, t->layout->version, t->layout->pcrel, t->layout->text);
}

/* Start a table of the first or next kind. After the last one: false, and so on. */
static bool next_layout(struct table *t)
{
	t->layout = t->layout ? t->layout + 1 : layouts;
	if (t->layout < layouts + ARRAY_SIZE(layouts)) {
		restart(t);
		return true;
	}
	t->layout = NULL;
	return false;
}

static enum sframe_status open_bytes(struct table *t, u32 len)
{
	KUNIT_ASSERT_EQ(t->test, 0, copy_to_user((void __user *)t->b.addr, t->b.mem,
						 t->len + t->room));
	t->sec = (struct sframe_section) {
		.start		= t->b.addr,
		.end		= t->b.addr + len,
		.text_start	= t->text,
		.text_end	= t->text + TEXT_LEN,
	};
	return sframe_open(&t->sec);
}

static enum sframe_status finish(struct table *t)
{
	/* The address follows from the length, and starts of functions from that. */
	t->len = sframe_build_finish(&t->b);
	t->b.addr = MEM_END - t->room - t->len;
	sframe_build_finish(&t->b);
	return open_bytes(t, t->len);
}

static enum sframe_status find(struct table *t, u64 ip, struct unwind_rule *rule)
{
	enum sframe_status status;

	/* All of it has to be set. */
	memset(rule, 1, sizeof(*rule));
	status = sframe_find(&t->sec, ip, rule, &t->span);
	if (status == SFRAME_OK)
		unwind_rule_unpack(rule);
	return status;
}

static enum sframe_status status_at(struct table *t, u64 ip)
{
	struct unwind_rule rule;

	return find(t, ip, &rule);
}

/* The rule that was found last is for all of its code, as is found at both ends of that. */
static void expect_span(struct kunit *test, struct table *t, u64 ip)
{
	const struct sframe_span span = t->span;
	const u64 ends[] = { span.start, span.end - 1 };
	struct unwind_rule rule;
	unsigned int i;

	KUNIT_EXPECT_LE(test, span.func_start, span.start);
	KUNIT_EXPECT_LE(test, span.start, ip);
	KUNIT_EXPECT_LT(test, ip, span.end);
	KUNIT_EXPECT_LE(test, span.end, span.func_end);
	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		KUNIT_EXPECT_EQ(test, find(t, ends[i], &rule), SFRAME_OK);
		KUNIT_EXPECT_EQ(test, span.start, t->span.start);
		KUNIT_EXPECT_EQ(test, span.end, t->span.end);
	}
}

/* An ordinary rule at an offset in the text; @fp 0 is a frame pointer still in its register. */
static void expect(struct table *t, s64 at, u8 reg, s32 cfa, s32 fp)
{
	struct kunit *test = t->test;
	struct unwind_rule rule = { };

	KUNIT_EXPECT_EQ_MSG(test, find(t, t->text + at, &rule), SFRAME_OK,
			    "at text + %lld", (long long)at);
	expect_span(test, t, t->text + at);
	KUNIT_EXPECT_EQ(test, rule.cfa.where, UNWIND_REG);
	KUNIT_EXPECT_EQ(test, rule.cfa.reg, reg);
	KUNIT_EXPECT_EQ_MSG(test, rule.cfa.off, cfa, "at text + %lld", (long long)at);
	KUNIT_EXPECT_EQ(test, rule.ra.where, UNWIND_CFA_DEREF);
	KUNIT_EXPECT_EQ(test, rule.ra.off, -8);
	KUNIT_EXPECT_EQ(test, rule.fp.where, fp ? UNWIND_CFA_DEREF : UNWIND_SAME);
	KUNIT_EXPECT_EQ(test, rule.fp.off, fp);
	KUNIT_EXPECT_FALSE(test, rule.outermost);
	KUNIT_EXPECT_FALSE(test, rule.signal);
}

/* The same one at both ends of a range */
static void expect_range(struct table *t, s64 first, s64 last, u8 reg, s32 cfa, s32 fp)
{
	expect(t, first, reg, cfa, fp);
	expect(t, last, reg, cfa, fp);
}

static void expect_status(struct table *t, s64 at, enum sframe_status status)
{
	KUNIT_EXPECT_EQ_MSG(t->test, status_at(t, t->text + at), status,
			    "at text + %lld", (long long)at);
}

static void expect_none(struct table *t, s64 at)
{
	expect_status(t, at, SFRAME_NO_ROW);
}

static void expect_none_range(struct table *t, s64 first, s64 last)
{
	expect_none(t, first);
	expect_none(t, last);
}

static void expect_outermost(struct table *t, s64 first, s64 last)
{
	const s64 ends[] = { first, last };
	struct kunit *test = t->test;
	struct unwind_rule rule;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		KUNIT_EXPECT_EQ(test, find(t, t->text + ends[i], &rule), SFRAME_OK);
		expect_span(test, t, t->text + ends[i]);
		KUNIT_EXPECT_TRUE(test, rule.outermost);
		KUNIT_EXPECT_EQ(test, rule.cfa.where, UNWIND_UNDEFINED);
		KUNIT_EXPECT_EQ(test, rule.ra.where, UNWIND_UNDEFINED);
		KUNIT_EXPECT_EQ(test, rule.fp.where, UNWIND_UNDEFINED);
	}
}

static void expect_loc(struct kunit *test, const struct unwind_loc *loc, u8 where, u8 reg, s32 off)
{
	KUNIT_EXPECT_EQ(test, loc->where, where);
	KUNIT_EXPECT_EQ(test, loc->reg, reg);
	KUNIT_EXPECT_EQ(test, loc->off, off);
}

static void expect_same_loc(struct kunit *test, const struct unwind_loc *loc,
			    const struct unwind_loc *want)
{
	expect_loc(test, loc, want->where, want->reg, want->off);
}

/* A function at an offset in the text, to be followed by its rows */
static struct sframe_build_func *add_func(struct table *t, s64 at, u32 size, u8 info)
{
	return sframe_build_func(&t->b, t->text + at, size, info);
}

/* push %rbp; mov %rsp,%rbp; ...; ret */
static void add_framed(struct table *t, s64 at, u32 size)
{
	add_func(t, at, size, SFRAME_BUILD_ROW1);
	sframe_build_sp(&t->b, 0, 8);
	sframe_build_saved(&t->b, 1, SP, 16, -16);
	sframe_build_saved(&t->b, 4, FP, 16, -16);
	sframe_build_saved(&t->b, size - 1, SP, 8, -16);
}

static void expect_framed(struct table *t, s64 at, u32 size)
{
	expect(t, at, 7, 8, 0);
	expect_range(t, at + 1, at + 3, 7, 16, -16);
	expect_range(t, at + 4, at + size - 2, 6, 16, -16);
	expect(t, at + size - 1, 7, 8, -16);
}

/* Nothing but call and ret */
static void add_plain(struct table *t, s64 at, u32 size)
{
	add_func(t, at, size, SFRAME_BUILD_ROW1);
	sframe_build_sp(&t->b, 0, 8);
}

static void each_row_at_its_first_and_last_pc_ok(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		add_framed(t, 0x10, 0x40);
		add_plain(t, 0x50, 0x10);
		add_plain(t, 0x100, 1);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);

		expect_none_range(t, 0, 0xf);
		expect_framed(t, 0x10, 0x40);
		expect_range(t, 0x50, 0x5f, 7, 8, 0);
		expect_none_range(t, 0x60, 0xff);
		expect(t, 0x100, 7, 8, 0);
		expect_none_range(t, 0x101, TEXT_LEN - 1);

		/* The rule of the second row is for its three bytes, and no more. */
		expect_status(t, 0x12, SFRAME_OK);
		KUNIT_EXPECT_EQ(test, t->span.start, t->text + 0x11);
		KUNIT_EXPECT_EQ(test, t->span.end, t->text + 0x14);
		KUNIT_EXPECT_EQ(test, t->span.func_start, t->text + 0x10);
		KUNIT_EXPECT_EQ(test, t->span.func_end, t->text + 0x50);
		KUNIT_EXPECT_EQ(test, t->span.num_rows, 4);
	}
}

static void address_outside_the_code_is_not_looked_up(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		add_plain(t, 0, TEXT_LEN + 0x100);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);

		expect_none_range(t, -1, TEXT_LEN);
		expect_range(t, 0, TEXT_LEN - 1, 7, 8, 0);
		KUNIT_EXPECT_EQ(test, status_at(t, 0), SFRAME_NO_ROW);
		KUNIT_EXPECT_EQ(test, status_at(t, t->sec.start), SFRAME_NO_ROW);
		KUNIT_EXPECT_EQ(test, status_at(t, U64_MAX), SFRAME_NO_ROW);
	}
}

static void function_of_any_number_is_found(struct kunit *test)
{
	struct table *t = new_table(test);
	unsigned int n, i, at;

	while (next_layout(t)) {
		for (n = 1; n <= 70; n++) {
			restart(t);
			for (i = 0; i < n; i++) {
				add_func(t, 0x20 * i + 8, 0x10, SFRAME_BUILD_ROW1);
				sframe_build_sp(&t->b, 0, 8 * i + 8);
			}
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			for (i = 0; i < n; i++) {
				at = 0x20 * i + 8;
				expect_none_range(t, at - 1, at + 0x10);
				expect_range(t, at, at + 0xf, 7, 8 * i + 8, 0);
			}
		}
	}
}

static void text_beyond_four_gigabytes_is_found_in_v3(struct kunit *test)
{
	struct table *t = new_table(test);
	int sign, pcrel;

	for (sign = -1; sign <= 1; sign += 2) {
		for (pcrel = 0; pcrel <= 1; pcrel++) {
			start(t, 3, pcrel, MEM_END + sign * 0x7123456000LL);
			add_framed(t, 0, 0x40);
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			expect_framed(t, 0, 0x40);
			expect_none(t, 0x40);
		}
	}
}

static void every_width_of_starts_and_words_ok(struct kunit *test)
{
	static const s32 words[] = {
		8, 127, -128, 128, -129, 32767, -32768, 32768, -32769,
		INT_MAX, INT_MIN,
	};
	struct table *t = new_table(test);
	unsigned int i, width;
	u32 step;

	while (next_layout(t)) {
		for (width = 0; width <= 2; width++) {
			/* The last row starts with the top bit set. */
			step = width == 2 ? 0x1999a : width ? 0x1999 : 0x19;
			restart(t);
			add_func(t, 0, U32_MAX, width);
			for (i = 0; i < ARRAY_SIZE(words); i++)
				sframe_build_saved(&t->b, step * i, SP, 16, words[i]);
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			t->sec.text_end = t->text + U32_MAX;
			for (i = 0; i < ARRAY_SIZE(words); i++)
				expect_range(t, step * i, step * (i + 1) - 1, 7, 16, words[i]);
		}
	}
}

static void large_offsets_of_the_cfa_ok(struct kunit *test)
{
	static const s32 words[] = { 8, -8, 0x1008, -0x1008, 0x12345678, INT_MIN };
	struct table *t = new_table(test);
	unsigned int i;

	start_v3(t);
	add_func(t, 0, 0x100, SFRAME_BUILD_ROW1);
	for (i = 0; i < ARRAY_SIZE(words); i++)
		sframe_build_sp(&t->b, i, words[i]);
	KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
	for (i = 0; i < ARRAY_SIZE(words); i++)
		expect(t, i, 7, words[i], 0);
}

static void frame_pointer_saved_at_the_cfa_is_not_in_its_register(struct kunit *test)
{
	struct table *t = new_table(test);
	struct unwind_rule rule = { };

	start_v3(t);
	add_func(t, 0, 0x10, SFRAME_BUILD_ROW1);
	sframe_build_saved(&t->b, 0, SP, 16, 0);
	KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
	KUNIT_EXPECT_EQ(test, find(t, t->text, &rule), SFRAME_OK);
	expect_loc(test, &rule.cfa, UNWIND_REG, 7, 16);
	expect_loc(test, &rule.fp, UNWIND_CFA_DEREF, 0, 0);
	KUNIT_EXPECT_EQ(test, rule.word, 0);
}

/* Rows of all lengths */
static void rows_of_a_long_function_are_found(struct kunit *test)
{
	static const s32 words[] = { 0x08, 0x0808, 0x08080808 };
	struct table *t = new_table(test);
	unsigned int width, i, n = 400;

	while (next_layout(t)) {
		for (width = 1; width <= 2; width++) {
			restart(t);
			add_func(t, 0, 2 * n, width);
			for (i = 0; i < n; i++) {
				if (i % 2)
					sframe_build_sp(&t->b, 2 * i, words[i % 3]);
				else
					sframe_build_saved(&t->b, 2 * i, FP, words[i % 3], -16);
			}
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			for (i = 0; i < 2 * n; i++)
				expect(t, i, i / 2 % 2 ? 7 : 6, words[i / 2 % 3],
				       i / 2 % 2 ? 0 : -16);
		}
	}
}

static void first_row_after_the_address_is_none(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		add_func(t, 0, 0x10, SFRAME_BUILD_ROW1);
		sframe_build_sp(&t->b, 4, 8);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		expect_none_range(t, 0, 3);
		expect(t, 4, 7, 8, 0);
	}
}

static void last_of_rows_with_the_same_start_counts(struct kunit *test)
{
	struct table *t = new_table(test);

	start_v3(t);
	add_func(t, 0, 0x10, SFRAME_BUILD_ROW1);
	sframe_build_sp(&t->b, 0, 8);
	sframe_build_sp(&t->b, 4, 16);
	sframe_build_sp(&t->b, 4, 24);
	sframe_build_sp(&t->b, 5, 32);
	KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
	expect(t, 3, 7, 8, 0);
	expect(t, 4, 7, 24, 0);
	expect(t, 5, 7, 32, 0);
}

static void row_without_words_is_outermost(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		add_func(t, 0, 0x10, SFRAME_BUILD_ROW1);
		sframe_build_end(&t->b, 0);
		sframe_build_sp(&t->b, 4, 8);
		sframe_build_end(&t->b, 8);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		expect_outermost(t, 0, 3);
		expect(t, 4, 7, 8, 0);
		expect_outermost(t, 8, 15);
		expect_none(t, 16);
	}
}

static void function_without_rows_is_outermost_in_v3_only(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		add_func(t, 0, 0x10, SFRAME_BUILD_ROW1);
		add_func(t, 0x10, 0x10, SFRAME_BUILD_ROW1)->info2 = 1;
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		if (t->b.version == 2)
			expect_none(t, 0);
		else
			expect_outermost(t, 0, 0xf);
		expect_none_range(t, 0x10, 0x20);
	}
}

static void signal_bit_is_handed_on_in_v3(struct kunit *test)
{
	struct table *t = new_table(test);
	struct unwind_rule rule;

	while (next_layout(t)) {
		add_func(t, 0, 0x10, SFRAME_BUILD_SIGNAL);
		sframe_build_sp(&t->b, 0, 8);
		add_plain(t, 0x10, 0x10);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		expect(t, 0x10, 7, 8, 0);
		if (t->b.version == 2) {
			expect_status(t, 0, SFRAME_UNSUPPORTED);
			continue;
		}
		KUNIT_EXPECT_EQ(test, find(t, t->text, &rule), SFRAME_OK);
		KUNIT_EXPECT_TRUE(test, rule.signal);
		expect_loc(test, &rule.cfa, UNWIND_REG, 7, 8);
	}
}

static void unknown_kinds_of_functions_do_not_spoil_others(struct kunit *test)
{
	static const struct {
		u8 info;
		u8 info2;
	} table[] = {
		{ 0x20, 0 }, { 0x40, 0 }, { 0, 2 }, { 0, 0x1f }, { 0, 0x20 },
		{ 0, 0x80 }, { 0, 0x81 },
	};
	struct table *t = new_table(test);
	unsigned int i, at;

	start_v3(t);
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		at = 0x10 * i;
		add_func(t, at, 8, table[i].info)->info2 = table[i].info2;
		sframe_build_sp(&t->b, 0, 8);
		add_plain(t, at + 8, 8);
	}
	KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		at = 0x10 * i;
		expect_status(t, at, SFRAME_UNSUPPORTED);
		expect(t, at + 8, 7, 8, 0);
	}
	KUNIT_EXPECT_FALSE(test, sframe_is_bad_table(SFRAME_UNSUPPORTED));
}

static void repeated_blocks_are_looked_up_by_remainder(struct kunit *test)
{
	struct table *t = new_table(test);
	unsigned int i;

	while (next_layout(t)) {
		/* As linkers describe procedure linkage tables */
		add_func(t, 0, 0x20, SFRAME_BUILD_ROW1);
		sframe_build_sp(&t->b, 0, 16);
		sframe_build_sp(&t->b, 6, 24);
		add_func(t, 0x20, 16 * 300, SFRAME_BUILD_PCMASK)->rep_size = 16;
		sframe_build_sp(&t->b, 0, 8);
		sframe_build_sp(&t->b, 11, 16);
		/* Neither a power of two nor a whole number of blocks */
		add_func(t, 0x2000, 100, SFRAME_BUILD_PCMASK)->rep_size = 7;
		sframe_build_sp(&t->b, 0, 8);
		sframe_build_sp(&t->b, 6, 16);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);

		expect(t, 0x1f, 7, 24, 0);
		for (i = 0; i < 16 * 300; i++)
			expect(t, 0x20 + i, 7, i % 16 < 11 ? 8 : 16, 0);
		expect_none(t, 0x20 + 16 * 300);
		for (i = 0; i < 100; i++)
			expect(t, 0x2000 + i, 7, i % 7 < 6 ? 8 : 16, 0);
		expect_none(t, 0x2000 + 100);
	}
}

static void empty_functions_hide_no_neighbour(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		add_plain(t, 0, 0);
		add_framed(t, 0, 0x20);
		/* After the one it shares the start with, and another */
		add_framed(t, 0x20, 0x20);
		add_plain(t, 0x20, 0);
		add_plain(t, 0x20, 0);
		/* In the middle of nothing, and in the middle of a function */
		add_plain(t, 0x50, 0);
		add_framed(t, 0x60, 0x20);
		add_plain(t, 0x70, 0);
		add_plain(t, 0x80, 0);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);

		expect_none(t, -1);
		expect_framed(t, 0, 0x20);
		expect_framed(t, 0x20, 0x20);
		expect_none_range(t, 0x40, 0x50);
		expect_framed(t, 0x60, 0x20);
		expect(t, 0x70, 6, 16, -16);
		expect_none(t, 0x80);
	}
}

static void very_many_empty_functions_are_too_long(struct kunit *test)
{
	struct table *t = new_table(test);
	unsigned int i, n;

	for (n = SFRAME_MAX_BACK - 1; n <= SFRAME_MAX_BACK + 1; n++) {
		start_v3(t);
		add_plain(t, 0, 0x10);
		for (i = 0; i < n; i++)
			add_plain(t, 0, 0);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		expect_status(t, 0, n > SFRAME_MAX_BACK ? SFRAME_TOO_LONG : SFRAME_OK);
	}
}

static void functions_with_the_same_start_are_all_looked_at(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		add_plain(t, 0, 0x200);
		add_framed(t, 0x100, 0x40);
		add_plain(t, 0x100, 0x10);
		add_plain(t, 0x100, 0x20);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		expect_range(t, 0xff, 0x101, 7, 8, 0);
		expect(t, 0x11f, 7, 8, 0);
		expect(t, 0x120, 6, 16, -16);
		expect(t, 0x13f, 7, 8, -16);
		/* Functions are not nested: what follows is a gap. */
		expect_none(t, 0x140);
	}
}

static void table_without_functions_opens_and_has_nothing(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		KUNIT_EXPECT_EQ(test, t->len, SFRAME_BUILD_HEADER);
		expect_none_range(t, 0, TEXT_LEN - 1);
	}
}

static void each_fault_of_the_header_has_its_reason(struct kunit *test)
{
	static const struct {
		u8 at;
		u8 v2;
		u8 v3;
		enum sframe_status status;
	} table[] = {
		{ 0, 0xe3, 0xe3, SFRAME_BAD_MAGIC },
		{ 1, 0xdf, 0xdf, SFRAME_BAD_MAGIC },
		{ 2, 0, 0, SFRAME_BAD_VERSION },
		{ 2, 1, 1, SFRAME_BAD_VERSION },
		{ 2, 4, 4, SFRAME_BAD_VERSION },
		{ 2, 255, 255, SFRAME_BAD_VERSION },
		{ 3, 0x00, 0x00, SFRAME_BAD_UNSORTED },
		{ 3, 0x04, 0x04, SFRAME_BAD_UNSORTED },
		{ 3, 0x09, 0x09, SFRAME_BAD_FLAGS },
		{ 3, 0x81, 0x81, SFRAME_BAD_FLAGS },
		/* Was withdrawn */
		{ 3, 0x03, 0x01, SFRAME_OK },
		{ 3, 0x07, 0x05, SFRAME_OK },
		{ 3, 0x0b, 0x03, SFRAME_BAD_FLAGS },
		{ 4, 0, 0, SFRAME_BAD_ABI },
		{ 4, 1, 1, SFRAME_BAD_ABI },
		{ 4, 2, 2, SFRAME_BAD_ABI },
		{ 4, 4, 4, SFRAME_BAD_ABI },
		{ 6, 0, 0, SFRAME_BAD_RA },
	};
	struct table *t = new_table(test);
	unsigned int i;

	while (next_layout(t)) {
		for (i = 0; i < ARRAY_SIZE(table); i++) {
			restart(t);
			add_plain(t, 0, 0x10);
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			t->b.mem[table[i].at] =
				t->b.version == 2 ? table[i].v2 : table[i].v3;
			KUNIT_EXPECT_EQ_MSG(test, open_bytes(t, t->len), table[i].status,
					    "row %u", i);
		}
		/* Of the other endianness */
		t->b.mem[0] = 0xde;
		t->b.mem[1] = 0xe2;
		KUNIT_EXPECT_EQ(test, open_bytes(t, t->len), SFRAME_BAD_MAGIC);
	}
}

static void memory_of_the_table_is_checked(struct kunit *test)
{
	struct table *t = new_table(test);

	start_v3(t);
	add_plain(t, 0, 0x10);
	KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
	KUNIT_EXPECT_EQ(test, open_bytes(t, 0), SFRAME_BAD_BOUNDS);
	KUNIT_EXPECT_EQ(test, open_bytes(t, SFRAME_BUILD_HEADER - 1), SFRAME_BAD_BOUNDS);

	t->sec.end = t->sec.start - 1;
	KUNIT_EXPECT_EQ(test, sframe_open(&t->sec), SFRAME_BAD_BOUNDS);
	/* Nothing can be read there. */
	t->sec.start = 0;
	t->sec.end = U64_MAX;
	KUNIT_EXPECT_EQ(test, sframe_open(&t->sec), SFRAME_FAULT);
	t->sec.start = U64_MAX - 100;
	KUNIT_EXPECT_EQ(test, sframe_open(&t->sec), SFRAME_FAULT);
	/* And this is not memory of user space. */
	t->sec.start = (unsigned long)t->b.mem;
	t->sec.end = t->sec.start + t->len;
	KUNIT_EXPECT_EQ(test, sframe_open(&t->sec), SFRAME_FAULT);
}

static void index_and_rows_must_fit(struct kunit *test)
{
	static const struct {
		u8 at;
		u32 val;
		enum sframe_status status;
	} table[] = {
		/* Number of functions */
		{ 8, 2, SFRAME_OK },
		{ 8, 3, SFRAME_BAD_INDEX_RANGE },
		{ 8, 0x0ccccccd, SFRAME_BAD_INDEX_RANGE },
		{ 8, 0x10000001, SFRAME_BAD_INDEX_RANGE },
		{ 8, U32_MAX, SFRAME_BAD_INDEX_RANGE },
		/* Number of rows does not count */
		{ 12, U32_MAX, SFRAME_OK },
		/* Length of the rows */
		{ 16, 0, SFRAME_OK },
		{ 16, 41, SFRAME_BAD_ROWS_RANGE },
		{ 16, U32_MAX, SFRAME_BAD_ROWS_RANGE },
		/* Offset of the index */
		{ 20, 0x1000, SFRAME_BAD_INDEX_RANGE },
		{ 20, U32_MAX, SFRAME_BAD_INDEX_RANGE },
		{ 20, (u32)-20, SFRAME_BAD_INDEX_RANGE },
		/* Offset of the rows */
		{ 24, 0x1000, SFRAME_BAD_ROWS_RANGE },
		{ 24, U32_MAX, SFRAME_BAD_ROWS_RANGE },
		{ 24, (u32)-20, SFRAME_BAD_ROWS_RANGE },
	};
	struct table *t = new_table(test);
	unsigned int i;
	u32 rows;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		start(t, 2, false, TEXT_BEFORE);
		add_plain(t, 0, 0x10);
		add_plain(t, 0x10, 0x10);
		/* Rows as long as one index entry and a bit */
		t->b.rows_len = 18;
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		sframe_build_put(t->b.mem + table[i].at, table[i].val, 4);
		KUNIT_EXPECT_EQ_MSG(test, open_bytes(t, t->len), table[i].status, "row %u", i);
	}

	/* All of it, to the last byte */
	start(t, 2, false, TEXT_BEFORE);
	add_plain(t, 0, 0x10);
	KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
	rows = t->len - t->b.rows_len;
	KUNIT_EXPECT_EQ(test, open_bytes(t, t->len - 1), SFRAME_BAD_ROWS_RANGE);
	KUNIT_EXPECT_EQ(test, open_bytes(t, rows), SFRAME_BAD_ROWS_RANGE);
	KUNIT_EXPECT_EQ(test, open_bytes(t, rows - 1), SFRAME_BAD_INDEX_RANGE);
	KUNIT_EXPECT_EQ(test, open_bytes(t, SFRAME_BUILD_HEADER), SFRAME_BAD_INDEX_RANGE);
}

static void bytes_after_the_table_are_tolerated(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		add_framed(t, 0, 0x40);
		t->room = 0x100;
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		memset(t->b.mem + t->len, 0xff, 0x100);
		KUNIT_EXPECT_EQ(test, open_bytes(t, t->len + 0x100), SFRAME_OK);
		expect_framed(t, 0, 0x40);
		expect_none(t, 0x40);
	}
}

static void auxiliary_header_is_skipped(struct kunit *test)
{
	static const u8 lens[] = { 1, 7, 8, 255 };
	struct table *t = new_table(test);
	unsigned int i;

	while (next_layout(t)) {
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			restart(t);
			t->b.aux_len = lens[i];
			add_framed(t, 0, 0x40);
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			expect_framed(t, 0, 0x40);
		}
	}

	/* There is none of it, or not enough. */
	start_v3(t);
	KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
	t->b.mem[7] = 1;
	KUNIT_EXPECT_EQ(test, open_bytes(t, t->len), SFRAME_BAD_INDEX_RANGE);
	KUNIT_EXPECT_EQ(test, open_bytes(t, t->len + 1), SFRAME_OK);
}

static void fixed_slots_of_the_header_are_used(struct kunit *test)
{
	struct table *t = new_table(test);
	struct unwind_rule rule;

	while (next_layout(t)) {
		t->b.fp_off = -24;
		t->b.ra_off = 127;
		add_func(t, 0, 0x10, SFRAME_BUILD_ROW1);
		sframe_build_sp(&t->b, 0, 8);
		sframe_build_saved(&t->b, 1, SP, 16, -16);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		KUNIT_EXPECT_EQ(test, find(t, t->text, &rule), SFRAME_OK);
		expect_loc(test, &rule.cfa, UNWIND_REG, 7, 8);
		expect_loc(test, &rule.ra, UNWIND_CFA_DEREF, 0, 127);
		expect_loc(test, &rule.fp, UNWIND_CFA_DEREF, 0, -24);
		/* Then rows do not have it. */
		expect_status(t, 1, SFRAME_BAD_FUNC);
	}
}

static void functions_that_make_no_sense_are_bad(struct kunit *test)
{
	static const struct {
		u8	info;
		u32	rows_off;
	} table[] = {
		/* Repeated, with a size of 0 */
		{ SFRAME_BUILD_PCMASK },
		/* Widths of row starts that are not defined */
		{ 3 }, { 4 }, { 5 }, { 6 }, { 7 }, { 8 }, { 9 }, { 10 }, { 11 }, { 12 }, { 13 },
		{ 14 }, { 15 },
		/* Outside of the rows */
		{ 0, 0x100 }, { 0, 0x7fffffff }, { 0, 0x80000000 }, { 0, U32_MAX },
	};
	struct table *t = new_table(test);
	unsigned int i;

	while (next_layout(t)) {
		for (i = 0; i < ARRAY_SIZE(table); i++) {
			restart(t);
			add_plain(t, 0, 0x40);
			t->b.funcs[0].info = table[i].info;
			t->b.funcs[0].rows_off = table[i].rows_off;
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			expect_status(t, 0, SFRAME_BAD_FUNC);
			expect_status(t, 0x3f, SFRAME_BAD_FUNC);
		}
	}
}

static void rows_that_are_cut_are_bad(struct kunit *test)
{
	struct table *t = new_table(test);
	unsigned int cut;
	u32 len;

	while (next_layout(t)) {
		/* At each byte, with readable memory after it and without */
		add_func(t, 0, 0x10, SFRAME_BUILD_ROW4);
		sframe_build_saved(&t->b, 0, FP, 0x51000, 0x10000);
		len = t->b.rows_len;
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		expect(t, 0, 6, 0x51000, 0x10000);
		for (cut = 0; cut < len; cut++) {
			sframe_build_put(t->b.mem + 16, cut, 4);
			KUNIT_EXPECT_EQ(test, open_bytes(t, t->len), SFRAME_OK);
			KUNIT_EXPECT_EQ_MSG(test, status_at(t, t->text), SFRAME_BAD_FUNC,
					    "cut %u", cut);
		}
		for (cut = 0; cut < len; cut++) {
			t->b.rows_len = cut;
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			KUNIT_EXPECT_EQ_MSG(test, status_at(t, t->text), SFRAME_BAD_FUNC,
					    "end %u", cut);
		}
	}
}

static void more_rows_promised_than_there_are_is_bad(struct kunit *test)
{
	struct table *t = new_table(test);
	unsigned int n, i;

	while (next_layout(t)) {
		for (n = 2; n < 100; n++) {
			restart(t);
			add_func(t, 0, 0x100, SFRAME_BUILD_ROW1);
			for (i = 0; i < n; i++)
				sframe_build_sp(&t->b, i, 8 + i);
			t->b.funcs[0].num_rows++;
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			expect(t, n - 2, 7, 8 + n - 2, 0);
			KUNIT_EXPECT_EQ_MSG(test, status_at(t, t->text + n), SFRAME_BAD_FUNC,
					    "%u rows", n);
		}
	}
}

static void rows_that_make_no_sense_are_bad(struct kunit *test)
{
	static const u8 infos[] = {
		/* Size of words that does not exist */
		SP | WORDS(1) | 0x60,
		WORDS(0) | 0x60,
		/* More words than registers */
		SP | WORDS(3), FP | WORDS(15), SP | WORDS(6) | SFRAME_BUILD_WORD4,
		SP | WORDS(15) | SFRAME_BUILD_WORD4,
		/* Mangled return address */
		SP | WORDS(1) | 0x80,
	};
	static const s32 words[15] = { 8, -16 };
	struct table *t = new_table(test);
	unsigned int i;

	while (next_layout(t)) {
		for (i = 0; i < ARRAY_SIZE(infos); i++) {
			restart(t);
			add_func(t, 0, 0x10, SFRAME_BUILD_ROW1);
			sframe_build_sp(&t->b, 0, 8);
			sframe_build_row(&t->b, 4, infos[i], words);
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			expect(t, 3, 7, 8, 0);
			KUNIT_EXPECT_EQ_MSG(test, status_at(t, t->text + 4), SFRAME_BAD_FUNC,
					    "info %x", infos[i]);
		}

		/* Not the row wanted, but there is no way past it. */
		restart(t);
		add_func(t, 0, 0x10, SFRAME_BUILD_ROW1);
		sframe_build_row(&t->b, 0, infos[0], words);
		sframe_build_sp(&t->b, 4, 8);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		expect_status(t, 4, SFRAME_BAD_FUNC);
	}
}

static void rows_out_of_order_are_bad(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		add_func(t, 0, 0x20, SFRAME_BUILD_ROW1);
		sframe_build_sp(&t->b, 0, 8);
		sframe_build_sp(&t->b, 8, 16);
		sframe_build_sp(&t->b, 4, 24);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		expect(t, 7, 7, 8, 0);
		expect_status(t, 8, SFRAME_BAD_FUNC);
		expect_status(t, 0x1f, SFRAME_BAD_FUNC);
	}
}

static void index_out_of_order_is_bad_where_it_matters(struct kunit *test)
{
	struct table *t = new_table(test);
	enum sframe_status status;
	unsigned int i, bad = 0;

	while (next_layout(t)) {
		/* The other way round: a search goes wrong at once. */
		for (i = 0; i < 20; i++)
			add_plain(t, 0x10 * (19 - i), 0x10);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		for (i = 0; i < 20; i++) {
			status = status_at(t, t->text + 0x10 * i);
			if (status == SFRAME_BAD_ORDER)
				bad++;
			else
				KUNIT_EXPECT_EQ(test, status, SFRAME_OK);
		}
		KUNIT_EXPECT_LE(test, 10, bad);
		bad = 0;

		/* What the search does not see of it does no harm. */
		restart(t);
		add_plain(t, 0x10, 0x10);
		add_plain(t, 0, 0x10);
		add_plain(t, 0x20, 0x10);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		expect(t, 0x20, 7, 8, 0);
	}
}

/* All functions start after the address, so there is nothing but their order to see. */
static void index_of_any_length_that_is_reversed_is_bad(struct kunit *test)
{
	struct table *t = new_table(test);
	unsigned int n, i;

	while (next_layout(t)) {
		for (n = 2; n <= 20; n++) {
			restart(t);
			for (i = 0; i < n; i++)
				add_plain(t, 0x10 * (n - i), 0x10);
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			KUNIT_EXPECT_EQ_MSG(test, status_at(t, t->text), SFRAME_BAD_ORDER,
					    "%u functions", n);
		}
	}
}

static void function_that_starts_outside_the_code_is_bad(struct kunit *test)
{
	struct table *t = new_table(test);

	while (next_layout(t)) {
		add_plain(t, -0x10, 0x20);
		add_plain(t, 0x10, 0x10);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		expect_status(t, 0, SFRAME_BAD_FUNC);
		expect_none(t, -1);
		expect(t, 0x10, 7, 8, 0);
	}
}

/* Sums that pass the end of the address space must not come out as a match. */
static void starts_that_wrap_around_do_not_match(struct kunit *test)
{
	static const u64 starts[] = {
		0, 0xffff, 0x7fffffffffffffffULL, 0x8000000000000000ULL,
		0xffff800000000000ULL, 0xfffffffffffff000ULL, U64_MAX,
	};
	struct table *t = new_table(test);
	unsigned int i, pcrel;

	for (pcrel = 0; pcrel <= 1; pcrel++) {
		for (i = 0; i < ARRAY_SIZE(starts); i++) {
			start(t, 3, pcrel, TEXT_BEFORE);
			sframe_build_func(&t->b, starts[i], U32_MAX, SFRAME_BUILD_ROW1);
			sframe_build_sp(&t->b, 0, 8);
			KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
			expect_none(t, 0);
			/* Where a wrapped size would reach to */
			t->sec.text_start = 0;
			t->sec.text_end = U64_MAX;
			KUNIT_EXPECT_EQ(test, status_at(t, starts[i] - 1), SFRAME_NO_ROW);
			if (starts[i] > 0x10000)
				KUNIT_EXPECT_EQ(test, status_at(t, 0x8000), SFRAME_NO_ROW);
		}
	}
}

static void rows_beyond_the_limit_are_too_many(struct kunit *test)
{
	struct table *t = new_table(test);
	unsigned int i;

	start_v3(t);
	add_func(t, 0, TEXT_LEN, SFRAME_BUILD_ROW2);
	for (i = 0; i < SFRAME_MAX_ROWS + 10; i++)
		sframe_build_sp(&t->b, i, i & 0x78);
	KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);

	expect(t, 0, 7, 0, 0);
	/* The next row is looked at to know that this one is it. */
	expect(t, SFRAME_MAX_ROWS - 2, 7, (SFRAME_MAX_ROWS - 2) & 0x78, 0);
	expect_status(t, SFRAME_MAX_ROWS, SFRAME_TOO_LONG);
}

static void unreadable_bytes_make_no_table_bad(struct kunit *test)
{
	struct table *t = new_table(test);
	enum sframe_status status;
	u32 len;
	u64 ip;

	while (next_layout(t)) {
		add_framed(t, 0, 0x40);
		add_plain(t, 0x40, 0x10);
		add_framed(t, 0x50, 0x40);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		for (len = 0; len < t->len; len++) {
			/* The end of the table is where there is no memory. */
			t->room = len - t->len;
			status = finish(t);
			KUNIT_EXPECT_EQ(test, status,
					len < SFRAME_BUILD_HEADER ? SFRAME_FAULT : SFRAME_OK);
			if (status != SFRAME_OK)
				continue;
			for (ip = t->text; ip < t->text + 0x90; ip++) {
				status = status_at(t, ip);
				KUNIT_EXPECT_TRUE(test, status == SFRAME_OK ||
						  status == SFRAME_FAULT);
			}
		}
	}
}

/* Put a flexible row into a table, and find it. */
static enum sframe_status flex(struct table *t, u8 info, const s32 *words,
			       struct unwind_rule *rule)
{
	start_v3(t);
	add_func(t, 0, 0x10, SFRAME_BUILD_ROW1)->info2 = 1;
	sframe_build_row(&t->b, 0, info, words);
	finish(t);
	return find(t, t->text, rule);
}

static void flexible_rows_ok(struct kunit *test)
{
	static const struct {
		u8 info;
		s32 words[6];
		struct unwind_loc cfa, ra, fp;
	} table[] = {
		/* CFA = r10 + 0, as on entry of a function that aligns SP */
		{ WORDS(2), { REG(10), 0 }, IN_REG(10, 0), RA_SLOT, FP_SAME },
		/* CFA = *(rbp - 8), RA by default, FP = *rbp */
		{ WORDS(5), { REG(6) | DEREF, -8, 0, REG(6) | DEREF, 0 },
		  { -8, UNWIND_REG_DEREF, 6 }, RA_SLOT, { 0, UNWIND_REG_DEREF, 6 } },
		/* All of them, the offsets relative to the CFA */
		{ WORDS(6), { REG(7), 32, DEREF, -16, DEREF, -24 },
		  IN_REG(7, 32), SLOT(-16), SLOT(-24) },
		/* Return address and FP in registers */
		{ WORDS(6), { REG(7), 8, REG(3), 0, REG(15), 1 },
		  CFA_SP, IN_REG(3, 0), IN_REG(15, 1) },
		/* Padding for all but the CFA */
		{ WORDS(4), { REG(0), -128, 0, 0 }, IN_REG(0, -128), RA_SLOT, FP_SAME },
		{ WORDS(3), { REG(0), 127, 0 }, IN_REG(0, 127), RA_SLOT, FP_SAME },
		/* RA, but no FP */
		{ WORDS(4), { REG(1), 0, DEREF, -40 }, IN_REG(1, 0), SLOT(-40), FP_SAME },
		/* FP = CFA - 16: not in memory. Control has unused register. */
		{ WORDS(5), { REG(7), 16, 0, 0x8, -16 },
		  IN_REG(7, 16), RA_SLOT, { -16, UNWIND_CFA } },
		/* Wider words: controls are unsigned, offsets signed. */
		{ WORDS(6) | SFRAME_BUILD_WORD2, { REG(12), -32768, DEREF, 32767, DEREF, -129 },
		  IN_REG(12, -32768), SLOT(32767), SLOT(-129) },
		{ WORDS(6) | SFRAME_BUILD_WORD4,
		  { REG(12), INT_MIN, DEREF, INT_MAX, DEREF, -32769 },
		  IN_REG(12, INT_MIN), SLOT(INT_MAX), SLOT(-32769) },
	};
	struct table *t = new_table(test);
	struct unwind_rule rule;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		KUNIT_EXPECT_EQ_MSG(test, flex(t, table[i].info, table[i].words, &rule),
				    SFRAME_OK, "row %u", i);
		expect_same_loc(test, &rule.cfa, &table[i].cfa);
		expect_same_loc(test, &rule.ra, &table[i].ra);
		expect_same_loc(test, &rule.fp, &table[i].fp);
		KUNIT_EXPECT_FALSE(test, rule.outermost);
	}

	KUNIT_EXPECT_EQ(test, flex(t, 0, NULL, &rule), SFRAME_OK);
	KUNIT_EXPECT_TRUE(test, rule.outermost);
}

static void flexible_rows_that_make_no_sense_are_bad(struct kunit *test)
{
	static const struct {
		u8 info;
		s32 words[15];
		enum sframe_status status;
	} table[] = {
		/* No rule for the CFA, or one that needs it */
		{ WORDS(1), { 0 }, SFRAME_BAD_FUNC },
		{ WORDS(3), { 0, 2, -16 }, SFRAME_BAD_FUNC },
		{ WORDS(2), { 2, 8 }, SFRAME_BAD_FUNC },
		{ WORDS(2), { 8, 8 }, SFRAME_BAD_FUNC },
		/* A control without offset */
		{ WORDS(1), { REG(7) }, SFRAME_BAD_FUNC },
		{ WORDS(3), { REG(7), 8, 2 }, SFRAME_BAD_FUNC },
		{ WORDS(5), { REG(7), 8, 2, -8, 2 }, SFRAME_BAD_FUNC },
		/* The bit that is not used */
		{ WORDS(2), { REG(7) | 4, 8 }, SFRAME_BAD_FUNC },
		{ WORDS(4), { REG(7), 8, 6, -8 }, SFRAME_BAD_FUNC },
		/* Words after the last rule */
		{ WORDS(6), { REG(7), 8, 0, 0, 0, 0 }, SFRAME_BAD_FUNC },
		{ WORDS(6), { REG(7), 8, 0, 2, -16, 0 }, SFRAME_BAD_FUNC },
		{ WORDS(7), { REG(7), 8, 2, -8, 2, -16, 0 }, SFRAME_BAD_FUNC },
		{ WORDS(15) | SFRAME_BUILD_WORD4,
		  { REG(7), 8, 2, -8, 2, -16 }, SFRAME_BAD_FUNC },
		/* Registers that are no general purpose ones */
		{ WORDS(2), { REG(16), 8 }, SFRAME_UNSUPPORTED },
		{ WORDS(2), { 0xf9, 8 }, SFRAME_UNSUPPORTED },
		{ WORDS(2) | SFRAME_BUILD_WORD2, { 0xfff9, 8 }, SFRAME_UNSUPPORTED },
		{ WORDS(2) | SFRAME_BUILD_WORD4, { (s32)0xfffffff9, 8 }, SFRAME_UNSUPPORTED },
		{ WORDS(4), { REG(7), 8, REG(17), 0 }, SFRAME_UNSUPPORTED },
	};
	struct table *t = new_table(test);
	struct unwind_rule rule;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		KUNIT_EXPECT_EQ_MSG(test, flex(t, table[i].info, table[i].words, &rule),
				    table[i].status, "row %u", i);
}

/* Whatever one byte is changed to, answers are among those that there are. */
static void any_byte_changed_gives_a_sane_answer(struct kunit *test)
{
	static const u8 values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	struct table *t = new_table(test);
	enum sframe_status status;
	struct unwind_rule rule;
	unsigned int i;
	u32 at;
	u64 ip;
	u8 old;

	while (next_layout(t)) {
		add_framed(t, 0, 0x10);
		add_func(t, 0x10, 0x20, SFRAME_BUILD_PCMASK)->rep_size = 16;
		sframe_build_sp(&t->b, 0, 8);
		add_framed(t, 0x30, 0x10);
		KUNIT_EXPECT_EQ(test, finish(t), SFRAME_OK);
		for (at = 0; at < t->len; at++) {
			old = t->b.mem[at];
			for (i = 0; i < ARRAY_SIZE(values); i++) {
				t->b.mem[at] = values[i];
				if (open_bytes(t, t->len) != SFRAME_OK)
					continue;
				for (ip = t->text; ip < t->text + 0x48; ip++) {
					status = find(t, ip, &rule);
					KUNIT_EXPECT_LT(test, status,
							SFRAME_NR_STATUS);
					KUNIT_EXPECT_NE(test, status,
							SFRAME_FAULT);
					if (status == SFRAME_OK &&
					    !rule.outermost)
						KUNIT_EXPECT_LT(test, rule.cfa.reg,
								UNWIND_NR_REGS);
				}
			}
			t->b.mem[at] = old;
		}
	}
}

static void ordinary_rules_fit_a_word(struct kunit *test)
{
	static const struct {
		u8 reg;
		s32 cfa;
		s32 fp;
	} table[] = {
		{ 7, 8, 0 }, { 7, 1, 0 }, { 7, INT_MAX, -16 }, { 7, 24, -2048 },
		{ 6, 16, -16 }, { 6, 32, -17 }, { 6, INT_MAX, 0 },
	};
	struct unwind_rule rule;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		const struct unwind_rule long_form = {
			.cfa = { table[i].cfa, UNWIND_REG, table[i].reg },
			.ra = RA_SLOT,
			.fp = { table[i].fp, table[i].fp ? UNWIND_CFA_DEREF :
							   UNWIND_SAME },
		};

		rule = long_form;
		unwind_rule_pack(&rule);
		KUNIT_EXPECT_TRUE(test, rule.word & UNWIND_WORD_TABLE);

		/* Nothing but the word counts. */
		rule = (struct unwind_rule) { .word = rule.word };
		unwind_rule_unpack(&rule);
		rule.word = 0;
		KUNIT_EXPECT_MEMEQ(test, &rule, &long_form, sizeof(rule));
	}

	rule = (struct unwind_rule) { .outermost = true };
	unwind_rule_pack(&rule);
	KUNIT_EXPECT_EQ(test, rule.word, UNWIND_WORD_TABLE | UNWIND_WORD_OUTERMOST);
}

static void other_rules_do_not_fit_a_word(struct kunit *test)
{
	static const struct unwind_rule rules[] = {
		{ IN_REG(10, 8), RA_SLOT, FP_SAME },
		{ { 8, UNWIND_REG_DEREF, 7 }, RA_SLOT, FP_SAME },
		{ CFA_SP, SLOT(-16), FP_SAME },
		{ CFA_SP, { -8, UNWIND_REG_DEREF, 7 }, FP_SAME },
		{ CFA_SP, RA_SLOT, SLOT(-2049) },
		{ CFA_SP, RA_SLOT, SLOT(-15) },
		{ CFA_SP, RA_SLOT, SLOT(16) },
		{ CFA_SP, RA_SLOT, SLOT(INT_MIN) },
		{ CFA_SP, RA_SLOT, SLOT(0) },
		{ CFA_SP, RA_SLOT, { -16, UNWIND_REG_DEREF, 6 } },
		{ CFA_SP, RA_SLOT, FP_SAME, .signal = true },
		/* The SP would not move up. */
		{ IN_REG(7, 0), RA_SLOT, FP_SAME },
		{ IN_REG(6, -8), RA_SLOT, FP_SAME },
		{ IN_REG(7, INT_MIN), RA_SLOT, FP_SAME },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		struct unwind_rule rule = rules[i];

		rule.word = 1;
		unwind_rule_pack(&rule);
		KUNIT_EXPECT_EQ(test, rule.word, 0);
	}
}

static void every_status_has_a_text_of_its_own(struct kunit *test)
{
	unsigned int i, j;

	for (i = 0; i < SFRAME_NR_STATUS; i++) {
		KUNIT_EXPECT_TRUE(test, sframe_status_text[i]);
		KUNIT_EXPECT_EQ(test, sframe_is_bad_table(i),
				i >= SFRAME_BAD_BOUNDS && i <= SFRAME_BAD_ORDER);
		for (j = 0; j < i; j++)
			KUNIT_EXPECT_STRNEQ(test, sframe_status_text[i],
					    sframe_status_text[j]);
	}
}

static struct kunit_case unwind_sframe_cases[] = {
	KUNIT_CASE(each_row_at_its_first_and_last_pc_ok),
	KUNIT_CASE(address_outside_the_code_is_not_looked_up),
	KUNIT_CASE(function_of_any_number_is_found),
	KUNIT_CASE(text_beyond_four_gigabytes_is_found_in_v3),
	KUNIT_CASE(every_width_of_starts_and_words_ok),
	KUNIT_CASE(large_offsets_of_the_cfa_ok),
	KUNIT_CASE(frame_pointer_saved_at_the_cfa_is_not_in_its_register),
	KUNIT_CASE(rows_of_a_long_function_are_found),
	KUNIT_CASE(first_row_after_the_address_is_none),
	KUNIT_CASE(last_of_rows_with_the_same_start_counts),
	KUNIT_CASE(row_without_words_is_outermost),
	KUNIT_CASE(function_without_rows_is_outermost_in_v3_only),
	KUNIT_CASE(signal_bit_is_handed_on_in_v3),
	KUNIT_CASE(unknown_kinds_of_functions_do_not_spoil_others),
	KUNIT_CASE(repeated_blocks_are_looked_up_by_remainder),
	KUNIT_CASE(empty_functions_hide_no_neighbour),
	KUNIT_CASE(very_many_empty_functions_are_too_long),
	KUNIT_CASE(functions_with_the_same_start_are_all_looked_at),
	KUNIT_CASE(table_without_functions_opens_and_has_nothing),
	KUNIT_CASE(each_fault_of_the_header_has_its_reason),
	KUNIT_CASE(memory_of_the_table_is_checked),
	KUNIT_CASE(index_and_rows_must_fit),
	KUNIT_CASE(bytes_after_the_table_are_tolerated),
	KUNIT_CASE(auxiliary_header_is_skipped),
	KUNIT_CASE(fixed_slots_of_the_header_are_used),
	KUNIT_CASE(functions_that_make_no_sense_are_bad),
	KUNIT_CASE(rows_that_are_cut_are_bad),
	KUNIT_CASE(more_rows_promised_than_there_are_is_bad),
	KUNIT_CASE(rows_that_make_no_sense_are_bad),
	KUNIT_CASE(rows_out_of_order_are_bad),
	KUNIT_CASE(index_out_of_order_is_bad_where_it_matters),
	KUNIT_CASE(index_of_any_length_that_is_reversed_is_bad),
	KUNIT_CASE(function_that_starts_outside_the_code_is_bad),
	KUNIT_CASE(starts_that_wrap_around_do_not_match),
	KUNIT_CASE(rows_beyond_the_limit_are_too_many),
	KUNIT_CASE(unreadable_bytes_make_no_table_bad),
	KUNIT_CASE(flexible_rows_ok),
	KUNIT_CASE(flexible_rows_that_make_no_sense_are_bad),
	KUNIT_CASE(any_byte_changed_gives_a_sane_answer),
	KUNIT_CASE(ordinary_rules_fit_a_word),
	KUNIT_CASE(other_rules_do_not_fit_a_word),
	KUNIT_CASE(every_status_has_a_text_of_its_own),
	{}
};

static struct kunit_suite unwind_sframe_suite = {
	.name = "unwind_sframe",
	.test_cases = unwind_sframe_cases,
};

kunit_test_suite(unwind_sframe_suite);

MODULE_DESCRIPTION("KUnit tests for the decoder of SFrame tables");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_LICENSE("GPL");
