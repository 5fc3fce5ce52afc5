// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that the kernel finds in mapped files.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>

#include "sframe_image.h"
#include "unwind_harness.h"

/* ------------------------------------------------------------------------ */
/* A file with the shape of a library					    */

FIXTURE(found)
{
	struct image image;
};

FIXTURE_VARIANT(found)
{
	unsigned int version;
	bool pcrel;
};

FIXTURE_VARIANT_ADD(found, v2)
{
	.version = 2,
};

FIXTURE_VARIANT_ADD(found, v3)
{
	.version = 3,
	.pcrel = true,
};

FIXTURE_SETUP(found)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(image_make(&self->image, variant->version, variant->pcrel));
}

FIXTURE_TEARDOWN(found)
{
	image_free(&self->image);
}

TEST_F(found, mapped_file_has_exact_frames)
{
	ASSERT_TRUE(image_map(&self->image));
	EXPECT_TRUE(is_exact(&self->image.code));
	EXPECT_TRUE(is_exact(&self->image.code));
	/* It was not added. */
	EXPECT_EQ(-ENOENT, remove_table(self->image.addr + FILE_TABLE));
}

TEST_F(found, segments_are_told_by_their_own_addresses)
{
	struct image *image = &self->image;

	/* As a program that is linked for where it is */
	image->ehdr->e_type = ET_EXEC;
	image->phdr[PH_HEADERS].p_vaddr = image->addr;
	image->phdr[PH_TEXT].p_vaddr += image->addr;
	image->phdr[PH_SFRAME].p_vaddr += image->addr;
	ASSERT_TRUE(image_map(image));
	EXPECT_TRUE(is_exact(&image->code));
}

TEST_F(found, prelinked_library_that_is_elsewhere_is_exact)
{
	struct image *image = &self->image;

	image->phdr[PH_HEADERS].p_vaddr += 0x12345000;
	image->phdr[PH_TEXT].p_vaddr += 0x12345000;
	image->phdr[PH_SFRAME].p_vaddr += 0x12345000;
	ASSERT_TRUE(image_map(image));
	EXPECT_TRUE(is_exact(&image->code));
}

TEST_F(found, headers_in_the_executable_segment_are_found)
{
	struct image *image = &self->image;
	void *all = (void *)image->addr;

	image_phdr(&image->phdr[PH_HEADERS], PT_LOAD, PF_R | PF_X, 0, 0,
		   FILE_TEXT + PAGE);
	image->phdr[PH_TEXT].p_type = PT_NULL;
	ASSERT_EQ(all, mmap(all, FILE_TEXT + PAGE, PROT_READ | PROT_EXEC,
			    MAP_PRIVATE | MAP_FIXED, image->fd, 0));
	EXPECT_TRUE(is_exact(&image->code));
}

TEST_F(found, code_split_by_mprotect_is_exact_in_all_parts)
{
	struct image *image = &self->image;
	void *text = (void *)(image->addr + FILE_TEXT);

	/* Two pages of code in one segment, the second with nothing in it */
	image->phdr[PH_TEXT].p_filesz = 2 * PAGE;
	image->phdr[PH_TEXT].p_memsz = 2 * PAGE;
	ASSERT_TRUE(image_map(image));
	ASSERT_EQ(text, mmap(text, 2 * PAGE, PROT_READ | PROT_EXEC,
			     MAP_PRIVATE | MAP_FIXED, image->fd, FILE_TEXT));
	ASSERT_EQ(0, mprotect(text, PAGE, PROT_CODE));
	EXPECT_TRUE(is_exact(&image->code));
}

/* A second piece of code in the file at @off, for @addr, and a table for both */
static void image_add(struct image *image, struct code *second,
		      unsigned long off, unsigned long addr,
		      unsigned int version, bool pcrel)
{
	code_make(second, image->file + off, addr, true);
	sframe_build_init(&build, version, pcrel, image->addr + FILE_TABLE);
	code_funcs(&image->code, true, &build);
	code_funcs(second, true, &build);
	image->phdr[PH_SFRAME].p_memsz = sframe_build_finish(&build);
	memcpy(image->file + FILE_TABLE, build.mem,
	       image->phdr[PH_SFRAME].p_memsz);
}

