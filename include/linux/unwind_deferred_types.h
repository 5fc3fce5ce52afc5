/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_DEFERRED_TYPES_H
#define _LINUX_UNWIND_DEFERRED_TYPES_H

#include <linux/atomic.h>
#include <linux/types.h>

/**
 * struct unwind_cache - The one trace of the current user context of a task
 * @completed:	Works (by bit of the task's mask) whose callback has returned;
 *		meaningful only while UNWIND_USED is set in the mask
 * @nr:		Number of valid @entries
 * @end:	Why there are no more: enum unwind_user_status, see struct unwind_stacktrace
 * @room:	Number of @entries: PERF_MAX_STACK_DEPTH; or UNWIND_MAX_ENTRIES, which make it
 *		a page, from the first walk on at which kernel.perf_event_max_stack was more
 * @entries:	User addresses, innermost first
 *
 * Written by the owning task; read by the same task, and by interrupts and NMIs
 * that hit it. unwind_deferred_cancel() clears bits of @completed on any CPU.
 */
struct unwind_cache {
	atomic_long_t		completed;
	unsigned int		nr;
	u16			end;
	u16			room;
	unsigned long		entries[];
};

/**
 * struct unwind_task_info - Per task state of deferred unwinding
 * @mask:	UNWIND_PENDING, UNWIND_USED and one bit for each registered work
 *		that requested a trace; 0 means that there is no user context
 * @cache:	The trace, NULL until the first unwind of this task
 * @work:	Runs the unwind; @work.func is NULL while it is not queued
 * @cookie:	Names the context, see unwind_next_cookie()
 * @timestamp:	local_clock() of the first request of the context, in ns
 * @ip:		User IP at that request, as unwind_regs_assert() compares it
 * @sp:		User SP at that request
 *
 * @cookie and @timestamp belong to the context that @mask announces and mean
 * nothing while @mask is 0. Apart from @mask and the cache's completed bits,
 * which unwind_deferred_cancel() and unwind_deferred_arm() may clear from another CPU,
 * everything here is only ever accessed by the task itself and by what
 * interrupts it.
 */
struct unwind_task_info {
	atomic_long_t		mask;
	struct unwind_cache	*cache;
	struct callback_head	work;
	u64			cookie;
	u64			timestamp;
#ifdef CONFIG_DEBUG_ENTRY
	unsigned long		ip;
	unsigned long		sp;
#endif
};

#endif /* _LINUX_UNWIND_DEFERRED_TYPES_H */
