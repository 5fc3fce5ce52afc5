// SPDX-License-Identifier: GPL-2.0
/*
 * From machine code to the effects that matter for following the stack pointer. Zydis
 * decodes; without it there are no rules for code without CFI.
 */

#include <stdlib.h>

#include "insn.h"

#ifdef HAVE_ZYDIS
#include <Zydis/Zydis.h>

struct insn_decoder {
	ZydisDecoder	zydis;
};

struct decoded {
	ZydisDecodedInstruction	insn;
	ZydisDecodedOperand	operands[ZYDIS_MAX_OPERAND_COUNT];
	__u64			next;		/* address behind it */
};

static unsigned int reg_of(ZydisRegister reg)
{
	/* The others come after these, whichever part of one it is. */
	if (reg > ZYDIS_REGISTER_R15)
		return INSN_NO_REG;
	reg = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
	if (reg < ZYDIS_REGISTER_RAX || reg > ZYDIS_REGISTER_R15)
		return INSN_NO_REG;
	return reg - ZYDIS_REGISTER_RAX;
}

/* The register that an operand is as a whole */
static unsigned int whole_reg(const ZydisDecodedOperand *operand)
{
	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER || operand->size != 64)
		return INSN_NO_REG;
	return reg_of(operand->reg.value);
}

static bool is_plain_memory(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       operand->mem.segment != ZYDIS_REGISTER_FS &&
	       operand->mem.segment != ZYDIS_REGISTER_GS;
}

/* Memory at a register + offset, or at an address of the file */
static bool set_memory(const struct decoded *d, const ZydisDecodedOperand *operand,
		       struct insn *insn)
{
	if (!is_plain_memory(operand))
		return false;
	insn->base = INSN_NO_REG;
	insn->imm = operand->mem.disp.value;
	if (operand->mem.base == ZYDIS_REGISTER_RIP)
		insn->imm += d->next;
	else if (operand->mem.base != ZYDIS_REGISTER_NONE)
		insn->base = reg_of(operand->mem.base);
	return operand->mem.base == ZYDIS_REGISTER_NONE ||
	       operand->mem.base == ZYDIS_REGISTER_RIP || insn->base != INSN_NO_REG;
}

/* The register that an operand is, or a part of */
static unsigned int part_of_reg(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER ? reg_of(operand->reg.value) :
		INSN_NO_REG;
}

static bool has_index(const ZydisDecodedOperand *operand)
{
	return operand->mem.index != ZYDIS_REGISTER_NONE && operand->mem.scale;
}

/* Registers written besides the destination of an operation */
static void note_writes(const struct decoded *d, struct insn *insn)
{
	unsigned int i;

	for (i = 0; i < d->insn.operand_count; i++) {
		const ZydisDecodedOperand *operand = &d->operands[i];
		struct insn store = { };

		if (!(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			unsigned int reg = reg_of(operand->reg.value);

			if (reg != INSN_NO_REG)
				insn->kills |= 1U << reg;
		} else if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
			   set_memory(d, operand, &store) && !has_index(operand)) {
			insn->base = store.base;
			insn->imm = store.imm;
			insn->size = operand->size / 8 < 255 ? operand->size / 8 : 255;
		}
	}
}

static enum insn_op move(const struct decoded *d, struct insn *insn)
{
	const ZydisDecodedOperand *to = &d->operands[0], *from = &d->operands[1];

	insn->dst = whole_reg(to);
	insn->src = whole_reg(from);
	if (insn->dst != INSN_NO_REG && insn->src != INSN_NO_REG)
		return INSN_MOVE;
	if (insn->src != INSN_NO_REG && is_plain_memory(to) && !has_index(to) &&
	    set_memory(d, to, insn))
		return INSN_STORE;
	if (from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
	    to->type == ZYDIS_OPERAND_TYPE_REGISTER && to->size >= 32) {
		insn->dst = reg_of(to->reg.value);
		insn->imm = to->size == 32 ? (__u32)from->imm.value.u : from->imm.value.u;
		return insn->dst == INSN_NO_REG ? INSN_OTHER : INSN_ADDRESS;
	}
	return INSN_OTHER;
}

