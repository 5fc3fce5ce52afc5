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

static struct parts *start(struct parts *p)
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
	return p;
}

static void add_run(struct parts *p, u64 page)
{
	p->runs[p->header.nr_runs++] = (struct unwind_table_run) {
		.page = page,
		.first_block = p->header.nr_pages,
	};
}

/* The next page of the last run, still without rows */
static void add_page(struct parts *p)
{
	p->runs[p->header.nr_runs - 1].nr_pages++;
	p->header.nr_pages++;
	p->blocks[p->header.nr_pages] = p->header.nr_rows - 1;
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

static void check_refused(struct kunit *test, struct parts *p, long ret,
			  const char *why)
{
	KUNIT_EXPECT_EQ_MSG(test, ret, -EINVAL, "%s", why);
	KUNIT_EXPECT_STREQ(test, p->why ?: "nothing", why);
}

static void expect_refused(struct kunit *test, struct parts *p, const char *why)
{
	check_refused(test, p, make(p), why);
}

/* Two runs, of pages 2 and 3, and of page 5. Page 3 is not covered. */
static void start_plain(struct parts *p)
{
	start(p);
	add_run(p, 2);
	add_page(p);
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

/* The only rule of a table, which is made of @from */
static enum unwind_user_status find_one(struct kunit *test, struct parts *p,
					const struct unwind_table_rule *from,
					struct unwind_rule *rule)
{
	memset(rule, 0x5a, sizeof(*rule));
	start(p);
	add_run(p, 0);
	add_page(p);
	add_row(p, 0, 0);
	add_rule(p, from);
	KUNIT_EXPECT_EQ_MSG(test, make(p), 0, "%s", p->why ?: "");
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
	KUNIT_EXPECT_EQ(test, make(p), 0);
	KUNIT_EXPECT_EQ(test, p->table->nr_runs, 2);
	KUNIT_EXPECT_EQ(test, p->table->nr_rows, 5);
	KUNIT_EXPECT_LE(test, p->table->size, sizeof(*p->table) + p->len);
}

/* Nothing of what was handed in is needed once the table is made. */
static void table_is_a_copy(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	KUNIT_EXPECT_EQ(test, make(p), 0);
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
		check_refused(test, p, make_joined(p),
			      len < sizeof(p->header) ?
			      "shorter than its header" : "length");
	}
}

static void other_magic_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->header.magic = 0x55575442;
	expect_refused(test, p, "not a table");
}

static void other_version_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->header.version = 0;
	expect_refused(test, p, "version");
	p->header.version = 2;
	expect_refused(test, p, "version");
}

static void other_machine_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->header.machine = EM_386;
	expect_refused(test, p, "for another machine");
	p->header.machine = EM_X86_64;
	p->header.word_size = 4;
	expect_refused(test, p, "for another machine");
}

static void unknown_flag_of_the_header_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->header.flags = 1;
	expect_refused(test, p, "flags of the header");
	p->header.flags = 1U << 31;
	expect_refused(test, p, "flags of the header");
}

static void reserved_fields_of_the_header_are_refused(struct kunit *test)
{
	struct parts *p = test->priv;
	unsigned int i;

	start_plain(p);
	for (i = 0; i < ARRAY_SIZE(p->header.reserved); i++) {
		p->header.reserved[i] = 1;
		expect_refused(test, p, "reserved fields of the header");
		p->header.reserved[i] = 1U << 31;
		expect_refused(test, p, "reserved fields of the header");
		p->header.reserved[i] = 0;
	}
	KUNIT_EXPECT_EQ(test, make(p), 0);
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
	KUNIT_EXPECT_EQ(test, make(p), 0);
	add_run(p, 2 * i);
	add_page(p);
	add_row(p, 0, 0);
	expect_refused(test, p, "number of runs");

	start_plain(p);
	join(p);
	((struct unwind_table_header *)p->data)->nr_runs = 0;
	check_refused(test, p, make_joined(p), "number of runs");
	((struct unwind_table_header *)p->data)->nr_runs = U32_MAX;
	check_refused(test, p, make_joined(p), "number of runs");
}

