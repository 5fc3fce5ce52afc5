// SPDX-License-Identifier: GPL-2.0
/*
 * What the unwinder of user space stacks has to know about x86.
 */

#include <linux/compat.h>
#include <linux/mm.h>
#include <linux/mmu_context.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/signal.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/unwind_rule.h>
#include <linux/unwind_user.h>
#include <linux/uprobes.h>

#include <asm/desc.h>
#include <asm/sections.h>
#include <asm/segment.h>
#include <asm/sigframe.h>
#include <asm/stacktrace.h>
#include <asm/unistd.h>
#include <asm/unwind_user.h>
#include <asm/vdso.h>
#include <asm/vsyscall.h>

/* mm->context.sigreturn of an mm that has more restorers than fit into it. */
#define SIGRETURN_SEVERAL	(~0ULL)

#define INSN_INT3		0xcc
#define INSN_PUSH_BP		0x55
#define INSN_RET		0xc3
#define INSN_RET_IMM16		0xc2

static bool arch_unwind_is_64bit_cs(unsigned int cs)
{
	struct pt_regs regs = { .cs = cs };

	return user_64bit_mode(&regs);
}

/*
 * The base of a segment that user space can have set up. The selector may come
 * from a signal frame. In the GDT, everything but the TLS entries belongs to the
 * kernel: the address of the TSS, for one, must not get into a trace.
 */
static unsigned long arch_unwind_segment_base(unsigned int segment)
{
	unsigned int idx = segment >> 3;

	if ((segment & SEGMENT_TI_MASK) ||
	    (idx >= GDT_ENTRY_TLS_MIN && idx <= GDT_ENTRY_TLS_MAX))
		return segment_base_address(segment);

	return 0;
}

/*
 * Set up word size and segment bases for a code and a stack selector. Returns
 * false if user space cannot be running with such a code selector.
 */
static bool arch_unwind_set_mode(struct unwind_user_state *state, unsigned int cs,
				 unsigned int ss)
{
	unsigned long flags;

	state->ip_base = 0;
	state->sp_base = 0;

	if (likely(arch_unwind_is_64bit_cs(cs))) {
		state->word_size = sizeof(u64);
		return true;
	}

	if (!IS_ENABLED(CONFIG_HAVE_UNWIND_USER_COMPAT_FP))
		return false;
	if (cs != __USER32_CS && !(cs & SEGMENT_TI_MASK))
		return false;

	state->word_size = sizeof(u32);
	if (cs == __USER32_CS && ss == __USER_DS)
		return true;

	/* Against install_ldt() in another thread, see segment_base_address(). */
	local_irq_save(flags);
	state->ip_base = arch_unwind_segment_base(cs);
	state->sp_base = arch_unwind_segment_base(ss);
	local_irq_restore(flags);
	return true;
}

/* Set the state to a place in user space, registers as far as known. */
static bool arch_unwind_set_regs(struct unwind_user_state *state, unsigned long ip,
				 unsigned long sp, unsigned long fp, unsigned int cs,
				 unsigned int ss)
{
	if (!arch_unwind_set_mode(state, cs, ss))
		return false;

	if (state->word_size == sizeof(u32)) {
		ip = (u32)(state->ip_base + ip);
		sp = (u32)sp;
		fp = (u32)fp;
	}

	state->ip = ip;
	state->sp = sp;
	state->fp = fp;
	return true;
}

/* The restorers of the signal actions in force, as many as there is room for. */
static void arch_unwind_init_sigreturn_several(struct unwind_user_state *state,
					       unsigned int nr)
{
	const struct sighand_struct *sighand;
	unsigned int i, j, found = 0;

	/* Nobody but current itself replaces it, at exec. */
	sighand = rcu_dereference_protected(current->sighand, true);

	for (i = 0; i < _NSIG && found < nr; i++) {
		struct sigaction sa;

		/*
		 * Another thread may change it meanwhile. That does not matter,
		 * arch_unwind_user_sigframe() checks the code anyway.
		 */
		data_race(sa = sighand->action[i].sa);
		if (!(sa.sa_flags & SA_RESTORER) || !sa.sa_restorer)
			continue;

		for (j = 0; j < found; j++) {
			if (state->sigreturn[j] == (unsigned long)sa.sa_restorer)
				break;
		}
		if (j == found)
			state->sigreturn[found++] = (unsigned long)sa.sa_restorer;
	}
}

