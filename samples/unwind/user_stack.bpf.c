// SPDX-License-Identifier: GPL-2.0
/*
 * Ask for the user stack at each call of a kernel function by a process, and
 * take the stack when it comes. See Documentation/bpf/user_stacks.rst.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "user_stack.h"

#define EAGAIN		11
#define EOPNOTSUPP	95

/* Weak, so that this can be loaded where the kernel does not have them. */
extern int bpf_unwind_user_request(u64 *cookie) __ksym __weak;
extern int bpf_unwind_user_copy(const struct unwind_stacktrace *trace,
				void *buf, u32 buf__sz) __ksym __weak;
extern int bpf_unwind_user_cached(void *buf, u32 buf__sz) __ksym __weak;

char LICENSE[] SEC("license") = "GPL";

const volatile int pid;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

SEC("kprobe")
int ask(struct pt_regs *ctx)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	int ret = -EOPNOTSUPP;
	struct event *event;

	if (pid_tgid >> 32 != pid)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	/* Full: a real tool would count the lost records. */
	if (!event)
		return 0;

	event->is_call = true;
	event->tid = pid_tgid;
	event->cookie = 0;
	if (bpf_ksym_exists(bpf_unwind_user_request))
		ret = bpf_unwind_user_request(&event->cookie);

	if (ret == BPF_UNWIND_QUEUED || ret == BPF_UNWIND_PENDING) {
		/* complete() will have, or has, the stack. */
		event->size = 0;
	} else if (ret == BPF_UNWIND_EXECUTED) {
		event->size = bpf_unwind_user_cached(event->ips, sizeof(event->ips));
	} else if (ret == -EAGAIN) {
		/* There is no stack right now, in place or later. */
		event->size = ret;
	} else {
		event->size = bpf_get_stack(ctx, event->ips, sizeof(event->ips),
					    BPF_F_USER_STACK);
	}
	bpf_ringbuf_submit(event, 0);

	return 0;
}

/* In the task that was asked. Other programs may have asked other tasks. */
SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(complete, struct task_struct *task, u64 cookie, u64 timestamp,
	     const struct unwind_stacktrace *trace)
{
	struct event *event;

	if (task->tgid != pid)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return 0;

	event->is_call = false;
	event->tid = task->pid;
	event->cookie = cookie;
	event->size = bpf_unwind_user_copy(trace, event->ips, sizeof(event->ips));
	bpf_ringbuf_submit(event, 0);

	return 0;
}
