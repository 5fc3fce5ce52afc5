// SPDX-License-Identifier: GPL-2.0
/*
 * unwind-tables check: compare tables with what elfutils reads in the same files, at
 * the first and the last byte of each row. Both are evaluated on machines with
 * arbitrary contents, so the form in which they express a rule does not matter.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/unwind_table.h>

#include "dwarf-eval.h"
#include "unwind-table.h"
#include "unwind-tables.h"

/* Differences of a file that are printed, unless all are wanted */
#define MAX_PRINTED	10
/* Where there are no rows, elfutils is asked every so many bytes. */
#define STEP		16

/* Result for a place */
enum outcome {
	OUT_SAME,	/* They agree. */
	OUT_UNSAID,	/* elfutils has a frame, or its FP, but the table says nothing. */
	OUT_KNOWN,	/* elfutils has no frame, or one in a register that is not known. */
	OUT_NOTHING,	/* Neither has anything. */
	OUT_STRANGE,	/* elfutils has an expression that is not known here. */
	OUT_DIFFERENT,
	NR_OUTCOMES
};

struct check {
	const char *path;
	const struct unwind_table *table;
	struct view view;
	Elf *elf;
	Dwarf *dwarf;
	Dwarf_CFI *cfi;
	GElf_Phdr *segments;	/* executable ones */
	size_t nr_segments;
	__u64 outcomes[NR_OUTCOMES];
	bool all;
};

static const char *difference(const struct frame *ours, const struct frame *theirs)
{
	if (ours->outermost != theirs->outermost)
		return ours->outermost ? "the table ends the stack here" :
					 "elfutils ends the stack here";
	if (ours->outermost)
		return NULL;
	if (ours->sp != theirs->sp)
		return "another SP of the caller";
	if (ours->ip != theirs->ip)
		return "another return address";
	if (!ours->no_fp && (theirs->no_fp || ours->fp != theirs->fp))
		return "another frame pointer of the caller";
	if (ours->signal != theirs->signal)
		return ours->signal ? "only the table has a signal frame" :
				      "only elfutils has a signal frame";
	return NULL;
}

static enum outcome compare(const struct unwind_table_rule *rule,
			    Dwarf_Frame *dwarf, __u64 address,
			    const char **what)
{
	struct machine machine;
	struct frame ours, theirs;
	int i;

	/* Twice, so that they cannot be the same by chance. */
	for (i = 0; i < 2; i++) {
		machine_init(&machine, 0x9e3779b97f4a7c15ull << i, address);
		frame_of_rule(&machine, rule, &ours);
		machine_init(&machine, 0x9e3779b97f4a7c15ull << i, address);
		frame_of_dwarf(&machine, dwarf, &theirs);
		if (ours.none)
			return theirs.none ? OUT_NOTHING : OUT_UNSAID;
		if (theirs.none)
			return OUT_KNOWN;
		if (theirs.strange)
			return OUT_STRANGE;
		*what = difference(&ours, &theirs);
		/* Below SP are words that the called function has saved. */
		if (*what)
			return rule->cfa.where == UNWIND_TABLE_REG_DEREF &&
			       rule->cfa.reg == REG_SP && rule->cfa.off < 0 ?
			       OUT_KNOWN : OUT_DIFFERENT;
	}
	return ours.no_fp && !theirs.no_fp ? OUT_UNSAID : OUT_SAME;
}

static const GElf_Phdr *segment_at(const struct check *check, __u64 offset)
{
	size_t i;

	for (i = 0; i < check->nr_segments; i++)
		if (offset >= check->segments[i].p_offset &&
		    offset - check->segments[i].p_offset <
		    check->segments[i].p_filesz)
			return &check->segments[i];
	return NULL;
}

static void print_different(const struct check *check, __u64 offset,
			    __u64 address, const char *what)
{
	if (check->outcomes[OUT_DIFFERENT] > MAX_PRINTED && !check->all)
		return;
	printf("%s: offset %#llx, address %#llx: %s\n", check->path,
	       (unsigned long long)offset, (unsigned long long)address, what);
	unwind_table_print(check->table, offset, offset + 1, stdout);
}

