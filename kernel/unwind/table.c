// SPDX-License-Identifier: GPL-2.0
/*
 * Tables of rules that user space made for a file: check and search.
 *
 * A table that is handed in may be made up. All of it is checked once, in a copy.
 * What is kept has no index that leads outside of it, so a search has to check
 * nothing but the offset that it is asked for.
 */

#include <kunit/visibility.h>
#include <linux/elf.h>
#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "table.h"

static const char *unwind_table_check_header(const struct unwind_table_header *header,
					     size_t len)
{
	if (len < sizeof(*header))
		return "shorter than its header";
	if (header->magic != UNWIND_TABLE_MAGIC)
		return "not a table";
	if (header->version != UNWIND_TABLE_VERSION)
		return "version";
	if (header->machine != EM_X86_64 || header->word_size != sizeof(u64))
		return "for another machine";
	if (header->flags)
		return "flags of the header";
	if (memchr_inv(header->reserved, 0, sizeof(header->reserved)))
		return "reserved fields of the header";
	if (!header->nr_runs || header->nr_runs > UNWIND_TABLE_MAX_RUNS)
		return "number of runs";
	if (!header->nr_pages || header->nr_pages > UNWIND_TABLE_MAX_PAGES)
		return "number of pages";
	if (header->nr_rows > UNWIND_TABLE_MAX_ROWS)
		return "number of rows";
	if (header->nr_rules > UNWIND_TABLE_MAX_RULES)
		return "number of rules";
	if (header->block_shift < UNWIND_TABLE_MIN_BLOCK_SHIFT ||
	    header->block_shift > UNWIND_TABLE_MAX_BLOCK_SHIFT)
		return "size of a block";
	return NULL;
}

/* The limits above keep this, and all sums of lengths, far from an overflow. */
static u32 unwind_table_nr_blocks(const struct unwind_table_header *header)
{
	return header->nr_pages << (UNWIND_TABLE_PAGE_SHIFT - header->block_shift);
}

/* A file has no more pages than fit into loff_t. */
#define TABLE_MAX_PAGE		(1ULL << (63 - UNWIND_TABLE_PAGE_SHIFT))

static const char *unwind_table_check_runs(const struct unwind_table_header *header,
					   const struct unwind_table_run *runs)
{
	u64 end = 0, nr_blocks = 0;
	unsigned int i;

	for (i = 0; i < header->nr_runs; i++) {
		const struct unwind_table_run *run = &runs[i];

		if (!run->nr_pages)
			return "empty run";
		if (run->page >= TABLE_MAX_PAGE)
			return "run out of range";
		if (i && run->page <= end)
			return "runs that are not sorted, overlap or touch";
		if (run->first_block != nr_blocks)
			return "first block of a run";
		end = run->page + run->nr_pages;
		nr_blocks += (u64)run->nr_pages << (UNWIND_TABLE_PAGE_SHIFT - header->block_shift);
	}
	return nr_blocks == unwind_table_nr_blocks(header) ? NULL : "number of pages of the runs";
}

/* Searches rely on the order of the rows, and on each being in the block of its offset. */
static const char *unwind_table_check_rows(const struct unwind_table_header *header,
					   const u32 *blocks,
					   const struct unwind_table_row *rows)
{
	u32 block, row = 0;

	if (blocks[0])
		return "row before the first block";

	for (block = 0; block < unwind_table_nr_blocks(header); block++) {
		u32 last = blocks[block + 1];
		u32 from = block << header->block_shift & (UNWIND_TABLE_PAGE_SIZE - 1);
		u32 end = from + (1 << header->block_shift);

		if (last >= header->nr_rows)
			return "block with rows that do not exist";
		if (!from && (last < row || rows[row].offset))
			return "page that does not start with a row";
		for (; row <= last; row++) {
			if (rows[row].offset < from || rows[row].offset >= end)
				return "row out of its block or not sorted";
			if (rows[row].rule >= header->nr_rules)
				return "row without rule";
			from = rows[row].offset + 1;
		}
		if (row != last + 1)
			return "blocks that are not sorted";
		cond_resched();
		if (fatal_signal_pending(current))
			return "killed";
	}
	return row == header->nr_rows ? NULL : "rows outside of the blocks";
}

