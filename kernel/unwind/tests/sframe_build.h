/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_TESTS_SFRAME_BUILD_H
#define _KERNEL_UNWIND_TESTS_SFRAME_BUILD_H

/*
 * Makes SFrame tables for tests, good ones and others: nothing is sorted or
 * checked, and what is written can be changed before sframe_build_finish() (the
 * fields of the structures) and after it (the bytes).
 *
 *	sframe_build_init(b, 3, true, table_address);
 *	sframe_build_func(b, function_address, size, SFRAME_BUILD_ROW1);
 *	sframe_build_sp(b, 0, 8);
 *	sframe_build_sp(b, 1, 16);
 *	len = sframe_build_finish(b);
 *
 * The table is in b->mem then. Users have the integer types of the kernel, and
 * memcpy() and memset().
 */

#define SFRAME_BUILD_FUNCS	512
#define SFRAME_BUILD_ROWS_LEN	(96 * 1024)
#define SFRAME_BUILD_HEADER	28
#define SFRAME_BUILD_LEN	(SFRAME_BUILD_HEADER + 255 + \
				 SFRAME_BUILD_FUNCS * 20 + SFRAME_BUILD_ROWS_LEN)

/* Info byte of functions: width of row starts, and flags */
#define SFRAME_BUILD_ROW1	0x00
#define SFRAME_BUILD_ROW2	0x01
#define SFRAME_BUILD_ROW4	0x02
#define SFRAME_BUILD_PCMASK	0x10
#define SFRAME_BUILD_SIGNAL	0x80

/* Info byte of rows: base register and size of words */
#define SFRAME_BUILD_FP		0x00
#define SFRAME_BUILD_SP		0x01
#define SFRAME_BUILD_WORD1	0x00
#define SFRAME_BUILD_WORD2	0x20
#define SFRAME_BUILD_WORD4	0x40

/* Control words of flexible rows */
#define SFRAME_BUILD_REG(nr)	((nr) << 3 | 0x1)
#define SFRAME_BUILD_DEREF	0x2

struct sframe_build_func {
	u64	start;
	u32	size;
	u32	rows_off;
	u32	num_rows;
	u8	info;
	u8	info2;
	u8	rep_size;
};

struct sframe_build {
	u64	addr;
	u8	version;
	u8	flags;
	u8	abi;
	s8	fp_off;
	s8	ra_off;
	u8	aux_len;
	u32	nr_rows;
	u32	nr_funcs;
	u32	rows_len;
	struct sframe_build_func funcs[SFRAME_BUILD_FUNCS];
	u8	rows[SFRAME_BUILD_ROWS_LEN];
	u8	mem[SFRAME_BUILD_LEN];
};

/* Store the lower @len bytes of @val, little endian. */
static inline u8 *sframe_build_put(u8 *to, u64 val, unsigned int len)
{
	for (; len; len--, val >>= 8)
		*to++ = val;
	return to;
}

static inline void sframe_build_init(struct sframe_build *b, u8 version,
				     bool pcrel, u64 addr)
{
	memset(b, 0, sizeof(*b));
	b->addr = addr;
	b->version = version;
	b->flags = 0x1 | (pcrel ? 0x4 : 0);
	b->abi = 3;
	b->ra_off = -8;
}

/* A function, to be followed by its rows. The return value is for changes. */
static inline struct sframe_build_func *
sframe_build_func(struct sframe_build *b, u64 start, u32 size, u8 info)
{
	struct sframe_build_func *func = &b->funcs[b->nr_funcs++];

	func->start = start;
	func->size = size;
	func->info = info;
	func->rows_off = b->rows_len;
	/* Room for the attribute */
	if (b->version == 3)
		b->rows_len += 5;
	return func;
}

