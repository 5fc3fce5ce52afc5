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

#include "follow.h"

/* Operations of an instruction, and of a path that leads to a block */
#define WORK_INSN	16
#define WORK_BLOCK	32

/* Of one file: some 50 MB each. The largest library of assembly needs a third of them. */
#define MAX_STATES	(1 << 17)
#define MAX_BLOCKS	(1 << 20)

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
	struct array		blocks;
	struct array		functions;
	struct array		sites;
	struct array		queue;
	struct array		news;			/* functions that return, or otherwise */
	struct array		labels;
	struct array		opens;
	struct array		jumps;
	struct array		conflicts;
	struct array		waiting;		/* jumps whose tables go on */
	struct map		block_at, function_at, site_at, label_at, open_at, jump_at;
	__u32			run;
	bool			found_endless;
};

/* The elements of the arrays; the addresses change when an array grows. */
static struct state *state_nr(const struct ut_follow *f, __u32 nr)
{
	return (struct state *)f->states.items + nr;
}

static struct block *block_nr(const struct ut_follow *f, __u32 nr)
{
	return (struct block *)f->blocks.items + nr;
}

static struct function *function_nr(const struct ut_follow *f, __u32 nr)
{
	return (struct function *)f->functions.items + nr;
}

static struct site *site_nr(const struct ut_follow *f, __u32 nr)
{
	return (struct site *)f->sites.items + nr;
}

static struct label *label_nr(const struct ut_follow *f, __u32 nr)
{
	return (struct label *)f->labels.items + nr;
}

static struct open *open_nr(const struct ut_follow *f, __u32 nr)
{
	return (struct open *)f->opens.items + nr;
}

static struct conflict *conflict_nr(const struct ut_follow *f, __u32 nr)
{
	return (struct conflict *)f->conflicts.items + nr;
}

static struct jump *jump_nr(const struct ut_follow *f, __u32 nr)
{
	return (struct jump *)f->jumps.items + nr;
}

