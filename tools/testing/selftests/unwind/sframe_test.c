// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables: which are used, for how long, and what becomes of a walk when
 * they are hostile. The code is such that a walk by frame pointers does not show
 * it, so every frame that is there came from a table.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <time.h>
#include <ucontext.h>

#include "sframe_test.h"
#include "../kselftest_harness.h"

/* What the kernel documents as its limit for tables that are added */
#define MAX_ADDED	4096
/* And for what it finds, documented as well */
#define MAX_FOUND	1024

/* ------------------------------------------------------------------------ */
/* Tables that were added						      */

FIXTURE(added)
{
	struct area area;
};

FIXTURE_VARIANT(added)
{
	unsigned int version;
	bool pcrel;
};

FIXTURE_VARIANT_ADD(added, v2)
{
	.version = 2,
};

FIXTURE_VARIANT_ADD(added, v2_pcrel)
{
	.version = 2,
	.pcrel = true,
};

FIXTURE_VARIANT_ADD(added, v3)
{
	.version = 3,
	.pcrel = true,
};

FIXTURE_SETUP(added)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&self->area, variant->version, variant->pcrel,
			      true));
}

FIXTURE_TEARDOWN(added)
{
	remove_table(self->area.table);
	munmap(self->area.mem, AREA_SIZE);
}

TEST_F(added, code_without_a_table_has_no_frames)
{
	EXPECT_TRUE(is_without_table(&self->area.code));
}

TEST_F(added, table_gives_exact_frames_cold_and_warm)
{
	ASSERT_EQ(0, area_add(&self->area));
	EXPECT_TRUE(is_exact(&self->area.code));
	EXPECT_TRUE(is_exact(&self->area.code));
	EXPECT_TRUE(is_exact(&self->area.code));
}

/*
 * Rules are cached by the lower 16 bits of addresses, four for each place: more
 * pieces of code than that, 64 KiB apart, and no two with the same rules.
 */
TEST_F(added, rules_of_code_with_the_same_lower_address_bits_are_kept_apart)
{
	struct area areas[6];
	unsigned int i, round;
	u8 *mem;

	mem = map_anon(0, ARRAY_SIZE(areas) * AREA_SIZE, PROT_CODE, 0);
	ASSERT_NE(MAP_FAILED, mem);
	for (i = 0; i < ARRAY_SIZE(areas); i++) {
		code_frame = 24 + 16 * i;
		ASSERT_TRUE(area_fill(&areas[i], mem + i * AREA_SIZE,
				      variant->version, variant->pcrel, false));
		ASSERT_EQ(0, area_add(&areas[i]));
	}
	for (round = 0; round < 4; round++) {
		for (i = 0; i < ARRAY_SIZE(areas); i++)
			EXPECT_TRUE(is_exact(&areas[i].code));
	}
	code_frame = 24;
	munmap(mem, ARRAY_SIZE(areas) * AREA_SIZE);
}

TEST_F(added, table_replaces_the_answer_that_there_is_none)
{
	EXPECT_TRUE(is_without_table(&self->area.code));
	ASSERT_EQ(0, area_add(&self->area));
	EXPECT_TRUE(is_exact(&self->area.code));
}

TEST_F(added, removed_table_is_used_no_more)
{
	ASSERT_EQ(0, area_add(&self->area));
	EXPECT_TRUE(is_exact(&self->area.code));
	ASSERT_EQ(0, remove_table(self->area.table));
	EXPECT_TRUE(is_without_table(&self->area.code));
	EXPECT_EQ(-ENOENT, remove_table(self->area.table));
	ASSERT_EQ(0, area_add(&self->area));
	EXPECT_TRUE(is_exact(&self->area.code));
}

TEST_F(added, one_table_for_two_ranges_goes_as_a_whole)
{
	struct area *a = &self->area;
	unsigned long middle = a->code.stub[1];

	ASSERT_EQ(0, add_table(a->table, a->table_end, a->text, middle));
	ASSERT_EQ(0, add_table(a->table, a->table_end, middle, a->text_end));
	ASSERT_EQ(0, remove_table(a->table));
	EXPECT_EQ(-ENOENT, remove_table(a->table));
	EXPECT_TRUE(is_without_table(&a->code));
}

/* Two pieces of code, one table for both */
TEST_F(added, one_table_for_two_pieces_of_code_is_exact_in_both)
{
	struct area *a = &self->area;
	unsigned long text = a->text + 2 * PAGE;
	struct code second;

	code_make(&second, (u8 *)text, text, true);
	sframe_build_init(&build, variant->version, variant->pcrel, a->table);
	code_funcs(&a->code, true, &build);
	code_funcs(&second, true, &build);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));

	/* A function that is not in the range that the table was added for. */
	ASSERT_EQ(0, add_table(a->table, a->table_end, second.addr, second.end));
	EXPECT_TRUE(is_exact(&second));
	EXPECT_TRUE(is_without_table(&a->code));
	ASSERT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
	EXPECT_TRUE(is_exact(&second));
}

TEST_F(added, tables_whose_memory_overlaps_are_apart)
{
	struct area *a = &self->area, second = *a;
	unsigned long text = a->text + 2 * PAGE;
	size_t len;

	/* The second table is within the memory of the first, behind it. */
	second.text = text;
	second.table = a->table + PAGE;
	code_make(&second.code, (u8 *)text, text, true);
	second.text_end = second.code.end;
	len = code_table(&second.code, true, &build, variant->version,
			 variant->pcrel, second.table);
	memcpy((void *)second.table, build.mem, len);

	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, area_add(&second));
	EXPECT_TRUE(is_exact(&a->code));
	EXPECT_TRUE(is_exact(&second.code));
	ASSERT_EQ(0, remove_table(a->table));
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_TRUE(is_exact(&second.code));
	ASSERT_EQ(0, area_add(a));
	/* A page of both */
	ASSERT_EQ(0, munmap((void *)(a->table_end - PAGE), PAGE));
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_TRUE(is_without_table(&second.code));
	EXPECT_EQ(-ENOENT, remove_table(a->table));
	EXPECT_EQ(-ENOENT, remove_table(second.table));
}

TEST_F(added, unmapping_a_page_behind_leaves_it)
{
	ASSERT_EQ(0, area_add(&self->area));
	ASSERT_EQ(0, munmap(self->area.mem + AREA_SIZE - PAGE, PAGE));
	ASSERT_EQ(0, munmap(self->area.mem, PAGE));
	EXPECT_TRUE(is_exact(&self->area.code));
}

TEST_F(added, unmapping_the_code_drops_it)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ(0, munmap((void *)a->text, PAGE));
	ASSERT_TRUE(map_over(a->text, PAGE, PROT_CODE));
	code_make(&a->code, (u8 *)a->text, a->text, true);
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_EQ(-ENOENT, remove_table(a->table));
}

