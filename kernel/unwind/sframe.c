// SPDX-License-Identifier: GPL-2.0
/*
 * Decoder of SFrame tables.
 *
 * A table has an index of functions, sorted by their start, and for each
 * function rows: from this offset on, this is how to find the caller. Version 2
 * has all of a function but its rows in the index; version 3 has a part of it,
 * the attribute, in front of the rows.
 *
 * All of it is the work of whoever owns the memory. Numbers are read once into
 * locals, and checked where they are used. Addresses are sums modulo 2^64 of
 * what the table says: nonsense gives a nonsensical address, which does not
 * match, or is outside of the bounds that it is checked against before
 * something is read there. Masking user pointers is part of reading them, for
 * the sake of speculation, as are indices into what has been read.
 *
 * The functions that read take a constant @how: what the memory is and, where
 * it matters for speed, what the table is. So there are several decoders in the
 * end, and no indirection in any.
 */

#include "sframe.h"

#ifdef __KERNEL__
#include <kunit/visibility.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#endif

#define SFRAME_MAGIC		0xdee2
#define SFRAME_ABI_AMD64	3

/* Flags in the header */
#define SFRAME_SORTED		0x1
#define SFRAME_FRAME_POINTER	0x2
#define SFRAME_PCREL		0x4
#define SFRAME_V2_FLAGS		(SFRAME_SORTED | SFRAME_FRAME_POINTER | SFRAME_PCREL)
#define SFRAME_V3_FLAGS		(SFRAME_SORTED | SFRAME_PCREL)

#define SFRAME_HEADER_LEN	28

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
#define SFRAME_V3_INFO		(SFRAME_V2_INFO | SFRAME_INFO_SIGNAL)

/* Second info byte: the type of the function's rows, bits above it are unused */
#define SFRAME_INFO2_DEFAULT	0
#define SFRAME_INFO2_FLEX	1

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

/* Start, info byte and words: the largest row that can be passed over */
#define SFRAME_MAX_ROW_LEN	(4 + 1 + 15 * 4)

/* First read of rows: most functions need no other. */
#define SFRAME_FIRST_CHUNK	64
/* The others: the row found, which is kept, and all of the next */
#define SFRAME_CHUNK		192
/* Four bytes are loaded where one or two are meant. */
#define SFRAME_CHUNK_PAD	4

/* Bits of @how. The memory is that of current, not a buffer: */
#define SFRAME_USER		0x1
/* The table is of version 3, not 2: */
#define SFRAME_V3		0x2
/* Starts are relative to their field, not to the table: */
#define SFRAME_REL		0x4

/* A function, as it was read */
struct sframe_func {
	u64	start;
	u32	size;
	u32	rows_off;
	u32	num_rows;
	u8	info;
	u8	info2;
	u8	rep_size;
};

/* Bytes of the rows, and the place in them */
struct sframe_rows {
	u64		addr;		/* of bytes[0] */
	u64		end;		/* behind all the table's rows */
	unsigned int	len;		/* valid bytes */
	unsigned int	at;		/* next one to decode */
	u8		bytes[SFRAME_CHUNK + SFRAME_CHUNK_PAD];
};

/* Words of a row that have not been looked at yet */
struct sframe_words {
	const u8	*at;
	unsigned int	left;
	unsigned int	size;		/* of each, in bytes */
	unsigned int	shift;		/* bits of an u32 that it leaves free */
};

#ifdef __KERNEL__

/* A task that is to die does not fault in page after page of its tables. */
static __always_inline bool sframe_killed_user(void)
{
	return unlikely(task_sigpending(current)) &&
	       fatal_signal_pending(current) && !pagefault_disabled();
}

/* Between begin and end, user memory can be read, and no function called. */
static __always_inline void sframe_begin_user(void)
{
	/* Only opens the window: addresses are masked one by one. */
	(void)masked_user_access_begin((void __user *)NULL);
}

static __always_inline void sframe_end_user(void)
{
	user_access_end();
}

static __always_inline u64 sframe_mask_user(u64 addr)
{
	const void __user *ptr = (void __user *)(unsigned long)addr;

	return (__force unsigned long)mask_user_address(ptr);
}

