// SPDX-License-Identifier: GPL-2.0
/*
 * Where functions start that have no FDE: at the target of a call, at an address that
 * the loader relocates, at a symbol, or behind padding. Instructions are not decoded: an apparent
 * call may be a part of something else. So a start counts only where the code before it does not
 * run into it, and it only decides whether the kernel may follow the frame pointer.
 */

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* More code than any file has that has functions without FDEs */
#define MAX_CODE	(512 * 1024 * 1024ULL)
#define MAX_RELOCATIONS	(256 * 1024 * 1024ULL)
/* Bytes of code to read before a start, and from it on */
#define BEFORE		32
#define PROLOGUE	8

/* Code that was read at once */
struct ut_scan {
	const struct ut_segment	*segment;
	__u64			start;		/* offset in the file */
	size_t			len;
	__u8			code[BEFORE + UT_SCAN_LEN];
};

static const __u8 endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

/*
 * Bytes of a prologue that makes a frame: endbr64 or not; push %rbp; and
 * mov %rsp,%rbp in either form. 0: another one.
 */
size_t ut_prologue(const __u8 *code, size_t len)
{
	static const __u8 forms[][4] = {
		{ 0x55, 0x48, 0x89, 0xe5 },
		{ 0x55, 0x48, 0x8b, 0xec },
	};
	size_t n = 0;

	if (len >= sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64)))
		n = sizeof(endbr64);
	if (len - n < sizeof(forms[0]) ||
	    (memcmp(code + n, forms[0], sizeof(forms[0])) &&
	     memcmp(code + n, forms[1], sizeof(forms[1]))))
		return 0;
	return n + sizeof(forms[0]);
}

/* Number of a byte among those of all code */
static __u64 index_of(const struct ut_elf *elf, const struct ut_segment *segment,
		      __u64 offset)
{
	const struct ut_segment *other;
	__u64 index = offset - segment->offset;

	for (other = elf->code; other < segment; other++)
		index += other->len;
	return index;
}

static bool has_start(const struct ut_elf *elf, enum ut_start kind, __u64 index)
{
	return elf->starts[kind][index / 64] & 1ULL << (index % 64);
}

/* Note a start, if there is code at all. */
static void mark(struct ut_elf *elf, enum ut_start kind, __u64 addr)
{
	const struct ut_segment *segment = ut_elf_text_at(elf, addr);
	__u64 index;

	if (!segment)
		return;
	index = index_of(elf, segment, addr - segment->addr + segment->offset);
	if (kind == UT_START_CALL && has_start(elf, kind, index))
		kind = UT_START_CALLS;
	elf->starts[kind][index / 64] |= 1ULL << (index % 64);
}

/* Is there evidence of a kind that a function starts at an address of code? */
bool ut_starts_has(const struct ut_elf *elf, enum ut_start kind, __u64 addr)
{
	const struct ut_segment *segment = ut_elf_code_at(elf, addr);

	return has_start(elf, kind, index_of(elf, segment,
					     addr - segment->addr + segment->offset));
}

#define MAX_DATA	(1 << 20)

