// SPDX-License-Identifier: GPL-2.0
/*
 * Rules for code without CFI: follow the stack pointer through the instructions.
 *
 * From the starts of functions, all paths are followed. Where paths meet, only their common
 * state is known: values relative to the CFA, in registers and in words of the stack, and which
 * registers still have the caller's values. Nothing is guessed: code without a known state has
 * no rule.
 *
 * These assumptions are made, which compilers make as well: functions are called as the ABI says
 * and return (those that are followed are checked); a called function leaves its caller's frame
 * alone, and so does a store by another pointer than SP or a copy of it. A function that returns
 * with a wrong SP is not believed at all.
 */

#include "paths.h"

/* Say that a function starts at an address of the file, before any is followed. */
int ut_follow_declare(struct ut_follow *f, __u64 addr)
{
	__u32 number;

	return ut_path_declare(f, addr, true, &number);
}

/* Follow the code from where a function starts, an address of the file. */
int ut_follow_from(struct ut_follow *f, __u64 addr, enum ut_follow_start how)
{
	const struct piece *piece = piece_at(f, addr);
	__u32 number;
	__u64 at;
	int err;

	if (!piece)
		return 0;
	at = addr - piece->addr;
	if (how != UT_FOLLOW_CERTAIN) {
		if (bit(f->visited, piece->first + at))
			return 0;
		if (how >= UT_FOLLOW_POSSIBLE &&
		    !ut_bytes_is_apart(piece->code + at, piece->len - at, piece->before + at,
					how == UT_FOLLOW_POSSIBLE ||
					ut_starts_has(f->build, UT_START_CALLS, addr)))
			return 0;
		f->run++;
	}
	err = ut_path_enter(f, addr, how == UT_FOLLOW_CERTAIN, &number);
	return err ? err : ut_path_run(f);
}

static int visit_block(struct ut_follow *f, const struct block *block, __u64 end,
		       ut_follow_look_t visit, void *data)
{
	struct state s = *state_nr(f, block->state);
	__u64 pc = block->addr, index;
	int err = 0;

	while (pc < end && !err) {
		struct insn insn;
		const __u8 *code;
		size_t len;

		code = code_at(f, pc, &len, &index);
		if (!code || (pc != block->addr && bit(f->leaders, index)) ||
		    !bit(f->visited, index) || !decode(f, pc, code, len, index, &insn))
			return 0;
		err = visit(data, pc, insn.len, &s);
		if (insn.op >= INSN_JUMP && insn.op != INSN_BRANCH)
			break;
		ut_path_skip(f, &insn, pc, &s);
		pc += insn.len;
	}
	return err;
}

static int visit_piece(struct ut_follow *f, const struct piece *piece, __u64 start, __u64 end,
		       ut_follow_look_t visit, void *data)
{
	__u64 at = start > piece->addr ? start - piece->addr : 0;
	__u64 len = end - piece->addr < piece->len ? end - piece->addr : piece->len;
	int err = 0;

	for (; at < len && !err; at++) {
		__u64 index = piece->first + at;
		const struct block *block;

		/* Whole words without a leader are passed over. */
		if (!(index % 64) && !f->leaders[index / 64]) {
			at += 63;
			continue;
		}
		if (!bit(f->leaders, index))
			continue;
		block = block_nr(f, keyed_get(&f->blocks, piece->addr + at));
		if (ut_path_is_believed(f, block->function))
			err = visit_block(f, block, end, visit, data);
	}
	return err;
}

int ut_follow_look(struct ut_follow *f, __u64 start, __u64 end, ut_follow_look_t visit,
		   void *data)
{
	const struct piece *pieces = f->pieces.items;
	__u32 i;
	int err = 0;

	for (i = 0; i < f->pieces.nr && !err; i++) {
		if (pieces[i].addr < end && start < pieces[i].addr + pieces[i].len)
			err = visit_piece(f, &pieces[i], start, end, visit, data);
	}
	return err;
}

struct rows {
	struct ut_follow		*follow;
	ut_follow_add_t			add;
	void				*data;
	__u64				start;
	__u64				end;
	__u64				seen;		/* end of the last instruction */
	struct unwind_table_rule	rule;
};

static int end_row(struct rows *rows)
{
	if (rows->start == rows->end)
		return 0;
	return rows->add(rows->data, rows->start, rows->end, &rows->rule);
}

static int visit_row(void *data, __u64 pc, unsigned int len, const struct state *s)
{
	struct rows *rows = data;
	const struct ut_follow *f = rows->follow;
	bool overlaps = pc < rows->seen;
	struct unwind_table_rule rule;
	__u64 index;
	int err = 0;

	/* If two decoded instructions overlap, one is bogus; trust neither. */
	if (!has_code(f, pc, &index))
		return 0;
	overlaps |= has_bits(f->visited, index + 1, len - 1);
	if (rows->seen < pc + len)
		rows->seen = pc + len;
	if (overlaps)
		return 0;
	if (!ut_state_rule(s, &rule))
		rule = (struct unwind_table_rule){ .kind = UNWIND_TABLE_UNKNOWN };
	if (pc != rows->end || memcmp(&rule, &rows->rule, sizeof(rule))) {
		err = end_row(rows);
		rows->start = pc;
		rows->rule = rule;
	}
	rows->end = pc + len;
	return err;
}

