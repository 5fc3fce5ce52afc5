// SPDX-License-Identifier: GPL-2.0
/*
 * seeds DIRECTORY - write seeds for the fuzzer: tables of both versions with
 * each kind of function and row in them.
 */

#include <stdio.h>
#include <stdlib.h>

#include "sframe_build.h"

#define TABLE		0x7f0000100000ULL
#define TEXT_BEFORE	0x7f0000001000ULL
#define TEXT_BEHIND	0x7f0000801000ULL

static struct sframe_build b;
static u64 text;
static int nr;

static void write_seed(const char *dir, u32 ip)
{
	u8 params[8] = { ip, ip >> 8, 0, 0, text == TEXT_BEHIND, 0, 0xff, 0xff };
	u32 len = sframe_build_finish(&b);
	char name[4096];
	FILE *file;

	snprintf(name, sizeof(name), "%s/seed-%02d", dir, nr++);
	file = fopen(name, "wb");
	if (!file || fwrite(params, sizeof(params), 1, file) != 1 ||
	    fwrite(b.mem, len, 1, file) != 1 || fclose(file)) {
		perror(name);
		exit(1);
	}
}

static void ordinary(void)
{
	sframe_build_func(&b, text, 0x40, SFRAME_BUILD_ROW1);
	sframe_build_sp(&b, 0, 8);
	sframe_build_saved(&b, 1, SFRAME_BUILD_SP, 16, -16);
	sframe_build_saved(&b, 4, SFRAME_BUILD_FP, 16, -16);
	sframe_build_saved(&b, 0x3f, SFRAME_BUILD_SP, 8, -16);
	sframe_build_func(&b, text + 0x40, 0, SFRAME_BUILD_ROW1);
	sframe_build_func(&b, text + 0x40, 0x1000, SFRAME_BUILD_ROW2);
	sframe_build_sp(&b, 0, 0x1008);
	sframe_build_sp(&b, 0x300, 0x12345678);
	sframe_build_func(&b, text + 0x2000, 0x20000, SFRAME_BUILD_ROW4);
	sframe_build_end(&b, 0);
	sframe_build_sp(&b, 0x12000, 8);
}

static void repeated(void)
{
	sframe_build_func(&b, text + 0x40000, 0x200,
			  SFRAME_BUILD_PCMASK)->rep_size = 16;
	sframe_build_sp(&b, 0, 8);
	sframe_build_sp(&b, 11, 16);
}

static void flexible(void)
{
	static const s32 rows[][6] = {
		{ SFRAME_BUILD_REG(10), 0 },
		{ SFRAME_BUILD_REG(6) | 2, -8, 0, SFRAME_BUILD_REG(6) | 2, 0 },
		{ SFRAME_BUILD_REG(7), 32, 2, -16, 2, -24 },
	};
	static const u8 words[] = { 2, 5, 6 };
	int i;

	sframe_build_func(&b, text + 0x50000, 0x100,
			  SFRAME_BUILD_ROW1)->info2 = 1;
	for (i = 0; i < 9; i++)
		sframe_build_row(&b, 8 * i, words[i % 3] << 1 | i / 3 << 5,
				 rows[i % 3]);
	sframe_build_func(&b, text + 0x50100, 0x10, SFRAME_BUILD_SIGNAL);
	sframe_build_sp(&b, 0, 8);
	/* No rows */
	sframe_build_func(&b, text + 0x50110, 0x10, SFRAME_BUILD_ROW1);
}

static void many_rows(void)
{
	int i;

	sframe_build_func(&b, text, 0x1000, SFRAME_BUILD_ROW2);
	for (i = 0; i < 300; i++)
		sframe_build_saved(&b, 2 * i, SFRAME_BUILD_SP, 8 + i, -16);
}

int main(int argc, char **argv)
{
	int version, pcrel, behind;

	if (argc != 2)
		return 1;
	for (version = 2; version <= 3; version++) {
		for (pcrel = 0; pcrel <= 1; pcrel++) {
			for (behind = 0; behind <= 1; behind++) {
				text = behind ? TEXT_BEHIND : TEXT_BEFORE;
				sframe_build_init(&b, version, pcrel, TABLE);
				write_seed(argv[1], 0);
				ordinary();
				repeated();
				if (version == 3)
					flexible();
				write_seed(argv[1], 4);
				sframe_build_init(&b, version, pcrel, TABLE);
				b.aux_len = 8;
				b.fp_off = -16;
				many_rows();
				write_seed(argv[1], 599);
			}
		}
	}
	return 0;
}
