// SPDX-License-Identifier: GPL-2.0
/*
 * The walker: which frames come out of a user stack, one by one.
 *
 * Black box: a perf event on raw_syscalls:sys_enter with both deferred bits
 * samples one system call, made by a stub of walker_stubs.S with a stack this
 * file has written, and the PERF_RECORD_CALLCHAIN_DEFERRED record is compared
 * with the list of addresses that stack holds. Built for x86-64, x32 and i386.
 */
#define _GNU_SOURCE
#include <asm/ldt.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include "unwind_perf.h"
#include "walker_stubs.h"
#include "../kselftest_harness.h"

#ifndef SA_RESTORER
#define SA_RESTORER	0x04000000
#endif

#ifdef __x86_64__
#define NR_GETPPID	SYS_getppid
#define NR_MADVISE	SYS_madvise
#define NR_TGKILL	SYS_tgkill
#define NR_SIGRETURN	SYS_rt_sigreturn
typedef uint64_t word;
#else
#define NR_GETPPID	64
#define NR_MADVISE	219
#define NR_TGKILL	270
#define NR_SIGRETURN	173
typedef uint32_t word;
#endif

#define W		sizeof(word)
#define PAGE		4096UL
#define STACK_SIZE	0x100000UL
#define SYSCTL_MAX_STACK	"/proc/sys/kernel/perf_event_max_stack"

#ifdef MAP_32BIT
#define STACK_FLAGS	(MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT)
#else
#define STACK_FLAGS	(MAP_PRIVATE | MAP_ANONYMOUS)
#endif

/* Return addresses: nothing is mapped there and nothing needs to be */
#define RA(i)		(0x10000000UL + 0x100UL * (i))

#define A(label)	((unsigned long)(label))

/* The expected trace */
struct want {
	uint64_t ips[600];
	uint64_t nr;
};

static void want(struct want *w, uint64_t ip)
{
	w->ips[w->nr++] = ip;
}

/* Frames from..from+n-1 of build() */
static void want_frames(struct want *w, int from, int n)
{
	while (n--)
		want(w, RA(from++));
}

static void put(unsigned long at, word val)
{
	*(word *)at = val;
}

static void put_frame(unsigned long fp, word next, word ra)
{
	put(fp, next);
	put(fp + W, ra);
}

#define FRAME_WORDS	4

/*
 * n frames from fp upwards, a frame pointer of 0 in the last:
 *
 *	fp:	fp + 4 words, RA(0), unused, unused
 *		fp + 8 words, RA(1), unused, unused
 *		...
 *		0, RA(n - 1)
 */
static unsigned long build(unsigned long fp, int n)
{
	int i;

	for (i = 0; i < n; i++)
		put_frame(fp + i * FRAME_WORDS * W,
			  i == n - 1 ? 0 : fp + (i + 1) * FRAME_WORDS * W, RA(i));
	return fp;
}

static bool set_filter(int fd, long nr)
{
	char filter[64];

	snprintf(filter, sizeof(filter), "id == %ld", nr);
	return !ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter);
}

static int open_syscall_event(struct up_ring *ring, long nr, uint64_t bits)
{
	struct perf_event_attr attr;
	int ret;

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"), bits);
	attr.exclude_callchain_kernel = 1;
	ret = up_open(ring, &attr, 0, -1, -1);
	if (ret)
		return ret;
	return set_filter(ring->fd, nr) ? 0 : -errno;
}

FIXTURE(walk)
{
	struct up_ring ring;
	/* Records that come with one sample: those of other events too */
	size_t records;
	/* First address that is none of user space's */
	uint64_t user_end;
	unsigned long stack;
	/* Where a test puts its stack pointer and its first frame */
	unsigned long sp;
	unsigned long fp;
	long long old_max_stack;
	struct want w;
};

FIXTURE_SETUP(walk)
{
	void *map;

	if (must_skip(_metadata, need_perf_deferred()))
		return;
	if (must_skip(_metadata, need_tracepoint("raw_syscalls", "sys_enter")))
		return;
	self->old_max_stack = up_read_number(SYSCTL_MAX_STACK);
	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_STACK, 1024));
	ASSERT_EQ(0, open_syscall_event(&self->ring, NR_GETPPID,
					UT_ATTR_DEFER_CALLCHAIN |
					UT_ATTR_DEFER_OUTPUT));
	self->records = 1;
	self->user_end = (1ULL << (cpu_has_la57() ? 56 : 47)) - PAGE;
	map = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, STACK_FLAGS, -1, 0);
	ASSERT_NE(A(MAP_FAILED), A(map));
	self->stack = A(map);
	self->sp = self->stack + STACK_SIZE / 2;
	self->fp = self->sp + 32 * W;
}

FIXTURE_TEARDOWN(walk)
{
	up_close(&self->ring);
	up_write_number(SYSCTL_MAX_STACK, self->old_max_stack);
}

static struct probe probe_of(void *stub, unsigned long sp, uint64_t fp, long nr)
{
	struct probe p = {
		.stub = A(stub), .sp = sp, .fp = fp, .nr = nr,
	};

	return p;
}

/* Run the probe, which takes exactly one sample; returns the trace of it. */
static struct up_rec *sample(struct __test_metadata *_metadata,
			     struct _test_data_walk *self, struct probe *p)
{
	struct up_rec *rec, *deferred;

	up_reset(&self->ring);
	ASSERT_EQ(0, up_enable(&self->ring));
	probe_at(p);
	ASSERT_EQ(0, up_disable(&self->ring));
	up_drain(&self->ring);
	ASSERT_EQ(1, up_count(&self->ring, PERF_RECORD_SAMPLE));
	ASSERT_EQ(self->records, up_count(&self->ring, UT_RECORD_CALLCHAIN_DEFERRED));
	ASSERT_EQ(0, up_count_bad(&self->ring));
	rec = up_nth(&self->ring, PERF_RECORD_SAMPLE, 0);
	ASSERT_TRUE(rec->deferred);
	ASSERT_NE(0, rec->cookie);
	ASSERT_EQ(1, up_count_cookie(&self->ring, rec->cookie));
	deferred = up_find_cookie(&self->ring, rec->cookie);
	return deferred;
}

/* Sample another system call than getppid(). */
static void sample_syscall(struct __test_metadata *_metadata,
			   struct _test_data_walk *self, long nr)
{
	up_close(&self->ring);
	ASSERT_EQ(0, open_syscall_event(&self->ring, nr, UT_ATTR_DEFER_CALLCHAIN |
					UT_ATTR_DEFER_OUTPUT));
}

static bool frames_are(const struct up_rec *rec, const struct want *w)
{
	return up_frames_equal(rec->ips, rec->nr, w->ips, w->nr);
}

#define EXPECT_WANT(rec)	EXPECT_TRUE(frames_are(rec, &self->w))

/* One getppid() from a stub, compared with self->w. */
static void check_stub(struct __test_metadata *_metadata,
		       struct _test_data_walk *self, void *stub, uint64_t fp)
{
	struct probe p = probe_of(stub, self->sp, fp, NR_GETPPID);
	struct up_rec *rec = sample(_metadata, self, &p);

	EXPECT_WANT(rec);
}

/* ------------------------------------------------------------------------ */
/* Well-formed stacks							     */

TEST_F(walk, frames_of_a_plain_stack_are_found)
{
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 5);
	check_stub(_metadata, self, stub_plain, build(self->fp, 5));
}

TEST_F(walk, calls_made_for_real_are_found)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), NR_GETPPID);
	struct up_rec *rec;

	p.args[0] = A(outer_fn);
	rec = sample(_metadata, self, &p);
	want(&self->w, A(inner_fn_ip));
	want(&self->w, A(middle_fn_ret));
	want(&self->w, A(outer_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	EXPECT_WANT(rec);
}

TEST_F(walk, recursion_gives_a_frame_a_call)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 1), NR_GETPPID);
	struct up_rec *rec;
	int i;

	p.args[0] = A(recurse_fn);
	p.args[1] = 100;
	rec = sample(_metadata, self, &p);
	want(&self->w, A(recurse_fn_ip));
	for (i = 0; i < 100; i++)
		want(&self->w, A(recurse_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 1);
	EXPECT_WANT(rec);
}

TEST_F(walk, frame_at_the_stack_pointer_is_found)
{
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 1);
	check_stub(_metadata, self, stub_plain, build(self->sp, 1));
}

TEST_F(walk, no_frame_pointer_gives_the_topmost_address_alone)
{
	want(&self->w, A(stub_plain_ip));
	check_stub(_metadata, self, stub_plain, 0);
}

TEST_F(walk, stack_of_509_callers_is_complete)
{
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 509);
	check_stub(_metadata, self, stub_plain, build(self->fp, 509));
}

TEST_F(walk, deeper_stack_is_cut_at_510_entries)
{
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, UT_MAX_ENTRIES - 1);
	check_stub(_metadata, self, stub_plain, build(self->fp, 3000));
}

TEST_F(walk, frames_far_apart_are_found)
{
	unsigned long fp = self->fp;
	int i;

	want(&self->w, A(stub_plain_ip));
	for (i = 0; i < 8; i++, fp += 9 * PAGE + 2 * W) {
		put_frame(fp, i == 7 ? 0 : fp + 9 * PAGE + 2 * W, RA(i));
		want(&self->w, RA(i));
	}
	check_stub(_metadata, self, stub_plain, self->fp);
}

TEST_F(walk, frame_across_a_page_boundary_is_found)
{
	unsigned long fp = self->stack + STACK_SIZE / 2 + 2 * PAGE - W;

	put_frame(fp, 0, RA(0));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 1);
	check_stub(_metadata, self, stub_plain, fp);
}

/* ------------------------------------------------------------------------ */
/* The topmost frame							     */

TEST_F(walk, caller_of_a_function_at_its_push_is_kept)
{
	put(self->sp, RA(100));
	want(&self->w, A(stub_push_ip));
	want(&self->w, RA(100));
	want_frames(&self->w, 0, 3);
	check_stub(_metadata, self, stub_push, build(self->fp, 3));
}

TEST_F(walk, caller_of_a_function_at_its_endbr_and_push_is_kept)
{
	put(self->sp, RA(100));
	want(&self->w, A(stub_endbr_push_ip));
	want(&self->w, RA(100));
	want_frames(&self->w, 0, 3);
	check_stub(_metadata, self, stub_endbr_push, build(self->fp, 3));
}

/* What stands in front of it is a system call and not the push. */
TEST_F(walk, mov_without_a_push_does_not_invent_a_frame)
{
	put(self->sp, self->fp);
	put(self->sp + W, RA(100));
	want(&self->w, A(stub_mov_ip));
	want_frames(&self->w, 0, 3);
	check_stub(_metadata, self, stub_mov, build(self->fp, 3));
}

TEST_F(walk, caller_of_a_function_at_its_ret_is_kept)
{
	put(self->sp, A(probe_back));
	want(&self->w, A(stub_ret_ip));
	want(&self->w, A(probe_back));
	want_frames(&self->w, 0, 3);
	check_stub(_metadata, self, stub_ret, build(self->fp, 3));
}

TEST_F(walk, caller_of_a_function_at_its_rep_ret_is_kept)
{
	put(self->sp, A(probe_back));
	want(&self->w, A(stub_rep_ret_ip));
	want(&self->w, A(probe_back));
	want_frames(&self->w, 0, 3);
	check_stub(_metadata, self, stub_rep_ret, build(self->fp, 3));
}

TEST_F(walk, caller_of_a_function_at_its_bnd_ret_is_kept)
{
	put(self->sp, A(probe_back));
	want(&self->w, A(stub_bnd_ret_ip));
	want(&self->w, A(probe_back));
	want_frames(&self->w, 0, 3);
	check_stub(_metadata, self, stub_bnd_ret, build(self->fp, 3));
}

/* Nothing is mapped behind it, and fewer bytes are there than are looked at. */
TEST_F(walk, caller_of_a_function_with_its_ret_at_the_end_of_a_page_is_kept)
{
#ifdef __x86_64__
	static const unsigned char code[] = { 0x0f, 0x05, 0xc3 };
#else
	static const unsigned char code[] = { 0xcd, 0x80, 0xc3 };
#endif
	unsigned long end = self->stack + STACK_SIZE - PAGE;
	unsigned long at = end - sizeof(code);

	memcpy((void *)at, code, sizeof(code));
	ASSERT_EQ(0, mprotect((void *)(end - PAGE), PAGE, PROT_READ | PROT_EXEC));
	ASSERT_EQ(0, munmap((void *)end, PAGE));
	put(self->sp, A(probe_back));
	want(&self->w, at + 2);
	want(&self->w, A(probe_back));
	want_frames(&self->w, 0, 3);
	check_stub(_metadata, self, (void *)at, build(self->fp, 3));
}