#ifdef CONFIG_IA32_EMULATION
/* Where the vDSO for 32-bit code is mapped in current's mm, 0 if it is not. */
static unsigned long arch_unwind_vdso32_base(void)
{
	struct mm_struct *mm = current->mm;

	/* Another thread may be moving it, see vdso_mremap(). */
	if (READ_ONCE(mm->context.vdso_image) == &vdso_image_32)
		return (unsigned long)READ_ONCE(mm->context.vdso);
	return 0;
}
#endif

/* Get hold of the addresses that signal handlers of this mm return to. */
static void arch_unwind_init_sigreturn(struct unwind_user_state *state)
{
	struct mm_struct *mm = current->mm;
	u64 word = READ_ONCE(mm->context.sigreturn);
	unsigned long __maybe_unused vdso;

	memset(state->sigreturn, 0, sizeof(state->sigreturn));

	if (likely(is_64bit_mm(mm))) {
		if (likely(word != SIGRETURN_SEVERAL))
			state->sigreturn[0] = word;
		else
			arch_unwind_init_sigreturn_several(state, UNWIND_USER_SIGRETURNS);
		return;
	}

	if (word != SIGRETURN_SEVERAL) {
		state->sigreturn[0] = lower_32_bits(word);
		state->sigreturn[1] = upper_32_bits(word);
	} else {
		arch_unwind_init_sigreturn_several(state, 2);
	}

#ifdef CONFIG_IA32_EMULATION
	vdso = arch_unwind_vdso32_base();
	if (vdso) {
		state->sigreturn[2] = vdso + vdso_image_32.sym___kernel_sigreturn;
		state->sigreturn[3] = vdso + vdso_image_32.sym___kernel_rt_sigreturn;
	}
#endif
}

/**
 * arch_unwind_user_init - Set a state to the registers of user space
 * @state:	Gets registers, word size, segment bases and trampolines
 * @regs:	Registers with which current left user space
 *
 * Return: false if a stack like this cannot be walked.
 */
bool arch_unwind_user_init(struct unwind_user_state *state,
			   struct pt_regs *regs)
{
	if (v8086_mode(regs))
		return false;

	if (!arch_unwind_set_regs(state, regs->ip, regs->sp, regs->bp, regs->cs, regs->ss))
		return false;

	arch_unwind_init_sigreturn(state);
	return true;
}

/**
 * arch_unwind_regs_saved - Has the task saved its user registers in this entry?
 * @regs:	Registers at an event in the kernel; NULL: the caller asks for itself
 *
 * In the first instructions of an entry task_pt_regs() are those of an earlier one, in the
 * last ones they are being restored. The stack tells: it is the task's, below its
 * registers, or the one for interrupts, to which the kernel switches afterwards. Nothing is
 * known on the stacks of entries (where sync_regs() and thunks run, too) and of exceptions
 * such as NMI: what they have interrupted may be the entry code. (After an IRET that failed,
 * which a program can only bring on itself, registers other than IP and SP may be wrong.)
 *
 * Context: Any, NMI included.
 * Return: False if task_pt_regs() of the current task may be those of another entry.
 */
bool arch_unwind_regs_saved(const struct pt_regs *regs)
{
	unsigned long sp = regs ? regs->sp : current_stack_pointer;
	struct stack_info info;

	/* Where the stack pointer may be the user's, it can be any value. */
	if (regs && regs->ip >= (unsigned long)__entry_text_start &&
	    regs->ip < (unsigned long)__entry_text_end)
		return false;
	if (!get_stack_info_noinstr((unsigned long *)sp, current, &info))
		return false;
	return info.type == STACK_TYPE_IRQ ||
	       (info.type == STACK_TYPE_TASK && sp <= (unsigned long)task_pt_regs(current));
}

#ifdef CONFIG_UPROBES
/**
 * arch_unwind_user_uretprobe - Leave the trampoline of return probes
 * @state:	State with a topmost IP; if that is in the trampoline, it moves
 *		to the function which the probed one returns to
 */