static void check_at(struct check *check, const struct unwind_table_rule *rule,
		     __u64 offset)
{
	const GElf_Phdr *segment = segment_at(check, offset);
	const char *what = "the table has a rule where no code is";
	Dwarf_Frame *dwarf = NULL;
	enum outcome outcome;
	__u64 address = 0;

	if (segment) {
		address = offset - segment->p_offset + segment->p_vaddr;
		if (dwarf_cfi_addrframe(check->cfi, address, &dwarf))
			dwarf = NULL;
		outcome = compare(rule, dwarf, address, &what);
		free(dwarf);
	} else {
		outcome = rule && rule->kind != UNWIND_TABLE_NOT_COVERED ?
			  OUT_DIFFERENT : OUT_NOTHING;
	}
	check->outcomes[outcome]++;
	if (outcome == OUT_DIFFERENT)
		print_different(check, offset, address, what);
}

static void check_page(struct check *check, __u64 offset, __u32 first,
		       __u32 end)
{
	const struct unwind_table_rule *rule;
	__u64 start, next;
	__u32 i;

	for (i = first; i < end; i++) {
		rule = &check->view.rules[check->view.rows[i].rule];
		start = check->view.rows[i].offset;
		next = i + 1 < end ? check->view.rows[i + 1].offset :
				     UNWIND_TABLE_PAGE_SIZE;
		check_at(check, rule, offset + start);
		if (next - start > 1)
			check_at(check, rule, offset + next - 1);
	}
}

/* Code that the table does not describe */
static void check_gap(struct check *check, __u64 start, __u64 end)
{
	for (; start < end; start += STEP)
		check_at(check, NULL, start);
}

/* Does a page have nothing that is covered? */
static bool is_gap(const struct view *view, __u32 nr)
{
	__u32 row = table_first_row(view, nr);

	return row + 1 == table_first_row(view, nr + 1) &&
	       view->rules[view->rows[row].rule].kind == UNWIND_TABLE_NOT_COVERED;
}

/* A segment: pages with rules, and the code between them */
static void check_segment(struct check *check, const GElf_Phdr *segment)
{
	__u64 offset = segment->p_offset, page;
	__u64 end = segment->p_offset + segment->p_filesz;
	const struct view *view = &check->view;
	__u32 i, j, nr = 0;

	for (i = 0; i < view->header->nr_runs; i++) {
		for (j = 0; j < view->runs[i].nr_pages; j++, nr++) {
			page = (view->runs[i].page + j) <<
			       UNWIND_TABLE_PAGE_SHIFT;
			if (page + UNWIND_TABLE_PAGE_SIZE <= segment->p_offset ||
			    page >= end || is_gap(view, nr))
				continue;
			check_gap(check, offset, page);
			check_page(check, page, table_first_row(view, nr),
				   table_first_row(view, nr + 1));
			offset = page + UNWIND_TABLE_PAGE_SIZE;
		}
	}
	check_gap(check, offset, end);
}

/* ------------------------------------------------------------------------ */

static bool open_cfi(struct check *check, int fd)
{
	check->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	check->segments = table_code_segments(check->elf, &check->nr_segments);
	if (!check->segments)
		return false;
	check->cfi = dwarf_getcfi_elf(check->elf);
	if (check->cfi)
		return true;
	check->dwarf = dwarf_begin_elf(check->elf, DWARF_C_READ, NULL);
	check->cfi = dwarf_getcfi(check->dwarf);
	return check->cfi;
}

