/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_CODE_H
#define _KERNEL_UNWIND_CODE_H

/*
 * The code map: which rule is for an address of an mm?
 *
 * The map knows for ranges of code where their rules are: in a table that the
 * process has added, in a table for the file, or in the file's own SFrame table. It is
 * made by walks, an array that is replaced as a whole, and read under RCU.
 *
 * Nobody tells the map that mappings change. A range has the sequence of the mmap lock
 * at which it was compared with its mapping. While that is the same, nothing was mapped
 * or unmapped since; else it is compared again before it is used, and replaced if
 * another file is there now.
 */

#include <linux/maple_tree.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <linux/unwind_rule.h>
#include <linux/unwind_user_types.h>

#include "rule_cache.h"
#include "sframe.h"
#include "table_file.h"

struct file;

/*
 * Limits per mm. If there is no room, the kernel forgets what it has found, and refuses
 * to add a table. All of it takes some 1.4 MB of kernel memory, and kept rules of SFrame
 * tables take 3 MB at most, both charged to the memory cgroup.
 */
#define UNWIND_MAX_FOUND	1024
#define UNWIND_MAX_ADDED	4096

/* Rules of SFrame tables that are kept for walks at the event, of a function and in all */
#define UNWIND_MAX_FUNC_RULES	64
#define UNWIND_MAX_RULES	16384

/* Never the sequence of an mmap lock that nobody holds for writing */
#define UNWIND_SEQ_NONE		1U

/**
 * struct unwind_sframe - An SFrame table in the memory of a process
 * @sec:	The table
 * @random:	Number that marks its rules in the cache, see rule_cache.h
 * @seq:	mm_struct::mm_lock_seq when no device was mapped there, or UNWIND_SEQ_NONE
 * @bad:	It is not worth another lookup
 * @um:		State of the mm, if rules have been kept
 * @rules:	For walks at the event: the rules of functions that other walks have come
 *		to, by address. A word is a value, any other rule a struct unwind_kept_rule
 * @ref:	One for each range that has it, one for each walk that uses it
 * @rcu:	To free it
 */
struct unwind_sframe {
	struct sframe_section	sec;
	u64			random;
	unsigned int		seq;
	bool			bad;
	struct unwind_mm	*um;
	struct maple_tree	rules;
	refcount_t		ref;
	struct rcu_head		rcu;
};

/**
 * struct unwind_identity - Tells an inode and its contents from others
 * @ino:	Number
 * @size:	In bytes
 * @mtime_sec:	Time of modification
 * @mtime_nsec:	Its nanoseconds
 * @generation:	Generation of the number
 */
struct unwind_identity {
	unsigned long		ino;
	loff_t			size;
	time64_t		mtime_sec;
	u32			mtime_nsec;
	u32			generation;
};

/**
 * struct unwind_range - Some code of an mm
 * @start:	First byte
 * @end:	The end (exclusive)
 * @delta:	From an address to the offset in the file; 0 if there is no file
 * @key:	What the file is known by: its inode, which may be gone; or the image of a
 *		vDSO. NULL if the code is in no file
 * @differs:	The code may differ from the file's, since it can be written
 * @identity:	Identity of the inode, all 0 if there is none
 * @file:	What tables for the file are attached to, with a reference; or NULL
 * @sframe:	SFrame table, with a reference; or NULL
 * @sframe_asked: When it was searched for, in jiffies
 * @sframe_open: That search could not tell whether there is one
 * @settled:	It is the code of a file that has no SFrame table: only @file can change
 * @added:	The process has added the SFrame table, for these bytes
 * @seq:	mm_struct::mm_lock_seq when this was last compared with the mapping, or
 *		UNWIND_SEQ_NONE
 * @count:	unwind_files_added() when there was no table for @key
 * @rcu:	To free it
 *
 * In a map, @seq and @count are the only fields that change.
 */
struct unwind_range {
	unsigned long		start;
	unsigned long		end;
	u64			delta;
	const void		*key;
	struct unwind_identity	identity;
	struct unwind_file	*file;
	struct unwind_sframe	*sframe;
	u32			sframe_asked;
	bool			sframe_open;
	bool			differs;
	bool			settled;
	bool			added;
	unsigned int		seq;
	unsigned int		count;
	struct rcu_head		rcu;
};

/* Is it the code of a file? */
static inline bool unwind_range_is_file(const struct unwind_range *range)
{
	return range->key && !range->differs;
}

static inline bool unwind_range_has(const struct unwind_range *range, unsigned long pc)
{
	return pc - range->start < range->end - range->start;
}

