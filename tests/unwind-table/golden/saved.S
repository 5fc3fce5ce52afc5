/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code that keeps its CFA in a callee-saved register and calls one function, each time another
 * one. That function saves the register: at a place from which a caller's CFA can be read, or not.
 */

	/* Functions that are what a caller may rely on begin with "saves", others do not. */
	.macro	calls callee, register=rbx, call=call
	.balign	16, 0xcc
	.cfi_startproc
	push	%\register
	.cfi_def_cfa_offset 16
	.cfi_offset \register, -16
	mov	%rsp, %\register
	.cfi_def_cfa_register \register
	and	$-16, %rsp
	\call	\callee
	mov	%\register, %rsp
	.cfi_def_cfa_register rsp
	pop	%\register
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.endm

	.macro	begin_function name
	.balign	16, 0xcc
\name:
	.cfi_startproc
	.endm

	.macro	end_function
	.cfi_endproc
	.endm

	.macro	push_reg register, depth
	push	%\register
	.cfi_def_cfa_offset \depth
	.cfi_offset \register, -\depth
	.endm

	.macro	pop_reg register, depth
	pop	%\register
	.cfi_def_cfa_offset \depth
	.endm

	.text
	calls	saves
	calls	saves			/* and another one that does the same */
	calls	saves_by_store
	calls	saves_lowest
	calls	saves_r12, r12
	calls	too_low
	calls	has_other_caller
	calls	is_taken
	calls	is_in_data
	calls	jumps_away
	calls	jumps_by_register
	calls	branches_back
	calls	calls_before
	calls	writes_before
	calls	pushes_after
	calls	makes_room_after
	calls	takes_room_again
	calls	makes_before
	calls	saves_nothing
	calls	saves_another, r13
	calls	by_two
	calls	by_two, r12
	calls	is_inside
	calls	runs_on
	calls	has_bad_cfi
	calls	*%rax			/* That leads anywhere. */

	begin_function saves
	push_reg rbp, 16
	push_reg rbx, 24
	mov	%rdi, %rbx
	sub	$16, %rsp
	.cfi_def_cfa_offset 40
	test	%rbx, %rbx
	je	cold
1:	call	saves_nothing_either
	add	$16, %rsp
	.cfi_def_cfa_offset 24
	pop_reg	rbx, 16
	pop_reg	rbp, 8
	ret
	end_function

	begin_function saves_by_store
	sub	$24, %rsp
	.cfi_def_cfa_offset 32
	mov	%rbx, 8(%rsp)
	.cfi_offset rbx, -24
	xor	%ebx, %ebx
	call	saves_nothing_either
	mov	8(%rsp), %rbx
	add	$24, %rsp
	.cfi_def_cfa_offset 8
	ret
	end_function

	.macro	saves_at depth
	sub	$\depth - 16, %rsp
	.cfi_def_cfa_offset \depth - 8
	push_reg rbx, \depth
	call	saves_nothing_either
	pop_reg	rbx, \depth-8
	add	$\depth - 16, %rsp
	.cfi_def_cfa_offset 8
	ret
	.endm

	/* Below the red zone, others may use the place as soon as rbx was popped. */
	begin_function saves_lowest
	saves_at 136
	end_function
	begin_function too_low
	saves_at 144
	end_function

	.macro	saves_and_returns register=rbx
	push_reg \register, 16
	call	saves_nothing_either
	pop_reg	\register, 8
	ret
	.endm

	begin_function saves_r12
	saves_and_returns r12
	end_function
	begin_function has_other_caller
	saves_and_returns
	end_function
	begin_function is_taken
	saves_and_returns
	end_function
	begin_function is_in_data
	saves_and_returns
	end_function
	begin_function saves_another
	saves_and_returns r12
	end_function
	begin_function by_two
	saves_and_returns
	end_function

	begin_function jumps_away
	push_reg rbx, 16
	test	%rdi, %rdi
	je	saves_elsewhere
	pop_reg	rbx, 8
	ret
	end_function
	begin_function saves_elsewhere
	push_reg rbp, 16
	push_reg rbx, 24
	call	saves_nothing_either
	pop_reg rbx, 16
	pop_reg rbp, 8
	ret
	end_function

	begin_function jumps_by_register
	push_reg rbx, 16
	jmp	*%rax
	end_function

	begin_function branches_back
	xor	%eax, %eax
2:	nop
	push_reg rbx, 16
	test	%rdi, %rdi
	je	2b
	pop_reg rbx, 8
	ret
	end_function

	begin_function calls_before
	call	saves_nothing_either
	saves_and_returns
	end_function

	begin_function writes_before
	mov	%rdi, %rbx
	saves_and_returns
	end_function

	begin_function pushes_after
	push_reg rbx, 16
	call	saves_nothing_either
	pop_reg	rbx, 8
	push	%rax
	.cfi_def_cfa_offset 16
	pop	%rax
	.cfi_def_cfa_offset 8
	ret
	end_function

	begin_function makes_room_after
	push_reg rbx, 16
	call	saves_nothing_either
	pop_reg	rbx, 8
	sub	$8, %rsp
	.cfi_def_cfa_offset 16
	movq	$0, (%rsp)
	add	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	end_function

	begin_function takes_room_again
	sub	$24, %rsp
	.cfi_def_cfa_offset 32
	mov	%rbx, 8(%rsp)
	.cfi_offset rbx, -24
	call	saves_nothing_either
	mov	8(%rsp), %rbx
	add	$24, %rsp
	.cfi_def_cfa_offset 8
	sub	$24, %rsp
	.cfi_def_cfa_offset 32
	movq	$0, 8(%rsp)
	add	$24, %rsp
	.cfi_def_cfa_offset 8
	ret
	end_function

	begin_function makes_before
	imul	$3, %rdi, %rbx
	saves_and_returns
	end_function

	begin_function saves_nothing
	nop
	ret
	end_function

	begin_function saves_nothing_either
	nop
	ret
	end_function

	/* Who enters there has not saved it. */
	begin_function has_inside
	push_reg rbx, 16
is_inside:
	call	saves_nothing_either
	pop_reg	rbx, 8
	ret
	end_function

	begin_function runs_on
	push_reg rbx, 16
	pop	%rbx
	nop
	end_function

	/* What it says is not where rbx is pushed. */
	begin_function has_bad_cfi
	push	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset rbx, -24
	call	saves_nothing_either
	pop_reg	rbx, 8
	ret
	end_function

	begin_function other
	call	has_other_caller
	lea	is_taken(%rip), %rax
	ret
	end_function

cold:
	.cfi_startproc
	.cfi_def_cfa_offset 40
	.cfi_offset rbp, -16
	.cfi_offset rbx, -24
	inc	%eax
	jmp	1b
	.cfi_endproc

	.section .raw_dynamic, "a", @progbits
	/* DT_RELA, DT_RELASZ, DT_NULL */
	.quad	7, rela, 8, rela_end - rela, 0, 0
rela:
	.quad	rela, 8, is_in_data
rela_end:
