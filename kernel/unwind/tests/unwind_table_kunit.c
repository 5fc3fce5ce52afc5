// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for tables of rules for files: each way in which a table is refused,
 * lookups at all edges, and what is made of each kind of rule.
 *
 * Also builds in user space, under sanitizers.
 */

#include <kunit/test.h>
#include <linux/elf.h>
#include <linux/err.h>
#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/string.h>

#include "../table.h"

#define PAGE		((u64)UNWIND_TABLE_PAGE_SIZE)
#define LAST_PAGE	((u64)S64_MAX / PAGE)
#define MAX_PAGES	128
/* Every other byte of 32 pages */
#define MAX_ROWS	(32 * 2048)
#define ROOM								\
	(sizeof(struct unwind_table_header) +				\
	 (UNWIND_TABLE_MAX_RUNS + 1) * sizeof(struct unwind_table_run) +	\
	 (16 * MAX_PAGES + 1) * sizeof(u32) +				\
	 MAX_ROWS * sizeof(struct unwind_table_row) +			\
	 (UNWIND_TABLE_MAX_RULES + 1) * sizeof(struct unwind_table_rule) + 8)

/**
 * struct parts - What a table is made of
 * @test:	Whose parts they are
 * @header:	Numbers are set by those who add something
 * @runs:	Runs
 * @blocks:	One more than there are
 * @rows:	Rows
 * @rules:	Rules
 * @data:	All of it, once it was put together
 * @len:	Bytes of it
 * @table:	What was made of it, or NULL
 * @why:	Why it was refused, or NULL
 */
struct parts {
	struct kunit			*test;
	struct unwind_table_header	header;
	struct unwind_table_run		runs[UNWIND_TABLE_MAX_RUNS + 1];
	u32				blocks[16 * MAX_PAGES + 1];
	struct unwind_table_row		rows[MAX_ROWS];
	struct unwind_table_rule	rules[UNWIND_TABLE_MAX_RULES + 1];
	u64				data[ROOM / sizeof(u64)];
	size_t				len;
	struct unwind_table		*table;
	const char			*why;
};

/* ------------------------------------------------------------------------ */
/* Making tables							      */

static void start(struct parts *p)
{
	kvfree(p->table);
	p->table = NULL;
	p->blocks[0] = 0;
	p->header = (struct unwind_table_header) {
		.magic = UNWIND_TABLE_MAGIC,
		.version = UNWIND_TABLE_VERSION,
		.machine = EM_X86_64,
		.word_size = sizeof(u64),
		.block_shift = UNWIND_TABLE_PAGE_SHIFT,
	};
}

static void add_run(struct parts *p, u64 page)
{
	p->runs[p->header.nr_runs++] = (struct unwind_table_run) {
		.page = page,
		.first_block = p->header.nr_pages,
	};
}

/* The next page of the last run, without rows at first */
static void add_page(struct parts *p)
{
	p->runs[p->header.nr_runs - 1].nr_pages++;
	p->header.nr_pages++;
	p->blocks[p->header.nr_pages] = p->header.nr_rows - 1;
}

/* The first page of a table that has one run only */
static void start_page(struct parts *p, u64 page)
{
	start(p);
	add_run(p, page);
	add_page(p);
}

static void add_row(struct parts *p, u16 offset, u16 rule)
{
	p->rows[p->header.nr_rows] = (struct unwind_table_row) { offset, rule };
	p->blocks[p->header.nr_pages] = p->header.nr_rows++;
}

/* When all rows are there: blocks that are smaller than a page */
static void set_blocks(struct parts *p, unsigned int shift)
{
	unsigned int nr = 1U << (UNWIND_TABLE_PAGE_SHIFT - shift), page, block, run;
	u32 *to = p->blocks + 1, row = 0;

	for (page = 0; page < p->header.nr_pages; page++) {
		row++;
		for (block = 1; block <= nr; block++) {
			while (row < p->header.nr_rows && p->rows[row].offset &&
			       p->rows[row].offset < block << shift)
				row++;
			*to++ = row - 1;
		}
	}
	for (run = 0; run < p->header.nr_runs; run++)
		p->runs[run].first_block *= nr;
	p->header.block_shift = shift;
}

static void add_rule(struct parts *p, const struct unwind_table_rule *rule)
{
	p->rules[p->header.nr_rules++] = *rule;
}

#define LOC(_where, _reg, _off)	\
	{ .where = UNWIND_TABLE_##_where, .reg = (_reg), .off = (_off) }

#define SP	UNWIND_REG_SP
#define FP	UNWIND_REG_FP

/* CFA = SP + @off, all else as it mostly is */
static struct unwind_table_rule sp_rule(s32 off)
{
	return (struct unwind_table_rule) {
		.kind = UNWIND_TABLE_CALLER,
		.cfa = LOC(REG, SP, off),
		.ra = LOC(CFA_DEREF, 0, -8),
		.fp = LOC(SAME, 0, 0),
	};
}

static void add_not_covered(struct parts *p)
{
	add_rule(p, &(struct unwind_table_rule) { .kind = UNWIND_TABLE_NOT_COVERED });
}

/* The rules of a table can be told apart by the offset of their CFA. */
static void add_sp_rules(struct parts *p, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		struct unwind_table_rule rule = sp_rule(8 + 8 * i);

		add_rule(p, &rule);
	}
}

static void put(struct parts *p, const void *from, size_t len)
{
	memcpy((char *)p->data + p->len, from, len);
	p->len += len;
}

/* Put the parts together, whatever they say. */
static void join(struct parts *p)
{
	const struct unwind_table_header *header = &p->header;

	p->len = 0;
	put(p, header, sizeof(*header));
	put(p, p->runs, header->nr_runs * sizeof(p->runs[0]));
	put(p, p->blocks, ((header->nr_pages << (12 - header->block_shift)) + 1) *
			  sizeof(p->blocks[0]));
	put(p, p->rows, header->nr_rows * sizeof(p->rows[0]));
	put(p, p->rules, header->nr_rules * sizeof(p->rules[0]));
}

