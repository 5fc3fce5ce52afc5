// SPDX-License-Identifier: GPL-2.0
/*
 * The known state of registers and stack at an instruction, how the instruction changes
 * it, and its rule.
 */

#include "state.h"

static const struct value unknown;

static bool is_opaque(const struct value *value)
{
	return value->what == OPAQUE;
}

static bool on_stack(const struct value *value)
{
	return value->what == CFA || value->what == OPAQUE;
}

static bool is_entry(const struct value *value, unsigned int reg)
{
	return value->what == ENTRY && value->reg == reg;
}

/* Does it have to be restored for the caller? */
static bool is_saved(const struct value *value)
{
	return value->what == ENTRY &&
	       (value->reg == RETURN_ADDRESS || PRESERVED & 1U << value->reg);
}

static void drop_slot(struct state *s, __u32 i)
{
	s->nr_slots--;
	memmove(&s->slots[i], &s->slots[i + 1], (s->nr_slots - i) * sizeof(*s->slots));
	memset(&s->slots[s->nr_slots], 0, sizeof(*s->slots));
}

/* Memory at @to + @off, of @size bytes, is overwritten. */
static void overwrite(struct state *s, const struct value *to, __s64 off, __u32 size)
{
	__s64 at = to->off + off;
	__u32 i;

	for (i = 0; i < s->nr_slots; i++) {
		const struct slot *slot = &s->slots[i];

		if (slot->opaque == is_opaque(to) && slot->at < at + size &&
		    slot->at + 8 > at)
			drop_slot(s, i--);
	}
}

static void store(struct state *s, const struct value *to, __s64 off,
		  const struct value *value)
{
	struct slot slot = { .opaque = is_opaque(to), .value = *value };
	__s64 at = to->off + off;
	__u32 i;

	overwrite(s, to, off, 8);
	if (s->nr_slots == MAX_SLOTS || at != (__s32)at ||
	    (!is_saved(value) && !on_stack(value)))
		return;
	slot.at = at;
	for (i = 0; i < s->nr_slots; i++) {
		if (s->slots[i].opaque > slot.opaque ||
		    (s->slots[i].opaque == slot.opaque && s->slots[i].at > slot.at))
			break;
	}
	memmove(&s->slots[i + 1], &s->slots[i], (s->nr_slots - i) * sizeof(slot));
	s->slots[i] = slot;
	s->nr_slots++;
}

static struct value load(const struct state *s, const struct value *from, __s64 off)
{
	__u32 i;

	for (i = 0; on_stack(from) && i < s->nr_slots; i++) {
		const struct slot *slot = &s->slots[i];

		if (slot->opaque == is_opaque(from) && slot->at == from->off + off)
			return slot->value;
	}
	return unknown;
}

/* Words further below SP than the red zone can be overwritten at any time. */
#define RED_ZONE	128

static void drop_below(struct state *s, __s64 zone)
{
	const struct value *sp = &s->regs[INSN_RSP];
	__u32 i;

	for (i = 0; on_stack(sp) && i < s->nr_slots; i++) {
		if (s->slots[i].opaque == is_opaque(sp) &&
		    s->slots[i].at < sp->off - zone)
			drop_slot(s, i--);
	}
}

/* Forget all values that are relative to the old something. */
static void drop_opaque(struct state *s)
{
	__u32 i;

	for (i = 0; i < INSN_NR_REGS; i++) {
		if (s->regs[i].what == OPAQUE)
			s->regs[i] = unknown;
	}
	for (i = 0; i < s->nr_slots; i++) {
		if (s->slots[i].opaque || s->slots[i].value.what == OPAQUE)
			drop_slot(s, i--);
	}
	s->opaque = 0;
}

/* A limit without registers does not matter. */
static void tidy_limits(struct state *s)
{
	if (!s->compared_regs)
		s->compared = 0;
	if (!s->compared)
		s->compared_regs = 0;
	if (!s->values_regs)
		s->values = 0;
	if (!s->values)
		s->values_regs = 0;
}

static void set_reg(struct state *s, unsigned int reg, struct value value, __u64 pc)
{
	if (reg >= INSN_NR_REGS)
		return;
	s->compared_regs &= ~(1U << reg);
	s->values_regs &= ~(1U << reg);
	if (reg == INSN_RSP && !on_stack(&value)) {
		/* Wherever SP is now, words pushed there can be found there. */
		drop_opaque(s);
		s->opaque = pc;
		value = (struct value){ .what = OPAQUE };
	}
	s->regs[reg] = value;
}

