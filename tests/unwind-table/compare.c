// SPDX-License-Identifier: GPL-2.0
/*
 * compare [-s N] FILE... - compare tables with elfutils' evaluator of CFI
 *
 * At the first and at the last byte of each row (-s: of each Nth) of each file:
 * the result of the row's rule against that of libdw, as numbers. Registers are random, memory
 * at an address is a hash of it, and the file is mapped at a random page, so equal numbers are
 * the same location except for a chance of 1 in 2^64.
 *
 * Prints counts by kind. Exits with 1 if anything is left unexplained. Files that
 * are not for this library are passed over.
 */

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <linux/types.h>
#include <linux/unwind_table.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../tools/unwind-tables/dwarf-eval.h"
#include "check.h"
#include "unwind-table.h"

#define MAX_REPORTS	10
#define MAX_SAVES	100000

enum result {
	AGREE,
	AGREE_OUTERMOST,
	AGREE_SIGNAL,
	AGREE_NOTHING,
	NOT_COVERED,
	KNOWN_GAP,
	NO_TABLE,
	UNKNOWN_SP,
	UNKNOWN_EXPRESSION,
	NO_FP,
	NO_FP_EXPRESSION,
	NO_FP_STALE,
	SAVED_BELOW,
	NOT_SAVED_YET,
	OVERLAP,
	DIFFERENT_CFA,
	DIFFERENT_RA,
	DIFFERENT_FP,
	DIFFERENT_SP,
	DIFFERENT_KIND,
	DIFFERENT_SIGNAL,
	UNKNOWN_WITHOUT_REASON,
	TABLE_MISSING,
	NR_RESULTS,
};

static const struct {
	const char *name;
	bool explained;
} results[NR_RESULTS] = {
	[AGREE]			= { "equal", true },
	[AGREE_OUTERMOST]	= { "outermost in both", true },
	[AGREE_SIGNAL]		= { "equal signal frames", true },
	[AGREE_NOTHING]		= { "unknown here, no FDE there", true },
	[NOT_COVERED]		= { "not covered here, no FDE there", true },
	[KNOWN_GAP]		= { "known here by its code, no FDE there", true },
	[NO_TABLE]		= { "file without FDEs", true },
	[UNKNOWN_SP]		= { "unknown here, SP is not the CFA there", true },
	[UNKNOWN_EXPRESSION]	= { "unknown here, an expression with two registers there", true },
	[NO_FP]			= { "no FP here, it is undefined there", true },
	[NO_FP_EXPRESSION]	= { "no FP here, an expression with two registers there", true },
	[NO_FP_STALE]		= { "no FP here, FP at FP without a CFA by FP there", true },
	[SAVED_BELOW]		= { "CFA here from what the function called has saved, in that register there", true },
	[NOT_SAVED_YET]		= { "unknown here, before such a function has saved it", true },
	[OVERLAP]		= { "other rule in a file with overlapping FDEs", true },
	[DIFFERENT_CFA]		= { "different CFA", false },
	[DIFFERENT_RA]		= { "different return address", false },
	[DIFFERENT_FP]		= { "different frame pointer", false },
	[DIFFERENT_SP]		= { "SP is not the CFA", false },
	[DIFFERENT_KIND]	= { "different kind", false },
	[DIFFERENT_SIGNAL]	= { "different signal mark", false },
	[TABLE_MISSING]		= { "no table here, FDEs there", false },
	[UNKNOWN_WITHOUT_REASON] = { "unknown here, sayable there", false },
};

/* A call from code whose CFA is in a register, and the function that saves it */
struct save {
	__u64	call;		/* offset of the distance in the call */
	__u64	start;		/* address of the function */
	__u64	saved;		/* and from where on it is saved */
	int	reg;		/* 0: not where the rule says */
};

struct file {
	const char		*name;
	Elf			*elf;
	Dwarf			*debug;
	Dwarf_CFI		*cfi;
	Dwarf_CFI		*debug_cfi;
	GElf_Phdr		segments[64];
	int			nr_segments;
	const struct unwind_table_stats *stats;
	struct save		*saves;
	unsigned int		nr_saves;
	unsigned int		reports;
};