void arch_unwind_user_uretprobe(struct unwind_user_state *state)
{
	unsigned long off = state->ip - state->uretprobe;
	unsigned long ip, sp = state->sp;
	bool done = false;
	int pushed = 0;

	if (state->word_size == sizeof(u64)) {
		pushed = arch_uretprobe_pushed(off, &done);
		if (pushed < 0)
			return;
	} else if (off > UPROBE_SWBP_INSN_SIZE) {
		/* At the breakpoint, or after it while the trap is handled */
		return;
	}

	/* What held the return address is right below the SP of that time. */
	sp += pushed;
	ip = uprobe_orig_ret_addr(sp - state->word_size);
	if (!ip && done && unwind_user_read(&ip, sp - sizeof(u64), sizeof(u64)))
		return;
	if (!ip)
		return;

	state->ip = ip;
	state->sp = sp;
}
#endif

/**
 * arch_unwind_user_sigaction - Note a restorer
 * @ka:	Signal action that has been installed
 *
 * A mm of the 64-bit kind keeps one restorer of any size, one of the 32-bit
 * kind two (for the two kinds of frames) of 32 bits each. Threads that do not
 * share their actions can be here for the same mm at the same time.
 */
void arch_unwind_user_sigaction(const struct k_sigaction *ka)
{
	unsigned long restorer = (unsigned long)ka->sa.sa_restorer;
	struct mm_struct *mm = current->mm;
	u64 old, new;

	if (!(ka->sa.sa_flags & SA_RESTORER) || !restorer || !mm)
		return;

	old = READ_ONCE(mm->context.sigreturn);
	do {
		new = SIGRETURN_SEVERAL;
		if (is_64bit_mm(mm)) {
			if (old == restorer)
				return;
			if (!old)
				new = restorer;
		} else {
			if (lower_32_bits(old) == restorer ||
			    upper_32_bits(old) == restorer)
				return;
			if (restorer > U32_MAX)
				new = SIGRETURN_SEVERAL;
			else if (!lower_32_bits(old))
				new = old | restorer;
			else if (!upper_32_bits(old))
				new = old | (u64)restorer << 32;
		}
	} while (!try_cmpxchg64(&mm->context.sigreturn, &old, new));
}

/*
 * Read code. If it crosses into a page that cannot be read, the bytes there are left alone;
 * so they are best 0, which does not occur in anything that is searched for. Returns false
 * if some are there, but cannot be waited for.
 */
static bool arch_unwind_read_code(unsigned long addr, u8 *code, unsigned int len)
{
	const unsigned int n = offset_in_page(addr) <= PAGE_SIZE - len ? len : 1;
	unsigned int i;
	int err = 0;

	for (i = 0; i < len && (!err || err == -EFAULT); i += n)
		err = unwind_user_read(&code[i], addr + i, n);
	return !err || err == -EFAULT;
}

/* Returns the bytes that have a uprobe, one bit each. */
static noinline unsigned int
arch_unwind_restore_breakpoints(const struct unwind_user_state *state, unsigned long addr,
				u8 *code, unsigned int len)
{
	unsigned int i, probed = 0;

	for (i = 0; i < len; i++) {
		if (unlikely(code[i] == INSN_INT3) &&
		    uprobe_orig_byte(addr + i, &code[i], state->in_place))
			probed |= BIT(i);
	}
	return probed;
}

/* Is one of the bytes an int3? */
static bool arch_unwind_has_breakpoint(u64 word)
{
	const u64 ones = 0x0101010101010101;

	/* The borrow sets the top bit of the lowest byte that became 0. */
	word ^= ones * INSN_INT3;
	return (word - ones) & ~word & (ones << 7);
}

/* f3 0f 1e fa is endbr64, f3 0f 1e fb is endbr32. */
static bool arch_unwind_at_endbr(const u8 *code)
{
	return code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e &&
	       (code[3] & 0xfe) == 0xfa;
}

/* [endbr] push %rbp */
static bool arch_unwind_at_push(const u8 *code)
{
	if (arch_unwind_at_endbr(code))
		code += 4;

	return code[0] == INSN_PUSH_BP;
}

/*
 * mov %rsp,%rbp in one of its two encodings; without the REX prefix it is
 * mov %esp,%ebp, for 32-bit and x32 code.
 */