static struct value plus(struct value to, __s64 off)
{
	__s64 sum = to.off + off;

	if (to.what == ADDRESS) {
		sum = (__u32)to.off + off;
		if (sum != (__u32)sum)
			return unknown;
	} else if (!on_stack(&to) || sum != (__s32)sum) {
		return unknown;
	}
	to.off = sum;
	return to;
}

static struct value address(__s64 addr)
{
	if (addr != (__u32)addr)
		return unknown;
	return (struct value){ .what = ADDRESS, .off = addr };
}

/* The common state of two paths that meet. Returns whether @a has changed. */
bool ut_state_join(struct state *a, const struct state *b)
{
	struct state other = *b, was = *a;
	__u32 i, k;

	if (a->opaque != other.opaque) {
		drop_opaque(a);
		drop_opaque(&other);
	}
	a->compared_regs &= a->compared == other.compared ? other.compared_regs : 0;
	a->values_regs &= a->values == other.values ? other.values_regs : 0;
	tidy_limits(a);
	if (a->equal[0] != other.equal[0] || a->equal[1] != other.equal[1])
		memset(a->equal, 0, sizeof(a->equal));
	for (i = 0; i < INSN_NR_REGS; i++) {
		if (!same_value(&a->regs[i], &other.regs[i]))
			a->regs[i] = unknown;
	}
	for (i = 0; i < a->nr_slots; i++) {
		for (k = 0; k < other.nr_slots; k++) {
			if (!memcmp(&a->slots[i], &other.slots[k], sizeof(struct slot)))
				break;
		}
		if (k == other.nr_slots)
			drop_slot(a, i--);
	}
	return memcmp(a, &was, sizeof(was));
}

/* Do two states lead to the same rules? */
bool ut_state_same_stack(const struct state *a, const struct state *b)
{
	struct state both = *a;
	unsigned int i;

	for (i = 0; i < INSN_NR_REGS; i++) {
		const struct value *x = &a->regs[i], *y = &b->regs[i];

		if (!same_value(x, y) && (is_saved(x) || is_saved(y) || on_stack(x) || on_stack(y)))
			return false;
	}
	ut_state_join(&both, b);
	return both.nr_slots == a->nr_slots;
}

void ut_state_enter(struct state *s)
{
	unsigned int i;

	memset(s, 0, sizeof(*s));
	for (i = 0; i < INSN_NR_REGS; i++)
		s->regs[i] = (struct value){ .what = ENTRY, .reg = i };
	s->regs[INSN_RSP] = (struct value){ .what = CFA, .off = -8 };
	s->slots[0] = (struct slot){
		.at = -8, .value = { .what = ENTRY, .reg = RETURN_ADDRESS },
	};
	s->nr_slots = 1;
}

static const struct value cfa = { .what = CFA };

/* Is the return address where it was? */
static bool has_return_address(const struct state *s)
{
	struct value value = load(s, &cfa, -8);

	return is_entry(&value, RETURN_ADDRESS);
}

/* After a call of a function */
void ut_state_after_call(struct state *s, unsigned int clobbers, unsigned int pops)
{
	unsigned int i;

	for (i = 0; i < INSN_NR_REGS; i++) {
		if (clobbers & 1U << i)
			s->regs[i] = unknown;
	}
	drop_below(s, 0);
	s->compared_regs = 0;
	s->values_regs = 0;
	tidy_limits(s);
	s->regs[INSN_RSP] = plus(s->regs[INSN_RSP], pops);
}

__u32 ut_state_hash(const struct state *s)
{
	size_t i, len = offsetof(struct state, slots) + s->nr_slots * sizeof(struct slot);
	__u64 hash = 0, word;

	for (i = 0; i < len; i += sizeof(word)) {
		memcpy(&word, (const char *)s + i, sizeof(word));
		hash = map_hash(hash ^ word);
	}
	return hash ^ hash >> 32;
}

bool ut_state_is_entry(const struct state *s)
{
	return s->regs[INSN_RSP].what == CFA && s->regs[INSN_RSP].off == -8 &&
	       has_return_address(s);
}

bool ut_state_has_fp(const struct state *s)
{
	return is_entry(&s->regs[INSN_RBP], INSN_RBP);
}

