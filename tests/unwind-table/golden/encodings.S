/* SPDX-License-Identifier: GPL-2.0 */
/* How addresses and lengths are written down, and what CIEs announce */
#include "macros.h"

	/* CFA, another one for each, so that each is a row */
	.macro	cfa off
	.byte	0x0e, \off
	end
	.endm

	code	f_pcrel
	code	f_abs
	code	f_udata2
	code	f_udata4
	code	f_udata8
	code	f_sdata2
	code	f_sdata8
	code	f_uleb
	code	f_sleb
	code	f_personality
	code	f_eh
	code	f_none
	code	f_v3
	code	f_long
	code	f_b
	code	f_signal
	code	f_later
	code	f_nothing, 16
	.globl	_start
_start = f_pcrel

	.section .raw_hdr, "a", @progbits
	.byte	1, 0x1b, 0xff, 0xff
	.long	first - .

	cie	first, zR, 0x1b
	fde	first, f_pcrel, 16
	cfa	16

	cie	c_abs, zR, 0x00
	begin	0, "0b - c_abs"
	.quad	f_abs, 16
	.byte	0
	cfa	24
	cie	c_udata2, zR, 0x02
	begin	0, "0b - c_udata2"
	.short	f_udata2, 16
	.byte	0
	cfa	32
	cie	c_udata4, zR, 0x03
	begin	0, "0b - c_udata4"
	.long	f_udata4, 16
	.byte	0
	cfa	40
	cie	c_udata8, zR, 0x04
	begin	0, "0b - c_udata8"
	.quad	f_udata8, 16
	.byte	0
	cfa	48
	cie	c_sdata2, zR, 0x0a
	begin	0, "0b - c_sdata2"
	.short	f_sdata2, 16
	.byte	0
	cfa	56
	cie	c_sdata8, zR, 0x1c
	begin	0, "0b - c_sdata8"
	.quad	f_sdata8 - ., 16
	.byte	0
	cfa	64
	cie	c_uleb, zR, 0x01
	begin	0, "0b - c_uleb"
	.byte	0xf0, 0x20
	.uleb128 16
	.byte	0
	cfa	72
	cie	c_sleb, zR, 0x09
	begin	0, "0b - c_sleb"
	.byte	0x80, 0x21
	.sleb128 16
	.byte	0
	cfa	80

	/* An indirect personality, a language's data */
	begin	c_personality, 0
	.byte	1
	.asciz	"zPLR"
	.uleb128 1
	.sleb128 -8
	.byte	16
	.uleb128 7
	.byte	0x9b
	.long	0
	.byte	0x1b, 0x1b
	.byte	0x0c, 7, 8, 0x90, 1
	end
	begin	0, "0b - c_personality"
	.long	f_personality - ., 16
	.uleb128 4
	.long	0x12345678
	cfa	88

	/* An old compiler's word, and no augmentation at all */
	begin	c_eh, 0
	.byte	1
	.asciz	"eh"
	.quad	0
	.uleb128 1
	.sleb128 -8
	.byte	16
	.byte	0x0c, 7, 8, 0x90, 1
	end
	begin	0, "0b - c_eh"
	.quad	f_eh, 16
	cfa	96
	begin	c_none, 0
	.byte	1, 0
	.uleb128 1
	.sleb128 -8
	.byte	16
	.byte	0x0c, 7, 8, 0x90, 1
	end
	begin	0, "0b - c_none"
	.quad	f_none, 16
	cfa	104

	/* Version 3: the column is a ULEB128; code is counted in units of 4 bytes */
	begin	c_v3, 0
	.byte	3
	.asciz	"zR"
	.uleb128 4
	.sleb128 -4
	.byte	0x90, 0
	.uleb128 1
	.byte	0x1b
	.byte	0x0c, 7, 8, 0x90, 2
	end
	begin	0, "0b - c_v3"
	.long	f_v3 - ., 16
	.uleb128 0
	.byte	0x42
	cfa	112

	/* A length of 64 bits */
	.section .raw_eh_frame, "a", @progbits
	.long	0xffffffff
	.quad	1f - 0f
0:	.long	0b - first
	.long	f_long - ., 16
	.uleb128 0
	cfa	120

	/* Marks */
	cie	c_b, zRB, 0x1b
	fde	c_b, f_b, 16
	cfa	16
	cie	c_signal, zRS, 0x1b
	fde	c_signal, f_signal, 16
	cfa	24

	/* Not known: an augmentation, encodings, a version, a column, code in a CIE */
	cie	c_x, zXR, 0x1b
	fde	c_x, f_nothing, 16
	cfa	32
	cie	c_y, y, 0x1b
	fde	c_y, f_nothing, 16
	cfa	40
	cie	c_datarel, zR, 0x3b
	fde	c_datarel, f_nothing, 16
	cfa	48
	cie	c_indirect, zR, 0x9b
	fde	c_indirect, f_nothing, 16
	cfa	56
	cie	c_omit, zR, 0xff
	fde	c_omit, f_nothing, 16
	cfa	64
	begin	c_v2, 0
	.byte	2, 0, 1, 0x78, 16, 0
	end
	fde	c_v2, f_nothing, 16
	cfa	72

	/* A record of length 0: what follows counts, as the section's end is known */
	.section .raw_eh_frame, "a", @progbits
	.long	0
	fde	first, f_later, 16
	cfa	80
	.long	0
