/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
#ifndef _UAPI_LINUX_UNWIND_TABLE_H
#define _UAPI_LINUX_UNWIND_TABLE_H

/*
 * Tables of unwind rules for files, and /dev/unwind_tables, by which they are
 * handed to the kernel. See Documentation/userspace-api/unwind-tables.rst.
 *
 * A table is one block of memory, in native byte order, whose parts follow one
 * another without a gap:
 *
 *	struct unwind_table_header
 *	struct unwind_table_run		runs[nr_runs]
 *	__u32				blocks[nr_blocks + 1]
 *	struct unwind_table_row		rows[nr_rows]
 *	struct unwind_table_rule	rules[nr_rules]
 *
 * Code is identified by its offset in the file. A run is a range of pages of the
 * file. Runs are sorted, do not overlap and do not touch. Code in no run is not covered.
 *
 * rows[] has the rows of all pages in order. The first row of each page has the offset 0,
 * and the offsets go up. A row applies up to the next row of its page, or to the end of
 * the page. So a page without code has one row, of a rule that does not cover its code.
 *
 * A page consists of blocks of 1 << block_shift bytes; nr_blocks is the number of blocks
 * in all pages. blocks[i + 1] is the index of the row that applies at the last byte of
 * block i, and blocks[0] is 0. So the row for any byte of block i is one of
 * rows[blocks[i]] to rows[blocks[i + 1]]. With about one block for eight rows, these are
 * few, and the index is small.
 *
 * Reserved fields are 0.
 */

#include <linux/ioctl.h>
#include <linux/types.h>

#define UNWIND_TABLE_MAGIC		0x42545755	/* "UWTB" */
#define UNWIND_TABLE_VERSION		1

/* The pages of a table are 4 KiB, whatever the page size of the machine. */
#define UNWIND_TABLE_PAGE_SHIFT		12
#define UNWIND_TABLE_PAGE_SIZE		(1 << UNWIND_TABLE_PAGE_SHIFT)

/* A block is 256 bytes to a page. */
#define UNWIND_TABLE_MIN_BLOCK_SHIFT	8
#define UNWIND_TABLE_MAX_BLOCK_SHIFT	UNWIND_TABLE_PAGE_SHIFT

/* Limits of a table, the first one in bytes */
#define UNWIND_TABLE_MAX_LEN		(1 << 28)
#define UNWIND_TABLE_MAX_RUNS		64
#define UNWIND_TABLE_MAX_PAGES		(1 << 20)
#define UNWIND_TABLE_MAX_ROWS		(1 << 24)
#define UNWIND_TABLE_MAX_RULES		(1 << 16)

/**
 * struct unwind_table_header - What a table begins with
 * @magic:	UNWIND_TABLE_MAGIC
 * @version:	UNWIND_TABLE_VERSION
 * @machine:	EM_X86_64, see linux/elf-em.h
 * @word_size:	Bytes of a word on the stack: 8
 * @flags:	0
 * @nr_runs:	Number of runs, at most UNWIND_TABLE_MAX_RUNS
 * @nr_pages:	Number of pages in all runs, at most UNWIND_TABLE_MAX_PAGES
 * @nr_rows:	Number of rows, at most UNWIND_TABLE_MAX_ROWS
 * @nr_rules:	Number of rules, at most UNWIND_TABLE_MAX_RULES
 * @block_shift: Bytes of a block, as a power of two, from UNWIND_TABLE_MIN_BLOCK_SHIFT to
 *		UNWIND_TABLE_MAX_BLOCK_SHIFT
 * @reserved:	0
 */
struct unwind_table_header {
	__u32	magic;
	__u16	version;
	__u16	machine;
	__u32	word_size;
	__u32	flags;
	__u32	nr_runs;
	__u32	nr_pages;
	__u32	nr_rows;
	__u32	nr_rules;
	__u32	block_shift;
	__u32	reserved[3];
};

/**
 * struct unwind_table_run - Consecutive pages of the file
 * @page:	The first page: offset in the file >> UNWIND_TABLE_PAGE_SHIFT
 * @nr_pages:	Number of pages, more than 0
 * @first_block: Number of blocks in all runs before this one
 */
struct unwind_table_run {
	__u64	page;
	__u32	nr_pages;
	__u32	first_block;
};

/**
 * struct unwind_table_row - The rule that applies from an offset on
 * @offset:	In bytes from the start of the page, less than
 *		UNWIND_TABLE_PAGE_SIZE
 * @rule:	Index in rules[]
 */
struct unwind_table_row {
	__u16	offset;
	__u16	rule;
};

/**
 * enum unwind_table_where - Where a value of the calling frame is
 * @UNWIND_TABLE_NONE:		There is no such value, or nothing is known of it
 * @UNWIND_TABLE_SAME:		It is still in its register
 * @UNWIND_TABLE_REG:		It is register + offset
 * @UNWIND_TABLE_REG_DEREF:	It is in memory at register + offset
 * @UNWIND_TABLE_CFA:		It is CFA + offset
 * @UNWIND_TABLE_CFA_DEREF:	It is in memory at CFA + offset
 */
