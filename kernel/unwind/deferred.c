// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred unwinding of user space stacks.
 *
 * A request takes a cookie and queues a task_work; the task unwinds its own
 * user stack on the way back to user space and hands the trace to every tracer
 * that asked. A cookie stands for one *user context*: the user registers as they
 * are from one entry into the kernel to the next return, unless the kernel
 * itself replaces them in between (execve, signals, ptrace, uprobes).
 *
 * All state depends on one atomic word per task, unwind_task_info::mask. It is 0
 * if and only if there is no context. Requests run with interrupts disabled on
 * the task's own CPU, so only an NMI can come between two steps of a request, and
 * it always runs to completion. Every step below is written so that an NMI may
 * come after any instruction.
 *
 * Litmus tests that are named are in Documentation/litmus-tests/unwind.
 */

#define pr_fmt(fmt) "unwind_deferred: " fmt

#include <linux/cleanup.h>
#include <linux/cpu.h>
#include <linux/export.h>
#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/rt.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/srcu.h>
#include <linux/task_work.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>
#include <linux/workqueue.h>
#include <kunit/static_stub.h>

#include <asm/unwind_user.h>

#include "deferred.h"

/* The task_work will process requests; set by the first of them. */
#define UNWIND_PENDING		BIT(0)
/* The cache holds the trace of this context. */
#define UNWIND_USED		BIT(1)
/* Bits of the registered works follow. */
#define UNWIND_WORK_SHIFT	2
#define UNWIND_WORKS		(~(UNWIND_PENDING | UNWIND_USED))

/* Low bits of a cookie: CPU + 1, so that it is never 0. Above is a counter of that CPU. */
#define UNWIND_COOKIE_CPU	GENMASK_ULL(15, 0)

/* Grace before the static key is turned off: profilers come in bursts. */
#define UNWIND_DISARM_DELAY	HZ

/*
 * On while somebody is armed, and UNWIND_DISARM_DELAY longer. Written under
 * unwind_arm_mutex.
 */
DEFINE_STATIC_KEY_FALSE(unwind_deferred_key);

/*
 * True from the last read of the thread flags on the way to user mode until the
 * next entry from user mode. Written by the CPU itself with interrupts
 * disabled, and by unwind_key_enable() for all CPUs.
 */
DEFINE_PER_CPU(bool, unwind_deferred_closed);

/* Caches of ordinary depth, for which kmalloc() would take twice the memory */
static struct kmem_cache *unwind_cache_slab __ro_after_init;

/* The last cookie of this CPU, or 0 */
static DEFINE_PER_CPU(u64, unwind_last_cookie);

/*
 * Are requests accepted? While they are not, the masks of tasks mean nothing,
 * unless UNWIND_PENDING is set: see unwind_forget_contexts(). Written under
 * unwind_arm_mutex, read locklessly.
 */
static bool unwind_accepts;

/*
 * Number of armed users. It becomes non-zero under unwind_arm_mutex only. When it
 * is back to 0, the delayed work checks it again, under the mutex.
 *
 * Tracers are armed with locks held that many others need (tracepoints_mutex,
 * trace_types_lock), so nobody waits for a grace period with this mutex held.
 */
static atomic_t unwind_armed = ATOMIC_INIT(0);
static DEFINE_MUTEX(unwind_arm_mutex);

/*
 * Registered works by bit; an error pointer keeps the place of one that is being
 * cancelled. Read in callbacks under unwind_srcu. A free place is taken under
 * unwind_works_mutex, and belongs to the work from then on.
 */
static struct unwind_work __rcu *unwind_works[BITS_PER_LONG];
static DEFINE_MUTEX(unwind_works_mutex);
DEFINE_STATIC_SRCU(unwind_srcu);

static void unwind_deferred_task_work(struct callback_head *head);

#ifdef CONFIG_DEBUG_ENTRY
/*
 * See unwind_regs_adopt(). Notes how the trace of the context will have to begin;
 * nothing in the entry code, where only NMIs can ask: the registers may not be
 * complete yet.
 */