TEST_F(walk, caller_of_a_function_at_its_ret_with_arguments_is_kept)
{
	put(self->sp, A(probe_back));
	want(&self->w, A(stub_ret_imm_ip));
	want(&self->w, A(probe_back));
	want_frames(&self->w, 0, 3);
	check_stub(_metadata, self, stub_ret_imm, build(self->fp, 3));
}

TEST_F(walk, lone_endbr_does_not_invent_a_frame)
{
	put(self->sp, RA(100));
	want(&self->w, A(stub_endbr_ip));
	want_frames(&self->w, 0, 3);
	check_stub(_metadata, self, stub_endbr, build(self->fp, 3));
}

TEST_F(walk, middle_of_a_function_does_not_invent_a_frame)
{
	put(self->sp, RA(100));
	put(self->sp + W, RA(101));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 3);
	check_stub(_metadata, self, stub_plain, build(self->fp, 3));
}

/* ------------------------------------------------------------------------ */
/* The topmost frame, with a uprobe on the instruction			     */

static int open_uprobe(struct up_ring *ring, const void *addr, bool ret, uint64_t bits)
{
	struct perf_event_attr attr;

	if (up_attr_uprobe(&attr, addr, ret, bits))
		return -ENODEV;
	attr.exclude_callchain_kernel = 1;
	return up_open(ring, &attr, 0, -1, -1);
}

/*
 * The walk sees a breakpoint where the instruction was, at a system call in
 * front of it; then the breakpoint is hit and is sampled itself.
 */
static void check_stub_uprobe(struct __test_metadata *_metadata,
			      struct _test_data_walk *self, void *stub, void *ip,
			      uint64_t fp)
{
	struct up_rec *rec, *deferred;
	struct up_ring probe;

	ASSERT_EQ(0, open_uprobe(&probe, ip, false, UT_ATTR_DEFER_CALLCHAIN |
				 UT_ATTR_DEFER_OUTPUT));
	ASSERT_EQ(0, up_enable(&probe));
	self->records = 2;
	check_stub(_metadata, self, stub, fp);
	ASSERT_EQ(0, up_disable(&probe));
	up_drain(&probe);
	EXPECT_EQ(0, up_count_bad(&probe));
	/* This one holds the record of the system call too */
	ASSERT_EQ(1, up_count(&probe, PERF_RECORD_SAMPLE));
	rec = up_nth(&probe, PERF_RECORD_SAMPLE, 0);
	ASSERT_TRUE(rec->deferred);
	ASSERT_EQ(1, up_count_cookie(&probe, rec->cookie));
	deferred = up_find_cookie(&probe, rec->cookie);
	EXPECT_EQ(A(ip), rec->ip);
	EXPECT_WANT(deferred);
	up_close(&probe);
}

TEST_F(walk, caller_is_kept_with_a_uprobe_on_the_push)
{
	put(self->sp, RA(100));
	want(&self->w, A(stub_push_ip));
	want(&self->w, RA(100));
	want_frames(&self->w, 0, 3);
	check_stub_uprobe(_metadata, self, stub_push, stub_push_ip,
			  build(self->fp, 3));
}

TEST_F(walk, caller_is_kept_with_a_uprobe_on_the_endbr)
{
	put(self->sp, RA(100));
	want(&self->w, A(stub_endbr_push_ip));
	want(&self->w, RA(100));
	want_frames(&self->w, 0, 3);
	check_stub_uprobe(_metadata, self, stub_endbr_push, stub_endbr_push_ip,
			  build(self->fp, 3));
}

TEST_F(walk, caller_is_kept_with_a_uprobe_on_the_ret)
{
	put(self->sp, A(probe_back));
	want(&self->w, A(stub_ret_ip));
	want(&self->w, A(probe_back));
	want_frames(&self->w, 0, 3);
	check_stub_uprobe(_metadata, self, stub_ret, stub_ret_ip,
			  build(self->fp, 3));
}

/* Nobody sets a probe on any other landing pad than that of a function. */
TEST_F(walk, caller_is_kept_with_a_uprobe_on_a_lone_endbr)
{
	put(self->sp, RA(100));
	want(&self->w, A(stub_endbr_ip));
	want(&self->w, RA(100));
	want_frames(&self->w, 0, 3);
	check_stub_uprobe(_metadata, self, stub_endbr, stub_endbr_ip,
			  build(self->fp, 3));
}

TEST_F(walk, uprobe_in_the_middle_does_not_invent_a_frame)
{
	put(self->sp, RA(100));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 3);
	check_stub_uprobe(_metadata, self, stub_plain, stub_plain_ip,
			  build(self->fp, 3));
}

/* A function called for real with a uprobe on each instruction in turn. */
static void check_fn_uprobe(struct __test_metadata *_metadata,
			    struct _test_data_walk *self, void *fn, void *ip)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), NR_GETPPID);
	struct up_rec *rec, *deferred;
	struct up_ring probe;

	self->w.nr = 0;
	want(&self->w, A(ip));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	p.args[0] = A(fn);
	ASSERT_EQ(0, open_uprobe(&probe, ip, false, UT_ATTR_DEFER_CALLCHAIN |
				 UT_ATTR_DEFER_OUTPUT));
	ASSERT_EQ(0, up_enable(&probe));
	probe_at(&p);
	ASSERT_EQ(0, up_disable(&probe));
	up_drain(&probe);
	EXPECT_EQ(0, up_count_bad(&probe));
	ASSERT_EQ(1, up_count(&probe, PERF_RECORD_SAMPLE));
	ASSERT_EQ(1, up_count(&probe, UT_RECORD_CALLCHAIN_DEFERRED));
	rec = up_nth(&probe, PERF_RECORD_SAMPLE, 0);
	deferred = up_nth(&probe, UT_RECORD_CALLCHAIN_DEFERRED, 0);
	ASSERT_TRUE(rec->deferred);
	EXPECT_EQ(rec->cookie, deferred->cookie);
	EXPECT_WANT(deferred);
	up_close(&probe);
}

TEST_F(walk, uprobe_on_each_instruction_of_a_function_keeps_the_caller)
{
	check_fn_uprobe(_metadata, self, plain_fn, plain_fn);
	check_fn_uprobe(_metadata, self, plain_fn, plain_fn_mov);
	check_fn_uprobe(_metadata, self, plain_fn, plain_fn_nop);
	check_fn_uprobe(_metadata, self, plain_fn, plain_fn_pop);
	check_fn_uprobe(_metadata, self, plain_fn, plain_fn_ret);
}

TEST_F(walk, uprobe_on_each_instruction_of_an_endbr_function_keeps_the_caller)
{
	check_fn_uprobe(_metadata, self, endbr_fn, endbr_fn);
	check_fn_uprobe(_metadata, self, endbr_fn, endbr_fn_push);
	check_fn_uprobe(_metadata, self, endbr_fn, endbr_fn_mov);
	check_fn_uprobe(_metadata, self, endbr_fn, endbr_fn_nop);
	check_fn_uprobe(_metadata, self, endbr_fn, endbr_fn_pop);
	check_fn_uprobe(_metadata, self, endbr_fn, endbr_fn_ret);
}

/* ------------------------------------------------------------------------ */
/* Out-of-line slots							     */

static int open_fault_event(struct up_ring *ring)
{
	struct perf_event_attr attr;

	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS,
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	attr.exclude_kernel = 1;
	return up_open(ring, &attr, 0, -1, -1);
}

/*
 * The one page fault that the probed instruction takes out of line: its record
 * shows the probed address, and no record shows an address of the slots.
 */
static void check_slot(struct __test_metadata *_metadata, struct _test_data_walk *self,
		       struct probe *warm, struct probe *p, void *ip)
{
	struct up_ring probe, faults;
	size_t i, j, found = 0;

	ASSERT_EQ(0, open_uprobe(&probe, ip, false, 0));
	ASSERT_EQ(0, open_fault_event(&faults));
	ASSERT_EQ(0, up_enable(&probe));
	/* The first time it is the slot itself that is not there */
	probe_at(warm);
	up_reset(&probe);
	ASSERT_EQ(0, up_enable(&faults));
	probe_at(p);
	ASSERT_EQ(0, up_disable(&faults));
	ASSERT_EQ(0, up_disable(&probe));
	up_drain(&faults);
	up_drain(&probe);
	EXPECT_EQ(1, up_count(&probe, PERF_RECORD_SAMPLE));
	EXPECT_EQ(0, up_count_bad(&faults));
	for (i = 0; i < faults.nr_recs; i++) {
		struct up_rec *deferred, *rec = &faults.recs[i];
		char path[512];

		if (rec->type != PERF_RECORD_SAMPLE)
			continue;
		ASSERT_TRUE(rec->deferred);
		ASSERT_EQ(1, up_count_cookie(&faults, rec->cookie));
		deferred = up_find_cookie(&faults, rec->cookie);
		ASSERT_LT(0, deferred->nr);
		/* The slots are not backed by a file: the name in maps says so */
		for (j = 0; j < deferred->nr; j++) {
			path[0] = 0;
			file_offset((void *)A(deferred->ips[j]), path, sizeof(path));
			EXPECT_STRNE("[uprobes]", path);
		}
		if (deferred->ips[0] != A(ip))
			continue;
		found++;
		EXPECT_WANT(deferred);
	}
	EXPECT_EQ(1, found);
	up_close(&probe);
	up_close(&faults);
}

TEST_F(walk, fault_in_an_out_of_line_slot_shows_the_probed_address)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), 0);
	struct probe warm;

	p.args[0] = A(load_fn);
	p.args[1] = self->sp;
	warm = p;
	/* A page that has never been touched */
	p.args[1] = self->stack + STACK_SIZE - PAGE;
	want(&self->w, A(load_fn_load));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	check_slot(_metadata, self, &warm, &p, load_fn_load);
}

/* Stack memory in a file: MADV_DONTNEED takes the page, not what is in it */
static void stack_from_file(struct __test_metadata *_metadata,
			    struct _test_data_walk *self)
{
	int fd = syscall(SYS_memfd_create, "stack", 0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, STACK_SIZE));
	ASSERT_EQ(self->stack, A(mmap((void *)self->stack, STACK_SIZE,
				      PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_FIXED, fd, 0)));
	close(fd);
}

TEST_F(walk, ret_faulting_in_an_out_of_line_slot_keeps_the_caller)
{
	struct probe p, warm;
	unsigned long page;

	stack_from_file(_metadata, self);
	page = self->sp & ~(PAGE - 1);
	/* Frames stay on the next page; the return address goes with its page */
	warm = probe_of(stub_ret, self->sp, build(page + PAGE, 2), NR_GETPPID);
	p = warm;
	p.nr = NR_MADVISE;
	p.args[0] = page;
	p.args[1] = PAGE;
	p.args[2] = MADV_DONTNEED;
	put(self->sp, A(probe_back));
	want(&self->w, A(stub_ret_ip));
	want(&self->w, A(probe_back));
	want_frames(&self->w, 0, 2);
	check_slot(_metadata, self, &warm, &p, stub_ret_ip);
}

/* ------------------------------------------------------------------------ */
/* uretprobes								     */

struct retprobes {
	struct up_ring ring[3];
	int nr;
};

static void add_retprobe(struct __test_metadata *_metadata, struct retprobes *rp,
			 const void *fn, uint64_t bits)
{
	ASSERT_EQ(0, open_uprobe(&rp->ring[rp->nr], fn, true, bits));
	ASSERT_EQ(0, up_enable(&rp->ring[rp->nr]));
	rp->nr++;
}

static void close_retprobes(struct retprobes *rp)
{
	while (rp->nr)
		up_close(&rp->ring[--rp->nr]);
}

