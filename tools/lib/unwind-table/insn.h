/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLE_INSN_H
#define __UNWIND_TABLE_INSN_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

/* Registers by their numbers in instructions */
#define INSN_RAX		0
#define INSN_RSP		4
#define INSN_RBP		5
#define INSN_NR_REGS		16
#define INSN_NO_REG		INSN_NR_REGS

/* The effects of an instruction that matter for following the stack */
enum insn_op {
	INSN_OTHER,		/* nothing but @kills and, if @size, a store */
	INSN_MOVE,		/* @dst = @src */
	INSN_MAYBE_MOVE,	/* the same or nothing */
	INSN_SWAP,		/* of @dst and @src */
	INSN_ADD,		/* @dst += @imm */
	INSN_ADD_REG,		/* @dst = @base + @src + @imm */
	INSN_AND,		/* @dst &= @imm */
	INSN_LEA,		/* @dst = @base + @imm */
	INSN_ADDRESS,		/* @dst = @imm, an address of the file or a small number */
	INSN_LOAD,		/* @dst = 8 bytes at @base + @imm */
	INSN_LOAD_INDEXED,	/* @dst = @size bytes at @base + @imm + an index * @size */
	INSN_STORE,		/* 8 bytes at @base + @imm = @src */
	INSN_PUSH,		/* @src; @size bytes */
	INSN_POP,		/* @dst; @size bytes */
	INSN_LEAVE,
	INSN_CALL,		/* @imm is the target */
	INSN_CALL_UNKNOWN,	/* by a register, or by memory at @imm, unless 0 */
	INSN_COMPARE,		/* something with @imm, or @dst with @src */
	INSN_JUMP,		/* @imm is the target */
	INSN_BRANCH,		/* the same or nothing */
	INSN_JUMP_REG,		/* to the address in @src */
	INSN_JUMP_MEMORY,	/* to the address in memory at @imm */
	INSN_JUMP_TABLE,	/* to 8 bytes at @base + @imm + an index * 8 */
	INSN_JUMP_UNKNOWN,
	INSN_RETURN,		/* and add @imm to SP */
	INSN_STOP,		/* nothing comes after it */
};

struct insn {
	enum insn_op	op;
	__u8		len;
	__u8		dst;
	__u8		src;
	__u8		base;		/* INSN_NO_REG: none */
	/* The compared register; an index; the source of the copy in @dst or a killed register */
	__u8		index;
	__u8		copy_of;
	__u8		size;		/* of what it stores, or loads */
	bool		is_signed;	/* what it loads */
	/* A branch: values up to that of the last comparison go on, or are led away. */
	bool		limits_rest;
	bool		limits_target;
	/* And if they were equal */
	bool		equal_rest;
	bool		equal_target;
	bool		sets_flags;	/* other than by a comparison */
	__u16		kills;		/* registers whose values are not known any more */
	__s64		imm;
};

struct insn_decoder;

/* ut_insn_decoder_new - NULL: no memory, or the library was built without a decoder */
struct insn_decoder *ut_insn_decoder_new(void);
void ut_insn_decoder_free(struct insn_decoder *decoder);

/*
 * ut_insn_decode - decode the instruction at @code, of at most @len bytes, for address @addr.
 * False: it is none
 */
bool ut_insn_decode(const struct insn_decoder *decoder, const __u8 *code, size_t len, __u64 addr,
		    struct insn *insn);

#endif /* __UNWIND_TABLE_INSN_H */
