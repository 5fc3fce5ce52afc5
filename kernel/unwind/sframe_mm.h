/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_SFRAME_MM_H
#define _KERNEL_UNWIND_SFRAME_MM_H

/*
 * What is known about the SFrame tables for the code of an mm. Shared by the store
 * (sframe_mm.c and sframe_bare.c), the search for tables (sframe_discover.c),
 * prctl() (sframe_prctl.c), the provider of rules (user_tables.c)
 * and the walker (user.c), which asks the table that was needed last by itself.
 *
 * Code with a table has an entry, and so has code whose table cannot be used.
 * Code without an SFrame table, which is most of it, is bare: no more than a range,
 * and the file that it is mapped from, for which somebody may have made a table.
 * Entries and bare ranges do not overlap.
 *
 * What each operation needs:
 *
 *		insert		remove		look up		use an entry
 * lock		sm->lock, and	sm->lock	RCU, retried	a reference
 *		a lock that			by sm->seq
 *		keeps the code
 *		and table mapped
 *
 * That lock is mmap_lock; for bare code, that of its VMA will do.
 *
 * Of an entry, only @reason changes; for anything else it is replaced by another
 * entry. It is freed with the last reference, after a grace period.
 */

#include <linux/bits.h>
#include <linux/gfp.h>
#include <linux/interval_tree.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "sframe.h"
#include "table_file.h"
#include "user.h"

/*
 * Limits per mm. If there is no room, entries that were found are dropped for newer
 * ones, and requests to add a table are refused. All of it together takes some 1.3 MB
 * of kernel memory, which is charged to the memory cgroup.
 */
#define SFRAME_MAX_FOUND	1024
#define SFRAME_MAX_BARE		1024
#define SFRAME_MAX_ADDED	4096

/* As many go at once when there is no more room. */
#define SFRAME_EVICT		(SFRAME_MAX_FOUND / 4)

/* For what a walk remembers where it must not wait; elsewhere, unwind_gfp() */
#define SFRAME_GFP		(GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOMEMALLOC | \
				 __GFP_NOWARN)

/* For what a program asks for, which can be told that there is no memory */
#define SFRAME_ADD_GFP		(GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN)

/* Bytes that a table may have; offsets in it are of 32 bits. */
#define SFRAME_MAX_TABLE	BIT(32)

/* After so long it is worth while to try again what failed. */
#define SFRAME_RETRY		HZ

/**
 * struct sframe_range - Some code
 * @start:	First byte
 * @end:	The end (exclusive)
 * @delta:	From an address to the offset in @file; and SFRAME_RANGE_CLAIMED, if only
 *		the table for @file says that the code has no SFrame table
 * @file:	What it is mapped from, with a reference; NULL if that is no file, or
 *		nobody made tables when it was looked at
 */
struct sframe_range {
	unsigned long		start;
	unsigned long		end;
	unsigned long		delta;
	struct unwind_file	*file;
};

/* Where a file is mapped, offsets are a multiple of the page size apart. */
#define SFRAME_RANGE_CLAIMED	1UL

static inline bool sframe_range_has(const struct sframe_range *range,
				    unsigned long pc)
{
	return pc - range->start < range->end - range->start;
}

/* Is a range without an SFrame table still one? What keeps it keeps its file. */
static inline bool sframe_range_holds(const struct sframe_range *range)
{
	return likely(!(range->delta & SFRAME_RANGE_CLAIMED)) ||
	       unwind_file_claims_no_sframe(range->file);
}

/**
 * struct sframe_entry - Some code, and the table for it
 * @sec:	The table, valid if @has_table
 * @code:	The code. Found entries may cover less than their table, which has
 *		all of a file
 * @reason:	Why the table is not to be used, or NULL
 * @retry:	In jiffies, when an entry without table is to be searched again
 * @text:	In the mm's tree by code, or empty. Protected by sframe_mm::lock
 * @table:	In the mm's tree by table, if @has_table
 * @list:	In sframe_mm::found, if not @added
 * @ref:	One for the tree, one for each walk that uses the entry
 * @has_table:	There is a table, as opposed to one that could not be read
 * @added:	Added on request: neither replaced nor evicted
 * @attached:	Not by prctl(): there is no SFrame table, but the file may have one,
 *		and is nothing but this memory
 * @rcu:	To free it
 */
struct sframe_entry {
	struct sframe_section		sec;
	struct sframe_range		code;
	const char			*reason;
	unsigned long			retry;
	struct rb_node			text;
	struct interval_tree_node	table;
	struct list_head		list;
	refcount_t			ref;
	bool				has_table;
	bool				added;
	bool				attached;
	struct rcu_head			rcu;
};

static inline bool sframe_entry_has(const struct sframe_entry *entry,
				    unsigned long pc)
{
	return sframe_range_has(&entry->code, pc);
}

/* The program's own code is one that most frames are in. */
static inline unsigned int sframe_bare_slot(const struct sframe_range *range)
{
	unsigned long code = READ_ONCE(current->mm->start_code);

	return code >= range->start && code < range->end ? 0 : 1;
}

/**
 * struct sframe_bare - The code of an mm that has no table
 * @rcu:	To free it
 * @nr:		Number of ranges
 * @room:	How many there is room for
 * @ranges:	Sorted by address, the highest first: mmap() goes downwards, so newer
 *		code mostly comes at the end
 *
 * Ranges come and go in place while sframe_mm::seq says so; if there is no room,
 * there is a new array.
 */
struct sframe_bare {
	struct rcu_head		rcu;
	unsigned int		nr;
	unsigned int		room;
	struct sframe_range	ranges[] __counted_by(room);
};

