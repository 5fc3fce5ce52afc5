// SPDX-License-Identifier: GPL-2.0
/*
 * The provider of rules that SFrame tables have.
 *
 * What was found for an address is kept in a cache per mm. Here is what happens
 * if it is not there: find the table for the address, and the rule in the table.
 *
 * Tables cannot make a walk longer than the trace has room, since each frame
 * must move the stack pointer up. How long a frame may take is bounded by the
 * decoder and by the walk's budget of rows.
 */

#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/unwind_rule.h>

#include "rule_cache.h"
#include "sframe.h"
#include "sframe_mm.h"
#include "user.h"

/* Forget what may have been unmapped meanwhile. */
static void tables_sync(struct unwind_user_tables *tables)
{
	/*
	 * Pairs with next_gen(): what has gone by then is not found any more,
	 * so it does not get into the cache for the new generation.
	 */
	u64 gen = smp_load_acquire(&tables->sm->gen);

	if (likely(gen == tables->gen))
		return;

	sframe_entry_put(tables->entry);
	tables->entry = NULL;
	tables->gen = gen;
	tables->mix = rule_cache_mix(gen);
	sframe_bare_last(tables->sm, tables->bare);
}

/**
 * unwind_user_tables_begin - Use tables in a walk
 * @tables:	What the walk keeps: all code is bare
 *
 * A task that exits, or that must not wait for memory, gets no store if its mm
 * has none. It is walked as if there were no tables.
 */
void unwind_user_tables_begin(struct unwind_user_tables *tables)
{
	struct sframe_mm *sm = sframe_mm_of(current->mm);

	if (unlikely(!sm) && !(current->flags & PF_EXITING) &&
	    !pagefault_disabled())
		sm = sframe_mm_get(SFRAME_GFP);
	if (!sm)
		return;

	tables->sm = sm;
	/* Pairs with cmpxchg() in sframe_mm_cache(). */
	tables->cache = smp_load_acquire(&sm->cache);
	tables->entry = NULL;
	tables->gen = 0;
	tables->budget = SFRAME_MAX_ROWS_TRACE;
	tables_sync(tables);
}

/**
 * unwind_user_tables_end - End the use of tables in a walk
 * @tables:	What unwind_user_tables_begin() got
 */
void unwind_user_tables_end(struct unwind_user_tables *tables)
{
	if (tables->sm)
		sframe_entry_put(tables->entry);
}

static void remember(const struct unwind_user_tables *tables, unsigned long pc,
		     u64 word)
{
	if (likely(tables->cache))
		rule_cache_set(tables->cache, pc, tables->mix, word);
}

static enum unwind_user_status remember_stop(const struct unwind_user_tables *tables,
					     unsigned long pc,
					     enum unwind_user_status status)
{
	remember(tables, pc, UNWIND_WORD_STOP(status));
	return status;
}

static enum unwind_user_status set_bare(struct unwind_user_tables *tables,
					const struct sframe_range *range)
{
	struct unwind_user_bare *bare = &tables->bare[sframe_bare_slot(range)];

	bare->start = range->start;
	bare->len = range->end - range->start;
	return UNWIND_USER_NO_RULE;
}

/* An entry without a table stands for one that could not be read a while ago. */
static bool entry_is_stale(const struct sframe_entry *entry)
{
	return !entry->has_table && time_after(jiffies, entry->retry);
}

/*
 * Set @tables->entry to the entry for an address. Or to NULL, and return why
 * there is none: UNWIND_USER_NO_RULE if the code is bare.
 */
static enum unwind_user_status find_entry(struct unwind_user_tables *tables,
					  unsigned long pc)
{
	struct sframe_mm *sm = tables->sm;
	struct sframe_range range;

	tables_sync(tables);
	if (likely(tables->entry && sframe_entry_has(tables->entry, pc)))
		return UNWIND_USER_FOUND;

	if (sframe_bare_find(sm, pc, &range))
		return set_bare(tables, &range);

	sframe_entry_put(tables->entry);
	tables->entry = sframe_entry_get(sm, pc);
	if (tables->entry && unlikely(entry_is_stale(tables->entry))) {
		sframe_entry_drop(sm, tables->entry);
		sframe_entry_put(tables->entry);
		tables->entry = NULL;
	}
	if (!tables->entry) {
		enum unwind_user_status status;

		status = sframe_discover(sm, pc, &tables->entry, &range);
		if (status == UNWIND_USER_NO_RULE)
			return set_bare(tables, &range);
		if (status != UNWIND_USER_FOUND)
			return status;
	}

	if (unlikely(!tables->cache))
		tables->cache = sframe_mm_cache(sm);
	return UNWIND_USER_FOUND;
}

/**
 * unwind_user_table_rule - Find the rule for an address in its table
 * @tables:	What the walk keeps, @tables->sm is set
 * @pc:		Address, which is not in the cache and not known to be bare
 * @rule:	The rule; its word is 0 if it has only the long form
 *
 * What fits into a word is in the cache then, and so is the answer if there is
 * no rule. Code without table is noted in @tables.
 *
 * Context: Process context, may sleep and take page faults.
 * Return: UNWIND_USER_FOUND; UNWIND_USER_NO_RULE if no table has the address; or
 *	   why the table that should have it is of no use, which ends the walk.
 */
enum unwind_user_status
unwind_user_table_rule(struct unwind_user_tables *tables, unsigned long pc,
		       struct unwind_rule *rule)
{
	enum unwind_user_status found;
	enum sframe_status status;
	struct sframe_entry *entry;

	found = find_entry(tables, pc);
	if (found != UNWIND_USER_FOUND)
		return found;
	entry = tables->entry;
	if (unlikely(!entry->has_table))
		return UNWIND_USER_FAULT;
	if (unlikely(READ_ONCE(entry->reason)))
		return remember_stop(tables, pc, UNWIND_USER_CORRUPT);

	status = sframe_find_user(&entry->sec, pc, rule, &tables->budget);
	if (likely(status == SFRAME_OK)) {
		if (rule->word)
			remember(tables, pc, rule->word);
		return UNWIND_USER_FOUND;
	}

	switch (status) {
	case SFRAME_NO_ROW:
		remember(tables, pc, unwind_word_fp(sizeof(u64)));
		return UNWIND_USER_NO_RULE;
	case SFRAME_UNSUPPORTED:
		return remember_stop(tables, pc, UNWIND_USER_UNKNOWN);
	case SFRAME_BUDGET:
		return UNWIND_USER_UNKNOWN;
	case SFRAME_FAULT:
		return UNWIND_USER_FAULT;
	default:
		/* Other functions may be better than this one. */
		if (sframe_is_bad_table(status))
			sframe_entry_bad(tables->sm, entry, status);
		return remember_stop(tables, pc, UNWIND_USER_CORRUPT);
	}
}
