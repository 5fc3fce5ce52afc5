/* SPDX-License-Identifier: GPL-2.0 */
/* FDEs in any order, twice, over one another, elsewhere; two segments of code */
#include "macros.h"

	.globl	_start
	code	_start, 64
	code	f_twice
	code	f_over, 32
	code	f_within, 32
	code	f_long
	.section .more, "ax", @progbits
f_more:	.fill	64, 1, 0x90
f_end:

	.section .raw_hdr, "a", @progbits
	.byte	1, 0x1b, 0xff, 0xff
	.long	first - .

	.macro	one start, len, off
	fde	first, \start, \len
	.byte	0x0e, \off
	end
	.endm

	cie	first, zR, 0x1b
	/* Not in order, without bytes, adjacent with the same rule */
	one	"_start + 32", 16, 40
	one	_start, 16, 8
	one	"_start + 16", 16, 8
	one	"_start + 8", 0, 64
	/* The first counts */
	one	f_twice, 16, 16
	one	f_twice, 16, 24
	/* The lower one counts, then the rest of the other */
	one	"f_over + 8", 16, 24
	one	f_over, 16, 16
	/* One in another */
	one	"f_within", 32, 16
	one	"f_within + 8", 8, 24
	/* In the other segment, up to its end, beyond it, outside */
	one	"f_more + 48", 16, 32
	one	"f_more + 40", 64, 40
	one	f_end, 16, 48
	one	0x500000, 16, 48
	/* A CIE that is none */
	begin	0, 0x1234
	.long	f_long - ., 16
	.byte	0
	end
	/* Too short, and longer than the section */
	.section .raw_eh_frame, "a", @progbits
	.long	2
	.short	0
	.long	0x10000
	one	f_long, 16, 64