void __unwind_regs_adopt(void)
{
	struct unwind_task_info *info = &current->unwind_info;
	struct pt_regs *regs = task_pt_regs(current);

	if (raw_cpu_read(unwind_deferred_closed)) {
		info->ip = 0;
		return;
	}
	info->ip = uprobe_unwind_ip(instruction_pointer(regs));
	info->sp = user_stack_pointer(regs);
}

/* Did anybody forget unwind_regs_begin()? */
static void unwind_regs_assert(void)
{
	struct unwind_task_info *info = &current->unwind_info;
	struct pt_regs *regs = task_pt_regs(current);
	unsigned long ip = uprobe_unwind_ip(instruction_pointer(regs));

	WARN_ONCE(info->ip && (info->ip != ip ||
			       info->sp != user_stack_pointer(regs)),
		  "user registers changed while requests were pending: IP %lx to %lx, SP %lx to %lx\n",
		  info->ip, ip, info->sp, user_stack_pointer(regs));
}
#else
static inline void unwind_regs_assert(void) { }
#endif

static u64 unwind_next_cookie(u64 last, unsigned int cpu)
{
	BUILD_BUG_ON(CONFIG_NR_CPUS >= UNWIND_COOKIE_CPU);

	return (last | UNWIND_COOKIE_CPU) + 1 + (cpu + 1);
}

/* A function of its own, so that a test can have an NMI come just before it. */
static bool unwind_context_publish(struct unwind_task_info *info, long *old, long bits)
{
	KUNIT_STATIC_STUB_REDIRECT(unwind_context_publish, info, old, bits);

	/* Full barrier: an NMI that sees the mask sees the cookie. */
	return atomic_long_try_cmpxchg(&info->mask, old, bits);
}

/*
 * Set bits in the mask of the current task, with interrupts disabled or in NMI. Returns
 * the mask before; 0 if this has started the context.
 */
static __always_inline unsigned long
unwind_context_add(struct unwind_task_info *info, unsigned long bits)
{
	u64 cookie, now;
	long old;

	lockdep_assert(raw_irqs_disabled());

	for (;;) {
		old = atomic_long_read(&info->mask);
		if (old) {
			if ((old & bits) == bits ||
			    atomic_long_try_cmpxchg(&info->mask, &old,
						    old | bits))
				return old;
			continue;
		}

		/*
		 * Read last cookie and clock before the mask that is replaced.
		 * An NMI that starts a context in between shows in the mask.
		 * One that comes later makes the very cookie that is stored
		 * below, from the same last one; storing it twice does no harm,
		 * nor does the time of this request, which is the earlier one.
		 */
		cookie = unwind_next_cookie(this_cpu_read(unwind_last_cookie),
					    raw_smp_processor_id());
		now = local_clock();
		barrier();
		old = atomic_long_read(&info->mask);
		if (old)
			continue;

		WRITE_ONCE(info->cookie, cookie);
		WRITE_ONCE(info->timestamp, now);
		if (IS_ENABLED(CONFIG_DEBUG_ENTRY))
			__unwind_regs_adopt();

		if (unwind_context_publish(info, &old, bits)) {
			this_cpu_write(unwind_last_cookie, cookie);
			return 0;
		}
	}
}

/**
 * unwind_context_reset - End the user context
 * @info:	State of the current task
 *
 * Not inlined, since selftests put probes here.
 *
 * Context: Any context of the owner, or unwind_forget_contexts(). An NMI sees the
 *	    old context or none. See also reset+request.litmus.
 * Return: False if requests are pending: the context stays as it is.
 */
noinline bool unwind_context_reset(struct unwind_task_info *info)
{
	long old = atomic_long_read(&info->mask);

	do {
		if (old & UNWIND_PENDING)
			return false;
	} while (old && !atomic_long_try_cmpxchg(&info->mask, &old, 0));

	return true;
}

/* Has the callback of a work returned in the context with this mask? */
static bool unwind_executed(const struct unwind_task_info *info, unsigned long mask,
			    unsigned long bit)
{
	/* Without UNWIND_USED the cache, if any, is about an older context. */
	return (mask & bit) && (mask & UNWIND_USED) &&
	       (atomic_long_read(&info->cache->completed) & bit);
}

/*
 * If there was no memory for a trace, the tracers that had asked were given an
 * empty one. The cookie stands for that one, so no other trace may follow.
 */