/* A row of the last function, as its info byte and @words say. */
static inline void sframe_build_row(struct sframe_build *b, u32 start, u8 info,
				    const s32 *words)
{
	struct sframe_build_func *func = &b->funcs[b->nr_funcs - 1];
	unsigned int size = 1 << (info >> 5 & 3), i;
	u8 *to = b->rows + b->rows_len;

	to = sframe_build_put(to, start, 1 << (func->info & 3));
	*to++ = info;
	for (i = 0; i < (info >> 1 & 0xf); i++)
		to = sframe_build_put(to, words[i], size);

	b->rows_len = to - b->rows;
	b->nr_rows++;
	func->num_rows++;
}

static inline u8 sframe_build_code(s32 word)
{
	if (word >= -0x80 && word <= 0x7f)
		return SFRAME_BUILD_WORD1;
	if (word >= -0x8000 && word <= 0x7fff)
		return SFRAME_BUILD_WORD2;
	return SFRAME_BUILD_WORD4;
}

/* CFA = SP + @cfa */
static inline void sframe_build_sp(struct sframe_build *b, u32 start, s32 cfa)
{
	sframe_build_row(b, start,
			 SFRAME_BUILD_SP | 1 << 1 | sframe_build_code(cfa),
			 &cfa);
}

/* CFA = base + @cfa, the caller's FP is at CFA + @fp */
static inline void sframe_build_saved(struct sframe_build *b, u32 start,
				      u8 base, s32 cfa, s32 fp)
{
	u8 code = sframe_build_code(cfa), code2 = sframe_build_code(fp);
	s32 words[] = { cfa, fp };

	sframe_build_row(b, start,
			 base | 2 << 1 | (code > code2 ? code : code2), words);
}

/* The return address is undefined. */
static inline void sframe_build_end(struct sframe_build *b, u32 start)
{
	sframe_build_row(b, start, 0, NULL);
}

static inline u8 *sframe_build_header(struct sframe_build *b, u8 *to,
				      u32 fdes_len)
{
	to = sframe_build_put(to, 0xdee2, 2);
	*to++ = b->version;
	*to++ = b->flags;
	*to++ = b->abi;
	*to++ = b->fp_off;
	*to++ = b->ra_off;
	*to++ = b->aux_len;
	to = sframe_build_put(to, b->nr_funcs, 4);
	to = sframe_build_put(to, b->nr_rows, 4);
	to = sframe_build_put(to, b->rows_len, 4);
	to = sframe_build_put(to, 0, 4);
	to = sframe_build_put(to, fdes_len, 4);
	memset(to, 0xa5, b->aux_len);
	return to + b->aux_len;
}

static inline u8 *sframe_build_fde(struct sframe_build *b, u8 *to,
				   const struct sframe_build_func *func)
{
	u64 origin = b->addr + (b->flags & 0x4 ? to - b->mem : 0);
	u8 *attr = b->rows + func->rows_off;

	to = sframe_build_put(to, func->start - origin, b->version == 3 ? 8 : 4);
	to = sframe_build_put(to, func->size, 4);
	to = sframe_build_put(to, func->rows_off, 4);
	if (b->version == 2) {
		to = sframe_build_put(to, func->num_rows, 4);
		*to++ = func->info;
		*to++ = func->rep_size;
		return sframe_build_put(to, 0, 2);
	}

	/* Tests may have moved it to where there is no room. */
	if (func->rows_off < b->rows_len) {
		attr = sframe_build_put(attr, func->num_rows, 2);
		*attr++ = func->info;
		*attr++ = func->info2;
		*attr++ = func->rep_size;
	}
	return to;
}

/* Put the table together. Returns its length in bytes. */
static inline u32 sframe_build_finish(struct sframe_build *b)
{
	u32 fdes_len = b->nr_funcs * (b->version == 2 ? 20 : 16), i;
	u8 *to = sframe_build_header(b, b->mem, fdes_len);

	for (i = 0; i < b->nr_funcs; i++)
		to = sframe_build_fde(b, to, &b->funcs[i]);
	memcpy(to, b->rows, b->rows_len);
	return to + b->rows_len - b->mem;
}

#endif /* _KERNEL_UNWIND_TESTS_SFRAME_BUILD_H */
