// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables: which are used, for how long, and what becomes of a walk when
 * they are hostile. The code is such that a walk by frame pointers does not show
 * it, so every frame that is there came from a table.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <time.h>
#include <ucontext.h>

#include "sframe_test.h"
#include "../kselftest_harness.h"

/* What the kernel documents as its limit for tables that are added. */
#define MAX_ADDED	4096

/* Layout of the memory of a test: code, table, and the rest */
#define AREA_SIZE	(16 * PAGE)
#define CODE_OFF	(4 * PAGE)
#define TABLE_OFF	(8 * PAGE)
#define TABLE_SIZE	(4 * PAGE)

static struct sframe_build build;

struct area {
	u8 *mem;
	unsigned long addr;
	unsigned long text;
	unsigned long text_end;
	unsigned long table;
	unsigned long table_end;
	struct code code;
};

static u8 *map_anon(unsigned long addr, size_t size, int prot, int flags)
{
	return mmap((void *)addr, size, prot,
		    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/* Put new, empty memory over what is there. */
static bool map_over(unsigned long addr, size_t size, int prot)
{
	return map_anon(addr, size, prot, MAP_FIXED) == (u8 *)addr;
}

#define PROT_CODE	(PROT_READ | PROT_WRITE | PROT_EXEC)

/* Code and a table for it in anonymous memory; not added yet. */
static bool area_make(struct area *area, unsigned int version, bool pcrel,
		      bool odd)
{
	size_t len;

	area->mem = map_anon(0, AREA_SIZE, PROT_CODE, 0);
	if (area->mem == MAP_FAILED)
		return false;
	area->addr = (unsigned long)area->mem;
	area->text = area->addr + CODE_OFF;
	area->table = area->addr + TABLE_OFF;
	area->table_end = area->table + TABLE_SIZE;

	code_make(&area->code, area->mem + CODE_OFF, area->text, odd);
	area->text_end = area->code.end;
	len = code_table(&area->code, odd, &build, version, pcrel, area->table);
	if (len > TABLE_SIZE)
		return false;
	memcpy(area->mem + TABLE_OFF, build.mem, len);
	return true;
}

static int area_add(struct area *area)
{
	return add_table(area->table, area->table_end, area->text,
			 area->text_end);
}

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

TEST_F(added, unreadable_table_is_not_used_until_it_can_be_read)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, mprotect((void *)a->table, PAGE, PROT_NONE));
	EXPECT_TRUE(is_without_table(&a->code));
	ASSERT_EQ(0, mprotect((void *)a->table, PAGE, PROT_READ));
	EXPECT_TRUE(is_exact(&a->code));
}

TEST_F(added, table_that_turns_into_garbage_is_given_up)
{
	struct area *a = &self->area;
	u8 *table = (u8 *)a->table;

	ASSERT_EQ(0, area_add(a));
	/* The header is not looked at again, what is behind it is. */
	memset(table + SFRAME_BUILD_HEADER, 0xff, PAGE);
	is_without_table(&a->code);
	memcpy(table, build.mem, PAGE);
	EXPECT_TRUE(is_without_table(&a->code));
	/* It still counts as added. */
	EXPECT_EQ(-EEXIST, area_add(a));
	ASSERT_EQ(0, remove_table(a->table));
	ASSERT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
}

/* What @child returns is its exit status. */
static int in_child(int (*child)(struct area *area), struct area *area)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		alarm(60);
		_exit(child(area));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static int child_is_exact(struct area *area)
{
	return is_exact(&area->code) ? 0 : 1;
}