static int compare_addresses(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

/* The number of sorted addresses up to @addr */
static size_t data_to(const struct ut_elf *elf, __u64 addr)
{
	size_t low = 0, high = elf->nr_sorted;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (elf->data[middle] > addr)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Note that data starts at an address, for when they are sorted. False: no memory */
bool ut_starts_add_data(struct ut_elf *elf, __u64 addr)
{
	size_t before = data_to(elf, addr);

	if (elf->nr_data == MAX_DATA || (before && elf->data[before - 1] == addr))
		return true;
	if (elf->nr_data == elf->max_data) {
		size_t max = elf->max_data ? 2 * elf->max_data : 1024;
		__u64 *more = realloc(elf->data, max * sizeof(*more));

		if (!more)
			return false;
		elf->data = more;
		elf->max_data = max;
	}
	elf->data[elf->nr_data++] = addr;
	return true;
}

/* Use the addresses that were noted. Returns whether some are new. */
bool ut_starts_sort_data(struct ut_elf *elf)
{
	size_t nr = elf->nr_sorted, i;

	if (elf->nr_data == nr)
		return false;
	qsort(elf->data, elf->nr_data, sizeof(*elf->data), compare_addresses);
	elf->nr_sorted = 1;
	for (i = 1; i < elf->nr_data; i++) {
		if (elf->data[i] != elf->data[i - 1])
			elf->data[elf->nr_sorted++] = elf->data[i];
	}
	elf->nr_data = elf->nr_sorted;
	return elf->nr_sorted > nr;
}

/**
 * ut_starts_data_end - Where does the data at an address end?
 * @elf:	The file, whose starts were found
 * @addr:	Address of data, as of a table
 *
 * Return: The next address that instructions seem to compute.
 */
__u64 ut_starts_data_end(const struct ut_elf *elf, __u64 addr)
{
	size_t next = data_to(elf, addr);

	return next < elf->nr_sorted ? elf->data[next] : ~0ULL;
}

/*
 * Does an instruction with a distance from its end seem to be at @code? It is a call; or lea with
 * a REX prefix and the operand RIP + distance, of which @code is the second byte.
 */
static bool has_distance(const __u8 *code, enum ut_start kind)
{
	if (kind != UT_START_ADDRESS)
		return true;
	return (code[-1] & 0xf8) == 0x48 && (code[1] & 0xc7) == 0x05;
}

/* Most jumps are within a function. */
#define FAR	4096

static bool is_far_jump(const struct ut_elf *elf, __u64 target, __s32 distance)
{
	return !elf->no_cfi && !(target % UT_ALIGN) && (distance >= FAR || distance <= -FAR);
}

/* Mark the targets of apparent calls, or of apparent computations of addresses, in @len bytes. */
static int mark_code(struct ut_elf *elf, const __u8 *code, size_t len, __u64 addr,
		     enum ut_start kind)
{
	static const __u8 opcodes[UT_NR_STARTS] = {
		[UT_START_CALL] = 0xe8, [UT_START_ADDRESS] = 0x8d, [UT_START_JUMP] = 0xe9,
	};
	/* Bytes before the distance */
	const size_t before = kind == UT_START_ADDRESS ? 2 : 1;
	const __u8 *at = code + before - 1, *end = code + len;
	__s32 distance;
	int err = 0;

	if (!ut_work(elf->work, UT_WORK_READ + UT_WORK_SCAN(len)))
		return -E2BIG;
	while (end - at >= (ptrdiff_t)before + 4) {
		at = memchr(at, opcodes[kind], end - at - 4 - (before - 1));
		if (!at)
			return 0;
		if (!ut_work(elf->work, 1))
			return -E2BIG;
		if (has_distance(at, kind)) {
			__u64 target;

			memcpy(&distance, at + before, sizeof(distance));
			target = addr + (at - code) + before + 4 + distance;
			if (kind == UT_START_CALL && elf->call)
				err = elf->call(elf->call_data, addr + (at - code), target);
			if (err)
				return err;
			if (kind != UT_START_JUMP || is_far_jump(elf, target, distance))
				mark(elf, kind, target);
			if (kind == UT_START_ADDRESS && !ut_elf_text_at(elf, target) &&
			    !ut_starts_add_data(elf, target))
				return -ENOMEM;
		}
		at++;
	}
	return 0;
}

/* Bytes that an instruction may need beyond the end of a block */
#define OVERLAP		6

static int find_in_text(struct ut_elf *elf, const struct ut_segment *segment, __u64 at,
			__u64 end, __u8 *code)
{
	static const enum ut_start kinds[] = {
		UT_START_CALL, UT_START_ADDRESS, UT_START_JUMP,
	};
	unsigned int i;
	int err = 0;

	while (end - at >= 5 && !err) {
		size_t len = end - at < UT_SCAN_LEN ? end - at : UT_SCAN_LEN;

		len = ut_elf_read_code(elf, segment, at, code, len);
		if (len < 5)
			break;
		for (i = 0; i < ARRAY_SIZE(kinds) && !err; i++)
			err = mark_code(elf, code, len, at - segment->offset + segment->addr,
					kinds[i]);
		at += len > OVERLAP ? len - OVERLAP : len;
	}
	return err;
}

static int find_by_code(struct ut_elf *elf, __u8 *code)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < elf->nr_code; i++) {
		const struct ut_segment *segment = &elf->code[i];
		__u64 at = segment->offset, end = at + segment->len, text_end;

		while (at < end && !err) {
			ut_elf_text(elf, &at, end, &text_end);
			if (at < end)
				err = find_in_text(elf, segment, at, text_end, code);
			at = text_end;
		}
	}
	return err;
}