/* NULL: other code has CFI, or is followed at another time */
static const struct piece *piece_at(const struct ut_follow *f, __u64 addr)
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
static const __u8 *code_at(const struct ut_follow *f, __u64 addr, size_t *len, __u64 *index)
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
static bool decode(struct ut_follow *f, __u64 pc, const __u8 *code, size_t len, __u64 index,
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

/* Memory is limited where work is: not for comparisons. */
static bool is_within(const struct ut_follow *f, __u32 nr, __u32 max)
{
	return nr < max || (f->work->limit == ~0ULL && nr < NONE / 2);
}

static int intern(struct ut_follow *f, const struct state *s, __u32 *number)
{
	__u32 i, mask;
	int err;

	if (2 * f->states.nr >= f->state_hash_size) {
		__u32 size = f->state_hash_size ? 2 * f->state_hash_size : 1024;
		__u32 *hash = calloc(size, sizeof(*hash));

		if (!hash)
			return -ENOMEM;
		for (i = 0; i < f->states.nr; i++) {
			__u32 k = ut_state_hash(state_nr(f, i)) & (size - 1);

			while (hash[k])
				k = (k + 1) & (size - 1);
			hash[k] = i + 1;
		}
		free(f->state_hash);
		f->state_hash = hash;
		f->state_hash_size = size;
	}
	mask = f->state_hash_size - 1;
	for (i = ut_state_hash(s) & mask; f->state_hash[i]; i = (i + 1) & mask) {
		*number = f->state_hash[i] - 1;
		if (!memcmp(state_nr(f, *number), s, sizeof(*s)))
			return 0;
	}
	err = is_within(f, f->states.nr, MAX_STATES) ? array_grow(&f->states) : -E2BIG;
	if (err)
		return err;
	*state_nr(f, f->states.nr) = *s;
	*number = f->states.nr++;
	f->state_hash[i] = *number + 1;
	return 0;
}

/* Functions */

static struct function *root_of(const struct ut_follow *f, __u32 function)
{
	struct function *functions = function_nr(f, 0);

	while (functions[function].parent != function) {
		functions[function].parent = functions[functions[function].parent].parent;
		function = functions[function].parent;
	}
	return &functions[function];
}

static int queue_block(struct ut_follow *f, __u32 number)
{
	if (block_nr(f, number)->queued)
		return 0;
	block_nr(f, number)->queued = true;
	return array_push(&f->queue, number);
}

static int returned(struct ut_follow *f, __u32 number, const struct ending *ending);

/* Two functions are judged as one. */
static int unite(struct ut_follow *f, struct function *a, struct function *b)
{
	__u32 number = a - function_nr(f, 0);

	if (a == b)
		return 0;
	b->parent = number;
	if (b->sites != NONE) {
		site_nr(f, b->last_site)->next_site = a->sites;
		if (a->sites == NONE)
			a->last_site = b->last_site;
		a->sites = b->sites;
	}
	a->certain |= b->certain;
	a->is_sure |= b->is_sure;
	a->bad |= b->bad;
	a->is_open |= b->is_open;
	a->run = a->run < b->run ? a->run : b->run;
	if (!a->returns && !b->returns)
		return 0;
	if (!a->returns)
		a->ending = b->ending;
	/* Tell all calls of both. */
	a->returns = false;
	return returned(f, number, &(struct ending) {
		.clobbers = a->ending.clobbers | (b->returns ? b->ending.clobbers : 0),
		.pops = a->ending.pops,
		.is_proof = a->ending.is_proof || (b->returns && b->ending.is_proof),
		.is_seen = a->ending.is_seen || (b->returns && b->ending.is_seen),
	});
}

static int add_site(struct ut_follow *f, __u64 key, __u64 next, const struct state *s,
		    __u32 caller, __u32 callee, bool doubtful);

/* A function ends with the code of another one, with @s in between. */
static int also_returned(struct ut_follow *f, __u32 number, const struct state *s,
			 const struct ending *of_other)
{
	struct ending ending = *of_other;

	ending.clobbers |= ut_state_clobbers(s);
	return returned(f, number, &ending);
}

/* A path comes to code that another function shares; it need not be followed again. */
static int share(struct ut_follow *f, __u32 number, const struct state *s, __u32 function)
{
	__u32 other = block_nr(f, number)->function;
	struct function *owner = root_of(f, other);
	__u64 key = 1ULL << 63 | (__u64)function << 32 | number;
	int err = add_site(f, key, 0, s, function, other, false);

	if (err || !owner->returns)
		return err;
	return also_returned(f, function, s, &owner->ending);
}

static int add_block(struct ut_follow *f, __u64 addr, __u64 index, const struct state *s,
		     __u32 function)
{
	__u32 state;
	int err = intern(f, s, &state);

	if (!err)
		err = is_within(f, f->blocks.nr, MAX_BLOCKS) ? 0 : -E2BIG;
	if (!err)
		err = array_grow(&f->blocks);
	if (!err)
		err = map_add(&f->block_at, addr, f->blocks.nr);
	if (err)
		return err;
	*block_nr(f, f->blocks.nr) = (struct block){ addr, state, function, false };
	set_bit(f->leaders, index);
	return queue_block(f, f->blocks.nr++);
}

static void skip(struct ut_follow *f, const struct insn *insn, __u64 pc, struct state *s);

/*
 * An address in the middle of a block that a path of its function also reaches: from there on,
 * it is another block.
 */
static int split(struct ut_follow *f, __u64 addr, __u64 index)
{
	__u64 before = index, pc;
	struct block block;
	struct state s;
	__u32 number;

	while (before && !bit(f->leaders, --before)) {
		if (!ut_work(f->work, 1))
			return -E2BIG;
	}
	pc = addr - (index - before);
	number = map_get(&f->block_at, pc);
	if (number == NONE)
		return 0;
	block = *block_nr(f, number);
	s = *state_nr(f, block.state);
	while (pc < addr) {
		struct insn insn;
		const __u8 *code;
		size_t len;

		code = code_at(f, pc, &len, &before);
		if (!ut_work(f->work, WORK_INSN))
			return -E2BIG;
		if (!code || !decode(f, pc, code, len, before, &insn))
			return 0;
		skip(f, &insn, pc, &s);
		pc += insn.len;
	}
	return pc == addr ? add_block(f, addr, index, &s, block.function) : 0;
}

/*
 * A path comes to code of another function with another stack. One of them may not be a
 * function, but an address in the middle of one: that is decided when everything else has been
 * followed.
 */
static int add_conflict(struct ut_follow *f, __u32 number, const struct state *s, __u32 function)
{
	__u32 state;
	int err = intern(f, s, &state);

	if (!err)
		err = array_grow(&f->conflicts);
	if (err)
		return err;
	*conflict_nr(f, f->conflicts.nr++) = (struct conflict){ number, state, function };
	return 0;
}

/* A path leads to an address. */
static int flow(struct ut_follow *f, __u64 addr, const struct state *s, __u32 function)
{
	struct function *root = root_of(f, function), *owner;
	__u32 number = map_get(&f->block_at, addr), state;
	struct block *block;
	struct state joined;
	__u64 index;
	size_t len;
	int err;

	if (!code_at(f, addr, &len, &index))
		return 0;
	if (!ut_work(f->work, WORK_BLOCK))
		return -E2BIG;
	if (number == NONE && bit(f->visited, index)) {
		err = split(f, addr, index);
		if (err)
			return err;
		number = map_get(&f->block_at, addr);
	}
	if (number == NONE)
		return add_block(f, addr, index, s, function);
	block = block_nr(f, number);
	owner = root_of(f, block->function);
	joined = *state_nr(f, block->state);
	if (owner != root && root->is_sure && !owner->is_sure &&
	    !ut_state_same_stack(&joined, s))
		owner->bad = true;
	if (owner->bad && owner != root) {
		/* A function that was not believed does not count. */
		joined = *s;
		block->function = function;
	} else if (!ut_state_join(&joined, s) &&
		   (owner == root || same_value(&joined.regs[INSN_RSP], &s->regs[INSN_RSP]))) {
		return owner == root ? 0 : share(f, number, s, function);
	} else if (owner != root) {
		if ((owner->run != root->run || owner->is_sure != root->is_sure) &&
		    !ut_state_same_stack(state_nr(f, block->state), s))
			return add_conflict(f, number, s, function);
		err = unite(f, owner, root);
		if (err)
			return err;
	}
	err = intern(f, &joined, &state);
	if (err)
		return err;
	block = block_nr(f, number);
	if (block->state == state && block->function != function)
		return queue_block(f, number);
	block->state = state;
	return queue_block(f, number);
}

/* The function that starts at an address, as a number; NONE: no code is there */
static int declare(struct ut_follow *f, __u64 addr, bool certain, __u32 *number)
{
	__u64 index;
	size_t len;
	int err;

	*number = map_get(&f->function_at, addr);
	if (*number != NONE || !code_at(f, addr, &len, &index))
		return 0;
	err = array_grow(&f->functions);
	if (!err)
		err = map_add(&f->function_at, addr, f->functions.nr);
	if (err)
		return err;
	*number = f->functions.nr++;
	*function_nr(f, *number) = (struct function){
		.addr = addr, .parent = *number, .sites = NONE, .run = f->run,
		.certain = certain, .is_sure = certain,
	};
	set_bit(f->starts, index);
	return 0;
}

static int function_at(struct ut_follow *f, __u64 addr, bool certain, __u32 *number)
{
	int err = declare(f, addr, certain, number);
	struct function *function = function_nr(f, *number);
	struct state s;

	if (err || *number == NONE || function->entered)
		return err;
	function->entered = true;
	ut_state_enter(&s);
	return flow(f, addr, &s, *number);
}

static int resume(struct ut_follow *f, const struct site *site, const struct ending *ending)
{
	struct state s = *state_nr(f, site->state);

	if (site->doubtful && !ending->is_seen)
		return 0;
	if (!site->next)
		return also_returned(f, site->caller, &s, ending);
	ut_state_after_call(&s, ending->clobbers, ending->pops);
	return flow(f, site->next, &s, site->caller);
}

/* A function can return: so can those that jump to it, and calls of it go on. */
static int returned(struct ut_follow *f, __u32 number, const struct ending *ending)
{
	struct function *function = root_of(f, number);
	struct ending now = *ending;

	if (function->is_open)
		now.clobbers |= SCRATCH;
	if (function->returns) {
		if (now.pops != function->ending.pops) {
			function->bad = true;
			return 0;
		}
		now.clobbers |= function->ending.clobbers;
		now.is_proof |= function->ending.is_proof;
		now.is_seen |= function->ending.is_seen;
		if (now.clobbers == function->ending.clobbers &&
		    now.is_proof == function->ending.is_proof &&
		    now.is_seen == function->ending.is_seen)
			return 0;
	}
	function->returns = true;
	function->ending = now;
	if (function->is_news)
		return 0;
	function->is_news = true;
	return array_push(&f->news, function - function_nr(f, 0));
}

/* Tell those that call a function, or jump to it. */
static int announce(struct ut_follow *f, __u32 number)
{
	const struct function *function = root_of(f, number);
	struct ending ending = function->ending;
	__u32 site = function->sites;
	int err = 0;

	function_nr(f, number)->is_news = false;
	while (site != NONE && !err) {
		struct site copy = *site_nr(f, site);

		if (!ut_work(f->work, WORK_BLOCK))
			return -E2BIG;
		err = resume(f, &copy, &ending);
		site = copy.next_site;
	}
	return err;
}

/* Note a call or a jump of a function. @next is 0 for a jump. @key: where it is */
static int add_site(struct ut_follow *f, __u64 key, __u64 next, const struct state *s,
		    __u32 caller, __u32 callee, bool doubtful)
{
	struct function *root = root_of(f, callee);
	__u32 number = map_get(&f->site_at, key), state;
	int err = intern(f, s, &state);

	if (err)
		return err;
	if (number != NONE) {
		site_nr(f, number)->state = state;
		site_nr(f, number)->caller = caller;
		site_nr(f, number)->doubtful = doubtful;
		return 0;
	}
	err = array_grow(&f->sites);
	if (!err)
		err = map_add(&f->site_at, key, f->sites.nr);
	if (err)
		return err;
	*site_nr(f, f->sites.nr) = (struct site){ next, state, caller, root->sites, doubtful };
	if (root->sites == NONE)
		root->last_site = f->sites.nr;
	root->sites = f->sites.nr++;
	return 0;
}

/* How far jumps by a table lead, unless another function is there */
#define MAX_JUMP	(1 << 20)
#define MAX_BACK	4096
/*
 * Unused entries before the first used one: a table by widths may start at 8. Most use the third
 * one.
 */
#define MAX_UNUSED	4
#define FIRST_USED	2

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
		number = map_get(&f->function_at, addr);
		if (number == NONE || function_nr(f, number)->certain)
			return true;
	}
	if (addr % UT_ALIGN)
		return false;
	if (ut_bytes_is_entry(piece->code + at, piece->len + piece->ahead - at, addr,
			       piece->before + at))
		return true;
	if (map_get(&f->label_at, addr) != NONE)
		return false;
	return is_taken(f, addr);
}

