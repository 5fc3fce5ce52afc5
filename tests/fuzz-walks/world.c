// SPDX-License-Identifier: GPL-2.0
/*
 * A world: a process with code of all kinds, tables for it, threads that have their stacks
 * walked, and others that change meanwhile what they can.
 */
#include <asm/ldt.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <malloc.h>

#include "fuzz.h"

#define CGROUP		"/sys/fs/cgroup/fuzz"

/* Relative to a region: where it is moved, and its SFrame table */
#define MOVED_OFF	0x40000UL
#define SFRAME_OFF	0x80000UL
#define SFRAME_SIZE	(16 * PAGE)

#define SIG_ASYNC	50
#define SA_RESTORER	0x04000000

struct world world;
struct region regions[4];
u32 nr_regions;
struct unwind_table_rule sframe_rules[RULES], table_rules[RULES];
u32 ldt_base[4];

static struct up_ring rings[MAX_THREADS][RINGS];
static struct code_file files[2];
static pid_t tids[MAX_THREADS];

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
static int table_add(const struct region *r, const struct unwind_table_rule *rules)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct table t;
	int nr, ret;
	u32 i;

	pthread_mutex_lock(&lock);
	table_start(&t);
	for (i = 0; i < SLOTS; i++)
		table_row(&t, i * SLOT, rules[i % RULES]);
	table_end(&t, REGION_SIZE);
	nr = dev_make_table(world.dev, &t);
	pthread_mutex_unlock(&lock);
	ret = nr < 0 ? nr : attach_as(world.dev, nr, getpid(), (void *)r->addr, r->file);
	if (ret && nr > 0)
		dev_drop(world.dev, nr);
	return ret ?: nr;
}

/* Write an SFrame table for a region, and add it. */
static int sframe_add(const struct region *r, const struct unwind_table_rule *rules)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	u32 slots = one_in(2) ? 16 : 64, i, len;

	pthread_mutex_lock(&lock);
	sframe_build_init(&build, 2 + rnd(2), one_in(2), r->addr + SFRAME_OFF);
	for (i = 0; i < SLOTS; i++) {
		const struct unwind_table_rule *rule = &rules[i % RULES];
		u8 base = rule->cfa.reg == RSP ? SFRAME_BUILD_SP : SFRAME_BUILD_FP;

		if (i % slots == 0)
			sframe_build_func(&build, r->addr + i * SLOT, slots * SLOT,
					  slots == 16 ? SFRAME_BUILD_ROW1 : SFRAME_BUILD_ROW2);
		if (rule->fp.where == UNWIND_TABLE_CFA_DEREF)
			sframe_build_saved(&build, i % slots * SLOT, base, rule->cfa.off, rule->fp.off);
		else
			sframe_build_sp(&build, i % slots * SLOT, rule->cfa.off);
	}
	len = sframe_build_finish(&build);
	memcpy((void *)(r->addr + SFRAME_OFF), build.mem, len);
	pthread_mutex_unlock(&lock);
	return add_table(r->addr + SFRAME_OFF, r->addr + SFRAME_OFF + len, r->addr,
			 r->addr + REGION_SIZE);
}

static int map_at(unsigned long addr, size_t size, int prot, int flags)
{
	return mmap((void *)addr, size, prot, MAP_FIXED | MAP_ANONYMOUS | flags, -1, 0) == MAP_FAILED;
}

static int region_map(const struct region *r)
{
	if (r->file)
		return !file_map_at(r->file->path, r->addr, 0, REGION_SIZE);
	if (map_at(r->addr, REGION_SIZE, PROT_CODE, MAP_PRIVATE))
		return -1;
	code_put((void *)r->addr, r->kind == PLAIN);
	return 0;
}

