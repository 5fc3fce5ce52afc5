/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_TABLE_H
#define _KERNEL_UNWIND_TABLE_H

/*
 * Tables of rules that user space made for a file, see uapi/linux/unwind_table.h:
 * the check of what it handed in, and the search in what was kept. Neither takes
 * locks or knows of files; also builds in user space, for tests.
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

/* The row that counts for a place in a page, of @nr rows at @row, more than 0 */
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

/**
 * unwind_table_find - Find the rule for a place in the file
 * @table:	Table
 * @offset:	Offset in the file, of an address that user space may have made up
 * @rule:	The rule. If it has a word, nothing else is set
 *
 * Context: Any. What keeps @table is the caller's affair.
 * Return: UNWIND_USER_FOUND, with a word for whatever can be said in one, an end
 *	   of the walk included; UNWIND_USER_NO_RULE if the place is not covered.
 */
static inline enum unwind_user_status
unwind_table_find(const struct unwind_table *table, u64 offset,
		  struct unwind_rule *rule)
{
	u64 page = offset >> UNWIND_TABLE_PAGE_SHIFT;
	const struct unwind_table_run *run = table->runs;
	const struct unwind_table_row *row;
	unsigned int i = 0;
	const u32 *first;
	u64 word;

	/* Files have one run, but for a few. */
	while (unlikely(page - run->page >= run->nr_pages)) {
		if (++i == table->nr_runs)
			return UNWIND_USER_NO_RULE;
		i = array_index_nospec(i, table->nr_runs);
		run = &table->runs[i];
	}

	/* The CPU may be ahead of the compare. */
	first = &table->pages[table->firsts[i] +
			      array_index_nospec(page - run->page, run->nr_pages)];
	if (first[0] == first[1])
		return UNWIND_USER_NO_RULE;

	row = unwind_table_row(&table->rows[first[0]], first[1] - first[0],
			       offset & (UNWIND_TABLE_PAGE_SIZE - 1));
	word = table->words[row->rule];
	if (likely(!UNWIND_TABLE_WORD_IS_LONG(word))) {
		rule->word = word;
		return UNWIND_USER_FOUND;
	}
	if (word == UNWIND_TABLE_WORD_NOT_COVERED)
		return UNWIND_USER_NO_RULE;

	*rule = table->longs[UNWIND_TABLE_WORD_LONG_INDEX(word)];
	return UNWIND_USER_FOUND;
}

#endif /* _KERNEL_UNWIND_TABLE_H */
