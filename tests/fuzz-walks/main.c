// SPDX-License-Identifier: GPL-2.0
/*
 * A fuzzer of walks. It makes random worlds, one after the other, in which all tracers walk
 * stacks of all kinds, while everything changes that can:
 *
 *	fuzz-walks [-s SEED] [-w WORLD] [-t SECONDS] [-o WHAT]
 *
 * A world follows from the seed and its number, and so do the actions of each of its threads,
 * in this order: -s and -w repeat it. Errors are printed and counted: a walk that sees other
 * addresses than those of a stack whose addresses are known; one that is complete and cannot
 * be; a cookie without a record; one that uses CPU time without progress, or does not end
 * when it is killed; and complaints of the kernel that taint it. -o leaves out some of these:
 * 32 (32-bit code), sframe, full (used up cgroups), changes.
 */
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "fuzz.h"

/* A run ends after so many. */
#define MAX_FINDS	20
/*
 * Milliseconds of CPU time in which a world that has begun does anything: without memory,
 * one stack took 24 s on a debug kernel.
 */
#define LIMIT		60000

struct shared *shared;
__thread u64 rnd_state;

static const char *left_out = "";
/* Of the run, in milliseconds */
static u64 begin;

u64 rnd64(void)
{
	u64 z = rnd_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

u32 rnd(u32 n)
{
	return (rnd64() >> 32) % n;
}

bool one_in(u32 n)
{
	return !rnd(n);
}

static u64 time_of(clockid_t clock)
{
	struct timespec ts = { };

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}

static u64 now(void)
{
	return time_of(CLOCK_MONOTONIC);
}

void count(enum count what)
{
	__atomic_fetch_add(&shared->count[what], 1, __ATOMIC_RELAXED);
}

/* Print an error. Returns false if enough have been printed. */
bool find(const char *fmt, ...)
{
	va_list args;

	if (__atomic_fetch_add(&shared->finds, 1, __ATOMIC_RELAXED) >= MAX_FINDS)
		return false;
	flockfile(stdout);
	printf("FOUND after %lu s in world %u: ", (now() - begin) / 1000, world.nr);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
	funlockfile(stdout);
	return true;
}

bool without(const char *what)
{
	return strstr(left_out, what);
}

/* Append to a file. Returns 0, or -1. */
int put_text(const char *path, const char *fmt, ...)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC), len;
	va_list args;

	va_start(args, fmt);
	len = vdprintf(fd, fmt, args);
	va_end(args);
	if (fd >= 0)
		close(fd);
	return fd < 0 || len < 0 ? -1 : 0;
}

static u64 things_done(void)
{
	return shared->count[STACKS] + shared->count[CHANGES];
}

static u64 cpu_time(pid_t pid)
{
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) ? 0 : time_of(clock);
}

/* Returns false if nothing more can be done with this kernel. */
static bool look_after(pid_t pid)
{
	u64 late = now() + 5 * LIMIT, end = -1, cpu = -1, last = things_done();
	bool killed = false;
	int status;

	while (!waitpid(pid, &status, WNOHANG)) {
		usleep(1000);
		if (!shared->go && get_flag(&shared->ready)) {
			rnd_state = world.seed + 200;
			events_of_all(true);
			if (world.end == END_KILL)
				end = now() + rnd(300);
			set_flag(&shared->go, 1);
			cpu = cpu_time(pid) + LIMIT;
		}
		/* How long a world takes depends on the kernel and the machine. */
		if (!killed && things_done() != last) {
			last = things_done();
			late = now() + 5 * LIMIT;
			cpu = cpu_time(pid) + LIMIT;
		}
		if (now() > late || cpu_time(pid) > cpu) {
			find("it does %s", killed ? "not end when it is killed" : "nothing");
			if (killed)
				return false;
			end = 0;
		}
		if (!killed && now() > end) {
			kill(pid, SIGKILL);
			killed = true;
			late = now() + LIMIT;
			cpu = -1;
		}
	}
	events_of_all(false);
	if (status && WTERMSIG(status) != (world.end == END_FAULT ? SIGSEGV : SIGKILL))
		find("it ends with status %x", status);
	return true;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {
		"stacks", "whole", "cut", "whole in place", "cut in place", "wild", "changes",
	};
	u64 seed = time(NULL), seconds = 30, tainted = up_read_number("/proc/sys/kernel/tainted");
	u32 first = 0, nr;
	bool alive = true;
	pid_t pid;
	int opt;

	while ((opt = getopt(argc, argv, "s:w:t:o:")) != -1) {
		if (opt == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (opt == 'w')
			first = atoi(optarg);
		else if (opt == 't')
			seconds = atoi(optarg);
		else if (opt == 'o')
			left_out = optarg;
		else
			return 2;
	}
	begin = now();
	setlinebuf(stdout);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	world_init();
	events_init(argv[0]);
	printf("# seed %lu\n", seed);

	for (nr = first; now() - begin < 1000 * seconds && alive; nr++) {
		shared->ready = 0;
		shared->go = 0;
		rnd_state = seed + ((u64)nr << 32);
		world = (struct world){ .nr = nr, .seed = rnd64() };
		world_choose();
		up_write_number("/proc/sys/kernel/unwind_in_place", 1);
		pid = fork();
		if (!pid)
			world_run();
		alive = pid > 0 && look_after(pid) && shared->finds < MAX_FINDS;
		if (tainted != up_read_number("/proc/sys/kernel/tainted")) {
			find("the kernel complains");
			alive = false;
		}
	}
	printf("# %u worlds in %lu s", nr - first, (now() - begin) / 1000);
	for (opt = 0; opt < NR_COUNTS; opt++)
		printf(", %lu %s", shared->count[opt], names[opt]);
	putchar('\n');
	nr = shared->finds;
	printf("%sok 1 %u finds with seed %lu\n1..1\n", nr ? "not " : "", nr, seed);
	return !!nr;
}
