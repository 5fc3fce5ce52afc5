// SPDX-License-Identifier: GPL-2.0
/*
 * Code that keeps a frame pointer though it has no FDE: from where a function begins by making a
 * frame, up to where the next function starts. An apparent start (starts.c) counts only where the
 * code before it does not run into it, and it only decides whether the kernel may follow the frame
 * pointer.
 */

#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* More code than any file has that has functions without FDEs */
#define MAX_CODE	(512 * 1024 * 1024ULL)
/* Bytes of code to read from a start on */
#define PROLOGUE	8

/* Code that was read at once */
struct ut_scan {
	const struct ut_segment	*segment;
	__u64			start;		/* offset in the file */
	size_t			len;
	__u8			code[UT_LEN_BEFORE + UT_SCAN_LEN];
};

/* Code from an offset on, not beyond @end, and UT_LEN_BEFORE bytes before it, if they exist */
static int read_scan(struct ut_build *build, const struct ut_segment *segment, __u64 at,
		     __u64 end)
{
	struct ut_scan *scan = build->scan;
	size_t len = end - at < PROLOGUE ? end - at : PROLOGUE;
	__u64 from = at - segment->offset > UT_LEN_BEFORE ? at - UT_LEN_BEFORE : segment->offset;

	if (!scan) {
		scan = calloc(1, sizeof(*scan));
		if (!scan)
			return -ENOMEM;
		build->scan = scan;
	}
	if (scan->segment == segment && scan->start <= from &&
	    at + len <= scan->start + scan->len)
		return 0;
	if (end - from > sizeof(scan->code))
		end = from + sizeof(scan->code);
	if (!ut_work(&build->work, UT_WORK_READ + UT_WORK_SCAN(end - from)))
		return -E2BIG;
	scan->segment = segment;
	scan->start = from;
	scan->len = ut_elf_read_code(&build->elf, segment, from, scan->code, end - from);
	return at + len <= from + scan->len ? 0 : -ENODATA;
}

/*
 * Does a function with a prologue start at an offset; or one without, which ends the code before
 * it? The heads of loops do not, nor do places within a function whose addresses are taken.
 */
static bool is_start(const struct ut_build *build, const struct ut_segment *segment,
		     __u64 offset, bool has_prologue)
{
	const struct ut_scan *scan = build->scan;
	__u64 index = ut_code_index(&build->elf, segment, offset);
	enum ut_before before;

	before = ut_bytes_before(scan->code + (offset - scan->start), offset - scan->start);
	if (bit(build->starts.bits[UT_START_SYMBOL], index) || offset == segment->offset)
		return true;
	if (has_prologue)
		return before != UT_RUNS_ON && (!(offset % UT_ALIGN) ||
			bit(build->starts.bits[UT_START_CALL], index) ||
			bit(build->starts.bits[UT_START_POINTER], index));
	if (before >= UT_STAYS_AWAY && bit(build->starts.bits[UT_START_CALL], index))
		return true;
	if (before == UT_RETURNS && bit(build->starts.bits[UT_START_POINTER], index))
		return true;
	/* Compilers do not put breakpoints into functions. */
	return !(offset % UT_ALIGN) && scan->code[offset - scan->start - 1] == 0xcc;
}

/* The next prologue of a function; @end: none. All starts are found before the first. */
static int next_framed(struct ut_build *build, const struct ut_segment *segment, __u64 *at,
		       __u64 end)
{
	int err;

	while (*at < end) {
		const struct ut_scan *scan;
		const __u8 *code, *found;
		size_t left;

		err = read_scan(build, segment, *at, end);
		if (err)
			return err;
		scan = build->scan;
		code = scan->code + (*at - scan->start);
		left = scan->start + scan->len - *at;
		if (left > end - *at)
			left = end - *at;
		/* Code that is cut off at the end of a block is read again. */
		for (found = code; (found = memchr(found, 0x55, code + left - found)); found++) {
			size_t n = found - code;
			__u64 start = *at + n;

			if (left - n < 4 || !ut_bytes_prologue(found, left - n))
				continue;
			if (n >= 4 && ut_bytes_prologue(found - 4, left - n + 4) > 4)
				start -= 4;
			err = ut_starts_find(build);
			if (err)
				return err;
			if (!ut_work(&build->work, 4))
				return -E2BIG;
			if (is_start(build, segment, start, true)) {
				*at = start;
				return 0;
			}
		}
		*at += left < end - *at && left > PROLOGUE ? left - PROLOGUE + 1 : left;
	}
	return 0;
}

/* How far it is to the next start, or to where one may be for its alignment */
static __u64 distance_to_start(const struct ut_build *build, __u64 index, __u64 offset)
{
	__u64 step = -offset % UT_ALIGN, bits = 0;
	unsigned int kind;

	for (kind = 0; kind < UT_NR_STARTS; kind++)
		bits |= build->starts.bits[kind][index / 64] >> (index % 64);
	if (bits && step > (__u64)__builtin_ctzll(bits))
		step = __builtin_ctzll(bits);
	/* Bits of the next word are looked at in a later step. */
	if (step > 64 - index % 64)
		step = 64 - index % 64;
	return step;
}

/* The next start of a function without prologue */
static int next_unframed(struct ut_build *build, const struct ut_segment *segment, __u64 *at,
			 __u64 end)
{
	__u64 first = ut_code_index(&build->elf, segment, segment->offset) - segment->offset;
	int err;

	while (*at < end) {
		__u64 step = distance_to_start(build, first + *at, *at);
		const struct ut_scan *scan;

		if (step) {
			*at += step;
			continue;
		}
		err = read_scan(build, segment, *at, end);
		if (err)
			return err;
		scan = build->scan;
		if (!ut_bytes_prologue(scan->code + (*at - scan->start),
				       scan->start + scan->len - *at) &&
		    is_start(build, segment, *at, false))
			return 0;
		++*at;
	}
	*at = end;
	return 0;
}

/*
 * Where does code begin, or cease, to keep frame pointers? It does so from the start of a function
 * that begins by making a frame, up to the next start. @at is an offset in code without FDE, and
 * gets that of the change, or @end. @framed says whether the code there keeps a frame pointer, and
 * gets whether it does after the change.
 */
int ut_framed_next(struct ut_build *build, const struct ut_segment *segment, __u64 *at,
		   __u64 end, bool *framed)
{
	bool was_framed = *framed;
	__u64 text_end;
	int err = 0;

	if (build->elf.code_bytes > MAX_CODE) {
		*at = end;
		return 0;
	}
	if (was_framed) {
		ut_elf_text(&build->elf, at, end, &text_end);
		err = next_unframed(build, segment, at, text_end);
		*framed = false;
	}
	while (!was_framed && !err && *at < end && !*framed) {
		ut_elf_text(&build->elf, at, end, &text_end);
		err = next_framed(build, segment, at, text_end);
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
