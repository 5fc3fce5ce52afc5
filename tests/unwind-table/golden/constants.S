/* SPDX-License-Identifier: GPL-2.0 */
/* Data that is in the same segment as code, as lld puts it: sections tell. */

	.macro	begin_function name
	.balign	16, 0xcc
	.globl	\name
	.type	\name, @function
\name:
	.endm

	.text
	.globl	caller
caller:
	.cfi_startproc
	lea	looks_like_code(%rip), %rax
	call	by_table
	call	by_next_table
	ret
	.cfi_endproc

	/* The table ends where the next one begins, for all that is known. */
	begin_function by_table
	push	%rbx
	lea	table(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	add	%rdx, %rax
	jmp	*%rax
0:	nop
	pop	%rbx
	ret
	.balign	16, 0xcc
by_next_table:
	sub	$24, %rsp
	lea	next_table(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	add	%rdx, %rax
	jmp	*%rax
	.fill	12, 1, 0x90
1:	nop
	add	$24, %rsp
	ret

	.section .constants, "a"
	.balign	16
table:
	.long	0b - table, 0b - table, 0b - table
next_table:
	.long	1b - next_table, 1b - next_table, 1b - next_table
	.balign	16
looks_like_code:
	push	%rbx
	pop	%rbx
	ret
