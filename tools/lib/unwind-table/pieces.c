// SPDX-License-Identifier: GPL-2.0
/*
 * The code that is followed: pieces of sections, and where in them a function seems to begin or
 * to end, as far as the bytes there and other evidence tell.
 */

#include "paths.h"

/* How far jumps by a table lead, unless another function is there */
#define MAX_JUMP	(1 << 20)

static int add_piece(struct ut_follow *f, const struct ut_segment *segment, __u64 start,
		     __u64 end, __u64 text_end)
{
	__u64 before = start - segment->offset < AROUND ? start - segment->offset : AROUND;
	__u64 ahead = text_end - end < AROUND ? text_end - end : AROUND;
	__u64 all = before + (end - start) + ahead;
	struct piece piece = {
		.addr = ut_addr_of(segment, start),
		.len = end - start, .before = before, .ahead = ahead, .first = f->bytes,
	};
	__u8 *code;
	int err;

	if (!ut_work(f->work, UT_WORK_READ + UT_WORK_SCAN(piece.len)))
		return -E2BIG;
	err = array_grow(&f->pieces);
	if (err)
		return err;
	code = malloc(all);
	if (!code)
		return -ENOMEM;
	if (ut_elf_read_code(&f->build->elf, segment, start - before, code, all) != all) {
		free(code);
		return 0;
	}
	piece.code = code + before;
	((struct piece *)f->pieces.items)[f->pieces.nr++] = piece;
	f->bytes += (piece.len + 63) & ~63ULL;
	return 0;
}

/* Add the code in [start, end) of the offsets of a segment. */
int ut_pieces_add(struct ut_follow *f, const struct ut_segment *segment, __u64 start,
		  __u64 end)
{
	__u64 segment_end = segment->offset + segment->len, text_end;
	int err = 0;

	if (start < segment->offset)
		start = segment->offset;
	if (end > segment_end)
		end = segment_end;
	while (start < end && !err) {
		ut_elf_text(&f->build->elf, &start, segment_end, &text_end);
		if (start < end)
			err = add_piece(f, segment, start, text_end < end ? text_end : end,
					text_end);
		start = text_end;
	}
	return err;
}

/* No path runs from one section into another. */
void ut_pieces_begin(struct ut_follow *f)
{
	const struct piece *pieces = f->pieces.items;
	__u32 i;

	for (i = 0; i < f->pieces.nr; i++)
		set_bit(f->starts, pieces[i].first);
}

/* Is the address taken: by data of the file, or by an instruction? */
static bool is_taken(const struct ut_follow *f, __u64 addr)
{
	return ut_starts_has(f->build, UT_START_POINTER, addr) ||
	       ut_starts_has(f->build, UT_START_ADDRESS, addr);
}

/*
 * Does another function start there, as far as can be told? Functions are aligned, other
 * than most code whose address is computed; and no function computes its own address.
 */
static bool is_boundary_in(const struct ut_follow *f, const struct piece *piece, __u64 addr)
{
	__u64 at = addr - piece->addr;
	__u32 number;

	if (bit(f->starts, piece->first + at)) {
		number = keyed_get(&f->functions, addr);
		if (number == NONE || function_nr(f, number)->certain)
			return true;
	}
	if (addr % UT_ALIGN)
		return false;
	if (ut_bytes_is_entry(piece->code + at, piece->len + piece->ahead - at, addr,
			      piece->before + at))
		return true;
	if (keyed_get(&f->labels, addr) != NONE)
		return false;
	return is_taken(f, addr);
}

bool ut_piece_is_boundary(const struct ut_follow *f, __u64 addr)
{
	const struct piece *piece = piece_at(f, addr);

	return piece && is_boundary_in(f, piece, addr);
}

/*
 * Must a path that runs to an address end there? Yes, behind padding, where a function seems to
 * start: before that is a call that does not return, or no code at all.
 */
bool ut_piece_is_beyond_padding(const struct ut_follow *f, __u64 addr)
{
	const struct piece *piece = piece_at(f, addr);

	if (!piece || addr % UT_ALIGN ||
	    !ut_bytes_is_padded(piece->code + (addr - piece->addr),
				piece->before + (addr - piece->addr)))
		return false;
	return keyed_get(&f->functions, addr) != NONE || is_boundary_in(f, piece, addr) ||
	       is_taken(f, addr) || ut_starts_has(f->build, UT_START_CALL, addr);
}

/* Where code that belongs to a jump can be: between functions that are certain */
bool ut_piece_find_bounds(struct ut_follow *f, __u64 pc, __u64 *start, __u64 *end)
{
	const struct piece *piece = piece_at(f, pc);
	__u64 i, n, before = pc - piece->addr;

	for (i = 0; i < MAX_JUMP && i < before; i++)
		if (is_boundary_in(f, piece, pc - i))
			break;
	for (n = 1; n < MAX_JUMP && n < piece->len - before; n++)
		if (is_boundary_in(f, piece, pc + n))
			break;
	*start = pc - i;
	*end = pc + n;
	return ut_work(f->work, i + n);
}

void ut_pieces_free(struct ut_follow *f)
{
	const struct piece *pieces = f->pieces.items;
	__u32 i;

	for (i = 0; i < f->pieces.nr; i++)
		free(pieces[i].code - pieces[i].before);
	free(f->pieces.items);
}
