// SPDX-License-Identifier: GPL-2.0
/*
 * The code of an mm that has no SFrame table: a sorted array of ranges, which is
 * a part of the store (sframe_mm.c).
 */

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "deferred.h"
#include "sframe_mm.h"

#include <trace/events/unwind.h>

static void trace_bare(const struct sframe_range *range, const char *what)
{
	trace_unwind_sframe_section(range->start, range->end, 0, 0, 0, what);
}

/* The index of the highest range that starts at @pc or below. */
static unsigned int bare_index(const struct sframe_bare *bare, unsigned int nr,
			       unsigned long pc)
{
	unsigned int first = 0;

	while (nr) {
		if (READ_ONCE(bare->ranges[first + nr / 2].start) > pc) {
			first += nr / 2 + 1;
			nr -= nr / 2 + 1;
		} else {
			nr /= 2;
		}
	}
	return first;
}

/* The ranges may be changing: then sframe_bare_find() tries again. */
static bool bare_find_rcu(struct sframe_mm *sm, unsigned long pc,
			  struct sframe_range *range)
{
	const struct sframe_bare *bare = rcu_dereference(sm->bare);
	unsigned int i, nr;

	if (!bare)
		return false;

	nr = READ_ONCE(bare->nr);
	i = bare_index(bare, nr, pc);
	if (i >= nr)
		return false;
	/* If it changes meanwhile, it is read again. */
	*range = data_race(bare->ranges[i]);
	if (!sframe_range_has(range, pc))
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
	unsigned int seq, i, nr;

