// SPDX-License-Identifier: GPL-2.0
/*
 * Does a block have the form that linux/unwind_table.h describes? The kernel
 * checks the same.
 */

#include <linux/elf-em.h>

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
	if (header->reserved[0] || header->reserved[1] || header->reserved[2] ||
	    header->reserved[3])
		return "reserved field of the header";
	if (header->nr_runs > UNWIND_TABLE_MAX_RUNS)
		return "too many runs";
	if (header->nr_pages > UNWIND_TABLE_MAX_PAGES)
		return "too many pages";
	if (header->nr_rows > UNWIND_TABLE_MAX_ROWS)
		return "too many rows";
	if (header->nr_rules > UNWIND_TABLE_MAX_RULES)
		return "too many rules";
	return NULL;
}

/* Find the parts, without a look at what is in them */
const char *ut_view_open(struct ut_view *view, const void *data, size_t len)
{
	const struct unwind_table_header *header = &view->header;
	const __u8 *start = data;
	const char *wrong;
	size_t want;

	if (len < sizeof(*header))
		return "shorter than a header";
	memcpy(&view->header, data, sizeof(*header));
	wrong = check_header(header);
	if (wrong)
		return wrong;

	/* With these limits it cannot overflow. */
	view->runs = start + sizeof(*header);
	view->pages = view->runs + header->nr_runs * sizeof(struct unwind_table_run);
	view->rows = view->pages + (header->nr_pages + 1) * sizeof(__u32);
	view->rules = view->rows + header->nr_rows * sizeof(struct unwind_table_row);
	want = sizeof(*header) + header->nr_runs * sizeof(struct unwind_table_run) +
	       (header->nr_pages + 1) * sizeof(__u32) +
	       header->nr_rows * sizeof(struct unwind_table_row) +
	       header->nr_rules * sizeof(struct unwind_table_rule);
	return len == want ? NULL : "length";
}

static const char *check_runs(const struct ut_view *view)
{
	__u64 max = ~0ULL >> UNWIND_TABLE_PAGE_SHIFT, end = 0, pages = 0;
	__u32 i;

	for (i = 0; i < view->header.nr_runs; i++) {
		struct unwind_table_run run = ut_view_run(view, i);

		if (run.reserved)
			return "reserved field of a run";
		if (!run.nr_pages)
			return "run without pages";
		if (i && run.page <= end)
			return "runs that overlap, touch or are not sorted";
		if (run.page > max || run.nr_pages - 1 > max - run.page)
			return "run beyond the largest file";
		end = run.page + run.nr_pages;
		pages += run.nr_pages;
	}
	return pages == view->header.nr_pages ? NULL : "number of pages in the runs";
}

static const char *check_pages(const struct ut_view *view)
{
	__u32 i, k, start, end = ut_view_page(view, 0);

	if (end)
		return "first page does not start at row 0";
	for (i = 0; i < view->header.nr_pages; i++) {
		start = end;
		end = ut_view_page(view, i + 1);
		if (end < start)
			return "pages that are not sorted";
		if (end > view->header.nr_rows)
			return "page with rows that do not exist";
		for (k = start; k < end; k++) {
			struct unwind_table_row row = ut_view_row(view, k);

			if (row.offset >= UNWIND_TABLE_PAGE_SIZE)
				return "row outside of its page";
			if (k == start ? row.offset :
			    row.offset <= ut_view_row(view, k - 1).offset)
				return k == start ? "first row of a page is not at 0" :
						    "rows that are not sorted";
			if (row.rule >= view->header.nr_rules)
				return "row with a rule that does not exist";
		}
	}
	return end == view->header.nr_rows ? NULL : "rows that belong to no page";
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
	if (rule->flags & ~(UNWIND_TABLE_SIGNAL | UNWIND_TABLE_NEW_THREAD))
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
	const char *wrong = ut_view_open(&view, data, len);

	if (!wrong)
		wrong = check_runs(&view);
	if (!wrong)
		wrong = check_pages(&view);
	if (!wrong)
		wrong = check_rules(&view);
	return wrong;
}
