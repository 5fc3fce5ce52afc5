// SPDX-License-Identifier: GPL-2.0
/*
 * The walker: which frames come out of a user stack by frame pointers, one by one,
 * however malformed it is, and however it changes during the walk.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>

#include "slow_page.h"
#include "walker_fixture.h"

/* A page of its own in the stack, some way after the first frame */
static unsigned long stack_page(void)
{
	return walk.stack + STACK_SIZE - 4 * PAGE;
}

/* ------------------------------------------------------------------------ */
/* Well-formed stacks							    */

TEST_F(walk, frames_of_a_plain_stack_are_found)
{
	EXPECT_TRUE(plain_has_frames(build(walk.fp, 5), 5));
}

/* ------------------------------------------------------------------------ */
/* The end of a stack							    */

/* Two frames; the second has a frame pointer of 0, or a return address of 0 after it. */
static bool ends_at(unsigned long ra, bool return_to_0, bool outermost)
{
	unsigned long second = walk.fp + 4 * W;
	struct probe p = probe_of(stub_plain, walk.sp, walk.fp, NR_GETPPID);
	struct up_rec *rec;

	put_frame(walk.fp, second, RA(0));
	put_frame(second, return_to_0 ? second + 4 * W : 0, ra);
	put_frame(second + 4 * W, 0, 0);
	WANT(A(stub_plain_ip), RA(0), ra);
	rec = sample(&p);
	if (!is_wanted(rec) || !(rec->misc & UT_MISC_OUTERMOST) == outermost)
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

	p.args[0] = A(outer_fn);
	WANT(A(inner_fn_ip), A(middle_fn_ret), A(outer_fn_ret), A(stub_call_ret));
	want_frames(0, 2);
	EXPECT_TRUE(sample_is_wanted(&p));
}

TEST_F(walk, recursion_gives_a_frame_a_call)
{
	struct probe p = probe_of(stub_call, walk.sp, build(walk.fp, 1), NR_GETPPID);
	int i;

	p.args[0] = A(recurse_fn);
	p.args[1] = 100;
	WANT(A(recurse_fn_ip));
	for (i = 0; i < 100; i++)
		want(A(recurse_fn_ret));
	want(A(stub_call_ret));
	want_frames(0, 1);
	EXPECT_TRUE(sample_is_wanted(&p));
}

TEST_F(walk, frame_at_the_stack_pointer_is_found)
{
	EXPECT_TRUE(plain_has_frames(build(walk.sp, 1), 1));
}

TEST_F(walk, no_frame_pointer_gives_the_topmost_address_alone)
{
	EXPECT_TRUE(plain_has_frames(0, 0));
}

TEST_F(walk, stack_of_509_callers_is_complete)
{
	EXPECT_TRUE(plain_has_frames(build(walk.fp, 509), 509));
}

TEST_F(walk, deeper_stack_is_cut_at_510_entries)
{
	if (must_skip(_metadata, need_deferral()))
		return;
	EXPECT_TRUE(plain_has_frames(build(walk.fp, 3000), UT_MAX_ENTRIES - 1));
}

TEST_F(walk, frames_far_apart_are_found)
{
	const unsigned long apart = 9 * PAGE + 2 * W;
	unsigned long fp = walk.fp;
	int i;

	for (i = 0; i < 8; i++, fp += apart)
		put_frame(fp, i == 7 ? 0 : fp + apart, RA(i));
	EXPECT_TRUE(plain_has_frames(walk.fp, 8));
}

TEST_F(walk, frame_across_a_page_boundary_is_found)
{
	unsigned long fp = walk.stack + STACK_SIZE / 2 + 2 * PAGE - W;

	put_frame(fp, 0, RA(0));
	EXPECT_TRUE(plain_has_frames(fp, 1));
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
	for (at = 490; at < 520; at++) {
		ASSERT_EQ(0, raw_sigaction(SIGUSR2, handler_probe, SA_SIGINFO,
					   (void *)RA(at)));
		EXPECT_TRUE(plain_has_frames(walk.fp, UT_MAX_ENTRIES - 1));
	}
}

