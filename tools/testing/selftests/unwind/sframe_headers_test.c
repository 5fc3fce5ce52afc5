// SPDX-License-Identifier: GPL-2.0
/*
 * Files whose SFrame tables are not used, by what their headers say, and how many
 * and how large those may be that are.
 */
#include "sframe_image.h"
#include "unwind_harness.h"

/* What the kernel documents as its limit for answers that it remembers */
#define MAX_FOUND	1024

/* ------------------------------------------------------------------------ */
/* Headers								    */
/* One field that makes a file unfit: where it is, its size, the bad value */
#define EHDR(field)							\
	{ offsetof(Elf64_Ehdr, field),				\
	  sizeof(((Elf64_Ehdr *)0)->field) }
#define PHDR(nr, field)							\
	{ sizeof(Elf64_Ehdr) + (nr) * sizeof(Elf64_Phdr) +	\
	  offsetof(Elf64_Phdr, field),				\
	  sizeof(((Elf64_Phdr *)0)->field) }
#define TABLE(byte)	{ FILE_TABLE + (byte), 1 }

static const struct {
	const char *what;
	struct {
		size_t off;
		size_t size;
	} where;
	uint64_t val;
} unfit[] = {
	{ "no magic",			EHDR(e_ident[1]), 0 },
	{ "32-bit",			EHDR(e_ident[EI_CLASS]), ELFCLASS32 },
	{ "big endian",			EHDR(e_ident[EI_DATA]), ELFDATA2MSB },
	{ "other ELF version",		EHDR(e_ident[EI_VERSION]), 2 },
	{ "object file",		EHDR(e_type), ET_REL },
	{ "other machine",		EHDR(e_machine), EM_AARCH64 },
	{ "small program headers",	EHDR(e_phentsize), 32 },
	{ "no program headers",		EHDR(e_phnum), 0 },
	{ "too many program headers",	EHDR(e_phnum), 65 },
	{ "most program headers",	EHDR(e_phnum), 0xffff },
	{ "program headers cut",	EHDR(e_phoff), FILE_TEXT - 8 },
	{ "program headers wrap",	EHDR(e_phoff), -8UL },
	{ "no segment of a table",	PHDR(PH_SFRAME, p_type), PT_NULL },
	{ "two tables",			PHDR(PH_SPARE, p_type), PT_GNU_SFRAME },
	{ "empty table segment",	PHDR(PH_SFRAME, p_memsz), 0 },
	{ "table in no segment",	PHDR(PH_SFRAME, p_vaddr), 1UL << 30 },
	{ "table below",		PHDR(PH_SFRAME, p_vaddr), -PAGE },
	{ "table in the kernel",	PHDR(PH_SFRAME, p_vaddr), 1UL << 63 },
	{ "table segment wraps",	PHDR(PH_SFRAME, p_memsz), -8UL },
	{ "code wraps",			PHDR(PH_TEXT, p_memsz), -8UL },
	{ "code elsewhere",		PHDR(PH_TEXT, p_vaddr), FILE_TEXT + PAGE },
	{ "code of another page",	PHDR(PH_TEXT, p_offset), FILE_TEXT + PAGE },
	{ "code not executable",	PHDR(PH_TEXT, p_flags), PF_R },
	{ "headers in no segment",	PHDR(PH_HEADERS, p_offset), PAGE },
	{ "headers in two segments",	PHDR(PH_SPARE, p_type), PT_LOAD },
	{ "headers not aligned",	PHDR(PH_HEADERS, p_vaddr), 8 },
	{ "headers elsewhere",		PHDR(PH_HEADERS, p_vaddr), PAGE },
	{ "table of version 1",		TABLE(2), 1 },
	{ "table without magic",	TABLE(0), 0 },
	{ "table not sorted",		TABLE(3), 4 },
	{ "table for another machine",	TABLE(4), 2 },
};

