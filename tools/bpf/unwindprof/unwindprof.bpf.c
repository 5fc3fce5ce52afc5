// SPDX-License-Identifier: GPL-2.0
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "unwindprof.h"

#define EAGAIN		11
#define PF_KTHREAD	0x00200000
#define TASK_DEAD	0x00000080

extern int bpf_unwind_user_request(u64 *cookie) __ksym;
extern int bpf_unwind_user_copy(const struct unwind_stacktrace *trace,
				void *buf, u32 buf__sz) __ksym;
extern int bpf_unwind_user_cached(void *buf, u32 buf__sz) __ksym;

char LICENSE[] SEC("license") = "GPL";

/* Only this process and its children, if not 0 */
const volatile __u32 target;
/* unwindprof itself: its activity depends on its samples. */
const volatile __u32 self;
const volatile __u64 min_usecs;
const volatile bool by_cgroup;

__u64 lost;
/* Waits that found no room in waiters */
__u64 unseen;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} events SEC(".maps");

/* Processes to look at, where there is a target */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} processes SEC(".maps");

/* Since when a thread is off its CPU, and its stacks */
struct waiter {
	__u64 since;
	struct prof_sample sample;
};

/* Not by LRU: that would drop the longest waits. unwindprof sets the size. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waiter);
} waiters SEC(".maps");

/* A waiter does not fit on the stack of a program. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waiter);
} scratch SEC(".maps");

static __always_inline bool wanted(__u32 tgid)
{
	return tgid && tgid != self &&
	       (!target || bpf_map_lookup_elem(&processes, &tgid));
}

static __always_inline void tell(int type, __u32 tgid)
{
	struct prof_process *process;

	process = bpf_ringbuf_reserve(&events, sizeof(*process), 0);
	if (!process) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	process->type = type;
	process->tgid = tgid;
	bpf_ringbuf_submit(process, 0);
}

/*
 * Both stacks of the current task: the kernel's now, without the innermost frames
 * that are our own, and the user's if it must be.
 */
static __always_inline void take(void *ctx, struct prof_sample *sample, __u64 own)
{
	int ret;

	sample->head.type = EVENT_SAMPLE;
	sample->head.tgid = bpf_get_current_pid_tgid() >> 32;
	sample->head.tid = bpf_get_current_pid_tgid();
	sample->head.weight = 1;
	sample->head.cgroup = by_cgroup ? bpf_get_current_cgroup_id() : 0;
	bpf_get_current_comm(sample->head.comm, sizeof(sample->head.comm));
	sample->head.kernel_size = bpf_get_stack(ctx, sample->head.kernel,
						 sizeof(sample->head.kernel), own);
	sample->head.user_size = 0;

	ret = bpf_unwind_user_request(&sample->head.cookie);
	if (ret == BPF_UNWIND_QUEUED || ret == BPF_UNWIND_PENDING)
		return;

	/* No record follows: it has come already, or the request was refused. */
	sample->head.cookie = 0;
	if (ret == BPF_UNWIND_EXECUTED)
		sample->head.user_size =
			bpf_unwind_user_cached(sample->user, sizeof(sample->user));
	else if (ret != -EAGAIN)
		sample->head.user_size =
			bpf_get_stack(ctx, sample->user, sizeof(sample->user),
				      BPF_F_USER_STACK);
}

SEC("perf_event")
int on_cpu(void *ctx)
{
	struct prof_sample *sample;

	if (!wanted(bpf_get_current_pid_tgid() >> 32))
		return 0;

	sample = bpf_ringbuf_reserve(&events, sizeof(*sample), 0);
	if (!sample) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	take(ctx, sample, 0);
	bpf_ringbuf_submit(sample, 0);

	return 0;
}

/* Runs as the previous thread; the next one has been off its CPU until now. */
SEC("tp_btf/sched_switch")
int BPF_PROG(off_cpu, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int state)
{
	struct waiter *waiter;
	__u32 key = 0, pid;
	__u64 usecs;

	/* A dead thread does not come again, but its TID does. */
	if (!(prev->flags & PF_KTHREAD) && !(state & TASK_DEAD) && wanted(prev->tgid)) {
		waiter = bpf_map_lookup_elem(&scratch, &key);
		if (waiter) {
			take(ctx, &waiter->sample, 2);
			waiter->since = bpf_ktime_get_ns();
			pid = prev->pid;
			if (bpf_map_update_elem(&waiters, &pid, waiter, BPF_ANY))
				__sync_fetch_and_add(&unseen, 1);
		}
	}

	pid = next->pid;
	waiter = bpf_map_lookup_elem(&waiters, &pid);
	if (!waiter)
		return 0;

	usecs = (bpf_ktime_get_ns() - waiter->since) / 1000;
	if (usecs >= min_usecs) {
		waiter->sample.head.weight = usecs;
		if (bpf_ringbuf_output(&events, &waiter->sample,
				       sizeof(waiter->sample), 0))
			__sync_fetch_and_add(&lost, 1);
	}
	bpf_map_delete_elem(&waiters, &pid);

	return 0;
}

SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(complete, struct task_struct *task, __u64 cookie, __u64 timestamp,
	     const struct unwind_stacktrace *trace)
{
	struct prof_stack *stack;

	if (!wanted(task->tgid))
		return 0;

	stack = bpf_ringbuf_reserve(&events, sizeof(*stack), 0);
	if (!stack) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	stack->type = EVENT_STACK;
	stack->tid = task->pid;
	stack->cookie = cookie;
	stack->size = bpf_unwind_user_copy(trace, stack->user, sizeof(stack->user));
	bpf_ringbuf_submit(stack, 0);

	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(forked, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = child->tgid;
	__u8 one = 1;

	if (target && wanted(parent->tgid) &&
	    bpf_map_update_elem(&processes, &tgid, &one, BPF_ANY))
		__sync_fetch_and_add(&lost, 1);

	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(execed, struct task_struct *task)
{
	if (wanted(task->tgid))
		tell(EVENT_EXEC, task->tgid);

	return 0;
}

/* Its last stack has been sent: that is before the task counts as gone. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(exited, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (task->signal->live.counter || !wanted(tgid))
		return 0;

	tell(EVENT_EXIT, tgid);
	bpf_map_delete_elem(&processes, &tgid);

	return 0;
}