TEST_F(added, unmapping_a_part_of_the_table_drops_it)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ(0, munmap((void *)(a->table_end - PAGE), PAGE));
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_EQ(-ENOENT, remove_table(a->table));
}

TEST_F(added, mapping_over_the_table_drops_it)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_TRUE(map_over(a->table, PAGE, PROT_READ | PROT_WRITE));
	memcpy((void *)a->table, build.mem, PAGE);
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_EQ(-ENOENT, remove_table(a->table));
}

TEST_F(added, mapping_over_the_code_drops_it)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_TRUE(map_over(a->text, PAGE, PROT_CODE));
	code_make(&a->code, (u8 *)a->text, a->text, true);
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_EQ(-ENOENT, remove_table(a->table));
}

TEST_F(added, moving_the_code_drops_it)
{
	struct area *a = &self->area;
	unsigned long to = a->addr + PAGE;

	ASSERT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ((void *)to, mremap((void *)a->text, PAGE, PAGE,
				     MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to));
	EXPECT_EQ(-ENOENT, remove_table(a->table));
	code_make(&a->code, (u8 *)to, to, true);
	EXPECT_TRUE(is_without_table(&a->code));
}

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP	4
#endif

TEST_F(added, moving_the_table_away_drops_it)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_NE(MAP_FAILED, mremap((void *)a->table, PAGE, PAGE,
				     MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL));
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_EQ(-ENOENT, remove_table(a->table));
}

TEST_F(added, protection_changes_leave_it)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, mprotect((void *)a->text, PAGE, PROT_READ));
	ASSERT_EQ(0, mprotect((void *)a->text, PAGE, PROT_READ | PROT_EXEC));
	ASSERT_EQ(0, mprotect((void *)a->table, PAGE, PROT_READ));
	EXPECT_TRUE(is_exact(&a->code));
}

/* The frame pointer of this code leads to call_code()'s caller. */
TEST_F(added, unreadable_table_ends_the_walk_until_it_can_be_read)
{
	struct area a;

	ASSERT_TRUE(area_make(&a, variant->version, variant->pcrel, false));
	ASSERT_EQ(0, area_add(&a));
	ASSERT_EQ(0, mprotect((void *)a.table, PAGE, PROT_NONE));
	EXPECT_TRUE(is_cut(&a.code));
	ASSERT_EQ(0, mprotect((void *)a.table, PAGE, PROT_READ));
	EXPECT_TRUE(is_exact(&a.code));
	ASSERT_EQ(0, mprotect((void *)a.table, PAGE, PROT_NONE));
	/* What is known of it is as good as before. */
	EXPECT_TRUE(is_exact(&a.code));
	munmap(a.mem, AREA_SIZE);
}

/* The stack of an exit_group() by the area's code, of which @ring tells. */
static int exit_of_child(struct area *a, bool resident, struct up_ring *ring)
{
	struct perf_event_attr attr;
	int go[2], ret = -1;
	pid_t pid;
	char c = 0;

	if (pipe(go))
		return -1;
	pid = fork();
	if (!pid) {
		alarm(60);
		if (read(go[0], &c, 1) != 1 ||
		    (!resident && madvise((void *)a->table, PAGE, MADV_DONTNEED)))
			_exit(0);
		call_code(SYS_exit_group, (void *)a->code.top);
	}

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	if (pid > 0 && !up_open_pages(ring, &attr, pid, -1, -1, 4)) {
		/* exit_group() */
		ret = ioctl(ring->fd, PERF_EVENT_IOC_SET_FILTER, "id == 231") ?:
		      up_enable(ring);
	}
	write(go[1], &c, 1);
	waitpid(pid, NULL, 0);
	close(go[0]);
	close(go[1]);
	return ret;
}

/* Nothing is paged in for a task that exits, its tables neither. */
TEST_F(added, table_that_is_not_resident_ends_the_walk_of_a_task_that_exits)
{
	struct up_ring ring;
	struct up_rec *rec;
	unsigned int nr;
	struct area a;
	int resident;

	ASSERT_TRUE(area_make(&a, variant->version, variant->pcrel, false));
	ASSERT_EQ(0, area_add(&a));
	for (resident = 0; resident < 2; resident++) {
		ASSERT_EQ(0, exit_of_child(&a, resident, &ring));
		up_drain(&ring);
		EXPECT_EQ(1, up_count(&ring, UT_RECORD_CALLCHAIN_DEFERRED));
		rec = up_nth(&ring, UT_RECORD_CALLCHAIN_DEFERRED, 0);
		ASSERT_NE(NULL, rec);
		nr = resident ? a.code.nr_ips : 1;
		ASSERT_LE(nr, rec->nr);
		EXPECT_EQ(resident, rec->nr > 1);
		EXPECT_TRUE(up_frames_equal(rec->ips, nr, a.code.ips, nr));
		up_close(&ring);
	}
	munmap(a.mem, AREA_SIZE);
}

/* Give all functions of the table in @build rows of a type that does not exist. */
static void spoil_table(u8 *table)
{
	u32 fde = build.version == 2 ? 20 : 16, i;
	u8 *fdes = table + SFRAME_BUILD_HEADER;

	for (i = 0; i < build.nr_funcs; i++) {
		if (build.version == 2)
			fdes[i * fde + 16] = 0xf;
		else
			fdes[build.nr_funcs * fde + build.funcs[i].rows_off + 2] = 0xf;
	}
}

TEST_F(added, table_that_turns_into_garbage_is_given_up)
{
	struct area *a = &self->area;
	u8 *table = (u8 *)a->table;

	ASSERT_EQ(0, area_add(a));
	/* The header is not looked at again, what is behind it is. */
	spoil_table(table);
	EXPECT_TRUE(is_without_table(&a->code));
	memcpy(table, build.mem, PAGE);
	EXPECT_TRUE(is_without_table(&a->code));
	/* It still counts as added. */
	EXPECT_EQ(-EEXIST, area_add(a));
	ASSERT_EQ(0, remove_table(a->table));
	ASSERT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
}

static int child_has_nothing_added(struct area *area)
{
	return remove_table(area->table) != -ENOENT ? 2 :
	       child_is_without_table(area);
}

static int child_remove_error(struct area *area)
{
	return -remove_table(area->table);
}

static int child_removes(struct area *area)
{
	return remove_table(area->table) ? 1 :
	       is_without_table(&area->code) ? 0 : 2;
}

