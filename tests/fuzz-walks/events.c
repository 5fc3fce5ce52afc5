// SPDX-License-Identifier: GPL-2.0
/*
 * The tracers: perf, BPF and ftrace, on the way to user space and at the event; and their stacks,
 * compared with the real ones.
 */
#include <linux/bpf.h>

#include "fuzz.h"

#define TRACING		"/sys/kernel/tracing/"
#define INSTANCE	TRACING "instances/fuzz/"

/* getppid() of the three ABIs */
#define FILTER		"id == 110 || id == 64 || id == 1073741934"

/*
 * Where events hit: the engine, its callees, and the way to user space, so that a walk for one
 * event may be hit by another one. Three of those that return come first.
 */
static const char *const functions[] = {
	"r:task_work_run", "r:unwind_user", "r:unwind_deferred_task_work", "p:task_work_run",
	"p:unwind_user", "p:unwind_deferred_task_work", "p:unwind_context_reset",
	"p:__unwind_deferred_answer", "p:unwind_code_rule", "p:unwind_code_find",
	"p:unwind_map_insert", "p:unwind_mm_get", "p:lock_vma_under_rcu", "p:handle_mm_fault",
	"p:__x64_sys_getppid", "p:schedule", "p:try_charge_memcg", "p:get_signal", "p:do_exit",
	"p:begin_new_exec",
};

static int ids[ARRAY_SIZE(functions) + 1], nr_ids;
/* For tracepoints, kprobes, and software events */
static int programs[3];

/* A program that takes the user stack of its event */
static int bpf_make(u32 type)
{
	static union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_STACK_TRACE, .key_size = 4,
		.value_size = 8 * MAX_DEPTH, .max_entries = 1024,
	};
	const struct bpf_insn insns[] = {
		{ .code = 0x18, .dst_reg = 2, .src_reg = BPF_PSEUDO_MAP_FD,
		  .imm = syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map)) }, { },
		{ .code = 0xb7, .dst_reg = 3, .imm = BPF_F_USER_STACK | BPF_F_REUSE_STACKID },
		{ .code = 0x85, .imm = BPF_FUNC_get_stackid },
		{ .code = 0xb7, .dst_reg = 0, .imm = 1 },
		{ .code = 0x95 },
	};
	union bpf_attr attr = {
		.prog_type = type, .insns = (u64)insns, .insn_cnt = ARRAY_SIZE(insns),
		.license = (u64)"GPL",
	};

	return syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

/* Make all probes and programs that there are to be, of which worlds use some. */
void events_init(const char *program)
{
	char name[16];
	u32 i;

	for (i = 0; i < ARRAY_SIZE(functions); i++) {
		const char *f = functions[i];

		sprintf(name, "f%u", nr_ids);
		if (!put_text(TRACING "kprobe_events", "%c:fuzz/%s %s", f[0], name, f + 2))
			ids[nr_ids++] = tracepoint_id("fuzz", name);
	}
	/* The file is mapped at 0x400000 from its start. */
	put_text(TRACING "uprobe_events", "r:fuzz/probed %s:%#lx", program,
		 (unsigned long)probed - 0x400000);
	ids[nr_ids++] = tracepoint_id("fuzz", "probed");
	mkdir(INSTANCE, 0700);
	put_text(INSTANCE "buffer_size_kb", "64");

	programs[0] = bpf_make(BPF_PROG_TYPE_TRACEPOINT);
	programs[1] = bpf_make(BPF_PROG_TYPE_KPROBE);
	programs[2] = bpf_make(BPF_PROG_TYPE_PERF_EVENT);
	if ((programs[0] | programs[1] | programs[2] | ids[nr_ids - 1]) < 0 || nr_ids < 10)
		find("not all events can be made");
}

static int event_open(struct up_ring *ring, u32 type, u64 config, u64 period, bool deferred,
		      pid_t pid, int cpu, int program)
{
	const u64 bits = UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT;
	struct perf_event_attr attr;
	int ret;

	up_attr_init(&attr, type, config, deferred ? bits : 0);
	attr.sample_period = period;
	attr.exclude_callchain_kernel = 1;
	ret = up_open_pages(ring, &attr, pid, cpu, -1, 32);
	if (!ret && one_in(4))
		ioctl(ring->fd, PERF_EVENT_IOC_SET_BPF, program);
	return ret;
}

/* Any event, not enabled yet */
int event_any(struct up_ring *ring, bool deferred, pid_t pid, int cpu)
{
	static const u32 software[] = {
		PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_CONTEXT_SWITCHES,
	};
	u32 i = rnd(3), period = (1 + rnd(10)) * (i ? 1 : 100000);

	if (!world.full && one_in(2))
		return event_open(ring, PERF_TYPE_SOFTWARE, software[i], period, deferred, pid, cpu,
				  programs[2]);
	return event_open(ring, PERF_TYPE_TRACEPOINT, ids[one_in(2) ? i : rnd(nr_ids)], 1, deferred,
			  pid, cpu, programs[1]);
}

/* The events of a thread: even ones are deferred, and the first two of known system calls. */
bool events_open(struct up_ring *rings)
{
	long id = tracepoint_id("raw_syscalls", "sys_enter");
	u32 i;
	int ret;

	for (i = 0; i < RINGS; i++) {
		rings[i].fd = -1;
		if (!(world.rings & 1 << i))
			continue;
		if (i < 2)
			ret = event_open(&rings[i], PERF_TYPE_TRACEPOINT, id, 1, !(i & 1), 0, -1,
					 programs[0]) ?:
			      ioctl(rings[i].fd, PERF_EVENT_IOC_SET_FILTER, FILTER);
		else
			ret = event_any(&rings[i], !(i & 1), 0, -1);
		if (ret)
			return false;
	}
	return true;
}

