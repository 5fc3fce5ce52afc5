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

/* The file of a test, and where its code is */
static struct image image;
static unsigned long text;
static unsigned int version;
static bool pcrel;

FIXTURE(found) {};

FIXTURE_VARIANT(found)
{
	unsigned int version;
	bool pcrel;
};

FIXTURE_VARIANT_ADD(found, v2) { 2, false };
FIXTURE_VARIANT_ADD(found, v3) { 3, true };

FIXTURE_SETUP(found)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	version = variant->version;
	pcrel = variant->pcrel;
	ASSERT_TRUE(image_make(&image, version, pcrel));
	text = image.addr + FILE_TEXT;
}

FIXTURE_TEARDOWN(found) {}

TEST_F(found, mapped_file_has_exact_frames)
{
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(stays_exact(&image.code));
	/* It was not added. */
	EXPECT_EQ(-ENOENT, remove_table(image.addr + FILE_TABLE));
}

TEST_F(found, segments_are_told_by_their_own_addresses)
{
	/* As a program that is linked for where it is */
	image.ehdr->e_type = ET_EXEC;
	image.phdr[PH_HEADERS].p_vaddr = image.addr;
	image.phdr[PH_TEXT].p_vaddr += image.addr;
	image.phdr[PH_SFRAME].p_vaddr += image.addr;
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
}

TEST_F(found, prelinked_library_that_is_elsewhere_is_exact)
{
	image.phdr[PH_HEADERS].p_vaddr += 0x12345000;
	image.phdr[PH_TEXT].p_vaddr += 0x12345000;
	image.phdr[PH_SFRAME].p_vaddr += 0x12345000;
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
}

TEST_F(found, headers_in_the_executable_segment_are_found)
{
	image_phdr(&image.phdr[PH_HEADERS], PT_LOAD, PF_R | PF_X, 0, 0, FILE_TEXT + PAGE);
	image.phdr[PH_TEXT].p_type = PT_NULL;
	ASSERT_TRUE(map_fd(image.addr, FILE_TEXT + PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE,
			   image.fd, 0));
	EXPECT_TRUE(is_exact(&image.code));
}

static void make_two_pages(void)
{
	image.phdr[PH_TEXT].p_filesz = 2 * PAGE;
	image.phdr[PH_TEXT].p_memsz = 2 * PAGE;
}

/* Of code in one segment, the second with nothing in it */
static bool map_two_pages(void)
{
	make_two_pages();
	return image_map(&image) && map_fd(text, 2 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE,
					   image.fd, FILE_TEXT);
}

TEST_F(found, code_in_two_mappings_is_exact_in_both)
{
	ASSERT_TRUE(map_two_pages());
	ASSERT_EQ(0, madvise((void *)text, PAGE, MADV_DONTFORK));
	EXPECT_TRUE(is_exact(&image.code));
}

/* A second piece of code in the file at @off, for @addr, and a table for both */
static void image_add(struct code *second, unsigned long off, unsigned long addr)
{
	code_make(second, image.file + off, addr, true);
	sframe_build_init(&build, version, pcrel, image.addr + FILE_TABLE);
	code_funcs(&image.code, true, &build);
	code_funcs(second, true, &build);
	image.phdr[PH_SFRAME].p_memsz = sframe_build_finish(&build);
	memcpy(image.file + FILE_TABLE, build.mem, image.phdr[PH_SFRAME].p_memsz);
}

TEST_F(found, each_of_several_executable_segments_is_exact)
{
	unsigned long off = FILE_SIZE - PAGE, other = image.addr + 6 * PAGE;
	struct code second;

	image_add(&second, off, other);
	image_phdr(&image.phdr[PH_SPARE], PT_LOAD, PF_R | PF_X, off, 6 * PAGE, PAGE);
	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(image_map_code(&image, other, off));
	EXPECT_TRUE(is_exact(&second));
	EXPECT_TRUE(is_exact(&image.code));
	EXPECT_TRUE(is_exact(&second));

	/* They do not go together. */
	ASSERT_TRUE(code_anew(&second, other));
	EXPECT_TRUE(is_without_table(&second));
	EXPECT_TRUE(is_exact(&image.code));
	ASSERT_TRUE(image_map_code(&image, other, off));
	EXPECT_TRUE(is_exact(&second));
	EXPECT_TRUE(is_exact(&image.code));
}