static bool unwind_context_failed(const struct unwind_task_info *info,
				  unsigned long mask)
{
	return (mask & UNWIND_USED) && !info->cache;
}

/* After an interrupt on the way to user space, the thread flags are read again. */
static void unwind_kicked(struct irq_work *unused)
{
}

static DEFINE_PER_CPU(struct irq_work, unwind_kick) = IRQ_WORK_INIT_HARD(unwind_kicked);

static int unwind_queue(struct unwind_task_info *info, task_work_func_t func)
{
	int ret;

	/*
	 * Still queued: a flush answered the requests it was queued for, or it was queued
	 * for a look. It has yet to run, and will find the new ones. Otherwise this is an NMI
	 * that has interrupted the code below. Only NMIs of this CPU compete.
	 *
	 * A look may be queued after the last read of the thread flags, and then runs in the
	 * next entry, which is too late for a request: its context ends before.
	 */
	if (cmpxchg_local(&info->work.func, NULL, func)) {
		if (in_nmi())
			irq_work_queue(this_cpu_ptr(&unwind_kick));
		return 0;
	}

	if (in_nmi()) {
		ret = task_work_add(current, &info->work, TWA_NMI_CURRENT);
	} else {
		/* As TWA_RESUME, which would search for a CPU to kick. */
		ret = task_work_add(current, &info->work,
				    TWA_NONE | TWAF_NO_ALLOC);
		set_thread_flag(TIF_NOTIFY_RESUME);
	}
	if (WARN_ON_ONCE(ret)) {
		info->work.func = NULL;
		atomic_long_set(&info->mask, 0);
	}

	return ret;
}

/*
 * Does the mask of the current task describe its present user context? To be called
 * before the mask is read.
 */
static bool unwind_accepts_requests(void)
{
	/*
	 * Pairs with unwind_deferred_arm(): what was left from before is gone, see
	 * arm+request.litmus.
	 */
	return smp_load_acquire(&unwind_accepts);
}

static int unwind_request(struct unwind_task_info *info,
			  struct unwind_work *work, u64 *cookie)
{
	/*
	 * Pairs with unwind_deferred_init(): the mask has nothing of an earlier work in
	 * this place, see init+request.litmus.
	 */
	int nr = smp_load_acquire(&work->bit);
	unsigned long old, bit;
	int ret;

	/* A cancelled work, or nobody armed */
	if (nr < UNWIND_WORK_SHIFT || !unwind_accepts_requests())
		return -EINVAL;
	/*
	 * An NMI gets its answer by an interrupt before the next instruction of
	 * user space. Other events are refused: one that hits in every exit to
	 * user mode would hit again after that interrupt, and so on for ever.
	 */
	if (raw_cpu_read(unwind_deferred_closed) && !arch_unwind_in_nmi())
		return -EINVAL;
	/* With interrupts off: this calls into KVM, which RCU keeps loaded. */
	if (perf_guest_state())
		return -EINVAL;

	bit = BIT(nr);
	old = atomic_long_read(&info->mask);
	if (old & bit)
		goto out;
	if (unwind_context_failed(info, old))
		return -ENOMEM;

	old = unwind_context_add(info, UNWIND_PENDING | bit);
	/* An NMI may have asked for the same work meanwhile. */
	if (!(old & UNWIND_PENDING)) {
		ret = unwind_queue(info, unwind_deferred_task_work);
		if (ret)
			return ret;
	}
out:
	*cookie = READ_ONCE(info->cookie);
	if (!(old & bit))
		return 0;
	return unwind_executed(info, old, bit) ? UNWIND_ALREADY_EXECUTED :
						 UNWIND_ALREADY_PENDING;
}

