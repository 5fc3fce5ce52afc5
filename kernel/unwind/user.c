// SPDX-License-Identifier: GPL-2.0
/*
 * Unwinding of the current task's user space stack.
 *
 * Everything that is read here belongs to user space, which may have made it
 * up and may change it at any time. So a word is read once and checked, and only
 * the checked value is used. A stack that makes no sense gives a shorter trace.
 *
 * A walk goes from frame to frame by rules, see linux/unwind_rule.h. The rule for
 * a frame comes from the first of these providers that has one:
 *
 *  1. the table for the code, see code.c. If a table should have the rule and does not
 *     give it, the walk ends: code with a table seldom keeps a frame pointer, so
 *     following the register would lead anywhere;
 *  2. the code itself. For a topmost IP (where the task left user space or took a signal,
 *     as opposed to a return address), a function that has no frame yet, or no longer, has
 *     its return address at a known place on the stack. In anonymous memory without a
 *     table, an epilogue that follows a call tells the same;
 *  3. the frame pointer.
 *
 * Only SP and FP are followed from frame to frame. A walk ends at a caller whose rule
 * needs another register.
 *
 * unwind_user_apply() is the only place that moves a frame by a rule. Frames whose rules
 * are at hand are passed in a window, several of them with user access enabled once. Other
 * rules are looked up; what a window cannot do, unwind_user_step() does. Signal frames
 * need no rule: if the IP is that of a signal return trampoline, the walk goes on with the
 * registers that the kernel saved.
 *
 * A walk is at the outermost frame where a table says so, or where the program
 * begins. If it has followed a frame pointer from code that has no table, and whose
 * bytes do not tell either, callers may be missing, and it says so at its end. It waits only
 * for the kernel, see unwind_user_fault_in().
 */

#define pr_fmt(fmt) "unwind_user: " fmt

#include <linux/elf.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/perf_event.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <linux/unwind_deferred.h>
#include <linux/unwind_rule.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>

#include <asm/unwind_user.h>

#include "code.h"

#define CREATE_TRACE_POINTS
#include <trace/events/unwind.h>

/* Most frames of a window, see unwind_user_window() */
#define UNWIND_USER_WINDOW	128

/*
 * Most signal frames and switches of stacks that one walk passes. Only there may the
 * stack pointer move down, so without this limit a walk could go in circles until the
 * trace is full.
 */
#define UNWIND_USER_MAX_SIGNALS	16

/* Frames of a round of unwind_user_look() */
#define UNWIND_USER_LOOK	32

/* Marks an unknown FP. Never a valid or aligned address */
#define UNWIND_USER_FP_UNKNOWN	(BIT(63) | 1)

/* An address that user space can execute, as opposed to one it can make up. */
static __always_inline bool
unwind_user_ip_valid(const struct unwind_user_state *state, unsigned long ip)
{
	return ip - 1 < state->max;
}

/* Is this return address something other than a place in the program? */
static __always_inline bool
unwind_user_is_special(const struct unwind_user_state *state, unsigned long ip)
{
	/* No loop, which could become a function call */
	BUILD_BUG_ON(UNWIND_USER_SIGRETURNS != 4);

	return ip == state->uretprobe || ip == state->sigreturn[0] ||
	       ip == state->sigreturn[1] || ip == state->sigreturn[2] ||
	       ip == state->sigreturn[3];
}

/* Offset in a segment to linear address; @base is 0 but for 32-bit code. */
static __always_inline unsigned long
unwind_user_linear(unsigned long base, unsigned long offset,
		   const unsigned int word_size)
{
	if (word_size == sizeof(u32))
		return (u32)(base + offset);
	return offset;
}

/* Is a return address outside the code at hand? Inside, it is a place in the program. */
static __always_inline bool
unwind_user_is_away(const struct unwind_code *code, unsigned long ip,
		    const unsigned int word_size)
{
	return !IS_ENABLED(CONFIG_UNWIND_USER_CODE) || word_size == sizeof(u32) ||
	       !unwind_code_has(code, ip - 1);
}

/* The frame that a window is at, which it keeps in registers */
struct unwind_user_frame {
	unsigned long	ip;
	unsigned long	sp;
	unsigned long	fp;
};

/*
 * In a window, that is with user access enabled: follow a pointer into the stack.
 * Masking is the range check, too: a pointer that is out of range becomes the end of
 * user space, where nothing is mapped.
 */
static __always_inline const void __user *
unwind_user_stack(const struct unwind_user_state *state, unsigned long addr,
		  const unsigned int word_size)
{
	addr = unwind_user_linear(state->sp_base, addr, word_size);
	return mask_user_address((const void __user *)addr);
}

