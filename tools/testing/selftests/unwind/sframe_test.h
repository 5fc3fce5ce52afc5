/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of SFrame tables share: code that frame pointers cannot walk,
 * put together byte by byte, tables for it, and a look at its stack.
 */
#ifndef _SELFTESTS_SFRAME_TEST_H
#define _SELFTESTS_SFRAME_TEST_H

#include <elf.h>
#include <sys/prctl.h>

#include "unwind_perf.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#include "../../../../kernel/unwind/tests/sframe_build.h"

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME		0x6474e554
#endif
#ifndef PR_ADD_SFRAME
#define PR_ADD_SFRAME		0x53460001
#define PR_REMOVE_SFRAME	0x53460002
#endif

#define PAGE		4096UL
/* Stubs between the leaf and the C code */
#define NR_STUBS	4
/* Addresses of a trace that tests look at */
#define MAX_IPS		64

/*
 * call_code(nr, function) calls function(nr) with a frame pointer that leads
 * past whatever is called, and returns to call_code_ip.
 */
long call_code(long nr, const void *function);
extern const char call_code_ip[];

asm(".pushsection .text\n"
	".globl call_code, call_code_ip\n"
	".type call_code, @function\n"
	"call_code:\n"
	"	push	%rbp\n"
	"	mov	%rsp, %rbp\n"
	"	call	*%rsi\n"
	"call_code_ip:\n"
	"	mov	%rbp, %rsp\n"
	"	pop	%rbp\n"
	"	ret\n"
	".size call_code, . - call_code\n"
	".popsection\n");

/*
 * A piece of code:
 *
 *	leaf		makes the system call whose number it was given
 *	stub 0		calls leaf
 *	stub 1		calls stub 0
 *	...
 *
 * Even stubs move the stack pointer and leave the frame pointer alone; so a walk
 * by it skips them. Odd ones save it and put something else in. Each is in its
 * own 32 bytes. @ips are the addresses that a trace begins with.
 */
struct code {
	unsigned long addr;
	unsigned long leaf;
	unsigned long stub[NR_STUBS];
	unsigned long top;
	unsigned long end;
	uint64_t ips[NR_STUBS + 2];
	unsigned int nr_ips;
};

#define STUB_SIZE	32

static inline u8 *code_bytes(u8 *to, const void *bytes, size_t len)
{
	memcpy(to, bytes, len);
	return to + len;
}

static inline u8 *code_call(u8 *to, unsigned long at, unsigned long target)
{
	*to++ = 0xe8;
	return sframe_build_put(to, target - (at + 5), 4);
}

/* Write the code that is to run at @addr to @mem. @odd: odd stubs as well. */
static inline void code_make(struct code *code, u8 *mem, unsigned long addr,
			     bool odd)
{
	unsigned long target = addr;
	unsigned int i;
	u8 *to;

	memset(mem, 0xcc, STUB_SIZE * (NR_STUBS + 1));
	code->addr = addr;
	code->leaf = addr;
	code->nr_ips = 0;

	/*
	 * mov %rdi, %rax; syscall; nop; ret. The walker knows what to make of
	 * a ret, so there must not be one at the address.
	 */
	code_bytes(mem, "\x48\x89\xf8\x0f\x05\x90\xc3", 7);
	code->ips[code->nr_ips++] = addr + 5;

	for (i = 0; i < NR_STUBS; i++) {
		unsigned long at = addr + STUB_SIZE * (i + 1);

		to = mem + STUB_SIZE * (i + 1);
		code->stub[i] = at;
		if (odd && i % 2) {
			/* push %rbp; mov $0x1230 + i, %ebp; call; pop; ret */
			to = code_bytes(to, "\x55\xbd", 2);
			to = sframe_build_put(to, 0x1230 + i, 4);
			to = code_call(to, at + 6, target);
			code_bytes(to, "\x5d\xc3", 2);
			code->ips[code->nr_ips++] = at + 11;
		} else {
			/* sub $24, %rsp; call; add $24, %rsp; ret */
			to = code_bytes(to, "\x48\x83\xec\x18", 4);
			to = code_call(to, at + 4, target);
			code_bytes(to, "\x48\x83\xc4\x18\xc3", 5);
			code->ips[code->nr_ips++] = at + 9;
		}
		target = at;
	}
	code->top = target;
	code->end = addr + STUB_SIZE * (NR_STUBS + 1);
	code->ips[code->nr_ips++] = (unsigned long)call_code_ip;
}

