/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A part of a function that gcc takes to be cold stands behind other functions. One jump by a
 * table leads there. That the table has no more entries is known by the comparison before it; of
 * the other table nobody knows where it ends, so an entry that leaves the function is not its own.
 * Nor is that known if something else was compared than what the jump goes by, also if that was
 * taken later and only at times, or if the flags of the branch were set by another instruction.
 */

	.macro	begin_function name
	.balign	16, 0xcc
	.globl	\name
	.type	\name, @function
\name:
	.endm

	.macro	jump_by table, index
	lea	\table(%rip), %rdx
	movslq	(%rdx,\index,4), %rax
	add	%rdx, %rax
	jmp	*%rax
	.endm

	.text
	.globl	caller
caller:
	.cfi_startproc
	call	known
	call	other
	call	not_known
	call	compares_another
	call	tests_another
	call	compares_a_copy
	call	takes_another
	ret
	.cfi_endproc

	begin_function known
	push	%rbx
	cmp	$2, %edi
	ja	1f
	mov	%edi, %eax
	jump_by	table, %rax
1:	pop	%rbx
	ret
2:	nop
	jmp	1b

	begin_function not_known
	push	%rbx
	jump_by	table_without_end, %rdi
3:	pop	%rbx
	ret

	begin_function compares_another
	push	%rbx
	cmp	$2, %edi
	ja	4f
	jump_by	table_of_another, %rsi
4:	pop	%rbx
	ret

	begin_function tests_another
	push	%rbx
	cmp	$2, %edi
	test	%esi, %esi
	ja	5f
	jump_by	table_of_test, %rdi
5:	pop	%rbx
	ret

	begin_function compares_a_copy
	push	%rbx
	movzbl	%dil, %ebx
	cmp	$2, %dil
	mov	%edi, %ecx
	ja	6f
	mov	%ecx, %ecx
	jump_by	table_of_copy, %rcx
6:	pop	%rbx
	ret

	begin_function takes_another
	push	%rbx
	cmp	$2, %rdi
	ja	7f
	test	%esi, %esi
	cmovne	%rsi, %rdi
	jump_by	table_of_taken, %rdi
7:	pop	%rbx
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

part_of_nobody:
	xor	%edx, %edx
	jmp	4b
part_of_nobody_else:
	xor	%esi, %esi
	jmp	5b
part_of_taken:
	xor	%ebx, %ebx
	jmp	7b
cold_too:
	xor	%edi, %edi
	jmp	6b

	.section .rodata, "a"
	.balign	4
table:
	.long	2b - table, cold - table, 1b - table
table_without_end:
	.long	3b - table_without_end, 3b - table_without_end, 3b - table_without_end
	.long	as_cold - table_without_end
table_of_another:
	.long	4b - table_of_another, 4b - table_of_another, part_of_nobody - table_of_another
table_of_test:
	.long	5b - table_of_test, 5b - table_of_test, part_of_nobody_else - table_of_test
table_of_taken:
	.long	7b - table_of_taken, 7b - table_of_taken, part_of_taken - table_of_taken
table_of_copy:
	.long	6b - table_of_copy, 6b - table_of_copy, cold_too - table_of_copy