static bool arch_unwind_at_mov(const u8 *code)
{
	if (code[0] == 0x48)
		code++;

	return (code[0] == 0x89 && code[1] == 0xe5) ||
	       (code[0] == 0x8b && code[1] == 0xec);
}

/* ret, or rep ret or bnd ret */
static bool arch_unwind_at_ret(const u8 *code)
{
	if ((code[0] & 0xfe) == 0xf2)
		code++;

	return code[0] == INSN_RET || code[0] == INSN_RET_IMM16;
}

/*
 * 32-bit system calls are made by way of __kernel_vsyscall(), which has pushed
 * %ecx, %edx and %ebp when it enters the kernel. %ebp is not a frame pointer there.
 */
static bool arch_unwind_at_vsyscall32(const struct unwind_user_state *state)
{
#ifdef CONFIG_IA32_EMULATION
	unsigned long vdso = arch_unwind_vdso32_base();

	return vdso && state->ip == vdso + vdso_image_32.sym_int80_landing_pad;
#else
	return false;
#endif
}

/**
 * arch_unwind_user_topmost - Find the caller of a function without a frame
 * @state:	State with a topmost IP
 * @word:	The rule, see UNWIND_WORD_TABLE
 *
 * A function that is about to set up its frame or that has just torn it down is
 * recognized by its code. An endbr64 that is not followed by push is no evidence,
 * since the targets of indirect jumps within a function have one too; but with a
 * uprobe on it, it is the entry of a function that sets up its frame later, or
 * never.
 *
 * Return: UNWIND_USER_FOUND; UNWIND_USER_NO_RULE; or UNWIND_USER_FAULT if the code is
 *	   not present.
 */
enum unwind_user_status
arch_unwind_user_topmost(const struct unwind_user_state *state,
			 u64 *word)
{
	const int word_size = state->word_size;
	unsigned long addr = state->ip - 1;
	unsigned int probed = 0;
	union {
		u64	word;
		u8	byte[sizeof(u64)];
	} code = {};

	/* The return address is on top of the stack, the FP is the caller's. */
	*word = UNWIND_WORD(0, word_size, word_size);

	if (unlikely(state->ip >= TASK_SIZE_MAX)) {
		/* A vsyscall consists of a system call and a ret. */
		return is_vsyscall_vaddr(state->ip) ? UNWIND_USER_FOUND :
						      UNWIND_USER_NO_RULE;
	}

	if (word_size == sizeof(u32) && arch_unwind_at_vsyscall32(state)) {
		*word = UNWIND_WORD(0, 4 * word_size, 4 * word_size);
		return UNWIND_USER_FOUND;
	}

	/* The byte before the IP, and what is needed of those from there. */
	if (!arch_unwind_read_code(addr, code.byte, sizeof(code)))
		return UNWIND_USER_FAULT;
	if (unlikely(arch_unwind_has_breakpoint(code.word)))
		probed = arch_unwind_restore_breakpoints(state, addr, code.byte, 6);

	if ((probed & BIT(1)) && arch_unwind_at_endbr(&code.byte[1]))
		return UNWIND_USER_FOUND;

	if (arch_unwind_at_push(&code.byte[1]) || arch_unwind_at_ret(&code.byte[1]))
		return UNWIND_USER_FOUND;

	if (code.byte[0] == INSN_PUSH_BP && arch_unwind_at_mov(&code.byte[1])) {
		*word = UNWIND_WORD(0, 2 * word_size, word_size);
		return UNWIND_USER_FOUND;
	}

	return UNWIND_USER_NO_RULE;
}

/**
 * arch_unwind_user_epilogue - Find the caller by the end of a function
 * @state:	State with 64-bit code in memory of no file
 * @word:	The rule, see UNWIND_WORD_TABLE
 *
 * Where code that was made at run time goes on after a call by taking down its frame and
 * returning, it says exactly where that is.
 *
 * Return: UNWIND_USER_FOUND; UNWIND_USER_NO_RULE if it does something else; or
 *	   UNWIND_USER_FAULT if the code is not present.
 */
