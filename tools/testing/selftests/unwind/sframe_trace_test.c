// SPDX-License-Identifier: GPL-2.0
/*
 * The output of the tracepoints of SFrame tables and of walks.
 */
#include <sys/auxv.h>
#include <time.h>

#include "sframe_image.h"
#include "unwind_harness.h"

static const char *need_trace(const char *name)
{
	return need_sframe() ?: need_tracepoint("unwind", name);
}

/* How often the trace has code of this size, if that is not 0, and this after it */
static int count_text(unsigned long text, size_t size, const char *what)
{
	char line[128];

	if (size)
		snprintf(line, sizeof(line), "text=%#lx-%#lx %s", text, text + size, what);
	else
		snprintf(line, sizeof(line), "text=%#lx-", text);
	return trace_count(line);
}

static int count_table(unsigned long table, const char *what)
{
	char line[128];

	snprintf(line, sizeof(line), "table=%#lx %s", table, what);
	return trace_count(line);
}

TEST(tracepoints_tell_of_tables_and_walks)
{
	struct image image, none;
	struct area area;

	if (must_skip(_metadata, need_trace("unwind_sframe_section")))
		return;
	ASSERT_TRUE(image_make(&image, 3, true));
	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(image_make(&none, 3, true));
	none.phdr[PH_SFRAME].p_type = PT_NULL;
	ASSERT_TRUE(image_map(&none));
	ASSERT_TRUE(area_make(&area, 2, false, true));
	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_sframe_section", true));
	ASSERT_EQ(0, trace_event("unwind_user_done", true));
	is_exact(&image.code);
	is_exact(&image.code);
	is_without_table(&none.code);
	is_without_table(&none.code);
	is_without_table(&area.code);
	area_add(&area);
	is_exact(&area.code);
	/* A table that turns out to be bad, once */
	spoil_index((u8 *)area.table);
	area_add(&area);
	is_cut(&area.code);
	is_cut(&area.code);
	remove_table(area.table);
	trace_event("unwind_sframe_section", false);
	trace_event("unwind_user_done", false);

	EXPECT_EQ(1, trace_count("functions=5 version=3 found"));
	EXPECT_EQ(1, count_text(none.addr + FILE_TEXT,
				PAGE, "table=0x0 functions=0 version=0 no table"));
	/* No event is for code that is in no file. */
	EXPECT_EQ(2, trace_count("functions=5 version=2 added"));
	EXPECT_EQ(1, count_table(area.table, "functions=0 version=0 removed"));
	EXPECT_EQ(3, trace_count("sframe=5 "));
	/* The only event left for these: that the one table was bad */
	EXPECT_EQ(3, count_text(area.text, area.text_end - area.text, ""));
	EXPECT_EQ(1, count_text(image.addr + FILE_TEXT, PAGE, ""));
	trace_clear();
}

/* Reading it can have effects, so it is not even asked for ELF headers. */
TEST(device_memory_is_not_searched)
{
	uint64_t ips[MAX_IPS];
	u64 words[4] = { };
	void *bios;
	int fd;

	if (must_skip(_metadata, need_trace("unwind_sframe_section")))
		return;
	fd = open("/dev/mem", O_RDONLY);
	if (fd < 0)
		SKIP(return, "needs /dev/mem");
	bios = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0xf0000);
	close(fd);
	if (bios == MAP_FAILED)
		SKIP(return, "/dev/mem cannot be mapped");
	words[0] = (u64)&words[2];
	words[1] = (u64)bios + 16;
	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_sframe_section", true));
	EXPECT_EQ(2, stack_of_words(words, ips));
	trace_event("unwind_sframe_section", false);
	EXPECT_EQ(1, count_text((unsigned long)bios, 0, NULL));
	EXPECT_EQ(1, trace_count(" no file in the page cache"));
	trace_clear();
}

/* How often two walks of @words, cold and warm, ended with @reason. */
static int count_reason(u64 *words, int frames, const char *reason)
{
	trace_clear();
	if (trace_event("unwind_user_done", true) || frames_of_words(words) != frames)
		return -1;
	trace_event("unwind_user_done", false);
	return trace_count(reason);
}

