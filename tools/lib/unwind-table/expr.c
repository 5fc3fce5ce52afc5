// SPDX-License-Identifier: GPL-2.0
/*
 * DWARF expressions, as far as a rule can express their result; and from rows of CFI
 * to rules.
 */

#include "internal.h"

enum {
	OP_DEREF		= 0x06,
	OP_CONST1U		= 0x08,
	OP_CONST1S		= 0x09,
	OP_CONST2U		= 0x0a,
	OP_CONST2S		= 0x0b,
	OP_CONST4U		= 0x0c,
	OP_CONST4S		= 0x0d,
	OP_CONST8U		= 0x0e,
	OP_CONST8S		= 0x0f,
	OP_CONSTU		= 0x10,
	OP_CONSTS		= 0x11,
	OP_DUP			= 0x12,
	OP_DROP			= 0x13,
	OP_OVER			= 0x14,
	OP_PICK			= 0x15,
	OP_SWAP			= 0x16,
	OP_AND			= 0x1a,
	OP_MINUS		= 0x1c,
	OP_MUL			= 0x1e,
	OP_NEG			= 0x1f,
	OP_NOT			= 0x20,
	OP_OR			= 0x21,
	OP_PLUS			= 0x22,
	OP_PLUS_UCONST		= 0x23,
	OP_SHL			= 0x24,
	OP_SHR			= 0x25,
	OP_XOR			= 0x27,
	OP_EQ			= 0x29,
	OP_GE			= 0x2a,
	OP_GT			= 0x2b,
	OP_LE			= 0x2c,
	OP_LT			= 0x2d,
	OP_NE			= 0x2e,
	OP_LIT0			= 0x30,
	OP_LIT31		= 0x4f,
	OP_BREG0		= 0x70,
	OP_BREG31		= 0x8f,
	OP_BREGX		= 0x92,
	OP_NOP			= 0x96,
	OP_CALL_FRAME_CFA	= 0x9c,
};

#define MAX_STACK	16

struct stack {
	struct ut_value	values[MAX_STACK];
	unsigned int	nr;
	bool		bad;
};

static void push(struct stack *stack, struct ut_value value)
{
	if (stack->nr == MAX_STACK) {
		stack->bad = true;
		return;
	}
	stack->values[stack->nr++] = value;
}

static void push_const(struct stack *stack, __u64 value)
{
	push(stack, (struct ut_value){ .base = UT_CONST, .off = value });
}

static struct ut_value pop(struct stack *stack)
{
	if (!stack->nr) {
		stack->bad = true;
		return (struct ut_value){ };
	}
	return stack->values[--stack->nr];
}

/* The value @depth below the topmost one, once more */
static void pick(struct stack *stack, unsigned int depth)
{
	if (depth >= stack->nr) {
		stack->bad = true;
		return;
	}
	push(stack, stack->values[stack->nr - 1 - depth]);
}

static void push_reg(struct stack *stack, __u64 reg, __u64 off)
{
	struct ut_value value = { .base = UT_BASE_REG, .reg = reg, .off = off };

	if (reg == UT_REG_RA)
		value = (struct ut_value){ .base = UT_BASE_IP, .off = off };
	else if (reg >= UT_NR_REGS)
		stack->bad = true;
	push(stack, value);
}

static void deref(struct stack *stack)
{
	struct ut_value value = pop(stack);

	/* No rule uses memory at a constant, or at the IP. */
	if (value.deref || (value.base != UT_BASE_REG && value.base != UT_BASE_CFA))
		stack->bad = true;
	value.deref = true;
	push(stack, value);
}

static void add(struct stack *stack, struct ut_value value, __u64 n)
{
	if (value.deref)
		value.add += n;
	else
		value.off += n;
	push(stack, value);
}

