/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_TABLE_H
#define _KERNEL_UNWIND_TABLE_H

/*
 * Tables of rules that user space made for a file, see uapi/linux/unwind_table.h:
 * the check of what was handed in, and the search in what was kept. Neither takes
 * locks or knows about files. Also builds in user space, for tests.
 */

#include <linux/nospec.h>
#include <linux/types.h>
#include <linux/unwind_rule.h>
#include <linux/unwind_user_types.h>

#include <uapi/linux/unwind_table.h>

/**
 * struct unwind_table - A table that was checked, and does not change any more
 * @nr_runs:	Number of runs
 * @nr_pages:	Number of pages in all of them
 * @nr_rows:	Number of rows
 * @nr_words:	Number of rules
 * @serial:	Names it in the trace
 * @used:	A walk has found a rule in it
 * @size:	Bytes of memory that all this takes
 * @runs:	Pages of the file that follow one another
 * @firsts:	By run, the index of its first page in @pages
 * @pages:	By page, the index of its first row; one more for the end
 * @rows:	Rows
 * @words:	By rule, what is to be done; see unwind_table_find()
 * @longs:	Rules in their long form
 * @bx:		By rule, where the caller's rbx is, as unwind_table_rule::bx; NULL if no
 *		rule says that
 */
struct unwind_table {
	unsigned int			nr_runs;
	unsigned int			nr_pages;
	unsigned int			nr_rows;
	unsigned int			nr_words;
	bool				used;
	u64				serial;
	size_t				size;
	struct unwind_table_run		*runs;
	u32				*firsts;
	u32				*pages;
	struct unwind_table_row		*rows;
	u64				*words;
	struct unwind_rule		*longs;
	u16				*bx;
};

struct unwind_table *unwind_table_make(const void *data, size_t len,
				       const char **why);
void unwind_table_free(struct unwind_table *table);

/*
 * What is to be done is a word, as for any other provider, with two values that
 * no word has: nothing, as for a rule that does not cover its code; or the index
 * of a long rule, shifted up and with the lowest bit clear.
 */
#define UNWIND_TABLE_WORD_NOT_COVERED	0ULL
#define UNWIND_TABLE_WORD_LONG(index)	(((u64)(index) << 1 | 1) << 1)
#define UNWIND_TABLE_WORD_IS_LONG(word)	(!((word) & UNWIND_WORD_TABLE))
#define UNWIND_TABLE_WORD_LONG_INDEX(word)	((word) >> 2)

/* The row that applies at a place in a page, which has @nr rows (1 or more) at @row */
static inline const struct unwind_table_row *
unwind_table_row(const struct unwind_table_row *row, u32 nr, u16 offset)
{
	while (nr > 1) {
		u32 half = nr / 2;

		if (row[half].offset <= offset)
			row += half;
		nr -= half;
	}
	return row;
}

/* The row that counts for a place in the file, NULL if that is not covered */
static __always_inline const struct unwind_table_row *
unwind_table_find_row(const struct unwind_table *table, u64 offset)
{
	u64 page = offset >> UNWIND_TABLE_PAGE_SHIFT;
	const struct unwind_table_run *run = table->runs;
	unsigned int i = 0;
	const u32 *first;

	/* Files have one run, but for a few. */
	while (unlikely(page - run->page >= run->nr_pages)) {
		if (++i == table->nr_runs)
			return NULL;
		i = array_index_nospec(i, table->nr_runs);
		run = &table->runs[i];
	}

	/* The CPU may be ahead of the compare. */
	first = &table->pages[table->firsts[i] +
			      array_index_nospec(page - run->page, run->nr_pages)];
	if (first[0] == first[1])
		return NULL;

	return unwind_table_row(&table->rows[first[0]], first[1] - first[0],
				offset & (UNWIND_TABLE_PAGE_SIZE - 1));
}

/**
 * unwind_table_find - Find the rule for a place in the file
 * @table:	Table
 * @offset:	Offset in the file, of an address that user space may have made up
 * @rule:	Gets the rule. If it has a word, nothing else is set
 *
 * Context: Any. The caller makes sure that @table stays.
 * Return: UNWIND_USER_FOUND, with a word if the rule fits into one, as the end of
 *	   a walk does; UNWIND_USER_NO_RULE if the place is not covered.
 */
static inline enum unwind_user_status
unwind_table_find(const struct unwind_table *table, u64 offset,
		  struct unwind_rule *rule)
{
	const struct unwind_table_row *row = unwind_table_find_row(table, offset);
	u64 word;

	if (!row)
		return UNWIND_USER_NO_RULE;
	/* Rows were checked, but one after the last may be read ahead of a compare. */
	word = table->words[array_index_nospec(row->rule, table->nr_words)];
	if (likely(!UNWIND_TABLE_WORD_IS_LONG(word))) {
		rule->word = word;
		return UNWIND_USER_FOUND;
	}
	if (word == UNWIND_TABLE_WORD_NOT_COVERED)
		return UNWIND_USER_NO_RULE;

	*rule = table->longs[UNWIND_TABLE_WORD_LONG_INDEX(word)];
	return UNWIND_USER_FOUND;
}

/**
 * unwind_table_find_bx - Find where the caller's rbx is
 * @table:	Table
 * @offset:	Offset in the file, of an address that user space may have made up
 *
 * Context: Any. The caller makes sure that @table stays.
 * Return: As unwind_table_rule::bx; 0 if the table does not say it.
 */
static inline u16 unwind_table_find_bx(const struct unwind_table *table,
				       u64 offset)
{
	const struct unwind_table_row *row;

	if (!table->bx)
		return 0;
	row = unwind_table_find_row(table, offset);
	/* See above. */
	return row ? table->bx[array_index_nospec(row->rule, table->nr_words)] : 0;
}

#endif /* _KERNEL_UNWIND_TABLE_H */
