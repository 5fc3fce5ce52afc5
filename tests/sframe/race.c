// SPDX-License-Identifier: GPL-2.0
/*
 * race [LOOKUPS] - look up in a table that changes while it is read, as user
 * space can do to the kernel: bytes that are read twice differ. The decoder is
 * compiled in with a memcpy() that changes its source. Sanitizers do the
 * checking.
 */

#include <stdio.h>
#include <stdlib.h>

#include "sframe_build.h"

static void *changing_memcpy(void *to, const void *from, size_t len);

#define memcpy changing_memcpy
#include "../../kernel/unwind/sframe.c"
#undef memcpy

#define TABLE	0x7f0000100000ULL
#define TEXT	0x7f0000001000ULL
#define ROWS	60

static struct sframe_build b;
static unsigned int seed = 1;
static bool changing;

/* Anything that is read; mostly it stays as it is, so that lookups get far. */
static void *changing_memcpy(void *to, const void *from, size_t len)
{
	static const u8 values[] = { 0x00, 0x1f, 0x63, 0x65, 0x7f, 0xff };
	u8 *bytes = memcpy(to, from, len);
	unsigned int random = rand_r(&seed);

	if (changing && len && random % 32 == 0)
		bytes[random / 32 % len] = values[rand_r(&seed) % sizeof(values)];
	return to;
}

static void build(u8 version)
{
	u32 f, i;

	sframe_build_init(&b, version, true, TABLE);
	for (f = 0; f < 4; f++) {
		sframe_build_func(&b, TEXT + f * 0x100, 0x100, f % 3);
		for (i = 0; i < ROWS; i++)
			sframe_build_saved(&b, i, SFRAME_BUILD_SP, 8 + i, -16);
		if (version == 3 && f == 3)
			b.funcs[f].info2 = 1;
	}
}

/* Returns how many of the lookups had a rule for an answer. */
static unsigned long look_up(u32 len, unsigned long lookups)
{
	struct sframe_section sec = {
		.start = TABLE, .end = TABLE + len,
		.text_start = TEXT, .text_end = TEXT + 0x1000,
	};
	unsigned long i, found = 0;

	user_memory = (struct user_memory) { b.mem, TABLE, len };
	changing = false;
	if (user_open(&sec) != SFRAME_OK)
		return 0;
	changing = true;
	for (i = 0; i < lookups; i++) {
		enum sframe_status status;
		struct sframe_span span;
		struct unwind_rule rule;

		status = user_find(&sec, TEXT + i * 7 % 0x410, &rule, &span);
		if (status >= SFRAME_NR_STATUS ||
		    (status == SFRAME_OK && rule.cfa.reg >= UNWIND_NR_REGS))
			abort();
		found += status == SFRAME_OK;
	}
	return found;
}

int main(int argc, char **argv)
{
	unsigned long lookups = argc > 1 ? atol(argv[1]) : 2000000, found;
	u8 version;

	printf("TAP version 13\n1..2\n");
	for (version = 2; version <= 3; version++) {
		build(version);
		found = look_up(sframe_build_finish(&b), lookups);
		printf("# %lu lookups, %lu rules\n", lookups, found);
		printf("%sok %u table_of_version_%u_changes_while_read\n",
		       found ? "" : "not ", version - 1, version);
	}
	return 0;
}
