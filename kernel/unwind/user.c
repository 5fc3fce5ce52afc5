// SPDX-License-Identifier: GPL-2.0
/*
 * Unwinding of the current task's user space stack.
 *
 * Everything that is read here belongs to user space, which may have made it
 * up and may change it at any time: a word is read once, checked, and only the
 * checked value is used. A stack that makes no sense gives a shorter trace.
 *
 * The caller of a frame is found by the first of these methods that knows:
 *
 *  1. the frame's IP is a signal return trampoline: the registers that the
 *     kernel saved in the signal frame. Nothing else can look like one, so this
 *     takes nothing from the next method;
 *  2. the SFrame table for the code, see user_sframe.c;
 *  3. for an exact IP, the code there: a function that has no frame yet, or no
 *     longer, has its return address at a known place on the stack;
 *  4. the frame pointer.
 */

#define pr_fmt(fmt) "unwind_user: " fmt

#include <linux/mm.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>

#include <asm/unwind_user.h>

#include "user.h"

/* Offset in a segment to linear address; @base is not 0 for 32-bit code only. */
static __always_inline unsigned long
unwind_user_linear(unsigned long base, unsigned long offset,
		   const unsigned int word_size)
{
	if (word_size == sizeof(u32))
		return (u32)(base + offset);
	return offset;
}

static int unwind_user_read(const struct unwind_user_state *state,
			    unsigned long sp, unsigned long *val)
{
	unsigned long addr;

	addr = unwind_user_linear(state->sp_base, sp, state->word_size);
	if (state->word_size == sizeof(u32)) {
		u32 word;

		if (get_user(word, (u32 __user *)addr))
			return -EFAULT;
		*val = word;
		return 0;
	}

	return get_user(*val, (unsigned long __user *)addr);
}

/**
 * unwind_user_to_caller - Move a state on to the caller of its frame
 * @state:	State
 * @cfa:	Caller's SP
 * @fp:		Caller's FP
 * @ra:		Return address, as it was found
 * @slot:	Where on the stack that was, 0 if it was not there
 *
 * Return: UNWIND_USER_FOUND, or why there is no such caller.
 */
enum unwind_user_status
unwind_user_to_caller(struct unwind_user_state *state, unsigned long cfa,
		      unsigned long fp, unsigned long ra, unsigned long slot)
{
	if (!ra)
		return UNWIND_USER_END;

	ra = unwind_user_linear(state->ip_base, ra, state->word_size);
	if (ra == state->uretprobe)
		ra = uprobe_orig_ret_addr(slot);
	if (!ra || !unwind_user_ip_valid(ra))
		return UNWIND_USER_CORRUPT;

	state->ip = ra;
	state->sp = cfa;
	state->fp = fp;
	state->topmost = false;
	return UNWIND_USER_FOUND;
}

/* Move on to the caller of a frame that looks like @frame. */
static enum unwind_user_status
unwind_user_step(struct unwind_user_state *state,
		 const struct unwind_user_frame *frame)
{
	unsigned long base = frame->use_fp ? state->fp : state->sp;
	unsigned long cfa = base + frame->cfa_off;
	unsigned long fp = state->fp;
	unsigned long ra;

	if (frame->use_fp && !base)
		return UNWIND_USER_END;
	if (base < state->sp || cfa <= state->sp)
		return UNWIND_USER_CORRUPT;
	if (cfa & (state->word_size - 1))
		return UNWIND_USER_CORRUPT;

	if (unwind_user_read(state, cfa + frame->ra_off, &ra))
		return UNWIND_USER_FAULT;
	if (frame->fp_off && unwind_user_read(state, cfa + frame->fp_off, &fp))
		return UNWIND_USER_FAULT;

	return unwind_user_to_caller(state, cfa, fp, ra, cfa + frame->ra_off);
}

