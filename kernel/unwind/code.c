// SPDX-License-Identifier: GPL-2.0
/*
 * The code map of an mm, see code.h: find the rule for an address, and learn about
 * code that no walk has come to yet.
 *
 * unwind_code_find() takes no lock for what it looks at, allocates nothing and takes no
 * page faults. unwind_code_rule() may sleep, and is where the map grows.
 *
 * A cached rule counts only if the range of its address was compared in this walk, and
 * in the generation of the map that had the range. Since the map is replaced as a
 * whole, whoever finds a range finds the right generation with it.
 */

#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/unwind_code.h>

#include <asm/unwind_user.h>

#include "code.h"
#include "deferred.h"
#include "table_file.h"

static void set_range(struct unwind_range *range, const struct vm_area_struct *vma,
		      const struct inode *inode)
{
	range->start = READ_ONCE(vma->vm_start);
	range->end = READ_ONCE(vma->vm_end);
	range->key = inode ?: arch_unwind_vdso_key(vma);
	range->differs = unwind_vma_may_differ(vma);
	range->delta = 0;
	if (range->key)
		range->delta = ((u64)READ_ONCE(vma->vm_pgoff) << PAGE_SHIFT) -
			       range->start;
}

/* Of an inode that may be gone. Returns false if its memory is. */
static bool set_identity(struct unwind_range *range, const struct inode *inode)
{
	struct unwind_identity *id = &range->identity;

	memset(id, 0, sizeof(*id));
	return !inode ||
	       (!get_kernel_nofault(id->ino, &inode->i_ino) &&
		!get_kernel_nofault(id->size, &inode->i_size) &&
		!get_kernel_nofault(id->mtime_sec, &inode->i_mtime_sec) &&
		!get_kernel_nofault(id->mtime_nsec, &inode->i_mtime_nsec) &&
		!get_kernel_nofault(id->generation, &inode->i_generation));
}

/**
 * unwind_range_set - Describe a mapping
 * @range:	Gets place and file
 * @vma:	The mapping
 *
 * Context: mmap lock held, or that of @vma
 */
void unwind_range_set(struct unwind_range *range, const struct vm_area_struct *vma)
{
	const struct inode *inode = vma->vm_file ? file_inode(vma->vm_file) : NULL;

	set_range(range, vma, inode);
	set_identity(range, inode);
	range->seq = UNWIND_SEQ_NONE;
}

static unsigned int mmap_seq(const struct mm_struct *mm)
{
	/* Pairs with mm_lock_seqcount_end(): what is read next is not older than that. */
	return smp_load_acquire(&mm->mm_lock_seq.sequence);
}

/*
 * See what is mapped at an address without a lock: any other thread may be changing
 * it. @range->seq is set if there was no writer from the first look to the last, so that
 * all of it was true at the same time. Returns false if it is no code, or not what is
 * known by @key. Under RCU, which keeps VMAs but not all files: those of overlayfs go at
 * once.
 */
static bool look(struct mm_struct *mm, unsigned long pc, const void *key,
		 struct unwind_range *range)
{
	MA_STATE(mas, &mm->mm_mt, pc, pc);
	struct vm_area_struct *vma;
	struct inode *inode = NULL;
	struct file *file;
	unsigned int seq;

	seq = mmap_seq(mm);
	vma = mas_walk(&mas);
	if (!vma || !(READ_ONCE(vma->vm_flags) & VM_EXEC))
		return false;
	file = READ_ONCE(vma->vm_file);
	if (file && get_kernel_nofault(inode, &file->f_inode))
		return false;
	set_range(range, vma, inode);
	/* While a VMA is being split, the one that was found may not have @pc. */
	if (range->key != key || pc - range->start >= range->end - range->start ||
	    !set_identity(range, inode))
		return false;

	/* Pairs with mm_lock_seqcount_begin(): changes come after that. */
	smp_rmb();
	range->seq = seq & 1 || READ_ONCE(mm->mm_lock_seq.sequence) != seq ?
		     UNWIND_SEQ_NONE : seq;
	return true;
}

/* How many of these ranges start at @pc or below? The last of them may have it. */
static __always_inline unsigned int
ranges_to(struct unwind_range *const *ranges, unsigned int nr, unsigned long pc)
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

/*
 * Are the ranges, where both have some code, from the same place of the same file? And
 * with the same contents, which what is @added does not depend on.
 */
