// SPDX-License-Identifier: GPL-2.0
/*
 * Coroutines by a bare routine that switches stacks. The first function of a coroutine is
 * entered by a return, and returns to a function that nobody has called. Right before that one
 * is a jump, or with -DRETURNS a return. Above it on the stack are more addresses of functions,
 * as there may be for the task of the coroutine.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOT_INLINE __attribute__((noinline, noipa))

static void *outside, *inside;
static double seconds;
static int hooks;

/* Put the SP into *@from, and take it from @to. */
void enter(void **from, void *to);
__asm__(".text\n"
	".globl enter\n"
	".type enter, @function\n"
	"enter:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size enter, . - enter\n");

NOT_INLINE long burn(long n)
{
	volatile long x = 0;

	while (n--)
		x += n * 3;
	return x;
}

NOT_INLINE long work(long n)
{
	return burn(n) + 1;
}

NOT_INLINE void other(void)
{
	puts("other");
}

NOT_INLINE void hook(void)
{
#ifdef RETURNS
	hooks++;
#else
	puts("hook");
#endif
}

NOT_INLINE void co_exit(void)
{
	enter(&inside, outside);
	abort();
}

NOT_INLINE void co_main(void)
{
	while (clock() < seconds * CLOCKS_PER_SEC)
		work(100000);
}

int main(int argc, char **argv)
{
	static uintptr_t stack[8192] __attribute__((aligned(64)));
	uintptr_t *top = stack + 8192 - 8;

	seconds = argc > 1 ? atof(argv[1]) : 1;
	*--top = (uintptr_t)other;
	*--top = (uintptr_t)hook;
	*--top = (uintptr_t)co_exit;
	*--top = (uintptr_t)co_main;
	*--top = 0;
	*--top = 0;
	enter(&outside, top);
	return hooks;
}
