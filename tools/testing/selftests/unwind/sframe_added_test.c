// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables that were added by prctl(): when they are used, and for how long.
 * The code is such that a walk by frame pointers does not show it, so every frame
 * in a trace is from a table.
 */
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "sframe_code.h"
#include "unwind_harness.h"

static struct area area;

FIXTURE(added) {};

FIXTURE_VARIANT(added)
{
	unsigned int version;
	bool pcrel;
};

FIXTURE_VARIANT_ADD(added, v2) { 2, false };
FIXTURE_VARIANT_ADD(added, v2_pcrel) { 2, true };
FIXTURE_VARIANT_ADD(added, v3) { 3, true };

FIXTURE_SETUP(added)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&area, variant->version, variant->pcrel, true));
}

FIXTURE_TEARDOWN(added) {}

TEST_F(added, code_without_a_table_has_no_frames)
{
	EXPECT_TRUE(is_without_table(&area.code));
}

TEST_F(added, table_gives_exact_frames_cold_and_warm)
{
	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(stays_exact(&area.code));
	EXPECT_TRUE(is_exact(&area.code));
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
}

TEST_F(added, table_replaces_the_answer_that_there_is_none)
{
	EXPECT_TRUE(is_without_table(&area.code));
	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
}

TEST_F(added, removed_table_is_used_no_more)
{
	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
	ASSERT_EQ(0, remove_table(area.table));
	EXPECT_TRUE(is_without_table(&area.code));
	EXPECT_EQ(-ENOENT, remove_table(area.table));
	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
}

TEST_F(added, one_table_for_two_ranges_goes_as_a_whole)
{
	unsigned long middle = area.code.stub[1];

	ASSERT_EQ(0, add_table(area.table, area.table_end, area.text, middle));
	ASSERT_EQ(0, add_table(area.table, area.table_end, middle, area.text_end));
	ASSERT_EQ(0, remove_table(area.table));
	EXPECT_EQ(-ENOENT, remove_table(area.table));
	EXPECT_TRUE(is_without_table(&area.code));
}

/* Another piece of code at @text, and one table for both */
static void second_code(struct code *second, unsigned long text, unsigned int version,
			bool pcrel)
{
	code_make(second, (u8 *)text, text, true);
	sframe_build_init(&build, version, pcrel, area.table);
	code_funcs(&area.code, true, &build);
	code_funcs(second, true, &build);
	table_write(area.table);
}

TEST_F(added, one_table_for_two_pieces_of_code_is_exact_in_both)
{
	struct code second;

	second_code(&second, area.text + 2 * PAGE, variant->version, variant->pcrel);
	/* A function that is not in the range that the table was added for. */
	ASSERT_EQ(0, add_table(area.table, area.table_end, second.addr, second.end));
	EXPECT_TRUE(is_exact(&second));
	EXPECT_TRUE(is_without_table(&area.code));
	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_TRUE(is_exact(&second));
}

TEST_F(added, tables_whose_memory_overlaps_are_apart)
{
	struct area second;

	/* The second table is within the memory of the first, after its end. */
	ASSERT_TRUE(area_place(&second, (u8 *)area.text + 2 * PAGE, (u8 *)area.table + PAGE,
			       variant->version, variant->pcrel, true));
	second.table_end = area.table_end;
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, area_add(&second));
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_TRUE(is_exact(&second.code));
	ASSERT_EQ(0, remove_table(area.table));
	EXPECT_TRUE(is_without_table(&area.code));
	EXPECT_TRUE(is_exact(&second.code));
	ASSERT_EQ(0, area_add(&area));
	/* A page that neither needs */
	ASSERT_EQ(0, munmap((void *)(area.table_end - PAGE), PAGE));
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_TRUE(is_exact(&second.code));
	EXPECT_EQ(0, remove_table(second.table));
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_TRUE(is_without_table(&second.code));
}

/* A copy of the area's table after it. Returns its address. */
static unsigned long table_copy(unsigned int version, bool pcrel)
{
	unsigned long table = area.table + PAGE;

	code_table(&area.code, true, &build, version, pcrel, table);
	memcpy((void *)table, build.mem, PAGE);
	return table;
}