enum unwind_table_where {
	UNWIND_TABLE_NONE,
	UNWIND_TABLE_SAME,
	UNWIND_TABLE_REG,
	UNWIND_TABLE_REG_DEREF,
	UNWIND_TABLE_CFA,
	UNWIND_TABLE_CFA_DEREF,
};

/**
 * struct unwind_table_loc - Place of one value
 * @off:	Offset in bytes; 0 if @where has none
 * @where:	enum unwind_table_where
 * @reg:	DWARF number of a general purpose register, 0 to 15; 0 if @where has
 *		none
 * @reserved:	0
 *
 * Registers other than SP (7) and FP (6) are known in the topmost frame only.
 * A walk that needs another one in a caller ends there.
 */
struct unwind_table_loc {
	__s32	off;
	__u8	where;
	__u8	reg;
	__u16	reserved;
};

/**
 * enum unwind_table_kind - What is known about some code
 * @UNWIND_TABLE_NOT_COVERED:	Nothing: other ways are tried, the frame pointer last
 * @UNWIND_TABLE_UNKNOWN:	There is a frame about which nothing can be said: the
 *				walk ends
 * @UNWIND_TABLE_OUTERMOST:	There is no caller: the walk is complete
 * @UNWIND_TABLE_CALLER:	The caller is at @cfa, @ra and @fp
 */
enum unwind_table_kind {
	UNWIND_TABLE_NOT_COVERED,
	UNWIND_TABLE_UNKNOWN,
	UNWIND_TABLE_OUTERMOST,
	UNWIND_TABLE_CALLER,
};

/* A signal frame: @ra is the interrupted instruction, not the one after a call. */
#define UNWIND_TABLE_SIGNAL		0x01
/*
 * This code follows a system call from which a new thread returns as well. If it is
 * the topmost frame and the result (in rax) is 0, this is the new thread, which has
 * no caller here.
 */
#define UNWIND_TABLE_NEW_THREAD		0x02
/*
 * No call ends here: the walk ends at a caller that seems to be here. For the topmost
 * frame the rule is as it is.
 */
#define UNWIND_TABLE_NO_CALL		0x04

/**
 * struct unwind_table_rule - How to get from a frame to its caller
 * @kind:	enum unwind_table_kind
 * @flags:	UNWIND_TABLE_SIGNAL, UNWIND_TABLE_NEW_THREAD, UNWIND_TABLE_NO_CALL
 * @reserved:	0
 * @cfa_add:	If @cfa is UNWIND_TABLE_REG_DEREF: what to add to the value read
 * @cfa:	Canonical frame address, which is the caller's SP: UNWIND_TABLE_REG; or
 *		UNWIND_TABLE_REG_DEREF, which may lead to another stack, as where code
 *		switches stacks. A walk follows a few of those to lower addresses
 * @ra:		Return address: UNWIND_TABLE_REG, UNWIND_TABLE_REG_DEREF or
 *		UNWIND_TABLE_CFA_DEREF
 * @fp:		Caller's frame pointer. If it is UNWIND_TABLE_NONE, the walk goes on until
 *		a rule needs the frame pointer, and ends there
 *
 * If @kind is not UNWIND_TABLE_CALLER, all other fields are 0. Ordinary rules cost
 * least: @cfa is SP or FP + offset, @ra is at CFA - 8, and @fp is still in its
 * register, or at CFA - 16 to CFA - 2048.
 */
struct unwind_table_rule {
	__u8			kind;
	__u8			flags;
	__u16			reserved;
	__s32			cfa_add;
	struct unwind_table_loc	cfa;
	struct unwind_table_loc	ra;
	struct unwind_table_loc	fp;
};

/**
 * struct unwind_table_make - Argument of UNWIND_TABLE_MAKE
 * @size:	Bytes of this structure
 * @flags:	0
 * @data:	Address of the table
 * @len:	Bytes of it
 */
struct unwind_table_make {
	__u32	size;
	__u32	flags;
	__u64	data;
	__u64	len;
};

#define UNWIND_TABLE_MAKE_SIZE_VER0	24

/* @file_size to @file say which file was read. */
#define UNWIND_TABLE_ATTACH_FD		0x1

/**
 * struct unwind_table_attach - Argument of UNWIND_TABLE_ATTACH
 * @size:	Bytes of this structure
 * @flags:	UNWIND_TABLE_ATTACH_FD; 0 for the vDSO
 * @table:	What UNWIND_TABLE_MAKE returned
 * @pidfd:	A process, or one of its threads
 * @address:	Address in that process
 * @file_size:	Size of the file in bytes
 * @mtime_sec:	Its time of modification, taken before the file was read
 * @mtime_nsec:	Nanoseconds of that
 * @file:	Descriptor of the file, O_PATH will do
 *
 * The table is for the file that is mapped at @address, or for the vDSO, in all
 * processes. @file_size to @file are 0 for the vDSO.
 */