/* ------------------------------------------------------------------------ */
/* Malformed stacks							    */

TEST_F(walk, frame_pointing_to_itself_ends_the_walk)
{
	put_frame(walk.fp, walk.fp, RA(0));
	EXPECT_TRUE(plain_has_frames(walk.fp, 1));
}

TEST_F(walk, loop_of_two_frames_ends_the_walk)
{
	put_frame(walk.fp, walk.fp + 4 * W, RA(0));
	put_frame(walk.fp + 4 * W, walk.fp, RA(1));
	EXPECT_TRUE(plain_has_frames(walk.fp, 2));
}

TEST_F(walk, descending_frames_end_the_walk)
{
	put_frame(walk.fp, walk.fp - 4 * W, RA(0));
	put_frame(walk.fp - 4 * W, 0, RA(1));
	EXPECT_TRUE(plain_has_frames(walk.fp, 1));
}

TEST_F(walk, overlapping_frames_end_the_walk)
{
	put(walk.fp, walk.fp + W);
	put(walk.fp + W, walk.fp + 8 * W);
	put(walk.fp + 2 * W, RA(1));
	WANT(A(stub_plain_ip));
#ifndef __x86_64__
	/* 64-bit code is looked for, and not found. */
	want(walk.fp + 8 * W);
#endif
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

TEST_F(walk, frame_pointer_below_the_stack_pointer_is_not_followed)
{
	put_frame(walk.sp - 4 * W, 0, RA(0));
	EXPECT_TRUE(plain_has_frames(walk.sp - 4 * W, 0));
}

TEST_F(walk, unaligned_frame_pointers_end_the_walk)
{
	unsigned int i;

	for (i = 1; i < W; i++) {
		memset((void *)walk.fp, 0, 64 * W);
		put_frame(walk.fp + i, 0, RA(7));
		EXPECT_TRUE(plain_has_frames(walk.fp + i, 0));

		/* One frame further */
		put_frame(walk.fp + 8 * W + i, 0, RA(7));
		put_frame(walk.fp, walk.fp + 8 * W + i, RA(0));
		EXPECT_TRUE(plain_has_frames(walk.fp, 1));
	}
}

TEST_F(walk, unmapped_frame_pointer_ends_the_walk)
{
	unsigned long hole = stack_page();

	ASSERT_EQ(0, munmap((void *)hole, PAGE));
	EXPECT_TRUE(plain_has_frames(hole + 64, 0));

	put_frame(walk.fp, hole + 64, RA(0));
	EXPECT_TRUE(plain_has_frames(walk.fp, 1));
}

TEST_F(walk, unreadable_frame_pointer_ends_the_walk)
{
	unsigned long page = stack_page();

	put_frame(page + 64, 0, RA(9));
	ASSERT_EQ(0, mprotect((void *)page, PAGE, PROT_NONE));
	put_frame(walk.fp, page + 64, RA(0));
	EXPECT_TRUE(plain_has_frames(walk.fp, 1));
}

TEST_F(walk, frame_cut_by_an_unmapped_page_ends_the_walk)
{
	unsigned long hole = stack_page();

	ASSERT_EQ(0, munmap((void *)hole, PAGE));
	put(hole - W, hole + 2 * PAGE);
	EXPECT_TRUE(plain_has_frames(hole - W, 0));
}

TEST_F(walk, frame_past_a_file_s_end_ends_the_walk)
{
	int fd = syscall(SYS_memfd_create, "short", 0);
	unsigned long page = stack_page();

	ASSERT_LE(0, fd);
	ASSERT_EQ(page, A(mmap((void *)page, PAGE, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_FIXED, fd, 0)));
	put_frame(walk.fp, page, RA(0));
	EXPECT_TRUE(plain_has_frames(walk.fp, 1));
}

/* First @ip, then user addresses only */
static void check_addresses(struct __test_metadata *_metadata, const struct up_rec *rec,
			    const char *ip)
{
	size_t i, wrong = 0;

	ASSERT_NE(0, A(rec));
	ASSERT_LT(0, rec->nr);
	ASSERT_GE(UT_MAX_ENTRIES, rec->nr);
	ASSERT_EQ(A(ip), rec->ips[0]);
	for (i = 0; i < rec->nr; i++)
		wrong += rec->ips[i] >= walk.user_end;
	ASSERT_EQ(0, wrong);
}

/* Three frames, of which the second returns to @ra */
static void put_second(word ra)
{
	put_frame(walk.fp, walk.fp + 4 * W, RA(0));
	put_frame(walk.fp + 4 * W, walk.fp + 8 * W, ra);
	put_frame(walk.fp + 8 * W, 0, RA(2));
}

/* It is no caller, and the words there are of no frame. 32-bit code is not checked. */
TEST_F(walk, address_that_is_no_code_ends_the_walk)
{
	put_second(NO_CODE);
	WANT(A(stub_plain_ip), RA(0));
#ifndef __x86_64__
	want(NO_CODE);
	want(RA(2));
#endif
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

	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		put_second(bad_addresses[i]);
		EXPECT_TRUE(plain_has_frames(walk.fp, 1));
	}
}