enum unwind_user_status
arch_unwind_user_epilogue(const struct unwind_user_state *state, u64 *word)
{
	u8 code[24 + 2] = {};	/* with an end */
	const u8 *p = code;
	bool is_short = false;
	s64 off = 0, fp_off = -1;

	if (!arch_unwind_read_code(state->ip, code, 24))
		return UNWIND_USER_FAULT;

	/* leave */
	if (p[0] == 0xc9 && arch_unwind_at_ret(&p[1])) {
		*word = unwind_word_fp(sizeof(u64));
		return UNWIND_USER_FOUND;
	}
	if (p[0] == 0x48 && (p[1] == 0x81 || p[1] == 0x83) && p[2] == 0xc4) {
		/* add $n,%rsp */
		is_short = p[1] == 0x83;
		p += 3;
	} else if (p[0] == 0x48 && p[1] == 0x8d && (p[2] == 0x64 || p[2] == 0xa4) &&
		   p[3] == 0x24) {
		/* lea n(%rsp),%rsp */
		is_short = p[2] == 0x64;
		p += 4;
	}
	if (p > code) {
		off = is_short ? (s8)*p : (s32)get_unaligned_le32(p);
		p += is_short ? 1 : 4;
	}
	if (off < 0 || off > SZ_1G || off & (sizeof(u64) - 1))
		return UNWIND_USER_NO_RULE;

	/* pop, of a register that is not %rsp */
	for (;; p++, off += sizeof(u64)) {
		if (*p == 0x5d)
			fp_off = off;
		else if (*p == 0x41 && (p[1] & 0xf8) == 0x58)
			p++;
		else if ((*p & 0xf8) != 0x58 || *p == 0x5c)
			break;
	}
	if (!arch_unwind_at_ret(p))
		return UNWIND_USER_NO_RULE;

	off += sizeof(u64);
	*word = UNWIND_WORD(0, off, fp_off < 0 ? sizeof(u64) : off - fp_off);
	return UNWIND_USER_FOUND;
}

enum sigframe_kind {
	SIGFRAME_NONE,
	SIGFRAME_ABSENT,
	SIGFRAME_RT,
	SIGFRAME_X32_RT,
	SIGFRAME_IA32,
	SIGFRAME_IA32_RT,
};

/*
 * Which system call does the trampoline at @addr make? @off is how far the IP is
 * in it. @popped gets the number of bytes that the trampoline has taken off the
 * stack at the IP.
 */
static enum sigframe_kind
arch_unwind_decode_sigreturn(const struct unwind_user_state *state, unsigned long addr,
			     unsigned long off, unsigned int *popped)
{
	const bool is_64bit = state->word_size == sizeof(u64);
	u8 code[ARCH_UNWIND_USER_SIGRETURN_LEN + 1] = {};
	const u8 *p = code;
	bool pop = false;
	u32 nr;

	*popped = 0;
	if (!arch_unwind_read_code(addr, code, ARCH_UNWIND_USER_SIGRETURN_LEN))
		return SIGFRAME_ABSENT;
	arch_unwind_restore_breakpoints(state, addr, code, ARCH_UNWIND_USER_SIGRETURN_LEN);

	if (arch_unwind_at_endbr(p))
		p += 4;

	if (!is_64bit && *p == 0x58) {
		/* pop %eax */
		p++;
		pop = true;
		if (off >= p - code)
			*popped = sizeof(u32);
	}

	if (is_64bit && p[0] == 0x48 && p[1] == 0xc7 && p[2] == 0xc0) {
		/* mov $nr, %rax */
		nr = get_unaligned_le32(p + 3);
		p += 7;
	} else if (p[0] == 0xb8) {
		/* mov $nr, %eax */
		nr = get_unaligned_le32(p + 1);
		p += 5;
	} else {
		return SIGFRAME_NONE;
	}

	/* syscall, or int $0x80 */
	if (get_unaligned_le16(p) != (is_64bit ? 0x050f : 0x80cd))
		return SIGFRAME_NONE;
	p += 2;

	if (off > p - code)
		return SIGFRAME_NONE;

	if (is_64bit) {
		if (nr == __NR_rt_sigreturn)
			return SIGFRAME_RT;
		if (nr == (__X32_SYSCALL_BIT | __NR_x32_rt_sigreturn))
			return SIGFRAME_X32_RT;
		return SIGFRAME_NONE;
	}

	if (pop && nr == __NR_ia32_sigreturn)
		return SIGFRAME_IA32;
	if (!pop && nr == __NR_ia32_rt_sigreturn)
		return SIGFRAME_IA32_RT;
	return SIGFRAME_NONE;
}

