// SPDX-License-Identifier: GPL-2.0
/*
 * Decoder of SFrame tables.
 *
 * A table has an index of functions, sorted by their start, and rows for each
 * function. A row says how to find the caller from a certain offset on. In version
 * 2, everything about a function but its rows is in the index; in version 3 a part
 * of that, the attribute, is in front of the rows.
 *
 * All of it can have been made up by the program. Numbers are read once into
 * locals, and checked where they are used. Addresses of code are sums modulo
 * 2^64 of what the table says: nonsense gives a nonsensical address, which does
 * not match. Addresses of the table are checked: against its bounds before
 * something is read there, and these against those of user memory before the
 * table is used. A CPU that speculates past a check can only add 32-bit numbers
 * to an address of user memory, which stays below the kernel's. So only indices
 * into the kernel's own memory are masked.
 *
 * A lookup enables user access once, and then no function may be called: so all
 * functions for it are inlined. What was read becomes a rule after that.
 */

#include <kunit/visibility.h>
#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/nospec.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/unwind_user.h>

#include "sframe.h"

#define SFRAME_MAGIC		0xdee2
#define SFRAME_ABI_AMD64	3

/* Flags in the header */
#define SFRAME_SORTED		0x1
#define SFRAME_FRAME_POINTER	0x2
#define SFRAME_PCREL		0x4
#define SFRAME_V2_FLAGS		(SFRAME_SORTED | SFRAME_FRAME_POINTER | SFRAME_PCREL)
#define SFRAME_V3_FLAGS		(SFRAME_SORTED | SFRAME_PCREL)

/* Function index: s32 or s64 start, u32 size, u32 offset of the rows, ... */
#define SFRAME_V2_FDE_LEN	20
#define SFRAME_V3_FDE_LEN	16

/* V2, after these in the index: u32 number of rows, u8 info, u8 rep_size, u16 unused */
#define SFRAME_V2_ATTR		12

/* V3, in front of the rows: u16 number of rows, u8 info, u8 info2, u8 rep_size */
#define SFRAME_V3_ATTR_LEN	5

/* Info byte of a function */
#define SFRAME_INFO_ROW_TYPE	0x0f
/* Starts of rows in u8, u16 or u32 */
#define SFRAME_MAX_ROW_TYPE	2
#define SFRAME_INFO_PCMASK	0x10
#define SFRAME_INFO_SIGNAL	0x80
#define SFRAME_V2_INFO		(SFRAME_INFO_ROW_TYPE | SFRAME_INFO_PCMASK)
#define SFRAME_V3_INFO		(SFRAME_V2_INFO | SFRAME_INFO_SIGNAL | \
				 SFRAME_INFO_FLEX)

/* Second info byte: the type of the function's rows, bits above it are unused */
#define SFRAME_INFO_TYPE	0xff00
#define SFRAME_INFO_FLEX	0x0100

/* Info byte of a row */
#define SFRAME_ROW_SP		0x01
#define SFRAME_ROW_MANGLED_RA	0x80
#define SFRAME_ROW_WORDS(info)	(((info) >> 1) & 0xf)
#define SFRAME_ROW_CODE(info)	(((info) >> 5) & 0x3)
#define SFRAME_ROW_CODE_NONE	3

/* Control word of a flexible row */
#define SFRAME_CTL_DEFAULT	0
#define SFRAME_CTL_REG		0x1
#define SFRAME_CTL_DEREF	0x2
#define SFRAME_CTL_UNUSED	0x4
#define SFRAME_CTL_REG_SHIFT	3

/* A rule has no more words than these: control and offset for CFA, RA and FP. */
#define SFRAME_MAX_WORDS	6

/*
 * Page faults of one lookup. It reads fewer pages: one for each step of the search
 * in the index, a few for the functions before, and those of the rows.
 */
#define SFRAME_MAX_FAULTS	128

/**
 * struct sframe_lookup - What the functions that read have in common
 * @sec:	The table
 * @ip:		Address that is looked up
 * @low:	Start of the last function that the search has found not to start
 *		after @ip
 * @high:	Start of the first one that it has found to do so
 * @high_at:	Address of its index entry
 * @absent:	Address of what could not be read
 * @len:	Length of it in bytes
 */
