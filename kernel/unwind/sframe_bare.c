// SPDX-License-Identifier: GPL-2.0
/*
 * The code of an mm that has no SFrame table: ranges in no order and their sorted
 * keys, which are a part of the store (sframe_mm.c).
 *
 * A key has where the range starts and its place in the array of ranges. Only keys have
 * to make room for another.
 */

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "sframe_mm.h"

#include <trace/events/unwind.h>

static void trace_bare(const struct sframe_range *range, const char *what)
{
	trace_unwind_sframe_section(range->start, range->end, 0, 0, 0, what);
}

#define BARE_PLACE	((1UL << SFRAME_BARE_BITS) - 1)

static_assert(SFRAME_MAX_BARE - 1 <= BARE_PLACE);
/* So that addresses are not cut off */
static_assert(BITS_PER_LONG == 64);

static unsigned long bare_key(unsigned long start, unsigned long place)
{
	return start << SFRAME_BARE_BITS | place;
}

/* Not by way of @code, of which the compiler may know where it ends. */
static unsigned long *bare_keys(const struct sframe_bare *bare)
{
	return (void *)(bare + 1) + bare->room * sizeof(bare->code[0]);
}

/* How many ranges start at @pc or below? */
static unsigned int bare_index(const struct sframe_bare *bare, unsigned int nr,
			       unsigned long pc)
{
	const unsigned long *keys = bare_keys(bare);
	unsigned long last = bare_key(min(pc, SFRAME_BARE_MAX), BARE_PLACE);
	unsigned int first = 0;

	while (nr) {
		if (READ_ONCE(keys[first + nr / 2]) <= last) {
			first += nr / 2 + 1;
			nr -= nr / 2 + 1;
		} else {
			nr /= 2;
		}
	}
	return first;
}

static void bare_get_key(const struct sframe_bare *bare, unsigned long key,
			 struct sframe_range *range)
{
	const struct sframe_bare_code *code = &bare->code[key & BARE_PLACE];

	range->start = key >> SFRAME_BARE_BITS;
	range->end = READ_ONCE(code->end);
	range->delta = READ_ONCE(code->delta);
	range->file = READ_ONCE(code->file);
}

/* The range with the key of index @i. With sm->lock held */
static void bare_get(const struct sframe_bare *bare, unsigned int i,
		     struct sframe_range *range)
{
	bare_get_key(bare, bare_keys(bare)[i], range);
}

/*
 * Likewise without the lock. If ranges are changing, it may be anything, and is read
 * again. Returns false if the key is none.
 */
static bool bare_get_rcu(const struct sframe_bare *bare, unsigned int i,
			 struct sframe_range *range)
{
	unsigned long key = READ_ONCE(bare_keys(bare)[i]);

	if (unlikely((key & BARE_PLACE) >= bare->room))
		return false;
	bare_get_key(bare, key, range);
	return true;
}

/* The ranges may be changing: then sframe_bare_find() tries again. */
static bool bare_find_rcu(struct sframe_mm *sm, unsigned long pc,
			  struct sframe_range *range)
{
	const struct sframe_bare *bare = rcu_dereference(sm->bare);
	unsigned int i;

	if (!bare)
		return false;

	i = bare_index(bare, READ_ONCE(bare->nr), pc);
	if (!i-- || !bare_get_rcu(bare, i, range) || !sframe_range_has(range, pc))
		return false;

	WRITE_ONCE(sm->last_bare[sframe_bare_slot(range)], i);
	return true;
}

/**
 * sframe_bare_find - Is this address known to have no SFrame table?
 * @sm:		Store
 * @pc:		Address of code
 * @range:	Code around it that has none either
 * @cuts:	As long as this is sm->cuts, @range is in the store
 *
 * Context: In an RCU reader, which keeps @range->file
 * Return: true if so.
 */
bool sframe_bare_find(struct sframe_mm *sm, unsigned long pc,
		      struct sframe_range *range, u64 *cuts)
{
	unsigned int seq;
	bool found;

	do {
		seq = read_seqcount_begin(&sm->seq);
		*cuts = READ_ONCE(sm->cuts);
		found = bare_find_rcu(sm, pc, range);
	} while (read_seqcount_retry(&sm->seq, seq));

	return found;
}

/**
 * sframe_bare_last - Ranges that were needed last, and have no table at all
 * @sm:		Store
 * @last:	UNWIND_USER_BARE of them, which may be empty or equal
 */
