// SPDX-License-Identifier: GPL-2.0
/*
 * The program that step goes through: threads, new processes, signals, longjmp, realigned stacks,
 * callbacks, constructors and destructors. No exceptions: throwing one changes return addresses.
 */

#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;
static jmp_buf place;
static char stack[65536] __attribute__((aligned(16)));

__attribute__((constructor)) static void first(void)
{
	sink++;
}

__attribute__((destructor)) static void last(void)
{
	sink += getpid();
}

static void handler(int sig)
{
	sink += getpid() + sig;
}

static void *thread(void *arg)
{
	return arg;
}

static int child(void *arg)
{
	(void)arg;
	return 0;
}

/* Where functions are bound at their first call, this one is while another one is, under audit. */
static int even(void)
{
	return 0;
}

static int odd(void)
{
	return 1;
}

static int (*resolve_parity(void))(void)
{
	return getppid() & 1 ? odd : even;
}

static int parity(void) __attribute__((ifunc("resolve_parity")));

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static void jump(int n)
{
	char *more = alloca(n * 32);

	memset(more, n, n * 32);
	sink += more[n];
	if (n > 3)
		longjmp(place, 1);
	jump(n + 1);
}

/* More than the ABI aligns to, and a size that is not known */
__attribute__((noinline)) static int realigned(int n)
{
	volatile int values[32] __attribute__((aligned(64))) = { n };
	char *more = alloca(n);

	memset(more, n, n);
	sink += snprintf(NULL, 0, "%d %g", values[0], n / 3.0);
	return values[n % 32] + more[0];
}

int main(void)
{
	int numbers[] = { 5, 2, 8, 1 };
	char name[] = "/bin/true";
	char *argv[] = { name, NULL };
	pthread_t id;
	pid_t pid;

	sink += parity();
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	kill(getpid(), SIGUSR1);
	qsort(numbers, 4, sizeof(int), compare);
	sink += realigned(numbers[3] + 20);
	if (!setjmp(place))
		jump(1);
	if (!pthread_create(&id, NULL, thread, NULL))
		pthread_join(id, NULL);
	if (clone(child, stack + sizeof(stack), SIGCHLD | CLONE_VM, NULL) > 0)
		wait(NULL);
	if (!posix_spawn(&pid, name, NULL, NULL, argv, NULL))
		waitpid(pid, NULL, 0);
	pid = vfork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	printf("%d\n", sink);
	return 0;
}