/**
 * unwind_deferred_request - Ask for the user stack of the current task
 * @work:	A registered work; its callback receives the trace
 * @cookie:	Where to put the cookie that names the current user context. It
 *		is the same for all requests of one context, never 0, and not
 *		used again (a CPU has 2^48 of them); it is 0 after an error.
 *
 * Once a request has been accepted, the callback always runs; if the stack cannot
 * be read by then, with an empty trace.
 *
 * The requester must be armed, see unwind_deferred_arm().
 *
 * Context: Any context, NMI included; also under raw spinlocks. Does not
 *          allocate.
 * Return:
 * * %0				- queued, the callback follows
 * * %UNWIND_ALREADY_PENDING	- requested before by @work in this context, the
 *				  callback follows or is running
 * * %UNWIND_ALREADY_EXECUTED	- the callback has returned; the trace can be had
 *				  from unwind_deferred_cached()
 * * %-EAGAIN			- refused: the user registers are being replaced
 *				  (execve, signals, ...). Do not walk in place
 *				  either, the sample has no user stack.
 * * %-EINVAL			- refused: not a user task or an exiting one, no
 *				  user registers, a hit in a KVM guest, a
 *				  cancelled @work, nobody armed, or too late on
 *				  the way to user mode
 * * %-ENOMEM			- refused: no memory for the trace in this context
 * * %-EOPNOTSUPP		- the kernel is without CONFIG_UNWIND_USER
 */
int unwind_deferred_request(struct unwind_work *work, u64 *cookie)
{
	unsigned long flags;
	int ret;

	*cookie = 0;

	/* An interrupt may ask while the task is changing other flags. */
	if (!data_race(is_user_task(current)))
		return -EINVAL;
	/* Before the other reasons, since this one rules out a walk in place. */
	if (unwind_regs_changing())
		return -EAGAIN;
	/* Flags that may be changing, as above */
	if (data_race(current->flags & PF_EXITING) || !user_mode(task_pt_regs(current)))
		return -EINVAL;

	/*
	 * Raw: this may be called by a tracer of the events that the ordinary
	 * variants emit. The disabled section is also what others wait for:
	 * unwind_deferred_cancel() by synchronize_rcu(), unwind_key_enable()
	 * by interrupts.
	 */
	raw_local_irq_save(flags);
	ret = unwind_request(&current->unwind_info, work, cookie);
	raw_local_irq_restore(flags);

	return ret;
}
EXPORT_SYMBOL_GPL(unwind_deferred_request);

static void unwind_cache_trace(struct unwind_cache *cache,
			       struct unwind_stacktrace *trace)
{
	trace->nr = cache->nr;
	trace->end = cache->end;
	trace->entries = cache->entries;
}

/**
 * unwind_deferred_cached - Get the trace of the current user context
 * @trace:	Filled in; points into the cache of the task
 *
 * For use after unwind_deferred_request() returned %UNWIND_ALREADY_EXECUTED. The
 * trace stays valid until the NMI or interrupt that calls this returns; in process
 * context, until the system call does.
 *
 * Context: Any context, NMI included.
 * Return: 0; -ENOENT if there is no trace, -EOPNOTSUPP without
 *         CONFIG_UNWIND_USER. @trace is empty after an error.
 */
int unwind_deferred_cached(struct unwind_stacktrace *trace)
{
	struct unwind_task_info *info = &current->unwind_info;
	struct unwind_cache *cache = info->cache;

	*trace = (struct unwind_stacktrace) { .end = UNWIND_USER_REFUSED };
	if (!cache || !unwind_accepts_requests() ||
	    !(atomic_long_read(&info->mask) & UNWIND_USED))
		return -ENOENT;

	unwind_regs_assert();
	unwind_cache_trace(cache, trace);

	return 0;
}
EXPORT_SYMBOL_GPL(unwind_deferred_cached);

/*
 * Get the cache of the current task, allocated by its first walk, and again by the first
 * one after deeper stacks were allowed. NULL if there is no memory, or was none when this
 * context was answered.
 */
static struct unwind_cache *unwind_get_cache(struct unwind_task_info *info)
{
	const bool deep = READ_ONCE(sysctl_perf_event_max_stack) > PERF_MAX_STACK_DEPTH;
	struct unwind_cache *cache, *old = info->cache;
	gfp_t gfp;

	/* A dying task does not wait for a grace period. */
	if (likely(old && (!deep || old->room == UNWIND_MAX_ENTRIES || unwind_is_dying())))
		return old;
	if (unwind_context_failed(info, atomic_long_read(&info->mask)))
		return NULL;

