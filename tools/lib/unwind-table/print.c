// SPDX-License-Identifier: GPL-2.0
/* Tables as text, for people and for tests */

#include <errno.h>

#include "internal.h"

static const char * const reason_names[UNWIND_TABLE_NR_REASONS] = {
	[UNWIND_TABLE_R_GAP]		= "no FDE",
	[UNWIND_TABLE_R_LOST]		= "no FDE, and SP is lost",
	[UNWIND_TABLE_R_EXPRESSION]	= "DWARF expression",
	[UNWIND_TABLE_R_REGISTER]	= "value without place",
	[UNWIND_TABLE_R_SP]		= "SP is not the CFA",
	[UNWIND_TABLE_R_FP]		= "all but the FP is known",
	[UNWIND_TABLE_R_CFI]		= "unknown instruction or augmentation",
	[UNWIND_TABLE_R_BAD]		= "bad CIE or FDE",
	[UNWIND_TABLE_R_OVERLAP]	= "overlapping FDEs",
	[UNWIND_TABLE_R_FULL]		= "too many rules",
};

const char *unwind_table_reason_name(enum unwind_table_reason reason)
{
	if ((unsigned int)reason >= UNWIND_TABLE_NR_REASONS)
		return "none";
	return reason_names[reason];
}

static const char * const origin_names[UNWIND_TABLE_NR_ORIGINS] = {
	[UNWIND_TABLE_O_EH_FRAME]	= ".eh_frame",
	[UNWIND_TABLE_O_DEBUG_FRAME]	= ".debug_frame",
	[UNWIND_TABLE_O_KNOWN]		= "known code",
	[UNWIND_TABLE_O_INSTRUCTIONS]	= "instructions",
	[UNWIND_TABLE_O_FRAME_POINTER]	= "left to the frame pointer",
};

const char *unwind_table_origin_name(enum unwind_table_origin origin)
{
	if ((unsigned int)origin >= UNWIND_TABLE_NR_ORIGINS)
		return "none";
	return origin_names[origin];
}

/* As "*(rsp+8)" */
static void print_loc(const struct unwind_table_loc *loc, FILE *out)
{
	static const char * const regs[UT_NR_REGS] = {
		"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
		"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
	};
	const char *base = "cfa";

	switch (loc->where) {
	case UNWIND_TABLE_SAME:
		fputs("same", out);
		return;
	case UNWIND_TABLE_REG:
	case UNWIND_TABLE_REG_DEREF:
		base = regs[loc->reg];
		break;
	case UNWIND_TABLE_CFA:
	case UNWIND_TABLE_CFA_DEREF:
		break;
	default:
		fputs("unknown", out);
		return;
	}
	if (loc->where == UNWIND_TABLE_REG_DEREF || loc->where == UNWIND_TABLE_CFA_DEREF)
		fprintf(out, "*(%s%+d)", base, loc->off);
	else
		fprintf(out, "%s%+d", base, loc->off);
}

static void print_rule(const struct unwind_table_rule *rule, FILE *out)
{
	static const char * const kinds[] = { "not covered", "unknown", "outermost" };
	static const char * const flags[] = { ", signal", ", new thread", ", no call" };
	unsigned int i;

	if (rule->kind != UNWIND_TABLE_CALLER) {
		fputs(kinds[rule->kind], out);
		return;
	}
	fputs("cfa ", out);
	print_loc(&rule->cfa, out);
	if (rule->cfa_add)
		fprintf(out, "%+d", rule->cfa_add);
	fputs(", ra ", out);
	print_loc(&rule->ra, out);
	fputs(", fp ", out);
	print_loc(&rule->fp, out);
	for (i = 0; i < ARRAY_SIZE(flags); i++)
		fputs(rule->flags >> i & 1 ? flags[i] : "", out);
}

static void print_page(const struct ut_view *view, __u32 page, __u64 offset,
		       __u64 start, __u64 end, FILE *out)
{
	__u32 i = ut_view_page(view, page), last = ut_view_page(view, page + 1);

	for (; i < last; i++) {
		struct unwind_table_row row = ut_view_row(view, i);
		struct unwind_table_rule rule = ut_view_rule(view, row.rule);
		__u64 from = offset + row.offset, to = offset + UNWIND_TABLE_PAGE_SIZE;

		if (i + 1 < last)
			to = offset + ut_view_row(view, i + 1).offset;
		if (to <= start || from >= end)
			continue;
		/* A page without code is not printed. */
		if (rule.kind == UNWIND_TABLE_NOT_COVERED &&
		    to - from == UNWIND_TABLE_PAGE_SIZE)
			continue;
		fprintf(out, "0x%llx-0x%llx ", from, to);
		print_rule(&rule, out);
		fputc('\n', out);
	}
}

/* Find the parts of a table. */
void ut_view_open(struct ut_view *view, const void *data)
{
	const struct unwind_table_header *header = &view->header;

	memcpy(&view->header, data, sizeof(*header));
	view->runs = (const __u8 *)data + sizeof(*header);
	view->nr_blocks = header->nr_pages * UT_PAGE_BLOCKS(header->block_shift);
	view->blocks = view->runs + header->nr_runs * sizeof(struct unwind_table_run);
	view->rows = view->blocks + (view->nr_blocks + 1) * sizeof(__u32);
	view->rules = view->rows + header->nr_rows * sizeof(struct unwind_table_row);
}

int unwind_table_print(const struct unwind_table *table, uint64_t start, uint64_t end,
		       FILE *out)
{
	struct ut_view view;
	__u32 run, page = 0, i;

	ut_view_open(&view, table->data);
	for (run = 0; run < view.header.nr_runs; run++) {
		struct unwind_table_run r = ut_view_run(&view, run);

		for (i = 0; i < r.nr_pages; i++, page++) {
			__u64 offset = (r.page + i) << UNWIND_TABLE_PAGE_SHIFT;

			if (offset < end && start < offset + UNWIND_TABLE_PAGE_SIZE)
				print_page(&view, page, offset, start, end, out);
		}
	}
	return ferror(out) ? -EIO : 0;
}
