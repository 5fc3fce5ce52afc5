// SPDX-License-Identifier: GPL-2.0
/*
 * Walking the frames that SFrame tables describe.
 *
 * An ordinary rule fits into a word, and what was found for an address is kept
 * in a small cache per mm. So most frames take no more than a look there and one
 * or two at the stack, and several of them are followed in one go; the frames of
 * code without tables among them by the frame pointer. Whatever is not ordinary
 * is left to unwind_user_next_sframe().
 *
 * Tables cannot make a walk longer than the trace has room: each frame must move
 * the stack pointer up. How long a frame may take is bounded by the decoder, by
 * the budget of rows and by the number of faults that a walk puts up with.
 */

#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>

#include <asm/sframe.h>

#include "sframe.h"
#include "sframe_sections.h"
#include "user.h"

#include <trace/events/unwind.h>

/*
 * Searches for a table that fail, each after whatever it takes to find out,
 * before a walk does without tables.
 */
#define UNWIND_USER_MAX_FAULTS	8

/* The address whose rule is the frame's: a call may be the last instruction. */
static unsigned long frame_pc(const struct unwind_user_state *state)
{
	return state->ip - !state->topmost;
}

/* Is this code that is known to have no table? */
static __always_inline bool
is_none(const struct unwind_user_sframe *sframe, unsigned long pc)
{
	return pc - sframe->none_start < sframe->none_len;
}

static void set_none(struct unwind_user_sframe *sframe, unsigned long start,
		     unsigned long end)
{
	sframe->none_start = start;
	sframe->none_len = end - start;
}

/* Forget what may have been unmapped meanwhile. */
static void unwind_user_sframe_sync(struct unwind_user_sframe *sframe)
{
	/*
	 * Pairs with next_gen(): what has gone by then is not found any more,
	 * so it does not get into the cache for the new generation.
	 */
	u64 gen = smp_load_acquire(&sframe->sm->gen);

	if (likely(gen == sframe->gen))
		return;

	sframe_entry_put(sframe->entry);
	sframe->entry = NULL;
	sframe->gen = gen;
	sframe->mix = sframe_gen_mix(gen);
	sframe->none_len = 0;
}

/**
 * unwind_user_sframe_start - Begin to use tables in a walk
 * @state:	State at the first frame
 * @sframe:	What the walk keeps; must live as long as the walk
 */
void unwind_user_sframe_start(struct unwind_user_state *state,
			      struct unwind_user_sframe *sframe)
{
	const struct sframe_entry *none;

	state->sframe = sframe;
	sframe->sm = NULL;
	if (state->word_size != sizeof(u64))
		return;
	sframe->sm = sframe_mm_get();
	if (!sframe->sm)
		return;

	sframe->entry = NULL;
	sframe->gen = 0;
	sframe->budget = SFRAME_MAX_ROWS_TRACE;
	sframe->faults = 0;
	unwind_user_sframe_sync(sframe);

	guard(rcu)();
	none = rcu_dereference(sframe->sm->none);
	if (none)
		set_none(sframe, none->start, none->end);
}

/**
 * unwind_user_sframe_end - End a walk
 * @state:	State at the last frame
 * @nr:		Number of frames
 */
void unwind_user_sframe_end(struct unwind_user_state *state, unsigned int nr)
{
	trace_unwind_user_done(state, nr);

	if (state->sframe->sm)
		sframe_entry_put(state->sframe->entry);
}

static __always_inline bool slot_has(const struct sframe_slot *slot, u64 *word,
				     unsigned long pc, u64 mix)
{
	u64 tag;

	*word = READ_ONCE(slot->word);
	tag = sframe_slot_tag(pc, *word, mix);
	return READ_ONCE(slot->tag) == tag;
}

/* Is there a word for an address? */
static __always_inline bool cache_get(const struct sframe_set *cache,
				      unsigned long pc, u64 mix, u64 *word)
{
	const struct sframe_slot *slots = cache[sframe_set_index(pc)].slots;

	/* No loop: that would be as long again as what is to be done. */
	BUILD_BUG_ON(SFRAME_WAYS != 4);

	return likely(slot_has(&slots[0], word, pc, mix)) ||
	       slot_has(&slots[1], word, pc, mix) ||
	       slot_has(&slots[2], word, pc, mix) ||
	       slot_has(&slots[3], word, pc, mix);
}

