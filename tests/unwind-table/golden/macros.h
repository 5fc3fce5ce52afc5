/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Raw CFI. Code is bytes of 0x90 unless a file says more.
 */
	.macro	code name, len=16
	.text
\name:
	.fill	\len, 1, 0x90
	.endm

	/* Records: beginning and end, padded with no-operations */
	.macro	begin name, id
	.section .raw_eh_frame, "a", @progbits
\name:
	.long	1f - 0f
0:	.long	\id
	.endm

	.macro	end
	.balign	4, 0
1:
	.endm

	/* A CIE of version 1 as compilers make it: CFA = rsp + 8, RA at CFA - 8 */
	.macro	cie name, augmentation, encoding
	begin	\name, 0
	.byte	1
	.asciz	"\augmentation"
	.uleb128 1
	.sleb128 -8
	.byte	16
	.uleb128 1
	.byte	\encoding
	.byte	0x0c, 7, 8, 0x90, 1
	end
	.endm

	/* Begins an FDE: instructions follow, then end. Addresses are PC-relative. */
	.macro	fde cie, start, len
	.section .raw_eh_frame, "a", @progbits
	.long	1f - 0f
0:	.long	0b - \cie
	.long	\start - .
	.long	\len
	.uleb128 0
	.endm
