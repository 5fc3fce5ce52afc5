// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: a table at an address and lookups in it. For any bytes there must be: no read
 * outside of them (ASan) and of the table (user_bytes()), no undefined behaviour (UBSan), no more
 * work than the limits say, and no answer that the walker could not use.
 *
 * Input: 8 bytes of parameters, see struct params, and the table.
 */

#include <stdio.h>
#include <stdlib.h>

#include "../../kernel/unwind/sframe.h"
#include "../../kernel/unwind/tests/rule_unpack.h"

#define TABLE		0x7f0000100000ULL
#define TEXT_BEFORE	0x7f0000001000ULL
#define TEXT_BEHIND	0x7f0000801000ULL
#define MAX_FUNCS	32

struct params {
	u32 ip;			/* offset in the text */
	u8 behind;		/* 1: text is after the table; 2: anywhere */
	u8 claim;		/* end of the table, less the bytes that exist */
};

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

static void check_loc(const struct unwind_loc *loc, const char *what)
{
	bool reg = loc->where == UNWIND_REG || loc->where == UNWIND_REG_DEREF;

	check(loc->where <= UNWIND_CFA_DEREF, what);
	check(loc->reg < UNWIND_NR_REGS, what);
	check(reg || !loc->reg, what);
	check(loc->where > UNWIND_SAME || !loc->off, what);
}

static void check_rule(const struct unwind_rule *rule)
{
	struct unwind_rule copy = *rule, from_word = { };

	check_loc(&rule->cfa, "cfa");
	check_loc(&rule->ra, "ra");
	check_loc(&rule->fp, "fp");
	if (rule->outermost) {
		check(rule->cfa.where == UNWIND_UNDEFINED, "outermost cfa");
		check(rule->ra.where == UNWIND_UNDEFINED, "outermost ra");
		check(rule->fp.where == UNWIND_UNDEFINED, "outermost fp");
	} else {
		check(rule->cfa.where == UNWIND_REG ||
		      rule->cfa.where == UNWIND_REG_DEREF, "base of cfa");
		check(rule->ra.where > UNWIND_SAME, "defined ra");
		check(rule->fp.where > UNWIND_UNDEFINED, "defined fp");
	}

	copy.word = 0;
	unwind_rule_pack(&copy);
	if (!copy.word)
		return;
	check(copy.word & UNWIND_WORD_TABLE, "word of a table");
	check(copy.word & UNWIND_WORD_OUTERMOST || unwind_word_cfa_off(copy.word) > 0,
	      "sp that moves up");

	/* The word says all that the rule does. */
	from_word.word = copy.word;
	unwind_rule_unpack(&from_word);
	check(from_word.outermost == rule->outermost, "outermost word");
	check(!memcmp(&from_word.cfa, &rule->cfa, sizeof(rule->cfa)), "cfa in word");
	check(!memcmp(&from_word.ra, &rule->ra, sizeof(rule->ra)), "ra in word");
	check(!memcmp(&from_word.fp, &rule->fp, sizeof(rule->fp)), "fp in word");
}

static void look_up(const struct sframe_section *sec, u64 ip)
{
	struct sframe_span span;
	struct unwind_rule rule;
	enum sframe_status status;

	memset(&rule, 0xff, sizeof(rule));
	status = user_find(sec, ip, &rule, &span);
	check(status < SFRAME_NR_STATUS, "status");
	if (status != SFRAME_OK)
		return;
	check(ip >= sec->text_start && ip < sec->text_end, "ip in text");
	check_rule(&rule);
}

/* Where it is worth looking: as the index says */
static void look_up_edges(const struct sframe_section *sec)
{
	u64 len = sec->version == 2 ? 20 : 16, at, start, size;
	const u8 *fde;
	u32 i;

	for (i = 0; i < sec->num_fdes && i < MAX_FUNCS; i++) {
		at = sec->fdes - user_memory.addr + i * len;
		if (at + len > user_memory.len)
			return;
		fde = user_memory.data + at;
		start = sec->version == 2 ? (u64)(s32)get_unaligned_le32(fde) :
					    get_unaligned_le64(fde);
		start += sec->pcrel ? user_memory.addr + at : sec->start;
		size = get_unaligned_le32(fde + (sec->version == 2 ? 4 : 8));
		look_up(sec, start - 1);
		look_up(sec, start);
		look_up(sec, start + 1);
		look_up(sec, start + size / 2);
		look_up(sec, start + size - 1);
		look_up(sec, start + size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sframe_section sec = { .start = TABLE };
	struct params params;
	u8 *copy;

	if (size < sizeof(params))
		return -1;
	memcpy(&params, data, sizeof(params));
	size -= sizeof(params);
	/* Of its own size, so that ASan sees reads after its end */
	copy = malloc(size);
	memcpy(copy, data + sizeof(params), size);

	user_memory = (struct user_memory) { copy, TABLE, size };
	sec.end = TABLE + size + (s8)params.claim;
	sec.text_start = params.behind & 1 ? TEXT_BEHIND : TEXT_BEFORE;
	sec.text_end = sec.text_start + 0x80000;
	if (params.behind & 2) {
		sec.text_start = 0;
		sec.text_end = U64_MAX;
	}

	if (user_open(&sec) == SFRAME_OK) {
		check(sec.fdes >= sec.start && sec.fdes <= sec.end, "index");
		check(sec.fres >= sec.start && sec.fres <= sec.end, "rows");
		check(sec.fre_len <= sec.end - sec.fres, "length of rows");
		look_up(&sec, sec.text_start + params.ip);
		look_up_edges(&sec);
	}
	free(copy);
	return 0;
}

#ifdef FUZZ_STANDALONE
/* Without libFuzzer: run each file once, to reproduce and for other fuzzers */
int main(int argc, char **argv)
{
	static u8 data[1 << 20];
	FILE *file;
	int i;

	for (i = 1; i < argc; i++) {
		file = fopen(argv[i], "rb");
		if (!file)
			return 1;
		LLVMFuzzerTestOneInput(data, fread(data, 1, sizeof(data), file));
		fclose(file);
	}
	return 0;
}
#endif