void sframe_bare_last(struct sframe_mm *sm, struct unwind_user_bare *last)
{
	const struct sframe_bare *bare;
	struct unwind_file *files[UNWIND_USER_BARE];
	struct sframe_range range;
	unsigned int seq, i, nr;

	guard(rcu)();
	do {
		seq = read_seqcount_begin(&sm->seq);
		bare = rcu_dereference(sm->bare);
		nr = bare ? READ_ONCE(bare->nr) : 0;
		for (i = 0; i < UNWIND_USER_BARE; i++) {
			/* Once: others change it, and it may be beyond this array. */
			unsigned int index = READ_ONCE(sm->last_bare[i]);

			last[i].len = 0;
			files[i] = NULL;
			if (index >= nr || !bare_get_rcu(bare, index, &range))
				continue;
			/* That needs a look at the table: find_code() has one. */
			if (range.delta & SFRAME_RANGE_CLAIMED)
				continue;
			last[i].start = range.start;
			last[i].len = range.end - range.start;
			/* Whatever the key says: below it may say something else. */
			files[i] = range.file;
		}
	} while (read_seqcount_retry(&sm->seq, seq));

	if (!unwind_files_used())
		return;
	/* Pointers are good after they were found not to be changing. */
	for (i = 0; i < UNWIND_USER_BARE; i++) {
		if (files[i] && rcu_access_pointer(files[i]->table))
			last[i].len = 0;
	}
}

/* So many ranges go at once, with the files that they keep. */
#define BARE_CUT	16

/* Take out the range with the key of index @i; the last range gets its place. */
static void bare_take(struct sframe_bare *bare, unsigned int i)
{
	unsigned long *keys = bare_keys(bare);
	unsigned long place = keys[i] & BARE_PLACE;
	unsigned int last = bare->nr - 1;

	memmove(&keys[i], &keys[i + 1], (last - i) * sizeof(keys[0]));
	WRITE_ONCE(bare->nr, last);
	if (place == last)
		return;

	/* Ranges do not overlap, so it is the last one that starts before its end. */
	i = bare_index(bare, last, bare->code[last].end - 1) - 1;
	bare->code[place] = bare->code[last];
	keys[i] = (keys[i] & ~BARE_PLACE) | place;
}

static void bare_cut_some(struct sframe_mm *sm, struct sframe_bare *bare,
			  unsigned int first, unsigned int nr, const char *what)
{
	struct unwind_file *files[BARE_CUT];
	struct sframe_range range;
	bool has_table = false;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		bare_get(bare, first + i, &range);
		trace_bare(&range, what);
		files[i] = range.file;
	}

	write_seqcount_begin(&sm->seq);
	for (i = nr; i--;)
		bare_take(bare, first + i);
	WRITE_ONCE(sm->cuts, sm->cuts + 1);
	write_seqcount_end(&sm->seq);

	/*
	 * A table that goes takes its rules with it; not so the code. Whoever found a
	 * range before it went may have found a table that came meanwhile, too.
	 */
	smp_mb();
	for (i = 0; i < nr; i++) {
		if (files[i] && rcu_access_pointer(files[i]->table))
			has_table = true;
		unwind_file_put(files[i]);
	}
	if (has_table)
		sframe_next_gen(sm);
}

/* Drop @nr ranges from index @first on. */
static void bare_cut(struct sframe_mm *sm, struct sframe_bare *bare,
		     unsigned int first, unsigned int nr, const char *what)
{
	lockdep_assert_held(&sm->lock);

	for (; nr > BARE_CUT; nr -= BARE_CUT)
		bare_cut_some(sm, bare, first + nr - BARE_CUT, BARE_CUT, what);
	bare_cut_some(sm, bare, first, nr, what);
}

static struct sframe_bare *bare_locked(struct sframe_mm *sm)
{
	return rcu_dereference_protected(sm->bare, lockdep_is_held(&sm->lock));
}

/**
 * sframe_bare_free - Free the ranges of a store that nobody uses any more
 * @sm:		Store
 */
void sframe_bare_free(struct sframe_mm *sm)
{
	struct sframe_bare *bare = rcu_dereference_protected(sm->bare, true);
	unsigned int i;

	for (i = 0; bare && i < bare->nr; i++)
		unwind_file_put(bare->code[i].file);
	kfree(bare);
}