unsigned int ut_state_clobbers(const struct state *s)
{
	unsigned int i, clobbers = 0;

	for (i = 0; i < INSN_NR_REGS; i++) {
		if (i != INSN_RSP && !is_entry(&s->regs[i], i))
			clobbers |= 1U << i;
	}
	return clobbers;
}

struct value ut_state_table(const struct state *s, const struct insn *insn)
{
	struct value value = address(insn->imm);

	if (insn->base != INSN_NO_REG) {
		if (s->regs[insn->base].what != ADDRESS)
			return unknown;
		value = plus(s->regs[insn->base], insn->imm);
	}
	if (value.what != ADDRESS)
		return unknown;
	value.what = ELEMENT;
	value.size = insn->size;
	value.is_signed = insn->is_signed;
	if (insn->index < INSN_NR_REGS && s->values_regs & 1U << insn->index)
		value.values = s->values;
	return value;
}

/* Of an element of a table of jumps and where the elements count from */
static struct value sum(struct value a, struct value b, __s64 off)
{
	if (a.what == ADDRESS && b.what == ELEMENT)
		return sum(b, a, off);
	b = plus(b, off);
	if (a.what != ELEMENT || b.what != ADDRESS)
		return unknown;
	a.what = TARGET;
	a.base = b.off;
	return a;
}

static void kill_regs(struct state *s, const struct insn *insn, __u64 pc)
{
	unsigned int i;

	for (i = 0; i < INSN_NR_REGS; i++)
		if (insn->kills & 1U << i)
			set_reg(s, i, unknown, pc);
}

static void execute(struct state *s, const struct insn *insn, __u64 pc)
{
	struct value *regs = s->regs, a, b;

	switch (insn->op) {
	case INSN_MOVE:
		set_reg(s, insn->dst, regs[insn->src], pc);
		break;
	case INSN_MAYBE_MOVE:
		a = same_value(&regs[insn->dst], &regs[insn->src]) ? regs[insn->dst] : unknown;
		set_reg(s, insn->dst, a, pc);
		break;
	case INSN_SWAP:
		a = regs[insn->dst];
		b = regs[insn->src];
		set_reg(s, insn->dst, b, pc);
		set_reg(s, insn->src, a, pc);
		break;
	case INSN_ADD:
		set_reg(s, insn->dst, plus(regs[insn->dst], insn->imm), pc);
		break;
	case INSN_ADD_REG:
		set_reg(s, insn->dst, sum(regs[insn->base], regs[insn->src], insn->imm), pc);
		break;
	case INSN_AND:
	case INSN_OTHER:
		if (insn->op == INSN_AND)
			set_reg(s, insn->dst, unknown, pc);
		if (insn->size && insn->base != INSN_NO_REG && on_stack(&regs[insn->base]))
			overwrite(s, &regs[insn->base], insn->imm, insn->size);
		kill_regs(s, insn, pc);
		break;
	case INSN_COMPARE:
		s->compared = insn->imm >= 0 && insn->imm < MAX_TARGETS ? insn->imm + 1 : 0;
		s->compared_regs = insn->index < INSN_NR_REGS ? 1U << insn->index : 0;
		if (insn->dst < INSN_NR_REGS && insn->src < INSN_NR_REGS) {
			s->equal[0] = insn->dst;
			s->equal[1] = insn->src;
		}
		return;
	case INSN_LEA:
		set_reg(s, insn->dst, plus(regs[insn->base], insn->imm), pc);
		break;
	case INSN_ADDRESS:
		set_reg(s, insn->dst, address(insn->imm), pc);
		break;
	case INSN_LOAD:
		set_reg(s, insn->dst, load(s, &regs[insn->base], insn->imm), pc);
		break;
	case INSN_LOAD_INDEXED:
		set_reg(s, insn->dst, ut_state_table(s, insn), pc);
		break;
	case INSN_STORE:
		if (insn->base != INSN_NO_REG && on_stack(&regs[insn->base]))
			store(s, &regs[insn->base], insn->imm, &regs[insn->src]);
		break;
	case INSN_PUSH:
		a = insn->src < INSN_NR_REGS ? regs[insn->src] : unknown;
		set_reg(s, INSN_RSP, plus(regs[INSN_RSP], -insn->size), pc);
		if (insn->size == 8)
			store(s, &regs[INSN_RSP], 0, &a);
		else
			overwrite(s, &regs[INSN_RSP], 0, insn->size);
		break;
	case INSN_POP:
		a = insn->size == 8 ? load(s, &regs[INSN_RSP], 0) : unknown;
		set_reg(s, INSN_RSP, plus(regs[INSN_RSP], insn->size), pc);
		set_reg(s, insn->dst, a, pc);
		break;
	case INSN_LEAVE:
		a = load(s, &regs[INSN_RBP], 0);
		set_reg(s, INSN_RSP, plus(regs[INSN_RBP], 8), pc);
		set_reg(s, INSN_RBP, a, pc);
		break;
	default:
		/* loop and its kind */
		kill_regs(s, insn, pc);
		break;
	}
	drop_below(s, RED_ZONE);
}

