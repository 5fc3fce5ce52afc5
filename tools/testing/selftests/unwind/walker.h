/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the tests of the walker. A perf event on raw_syscalls:sys_enter with
 * both deferred bits samples one system call, made by a stub of walker_stubs.S
 * with a stack that the test has written, and the record is compared with the
 * addresses that this stack holds. Built for x86-64, x32 and i386.
 */
#ifndef _SELFTESTS_UNWIND_WALKER_H
#define _SELFTESTS_UNWIND_WALKER_H

#include "unwind_perf.h"
#include "walker_stubs.h"

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

#define DEFER		DEFER_BITS

/* Return addresses: code that nobody executes */
#define RA(i)		(0x10000000UL + 0x100UL * (i))
#define RA_SIZE		0x100000UL
/* One where nothing is mapped */
#define NO_CODE		(RA(0) + RA_SIZE + 0x100UL)

#define A(label)	((unsigned long)(label))

/* The expected trace */
struct want {
	uint64_t ips[600];
	uint64_t nr;
};

/* The test that runs; each has a process of its own. */
extern struct walk {
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
	struct want want;
} walk;

const char *need_walker(void);
bool walk_begin(void);
void walk_end(void);

/* Stacks */
void put(unsigned long at, word val);
void put_frame(unsigned long fp, word next, word ra);
unsigned long build(unsigned long fp, int n);
bool stack_from_file(void);

/* Expected traces of them: first these addresses, then more */
#define WANT(...)	want_these((const uint64_t []){ __VA_ARGS__, 0 })
void want_these(const uint64_t *ips);
void want_nothing(void);
void want(uint64_t ip);
void want_frames(int from, int n);
bool is_wanted(const struct up_rec *rec);

/* Events of this task */
bool set_filter(int fd, long nr);
int open_syscall_event(struct up_ring *ring, long nr, uint64_t bits);
int open_tracepoint(struct up_ring *ring, const char *system, const char *name,
		    uint64_t bits);
int open_uprobe(struct up_ring *ring, const void *addr, bool ret, uint64_t bits);

/* One system call, and the recorded trace of it */
struct probe probe_of(void *stub, unsigned long sp, uint64_t fp, long nr);
bool sample_syscall(long nr);
struct up_rec *sample(struct probe *p);
bool sample_is_wanted(struct probe *p);
bool stub_is_wanted(void *stub, uint64_t fp);
bool plain_has_frames(uint64_t fp, int n);

/* The samples of another event, and the records that answer them */
struct up_rec *answer_nr(struct up_ring *ring, size_t n);
struct up_rec *only_answer(struct up_ring *ring);
bool event_is_wanted(struct up_ring *ring, struct probe *p);

/* A system call that sends a signal */
struct probe probe_kill(void *stub, unsigned long sp, uint64_t fp, int sig);

#if defined(__x86_64__) && !defined(__ILP32__)
/* Pushed by the kernel: struct ucontext, after the return address */
struct forged_frame {
	uint64_t uc_flags;
	uint64_t uc_link;
	uint64_t uc_stack[3];
	uint64_t gregs[23];
};

void forge_frame(unsigned long at, uint64_t ip, uint64_t sp, uint64_t fp);
#endif

#endif /* _SELFTESTS_UNWIND_WALKER_H */