static bool is_same_code(const struct unwind_range *a, const struct unwind_range *b,
			 bool added)
{
	const struct unwind_identity *id = &a->identity, *other = &b->identity;

	return a->key == b->key && a->delta == b->delta && id->ino == other->ino &&
	       id->generation == other->generation &&
	       (added || (a->differs == b->differs && id->size == other->size &&
			  id->mtime_sec == other->mtime_sec &&
			  id->mtime_nsec == other->mtime_nsec));
}

/*
 * Is the code at @pc still that of a range? @code gets as much of it as is. A mapping
 * that a writer may be about to change is the one that this task has been executing.
 */
static noinline bool compare(struct unwind_code *code, struct unwind_range *range,
			     unsigned long pc, bool added)
{
	struct unwind_range now;

	if (!look(current->mm, pc, range->key, &now) || !is_same_code(range, &now, added))
		return false;
	if (now.start <= range->start && now.end >= range->end) {
		WRITE_ONCE(range->seq, now.seq);
		return true;
	}

	/* The memory of a JIT compiler often is in several mappings. */
	if (!added)
		return false;
	code->start = max(range->start, now.start);
	code->len = min(range->end, now.end) - code->start;
	return true;
}

/* Were no mappings changed since the range was compared with one? */
static __always_inline bool is_current(const struct unwind_range *range)
{
	unsigned int seq = mmap_seq(current->mm);

	return likely(READ_ONCE(range->seq) == seq) && !(seq & 1);
}

static __always_inline bool is_same(struct unwind_code *code, struct unwind_range *range,
				    unsigned long pc, bool added)
{
	if (pc - range->start >= range->end - range->start)
		return false;
	code->start = range->start;
	code->len = range->end - range->start;
	return is_current(range) || compare(code, range, pc, added);
}

/*
 * Leave to tables that the process has added what they may be for. @nr of them start at
 * @pc or below.
 */
static void clip(struct unwind_code *code, const struct unwind_map *map,
		 unsigned int nr, unsigned long pc)
{
	unsigned long start = code->start, end = code->start + code->len;

	if (nr && pc < map->ranges[nr - 1]->end) {
		start = max(start, map->ranges[nr - 1]->start);
		end = min(end, map->ranges[nr - 1]->end);
	} else if (nr) {
		start = max(start, map->ranges[nr - 1]->end);
	}
	if (nr < map->nr_added)
		end = min(end, map->ranges[nr]->start);
	code->start = start;
	code->len = end - start;
}

/* The range with @pc, if it can be compared. @code gets what it covers. */
static noinline struct unwind_range *
find_range(struct unwind_code *code, const struct unwind_map *map, unsigned long pc,
	   bool *is_added)
{
	struct unwind_range *const *found = map->ranges + map->nr_added;
	unsigned int added = 0, nr;

	if (unlikely(map->nr_added)) {
		added = ranges_to(map->ranges, map->nr_added, pc);
		*is_added = added && is_same(code, map->ranges[added - 1], pc, true);
		if (*is_added)
			return map->ranges[added - 1];
	}

	nr = ranges_to(found, map->nr - map->nr_added, pc);
	if (!nr || !is_same(code, found[nr - 1], pc, false))
		return NULL;
	if (unlikely(map->nr_added))
		clip(code, map, added, pc);
	return found[nr - 1];
}

/* The same where nothing was changed, so that it need not be compared */
static __always_inline struct unwind_range *
find_range_fast(struct unwind_code *code, const struct unwind_map *map, unsigned long pc)
{
	unsigned int nr = ranges_to(map->ranges, map->nr, pc);
	struct unwind_range *range;

	if (!nr || map->nr_added)
		return NULL;
	range = map->ranges[nr - 1];
	if (pc >= range->end || !is_current(range))
		return NULL;
	code->start = range->start;
	code->len = range->end - range->start;
	return range;
}

/* Have files got tables since it was found that the range's has none? */
static __always_inline bool may_have_table(struct unwind_range *range)
{
	unsigned int count;

	if (!unwind_files_used())
		return false;
	count = unwind_files_added();
	if (likely(READ_ONCE(range->count) == count))
		return false;
	if (unwind_range_is_file(range) && unwind_file_has_table(range->key))
		return true;
	WRITE_ONCE(range->count, count);
	return false;
}