TEST(file_with_unfit_headers_has_no_table)
{
	unsigned int i;

	if (must_skip(_metadata, need_sframe()))
		return;

	for (i = 0; i < ARRAY_SIZE(unfit); i++) {
		struct image image;
		u8 good[8];

		ASSERT_TRUE(image_make(&image, 3, true));
		memcpy(good, image.file + unfit[i].where.off,
		       unfit[i].where.size);
		memcpy(image.file + unfit[i].where.off, &unfit[i].val,
		       unfit[i].where.size);
		ASSERT_TRUE(image_map(&image));
		EXPECT_TRUE(is_without_table(&image.code)) {
			TH_LOG("%s", unfit[i].what);
		}
		/* The answer stays, though the file is in order now. */
		memcpy(image.file + unfit[i].where.off, good,
		       unfit[i].where.size);
		EXPECT_TRUE(is_without_table(&image.code)) {
			TH_LOG("%s, mended", unfit[i].what);
		}
		image_free(&image);
	}
}

/* Even if they agree */
TEST(file_with_a_segment_twice_has_no_table)
{
	static const int twice[] = { PH_HEADERS, PH_SFRAME };
	unsigned int i;

	if (must_skip(_metadata, need_sframe()))
		return;

	for (i = 0; i < ARRAY_SIZE(twice); i++) {
		struct image image;

		ASSERT_TRUE(image_make(&image, 3, true));
		image.phdr[PH_SPARE] = image.phdr[twice[i]];
		ASSERT_TRUE(image_map(&image));
		EXPECT_TRUE(is_without_table(&image.code)) {
			TH_LOG("segment %d", twice[i]);
		}
		image_free(&image);
	}
}

/* All is where it says, but that is no place for a mapping. */
TEST(file_whose_addresses_are_not_aligned_has_no_table)
{
	struct image image;
	unsigned int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(image_make(&image, 3, true));
	for (i = 0; i < PH_NR; i++)
		image.phdr[i].p_vaddr += 8;
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_without_table(&image.code));
	image_free(&image);
}

TEST(random_headers_do_no_harm)
{
	unsigned int seed = 12345, i, j;

	if (must_skip(_metadata, need_sframe()))
		return;

	for (i = 0; i < 200; i++) {
		uint64_t ips[MAX_IPS];
		struct image image;

		ASSERT_TRUE(image_make(&image, 3, true));
		for (j = 0; j < 4; j++)
			image.file[rand_r(&seed) % (FILE_TABLE + 100)] = rand_r(&seed);
		ASSERT_TRUE(image_map(&image));
		EXPECT_LE(1, stack_of((void *)image.code.top, ips));
		EXPECT_EQ(image.code.ips[0], ips[0]);
		image_free(&image);
	}
}

/* ------------------------------------------------------------------------ */
/* Limits								    */
TEST(more_files_than_are_remembered_are_all_exact)
{
	struct image image;
	unsigned int i;

	if (must_skip(_metadata, need_sframe()))
		return;

	ASSERT_TRUE(image_make(&image, 3, true));
	for (i = 0; i < 1100; i++) {
		/* Without unmapping: each new place is a new answer. */
		struct area a;
		u8 *mem = map_anon(0, PAGE, PROT_CODE, 0);
		uint64_t ips[MAX_IPS];
		u8 *guard = map_anon(0, PAGE, PROT_NONE, 0);

		ASSERT_NE(MAP_FAILED, (void *)mem);
		ASSERT_NE(MAP_FAILED, (void *)guard);
		code_make(&a.code, mem, (unsigned long)mem, true);
		EXPECT_LE(1, stack_of((void *)a.code.top, ips));
	}
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
	image_free(&image);
}

