// SPDX-License-Identifier: GPL-2.0
/*
 * compare FILE... - compare the SFrame decoder with elfutils' CFI evaluator
 *
 * For each executable byte of linked ELF files: the rule of the decoder by
 * .sframe against that of libdw by .eh_frame. Both describe the same code, made
 * by the same assembler from the same directives, so they must agree except
 * where SFrame cannot express a rule. Exits with 1 if anything is left
 * unexplained.
 */

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdio.h>
#include <stdlib.h>

#include "elf_file.h"

#define DWARF_RA	16
#define MAX_REPORTS	20

/* Rules that SFrame cannot express, or a version of it, or its assembler */
enum {
	HAS_EXPRESSION	= 1 << 0,
	HAS_OTHER_REG	= 1 << 1,
	HAS_SIGNAL	= 1 << 2,
	HAS_UNDEFINED	= 1 << 3,
	HAS_MOVED	= 1 << 4,
	/* Of the file, not of the rule */
	HAS_NO_TABLE	= 1 << 5,
	HAS_PLT_GOT	= 1 << 6,
	HAS_ARGS_SIZE	= 1 << 7,
	HAS_NO_FP	= 1 << 8,
};

enum result {
	AGREE,
	AGREE_OUTERMOST,
	AGREE_NEITHER,
	HOLE_EXPRESSION,
	HOLE_OTHER_REG,
	HOLE_SIGNAL,
	HOLE_MOVED,
	HOLE_NO_TABLE,
	HOLE_ARGS_SIZE,
	HOLE_NO_FP,
	SIGNAL_LOST,
	OUTERMOST_LOST,
	PLT_GOT_WRONG,
	NO_FP_LOST,
	SFRAME_MISSING,
	SFRAME_BAD,
	CFI_MISSING,
	DIFFERENT_CFA,
	DIFFERENT_RA,
	DIFFERENT_FP,
	DIFFERENT_SIGNAL,
	NR_RESULTS,
};

static const struct {
	const char *name;
	bool explained;
} results[NR_RESULTS] = {
	[AGREE]		   = { "equal rules", true },
	[AGREE_OUTERMOST]  = { "outermost in both", true },
	[AGREE_NEITHER]	   = { "no information in either", true },
	[HOLE_EXPRESSION]  = { "none in SFrame: function has a DWARF expression", true },
	[HOLE_OTHER_REG]   = { "none in SFrame V2: function has a CFA register other than SP/FP", true },
	[HOLE_SIGNAL]	   = { "none in SFrame V2: signal frame", true },
	[HOLE_MOVED]	   = { "none in SFrame V2: RA or FP is not at a fixed slot", true },
	[HOLE_NO_TABLE]	   = { "none in SFrame: from a start file or libgcc, without tables", true },
	[HOLE_ARGS_SIZE]   = { "none in SFrame V2: function has DW_CFA_GNU_args_size", true },
	[HOLE_NO_FP]	   = { "none in SFrame: function with undefined FP", true },
	[NO_FP_LOST]	   = { "equal, but FP undefined, which SFrame cannot say", true },
	[SIGNAL_LOST]	   = { "equal, but SFrame V2 has no signal bit", true },
	[OUTERMOST_LOST]   = { "outermost, but the assembler makes an ordinary row of it (V2)", true },
	[PLT_GOT_WRONG]	   = { "different CFA in .plt.got: the linker describes it as .plt", true },
	[SFRAME_MISSING]   = { "none in SFrame", false },
	[SFRAME_BAD]	   = { "SFrame table bad", false },
	[CFI_MISSING]	   = { "none in CFI", false },
	[DIFFERENT_CFA]	   = { "different CFA", false },
	[DIFFERENT_RA]	   = { "different return address", false },
	[DIFFERENT_FP]	   = { "different frame pointer", false },
	[DIFFERENT_SIGNAL] = { "different signal bit", false },
};

struct file {
	const char	*name;
	struct elf_file	e;
	Dwarf_CFI	*cfi;
	/* Assembly may have its CFI in .debug_frame. */
	Dwarf		*debug;
	Dwarf_CFI	*debug_cfi;
	u64		plt_got;
	u64		plt_got_len;
	u8		*seen[ELF_FILE_SEGMENTS];
	unsigned long	counts[NR_RESULTS];
	unsigned int	reports;
	enum result	last_result;
	u64		last_pc;
};

