/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM unwind

#if !defined(_TRACE_UNWIND_DEFERRED_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_UNWIND_DEFERRED_H

#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/tracepoint.h>
#include <linux/unwind_deferred.h>

/* Called by BPF programs, and by nothing else */
int bpf_unwind_user_request(u64 *cookie);
int bpf_unwind_user_copy(const struct unwind_stacktrace *trace, void *buf, u32 buf__sz);
int bpf_unwind_user_cached(void *buf, u32 buf__sz);

/*
 * The answer to requests of BPF programs, bpf_unwind_user_request(). It comes
 * once for each user context in which a program asked, however many did, in the
 * task that was asked; the trace is empty if there is none to be had.
 *
 * Requests are refused while nobody listens. Listeners are programs, and events
 * of perf. It cannot be enabled in tracefs, for instance along with all other
 * events: nobody would ask, and all tasks would pay for the answers. There, the
 * option userstacktrace_delay has the stacks.
 */
TRACE_EVENT_FN(unwind_deferred_complete,

	TP_PROTO(struct task_struct *task, u64 cookie, u64 timestamp,
		 const struct unwind_stacktrace *trace),

	TP_ARGS(task, cookie, timestamp, trace),

	TP_STRUCT__entry(
		__field(u64,		cookie)
		__field(u64,		timestamp)
		__field(pid_t,		pid)
		__field(unsigned int,	nr)
		/* A ring buffer takes no entry of more than a page. */
		__dynamic_array(unsigned long, entries, min(trace->nr, 480U))
	),

	TP_fast_assign(
		__entry->cookie		= cookie;
		__entry->timestamp	= timestamp;
		__entry->pid		= task->pid;
		__entry->nr		= trace->nr;
		memcpy(__get_dynamic_array(entries), trace->entries,
		       __get_dynamic_array_len(entries));
	),

	TP_printk("pid=%d cookie=%#llx timestamp=%llu nr=%u entries=%s",
		  __entry->pid, __entry->cookie, __entry->timestamp, __entry->nr,
		  __print_array(__get_dynamic_array(entries),
				__get_dynamic_array_len(entries) /
				sizeof(unsigned long), sizeof(unsigned long))),

	unwind_deferred_arm, unwind_deferred_disarm
);

TRACE_EVENT_FLAGS(unwind_deferred_complete, TRACE_EVENT_FL_IGNORE_ENABLE)

#endif /* _TRACE_UNWIND_DEFERRED_H */

/* The system has another header of its name. */
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE unwind_deferred

#include <trace/define_trace.h>
