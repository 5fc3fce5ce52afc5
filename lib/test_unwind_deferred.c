// SPDX-License-Identifier: GPL-2.0
/*
 * Test module for deferred unwinding of user space stacks.
 *
 * Lets a user space test act as any number of tracers that ask for stacks from
 * NMI, interrupt and task context, on a chosen CPU or at a chosen place in the
 * kernel, and see exactly what each of them was answered. The tests are in
 * tools/testing/selftests/unwind.
 *
 * Every open file of /sys/kernel/debug/unwind_test/session is a session of its
 * own; all that it set up is removed with it. A command is one write():
 *
 *	init W			register work W (0 .. 63)
 *	cancel W		cancel it
 *	arm, disarm		as the functions; a session disarms what it armed
 *	req MASK CTX CPU COUNT USECS
 *				request the works in MASK (hex) COUNT times from
 *				CTX on CPU (-1: this one), USECS in between; CTX
 *				is task, irq, nmi, irqnmi (NMI within the IRQ) or
 *				kthread
 *	probe ID POINT WHO MASK CTX SKIP MAX [CALLER]
 *				the same at each hit of POINT (kprobe:function,
 *				kretprobe:function for its return, or
 *				tp:tracepoint) by the thread WHO (-WHO: a thread
 *				of that process), after SKIP hits, MAX times at
 *				most; irq_enable and functions only if called
 *				from CALLER (CALLER*: by any of that prefix)
 *	unprobe ID		report and remove it
 *	hold W, release W	callbacks of W wait in between
 *	state TID		log whether a task has a context and a cache
 *	stall W			be an RCU reader, spinning, as long as callbacks of W
 *				would wait, for STALL_MSECS at most
 *	entry INSTANCE TYPE HEX	put an entry of TYPE with these bytes after the
 *				common ones into the buffer of a trace instance
 *
 * read() returns the log; its lines are: type, number, work, return value,
 * cookie, timestamp, now, context, CPU, thread, place, number of addresses, the
 * first LOG_IPS addresses.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/hex.h>
#include <linux/irq_work.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nmi.h>
#include <linux/pid.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seq_buf.h>
#include <linux/slab.h>
#include <linux/trace_events.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include <asm/apic.h>

/* One more than can be registered, even without other users */
#define WORKS		64
#define PROBES		8
#define LOG_LINES	16384
#define LOG_IPS		24
#define LINE_MAX_LEN	(256 + 17 * LOG_IPS)
#define POINT_LEN	48
#define ENTRY_LEN	64
/* Not as long as RCU takes for a stall */
#define STALL_MSECS	18000
/* An NMI that is not taken within this many microseconds is an error. */
#define NMI_TIMEOUT	1000000

struct log_line {
	/* Set last by log_put(), cleared by the reader. */
	bool		ready;
	char		type;
	unsigned int	seq;
	int		work;
	int		ret;
	u64		cookie;
	u64		timestamp;
	u64		now;
	const char	*ctx;
	int		cpu;
	pid_t		tid;
	char		point[POINT_LEN];
	unsigned int	nr;
	unsigned long	ips[LOG_IPS];
};

struct session;

struct slot {
	struct unwind_work	work;
	struct session		*session;
	/* Serializes init and cancel. */
	struct mutex		lock;
};

enum context { CTX_TASK, CTX_IRQ, CTX_NMI, CTX_IRQNMI, CTX_KTHREAD };

static const char * const context_names[] = {
	"task", "irq", "nmi", "irqnmi", "kthread", NULL
};

/* Requests to be made elsewhere. */
struct shot {
	struct session	*session;
	u64		mask;
	const char	*point;
	/* Also from an NMI that is taken within the interrupt. */
	bool		nested;
	struct irq_work	irq_work;
	/* Owned by the function that set it; cleared with release when all is done. */
	bool		busy;
};

