// SPDX-License-Identifier: GPL-2.0
/*
 * Rows, rules and pages of the table that is being made. Code is added in the
 * order of the file, each byte once.
 */

#include <errno.h>
#include <linux/elf-em.h>
#include <stdlib.h>

#include "internal.h"

#define RECENT_BITS	9

struct recent {
	__u64	key;
	int	index;
};

struct ut_rows {
	struct ut_build			*build;
	struct unwind_table_stats	*stats;

	struct unwind_table_run		runs[UNWIND_TABLE_MAX_RUNS];
	unsigned int			nr_runs;
	unsigned int			run;		/* of the current page */
	__u32				*pages;		/* first rows of pages */
	__u32				nr_pages;
	__u32				page;		/* index of the current one */
	__u64				page_start;	/* its offset in the file */

	struct unwind_table_row		*rows;
	__u32				nr_rows;
	size_t				max_rows;

	struct unwind_table_rule	*rules;
	__u32				nr_rules;
	__u32				max_rules;
	/* Hash of the rules: index + 1, open addressing, a power of two */
	__u32				*hash;
	__u32				hash_size;

	struct recent			recent[1 << RECENT_BITS];

	const struct ut_patch		*patch;		/* the next one, if there are any */
	__u64				end;		/* of what was added */
	int				last;		/* its rule */
	enum unwind_table_reason	reason;		/* why that is unknown, or its FP */

	/* Added together with the code after it */
	struct ut_gap			gap;
	bool				has_gap;
};

/* Pages with code; neighbours are one run. Segments may share a page. */
static int make_runs(struct ut_rows *rows)
{
	const struct ut_elf *elf = &rows->build->elf;
	unsigned int i;

	for (i = 0; i < elf->nr_code; i++) {
		const struct ut_segment *segment = &elf->code[i];
		__u64 first = segment->offset >> UNWIND_TABLE_PAGE_SHIFT;
		__u64 end = ((segment->offset + segment->len - 1) >>
			     UNWIND_TABLE_PAGE_SHIFT) + 1;
		struct unwind_table_run *run = &rows->runs[rows->nr_runs];

		if (end - first > UNWIND_TABLE_MAX_PAGES)
			return -EFBIG;
		if (i && first <= run[-1].page + run[-1].nr_pages) {
			run--;
			rows->nr_pages -= run->nr_pages;
			run->nr_pages = end - run->page;
		} else {
			if (rows->nr_runs == UNWIND_TABLE_MAX_RUNS)
				return -EFBIG;
			run->page = first;
			run->nr_pages = end - first;
			rows->nr_runs++;
		}
		rows->nr_pages += run->nr_pages;
		if (rows->nr_pages > UNWIND_TABLE_MAX_PAGES)
			return -EFBIG;
	}
	return 0;
}

/* Rules are compared and hashed all the time, so as words. */
struct words {
	__u64	w[4];
};

static inline struct words words_of(const struct unwind_table_rule *rule)
{
	struct words words;

	_Static_assert(sizeof(words) == sizeof(*rule), "a rule has four words");
	memcpy(&words, rule, sizeof(words));
	return words;
}

static inline bool same_rule(const struct unwind_table_rule *rule, struct words b)
{
	struct words a = words_of(rule);

	return !((a.w[0] ^ b.w[0]) | (a.w[1] ^ b.w[1]) | (a.w[2] ^ b.w[2]) |
		 (a.w[3] ^ b.w[3]));
}

static __u32 *slot_of(const struct ut_rows *rows, const struct unwind_table_rule *rule)
{
	struct words words = words_of(rule);
	__u64 hash = words.w[0] * 0x9e3779b97f4a7c15ULL ^
		     words.w[1] * 0xbf58476d1ce4e5b9ULL ^
		     words.w[2] * 0x94d049bb133111ebULL ^
		     words.w[3] * 0xd6e8feb86659fd93ULL;
	__u32 mask = rows->hash_size - 1, i = (hash ^ hash >> 32) & mask;

	while (rows->hash[i] && !same_rule(&rows->rules[rows->hash[i] - 1], words))
		i = (i + 1) & mask;
	return &rows->hash[i];
}

static int grow_rules(struct ut_rows *rows)
{
	__u32 max = rows->max_rules ? 2 * rows->max_rules : 256, i;
	struct unwind_table_rule *rules;
	__u32 *hash;

	rules = realloc(rows->rules, max * sizeof(*rules));
	if (!rules)
		return -ENOMEM;
	rows->rules = rules;
	hash = calloc(2 * max, sizeof(*hash));
	if (!hash)
		return -ENOMEM;
	free(rows->hash);
	rows->hash = hash;
	rows->hash_size = 2 * max;
	rows->max_rules = max;
	for (i = 0; i < rows->nr_rules; i++)
		*slot_of(rows, &rules[i]) = i + 1;
	return 0;
}