/* A load of a whole register; or of an element of a table, which may be shorter */
static enum insn_op load(const struct decoded *d, struct insn *insn, bool is_signed)
{
	const ZydisDecodedOperand *to = &d->operands[0], *from = &d->operands[1];

	if (to->type != ZYDIS_OPERAND_TYPE_REGISTER || !is_plain_memory(from) ||
	    to->size < 32)
		return INSN_OTHER;
	insn->dst = reg_of(to->reg.value);
	if (insn->dst == INSN_NO_REG || !set_memory(d, from, insn))
		return INSN_OTHER;
	insn->size = from->size / 8;
	insn->is_signed = is_signed && to->size == 64;
	if (!has_index(from)) {
		insn->op = insn->size == 8 && insn->base != INSN_NO_REG ? INSN_LOAD : INSN_OTHER;
		insn->size = 0;
		return insn->op;
	}
	if (from->mem.scale != insn->size && !(from->mem.scale == 1)) {
		insn->size = 0;
		return INSN_OTHER;
	}
	insn->index = reg_of(from->mem.index);
	return INSN_LOAD_INDEXED;
}

static enum insn_op add(const struct decoded *d, struct insn *insn, int sign)
{
	const ZydisDecodedOperand *to = &d->operands[0], *from = &d->operands[1];

	insn->dst = whole_reg(to);
	if (insn->dst == INSN_NO_REG)
		return INSN_OTHER;
	if (from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		insn->imm = sign * from->imm.value.s;
		return INSN_ADD;
	}
	insn->src = whole_reg(from);
	insn->base = insn->dst;
	return sign > 0 && insn->src != INSN_NO_REG ? INSN_ADD_REG : INSN_OTHER;
}

static enum insn_op lea(const struct decoded *d, struct insn *insn)
{
	const ZydisDecodedOperand *to = &d->operands[0], *from = &d->operands[1];

	insn->dst = whole_reg(to);
	if (insn->dst == INSN_NO_REG || !set_memory(d, from, insn))
		return INSN_OTHER;
	if (has_index(from)) {
		/* Of two registers, one may be the base of a table, and the other an element. */
		insn->src = reg_of(from->mem.index);
		if (insn->base == INSN_NO_REG || insn->src == INSN_NO_REG ||
		    from->mem.scale != 1)
			return INSN_OTHER;
		return INSN_ADD_REG;
	}
	return insn->base == INSN_NO_REG ? INSN_ADDRESS : INSN_LEA;
}

static enum insn_op push(const struct decoded *d, struct insn *insn)
{
	insn->size = d->insn.operand_width / 8;
	insn->src = whole_reg(&d->operands[0]);
	return INSN_PUSH;
}

static enum insn_op pop(const struct decoded *d, struct insn *insn)
{
	insn->size = d->insn.operand_width / 8;
	insn->dst = whole_reg(&d->operands[0]);
	return INSN_POP;
}

/* Memory through which a call or jump goes */
static enum insn_op by_memory(const struct decoded *d, struct insn *insn, enum insn_op plain,
			      enum insn_op table, enum insn_op unknown)
{
	const ZydisDecodedOperand *operand = &d->operands[0];

	if (!set_memory(d, operand, insn)) {
		insn->imm = 0;
		return unknown;
	}
	if (insn->base == INSN_NO_REG && !has_index(operand))
		return plain;
	if (has_index(operand) && operand->mem.scale == 8) {
		insn->index = reg_of(operand->mem.index);
		return table;
	}
	insn->imm = 0;
	return unknown;
}

static enum insn_op jump(const struct decoded *d, struct insn *insn)
{
	const ZydisDecodedOperand *to = &d->operands[0];

