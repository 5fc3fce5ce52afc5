/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A library whose frames only its SFrame table tells. sframe_lib_call(nr) makes
 * the system call from below three more frames.
 */
	.cfi_sections .sframe, .eh_frame
	.text
	.globl	sframe_lib_ip_lo, sframe_lib_ip_hi, sframe_lib_call
	.type	sframe_lib_ip_lo, @object
	.type	sframe_lib_ip_hi, @object
sframe_lib_ip_lo:

	.type	leaf, @function
leaf:
	.cfi_startproc
	mov	%rdi, %rax
	syscall
	nop
	ret
	.cfi_endproc
	.size	leaf, . - leaf

	.type	inner, @function
inner:
	.cfi_startproc
	sub	$40, %rsp
	.cfi_adjust_cfa_offset 40
	call	leaf
	add	$40, %rsp
	.cfi_adjust_cfa_offset -40
	ret
	.cfi_endproc
	.size	inner, . - inner

	.type	middle, @function
middle:
	.cfi_startproc
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	mov	$0x1234, %ebp
	call	inner
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.size	middle, . - middle

	.type	sframe_lib_call, @function
sframe_lib_call:
	.cfi_startproc
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	middle
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	sframe_lib_call, . - sframe_lib_call

sframe_lib_ip_hi:
	nop
	.section .note.GNU-stack, "", @progbits