TEST_F(added, child_of_a_fork_has_its_own_copy)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	EXPECT_EQ(0, in_child(child_is_exact, a));
	EXPECT_EQ(0, in_child(child_removes, a));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ(0, remove_table(a->table));
	EXPECT_EQ(0, in_child(child_is_without_table, a));
}

TEST_F(added, child_without_the_table_memory_has_no_copy)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, madvise((void *)a->table, PAGE, MADV_DONTFORK));
	EXPECT_EQ(0, in_child(child_has_nothing_added, a));
	EXPECT_TRUE(is_exact(&a->code));
}

TEST_F(added, child_without_the_code_has_no_copy)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, madvise((void *)a->text, PAGE, MADV_DONTFORK));
	EXPECT_EQ(ENOENT, in_child(child_remove_error, a));
}

static int child_is_exact_with_a_readable_table(struct area *area)
{
	return mprotect((void *)area->table, PAGE, PROT_READ) ? 2 :
	       child_is_exact(area);
}

TEST_F(added, child_of_a_fork_has_a_copy_of_what_is_not_readable_just_now)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, mprotect((void *)a->table, PAGE, PROT_NONE));
	EXPECT_EQ(0, in_child(child_is_exact_with_a_readable_table, a));
}

/* What was cached while it was good is not used either. */
TEST_F(added, bad_table_takes_its_rules_with_it)
{
	struct area *a = &self->area;
	u64 words[] = { 0, a->code.leaf + 2, 0 };
	uint64_t ips[MAX_IPS];

	ASSERT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
	spoil_table((u8 *)a->table);
	/* An address that nobody has asked for yet */
	EXPECT_EQ(2, stack_of_words(words, ips));
	EXPECT_TRUE(is_without_table(&a->code));
}

/* What was given up stays so, also once it is in order again. */
TEST_F(added, child_of_a_fork_does_not_look_at_a_bad_table_again)
{
	struct area *a = &self->area;
	u8 *table = (u8 *)a->table;

	ASSERT_EQ(0, area_add(a));
	spoil_table(table);
	EXPECT_TRUE(is_without_table(&a->code));
	memcpy(table, build.mem, PAGE);
	EXPECT_EQ(0, in_child(child_is_without_table, a));
}

static void *thread_is_exact(void *arg)
{
	struct area *area = arg;

	return (void *)(long)(is_exact(&area->code) ? 0 : 1);
}

static void *thread_adds(void *arg)
{
	return (void *)(long)area_add(arg);
}

TEST_F(added, threads_share_it)
{
	struct area *a = &self->area;
	pthread_t thread;
	void *ret;

	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_adds, a));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	ASSERT_EQ(0, (long)ret);
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_is_exact, a));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(0, (long)ret);
}

/* The stack of a getppid() in a handler that interrupted the leaf. */
static struct area *signal_area;
static uint64_t signal_ips[MAX_IPS];
static int signal_nr;

static void on_signal(int sig)
{
	(void)sig;
	signal_nr = stack_of((void *)signal_area->code.leaf, signal_ips);
}

TEST_F(added, code_interrupted_by_a_signal_is_exact)
{
	struct code *code = &self->area.code;
	struct itimerspec when = { .it_value.tv_nsec = 50000000 };
	struct sigaction sa = { .sa_handler = on_signal };
	struct sigevent ev = {
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = SIGUSR1,
	};
	bool found = false;
	timer_t timer;
	int i;

	ASSERT_EQ(0, area_add(&self->area));
	signal_area = &self->area;
	signal_nr = -1;
	ASSERT_EQ(0, sigaction(SIGUSR1, &sa, NULL));
	/* pause() in the leaf; the interrupted address is behind its syscall */
	ASSERT_EQ(0, timer_create(CLOCK_MONOTONIC, &ev, &timer));
	ASSERT_EQ(0, timer_settime(timer, 0, &when, NULL));
	call_code(SYS_pause, (void *)code->top);
	timer_delete(timer);
	signal(SIGUSR1, SIG_DFL);

	ASSERT_LT(0, signal_nr);
	for (i = 1; i + (int)code->nr_ips <= signal_nr; i++) {
		if (!memcmp(&signal_ips[i], code->ips,
			    code->nr_ips * sizeof(*code->ips)))
			found = true;
	}
	EXPECT_TRUE(found) {
		up_frames_equal(signal_ips, signal_nr, code->ips, code->nr_ips);
	}
}

/* ------------------------------------------------------------------------ */
/* Errors of prctl()							      */

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
	/* Behind the table. Nobody asks for the time from here on. */
	ASSERT_EQ(to, mremap(vvar, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	EXPECT_EQ(-EACCES, add_table(a->table, a->table + PAGE + 8, a->text,
				     a->text_end));
	EXPECT_EQ(0, add_table(a->table, a->table + PAGE, a->text, a->text_end));
	EXPECT_TRUE(is_exact(&a->code));
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

TEST_F(errors, overlap_with_an_added_table_gives_eexist)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, add_table(a->table, a->table_end, a->text + 16, a->text + 32));
	EXPECT_EQ(-EEXIST, add_table(a->table, a->table_end, a->text + 31, a->text + 64));
	EXPECT_EQ(-EEXIST, add_table(a->table, a->table_end, a->text, a->text + 17));
	EXPECT_EQ(-EEXIST, add_table(a->table, a->table_end, a->text, a->text + 64));
	EXPECT_EQ(-EEXIST, add_table(a->table, a->table_end, a->text + 20, a->text + 24));
	/* Ranges that touch do not overlap. */
	EXPECT_EQ(0, add_table(a->table, a->table_end, a->text, a->text + 16));
	EXPECT_EQ(0, add_table(a->table, a->table_end, a->text + 32, a->text + 64));
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

/* ------------------------------------------------------------------------ */
/* Rules								      */

FIXTURE(rules)
{
	struct area area;
};

FIXTURE_SETUP(rules)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&self->area, 3, true, false));
	sframe_build_init(&build, 3, true, self->area.table);
}

FIXTURE_TEARDOWN(rules)
{
	remove_table(self->area.table);
	munmap(self->area.mem, AREA_SIZE);
}

/* Finish the table that a test has built, add it and take a trace. */
static int rules_trace(struct area *a, uint64_t *ips)
{
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	if (area_add(a))
		return -1;
	return stack_of((void *)a->code.top, ips);
}

TEST_F(rules, outermost_row_ends_the_trace)
{
	struct area *a = &self->area;
	uint64_t ips[MAX_IPS];

	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	sframe_build_func(&build, a->code.stub[0], 14, SFRAME_BUILD_ROW1);
	sframe_build_end(&build, 0);
	EXPECT_EQ(2, rules_trace(a, ips));
	EXPECT_EQ(2, stack_of((void *)a->code.top, ips));
	EXPECT_EQ(a->code.ips[1], ips[1]);
}