/* Is there more to know about the file than when the range was found? */
static bool is_outdated(struct unwind_range *range)
{
	if (!range->sframe && time_after32((u32)jiffies, range->asked + HZ))
		return true;
	if (range->file)
		return unwind_file_count(range->file) != READ_ONCE(range->count) ||
		       unwind_file_is_dead(range->file);
	return may_have_table(range);
}

static bool has_sframe(const struct unwind_range *range)
{
	return !IS_ERR_OR_NULL(range->sframe);
}

/* Have the table for the file at hand, if it has some of the code. */
static void find_table(struct unwind_code *code, const struct unwind_range *range,
		       unsigned long pc)
{
	struct unwind_table *table = unwind_file_table(range->file);
	struct unwind_table_part *part = &code->part;
	u64 at = pc + range->delta, first = code->start + range->delta;
	u64 end = first + code->len;

	if (!table)
		return;
	if (unwind_table_find_part(table, at, part)) {
		first = max(first, part->start);
		end = min(end, part->start + part->len);
		part->start -= range->delta;
		code->table = table;
		unwind_table_note_use(table);
	} else {
		/* Of a segment with code, few pages are in no run. */
		first = max(first, at & ~(UNWIND_TABLE_PAGE_SIZE - 1ULL));
		end = min(end, (at | (UNWIND_TABLE_PAGE_SIZE - 1ULL)) + 1);
	}
	code->start = first - range->delta;
	code->len = end - first;
}

/* Use an SFrame table until the walk comes to code without it. */
static bool use_sframe(struct unwind_code *code, struct unwind_sframe *sframe)
{
	if (code->sframe == sframe)
		return true;
	unwind_sframe_put(code->sframe);
	code->sframe = sframe;
	if (sframe && !refcount_inc_not_zero(&sframe->ref))
		code->sframe = NULL;
	return code->sframe == sframe;
}

/* Code of a file without tables, as most is if nobody makes any */
static bool is_plain(const struct unwind_range *range)
{
	return unwind_range_is_file(range) && !range->file &&
	       range->sframe == ERR_PTR(-ENOENT);
}

/* The rest of unwind_code_find(), for all other code */
static noinline bool find_rules(struct unwind_code *code, const struct unwind_range *range,
				unsigned long pc)
{
	code->delta = range->delta;
	code->anon = !unwind_range_is_file(range) && !has_sframe(range);
	code->part.words = NULL;
	if (range->file)
		find_table(code, range, pc);
	if (!use_sframe(code, has_sframe(range) ? range->sframe : NULL))
		return false;
	code->fixed = !code->table && !code->sframe && !code->anon;
	return true;
}

/**
 * unwind_code_find - Know the code around an address
 * @code:	What the walk knows
 * @pc:		Address
 *
 * Context: Process context, in an RCU reader, until the end of which @code->table and
 *	    @code->part are valid. The rest of @code is valid as long as the walk.
 * Return: false if the map does not know the code, or no longer.
 */
bool unwind_code_find(struct unwind_code *code, unsigned long pc)
{
	const struct unwind_map *map = code->um ? rcu_dereference(code->um->map) : NULL;
	struct unwind_range *range;
	bool added = false;
	u64 gen;

	if (code->fixed) {
		code->last_start = code->start;
		code->last_len = code->len;
	}
	code->len = 0;
	code->fixed = false;
	code->anon = false;
	code->table = NULL;
	if (!map)
		return false;
	range = find_range_fast(code, map, pc) ?: find_range(code, map, pc, &added);
	/* What is added may be there one time, and what was found another time. */
	gen = map->gen * 2 + added;
	if (unlikely(code->gen != gen)) {
		code->gen = gen;
		code->mix = rule_cache_mix(gen);
	}
	if (range && likely(is_plain(range)) && !may_have_table(range)) {
		code->fixed = true;
		return true;
	}
	if (range && (added || !is_outdated(range)) && find_rules(code, range, pc))
		return true;
	code->len = 0;
	return false;
}

static void free_range(struct unwind_range *range)
{
	unwind_file_put(range->file);
	if (has_sframe(range))
		unwind_sframe_put(range->sframe);
	kfree_rcu(range, rcu);
}

/**
 * struct map_change - What makes one map of another
 * @added:	It concerns what the process has added, as opposed to found
 * @start:	Ranges go that have some of the bytes from here,
 * @end:	to here (exclusive)
 * @table:	If this is not 0: the SFrame table of the only one that goes
 * @new:	What comes there, or NULL
 * @first:	Gets the index of the first range that goes,
 * @len:	and their number
 */
