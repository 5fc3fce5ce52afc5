// SPDX-License-Identifier: GPL-2.0
/*
 * Call frame information: sections to CIEs and FDEs, and those to rows. See the
 * DWARF standard, 6.4, and the LSB on .eh_frame.
 *
 * All work is linear in the size of the section: a CIE is read once, and only
 * if it is a record of the section; so is an FDE.
 */

#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* Instructions. The first three have an operand in the low six bits. */
enum {
	CFA_ADVANCE_LOC		= 0x40,
	CFA_OFFSET		= 0x80,
	CFA_RESTORE		= 0xc0,

	CFA_NOP			= 0x00,
	CFA_SET_LOC		= 0x01,
	CFA_ADVANCE_LOC1	= 0x02,
	CFA_ADVANCE_LOC2	= 0x03,
	CFA_ADVANCE_LOC4	= 0x04,
	CFA_OFFSET_EXTENDED	= 0x05,
	CFA_RESTORE_EXTENDED	= 0x06,
	CFA_UNDEFINED		= 0x07,
	CFA_SAME_VALUE		= 0x08,
	CFA_REGISTER		= 0x09,
	CFA_REMEMBER_STATE	= 0x0a,
	CFA_RESTORE_STATE	= 0x0b,
	CFA_DEF_CFA		= 0x0c,
	CFA_DEF_CFA_REGISTER	= 0x0d,
	CFA_DEF_CFA_OFFSET	= 0x0e,
	CFA_DEF_CFA_EXPRESSION	= 0x0f,
	CFA_EXPRESSION		= 0x10,
	CFA_OFFSET_EXTENDED_SF	= 0x11,
	CFA_DEF_CFA_SF		= 0x12,
	CFA_DEF_CFA_OFFSET_SF	= 0x13,
	CFA_VAL_OFFSET		= 0x14,
	CFA_VAL_OFFSET_SF	= 0x15,
	CFA_VAL_EXPRESSION	= 0x16,
	CFA_ADVANCE_LOC8	= 0x1d,
	CFA_GNU_ARGS_SIZE	= 0x2e,
	CFA_GNU_NEGATIVE_OFFSET	= 0x2f,
};

/* Of one section; the largest programs have a million FDEs */
#define MAX_CIES		(1 << 18)
#define MAX_FDES		(1 << 22)

/* States that are remembered at once; compilers need two */
#define MAX_REMEMBERED		256

/* An expression that depends on the IP is spread over so many bytes at most. */
#define MAX_SPREAD		(1 << 20)

/* Groups of seven bits, the lowest first; the last byte, and whether it has more than 64 bits */
static inline __u64 get_leb(struct ut_cursor *c, unsigned int *shift, __u8 *byte, bool *too_long)
{
	__u64 value = 0;

	do {
		*byte = ut_get(c, 1);
		if (*shift < 64)
			value |= (__u64)(*byte & 0x7f) << *shift;
		if (*shift == 63 ? *byte & 0x7e : *shift > 63 && (*byte & 0x7f))
			*too_long = true;
		*shift = *shift < 64 ? *shift + 7 : *shift;
	} while (!c->bad && (*byte & 0x80));
	return c->bad ? 0 : value;
}

__u64 ut_get_uleb_long(struct ut_cursor *c)
{
	unsigned int shift = 0;
	bool too_long = false;
	__u8 byte;
	__u64 value = get_leb(c, &shift, &byte, &too_long);

	c->bad |= too_long;
	return c->bad ? 0 : value;
}

__s64 ut_get_sleb(struct ut_cursor *c)
{
	unsigned int shift = 0;
	bool too_long;
	__u8 byte;
	__u64 value = get_leb(c, &shift, &byte, &too_long);

	if (!c->bad && shift < 64 && (byte & 0x40))
		value |= ~0ULL << shift;
	return value;
}

/* A number in the format of an encoded address, without its base */
__u64 ut_get_encoded(struct ut_cursor *c, __u8 encoding)
{
	switch (encoding & 0x0f) {
	case 0x00:
	case 0x04:
	case 0x08:
	case 0x0c:
		return ut_get(c, 8);
	case 0x01:
		return ut_get_uleb(c);
	case 0x02:
		return ut_get(c, 2);
	case 0x03:
		return ut_get(c, 4);
	case 0x09:
		return ut_get_sleb(c);
	case 0x0a:
		return (__s64)(__s16)ut_get(c, 2);
	case 0x0b:
		return (__s64)(__s32)ut_get(c, 4);
	default:
		c->bad = true;
		return 0;
	}
}