struct probe {
	char			point[POINT_LEN];
	char			caller[POINT_LEN];
	struct tracepoint	*tp;
	void			*tp_func;
	struct kprobe		kprobe;
	struct kretprobe	kretprobe;
	bool			used;
	int			who;
	enum context		ctx;
	int			skip;
	int			max;
	atomic_t		hits;
	atomic_t		requests;
	struct shot		shot;
};

struct session {
	struct slot		slots[WORKS];
	/* Serializes probe and unprobe. */
	struct mutex		probe_lock;
	struct probe		probes[PROBES];
	atomic_t		armed;
	/* Bit per work whose callbacks wait. */
	unsigned long		hold;
	wait_queue_head_t	hold_wait;

	/* Serializes readers. */
	struct mutex		read_lock;
	struct log_line		*log;
	/* Next line to write, any context; next to read, under read_lock. */
	atomic_t		log_next;
	unsigned int		log_read;
	atomic_t		log_lost;
	char			line[LINE_MAX_LEN];
};

/* What the next NMI on a CPU is to do. Set by cmpxchg from NULL. */
static DEFINE_PER_CPU(struct shot *, nmi_shot);

/* Nesting of probe_hit(), for NMIs apart; only touched by its own CPU. */
static DEFINE_PER_CPU(int[2], probe_depth);

static const char *context_now(void)
{
	if (in_nmi())
		return "nmi";
	return in_hardirq() ? "irq" : "task";
}

/*
 * Reserve a line. NULL if the log is full: what has not been read is not
 * overwritten. Any context.
 */
static struct log_line *log_get(struct session *session, char type)
{
	struct log_line *line;
	int next;

	next = atomic_read(&session->log_next);
	do {
		/* Pairs with session_read(): the line has been read. */
		if (next - smp_load_acquire(&session->log_read) >= LOG_LINES) {
			atomic_inc(&session->log_lost);
			return NULL;
		}
	} while (!atomic_try_cmpxchg(&session->log_next, &next, next + 1));

	line = &session->log[(unsigned int)next % LOG_LINES];
	line->type = type;
	line->seq = next;
	line->work = -1;
	line->ret = 0;
	line->cookie = 0;
	line->timestamp = 0;
	line->now = local_clock();
	line->ctx = context_now();
	line->cpu = raw_smp_processor_id();
	line->tid = current->pid;
	line->nr = 0;
	strscpy(line->point, "-");

	return line;
}

static void log_put(struct log_line *line)
{
	/* Pairs with session_read() */
	smp_store_release(&line->ready, true);
}

static void log_trace(struct log_line *line,
		      const struct unwind_stacktrace *trace)
{
	line->nr = trace->nr;
	if (trace->nr)
		memcpy(line->ips, trace->entries,
		       min(trace->nr, LOG_IPS) * sizeof(line->ips[0]));
}

static void callback(struct unwind_work *work,
		     const struct unwind_stacktrace *trace, u64 cookie,
		     u64 timestamp)
{
	struct slot *slot = container_of(work, struct slot, work);
	struct session *session = slot->session;
	int nr = slot - session->slots;
	struct log_line *line;

	line = log_get(session, 'C');
	if (line) {
		line->work = nr;
		line->cookie = cookie;
		line->timestamp = timestamp;
		log_trace(line, trace);
		log_put(line);
	}

	wait_event_killable(session->hold_wait,
			    !test_bit(nr, &session->hold));
}

/* One request by one work, here and now. */
static void request_one(struct session *session, int nr, const char *point)
{
	struct unwind_stacktrace trace = { };
	struct log_line *line;
	u64 cookie;
	int ret;

	ret = unwind_deferred_request(&session->slots[nr].work, &cookie);
	if (ret == UNWIND_ALREADY_EXECUTED && unwind_deferred_cached(&trace))
		trace.nr = UINT_MAX;

	line = log_get(session, 'R');
	if (!line)
		return;

	line->work = nr;
	line->ret = ret;
	line->cookie = cookie;
	strscpy(line->point, point);
	/* The cache must be there if the request says so. */
	if (trace.nr == UINT_MAX)
		line->nr = UINT_MAX;
	else
		log_trace(line, &trace);
	log_put(line);
}

