/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code of which nothing but an address tells that a function starts there, or bytes that
 * look like a call; and functions that such code is taken for, or that it shares code with.
 */

	.macro	begin_function name
	.balign	16, 0xcc
	.globl	\name
	.type	\name, @function
\name:
	.endm
	/* Without a symbol for a function */
	.macro	begin_unsure name
	.balign	16, 0xcc
\name:
	.endm

	.text
	.globl	caller
caller:
	.cfi_startproc
	lea	part(%rip), %rax
	call	interpreter
	lea	traps(%rip), %rax
	lea	also_traps(%rip), %rax
	lea	goes_elsewhere(%rip), %rax
	lea	goes_to_unknown(%rip), %rax
	lea	runs_on(%rip), %rax
	call	loses_sp
	call	reads_on
	call	behind_table
	call	reads_ahead
	call	behind_padding
	call	after_jump
	call	after_jump
	movabs	$1, %rax
	/* Looks like a call, in the middle of an instruction */
	.byte	0x48, 0xb8
	call	after_no_jump
	.byte	0, 0, 0
	.byte	0x48, 0xb8
	call	after_no_return
	.byte	0, 0, 0
	ret
	.cfi_endproc

	/* A part of a function, to which a pointer leads: it calls the whole */
	begin_unsure interpreter
	push	%rbx
	sub	$16, %rsp
next_part:
	test	%edi, %edi
	je	1f
	jmp	*%rax
	.balign	16, 0x90
part:
	call	interpreter
	jmp	next_part
1:	add	$16, %rsp
	pop	%rbx
	ret

	/* Two functions share a trap, with different frames. */
	begin_unsure traps
	push	%rbx
	test	%edi, %edi
	je	trap
	pop	%rbx
	ret
	begin_unsure also_traps
	sub	$24, %rsp
	test	%edi, %edi
	je	trap
	add	$24, %rsp
	ret
	.balign	16, 0xcc
trap:	mov	0, %rax
	ud2

	/* And a loop, which goes on where each of them says, but not with any SP */
	begin_unsure goes_elsewhere
	sub	$24, %rsp
	lea	1f(%rip), %r8
	test	%esi, %esi
	je	2f
shared_loop:
	dec	%edi
	jg	shared_loop
	jmp	*%r8
1:	nop
2:	add	$24, %rsp
	ret
	begin_unsure goes_to_unknown
	test	%esi, %esi
	je	3f
	lea	3f(%rip), %r8
	jmp	shared_loop
	.balign	16, 0x90
3:	ret

	/* Code whose SP is not known, to which a part leads that would be believed */
	begin_function loses_sp
	lea	to_unknown(%rip), %rax
	test	%edi, %edi
	je	1f
	mov	%rsi, %rsp
	nop
no_sp:	nop
	jmp	no_sp
1:	ret
	.balign	16, 0x90
to_unknown:
	push	%rbx
	jmp	no_sp

	/* A table of unknown length, with entries that lead into the next function */
	begin_function reads_on
	push	%rbx
	lea	reads_on_table(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	add	%rdx, %rax
	jmp	*%rax
0:	nop
	pop	%rbx
	ret
	begin_unsure behind_table
	endbr64
	sub	$24, %rsp
1:	nop
	add	$24, %rsp
	ret
	.pushsection .rodata
reads_on_table:
	.long	0b - reads_on_table, 0b - reads_on_table, 0b - reads_on_table
	.long	1b - reads_on_table, 1b - reads_on_table
	.popsection

	/* And one with entries that lead into an instruction, ahead of what was reached */
	begin_function reads_ahead
	push	%rbx
	lea	reads_ahead_table(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	add	%rdx, %rax
	jmp	*%rax
0:	nop
	pop	%rbx
	ret
1:	mov	$0xc3535353, %eax
	.pushsection .rodata
reads_ahead_table:
	.long	0b - reads_ahead_table, 0b - reads_ahead_table, 0b - reads_ahead_table
	.long	1b + 1 - reads_ahead_table
	.popsection

	/* A call that does not return, though nothing tells, and what is called behind padding */
	begin_function calls_exit
	push	%rbx
	call	caller
	.balign	16, 0x90
behind_padding:
	sub	$24, %rsp
	nop
	add	$24, %rsp
	ret

	/* Behind a jump, not aligned: two calls tell that a function starts there. */
	begin_unsure not_reached
	jmp	not_reached
after_jump:
	push	%rbx
	pop	%rbx
	ret
	/* Behind no jump, and no return */
	.balign	16, 0xcc
	mov	$0x020202e9, %ecx
	push	%rbp
after_no_jump:
	push	%rbx
	pop	%rbx
	ret
	.balign	16, 0xcc
	mov	$0xc2909090, %ecx
	rex.W
	.byte	0x0f
after_no_return:
	.byte	0x44, 0xc2, 0x0f, 0xb7
	ret

	/* That code with CFI comes next tells nothing: what runs into it may be data. */
	begin_unsure runs_on
	push	%rbx
	pop	%rbx
	.cfi_startproc
	ret
	.cfi_endproc