TEST_F(walk, uretprobe_shows_the_real_return_address)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), NR_GETPPID);
	struct retprobes rp = {};
	struct up_rec *rec;

	add_retprobe(_metadata, &rp, middle_fn, 0);
	p.args[0] = A(outer_fn);
	rec = sample(_metadata, self, &p);
	want(&self->w, A(inner_fn_ip));
	want(&self->w, A(middle_fn_ret));
	want(&self->w, A(outer_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	EXPECT_WANT(rec);
	up_drain(&rp.ring[0]);
	EXPECT_EQ(1, up_count(&rp.ring[0], PERF_RECORD_SAMPLE));
	close_retprobes(&rp);
}

TEST_F(walk, nested_uretprobes_show_the_real_return_addresses)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), NR_GETPPID);
	struct retprobes rp = {};
	struct up_rec *rec;

	add_retprobe(_metadata, &rp, outer_fn, 0);
	add_retprobe(_metadata, &rp, middle_fn, 0);
	add_retprobe(_metadata, &rp, inner_fn, 0);
	p.args[0] = A(outer_fn);
	rec = sample(_metadata, self, &p);
	want(&self->w, A(inner_fn_ip));
	want(&self->w, A(middle_fn_ret));
	want(&self->w, A(outer_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	EXPECT_WANT(rec);
	close_retprobes(&rp);
}

TEST_F(walk, recursive_uretprobe_shows_every_real_return_address)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 1), NR_GETPPID);
	struct retprobes rp = {};
	struct up_rec *rec;
	int i;

	add_retprobe(_metadata, &rp, recurse_fn, 0);
	p.args[0] = A(recurse_fn);
	p.args[1] = 20;
	rec = sample(_metadata, self, &p);
	want(&self->w, A(recurse_fn_ip));
	for (i = 0; i < 20; i++)
		want(&self->w, A(recurse_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 1);
	EXPECT_WANT(rec);
	up_drain(&rp.ring[0]);
	EXPECT_EQ(21, up_count(&rp.ring[0], PERF_RECORD_SAMPLE));
	close_retprobes(&rp);
}

/* Two uretprobes that share a slot, the last one first to hit, and one further out */
static void add_chained_retprobes(struct __test_metadata *_metadata,
				  struct retprobes *rp, uint64_t bits)
{
	add_retprobe(_metadata, rp, outer_fn, 0);
	add_retprobe(_metadata, rp, middle_fn_jmp, 0);
	add_retprobe(_metadata, rp, middle_fn, bits);
}

TEST_F(walk, uretprobes_that_share_a_slot_show_the_real_return_addresses)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), NR_GETPPID);
	struct up_ring in_place;
	struct retprobes rp = {};
	struct up_rec *rec;

	add_chained_retprobes(_metadata, &rp, 0);
	ASSERT_EQ(0, open_syscall_event(&in_place, NR_GETPPID, 0));
	ASSERT_EQ(0, up_enable(&in_place));
	p.args[0] = A(outer_fn);
	rec = sample(_metadata, self, &p);
	want(&self->w, A(inner_fn_ip));
	want(&self->w, A(middle_fn_ret));
	want(&self->w, A(outer_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	EXPECT_WANT(rec);

	up_drain(&in_place);
	ASSERT_EQ(1, up_count(&in_place, PERF_RECORD_SAMPLE));
	rec = up_nth(&in_place, PERF_RECORD_SAMPLE, 0);
	EXPECT_TRUE(up_frames_equal(rec->user, rec->nr_user, self->w.ips, self->w.nr));
	up_close(&in_place);
	close_retprobes(&rp);
}

/* The first of them to hit, while the other is still to come */
static void check_chained_hit(struct __test_metadata *_metadata,
			      struct _test_data_walk *self, uint64_t bits)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), NR_GETPPID);
	struct retprobes rp = {};
	struct up_rec *rec;

	add_chained_retprobes(_metadata, &rp, bits);
	p.args[0] = A(outer_fn);
	probe_at(&p);
	want(&self->w, A(outer_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	up_drain(&rp.ring[2]);
	EXPECT_EQ(0, up_count_bad(&rp.ring[2]));
	ASSERT_EQ(1, up_count(&rp.ring[2], PERF_RECORD_SAMPLE));
	rec = up_nth(&rp.ring[2], PERF_RECORD_SAMPLE, 0);
	if (bits) {
		ASSERT_EQ(1, up_count_cookie(&rp.ring[2], rec->cookie));
		EXPECT_WANT(up_find_cookie(&rp.ring[2], rec->cookie));
	} else {
		EXPECT_TRUE(up_frames_equal(rec->user, rec->nr_user, self->w.ips,
					    self->w.nr));
	}
	close_retprobes(&rp);
}

TEST_F(walk, uretprobe_event_in_a_shared_slot_shows_the_callers)
{
	check_chained_hit(_metadata, self, UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
}

TEST_F(walk, uretprobe_event_in_a_shared_slot_shows_the_callers_in_place)
{
	check_chained_hit(_metadata, self, 0);
}

#ifdef __x86_64__
#define NR_URETPROBE	335

/*
 * The trampoline is a system call here, with three registers pushed in front of
 * it: what is sampled at its entry and its exit still has the caller on top.
 */
TEST_F(walk, system_call_of_the_uretprobe_shows_the_callers)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), NR_GETPPID);
	/* Which has no number any more when it is done */
	static const struct {
		const char *name;
		long nr;
	} points[] = { { "sys_enter", NR_URETPROBE }, { "sys_exit", -1 } };
	struct perf_event_attr attr;
	struct retprobes rp = {};
	struct up_rec *rec;
	unsigned int i;

	add_retprobe(_metadata, &rp, middle_fn, 0);
	p.args[0] = A(outer_fn);
	want(&self->w, A(outer_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	for (i = 0; i < ARRAY_SIZE(points); i++) {
		up_close(&self->ring);
		up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
			     tracepoint_id("raw_syscalls", points[i].name),
			     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
		attr.exclude_callchain_kernel = 1;
		ASSERT_EQ(0, up_open(&self->ring, &attr, 0, -1, -1));
		ASSERT_TRUE(set_filter(self->ring.fd, points[i].nr));
		rec = sample(_metadata, self, &p);
		EXPECT_WANT(rec);
	}
	close_retprobes(&rp);
}
#endif

/* Hit in the trampoline: the function is gone, its caller is the topmost. */
TEST_F(walk, uretprobe_event_itself_shows_the_callers)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), NR_GETPPID);
	struct retprobes rp = {};
	struct up_rec *rec;

	add_retprobe(_metadata, &rp, middle_fn, UT_ATTR_DEFER_CALLCHAIN |
		     UT_ATTR_DEFER_OUTPUT);
	p.args[0] = A(outer_fn);
	probe_at(&p);
	up_drain(&rp.ring[0]);
	EXPECT_EQ(0, up_count_bad(&rp.ring[0]));
	ASSERT_EQ(1, up_count(&rp.ring[0], PERF_RECORD_SAMPLE));
	ASSERT_EQ(1, up_count(&rp.ring[0], UT_RECORD_CALLCHAIN_DEFERRED));
	rec = up_nth(&rp.ring[0], UT_RECORD_CALLCHAIN_DEFERRED, 0);
	want(&self->w, A(outer_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	EXPECT_WANT(rec);
	close_retprobes(&rp);
}

/* A return probe of an outer function is still pending while an inner one hits */
TEST_F(walk, uretprobe_event_below_a_pending_one_shows_the_real_callers)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), NR_GETPPID);
	struct retprobes rp = {};
	struct up_rec *rec;

	add_retprobe(_metadata, &rp, outer_fn, 0);
	add_retprobe(_metadata, &rp, inner_fn, UT_ATTR_DEFER_CALLCHAIN |
		     UT_ATTR_DEFER_OUTPUT);
	p.args[0] = A(outer_fn);
	probe_at(&p);
	up_drain(&rp.ring[1]);
	ASSERT_EQ(1, up_count(&rp.ring[1], UT_RECORD_CALLCHAIN_DEFERRED));
	rec = up_nth(&rp.ring[1], UT_RECORD_CALLCHAIN_DEFERRED, 0);
	want(&self->w, A(middle_fn_ret));
	want(&self->w, A(outer_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	EXPECT_WANT(rec);
	close_retprobes(&rp);
}

/* ------------------------------------------------------------------------ */
/* Single stepping: every instruction of a function is the topmost once	     */

struct raw_sigaction {
	unsigned long handler;
	unsigned long flags;
	unsigned long restorer;
	unsigned char mask[8];
};

static int raw_sigaction(int sig, void *handler, unsigned long flags, void *restorer)
{
	struct raw_sigaction sa = {
		.handler = A(handler), .flags = flags, .restorer = A(restorer),
	};

	if (restorer)
		sa.flags |= SA_RESTORER;
	return syscall(SYS_rt_sigaction, sig, &sa, NULL, 8);
}

/*
 * Addresses that look special interrupt the fast path. Wherever that happens,
 * the trace must not get longer than it has room. (What comes behind that room
 * belongs to somebody else: KASAN tells.)
 */
TEST_F(walk, deeper_stack_with_a_false_restorer_is_cut_at_510_entries)
{
	int at;

	build(self->fp, 3000);
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, UT_MAX_ENTRIES - 1);
	for (at = 490; at < 520; at++) {
		ASSERT_EQ(0, raw_sigaction(SIGUSR2, handler_probe, SA_SIGINFO,
					   (void *)RA(at)));
		check_stub(_metadata, self, stub_plain, self->fp);
	}
}

static void step_over(struct __test_metadata *_metadata, struct up_ring *ring,
		      struct probe *p, void *handler)
{
	ASSERT_EQ(0, raw_sigaction(SIGTRAP, handler, SA_SIGINFO, restorer_rt));
	ASSERT_EQ(0, up_enable(ring));
	probe_at(p);
	ASSERT_EQ(0, up_disable(ring));
	up_drain(ring);
	EXPECT_EQ(0, up_count_bad(ring));
}

/* The trace of step i of a function of nr instructions, below the IP. */
static void want_step(struct _test_data_walk *self, void *const *ips, size_t i, size_t nr)
{
	void *after[] = { stub_step_ret, stub_step_and, stub_step_popf, stub_step_jmp };

	want(&self->w, A(i < nr ? ips[i] : after[i - nr]));
	if (i < nr && ips[i] != stub_step_ret)
		want(&self->w, A(stub_step_ret));
	want_frames(&self->w, 0, 3);
}