static void request_mask(struct session *session, u64 mask, const char *point)
{
	for (; mask; mask &= mask - 1)
		request_one(session, __ffs64(mask), point);
}

static int nmi_handler(unsigned int cmd, struct pt_regs *regs)
{
	struct shot *shot = this_cpu_xchg(nmi_shot, NULL);

	if (!shot)
		return NMI_DONE;

	request_mask(shot->session, shot->mask, shot->point);
	/* Pairs with nmi_wait(); the shot is not ours any more. */
	smp_store_release(&shot->busy, false);

	return NMI_HANDLED;
}

/* Send an NMI that makes the requests of @shot, whose busy flag is ours. */
static int nmi_send(struct shot *shot, int cpu)
{
	if (cmpxchg(per_cpu_ptr(&nmi_shot, cpu), NULL, shot)) {
		/* Pairs with cmpxchg() in probe_fire() */
		smp_store_release(&shot->busy, false);
		return -EBUSY;
	}
	apic->send_IPI(cpu, NMI_VECTOR);

	return 0;
}

/* Wait for an NMI that was sent; by spinning, in any context. */
static int nmi_wait(struct shot *shot, int cpu)
{
	int left;

	for (left = NMI_TIMEOUT; left; left--) {
		/* Pairs with nmi_handler() */
		if (!smp_load_acquire(&shot->busy))
			return 0;
		udelay(1);
	}
	/* Not taken: withdraw. Being handled: that ends soon. */
	if (cmpxchg(per_cpu_ptr(&nmi_shot, cpu), shot, NULL) == shot) {
		shot->busy = false;
		return -ETIMEDOUT;
	}
	/* Pairs with nmi_handler() */
	while (smp_load_acquire(&shot->busy))
		cpu_relax();

	return 0;
}

static void shot_irq(struct irq_work *work)
{
	struct shot *shot = container_of(work, struct shot, irq_work);
	int cpu = smp_processor_id();

	request_mask(shot->session, shot->mask, shot->point);
	if (!shot->nested)
		/* Pairs with cmpxchg() in probe_fire() */
		smp_store_release(&shot->busy, false);
	else if (!nmi_send(shot, cpu))
		nmi_wait(shot, cpu);
}

static void shot_init(struct shot *shot, struct session *session, u64 mask,
		      enum context ctx, const char *point)
{
	shot->session = session;
	shot->mask = mask;
	shot->point = point;
	shot->nested = ctx == CTX_IRQNMI;
	shot->busy = false;
	shot->irq_work = IRQ_WORK_INIT_HARD(shot_irq);
}

static int shoot_remote(struct shot *shot, enum context ctx, int cpu)
{
	int ret = 0;

	/* An interrupt on this CPU is to hit this task. */
	preempt_disable();
	if (cpu < 0)
		cpu = smp_processor_id();
	if (cpu >= nr_cpu_ids || !cpu_online(cpu)) {
		ret = -ENXIO;
	} else if (ctx == CTX_NMI) {
		shot->busy = true;
		ret = nmi_send(shot, cpu);
		if (!ret)
			ret = nmi_wait(shot, cpu);
	} else {
		shot->busy = true;
		irq_work_queue_on(&shot->irq_work, cpu);
	}
	preempt_enable();
	irq_work_sync(&shot->irq_work);

	return ret;
}

static int kthread_fn(void *data)
{
	struct shot *shot = data;

	request_mask(shot->session, shot->mask, shot->point);
	/* kthread_stop() waits for us. */
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);

	return 0;
}

static int shoot_kthread(struct shot *shot)
{
	struct task_struct *task;

	task = kthread_run(kthread_fn, shot, "unwind_test");
	if (IS_ERR(task))
		return PTR_ERR(task);

	/* Stopped before it ran, it would not make its requests. */
	msleep(20);
	return kthread_stop(task);
}

