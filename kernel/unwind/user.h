/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_USER_H
#define _KERNEL_UNWIND_USER_H

/*
 * What the parts of the walker share: user.c, and user_sframe.c with the frames
 * that SFrame tables describe.
 */

#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/unwind_user_types.h>

/* Frames that are followed with user access enabled once. */
#define UNWIND_USER_WINDOW	16

/*
 * Signal frames that one walk passes. Only there may the stack pointer move
 * down, so it is this what keeps a walk from going in circles for as long as
 * the trace has room.
 */
#define UNWIND_USER_MAX_SIGNALS	16

/* An address that user space can execute, as opposed to one it can make up. */
static __always_inline bool unwind_user_ip_valid(unsigned long ip)
{
	return ip < TASK_SIZE_MAX;
}

static __always_inline bool
unwind_user_is_sigreturn(const struct unwind_user_state *state,
			 unsigned long ip)
{
	/* No loop: a function call must not come of it. 0 is in no trace. */
	BUILD_BUG_ON(UNWIND_USER_SIGRETURNS != 4);

	return ip == state->sigreturn[0] || ip == state->sigreturn[1] ||
	       ip == state->sigreturn[2] || ip == state->sigreturn[3];
}

/* Is this return address other than it seems? */
static __always_inline bool
unwind_user_is_special(const struct unwind_user_state *state, unsigned long ip)
{
	return ip == state->uretprobe || unwind_user_is_sigreturn(state, ip);
}

/* With page faults disabled nothing can keep a dying task waiting. */
static __always_inline bool unwind_user_killed(void)
{
	return fatal_signal_pending(current) && !pagefault_disabled();
}

/* Can this be the frame pointer of the frame above @sp? */
static __always_inline bool unwind_user_fp_ok(unsigned long fp,
					      unsigned long sp,
					      const unsigned int word_size)
{
	return fp >= sp && !(fp & (word_size - 1));
}

/* End a walk that goes by the frame pointer, which cannot be one. */
static __always_inline void unwind_user_fp_end(struct unwind_user_state *state)
{
	state->status = state->fp ? UNWIND_USER_CORRUPT : UNWIND_USER_END;
	state->done = true;
}

enum unwind_user_status
unwind_user_to_caller(struct unwind_user_state *state, unsigned long cfa,
		      unsigned long fp, unsigned long ra, unsigned long slot);
unsigned int unwind_user_fp_frames(struct unwind_user_state *state,
				   unsigned long *entries, unsigned int room,
				   unsigned long code_start,
				   unsigned long code_len);

#ifdef CONFIG_UNWIND_USER_SFRAME

struct sframe_entry;
struct sframe_mm;

/**
 * struct unwind_user_sframe - What a walk keeps for the SFrame method
 * @sm:		Store of current's mm; NULL if the method is not to be used
 * @entry:	Entry that was needed last, with a reference, or NULL
 * @gen:	Generation of the store for which all this is valid
 * @mix:	sframe_gen_mix() of it
 * @none_start:	First byte of code that is known to have no table
 * @none_len:	Bytes from there
 * @budget:	Rows that the walk may still look at
 * @faults:	Searches for a table that failed
 */
struct unwind_user_sframe {
	struct sframe_mm	*sm;
	struct sframe_entry	*entry;
	u64			gen;
	u64			mix;
	unsigned long		none_start;
	unsigned long		none_len;
	unsigned int		budget;
	unsigned int		faults;
};

void unwind_user_sframe_start(struct unwind_user_state *state,
			      struct unwind_user_sframe *sframe);
void unwind_user_sframe_end(struct unwind_user_state *state, unsigned int nr);
enum unwind_user_status
unwind_user_next_sframe(struct unwind_user_state *state);
unsigned int unwind_user_sframe_run(struct unwind_user_state *state,
				    unsigned long *entries, unsigned int room);

static inline bool
unwind_user_has_sframe(const struct unwind_user_state *state)
{
	return state->word_size == sizeof(u64) && state->sframe->sm;
}

#else /* !CONFIG_UNWIND_USER_SFRAME */

struct unwind_user_sframe { };

static inline void
unwind_user_sframe_start(struct unwind_user_state *state,
			 struct unwind_user_sframe *sframe) { }
static inline void
unwind_user_sframe_end(struct unwind_user_state *state, unsigned int nr) { }

static inline enum unwind_user_status
unwind_user_next_sframe(struct unwind_user_state *state)
{
	return UNWIND_USER_NO_ANSWER;
}

static inline unsigned int
unwind_user_sframe_run(struct unwind_user_state *state, unsigned long *entries,
		       unsigned int room)
{
	return 0;
}

static inline bool
unwind_user_has_sframe(const struct unwind_user_state *state)
{
	return false;
}

#endif /* CONFIG_UNWIND_USER_SFRAME */
#endif /* _KERNEL_UNWIND_USER_H */