int ut_follow_rows(struct ut_follow *f, __u64 start, __u64 end, ut_follow_add_t add, void *data)
{
	struct rows rows = { .follow = f, .add = add, .data = data };
	int err = ut_follow_look(f, start, end, visit_row, &rows);

	return err ? err : end_row(&rows);
}

static int add_bits(struct ut_follow *f)
{
	__u64 words = f->bytes / 64 + 2;

	f->plain = calloc(f->bytes + 1, sizeof(*f->plain));
	f->leaders = calloc(words, sizeof(__u64));
	f->visited = calloc(words, sizeof(__u64));
	f->starts = calloc(words, sizeof(__u64));
	if (!f->plain || !f->leaders || !f->visited || !f->starts)
		return -ENOMEM;
	ut_pieces_begin(f);
	return 0;
}

/* Begin without any results: @on_array and @on_map clear them, or free them. */
static void for_all(struct ut_follow *f, void (*on_array)(struct array *array),
		    void (*on_map)(struct map *map))
{
	struct array *arrays[] = {
		&f->states, &f->conflicts, &f->queue, &f->news, &f->waiting,
	};
	struct keyed *keyed[] = {
		&f->blocks, &f->functions, &f->sites, &f->labels, &f->opens, &f->jumps,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(arrays); i++)
		on_array(arrays[i]);
	for (i = 0; i < ARRAY_SIZE(keyed); i++) {
		on_array(&keyed[i]->all);
		on_map(&keyed[i]->at);
	}
}

/*
 * Begin to follow the code in [start, end) of a file's offsets. Functions elsewhere return, and do
 * what the ABI says.
 */
int ut_follow_new(struct ut_build *build, __u64 start, __u64 end, struct ut_follow **follow)
{
	struct ut_follow *f;
	unsigned int i;
	int err;

	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	*f = (struct ut_follow){
		.build = build, .work = &build->follow_work,
		.pieces.size = sizeof(struct piece), .states.size = sizeof(struct state),
		.blocks.all.size = sizeof(struct block), .sites.all.size = sizeof(struct site),
		.functions.all.size = sizeof(struct function),
		.labels.all.size = sizeof(struct label), .opens.all.size = sizeof(struct open),
		.jumps.all.size = sizeof(struct jump), .conflicts.size = sizeof(struct conflict),
		.queue.size = sizeof(__u32), .news.size = sizeof(__u32),
		.waiting.size = sizeof(__u32),
	};
	f->decoder = ut_insn_decoder_new();
	err = f->decoder ? ut_imports_find(build) : -ENOMEM;
	for (i = 0; i < build->elf.nr_code && !err; i++)
		err = ut_pieces_add(f, &build->elf.code[i], start, end);
	if (!err)
		err = add_bits(f);
	if (err) {
		ut_follow_free(f);
		return err;
	}
	*follow = f;
	return 0;
}

/* Begin anew with the same code. */
static void again(struct ut_follow *f)
{
	size_t size = (f->bytes / 64 + 2) * sizeof(__u64);

	for_all(f, array_clear, map_clear);
	memset(f->state_hash, 0, f->state_hash_size * sizeof(*f->state_hash));
	memset(f->leaders, 0, size);
	memset(f->visited, 0, size);
	memset(f->starts, 0, size);
	ut_pieces_begin(f);
	f->run = 0;
	f->found_endless = false;
}

/* Passes over all code, each with the results of the last one */
#define MAX_PASSES	3

/*
 * Follow code as often as it takes: @pass follows all of it. Another pass is needed if something
 * was found that affects earlier code: the end of a table of jumps, where another one begins; or
 * that a function does not return.
 */
int ut_follow_passes(struct ut_build *build, int (*pass)(struct ut_build *build, void *data),
		     void *data)
{
	struct ut_follow *f = build->follow;
	unsigned int i;
	int err;

	for (i = 1;; i++) {
		err = pass(build, data);
		if (err || (!ut_starts_sort_data(&build->starts) && !f->found_endless) ||
		    i == MAX_PASSES)
			return err;
		again(f);
	}
}

void ut_follow_free(struct ut_follow *f)
{
	if (!f)
		return;
	for_all(f, array_free, map_free);
	ut_pieces_free(f);
	ut_insn_decoder_free(f->decoder);
	free(f->plain);
	free(f->leaders);
	free(f->visited);
	free(f->starts);
	free(f->state_hash);
	free(f);
}
