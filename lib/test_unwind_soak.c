// SPDX-License-Identifier: GPL-2.0
/*
 * Bookkeeper of deferred unwinding under load.
 *
 * Requests the user stack of whatever runs, from timer interrupts, NMIs,
 * tracepoints and a number of functions in which user registers change, and
 * keeps an account for each task and work of what was promised and what came:
 *
 * - a request that was queued has exactly one callback, in the same task and
 *   with the same cookie, unless its work is cancelled before
 * - UNWIND_ALREADY_PENDING is only said between the two, and
 *   UNWIND_ALREADY_EXECUTED only after the callback, with the trace at hand
 * - a cookie names one context: no task is given one of another's, or one of
 *   its own again
 * - the user's IP and SP are the same at all requests of a context, and the
 *   trace begins at that IP, unless it is empty
 * - the time of a context is in order with the contexts before and after it
 *
 * The load is made by user space; see tests/soak of the development tree, or
 * run anything else.
 *
 * A file, /sys/kernel/debug/unwind_soak, for one user at a time:
 *
 *	start USECS EVERY	an interrupt on each CPU every USECS on average,
 *				half of them send an NMI to some CPU; requests
 *				at one in EVERY tracepoints
 *	stop			no more requests; wait for the callbacks of all
 *				tasks that are not blocked in the kernel
 *
 * read() gives the counts, one "name number" each. Names that begin with "bad_"
 * must be 0; lines that begin with "#" tell of the first ones that are not.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/hrtimer.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nmi.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>
#include <linux/vmalloc.h>

#include <asm/apic.h>
#include <asm/ptrace.h>
#include <asm/uprobes.h>

/* The last one comes and goes all the time. */
#define SOAK_WORKS	4
#define SOAK_GUEST	(SOAK_WORKS - 1)

/* Tasks that can be accounted for at a time */
#define SLOT_BITS	13
#define SLOTS		BIT(SLOT_BITS)
/* How far a task may be from its place */
#define SLOT_WINDOW	32

/* Contexts of each CPU that are checked to be new */
#define CONTEXT_BITS	26
#define CONTEXTS	BIT(CONTEXT_BITS)

/* How many of each kind are told of */
#define DETAILS		16

/* How long a callback may take to come once there are no more requests */
#define SETTLE_SECONDS	20

/* Turns of the thread between two times that nobody is armed, and for how long */
#define DISARM_EVERY	200
#define DISARM_MSECS	1500

/* WAITED: queued, and not called when the count was taken at the end. */
enum state { NOT_REQUESTED, QUEUED, CALLED, WAITED };

enum count {
	BY_TASK, BY_IRQ, BY_NMI,
	WAS_QUEUED, WAS_PENDING, WAS_EXECUTED,
	WAS_REFUSED, WAS_CHANGING, WAS_NO_MEMORY,
	CALLBACKS, CANCELLED, WAITING,
	EMPTY, COMPARED, AT_BREAKPOINT, NOT_COMPARED,
	CONTEXT, CONTEXT_NOT_CHECKED, TIME_COMPARED,
	BEHIND_CALLBACK, TASK_NOT_ACCOUNTED, NMI_NOT_ACCOUNTED,
	TURNS,
	FIRST_BAD,
	BAD_MISSING = FIRST_BAD, BAD_TWICE, BAD_UNASKED, BAD_REPEATED,
	BAD_PENDING, BAD_EXECUTED, BAD_CACHE, BAD_COOKIE, BAD_TIME,
	BAD_REGISTERS, BAD_FRAMES, BAD_KERNEL_THREAD,
	NR_COUNTS
};

static const char * const count_names[NR_COUNTS] = {
	[BY_TASK]		= "requests_in_task_context",
	[BY_IRQ]		= "requests_in_interrupts",
	[BY_NMI]		= "requests_in_nmis",
	[WAS_QUEUED]		= "queued",
	[WAS_PENDING]		= "already_pending",
	[WAS_EXECUTED]		= "already_executed",
	[WAS_REFUSED]		= "refused",
	[WAS_CHANGING]		= "refused_registers_change",
	[WAS_NO_MEMORY]		= "refused_no_memory",
	[CALLBACKS]		= "callbacks",
	[CANCELLED]		= "cancelled_before",
	[WAITING]		= "still_in_the_kernel",
	[EMPTY]			= "callbacks_without_frames",
	[COMPARED]		= "frames_compared",
	[AT_BREAKPOINT]		= "frames_at_a_breakpoint",
	[NOT_COMPARED]		= "frames_not_compared",
	[CONTEXT]		= "contexts",
	[CONTEXT_NOT_CHECKED]	= "contexts_not_checked",
	[TIME_COMPARED]		= "times_compared",
	[BEHIND_CALLBACK]	= "pending_just_behind_callback",
	[TASK_NOT_ACCOUNTED]	= "table_full",
	[NMI_NOT_ACCOUNTED]	= "nmis_before_first_request",
	[TURNS]			= "works_cancelled",
	[BAD_MISSING]		= "bad_callback_missing",
	[BAD_TWICE]		= "bad_callback_twice",
	[BAD_UNASKED]		= "bad_callback_unasked",
	[BAD_REPEATED]		= "bad_queued_again",
	[BAD_PENDING]		= "bad_pending_not_queued",
	[BAD_EXECUTED]		= "bad_executed_not_called",
	[BAD_CACHE]		= "bad_executed_without_trace",
	[BAD_COOKIE]		= "bad_cookie_used_before",
	[BAD_TIME]		= "bad_time",
	[BAD_REGISTERS]		= "bad_registers_changed_in_context",
	[BAD_FRAMES]		= "bad_frames_of_other_registers",
	[BAD_KERNEL_THREAD]	= "bad_kernel_thread_accepted",
};

