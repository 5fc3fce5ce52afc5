/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions in assembly whose frames are known to the byte.
 */
#ifndef _SELFTESTS_UNWIND_CHAIN_H
#define _SELFTESTS_UNWIND_CHAIN_H

#include "unwind_test.h"

/*
 * chain_syscall() makes a system call from below four frames, of which the
 * outermost has a frame pointer of 0. Its user stack is, exactly:
 *
 *	chain_ip_syscall	in chain_leaf, after the syscall instruction
 *	chain_ip_middle		in chain_middle, after its call
 *	chain_ip_outer		in chain_outer, after its call
 *	chain_ip_base		in chain_call, after its call
 *
 * chain_spin() waits in user space instead, until *flag becomes nonzero. Its first
 * address is in [chain_spin_lo, chain_spin_hi), the others are those above.
 */
struct chain_call {
	long			nr;
	long			args[6];
	long			ret;
	const int		*flag;
};

void chain_call(struct chain_call *call);

extern const char chain_ip_syscall[], chain_ip_middle[], chain_ip_outer[],
	chain_ip_base[], chain_spin_lo[], chain_spin_hi[];

/* Number of frames that both leave. */
#define CHAIN_NR	4
/* All those of chain_syscall() */
extern const uint64_t chain_frames[CHAIN_NR];

long chain_syscall(long nr, long a0, long a1, long a2, long a3, long a4,
		   long a5);
long chain0(long nr);
int __printf(2, 3) chain_cmd(int fd, const char *fmt, ...);
void chain_spin(const int *flag);
bool chain_callers_ok(const uint64_t *ips, uint64_t nr);
bool chain_syscall_ok(const uint64_t *ips, uint64_t nr);
bool chain_spin_ok(const uint64_t *ips, uint64_t nr);

/*
 * Make a system call with a stack and a frame pointer of the caller's choice.
 * The first address of its user stack is framed_ip_syscall.
 */
long framed_syscall(long nr, long a0, long a1, long a2, void *sp, void *fp);
extern const char framed_ip_syscall[];

#endif /* _SELFTESTS_UNWIND_CHAIN_H */