/* Hand in what was put together. Returns 0 or the error. */
static long make_joined(struct parts *p)
{
	struct unwind_table *table;

	p->why = NULL;
	table = unwind_table_make(p->data, p->len, &p->why);
	if (IS_ERR(table))
		return PTR_ERR(table);
	p->table = table;
	return 0;
}

static long make(struct parts *p)
{
	kvfree(p->table);
	p->table = NULL;
	join(p);
	return make_joined(p);
}

/* @why is NULL if it has to be taken. */
static void check_made(struct parts *p, long ret, const char *why)
{
	KUNIT_EXPECT_EQ_MSG(p->test, ret, why ? -EINVAL : 0, "%s",
			    why ?: p->why ?: "");
	KUNIT_EXPECT_STREQ(p->test, p->why ?: "nothing", why ?: "nothing");
}

static void expect_refused(struct parts *p, const char *why)
{
	check_made(p, make(p), why);
}

static void expect_taken(struct parts *p)
{
	check_made(p, make(p), NULL);
}

/* Two runs, of pages 2 and 3, and of page 5. Page 3 is not covered. */
static void start_plain(struct parts *p)
{
	start_page(p, 2);
	add_row(p, 0, 0);
	add_row(p, 16, 1);
	add_row(p, PAGE - 1, 2);
	add_page(p);
	add_row(p, 0, 4);
	add_run(p, 5);
	add_page(p);
	add_row(p, 0, 3);
	add_sp_rules(p, 4);
	add_not_covered(p);
}

/* ------------------------------------------------------------------------ */
/* Looking up								      */

#define NOT_COVERED	(-1)
/* No row says where it would be */
#define NO_WORD		(-2)

/* Offset of the CFA in an ordinary rule by the SP for @offset, or one of these */
static s64 find(struct parts *p, u64 offset)
{
	struct unwind_rule rule;
	enum unwind_user_status status;

	memset(&rule, 0x5a, sizeof(rule));
	status = unwind_table_find(p->table, offset, &rule);
	if (status == UNWIND_USER_NO_RULE)
		return NOT_COVERED;
	if (status != UNWIND_USER_FOUND || !rule.word)
		return NO_WORD;
	return unwind_word_cfa_off(rule.word);
}

/* What find() says of the first and of the last of these bytes */
static void expect_found(struct parts *p, unsigned long long first,
			 unsigned long long last, s64 want)
{
	KUNIT_EXPECT_EQ_MSG(p->test, find(p, first), want, "%#llx", first);
	KUNIT_EXPECT_EQ_MSG(p->test, find(p, last), want, "%#llx", last);
}

/* The only rule of a table, which is made of @from */
static enum unwind_user_status find_one(struct parts *p,
					const struct unwind_table_rule *from,
					struct unwind_rule *rule)
{
	memset(rule, 0x5a, sizeof(*rule));
	start_page(p, 0);
	add_row(p, 0, 0);
	add_rule(p, from);
	expect_taken(p);
	if (!p->table)
		return UNWIND_USER_CORRUPT;
	return unwind_table_find(p->table, 0, rule);
}

/* ------------------------------------------------------------------------ */
/* Refused								      */

static void plain_table_is_taken(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	expect_taken(p);
	KUNIT_EXPECT_EQ(test, p->table->nr_runs, 2);
	KUNIT_EXPECT_EQ(test, p->table->nr_rows, 5);
	KUNIT_EXPECT_LE(test, p->table->size, sizeof(*p->table) + p->len);
}

/* Nothing of what was handed in is needed once the table is made. */
static void table_is_a_copy(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	expect_taken(p);
	memset(p->data, 0xff, p->len);
	KUNIT_EXPECT_EQ(test, find(p, 2 * PAGE + 16), 16);
	KUNIT_EXPECT_EQ(test, find(p, 5 * PAGE + 16), 32);
}

static void any_shorter_or_longer_length_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;
	size_t len, whole;

	start_plain(p);
	join(p);
	whole = p->len;
	for (len = 0; len <= whole + 8; len++) {
		if (len == whole)
			continue;
		p->len = len;
		check_made(p, make_joined(p), len < sizeof(p->header) ?
			   "shorter than its header" : "length");
	}
}

/* A change of one field of a plain table, and why the table is refused then; NULL: it is not. */
struct change {
	size_t		at;
	size_t		len;
	u64		value;
	const char	*why;
};

#define SET(_field, _value, _why) {					\
	.at = offsetof(struct parts, _field),				\
	.len = sizeof_field(struct parts, _field),			\
	.value = (_value),						\
	.why = (_why),							\
}

/* In the header only: there are as many of them as before. */
#define SET_NUMBER(_field, _value, _why) {				\
	.at = offsetof(struct parts, data) +				\
	      offsetof(struct unwind_table_header, _field),		\
	.len = sizeof_field(struct unwind_table_header, _field),	\
	.value = (_value),						\
	.why = (_why),							\
}

static void make_change(struct parts *p, const struct change *change)
{
	memcpy((char *)p + change->at, &change->value, change->len);
}