/**
 * unwind_user_is_mapped - Is something mapped at an address?
 * @mm:		Of current, or with a reference to its users
 * @addr:	Address
 *
 * Context: Any, NMI included.
 */
bool unwind_user_is_mapped(struct mm_struct *mm, unsigned long addr)
{
	MA_STATE(mas, &mm->mm_mt, addr, addr);

	guard(rcu)();
	return mas_walk(&mas);
}

/*
 * Fault in the page at @addr, if only the kernel supplies it. With userfaultfd and with
 * FUSE a process does, and may take for ever. A task that serves such a page, or a file
 * system, might wait for itself.
 *
 * Only the lock of the mapping is taken. Others can hold the mmap lock until a process
 * answers, which may be this one; and while the mapping is locked, nobody can replace it,
 * or register it with userfaultfd.
 */
static int unwind_user_fault_in_page(unsigned long addr)
{
	unsigned int flags = FAULT_FLAG_VMA_LOCK | FAULT_FLAG_ALLOW_RETRY |
			     FAULT_FLAG_KILLABLE;
	struct vm_area_struct *vma;
	vm_fault_t fault;
	int err;

	for (;; flags |= FAULT_FLAG_TRIED) {
		if (current->flags & PF_LOCAL_THROTTLE || task_sigpending(current))
			return -EAGAIN;
		fault = 0;
		err = 0;
		vma = lock_vma_under_rcu(current->mm, addr);
		if (!vma)
			return unwind_user_is_mapped(current->mm, addr) ? -EAGAIN : -EFAULT;
		if (vma->vm_flags & (VM_UFFD_MISSING | VM_UFFD_MINOR) ||
		    (vma->vm_file &&
		     file_inode(vma->vm_file)->i_sb->s_magic == FUSE_SUPER_MAGIC))
			err = -EREMOTE;
		else if (!vma_is_accessible(vma))
			err = -EFAULT;
		else
			fault = handle_mm_fault(vma, addr, flags, NULL);
		/* With one of these, handle_mm_fault() has unlocked it. */
		if (!(fault & (VM_FAULT_RETRY | VM_FAULT_COMPLETED)))
			vma_end_read(vma);
		if (fault & VM_FAULT_OOM)
			return -EAGAIN;
		if (!(fault & VM_FAULT_RETRY))
			return fault & VM_FAULT_ERROR ? -EFAULT : err;
		if (flags & FAULT_FLAG_TRIED)
			return -EAGAIN;
	}
}

/**
 * unwind_user_fault_in - Wait for user memory that a walk has found absent
 * @addr:	Where it is
 * @len:	Bytes that are needed
 *
 * A walk reads with page faults disabled. Only here does it take one, if that waits for
 * nobody but the kernel, and keeps no signal waiting.
 *
 * Context: Process context. May sleep, unless page faults are disabled: then any.
 * Return: 0 if reading again is worthwhile; -EAGAIN if it may be later; -EREMOTE if another
 *	   process supplies the memory; -EFAULT if it cannot be read.
 */
int unwind_user_fault_in(unsigned long addr, unsigned int len)
{
	unsigned long last = addr + len - 1;
	int err;

	if (pagefault_disabled())
		return unwind_user_is_mapped(current->mm, addr) ? -EAGAIN : -EFAULT;
	err = unwind_user_fault_in_page(addr);
	if (!err && addr >> PAGE_SHIFT != last >> PAGE_SHIFT)
		err = unwind_user_fault_in_page(last);
	return err;
}

/**
 * unwind_user_read - Read user memory in a walk
 * @to:		Where to put it
 * @from:	Address of user memory
 * @len:	Bytes
 *
 * Context: As unwind_user_fault_in().
 * Return: 0, or an error of unwind_user_fault_in().
 */
int unwind_user_read(void *to, unsigned long from, unsigned int len)
{
	const void __user *src = (const void __user *)from;
	int ret;

	if (likely(!copy_from_user_nofault(to, src, len)))
		return 0;
	ret = unwind_user_fault_in(from, len);
	return ret ?: copy_from_user_nofault(to, src, len);
}

static __always_inline bool unwind_user_get(const void __user *from,
					    unsigned long *val,
					    const unsigned int word_size)
{
	if (word_size == sizeof(u32))
		unsafe_get_user(*val, (const u32 __user *)from, fault);
	else
		unsafe_get_user(*val, (const u64 __user *)from, fault);
	return true;
fault:
	return false;
}

/* Registers other than SP and FP are known where the task left user space. */
static __always_inline bool
unwind_user_reg(const struct unwind_user_state *state,
		const struct unwind_user_frame *frame, unsigned int reg,
		unsigned long *val)
{
	if (reg == UNWIND_REG_SP)
		*val = frame->sp;
	else if (reg == UNWIND_REG_FP)
		*val = frame->fp;
	else if (state->topmost && !state->signals)
		*val = arch_unwind_user_reg(state->regs, reg);
	else
		return false;
	return true;
}

