/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions without FDE in a file that has a few, as chromium: those that begin by making
 * a frame keep a frame pointer up to the next start, the others are unknown. Nothing else
 * may have the bytes of a prologue; 0x90 is padding, so bodies are of "inc %eax".
 */
	.macro	func
	.balign	16, 0xcc
	.cfi_startproc
	.fill	16, 1, 0x90
	.cfi_endproc
	.endm
	.macro	body len=8
	.rept	\len / 2
	inc	%eax
	.endr
	.endm
	.macro	frame
	push	%rbp
	mov	%rsp, %rbp
	.endm

	.text
	.globl	_start
_start:	func
	/* Behind padding; the loop's head is aligned by the compiler, and no start. */
	.balign	32, 0xcc
	endbr64
	frame
	body	12
	jmp	1f
	.balign	16, 0x90
1:	body
	call	called
	call	called_frame
	call	inside
	pop	%rbp
	ret
	/* Behind breakpoints, without a frame */
	.balign	16, 0xcc
	body
	ret
	/* The other form of mov, right behind a return, aligned */
	.balign	16, 0x90
	push	%rbp
	.byte	0x48, 0x8b, 0xec
	body	12
	/* The target of what looks like a call, but code runs into it: no start. */
inside:	body
	pop	%rbp
	ret
	.balign	8, 0x90
called:	body
	ret
called_frame:
	frame
	body
	leave
	ret
	.balign	8, 0x90
	/* A relocation: without a frame behind a return, and a place of a function */
pointed:
	body
	ret
pointed_frame:
	frame
	body
	jmp	*%rax
	nop
pointed_inside:
	body
	leave
	ret
	/* Neither aligned nor referred to, so this belongs to the one before. */
	body	2
	ret
	.balign	16, 0xcc
	/* Code runs into it. */
	body	16
	frame
	body
	leave
	ret
	/* Nobody refers to it, and it is not aligned. */
	frame
	body
	leave
	ret
	.type	symbol, @function
symbol:	frame
	body
	leave
	ret
	.size	symbol, . - symbol
	.type	symbol_unframed, @function
symbol_unframed:
	body
	ret
	.size	symbol_unframed, . - symbol_unframed
	/* Up to an FDE, though it is said to be a jump */
	.balign	16, 0x90
	frame
	body	24
	.byte	0xeb
	func
	/* Between two FDEs */
	frame
	leave
	ret
	func

	.section .raw_dynamic, "a", @progbits
	/* DT_RELA, DT_RELASZ, DT_RELR, DT_RELRSZ, DT_NULL */
	.quad	7, rela, 8, rela_end - rela, 36, relr, 35, relr_end - relr, 0, 0
rela:
	.quad	rela, 8, pointed
	.quad	rela, 8, pointed_inside
	.quad	rela, 6, called + 2
rela_end:
relr:	.quad	pointers, 5
relr_end:
pointers:
	.quad	0, 0, pointed_frame
	.fill	62, 8, 0
