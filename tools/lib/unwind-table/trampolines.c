// SPDX-License-Identifier: GPL-2.0
/*
 * Trampolines that interpreters copy into anonymous memory: each function of the
 * program gets a copy of its own, which all calls of it go through and which
 * /tmp/perf-PID.map names after it. A walk has to get through it, too, but there
 * are no rules for it in any file.
 *
 * These were read in memory, or in the source of the program. The rules follow from
 * the code, so they are right for any program that has an arena with exactly these
 * bytes. Memory with anything else in it gets no table.
 */

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "trampolines.h"

struct stub {
	__u8	code[TRAMPOLINE_BEGINNING];
	__u8	len;
	/* 8 bytes of the stack are taken from one byte of the code to another. */
	__u8	taken;
	__u8	given_back;
};

/* CPython's Python/asm_trampoline.S. It calls the evaluator of bytecode. */
static const struct stub python = {
	.code = {
		0x48, 0x83, 0xec, 0x08,		/* sub $8,%rsp */
		0xff, 0xd1,			/* call *%rcx */
		0x48, 0x83, 0xc4, 0x08,		/* add $8,%rsp */
		0xc3,				/* ret */
	},
	.len = 11, .taken = 4, .given_back = 10,
};

/* Its form where indirect branches are tracked */
static const struct stub python_endbr = {
	.code = {
		0xf3, 0x0f, 0x1e, 0xfa,		/* endbr64 */
		0x48, 0x83, 0xec, 0x08,
		0xff, 0xd1,
		0x48, 0x83, 0xc4, 0x08,
		0xc3,
	},
	.len = 15, .taken = 8, .given_back = 14,
};

struct trampoline {
	const struct stub	*stub;
	/* Bytes from one copy to the next. What is no copy is 0. */
	unsigned int		period;
};

static const struct trampoline trampolines[NR_TRAMPOLINES] = {
	/* CPython 3.13 with -X perf, as Debian 13 builds it: copies are aligned. */
	{ &python_endbr, 16 },
	/* 3.13 if no option of the compiler asks for endbr64 */
	{ &python, 16 },
	/* 3.13 with -X perf_jit: there are 256 bytes more for each copy. */
	{ &python_endbr, 272 },
	{ &python, 272 },
	/* 3.12 puts one copy right after the other. */
	{ &python_endbr, 15 },
	{ &python, 11 },
	/* 3.14 keeps frame pointers there, so it needs no table. */
};

static const __u8 *code_at(const struct trampoline *t, unsigned int at)
{
	unsigned int n = at % t->period;

	if (at / t->period >= TRAMPOLINE_ARENA / t->period || n >= t->stub->len)
		return NULL;
	return &t->stub->code[n];
}

static bool is_arena(const struct trampoline *t, const __u8 *arena)
{
	const __u8 *code;
	unsigned int i;

	for (i = 0; i < TRAMPOLINE_ARENA; i++) {
		code = code_at(t, i);
		if (arena[i] != (code ? *code : 0))
			return false;
	}
	return true;
}

bool trampoline_begins(const __u8 *code)
{
	unsigned int i;

	for (i = 0; i < NR_TRAMPOLINES; i++)
		if (!memcmp(code, trampolines[i].stub->code,
			    trampolines[i].stub->len))
			return true;
	return false;
}

int trampoline_kind(const __u8 *arena)
{
	int i;

	for (i = 0; i < NR_TRAMPOLINES; i++)
		if (is_arena(&trampolines[i], arena))
			return i;
	return -1;
}

/* ------------------------------------------------------------------------ */
/* Tables								      */

enum {
	RULE_UNKNOWN,
	RULE_ENTRY,	/* The return address is where the stack pointer is. */
	RULE_TAKEN,	/* ... is above 8 bytes more */
	NR_RULES,
};

#define NR_PAGES	(TRAMPOLINE_ARENA / UNWIND_TABLE_PAGE_SIZE)
/* No byte has more than one. */
#define MAX_ROWS	TRAMPOLINE_ARENA

static unsigned int rule_at(const struct trampoline *t, unsigned int at)
{
	unsigned int n = at % t->period;

	if (!code_at(t, at))
		return RULE_UNKNOWN;
	if (n >= t->stub->taken && n < t->stub->given_back)
		return RULE_TAKEN;
	return RULE_ENTRY;
}

static void set_caller(struct unwind_table_rule *rule, int cfa)
{
	rule->kind = UNWIND_TABLE_CALLER;
	rule->cfa.where = UNWIND_TABLE_REG;
	rule->cfa.reg = UT_REG_SP;
	rule->cfa.off = cfa;
	rule->ra.where = UNWIND_TABLE_CFA_DEREF;
	rule->ra.off = -8;
	rule->fp.where = UNWIND_TABLE_SAME;
}

static __u32 make_rows(const struct trampoline *t, __u32 *pages,
		       struct unwind_table_row *rows)
{
	unsigned int i, rule, last = NR_RULES;
	__u32 nr = 0;

	for (i = 0; i < TRAMPOLINE_ARENA; i++) {
		rule = rule_at(t, i);
		if (!(i & UT_PAGE_MASK))
			pages[i >> UNWIND_TABLE_PAGE_SHIFT] = nr;
		else if (rule == last)
			continue;
		rows[nr].offset = i & UT_PAGE_MASK;
		rows[nr].rule = rule;
		nr++;
		last = rule;
	}
	pages[NR_PAGES] = nr;
	return nr;
}

int trampoline_table(int kind, struct unwind_table **tablep)
{
	struct unwind_table_rule rules[NR_RULES] = {
		[RULE_UNKNOWN] = { .kind = UNWIND_TABLE_UNKNOWN },
	};
	struct {
		struct unwind_table_header header;
		struct unwind_table_run run;
		__u32 pages[NR_PAGES + 1];
		struct unwind_table_row rows[];
	} *block;
	struct unwind_table *table;
	__u32 nr;

	set_caller(&rules[RULE_ENTRY], 8);
	set_caller(&rules[RULE_TAKEN], 16);
	table = calloc(1, sizeof(*table));
	block = calloc(1, sizeof(*block) + MAX_ROWS * sizeof(block->rows[0]) +
		       sizeof(rules));
	if (!table || !block) {
		free(table);
		free(block);
		return -ENOMEM;
	}

	nr = make_rows(&trampolines[kind], block->pages, block->rows);
	memcpy(&block->rows[nr], rules, sizeof(rules));
	block->header = (struct unwind_table_header) {
		.magic		= UNWIND_TABLE_MAGIC,
		.version	= UNWIND_TABLE_VERSION,
		.machine	= EM_X86_64,
		.word_size	= sizeof(__u64),
		.nr_runs	= 1,
		.nr_pages	= NR_PAGES,
		.nr_rows	= nr,
		.nr_rules	= NR_RULES,
	};
	block->run.nr_pages = NR_PAGES;
	table->data = block;
	table->len = (char *)&block->rows[nr] + sizeof(rules) - (char *)block;
	*tablep = table;
	return 0;
}