static unsigned long counts[NR_RESULTS], nr_files, nr_rows, nr_places;

/* What both are asked about: the file is mapped at a page that nobody knows. */
static struct machine machine;

static void make_machine(__u64 seed, __u64 addr)
{
	machine_init(&machine, seed, (seed * 0x7fb5d329728ea185ULL & ~0xfffULL) + addr);
}

/* The caller by elfutils */
struct caller {
	struct frame	frame;
	__u64		cfa;
	bool		complex;
	bool		stale_fp;	/* in memory at FP, the CFA is elsewhere */
};

static Dwarf_Frame *frame_at(struct file *file, __u64 addr)
{
	Dwarf_Frame *frame = NULL;

	if (file->cfi && !dwarf_cfi_addrframe(file->cfi, addr, &frame))
		return frame;
	if (file->debug_cfi && !dwarf_cfi_addrframe(file->debug_cfi, addr, &frame))
		return frame;
	return NULL;
}

/* Is the caller's FP in memory at this one, though the CFA is not by that? */
static bool is_stale(Dwarf_Frame *dwarf, const Dwarf_Op *cfa, size_t n)
{
	Dwarf_Op memory_of_ops[3], *ops;
	size_t i, nr;

	for (i = 0; i < n; i++) {
		if (cfa[i].atom == DW_OP_deref || cfa[i].atom == DW_OP_breg6 ||
		    (cfa[i].atom == DW_OP_bregx && cfa[i].number == REG_FP))
			return false;
	}
	return !dwarf_frame_register(dwarf, REG_FP, memory_of_ops, &ops, &nr) &&
	       nr && ops[nr - 1].atom == DW_OP_breg6;
}

/* More than a rule can express: two registers, or memory at an address from memory */
static bool is_complex(const Dwarf_Op *ops, size_t n)
{
	unsigned int nr_regs = 0, nr_derefs = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		nr_regs += ops[i].atom == DW_OP_bregx ||
			   (ops[i].atom >= DW_OP_breg0 && ops[i].atom < DW_OP_breg0 + REG_IP);
		nr_derefs += ops[i].atom == DW_OP_deref;
	}
	return nr_regs > 1 || nr_derefs > 1;
}

/* By elfutils; false: it has nothing */
static bool by_dwarf(struct file *file, __u64 addr, struct caller *caller)
{
	static const int columns[] = { REG_IP, REG_FP, REG_SP };
	Dwarf_Frame *dwarf = frame_at(file, addr);
	Dwarf_Op memory_of_ops[3], *ops;
	unsigned int i;
	size_t n;

	/* Not all of an FDE may make sense: for elfutils, libgcrypt's has no CFA in places. */
	if (!dwarf || dwarf_frame_cfa(dwarf, &ops, &n)) {
		free(dwarf);
		return false;
	}
	caller->complex = is_complex(ops, n);
	caller->stale_fp = is_stale(dwarf, ops, n);
	for (i = 0; i < 3; i++) {
		if (dwarf_frame_register(dwarf, columns[i], memory_of_ops, &ops, &n))
			errx(2, "register %d: %s", columns[i], dwarf_errmsg(-1));
		caller->complex |= is_complex(ops, n);
	}
	frame_of_dwarf(&machine, dwarf, &caller->frame);
	if (caller->frame.strange)
		errx(2, "%s: %#llx: a frame that cannot be evaluated", file->name, addr);
	caller->cfa = machine.cfa;
	free(dwarf);
	return true;
}