/* The kernel makes one mapping of them, which is first come to in either. */
TEST_F(found, adjacent_executable_segments_are_exact)
{
	unsigned long off = FILE_TEXT + PAGE;
	struct code second;

	image_add(&second, off, image.addr + off);
	image_phdr(&image.phdr[PH_SPARE], PT_LOAD, PF_R | PF_X, off, off, PAGE);
	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(image_map_code(&image, image.addr + off, off));
	EXPECT_TRUE(is_exact(&second));
	EXPECT_TRUE(is_exact(&image.code));
	EXPECT_TRUE(is_exact(&second));
	ASSERT_EQ(0, munmap((void *)image.addr + off, PAGE));
	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(image_map_code(&image, image.addr + off, off));
	EXPECT_TRUE(is_exact(&image.code));
	EXPECT_TRUE(is_exact(&second));
}

/* Of one segment, whose second half is something else by now */
TEST_F(found, other_memory_within_a_segment_has_no_table)
{
	struct code second;

	image_add(&second, FILE_TEXT + PAGE, text + PAGE);
	make_two_pages();
	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(code_anew(&second, text + PAGE));
	EXPECT_TRUE(is_exact(&image.code));
	EXPECT_TRUE(is_without_table(&second));
	EXPECT_TRUE(is_exact(&image.code));
}

TEST_F(found, longer_segment_than_the_table_is_accepted)
{
	image.phdr[PH_SFRAME].p_memsz += 0x100;
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
}

TEST_F(found, segment_that_ends_after_its_load_is_accepted)
{
	image.phdr[PH_SFRAME].p_memsz = 16 * PAGE;
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
}

TEST_F(found, segment_that_is_not_all_mapped_is_accepted_if_the_table_is)
{
	unsigned long off = FILE_SIZE - PAGE, table = image.addr + 6 * PAGE;

	/* In a segment of its own, of which the file has a third */
	memcpy(image.file + off, build.mem,
	       code_table(&image.code, true, &build, version, pcrel, table));
	image_phdr(&image.phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, off, 6 * PAGE, 2 * PAGE);
	image_phdr(&image.phdr[PH_SPARE], PT_LOAD, PF_R, off, 6 * PAGE, 3 * PAGE);
	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(image_map_table(&image, table));
	EXPECT_TRUE(stays_exact(&image.code));
}

/* They are read from the file, so that a table and its code are enough. */
TEST_F(found, headers_need_not_be_mapped)
{
	unsigned long table = image_table_apart(&image, version, pcrel);

	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(image_map_table(&image, table));
	ASSERT_EQ(0, munmap((void *)image.addr, FILE_TEXT));
	EXPECT_TRUE(stays_exact(&image.code));
}

/* A file that a loader maps, and writes to where that is not enough */
TEST_F(found, writable_private_mapping_has_no_table)
{
	int i;

	ASSERT_TRUE(image_map(&image));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, mprotect((void *)text, PAGE, PROT_CODE));
		EXPECT_TRUE(stays_without_table(&image.code));
		ASSERT_EQ(0, mprotect((void *)text, PAGE, PROT_READ | PROT_EXEC));
		EXPECT_TRUE(stays_exact(&image.code));
	}
}

TEST_F(found, shared_mapping_has_the_table)
{
	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(map_fd(text, PAGE, PROT_CODE, MAP_SHARED, image.fd, FILE_TEXT));
	EXPECT_TRUE(stays_exact(&image.code));
}