TEST_F(walk, first_address_after_user_space_is_not_stored)
{
	put_second(walk.user_end);
	EXPECT_TRUE(plain_has_frames(walk.fp, 1));

	/* Found by another method */
	put_frame(walk.fp, walk.fp + 4 * W, walk.user_end);
	EXPECT_TRUE(plain_has_frames(walk.fp, 0));
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
	EXPECT_TRUE(plain_has_frames(frame, 0));
	for (i = 1; i <= 10; i++) {
		for (j = 0; j < i; j++)
			put_frame(walk.fp + 4 * W * j,
				  j == i - 1 ? frame : walk.fp + 4 * W * (j + 1), RA(j));
		EXPECT_TRUE(plain_has_frames(walk.fp, i));
	}
}

TEST_F(walk, bad_frame_pointer_is_not_followed)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		EXPECT_TRUE(plain_has_frames(bad_addresses[i], 0));
		put_frame(walk.fp, bad_addresses[i], RA(0));
		EXPECT_TRUE(plain_has_frames(walk.fp, 1));
	}
}

/* At a function's start the bad word is at the top of the stack. */
TEST_F(walk, bad_return_address_of_a_function_at_its_push_is_not_stored)
{
	struct probe p = probe_of(stub_push, walk.sp, build(walk.fp, 2), NR_GETPPID);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		put(walk.sp, bad_addresses[i]);
		check_addresses(_metadata, sample(&p), stub_push_ip);
	}
}
#else
/* Addresses the kernel keeps for itself even in a compat task. */
TEST_F(walk, compat_frame_pointer_at_the_top_of_the_address_space_is_not_followed)
{
	static const uint32_t bad[] = { -1, -4, -8, -512, -640, 0xffffe000, 0xfffffffc };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_TRUE(plain_has_frames(bad[i], 0));
		put_frame(walk.fp, bad[i], RA(0));
		EXPECT_TRUE(plain_has_frames(walk.fp, 1));
	}
}
#endif

struct storm {
	unsigned long fp;
	int stop;
};

/* Return addresses and frame pointers of every kind, for ever changing. */
static void *storm_thread(void *data)
{
	struct storm *storm = data;
	uint64_t x = 88172645463325252ULL;

	while (!get_flag(&storm->stop)) {
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
			check_addresses(_metadata, up_answer(&walk.ring, rec), stub_plain_ip);
			records++;
		}
		up_forget(&walk.ring);
	}
	EXPECT_EQ(4000, records);
	ASSERT_EQ(0, up_disable(&walk.ring));
	set_flag(&storm.stop, 1);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