static __always_inline bool sframe_get_u32_user(u64 addr, u32 *val)
{
	const u32 __user *ptr = (void __user *)(unsigned long)addr;

	unsafe_get_user(*val, ptr, fault);
	return true;
fault:
	return false;
}

static __always_inline bool sframe_get_u64_user(u64 addr, u64 *val)
{
	const u64 __user *ptr = (void __user *)(unsigned long)addr;

	unsafe_get_user(*val, ptr, fault);
	return true;
fault:
	return false;
}

static __always_inline bool
sframe_copy_user(void *to, u64 addr, unsigned int len)
{
	const u8 __user *from = (void __user *)(unsigned long)addr;
	unsigned int i = 0;

	for (; len - i >= 4 * sizeof(u64); i += 4 * sizeof(u64)) {
		u64 __user *words = (u64 __user *)(from + i);
		u64 *vals = to + i;

		unsafe_get_user(vals[0], words, fault);
		unsafe_get_user(vals[1], words + 1, fault);
		unsafe_get_user(vals[2], words + 2, fault);
		unsafe_get_user(vals[3], words + 3, fault);
	}
	for (; len - i >= sizeof(u64); i += sizeof(u64))
		unsafe_get_user(*(u64 *)(to + i), (u64 __user *)(from + i), fault);
	for (; i < len; i++)
		unsafe_get_user(*(u8 *)(to + i), from + i, fault);
	return true;
fault:
	return false;
}

#else /* user space has buffers only */

static inline bool sframe_killed_user(void) { return false; }
static inline void sframe_begin_user(void) { }
static inline void sframe_end_user(void) { }
static inline u64 sframe_mask_user(u64 addr) { return addr; }
static inline bool sframe_get_u32_user(u64 addr, u32 *val) { return false; }
static inline bool sframe_get_u64_user(u64 addr, u64 *val) { return false; }
static inline bool sframe_copy_user(void *to, u64 addr, unsigned int len)
{
	return false;
}

#endif

/* Where in @buf the bytes at @addr are, NULL unless all of them are. */
static const u8 *sframe_in_buf(const struct sframe_buf *buf, u64 addr, u64 len)
{
	u64 off = addr - buf->addr;

	if (off > buf->len || len > buf->len - off)
		return NULL;
	return buf->data + off;
}

static __always_inline bool sframe_killed(const int how)
{
	return how & SFRAME_USER && sframe_killed_user();
}

static __always_inline void sframe_begin(const int how)
{
	if (how & SFRAME_USER)
		sframe_begin_user();
}

static __always_inline void sframe_end(const int how)
{
	if (how & SFRAME_USER)
		sframe_end_user();
}

/*
 * What an address has to pass before anything is read there, or a little way
 * up from there: user memory does not end without a gap.
 */
static __always_inline u64 sframe_mask(const int how, u64 addr)
{
	return how & SFRAME_USER ? sframe_mask_user(addr) : addr;
}

static __always_inline bool
sframe_get_u32(const int how, const struct sframe_buf *buf, u64 addr, u32 *val)
{
	const u8 *from;

	if (how & SFRAME_USER)
		return sframe_get_u32_user(addr, val);

	from = sframe_in_buf(buf, addr, sizeof(*val));
	if (!from)
		return false;
	*val = get_unaligned_le32(from);
	return true;
}

static __always_inline bool
sframe_get_u64(const int how, const struct sframe_buf *buf, u64 addr, u64 *val)
{
	const u8 *from;

	if (how & SFRAME_USER)
		return sframe_get_u64_user(addr, val);

	from = sframe_in_buf(buf, addr, sizeof(*val));
	if (!from)
		return false;
	*val = get_unaligned_le64(from);
	return true;
}

static __always_inline bool
sframe_copy(const int how, const struct sframe_buf *buf, void *to, u64 addr,
	    unsigned int len)
{
	const u8 *from;

	if (how & SFRAME_USER)
		return sframe_copy_user(to, addr, len);

	from = sframe_in_buf(buf, addr, len);
	if (!from)
		return false;
	memcpy(to, from, len);
	return true;
}

/* One batch of bytes. @len is a constant where speed matters. */
static __always_inline bool
sframe_read(const int how, const struct sframe_buf *buf, void *to, u64 addr,
	    unsigned int len)
{
	bool done;

	sframe_begin(how);
	done = sframe_copy(how, buf, to, sframe_mask(how, addr), len);
	sframe_end(how);

	return done;
}