struct counts {
	unsigned long	nr[NR_COUNTS];
};

/* From any context, each CPU its own. */
static DEFINE_PER_CPU(struct counts, soak_counts);

/**
 * struct account - What one work was promised by one task
 * @cookie:	Of the last request that was queued
 * @nested:	What an NMI or interrupt was told while a request of the same work,
 *		which it had hit, had not been noted yet
 * @state:	What came of @cookie
 */
struct account {
	u64		cookie;
	u64		nested;
	enum state	state;
};

/**
 * struct slot - A task
 * @task:	NULL while the slot is free. Set by the task with interrupts
 *		disabled, cleared under soak_lock when the task is freed.
 * @requesting:	Bit per work that is just being requested
 * @cookie:	The last context that was seen
 * @noted:	The context that the registers below are of
 * @ip:		User registers at its first request that had them
 * @sp:		Its SP, as @ip
 * @where:	By whom they were noted
 * @kernel_ip:	What an NMI hit then, or 0
 * @changed:	The context in which they were seen to be others later on, and
 * @changed_ip:	these,
 * @changed_sp:	these, and
 * @changed_where: by whom
 * @answered:	Context of the last callback,
 * @timestamp:	its time,
 * @answer_nr:	how long its trace was, and
 * @answer_ip:	where that began
 * @accounts:	By work
 *
 * Written by the task and by what interrupts it; once it is gone, by the one that
 * frees it. @accounts of a work that was cancelled, by the one that did so.
 */
struct slot {
	struct task_struct	*task;
	unsigned int		requesting;
	u64			cookie;
	u64			noted;
	unsigned long		ip;
	unsigned long		sp;
	const char		*where;
	unsigned long		kernel_ip;
	u64			changed;
	unsigned long		changed_ip;
	unsigned long		changed_sp;
	const char		*changed_where;
	u64			answered;
	u64			timestamp;
	unsigned int		answer_nr;
	unsigned long		answer_ip;
	struct account		accounts[SOAK_WORKS];
};

static struct slot *soak_slots;

/* Keeps the task of a slot, for others than that task. Never in NMIs. */
static DEFINE_RAW_SPINLOCK(soak_lock);

/* Bit per context of each CPU, by half of its count. */
static unsigned long **soak_contexts;

struct detail {
	/* Set last */
	bool		ready;
	enum count	what;
	int		work;
	pid_t		pid;
	char		comm[TASK_COMM_LEN];
	u64		cookie;
	u64		other;
	unsigned long	ip;
	unsigned long	seen_ip;
	unsigned long	sp;
	unsigned long	seen_sp;
	const char	*where;
	const char	*seen_where;
	unsigned long	kernel_ip;
};

static struct detail soak_details[NR_COUNTS - FIRST_BAD][DETAILS];
static atomic_t soak_nr_details[NR_COUNTS - FIRST_BAD];

static struct unwind_work soak_works[SOAK_WORKS];
/* Bits of works that are being cancelled: their tasks wait for nothing. */
static unsigned long soak_leaving;
static bool soak_on;
static bool soak_started;
static unsigned int soak_usecs;
static unsigned int soak_every;
static struct task_struct *soak_thread;
/* Serializes start, stop and read. */
static DEFINE_MUTEX(soak_mutex);

static DEFINE_PER_CPU(struct hrtimer, soak_timer);
static DEFINE_PER_CPU(u32, soak_random);
/* An NMI that is for us is on its way to this CPU. */
static DEFINE_PER_CPU(int, soak_nmi_sent);

static void soak_count(enum count what)
{
	this_cpu_inc(soak_counts.nr[what]);
}

/* Good enough, and usable in NMIs: one that comes in between shortens it. */
static u32 soak_rand(void)
{
	u32 x = this_cpu_read(soak_random) * 1664525 + 1013904223;

	this_cpu_write(soak_random, x);

	return x >> 8;
}

/* Has one of this kind been told of? The first one of each pair of places is. */
static bool soak_is_known(enum count what, const char *where,
			  const char *seen_where)
{
	struct detail *detail = soak_details[what - FIRST_BAD];
	unsigned int i;

	for (i = 0; i < DETAILS; i++) {
		/* Pairs with soak_bad_at() */
		if (smp_load_acquire(&detail[i].ready) &&
		    detail[i].where == where &&
		    detail[i].seen_where == seen_where)
			return true;
	}

	return false;
}

