// SPDX-License-Identifier: GPL-2.0
/*
 * unit FILE... - tests beyond the golden tables: each refusal of unwind_table_check(),
 * errors and limits, and that all ways to a table give the same one, for each FILE as well.
 * Prints TAP.
 */

#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/types.h>
#include <linux/unwind_table.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "elf_build.h"
#include "../../tools/unwind-tables/hash.h"
#include "unwind-table.h"

static unsigned int nr_tests, nr_failed;

static void result(bool ok, const char *name)
{
	printf("%sok %u %s\n", ok ? "" : "not ", ++nr_tests, name);
	fflush(stdout);
	nr_failed += !ok;
}

/* A table of two runs, three pages of two blocks, five rows and four rules; all kinds */
struct example {
	struct unwind_table_header	header;
	struct unwind_table_run		runs[2];
	__u32				blocks[7];
	struct unwind_table_row		rows[5];
	struct unwind_table_rule	rules[4];
};

static const struct example example = {
	.header = {
		.magic		= UNWIND_TABLE_MAGIC,
		.version	= UNWIND_TABLE_VERSION,
		.machine	= EM_X86_64,
		.word_size	= 8,
		.nr_runs	= 2,
		.nr_pages	= 3,
		.nr_rows	= 5,
		.nr_rules	= 4,
		.block_shift	= 11,
	},
	.runs = {
		{ .page = 1, .nr_pages = 2 },
		{ .page = 4, .nr_pages = 1, .first_block = 4 },
	},
	.blocks = { 0, 1, 2, 3, 3, 4, 4 },
	.rows = { { 0, 0 }, { 16, 3 }, { 4095, 1 }, { 0, 0 }, { 0, 2 } },
	.rules = {
		{ .kind = UNWIND_TABLE_NOT_COVERED },
		{ .kind = UNWIND_TABLE_UNKNOWN },
		{ .kind = UNWIND_TABLE_OUTERMOST },
		{
			.kind	 = UNWIND_TABLE_CALLER,
			.flags	 = UNWIND_TABLE_SIGNAL | UNWIND_TABLE_NEW_THREAD,
			.cfa_add = 8,
			.cfa	 = { .where = UNWIND_TABLE_REG_DEREF, .reg = 15, .off = 8 },
			.ra	 = { .where = UNWIND_TABLE_CFA_DEREF, .off = -8 },
			.fp	 = { .where = UNWIND_TABLE_SAME },
		},
	},
};

static void refuses(const struct example *bad, size_t len, const char *why)
{
	const char *wrong = unwind_table_check(bad, len);
	char name[128];

	snprintf(name, sizeof(name), "check refuses: %s", why);
	if (!wrong || strcmp(wrong, why))
		printf("# it says: %s\n", wrong ? wrong : "nothing");
	result(wrong && !strcmp(wrong, why), name);
}

/* One field of the example is wrong. */
#define REFUSES(field, value, why) do {					\
	struct example bad = example;					\
									\
	bad.field = value;						\
	refuses(&bad, sizeof(bad), why);				\
} while (0)

static void check_header(void)
{
	result(!unwind_table_check(&example, sizeof(example)), "check takes the example");
	refuses(&example, sizeof(example.header) - 1, "shorter than a header");
	refuses(&example, 0, "shorter than a header");
	refuses(&example, sizeof(example) - 1, "length");
	refuses(&example, sizeof(example) + 1, "length");
	refuses(&example, sizeof(example.header), "length");
	REFUSES(header.magic, 0x55575442, "magic number");
	REFUSES(header.version, 2, "version");
	REFUSES(header.machine, EM_386, "machine");
	REFUSES(header.word_size, 4, "word size");
	REFUSES(header.flags, 1, "flags of the header");
	REFUSES(header.reserved[0], 1, "reserved field of the header");
	REFUSES(header.reserved[2], 1, "reserved field of the header");
	REFUSES(header.block_shift, UNWIND_TABLE_MIN_BLOCK_SHIFT - 1, "size of a block");
	REFUSES(header.block_shift, UNWIND_TABLE_MAX_BLOCK_SHIFT + 1, "size of a block");
	REFUSES(header.block_shift, 12, "length");
	REFUSES(header.nr_runs, UNWIND_TABLE_MAX_RUNS + 1, "too many runs");
	REFUSES(header.nr_pages, UNWIND_TABLE_MAX_PAGES + 1, "too many pages");
	REFUSES(header.nr_rows, UNWIND_TABLE_MAX_ROWS + 1, "too many rows");
	REFUSES(header.nr_rules, UNWIND_TABLE_MAX_RULES + 1, "too many rules");
	REFUSES(header.nr_rules, 5, "length");
	REFUSES(header.nr_runs, ~0U, "too many runs");
}