static void region_add(enum kind kind, bool changes)
{
	struct region *r = &regions[nr_regions];
	struct unwind_table_rule other[RULES];
	int ret;

	if (kind == SFRAME && without("sframe"))
		kind = PLAIN;
	*r = (struct region){
		.addr = 0x20000000UL + nr_regions * 0x100000, .kind = kind, .changes = changes,
		.file = kind == PLAIN_FILE || kind == TABLE ? &files[kind == TABLE] : NULL,
	};
	random_rules(other, kind == SFRAME);
	ret = region_map(r);
	if (kind == SFRAME) {
		map_at(r->addr + SFRAME_OFF, SFRAME_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
		ret = sframe_add(r, changes ? other : sframe_rules);
	} else if (kind == TABLE) {
		r->table = table_add(r, changes ? other : table_rules);
		ret = r->table < 0 ? r->table : 0;
	}
	if (ret)
		find("no code of kind %u: %d", kind, ret);
	nr_regions++;
}

/* Can a walk end there as complete? Not where nothing says that the code is outermost. */
bool code_may_be_outermost(u64 ip)
{
	u32 i;

	for (i = 0; i < nr_regions; i++) {
		const struct region *r = &regions[i];

		if (ip - r->addr < REGION_SIZE)
			return r->kind == TABLE || (r->kind == SFRAME && r->changes);
	}
	return ip - getauxval(AT_ENTRY) < 64;
}

static void areas_make(void)
{
	u32 guard = rnd(world.full ? 2 : 3), i;

	/* The second half is of the children of threads. */
	for (i = 0; i < 2 * MAX_THREADS; i++) {
		unsigned long at = AREA(i) + AREA_GUARD;

		/* Memory that need not be present, and is not lost when it is not. */
		if (map_at(AREA(i), AREA_GUARD, PROT_READ | PROT_WRITE, MAP_SHARED) ||
		    map_at(AREA(i) + AREA_ABSENT, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED) ||
		    (guard && map_at(at, PAGE, guard == 1 ? PROT_NONE : PROT_READ, MAP_PRIVATE)) ||
		    (guard == 2 && uffd_on(at, PAGE, UFFDIO_REGISTER_MODE_MISSING, 0) < 0))
			find("no stacks");
	}
}

static void on_async(int sig)
{
}

static void signals_make(void)
{
	struct {
		u64 handler, flags, restorer, mask;
	} sa = { (u64)handler, SA_RESTORER, (u64)frame_restorers[FRAME_64], 0 };
	static struct {
		u32 handler, flags, restorer, mask[2];
	} compat;
	int ret, i;

	syscall(SYS_rt_sigaction, frame_signals[FRAME_64], &sa, NULL, 8);
	sa.handler = (u64)on_async;
	sa.flags |= SA_ONSTACK;
	syscall(SYS_rt_sigaction, SIG_ASYNC, &sa, NULL, 8);

	compat = (typeof(compat)){ (u64)handler, SA_RESTORER | SA_SIGINFO, (u64)frame_restorers[FRAME_X32], { } };
	syscall(0x40000200, frame_signals[FRAME_X32], &compat, NULL, 8);
	for (i = FRAME_32; i <= FRAME_32_RT; i++) {
		compat.handler = (u64)handler_32;
		compat.flags = SA_RESTORER | (i == FRAME_32_RT ? SA_SIGINFO : 0);
		compat.restorer = (u64)frame_restorers[i];
		asm volatile("int $0x80" : "=a" (ret)
			     : "a" (174), "b" (frame_signals[i]), "c" (&compat), "d" (0), "S" (8)
			     : "memory", "r8", "r9", "r10", "r11");
		if (ret)
			find("no 32-bit signals: %d", ret);
	}
}

static void segments_make(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(ldt_base); i++) {
		struct user_desc desc = {
			.entry_number = i, .base_addr = i < 2 ? 0 : PAGE * rnd(4096), .limit = 0xfffff,
			.seg_32bit = 1, .limit_in_pages = 1, .contents = i & 1 ? 0 : 2,
		};

		ldt_base[i] = desc.base_addr;
		if (syscall(SYS_modify_ldt, 1, &desc, sizeof(desc)))
			find("no LDT");
	}
}

