/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLE_PATHS_H
#define __UNWIND_TABLE_PATHS_H

/* What is known while code is followed, for follow.c, pieces.c, paths.c and jumps.c */

#include "follow.h"
#include "insn.h"
#include "map.h"
#include "state.h"

/* Operations of an instruction, and of a path that leads to a block */
#define WORK_INSN	16
#define WORK_BLOCK	32

/* Code that is entered at its start only, or from the block before */
struct block {
	__u64	addr;
	__u32	state;
	__u32	function;
	bool	queued;
};

/* How a function returns */
struct ending {
	__u16	clobbers;	/* registers that are not as they were */
	__u16	pops;		/* bytes of arguments */
	bool	is_proof;	/* SP is where it has to be */
	bool	is_seen;	/* by a return, and not by a jump to another file */
};

/*
 * A function. Those that share code for which they do not agree are judged together:
 * the first of them, to which @parent leads, has the state of all.
 */
struct function {
	__u64	addr;
	__u32	parent;
	__u32	sites;		/* the first call of it */
	__u32	last_site;	/* so that two lists are joined at once */
	__u32	run;
	struct ending ending;	/* if it @returns */
	bool	certain;
	bool	called;
	bool	is_sure;	/* one of them has a symbol or a call, not only an address */
	bool	entered;
	bool	bad;
	bool	returns;
	bool	is_news;
	bool	is_open;	/* not all of its paths are known */
};

/* A call, or a jump to another function instead of a return */
struct site {
	__u64	next;		/* the instruction after it, 0: a jump */
	__u32	state;
	__u32	caller;
	__u32	next_site;
	bool	doubtful;	/* another call of the same is the last instruction before an end */
};

/* Code whose address is computed; a jump leads to one such label of its function */
struct label {
	__u64	addr;
	__u32	function;
};

struct open {
	__u64	pc;
	__u32	state;
	__u32	function;
};

/* A path that leads to a block of another function, with another stack */
struct conflict {
	__u32	block;
	__u32	state;
	__u32	function;
};

/* A jump by a table of addresses, or of distances from @base */
struct jump {
	__u64		base;
	__u64		start;		/* addresses to which it may lead */
	__u64		end;
	struct value	table;
	__u32		state;
	__u32		function;
	__u32		next;		/* the entry that is looked at next */
	bool		queued;
};

/* Code that is followed, of one section; and the bytes around it */
#define AROUND		32

struct piece {
	__u64	addr;
	__u64	len;
	__u64	before;		/* bytes before and behind it that can be read */
	__u64	ahead;
	__u64	first;		/* index of its first byte */
	__u8	*code;
};

struct ut_follow {
	struct ut_build		*build;
	struct ut_work		*work;
	struct insn_decoder	*decoder;
	struct array		pieces;
	__u64			bytes;			/* of all pieces, with gaps between them */
	__u16			*plain;			/* instructions by index: see decode() */
	__u64			*leaders;		/* bits, by index of a byte */
	__u64			*visited;
	__u64			*starts;

	struct array		states;
	__u32			*state_hash;
	__u32			state_hash_size;
	/* By address; sites also by what shares code */
	struct keyed		blocks, functions, sites, labels, opens, jumps;
	struct array		conflicts;
	struct array		queue;			/* of blocks */
	struct array		news;			/* functions that return, or otherwise */
	struct array		waiting;		/* jumps whose tables go on */
	__u32			run;
	bool			found_endless;
};

/* The elements of the arrays; the addresses change when an array grows. */
#define state_nr(f, nr)		((struct state *)(f)->states.items + (nr))
#define block_nr(f, nr)		((struct block *)(f)->blocks.all.items + (nr))
#define function_nr(f, nr)	((struct function *)(f)->functions.all.items + (nr))
#define site_nr(f, nr)		((struct site *)(f)->sites.all.items + (nr))
#define label_nr(f, nr)		((struct label *)(f)->labels.all.items + (nr))
#define open_nr(f, nr)		((struct open *)(f)->opens.all.items + (nr))
#define jump_nr(f, nr)		((struct jump *)(f)->jumps.all.items + (nr))
#define conflict_nr(f, nr)	((struct conflict *)(f)->conflicts.items + (nr))

/* NULL: other code has CFI, or is followed at another time */
static inline const struct piece *piece_at(const struct ut_follow *f, __u64 addr)
{
	const struct piece *pieces = f->pieces.items;
	__u32 i;

	for (i = 0; i < f->pieces.nr; i++) {
		if (addr - pieces[i].addr < pieces[i].len)
			return &pieces[i];
	}
	return NULL;
}