/*
 * In a window: one value of a rule in its long form. @slot gets the address that
 * it was read from, or 0.
 */
static __always_inline enum unwind_user_status
unwind_user_value(const struct unwind_user_state *state,
		  const struct unwind_user_frame *frame,
		  const struct unwind_loc *loc, unsigned long cfa,
		  unsigned long *val, unsigned long *slot)
{
	*slot = 0;
	switch (loc->where) {
	case UNWIND_SAME:
		*val = frame->fp;
		return UNWIND_USER_FOUND;
	case UNWIND_CFA:
	case UNWIND_CFA_DEREF:
		*val = cfa;
		break;
	case UNWIND_REG:
	case UNWIND_REG_DEREF:
		if (!unwind_user_reg(state, frame, loc->reg, val))
			return UNWIND_USER_UNKNOWN;
		if (*val == UNWIND_USER_FP_UNKNOWN)
			return UNWIND_USER_NO_FP;
		break;
	default:
		return UNWIND_USER_UNKNOWN;
	}

	*val += loc->off;
	if (loc->where == UNWIND_CFA || loc->where == UNWIND_REG)
		return UNWIND_USER_FOUND;

	*slot = *val;
	return unwind_user_get(unwind_user_stack(state, *val, sizeof(u64)), val,
			       sizeof(u64)) ? UNWIND_USER_FOUND : UNWIND_USER_ABSENT;
}

/* Is this where a new thread begins, with the registers that it has then? */
static __always_inline bool
unwind_user_is_new_thread(const struct unwind_user_state *state)
{
	return state->topmost && !state->signals &&
	       !regs_return_value((struct pt_regs *)state->regs);
}

/* Is @ip nothing but an address of the program? */
static __always_inline bool
unwind_user_plain_ip(const struct unwind_user_state *state, unsigned long ip)
{
	return unwind_user_ip_valid(state, ip) &&
	       (likely(ip - state->special_min > state->special_len) ||
		!unwind_user_is_special(state, ip));
}

/* Why a CFA that is below the SP, or not aligned, is not valid */
static __always_inline enum unwind_user_status
unwind_user_bad_cfa(const struct unwind_user_frame *frame, u64 word)
{
	if (!(word & UNWIND_WORD_USE_FP))
		return UNWIND_USER_CORRUPT;
	if (frame->fp == UNWIND_USER_FP_UNKNOWN)
		return UNWIND_USER_NO_FP;
	return frame->fp || word & UNWIND_WORD_TABLE ? UNWIND_USER_CORRUPT :
						       UNWIND_USER_NO_FRAME;
}

/*
 * In a window: move a frame to its caller, by @rule or, if that is NULL, by @word.
 *
 * The SP moves up with each step, so a loop in the stack ends the walk. Only rules that
 * take the CFA from memory, or from a register other than SP and FP, may lead to a lower
 * stack, a few times in a walk. What is read has to be above the SP as well. Where code
 * was interrupted (@topmost), this holds for the return address only: the FP may have been
 * popped already.
 *
 * The frame changes only if UNWIND_USER_FOUND is returned. If @slow, its IP has to be
 * checked; otherwise UNWIND_USER_SLOW says that it is not an ordinary one, and @away that it
 * is not in the code at hand. @slot gets the address of the IP (0: a register), or the
 * absent address.
 */
