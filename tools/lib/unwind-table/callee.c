// SPDX-License-Identifier: GPL-2.0
/*
 * Code whose CFA is in a callee-saved register, as _dl_runtime_resolve_*() of ld.so. In a
 * caller's frame that register is not known. But if the frame is below one known function,
 * which saves the register first of all and always in the same place, its value is there.
 *
 * So the rule holds for return addresses, which are looked up by the byte before. The first
 * byte of the call keeps its rule: in a topmost frame the register is known. And where the called
 * function has not saved the register yet, a walk has to end.
 */

#include <errno.h>
#include <stdlib.h>

#include "insn.h"
#include "internal.h"

#define MAX_SLOT	(128 + 8)	/* The red zone, and the return address above it */
#define MAX_PARTS	8		/* A function with its cold parts */
#define REFUSED		1		/* Not an error: there is no rule. */

/* A direct call in such code, by addresses: from its second byte on */
struct site {
	__u64				target;
	__u64				start;
	__u64				end;
	struct unwind_table_rule	rule;
};

struct ut_callees {
	struct ut_build			*build;
	const struct ut_fdes		*fdes;
	struct ut_machine		machine;
	struct insn_decoder		*decoder;
	struct array			sites;
	struct array			patches;
	struct map			targets;	/* of the sites */
	struct map			calls;		/* sites; and targets with other calls */
	const struct unwind_table_rule	*rule;		/* of the code that is looked at */
	/* The function that is looked at */
	const struct ut_fde		*parts[MAX_PARTS];
	const struct ut_segment		*segment;	/* of the part that is looked at */
	unsigned int			nr_parts;
	__s64				slot;		/* from the CFA, 0: nothing is saved yet */
	__u64				saved;		/* it is saved from this address on */
	bool				restored;	/* The register has its old value again, */
	bool				above;		/* or SP is above the place where it was. */
	bool				ends;		/* No path continues behind this. */
};

typedef int (*each_t)(struct ut_callees *c, const struct insn *insn, __u64 addr);

/* Call @each for the instructions of a part of a segment, by offsets in the file. */
static int decode(struct ut_callees *c, const struct ut_segment *segment, __u64 start, __u64 end,
		  each_t each)
{
	struct insn insn;
	__u8 code[16];
	int err = 0;

	for (; start < end && !err; start += insn.len) {
		__u64 addr = ut_addr_of(segment, start);
		size_t len = ut_elf_read_code(&c->build->elf, segment, start, code, sizeof(code));

		if (!ut_work(&c->build->work, UT_WORK_READ))
			return -E2BIG;
		if (!ut_insn_decode(c->decoder, code, len, addr, &insn))
			return REFUSED;
		err = each(c, &insn, addr);
	}
	return err;
}

static int add_site(struct ut_callees *c, const struct insn *insn, __u64 addr)
{
	struct site *site;
	int err;

	if (insn->op != INSN_CALL || !ut_elf_code_at(&c->build->elf, insn->imm))
		return 0;
	err = array_grow(&c->sites);
	if (!err)
		err = map_add(&c->calls, addr, 0);
	if (!err && map_get(&c->targets, insn->imm) == NONE)
		err = map_add(&c->targets, insn->imm, 0);
	if (err)
		return err;
	site = (struct site *)c->sites.items + c->sites.nr++;
	*site = (struct site){ insn->imm, addr + 1, addr + insn->len, *c->rule };
	return 0;
}

static bool is_known(const struct unwind_table_loc *loc)
{
	return (loc->where != UNWIND_TABLE_REG && loc->where != UNWIND_TABLE_REG_DEREF) ||
	       loc->reg == UT_REG_SP || loc->reg == UT_REG_FP;
}

/* Note calls in code, by offsets in the file, whose rule may take the CFA from a register. */
int ut_callees_note(struct ut_build *build, __u64 start, __u64 end,
		    const struct unwind_table_rule *rule)
{
	const struct ut_segment *segment = build->elf.code;
	struct ut_callees *c = build->callees;
	int err;

	if (build->patches || rule->cfa.where != UNWIND_TABLE_REG || rule->flags ||
	    !is_known(&rule->ra) || !is_known(&rule->fp))
		return 0;
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return -ENOMEM;
		build->callees = c;
		c->build = build;
		c->decoder = ut_insn_decoder_new();
		c->sites.size = sizeof(struct site);
		c->patches.size = sizeof(struct ut_patch);
	}
	while (start - segment->offset >= segment->len)
		segment++;
	c->rule = rule;
	err = c->decoder ? decode(c, segment, start, end, add_site) : 0;
	return err == REFUSED ? 0 : err;
}

