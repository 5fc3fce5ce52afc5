// SPDX-License-Identifier: GPL-2.0
/*
 * A world: a process with code of all kinds, tables for it, threads that have their stacks
 * walked, and others that change meanwhile all that they can.
 */
#include <asm/ldt.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>

#include "fuzz.h"

#define CODE_DISTANCE	0x100000UL
#define CODE(n)		(0x20000000UL + (n) * CODE_DISTANCE)
#define CGROUP		"/sys/fs/cgroup/fuzz"

/* Relative to a region: where it is moved, and its SFrame table */
#define MOVED_OFF	0x40000UL
#define SFRAME_OFF	0x80000UL

struct world world;
struct region regions[4];
u32 nr_regions;
struct unwind_table_rule sframe_rules[RULES], table_rules[RULES];
u32 ldt_base[4];

static struct up_ring rings[MAX_THREADS][RINGS];
static int begun;
/* Of PLAIN_FILE, and of TABLE, one that changes and one that does not */
static struct code_file files[3];

static void random_rules(struct unwind_table_rule *rules, bool sframe)
{
	u32 i;

	for (i = 0; i < RULES; i++) {
		struct unwind_table_rule *r = &rules[i];
		u32 n = 1 + rnd(12);

		if (!sframe && i >= STUBS && one_in(4)) {
			*r = rule_of(one_in(3) ? UNWIND_TABLE_UNKNOWN : UNWIND_TABLE_OUTERMOST);
			continue;
		}
		*r = rule_cfa(RSP, 8 * n);
		if (n > 1 && one_in(2))
			*r = rule_saved(RSP, 8 * n, -8 * (s32)(2 + rnd(n - 1)));
		/* A frame pointer that has been used cannot be used again. */
		if (one_in(3))
			*r = rule_saved(RBP, 16 + 8 * rnd(3), -16);
		if (!sframe && one_in(4)) {
			r->cfa = LOC(REG_DEREF, RSP, 8 * rnd(6));
			r->cfa_add = 8 * rnd(4);
			r->fp = one_in(2) ? LOC(SAME, 0, 0) : LOC(CFA_DEREF, 0, -16);
		}
		if (!sframe && one_in(8))
			r->fp = LOC(NONE, 0, 0);
	}
}

/* Have a table for the file of a region. */
static int table_add(struct region *r, const struct unwind_table_rule *rules)
{
	static struct table t;
	u32 i;

	table_start(&t);
	for (i = 0; i < SLOTS; i++)
		table_row(&t, i * SLOT, rules[i % RULES]);
	table_end(&t, REGION_SIZE);
	r->table = dev_make_table(world.dev, &t);
	return attach_as(world.dev, r->table, getpid(), (void *)r->addr, r->file);
}

/* Write an SFrame table for a region, and add it. */
static int sframe_add(const struct region *r, const struct unwind_table_rule *rules)
{
	u32 slots = one_in(2) ? 16 : 64, i, len;

	sframe_build_init(&build, 2 + rnd(2), one_in(2), r->addr + SFRAME_OFF);
	for (i = 0; i < SLOTS; i++) {
		const struct unwind_table_rule *rule = &rules[i % RULES];
		u8 base = rule->cfa.reg == RSP ? SFRAME_BUILD_SP : SFRAME_BUILD_FP;

		if (i % slots == 0)
			sframe_build_func(&build, r->addr + i * SLOT, slots * SLOT,
					  slots == 16 ? SFRAME_BUILD_ROW1 : SFRAME_BUILD_ROW2);
		if (rule->fp.where == UNWIND_TABLE_CFA_DEREF)
			sframe_build_saved(&build, i % slots * SLOT, base, rule->cfa.off,
					   rule->fp.off);
		else
			sframe_build_sp(&build, i % slots * SLOT, rule->cfa.off);
	}
	len = sframe_build_finish(&build);
	memcpy((void *)(r->addr + SFRAME_OFF), build.mem, len);
	return add_table(r->addr + SFRAME_OFF, r->addr + SFRAME_OFF + len, r->addr,
			 r->addr + REGION_SIZE);
}

static int region_map(const struct region *r)
{
	if (r->file)
		return !file_map_at(r->file->path, r->addr, 0, REGION_SIZE);
	if (!map_over(r->addr, REGION_SIZE, PROT_CODE))
		return -1;
	code_put((void *)r->addr, r->kind == PLAIN);
	return 0;
}

static void region_add(enum kind kind, bool changes)
{
	struct region *r = &regions[nr_regions];
	struct unwind_table_rule other[RULES];
	int ret;

	*r = (struct region){
		.addr = CODE(nr_regions++), .kind = kind, .changes = changes,
		.file = kind == PLAIN_FILE ? &files[0] : kind == TABLE ? &files[1 + changes] : NULL,
	};
	random_rules(other, kind == SFRAME);
	ret = region_map(r);
	if (kind == SFRAME)
		ret = !map_over(r->addr + SFRAME_OFF, 16 * PAGE, PROT_READ | PROT_WRITE) ||
		      sframe_add(r, changes ? other : sframe_rules);
	else if (kind == TABLE)
		ret = table_add(r, changes ? other : table_rules);
	if (ret)
		find("no code of kind %u: %d", kind, ret);
}