	if (to->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		insn->imm = d->next + to->imm.value.s;
		insn->limits_rest = d->insn.mnemonic == ZYDIS_MNEMONIC_JNBE;
		insn->limits_target = d->insn.mnemonic == ZYDIS_MNEMONIC_JBE;
		insn->equal_rest = d->insn.mnemonic == ZYDIS_MNEMONIC_JNZ;
		insn->equal_target = d->insn.mnemonic == ZYDIS_MNEMONIC_JZ;
		return d->insn.mnemonic == ZYDIS_MNEMONIC_JMP ? INSN_JUMP : INSN_BRANCH;
	}
	insn->src = whole_reg(to);
	if (insn->src != INSN_NO_REG)
		return INSN_JUMP_REG;
	return by_memory(d, insn, INSN_JUMP_MEMORY, INSN_JUMP_TABLE, INSN_JUMP_UNKNOWN);
}

static enum insn_op call(const struct decoded *d, struct insn *insn)
{
	const ZydisDecodedOperand *to = &d->operands[0];

	if (to->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		insn->imm = d->next + to->imm.value.s;
		return INSN_CALL;
	}
	if (to->type == ZYDIS_OPERAND_TYPE_REGISTER)
		return INSN_CALL_UNKNOWN;
	return by_memory(d, insn, INSN_CALL_UNKNOWN, INSN_CALL_UNKNOWN, INSN_CALL_UNKNOWN);
}

static enum insn_op of_two_regs(const struct decoded *d, struct insn *insn, enum insn_op op)
{
	insn->dst = whole_reg(&d->operands[0]);
	insn->src = whole_reg(&d->operands[1]);
	return insn->dst != INSN_NO_REG && insn->src != INSN_NO_REG ? op : INSN_OTHER;
}

static enum insn_op operation(const struct decoded *d, struct insn *insn)
{
	const ZydisDecodedOperand *operands = d->operands;