TEST(end_of_a_walk_has_its_reason)
{
	u64 *words, ra = (u64)trace_count;
	struct area area;

	if (must_skip(_metadata, need_trace("unwind_user_done")))
		return;
	words = (u64 *)map_anon(0, 2 * PAGE, PROT_READ | PROT_WRITE, 0);
	ASSERT_NE(MAP_FAILED, (void *)words);
	ASSERT_EQ(0, munmap((u8 *)words + PAGE, PAGE));

	words[1] = getauxval(AT_ENTRY) + 1;
	EXPECT_EQ(2, count_reason(words, 2, "fp=1 entry=0 signal=0 last="));
	EXPECT_EQ(2, count_reason(words, 2, " end=end"));
	words[1] = ra;
	EXPECT_EQ(2, count_reason(words, 2, " end=no frame"));
	/* Below the stack pointer, and not aligned */
	words[0] = (u64)words;
	EXPECT_EQ(2, count_reason(words, 2, " end=corrupt"));
	words[0] = (u64)&words[8] + 4;
	EXPECT_EQ(2, count_reason(words, 2, " end=corrupt"));
	words[0] = (u64)words + PAGE;
	EXPECT_EQ(2, count_reason(words, 2, " end=fault"));
	/* A return address of 0 proves nothing without a frame before it. */
	words[1] = 0;
	EXPECT_EQ(2, count_reason(words, 1, " end=no frame"));
	/* A kernel address is no return address. */
	words[1] = 1ULL << 63;
	EXPECT_EQ(2, count_reason(words, 1, " end=corrupt"));
	/* In code whose table cannot be read: though the frame pointer leads on */
	ASSERT_TRUE(area_make(&area, 3, true, true));
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, mprotect((void *)area.table, PAGE, PROT_NONE));
	words[0] = (u64)&words[2];
	words[1] = area.code.ips[0];
	words[2] = 0;
	words[3] = ra;
	EXPECT_EQ(2, count_reason(words, 2, "sframe=0 fp=1 "));
	EXPECT_EQ(2, count_reason(words, 2, " end=fault"));
	trace_clear();
}

/* The first frame has a table, its caller has none: nothing says that it is outermost. */
TEST(frame_pointer_of_0_after_a_frame_by_a_table_is_no_end)
{
	unsigned long ip = (unsigned long)framed_ip_syscall;
	u64 words[4] = { 0, (u64)call_code_ip };
	struct area area;

	if (must_skip(_metadata, need_trace("unwind_user_done")))
		return;
	ASSERT_TRUE(area_make(&area, 3, true, false));
	sframe_build_init(&build, 3, true, area.table);
	sframe_build_func(&build, ip - 2, 4, SFRAME_BUILD_ROW1);
	sframe_build_saved(&build, 0, SFRAME_BUILD_SP, 16, -16);
	table_write(area.table);
	ASSERT_EQ(0, add_table(area.table, area.table_end, ip - 2, ip + 2));
	EXPECT_EQ(2, count_reason(words, 2, "sframe=1 fp=0 "));
	EXPECT_EQ(2, count_reason(words, 2, " end=no frame"));
	trace_clear();
}

/* A clock that the vDSO cannot tell: it makes the system call itself. */
static long vdso_call(long nr)
{
	struct timespec ts;

	return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
}

/* Where its program headers say that it is; 0 if they do not. */
static unsigned long vdso_table(unsigned long vdso)
{
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)vdso;
	Elf64_Phdr *phdr = (Elf64_Phdr *)(vdso + ehdr->e_phoff);
	int i;

	for (i = 0; i < ehdr->e_phnum; i++) {
		if (phdr[i].p_type == PT_GNU_SFRAME)
			return vdso + phdr[i].p_vaddr;
	}
	return 0;
}

TEST(vdso_is_looked_at_by_its_own_headers)
{
	unsigned long vdso = getauxval(AT_SYSINFO_EHDR);
	struct up_ring ring;
	struct up_rec *rec;

	if (must_skip(_metadata, need_trace("unwind_sframe_section")))
		return;
	ASSERT_NE(0, vdso);
	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_sframe_section", true));

	ASSERT_TRUE(syscall_ring_open(&ring, 0, SYS_clock_gettime));
	up_enable(&ring);
	call_code(0, vdso_call);
	up_disable(&ring);
	up_drain(&ring);
	trace_event("unwind_sframe_section", false);

	rec = up_nth(&ring, UT_RECORD_CALLCHAIN_DEFERRED, 0);
	ASSERT_NE(NULL, rec);
	ASSERT_LT(2, rec->nr);
	EXPECT_GE(rec->ips[0], vdso);
	EXPECT_LT(rec->ips[0], vdso + 4 * PAGE);

	/* "found", or "no table" where the assembler could not make one */
	EXPECT_EQ(1, count_text(vdso, 0, NULL));
	if (vdso_table(vdso))
		EXPECT_EQ(1, count_table(vdso_table(vdso), ""));
	trace_clear();
}

TEST_HARNESS_MAIN