/* Those that are much too large would let a sum of lengths overflow. */
static void other_numbers_are_limited(struct kunit *test)
{
	static const struct {
		size_t		field;
		u32		most;
		const char	*why;
	} fields[] = {
		{ offsetof(struct unwind_table_header, nr_pages),
		  UNWIND_TABLE_MAX_PAGES, "number of pages" },
		{ offsetof(struct unwind_table_header, nr_rows),
		  UNWIND_TABLE_MAX_ROWS, "number of rows" },
		{ offsetof(struct unwind_table_header, nr_rules),
		  UNWIND_TABLE_MAX_RULES, "number of rules" },
	};
	struct parts *p = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		u32 *field = (void *)((char *)p->data + fields[i].field);

		start_plain(p);
		join(p);
		/* Within the limit, but more than there is */
		*field = fields[i].most;
		check_refused(test, p, make_joined(p), "length");
		*field = fields[i].most + 1;
		check_refused(test, p, make_joined(p), fields[i].why);
		*field = U32_MAX;
		check_refused(test, p, make_joined(p), fields[i].why);
	}

	start_plain(p);
	join(p);
	((struct unwind_table_header *)p->data)->nr_pages = 0;
	check_refused(test, p, make_joined(p), "number of pages");
}

static void size_of_a_block_is_limited(struct kunit *test)
{
	static const u32 bad[] = { 0, 7, 13, 32, U32_MAX };
	struct parts *p = test->priv;
	unsigned int i;

	start_plain(p);
	join(p);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		((struct unwind_table_header *)p->data)->block_shift = bad[i];
		check_refused(test, p, make_joined(p), "size of a block");
	}
}

static void page_without_row_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;

	start(p);
	add_run(p, 0);
	add_page(p);
	expect_refused(test, p, "block with rows that do not exist");
	p->blocks[1] = 0;
	expect_refused(test, p, "block with rows that do not exist");
	/* The next page has one. */
	p->blocks[1] = U32_MAX;
	add_page(p);
	add_row(p, 0, 0);
	add_sp_rules(p, 1);
	expect_refused(test, p, "block with rows that do not exist");
	/* It is the one after the last row of the page before. */
	start(p);
	add_run(p, 0);
	add_page(p);
	add_row(p, 0, 0);
	add_page(p);
	add_sp_rules(p, 1);
	expect_refused(test, p, "page that does not start with a row");
	add_page(p);
	add_row(p, 0, 0);
	expect_refused(test, p, "page that does not start with a row");
}

static void first_block_of_a_run_is_checked(struct kunit *test)
{
	static const u32 bad[] = { 0, 1, 3, U32_MAX };
	struct parts *p = test->priv;
	unsigned int i;

	start_plain(p);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		p->runs[1].first_block = bad[i];
		expect_refused(test, p, "first block of a run");
	}
	p->runs[1].first_block = 2;
	KUNIT_EXPECT_EQ(test, make(p), 0);
	p->runs[0].first_block = 1;
	expect_refused(test, p, "first block of a run");
}

static void empty_run_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->runs[0].nr_pages = 0;
	expect_refused(test, p, "empty run");
}

static void run_beyond_the_largest_file_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;
	u64 last = (u64)S64_MAX / PAGE;

	start_plain(p);
	p->runs[1].page = last;
	KUNIT_EXPECT_EQ(test, make(p), 0);
	KUNIT_EXPECT_EQ(test, find(p, S64_MAX), 32);
	p->runs[1].page = last + 1;
	expect_refused(test, p, "run out of range");
	p->runs[1].page = U64_MAX;
	expect_refused(test, p, "run out of range");
}

static void runs_are_apart_and_in_order(struct kunit *test)
{
	/* The first run ends at page 4. */
	static const u64 bad[] = { 0, 1, 2, 3, 4 };
	struct parts *p = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		start_plain(p);
		p->runs[1].page = bad[i];
		expect_refused(test, p,
			       "runs that are not sorted, overlap or touch");
	}
	p->runs[1].page = 5;
	KUNIT_EXPECT_EQ(test, make(p), 0);
}

static void runs_have_as_many_pages_as_there_are(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->runs[1].nr_pages++;
	expect_refused(test, p, "number of pages of the runs");
	p->runs[1].nr_pages = U32_MAX;
	expect_refused(test, p, "number of pages of the runs");
	/* The sum of both is right, in 32 bits. */
	p->runs[0].nr_pages = 4;
	p->runs[1].page = 7;
	p->runs[1].first_block = 4;
	expect_refused(test, p, "number of pages of the runs");
	p->runs[0].nr_pages = 1;
	p->runs[1].nr_pages = 1;
	p->runs[1].first_block = 1;
	expect_refused(test, p, "number of pages of the runs");
}

