// SPDX-License-Identifier: GPL-2.0
/*
 * The provider of rules from tables: SFrame tables, which are in user memory, and
 * tables that a profiler made for a file, which are in kernel memory.
 *
 * What was found for an address is kept in a cache per mm. This file is for
 * addresses that are not in it, and that the table at hand has no ordinary rule for
 * (user.c asks that one by itself): find the table for the address, and the rule in
 * the table.
 *
 * SFrame tables cannot make a walk longer than the trace has room, since each frame
 * must move the stack pointer up. How long a frame may take is bounded by the
 * decoder.
 */

#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/unwind_rule.h>

#include "deferred.h"
#include "rule_cache.h"
#include "sframe.h"
#include "sframe_mm.h"
#include "table_file.h"
#include "user.h"

/* Know nothing but what is true for a generation of the store. */
static void tables_reset(struct unwind_user_tables *tables, u64 gen)
{
	tables->entry = NULL;
	tables->gen = gen;
	/* Neither of them makes up for a change of the other. */
	tables->mix = rule_cache_mix(gen + (tables->files_gen << 32));
	sframe_bare_last(tables->sm, tables->bare);
}

/* Forget what may have been unmapped meanwhile. */
static void tables_sync(struct unwind_user_tables *tables)
{
	/*
	 * Pairs with sframe_next_gen(): what has gone by then is not found any more,
	 * so it does not get into the cache for the new generation.
	 */
	u64 gen = smp_load_acquire(&tables->sm->gen);

	if (likely(gen == tables->gen))
		return;

	sframe_entry_put(tables->entry);
	tables_reset(tables, gen);
}

/**
 * unwind_user_tables_begin - Use tables in a walk
 * @tables:	What the walk keeps, not initialized
 *
 * The mm's store is made if there is none. Without the memory for it the walk ends
 * where it first needs to know about some code.
 */
void unwind_user_tables_begin(struct unwind_user_tables *tables)
{
	struct sframe_mm *sm = sframe_mm_of(current->mm);

	tables->code.start = 0;
	tables->code.len = 0;
	tables->part.start = 0;
	tables->part.len = 0;
	tables->cache = NULL;
	tables->entry = NULL;

	if (unlikely(!sm))
		sm = sframe_mm_get(current->mm, unwind_gfp());
	tables->sm = sm;
	if (unlikely(!sm)) {
		memset(tables->bare, 0, sizeof(tables->bare));
		return;
	}

	/* Pairs with cmpxchg() in sframe_mm_cache(). */
	tables->cache = smp_load_acquire(&sm->cache);
	tables->files_gen = unwind_files_get_gen();
	if (unwind_files_used() && unlikely(READ_ONCE(sm->files_epoch) !=
					    unwind_files_get_epoch()))
		sframe_mm_renew(sm);
	/* Pairs with sframe_next_gen(), as in tables_sync(). */
	tables_reset(tables, smp_load_acquire(&sm->gen));
}

/**
 * unwind_user_tables_end - End the use of tables in a walk
 * @tables:	What unwind_user_tables_begin() got
 * @state:	What has come of the walk
 */
void unwind_user_tables_end(struct unwind_user_tables *tables,
			    const struct unwind_user_state *state)
{
	if (unwind_files_used() && state->word_size == sizeof(u64))
		unwind_files_count(state);
	if (tables->sm)
		sframe_entry_put(tables->entry);
}