static void each_field_that_makes_no_sense_is_refused(struct kunit *test)
{
	static const struct change changes[] = {
		SET(header.magic, 0x55575442, "not a table"),
		SET(header.version, 0, "version"),
		SET(header.version, 2, "version"),
		SET(header.machine, EM_386, "for another machine"),
		SET(header.word_size, 4, "for another machine"),
		SET(header.flags, 1, "flags of the header"),
		SET(header.flags, 1U << 31, "flags of the header"),
		SET(header.reserved[0], 1, "reserved fields of the header"),
		SET(header.reserved[0], 1U << 31, "reserved fields of the header"),
		SET(header.reserved[1], 1, "reserved fields of the header"),
		SET(header.reserved[1], 1U << 31, "reserved fields of the header"),
		SET(header.reserved[2], 1, "reserved fields of the header"),
		SET(header.reserved[2], 1U << 31, "reserved fields of the header"),
		SET(header.reserved[2], 0, NULL),

		SET_NUMBER(nr_runs, 0, "number of runs"),
		SET_NUMBER(nr_runs, U32_MAX, "number of runs"),
		SET_NUMBER(nr_pages, 0, "number of pages"),
		/* Within the limit, but more than there is */
		SET_NUMBER(nr_pages, UNWIND_TABLE_MAX_PAGES, "length"),
		SET_NUMBER(nr_rows, UNWIND_TABLE_MAX_ROWS, "length"),
		SET_NUMBER(nr_rules, UNWIND_TABLE_MAX_RULES, "length"),
		/* Those that are much too large would let a sum of lengths overflow. */
		SET_NUMBER(nr_pages, UNWIND_TABLE_MAX_PAGES + 1, "number of pages"),
		SET_NUMBER(nr_pages, U32_MAX, "number of pages"),
		SET_NUMBER(nr_rows, UNWIND_TABLE_MAX_ROWS + 1, "number of rows"),
		SET_NUMBER(nr_rows, U32_MAX, "number of rows"),
		SET_NUMBER(nr_rules, UNWIND_TABLE_MAX_RULES + 1, "number of rules"),
		SET_NUMBER(nr_rules, U32_MAX, "number of rules"),
		SET_NUMBER(block_shift, 0, "size of a block"),
		SET_NUMBER(block_shift, 7, "size of a block"),
		SET_NUMBER(block_shift, 13, "size of a block"),
		SET_NUMBER(block_shift, 32, "size of a block"),
		SET_NUMBER(block_shift, U32_MAX, "size of a block"),

		SET(runs[0].nr_pages, 0, "empty run"),
		SET(runs[1].nr_pages, 2, "number of pages of the runs"),
		SET(runs[1].nr_pages, U32_MAX, "number of pages of the runs"),
		SET(runs[0].first_block, 1, "first block of a run"),
		SET(runs[1].first_block, 0, "first block of a run"),
		SET(runs[1].first_block, 1, "first block of a run"),
		SET(runs[1].first_block, 2, NULL),
		SET(runs[1].first_block, 3, "first block of a run"),
		SET(runs[1].first_block, U32_MAX, "first block of a run"),
		/* The first run ends at page 4. */
		SET(runs[1].page, 0, "runs that are not sorted, overlap or touch"),
		SET(runs[1].page, 1, "runs that are not sorted, overlap or touch"),
		SET(runs[1].page, 2, "runs that are not sorted, overlap or touch"),
		SET(runs[1].page, 3, "runs that are not sorted, overlap or touch"),
		SET(runs[1].page, 4, "runs that are not sorted, overlap or touch"),
		SET(runs[1].page, 5, NULL),
		SET(runs[1].page, LAST_PAGE + 1, "run out of range"),
		SET(runs[1].page, U64_MAX, "run out of range"),

		SET(blocks[0], 1, "row before the first block"),
		SET(header.nr_rows, 4, "block with rows that do not exist"),
		SET(header.nr_rows, 6, "rows outside of the blocks"),
		SET(rows[0].offset, 1, "page that does not start with a row"),
		SET(rows[3].offset, 1, "page that does not start with a row"),
		SET(rows[1].offset, 0, "row out of its block or not sorted"),
		SET(rows[2].offset, 0, "row out of its block or not sorted"),
		SET(rows[2].offset, 15, "row out of its block or not sorted"),
		SET(rows[2].offset, 16, "row out of its block or not sorted"),
		SET(rows[2].offset, 17, NULL),
		SET(rows[2].offset, PAGE, "row out of its block or not sorted"),
		SET(rows[2].offset, U16_MAX, "row out of its block or not sorted"),
		SET(rows[4].rule, 5, "row without rule"),
		SET(rows[4].rule, U16_MAX, "row without rule"),
	};
	struct parts *p = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(changes); i++) {
		start_plain(p);
		make_change(p, &changes[i]);
		join(p);
		/* Once more, for what is only there now */
		make_change(p, &changes[i]);
		check_made(p, make_joined(p), changes[i].why);
	}
}

static void number_of_runs_is_limited(struct kunit *test)
{
	struct parts *p = test->priv;
	unsigned int i;

	start(p);
	for (i = 0; i < UNWIND_TABLE_MAX_RUNS; i++) {
		add_run(p, 2 * i);
		add_page(p);
		add_row(p, 0, 0);
	}
	add_sp_rules(p, 1);
	expect_taken(p);
	add_run(p, 2 * i);
	add_page(p);
	add_row(p, 0, 0);
	expect_refused(p, "number of runs");
}

static void page_without_row_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;

	start_page(p, 0);
	expect_refused(p, "block with rows that do not exist");
	p->blocks[1] = 0;
	expect_refused(p, "block with rows that do not exist");
	/* The next page has one. */
	p->blocks[1] = U32_MAX;
	add_page(p);
	add_row(p, 0, 0);
	add_sp_rules(p, 1);
	expect_refused(p, "block with rows that do not exist");
	/* It is the one after the last row of the page before. */
	start_page(p, 0);
	add_row(p, 0, 0);
	add_page(p);
	add_sp_rules(p, 1);
	expect_refused(p, "page that does not start with a row");
	add_page(p);
	add_row(p, 0, 0);
	expect_refused(p, "page that does not start with a row");
}

static void run_up_to_the_largest_file_is_taken(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->runs[1].page = LAST_PAGE;
	expect_taken(p);
	KUNIT_EXPECT_EQ(test, find(p, S64_MAX), 32);
}