/* Others are relative to a base that only the linker knows, or are elsewhere. */
static bool can_read(__u8 encoding)
{
	return (encoding & 0xf0) == UT_PE_ABSPTR || (encoding & 0xf0) == UT_PE_PCREL;
}

static __u64 get_address(struct ut_cursor *c, const struct ut_section *section, __u8 encoding)
{
	__u64 at = section->addr + (c->pos - section->bytes.data);
	__u64 value = ut_get_encoded(c, encoding);

	if ((encoding & 0xf0) == UT_PE_PCREL)
		return value + at;
	return value;
}

/* Where a register's location is noted, NULL: it does not matter */
static struct ut_loc *loc_of(struct ut_state *state, __u64 reg)
{
	switch (reg) {
	case UT_REG_FP:
		return &state->fp;
	case UT_REG_SP:
		return &state->sp;
	case UT_REG_RA:
		return &state->ra;
	default:
		return NULL;
	}
}

static void set_loc(struct ut_state *state, __u64 reg, enum ut_how how, __s64 off)
{
	struct ut_loc *loc = loc_of(state, reg);

	if (loc)
		*loc = (struct ut_loc){ .how = how, .off = off };
	else if (reg == state->kept_reg)
		state->kept = how == UT_OFFSET ? off : 0;
}

/* A register's expression may use the CFA. */
static void set_expr(struct ut_cursor *c, struct ut_loc *loc, enum ut_how how, bool has_cfa)
{
	__u64 len = ut_get_uleb(c);
	const __u8 *expr = ut_skip(c, len);

	if (!loc || !expr || len > UINT32_MAX)
		return;
	*loc = (struct ut_loc){ .how = how, .expr = expr, .expr_len = len };
	ut_expr_prepare(loc, has_cfa);
}

static __s64 times(__u64 a, __s64 b)
{
	return a * (__u64)b;
}

/*
 * One instruction that does not advance. Fails if it is not known or makes no
 * sense; then nothing is known about the rest of the FDE.
 */
static bool change_state(struct ut_cursor *c, __u8 op, const struct ut_cie *cie,
			 struct ut_state *state)
{
	__u64 reg;

	switch (op) {
	case CFA_NOP:
		break;
	case CFA_OFFSET_EXTENDED:
		reg = ut_get_uleb(c);
		set_loc(state, reg, UT_OFFSET, times(ut_get_uleb(c), cie->data_align));
		break;
	case CFA_OFFSET_EXTENDED_SF:
		reg = ut_get_uleb(c);
		set_loc(state, reg, UT_OFFSET, times(ut_get_sleb(c), cie->data_align));
		break;
	case CFA_GNU_NEGATIVE_OFFSET:
		reg = ut_get_uleb(c);
		set_loc(state, reg, UT_OFFSET, times(-ut_get_uleb(c), cie->data_align));
		break;
	case CFA_VAL_OFFSET:
		reg = ut_get_uleb(c);
		set_loc(state, reg, UT_VAL_OFFSET, times(ut_get_uleb(c), cie->data_align));
		break;
	case CFA_VAL_OFFSET_SF:
		reg = ut_get_uleb(c);
		set_loc(state, reg, UT_VAL_OFFSET, times(ut_get_sleb(c), cie->data_align));
		break;
	case CFA_UNDEFINED:
		set_loc(state, ut_get_uleb(c), UT_UNDEFINED, 0);
		break;
	case CFA_SAME_VALUE:
		set_loc(state, ut_get_uleb(c), UT_SAME, 0);
		break;
	case CFA_REGISTER:
		reg = ut_get_uleb(c);
		set_loc(state, reg, UT_REGISTER, ut_get_uleb(c));
		break;
	case CFA_EXPRESSION:
		reg = ut_get_uleb(c);
		set_loc(state, reg, UT_EXPRESSION, 0);
		set_expr(c, loc_of(state, reg), UT_EXPRESSION, true);
		break;
	case CFA_VAL_EXPRESSION:
		reg = ut_get_uleb(c);
		set_loc(state, reg, UT_VAL_EXPRESSION, 0);
		set_expr(c, loc_of(state, reg), UT_VAL_EXPRESSION, true);
		break;
	case CFA_DEF_CFA:
		state->cfa_reg = ut_get_uleb(c);
		state->cfa = (struct ut_loc){ UT_VAL_OFFSET, .off = ut_get_uleb(c) };
		break;
	case CFA_DEF_CFA_SF:
		state->cfa_reg = ut_get_uleb(c);
		state->cfa = (struct ut_loc){ UT_VAL_OFFSET,
			.off = times(ut_get_sleb(c), cie->data_align) };
		break;
	case CFA_DEF_CFA_REGISTER:
		state->cfa_reg = ut_get_uleb(c);
		return state->cfa.how == UT_VAL_OFFSET;
	case CFA_DEF_CFA_OFFSET:
		state->cfa.off = ut_get_uleb(c);
		return state->cfa.how == UT_VAL_OFFSET;
	case CFA_DEF_CFA_OFFSET_SF:
		state->cfa.off = times(ut_get_sleb(c), cie->data_align);
		return state->cfa.how == UT_VAL_OFFSET;
	case CFA_DEF_CFA_EXPRESSION:
		set_expr(c, &state->cfa, UT_EXPRESSION, false);
		break;
	case CFA_GNU_ARGS_SIZE:
		/* Used when jumping to a landing pad; does not affect unwinding. */
		ut_get_uleb(c);
		break;
	default:
		return false;
	}
	return true;
}