static __always_inline u64 sframe_fde_len(const int how)
{
	return how & SFRAME_V3 ? SFRAME_V3_FDE_LEN : SFRAME_V2_FDE_LEN;
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
 * Whatever is behind the index and the rows does not matter: linkers make the
 * segment larger than the table.
 */
static enum sframe_status
sframe_check_ranges(struct sframe_section *sec, const u8 *header)
{
	u64 len = sec->end - sec->start;
	u64 fdes, fres, fdes_len;

	sec->num_fdes = get_unaligned_le32(header + 8);
	sec->fre_len = get_unaligned_le32(header + 16);

	/* Sums of a few 32-bit numbers, behind an auxiliary header */
	fdes = SFRAME_HEADER_LEN + header[7];
	fres = fdes + get_unaligned_le32(header + 24);
	fdes += get_unaligned_le32(header + 20);
	fdes_len = sec->num_fdes *
		   sframe_fde_len(sec->version == 2 ? 0 : SFRAME_V3);

	if (fdes > len || fdes_len > len - fdes)
		return SFRAME_BAD_INDEX_RANGE;
	if (fres > len || sec->fre_len > len - fres)
		return SFRAME_BAD_ROWS_RANGE;

	sec->fdes = sec->start + fdes;
	sec->fres = sec->start + fres;
	return SFRAME_OK;
}

static __always_inline enum sframe_status
sframe_open(struct sframe_section *sec, const int how,
	    const struct sframe_buf *buf)
{
	u8 header[SFRAME_HEADER_LEN];
	enum sframe_status status;

	if (sec->end < sec->start || sec->end - sec->start < sizeof(header))
		return SFRAME_BAD_BOUNDS;
	if (sframe_killed(how) ||
	    !sframe_read(how, buf, header, sec->start, sizeof(header)))
		return SFRAME_FAULT;

	status = sframe_check_header(sec, header);
	if (status != SFRAME_OK)
		return status;
	return sframe_check_ranges(sec, header);
}

/* Start of the function whose index entry is at @addr, which is masked. */
static __always_inline bool
sframe_get_start(const struct sframe_section *sec, const int how,
		 const struct sframe_buf *buf, u64 addr, u64 *start)
{
	u32 start32;

	if (how & SFRAME_V3) {
		if (!sframe_get_u64(how, buf, addr, start))
			return false;
	} else {
		if (!sframe_get_u32(how, buf, addr, &start32))
			return false;
		*start = (s64)(s32)start32;
	}

	*start += how & SFRAME_REL ? addr : sec->start;
	return true;
}

/* The rest of it. */
static __always_inline bool
sframe_get_func(const struct sframe_section *sec, const int how,
		const struct sframe_buf *buf, u64 addr,
		struct sframe_func *func)
{
	u64 size_off;
	u32 info;

	if (!sframe_get_start(sec, how, buf, addr, &func->start))
		return false;

	addr += how & SFRAME_V3 ? sizeof(u64) : sizeof(u32);
	if (!sframe_get_u64(how, buf, addr, &size_off))
		return false;
	func->size = (u32)size_off;
	func->rows_off = size_off >> 32;
	if (how & SFRAME_V3)
		return true;

	addr += sizeof(size_off);
	if (!sframe_get_u32(how, buf, addr, &func->num_rows) ||
	    !sframe_get_u32(how, buf, addr + sizeof(u32), &info))
		return false;
	func->info = info;
	func->info2 = SFRAME_INFO2_DEFAULT;
	func->rep_size = info >> 8;
	return true;
}

/* In a window: move @base up by @step if the entry there starts up to @ip. */
static __always_inline bool
sframe_probe(const struct sframe_section *sec, const int how,
	     const struct sframe_buf *buf, u64 ip, u64 step, u64 *base)
{
	u64 next = sframe_mask(how, *base + step), start;

	if (!sframe_get_start(sec, how, buf, next, &start))
		return false;
	if (start <= ip)
		*base = next;
	return true;
}

/*
 * Find the last function that does not start behind @ip, or the first of all.
 *
 * Steps are powers of two: the first one splits the index into two such ranges,
 * which overlap. That leaves nothing but a shift to do for the next step, and
 * two of them are done at a time: this is where a lookup in a large table
 * spends its time. At most 33 entries are read.
 */
static __always_inline bool
sframe_search(const struct sframe_section *sec, const int how,
	      const struct sframe_buf *buf, u64 ip, u64 *entry,
	      struct sframe_func *func)
{
	const u64 fde_len = sframe_fde_len(how);
	u64 step = rounddown_pow_of_two((u64)sec->num_fdes) * fde_len;
	u64 base = sec->fdes, rest = sec->num_fdes * fde_len - step;
	bool done;

	sframe_begin(how);

	done = sframe_probe(sec, how, buf, ip, rest, &base);
	step /= 2;
	for (; done && step >= 2 * fde_len; step /= 4)
		done = sframe_probe(sec, how, buf, ip, step, &base) &&
		       sframe_probe(sec, how, buf, ip, step / 2, &base);
	if (done && step >= fde_len)
		done = sframe_probe(sec, how, buf, ip, step, &base);

	base = sframe_mask(how, base);
	*entry = base;
	done = done && sframe_get_func(sec, how, buf, base, func);
	sframe_end(how);

	return done;
}

/*
 * A search that ends at the wrong place has not found the function. So it is
 * now that the order is looked at: search again, with narrowing bounds for what
 * is read.
 */
static __always_inline enum sframe_status
sframe_check_order(const struct sframe_section *sec, const int how,
		   const struct sframe_buf *buf, u64 ip)
{
	const u64 fde_len = sframe_fde_len(how);
	enum sframe_status status = SFRAME_FAULT;
	u64 low = 0, high = U64_MAX, start;
	u32 first = 0, n = sec->num_fdes;

	if (sframe_killed(how))
		return status;
	sframe_begin(how);

	while (n) {
		u64 addr = sec->fdes + (first + n / 2) * fde_len;

		addr = sframe_mask(how, addr);
		if (!sframe_get_start(sec, how, buf, addr, &start))
			goto out;
		if (start < low || start > high) {
			status = SFRAME_BAD_ORDER;
			goto out;
		}
		if (start <= ip) {
			low = start;
			first += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			high = start;
			n /= 2;
		}
	}
	status = SFRAME_NONE;
out:
	sframe_end(how);
	return status;
}

static bool sframe_covers(const struct sframe_func *func, u64 ip)
{
	return func->start <= ip && ip - func->start < func->size;
}

/*
 * The entry found does not cover @ip. An entry before it may: if this one is
 * empty, or if both have the same start. On success @func is that function.
 */
static __always_inline enum sframe_status
sframe_step_back(const struct sframe_section *sec, const int how,
		 const struct sframe_buf *buf, u64 ip, u64 entry,
		 struct sframe_func *func, unsigned int *budget)
{
	const u64 fde_len = sframe_fde_len(how);
	bool same_start = false, done;
	unsigned int steps = 0;
	u64 start;

	while (entry > sec->fdes) {
		if (func->size)
			same_start = true;
		start = func->start;

		if (steps++ == SFRAME_MAX_BACK || !*budget)
			return SFRAME_BUDGET;
		--*budget;

		if (sframe_killed(how))
			return SFRAME_FAULT;
		sframe_begin(how);
		entry = sframe_mask(how, entry - fde_len);
		done = sframe_get_func(sec, how, buf, entry, func);
		sframe_end(how);
		if (!done)
			return SFRAME_FAULT;

		if (same_start && func->start != start)
			break;
		if (sframe_covers(func, ip))
			return SFRAME_OK;
	}

	return SFRAME_NONE;
}

static __always_inline enum sframe_status
sframe_find_func(const struct sframe_section *sec, const int how,
		 const struct sframe_buf *buf, u64 ip, struct sframe_func *func,
		 unsigned int *budget)
{
	enum sframe_status status;
	u64 entry;

	if (sframe_killed(how) ||
	    !sframe_search(sec, how, buf, ip, &entry, func))
		return SFRAME_FAULT;
	if (likely(sframe_covers(func, ip)))
		return SFRAME_OK;

	status = sframe_step_back(sec, how, buf, ip, entry, func, budget);
	if (status != SFRAME_NONE)
		return status;
	return sframe_check_order(sec, how, buf, ip);
}

/*
 * There are not enough bytes to go past the next row. Read more, from the row
 * at @keep on, which becomes the first one.
 */
static __always_inline enum sframe_status
sframe_refill(struct sframe_rows *rows, const int how,
	      const struct sframe_buf *buf, unsigned int keep)
{
	u64 addr = rows->addr + keep;
	u64 left = rows->end - addr;

	if (rows->end - rows->addr == rows->len)
		return SFRAME_BAD_FUNC_ROWS;
	if (sframe_killed(how))
		return SFRAME_FAULT;

	rows->addr = addr;
	rows->len = min_t(u64, left, SFRAME_CHUNK);
	if (!sframe_read(how, buf, rows->bytes, addr, rows->len))
		return SFRAME_FAULT;
	return SFRAME_OK;
}

static __always_inline enum sframe_status
sframe_first_rows(const struct sframe_section *sec, const int how,
		  const struct sframe_buf *buf, u32 off,
		  struct sframe_rows *rows)
{
	bool done;

	if (off > sec->fre_len)
		return SFRAME_BAD_FUNC_ROWS;

	rows->addr = sec->fres + off;
	rows->end = sec->fres + sec->fre_len;
	rows->at = 0;
	rows->len = min(sec->fre_len - off, SFRAME_FIRST_CHUNK);
	if (likely(rows->len == SFRAME_FIRST_CHUNK))
		done = sframe_read(how, buf, rows->bytes, rows->addr,
				   SFRAME_FIRST_CHUNK);
	else
		done = sframe_read(how, buf, rows->bytes, rows->addr, rows->len);

	return done ? SFRAME_OK : SFRAME_FAULT;
}

/* Version 3 has it in front of the rows. */
static enum sframe_status
sframe_get_attr(struct sframe_rows *rows, struct sframe_func *func)
{
	const u8 *attr = rows->bytes;

	if (rows->len < SFRAME_V3_ATTR_LEN)
		return SFRAME_BAD_FUNC_ROWS;

	func->num_rows = get_unaligned_le16(attr);
	func->info = attr[2];
	func->info2 = attr[3];
	func->rep_size = attr[4];
	rows->at = SFRAME_V3_ATTR_LEN;
	return SFRAME_OK;
}

/*
 * Go past rows until one starts behind @off. @at is the first one to look at,
 * then that one; @found the one before it. Looks at no more than @left rows,
 * and reduces it. Returns SFRAME_NONE if not all of a row is in @rows.
 */
static __always_inline enum sframe_status
sframe_scan_rows(const struct sframe_rows *rows, unsigned int width, u32 off,
		 unsigned int *at, unsigned int *found, u32 *last,
		 unsigned int *left)
{
	unsigned int len = rows->len, row = *at, next;
	/* An info byte must not be here or behind. */
	unsigned int end = len > width ? len - width : 0;
	u32 start, mask = GENMASK(width * 8 - 1, 0);
	u8 info;

	for (; *left; --*left) {
		if (row >= end)
			return SFRAME_NONE;
		row = array_index_nospec(row, end);
		start = get_unaligned_le32(rows->bytes + row) & mask;
		if (start < *last)
			return SFRAME_BAD_ROW_ORDER;
		if (start > off)
			return SFRAME_OK;

		info = rows->bytes[row + width];
		if (SFRAME_ROW_CODE(info) == SFRAME_ROW_CODE_NONE)
			return SFRAME_BAD_ROW;
		next = row + width + 1;
		next += SFRAME_ROW_WORDS(info) << SFRAME_ROW_CODE(info);
		if (next > len)
			return SFRAME_NONE;

		*last = start;
		*found = row;
		*at = row = next;
	}
	return SFRAME_OK;
}

/*
 * Find the last of a function's rows that does not start behind @off, and set
 * the place in @rows to its info byte.
 */
static __always_inline enum sframe_status
sframe_find_row(const int how, const struct sframe_buf *buf,
		struct sframe_rows *rows, const struct sframe_func *func,
		u32 off, unsigned int *budget)
{
	unsigned int type = func->info & SFRAME_INFO_ROW_TYPE;
	unsigned int at = rows->at, found = at, limit, left, width;
	enum sframe_status status;
	u32 last = 0;

	BUILD_BUG_ON(SFRAME_CHUNK < 2 * SFRAME_MAX_ROW_LEN);

	width = 1 << array_index_nospec(type, SFRAME_MAX_ROW_TYPE + 1);
	limit = min3(func->num_rows, SFRAME_MAX_ROWS, *budget);
	left = limit;
	while (true) {
		status = sframe_scan_rows(rows, width, off, &at, &found, &last,
					  &left);
		if (likely(status != SFRAME_NONE))
			break;
		/* From the row found on, which thereby becomes the first */
		status = sframe_refill(rows, how, buf, found);
		if (status != SFRAME_OK)
			break;
		at -= found;
		found = 0;
	}

	/* What was looked at for nothing counts too. */
	*budget -= limit - left;
	if (status != SFRAME_OK)
		return status;
	if (!left && limit < func->num_rows)
		return SFRAME_BUDGET;
	/* No row at all, or even the first one starts behind @off */
	if (left == limit)
		return SFRAME_NONE;

	rows->at = found + width;
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

static void sframe_outermost_rule(struct sframe_rule *rule)
{
	*rule = (struct sframe_rule) { .outermost = true };
}

/* Words are the offset of the CFA, and of the FP where that is not fixed. */
static enum sframe_status
sframe_default_row(const struct sframe_section *sec, u8 info,
		   struct sframe_words *words, struct sframe_rule *rule)
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

	rule->cfa.off = cfa;
	rule->cfa.where = SFRAME_REG;
	rule->cfa.reg = info & SFRAME_ROW_SP ? SFRAME_REG_SP : SFRAME_REG_FP;
	rule->ra.off = sec->ra_off;
	rule->ra.where = SFRAME_CFA_DEREF;
	rule->ra.reg = 0;
	rule->fp.off = fp;
	rule->fp.where = saved ? SFRAME_CFA_DEREF : SFRAME_SAME;
	rule->fp.reg = 0;
	rule->outermost = false;
	return SFRAME_OK;
}

/* A control and an offset; @loc is as it was if that is what they say. */
static enum sframe_status
sframe_flex_loc(struct sframe_words *words, struct sframe_loc *loc)
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
		loc->where = deref ? SFRAME_CFA_DEREF : SFRAME_CFA;
		return SFRAME_OK;
	}

	reg = ctl >> SFRAME_CTL_REG_SHIFT;
	if (reg >= SFRAME_NR_REGS)
		return SFRAME_UNSUPPORTED;
	loc->where = deref ? SFRAME_REG_DEREF : SFRAME_REG;
	loc->reg = reg;
	return SFRAME_OK;
}