struct unwind_table_attach {
	__u32	size;
	__u32	flags;
	__u32	table;
	__s32	pidfd;
	__u64	address;
	__u64	file_size;
	__s64	mtime_sec;
	__u32	mtime_nsec;
	__s32	file;
};

#define UNWIND_TABLE_ATTACH_SIZE_VER0	48

/**
 * struct unwind_table_query - Argument of UNWIND_TABLE_QUERY
 * @size:	Bytes of this structure
 * @pidfd:	A process, or one of its threads
 * @address:	Address in that process
 */
struct unwind_table_query {
	__u32	size;
	__s32	pidfd;
	__u64	address;
};

#define UNWIND_TABLE_QUERY_SIZE_VER0	16

#define UNWIND_TABLE_IOC		0xB9

/*
 * All commands fail with EPERM if the process that opened the descriptor had no
 * CAP_PERFMON; UNWIND_TABLE_ATTACH and UNWIND_TABLE_QUERY also if the caller has none. These
 * two never wait for the process that they name. The size that counts is the one in the
 * structure itself, not the one in the number of the command; later kernels may know more
 * fields.
 */

/*
 * Check a table and keep a copy of it. Returns its number in this descriptor, more
 * than 0, and is not used again soon; or:
 *
 *	EINVAL	a field of the argument is invalid; or the table is, in which case the
 *		event unwind:unwind_table says what is wrong with it
 *	E2BIG	the argument has fields that this kernel does not know and that are
 *		not 0, or the table is longer than UNWIND_TABLE_MAX_LEN
 *	ENOMEM	no memory, or the limit of the caller's memory cgroup is reached
 *	ENOSPC	all tables together, and what is being copied to make some, would be
 *		larger than kernel.unwind_table_max_kb, or the descriptor has as many
 *		tables as it may have
 *	EFAULT	argument or table cannot be read
 *	EINTR	the caller was killed
 */
#define UNWIND_TABLE_MAKE		_IOW(UNWIND_TABLE_IOC, 0, struct unwind_table_make)

/*
 * Use a table for a file, or for the vDSO. All tracers believe it. So whoever opened the
 * descriptor must have had CAP_SYS_ADMIN (in the initial user namespace); or the caller owns
 * the file, by the mount through which it is mapped, or has CAP_FOWNER over it, and it is not
 * on overlayfs. That is asked once. Returns 0, or:
 *
 *	EPERM	neither is the case
 *	EINVAL	a field has no meaning
 *	E2BIG	the argument has fields that this kernel does not know and that are
 *		not 0
 *	ENOENT	no such table
 *	ESRCH	no such process, or it has no memory any more
 *	EBADF	@pidfd is not a pidfd, or @file no descriptor
 *	EFAULT	nothing executable is mapped at @address
 *	ENOEXEC	what is mapped there belongs neither to a regular file nor to
 *		the vDSO; or it is a memfd that is not sealed against writing
 *	ESTALE	another file is mapped there, or its size or time of modification is
 *		different now
 *	ETXTBSY	the file is open for writing, or was changed so recently that another
 *		change would leave its time of modification as it is; or the mapping
 *		is private and can be written
 *	EEXIST	this descriptor has already attached a table to this file
 *	EACCES	the caller may not look into the process, which takes ptrace access for
 *		reading unless it is its own
 *	EAGAIN	the process is changing what is mapped there, or is in fork() or execve()
 *	ENOMEM	no memory
 *	ENOSPC	the descriptor has as many attachments as it may have, or as many
 *		files as possible have tables
 */
#define UNWIND_TABLE_ATTACH		_IOW(UNWIND_TABLE_IOC, 1, struct unwind_table_attach)

/*
 * Forget a table, with everything that it is attached to. The argument is its
 * number. Returns 0, or:
 *
 *	ENOENT	no such table
 */
#define UNWIND_TABLE_DROP		_IO(UNWIND_TABLE_IOC, 2)

/*
 * Is there a table for the file, or the vDSO, that is mapped at an address? Returns 1 if
 * there is one, whoever made it; 0 if there is none; or as UNWIND_TABLE_ATTACH does:
 * EINVAL, E2BIG, ESRCH, EBADF, EFAULT, ENOEXEC, ETXTBSY (the mapping is private and can be
 * written), EACCES, EAGAIN.
 */
#define UNWIND_TABLE_QUERY		_IOW(UNWIND_TABLE_IOC, 3, struct unwind_table_query)

#endif /* _UAPI_LINUX_UNWIND_TABLE_H */