static void check_steps(struct __test_metadata *_metadata, struct _test_data_walk *self,
			void *fn, void *const *ips, size_t nr)
{
	struct probe p = probe_of(stub_step, self->sp, build(self->fp, 3), 0);
	struct perf_event_attr attr;
	struct up_ring ring;
	size_t i;

	if (must_skip(_metadata, need_tracepoint("signal", "signal_generate")))
		return;
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("signal", "signal_generate"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	ASSERT_EQ(0, up_open(&ring, &attr, 0, -1, -1));
	p.args[0] = A(fn);
	step_over(_metadata, &ring, &p, handler_empty);
	ASSERT_EQ(nr + 4, up_count(&ring, PERF_RECORD_SAMPLE));
	ASSERT_EQ(nr + 4, up_count(&ring, UT_RECORD_CALLCHAIN_DEFERRED));
	for (i = 0; i < nr + 4; i++) {
		struct up_rec *rec = up_nth(&ring, PERF_RECORD_SAMPLE, i);

		ASSERT_TRUE(rec->deferred);
		ASSERT_EQ(1, up_count_cookie(&ring, rec->cookie));
		self->w.nr = 0;
		want_step(self, ips, i, nr);
		EXPECT_WANT(up_find_cookie(&ring, rec->cookie));
	}
	up_close(&ring);
}

/* The same with a sample in the handler of each step. */
static void check_interrupted(struct __test_metadata *_metadata,
			      struct _test_data_walk *self, void *fn,
			      void *const *ips, size_t nr)
{
	struct probe p = probe_of(stub_step, self->sp, build(self->fp, 3), 0);
	size_t i;

	p.args[0] = A(fn);
	handler_probe_nr = NR_GETPPID;
	step_over(_metadata, &self->ring, &p, handler_probe);
	ASSERT_EQ(nr + 4, up_count(&self->ring, PERF_RECORD_SAMPLE));
	ASSERT_EQ(nr + 4, up_count(&self->ring, UT_RECORD_CALLCHAIN_DEFERRED));
	for (i = 0; i < nr + 4; i++) {
		struct up_rec *rec = up_nth(&self->ring, PERF_RECORD_SAMPLE, i);

		ASSERT_TRUE(rec->deferred);
		ASSERT_EQ(1, up_count_cookie(&self->ring, rec->cookie));
		self->w.nr = 0;
		want(&self->w, A(handler_probe_ip));
		want(&self->w, A(restorer_rt));
		want_step(self, ips, i, nr);
		EXPECT_WANT(up_find_cookie(&self->ring, rec->cookie));
	}
}

TEST_F(walk, stepping_through_a_function_keeps_the_caller_at_each_instruction)
{
	void *ips[] = { plain_fn, plain_fn_mov, plain_fn_nop, plain_fn_pop, plain_fn_ret };

	check_steps(_metadata, self, plain_fn, ips, ARRAY_SIZE(ips));
}

TEST_F(walk, stepping_through_an_endbr_function_keeps_the_caller_at_each_instruction)
{
	void *ips[] = { endbr_fn, endbr_fn_push, endbr_fn_mov, endbr_fn_nop,
			endbr_fn_pop, endbr_fn_ret };

	check_steps(_metadata, self, endbr_fn, ips, ARRAY_SIZE(ips));
}

TEST_F(walk, stepping_through_the_other_encoding_keeps_the_caller_at_each_instruction)
{
	void *ips[] = { alt_fn, alt_fn_mov, alt_fn_nop, alt_fn_pop, alt_fn_ret };

	check_steps(_metadata, self, alt_fn, ips, ARRAY_SIZE(ips));
}

/*
 * With a return probe: what is between the function and its caller does not show,
 * whatever it has on the stack at each of its instructions.
 */
static void *const returning_fn_ips[] = {
	plain_fn, plain_fn_mov, plain_fn_nop, plain_fn_pop, plain_fn_ret,
#ifdef __x86_64__
	/* Of the eight; there is no trap right behind a system call */
	stub_step_ret, stub_step_ret, stub_step_ret, stub_step_ret,
	stub_step_ret, stub_step_ret, stub_step_ret,
#endif
};

TEST_F(walk, stepping_through_the_uretprobe_trampoline_shows_the_callers)
{
	struct retprobes rp = {};

	add_retprobe(_metadata, &rp, plain_fn, 0);
	check_steps(_metadata, self, plain_fn, returning_fn_ips,
		    ARRAY_SIZE(returning_fn_ips));
	close_retprobes(&rp);
}

TEST_F(walk, uretprobe_trampoline_interrupted_at_each_instruction_shows_the_callers)
{
	struct retprobes rp = {};

	add_retprobe(_metadata, &rp, plain_fn, 0);
	check_interrupted(_metadata, self, plain_fn, returning_fn_ips,
			  ARRAY_SIZE(returning_fn_ips));
	close_retprobes(&rp);
}

TEST_F(walk, function_interrupted_at_each_instruction_keeps_its_caller)
{
	void *ips[] = { plain_fn, plain_fn_mov, plain_fn_nop, plain_fn_pop, plain_fn_ret };

	check_interrupted(_metadata, self, plain_fn, ips, ARRAY_SIZE(ips));
}

TEST_F(walk, endbr_function_interrupted_at_each_instruction_keeps_its_caller)
{
	void *ips[] = { endbr_fn, endbr_fn_push, endbr_fn_mov, endbr_fn_nop,
			endbr_fn_pop, endbr_fn_ret };

	check_interrupted(_metadata, self, endbr_fn, ips, ARRAY_SIZE(ips));
}

/* ------------------------------------------------------------------------ */
/* Signal frames							     */

#ifndef __x86_64__
/* What of a 32-bit ELF file it takes to find a symbol */
#define VDSO_SHOFF	32
#define VDSO_SHNUM	48
#define VDSO_DYNSYM	11

struct vdso_section {
	uint32_t name, type, flags, addr, offset, size, link, info, align, entsize;
};

struct vdso_symbol {
	uint32_t name, value, size;
	uint8_t info, other;
	uint16_t section;
};
#endif

/* An address in the vDSO by its name, or NULL. */
static void *vdso_symbol(const char *name)
{
#ifndef __x86_64__
	char *base = (char *)getauxval(AT_SYSINFO_EHDR);
	struct vdso_section *sections;
	int i;

	if (!base)
		return NULL;
	sections = (void *)(base + *(uint32_t *)(base + VDSO_SHOFF));
	for (i = 0; i < *(uint16_t *)(base + VDSO_SHNUM); i++) {
		struct vdso_symbol *sym = (void *)(base + sections[i].offset);
		struct vdso_symbol *end = (void *)((char *)sym + sections[i].size);
		char *names = base + sections[sections[i].link].offset;

		if (sections[i].type != VDSO_DYNSYM)
			continue;
		for (; sym < end; sym++)
			if (!strcmp(names + sym->name, name))
				return base + sym->value;
	}
#endif
	return NULL;
}

/* The four kinds of frame, and who supplies the way out of it. */
struct sigkind {
	const char *name;
	unsigned long flags;
	/* What sigaction gets; NULL is the vDSO's */
	void *restorer;
	/* What is on the stack */
	void *trampoline;
};

static size_t sigkinds(struct sigkind *kinds)
{
	size_t n = 0;

#ifdef __x86_64__
	kinds[n++] = (struct sigkind){ "rt", SA_SIGINFO, restorer_rt, restorer_rt };
#else
	kinds[n++] = (struct sigkind){ "old, vDSO", 0, NULL,
				       vdso_symbol("__kernel_sigreturn") };
	kinds[n++] = (struct sigkind){ "rt, vDSO", SA_SIGINFO, NULL,
				       vdso_symbol("__kernel_rt_sigreturn") };
	kinds[n++] = (struct sigkind){ "old, restorer", 0, restorer_old, restorer_old };
	kinds[n++] = (struct sigkind){ "rt, restorer", SA_SIGINFO, restorer_rt, restorer_rt };
#endif
	return n;
}

#define MAX_SIGKINDS	4

/* A probe whose system call sends a signal to this very thread. */
static struct probe probe_kill(void *stub, unsigned long sp, uint64_t fp, int sig)
{
	struct probe p = probe_of(stub, sp, fp, NR_TGKILL);

	handler_probe_nr = NR_GETPPID;
	p.args[0] = getpid();
	p.args[1] = my_tid();
	p.args[2] = sig;
	return p;
}

/* With a handler of each kind: the sample is in the handler. */
static void check_signal(struct __test_metadata *_metadata, struct _test_data_walk *self,
			 void *stub, uint64_t fp, unsigned long flags)
{
	struct sigkind kinds[MAX_SIGKINDS];
	size_t i, nr = sigkinds(kinds);
	struct want tail = self->w;

	for (i = 0; i < nr; i++) {
		struct probe p = probe_kill(stub, self->sp, fp, SIGUSR1);

		TH_LOG("%s", kinds[i].name);
		ASSERT_NE(0, A(kinds[i].trampoline));
		ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe,
					   kinds[i].flags | flags, kinds[i].restorer));
		self->w.nr = 0;
		want(&self->w, A(handler_probe_ip));
		want(&self->w, A(kinds[i].trampoline));
		memcpy(self->w.ips + self->w.nr, tail.ips, tail.nr * 8);
		self->w.nr += tail.nr;
		EXPECT_WANT(sample(_metadata, self, &p));
	}
}

TEST_F(walk, signal_frame_leads_to_the_interrupted_function)
{
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	check_signal(_metadata, self, stub_plain, build(self->fp, 4), 0);
}

TEST_F(walk, function_interrupted_at_its_push_keeps_its_caller)
{
	put(self->sp, RA(100));
	want(&self->w, A(stub_push_ip));
	want(&self->w, RA(100));
	want_frames(&self->w, 0, 4);
	check_signal(_metadata, self, stub_push, build(self->fp, 4), 0);
}

TEST_F(walk, function_interrupted_at_its_ret_keeps_its_caller)
{
	put(self->sp, A(probe_back));
	want(&self->w, A(stub_ret_ip));
	want(&self->w, A(probe_back));
	want_frames(&self->w, 0, 4);
	check_signal(_metadata, self, stub_ret, build(self->fp, 4), 0);
}

TEST_F(walk, function_interrupted_at_a_lone_endbr_does_not_invent_a_frame)
{
	put(self->sp, RA(100));
	want(&self->w, A(stub_endbr_ip));
	want_frames(&self->w, 0, 4);
	check_signal(_metadata, self, stub_endbr, build(self->fp, 4), 0);
}

static void set_altstack(struct __test_metadata *_metadata, unsigned long base)
{
	stack_t ss = { .ss_sp = (void *)base, .ss_size = 128 * 1024 };

	ASSERT_EQ(0, sigaltstack(&ss, NULL));
}

TEST_F(walk, signal_on_an_alternate_stack_above_leads_back_down)
{
	set_altstack(_metadata, self->stack + STACK_SIZE - 128 * 1024);
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	check_signal(_metadata, self, stub_plain, build(self->fp, 4), SA_ONSTACK);
}

TEST_F(walk, signal_on_an_alternate_stack_below_leads_back_up)
{
	set_altstack(_metadata, self->stack);
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	check_signal(_metadata, self, stub_plain, build(self->fp, 4), SA_ONSTACK);
}

/* SIGUSR1's handler sends SIGUSR2, whose handler is sampled. */
static void check_nested(struct __test_metadata *_metadata, struct _test_data_walk *self,
			 unsigned long flags1, unsigned long flags2)
{
	struct sigkind kinds[MAX_SIGKINDS];
	size_t i, j, nr = sigkinds(kinds);

	for (i = 0; i < nr; i++) {
		for (j = 0; j < nr; j++) {
			struct probe p = probe_kill(stub_plain, self->sp,
						    build(self->fp, 4), SIGUSR1);

			TH_LOG("%s in %s", kinds[j].name, kinds[i].name);
			handler_raise_args[0] = NR_TGKILL;
			handler_raise_args[1] = getpid();
			handler_raise_args[2] = my_tid();
			handler_raise_args[3] = SIGUSR2;
			ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_raise,
						   kinds[i].flags | flags1,
						   kinds[i].restorer));
			ASSERT_EQ(0, raw_sigaction(SIGUSR2, handler_probe,
						   kinds[j].flags | flags2,
						   kinds[j].restorer));
			self->w.nr = 0;
			want(&self->w, A(handler_probe_ip));
			want(&self->w, A(kinds[j].trampoline));
			want(&self->w, A(handler_raise_ip));
			want(&self->w, A(kinds[i].trampoline));
			want(&self->w, A(stub_plain_ip));
			want_frames(&self->w, 0, 4);
			EXPECT_WANT(sample(_metadata, self, &p));
		}
	}
}

TEST_F(walk, nested_signal_frames_are_all_followed)
{
	check_nested(_metadata, self, 0, 0);
}

TEST_F(walk, signal_within_a_signal_on_the_alternate_stack_is_followed)
{
	set_altstack(_metadata, self->stack + STACK_SIZE - 128 * 1024);
	check_nested(_metadata, self, SA_ONSTACK, SA_ONSTACK);
}

TEST_F(walk, alternate_stack_within_a_signal_on_the_normal_one_is_followed)
{
	set_altstack(_metadata, self->stack + STACK_SIZE - 128 * 1024);
	check_nested(_metadata, self, 0, SA_ONSTACK);
}

#ifdef __x86_64__
TEST_F(walk, both_encodings_of_a_restorer_are_known_in_one_process)
{
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);

	handler_raise_args[0] = NR_TGKILL;
	handler_raise_args[1] = getpid();
	handler_raise_args[2] = my_tid();
	handler_raise_args[3] = SIGUSR2;
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_raise, SA_SIGINFO, restorer_rt_short));
	ASSERT_EQ(0, raw_sigaction(SIGUSR2, handler_probe, SA_SIGINFO, restorer_rt));
	want(&self->w, A(handler_probe_ip));
	want(&self->w, A(restorer_rt));
	want(&self->w, A(handler_raise_ip));
	want(&self->w, A(restorer_rt_short));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	EXPECT_WANT(sample(_metadata, self, &p));
}

TEST_F(walk, three_restorers_are_known_in_one_process)
{
	void *restorers[] = { restorer_rt, restorer_rt_short, restorer_rt_endbr };
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);
	struct probe p2 = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR2);
	int i;

	/* The C library's may be a fourth */
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, raw_sigaction(i ? SIGUSR2 : SIGUSR1, handler_probe,
					   SA_SIGINFO, restorers[i]));
		self->w.nr = 0;
		want(&self->w, A(handler_probe_ip));
		want(&self->w, A(restorers[i]));
		want(&self->w, A(stub_plain_ip));
		want_frames(&self->w, 0, 4);
		EXPECT_WANT(sample(_metadata, self, i ? &p2 : &p));
	}
	/* The first one still is */
	self->w.ips[1] = A(restorers[0]);
	EXPECT_WANT(sample(_metadata, self, &p));
}

/* An address that looks like a trampoline, and was given to no sigaction(). */
TEST_F(walk, restorer_bytes_never_installed_are_an_ordinary_address)
{
	/* Own bytes: those of the stubs may have been installed before the fork */
	static const unsigned char bytes[] = {
		0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };
	unsigned long at = self->stack + STACK_SIZE - PAGE;

	memcpy((void *)at, bytes, sizeof(bytes));
	put_frame(self->fp, self->fp + 4 * W, at);
	put_frame(self->fp + 4 * W, 0, RA(1));
	want(&self->w, A(stub_plain_ip));
	want(&self->w, at);
	want(&self->w, RA(1));
	check_stub(_metadata, self, stub_plain, self->fp);
}
#endif

TEST_F(walk, trampoline_with_an_endbr_leads_to_the_interrupted_function)
{
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt_endbr));
	want(&self->w, A(handler_probe_ip));
	want(&self->w, A(restorer_rt_endbr));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	EXPECT_WANT(sample(_metadata, self, &p));