static enum sframe_status
sframe_flex_row(const struct sframe_section *sec, struct sframe_words *words,
		struct sframe_rule *rule)
{
	enum sframe_status status;

	/* What the row may leave out */
	*rule = (struct sframe_rule) {
		.ra.off = sec->ra_off,
		.ra.where = SFRAME_CFA_DEREF,
		.fp.off = sec->fp_off,
		.fp.where = sec->fp_off ? SFRAME_CFA_DEREF : SFRAME_SAME,
	};

	status = sframe_flex_loc(words, &rule->cfa);
	if (status != SFRAME_OK)
		return status;
	/* Not relative to itself, and there is no default for it. */
	if (rule->cfa.where != SFRAME_REG && rule->cfa.where != SFRAME_REG_DEREF)
		return SFRAME_BAD_ROW;

	status = sframe_flex_loc(words, &rule->ra);
	if (status != SFRAME_OK)
		return status;
	status = sframe_flex_loc(words, &rule->fp);
	if (status != SFRAME_OK)
		return status;

	return words->left ? SFRAME_BAD_ROW : SFRAME_OK;
}

/*
 * The row whose info byte is next. It may have been read anew since it was
 * found, see sframe_refill(): nothing is known of it but where it starts.
 */
static enum sframe_status
sframe_decode_row(const struct sframe_section *sec,
		  const struct sframe_func *func,
		  const struct sframe_rows *rows, struct sframe_rule *rule)
{
	enum sframe_status status;
	struct sframe_words words;
	unsigned int len, left;
	u8 info;

	info = rows->bytes[rows->at];
	if (SFRAME_ROW_CODE(info) == SFRAME_ROW_CODE_NONE ||
	    info & SFRAME_ROW_MANGLED_RA)
		return SFRAME_BAD_ROW;
	len = SFRAME_ROW_WORDS(info) << SFRAME_ROW_CODE(info);
	left = rows->len - rows->at;
	if (len >= left)
		return SFRAME_BAD_FUNC_ROWS;
	/* No words rather than those that are not there */
	info &= array_index_mask_nospec(len, left);
	words.at = rows->bytes + rows->at + 1;
	words.left = SFRAME_ROW_WORDS(info);
	words.size = 1 << SFRAME_ROW_CODE(info);
	words.shift = 32 - 8 * words.size;
	if (!words.left) {
		sframe_outermost_rule(rule);
		return SFRAME_OK;
	}

	if (func->info2 == SFRAME_INFO2_FLEX)
		status = sframe_flex_row(sec, &words, rule);
	else
		status = sframe_default_row(sec, info, &words, rule);

	rule->signal = func->info & SFRAME_INFO_SIGNAL;
	return status;
}