struct sframe_lookup {
	const struct sframe_section	*sec;
	u64				ip;
	u64				low;
	u64				high;
	u64				high_at;
	u64				absent;
	unsigned int			len;
};

/* A function, as it was read */
struct sframe_func {
	u64	entry;		/* address in the index */
	u64	start;
	u32	size;
	u32	rows_off;
	u32	num_rows;
	u64	from;		/* other functions count before this */
	u16	info;		/* the second info byte is the upper one */
	u8	rep_size;
};

/* A row, as it was read */
struct sframe_row {
	u16	func_info;
	u8	info;
	s32	words[SFRAME_MAX_WORDS];
};

static __always_inline u64 sframe_fde_len(unsigned int version)
{
	return version == 3 ? SFRAME_V3_FDE_LEN : SFRAME_V2_FDE_LEN;
}

/* Bytes of a function's start in the index */
static __always_inline unsigned int sframe_start_len(unsigned int version)
{
	return version == 3 ? sizeof(u64) : sizeof(u32);
}

static enum sframe_status
sframe_check_header(struct sframe_section *sec, const u8 *header)
{
	u8 version = header[2], flags = header[3], abi = header[4];

	if (get_unaligned_le16(header) != SFRAME_MAGIC)
		return SFRAME_BAD_MAGIC;
	if (version != 2 && version != 3)
		return SFRAME_BAD_VERSION;
	if (flags & ~(version == 2 ? SFRAME_V2_FLAGS : SFRAME_V3_FLAGS))
		return SFRAME_BAD_FLAGS;
	if (!(flags & SFRAME_SORTED))
		return SFRAME_BAD_UNSORTED;
	if (abi != SFRAME_ABI_AMD64)
		return SFRAME_BAD_ABI;

	sec->version = version;
	sec->pcrel = flags & SFRAME_PCREL;
	sec->fp_off = (s8)header[5];
	sec->ra_off = (s8)header[6];
	if (!sec->ra_off)
		return SFRAME_BAD_RA;

	return SFRAME_OK;
}

/*
 * Bytes after the index and the rows do not matter: linkers make the segment larger
 * than the table.
 */
static enum sframe_status
sframe_check_ranges(struct sframe_section *sec, const u8 *header)
{
	u64 len = sec->end - sec->start;
	u64 fdes, fres, fdes_len;

	sec->num_fdes = get_unaligned_le32(header + 8);
	sec->fre_len = get_unaligned_le32(header + 16);

	/* Sums of a few 32-bit numbers, after an auxiliary header */
	fdes = SFRAME_HEADER_LEN + header[7];
	fres = fdes + get_unaligned_le32(header + 24);
	fdes += get_unaligned_le32(header + 20);
	fdes_len = sec->num_fdes * sframe_fde_len(sec->version);

	if (fdes > len || fdes_len > len - fdes)
		return SFRAME_BAD_INDEX_RANGE;
	if (fres > len || sec->fre_len > len - fres)
		return SFRAME_BAD_ROWS_RANGE;

	sec->fdes = sec->start + fdes;
	sec->fres = sec->start + fres;
	return SFRAME_OK;
}

/**
 * sframe_open - Read the header of a table
 * @sec:	The bounds of table and code, set by the caller; the rest is
 *		filled in, and makes sense on success only
 *
 * A table without functions is legal; nothing is found in it.
 *
 * Context: Process context, the mm is that of current. May sleep, see
 *	    unwind_user_read().
 * Return: SFRAME_OK; SFRAME_FAULT, in which case a later attempt may succeed; or why
 *	   the table cannot be used.
 */
enum sframe_status sframe_open(struct sframe_section *sec)
{
	const void __user *start = (void __user *)(unsigned long)sec->start;
	u8 header[SFRAME_HEADER_LEN];

	if (sec->end < sec->start || sec->end - sec->start < sizeof(header))
		return SFRAME_BAD_BOUNDS;
	if (!access_ok(start, sec->end - sec->start) ||
	    unwind_user_read(header, sec->start, sizeof(header)))
		return SFRAME_FAULT;