/* The newest comes first, where it is found fast; any other has to go. */
static void cache_set(const struct unwind_user_sframe *sframe,
		      unsigned long pc, u64 word)
{
	struct sframe_mm *sm = sframe->sm;
	struct sframe_slot *slots = sm->cache[sframe_set_index(pc)].slots;
	unsigned int way;

	/* If two have the same way, that is as good as any other. */
	way = data_race(sm->next_way++) % SFRAME_WAYS;
	WRITE_ONCE(slots[way].word, READ_ONCE(slots[0].word));
	WRITE_ONCE(slots[way].tag, READ_ONCE(slots[0].tag));
	WRITE_ONCE(slots[0].word, word);
	WRITE_ONCE(slots[0].tag, sframe_slot_tag(pc, word, sframe->mix));
}

/*
 * It cannot be told whether there is a table. It is not worth trying again in
 * this walk, and too many of these could be somebody's way to keep the task busy.
 */
static void note_fault(struct unwind_user_sframe *sframe, unsigned long start,
		       unsigned long end)
{
	set_none(sframe, start, end);
	if (++sframe->faults < UNWIND_USER_MAX_FAULTS)
		return;

	sframe_entry_put(sframe->entry);
	sframe->entry = NULL;
	sframe->sm = NULL;
}

/* find_entry() where it is not the one used last. */
static noinline struct sframe_entry *
find_other_entry(struct unwind_user_sframe *sframe, unsigned long pc)
{
	struct sframe_entry *entry;
	unsigned long start, end;

	sframe_entry_put(sframe->entry);
	sframe->entry = NULL;
	entry = sframe_entry_get(sframe->sm, pc);
	if (!entry)
		entry = sframe_discover(sframe->sm, pc, &start, &end);
	if (!entry)
		note_fault(sframe, start, end);
	else if (!IS_ERR(entry))
		sframe->entry = entry;
	return entry;
}

/*
 * The entry for an address; NULL if there is none, or an ERR_PTR() if there is
 * a table that cannot be read. The reference belongs to the walk.
 */
static struct sframe_entry *
find_entry(struct unwind_user_sframe *sframe, unsigned long pc)
{
	unwind_user_sframe_sync(sframe);
	if (likely(sframe->entry && sframe_entry_has(sframe->entry, pc)))
		return sframe->entry;

	return find_other_entry(sframe, pc);
}

/* Registers other than SP and FP are known where the task left user space. */
static bool read_reg(const struct unwind_user_state *state, unsigned int reg,
		     unsigned long *val)
{
	if (reg == SFRAME_REG_SP)
		*val = state->sp;
	else if (reg == SFRAME_REG_FP)
		*val = state->fp;
	else if (state->topmost && !state->signals)
		*val = sframe_arch_reg(task_pt_regs(current), reg);
	else
		return false;
	return true;
}

/*
 * Evaluate one part of a rule. @slot gets the address that the value was read
 * from, or 0.
 */
static enum unwind_user_status
eval_loc(const struct unwind_user_state *state, const struct sframe_loc *loc,
	 unsigned long cfa, unsigned long *val, unsigned long *slot)
{
	bool deref = false;

	*slot = 0;
	switch (loc->where) {
	case SFRAME_SAME:
		*val = state->fp;
		return UNWIND_USER_FOUND;
	case SFRAME_CFA_DEREF:
		deref = true;
		fallthrough;
	case SFRAME_CFA:
		*val = cfa;
		break;
	case SFRAME_REG_DEREF:
		deref = true;
		fallthrough;
	case SFRAME_REG:
		if (!read_reg(state, loc->reg, val))
			return UNWIND_USER_NO_ANSWER;
		break;
	default:
		return UNWIND_USER_NO_ANSWER;
	}

	*val += loc->off;
	if (!deref)
		return UNWIND_USER_FOUND;

	*slot = *val;
	return get_user(*val, (unsigned long __user *)*slot) ?
	       UNWIND_USER_FAULT : UNWIND_USER_FOUND;
}

static bool cfa_ok(const struct unwind_user_state *state, unsigned long cfa)
{
	return cfa > state->sp && IS_ALIGNED(cfa, sizeof(u64));
}