TEST_F(added, table_takes_the_place_of_those_for_some_of_the_code)
{
	unsigned long copy = table_copy(variant->version, variant->pcrel);
	unsigned long middle = area.code.stub[1];

	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
	/* The first one becomes garbage, and is not used any more. */
	ASSERT_EQ(0, add_table(copy, area.table_end, area.text, area.text_end));
	memset((void *)area.table, 0, PAGE);
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_EQ(-ENOENT, remove_table(area.table));
	EXPECT_TRUE(is_exact(&area.code));

	/* For a byte of two others, which are dropped as a whole */
	ASSERT_EQ(0, add_table(copy, area.table_end, area.text, middle));
	ASSERT_EQ(0, add_table(copy, area.table_end, middle, area.text_end));
	EXPECT_TRUE(is_exact(&area.code));
	ASSERT_EQ(0, add_table(copy, area.table_end, middle - 1, middle + 1));
	EXPECT_TRUE(is_without_table(&area.code));
	EXPECT_EQ(0, remove_table(copy));
	EXPECT_EQ(-ENOENT, remove_table(copy));
}

TEST_F(added, unmapping_a_page_after_leaves_it)
{
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, munmap(area.mem + AREA_SIZE - PAGE, PAGE));
	ASSERT_EQ(0, munmap(area.mem, PAGE));
	EXPECT_TRUE(is_exact(&area.code));
}

TEST_F(added, protection_changes_leave_it)
{
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, mprotect((void *)area.text, PAGE, PROT_READ));
	ASSERT_EQ(0, mprotect((void *)area.text, PAGE, PROT_READ | PROT_EXEC));
	ASSERT_EQ(0, mprotect((void *)area.table, PAGE, PROT_READ));
	EXPECT_TRUE(is_exact(&area.code));
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
	/* The cached state of it is as good as before. */
	EXPECT_TRUE(is_exact(&a.code));
}

static void exit_resident(const void *arg)
{
	const struct area *a = arg;

	call_code(SYS_exit_group, (void *)a->code.top);
}

static void exit_not_resident(const void *arg)
{
	const struct area *a = arg;

	if (!madvise((void *)a->table, PAGE, MADV_DONTNEED))
		exit_resident(arg);
}

/* Nothing is paged in for a task that exits, and its tables are not either. */
TEST_F(added, table_that_is_not_resident_ends_the_walk_of_a_task_that_exits)
{
	struct up_ring ring;
	struct up_rec *rec;
	unsigned int nr;
	struct area a;
	int resident, status;

	ASSERT_TRUE(area_make(&a, variant->version, variant->pcrel, false));
	ASSERT_EQ(0, area_add(&a));
	for (resident = 0; resident < 2; resident++) {
		ASSERT_TRUE(stack_of_child(&ring, SYS_exit_group,
					   resident ? exit_resident : exit_not_resident,
					   &a, &status));
		EXPECT_EQ(1, up_count(&ring, UT_RECORD_CALLCHAIN_DEFERRED));
		rec = up_nth(&ring, UT_RECORD_CALLCHAIN_DEFERRED, 0);
		ASSERT_NE(NULL, rec);
		nr = resident ? a.code.nr_ips : 1;
		ASSERT_LE(nr, rec->nr);
		EXPECT_EQ(resident, rec->nr > 1);
		EXPECT_TRUE(up_frames_equal(rec->ips, nr, a.code.ips, nr));
	}
}

/*
 * Give functions of the table in @build rows of a type that does not exist: the
 * one at @start, or all if that is 0.
 */
static void spoil_func(u8 *table, unsigned long start)
{
	u32 fde = build.version == 2 ? 20 : 16, i;
	u8 *fdes = table + SFRAME_BUILD_HEADER;

	for (i = 0; i < build.nr_funcs; i++) {
		if (start && build.funcs[i].start != start)
			continue;
		if (build.version == 2)
			fdes[i * fde + 16] = 0xf;
		else
			fdes[build.nr_funcs * fde + build.funcs[i].rows_off + 2] = 0xf;
	}
}

TEST_F(added, table_that_turns_into_garbage_is_given_up)
{
	u8 *table = (u8 *)area.table;

	ASSERT_EQ(0, area_add(&area));
	/* Only the data after the header is looked at again. */
	spoil_index(table);
	EXPECT_TRUE(is_cut(&area.code));
	memcpy(table, build.mem, PAGE);
	EXPECT_TRUE(is_cut(&area.code));
	/* Until it is added once more */
	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
}