static __always_inline enum unwind_user_status
unwind_user_apply(const struct unwind_user_state *state,
		  const struct unwind_code *code,
		  struct unwind_user_frame *frame, u64 word,
		  const struct unwind_rule *rule, const bool topmost,
		  const bool slow, const unsigned int word_size,
		  unsigned long *slot, bool *away)
{
	unsigned long cfa, ip, fp_slot, fp = frame->fp;
	unsigned int depth = word_size;
	enum unwind_user_status status;
	bool may_go_down = false;

	if (rule) {
		if (rule->outermost || (rule->new_thread &&
					unwind_user_is_new_thread(state)))
			return UNWIND_USER_END;
		if (rule->no_call && !topmost)
			return UNWIND_USER_UNKNOWN;
		status = unwind_user_value(state, frame, &rule->cfa, 0, &cfa,
					   slot);
		if (status != UNWIND_USER_FOUND)
			return status;
		cfa += rule->cfa_add;
		/* Nothing that is read below would show that it is wrong. */
		if (!cfa)
			return UNWIND_USER_CORRUPT;
		may_go_down = (rule->cfa.where == UNWIND_REG_DEREF ||
			       (rule->cfa.reg != UNWIND_REG_SP &&
				rule->cfa.reg != UNWIND_REG_FP)) &&
			      state->signals < UNWIND_USER_MAX_SIGNALS;
		/* The frame may be empty if the return address is in a register. */
		if (topmost && rule->ra.where == UNWIND_REG)
			depth = 0;
	} else {
		if (word & (UNWIND_WORD_OUTERMOST | UNWIND_WORD_STOPS))
			return word & UNWIND_WORD_OUTERMOST ?
			       UNWIND_USER_END : unwind_word_depth(word);
		cfa = word & UNWIND_WORD_USE_FP ? frame->fp : frame->sp;
		cfa += unwind_word_cfa_off(word);
		depth = unwind_word_depth(word);
	}

	if ((cfa - (topmost ? min(depth, word_size) : depth) < frame->sp &&
	     !(may_go_down && cfa < frame->sp)) || cfa & (word_size - 1))
		return unwind_user_bad_cfa(frame, word);

	if (rule) {
		status = unwind_user_value(state, frame, &rule->ra, cfa, &ip,
					   slot);
		if (status != UNWIND_USER_FOUND)
			return status;
		status = unwind_user_value(state, frame, &rule->fp, cfa, &fp,
					   &fp_slot);
		if (status == UNWIND_USER_ABSENT) {
			*slot = fp_slot;
			return status;
		}
		if (status != UNWIND_USER_FOUND)
			fp = UNWIND_USER_FP_UNKNOWN;
	} else {
		const void __user *from;

		from = unwind_user_stack(state, cfa - depth, word_size);
		*slot = cfa - word_size;
		if (!unwind_user_get(from + depth - word_size, &ip, word_size))
			return UNWIND_USER_ABSENT;
		if (depth != word_size && !unwind_user_get(from, &fp, word_size)) {
			*slot = cfa - depth;
			return UNWIND_USER_ABSENT;
		}
	}

	/* 0 is the end, as above, whatever the code segment begins with. */
	if (word_size == sizeof(u32) && ip)
		ip = unwind_user_linear(state->ip_base, ip, word_size);
	if (!slow) {
		*away = unwind_user_is_away(code, ip, word_size);
		if (unlikely(*away) && !unwind_user_plain_ip(state, ip))
			return UNWIND_USER_SLOW;
	}

	frame->ip = ip;
	frame->sp = cfa;
	frame->fp = fp;
	return UNWIND_USER_FOUND;
}

static __always_inline void unwind_user_faults_off(void)
{
	/* A walk that interrupts the task puts the count back before the task reads on. */
	(void)data_race(({ pagefault_disable(); 0; }));
}

static __always_inline void unwind_user_faults_on(void)
{
	/* As above */
	(void)data_race(({ pagefault_enable(); 0; }));
}

/* Move the state to the caller of its frame by any rule, from the provider @type. */
static noinline enum unwind_user_status
unwind_user_step(struct unwind_user_state *state,
		 const struct unwind_rule *rule, enum unwind_user_type type)
{
	const struct unwind_rule *long_rule = rule->word ? NULL : rule;
	struct unwind_user_frame frame = { state->ip, state->sp, state->fp };
	const unsigned int word_size = state->word_size;
	enum unwind_user_status status;
	unsigned int faults = 0;
	unsigned long slot;
	int err;

	for (;;) {
		unwind_user_faults_off();
		masked_user_access_begin((const void __user *)frame.sp);
		status = unwind_user_apply(state, state->code, &frame, rule->word, long_rule,
					   state->topmost, true, word_size, &slot, NULL);
		user_access_end();
		unwind_user_faults_on();
		if (status != UNWIND_USER_ABSENT)
			break;
		/* Of CFA, return address and FP, each may be in another page. */
		slot = unwind_user_linear(state->sp_base, slot, word_size);
		err = ++faults > 3 ? -EAGAIN : unwind_user_fault_in(slot, word_size);
		if (err)
			return err == -EREMOTE ? UNWIND_USER_REMOTE : UNWIND_USER_FAULT;
	}

	if (status != UNWIND_USER_FOUND)
		return status;
	if (!frame.ip)
		return UNWIND_USER_NO_FRAME;
	if (frame.ip == state->uretprobe)
		frame.ip = uprobe_orig_ret_addr(slot);
	if (!unwind_user_ip_valid(state, frame.ip))
		return UNWIND_USER_CORRUPT;

	/* What a signal frame leads to was interrupted, not called. */
	state->topmost = long_rule && rule->signal;
	if ((state->topmost || frame.sp < state->sp) &&
	    ++state->signals > UNWIND_USER_MAX_SIGNALS)
		return UNWIND_USER_CORRUPT;

	state->ip = frame.ip;
	state->sp = frame.sp;
	state->fp = frame.fp;
	state->frames[type]++;
	return UNWIND_USER_FOUND;
}