static void runs_have_as_many_pages_as_there_are(struct kunit *test)
{
	struct parts *p = test->priv;

	/* The sum of both is right, in 32 bits. */
	start_plain(p);
	p->runs[0].nr_pages = 4;
	p->runs[1].nr_pages = U32_MAX;
	p->runs[1].page = 7;
	p->runs[1].first_block = 4;
	expect_refused(p, "number of pages of the runs");
	p->runs[0].nr_pages = 1;
	p->runs[1].nr_pages = 1;
	p->runs[1].first_block = 1;
	expect_refused(p, "number of pages of the runs");
}

static void table_without_rules_has_no_rows(struct kunit *test)
{
	struct parts *p = test->priv;

	start_page(p, 0);
	add_row(p, 0, 0);
	expect_refused(p, "row without rule");
}

/* Of each block of each size, the index that it has and others */
static void blocks_are_checked(struct kunit *test)
{
	struct parts *p = test->priv;
	unsigned int shift, block;
	u32 right, other;

	for (shift = UNWIND_TABLE_MIN_BLOCK_SHIFT; shift <= UNWIND_TABLE_PAGE_SHIFT; shift++) {
		start_plain(p);
		set_blocks(p, shift);
		for (block = 0; block <= 3U << (UNWIND_TABLE_PAGE_SHIFT - shift); block++) {
			right = p->blocks[block];
			for (other = U32_MAX; other != p->header.nr_rows + 2; other++) {
				p->blocks[block] = other;
				KUNIT_EXPECT_EQ_MSG(test, make(p), other == right ? 0 : -EINVAL,
						    "shift %u, block %u, %u", shift, block, other);
			}
			p->blocks[block] = right;
		}
	}

	start_plain(p);
	set_blocks(p, 11);
	p->blocks[2] = 0;
	expect_refused(p, "blocks that are not sorted");
	p->blocks[2] = 2;
	p->blocks[1] = 2;
	expect_refused(p, "row out of its block or not sorted");
	p->blocks[1] = 0;
	expect_refused(p, "row out of its block or not sorted");
}

/* The places of values in most rules */
#define CFA_SP	LOC(REG, SP, 8)
#define RA_SLOT	LOC(CFA_DEREF, 0, -8)
#define FP_SAME	LOC(SAME, 0, 0)
#define BAD(_where, _reg, _off)	\
	{ .where = UNWIND_TABLE_##_where, .reg = (_reg), .off = (_off), \
	  .reserved = 1 }

#define CALLER(_cfa, _ra, _fp, ...)	\
	{ .kind = UNWIND_TABLE_CALLER, .cfa = _cfa, .ra = _ra, .fp = _fp, \
	  ##__VA_ARGS__ }

/* No row needs to have the rule. */
static void check_rule(struct parts *p, const struct unwind_table_rule *rule, const char *why)
{
	start_plain(p);
	add_rule(p, rule);
	check_made(p, make(p), why);
}

static void fields_that_make_no_sense_are_refused(struct kunit *test)
{
	static const struct {
		struct unwind_table_rule	rule;
		const char			*why;
	} bad[] = {
		{ CALLER(CFA_SP, RA_SLOT, FP_SAME, .reserved = 1), "reserved field of a rule" },
		{ { .reserved = 1 }, "reserved field of a rule" },
		{ { .kind = UNWIND_TABLE_CALLER + 1 }, "kind of a rule" },
		{ { .kind = 0xff }, "kind of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, FP_SAME, .flags = 0x08), "flags of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, FP_SAME, .flags = 0x80), "flags of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, FP_SAME, .cfa_add = 8), "second offset of a CFA" },
		{ CALLER(BAD(REG, SP, 8), RA_SLOT, FP_SAME), "CFA of a rule" },
		{ CALLER(CFA_SP, BAD(CFA_DEREF, 0, -8), FP_SAME), "return address of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, BAD(SAME, 0, 0)), "frame pointer of a rule" },
		{ CALLER(LOC(REG, 16, 8), RA_SLOT, FP_SAME), "CFA of a rule" },
		{ CALLER(LOC(REG_DEREF, 255, 8), RA_SLOT, FP_SAME), "CFA of a rule" },
		{ CALLER(CFA_SP, LOC(REG, 16, 0), FP_SAME), "return address of a rule" },
		{ CALLER(CFA_SP, LOC(REG_DEREF, 16, 0), FP_SAME), "return address of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, LOC(REG, 16, 0)), "frame pointer of a rule" },
		/* Registers and offsets that are of no use */
		{ CALLER(CFA_SP, LOC(CFA_DEREF, 1, -8), FP_SAME), "return address of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, LOC(CFA_DEREF, 1, -16)), "frame pointer of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, LOC(CFA, 1, -16)), "frame pointer of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, LOC(SAME, 0, 8)), "frame pointer of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, LOC(SAME, 6, 0)), "frame pointer of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, LOC(NONE, 0, 8)), "frame pointer of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, LOC(NONE, 6, 0)), "frame pointer of a rule" },
		{ CALLER(CFA_SP, RA_SLOT, BAD(NONE, 0, 0)), "frame pointer of a rule" },
	};

	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		check_rule(test->priv, &bad[i].rule, bad[i].why);
}

