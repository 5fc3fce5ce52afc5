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
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "table.h"

/* Somebody else may run after this many rows or pages. */
#define TABLE_CHUNK		4096

/* The parts of a table as it was handed in, all of them within it */
struct table_parts {
	const struct unwind_table_header	*header;
	const struct unwind_table_run		*runs;
	const u32				*pages;
	const struct unwind_table_row		*rows;
	const struct unwind_table_rule		*rules;
};

static const char *check_header(const struct unwind_table_header *header,
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
	return NULL;
}

/* The limits above keep these sums far from an overflow. */
static const char *find_parts(const void *data, size_t len,
			      struct table_parts *parts)
{
	const struct unwind_table_header *header = data;
	const char *why;
	size_t at;

	why = check_header(header, len);
	if (why)
		return why;

	parts->header = header;
	at = sizeof(*header);
	parts->runs = data + at;
	at += header->nr_runs * sizeof(*parts->runs);
	parts->pages = data + at;
	at += (header->nr_pages + 1) * sizeof(*parts->pages);
	parts->rows = data + at;
	at += header->nr_rows * sizeof(*parts->rows);
	parts->rules = data + at;
	at += header->nr_rules * sizeof(*parts->rules);
	return at == len ? NULL : "length";
}

/* A file has no more pages than fit into loff_t. */
#define TABLE_MAX_PAGE		(1ULL << (63 - UNWIND_TABLE_PAGE_SHIFT))

static const char *check_runs(const struct table_parts *parts)
{
	u64 end = 0, nr_pages = 0;
	unsigned int i;

	for (i = 0; i < parts->header->nr_runs; i++) {
		const struct unwind_table_run *run = &parts->runs[i];

		if (run->reserved)
			return "reserved field of a run";
		if (!run->nr_pages)
			return "empty run";
		if (run->page >= TABLE_MAX_PAGE)
			return "run out of range";
		if (i && run->page <= end)
			return "runs that are not sorted, overlap or touch";
		end = run->page + run->nr_pages;
		nr_pages += run->nr_pages;
	}
	return nr_pages == parts->header->nr_pages ? NULL :
						     "number of pages of the runs";
}

static const char *check_page(const struct table_parts *parts, u32 first,
			      u32 end)
{
	u32 i;

	if (first == end)
		return NULL;
	if (parts->rows[first].offset)
		return "page that does not start with a row";

	for (i = first; i < end; i++) {
		const struct unwind_table_row *row = &parts->rows[i];

		if (row->offset >= UNWIND_TABLE_PAGE_SIZE)
			return "row out of its page";
		if (i > first && row->offset <= row[-1].offset)
			return "rows that are not sorted";
		if (row->rule >= parts->header->nr_rules)
			return "row without rule";
	}
	return NULL;
}

static const char *check_pages(const struct table_parts *parts)
{
	const struct unwind_table_header *header = parts->header;
	const char *why;
	u32 i;

	if (parts->pages[0] || parts->pages[header->nr_pages] != header->nr_rows)
		return "rows outside of the pages";

	for (i = 0; i < header->nr_pages; i++) {
		if (parts->pages[i] > parts->pages[i + 1] ||
		    parts->pages[i + 1] > header->nr_rows)
			return "pages that are not sorted";
		why = check_page(parts, parts->pages[i], parts->pages[i + 1]);
		if (why)
			return why;
		/* A single page may have TABLE_CHUNK rows. */
		if (i % TABLE_CHUNK == 0 || parts->pages[i] / TABLE_CHUNK !=
					    parts->pages[i + 1] / TABLE_CHUNK) {
			cond_resched();
			if (fatal_signal_pending(current))
				return "killed";
		}
	}
	return NULL;
}

/* Take over one place of a rule; @allowed is a mask of enum unwind_table_where. */
static bool take_loc(const struct unwind_table_loc *from, unsigned int allowed,
		     struct unwind_loc *loc)
{
	static const u8 wheres[] = {
		[UNWIND_TABLE_NONE]		= UNWIND_UNDEFINED,
		[UNWIND_TABLE_SAME]		= UNWIND_SAME,
		[UNWIND_TABLE_REG]		= UNWIND_REG,
		[UNWIND_TABLE_REG_DEREF]	= UNWIND_REG_DEREF,
		[UNWIND_TABLE_CFA]		= UNWIND_CFA,
		[UNWIND_TABLE_CFA_DEREF]	= UNWIND_CFA_DEREF,
	};

	if (from->reserved || from->where >= ARRAY_SIZE(wheres) ||
	    !(allowed & BIT(from->where)))
		return false;

	switch (from->where) {
	case UNWIND_TABLE_NONE:
	case UNWIND_TABLE_SAME:
		if (from->off || from->reg)
			return false;
		break;
	case UNWIND_TABLE_REG:
	case UNWIND_TABLE_REG_DEREF:
		if (from->reg >= UNWIND_NR_REGS)
			return false;
		break;
	default:
		if (from->reg)
			return false;
	}

	loc->off = from->off;
	loc->where = wheres[from->where];
	loc->reg = from->reg;
	return true;
}