/*
 * The rule of a signal frame: what it leads to was interrupted, not called. It
 * has been seen that the stack pointer moves up, yet these count as the other
 * signal frames do.
 */
static enum unwind_user_status next_interrupted(struct unwind_user_state *state)
{
	if (++state->signals > UNWIND_USER_MAX_SIGNALS)
		return UNWIND_USER_CORRUPT;

	state->topmost = true;
	return UNWIND_USER_FOUND;
}

/* Move on to the caller by a rule of any kind. */
static enum unwind_user_status next_by_rule(struct unwind_user_state *state,
					    const struct sframe_rule *rule)
{
	unsigned long cfa, ra, fp, slot, ra_slot;
	enum unwind_user_status status;

	if (rule->outermost)
		return UNWIND_USER_END;

	status = eval_loc(state, &rule->cfa, 0, &cfa, &slot);
	if (status != UNWIND_USER_FOUND)
		return status;
	if (!cfa_ok(state, cfa))
		return UNWIND_USER_CORRUPT;

	status = eval_loc(state, &rule->ra, cfa, &ra, &ra_slot);
	if (status == UNWIND_USER_FOUND)
		status = eval_loc(state, &rule->fp, cfa, &fp, &slot);
	if (status == UNWIND_USER_FOUND)
		status = unwind_user_to_caller(state, cfa, fp, ra, ra_slot);
	if (status == UNWIND_USER_FOUND && rule->signal)
		status = next_interrupted(state);
	return status;
}

/* The caller's registers, in one window; @fp stays as it is without @fp_off. */
static bool read_frame(unsigned long cfa, s32 fp_off, unsigned long *ra,
		       unsigned long *fp)
{
	const void __user *from = (const void __user *)(cfa - sizeof(u64));

	from = masked_user_access_begin(from);
	unsafe_get_user(*ra, (const u64 __user *)from, fault);
	if (fp_off) {
		from = mask_user_address((const void __user *)(cfa + fp_off));
		unsafe_get_user(*fp, (const u64 __user *)from, fault);
	}
	user_access_end();
	return true;
fault:
	user_access_end();
	return false;
}

/* The same by an ordinary rule. */
static enum unwind_user_status next_by_word(struct unwind_user_state *state,
					    u64 word)
{
	unsigned long cfa, ra, fp = state->fp;
	s32 fp_off = sframe_word_fp_off(word);

	if (word & SFRAME_WORD_OUTERMOST)
		return UNWIND_USER_END;

	cfa = word & SFRAME_WORD_USE_FP ? state->fp : state->sp;
	cfa += sframe_word_cfa_off(word);
	if (!cfa_ok(state, cfa))
		return UNWIND_USER_CORRUPT;

	if (!read_frame(cfa, fp_off, &ra, &fp))
		return UNWIND_USER_FAULT;

	return unwind_user_to_caller(state, cfa, fp, ra, cfa - sizeof(u64));
}

/* The frames to come, and the next walk, are likely to be in the same code. */
static void note_none(struct unwind_user_sframe *sframe,
		      struct sframe_entry *entry)
{
	set_none(sframe, entry->start, entry->end);
	sframe_entry_note_none(sframe->sm, entry);
}

/*
 * Look a rule up in the table for an address, which the cache does not know.
 * What can be kept is in the cache then, @rule is for what cannot. If there is
 * none, that is in the cache, or the walk knows not to ask again.
 *
 * A table that cannot be read ends the walk: code that has one needs no frame
 * pointer, so that where the register leads to would be made up.
 */
static enum unwind_user_status look_up(struct unwind_user_sframe *sframe,
				       unsigned long pc,
				       struct sframe_rule *rule)
{
	enum sframe_status status;
	struct sframe_entry *entry;

	entry = find_entry(sframe, pc);
	if (IS_ERR_OR_NULL(entry))
		return entry ? UNWIND_USER_FAULT : UNWIND_USER_NO_ANSWER;

	if (unlikely(READ_ONCE(entry->reason))) {
		note_none(sframe, entry);
		cache_set(sframe, pc, SFRAME_WORD_NONE);
		return UNWIND_USER_NO_ANSWER;
	}