TEST_F(found, each_of_several_executable_segments_is_exact)
{
	struct image *image = &self->image;
	unsigned long off = FILE_SIZE - PAGE, text = image->addr + 6 * PAGE;
	struct code second;

	image_add(image, &second, off, text, variant->version,
		  variant->pcrel);
	image_phdr(&image->phdr[PH_SPARE], PT_LOAD, PF_R | PF_X, off, 6 * PAGE,
		   PAGE);
	ASSERT_TRUE(image_map(image));
	ASSERT_EQ((void *)text, mmap((void *)text, PAGE, PROT_READ | PROT_EXEC,
				     MAP_PRIVATE | MAP_FIXED, image->fd, off));
	EXPECT_TRUE(is_exact(&second));
	EXPECT_TRUE(is_exact(&image->code));
	EXPECT_TRUE(is_exact(&second));

	/* They do not go together, but with the table. */
	ASSERT_TRUE(map_over(text, PAGE, PROT_CODE));
	code_make(&second, (u8 *)text, text, true);
	EXPECT_TRUE(is_without_table(&second));
	EXPECT_TRUE(is_exact(&image->code));
	ASSERT_EQ((void *)text, mmap((void *)text, PAGE, PROT_READ | PROT_EXEC,
				     MAP_PRIVATE | MAP_FIXED, image->fd, off));
	EXPECT_TRUE(is_exact(&second));
	ASSERT_TRUE(map_over(image->addr, PAGE, PROT_READ));
	EXPECT_TRUE(is_without_table(&second));
	EXPECT_TRUE(is_without_table(&image->code));
}

/* The kernel makes one mapping of them. */
TEST_F(found, adjacent_executable_segments_are_exact)
{
	struct image *image = &self->image;
	unsigned long off = FILE_TEXT + PAGE;
	void *text = (void *)(image->addr + off);
	struct code second;

	image_add(image, &second, off, image->addr + off, variant->version,
		  variant->pcrel);
	image_phdr(&image->phdr[PH_SPARE], PT_LOAD, PF_R | PF_X, off, off, PAGE);
	ASSERT_TRUE(image_map(image));
	ASSERT_EQ(text, mmap(text, PAGE, PROT_READ | PROT_EXEC,
			     MAP_PRIVATE | MAP_FIXED, image->fd, off));
	EXPECT_TRUE(is_exact(&second));
	EXPECT_TRUE(is_exact(&image->code));
	EXPECT_TRUE(is_exact(&second));
}

/* Of one segment, whose second half is something else by now */
TEST_F(found, other_memory_within_a_segment_has_no_table)
{
	struct image *image = &self->image;
	unsigned long text = image->addr + FILE_TEXT + PAGE;
	struct code second;

	image_add(image, &second, FILE_TEXT + PAGE, text, variant->version,
		  variant->pcrel);
	image->phdr[PH_TEXT].p_filesz = 2 * PAGE;
	image->phdr[PH_TEXT].p_memsz = 2 * PAGE;
	ASSERT_TRUE(image_map(image));
	ASSERT_TRUE(map_over(text, PAGE, PROT_CODE));
	code_make(&second, (u8 *)text, text, true);
	EXPECT_TRUE(is_exact(&image->code));
	EXPECT_TRUE(is_without_table(&second));
	EXPECT_TRUE(is_exact(&image->code));
}

TEST_F(found, longer_segment_than_the_table_is_accepted)
{
	struct image *image = &self->image;

	image->phdr[PH_SFRAME].p_memsz += 0x100;
	ASSERT_TRUE(image_map(image));
	EXPECT_TRUE(is_exact(&image->code));
}

TEST_F(found, segment_that_ends_after_its_load_is_cut)
{
	struct image *image = &self->image;

	image->phdr[PH_SFRAME].p_memsz = 16 * PAGE;
	ASSERT_TRUE(image_map(image));
	EXPECT_TRUE(is_exact(&image->code));
}

TEST_F(found, table_that_is_not_all_mapped_is_used_once_it_is)
{
	struct image *image = &self->image;
	unsigned long off = FILE_SIZE - PAGE, table = image->addr + 6 * PAGE;
	size_t len;

	/* In a segment of its own, of which the file has a third */
	len = code_table(&image->code, true, &build, variant->version,
			 variant->pcrel, table);
	memcpy(image->file + off, build.mem, len);
	image_phdr(&image->phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, off, 6 * PAGE,
		   2 * PAGE);
	image_phdr(&image->phdr[PH_SPARE], PT_LOAD, PF_R, off, 6 * PAGE,
		   3 * PAGE);
	ASSERT_TRUE(image_map(image));
	ASSERT_EQ((void *)table, mmap((void *)table, PAGE, PROT_READ,
				      MAP_PRIVATE | MAP_FIXED, image->fd, off));
	EXPECT_TRUE(is_without_table(&image->code));
	ASSERT_TRUE(map_over(table + PAGE, 2 * PAGE, PROT_READ));
	EXPECT_TRUE(is_exact(&image->code));
}

