// SPDX-License-Identifier: GPL-2.0
/*
 * Files whose SFrame tables are not used because of their headers, and how many and how
 * large others may be.
 */
#include "sframe_image.h"
#include "unwind_harness.h"

/* The documented limit of the kernel for remembered answers */
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
	/* They have to be in the first page. */
	{ "too many program headers",	EHDR(e_phnum), 73 },
	{ "most program headers",	EHDR(e_phnum), 0xffff },
	{ "program headers cut",	EHDR(e_phoff), PAGE - 8 },
	{ "program headers after",	EHDR(e_phoff), PAGE },
	{ "program headers far after",	EHDR(e_phoff), FILE_TEXT - 8 },
	{ "program headers wrap",	EHDR(e_phoff), -8UL },
	{ "no segment of a table",	PHDR(PH_SFRAME, p_type), PT_NULL },
	{ "two tables",			PHDR(PH_SPARE, p_type), PT_GNU_SFRAME },
	{ "empty table segment",	PHDR(PH_SFRAME, p_memsz), 0 },
	{ "table in the kernel",	PHDR(PH_SFRAME, p_vaddr), 1UL << 63 },
	{ "table at the end of all",	PHDR(PH_SFRAME, p_vaddr), -8UL - (1UL << 47) },
	{ "table above all segments",	PHDR(PH_SFRAME, p_vaddr), 8 * PAGE },
	{ "table below all segments",	PHDR(PH_SFRAME, p_vaddr), -PAGE },
	{ "table in no segment",	PHDR(PH_HEADERS, p_type), PT_NULL },
	{ "table's segment elsewhere",	PHDR(PH_HEADERS, p_vaddr), PAGE },
	{ "code of another page",	PHDR(PH_TEXT, p_offset), FILE_TEXT + PAGE },
	{ "code of a page before",	PHDR(PH_TEXT, p_offset), FILE_TEXT - PAGE },
	{ "code of no file",		PHDR(PH_TEXT, p_filesz), 0 },
	{ "code of a large file",	PHDR(PH_TEXT, p_filesz), -8UL },
	{ "code not executable",	PHDR(PH_TEXT, p_flags), PF_R },
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
		u8 good[8], *field;

		ASSERT_TRUE(image_make(&image, 3, true));
		field = image.file + unfit[i].where.off;
		memcpy(good, field, unfit[i].where.size);
		memcpy(field, &unfit[i].val, unfit[i].where.size);
		ASSERT_TRUE(image_map(&image));
		EXPECT_TRUE(is_without_table(&image.code)) {
			TH_LOG("%s", unfit[i].what);
		}
		/* The answer stays, though the file is in order now. */
		memcpy(field, good, unfit[i].where.size);
		EXPECT_TRUE(is_without_table(&image.code)) {
			TH_LOG("%s, mended", unfit[i].what);
		}
		image_free(&image);
	}
}

/* Nothing is mapped where the table should be: it may be mapped later. */
TEST(file_whose_table_is_not_where_it_says_ends_the_walk)
{
	struct image image;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(image_make(&image, 3, true));
	/* The frame pointer of this code leads to call_code()'s caller. */
	image_fill(&image, 3, true, false);
	image.phdr[PH_TEXT].p_vaddr = FILE_TEXT + PAGE;
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_cut(&image.code));
	/* The file is in order now. */
	image.phdr[PH_TEXT].p_vaddr = FILE_TEXT;
	EXPECT_TRUE(is_exact(&image.code));
}

/* Even if they agree */
TEST(file_with_its_table_twice_has_none)
{
	struct image image;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(image_make(&image, 3, true));
	image.phdr[PH_SPARE] = image.phdr[PH_SFRAME];
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_without_table(&image.code));
}

/* The sizes that headers give for themselves and for a table */
static const typeof(unfit[0]) fit[] = {
	{ "another segment",		PHDR(PH_SPARE, p_type), PT_LOAD },
	{ "most program headers",	EHDR(e_phnum), (PAGE - sizeof(Elf64_Ehdr)) / 56 },
	{ "program",			EHDR(e_type), ET_EXEC },
	{ "long table",			PHDR(PH_SFRAME, p_memsz), 16 * PAGE },
	{ "table of no file",		PHDR(PH_SFRAME, p_filesz), 0 },
	{ "table at another offset",	PHDR(PH_SFRAME, p_offset), FILE_SIZE },
};

TEST(file_with_unusual_headers_has_its_table)
{
	unsigned int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	for (i = 0; i < ARRAY_SIZE(fit); i++) {
		struct image image;

		ASSERT_TRUE(image_make(&image, 3, true));
		/* No segments, where the table's bytes would be some */
		if (fit[i].where.off == offsetof(Elf64_Ehdr, e_phnum)) {
			memset(image.file + FILE_TABLE, 0, PAGE - FILE_TABLE);
			code_table(&image.code, true, &build, 3, true, image.addr + PAGE);
			memcpy(image.file + PAGE, build.mem, PAGE);
			image.phdr[PH_SFRAME].p_vaddr = PAGE;
		}
		memcpy(image.file + fit[i].where.off, &fit[i].val, fit[i].where.size);
		ASSERT_TRUE(image_map(&image));
		EXPECT_TRUE(is_exact(&image.code)) {
			TH_LOG("%s", fit[i].what);
		}
		image_free(&image);
	}
}