static int do_req(struct session *session, u64 mask, enum context ctx, int cpu,
		  int count, int usecs)
{
	struct shot shot;
	int ret = 0;

	shot_init(&shot, session, mask, ctx, "write");
	while (count-- > 0 && !ret) {
		if (ctx == CTX_TASK)
			request_mask(session, mask, "write");
		else if (ctx == CTX_KTHREAD)
			ret = shoot_kthread(&shot);
		else
			ret = shoot_remote(&shot, ctx, cpu);
		if (usecs)
			udelay(usecs);
		cond_resched();
		if (fatal_signal_pending(current))
			return -EINTR;
	}

	return ret;
}

/* All probes end here; preemption is disabled. */
static void probe_fire(struct probe *probe)
{
	struct shot *shot = &probe->shot;
	int cpu = smp_processor_id();

	if (probe->ctx == CTX_TASK) {
		request_mask(shot->session, shot->mask, shot->point);
		return;
	}
	/* The last one has not been taken yet. */
	if (cmpxchg(&shot->busy, false, true))
		return;
	if (probe->ctx != CTX_NMI)
		irq_work_queue(&shot->irq_work);
	else if (!nmi_send(shot, cpu))
		nmi_wait(shot, cpu);
}

static bool probe_wants(const struct probe *probe)
{
	if (probe->who < 0)
		return current->tgid == -probe->who;
	return current->pid == probe->who;
}

static bool probe_wants_caller(const struct probe *probe, unsigned long ip)
{
	char symbol[KSYM_SYMBOL_LEN];
	size_t len = strlen(probe->caller);

	if (!len)
		return true;

	sprint_symbol_no_offset(symbol, ip);
	if (probe->caller[len - 1] == '*')
		return !strncmp(symbol, probe->caller, len - 1);
	return !strcmp(symbol, probe->caller);
}

static void probe_hit(struct probe *probe, unsigned long ip)
{
	int *depth = &(*this_cpu_ptr(&probe_depth))[!!in_nmi()];
	int hit;

	if (!probe_wants(probe))
		return;

	/* Not for what this itself hits. */
	if ((*depth)++)
		goto out;

	if (!probe_wants_caller(probe, ip))
		goto out;

	hit = atomic_inc_return(&probe->hits);
	if (hit > probe->skip && hit - probe->skip <= probe->max) {
		atomic_inc(&probe->requests);
		probe_fire(probe);
	}
out:
	(*depth)--;
}

static int probe_kprobe(struct kprobe *kp, struct pt_regs *regs)
{
	/* At the first instruction, the return address is topmost. */
	probe_hit(container_of(kp, struct probe, kprobe),
		  regs_get_kernel_stack_nth(regs, 0));
	return 0;
}

NOKPROBE_SYMBOL(probe_kprobe);

static int probe_kretprobe(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	probe_hit(container_of(get_kretprobe(ri), struct probe, kretprobe), 0);
	return 0;
}

NOKPROBE_SYMBOL(probe_kretprobe);

/* Tracepoints: preemption is disabled in all of them. */

static void probe_irq(void *data, unsigned long ip, unsigned long parent_ip)
{
	probe_hit(data, ip);
}

static void probe_user(void *data, int dummy)
{
	probe_hit(data, 0);
}

static void probe_sched_switch(void *data, bool preempt,
			       struct task_struct *prev,
			       struct task_struct *next,
			       unsigned int prev_state)
{
	probe_hit(data, 0);
}

static void probe_signal_deliver(void *data, int sig,
				 struct kernel_siginfo *info,
				 struct k_sigaction *ka)
{
	probe_hit(data, 0);
}

static void probe_syscall(void *data, struct pt_regs *regs, long arg)
{
	probe_hit(data, 0);
}