static int child_is_without_table(struct area *area)
{
	return is_without_table(&area->code) ? 0 : 1;
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
	EXPECT_EQ(0, in_child(child_is_without_table, a));
	EXPECT_TRUE(is_exact(&a->code));
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
	EXPECT_TRUE(is_without_table(&a->code));
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

static int uffd_on(unsigned long addr, size_t len)
{
	struct uffdio_register reg = {
		.range = { addr, len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) ||
	    ioctl(fd, UFFDIO_REGISTER, &reg))
		return -1;
	return fd;
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

/*
 * A file with the shape of a library: headers and table in its first segment,
 * code in the next.
 */
#define FILE_TABLE	0x400UL
#define FILE_TEXT	(2 * PAGE)
#define FILE_SIZE	(4 * PAGE)

enum { PH_HEADERS, PH_TEXT, PH_SFRAME, PH_SPARE, PH_NR };

struct image {
	int fd;
	u8 *file;
	Elf64_Ehdr *ehdr;
	Elf64_Phdr *phdr;
	unsigned long addr;
	struct code code;
};

static void image_phdr(Elf64_Phdr *phdr, unsigned int type, unsigned int flags,
		       unsigned long off, unsigned long vaddr, size_t size)
{
	phdr->p_type = type;
	phdr->p_flags = flags;
	phdr->p_offset = off;
	phdr->p_vaddr = vaddr;
	phdr->p_filesz = size;
	phdr->p_memsz = size;
	phdr->p_align = PAGE;
}

/* Make the file, for @addr. Its headers can be changed until image_map(). */
static bool image_make(struct image *image, unsigned int version, bool pcrel)
{
	size_t len;

	image->fd = memfd_create("image", 0);
	if (image->fd < 0 || ftruncate(image->fd, FILE_SIZE))
		return false;
	image->file = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			   image->fd, 0);
	/* Room with space below and above */
	image->addr = (unsigned long)map_anon(0, 4 * FILE_SIZE, PROT_NONE, 0);
	if (image->file == MAP_FAILED || image->addr == -1UL)
		return false;
	image->addr += FILE_SIZE;

	code_make(&image->code, image->file + FILE_TEXT,
		  image->addr + FILE_TEXT, true);
	len = code_table(&image->code, true, &build, version, pcrel,
			 image->addr + FILE_TABLE);
	memcpy(image->file + FILE_TABLE, build.mem, len);

	image->ehdr = (Elf64_Ehdr *)image->file;
	image->phdr = (Elf64_Phdr *)(image->ehdr + 1);
	memcpy(image->ehdr->e_ident, ELFMAG, SELFMAG);
	image->ehdr->e_ident[EI_CLASS] = ELFCLASS64;
	image->ehdr->e_ident[EI_DATA] = ELFDATA2LSB;
	image->ehdr->e_ident[EI_VERSION] = EV_CURRENT;
	image->ehdr->e_type = ET_DYN;
	image->ehdr->e_machine = EM_X86_64;
	image->ehdr->e_version = EV_CURRENT;
	image->ehdr->e_phoff = sizeof(Elf64_Ehdr);
	image->ehdr->e_ehsize = sizeof(Elf64_Ehdr);
	image->ehdr->e_phentsize = sizeof(Elf64_Phdr);
	image->ehdr->e_phnum = PH_NR;
	image_phdr(&image->phdr[PH_HEADERS], PT_LOAD, PF_R, 0, 0, FILE_TEXT);
	image_phdr(&image->phdr[PH_TEXT], PT_LOAD, PF_R | PF_X, FILE_TEXT,
		   FILE_TEXT, PAGE);
	image_phdr(&image->phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, FILE_TABLE,
		   FILE_TABLE, len);
	/* Not used, but has the file's first byte */
	image_phdr(&image->phdr[PH_SPARE], PT_NULL, PF_R, 0, 16 * PAGE, PAGE);
	return true;
}

/* Map it as a loader does. */
static bool image_map(struct image *image)
{
	void *headers = (void *)image->addr;
	void *text = (void *)(image->addr + FILE_TEXT);

	return mmap(headers, FILE_TEXT, PROT_READ, MAP_PRIVATE | MAP_FIXED,
		    image->fd, 0) == headers &&
	       mmap(text, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
		    image->fd, FILE_TEXT) == text;
}

static void image_free(struct image *image)
{
	munmap((void *)(image->addr - FILE_SIZE), 4 * FILE_SIZE);
	munmap(image->file, FILE_SIZE);
	close(image->fd);
}

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
	struct area area = {};

	ASSERT_TRUE(image_map(&self->image));
	EXPECT_TRUE(is_exact(&self->image.code));
	area.code = self->image.code;
	EXPECT_EQ(0, in_child(child_is_exact, &area));
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

	/* In a segment of its own, at the end of the file */
	len = code_table(&image->code, true, &build, variant->version,
			 variant->pcrel, (unsigned long)table);
	memcpy(image->file + off, build.mem, len);
	image_phdr(&image->phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, off, off, len);
	image_phdr(&image->phdr[PH_SPARE], PT_LOAD, PF_R, off, off, PAGE);
	ASSERT_TRUE(image_map(image));
	ASSERT_EQ(table, mmap(table, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED,
			      image->fd, off));

	ASSERT_EQ(0, ftruncate(image->fd, off));
	EXPECT_TRUE(is_without_table(&image->code));
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

		ASSERT_TRUE(image_make(&image, 3, true));
		memcpy(image.file + unfit[i].where.off, &unfit[i].val,
		       unfit[i].where.size);
		ASSERT_TRUE(image_map(&image));
		EXPECT_TRUE(is_without_table(&image.code)) {
			TH_LOG("%s", unfit[i].what);
		}
		/* The answer stays, though the file is in order now. */
		EXPECT_TRUE(is_without_table(&image.code));
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

/* ------------------------------------------------------------------------ */
/* Real libraries							      */

static long (*lib_call)(long nr);
static const char *lib_lo, *lib_hi;

static void *lib_open(void)
{
	const char *path = test_file("sframe_lib.so");
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		fprintf(stderr, "# %s\n", dlerror());
		return NULL;
	}
	lib_call = dlsym(lib, "sframe_lib_call");
	lib_lo = dlsym(lib, "sframe_lib_ip_lo");
	lib_hi = dlsym(lib, "sframe_lib_ip_hi");
	return lib;
}