static int child_removes(struct area *area)
{
	return remove_table(area->table) ? 1 :
	       is_without_table(&area->code) ? 0 : 2;
}

TEST_F(added, child_of_a_fork_has_its_own_copy)
{
	ASSERT_EQ(0, area_add(&area));
	EXPECT_EQ(0, in_child(child_is_exact, &area));
	EXPECT_EQ(0, in_child(child_removes, &area));
	EXPECT_TRUE(is_exact(&area.code));
	ASSERT_EQ(0, remove_table(area.table));
	EXPECT_EQ(0, in_child(child_is_without_table, &area));
}

/* With the same contents */
static bool map_over_table(struct area *a)
{
	if (!map_over(a->table, PAGE, PROT_READ | PROT_WRITE))
		return false;
	memcpy((void *)a->table, build.mem, PAGE);
	return true;
}

/* Nothing is mapped in their place, and then the same again. */
static int child_gets_its_table_back(struct area *area)
{
	if (!is_cut(&area->code))
		return 1;
	return map_over_table(area) && is_exact(&area->code) ? 0 : 2;
}

static int child_gets_its_code_back(struct area *area)
{
	if (!code_anew(&area->code, area->text) || !is_exact(&area->code))
		return 1;
	return remove_table(area->table) ? 2 : 0;
}

TEST_F(added, child_without_the_memory_has_a_copy_all_the_same)
{
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, madvise((void *)area.table, PAGE, MADV_DONTFORK));
	EXPECT_EQ(0, in_child(child_gets_its_table_back, &area));
	ASSERT_EQ(0, madvise((void *)area.table, PAGE, MADV_DOFORK));
	ASSERT_EQ(0, madvise((void *)area.text, PAGE, MADV_DONTFORK));
	EXPECT_EQ(0, in_child(child_gets_its_code_back, &area));
	EXPECT_TRUE(is_exact(&area.code));
}

static int child_is_exact_with_a_readable_table(struct area *area)
{
	return mprotect((void *)area->table, PAGE, PROT_READ) ? 2 :
	       child_is_exact(area);
}

TEST_F(added, child_of_a_fork_has_a_copy_of_what_is_not_readable_just_now)
{
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, mprotect((void *)area.table, PAGE, PROT_NONE));
	EXPECT_EQ(0, in_child(child_is_exact_with_a_readable_table, &area));
}

/* Rules that were cached while it was good are as good as before. */
TEST_F(added, bad_table_leaves_the_rules_that_are_known)
{
	u64 words[] = { 0, area.code.leaf + 2, 0 };
	uint64_t ips[MAX_IPS];

	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
	spoil_index((u8 *)area.table);
	/* An address that nobody has asked for yet */
	EXPECT_EQ(2, stack_of_words(words, ips));
	EXPECT_TRUE(is_exact(&area.code));
	/* In order again, but given up: the same address still has no rule. */
	memcpy((void *)area.table, build.mem, PAGE);
	EXPECT_EQ(2, stack_of_words(words, ips));
}

/* A function whose rows make no sense ends the walk, and does no harm to others. */
TEST_F(added, bad_function_leaves_the_others)
{
	uint64_t ips[MAX_IPS];
	int i;

	ASSERT_EQ(0, area_add(&area));
	spoil_func((u8 *)area.table, area.code.stub[1]);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(3, stack_of((void *)area.code.top, ips));
		EXPECT_TRUE(up_frames_equal(ips, 3, area.code.ips, 3));
	}
	/* That of this function is remembered, too. */
	memcpy((u8 *)area.table, build.mem, PAGE);
	EXPECT_EQ(3, stack_of((void *)area.code.top, ips));
}

/* New or growing code takes no rule from the cache. */
TEST_F(added, new_code_leaves_cached_rules)
{
	struct code other;
	uint64_t ips[MAX_IPS];
	u8 *mem;
	int i;

	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
	/* From here on, rules that are not in the cache are not found. */
	spoil_func((u8 *)area.table, 0);

	/* A compiler's memory, which grows */
	mem = map_anon(0, 64 * PAGE, PROT_NONE, 0);
	ASSERT_NE(MAP_FAILED, (void *)mem);
	for (i = 0; i < 64; i++) {
		ASSERT_TRUE(code_anew(&other, (unsigned long)mem + i * PAGE));
		EXPECT_LE(1, stack_of((void *)other.top, ips));
		EXPECT_TRUE(is_exact(&area.code));
	}
}

