/* SPDX-License-Identifier: GPL-2.0 */
/*
 * There is nothing behind a call, so what is called does not return, other than it looks:
 * nor does it to a call that has something behind it. That is known only at the end. Cold parts
 * come first and have no padding: behind such a call, another one may begin. And behind padding,
 * an address that is passed on is a function and no label.
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
	call	goes_on
	call	ends
	call	goes_on_too
	call	ends_in_vain
	call	has_cold_part
	call	passes_next
	ret
	.cfi_endproc

	.balign	16, 0xcc
cold_part:
	call	returns
part_of_another:
	xor	%eax, %eax
	add	$16, %rsp
	ret

	begin_function goes_on
	push	%rbx
	call	never_returns
	nop
	pop	%rbx
	ret

	begin_function never_returns
	jmp	*never_known(%rip)

	begin_function ends
	push	%rbx
	call	never_returns
	.balign	16, 0x90
	endbr64
	ret

	/*
	 * That a function is seen to return counts for more: clang ends a function behind the
	 * call of one that returns, if what would follow is undefined.
	 */
	begin_function goes_on_too
	push	%rbx
	call	returns
	nop
	pop	%rbx
	ret

	begin_function returns
	push	%rbx
	pop	%rbx
	ret

	begin_function ends_in_vain
	push	%rbx
	call	returns
	.balign	16, 0x90
	endbr64
	ret

	begin_function has_cold_part
	push	%rbx
	test	%edi, %edi
	jne	cold_part
	pop	%rbx
	ret

	begin_function passes_next
	push	%rbx
	lea	next(%rip), %rdi
	call	*never_known(%rip)
	.balign	16, 0x90
next:
	xor	%eax, %eax
	ret

	.section .more, "ax"
	.balign	8
never_known:
	.quad	0