TEST_F(rules, cfa_that_does_not_grow_ends_the_trace)
{
	struct area *a = &self->area;
	uint64_t ips[MAX_IPS];

	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	sframe_build_func(&build, a->code.stub[0], 14, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 0);
	EXPECT_EQ(2, rules_trace(a, ips));
	EXPECT_EQ(2, stack_of((void *)a->code.top, ips));
}

TEST_F(rules, misaligned_cfa_ends_the_trace)
{
	struct area *a = &self->area;
	uint64_t ips[MAX_IPS];

	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 12);
	EXPECT_EQ(1, rules_trace(a, ips));
}

/* What is there would do as a return address. */
TEST_F(rules, misaligned_cfa_of_a_caller_ends_the_trace)
{
	struct area *a = &self->area;
	u64 words[6] = { 0, a->code.ips[0] };
	uint64_t ips[MAX_IPS];

	memcpy((u8 *)&words[2] + 4, &a->code.ips[1], sizeof(u64));
	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 12);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, area_add(a));
	EXPECT_EQ(2, stack_of_words(words, ips));
	EXPECT_EQ(2, stack_of_words(words, ips));
}

/* A table for the system call itself; its caller goes by frame pointer. */
TEST_F(rules, frame_pointer_that_the_topmost_frame_saved_is_restored)
{
	unsigned long ip = (unsigned long)framed_ip_syscall;
	struct area *a = &self->area;
	u64 ra = (u64)call_code_ip;
	u64 words[] = { 0, ra, 0, 0, 0, ra };
	uint64_t ips[MAX_IPS];

	words[0] = (u64)&words[4];
	sframe_build_func(&build, ip - 2, 4, SFRAME_BUILD_ROW1);
	sframe_build_saved(&build, 0, SFRAME_BUILD_SP, 16, -16);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, add_table(a->table, a->table_end, ip - 2, ip + 2));
	EXPECT_EQ(3, stack_of_words(words, ips));
	EXPECT_EQ(3, stack_of_words(words, ips));
}

TEST_F(rules, cfa_in_no_mans_land_ends_the_trace)
{
	struct area *a = &self->area;
	uint64_t ips[MAX_IPS];

	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 0x7ffffff8);
	EXPECT_EQ(1, rules_trace(a, ips));
}

TEST_F(rules, gap_between_functions_goes_by_frame_pointer)
{
	struct area *a = &self->area;
	uint64_t ips[MAX_IPS];
	int nr;

	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	nr = rules_trace(a, ips);
	/* The leaf by table; its caller has no frame, the next known one does */
	ASSERT_LT(3, nr);
	EXPECT_EQ(a->code.ips[1], ips[1]);
	EXPECT_FALSE(ips[2] >= a->text && ips[2] < a->text_end);
	nr = stack_of((void *)a->code.top, ips);
	ASSERT_LT(3, nr);
	EXPECT_EQ(a->code.ips[1], ips[1]);
}

/* Code without a table would be noted for so many frames. */
TEST_F(rules, gap_that_many_frames_are_in_leaves_the_table)
{
	struct area *a = &self->area;
	u64 words[36] = { };
	uint64_t ips[MAX_IPS];
	int i;

	for (i = 0; i < 16; i++) {
		words[2 * i] = (u64)&words[2 * i + 2];
		words[2 * i + 1] = a->code.ips[1];
	}
	words[33] = a->code.ips[0];
	words[34] = a->code.ips[0];
	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, area_add(a));
	/* The system call, those frames, and two by the table */
	EXPECT_EQ(19, stack_of_words(words, ips));
	EXPECT_EQ(19, stack_of_words(words, ips));
}

/* leaf: lea 8(%rsp), %r10; and $-32, %rsp; the CFA is in %r10 only */
static void make_realigned_leaf(struct area *a)
{
	u8 *to = (u8 *)a->text;

	to = code_bytes(to, "\x4c\x8d\x54\x24\x08\x48\x83\xe4\xe0", 9);
	to = code_bytes(to, "\x48\x89\xf8\x0f\x05\x90", 6);
	code_bytes(to, "\x49\x8d\x62\xf8\xc3", 5);
	a->code.ips[0] = a->text + 14;
}

static void add_stubs(struct area *a)
{
	unsigned int i;

	for (i = 0; i < NR_STUBS; i++) {
		sframe_build_func(&build, a->code.stub[i], 14, SFRAME_BUILD_ROW1);
		sframe_build_sp(&build, 0, 8);
		sframe_build_sp(&build, 4, 32);
		sframe_build_sp(&build, 13, 8);
	}
}

TEST_F(rules, register_of_the_topmost_frame_is_followed)
{
	struct area *a = &self->area;
	s32 words[] = { SFRAME_BUILD_REG(10), 0, 0 };
	uint64_t ips[MAX_IPS];
	int nr;

	make_realigned_leaf(a);
	sframe_build_func(&build, a->code.leaf, 20, SFRAME_BUILD_ROW1)->info2 = 1;
	sframe_build_row(&build, 0, 3 << 1, words);
	add_stubs(a);
	nr = rules_trace(a, ips);
	ASSERT_LT((int)a->code.nr_ips, nr);
	EXPECT_TRUE(up_frames_equal(ips, a->code.nr_ips, a->code.ips,
				    a->code.nr_ips));
}

TEST_F(rules, signal_row_makes_the_callers_address_exact)
{
	struct area *a = &self->area;
	uint64_t ips[MAX_IPS];

	/*
	 * The return address of the leaf is the first byte of a row: as that of
	 * a call it would belong to the row before, which ends the trace.
	 */
	sframe_build_func(&build, a->code.leaf, 7,
			  SFRAME_BUILD_ROW1 | SFRAME_BUILD_SIGNAL);
	sframe_build_sp(&build, 0, 8);
	sframe_build_func(&build, a->code.stub[0], 14, SFRAME_BUILD_ROW1);
	sframe_build_end(&build, 0);
	sframe_build_sp(&build, 9, 32);
	EXPECT_LT(2, rules_trace(a, ips));
	EXPECT_EQ(a->code.ips[2], ips[2]);
}

TEST_F(rules, function_of_very_many_rows_is_bounded)
{
	struct area *a = &self->area;
	uint64_t ips[MAX_IPS];
	int i;

	/* Every row before the one that counts is to be read. */
	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	for (i = 0; i < 4000; i++)
		sframe_build_sp(&build, 0, 8);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, area_add(a));
	EXPECT_LE(1, stack_of((void *)a->code.top, ips));
}

