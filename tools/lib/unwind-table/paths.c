// SPDX-License-Identifier: GPL-2.0
/*
 * All paths through the code that is followed: blocks and the states in which they are entered,
 * functions and how they return, calls of them. Where paths meet, only their common state is known.
 */

#include "paths.h"

/* Of one file: some 50 MB each. The largest library of assembly needs a third of them. */
#define MAX_STATES	(1 << 17)
#define MAX_BLOCKS	(1 << 20)

/* Memory is limited where work is: not for comparisons. */
static bool is_within(const struct ut_follow *f, __u32 nr, __u32 max)
{
	return nr < max || (f->work->limit == ~0ULL && nr < NONE / 2);
}

int ut_path_intern(struct ut_follow *f, const struct state *s, __u32 *number)
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

static int queue_block(struct ut_follow *f, __u32 number)
{
	if (block_nr(f, number)->queued)
		return 0;
	block_nr(f, number)->queued = true;
	return array_push(&f->queue, number);
}

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
	return ut_path_returned(f, number, &(struct ending) {
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
	return ut_path_returned(f, number, &ending);
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
	int err = ut_path_intern(f, s, &state);

	if (!err)
		err = is_within(f, f->blocks.all.nr, MAX_BLOCKS) ? 0 : -E2BIG;
	if (!err)
		err = keyed_grow(&f->blocks, addr);
	if (err)
		return err;
	*block_nr(f, f->blocks.all.nr) = (struct block){ addr, state, function, false };
	set_bit(f->leaders, index);
	return queue_block(f, f->blocks.all.nr++);
}

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
	number = keyed_get(&f->blocks, pc);
	if (number == NONE)
		return 0;
	block = *block_nr(f, number);
	s = *state_nr(f, block.state);
	while (pc < addr) {
		struct insn insn;

		if (!ut_work(f->work, WORK_INSN))
			return -E2BIG;
		if (!decode_at(f, pc, &before, &insn))
			return 0;
		ut_path_skip(f, &insn, pc, &s);
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
	int err = ut_path_intern(f, s, &state);

	if (!err)
		err = array_grow(&f->conflicts);
	if (err)
		return err;
	*conflict_nr(f, f->conflicts.nr++) = (struct conflict){ number, state, function };
	return 0;
}

/* A path leads to an address. */
int ut_path_flow(struct ut_follow *f, __u64 addr, const struct state *s, __u32 function)
{
	struct function *root = root_of(f, function), *owner;
	__u32 number = keyed_get(&f->blocks, addr), state;
	struct block *block;
	struct state joined;
	__u64 index;
	int err;

	if (!has_code(f, addr, &index))
		return 0;
	if (!ut_work(f->work, WORK_BLOCK))
		return -E2BIG;
	if (number == NONE && bit(f->visited, index)) {
		err = split(f, addr, index);
		if (err)
			return err;
		number = keyed_get(&f->blocks, addr);
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
	err = ut_path_intern(f, &joined, &state);
	if (err)
		return err;
	block = block_nr(f, number);
	if (block->state == state && block->function != function)
		return queue_block(f, number);
	block->state = state;
	return queue_block(f, number);
}

/* The function that starts at an address, as a number; NONE: no code is there */
int ut_path_declare(struct ut_follow *f, __u64 addr, bool certain, __u32 *number)
{
	__u64 index;
	int err;

	*number = keyed_get(&f->functions, addr);
	if (*number != NONE || !has_code(f, addr, &index))
		return 0;
	err = keyed_grow(&f->functions, addr);
	if (err)
		return err;
	*number = f->functions.all.nr++;
	*function_nr(f, *number) = (struct function){
		.addr = addr, .parent = *number, .sites = NONE, .run = f->run,
		.certain = certain, .is_sure = certain,
	};
	set_bit(f->starts, index);
	return 0;
}

int ut_path_enter(struct ut_follow *f, __u64 addr, bool certain, __u32 *number)
{
	int err = ut_path_declare(f, addr, certain, number);
	struct function *function = function_nr(f, *number);
	struct state s;

	if (err || *number == NONE || function->entered)
		return err;
	function->entered = true;
	ut_state_enter(&s);
	return ut_path_flow(f, addr, &s, *number);
}

static int resume(struct ut_follow *f, const struct site *site, const struct ending *ending)
{
	struct state s = *state_nr(f, site->state);

	if (site->doubtful && !ending->is_seen)
		return 0;
	if (!site->next)
		return also_returned(f, site->caller, &s, ending);
	ut_state_after_call(&s, ending->clobbers, ending->pops);
	return ut_path_flow(f, site->next, &s, site->caller);
}

/* A function can return: so can those that jump to it, and calls of it go on. */
int ut_path_returned(struct ut_follow *f, __u32 number, const struct ending *ending)
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
	__u32 number = keyed_get(&f->sites, key), state;
	int err = ut_path_intern(f, s, &state);

	if (err)
		return err;
	if (number != NONE) {
		site_nr(f, number)->state = state;
		site_nr(f, number)->caller = caller;
		site_nr(f, number)->doubtful = doubtful;
		return 0;
	}
	err = keyed_grow(&f->sites, key);
	if (err)
		return err;
	*site_nr(f, f->sites.all.nr) = (struct site){ next, state, caller, root->sites, doubtful };
	if (root->sites == NONE)
		root->last_site = f->sites.all.nr;
	root->sites = f->sites.all.nr++;
	return 0;
}

/*
 * A jump to unknown code: a function, if SP is as at an entry. But that proves nothing if the
 * code could be of the same function.
 */
int ut_path_leave(struct ut_follow *f, const struct state *s, __u32 function, bool is_proof)
{
	if (!ut_state_is_entry(s))
		return 0;
	return ut_path_returned(f, function, &(struct ending) {
		.clobbers = ut_state_clobbers(s) | SCRATCH, .is_proof = is_proof,
	});
}

/* A jump, or @falls: a path that comes to where a function starts */
int ut_path_jump(struct ut_follow *f, __u64 pc, __u64 target, const struct state *s,
		 __u32 function, bool falls)
{
	__u32 callee = keyed_get(&f->functions, target);
	struct function *root;
	int err;

	if (!piece_at(f, target))
		return ut_path_leave(f, s, function, true);
	/* Behind a call that does not return */
	if (falls && callee == NONE && !ut_state_is_entry(s) && ut_piece_is_boundary(f, target))
		return 0;
	if (callee == NONE || root_of(f, callee)->bad || callee == function)
		return ut_path_flow(f, target, s, function);
	if (!ut_state_is_entry(s)) {
		/* Behind a call that does not return, or else not a function at all */
		if (!falls)
			return ut_path_flow(f, target, s, function);
		return 0;
	}
	/* A called function must find the caller's FP, unless it is a part of this one. */
	if (!ut_state_has_fp(s))
		return ut_path_flow(f, target, s, function);
	err = add_site(f, pc, 0, s, function, callee, false);
	if (err)
		return err;
	root = root_of(f, callee);
	if (!root->returns)
		return 0;
	return also_returned(f, function, s, &root->ending);
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
	size_t len = 0;
	bool doubtful;
	__u32 callee;
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
	err = ut_path_declare(f, target, false, &callee);
	if (err || callee == NONE)
		return err;
	function_nr(f, callee)->called = true;
	root_of(f, callee)->is_sure = true;
	err = ut_path_enter(f, target, false, &callee);
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
	return ut_path_returned(f, function, &(struct ending) {
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
		return ut_path_jump(f, pc, insn->imm, s, function, false);
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
		return ut_path_jump(f, pc, insn->imm, &taken, function, false);
	case INSN_JUMP_REG:
		return ut_jump_by_reg(f, insn, pc, s, function);
	case INSN_JUMP_TABLE:
		table = ut_state_table(s, insn);
		table.size = 8;
		if (table.what == ELEMENT)
			return ut_jump_by_table(f, pc, &table, 0, s, function);
		return ut_path_leave(f, s, function, false);
	case INSN_JUMP_MEMORY:
		target = map_get(&f->build->imports, insn->imm);
		if (target == UT_IMPORT_NO_RETURN)
			return 0;
		if (target == NONE)
			return ut_path_leave(f, s, function, true);
		err = ut_path_enter(f, target, false, &callee);
		return err ? err : ut_path_jump(f, pc, target, s, function, false);
	case INSN_JUMP_UNKNOWN:
		return ut_path_leave(f, s, function, false);
	case INSN_RETURN:
		return do_return(f, insn, s, function);
	case INSN_STOP:
		return 0;
	default:
		*goes_on = true;
		ut_state_execute(s, insn, pc);
		return insn->op == INSN_ADDRESS ? ut_jump_add_label(f, insn->imm, function) : 0;
	}
}

/* Repeat the effect of an instruction that was followed, whose path went on behind it. */
void ut_path_skip(struct ut_follow *f, const struct insn *insn, __u64 pc, struct state *s)
{
	const struct function *root = NULL;
	__u32 callee = NONE, target;

	switch (insn->op) {
	case INSN_CALL:
		if (is_learnt(f, insn, pc)) {
			ut_state_push(s, pc);
			return;
		}
		callee = keyed_get(&f->functions, insn->imm);
		break;
	case INSN_CALL_UNKNOWN:
		target = map_get(&f->build->imports, insn->imm);
		if (target < UT_IMPORT_NO_RETURN)
			callee = keyed_get(&f->functions, target);
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
			return ut_path_leave(f, &s, block.function, false);
		if (pc != block.addr && ut_piece_is_beyond_padding(f, pc))
			return 0;
		if (pc != block.addr && (bit(f->leaders, index) || ut_piece_is_boundary(f, pc)))
			return ut_path_jump(f, pc, pc, &s, block.function, true);
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

bool ut_path_is_believed(const struct ut_follow *f, __u32 function)
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
		return ut_path_flow(f, block->addr, &s, conflict->function);
	if (!ut_path_is_believed(f, conflict->function)) {
		root_of(f, conflict->function)->bad = true;
		return 0;
	}
	if (!ut_path_is_believed(f, block->function)) {
		root_of(f, block->function)->bad = true;
		return ut_path_flow(f, block->addr, &s, conflict->function);
	}
	joined = *state_nr(f, block->state);
	if (!ut_state_join(&joined, &s))
		return 0;
	err = ut_path_intern(f, &joined, &state);
	if (err)
		return err;
	block_nr(f, conflict->block)->state = state;
	return queue_block(f, conflict->block);
}

int ut_path_run(struct ut_follow *f)
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
			err = ut_jump_follow_entry(f, number);
		}
	}
	return err;
}
