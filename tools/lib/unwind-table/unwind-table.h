/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLE_H
#define __UNWIND_TABLE_H

/*
 * Make tables of unwind rules (linux/unwind_table.h) from the call frame information in ELF
 * files: .eh_frame, or .debug_frame.
 *
 * Functions that return an int return 0 or a negative errno. Nothing here prints,
 * exits, or keeps state of its own; different tables may be used by different
 * threads at once. Files are not trusted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Why some code has no rule, or not all that .eh_frame says */
enum unwind_table_reason {
	UNWIND_TABLE_R_GAP,		/* no FDE has it */
	UNWIND_TABLE_R_LOST,		/* nor do the instructions tell where SP is */
	UNWIND_TABLE_R_EXPRESSION,	/* expression of a form that a rule cannot have */
	UNWIND_TABLE_R_REGISTER,	/* CFA or return address in a register without place */
	UNWIND_TABLE_R_SP,		/* caller's SP is not the CFA */
	UNWIND_TABLE_R_FP,		/* caller's FP is lost, or its place has no rule */
	UNWIND_TABLE_R_CFI,		/* instruction or augmentation that is not known */
	UNWIND_TABLE_R_BAD,		/* CIE or FDE that contradicts itself or its section */
	UNWIND_TABLE_R_OVERLAP,		/* other FDEs have it, too; the first counts */
	UNWIND_TABLE_R_FULL,		/* more rules than a table may have */
	UNWIND_TABLE_NR_REASONS
};

/* The origin of a rule */
enum unwind_table_origin {
	UNWIND_TABLE_O_EH_FRAME,
	UNWIND_TABLE_O_DEBUG_FRAME,
	UNWIND_TABLE_O_KNOWN,		/* a list of code that is known */
	UNWIND_TABLE_O_INSTRUCTIONS,	/* their effect on the stack pointer */
	UNWIND_TABLE_O_FRAME_POINTER,	/* none is needed: the code keeps a frame pointer */
	UNWIND_TABLE_NR_ORIGINS
};

/*
 * Statistics of a file's code. @bytes and @places (stretches of them) without rule, by
 * reason; of overlapping FDEs, which have one, those that were described again; and those
 * whose rule does not say where the caller's FP is. FDEs that cannot be read are places
 * without bytes: their code is a gap.
 */
struct unwind_table_stats {
	uint64_t code_bytes;		/* in executable segments */
	uint64_t covered_bytes;		/* with a rule that leads to a caller, or outermost */
	uint64_t origins[UNWIND_TABLE_NR_ORIGINS];	/* bytes with a rule, by origin */
	uint64_t bytes[UNWIND_TABLE_NR_REASONS];
	uint64_t places[UNWIND_TABLE_NR_REASONS];
	uint64_t fdes;
	uint64_t rows;
	uint64_t rules;
	uint64_t cfi_bytes;		/* of .eh_frame or .debug_frame that were read */
	uint64_t work;			/* operations, as UNWIND_TABLE_WORK counts them */
	uint64_t work_code;		/* and as UNWIND_TABLE_WORK_CODE does */
};

/*
 * The operations that a file may cause for each byte of its CFI and of its code. Files
 * that compilers and linkers make need less than a third of it.
 */
#define UNWIND_TABLE_WORK	16

/*
 * The same for each byte of code, for following the instructions of code without CFI. A
 * file that needs more has no rules for such code. libdav1d, the worst one known, needs half
 * of it.
 */
#define UNWIND_TABLE_WORK_CODE	32

struct unwind_table;			/* a table that was made */

/*
 * unwind_table_from_image - make a table from a file that is in memory as it is on
 * disk, @len bytes at @image. -ENOEXEC: no ELF file of this machine that can be
 * loaded; -ENODATA: no unwind information in it; -EFBIG: too large for a table;
 * -E2BIG: it would take more work than UNWIND_TABLE_WORK allows; -ENOMEM.
 */
int unwind_table_from_image(const void *image, size_t len, struct unwind_table **table);

/*
 * unwind_table_from_memory - make a table from a file that is in memory as the loader
 * puts it: the byte of address p_vaddr is at @image + p_vaddr - (p_vaddr of the
 * first segment, rounded down to a page). For the vDSO. Section headers are not
 * used, and nothing beyond @len is read.
 */
int unwind_table_from_memory(const void *image, size_t len, struct unwind_table **table);

/*
 * unwind_table_from_fd - make a table from an open file, which is read. The file may
 * be changed or truncated meanwhile; to notice that, note its size and time of
 * modification before.
 */
int unwind_table_from_fd(int fd, struct unwind_table **table);

/* The same with size and number of stored bytes from fstat() */
int unwind_table_from_file(int fd, uint64_t len, uint64_t stored, struct unwind_table **table);

void unwind_table_free(struct unwind_table *table);

/* unwind_table_data - the table for UNWIND_TABLE_MAKE; lives as long as @table */
const void *unwind_table_data(const struct unwind_table *table, size_t *len);

const struct unwind_table_stats *unwind_table_stats(const struct unwind_table *table);

/* unwind_table_origin_name - a few words for messages, as ".eh_frame" */
const char *unwind_table_origin_name(enum unwind_table_origin origin);

/* unwind_table_reason_name - a few words for messages, as "no FDE" */
const char *unwind_table_reason_name(enum unwind_table_reason reason);

/*
 * unwind_table_follows - can it follow instructions? Not if it was built without Zydis.
 */
bool unwind_table_follows(void);

/* Do tables say where no call ends? By a flag that not all kernels know */
extern bool unwind_table_says_no_call;

/* Statistics of code with CFI whose instructions were followed as if it had none */
struct unwind_table_comparison {
	uint64_t code;		/* bytes of instructions with a rule by CFI, padding left out */
	uint64_t same;		/* of these: with a rule that says the same */
	uint64_t less;		/* the same, but that the FP is not known */
	uint64_t other;		/* where it cannot be compared */
	uint64_t differs;
	uint64_t places;	/* that differ: stretches of instructions */
	uint64_t pads;		/* not reached, from where only the unwinder lands up to a jump */
};

/*
 * unwind_table_compare - follow the instructions of a file as if it had no CFI, from where
 * its FDEs start, if @given; otherwise from other evidence. @differs is called for each
 * place that differs. As unwind_table_from_fd(), and -EOPNOTSUPP.
 */
int unwind_table_compare(int fd, bool given, struct unwind_table_comparison *comparison,
			 void (*differs)(void *data, uint64_t start, uint64_t end), void *data);

/*
 * unwind_table_print - rows [start, end) of file offsets, with their rules, a line
 * each
 */
int unwind_table_print(const struct unwind_table *table, uint64_t start, uint64_t end,
		       FILE *out);

#endif /* __UNWIND_TABLE_H */