	guard(rcu)();
	do {
		seq = read_seqcount_begin(&sm->seq);
		bare = rcu_dereference(sm->bare);
		nr = bare ? READ_ONCE(bare->nr) : 0;
		for (i = 0; i < UNWIND_USER_BARE; i++) {
			/* Once: others change it, and it may be beyond this array. */
			unsigned int index = READ_ONCE(sm->last_bare[i]);
			const struct sframe_range *range;

			last[i].len = 0;
			files[i] = NULL;
			if (index >= nr)
				continue;
			range = &bare->ranges[index];
			/* That needs a look at the table: find_code() has one. */
			if (READ_ONCE(range->delta) & SFRAME_RANGE_CLAIMED)
				continue;
			last[i].start = READ_ONCE(range->start);
			last[i].len = READ_ONCE(range->end) - last[i].start;
			/* Whatever the key says: below it may say something else. */
			files[i] = READ_ONCE(range->file);
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

static void bare_cut_some(struct sframe_mm *sm, struct sframe_bare *bare,
			  unsigned int first, unsigned int nr, const char *what)
{
	struct unwind_file *files[BARE_CUT];
	bool has_table = false;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		const struct sframe_range *range = &bare->ranges[first + i];

		trace_bare(range, what);
		files[i] = range->file;
	}

	write_seqcount_begin(&sm->seq);
	memmove(&bare->ranges[first], &bare->ranges[first + nr],
		(bare->nr - first - nr) * sizeof(bare->ranges[0]));
	WRITE_ONCE(bare->nr, bare->nr - nr);
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
		bare_cut_some(sm, bare, first, BARE_CUT, what);
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
		unwind_file_put(bare->ranges[i].file);
	kfree(bare);
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
	unsigned int first, nr = 0;

	if (!bare)
		return;

	first = bare_index(bare, bare->nr, end - 1);
	while (first + nr < bare->nr && bare->ranges[first + nr].end > start)
		nr++;
	if (nr)
		bare_cut(sm, bare, first, nr, what);
}

/* An array with room for more than @nr */
static struct sframe_bare *bare_alloc(unsigned int nr, gfp_t gfp)
{
	struct sframe_bare *bare;
	size_t size;

	size = kmalloc_size_roundup(struct_size(bare, ranges, nr + nr / 4 + 1));
	bare = kmalloc(size, gfp);
	if (bare)
		bare->room = (size - sizeof(*bare)) / sizeof(bare->ranges[0]);
	return bare;
}

/**
 * sframe_bare_room - Get the memory that the next range will need
 * @sm:		Store
 *
 * Context: Process context; may sleep if unwind_gfp() says so.
 * Return: A larger array, for sframe_bare_add(); NULL if there is room, or no memory.
 */
struct sframe_bare *sframe_bare_room(struct sframe_mm *sm)
{
	const struct sframe_bare *bare;
	unsigned int nr = 0;

	scoped_guard(rcu) {
		bare = rcu_dereference(sm->bare);
		if (bare) {
			nr = READ_ONCE(bare->nr);
			if (nr < bare->room || nr >= SFRAME_MAX_BARE)
				return NULL;
		}
	}
	return bare_alloc(nr, unwind_gfp());
}

/* The array with room for one more, which may be @room; NULL if there is no memory. */
static struct sframe_bare *bare_with_room(struct sframe_mm *sm,
					  struct sframe_bare **room)
{
	struct sframe_bare *old = bare_locked(sm), *bare;
	unsigned int nr = old ? old->nr : 0;

	if (nr >= SFRAME_MAX_BARE) {
		/* Which ones does not matter: all can be found again. */
		bare_cut(sm, old, nr - SFRAME_EVICT, SFRAME_EVICT, "evicted");
		return old;
	}
	if (old && nr < old->room)
		return old;

	bare = *room;
	if (bare && bare->room > nr)
		*room = NULL;
	else
		bare = bare_alloc(nr, SFRAME_GFP);
	if (!bare)
		return NULL;

	bare->nr = nr;
	if (old)
		memcpy(bare->ranges, old->ranges, nr * sizeof(old->ranges[0]));
	rcu_assign_pointer(sm->bare, bare);
	if (old)
		kfree_rcu(old, rcu);
	return bare;
}

/**
 * sframe_bare_add - Add a range, unless an address in it is known to be bare
 * @sm:		Store
 * @range:	Code that is in no entry. Ranges that it overlaps go. If it is not added,
 *		it has no file any more; else its file is the store's now
 * @pc:		The address
 * @reason:	Why there is no table, for the trace
 * @room:	What sframe_bare_room() got; NULL after it was used
 *
 * Context: sm->lock held
 * Return: false if there is no memory. Else the store knows about @pc now.
 */
bool sframe_bare_add(struct sframe_mm *sm, struct sframe_range *range,
		     unsigned long pc, const char *reason, struct sframe_bare **room)
{
	struct sframe_bare *bare = bare_locked(sm);
	unsigned int left = bare ? bare->nr : 0;
	unsigned int first, nr = 0;
	bool known = false;

	first = bare ? bare_index(bare, left, range->end - 1) : 0;
	for (; first + nr < left && bare->ranges[first + nr].end > range->start; nr++) {
		/*
		 * A mapping that has grown, as those of compilers do, or somebody
		 * who was faster: what was known stays true, unless a table said it.
		 */
		known = sframe_range_has(&bare->ranges[first + nr], pc) &&
			sframe_range_holds(&bare->ranges[first + nr]);
		if (known)
			goto drop;
	}
	if (nr)
		bare_cut(sm, bare, first, nr, "replaced");
	left -= nr;

	trace_bare(range, reason);
	bare = bare_with_room(sm, room);
	if (!bare)
		goto drop;
	if (bare->nr != left)
		first = bare_index(bare, bare->nr, range->end - 1);

	write_seqcount_begin(&sm->seq);
	WRITE_ONCE(bare->nr, bare->nr + 1);
	memmove(&bare->ranges[first + 1], &bare->ranges[first],
		(bare->nr - 1 - first) * sizeof(bare->ranges[0]));
	bare->ranges[first] = *range;
	write_seqcount_end(&sm->seq);
	return true;

drop:
	unwind_file_put(range->file);
	range->file = NULL;
	return known;
}