/* Can a walk end there as complete? Not where nothing says that the code is outermost. */
bool code_may_be_outermost(u64 ip)
{
	const struct region *r = &regions[ip / CODE_DISTANCE % ARRAY_SIZE(regions)];

	if (ip - getauxval(AT_ENTRY) < 64)
		return true;
	return ip - r->addr < REGION_SIZE && r->kind >= SFRAME && (r->kind == TABLE || r->changes);
}

static void areas_make(void)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED;
	u32 guard = rnd(world.full ? 2 : 3), i;

	/* The second half is of the children of threads. */
	for (i = 0; i < 2 * MAX_THREADS; i++) {
		unsigned long at = AREA(i) + AREA_GUARD;

		/* Memory that need not be present, and is not lost when it is not. */
		if (mmap((void *)AREA(i), AREA_ABSENT + PAGE, prot, flags, -1, 0) == MAP_FAILED ||
		    munmap((void *)at, AREA_ABSENT - AREA_GUARD) ||
		    (guard && !map_over(at, PAGE, guard == 1 ? PROT_NONE : PROT_READ)) ||
		    (guard == 2 && uffd_on(at, PAGE, UFFDIO_REGISTER_MODE_MISSING, 0) < 0))
			find("no stacks");
	}
}

static void signals_make(void)
{
	int ret = raw_sigaction(frame_signals[FRAME_64], handler, 0, frame_restorers[FRAME_64]);
	int error = 0, i;
	static u32 sa[5];

	for (i = FRAME_X32; i < NR_FRAMES; i++) {
		sa[0] = (unsigned long)(i == FRAME_X32 ? handler : handler_32);
		sa[1] = SA_RESTORER | (i == FRAME_32 ? 0 : SA_SIGINFO);
		sa[2] = (unsigned long)frame_restorers[i];
		if (i == FRAME_X32)
			ret |= syscall(0x40000200, frame_signals[i], sa, NULL, 8);
		else
			asm volatile("int $0x80" : "=a" (error)
				     : "a" (174), "b" (frame_signals[i]), "c" (sa), "d" (0), "S" (8)
				     : "memory", "r8", "r9", "r10", "r11");
		ret |= error;
	}
	if (ret)
		find("no signals");
}

static void segments_make(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(ldt_base); i++) {
		struct user_desc desc = {
			.entry_number = i, .base_addr = i < 2 ? 0 : PAGE * rnd(4096),
			.limit = 0xfffff, .limit_in_pages = 1, .seg_32bit = 1,
			.contents = i & 1 ? 0 : 2,
		};

		ldt_base[i] = desc.base_addr;
		if (syscall(SYS_modify_ldt, 1, &desc, sizeof(desc)))
			find("no LDT");
	}
}