/*
 * A topmost IP can be in code that uprobes have put into the address space. Show
 * the place in the program that it stands for.
 */
static void unwind_user_fix_topmost_ip(struct unwind_user_state *state)
{
	if (!uprobe_task_active())
		return;

	state->ip = uprobe_unwind_ip(state->ip);
	if (state->uretprobe != ULONG_MAX)
		arch_unwind_user_uretprobe(state);
}

/* Can this be a signal return trampoline? A topmost IP can be within one, too. */
static bool unwind_user_maybe_sigreturn(const struct unwind_user_state *state)
{
	unsigned long len = state->special_len;

	if (state->topmost)
		len += ARCH_UNWIND_USER_SIGRETURN_LEN;
	return state->ip - state->special_min <= len;
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

	state->topmost = true;
	unwind_user_fix_topmost_ip(state);
	if (!unwind_user_ip_valid(state, state->ip))
		return UNWIND_USER_CORRUPT;
	state->frames[UNWIND_USER_TYPE_SIGNAL]++;
	return UNWIND_USER_FOUND;
}

/*
 * Ask one provider after the other for the rule of the state's frame. @rule->word is 0 if
 * it is not an ordinary rule; @type says which provider had it.
 */
static enum unwind_user_status
unwind_user_find_rule(struct unwind_user_state *state, struct unwind_rule *rule,
		      enum unwind_user_type *type)
{
	/* Tables are for 64-bit code. */
	const bool has_tables = IS_ENABLED(CONFIG_UNWIND_USER_CODE) &&
				state->word_size == sizeof(u64);
	enum unwind_user_status status = UNWIND_USER_NO_RULE;

	/* The kernel does not show up in a trace, but a vsyscall's caller does. */
	*type = UNWIND_USER_TYPE_ENTRY;
	if (unlikely(!unwind_user_ip_valid(state, state->ip)))
		return arch_unwind_user_topmost(state, &rule->word) == UNWIND_USER_FOUND ?
		       UNWIND_USER_FOUND : UNWIND_USER_CORRUPT;

	/* A call may be the last instruction of its function. */
	if (has_tables)
		status = unwind_code_rule(state, state->ip - !state->topmost,
					  state->status == UNWIND_USER_NO_RULE, rule, type);
	if (status != UNWIND_USER_NO_RULE)
		return status;

	*type = UNWIND_USER_TYPE_ENTRY;
	if (state->topmost)
		status = arch_unwind_user_topmost(state, &rule->word);
	if (status == UNWIND_USER_NO_RULE && has_tables && state->code->anon)
		status = arch_unwind_user_epilogue(state, &rule->word);
	if (status == UNWIND_USER_NO_RULE) {
		*type = UNWIND_USER_TYPE_FP;
		state->code->unchecked |= !has_tables || !state->code->table;
		rule->word = unwind_word_fp(state->word_size);
		status = UNWIND_USER_FOUND;
	}
	return status;
}

/*
 * In a window: is the rule for a caller in the cache, or an ordinary one in the table
 * at hand?
 */
static __always_inline bool
unwind_user_at_hand(const struct unwind_code *code, unsigned long pc, u64 *word)
{
	u64 tag = rule_cache_tag(pc + code->delta, code->mix);
	struct rule_slot *slot;

	if (!IS_ENABLED(CONFIG_UNWIND_USER_CODE))
		return false;
	slot = rule_cache_slot(&unwind_rules, tag);
	if (likely(rule_slot_get(slot, tag, code->mix, word)))
		return true;
	if (!IS_ENABLED(CONFIG_UNWIND_USER_TABLE) || !code->table)
		return false;

	*word = unwind_table_word(code->table, pc + code->delta);
	if (likely(!UNWIND_TABLE_WORD_IS_LONG(*word))) {
		rule_slot_set(slot, tag, code->mix, *word);
		return true;
	}
	/* The next provider differs by process, so this is not cached. */
	if (*word != UNWIND_TABLE_WORD_NOT_COVERED || code->known_sframe)
		return false;
	*word = unwind_word_fp(sizeof(u64));
	return true;
}

/* In a window: put the code around an address at hand. */
static __always_inline bool
unwind_user_find_code(const struct unwind_user_state *state, struct unwind_code *code,
		      const struct unwind_user_frame *frame)
{
	unsigned long pc = frame->ip - 1;
	struct unwind_range *range = unwind_code_range(code, pc);
	bool found;

	if (!IS_ENABLED(CONFIG_UNWIND_USER_CODE) ||
	    unwind_code_find_settled(state, code, range, pc))
		return true;
	user_access_end();
	found = unwind_code_find(state, range, pc) && !code->anon;
	masked_user_access_begin((const void __user *)frame->sp);
	return found;
}