static enum unwind_user_status
unwind_user_next_fp(struct unwind_user_state *state)
{
	const int word_size = state->word_size;
	const struct unwind_user_frame frame = {
		.cfa_off	= 2 * word_size,
		.ra_off		= -word_size,
		.fp_off		= -2 * word_size,
		.use_fp		= true,
	};

	state->type = UNWIND_USER_TYPE_FP;
	return unwind_user_step(state, &frame);
}

static enum unwind_user_status
unwind_user_next_topmost(struct unwind_user_state *state)
{
	struct unwind_user_frame frame;
	enum unwind_user_status status;

	status = arch_unwind_user_topmost(state, &frame);
	if (status != UNWIND_USER_FOUND)
		return status;

	state->type = UNWIND_USER_TYPE_ENTRY;
	return unwind_user_step(state, &frame);
}

/*
 * An exact IP can be in code that uprobes brought into the address space. Show
 * the place in the program that it stands for.
 */
static void unwind_user_fix_exact_ip(struct unwind_user_state *state)
{
	if (!uprobe_task_active())
		return;

	state->ip = uprobe_unwind_ip(state->ip);
	if (state->uretprobe != ULONG_MAX)
		arch_unwind_user_uretprobe(state);
}

/* Can this, an exact IP, be in a signal return trampoline? */
static bool unwind_user_maybe_sigreturn(const struct unwind_user_state *state)
{
	unsigned long len = state->special_max - state->special_min;

	return state->ip - state->special_min <= len + ARCH_UNWIND_USER_SIGRETURN_LEN;
}

static enum unwind_user_status
unwind_user_next_signal(struct unwind_user_state *state)
{
	enum unwind_user_status status;

	status = arch_unwind_user_sigframe(state);
	if (status != UNWIND_USER_FOUND)
		return status;
	if (++state->signals > UNWIND_USER_MAX_SIGNALS)
		return UNWIND_USER_CORRUPT;

	state->type = UNWIND_USER_TYPE_SIGNAL;
	state->topmost = true;
	unwind_user_fix_exact_ip(state);
	if (!unwind_user_ip_valid(state->ip))
		return UNWIND_USER_CORRUPT;
	return UNWIND_USER_FOUND;
}

/*
 * Move the state to the caller of its frame. Returns false, with the reason in
 * the state, if there is none.
 */
static bool unwind_user_next(struct unwind_user_state *state)
{
	enum unwind_user_status status = UNWIND_USER_NO_ANSWER;

	if (unwind_user_killed())
		status = UNWIND_USER_KILLED;

	if (status == UNWIND_USER_NO_ANSWER &&
	    (state->topmost ? unwind_user_maybe_sigreturn(state) :
			      unwind_user_is_sigreturn(state, state->ip)))
		status = unwind_user_next_signal(state);
	if (status == UNWIND_USER_NO_ANSWER && unwind_user_has_sframe(state))
		status = unwind_user_next_sframe(state);
	if (status == UNWIND_USER_NO_ANSWER && state->topmost)
		status = unwind_user_next_topmost(state);
	if (status == UNWIND_USER_NO_ANSWER)
		status = unwind_user_next_fp(state);

	if (status == UNWIND_USER_FOUND) {
		state->frames[state->type]++;
		return true;
	}

	state->status = status;
	state->done = true;
	return false;
}

/*
 * Follow up to @room frame pointers (at least one) with user access enabled once,
 * and without a call: what an ordinary frame needs is but two loads and a few compares.
 * Stop behind the first return address that is not in the @code_len bytes from
 * @code_start.
 *
 * At the first frame that is not ordinary, for whatever reason, stop without
 * having touched it: unwind_user_next() finds out what it is.
 *
 * Every pointer is masked before it is followed. That is the range check too:
 * what is out of range becomes the last user address, where two words fault.
 */