/* A process with the memory and files of this one, for a while */
static void change_by_fork(u32 thread)
{
	struct made s;
	pid_t pid = fork();
	u32 i;

	for (i = rnd(10); !pid && i; i--) {
		stack_put(&s, MAX_THREADS + thread);
		enter(&s);
	}
	if (!pid && one_in(3))
		execl("/bin/true", "true", NULL);
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static void change_region(struct region *r)
{
	struct unwind_table_rule rules[RULES];
	void *mem = (void *)r->addr, *other = mem + MOVED_OFF;
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	u32 i;

	random_rules(rules, r->kind == SFRAME);
	switch (rnd(r->kind >= SFRAME ? 4 : 2)) {
	case 0:
		mremap(mem, REGION_SIZE, REGION_SIZE, flags, other);
		usleep(rnd(500));
		mremap(other, REGION_SIZE, REGION_SIZE, flags, mem);
		break;
	case 1:
		munmap(mem, REGION_SIZE);
		usleep(rnd(500));
		region_map(r);
		break;
	default:
		if (r->kind == TABLE) {
			dev_drop(world.dev, r->table);
			usleep(rnd(500));
			table_add(r, rules);
			break;
		}
		if (one_in(2))
			remove_table(r->addr + SFRAME_OFF);
		if (one_in(2))
			sframe_add(r, rules);
		for (i = rnd(8); i; i--)
			*(u8 *)(mem + SFRAME_OFF + rnd(one_in(2) ? 64 : 8192)) = rnd64();
	}
}

static void change(u32 thread)
{
	struct region *r = &regions[rnd(nr_regions)];
	struct up_ring ring = { };

	/* By one thread, which writes to what it maps */
	if (r->changes && thread == world.walkers)
		return change_region(r);
	switch (rnd(world.flaps ? 3 : 2)) {
	case 0:
		change_by_fork(thread);
		break;
	case 1:
		event_any(&ring, one_in(2), 0, -1);
		up_enable(&ring);
		usleep(rnd(500));
		up_close(&ring);
		break;
	case 2:
		up_write_number("/proc/sys/kernel/unwind_in_place", rnd(2));
		close(dev_open());
		break;
	}
}

static void *thread_run(void *arg)
{
	u32 thread = (unsigned long)arg, i, j;
	bool walks = thread < world.walkers;
	void *area = (void *)AREA(thread);
	struct made s;

	rnd_state = world.seed + thread;
	if (walks && !events_open(rings[thread]))
		find("no events");
	set_flag(&begun, thread + 1);
	while (!get_flag(&shared->go))
		usleep(500);

	for (i = 0; i < world.runs; i++) {
		if (!walks) {
			count(CHANGES);
			change(thread);
			continue;
		}
		stack_put(&s, thread);
		if (one_in(6))
			stack_spoil(&s, thread);
		madvise(area + AREA_ABSENT, PAGE, MADV_DONTNEED);
		if (one_in(4))
			madvise(area, AREA_GUARD, MADV_DONTNEED);
		for (j = 0; j < RINGS; j++)
			up_enable(&rings[thread][j]);
		enter(&s);
		events_check(rings[thread], &s);
		count(STACKS);
	}
	return NULL;
}

void world_choose(void)
{
	world.full = one_in(8) && !without("full");
	world.walkers = 1 + rnd(world.full || one_in(2) ? 2 : MAX_THREADS - 2);
	if (!world.full && one_in(2) && !without("changes"))
		world.changers = 1 + rnd(2);
	world.runs = world.full ? 1 + rnd(4) : 20 + rnd(150);
	/* Without memory, walks go on at the event. */
	world.dev = world.full || rnd(4) ? 0 : -1;
	world.flaps = world.changers && one_in(4);
	world.rings = rnd(1 << RINGS) | (world.full ? 2 | 8 : one_in(2));
	world.end = world.full || rnd(3) ? END_DONE : rnd(NR_ENDS);
}

/* All allocations from here on fail. */
static void fill(void)
{
	static u8 buf[PAGE];
	int fds[2], i;

	mlockall(MCL_CURRENT);
	if (put_text("/proc/self/oom_score_adj", "-1000") || put_text(CGROUP "/cgroup.procs", "0"))
		find("no cgroup");
	for (i = 0; i < 200 && !pipe2(fds, O_NONBLOCK); i++) {
		while (write(fds[1], buf, PAGE) > 0)
			;
	}
}

static void *end(void *arg)
{
	if (world.end == END_EXEC)
		execl("/bin/true", "true", NULL);
	if (world.end == END_FAULT)
		*(volatile int *)8 = 0;
	_exit(0);
}

/* Be that world. */
void world_run(void)
{
	u32 n = world.walkers + world.changers, i;
	pthread_t threads[MAX_THREADS], ender;

	rnd_state = world.seed + 100;
	if (world.dev >= 0)
		world.dev = dev_open();
	random_rules(table_rules, false);
	random_rules(sframe_rules, true);
	region_add(rnd(SFRAME), false);
	if (rnd(4) && !without("sframe"))
		region_add(SFRAME, false);
	if (world.dev >= 0 && rnd(4))
		region_add(TABLE, false);
	if (world.changers)
		region_add(rnd(without("sframe") ? SFRAME : world.dev < 0 ? TABLE : TABLE + 1),
			   true);
	areas_make();
	signals_make();
	segments_make();

	for (i = 0; i < n; i++) {
		pthread_create(&threads[i], NULL, thread_run, (void *)(unsigned long)i);
		while (get_flag(&begun) <= i)
			usleep(500);
	}
	if (world.full)
		fill();
	set_flag(&shared->ready, 1);

	for (i = 0; i < n && world.end == END_DONE; i++)
		pthread_join(threads[i], NULL);
	while (world.end == END_KILL || !get_flag(&shared->go))
		usleep(500);
	if (world.end != END_DONE)
		usleep(rnd(100000));
	/* In the main thread, or another one */
	if (one_in(2) && !world.full && !pthread_create(&ender, NULL, end, NULL))
		pause();
	end(NULL);
}

/* Shared by all worlds: files of code, a cgroup, and limits of the system */
void world_init(void)
{
	u8 code[REGION_SIZE];
	u32 i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		struct code_file *f = &files[i];

		code_put(code, !i);
		snprintf(f->path, sizeof(f->path), "/tmp/fuzz-walks.%u", i);
		fd = open(f->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
		if (write(fd, code, sizeof(code)) != sizeof(code))
			find("cannot write %s", f->path);
		close(fd);
		f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
		fstat(f->fd, &f->st);
		wait_for_clock(&f->st);
	}
	put_text("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	mkdir(CGROUP, 0755);
	put_text(CGROUP "/memory.max", "2M");
	/* Grace periods are most of the time that a world takes. */
	put_text("/sys/kernel/rcu_expedited", "1");
	put_text("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
}
