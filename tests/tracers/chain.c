// SPDX-License-Identifier: GPL-2.0
/*
 * A program whose stacks are known: main, outer, inner. chain calls N makes N
 * system calls from inner; chain sleeps N sleeps N times 20 ms there; chain
 * spins SECONDS spends that time in user space.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

static volatile int done;

/* No function of the C library in between: it may be without frame pointers. */
static long enter(long nr, const void *a0, void *a1)
{
	long ret;

	asm volatile("syscall" : "=a" (ret) : "0" (nr), "D" (a0), "S" (a1)
		     : "rcx", "r11", "memory");
	return ret;
}

/* As a C++ compiler would name work::spin(int) */
__attribute__((noinline)) void spin(int n) __asm__("_ZN4work4spinEi");
void spin(int n)
{
	volatile int i;

	for (i = 0; i < n; i++)
		;
}

__attribute__((noinline)) void inner(const char *what, int n)
{
	struct timespec pause = { .tv_nsec = 20000000 };
	time_t end = time(NULL) + n;
	volatile unsigned int i;

	if (!strcmp(what, "spins")) {
		while (time(NULL) < end)
			for (i = 0; i < 1000000; i++)
				if (i == 500000)
					spin(500000);
	} else while (n--) {
		if (!strcmp(what, "sleeps"))
			enter(SYS_nanosleep, &pause, NULL);
		else
			enter(SYS_getppid, NULL, NULL);
	}
	done = 1;
}

__attribute__((noinline)) void outer(const char *what, int n)
{
	inner(what, n);
	done = 2;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	outer(argv[1], atoi(argv[2]));
	done = 3;
	return 0;
}