/* Symbols for functions that are defined, by section headers */
static int find_symbols(struct ut_elf *elf, __u8 *buf)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(elf->symbols); i++) {
		__u64 at = elf->symbols[i].pos, left = elf->symbols[i].len;

		while (left >= sizeof(Elf64_Sym)) {
			size_t len = left < UT_SCAN_LEN ? left : UT_SCAN_LEN, n;

			len -= len % sizeof(Elf64_Sym);
			if (!ut_elf_read(elf, at, buf, len))
				break;
			if (!ut_work(elf->work, UT_WORK_READ + len / sizeof(Elf64_Sym)))
				return -E2BIG;
			for (n = 0; n < len; n += sizeof(Elf64_Sym)) {
				Elf64_Sym symbol;

				memcpy(&symbol, buf + n, sizeof(symbol));
				if (symbol.st_shndx != SHN_UNDEF &&
				    ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
					mark(elf, UT_START_SYMBOL, symbol.st_value);
			}
			at += len;
			left -= len;
		}
	}
	return 0;
}

/* Addresses in DT_RELA that the loader only adds to */
static int find_rela(struct ut_elf *elf, __u8 *buf)
{
	__u64 addr, left;

	if (!ut_elf_dynamic(elf, DT_RELA, &addr) ||
	    !ut_elf_dynamic(elf, DT_RELASZ, &left) || left > MAX_RELOCATIONS)
		return 0;
	while (left >= sizeof(Elf64_Rela)) {
		size_t len = left < UT_SCAN_LEN ? left : UT_SCAN_LEN, n;

		len -= len % sizeof(Elf64_Rela);
		if (!ut_elf_read_addr(elf, addr, buf, len))
			return 0;
		if (!ut_work(elf->work, UT_WORK_READ + len / sizeof(Elf64_Rela)))
			return -E2BIG;
		for (n = 0; n < len; n += sizeof(Elf64_Rela)) {
			Elf64_Rela rela;

			memcpy(&rela, buf + n, sizeof(rela));
			if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE ||
			    ELF64_R_TYPE(rela.r_info) == R_X86_64_IRELATIVE)
				mark(elf, UT_START_POINTER, rela.r_addend);
		}
		addr += len;
		left -= len;
	}
	return 0;
}

/* Words of DT_RELR that were read at once, and of the data that they describe */
#define RELR_WORDS	63

struct relr {
	__u64	where;		/* the next word of data */
	__u64	words[RELR_WORDS];
};

/* An entry is an address, or has a bit for each of the next 63 words. */
static int relr_entry(struct ut_elf *elf, struct relr *relr, __u64 entry)
{
	unsigned int i;

	if (!ut_work(elf->work, UT_WORK_READ))
		return -E2BIG;
	if (!(entry & 1)) {
		if (ut_elf_read_addr(elf, entry, relr->words, sizeof(__u64)))
			mark(elf, UT_START_POINTER, relr->words[0]);
		relr->where = entry + sizeof(__u64);
		return 0;
	}
	if (ut_elf_read_addr(elf, relr->where, relr->words, sizeof(relr->words))) {
		for (i = 0; i < RELR_WORDS; i++) {
			if (entry & 2ULL << i)
				mark(elf, UT_START_POINTER, relr->words[i]);
		}
	}
	relr->where += RELR_WORDS * sizeof(__u64);
	return 0;
}

static int find_relr(struct ut_elf *elf, __u8 *buf)
{
	struct relr relr = { 0 };
	__u64 addr, left;
	int err = 0;

	if (!ut_elf_dynamic(elf, DT_RELR, &addr) ||
	    !ut_elf_dynamic(elf, DT_RELRSZ, &left) || left > MAX_RELOCATIONS)
		return 0;
	while (left >= sizeof(__u64) && !err) {
		size_t len = left < UT_SCAN_LEN ? left : UT_SCAN_LEN, n;

		len -= len % sizeof(__u64);
		if (!ut_elf_read_addr(elf, addr, buf, len))
			break;
		for (n = 0; n < len && !err; n += sizeof(__u64)) {
			__u64 entry;

			memcpy(&entry, buf + n, sizeof(entry));
			err = relr_entry(elf, &relr, entry);
		}
		addr += len;
		left -= len;
	}
	return err;
}

/**
 * ut_starts_find - Look for evidence of starts of functions
 * @elf:	The file, which gets it, once
 *
 * Return: 0, or a negative errno.
 */