static void check_places(void)
{
	REFUSES(runs[0].first_block, 1, "first block of a run");
	REFUSES(runs[1].first_block, 2, "first block of a run");
	REFUSES(runs[1].nr_pages, 0, "run without pages");
	REFUSES(runs[1].page, 3, "runs that overlap, touch or are not sorted");
	REFUSES(runs[1].page, 2, "runs that overlap, touch or are not sorted");
	REFUSES(runs[1].page, 0, "runs that overlap, touch or are not sorted");
	REFUSES(runs[1].page, 1ULL << 52, "run beyond the largest file");
	REFUSES(runs[1].page, ~0ULL, "run beyond the largest file");
	REFUSES(runs[1].nr_pages, 2, "number of pages in the runs");
	REFUSES(runs[0].nr_pages, 1, "first block of a run");
	REFUSES(blocks[0], 1, "first block does not start at row 0");
	REFUSES(blocks[2], 0, "blocks that are not sorted");
	REFUSES(blocks[3], 2, "first row of a page is not at 0");
	REFUSES(blocks[6], 5, "block with rows that do not exist");
	REFUSES(header.nr_rows, 4, "length");
	REFUSES(rows[2].offset, UNWIND_TABLE_PAGE_SIZE,
		"row outside of its block, or not sorted");
	REFUSES(rows[1].offset, 2048, "row outside of its block, or not sorted");
	REFUSES(rows[2].offset, 2047, "row outside of its block, or not sorted");
	REFUSES(rows[0].offset, 1, "first row of a page is not at 0");
	REFUSES(rows[4].offset, 8, "first row of a page is not at 0");
	REFUSES(rows[1].offset, 0, "row outside of its block, or not sorted");
	REFUSES(rows[3].rule, 4, "row with a rule that does not exist");
}

static void check_rules(void)
{
	struct example no_fp = example;

	no_fp.rules[3].fp.where = UNWIND_TABLE_NONE;
	result(!unwind_table_check(&no_fp, sizeof(no_fp)), "check takes a rule without FP");
	REFUSES(rules[0].reserved, 1, "reserved field of a rule");
	REFUSES(rules[3].reserved, 1, "reserved field of a rule");
	REFUSES(rules[3].kind, UNWIND_TABLE_CALLER + 1, "rule of an unknown kind");
	REFUSES(rules[3].flags, 8, "unknown flag of a rule");
	REFUSES(rules[0].flags, 1, "rule without a caller that has places");
	REFUSES(rules[1].cfa_add, 1, "rule without a caller that has places");
	REFUSES(rules[2].fp.where, 1, "rule without a caller that has places");
	REFUSES(rules[2].ra.reserved, 1, "rule without a caller that has places");
	REFUSES(rules[3].kind, UNWIND_TABLE_OUTERMOST, "rule without a caller that has places");
	REFUSES(rules[3].cfa.reserved, 1, "reserved field of a location");
	REFUSES(rules[3].ra.reserved, 1, "reserved field of a location");
	REFUSES(rules[3].fp.reserved, 1, "reserved field of a location");
	REFUSES(rules[3].ra.where, UNWIND_TABLE_CFA_DEREF + 1, "location of an unknown kind");
	REFUSES(rules[3].fp.off, 8, "offset of a location that has none");
	REFUSES(rules[3].fp.reg, 6, "register of a location that has none");
	REFUSES(rules[3].ra.reg, 7, "register of a location that has none");
	REFUSES(rules[3].cfa.reg, 16, "register that does not exist");
	REFUSES(rules[3].cfa.where, UNWIND_TABLE_REG, "second offset of a CFA that has none");
	REFUSES(rules[3].ra.where, UNWIND_TABLE_CFA, "return address at such a place");
	REFUSES(rules[3].fp, ((struct unwind_table_loc){ .where = UNWIND_TABLE_NONE, .off = 8 }),
		"offset of a location that has none");
	REFUSES(rules[3].cfa, ((struct unwind_table_loc){ .where = UNWIND_TABLE_CFA }),
		"CFA at such a place");
	REFUSES(rules[3].cfa, ((struct unwind_table_loc){ .where = UNWIND_TABLE_SAME }),
		"CFA at such a place");
	REFUSES(rules[3].ra, ((struct unwind_table_loc){ .where = UNWIND_TABLE_SAME }),
		"return address at such a place");
	REFUSES(rules[3].ra, ((struct unwind_table_loc){ .where = UNWIND_TABLE_NONE }),
		"return address at such a place");
}

/* The result for a file in memory, whose table is right if there is one */
static int try_image(const void *image, size_t len, struct unwind_table_stats *stats)
{
	struct unwind_table *table;
	const char *wrong;
	const void *data;
	size_t size;
	int rc;

	rc = unwind_table_from_image(image, len, &table);
	if (rc) {
		if (table)
			errx(1, "table in spite of an error");
		return rc;
	}
	data = unwind_table_data(table, &size);
	wrong = unwind_table_check(data, size);
	if (wrong)
		errx(1, "bad table: %s", wrong);
	if (stats)
		*stats = *unwind_table_stats(table);
	unwind_table_free(table);
	return 0;
}