/* One row of CFI in the decoder's terms */
struct cfi_row {
	struct unwind_rule	rule;
	Dwarf_Addr		start;
	Dwarf_Addr		end;
	unsigned int		has;
};

static bool open_file(struct file *f)
{
	GElf_Shdr *shdr;
	Elf_Scn *scn;
	int i;

	if (!elf_file_open(&f->e, f->name))
		return false;
	for (i = 0; i < f->e.nr_segments; i++)
		f->seen[i] = calloc(1, f->e.segments[i].p_memsz);
	shdr = elf_file_section(&f->e, ".plt.got", &scn);
	if (shdr) {
		f->plt_got = shdr->sh_addr;
		f->plt_got_len = shdr->sh_size;
	}
	f->cfi = dwarf_getcfi_elf(f->e.elf);
	if (!f->cfi)
		errx(2, "%s: no CFI: %s", f->name, dwarf_errmsg(-1));
	f->debug = dwarf_begin_elf(f->e.elf, DWARF_C_READ, NULL);
	f->debug_cfi = f->debug ? dwarf_getcfi(f->debug) : NULL;
	return true;
}

/*
 * The expression that linkers describe a PLT with: one word more once the code
 * has pushed. Comes down to SP + offset where the IP is known.
 */
static bool is_plt_expression(const Dwarf_Op *ops, size_t n)
{
	static const u8 atoms[] = {
		DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0, DW_OP_ge,
		DW_OP_lit3, DW_OP_shl, DW_OP_plus,
	};
	size_t i;

	if (n != ARRAY_SIZE(atoms))
		return false;
	for (i = 0; i < n; i++) {
		if (atoms[i] ? ops[i].atom != atoms[i] :
		    ops[i].atom < DW_OP_lit0 || ops[i].atom > DW_OP_lit31)
			return false;
	}
	return true;
}

/* CFA: register and offset, or neither */
static void cfa_of(Dwarf_Frame *frame, u64 pc, struct cfi_row *row)
{
	struct unwind_loc *cfa = &row->rule.cfa;
	unsigned int reg;
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_cfa(frame, &ops, &n) || !n) {
		row->has |= HAS_EXPRESSION;
		return;
	}

	cfa->where = UNWIND_REG;
	if (is_plt_expression(ops, n)) {
		cfa->reg = UNWIND_REG_SP;
		cfa->off = ops[0].number;
		if ((pc & 15) >= (u64)ops[4].atom - DW_OP_lit0)
			cfa->off += 8;
		/* Applies to this byte only. */
		row->start = pc;
		row->end = pc + 1;
		return;
	}
	if (ops[0].atom == DW_OP_bregx) {
		reg = ops[0].number;
		cfa->off = ops[0].number2;
	} else if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
		reg = ops[0].atom - DW_OP_breg0;
		cfa->off = ops[0].number;
	} else {
		row->has |= HAS_EXPRESSION;
		return;
	}

	/* Two expressions that V3 can have: register + offset, and its target */
	if (n == 2 && ops[1].atom == DW_OP_deref) {
		cfa->where = UNWIND_REG_DEREF;
		row->has |= HAS_EXPRESSION;
	} else if (n != 1) {
		row->has |= HAS_EXPRESSION;
	}
	cfa->reg = reg;
	if (reg != UNWIND_REG_SP && reg != UNWIND_REG_FP)
		row->has |= HAS_OTHER_REG;
}