struct map_change {
	bool			added;
	unsigned long		start;
	unsigned long		end;
	u64			table;
	struct unwind_range	*new;
	unsigned int		first;
	unsigned int		len;
};

static bool has_rules(const struct unwind_range *range)
{
	return range->file || has_sframe(range);
}

/* Do rules that were cached for a range hold for the one that takes its place? */
static bool still_holds(const struct unwind_range *range, const struct unwind_range *new)
{
	return new && range->start >= new->start && range->end <= new->end &&
	       is_same_code(range, new, false) && has_sframe(range) == has_sframe(new) &&
	       range->file == new->file && (!range->file || range->count == new->count);
}

/* Which of @nr ranges overlap with a change? Returns the first, with their number. */
static unsigned int overlap(struct unwind_range *const *ranges, unsigned int nr,
			    const struct map_change *change, unsigned int *len)
{
	unsigned int first = ranges_to(ranges, nr, change->start);

	if (first && ranges[first - 1]->end > change->start)
		first--;
	*len = ranges_to(ranges, nr, change->end - 1) - first;
	return first;
}

/* Do rules that may have been cached for these ranges count no longer? */
static bool drops_rules(struct unwind_range *const *ranges, unsigned int nr,
			const struct map_change *change)
{
	for (; nr; nr--, ranges++) {
		/* What is added comes before what was found. */
		if (has_rules(*ranges) &&
		    (change->added || !still_holds(*ranges, change->new)))
			return true;
	}
	return false;
}

static struct unwind_map *alloc_map(unsigned int nr, gfp_t gfp)
{
	struct unwind_map *map;

	map = kvmalloc(struct_size(map, ranges, nr), gfp);
	if (map)
		map->nr = nr;
	return map;
}

static struct unwind_map *map_locked(struct unwind_mm *um)
{
	return rcu_dereference_protected(um->map, lockdep_is_held(&um->lock));
}

/* How large may a copy of the map become? */
static unsigned int map_room(struct unwind_mm *um)
{
	const struct unwind_map *map;

	guard(rcu)();
	map = rcu_dereference(um->map);
	return map ? map->nr + 1 : 1;
}

/* Fill in @new. Returns -ENOSPC if that would be too much, -EAGAIN if @table is gone. */
static int make_map(struct unwind_map *new, const struct unwind_map *old,
		    struct map_change *change)
{
	struct unwind_range *const *found = old->ranges + old->nr_added;
	unsigned int first, len, nr_found, nr_new = !!change->new;
	bool moves;

	nr_found = old->nr - old->nr_added;
	if (!change->added && nr_found >= UNWIND_MAX_FOUND) {
		/* All of it can be found again. */
		change->start = 0;
		change->end = ULONG_MAX;
	}
	first = overlap(found, nr_found, change, &len);
	moves = drops_rules(found + first, len, change);
	if (change->added) {
		first = overlap(old->ranges, old->nr_added, change, &len);
		moves |= drops_rules(old->ranges + first, len, change);
		if (nr_new && old->nr_added - len >= UNWIND_MAX_ADDED)
			return -ENOSPC;
		if (change->table && (len != 1 || change->table !=
				      old->ranges[first]->sframe->sec.start))
			return -EAGAIN;
	} else {
		first += old->nr_added;
	}

	new->nr = old->nr - len + nr_new;
	new->nr_added = change->added ? old->nr_added - len + nr_new : old->nr_added;
	new->gen = old->gen + moves;
	memcpy(new->ranges, old->ranges, first * sizeof(*found));
	memcpy(new->ranges + first + nr_new, old->ranges + first + len,
	       (old->nr - first - len) * sizeof(*found));
	if (nr_new)
		new->ranges[first] = change->new;
	change->first = first;
	change->len = len;
	return 0;
}

/* The generation has moved: what came or went elsewhere need not move it once more. */
static void update_counts(struct unwind_map *map)
{
	unsigned int i;

	for (i = 0; i < map->nr; i++) {
		struct unwind_range *range = map->ranges[i];

		if (range->file)
			WRITE_ONCE(range->count, unwind_file_count(range->file));
	}
}