static void probe_process(void *data, struct task_struct *task)
{
	probe_hit(data, 0);
}

static void probe_exec(void *data, struct task_struct *task, pid_t old_pid,
		       struct linux_binprm *bprm)
{
	probe_hit(data, 0);
}

static void probe_rseq(void *data, unsigned long ip, unsigned long start_ip,
		       unsigned long len, unsigned long abort_ip)
{
	probe_hit(data, 0);
}

static const struct {
	const char	*name;
	void		*func;
} tracepoint_probes[] = {
	{ "irq_enable",		probe_irq },
	{ "irq_disable",	probe_irq },
	{ "user_enter",		probe_user },
	{ "user_exit",		probe_user },
	{ "sched_switch",	probe_sched_switch },
	{ "signal_deliver",	probe_signal_deliver },
	{ "sys_enter",		probe_syscall },
	{ "sys_exit",		probe_syscall },
	{ "sched_process_exit",	probe_process },
	{ "sched_process_exec",	probe_exec },
	{ "rseq_ip_fixup",	probe_rseq },
};

static void match_tracepoint(struct tracepoint *tp, void *data)
{
	struct probe *probe = data;

	/* After "tp:" */
	if (!strcmp(tp->name, probe->point + 3))
		probe->tp = tp;
}

static int probe_attach_tp(struct probe *probe)
{
	unsigned int i;

	probe->tp_func = NULL;
	for (i = 0; i < ARRAY_SIZE(tracepoint_probes); i++) {
		if (!strcmp(tracepoint_probes[i].name, probe->point + 3))
			probe->tp_func = tracepoint_probes[i].func;
	}
	probe->tp = NULL;
	for_each_kernel_tracepoint(match_tracepoint, probe);
	if (!probe->tp || !probe->tp_func)
		return -ENOENT;

	return tracepoint_probe_register(probe->tp, probe->tp_func, probe);
}

static int probe_attach_kprobe(struct probe *probe)
{
	memset(&probe->kprobe, 0, sizeof(probe->kprobe));
	/* After "kprobe:" */
	probe->kprobe.symbol_name = probe->point + 7;
	probe->kprobe.pre_handler = probe_kprobe;

	return register_kprobe(&probe->kprobe);
}

static int probe_attach_kretprobe(struct probe *probe)
{
	memset(&probe->kretprobe, 0, sizeof(probe->kretprobe));
	/* After "kretprobe:" */
	probe->kretprobe.kp.symbol_name = probe->point + 10;
	probe->kretprobe.handler = probe_kretprobe;

	return register_kretprobe(&probe->kretprobe);
}

static int probe_attach(struct probe *probe)
{
	if (str_has_prefix(probe->point, "tp:"))
		return probe_attach_tp(probe);
	if (str_has_prefix(probe->point, "kprobe:"))
		return probe_attach_kprobe(probe);
	if (str_has_prefix(probe->point, "kretprobe:"))
		return probe_attach_kretprobe(probe);
	return -EINVAL;
}

static void probe_detach(struct session *session, struct probe *probe)
{
	struct log_line *line;

	lockdep_assert_held(&session->probe_lock);

	if (!probe->used)
		return;

	if (str_has_prefix(probe->point, "tp:")) {
		tracepoint_probe_unregister(probe->tp, probe->tp_func, probe);
		tracepoint_synchronize_unregister();
	} else if (str_has_prefix(probe->point, "kretprobe:")) {
		unregister_kretprobe(&probe->kretprobe);
	} else {
		unregister_kprobe(&probe->kprobe);
	}
	irq_work_sync(&probe->shot.irq_work);
	/* The sender of an NMI has waited for it, with preemption disabled. */
	probe->used = false;

	line = log_get(session, 'P');
	if (!line)
		return;
	line->work = probe - session->probes;
	line->ret = atomic_read(&probe->hits);
	line->nr = atomic_read(&probe->requests);
	strscpy(line->point, probe->point);
	log_put(line);
}

