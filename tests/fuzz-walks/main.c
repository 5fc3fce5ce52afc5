// SPDX-License-Identifier: GPL-2.0
/*
 * A fuzzer of walks. It makes random worlds, one after the other, in which stacks of all
 * kinds are walked by all that walks them, while everything changes that can:
 *
 *	fuzz-walks [-s SEED] [-w WORLD] [-t SECONDS] [-o WHAT]
 *
 * A world follows from the seed and its number, and so does what each of its threads does, in
 * this order: -s and -w repeat it. What is found is printed and counted: a walk that sees
 * other addresses than those of a stack whose addresses are known; one that is complete and
 * cannot be; a cookie without a record; a thread that uses CPU time without getting on, or does
 * not end when it is killed; and complaints of the kernel, so far as these taint it. The rest
 * of them are on the console.
 *
 * To look for what a defect hides, -o leaves out some of these: 32 (32-bit code), sframe,
 * full (memory cgroups that are used up), changes.
 *
 *	main.c		makes worlds and looks after them
 *	world.c		what is in a world, and what happens there
 *	stack.c		stacks
 *	events.c	who looks at them, and whether what they see is right
 *	enter.S		code that is executed there
 */
#include <err.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "fuzz.h"

/* A run ends after so many. */
#define MAX_FINDS	20

#define TAINTED		"/proc/sys/kernel/tainted"

/* Milliseconds of CPU time in which a thread gets anything done */
#define LIMIT		20000

struct shared *shared;
__thread u64 rnd_state;

static const char *left_out = "";

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

void count(enum count what)
{
	__atomic_fetch_add(&shared->count[what], 1, __ATOMIC_RELAXED);
}

/* Say what is wrong. Returns false if that has been said often enough. */
bool find(const char *fmt, ...)
{
	va_list args;

	if (__atomic_fetch_add(&shared->finds, 1, __ATOMIC_RELAXED) >= MAX_FINDS)
		return false;
	flockfile(stdout);
	printf("FOUND in world %u: ", world.nr);
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

/* In milliseconds */
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

/* Has a thread of a world done nothing while that has used up its time? */
static bool is_stuck(pid_t pid)
{
	static struct {
		u64 progress, cpu;
	} last[MAX_THREADS];
	clockid_t clock;
	u32 i;

	for (i = 0; !clock_getcpuclockid(pid, &clock) && i < world.walkers + world.changers; i++) {
		u64 progress = __atomic_load_n(&shared->progress[i], __ATOMIC_RELAXED);
		u64 cpu = time_of(clock);

		if (progress != last[i].progress || progress == -1ULL || cpu < last[i].cpu) {
			last[i].progress = progress;
			last[i].cpu = cpu;
		} else if (cpu - last[i].cpu > LIMIT) {
			return find("thread %u has done nothing in %lu ms of CPU time", i, cpu - last[i].cpu);
		}
	}
	return false;
}

/* Wait for a process to end, or until then. */
static bool wait_for(pid_t pid, int *status, u64 until)
{
	while (!waitpid(pid, status, WNOHANG)) {
		if (now() > until)
			return false;
		usleep(1000);
	}
	return true;
}

/* Returns false if nothing more can be done with this kernel. */
static bool look_after(pid_t pid)
{
	u64 late = now() + 10 * LIMIT, end = late;
	char command[80];
	int status;

	while (!wait_for(pid, &status, now() + 2)) {
		if (!shared->go && get_flag(&shared->ready)) {
			rnd_state = world.seed + 200;
			events_of_all(true);
			if (world.end == END_KILL)
				end = now() + rnd(300);
			set_flag(&shared->go, 1);
		}
		if (now() > late)
			find("it does not end");
		if (is_stuck(pid) || now() > late) {
			sprintf(command, "head -v -n 30 /proc/%u/task/*/{comm,stack,syscall}", pid);
			system(command);
			end = 0;
		}
		if (now() < end)
			continue;
		kill(pid, SIGKILL);
		if (wait_for(pid, &status, now() + 10 * LIMIT))
			break;
		find("it does not end when it is killed");
		return false;
	}
	events_of_all(false);
	if (status && WTERMSIG(status) != (world.end == END_FAULT ? SIGSEGV : SIGKILL))
		find("it ends with status %x", status);
	return true;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {
		"stacks", "whole", "complete", "cut", "whole at the event", "cut at the event",
		"wild", "changes",
	};
	u64 seed = time(NULL), seconds = 30, begin = now(), old = up_read_number(TAINTED);
	u32 first = 0, nr;
	bool alive = true;
	pid_t pid;
	int opt;

	while ((opt = getopt(argc, argv, "s:w:t:o:")) != -1) {
		switch (opt) {
		case 's': seed = strtoull(optarg, NULL, 0); break;
		case 'w': first = atoi(optarg); break;
		case 't': seconds = atoi(optarg); break;
		case 'o': left_out = optarg; break;
		default: errx(2, "see the top of main.c for the options");
		}
	}
	setlinebuf(stdout);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		err(2, "mmap");
	world_init();
	events_init(argv[0]);
	printf("# seed %lu\n", seed);

	for (nr = first; now() - begin < 1000 * seconds && alive; nr++) {
		memset(shared->progress, 0, sizeof(shared->progress));
		shared->ready = 0;
		shared->go = 0;
		rnd_state = seed + ((u64)nr << 32);
		world = (struct world){ .nr = nr, .seed = rnd64() };
		world_choose();
		pid = fork();
		if (!pid)
			world_run();
		alive = pid > 0 && look_after(pid) && shared->finds < MAX_FINDS;
		if (up_read_number(TAINTED) != old) {
			find("the kernel complains");
			alive = false;
		}
	}
	printf("# %u worlds in %lu s", nr - first, (now() - begin) / 1000);
	for (opt = 0; opt < NR_COUNTS; opt++)
		printf(", %lu %s", shared->count[opt], names[opt]);
	putchar('\n');
	printf("%sok 1 %u finds with seed %lu\n1..1\n", shared->finds ? "not " : "", shared->finds, seed);
	return !!shared->finds;
}