/* Does the decoder know all about functions like this one? */
static enum sframe_status
sframe_check_func(const struct sframe_section *sec,
		  const struct sframe_func *func)
{
	u8 known = sec->version == 2 ? SFRAME_V2_INFO : SFRAME_V3_INFO;

	if ((func->info & SFRAME_INFO_ROW_TYPE) > SFRAME_MAX_ROW_TYPE)
		return SFRAME_BAD_ROW_TYPE;
	if (func->info & ~known || func->info2 > SFRAME_INFO2_FLEX)
		return SFRAME_UNSUPPORTED;
	if (func->info & SFRAME_INFO_PCMASK && !func->rep_size)
		return SFRAME_BAD_REP_SIZE;
	return SFRAME_OK;
}

/* What applies at @off in @func, whose rows, or attribute, are in @rows. */
static __always_inline enum sframe_status
sframe_find_rule(const struct sframe_section *sec, const int how,
		 const struct sframe_buf *buf, struct sframe_func *func,
		 u32 off, struct sframe_rows *rows, struct sframe_rule *rule,
		 unsigned int *budget)
{
	enum sframe_status status;

	if (sec->version != 2) {
		status = sframe_get_attr(rows, func);
		if (status != SFRAME_OK)
			return status;
	}

	/* Nothing special about most of them */
	if (unlikely(func->info > SFRAME_MAX_ROW_TYPE || func->info2)) {
		status = sframe_check_func(sec, func);
		if (status != SFRAME_OK)
			return status;
		if (func->info & SFRAME_INFO_PCMASK)
			off %= func->rep_size;
	}

	if (!func->num_rows && sec->version != 2 &&
	    func->info2 == SFRAME_INFO2_DEFAULT) {
		sframe_outermost_rule(rule);
		return SFRAME_OK;
	}

	status = sframe_find_row(how, buf, rows, func, off, budget);
	if (status != SFRAME_OK)
		return status;
	return sframe_decode_row(sec, func, rows, rule);
}

