/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How the runtime of OCaml 5 gets from a fiber's stack to that of the system, and back.
 * What it says of itself is that these are signal frames.
 */

	.text
	.globl	_start
_start:
	/* caml_c_call: rsp is another one around the call, and leads back. */
	.cfi_startproc
	.cfi_signal_frame
	.fill	21, 1, 0x90
	.cfi_remember_state
	.cfi_escape 0x0f, 5, 0x77, 8, 0x06, 0x23, 8
	.fill	15, 1, 0x90
	.cfi_restore_state
	.fill	12, 1, 0x90
	.cfi_endproc

	/* caml_c_call_stack_args: with rbx where arguments are pushed, of any number */
	.cfi_startproc
	.cfi_signal_frame
	.fill	8, 1, 0x90
	.cfi_remember_state
	.cfi_escape 0x0f, 5, 0x77, 8, 0x06, 0x23, 8
	.fill	8, 1, 0x90
	.cfi_escape 0x0f, 5, 0x73, 8, 0x06, 0x23, 8
	.fill	8, 1, 0x90
	.cfi_restore_state
	.fill	8, 1, 0x90
	.cfi_endproc

	/* caml_start_program: rbx, and FP on the stack that it leads to */
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa_offset 80
	.cfi_offset rbp, -24
	.fill	8, 1, 0x90
	.cfi_escape 0x0f, 6, 0x77, 16, 0x06, 0x23, 0xd0, 0
	.fill	8, 1, 0x90
	.cfi_def_cfa rbx, 8
	.fill	8, 1, 0x90
	.cfi_endproc

	/* caml_runstack: from memory to memory, which no rule can say */
	.cfi_startproc
	.cfi_signal_frame
	.cfi_escape 0x0f, 8, 0x77, 56, 0x06, 0x23, 0, 0x06, 0x23, 8
	.fill	8, 1, 0x90
	.cfi_endproc