/* Its answers are counted by the kernel's tracepoint. */
TEST(number_of_remembered_answers_is_exact)
{
	static u8 *mem[MAX_FOUND + 8];
	uint64_t ips[MAX_IPS];
	struct area a;
	int i, gone, kept;

	if (must_skip(_metadata, need_sframe()))
		return;
	if (must_skip(_metadata, need_tracepoint("unwind", "unwind_sframe_section")))
		return;

	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_sframe_section", true));
	/* What has gone does not count. */
	for (i = 0; i < 16; i++) {
		mem[0] = map_anon(0, PAGE, PROT_CODE, 0);
		code_make(&a.code, mem[0], (unsigned long)mem[0], true);
		EXPECT_LE(1, stack_of((void *)a.code.top, ips));
		munmap(mem[0], PAGE);
	}
	EXPECT_EQ(16, trace_count(" unmapped"));
	trace_clear();
	for (i = 0; i < MAX_FOUND + 8; i++) {
		mem[i] = map_anon(0, PAGE, PROT_CODE, 0);
		ASSERT_NE(MAP_FAILED, (void *)mem[i]);
		ASSERT_NE(MAP_FAILED, (void *)map_anon(0, PAGE, PROT_NONE, 0));
		code_make(&a.code, mem[i], (unsigned long)mem[i], true);
		EXPECT_LE(1, stack_of((void *)a.code.top, ips));
	}
	trace_event("unwind_sframe_section", false);

	/* When there is no more room, a quarter goes at once. */
	gone = trace_count(" evicted");
	EXPECT_EQ(MAX_FOUND / 4, gone);
	kept = trace_count("text=") - 2 * gone - 2 * trace_count(" replaced") -
	       2 * trace_count(" unmapped");
	EXPECT_GE(MAX_FOUND, kept);
	EXPECT_LT(MAX_FOUND - gone, kept);
	trace_clear();

	/* What went is looked for again. */
	ASSERT_EQ(0, trace_event("unwind_sframe_section", true));
	for (i = 0; i < MAX_FOUND + 8; i++)
		stack_of(mem[i] + (a.code.top - a.code.addr), ips);
	trace_event("unwind_sframe_section", false);
	EXPECT_LE(gone - 8, trace_count(" no file"));
	trace_clear();
}

/* Memory for a table, and as much of a file */
#define BIG		0x100000000UL

/*
 * The rows are at the end of a table that has the most bytes that one may have.
 * One byte further is one too many, for tables that are found and for others.
 */
TEST(table_of_4_gib_is_exact_and_one_byte_more_is_refused)
{
	unsigned long addr, table;
	struct image image;
	size_t size = FILE_SIZE + BIG + PAGE, len, head;
	u32 off;
	int more;

	if (must_skip(_metadata, need_sframe()))
		return;

	for (more = 0; more < 2; more++) {
		ASSERT_TRUE(image_make(&image, 3, true));
		ASSERT_EQ(0, ftruncate(image.fd, size));
		addr = (unsigned long)mmap(NULL, size, PROT_READ, MAP_SHARED,
					   image.fd, 0);
		ASSERT_NE(-1UL, addr);
		table = addr + FILE_SIZE;
		code_make(&image.code, image.file + FILE_TEXT, addr + FILE_TEXT,
			  true);
		len = code_table(&image.code, true, &build, 3, true, table);
		/* The offset of the rows, from the end of the header */
		head = SFRAME_BUILD_HEADER + build.nr_funcs * 16;
		off = BIG - SFRAME_BUILD_HEADER - build.rows_len + more;
		sframe_build_put(build.mem + 24, off, 4);
		ASSERT_EQ((ssize_t)head, pwrite(image.fd, build.mem, head, FILE_SIZE));
		ASSERT_EQ((ssize_t)(len - head),
			  pwrite(image.fd, build.mem + head, len - head,
				 FILE_SIZE + SFRAME_BUILD_HEADER + off));
		image_phdr(&image.phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R,
			   FILE_SIZE, FILE_SIZE, BIG + PAGE);
		image_phdr(&image.phdr[PH_SPARE], PT_LOAD, PF_R, FILE_SIZE,
			   FILE_SIZE, BIG + PAGE);
		ASSERT_EQ(0, mprotect((void *)(addr + FILE_TEXT), PAGE,
				      PROT_READ | PROT_EXEC));
		EXPECT_EQ(!more, is_exact(&image.code));
		EXPECT_EQ(more ? -ENOEXEC : 0,
			  add_table(table, table + BIG, image.code.addr,
				    image.code.end));
		EXPECT_EQ(!more, is_exact(&image.code));
		munmap((void *)addr, size);
		image_free(&image);
	}
}

TEST_HARNESS_MAIN