#ifndef __x86_64__
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, 0, restorer_old_endbr));
	self->w.ips[1] = A(restorer_old_endbr);
	EXPECT_WANT(sample(_metadata, self, &p));
#endif
}

/* A system call within reach of a trampoline's start, and behind its end. */
TEST_F(walk, code_behind_a_trampoline_is_ordinary_code)
{
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_near));
	want(&self->w, A(stub_near_ip));
	want_frames(&self->w, 0, 4);
	check_stub(_metadata, self, stub_near, build(self->fp, 4));
}

/* What sigaction() was given need not be a trampoline at all. */
TEST_F(walk, restorer_that_is_no_trampoline_is_an_ordinary_address)
{
	/* Nothing like it, another system call, none, that of another mode */
	static const unsigned char codes[][16] = {
		{ 0x90, 0x90, 0x90, 0x90 },
#ifdef __x86_64__
		{ 0xb8, 0x0e, 0x00, 0x00, 0x00, 0x0f, 0x05 },
		{ 0xb8, 0x0f, 0x00, 0x00, 0x00, 0x90, 0x90 },
		{ 0xb8, 0x0f, 0x00, 0x00, 0x00, 0xcd, 0x80 },
		{ 0x58, 0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 },
#else
		{ 0xb8, 0xae, 0x00, 0x00, 0x00, 0xcd, 0x80 },
		{ 0xb8, 0xad, 0x00, 0x00, 0x00, 0x90, 0x90 },
		{ 0xb8, 0xad, 0x00, 0x00, 0x00, 0x0f, 0x05 },
		/* Each with the stack of the other */
		{ 0x58, 0xb8, 0xad, 0x00, 0x00, 0x00, 0xcd, 0x80 },
		{ 0xb8, 0x77, 0x00, 0x00, 0x00, 0xcd, 0x80 },
#endif
	};
	unsigned long at = self->stack + STACK_SIZE - PAGE;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(codes); i++, at += 64) {
		memcpy((void *)at, codes[i], sizeof(codes[i]));
		ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_empty, SA_SIGINFO, (void *)at));
		put_frame(self->fp, self->fp + 4 * W, at);
		put_frame(self->fp + 4 * W, 0, RA(1));
		self->w.nr = 0;
		want(&self->w, A(stub_plain_ip));
		want(&self->w, at);
		want(&self->w, RA(1));
		check_stub(_metadata, self, stub_plain, self->fp);
	}
}

/* Room is for few, but any number of signals can have the same. */
TEST_F(walk, restorer_of_many_signals_takes_the_place_of_one)
{
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);
	int sig;

	for (sig = SIGHUP; sig <= SIGTRAP; sig++)
		ASSERT_EQ(0, raw_sigaction(sig, handler_empty, SA_SIGINFO, restorer_rt));
	ASSERT_EQ(0, raw_sigaction(SIGUSR2, handler_empty, SA_SIGINFO, restorer_near));
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt_endbr));
	want(&self->w, A(handler_probe_ip));
	want(&self->w, A(restorer_rt_endbr));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	EXPECT_WANT(sample(_metadata, self, &p));
}

/* The C library's own sigaction(), whatever its restorer is. */
TEST_F(walk, handler_of_the_c_library_leads_to_the_interrupted_function)
{
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);
	struct sigaction sa = { .sa_flags = SA_SIGINFO };
	struct raw_sigaction raw;
	void *trampoline;

	sa.sa_sigaction = (void *)handler_probe;
	ASSERT_EQ(0, sigaction(SIGUSR1, &sa, NULL));
	ASSERT_EQ(0, syscall(SYS_rt_sigaction, SIGUSR1, NULL, &raw, 8));
	trampoline = raw.flags & SA_RESTORER ? (void *)raw.restorer :
		     vdso_symbol("__kernel_rt_sigreturn");
	want(&self->w, A(handler_probe_ip));
	want(&self->w, A(trampoline));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	EXPECT_WANT(sample(_metadata, self, &p));
}

struct thread_sample {
	struct __test_metadata *_metadata;
	struct _test_data_walk *self;
};

static void *signal_in_thread(void *data)
{
	struct thread_sample *ts = data;
	struct __test_metadata *_metadata = ts->_metadata;
	struct _test_data_walk *self = ts->self;
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);

	up_close(&self->ring);
	ASSERT_EQ(0, open_syscall_event(&self->ring, NR_GETPPID,
					UT_ATTR_DEFER_CALLCHAIN |
					UT_ATTR_DEFER_OUTPUT));
	EXPECT_WANT(sample(_metadata, self, &p));
	return NULL;
}

TEST_F(walk, restorer_installed_by_another_thread_is_known)
{
	struct thread_sample ts = { _metadata, self };
	struct sigkind kinds[MAX_SIGKINDS];
	pthread_t thread;

	sigkinds(kinds);
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, kinds[0].flags,
				   kinds[0].restorer));
	want(&self->w, A(handler_probe_ip));
	want(&self->w, A(kinds[0].trampoline));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	ASSERT_EQ(0, pthread_create(&thread, NULL, signal_in_thread, &ts));
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

TEST_F(walk, restorer_installed_before_fork_is_known_in_the_child)
{
	struct thread_sample ts = { _metadata, self };
	struct sigkind kinds[MAX_SIGKINDS];
	int status;
	pid_t pid;

	sigkinds(kinds);
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, kinds[0].flags,
				   kinds[0].restorer));
	want(&self->w, A(handler_probe_ip));
	want(&self->w, A(kinds[0].trampoline));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		signal_in_thread(&ts);
		_exit(_metadata->exit_code);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* A uprobe on the trampoline: the bytes there are not what they were. */
TEST_F(walk, trampoline_with_a_uprobe_is_recognized)
{
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);
	struct up_rec *rec, *deferred;
	struct up_ring probe;

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt));
	ASSERT_EQ(0, open_uprobe(&probe, restorer_rt, false,
				 UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT));
	ASSERT_EQ(0, up_enable(&probe));
	self->records = 2;
	want(&self->w, A(handler_probe_ip));
	want(&self->w, A(restorer_rt));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	EXPECT_WANT(sample(_metadata, self, &p));

	/* The probe's own sample has the trampoline as its topmost frame */
	ASSERT_EQ(0, up_disable(&probe));
	up_drain(&probe);
	ASSERT_EQ(1, up_count(&probe, PERF_RECORD_SAMPLE));
	rec = up_nth(&probe, PERF_RECORD_SAMPLE, 0);
	ASSERT_EQ(1, up_count_cookie(&probe, rec->cookie));
	deferred = up_find_cookie(&probe, rec->cookie);
	self->w.nr = 0;
	want(&self->w, A(restorer_rt));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	EXPECT_WANT(deferred);
	up_close(&probe);
}

/* Step from the end of a handler through the trampoline. */
static void check_trampoline(struct __test_metadata *_metadata,
			     struct _test_data_walk *self, unsigned long flags,
			     void **ips, size_t nr)
{
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);
	struct perf_event_attr attr;
	struct up_ring ring;
	size_t i;

	if (must_skip(_metadata, need_tracepoint("signal", "signal_generate")))
		return;
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("signal", "signal_generate"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	ASSERT_EQ(0, up_open(&ring, &attr, 0, -1, -1));
	ASSERT_EQ(0, ioctl(ring.fd, PERF_EVENT_IOC_SET_FILTER, "sig == 5"));
	ASSERT_EQ(5, SIGTRAP);
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_step, flags, ips[0]));
	step_over(_metadata, &ring, &p, handler_empty);
	ASSERT_EQ(nr, up_count(&ring, PERF_RECORD_SAMPLE));
	ASSERT_EQ(nr, up_count(&ring, UT_RECORD_CALLCHAIN_DEFERRED));
	for (i = 0; i < nr; i++) {
		struct up_rec *rec = up_nth(&ring, PERF_RECORD_SAMPLE, i);

		ASSERT_TRUE(rec->deferred);
		ASSERT_EQ(1, up_count_cookie(&ring, rec->cookie));
		self->w.nr = 0;
		want(&self->w, A(ips[i]));
		want(&self->w, A(stub_plain_ip));
		want_frames(&self->w, 0, 4);
		EXPECT_WANT(up_find_cookie(&ring, rec->cookie));
	}
	up_close(&ring);
}

TEST_F(walk, each_instruction_of_a_trampoline_shows_the_interrupted_function)
{
	void *ips[] = { restorer_rt, restorer_rt_syscall };

	check_trampoline(_metadata, self, SA_SIGINFO, ips, ARRAY_SIZE(ips));
}

#ifndef __x86_64__
TEST_F(walk, each_instruction_of_an_old_trampoline_shows_the_interrupted_function)
{
	void *ips[] = { restorer_old, restorer_old_mov, restorer_old_syscall };

	check_trampoline(_metadata, self, 0, ips, ARRAY_SIZE(ips));
}
#endif

#ifdef __x86_64__
/* There is no uprobe on int $0x80. */
TEST_F(walk, uprobe_on_the_trampolines_system_call_shows_the_interrupted_function)
{
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);
	void *ip = restorer_rt_syscall;
	struct up_ring probe;
	struct up_rec *rec;

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_empty, SA_SIGINFO, restorer_rt));
	ASSERT_EQ(0, open_uprobe(&probe, ip, false,
				 UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT));
	ASSERT_EQ(0, up_enable(&probe));
	probe_at(&p);
	ASSERT_EQ(0, up_disable(&probe));
	up_drain(&probe);
	ASSERT_EQ(1, up_count(&probe, PERF_RECORD_SAMPLE));
	rec = up_nth(&probe, PERF_RECORD_SAMPLE, 0);
	ASSERT_EQ(1, up_count_cookie(&probe, rec->cookie));
	want(&self->w, A(ip));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	EXPECT_WANT(up_find_cookie(&probe, rec->cookie));
	up_close(&probe);
}
#endif

/* The sigreturn system call itself: the frame is still on the stack. */
TEST_F(walk, sample_in_sigreturn_shows_the_interrupted_function)
{
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);

	sample_syscall(_metadata, self, NR_SIGRETURN);
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_empty, SA_SIGINFO, restorer_rt));
	want(&self->w, A(restorer_rt_end));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	EXPECT_WANT(sample(_metadata, self, &p));
}

#ifndef __x86_64__
TEST_F(walk, sample_in_old_sigreturn_shows_the_interrupted_function)
{
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);

	sample_syscall(_metadata, self, 119);
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_empty, 0, restorer_old));
	want(&self->w, A(restorer_old_end));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	EXPECT_WANT(sample(_metadata, self, &p));
}
#endif

/* The signal's own sample is taken on the stack as it was interrupted. */
TEST_F(walk, sample_at_signal_delivery_shows_the_stack_before_the_frame)
{
	struct probe p = probe_kill(stub_plain, self->sp, build(self->fp, 4), SIGUSR1);
	struct perf_event_attr attr;
	struct up_ring ring;
	struct up_rec *rec;

	if (must_skip(_metadata, need_tracepoint("signal", "signal_deliver")))
		return;
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("signal", "signal_deliver"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	ASSERT_EQ(0, up_open(&ring, &attr, 0, -1, -1));
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt));
	ASSERT_EQ(0, up_enable(&ring));
	probe_at(&p);
	ASSERT_EQ(0, up_disable(&ring));
	up_drain(&ring);
	ASSERT_EQ(1, up_count(&ring, PERF_RECORD_SAMPLE));
	rec = up_nth(&ring, PERF_RECORD_SAMPLE, 0);
	ASSERT_TRUE(rec->deferred);
	ASSERT_EQ(1, up_count_cookie(&ring, rec->cookie));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	EXPECT_WANT(up_find_cookie(&ring, rec->cookie));
	up_close(&ring);
}

#if defined(__x86_64__) && !defined(__ILP32__)
/* What the kernel pushes: struct ucontext behind the return address */
struct forged_frame {
	uint64_t uc_flags;
	uint64_t uc_link;
	uint64_t uc_stack[3];
	uint64_t gregs[23];
};

/* Forge a signal frame that says: interrupted at ip, with sp and fp. */
static void forge_frame(unsigned long at, uint64_t ip, uint64_t sp, uint64_t fp)
{
	struct forged_frame *frame = (void *)at;

	memset(frame, 0, sizeof(*frame));
	/* r8..r15 di si bp bx dx ax cx sp ip flags cs+gs+fs+ss */
	frame->gregs[10] = fp;
	frame->gregs[15] = sp;
	frame->gregs[16] = ip;
	frame->gregs[17] = 0x202;
	frame->gregs[18] = 0x33 | (0x2bULL << 48);
}

/* Signal frames that a walk passes: UNWIND_USER_MAX_SIGNALS of the kernel */
#define MAX_SIGNALS	16