/* All places for all values: those that there are, and those that are refused. */
static void each_value_has_its_own_places(struct kunit *test)
{
	/* The places have bits, by enum unwind_table_where. */
	static const struct {
		size_t		value;
		unsigned long	places;
		const char	*why;
	} values[] = {
		{ offsetof(struct unwind_table_rule, cfa),
		  BIT(UNWIND_TABLE_REG) | BIT(UNWIND_TABLE_REG_DEREF),
		  "CFA of a rule" },
		{ offsetof(struct unwind_table_rule, ra),
		  BIT(UNWIND_TABLE_REG) | BIT(UNWIND_TABLE_REG_DEREF) |
		  BIT(UNWIND_TABLE_CFA_DEREF), "return address of a rule" },
		{ offsetof(struct unwind_table_rule, fp),
		  BIT(UNWIND_TABLE_NONE) | BIT(UNWIND_TABLE_SAME) |
		  BIT(UNWIND_TABLE_REG) | BIT(UNWIND_TABLE_REG_DEREF) |
		  BIT(UNWIND_TABLE_CFA) | BIT(UNWIND_TABLE_CFA_DEREF),
		  "frame pointer of a rule" },
	};
	unsigned int i, where;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		for (where = 0; where <= UNWIND_TABLE_CFA_DEREF + 1; where++) {
			struct unwind_table_rule rule = sp_rule(8);
			struct unwind_table_loc loc = { .where = where };

			memcpy((char *)&rule + values[i].value, &loc, sizeof(loc));
			check_rule(test->priv, &rule,
				   values[i].places & BIT(where) ? NULL : values[i].why);
		}
	}
}

static void rules_without_caller_say_nothing_else(struct kunit *test)
{
	static const char why[] = "rule without caller that says where it is";
	static const u8 kinds[] = {
		UNWIND_TABLE_NOT_COVERED, UNWIND_TABLE_UNKNOWN,
		UNWIND_TABLE_OUTERMOST,
	};
	unsigned int i, byte;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct unwind_table_rule plain = { .kind = kinds[i] };

		check_rule(test->priv, &plain, NULL);
		for (byte = 0; byte < sizeof(plain); byte++) {
			struct unwind_table_rule rule = plain;

			if (byte == offsetof(struct unwind_table_rule, kind))
				continue;
			((u8 *)&rule)[byte] ^= 0x10;
			check_rule(test->priv, &rule, byte == 2 || byte == 3 ?
				   "reserved field of a rule" : why);
		}
	}
}

/* ------------------------------------------------------------------------ */
/* Found								      */

static void places_that_are_not_covered(struct kunit *test)
{
	static const u64 offsets[] = {
		0, 1, PAGE, 2 * PAGE - 1,
		/* The page with such a rule */
		3 * PAGE, 3 * PAGE + 1, 4 * PAGE - 1,
		/* Between the runs, and after the last one */
		4 * PAGE, 5 * PAGE - 1, 6 * PAGE, 6 * PAGE + 1,
		/* Pages that would be these if too few of their bits were looked at */
		(2ULL << 32) * PAGE, ((1ULL << 32) + 2) * PAGE,
		((1ULL << 31) + 5) * PAGE,
		/* The offset for an address below the mapping */
		-PAGE, (u64)-1, 1ULL << 63, (1ULL << 63) + 2 * PAGE,
	};
	struct parts *p = test->priv;
	unsigned int i;

	start_plain(p);
	expect_taken(p);
	for (i = 0; i < ARRAY_SIZE(offsets); i++)
		expect_found(p, offsets[i], offsets[i], NOT_COVERED);
}

static void first_and_last_bytes_of_rows_and_pages(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	expect_taken(p);
	expect_found(p, 2 * PAGE, 2 * PAGE + 15, 8);
	expect_found(p, 2 * PAGE + 16, 3 * PAGE - 2, 16);
	expect_found(p, 3 * PAGE - 1, 3 * PAGE - 1, 24);
	expect_found(p, 5 * PAGE, 6 * PAGE - 1, 32);
}

static void first_byte_of_the_file(struct kunit *test)
{
	struct parts *p = test->priv;

	start_page(p, 0);
	add_row(p, 0, 0);
	add_row(p, 1, 1);
	add_sp_rules(p, 2);
	expect_taken(p);
	expect_found(p, 0, 0, 8);
	expect_found(p, 1, PAGE - 1, 16);
	expect_found(p, PAGE, U64_MAX, NOT_COVERED);
}

/* Any number of rows, so that a search may end on either side */
static void each_row_of_a_page_is_found(struct kunit *test)
{
	struct parts *p = test->priv;
	unsigned int nr, i;

	for (nr = 1; nr <= 20; nr++) {
		start_page(p, 7);
		for (i = 0; i < nr; i++)
			add_row(p, 3 * i, i);
		add_sp_rules(p, nr);
		expect_taken(p);
		for (i = 0; i < 3 * nr + 3; i++)
			KUNIT_EXPECT_EQ(test, find(p, 7 * PAGE + i),
					8 + 8 * (s64)min(i / 3, nr - 1));
		KUNIT_EXPECT_EQ(test, find(p, 8 * PAGE - 1), 8 * (s64)nr);
	}
}

static void page_with_rows_at_all_bytes(struct kunit *test)
{
	struct parts *p = test->priv;
	unsigned int i;

	start_page(p, 1);
	for (i = 0; i < PAGE; i++)
		add_row(p, i, i);
	add_sp_rules(p, PAGE);
	expect_taken(p);
	for (i = 0; i < PAGE; i++)
		KUNIT_EXPECT_EQ(test, find(p, PAGE + i), 8 + 8 * (s64)i);
}

/*
 * All sets of these rows, before a page that is not covered and another one, in blocks
 * of all sizes
 */