static void soak_bad_at(enum count what, const struct slot *slot, int work,
			u64 cookie, u64 other, unsigned long seen_ip,
			unsigned long seen_sp, const char *seen_where)
{
	struct detail *detail;
	int nr;

	soak_count(what);
	if (seen_where && soak_is_known(what, slot->where, seen_where))
		return;
	nr = atomic_fetch_add_unless(&soak_nr_details[what - FIRST_BAD], 1,
				     DETAILS);
	if (nr == DETAILS)
		return;

	detail = &soak_details[what - FIRST_BAD][nr];
	detail->what = what;
	detail->work = work;
	detail->cookie = cookie;
	detail->other = other;
	if (slot) {
		detail->pid = slot->task->pid;
		memcpy(detail->comm, slot->task->comm, sizeof(detail->comm));
		detail->ip = slot->ip;
		detail->sp = slot->sp;
		detail->where = slot->where;
		detail->kernel_ip = slot->kernel_ip;
	}
	detail->seen_ip = seen_ip;
	detail->seen_sp = seen_sp;
	detail->seen_where = seen_where;
	/* Pairs with soak_show() and soak_is_known() */
	smp_store_release(&detail->ready, true);
}

static void soak_bad(enum count what, const struct slot *slot, int work,
		     u64 cookie, u64 other)
{
	soak_bad_at(what, slot, work, cookie, other, 0, 0, NULL);
}

static struct slot *soak_place(const struct task_struct *task, unsigned int nr)
{
	return &soak_slots[(hash_ptr(task, SLOT_BITS) + nr) % SLOTS];
}

static struct slot *soak_find(const struct task_struct *task)
{
	unsigned int i;

	for (i = 0; i < SLOT_WINDOW; i++) {
		/* Pairs with soak_close() */
		if (smp_load_acquire(&soak_place(task, i)->task) == task)
			return soak_place(task, i);
	}

	return NULL;
}

/* NMIs take no place, so nothing can take one between the search and the taking. */
static struct slot *soak_find_or_make(void)
{
	struct slot *slot = soak_find(current);
	unsigned long flags;
	unsigned int i;

	if (slot)
		return slot;
	if (in_nmi()) {
		soak_count(NMI_NOT_ACCOUNTED);
		return NULL;
	}

	raw_local_irq_save(flags);
	slot = soak_find(current);
	for (i = 0; !slot && i < SLOT_WINDOW; i++) {
		if (!cmpxchg(&soak_place(current, i)->task, NULL, current))
			slot = soak_place(current, i);
	}
	raw_local_irq_restore(flags);
	if (!slot)
		soak_count(TASK_NOT_ACCOUNTED);

	return slot;
}

/*
 * Are the registers at the top of the stack those that the task has come with?
 * An NMI may hit code that has just begun to put them there.
 */
static bool soak_entry_is_complete(struct pt_regs *nmi)
{
	struct pt_regs *regs = task_pt_regs(current);

	if (!nmi || user_mode(nmi))
		return true;
	if (!user_64bit_mode(regs))
		return false;

	/* The NMI counts as an interrupt itself. */
	return hardirq_count() > HARDIRQ_OFFSET ||
	       (nmi->sp > (unsigned long)task_stack_page(current) &&
		nmi->sp <= (unsigned long)regs);
}

/* Is a trace that is taken later going to begin at the user's IP? */
static bool soak_registers_count(struct pt_regs *nmi)
{
	struct pt_regs *regs = task_pt_regs(current);

	/* A debugger may set them before the trace is taken. */
	if (current->ptrace || !soak_entry_is_complete(nmi))
		return false;
	/* Vsyscalls are not in user space, and segments may have a base. */
	if (regs->ip >= TASK_SIZE_MAX ||
	    (!user_64bit_mode(regs) && regs->cs != __USER32_CS))
		return false;
#ifdef CONFIG_UPROBES
	/* The trace shows the probed address instead. */
	if (current->utask && current->utask->active_uprobe)
		return false;
#endif
	return true;
}

static void soak_note_registers(struct slot *slot, u64 cookie,
				const char *where, struct pt_regs *nmi)
{
	struct pt_regs *regs = task_pt_regs(current);

	if (!soak_registers_count(nmi))
		return;

	if (slot->noted != cookie) {
		slot->ip = regs->ip;
		slot->sp = regs->sp;
		slot->where = where;
		slot->kernel_ip = nmi ? nmi->ip : 0;
		barrier();
		slot->noted = cookie;
	} else if (slot->changed != cookie &&
		   (slot->ip != regs->ip || slot->sp != regs->sp)) {
		slot->changed_ip = regs->ip;
		slot->changed_sp = regs->sp;
		slot->changed_where = where;
		barrier();
		slot->changed = cookie;
	}
}

/* Each context is somebody's first one for once only. */
static void soak_note_context(struct slot *slot, u64 cookie)
{
	unsigned int cpu = (u16)cookie - 1;
	unsigned long nr = cookie >> 16;
	u64 old = slot->cookie;

	/* An NMI in between sees the same one. */
	if (old == cookie || cmpxchg64_local(&slot->cookie, old, cookie) != old)
		return;

	soak_count(CONTEXT);
	if (cpu >= nr_cpu_ids)
		soak_bad(BAD_COOKIE, slot, -1, cookie, old);
	else if (nr >= CONTEXTS)
		soak_count(CONTEXT_NOT_CHECKED);
	else if (test_and_set_bit(nr, soak_contexts[cpu]))
		soak_bad(BAD_COOKIE, slot, -1, cookie, old);
}

static void soak_note_queued(struct slot *slot, int work, u64 cookie)
{
	struct account *account = &slot->accounts[work];

	soak_count(WAS_QUEUED);
	if (account->state == QUEUED && account->cookie != cookie)
		soak_bad(BAD_MISSING, slot, work, account->cookie, cookie);
	else if (account->state != NOT_REQUESTED && account->cookie == cookie)
		soak_bad(BAD_REPEATED, slot, work, cookie, account->state);

	account->state = NOT_REQUESTED;
	barrier();
	account->cookie = cookie;
	barrier();
	account->state = QUEUED;

	if (account->nested && account->nested != cookie)
		soak_bad(BAD_PENDING, slot, work, account->nested, cookie);
	account->nested = 0;
}

