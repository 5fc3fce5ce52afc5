// SPDX-License-Identifier: GPL-2.0
/*
 * The walker: which frames come out of a user stack by frame pointers, one by one,
 * however malformed it is, and however it changes during the walk.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>

#include "slow_page.h"
#include "walker.h"
#include "unwind_harness.h"

FIXTURE(walk)
{
};

FIXTURE_SETUP(walk)
{
	if (must_skip(_metadata, need_walker()))
		return;
	ASSERT_TRUE(walk_begin());
}

FIXTURE_TEARDOWN(walk)
{
	walk_end();
}

/* ------------------------------------------------------------------------ */
/* Well-formed stacks							    */

TEST_F(walk, frames_of_a_plain_stack_are_found)
{
	want(A(stub_plain_ip));
	want_frames(0, 5);
	EXPECT_TRUE(stub_is_wanted(stub_plain, build(walk.fp, 5)));
}

/* ------------------------------------------------------------------------ */
/* The end of a stack							    */

/* A walk that ends at an outermost frame, in the misc of a record */
#define OUTERMOST	_BITUL(13)

/* Two frames; the second has a frame pointer of 0, or a return address of 0 after it. */
static bool ends_at(unsigned long ra, bool return_to_0, bool outermost)
{
	unsigned long second = walk.fp + 4 * W;
	struct probe p = probe_of(stub_plain, walk.sp, walk.fp, NR_GETPPID);
	struct up_rec *rec;

	put_frame(walk.fp, second, RA(0));
	put_frame(second, return_to_0 ? second + 4 * W : 0, ra);
	put_frame(second + 4 * W, 0, 0);
	want_nothing();
	want(A(stub_plain_ip));
	want(RA(0));
	want(ra);
	rec = sample(&p);
	if (!is_wanted(rec) || !(rec->misc & OUTERMOST) == outermost)
		return false;
	/* Only frame pointers are believed here. */
	return !outermost || UT_MISC_END(rec->misc) == UT_END_UNCHECKED;
}

/* Frame pointers lead to the outermost frame only if the program begins there. */
TEST_F(walk, stack_is_complete_where_the_program_begins)
{
	unsigned long entry = getauxval(AT_ENTRY);
	int i;

	if (must_skip(_metadata, need_deferral()))
		return;
	for (i = 0; i < 2; i++) {
		EXPECT_TRUE(ends_at(entry, i, true));
		EXPECT_TRUE(ends_at(entry + 63, i, true));
		EXPECT_TRUE(ends_at(entry + 64, i, false));
		EXPECT_TRUE(ends_at(entry - 1, i, false));
		EXPECT_TRUE(ends_at(RA(1), i, false));
	}
}

TEST_F(walk, calls_made_for_real_are_found)
{
	struct probe p = probe_of(stub_call, walk.sp, build(walk.fp, 2), NR_GETPPID);
	struct up_rec *rec;

	p.args[0] = A(outer_fn);
	rec = sample(&p);
	ASSERT_NE(0, A(rec));
	want(A(inner_fn_ip));
	want(A(middle_fn_ret));
	want(A(outer_fn_ret));
	want(A(stub_call_ret));
	want_frames(0, 2);
	EXPECT_TRUE(is_wanted(rec));
}

TEST_F(walk, recursion_gives_a_frame_a_call)
{
	struct probe p = probe_of(stub_call, walk.sp, build(walk.fp, 1), NR_GETPPID);
	struct up_rec *rec;
	int i;

	p.args[0] = A(recurse_fn);
	p.args[1] = 100;
	rec = sample(&p);
	ASSERT_NE(0, A(rec));
	want(A(recurse_fn_ip));
	for (i = 0; i < 100; i++)
		want(A(recurse_fn_ret));
	want(A(stub_call_ret));
	want_frames(0, 1);
	EXPECT_TRUE(is_wanted(rec));
}

TEST_F(walk, frame_at_the_stack_pointer_is_found)
{
	want(A(stub_plain_ip));
	want_frames(0, 1);
	EXPECT_TRUE(stub_is_wanted(stub_plain, build(walk.sp, 1)));
}