static void reg_of(Dwarf_Frame *frame, int regno, struct unwind_loc *loc,
		   unsigned int *has)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, regno, mem, &ops, &n)) {
		*has |= HAS_EXPRESSION;
		return;
	}
	if (!n) {
		loc->where = ops ? UNWIND_UNDEFINED : UNWIND_SAME;
		return;
	}

	if (ops[0].atom == DW_OP_regx || (ops[0].atom >= DW_OP_reg0 &&
					  ops[0].atom <= DW_OP_reg31)) {
		loc->where = UNWIND_REG;
		loc->reg = ops[0].atom == DW_OP_regx ? ops[0].number :
						       ops[0].atom - DW_OP_reg0;
		*has |= HAS_MOVED;
		return;
	}
	if (ops[0].atom == DW_OP_call_frame_cfa && ops == mem) {
		loc->where = UNWIND_CFA_DEREF;
		if (n > 1 && ops[1].atom == DW_OP_plus_uconst)
			loc->off = ops[1].number;
		if (ops[n - 1].atom == DW_OP_stack_value) {
			loc->where = UNWIND_CFA;
			*has |= HAS_MOVED;
		}
		return;
	}

	/* Expressions start with the CFA on the stack. */
	*has |= HAS_EXPRESSION;
	if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa &&
	    ops[1].atom >= DW_OP_breg0 && ops[1].atom <= DW_OP_breg31) {
		loc->where = UNWIND_REG_DEREF;
		loc->reg = ops[1].atom - DW_OP_breg0;
		loc->off = ops[1].number;
	}
}

static bool cfi_at(Dwarf_CFI *cfi, Dwarf_Addr pc, struct cfi_row *row)
{
	Dwarf_Frame *frame;
	bool signal;

	*row = (struct cfi_row) { .start = pc, .end = pc + 1 };
	if (!cfi || dwarf_cfi_addrframe(cfi, pc, &frame))
		return false;

	dwarf_frame_info(frame, &row->start, &row->end, &signal);
	row->rule.signal = signal;
	cfa_of(frame, pc, row);
	reg_of(frame, DWARF_RA, &row->rule.ra, &row->has);
	reg_of(frame, UNWIND_REG_FP, &row->rule.fp, &row->has);
	if (row->rule.ra.where == UNWIND_UNDEFINED &&
	    !(row->has & HAS_EXPRESSION)) {
		row->rule.outermost = true;
		row->has |= HAS_UNDEFINED;
	}
	if (row->rule.fp.where == UNWIND_UNDEFINED)
		row->has |= HAS_NO_FP;
	if (row->rule.ra.where == UNWIND_CFA_DEREF && row->rule.ra.off != -8)
		row->has |= HAS_MOVED;
	if (signal)
		row->has |= HAS_SIGNAL;
	free(frame);
	return true;
}

static bool same_loc(const struct unwind_loc *a, const struct unwind_loc *b)
{
	return a->where == b->where && a->reg == b->reg && a->off == b->off;
}

static enum result compare_rules(const struct file *f,
				 const struct cfi_row *row,
				 const struct unwind_rule *rule,
				 unsigned int has)
{
	if (rule->outermost && row->rule.outermost)
		return AGREE_OUTERMOST;
	if (row->rule.outermost && f->e.sec.version == 2)
		return OUTERMOST_LOST;
	if (rule->outermost || row->rule.outermost)
		return DIFFERENT_RA;
	if (!same_loc(&rule->cfa, &row->rule.cfa))
		return has & HAS_PLT_GOT ? PLT_GOT_WRONG : DIFFERENT_CFA;
	if (!same_loc(&rule->ra, &row->rule.ra))
		return DIFFERENT_RA;
	if (!same_loc(&rule->fp, &row->rule.fp))
		return row->rule.fp.where == UNWIND_UNDEFINED ? NO_FP_LOST :
								DIFFERENT_FP;
	if (rule->signal != row->rule.signal)
		return f->e.sec.version == 2 ? SIGNAL_LOST : DIFFERENT_SIGNAL;
	return AGREE;
}

/* There is no SFrame rule where CFI has one. @has is of the whole function. */
static enum result explain_hole(const struct file *f, unsigned int has)
{
	if (has & HAS_NO_TABLE)
		return HOLE_NO_TABLE;
	if (has & HAS_EXPRESSION)
		return HOLE_EXPRESSION;
	if (has & HAS_NO_FP)
		return HOLE_NO_FP;
	if (f->e.sec.version != 2)
		return SFRAME_MISSING;
	if (has & HAS_OTHER_REG)
		return HOLE_OTHER_REG;
	if (has & HAS_SIGNAL)
		return HOLE_SIGNAL;
	if (has & HAS_ARGS_SIZE)
		return HOLE_ARGS_SIZE;
	if (has & HAS_MOVED)
		return HOLE_MOVED;
	return SFRAME_MISSING;
}