static void page_that_starts_without_a_row_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->rows[0].offset = 1;
	expect_refused(test, p, "page that does not start with a row");
	start_plain(p);
	p->rows[3].offset = 1;
	expect_refused(test, p, "page that does not start with a row");
}

static void row_beyond_its_page_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->rows[2].offset = PAGE;
	expect_refused(test, p, "row out of its block or not sorted");
	p->rows[2].offset = U16_MAX;
	expect_refused(test, p, "row out of its block or not sorted");
}

static void rows_go_up(struct kunit *test)
{
	static const u16 bad[] = { 0, 15, 16 };
	struct parts *p = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		start_plain(p);
		p->rows[2].offset = bad[i];
		expect_refused(test, p, "row out of its block or not sorted");
	}
	p->rows[2].offset = 17;
	KUNIT_EXPECT_EQ(test, make(p), 0);
	/* A second one at the start of the page */
	p->rows[1].offset = 0;
	expect_refused(test, p, "row out of its block or not sorted");
}

static void row_without_rule_is_refused(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->rows[4].rule = 5;
	expect_refused(test, p, "row without rule");
	p->rows[4].rule = U16_MAX;
	expect_refused(test, p, "row without rule");

	start(p);
	add_run(p, 0);
	add_page(p);
	add_row(p, 0, 0);
	expect_refused(test, p, "row without rule");
}

static void blocks_have_all_rows(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	p->blocks[0] = 1;
	expect_refused(test, p, "row before the first block");
	p->blocks[0] = 0;
	p->header.nr_rows++;
	expect_refused(test, p, "rows outside of the blocks");
	p->header.nr_rows -= 2;
	expect_refused(test, p, "block with rows that do not exist");
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
	expect_refused(test, p, "blocks that are not sorted");
	p->blocks[2] = 2;
	p->blocks[1] = 2;
	expect_refused(test, p, "row out of its block or not sorted");
	p->blocks[1] = 0;
	expect_refused(test, p, "row out of its block or not sorted");
}

/* What makes a rule that is refused of one that is not */
struct bad_rule {
	struct unwind_table_rule	rule;
	const char			*why;
};

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

static void expect_bad_rules(struct kunit *test, const struct bad_rule *bad,
			     unsigned int nr)
{
	struct parts *p = test->priv;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		start_plain(p);
		/* No row needs to have it. */
		add_rule(p, &bad[i].rule);
		expect_refused(test, p, bad[i].why);
	}
}