TEST_F(walk, signal_frames_in_a_circle_end_the_walk)
{
	struct up_rec *rec;
	struct probe p;
	uint64_t i;
	size_t wrong = 0;

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt));
	put_frame(self->fp, 0, A(restorer_rt));
	forge_frame(self->fp + 2 * W, A(stub_plain_ip), self->sp, self->fp);
	p = probe_of(stub_plain, self->sp, self->fp, NR_GETPPID);
	rec = sample(_metadata, self, &p);
	/* Where it began, two for each frame that was passed, a trampoline. */
	ASSERT_EQ(1 + 2 * MAX_SIGNALS + 1, rec->nr);
	for (i = 0; i < rec->nr; i++)
		wrong += rec->ips[i] != (i & 1 ? A(restorer_rt) : A(stub_plain_ip));
	EXPECT_EQ(0, wrong);
}

/* The registers in a signal frame are user memory like any other. */
static void check_forged(struct __test_metadata *_metadata, struct _test_data_walk *self,
			 uint64_t ip, uint64_t sp, uint64_t fp)
{
	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt));
	put_frame(self->fp, 0, A(restorer_rt));
	forge_frame(self->fp + 2 * W, ip, sp, fp);
	check_stub(_metadata, self, stub_plain, self->fp);
}

TEST_F(walk, kernel_address_in_a_signal_frame_is_not_stored)
{
	static const uint64_t bad[] = {
		0xffffffff81000000, 0xffff800000000000, 0x0100000000000000,
		(uint64_t)-1, (uint64_t)-512, (uint64_t)-640,
	};
	unsigned int i;

	want(&self->w, A(stub_plain_ip));
	want(&self->w, A(restorer_rt));
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		check_forged(_metadata, self, bad[i], self->sp,
			     build(self->stack + STACK_SIZE - PAGE, 2));
}

TEST_F(walk, kernel_frame_pointer_in_a_signal_frame_is_not_followed)
{
	want(&self->w, A(stub_plain_ip));
	want(&self->w, A(restorer_rt));
	want(&self->w, A(stub_plain_ip));
	check_forged(_metadata, self, A(stub_plain_ip), self->sp, 0xffffffff81000000);
	check_forged(_metadata, self, A(stub_plain_ip), self->sp, 0xffff888000000000);
}

TEST_F(walk, signal_frame_in_an_unmapped_page_ends_the_walk)
{
	unsigned long end = self->stack + STACK_SIZE - 2 * PAGE;

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt));
	ASSERT_EQ(0, munmap((void *)end, PAGE));
	/* The frames that the frame pointer leads to are not its caller's. */
	put_frame(end - 2 * W, build(end + PAGE, 2), A(restorer_rt));
	want(&self->w, A(stub_plain_ip));
	want(&self->w, A(restorer_rt));
	check_stub(_metadata, self, stub_plain, end - 2 * W);
}
#endif

/* ------------------------------------------------------------------------ */
/* Malformed stacks							     */

TEST_F(walk, frame_pointing_to_itself_ends_the_walk)
{
	put_frame(self->fp, self->fp, RA(0));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 1);
	check_stub(_metadata, self, stub_plain, self->fp);
}

TEST_F(walk, loop_of_two_frames_ends_the_walk)
{
	put_frame(self->fp, self->fp + 4 * W, RA(0));
	put_frame(self->fp + 4 * W, self->fp, RA(1));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 2);
	check_stub(_metadata, self, stub_plain, self->fp);
}

TEST_F(walk, descending_frames_end_the_walk)
{
	put_frame(self->fp, self->fp - 4 * W, RA(0));
	put_frame(self->fp - 4 * W, 0, RA(1));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 1);
	check_stub(_metadata, self, stub_plain, self->fp);
}

TEST_F(walk, overlapping_frames_end_the_walk)
{
	put(self->fp, self->fp + W);
	put(self->fp + W, self->fp + 8 * W);
	put(self->fp + 2 * W, RA(1));
	want(&self->w, A(stub_plain_ip));
	want(&self->w, self->fp + 8 * W);
	check_stub(_metadata, self, stub_plain, self->fp);
}

TEST_F(walk, frame_pointer_below_the_stack_pointer_is_not_followed)
{
	put_frame(self->sp - 4 * W, 0, RA(0));
	want(&self->w, A(stub_plain_ip));
	check_stub(_metadata, self, stub_plain, self->sp - 4 * W);
}

TEST_F(walk, unaligned_frame_pointers_end_the_walk)
{
	unsigned int i;

	for (i = 1; i < W; i++) {
		memset((void *)self->fp, 0, 64 * W);
		put_frame(self->fp + i, 0, RA(7));
		self->w.nr = 0;
		want(&self->w, A(stub_plain_ip));
		check_stub(_metadata, self, stub_plain, self->fp + i);

		/* The same one frame further */
		put_frame(self->fp + 8 * W + i, 0, RA(7));
		put_frame(self->fp, self->fp + 8 * W + i, RA(0));
		want_frames(&self->w, 0, 1);
		check_stub(_metadata, self, stub_plain, self->fp);
	}
}

TEST_F(walk, unmapped_frame_pointer_ends_the_walk)
{
	unsigned long hole = self->stack + STACK_SIZE - 4 * PAGE;

	ASSERT_EQ(0, munmap((void *)hole, PAGE));
	want(&self->w, A(stub_plain_ip));
	check_stub(_metadata, self, stub_plain, hole + 64);

	put_frame(self->fp, hole + 64, RA(0));
	want_frames(&self->w, 0, 1);
	check_stub(_metadata, self, stub_plain, self->fp);
}

TEST_F(walk, unreadable_frame_pointer_ends_the_walk)
{
	unsigned long page = self->stack + STACK_SIZE - 4 * PAGE;

	put_frame(page + 64, 0, RA(9));
	ASSERT_EQ(0, mprotect((void *)page, PAGE, PROT_NONE));
	put_frame(self->fp, page + 64, RA(0));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 1);
	check_stub(_metadata, self, stub_plain, self->fp);
}

TEST_F(walk, frame_cut_by_an_unmapped_page_ends_the_walk)
{
	unsigned long hole = self->stack + STACK_SIZE - 4 * PAGE;

	ASSERT_EQ(0, munmap((void *)hole, PAGE));
	put(hole - W, hole + 2 * PAGE);
	want(&self->w, A(stub_plain_ip));
	check_stub(_metadata, self, stub_plain, hole - W);
}

TEST_F(walk, frame_past_a_file_s_end_ends_the_walk)
{
	int fd = syscall(SYS_memfd_create, "short", 0);
	unsigned long page = self->stack + STACK_SIZE - 4 * PAGE;

	ASSERT_LE(0, fd);
	ASSERT_EQ(page, A(mmap((void *)page, PAGE, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_FIXED, fd, 0)));
	put_frame(self->fp, page, RA(0));
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 1);
	check_stub(_metadata, self, stub_plain, self->fp);
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

	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 1);
	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		put_frame(self->fp, self->fp + 4 * W, RA(0));
		put_frame(self->fp + 4 * W, self->fp + 8 * W, bad_addresses[i]);
		put_frame(self->fp + 8 * W, 0, RA(2));
		check_stub(_metadata, self, stub_plain, self->fp);
	}
}

TEST_F(walk, first_address_behind_user_space_is_not_stored)
{
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 1);
	put_frame(self->fp, self->fp + 4 * W, RA(0));
	put_frame(self->fp + 4 * W, self->fp + 8 * W, self->user_end);
	put_frame(self->fp + 8 * W, 0, RA(2));
	check_stub(_metadata, self, stub_plain, self->fp);

	/* Found by another method */
	put_frame(self->fp, self->fp + 4 * W, self->user_end);
	self->w.nr = 1;
	check_stub(_metadata, self, stub_plain, self->fp);
}

TEST_F(walk, last_address_of_user_space_is_stored)
{
	want(&self->w, A(stub_plain_ip));
	want(&self->w, self->user_end - 1);
	want(&self->w, self->user_end - 1);
	put_frame(self->fp, self->fp + 4 * W, self->user_end - 1);
	put_frame(self->fp + 4 * W, 0, self->user_end - 1);
	check_stub(_metadata, self, stub_plain, self->fp);
}

/* The kernel's own addresses of this very stack would look like frames. */
TEST_F(walk, frames_in_the_kernels_mapping_of_the_stack_are_not_followed)
{
	uint64_t frame;
	int i, j;

	put_frame(self->stack, 0, RA(100));
	frame = kernel_alias(self->stack);
	ASSERT_NE(0, frame);

	/* As the frame pointer, and behind so many frames */
	want(&self->w, A(stub_plain_ip));
	check_stub(_metadata, self, stub_plain, frame);
	for (i = 1; i <= 10; i++) {
		for (j = 0; j < i; j++)
			put_frame(self->fp + 4 * W * j,
				  j == i - 1 ? frame : self->fp + 4 * W * (j + 1), RA(j));
		self->w.nr = 1;
		want_frames(&self->w, 0, i);
		check_stub(_metadata, self, stub_plain, self->fp);
	}
}

TEST_F(walk, bad_frame_pointer_is_not_followed)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		self->w.nr = 0;
		want(&self->w, A(stub_plain_ip));
		check_stub(_metadata, self, stub_plain, bad_addresses[i]);

		put_frame(self->fp, bad_addresses[i], RA(0));
		want_frames(&self->w, 0, 1);
		check_stub(_metadata, self, stub_plain, self->fp);
	}
}