static void remember(const struct unwind_user_tables *tables, unsigned long pc,
		     u64 word)
{
	if (likely(tables->cache))
		rule_slots_set(rule_cache_slots(tables->cache, pc),
			       rule_cache_tag(pc, tables->mix), word);
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

/*
 * The rule that a table for the file has. Under RCU, which keeps @file. As
 * unwind_file_rule(), and what that says is remembered.
 */
static __always_inline enum unwind_user_status
file_rule(struct unwind_user_tables *tables, const struct unwind_file *file,
	  u64 offset, unsigned long pc, struct unwind_rule *rule,
	  enum unwind_user_type *type)
{
	enum unwind_user_status status;

	status = unwind_file_rule(file, offset, rule);
	if (rule->word) {
		if (unlikely(!tables->cache))
			tables->cache = sframe_mm_cache(tables->sm);
		remember(tables, pc, rule->word);
	}
	*type = UNWIND_USER_TYPE_FILE;
	return status;
}

/*
 * Does the walk know the code around @pc, and may it have a table for its file?
 *
 * In an RCU reader. When a range is removed, sm->cuts changes first; then the
 * reference to the file is dropped, and the file is freed after a grace period. So a
 * reader that sees the old value can use the file until its end, even if the range is
 * being removed.
 */
static __always_inline bool knows_code(const struct unwind_user_tables *tables,
				       unsigned long pc)
{
	return pc - tables->code.start < tables->code.len &&
	       READ_ONCE(tables->sm->cuts) == tables->code_cuts;
}

/* Note a range of the store, unless it cannot have a table for its file. */
static __always_inline void note_code(struct unwind_user_tables *tables,
				      const struct sframe_range *range)
{
	struct unwind_user_code *code = &tables->code;

	code->start = 0;
	code->len = 0;
	if (!unwind_files_used() || !range->file)
		return;
	code->start = range->start;
	code->len = range->end - range->start;
	code->delta = range->delta & ~SFRAME_RANGE_CLAIMED;
	code->file = range->file;
}

/*
 * Note in @tables->code what the store knows of the code around @pc. Returns
 * false if that is nothing. If the code cannot have a table for its file,
 * either, @range says which code that is, and @tables->code is empty. In an RCU
 * reader.
 */
static __always_inline bool find_code(struct unwind_user_tables *tables,
				      unsigned long pc, struct sframe_range *range)
{
	tables->code.len = 0;
	if (!sframe_bare_find(tables->sm, pc, range, &tables->code_cuts) ||
	    !sframe_range_holds(range)) {
		tables->code.start = pc;
		return false;
	}
	note_code(tables, range);
	return true;
}

/*
 * Was this the last address that find_code() looked up, in vain? If that is long ago,
 * find_entry() finds what has come since.
 */
static bool code_is_unknown(const struct unwind_user_tables *tables, unsigned long pc)
{
	return !tables->code.len && tables->code.start == pc;
}

/* May the code around @pc have a table for its file? In an RCU reader */
static __always_inline bool has_file(struct unwind_user_tables *tables,
				     unsigned long pc)
{
	struct sframe_range range;

	return knows_code(tables, pc) ||
	       (find_code(tables, pc, &range) && tables->code.len);
}

/**
 * unwind_user_find_part - Have the table for an address's file at hand
 * @tables:	What the walk keeps; gets the part of the table with @pc
 * @pc:		Address
 *
 * Only what unwind_user_table_rule() would find without changing anything.
 *
 * Context: In an RCU reader, which keeps the table
 * Return: false if there is none.
 */
bool unwind_user_find_part(struct unwind_user_tables *tables, unsigned long pc)
{
	struct unwind_user_code *code = &tables->code;
	struct unwind_table_part *part = &tables->part;
	const struct unwind_table *table;
	u64 start, end;

	if (!tables->cache ||
	    (tables->entry && sframe_entry_has(tables->entry, pc)) ||
	    !has_file(tables, pc))
		return false;
	/* Blocks are counted from the start of a page. */
	if (!PAGE_ALIGNED(code->start))
		return false;
	table = unwind_file_table(code->file);
	if (!table || !READ_ONCE(table->used) ||
	    !unwind_table_find_part(table, pc + code->delta, part))
		return false;

	start = max(part->start, code->start + code->delta);
	end = min(part->start + part->len, code->start + code->len + code->delta);
	part->blocks += (start - part->start) >> part->block_shift;
	part->start = start - code->delta;
	part->len = end - start;
	return true;
}

/*
 * The rule for an address that has no SFrame table, if that is known. Returns
 * UNWIND_USER_END if it is not.
 */
static __always_inline enum unwind_user_status
bare_rule(struct unwind_user_tables *tables, unsigned long pc,
	  struct unwind_rule *rule, enum unwind_user_type *type)
{
	struct unwind_user_code *code = &tables->code;
	enum unwind_user_status status;
	struct sframe_range range;

	guard(rcu)();
	if (unlikely(!knows_code(tables, pc))) {
		if (!find_code(tables, pc, &range))
			return UNWIND_USER_END;
		/* What has no table at all the window need not ask for. */
		if (!code->len)
			return set_bare(tables, &range);
	}

	status = file_rule(tables, code->file, pc + code->delta, pc, rule, type);
	if (status == UNWIND_USER_NO_RULE && !rule->word) {
		range.start = code->start;
		range.end = code->start + code->len;
		return set_bare(tables, &range);
	}
	return status;
}

/* An entry without a table stands for one that could not be read a while ago. */
static bool entry_is_stale(const struct sframe_entry *entry)
{
	return !entry->has_table && !entry->attached &&
	       time_after(jiffies, entry->retry);
}

/*
 * Set @tables->entry to the entry for an address that is not known to be bare; or to
 * NULL, and return why there is none. UNWIND_USER_NO_RULE means that it is bare.
 */
static enum unwind_user_status find_entry(struct unwind_user_tables *tables,
					  unsigned long pc,
					  struct sframe_range *bare)
{
	enum unwind_user_status status = UNWIND_USER_FOUND;
	struct sframe_mm *sm = tables->sm;

	sframe_entry_put(tables->entry);
	tables->entry = sframe_entry_get(sm, pc);
	if (tables->entry && unlikely(entry_is_stale(tables->entry))) {
		sframe_entry_drop(sm, tables->entry);
		sframe_entry_put(tables->entry);
		tables->entry = NULL;
	}
	if (!tables->entry)
		status = sframe_discover(sm, pc, &tables->entry, bare,
					 &tables->code_cuts);

	if (status != UNWIND_USER_FOUND)
		return status;

	if (unlikely(!tables->cache))
		tables->cache = sframe_mm_cache(sm);
	return status;
}

/*
 * No SFrame table has a rule for @pc, which is in the walk's entry: that keeps the
 * file.
 */
static enum unwind_user_status
entry_file_rule(struct unwind_user_tables *tables, unsigned long pc,
		struct unwind_rule *rule, enum unwind_user_type *type)
{
	const struct sframe_range *code = &tables->entry->code;
	enum unwind_user_status status = UNWIND_USER_NO_RULE;

	if (unwind_files_used() && code->file) {
		guard(rcu)();
		status = file_rule(tables, code->file, pc + code->delta, pc,
				   rule, type);
	}
	if (status == UNWIND_USER_NO_RULE)
		remember(tables, pc, unwind_word_fp(sizeof(u64)));
	return status;
}

static enum unwind_user_status sframe_rule(struct unwind_user_tables *tables,
					   unsigned long pc,
					   struct unwind_rule *rule,
					   enum unwind_user_type *type)
{
	struct sframe_entry *entry = tables->entry;
	enum sframe_status status;

	if (unlikely(!entry->has_table))
		return entry->attached ? entry_file_rule(tables, pc, rule, type) :
					 UNWIND_USER_FAULT;
	if (unlikely(READ_ONCE(entry->reason)))
		return remember_stop(tables, pc, UNWIND_USER_CORRUPT);

	status = sframe_find_user(&entry->sec, pc, rule);
	if (likely(status == SFRAME_OK)) {
		if (rule->word)
			remember(tables, pc, rule->word);
		return UNWIND_USER_FOUND;
	}

	switch (status) {
	case SFRAME_NO_ROW:
		return entry_file_rule(tables, pc, rule, type);
	case SFRAME_UNSUPPORTED:
	case SFRAME_TOO_LONG:
		return remember_stop(tables, pc, UNWIND_USER_UNKNOWN);
	case SFRAME_FAULT:
		return UNWIND_USER_FAULT;
	default:
		/* Other functions may be better than this one. */
		if (sframe_is_bad_table(status))
			sframe_entry_bad(tables->sm, entry, status);
		return remember_stop(tables, pc, UNWIND_USER_CORRUPT);
	}
}

/*
 * Set @tables->entry to the entry for an address, unless it has none. Then @status is
 * the result for it.
 */
static noinline bool change_entry(struct unwind_user_tables *tables,
				  unsigned long pc, struct unwind_rule *rule,
				  enum unwind_user_type *type,
				  enum unwind_user_status *status)
{
	struct sframe_range bare;

	*status = UNWIND_USER_END;
	if (!code_is_unknown(tables, pc))
		*status = bare_rule(tables, pc, rule, type);
	if (*status != UNWIND_USER_END)
		return false;

	*status = find_entry(tables, pc, &bare);
	if (*status == UNWIND_USER_FOUND)
		return true;
	if (*status != UNWIND_USER_NO_RULE)
		return false;

	/* Now it is known to be bare, unless there was no room for that. */
	note_code(tables, &bare);
	*status = bare_rule(tables, pc, rule, type);
	if (*status == UNWIND_USER_END)
		*status = set_bare(tables, &bare);
	return false;
}

/**
 * unwind_user_table_rule - Find the rule for an address in its table
 * @tables:	What the walk keeps
 * @pc:		Address, which is not in the cache and not known to be bare
 * @rule:	The rule; its word is 0 if it has only the long form
 * @type:	Which kind of table it is from
 *
 * Afterwards a rule that fits into a word is in the cache, and so is the answer that
 * there is no rule. Code without a table is noted in @tables.
 *
 * Context: Process context, may sleep and take page faults.
 * Return: UNWIND_USER_FOUND; UNWIND_USER_NO_RULE if no table covers the address; or
 *	   the reason why the table that covers it is of no use, which ends the walk.
 */
enum unwind_user_status
unwind_user_table_rule(struct unwind_user_tables *tables, unsigned long pc,
		       struct unwind_rule *rule, enum unwind_user_type *type)
{
	enum unwind_user_status status;

	if (unlikely(!tables->sm))
		return UNWIND_USER_FAULT;
	tables_sync(tables);
	*type = UNWIND_USER_TYPE_SFRAME;
	if (unlikely(!tables->entry || !sframe_entry_has(tables->entry, pc)) &&
	    !change_entry(tables, pc, rule, type, &status))
		return status;
	return sframe_rule(tables, pc, rule, type);
}