TEST_F(found, headers_of_another_file_in_between_are_passed_over)
{
	struct image *image = &self->image, other;
	void *between = (void *)(image->addr + PAGE);

	/* A file that says that the code is its own, and ends all traces there */
	ASSERT_TRUE(image_make(&other, variant->version, variant->pcrel));
	sframe_build_init(&build, variant->version, variant->pcrel,
			  image->addr + PAGE + FILE_TABLE);
	sframe_build_func(&build, image->addr + FILE_TEXT, PAGE, SFRAME_BUILD_ROW1);
	sframe_build_end(&build, 0);
	memcpy(other.file + FILE_TABLE, build.mem, sframe_build_finish(&build));
	other.phdr[PH_TEXT].p_vaddr = FILE_TEXT - PAGE;
	ASSERT_TRUE(image_map(image));
	ASSERT_EQ(between, mmap(between, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED,
				other.fd, 0));
	EXPECT_TRUE(is_exact(&image->code));
	image_free(&other);
}

/* What looks like headers, but is further on in the same file */
TEST_F(found, headers_in_the_middle_of_the_file_are_passed_over)
{
	struct image *image = &self->image;
	void *between = (void *)(image->addr + PAGE);
	Elf64_Phdr *phdr;

	sframe_build_init(&build, variant->version, variant->pcrel,
			  image->addr + PAGE + FILE_TABLE);
	sframe_build_func(&build, image->addr + FILE_TEXT, PAGE, SFRAME_BUILD_ROW1);
	sframe_build_end(&build, 0);
	memcpy(image->file + PAGE, image->file, PAGE);
	memcpy(image->file + PAGE + FILE_TABLE, build.mem,
	       sframe_build_finish(&build));
	phdr = (Elf64_Phdr *)(image->file + PAGE + sizeof(Elf64_Ehdr));
	phdr[PH_TEXT].p_vaddr = FILE_TEXT - PAGE;
	ASSERT_TRUE(image_map(image));
	/* A mapping of its own */
	ASSERT_EQ(between, mmap(between, PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_FIXED, image->fd, PAGE));
	EXPECT_TRUE(is_exact(&image->code));
}

/* Nearer to the code than those that it belongs to */
TEST_F(found, headers_that_are_mapped_once_more_are_passed_over)
{
	struct image *image = &self->image;
	void *between = (void *)(image->addr + PAGE);

	ASSERT_TRUE(image_map(image));
	ASSERT_EQ(between, mmap(between, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED,
				image->fd, 0));
	EXPECT_TRUE(is_exact(&image->code));
}

TEST_F(found, headers_that_cannot_be_read_are_passed_over)
{
	struct image *image = &self->image;
	void *between = (void *)(image->addr + PAGE);

	ASSERT_TRUE(image_map(image));
	ASSERT_EQ(between, mmap(between, PAGE, PROT_NONE, MAP_PRIVATE | MAP_FIXED,
				image->fd, 0));
	EXPECT_TRUE(is_exact(&image->code));
}

TEST_F(found, other_file_at_the_same_place_is_looked_at_anew)
{
	struct image *image = &self->image;
	void *text = (void *)(image->addr + FILE_TEXT);

	ASSERT_TRUE(image_map(image));
	EXPECT_TRUE(is_exact(&image->code));
	ASSERT_TRUE(map_over((unsigned long)text, PAGE, PROT_CODE));
	code_make(&image->code, text, (unsigned long)text, true);
	EXPECT_TRUE(is_without_table(&image->code));
	ASSERT_TRUE(image_map(image));
	EXPECT_TRUE(is_exact(&image->code));
}

TEST_F(found, unmapped_headers_drop_the_table)
{
	struct image *image = &self->image;

	ASSERT_TRUE(image_map(image));
	EXPECT_TRUE(is_exact(&image->code));
	ASSERT_EQ(0, munmap((void *)image->addr, FILE_TEXT));
	EXPECT_TRUE(is_without_table(&image->code));
}

