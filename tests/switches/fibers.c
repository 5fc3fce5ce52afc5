// SPDX-License-Identifier: GPL-2.0
/* Coroutines by boost.context's assembly: the work is done in the coroutine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct transfer {
	void	*context;
	void	*data;
};

void *make_fcontext(void *top, size_t size, void (*function)(struct transfer));
struct transfer jump_fcontext(void *to, void *data);

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

static void coroutine(struct transfer from)
{
	for (;;) {
		work();
		from = jump_fcontext(from.context, NULL);
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	size_t size = 1 << 16;
	char *stack = malloc(size);
	void *context = make_fcontext(stack + size, size, coroutine);

	while (clock() < seconds * CLOCKS_PER_SEC)
		context = jump_fcontext(context, NULL).context;
	return 0;
}
