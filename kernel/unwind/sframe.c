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
 * table is used. A CPU that speculates past a check of them adds some 32-bit
 * numbers to an address of user memory. That does not make one of the kernel,
 * so there is nothing to mask, but for what becomes a place in the kernel's own
 * memory.
 *
 * The functions that read take a cursor that says what the memory is. That is
 * inlined and constant, so there are two decoders in the end, for user memory and for
 * buffers, and no indirection in either.
 */

#include "sframe.h"

#ifdef __KERNEL__
#include <kunit/visibility.h>
#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/nospec.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/unwind_user.h>
#endif

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
#define SFRAME_ROW_OF(nr, code)	((nr) << 1 | (code) << 5)

/* Control word of a flexible row */
#define SFRAME_CTL_DEFAULT	0
#define SFRAME_CTL_REG		0x1
#define SFRAME_CTL_DEREF	0x2
#define SFRAME_CTL_UNUSED	0x4
#define SFRAME_CTL_REG_SHIFT	3

/* A rule has no more words than these: control and offset for CFA, RA and FP. */
#define SFRAME_MAX_WORDS	6

/*
 * Page faults of one lookup. It looks at fewer pages: one for each step of the search
 * in the index, a few for the functions before, and those of the rows.
 */
#define SFRAME_MAX_FAULTS	128

/* A function, as it was read */
struct sframe_func {
	u64	start;
	u32	size;
	u32	rows_off;
	u32	num_rows;
	u16	info;		/* the second info byte is the upper one */
	u8	rep_size;
};

/* The rows of a function: some at least of the bytes in [at, end) */
struct sframe_rows {
	u64		at;
	u64		end;		/* of all the table's rows */
	unsigned int	left;		/* how many of them may be looked at */
};

/* A row, as it was read */
struct sframe_row {
	u64		words[SFRAME_MAX_WORDS * sizeof(u32) / sizeof(u64)];
	u32		pad;		/* four bytes are loaded for any word */
	u8		info;
};

/* Words of a row that have not been looked at yet */
struct sframe_words {
	const u8	*at;
	unsigned int	left;
	unsigned int	size;		/* of each, in bytes */
	unsigned int	shift;		/* bits of an u32 that it leaves free */
};

#ifdef __KERNEL__

/*
 * What a CPU that speculates past the checks of a table takes for its start. All
 * other addresses are that plus some 32-bit numbers, which does not make one of
 * the kernel.
 */
static __always_inline u64 sframe_mask_user(u64 start)
{
	const void __user *ptr = (void __user *)(unsigned long)start;

	return (unsigned long)mask_user_address(ptr);
}

/* Between begin and end, user memory can be read, and no function called. */
static __always_inline void sframe_begin_user(void)
{
	/* Only opens the window: addresses are those of a table, see above. */
	(void)masked_user_access_begin((void __user *)NULL);
}

static __always_inline void sframe_end_user(void)
{
	user_access_end();
}

static __always_inline bool sframe_in_user(u64 addr, u64 len)
{
	return access_ok((void __user *)(unsigned long)addr, len);
}

static __always_inline bool
sframe_get_user(u64 addr, const unsigned int size, u64 *val)
{
	const void __user *ptr = (void __user *)(unsigned long)addr;

	switch (size) {
	case 1:
		unsafe_get_user(*val, (const u8 __user *)ptr, fault);
		return true;
	case 2:
		unsafe_get_user(*val, (const u16 __user *)ptr, fault);
		return true;
	case 4:
		unsafe_get_user(*val, (const u32 __user *)ptr, fault);
		return true;
	default:
		unsafe_get_user(*val, (const u64 __user *)ptr, fault);
		return true;
	}
fault:
	return false;
}

static __always_inline bool
sframe_copy_user(void *to, u64 addr, unsigned int len)
{
	const u8 __user *from = (void __user *)(unsigned long)addr;
	unsigned int i = 0;

	for (; len - i >= sizeof(u64); i += sizeof(u64))
		unsafe_get_user(*(u64 *)(to + i), (u64 __user *)(from + i), fault);
	for (; i < len; i++)
		unsafe_get_user(*(u8 *)(to + i), from + i, fault);
	return true;
fault:
	return false;
}