static void print_loc(const char *name, const struct unwind_loc *loc)
{
	static const char * const where[] = {
		"undefined", "same", "reg", "*reg", "cfa", "*cfa",
	};

	printf(" %s %s(%u)%+d", name, where[loc->where], loc->reg, loc->off);
}

static void print_rule(const char *name, const struct unwind_rule *rule)
{
	printf("#   %s:", name);
	print_loc("cfa", &rule->cfa);
	print_loc("ra", &rule->ra);
	print_loc("fp", &rule->fp);
	printf("%s%s\n", rule->outermost ? " outermost" : "",
	       rule->signal ? " signal" : "");
}

static void compare_pc(struct file *f, u64 pc, const struct cfi_row *row,
		       unsigned int has)
{
	enum sframe_status status;
	struct unwind_rule rule;
	enum result result;
	bool again;

	status = elf_file_find(&f->e, pc, &rule);
	if (status == SFRAME_OK)
		result = row ? compare_rules(f, row, &rule, has) : CFI_MISSING;
	else if (status != SFRAME_NO_ROW)
		result = SFRAME_BAD;
	else
		result = row ? explain_hole(f, has) : AGREE_NEITHER;

	f->counts[result]++;
	/* Only the first of the bytes with the same problem */
	again = result == f->last_result && pc == f->last_pc + 1;
	f->last_result = result;
	f->last_pc = pc;
	if (results[result].explained || again || f->reports++ >= MAX_REPORTS)
		return;
	printf("# %s: %#llx: %s (%s)\n", f->name, (unsigned long long)pc,
	       results[result].name, sframe_status_text[status]);
	if (row)
		print_rule("cfi", &row->rule);
	if (status == SFRAME_OK)
		print_rule("sframe", &rule);
}

static u8 *seen(struct file *f, u64 pc)
{
	int i;

	for (i = 0; i < f->e.nr_segments; i++) {
		if (pc - f->e.segments[i].p_vaddr < f->e.segments[i].p_memsz)
			return f->seen[i] + (pc - f->e.segments[i].p_vaddr);
	}
	return NULL;
}

/* Start files and libgcc: the distribution built them, without tables. */
static bool has_no_table(struct file *f, u64 start)
{
	static const char * const names[] = {
		"_start", "_dl_relocate_static_pie", "__mulsc3", "__muldc3",
		"__mulxc3", "__divsc3", "__divdc3", "__divxc3",
	};
	GElf_Shdr *shdr;
	Elf_Data *data;
	GElf_Sym sym;
	Elf_Scn *scn;
	int i, j;

	shdr = elf_file_section(&f->e, ".symtab", &scn);
	data = shdr ? elf_getdata(scn, NULL) : NULL;
	for (i = 0; data && gelf_getsym(data, i, &sym); i++) {
		if (sym.st_value != start)
			continue;
		for (j = 0; j < (int)ARRAY_SIZE(names); j++) {
			if (!strcmp(elf_strptr(f->e.elf, shdr->sh_link,
					       sym.st_name), names[j]))
				return true;
		}
	}
	return false;
}

static void compare_function(struct file *f, u64 start, u64 end,
			     unsigned int has)
{
	struct unwind_rule rule;
	struct cfi_row row;
	u64 pc;

	/* Symbols are looked up where they may explain something only. */
	if (elf_file_find(&f->e, start, &rule) == SFRAME_NO_ROW && has_no_table(f, start))
		has |= HAS_NO_TABLE;
	if (start - f->plt_got < f->plt_got_len)
		has |= HAS_PLT_GOT;

	for (pc = start; pc < end && cfi_at(f->cfi, pc, &row); pc = row.end)
		has |= row.has;

	for (pc = start; pc < end; ) {
		if (!cfi_at(f->cfi, pc, &row)) {
			warnx("%s: no CFI at %#llx within its function", f->name,
			      (unsigned long long)pc);
			return;
		}
		for (; pc < row.end && pc < end; pc++) {
			/* Overlapping CFI is of functions with two names. */
			if (!seen(f, pc) || *seen(f, pc))
				continue;
			*seen(f, pc) = 1;
			compare_pc(f, pc, &row, has);
		}
	}
}