static void soak_note_pending(struct slot *slot, int work, u64 cookie, bool nested)
{
	struct account *account = &slot->accounts[work];

	soak_count(WAS_PENDING);
	if (account->cookie == cookie && account->state == QUEUED)
		return;
	/*
	 * The callback has returned, or is about to, and the engine has not
	 * noted it yet.
	 */
	if (account->cookie == cookie && account->state == CALLED)
		soak_count(BEHIND_CALLBACK);
	else if (nested)
		account->nested = cookie;
	else
		soak_bad(BAD_PENDING, slot, work, cookie, account->cookie);
}

/*
 * Are these the registers of a task that has hit a uprobe's breakpoint, and was
 * asked before uprobes took its IP back to it?
 */
static bool soak_is_behind_breakpoint(const struct slot *slot, unsigned long ip,
				      u64 cookie)
{
	if (slot->changed == cookie &&
	    (slot->changed_ip != ip || slot->changed_sp != slot->sp))
		return false;

	return slot->ip == ip + UPROBE_SWBP_INSN_SIZE;
}

static void soak_note_executed(struct slot *slot, int work, u64 cookie)
{
	struct account *account = &slot->accounts[work];
	struct unwind_stacktrace trace;

	soak_count(WAS_EXECUTED);
	if (account->cookie != cookie || account->state != CALLED)
		soak_bad(BAD_EXECUTED, slot, work, cookie, account->cookie);

	if (unwind_deferred_cached(&trace)) {
		soak_bad(BAD_CACHE, slot, work, cookie, 0);
		return;
	}
	if (slot->answered != cookie || !trace.nr)
		return;
	if (trace.nr != slot->answer_nr || trace.entries[0] != slot->answer_ip)
		soak_bad_at(BAD_FRAMES, slot, work, cookie, 0, trace.entries[0],
			    0, "cache");
	if (slot->changed == cookie &&
	    !soak_is_behind_breakpoint(slot, trace.entries[0], cookie))
		soak_bad_at(BAD_REGISTERS, slot, work, cookie, 0,
			    slot->changed_ip, slot->changed_sp,
			    slot->changed_where);
}

/* Request and account without being preempted: soak_turn() waits for both. */
static void soak_request(struct slot *slot, int work, const char *where,
			 struct pt_regs *nmi)
{
	bool nested = slot->requesting & BIT(work);
	u64 cookie;
	int ret;

	slot->requesting |= BIT(work);
	barrier();

	soak_count(in_nmi() ? BY_NMI : in_hardirq() ? BY_IRQ : BY_TASK);
	ret = unwind_deferred_request(&soak_works[work], &cookie);
	if (ret >= 0) {
		soak_note_context(slot, cookie);
		soak_note_registers(slot, cookie, where, nmi);
	}

	if (ret == 0)
		soak_note_queued(slot, work, cookie);
	else if (ret == UNWIND_ALREADY_PENDING)
		soak_note_pending(slot, work, cookie, nested);
	else if (ret == UNWIND_ALREADY_EXECUTED)
		soak_note_executed(slot, work, cookie);
	else if (ret == -EAGAIN)
		soak_count(WAS_CHANGING);
	else if (ret == -ENOMEM)
		soak_count(WAS_NO_MEMORY);
	else
		soak_count(WAS_REFUSED);

	barrier();
	if (!nested)
		slot->requesting &= ~BIT(work);
}

static void soak_hit(const char *where, struct pt_regs *nmi)
{
	unsigned int works;
	struct slot *slot;
	u64 cookie;

	guard(preempt_notrace)();

	if (!READ_ONCE(soak_on))
		return;

	if (!is_user_task(current)) {
		if (unwind_deferred_request(&soak_works[0], &cookie) >= 0)
			soak_bad(BAD_KERNEL_THREAD, NULL, 0, cookie, 0);
		return;
	}

	slot = soak_find_or_make();
	if (!slot)
		return;

	for (works = soak_rand() % BIT(SOAK_WORKS); works; works &= works - 1)
		soak_request(slot, __ffs(works), where, nmi);
}

/* ------------------------------------------------------------------------- */
/* Where requests are made						      */

static int soak_nmi(unsigned int cmd, struct pt_regs *regs)
{
	if (!this_cpu_xchg(soak_nmi_sent, 0))
		return NMI_DONE;

	soak_hit("nmi", regs);

	return NMI_HANDLED;
}

static void soak_send_nmi(void)
{
	unsigned int nr = soak_rand() % num_online_cpus();
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		if (nr--)
			continue;
		/* One at a time: otherwise the second might be nobody's. */
		if (!cmpxchg(per_cpu_ptr(&soak_nmi_sent, cpu), 0, 1))
			apic->send_IPI(cpu, NMI_VECTOR);
		return;
	}
}

static enum hrtimer_restart soak_timer_fn(struct hrtimer *timer)
{
	u32 rand = soak_rand();

	if (!READ_ONCE(soak_on))
		return HRTIMER_NORESTART;