/* Put a changed copy in place of the map, which has the references of what comes then. */
static int change_map(struct unwind_mm *um, struct map_change *change, gfp_t gfp)
{
	static struct unwind_map none;
	struct unwind_map *new, *old;
	unsigned int room, i;
	int ret;

	for (;;) {
		room = map_room(um);
		new = alloc_map(room, gfp);
		if (!new)
			return -ENOMEM;
		spin_lock(&um->lock);
		old = map_locked(um);
		if (!old || old->nr < room)
			break;
		spin_unlock(&um->lock);
		kvfree(new);
	}

	if (!old)
		old = &none;
	ret = make_map(new, old, change);
	if (!ret) {
		/*
		 * Before any walk can cache rules in the new generation: if a table goes
		 * after one did, the count has to tell.
		 */
		if (new->gen != old->gen)
			update_counts(new);
		rcu_assign_pointer(um->map, new);
		for (i = change->first; i < change->first + change->len; i++)
			free_range(old->ranges[i]);
	}
	spin_unlock(&um->lock);

	if (ret)
		kvfree(new);
	else if (old != &none)
		kvfree_rcu(old, rcu);
	return ret;
}

/* Put a range into the map in place of all that it overlaps, with its references. */
static int insert(struct unwind_mm *um, const struct unwind_range *range, bool added,
		  gfp_t gfp)
{
	struct map_change change = {
		.added = added, .start = range->start, .end = range->end,
	};
	int ret;

	change.new = kmemdup(range, sizeof(*range), gfp);
	if (!change.new)
		return -ENOMEM;
	ret = change_map(um, &change, gfp);
	if (ret)
		kfree(change.new);
	return ret;
}

/**
 * unwind_map_add - Use an SFrame table that the process has named
 * @um:		Of current's mm
 * @range:	The code, with a reference to the table, which is the map's on success. It
 *		replaces what it overlaps of earlier ones
 * @gfp:	How to get the memory
 *
 * Return: 0; -ENOMEM; or -ENOSPC if there are UNWIND_MAX_ADDED.
 */
int unwind_map_add(struct unwind_mm *um, const struct unwind_range *range, gfp_t gfp)
{
	return insert(um, range, true, gfp);
}

/* Is there a range with this table that was added? @change gets its place. */
static bool find_added(struct unwind_mm *um, struct map_change *change)
{
	const struct unwind_map *map;
	unsigned int i;

	guard(rcu)();
	map = rcu_dereference(um->map);
	for (i = 0; map && i < map->nr_added; i++) {
		if (map->ranges[i]->sframe->sec.start != change->table)
			continue;
		change->start = map->ranges[i]->start;
		change->end = map->ranges[i]->end;
		return true;
	}
	return false;
}

/**
 * unwind_map_remove - Forget an SFrame table that the process has named
 * @um:			Of current's mm
 * @sframe_start:	Address of the table
 * @gfp:		How to get the memory
 *
 * Return: 0; -ENOMEM; or -ENOENT if there is no such table.
 */
int unwind_map_remove(struct unwind_mm *um, u64 sframe_start, gfp_t gfp)
{
	struct map_change change = { .added = true, .table = sframe_start };
	int ret = -ENOENT, err;

	/* Other threads may be adding it again, and again. */
	while (find_added(um, &change) && !fatal_signal_pending(current)) {
		err = change_map(um, &change, gfp);
		if (err && err != -EAGAIN)
			return err;
		ret = 0;
		cond_resched();
	}
	return ret;
}

/* Why the mapping of @pc could not be locked */
static enum unwind_user_status no_mapping(unsigned long pc)
{
	MA_STATE(mas, &current->mm->mm_mt, pc, pc);
	const struct vm_area_struct *vma;

	guard(rcu)();
	vma = mas_walk(&mas);
	return vma && READ_ONCE(vma->vm_flags) & VM_EXEC ? UNWIND_USER_CHANGING :
							    UNWIND_USER_NO_CODE;
}

/*
 * Learn about the code around an address by its mapping. No lock is waited for: a
 * writer may hold those of all mappings for as long as a fork takes.
 */
static enum unwind_user_status learn(struct unwind_code *code, unsigned long pc)
{
	struct unwind_range range = { .asked = (u32)jiffies };
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct file *file = NULL;
	unsigned int seq;

	if (unlikely(!code->um))
		return UNWIND_USER_FAULT;
	vma = lock_vma_under_rcu(mm, pc);
	if (!vma)
		return no_mapping(pc);
	if (!(vma->vm_flags & VM_EXEC)) {
		vma_end_read(vma);
		return UNWIND_USER_NO_CODE;
	}
	unwind_range_set(&range, vma);
	/* Whatever else changes now, it is not this mapping. */
	seq = mmap_seq(mm);
	if (!(seq & 1))
		range.seq = seq;
	if (unwind_range_is_file(&range)) {
		file = vma->vm_file;
		unwind_file_note(&range, file ? file_inode(file) : NULL);
		if (file)
			get_file(file);
	}
	vma_end_read(vma);

