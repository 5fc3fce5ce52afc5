/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A part of a function that gcc takes to be cold stands behind other functions. One jump by a
 * table leads there. That the table has no more entries is known by the comparison before it; of
 * the other table nobody knows where it ends, so an entry that leaves the function is not its own.
 */

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
	call	known
	call	other
	call	not_known
	ret
	.cfi_endproc

	begin_function known
	push	%rbx
	cmp	$2, %edi
	ja	1f
	mov	%edi, %eax
	lea	table(%rip), %rdx
	movslq	(%rdx,%rax,4), %rax
	add	%rdx, %rax
	jmp	*%rax
1:	pop	%rbx
	ret
2:	nop
	jmp	1b

	begin_function not_known
	push	%rbx
	lea	table_without_end(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	add	%rdx, %rax
	jmp	*%rax
3:	pop	%rbx
	ret

	begin_function other
	nop
	ret
cold:
	xor	%eax, %eax
	jmp	1b
as_cold:
	xor	%ecx, %ecx
	jmp	3b

	.section .rodata, "a"
	.balign	4
table:
	.long	2b - table, cold - table, 1b - table
table_without_end:
	.long	3b - table_without_end, 3b - table_without_end, 3b - table_without_end
	.long	as_cold - table_without_end