static u64 uleb(const u8 **p)
{
	unsigned int shift = 0;
	u64 val = 0;

	for (; **p & 0x80; shift += 7)
		val |= (u64)(*(*p)++ & 0x7f) << shift;
	return val | (u64)*(*p)++ << shift;
}

/*
 * Does a function say how much its calls push? That is no business of an
 * unwinder, but an assembler may drop a function for it.
 */
static bool has_args_size(const u8 *p, const u8 *end)
{
	/* LEB128 operands of each operation; 9 is a block after one of them */
	static const u8 operands[0x40] = {
		[DW_CFA_offset_extended] = 2, [DW_CFA_restore_extended] = 1,
		[DW_CFA_undefined] = 1, [DW_CFA_same_value] = 1,
		[DW_CFA_register] = 2, [DW_CFA_def_cfa] = 2,
		[DW_CFA_def_cfa_register] = 1, [DW_CFA_def_cfa_offset] = 1,
		[DW_CFA_def_cfa_expression] = 8, [DW_CFA_expression] = 9,
		[DW_CFA_offset_extended_sf] = 2, [DW_CFA_def_cfa_sf] = 2,
		[DW_CFA_def_cfa_offset_sf] = 1, [DW_CFA_val_offset] = 2,
		[DW_CFA_val_offset_sf] = 2, [DW_CFA_val_expression] = 9,
	};
	unsigned int i;
	u64 len;

	while (p < end) {
		u8 op = *p++;

		if (op == DW_CFA_GNU_args_size)
			return true;
		if (op >= 0x40) {
			if (op >> 6 == DW_CFA_offset >> 6)
				uleb(&p);
			continue;
		}
		if (op == DW_CFA_set_loc)
			return false;
		if (op >= DW_CFA_advance_loc1 && op <= DW_CFA_advance_loc4)
			p += 1 << (op - DW_CFA_advance_loc1);
		for (i = 0; i < (operands[op] & 7); i++)
			uleb(&p);
		if (operands[op] & 8) {
			len = uleb(&p);
			p += len;
		}
	}
	return false;
}

/* How the CIE encodes addresses: after each letter but 'z' comes its operand. */
static u8 encoding_of(const Dwarf_CIE *cie)
{
	const u8 *p = cie->augmentation_data;
	const char *letter = cie->augmentation;

	if (*letter++ != 'z')
		return DW_EH_PE_absptr;
	for (; *letter; letter++) {
		if (*letter == 'R')
			return *p;
		if (*letter == 'L')
			p++;
		if (*letter == 'P')
			p += *p & 0x4 ? 9 : 5;
	}
	return DW_EH_PE_absptr;
}

static void compare_fde(struct file *f, const GElf_Ehdr *ehdr, Elf_Data *data,
			u64 addr, const Dwarf_FDE *fde)
{
	const u8 *p = fde->start;
	Dwarf_CFI_Entry cie;
	Dwarf_Off next;
	u64 start, len, len_aug;
	u8 enc;

	if (dwarf_next_cfi(ehdr->e_ident, data, true, fde->CIE_pointer, &next,
			   &cie))
		errx(2, "%s: CIE: %s", f->name, dwarf_errmsg(-1));
	enc = encoding_of(&cie.cie);
	if (enc == (DW_EH_PE_pcrel | DW_EH_PE_sdata4)) {
		start = addr + (p - (const u8 *)data->d_buf) +
			(s32)get_unaligned_le32(p);
		len = get_unaligned_le32(p + 4);
	} else if (enc == (DW_EH_PE_pcrel | DW_EH_PE_sdata8)) {
		start = addr + (p - (const u8 *)data->d_buf) +
			get_unaligned_le64(p);
		len = get_unaligned_le64(p + 8);
	} else if (enc == DW_EH_PE_udata4) {
		start = get_unaligned_le32(p);
		len = get_unaligned_le32(p + 4);
	} else {
		errx(2, "%s: address encoding %#x", f->name, enc);
	}

	/* The augmentation data comes before the operations. */
	p += (enc & 0xf) == DW_EH_PE_sdata8 ? 16 : 8;
	len_aug = uleb(&p);
	compare_function(f, start, start + len,
			 has_args_size(p + len_aug, fde->end) ?
				 HAS_ARGS_SIZE : 0);
}

