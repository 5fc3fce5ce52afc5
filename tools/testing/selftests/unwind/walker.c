// SPDX-License-Identifier: GPL-2.0
/*
 * Shared by the tests of the walker.
 */
#include <signal.h>

#include "walker.h"

#define TABLE_DEVICE		"/dev/unwind_tables"

#ifdef MAP_32BIT
#define STACK_FLAGS	(MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT)
#else
#define STACK_FLAGS	(MAP_PRIVATE | MAP_ANONYMOUS)
#endif

struct walk walk;

const char *need_walker(void)
{
	if (need_perf_deferred())
		return need_perf_deferred();
	if (in_place && access(TABLE_DEVICE, R_OK))
		return "needs " TABLE_DEVICE;
	return need_tracepoint("raw_syscalls", "sys_enter");
}

bool walk_begin(void)
{
	void *map;

	walk.old_max_stack = up_read_number(SYSCTL_MAX_STACK);
	if (up_write_number(SYSCTL_MAX_STACK, 1024) ||
	    open_syscall_event(&walk.ring, NR_GETPPID, DEFER))
		return false;
	/* Walks do not look for tables unless somebody might hand some in. */
	if (in_place && open(TABLE_DEVICE, O_RDWR | O_CLOEXEC) < 0)
		return false;
	walk.records = in_place ? 0 : 1;
	walk.user_end = (1ULL << (cpu_has_la57() ? 56 : 47)) - PAGE;
	map = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, STACK_FLAGS, -1, 0);
	if (map == MAP_FAILED)
		return false;
	walk.stack = A(map);
	walk.sp = walk.stack + STACK_SIZE / 2;
	walk.fp = walk.sp + 32 * W;
	return map_code(RA(0), RA_SIZE);
}

void walk_end(void)
{
	up_close(&walk.ring);
	up_write_number(SYSCTL_MAX_STACK, walk.old_max_stack);
}

/* ------------------------------------------------------------------------ */
/* Stacks								      */

void put(unsigned long at, word val)
{
	*(word *)at = val;
}

void put_frame(unsigned long fp, word next, word ra)
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
unsigned long build(unsigned long fp, int n)
{
	int i;

	for (i = 0; i < n; i++)
		put_frame(fp + i * FRAME_WORDS * W,
			  i == n - 1 ? 0 : fp + (i + 1) * FRAME_WORDS * W, RA(i));
	return fp;
}

/* Stack memory in a file: MADV_DONTNEED drops the page, not its contents. */
bool stack_from_file(void)
{
	int fd = syscall(SYS_memfd_create, "stack", 0);
	void *map;

	if (fd < 0 || ftruncate(fd, STACK_SIZE))
		return false;
	map = mmap((void *)walk.stack, STACK_SIZE, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_FIXED, fd, 0);
	close(fd);
	return walk.stack == A(map);
}

/* ------------------------------------------------------------------------ */
/* Expected traces							      */

void want_nothing(void)
{
	walk.want.nr = 0;
}

void want(uint64_t ip)
{
	walk.want.ips[walk.want.nr++] = ip;
}

void want_these(const uint64_t *ips)
{
	want_nothing();
	while (*ips)
		want(*ips++);
}

/* Frames from..from+n-1 of build() */
void want_frames(int from, int n)
{
	while (n--)
		want(RA(from++));
}

bool is_wanted(const struct up_rec *rec)
{
	return rec && up_frames_equal(rec->ips, rec->nr, walk.want.ips, walk.want.nr);
}

/* ------------------------------------------------------------------------ */
/* Events								      */

bool set_filter(int fd, long nr)
{
	char filter[64];

	snprintf(filter, sizeof(filter), "id == %ld", nr);
	return !ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter);
}

int open_tracepoint(struct up_ring *ring, const char *system, const char *name,
		    uint64_t bits)
{
	struct perf_event_attr attr;

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT, tracepoint_id(system, name), bits);
	attr.exclude_callchain_kernel = 1;
	return up_open(ring, &attr, 0, -1, -1);
}

int open_syscall_event(struct up_ring *ring, long nr, uint64_t bits)
{
	int ret = open_tracepoint(ring, "raw_syscalls", "sys_enter", bits);

	if (ret)
		return ret;
	return set_filter(ring->fd, nr) ? 0 : -errno;
}