/*
 * Add up to @room callers (@room is not 0). As long as their rules are at hand, user access
 * is enabled once, and each takes no more than two loads and a few compares. @first is the
 * rule of the state's frame if that was looked up, else 0.
 *
 * The state becomes that of the last entry. Its status is UNWIND_USER_NO_RULE if the rule
 * for that has to be looked up; UNWIND_USER_SLOW if it takes more to go on; or why it has
 * no caller.
 */
static __always_inline unsigned int
unwind_user_window(struct unwind_user_state *state, u64 first, unsigned long *entries,
		   unsigned int room, const unsigned int word_size)
{
	struct unwind_user_frame frame = { state->ip, state->sp, state->fp };
	unsigned long *entry = entries, *end = entries + room;
	enum unwind_user_status status = UNWIND_USER_FOUND;
	struct unwind_code *code = state->code;
	unsigned int by_table = 0, by_file;
	unsigned long slot;
	bool away;
	u64 word;

	/*
	 * No page fault is taken: so this is an RCU reader, which keeps the table at
	 * hand. How long it takes is bounded by its frames.
	 */
	rcu_read_lock();
	unwind_code_enter(code);
	unwind_user_faults_off();
	/* In anonymous memory, a window does not find rules. */
	if (code->anon)
		code->len = 0;
	away = unwind_user_is_away(code, frame.ip, word_size);
	masked_user_access_begin((const void __user *)frame.sp);

	if (first) {
		status = unwind_user_apply(state, code, &frame, first, NULL, state->topmost,
					   false, word_size, &slot, &away);
		if (status != UNWIND_USER_FOUND)
			goto out;
		state->topmost = false;
		*entry++ = frame.ip;
	}

	while (entry < end) {
		if (word_size == sizeof(u64) && unlikely(away) &&
		    !unwind_user_find_code(state, code, &frame)) {
			status = UNWIND_USER_NO_RULE;
			break;
		}

		if (word_size == sizeof(u32) || code->no_table) {
			word = unwind_word_fp(word_size);
			code->unchecked = true;
			status = unwind_user_apply(state, code, &frame, word, NULL, false,
						   false, word_size, &slot, &away);
		} else {
			status = UNWIND_USER_NO_RULE;
			if (likely(unwind_user_at_hand(code, frame.ip - 1, &word))) {
				if (unlikely(!(word & UNWIND_WORD_TABLE)) && !code->table)
					code->unchecked = true;
				status = unwind_user_apply(state, code, &frame, word, NULL,
							   false, false, word_size, &slot,
							   &away);
			}
		}
		if (unlikely(status != UNWIND_USER_FOUND))
			break;
		by_table += word & UNWIND_WORD_COUNTS;
		*entry++ = frame.ip;
	}
out:
	user_access_end();
	unwind_user_faults_on();
	rcu_read_unlock();

	state->ip = frame.ip;
	state->sp = frame.sp;
	state->fp = frame.fp;
	state->status = status == UNWIND_USER_ABSENT ? UNWIND_USER_SLOW : status;

	by_file = UNWIND_WORD_BY_FILE(by_table);
	by_table = UNWIND_WORD_BY_TABLE(by_table);
	state->frames[UNWIND_USER_TYPE_FILE] += by_file;
	state->frames[UNWIND_USER_TYPE_SFRAME] += by_table - by_file;
	state->frames[UNWIND_USER_TYPE_FP] += entry - entries - by_table;
	return entry - entries;
}

/* Two functions, since the loops of both in one run out of registers. */
static noinline unsigned int
unwind_user_window_64(struct unwind_user_state *state, u64 first,
		      unsigned long *entries, unsigned int room)
{
	return unwind_user_window(state, first, entries, room, sizeof(u64));
}

static noinline unsigned int
unwind_user_window_32(struct unwind_user_state *state, u64 first,
		      unsigned long *entries, unsigned int room)
{
	return unwind_user_window(state, first, entries, room, sizeof(u32));
}

/* Add some callers of a frame that is not a signal frame. */
static noinline unsigned int
unwind_user_run(struct unwind_user_state *state, unsigned long *entries,
		unsigned int room)
{
	struct unwind_rule rule __uninitialized;
	enum unwind_user_type type;
	bool looked_up = false;
	unsigned int nr = 0;

	rule.word = 0;
	/* In place, what the map does not know about the code is not at hand later, either. */
	if (state->topmost || state->status == UNWIND_USER_NO_RULE || !state->code->len) {
		state->status = unwind_user_find_rule(state, &rule, &type);
		if (state->status != UNWIND_USER_FOUND)
			return 0;
		looked_up = true;
	}

	state->status = UNWIND_USER_SLOW;
	if (!looked_up || rule.word) {
		room = min(room, UNWIND_USER_WINDOW);
		if (state->word_size == sizeof(u64))
			nr = unwind_user_window_64(state, rule.word, entries, room);
		else
			nr = unwind_user_window_32(state, rule.word, entries, room);
	}
	/* The window has counted that caller as one by frame pointer. */
	if (looked_up && nr) {
		state->frames[UNWIND_USER_TYPE_FP]--;
		state->frames[type]++;
	}

	if (state->status == UNWIND_USER_SLOW) {
		if (!looked_up || nr)
			state->status = unwind_user_find_rule(state, &rule, &type);
		else
			state->status = UNWIND_USER_FOUND;
		if (state->status == UNWIND_USER_FOUND)
			state->status = unwind_user_step(state, &rule, type);
		if (state->status == UNWIND_USER_FOUND)
			entries[nr++] = state->ip;
	}
	return nr;
}

