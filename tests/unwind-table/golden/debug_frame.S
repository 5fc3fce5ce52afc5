/* SPDX-License-Identifier: GPL-2.0 */
/* .debug_frame fills what .eh_frame leaves */
#include "macros.h"

	.globl	_start
	code	_start
	code	f_v1
	code	f_both
	code	f_v3
	code	f_v4
	code	f_long
	code	f_partly, 32

	.section .raw_hdr, "a", @progbits
	.byte	1, 0x1b, 0xff, 0xff
	.long	first - .
	cie	first, zR, 0x1b
	fde	first, _start, 16
	end
	fde	first, f_both, 16
	end
	fde	first, f_partly, 16
	end

	.macro	dbegin name, id
	.section .raw_debug_frame, "", @progbits
\name:
	.long	1f - 0f
0:	.long	\id
	.endm
	.macro	dfde cie, start, len=16, off
	.section .raw_debug_frame, "", @progbits
	.long	1f - 0f
0:	.long	\cie - d_v1
	.quad	\start, \len
	.byte	0x0e, \off
	end
	.endm

	dbegin	d_v1, -1
	.byte	1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1
	end
	dfde	d_v1, f_v1, 16, 16
	dfde	d_v1, f_both, 16, 24
	dbegin	d_v3, -1
	.byte	3, 0, 1, 0x78, 0x90, 0, 0x0c, 7, 8, 0x90, 1
	end
	dfde	d_v3, f_v3, 16, 32
	dbegin	d_v4, -1
	.byte	4, 0, 8, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1
	end
	dfde	d_v4, f_v4, 16, 40
	/* A function that the linker has thrown away */
	dfde	d_v4, 0, 16, 40
	/* Addresses of 4 bytes are another machine's. */
	dbegin	d_other, -1
	.byte	4, 0, 4, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1
	end
	dfde	d_other, f_long, 16, 48

	/* All of 64 bits */
	.section .raw_debug_frame, "", @progbits
d_long:
	.long	0xffffffff
	.quad	1f - 0f
0:	.quad	-1
	.byte	4, 0, 8, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1
	end
	.long	0xffffffff
	.quad	1f - 0f
0:	.quad	d_long - d_v1
	.quad	f_long, 16
	.byte	0x0e, 48
	end
	/* Some of it is described twice. */
	dfde	d_v4, "f_partly + 8", 24, 56