int open_uprobe(struct up_ring *ring, const void *addr, bool ret, uint64_t bits)
{
	struct perf_event_attr attr;

	if (up_attr_uprobe(&attr, addr, ret, bits))
		return -ENODEV;
	attr.exclude_callchain_kernel = 1;
	return up_open(ring, &attr, 0, -1, -1);
}

/* The record that answers the @n-th sample, counted from 0; NULL if none does. */
struct up_rec *answer_nr(struct up_ring *ring, size_t n)
{
	struct up_rec *rec = up_nth(ring, PERF_RECORD_SAMPLE, n);
	struct up_rec *answer = up_answer(ring, rec);

	if (!answer || up_count_bad(ring)) {
		fprintf(stderr, "# sample %zu of %zu: %s, cookie %#llx, %zu records\n",
			n, up_count(ring, PERF_RECORD_SAMPLE),
			!rec ? "none" : rec->deferred ? "deferred" : "in place",
			rec ? (unsigned long long)rec->cookie : 0,
			up_count(ring, UT_RECORD_CALLCHAIN_DEFERRED));
		return NULL;
	}
	return answer;
}

/* The record that answers the only sample. */
struct up_rec *only_answer(struct up_ring *ring)
{
	size_t samples = up_count(ring, PERF_RECORD_SAMPLE);

	if (samples == 1)
		return answer_nr(ring, 0);
	fprintf(stderr, "# %zu samples\n", samples);
	return NULL;
}

/* ------------------------------------------------------------------------ */
/* One system call							      */

struct probe probe_of(void *stub, unsigned long sp, uint64_t fp, long nr)
{
	struct probe p = {
		.stub = A(stub), .sp = sp, .fp = fp, .nr = nr,
	};

	return p;
}

/* Sample another system call than getppid(). */
bool sample_syscall(long nr)
{
	up_close(&walk.ring);
	return !open_syscall_event(&walk.ring, nr, DEFER);
}

/* Run the probe, which takes exactly one sample. Returns its trace, or NULL. */
struct up_rec *sample(struct probe *p)
{
	size_t records;

	up_reset(&walk.ring);
	if (up_enable(&walk.ring))
		return NULL;
	probe_at(p);
	if (up_disable(&walk.ring))
		return NULL;
	up_drain(&walk.ring);
	records = up_count(&walk.ring, UT_RECORD_CALLCHAIN_DEFERRED);
	if (records != walk.records) {
		fprintf(stderr, "# %zu records instead of %zu\n", records, walk.records);
		return NULL;
	}
	return only_answer(&walk.ring);
}

bool sample_is_wanted(struct probe *p)
{
	return is_wanted(sample(p));
}

/* One getppid() from a stub */
bool stub_is_wanted(void *stub, uint64_t fp)
{
	struct probe p = probe_of(stub, walk.sp, fp, NR_GETPPID);

	return sample_is_wanted(&p);
}

/* That from stub_plain has the stub's address and the first @n frames of build(). */
bool plain_has_frames(uint64_t fp, int n)
{
	WANT(A(stub_plain_ip));
	want_frames(0, n);
	return stub_is_wanted(stub_plain, fp);
}

/* The one sample that another event takes while the probe runs */
bool event_is_wanted(struct up_ring *ring, struct probe *p)
{
	if (up_enable(ring))
		return false;
	probe_at(p);
	if (up_disable(ring))
		return false;
	up_drain(ring);
	return is_wanted(only_answer(ring));
}

/* ------------------------------------------------------------------------ */
/* Signals								      */

/* A probe whose system call sends a signal to this very thread */
struct probe probe_kill(void *stub, unsigned long sp, uint64_t fp, int sig)
{
	struct probe p = probe_of(stub, sp, fp, NR_TGKILL);

	handler_probe_nr = NR_GETPPID;
	p.args[0] = getpid();
	p.args[1] = my_tid();
	p.args[2] = sig;
	return p;
}

#if defined(__x86_64__) && !defined(__ILP32__)
/* Forge a signal frame that says: interrupted at ip, with sp and fp. */
void forge_frame(unsigned long at, uint64_t ip, uint64_t sp, uint64_t fp)
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
#endif
