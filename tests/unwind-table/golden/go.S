/* SPDX-License-Identifier: GPL-2.0 */
/* Go's note: code without FDE has a frame pointer, .debug_frame does not count */
#include "macros.h"

	.section .note.go.buildid, "a", @note
	.long	4, 8, 4
	.asciz	"Go\0"
	.quad	0

	.globl	_start
	code	_start, 0x2000
	code	f_c
	code	f_debug

	.section .raw_hdr, "a", @progbits
	.byte	1, 0x1b, 0xff, 0xff
	.long	first - .
	cie	first, zR, 0x1b
	fde	first, f_c, 16
	end

	.section .raw_debug_frame, "", @progbits
	.long	1f - 0f
0:	.long	-1
	.byte	1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1
	end
	.long	1f - 0f
0:	.long	0
	.quad	f_debug, 16
	end
