// SPDX-License-Identifier: GPL-2.0
/*
 * A program whose stacks are known, for viewers of recordings: main() calls
 * outer(), which calls left() and right(). known calls L R makes L system calls
 * from left() and R from right(); known sleeps L R sleeps that often, 10 ms each;
 * known naps L R does so until it is killed. A fourth argument is the number of
 * seconds for which main() sleeps at the end.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

static volatile int done;
static struct timespec pause = { .tv_nsec = 10000000 };
static long nr = SYS_getppid;

/* No function of the C library in between, so that left() and right() are last. */
#define enter() do {							\
	long ret;							\
	asm volatile("syscall" : "=a" (ret)				\
		     : "0" (nr), "D" (&pause), "S" (NULL)		\
		     : "rcx", "r11", "memory");				\
} while (0)

__attribute__((noinline)) void left(int n)
{
	while (n--)
		enter();
	done = 1;
}

__attribute__((noinline)) void right(int n)
{
	while (n--)
		enter();
	done = 2;
}

__attribute__((noinline)) void outer(int l, int r)
{
	left(l);
	right(r);
	done = 3;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	if (strcmp(argv[1], "calls"))
		nr = SYS_nanosleep;
	do {
		outer(atoi(argv[2]), atoi(argv[3]));
	} while (!strcmp(argv[1], "naps"));
	if (argc > 4) {
		pause = (struct timespec){ .tv_sec = atoi(argv[4]) };
		enter();
	}
	done = 4;
	return 0;
}