	gfp = unwind_gfp();
	cache = deep ? kzalloc(struct_size(cache, entries, UNWIND_MAX_ENTRIES), gfp) :
		       kmem_cache_zalloc(unwind_cache_slab, gfp);
	if (!cache) {
		unwind_no_memory(gfp);
		return old;
	}
	cache->room = deep ? UNWIND_MAX_ENTRIES : PERF_MAX_STACK_DEPTH;
	/* Pairs with the lockless readers: complete before visible, see cancel+cache.litmus. */
	smp_store_release(&info->cache, cache);
	/* Without UNWIND_USED nobody reads it, but unwind_forget_bit() may have it. */
	if (old)
		kfree_rcu_mightsleep(old);
	return cache;
}

/*
 * Take the trace of the current context into the cache, if there is memory for one.
 * Nobody reads it until UNWIND_USED is set.
 */
static void unwind_walk(struct unwind_task_info *info)
{
	struct unwind_cache *cache = unwind_get_cache(info);
	struct unwind_stacktrace trace;
	bool nofault;

	if (!cache)
		return;
	atomic_long_set(&cache->completed, 0);
	trace.entries = cache->entries;

	/* The part that is resident may still be the whole stack. */
	nofault = unwind_is_dying();
	if (nofault)
		pagefault_disable();
	unwind_user(&trace, cache->room);
	if (nofault)
		pagefault_enable();
	cache->nr = trace.nr;
	cache->end = trace.end;
}

/**
 * unwind_user_faultable - Unwind the user stack of the current task now
 * @trace:	Filled in; points into the cache of the task and is valid until
 *		the caller returns to user space
 *
 * The trace is taken once per user context, and shared by all callers and by
 * deferred requests. The caller must be armed, see unwind_deferred_arm().
 *
 * Context: Process context, may sleep and take page faults; with page faults
 *          disabled the trace may be short, as it may in a task that is
 *          being killed, which does not wait for pages.
 * Return: 0, -EINVAL if the current task has no user stack or nobody is armed,
 *         -EAGAIN while the user registers are being replaced, -ENOMEM, or
 *         -EOPNOTSUPP without CONFIG_UNWIND_USER. @trace is empty after an
 *         error.
 */
int unwind_user_faultable(struct unwind_stacktrace *trace)
{
	struct unwind_task_info *info = &current->unwind_info;
	unsigned long flags;

	might_fault();

	*trace = (struct unwind_stacktrace) { .end = UNWIND_USER_REFUSED };
	if (unwind_regs_changing())
		return -EAGAIN;
	if (!unwind_deferred_cached(trace))
		return 0;
	if (!is_user_task(current) || !user_mode(task_pt_regs(current)) ||
	    !unwind_accepts_requests())
		return -EINVAL;

	unwind_walk(info);
	if (!info->cache)
		return -ENOMEM;
	unwind_cache_trace(info->cache, trace);

	raw_local_irq_save(flags);
	unwind_context_add(info, UNWIND_USED);
	raw_local_irq_restore(flags);

	return 0;
}
EXPORT_SYMBOL_GPL(unwind_user_faultable);

/*
 * Give the trace in the cache to the tracers that have asked and have not got it yet.
 * Without a cache, which means that there was no memory, they get an empty one.
 */
static void unwind_answer(struct unwind_task_info *info)
{
	/*
	 * As long as UNWIND_PENDING is set, the context cannot be replaced.
	 * Requests made before it is cleared are answered here; later ones
	 * queue the task_work again.
	 */
	u64 cookie = READ_ONCE(info->cookie);
	u64 timestamp = READ_ONCE(info->timestamp);
	struct unwind_stacktrace trace = { .end = UNWIND_USER_REFUSED };
	struct unwind_cache *cache = info->cache;
	struct unwind_work *work;
	unsigned long todo;
	unsigned int nr;
	long old;

	if (cache)
		unwind_cache_trace(cache, &trace);

	/*
	 * From here on others can have the trace. Without memory there is no place
	 * to note which works this answers. So refuse all further requests in this
	 * context: otherwise an event on the way to user mode would make the task
	 * unwind for ever.
	 */
	old = atomic_long_read(&info->mask);
	do {
		todo = cache ? old & ~UNWIND_PENDING : 0;
		todo |= UNWIND_USED;
	} while (!atomic_long_try_cmpxchg(&info->mask, &old, todo));

	/* An earlier run in this context has answered some. */
	todo = old & UNWIND_WORKS;
	if (cache && (old & UNWIND_USED))
		todo &= ~atomic_long_read(&cache->completed);

	for (; todo; todo &= todo - 1) {
		nr = __ffs(todo);
		work = srcu_dereference(unwind_works[nr], &unwind_srcu);
		/* Cancelled since */
		if (IS_ERR_OR_NULL(work))
			continue;

		work->func(work, &trace, cookie, timestamp);

		/*
		 * Not earlier: an NMI would be told that the record has been
		 * written.
		 */
		if (cache)
			atomic_long_or(BIT(nr), &cache->completed);
	}
}

