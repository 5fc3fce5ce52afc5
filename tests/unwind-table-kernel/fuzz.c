// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: tables of rules for files. For any bytes there must be no read
 * outside of them (ASan), and no undefined behaviour (UBSan); and a table that is
 * accepted must give, at each of its edges, the answer that the bytes stand for. That
 * is computed here in the simplest way, see want().
 *
 * Input: struct params, then the table; or, if @made, the parts of a table that
 * passes most checks.
 */

#include <stdio.h>

#include "../../kernel/unwind/tests/rule_unpack.h"
#include "../table.h"

struct params {
	u64 offset;		/* Another place to look up */
	u8 made;
	u8 nr_runs;
	u16 spoil;		/* Where a byte of a made table is changed */
	u8 spoil_to;
	u8 cut;			/* Bytes that are missing at the end */
	u8 nr_rules;
	u8 block_shift;
};

#define MOST_RUNS	66
#define MOST_PAGES	1024
#define MOST_ROWS	4096
#define MOST_RULES	256
#define MOST_BYTES							\
	(sizeof(struct unwind_table_header) +				\
	 MOST_RUNS * sizeof(struct unwind_table_run) +			\
	 (16 * MOST_PAGES + 2) * sizeof(u32) +				\
	 MOST_ROWS * sizeof(struct unwind_table_row) +			\
	 MOST_RULES * sizeof(struct unwind_table_rule))

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

/* ------------------------------------------------------------------------ */
/* The simplest reader of a table that was taken			      */

struct reader {
	const struct unwind_table_header	*header;
	const struct unwind_table_run		*runs;
	const struct unwind_table_row		*rows;
	const struct unwind_table_rule		*rules;
	u64					nr_blocks;
	u32					*firsts;	/* Rows of pages */
};

/* Each page begins with a row at 0. Blocks need not be looked at. */
static struct reader reader_of(const void *data)
{
	static u32 firsts[MOST_BYTES / sizeof(struct unwind_table_row) + 1];
	const struct unwind_table_header *header = data;
	struct reader r = { .header = header, .firsts = firsts };
	u32 row, page = 0;

	r.runs = (const void *)(header + 1);
	r.nr_blocks = (u64)header->nr_pages << (12 - header->block_shift);
	r.rows = (const void *)((const u32 *)(r.runs + header->nr_runs) + r.nr_blocks + 1);
	r.rules = (const void *)(r.rows + header->nr_rows);
	for (row = 0; row < header->nr_rows; row++) {
		if (!r.rows[row].offset)
			firsts[page++] = row;
	}
	check(page == header->nr_pages, "number of pages");
	firsts[page] = row;
	return r;
}

/* The rule for a place, or NULL */
static const struct unwind_table_rule *want(const struct reader *r, u64 offset)
{
	const struct unwind_table_rule *found = NULL;
	u64 page = offset >> 12, index = 0;
	u32 i, row;

	for (i = 0; i < r->header->nr_runs; i++) {
		if (page >= r->runs[i].page &&
		    page - r->runs[i].page < r->runs[i].nr_pages)
			break;
		index += r->runs[i].nr_pages;
	}
	if (i == r->header->nr_runs)
		return NULL;
	index += page - r->runs[i].page;
	for (row = r->firsts[index]; row < r->firsts[index + 1]; row++) {
		if (r->rows[row].offset <= (offset & 4095))
			found = &r->rules[r->rows[row].rule];
	}
	return found && found->kind != UNWIND_TABLE_NOT_COVERED ? found : NULL;
}

static void check_loc(const struct unwind_loc *loc,
		      const struct unwind_table_loc *from)
{
	static const u8 wheres[] = {
		UNWIND_UNDEFINED, UNWIND_SAME, UNWIND_REG, UNWIND_REG_DEREF,
		UNWIND_CFA, UNWIND_CFA_DEREF,
	};

	check(from->where < sizeof(wheres) && loc->where == wheres[from->where],
	      "place of a value");
	check(loc->reg == from->reg && loc->reg < UNWIND_NR_REGS, "register");
	check(loc->off == from->off, "offset");
}

