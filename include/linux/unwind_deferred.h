/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred unwinding of user space stacks.
 *
 * A tracer asks for the user stack of the current task from any context, NMI
 * included, and gets a cookie. The task walks its stack once, in faultable
 * context, before it returns to user space, and every tracer that asked is
 * handed that trace together with the cookie.
 *
 * What may run concurrently (Y), and what must not (-):
 *
 *           | init | cancel | request | callback | arm | disarm |
 *   --------+------+--------+---------+----------+-----+--------|
 *   init    |  Y   |   Y*   |    Y    |    Y     |  Y  |   Y    |
 *   cancel  |      |   Y*   |    Y    |    Y**   |  Y  |   Y    |
 *   request |      |        |    Y    |    Y     |  Y  |   Y    |
 *   callback|      |        |         |    Y***  |  Y  |   Y    |
 *
 *   *   for different works; the same work needs the caller's own lock
 *   **  cancel waits for it, hence never from within a callback
 *   *** in different tasks
 */
#ifndef _LINUX_UNWIND_DEFERRED_H
#define _LINUX_UNWIND_DEFERRED_H

#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/jump_label.h>
#include <linux/percpu-defs.h>
#include <linux/sched.h>
#include <linux/unwind_deferred_types.h>
#include <linux/unwind_user_types.h>

struct unwind_work;

/**
 * typedef unwind_callback_t - Receives a trace that was requested
 * @work:	The work that was passed to unwind_deferred_request()
 * @trace:	The trace; empty (nr is 0) when the stack could not be read.
 *		Valid until the callback returns.
 * @cookie:	The cookie that requests of this user context were given
 * @timestamp:	local_clock() at the first request of this context, by any tracer
 *
 * Context: Process context, the task that was asked. May sleep. Must not touch
 *          user memory, and must not call unwind_deferred_cancel().
 */
typedef void (*unwind_callback_t)(struct unwind_work *work,
				  const struct unwind_stacktrace *trace,
				  u64 cookie, u64 timestamp);

/**
 * struct unwind_work - A tracer that wants deferred traces
 * @func:	Called once per user context in which the work was requested
 * @bit:	The work's bit in a task's mask, negative while not registered
 */
struct unwind_work {
	unwind_callback_t	func;
	int			bit;
};

/*
 * What unwind_deferred_request() returns besides 0 (queued by this call) and
 * negative error codes.
 */

/* Requested before in this user context; the callback follows or is running. */
#define UNWIND_ALREADY_PENDING		1
/* The callback has returned; the trace is at hand: unwind_deferred_cached(). */
#define UNWIND_ALREADY_EXECUTED		2

/* Most works that can be registered at a time. */
#define UNWIND_MAX_WORKS		(BITS_PER_LONG - 2)

/*
 * Most entries of a trace: what fits into one page beside struct unwind_cache. See
 * unwind_cache::room.
 */
#define UNWIND_MAX_ENTRIES						\
	((4096 - sizeof(struct unwind_cache)) / sizeof(unsigned long))

#ifdef CONFIG_UNWIND_USER

DECLARE_STATIC_KEY_FALSE(unwind_deferred_key);
DECLARE_PER_CPU(bool, unwind_deferred_closed);

int unwind_deferred_init(struct unwind_work *work, unwind_callback_t func);
void unwind_deferred_cancel(struct unwind_work *work);
int unwind_deferred_request(struct unwind_work *work, u64 *cookie);
int unwind_deferred_cached(struct unwind_stacktrace *trace);
int unwind_user_faultable(struct unwind_stacktrace *trace);

bool unwind_context_reset(struct unwind_task_info *info);
void unwind_deferred_look(u32 *looks);

int unwind_deferred_arm(void);
void unwind_deferred_disarm(void);

void __unwind_deferred_answer(void);
void __unwind_deferred_renew(void);
void __unwind_regs_begin(void);
void __unwind_regs_adopt(void);

void unwind_deferred_task_init(struct task_struct *task);
void unwind_deferred_task_free(struct task_struct *task);

/**
 * unwind_deferred_context - Does the current task have a user context?
 *
 * Context: Any context.
 * Return: True if something was requested since the task entered the kernel; also
 *	   true if an earlier context was left over.
 */
static inline bool unwind_deferred_context(void)
{
	return atomic_long_read(&current->unwind_info.mask);
}

/**
 * unwind_deferred_answer - Answer what has been requested so far
 *
 * For places after which a walk could not wait for pages any more. The user context
 * goes on: later requests get the same trace.
 *
 * Context: Process context, may sleep and take page faults.
 */
static inline void unwind_deferred_answer(void)
{
	if (unwind_deferred_context())
		__unwind_deferred_answer();
}

/**
 * unwind_deferred_renew - Answer all requests, then start a new user context
 *
 * For places where something other than the task itself may change the user
 * registers (ptrace). Requests that follow get a new cookie, and the trace for
 * the registers that are in force on the way to user space.
 *
 * Context: Process context, may sleep and take page faults.
 */
static inline void unwind_deferred_renew(void)
{
	if (unwind_deferred_context())
		__unwind_deferred_renew();
}