/* See unwind_deferred_answer() */
void __unwind_deferred_answer(void)
{
	struct unwind_task_info *info = &current->unwind_info;
	long mask = atomic_long_read(&info->mask);
	int srcu_idx;

	if (!(mask & UNWIND_PENDING))
		return;

	unwind_regs_assert();
	if (!(mask & UNWIND_USED))
		unwind_walk(info);

	/* Covers the read of the mask too, see unwind_deferred_cancel(). */
	srcu_idx = srcu_read_lock(&unwind_srcu);
	unwind_answer(info);
	srcu_read_unlock(&unwind_srcu, srcu_idx);
}

static void unwind_deferred_task_work(struct callback_head *head)
{
	/*
	 * May be queued again from here on. A request that finds UNWIND_PENDING
	 * set does not do so, and is answered below.
	 */
	WRITE_ONCE(head->func, NULL);
	barrier();
	__unwind_deferred_answer();
}

static void unwind_look_task_work(struct callback_head *head)
{
	/* An event in this look, or after it, does not ask for the next one. */
	arch_unwind_set_looked();
	/*
	 * A walk for a tracer learns the same. And a look is not worth a page fault in
	 * execve(), nor in a task that dies.
	 */
	if (!(atomic_long_read(&current->unwind_info.mask) & UNWIND_PENDING) &&
	    !pagefault_disabled() && !unwind_regs_changing() && !unwind_is_dying())
		unwind_user_look();
	unwind_deferred_task_work(head);
}

/**
 * unwind_deferred_look - Have the current task learn about the code on its stack
 * @looks:	How often tasks of this process may do so; NULL if it has no code map, perhaps
 *		for lack of memory
 *
 * For walks in place that found something not known. The task does so on its way to user
 * space, without a tracer, and no more often than unwind_bucket_take() allows. It does so
 * once on each way at most: otherwise an event there would ask for one look after the other.
 * A task with a real-time policy has no time for that: its stacks lack rules of SFrame tables.
 *
 * Context: Any context, NMI included. Does not allocate.
 */
void unwind_deferred_look(u32 *looks)
{
	unsigned long flags;

	/*
	 * Flags that may be changing, as in unwind_deferred_request(). If work is
	 * queued already, for any reason, it runs before the task runs other code.
	 */
	if (data_race(current->flags & PF_EXITING) || rt_or_dl_task_policy(current) ||
	    arch_unwind_looked() || READ_ONCE(current->unwind_info.work.func) ||
	    unwind_bucket_is_empty(&current->unwind_looks) ||
	    (looks && !unwind_bucket_take(looks)))
		return;
	unwind_bucket_take(&current->unwind_looks);
	raw_local_irq_save(flags);
	unwind_queue(&current->unwind_info, unwind_look_task_work);
	raw_local_irq_restore(flags);
}

/*
 * See unwind_deferred_renew(). A work can make a context pending only once, so
 * the loop is bounded by the number of works.
 */
void __unwind_deferred_renew(void)
{
	do {
		__unwind_deferred_answer();
	} while (!unwind_context_reset(&current->unwind_info));
}

/*
 * See unwind_regs_begin(). What is requested during the first round of callbacks is
 * answered, too. In the second round requests are refused: otherwise an event that
 * fires each time this is done would make it go on for ever.
 */
void __unwind_regs_begin(void)
{
	current->unwind_regs--;
	__unwind_deferred_renew();
	current->unwind_regs++;
	/* As in unwind_regs_begin() */
	barrier();
	if (unwind_deferred_context())
		__unwind_deferred_renew();
}