/* The state that a register had in the first row */
static void restore(struct ut_state *state, const struct ut_cie *cie, __u64 reg)
{
	struct ut_loc *loc = loc_of(state, reg);

	if (loc)
		*loc = *loc_of((struct ut_state *)&cie->state, reg);
	else
		set_loc(state, reg, UT_UNSPECIFIED, 0);
}

/* Instructions of a CIE make the state of all its FDEs. */
static bool run_cie(struct ut_cie *cie)
{
	struct ut_cursor c = { .pos = cie->program, .end = cie->program_end };

	while (ut_more(&c)) {
		__u8 op = ut_get(&c, 1);

		if ((op & 0xc0) == CFA_OFFSET) {
			set_loc(&cie->state, op & 0x3f, UT_OFFSET,
				times(ut_get_uleb(&c), cie->data_align));
			continue;
		}
		if (!change_state(&c, op, cie, &cie->state))
			return false;
	}
	return !c.bad;
}

/*
 * Augmentation data: how addresses in FDEs are encoded, and the mark of a signal
 * frame. A letter that is not known does no harm in itself, as the length is given.
 * But the data is in the order of the letters, so the data after it is not known either.
 */
static bool read_augmentation(struct ut_cursor *c, const char *augmentation,
			      struct ut_cie *cie)
{
	struct ut_cursor data;
	const __u8 *start;
	__u64 len;
	__u8 encoding;

	if (*augmentation != 'z')
		return !*augmentation || !strcmp(augmentation, "eh");
	cie->augmented = true;
	len = ut_get_uleb(c);
	start = ut_skip(c, len);
	if (!start)
		return false;
	data = (struct ut_cursor){ .pos = start, .end = start + len };
	for (augmentation++; *augmentation; augmentation++) {
		switch (*augmentation) {
		case 'R':
			cie->encoding = ut_get(&data, 1);
			break;
		case 'P':
			encoding = ut_get(&data, 1);
			/* An aligned one needs its address; no compiler makes it. */
			if (encoding == UT_PE_ALIGNED)
				return false;
			if (encoding != UT_PE_OMIT)
				ut_get_encoded(&data, encoding);
			break;
		case 'L':
			cie->lsda = ut_get(&data, 1);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B':
			break;
		default:
			return false;
		}
	}
	return !data.bad;
}

/* @c: the CIE after its identification */
static void read_cie(struct ut_cursor *c, const struct ut_section *section,
		     struct ut_cie *cie)
{
	const char *augmentation;
	const __u8 *end;
	__u64 ra;
	__u8 version;

