// SPDX-License-Identifier: GPL-2.0
/*
 * A tracer that prints user space stacks: of each call of the kernel function
 * "symbol" by the process "pid". These are taken later. A program that reads the
 * file "unwind_tracer" in debugfs gets its own stack, which is taken at once.
 * Documentation/core-api/deferred-unwinding.rst describes both interfaces.
 *
 *	modprobe unwind-tracer symbol=do_sys_openat2 pid=1234
 *	cat /sys/kernel/debug/unwind_tracer
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/unwind_deferred.h>

static char symbol[KSYM_NAME_LEN] = "do_sys_openat2";
module_param_string(symbol, symbol, sizeof(symbol), 0444);
MODULE_PARM_DESC(symbol, "Function to probe");

static int pid;
module_param(pid, int, 0444);
MODULE_PARM_DESC(pid, "Process to trace");

static void tracer_print(u64 cookie, const struct unwind_stacktrace *trace)
{
	unsigned int i;

	pr_info("stack %llx of %d, %u frames\n", cookie, current->pid,
		trace->nr);
	for (i = 0; i < trace->nr; i++)
		pr_info("  %lx\n", trace->entries[i]);
}

/*
 * Called in the task itself, on its way back to user space, in process context,
 * once for all calls that got this cookie.
 */
static void tracer_callback(struct unwind_work *work,
			    const struct unwind_stacktrace *trace,
			    u64 cookie, u64 timestamp)
{
	tracer_print(cookie, trace);
}

static struct unwind_work tracer_work;

/* May be an NMI, or hold any lock: only ask. */
static int __kprobes tracer_hit(struct kprobe *kp, struct pt_regs *regs)
{
	struct unwind_stacktrace trace;
	u64 cookie;

	if (current->tgid != pid)
		return 0;

	switch (unwind_deferred_request(&tracer_work, &cookie)) {
	case 0:
	case UNWIND_ALREADY_PENDING:
		pr_info("call by %d, stack %llx\n", current->pid, cookie);
		break;
	case UNWIND_ALREADY_EXECUTED:
		pr_info("call by %d, stack is known\n", current->pid);
		/* Empty after an error, as it was for the callback. */
		unwind_deferred_cached(&trace);
		tracer_print(cookie, &trace);
		break;
	default:
		pr_info("call by %d, no stack\n", current->pid);
	}

	return 0;
}

static struct kprobe tracer_kprobe = {
	.symbol_name	= symbol,
	.pre_handler	= tracer_hit,
};

/*
 * The reader is in a system call of its own, and holds no lock that a page fault
 * could need: nothing has to be deferred. Requests of the same system call are
 * answered with the same trace.
 */
static int tracer_own_show(struct seq_file *m, void *unused)
{
	struct unwind_stacktrace trace;
	unsigned int i;
	int ret;

	ret = unwind_user_faultable(&trace);
	if (ret)
		return ret;
	for (i = 0; i < trace.nr; i++)
		seq_printf(m, "%lx\n", trace.entries[i]);

	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tracer_own);

static struct dentry *tracer_file;

static int __init tracer_init(void)
{
	int ret;

	ret = unwind_deferred_init(&tracer_work, tracer_callback);
	if (ret)
		return ret;

	/* This module traces as long as it is loaded. */
	ret = unwind_deferred_arm();
	if (ret)
		goto cancel;

	ret = register_kprobe(&tracer_kprobe);
	if (ret)
		goto disarm;

	tracer_file = debugfs_create_file("unwind_tracer", 0400, NULL, NULL,
					  &tracer_own_fops);

	return 0;

disarm:
	unwind_deferred_disarm();
cancel:
	unwind_deferred_cancel(&tracer_work);

	return ret;
}
module_init(tracer_init);

static void __exit tracer_exit(void)
{
	debugfs_remove(tracer_file);
	unregister_kprobe(&tracer_kprobe);
	unwind_deferred_disarm();
	/* The callback does not run any more when this returns. */
	unwind_deferred_cancel(&tracer_work);
}
module_exit(tracer_exit);

MODULE_DESCRIPTION("Sample tracer with user space stacks, deferred and at once");
MODULE_LICENSE("GPL");
