/* SPDX-License-Identifier: GPL-2.0 */
/* Code that is executed on made-up stacks, and the way there and back */
.macro LABEL name
	.globl \name
\name:
.endm

	.text

/* Go on with these registers, whatever segments they are of. r14 and r15 have the way back. */
LABEL enter
	push	%rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, %r14
	mov	$enter_back, %r15d
	mov	%rdi, %rsp
	pop	%rax
	pop	%rbx
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%rbp
	pop	%r12
	iretq

	/* It can be a return address, too. */
	nop
LABEL enter_back
	mov	$0x2b, %eax
	mov	%eax, %ss
	mov	%r14, %rsp
	cld
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	ret

/* A function with a return probe, and signal handlers, each with a system call in it */
.macro FUNCTION name sp bp nr call:vararg
LABEL \name
	/* The same bytes in 32-bit code */
	push	%rbp
	mov	%\sp, %\bp
	mov	$\nr, %eax
	\call
LABEL \name\()_ip
	pop	%rbp
	ret
.endm

	FUNCTION probed rsp rbp 110 syscall
	FUNCTION handler rsp rbp 110 syscall
	FUNCTION handler_32 esp ebp 64 int $0x80

/* Restorers of handlers, by kind of the frame: 64-bit, x32, and two of 32-bit code */
	.balign	16
LABEL frame_restorers
	mov	$15, %rax
	syscall
	.balign	16
	mov	$0x40000201, %rax
	syscall
	.balign	16
	/* pop %eax, in 32-bit code */
	pop	%rax
	mov	$119, %eax
	int	$0x80
	.balign	16
	mov	$173, %eax
	int	$0x80

	.section .note.GNU-stack, "", @progbits