/* How many ranges have some of the code, and which is the first one? */
static unsigned int bare_overlap(const struct sframe_bare *bare,
				 unsigned long start, unsigned long end,
				 unsigned int *first)
{
	struct sframe_range range;
	unsigned int i;

	*first = bare_index(bare, bare->nr, start);
	if (*first) {
		bare_get(bare, *first - 1, &range);
		if (range.end > start)
			--*first;
	}
	for (i = *first; i < bare->nr; i++) {
		bare_get(bare, i, &range);
		if (range.start >= end)
			break;
	}
	return i - *first;
}

/**
 * sframe_bare_remove - Forget ranges
 * @sm:		Store
 * @start:	First byte of some code; all ranges go that have some of it
 * @end:	The end of the code (exclusive)
 * @what:	Why, for the trace
 *
 * Context: sm->lock held
 */
void sframe_bare_remove(struct sframe_mm *sm, unsigned long start,
			unsigned long end, const char *what)
{
	struct sframe_bare *bare = bare_locked(sm);
	unsigned int first, nr;

	if (!bare)
		return;

	nr = bare_overlap(bare, start, end, &first);
	if (nr)
		bare_cut(sm, bare, first, nr, what);
}

/* The array with room for one more, or NULL if there is no memory. */
static struct sframe_bare *bare_with_room(struct sframe_mm *sm)
{
	struct sframe_bare *old = bare_locked(sm), *bare;
	unsigned int nr = old ? old->nr : 0;
	size_t size;

	if (nr >= SFRAME_MAX_BARE) {
		/* Which ones does not matter: all can be found again. */
		bare_cut(sm, old, 0, SFRAME_EVICT, "evicted");
		return old;
	}
	if (old && nr < old->room)
		return old;

	size = kmalloc_size_roundup(sizeof(*bare) + (nr + nr / 4 + 1) * SFRAME_BARE_SIZE);
	bare = kmalloc(size, SFRAME_GFP);
	if (!bare)
		return NULL;

	bare->room = (size - sizeof(*bare)) / SFRAME_BARE_SIZE;
	bare->nr = nr;
	if (old) {
		memcpy(bare->code, old->code, nr * sizeof(old->code[0]));
		memcpy(bare_keys(bare), bare_keys(old), nr * sizeof(unsigned long));
	}
	rcu_assign_pointer(sm->bare, bare);
	if (old)
		kfree_rcu(old, rcu);
	return bare;
}

/**
 * sframe_bare_add - Add a range, unless an address in it is known to be bare
 * @sm:		Store
 * @range:	Code that is in no entry and starts at SFRAME_BARE_MAX or below. Ranges
 *		that it overlaps go. If it is not added, it has no file any more; else
 *		its file is the store's now
 * @pc:		The address
 * @reason:	Why there is no table, for the trace
 *
 * Context: sm->lock held
 */
void sframe_bare_add(struct sframe_mm *sm, struct sframe_range *range,
		     unsigned long pc, const char *reason)
{
	struct sframe_bare *bare = bare_locked(sm);
	struct sframe_range old;
	unsigned int first = 0, nr = 0, i;
	unsigned long *keys;

	if (bare)
		nr = bare_overlap(bare, range->start, range->end, &first);
	for (i = 0; i < nr; i++) {
		/*
		 * A mapping that has grown, as those of compilers do, or somebody
		 * who was faster: what was known stays true, unless a table said it.
		 */
		bare_get(bare, first + i, &old);
		if (sframe_range_has(&old, pc) && sframe_range_holds(&old))
			goto drop;
	}
	if (nr)
		bare_cut(sm, bare, first, nr, "replaced");
	nr = bare ? bare->nr : 0;

	trace_bare(range, reason);
	bare = bare_with_room(sm);
	if (!bare)
		goto drop;
	if (bare->nr != nr)
		first = bare_index(bare, bare->nr, range->start);
	nr = bare->nr;
	keys = bare_keys(bare);

	write_seqcount_begin(&sm->seq);
	bare->code[nr].end = range->end;
	bare->code[nr].delta = range->delta;
	bare->code[nr].file = range->file;
	memmove(&keys[first + 1], &keys[first], (nr - first) * sizeof(keys[0]));
	keys[first] = bare_key(range->start, nr);
	WRITE_ONCE(bare->nr, nr + 1);
	write_seqcount_end(&sm->seq);
	return;

drop:
	unwind_file_put(range->file);
	range->file = NULL;
}
