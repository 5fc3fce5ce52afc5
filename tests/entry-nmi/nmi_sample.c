// SPDX-License-Identifier: GPL-2.0
/*
 * Each NMI is a sample of the event nmi:nmi_handler, with the registers that it has
 * interrupted: as an NMI of the PMU would record, which QEMU does not have. The event's
 * own samples, with registers within the handler, are recorded beside them.
 */
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/trace_events.h>

#include <asm/nmi.h>

static struct trace_event_file *file;

/* Nobody reads the record. With its size (u32) in front of it, it has to be aligned. */
#define ENTRY_SIZE	(sizeof(struct trace_entry) + sizeof(u32))

static int nmi_sample(unsigned int cmd, struct pt_regs *regs)
{
	struct trace_event_call *call = file->event_call;
	struct hlist_head *head;
	void *entry;
	int rctx;

	/* There while somebody has the event open */
	if (!call->perf_events)
		return NMI_HANDLED;
	head = this_cpu_ptr(call->perf_events);
	if (hlist_empty(head))
		return NMI_HANDLED;

	entry = perf_trace_buf_alloc(ENTRY_SIZE, NULL, &rctx);
	if (entry) {
		memset(entry, 0, ENTRY_SIZE);
		perf_tp_event(call->event.type, 1, entry, ENTRY_SIZE, regs, head, rctx, NULL);
	}
	return NMI_HANDLED;
}

static int __init nmi_sample_init(void)
{
	int ret;

	file = trace_get_event_file(NULL, "nmi", "nmi_handler");
	if (IS_ERR(file))
		return PTR_ERR(file);
	ret = register_nmi_handler(NMI_LOCAL, nmi_sample, NMI_FLAG_FIRST, "nmi_sample");
	if (ret)
		trace_put_event_file(file);
	return ret;
}
module_init(nmi_sample_init);

static void __exit nmi_sample_exit(void)
{
	unregister_nmi_handler(NMI_LOCAL, "nmi_sample");
	trace_put_event_file(file);
}
module_exit(nmi_sample_exit);

MODULE_DESCRIPTION("Samples of what NMIs interrupt");
MODULE_LICENSE("GPL");