static enum result compare_callers(const struct caller *caller,
				   const struct unwind_table_rule *rule)
{
	const struct frame *dwarf = &caller->frame;
	struct frame frame;

	frame_of_rule(&machine, rule, &frame);
	if (dwarf->outermost)
		return DIFFERENT_KIND;
	if (caller->cfa != frame.sp)
		return DIFFERENT_CFA;
	if (dwarf->ip != frame.ip)
		return DIFFERENT_RA;
	if (dwarf->sp != frame.sp)
		return DIFFERENT_SP;
	if (dwarf->signal != frame.signal)
		return DIFFERENT_SIGNAL;
	if (frame.no_fp && dwarf->no_fp)
		return NO_FP;
	if (frame.no_fp && caller->stale_fp)
		return NO_FP_STALE;
	if (frame.no_fp && caller->complex)
		return NO_FP_EXPRESSION;
	if (frame.no_fp || dwarf->no_fp || dwarf->fp != frame.fp)
		return DIFFERENT_FP;
	return frame.signal ? AGREE_SIGNAL : AGREE;
}

static enum result compare_rule(struct file *file, __u64 addr,
				const struct unwind_table_rule *rule)
{
	struct caller caller;

	make_machine(addr ^ (__u64)rule->cfa.off << 40, addr);
	if (!by_dwarf(file, addr, &caller)) {
		if (rule->kind == UNWIND_TABLE_NOT_COVERED)
			return NOT_COVERED;
		return rule->kind == UNWIND_TABLE_UNKNOWN ? AGREE_NOTHING : KNOWN_GAP;
	}
	switch (rule->kind) {
	case UNWIND_TABLE_CALLER:
		return compare_callers(&caller, rule);
	case UNWIND_TABLE_OUTERMOST:
		return caller.frame.outermost ? AGREE_OUTERMOST : DIFFERENT_KIND;
	case UNWIND_TABLE_UNKNOWN:
		if (caller.frame.outermost)
			return DIFFERENT_KIND;
		if (caller.complex)
			return UNKNOWN_EXPRESSION;
		if (caller.frame.sp != caller.cfa)
			return UNKNOWN_SP;
		return UNKNOWN_WITHOUT_REASON;
	default:
		return DIFFERENT_KIND;
	}
}

static bool addr_of(const struct file *file, __u64 offset, __u64 *addr)
{
	int i;

	for (i = 0; i < file->nr_segments; i++) {
		const GElf_Phdr *phdr = &file->segments[i];

		if (offset - phdr->p_offset < phdr->p_filesz) {
			*addr = offset - phdr->p_offset + phdr->p_vaddr;
			return true;
		}
	}
	return false;
}

/* Does libdw say that a function saves a register first at @cfa_off from the CFA? */
static bool saves(struct file *file, struct save *save, int reg, int cfa_off)
{
	Dwarf_Op memory_of_ops[3], *ops;
	Dwarf_Addr start, end;
	bool value, signal;
	__u64 at;
	size_t n;

	for (save->saved = save->start;; save->saved = end) {
		Dwarf_Frame *dwarf = frame_at(file, save->saved);

		if (!dwarf)
			return false;
		dwarf_frame_info(dwarf, &start, &end, &signal);
		dwarf_frame_cfa(dwarf, &ops, &n);
		if (!dwarf_eval(&machine, ops, n, &machine.cfa, &value))
			errx(2, "a CFA that cannot be evaluated");
		dwarf_frame_register(dwarf, reg, memory_of_ops, &ops, &n);
		if (n) {
			free(dwarf);
			return dwarf_eval(&machine, ops, n, &at, &value) && !value &&
			       at == machine.cfa + cfa_off;
		}
		free(dwarf);
	}
}