static bool is_boundary(const struct ut_follow *f, __u64 addr)
{
	const struct piece *piece = piece_at(f, addr);

	return piece && is_boundary_in(f, piece, addr);
}

/*
 * A jump to unknown code: a function, if SP is as at an entry. But that proves nothing if the
 * code could be of the same function.
 */
static int leave(struct ut_follow *f, const struct state *s, __u32 function, bool is_proof)
{
	if (!ut_state_is_entry(s))
		return 0;
	return returned(f, function, &(struct ending) {
		.clobbers = ut_state_clobbers(s) | SCRATCH, .is_proof = is_proof,
	});
}

/*
 * Must a path that runs to an address end there? Yes, behind padding, where a function seems to
 * start: before that is a call that does not return, or no code at all.
 */
static bool is_beyond_padding(const struct ut_follow *f, __u64 addr)
{
	const struct piece *piece = piece_at(f, addr);

	if (!piece || addr % UT_ALIGN ||
	    !ut_bytes_is_padded(piece->code + (addr - piece->addr),
				 piece->before + (addr - piece->addr)))
		return false;
	return map_get(&f->function_at, addr) != NONE || is_boundary_in(f, piece, addr) ||
	       is_taken(f, addr) || ut_starts_has(f->build, UT_START_CALL, addr);
}

