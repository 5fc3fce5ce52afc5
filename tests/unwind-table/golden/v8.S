/* SPDX-License-Identifier: GPL-2.0 */
/* A large gap in a file with a certain symbol: V8's builtins; a small one is not */
#include "macros.h"

	.globl	_start
	code	_start
	code	f_small, 0x1010
	code	f_next
	code	f_large, 0x80000
	code	f_last

	.section .raw_dynamic, "a", @progbits
	/* DT_STRTAB, DT_STRSZ, DT_NULL */
	.quad	5, names, 10, names_end - names, 0, 0
names:
	.asciz	"", "_ZN2v87Isolate20GetEmbeddedCodeRangeEPPKvPm", "other"
names_end:

	.section .raw_hdr, "a", @progbits
	.byte	1, 0x1b, 0xff, 0xff
	.long	first - .
	cie	first, zR, 0x1b
	fde	first, _start, 16
	end
	fde	first, f_next, 16
	end
	fde	first, f_last, 16
	end