TEST_F(rules, register_of_a_caller_is_not_followed)
{
	struct area *a = &self->area;
	s32 words[] = { SFRAME_BUILD_REG(10), 32, 0 };
	uint64_t ips[MAX_IPS];
	int nr;

	/* The frame pointer is tried instead, and skips the other stubs. */
	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	sframe_build_func(&build, a->code.stub[0], 14, SFRAME_BUILD_ROW1)->info2 = 1;
	sframe_build_row(&build, 0, 3 << 1, words);
	nr = rules_trace(a, ips);
	ASSERT_LT(3, nr);
	EXPECT_EQ(a->code.ips[1], ips[1]);
	EXPECT_FALSE(ips[2] >= a->text && ips[2] < a->text_end);
}

TEST_F(rules, register_behind_a_signal_frame_is_not_followed)
{
	struct area *a = &self->area;
	unsigned long other = a->code.leaf + 16;
	s32 regs[] = { SFRAME_BUILD_REG(10), 32, 0 };
	u64 words[] = { 0, a->code.ips[0], other, 0, 0, (u64)call_code_ip };
	uint64_t ips[MAX_IPS];

	/* The registers are those of the system call, not of the interrupted one. */
	words[0] = (u64)&words[4];
	sframe_build_func(&build, a->code.leaf, 7,
			  SFRAME_BUILD_ROW1 | SFRAME_BUILD_SIGNAL);
	sframe_build_sp(&build, 0, 8);
	sframe_build_func(&build, other, 7, SFRAME_BUILD_ROW1)->info2 = 1;
	sframe_build_row(&build, 0, 3 << 1, regs);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, area_add(a));
	EXPECT_EQ(4, stack_of_words(words, ips));
	EXPECT_EQ(other, ips[2]);
	EXPECT_EQ((u64)call_code_ip, ips[3]);
}

/* A call as the last instruction: it returns to where the next function is. */
TEST_F(rules, return_address_behind_the_function_is_the_functions)
{
	struct area *a = &self->area;
	u64 words[] = { 0, a->code.leaf + 7, a->code.leaf + 7, a->code.leaf + 7, 0 };
	uint64_t ips[MAX_IPS];

	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	sframe_build_func(&build, a->code.leaf + 7, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 16);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, area_add(a));
	EXPECT_EQ(4, stack_of_words(words, ips));
	EXPECT_EQ(4, stack_of_words(words, ips));
}

/* The same with a rule that is not kept: the CFA is on the stack. */
TEST_F(rules, return_address_behind_a_function_with_a_rare_rule_is_the_functions)
{
	struct area *a = &self->area;
	u64 next = a->code.leaf + 7;
	u64 words[] = { 0, next, 0, next, 0, next, 0, 0 };
	s32 regs[] = { SFRAME_BUILD_REG(7) | SFRAME_BUILD_DEREF, 0, 0 };
	uint64_t ips[MAX_IPS];
	int i;

	for (i = 2; i < 8; i += 2)
		words[i] = (u64)&words[i + 2];
	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1)->info2 = 1;
	sframe_build_row(&build, 0, 3 << 1, regs);
	sframe_build_func(&build, next, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, area_add(a));
	EXPECT_EQ(4, stack_of_words(words, ips));
	EXPECT_EQ(4, stack_of_words(words, ips));
	EXPECT_EQ(next, ips[3]);
}

TEST_F(rules, kernel_address_is_not_stored)
{
	struct area *a = &self->area;
	u64 words[] = { 0, a->code.ips[0], a->code.ips[0], -640UL, a->code.ips[0], 0 };
	uint64_t ips[MAX_IPS];

	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, area_add(a));
	EXPECT_EQ(3, stack_of_words(words, ips));
	EXPECT_EQ(3, stack_of_words(words, ips));
	words[3] = 1UL << 56;
	EXPECT_EQ(3, stack_of_words(words, ips));
}

/* A stack that is made of return addresses into the same function. */
#define NR_LOOPS	40

static int stack_of_loops(struct area *a, u64 *words, uint64_t *ips)
{
	int i;

	for (i = 1; i <= NR_LOOPS; i++)
		words[i] = a->code.ips[0];
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	if (area_add(a))
		return -1;
	return stack_of_words(words, ips);
}

TEST_F(rules, function_that_calls_itself_gives_a_frame_a_call)
{
	struct area *a = &self->area;
	u64 words[NR_LOOPS + 2] = {};
	uint64_t ips[MAX_IPS];
	int i;

	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	/* A caller by frame pointer, the others by the table, cold and warm */
	EXPECT_EQ(NR_LOOPS + 1, stack_of_loops(a, words, ips));
	EXPECT_EQ(NR_LOOPS + 1, stack_of_words(words, ips));
	for (i = 1; i <= NR_LOOPS; i++)
		EXPECT_EQ(a->code.ips[0], ips[i]);
}

TEST_F(rules, signal_rows_that_lead_to_themselves_are_bounded)
{
	struct area *a = &self->area;
	u64 words[NR_LOOPS + 2] = {};
	uint64_t ips[MAX_IPS];

	sframe_build_func(&build, a->code.leaf, 7,
			  SFRAME_BUILD_ROW1 | SFRAME_BUILD_SIGNAL);
	sframe_build_sp(&build, 0, 8);
	/* The system call, its caller, and 16 frames that were interrupted */
	EXPECT_EQ(18, stack_of_loops(a, words, ips));
	EXPECT_EQ(18, stack_of_words(words, ips));
}

TEST_F(rules, frame_pointer_that_leads_to_itself_ends_the_trace)
{
	struct area *a = &self->area;
	u64 words[NR_LOOPS + 2] = {};
	uint64_t ips[MAX_IPS];

	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_saved(&build, 0, SFRAME_BUILD_FP, 16, -16);
	words[0] = (u64)&words[2];
	stack_of_loops(a, words, ips);
	words[2] = (u64)&words[2];
	EXPECT_EQ(3, stack_of_words(words, ips));
	EXPECT_EQ(3, stack_of_words(words, ips));
	/* And in a circle of two */
	words[2] = (u64)&words[4];
	words[4] = (u64)&words[2];
	EXPECT_EQ(4, stack_of_words(words, ips));
}

/* The kernel's own addresses of this very stack would look like a frame. */
TEST_F(rules, frame_in_the_kernels_mapping_of_the_stack_is_not_followed)
{
	struct area *a = &self->area;
	u64 *words = (u64 *)a->mem;
	uint64_t ips[MAX_IPS];
	s32 cfa = 16;

	words[1] = a->code.ips[0];
	words[5] = a->code.ips[0];
	sframe_build_func(&build, a->code.leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_row(&build, 0, SFRAME_BUILD_FP | 1 << 1, &cfa);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, area_add(a));
	words[0] = (u64)&words[4];
	EXPECT_EQ(3, stack_of_words(words, ips));
	EXPECT_EQ(3, stack_of_words(words, ips));
	words[0] = kernel_alias(words[0]);
	ASSERT_NE(0, words[0]);
	EXPECT_EQ(2, stack_of_words(words, ips));
	EXPECT_EQ(2, stack_of_words(words, ips));
}