	/* Even if the CPU speculates past the check, this is an address of user memory. */
	sec->start = (unsigned long)mask_user_address(start);
	return sframe_check_header(sec, header) ?: sframe_check_ranges(sec, header);
}
EXPORT_SYMBOL_IF_KUNIT(sframe_open);

/* With user access: read a signed number of @size bytes, which is 1, 2, 4 or 8. */
static __always_inline bool
sframe_get(struct sframe_lookup *l, u64 addr, unsigned int size, s64 *val)
{
	const void __user *ptr = (void __user *)(unsigned long)addr;

	switch (size) {
	case 1:
		unsafe_get_user(*val, (const s8 __user *)ptr, fault);
		return true;
	case 2:
		unsafe_get_user(*val, (const s16 __user *)ptr, fault);
		return true;
	case 4:
		unsafe_get_user(*val, (const s32 __user *)ptr, fault);
		return true;
	default:
		unsafe_get_user(*val, (const s64 __user *)ptr, fault);
		return true;
	}
fault:
	l->absent = addr;
	l->len = size;
	return false;
}

/* With user access: get the start of the function whose index entry is at @addr. */
static __always_inline bool
sframe_get_start(struct sframe_lookup *l, unsigned int version, bool pcrel,
		 u64 addr, u64 *start)
{
	s64 val;

	if (!sframe_get(l, addr, sframe_start_len(version), &val))
		return false;
	*start = val + (pcrel ? addr : l->sec->start);
	return true;
}

/* With user access: read what the entry at func->entry has in both versions. */
static __always_inline bool
sframe_get_func(struct sframe_lookup *l, struct sframe_func *func)
{
	const unsigned int version = l->sec->version;
	u64 addr = func->entry;
	s64 val;

	if (!sframe_get_start(l, version, l->sec->pcrel, addr, &func->start) ||
	    !sframe_get(l, addr + sframe_start_len(version), 8, &val))
		return false;
	func->size = (u32)val;
	func->rows_off = (u64)val >> 32;
	return true;
}

/*
 * With user access: move @entry up by @move if the function there does not start after
 * ip. With @check, it has to be in order with what the search has seen before.
 */
static __always_inline enum sframe_status
sframe_move_up(struct sframe_lookup *l, unsigned int version, bool pcrel,
	       bool check, u64 move, u64 *entry)
{
	u64 addr = *entry + move, start;

	if (!sframe_get_start(l, version, pcrel, addr, &start))
		return SFRAME_FAULT;
	if (check && (start < l->low ||
		      (addr < l->high_at ? start > l->high : start < l->high)))
		return SFRAME_BAD_ORDER;

	if (start <= l->ip) {
		*entry = addr;
		l->low = start;
	} else if (addr < l->high_at) {
		l->high = start;
		l->high_at = addr;
	}
	return SFRAME_OK;
}

/*
 * With user access: find the last function that does not start after ip, or the first
 * of all.
 *
 * Steps are powers of two: the first one splits the index into two such ranges,
 * which overlap. That leaves nothing but a shift to do for the next step. At most
 * 32 entries are read, one more with @check.
 */
static __always_inline enum sframe_status
sframe_search(struct sframe_lookup *l, unsigned int version, bool pcrel,
	      bool check, u64 *entry)
{
	const u64 fde_len = sframe_fde_len(version);
	u64 step = rounddown_pow_of_two(l->sec->num_fdes) * fde_len;
	u64 rest = l->sec->num_fdes * fde_len - step;
	enum sframe_status status;

	*entry = l->sec->fdes;
	l->low = 0;
	l->high_at = U64_MAX;
	l->high = U64_MAX;
	status = sframe_move_up(l, version, pcrel, check, rest, entry);
	for (step /= 2; status == SFRAME_OK && step >= fde_len; step /= 2)
		status = sframe_move_up(l, version, pcrel, check, step, entry);
	/* If the result is the first of all, that has not been read yet. */
	if (check && status == SFRAME_OK)
		status = sframe_move_up(l, version, pcrel, check, 0, entry);
	return status;
}

/*
 * With user access: find the function that covers ip. It is the last one that does
 * not start after ip, or one before: if that is empty, or if both have the same
 * start.
 */
