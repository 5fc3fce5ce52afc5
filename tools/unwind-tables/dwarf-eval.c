// SPDX-License-Identifier: GPL-2.0
/* The caller of a frame, as a rule has it and as elfutils does, for comparison */
#include <dwarf.h>
#include <string.h>

#include "dwarf-eval.h"

#define STACK_SIZE	64

struct stack {
	__u64 values[STACK_SIZE];
	unsigned int depth;
	/* It had too many values, or too few. */
	bool bad;
};

/* The finalizer of splitmix64 */
static __u64 mix(__u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

void machine_init(struct machine *machine, __u64 seed, __u64 ip)
{
	int i;

	machine->seed = seed;
	for (i = 0; i < NR_REGS; i++)
		machine->regs[i] = mix(seed + i + 1);
	machine->regs[REG_IP] = ip;
	machine->cfa = 0;
}

__u64 machine_read(const struct machine *machine, __u64 address)
{
	return mix(address ^ mix(machine->seed));
}

static void push(struct stack *stack, __u64 value)
{
	if (stack->depth == STACK_SIZE)
		stack->bad = true;
	else
		stack->values[stack->depth++] = value;
}

static __u64 pop(struct stack *stack)
{
	if (stack->depth)
		return stack->values[--stack->depth];
	stack->bad = true;
	return 0;
}

static __u64 peek(struct stack *stack, __u64 index)
{
	if (index < stack->depth)
		return stack->values[stack->depth - 1 - index];
	stack->bad = true;
	return 0;
}

static bool eval_binary(struct stack *stack, __u8 atom)
{
	__u64 b = pop(stack), a = pop(stack);
	__s64 sa = a, sb = b;

	switch (atom) {
	case DW_OP_plus:
		push(stack, a + b);
		return true;
	case DW_OP_minus:
		push(stack, a - b);
		return true;
	case DW_OP_mul:
		push(stack, a * b);
		return true;
	case DW_OP_and:
		push(stack, a & b);
		return true;
	case DW_OP_or:
		push(stack, a | b);
		return true;
	case DW_OP_xor:
		push(stack, a ^ b);
		return true;
	case DW_OP_shl:
		push(stack, b < 64 ? a << b : 0);
		return true;
	case DW_OP_shr:
		push(stack, b < 64 ? a >> b : 0);
		return true;
	case DW_OP_shra:
		push(stack, sa >> (b < 64 ? b : 63));
		return true;
	case DW_OP_eq:
		push(stack, a == b);
		return true;
	case DW_OP_ne:
		push(stack, a != b);
		return true;
	case DW_OP_ge:
		push(stack, sa >= sb);
		return true;
	case DW_OP_gt:
		push(stack, sa > sb);
		return true;
	case DW_OP_le:
		push(stack, sa <= sb);
		return true;
	case DW_OP_lt:
		push(stack, sa < sb);
		return true;
	default:
		return false;
	}
}

static bool eval_op(const struct machine *machine, struct stack *stack,
		    const Dwarf_Op *op)
{
	__u64 a, b;

	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
		push(stack, op->atom - DW_OP_lit0);
		return true;
	}
	if (op->atom >= DW_OP_breg0 && op->atom < DW_OP_breg0 + NR_REGS) {
		push(stack, machine->regs[op->atom - DW_OP_breg0] + op->number);
		return true;
	}

	switch (op->atom) {
	case DW_OP_bregx:
		if (op->number >= NR_REGS)
			return false;
		push(stack, machine->regs[op->number] + op->number2);
		return true;
	/* libdw has extended their signs. */
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_const2u:
	case DW_OP_const2s:
	case DW_OP_const4u:
	case DW_OP_const4s:
	case DW_OP_const8u:
	case DW_OP_const8s:
	case DW_OP_constu:
	case DW_OP_consts:
	case DW_OP_addr:
		push(stack, op->number);
		return true;
	case DW_OP_call_frame_cfa:
		push(stack, machine->cfa);
		return true;
	case DW_OP_plus_uconst:
		push(stack, pop(stack) + op->number);
		return true;
	case DW_OP_deref:
		push(stack, machine_read(machine, pop(stack)));
		return true;
	case DW_OP_neg:
		push(stack, -pop(stack));
		return true;
	case DW_OP_not:
		push(stack, ~pop(stack));
		return true;
	case DW_OP_dup:
		push(stack, peek(stack, 0));
		return true;
	case DW_OP_over:
		push(stack, peek(stack, 1));
		return true;
	case DW_OP_pick:
		push(stack, peek(stack, op->number));
		return true;
	case DW_OP_drop:
		pop(stack);
		return true;
	case DW_OP_swap:
		a = pop(stack);
		b = pop(stack);
		push(stack, a);
		push(stack, b);
		return true;
	case DW_OP_nop:
		return true;
	default:
		return eval_binary(stack, op->atom);
	}
}