/* The sequence that ranges are compared by; odd while a writer holds the mmap lock */
static inline unsigned int unwind_mmap_seq(const struct mm_struct *mm)
{
#ifdef CONFIG_UNWIND_USER_CODE
	/*
	 * Pairs with mm_lock_seqcount_end(): what is read next is not older than that, see
	 * seq+lookup.litmus and seq+dead.litmus.
	 */
	return smp_load_acquire(&mm->mm_lock_seq.sequence);
#else
	return UNWIND_SEQ_NONE;
#endif
}

/* Are the mappings unchanged since the range was compared with one? */
static inline bool unwind_range_is_current(const struct unwind_range *range)
{
	unsigned int seq = unwind_mmap_seq(current->mm);

	return likely(READ_ONCE(range->seq) == seq) && !(seq & 1);
}

/* How many of these ranges start at @pc or below? The last of them may have it. */
static __always_inline unsigned int
unwind_ranges_to(struct unwind_range *const *ranges, unsigned int nr, unsigned long pc)
{
	unsigned int first = 0;

	while (nr) {
		unsigned int half = (nr + 1) / 2;

		if (ranges[first + half - 1]->start <= pc) {
			first += half;
			nr -= half;
		} else {
			nr = half - 1;
		}
	}
	return first;
}

static __always_inline struct unwind_range *
unwind_range_at(struct unwind_range *const *ranges, unsigned int nr, unsigned long pc)
{
	nr = unwind_ranges_to(ranges, nr, pc);
	return nr && unwind_range_has(ranges[nr - 1], pc) ? ranges[nr - 1] : NULL;
}

/**
 * struct unwind_map - What is known about the code of an mm
 * @rcu:	To free it
 * @nr_added:	Number of ranges with tables that the process has added
 * @nr:		Number of all ranges
 * @ranges:	First those that were added, then those that were found, each sorted and
 *		without overlaps. Added ones take precedence
 */
struct unwind_map {
	struct rcu_head		rcu;
	unsigned int		nr_added;
	unsigned int		nr;
	struct unwind_range	*ranges[] __counted_by(nr);
};

/**
 * struct unwind_mm - What the unwinder knows about an mm
 * @lock:	Protects replacing @map
 * @added_lock:	Held while tables are added, removed, or copied by a fork. It keeps added
 *		ranges, and walks do not wait for it
 * @map:	NULL as long as nothing is known
 * @looks:	How often its tasks may look at their stacks for walks in place, see
 *		unwind_bucket_take()
 * @nr_rules:	Number of kept rules, of all SFrame tables
 */
struct unwind_mm {
	/* See above. */
	spinlock_t			lock;
	/* Likewise. */
	struct mutex			added_lock;
	struct unwind_map __rcu		*map;
	u32				looks;
	atomic_t			nr_rules;
};

/**
 * struct unwind_code - What a walk knows about the code around an address
 * @start:	First byte of code that was compared with its mapping in this walk, and has no
 *		call that returns to a special address; ULONG_MAX if the map knew nothing
 * @len:	Bytes from there; 0 if there is none
 * @map:	The map that the walk uses until the end of the RCU reader
 * @no_table:	There is no table, so no search for rules
 * @anon:	Memory of no file, such as a JIT compiler's, or that differs from its file
 * @unchecked:	The walk has followed a frame pointer in code without a table, or where an
 *		SFrame table has a hole; a table for a file covers all that it knows about
 * @mix:	rule_cache_mix() of @table; without a table for the file, @sframe_mix
 * @sframe_mix:	The same for the SFrame table, if there is one
 * @table:	The table for the file, which is there until the end of the RCU reader
 *		that has found it; or NULL
 * @known_sframe: The SFrame table, or NULL; valid as long as @table is
 * @sframe:	That table with a reference, until the walk comes to code without it; NULL
 *		if @in_place
 * @delta:	From an address to what the rules of @table are for; 0 without
 * @um:		State of current's mm, NULL as long as nobody has made it
 * @in_place:	The whole walk is one RCU reader, without references or locks. Constant
 *		once the walk has begun
 * @wants_look:	In place: the task should take a look, since to know more takes what such
 *		a walk may not do
 * @seen:	The mapping that was looked up last; in place, it is not looked up again.
 *		Empty if its @start is its @end
 */
struct unwind_code {
	unsigned long			start;
	unsigned long			len;
	const struct unwind_map		*map;
	bool				no_table;
	bool				anon;
	bool				unchecked;
	u64				mix;
	u64				sframe_mix;
	const struct unwind_table	*table;
	struct unwind_sframe		*known_sframe;
	struct unwind_sframe		*sframe;
	u64				delta;
	struct unwind_mm		*um;
	bool				in_place;
	bool				wants_look;
	struct unwind_range		seen;
};