static int check_file(const char *path, bool all)
{
	struct check check = { .path = path, .all = all };
	struct unwind_table *table;
	size_t i;
	int fd;

	fd = table_read(path, &table);
	if (fd < 0)
		return EXIT_FAILED;
	check.table = table;
	table_set_view(&check.view, table);
	if (open_cfi(&check, fd)) {
		for (i = 0; i < check.nr_segments; i++)
			check_segment(&check, &check.segments[i]);
		printf("%s: %.2f %% covered, %llu rows; places: %llu same, %llu different, ",
		       path,
		       table_percent(unwind_table_stats(table)->covered_bytes,
				     unwind_table_stats(table)->code_bytes),
		       (unsigned long long)check.view.header->nr_rows,
		       (unsigned long long)check.outcomes[OUT_SAME],
		       (unsigned long long)check.outcomes[OUT_DIFFERENT]);
		printf("%llu missing, %llu known to the table alone, %llu not comparable\n",
		       (unsigned long long)check.outcomes[OUT_UNSAID],
		       (unsigned long long)check.outcomes[OUT_KNOWN],
		       (unsigned long long)check.outcomes[OUT_STRANGE]);
	} else {
		log_error("%s: elfutils cannot read its unwind information: %s",
			  path, dwarf_errmsg(-1));
		check.outcomes[OUT_DIFFERENT]++;
	}

	/* That of .eh_frame belongs to the ELF file, and is freed with it. */
	dwarf_end(check.dwarf);
	if (check.cfi && !check.dwarf)
		dwarf_cfi_end(check.cfi);
	elf_end(check.elf);
	free(check.segments);
	unwind_table_free(table);
	close(fd);
	return check.outcomes[OUT_DIFFERENT] ? EXIT_FAILED : EXIT_OK;
}

struct places {
	const char *path;
	unsigned int left;	/* to be printed */
};

static void print_place(void *data, uint64_t start, uint64_t end)
{
	struct places *places = data;

	if (!places->left)
		return;
	places->left--;
	printf("%s: address 0x%llx-0x%llx: different\n", places->path,
	       (unsigned long long)start, (unsigned long long)end);
}

/* @given: functions start where FDEs do; otherwise that has to be found out */
static int check_instructions(const char *path, bool all, bool given)
{
	struct places places = { path, all ? UINT_MAX : MAX_PRINTED };
	struct unwind_table_comparison result;
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;
	uint64_t known;

	if (fd < 0) {
		log_error("%s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	error = unwind_table_compare(fd, given, &result, print_place, &places);
	close(fd);
	if (error == -EOPNOTSUPP) {
		log_error("check: built without Zydis, this program cannot follow instructions");
		return EXIT_FAILED;
	}
	if (error) {
		log_error("%s: no table: %s", path, strerror(-error));
		return EXIT_FAILED;
	}
	known = result.same + result.less + result.other + result.differs;
	printf("%s: %llu bytes of code with call frame information: %.2f %% the same, ",
	       path, (unsigned long long)result.code, table_percent(result.same, result.code));
	printf("%.2f %% without FP, %.2f %% not comparable, ",
	       table_percent(result.less, result.code), table_percent(result.other, result.code));
	printf("%.2f %% not followed (%.2f %% landing pads), ",
	       table_percent(result.code - known, result.code),
	       table_percent(result.pads, result.code));
	printf("%llu different in %llu places\n", (unsigned long long)result.differs,
	       (unsigned long long)result.places);
	return result.places ? EXIT_FAILED : EXIT_OK;
}

int cmd_check(int argc, char **argv)
{
	bool all = false, instructions = false, given = false;
	int i = 1, ret = EXIT_OK;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--")) {
			i++;
			break;
		}
		if (!strcmp(argv[i], "--all")) {
			all = true;
		} else if (!strcmp(argv[i], "--instructions")) {
			instructions = true;
		} else if (!strcmp(argv[i], "--instructions=given")) {
			instructions = true;
			given = true;
		} else {
			log_error("check: unknown option %s; see unwind-tables --help",
				  argv[i]);
			return EXIT_USAGE;
		}
	}
	if (i == argc) {
		log_error("check: needs a file; see unwind-tables --help");
		return EXIT_USAGE;
	}
	elf_version(EV_CURRENT);
	for (; i < argc; i++) {
		int failed = instructions ? check_instructions(argv[i], all, given) :
					    check_file(argv[i], all);

		if (failed)
			ret = EXIT_FAILED;
	}
	if (fflush(stdout) || ferror(stdout)) {
		log_error("check: cannot print: %s", strerror(errno));
		ret = EXIT_FAILED;
	}
	return ret;
}