/* Only the lowest bits of the IP are the same wherever the file is mapped. */
static void and(struct stack *stack, struct ut_value a, struct ut_value b,
		struct ut_context *context)
{
	if (a.base == UT_CONST && b.base == UT_BASE_IP) {
		and(stack, b, a, context);
		return;
	}
	if (b.base != UT_CONST || (a.base != UT_CONST && a.base != UT_BASE_IP) ||
	    (a.base == UT_BASE_IP && b.off > UT_PAGE_MASK)) {
		stack->bad = true;
		return;
	}
	if (a.base == UT_BASE_IP) {
		a.off += context->ip;
		/* A sum's bit depends on those below it as well. */
		context->ip_mask |= b.off;
	}
	push_const(stack, a.off & b.off);
}

static void binary(struct stack *stack, __u8 op, struct ut_context *context)
{
	struct ut_value b = pop(stack), a = pop(stack);

	if (stack->bad)
		return;
	if (op == OP_AND) {
		and(stack, a, b, context);
		return;
	}
	if (op == OP_PLUS && b.base == UT_CONST) {
		add(stack, a, b.off);
		return;
	}
	if (op == OP_PLUS && a.base == UT_CONST) {
		add(stack, b, a.off);
		return;
	}
	if (op == OP_MINUS && b.base == UT_CONST) {
		add(stack, a, -b.off);
		return;
	}
	if (a.base != UT_CONST || b.base != UT_CONST) {
		stack->bad = true;
		return;
	}
	switch (op) {
	case OP_MUL:
		push_const(stack, a.off * b.off);
		break;
	case OP_OR:
		push_const(stack, a.off | b.off);
		break;
	case OP_XOR:
		push_const(stack, a.off ^ b.off);
		break;
	case OP_SHL:
		push_const(stack, b.off < 64 ? a.off << b.off : 0);
		break;
	case OP_SHR:
		push_const(stack, b.off < 64 ? a.off >> b.off : 0);
		break;
	case OP_EQ:
		push_const(stack, a.off == b.off);
		break;
	case OP_GE:
		push_const(stack, (__s64)a.off >= (__s64)b.off);
		break;
	case OP_GT:
		push_const(stack, (__s64)a.off > (__s64)b.off);
		break;
	case OP_LE:
		push_const(stack, (__s64)a.off <= (__s64)b.off);
		break;
	case OP_LT:
		push_const(stack, (__s64)a.off < (__s64)b.off);
		break;
	case OP_NE:
		push_const(stack, a.off != b.off);
		break;
	default:
		stack->bad = true;
	}
}

static void unary(struct stack *stack, __u8 op)
{
	struct ut_value value = pop(stack);

	if (value.base != UT_CONST)
		stack->bad = true;
	push_const(stack, op == OP_NEG ? -value.off : ~value.off);
}

static void swap(struct stack *stack)
{
	struct ut_value b = pop(stack), a = pop(stack);

	push(stack, b);
	push(stack, a);
}

static void operation(struct ut_cursor *c, __u8 op, struct stack *stack,
		      struct ut_context *context)
{
	__u64 reg;

	if (op >= OP_LIT0 && op <= OP_LIT31) {
		push_const(stack, op - OP_LIT0);
		return;
	}
	if (op >= OP_BREG0 && op <= OP_BREG31) {
		push_reg(stack, op - OP_BREG0, ut_get_sleb(c));
		return;
	}
	switch (op) {
	case OP_CONST1U:
		push_const(stack, ut_get(c, 1));
		break;
	case OP_CONST1S:
		push_const(stack, (__s8)ut_get(c, 1));
		break;
	case OP_CONST2U:
		push_const(stack, ut_get(c, 2));
		break;
	case OP_CONST2S:
		push_const(stack, (__s16)ut_get(c, 2));
		break;
	case OP_CONST4U:
		push_const(stack, ut_get(c, 4));
		break;
	case OP_CONST4S:
		push_const(stack, (__s32)ut_get(c, 4));
		break;
	case OP_CONST8U:
	case OP_CONST8S:
		push_const(stack, ut_get(c, 8));
		break;
	case OP_CONSTU:
		push_const(stack, ut_get_uleb(c));
		break;
	case OP_CONSTS:
		push_const(stack, ut_get_sleb(c));
		break;
	case OP_BREGX:
		reg = ut_get_uleb(c);
		push_reg(stack, reg, ut_get_sleb(c));
		break;
	case OP_CALL_FRAME_CFA:
		if (!context->has_cfa)
			stack->bad = true;
		push(stack, (struct ut_value){ .base = UT_BASE_CFA });
		break;
	case OP_DEREF:
		deref(stack);
		break;
	case OP_PLUS_UCONST:
		add(stack, pop(stack), ut_get_uleb(c));
		break;
	case OP_DUP:
		pick(stack, 0);
		break;
	case OP_OVER:
		pick(stack, 1);
		break;
	case OP_PICK:
		pick(stack, ut_get(c, 1));
		break;
	case OP_DROP:
		pop(stack);
		break;
	case OP_SWAP:
		swap(stack);
		break;
	case OP_NEG:
	case OP_NOT:
		unary(stack, op);
		break;
	case OP_NOP:
		break;
	default:
		binary(stack, op, context);
	}
}

