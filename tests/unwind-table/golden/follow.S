/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code without FDE whose instructions are followed, each function with what is special
 * about it. All are called from code with an FDE, but for those that say otherwise.
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
	.irp	name, pushes, frame, realigned, copied, jpeg, \
		by_table, open_jumps, tail, falls, pops_more, lies, from_memory, loses_fp, \
		disagrees, agrees, overlaps, noreturn_call, helper_call, loop, switches, \
		overwrites, red_zone, probes, returns_address, below_red_zone, \
		other_probes, helper_writes, helper_open, unbounded, calls_described, \
		whole, calls_inner, calls_entry, without_fp, also_without_fp, \
		calls_other_entry, neighbours, other_neighbour, learns, calls_next
	call	\name
	.endr
	ret
	.cfi_endproc

	begin_function pushes
	push	%rbx
	push	%rbp
	xor	%ebp, %ebp
	sub	$24, %rsp
	lea	8(%rsp), %rsp
	add	$16, %rsp
	pop	%rbp
	pop	%rbx
	ret

	begin_function frame
	endbr64
	push	%rbp
	mov	%rsp, %rbp
	sub	%rdi, %rsp
	nop
	leave
	ret

	/* As x86inc saves SP */
	begin_function realigned
	mov	%rsp, %rax
	sub	$0x60, %rsp
	and	$-32, %rsp
	mov	%rax, 0x40(%rsp)
	xor	%eax, %eax
	mov	0x40(%rsp), %rsp
	ret

	begin_function copied
	mov	%rsp, %r11
	and	$-64, %rsp
	nop
	mov	%r11, %rsp
	ret

	/* As libjpeg-turbo saves it */
	begin_function jpeg
	push	%rbp
	mov	%rsp, %rax
	sub	$8, %rsp
	and	$-32, %rsp
	mov	%rax, (%rsp)
	mov	%rsp, %rbp
	lea	-64(%rbp), %rsp
	xor	%eax, %eax
	mov	%rbp, %rsp
	pop	%rsp
	pop	%rbp
	ret

	begin_function by_table
	push	%rbx
	cmp	$2, %edi
	ja	2f
	lea	table(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	add	%rdx, %rax
	jmp	*%rax
0:	push	%rbx
	pop	%rbx
	jmp	2f
	.byte	0x06
1:	sub	$16, %rsp
	add	$16, %rsp
2:	pop	%rbx
	ret
	/* The table does not lead here, so nothing does. */
	push	%rbx
	ret
	.pushsection .rodata
table:
	.long	0b - table, 1b - table, 2b - table
	.popsection

	/* Code that goes on where one of two places in a register is */
	begin_function open_jumps
	push	%rbx
	lea	1f(%rip), %r8
	test	%edi, %edi
	je	0f
	lea	2f(%rip), %r8
0:	jmp	*%r8
	.byte	0x06
1:	push	%rcx
	pop	%rcx
	jmp	3f
	.byte	0x06
2:	nop
3:	pop	%rbx
	ret

	begin_function tail
	push	%rbx
	pop	%rbx
	jmp	pushes

	/* Into the next function, which is called as well */
	begin_function falls
	push	%rbx
	pop	%rbx
	begin_function agrees
	test	%edi, %edi
	je	1f
	push	%rbx
	jmp	2f
1:	push	%rbx
2:	nop
	pop	%rbx
	ret

	begin_function pops_more
	pop	%rax
	add	$8, %rsp
	push	%rax
	ret

	/* SP is not where it has to be. */
	begin_function lies
	push	%rbx
	nop
	ret

	begin_function from_memory
	push	%rbx
	mov	(%rdi), %rsp
	nop
	pop	%rbx
	ret

	begin_function loses_fp
	push	%rbx
	mov	%rdi, %rbp
	nop
	pop	%rbx
	ret

	/* Two paths with different frames */
	begin_function disagrees
	test	%edi, %edi
	je	1f
	push	%rbx
1:	nop
	mov	%rsi, %rsp
	ret

	/* A jump into the middle of an instruction, after whose ends both are the same */
	begin_function overlaps
	push	%rbx
	test	%edi, %edi
	je	1f + 1
1:	.byte	0x48
	xor	%eax, %eax
	pop	%rbx
	ret

	begin_function noreturn_call
	push	%rbx
	call	stops
	.byte	0x06
	push	%rbx
	ret
	begin_function stops
	sub	$8, %rsp
	hlt

	/* A function that writes registers as no ABI has it, and leaves others alone */
	begin_function helper_call
	mov	%rsp, %r10
	push	%rbx
	and	$-16, %rsp
	call	helper
	nop
	lea	-8(%r10), %rsp
	pop	%rbx
	ret
	begin_function helper
	xor	%ebp, %ebp
	xor	%r9d, %r9d
	ret

	begin_function loop
	push	%rbx
	mov	%rdi, %rcx
1:	push	%rcx
	pop	%rcx
	loop	1b
	pop	%rbx
	ret

	/* Whose stack is given in a register, and has the old SP at its top */
	begin_function switches
	push	%rbx
	mov	%rsp, %rax
	mov	%rdi, %rsp
	push	%rax
	call	pushes
	pop	%rsp
	pop	%rbx
	ret

	/* The return address is another one. */
	begin_function overwrites
	push	%rbx
	mov	%rdi, 8(%rsp)
	nop
	pop	%rbx
	ret

	/* FP below SP, where it stays up to a call */
	begin_function red_zone
	mov	%rbp, -16(%rsp)
	xor	%ebp, %ebp
	nop
	sub	$8, %rsp
	call	pushes
	mov	-8(%rsp), %rbp
	add	$8, %rsp
	mov	-16(%rsp), %rbp
	ret

	/* The stack is touched page by page */
	begin_function probes
	push	%rbx
	lea	-0x4000(%rsp), %r11
1:	sub	$0x1000, %rsp
	orq	$0, (%rsp)
	cmp	%r11, %rsp
	jne	1b
	sub	$16, %rsp
	add	$0x4010, %rsp
	pop	%rbx
	ret

	begin_function returns_address
	pop	%rdx
	nop
	push	%rdx
	ret

	/* FP where anybody may write, so that it is not known */
	begin_function below_red_zone
	mov	%rbp, -200(%rsp)
	xor	%ebp, %ebp
	nop
	ret

	/* The comparison the other way round */
	begin_function other_probes
	push	%rbx
	lea	-0x2000(%rsp), %r11
1:	sub	$0x1000, %rsp
	cmp	%rsp, %r11
	jne	1b
	add	$0x2000, %rsp
	pop	%rbx
	ret

	/* The old SP is in a register that the function which is called writes */
	begin_function helper_writes
	mov	%rsp, %r9
	and	$-16, %rsp
	call	helper
	test	%edi, %edi
	je	1f
	nop
1:	mov	%r9, %rsp
	ret

	/* And in one that it may write, since not all of its paths are known */
	begin_function helper_open
	mov	%rsp, %r10
	and	$-16, %rsp
	call	open_helper
	nop
	mov	%r10, %rsp
	ret
	begin_function open_helper
	test	%edi, %edi
	jne	1f
	ret
1:	push	%rbx
	jmp	*%rdi

	/* A table that ends where it leads out of the function */
	begin_function unbounded
	push	%rbx
	lea	unbounded_table(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	add	%rdx, %rax
	jmp	*%rax
	.byte	0x06
0:	nop
	pop	%rbx
	ret
	.byte	0x06
1:	pop	%rbx
	ret
	.byte	0x06
2:	pop	%rbx
	ret
	.pushsection .rodata
unbounded_table:
	.long	0b - unbounded_table, 1b - unbounded_table, 0b - unbounded_table
	.long	1b - unbounded_table, 0b - unbounded_table, 0x10000000
	.long	2b - unbounded_table
	.popsection

	/* What has CFI is not followed: it returns, for all that is known. */
	begin_function calls_described
	push	%rbx
	call	described
	nop
	pop	%rbx
	ret

	/* A part of it is called, too, which is known when the rest was followed. */
	begin_function whole
	nop
inner:	nop
	ret
	begin_function calls_inner
	push	%rbx
	call	inner
	nop
	pop	%rbx
	ret

	/* And one to which a path leads that has lost FP */
	begin_function calls_entry
	push	%rbx
	call	entry
	pop	%rbx
	ret
	begin_function without_fp
	xor	%ebp, %ebp
entry:	nop
	ret

	/* The same, when the path is known first */
	begin_function also_without_fp
	xor	%ebp, %ebp
other_entry:
	nop
	ret
	begin_function calls_other_entry
	push	%rbx
	call	other_entry
	pop	%rbx
	ret

	/*
	 * A table whose first entry is not used and which ends before that of another
	 * jump, which leads from there to the middle of instructions.
	 */
	begin_function neighbours
	lea	3f(%rip), %rdx
3:	movzwl	neighbours_table - 3b(%rdx,%rdi,2), %eax
	add	%rdx, %rax
	jmp	*%rax
0:	mov	$0xc3535353, %eax
	ret
1:	nop
	ret
2:	mov	$0xc3535353, %ecx
	ret
	.pushsection .more, "ax"
	.short	0
neighbours_table:
	.short	0b + 1 - 3b, 0b - 3b, 1b - 3b, 2b - 3b, 0b + 1 - 3b, 2b + 1 - 3b
	.popsection

	/* That other one, whose first two entries are not used: they are of the table before. */
	begin_function other_neighbour
	lea	3f(%rip), %rdx
3:	movzwl	neighbours_table + 4 - 3b(%rdx,%rdi,2), %eax
	add	%rdx, %rax
	jmp	*%rax
	.fill	16, 1, 0x90
	ret

	/* A call to learn the address, and one of what does not return and comes next */
	begin_function learns
	push	%rbx
	call	1f
1:	pop	%rax
	pop	%rbx
	ret
	begin_function calls_next
	push	%rbx
	call	1f
1:	nop
	hlt

	/* Nothing leads here. */
	.balign	16, 0xcc
	push	%rbx
	pop	%rbx
	ret
	.balign	16, 0xcc
	.cfi_startproc
	nop
	.cfi_endproc
	.balign	16, 0xcc
described:
	.cfi_startproc
	hlt
	.cfi_endproc