/* More code than is remembered; the kind of table does not matter */
TEST_F(added, very_much_other_code_leaves_it)
{
	uint64_t ips[MAX_IPS];
	struct code other;
	int i;

	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
	for (i = 0; i < 1200 && variant->version == 3; i++) {
		ASSERT_TRUE(code_elsewhere(&other));
		EXPECT_LE(1, stack_of((void *)other.top, ips));
		if (i % 100 == 0)
			EXPECT_TRUE(is_exact(&area.code));
	}
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_EQ(0, remove_table(area.table));
}

/* A table that was given up stays so, also once it is in order again. */
TEST_F(added, child_of_a_fork_does_not_look_at_a_bad_table_again)
{
	u8 *table = (u8 *)area.table;

	ASSERT_EQ(0, area_add(&area));
	spoil_index(table);
	EXPECT_TRUE(is_cut(&area.code));
	memcpy(table, build.mem, PAGE);
	EXPECT_EQ(0, in_child(child_is_without_table, &area));
}

static int child_spoils_its_copy(struct area *area)
{
	spoil_index((u8 *)area->table);
	return is_cut(&area->code) ? 0 : 1;
}

/* The two have different memory, and so different cached state. */
TEST_F(added, child_of_a_fork_that_has_a_bad_table_leaves_that_of_its_parent)
{
	ASSERT_EQ(0, area_add(&area));
	EXPECT_EQ(0, in_child(child_spoils_its_copy, &area));
	EXPECT_TRUE(is_exact(&area.code));
}

static void *thread_is_exact(void *arg)
{
	return (void *)(long)child_is_exact(arg);
}

static void *thread_adds(void *arg)
{
	return (void *)(long)area_add(arg);
}

TEST_F(added, threads_share_it)
{
	pthread_t thread;
	void *ret;

	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_adds, &area));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	ASSERT_EQ(0, (long)ret);
	EXPECT_TRUE(is_exact(&area.code));
	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_is_exact, &area));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(0, (long)ret);
}

/* A page that is split off its mapping, and becomes part of it again */
struct splitter {
	u8 *page;
	int stop;
};

static void *thread_splits(void *arg)
{
	struct splitter *split = arg;

	while (!get_flag(&split->stop)) {
		mprotect(split->page, PAGE, PROT_READ);
		mprotect(split->page, PAGE, PROT_CODE);
	}
	return NULL;
}

/* Does the trace have every frame, unless it says that mappings were changing? */
static bool is_exact_or_changing(const struct code *code)
{
	struct up_rec *rec;
	bool ok = false;

	up_enable(&stack_ring);
	call_code(SYS_getppid, (void *)code->top);
	up_disable(&stack_ring);
	up_drain(&stack_ring);
	rec = up_nth(&stack_ring, UT_RECORD_CALLCHAIN_DEFERRED, 0);
	if (rec && !rec->bad) {
		size_t nr = rec->nr < code->nr_ips ? rec->nr : code->nr_ips;

		ok = up_frames_equal(rec->ips, nr, code->ips, nr) &&
		     (nr == code->nr_ips || UT_MISC_END(rec->misc) == UT_END_CHANGING);
	}
	up_forget(&stack_ring);
	return ok;
}

/* The code below the page was a mapping of its own when it was found. */
TEST_F(added, mapping_that_is_being_split_leaves_it)
{
	u8 *mem = map_anon(0, AREA_SIZE + 2 * PAGE, PROT_CODE, 0);
	struct splitter split = { .page = mem + AREA_SIZE };
	u64 words[] = { 0, (u64)mem + 64, 0, 0 };
	uint64_t ips[MAX_IPS];
	pthread_t thread;
	struct area a;
	int i;

	ASSERT_EQ(0, mprotect(split.page + PAGE, PAGE, PROT_NONE));
	ASSERT_TRUE(area_fill(&a, mem, variant->version, variant->pcrel, true));
	ASSERT_EQ(0, area_add(&a));
	ASSERT_EQ(0, mprotect(split.page, PAGE, PROT_READ));
	words[0] = (u64)&words[2];
	EXPECT_EQ(2, stack_of_words(words, ips));
	ASSERT_EQ(0, mprotect(split.page, PAGE, PROT_CODE));
	EXPECT_TRUE(is_exact(&a.code));

	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_splits, &split));
	for (i = 0; i < 10000 && is_exact_or_changing(&a.code); i++)
		;
	EXPECT_EQ(10000, i);
	set_flag(&split.stop, 1);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_TRUE(is_exact(&a.code));
}

