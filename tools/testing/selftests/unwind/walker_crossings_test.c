// SPDX-License-Identifier: GPL-2.0
/*
 * Walks that cross between 64-bit and 32-bit code, as they can at each signal frame: from
 * code of either kind, by each kind of frame, and several times. All 64-bit code has a table,
 * except the stub in which a walk begins; without the table, the walk ends in that code.
 *
 * Each stack is walked at the event and deferred, for the same system call. If a walk puts a
 * reference that it has not taken, the kernel's log shows that, at the latest when the memory
 * of the process is freed.
 */
#include <asm/ldt.h>
#include <elf.h>
#include <pthread.h>
#include <signal.h>

#include "table_lib.h"
#include "unwind_harness.h"
#include "walker_stubs.h"

/* Is this the 32-bit program? */
#ifdef __x86_64__
static const bool is_32;
#else
static const bool is_32 = true;
#endif

/* Crossings of a walk, each a signal frame: UNWIND_USER_MAX_SIGNALS of the kernel */
#define MAX_CROSSINGS	16
/* Addresses that code of one mode has in a trace */
#define PIECE_IPS	3

/* The memory of a test, below 4 GiB: code, which may be that of a file, and the rest */
#define SFRAME		0x400
#define INTERRUPTED	PAGE
#define CALLERS		(2 * PAGE)
#define OUTER		(3 * PAGE)
#define CODE_SIZE	(4 * PAGE)
#define TRAMPOLINES	CODE_SIZE
#define STACK		(TRAMPOLINES + PAGE)
#define STACK_SIZE	(16 * PAGE)

/* A frame pointer that leads nowhere */
#define NO_FP		1

#define SELECTOR(entry)	((entry) << 3 | 7)

/* 64-bit code, 32-bit code, and that in segments of the LDT: its addresses are less the bases. */
static const struct mode {
	char name;
	u16 cs, ss;
	u32 cs_base, ss_base;
} modes[] = {
	{ '6', 0x33, 0x2b, 0, 0 },
	{ '3', 0x23, 0x2b, 0, 0 },
	{ 'L', SELECTOR(0), SELECTOR(1), 0x10000, 0x20000 },
};

/* Offsets of registers in struct sigcontext, and the size of an address there */
static const struct sigregs {
	u8 ip, sp, fp, cs, ss, word;
} regs_32 = { 56, 28, 24, 60, 72, 4 }, regs_64 = { 128, 120, 80, 144, 150, 8 };

/*
 * A kind of signal frame: the code of its trampoline; and the distance from the return
 * address, which is that of the trampoline, to the registers
 */
static const struct kind {
	char name;
	u8 skip;
	const struct sigregs *regs;
	char code[9];
} kinds[] = {
	/* sigreturn, with a pop before, and rt_sigreturn of 32-bit code */
	{ 'o', 4, &regs_32, "\x58\xb8\x77\x00\x00\x00\xcd\x80" },
	{ 'r', 160, &regs_32, "\xb8\xad\x00\x00\x00\xcd\x80" },
	/* rt_sigreturn of 64-bit code, and that of x32 */
	{ 'R', 40, &regs_64, "\xb8\x0f\x00\x00\x00\x0f\x05" },
	{ 'X', 24, &regs_64, "\xb8\x01\x02\x00\x40\x0f\x05" },
};

/* Where the tables are */
enum where { IN_THE_FILE, ADDED, HANDED_IN };

static struct table table;
static struct sframe_build sframe;

FIXTURE(crossing)
{
	enum where where;
	struct code_file file;
	struct up_ring event, deferred;
	int fd, nr;
	unsigned long mem;
	struct probe probe;
	/* The expected addresses, with the table and without */
	u64 ips[(MAX_CROSSINGS + 2) * PIECE_IPS];
	int nr_ips, nr_bare;
	bool outermost;
};

FIXTURE_VARIANT(crossing)
{
	enum where where;
};

FIXTURE_VARIANT_ADD(crossing, table_in_the_file)
{
	.where = IN_THE_FILE,
};

/* prctl() is for 64-bit programs. */
#ifdef __x86_64__
FIXTURE_VARIANT_ADD(crossing, table_that_was_added)
{
	.where = ADDED,
};
#endif

FIXTURE_VARIANT_ADD(crossing, table_that_was_handed_in)
{
	.where = HANDED_IN,
};

/* ------------------------------------------------------------------------ */
/* Stacks								      */

