/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Layout of the words that deferred unwinding keeps, for deferred.c and its tests,
 * and what a walk of the current task may wait for.
 */
#ifndef _KERNEL_UNWIND_DEFERRED_H
#define _KERNEL_UNWIND_DEFERRED_H

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/gfp.h>
#include <linux/sched/signal.h>
#include <linux/unwind_deferred_types.h>

/* The task_work is to process requests; set by the first of them. */
#define UNWIND_PENDING		BIT(0)
/* The cache holds the complete trace of this context. */
#define UNWIND_USED		BIT(1)
/* Bits of the registered works follow. */
#define UNWIND_WORK_SHIFT	2
#define UNWIND_WORKS		(~(UNWIND_PENDING | UNWIND_USED))

/* Of a cookie: CPU + 1, so that it is never 0. Above is a counter of that CPU. */
#define UNWIND_COOKIE_CPU	GENMASK_ULL(15, 0)

static inline u64 unwind_next_cookie(u64 last, unsigned int cpu)
{
	BUILD_BUG_ON(CONFIG_NR_CPUS >= UNWIND_COOKIE_CPU);

	return (last | UNWIND_COOKIE_CPU) + 1 + (cpu + 1);
}

/**
 * unwind_is_dying - Is the current task being killed, or does it exit?
 *
 * SIGKILL is consumed on the way to do_exit(), and a second one is not accepted.
 * From then on nothing could end a wait, and only the flags show that.
 *
 * Return: True if a walk must neither wait for pages nor for memory.
 */
static inline bool unwind_is_dying(void)
{
	struct signal_struct *signal = current->signal;

	return fatal_signal_pending(current) || (current->flags & PF_EXITING) ||
	       (READ_ONCE(signal->flags) & SIGNAL_GROUP_EXIT) ||
	       READ_ONCE(signal->group_exec_task);
}

/**
 * unwind_gfp - How may a walk of the current task allocate memory?
 *
 * By reclaim: a cgroup at its limit that is full of page cache is the normal state of
 * a container. But a trace is not worth killing anybody, nor the last memory, and a
 * task that is to go must not be held up.
 *
 * Context: Process context, may sleep.
 * Return: The flags.
 */
static inline gfp_t unwind_gfp(void)
{
	if (unwind_is_dying())
		return GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOMEMALLOC | __GFP_NOWARN;
	return GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN;
}

#if IS_ENABLED(CONFIG_KUNIT)
bool unwind_context_publish(struct unwind_task_info *info, long *old, long bits);
unsigned long unwind_context_add(struct unwind_task_info *info,
				 unsigned long bits);
bool unwind_context_reset(struct unwind_task_info *info);
bool unwind_executed(const struct unwind_task_info *info, unsigned long mask,
		     unsigned long bit);
struct unwind_cache *unwind_get_cache(struct unwind_task_info *info);
#endif

#endif /* _KERNEL_UNWIND_DEFERRED_H */
