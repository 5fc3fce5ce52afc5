/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_SFRAME_SECTIONS_H
#define _KERNEL_UNWIND_SFRAME_SECTIONS_H

/*
 * What an mm knows of the SFrame tables for its code. Shared by the store
 * (sframe_sections.c), the search for tables (sframe_discover.c) and the walker
 * (user_sframe.c).
 *
 * Who may do what when:
 *
 *		insert		remove		look up		use an entry
 * lock		sm->lock, and	sm->lock	RCU, retried	a reference
 *		mmap lock that			by sm->seq
 *		keeps the code
 *		and table mapped
 *
 * An entry does not change but for @reason; it is replaced by another one. Its
 * memory goes with the last reference and a grace period.
 */

#include <linux/bits.h>
#include <linux/gfp.h>
#include <linux/hash.h>
#include <linux/interval_tree.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "sframe.h"

/*
 * Limits per mm. Entries that were found make room for newer ones, those that
 * were asked for are refused. All of them together are some 1.3 MB of kernel
 * memory, which is charged to the memory cgroup.
 */
#define SFRAME_MAX_FOUND	1024
#define SFRAME_MAX_ADDED	4096

/*
 * For entries: a walk is for somebody else and rather does without than bring in
 * the OOM killer where a memory cgroup is at its limit, and prctl() can fail.
 */
#define SFRAME_GFP		(GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN)

/* Bytes that a table may have; offsets in it are of 32 bits. */
#define SFRAME_MAX_TABLE	BIT(32)

/**
 * struct sframe_entry - What is known about a range of code
 * @sec:	The table, valid if @reason was NULL at first
 * @start:	First byte of the code
 * @end:	Behind the last one. Found entries may cover less code than their
 *		table, which has all of a file
 * @reason:	Why there is no table to use, or NULL
 * @text:	In the mm's tree by code, or empty. Protected by sframe_mm::lock
 * @table:	In the mm's tree by table, if @has_table
 * @list:	In sframe_mm::found, if not @added
 * @ref:	One for the tree, one for each walk that uses the entry
 * @has_table:	There was a table at first
 * @added:	prctl() asked for it: neither replaced nor evicted
 * @rcu:	To free it
 */
struct sframe_entry {
	struct sframe_section		sec;
	unsigned long			start;
	unsigned long			end;
	const char			*reason;
	struct rb_node			text;
	struct interval_tree_node	table;
	struct list_head		list;
	refcount_t			ref;
	bool				has_table;
	bool				added;
	struct rcu_head			rcu;
};

static inline bool sframe_entry_has(const struct sframe_entry *entry,
				    unsigned long pc)
{
	return pc - entry->start < entry->end - entry->start;
}

/**
 * struct sframe_slot - A rule that was looked up
 * @tag:	See sframe_slot_tag()
 * @word:	As sframe_rule_pack() makes it, or SFRAME_WORD_NONE
 */
struct sframe_slot {
	u64	tag;
	u64	word;
};

/* There is nothing to be found for this address, so the next method's turn. */
#define SFRAME_WORD_NONE	(SFRAME_WORD_VALID | 0x8ULL)

/*
 * A few times the depth of an ordinary stack, and as many ways as it takes to
 * have all of the stack: what is walked again and again stays.
 */
#define SFRAME_WAYS		4
#define SFRAME_CACHE_ORDER	2
#define SFRAME_SETS		((PAGE_SIZE << SFRAME_CACHE_ORDER) / \
				 sizeof(struct sframe_set))

/* The rules of addresses that have the same sframe_set_index() */
struct sframe_set {
	struct sframe_slot	slots[SFRAME_WAYS];
};

/**
 * struct sframe_mm - The tables of an mm
 * @lock:	Protects all below but for what is said there
 * @seq:	Of changes of @texts, for lookups without the lock
 * @texts:	All entries; they do not overlap
 * @tables:	Those that have a table, by its address; they may overlap
 * @found:	Those that were not added, the oldest first
 * @probes:	Searches under way, see struct sframe_probe
 * @nr_found:	Entries in @found
 * @nr_added:	The others
 * @gen:	Changes when an entry goes. Read without the lock
 * @none:	An entry without table that is in use, or NULL: most programs need
 *		no other. Read under RCU
 * @cache:	Rules by address, SFRAME_SETS. No lock: a slot that was read half
 *		before and half after a change does not match its tag
 * @next_way:	Which slot of a set goes next, more or less. No lock
 */
struct sframe_mm {
	/* See above, and the table at the top for the entries. */
	spinlock_t			lock;
	seqcount_spinlock_t		seq;
	struct rb_root			texts;
	struct rb_root_cached		tables;
	struct list_head		found;
	struct list_head		probes;
	unsigned int			nr_found;
	unsigned int			nr_added;
	u64				gen;
	struct sframe_entry __rcu	*none;
	struct sframe_set		*cache;
	unsigned int			next_way;
};

/**
 * struct sframe_probe - A search that reads headers without the mmap lock
 * @list:	In sframe_mm::probes
 * @start:	First byte of the mappings that it looks at
 * @end:	Behind the last one
 * @gone:	Some of it was unmapped since
 */
struct sframe_probe {
	struct list_head	list;
	unsigned long		start;
	unsigned long		end;
	bool			gone;
};

struct sframe_mm *sframe_mm_get(void);
struct sframe_entry *sframe_entry_get(struct sframe_mm *sm, unsigned long pc);
struct sframe_entry *sframe_entry_alloc(gfp_t gfp);
void sframe_entry_put(struct sframe_entry *entry);
void sframe_entry_bad(struct sframe_mm *sm, struct sframe_entry *entry,
		      enum sframe_status status);
void sframe_entry_note_none(struct sframe_mm *sm, struct sframe_entry *entry);
struct sframe_entry *sframe_insert_found(struct sframe_mm *sm,
					 struct sframe_entry *entry,
					 struct sframe_probe *probe,
					 unsigned long pc);

void sframe_probe_begin(struct sframe_mm *sm, struct sframe_probe *probe);
void sframe_probe_extend(struct sframe_mm *sm, struct sframe_probe *probe,
			 unsigned long start, unsigned long end);
void sframe_probe_end(struct sframe_mm *sm, struct sframe_probe *probe);

struct sframe_entry *sframe_discover(struct sframe_mm *sm, unsigned long pc,
				     unsigned long *start, unsigned long *end);

/* Lets the rules of one generation not match in the next. */
static __always_inline u64 sframe_gen_mix(u64 gen)
{
	return gen * GOLDEN_RATIO_64;
}

static __always_inline unsigned int sframe_set_index(unsigned long pc)
{
	return (pc ^ (pc >> 8)) % SFRAME_SETS;
}

/*
 * The word is spread over all bits, so that words that differ by a few bits
 * cannot make up for addresses that do.
 */
static __always_inline u64 sframe_slot_tag(unsigned long pc, u64 word, u64 mix)
{
	return pc ^ mix ^ (word * GOLDEN_RATIO_64);
}

#endif /* _KERNEL_UNWIND_SFRAME_SECTIONS_H */