static void check_rule(struct unwind_rule rule, const struct unwind_table_rule *from)
{
	u64 word = rule.word;

	if (from->kind == UNWIND_TABLE_OUTERMOST) {
		check(word == 0x1003, "word of the outermost frame");
		return;
	}
	if (from->kind == UNWIND_TABLE_UNKNOWN) {
		check(word == (0x1005 | (u64)UNWIND_USER_UNKNOWN << 16),
		      "word of an unknown frame");
		return;
	}
	check(from->kind == UNWIND_TABLE_CALLER, "kind of a rule");
	if (word) {
		check((word & 0xffff & ~8ULL) == 0x1001, "flags of a word");
		check(unwind_word_cfa_off(word) > 0, "SP that moves up");
		check(unwind_word_depth(word) >= 8 &&
		      unwind_word_depth(word) <= UNWIND_WORD_MAX_DEPTH, "depth");
		check(!from->flags, "flags that a word does not have");
		unwind_rule_unpack(&rule);
	}
	check(rule.signal == !!(from->flags & UNWIND_TABLE_SIGNAL), "signal");
	check(rule.new_thread == !!(from->flags & UNWIND_TABLE_NEW_THREAD),
	      "new thread");
	check(rule.no_call == !!(from->flags & UNWIND_TABLE_NO_CALL), "no call");
	check(!rule.outermost, "not outermost");
	check(rule.cfa_add == from->cfa_add, "second offset");
	check_loc(&rule.cfa, &from->cfa);
	check_loc(&rule.ra, &from->ra);
	check_loc(&rule.fp, &from->fp);
}

static void look_up(const struct unwind_table *table, const struct reader *r,
		    u64 offset)
{
	const struct unwind_table_rule *from = want(r, offset);
	enum unwind_user_status status;
	struct unwind_rule rule;

	memset(&rule, 0, sizeof(rule));
	status = unwind_table_find(table, offset, &rule);
	if (!from) {
		check(status == UNWIND_USER_NO_RULE, "covered, but should not");
		return;
	}
	check(status == UNWIND_USER_FOUND, "not covered, but should");
	check_rule(rule, from);
}

static void look_around(const struct unwind_table *table, const struct reader *r,
			u64 offset)
{
	look_up(table, r, offset - 1);
	look_up(table, r, offset);
	look_up(table, r, offset + 1);
}

static void look_everywhere(const struct unwind_table *table,
			    const struct reader *r)
{
	u32 i, page, row, index = 0;

	for (i = 0; i < r->header->nr_runs; i++) {
		for (page = 0; page < r->runs[i].nr_pages; page++, index++) {
			u64 at = (r->runs[i].page + page) << 12;

			look_around(table, r, at);
			look_around(table, r, at + 4095);
			for (row = r->firsts[index]; row < r->firsts[index + 1]; row++)
				look_around(table, r, at + r->rows[row].offset);
		}
	}
}

static void fuzz_table(const void *data, size_t len, const struct params *params)
{
	struct unwind_table *table;
	const char *why = NULL;
	struct reader r;
	void *copy;

	/* So that a byte too much is noticed */
	copy = malloc(len);
	memcpy(copy, data, len);
	table = unwind_table_make(copy, len, &why);
	if (IS_ERR(table)) {
		check(PTR_ERR(table) == -EINVAL && why, "reason to refuse it");
		free(copy);
		return;
	}
	check(!why, "no reason to refuse it");
	r = reader_of(data);
	check(sizeof(*r.header) + r.header->nr_runs * sizeof(*r.runs) +
	      (r.nr_blocks + 1) * 4 + r.header->nr_rows * 4UL +
	      r.header->nr_rules * sizeof(*r.rules) == len, "length");

	/* It does not need the bytes that were handed in. */
	memset(copy, 0xff, len);
	free(copy);

	look_up(table, &r, 0);
	look_up(table, &r, U64_MAX);
	look_up(table, &r, params->offset);
	look_up(table, &r, params->offset << 12);
	look_everywhere(table, &r);
	kvfree(table);
}

/* ------------------------------------------------------------------------ */
/* Tables that pass most checks						      */

static const u8 *bytes;
static size_t nr_bytes;

static u8 take(void)
{
	if (!nr_bytes)
		return 0;
	nr_bytes--;
	return *bytes++;
}

static u64 take_number(unsigned int size)
{
	u64 val = 0;

	while (size--)
		val = val << 8 | take();
	return val;
}

static struct unwind_table_loc take_loc(void)
{
	struct unwind_table_loc loc = { .where = take() % 6 };

	if (loc.where == UNWIND_TABLE_REG || loc.where == UNWIND_TABLE_REG_DEREF)
		loc.reg = take() % 17;
	if (loc.where > UNWIND_TABLE_SAME)
		loc.off = take() & 1 ? (s32)take_number(4) : 8 * (s8)take();
	return loc;
}

