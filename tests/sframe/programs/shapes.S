/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions of the shapes that compilers rarely make: empty ones, two with the
 * same start, signal frames, undefined return address, realigned stack, long
 * rows, CFA by expression. With a main that does nothing.
 */
	.text
	.globl main
	.type main, @function
main:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register 6
	xor	%eax, %eax
	pop	%rbp
	.cfi_def_cfa 7, 8
	.cfi_restore 6
	ret
	.cfi_endproc
	.size main, . - main

empty:
	.cfi_startproc
	.cfi_endproc
	.size empty, . - empty

behind_empty:
	.cfi_startproc
	sub	$0x12345678, %rsp
	.cfi_adjust_cfa_offset 0x12345678
	nop
	add	$0x12345678, %rsp
	.cfi_adjust_cfa_offset -0x12345678
	ret
	.cfi_endproc
	.size behind_empty, . - behind_empty

long_function:
	.cfi_startproc
	push	%rbx
	.cfi_adjust_cfa_offset 8
	.skip	300, 0x90
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_offset 6, -24
	.skip	70000, 0x90
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore 6
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size long_function, . - long_function

outermost:
	.cfi_startproc
	.cfi_undefined rip
	nop
	hlt
	.cfi_endproc
	.size outermost, . - outermost

signal_frame:
	.cfi_startproc
	.cfi_signal_frame
	nop
	nop
	.cfi_endproc
	.size signal_frame, . - signal_frame

	.skip	13, 0x90

realigned:
	.cfi_startproc
	lea	8(%rsp), %r10
	.cfi_def_cfa 10, 0
	and	$-32, %rsp
	push	-8(%r10)
	push	%rbp
	mov	%rsp, %rbp
	.cfi_escape 0x10,0x6,0x2,0x76,0
	push	%r10
	.cfi_escape 0xf,0x3,0x76,0x78,0x6
	nop
	pop	%r10
	.cfi_def_cfa 10, 0
	pop	%rbp
	lea	-8(%r10), %rsp
	.cfi_def_cfa 7, 8
	ret
	.cfi_endproc
	.size realigned, . - realigned

expression:
	.cfi_startproc
	nop
	.cfi_escape 0x0f, 0x05, 0x77, 0x08, 0x23, 0x08, 0x06
	nop
	.cfi_endproc
	.size expression, . - expression

	.section .note.GNU-stack, "", @progbits
