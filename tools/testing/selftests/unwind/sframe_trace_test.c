// SPDX-License-Identifier: GPL-2.0
/*
 * The output of the tracepoints of SFrame tables and of walks.
 */
#include <sys/auxv.h>
#include <time.h>

#include "sframe_image.h"
#include "unwind_harness.h"

TEST(tracepoints_tell_of_tables_and_walks)
{
	struct image image, none;
	struct area area;
	char line[128];

	if (must_skip(_metadata, need_sframe()))
		return;
	if (must_skip(_metadata, need_tracepoint("unwind", "unwind_sframe_section")))
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
	munmap(area.mem, AREA_SIZE);
	image_free(&image);
	image_free(&none);
	trace_event("unwind_sframe_section", false);
	trace_event("unwind_user_done", false);

	EXPECT_EQ(1, trace_count("functions=5 version=3 found"));
	snprintf(line, sizeof(line), "text=%#lx-%#lx table=0x0 functions=0 version=0 no table",
		 none.addr + FILE_TEXT, none.addr + FILE_TEXT + PAGE);
	EXPECT_EQ(1, trace_count(line));
	/* No event is for code that is in no file. */
	EXPECT_EQ(2, trace_count("functions=5 version=2 added"));
	snprintf(line, sizeof(line), "table=%#lx functions=0 version=0 removed", area.table);
	EXPECT_EQ(1, trace_count(line));
	EXPECT_EQ(3, trace_count("sframe=5 "));
	/* The only event left for these: that the one table was bad */
	snprintf(line, sizeof(line), "text=%#lx-%#lx ", area.text, area.text_end);
	EXPECT_EQ(3, trace_count(line));
	snprintf(line, sizeof(line), "text=%#lx-%#lx ", image.addr + FILE_TEXT,
		 image.addr + FILE_TEXT + PAGE);
	EXPECT_EQ(1, trace_count(line));
	trace_clear();
}

/* Reading it can have effects, so it is not even asked for ELF headers. */
TEST(device_memory_is_not_searched)
{
	uint64_t ips[MAX_IPS];
	u64 words[4] = { };
	char line[64];
	void *bios;
	int fd;

	if (must_skip(_metadata, need_sframe()))
		return;
	if (must_skip(_metadata, need_tracepoint("unwind", "unwind_sframe_section")))
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
	snprintf(line, sizeof(line), "text=%#lx-", (unsigned long)bios);
	EXPECT_EQ(1, trace_count(line));
	EXPECT_EQ(1, trace_count(" no file in the page cache"));
	trace_clear();
	munmap(bios, PAGE);
}

/* How often two walks of @words, cold and warm, ended with @reason. */
static int count_reason(u64 *words, int frames, const char *reason)
{
	uint64_t ips[MAX_IPS];
	int i, n;

	trace_clear();
	if (trace_event("unwind_user_done", true))
		return -1;
	for (i = 0; i < 2; i++) {
		n = stack_of_words(words, ips);
		if (n != frames)
			return -1;
	}
	trace_event("unwind_user_done", false);
	return trace_count(reason);
}

TEST(end_of_a_walk_has_its_reason)
{
	u64 *words, ra = (u64)trace_count;
	struct area area;

	if (must_skip(_metadata, need_sframe()))
		return;
	if (must_skip(_metadata, need_tracepoint("unwind", "unwind_user_done")))
		return;
	words = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
	munmap(area.mem, AREA_SIZE);
	trace_clear();
	munmap(words, PAGE);
}

/* The first frame has a table, its caller has none: nothing says that it is outermost. */
TEST(frame_pointer_of_0_after_a_frame_by_a_table_is_no_end)
{
	unsigned long ip = (unsigned long)framed_ip_syscall;
	u64 words[4] = { 0, (u64)call_code_ip };
	struct area area;

	if (must_skip(_metadata, need_sframe()))
		return;
	if (must_skip(_metadata, need_tracepoint("unwind", "unwind_user_done")))
		return;
	ASSERT_TRUE(area_make(&area, 3, true, false));
	sframe_build_init(&build, 3, true, area.table);
	sframe_build_func(&build, ip - 2, 4, SFRAME_BUILD_ROW1);
	sframe_build_saved(&build, 0, SFRAME_BUILD_SP, 16, -16);
	memcpy((void *)area.table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, add_table(area.table, area.table_end, ip - 2, ip + 2));
	EXPECT_EQ(2, count_reason(words, 2, "sframe=1 fp=0 "));
	EXPECT_EQ(2, count_reason(words, 2, " end=no frame"));
	remove_table(area.table);
	munmap(area.mem, AREA_SIZE);
	trace_clear();
}

/* A clock that the vDSO cannot tell: it makes the system call itself. */
static long vdso_call(long nr)
{
	struct timespec ts;

	(void)nr;
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
	struct perf_event_attr attr;
	struct up_ring ring;
	struct up_rec *rec;
	char line[64];

	if (must_skip(_metadata, need_sframe()))
		return;
	if (must_skip(_metadata, need_tracepoint("unwind", "unwind_sframe_section")))
		return;
	ASSERT_NE(0, vdso);
	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_sframe_section", true));

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	ASSERT_EQ(0, up_open(&ring, &attr, 0, -1, -1));
	/* clock_gettime() */
	ASSERT_EQ(0, ioctl(ring.fd, PERF_EVENT_IOC_SET_FILTER, "id == 228"));
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
	up_close(&ring);

	/* "found", or "no table" where the assembler could not make one */
	snprintf(line, sizeof(line), "text=%#lx-", vdso);
	EXPECT_EQ(1, trace_count(line));
	if (vdso_table(vdso)) {
		snprintf(line, sizeof(line), "table=%#lx ", vdso_table(vdso));
		EXPECT_EQ(1, trace_count(line));
	}
	trace_clear();
}

TEST_HARNESS_MAIN