void ut_callees_free(struct ut_callees *c)
{
	if (!c)
		return;
	ut_insn_decoder_free(c->decoder);
	free(c->sites.items);
	free(c->patches.items);
	free(c->machine.stack);
	map_free(&c->targets);
	map_free(&c->calls);
	free(c);
}

/* Something that looks like a call: is it one of a site's target from elsewhere? */
static int note_call(void *data, __u64 addr, __u64 target)
{
	struct ut_callees *c = data;

	if (map_get(&c->targets, target) == NONE || map_get(&c->calls, addr) != NONE ||
	    map_get(&c->calls, target) != NONE)
		return 0;
	return map_add(&c->calls, target, 0);
}

static const struct ut_fde *fde_of(const struct ut_callees *c, __u64 addr)
{
	const struct ut_segment *segment = ut_elf_code_at(&c->build->elf, addr);
	size_t low = 0, high = c->fdes->nr_fdes;

	if (!segment)
		return NULL;
	addr = ut_offset_of(segment, addr);
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->fdes->fdes[mid].start > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low && addr < c->fdes->fdes[low - 1].end ? &c->fdes->fdes[low - 1] : NULL;
}

/* A jump has to stay in the function; the FDE to which it leads is a part of that. */
static int jump_to(struct ut_callees *c, __u64 addr)
{
	const struct ut_fde *fde = fde_of(c, addr);
	unsigned int i;

	for (i = 0; i < c->nr_parts && c->parts[i] != fde; i++)
		;
	if (!fde || i == MAX_PARTS || (!i && addr < c->saved))
		return REFUSED;
	if (i == c->nr_parts)
		c->parts[c->nr_parts++] = fde;
	return 0;
}

/* Up to where the register is saved, the instructions are in sequence. */
static int look_at_start(struct ut_callees *c, const struct insn *insn, __u64 addr)
{
	unsigned int reg = c->machine.kept_reg;

	(void)addr;
	if (insn->op == INSN_PUSH || insn->op == INSN_STORE)
		return 0;
	return (insn->op >= INSN_CALL && insn->op != INSN_COMPARE) || insn->dst == reg ||
	       insn->src == reg || insn->kills & 1U << reg ? REFUSED : 0;
}

/* After that, its place is not written, even when the register is restored. */
static int look_at_rest(struct ut_callees *c, const struct insn *insn, __u64 addr)
{
	bool is_over = c->restored || c->above;

	(void)addr;
	c->ends = false;
	switch (insn->op) {
	case INSN_POP:
		c->restored |= insn->dst == c->machine.kept_reg;
		return 0;
	case INSN_RETURN:
	case INSN_STOP:
		c->restored = false;
		c->ends = true;
		return 0;
	case INSN_JUMP:
	case INSN_BRANCH:
		c->ends = insn->op == INSN_JUMP;
		return is_over ? REFUSED : jump_to(c, insn->imm);
	case INSN_CALL:
	case INSN_CALL_UNKNOWN:
		/* A call at the end of a part does not return. */
		c->ends = true;
		return is_over ? REFUSED : 0;
	case INSN_PUSH:
	case INSN_STORE:
		return is_over ? REFUSED : 0;
	case INSN_JUMP_REG ... INSN_JUMP_UNKNOWN:
		return REFUSED;
	case INSN_OTHER:
		return is_over && insn->size ? REFUSED : 0;
	case INSN_ADD:
		/* SP is above the place now, and may be below it again. */
		c->restored |= c->above && insn->dst == INSN_RSP;
		return 0;
	default:
		return 0;
	}
}

/* Look at code of the function with one row of CFI. */
static int look(void *data, __u64 start, __u64 end, const struct ut_state *state)
{
	struct ut_callees *c = data;

	if (!state || (c->slot && state->kept != c->slot))
		return REFUSED;
	if (!c->slot && state->kept)
		c->saved = start - c->segment->offset + c->segment->addr;
	c->slot = state->kept;
	c->above = state->cfa.how == UT_VAL_OFFSET && state->cfa_reg == UT_REG_SP &&
		   state->cfa.off < -c->slot;
	return decode(c, c->segment, start, end, c->slot ? look_at_rest : look_at_start);
}