TEST_F(walk, no_frame_pointer_gives_the_topmost_address_alone)
{
	want(A(stub_plain_ip));
	EXPECT_TRUE(stub_is_wanted(stub_plain, 0));
}

TEST_F(walk, stack_of_509_callers_is_complete)
{
	want(A(stub_plain_ip));
	want_frames(0, 509);
	EXPECT_TRUE(stub_is_wanted(stub_plain, build(walk.fp, 509)));
}

TEST_F(walk, deeper_stack_is_cut_at_510_entries)
{
	if (must_skip(_metadata, need_deferral()))
		return;
	want(A(stub_plain_ip));
	want_frames(0, UT_MAX_ENTRIES - 1);
	EXPECT_TRUE(stub_is_wanted(stub_plain, build(walk.fp, 3000)));
}

TEST_F(walk, frames_far_apart_are_found)
{
	unsigned long fp = walk.fp;
	int i;

	want(A(stub_plain_ip));
	for (i = 0; i < 8; i++, fp += 9 * PAGE + 2 * W) {
		put_frame(fp, i == 7 ? 0 : fp + 9 * PAGE + 2 * W, RA(i));
		want(RA(i));
	}
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

TEST_F(walk, frame_across_a_page_boundary_is_found)
{
	unsigned long fp = walk.stack + STACK_SIZE / 2 + 2 * PAGE - W;

	put_frame(fp, 0, RA(0));
	want(A(stub_plain_ip));
	want_frames(0, 1);
	EXPECT_TRUE(stub_is_wanted(stub_plain, fp));
}

/*
 * Addresses that look special interrupt the fast path. Wherever that happens,
 * the trace must not get longer than the room it has. (The memory after that room
 * belongs to somebody else: KASAN notices.)
 */
TEST_F(walk, deeper_stack_with_a_false_restorer_is_cut_at_510_entries)
{
	int at;

	if (must_skip(_metadata, need_deferral()))
		return;
	build(walk.fp, 3000);
	want(A(stub_plain_ip));
	want_frames(0, UT_MAX_ENTRIES - 1);
	for (at = 490; at < 520; at++) {
		ASSERT_EQ(0, raw_sigaction(SIGUSR2, handler_probe, SA_SIGINFO,
					   (void *)RA(at)));
		EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	}
}

/* ------------------------------------------------------------------------ */
/* Malformed stacks							    */

TEST_F(walk, frame_pointing_to_itself_ends_the_walk)
{
	put_frame(walk.fp, walk.fp, RA(0));
	want(A(stub_plain_ip));
	want_frames(0, 1);
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

TEST_F(walk, loop_of_two_frames_ends_the_walk)
{
	put_frame(walk.fp, walk.fp + 4 * W, RA(0));
	put_frame(walk.fp + 4 * W, walk.fp, RA(1));
	want(A(stub_plain_ip));
	want_frames(0, 2);
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

TEST_F(walk, descending_frames_end_the_walk)
{
	put_frame(walk.fp, walk.fp - 4 * W, RA(0));
	put_frame(walk.fp - 4 * W, 0, RA(1));
	want(A(stub_plain_ip));
	want_frames(0, 1);
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

TEST_F(walk, overlapping_frames_end_the_walk)
{
	put(walk.fp, walk.fp + W);
	put(walk.fp + W, walk.fp + 8 * W);
	put(walk.fp + 2 * W, RA(1));
	want(A(stub_plain_ip));
#ifndef __x86_64__
	/* 64-bit code is looked for, and not found. */
	want(walk.fp + 8 * W);
#endif
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

TEST_F(walk, frame_pointer_below_the_stack_pointer_is_not_followed)
{
	put_frame(walk.sp - 4 * W, 0, RA(0));
	want(A(stub_plain_ip));
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.sp - 4 * W));
}

TEST_F(walk, unaligned_frame_pointers_end_the_walk)
{
	unsigned int i;

	for (i = 1; i < W; i++) {
		memset((void *)walk.fp, 0, 64 * W);
		put_frame(walk.fp + i, 0, RA(7));
		want_nothing();
		want(A(stub_plain_ip));
		EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp + i));

		/* One frame further */
		put_frame(walk.fp + 8 * W + i, 0, RA(7));
		put_frame(walk.fp, walk.fp + 8 * W + i, RA(0));
		want_frames(0, 1);
		EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	}
}

TEST_F(walk, unmapped_frame_pointer_ends_the_walk)
{
	unsigned long hole = walk.stack + STACK_SIZE - 4 * PAGE;

	ASSERT_EQ(0, munmap((void *)hole, PAGE));
	want(A(stub_plain_ip));
	EXPECT_TRUE(stub_is_wanted(stub_plain, hole + 64));

	put_frame(walk.fp, hole + 64, RA(0));
	want_frames(0, 1);
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

TEST_F(walk, unreadable_frame_pointer_ends_the_walk)
{
	unsigned long page = walk.stack + STACK_SIZE - 4 * PAGE;

	put_frame(page + 64, 0, RA(9));
	ASSERT_EQ(0, mprotect((void *)page, PAGE, PROT_NONE));
	put_frame(walk.fp, page + 64, RA(0));
	want(A(stub_plain_ip));
	want_frames(0, 1);
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

TEST_F(walk, frame_cut_by_an_unmapped_page_ends_the_walk)
{
	unsigned long hole = walk.stack + STACK_SIZE - 4 * PAGE;

	ASSERT_EQ(0, munmap((void *)hole, PAGE));
	put(hole - W, hole + 2 * PAGE);
	want(A(stub_plain_ip));
	EXPECT_TRUE(stub_is_wanted(stub_plain, hole - W));
}

TEST_F(walk, frame_past_a_file_s_end_ends_the_walk)
{
	int fd = syscall(SYS_memfd_create, "short", 0);
	unsigned long page = walk.stack + STACK_SIZE - 4 * PAGE;

	ASSERT_LE(0, fd);
	ASSERT_EQ(page, A(mmap((void *)page, PAGE, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_FIXED, fd, 0)));
	put_frame(walk.fp, page, RA(0));
	want(A(stub_plain_ip));
	want_frames(0, 1);
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

#ifdef __x86_64__
static const uint64_t bad_addresses[] = {
	/* Kernel half */
	0xffffffff81000000, 0xffff888000000000, 0xffff800000000000,
	0xffffffffff600000,
	/* PERF_CONTEXT_HV, _KERNEL, _USER, _USER_DEFERRED, _GUEST, _MAX */
	(uint64_t)-32, (uint64_t)-128, (uint64_t)-512, (uint64_t)-640,
	(uint64_t)-2048, (uint64_t)-4095,
	(uint64_t)-1, (uint64_t)-8, (uint64_t)-16,
	/* Not canonical, not even with five levels of page tables */
	0x0100000000000000, 0x8000000000000000, 0x7fffffffffffffff,
	0xfeffffffffffffff, 0x0123456789abcdef,
};

TEST_F(walk, bad_return_address_is_not_stored)
{
	unsigned int i;

	want(A(stub_plain_ip));
	want_frames(0, 1);
	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		put_frame(walk.fp, walk.fp + 4 * W, RA(0));
		put_frame(walk.fp + 4 * W, walk.fp + 8 * W, bad_addresses[i]);
		put_frame(walk.fp + 8 * W, 0, RA(2));
		EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	}
}

TEST_F(walk, first_address_after_user_space_is_not_stored)
{
	want(A(stub_plain_ip));
	want_frames(0, 1);
	put_frame(walk.fp, walk.fp + 4 * W, RA(0));
	put_frame(walk.fp + 4 * W, walk.fp + 8 * W, walk.user_end);
	put_frame(walk.fp + 8 * W, 0, RA(2));
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));

	/* Found by another method */
	put_frame(walk.fp, walk.fp + 4 * W, walk.user_end);
	walk.want.nr = 1;
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

#ifndef __x86_64__
/* 64-bit code there would have to be mapped. */
TEST_F(walk, last_address_of_user_space_is_stored)
{
	want(A(stub_plain_ip));
	want(walk.user_end - 1);
	put_frame(walk.fp, 0, walk.user_end - 1);
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}
#endif

/* It is no caller, and the words there are of no frame. 32-bit code is not checked. */
TEST_F(walk, address_that_is_no_code_ends_the_walk)
{
	want(A(stub_plain_ip));
	want(RA(0));
#ifndef __x86_64__
	want(NO_CODE);
#endif
	put_frame(walk.fp, walk.fp + 4 * W, RA(0));
	put_frame(walk.fp + 4 * W, walk.fp + 8 * W, NO_CODE);
	put_frame(walk.fp + 8 * W, 0, RA(1));
#ifndef __x86_64__
	want(RA(1));
#endif
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

/* The kernel's own addresses of this very stack would look like frames. */
TEST_F(walk, frames_in_the_kernels_mapping_of_the_stack_are_not_followed)
{
	uint64_t frame;
	int i, j;

	put_frame(walk.stack, 0, RA(100));
	frame = kernel_alias(walk.stack);
	ASSERT_NE(0, frame);

	/* As the frame pointer, and after so many frames */
	want(A(stub_plain_ip));
	EXPECT_TRUE(stub_is_wanted(stub_plain, frame));
	for (i = 1; i <= 10; i++) {
		for (j = 0; j < i; j++)
			put_frame(walk.fp + 4 * W * j,
				  j == i - 1 ? frame : walk.fp + 4 * W * (j + 1), RA(j));
		walk.want.nr = 1;
		want_frames(0, i);
		EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	}
}

TEST_F(walk, bad_frame_pointer_is_not_followed)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		want_nothing();
		want(A(stub_plain_ip));
		EXPECT_TRUE(stub_is_wanted(stub_plain, bad_addresses[i]));

		put_frame(walk.fp, bad_addresses[i], RA(0));
		want_frames(0, 1);
		EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	}
}

/* At a function's start the bad word is at the top of the stack. */
TEST_F(walk, bad_return_address_of_a_function_at_its_push_is_not_stored)
{
	unsigned int i;
	uint64_t j;
	size_t wrong = 0;

	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		struct probe p = probe_of(stub_push, walk.sp, build(walk.fp, 2),
					  NR_GETPPID);
		struct up_rec *rec;

		put(walk.sp, bad_addresses[i]);
		rec = sample(&p);
		ASSERT_NE(0, A(rec));
		ASSERT_LT(0, rec->nr);
		EXPECT_EQ(A(stub_push_ip), rec->ips[0]);
		for (j = 0; j < rec->nr; j++)
			wrong += rec->ips[j] >= walk.user_end;
		EXPECT_EQ(0, wrong);
	}
}
#else
/* Addresses the kernel keeps for itself even in a compat task. */
TEST_F(walk, compat_frame_pointer_at_the_top_of_the_address_space_is_not_followed)
{
	static const uint32_t bad[] = { -1, -4, -8, -512, -640, 0xffffe000, 0xfffffffc };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		want_nothing();
		want(A(stub_plain_ip));
		EXPECT_TRUE(stub_is_wanted(stub_plain, bad[i]));

		put_frame(walk.fp, bad[i], RA(0));
		want_frames(0, 1);
		EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	}
}
#endif

