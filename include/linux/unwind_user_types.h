/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_TYPES_H
#define _LINUX_UNWIND_USER_TYPES_H

#include <linux/types.h>

/**
 * struct unwind_stacktrace - The user addresses of one stack, innermost first
 * @nr:		Number of valid addresses in @entries
 * @entries:	The addresses; whoever fills in the structure owns the memory
 */
struct unwind_stacktrace {
	unsigned int	nr;
	unsigned long	*entries;
};

struct unwind_user_sframe;

/* Words that name a signal return trampoline, see struct unwind_user_state. */
#define UNWIND_USER_SIGRETURNS		4

/**
 * enum unwind_user_type - How the frame in an unwind state was found
 * @UNWIND_USER_TYPE_REGS:	It is where user space was left
 * @UNWIND_USER_TYPE_ENTRY:	Return address found by the code at the topmost IP
 * @UNWIND_USER_TYPE_FP:	By the frame pointer
 * @UNWIND_USER_TYPE_SIGNAL:	Saved registers in a signal frame
 * @UNWIND_USER_TYPE_SFRAME:	By an SFrame table
 * @UNWIND_USER_NR_TYPES:	Number of values
 */
enum unwind_user_type {
	UNWIND_USER_TYPE_REGS,
	UNWIND_USER_TYPE_ENTRY,
	UNWIND_USER_TYPE_FP,
	UNWIND_USER_TYPE_SIGNAL,
	UNWIND_USER_TYPE_SFRAME,
	UNWIND_USER_NR_TYPES,
};

/**
 * enum unwind_user_status - What a method says about the caller of a frame
 * @UNWIND_USER_FOUND:		The state has been moved to the caller
 * @UNWIND_USER_NO_ANSWER:	The method knows nothing of this IP, try the next
 * @UNWIND_USER_END:		There is no caller, this was the outermost frame
 * @UNWIND_USER_FAULT:		The memory that would tell cannot be read
 * @UNWIND_USER_CORRUPT:	What it tells cannot be true
 * @UNWIND_USER_KILLED:		A fatal signal is pending
 *
 * All but the first two end the walk.
 */
enum unwind_user_status {
	UNWIND_USER_FOUND,
	UNWIND_USER_NO_ANSWER,
	UNWIND_USER_END,
	UNWIND_USER_FAULT,
	UNWIND_USER_CORRUPT,
	UNWIND_USER_KILLED,
};

/**
 * struct unwind_user_frame - Where a frame keeps the registers of its caller
 * @cfa_off:	Canonical frame address (the caller's SP), relative to the FP if
 *		@use_fp is set, to the SP otherwise
 * @ra_off:	Slot of the return address, relative to the CFA
 * @fp_off:	Slot of the caller's FP, relative to the CFA; 0 if the FP
 *		register still holds it
 * @use_fp:	See @cfa_off
 */
struct unwind_user_frame {
	s32	cfa_off;
	s32	ra_off;
	s32	fp_off;
	bool	use_fp;
};

/**
 * struct unwind_user_state - One frame of a walk
 * @ip:		Linear address of the instruction: exact if @topmost, a return
 *		address otherwise, so that @ip - 1 is in the function
 * @sp:		Stack pointer as the register would hold it
 * @fp:		Frame pointer as the register would hold it
 * @ip_base:	Linear address of offset 0 for code; not 0 for 32-bit code only
 * @sp_base:	The same for the stack
 * @sigreturn:	Linear addresses of signal return trampolines, 0 if unused
 * @uretprobe:	Linear address that uretprobes put in place of return
 *		addresses, ULONG_MAX if there is none
 * @special_min:	The lowest of @sigreturn and @uretprobe
 * @special_max:	The highest of them
 * @sframe:	What the walk keeps for the SFrame method, if that is configured
 * @word_size:	Size of a stack slot in bytes: 8, or 4 in 32-bit code
 * @type:	How the frame was found
 * @status:	Why the walk ended, once @done is set
 * @signals:	Signal frames that were passed
 * @frames:	How many callers were found, by method
 * @topmost:	@ip is the next instruction to be executed here
 * @done:	The walk has ended, there is no further frame
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
	unsigned long			special_max;
	struct unwind_user_sframe	*sframe;
	unsigned int			word_size;
	enum unwind_user_type		type;
	enum unwind_user_status		status;
	unsigned int			signals;
	unsigned int			frames[UNWIND_USER_NR_TYPES];
	bool				topmost;
	bool				done;
};

#endif /* _LINUX_UNWIND_USER_TYPES_H */
