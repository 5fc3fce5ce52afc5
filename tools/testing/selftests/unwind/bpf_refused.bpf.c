// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that the verifier must not let through: bad arguments, and types of
 * programs that cannot call the functions. bpf_test.c loads one at a time.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern int bpf_unwind_user_request(u64 *cookie) __ksym;
extern int bpf_unwind_user_copy(const struct unwind_stacktrace *trace,
				void *buf, u32 buf__sz) __ksym;
extern int bpf_unwind_user_cached(void *buf, u32 buf__sz) __ksym;
extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym;

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[4]);
} values SEC(".maps");

int any_size;
const volatile __u64 fixed = 1;

SEC("tp_btf/sys_enter")
int BPF_PROG(cookie_null)
{
	return bpf_unwind_user_request(NULL);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(cookie_number)
{
	return bpf_unwind_user_request((u64 *)0x1234);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(cookie_in_the_kernel, struct pt_regs *regs)
{
	return bpf_unwind_user_request((u64 *)&regs->ax);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(cookie_of_four_bytes)
{
	__u32 key = 0;
	char *value = bpf_map_lookup_elem(&values, &key);

	return value ? bpf_unwind_user_request((u64 *)(value + 28)) : 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(cookie_that_may_be_null)
{
	__u32 key = 0;

	return bpf_unwind_user_request(bpf_map_lookup_elem(&values, &key));
}

SEC("tp_btf/sys_enter")
int BPF_PROG(cookie_that_is_read_only)
{
	return bpf_unwind_user_request((u64 *)&fixed);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(cached_to_null)
{
	return bpf_unwind_user_cached(NULL, 8);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(cached_too_large)
{
	__u64 buf[4] = {};

	return bpf_unwind_user_cached(buf, sizeof(buf) + 8);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(cached_of_any_size)
{
	__u64 buf[4] = {};

	return bpf_unwind_user_cached(buf, any_size);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(cached_into_the_kernel, struct pt_regs *regs)
{
	return bpf_unwind_user_cached(regs, 8);
}

SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(copy_too_large, struct task_struct *task, __u64 cookie, __u64 timestamp,
	     const struct unwind_stacktrace *trace)
{
	__u64 buf[4] = {};

	return bpf_unwind_user_copy(trace, buf, sizeof(buf) + 1);
}

SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(copy_of_null, struct task_struct *task, __u64 cookie, __u64 timestamp,
	     const struct unwind_stacktrace *trace)
{
	__u64 buf[4] = {};

	return bpf_unwind_user_copy(NULL, buf, sizeof(buf));
}

SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(copy_of_a_task, struct task_struct *task, __u64 cookie, __u64 timestamp,
	     const struct unwind_stacktrace *trace)
{
	__u64 buf[4] = {};

	return bpf_unwind_user_copy((void *)task, buf, sizeof(buf));
}

SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(copy_of_own_memory, struct task_struct *task, __u64 cookie,
	     __u64 timestamp, const struct unwind_stacktrace *trace)
{
	__u64 buf[4] = {}, fake[2] = { 64, 0xffffffff81000000 };

	return bpf_unwind_user_copy((void *)fake, buf, sizeof(buf));
}

/* The verifier believes only the type. */
SEC("tp_btf/sys_enter")
int BPF_PROG(copy_of_a_cast, struct pt_regs *regs)
{
	__u64 buf[4] = {};
	void *trace;

	trace = bpf_rdonly_cast(regs, bpf_core_type_id_kernel(struct unwind_stacktrace));
	return bpf_unwind_user_copy(trace, buf, sizeof(buf));
}

SEC("tp_btf/unwind_deferred_complete")
int BPF_PROG(trace_is_written_to, struct task_struct *task, __u64 cookie,
	     __u64 timestamp, struct unwind_stacktrace *trace)
{
	trace->nr = 1000;
	return 0;
}

/* As the argument of a function the trace may be anything. */
SEC("fentry/bpf_unwind_user_copy")
int BPF_PROG(copy_of_an_argument, const struct unwind_stacktrace *trace)
{
	__u64 buf[4] = {};

	return bpf_unwind_user_copy(trace, buf, sizeof(buf));
}

SEC("raw_tp/sys_enter")
int by_raw_tracepoint(void *ctx)
{
	__u64 cookie = 0;

	return bpf_unwind_user_request(&cookie);
}

SEC("socket")
int by_socket_filter(void *ctx)
{
	__u64 cookie = 0;

	return bpf_unwind_user_request(&cookie);
}

SEC("xdp")
int by_xdp(void *ctx)
{
	__u64 cookie = 0;

	return bpf_unwind_user_request(&cookie);
}