/* Each of the four is a search of its own, without a test for which. */
static __always_inline enum sframe_status
sframe_find_func_any(const struct sframe_section *sec, const int how,
		     const struct sframe_buf *buf, u64 ip,
		     struct sframe_func *func, unsigned int *budget)
{
	if (sec->version == 2 && sec->pcrel)
		return sframe_find_func(sec, how | SFRAME_REL, buf, ip, func,
					budget);
	if (sec->version == 2)
		return sframe_find_func(sec, how, buf, ip, func, budget);
	if (sec->pcrel)
		return sframe_find_func(sec, how | SFRAME_V3 | SFRAME_REL, buf,
					ip, func, budget);
	return sframe_find_func(sec, how | SFRAME_V3, buf, ip, func, budget);
}

static __always_inline enum sframe_status
sframe_find(const struct sframe_section *sec, const int how,
	    const struct sframe_buf *buf, u64 ip, struct sframe_rule *rule,
	    unsigned int *budget)
{
	enum sframe_status status;
	struct sframe_rows rows __uninitialized;
	struct sframe_func func = { };

	if (!sec->num_fdes || ip < sec->text_start || ip >= sec->text_end)
		return SFRAME_NONE;

	status = sframe_find_func_any(sec, how, buf, ip, &func, budget);
	if (status != SFRAME_OK)
		return status;
	/* It covers @ip, which is in the code. */
	if (func.start < sec->text_start)
		return SFRAME_BAD_FUNC_RANGE;

	status = sframe_first_rows(sec, how, buf, func.rows_off, &rows);
	if (status != SFRAME_OK)
		return status;
	return sframe_find_rule(sec, how, buf, &func, ip - func.start, &rows, rule,
				budget);
}