	if (rand & 1)
		soak_send_nmi();
	else
		soak_hit("timer", NULL);

	/* Not in step with anything */
	rand = soak_rand() % soak_usecs + soak_usecs / 2;
	hrtimer_forward_now(timer, ns_to_ktime(rand * NSEC_PER_USEC));

	return HRTIMER_RESTART;
}

static void soak_timer_start(void *unused)
{
	struct hrtimer *timer = this_cpu_ptr(&soak_timer);

	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer->function = soak_timer_fn;
	hrtimer_start(timer, ns_to_ktime(soak_usecs * NSEC_PER_USEC), HRTIMER_MODE_REL_PINNED_HARD);
}

static void soak_often(const char *where)
{
	if (!(soak_rand() % soak_every))
		soak_hit(where, NULL);
}

static void soak_sys_enter(void *data, struct pt_regs *regs, long id)
{
	soak_often("sys_enter");
}

static void soak_sys_exit(void *data, struct pt_regs *regs, long ret)
{
	soak_often("sys_exit");
}

static void soak_sched_switch(void *data, bool preempt, struct task_struct *prev,
			      struct task_struct *next, unsigned int prev_state)
{
	soak_often("sched_switch");
}

static void soak_page_fault(void *data, unsigned long address,
			    struct pt_regs *regs, unsigned long error_code)
{
	soak_often("page_fault_user");
}

/* The rest is rare, compared with these. */

static void soak_signal_deliver(void *data, int sig, struct kernel_siginfo *info,
				struct k_sigaction *ka)
{
	soak_hit("signal_deliver", NULL);
}

static void soak_process_exec(void *data, struct task_struct *task, pid_t old_pid,
			      struct linux_binprm *bprm)
{
	soak_hit("sched_process_exec", NULL);
}

static void soak_process_exit(void *data, struct task_struct *task)
{
	soak_hit("sched_process_exit", NULL);
}

/* The last of a task: what has not come by now never will. */
static void soak_close(struct slot *slot)
{
	struct account *account;
	int work;

	lockdep_assert_held(&soak_lock);

	for (work = 0; work < SOAK_WORKS; work++) {
		account = &slot->accounts[work];
		if (account->state != QUEUED)
			continue;
		if (soak_leaving & BIT(work))
			soak_count(CANCELLED);
		else
			soak_bad(BAD_MISSING, slot, work, account->cookie, 0);
	}

	memset(&slot->task + 1, 0, sizeof(*slot) - sizeof(slot->task));
	/* Pairs with soak_find(): empty before it is somebody else's. */
	smp_store_release(&slot->task, NULL);
}

static void soak_process_free(void *data, struct task_struct *task)
{
	struct slot *slot;
	unsigned long flags;

	raw_spin_lock_irqsave(&soak_lock, flags);
	slot = soak_find(task);
	if (slot)
		soak_close(slot);
	raw_spin_unlock_irqrestore(&soak_lock, flags);
}

static struct {
	const char		*name;
	void			*func;
	struct tracepoint	*tp;
} soak_tracepoints[] = {
	/* First and last: while there are slots, tasks are seen to go. */
	{ "sched_process_free",	soak_process_free },
	{ "sys_enter",		soak_sys_enter },
	{ "sys_exit",		soak_sys_exit },
	{ "sched_switch",	soak_sched_switch },
	{ "page_fault_user",	soak_page_fault },
	{ "signal_deliver",	soak_signal_deliver },
	{ "sched_process_exec",	soak_process_exec },
	{ "sched_process_exit",	soak_process_exit },
};

static int soak_kprobe(struct kprobe *kp, struct pt_regs *regs)
{
	/* With an NMI now and then, which sees the same registers. */
	soak_hit(kp->symbol_name, NULL);
	if (!(soak_rand() % 4))
		soak_send_nmi();

	return 0;
}

NOKPROBE_SYMBOL(soak_kprobe);

/* Around places that change user registers. Some kernels lack some of them. */
static struct kprobe soak_kprobes[] = {
	{ .symbol_name = "begin_new_exec" },
	{ .symbol_name = "setup_new_exec" },
	{ .symbol_name = "create_elf_tables" },
	{ .symbol_name = "finalize_exec" },
	{ .symbol_name = "x64_setup_rt_frame" },
	{ .symbol_name = "ia32_setup_frame" },
	{ .symbol_name = "ia32_setup_rt_frame" },
	{ .symbol_name = "signal_setup_done" },
	{ .symbol_name = "restore_altstack" },
	{ .symbol_name = "fpu__restore_sig" },
	{ .symbol_name = "restart_block_sleep" },
	{ .symbol_name = "__rseq_handle_notify_resume" },
	{ .symbol_name = "arch_uprobe_pre_xol" },
	{ .symbol_name = "arch_uprobe_post_xol" },
	{ .symbol_name = "handle_syscall_uprobe" },
	{ .symbol_name = "emulate_vsyscall" },
	{ .symbol_name = "ptrace_stop" },
	{ .symbol_name = "mm_release" },
	{ .symbol_name = "task_work_run" },
};

/* ------------------------------------------------------------------------- */
/* What comes								      */