/* Index of a rule, or of the unknown one where no more are possible */
static int index_of(struct ut_rows *rows, const struct unwind_table_rule *rule)
{
	__u32 *slot = slot_of(rows, rule);
	int err;

	if (*slot)
		return *slot - 1;
	if (rows->nr_rules == UNWIND_TABLE_MAX_RULES)
		return UT_RULE_UNKNOWN;
	if (rows->nr_rules == rows->max_rules) {
		err = grow_rules(rows);
		if (err)
			return err;
		slot = slot_of(rows, rule);
	}
	rows->rules[rows->nr_rules] = *rule;
	*slot = ++rows->nr_rules;
	return rows->nr_rules - 1;
}

struct ut_rows *ut_rows_new(struct ut_build *build, int *err)
{
	static const struct unwind_table_rule
		not_covered = { .kind = UNWIND_TABLE_NOT_COVERED },
		unknown = { .kind = UNWIND_TABLE_UNKNOWN };
	struct ut_rows *rows = calloc(1, sizeof(*rows));

	*err = -ENOMEM;
	if (!rows)
		return NULL;
	rows->build = build;
	rows->patch = build->patches;
	rows->stats = build->stats;
	rows->reason = UT_NO_REASON;
	*err = make_runs(rows);
	if (!*err)
		*err = grow_rules(rows);
	if (*err)
		goto err;
	*err = -ENOMEM;
	rows->pages = calloc(rows->nr_pages + 1, sizeof(*rows->pages));
	if (!rows->pages)
		goto err;
	/* These two are there always, at the same place. */
	index_of(rows, &not_covered);
	index_of(rows, &unknown);
	rows->page_start = rows->runs[0].page << UNWIND_TABLE_PAGE_SHIFT;
	rows->end = rows->page_start;
	*err = 0;
	return rows;
err:
	ut_rows_free(rows);
	return NULL;
}

void ut_rows_free(struct ut_rows *rows)
{
	if (!rows)
		return;
	free(rows->pages);
	free(rows->rows);
	free(rows->rules);
	free(rows->hash);
	free(rows);
}

/* A row of the current page; one with the same rule goes on instead. */
static int add_row(struct ut_rows *rows, __u64 start, __u16 rule)
{
	struct unwind_table_row *more;
	__u32 nr = rows->nr_rows;

	if (nr > rows->pages[rows->page] && rows->rows[nr - 1].rule == rule)
		return 0;
	if (nr == UNWIND_TABLE_MAX_ROWS)
		return -EFBIG;
	more = ut_grow(rows->rows, nr, &rows->max_rows, sizeof(*more));
	if (!more)
		return -ENOMEM;
	rows->rows = more;
	more[nr].offset = start - rows->page_start;
	more[nr].rule = rule;
	rows->nr_rows++;
	return 0;
}

/* No more code in the current page: go to the next one. */
static int end_page(struct ut_rows *rows)
{
	__u64 page_end = rows->page_start + UNWIND_TABLE_PAGE_SIZE;
	const struct unwind_table_run *run = &rows->runs[rows->run];
	int err;

	if (rows->end < page_end) {
		err = add_row(rows, rows->end, UT_RULE_NOT_COVERED);
		if (err)
			return err;
	}
	rows->pages[++rows->page] = rows->nr_rows;
	if (page_end >> UNWIND_TABLE_PAGE_SHIFT == run->page + run->nr_pages &&
	    rows->run + 1 < rows->nr_runs)
		page_end = rows->runs[++rows->run].page << UNWIND_TABLE_PAGE_SHIFT;
	rows->page_start = page_end;
	rows->end = page_end;
	return 0;
}

static int add_index(struct ut_rows *rows, __u64 start, __u64 end, __u16 rule)
{
	int err;

	while (start < end) {
		__u64 page_end = rows->page_start + UNWIND_TABLE_PAGE_SIZE;

		if (start >= page_end) {
			err = end_page(rows);
			if (err)
				return err;
			continue;
		}
		/* Between segments that share the page */
		if (rows->end < start) {
			err = add_row(rows, rows->end, UT_RULE_NOT_COVERED);
			if (err)
				return err;
		}
		err = add_row(rows, start, rule);
		if (err)
			return err;
		start = end < page_end ? end : page_end;
		rows->end = start;
	}
	return 0;
}