#else /* user space has buffers only */

static inline u64 sframe_mask_user(u64 start) { return start; }
static inline void sframe_begin_user(void) { }
static inline void sframe_end_user(void) { }
static inline bool sframe_in_user(u64 addr, u64 len) { return false; }
static inline bool
sframe_get_user(u64 addr, const unsigned int size, u64 *val)
{
	return false;
}

static inline bool sframe_copy_user(void *to, u64 addr, unsigned int len)
{
	return false;
}

#endif

/* Some bytes that could not be read */
struct sframe_missing {
	u64		addr;
	unsigned int	len;
};

/**
 * struct sframe_cursor - What all parts of a lookup need
 * @sec:	The table
 * @buf:	The memory that it is in, if that is not current's
 * @ip:		Address that is looked up
 * @missing:	Gets what could not be read, of user memory
 * @user:	The memory is that of current. Constant wherever a cursor is made, and
 *		all that reads is inlined there
 */
struct sframe_cursor {
	const struct sframe_section	*sec;
	const struct sframe_buf		*buf;
	u64				ip;
	struct sframe_missing		*missing;
	bool				user;
};

/* Where in @buf the bytes at @addr are, NULL unless all of them are. */
static const u8 *sframe_in_buf(const struct sframe_buf *buf, u64 addr, u64 len)
{
	u64 off = addr - buf->addr;

	if (off > buf->len || len > buf->len - off)
		return NULL;
	return buf->data + off;
}

static __always_inline void sframe_begin(const struct sframe_cursor *c)
{
	if (c->user)
		sframe_begin_user();
}

static __always_inline void sframe_end(const struct sframe_cursor *c)
{
	if (c->user)
		sframe_end_user();
}

/* In a window: a number of @size bytes, which is 1, 2, 4 or 8 and a constant. */
static __always_inline bool
sframe_get(const struct sframe_cursor *c, u64 addr, const unsigned int size,
	   u64 *val)
{
	const u8 *from;

	if (c->user) {
		if (likely(sframe_get_user(addr, size, val)))
			return true;
		*c->missing = (struct sframe_missing) { addr, size };
		return false;
	}

	from = sframe_in_buf(c->buf, addr, size);
	if (!from)
		return false;
	*val = 0;
	memcpy(val, from, size);
	return true;
}

/* In a window: some bytes. */
static __always_inline bool
sframe_copy(const struct sframe_cursor *c, void *to, u64 addr, unsigned int len)
{
	const u8 *from;

	if (c->user) {
		if (likely(sframe_copy_user(to, addr, len)))
			return true;
		*c->missing = (struct sframe_missing) { addr, len };
		return false;
	}

	from = sframe_in_buf(c->buf, addr, len);
	if (!from)
		return false;
	memcpy(to, from, len);
	return true;
}

static __always_inline u64 sframe_fde_len(const struct sframe_cursor *c)
{
	return c->sec->version == 3 ? SFRAME_V3_FDE_LEN : SFRAME_V2_FDE_LEN;
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
	sec->plain = sec->ra_off == -8 && !sec->fp_off;

	return SFRAME_OK;
}

/*
 * Whatever comes after the index and the rows does not matter: linkers make the
 * segment larger than the table.
 */
static enum sframe_status
sframe_check_ranges(struct sframe_section *sec, const u8 *header)
{
	u64 len = sec->end - sec->start;
	const u64 fde_len = sec->version == 2 ? SFRAME_V2_FDE_LEN : SFRAME_V3_FDE_LEN;
	u64 fdes, fres, fdes_len;

	sec->num_fdes = get_unaligned_le32(header + 8);
	sec->fre_len = get_unaligned_le32(header + 16);

	/* Sums of a few 32-bit numbers, after an auxiliary header */
	fdes = SFRAME_HEADER_LEN + header[7];
	fres = fdes + get_unaligned_le32(header + 24);
	fdes += get_unaligned_le32(header + 20);
	fdes_len = sec->num_fdes * fde_len;

	if (fdes > len || fdes_len > len - fdes)
		return SFRAME_BAD_INDEX_RANGE;
	if (fres > len || sec->fre_len > len - fres)
		return SFRAME_BAD_ROWS_RANGE;

	/* Of nothing, nothing is looked at. */
	sec->step = sec->num_fdes ? rounddown_pow_of_two((u64)sec->num_fdes) : 0;
	sec->step *= fde_len;
	sec->rest = fdes_len - sec->step;
	sec->fdes = sec->start + fdes;
	sec->fres = sec->start + fres;
	return SFRAME_OK;
}