	cie->unreadable = UNWIND_TABLE_R_CFI;
	version = ut_get(c, 1);
	if (version != 1 && version != 3 && !(version == 4 && section->debug))
		return;
	augmentation = (const char *)c->pos;
	end = ut_more(c) ? memchr(c->pos, 0, ut_left(c)) : NULL;
	if (!end) {
		cie->unreadable = UNWIND_TABLE_R_BAD;
		return;
	}
	c->pos = end + 1;
	/* Size of an address, and of a segment's number */
	if (version == 4 && (ut_get(c, 1) != 8 || ut_get(c, 1) != 0))
		return;
	if (!strcmp(augmentation, "eh"))
		ut_get(c, 8);
	cie->code_align = ut_get_uleb(c);
	cie->data_align = ut_get_sleb(c);
	ra = version == 1 ? ut_get(c, 1) : ut_get_uleb(c);
	if (!read_augmentation(c, augmentation, cie)) {
		if (c->bad)
			cie->unreadable = UNWIND_TABLE_R_BAD;
		return;
	}
	cie->unreadable = UT_NO_REASON;
	cie->program = c->pos;
	cie->program_end = c->end;
	if (c->bad)
		cie->unreadable = UNWIND_TABLE_R_BAD;
	else if (ra != UT_REG_RA || !run_cie(cie))
		cie->unusable = UNWIND_TABLE_R_CFI;
}

static int new_cie(struct ut_fdes *fdes, struct ut_cie **cie)
{
	struct ut_cie *cies;

	if (fdes->nr_cies == MAX_CIES)
		return -EFBIG;
	cies = ut_grow(fdes->cies, fdes->nr_cies, &fdes->max_cies, sizeof(*cies));
	if (!cies)
		return -ENOMEM;
	fdes->cies = cies;
	*cie = &cies[fdes->nr_cies++];
	**cie = (struct ut_cie){
		.unreadable	= UT_NO_REASON,
		.unusable	= UT_NO_REASON,
		.lsda		= UT_PE_OMIT,
	};
	return 0;
}

/* The CIEs of a section, from @first on, are in the order of their positions. */
static struct ut_cie *find_cie(const struct ut_fdes *fdes, size_t first, __u64 pos)
{
	size_t low = first, high = fdes->nr_cies;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (fdes->cies[mid].pos < pos)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == fdes->nr_cies || fdes->cies[low].pos != pos)
		return NULL;
	return &fdes->cies[low];
}

static void count(struct unwind_table_stats *stats, enum unwind_table_reason reason)
{
	stats->places[reason]++;
}

/* @c: the FDE after the pointer to its CIE */
static int read_fde(struct ut_cursor *c, struct ut_build *build,
		    const struct ut_section *section, const struct ut_cie *cie,
		    struct ut_fdes *fdes)
{
	struct unwind_table_stats *stats = build->stats;
	const struct ut_segment *segment;
	__u64 start, len;
	struct ut_fde *fde;

	if (!cie || cie->unreadable != UT_NO_REASON) {
		count(stats, cie ? cie->unreadable : UNWIND_TABLE_R_BAD);
		return 0;
	}
	if (!can_read(cie->encoding)) {
		count(stats, UNWIND_TABLE_R_CFI);
		return 0;
	}
	start = get_address(c, section, cie->encoding);
	len = ut_get_encoded(c, cie->encoding & 0x0f);
	if (cie->augmented)
		ut_skip(c, ut_get_uleb(c));
	if (c->bad) {
		count(stats, UNWIND_TABLE_R_BAD);
		return 0;
	}
	stats->fdes++;
	if (!len)
		return 0;
	/* It looks through all of them. */
	if (!ut_work(&build->work, build->elf.nr_code / 8))
		return -E2BIG;
	segment = ut_elf_code_at(&build->elf, start);
	if (!segment) {
		/* Linkers put 0 for functions that they have discarded. */
		if (!section->debug)
			count(stats, UNWIND_TABLE_R_BAD);
		return 0;
	}
	start -= segment->addr;
	if (len > segment->len - start) {
		count(stats, UNWIND_TABLE_R_BAD);
		return 0;
	}

	if (fdes->nr_fdes == MAX_FDES)
		return -EFBIG;
	fde = ut_grow(fdes->fdes, fdes->nr_fdes, &fdes->max_fdes, sizeof(*fde));
	if (!fde)
		return -ENOMEM;
	fdes->fdes = fde;
	fde += fdes->nr_fdes++;
	*fde = (struct ut_fde){
		.start		= segment->offset + start,
		.end		= segment->offset + start + len,
		.cie		= cie - fdes->cies,
		.segment	= segment - build->elf.code,
		.program	= c->pos,
		.program_end	= c->end,
	};
	return 0;
}