static __always_inline unsigned int
unwind_user_fp_window(struct unwind_user_state *state, unsigned long *entries,
		      unsigned int room, const unsigned int word_size,
		      const unsigned long code_start,
		      const unsigned long code_len)
{
	unsigned long special_min = state->special_min;
	unsigned long special_len = state->special_max - special_min;
	unsigned long base = state->sp_base, limit = TASK_SIZE_MAX;
	unsigned long fp = state->fp, sp = state->sp;
	unsigned long *entry = entries;
	const void __user *frame;

	frame = (void __user *)unwind_user_linear(base, fp, word_size);
	frame = masked_user_access_begin(frame);

	while (unwind_user_fp_ok(fp, sp, word_size)) {
		unsigned long next, ip;

		if (word_size == sizeof(u32)) {
			u32 words[2];

			unsafe_get_user(words[0], (u32 __user *)frame, out);
			unsafe_get_user(words[1], (u32 __user *)frame + 1, out);
			next = words[0];
			ip = words[1];
			if (!ip)
				break;
			ip = unwind_user_linear(state->ip_base, ip, word_size);
		} else {
			unsafe_get_user(next, (u64 __user *)frame, out);
			unsafe_get_user(ip, (u64 __user *)frame + 1, out);
		}

		/* 0 is the end, what is out of range is no address. */
		if (ip - 1 >= limit - 1)
			break;
		if (unlikely(ip - special_min <= special_len) &&
		    unwind_user_is_special(state, ip))
			break;

		*entry++ = ip;
		sp = fp + 2 * word_size;
		fp = next;
		if (entry == entries + room || ip - 1 - code_start >= code_len)
			break;

		frame = (void __user *)unwind_user_linear(base, fp, word_size);
		frame = mask_user_address(frame);
	}
out:
	user_access_end();

	if (entry > entries) {
		state->ip = entry[-1];
		state->sp = sp;
		state->fp = fp;
		state->type = UNWIND_USER_TYPE_FP;
		state->frames[UNWIND_USER_TYPE_FP] += entry - entries;
	}
	return entry - entries;
}

/**
 * unwind_user_fp_frames - Follow some frame pointers of 64-bit code
 * @state:	State at a caller's frame. It becomes that of the last entry
 * @entries:	Where to put the addresses
 * @room:	How many of them, at least one and at most UNWIND_USER_WINDOW
 * @code_start:	Code for which the frame pointer is the method
 * @code_len:	Bytes of it; @state's IP is in there
 *
 * Return: Number of entries added. If it is less than @room, either the last one
 *	   is outside of the code, or the next frame is not an ordinary one.
 */
unsigned int unwind_user_fp_frames(struct unwind_user_state *state,
				   unsigned long *entries, unsigned int room,
				   unsigned long code_start,
				   unsigned long code_len)
{
	return unwind_user_fp_window(state, entries, room, sizeof(u64),
				     code_start, code_len);
}

/*
 * Do what unwind_user_next() does for as long as it would use the frame pointer
 * and succeed. The state is that of the last entry then; it is done if there
 * is no next one. Returns the number of entries added, at most @room.
 */
static unsigned int unwind_user_fp_run(struct unwind_user_state *state,
				       unsigned long *entries,
				       unsigned int room)
{
	unsigned int n, chunk, nr = 0;

	/* Without room, the window would store an entry all the same. */
	while (nr < room) {
		if (unwind_user_killed())
			break;

		chunk = min(room - nr, UNWIND_USER_WINDOW);
		if (state->word_size == sizeof(u32))
			n = unwind_user_fp_window(state, entries + nr, chunk,
						  sizeof(u32), 0, ULONG_MAX);
		else
			n = unwind_user_fp_window(state, entries + nr, chunk,
						  sizeof(u64), 0, ULONG_MAX);
		nr += n;
		if (n < chunk)
			break;
	}

	if (!unwind_user_fp_ok(state->fp, state->sp, state->word_size))
		unwind_user_fp_end(state);
	return nr;
}

/* Add the frames that can be found several at a time. */
static unsigned int unwind_user_run(struct unwind_user_state *state,
				    unsigned long *entries, unsigned int room)
{
	if (unwind_user_has_sframe(state))
		return unwind_user_sframe_run(state, entries, room);
	return unwind_user_fp_run(state, entries, room);
}