/* Only where they are relative to each other counts. */
TEST(file_whose_addresses_are_not_aligned_has_its_table)
{
	struct image image;
	unsigned int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(image_make(&image, 3, true));
	for (i = 0; i < PH_NR; i++)
		image.phdr[i].p_vaddr += 8;
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
}

/* The last one is read to its last byte, the next one is not in the page any more. */
TEST(program_headers_up_to_the_end_of_the_first_page)
{
	unsigned int more;

	if (must_skip(_metadata, need_sframe()))
		return;
	for (more = 0; more <= 1; more++) {
		struct image image;
		size_t off;

		ASSERT_TRUE(image_make(&image, 3, true));
		off = PAGE - PH_NR * sizeof(Elf64_Phdr) + more;
		memcpy(image.file + off, image.phdr, PH_NR * sizeof(Elf64_Phdr));
		image.ehdr->e_phoff = off;
		ASSERT_TRUE(image_map(&image));
		EXPECT_EQ(!more, is_exact(&image.code));
		image_free(&image);
	}
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
	uint64_t ips[MAX_IPS];
	struct image image;
	struct code other;
	unsigned int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(image_make(&image, 3, true));
	for (i = 0; i < 1100; i++) {
		/* Without unmapping: each new place is a new answer. */
		ASSERT_TRUE(code_elsewhere(&other));
		EXPECT_LE(1, stack_of((void *)other.top, ips));
	}
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
}

/* Walk through code at @addr. The tracepoints of that are in the trace. */
static bool walks_through(u8 *addr)
{
	u64 words[2] = { 0, (u64)addr + 16 };
	uint64_t ips[MAX_IPS];

	return stack_of_words(words, ips) == 2 && ips[1] == words[1];
}

/*
 * A file that is no ELF file, mapped at more places than are remembered: each is told of
 * once. When there is no room for one more, all others are forgotten.
 */
TEST(answers_are_remembered_until_there_is_no_room)
{
	static u8 *mem[MAX_FOUND + 8];
	int fd = memfd_create("text", 0), i;

	if (must_skip(_metadata, need_sframe()) ||
	    must_skip(_metadata, need_tracepoint("unwind", "unwind_sframe_section")))
		return;
	ASSERT_EQ(0, ftruncate(fd, PAGE));
	ASSERT_EQ(4, pwrite(fd, "text", 4, 0));
	for (i = 0; i < MAX_FOUND + 8; i++) {
		mem[i] = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		ASSERT_NE(MAP_FAILED, (void *)mem[i]);
	}
	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_sframe_section", true));
	for (i = 0; i < 16; i++)
		EXPECT_TRUE(walks_through(mem[i]));
	EXPECT_EQ(16, trace_count(" no ELF headers"));
	for (i = 0; i < 16; i++)
		EXPECT_TRUE(walks_through(mem[i]));
	EXPECT_EQ(16, trace_count(" no ELF headers"));

	for (; i < MAX_FOUND + 8; i++)
		EXPECT_TRUE(walks_through(mem[i]));
	EXPECT_EQ(MAX_FOUND + 8, trace_count(" no ELF headers"));
	/* The last eight at least, and the first eight at most */
	for (i = MAX_FOUND; i < MAX_FOUND + 8; i++)
		EXPECT_TRUE(walks_through(mem[i]));
	EXPECT_EQ(MAX_FOUND + 8, trace_count(" no ELF headers"));
	for (i = 0; i < 8; i++)
		EXPECT_TRUE(walks_through(mem[i]));
	EXPECT_EQ(MAX_FOUND + 16, trace_count(" no ELF headers"));
	trace_event("unwind_sframe_section", false);
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
		addr = (unsigned long)mmap(NULL, size, PROT_READ, MAP_SHARED, image.fd, 0);
		ASSERT_NE(-1UL, addr);
		table = addr + FILE_SIZE;
		code_make(&image.code, image.file + FILE_TEXT, addr + FILE_TEXT, true);
		len = code_table(&image.code, true, &build, 3, true, table);
		/* The offset of the rows, from the end of the header */
		head = SFRAME_BUILD_HEADER + build.nr_funcs * 16;
		off = BIG - SFRAME_BUILD_HEADER - build.rows_len + more;
		sframe_build_put(build.mem + 24, off, 4);
		ASSERT_EQ((ssize_t)head, pwrite(image.fd, build.mem, head, FILE_SIZE));
		ASSERT_EQ((ssize_t)(len - head),
			  pwrite(image.fd, build.mem + head, len - head,
				 FILE_SIZE + SFRAME_BUILD_HEADER + off));
		image_phdr(&image.phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, FILE_SIZE, FILE_SIZE,
			   BIG + PAGE);
		image_phdr(&image.phdr[PH_SPARE], PT_LOAD, PF_R, FILE_SIZE, FILE_SIZE, BIG + PAGE);
		ASSERT_EQ(0, mprotect((void *)(addr + FILE_TEXT), PAGE, PROT_READ | PROT_EXEC));
		EXPECT_EQ(!more, is_exact(&image.code));
		EXPECT_EQ(more ? -ENOEXEC : 0,
			  add_table(table, table + BIG, image.code.addr, image.code.end));
		EXPECT_EQ(!more, is_exact(&image.code));
		munmap((void *)addr, size);
		image_free(&image);
	}
}

TEST_HARNESS_MAIN
