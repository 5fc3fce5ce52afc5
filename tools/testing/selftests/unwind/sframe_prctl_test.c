// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that prctl() refuses.
 */
#include "sframe_code.h"
#include "unwind_harness.h"

/* The documented limit of the kernel for added tables */
#define MAX_ADDED	4096

static struct area area;

FIXTURE(errors) {};

FIXTURE_SETUP(errors)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&area, 3, true, true));
}

FIXTURE_TEARDOWN(errors) {}

/* Add this as a table for the code of the area, or its table for this as code. */
static int add_memory(unsigned long start, unsigned long end)
{
	return add_table(start, end, area.text, area.text_end);
}

static int add_for(unsigned long text, unsigned long text_end)
{
	return add_table(area.table, area.table_end, text, text_end);
}

static int add_for_byte(unsigned long text)
{
	return add_for(text, text + 1);
}

TEST_F(errors, empty_and_reversed_ranges_give_einval)
{
	EXPECT_EQ(-EINVAL, add_memory(area.table, area.table));
	EXPECT_EQ(-EINVAL, add_memory(area.table_end, area.table));
	EXPECT_EQ(-EINVAL, add_for(area.text, area.text));
	EXPECT_EQ(-EINVAL, add_for(area.text_end, area.text));
	EXPECT_EQ(-EINVAL, add_table(0, 0, 0, 0));
	EXPECT_EQ(-EINVAL, add_memory(-8UL, 8));
}

TEST_F(errors, unaligned_table_gives_einval)
{
	EXPECT_EQ(-EINVAL, add_memory(area.table + 4, area.table_end));
	EXPECT_EQ(-EINVAL, add_memory(area.table + 1, area.table_end));
}

TEST_F(errors, addresses_of_the_kernel_give_efault)
{
	unsigned long kernel = 0xffffffff81000000UL;

	EXPECT_EQ(-EFAULT, add_memory(kernel, kernel + PAGE));
	EXPECT_EQ(-EFAULT, add_for(kernel, kernel + PAGE));
	EXPECT_EQ(-EFAULT, add_for(area.text, -1UL));
	EXPECT_EQ(-EFAULT, add_for(area.text, 1UL << 57));
	EXPECT_EQ(-EFAULT, add_memory(0, PAGE));
}

TEST_F(errors, table_of_more_than_4_gib_gives_efbig)
{
	EXPECT_EQ(-EFBIG, add_memory(area.table, area.table + (1UL << 32) + 1));
}

TEST_F(errors, holes_give_efault)
{
	ASSERT_EQ(0, munmap((void *)(area.table_end - PAGE), PAGE));
	EXPECT_EQ(-EFAULT, area_add(&area));
	EXPECT_EQ(0, add_memory(area.table, area.table_end - PAGE));
	ASSERT_EQ(0, remove_table(area.table));
	ASSERT_EQ(0, munmap((void *)(area.text + PAGE), PAGE));
	EXPECT_EQ(-EFAULT, add_table(area.table, area.table_end - PAGE, area.text,
				     area.text + 3 * PAGE));
}