/**
 * struct sframe_mm - The tables of an mm
 * @lock:	Protects all below but for what is said there
 * @seq:	Of changes of @texts and of ranges in @bare, for lookups without
 *		the lock
 * @cuts:	Changes when ranges go from @bare. Not @seq, which comes back to the
 *		same number while a walk sleeps. Read without the lock
 * @texts:	All entries; they do not overlap
 * @tables:	Those that have a table, by its address; they may overlap
 * @found:	Those that were not added, the oldest first
 * @searches:	Searches under way
 * @nr_found:	Entries in @found
 * @nr_added:	Those that prctl() added
 * @nr_attached: Memory that has, or had, a table of its own
 * @files_epoch: What unwind_files_epoch was when the ranges were new. No lock
 * @gen:	Changes when an entry goes. Read without the lock
 * @bare:	Code without table, or NULL. Read under RCU
 * @last_bare:	Indices of the ranges that were needed last, as a hint: any range
 *		that is there is bare. No lock
 * @no_memory:	In jiffies, when memory for @cache was refused. No lock
 * @cache:	Rules by address; comes with the first entry that has a table and
 *		stays. NULL until then. Read without the lock
 */
struct sframe_mm {
	/* See above, and the table at the top for the entries. */
	spinlock_t			lock;
	seqcount_spinlock_t		seq;
	u64				cuts;
	struct rb_root			texts;
	struct rb_root_cached		tables;
	struct list_head		found;
	struct list_head		searches;
	unsigned int			nr_found;
	unsigned int			nr_added;
	unsigned int			nr_attached;
	unsigned int			files_epoch;
	u64				gen;
	struct sframe_bare __rcu	*bare;
	u16				last_bare[UNWIND_USER_BARE];
	unsigned long			no_memory;
	struct rule_cache		*cache;
};

/**
 * struct sframe_search - A search that reads headers without the mmap lock
 * @list:	In sframe_mm::searches
 * @start:	First byte of the mappings that it looks at
 * @end:	The end of the last one (exclusive)
 * @gone:	Some of it was unmapped since
 */
struct sframe_search {
	struct list_head	list;
	unsigned long		start;
	unsigned long		end;
	bool			gone;
};

struct sframe_mm *sframe_mm_of(struct mm_struct *mm);
struct sframe_mm *sframe_mm_get(struct mm_struct *mm, gfp_t gfp);
struct rule_cache *sframe_mm_cache(struct sframe_mm *sm);

void sframe_mm_renew(struct sframe_mm *sm);
void sframe_next_gen(struct sframe_mm *sm);
bool sframe_is_anonymous(struct mm_struct *mm, unsigned long start,
			 unsigned long end);
int sframe_check_mapped(struct mm_struct *mm, unsigned long start,
			unsigned long end, unsigned long flags);

struct sframe_entry *sframe_entry_first(struct sframe_mm *sm,
					unsigned long start);
struct sframe_entry *sframe_entry_next(const struct sframe_entry *entry);
void sframe_entry_link(struct sframe_mm *sm, struct sframe_entry *entry);
void sframe_entry_unlink(struct sframe_mm *sm, struct sframe_entry *entry,
			 const char *what);
void sframe_unlink_found(struct sframe_mm *sm, unsigned long start,
			 unsigned long end);
void sframe_trace_entry(const struct sframe_entry *entry, const char *what);

struct sframe_entry *sframe_entry_get(struct sframe_mm *sm, unsigned long pc);
struct sframe_entry *sframe_entry_alloc(gfp_t gfp);
void sframe_entry_put(struct sframe_entry *entry);
void sframe_entry_bad(struct sframe_mm *sm, struct sframe_entry *entry,
		      enum sframe_status status);
void sframe_entry_drop(struct sframe_mm *sm, struct sframe_entry *entry);
int sframe_entry_attach(struct sframe_mm *sm, struct sframe_entry *entry,
			struct unwind_attach *attach,
			struct list_head *of_table);
struct sframe_entry *sframe_insert_found(struct sframe_mm *sm,
					 struct sframe_entry *entry,
					 struct sframe_search *search,
					 unsigned long pc, unsigned int epoch);

void sframe_bare_last(struct sframe_mm *sm, struct unwind_user_bare *last);
bool sframe_bare_find(struct sframe_mm *sm, unsigned long pc,
		      struct sframe_range *range, u64 *cuts);
struct sframe_bare *sframe_bare_room(struct sframe_mm *sm);
bool sframe_bare_add(struct sframe_mm *sm, struct sframe_range *range,
		     unsigned long pc, const char *reason, struct sframe_bare **room);
void sframe_bare_remove(struct sframe_mm *sm, unsigned long start,
			unsigned long end, const char *what);
void sframe_bare_free(struct sframe_mm *sm);
bool sframe_bare_insert(struct sframe_mm *sm, struct sframe_range *range,
			struct sframe_search *search, unsigned long pc,
			unsigned int epoch, const char *reason, u64 *cuts);

void sframe_search_begin(struct sframe_mm *sm, struct sframe_search *search);
void sframe_search_extend(struct sframe_mm *sm, struct sframe_search *search,
			  unsigned long start, unsigned long end);
void sframe_search_end(struct sframe_mm *sm, struct sframe_search *search);

enum unwind_user_status
sframe_discover(struct sframe_mm *sm, unsigned long pc,
		struct sframe_entry **entry, struct sframe_range *bare, u64 *cuts);

#endif /* _KERNEL_UNWIND_SFRAME_MM_H */
