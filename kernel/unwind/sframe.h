/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_SFRAME_H
#define _KERNEL_UNWIND_SFRAME_H

/*
 * Decoder of SFrame tables (AMD64, versions 2 and 3): which rule leads from a
 * frame to its caller, for the code at an address.
 *
 * The table is user memory that can change at any time. Only struct sframe_section is
 * kept, and was checked; all else is read and checked at each lookup: at most 66 +
 * SFRAME_MAX_BACK entries of the function index and SFRAME_MAX_ROWS rows.
 */

#include <linux/types.h>
#include <linux/unwind_rule.h>

/* Bytes of the header of a table */
#define SFRAME_HEADER_LEN	28

/* Rows that one lookup reads. Functions as compilers make them have some dozens. */
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
 * struct sframe_span - The code that a rule is for
 * @start:	First byte
 * @end:	The end (exclusive)
 * @func_start:	First byte of the function; or, if that repeats the same code, as a PLT
 *		does, of one repetition
 * @func_end:	The end of it (exclusive)
 * @num_rows:	Of the function
 */
struct sframe_span {
	u64	start;
	u64	end;
	u64	func_start;
	u64	func_end;
	u64	num_rows;
};

/* Results of reading a table; sframe_status_text[] has them in words. */
enum sframe_status {
	SFRAME_OK,
	/* The address is no code of the table's, or has no row. */
	SFRAME_NO_ROW,
	/* The function has a property, or its rule a register, that the decoder does not know. */
	SFRAME_UNSUPPORTED,
	/* The table could not be read just now, or is no user memory. */
	SFRAME_FAULT,
	/* More than SFRAME_MAX_ROWS rows, or SFRAME_MAX_BACK functions to step back over */
	SFRAME_TOO_LONG,
	/* This says nothing about other functions; those below are about the whole table. */
	SFRAME_BAD_FUNC,
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
	SFRAME_NR_STATUS,
};

/* Is the table not worth another lookup? */
static inline bool sframe_is_bad_table(enum sframe_status status)
{
	return status > SFRAME_BAD_FUNC;
}

extern const char * const sframe_status_text[SFRAME_NR_STATUS];

enum sframe_status sframe_open(struct sframe_section *sec);
enum sframe_status sframe_find(const struct sframe_section *sec, u64 ip,
			       struct unwind_rule *rule, struct sframe_span *span);

#endif /* _KERNEL_UNWIND_SFRAME_H */
