/* SPDX-License-Identifier: GPL-2.0 */
/* Code without FDE that is known, each followed by what is nearly the same */

	.macro	func len=16
	.balign	16, 0xcc
	.cfi_startproc
	.fill	\len, 1, 0x90
	.cfi_endproc
	.endm
	.macro	child
	.cfi_startproc
	.cfi_undefined rip
	.fill	6, 1, 0x90
	.cfi_endproc
	.endm

	.text
	/* _init, at the beginning of the segment */
	sub	$8, %rsp
	mov	got(%rip), %rax
	test	%rax, %rax
	je	1f
	call	*%rax
1:	add	$8, %rsp
	ret
	func
	.balign	16, 0xcc
	sub	$8, %rsp
	mov	got(%rip), %rax
	test	%rax, %rax
	je	1f
	call	*%rax
1:	add	$16, %rsp
	ret

	/* The entry, which has no end of its own */
	func
	.globl	_start
_start:
	.fill	0x30, 1, 0x90
	func

	/* clone: before the system call, after it, the new thread */
	func
	syscall
	test	%rax, %rax
	.byte	0x7c, 0x13
	je	1f
	ret
1:	child
	/* With an FDE after it that has a caller; with another register */
	func
	syscall
	test	%rax, %rax
	.byte	0x7c, 0x13
	je	1f
	ret
1:
	.cfi_startproc
	.fill	6, 1, 0x90
	.cfi_endproc
	func
	syscall
	test	%rax, %rcx
	.byte	0x7c, 0x13
	je	1f
	ret
1:	child

	/* __start_context: the byte before it */
	func
	.fill	3, 1, 0xcc
	.cfi_startproc
	mov	%rbx, %rsp
	mov	(%rsp), %rdi
	test	%rdi, %rdi
	.byte	0x74, 8
	call	got
	mov	%rax, %rdi
	call	got
	hlt
	.cfi_endproc
	func
	.fill	3, 1, 0xcc
	.cfi_startproc
	mov	%rcx, %rsp
	mov	(%rsp), %rdi
	test	%rdi, %rdi
	.byte	0x74, 8
	call	got
	mov	%rax, %rdi
	call	got
	hlt
	.cfi_endproc

	/* __do_global_dtors_aux, frame_dummy */
	func
	.balign	16, 0xcc
	endbr64
	cmpb	$0, got(%rip)
	.byte	0x75, 0x2b
	push	%rbp
	cmpq	$0, got(%rip)
	mov	%rsp, %rbp
	.byte	0x74, 0x0c
	mov	got(%rip), %rdi
	call	got
	call	got
	movb	$1, got(%rip)
	pop	%rbp
	ret
	nopl	(%rax)
	ret
	.balign	16, 0xcc
	endbr64
	.byte	0xe9
	.long	got - . - 4
	/* The latter alone may be anything. */
	func
	endbr64
	.byte	0xe9
	.long	got - . - 4
	.fill	23, 1, 0xcc

	/* A PLT of lld */
	func
	.balign	16, 0xcc
	push	got(%rip)
	jmp	*got(%rip)
	.byte	0x0f, 0x1f, 0x40, 0
	jmp	*got(%rip)
	push	$0x12345
	.byte	0xe9
	.long	got - . - 4
	/* One that is not lazy, for ifuncs: two entries, then one */
	jmp	*got(%rip)
	xchg	%ax, %ax
	jmp	*got(%rip)
	xchg	%ax, %ax
	jmp	*got(%rip)
	nop
	nop
	/* Not aligned */
	.byte	0xcc
	jmp	*got(%rip)
	push	$0x12345
	.byte	0xe9
	.long	got - . - 4
	func

	.section .more, "ax", @progbits
got:	.fill	13, 1, 0x90
	/* _fini, at the end of the other segment */
	func	1
	.balign	4, 0xcc
	sub	$8, %rsp
	add	$8, %rsp
	ret
