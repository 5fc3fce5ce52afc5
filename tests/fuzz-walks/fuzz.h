/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _FUZZ_WALKS_FUZZ_H
#define _FUZZ_WALKS_FUZZ_H

#include "table_lib.h"

/* Random numbers, the same ones for the same seed: up to @n - 1; and one time in @n, true */
extern __thread u64 rnd_state;
u64 rnd64(void);
u32 rnd(u32 n);
bool one_in(u32 n);

/* Threads of a world, and events of a thread: bits 0 and 1 of a mask for known system calls */
#define MAX_THREADS	8
#define RINGS		4

extern struct world {
	u32 nr;
	u64 seed;
	/* Threads that have stacks walked, those that change things, and how often they do so */
	u32 walkers, changers, runs;
	/* The memory of its cgroup has been used up. */
	bool full;
	/* The device, or -1: walks at the event are by tables while it is open; is it sometimes? */
	int dev;
	bool flaps;
	/* The events of each thread */
	u32 rings;
	/* By itself; or before that, by exit, execve, SIGKILL or a fault */
	enum { END_DONE, END_EXIT, END_EXEC, END_KILL, END_FAULT, NR_ENDS } end;
} world;

void world_init(void);
void world_choose(void);
void world_run(void);

enum count { STACKS, WHOLE, CUT, EVENT_WHOLE, EVENT_CUT, WILD, CHANGES, NR_COUNTS };

extern struct shared {
	/* The world has been made, and may begin. */
	int ready, go;
	u32 finds;
	u64 count[NR_COUNTS];
} *shared;

void count(enum count what);
bool __printf(1, 2) find(const char *fmt, ...);
bool without(const char *what);
int __printf(2, 3) put_text(const char *path, const char *fmt, ...);

/*
 * Code consists of slots, each of which has one rule in a table: its number modulo RULES. The
 * first STUBS of a region have code that is executed, and rules with a caller.
 */
#define SLOT		16
#define REGION_SIZE	(4 * PAGE)
#define SLOTS		((u32)(REGION_SIZE / SLOT))
#define RULES		32
#define STUBS		16

/* Code by how a walk gets to its callers. If it changes meanwhile, nothing is known of them. */
extern struct region {
	unsigned long addr;
	enum kind { PLAIN, PLAIN_FILE, SFRAME, TABLE } kind;
	bool changes;
	struct code_file *file;
	int table;
} regions[4];

extern u32 nr_regions;
extern struct unwind_table_rule sframe_rules[RULES], table_rules[RULES];
/* Bases of the first segments of the LDT; odd ones are for stacks */
extern u32 ldt_base[4];

/*
 * By thread, and below 4 GiB as everything here: memory for the kernel's pushes, and two stacks; a
 * page that nobody has; and one that is often not present.
 */
#define AREA(n)		(0x10000000UL + (n) * 0x100000UL)
#define AREA_STACK(n)	((4 + 14 * (n)) * PAGE)
#define AREA_GUARD	AREA_STACK(2)
#define AREA_ABSENT	(AREA_GUARD + 2 * PAGE)

/* Addresses of a record at most, see perf_event_max_stack */
#define MAX_DEPTH	127

/*
 * A stack that is made up: registers in the order of enter(); the action there, with how many
 * system calls; and the addresses that a walk should find: first those of a signal handler, then
 * one that may be up to @span more. @complete: the last one has no caller.
 * @wild: nothing is known.
 */
struct made {
	u64 ax, bx, cx, dx, si, di, bp, r12, ip, cs, flags, sp, ss;
	enum { SYSCALL, INT80, BURST, SPIN, LOAD, SIGNAL, URETPROBE } how;
	u32 calls, nr, handler, span;
	/* That many, after the handler's, are more than a walk finds. */
	u64 ips[MAX_DEPTH + 3];
	bool complete, wild;
};

void code_put(u8 *mem, bool plain);
bool code_may_be_outermost(u64 ip);
void stack_put(struct made *s, u32 area);
void stack_spoil(struct made *s, u32 area);

void enter(const struct made *s);
extern const char enter_back[], probed[], probed_ip[];
extern const char handler[], handler_ip[], handler_32[], handler_32_ip[];

/* Signals by the kind of their frame, and the restorers of their handlers */
enum { FRAME_64, FRAME_X32, FRAME_32, FRAME_32_RT, NR_FRAMES };
extern const int frame_signals[NR_FRAMES];
extern const char frame_restorers[NR_FRAMES][SLOT];

void events_init(const char *program);
bool events_open(struct up_ring *rings);
void events_check(struct up_ring *rings, const struct made *s);
int event_any(struct up_ring *ring, bool deferred, pid_t pid, int cpu);
void events_of_all(bool on);

#endif /* _FUZZ_WALKS_FUZZ_H */