static __always_inline enum sframe_status
sframe_open(struct sframe_section *sec, const struct sframe_cursor *c)
{
	u8 header[SFRAME_HEADER_LEN];
	enum sframe_status status;
	bool done;

	if (sec->end < sec->start || sec->end - sec->start < sizeof(header))
		return SFRAME_BAD_BOUNDS;
	if (c->user) {
		if (!sframe_in_user(sec->start, sec->end - sec->start))
			return SFRAME_FAULT;
		sec->start = sframe_mask_user(sec->start);
	}

	sframe_begin(c);
	done = sframe_copy(c, header, sec->start, sizeof(header));
	sframe_end(c);
	if (!done)
		return SFRAME_FAULT;

	status = sframe_check_header(sec, header);
	if (status != SFRAME_OK)
		return status;
	return sframe_check_ranges(sec, header);
}

/* In a window: start of the function whose index entry is at @addr. */
static __always_inline bool
sframe_get_start(const struct sframe_cursor *c, u64 addr, u64 *start)
{
	if (c->sec->version == 3) {
		if (!sframe_get(c, addr, 8, start))
			return false;
	} else {
		if (!sframe_get(c, addr, 4, start))
			return false;
		*start = (s64)(s32)*start;
	}

	*start += c->sec->pcrel ? addr : c->sec->start;
	return true;
}

/* In a window: the entry. Version 3 has the rest of it in front of the rows. */
static __always_inline bool
sframe_get_func(const struct sframe_cursor *c, u64 addr,
		struct sframe_func *func)
{
	u64 val;

	if (!sframe_get_start(c, addr, &func->start))
		return false;

	addr += c->sec->version == 3 ? sizeof(u64) : sizeof(u32);
	if (!sframe_get(c, addr, 8, &val))
		return false;
	func->size = (u32)val;
	func->rows_off = val >> 32;
	if (c->sec->version == 3)
		return true;

	if (!sframe_get(c, addr + 8, 8, &val))
		return false;
	func->num_rows = (u32)val;
	func->info = (u8)(val >> 32);
	func->rep_size = val >> 40;
	return true;
}

/* In a window: move @base up by @step if the entry there does not start after ip. */
static __always_inline bool
sframe_move_up(const struct sframe_cursor *c, u64 step, u64 *base)
{
	u64 start;

	if (!sframe_get_start(c, *base + step, &start))
		return false;
	if (start <= c->ip)
		*base += step;
	return true;
}

/*
 * Find the last function that does not start after ip, or the first of all.
 *
 * Steps are powers of two: the first one splits the index into two such ranges,
 * which overlap. That leaves nothing but a shift to do for the next step. At most
 * 33 entries are read.
 */
static __always_inline bool
sframe_search(const struct sframe_cursor *c, u64 *entry,
	      struct sframe_func *func)
{
	const u64 fde_len = sframe_fde_len(c);
	u64 base = c->sec->fdes, step;
	bool done;

	sframe_begin(c);

	done = sframe_move_up(c, c->sec->rest, &base);
	for (step = c->sec->step / 2; done && step >= fde_len; step /= 2)
		done = sframe_move_up(c, step, &base);

	*entry = base;
	done = done && sframe_get_func(c, base, func);
	sframe_end(c);

	return done;
}

/*
 * If the index is not in order, the search ends at the wrong place and does not find
 * the function. So the order is checked only now: search again, with narrowing
 * bounds for what is read.
 */