TEST_F(found, child_of_a_fork_finds_it_too)
{
	struct area area = {}, added;

	ASSERT_TRUE(image_map(&self->image));
	EXPECT_TRUE(is_exact(&self->image.code));
	area.code = self->image.code;
	area.table = self->image.addr + FILE_TABLE;
	EXPECT_EQ(0, in_child(child_is_exact, &area));
	/* It was not added for the child either, as others are. */
	ASSERT_TRUE(area_make(&added, 3, true, true));
	ASSERT_EQ(0, area_add(&added));
	EXPECT_EQ(0, in_child(child_is_exact, &added));
	EXPECT_EQ(ENOENT, in_child(child_remove_error, &area));
	munmap(added.mem, AREA_SIZE);
}

TEST_F(found, added_table_takes_its_place)
{
	struct image *image = &self->image;
	struct code *code = &image->code;
	struct area a;

	ASSERT_TRUE(image_map(image));
	EXPECT_TRUE(is_exact(code));
	/* Somebody else's table, which does not have the code. */
	ASSERT_TRUE(area_make(&a, 3, true, true));
	ASSERT_EQ(0, add_table(a.table, a.table_end, code->addr,
			       code->addr + PAGE));
	EXPECT_TRUE(is_without_table(code));
	ASSERT_EQ(0, remove_table(a.table));
	EXPECT_TRUE(is_exact(code));
	munmap(a.mem, AREA_SIZE);
}

TEST_F(found, unreadable_table_is_tried_again_later)
{
	struct image *image = &self->image;
	unsigned long off = FILE_SIZE - PAGE;
	void *table = (void *)(image->addr + off);
	struct timespec start, end;
	size_t len;
	int i;

	/* The frame pointer of this code leads to call_code()'s caller. */
	code_make(&image->code, image->file + FILE_TEXT, image->addr + FILE_TEXT, false);
	/* In a segment of its own, at the end of the file */
	len = code_table(&image->code, false, &build, variant->version,
			 variant->pcrel, (unsigned long)table);
	memcpy(image->file + off, build.mem, len);
	image_phdr(&image->phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, off, off, len);
	image_phdr(&image->phdr[PH_SPARE], PT_LOAD, PF_R, off, off, PAGE);
	ASSERT_TRUE(image_map(image));
	ASSERT_EQ(table, mmap(table, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED,
			      image->fd, off));

	ASSERT_EQ(0, ftruncate(image->fd, off));
	/* It is looked at once a second at most. */
	trace_clear();
	clock_gettime(CLOCK_MONOTONIC, &start);
	ASSERT_EQ(0, trace_event("unwind_sframe_section", true));
	for (i = 0; i < 50; i++)
		EXPECT_TRUE(is_cut(&image->code));
	trace_event("unwind_sframe_section", false);
	clock_gettime(CLOCK_MONOTONIC, &end);
	EXPECT_LE(1, trace_count(" not readable"));
	EXPECT_GE(end.tv_sec - start.tv_sec + 2, trace_count(" not readable"));
	trace_clear();

	ASSERT_EQ((ssize_t)len, pwrite(image->fd, build.mem, len, off));
	usleep(1500000);
	EXPECT_TRUE(is_exact(&image->code));
}

/* ------------------------------------------------------------------------ */
/* Real libraries							    */

TEST(dlopened_library_is_exact_with_an_unmodified_libc)
{
	struct lib lib;
	int i;

	if (must_skip(_metadata, need_lib()))
		return;
	for (i = 0; i < 5; i++) {
		ASSERT_TRUE(lib_open(&lib, test_file("sframe_lib.so")));
		EXPECT_TRUE(lib_is_exact(&lib));
		EXPECT_TRUE(lib_is_exact(&lib));
		ASSERT_EQ(0, dlclose(lib.handle));
	}
}

static int stop_loop;

static void *dlopen_loop(void *arg)
{
	const char *path = arg;

	while (!get_flag(&stop_loop)) {
		void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

		if (lib)
			dlclose(lib);
		munmap(map_anon(0, PAGE, PROT_READ | PROT_EXEC, 0), PAGE);
	}
	return NULL;
}

TEST(threads_that_map_and_unmap_do_not_disturb_walks)
{
	struct area area;
	pthread_t threads[2];
	static char path[512];
	unsigned int i;

	if (must_skip(_metadata, need_lib()))
		return;
	snprintf(path, sizeof(path), "%s", test_file("sframe_lib.so"));
	ASSERT_TRUE(area_make(&area, 3, true, true));
	ASSERT_EQ(0, area_add(&area));
	set_flag(&stop_loop, 0);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, dlopen_loop, path));
	for (i = 0; i < 300; i++)
		EXPECT_TRUE(is_exact(&area.code));
	set_flag(&stop_loop, 1);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	munmap(area.mem, AREA_SIZE);
}

TEST_HARNESS_MAIN