/* The frame pointer is the interrupted code's, and would lead past it. */
TEST_F(rules, handler_with_a_table_leads_to_what_it_interrupted)
{
	struct area *a = &self->area;
	u64 *words = (u64 *)(a->mem + CODE_OFF - PAGE);
	/* As the kernel has it: handler, flags, restorer, mask */
	unsigned long action[4];
	uint64_t ips[MAX_IPS], want[NR_STUBS + 4];
	int i, nr;

	words[0] = (u64)&words[2];
	words[1] = (u64)call_code_ip;
	/* mov $SYS_getppid, %eax; syscall; nop; ret */
	code_bytes((u8 *)a->text, "\xb8\x6e\0\0\0\x0f\x05\x90\xc3", 9);
	a->code.ips[0] = a->text + 7;
	sframe_build_func(&build, a->code.leaf, 9, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	add_stubs(a);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, area_add(a));
	ASSERT_TRUE(stack_ring_open());

	signal(SIGUSR1, (void (*)(int))a->code.top);
	ASSERT_EQ(0, syscall(SYS_rt_sigaction, SIGUSR1, NULL, action, 8));
	ASSERT_EQ(a->code.top, action[0]);
	memcpy(want, a->code.ips, sizeof(*want) * (NR_STUBS + 1));
	want[NR_STUBS + 1] = action[2];
	want[NR_STUBS + 2] = (u64)framed_ip_syscall;
	want[NR_STUBS + 3] = words[1];
	for (i = 0; i < 2; i++) {
		up_enable(&stack_ring);
		framed_syscall(SYS_kill, getpid(), SIGUSR1, 0, words, words);
		nr = stack_take(ips);
		EXPECT_TRUE(up_frames_equal(ips, nr < 0 ? 0 : nr, want,
					    ARRAY_SIZE(want)));
	}
	signal(SIGUSR1, SIG_DFL);
}

/* A frame whose rule was too much for one walk is looked up by the next. */
TEST_F(rules, function_of_very_many_rows_is_none_for_one_walk_only)
{
	struct area *a = &self->area;
	u64 words[14] = {};
	uint64_t ips[MAX_IPS];
	int i;

	for (i = 1; i <= 12; i++)
		words[i] = a->code.leaf + i;
	/* All of them have to be read, for each address. */
	sframe_build_func(&build, a->code.leaf, STUB_SIZE, SFRAME_BUILD_ROW1);
	for (i = 0; i < 4000; i++)
		sframe_build_sp(&build, 0, 8);
	memcpy((void *)a->table, build.mem, sframe_build_finish(&build));
	ASSERT_EQ(0, area_add(a));
	/* 32768 rows are enough for eight, which the next one knows. */
	EXPECT_EQ(10, stack_of_words(words, ips));
	EXPECT_EQ(13, stack_of_words(words, ips));
}

/* Kinds of random tables: what is not */
enum { RANDOM_BUT_HEADER, RANDOM_BUT_INDEX, RANDOM_BYTES, NR_RANDOM };

#define RANDOM_ROUNDS	150

/* Make the table in @build, which is in order, one of that kind. */
static void randomize(int kind, size_t len, unsigned int *seed)
{
	size_t fdes = (build.version == 2 ? 20 : 16) * build.nr_funcs;
	size_t from = SFRAME_BUILD_HEADER, i;

	if (kind == RANDOM_BUT_INDEX)
		from += fdes;
	if (kind == RANDOM_BYTES) {
		for (i = 0; i < 3; i++)
			build.mem[from + rand_r(seed) % (len - from)] = rand_r(seed);
		return;
	}
	for (i = from; i < len; i++)
		build.mem[i] = rand_r(seed);
}

TEST(random_tables_end_every_walk)
{
	unsigned int seed = 54321;
	struct area area;
	int i, j;

	if (must_skip(_metadata, need_sframe()))
		return;

	ASSERT_TRUE(area_make(&area, 3, true, true));
	for (i = 0; i < NR_RANDOM * RANDOM_ROUNDS; i++) {
		uint64_t ips[MAX_IPS];
		size_t len;
		int nr;

		len = code_table(&area.code, true, &build, 2 + rand_r(&seed) % 2,
				 rand_r(&seed) % 2, area.table);
		randomize(i % NR_RANDOM, len, &seed);
		memcpy((void *)area.table, build.mem, len);
		ASSERT_EQ(0, area_add(&area));
		/* By frame pointer there is more than this. */
		nr = stack_of((void *)area.code.top, ips);
		ASSERT_LE(1, nr);
		EXPECT_EQ(area.code.ips[0], ips[0]);
		for (j = 0; j < nr; j++)
			EXPECT_GT(1UL << 56, ips[j]);
		ASSERT_EQ(0, remove_table(area.table));
	}
	munmap(area.mem, AREA_SIZE);
}

/*
 * Code with a table, in @with, and code with frame pointers, in @without, call
 * each other in turns: @ips is what the trace begins with.
 */
#define NR_TURNS	8

struct turns {
	u8 *with;
	u8 *without;
	unsigned long top;
	uint64_t ips[NR_TURNS + 1];
};

/* push %rbp; mov %rsp, %rbp; call or system call; pop %rbp; ret */
static uint64_t turn_without(u8 *to, unsigned long target)
{
	u8 *start = to;

	to = code_bytes(to, "\x55\x48\x89\xe5", 4);
	if (target)
		to = code_call(to, (unsigned long)to, target);
	else
		to = code_bytes(to, "\x48\x89\xf8\x0f\x05", 5);
	code_bytes(to, "\x90\x5d\xc3", 3);
	return (uint64_t)start + 9;
}

