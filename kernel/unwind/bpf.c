// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred user stacks for BPF programs.
 *
 * A program asks with bpf_unwind_user_request(), from any context. The answer is
 * the tracepoint unwind_deferred_complete, to which a program attaches as
 * "tp_btf": it is called once for each cookie, even if there is no trace. The
 * protection against recursion does not skip it, as it is never called from
 * within itself.
 *
 * To the engine all programs together are one tracer. It is registered at boot,
 * and armed while somebody listens to the tracepoint. While nobody does, this
 * costs nothing, and programs that ask are refused; a request that was made before
 * gets no completion, unless somebody listens again by the time the task gets there.
 *
 * Listeners are attached and detached with tracepoints_mutex held, which is needed
 * to attach to any tracepoint. So nothing is registered or cancelled there: that
 * would wait for grace periods, and for the callbacks of other tracers.
 */

#define pr_fmt(fmt) "unwind_bpf: " fmt

#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/init.h>
#include <linux/minmax.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user_types.h>

#define CREATE_TRACE_POINTS
#include <trace/events/unwind_deferred.h>

/**
 * enum bpf_unwind_status - What bpf_unwind_user_request() returns, if no error
 * @BPF_UNWIND_QUEUED:	 First request by a program in this user context; the
 *			 completion follows
 * @BPF_UNWIND_PENDING:	 Requested before, by any program; the completion
 *			 follows, is running or, if this is called from an
 *			 interrupt or a probe right after it, has just ended
 * @BPF_UNWIND_EXECUTED: The completion has already come; the trace can be had
 *			 from bpf_unwind_user_cached()
 */
enum bpf_unwind_status {
	BPF_UNWIND_QUEUED	= 0,
	BPF_UNWIND_PENDING	= UNWIND_ALREADY_PENDING,
	BPF_UNWIND_EXECUTED	= UNWIND_ALREADY_EXECUTED,
};

static void unwind_bpf_callback(struct unwind_work *work,
				const struct unwind_stacktrace *trace,
				u64 cookie, u64 timestamp)
{
	/*
	 * Not trace_unwind_deferred_complete(), which would check the
	 * tracepoint's branch once more. The branch here and the one in
	 * bpf_unwind_user_request() are patched one after the other when the
	 * first listener comes, and a cookie that is given out in between must
	 * have its completion. The listeners are there before the first branch
	 * is; without any, this does nothing.
	 */
	guard(preempt_notrace)();
	__traceiter_unwind_deferred_complete(NULL, current, cookie, timestamp,
					     trace);
}

/* Registered at boot, for good */
static struct unwind_work unwind_bpf_work;

__bpf_kfunc_start_defs();

/**
 * bpf_unwind_user_request - Ask for the user stack of the current task
 * @cookie:	Where to put the cookie; the completion has the same one. It is
 *		never 0, and the same for all tracers that ask in the same user
 *		context; 0 after an error.
 *
 * Context: Any context, NMI included.
 * Return: One of enum bpf_unwind_status; -ENOENT if nobody listens to
 *	   unwind_deferred_complete; -EAGAIN if the user registers are being replaced, so
 *	   that the stack cannot be taken in place either. After the other errors of
 *	   unwind_deferred_request(), bpf_get_stack() takes it in place.
 */
__bpf_kfunc int bpf_unwind_user_request(u64 *cookie)
{
	*cookie = 0;

	/* The engine is armed before this is true. */
	if (!trace_unwind_deferred_complete_enabled())
		return -ENOENT;

	return unwind_deferred_request(&unwind_bpf_work, cookie);
}

/**
 * bpf_unwind_user_copy - Copy the trace of a completion
 * @trace:	The argument of unwind_deferred_complete
 * @buf:	Where to put the addresses, of 8 bytes each, innermost first
 * @buf__sz:	Its size in bytes; what does not fit is left out
 *
 * Context: Any context.
 * Return: Number of bytes copied; 0 if the trace is empty.
 */
__bpf_kfunc int bpf_unwind_user_copy(const struct unwind_stacktrace *trace,
				     void *buf, u32 buf__sz)
{
	u32 nr = min(buf__sz / sizeof(unsigned long), trace->nr);

	memcpy(buf, trace->entries, nr * sizeof(unsigned long));

	return nr * sizeof(unsigned long);
}

/**
 * bpf_unwind_user_cached - Copy the trace that was taken in this user context
 * @buf:	As bpf_unwind_user_copy()
 * @buf__sz:	As bpf_unwind_user_copy()
 *
 * This is the trace to take after %BPF_UNWIND_EXECUTED. It does not matter which
 * tracer it was taken for.
 *
 * Context: Any context, NMI included.
 * Return: Number of bytes copied; -ENOENT if there is no trace of the current
 *	   user context.
 */
__bpf_kfunc int bpf_unwind_user_cached(void *buf, u32 buf__sz)
{
	struct unwind_stacktrace trace;
	int ret;

	ret = unwind_deferred_cached(&trace);
	if (ret)
		return ret;

	return bpf_unwind_user_copy(&trace, buf, buf__sz);
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(unwind_bpf_kfunc_ids)
/* Trusted: otherwise the verifier would take NULL for any of the pointers. */
BTF_ID_FLAGS(func, bpf_unwind_user_request, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_unwind_user_copy, KF_TRUSTED_ARGS)
BTF_ID_FLAGS(func, bpf_unwind_user_cached, KF_TRUSTED_ARGS)
BTF_KFUNCS_END(unwind_bpf_kfunc_ids)

static const struct btf_kfunc_id_set unwind_bpf_kfunc_set = {
	.owner	= THIS_MODULE,
	.set	= &unwind_bpf_kfunc_ids,
};

static int __init unwind_bpf_init(void)
{
	int ret;

	BTF_TYPE_EMIT_ENUM(BPF_UNWIND_QUEUED);

	/* Tracing stands for tracepoints, perf events and LSM hooks, too. */
	ret = unwind_deferred_init(&unwind_bpf_work, unwind_bpf_callback) ?:
	      register_btf_kfunc_id_set(BPF_PROG_TYPE_TRACING, &unwind_bpf_kfunc_set) ?:
	      register_btf_kfunc_id_set(BPF_PROG_TYPE_KPROBE, &unwind_bpf_kfunc_set);
	if (ret)
		pr_err("no functions for BPF programs (%d)\n", ret);

	return ret;
}
late_initcall(unwind_bpf_init);