/* False if a rule cannot express it. There are no loops in it. */
static bool evaluate(const struct ut_loc *loc, struct ut_context *context,
		     struct ut_value *value)
{
	struct ut_cursor c = { .pos = loc->expr, .end = loc->expr + loc->expr_len };
	struct stack stack = { .nr = 0 };

	/* A register's expression finds the CFA on the stack. */
	if (context->has_cfa)
		push(&stack, (struct ut_value){ .base = UT_BASE_CFA });
	for (; ut_more(&c) && !stack.bad; context->work++)
		operation(&c, ut_get(&c, 1), &stack, context);
	*value = pop(&stack);
	return !c.bad && !stack.bad;
}

/*
 * Evaluate an expression when it becomes part of a state. One that does not depend on the IP is
 * never evaluated again. @has_cfa: it may use the CFA.
 */
void ut_expr_prepare(struct ut_loc *loc, bool has_cfa)
{
	struct ut_context context = { .has_cfa = has_cfa };

	loc->result = evaluate(loc, &context, &loc->value) ? UT_EVALUATED : UT_FAILS;
	if (context.ip_mask)
		loc->result = UT_DEPENDS;
}

static bool value_of(const struct ut_loc *loc, struct ut_context *context,
		     struct ut_value *value)
{
	if (loc->result == UT_DEPENDS)
		return evaluate(loc, context, value);
	*value = loc->value;
	return loc->result == UT_EVALUATED;
}

static bool fits(__u64 n)
{
	return (__s64)n == (__s32)n;
}

/* A value, or the word in memory there, as a location */
static bool loc_of_value(const struct ut_value *value, bool in_memory,
			 struct unwind_table_loc *loc)
{
	bool is_deref = in_memory || value->deref;

	/* Memory at an address from memory, or more than an offset */
	if ((in_memory && value->deref) || value->add || !fits(value->off))
		return false;
	loc->off = value->off;
	switch (value->base) {
	case UT_BASE_REG:
		loc->where = is_deref ? UNWIND_TABLE_REG_DEREF : UNWIND_TABLE_REG;
		loc->reg = value->reg;
		return true;
	case UT_BASE_CFA:
		loc->where = is_deref ? UNWIND_TABLE_CFA_DEREF : UNWIND_TABLE_CFA;
		return true;
	default:
		return false;
	}
}

static enum unwind_table_reason cfa_of(const struct ut_state *state,
				       struct ut_context *context,
				       struct unwind_table_rule *rule)
{
	struct ut_value value = { .base = UT_BASE_REG };
	__u64 add;

	switch (state->cfa.how) {
	case UT_VAL_OFFSET:
		if (state->cfa_reg >= UT_NR_REGS)
			return UNWIND_TABLE_R_REGISTER;
		value.reg = state->cfa_reg;
		value.off = state->cfa.off;
		break;
	case UT_EXPRESSION:
		context->has_cfa = false;
		if (!value_of(&state->cfa, context, &value))
			return UNWIND_TABLE_R_EXPRESSION;
		break;
	default:
		return UNWIND_TABLE_R_CFI;
	}
	add = value.add;
	value.add = 0;
	if (value.base != UT_BASE_REG || !fits(add) ||
	    !loc_of_value(&value, false, &rule->cfa))
		return UNWIND_TABLE_R_EXPRESSION;
	rule->cfa_add = (__s32)add;
	return UT_NO_REASON;
}

