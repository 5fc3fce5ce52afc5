// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that prctl() refuses.
 */
#include "sframe_code.h"
#include "unwind_harness.h"

/* The documented limit of the kernel for added tables */
#define MAX_ADDED	4096

FIXTURE(errors)
{
	struct area area;
};

FIXTURE_SETUP(errors)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&self->area, 3, true, true));
}

FIXTURE_TEARDOWN(errors)
{
	remove_table(self->area.table);
	munmap(self->area.mem, AREA_SIZE);
}

TEST_F(errors, empty_and_reversed_ranges_give_einval)
{
	struct area *a = &self->area;

	EXPECT_EQ(-EINVAL, add_table(a->table, a->table, a->text, a->text_end));
	EXPECT_EQ(-EINVAL, add_table(a->table_end, a->table, a->text, a->text_end));
	EXPECT_EQ(-EINVAL, add_table(a->table, a->table_end, a->text, a->text));
	EXPECT_EQ(-EINVAL, add_table(a->table, a->table_end, a->text_end, a->text));
	EXPECT_EQ(-EINVAL, add_table(0, 0, 0, 0));
	EXPECT_EQ(-EINVAL, add_table(-8UL, 8, a->text, a->text_end));
}

TEST_F(errors, unaligned_table_gives_einval)
{
	struct area *a = &self->area;

	EXPECT_EQ(-EINVAL, add_table(a->table + 4, a->table_end, a->text, a->text_end));
	EXPECT_EQ(-EINVAL, add_table(a->table + 1, a->table_end, a->text, a->text_end));
}

TEST_F(errors, addresses_of_the_kernel_give_efault)
{
	struct area *a = &self->area;
	unsigned long kernel = 0xffffffff81000000UL;

	EXPECT_EQ(-EFAULT, add_table(kernel, kernel + PAGE, a->text, a->text_end));
	EXPECT_EQ(-EFAULT, add_table(a->table, a->table_end, kernel, kernel + PAGE));
	EXPECT_EQ(-EFAULT, add_table(a->table, a->table_end, a->text, -1UL));
	EXPECT_EQ(-EFAULT, add_table(a->table, a->table_end, a->text, 1UL << 57));
	EXPECT_EQ(-EFAULT, add_table(0, PAGE, a->text, a->text_end));
}

TEST_F(errors, table_of_more_than_4_gib_gives_efbig)
{
	struct area *a = &self->area;

	EXPECT_EQ(-EFBIG, add_table(a->table, a->table + (1UL << 32) + 1,
				    a->text, a->text_end));
}

TEST_F(errors, holes_give_efault)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, munmap((void *)(a->table_end - PAGE), PAGE));
	EXPECT_EQ(-EFAULT, area_add(a));
	EXPECT_EQ(0, add_table(a->table, a->table_end - PAGE, a->text, a->text_end));
	ASSERT_EQ(0, remove_table(a->table));
	ASSERT_EQ(0, munmap((void *)(a->text + PAGE), PAGE));
	EXPECT_EQ(-EFAULT, add_table(a->table, a->table_end - PAGE, a->text,
				     a->text + 3 * PAGE));
}