/* At a function's start the bad word is at the top of the stack. */
TEST_F(walk, bad_return_address_of_a_function_at_its_push_is_not_stored)
{
	unsigned int i;
	uint64_t j;
	size_t wrong = 0;

	for (i = 0; i < ARRAY_SIZE(bad_addresses); i++) {
		struct probe p = probe_of(stub_push, self->sp, build(self->fp, 2),
					  NR_GETPPID);
		struct up_rec *rec;

		put(self->sp, bad_addresses[i]);
		rec = sample(_metadata, self, &p);
		ASSERT_LT(0, rec->nr);
		EXPECT_EQ(A(stub_push_ip), rec->ips[0]);
		for (j = 0; j < rec->nr; j++)
			wrong += rec->ips[j] >= self->user_end;
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
		self->w.nr = 0;
		want(&self->w, A(stub_plain_ip));
		check_stub(_metadata, self, stub_plain, bad[i]);

		put_frame(self->fp, bad[i], RA(0));
		want_frames(&self->w, 0, 1);
		check_stub(_metadata, self, stub_plain, self->fp);
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
	struct storm storm = { .fp = self->fp };
	struct probe p = probe_of(stub_plain, self->sp, self->fp, NR_GETPPID);
	size_t n, i, records = 0;
	pthread_t thread;
	uint64_t j;
	size_t wrong = 0;

	build(self->fp, 64);
	ASSERT_EQ(0, pthread_create(&thread, NULL, storm_thread, &storm));
	ASSERT_EQ(0, up_enable(&self->ring));
	for (n = 0; n < 20; n++) {
		for (i = 0; i < 200; i++)
			probe_at(&p);
		up_drain(&self->ring);
		EXPECT_EQ(0, up_count_bad(&self->ring));
		EXPECT_EQ(0, up_count_lost(&self->ring));
		EXPECT_EQ(200, up_count(&self->ring, PERF_RECORD_SAMPLE));
		EXPECT_EQ(200, up_count(&self->ring, UT_RECORD_CALLCHAIN_DEFERRED));
		for (i = 0; i < self->ring.nr_recs; i++) {
			struct up_rec *rec = &self->ring.recs[i];

			if (rec->type != UT_RECORD_CALLCHAIN_DEFERRED)
				continue;
			records++;
			ASSERT_LT(0, rec->nr);
			ASSERT_GE(UT_MAX_ENTRIES, rec->nr);
			ASSERT_EQ(A(stub_plain_ip), rec->ips[0]);
			for (j = 0; j < rec->nr; j++)
				wrong += rec->ips[j] >= self->user_end;
			ASSERT_EQ(0, wrong);
		}
		up_forget(&self->ring);
	}
	EXPECT_EQ(4000, records);
	ASSERT_EQ(0, up_disable(&self->ring));
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

/* Either the page is there or it is not: one of two traces, nothing else. */
TEST_F(walk, page_vanishing_under_the_walk_gives_a_shorter_trace)
{
	unsigned long page = self->stack + STACK_SIZE - 4 * PAGE;
	struct storm storm = { .fp = page };
	struct probe p;
	pthread_t thread;
	size_t i;

	build(page, 5);
	put_frame(self->fp, page, RA(50));
	want(&self->w, A(stub_plain_ip));
	want(&self->w, RA(50));
	want_frames(&self->w, 0, 5);
	p = probe_of(stub_plain, self->sp, self->fp, NR_GETPPID);
	ASSERT_EQ(0, pthread_create(&thread, NULL, unmap_thread, &storm));
	for (i = 0; i < 500; i++) {
		struct up_rec *rec = sample(_metadata, self, &p);

		ASSERT_LE(2, rec->nr);
		ASSERT_GE(self->w.nr, rec->nr);
		ASSERT_TRUE(up_frames_equal(rec->ips, rec->nr, self->w.ips, rec->nr));
	}
	end_storm(&storm);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

/* ------------------------------------------------------------------------ */
/* Stack pages that are not there					     */

/* The deferred trace is whole where the one taken in place is short. */
static void check_absent(struct __test_metadata *_metadata, struct _test_data_walk *self,
			 struct probe *p, bool control)
{
	struct up_ring in_place;
	struct up_rec *rec;

	ASSERT_EQ(0, open_syscall_event(&in_place, NR_GETPPID, 0));
	ASSERT_EQ(0, control ? up_enable(&in_place) : 0);
	rec = sample(_metadata, self, p);
	EXPECT_WANT(rec);
	up_disable(&in_place);
	up_drain(&in_place);
	if (control) {
		ASSERT_EQ(1, up_count(&in_place, PERF_RECORD_SAMPLE));
		rec = up_nth(&in_place, PERF_RECORD_SAMPLE, 0);
		ASSERT_TRUE(rec->has_user);
		EXPECT_EQ(1, rec->nr_user);
	}
	up_close(&in_place);
}

TEST_F(walk, dropped_stack_pages_are_faulted_in)
{
	unsigned long fp, first;
	struct probe p;
	int i;

	stack_from_file(_metadata, self);
	first = self->sp + PAGE - W;
	want(&self->w, A(stub_plain_ip));
	for (i = 0, fp = first; i < 6; i++, fp += 3 * PAGE) {
		put_frame(fp, i == 5 ? 0 : fp + 3 * PAGE, RA(i));
		want(&self->w, RA(i));
	}
	ASSERT_EQ(0, madvise((void *)self->stack, STACK_SIZE, MADV_DONTNEED));
	p = probe_of(stub_plain, self->sp, first, NR_GETPPID);
	check_absent(_metadata, self, &p, true);
}

TEST_F(walk, never_touched_stack_pages_are_faulted_in)
{
	word frame[2] = { 0, RA(3) };
	unsigned long page;
	struct probe p;
	int fd;

	fd = syscall(SYS_memfd_create, "stack", 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, STACK_SIZE));
	ASSERT_EQ(sizeof(frame), pwrite(fd, frame, sizeof(frame), 64 * PAGE));
	page = A(mmap(NULL, STACK_SIZE, PROT_READ, MAP_PRIVATE, fd, 0));
	ASSERT_NE(A(MAP_FAILED), page);
	put_frame(self->fp, page + 64 * PAGE, RA(0));
	want(&self->w, A(stub_plain_ip));
	want(&self->w, RA(0));
	if (page > self->stack)
		want(&self->w, RA(3));
	p = probe_of(stub_plain, self->sp, self->fp, NR_GETPPID);
	check_absent(_metadata, self, &p, false);
	close(fd);
}

TEST_F(walk, function_start_on_a_dropped_stack_page_keeps_its_caller)
{
	struct probe p;

	stack_from_file(_metadata, self);
	put(self->sp, RA(100));
	want(&self->w, A(stub_push_ip));
	want(&self->w, RA(100));
	want_frames(&self->w, 0, 3);
	p = probe_of(stub_push, self->sp, build(self->fp, 3), NR_GETPPID);
	ASSERT_EQ(0, madvise((void *)self->stack, STACK_SIZE, MADV_DONTNEED));
	check_absent(_metadata, self, &p, false);
}

/* A page whose contents come from a thread, when it is asked for */
struct supplier {
	int uffd;
	unsigned long page;
	void *data;
	int asked;
};

static bool supplier_init(struct supplier *s, unsigned long page)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { page, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	memset(s, 0, sizeof(*s));
	s->page = page;
	s->uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (s->uffd < 0)
		return false;
	return !madvise((void *)page, PAGE, MADV_DONTNEED) &&
	       !ioctl(s->uffd, UFFDIO_API, &api) &&
	       !ioctl(s->uffd, UFFDIO_REGISTER, &reg);
}

static bool supplier_wait(struct supplier *s)
{
	struct uffd_msg msg;

	if (read(s->uffd, &msg, sizeof(msg)) != sizeof(msg))
		return false;
	s->asked++;
	return msg.event == UFFD_EVENT_PAGEFAULT &&
	       (msg.arg.pagefault.address & ~(PAGE - 1)) == s->page;
}

static void *supply(void *data)
{
	struct supplier *s = data;
	struct uffdio_copy copy = {
		.dst = s->page, .src = A(s->data), .len = PAGE,
	};

	if (supplier_wait(s))
		ioctl(s->uffd, UFFDIO_COPY, &copy);
	return NULL;
}

TEST_F(walk, page_that_another_thread_supplies_is_waited_for)
{
	unsigned long page = self->stack + STACK_SIZE - 4 * PAGE;
	static word contents[PAGE / sizeof(word)];
	struct supplier s;
	pthread_t thread;
	struct probe p;

	if (must_skip(_metadata, need_file("/proc/sys/vm/unprivileged_userfaultfd")))
		return;
	contents[0] = 0;
	contents[1] = RA(7);
	put_frame(self->fp, page, RA(0));
	ASSERT_TRUE(supplier_init(&s, page));
	s.data = contents;
	want(&self->w, A(stub_plain_ip));
	want(&self->w, RA(0));
	want(&self->w, RA(7));
	p = probe_of(stub_plain, self->sp, self->fp, NR_GETPPID);
	ASSERT_EQ(0, pthread_create(&thread, NULL, supply, &s));
	EXPECT_WANT(sample(_metadata, self, &p));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(1, s.asked);
}

/* The walk waits for a page that never comes, until the task is killed. */
static void *kill_when_asked(void *data)
{
	if (supplier_wait(data))
		kill(getpid(), SIGKILL);
	return NULL;
}

TEST_F(walk, walk_that_waits_for_a_page_can_be_killed)
{
	unsigned long page = self->stack + STACK_SIZE - 4 * PAGE;
	struct up_rec *rec, *deferred;
	struct perf_event_attr attr;
	int status, go[2];
	pid_t pid;

	if (must_skip(_metadata, need_file("/proc/sys/vm/unprivileged_userfaultfd")))
		return;
	put_frame(self->fp, page, RA(0));
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct probe p = probe_of(stub_plain, self->sp, self->fp, NR_GETPPID);
		struct supplier s;
		pthread_t thread;
		char c;

		if (!supplier_init(&s, page) ||
		    pthread_create(&thread, NULL, kill_when_asked, &s) ||
		    read(go[0], &c, 1) != 1)
			_exit(1);
		probe_at(&p);
		_exit(2);
	}
	up_close(&self->ring);
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	ASSERT_EQ(0, up_open(&self->ring, &attr, pid, -1, -1));
	ASSERT_TRUE(set_filter(self->ring.fd, NR_GETPPID));
	ASSERT_EQ(0, up_enable(&self->ring));
	ASSERT_EQ(1, write(go[1], "x", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGKILL, WTERMSIG(status));
	up_drain(&self->ring);
	EXPECT_EQ(0, up_count_bad(&self->ring));
	ASSERT_EQ(1, up_count(&self->ring, PERF_RECORD_SAMPLE));
	rec = up_nth(&self->ring, PERF_RECORD_SAMPLE, 0);
	ASSERT_EQ(1, up_count_cookie(&self->ring, rec->cookie));
	deferred = up_find_cookie(&self->ring, rec->cookie);
	want(&self->w, A(stub_plain_ip));
	want(&self->w, RA(0));
	EXPECT_WANT(deferred);
}

/* ------------------------------------------------------------------------ */
/* 32-bit entries							     */

#ifndef __x86_64__
static void need_vsyscall(struct __test_metadata *_metadata)
{
	vsyscall_entry = getauxval(AT_SYSINFO);
	ASSERT_NE(0, vsyscall_entry);
}

/*
 * sysenter, syscall or int $0x80, whichever this CPU has: the vDSO's entry has
 * pushed three registers, the frame pointer last, and its caller must be kept.
 */
TEST_F(walk, system_call_through_the_vdso_finds_the_frames)
{
	struct probe p = probe_of(stub_call, self->sp, build(self->fp, 2), NR_GETPPID);
	unsigned long base = getauxval(AT_SYSINFO_EHDR);
	struct up_rec *rec;

	need_vsyscall(_metadata);
	p.args[0] = A(vsyscall_fn);
	rec = sample(_metadata, self, &p);
	ASSERT_LT(0, rec->nr);
	EXPECT_LE(base, rec->ips[0]);
	EXPECT_GT(base + 2 * PAGE, rec->ips[0]);
	want(&self->w, rec->ips[0]);
	want(&self->w, A(vsyscall_fn_ret));
	want(&self->w, A(stub_call_ret));
	want_frames(&self->w, 0, 2);
	EXPECT_WANT(rec);
}
#endif

#if defined(__x86_64__) && !defined(__ILP32__)
/* Emulated when fetched: its address is in the kernel's half, its caller is not */
TEST_F(walk, vsyscall_shows_its_caller)
{
	struct probe p = probe_of(stub_vsyscall_time, self->sp, build(self->fp, 3), 0);
	struct perf_event_attr attr;
	struct up_ring ring;
	struct up_rec *rec;

	if (must_skip(_metadata, need_tracepoint("vsyscall", "emulate_vsyscall")))
		return;
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("vsyscall", "emulate_vsyscall"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	ASSERT_EQ(0, up_open(&ring, &attr, 0, -1, -1));
	ASSERT_EQ(0, up_enable(&ring));
	probe_at(&p);
	ASSERT_EQ(0, up_disable(&ring));
	up_drain(&ring);
	ASSERT_EQ(1, up_count(&ring, PERF_RECORD_SAMPLE));
	rec = up_nth(&ring, PERF_RECORD_SAMPLE, 0);
	ASSERT_TRUE(rec->deferred);
	ASSERT_EQ(1, up_count_cookie(&ring, rec->cookie));
	want(&self->w, A(stub_vsyscall_time_ret));
	want_frames(&self->w, 0, 3);
	EXPECT_WANT(up_find_cookie(&ring, rec->cookie));
	up_close(&ring);
}
#endif

#if defined(__x86_64__) && !defined(__ILP32__)
static void return_from_vsyscall(int sig, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	regs[REG_RIP] = *(greg_t *)regs[REG_RSP];
	regs[REG_RSP] += 8;
}

/* One that is not emulated: the IP is still there when the signal comes. */
TEST_F(walk, vsyscall_that_faults_shows_its_caller)
{
	struct probe p = probe_of(stub_vsyscall_bad, self->sp, build(self->fp, 3), 0);
	struct sigaction sa = { .sa_flags = SA_SIGINFO };
	struct perf_event_attr attr;
	struct up_ring ring;
	struct up_rec *rec;

	if (must_skip(_metadata, need_tracepoint("signal", "signal_generate")))
		return;
	sa.sa_sigaction = return_from_vsyscall;
	ASSERT_EQ(0, sigaction(SIGSEGV, &sa, NULL));
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("signal", "signal_generate"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	ASSERT_EQ(0, up_open(&ring, &attr, 0, -1, -1));
	ASSERT_EQ(0, up_enable(&ring));
	probe_at(&p);
	ASSERT_EQ(0, up_disable(&ring));
	up_drain(&ring);
	ASSERT_EQ(1, up_count(&ring, PERF_RECORD_SAMPLE));
	rec = up_nth(&ring, PERF_RECORD_SAMPLE, 0);
	ASSERT_TRUE(rec->deferred);
	ASSERT_EQ(1, up_count_cookie(&ring, rec->cookie));
	want(&self->w, A(stub_vsyscall_bad_ret));
	want_frames(&self->w, 0, 3);
	EXPECT_WANT(up_find_cookie(&ring, rec->cookie));
	up_close(&ring);
}
#endif

/* ------------------------------------------------------------------------ */
/* Segments								     */

#if defined(__x86_64__) && !defined(__ILP32__)
#define USER32_CS	0x23
#define USER_DS		0x2b
#define LDT_CODE	0
#define LDT_DATA	1
#define LDT_SELECTOR(n)	((n) << 3 | 7)
#define NR_GETPPID_32	64

static void set_ldt(struct __test_metadata *_metadata, int entry, uint32_t base,
		    bool code)
{
	/*
	 * 32 bits, code or data, readable or writable, limit in pages, present,
	 * free for use
	 */
	struct user_desc desc = {
		entry, base, 0xfffff, 1, code ? 2 : 0, 0, 1, 0, 1
	};

	ASSERT_EQ(0, syscall(SYS_modify_ldt, 0x11, &desc, sizeof(desc)));
}

static void put32(unsigned long at, uint32_t val)
{
	*(uint32_t *)at = val;
}

/* Frames as 32-bit code in these segments would lay them. */
static void build32(unsigned long fp, int n, uint32_t cs_base, uint32_t ss_base)
{
	int i;

	for (i = 0; i < n; i++, fp += 16) {
		put32(fp, i == n - 1 ? 0 : fp + 16 - ss_base);
		put32(fp + 4, (uint32_t)RA(i) - cs_base);
	}
}

/*
 * All addresses here are linear ones; what the code sees is less the bases. A
 * last frame pointer of 0 is linear address ss_base, so that must not lie above.
 */
static void run_far(struct __test_metadata *_metadata, struct _test_data_walk *self,
		    void *code, uint32_t cs, uint32_t cs_base, uint32_t ss,
		    uint32_t ss_base)
{
	struct probe p = probe_of(stub_far, self->sp + 16 * W,
				  (uint32_t)(self->fp - ss_base), NR_GETPPID_32);
	struct up_rec *rec;

	p.args[0] = cs;
	p.args[1] = (uint32_t)(A(code) - cs_base);
	p.args[2] = ss;
	p.args[3] = (uint32_t)(self->sp - ss_base);
	sample_syscall(_metadata, self, NR_GETPPID_32);
	rec = sample(_metadata, self, &p);
	EXPECT_WANT(rec);
}

static void check_far(struct __test_metadata *_metadata, struct _test_data_walk *self,
		      void *code, uint32_t cs, uint32_t cs_base, uint32_t ss,
		      uint32_t ss_base)
{
	build32(self->fp, 4, cs_base, ss_base);
	run_far(_metadata, self, code, cs, cs_base, ss, ss_base);
}

TEST_F(walk, flat_32_bit_code_in_a_64_bit_task_is_walked)
{
	want(&self->w, A(far_plain_ip));
	want_frames(&self->w, 0, 4);
	check_far(_metadata, self, far_plain, USER32_CS, 0, USER_DS, 0);
}

TEST_F(walk, flat_32_bit_function_start_in_a_64_bit_task_keeps_its_caller)
{
	put32(self->sp, RA(100));
	want(&self->w, A(far_push_ip));
	want(&self->w, RA(100));
	want_frames(&self->w, 0, 4);
	check_far(_metadata, self, far_push, USER32_CS, 0, USER_DS, 0);
}

TEST_F(walk, ldt_code_segment_base_is_added_to_every_address)
{
	set_ldt(_metadata, LDT_CODE, 0x10000, true);
	want(&self->w, A(far_plain_ip));
	want_frames(&self->w, 0, 4);
	check_far(_metadata, self, far_plain, LDT_SELECTOR(LDT_CODE), 0x10000,
		  USER_DS, 0);
}

TEST_F(walk, ldt_stack_segment_base_is_added_to_every_frame_pointer)
{
	set_ldt(_metadata, LDT_DATA, 0x20000, false);
	want(&self->w, A(far_plain_ip));
	want_frames(&self->w, 0, 4);
	check_far(_metadata, self, far_plain, USER32_CS, 0,
		  LDT_SELECTOR(LDT_DATA), 0x20000);
}

TEST_F(walk, ldt_code_and_stack_segments_with_bases_are_walked)
{
	set_ldt(_metadata, LDT_CODE, 0x10000, true);
	set_ldt(_metadata, LDT_DATA, 0x20000, false);
	want(&self->w, A(far_plain_ip));
	want_frames(&self->w, 0, 4);
	check_far(_metadata, self, far_plain, LDT_SELECTOR(LDT_CODE), 0x10000,
		  LDT_SELECTOR(LDT_DATA), 0x20000);
}

TEST_F(walk, function_start_in_an_ldt_segment_keeps_its_caller)
{
	set_ldt(_metadata, LDT_CODE, 0x10000, true);
	set_ldt(_metadata, LDT_DATA, 0x20000, false);
	put32(self->sp, RA(100) - 0x10000);
	want(&self->w, A(far_push_ip));
	want(&self->w, RA(100));
	want_frames(&self->w, 0, 4);
	check_far(_metadata, self, far_push, LDT_SELECTOR(LDT_CODE), 0x10000,
		  LDT_SELECTOR(LDT_DATA), 0x20000);
}

TEST_F(walk, ret_in_an_ldt_segment_keeps_its_caller)
{
	set_ldt(_metadata, LDT_CODE, 0x10000, true);
	set_ldt(_metadata, LDT_DATA, 0x20000, false);
	put32(self->sp, A(far_ret_to) - 0x10000);
	want(&self->w, A(far_ret_ip));
	want(&self->w, A(far_ret_to));
	want_frames(&self->w, 0, 4);
	check_far(_metadata, self, far_ret, LDT_SELECTOR(LDT_CODE), 0x10000,
		  LDT_SELECTOR(LDT_DATA), 0x20000);
}

/* The outermost frame's: offset 0 is not an address, base or not. */
TEST_F(walk, return_address_of_0_in_an_ldt_segment_ends_the_walk)
{
	int i;

	set_ldt(_metadata, LDT_CODE, 0x10000, true);
	for (i = 0; i < 3; i++) {
		self->w.nr = 0;
		want(&self->w, A(far_plain_ip));
		want_frames(&self->w, 0, i);
		build32(self->fp, 4, 0x10000, 0);
		put32(self->fp + i * 16 + 4, 0);
		run_far(_metadata, self, far_plain, LDT_SELECTOR(LDT_CODE), 0x10000,
			USER_DS, 0);
	}
}

/* Offsets that wrap: the sum is cut to 32 bits, as the CPU cuts it. */
TEST_F(walk, ldt_base_above_the_addresses_wraps)
{
	set_ldt(_metadata, LDT_CODE, 0xe0000000, true);
	want(&self->w, A(far_plain_ip));
	want_frames(&self->w, 0, 4);
	check_far(_metadata, self, far_plain, LDT_SELECTOR(LDT_CODE), 0xe0000000,
		  USER_DS, 0);
}

/*
 * The selectors in a signal frame are made up as easily as its addresses. The
 * GDT's own segments begin where the kernel has its structures, and no such base
 * must be found out by the stack that a walk reads with it.
 */
TEST_F(walk, kernel_segment_in_a_signal_frame_has_no_base)
{
	/* The task state segment's halves, the LDT's, data, per CPU */
	static const unsigned int selectors[] = { 0x43, 0x4b, 0x53, 0x5b, 0x1b, 0x7b };
	unsigned long stack = self->stack + STACK_SIZE - PAGE;
	struct forged_frame *frame = (void *)(self->fp + 2 * W);
	unsigned int i;

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt));
	put_frame(self->fp, 0, A(restorer_rt));
	build32(stack, 4, 0, 0);
	want(&self->w, A(stub_plain_ip));
	want(&self->w, A(restorer_rt));
	want(&self->w, A(far_plain_ip));
	want_frames(&self->w, 0, 4);
	for (i = 0; i < ARRAY_SIZE(selectors); i++) {
		forge_frame((unsigned long)frame, A(far_plain_ip), self->sp, stack);
		frame->gregs[18] = USER32_CS | (uint64_t)selectors[i] << 48;
		check_stub(_metadata, self, stub_plain, self->fp);
	}
}

/* Nor does user space run in the kernel's code segment. */
TEST_F(walk, kernel_code_segment_in_a_signal_frame_ends_the_walk)
{
	static const unsigned int selectors[] = { 0x13, 0x0b, 0x1b, 0x43, 0x7b };
	unsigned long stack = self->stack + STACK_SIZE - PAGE;
	struct forged_frame *frame = (void *)(self->fp + 2 * W);
	unsigned int i;

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt));
	put_frame(self->fp, 0, A(restorer_rt));
	build32(stack, 4, 0, 0);
	want(&self->w, A(stub_plain_ip));
	want(&self->w, A(restorer_rt));
	for (i = 0; i < ARRAY_SIZE(selectors); i++) {
		forge_frame((unsigned long)frame, A(far_plain_ip), self->sp, stack);
		frame->gregs[18] = selectors[i] | (uint64_t)USER_DS << 48;
		check_stub(_metadata, self, stub_plain, self->fp);
	}
}