/* The address of a function's exception table, or 0: all that augmentation data of an FDE has */
__u64 ut_cfi_lsda(const struct ut_cie *cie, const struct ut_fde *fde)
{
	static const __u8 sizes[] = { 8, 0, 2, 4, 8, 0, 0, 0 };
	struct ut_cursor c = { .pos = fde->program - sizes[cie->lsda & 7], .end = fde->program };
	struct ut_cursor value = c;

	if (cie->lsda == UT_PE_OMIT || !can_read(cie->lsda) || !ut_get_encoded(&value, cie->lsda))
		return 0;
	return get_address(&c, cie->section, cie->lsda);
}

/*
 * Split a section into records and keep its FDEs. If .eh_frame was found by program
 * headers, a record of length 0 ends it. If its end is known, later records are used as well, as
 * linkers do. A record that is longer than the rest ends it in any case.
 */
int ut_cfi_read(struct ut_build *build, const struct ut_section *section,
		struct ut_fdes *fdes)
{
	struct unwind_table_stats *stats = build->stats;
	const __u8 *data = section->bytes.data;
	struct ut_cursor c = { .pos = data, .end = data + section->bytes.len };
	size_t first = fdes->nr_cies;
	struct ut_cie *cie = NULL;
	int err = 0;

	while (!err && ut_left(&c) >= 4) {
		struct ut_cursor record;
		const __u8 *start = c.pos, *id_at;
		__u64 len, id, cie_id, pos;
		bool is_long;

		if (!ut_work(&build->work, UT_WORK_RECORD))
			return -E2BIG;
		len = ut_get(&c, 4);
		if (!len) {
			if (!section->exact)
				break;
			continue;
		}
		is_long = len == 0xffffffff;
		if (is_long)
			len = ut_get(&c, 8);
		record.pos = ut_skip(&c, len);
		if (!record.pos) {
			count(stats, UNWIND_TABLE_R_BAD);
			break;
		}
		record.end = c.pos;
		record.bad = false;

		id_at = record.pos;
		/* In .eh_frame it always has four bytes. */
		id = is_long && section->debug ? ut_get(&record, 8) : ut_get(&record, 4);
		cie_id = section->debug ? (is_long ? ~0ULL : 0xffffffff) : 0;
		if (record.bad) {
			count(stats, UNWIND_TABLE_R_BAD);
			continue;
		}
		if (id == cie_id) {
			err = new_cie(fdes, &cie);
			if (err)
				return err;
			cie->pos = start - data;
			cie->section = section;
			if (section->debug)
				cie->encoding = UT_PE_ABSPTR;
			if (!ut_work(&build->work, ut_left(&record)))
				return -E2BIG;
			read_cie(&record, section, cie);
			continue;
		}
		pos = section->debug ? id : (__u64)(id_at - data) - id;
		if (!cie || cie->pos != pos)
			cie = find_cie(fdes, first, pos);
		err = read_fde(&record, build, section, cie, fdes);
	}
	stats->cfi_bytes += c.pos - data;
	return err;
}

/*
 * A number for a row of the common kind: CFA = register + offset, return address
 * at CFA - 8, FP the same or below that. 0: another kind.
 */
static __u64 key_of(const struct ut_cie *cie, const struct ut_state *state)
{
	__u64 fp = 0;

	if (state->cfa.how != UT_VAL_OFFSET || state->cfa_reg >= UT_NR_REGS ||
	    state->cfa.off < 0 || state->cfa.off > INT32_MAX ||
	    state->ra.how != UT_OFFSET || state->ra.off != -8 ||
	    state->sp.how != UT_UNSPECIFIED || cie->signal)
		return 0;
	if (state->fp.how == UT_OFFSET) {
		if (state->fp.off >= 0 || state->fp.off < -0x8000)
			return 0;
		fp = -state->fp.off;
	} else if (state->fp.how != UT_UNSPECIFIED && state->fp.how != UT_SAME) {
		return 0;
	}
	return 1 | state->cfa_reg << 1 | fp << 8 | (__u64)state->cfa.off << 32;
}