/* A jump, or @falls: a path that comes to where a function starts */
static int jump_to(struct ut_follow *f, __u64 pc, __u64 target, const struct state *s,
		   __u32 function, bool falls)
{
	__u32 callee = map_get(&f->function_at, target);
	struct function *root;
	int err;

	if (!piece_at(f, target))
		return leave(f, s, function, true);
	/* Behind a call that does not return */
	if (falls && callee == NONE && !ut_state_is_entry(s) && is_boundary(f, target))
		return 0;
	if (callee == NONE || root_of(f, callee)->bad || callee == function)
		return flow(f, target, s, function);
	if (!ut_state_is_entry(s)) {
		/* Behind a call that does not return, or else not a function at all */
		if (!falls)
			return flow(f, target, s, function);
		return 0;
	}
	/* A called function must find the caller's FP, unless it is a part of this one. */
	if (!ut_state_has_fp(s))
		return flow(f, target, s, function);
	err = add_site(f, pc, 0, s, function, callee, false);
	if (err)
		return err;
	root = root_of(f, callee);
	if (!root->returns)
		return 0;
	return also_returned(f, function, s, &root->ending);
}

/* Where code that belongs to a jump can be: between functions that are certain */
static bool find_bounds(struct ut_follow *f, __u64 pc, __u64 *start, __u64 *end)
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

/*
 * Can a jump lead to an address with SP as it is in @s? Not to code that was reached with
 * another SP, or to the middle of an instruction: the table has ended, or has no entry there.
 * Instructions that were not reached follow each other, too, mostly.
 */
static bool fits(struct ut_follow *f, __u64 addr, const struct state *s)
{
	const struct block *block;
	__u64 index, pc = addr;
	bool is_reached = true;
	struct state there;
	__u32 number;
	size_t len;

	if (!code_at(f, addr, &len, &index))
		return false;
	while (!bit(f->leaders, index)) {
		/* Not reached, unless there is an instruction that goes on beyond it */
		if (addr - pc == MAX_BACK || !index || !ut_work(f->work, 1))
			return true;
		pc--;
		index--;
	}
	number = map_get(&f->block_at, pc);
	if (number == NONE)
		return true;
	block = block_nr(f, number);
	there = *state_nr(f, block->state);
	if (root_of(f, block->function)->bad)
		return true;
	while (pc < addr) {
		struct insn insn;
		const __u8 *code = code_at(f, pc, &len, &index);

		if (!code || !ut_work(f->work, WORK_INSN) ||
		    !decode(f, pc, code, len, index, &insn))
			return true;
		is_reached &= bit(f->visited, index);
		if (is_reached)
			skip(f, &insn, pc, &there);
		pc += insn.len;
	}
	if (pc != addr || !code_at(f, addr, &len, &index))
		return false;
	return !bit(f->visited, index) ||
	       same_value(&there.regs[INSN_RSP], &s->regs[INSN_RSP]);
}

/* Where entries certainly belong to this table, and are not unused ones that another table uses */
static __u64 table_start(const struct value *table)
{
	return (__u32)table->off + (table->values ? 0 : FIRST_USED * table->size);
}

/* Where an entry of a table leads, if it leads anywhere */
static bool find_target(const struct ut_follow *f, const struct jump *jump, __u32 entry,
			__u64 *target)
{
	const struct value *table = &jump->table;
	__u64 addr = (__u32)table->off + (__u64)entry * table->size, end;
	__u64 sign = 1ULL << (table->size * 8 - 1);

	end = ut_starts_data_end(&f->build->starts, table_start(table));
	*target = 0;
	if (addr + table->size > end ||
	    !ut_elf_read_addr(&f->build->elf, addr, target, table->size))
		return false;
	if (table->is_signed)
		*target = (*target ^ sign) - sign;
	*target += jump->base;
	if (*target >= jump->start && *target < jump->end)
		return true;
	/* gcc puts code that it takes to be cold elsewhere. */
	return table->values && piece_at(f, *target) && !is_boundary(f, *target);
}

/* The entry to look at after @entry; @leads: that one leads somewhere. false: none */
static bool next_entry(const struct value *table, __u32 *entry, bool leads)
{
	if (table->values)
		return ++*entry < table->values;
	/* First those that most tables use, then backwards those that may be unused. */
	if (*entry == MAX_UNUSED - 1)
		*entry = FIRST_USED - 1;
	else if (*entry < FIRST_USED)
		*entry = leads && *entry ? *entry - 1 : MAX_UNUSED;
	else if (leads || *entry < MAX_UNUSED)
		++*entry;
	else
		return false;
	return *entry < MAX_TARGETS;
}

/*
 * The next entry of a table. If their number is not known, the table ends before the first one
 * that cannot belong to it, since it leads elsewhere or into the middle of code that the others
 * lead to. So each is looked at when all code that those before it lead to has been followed.
 */