/**
 * unwind_deferred_task_init - Start a new task without its parent's requests
 * @task:	The child, still invisible to others
 */
void unwind_deferred_task_init(struct task_struct *task)
{
	memset(&task->unwind_info, 0, sizeof(task->unwind_info));
	task->unwind_regs = 0;
	task->unwind_looks = (u32)jiffies;
}

/**
 * unwind_deferred_task_free - Free what unwinding allocated for a task
 * @task:	A dead task to which there are no more references
 *
 * Context: Any context that may free a task.
 */
void unwind_deferred_task_free(struct task_struct *task)
{
	kfree(task->unwind_info.cache);
}

/**
 * unwind_deferred_init - Register a tracer
 * @work:	Must stay valid until unwind_deferred_cancel() returns
 * @func:	Called once for each user context in which @work is requested
 *
 * Context: Process context, may sleep.
 * Return: 0; -EBUSY if all %UNWIND_MAX_WORKS places are taken, -EOPNOTSUPP
 *         without CONFIG_UNWIND_USER.
 */
int unwind_deferred_init(struct unwind_work *work, unwind_callback_t func)
{
	unsigned int nr;

	work->func = func;
	WRITE_ONCE(work->bit, -1);

	guard(mutex)(&unwind_works_mutex);

	for (nr = UNWIND_WORK_SHIFT; nr < BITS_PER_LONG; nr++) {
		if (rcu_access_pointer(unwind_works[nr]))
			continue;

		rcu_assign_pointer(unwind_works[nr], work);
		/* Requests may come from here on. Pairs with unwind_request() */
		smp_store_release(&work->bit, nr);
		return 0;
	}

	return -EBUSY;
}
EXPORT_SYMBOL_GPL(unwind_deferred_init);

/* Clear all that tasks have noted of a work. */
static void unwind_forget_bit(unsigned long bit)
{
	struct task_struct *g, *t;
	struct unwind_cache *cache;

	guard(rcu)();

	for_each_process_thread(g, t) {
		atomic_long_andnot(bit, &t->unwind_info.mask);
		/*
		 * Pairs with unwind_get_cache(), which frees an old one after a
		 * grace period. The last one is freed with the task, which takes
		 * a grace period once it is off the list.
		 */
		cache = smp_load_acquire(&t->unwind_info.cache);
		if (cache)
			atomic_long_andnot(bit, &cache->completed);
	}
}

/**
 * unwind_deferred_cancel - Unregister a tracer
 * @work:	A registered work; nothing happens with any other
 *
 * When this returns, @work can no longer be requested, nor will it be called;
 * pending requests get no callback.
 *
 * Context: Process context, may sleep for as long as callbacks do, including those
 *	    of other tracers. Not from a callback, and not with a lock held that a
 *	    callback could need, or that is needed in many places.
 */
void unwind_deferred_cancel(struct unwind_work *work)
{
	int nr = work->bit;

	if (nr < UNWIND_WORK_SHIFT)
		return;

	/*
	 * No new requests; those in flight run with interrupts disabled, see
	 * cancel+request.litmus.
	 */
	WRITE_ONCE(work->bit, -1);
	synchronize_rcu();

	/*
	 * No new callbacks; wait for the ones that run, which note at their end
	 * that this bit has been served, see cancel+callback.litmus.
	 */
	rcu_assign_pointer(unwind_works[nr], ERR_PTR(-EBUSY));
	synchronize_srcu(&unwind_srcu);

	/*
	 * Before the bit can be given to another work, it must be gone: from the
	 * tasks, and from anything that read the mask earlier and still uses it.
	 */
	unwind_forget_bit(BIT(nr));
	synchronize_srcu(&unwind_srcu);
	rcu_assign_pointer(unwind_works[nr], NULL);
}
EXPORT_SYMBOL_GPL(unwind_deferred_cancel);

static void unwind_open_cpu(void *unused)
{
	raw_cpu_write(unwind_deferred_closed, false);
}

/*
 * While the key was off nobody maintained unwind_deferred_closed. A CPU that
 * takes the IPI has either just come from user mode, and cleared it already,
 * or is in the kernel, but not on its last steps to user mode, where interrupts
 * are disabled. For the same reason, once this returns, no CPU is past a hook
 * that it saw as off. See arm+entry.litmus and arm+exit.litmus.
 */