static __always_inline enum sframe_status
sframe_check_order(const struct sframe_cursor *c)
{
	const u64 fde_len = sframe_fde_len(c);
	enum sframe_status status = SFRAME_FAULT;
	u64 low = 0, high = U64_MAX, start;
	u32 first = 0, n = c->sec->num_fdes;

	sframe_begin(c);

	while (n) {
		u64 addr = c->sec->fdes + (first + n / 2) * fde_len;

		if (!sframe_get_start(c, addr, &start))
			goto out;
		if (start < low || start > high) {
			status = SFRAME_BAD_ORDER;
			goto out;
		}
		if (start <= c->ip) {
			low = start;
			first += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			high = start;
			n /= 2;
		}
	}
	status = SFRAME_NO_ROW;
out:
	sframe_end(c);
	return status;
}

static bool sframe_covers(const struct sframe_func *func, u64 ip)
{
	return func->start <= ip && ip - func->start < func->size;
}

/*
 * The entry found does not cover ip. An entry before it may: if this one is
 * empty, or if both have the same start. On success @func is that function.
 */
static __always_inline enum sframe_status
sframe_step_back(const struct sframe_cursor *c, u64 entry,
		 struct sframe_func *func)
{
	bool same_start = false, done;
	unsigned int steps = 0;
	u64 start;

	while (entry > c->sec->fdes) {
		if (func->size)
			same_start = true;
		start = func->start;

		if (steps++ == SFRAME_MAX_BACK)
			return SFRAME_TOO_LONG;

		sframe_begin(c);
		entry -= sframe_fde_len(c);
		done = sframe_get_func(c, entry, func);
		sframe_end(c);
		if (!done)
			return SFRAME_FAULT;

		if (same_start && func->start != start)
			break;
		if (sframe_covers(func, c->ip))
			return SFRAME_OK;
	}

	return SFRAME_NO_ROW;
}

static __always_inline enum sframe_status
sframe_find_func(const struct sframe_cursor *c, struct sframe_func *func)
{
	enum sframe_status status;
	u64 entry;

	if (!sframe_search(c, &entry, func))
		return SFRAME_FAULT;
	if (likely(sframe_covers(func, c->ip)))
		return SFRAME_OK;

	status = sframe_step_back(c, entry, func);
	if (status != SFRAME_NO_ROW)
		return status;
	return sframe_check_order(c);
}

/*
 * Bytes of a row's words, by their number and their code in its info byte. This is a
 * table because a lookup needs it for each row that it skips. An invalid code gives a
 * size beyond the end of any rows.
 */
#define SFRAME_ROW_BITS(info)	(((info) >> 1) & 0x3f)

static const u32 sframe_words_len[] = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
	0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60,
	[SFRAME_ROW_CODE_NONE << 4 ... 0x3f] = U32_MAX,
};

/*
 * In a window: skip rows until one starts after @off. @words and @info are
 * those of the row before it. @width is that of starts, and a constant.
 */
static __always_inline enum sframe_status
sframe_scan_rows(const struct sframe_cursor *c, const unsigned int width,
		 u64 off, struct sframe_rows *rows, u64 *words, u64 *info)
{
	u64 at = rows->at, start, last = 0;

	for (; rows->left; rows->left--) {
		/* An info byte must be in it. */
		if (at >= rows->end - width)
			break;
		if (!sframe_get(c, at, width, &start))
			return SFRAME_FAULT;
		if (start > off)
			return SFRAME_OK;
		if (start < last)
			return SFRAME_BAD_ROW_ORDER;
		last = start;

		at += width;
		if (!sframe_get(c, at++, 1, info))
			return SFRAME_FAULT;
		*words = at;
		at += sframe_words_len[SFRAME_ROW_BITS(*info)];
	}

	/* Any other row ends where the next one starts, which was checked. */
	if (!rows->left && at <= rows->end)
		return SFRAME_OK;
	return SFRAME_ROW_CODE(*info) == SFRAME_ROW_CODE_NONE ?
	       SFRAME_BAD_ROW : SFRAME_BAD_FUNC_ROWS;
}

/* In a window: the words at @addr of the row that was found. */
static __always_inline bool
sframe_get_words(const struct sframe_cursor *c, const struct sframe_func *func,
		 u64 addr, u64 end, struct sframe_row *row)
{
	u64 len;

	/*
	 * Two words at most where they are not flexible. More bytes do no harm,
	 * as long as they are the table's.
	 */
	if (likely(!(func->info & SFRAME_INFO_TYPE) && end - addr >= 8))
		return sframe_get(c, addr, 8, &row->words[0]);

	len = sframe_words_len[SFRAME_ROW_BITS(row->info)];
	len = min(len, sizeof(row->words));
	return sframe_copy(c, row->words, addr, len);
}