/* Neither defined nor called without CONFIG_UNWIND_USER_CODE */
bool unwind_code_find(const struct unwind_user_state *state, struct unwind_range *range,
		      unsigned long pc);
enum unwind_user_status
unwind_code_rule(const struct unwind_user_state *state, unsigned long pc, bool not_at_hand,
		 struct unwind_rule *rule, enum unwind_user_type *type);

struct unwind_mm *unwind_mm_get(struct mm_struct *mm, gfp_t gfp);
int unwind_map_insert(struct unwind_mm *um, const struct unwind_range *range, gfp_t gfp);
int unwind_map_remove(struct unwind_mm *um, u64 sframe_start, gfp_t gfp);
bool unwind_range_set(struct unwind_range *range, const struct vm_area_struct *vma);

#ifdef CONFIG_UNWIND_USER_CODE
void unwind_code_begin(struct unwind_code *code, bool in_place);
#else
/* No code has a table. */
static inline void unwind_code_begin(struct unwind_code *code, bool in_place)
{
	*code = (struct unwind_code) { .len = ULONG_MAX, .no_table = true };
}
#endif

/* Use the map from here on, in an RCU reader that has just begun. */
static __always_inline void unwind_code_enter(struct unwind_code *code)
{
	code->map = code->um ? rcu_dereference(code->um->map) : NULL;
	/* A table that was at hand may be gone. */
	if (code->table)
		code->len = 0;
}

/* The range with @pc among those that walks have found, which follow the added ones */
static __always_inline struct unwind_range *
unwind_code_range(const struct unwind_code *code, unsigned long pc)
{
	const struct unwind_map *map = code->map;

	return map ? unwind_range_at(map->ranges + map->nr_added, map->nr - map->nr_added, pc) :
		     NULL;
}

static __always_inline bool unwind_code_has(const struct unwind_code *code, unsigned long pc)
{
	return pc - code->start < code->len;
}

/* Put the table for the file at hand, if there is one. */
static __always_inline void
unwind_code_use_table(struct unwind_code *code, const struct unwind_range *range)
{
	code->table = range->file ? unwind_file_table(range->file) : NULL;
	if (code->table) {
		code->delta = range->delta;
		code->mix = rule_cache_mix(code->table->random);
	}
}

/* Cut the code at hand, around @pc, at a call that returns to @special. */
static __always_inline void
unwind_code_leave_out(struct unwind_code *code, unsigned long pc, unsigned long special)
{
	unsigned long at = special - 1 - code->start;

	if (at >= code->len)
		return;
	if (pc < special) {
		code->len = at;
	} else {
		code->start = special;
		code->len -= at + 1;
	}
}

/*
 * As unwind_code_find(), but only for what takes a few compares. It calls nothing, so a
 * window goes on: that saves 100 instructions for each file that a walk comes to.
 */
static __always_inline bool
unwind_code_find_settled(const struct unwind_user_state *state, struct unwind_code *code,
			 const struct unwind_range *range, unsigned long pc)
{
	if (!range || !range->settled || code->map->nr_added || state->special_len ||
	    !unwind_range_is_current(range))
		return false;
	if (range->file ? unwind_file_is_dead(range->file) :
	    unwind_files_used() && READ_ONCE(range->count) != unwind_files_added())
		return false;
	code->start = range->start;
	code->len = range->end - range->start;
	code->anon = false;
	code->known_sframe = NULL;
	unwind_code_use_table(code, range);
	code->no_table = !code->table;
	unwind_code_leave_out(code, pc, state->special_min);
	return true;
}

struct unwind_sframe *unwind_sframe_alloc(const struct sframe_section *sec, gfp_t gfp);
struct unwind_sframe *unwind_sframe_find(const struct unwind_range *range,
					 struct file *file, unsigned long pc);
enum unwind_user_status unwind_sframe_rule(struct unwind_sframe *sframe,
					   unsigned long pc,
					   struct unwind_rule *rule);
enum unwind_user_status unwind_sframe_kept_rule(struct unwind_sframe *sframe,
						unsigned long pc,
						struct unwind_rule *rule);
#ifdef CONFIG_UNWIND_USER_SFRAME
void unwind_sframe_put(struct unwind_sframe *sframe);
#else
static inline void unwind_sframe_put(struct unwind_sframe *sframe) { }
#endif

#endif /* _KERNEL_UNWIND_CODE_H */