int ut_starts_find(struct ut_elf *elf)
{
	unsigned int i;
	__u8 *buf;
	int err;

	if (elf->starts[0])
		return 0;
	for (i = 0; i < UT_NR_STARTS; i++) {
		elf->starts[i] = calloc(elf->code_bytes / 64 + 1, sizeof(__u64));
		if (!elf->starts[i])
			return -ENOMEM;
	}
	buf = malloc(UT_SCAN_LEN);
	if (!buf)
		return -ENOMEM;
	err = find_by_code(elf, buf);
	if (!err)
		ut_starts_sort_data(elf);
	if (!err)
		err = find_symbols(elf, buf);
	if (!err)
		err = find_rela(elf, buf);
	if (!err)
		err = find_relr(elf, buf);
	free(buf);
	return err;
}

/* The same once more, with a look at all calls */
int ut_starts_find_calls(struct ut_elf *elf, ut_starts_call_t call, void *data)
{
	unsigned int i;

	for (i = 0; i < UT_NR_STARTS; i++) {
		free(elf->starts[i]);
		elf->starts[i] = NULL;
	}
	elf->call = call;
	elf->call_data = data;
	return ut_starts_find(elf);
}

/**
 * ut_starts_find_next - The next start of a kind
 * @elf:	The file, whose starts were found
 * @segment:	Segment of the code
 * @kind:	Kind of evidence
 * @at:		Offset in the file
 * @end:	Offset up to which to look
 *
 * Return: Offset of the start, at @at or behind it, or @end.
 */
__u64 ut_starts_find_next(const struct ut_elf *elf, const struct ut_segment *segment,
			  enum ut_start kind, __u64 at, __u64 end)
{
	__u64 first = index_of(elf, segment, segment->offset) - segment->offset;

	while (at < end) {
		__u64 index = first + at, bits;

		bits = elf->starts[kind][index / 64] >> (index % 64);
		if (bits) {
			at += __builtin_ctzll(bits);
			return at < end ? at : end;
		}
		at += 64 - index % 64;
	}
	return end;
}

/* The code right before some other code */
enum before {
	RUNS_ON,		/* may run into it */
	CALLS,			/* a call, which may not return */
	STAYS_AWAY,		/* a jump, or padding, as before the heads of loops, too */
	RETURNS,		/* a return, or breakpoints, which only the linker puts there */
};

/* Bytes of a no-operation that ends here; @n: bytes there are */
static size_t nop_before(const __u8 *end, size_t n)
{
	static const struct {
		__u8	len;
		__u8	code[8];
	} forms[] = {
		{ 1, { 0x90 } },
		{ 3, { 0x0f, 0x1f, 0x00 } },
		{ 4, { 0x0f, 0x1f, 0x40 } },
		{ 5, { 0x0f, 0x1f, 0x44 } },
		{ 7, { 0x0f, 0x1f, 0x80 } },
		{ 8, { 0x0f, 0x1f, 0x84 } },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		const __u8 *at;

		if (forms[i].len > n)
			continue;
		at = end - forms[i].len;
		if (memcmp(at, forms[i].code, forms[i].len))
			continue;
		/* Prefixes that make it longer; the last cs may be part of the nop itself. */
		while (at > end - n && (at[-1] == 0x66 || at[-1] == 0x2e))
			at--;
		return end - at;
	}
	return 0;
}

static enum before what_is_before(const __u8 *at, size_t n)
{
	bool padded = false;
	size_t nop;

	if (n && at[-1] == 0xcc)
		return RETURNS;
	while ((nop = nop_before(at, n))) {
		padded = true;
		at -= nop;
		n -= nop;
	}
	/* Arguments on the stack are whole words, and few. */
	if ((n >= 1 && at[-1] == 0xc3) ||
	    (n >= 3 && at[-3] == 0xc2 && !(at[-2] % 8) && !at[-1]))
		return RETURNS;
	if (padded || (n >= 5 && at[-5] == 0xe9) || (n >= 2 && at[-2] == 0xeb) ||
	    (n >= 2 && at[-2] == 0x0f && at[-1] == 0x0b) ||
	    (n >= 2 && at[-2] == 0xff && (at[-1] & 0xf8) == 0xe0) ||
	    (n >= 1 && at[-1] == 0xf4))
		return STAYS_AWAY;
	return n >= 5 && at[-5] == 0xe8 ? CALLS : RUNS_ON;
}