/* Does the function that begins at an address save the register, and where? 0 if it does */
static int look_at(struct ut_callees *c, __u64 addr, unsigned int reg)
{
	const struct ut_fde *fde = fde_of(c, addr);
	unsigned int i;
	int err = 0;

	if (!fde || fde_of(c, addr - 1) == fde)
		return REFUSED;
	c->machine = (struct ut_machine){
		.look = look, .data = c, .kept_reg = reg,
		.stack = c->machine.stack, .max = c->machine.max,
	};
	c->slot = 0;
	c->parts[0] = fde;
	c->nr_parts = 1;
	for (i = 0; i < c->nr_parts && !err; i++) {
		c->restored = false;
		c->segment = &c->build->elf.code[c->parts[i]->segment];
		err = ut_cfi_run(c->build, c->fdes, c->parts[i], 0, &c->machine, NULL);
		if (!err && (!c->ends || c->slot > -16 || c->slot < -MAX_SLOT || c->slot % 8))
			err = REFUSED;
	}
	return err;
}

static int add_patch(struct ut_callees *c, __u64 addr, __u64 end,
		     const struct unwind_table_rule *rule)
{
	const struct ut_segment *segment = ut_elf_code_at(&c->build->elf, addr);
	__u64 start = ut_offset_of(segment, addr);
	int err = array_grow(&c->patches);

	if (!err)
		((struct ut_patch *)c->patches.items)[c->patches.nr++] =
			(struct ut_patch){ start, start + end - addr, *rule };
	return err;
}

/* The calls of one function */
static int add_patches(struct ut_callees *c, const struct site *sites, size_t nr)
{
	static const struct unwind_table_rule unknown = { .kind = UNWIND_TABLE_UNKNOWN };
	unsigned int reg = sites->rule.cfa.reg;
	__u64 addr = sites->target;
	size_t i;
	int err;

	for (i = 1; i < nr && sites[i].rule.cfa.reg == reg; i++)
		;
	if (i < nr || map_get(&c->calls, addr) != NONE ||
	    ut_starts_has(c->build, UT_START_ADDRESS, addr) ||
	    ut_starts_has(c->build, UT_START_POINTER, addr))
		return 0;
	err = look_at(c, addr, reg);
	if (!err && addr < c->saved)
		err = add_patch(c, addr, c->saved, &unknown);
	for (i = 0; i < nr && !err; i++) {
		struct unwind_table_rule rule = sites[i].rule;

		rule.cfa_add = rule.cfa.off;
		rule.cfa = (struct unwind_table_loc){
			.where = UNWIND_TABLE_REG_DEREF, .reg = UT_REG_SP, .off = c->slot,
		};
		err = add_patch(c, sites[i].start, sites[i].end, &rule);
	}
	return err == REFUSED ? 0 : err;
}

/* All rows of @build were made. It gets patches if they have to be made again, with other rules. */
int ut_callees_find(struct ut_build *build, const struct ut_fdes *fdes)
{
	static const struct ut_patch last = { .start = ~0ULL };
	struct ut_callees *c = build->callees;
	struct site *sites;
	size_t i, n;
	int err;

	if (!c || !c->sites.nr)
		return 0;
	c->fdes = fdes;
	sites = c->sites.items;
	/* By target, which comes first; and patches by start */
	qsort(sites, c->sites.nr, sizeof(*sites), ut_compare_numbers);
	err = ut_starts_find_calls(build, note_call, c);
	for (i = 0; i < c->sites.nr && !err; i += n) {
		for (n = 1; i + n < c->sites.nr && sites[i + n].target == sites[i].target; n++)
			;
		err = add_patches(c, &sites[i], n);
	}
	if (err || !c->patches.nr)
		return err;
	qsort(c->patches.items, c->patches.nr, sizeof(last), ut_compare_numbers);
	err = array_grow(&c->patches);
	if (err)
		return err;
	build->patches = c->patches.items;
	((struct ut_patch *)c->patches.items)[c->patches.nr] = last;
	return 0;
}
