/* SPDX-License-Identifier: GPL-2.0 */
/* What a walk of the current task may wait for, and how often */
#ifndef _KERNEL_UNWIND_DEFERRED_H
#define _KERNEL_UNWIND_DEFERRED_H

#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/sched/signal.h>

#include <asm/unwind_user.h>

/* Tokens of a bucket; jiffies until it gets one back; the most jiffies until it is full */
#define UNWIND_BUCKET		16U
#define UNWIND_BUCKET_FILL	((u32)HZ / 10)
#define UNWIND_BUCKET_OWES	(UNWIND_BUCKET * UNWIND_BUCKET_FILL + HZ)

/* Jiffies until a bucket is full. More than it can lack means that it has long been full. */
static inline u32 unwind_bucket_lacks(const u32 *bucket)
{
	u32 lacks = READ_ONCE(*bucket) - (u32)jiffies;

	return lacks <= UNWIND_BUCKET_OWES ? lacks : 0;
}

static inline bool unwind_bucket_is_empty(const u32 *bucket)
{
	return unwind_bucket_lacks(bucket) > (UNWIND_BUCKET - 1) * UNWIND_BUCKET_FILL;
}

/*
 * Take a token, if there is one: sixteen in a row, then ten a second. Nothing is locked, so
 * two that do this at the same time may take the same token.
 */
static inline bool unwind_bucket_take(u32 *bucket)
{
	u32 lacks = unwind_bucket_lacks(bucket) + UNWIND_BUCKET_FILL;

	if (lacks > UNWIND_BUCKET * UNWIND_BUCKET_FILL)
		return false;
	WRITE_ONCE(*bucket, (u32)jiffies + lacks);
	return true;
}

/* Memory was refused. If that took reclaim, perhaps for milliseconds, try none for a second. */
static inline void unwind_no_memory(gfp_t gfp)
{
	if (gfpflags_allow_blocking(gfp))
		WRITE_ONCE(current->unwind_looks, (u32)jiffies + UNWIND_BUCKET_OWES);
}

/*
 * Is the current task being killed or exiting? A walk must then wait neither for pages
 * nor for memory: SIGKILL is consumed on the way to do_exit(), and a second one is not
 * accepted. From then on nothing could end a wait, and only the flags show that.
 */
static inline bool unwind_is_dying(void)
{
	struct signal_struct *signal = current->signal;

	return fatal_signal_pending(current) || (current->flags & PF_EXITING) ||
	       (READ_ONCE(signal->flags) & SIGNAL_GROUP_EXIT) ||
	       READ_ONCE(signal->group_exec_task);
}

/*
 * How a walk of the current task allocates memory. With reclaim, since a cgroup at its
 * limit that is full of page cache is the normal state of a container. But a trace is not
 * worth killing anybody, nor the last memory, and must not hold up a dying task, nor one
 * that may come here in each system call: reclaim in vain is not tried again for a second.
 */
static inline gfp_t unwind_gfp(void)
{
	if (unwind_is_dying() || unwind_bucket_lacks(&current->unwind_looks) >
				 UNWIND_BUCKET * UNWIND_BUCKET_FILL)
		return GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOMEMALLOC | __GFP_NOWARN;
	return GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN;
}

#endif /* _KERNEL_UNWIND_DEFERRED_H */
