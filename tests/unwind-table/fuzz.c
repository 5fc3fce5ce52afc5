// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer target: files of any bytes. There must be no read outside of them
 * (ASan), no undefined behaviour (UBSan), an end in time, and a table that
 * unwind_table_check() accepts, with statistics that add up.
 *
 * Input: a byte for the kind of the rest, as few files are ELF files by chance.
 */

#include <stdio.h>

#include "check.h"
#include "elf_build.h"
#include "unwind-table.h"

enum {
	IMAGE,		/* a file */
	MEMORY,		/* a file as the loader puts it */
	CFI,		/* .eh_frame of a file */
	PROGRAM,	/* instructions of an FDE */
	EXPRESSION,	/* the CFA of an FDE */
	CODE,		/* code after an FDE, and before one without caller */
	NR_KINDS,
};

#define CODE_LEN	0x2400
#define TABLE_LEN	0x20000

static FILE *null;

static void broken(const char *what)
{
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

static void check_stats(const struct unwind_table_stats *stats, size_t len)
{
	uint64_t known = stats->covered_bytes;
	int i;

	for (i = 0; i < UNWIND_TABLE_NR_REASONS; i++) {
		/* These have a rule all the same. */
		if (i != UNWIND_TABLE_R_OVERLAP && i != UNWIND_TABLE_R_FP)
			known += stats->bytes[i];
	}
	if (known > stats->code_bytes)
		broken("more code than there is");
	if (stats->rows * 4 > len || stats->rules * 32 > len)
		broken("more rows or rules than there are");
}

/* @size: of the file, whose bytes may be code and CFI of both kinds */
static void check_table(int rc, struct unwind_table *table, size_t size)
{
	const char *wrong;
	const void *data;
	size_t len;

	if (rc) {
		if (table)
			broken("table in spite of an error");
		return;
	}
	data = unwind_table_data(table, &len);
	wrong = unwind_table_check(data, len);
	if (wrong)
		broken(wrong);
	check_stats(unwind_table_stats(table), len);
	if (unwind_table_stats(table)->work > UNWIND_TABLE_WORK * (3 * size + 4096))
		broken("more work than it may cause");
	if (unwind_table_print(table, 0, TABLE_LEN, null))
		broken("cannot be printed");
	unwind_table_free(table);
}

static void fuzz_image(const uint8_t *data, size_t len)
{
	struct unwind_table *table;
	int rc = unwind_table_from_image(data, len, &table);

	check_table(rc, table, len);
}

static void fuzz_memory(const uint8_t *data, size_t len)
{
	struct unwind_table *table;
	int rc = unwind_table_from_memory(data, len, &table);

	check_table(rc, table, len);
}

static void fuzz_cfi(const struct cfi *cfi, const uint8_t *code, size_t code_len)
{
	struct build b = { CODE_LEN, 2, cfi->data, cfi->len };
	uint8_t *image, *copy;
	size_t len;

	image = build_elf(&b, &len);
	if (code_len > CODE_LEN - 48)
		code_len = CODE_LEN - 48;
	if (code_len)
		memcpy(image + BUILD_CODE + 16, code, code_len);
	/* So that the sanitizer knows where it ends */
	copy = malloc(len);
	memcpy(copy, image, len);
	fuzz_image(copy, len);
	fuzz_memory(copy, len);
	free(copy);
	free(image);
}

static void put_uleb(struct cfi *cfi, size_t n)
{
	cfi_u8(cfi, 0x80 | (n & 0x7f));
	cfi_u8(cfi, 0x80 | (n >> 7 & 0x7f));
	cfi_u8(cfi, n >> 14);
}

static void fuzz_built(int kind, const uint8_t *data, size_t len)
{
	struct cfi cfi = { 0 };

	if (kind == CFI) {
		cfi_put(&cfi, data, len);
		fuzz_cfi(&cfi, NULL, 0);
		free(cfi.data);
		return;
	}
	cfi_cie(&cfi);
	cfi_fde(&cfi, BUILD_CODE, kind == CODE ? 16 : CODE_LEN);
	if (kind == EXPRESSION) {
		cfi_u8(&cfi, 0x0f);
		put_uleb(&cfi, len);
	}
	if (kind != CODE)
		cfi_put(&cfi, data, len);
	cfi_end(&cfi);
	if (kind == CODE) {
		if (len > CODE_LEN - 48)
			len = CODE_LEN - 48;
		cfi_fde(&cfi, BUILD_CODE + 16 + len, 32);
		if (len & 1)
			cfi_put(&cfi, "\x07\x10", 2);
		cfi_end(&cfi);
	}
	fuzz_cfi(&cfi, data, kind == CODE ? len : 0);
	free(cfi.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	int kind;

	if (!null)
		null = fopen("/dev/null", "w");
	if (!len)
		return 0;
	kind = *data++ % NR_KINDS;
	len--;
	if (kind == IMAGE)
		fuzz_image(data, len);
	else if (kind == MEMORY)
		fuzz_memory(data, len);
	else
		fuzz_built(kind, data, len);
	return 0;
}

#ifdef FUZZ_STANDALONE
/* Without libFuzzer: run files */
int main(int argc, char **argv)
{
	static uint8_t data[1 << 20];
	FILE *file;
	int i;

	for (i = 1; i < argc; i++) {
		file = fopen(argv[i], "r");
		if (!file) {
			perror(argv[i]);
			return 2;
		}
		LLVMFuzzerTestOneInput(data, fread(data, 1, sizeof(data), file));
		fclose(file);
	}
	return 0;
}
#endif