/**
 * unwind_deferred_task_exit - Answer the last requests of an exiting task
 *
 * PF_EXITING is set, so no more requests come, nor does the walk wait for pages.
 * The task leaves without a context, since unwind_deferred_arm() may not find it
 * any more.
 *
 * Context: Process context, do_exit(), before the task loses its memory map
 *          and its tracers.
 */
static inline void unwind_deferred_task_exit(void)
{
	unwind_deferred_renew();
}

/**
 * unwind_regs_begin - The user registers of the current task are about to change
 *
 * Call this wherever the kernel itself changes the user IP or SP of the current
 * task, before it does so. What has been requested is answered with the old
 * registers. From here to unwind_regs_end(), requests are refused with -EAGAIN,
 * since they would get neither the old stack nor the new one. Sections may nest.
 *
 * Context: Process context, may sleep and take page faults.
 */
static inline void unwind_regs_begin(void)
{
	current->unwind_regs++;
	/* An NMI sees that, or what it has started is seen here. */
	barrier();
	if (unlikely(unwind_deferred_context()))
		__unwind_regs_begin();
}

/**
 * unwind_regs_end - The user registers are those of a user context again
 *
 * Ends a section begun by unwind_regs_begin(). The next request starts a new
 * user context. A task that dies within a section need not end it.
 *
 * Context: Process context.
 */
static inline void unwind_regs_end(void)
{
	/* Requests are accepted only once the registers are complete. */
	barrier();
	if (IS_ENABLED(CONFIG_DEBUG_ENTRY))
		WARN_ON_ONCE(!current->unwind_regs);
	current->unwind_regs--;
}

/**
 * unwind_regs_changing - Is the current task in a section of unwind_regs_begin()?
 *
 * Context: Any context.
 * Return: True if no walk can start from the user registers now.
 */
static inline bool unwind_regs_changing(void)
{
	/* The task writes that word by one store; an interrupt of it only reads it. */
	return data_race(!!current->unwind_regs);
}

/**
 * unwind_regs_adopt - Let what has been requested refer to the registers as they are now
 *
 * For places that change the user IP or SP without unwind_regs_begin(): because
 * the new values stand for the same place in the program, or because the old
 * registers are not available. Only the debugging check with CONFIG_DEBUG_ENTRY
 * uses this.
 *
 * Context: Any context of the current task.
 */
static inline void unwind_regs_adopt(void)
{
	if (IS_ENABLED(CONFIG_DEBUG_ENTRY) && unwind_deferred_context())
		__unwind_regs_adopt();
}

/**
 * unwind_deferred_exit_to_user - Close the user context on the way out
 *
 * Called right after the last read of the thread flags that allowed the return
 * to user mode. From here to the next entry nothing would run a task_work that
 * is queued now. So requests in task and interrupt context are refused. An NMI
 * may open a new context: its request comes with an interrupt of its own
 * (TWA_NMI_CURRENT).
 *
 * Context: Interrupts disabled.
 */
static __always_inline void unwind_deferred_exit_to_user(void)
{
	if (IS_ENABLED(CONFIG_DEBUG_ENTRY))
		WARN_ON_ONCE(unwind_regs_changing());

	if (static_branch_unlikely(&unwind_deferred_key)) {
		raw_cpu_write(unwind_deferred_closed, true);
		if (unlikely(unwind_deferred_context()))
			unwind_context_reset(&current->unwind_info);
	}
}

/**
 * unwind_deferred_enter_from_user - Requests are allowed again
 *
 * Undoes unwind_deferred_exit_to_user().
 *
 * Context: Entry code, non-instrumentable; interrupts disabled.
 */
static __always_inline void unwind_deferred_enter_from_user(void)
{
	if (static_branch_unlikely(&unwind_deferred_key))
		raw_cpu_write(unwind_deferred_closed, false);
}

#else /* !CONFIG_UNWIND_USER */

static inline int unwind_deferred_init(struct unwind_work *work,
				       unwind_callback_t func)
{
	return -EOPNOTSUPP;
}

static inline void unwind_deferred_cancel(struct unwind_work *work) { }

static inline int unwind_deferred_request(struct unwind_work *work, u64 *cookie)
{
	return -EOPNOTSUPP;
}

static inline int unwind_deferred_cached(struct unwind_stacktrace *trace)
{
	return -EOPNOTSUPP;
}

static inline int unwind_user_faultable(struct unwind_stacktrace *trace)
{
	return -EOPNOTSUPP;
}

static inline int unwind_deferred_arm(void)
{
	return -EOPNOTSUPP;
}

static inline void unwind_deferred_disarm(void) { }
static inline void unwind_deferred_answer(void) { }
static inline void unwind_deferred_renew(void) { }
static inline bool unwind_deferred_context(void) { return false; }
static inline void unwind_regs_begin(void) { }
static inline void unwind_regs_end(void) { }
static inline bool unwind_regs_changing(void) { return false; }
static inline void unwind_regs_adopt(void) { }
static inline void unwind_deferred_task_init(struct task_struct *task) { }
static inline void unwind_deferred_task_exit(void) { }
static inline void unwind_deferred_task_free(struct task_struct *task) { }
static __always_inline void unwind_deferred_exit_to_user(void) { }
static __always_inline void unwind_deferred_enter_from_user(void) { }

#endif /* CONFIG_UNWIND_USER */
#endif /* _LINUX_UNWIND_DEFERRED_H */
