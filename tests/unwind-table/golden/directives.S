/* SPDX-License-Identifier: GPL-2.0 */
/* What compilers and assemblers make of .cfi directives, and the linker after them */

	.text
	.globl	_start
	/* No caller */
_start:
	.cfi_startproc
	.cfi_undefined rip
	.fill	16, 1, 0x90
	.cfi_endproc

	/* Frame pointer, and an epilogue before the end */
	.cfi_startproc
	.fill	1, 1, 0x90
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	.fill	3, 1, 0x90
	.cfi_def_cfa_register rbp
	.fill	6, 1, 0x90
	.cfi_remember_state
	.cfi_restore rbp
	.cfi_def_cfa rsp, 8
	.fill	1, 1, 0x90
	.cfi_restore_state
	.fill	5, 1, 0x90
	.cfi_endproc

	/* Only SP; the size of arguments changes nothing, nor does rbx */
	.cfi_startproc
	.fill	2, 1, 0x90
	.cfi_adjust_cfa_offset 8
	.cfi_offset rbx, -16
	.fill	2, 1, 0x90
	.cfi_escape 0x2e, 0x10
	.fill	4, 1, 0x90
	.cfi_def_cfa_offset 4096
	.cfi_offset rbp, -2048
	.fill	8, 1, 0x90
	.cfi_endproc

	/* Other registers as CFA */
	.cfi_startproc
	.cfi_def_cfa rdi, 16
	.fill	4, 1, 0x90
	.cfi_def_cfa r10, 0
	.fill	4, 1, 0x90
	.cfi_def_cfa_register r11
	.fill	4, 1, 0x90
	.cfi_def_cfa rax, -8
	.fill	4, 1, 0x90
	.cfi_endproc

	/* A realigned stack: *(rbp - 8), FP at rbp, then *(rsp + 16) + 8 */
	.cfi_startproc
	.cfi_escape 0x0f, 3, 0x76, 0x78, 0x06
	.cfi_escape 0x10, 6, 2, 0x76, 0
	.fill	8, 1, 0x90
	.cfi_escape 0x0f, 5, 0x77, 16, 0x06, 0x23, 8
	.cfi_offset rbp, -16
	.fill	8, 1, 0x90
	.cfi_endproc

	/* A realigned stack as gcc makes it, at beginning and end */
	.cfi_startproc
	.cfi_def_cfa r10, 0
	.fill	2, 1, 0x90
	.cfi_escape 0x10, 6, 2, 0x76, 0
	.fill	2, 1, 0x90
	.cfi_escape 0x0f, 3, 0x76, 0x78, 0x06
	.fill	8, 1, 0x90
	.cfi_def_cfa r10, 0
	.fill	3, 1, 0x90
	.cfi_def_cfa rsp, 8
	.fill	1, 1, 0x90
	.cfi_endproc

	/* vfork: the return address is in rdi */
	.cfi_startproc
	.fill	1, 1, 0x90
	.cfi_def_cfa_offset 0
	.cfi_register rip, rdi
	.fill	7, 1, 0x90
	.cfi_def_cfa_offset 8
	.cfi_restore rip
	.fill	8, 1, 0x90
	.cfi_endproc

	/* longjmp: SP is in r8, and by an expression, and at the same place */
	.cfi_startproc
	.cfi_def_cfa rdi, 0
	.cfi_register rsp, r8
	.fill	4, 1, 0x90
	.cfi_escape 0x16, 7, 2, 0x78, 0
	.fill	4, 1, 0x90
	.cfi_same_value rsp
	.fill	4, 1, 0x90
	.cfi_val_offset rsp, 0
	.fill	4, 1, 0x90
	.cfi_endproc

	/* A signal handler's return */
	.cfi_startproc simple
	.cfi_signal_frame
	.cfi_escape 0x0f, 4, 0x77, 0xa0, 1, 0x06
	.cfi_escape 0x10, 7, 3, 0x77, 0xa0, 1
	.cfi_escape 0x10, 16, 3, 0x77, 0xa8, 1
	.cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0
	.fill	16, 1, 0x90
	.cfi_endproc

	/* FP: in a register, the same, relative to the CFA, lost */
	.cfi_startproc
	.cfi_register rbp, r12
	.fill	4, 1, 0x90
	.cfi_same_value rbp
	.fill	4, 1, 0x90
	.cfi_val_offset rbp, -32
	.fill	4, 1, 0x90
	.cfi_undefined rbp
	.fill	4, 1, 0x90
	.cfi_endproc

	/* The tables of a PLT, with 11 and with 10 */
	.balign	16
	.cfi_startproc
	.cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22
	.fill	40, 1, 0x90
	.cfi_endproc
	.fill	8, 1, 0xcc
	.cfi_startproc
	.cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22
	.fill	16, 1, 0x90
	.cfi_endproc

	/* FP in a register that no rule has */
	.cfi_startproc
	.cfi_register rbp, xmm0
	.fill	16, 1, 0x90
	.cfi_endproc