static int follow_entry(struct ut_follow *f, __u32 number)
{
	struct jump *jump = jump_nr(f, number);
	struct state s = *state_nr(f, jump->state);
	bool leads;
	__u64 target;
	int err = 0;

	if (!ut_work(f->work, UT_WORK_READ))
		return -E2BIG;
	leads = find_target(f, jump, jump->next, &target) && fits(f, target, &s);
	if (leads)
		err = flow(f, target, &s, jump->function);
	if (err || !next_entry(&jump->table, &jump->next, leads))
		return err;
	jump->queued = true;
	return array_push(&f->waiting, number);
}

static int jump_by_table(struct ut_follow *f, __u64 pc, const struct value *table, __u64 base,
			 const struct state *s, __u32 function)
{
	struct jump jump = {
		.base = base, .table = *table, .function = function,
		.next = table->values ? 0 : FIRST_USED,
	};
	__u32 number = map_get(&f->jump_at, pc);
	int err;

	if (!find_bounds(f, pc, &jump.start, &jump.end))
		return -E2BIG;
	if (!ut_starts_add_data(&f->build->starts, table_start(table)))
		return -ENOMEM;
	err = intern(f, s, &jump.state);
	if (err)
		return err;
	if (number == NONE) {
		err = array_grow(&f->jumps);
		if (!err)
			err = map_add(&f->jump_at, pc, f->jumps.nr);
		if (err)
			return err;
		number = f->jumps.nr++;
	} else {
		jump.queued = jump_nr(f, number)->queued;
	}
	*jump_nr(f, number) = jump;
	if (jump.queued)
		return 0;
	jump_nr(f, number)->queued = true;
	return array_push(&f->waiting, number);
}

/* More than functions have */
#define MAX_LABELS	64

/* Jumps of a function by a register lead to all labels of it whose addresses it computes. */
static int follow_open(struct ut_follow *f, const struct open *open)
{
	struct state s = *state_nr(f, open->state);
	unsigned int found = 0;
	__u32 i;
	int err = 0;

	for (i = f->labels.nr; i-- && found < MAX_LABELS && !err;) {
		struct label label = *label_nr(f, i);

		if (!ut_work(f->work, 1))
			return -E2BIG;
		/* Those of a function are near to each other in the list. */
		if (root_of(f, label.function) != root_of(f, open->function))
			continue;
		found++;
		if (fits(f, label.addr, &s))
			err = flow(f, label.addr, &s, open->function);
	}
	return err;
}

static int add_open(struct ut_follow *f, __u64 pc, const struct state *s, __u32 function)
{
	__u32 number = map_get(&f->open_at, pc), state;
	struct function *root = root_of(f, function);
	struct unwind_table_rule rule;
	int err = 0;

	root->is_open = true;
	if (root->returns)
		err = returned(f, function, &root->ending);
	/* Without a rule here, there is none where it leads to. */
	if (!err && !ut_state_rule(s, &rule))
		return 0;
	if (!err)
		err = intern(f, s, &state);
	if (!err && number == NONE) {
		number = f->opens.nr;
		err = array_grow(&f->opens);
		if (!err)
			err = map_add(&f->open_at, pc, f->opens.nr);
		if (!err)
			f->opens.nr++;
	}
	if (err)
		return err;
	*open_nr(f, number) = (struct open){ pc, state, function };
	return follow_open(f, open_nr(f, number));
}

/* An address of code is computed, which is not where a function starts */
static int add_label(struct ut_follow *f, __u64 addr, __u32 function)
{
	__u64 index;
	size_t len;
	__u32 i;
	int err;

	if (!code_at(f, addr, &len, &index) || map_get(&f->label_at, addr) != NONE)
		return 0;
	i = map_get(&f->function_at, addr);
	if (i != NONE && (function_nr(f, i)->certain || function_nr(f, i)->called))
		return 0;
	err = array_grow(&f->labels);
	if (!err)
		err = map_add(&f->label_at, addr, 0);
	if (err)
		return err;
	*label_nr(f, f->labels.nr++) = (struct label){ addr, function };
	for (i = f->opens.nr; i-- && !err;) {
		struct open open = *open_nr(f, i);

		if (!ut_work(f->work, 1))
			return -E2BIG;
		if (root_of(f, open.function) == root_of(f, function)) {
			struct state s = *state_nr(f, open.state);

			if (fits(f, addr, &s))
				err = flow(f, addr, &s, open.function);
		}
	}
	return err;
}

static int jump_by_reg(struct ut_follow *f, const struct insn *insn, __u64 pc,
		       const struct state *s, __u32 function)
{
	const struct value *to = &s->regs[insn->src];

	if (to->what == TARGET)
		return jump_by_table(f, pc, to, to->base, s, function);
	if (to->what == ELEMENT && to->size == 8)
		return jump_by_table(f, pc, to, 0, s, function);
	if (to->what == ADDRESS)
		return jump_to(f, pc, (__u32)to->off, s, function, false);
	if (!ut_state_is_entry(s))
		return add_open(f, pc, s, function);
	return leave(f, s, function, false);
}

/*
 * A call of the next instruction, which pops the return address, in order to learn it. Without the
 * pop, a function that does not return happens to be there.
 */
static bool is_learnt(const struct ut_follow *f, const struct insn *insn, __u64 pc)
{
	__u64 next = pc + insn->len, index;
	const __u8 *code;
	size_t len;

	if (insn->op != INSN_CALL || (__u64)insn->imm != next)
		return false;
	code = code_at(f, next, &len, &index);
	return code && len > 1 && ((code[0] & 0xf8) == 0x58 ||
				   (code[0] == 0x41 && (code[1] & 0xf8) == 0x58));
}