TEST_F(found, moved_and_split_mapping_has_the_table)
{
	void *second = (void *)(text + PAGE);

	ASSERT_TRUE(map_two_pages());
	EXPECT_TRUE(is_exact(&image.code));
	ASSERT_EQ(0, mprotect(second, PAGE, PROT_READ));
	EXPECT_TRUE(is_exact(&image.code));
	ASSERT_EQ(0, mprotect(second, PAGE, PROT_READ | PROT_EXEC));
	EXPECT_TRUE(is_exact(&image.code));
	ASSERT_EQ(0, munmap(second, PAGE));
	EXPECT_TRUE(is_exact(&image.code));
	/* Away, and back to where the table says that it is */
	ASSERT_TRUE(move_page(text, image.addr + 8 * PAGE, 0));
	ASSERT_TRUE(move_page(image.addr + 8 * PAGE, text, 0));
	EXPECT_TRUE(is_exact(&image.code));
}

TEST_F(found, other_file_at_the_same_place_is_looked_at_anew)
{
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
	ASSERT_TRUE(code_anew(&image.code, text));
	EXPECT_TRUE(is_without_table(&image.code));
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
}

/* Stubs that move the stack pointer by @frame, and their table, for where the first file is */
static bool image_other(struct image *other, u8 frame)
{
	if (!image_make(other, version, pcrel))
		return false;
	munmap((void *)(other->addr - FILE_SIZE), 4 * FILE_SIZE);
	other->addr = image.addr;
	code_frame = frame;
	image_fill(other, version, pcrel, true);
	code_frame = 24;
	return true;
}

/* Cold, warm, and while other code is there, which has another table or none */
TEST_F(found, files_that_take_turns_at_one_place_have_their_own_tables)
{
	struct image other;
	unsigned int i;

	ASSERT_TRUE(image_other(&other, 64));
	for (i = 0; i < 20; i++) {
		struct image *now = i % 2 ? &other : &image;

		ASSERT_TRUE(image_map(now));
		EXPECT_TRUE(is_exact(&now->code));
		if (i % 3 == 0)
			EXPECT_TRUE(is_exact(&now->code));
	}
}

/* The first one is gone when the next one comes, in the same memory or not. */
TEST_F(found, new_file_in_the_place_of_one_that_is_gone)
{
	struct image other;
	unsigned int i;

	for (i = 0; i < 40; i++) {
		ASSERT_TRUE(image_other(&other, 24 + 16 * (i % 4)));
		/* Every third one has none. */
		if (i % 3 == 2)
			other.phdr[PH_SFRAME].p_type = PT_NULL;
		ASSERT_TRUE(image_map(&other));
		EXPECT_EQ(i % 3 != 2, is_exact(&other.code));
		EXPECT_EQ(i % 3 == 2, is_without_table(&other.code));
		munmap(other.file, FILE_SIZE);
		close(other.fd);
		/* This is the last of it. */
		ASSERT_TRUE(map_over(image.addr, FILE_TEXT + PAGE, PROT_NONE));
	}
}

/* As when a library is compiled anew, and loaded once more */
TEST_F(found, changed_file_is_looked_at_anew_where_it_is_mapped_anew)
{
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
	ASSERT_EQ(0, munmap((void *)image.addr, FILE_TEXT + PAGE));
	/* The clock that tells of a change goes on in ticks. */
	usleep(20000);
	code_frame = 64;
	image_fill(&image, version, pcrel, true);
	ASSERT_EQ(0, futimens(image.fd, NULL));
	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
}

TEST_F(found, child_of_a_fork_finds_it_too)
{
	struct area area = {}, added;

	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(&image.code));
	area.code = image.code;
	area.table = image.addr + FILE_TABLE;
	EXPECT_EQ(0, in_child(child_is_exact, &area));
	/* It was not added for the child either, as others are. */
	ASSERT_TRUE(area_make(&added, 3, true, true));
	ASSERT_EQ(0, area_add(&added));
	EXPECT_EQ(0, in_child(child_is_exact, &added));
	EXPECT_EQ(ENOENT, in_child(child_remove_error, &area));
}