/* These are compared with every return address: find their range once. */
static void unwind_user_init_special(struct unwind_user_state *state)
{
	unsigned long min = ULONG_MAX, max = 0;
	int i;

	BUILD_BUG_ON(UNWIND_USER_SIGRETURNS != 4);
	if (likely(!state->sigreturn[1] && !state->sigreturn[2] &&
		   !state->sigreturn[3] && state->uretprobe == ULONG_MAX)) {
		/* Without any, ULONG_MAX is no valid return address anyway. */
		state->special_min = state->sigreturn[0] ?: ULONG_MAX;
		state->special_len = 0;
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
	state->special_len = max - min;
}

/* Set the state to where current left user space, with @state->regs. */
static int unwind_user_start(struct unwind_user_state *state)
{
	struct pt_regs *regs = (struct pt_regs *)state->regs;

	if (!is_user_task(current) || !user_mode(regs))
		return -EINVAL;

	state->status = UNWIND_USER_FOUND;
	state->max = TASK_SIZE_MAX;
	state->signals = 0;
	memset(state->frames, 0, sizeof(state->frames));
	state->topmost = true;
	state->uretprobe = ULONG_MAX;

	if (!arch_unwind_user_init(state, regs))
		return -EINVAL;

	if (uprobe_task_active()) {
		state->uretprobe = uprobe_get_trampoline_vaddr();
		unwind_user_fix_topmost_ip(state);
	}

	unwind_user_init_special(state);
	return 0;
}

/* How far from the entry of a program its first call can be */
#define UNWIND_USER_ENTRY_LEN	64

/* A word of the auxiliary vector, as the kernel put it on the stack of the program */
static unsigned long unwind_user_auxv(const struct mm_struct *mm, unsigned int i, bool compat)
{
	const u32 *words = (const u32 *)mm->saved_auxv;

	/* Other threads may change it by a plain copy, see prctl_set_mm(). */
	return data_race(compat ? READ_ONCE(words[i]) : READ_ONCE(mm->saved_auxv[i]));
}

/*
 * Is this where the program begins? By convention the frame pointer is 0 there. But it
 * may be 0 in any code that uses the register for something else, and the callers of
 * such code would be missing. So only the address counts.
 */
static noinline bool unwind_user_at_entry(unsigned long ip)
{
	const struct mm_struct *mm = current->mm;
	const bool compat = arch_unwind_user_compat_auxv(mm);
	unsigned long type;
	unsigned int i;

	for (i = 0; i < AT_VECTOR_SIZE - 1; i += 2) {
		type = unwind_user_auxv(mm, i, compat);
		if (type == AT_ENTRY)
			return ip - unwind_user_auxv(mm, i + 1, compat) < UNWIND_USER_ENTRY_LEN;
		if (type == AT_NULL)
			break;
	}
	return false;
}

/* Walk the stack from where @state is. */
static __always_inline void unwind_user_walk(struct unwind_user_state *state,
					     struct unwind_stacktrace *trace,
					     unsigned int max_entries)
{
	enum unwind_user_status status;
	unsigned int nr = 0;

	/* The kernel does not show up in a trace, but a vsyscall's caller does. */
	if (likely(unwind_user_ip_valid(state, state->ip)) && max_entries)
		trace->entries[nr++] = state->ip;

	while (state->status <= UNWIND_USER_NO_RULE && nr < max_entries) {
		if (unwind_user_maybe_sigreturn(state)) {
			status = unwind_user_next_signal(state);
			if (status == UNWIND_USER_FOUND)
				trace->entries[nr++] = state->ip;
			if (status != UNWIND_USER_NO_RULE) {
				state->status = status;
				continue;
			}
		}
		nr += unwind_user_run(state, &trace->entries[nr],
				      max_entries - nr);
	}

	/* There was no room for what may follow. */
	if (state->status == UNWIND_USER_NO_RULE)
		state->status = UNWIND_USER_FOUND;
	if (state->status == UNWIND_USER_NO_FRAME && unwind_user_at_entry(state->ip))
		state->status = UNWIND_USER_END;
	if (state->status == UNWIND_USER_END && state->code->unchecked)
		state->status = UNWIND_USER_END_UNCHECKED;

	/*
	 * Callers are in code. An address that is not was found by a register that held
	 * something else than a frame pointer; or its code is not executable for the moment,
	 * which cannot be told apart.
	 */
	if (state->status == UNWIND_USER_NO_CODE && !state->topmost)
		nr--;
	trace->nr = nr;
	trace->end = state->status;
}

static void unwind_user_count(const struct unwind_user_state *state)
{
	if (unwind_files_used() && state->word_size == sizeof(u64))
		unwind_files_count_walk(state->status, state->frames[UNWIND_USER_TYPE_FILE],
					state->frames[UNWIND_USER_TYPE_FP]);
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
 * instruction. All are linear user space addresses. They are only as good as the
 * stack is: a walk ends where the stack makes no sense any more.
 *
 * Context: Process context. May sleep and take page faults, but only those of
 *	    unwind_user_fault_in(); with page faults disabled the walk ends at the first
 *	    page that is not present.
 * Return: 0, or -EINVAL if the task has no user space stack that could be
 *	   walked (a kernel thread, a user worker, VM86). @trace->nr is valid in
 *	   either case.
 */
int unwind_user(struct unwind_stacktrace *trace, unsigned int max_entries)
{
	/* Set up field by field, as this runs in each sampled entry. */
	struct unwind_code code __uninitialized;
	struct unwind_user_state state __uninitialized;

	might_fault();
	trace->nr = 0;
	trace->end = UNWIND_USER_REFUSED;
	state.regs = task_pt_regs(current);
	state.in_place = false;
	if (unwind_user_start(&state))
		return -EINVAL;

	state.code = &code;
	unwind_code_begin(&code, state.in_place);
	unwind_user_walk(&state, trace, max_entries);
	unwind_sframe_put(code.sframe);
	unwind_user_count(&state);

	/* A fatal signal ends page faults: blame that, not the stack. */
	if (state.status == UNWIND_USER_FAULT && fatal_signal_pending(current))
		state.status = UNWIND_USER_KILLED;
	trace->end = state.status;

	trace_unwind_user_done(&state, trace->nr);
	return 0;
}

/**
 * unwind_user_look - Walk the user space stack of the current task to learn about its code
 *
 * As deep as perf walks by default, so that it comes to all code that an event does.
 *
 * Context: As unwind_user().
 */
void unwind_user_look(void)
{
	struct unwind_code code __uninitialized;
	struct unwind_user_state state __uninitialized;
	unsigned long entries[UNWIND_USER_LOOK];
	struct unwind_stacktrace trace = { .entries = entries };
	unsigned int rounds = DIV_ROUND_UP(PERF_MAX_STACK_DEPTH, UNWIND_USER_LOOK - 1);

	state.regs = task_pt_regs(current);
	state.in_place = false;
	if (unwind_user_start(&state))
		return;
	state.code = &code;
	unwind_code_begin(&code, state.in_place);
	do {
		/* Begins with the last frame of the round before, whose rule is still open. */
		unwind_user_walk(&state, &trace, UNWIND_USER_LOOK);
	} while (--rounds && state.status == UNWIND_USER_FOUND);
	unwind_sframe_put(code.sframe);
}

/**
 * unwind_user_in_place - Walk the user space stack of the current task at once
 * @trace:		As for unwind_user()
 * @max_entries:	Most addresses to store
 * @regs:		User registers at the event
 *
 * As unwind_user(), but the walk ends where memory is absent. If it ends since nothing was
 * known of the code, the task may take a look on its way back to user space, see
 * unwind_deferred_look().
 *
 * Context: Any context, NMI included. Takes no locks, and allocates nothing.
 */
void unwind_user_in_place(struct unwind_stacktrace *trace, unsigned int max_entries,
			  const struct pt_regs *regs)
{
	struct unwind_code code __uninitialized;
	struct unwind_user_state state __uninitialized;

	trace->nr = 0;
	trace->end = UNWIND_USER_REFUSED;
	if (!nmi_uaccess_okay() || unwind_regs_changing())
		return;

	/* What is found stays until the end of the walk, without references. */
	guard(rcu)();
	unwind_user_faults_off();
	state.regs = regs;
	state.in_place = true;
	if (!unwind_user_start(&state)) {
		state.code = &code;
		unwind_code_begin(&code, state.in_place);
		unwind_user_walk(&state, trace, max_entries);
		unwind_user_count(&state);
		if (code.wants_look)
			unwind_deferred_look(code.um ? &code.um->looks : NULL);
	}
	unwind_user_faults_on();
}