static int try_build(uint64_t code_len, unsigned int nr_segments, const struct cfi *cfi,
		     struct unwind_table_stats *stats)
{
	struct build b = { code_len, nr_segments, cfi->data, cfi->len };
	uint8_t *image;
	size_t len;
	int rc;

	image = build_elf(&b, &len);
	rc = try_image(image, len, stats);
	free(image);
	return rc;
}

static int try_ehdr(size_t at, uint8_t value)
{
	struct cfi cfi = { 0 };
	uint8_t *image;
	size_t len;
	int rc;

	cfi_cie(&cfi);
	cfi_fde(&cfi, BUILD_CODE, 16);
	cfi_end(&cfi);
	image = build_elf(&(struct build){ 0x1000, 1, cfi.data, cfi.len }, &len);
	image[at] = value;
	rc = try_image(image, len, NULL);
	free(image);
	free(cfi.data);
	return rc;
}

static void errors(void)
{
	struct cfi cfi = { 0 };
	struct unwind_table *table;
	int fds[2];

	result(try_ehdr(16, ET_DYN) == 0, "a built file has a table");
	result(try_image("", 0, NULL) == -ENOEXEC, "an empty file is no ELF file");
	result(try_image("#!/bin/sh\n", 10, NULL) == -ENOEXEC, "nor is a script");
	result(try_ehdr(EI_CLASS, ELFCLASS32) == -ENOEXEC, "32 bits are refused");
	result(try_ehdr(EI_DATA, ELFDATA2MSB) == -ENOEXEC, "big endian is refused");
	result(try_ehdr(18, EM_AARCH64) == -ENOEXEC, "another machine is refused");
	result(try_ehdr(16, ET_REL) == -ENOEXEC, "an object file is refused");
	result(try_ehdr(16, ET_CORE) == -ENOEXEC, "a core dump is refused");
	result(try_ehdr(56, 0) == -ENOEXEC, "no program headers are refused");
	result(try_ehdr(32, 0xff) == -ENOEXEC, "program headers elsewhere are refused");
	/* p_offset of the code: into the middle of a page, over the first segment */
	result(try_ehdr(64 + 56 + 8, 8) == -ENOEXEC, "a segment that nobody can map is refused");
	/* p_vaddr of the code: that of the headers */
	result(try_ehdr(64 + 56 + 17, 0) == -ENOEXEC, "segments at one address are refused");
	result(try_ehdr(64 + 56 + 4, PF_R) == -ENOEXEC, "a file without code is refused");
	result(try_build(0x1000, 1, &cfi, NULL) == -ENODATA, "no CFI is said to be missing");
	cfi_u32(&cfi, 0);
	result(try_build(0x1000, 1, &cfi, NULL) == -ENODATA, "nor is its end enough");
	cfi.len = 0;
	cfi_cie(&cfi);
	result(try_build(0x1000, 1, &cfi, NULL) == -ENODATA, "nor is a CIE");
	free(cfi.data);

	if (pipe(fds))
		err(1, "pipe");
	result(unwind_table_from_fd(fds[0], &table) == -ENOEXEC && !table,
	       "a pipe is no ELF file");
	close(fds[0]);
	close(fds[1]);
	result(unwind_table_from_fd(fds[0], &table) == -EBADF && !table,
	       "a closed descriptor is an error");
	result(!strcmp(unwind_table_reason_name(UNWIND_TABLE_R_GAP), "no FDE"),
	       "reasons have names");
	unwind_table_free(NULL);
}

/* Properties of a file that make it a program, or not */
enum entry {
	LIBRARY,		/* nothing */
	FIXED,			/* ET_EXEC */
	INTERPRETED,		/* PT_INTERP */
	STATIC_PIE,		/* DF_1_PIE */
	INTERPRETER,		/* needs no other file, and has the symbol that the others need */
	NEEDY,			/* the same, but it needs another file */
};

/* The rule at the entry, which has no FDE, of a file of that kind */
static bool is_outermost(enum entry kind)
{
	static const char name[] = "\0__tls_get_addr";
	struct build b = { 0x1000, 2, NULL, 0 };
	uint64_t dynamic[] = { DT_STRTAB, 0x600, DT_STRSZ, sizeof(name), DT_NULL, 0, 0, 0 };
	struct unwind_table *table;
	struct cfi cfi = { 0 };
	char *text = NULL;
	Elf64_Phdr *phdrs;
	Elf64_Ehdr *ehdr;
	uint8_t *image;
	size_t len;
	bool found;
	FILE *out;

	cfi_cie(&cfi);
	cfi_fde(&cfi, BUILD_CODE, 16);
	cfi_end(&cfi);
	b.cfi = cfi.data;
	b.cfi_len = cfi.len;
	image = build_elf(&b, &len);
	ehdr = (Elf64_Ehdr *)image;
	phdrs = (Elf64_Phdr *)(ehdr + 1);
	ehdr->e_entry = BUILD_CODE + 0x100;
	if (kind == FIXED)
		ehdr->e_type = ET_EXEC;
	if (kind == STATIC_PIE) {
		dynamic[4] = DT_FLAGS_1;
		dynamic[5] = DF_1_PIE;
	}
	if (kind == NEEDY)
		dynamic[4] = DT_NEEDED;
	memcpy(image + 0x500, dynamic, sizeof(dynamic));
	if (kind >= INTERPRETER)
		memcpy(image + 0x600, name, sizeof(name));
	/* In the place of the second segment of code */
	phdrs[2] = (Elf64_Phdr){ .p_type = PT_DYNAMIC, .p_offset = 0x500, .p_vaddr = 0x500,
				 .p_filesz = sizeof(dynamic) };
	if (kind == INTERPRETED)
		phdrs[2].p_type = PT_INTERP;
	if (unwind_table_from_image(image, len, &table))
		errx(1, "no table");
	out = open_memstream(&text, &len);
	unwind_table_print(table, BUILD_CODE + 0x100, BUILD_CODE + 0x101, out);
	fclose(out);
	found = strstr(text, "outermost");
	free(text);
	unwind_table_free(table);
	free(image);
	free(cfi.data);
	return found;
}

