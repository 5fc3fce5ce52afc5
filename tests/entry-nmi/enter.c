// SPDX-License-Identifier: GPL-2.0
/*
 * enter - runs in the guest: enters the kernel from one of two stacks that only a table
 * can tell, after a system call from the other one, while a debugger (step) makes an NMI
 * at each instruction. Shows that debugger the samples of each entry.
 */
#include "stacks.h"

/* The stack pointer of enter_hostile(), which the debugger sets */
u64 *hostile_sp;

static u64 memory[2][16];
static struct up_ring ring;

static struct stack_regs make_stack(u64 *words, const void *caller, const void *last)
{
	words[0] = (unsigned long)caller;
	words[8] = 0;
	words[9] = (unsigned long)last;
	return (struct stack_regs){ words, words + 8 };
}

/* A table for this program: of the two stacks. Returns the device, or -1. */
static int open_table(void)
{
	static struct table t;
	struct code_file self;
	char path[128];
	u64 base;
	int fd;

	base = file_offset(code_start, path, sizeof(path));
	snprintf(self.path, sizeof(self.path), "/proc/self/exe");
	self.fd = open(self.path, O_RDONLY | O_CLOEXEC);
	if (self.fd < 0 || fstat(self.fd, &self.st))
		return -1;
	wait_for_clock(&self.st);
	/* The page that file_attach() names is the second one. */
	self.mem = code_start - PAGE;

	table_start(&t);
	/* The return address is topmost, and SP and frame pointer both tell frames. */
	table_row(&t, base, rule_cfa(RSP, 8));
	table_row(&t, base + (callers - code_start), rule_saved(RBP, 16, -16));
	table_row(&t, base + (outermost - code_start), rule_of(UNWIND_TABLE_OUTERMOST));
	table_end(&t, base + (code_end - code_start));

	fd = dev_open();
	if (fd < 0 || file_use(fd, &t, &self) < 0)
		return -1;
	return fd;
}

static bool open_event(void)
{
	struct perf_event_attr attr;

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT, tracepoint_id("nmi", "nmi_handler"), 0);
	attr.exclude_callchain_kernel = 1;
	return !up_open_pages(&ring, &attr, 0, -1, -1, 256) && !up_enable(&ring);
}

/*
 * Samples since the last time, each as IP, the number of user addresses, at most four of
 * these; the number is -1 without a user part. Returns how many there are.
 */
static size_t show(void)
{
	static u64 words[8192][6];
	size_t i, nr = 0, copied;

	up_drain(&ring);
	for (i = 0; i < ring.nr_recs && nr < ARRAY_SIZE(words); i++) {
		struct up_rec *rec = &ring.recs[i];
		u64 *to = words[nr];

		if (rec->type == PERF_RECORD_LOST || rec->bad) {
			fprintf(stderr, "records are lost or bad\n");
			exit(1);
		}
		if (rec->type != PERF_RECORD_SAMPLE)
			continue;
		memset(to, 0, sizeof(words[nr]));
		to[0] = rec->ip;
		to[1] = rec->has_user ? rec->nr_user : -1;
		copied = rec->nr_user < 4 ? rec->nr_user : 4;
		memcpy(to + 2, rec->user, copied * sizeof(*to));
		nr++;
	}
	report(words[0], nr);
	up_forget(&ring);
	return nr;
}

int main(void)
{
	struct stack_regs first, second, hostile;
	size_t tries = 0;
	void *page;
	int fd;

	first = make_stack(memory[0], first_caller, first_outermost);
	second = make_stack(memory[1], second_caller, second_outermost);
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fd = open_table();
	if (page == MAP_FAILED || fd < 0 || !open_event()) {
		perror("enter: no table or event");
		return 1;
	}

	/* The first walk is made without knowledge of the process. */
	enter_syscall(&first, &second, 0);
	show();
	hostile = (struct stack_regs){ hostile_sp, second.fp };
	enter_hostile(&first, &hostile, 0);
	show();
	enter_exception(&first, &second, (unsigned long)page);
	show();
	/* The debugger waits for an interrupt of the timer, and another one may come first. */
	do {
		enter_interrupt(&first, &second, 1UL << 24);
	} while (!show() && ++tries < 20);
	close(fd);
	return 0;
}