/* In a window: the last of a function's rows that does not start after @off. */
static __always_inline enum sframe_status
sframe_find_row(const struct sframe_cursor *c, struct sframe_rows *rows,
		const struct sframe_func *func, u64 off, struct sframe_row *row)
{
	unsigned int limit = min(func->num_rows, SFRAME_MAX_ROWS);
	u64 words = 0, info = 0;
	enum sframe_status status;

	rows->left = limit;
	switch (func->info & SFRAME_INFO_ROW_TYPE) {
	case 0:
		status = sframe_scan_rows(c, 1, off, rows, &words, &info);
		break;
	case 1:
		status = sframe_scan_rows(c, 2, off, rows, &words, &info);
		break;
	default:
		status = sframe_scan_rows(c, 4, off, rows, &words, &info);
		break;
	}

	if (status != SFRAME_OK)
		return status;
	if (!rows->left && limit < func->num_rows)
		return SFRAME_TOO_LONG;
	/* No row at all, or even the first one starts after @off */
	if (rows->left == limit)
		return SFRAME_NO_ROW;

	row->info = info;
	if (!sframe_get_words(c, func, words, rows->end, row))
		return SFRAME_FAULT;
	return SFRAME_OK;
}

/* The bits of the next word, in the upper part of the result */
static u32 sframe_next_word(struct sframe_words *words)
{
	u32 word = get_unaligned_le32(words->at) << words->shift;

	words->left--;
	words->at += words->size;
	return word;
}

static u32 sframe_next_control(struct sframe_words *words)
{
	return sframe_next_word(words) >> words->shift;
}

static s32 sframe_next_offset(struct sframe_words *words)
{
	return (s32)sframe_next_word(words) >> words->shift;
}

static void sframe_outermost_rule(struct unwind_rule *rule)
{
	*rule = (struct unwind_rule) { .outermost = true };
}

/* Words are the offset of the CFA, and of the FP where that is not fixed. */
static enum sframe_status
sframe_default_row(const struct sframe_section *sec, u8 info,
		   struct sframe_words *words, struct unwind_rule *rule)
{
	s32 cfa, fp = sec->fp_off;
	bool saved = fp;

	if (words->left > 2 || (words->left == 2 && saved))
		return SFRAME_BAD_ROW;

	cfa = sframe_next_offset(words);
	if (words->left) {
		fp = sframe_next_offset(words);
		saved = true;
	}

	*rule = (struct unwind_rule) {
		.cfa = { cfa, UNWIND_REG, info & SFRAME_ROW_SP ? UNWIND_REG_SP :
								 UNWIND_REG_FP },
		.ra = { sec->ra_off, UNWIND_CFA_DEREF },
		.fp = { fp, saved ? UNWIND_CFA_DEREF : UNWIND_SAME },
	};
	return SFRAME_OK;
}

/* A control word and an offset; they may say that @loc stays as it is. */
static enum sframe_status
sframe_flex_loc(struct sframe_words *words, struct unwind_loc *loc)
{
	u32 ctl, reg;
	bool deref;

	if (!words->left)
		return SFRAME_OK;
	ctl = sframe_next_control(words);
	if (ctl == SFRAME_CTL_DEFAULT)
		return SFRAME_OK;
	if (ctl & SFRAME_CTL_UNUSED || !words->left)
		return SFRAME_BAD_ROW;

	deref = ctl & SFRAME_CTL_DEREF;
	loc->off = sframe_next_offset(words);
	if (!(ctl & SFRAME_CTL_REG)) {
		loc->where = deref ? UNWIND_CFA_DEREF : UNWIND_CFA;
		return SFRAME_OK;
	}

	reg = ctl >> SFRAME_CTL_REG_SHIFT;
	if (reg >= UNWIND_NR_REGS)
		return SFRAME_UNSUPPORTED;
	loc->where = deref ? UNWIND_REG_DEREF : UNWIND_REG;
	loc->reg = reg;
	return SFRAME_OK;
}