static void entries(void)
{
	result(is_outermost(FIXED) && is_outermost(INTERPRETED) && is_outermost(STATIC_PIE),
	       "the entry of a program is outermost");
	result(is_outermost(INTERPRETER), "and that of an interpreter");
	result(!is_outermost(LIBRARY) && !is_outermost(NEEDY), "and of no library");
}

/* Files that would take long: N rows with expressions of L bytes, in several ways */
enum work {
	ONE_STATE,		/* which all rows have */
	TWO_STATES,		/* in turns */
	TWO_DEPEND,		/* in turns, and the expression depends on the IP */
	NEARLY_KNOWN,		/* N gaps with code that begins like code that is known */
	NR_WORKS
};

static const uint8_t plt[] = { 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 };

static void put_expression(struct cfi *cfi, enum work kind, unsigned int len)
{
	const uint8_t head[] = { 0x0f, 0x80 | (len & 0x7f), 0x80 | (len >> 7 & 0x7f), len >> 14 };
	static const uint8_t sp[] = { 0x77, 8 };
	const uint8_t *last = kind == TWO_DEPEND ? plt : sp;
	size_t last_len = kind == TWO_DEPEND ? sizeof(plt) : sizeof(sp);
	unsigned int i;

	cfi_put(cfi, head, sizeof(head));
	for (i = last_len; i < len; i++)
		cfi_u8(cfi, 0x96);
	cfi_put(cfi, last, last_len);
}

/* The work of such a file; 0: it is refused for it. @size: of code and CFI */
static uint64_t work_of(enum work kind, unsigned int len, unsigned int nr, uint64_t *size)
{
	uint64_t code_len = kind == NEARLY_KNOWN ? 0x1400 * nr : nr + 16, i;
	struct unwind_table *table = NULL;
	struct cfi cfi = { 0 };
	struct build b;
	uint64_t work;
	uint8_t *image;
	int rc;

	cfi_cie(&cfi);
	for (i = 0; kind == NEARLY_KNOWN && i < nr; i++) {
		cfi_fde(&cfi, BUILD_CODE + 0x1400 * i, 16);
		cfi_end(&cfi);
	}
	if (kind != NEARLY_KNOWN) {
		cfi_fde(&cfi, BUILD_CODE, code_len);
		put_expression(&cfi, kind, len);
		/* FP is the same, then undefined */
		for (i = 0; i < nr; i++) {
			if (kind != ONE_STATE)
				cfi_put(&cfi, i % 2 ? "\x08\x06" : "\x07\x06", 2);
			cfi_u8(&cfi, 0x41);
		}
		cfi_end(&cfi);
	}
	b = (struct build){ code_len, 1, cfi.data, cfi.len };
	image = build_elf(&b, size);
	for (i = 0; kind == NEARLY_KNOWN && i < code_len; i += 4)
		memcpy(image + BUILD_CODE + i, "\x48\x83\xec\x10", 4);
	rc = unwind_table_from_image(image, *size, &table);
	if (rc && rc != -E2BIG)
		errx(1, "work %d: %s", kind, strerror(-rc));
	*size = code_len + cfi.len + UNWIND_TABLE_PAGE_SIZE;
	work = rc ? 0 : unwind_table_stats(table)->work;
	unwind_table_free(table);
	free(image);
	free(cfi.data);
	return work;
}

static void works(void)
{
	static const char * const names[] = {
		"rows of one expression", "rows of an expression in two states",
		"rows of an expression in two states that depends on the place",
		"gaps with code that is nearly known",
	};
	bool is_made;
	int kind;

	for (kind = 0; kind < NR_WORKS; kind++) {
		unsigned int nr = kind == NEARLY_KNOWN ? 200 : 60000;
		uint64_t size, size2, work, work2;
		char text[128];

		work = work_of(kind, 12000, nr, &size);
		work2 = work_of(kind, 24000, 2 * nr, &size2);
		printf("# %s: %.2f and %.2f operations a byte\n", names[kind],
		       (double)work / size, (double)work2 / size2);
		/* One of them is refused after all the allowed work. */
		is_made = (work && work2) || kind == TWO_DEPEND;
		work = work ? work : UNWIND_TABLE_WORK * size;
		work2 = work2 ? work2 : UNWIND_TABLE_WORK * size2;
		snprintf(text, sizeof(text), "twice the size is twice the work: %s", names[kind]);
		result(is_made && work <= UNWIND_TABLE_WORK * size && work2 * 10 <= work * 22, text);
	}
	result(!work_of(TWO_DEPEND, 24000, 60000, &(uint64_t){ 0 }),
	       "a file that takes more work than it may is refused");
}