/* A location that is neither unspecified nor undefined */
static enum unwind_table_reason place_of(const struct ut_loc *from,
					 struct ut_context *context,
					 struct unwind_table_loc *loc)
{
	struct ut_value value = { .base = UT_BASE_CFA, .off = from->off };

	switch (from->how) {
	case UT_OFFSET:
	case UT_VAL_OFFSET:
		break;
	case UT_REGISTER:
		if ((__u64)from->off >= UT_NR_REGS)
			return UNWIND_TABLE_R_REGISTER;
		value = (struct ut_value){ .base = UT_BASE_REG, .reg = from->off };
		break;
	case UT_EXPRESSION:
	case UT_VAL_EXPRESSION:
		context->has_cfa = true;
		if (!value_of(from, context, &value))
			return UNWIND_TABLE_R_EXPRESSION;
		break;
	default:
		return UNWIND_TABLE_R_REGISTER;
	}
	if (!loc_of_value(&value, from->how == UT_OFFSET || from->how == UT_EXPRESSION,
			  loc))
		return UNWIND_TABLE_R_EXPRESSION;
	return UT_NO_REASON;
}

/* Rules take the CFA for the caller's SP. */
static bool sp_is_cfa(const struct ut_state *state, struct ut_context *context,
		      const struct unwind_table_rule *rule)
{
	struct unwind_table_loc sp = { 0 };

	if (state->sp.how == UT_UNSPECIFIED)
		return true;
	/* SP itself is always that of this frame. */
	if (state->sp.how == UT_SAME || place_of(&state->sp, context, &sp) != UT_NO_REASON)
		return false;
	if (sp.where == UNWIND_TABLE_CFA)
		return !sp.off;
	return !rule->cfa_add && !memcmp(&sp, &rule->cfa, sizeof(sp));
}

static enum unwind_table_reason ra_of(const struct ut_state *state,
				      struct ut_context *context,
				      struct unwind_table_rule *rule)
{
	enum unwind_table_reason reason = place_of(&state->ra, context, &rule->ra);

	if (reason == UT_NO_REASON && rule->ra.where == UNWIND_TABLE_CFA)
		reason = UNWIND_TABLE_R_EXPRESSION;
	return reason;
}

static struct unwind_table_loc fp_of(const struct ut_state *state,
				     struct ut_context *context)
{
	const struct unwind_table_loc none = { .where = UNWIND_TABLE_NONE };
	const struct unwind_table_loc same = { .where = UNWIND_TABLE_SAME };
	struct unwind_table_loc fp = none;

	/*
	 * CFI that says nothing about FP means that the function has not touched
	 * it. CFI that says that FP is lost means that it has: a caller that needs
	 * FP would be looked for in the wrong place.
	 */
	if (state->fp.how == UT_UNSPECIFIED || state->fp.how == UT_SAME)
		return same;
	if (place_of(&state->fp, context, &fp) != UT_NO_REASON)
		return none;
	if (fp.where == UNWIND_TABLE_REG && fp.reg == UT_REG_FP && !fp.off)
		return same;
	return fp;
}

enum unwind_table_reason ut_rule_of(const struct ut_state *state, bool signal,
				    struct ut_context *context,
				    struct unwind_table_rule *rule)
{
	enum unwind_table_reason reason;

	memset(rule, 0, sizeof(*rule));
	/* An outermost frame needs no CFA. */
	if (state->ra.how == UT_UNDEFINED) {
		rule->kind = UNWIND_TABLE_OUTERMOST;
		return UT_NO_REASON;
	}
	rule->kind = UNWIND_TABLE_CALLER;
	if (signal)
		rule->flags = UNWIND_TABLE_SIGNAL;
	reason = cfa_of(state, context, rule);
	if (reason == UT_NO_REASON && !sp_is_cfa(state, context, rule))
		reason = UNWIND_TABLE_R_SP;
	if (reason == UT_NO_REASON)
		reason = ra_of(state, context, rule);
	rule->fp = fp_of(state, context);
	return reason;
}