#ifdef __KERNEL__

/**
 * sframe_open_user - Read the header of a table in user memory
 * @sec:	The bounds of table and code, set by the caller; the rest is
 *		filled in, and makes sense on success only
 *
 * A table without functions is legal, nothing is found in it.
 *
 * Context: Process context, the mm is that of current. May sleep and take page
 *	    faults; with page faults disabled it fails instead.
 * Return: SFRAME_OK; SFRAME_FAULT, also if a fatal signal is pending, in which
 *	   case another time may do better; or why the table is no good.
 */
enum sframe_status sframe_open_user(struct sframe_section *sec)
{
	return sframe_open(sec, SFRAME_USER, NULL);
}

/**
 * sframe_find_user - Find the rule for an address in a table in user memory
 * @sec:	The table, as sframe_open_user() left it
 * @ip:		Address of an instruction; for a return address, one less
 * @rule:	The rule, on success
 * @budget:	Rows that may still be looked at, is reduced by those that were
 *
 * Context: As sframe_open_user().
 * Return: SFRAME_OK, or why there is no rule, see enum sframe_status.
 */
enum sframe_status sframe_find_user(const struct sframe_section *sec, u64 ip,
				    struct sframe_rule *rule,
				    unsigned int *budget)
{
	return sframe_find(sec, SFRAME_USER, NULL, ip, rule, budget);
}