/* Code without FDE that takes long to follow, over and over */
static const struct {
	const char	*name;
	const char	*code;
	size_t		len;
} hostile[] = {
#define HOSTILE(name, code)	{ name, code, sizeof(code) - 1 }
	HOSTILE("jumps to the next one", "\xe9\0\0\0\0"),
	HOSTILE("calls of the next one", "\xe8\x01\0\0\0\xc3"),
	HOSTILE("calls of the one before", "\xe8\xf5\xff\xff\xff\xc3"),
	HOSTILE("branches to the next one", "\x74\0"),
	HOSTILE("a frame that grows in loops", "\x50\x74\xfd"),
	HOSTILE("loops within loops", "\x50\x58\x74\xfc\x75\xfa"),
	HOSTILE("registers that are saved in turns", "\x55\x48\x89\xe5\x53\x74\xf9\x5b\x5d"),
	HOSTILE("jumps into the middle", "\x74\x01\x48\x31\xc0\x75\xfa"),
	HOSTILE("SP from memory", "\x48\x8b\x27\x74\xfb\x50"),
	HOSTILE("jumps by tables of 4096 entries",
		"\x48\x8d\x05\xf9\xff\xff\xff\x48\x63\x14\x90\x48\x01\xc2\x74\xf0\xff\xe2"),
	HOSTILE("labels and jumps to any of them",
		"\x50\x4c\x8d\x05\xf8\xff\xff\xff\x74\xf5\x41\xff\xe0"),
	HOSTILE("functions that return", "\x50\x58\xc3"),
	HOSTILE("nothing that can be decoded", "\x06"),
#undef HOSTILE
};

/* The work of code that is called, or all that is allowed; @done: it was followed */
static uint64_t work_of_bytes(const uint8_t *code, size_t len, bool *done)
{
	/* Calls of the next instruction */
	static const uint8_t caller[16] = {
		0xe8, 11, 0, 0, 0, 0xe8, 6, 0, 0, 0, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
	};
	struct unwind_table *table = NULL;
	struct cfi cfi = { 0 };
	struct build b;
	uint64_t work;
	uint8_t *image;
	size_t size;

	cfi_cie(&cfi);
	cfi_fde(&cfi, BUILD_CODE, sizeof(caller));
	cfi_end(&cfi);
	b = (struct build){ sizeof(caller) + len, 1, cfi.data, cfi.len };
	image = build_elf(&b, &size);
	memcpy(image + BUILD_CODE, caller, sizeof(caller));
	memcpy(image + BUILD_CODE + sizeof(caller), code, len);
	if (unwind_table_from_image(image, size, &table))
		errx(1, "no table of code that is followed");
	work = unwind_table_stats(table)->work_code;
	*done = work <= UNWIND_TABLE_WORK_CODE * (b.code_len + UNWIND_TABLE_PAGE_SIZE);
	unwind_table_free(table);
	free(image);
	free(cfi.data);
	return *done ? work : UNWIND_TABLE_WORK_CODE * (b.code_len + UNWIND_TABLE_PAGE_SIZE);
}

static uint64_t work_of_code(unsigned int kind, size_t len, bool *done)
{
	uint8_t *code = calloc(1, len);
	uint64_t work;
	size_t i;

	for (i = 0; i + hostile[kind].len <= len; i += hostile[kind].len)
		memcpy(code + i, hostile[kind].code, hostile[kind].len);
	work = work_of_bytes(code, len, done);
	free(code);
	return work;
}

/* A function of @len bytes that begins with so many jumps by tables, behind branches */
static uint64_t work_of_jumps(unsigned int nr, size_t len)
{
	static const uint8_t jump[] = {
		0x48, 0x8d, 0x05, 0xf9, 0xff, 0xff, 0xff,	/* lea -7(%rip), %rax */
		0x48, 0x63, 0x14, 0x90,				/* movslq (%rax,%rdx,4), %rdx */
		0x48, 0x01, 0xc2, 0x74, 0x02, 0xff, 0xe2,	/* add %rax, %rdx; je; jmp *%rdx */
	};
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 };
	uint8_t *code = malloc(len);
	uint64_t work;
	bool done;
	size_t i;

	memset(code, 0xc3, len);
	for (i = 0; i < nr; i++)
		memcpy(code + i * sizeof(jump), jump, sizeof(jump));
	for (i *= sizeof(jump); i + sizeof(nop) < len; i += sizeof(nop))
		memcpy(code + i, nop, sizeof(nop));
	work = work_of_bytes(code, len, &done);
	free(code);
	return done ? work : 0;
}