/* The part of a struct sigcontext_32 or _64 that a walk goes on from. */
struct saved_regs {
	unsigned long	ip;
	unsigned long	sp;
	unsigned long	bp;
	unsigned int	cs;
	unsigned int	ss;
};

static bool arch_unwind_read_sigcontext(unsigned long addr, struct saved_regs *saved)
{
	struct sigcontext_64 sc;

	if (unwind_user_read(&sc, addr, offsetof(struct sigcontext_64, err)))
		return false;

	saved->ip = sc.ip;
	saved->sp = sc.sp;
	saved->bp = sc.bp;
	saved->cs = sc.cs;
	saved->ss = sc.ss;
	return true;
}

#ifdef CONFIG_IA32_EMULATION
static bool arch_unwind_read_sigcontext_32(unsigned long addr, struct saved_regs *saved)
{
	struct sigcontext_32 sc;

	if (unwind_user_read(&sc, addr, sizeof(sc)))
		return false;

	saved->ip = sc.ip;
	saved->sp = sc.sp;
	saved->bp = sc.bp;
	saved->cs = sc.cs;
	saved->ss = sc.ss;
	return true;
}
#endif

static bool arch_unwind_read_sigframe(const struct unwind_user_state *state,
				      enum sigframe_kind kind, unsigned int popped,
				      struct saved_regs *saved)
{
	/* The handler's return has popped the first word of the frame. */
	unsigned long frame = state->sp - state->word_size - popped;

	switch (kind) {
	case SIGFRAME_RT:
		frame += offsetof(struct rt_sigframe, uc.uc_mcontext);
		return arch_unwind_read_sigcontext(frame, saved);
#ifdef CONFIG_X86_X32_ABI
	case SIGFRAME_X32_RT:
		frame += offsetof(struct rt_sigframe_x32, uc.uc_mcontext);
		return arch_unwind_read_sigcontext(frame, saved);
#endif
#ifdef CONFIG_IA32_EMULATION
	case SIGFRAME_IA32:
		frame += offsetof(struct sigframe_ia32, sc);
		frame = (u32)(state->sp_base + frame);
		return arch_unwind_read_sigcontext_32(frame, saved);
	case SIGFRAME_IA32_RT:
		frame += offsetof(struct rt_sigframe_ia32, uc.uc_mcontext);
		frame = (u32)(state->sp_base + frame);
		return arch_unwind_read_sigcontext_32(frame, saved);
#endif
	default:
		return false;
	}
}

/**
 * arch_unwind_user_sigframe - Pass a signal frame
 * @state:	State whose IP is at a signal return trampoline or, if it is topmost,
 *		anywhere in one; on success it moves to the interrupted code
 *
 * Return: UNWIND_USER_FOUND, UNWIND_USER_NO_RULE if it is no such trampoline,
 *	   or what is wrong with the frame.
 */
enum unwind_user_status
arch_unwind_user_sigframe(struct unwind_user_state *state)
{
	unsigned long max = state->topmost ? ARCH_UNWIND_USER_SIGRETURN_LEN : 0;
	struct saved_regs saved;
	enum sigframe_kind kind;
	unsigned int i, popped;
	unsigned long off = 0;

	for (i = 0; i < UNWIND_USER_SIGRETURNS; i++) {
		off = state->ip - state->sigreturn[i];
		if (state->sigreturn[i] && off <= max)
			break;
	}
	if (i == UNWIND_USER_SIGRETURNS)
		return UNWIND_USER_NO_RULE;

	kind = arch_unwind_decode_sigreturn(state, state->sigreturn[i], off, &popped);
	if (kind == SIGFRAME_NONE)
		return UNWIND_USER_NO_RULE;

	if (kind == SIGFRAME_ABSENT || !arch_unwind_read_sigframe(state, kind, popped, &saved))
		return UNWIND_USER_FAULT;

	/* As sigreturn does, but selectors that would fault are refused here. */
	if (!arch_unwind_set_regs(state, saved.ip, saved.sp, saved.bp,
				  saved.cs | USER_RPL, saved.ss | USER_RPL))
		return UNWIND_USER_CORRUPT;

	return UNWIND_USER_FOUND;
}