	status = sframe_find_user(&entry->sec, pc, rule, &sframe->budget);
	if (likely(status == SFRAME_OK)) {
		if (rule->word)
			cache_set(sframe, pc, rule->word);
		return UNWIND_USER_FOUND;
	}

	if (status == SFRAME_FAULT)
		return UNWIND_USER_FAULT;
	if (sframe_is_bad(status))
		sframe_entry_bad(sframe->sm, entry, status);
	else if (status != SFRAME_BUDGET)
		cache_set(sframe, pc, SFRAME_WORD_NONE);
	return UNWIND_USER_NO_ANSWER;
}

/* Is there an ordinary rule, which is a word? */
static bool look_up_word(struct unwind_user_sframe *sframe, unsigned long pc,
			 u64 *word)
{
	struct sframe_rule rule __uninitialized;

	if (look_up(sframe, pc, &rule) != UNWIND_USER_FOUND)
		return false;
	*word = rule.word;
	return rule.word;
}

static enum unwind_user_status next_uncached(struct unwind_user_state *state,
					     unsigned long pc)
{
	struct sframe_rule rule __uninitialized;
	enum unwind_user_status status;

	status = look_up(state->sframe, pc, &rule);
	if (status != UNWIND_USER_FOUND)
		return unwind_user_killed() ? UNWIND_USER_KILLED : status;
	if (!rule.word)
		return next_by_rule(state, &rule);
	return next_by_word(state, rule.word);
}

/**
 * unwind_user_next_sframe - Find the caller of a frame by an SFrame table
 * @state:	State, for which unwind_user_has_sframe()
 *
 * Return: UNWIND_USER_FOUND, UNWIND_USER_NO_ANSWER if no table is known to have
 *	   the address or can be used, or why there is no caller.
 */
enum unwind_user_status
unwind_user_next_sframe(struct unwind_user_state *state)
{
	struct unwind_user_sframe *sframe = state->sframe;
	unsigned long pc = frame_pc(state);
	u64 word;

	if (is_none(sframe, pc))
		return UNWIND_USER_NO_ANSWER;

	state->type = UNWIND_USER_TYPE_SFRAME;

	if (!cache_get(sframe->sm->cache, pc, sframe->mix, &word))
		return next_uncached(state, pc);
	if (word == SFRAME_WORD_NONE)
		return UNWIND_USER_NO_ANSWER;
	return next_by_word(state, word);
}

/*
 * There were many frames without a table. If each of them was asked for in the
 * cache, note the code that one in their middle is in: what was noted last can
 * be the library that has the first frames of all stacks, and no others.
 */
static noinline void note_many_none(struct unwind_user_sframe *sframe,
				    unsigned long pc)
{
	struct sframe_entry *entry;

	/* A search that failed may have been one too many. */
	if (!sframe->sm || is_none(sframe, pc))
		return;

	entry = sframe_entry_get(sframe->sm, pc);
	if (!entry)
		return;
	if (READ_ONCE(entry->reason))
		note_none(sframe, entry);
	sframe_entry_put(entry);
}

/* In words that say something else than where the caller's registers are */
#define SFRAME_WORD_OTHER	((SFRAME_WORD_OUTERMOST | SFRAME_WORD_NONE) & \
				 ~SFRAME_WORD_VALID)

/* Nothing but an address of the program: 0 is the end. */
static __always_inline bool is_plain_ra(const struct unwind_user_state *state,
					unsigned long ra, unsigned long max,
					unsigned long special_len)
{
	return ra - 1 < max &&
	       (likely(ra - state->special_min > special_len) ||
		!unwind_user_is_special(state, ra));
}

/*
 * Follow up to @room frames with user access enabled once, and without a call,
 * by rules from the cache or by the frame pointer where those say that there is
 * no table. Looking up what is not in the cache is an interruption of that.
 *
 * At the first frame that is not ordinary, for whatever reason, stop without
 * having touched it: unwind_user_next() finds out what it is.
 *
 * As in unwind_user_fp_window() every pointer is masked before it is followed,
 * which is the range check too.
 */