/* A rule that takes the CFA from below SP is for all of a call but its first byte. */
static void find_save(struct file *file, __u64 offset, const struct unwind_table_rule *rule)
{
	struct save *save = &file->saves[file->nr_saves];
	Dwarf_Frame *dwarf;
	size_t len, n;
	char *image;
	__u64 addr;
	__s32 distance;
	Dwarf_Op *ops;

	if (rule->cfa.where != UNWIND_TABLE_REG_DEREF || rule->cfa.off >= 0 ||
	    file->nr_saves == MAX_SAVES || !addr_of(file, offset, &addr))
		return;
	image = elf_rawfile(file->elf, &len);
	dwarf = frame_at(file, addr);
	if (!dwarf || offset < 1 || offset + 4 > len || (__u8)image[offset - 1] != 0xe8)
		return;
	file->nr_saves++;
	memcpy(&distance, image + offset, sizeof(distance));
	*save = (struct save){ .call = offset, .start = addr + 4 + distance };
	if (!dwarf_frame_cfa(dwarf, &ops, &n) && n == 1 && ops->atom == DW_OP_bregx &&
	    (int)ops->number2 == rule->cfa_add &&
	    saves(file, save, ops->number, rule->cfa.off))
		save->reg = ops->number;
	free(dwarf);
}

/* With the saved value, as if the register were known; or before it is saved */
static enum result compare_saved(struct file *file, __u64 offset, __u64 addr,
				 struct unwind_table_rule rule, enum result result)
{
	unsigned int i;

	for (i = 0; i < file->nr_saves; i++) {
		const struct save *save = &file->saves[i];

		if (save->reg && rule.kind == UNWIND_TABLE_UNKNOWN && addr >= save->start &&
		    addr < save->saved)
			return NOT_SAVED_YET;
		if (save->reg && rule.kind == UNWIND_TABLE_CALLER && offset - save->call < 4) {
			rule.cfa = (struct unwind_table_loc){
				.where = UNWIND_TABLE_REG, .reg = save->reg, .off = rule.cfa_add,
			};
			rule.cfa_add = 0;
			result = compare_rule(file, addr, &rule);
			return result == AGREE ? SAVED_BELOW : result;
		}
	}
	return result;
}

static void compare_byte(struct file *file, const struct unwind_table *table,
			 __u64 offset, const struct unwind_table_rule *rule)
{
	enum result result;
	__u64 addr;

	if (!addr_of(file, offset, &addr)) {
		/* Outside of the segments nothing may be covered. */
		result = rule->kind == UNWIND_TABLE_NOT_COVERED ? NOT_COVERED :
								 DIFFERENT_KIND;
		addr = offset;
	} else {
		result = compare_rule(file, addr, rule);
		if (!results[result].explained)
			result = compare_saved(file, offset, addr, *rule, result);
	}
	if (!results[result].explained && file->stats->places[UNWIND_TABLE_R_OVERLAP])
		result = OVERLAP;
	counts[result]++;
	nr_places++;
	if (!results[result].explained && file->reports++ < MAX_REPORTS) {
		printf("%s: %#llx: %s\n", file->name, addr, results[result].name);
		fflush(stdout);
		unwind_table_print(table, offset, offset + 1, stdout);
	}
}

/* @only_saves: find registers that functions save, on which rules of others depend */
static void compare_table(struct file *file, const struct unwind_table *table,
			  unsigned int step, bool only_saves)
{
	const struct unwind_table_header *header;
	const struct unwind_table_run *runs;
	const struct unwind_table_row *rows;
	const struct unwind_table_rule *rules;
	const __u32 *blocks;
	const char *wrong;
	size_t len;
	__u32 run, i, k, last, shift, page = 0;

	header = unwind_table_data(table, &len);
	wrong = unwind_table_check(header, len);
	if (wrong)
		errx(1, "%s: bad table: %s", file->name, wrong);
	runs = (const void *)(header + 1);
	blocks = (const void *)(runs + header->nr_runs);
	shift = UNWIND_TABLE_PAGE_SHIFT - header->block_shift;
	rows = (const void *)(blocks + (header->nr_pages << shift) + 1);
	rules = (const void *)(rows + header->nr_rows);
	for (run = 0; run < header->nr_runs; run++) {
		for (i = 0; i < runs[run].nr_pages; i++, page++) {
			__u64 start = (runs[run].page + i) << UNWIND_TABLE_PAGE_SHIFT;

			k = page ? blocks[page << shift] + 1 : 0;
			last = blocks[(page + 1) << shift];
			for (; k <= last; k++) {
				const struct unwind_table_rule *rule = &rules[rows[k].rule];
				__u64 end = start + UNWIND_TABLE_PAGE_SIZE;

				if (only_saves)
					find_save(file, start + rows[k].offset, rule);
				if (only_saves || k % step)
					continue;
				if (k < last)
					end = start + rows[k + 1].offset;
				nr_rows++;
				compare_byte(file, table, start + rows[k].offset, rule);
				if (end - 1 > start + rows[k].offset)
					compare_byte(file, table, end - 1, rule);
			}
		}
	}
}