/* As in code_make() */
static uint64_t turn_with(u8 *to, unsigned long target, bool odd)
{
	unsigned long start = (unsigned long)to;

	if (!target) {
		sframe_build_func(&build, start, 7, SFRAME_BUILD_ROW1);
		sframe_build_sp(&build, 0, 8);
		code_bytes(to, "\x48\x89\xf8\x0f\x05\x90\xc3", 7);
		return start + 5;
	}
	if (odd) {
		sframe_build_func(&build, start, 13, SFRAME_BUILD_ROW1);
		sframe_build_sp(&build, 0, 8);
		sframe_build_saved(&build, 1, SFRAME_BUILD_SP, 16, -16);
		sframe_build_sp(&build, 12, 8);
		to = code_bytes(to, "\x55\xbd\x34\x12\0\0", 6);
		to = code_call(to, start + 6, target);
		code_bytes(to, "\x5d\xc3", 2);
		return start + 11;
	}
	sframe_build_func(&build, start, 14, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	sframe_build_sp(&build, 4, 32);
	sframe_build_sp(&build, 13, 8);
	to = code_bytes(to, "\x48\x83\xec\x18", 4);
	to = code_call(to, start + 4, target);
	code_bytes(to, "\x48\x83\xc4\x18\xc3", 5);
	return start + 9;
}

static void turns_make(struct turns *turns, bool leaf_with)
{
	unsigned long target = 0;
	int i;

	for (i = 0; i < NR_TURNS; i++) {
		bool with = leaf_with == !(i % 2);
		u8 *to = (with ? turns->with : turns->without) + i * STUB_SIZE;

		turns->ips[i] = with ? turn_with(to, target, i % 4 > 1) :
				       turn_without(to, target);
		target = (unsigned long)to;
	}
	turns->top = target;
	turns->ips[i] = (uint64_t)call_code_ip;
}

TEST(tables_and_frame_pointers_take_turns)
{
	struct turns turns;
	uint64_t ips[MAX_IPS];
	struct area area;
	int i, nr;

	if (must_skip(_metadata, need_sframe()))
		return;

	for (i = 0; i < 4; i++) {
		ASSERT_TRUE(area_make(&area, 3, true, true));
		turns.with = (u8 *)area.text;
		turns.without = area.mem;
		sframe_build_init(&build, 3, true, area.table);
		turns_make(&turns, i % 2);
		memcpy((void *)area.table, build.mem,
		       sframe_build_finish(&build));
		ASSERT_EQ(0, add_table(area.table, area.table_end, area.text,
				       area.text + NR_TURNS * STUB_SIZE));

		/* Cold, then warm */
		nr = stack_of((void *)turns.top, ips);
		ASSERT_LT(NR_TURNS, nr);
		EXPECT_TRUE(up_frames_equal(ips, NR_TURNS + 1, turns.ips,
					    NR_TURNS + 1));
		nr = stack_of((void *)turns.top, ips);
		ASSERT_LT(NR_TURNS, nr);
		EXPECT_TRUE(up_frames_equal(ips, NR_TURNS + 1, turns.ips,
					    NR_TURNS + 1));
		munmap(area.mem, AREA_SIZE);
	}
}

/* ------------------------------------------------------------------------ */
/* Tables that take their time						      */

FIXTURE(slow)
{
	struct area area;
	int fd;
};

FIXTURE_SETUP(slow)
{
	size_t len;

	self->fd = -1;
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&self->area, 3, true, true));
	len = TABLE_SIZE;
	self->fd = memfd_create("table", 0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ((ssize_t)len, write(self->fd, self->area.mem + TABLE_OFF, len));
	ASSERT_EQ(self->area.table,
		  (unsigned long)mmap((void *)self->area.table, len, PROT_READ,
				      MAP_SHARED | MAP_FIXED, self->fd, 0));
}

FIXTURE_TEARDOWN(slow)
{
	remove_table(self->area.table);
	munmap(self->area.mem, AREA_SIZE);
	if (self->fd >= 0)
		close(self->fd);
}

TEST_F(slow, dropped_pages_leave_it)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, madvise((void *)a->table, TABLE_SIZE, MADV_DONTNEED));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ(0, madvise((void *)a->table, TABLE_SIZE, MADV_DONTNEED));
	EXPECT_TRUE(is_exact(&a->code));
}

TEST_F(slow, truncated_file_is_a_passing_fault)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, ftruncate(self->fd, 0));
	EXPECT_TRUE(is_cut(&a->code));
	ASSERT_EQ(TABLE_SIZE, (unsigned long)pwrite(self->fd, build.mem, TABLE_SIZE, 0));
	EXPECT_TRUE(is_exact(&a->code));
}

TEST_F(slow, punched_hole_gives_the_table_up)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, fallocate(self->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       0, TABLE_SIZE));
	EXPECT_TRUE(is_without_table(&a->code));
}

/* Searches that fail in one walk, before it does without tables */
#define MAX_FAULTS	8

/* These fail as there is no code. */
TEST_F(slow, walk_puts_up_with_7_failed_searches)
{
	u8 *bad = map_anon(0, MAX_FAULTS * PAGE, PROT_NONE, 0);
	u64 words[2 * MAX_FAULTS + 4];
	uint64_t ips[MAX_IPS];
	int i, nr;

	ASSERT_NE(MAP_FAILED, bad);
	ASSERT_EQ(0, area_add(&self->area));

	for (nr = MAX_FAULTS - 1; nr <= MAX_FAULTS; nr++) {
		/* Frames by frame pointer, and one that only a table knows */
		for (i = 0; i < nr; i++) {
			words[2 * i] = (u64)&words[2 * i + 2];
			words[2 * i + 1] = (u64)bad + i * PAGE + 16;
		}
		words[2 * i] = 0;
		words[2 * i + 1] = self->area.code.ips[0];
		words[2 * i + 2] = self->area.code.ips[0];
		words[2 * i + 3] = 0;
		/* The system call, those frames, and the last one if it is used */
		EXPECT_EQ(nr < MAX_FAULTS ? nr + 3 : nr + 2,
			  stack_of_words(words, ips));
	}
	munmap(bad, MAX_FAULTS * PAGE);
}

/* The walk does without tables when it is about to note what the others are in. */
TEST_F(slow, last_failed_search_can_be_behind_many_frames)
{
	u8 *bad = map_anon(0, MAX_FAULTS * PAGE, PROT_NONE, 0);
	u64 words[2 * (MAX_FAULTS + 10) + 2] = { };
	uint64_t ips[MAX_IPS];
	int i, page = 0;

	ASSERT_NE(MAP_FAILED, bad);
	for (i = 0; i < MAX_FAULTS + 10; i++) {
		words[2 * i] = (u64)&words[2 * i + 2];
		words[2 * i + 1] = (u64)call_code_ip;
		if (i < MAX_FAULTS - 1 || i == MAX_FAULTS + 9)
			words[2 * i + 1] = (u64)bad + page++ * PAGE + 16;
	}
	/* The system call, and all of them */
	for (i = 0; i < 3; i++)
		EXPECT_EQ(MAX_FAULTS + 11, stack_of_words(words, ips));
	munmap(bad, MAX_FAULTS * PAGE);
}

