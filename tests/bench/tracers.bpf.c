// SPDX-License-Identifier: GPL-2.0
/* For tracers.c: two clocks around an event, and a tracer by BPF. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern int bpf_unwind_user_request(u64 *cookie) __ksym;
extern int bpf_unwind_user_copy(const struct unwind_stacktrace *trace,
				void *buf, u32 buf__sz) __ksym;

char LICENSE[] SEC("license") = "GPL";

#define DEPTH	127
#define SYS_getppid	110

struct record {
	__u64 cookie;
	__s64 size;
	__u64 ips[DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} records SEC(".maps");

int tid;
__u64 start;
__u64 span;
__u64 events;

static __always_inline bool mine(void)
{
	return (__u32)bpf_get_current_pid_tgid() == (__u32)tid;
}

/* The clock may be a system call, too. */
static __always_inline bool counts(long nr)
{
	return nr == SYS_getppid && mine();
}

SEC("tp_btf/sys_enter")
int BPF_PROG(before, struct pt_regs *regs, long nr)
{
	if (counts(nr))
		start = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(after, struct pt_regs *regs, long nr)
{
	if (counts(nr)) {
		span += bpf_ktime_get_ns() - start;
		events++;
	}
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(without, struct pt_regs *regs, long nr)
{
	struct record *rec;

	if (!counts(nr))
		return 0;
	rec = bpf_ringbuf_reserve(&records, sizeof(*rec), 0);
	if (rec)
		bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(in_place, struct pt_regs *regs, long nr)
{
	struct record *rec;

	if (!counts(nr))
		return 0;
	rec = bpf_ringbuf_reserve(&records, sizeof(*rec), 0);
	if (!rec)
		return 0;
	rec->size = bpf_get_stack(ctx, rec->ips, sizeof(rec->ips), BPF_F_USER_STACK);
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(request, struct pt_regs *regs, long nr)
{
	struct record *rec;

	if (!counts(nr))
		return 0;
	rec = bpf_ringbuf_reserve(&records, sizeof(*rec), 0);
	if (!rec)
		return 0;
	bpf_unwind_user_request(&rec->cookie);
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(complete, struct task_struct *task, __u64 cookie, __u64 timestamp,
	     const struct unwind_stacktrace *trace)
{
	struct record *rec;

	if (!mine())
		return 0;
	rec = bpf_ringbuf_reserve(&records, sizeof(*rec), 0);
	if (!rec)
		return 0;
	rec->cookie = cookie;
	rec->size = bpf_unwind_user_copy(trace, rec->ips, sizeof(rec->ips));
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}