static unsigned int
unwind_user_sframe_window(struct unwind_user_state *state,
			  unsigned long *entries, unsigned int room)
{
	struct unwind_user_sframe *sframe = state->sframe;
	const struct sframe_set *cache = sframe->sm->cache;
	unsigned long ip = state->ip, sp = state->sp, fp = state->fp;
	unsigned long *entry = entries, *end = entries + room;
	unsigned long special_len = state->special_max - state->special_min;
	const unsigned long max = TASK_SIZE_MAX - 1;
	unsigned int nr_fp = 0;
	bool fp_end = false;

	masked_user_access_begin((const void __user *)sp);

	while (entry < end) {
		unsigned long pc = ip - 1, cfa, ra, next = fp;
		const void __user *from;
		u64 word = SFRAME_WORD_NONE;

		if (!is_none(sframe, pc) &&
		    !cache_get(cache, pc, sframe->mix, &word)) {
			bool found;

			user_access_end();
			found = look_up_word(sframe, pc, &word);
			masked_user_access_begin((const void __user *)sp);
			if (!found)
				break;
		}

		if (likely(!(word & SFRAME_WORD_OTHER))) {
			s32 fp_off = sframe_word_fp_off(word);

			cfa = word & SFRAME_WORD_USE_FP ? fp : sp;
			cfa += sframe_word_cfa_off(word);
			if (cfa <= sp || !IS_ALIGNED(cfa, sizeof(u64)))
				break;

			from = (const void __user *)(cfa - sizeof(u64));
			from = mask_user_address(from);
			unsafe_get_user(ra, (const u64 __user *)from, out);
			if (fp_off) {
				from = (const void __user *)(cfa + fp_off);
				from = mask_user_address(from);
				unsafe_get_user(next, (const u64 __user *)from,
						out);
			}
			if (!is_plain_ra(state, ra, max, special_len))
				break;
		} else if (word == SFRAME_WORD_NONE &&
			   unwind_user_fp_ok(fp, sp, sizeof(u64))) {
			cfa = fp + 2 * sizeof(u64);
			from = mask_user_address((const void __user *)fp);
			unsafe_get_user(next, (const u64 __user *)from, out);
			unsafe_get_user(ra, (const u64 __user *)from + 1, out);
			if (!is_plain_ra(state, ra, max, special_len))
				break;
			nr_fp++;
		} else {
			fp_end = word == SFRAME_WORD_NONE;
			break;
		}

		*entry++ = ra;
		ip = ra;
		sp = cfa;
		fp = next;
	}
out:
	user_access_end();

	if (entry > entries) {
		state->ip = ip;
		state->sp = sp;
		state->fp = fp;
		state->frames[UNWIND_USER_TYPE_FP] += nr_fp;
		state->frames[UNWIND_USER_TYPE_SFRAME] += entry - entries - nr_fp;
	}
	if (nr_fp > UNWIND_USER_WINDOW / 2)
		note_many_none(sframe, entries[nr_fp / 2] - 1);
	if (fp_end)
		unwind_user_fp_end(state);
	return entry - entries;
}

/**
 * unwind_user_sframe_run - Add the frames that can be found fast
 * @state:	State at a caller's frame, for which unwind_user_has_sframe(). It
 *		becomes that of the last entry, and done if there is no next
 * @entries:	Where to put the addresses
 * @room:	How many of them
 *
 * Does what unwind_user_next() does for as long as that would use an ordinary
 * rule or the frame pointer, and succeed.
 *
 * Return: Number of entries added.
 */
unsigned int unwind_user_sframe_run(struct unwind_user_state *state,
				    unsigned long *entries, unsigned int room)
{
	const struct unwind_user_sframe *sframe = state->sframe;
	unsigned int n, chunk, nr = 0;

	while (nr < room) {
		bool by_fp = is_none(sframe, state->ip - 1);

		if (unwind_user_killed())
			break;

		chunk = min(room - nr, UNWIND_USER_WINDOW);
		if (by_fp)
			n = unwind_user_fp_frames(state, entries + nr, chunk,
						  sframe->none_start,
						  sframe->none_len);
		else
			n = unwind_user_sframe_window(state, entries + nr, chunk);
		nr += n;

		/* Most programs have tables throughout, or none. */
		if (n < chunk && by_fp && !is_none(sframe, state->ip - 1))
			continue;
		if (n < chunk) {
			if (by_fp && !unwind_user_fp_ok(state->fp, state->sp,
							sizeof(u64)))
				unwind_user_fp_end(state);
			break;
		}
	}

	return nr;
}