/*
 * Where gcc has realigned the stack, the CFA is kept in memory, and the caller's FP
 * where FP points. The epilogue loads the CFA into a register, restores FP, and then
 * SP. But the CFI does not say that FP was restored: its place is still relative to
 * itself.
 */
static bool is_stale(const struct ut_state *state)
{
	return state->cfa.how == UT_VAL_OFFSET && state->cfa_reg != UT_REG_FP &&
	       state->fp.how == UT_EXPRESSION;
}

/* Evaluate a state at each place, unless that was done last. */
static bool fill_spread(struct ut_spread *spread, const struct ut_cie *cie,
			const struct ut_state *state, struct ut_work *work)
{
	__u64 i;

	/* Padding may differ, which only costs time. */
	if (spread->cie == cie && !memcmp(&spread->state, state, sizeof(*state)))
		return true;
	spread->cie = cie;
	memcpy(&spread->state, state, sizeof(*state));
	for (i = 0; i < UT_SPREAD; i++) {
		struct ut_context context = { .ip = i };

		spread->reasons[i] = ut_rule_of(state, cie->signal, &context,
						&spread->rules[i]);
		/* It depends on more than this. */
		if (context.ip_mask >= UT_SPREAD)
			spread->reasons[i] = UNWIND_TABLE_R_EXPRESSION;
		if (!ut_work(work, context.work))
			return false;
	}
	return true;
}

/*
 * Linkers describe all entries of a PLT by one expression, whose result depends on
 * the place within an entry.
 */
static int add_spread(const struct ut_spread *spread, __u64 start, __u64 end, __u64 addr,
		      struct ut_rows *rows)
{
	const enum unwind_table_reason *reasons = spread->reasons;
	const struct unwind_table_rule *rules = spread->rules;
	__u64 i, next;
	int err = 0;

	for (; start < end && !err; start = next, addr += i) {
		__u64 at = addr % UT_SPREAD;

		for (i = 1; i < end - start && at + i < UT_SPREAD; i++) {
			if (reasons[at + i] != reasons[at] ||
			    memcmp(&rules[at + i], &rules[at], sizeof(rules[0])))
				break;
		}
		next = start + i;
		if (reasons[at] != UT_NO_REASON)
			err = ut_rows_add_unknown(rows, start, next, reasons[at]);
		else
			err = ut_rows_add(rows, start, next, &rules[at]);
	}
	return err;
}

/* A range of an FDE with one state becomes rows, one if possible. */
static int add_range(struct ut_build *build, const struct ut_cie *cie,
		     const struct ut_fde *fde, __u64 start, __u64 end,
		     const struct ut_state *state, struct ut_machine *machine,
		     struct ut_rows *rows)
{
	const struct ut_segment *segment = &build->elf.code[fde->segment];
	__u64 addr = ut_addr_of(segment, start);
	struct ut_context context = { .ip = addr };
	__u64 key = key_of(cie, state);
	enum unwind_table_reason reason;
	struct unwind_table_rule rule;
	int err = 0;

	if (machine->look)
		return machine->look(machine->data, start, end, state);
	if (start == end || ut_rows_add_recent(rows, start, end, key, &err))
		return err;
	reason = ut_rule_of(state, cie->signal, &context, &rule);
	if (!ut_work(&build->work, context.work))
		return -E2BIG;
	if (machine->realigned && is_stale(state))
		rule.fp = (struct unwind_table_loc){ .where = UNWIND_TABLE_NONE };
	if (context.ip_mask && context.ip_mask < UT_SPREAD && end - start <= MAX_SPREAD) {
		if (!fill_spread(&machine->spread, cie, state, &build->work))
			return -E2BIG;
		return add_spread(&machine->spread, start, end, addr, rows);
	}
	if (context.ip_mask)
		reason = UNWIND_TABLE_R_EXPRESSION;
	if (reason != UT_NO_REASON)
		return ut_rows_add_unknown(rows, start, end, reason);
	err = ut_rows_add(rows, start, end, &rule);
	if (key && !err)
		ut_rows_set_recent(rows, key);
	return err;
}