static void soak_check_time(struct slot *slot, int work, u64 cookie, u64 timestamp)
{
	u64 now;
	bool here;

	preempt_disable();
	now = local_clock();
	here = smp_processor_id() == (u32)cookie - 1;
	preempt_enable();

	/* Clocks of different CPUs cannot be compared. */
	if (here) {
		soak_count(TIME_COMPARED);
		if (timestamp > now)
			soak_bad(BAD_TIME, slot, work, cookie, timestamp - now);
	}
	if ((u32)slot->answered == (u32)cookie) {
		soak_count(TIME_COMPARED);
		if (slot->answered == cookie ? timestamp != slot->timestamp :
					       timestamp < slot->timestamp)
			soak_bad(BAD_TIME, slot, work, cookie, slot->answered);
	}
	slot->timestamp = timestamp;
}

#define SOAK_MAPPING_UPROBES	"[uprobes]"

/* The out-of-line slots and the trampoline of uprobes are shown as what they replace. */
static bool soak_is_uprobe_slot(unsigned long ip)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	const char *name = NULL;

	if (!mm || mmap_read_lock_killable(mm))
		return true;
	vma = vma_lookup(mm, ip);
	if (vma && vma->vm_ops && vma->vm_ops->name)
		name = vma->vm_ops->name(vma);
	mmap_read_unlock(mm);

	return name && !strcmp(name, SOAK_MAPPING_UPROBES);
}

static void soak_check_frames(struct slot *slot, int work,
			      const struct unwind_stacktrace *trace, u64 cookie)
{
	if (!trace->nr) {
		soak_count(EMPTY);
		return;
	}
	if (slot->noted != cookie || current->ptrace ||
	    (trace->entries[0] != slot->ip && soak_is_uprobe_slot(slot->ip))) {
		soak_count(NOT_COMPARED);
		return;
	}
	if (soak_is_behind_breakpoint(slot, trace->entries[0], cookie)) {
		soak_count(AT_BREAKPOINT);
		return;
	}
	soak_count(COMPARED);
	/* Had there been no frames, that would have been fair. */
	if (slot->changed == cookie)
		soak_bad_at(BAD_REGISTERS, slot, work, cookie, 0,
			    slot->changed_ip, slot->changed_sp,
			    slot->changed_where);
	if (trace->entries[0] != slot->ip)
		soak_bad_at(BAD_FRAMES, slot, work, cookie, 0, trace->entries[0],
			    task_pt_regs(current)->sp, "callback");
}

static void soak_callback(struct unwind_work *work,
			  const struct unwind_stacktrace *trace, u64 cookie,
			  u64 timestamp)
{
	struct slot *slot = soak_find(current);
	int nr = work - soak_works;
	struct account *account;
	enum state state;

	soak_count(CALLBACKS);
	if (!slot) {
		soak_bad(BAD_UNASKED, NULL, nr, cookie, 0);
		return;
	}
	soak_check_frames(slot, nr, trace, cookie);
	soak_check_time(slot, nr, cookie, timestamp);
	slot->answer_nr = trace->nr;
	slot->answer_ip = trace->nr ? trace->entries[0] : 0;
	barrier();
	slot->answered = cookie;

	account = &slot->accounts[nr];
	state = NOT_REQUESTED;
	if (account->cookie == cookie)
		state = xchg(&account->state, CALLED);
	if (state == NOT_REQUESTED)
		soak_bad(BAD_UNASKED, slot, nr, cookie, account->cookie);
	else if (state == CALLED)
		soak_bad(BAD_TWICE, slot, nr, cookie, 0);
	else if (state == WAITED)
		this_cpu_dec(soak_counts.nr[WAITING]);

	/* Others may ask from here too. */
	soak_often("callback");
}

static void soak_set_leaving(unsigned long works)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&soak_lock, flags);
	soak_leaving = works;
	raw_spin_unlock_irqrestore(&soak_lock, flags);
}

/* Nobody is told anything about the work any more, nor called. */
static void soak_forget(struct account *account)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&soak_lock, flags);
	if (account->state == QUEUED)
		soak_count(CANCELLED);
	account->state = NOT_REQUESTED;
	account->nested = 0;
	raw_spin_unlock_irqrestore(&soak_lock, flags);
}

/* The work at the last place is cancelled, and another one registered there. */
static int soak_turn(void)
{
	struct account *account;
	unsigned int i;

	soak_count(TURNS);
	soak_set_leaving(BIT(SOAK_GUEST));
	unwind_deferred_cancel(&soak_works[SOAK_GUEST]);
	for (i = 0; i < SLOTS; i++) {
		account = &soak_slots[i].accounts[SOAK_GUEST];
		if (READ_ONCE(account->state) != NOT_REQUESTED || account->nested)
			soak_forget(account);
	}
	soak_set_leaving(0);

	return unwind_deferred_init(&soak_works[SOAK_GUEST], soak_callback);
}

static int soak_thread_fn(void *unused)
{
	unsigned int turns = 0;
	int ret = 0;

	while (!kthread_should_stop()) {
		/* All places taken: by works of others, for a while. */
		ret = soak_turn();
		if (++turns % DISARM_EVERY == 0) {
			unwind_deferred_disarm();
			msleep(DISARM_MSECS);
			unwind_deferred_arm();
		}
		schedule_timeout_interruptible(msecs_to_jiffies(50));
	}

	return ret;
}

/* ------------------------------------------------------------------------- */
/* Start, stop, show							      */

static void soak_match(struct tracepoint *tp, void *unused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(soak_tracepoints); i++) {
		if (!strcmp(tp->name, soak_tracepoints[i].name))
			soak_tracepoints[i].tp = tp;
	}
}