/* The code at an address, and how much of it can be read */
static inline const __u8 *code_at(const struct ut_follow *f, __u64 addr, size_t *len, __u64 *index)
{
	const struct piece *piece = piece_at(f, addr);

	if (!piece)
		return NULL;
	*len = piece->len + piece->ahead - (addr - piece->addr);
	*index = piece->first + (addr - piece->addr);
	return piece->code + (addr - piece->addr);
}

/*
 * Most instructions matter only for a register that they write. Their result is cached, since
 * decoding takes most of the time: their length, that register + 1, the register that it becomes
 * a copy of, and whether flags are set.
 */
static inline bool decode(struct ut_follow *f, __u64 pc, const __u8 *code, size_t len, __u64 index,
			  struct insn *insn)
{
	__u16 *plain = &f->plain[index];

	if (*plain) {
		*insn = (struct insn){
			.dst = INSN_NO_REG, .src = INSN_NO_REG, .base = INSN_NO_REG,
			.index = INSN_NO_REG, .copy_of = (*plain >> 9 & 31) ^ INSN_NO_REG,
			.sets_flags = *plain >> 14,
			.len = *plain & 15, .kills = 1U << (*plain >> 4 & 31) >> 1,
		};
		return true;
	}
	if (!ut_insn_decode(f->decoder, code, len, pc, insn))
		return false;
	if (insn->op == INSN_OTHER && !insn->size && !(insn->kills & (insn->kills - 1)))
		*plain = insn->len | __builtin_ffs(insn->kills) << 4 |
			 (insn->copy_of ^ INSN_NO_REG) << 9 | insn->sets_flags << 14;
	return true;
}

static inline bool decode_at(struct ut_follow *f, __u64 pc, __u64 *index, struct insn *insn)
{
	const __u8 *code;
	size_t len;

	code = code_at(f, pc, &len, index);
	return code && decode(f, pc, code, len, *index, insn);
}

static inline bool has_code(const struct ut_follow *f, __u64 addr, __u64 *index)
{
	size_t len;

	return code_at(f, addr, &len, index);
}

static inline struct function *root_of(const struct ut_follow *f, __u32 function)
{
	struct function *functions = function_nr(f, 0);

	while (functions[function].parent != function) {
		functions[function].parent = functions[functions[function].parent].parent;
		function = functions[function].parent;
	}
	return &functions[function];
}

/* pieces.c */
int ut_pieces_add(struct ut_follow *f, const struct ut_segment *segment, __u64 start, __u64 end);
void ut_pieces_begin(struct ut_follow *f);
void ut_pieces_free(struct ut_follow *f);
bool ut_piece_is_boundary(const struct ut_follow *f, __u64 addr);
bool ut_piece_is_beyond_padding(const struct ut_follow *f, __u64 addr);
bool ut_piece_find_bounds(struct ut_follow *f, __u64 pc, __u64 *start, __u64 *end);

/* paths.c */
int ut_path_intern(struct ut_follow *f, const struct state *s, __u32 *number);
int ut_path_flow(struct ut_follow *f, __u64 addr, const struct state *s, __u32 function);
int ut_path_declare(struct ut_follow *f, __u64 addr, bool certain, __u32 *number);
int ut_path_enter(struct ut_follow *f, __u64 addr, bool certain, __u32 *number);
int ut_path_returned(struct ut_follow *f, __u32 number, const struct ending *ending);
int ut_path_leave(struct ut_follow *f, const struct state *s, __u32 function, bool is_proof);
int ut_path_jump(struct ut_follow *f, __u64 pc, __u64 target, const struct state *s,
		 __u32 function, bool falls);
void ut_path_skip(struct ut_follow *f, const struct insn *insn, __u64 pc, struct state *s);
bool ut_path_is_believed(const struct ut_follow *f, __u32 function);
int ut_path_run(struct ut_follow *f);

/* jumps.c */
int ut_jump_by_table(struct ut_follow *f, __u64 pc, const struct value *table, __u64 base,
		     const struct state *s, __u32 function);
int ut_jump_by_reg(struct ut_follow *f, const struct insn *insn, __u64 pc,
		   const struct state *s, __u32 function);
int ut_jump_follow_entry(struct ut_follow *f, __u32 number);
int ut_jump_add_label(struct ut_follow *f, __u64 addr, __u32 function);

#endif /* __UNWIND_TABLE_PATHS_H */