/* Is the end of a function, or padding, before @at? UT_MAX_CALL bytes can be read there. */
bool ut_starts_is_no_call(const __u8 *at)
{
	int n;

	for (n = 2; n <= UT_MAX_CALL; n++) {
		if (at[-n] == 0xff && (at[1 - n] & 0x30) == 0x10)
			return false;
	}
	return at[-5] != 0xe8 && what_is_before(at, UT_MAX_CALL) >= STAYS_AWAY;
}

/* Is there padding before the code at @at, before which @n bytes can be read? */
bool ut_starts_is_padded(const __u8 *at, size_t n)
{
	return nop_before(at, n < BEFORE ? n : BEFORE);
}

/* Does some code consist of no-operations? */
bool ut_starts_is_padding(const __u8 *code, size_t len)
{
	while (len) {
		size_t nop = nop_before(code + len, len);

		if (!nop)
			return false;
		len -= nop;
	}
	return true;
}

/*
 * Is there only padding up to where a function starts? Then the call before it does not return.
 */
bool ut_starts_is_end(const __u8 *code, size_t len, __u64 addr)
{
	__u64 pad = -addr % UT_ALIGN;

	return len >= pad + sizeof(endbr64) && !memcmp(code + pad, endbr64, sizeof(endbr64)) &&
	       ut_starts_is_padding(code, pad);
}

/* Does code begin with a no-operation? No function does; padding before one does. */
static bool begins_with_nop(const __u8 *code, size_t len)
{
	while (len && (*code == 0x66 || *code == 0x2e)) {
		code++;
		len--;
	}
	return (len && *code == 0x90) || (len > 1 && code[0] == 0x0f && code[1] == 0x1f);
}

/*
 * May a function start at @at, where @len bytes can be read, and @before before it? Then nothing
 * runs into it. Bytes that look like a jump, or like padding of one byte, often are neither;
 * without @more evidence, do not rely on them.
 */
bool ut_starts_is_apart(const __u8 *at, size_t len, size_t before, bool more)
{
	size_t n = before < BEFORE ? before : BEFORE;
	enum before what = what_is_before(at, n);

	if (begins_with_nop(at, len))
		return false;
	return what == RETURNS || (what == STAYS_AWAY && (more || nop_before(at, n) > 1));
}

/*
 * Does a function that is called by pointers seem to start there? Tables of jumps do not lead to
 * endbr64, nor does code run into an aligned one.
 */
bool ut_starts_is_entry(const __u8 *code, size_t len, __u64 addr, size_t before)
{
	return !(addr % UT_ALIGN) && len >= sizeof(endbr64) &&
	       !memcmp(code, endbr64, sizeof(endbr64)) &&
	       ut_starts_is_apart(code, len, before, true);
}

/* Code from an offset on, not beyond @end, and BEFORE bytes before it, if they exist */
static int read_scan(struct ut_elf *elf, const struct ut_segment *segment, __u64 at,
		     __u64 end)
{
	struct ut_scan *scan = elf->scan;
	size_t len = end - at < PROLOGUE ? end - at : PROLOGUE;
	__u64 from = at - segment->offset > BEFORE ? at - BEFORE : segment->offset;

	if (!scan) {
		scan = calloc(1, sizeof(*scan));
		if (!scan)
			return -ENOMEM;
		elf->scan = scan;
	}
	if (scan->segment == segment && scan->start <= from &&
	    at + len <= scan->start + scan->len)
		return 0;
	if (end - from > sizeof(scan->code))
		end = from + sizeof(scan->code);
	if (!ut_work(elf->work, UT_WORK_READ + UT_WORK_SCAN(end - from)))
		return -E2BIG;
	scan->segment = segment;
	scan->start = from;
	scan->len = ut_elf_read_code(elf, segment, from, scan->code, end - from);
	return at + len <= from + scan->len ? 0 : -ENODATA;
}

/*
 * Does a function with a prologue start at an offset; or one without, which ends the code before
 * it? The heads of loops do not, nor do places within a function whose addresses are taken.
 */
static bool is_start(const struct ut_elf *elf, const struct ut_segment *segment,
		     __u64 offset, bool has_prologue)
{
	const struct ut_scan *scan = elf->scan;
	__u64 index = index_of(elf, segment, offset);
	enum before before;

	before = what_is_before(scan->code + (offset - scan->start), offset - scan->start);
	if (has_start(elf, UT_START_SYMBOL, index) || offset == segment->offset)
		return true;
	if (has_prologue)
		return before != RUNS_ON && (!(offset % UT_ALIGN) ||
			has_start(elf, UT_START_CALL, index) ||
			has_start(elf, UT_START_POINTER, index));
	if (before >= STAYS_AWAY && has_start(elf, UT_START_CALL, index))
		return true;
	if (before == RETURNS && has_start(elf, UT_START_POINTER, index))
		return true;
	/* Compilers do not put breakpoints into functions. */
	return !(offset % UT_ALIGN) && scan->code[offset - scan->start - 1] == 0xcc;
}