/* Are all three frames of the library there? */
static bool lib_is_exact(void)
{
	uint64_t ips[MAX_IPS];
	int i, nr = stack_of((void *)lib_call, ips), seen = 0;

	for (i = 0; i < nr; i++)
		seen += ips[i] >= (uint64_t)lib_lo && ips[i] < (uint64_t)lib_hi;
	if (seen == 4 && nr > 4 && ips[4] == (uint64_t)call_code_ip)
		return true;
	for (i = 0; i < nr; i++)
		fprintf(stderr, "# frame %d: %#llx\n", i, (unsigned long long)ips[i]);
	return false;
}

static const char *need_lib(void)
{
	if (need_sframe())
		return need_sframe();
	if (access(test_file("sframe_lib.so"), R_OK))
		return "sframe_lib.so is not built (assembler)";
	return NULL;
}

TEST(dlopened_library_is_exact_with_an_unmodified_libc)
{
	void *lib;
	int i;

	if (must_skip(_metadata, need_lib()))
		return;
	for (i = 0; i < 5; i++) {
		lib = lib_open();
		ASSERT_NE(NULL, lib);
		EXPECT_TRUE(lib_is_exact());
		EXPECT_TRUE(lib_is_exact());
		ASSERT_EQ(0, dlclose(lib));
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

/* The lines of the trace buffer that have @what. */
static int trace_count(const char *what)
{
	char path[128], line[512];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/trace", tracefs());
	f = fopen(path, "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		n += !!strstr(line, what);
	fclose(f);
	return n;
}

static int trace_event(const char *name, bool on)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/events/unwind/%s/enable", tracefs(), name);
	return write_file(path, on ? "1" : "0");
}

static void trace_clear(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/trace", tracefs());
	close(open(path, O_WRONLY | O_TRUNC));
}

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

/* A clock that the vDSO cannot tell: it makes the system call itself. */
static long vdso_call(long nr)
{
	struct timespec ts;

	(void)nr;
	return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
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
	snprintf(line, sizeof(line), "table=%#lx", vdso >> 12);
	printf("# vDSO table: %s\n", trace_count(line) ? "found" : "none");
	trace_clear();
}

TEST_HARNESS_MAIN