static void find_segments(struct file *file)
{
	size_t n, i;

	if (elf_getphdrnum(file->elf, &n))
		errx(2, "%s: %s", file->name, elf_errmsg(-1));
	for (i = 0; i < n && file->nr_segments < 64; i++) {
		GElf_Phdr *phdr = &file->segments[file->nr_segments];

		if (gelf_getphdr(file->elf, i, phdr) && phdr->p_type == PT_LOAD &&
		    phdr->p_flags & PF_X)
			file->nr_segments++;
	}
}

static void open_dwarf(struct file *file, int fd)
{
	file->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	file->cfi = dwarf_getcfi_elf(file->elf);
	file->debug = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	file->debug_cfi = file->debug ? dwarf_getcfi(file->debug) : NULL;
	find_segments(file);
}

static void close_dwarf(struct file *file)
{
	if (file->cfi)
		dwarf_cfi_end(file->cfi);
	if (file->debug)
		dwarf_end(file->debug);
	elf_end(file->elf);
}

/* A file that is said to have no FDEs: anything at any byte of its code? */
static void compare_nothing(struct file *file)
{
	enum result result = NO_TABLE;
	__u64 k;
	int i;

	for (i = 0; i < file->nr_segments; i++) {
		for (k = 0; k < file->segments[i].p_filesz; k++) {
			Dwarf_Frame *frame = frame_at(file, file->segments[i].p_vaddr + k);

			if (frame)
				result = TABLE_MISSING;
			free(frame);
		}
	}
	counts[result]++;
	if (!results[result].explained)
		printf("%s: %s\n", file->name, results[result].name);
}

static void compare_file(const char *name, unsigned int step)
{
	struct file file = { .name = name };
	struct unwind_table *table;
	int fd, rc;

	fd = open(name, O_RDONLY);
	if (fd < 0) {
		warn("%s", name);
		return;
	}
	rc = unwind_table_from_fd(fd, &table);
	if (rc && rc != -ENOEXEC && rc != -ENODATA)
		errx(1, "%s: %s", name, strerror(-rc));
	if (rc == -ENODATA) {
		open_dwarf(&file, fd);
		compare_nothing(&file);
		close_dwarf(&file);
	} else if (!rc) {
		open_dwarf(&file, fd);
		file.stats = unwind_table_stats(table);
		file.saves = calloc(MAX_SAVES + 1, sizeof(*file.saves));
		compare_table(&file, table, step, true);
		compare_table(&file, table, step, false);
		free(file.saves);
		close_dwarf(&file);
		unwind_table_free(table);
		nr_files++;
	}
	close(fd);
}

int main(int argc, char **argv)
{
	unsigned int step = 1;
	bool failed = false;
	int opt, i;

	while ((opt = getopt(argc, argv, "s:")) != -1) {
		if (opt != 's' || atoi(optarg) < 1)
			errx(2, "usage: compare [-s N] FILE...");
		step = atoi(optarg);
	}
	elf_version(EV_CURRENT);
	for (i = optind; i < argc; i++)
		compare_file(argv[i], step);
	printf("%lu files, %lu rows, %lu places\n", nr_files, nr_rows, nr_places);
	for (i = 0; i < NR_RESULTS; i++) {
		if (!counts[i])
			continue;
		printf("%s%lu %s\n", results[i].explained ? "" : "! ", counts[i],
		       results[i].name);
		if (!results[i].explained)
			failed = true;
	}
	return failed;
}
