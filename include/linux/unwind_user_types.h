/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_TYPES_H
#define _LINUX_UNWIND_USER_TYPES_H

#include <linux/types.h>

struct pt_regs;
struct unwind_code;

/* Words that name a signal return trampoline, see struct unwind_user_state. */
#define UNWIND_USER_SIGRETURNS		4

/**
 * enum unwind_user_type - How the caller of a frame was found
 * @UNWIND_USER_TYPE_ENTRY:	By the code at the topmost IP
 * @UNWIND_USER_TYPE_FP:	By the frame pointer
 * @UNWIND_USER_TYPE_SIGNAL:	By the registers saved in a signal frame
 * @UNWIND_USER_TYPE_SFRAME:	By an SFrame table
 * @UNWIND_USER_TYPE_FILE:	By a table that somebody made for the file
 * @UNWIND_USER_NR_TYPES:	Number of values
 */
enum unwind_user_type {
	UNWIND_USER_TYPE_ENTRY,
	UNWIND_USER_TYPE_FP,
	UNWIND_USER_TYPE_SIGNAL,
	UNWIND_USER_TYPE_SFRAME,
	UNWIND_USER_TYPE_FILE,
	UNWIND_USER_NR_TYPES,
};

/**
 * enum unwind_user_status - Result of the search for the caller of a frame
 * @UNWIND_USER_FOUND:		There is one, or a rule that leads to it
 * @UNWIND_USER_NO_RULE:	This provider knows nothing about the IP, ask the next
 * @UNWIND_USER_SLOW:		The caller takes more than an ordinary rule and a read
 * @UNWIND_USER_ABSENT:		The stack is not present, or cannot be read
 * @UNWIND_USER_END:		There is no caller, this was the outermost frame
 * @UNWIND_USER_END_UNCHECKED:	Likewise; but in code without a table, frame pointers led
 *				there. Where the register held something else, callers are
 *				missing
 * @UNWIND_USER_FAULT:		The stack or the table cannot be read, or may not be
 *				waited for; or there is no memory for what is known
 *				of the code
 * @UNWIND_USER_REMOTE:		Another process supplies the memory of the stack, by
 *				userfaultfd or FUSE, and is not waited for
 * @UNWIND_USER_CORRUPT:	What the stack or the table says cannot be true
 * @UNWIND_USER_UNKNOWN:	The table for the IP has a rule that cannot be used,
 *				or none that could be found with reasonable effort
 * @UNWIND_USER_NO_CODE:	The IP is not in executable memory
 * @UNWIND_USER_CHANGING:	The mapping with the IP is being changed
 * @UNWIND_USER_NO_FRAME:	The frame pointer or the return address is 0, and no
 *				table says that this is the outermost frame
 * @UNWIND_USER_NO_FP:		The rule needs the frame pointer, but the rule of an inner
 *				frame did not tell where it is
 * @UNWIND_USER_KILLED:		A fatal signal is pending
 * @UNWIND_USER_REFUSED:	There was no walk: no stack, or no memory for the trace
 *
 * Walks end with the values from @UNWIND_USER_END on, or with
 * @UNWIND_USER_FOUND if there is no room for more.
 */
enum unwind_user_status {
	UNWIND_USER_FOUND,
	UNWIND_USER_NO_RULE,
	UNWIND_USER_SLOW,
	UNWIND_USER_ABSENT,
	UNWIND_USER_END,
	UNWIND_USER_END_UNCHECKED,
	UNWIND_USER_FAULT,
	UNWIND_USER_REMOTE,
	UNWIND_USER_CORRUPT,
	UNWIND_USER_UNKNOWN,
	UNWIND_USER_NO_CODE,
	UNWIND_USER_CHANGING,
	UNWIND_USER_NO_FRAME,
	UNWIND_USER_NO_FP,
	UNWIND_USER_KILLED,
	UNWIND_USER_REFUSED,
};

/**
 * struct unwind_stacktrace - The user addresses of one stack, innermost first
 * @nr:		Number of valid addresses in @entries
 * @end:	Why there are no more: %UNWIND_USER_END or %UNWIND_USER_END_UNCHECKED if the
 *		last address is in the outermost frame
 * @entries:	The addresses, in memory owned by the function that has set this
 */
struct unwind_stacktrace {
	unsigned int		nr;
	enum unwind_user_status	end;
	unsigned long		*entries;
};

/**
 * struct unwind_user_state - One frame of a walk
 * @ip:		Linear address: of the instruction if @topmost, otherwise a return
 *		address, so that @ip - 1 is in the function
 * @sp:		Stack pointer as the register would hold it
 * @fp:		Frame pointer as the register would hold it
 * @ip_base:	Linear address of offset 0 for code; not 0 for 32-bit code only
 * @sp_base:	Linear address of offset 0 for the stack
 * @sigreturn:	Linear addresses of signal return trampolines, 0 if unused
 * @uretprobe:	Linear address that uretprobes put in place of return
 *		addresses, ULONG_MAX if there is none
 * @special_min:	The lowest of @sigreturn and @uretprobe
 * @special_len:	From there to the highest of them
 * @max:	The highest address that user space can have
 * @code:	What the walk knows about the code at hand
 * @regs:	Registers of the topmost frame
 * @word_size:	Size of a stack slot in bytes: 8, or 4 in 32-bit code
 * @status:	Why the walk ended, UNWIND_USER_FOUND until then
 * @signals:	Signal frames that were passed, and switches to lower stacks
 * @frames:	How many callers were found, by enum unwind_user_type
 * @topmost:	@ip is the next instruction to be executed here
 * @in_place:	Wait for nothing, and take no locks: see unwind_user_in_place()
 */
struct unwind_user_state {
	unsigned long			ip;
	unsigned long			sp;
	unsigned long			fp;
	unsigned long			ip_base;
	unsigned long			sp_base;
	unsigned long			sigreturn[UNWIND_USER_SIGRETURNS];
	unsigned long			uretprobe;
	unsigned long			special_min;
	unsigned long			special_len;
	unsigned long			max;
	struct unwind_code		*code;
	const struct pt_regs		*regs;
	unsigned int			word_size;
	enum unwind_user_status		status;
	unsigned int			signals;
	unsigned int			frames[UNWIND_USER_NR_TYPES];
	bool				topmost;
	bool				in_place;
};

#endif /* _LINUX_UNWIND_USER_TYPES_H */