#define LOC_NONE	BIT(UNWIND_TABLE_NONE)
#define LOC_CFA		(BIT(UNWIND_TABLE_REG) | BIT(UNWIND_TABLE_REG_DEREF))
#define LOC_RA		(LOC_CFA | BIT(UNWIND_TABLE_CFA_DEREF))
#define LOC_FP		(LOC_RA | LOC_NONE | BIT(UNWIND_TABLE_SAME) | BIT(UNWIND_TABLE_CFA))

static const char *take_caller(const struct unwind_table_rule *from,
			       struct unwind_rule *rule)
{
	if (from->flags & ~(UNWIND_TABLE_SIGNAL | UNWIND_TABLE_NEW_THREAD))
		return "flags of a rule";
	if (!take_loc(&from->cfa, LOC_CFA, &rule->cfa))
		return "CFA of a rule";
	if (from->cfa_add && from->cfa.where != UNWIND_TABLE_REG_DEREF)
		return "second offset of a CFA";
	if (!take_loc(&from->ra, LOC_RA, &rule->ra))
		return "return address of a rule";
	if (!take_loc(&from->fp, LOC_FP, &rule->fp))
		return "frame pointer of a rule";

	rule->cfa_add = from->cfa_add;
	rule->signal = from->flags & UNWIND_TABLE_SIGNAL;
	rule->new_thread = from->flags & UNWIND_TABLE_NEW_THREAD;
	unwind_rule_pack(rule);
	return NULL;
}

/*
 * Take over a rule. @rule gets its long form; @word is 0 if the long form is
 * needed, or if the rule does not cover its code.
 */
static const char *take_rule(const struct unwind_table_rule *from,
			     struct unwind_rule *rule, u64 *word)
{
	struct unwind_loc none;
	const char *why;

	*rule = (struct unwind_rule) { };
	if (from->reserved)
		return "reserved field of a rule";
	if (from->kind == UNWIND_TABLE_CALLER) {
		why = take_caller(from, rule);
		*word = rule->word ? rule->word | UNWIND_WORD_FILE : 0;
		return why;
	}

	if (from->flags || from->cfa_add ||
	    !take_loc(&from->cfa, LOC_NONE, &none) ||
	    !take_loc(&from->ra, LOC_NONE, &none) ||
	    !take_loc(&from->fp, LOC_NONE, &none))
		return "rule without caller that says where it is";

	switch (from->kind) {
	case UNWIND_TABLE_NOT_COVERED:
		*word = UNWIND_TABLE_WORD_NOT_COVERED;
		return NULL;
	case UNWIND_TABLE_UNKNOWN:
		*word = UNWIND_WORD_STOP(UNWIND_USER_UNKNOWN) | UNWIND_WORD_FILE;
		return NULL;
	case UNWIND_TABLE_OUTERMOST:
		*word = UNWIND_WORD_TABLE | UNWIND_WORD_OUTERMOST |
			UNWIND_WORD_FILE;
		return NULL;
	default:
		return "kind of a rule";
	}
}

static const char *take_rules(const struct table_parts *parts,
			      struct unwind_table *table,
			      unsigned int *nr_longs)
{
	struct unwind_rule rule;
	const char *why;
	unsigned int i;
	u64 word;

	*nr_longs = 0;
	for (i = 0; i < parts->header->nr_rules; i++) {
		why = take_rule(&parts->rules[i], &rule, &word);
		if (why)
			return why;
		if (parts->rules[i].kind == UNWIND_TABLE_CALLER && !word) {
			word = UNWIND_TABLE_WORD_LONG(*nr_longs);
			if (table)
				table->longs[*nr_longs] = rule;
			++*nr_longs;
		}
		if (table)
			table->words[i] = word;
		if (i % TABLE_CHUNK == 0)
			cond_resched();
	}
	return NULL;
}

/* The more rows a table has, the smaller are its blocks: one for eight rows. */
#define TABLE_MIN_BLOCK_SHIFT	8
#define TABLE_BLOCK_ROWS	8

static u32 page_blocks(unsigned int shift)
{
	return 1U << (UNWIND_TABLE_PAGE_SHIFT - shift);
}

static unsigned int block_shift(const struct unwind_table_header *header)
{
	unsigned int shift = TABLE_MIN_BLOCK_SHIFT;

	while (shift < UNWIND_TABLE_PAGE_SHIFT &&
	       header->nr_pages * page_blocks(shift) * TABLE_BLOCK_ROWS > header->nr_rows)
		shift++;
	return shift;
}

/*
 * Take over the rows of a page to @to, or put one there for a page that has none, and
 * fill in the index of its blocks. Returns the end of the rows.
 */
static struct unwind_table_row *take_page(const struct table_parts *parts, u32 page,
					  struct unwind_table *table,
					  struct unwind_table_row *to)
{
	u32 nr_blocks = page_blocks(table->block_shift);
	u32 *block = &table->blocks[page * nr_blocks];
	u32 nr = parts->pages[page + 1] - parts->pages[page];
	struct unwind_table_row *row = to, *end = to + (nr ?: 1);
	unsigned int i;