static void *unmap_thread(void *data)
{
	struct storm *storm = data;

	while (!get_flag(&storm->stop)) {
		mprotect((void *)storm->fp, PAGE, PROT_NONE);
		mprotect((void *)storm->fp, PAGE, PROT_READ);
	}
	return NULL;
}

/* The page is there or it is not, so there are two possible traces. */
TEST_F(walk, page_vanishing_under_the_walk_gives_a_shorter_trace)
{
	unsigned long page = stack_page();
	struct storm storm = { .fp = page };
	struct probe p;
	pthread_t thread;
	size_t i;

	build(page, 5);
	put_frame(walk.fp, page, RA(50));
	WANT(A(stub_plain_ip), RA(50));
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
	set_flag(&storm.stop, 1);
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
	int i;

	if (must_skip(_metadata, need_deferral()))
		return;
	ASSERT_EQ(0, open_syscall_event(&in_place, NR_GETPPID, 0));
	ASSERT_TRUE(stack_from_file());
	first = walk.sp + PAGE - W;
	for (i = 0, fp = first; i < 6; i++, fp += 3 * PAGE)
		put_frame(fp, i == 5 ? 0 : fp + 3 * PAGE, RA(i));
	ASSERT_EQ(0, madvise((void *)walk.stack, STACK_SIZE, MADV_DONTNEED));
	ASSERT_EQ(0, up_enable(&in_place));
	EXPECT_TRUE(plain_has_frames(first, 6));
	up_disable(&in_place);
	up_drain(&in_place);
	ASSERT_EQ(1, up_count(&in_place, PERF_RECORD_SAMPLE));
	rec = up_nth(&in_place, PERF_RECORD_SAMPLE, 0);
	ASSERT_TRUE(rec->has_user);
	EXPECT_EQ(1, rec->nr_user);
}

TEST_F(walk, never_touched_stack_pages_are_faulted_in)
{
	word frame[2] = { 0, RA(3) };
	unsigned long page;
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
	WANT(A(stub_plain_ip), RA(0));
	if (page > walk.stack)
		want(RA(3));
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
}

static void *supply(void *data)
{
	if (slow_page_is_asked_for(data))
		slow_page_supply(data);
	return NULL;
}

TEST_F(walk, page_that_the_kernel_reads_is_waited_for)
{
	unsigned long page = stack_page();
	static word contents[PAGE / sizeof(word)] = { 0, RA(7) };
	struct slow_disk disk;
	pthread_t thread;

	if (must_skip(_metadata, need_deferral()) || must_skip(_metadata, need_slow_disk()))
		return;
	put_frame(walk.fp, page, RA(0));
	ASSERT_TRUE(slow_page_map(&disk, (void *)page, contents));
	WANT(A(stub_plain_ip), RA(0), RA(7));
	ASSERT_EQ(0, pthread_create(&thread, NULL, supply, &disk));
	EXPECT_TRUE(stub_is_wanted(stub_plain, walk.fp));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(1, disk.asked);
}

/* The walk waits for a page that never comes, until the task is killed. */
TEST_F(walk, walk_that_waits_for_a_page_can_be_killed)
{
	unsigned long page = stack_page();
	struct perf_event_attr attr;
	struct slow_disk disk;
	struct up_rec *rec;
	int status, go[2];
	pid_t pid;

	if (must_skip(_metadata, need_deferral()) || must_skip(_metadata, need_slow_disk()))
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
	WANT(A(stub_plain_ip), RA(0));
	rec = only_answer(&walk.ring);
	ASSERT_TRUE(is_wanted(rec));
	EXPECT_EQ(PERF_RECORD_MISC_USER | 6 << 8, rec->misc);
}

TEST_HARNESS_MAIN