bool dwarf_eval(const struct machine *machine, const Dwarf_Op *ops, size_t nr,
		__u64 *result, bool *is_value)
{
	struct stack stack = { };
	size_t i;

	*is_value = false;
	/* In a register: there is nothing else then. */
	if (nr == 1 && ops[0].atom >= DW_OP_reg0 &&
	    ops[0].atom < DW_OP_reg0 + NR_REGS) {
		*is_value = true;
		*result = machine->regs[ops[0].atom - DW_OP_reg0];
		return true;
	}
	if (nr == 1 && ops[0].atom == DW_OP_regx && ops[0].number < NR_REGS) {
		*is_value = true;
		*result = machine->regs[ops[0].number];
		return true;
	}

	for (i = 0; i < nr; i++) {
		if (ops[i].atom == DW_OP_stack_value && i + 1 == nr) {
			*is_value = true;
			break;
		}
		if (!eval_op(machine, &stack, &ops[i]))
			return false;
	}
	*result = pop(&stack);
	return !stack.bad;
}

static __u64 loc_value(const struct machine *machine,
		       const struct unwind_table_loc *loc, __u64 same)
{
	switch (loc->where) {
	case UNWIND_TABLE_REG:
		return machine->regs[loc->reg] + loc->off;
	case UNWIND_TABLE_REG_DEREF:
		return machine_read(machine, machine->regs[loc->reg] + loc->off);
	case UNWIND_TABLE_CFA:
		return machine->cfa + loc->off;
	case UNWIND_TABLE_CFA_DEREF:
		return machine_read(machine, machine->cfa + loc->off);
	default:
		return same;
	}
}

void frame_of_rule(struct machine *machine, const struct unwind_table_rule *rule,
		   struct frame *frame)
{
	memset(frame, 0, sizeof(*frame));
	if (!rule || rule->kind == UNWIND_TABLE_NOT_COVERED ||
	    rule->kind == UNWIND_TABLE_UNKNOWN) {
		frame->none = true;
		return;
	}
	if (rule->kind == UNWIND_TABLE_OUTERMOST) {
		frame->outermost = true;
		return;
	}
	machine->cfa = loc_value(machine, &rule->cfa, 0) + rule->cfa_add;
	frame->sp = machine->cfa;
	frame->ip = loc_value(machine, &rule->ra, 0);
	frame->fp = loc_value(machine, &rule->fp, machine->regs[REG_FP]);
	frame->signal = rule->flags & UNWIND_TABLE_SIGNAL;
	frame->no_fp = rule->fp.where == UNWIND_TABLE_NONE;
}

/* A register of the caller; @undefined: it has none */
static bool reg_value(const struct machine *machine, Dwarf_Frame *dwarf, int reg,
		      __u64 *value, bool *undefined)
{
	Dwarf_Op mem[3], *ops;
	bool is_value;
	size_t nr;

	*undefined = false;
	if (dwarf_frame_register(dwarf, reg, mem, &ops, &nr))
		return false;
	if (!nr) {
		*undefined = ops == mem;
		*value = machine->regs[reg];
		return true;
	}
	if (!dwarf_eval(machine, ops, nr, value, &is_value))
		return false;
	if (!is_value)
		*value = machine_read(machine, *value);
	return true;
}

void frame_of_dwarf(struct machine *machine, Dwarf_Frame *dwarf, struct frame *frame)
{
	bool undefined, is_value, none;
	Dwarf_Addr start, end;
	Dwarf_Op *ops;
	int ra_reg;
	size_t nr;

	memset(frame, 0, sizeof(*frame));
	if (!dwarf) {
		frame->none = true;
		return;
	}
	ra_reg = dwarf_frame_info(dwarf, &start, &end, &frame->signal);
	if (ra_reg < 0 || ra_reg >= NR_REGS) {
		frame->strange = true;
		return;
	}
	/* Where there is no return address, nothing else matters. */
	if (!reg_value(machine, dwarf, ra_reg, &frame->ip, &undefined)) {
		undefined = false;
		frame->strange = true;
	}
	if (undefined) {
		frame->outermost = true;
		return;
	}

	frame->strange = dwarf_frame_cfa(dwarf, &ops, &nr) || !nr ||
			 !dwarf_eval(machine, ops, nr, &machine->cfa, &is_value);
	if (frame->strange)
		return;
	/* Again, as most of them are relative to the CFA */
	frame->strange =
		!reg_value(machine, dwarf, ra_reg, &frame->ip, &undefined) ||
		!reg_value(machine, dwarf, REG_FP, &frame->fp, &frame->no_fp) ||
		!reg_value(machine, dwarf, REG_SP, &frame->sp, &none) || none;
}