/* Is compared with every return address: find the range once. */
static void unwind_user_init_special(struct unwind_user_state *state)
{
	unsigned long min = ULONG_MAX, max = 0;
	int i;

	BUILD_BUG_ON(UNWIND_USER_SIGRETURNS != 4);
	if (likely(!state->sigreturn[1] && !state->sigreturn[2] &&
		   !state->sigreturn[3] && state->uretprobe == ULONG_MAX)) {
		/* Without any, ULONG_MAX is no valid return address anyway. */
		state->special_min = state->sigreturn[0] ?: ULONG_MAX;
		state->special_max = state->special_min;
		return;
	}

	for (i = 0; i < UNWIND_USER_SIGRETURNS; i++) {
		if (!state->sigreturn[i])
			continue;
		min = min(min, state->sigreturn[i]);
		max = max(max, state->sigreturn[i]);
	}
	if (state->uretprobe != ULONG_MAX) {
		min = min(min, state->uretprobe);
		max = max(max, state->uretprobe);
	}

	state->special_min = min;
	state->special_max = max;
}

/* Set the state to where current left user space. */
static int unwind_user_start(struct unwind_user_state *state)
{
	struct pt_regs *regs = task_pt_regs(current);

	if (!is_user_task(current) || !user_mode(regs))
		return -EINVAL;

	state->type = UNWIND_USER_TYPE_REGS;
	state->status = UNWIND_USER_FOUND;
	state->signals = 0;
	memset(state->frames, 0, sizeof(state->frames));
	state->topmost = true;
	state->done = false;
	state->uretprobe = ULONG_MAX;

	if (!arch_unwind_user_init(state, regs))
		return -EINVAL;

	if (uprobe_task_active()) {
		state->uretprobe = uprobe_get_trampoline_vaddr();
		unwind_user_fix_exact_ip(state);
	}

	unwind_user_init_special(state);

	/* The kernel does not show up in a trace, but a vsyscall's caller does. */
	if (!unwind_user_ip_valid(state->ip) &&
	    unwind_user_next_topmost(state) != UNWIND_USER_FOUND) {
		state->status = UNWIND_USER_CORRUPT;
		state->done = true;
	}
	return 0;
}

/**
 * unwind_user - Walk the user space stack of the current task
 * @trace:		Where to put the addresses; @trace->entries is the
 *			caller's and has room for @max_entries
 * @max_entries:	Most addresses to store
 *
 * The first address is where the task left user space, the others are return
 * addresses. When the walk passes a signal frame, the return address of the
 * handler (the signal return trampoline) is followed by the interrupted
 * instruction. All are linear user space addresses. They are as good as the
 * stack is: a walk ends where it makes no sense any more.
 *
 * Context: Process context. May sleep and take page faults; with page faults
 *	    disabled the walk ends at the first page that is not present.
 * Return: 0, or -EINVAL if the task has no user space stack that could be
 *	   walked (a kernel thread, a user worker, VM86). @trace->nr is valid in
 *	   either case.
 */
int unwind_user(struct unwind_stacktrace *trace, unsigned int max_entries)
{
	/* Set up field by field below, and this runs in each sampled entry. */
	struct unwind_user_sframe sframe __uninitialized;
	struct unwind_user_state state __uninitialized;
	unsigned int nr = 0;
	int ret;

	might_fault();

	trace->nr = 0;
	ret = unwind_user_start(&state);
	if (ret)
		return ret;
	unwind_user_sframe_start(&state, &sframe);

	while (!state.done && nr < max_entries) {
		trace->entries[nr++] = state.ip;

		if (!state.topmost &&
		    !unwind_user_is_sigreturn(&state, state.ip))
			nr += unwind_user_run(&state, &trace->entries[nr],
					      max_entries - nr);
		if (!state.done)
			unwind_user_next(&state);
	}

	unwind_user_sframe_end(&state, nr);
	trace->nr = nr;
	return 0;
}