/*
 * Code to which functions jump, each of which has written another register: for each, it is
 * followed again. Returns whether that was done.
 */
static bool follows_again(unsigned int times, size_t len)
{
	static const uint8_t regs[] = { 0, 1, 2, 6, 7, 8, 9, 10, 11 };
	const size_t first = 64, shared = first + 16 * sizeof(regs);
	struct unwind_table *table = NULL;
	struct cfi cfi = { 0 };
	uint8_t *image, *code;
	struct build b;
	unsigned int i;
	size_t size;
	bool done;

	cfi_cie(&cfi);
	cfi_fde(&cfi, BUILD_CODE, first);
	cfi_end(&cfi);
	b = (struct build){ shared + len, 1, cfi.data, cfi.len };
	image = build_elf(&b, &size);
	code = image + BUILD_CODE;
	memset(code, 0xcc, shared);
	for (i = 0; i < times; i++) {
		const uint8_t reg = regs[i];
		/* call; xor %reg, %reg; jmp */
		const uint8_t call[] = { 0xe8, first + 16 * i - 5 * (i + 1), 0, 0, 0 };
		const uint8_t clear[] = { reg > 7 ? 0x45 : 0x40, 0x31, 0xc0 | (reg & 7) * 9, 0xe9 };
		const uint32_t distance = shared - (first + 16 * i + 8);

		memcpy(code + 5 * i, call, sizeof(call));
		memcpy(code + first + 16 * i, clear, sizeof(clear));
		memcpy(code + first + 16 * i + sizeof(clear), &distance, sizeof(distance));
	}
	memset(code + shared, 0x90, len - 1);
	code[shared + len - 1] = 0xc3;
	if (unwind_table_from_image(image, size, &table))
		errx(1, "no table of code that is followed again");
	done = unwind_table_stats(table)->origins[UNWIND_TABLE_O_INSTRUCTIONS] >= len;
	unwind_table_free(table);
	free(image);
	free(cfi.data);
	return done;
}

static void works_of_code(void)
{
	unsigned int kind;

	for (kind = 0; unwind_table_follows() && kind < sizeof(hostile) / sizeof(hostile[0]); kind++) {
		size_t len = 100000;
		bool done, done2;
		uint64_t work = work_of_code(kind, len, &done);
		uint64_t work2 = work_of_code(kind, 2 * len, &done2);
		char text[128];

		printf("# %s: %.2f and %.2f operations a byte%s\n", hostile[kind].name,
		       (double)work / len, (double)work2 / (2 * len),
		       done2 ? "" : ", which is more than allowed");
		snprintf(text, sizeof(text), "twice the code is twice the work: %s",
			 hostile[kind].name);
		result(work && work2 * 10 <= work * 22, text);
	}
	if (unwind_table_follows()) {
		result(follows_again(1, 60000), "code that is followed once has rules");
		result(!follows_again(9, 60000), "code that takes more work than it may has none");
		result(work_of_jumps(20, 60000) >= 10 * 60000,
		       "a jump by a table counts the code to which it may lead");
	}
}

/* As many rules as FDEs: CFA = rsp + 16 n, FP at CFA - 16 m */
static int many_rules(unsigned int nr, struct unwind_table_stats *stats)
{
	struct cfi cfi = { 0 };
	unsigned int i;
	int rc;

	cfi_cie(&cfi);
	for (i = 0; i < nr; i++) {
		const uint8_t program[] = { 0x0e, 0x80 | (i & 0x7f), 0x80 | (i >> 7 & 0x7f),
					    i >> 14 };

		cfi_fde(&cfi, BUILD_CODE + 16 * i, 16);
		cfi_put(&cfi, program, sizeof(program));
		cfi_end(&cfi);
	}
	rc = try_build(16 * nr, 1, &cfi, stats);
	free(cfi.data);
	return rc;
}