TEST_F(found, added_table_takes_its_place)
{
	struct code *code = &image.code;
	struct area a;

	ASSERT_TRUE(image_map(&image));
	EXPECT_TRUE(is_exact(code));
	/* A table of other code, which does not have this one. */
	ASSERT_TRUE(area_make(&a, 3, true, true));
	ASSERT_EQ(0, add_table(a.table, a.table_end, text, text + PAGE));
	EXPECT_TRUE(is_without_table(code));
	ASSERT_EQ(0, remove_table(a.table));
	EXPECT_TRUE(is_exact(code));
}

/* Only as long as that lasts; it is not remembered. */
TEST_F(found, unreadable_table_ends_the_walk_until_it_can_be_read)
{
	unsigned long off = FILE_SIZE - PAGE;
	unsigned long table = image_table_apart(&image, version, pcrel);
	int i;

	ASSERT_TRUE(image_map(&image));
	/* Nothing is mapped there, or the file ends before. */
	EXPECT_TRUE(is_cut(&image.code));
	EXPECT_TRUE(is_cut(&image.code));
	ASSERT_TRUE(image_map_table(&image, table));
	ASSERT_EQ(0, ftruncate(image.fd, off));
	for (i = 0; i < 10; i++)
		EXPECT_TRUE(is_cut(&image.code));
	ASSERT_EQ((ssize_t)PAGE, pwrite(image.fd, build.mem, PAGE, off));
	EXPECT_TRUE(stays_exact(&image.code));
}

/* Cached rules remain valid, and others end the walk. */
TEST_F(found, table_that_is_unmapped_ends_walks_that_need_it)
{
	u64 words[4] = { };
	unsigned long table = image_table_apart(&image, version, pcrel);
	uint64_t ips[MAX_IPS];

	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(image_map_table(&image, table));
	EXPECT_TRUE(is_exact(&image.code));
	ASSERT_EQ(0, munmap((void *)table, PAGE));
	EXPECT_TRUE(is_exact(&image.code));
	/* An address that nobody has asked for yet */
	words[0] = (u64)&words[2];
	words[1] = image.code.leaf + 2;
	words[2] = (u64)call_code_ip;
	EXPECT_EQ(2, stack_of_words(words, ips));
	ASSERT_TRUE(image_map_table(&image, table));
	EXPECT_EQ(3, stack_of_words(words, ips));
	EXPECT_EQ(words[2], ips[2]);
}

/*
 * A file with headers that nobody has read since the page cache forgot them: the walk
 * does not wait for a disk, and asks again later, but not each time.
 */
TEST(headers_that_are_not_in_the_page_cache_are_not_waited_for)
{
	static const char path[] = "/var/tmp/sframe_found_test";
	unsigned char in_core = 1;
	void *first;
	int fd, i;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(image_make(&image, 3, true));
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (fd < 0)
		SKIP(return, "needs /var/tmp on a disk");
	unlink(path);
	ASSERT_EQ((ssize_t)FILE_SIZE, pwrite(fd, image.file, FILE_SIZE, 0));
	ASSERT_EQ(0, fsync(fd));
	close(image.fd);
	image.fd = fd;
	ASSERT_TRUE(image_map(&image));
	first = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, first);
	/* Not read ahead, either */
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	posix_fadvise(fd, 0, PAGE, POSIX_FADV_DONTNEED);
	for (i = 0; i < 100 && in_core & 1; i++) {
		mincore(first, PAGE, &in_core);
		usleep(1000);
	}
	if (in_core & 1)
		SKIP(return, "this file system keeps the pages of its files");
	EXPECT_TRUE(is_without_table(&image.code));
	mincore(first, PAGE, &in_core);
	EXPECT_EQ(0, in_core & 1);

	/* It is there now, and is looked at within a second or so. */
	(void)__atomic_load_n((u8 *)first, __ATOMIC_RELAXED);
	for (i = 0; i < 50 && !is_exact(&image.code); i++)
		usleep(100000);
	EXPECT_TRUE(is_exact(&image.code));
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
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, dlopen_loop, path));
	for (i = 0; i < 300; i++)
		EXPECT_TRUE(is_exact(&area.code));
	set_flag(&stop_loop, 1);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
}

TEST_HARNESS_MAIN
