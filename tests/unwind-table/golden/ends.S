/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions without padding between them. What returns to the first byte of one was not called
 * from there, unless there may be a call before it. Whatever is executed before it has its rule.
 */

	.macro	begin_function
	.cfi_startproc
	push	%rax
	.cfi_def_cfa_offset 16
	.endm

	.macro	end_function
	.cfi_endproc
	.endm

	.text
first:
	begin_function
	nop
	nop
	nop
	ret
	end_function

	begin_function
	jmp	far
	end_function

	/* It ends before this one. */
	begin_function
	jmp	*%rax
	end_function

	/* And before this one; and so on. */
	begin_function
	ud2
	end_function

	/* But a jump of this kind is not looked for. */
	begin_function
	jmp	*8(%rax)
	end_function

	/* From here on it may be a call. */
	begin_function
	call	far
	end_function

	begin_function
	call	*%rax
	end_function

	begin_function
	call	*(%rax)
	end_function

	begin_function
	call	*(%rax,%rbx,8)
	end_function

	begin_function
	call	*8(%rax)
	end_function

	begin_function
	call	*8(%rax,%rbx,8)
	end_function

	begin_function
	call	*0x1000(%rip)
	end_function

	begin_function
	call	*0x1000(,%rax,8)
	end_function

	begin_function
	ret
	end_function

	/* A jump by so much that its last byte is that of a return */
	begin_function
	.byte	0xeb, 0xc3
	end_function

	/* The unwinder is told that something begins there. */
	begin_function
	.byte	0xe9, 0, 0, 0
	.cfi_def_cfa_offset 24
	.byte	0
	end_function

	begin_function
	jmp	far
	end_function

	/* What a signal has interrupted may be anywhere, and so may be where its handler returns. */
	begin_function
	.cfi_signal_frame
	jmp	far
	end_function

	/* Up to the end of a page */
	begin_function
	.fill	0x1000 - 2 - (. - first), 1, 0x90
	jmp	far
	end_function

	begin_function
	nop
	ret
	end_function
	.balign	16, 0xcc
far:
	.cfi_startproc
	ret
	.cfi_endproc
	.balign	16, 0xcc