static __always_inline enum sframe_status
sframe_find_func(struct sframe_lookup *l, struct sframe_func *func)
{
	const unsigned int version = l->sec->version;
	const bool pcrel = l->sec->pcrel;
	enum sframe_status status;
	bool same_start = false;
	unsigned int steps;
	u64 start = 0;

	/* Constants halve the number of instructions of a step. */
	if (version == 3 && pcrel)
		status = sframe_search(l, 3, true, false, &func->entry);
	else if (version == 3)
		status = sframe_search(l, 3, false, false, &func->entry);
	else if (pcrel)
		status = sframe_search(l, 2, true, false, &func->entry);
	else
		status = sframe_search(l, 2, false, false, &func->entry);
	if (status != SFRAME_OK)
		return status;

	func->from = 0;
	for (steps = 0; func->entry >= l->sec->fdes; steps++) {
		if (steps > SFRAME_MAX_BACK)
			return SFRAME_TOO_LONG;
		if (!sframe_get_func(l, func))
			return SFRAME_FAULT;
		if (same_start && func->start != start)
			break;
		if (func->start <= l->ip && l->ip - func->start < func->size)
			return SFRAME_OK;

		start = func->start;
		same_start |= func->size;
		func->from = max(func->from, min(start + func->size, l->ip));
		func->entry -= sframe_fde_len(version);
	}

	/*
	 * If the index is not in order, the search ends at the wrong place and
	 * does not find the function. So the order is checked only now.
	 */
	return sframe_search(l, version, pcrel, true, &func->entry) ?: SFRAME_NO_ROW;
}

/*
 * With user access: read what else there is to know about the function. Its rows are
 * at @rows.
 */
static __always_inline enum sframe_status
sframe_get_attr(struct sframe_lookup *l, struct sframe_func *func, u64 *rows)
{
	s64 attr, rep_size;

	if (func->rows_off > l->sec->fre_len)
		return SFRAME_BAD_FUNC;
	*rows = l->sec->fres + func->rows_off;

	if (l->sec->version == 2) {
		if (!sframe_get(l, func->entry + SFRAME_V2_ATTR, 8, &attr))
			return SFRAME_FAULT;
		func->num_rows = (u32)attr;
		func->info = (u8)(attr >> 32);
		func->rep_size = (u8)(attr >> 40);
		return SFRAME_OK;
	}

	if (l->sec->fre_len - func->rows_off < SFRAME_V3_ATTR_LEN)
		return SFRAME_BAD_FUNC;
	if (!sframe_get(l, *rows, 4, &attr) ||
	    !sframe_get(l, *rows + 4, 1, &rep_size))
		return SFRAME_FAULT;
	func->num_rows = (u16)attr;
	func->info = (u16)(attr >> 16);
	func->rep_size = rep_size;
	*rows += SFRAME_V3_ATTR_LEN;
	return SFRAME_OK;
}

/* Does the decoder know all about functions like this one? */
static __always_inline enum sframe_status
sframe_check_func(const struct sframe_section *sec,
		  const struct sframe_func *func)
{
	u16 known = sec->version == 2 ? SFRAME_V2_INFO : SFRAME_V3_INFO;

	if ((func->info & SFRAME_INFO_ROW_TYPE) > SFRAME_MAX_ROW_TYPE)
		return SFRAME_BAD_FUNC;
	if (func->info & ~known)
		return SFRAME_UNSUPPORTED;
	if (func->info & SFRAME_INFO_PCMASK && !func->rep_size)
		return SFRAME_BAD_FUNC;
	return SFRAME_OK;
}

/*
 * With user access: get the info byte, and the address of the words, of the last of a
 * function's rows that does not start after @off. The rows are at @at; the @width of
 * their starts is a constant, which makes the loop shorter. @span, which is the
 * function's, becomes the row's.
 */
