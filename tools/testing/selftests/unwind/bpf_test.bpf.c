// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that ask for the user stack at all sorts of places, and programs
 * that get it. bpf_test.c attaches those that a test is about.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf_test.h"

extern int bpf_unwind_user_request(u64 *cookie) __ksym;
extern int bpf_unwind_user_copy(const struct unwind_stacktrace *trace,
				void *buf, u32 buf__sz) __ksym;
extern int bpf_unwind_user_cached(void *buf, u32 buf__sz) __ksym;

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} records SEC(".maps");

/* The arguments of a program at an ordinary tracepoint */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[UB_IPS]);
} last_trace SEC(".maps");

/* The threads that are asked, and the system call */
int want_tgid;
int want_tid;
long want_nr = -1;
/* Bytes that a completion may copy */
__u32 room = UB_IPS * sizeof(__u64);

__u64 lost;
__u64 walks;
/* Without records, for the tests under load */
int count_only;
__u64 queued;
__u64 pending;
__u64 executed;
__u64 refused;
__u64 completed;

static __always_inline bool wanted(void)
{
	__u64 id = bpf_get_current_pid_tgid();

	return id >> 32 == (__u32)want_tgid &&
	       (!want_tid || (__u32)id == (__u32)want_tid);
}

/* A new record; if there is no room, that is noted. */
static __always_inline struct ub_rec *new_rec(int type, __u32 tid, __u64 cookie)
{
	struct ub_rec *rec = bpf_ringbuf_reserve(&records, sizeof(*rec), 0);

	if (!rec) {
		__sync_fetch_and_add(&lost, 1);
		return NULL;
	}
	rec->type = type;
	rec->place = 0;
	rec->ret = 0;
	rec->tid = tid;
	rec->cookie = cookie;
	rec->timestamp = 0;
	return rec;
}

static __always_inline int ask(int place)
{
	struct ub_rec *rec;
	__u64 cookie = ~0;
	int ret;

	if (!wanted())
		return 0;

	if (count_only) {
		ret = bpf_unwind_user_request(&cookie);
		__sync_fetch_and_add(ret < 0 ? &refused :
				     ret == BPF_UNWIND_QUEUED ? &queued :
				     ret == BPF_UNWIND_PENDING ? &pending :
								 &executed, 1);
		return 0;
	}

	rec = bpf_ringbuf_reserve(&records, sizeof(*rec), 0);
	if (!rec) {
		/* An NMI does not wait for the buffer's lock. It asks later. */
		if (place != UB_NMI)
			__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	ret = bpf_unwind_user_request(&cookie);
	rec->type = 'R';
	rec->place = place;
	rec->ret = ret;
	rec->tid = bpf_get_current_pid_tgid();
	rec->cookie = cookie;
	rec->timestamp = 0;
	rec->copied = bpf_unwind_user_cached(rec->ips, sizeof(rec->ips));
	rec->nr = rec->copied < 0 ? 0 : rec->copied / sizeof(rec->ips[0]);
	bpf_ringbuf_submit(rec, 0);

	return 0;
}

static __always_inline int answer(int type, struct task_struct *task, __u64 cookie,
				  __u64 timestamp,
				  const struct unwind_stacktrace *trace)
{
	struct ub_rec *rec;
	__u32 size = room;

	if (!wanted())
		return 0;

	if (count_only) {
		__sync_fetch_and_add(&completed, 1);
		return 0;
	}

	rec = new_rec(type, task->pid, cookie);
	if (!rec)
		return 0;
	if (size > sizeof(rec->ips))
		size = sizeof(rec->ips);
	rec->timestamp = timestamp;
	rec->nr = trace->nr;
	rec->copied = bpf_unwind_user_copy(trace, rec->ips, size);
	bpf_ringbuf_submit(rec, 0);

	return 0;
}

SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(complete, struct task_struct *task, __u64 cookie, __u64 timestamp,
	     const struct unwind_stacktrace *trace)
{
	return answer('C', task, cookie, timestamp, trace);
}

SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(complete_too, struct task_struct *task, __u64 cookie, __u64 timestamp,
	     const struct unwind_stacktrace *trace)
{
	__u32 key = 0;
	void *value = bpf_map_lookup_elem(&last_trace, &key);

	if (value && wanted())
		bpf_unwind_user_copy(trace, value, UB_IPS * sizeof(__u64));
	return answer('D', task, cookie, timestamp, trace);
}

SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(complete_asks)
{
	return ask(UB_COMPLETE);
}

/* By way of an event of perf; it has the addresses in its own record. */
SEC("tracepoint/unwind/unwind_deferred_complete")
int complete_event(struct trace_event_raw_unwind_deferred_complete *ctx)
{
	struct ub_rec *rec;

	if (!wanted())
		return 0;

	rec = new_rec('C', ctx->pid, ctx->cookie);
	if (!rec)
		return 0;
	rec->timestamp = ctx->timestamp;
	rec->nr = ctx->nr;
	rec->copied = (ctx->__data_loc_entries >> 16);
	bpf_ringbuf_submit(rec, 0);

	return 0;
}

SEC("tp_btf/unwind_user_done")
int BPF_PROG(walk)
{
	if (wanted())
		__sync_fetch_and_add(&walks, 1);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, struct pt_regs *regs, long nr)
{
	return nr == want_nr ? ask(UB_ENTER) : 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(leave, struct pt_regs *regs)
{
	return regs->orig_ax == want_nr ? ask(UB_EXIT) : 0;
}

SEC("fentry/__x64_sys_getsid")
int BPF_PROG(function)
{
	return ask(UB_FENTRY);
}

SEC("kprobe/__x64_sys_getsid")
int kernel_probe(void *ctx)
{
	return ask(UB_KPROBE);
}

SEC("tracepoint/syscalls/sys_enter_getsid")
int trace_point(void *ctx)
{
	return ask(UB_TRACEPOINT);
}

SEC("uprobe")
int user_probe(void *ctx)
{
	return ask(UB_UPROBE);
}

SEC("perf_event")
int on_clock(void *ctx)
{
	return ask(UB_PERF_EVENT);
}

/* Takes no stack, but calls a function that can be replaced by a program that does */
__weak __noinline int hooked(struct bpf_perf_event_data *ctx)
{
	return 1;
}

SEC("perf_event")
int calls_hook(struct bpf_perf_event_data *ctx)
{
	return hooked(ctx);
}

SEC("freplace/hooked")
int hook(struct bpf_perf_event_data *ctx)
{
	struct ub_rec *rec = new_rec('S', bpf_get_current_pid_tgid(), 0);

	if (!rec)
		return 0;
	rec->copied = bpf_get_stack(ctx, rec->ips, sizeof(rec->ips), BPF_F_USER_STACK);
	rec->nr = rec->copied < 0 ? 0 : rec->copied / sizeof(rec->ips[0]);
	bpf_ringbuf_submit(rec, 0);

	return 1;
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(nmi)
{
	return ask(UB_NMI);
}

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(irq)
{
	return ask(UB_IRQ);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(exec)
{
	return ask(UB_EXEC);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exit)
{
	return ask(UB_TASK_EXIT);
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(signal)
{
	return ask(UB_SIGNAL);
}

SEC("kprobe/restore_altstack")
int sigreturn(void *ctx)
{
	return ask(UB_SIGRETURN);
}

SEC("tp_btf/user_enter")
int BPF_PROG(way_out)
{
	return ask(UB_WAY_OUT);
}