/* A call. @goes_on: the path goes on behind it, with the state @s. */
static int call(struct ut_follow *f, const struct insn *insn, __u64 pc, struct state *s,
		__u32 function, bool *goes_on)
{
	__u64 next = pc + insn->len;
	struct function *root;
	__u64 target = insn->imm, index;
	const __u8 *code;
	bool doubtful;
	__u32 callee;
	size_t len;
	int err;

	*goes_on = true;
	if (insn->op == INSN_CALL_UNKNOWN) {
		target = map_get(&f->build->imports, insn->imm);
		*goes_on = target != UT_IMPORT_NO_RETURN;
		if (target >= UT_IMPORT_NO_RETURN) {
			ut_state_after_call(s, SCRATCH, 0);
			return 0;
		}
	}
	if (is_learnt(f, insn, pc)) {
		ut_state_push(s, pc);
		return 0;
	}
	if (!piece_at(f, target)) {
		ut_state_after_call(s, SCRATCH, 0);
		return 0;
	}
	*goes_on = false;
	err = declare(f, target, false, &callee);
	if (err || callee == NONE)
		return err;
	function_nr(f, callee)->called = true;
	root_of(f, callee)->is_sure = true;
	err = function_at(f, target, false, &callee);
	if (err)
		return err;
	doubtful = map_get(&f->build->endless, target) != NONE;
	code = code_at(f, pc, &len, &index);
	if (len == insn->len || ut_bytes_is_end(code + insn->len, len - insn->len, next)) {
		if (doubtful)
			return 0;
		f->found_endless = true;
		return map_add(&f->build->endless, target, 0);
	}
	/*
	 * In a cold part, which gcc puts before its function: without padding between them,
	 * the next one may begin here.
	 */
	if (doubtful && pc < function_nr(f, function)->addr)
		return 0;
	err = add_site(f, pc, next, s, function, callee, doubtful);
	if (err)
		return err;
	root = root_of(f, callee);
	*goes_on = root->returns && !root->bad && (root->ending.is_seen || !doubtful);
	if (*goes_on)
		ut_state_after_call(s, root->ending.clobbers, root->ending.pops);
	return 0;
}

static int do_return(struct ut_follow *f, const struct insn *insn, const struct state *s,
		     __u32 function)
{
	struct function *root = root_of(f, function);

	if (s->regs[INSN_RSP].what != CFA)
		return 0;
	if (s->regs[INSN_RSP].off != -8)
		root->bad = true;
	if (!ut_state_is_entry(s))
		return 0;
	return returned(f, function, &(struct ending) {
		.clobbers = ut_state_clobbers(s), .pops = insn->imm, .is_proof = true,
		.is_seen = true,
	});
}

/* Apply an instruction; @goes_on: whether the path goes on behind it */
static int step(struct ut_follow *f, const struct insn *insn, __u64 pc, struct state *s,
		__u32 function, bool *goes_on)
{
	struct state taken;
	struct value table;
	__u32 target, callee;
	int err;

	*goes_on = false;
	switch (insn->op) {
	case INSN_CALL:
	case INSN_CALL_UNKNOWN:
		return call(f, insn, pc, s, function, goes_on);
	case INSN_JUMP:
		return jump_to(f, pc, insn->imm, s, function, false);
	case INSN_BRANCH:
		*goes_on = true;
		taken = *s;
		if (insn->equal_target)
			ut_state_note_equal(&taken);
		if (insn->equal_rest)
			ut_state_note_equal(s);
		ut_state_execute(&taken, insn, pc);
		ut_state_execute(s, insn, pc);
		if (insn->limits_target)
			ut_state_note_limit(&taken);
		if (insn->limits_rest)
			ut_state_note_limit(s);
		return jump_to(f, pc, insn->imm, &taken, function, false);
	case INSN_JUMP_REG:
		return jump_by_reg(f, insn, pc, s, function);
	case INSN_JUMP_TABLE:
		table = ut_state_table(s, insn);
		table.size = 8;
		if (table.what == ELEMENT)
			return jump_by_table(f, pc, &table, 0, s, function);
		return leave(f, s, function, false);
	case INSN_JUMP_MEMORY:
		target = map_get(&f->build->imports, insn->imm);
		if (target == UT_IMPORT_NO_RETURN)
			return 0;
		if (target == NONE)
			return leave(f, s, function, true);
		err = function_at(f, target, false, &callee);
		return err ? err : jump_to(f, pc, target, s, function, false);
	case INSN_JUMP_UNKNOWN:
		return leave(f, s, function, false);
	case INSN_RETURN:
		return do_return(f, insn, s, function);
	case INSN_STOP:
		return 0;
	default:
		*goes_on = true;
		ut_state_execute(s, insn, pc);
		return insn->op == INSN_ADDRESS ? add_label(f, insn->imm, function) : 0;
	}
}