static void rows_at_the_edges_of_blocks(struct kunit *test)
{
	static const u16 edges[] = { 1, 255, 256, 511, 512, 513, 1024, 2048, 3584, 4095 };
	struct parts *p = test->priv;
	unsigned int set, i, wrong = 0;
	s64 expected;

	for (set = 0; set < 5U << ARRAY_SIZE(edges); set++) {
		start_page(p, 3);
		add_row(p, 0, 0);
		for (i = 0; i < ARRAY_SIZE(edges); i++) {
			if (set & 1U << i)
				add_row(p, edges[i], i + 1);
		}
		add_page(p);
		add_row(p, 0, ARRAY_SIZE(edges) + 2);
		add_page(p);
		add_row(p, 0, ARRAY_SIZE(edges) + 1);
		add_sp_rules(p, ARRAY_SIZE(edges) + 2);
		add_not_covered(p);
		set_blocks(p, 8 + (set >> ARRAY_SIZE(edges)));
		expect_taken(p);

		expected = 8;
		for (i = 0; i < ARRAY_SIZE(edges); i++) {
			wrong += find(p, 3 * PAGE + edges[i] - 1) != expected;
			if (set & 1U << i)
				expected = 16 + 8 * (s64)i;
			wrong += find(p, 3 * PAGE + edges[i]) != expected;
		}
		wrong += find(p, 4 * PAGE) != NOT_COVERED;
		wrong += find(p, 5 * PAGE - 1) != NOT_COVERED;
		wrong += find(p, 5 * PAGE) != 16 + 8 * (s64)ARRAY_SIZE(edges);
		wrong += find(p, 6 * PAGE - 1) != 16 + 8 * (s64)ARRAY_SIZE(edges);
		wrong += find(p, 6 * PAGE) != NOT_COVERED;
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
}

static void most_rules_that_a_table_can_have(struct kunit *test)
{
	struct parts *p = test->priv;
	unsigned int i;

	start(p);
	add_run(p, 0);
	for (i = 0; i < UNWIND_TABLE_MAX_RULES; i++) {
		if (i % 2048 == 0)
			add_page(p);
		add_row(p, i % 2048 * 2, i);
	}
	add_sp_rules(p, UNWIND_TABLE_MAX_RULES);
	expect_taken(p);
	for (i = 0; i < UNWIND_TABLE_MAX_RULES; i++) {
		if (find(p, 2 * i) != 8 + 8 * (s64)i ||
		    find(p, 2 * i + 1) != 8 + 8 * (s64)i)
			break;
	}
	KUNIT_EXPECT_EQ(test, i, UNWIND_TABLE_MAX_RULES);
	KUNIT_EXPECT_EQ(test, find(p, 2 * i), NOT_COVERED);

	add_sp_rules(p, 1);
	expect_refused(p, "number of rules");
}

static void most_runs_that_a_table_can_have(struct kunit *test)
{
	struct parts *p = test->priv;
	unsigned int i;

	start(p);
	for (i = 0; i < UNWIND_TABLE_MAX_RUNS; i++) {
		add_run(p, 1 + 3 * i);
		add_page(p);
		add_row(p, 0, i);
		add_page(p);
		add_row(p, 0, i);
		add_row(p, 1, i + 1);
	}
	add_sp_rules(p, i + 1);
	expect_taken(p);
	for (i = 0; i < UNWIND_TABLE_MAX_RUNS; i++) {
		u64 at = (1 + 3 * i) * PAGE;

		expect_found(p, at - 1, at + 2 * PAGE, NOT_COVERED);
		expect_found(p, at, at + PAGE - 1, 8 + 8 * (s64)i);
		expect_found(p, at + PAGE, at + PAGE, 8 + 8 * (s64)i);
		expect_found(p, at + PAGE + 1, at + 2 * PAGE - 1, 16 + 8 * (s64)i);
	}
}

/* Pages without code come first, last, and one after the other. */
static void pages_without_code_have_nothing(struct kunit *test)
{
	struct parts *p = test->priv;
	unsigned int i;

	start(p);
	add_run(p, 10);
	for (i = 0; i < 8; i++) {
		add_page(p);
		add_row(p, 0, i == 2 ? 0 : i == 5 ? 1 : 2);
	}
	add_sp_rules(p, 2);
	add_not_covered(p);
	expect_taken(p);
	for (i = 0; i < 8; i++) {
		s64 want = i == 2 ? 8 : i == 5 ? 16 : NOT_COVERED;

		expect_found(p, (10 + i) * PAGE, (11 + i) * PAGE - 1, want);
	}
}

/* ------------------------------------------------------------------------ */
/* What is made of rules						      */

static void expect_word(struct kunit *test, const struct unwind_table_rule *from,
			u64 word)
{
	struct unwind_rule rule;

	KUNIT_EXPECT_EQ(test, find_one(test->priv, from, &rule),
			UNWIND_USER_FOUND);
	KUNIT_EXPECT_EQ(test, rule.word, word);
}

/* Bits 0 and 12: by a table, of a file. Bit 3: the FP, not the SP */
#define FILE_SP		0x1001ULL
#define FILE_FP		0x1009ULL

static void ordinary_rules_are_words(struct kunit *test)
{
	static const struct {
		struct unwind_table_rule	rule;
		u64				word;
	} rules[] = {
		{ CALLER(CFA_SP, RA_SLOT, FP_SAME), FILE_SP | 8ULL << 16 | 8ULL << 32 },
		{ CALLER(LOC(REG, SP, S32_MAX), RA_SLOT, FP_SAME),
		  FILE_SP | 8ULL << 16 | (u64)S32_MAX << 32 },
		{ CALLER(LOC(REG, SP, 1), RA_SLOT, FP_SAME), FILE_SP | 8ULL << 16 | 1ULL << 32 },
		{ CALLER(LOC(REG, FP, 16), RA_SLOT, FP_SAME), FILE_FP | 8ULL << 16 | 16ULL << 32 },
		{ CALLER(LOC(REG, FP, 16), RA_SLOT, LOC(CFA_DEREF, 0, -16)),
		  FILE_FP | 16ULL << 16 | 16ULL << 32 },
		{ CALLER(CFA_SP, RA_SLOT, LOC(CFA_DEREF, 0, -16)),
		  FILE_SP | 16ULL << 16 | 8ULL << 32 },
		{ CALLER(CFA_SP, RA_SLOT, LOC(CFA_DEREF, 0, -2048)),
		  FILE_SP | 2048ULL << 16 | 8ULL << 32 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rules); i++)
		expect_word(test, &rules[i].rule, rules[i].word);
}

static void ends_of_a_walk_are_words(struct kunit *test)
{
	struct unwind_table_rule rule = { .kind = UNWIND_TABLE_OUTERMOST };

	expect_word(test, &rule, 0x1003);
	rule.kind = UNWIND_TABLE_UNKNOWN;
	expect_word(test, &rule, 0x1005 | (u64)UNWIND_USER_UNKNOWN << 16);
}

static void rule_that_does_not_cover_is_none(struct kunit *test)
{
	struct unwind_table_rule from = { .kind = UNWIND_TABLE_NOT_COVERED };
	struct unwind_rule rule;

	KUNIT_EXPECT_EQ(test, find_one(test->priv, &from, &rule),
			UNWIND_USER_NO_RULE);
}

static void check_loc(struct kunit *test, const struct unwind_loc *loc,
		      const struct unwind_table_loc *from)
{
	static const u8 wheres[] = {
		[UNWIND_TABLE_NONE]		= UNWIND_UNDEFINED,
		[UNWIND_TABLE_SAME]		= UNWIND_SAME,
		[UNWIND_TABLE_REG]		= UNWIND_REG,
		[UNWIND_TABLE_REG_DEREF]	= UNWIND_REG_DEREF,
		[UNWIND_TABLE_CFA]		= UNWIND_CFA,
		[UNWIND_TABLE_CFA_DEREF]	= UNWIND_CFA_DEREF,
	};

	KUNIT_EXPECT_EQ(test, loc->where, wheres[from->where]);
	KUNIT_EXPECT_EQ(test, loc->reg, from->reg);
	KUNIT_EXPECT_EQ(test, loc->off, from->off);
}

static void other_rules_are_long(struct kunit *test)
{
	static const struct unwind_table_rule rules[] = {
		/* An SP that would not move up, but for the topmost frame */
		CALLER(LOC(REG, SP, 0), RA_SLOT, FP_SAME),
		CALLER(LOC(REG, SP, -8), RA_SLOT, FP_SAME),
		CALLER(LOC(REG, SP, S32_MIN), RA_SLOT, FP_SAME),
		CALLER(LOC(REG, 3, 8), RA_SLOT, FP_SAME),
		CALLER(LOC(REG, 0, 8), RA_SLOT, FP_SAME),
		CALLER(LOC(REG, 15, S32_MAX), RA_SLOT, FP_SAME),
		CALLER(LOC(REG_DEREF, SP, 24), RA_SLOT, FP_SAME),
		CALLER(LOC(REG_DEREF, FP, -16), RA_SLOT, FP_SAME, .cfa_add = -8),
		CALLER(LOC(REG_DEREF, 10, S32_MIN), RA_SLOT, FP_SAME, .cfa_add = S32_MAX),
		CALLER(LOC(REG_DEREF, SP, 0), RA_SLOT, FP_SAME, .cfa_add = S32_MIN),
		CALLER(CFA_SP, LOC(CFA_DEREF, 0, -16), FP_SAME),
		CALLER(CFA_SP, LOC(CFA_DEREF, 0, 0), FP_SAME),
		CALLER(CFA_SP, LOC(CFA_DEREF, 0, 8), FP_SAME),
		CALLER(CFA_SP, LOC(REG, 5, 0), FP_SAME),
		CALLER(CFA_SP, LOC(REG_DEREF, SP, -8), FP_SAME),
		CALLER(LOC(REG, SP, 0), LOC(REG, 2, 0), FP_SAME),
		CALLER(CFA_SP, RA_SLOT, LOC(CFA_DEREF, 0, -8)),
		CALLER(CFA_SP, RA_SLOT, LOC(CFA_DEREF, 0, 0)),
		CALLER(CFA_SP, RA_SLOT, LOC(CFA_DEREF, 0, 16)),
		CALLER(CFA_SP, RA_SLOT, LOC(CFA_DEREF, 0, -2056)),
		CALLER(CFA_SP, RA_SLOT, LOC(CFA_DEREF, 0, S32_MIN)),
		CALLER(CFA_SP, RA_SLOT, LOC(CFA, 0, -16)),
		CALLER(CFA_SP, RA_SLOT, LOC(REG, 3, 0)),
		CALLER(CFA_SP, RA_SLOT, LOC(REG, FP, -8)),
		CALLER(CFA_SP, RA_SLOT, LOC(REG_DEREF, FP, 0)),
		/* It is not known: no word says so. */
		CALLER(CFA_SP, RA_SLOT, LOC(NONE, 0, 0)),
		CALLER(LOC(REG, FP, 16), RA_SLOT, LOC(NONE, 0, 0)),
		CALLER(LOC(REG_DEREF, SP, 0), RA_SLOT, LOC(NONE, 0, 0), .cfa_add = 8),
		CALLER(CFA_SP, RA_SLOT, FP_SAME, .flags = UNWIND_TABLE_SIGNAL),
		CALLER(CFA_SP, RA_SLOT, FP_SAME, .flags = UNWIND_TABLE_NEW_THREAD),
		CALLER(CFA_SP, RA_SLOT, FP_SAME,
		       .flags = UNWIND_TABLE_SIGNAL | UNWIND_TABLE_NEW_THREAD),
		CALLER(CFA_SP, RA_SLOT, FP_SAME, .flags = UNWIND_TABLE_NO_CALL),
	};
	struct unwind_rule rule;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		KUNIT_EXPECT_EQ(test, find_one(test->priv, &rules[i], &rule),
				UNWIND_USER_FOUND);
		KUNIT_EXPECT_EQ_MSG(test, rule.word, 0, "rule %u", i);
		KUNIT_EXPECT_FALSE(test, rule.outermost);
		KUNIT_EXPECT_EQ(test, rule.signal,
				!!(rules[i].flags & UNWIND_TABLE_SIGNAL));
		KUNIT_EXPECT_EQ(test, rule.new_thread,
				!!(rules[i].flags & UNWIND_TABLE_NEW_THREAD));
		KUNIT_EXPECT_EQ(test, rule.no_call,
				!!(rules[i].flags & UNWIND_TABLE_NO_CALL));
		KUNIT_EXPECT_EQ(test, rule.cfa_add, rules[i].cfa_add);
		check_loc(test, &rule.cfa, &rules[i].cfa);
		check_loc(test, &rule.ra, &rules[i].ra);
		check_loc(test, &rule.fp, &rules[i].fp);
	}
}