static void limits(void)
{
	struct unwind_table_stats stats;
	const uint8_t advance[] = { 0x41, 0x0e, 16, 0x41, 0x0e, 24 };
	struct cfi cfi = { 0 };
	uint64_t i;
	int rc;

	/* Two rules are there always. */
	rc = many_rules(UNWIND_TABLE_MAX_RULES - 2, &stats);
	result(!rc && stats.rules == UNWIND_TABLE_MAX_RULES &&
	       !stats.places[UNWIND_TABLE_R_FULL], "as many rules as possible");
	rc = many_rules(UNWIND_TABLE_MAX_RULES + 98, &stats);
	result(!rc && stats.rules == UNWIND_TABLE_MAX_RULES &&
	       stats.bytes[UNWIND_TABLE_R_FULL] == 100 * 16 &&
	       stats.covered_bytes == stats.code_bytes - 100 * 16,
	       "with more rules some code is unknown");

	cfi_cie(&cfi);
	cfi_fde(&cfi, BUILD_CODE, 16);
	cfi_end(&cfi);
	rc = try_build(0x800, UNWIND_TABLE_MAX_RUNS, &cfi, &stats);
	result(!rc, "segments that share pages or touch are one run");
	rc = try_build(0x1000, UNWIND_TABLE_MAX_RUNS, &cfi, &stats);
	result(!rc && stats.code_bytes == 0x1000 * UNWIND_TABLE_MAX_RUNS,
	       "as many runs as possible");
	result(try_build(0x1000, UNWIND_TABLE_MAX_RUNS + 1, &cfi, NULL) == -EFBIG,
	       "more runs are too many");

	/* One row for each byte. */
	cfi.len = 0;
	cfi_cie(&cfi);
	cfi_fde(&cfi, BUILD_CODE, UNWIND_TABLE_MAX_ROWS + 16);
	for (i = 0; i < UNWIND_TABLE_MAX_ROWS / 2 - 1; i++)
		cfi_put(&cfi, advance, sizeof(advance));
	cfi_end(&cfi);
	rc = try_build(UNWIND_TABLE_MAX_ROWS, 1, &cfi, &stats);
	result(rc == -ENODATA, "an FDE that is longer than the code is bad");
	cfi_u64(&cfi, 0);
	i = UNWIND_TABLE_MAX_ROWS - 1;
	memcpy(cfi.data + 24 + 16, &i, sizeof(i));
	rc = try_build(UNWIND_TABLE_MAX_ROWS, 1, &cfi, &stats);
	result(!rc && stats.rows == UNWIND_TABLE_MAX_ROWS, "as many rows as possible");
	cfi.len = 0;
	cfi_cie(&cfi);
	cfi_fde(&cfi, BUILD_CODE, UNWIND_TABLE_MAX_ROWS + 1);
	for (i = 0; i < UNWIND_TABLE_MAX_ROWS / 2; i++)
		cfi_put(&cfi, advance, sizeof(advance));
	cfi_end(&cfi);
	rc = try_build(UNWIND_TABLE_MAX_ROWS + 1, 1, &cfi, NULL);
	result(rc == -EFBIG, "more rows are too many");
	free(cfi.data);
}

/* A sparse file with 4 GiB of code, and a byte more */
static void large(const char *dir)
{
	uint64_t len = (uint64_t)UNWIND_TABLE_MAX_PAGES << UNWIND_TABLE_PAGE_SHIFT;
	struct cfi cfi = { 0 };
	struct unwind_table *table;
	char path[4096];
	size_t size;
	uint8_t *image;
	uint64_t i;
	int fd, rc;

	cfi_cie(&cfi);
	cfi_fde(&cfi, BUILD_CODE, 16);
	cfi_end(&cfi);
	image = build_elf(&(struct build){ 0x1000, 1, cfi.data, cfi.len }, &size);
	snprintf(path, sizeof(path), "%s/large", dir);
	for (i = 0; i < 2; i++, len++) {
		/* Code after all the rest, at another address */
		Elf64_Phdr *code = (Elf64_Phdr *)(image + sizeof(Elf64_Ehdr)) + 1;

		code->p_offset = 0x10000;
		code->p_vaddr = 0x100000;
		code->p_filesz = len;
		*(uint64_t *)(image + size - cfi.len + 24 + 8) = 0x100000;
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || write(fd, image, size) != (ssize_t)size ||
		    ftruncate(fd, 0x10000 + len))
			err(1, "%s", path);
		rc = unwind_table_from_fd(fd, &table);
		close(fd);
		unwind_table_free(table);
		if (!i)
			result(!rc, "as many pages as possible");
		else
			result(rc == -EFBIG, "more pages are too many");
	}
	unlink(path);
	free(image);
	free(cfi.data);
}

static bool same_tables(const struct unwind_table *a, const struct unwind_table *b)
{
	size_t len, other;
	const void *from = unwind_table_data(a, &len);
	const void *to = unwind_table_data(b, &other);

	return from && len == other && !memcmp(from, to, len);
}

/* A file as the loader maps it, without relocations */
static uint8_t *load(const uint8_t *image, size_t *len)
{
	const Elf64_Ehdr *ehdr = (const void *)image;
	const Elf64_Phdr *phdrs = (const void *)(image + ehdr->e_phoff);
	uint64_t first = ~0ULL;
	uint8_t *memory = NULL;
	int i;

	*len = 0;
	for (i = 0; i < ehdr->e_phnum; i++) {
		uint64_t at = phdrs[i].p_vaddr;

		if (phdrs[i].p_type != PT_LOAD || !phdrs[i].p_filesz)
			continue;
		if (first == ~0ULL)
			first = at & ~0xfffULL;
		memory = realloc(memory, at - first + phdrs[i].p_filesz);
		memset(memory + *len, 0, at - first - *len);
		memcpy(memory + at - first, image + phdrs[i].p_offset, phdrs[i].p_filesz);
		*len = at - first + phdrs[i].p_filesz;
	}
	return memory;
}

