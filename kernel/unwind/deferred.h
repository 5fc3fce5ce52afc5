/* SPDX-License-Identifier: GPL-2.0 */
/* What a walk of the current task may wait for */
#ifndef _KERNEL_UNWIND_DEFERRED_H
#define _KERNEL_UNWIND_DEFERRED_H

#include <linux/gfp.h>
#include <linux/sched/signal.h>

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

#endif /* _KERNEL_UNWIND_DEFERRED_H */
