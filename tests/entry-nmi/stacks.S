/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two stacks, and entries to the kernel from them. A function
 *
 *	enter_NAME(first, second, arg)
 *
 * makes a system call on the first stack, which leaves its registers in the kernel, and
 * at NAME_site enters the kernel from the second one.
 */
#include <asm/unistd.h>

	.text
	.balign	4096
	.globl	code_start
code_start:

.macro BEGIN name
	.globl	enter_\name
	.type	enter_\name, @function
enter_\name:
	push	%rbp
	mov	%rsp, saved_sp(%rip)
	mov	0(%rdi), %rsp
	mov	8(%rdi), %rbp
	mov	$__NR_getppid, %eax
	syscall
	.globl	\name\()_begin
\name\()_begin:
	mov	0(%rsi), %rsp
	mov	8(%rsi), %rbp
.endm

.macro END name
	.globl	\name\()_end
\name\()_end:
	mov	saved_sp(%rip), %rsp
	pop	%rbp
	ret
	.size	enter_\name, . - enter_\name
.endm

	BEGIN	syscall
	mov	$__NR_getppid, %eax
	.globl	syscall_site
syscall_site:
	syscall
	END	syscall

/* The same, with any stack pointer */
	BEGIN	hostile
	mov	$__NR_getppid, %eax
	.globl	hostile_site
hostile_site:
	syscall
	END	hostile

/* So many turns of one instruction, until an interrupt comes */
	BEGIN	interrupt
	mov	%rdx, %rcx
	.globl	interrupt_site
interrupt_site:
	loop	interrupt_site
	END	interrupt

/* A page that is not there */
	BEGIN	exception
	.globl	exception_site
exception_site:
	mov	(%rdx), %eax
	END	exception

/* Here the debugger looks at the samples, see main(). */
	.globl	report
	.type	report, @function
report:
	ret
	.size	report, . - report

/* Return addresses on both stacks; nothing is executed from here on. */
	.globl	callers, first_caller, second_caller
callers:
	.skip	64, 0xcc
first_caller:
	.skip	64, 0xcc
second_caller:
	.skip	64, 0xcc
	.globl	outermost, first_outermost, second_outermost
outermost:
	.skip	64, 0xcc
first_outermost:
	.skip	64, 0xcc
second_outermost:
	.skip	64, 0xcc
	.globl	code_end
code_end:
	.balign	4096, 0xcc

	.local	saved_sp
	.comm	saved_sp, 8, 8
	.section .note.GNU-stack, "", @progbits