static __always_inline enum sframe_status
sframe_find_row(struct sframe_lookup *l, const unsigned int width, u32 num_rows,
		u64 at, u64 off, u64 *words, u32 *info, struct sframe_span *span)
{
	const u64 end = l->sec->fres + l->sec->fre_len;
	const u32 limit = min(num_rows, SFRAME_MAX_ROWS);
	u64 start, last = 0;
	s64 val;
	u32 i;

	for (i = 0; i < limit; i++) {
		/* An info byte must be in it. */
		if (at >= end - width)
			return SFRAME_BAD_FUNC;
		if (!sframe_get(l, at, width, &val))
			return SFRAME_FAULT;
		start = val & GENMASK(8 * width - 1, 0);
		if (start > off) {
			span->end = min(span->end, span->func_start + start);
			break;
		}
		if (start < last)
			return SFRAME_BAD_FUNC;
		last = start;

		if (!sframe_get(l, at + width, 1, &val))
			return SFRAME_FAULT;
		*info = val;
		if (SFRAME_ROW_CODE(*info) == SFRAME_ROW_CODE_NONE)
			return SFRAME_BAD_FUNC;
		*words = at + width + 1;
		at = *words + (SFRAME_ROW_WORDS(*info) << SFRAME_ROW_CODE(*info));
	}
	span->start = max(span->start, span->func_start + last);

	/* No row at all, or even the first one starts after @off */
	if (!i)
		return SFRAME_NO_ROW;
	/* Any other row ends where the next one starts, which was checked. */
	if (at > end)
		return SFRAME_BAD_FUNC;
	if (i == SFRAME_MAX_ROWS && i < num_rows)
		return SFRAME_TOO_LONG;
	return SFRAME_OK;
}

/*
 * With user access: read the words at @addr of a row. All are extended as offsets are,
 * which are signed. Controls are not, see sframe_flex_loc().
 */
static __always_inline enum sframe_status
sframe_get_words(struct sframe_lookup *l, u64 addr, struct sframe_row *row)
{
	unsigned int size = 1 << SFRAME_ROW_CODE(row->info);
	unsigned int nr = SFRAME_ROW_WORDS(row->info), i;
	s32 *words = row->words;
	s64 val;

	if (nr > SFRAME_MAX_WORDS)
		return SFRAME_BAD_FUNC;
	nr = array_index_nospec(nr, SFRAME_MAX_WORDS + 1);
	for (i = 0; i < nr; i++, addr += size) {
		if (!sframe_get(l, addr, size, &val))
			return SFRAME_FAULT;
		words[i] = val;
	}
	return SFRAME_OK;
}

/* With user access: read all that the rule is made of, and what it is for. */
static __always_inline enum sframe_status
sframe_read(struct sframe_lookup *l, struct sframe_row *row, struct sframe_span *span)
{
	struct sframe_func func;
	enum sframe_status status;
	u64 rows, off, words = 0;
	u32 info = 0;

	status = sframe_find_func(l, &func);
	if (status != SFRAME_OK)
		return status;
	/* It covers ip, which is in the code. */
	if (func.start < l->sec->text_start)
		return SFRAME_BAD_FUNC;

	status = sframe_get_attr(l, &func, &rows) ?: sframe_check_func(l->sec, &func);
	if (status != SFRAME_OK)
		return status;
	row->func_info = func.info;
	span->num_rows = func.num_rows;
	span->func_start = func.start;
	/* Up to the start of the next one */
	span->func_end = min3(func.start + func.size, l->high, l->sec->text_end);
	span->start = max(func.start, func.from);
	span->end = span->func_end;

	/* As if it had a row without words: outermost */
	if (!func.num_rows && l->sec->version == 3 && !(func.info & SFRAME_INFO_FLEX)) {
		row->info = 0;
		return SFRAME_OK;
	}

	off = l->ip - func.start;
	if (func.info & SFRAME_INFO_PCMASK) {
		off = (u32)off % func.rep_size;
		span->func_start = l->ip - off;
		span->func_end = min(span->func_end, span->func_start + func.rep_size);
		span->start = max(span->func_start, func.from);
		span->end = span->func_end;
	}

	switch (func.info & SFRAME_INFO_ROW_TYPE) {
	case 0:
		status = sframe_find_row(l, 1, func.num_rows, rows, off, &words, &info, span);
		break;
	case 1:
		status = sframe_find_row(l, 2, func.num_rows, rows, off, &words, &info, span);
		break;
	default:
		status = sframe_find_row(l, 4, func.num_rows, rows, off, &words, &info, span);
		break;
	}
	if (status != SFRAME_OK)
		return status;
	row->info = info;
	return sframe_get_words(l, words, row);
}

