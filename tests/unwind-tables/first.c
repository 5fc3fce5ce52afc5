// SPDX-License-Identifier: GPL-2.0
/*
 * A program that needs no other file and works from its first instruction to the last.
 * Its .eh_frame takes a while to read.
 */
asm(".pushsection .text.many, \"ax\"\n"
	".rept 20000\n"
	".cfi_startproc\n"
	"push %rbx\n"
	".cfi_adjust_cfa_offset 8\n"
	"push %rbp\n"
	".cfi_adjust_cfa_offset 8\n"
	"pop %rbp\n"
	".cfi_adjust_cfa_offset -8\n"
	"pop %rbx\n"
	".cfi_adjust_cfa_offset -8\n"
	"ret\n"
	".cfi_endproc\n"
	".endr\n"
	".popsection\n");

asm(".globl _start\n"
	".type _start, @function\n"
	"_start:\n"
	".cfi_startproc\n"
	".cfi_undefined rip\n"
	"xor %ebp, %ebp\n"
	"call first\n"
	"mov %eax, %edi\n"
	"mov $60, %eax\n"	/* exit() */
	"syscall\n"
	"hlt\n"
	".cfi_endproc\n"
	".size _start, . - _start\n");

static __attribute__((__noinline__)) int work(int n)
{
	volatile int i, sum = n;

	for (i = 0; i < 150000000; i++)
		sum += i;
	return sum;
}

static __attribute__((__noinline__)) int down(int n)
{
	volatile int ret = n ? down(n - 1) : work(n);

	return ret;
}

int first(void)
{
	return down(8) == 1;
}