/* Repeat the effect of an instruction that was followed, whose path went on behind it. */
static void skip(struct ut_follow *f, const struct insn *insn, __u64 pc, struct state *s)
{
	const struct function *root = NULL;
	__u32 callee = NONE, target;

	switch (insn->op) {
	case INSN_CALL:
		if (is_learnt(f, insn, pc)) {
			ut_state_push(s, pc);
			return;
		}
		callee = map_get(&f->function_at, insn->imm);
		break;
	case INSN_CALL_UNKNOWN:
		target = map_get(&f->build->imports, insn->imm);
		if (target < UT_IMPORT_NO_RETURN)
			callee = map_get(&f->function_at, target);
		break;
	case INSN_BRANCH:
		if (insn->equal_rest)
			ut_state_note_equal(s);
		ut_state_execute(s, insn, pc);
		return;
	default:
		ut_state_execute(s, insn, pc);
		return;
	}
	if (callee != NONE)
		root = root_of(f, callee);
	if (root && root->returns)
		ut_state_after_call(s, root->ending.clobbers, root->ending.pops);
	else
		ut_state_after_call(s, SCRATCH, 0);
}

static int run_block(struct ut_follow *f, __u32 number)
{
	struct block block = *block_nr(f, number);
	struct state s = *state_nr(f, block.state);
	__u64 pc = block.addr, index;
	bool goes_on = true;
	int err = 0;

	while (goes_on && !err) {
		struct insn insn;
		const __u8 *code;
		size_t len;

		if (root_of(f, block.function)->bad)
			return 0;
		code = code_at(f, pc, &len, &index);
		if (!code)
			return leave(f, &s, block.function, false);
		if (pc != block.addr && is_beyond_padding(f, pc))
			return 0;
		if (pc != block.addr && (bit(f->leaders, index) || is_boundary(f, pc)))
			return jump_to(f, pc, pc, &s, block.function, true);
		if (!ut_work(f->work, WORK_INSN))
			return -E2BIG;
		if (!decode(f, pc, code, len, index, &insn))
			return 0;
		set_bit(f->visited, index);
		err = step(f, &insn, pc, &s, block.function, &goes_on);
		pc += insn.len;
	}
	return err;
}

static bool is_believed(const struct ut_follow *f, __u32 function)
{
	const struct function *root = root_of(f, function);

	return !root->bad && (root->certain || (root->returns && root->ending.is_proof));
}

/*
 * Of two candidates, those that return are functions. If both do, their shared code does not
 * return, as a trap, and has their common state.
 */
static int decide(struct ut_follow *f, const struct conflict *conflict)
{
	struct block *block = block_nr(f, conflict->block);
	struct state s = *state_nr(f, conflict->state), joined;
	__u32 state;
	int err;

	/* They have been merged meanwhile. */
	if (root_of(f, conflict->function) == root_of(f, block->function))
		return flow(f, block->addr, &s, conflict->function);
	if (!is_believed(f, conflict->function)) {
		root_of(f, conflict->function)->bad = true;
		return 0;
	}
	if (!is_believed(f, block->function)) {
		root_of(f, block->function)->bad = true;
		return flow(f, block->addr, &s, conflict->function);
	}
	joined = *state_nr(f, block->state);
	if (!ut_state_join(&joined, &s))
		return 0;
	err = intern(f, &joined, &state);
	if (err)
		return err;
	block_nr(f, conflict->block)->state = state;
	return queue_block(f, conflict->block);
}

static int run(struct ut_follow *f)
{
	int err = 0;

	while (!err && (f->queue.nr || f->news.nr || f->waiting.nr || f->conflicts.nr)) {
		__u32 number;

		if (f->queue.nr) {
			number = array_pop(&f->queue);
			block_nr(f, number)->queued = false;
			err = run_block(f, number);
		} else if (f->news.nr) {
			err = announce(f, array_pop(&f->news));
		} else if (!f->waiting.nr) {
			struct conflict conflict = *conflict_nr(f, --f->conflicts.nr);

			err = decide(f, &conflict);
		} else {
			number = array_pop(&f->waiting);
			jump_nr(f, number)->queued = false;
			err = follow_entry(f, number);
		}
	}
	return err;
}

/**
 * ut_follow_declare - Say that a function starts at an address, before any is followed
 * @f:		Rules so far
 * @addr:	An address of the file
 *
 * Return: 0, or a negative errno.
 */
int ut_follow_declare(struct ut_follow *f, __u64 addr)
{
	__u32 number;

	return declare(f, addr, true, &number);
}

/**
 * ut_follow_from - Follow the code from an address on
 * @f:		Rules so far
 * @addr:	Where a function starts, an address of the file
 * @how:	How sure that is
 *
 * Return: 0, or a negative errno.
 */
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
	err = function_at(f, addr, how == UT_FOLLOW_CERTAIN, &number);
	return err ? err : run(f);
}

/* Called for each instruction when a path is followed again, with its final state */
typedef int (*visit_t)(struct ut_follow *f, __u64 pc, unsigned int len,
		       const struct state *s, void *data);

static int visit_block(struct ut_follow *f, const struct block *block, __u64 end,
		       visit_t visit, void *data)
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
		err = visit(f, pc, insn.len, &s, data);
		if (insn.op >= INSN_JUMP && insn.op != INSN_BRANCH)
			break;
		skip(f, &insn, pc, &s);
		pc += insn.len;
	}
	return err;
}

static int visit_piece(struct ut_follow *f, const struct piece *piece, __u64 start, __u64 end,
		       visit_t visit, void *data)
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
		block = block_nr(f, map_get(&f->block_at, piece->addr + at));
		if (is_believed(f, block->function))
			err = visit_block(f, block, end, visit, data);
	}
	return err;
}

static int visit_blocks(struct ut_follow *f, __u64 start, __u64 end, visit_t visit, void *data)
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