static int parse_context(const char *name)
{
	return match_string(context_names, -1, name);
}

static int do_probe(struct session *session, char *args)
{
	char point[POINT_LEN], caller[POINT_LEN] = "", ctx_name[16];
	unsigned int id, skip, max;
	struct probe *probe;
	int who, ctx, ret;
	u64 mask;

	ret = sscanf(args, "%u %47s %d %llx %15s %u %u %47s", &id, point, &who,
		     &mask, ctx_name, &skip, &max, caller);
	if (ret < 7 || id >= PROBES)
		return -EINVAL;
	ctx = parse_context(ctx_name);
	if (ctx < 0 || ctx == CTX_KTHREAD)
		return -EINVAL;

	guard(mutex)(&session->probe_lock);

	probe = &session->probes[id];
	if (probe->used)
		return -EBUSY;

	strscpy(probe->point, point);
	strscpy(probe->caller, caller);
	probe->who = who;
	probe->ctx = ctx;
	probe->skip = skip;
	probe->max = max;
	atomic_set(&probe->hits, 0);
	atomic_set(&probe->requests, 0);
	shot_init(&probe->shot, session, mask, ctx, probe->point);

	ret = probe_attach(probe);
	probe->used = !ret;

	return ret;
}

static int do_unprobe(struct session *session, unsigned int id)
{
	if (id >= PROBES)
		return -EINVAL;

	guard(mutex)(&session->probe_lock);
	if (!session->probes[id].used)
		return -ENOENT;
	probe_detach(session, &session->probes[id]);

	return 0;
}

static int do_state(struct session *session, pid_t tid)
{
	struct task_struct *task;
	struct log_line *line;
	struct pid *pid;

	pid = find_get_pid(tid);
	task = get_pid_task(pid, PIDTYPE_PID);
	put_pid(pid);
	if (!task)
		return -ESRCH;

	line = log_get(session, 'M');
	if (line) {
		line->ret = !!atomic_long_read(&task->unwind_info.mask);
		line->nr = !!READ_ONCE(task->unwind_info.cache);
		line->tid = tid;
		log_put(line);
	}
	put_task_struct(task);

	return 0;
}

/* No grace period ends meanwhile. */
static int do_stall(struct session *session, unsigned int nr)
{
	unsigned long end = jiffies + msecs_to_jiffies(STALL_MSECS);

	guard(rcu)();

	while (test_bit(nr, &session->hold)) {
		if (time_after(jiffies, end) || fatal_signal_pending(current))
			return -EINTR;
		cpu_relax();
	}

	return 0;
}

/* init, cancel, hold, release, stall: what takes the number of a work */
static int do_work(struct session *session, const char *verb, unsigned int nr)
{
	struct slot *slot;

	if (nr >= WORKS)
		return -EINVAL;
	slot = &session->slots[nr];

	if (!strcmp(verb, "hold")) {
		set_bit(nr, &session->hold);
		return 0;
	}
	if (!strcmp(verb, "release")) {
		clear_bit(nr, &session->hold);
		wake_up_all(&session->hold_wait);
		return 0;
	}
	if (!strcmp(verb, "stall"))
		return do_stall(session, nr);

	guard(mutex)(&slot->lock);
	if (!strcmp(verb, "cancel")) {
		unwind_deferred_cancel(&slot->work);
		return 0;
	}
	/* Initializing a work twice is a bug in the caller. */
	return slot->work.bit < 0 ?
	       unwind_deferred_init(&slot->work, callback) : -EEXIST;
}

static int do_arm(struct session *session)
{
	int ret = unwind_deferred_arm();

	if (!ret)
		atomic_inc(&session->armed);

	return ret;
}

static int do_disarm(struct session *session)
{
	if (atomic_dec_if_positive(&session->armed) < 0)
		return -EINVAL;
	unwind_deferred_disarm();

	return 0;
}