/* The error in some addresses; NULL if there is none, or nothing is known */
static const char *check_frames(const struct made *s, u32 first, const u64 *ips, u32 nr,
				bool complete, bool at_event, bool whole)
{
	bool ends = s->complete && s->nr - first <= MAX_DEPTH;
	u32 i, want = s->nr - first < MAX_DEPTH ? s->nr - first : MAX_DEPTH;

	/* Without tables, walks at the event are by frame pointer, as before. */
	if (at_event && (world.dev < 0 || world.flaps))
		return NULL;
	for (i = 0; i < nr; i++) {
		/* With page tables of five levels */
		if (ips[i] >> 56)
			return "an address that is none of user space";
	}
	if (complete && (!nr || !code_may_be_outermost(ips[nr - 1])))
		return "complete in code that is not outermost";
	if (!nr)
		return whole ? "nothing" : NULL;
	/* Other code */
	if (ips[0] - s->ips[first] > s->span)
		return NULL;
	if (s->wild) {
		count(WILD);
		return NULL;
	}

	for (i = 1; i < nr; i++) {
		if (i >= want || ips[i] != s->ips[first + i])
			return "a wrong address";
	}
	if (nr < want && (complete || whole))
		return complete ? "complete, and cut" : "cut";
	if (nr == want && complete != ends && (complete || whole))
		return complete ? "complete, which it is not" : "not complete, which it is";
	count(nr < want ? at_event ? EVENT_CUT : CUT : at_event ? EVENT_WHOLE : WHOLE);
	return NULL;
}

/* @whole: nobody has changed anything, so a walk that can take its time finds all. */
static void check(const struct made *s, const struct up_rec *rec, bool at_event, bool whole)
{
	const u64 *ips = at_event ? rec->user : rec->ips;
	u32 i, nr = at_event ? rec->nr_user : rec->nr, first = 0;
	const char *what;

	/* A task that has a signal to handle does not wait for pages. */
	if (s->handler && (!nr || ips[0] != s->ips[0])) {
		first = s->handler;
		whole = false;
	}
	what = check_frames(s, first, ips, nr, rec->misc & UT_MISC_OUTERMOST, at_event, whole);
	if (!what || !find("%s %s, misc %x, how %u, selectors %lx:%lx, seen and expected:", what,
			   at_event ? "at the event" : "later", rec->misc, s->how, s->cs, s->ss))
		return;
	for (i = 0; i < nr || first + i < s->nr; i++) {
		u64 seen = i < nr ? ips[i] : 0, want = first + i < s->nr ? s->ips[first + i] : 0;

		printf("# %3u %16lx %16lx%s\n", i, seen, want, seen == want ? "" : " <--");
	}
}

/* Check the samples of the last stack. */
void events_check(struct up_ring *rings, const struct made *s)
{
	u32 i, j, samples;

	/* There is no memory to read them into; the world has to go on, though. */
	if (world.full)
		return;
	for (i = 0; i < RINGS; i++) {
		struct up_ring *ring = &rings[i];
		bool lost;

		if (ring->fd < 0)
			continue;
		/* Otherwise reading would take longer than the next record takes to come. */
		up_disable(ring);
		up_drain(ring);
		/* Records lost at the end are reported later. */
		lost = up_count_lost(ring) || s->calls > 100;
		samples = up_count(ring, PERF_RECORD_SAMPLE);
		if (i < 2 && !lost && samples != s->calls)
			find("%u samples instead of %u", samples, s->calls);
		for (j = 0; j < ring->nr_recs; j++) {
			const struct up_rec *rec = &ring->recs[j];

			/* Without tables, anything can be taken for an address, a marker, too. */
			if ((rec->bad || (rec->deferred && i & 1)) && world.dev >= 0 && !world.flaps)
				find("a bad record");
			else if (rec->type == UT_RECORD_CALLCHAIN_DEFERRED)
				check(s, rec, false, !world.changers && i < 2);
			else if (rec->type == PERF_RECORD_SAMPLE && !rec->deferred)
				check(s, rec, true, false);
			else if (rec->type == PERF_RECORD_SAMPLE && !i && !lost &&
				 up_count_cookie(ring, rec->cookie) != 1)
				find("cookie %#lx without a record, or with several", rec->cookie);
		}
		up_forget(ring);
	}
}

/* Events of all tasks, for a world */
void events_of_all(bool on)
{
	static struct up_ring rings[16];
	static u32 nr;
	u32 i;

	put_text(INSTANCE "events/fuzz/enable", "0");
	while (nr)
		up_close(&rings[--nr]);
	if (!on)
		return;

	if (one_in(2)) {
		put_text(INSTANCE "options/userstacktrace", "%d", rnd(4) > 0);
		put_text(INSTANCE "options/userstacktrace_delay", "%d", one_in(4));
		for (i = 1 + rnd(3); i; i--)
			put_text(INSTANCE "set_event", "fuzz:f%u", rnd(one_in(2) ? 3 : nr_ids - 1));
	}
	if (one_in(3)) {
		u64 state = rnd_state;

		while (nr < ARRAY_SIZE(rings)) {
			rnd_state = state;
			if (event_any(&rings[nr], one_in(2), -1, nr))
				break;
			up_enable(&rings[nr++]);
		}
	}
}