#define LOC_REG		(BIT(UNWIND_TABLE_REG) | BIT(UNWIND_TABLE_REG_DEREF))
#define LOC_RA		(LOC_REG | BIT(UNWIND_TABLE_CFA_DEREF))
#define LOC_FP		(LOC_RA | BIT(UNWIND_TABLE_NONE) | BIT(UNWIND_TABLE_SAME) | \
			 BIT(UNWIND_TABLE_CFA))

/* Places have the same numbers. */
static_assert((int)UNWIND_TABLE_NONE == UNWIND_UNDEFINED);
static_assert((int)UNWIND_TABLE_CFA_DEREF == UNWIND_CFA_DEREF);

/* Convert one place of a rule; @allowed is a mask of enum unwind_table_where. */
static bool unwind_table_parse_loc(const struct unwind_table_loc *from, unsigned int allowed,
				   struct unwind_loc *loc)
{
	if (from->reserved || from->where > UNWIND_TABLE_CFA_DEREF ||
	    !(allowed & BIT(from->where)))
		return false;
	if (from->off && from->where <= UNWIND_TABLE_SAME)
		return false;
	if (from->reg && (from->reg >= UNWIND_NR_REGS || !(LOC_REG & BIT(from->where))))
		return false;

	loc->off = from->off;
	loc->where = from->where;
	loc->reg = from->reg;
	return true;
}

static const char *unwind_table_parse_caller(const struct unwind_table_rule *from,
					     struct unwind_rule *rule)
{
	if (from->flags & ~(UNWIND_TABLE_SIGNAL | UNWIND_TABLE_NEW_THREAD |
			    UNWIND_TABLE_NO_CALL))
		return "flags of a rule";
	if (!unwind_table_parse_loc(&from->cfa, LOC_REG, &rule->cfa))
		return "CFA of a rule";
	if (from->cfa_add && from->cfa.where != UNWIND_TABLE_REG_DEREF)
		return "second offset of a CFA";
	if (!unwind_table_parse_loc(&from->ra, LOC_RA, &rule->ra))
		return "return address of a rule";
	if (!unwind_table_parse_loc(&from->fp, LOC_FP, &rule->fp))
		return "frame pointer of a rule";

	rule->cfa_add = from->cfa_add;
	rule->signal = from->flags & UNWIND_TABLE_SIGNAL;
	rule->new_thread = from->flags & UNWIND_TABLE_NEW_THREAD;
	rule->no_call = from->flags & UNWIND_TABLE_NO_CALL;
	unwind_rule_pack(rule);
	return NULL;
}

/*
 * Convert a rule. The word of @rule is 0 if only the long form can be used, or if the
 * rule does not cover its code.
 */
static const char *unwind_table_parse_rule(const struct unwind_table_rule *from,
					   struct unwind_rule *rule)
{
	const struct unwind_table_rule only_kind = { .kind = from->kind };

	*rule = (struct unwind_rule) { };
	if (from->reserved)
		return "reserved field of a rule";
	if (from->kind == UNWIND_TABLE_CALLER)
		return unwind_table_parse_caller(from, rule);
	if (memcmp(from, &only_kind, sizeof(only_kind)))
		return "rule without caller that says where it is";

	switch (from->kind) {
	case UNWIND_TABLE_NOT_COVERED:
		return NULL;
	case UNWIND_TABLE_UNKNOWN:
		rule->word = UNWIND_WORD_STOP(UNWIND_USER_UNKNOWN);
		return NULL;
	case UNWIND_TABLE_OUTERMOST:
		rule->word = UNWIND_WORD_TABLE | UNWIND_WORD_OUTERMOST;
		return NULL;
	default:
		return "kind of a rule";
	}
}