/* Words are the offset of the CFA, and of the FP where that is not fixed. */
static enum sframe_status
sframe_default_row(const struct sframe_section *sec, bool signal,
		   const struct sframe_row *row, struct unwind_rule *rule)
{
	unsigned int nr = SFRAME_ROW_WORDS(row->info);
	bool use_fp = !(row->info & SFRAME_ROW_SP), saved = sec->fp_off;
	s32 cfa = row->words[0], fp = sec->fp_off;

	if (nr > 2 || (nr == 2 && saved))
		return SFRAME_BAD_FUNC;
	if (nr == 2) {
		saved = true;
		fp = row->words[1];
	}

	/* Nearly all fit into a word, in which 0 would stand for "in its register". */
	if (sec->ra_off == -8 && saved == !!fp && !signal) {
		rule->word = unwind_word_make(use_fp, cfa, fp);
		if (likely(rule->word))
			return SFRAME_OK;
	}

	*rule = (struct unwind_rule) {
		.cfa = { cfa, UNWIND_REG, use_fp ? UNWIND_REG_FP : UNWIND_REG_SP },
		.ra = { sec->ra_off, UNWIND_CFA_DEREF },
		.fp = { fp, saved ? UNWIND_CFA_DEREF : UNWIND_SAME },
		.signal = signal,
	};
	return SFRAME_OK;
}

/*
 * Decode the control word at @nr and its offset; they may say that @loc stays as it
 * is.
 */
static enum sframe_status
sframe_flex_loc(const struct sframe_row *row, unsigned int *nr,
		struct unwind_loc *loc)
{
	const unsigned int end = SFRAME_ROW_WORDS(row->info);
	u32 ctl, reg;
	bool deref;

	if (*nr == end)
		return SFRAME_OK;
	ctl = row->words[(*nr)++];
	if (ctl == SFRAME_CTL_DEFAULT)
		return SFRAME_OK;
	if (ctl & SFRAME_CTL_UNUSED || *nr == end)
		return SFRAME_BAD_FUNC;

	deref = ctl & SFRAME_CTL_DEREF;
	loc->off = row->words[(*nr)++];
	if (!(ctl & SFRAME_CTL_REG)) {
		loc->where = deref ? UNWIND_CFA_DEREF : UNWIND_CFA;
		return SFRAME_OK;
	}

	/* If the top bit was set, the extension makes this too large, too. */
	reg = ctl >> SFRAME_CTL_REG_SHIFT;
	if (reg >= UNWIND_NR_REGS)
		return SFRAME_UNSUPPORTED;
	loc->where = deref ? UNWIND_REG_DEREF : UNWIND_REG;
	loc->reg = reg;
	return SFRAME_OK;
}

static enum sframe_status
sframe_flex_row(const struct sframe_section *sec, bool signal,
		const struct sframe_row *row, struct unwind_rule *rule)
{
	enum sframe_status status;
	unsigned int nr = 0;

	/* What the row may leave out */
	*rule = (struct unwind_rule) {
		.ra = { sec->ra_off, UNWIND_CFA_DEREF },
		.fp = { sec->fp_off, sec->fp_off ? UNWIND_CFA_DEREF : UNWIND_SAME },
		.signal = signal,
	};

	status = sframe_flex_loc(row, &nr, &rule->cfa);
	if (status != SFRAME_OK)
		return status;
	/* Not relative to itself, and there is no default for it. */
	if (rule->cfa.where != UNWIND_REG && rule->cfa.where != UNWIND_REG_DEREF)
		return SFRAME_BAD_FUNC;

	status = sframe_flex_loc(row, &nr, &rule->ra) ?:
		 sframe_flex_loc(row, &nr, &rule->fp);
	if (status != SFRAME_OK)
		return status;
	if (nr < SFRAME_ROW_WORDS(row->info))
		return SFRAME_BAD_FUNC;

	unwind_rule_pack(rule);
	return SFRAME_OK;
}