static const struct mode *mode_of(char name)
{
	const struct mode *m = modes;

	while (m->name != name)
		m++;
	return m;
}

static const struct kind *kind_of(char name)
{
	const struct kind *k = kinds;

	while (k->name != name)
		k++;
	return k;
}

static void put(unsigned long at, u64 val, size_t word)
{
	memcpy((void *)at, &val, word);
}

/*
 * Lay two frames, from @at upwards, the second of which returns to @ret. In 64-bit code the
 * table has their sizes, for a stack pointer of @at. In 32-bit code, and where a walk begins,
 * the frame pointer leads to them, and is @at as well. Returns the end of the second frame.
 */
static unsigned long put_frames(const struct mode *m, unsigned long at, u64 caller, u64 ret)
{
	if (m->name == '6') {
		put(at, NO_FP, 8);
		put(at + 8, caller, 8);
		put(at + 32, NO_FP, 8);
		put(at + 40, ret, 8);
		return at + 48;
	}
	put(at, at + 8 - m->ss_base, 4);
	put(at + 4, caller - m->cs_base, 4);
	put(at + 8, 0, 4);
	put(at + 12, ret - m->cs_base, 4);
	return at + 16;
}

/* Registers of a signal frame: code was interrupted at @ip. Returns its stack pointer. */
static unsigned long put_regs(const struct sigregs *r, unsigned long at,
			      const struct mode *m, u64 ip)
{
	unsigned long sp = (at + 255) & -16UL;

	put(at + r->ip, ip - m->cs_base, r->word);
	put(at + r->sp, sp - m->ss_base, r->word);
	put(at + r->fp, m->name == '6' ? NO_FP : sp - m->ss_base, r->word);
	put(at + r->cs, m->cs, 2);
	put(at + r->ss, m->ss, 2);
	return sp;
}

/* Let a walk begin in code of this mode, with the stack at @at. Returns its first address. */
static u64 put_probe(struct probe *p, const struct mode *m, unsigned long at)
{
	const bool far = is_32 == (m->name == '6');

	*p = (struct probe){
		.stub = (unsigned long)(far ? stub_far : stub_plain), .sp = at,
		.fp = at - m->ss_base,
		/* getppid() */
		.nr = m->name == '6' ? 110 : 64,
		.args = { m->cs, (unsigned long)far_plain - m->cs_base, m->ss, at - m->ss_base },
	};
	return (unsigned long)(far ? far_plain_ip : stub_plain_ip);
}

/* A walk knows few restorers, and looks for them in this order: the C library's come later. */
static int signal_of(const struct kind *k)
{
	return SIGHUP + (k - kinds);
}

/* Make a trampoline of this kind the restorer of some signal. Returns its address. */
static u64 trampoline(struct _test_data_crossing *self, const struct kind *k)
{
	u8 *to = (u8 *)self->mem + TRAMPOLINES + (k - kinds) * 64;

	memcpy(to, k->code, 8);
	raw_sigaction(signal_of(k), NULL, 0, to);
	return (unsigned long)to;
}

/* @path has modes in the order of the walk, and between them the kinds of signal frame. */
static void put_stack(struct _test_data_crossing *self, const char *path)
{
	unsigned long at = self->mem + STACK + PAGE;
	const struct mode *m = mode_of(*path);
	u64 *ips = self->ips;
	const struct kind *k;
	int i;

	for (k = kinds; k < kinds + ARRAY_SIZE(kinds); k++)
		raw_sigaction(signal_of(k), NULL, 0, NULL);
	self->nr_bare = 0;
	ips[0] = put_probe(&self->probe, m, at);
	for (i = 1; ; i++, ips += PIECE_IPS) {
		if (m->name == '6' && !self->nr_bare)
			self->nr_bare = ips - self->ips + (i == 1 ? 2 : 1);
		ips[1] = self->mem + CALLERS + 16 * i;
		if (!*++path)
			break;
		k = kind_of(*path);
		ips[2] = trampoline(self, k);
		at = put_frames(m, at, ips[1], ips[2]);
		m = mode_of(*++path);
		ips[3] = self->mem + INTERRUPTED + 16 * i;
		at = put_regs(k->regs, at + k->skip, m, ips[3]);
	}
	ips[2] = self->mem + OUTER + 16;
	put_frames(m, at, ips[1], ips[2]);
	self->outermost = m->name == '6' && i - 1 <= MAX_CROSSINGS;
	self->nr_ips = (i - 1 > MAX_CROSSINGS ? i - 1 : i) * PIECE_IPS;
	if (!self->nr_bare)
		self->nr_bare = self->nr_ips;
}