static int visit_row(struct ut_follow *f, __u64 pc, unsigned int len, const struct state *s,
		     void *data)
{
	bool overlaps = pc < ((struct rows *)data)->seen;
	struct unwind_table_rule rule;
	struct rows *rows = data;
	__u64 index;
	size_t left;
	int err = 0;

	/* If two decoded instructions overlap, one is bogus; trust neither. */
	if (!code_at(f, pc, &left, &index))
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
	struct rows rows = { .add = add, .data = data };
	int err = visit_blocks(f, start, end, visit_row, &rows);

	return err ? err : end_row(&rows);
}

/* Comparisons */

struct look {
	ut_follow_look_t	look;
	void			*data;
};

static int visit_look(struct ut_follow *f, __u64 pc, unsigned int len, const struct state *s,
		      void *data)
{
	struct look *look = data;

	(void)f;
	return look->look(look->data, pc, len, s);
}

int ut_follow_look(struct ut_follow *f, __u64 start, __u64 end, ut_follow_look_t look,
		   void *data)
{
	struct look l = { look, data };

	return visit_blocks(f, start, end, visit_look, &l);
}

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
static int add_pieces(struct ut_follow *f, const struct ut_segment *segment, __u64 start,
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
static void begin_pieces(struct ut_follow *f)
{
	const struct piece *pieces = f->pieces.items;
	__u32 i;

	for (i = 0; i < f->pieces.nr; i++)
		set_bit(f->starts, pieces[i].first);
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
	begin_pieces(f);
	return 0;
}

/**
 * ut_follow_new - Begin to follow code of a file
 * @build:	The file
 * @start:	Offset of the first byte that is followed
 * @end:	Offset of the byte behind the last
 * @follow:	Gets the state so far
 *
 * Functions elsewhere return, and do what the ABI says.
 *
 * Return: 0, or a negative errno.
 */
int ut_follow_new(struct ut_build *build, __u64 start, __u64 end, struct ut_follow **follow)
{
	struct ut_follow *f;
	unsigned int i;
	int err;

	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->build = build;
	f->work = &build->follow_work;
	f->pieces.size = sizeof(struct piece);
	f->states.size = sizeof(struct state);
	f->blocks.size = sizeof(struct block);
	f->functions.size = sizeof(struct function);
	f->sites.size = sizeof(struct site);
	f->labels.size = sizeof(struct label);
	f->opens.size = sizeof(struct open);
	f->jumps.size = sizeof(struct jump);
	f->conflicts.size = sizeof(struct conflict);
	f->waiting.size = sizeof(__u32);
	f->queue.size = sizeof(__u32);
	f->news.size = sizeof(__u32);
	f->decoder = ut_insn_decoder_new();
	err = f->decoder ? ut_imports_find(build) : -ENOMEM;
	for (i = 0; i < build->elf.nr_code && !err; i++)
		err = add_pieces(f, &build->elf.code[i], start, end);
	if (!err)
		err = add_bits(f);
	if (err) {
		ut_follow_free(f);
		return err;
	}
	*follow = f;
	return 0;
}

/**
 * ut_follow_is_final - Is another pass needless?
 * @f:		What was followed
 *
 * Return: false if something was found that affects earlier code: the end of a table of jumps,
 * where another one begins; or that a function does not return.
 */
bool ut_follow_is_final(struct ut_follow *f)
{
	return !ut_starts_sort_data(&f->build->starts) && !f->found_endless;
}

/**
 * ut_follow_again - Begin anew with the same code
 * @f:		What was followed
 */
void ut_follow_again(struct ut_follow *f)
{
	struct array *arrays[] = {
		&f->states, &f->blocks, &f->functions, &f->sites, &f->queue, &f->news,
		&f->labels, &f->opens, &f->jumps, &f->conflicts, &f->waiting,
	};
	struct map *maps[] = {
		&f->block_at, &f->function_at, &f->site_at, &f->label_at, &f->open_at,
		&f->jump_at,
	};
	size_t size = (f->bytes / 64 + 2) * sizeof(__u64);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(arrays); i++)
		arrays[i]->nr = 0;
	for (i = 0; i < ARRAY_SIZE(maps); i++)
		map_clear(maps[i]);
	memset(f->state_hash, 0, f->state_hash_size * sizeof(*f->state_hash));
	memset(f->leaders, 0, size);
	memset(f->visited, 0, size);
	memset(f->starts, 0, size);
	begin_pieces(f);
	f->run = 0;
	f->found_endless = false;
}

void ut_follow_free(struct ut_follow *f)
{
	const struct piece *pieces;
	__u32 i;

	if (!f)
		return;
	pieces = f->pieces.items;
	for (i = 0; i < f->pieces.nr; i++)
		free(pieces[i].code - pieces[i].before);
	free(f->pieces.items);
	ut_insn_decoder_free(f->decoder);
	free(f->plain);
	free(f->leaders);
	free(f->visited);
	free(f->starts);
	free(f->states.items);
	free(f->state_hash);
	free(f->blocks.items);
	free(f->functions.items);
	free(f->sites.items);
	free(f->queue.items);
	free(f->news.items);
	free(f->labels.items);
	free(f->opens.items);
	free(f->jumps.items);
	free(f->conflicts.items);
	free(f->waiting.items);
	map_free(&f->block_at);
	map_free(&f->function_at);
	map_free(&f->site_at);
	map_free(&f->label_at);
	map_free(&f->open_at);
	map_free(&f->jump_at);
	free(f);
}