static void count_reason(struct ut_rows *rows, __u64 start, __u64 end,
			 enum unwind_table_reason reason)
{
	rows->stats->bytes[reason] += end - start;
	if (rows->end != start || rows->reason != reason)
		rows->stats->places[reason]++;
}

/* Add code with the rule @index; @reason: why it is unknown or without FP */
static int add_as_it_is(struct ut_rows *rows, __u64 start, __u64 end, int index,
			enum unwind_table_reason reason)
{
	int err;

	if (start == end)
		return 0;
	/* Pages without rows of their own are not counted: a table has few enough. */
	if (!ut_work(&rows->build->work, 1))
		return -E2BIG;
	/* The code after a gap may tell what it is. */
	if (rows->has_gap) {
		rows->gap.after = rows->rules[index];
		rows->gap.after_end = end;
		err = ut_rows_flush(rows);
		if (err)
			return err;
	}

	if (reason != UT_NO_REASON)
		count_reason(rows, start, end, reason);
	if (index != UT_RULE_UNKNOWN && index != UT_RULE_NOT_COVERED)
		rows->stats->covered_bytes += end - start;
	err = add_index(rows, start, end, index);
	rows->last = index;
	rows->reason = reason;
	return err;
}

/* The same, but with the patched rules in its place */
static int add(struct ut_rows *rows, __u64 start, __u64 end, int index,
	       enum unwind_table_reason reason)
{
	const struct unwind_table_rule *rule = &rows->rules[index];
	int err = 0;

	if (UT_CALLEE_SAVED >> rule->cfa.reg & 1)
		err = ut_callees_note(rows->build, start, end, rule);
	while (rows->patch && rows->patch->start < end && !err) {
		const struct ut_patch *patch = rows->patch;
		int other = index_of(rows, &patch->rule);
		__u64 from = patch->start > start ? patch->start : start;
		__u64 to = patch->end < end ? patch->end : end;

		err = other < 0 ? other : add_as_it_is(rows, start, from, index, reason);
		if (!err)
			err = add_as_it_is(rows, from, to, other,
					   other == UT_RULE_UNKNOWN ? UNWIND_TABLE_R_REGISTER :
								      UT_NO_REASON);
		start = to;
		if (patch->end > end)
			break;
		rows->patch++;
	}
	if (!err)
		err = add_as_it_is(rows, start, end, index, reason);
	rows->last = index;
	return err;
}

int ut_rows_add(struct ut_rows *rows, __u64 start, __u64 end,
		const struct unwind_table_rule *rule)
{
	enum unwind_table_reason reason = UT_NO_REASON;
	int index;

	if (start == end)
		return 0;
	index = index_of(rows, rule);
	if (index < 0)
		return index;
	if (index == UT_RULE_UNKNOWN)
		reason = UNWIND_TABLE_R_FULL;
	else if (rule->kind == UNWIND_TABLE_CALLER && rule->fp.where == UNWIND_TABLE_NONE)
		reason = UNWIND_TABLE_R_FP;
	return add(rows, start, end, index, reason);
}

int ut_rows_add_unknown(struct ut_rows *rows, __u64 start, __u64 end,
			enum unwind_table_reason reason)
{
	return add(rows, start, end, UT_RULE_UNKNOWN, reason);
}

/*
 * Most rows have one of a few rules. The index of such a rule is found by a short key
 * made from its parts, without making and hashing the rule; 0 means that there is no
 * key.
 */
static struct recent *recent_of(struct ut_rows *rows, __u64 key)
{
	return &rows->recent[(key * 0x9e3779b97f4a7c15ULL) >> (64 - RECENT_BITS)];
}

bool ut_rows_add_recent(struct ut_rows *rows, __u64 start, __u64 end, __u64 key, int *err)
{
	const struct recent *recent = recent_of(rows, key);

	if (!key || recent->key != key)
		return false;
	*err = add(rows, start, end, recent->index, UT_NO_REASON);
	return true;
}

/* @key stands for the rule that was added last. */
void ut_rows_set_recent(struct ut_rows *rows, __u64 key)
{
	if (rows->last != UT_RULE_UNKNOWN)
		*recent_of(rows, key) = (struct recent){ key, rows->last };
}

int ut_rows_add_gap(struct ut_rows *rows, const struct ut_segment *segment,
		    __u64 start, __u64 end)
{
	if (start == end)
		return 0;
	memset(&rows->gap, 0, sizeof(rows->gap));
	rows->gap.segment = segment;
	rows->gap.start = start;
	rows->gap.end = end;
	if (rows->end == start)
		rows->gap.before = rows->rules[rows->last];
	rows->has_gap = true;
	return 0;
}

