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
 * @cookie:	What the requests of this user context were given
 * @timestamp:	local_clock() of the first request of this context by anybody
 *
 * Context: Process context, the task that was asked. May sleep. Must not touch
 *          user memory, must not call unwind_deferred_cancel(), and must not
 *          register nor unregister probes of tracepoints.
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

/* Requested before in this user context; the callback is still to come. */
#define UNWIND_ALREADY_PENDING		1
/* The callback has returned; the trace is at hand: unwind_deferred_cached(). */
#define UNWIND_ALREADY_EXECUTED		2

/* Most works that can be registered at a time. */
#define UNWIND_MAX_WORKS		(BITS_PER_LONG - 2)

/* Most entries of a trace: what fits into one page beside struct unwind_cache. */
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

int unwind_deferred_arm(void);
void unwind_deferred_disarm(void);

void __unwind_deferred_renew(void);
void __unwind_deferred_discard(void);
void __unwind_deferred_reset(void);

void unwind_deferred_exec_begin(void);
void unwind_deferred_exec_end(void);
void unwind_deferred_task_init(struct task_struct *task);
void unwind_deferred_task_exit(void);
void unwind_deferred_task_free(struct task_struct *task);

/**
 * unwind_deferred_context - Does the current task have a user context?
 *
 * Context: Any context.
 * Return: True if something was requested since the task entered the kernel, or
 *	   if leftovers of that kind are around.
 */
static inline bool unwind_deferred_context(void)
{
	return atomic_long_read(&current->unwind_info.mask);
}

/**
 * unwind_deferred_renew - Answer all requests, then start a new user context
 *
 * For places that are about to change the user registers. Requests that follow
 * get a new cookie, and the trace of the registers in force at that time.
 *
 * Context: Process context, may sleep and take page faults.
 */
static inline void unwind_deferred_renew(void)
{
	if (unwind_deferred_context())
		__unwind_deferred_renew();
}

/**
 * unwind_deferred_discard - Answer all requests with an empty trace
 *
 * Ends a section, begun by unwind_deferred_renew(), in which the user registers
 * were no valid context of the task. A new context starts afterwards.
 *
 * Context: Process context, may sleep.
 */
static inline void unwind_deferred_discard(void)
{
	if (unwind_deferred_context())
		__unwind_deferred_discard();
}

/**
 * unwind_deferred_exit_to_user - Close the user context on the way out
 *
 * Called right after the last read of the thread flags that allowed the return
 * to user mode. From here to the next entry nothing would run a task_work
 * that is queued now, hence task context requests are refused; an NMI brings
 * its own interrupt along (TWA_NMI_CURRENT) and may open a new context.
 *
 * Context: Interrupts disabled.
 */
static __always_inline void unwind_deferred_exit_to_user(void)
{
	if (static_branch_unlikely(&unwind_deferred_key)) {
		raw_cpu_write(unwind_deferred_closed, true);
		if (unlikely(unwind_deferred_context()))
			__unwind_deferred_reset();
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
static inline void unwind_deferred_renew(void) { }
static inline void unwind_deferred_discard(void) { }
static inline bool unwind_deferred_context(void) { return false; }
static inline void unwind_deferred_exec_begin(void) { }
static inline void unwind_deferred_exec_end(void) { }
static inline void unwind_deferred_task_init(struct task_struct *task) { }
static inline void unwind_deferred_task_exit(void) { }
static inline void unwind_deferred_task_free(struct task_struct *task) { }
static __always_inline void unwind_deferred_exit_to_user(void) { }
static __always_inline void unwind_deferred_enter_from_user(void) { }

#endif /* CONFIG_UNWIND_USER */
#endif /* _LINUX_UNWIND_DEFERRED_H */
