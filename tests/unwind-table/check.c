// SPDX-License-Identifier: GPL-2.0
/*
 * Does a block have the form that linux/unwind_table.h describes? The kernel
 * checks the same.
 */

#include <linux/elf-em.h>

#include "check.h"
#include "internal.h"

static const char *check_header(const struct unwind_table_header *header)
{
	if (header->magic != UNWIND_TABLE_MAGIC)
		return "magic number";
	if (header->version != UNWIND_TABLE_VERSION)
		return "version";
	if (header->machine != EM_X86_64)
		return "machine";
	if (header->word_size != 8)
		return "word size";
	if (header->flags)
		return "flags of the header";
	if (header->reserved[0] || header->reserved[1] || header->reserved[2])
		return "reserved field of the header";
	if (header->nr_runs > UNWIND_TABLE_MAX_RUNS)
		return "too many runs";
	if (header->nr_pages > UNWIND_TABLE_MAX_PAGES)
		return "too many pages";
	if (header->nr_rows > UNWIND_TABLE_MAX_ROWS)
		return "too many rows";
	if (header->nr_rules > UNWIND_TABLE_MAX_RULES)
		return "too many rules";
	if (header->block_shift < UNWIND_TABLE_MIN_BLOCK_SHIFT ||
	    header->block_shift > UNWIND_TABLE_MAX_BLOCK_SHIFT)
		return "size of a block";
	return NULL;
}

/* Find the parts, without a look at what is in them */
static const char *open_view(struct ut_view *view, const void *data, size_t len)
{
	const struct unwind_table_header *header = data;
	const char *wrong;

	if (len < sizeof(*header))
		return "shorter than a header";
	wrong = check_header(header);
	if (wrong)
		return wrong;
	/* With these limits it cannot overflow. */
	ut_view_open(view, data);
	return view->rules + header->nr_rules * sizeof(struct unwind_table_rule) ==
	       (const __u8 *)data + len ? NULL : "length";
}

static const char *check_runs(const struct ut_view *view)
{
	__u64 max = ~0ULL >> UNWIND_TABLE_PAGE_SHIFT, end = 0, pages = 0;
	__u32 i;

	for (i = 0; i < view->header.nr_runs; i++) {
		struct unwind_table_run run = ut_view_run(view, i);

		if (!run.nr_pages)
			return "run without pages";
		if (i && run.page <= end)
			return "runs that overlap, touch or are not sorted";
		if (run.page > max || run.nr_pages - 1 > max - run.page)
			return "run beyond the largest file";
		if (run.first_block != pages * UT_PAGE_BLOCKS(view->header.block_shift))
			return "first block of a run";
		end = run.page + run.nr_pages;
		pages += run.nr_pages;
	}
	return pages == view->header.nr_pages ? NULL : "number of pages in the runs";
}

static const char *check_blocks(const struct ut_view *view)
{
	__u32 size = 1U << view->header.block_shift, nr_rows = view->header.nr_rows;
	__u32 i, k = 0, last, from, end;

	if (ut_view_block(view, 0))
		return "first block does not start at row 0";
	for (i = 0; i < view->nr_blocks; i++) {
		last = ut_view_block(view, i + 1);
		from = i * size & UT_PAGE_MASK;
		end = from + size;
		if (last >= nr_rows)
			return "block with rows that do not exist";
		if (!from && (last < k || ut_view_row(view, k).offset))
			return "first row of a page is not at 0";
		for (; k <= last; k++) {
			struct unwind_table_row row = ut_view_row(view, k);

			if (row.offset < from || row.offset >= end)
				return "row outside of its block, or not sorted";
			if (row.rule >= view->header.nr_rules)
				return "row with a rule that does not exist";
			from = row.offset + 1;
		}
		if (k != last + 1)
			return "blocks that are not sorted";
	}
	return k == nr_rows ? NULL : "rows that belong to no block";
}

static const char *check_loc(const struct unwind_table_loc *loc)
{
	if (loc->reserved)
		return "reserved field of a location";
	if (loc->where > UNWIND_TABLE_CFA_DEREF)
		return "location of an unknown kind";
	if (loc->where <= UNWIND_TABLE_SAME && loc->off)
		return "offset of a location that has none";
	if (loc->where != UNWIND_TABLE_REG && loc->where != UNWIND_TABLE_REG_DEREF)
		return loc->reg ? "register of a location that has none" : NULL;
	return loc->reg < UT_NR_REGS ? NULL : "register that does not exist";
}

static const char *check_caller(const struct unwind_table_rule *rule)
{
	const char *wrong = check_loc(&rule->cfa);

	if (!wrong)
		wrong = check_loc(&rule->ra);
	if (!wrong)
		wrong = check_loc(&rule->fp);
	if (wrong)
		return wrong;
	if (rule->flags & ~(UNWIND_TABLE_SIGNAL | UNWIND_TABLE_NEW_THREAD | UNWIND_TABLE_NO_CALL))
		return "unknown flag of a rule";
	if (rule->cfa.where != UNWIND_TABLE_REG &&
	    rule->cfa.where != UNWIND_TABLE_REG_DEREF)
		return "CFA at such a place";
	if (rule->cfa_add && rule->cfa.where != UNWIND_TABLE_REG_DEREF)
		return "second offset of a CFA that has none";
	if (rule->ra.where != UNWIND_TABLE_REG &&
	    rule->ra.where != UNWIND_TABLE_REG_DEREF &&
	    rule->ra.where != UNWIND_TABLE_CFA_DEREF)
		return "return address at such a place";
	return NULL;
}

static const char *check_rules(const struct ut_view *view)
{
	struct unwind_table_rule rule, empty;
	const char *wrong;
	__u32 i;

	for (i = 0; i < view->header.nr_rules; i++) {
		rule = ut_view_rule(view, i);
		if (rule.reserved)
			return "reserved field of a rule";
		if (rule.kind > UNWIND_TABLE_CALLER)
			return "rule of an unknown kind";
		if (rule.kind == UNWIND_TABLE_CALLER) {
			wrong = check_caller(&rule);
			if (wrong)
				return wrong;
			continue;
		}
		memset(&empty, 0, sizeof(empty));
		empty.kind = rule.kind;
		if (memcmp(&rule, &empty, sizeof(rule)))
			return "rule without a caller that has places";
	}
	return NULL;
}

const char *unwind_table_check(const void *data, size_t len)
{
	struct ut_view view;
	const char *wrong = open_view(&view, data, len);

	if (!wrong)
		wrong = check_runs(&view);
	if (!wrong)
		wrong = check_blocks(&view);
	if (!wrong)
		wrong = check_rules(&view);
	return wrong;
}
