/* SPDX-License-Identifier: GPL-2.0 */
/* Records from the programs of bpf_test.bpf.c to bpf_test.c */
#ifndef _SELFTESTS_BPF_TEST_H
#define _SELFTESTS_BPF_TEST_H

#define UB_IPS		512

/* Which program asked */
enum ub_place {
	UB_ENTER = 1,
	UB_EXIT,
	UB_FENTRY,
	UB_KPROBE,
	UB_TRACEPOINT,
	UB_UPROBE,
	UB_PERF_EVENT,
	UB_NMI,
	UB_IRQ,
	UB_EXEC,
	UB_TASK_EXIT,
	UB_SIGNAL,
	UB_SIGRETURN,
	UB_WAY_OUT,
	UB_COMPLETE,
};

struct ub_rec {
	/*
	 * 'R' for a request, 'C' for a completion, 'D' for that of another one,
	 * 'S' for a stack taken in place
	 */
	__s32 type;
	__s32 place;
	__s32 ret;
	__s32 tid;
	__u64 cookie;
	__u64 timestamp;
	/* Addresses of the trace; bytes that were copied, or an error */
	__u32 nr;
	__s32 copied;
	unsigned long ips[UB_IPS];
};

#endif /* _SELFTESTS_BPF_TEST_H */
