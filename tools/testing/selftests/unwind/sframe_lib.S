/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A library whose frames only its SFrame table tells. sframe_lib_call(nr) makes
 * the system call from below three more frames. As a program, or as the
 * interpreter of one, it makes a getppid() that way and ends.
 */
	.cfi_sections .sframe, .eh_frame
	.text
	.globl	sframe_lib_ip_leaf, sframe_lib_ip_inner, sframe_lib_ip_middle
	.globl	sframe_lib_ip_call, sframe_lib_ip_start
	.globl	sframe_lib_call, sframe_lib_start

	.type	leaf, @function
leaf:
	.cfi_startproc
	mov	%rdi, %rax
	syscall
sframe_lib_ip_leaf:
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
sframe_lib_ip_inner:
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
sframe_lib_ip_middle:
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.size	middle, . - middle

	.type	sframe_lib_call, @function
sframe_lib_call:
.Lcall:
	.cfi_startproc
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	middle
sframe_lib_ip_call:
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	sframe_lib_call, . - sframe_lib_call

	/* Without rows: a frame pointer of 0 is the end. Nothing is relocated yet. */
	.type	sframe_lib_start, @function
sframe_lib_start:
	xor	%ebp, %ebp
	mov	$110, %edi
	call	.Lcall
sframe_lib_ip_start:
	mov	$60, %eax
	xor	%edi, %edi
	syscall
	hlt
	.size	sframe_lib_start, . - sframe_lib_start

	.section .note.GNU-stack, "", @progbits