/* Is an answer still to come, from a task that has not left the kernel yet? */
static bool soak_waits(const struct slot *slot, int work)
{
	const struct unwind_task_info *info = &slot->task->unwind_info;
	int bit = soak_works[work].bit;

	return bit >= 0 && info->work.func &&
	       (atomic_long_read(&info->mask) & BIT(bit));
}

/*
 * Count what has been queued and not answered, although the task does not wait
 * in the kernel. @last: it never will be.
 */
static unsigned int soak_unsettled_in(struct slot *slot, bool last)
{
	unsigned int unsettled = 0;
	struct account *account;
	int work;

	lockdep_assert_held(&soak_lock);

	for (work = 0; slot->task && work < SOAK_WORKS; work++) {
		account = &slot->accounts[work];
		if (READ_ONCE(account->state) != QUEUED)
			continue;
		if (!soak_waits(slot, work)) {
			unsettled++;
			if (last)
				soak_bad(BAD_MISSING, slot, work,
					 account->cookie, 0);
		} else if (last && cmpxchg(&account->state, QUEUED,
					   WAITED) == QUEUED) {
			/* The callback takes it back, if it comes in the end. */
			soak_count(WAITING);
		}
	}

	return unsettled;
}

static unsigned int soak_unsettled(bool last)
{
	unsigned int unsettled = 0;
	unsigned long flags;
	unsigned int i;

	for (i = 0; i < SLOTS; i++) {
		if (!READ_ONCE(soak_slots[i].task))
			continue;
		raw_spin_lock_irqsave(&soak_lock, flags);
		unsettled += soak_unsettled_in(&soak_slots[i], last);
		raw_spin_unlock_irqrestore(&soak_lock, flags);
	}

	return unsettled;
}

static void soak_stop(void)
{
	unsigned int cpu, i;

	if (!soak_started)
		return;
	soak_started = false;

	WRITE_ONCE(soak_on, false);
	for_each_possible_cpu(cpu) {
		if (per_cpu(soak_timer, cpu).function)
			hrtimer_cancel(per_cpu_ptr(&soak_timer, cpu));
	}
	for (i = 0; i < ARRAY_SIZE(soak_kprobes); i++) {
		if (soak_kprobes[i].pre_handler)
			unregister_kprobe(&soak_kprobes[i]);
	}
	for (i = 1; i < ARRAY_SIZE(soak_tracepoints); i++) {
		if (soak_tracepoints[i].tp)
			tracepoint_probe_unregister(soak_tracepoints[i].tp,
						    soak_tracepoints[i].func,
						    NULL);
	}
	/* Requests that are being made, NMIs that have been sent */
	tracepoint_synchronize_unregister();
	for_each_online_cpu(cpu) {
		for (i = 0; i < 1000 && per_cpu(soak_nmi_sent, cpu); i++)
			usleep_range(1000, 2000);
	}
	synchronize_rcu();
	if (soak_thread)
		kthread_stop(soak_thread);
	soak_thread = NULL;

	for (i = 0; i < SETTLE_SECONDS * 10 && soak_unsettled(false); i++)
		msleep(100);
	soak_unsettled(true);

	for (i = 0; i < SOAK_WORKS; i++)
		unwind_deferred_cancel(&soak_works[i]);
	if (soak_tracepoints[0].tp)
		tracepoint_probe_unregister(soak_tracepoints[0].tp,
					    soak_tracepoints[0].func, NULL);
	tracepoint_synchronize_unregister();
	unwind_deferred_disarm();
}

static int soak_attach(void)
{
	unsigned int i;
	int ret;

	for_each_kernel_tracepoint(soak_match, NULL);
	for (i = 0; i < ARRAY_SIZE(soak_tracepoints); i++) {
		if (!soak_tracepoints[i].tp)
			return -ENOENT;
		ret = tracepoint_probe_register(soak_tracepoints[i].tp,
						soak_tracepoints[i].func, NULL);
		if (ret) {
			soak_tracepoints[i].tp = NULL;
			return ret;
		}
	}
	for (i = 0; i < ARRAY_SIZE(soak_kprobes); i++) {
		struct kprobe *kp = &soak_kprobes[i];

		*kp = (struct kprobe){
			.symbol_name = kp->symbol_name,
			.pre_handler = soak_kprobe,
		};
		if (register_kprobe(kp))
			kp->pre_handler = NULL;
	}

	return 0;
}

static void soak_reset(void)
{
	unsigned int cpu;

	memset(soak_slots, 0, SLOTS * sizeof(*soak_slots));
	memset(soak_details, 0, sizeof(soak_details));
	memset(soak_nr_details, 0, sizeof(soak_nr_details));
	soak_leaving = 0;
	for_each_possible_cpu(cpu) {
		memset(per_cpu_ptr(&soak_counts, cpu), 0, sizeof(struct counts));
		per_cpu(soak_random, cpu) = cpu * 2654435761u + 1;
		bitmap_zero(soak_contexts[cpu], CONTEXTS);
	}
}