static void fields_that_make_no_sense_are_refused(struct kunit *test)
{
	static const struct bad_rule bad[] = {
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

	expect_bad_rules(test, bad, ARRAY_SIZE(bad));
}

/* All places for all values: those that there are, and those that are refused. */
static void each_value_has_its_own_places(struct kunit *test)
{
	/* By enum unwind_table_where, the place beyond the last one included */
	static const bool cfa[] = { [UNWIND_TABLE_REG] = true,
		[UNWIND_TABLE_REG_DEREF] = true, [UNWIND_TABLE_CFA_DEREF + 1] = false };
	static const bool ra[] = { [UNWIND_TABLE_REG] = true,
		[UNWIND_TABLE_REG_DEREF] = true, [UNWIND_TABLE_CFA_DEREF] = true,
		[UNWIND_TABLE_CFA_DEREF + 1] = false };
	static const bool fp[] = { [UNWIND_TABLE_NONE] = true, [UNWIND_TABLE_SAME] = true,
		[UNWIND_TABLE_REG] = true, [UNWIND_TABLE_REG_DEREF] = true,
		[UNWIND_TABLE_CFA] = true, [UNWIND_TABLE_CFA_DEREF] = true,
		[UNWIND_TABLE_CFA_DEREF + 1] = false };
	struct parts *p = test->priv;
	unsigned int where;

	for (where = 0; where < ARRAY_SIZE(cfa); where++) {
		struct unwind_table_rule rule = sp_rule(8);

		start_plain(p);
		rule.cfa = (struct unwind_table_loc) { .where = where };
		add_rule(p, &rule);
		check_refused(test, p, make(p) ?: -EINVAL,
			      cfa[where] ? "nothing" : "CFA of a rule");

		start_plain(p);
		rule = sp_rule(8);
		rule.ra = (struct unwind_table_loc) { .where = where };
		add_rule(p, &rule);
		check_refused(test, p, make(p) ?: -EINVAL,
			      ra[where] ? "nothing" : "return address of a rule");

		start_plain(p);
		rule = sp_rule(8);
		rule.fp = (struct unwind_table_loc) { .where = where };
		add_rule(p, &rule);
		check_refused(test, p, make(p) ?: -EINVAL,
			      fp[where] ? "nothing" : "frame pointer of a rule");
	}
}

static void rules_without_caller_say_nothing_else(struct kunit *test)
{
	static const char why[] = "rule without caller that says where it is";
	static const u8 kinds[] = {
		UNWIND_TABLE_NOT_COVERED, UNWIND_TABLE_UNKNOWN,
		UNWIND_TABLE_OUTERMOST,
	};
	struct parts *p = test->priv;
	unsigned int i, byte;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct unwind_table_rule rule;

		for (byte = 0; byte < sizeof(rule); byte++) {
			rule = (struct unwind_table_rule) { .kind = kinds[i] };
			((u8 *)&rule)[byte] ^= 0x10;
			if (byte == offsetof(struct unwind_table_rule, kind))
				continue;
			start_plain(p);
			add_rule(p, &rule);
			expect_refused(test, p,
				       byte == 2 || byte == 3 ?
				       "reserved field of a rule" : why);
		}
		rule = (struct unwind_table_rule) { .kind = kinds[i] };
		start_plain(p);
		add_rule(p, &rule);
		KUNIT_EXPECT_EQ(test, make(p), 0);
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
	KUNIT_EXPECT_EQ(test, make(p), 0);
	for (i = 0; i < ARRAY_SIZE(offsets); i++)
		KUNIT_EXPECT_EQ_MSG(test, find(p, offsets[i]), NOT_COVERED,
				    "%#llx", (unsigned long long)offsets[i]);
}

static void first_and_last_bytes_of_rows_and_pages(struct kunit *test)
{
	struct parts *p = test->priv;

	start_plain(p);
	KUNIT_EXPECT_EQ(test, make(p), 0);
	KUNIT_EXPECT_EQ(test, find(p, 2 * PAGE), 8);
	KUNIT_EXPECT_EQ(test, find(p, 2 * PAGE + 15), 8);
	KUNIT_EXPECT_EQ(test, find(p, 2 * PAGE + 16), 16);
	KUNIT_EXPECT_EQ(test, find(p, 3 * PAGE - 2), 16);
	KUNIT_EXPECT_EQ(test, find(p, 3 * PAGE - 1), 24);
	KUNIT_EXPECT_EQ(test, find(p, 5 * PAGE), 32);
	KUNIT_EXPECT_EQ(test, find(p, 6 * PAGE - 1), 32);
}

static void first_byte_of_the_file(struct kunit *test)
{
	struct parts *p = test->priv;

	start(p);
	add_run(p, 0);
	add_page(p);
	add_row(p, 0, 0);
	add_row(p, 1, 1);
	add_sp_rules(p, 2);
	KUNIT_EXPECT_EQ(test, make(p), 0);
	KUNIT_EXPECT_EQ(test, find(p, 0), 8);
	KUNIT_EXPECT_EQ(test, find(p, 1), 16);
	KUNIT_EXPECT_EQ(test, find(p, PAGE - 1), 16);
	KUNIT_EXPECT_EQ(test, find(p, PAGE), NOT_COVERED);
	KUNIT_EXPECT_EQ(test, find(p, (u64)-1), NOT_COVERED);
}

/* Any number of rows, so that a search may end on either side */
static void each_row_of_a_page_is_found(struct kunit *test)
{
	struct parts *p = test->priv;
	unsigned int nr, i;

	for (nr = 1; nr <= 20; nr++) {
		start(p);
		add_run(p, 7);
		add_page(p);
		for (i = 0; i < nr; i++)
			add_row(p, 3 * i, i);
		add_sp_rules(p, nr);
		KUNIT_EXPECT_EQ(test, make(p), 0);
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

	start(p);
	add_run(p, 1);
	add_page(p);
	for (i = 0; i < PAGE; i++)
		add_row(p, i, i);
	add_sp_rules(p, PAGE);
	KUNIT_EXPECT_EQ(test, make(p), 0);
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
		start(p);
		add_run(p, 3);
		add_page(p);
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
		KUNIT_EXPECT_EQ(test, make(p), 0);

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
	KUNIT_EXPECT_EQ(test, make(p), 0);
	for (i = 0; i < UNWIND_TABLE_MAX_RULES; i++) {
		if (find(p, 2 * i) != 8 + 8 * (s64)i ||
		    find(p, 2 * i + 1) != 8 + 8 * (s64)i)
			break;
	}
	KUNIT_EXPECT_EQ(test, i, UNWIND_TABLE_MAX_RULES);
	KUNIT_EXPECT_EQ(test, find(p, 2 * i), NOT_COVERED);

	add_sp_rules(p, 1);
	expect_refused(test, p, "number of rules");
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
	KUNIT_EXPECT_EQ(test, make(p), 0);
	for (i = 0; i < UNWIND_TABLE_MAX_RUNS; i++) {
		u64 at = (1 + 3 * i) * PAGE;

		KUNIT_EXPECT_EQ(test, find(p, at - 1), NOT_COVERED);
		KUNIT_EXPECT_EQ(test, find(p, at), 8 + 8 * (s64)i);
		KUNIT_EXPECT_EQ(test, find(p, at + PAGE - 1), 8 + 8 * (s64)i);
		KUNIT_EXPECT_EQ(test, find(p, at + PAGE), 8 + 8 * (s64)i);
		KUNIT_EXPECT_EQ(test, find(p, at + 2 * PAGE - 1), 16 + 8 * (s64)i);
		KUNIT_EXPECT_EQ(test, find(p, at + 2 * PAGE), NOT_COVERED);
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
	KUNIT_EXPECT_EQ(test, make(p), 0);
	for (i = 0; i < 8; i++) {
		s64 want = i == 2 ? 8 : i == 5 ? 16 : NOT_COVERED;

		KUNIT_EXPECT_EQ(test, find(p, (10 + i) * PAGE), want);
		KUNIT_EXPECT_EQ(test, find(p, (11 + i) * PAGE - 1), want);
	}
}

/* ------------------------------------------------------------------------ */
/* What is made of rules						      */

static void expect_word(struct kunit *test, const struct unwind_table_rule *from,
			u64 word)
{
	struct unwind_rule rule;

	KUNIT_EXPECT_EQ(test, find_one(test, test->priv, from, &rule),
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

	KUNIT_EXPECT_EQ(test, find_one(test, test->priv, &from, &rule),
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
		KUNIT_EXPECT_EQ(test, find_one(test, test->priv, &rules[i], &rule),
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

	start(p);
	add_run(p, 0);
	add_page(p);
	for (i = 0; i < 100; i++) {
		struct unwind_table_rule from = sp_rule(8 + i);

		if (i % 3)
			from.fp = (struct unwind_table_loc)LOC(CFA, 0, i);
		else if (i % 2)
			from = (struct unwind_table_rule) { };
		add_row(p, i, i);
		add_rule(p, &from);
	}
	KUNIT_EXPECT_EQ(test, make(p), 0);
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

	test->priv = p;
	return p ? 0 : -ENOMEM;
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
	KUNIT_CASE(other_magic_is_refused),
	KUNIT_CASE(other_version_is_refused),
	KUNIT_CASE(other_machine_is_refused),
	KUNIT_CASE(unknown_flag_of_the_header_is_refused),
	KUNIT_CASE(reserved_fields_of_the_header_are_refused),
	KUNIT_CASE(number_of_runs_is_limited),
	KUNIT_CASE(other_numbers_are_limited),
	KUNIT_CASE(size_of_a_block_is_limited),
	KUNIT_CASE(page_without_row_is_refused),
	KUNIT_CASE(first_block_of_a_run_is_checked),
	KUNIT_CASE(empty_run_is_refused),
	KUNIT_CASE(run_beyond_the_largest_file_is_refused),
	KUNIT_CASE(runs_are_apart_and_in_order),
	KUNIT_CASE(runs_have_as_many_pages_as_there_are),
	KUNIT_CASE(page_that_starts_without_a_row_is_refused),
	KUNIT_CASE(row_beyond_its_page_is_refused),
	KUNIT_CASE(rows_go_up),
	KUNIT_CASE(row_without_rule_is_refused),
	KUNIT_CASE(blocks_have_all_rows),
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
