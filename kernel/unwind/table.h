/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_TABLE_H
#define _KERNEL_UNWIND_TABLE_H

/*
 * Tables of rules that user space made for a file, see uapi/linux/unwind_table.h:
 * the check of what was handed in, and the search in what was kept. Neither takes
 * locks or knows about files. Also builds in user space, for tests.
 */

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/nospec.h>
#include <linux/types.h>
#include <linux/unwind_rule.h>
#include <linux/unwind_user_types.h>

#include <uapi/linux/unwind_table.h>

/**
 * struct unwind_table - A table that was checked, and does not change any more
 * @nr_runs:	Number of runs
 * @nr_rows:	Number of rows
 * @block_shift: A block is so many bytes, as a power of two, at most a page
 * @serial:	Names it in the trace
 * @random:	Number that marks its rules in the cache, see rule_cache.h
 * @size:	Bytes of memory that all this takes
 * @runs:	As handed in
 * @blocks:	As handed in
 * @rows:	As handed in
 * @words:	By rule, its word or one of the two values below
 * @longs:	Rules in their long form
 * @owner:	Names the descriptor that it came through, and counts its attachments
 * @attached:	Where it is attached; protected by the lock of table_file.c
 * @rcu:	To free it
 */
struct unwind_table {
	unsigned int			nr_runs;
	unsigned int			nr_rows;
	unsigned int			block_shift;
	u64				serial;
	u64				random;
	size_t				size;
	const struct unwind_table_run	*runs;
	const u32			*blocks;
	const struct unwind_table_row	*rows;
	const u64			*words;
	const struct unwind_rule	*longs;
	atomic_t			*owner;
	struct list_head		attached;
	struct rcu_head			rcu;
};

struct unwind_table *unwind_table_make(const void *data, size_t len, const char **why);

/*
 * A rule is a word, as with any other provider, or has a value that no word has:
 * 0 if it does not cover its code; or the index of a long rule, shifted up and
 * with the lowest bit clear.
 */
#define UNWIND_TABLE_WORD_NOT_COVERED	0ULL
#define UNWIND_TABLE_WORD_LONG(index)	(((u64)(index) << 1 | 1) << 1)
#define UNWIND_TABLE_WORD_IS_LONG(word)	(!((word) & UNWIND_WORD_TABLE))
#define UNWIND_TABLE_WORD_LONG_INDEX(word)	((word) >> 2)

/*
 * Find the last of @nr rows that is not after a place in their page; the first one counts
 * as such, whatever its offset says. The search is in the first or the last 2^n rows, which
 * overlap. Wherever a speculating CPU gets to, it is one of these rows.
 */
static __always_inline const struct unwind_table_row *
unwind_table_row(const struct unwind_table_row *row, unsigned long nr, u16 offset)
{
	unsigned long half = 1UL << __fls(nr);

	if (row[nr - half].offset <= offset)
		row += nr - half;
	for (half /= 2; half; half /= 2) {
		if (row[half].offset <= offset)
			row += half;
	}
	return row;
}

/* The word for a place in the file. Calls nothing, for use with user access enabled. */
static __always_inline u64 unwind_table_word(const struct unwind_table *table, u64 offset)
{
	const struct unwind_table_run *run = table->runs;
	const u32 *first;
	unsigned int i;
	u64 at, len;

	/* Nearly all files have one run. */
	for (i = 0;; run = &table->runs[array_index_nospec(i, table->nr_runs)]) {
		at = offset - (run->page << UNWIND_TABLE_PAGE_SHIFT);
		len = (u64)run->nr_pages << UNWIND_TABLE_PAGE_SHIFT;
		if (likely(at < len))
			break;
		if (++i == table->nr_runs)
			return UNWIND_TABLE_WORD_NOT_COVERED;
	}
	/* The CPU may speculate past the compare. */
	at = array_index_nospec(at, len);
	first = &table->blocks[run->first_block + (at >> table->block_shift)];
	/*
	 * The last row before the block may still apply. If it is of another page, the
	 * block begins with a row.
	 */
	return table->words[unwind_table_row(&table->rows[first[0]], first[1] - first[0] + 1,
					     at & (UNWIND_TABLE_PAGE_SIZE - 1))->rule];
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
	u64 word = unwind_table_word(table, offset);

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
