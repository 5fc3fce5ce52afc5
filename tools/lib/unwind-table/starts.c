// SPDX-License-Identifier: GPL-2.0
/*
 * Evidence that functions start somewhere that have no FDE: the target of a call, an address that
 * the loader relocates, a symbol. Instructions are not decoded: an apparent call may be a part of
 * something else.
 */

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* Note a start, if there is code at all. */
static void mark(struct ut_build *build, enum ut_start kind, __u64 addr)
{
	const struct ut_segment *segment = ut_elf_text_at(&build->elf, addr);
	__u64 index;

	if (!segment)
		return;
	index = ut_code_index(&build->elf, segment, ut_offset_of(segment, addr));
	if (kind == UT_START_CALL && bit(build->starts.bits[kind], index))
		kind = UT_START_CALLS;
	set_bit(build->starts.bits[kind], index);
}

/* Is there evidence of a kind that a function starts at an address of code? */
bool ut_starts_has(const struct ut_build *build, enum ut_start kind, __u64 addr)
{
	const struct ut_segment *segment = ut_elf_code_at(&build->elf, addr);

	return bit(build->starts.bits[kind],
		   ut_code_index(&build->elf, segment, ut_offset_of(segment, addr)));
}

#define MAX_DATA	(1 << 20)

/* The number of sorted addresses up to @addr */
static size_t data_to(const struct ut_starts *starts, __u64 addr)
{
	size_t low = 0, high = starts->nr_sorted;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (starts->data[middle] > addr)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Note that data starts at an address, for when they are sorted. False: no memory */
bool ut_starts_add_data(struct ut_starts *starts, __u64 addr)
{
	size_t before = data_to(starts, addr);
	__u64 *data;

	if (starts->nr_data == MAX_DATA || (before && starts->data[before - 1] == addr))
		return true;
	data = ut_grow(starts->data, starts->nr_data, &starts->max_data, sizeof(*data));
	if (!data)
		return false;
	starts->data = data;
	data[starts->nr_data++] = addr;
	return true;
}

/* Use the addresses that were noted. Returns whether some are new. */
bool ut_starts_sort_data(struct ut_starts *starts)
{
	size_t nr = starts->nr_sorted, i;
	__u64 *data = starts->data;

	if (starts->nr_data == nr)
		return false;
	qsort(data, starts->nr_data, sizeof(*data), ut_compare_numbers);
	starts->nr_sorted = 1;
	for (i = 1; i < starts->nr_data; i++) {
		if (data[i] != data[i - 1])
			data[starts->nr_sorted++] = data[i];
	}
	starts->nr_data = starts->nr_sorted;
	return starts->nr_sorted > nr;
}

/* Where does the data at an address end? At the next one that instructions seem to compute. */
__u64 ut_starts_data_end(const struct ut_starts *starts, __u64 addr)
{
	size_t next = data_to(starts, addr);

	return next < starts->nr_sorted ? starts->data[next] : ~0ULL;
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

static bool is_far_jump(const struct ut_build *build, __u64 target, __s32 distance)
{
	return !build->no_cfi && !(target % UT_ALIGN) && (distance >= FAR || distance <= -FAR);
}

/* Mark the targets of apparent calls, or of apparent computations of addresses, in @len bytes. */
static int mark_code(struct ut_build *build, const __u8 *code, size_t len, __u64 addr,
		     enum ut_start kind)
{
	static const __u8 opcodes[UT_NR_STARTS] = {
		[UT_START_CALL] = 0xe8, [UT_START_ADDRESS] = 0x8d, [UT_START_JUMP] = 0xe9,
	};
	/* Bytes before the distance */
	const size_t before = kind == UT_START_ADDRESS ? 2 : 1;
	const __u8 *at = code + before - 1, *end = code + len;
	const struct ut_starts *starts = &build->starts;
	__s32 distance;
	int err = 0;

	if (!ut_work(&build->work, UT_WORK_READ + UT_WORK_SCAN(len)))
		return -E2BIG;
	while (end - at >= (ptrdiff_t)before + 4) {
		at = memchr(at, opcodes[kind], end - at - 4 - (before - 1));
		if (!at)
			return 0;
		if (!ut_work(&build->work, 1))
			return -E2BIG;
		if (has_distance(at, kind)) {
			__u64 target;

			memcpy(&distance, at + before, sizeof(distance));
			target = addr + (at - code) + before + 4 + distance;
			if (kind == UT_START_CALL && starts->call)
				err = starts->call(starts->call_data, addr + (at - code), target);
			if (err)
				return err;
			if (kind != UT_START_JUMP || is_far_jump(build, target, distance))
				mark(build, kind, target);
			if (kind == UT_START_ADDRESS && !ut_elf_text_at(&build->elf, target) &&
			    !ut_starts_add_data(&build->starts, target))
				return -ENOMEM;
		}
		at++;
	}
	return 0;
}

/* Bytes that an instruction may need beyond the end of a block */
#define OVERLAP		6

static int find_in_text(struct ut_build *build, const struct ut_segment *segment, __u64 at,
			__u64 end, __u8 *code)
{
	static const enum ut_start kinds[] = {
		UT_START_CALL, UT_START_ADDRESS, UT_START_JUMP,
	};
	unsigned int i;
	int err = 0;

	while (end - at >= 5 && !err) {
		size_t len = end - at < UT_SCAN_LEN ? end - at : UT_SCAN_LEN;

		len = ut_elf_read_code(&build->elf, segment, at, code, len);
		if (len < 5)
			break;
		for (i = 0; i < ARRAY_SIZE(kinds) && !err; i++)
			err = mark_code(build, code, len, ut_addr_of(segment, at), kinds[i]);
		at += len > OVERLAP ? len - OVERLAP : len;
	}
	return err;
}

static int find_by_code(struct ut_build *build)
{
	__u8 *code = malloc(UT_SCAN_LEN);
	unsigned int i;
	int err = 0;

	if (!code)
		return -ENOMEM;
	for (i = 0; i < build->elf.nr_code; i++) {
		const struct ut_segment *segment = &build->elf.code[i];
		__u64 at = segment->offset, end = at + segment->len, text_end;

		while (at < end && !err) {
			ut_elf_text(&build->elf, &at, end, &text_end);
			if (at < end)
				err = find_in_text(build, segment, at, text_end, code);
			at = text_end;
		}
	}
	free(code);
	return err;
}

/* Symbols for functions that are defined */
static int note_symbol(void *data, const void *record)
{
	const Elf64_Sym *symbol = record;

	if (symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC)
		mark(data, UT_START_SYMBOL, symbol->st_value);
	return 0;
}

/* Addresses that the loader only adds to */
static int note_rela(void *data, const void *record)
{
	const Elf64_Rela *rela = record;

	if (ELF64_R_TYPE(rela->r_info) == R_X86_64_RELATIVE ||
	    ELF64_R_TYPE(rela->r_info) == R_X86_64_IRELATIVE)
		mark(data, UT_START_POINTER, rela->r_addend);
	return 0;
}

/* Words of data that an entry of DT_RELR describes */
#define RELR_WORDS	63

struct relr {
	struct ut_build	*build;
	__u64		where;		/* the next word of data */
};

/* An entry is an address, or has a bit for each of the next 63 words. */
static int note_relr(void *data, const void *record)
{
	__u64 words[RELR_WORDS], entry = *(const __u64 *)record;
	struct relr *relr = data;
	struct ut_build *build = relr->build;
	unsigned int i;

	if (!ut_work(&build->work, UT_WORK_READ))
		return -E2BIG;
	if (!(entry & 1)) {
		if (ut_elf_read_addr(&build->elf, entry, words, sizeof(__u64)))
			mark(build, UT_START_POINTER, words[0]);
		relr->where = entry + sizeof(__u64);
		return 0;
	}
	if (ut_elf_read_addr(&build->elf, relr->where, words, sizeof(words))) {
		for (i = 0; i < RELR_WORDS; i++) {
			if (entry & 2ULL << i)
				mark(build, UT_START_POINTER, words[i]);
		}
	}
	relr->where += RELR_WORDS * sizeof(__u64);
	return 0;
}

static int find_by_headers(struct ut_build *build)
{
	struct relr relr = { .build = build };
	struct ut_records symbols = {
		.elf = &build->elf, .work = &build->work, .size = sizeof(Elf64_Sym),
		.max = UT_SCAN_LEN / sizeof(Elf64_Sym), .each = note_symbol, .data = build,
	}, relas = {
		.elf = &build->elf, .work = &build->work, .size = sizeof(Elf64_Rela),
		.max = UT_SCAN_LEN / sizeof(Elf64_Rela), .each = note_rela, .data = build,
	}, relrs = {
		.elf = &build->elf, .size = sizeof(__u64),
		.max = UT_SCAN_LEN / sizeof(__u64), .each = note_relr, .data = &relr,
	};
	unsigned int i;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(build->elf.symbols) && !err; i++)
		err = ut_elf_each(&symbols, build->elf.symbols[i].pos,
				  build->elf.symbols[i].len, ut_elf_read);
	if (!err)
		err = ut_elf_each_dynamic(&relas, DT_RELA, DT_RELASZ);
	if (!err)
		err = ut_elf_each_dynamic(&relrs, DT_RELR, DT_RELRSZ);
	return err;
}

/* Look for evidence of starts of functions, once. */
int ut_starts_find(struct ut_build *build)
{
	unsigned int i;
	int err;

	if (build->starts.bits[0])
		return 0;
	for (i = 0; i < UT_NR_STARTS; i++) {
		build->starts.bits[i] = calloc(build->elf.code_bytes / 64 + 1, sizeof(__u64));
		if (!build->starts.bits[i])
			return -ENOMEM;
	}
	err = find_by_code(build);
	if (err)
		return err;
	ut_starts_sort_data(&build->starts);
	return find_by_headers(build);
}

static void free_bits(struct ut_starts *starts)
{
	unsigned int i;

	for (i = 0; i < UT_NR_STARTS; i++) {
		free(starts->bits[i]);
		starts->bits[i] = NULL;
	}
}

void ut_starts_free(struct ut_starts *starts)
{
	free_bits(starts);
	free(starts->data);
}

/* The same once more, with a look at all calls */
int ut_starts_find_calls(struct ut_build *build, ut_starts_call_t call, void *data)
{
	free_bits(&build->starts);
	build->starts.call = call;
	build->starts.call_data = data;
	return ut_starts_find(build);
}

/* The next start of a kind, as an offset in the file: at @at, or behind it, or @end */
__u64 ut_starts_find_next(const struct ut_build *build, const struct ut_segment *segment,
			  enum ut_start kind, __u64 at, __u64 end)
{
	__u64 first = ut_code_index(&build->elf, segment, segment->offset) - segment->offset;

	while (at < end) {
		__u64 index = first + at, bits;

		bits = build->starts.bits[kind][index / 64] >> (index % 64);
		if (bits) {
			at += __builtin_ctzll(bits);
			return at < end ? at : end;
		}
		at += 64 - index % 64;
	}
	return end;
}