/* Long rules have numbers of their own, whatever is between them. */
static void long_rules_are_told_apart(struct kunit *test)
{
	struct parts *p = test->priv;
	unsigned int i;

	start_page(p, 0);
	for (i = 0; i < 100; i++) {
		struct unwind_table_rule from = sp_rule(8 + i);

		if (i % 3)
			from.fp = (struct unwind_table_loc)LOC(CFA, 0, i);
		else if (i % 2)
			from = (struct unwind_table_rule) { };
		add_row(p, i, i);
		add_rule(p, &from);
	}
	expect_taken(p);
	for (i = 0; i < 100; i++) {
		struct unwind_rule rule;
		enum unwind_user_status status = unwind_table_find(p->table, i, &rule);

		if (i % 3) {
			KUNIT_EXPECT_EQ(test, status, UNWIND_USER_FOUND);
			KUNIT_EXPECT_EQ(test, rule.word, 0);
			KUNIT_EXPECT_EQ(test, rule.fp.off, i);
			KUNIT_EXPECT_EQ(test, rule.cfa.off, 8 + i);
		} else if (i % 2) {
			KUNIT_EXPECT_EQ(test, status, UNWIND_USER_NO_RULE);
		} else {
			KUNIT_EXPECT_EQ(test, status, UNWIND_USER_FOUND);
			KUNIT_EXPECT_EQ(test, unwind_word_cfa_off(rule.word), 8 + i);
		}
	}
}