/* Make a table for it that is to be at @addr. Returns its length. */
static inline size_t code_table(const struct code *code, bool odd,
				struct sframe_build *b, unsigned int version,
				bool pcrel, unsigned long addr)
{
	unsigned int i;

	sframe_build_init(b, version, pcrel, addr);
	sframe_build_func(b, code->leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(b, 0, 8);

	for (i = 0; i < NR_STUBS; i++) {
		if (odd && i % 2) {
			sframe_build_func(b, code->stub[i], 13,
					  SFRAME_BUILD_ROW1);
			sframe_build_sp(b, 0, 8);
			sframe_build_saved(b, 1, SFRAME_BUILD_SP, 16, -16);
			sframe_build_sp(b, 12, 8);
		} else {
			sframe_build_func(b, code->stub[i], 14,
					  SFRAME_BUILD_ROW1);
			sframe_build_sp(b, 0, 8);
			sframe_build_sp(b, 4, 32);
			sframe_build_sp(b, 13, 8);
		}
	}
	return sframe_build_finish(b);
}

/*
 * The event that traces come from. It is that of one task, and stays open: a
 * perf event takes long to close.
 */
static __thread struct up_ring stack_ring;
static __thread pid_t stack_ring_tid;

static inline bool stack_ring_open(void)
{
	struct perf_event_attr attr;

	if (stack_ring_tid == my_tid())
		return true;

	/* A child has a copy of its parent's, which is of no use here. */
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	if (up_open_pages(&stack_ring, &attr, 0, -1, -1, 4))
		return false;
	/* getppid() */
	if (ioctl(stack_ring.fd, PERF_EVENT_IOC_SET_FILTER, "id == 110"))
		return false;
	stack_ring_tid = my_tid();
	return true;
}

/*
 * The user stack of a getppid() that @function is told to make. Returns the
 * number of addresses, or -1 if there was not exactly one record.
 */
static inline int stack_of(const void *function, uint64_t *ips)
{
	struct up_rec *rec;
	int nr = -1;

	if (!stack_ring_open())
		return -1;
	up_enable(&stack_ring);
	call_code(SYS_getppid, function);
	up_disable(&stack_ring);
	up_drain(&stack_ring);

	rec = up_nth(&stack_ring, UT_RECORD_CALLCHAIN_DEFERRED, 0);
	if (rec && !rec->bad && up_count(&stack_ring, rec->type) == 1) {
		nr = rec->nr < MAX_IPS ? rec->nr : MAX_IPS;
		memcpy(ips, rec->ips, nr * sizeof(*ips));
	}
	up_forget(&stack_ring);
	return nr;
}

/* Does the trace of this code have every frame? */
static inline bool is_exact(const struct code *code)
{
	uint64_t ips[MAX_IPS];
	int nr = stack_of((void *)code->top, ips);

	if (nr < (int)code->nr_ips + 1)
		nr = nr < 0 ? 0 : nr;
	else
		nr = code->nr_ips;
	return up_frames_equal(ips, nr, code->ips, code->nr_ips);
}

/* Does it have none but the leaf's? That is how it looks without a table. */
static inline bool is_without_table(const struct code *code)
{
	uint64_t ips[MAX_IPS];
	int i, nr = stack_of((void *)code->top, ips);

	if (nr < 1 || ips[0] != code->ips[0])
		return false;
	for (i = 1; i < nr; i++) {
		if (ips[i] >= code->addr && ips[i] < code->end) {
			fprintf(stderr, "# frame %d is %#llx\n", i,
				(unsigned long long)ips[i]);
			return false;
		}
	}
	return true;
}

static inline int add_table(unsigned long start, unsigned long end,
			    unsigned long text_start, unsigned long text_end)
{
	return prctl(PR_ADD_SFRAME, start, end, text_start, text_end) ?
	       -errno : 0;
}

static inline int remove_table(unsigned long start)
{
	return prctl(PR_REMOVE_SFRAME, start, 0, 0, 0) ? -errno : 0;
}

static inline const char *need_sframe(void)
{
	if (need_perf_deferred())
		return need_perf_deferred();
	if (need_tracepoint("raw_syscalls", "sys_enter"))
		return need_tracepoint("raw_syscalls", "sys_enter");
	if (remove_table(8) == -EINVAL)
		return "this kernel does not read SFrame tables";
	return NULL;
}

#endif