/* The effect of an instruction that does not jump */
void ut_state_execute(struct state *s, const struct insn *insn, __u64 pc)
{
	__u16 compared, values, to = insn->op == INSN_MOVE ? 1U << insn->dst : insn->kills;

	memset(s->equal, 0, sizeof(s->equal));
	if (insn->sets_flags)
		s->compared_regs = 0;
	compared = s->compared_regs;
	values = s->values_regs;
	/* Most instructions do not matter. */
	if (insn->op != INSN_OTHER || insn->size || insn->kills)
		execute(s, insn, pc);
	if (insn->copy_of < INSN_NR_REGS) {
		s->compared_regs |= compared >> insn->copy_of & 1 ? to : 0;
		s->values_regs |= values >> insn->copy_of & 1 ? to : 0;
	}
	tidy_limits(s);
}

/* Behind a branch that is taken only up to the compared value */
void ut_state_note_limit(struct state *s)
{
	s->values = s->compared;
	s->values_regs = s->compared_regs;
}

/* Two registers that are equal: as where the stack is touched page by page */
void ut_state_note_equal(struct state *s)
{
	struct value *a = &s->regs[s->equal[0]], *b = &s->regs[s->equal[1]];

	if (a->what == CFA && b == &s->regs[INSN_RSP])
		*b = *a;
	else if (b->what == CFA && a == &s->regs[INSN_RSP])
		*a = *b;
}

/* DWARF has other numbers for some registers. */
static const __u8 dwarf_regs[INSN_NR_REGS] = {
	0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15
};

static struct unwind_table_loc reg_loc(enum unwind_table_where where, unsigned int reg,
				       __s32 off)
{
	return (struct unwind_table_loc){ .where = where, .reg = dwarf_regs[reg], .off = off };
}

/* A word of the stack that can be reached by a register */
static bool find_word(const struct state *s, enum what wanted, unsigned int of,
		      unsigned int reg, struct unwind_table_loc *loc, struct value *value)
{
	const struct value *base = &s->regs[reg];
	__u32 i;

	for (i = 0; on_stack(base) && i < s->nr_slots; i++) {
		const struct slot *slot = &s->slots[i];

		if (slot->opaque != is_opaque(base) || slot->value.what != wanted ||
		    (wanted == ENTRY && slot->value.reg != of))
			continue;
		*loc = reg_loc(UNWIND_TABLE_REG_DEREF, reg, slot->at - base->off);
		*value = slot->value;
		return true;
	}
	return false;
}

static bool cfa_is_in(const struct state *s, unsigned int reg, struct unwind_table_rule *rule)
{
	if (s->regs[reg].what != CFA)
		return false;
	rule->cfa = reg_loc(UNWIND_TABLE_REG, reg, -s->regs[reg].off);
	return true;
}

static bool find_cfa(const struct state *s, struct unwind_table_rule *rule)
{
	static const __u8 order[] = { INSN_RSP, INSN_RBP };
	struct value value;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(order); i++) {
		if (cfa_is_in(s, order[i], rule))
			return true;
	}
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		if (find_word(s, CFA, 0, order[i], &rule->cfa, &value)) {
			rule->cfa_add = -value.off;
			return true;
		}
	}
	for (i = 0; i < INSN_NR_REGS; i++) {
		if (cfa_is_in(s, i, rule))
			return true;
	}
	return false;
}