/* Any byte may be another one: it is refused, or there is nothing to be afraid of. */
static void any_byte_changed_gives_a_sane_answer(struct kunit *test)
{
	static const u8 values[] = { 0x00, 0x01, 0x05, 0x7f, 0x80, 0xff };
	struct parts *p = test->priv;
	size_t i, v;
	u64 at;

	start_plain(p);
	join(p);
	for (i = 0; i < p->len; i++) {
		u8 *byte = (u8 *)p->data + i, old = *byte;

		for (v = 0; v < ARRAY_SIZE(values); v++) {
			long ret;

			*byte = values[v];
			ret = make_joined(p);
			if (ret) {
				KUNIT_EXPECT_EQ(test, ret, -EINVAL);
				KUNIT_EXPECT_TRUE(test, p->why);
				continue;
			}
			for (at = 0; at < 7 * PAGE; at += 15)
				find(p, at);
			kvfree(p->table);
			p->table = NULL;
		}
		*byte = old;
	}
}

static int table_init(struct kunit *test)
{
	struct parts *p = kvzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return -ENOMEM;
	p->test = test;
	test->priv = p;
	return 0;
}

static void table_exit(struct kunit *test)
{
	struct parts *p = test->priv;

	if (p)
		kvfree(p->table);
	kvfree(p);
}

static struct kunit_case unwind_table_cases[] = {
	KUNIT_CASE(plain_table_is_taken),
	KUNIT_CASE(table_is_a_copy),
	KUNIT_CASE(any_shorter_or_longer_length_is_refused),
	KUNIT_CASE(each_field_that_makes_no_sense_is_refused),
	KUNIT_CASE(number_of_runs_is_limited),
	KUNIT_CASE(page_without_row_is_refused),
	KUNIT_CASE(run_up_to_the_largest_file_is_taken),
	KUNIT_CASE(runs_have_as_many_pages_as_there_are),
	KUNIT_CASE(table_without_rules_has_no_rows),
	KUNIT_CASE(blocks_are_checked),
	KUNIT_CASE(fields_that_make_no_sense_are_refused),
	KUNIT_CASE(each_value_has_its_own_places),
	KUNIT_CASE(rules_without_caller_say_nothing_else),
	KUNIT_CASE(places_that_are_not_covered),
	KUNIT_CASE(first_and_last_bytes_of_rows_and_pages),
	KUNIT_CASE(first_byte_of_the_file),
	KUNIT_CASE(each_row_of_a_page_is_found),
	KUNIT_CASE(page_with_rows_at_all_bytes),
	KUNIT_CASE(rows_at_the_edges_of_blocks),
	KUNIT_CASE(most_rules_that_a_table_can_have),
	KUNIT_CASE(most_runs_that_a_table_can_have),
	KUNIT_CASE(pages_without_code_have_nothing),
	KUNIT_CASE(ordinary_rules_are_words),
	KUNIT_CASE(ends_of_a_walk_are_words),
	KUNIT_CASE(rule_that_does_not_cover_is_none),
	KUNIT_CASE(other_rules_are_long),
	KUNIT_CASE(long_rules_are_told_apart),
	KUNIT_CASE(any_byte_changed_gives_a_sane_answer),
	{}
};

static struct kunit_suite unwind_table_suite = {
	.name = "unwind_table",
	.init = table_init,
	.exit = table_exit,
	.test_cases = unwind_table_cases,
};

kunit_test_suite(unwind_table_suite);

MODULE_DESCRIPTION("KUnit tests for tables of unwind rules for files");
/* MODULE_IMPORT_NS() takes a string in some kernels, and none in others. */
MODULE_INFO(import_ns, "EXPORTED_FOR_KUNIT_TESTING");
MODULE_LICENSE("GPL");