static struct unwind_table_rule take_rule(void)
{
	struct unwind_table_rule rule = { .kind = take() % 8 };

	if (rule.kind < UNWIND_TABLE_CALLER)
		return rule;
	/* Most are ordinary. */
	if (rule.kind > 4) {
		rule.cfa.where = UNWIND_TABLE_REG;
		rule.cfa.reg = rule.kind;
		rule.cfa.off = 8 * (s8)take();
		rule.ra.where = UNWIND_TABLE_CFA_DEREF;
		rule.ra.off = -8;
		rule.fp.where = UNWIND_TABLE_SAME;
		if (take() & 1) {
			rule.fp.where = UNWIND_TABLE_CFA_DEREF;
			rule.fp.off = (s16)take_number(2);
		}
	} else {
		rule.cfa = take_loc();
		rule.ra = take_loc();
		rule.fp = take_loc();
		rule.flags = take() & 3;
		if (rule.cfa.where == UNWIND_TABLE_REG_DEREF)
			rule.cfa_add = (s32)take_number(4);
	}
	rule.kind = UNWIND_TABLE_CALLER;
	return rule;
}

/* A table by the input, for which @out has room. Returns its length. */
static size_t make_table(const struct params *params, u8 *out)
{
	static struct unwind_table_run runs[MOST_RUNS];
	static struct unwind_table_row rows[MOST_ROWS];
	static struct unwind_table_rule rules[MOST_RULES];
	static u32 blocks[16 * MOST_PAGES + 1];
	struct unwind_table_header header = {
		.magic = UNWIND_TABLE_MAGIC,
		.version = UNWIND_TABLE_VERSION,
		.machine = EM_X86_64,
		.word_size = 8,
		.block_shift = 8 + params->block_shift % 5,
	};
	u32 page_blocks = 1U << (12 - header.block_shift);
	u64 page = 0;
	size_t len;
	u32 i, n, k;

	header.nr_rules = 1 + params->nr_rules % MOST_RULES;
	for (i = 0; i < header.nr_rules; i++)
		rules[i] = take_rule();

	header.nr_runs = 1 + params->nr_runs % MOST_RUNS;
	for (i = 0; i < header.nr_runs; i++) {
		u8 how = take();

		page += (i ? 1 : 0) + (how & 0x80 ? take_number(7) % (1ULL << 45) : how >> 4);
		runs[i] = (struct unwind_table_run) {
			.page = page,
			.first_block = header.nr_pages * page_blocks,
		};
		for (n = 0; n <= (how & 15) && header.nr_pages < MOST_PAGES; n++) {
			u32 *to = &blocks[header.nr_pages++ * page_blocks + 1];
			u8 nr_rows = 1 + take() % 64, row;
			u32 offset = 0;

			memset(to, 0, page_blocks * sizeof(*to));
			for (row = 0; row < nr_rows && header.nr_rows < MOST_ROWS &&
			     offset < 4096; row++) {
				for (k = offset >> header.block_shift; k < page_blocks; k++)
					to[k] = header.nr_rows;
				rows[header.nr_rows++] = (struct unwind_table_row) {
					offset, take() % header.nr_rules
				};
				offset += 1 + (take() & 0x7f) * (row & 1 ? 1 : 16);
			}
			runs[i].nr_pages++;
		}
		page += runs[i].nr_pages;
	}

	len = 0;
#define PUT(from, size) do { memcpy(out + len, from, size); len += (size); } while (0)
	PUT(&header, sizeof(header));
	PUT(runs, header.nr_runs * sizeof(runs[0]));
	PUT(blocks, (header.nr_pages * page_blocks + 1) * sizeof(blocks[0]));
	PUT(rows, header.nr_rows * sizeof(rows[0]));
	PUT(rules, header.nr_rules * sizeof(rules[0]));
	if (params->made & 2)
		out[params->spoil % len] = params->spoil_to;
	if (params->made & 4)
		len -= params->cut % len;
	return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static u64 made[MOST_BYTES / 8];
	struct params params;
	size_t len;

	if (size < sizeof(params))
		return 0;
	memcpy(&params, data, sizeof(params));
	data += sizeof(params);
	size -= sizeof(params);

	if (params.made & 1) {
		bytes = data;
		nr_bytes = size;
		len = make_table(&params, (u8 *)made);
	} else {
		len = size < sizeof(made) ? size : sizeof(made);
		memcpy(made, data, len);
	}
	fuzz_table(made, len, &params);
	return 0;
}