TEST_F(errors, mappings_without_permission_give_eacces)
{
	ASSERT_EQ(0, mprotect((void *)area.text, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-EACCES, area_add(&area));
	ASSERT_EQ(0, mprotect((void *)area.text, PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(0, area_add(&area));
	ASSERT_EQ(0, remove_table(area.table));
	ASSERT_EQ(0, mprotect((void *)(area.table_end - PAGE), PAGE, PROT_NONE));
	EXPECT_EQ(-EACCES, area_add(&area));
	ASSERT_EQ(0, mprotect((void *)area.table, PAGE, PROT_NONE));
	EXPECT_EQ(-EFAULT, area_add(&area));
}

/* Where the data of the vDSO is, which counts as device memory; NULL if it is not there */
static void *find_vvar(size_t *size)
{
	unsigned long start = 0, end = 0;
	char line[256];
	FILE *f = fopen("/proc/self/maps", "r");

	while (f && fgets(line, sizeof(line), f)) {
		if (strstr(line, "[vvar]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
			break;
	}
	if (f)
		fclose(f);
	*size = end - start;
	return *size > TABLE_SIZE ? NULL : (void *)start;
}

TEST_F(errors, device_memory_gives_eacces)
{
	size_t size;
	void *vvar = find_vvar(&size), *to = (void *)(area.table + PAGE);

	if (!vvar)
		SKIP(return, "needs a vDSO with data");
	/* It comes after the table. Nobody asks for the time from here on. */
	ASSERT_EQ(to, mremap(vvar, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	EXPECT_EQ(-EACCES, add_memory(area.table, area.table + PAGE + 8));
	EXPECT_EQ(0, add_memory(area.table, area.table + PAGE));
	EXPECT_TRUE(is_exact(&area.code));
}

/* Nor is one that takes the place of some of the table's memory afterwards. */
TEST_F(errors, device_memory_is_not_read_for_a_rule)
{
	size_t size;
	void *vvar = find_vvar(&size), *to = (void *)(area.table + PAGE);

	if (!vvar)
		SKIP(return, "needs a vDSO with data");
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(to, mremap(vvar, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	EXPECT_TRUE(is_cut(&area.code));
	ASSERT_TRUE(map_over(area.table + PAGE, size, PROT_READ));
	EXPECT_TRUE(is_exact(&area.code));
}

/* Nor one in so many mappings that checking them would take longer than the walk. */
TEST_F(errors, table_in_many_mappings_is_not_read)
{
	u8 *mem = map_anon(0, 17 * PAGE, PROT_READ, 0);
	unsigned int i;

	ASSERT_NE(MAP_FAILED, (void *)mem);
	ASSERT_EQ(0, mprotect(mem, TABLE_SIZE, PROT_READ | PROT_WRITE));
	ASSERT_TRUE(area_place(&area, (u8 *)area.text, mem, 3, true, true));
	for (i = 0; i < 16; i += 2)
		ASSERT_EQ(0, mprotect(mem + i * PAGE, PAGE, PROT_READ | PROT_WRITE));
	for (i = 1; i < 16; i += 2)
		ASSERT_EQ(0, mprotect(mem + i * PAGE, PAGE, PROT_READ));
	ASSERT_EQ(0, add_memory(area.table, area.table + 16 * PAGE));
	EXPECT_TRUE(is_exact(&area.code));
	ASSERT_EQ(0, mprotect(mem + 16 * PAGE, PAGE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, add_memory(area.table, area.table + 17 * PAGE));
	EXPECT_TRUE(is_cut(&area.code));
}

TEST_F(errors, code_of_several_executable_mappings_is_accepted)
{
	ASSERT_EQ(0, mprotect((void *)(area.text + PAGE), PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(0, add_for(area.text, area.text + 3 * PAGE));
	EXPECT_TRUE(is_exact(&area.code));
}

TEST_F(errors, other_versions_and_machines_give_eopnotsupp)
{
	u8 *table = (u8 *)area.table;
	int version;

	for (version = 0; version < 256; version++) {
		if (version == 2 || version == 3)
			continue;
		table[2] = version;
		EXPECT_EQ(-EOPNOTSUPP, area_add(&area));
	}
	table[2] = 3;
	table[4] = 2;
	EXPECT_EQ(-EOPNOTSUPP, area_add(&area));
	table[4] = 3;
	EXPECT_EQ(0, area_add(&area));
}

TEST_F(errors, bad_headers_give_enoexec)
{
	u8 *table = (u8 *)area.table;

	/* Magic, flags, fixed offset, number of functions, length of rows */
	static const struct { int off; u8 val; } bad[] = {
		{ 0, 0 }, { 1, 0 }, { 3, 0x4 }, { 3, 0x45 }, { 6, 0 },
		{ 11, 0x80 }, { 19, 0x80 }, { 23, 0xff }, { 27, 0xff },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		u8 old = table[bad[i].off];

		table[bad[i].off] = bad[i].val;
		EXPECT_EQ(-ENOEXEC, area_add(&area)) {
			TH_LOG("byte %d", bad[i].off);
		}
		table[bad[i].off] = old;
	}
	EXPECT_EQ(-ENOEXEC, add_memory(area.table, area.table + 8));
	EXPECT_EQ(0, area_add(&area));
}

/* The number of ranges follows from the number that can still be added. */
TEST_F(errors, overlap_with_an_added_table_replaces_that)
{
	unsigned long text = area.text, more = text + PAGE;
	int i;

	ASSERT_EQ(0, add_for(text + 16, text + 32));
	EXPECT_EQ(0, add_for(text + 31, text + 64));
	EXPECT_EQ(0, add_for(text, text + 32));
	EXPECT_EQ(0, add_for(text + 20, text + 24));
	/* Ranges that touch do not overlap: there are three now. */
	EXPECT_EQ(0, add_for(text, text + 20));
	EXPECT_EQ(0, add_for(text + 24, text + 31));
	for (i = 3; i < MAX_ADDED; i++)
		ASSERT_EQ(0, add_for_byte(more + i));
	EXPECT_EQ(-ENOSPC, add_for_byte(more + i));
	EXPECT_EQ(0, remove_table(area.table));
	EXPECT_EQ(-ENOENT, remove_table(area.table));
	/* Many at once */
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, add_for_byte(text + i));
	EXPECT_EQ(0, add_for(text, area.text_end));
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_EQ(0, remove_table(area.table));
	EXPECT_EQ(-ENOENT, remove_table(area.table));
}

TEST_F(errors, remove_checks_its_arguments)
{
	ASSERT_EQ(0, area_add(&area));
	EXPECT_EQ(-1, prctl(PR_REMOVE_SFRAME, area.table, 1, 0, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, prctl(PR_REMOVE_SFRAME, area.table, 0, 1, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, prctl(PR_REMOVE_SFRAME, area.table, 0, 0, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-ENOENT, remove_table(area.table + 8));
	EXPECT_EQ(-ENOENT, remove_table(area.table - 8));
	EXPECT_EQ(-ENOENT, remove_table(-8UL));
	EXPECT_EQ(0, remove_table(area.table));
}

/* It has all of them, and the same limit. */
static int child_is_at_the_limit(struct area *area)
{
	if (add_for_byte(area->text + MAX_ADDED) != -ENOSPC)
		return 1;
	return remove_table(area->table) || area_add(area) || !is_exact(&area->code) ? 2 : 0;
}

TEST_F(errors, limit_of_tables_gives_enospc)
{
	int i;

	for (i = 0; i < MAX_ADDED; i++)
		ASSERT_EQ(0, add_for_byte(area.text + i));
	EXPECT_EQ(-ENOSPC, add_for_byte(area.text + i));
	EXPECT_EQ(0, in_child(child_is_at_the_limit, &area));
	EXPECT_EQ(0, remove_table(area.table));
	EXPECT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
}

TEST_HARNESS_MAIN