/* ------------------------------------------------------------------------ */
/* Tables								      */

/* With these headers, the file is a library that has an SFrame table of @len bytes. */
static void put_headers(unsigned long at, size_t len)
{
	Elf64_Ehdr ehdr = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
		.e_phoff = sizeof(ehdr), .e_ehsize = sizeof(ehdr),
		.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2,
	};
	Elf64_Phdr phdr[] = {
		{ PT_LOAD, PF_R | PF_X, 0, 0, 0, CODE_SIZE, CODE_SIZE, PAGE },
		{ PT_GNU_SFRAME, PF_R, SFRAME, SFRAME, SFRAME, len, len, 8 },
	};

	memcpy((void *)at, &ehdr, sizeof(ehdr));
	memcpy((void *)at + sizeof(ehdr), phdr, sizeof(phdr));
}

static bool map_nops(unsigned long at)
{
	void *mem = mmap((void *)at, CODE_SIZE, PROT_CODE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	return mem != MAP_FAILED && memset(mem, 0x90, CODE_SIZE);
}

static bool map_file(struct _test_data_crossing *self)
{
	return file_map_at(self->file.path, self->mem, 0, CODE_SIZE) &&
	       !madvise((void *)self->mem, CODE_SIZE, MADV_POPULATE_READ);
}

static bool put_code(struct _test_data_crossing *self)
{
	struct sframe_build *b = &sframe;
	struct table *t = &table;
	unsigned long code = self->mem;
	size_t len;
	int fd;

	sframe_build_init(b, 3, false, code + SFRAME);
	sframe_build_func(b, code + INTERRUPTED, PAGE, SFRAME_BUILD_ROW1);
	sframe_build_sp(b, 0, 16);
	sframe_build_func(b, code + CALLERS, PAGE, SFRAME_BUILD_ROW1);
	sframe_build_saved(b, 0, SFRAME_BUILD_SP, 32, -16);
	sframe_build_func(b, code + OUTER, PAGE, SFRAME_BUILD_ROW1);
	sframe_build_end(b, 0);
	len = sframe_build_finish(b);

	table_start(t);
	table_row(t, INTERRUPTED, rule_cfa(RSP, 16));
	table_row(t, CALLERS, rule_saved(RSP, 32, -16));
	table_row(t, OUTER, rule_of(UNWIND_TABLE_OUTERMOST));
	table_end(t, CODE_SIZE);

	if (!map_nops(code))
		return false;
	memcpy((void *)code + SFRAME, b->mem, len);
	if (self->where == ADDED)
		return true;
	if (self->where == IN_THE_FILE)
		put_headers(code, len);
	snprintf(self->file.path, sizeof(self->file.path), "%s", test_path("code"));
	fd = open(self->file.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (write(fd, (void *)code, CODE_SIZE) != CODE_SIZE || close(fd))
		return false;
	return file_map(&self->file) && map_file(self);
}

/* Tables are added for two ranges, so that a walk goes from one to the other. */
static bool use_table(struct _test_data_crossing *self)
{
	unsigned long code = self->mem, start = code + SFRAME;

	if (self->where == IN_THE_FILE)
		return map_file(self);
	if (self->where == HANDED_IN) {
		self->nr = file_use(self->fd, &table, &self->file);
		return self->nr > 0;
	}
	return !prctl(PR_ADD_SFRAME, start, code + PAGE, code, code + CALLERS) &&
	       !prctl(PR_ADD_SFRAME, start, code + PAGE, code + CALLERS, code + CODE_SIZE);
}

static bool drop_table(struct _test_data_crossing *self)
{
	if (self->where == IN_THE_FILE)
		return map_nops(self->mem);
	if (self->where == HANDED_IN)
		return !dev_drop(self->fd, self->nr);
	return !prctl(PR_REMOVE_SFRAME, self->mem + SFRAME, 0, 0, 0);
}

static const char *need_where(enum where where)
{
	/* No table begins there. */
	if (where != HANDED_IN && prctl(PR_REMOVE_SFRAME, 8, 0, 0, 0) && errno == EINVAL)
		return "this kernel does not read SFrame tables";
	/* Walks at the event use tables while somebody has the device open. */
	return need_tables();
}

static bool put_segments(void)
{
	/* 32 bits, code or data, readable or writable, limit in pages, present */
	struct user_desc cs = { 0, mode_of('L')->cs_base, 0xfffff, 1, 2, 0, 1, 0, 1 };
	struct user_desc ss = { 1, mode_of('L')->ss_base, 0xfffff, 1, 0, 0, 1, 0, 1 };

	return !syscall(SYS_modify_ldt, 0x11, &cs, sizeof(cs)) &&
	       !syscall(SYS_modify_ldt, 0x11, &ss, sizeof(ss));
}

/* ------------------------------------------------------------------------ */
/* Walks								      */

static bool open_ring(struct up_ring *ring, uint64_t bits)
{
	struct perf_event_attr attr;

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT, tracepoint_id("raw_syscalls", "sys_enter"), bits);
	attr.exclude_callchain_kernel = 1;
	return !up_open_pages(ring, &attr, 0, -1, -1, 4) &&
	       !ioctl(ring->fd, PERF_EVENT_IOC_SET_FILTER, "id == 64 || id == 110");
}

/* The events are those of one task. */
static bool open_rings(struct _test_data_crossing *self)
{
	return open_ring(&self->event, 0) &&
	       open_ring(&self->deferred, UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
}

/* Are these the first @want of the expected addresses, or, with @less, fewer of them? */
static bool is_wanted(struct _test_data_crossing *self, const u64 *ips, u64 nr, u64 want, bool less)
{
	if (less && nr && nr < want)
		want = nr;
	return up_frames_equal(ips, nr, self->ips, want);
}

/*
 * Walk the stack once. Returns true if each event has one sample, with @want addresses, or
 * fewer: @less says so of the walk at the event, and @less_later of the deferred one.
 */
static bool walk(struct _test_data_crossing *self, u64 want, bool less, bool less_later)
{
	struct up_ring *event = &self->event, *deferred = &self->deferred;
	struct up_rec *sample, *rec;

	up_reset(event);
	up_reset(deferred);
	up_enable(event);
	up_enable(deferred);
	probe_at(&self->probe);
	up_disable(deferred);
	up_disable(event);
	up_drain(event);
	up_drain(deferred);
	sample = up_nth(event, PERF_RECORD_SAMPLE, 0);
	rec = up_answer(deferred, up_nth(deferred, PERF_RECORD_SAMPLE, 0));
	if (up_count(event, PERF_RECORD_SAMPLE) != 1 || up_count_bad(event) ||
	    up_count(deferred, PERF_RECORD_SAMPLE) != 1 || up_count_bad(deferred) || !rec)
		return false;
	return is_wanted(self, sample->user, sample->nr_user, want, less) &&
	       is_wanted(self, rec->ips, rec->nr, want, less_later) &&
	       (less_later || !(rec->misc & UT_MISC_OUTERMOST) ==
			      !(self->outermost && want == self->nr_ips));
}

/*
 * Walk @times. Walks at the event do not read tables in the memory of a program, but use the
 * rules that deferred walks have found there. With @cold, there was no deferred walk before.
 */
static bool walks(struct _test_data_crossing *self, int times, int want, bool cold)
{
	int i = 0;

	while (i < times && walk(self, want, cold && !i, false))
		i++;
	return i == times;
}

FIXTURE_SETUP(crossing)
{
	self->where = variant->where;
	self->fd = -1;
	if (must_skip(_metadata, need_where(variant->where)))
		return;
	self->mem = (unsigned long)mmap(NULL, STACK + STACK_SIZE, PROT_CODE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT | MAP_POPULATE,
					-1, 0);
	ASSERT_NE(-1UL, self->mem);
	ASSERT_TRUE(put_segments());
	ASSERT_TRUE(put_code(self));
	self->fd = dev_open();
	ASSERT_LE(0, self->fd);
	ASSERT_TRUE(open_rings(self));
}

FIXTURE_TEARDOWN(crossing)
{
	if (self->fd < 0)
		return;
	up_close(&self->event);
	up_close(&self->deferred);
	close(self->fd);
	if (self->where != ADDED)
		file_end(&self->file);
	rmdir(test_dir());
}

/*
 * Walk along each of these paths, again and again. While the table is removed, the walk ends
 * in the first code that needs it.
 */
static void check(struct __test_metadata *_metadata, struct _test_data_crossing *self,
		  const char *const *path)
{
	const bool cold = self->where != HANDED_IN;

	for (; *path; path++) {
		if (!**path)
			continue;
		put_stack(self, *path);
		ASSERT_TRUE(use_table(self));
		EXPECT_TRUE(walks(self, 20, self->nr_ips, cold))
			TH_LOG("%s", *path);
		ASSERT_TRUE(drop_table(self));
		EXPECT_TRUE(walks(self, 3, self->nr_bare, false))
			TH_LOG("%s without a table", *path);
		ASSERT_TRUE(use_table(self));
		EXPECT_TRUE(walks(self, 3, self->nr_ips, cold))
			TH_LOG("%s with the table again", *path);
		ASSERT_TRUE(drop_table(self));
	}
}

#define CHECK(...)	check(_metadata, self, (const char *const []){ __VA_ARGS__, NULL })

/* A walk knows two restorers of a 32-bit program, which here does not begin in the LDT. */
#define NOT_32(path)	(is_32 ? "" : (path))

TEST_F(crossing, walk_from_64_to_32_bit_code_is_exact)
{
	CHECK("6R3", "6X3", "6RL", "6XL", "6R6X3", NOT_32("6R3o3"), NOT_32("6R3rLo3"));
}

TEST_F(crossing, walk_from_64_to_32_bit_code_and_back_is_exact)
{
	CHECK("6R3o6", "6R3r6", "6RLo6", "6RLr6", "6X3o6", NOT_32("6R3oLr6"),
	      NOT_32("6R3o6X3r6"));
}

TEST_F(crossing, walk_from_32_to_64_bit_code_is_exact)
{
	CHECK("3o6", "3r6", "3oLo6", "3r3r6", "3oLr6", NOT_32("Lo6"), NOT_32("Lr6"),
	      NOT_32("Lo3r6"));
}

TEST_F(crossing, walk_from_32_to_64_bit_code_and_back_is_exact)
{
	CHECK("3o6R3", "3r6X3", "3r6RL", NOT_32("Lo6R3"), NOT_32("Lr6RL"),
	      NOT_32("3o6R3r6XLo6"));
}

TEST_F(crossing, sixteen_crossings_are_exact_and_one_more_ends_the_walk)
{
	CHECK("6R3o6R3o6R3o6R3o6RLo6RLo6RLo6RLo6", "3r6X3r6X3r6X3r6XLr6XLr6XLr6XLr6X3",
	      "6R3o6R3o6R3o6R3o6RLo6RLo6RLo6RLo6R3", "3r6X3r6X3r6X3r6XLr6XLr6XLr6XLr6X3r6",
	      NOT_32("6R3o6R3r6RLo6XLr6R3o6R3r6RLo6RLr6"),
	      NOT_32("Lo6R3r6RLo6XLr6R3o6R3r6RLo6RLr6R3"));
}

/* A child inherits the table. Its memory is freed while its parent walks. */
TEST_F(crossing, walks_are_exact_beside_and_after_those_of_a_child)
{
	int status;
	pid_t pid;

	put_stack(self, "3o6R3o6");
	ASSERT_TRUE(use_table(self));
	EXPECT_TRUE(walks(self, 3, self->nr_ips, true));
	pid = fork();
	if (!pid)
		_exit(!open_rings(self) || !walks(self, 20, self->nr_ips, true));
	EXPECT_TRUE(walks(self, 20, self->nr_ips, false));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(walks(self, 20, self->nr_ips, false));
}

/* ------------------------------------------------------------------------ */
/* Tables that change during the walks					      */

static int stop_churning;

/* Returns the number of failures. */
static void *churns(void *self)
{
	unsigned long failed = 0;

	while (!get_flag(&stop_churning)) {
		failed += !drop_table(self);
		failed += !use_table(self);
	}
	return (void *)failed;
}

TEST_F(crossing, walk_is_at_most_cut_while_another_thread_removes_the_table)
{
	pthread_t thread;
	void *failed;
	int i = 0;

	put_stack(self, "3o6R3o6RLo6");
	ASSERT_TRUE(use_table(self));
	ASSERT_EQ(0, pthread_create(&thread, NULL, churns, self));
	while (i < 300 && walk(self, self->nr_ips, true, true))
		i++;
	EXPECT_EQ(300, i);
	set_flag(&stop_churning, 1);
	ASSERT_EQ(0, pthread_join(thread, &failed));
	EXPECT_EQ(0, (unsigned long)failed);
	EXPECT_TRUE(walks(self, 20, self->nr_ips, true));
}

TEST_HARNESS_MAIN
