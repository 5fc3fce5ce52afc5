/* SPDX-License-Identifier: GPL-2.0 */
/* All instructions, and those that end what is known of an FDE */
#include "macros.h"

	.globl	_start
	code	_start, 0
	code	f_advance, 0x12000
	code	f_offsets, 64
	code	f_restore
	code	f_negative
	code	f_set_loc
	code	f_beyond
	code	f_bad_op
	code	f_bad_restore
	code	f_bad_def
	code	f_bad_expr
	code	f_back
	code	f_cut
	code	f_column
	code	f_cie_op
	code	f_no_ra
	code	f_no_cfa
	code	f_deep

	.section .raw_hdr, "a", @progbits
	.byte	1, 0x1b, 0xff, 0xff
	.long	first - .

	cie	first, zR, 0x1b

	/* By 6 bits, 1, 2, 4 and 8 bytes: 0x3f, 0x40, 0x81, 0x1000, 0x10100 */
	fde	first, f_advance, 0x12000
	.byte	0x7f, 0x0e, 16, 0x02, 1, 0x0e, 24, 0x03, 0x41, 0, 0x0e, 32
	.byte	0x04, 0x7f, 0x0f, 0, 0, 0x0e, 40, 0x1d, 0, 0xf1, 0, 0, 0, 0, 0, 0, 0x0e, 48
	/* By nothing, and over what has no effect */
	.byte	0x40, 0x0e, 56, 0x41, 0x83, 2, 0x0e, 56, 0
	end

	/* def_cfa_sf, def_cfa_offset_sf, offset_extended(_sf), val_offset(_sf) */
	fde	first, f_offsets, 64
	.byte	0x12, 7, 0x7d, 0x48, 0x13, 0x7c, 0x48, 0x05, 6, 3, 0x48, 0x11, 6, 0x7e
	.byte	0x48, 0x14, 6, 4, 0x48, 0x15, 6, 0x7f, 0x48, 0x0d, 6, 0x48, 0x07, 6
	end

	/* restore, restore_extended, of the return address, too */
	fde	first, f_restore, 16
	.byte	0x86, 2, 0x90, 3, 0x44, 0xc6, 0x44, 0x06, 16, 0x44, 0x09, 6, 3, 0x06, 6
	end
	/* GNU_negative_offset_extended */
	fde	first, f_negative, 16
	.byte	0x2f, 6, 2
	end
	fde	first, f_set_loc, 16
	.byte	0x01
	.long	f_set_loc + 8 - .
	.byte	0x0e, 16
	end
	/* After the end: no matter */
	fde	first, f_beyond, 16
	.byte	0x0e, 16, 0x48, 0x0e, 24, 0x48, 0x0e, 32, 0x3f
	end

	/* Not known; more restored than remembered; an offset of an expression */
	fde	first, f_bad_op, 16
	.byte	0x48, 0x2d
	end
	fde	first, f_bad_restore, 16
	.byte	0x48, 0x0a, 0x0b, 0x0b
	end
	fde	first, f_bad_def, 16
	.byte	0x0f, 3, 0x77, 8, 0x06, 0x48, 0x0e, 8
	end
	/* Longer than the FDE; backwards; cut off */
	fde	first, f_bad_expr, 16
	.byte	0x48, 0x0f, 100, 0
	end
	fde	first, f_back, 16
	.byte	0x48, 0x01
	.long	f_back + 4 - .
	end
	fde	first, f_cut, 16
	.byte	0x48, 0x0c, 0x87
	end

	/* CIEs: another column, an advance, no return address, no CFA */
	begin	c_column, 0
	.byte	1, 0x7a, 0x52, 0, 1, 0x78, 17, 1, 0x1b, 0x0c, 7, 8, 0x90, 1
	end
	fde	c_column, f_column, 16
	end
	begin	c_cie_op, 0
	.byte	1, 0x7a, 0x52, 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x41
	end
	fde	c_cie_op, f_cie_op, 16
	end
	begin	c_no_ra, 0
	.byte	1, 0x7a, 0x52, 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8
	end
	fde	c_no_ra, f_no_ra, 16
	.byte	0x44, 0x08, 16, 0x44, 0x09, 16, 3, 0x44, 0x09, 16, 33
	end
	begin	c_no_cfa, 0
	.byte	1, 0x7a, 0x52, 0, 1, 0x78, 16, 1, 0x1b, 0x90, 1
	end
	fde	c_no_cfa, f_no_cfa, 16
	.byte	0x44, 0x0c, 17, 8, 0x44, 0x0c, 15, 8
	end
	/* States remembered without end */
	fde	first, f_deep, 16
	.byte	0x48
	.fill	300, 1, 0x0a
	end