static enum sframe_status
sframe_decode_row(const struct sframe_section *sec,
		  const struct sframe_row *row, struct unwind_rule *rule)
{
	bool signal = row->func_info & SFRAME_INFO_SIGNAL;

	if (row->info & SFRAME_ROW_MANGLED_RA)
		return SFRAME_BAD_FUNC;
	if (!SFRAME_ROW_WORDS(row->info)) {
		rule->word = UNWIND_WORD_TABLE | UNWIND_WORD_OUTERMOST;
		return SFRAME_OK;
	}
	if (row->func_info & SFRAME_INFO_FLEX)
		return sframe_flex_row(sec, signal, row, rule);
	return sframe_default_row(sec, signal, row, rule);
}

/**
 * sframe_find - Find the rule for an address
 * @sec:	The table, as sframe_open() left it
 * @ip:		Linear address of a byte of an instruction; for a return address, one
 *		less, since the instruction is the call before it
 * @rule:	The rule, on success; if it has a word, nothing else may be filled in.
 *		Offsets are in bytes, registers are DWARF numbers. Nonsense after an
 *		error.
 * @span:	What the rule is for, which has @ip. Nonsense after an error.
 *
 * The format is that of the SFrame specification in the manual of GNU binutils: version
 * 2 with its errata 1, and version 3 as of binutils 2.46
 * (https://sourceware.org/binutils/docs-2.46/sframe-spec.html).
 *
 * Where the table is not present, the search begins anew after
 * unwind_user_fault_in(). A search reads no more than SFRAME_MAX_FAULTS pages, unless
 * they are taken away meanwhile.
 *
 * Context: Process context, the mm is that of current, without locks that a page fault
 *	    may need. May sleep, unless page faults are disabled: then any, and what is
 *	    not present counts as not readable.
 * Return: %SFRAME_OK; or why there is no rule, see enum sframe_status. After
 *	   %SFRAME_FAULT a later attempt may succeed.
 */
enum sframe_status sframe_find(const struct sframe_section *sec, u64 ip,
			       struct unwind_rule *rule, struct sframe_span *span)
{
	struct sframe_lookup l = { sec, ip };
	struct sframe_row row __uninitialized;
	enum sframe_status status;
	unsigned int faults;

	if (!sec->num_fdes || ip < sec->text_start || ip >= sec->text_end)
		return SFRAME_NO_ROW;

	for (faults = 0;; faults++) {
		pagefault_disable();
		/* Only enables user access: addresses are the table's, see above. */
		(void)masked_user_access_begin((void __user *)NULL);
		status = sframe_read(&l, &row, span);
		user_access_end();
		pagefault_enable();
		if (status == SFRAME_OK)
			return sframe_decode_row(sec, &row, rule);
		if (status != SFRAME_FAULT || faults == SFRAME_MAX_FAULTS ||
		    unwind_user_fault_in(l.absent, l.len))
			return status;
	}
}
EXPORT_SYMBOL_IF_KUNIT(sframe_find);

const char * const sframe_status_text[SFRAME_NR_STATUS] = {
	[SFRAME_OK]		 = "found",
	[SFRAME_NO_ROW]		 = "no row for the address",
	[SFRAME_UNSUPPORTED]	 = "function of an unknown kind",
	[SFRAME_FAULT]		 = "not readable now",
	[SFRAME_TOO_LONG]	 = "too many rows or functions",
	[SFRAME_BAD_FUNC]	 = "function makes no sense",
	[SFRAME_BAD_BOUNDS]	 = "no room for a header",
	[SFRAME_BAD_MAGIC]	 = "wrong magic number",
	[SFRAME_BAD_VERSION]	 = "version is not 2 or 3",
	[SFRAME_BAD_FLAGS]	 = "undefined flags",
	[SFRAME_BAD_UNSORTED]	 = "index is not sorted",
	[SFRAME_BAD_ABI]	 = "ABI is not AMD64",
	[SFRAME_BAD_RA]		 = "no fixed return address slot",
	[SFRAME_BAD_INDEX_RANGE] = "index out of bounds",
	[SFRAME_BAD_ROWS_RANGE]	 = "rows out of bounds",
	[SFRAME_BAD_ORDER]	 = "index out of order",
};
EXPORT_SYMBOL_IF_KUNIT(sframe_status_text);