static enum sframe_status
sframe_flex_row(const struct sframe_section *sec, struct sframe_words *words,
		struct unwind_rule *rule)
{
	enum sframe_status status;

	/* What the row may leave out */
	*rule = (struct unwind_rule) {
		.ra.off = sec->ra_off,
		.ra.where = UNWIND_CFA_DEREF,
		.fp.off = sec->fp_off,
		.fp.where = sec->fp_off ? UNWIND_CFA_DEREF : UNWIND_SAME,
	};

	status = sframe_flex_loc(words, &rule->cfa);
	if (status != SFRAME_OK)
		return status;
	/* Not relative to itself, and there is no default for it. */
	if (rule->cfa.where != UNWIND_REG && rule->cfa.where != UNWIND_REG_DEREF)
		return SFRAME_BAD_ROW;

	status = sframe_flex_loc(words, &rule->ra);
	if (status != SFRAME_OK)
		return status;
	status = sframe_flex_loc(words, &rule->fp);
	if (status != SFRAME_OK)
		return status;

	return words->left ? SFRAME_BAD_ROW : SFRAME_OK;
}

static enum sframe_status
sframe_decode_row(const struct sframe_section *sec,
		  u16 func_info, const struct sframe_row *row,
		  struct unwind_rule *rule)
{
	unsigned int code = SFRAME_ROW_CODE(row->info);
	enum sframe_status status;
	struct sframe_words words;

	/* Words of no size would be looked for after the end of @row. */
	code = array_index_nospec(code, SFRAME_ROW_CODE_NONE);
	if (row->info & SFRAME_ROW_MANGLED_RA)
		return SFRAME_BAD_ROW;

	words.at = (const u8 *)row->words;
	words.left = SFRAME_ROW_WORDS(row->info);
	words.size = 1 << code;
	words.shift = 32 - 8 * words.size;
	if (!words.left) {
		sframe_outermost_rule(rule);
		return SFRAME_OK;
	}
	if (words.left > SFRAME_MAX_WORDS)
		return SFRAME_BAD_ROW;

	if (func_info & SFRAME_INFO_FLEX)
		status = sframe_flex_row(sec, &words, rule);
	else
		status = sframe_default_row(sec, row->info, &words, rule);

	rule->signal = func_info & SFRAME_INFO_SIGNAL;
	return status;
}

/*
 * The rule of most rows, which comes to a word: of ordinary functions in an
 * ordinary table with the offset of the CFA, or that and the one of the FP. 0
 * if the row is another one.
 */
static __always_inline u64
sframe_row_word(const struct sframe_section *sec,
		const struct sframe_func *func, const struct sframe_row *row)
{
	u64 words = row->words[0];
	s32 cfa, fp = 0;

	if (!sec->plain || func->info > SFRAME_MAX_ROW_TYPE)
		return 0;

	switch (row->info & ~SFRAME_ROW_SP) {
	case SFRAME_ROW_OF(1, 0):
		cfa = (s8)words;
		break;
	case SFRAME_ROW_OF(2, 0):
		cfa = (s8)words;
		fp = (s8)(words >> 8);
		break;
	case SFRAME_ROW_OF(1, 1):
		cfa = (s16)words;
		break;
	case SFRAME_ROW_OF(2, 1):
		cfa = (s16)words;
		fp = (s16)(words >> 16);
		break;
	case SFRAME_ROW_OF(1, 2):
		cfa = (s32)words;
		break;
	case SFRAME_ROW_OF(2, 2):
		cfa = (s32)words;
		fp = (s32)(words >> 32);
		break;
	default:
		return 0;
	}

	/* 0 would stand for "in its register". */
	if (!fp && SFRAME_ROW_WORDS(row->info) == 2)
		return 0;
	return unwind_word_make(!(row->info & SFRAME_ROW_SP), cfa, fp);
}