static void find_fp(const struct state *s, struct unwind_table_rule *rule)
{
	const struct value *fp = &s->regs[INSN_RBP];
	struct value value;
	__u32 i;

	if (is_entry(fp, INSN_RBP)) {
		rule->fp.where = UNWIND_TABLE_SAME;
		return;
	}
	for (i = 0; i < s->nr_slots; i++) {
		const struct slot *slot = &s->slots[i];

		if (!slot->opaque && is_entry(&slot->value, INSN_RBP)) {
			rule->fp.where = UNWIND_TABLE_CFA_DEREF;
			rule->fp.off = slot->at;
			return;
		}
	}
	if (!find_word(s, ENTRY, INSN_RBP, INSN_RSP, &rule->fp, &value))
		find_word(s, ENTRY, INSN_RBP, INSN_RBP, &rule->fp, &value);
}

/* In its place, unless that is below SP and so is anybody's; or in a register */
static bool find_ra(const struct state *s, struct unwind_table_rule *rule)
{
	const struct value *sp = &s->regs[INSN_RSP];
	unsigned int i;

	if (has_return_address(s) && (sp->what != CFA || sp->off <= -8)) {
		rule->ra.where = UNWIND_TABLE_CFA_DEREF;
		rule->ra.off = -8;
		return true;
	}
	for (i = 0; i < INSN_NR_REGS; i++) {
		if (is_entry(&s->regs[i], RETURN_ADDRESS)) {
			rule->ra = reg_loc(UNWIND_TABLE_REG, i, 0);
			return true;
		}
	}
	return false;
}

bool ut_state_rule(const struct state *s, struct unwind_table_rule *rule)
{
	memset(rule, 0, sizeof(*rule));
	if (!find_cfa(s, rule))
		return false;
	rule->kind = UNWIND_TABLE_CALLER;
	find_fp(s, rule);
	return find_ra(s, rule);
}

static unsigned int insn_reg(unsigned int dwarf)
{
	unsigned int i;

	for (i = 0; i < INSN_NR_REGS; i++) {
		if (dwarf_regs[i] == dwarf)
			return i;
	}
	return INSN_RSP;
}

/* The value at a place that a rule names */
static struct value value_at(const struct state *s, const struct unwind_table_loc *loc)
{
	switch (loc->where) {
	case UNWIND_TABLE_SAME:
		return s->regs[INSN_RBP];
	case UNWIND_TABLE_REG:
		return plus(s->regs[insn_reg(loc->reg)], loc->off);
	case UNWIND_TABLE_REG_DEREF:
		return load(s, &s->regs[insn_reg(loc->reg)], loc->off);
	case UNWIND_TABLE_CFA:
		return plus(cfa, loc->off);
	case UNWIND_TABLE_CFA_DEREF:
		return load(s, &cfa, loc->off);
	default:
		return unknown;
	}
}

enum state_verdict ut_state_agrees(const struct state *s, const struct unwind_table_rule *rule)
{
	struct unwind_table_rule own;
	struct value at, fp;

	if (!ut_state_rule(s, &own))
		return STATE_NO_RULE;
	if (rule->kind != UNWIND_TABLE_CALLER)
		return rule->kind == UNWIND_TABLE_UNKNOWN ? STATE_CANNOT_TELL :
							    STATE_DIFFERENT;
	if (!memcmp(&own, rule, sizeof(own)))
		return STATE_SAME;
	at = value_at(s, &rule->cfa);
	if (rule->cfa.where == UNWIND_TABLE_REG_DEREF)
		at = plus(at, rule->cfa_add);
	if (at.what != CFA)
		return STATE_CANNOT_TELL;
	if (at.off)
		return STATE_DIFFERENT;
	at = value_at(s, &rule->ra);
	if (!is_entry(&at, RETURN_ADDRESS))
		return STATE_DIFFERENT;
	if (own.fp.where == UNWIND_TABLE_NONE)
		return STATE_LESS;
	fp = value_at(s, &rule->fp);
	if (fp.what == ENTRY && fp.reg == INSN_RBP)
		return STATE_SAME;
	return fp.what == UNKNOWN && rule->fp.where == UNWIND_TABLE_NONE ?
		STATE_CANNOT_TELL : STATE_DIFFERENT;
}

/* An unknown value is pushed. */
void ut_state_push(struct state *s, __u64 pc)
{
	const struct insn push = { .op = INSN_PUSH, .src = INSN_NO_REG, .size = 8 };

	ut_state_execute(s, &push, pc);
}
