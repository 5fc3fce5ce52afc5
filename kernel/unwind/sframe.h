/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_SFRAME_H
#define _KERNEL_UNWIND_SFRAME_H

/*
 * Decoder of SFrame tables (AMD64, versions 2 and 3): which rule leads from a
 * frame to its caller, for the code at an address.
 *
 * The decoder knows nothing about address spaces, locks or memory management: it
 * gets the bounds of a table and finds a rule in it.
 *
 * The table is user memory that can change at any time. Only what is in struct
 * sframe_section is kept, and was checked; everything else is read and checked at
 * each lookup.
 *
 * Work is bounded: a lookup reads at most 66 + SFRAME_MAX_BACK entries of the
 * function index and SFRAME_MAX_ROWS rows.
 */

#include <linux/types.h>
#include <linux/unwind_rule.h>

/* Bytes of the header of a table */
#define SFRAME_HEADER_LEN	28

/* Rows that one lookup looks at. Functions as compilers make them have some dozens. */
#define SFRAME_MAX_ROWS		2048

/* Functions that one lookup steps back over: empty, or with the same start. */
#define SFRAME_MAX_BACK		64

/**
 * struct sframe_section - A table, and what its header says
 * @start:	Address of the header
 * @end:	The end (exclusive) of the memory that the table may occupy; the
 *		table itself may be shorter
 * @text_start:	First byte of the code that the table may be asked for
 * @text_end:	The end of it (exclusive)
 * @fdes:	Address of the function index
 * @fres:	Address of the rows
 * @num_fdes:	Functions in the index; 0 is legal, nothing is found then
 * @fre_len:	Length of the rows in bytes
 * @ra_off:	Slot of the return address, relative to the CFA
 * @fp_off:	Slot of the caller's frame pointer, relative to the CFA, where
 *		that is the same in all functions; 0 where rows tell it
 * @version:	Of the format: 2 or 3
 * @pcrel:	Function starts are relative to the field they are stored in, as
 *		opposed to @start
 *
 * The caller sets the first four, sframe_open() the others. All checks of
 * a lookup are against these, so they must not change while one is running.
 */
struct sframe_section {
	u64	start;
	u64	end;
	u64	text_start;
	u64	text_end;
	u64	fdes;
	u64	fres;
	u32	num_fdes;
	u32	fre_len;
	s8	ra_off;
	s8	fp_off;
	u8	version;
	bool	pcrel;
};

/**
 * enum sframe_status - Result of reading a table
 * @SFRAME_OK:			There is an answer
 * @SFRAME_NO_ROW:		No row covers the address
 * @SFRAME_UNSUPPORTED:		The function has a property that the format has
 *				left for later; others may do without it
 * @SFRAME_FAULT:		The table could not be read just now, or is no
 *				user memory
 * @SFRAME_TOO_LONG:		Too many rows or functions to look through
 * @SFRAME_BAD_BOUNDS:		The memory given is too small for a header, or
 *				ends before it starts
 * @SFRAME_BAD_MAGIC:		No SFrame table, or of the other endianness
 * @SFRAME_BAD_VERSION:		Neither version 2 nor 3
 * @SFRAME_BAD_FLAGS:		Flags that the version does not define
 * @SFRAME_BAD_UNSORTED:	The index is not sorted, as before linking
 * @SFRAME_BAD_ABI:		Not AMD64
 * @SFRAME_BAD_RA:		No fixed place of return addresses
 * @SFRAME_BAD_INDEX_RANGE:	The index is not within the memory given
 * @SFRAME_BAD_ROWS_RANGE:	The rows are not within the memory given
 * @SFRAME_BAD_ORDER:		Index entries out of order
 * @SFRAME_BAD_FUNC_RANGE:	A function that starts outside the code
 * @SFRAME_BAD_FUNC_ROWS:	A function whose rows are not among the rows
 * @SFRAME_BAD_ROW_TYPE:	A width of row starts that does not exist
 * @SFRAME_BAD_REP_SIZE:	A repeated block of code of size 0
 * @SFRAME_BAD_ROW_ORDER:	Rows of a function out of order
 * @SFRAME_BAD_ROW:		A row that makes no sense
 * @SFRAME_NR_STATUS:		Number of values
 *
 * The values from SFRAME_BAD_FUNC_RANGE on concern one function, and say nothing about
 * others of the table.
 */
enum sframe_status {
	SFRAME_OK,
	SFRAME_NO_ROW,
	SFRAME_UNSUPPORTED,
	SFRAME_FAULT,
	SFRAME_TOO_LONG,
	SFRAME_BAD_BOUNDS,
	SFRAME_BAD_MAGIC,
	SFRAME_BAD_VERSION,
	SFRAME_BAD_FLAGS,
	SFRAME_BAD_UNSORTED,
	SFRAME_BAD_ABI,
	SFRAME_BAD_RA,
	SFRAME_BAD_INDEX_RANGE,
	SFRAME_BAD_ROWS_RANGE,
	SFRAME_BAD_ORDER,
	SFRAME_BAD_FUNC_RANGE,
	SFRAME_BAD_FUNC_ROWS,
	SFRAME_BAD_ROW_TYPE,
	SFRAME_BAD_REP_SIZE,
	SFRAME_BAD_ROW_ORDER,
	SFRAME_BAD_ROW,
	SFRAME_NR_STATUS,
};

/* Is the table not worth another lookup? */
static inline bool sframe_is_bad_table(enum sframe_status status)
{
	return status >= SFRAME_BAD_BOUNDS && status < SFRAME_BAD_FUNC_RANGE;
}

enum sframe_status sframe_open(struct sframe_section *sec);
enum sframe_status sframe_find(const struct sframe_section *sec, u64 ip,
			       struct unwind_rule *rule);
const char *sframe_status_text(enum sframe_status status);

#endif /* _KERNEL_UNWIND_SFRAME_H */