	if (d->insn.mnemonic == ZYDIS_MNEMONIC_XABORT)
		return INSN_OTHER;
	switch (d->insn.meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
		return jump(d, insn);
	case ZYDIS_CATEGORY_CALL:
		return call(d, insn);
	default:
		break;
	}
	switch (d->insn.mnemonic) {
	case ZYDIS_MNEMONIC_MOV: {
		enum insn_op op = move(d, insn);

		return op == INSN_OTHER ? load(d, insn, false) : op;
	}
	case ZYDIS_MNEMONIC_MOVSXD:
	case ZYDIS_MNEMONIC_MOVSX:
		return load(d, insn, true);
	case ZYDIS_MNEMONIC_MOVZX:
		return load(d, insn, false);
	case ZYDIS_MNEMONIC_CMOVB ... ZYDIS_MNEMONIC_CMOVZ:
		return of_two_regs(d, insn, INSN_MAYBE_MOVE);
	case ZYDIS_MNEMONIC_XCHG:
		return of_two_regs(d, insn, INSN_SWAP);
	case ZYDIS_MNEMONIC_ADD:
		return add(d, insn, 1);
	case ZYDIS_MNEMONIC_SUB:
		return add(d, insn, -1);
	case ZYDIS_MNEMONIC_INC:
	case ZYDIS_MNEMONIC_DEC:
		insn->dst = whole_reg(&operands[0]);
		insn->imm = d->insn.mnemonic == ZYDIS_MNEMONIC_INC ? 1 : -1;
		return insn->dst == INSN_NO_REG ? INSN_OTHER : INSN_ADD;
	case ZYDIS_MNEMONIC_AND:
		insn->dst = whole_reg(&operands[0]);
		if (insn->dst == INSN_NO_REG ||
		    operands[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
			return INSN_OTHER;
		insn->imm = operands[1].imm.value.s;
		return INSN_AND;
	case ZYDIS_MNEMONIC_CMP:
		insn->dst = whole_reg(&operands[0]);
		insn->src = whole_reg(&operands[1]);
		insn->imm = operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE ?
			operands[1].imm.value.s : -1;
		insn->index = part_of_reg(&operands[0]);
		return INSN_COMPARE;
	case ZYDIS_MNEMONIC_LEA:
		return lea(d, insn);
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_PUSHFQ:
		return push(d, insn);
	case ZYDIS_MNEMONIC_POP:
	case ZYDIS_MNEMONIC_POPFQ:
		return pop(d, insn);
	case ZYDIS_MNEMONIC_LEAVE:
		return INSN_LEAVE;
	case ZYDIS_MNEMONIC_RET:
		insn->imm = operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE ?
			operands[0].imm.value.u : 0;
		return INSN_RETURN;
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_INT3:
	case ZYDIS_MNEMONIC_IRETQ:
	case ZYDIS_MNEMONIC_SYSRET:
		return INSN_STOP;
	default:
		return INSN_OTHER;
	}
}

/* The source of a copy: a register or a part of it, extended, or times a constant */
static unsigned int copied(const struct decoded *d)
{
	switch (d->insn.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_MOVSX:
	case ZYDIS_MNEMONIC_MOVSXD:
	case ZYDIS_MNEMONIC_MOVZX:
		return part_of_reg(&d->operands[1]);
	case ZYDIS_MNEMONIC_CDQE:
		return INSN_RAX;
	case ZYDIS_MNEMONIC_LEA:
		return d->operands[1].mem.base == ZYDIS_REGISTER_NONE &&
		       !d->operands[1].mem.disp.value ? reg_of(d->operands[1].mem.index) :
			INSN_NO_REG;
	default:
		return INSN_NO_REG;
	}
}

static bool sets_flags(const struct decoded *d)
{
	const ZydisAccessedFlags *flags = d->insn.cpu_flags;

	return d->insn.mnemonic != ZYDIS_MNEMONIC_CMP && flags &&
	       (flags->modified | flags->set_0 | flags->set_1 | flags->undefined) &
	       (ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_ZF);
}

bool ut_insn_decode(const struct insn_decoder *decoder, const __u8 *code, size_t len, __u64 addr,
		    struct insn *insn)
{
	static const struct insn none = {
		.dst = INSN_NO_REG, .src = INSN_NO_REG, .base = INSN_NO_REG,
		.index = INSN_NO_REG, .copy_of = INSN_NO_REG,
	};
	struct decoded d;

	if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder->zydis, code, len, &d.insn, d.operands)))
		return false;
	d.next = addr + d.insn.length;
	*insn = none;
	insn->op = operation(&d, insn);
	insn->len = d.insn.length;
	if (insn->op == INSN_OTHER) {
		*insn = none;
		insn->len = d.insn.length;
		note_writes(&d, insn);
	} else if (insn->op == INSN_BRANCH) {
		/* Of loop and its kind */
		struct insn writes = none;

		note_writes(&d, &writes);
		insn->kills = writes.kills;
	}
	insn->copy_of = copied(&d);
	insn->sets_flags = sets_flags(&d);
	return true;
}

struct insn_decoder *ut_insn_decoder_new(void)
{
	struct insn_decoder *decoder = malloc(sizeof(*decoder));

	if (decoder)
		ZydisDecoderInit(&decoder->zydis, ZYDIS_MACHINE_MODE_LONG_64,
				 ZYDIS_STACK_WIDTH_64);
	return decoder;
}

#else

bool ut_insn_decode(const struct insn_decoder *decoder, const __u8 *code, size_t len, __u64 addr,
		    struct insn *insn)
{
	(void)decoder;
	(void)code;
	(void)len;
	(void)addr;
	(void)insn;
	return false;
}

struct insn_decoder *ut_insn_decoder_new(void)
{
	return NULL;
}

#endif

void ut_insn_decoder_free(struct insn_decoder *decoder)
{
	free(decoder);
}
