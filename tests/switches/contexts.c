// SPDX-License-Identifier: GPL-2.0
/* Coroutines by the C library's makecontext(): the work is done in the coroutine. */
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

static ucontext_t outside, inside;

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void work(void)
{
	unsigned int seed = 1;
	int numbers[2000], i;

	for (i = 0; i < 2000; i++)
		numbers[i] = rand_r(&seed);
	qsort(numbers, 2000, sizeof(numbers[0]), compare);
}

static void coroutine(void)
{
	for (;;) {
		work();
		swapcontext(&inside, &outside);
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;

	getcontext(&inside);
	inside.uc_stack.ss_size = 1 << 16;
	inside.uc_stack.ss_sp = malloc(1 << 16);
	makecontext(&inside, coroutine, 0);
	while (clock() < seconds * CLOCKS_PER_SEC)
		swapcontext(&outside, &inside);
	return 0;
}