/* How far an instruction advances; false: it is of another kind */
static bool get_advance(struct ut_cursor *c, __u8 op, const struct ut_cie *cie, __u64 addr,
			__u64 *advance)
{
	__u64 delta;

	switch (op & 0xc0 ? op & 0xc0 : op) {
	case CFA_ADVANCE_LOC:
		delta = op & 0x3f;
		break;
	case CFA_ADVANCE_LOC1:
		delta = ut_get(c, 1);
		break;
	case CFA_ADVANCE_LOC2:
		delta = ut_get(c, 2);
		break;
	case CFA_ADVANCE_LOC4:
		delta = ut_get(c, 4);
		break;
	case CFA_ADVANCE_LOC8:
		delta = ut_get(c, 8);
		break;
	case CFA_SET_LOC:
		delta = get_address(c, cie->section, cie->encoding);
		if (delta < addr)
			c->bad = true;
		*advance = delta - addr;
		return true;
	default:
		return false;
	}
	if (__builtin_mul_overflow(delta, cie->code_align, advance))
		*advance = ~0ULL;
	return true;
}

static bool remember(struct ut_machine *machine, const struct ut_state *state)
{
	struct ut_state *stack;

	if (machine->nr == MAX_REMEMBERED)
		return false;
	stack = ut_grow(machine->stack, machine->nr, &machine->max, sizeof(*stack));
	if (!stack)
		return false;
	machine->stack = stack;
	stack[machine->nr++] = *state;
	return true;
}

/* One instruction of an FDE that does not advance */
static bool change_fde_state(struct ut_cursor *c, __u8 op, const struct ut_cie *cie,
			     struct ut_state *state, struct ut_machine *machine)
{
	switch (op & 0xc0) {
	case CFA_OFFSET:
		set_loc(state, op & 0x3f, UT_OFFSET, times(ut_get_uleb(c), cie->data_align));
		return true;
	case CFA_RESTORE:
		restore(state, cie, op & 0x3f);
		return true;
	}
	switch (op) {
	case CFA_RESTORE_EXTENDED:
		restore(state, cie, ut_get_uleb(c));
		return true;
	case CFA_REMEMBER_STATE:
		return remember(machine, state);
	case CFA_RESTORE_STATE:
		if (!machine->nr)
			return false;
		*state = machine->stack[--machine->nr];
		return true;
	default:
		return change_state(c, op, cie, state);
	}
}

/*
 * Add the rows of an FDE except for its first @skip bytes, which other FDEs cover. If
 * an instruction cannot be followed, the rest is unknown.
 */
int ut_cfi_run(struct ut_build *build, const struct ut_fdes *fdes,
	       const struct ut_fde *fde, __u64 skip, struct ut_machine *machine,
	       struct ut_rows *rows)
{
	const struct ut_segment *segment = &build->elf.code[fde->segment];
	const struct ut_cie *cie = &fdes->cies[fde->cie];
	struct ut_cursor c = { .pos = fde->program, .end = fde->program_end };
	__u64 loc = fde->start, from = fde->start + skip, advance;
	enum unwind_table_reason reason = cie->unusable;
	struct ut_state state = cie->state;
	int err;

	/* Each instruction has a byte at least, and each operation of an expression. */
	if (!ut_work(&build->work, fde->program_end - fde->program))
		return -E2BIG;
	machine->nr = 0;
	machine->realigned = false;
	state.kept_reg = machine->kept_reg;
	state.kept = 0;
	while (reason == UT_NO_REASON && ut_more(&c)) {
		__u8 op = ut_get(&c, 1);

		if (!get_advance(&c, op, cie, ut_addr_of(segment, loc), &advance)) {
			if (!change_fde_state(&c, op, cie, &state, machine))
				c.bad = true;
			continue;
		}
		if (c.bad || !advance)
			continue;
		/* Rows for code after the end mean nothing. */
		if (advance >= fde->end - loc)
			break;
		machine->realigned |= state.cfa.how == UT_EXPRESSION;
		if (loc + advance > from) {
			err = add_range(build, cie, fde, loc > from ? loc : from,
					loc + advance, &state, machine, rows);
			if (err)
				return err;
		}
		loc += advance;
	}

	if (loc < from)
		loc = from;
	if (c.bad)
		reason = UNWIND_TABLE_R_CFI;
	if (reason != UT_NO_REASON)
		return machine->look ? machine->look(machine->data, loc, fde->end, NULL) :
				       ut_rows_add_unknown(rows, loc, fde->end, reason);
	return add_range(build, cie, fde, loc, fde->end, &state, machine, rows);
}