/* The stack of a getppid() in a handler that interrupted the leaf. */
static uint64_t signal_ips[MAX_IPS];
static int signal_nr;

static void on_signal(int sig)
{
	signal_nr = stack_of((void *)area.code.leaf, signal_ips);
}

TEST_F(added, code_interrupted_by_a_signal_is_exact)
{
	struct code *code = &area.code;
	struct itimerspec when = { .it_value.tv_nsec = 50000000 };
	struct sigaction sa = { .sa_handler = on_signal };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	bool found = false;
	timer_t timer;
	int i;

	ASSERT_EQ(0, area_add(&area));
	signal_nr = -1;
	ASSERT_EQ(0, sigaction(SIGUSR1, &sa, NULL));
	/* pause() in the leaf; the interrupted address is after its syscall. */
	ASSERT_EQ(0, timer_create(CLOCK_MONOTONIC, &ev, &timer));
	ASSERT_EQ(0, timer_settime(timer, 0, &when, NULL));
	call_code(SYS_pause, (void *)code->top);

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
/* Changes of mappings							      */

static bool unmap_code(struct area *a)
{
	return !munmap((void *)a->text, PAGE) && map_over(a->text, PAGE, PROT_CODE);
}

static bool unmap_part_of_table(struct area *a)
{
	return !munmap((void *)(a->table_end - PAGE), PAGE);
}

static bool map_over_code(struct area *a)
{
	return map_over(a->text, PAGE, PROT_CODE);
}

static bool move_code_away_and_back(struct area *a)
{
	return move_page(a->text, a->addr + PAGE, 0) && move_page(a->addr + PAGE, a->text, 0);
}

static bool move_contents_of_code(struct area *a)
{
	return mremap((void *)a->text, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP,
		      NULL) != MAP_FAILED;
}

static bool protect_code(struct area *a)
{
	return !mprotect((void *)a->text, PAGE, PROT_READ) &&
	       !mprotect((void *)a->text, PAGE, PROT_READ | PROT_EXEC) &&
	       !mprotect((void *)a->text, PAGE, PROT_CODE);
}

FIXTURE(changed) {};

FIXTURE_VARIANT(changed)
{
	bool (*change)(struct area *a);
};

FIXTURE_VARIANT_ADD(changed, by_unmapping_the_code) { unmap_code };
FIXTURE_VARIANT_ADD(changed, by_unmapping_a_part_of_the_table) { unmap_part_of_table };
FIXTURE_VARIANT_ADD(changed, by_mapping_over_the_code) { map_over_code };
FIXTURE_VARIANT_ADD(changed, by_mapping_over_the_table) { map_over_table };
FIXTURE_VARIANT_ADD(changed, by_moving_the_code_away_and_back) { move_code_away_and_back };
FIXTURE_VARIANT_ADD(changed, by_moving_the_contents_of_the_code) { move_contents_of_code };
FIXTURE_VARIANT_ADD(changed, by_protecting_the_code) { protect_code };

FIXTURE_SETUP(changed)
{
	must_skip(_metadata, need_sframe());
}

FIXTURE_TEARDOWN(changed) {}

/* Before and after its rules are cached */
static void check_changed(struct __test_metadata *_metadata,
			  bool (*change)(struct area *a), unsigned int version, bool pcrel)
{
	int warm;

	for (warm = 0; warm < 2; warm++) {
		ASSERT_TRUE(area_make(&area, version, pcrel, true));
		ASSERT_EQ(0, area_add(&area));
		if (warm)
			EXPECT_TRUE(is_exact(&area.code));
		ASSERT_TRUE(change(&area));
		code_make(&area.code, (u8 *)area.text, area.text, true);
		EXPECT_TRUE(is_exact(&area.code));
		EXPECT_EQ(0, remove_table(area.table));
		EXPECT_TRUE(is_without_table(&area.code));
		munmap(area.mem, AREA_SIZE);
	}
}

/* Anonymous memory is where it was, for code and for the table. */
TEST_F(changed, v2_table_counts_as_before)
{
	check_changed(_metadata, variant->change, 2, false);
}

TEST_F(changed, v2_pcrel_table_counts_as_before)
{
	check_changed(_metadata, variant->change, 2, true);
}

TEST_F(changed, v3_table_counts_as_before)
{
	check_changed(_metadata, variant->change, 3, true);
}

TEST_F(added, code_that_moves_leaves_the_table_behind)
{
	u8 *to = area.mem + PAGE;
	struct code moved;

	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
	ASSERT_TRUE(move_page(area.text, (unsigned long)to, 0));
	code_make(&moved, to, (unsigned long)to, true);
	EXPECT_TRUE(is_without_table(&moved));
	EXPECT_EQ(0, remove_table(area.table));
}

/* Two pages of a file, each with the code at @text */
static int code_file(unsigned long text)
{
	int fd = memfd_create("code", 0);

	if (fd >= 0 && pwrite(fd, (void *)text, PAGE, 0) == PAGE &&
	    pwrite(fd, (void *)text, PAGE, PAGE) == PAGE)
		return fd;
	return -1;
}

static bool map_file(unsigned long text, int fd, off_t offset)
{
	return map_fd(text, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, offset);
}

/* As long as there is a file, also if the process can write to its copy of that */
TEST_F(added, table_for_anonymous_memory_is_not_for_files)
{
	static const struct {
		int prot;
		int flags;
	} kinds[] = {
		{ PROT_READ | PROT_EXEC, MAP_PRIVATE }, { PROT_CODE, MAP_PRIVATE },
		{ PROT_READ | PROT_EXEC, MAP_SHARED }, { PROT_CODE, MAP_SHARED },
	};
	int fd = code_file(area.text);
	unsigned int i;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, area_add(&area));
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		EXPECT_TRUE(stays_exact(&area.code));
		ASSERT_TRUE(map_fd(area.text, PAGE, kinds[i].prot, kinds[i].flags, fd, 0));
		EXPECT_TRUE(stays_without_table(&area.code)) {
			TH_LOG("kind %u", i);
		}
		ASSERT_TRUE(code_anew(&area.code, area.text));
		EXPECT_TRUE(stays_exact(&area.code)) {
			TH_LOG("kind %u", i);
		}
	}
	EXPECT_EQ(0, remove_table(area.table));
}