#ifdef CONFIG_EVENT_TRACING
/* Put an entry that a buffer which survived a crash may hold, for those who print it. */
static int put_entry(const char *instance, unsigned int type, const u8 *data,
		     size_t size)
{
	struct trace_event_buffer fbuffer;
	struct trace_event_file *file;
	struct trace_entry *entry;
	int ret = 0;

	/* It has to be the event of some file; the type is overwritten below. */
	file = trace_get_event_file(instance, "sched", "sched_switch");
	if (IS_ERR(file))
		return PTR_ERR(file);

	/* As it is where events are recorded */
	preempt_disable();
	entry = trace_event_buffer_reserve(&fbuffer, file, sizeof(*entry) + size);
	if (entry) {
		entry->type = type;
		memcpy(entry + 1, data, size);
		trace_event_buffer_commit(&fbuffer);
	} else {
		ret = -EBUSY;
	}
	preempt_enable();
	trace_put_event_file(file);

	return ret;
}
#else
static int put_entry(const char *instance, unsigned int type, const u8 *data,
		     size_t size)
{
	return -EOPNOTSUPP;
}
#endif

static int do_entry(const char *args)
{
	char instance[32], hex[2 * ENTRY_LEN + 1] = "";
	u8 data[ENTRY_LEN];
	unsigned int type;
	size_t size;

	/* As many digits as fit into hex */
	if (sscanf(args, "%31s %u %128s", instance, &type, hex) < 2)
		return -EINVAL;
	size = strlen(hex) / 2;
	if (hex2bin(data, hex, size))
		return -EINVAL;

	return put_entry(instance, type, data, size);
}

static int command(struct session *session, char *text)
{
	int cpu = -1, count = 1, usecs = 0, ctx, tid;
	char verb[16], ctx_name[16];
	unsigned int nr;
	u64 mask;

	if (!strncmp(text, "probe ", 6))
		return do_probe(session, text + 6);
	if (!strncmp(text, "entry ", 6))
		return do_entry(text + 6);
	if (!strcmp(text, "arm"))
		return do_arm(session);
	if (!strcmp(text, "disarm"))
		return do_disarm(session);
	if (sscanf(text, "req %llx %15s %d %d %d", &mask, ctx_name, &cpu, &count,
		   &usecs) >= 2) {
		ctx = parse_context(ctx_name);
		if (ctx < 0 || usecs < 0 || usecs > 1000)
			return -EINVAL;
		return do_req(session, mask, ctx, cpu, count, usecs);
	}
	if (sscanf(text, "state %d", &tid) == 1)
		return do_state(session, tid);
	if (sscanf(text, "unprobe %u", &nr) == 1)
		return do_unprobe(session, nr);
	if (sscanf(text, "%15s %u", verb, &nr) == 2 &&
	    (!strcmp(verb, "init") || !strcmp(verb, "cancel") ||
	     !strcmp(verb, "hold") || !strcmp(verb, "release") ||
	     !strcmp(verb, "stall")))
		return do_work(session, verb, nr);

	return -EINVAL;
}

/* Does not allocate, so that a test can make the engine's allocation fail. */
static ssize_t session_write(struct file *file, const char __user *buf,
			     size_t size, loff_t *pos)
{
	char text[256];
	int ret;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, size))
		return -EFAULT;
	text[size] = 0;

	ret = command(file->private_data, strim(text));

	return ret < 0 ? ret : size;
}

static size_t format_line(struct session *session, const struct log_line *line)
{
	struct seq_buf s;
	unsigned int i;

	seq_buf_init(&s, session->line, sizeof(session->line));
	seq_buf_printf(&s, "%c %u %d %d %llx %llu %llu %s %d %d %s %u",
		       line->type, line->seq, line->work, line->ret,
		       line->cookie, line->timestamp, line->now, line->ctx,
		       line->cpu, line->tid, line->point, line->nr);
	if (line->type == 'R' || line->type == 'C') {
		for (i = 0; i < line->nr && i < LOG_IPS; i++)
			seq_buf_printf(&s, " %lx", line->ips[i]);
	}
	seq_buf_putc(&s, '\n');

	return seq_buf_used(&s);
}