/* Convert the rules; if @words is NULL, only count the long ones. */
static const char *unwind_table_parse_rules(const struct unwind_table_rule *rules, unsigned int nr,
					    u64 *words, struct unwind_rule *longs,
					    unsigned int *nr_longs)
{
	struct unwind_rule rule;
	const char *why;
	unsigned int i;
	u64 word;

	*nr_longs = 0;
	for (i = 0; i < nr; i++) {
		why = unwind_table_parse_rule(&rules[i], &rule);
		if (why)
			return why;
		word = rule.word ? rule.word | UNWIND_WORD_FILE : UNWIND_TABLE_WORD_NOT_COVERED;
		if (!rule.word && rules[i].kind == UNWIND_TABLE_CALLER) {
			word = UNWIND_TABLE_WORD_LONG(*nr_longs);
			if (words)
				longs[*nr_longs] = rule;
			++*nr_longs;
		}
		if (words)
			words[i] = word;
		cond_resched();
	}
	return NULL;
}

/* Copy what may be large. */
static void unwind_table_copy(void *to, const void *from, size_t len)
{
	size_t at, n;

	for (at = 0; at < len; at += n) {
		n = min_t(size_t, len - at, SZ_1M);
		memcpy(to + at, from + at, n);
		cond_resched();
	}
}

/**
 * unwind_table_make - Check a table and keep what is needed of it
 * @data:	Copy of what was handed in, aligned as u64
 * @len:	Size of the copy in bytes
 * @why:	Gets the reason if the table is refused
 *
 * Context: May sleep.
 * Return: The table, to be freed by kvfree(); ERR_PTR(-EINVAL) if it is refused,
 *	   ERR_PTR(-ENOMEM) if there is no memory for it, ERR_PTR(-EINTR) if the task is
 *	   being killed.
 */
struct unwind_table *unwind_table_make(const void *data, size_t len, const char **why)
{
	const struct unwind_table_header *header = data;
	const struct unwind_table_run *runs = data + sizeof(*header);
	const struct unwind_table_rule *rules;
	const struct unwind_table_row *rows;
	struct unwind_table *table;
	struct unwind_rule *longs;
	unsigned int nr_longs;
	const u32 *blocks;
	size_t size, kept;
	u64 *words;

	*why = unwind_table_check_header(header, len);
	if (*why)
		return ERR_PTR(-EINVAL);
	blocks = (const void *)(runs + header->nr_runs);
	rows = (const void *)(blocks + unwind_table_nr_blocks(header) + 1);
	rules = (const void *)(rows + header->nr_rows);
	if ((const void *)(rules + header->nr_rules) - data != len)
		*why = "length";
	if (!*why)
		*why = unwind_table_check_runs(header, runs);
	if (!*why)
		*why = unwind_table_check_rows(header, blocks, rows);
	if (!*why)
		*why = unwind_table_parse_rules(rules, header->nr_rules, NULL, NULL, &nr_longs);
	if (*why)
		return ERR_PTR(fatal_signal_pending(current) ? -EINTR : -EINVAL);

	kept = (const void *)rules - (const void *)runs;
	size = sizeof(*table) + header->nr_rules * sizeof(*words) +
	       nr_longs * sizeof(*longs) + kept;
	table = kvmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	if (!table) {
		*why = "no memory";
		return ERR_PTR(-ENOMEM);
	}

	words = (void *)(table + 1);
	longs = (void *)(words + header->nr_rules);
	unwind_table_parse_rules(rules, header->nr_rules, words, longs, &nr_longs);
	unwind_table_copy(longs + nr_longs, runs, kept);
	runs = (void *)(longs + nr_longs);
	blocks = (void *)(runs + header->nr_runs);
	*table = (struct unwind_table) {
		.nr_runs	= header->nr_runs,
		.nr_rows	= header->nr_rows,
		.block_shift	= header->block_shift,
		.size		= size,
		.runs		= runs,
		.blocks		= blocks,
		.rows		= (void *)(blocks + unwind_table_nr_blocks(header) + 1),
		.words		= words,
		.longs		= longs,
	};
	return table;
}
EXPORT_SYMBOL_IF_KUNIT(unwind_table_make);