TEST_F(added, table_for_a_file_is_for_that_place_in_that_file)
{
	int fd = code_file(area.text), other = code_file(area.text);

	ASSERT_LE(0, fd);
	ASSERT_LE(0, other);
	ASSERT_TRUE(map_file(area.text, fd, 0));
	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(stays_exact(&area.code));
	/* Another file, another place, no file, nothing */
	ASSERT_TRUE(map_file(area.text, other, 0));
	EXPECT_TRUE(stays_without_table(&area.code));
	ASSERT_TRUE(map_file(area.text, fd, PAGE));
	EXPECT_TRUE(stays_without_table(&area.code));
	ASSERT_TRUE(code_anew(&area.code, area.text));
	EXPECT_TRUE(stays_without_table(&area.code));
	ASSERT_EQ(0, munmap((void *)area.text, PAGE));
	/* And the old file by another descriptor */
	close(other);
	other = dup(fd);
	close(fd);
	ASSERT_TRUE(map_file(area.text, other, 0));
	EXPECT_TRUE(stays_exact(&area.code));
	EXPECT_EQ(0, remove_table(area.table));
	EXPECT_TRUE(stays_without_table(&area.code));
}

/* Of several mappings each counts by itself. */
TEST_F(added, code_of_which_a_part_is_something_else)
{
	unsigned long text = area.text + PAGE;
	struct code second;
	int fd;

	second_code(&second, text, variant->version, variant->pcrel);
	ASSERT_EQ(0, add_table(area.table, area.table_end, area.text, second.end));
	EXPECT_TRUE(stays_exact(&area.code));
	EXPECT_TRUE(stays_exact(&second));
	fd = code_file(text);
	ASSERT_LE(0, fd);
	ASSERT_TRUE(map_file(text, fd, 0));
	EXPECT_TRUE(stays_exact(&area.code));
	EXPECT_TRUE(stays_without_table(&second));
	EXPECT_TRUE(stays_exact(&area.code));
	ASSERT_TRUE(code_anew(&second, text));
	EXPECT_TRUE(stays_exact(&second));
	EXPECT_TRUE(stays_exact(&area.code));
}

TEST_HARNESS_MAIN