TEST_F(errors, mappings_without_permission_give_eacces)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, mprotect((void *)a->text, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-EACCES, area_add(a));
	ASSERT_EQ(0, mprotect((void *)a->text, PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(0, area_add(a));
	ASSERT_EQ(0, remove_table(a->table));
	ASSERT_EQ(0, mprotect((void *)(a->table_end - PAGE), PAGE, PROT_NONE));
	EXPECT_EQ(-EACCES, area_add(a));
	ASSERT_EQ(0, mprotect((void *)a->table, PAGE, PROT_NONE));
	EXPECT_EQ(-EFAULT, area_add(a));
}

/* Where the data of the vDSO is, which counts as device memory */
static unsigned long find_vvar(size_t *size)
{
	unsigned long start = 0, end = 0;
	char line[256];
	FILE *f = fopen("/proc/self/maps", "r");

	while (f && fgets(line, sizeof(line), f)) {
		if (strstr(line, "[vvar]") &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2)
			break;
	}
	if (f)
		fclose(f);
	*size = end - start;
	return start;
}

TEST_F(errors, device_memory_gives_eacces)
{
	struct area *a = &self->area;
	size_t size;
	void *vvar = (void *)find_vvar(&size);
	void *to = (void *)(a->table + PAGE);

	if (!vvar || size > TABLE_SIZE)
		SKIP(return, "needs a vDSO with data");
	/* It comes after the table. Nobody asks for the time from here on. */
	ASSERT_EQ(to, mremap(vvar, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	EXPECT_EQ(-EACCES, add_table(a->table, a->table + PAGE + 8, a->text,
				     a->text_end));
	EXPECT_EQ(0, add_table(a->table, a->table + PAGE, a->text, a->text_end));
	EXPECT_TRUE(is_exact(&a->code));
}

/* Nor is one that takes the place of some of the table's memory afterwards. */
TEST_F(errors, device_memory_is_not_read_for_a_rule)
{
	struct area *a = &self->area;
	void *to = (void *)(a->table + PAGE);
	size_t size;
	void *vvar = (void *)find_vvar(&size);

	if (!vvar || size > TABLE_SIZE)
		SKIP(return, "needs a vDSO with data");
	ASSERT_EQ(0, add_table(a->table, a->table_end, a->text, a->text_end));
	ASSERT_EQ(to, mremap(vvar, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	EXPECT_TRUE(is_cut(&a->code));
	ASSERT_TRUE(map_over(a->table + PAGE, size, PROT_READ));
	EXPECT_TRUE(is_exact(&a->code));
}

/* Nor one in so many mappings that checking them would take longer than the walk. */
TEST_F(errors, table_in_many_mappings_is_not_read)
{
	u8 *mem = map_anon(0, 17 * PAGE, PROT_READ, 0);
	struct area *a = &self->area;
	unsigned int i;

	ASSERT_NE(MAP_FAILED, (void *)mem);
	ASSERT_EQ(0, mprotect(mem, TABLE_SIZE, PROT_READ | PROT_WRITE));
	ASSERT_TRUE(area_place(a, (u8 *)a->text, mem, 3, true, true));
	for (i = 0; i < 16; i += 2)
		ASSERT_EQ(0, mprotect(mem + i * PAGE, PAGE, PROT_READ | PROT_WRITE));
	for (i = 1; i < 16; i += 2)
		ASSERT_EQ(0, mprotect(mem + i * PAGE, PAGE, PROT_READ));
	ASSERT_EQ(0, add_table(a->table, a->table + 16 * PAGE, a->text, a->text_end));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ(0, mprotect(mem + 16 * PAGE, PAGE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, add_table(a->table, a->table + 17 * PAGE, a->text, a->text_end));
	EXPECT_TRUE(is_cut(&a->code));
}

TEST_F(errors, code_of_several_executable_mappings_is_accepted)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, mprotect((void *)(a->text + PAGE), PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(0, add_table(a->table, a->table_end, a->text, a->text + 3 * PAGE));
	EXPECT_TRUE(is_exact(&a->code));
}

TEST_F(errors, other_versions_and_machines_give_eopnotsupp)
{
	struct area *a = &self->area;
	u8 *table = (u8 *)a->table;
	int version;

	for (version = 0; version < 256; version++) {
		if (version == 2 || version == 3)
			continue;
		table[2] = version;
		EXPECT_EQ(-EOPNOTSUPP, area_add(a));
	}
	table[2] = 3;
	table[4] = 2;
	EXPECT_EQ(-EOPNOTSUPP, area_add(a));
	table[4] = 3;
	EXPECT_EQ(0, area_add(a));
}

TEST_F(errors, bad_headers_give_enoexec)
{
	struct area *a = &self->area;
	u8 *table = (u8 *)a->table;

	/* Magic, flags, fixed offset, number of functions, length of rows */
	static const struct { int off; u8 val; } bad[] = {
		{ 0, 0 }, { 1, 0 }, { 3, 0x4 }, { 3, 0x45 }, { 6, 0 },
		{ 11, 0x80 }, { 19, 0x80 }, { 23, 0xff }, { 27, 0xff },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		u8 old = table[bad[i].off];

		table[bad[i].off] = bad[i].val;
		EXPECT_EQ(-ENOEXEC, area_add(a)) {
			TH_LOG("byte %d", bad[i].off);
		}
		table[bad[i].off] = old;
	}
	EXPECT_EQ(-ENOEXEC, add_table(a->table, a->table + 8, a->text, a->text_end));
	EXPECT_EQ(0, area_add(a));
}

/* The number of ranges follows from the number that can still be added. */
TEST_F(errors, overlap_with_an_added_table_replaces_that)
{
	struct area *a = &self->area;
	unsigned long text = a->text, more = text + PAGE;
	int i;

	ASSERT_EQ(0, add_table(a->table, a->table_end, text + 16, text + 32));
	EXPECT_EQ(0, add_table(a->table, a->table_end, text + 31, text + 64));
	EXPECT_EQ(0, add_table(a->table, a->table_end, text, text + 32));
	EXPECT_EQ(0, add_table(a->table, a->table_end, text + 20, text + 24));
	/* Ranges that touch do not overlap: there are three now. */
	EXPECT_EQ(0, add_table(a->table, a->table_end, text, text + 20));
	EXPECT_EQ(0, add_table(a->table, a->table_end, text + 24, text + 31));
	for (i = 3; i < MAX_ADDED; i++)
		ASSERT_EQ(0, add_table(a->table, a->table_end, more + i, more + i + 1));
	EXPECT_EQ(-ENOSPC, add_table(a->table, a->table_end, more + i, more + i + 1));
	EXPECT_EQ(0, remove_table(a->table));
	EXPECT_EQ(-ENOENT, remove_table(a->table));
	/* Many at once */
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, add_table(a->table, a->table_end, text + i, text + i + 1));
	EXPECT_EQ(0, add_table(a->table, a->table_end, text, a->text_end));
	EXPECT_TRUE(is_exact(&a->code));
	EXPECT_EQ(0, remove_table(a->table));
	EXPECT_EQ(-ENOENT, remove_table(a->table));
}

TEST_F(errors, remove_checks_its_arguments)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	EXPECT_EQ(-1, prctl(PR_REMOVE_SFRAME, a->table, 1, 0, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, prctl(PR_REMOVE_SFRAME, a->table, 0, 1, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, prctl(PR_REMOVE_SFRAME, a->table, 0, 0, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-ENOENT, remove_table(a->table + 8));
	EXPECT_EQ(-ENOENT, remove_table(a->table - 8));
	EXPECT_EQ(-ENOENT, remove_table(-8UL));
	EXPECT_EQ(0, remove_table(a->table));
}

TEST_F(errors, limit_of_tables_gives_enospc)
{
	struct area *a = &self->area;
	int i;

	for (i = 0; i < MAX_ADDED; i++)
		ASSERT_EQ(0, add_table(a->table, a->table_end, a->text + i,
				       a->text + i + 1));
	EXPECT_EQ(-ENOSPC, add_table(a->table, a->table_end, a->text + i,
				     a->text + i + 1));
	/* A child has all of them, and the same limit. */
	if (!fork()) {
		i = add_table(a->table, a->table_end, a->text + i,
			      a->text + i + 1) == -ENOSPC &&
		    !remove_table(a->table) && !area_add(a) &&
		    is_exact(&a->code);
		_exit(!i);
	}
	ASSERT_LT(0, wait(&i));
	EXPECT_EQ(0, i);
	EXPECT_EQ(0, remove_table(a->table));
	EXPECT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
}

TEST_HARNESS_MAIN
