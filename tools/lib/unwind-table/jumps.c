// SPDX-License-Identifier: GPL-2.0
/*
 * Jumps whose targets are computed: by tables, whose ends have to be found, and to labels of the
 * same function whose addresses it takes.
 */

#include "paths.h"

/* How far before an address the instruction that leads to it is looked for */
#define MAX_BACK	4096
/*
 * Unused entries before the first used one: a table by widths may start at 8. Most use the third
 * one.
 */
#define MAX_UNUSED	4
#define FIRST_USED	2

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

	if (!has_code(f, addr, &index))
		return false;
	while (!bit(f->leaders, index)) {
		/* Not reached, unless there is an instruction that goes on beyond it */
		if (addr - pc == MAX_BACK || !index || !ut_work(f->work, 1))
			return true;
		pc--;
		index--;
	}
	number = keyed_get(&f->blocks, pc);
	if (number == NONE)
		return true;
	block = block_nr(f, number);
	there = *state_nr(f, block->state);
	if (root_of(f, block->function)->bad)
		return true;
	while (pc < addr) {
		struct insn insn;

		if (!ut_work(f->work, WORK_INSN) || !decode_at(f, pc, &index, &insn))
			return true;
		is_reached &= bit(f->visited, index);
		if (is_reached)
			ut_path_skip(f, &insn, pc, &there);
		pc += insn.len;
	}
	if (pc != addr || !has_code(f, addr, &index))
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
	return table->values && piece_at(f, *target) && !ut_piece_is_boundary(f, *target);
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
int ut_jump_follow_entry(struct ut_follow *f, __u32 number)
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
		err = ut_path_flow(f, target, &s, jump->function);
	if (err || !next_entry(&jump->table, &jump->next, leads))
		return err;
	jump->queued = true;
	return array_push(&f->waiting, number);
}

int ut_jump_by_table(struct ut_follow *f, __u64 pc, const struct value *table, __u64 base,
		     const struct state *s, __u32 function)
{
	struct jump jump = {
		.base = base, .table = *table, .function = function,
		.next = table->values ? 0 : FIRST_USED,
	};
	__u32 number = keyed_get(&f->jumps, pc);
	int err;

	if (!ut_piece_find_bounds(f, pc, &jump.start, &jump.end))
		return -E2BIG;
	if (!ut_starts_add_data(&f->build->starts, table_start(table)))
		return -ENOMEM;
	err = ut_path_intern(f, s, &jump.state);
	if (err)
		return err;
	if (number == NONE) {
		err = keyed_grow(&f->jumps, pc);
		if (err)
			return err;
		number = f->jumps.all.nr++;
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

	for (i = f->labels.all.nr; i-- && found < MAX_LABELS && !err;) {
		struct label label = *label_nr(f, i);

		if (!ut_work(f->work, 1))
			return -E2BIG;
		/* Those of a function are near to each other in the list. */
		if (root_of(f, label.function) != root_of(f, open->function))
			continue;
		found++;
		if (fits(f, label.addr, &s))
			err = ut_path_flow(f, label.addr, &s, open->function);
	}
	return err;
}

static int add_open(struct ut_follow *f, __u64 pc, const struct state *s, __u32 function)
{
	__u32 number = keyed_get(&f->opens, pc), state;
	struct function *root = root_of(f, function);
	struct unwind_table_rule rule;
	int err = 0;

	root->is_open = true;
	if (root->returns)
		err = ut_path_returned(f, function, &root->ending);
	/* Without a rule here, there is none where it leads to. */
	if (!err && !ut_state_rule(s, &rule))
		return 0;
	if (!err)
		err = ut_path_intern(f, s, &state);
	if (!err && number == NONE) {
		number = f->opens.all.nr;
		err = keyed_grow(&f->opens, pc);
		if (!err)
			f->opens.all.nr++;
	}
	if (err)
		return err;
	*open_nr(f, number) = (struct open){ pc, state, function };
	return follow_open(f, open_nr(f, number));
}

/* An address of code is computed, which is not where a function starts */
int ut_jump_add_label(struct ut_follow *f, __u64 addr, __u32 function)
{
	__u64 index;
	__u32 i;
	int err;

	if (!has_code(f, addr, &index) || keyed_get(&f->labels, addr) != NONE)
		return 0;
	i = keyed_get(&f->functions, addr);
	if (i != NONE && (function_nr(f, i)->certain || function_nr(f, i)->called))
		return 0;
	err = keyed_grow(&f->labels, addr);
	if (err)
		return err;
	*label_nr(f, f->labels.all.nr++) = (struct label){ addr, function };
	for (i = f->opens.all.nr; i-- && !err;) {
		struct open open = *open_nr(f, i);

		if (!ut_work(f->work, 1))
			return -E2BIG;
		if (root_of(f, open.function) == root_of(f, function)) {
			struct state s = *state_nr(f, open.state);

			if (fits(f, addr, &s))
				err = ut_path_flow(f, addr, &s, open.function);
		}
	}
	return err;
}

int ut_jump_by_reg(struct ut_follow *f, const struct insn *insn, __u64 pc,
		   const struct state *s, __u32 function)
{
	const struct value *to = &s->regs[insn->src];

	if (to->what == TARGET)
		return ut_jump_by_table(f, pc, to, to->base, s, function);
	if (to->what == ELEMENT && to->size == 8)
		return ut_jump_by_table(f, pc, to, 0, s, function);
	if (to->what == ADDRESS)
		return ut_path_jump(f, pc, (__u32)to->off, s, function, false);
	if (!ut_state_is_entry(s))
		return add_open(f, pc, s, function);
	return ut_path_leave(f, s, function, false);
}