/* Does the decoder know all about functions like this one? */
static __always_inline enum sframe_status
sframe_check_func(const struct sframe_section *sec,
		  const struct sframe_func *func)
{
	u16 known = sec->version == 2 ? SFRAME_V2_INFO : SFRAME_V3_INFO;

	if ((func->info & SFRAME_INFO_ROW_TYPE) > SFRAME_MAX_ROW_TYPE)
		return SFRAME_BAD_ROW_TYPE;
	if (func->info & ~known)
		return SFRAME_UNSUPPORTED;
	if (func->info & SFRAME_INFO_PCMASK && !func->rep_size)
		return SFRAME_BAD_REP_SIZE;
	return SFRAME_OK;
}

/* In a window: what version 3 has in front of the rows. */
static __always_inline enum sframe_status
sframe_get_attr(const struct sframe_cursor *c, struct sframe_rows *rows,
		struct sframe_func *func)
{
	u64 attr;

	if (rows->end - rows->at < SFRAME_V3_ATTR_LEN)
		return SFRAME_BAD_FUNC_ROWS;
	if (!sframe_get(c, rows->at, 4, &attr))
		return SFRAME_FAULT;

	func->num_rows = (u16)attr;
	func->info = attr >> 16;
	/* Of use to few of them */
	if (unlikely(func->info & SFRAME_INFO_PCMASK)) {
		if (!sframe_get(c, rows->at + 4, 1, &attr))
			return SFRAME_FAULT;
		func->rep_size = attr;
	}
	rows->at += SFRAME_V3_ATTR_LEN;
	return SFRAME_OK;
}

/* Of the function found, the row that applies at @off, in one window. */
static __always_inline enum sframe_status
sframe_read_row(const struct sframe_cursor *c, struct sframe_func *func,
		u64 off, struct sframe_row *row)
{
	const struct sframe_section *sec = c->sec;
	enum sframe_status status = SFRAME_OK;
	struct sframe_rows rows;

	if (func->rows_off > sec->fre_len)
		return SFRAME_BAD_FUNC_ROWS;
	rows.at = sec->fres + func->rows_off;
	rows.end = sec->fres + sec->fre_len;

	sframe_begin(c);
	if (sec->version != 2)
		status = sframe_get_attr(c, &rows, func);

	/* Nothing special about most functions */
	if (unlikely(status == SFRAME_OK && func->info > SFRAME_MAX_ROW_TYPE)) {
		sframe_end(c);
		status = sframe_check_func(sec, func);
		if (status == SFRAME_OK && func->info & SFRAME_INFO_PCMASK)
			off = (u32)off % func->rep_size;
		sframe_begin(c);
	}
	if (status == SFRAME_OK)
		status = sframe_find_row(c, &rows, func, off, row);
	sframe_end(c);

	return status;
}

/* The rule that applies at ip in @func, whose index entry has been read. */
static __always_inline enum sframe_status
sframe_find_rule(const struct sframe_cursor *c, struct sframe_func *func,
		 struct unwind_rule *rule)
{
	struct sframe_row row __uninitialized;
	enum sframe_status status;

	status = sframe_read_row(c, func, c->ip - func->start, &row);
	if (status == SFRAME_OK) {
		rule->word = sframe_row_word(c->sec, func, &row);
		if (likely(rule->word))
			return SFRAME_OK;
		status = sframe_decode_row(c->sec, func->info, &row, rule);
	} else if (status == SFRAME_NO_ROW && !func->num_rows &&
		   c->sec->version != 2 && !(func->info & SFRAME_INFO_TYPE)) {
		sframe_outermost_rule(rule);
		status = SFRAME_OK;
	}

	if (status == SFRAME_OK)
		unwind_rule_pack(rule);
	return status;
}

static __always_inline enum sframe_status
sframe_find(const struct sframe_section *sec, const struct sframe_buf *buf,
	    u64 ip, struct sframe_missing *missing, const bool user,
	    struct unwind_rule *rule)
{
	const struct sframe_cursor c = { sec, buf, ip, missing, user };
	struct sframe_func func = { };
	enum sframe_status status;

	if (!sec->num_fdes || ip < sec->text_start || ip >= sec->text_end)
		return SFRAME_NO_ROW;

	status = sframe_find_func(&c, &func);
	if (status != SFRAME_OK)
		return status;
	/* It covers @ip, which is in the code. */
	if (func.start < sec->text_start)
		return SFRAME_BAD_FUNC_RANGE;

	return sframe_find_rule(&c, &func, rule);
}