/* The CFI from the symbol at or before @pc on to the next one */
static unsigned int has_around(struct file *f, u64 pc)
{
	u64 start = 0, end = U64_MAX, at;
	unsigned int has = 0;
	struct cfi_row row;
	GElf_Shdr *shdr;
	Elf_Data *data;
	GElf_Sym sym;
	Elf_Scn *scn;
	int i;

	shdr = elf_file_section(&f->e, ".symtab", &scn);
	data = shdr ? elf_getdata(scn, NULL) : NULL;
	for (i = 0; data && gelf_getsym(data, i, &sym); i++) {
		if (sym.st_value <= pc && sym.st_value > start)
			start = sym.st_value;
		if (sym.st_value > pc && sym.st_value < end)
			end = sym.st_value;
	}
	for (at = start; at < end && cfi_at(f->debug_cfi, at, &row); at = row.end)
		has |= row.has;
	return has;
}

/* A byte that .eh_frame does not know */
static void compare_other(struct file *f, u64 pc)
{
	struct unwind_rule rule;
	struct cfi_row row;

	if (!cfi_at(f->debug_cfi, pc, &row))
		compare_pc(f, pc, NULL, 0);
	else if (elf_file_find(&f->e, pc, &rule) == SFRAME_OK)
		compare_pc(f, pc, &row, row.has);
	else
		compare_pc(f, pc, &row, has_around(f, pc));
}

static void compare_all(struct file *f)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off off, next;
	GElf_Shdr *shdr;
	GElf_Ehdr ehdr;
	Elf_Data *data;
	Elf_Scn *scn;
	u64 addr, i;
	int s, ret;

	gelf_getehdr(f->e.elf, &ehdr);
	shdr = elf_file_section(&f->e, ".eh_frame", &scn);
	if (!shdr)
		errx(2, "%s: no .eh_frame", f->name);
	addr = shdr->sh_addr;
	data = elf_rawdata(scn, NULL);
	for (off = 0; off < data->d_size; off = next) {
		ret = dwarf_next_cfi(ehdr.e_ident, data, true, off, &next,
				     &entry);
		if (ret || next == (Dwarf_Off)-1)
			break;
		if (!dwarf_cfi_cie_p(&entry))
			compare_fde(f, &ehdr, data, addr, &entry.fde);
	}

	/* And where there is no CFI, there must not be more in SFrame. */
	for (s = 0; s < f->e.nr_segments; s++) {
		for (i = 0; i < f->e.segments[s].p_memsz; i++) {
			if (!f->seen[s][i])
				compare_other(f, f->e.segments[s].p_vaddr + i);
		}
	}
}

/* Prints the counts; false if any of the results is not explained. */
static bool report(const char *name, const unsigned long *counts)
{
	unsigned long total = 0;
	bool ok = true;
	int i;

	for (i = 0; i < NR_RESULTS; i++)
		total += counts[i];
	printf("# %s: %lu pcs\n", name, total);
	for (i = 0; i < NR_RESULTS; i++) {
		if (!counts[i])
			continue;
		printf("# %12lu %s%s\n", counts[i], results[i].name,
		       results[i].explained ? "" : " - NOT EXPLAINED");
		ok &= results[i].explained;
	}
	return ok;
}

int main(int argc, char **argv)
{
	unsigned long totals[NR_RESULTS] = { };
	bool ok = true;
	int i, j, s;

	if (argc < 2)
		errx(2, "usage: compare FILE...");
	elf_version(EV_CURRENT);
	printf("TAP version 13\n1..%d\n", argc - 1);
	for (i = 1; i < argc; i++) {
		struct file f = { .name = argv[i] };
		bool good = open_file(&f);

		if (good) {
			compare_all(&f);
			printf("# version %u, %u functions\n", f.e.sec.version,
			       f.e.sec.num_fdes);
			good = report(f.name, f.counts);
			dwarf_cfi_end(f.cfi);
			dwarf_end(f.debug);
		}
		elf_end(f.e.elf);
		for (s = 0; s < f.e.nr_segments; s++)
			free(f.seen[s]);
		for (j = 0; j < NR_RESULTS; j++)
			totals[j] += f.counts[j];
		printf("%sok %d %s\n", good ? "" : "not ", i, f.name);
		ok &= good;
	}
	if (argc > 2)
		report("all", totals);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