static void unwind_key_enable(void)
{
	unsigned int cpu;

	lockdep_assert_held(&unwind_arm_mutex);

	static_branch_enable(&unwind_deferred_key);

	guard(cpus_read_lock)();
	for_each_possible_cpu(cpu) {
		if (!cpu_online(cpu))
			per_cpu(unwind_deferred_closed, cpu) = false;
	}
	on_each_cpu(unwind_open_cpu, NULL, 1);
}

/*
 * Remove the contexts that are left from before: while the key was off, a task that
 * went to user mode kept the one it had.
 *
 * The key is on, on all CPUs, and requests are still refused. One that was in flight
 * when it went off had interrupts disabled, so it was over before unwind_key_enable()
 * returned. Hence a task can do two things only to its own mask meanwhile:
 *
 * - End the context, as is done here.
 * - Answer a pending one, which is left alone here: it has not been back to user mode
 *   since it started, or it would have been answered. So it is the present one, and
 *   later requests join it. If it is answered after this has passed the task, it is
 *   still not left over: the hook ends it on the way out.
 *
 * Tasks that are not on the list have no context: a new one starts without, and an
 * exiting one ended its last in unwind_deferred_task_exit().
 */
static void unwind_forget_contexts(void)
{
	struct task_struct *g, *t;

	guard(rcu)();
	for_each_process_thread(g, t)
		unwind_context_reset(&t->unwind_info);
}

static void unwind_disarm(struct work_struct *unused)
{
	guard(mutex)(&unwind_arm_mutex);

	if (atomic_read(&unwind_armed))
		return;

	/*
	 * Nobody waits for the requests in flight: what they start is pending, and
	 * is answered without the hooks.
	 */
	WRITE_ONCE(unwind_accepts, false);
	static_branch_disable(&unwind_deferred_key);
}

static DECLARE_DELAYED_WORK(unwind_disarm_work, unwind_disarm);

/**
 * unwind_deferred_arm - Announce that requests are going to be made
 *
 * The hooks in the entry code are live while there is at least one armed user.
 * To be called where a tracer is switched on (an event is opened, an option is
 * set), not where it is registered. Calls nest.
 *
 * Context: Process context, may sleep; takes cpu_hotplug_lock. Does not wait for
 *	    a grace period.
 * Return: 0; -EOPNOTSUPP without CONFIG_UNWIND_USER.
 */
int unwind_deferred_arm(void)
{
	if (atomic_inc_not_zero(&unwind_armed))
		return 0;

	guard(mutex)(&unwind_arm_mutex);

	if (!unwind_accepts) {
		/* First the hooks, so that no context is left over any more. */
		unwind_key_enable();
		unwind_forget_contexts();
		/* Pairs with unwind_accepts_requests() */
		smp_store_release(&unwind_accepts, true);
	}
	/* The next tracer sees the count above, and makes requests: see arm+arm.litmus. */
	smp_mb__before_atomic();
	atomic_inc(&unwind_armed);

	return 0;
}
EXPORT_SYMBOL_GPL(unwind_deferred_arm);

/**
 * unwind_deferred_disarm - Undo one unwind_deferred_arm()
 *
 * Context: Any context but NMI.
 */
void unwind_deferred_disarm(void)
{
	/* Without workqueues yet, for an option of ftrace at boot, the key stays on. */
	if (atomic_dec_and_test(&unwind_armed) && system_wq)
		mod_delayed_work(system_wq, &unwind_disarm_work,
				 UNWIND_DISARM_DELAY);
}
EXPORT_SYMBOL_GPL(unwind_deferred_disarm);

#ifdef CONFIG_UNWIND_DEFERRED_KUNIT_TEST
#include "tests/unwind_deferred_kunit.c"
#endif

static int __init unwind_cache_init(void)
{
	unwind_cache_slab = kmem_cache_create("unwind_cache",
					      struct_size_t(struct unwind_cache, entries,
							    PERF_MAX_STACK_DEPTH),
					      0, SLAB_PANIC | SLAB_ACCOUNT, NULL);
	return 0;
}
core_initcall(unwind_cache_init);