#ifdef __KERNEL__

/**
 * sframe_open_user - Read the header of a table in user memory
 * @sec:	The bounds of table and code, set by the caller; the rest is
 *		filled in, and makes sense on success only
 *
 * A table without functions is legal; nothing is found in it.
 *
 * Context: Process context, the mm is that of current. May sleep and take page
 *	    faults; with page faults disabled it fails instead.
 * Return: SFRAME_OK; SFRAME_FAULT, in which case a later attempt may succeed; or why
 *	   the table cannot be used.
 */
enum sframe_status sframe_open_user(struct sframe_section *sec)
{
	struct sframe_missing missing;
	const struct sframe_cursor c = { .missing = &missing, .user = true };

	return sframe_open(sec, &c);
}

/**
 * sframe_find_user - Find the rule for an address in a table in user memory
 * @sec:	The table, as sframe_open_user() left it
 * @ip:		Address of an instruction; for a return address, one less
 * @rule:	The rule, on success
 *
 * Where the table is not present, the search begins anew after
 * unwind_user_fault_in(). A search reads no more than SFRAME_MAX_FAULTS pages, unless
 * they are taken away meanwhile.
 *
 * Context: Process context, the mm is that of current. May sleep.
 * Return: SFRAME_OK, or why there is no rule, see enum sframe_status.
 */
enum sframe_status sframe_find_user(const struct sframe_section *sec, u64 ip,
				    struct unwind_rule *rule)
{
	struct sframe_missing missing;
	enum sframe_status status;
	unsigned int faults;

	for (faults = 0;; faults++) {
		pagefault_disable();
		status = sframe_find(sec, NULL, ip, &missing, true, rule);
		pagefault_enable();
		if (likely(status != SFRAME_FAULT) || faults == SFRAME_MAX_FAULTS ||
		    unwind_user_fault_in(missing.addr, missing.len))
			return status;
	}
}

#endif

#if !defined(__KERNEL__) || IS_ENABLED(CONFIG_UNWIND_SFRAME_KUNIT_TEST)

/* As their user memory relatives, for @buf. All of the rule is filled in. */
enum sframe_status sframe_open_buf(struct sframe_section *sec,
				   const struct sframe_buf *buf)
{
	const struct sframe_cursor c = { .buf = buf };

	return sframe_open(sec, &c);
}
EXPORT_SYMBOL_IF_KUNIT(sframe_open_buf);

enum sframe_status sframe_find_buf(const struct sframe_section *sec, u64 ip,
				   struct unwind_rule *rule,
				   const struct sframe_buf *buf)
{
	enum sframe_status status;

	status = sframe_find(sec, buf, ip, NULL, false, rule);
	if (status == SFRAME_OK)
		unwind_rule_unpack(rule);
	return status;
}
EXPORT_SYMBOL_IF_KUNIT(sframe_find_buf);

#endif

static const char * const sframe_status_texts[SFRAME_NR_STATUS] = {
	[SFRAME_OK]		 = "found",
	[SFRAME_NO_ROW]		 = "no row for the address",
	[SFRAME_UNSUPPORTED]	 = "function of an unknown kind",
	[SFRAME_FAULT]		 = "not readable now",
	[SFRAME_TOO_LONG]	 = "too many rows or functions",
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
	[SFRAME_BAD_FUNC_RANGE]	 = "function outside the code",
	[SFRAME_BAD_FUNC_ROWS]	 = "function's rows out of bounds",
	[SFRAME_BAD_ROW_TYPE]	 = "undefined row type",
	[SFRAME_BAD_REP_SIZE]	 = "repetition of size 0",
	[SFRAME_BAD_ROW_ORDER]	 = "rows out of order",
	[SFRAME_BAD_ROW]	 = "senseless row",
};

/**
 * sframe_status_text - A status in words, for messages and traces
 * @status:	The status
 *
 * Return: A constant string, whatever @status is.
 */
const char *sframe_status_text(enum sframe_status status)
{
	if ((unsigned int)status >= SFRAME_NR_STATUS)
		return "unknown";
	return sframe_status_texts[status];
}
EXPORT_SYMBOL_IF_KUNIT(sframe_status_text);