/* There is no code after a gap, or it is known by now. */
int ut_rows_flush(struct ut_rows *rows)
{
	struct ut_gap gap = rows->gap;

	if (!rows->has_gap)
		return 0;
	rows->has_gap = false;
	return ut_gap_add(rows->build, &gap, rows);
}

/* No call ends with the last byte. */
int ut_rows_end_walks(struct ut_rows *rows)
{
	const struct unwind_table_row *last = &rows->rows[rows->nr_rows - 1];
	struct unwind_table_rule rule = rows->rules[last->rule];
	int index;

	if (rule.kind != UNWIND_TABLE_CALLER)
		return 0;
	rule.flags |= UNWIND_TABLE_NO_CALL;
	index = index_of(rows, &rule);
	if (last->offset == rows->end - 1 - rows->page_start)
		rows->nr_rows--;
	return index < 0 ? index : add_row(rows, rows->end - 1, index);
}

/* The more rows a table has, the smaller are its blocks: one for eight rows. */
#define BLOCK_ROWS	8

static unsigned int block_shift(const struct ut_rows *rows)
{
	unsigned int shift = UNWIND_TABLE_MIN_BLOCK_SHIFT;

	while (shift < UNWIND_TABLE_MAX_BLOCK_SHIFT &&
	       rows->nr_pages * UT_PAGE_BLOCKS(shift) * BLOCK_ROWS > rows->nr_rows)
		shift++;
	return shift;
}

/* The index of the blocks */
static __u32 *make_blocks(struct ut_rows *rows, unsigned int shift)
{
	__u32 nr = UT_PAGE_BLOCKS(shift), page, block, row = 0, i;
	__u32 *blocks = malloc((rows->nr_pages * nr + 1) * sizeof(*blocks)), *to = blocks;

	if (!blocks)
		return NULL;
	*to++ = 0;
	for (page = 0; page < rows->nr_pages; page++) {
		for (block = 1; block <= nr; block++) {
			while (row < rows->pages[page + 1] &&
			       rows->rows[row].offset < block << shift)
				row++;
			*to++ = row - 1;
		}
	}
	for (i = 1; i < rows->nr_runs; i++)
		rows->runs[i].first_block = rows->runs[i - 1].first_block +
					    rows->runs[i - 1].nr_pages * nr;
	return blocks;
}

/* The table as one block, to be freed by the caller */
int ut_rows_finish(struct ut_rows *rows, void **table, size_t *len)
{
	struct unwind_table_header *header;
	size_t sizes[5];
	const void *parts[5];
	unsigned int shift, i;
	__u8 *data, *to;
	__u32 *blocks;
	int err;

	while (rows->page < rows->nr_pages) {
		err = end_page(rows);
		if (err)
			return err;
	}
	shift = block_shift(rows);
	blocks = make_blocks(rows, shift);
	if (!blocks)
		return -ENOMEM;
	sizes[0] = sizeof(*header);
	sizes[1] = rows->nr_runs * sizeof(rows->runs[0]);
	sizes[2] = (rows->nr_pages * UT_PAGE_BLOCKS(shift) + 1) * sizeof(*blocks);
	sizes[3] = rows->nr_rows * sizeof(rows->rows[0]);
	sizes[4] = rows->nr_rules * sizeof(rows->rules[0]);
	parts[1] = rows->runs;
	parts[2] = blocks;
	parts[3] = rows->rows;
	parts[4] = rows->rules;

	*len = sizes[0] + sizes[1] + sizes[2] + sizes[3] + sizes[4];
	data = malloc(*len);
	if (!data) {
		free(blocks);
		return -ENOMEM;
	}
	header = (struct unwind_table_header *)data;
	*header = (struct unwind_table_header){
		.magic		= UNWIND_TABLE_MAGIC,
		.version	= UNWIND_TABLE_VERSION,
		.machine	= EM_X86_64,
		.word_size	= 8,
		.nr_runs	= rows->nr_runs,
		.nr_pages	= rows->nr_pages,
		.nr_rows	= rows->nr_rows,
		.nr_rules	= rows->nr_rules,
		.block_shift	= shift,
	};
	to = data + sizes[0];
	for (i = 1; i < ARRAY_SIZE(parts); i++) {
		if (sizes[i])
			memcpy(to, parts[i], sizes[i]);
		to += sizes[i];
	}
	free(blocks);
	rows->stats->rows = rows->nr_rows;
	rows->stats->rules = rows->nr_rules;
	*table = data;
	return 0;
}