static int soak_start(unsigned int usecs, unsigned int every)
{
	unsigned int i;
	int ret;

	if (soak_started)
		return -EBUSY;
	if (usecs < 10 || usecs > USEC_PER_SEC || !every)
		return -EINVAL;

	soak_reset();
	soak_usecs = usecs;
	soak_every = every;

	ret = unwind_deferred_arm();
	if (ret)
		return ret;
	soak_started = true;
	for (i = 0; !ret && i < SOAK_WORKS; i++)
		ret = unwind_deferred_init(&soak_works[i], soak_callback);
	if (!ret)
		ret = soak_attach();
	if (ret) {
		soak_stop();
		return ret;
	}

	WRITE_ONCE(soak_on, true);
	on_each_cpu(soak_timer_start, NULL, 1);

	soak_thread = kthread_run(soak_thread_fn, NULL, "unwind_soak");
	if (IS_ERR(soak_thread)) {
		ret = PTR_ERR(soak_thread);
		soak_thread = NULL;
		soak_stop();
	}

	return ret;
}

static ssize_t soak_write(struct file *file, const char __user *buf, size_t size,
			  loff_t *pos)
{
	unsigned int usecs, every;
	char text[64];
	int ret = 0;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, size))
		return -EFAULT;
	text[size] = 0;

	guard(mutex)(&soak_mutex);

	if (sscanf(text, "start %u %u", &usecs, &every) == 2)
		ret = soak_start(usecs, every);
	else if (!strcmp(strim(text), "stop"))
		soak_stop();
	else
		ret = -EINVAL;

	return ret ?: size;
}

static void soak_show_detail(struct seq_file *s, const struct detail *detail)
{
	seq_printf(s, "# %s: %s[%d] work %d cookie %llx other %llx",
		   count_names[detail->what], detail->comm, detail->pid,
		   detail->work, detail->cookie, detail->other);
	if (detail->where)
		seq_printf(s, ", %s noted ip %lx sp %lx", detail->where,
			   detail->ip, detail->sp);
	if (detail->kernel_ip)
		seq_printf(s, " in %pS", (void *)detail->kernel_ip);
	if (detail->seen_where)
		seq_printf(s, ", %s had ip %lx sp %lx", detail->seen_where,
			   detail->seen_ip, detail->seen_sp);
	seq_putc(s, '\n');
}

static int soak_show(struct seq_file *s, void *unused)
{
	unsigned int i, cpu;

	guard(mutex)(&soak_mutex);

	for (i = 0; i < NR_COUNTS; i++) {
		unsigned long sum = 0;

		for_each_possible_cpu(cpu)
			sum += per_cpu(soak_counts, cpu).nr[i];
		seq_printf(s, "%s %lu\n", count_names[i], sum);
	}
	for (i = 0; i < ARRAY_SIZE(soak_details) * DETAILS; i++) {
		/* Pairs with soak_bad() */
		if (smp_load_acquire(&soak_details[i / DETAILS][i % DETAILS].ready))
			soak_show_detail(s, &soak_details[i / DETAILS][i % DETAILS]);
	}

	return 0;
}

static void soak_free(void)
{
	unsigned int cpu;

	vfree(soak_slots);
	soak_slots = NULL;
	if (!soak_contexts)
		return;
	for_each_possible_cpu(cpu)
		vfree(soak_contexts[cpu]);
	kfree(soak_contexts);
	soak_contexts = NULL;
}

static int soak_alloc(void)
{
	unsigned int cpu;

	soak_slots = vcalloc(SLOTS, sizeof(*soak_slots));
	soak_contexts = kcalloc(nr_cpu_ids, sizeof(*soak_contexts), GFP_KERNEL);
	if (!soak_slots || !soak_contexts)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		soak_contexts[cpu] = vzalloc(CONTEXTS / BITS_PER_BYTE);
		if (!soak_contexts[cpu])
			return -ENOMEM;
	}

	return 0;
}

static atomic_t soak_opened;

static int soak_open(struct inode *inode, struct file *file)
{
	int ret;

	if (atomic_cmpxchg(&soak_opened, 0, 1))
		return -EBUSY;

	ret = soak_alloc();
	if (!ret)
		ret = single_open(file, soak_show, NULL);
	if (ret) {
		soak_free();
		atomic_set(&soak_opened, 0);
	}

	return ret;
}

static int soak_release(struct inode *inode, struct file *file)
{
	mutex_lock(&soak_mutex);
	soak_stop();
	mutex_unlock(&soak_mutex);
	soak_free();
	atomic_set(&soak_opened, 0);

	return single_release(inode, file);
}

static const struct file_operations soak_fops = {
	.owner		= THIS_MODULE,
	.open		= soak_open,
	.read		= seq_read,
	.write		= soak_write,
	.llseek		= seq_lseek,
	.release	= soak_release,
};

static struct dentry *soak_file;

static int __init test_unwind_soak_init(void)
{
	int ret, i;

	for (i = 0; i < SOAK_WORKS; i++)
		soak_works[i].bit = -1;

	ret = register_nmi_handler(NMI_LOCAL, soak_nmi, 0, "unwind_soak");
	if (ret)
		return ret;

	soak_file = debugfs_create_file("unwind_soak", 0600, NULL, NULL, &soak_fops);

	return 0;
}
module_init(test_unwind_soak_init);

static void __exit test_unwind_soak_exit(void)
{
	debugfs_remove(soak_file);
	unregister_nmi_handler(NMI_LOCAL, "unwind_soak");
}
module_exit(test_unwind_soak_exit);

MODULE_DESCRIPTION("Bookkeeper of deferred unwinding under load");
MODULE_LICENSE("GPL");