static void all_ways(const char *name)
{
	struct unwind_table *by_fd = NULL, *by_image = NULL, *by_memory = NULL;
	const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
	struct stat stat;
	char text[256];
	uint8_t *memory;
	size_t len;
	void *image;
	bool ok;
	int fd;

	fd = open(name, O_RDONLY);
	if (fd < 0 || fstat(fd, &stat))
		err(1, "%s", name);
	image = mmap(NULL, stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED)
		err(1, "%s", name);
	ok = !unwind_table_from_fd(fd, &by_fd) &&
	     !unwind_table_from_image(image, stat.st_size, &by_image) &&
	     same_tables(by_fd, by_image);
	snprintf(text, sizeof(text), "%s: the same table by descriptor and from memory", base);
	result(ok, text);

	/* Golden files have no headers in memory. */
	memory = load(image, &len);
	if (memcmp(memory, ELFMAG, SELFMAG))
		goto out;
	ok = ok && !unwind_table_from_memory(memory, len, &by_memory) &&
	     same_tables(by_fd, by_memory);
	snprintf(text, sizeof(text), "%s: and as the loader puts it", base);
	result(ok, text);
out:
	munmap(image, stat.st_size);
	free(memory);
	unwind_table_free(by_fd);
	unwind_table_free(by_image);
	unwind_table_free(by_memory);
	close(fd);
}

static void vdso(void)
{
	uintptr_t at = getauxval(AT_SYSINFO_EHDR);
	struct unwind_table *table = NULL;
	const struct unwind_table_stats *stats;
	int rc;

	if (!at) {
		result(true, "the vDSO has a table # SKIP there is none");
		return;
	}
	rc = unwind_table_from_memory((void *)at, 2 * 4096, &table);
	stats = rc ? NULL : unwind_table_stats(table);
	if (stats)
		printf("# %llu FDEs, %llu of %llu bytes covered, %llu bad\n",
		       (unsigned long long)stats->fdes,
		       (unsigned long long)stats->covered_bytes,
		       (unsigned long long)stats->code_bytes,
		       (unsigned long long)stats->places[UNWIND_TABLE_R_BAD]);
	result(stats && stats->fdes && !stats->places[UNWIND_TABLE_R_BAD],
	       "the vDSO has a table");
	unwind_table_free(table);
}

/* A file that is cut off at any byte, and while it is read */
static void truncated(const char *name, const char *dir)
{
	char path[4096];
	struct unwind_table *table;
	struct stat stat;
	uint8_t *image, *copy;
	unsigned int i;
	size_t len;
	pid_t pid;
	int fd;

	fd = open(name, O_RDONLY);
	if (fd < 0 || fstat(fd, &stat))
		err(1, "%s", name);
	image = malloc(stat.st_size);
	if (read(fd, image, stat.st_size) != stat.st_size)
		err(1, "%s", name);
	close(fd);
	for (len = 0; len <= (size_t)stat.st_size; len += len < 2048 ? 1 : 13) {
		/* So that the sanitizer knows where it ends */
		copy = malloc(len);
		memcpy(copy, image, len);
		try_image(copy, len, NULL);
		free(copy);
	}
	result(true, "a file that is cut off is no danger");

	snprintf(path, sizeof(path), "%s/truncated", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		err(1, "%s", path);
	pid = fork();
	if (!pid) {
		for (;;) {
			if (pwrite(fd, image, stat.st_size, 0) != stat.st_size ||
			    ftruncate(fd, stat.st_size / 2) || ftruncate(fd, 0))
				_exit(1);
		}
	}
	for (i = 0; i < 3000; i++) {
		if (!unwind_table_from_fd(fd, &table))
			unwind_table_free(table);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	result(true, "nor is one that is cut off while it is read");
	unlink(path);
	close(fd);
	free(image);
}

/* The vectors that its authors have published: the lengths 0 to 8, and 15 */
static void hashes(void)
{
	static const __u64 expected[] = {
		0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a,
		0x85676696d7fb7e2d, 0xcf2794e0277187b7, 0x18765564cd99a68d,
		0xcbc9466e58fee3ce, 0xab0200f58b01d137, 0x93f5f5799a932462,
		[15] = 0xa129ca6149be45e5,
	};
	const __u64 key[2] = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
	unsigned char data[16];
	bool ok = true;
	size_t len;

	for (len = 0; len < sizeof(data); len++) {
		data[len] = len;
		if (expected[len] && hash_siphash(key, data, len) != expected[len])
			ok = false;
	}
	result(ok, "hashes are those of SipHash-2-4");
}

int main(int argc, char **argv)
{
	int i;

	if (argc < 3)
		errx(2, "usage: unit DIRECTORY FILE...");
	hashes();
	check_header();
	check_places();
	check_rules();
	errors();
	entries();
	works();
	works_of_code();
	limits();
	large(argv[1]);
	for (i = 2; i < argc; i++)
		all_ways(argv[i]);
	vdso();
	truncated(argv[2], argv[1]);
	printf("1..%u\n", nr_tests);
	return nr_failed != 0;
}