	/* User memory is read, which may take time. */
	range.sframe = unwind_sframe_find(&range, file, pc);
	if (file)
		fput(file);

	if (range.sframe == ERR_PTR(-EAGAIN)) {
		if (!range.file)
			return UNWIND_USER_FAULT;
		/* The file has a better one; this one may be asked for later. */
		range.sframe = NULL;
	}
	if (!insert(code->um, &range, false, unwind_gfp()))
		return UNWIND_USER_FOUND;
	unwind_file_put(range.file);
	if (has_sframe(&range))
		unwind_sframe_put(range.sframe);
	return UNWIND_USER_FAULT;
}

/* Is the code at hand without an RCU reader, which keeps tables? */
static bool has_code(const struct unwind_code *code, unsigned long pc)
{
	return pc - code->start < code->len && !code->table;
}

/*
 * What is known about @pc without reading user memory. Returns UNWIND_USER_NO_RULE if an
 * SFrame table has to be asked, UNWIND_USER_END if there is no table, and
 * UNWIND_USER_CHANGING if nothing is known of the code.
 */
static enum unwind_user_status known_rule(struct unwind_code *code, unsigned long pc,
					  struct unwind_rule *rule)
{
	enum unwind_user_status status = UNWIND_USER_NO_RULE;

	guard(rcu)();
	if (!has_code(code, pc) && !unwind_code_find(code, pc))
		return UNWIND_USER_CHANGING;
	if (code->fixed || code->anon)
		return UNWIND_USER_END;
	if (rule_slots_get(rule_cache_slots(code->um->cache, pc),
			   rule_cache_tag(pc, code->mix), &rule->word))
		return UNWIND_USER_FOUND;
	if (code->table)
		status = unwind_table_find(code->table, pc + code->delta, rule);
	if (status == UNWIND_USER_NO_RULE && !code->sframe) {
		rule->word = unwind_word_fp(sizeof(u64));
		status = UNWIND_USER_FOUND;
	}
	return status;
}

/**
 * unwind_code_rule - Find the rule for an address in its table
 * @code:	What the walk knows
 * @pc:		Address
 * @missed:	It is not in the cache
 * @rule:	The rule; its word is 0 if it has only the long form
 * @type:	Which kind of table it is from
 *
 * A rule that fits into a word is in the cache afterwards, and so is the answer that
 * there is no rule.
 *
 * Context: Process context, may sleep and take page faults.
 * Return: UNWIND_USER_FOUND; UNWIND_USER_NO_RULE if no table covers the address; or the
 *	   reason why its table cannot be read, or the code is not known, which ends the
 *	   walk.
 */
enum unwind_user_status
unwind_code_rule(struct unwind_code *code, unsigned long pc, bool missed,
		 struct unwind_rule *rule, enum unwind_user_type *type)
{
	enum unwind_user_status status = UNWIND_USER_NO_RULE;
	unsigned int tries = 0;

	*type = UNWIND_USER_TYPE_FILE;
	/* Other threads may unmap and map what is learnt. */
	while (!(missed && code->sframe && !code->fixed && has_code(code, pc))) {
		status = known_rule(code, pc, rule);
		if (status != UNWIND_USER_CHANGING || tries++ == 3)
			break;
		status = learn(code, pc);
		if (status != UNWIND_USER_FOUND)
			return status;
		missed = false;
	}
	if (status == UNWIND_USER_END)
		return UNWIND_USER_NO_RULE;
	if (status == UNWIND_USER_NO_RULE) {
		*type = UNWIND_USER_TYPE_SFRAME;
		status = unwind_sframe_rule(code->sframe, pc, rule);
	}
	if (status != UNWIND_USER_FOUND || !rule->word)
		return status;

	rule_slots_set(rule_cache_slots(code->um->cache, pc), rule_cache_tag(pc, code->mix),
		       rule->word);
	if (!(rule->word & UNWIND_WORD_TABLE))
		return UNWIND_USER_NO_RULE;
	*type = rule->word & UNWIND_WORD_FILE ? UNWIND_USER_TYPE_FILE : UNWIND_USER_TYPE_SFRAME;
	return UNWIND_USER_FOUND;
}

