/* SPDX-License-Identifier: GPL-2.0 */
/* A CFA by rbx: then all rules of the file say where that is */

	.text
	.globl	_start
	/* No caller, so nothing is said */
_start:
	.cfi_startproc
	.cfi_undefined rip
	.fill	16, 1, 0x90
	.cfi_endproc

	/* As ld.so's code that binds functions */
	.cfi_startproc
	.cfi_adjust_cfa_offset 16
	.fill	1, 1, 0x90
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbx, 0
	.fill	3, 1, 0x90
	.cfi_def_cfa_register rbx
	.fill	8, 1, 0x90
	.cfi_def_cfa_register rsp
	.fill	2, 1, 0x90
	.cfi_restore rbx
	.cfi_adjust_cfa_offset -24
	.fill	2, 1, 0x90
	.cfi_endproc

	/* Another function; one that saves it, and has two ends; and one that is called so */
	.cfi_startproc
	.fill	16, 1, 0x90
	.cfi_endproc
	.cfi_startproc
	.fill	1, 1, 0x90
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	.fill	1, 1, 0x90
	.cfi_def_cfa_offset 24
	.cfi_offset rbx, -24
	.fill	6, 1, 0x90
	.cfi_remember_state
	.cfi_restore rbx
	.cfi_restore rbp
	.cfi_def_cfa_offset 8
	.fill	1, 1, 0x90
	.cfi_restore_state
	.fill	6, 1, 0x90
	.cfi_same_value rbx
	.fill	1, 1, 0x90
	.cfi_endproc
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa_offset 160
	.cfi_offset rbx, -40
	.fill	16, 1, 0x90
	.cfi_endproc

	/* The last place that has a number, and the first one */
	.cfi_startproc
	.cfi_offset rbx, -65528
	.fill	8, 1, 0x90
	.cfi_offset rbx, -16
	.fill	8, 1, 0x90
	.cfi_endproc

	.macro	none
	.cfi_same_value rbx
	.fill	4, 1, 0x90
	.endm

	/* None of these has one: beyond it; the return address; above; nowhere */
	.cfi_startproc
	.cfi_offset rbx, -65536
	.fill	4, 1, 0x90
	none
	.cfi_offset rbx, -8
	.fill	4, 1, 0x90
	none
	.cfi_offset rbx, 8
	.fill	4, 1, 0x90
	none
	.cfi_undefined rbx
	.fill	4, 1, 0x90
	none
	/* In a register, at what an expression gives, CFA - 16 itself */
	.cfi_register rbx, rcx
	.fill	4, 1, 0x90
	none
	.cfi_escape 0x10, 3, 2, 0x77, 8
	.fill	4, 1, 0x90
	none
	.cfi_escape 0x14, 3, 2
	.fill	4, 1, 0x90
	none
	.cfi_endproc

	/* Entries of a PLT, where the CFA depends on the place */
	.balign	16, 0x90
	.cfi_startproc
	.cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22
	.fill	32, 1, 0x90
	.cfi_endproc

	/* clone(): the gap is known by what is around it, wherever rbx is */
	.cfi_startproc
	.fill	16, 1, 0x90
	.cfi_endproc
	.byte	0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7c, 0x10, 0x74, 0x01, 0xc3
	.cfi_startproc
	.cfi_undefined rip
	.fill	6, 1, 0x90
	.cfi_endproc