/* The next prologue of a function; @end: none. All starts are found before the first. */
static int next_framed(struct ut_elf *elf, const struct ut_segment *segment, __u64 *at,
		       __u64 end)
{
	int err;

	while (*at < end) {
		const struct ut_scan *scan;
		const __u8 *code, *found;
		size_t left;

		err = read_scan(elf, segment, *at, end);
		if (err)
			return err;
		scan = elf->scan;
		code = scan->code + (*at - scan->start);
		left = scan->start + scan->len - *at;
		if (left > end - *at)
			left = end - *at;
		/* Code that is cut off at the end of a block is read again. */
		for (found = code; (found = memchr(found, 0x55, code + left - found)); found++) {
			size_t n = found - code;
			__u64 start = *at + n;

			if (left - n < 4 || !ut_prologue(found, left - n))
				continue;
			if (n >= 4 && ut_prologue(found - 4, left - n + 4) > 4)
				start -= 4;
			err = ut_starts_find(elf);
			if (err)
				return err;
			if (!ut_work(elf->work, 4))
				return -E2BIG;
			if (is_start(elf, segment, start, true)) {
				*at = start;
				return 0;
			}
		}
		*at += left < end - *at && left > PROLOGUE ? left - PROLOGUE + 1 : left;
	}
	return 0;
}

/* How far it is to the next start, or to where one may be for its alignment */
static __u64 distance_to_start(const struct ut_elf *elf, __u64 index, __u64 offset)
{
	__u64 step = -offset % UT_ALIGN, bits = 0;
	unsigned int kind;

	for (kind = 0; kind < UT_NR_STARTS; kind++)
		bits |= elf->starts[kind][index / 64] >> (index % 64);
	if (bits && step > (__u64)__builtin_ctzll(bits))
		step = __builtin_ctzll(bits);
	/* Bits of the next word are looked at in a later step. */
	if (step > 64 - index % 64)
		step = 64 - index % 64;
	return step;
}

/* The next start of a function without prologue */
static int next_unframed(struct ut_elf *elf, const struct ut_segment *segment, __u64 *at,
			 __u64 end)
{
	__u64 first = index_of(elf, segment, segment->offset) - segment->offset;
	int err;

	while (*at < end) {
		__u64 step = distance_to_start(elf, first + *at, *at);
		const struct ut_scan *scan;

		if (step) {
			*at += step;
			continue;
		}
		err = read_scan(elf, segment, *at, end);
		if (err)
			return err;
		scan = elf->scan;
		if (!ut_prologue(scan->code + (*at - scan->start),
				 scan->start + scan->len - *at) &&
		    is_start(elf, segment, *at, false))
			return 0;
		++*at;
	}
	*at = end;
	return 0;
}

/**
 * ut_starts_next - Where does code begin, or cease, to keep frame pointers?
 * @elf:	The file
 * @segment:	Segment of the code
 * @at:		Offset in the file, gets that of the next change
 * @end:	End of code without FDE, which @at gets if there is no change
 * @framed:	Does the code at @at keep a frame pointer? Gets whether it does after the change
 *
 * Code keeps a frame pointer from the start of a function that begins by making a frame,
 * up to the next start.
 *
 * Return: 0, or a negative errno.
 */
int ut_starts_next(struct ut_elf *elf, const struct ut_segment *segment, __u64 *at,
		   __u64 end, bool *framed)
{
	bool was_framed = *framed;
	__u64 text_end;
	int err = 0;

	if (elf->code_bytes > MAX_CODE) {
		*at = end;
		return 0;
	}
	if (was_framed) {
		ut_elf_text(elf, at, end, &text_end);
		err = next_unframed(elf, segment, at, text_end);
		*framed = false;
	}
	while (!was_framed && !err && *at < end && !*framed) {
		ut_elf_text(elf, at, end, &text_end);
		err = next_framed(elf, segment, at, text_end);
		*framed = !err && *at < text_end;
	}
	/* Code that cannot be read is not known. */
	if (err == -ENODATA) {
		*at = end;
		*framed = false;
		err = 0;
	}
	return err;
}