static size_t format_lost(struct session *session, int lost)
{
	return scnprintf(session->line, sizeof(session->line),
			 "O 0 -1 0 0 0 0 - 0 0 - %d\n", lost);
}

/* Whole lines only. End of file is the end of what has been logged so far. */
static ssize_t session_read(struct file *file, char __user *buf, size_t size,
			    loff_t *pos)
{
	struct session *session = file->private_data;
	struct log_line *line;
	size_t done = 0, len;
	int lost;

	if (size < LINE_MAX_LEN)
		return -EINVAL;

	guard(mutex)(&session->read_lock);

	lost = atomic_xchg(&session->log_lost, 0);
	if (lost) {
		len = format_lost(session, lost);
		if (copy_to_user(buf, session->line, len))
			return -EFAULT;
		done = len;
	}

	while (size - done >= LINE_MAX_LEN) {
		line = &session->log[session->log_read % LOG_LINES];
		/* Pairs with log_put() */
		if (!smp_load_acquire(&line->ready))
			break;
		len = format_line(session, line);
		if (copy_to_user(buf + done, session->line, len))
			return -EFAULT;
		done += len;
		line->ready = false;
		/* Pairs with log_get(): the line may be used again. */
		smp_store_release(&session->log_read, session->log_read + 1);
	}

	return done;
}

static int session_open(struct inode *inode, struct file *file)
{
	struct session *session;
	int i;

	session = kvzalloc(sizeof(*session), GFP_KERNEL);
	if (!session)
		return -ENOMEM;
	session->log = vzalloc(LOG_LINES * sizeof(*session->log));
	if (!session->log) {
		kvfree(session);
		return -ENOMEM;
	}
	mutex_init(&session->probe_lock);
	mutex_init(&session->read_lock);
	init_waitqueue_head(&session->hold_wait);
	for (i = 0; i < WORKS; i++) {
		session->slots[i].session = session;
		session->slots[i].work.bit = -1;
		mutex_init(&session->slots[i].lock);
	}
	file->private_data = session;

	/* Commands run side by side, also when one of them waits. */
	return stream_open(inode, file);
}

static int session_release(struct inode *inode, struct file *file)
{
	struct session *session = file->private_data;
	int i;

	mutex_lock(&session->probe_lock);
	for (i = 0; i < PROBES; i++)
		probe_detach(session, &session->probes[i]);
	mutex_unlock(&session->probe_lock);

	WRITE_ONCE(session->hold, 0);
	wake_up_all(&session->hold_wait);
	for (i = 0; i < WORKS; i++)
		unwind_deferred_cancel(&session->slots[i].work);
	while (!do_disarm(session))
		;

	vfree(session->log);
	kvfree(session);

	return 0;
}

static const struct file_operations session_fops = {
	.owner		= THIS_MODULE,
	.open		= session_open,
	.read		= session_read,
	.write		= session_write,
	.release	= session_release,
};

static struct dentry *test_dir;

static int __init test_unwind_deferred_init(void)
{
	int ret;

	ret = register_nmi_handler(NMI_LOCAL, nmi_handler, 0, "unwind_test");
	if (ret)
		return ret;

	test_dir = debugfs_create_dir("unwind_test", NULL);
	debugfs_create_file("session", 0600, test_dir, NULL, &session_fops);

	return 0;
}
module_init(test_unwind_deferred_init);

static void __exit test_unwind_deferred_exit(void)
{
	debugfs_remove(test_dir);
	unregister_nmi_handler(NMI_LOCAL, "unwind_test");
}
module_exit(test_unwind_deferred_exit);

MODULE_DESCRIPTION("Test module for deferred unwinding of user space stacks");
MODULE_LICENSE("GPL");