struct storm {
	unsigned long fp;
	bool stop;
};

static bool storm_ends(struct storm *storm)
{
	return __atomic_load_n(&storm->stop, __ATOMIC_RELAXED);
}

static void end_storm(struct storm *storm)
{
	__atomic_store_n(&storm->stop, true, __ATOMIC_RELAXED);
}

/* Return addresses and frame pointers of every kind, for ever changing. */
static void *storm_thread(void *data)
{
	struct storm *storm = data;
	uint64_t x = 88172645463325252ULL;

	while (!storm_ends(storm)) {
		unsigned long fp = storm->fp + (x >> 8) % 64 * 2 * W;
		word next, ra;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		next = x & 1 ? storm->fp + (x >> 16) % 64 * 2 * W : (word)x;
		ra = x & 2 ? RA(x % 97) : (word)~x;
		if (x & 4)
			ra = (word)-640;
		put_frame(fp, next, ra);
	}
	return NULL;
}

TEST_F(walk, stack_changing_under_the_walk_gives_user_addresses_only)
{
	struct storm storm = { .fp = walk.fp };
	struct probe p = probe_of(stub_plain, walk.sp, walk.fp, NR_GETPPID);
	size_t n, i, records = 0;
	pthread_t thread;
	uint64_t j;
	size_t wrong = 0;

	build(walk.fp, 64);
	ASSERT_EQ(0, pthread_create(&thread, NULL, storm_thread, &storm));
	ASSERT_EQ(0, up_enable(&walk.ring));
	for (n = 0; n < 20; n++) {
		for (i = 0; i < 200; i++)
			probe_at(&p);
		up_drain(&walk.ring);
		EXPECT_EQ(0, up_count_bad(&walk.ring));
		EXPECT_EQ(0, up_count_lost(&walk.ring));
		EXPECT_EQ(200, up_count(&walk.ring, PERF_RECORD_SAMPLE));
		EXPECT_EQ(200, up_count(&walk.ring, UP_STACKS));
		for (i = 0; i < walk.ring.nr_recs; i++) {
			struct up_rec *rec = &walk.ring.recs[i];

			if (rec->type != PERF_RECORD_SAMPLE)
				continue;
			rec = up_answer(&walk.ring, rec);
			ASSERT_NE(NULL, rec);
			records++;
			ASSERT_LT(0, rec->nr);
			ASSERT_GE(UT_MAX_ENTRIES, rec->nr);
			ASSERT_EQ(A(stub_plain_ip), rec->ips[0]);
			for (j = 0; j < rec->nr; j++)
				wrong += rec->ips[j] >= walk.user_end;
			ASSERT_EQ(0, wrong);
		}
		up_forget(&walk.ring);
	}
	EXPECT_EQ(4000, records);
	ASSERT_EQ(0, up_disable(&walk.ring));
	end_storm(&storm);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

static void *unmap_thread(void *data)
{
	struct storm *storm = data;

	while (!storm_ends(storm)) {
		mprotect((void *)storm->fp, PAGE, PROT_NONE);
		mprotect((void *)storm->fp, PAGE, PROT_READ);
	}
	return NULL;
}

/* The page is there or it is not, so there are two possible traces. */
TEST_F(walk, page_vanishing_under_the_walk_gives_a_shorter_trace)
{
	unsigned long page = walk.stack + STACK_SIZE - 4 * PAGE;
	struct storm storm = { .fp = page };
	struct probe p;
	pthread_t thread;
	size_t i;

	build(page, 5);
	put_frame(walk.fp, page, RA(50));
	want(A(stub_plain_ip));
	want(RA(50));
	want_frames(0, 5);
	p = probe_of(stub_plain, walk.sp, walk.fp, NR_GETPPID);
	ASSERT_EQ(0, pthread_create(&thread, NULL, unmap_thread, &storm));
	for (i = 0; i < 500; i++) {
		struct up_rec *rec = sample(&p);

		ASSERT_NE(0, A(rec));
		/* In place, nothing is known of the code while mappings change. */
		ASSERT_LE(in_place ? 1 : 2, rec->nr);
		ASSERT_GE(walk.want.nr, rec->nr);
		ASSERT_TRUE(up_frames_equal(rec->ips, rec->nr, walk.want.ips, rec->nr));
	}
	end_storm(&storm);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

/* ------------------------------------------------------------------------ */
/* Stack pages that are not there					    */

/* The deferred trace is whole where the one taken in place is short. */
TEST_F(walk, dropped_stack_pages_are_faulted_in)
{
	struct up_ring in_place;
	unsigned long fp, first;
	struct up_rec *rec;
	struct probe p;
	int i;

	if (must_skip(_metadata, need_deferral()))
		return;
	ASSERT_EQ(0, open_syscall_event(&in_place, NR_GETPPID, 0));
	ASSERT_TRUE(stack_from_file());
	first = walk.sp + PAGE - W;
	want(A(stub_plain_ip));
	for (i = 0, fp = first; i < 6; i++, fp += 3 * PAGE) {
		put_frame(fp, i == 5 ? 0 : fp + 3 * PAGE, RA(i));
		want(RA(i));
	}
	ASSERT_EQ(0, madvise((void *)walk.stack, STACK_SIZE, MADV_DONTNEED));
	p = probe_of(stub_plain, walk.sp, first, NR_GETPPID);
	ASSERT_EQ(0, up_enable(&in_place));
	EXPECT_TRUE(sample_is_wanted(&p));
	up_disable(&in_place);
	up_drain(&in_place);
	ASSERT_EQ(1, up_count(&in_place, PERF_RECORD_SAMPLE));
	rec = up_nth(&in_place, PERF_RECORD_SAMPLE, 0);
	ASSERT_TRUE(rec->has_user);
	EXPECT_EQ(1, rec->nr_user);
	up_close(&in_place);
}

TEST_F(walk, never_touched_stack_pages_are_faulted_in)
{
	word frame[2] = { 0, RA(3) };
	unsigned long page;
	struct probe p;
	int fd;

	if (must_skip(_metadata, need_deferral()))
		return;
	fd = syscall(SYS_memfd_create, "stack", 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, STACK_SIZE));
	ASSERT_EQ(sizeof(frame), pwrite(fd, frame, sizeof(frame), 64 * PAGE));
	page = A(mmap(NULL, STACK_SIZE, PROT_READ, MAP_PRIVATE, fd, 0));
	ASSERT_NE(A(MAP_FAILED), page);
	put_frame(walk.fp, page + 64 * PAGE, RA(0));
	want(A(stub_plain_ip));
	want(RA(0));
	if (page > walk.stack)
		want(RA(3));
	p = probe_of(stub_plain, walk.sp, walk.fp, NR_GETPPID);
	EXPECT_TRUE(sample_is_wanted(&p));
	close(fd);
}

static void *supply(void *data)
{
	if (slow_page_is_asked_for(data))
		slow_page_supply(data);
	return NULL;
}

TEST_F(walk, page_that_the_kernel_reads_is_waited_for)
{
	unsigned long page = walk.stack + STACK_SIZE - 4 * PAGE;
	static word contents[PAGE / sizeof(word)];
	struct slow_disk disk;
	pthread_t thread;
	struct probe p;

	if (must_skip(_metadata, need_deferral()))
		return;
	if (must_skip(_metadata, need_slow_disk()))
		return;
	contents[0] = 0;
	contents[1] = RA(7);
	put_frame(walk.fp, page, RA(0));
	ASSERT_TRUE(slow_page_map(&disk, (void *)page, contents));
	want(A(stub_plain_ip));
	want(RA(0));
	want(RA(7));
	p = probe_of(stub_plain, walk.sp, walk.fp, NR_GETPPID);
	ASSERT_EQ(0, pthread_create(&thread, NULL, supply, &disk));
	EXPECT_TRUE(sample_is_wanted(&p));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(1, disk.asked);
}

/* The walk waits for a page that never comes, until the task is killed. */
TEST_F(walk, walk_that_waits_for_a_page_can_be_killed)
{
	unsigned long page = walk.stack + STACK_SIZE - 4 * PAGE;
	struct perf_event_attr attr;
	struct slow_disk disk;
	struct up_rec *rec;
	int status, go[2];
	pid_t pid;

	if (must_skip(_metadata, need_deferral()))
		return;
	if (must_skip(_metadata, need_slow_disk()))
		return;
	put_frame(walk.fp, page, RA(0));
	ASSERT_TRUE(slow_page_map(&disk, (void *)page, NULL));
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct probe p = probe_of(stub_plain, walk.sp, walk.fp, NR_GETPPID);
		char c;

		if (read(go[0], &c, 1) != 1)
			_exit(1);
		probe_at(&p);
		_exit(2);
	}
	up_close(&walk.ring);
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"), DEFER);
	attr.exclude_callchain_kernel = 1;
	ASSERT_EQ(0, up_open(&walk.ring, &attr, pid, -1, -1));
	ASSERT_TRUE(set_filter(walk.ring.fd, NR_GETPPID));
	ASSERT_EQ(0, up_enable(&walk.ring));
	ASSERT_EQ(1, write(go[1], "x", 1));
	EXPECT_TRUE(slow_page_is_asked_for(&disk));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGKILL, WTERMSIG(status));
	up_drain(&walk.ring);
	want(A(stub_plain_ip));
	want(RA(0));
	rec = only_answer(&walk.ring);
	ASSERT_TRUE(is_wanted(rec));
	EXPECT_EQ(PERF_RECORD_MISC_USER | 6 << 8, rec->misc);
}

TEST_HARNESS_MAIN