/* The child's walk waits for its table until it is killed. */
static int stuck_child(struct area *a, int report)
{
	struct pollfd pollfd;
	uint64_t ips[MAX_IPS];
	pid_t pid;

	if (area_add(a))
		return 10;
	pollfd.fd = uffd_on(a->table, PAGE);
	pollfd.events = POLLIN;
	if (pollfd.fd < 0)
		return 12;
	if (madvise((void *)a->table, PAGE, MADV_DONTNEED))
		return 13;

	/* A thread of this process tells that the fault is there. */
	pid = fork();
	if (!pid) {
		char c = poll(&pollfd, 1, 10000) == 1 ? 'f' : 't';

		write(report, &c, 1);
		_exit(0);
	}
	stack_of((void *)a->code.top, ips);
	return 0;
}

TEST_F(slow, walk_that_waits_for_its_table_can_be_killed)
{
	struct area area;
	int pipefd[2], status, i;
	pid_t pid;
	char c = 0;

	/* Of anonymous memory, which userfaultfd can withhold */
	ASSERT_TRUE(area_make(&area, 3, true, true));
	ASSERT_EQ(0, pipe(pipefd));
	pid = fork();
	if (!pid)
		_exit(stuck_child(&area, pipefd[1]));
	ASSERT_EQ(1, read(pipefd[0], &c, 1));
	EXPECT_EQ('f', c);
	usleep(100000);
	/* It does not come back by itself. */
	EXPECT_EQ(0, waitpid(pid, &status, WNOHANG));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	for (i = 0; i < 100 && waitpid(pid, &status, WNOHANG) != pid; i++)
		usleep(50000);
	ASSERT_LT(i, 100);
	EXPECT_TRUE(WIFSIGNALED(status));
	munmap(area.mem, AREA_SIZE);
	close(pipefd[0]);
	close(pipefd[1]);
}

/* A thread writes nonsense into a table while it is used. */
static int stop_scribbling;

static void *scribble(void *arg)
{
	struct area *a = arg;
	u8 *table = (u8 *)a->table;
	unsigned int seed = 1;

	while (!get_flag(&stop_scribbling)) {
		unsigned int at = SFRAME_BUILD_HEADER + rand_r(&seed) % 200;

		table[at] = rand_r(&seed);
		if (!(rand_r(&seed) % 4))
			memcpy(table, build.mem, PAGE);
	}
	return NULL;
}

TEST_F(slow, table_that_changes_all_the_time_does_no_harm)
{
	uint64_t ips[MAX_IPS];
	struct area area;
	pthread_t thread;
	int i, nr;

	ASSERT_TRUE(area_make(&area, 3, true, true));
	set_flag(&stop_scribbling, 0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, scribble, &area));
	for (i = 0; i < 300; i++) {
		area_add(&area);
		nr = stack_of((void *)area.code.top, ips);
		EXPECT_LE(1, nr);
		if (nr > 0)
			EXPECT_EQ(area.code.ips[0], ips[0]);
		remove_table(area.table);
	}
	set_flag(&stop_scribbling, 1);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	munmap(area.mem, AREA_SIZE);
}

/* ------------------------------------------------------------------------ */
/* Tables that the kernel finds						      */

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

TEST_F(found, segment_that_ends_behind_its_load_is_cut)
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
	size_t len;

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
	EXPECT_TRUE(is_cut(&image->code));
	ASSERT_EQ((ssize_t)len, pwrite(image->fd, build.mem, len, off));
	EXPECT_TRUE(is_exact(&image->code));
}

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
	char first[128];
	int i, gone;

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
	snprintf(first, sizeof(first), "text=%p-%p table=0x0 functions=0 version=0 no file",
		 mem[0], mem[0] + PAGE);
	EXPECT_EQ(1, trace_count(first));
	stack_of(mem[0] + (a.code.top - a.code.addr), ips);
	trace_event("unwind_sframe_section", false);

	/* The first one has made room for others, and is asked for again. */
	EXPECT_EQ(2, trace_count(first));
	gone = trace_count(" evicted");
	EXPECT_LT(8, gone);
	EXPECT_EQ(MAX_FOUND, trace_count("text=") - 2 * gone -
		  2 * trace_count(" replaced") - 2 * trace_count(" unmapped"));
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
		/* The offset of the rows, from behind the header */
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

/* ------------------------------------------------------------------------ */
/* Real libraries							      */

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

/* ------------------------------------------------------------------------ */
/* To be seen								      */

TEST(tracepoints_tell_of_tables_and_walks)
{
	struct image image;
	struct area area;

	if (must_skip(_metadata, need_sframe()))
		return;
	if (must_skip(_metadata, need_tracepoint("unwind", "unwind_sframe_section")))
		return;
	ASSERT_TRUE(image_make(&image, 3, true));
	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(area_make(&area, 2, false, true));
	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_sframe_section", true));
	ASSERT_EQ(0, trace_event("unwind_user_done", true));
	is_exact(&image.code);
	is_without_table(&area.code);
	area_add(&area);
	is_exact(&area.code);
	remove_table(area.table);
	munmap(area.mem, AREA_SIZE);
	image_free(&image);
	trace_event("unwind_sframe_section", false);
	trace_event("unwind_user_done", false);

	EXPECT_EQ(1, trace_count("functions=5 version=3 found"));
	EXPECT_LE(1, trace_count("functions=0 version=0 no file"));
	EXPECT_EQ(1, trace_count("functions=5 version=2 added"));
	EXPECT_EQ(1, trace_count("functions=5 version=2 removed"));
	EXPECT_EQ(1, trace_count("functions=5 version=3 unmapped"));
	EXPECT_EQ(2, trace_count("sframe=5 "));
	trace_clear();
}

/* Reading it can have effects, so it is not even asked for ELF headers. */
TEST(device_memory_is_not_searched)
{
	uint64_t ips[MAX_IPS];
	u64 words[4] = { };
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
	EXPECT_EQ(1, trace_count("device memory"));
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

	words[1] = ra;
	EXPECT_EQ(2, count_reason(words, 2, "fp=1 entry=0 signal=0 last="));
	EXPECT_EQ(2, count_reason(words, 2, " end=end"));
	/* Below the stack pointer, and not aligned */
	words[0] = (u64)words;
	EXPECT_EQ(2, count_reason(words, 2, " end=corrupt"));
	words[0] = (u64)&words[8] + 4;
	EXPECT_EQ(2, count_reason(words, 2, " end=corrupt"));
	words[0] = (u64)words + PAGE;
	EXPECT_EQ(2, count_reason(words, 2, " end=fault"));
	/* A return address of 0 is the end, one of the kernel is none. */
	words[1] = 0;
	EXPECT_EQ(2, count_reason(words, 1, " end=end"));
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