/* A process that has what this one has, for a while */
static void change_by_fork(u32 thread)
{
	struct made s;
	pid_t pid = fork();
	u32 i;

	if (!pid && one_in(3)) {
		execl("/bin/true", "true", NULL);
		_exit(0);
	}
	for (i = rnd(10); !pid && i; i--) {
		stack_put(&s, MAX_THREADS + thread);
		enter(&s);
	}
	if (!pid)
		_exit(0);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void change_region(struct region *r)
{
	struct unwind_table_rule rules[RULES];
	void *mem = (void *)r->addr, *other = mem + MOVED_OFF;
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	u32 i;

	random_rules(rules, r->kind == SFRAME);
	switch (rnd(r->kind >= SFRAME ? 6 : 3)) {
	case 0:
		mprotect(mem + PAGE * rnd(4), PAGE, rnd(4) ? PROT_READ : PROT_NONE);
		usleep(rnd(500));
		mprotect(mem, REGION_SIZE, r->file ? PROT_READ | PROT_EXEC : PROT_CODE);
		break;
	case 1:
		mremap(mem, REGION_SIZE, REGION_SIZE, flags, other);
		usleep(rnd(500));
		mremap(other, REGION_SIZE, REGION_SIZE, flags, mem);
		break;
	case 2:
		munmap(mem, REGION_SIZE);
		usleep(rnd(500));
		region_map(r);
		break;
	default:
		if (r->kind == TABLE) {
			dev_drop(world.dev, r->table);
			usleep(rnd(500));
			r->table = table_add(r, rules);
			break;
		}
		if (one_in(2))
			remove_table(r->addr + SFRAME_OFF);
		if (one_in(2))
			sframe_add(r, rules);
		for (i = rnd(8); i; i--)
			((u8 *)mem)[SFRAME_OFF + rnd(one_in(2) ? 64 : 8192)] = rnd64();
	}
}

static void change(u32 thread)
{
	struct user_desc desc = { .entry_number = 8 + rnd(8), .read_exec_only = 1, .seg_not_present = 1 };
	u64 sa[] = { (u64)on_async, SA_RESTORER, (u64)on_async + rnd(64), 0 };
	struct region *r = &regions[rnd(nr_regions)];
	struct up_ring ring = { };
	void *mem;

	if (r->changes)
		return change_region(r);
	switch (rnd(world.flaps ? 8 : 7)) {
	case 0:
		mem = mmap(NULL, 16 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mprotect(mem, PAGE, PROT_READ);
		munmap(mem, 16 * PAGE);
		break;
	case 1:
		change_by_fork(thread);
		break;
	case 2:
		syscall(SYS_tgkill, getpid(), tids[rnd(world.walkers)], SIG_ASYNC);
		break;
	case 3:
		event_any(&ring, one_in(2), 0, -1);
		up_enable(&ring);
		usleep(rnd(500));
		up_close(&ring);
		break;
	case 4:
		syscall(SYS_modify_ldt, 1, &desc, sizeof(desc));
		break;
	case 5:
		madvise((void *)AREA(rnd(world.walkers)), AREA_GUARD, MADV_DONTNEED);
		break;
	case 6:
		syscall(SYS_rt_sigaction, SIG_ASYNC + 1 + rnd(8), sa, NULL, 8);
		break;
	case 7:
		put_text("/proc/sys/kernel/unwind_in_place", "%u", rnd(2));
		close(dev_open());
		break;
	}
}

static void *thread_run(void *arg)
{
	static u8 stacks[MAX_THREADS][65536];
	u32 thread = (unsigned long)arg, i, j;
	stack_t ss = { .ss_sp = stacks[thread], .ss_size = sizeof(stacks[0]) };
	bool walks = thread < world.walkers;
	void *area = (void *)AREA(thread);
	struct made s;

	rnd_state = world.seed + thread;
	sigaltstack(&ss, NULL);
	if (walks && !events_open(rings[thread]))
		find("no events");
	set_flag(&tids[thread], my_tid());
	while (!get_flag(&shared->go))
		usleep(500);
	for (i = 0; walks && i < RINGS; i++)
		up_enable(&rings[thread][i]);

	for (i = 0; i < world.runs; i++) {
		__atomic_fetch_add(&shared->progress[thread], 1, __ATOMIC_RELAXED);
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
		enter(&s);
		events_check(rings[thread], &s);
		count(STACKS);
	}
	for (j = 0; walks && j < RINGS; j++)
		up_disable(&rings[thread][j]);
	__atomic_store_n(&shared->progress[thread], -1, __ATOMIC_RELAXED);
	return NULL;
}

void world_choose(void)
{
	world.full = one_in(8) && !without("full");
	world.walkers = 1 + rnd(world.full || one_in(2) ? 2 : MAX_THREADS - 2);
	if (!world.full && one_in(2) && !without("changes"))
		world.changers = 1 + rnd(2);
	world.runs = world.full ? 1 + rnd(4) : 20 + rnd(150);
	world.dev = rnd(4) ? 0 : -1;
	world.flaps = world.changers && one_in(4);
	world.rings = rnd(1 << RINGS) | (world.full ? 0 : one_in(2));
	world.end = world.full || rnd(3) ? END_DONE : rnd(NR_ENDS);
}

/* Whatever takes memory from here on gets none. */
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
		if (errno != EAGAIN)
			break;
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
	/* What has been freed is used again, and nothing else has to be asked for. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TOP_PAD, 4 << 20);
	if (world.dev >= 0)
		world.dev = dev_open();
	random_rules(table_rules, false);
	random_rules(sframe_rules, true);
	region_add(rnd(SFRAME), false);
	if (rnd(4))
		region_add(SFRAME, false);
	if (world.dev >= 0 && rnd(4))
		region_add(TABLE, false);
	if (world.changers)
		region_add(rnd(world.dev < 0 ? TABLE : TABLE + 1), true);
	areas_make();
	signals_make();
	segments_make();

	for (i = 0; i < n; i++) {
		pthread_create(&threads[i], NULL, thread_run, (void *)(unsigned long)i);
		while (!get_flag(&tids[i]))
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

/* What is the same for all worlds: files of code, a cgroup, and limits of the system */
void world_init(void)
{
	u8 code[REGION_SIZE];
	u32 i;
	int fd;

	for (i = 0; i < 2; i++) {
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