/* sigreturn makes them user space's, whatever the lowest bits say. */
TEST_F(walk, selectors_in_a_signal_frame_are_those_of_user_space)
{
	unsigned long stack = self->stack + STACK_SIZE - PAGE;
	struct forged_frame *frame = (void *)(self->fp + 2 * W);

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_probe, SA_SIGINFO, restorer_rt));
	put_frame(self->fp, 0, A(restorer_rt));
	want(&self->w, A(stub_plain_ip));
	want(&self->w, A(restorer_rt));
	want(&self->w, A(far_plain_ip));
	want_frames(&self->w, 0, 4);

	build(stack, 4);
	forge_frame((unsigned long)frame, A(far_plain_ip), self->sp, stack);
	frame->gregs[18] = 0x30 | 0x28ULL << 48;
	check_stub(_metadata, self, stub_plain, self->fp);

	build32(stack, 4, 0, 0);
	forge_frame((unsigned long)frame, A(far_plain_ip), self->sp, stack);
	frame->gregs[18] = 0x20 | 0x28ULL << 48;
	check_stub(_metadata, self, stub_plain, self->fp);
}

/* What the kernel pushes for 32-bit code, from the registers on */
struct forged_regs_32 {
	uint32_t seg[4];
	uint32_t di, si, bp, sp, bx, dx, cx, ax;
	uint32_t trapno, err, ip, cs, flags, sp_at_signal, ss;
};

/*
 * A handler of 32-bit code that has switched to a stack segment of its own: the
 * frame is at an offset in that, and so is the stack that it leads to.
 */
TEST_F(walk, signal_frame_in_an_ldt_segment_leads_to_the_interrupted_function)
{
	/* mov $173, %eax; int $0x80, and pop %eax; mov $119, %eax; int $0x80 */
	static const unsigned char rt[] = { 0xb8, 0xad, 0, 0, 0, 0xcd, 0x80 };
	static const unsigned char old[] = { 0x58, 0xb8, 0x77, 0, 0, 0, 0xcd, 0x80 };
	unsigned long at = self->stack + STACK_SIZE - PAGE;
	unsigned long stack = at - PAGE;
	const uint32_t base = 0x20000;
	struct forged_regs_32 regs = {
		.bp = stack - base, .sp = self->sp - base, .ip = A(far_plain_ip),
		.cs = USER32_CS, .ss = LDT_SELECTOR(LDT_DATA),
	};
	int i;

	set_ldt(_metadata, LDT_DATA, base, false);
	memcpy((void *)at, rt, sizeof(rt));
	memcpy((void *)(at + 64), old, sizeof(old));
	for (i = 0; i < 2; i++) {
		self->w.nr = 0;
		want(&self->w, A(far_plain_ip));
		want(&self->w, at + 64 * i);
		want(&self->w, A(far_plain_ip));
		want_frames(&self->w, 0, 4);
		ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_empty, SA_SIGINFO,
					   (void *)(at + 64 * i)));
		put32(self->fp, 0);
		put32(self->fp + 4, at + 64 * i);
		memset((void *)(self->fp + 8), 0, 512);
		/* Both without the address that the handler's return popped */
		memcpy((void *)(self->fp + 8 + (i ? 4 : 12 + 128 + 20)), &regs, sizeof(regs));
		build32(stack, 4, 0, base);
		run_far(_metadata, self, far_plain, USER32_CS, 0,
			LDT_SELECTOR(LDT_DATA), base);
	}
}

/* After the far code, plain 64-bit frames again: no base is left over. */
TEST_F(walk, sixty_four_bit_code_after_segments_has_no_base)
{
	set_ldt(_metadata, LDT_CODE, 0x10000, true);
	set_ldt(_metadata, LDT_DATA, 0x20000, false);
	want(&self->w, A(far_plain_ip));
	want_frames(&self->w, 0, 4);
	check_far(_metadata, self, far_plain, LDT_SELECTOR(LDT_CODE), 0x10000,
		  LDT_SELECTOR(LDT_DATA), 0x20000);

	sample_syscall(_metadata, self, NR_GETPPID);
	self->w.nr = 0;
	want(&self->w, A(stub_plain_ip));
	want_frames(&self->w, 0, 4);
	check_stub(_metadata, self, stub_plain, build(self->fp, 4));
}
#endif

TEST_HARNESS_MAIN