	if (nr)
		memcpy(to, &parts->rows[parts->pages[page]], nr * sizeof(*to));
	else
		*to = (struct unwind_table_row) { .rule = table->nr_words };

	for (i = 0; i < nr_blocks; i++) {
		while (row < end && row->offset < i << table->block_shift)
			row++;
		block[i] = row - table->rows - 1;
	}
	return end;
}

static void take_pages(const struct table_parts *parts,
		       struct unwind_table *table)
{
	struct unwind_table_row *to = table->rows;
	u32 page;

	*to++ = (struct unwind_table_row) { .rule = table->nr_words };
	for (page = 0; page < table->nr_pages; page++) {
		to = take_page(parts, page, table, to);
		cond_resched();
	}
	table->blocks[page * page_blocks(table->block_shift)] =
		to - table->rows - 1;
}

/* How many rows there are to keep */
static u32 count_rows(const struct table_parts *parts)
{
	u32 page, nr = 1 + parts->header->nr_rows;

	for (page = 0; page < parts->header->nr_pages; page++)
		nr += parts->pages[page] == parts->pages[page + 1];
	return nr;
}

/* One block for all, the parts with the largest members first. */
static struct unwind_table *alloc_table(const struct table_parts *parts,
					unsigned int nr_longs,
					bool (*charge)(ssize_t size), const char **why)
{
	const struct unwind_table_header *header = parts->header;
	const unsigned int shift = block_shift(header);
	u32 nr_blocks = header->nr_pages * page_blocks(shift) + 1;
	u32 nr_words = header->nr_rules + 1, nr_rows = count_rows(parts);
	struct unwind_table *table;
	size_t size;
	void *at;

	size = sizeof(*table) +
	       header->nr_runs * sizeof(*table->runs) +
	       nr_words * sizeof(*table->words) +
	       nr_longs * sizeof(*table->longs) +
	       header->nr_runs * sizeof(*table->firsts) +
	       nr_blocks * sizeof(*table->blocks) +
	       nr_rows * sizeof(*table->rows);
	if (!charge(size)) {
		*why = "more than kernel.unwind_table_max_kb";
		return ERR_PTR(-ENOSPC);
	}
	table = kvmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL |
			 __GFP_NOWARN);
	if (!table) {
		charge(-size);
		*why = "no memory";
		return ERR_PTR(-ENOMEM);
	}

	table->nr_runs = header->nr_runs;
	table->nr_pages = header->nr_pages;
	table->nr_rows = header->nr_rows;
	table->nr_words = header->nr_rules;
	table->block_shift = shift;
	table->used = false;
	table->serial = 0;
	table->size = size;

	at = table + 1;
	table->runs = at;
	at += header->nr_runs * sizeof(*table->runs);
	table->words = at;
	at += nr_words * sizeof(*table->words);
	table->longs = at;
	at += nr_longs * sizeof(*table->longs);
	table->firsts = at;
	at += header->nr_runs * sizeof(*table->firsts);
	table->blocks = at;
	at += nr_blocks * sizeof(*table->blocks);
	table->rows = at;
	return table;
}

/**
 * unwind_table_make - Check a table and keep what is needed of it
 * @data:	Copy of what was handed in, aligned as u64
 * @len:	Size of the copy in bytes
 * @charge:	Accounts for so many bytes before they are used, or returns false; gives
 *		them back if there are fewer than 0
 * @why:	Gets the reason if the table is refused
 *
 * Context: May sleep.
 * Return: The table; ERR_PTR(-EINVAL) if it is refused, ERR_PTR(-ENOSPC) if @charge
 *	   returns false, ERR_PTR(-ENOMEM) if there is no memory for it,
 *	   ERR_PTR(-EINTR) if the task is being killed.
 */
struct unwind_table *unwind_table_make(const void *data, size_t len,
				       bool (*charge)(ssize_t size), const char **why)
{
	struct table_parts parts;
	struct unwind_table *table;
	unsigned int nr_longs, i;
	u32 first = 0;

	*why = find_parts(data, len, &parts);
	if (!*why)
		*why = check_runs(&parts);
	if (!*why)
		*why = check_pages(&parts);
	if (!*why)
		*why = take_rules(&parts, NULL, &nr_longs);
	if (*why)
		return ERR_PTR(fatal_signal_pending(current) ? -EINTR : -EINVAL);

	table = alloc_table(&parts, nr_longs, charge, why);
	if (IS_ERR(table))
		return table;

	take_rules(&parts, table, &nr_longs);
	for (i = 0; i < table->nr_runs; i++) {
		table->runs[i] = parts.runs[i];
		table->firsts[i] = first;
		first += parts.runs[i].nr_pages * page_blocks(table->block_shift);
	}
	take_pages(&parts, table);
	table->words[table->nr_words] = UNWIND_TABLE_WORD_NOT_COVERED;
	return table;
}
EXPORT_SYMBOL_IF_KUNIT(unwind_table_make);

/**
 * unwind_table_free - Free a table
 * @table:	Table that nobody searches any more, or NULL
 */
void unwind_table_free(struct unwind_table *table)
{
	kvfree(table);
}
EXPORT_SYMBOL_IF_KUNIT(unwind_table_free);