#endif

#if !defined(__KERNEL__) || IS_ENABLED(CONFIG_KUNIT)

/* As their user memory relatives, for @buf. */
enum sframe_status sframe_open_buf(struct sframe_section *sec,
				   const struct sframe_buf *buf)
{
	return sframe_open(sec, 0, buf);
}
EXPORT_SYMBOL_IF_KUNIT(sframe_open_buf);

enum sframe_status sframe_find_buf(const struct sframe_section *sec, u64 ip,
				   struct sframe_rule *rule,
				   unsigned int *budget,
				   const struct sframe_buf *buf)
{
	return sframe_find(sec, 0, buf, ip, rule, budget);
}
EXPORT_SYMBOL_IF_KUNIT(sframe_find_buf);

#endif

static const char * const sframe_status_texts[SFRAME_NR_STATUS] = {
	[SFRAME_OK]		 = "found",
	[SFRAME_NONE]		 = "no row for the address",
	[SFRAME_UNSUPPORTED]	 = "function of an unknown kind",
	[SFRAME_FAULT]		 = "not readable now",
	[SFRAME_BUDGET]		 = "too many rows",
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

/**
 * sframe_rule_pack - Express an ordinary rule in one word
 * @rule:	The rule
 * @word:	The word, see SFRAME_WORD_VALID
 *
 * Return: false if the rule has something that the word has no room for.
 */
bool sframe_rule_pack(const struct sframe_rule *rule, u64 *word)
{
	u64 bits = SFRAME_WORD_VALID;

	if (rule->outermost) {
		*word = bits | SFRAME_WORD_OUTERMOST;
		return true;
	}
	if (rule->signal || rule->cfa.where != SFRAME_REG ||
	    rule->ra.where != SFRAME_CFA_DEREF || rule->ra.off != -8)
		return false;

	if (rule->cfa.reg == SFRAME_REG_FP)
		bits |= SFRAME_WORD_USE_FP;
	else if (rule->cfa.reg != SFRAME_REG_SP)
		return false;

	if (rule->fp.where == SFRAME_CFA_DEREF) {
		/* 0 stands for "in its register", and is the caller's stack. */
		if (!rule->fp.off || rule->fp.off != (s16)rule->fp.off)
			return false;
		bits |= (u64)(u16)rule->fp.off << 16;
	} else if (rule->fp.where != SFRAME_SAME) {
		return false;
	}

	*word = bits | (u64)(u32)rule->cfa.off << 32;
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(sframe_rule_pack);