/**
 * unwind_mm_get - What the unwinder has of an mm, which is made if there is nothing
 * @mm:		Address space that has users
 * @gfp:	How to get the memory
 *
 * Return: That, which lives as long as the mm has users; NULL if there is no memory.
 */
struct unwind_mm *unwind_mm_get(struct mm_struct *mm, gfp_t gfp)
{
	struct unwind_mm *um, *old;

	/* Pairs with cmpxchg() below. */
	um = smp_load_acquire(&mm->unwind);
	if (likely(um))
		return um;

	um = kzalloc(sizeof(*um), gfp);
	if (!um)
		return NULL;
	um->cache = kvcalloc(RULE_SETS, sizeof(*um->cache), gfp);
	if (!um->cache) {
		kfree(um);
		return NULL;
	}
	spin_lock_init(&um->lock);
	old = cmpxchg(&mm->unwind, NULL, um);
	if (!old)
		return um;
	kvfree(um->cache);
	kfree(um);
	return old;
}

/**
 * unwind_code_begin - Begin a walk
 * @code:	What the walk knows, not initialized
 *
 * Without the memory for the map the walk ends where it first needs to know about some
 * code.
 *
 * Context: Process context, may sleep.
 */
void unwind_code_begin(struct unwind_code *code)
{
	code->start = 0;
	code->len = 0;
	code->last_len = 0;
	code->fixed = false;
	code->anon = false;
	code->table = NULL;
	code->sframe = NULL;
	code->gen = 0;
	code->mix = rule_cache_mix(0);
	/* As in unwind_mm_get(), which is rarely needed. */
	code->um = smp_load_acquire(&current->mm->unwind);
	if (unlikely(!code->um))
		code->um = unwind_mm_get(current->mm, unwind_gfp());
}

/**
 * unwind_code_end - End a walk
 * @code:	What unwind_code_begin() got
 */
void unwind_code_end(struct unwind_code *code)
{
	if (code->sframe)
		unwind_sframe_put(code->sframe);
}

/* The next range after @range that was added, with a reference to its table */
static bool next_added(struct unwind_mm *um, struct unwind_range *range)
{
	const struct unwind_map *map;
	unsigned int i;

	guard(rcu)();
	map = rcu_dereference(um->map);
	if (!map)
		return false;
	i = range->end ? ranges_to(map->ranges, map->nr_added, range->end - 1) : 0;
	for (; i < map->nr_added; i++) {
		/* A walk may be noting a sequence, which is not used here. */
		*range = data_race(*map->ranges[i]);
		if (refcount_inc_not_zero(&range->sframe->ref))
			return true;
	}
	return false;
}

/*
 * See unwind_mm_dup(). Other threads of the parent may add and remove tables. One that
 * becomes bad does so in one of the two memories.
 */
int __unwind_mm_dup(struct unwind_mm *old, struct mm_struct *mm)
{
	struct unwind_range range = { };
	struct unwind_sframe *sframe;
	struct unwind_mm *um;
	int ret = 0;

	while (!ret && next_added(old, &range)) {
		/* What is allocated goes in unwind_mm_exit(). */
		um = unwind_mm_get(mm, GFP_KERNEL_ACCOUNT);
		sframe = unwind_sframe_alloc(GFP_KERNEL_ACCOUNT);
		ret = -ENOMEM;
		if (um && sframe) {
			sframe->sec = range.sframe->sec;
			sframe->bad = READ_ONCE(range.sframe->bad);
			swap(sframe, range.sframe);
			range.seq = UNWIND_SEQ_NONE;
			ret = unwind_map_add(um, &range, GFP_KERNEL_ACCOUNT);
		}
		if (ret)
			unwind_sframe_put(range.sframe);
		unwind_sframe_put(sframe);
	}
	return ret;
}

/* See unwind_mm_exit(). */
void __unwind_mm_exit(struct mm_struct *mm)
{
	struct unwind_mm *um = mm->unwind;
	struct unwind_map *map = rcu_dereference_protected(um->map, true);
	unsigned int i;

	/* Walks are those of tasks that use the mm. */
	WARN_ON_ONCE(atomic_read(&mm->mm_users));

	for (i = 0; map && i < map->nr; i++)
		free_range(map->ranges[i]);
	kvfree(map);
	kvfree(um->cache);
	kfree(um);
	mm->unwind = NULL;
}
