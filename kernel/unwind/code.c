// SPDX-License-Identifier: GPL-2.0
/*
 * The code map of an mm, see code.h: find the rule for an address, and learn about
 * code that no walk has come to yet.
 *
 * unwind_code_find() takes no lock for what it reads, allocates nothing and takes no
 * page faults. unwind_code_rule() may sleep, and is where the map grows.
 *
 * A cached rule counts only if the range of its address was compared in this walk, and as
 * long as the range has the table that it is from.
 */

#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/unwind_code.h>
#include <linux/unwind_user.h>

#include <asm/unwind_user.h>

#include "code.h"
#include "deferred.h"

struct rule_cache unwind_rules __ro_after_init;

static void unwind_identity_set(struct unwind_identity *id, const struct inode *inode)
{
	id->size = i_size_read(inode);
	/* A change of the inode meanwhile shows in the next comparison. */
	data_race(({
		id->ino = inode->i_ino;
		id->mtime_sec = inode->i_mtime_sec;
		id->mtime_nsec = inode->i_mtime_nsec;
		id->generation = inode->i_generation;
	}));
}

/**
 * unwind_range_set - Describe a mapping
 * @range:	Gets place and file
 * @vma:	The mapping, of current's mm
 *
 * Context: mmap lock or the lock of @vma held; or an RCU reader, in which @vma may be
 *	    changing: the caller checks afterwards whether it is detached.
 * Return: false if the file is gone, which either lock rules out.
 */
bool unwind_range_set(struct unwind_range *range, const struct vm_area_struct *vma)
{
	const struct file *file = READ_ONCE(vma->vm_file);
	const struct inode *inode = NULL;

	range->identity = (struct unwind_identity) { };
	if (file) {
		inode = READ_ONCE(file->f_inode);
		/*
		 * If the mapping has gone, the file's memory can be that of another file, and
		 * not all inodes wait for RCU: those of pipes do not. A mapped file's does.
		 * See lookup+unmap.litmus.
		 */
		smp_rmb();
		if (!inode || unwind_vma_gone(vma, inode))
			return false;
		unwind_identity_set(&range->identity, inode);
	}
	range->start = READ_ONCE(vma->vm_start);
	range->end = READ_ONCE(vma->vm_end);
	range->key = inode ?: arch_unwind_vdso_key(current->mm, vma);
	range->differs = unwind_vma_may_differ(vma);
	range->delta = 0;
	if (range->key)
		range->delta = ((u64)READ_ONCE(vma->vm_pgoff) << PAGE_SHIFT) -
			       range->start;
	range->seq = UNWIND_SEQ_NONE;
	return true;
}

/*
 * Look up what is mapped at an address without a lock: other threads may be changing it.
 * @range->seq is set if there was no writer from the first read to the last, so that all
 * of it was true at the same time. Returns UNWIND_USER_FOUND; UNWIND_USER_NO_CODE; or
 * UNWIND_USER_CHANGING if the VMA that was found does not tell. The caller is an RCU
 * reader, which keeps the VMA, and the inode of a file that was mapped.
 */
static enum unwind_user_status unwind_vma_lookup(struct mm_struct *mm, unsigned long pc,
						 struct unwind_range *range)
{
	MA_STATE(mas, &mm->mm_mt, pc, pc);
	unsigned int seq = unwind_mmap_seq(mm);
	struct vm_area_struct *vma;
	bool is_code, has_file;

	vma = mas_walk(&mas);
	if (!vma)
		return UNWIND_USER_NO_CODE;
	is_code = READ_ONCE(vma->vm_flags) & VM_EXEC;
	/*
	 * __split_vma() sets the bounds of a half, and then its caller the flags. No
	 * barrier is between them, but x86 keeps stores in order.
	 */
	smp_rmb();
	has_file = unwind_range_set(range, vma);
	/*
	 * A VMA is detached before it is freed, which overwrites the bounds. And any
	 * change comes after mm_lock_seqcount_begin(), see seq+lookup.litmus.
	 */
	smp_rmb();
	if (!has_file || pc < range->start || pc >= range->end || unwind_vma_gone(vma, NULL))
		return UNWIND_USER_CHANGING;
	if (!is_code)
		return UNWIND_USER_NO_CODE;
	if (!(seq & 1) && READ_ONCE(mm->mm_lock_seq.sequence) == seq)
		range->seq = seq;
	return UNWIND_USER_FOUND;
}

/*
 * Are two ranges, where they overlap, the same place of the same file? Unless @a was
 * added, the contents must be the same, too.
 */
static bool unwind_range_is_same(const struct unwind_range *a, const struct unwind_range *b)
{
	const struct unwind_identity *id = &a->identity, *other = &b->identity;

	return a->key == b->key && a->delta == b->delta && id->ino == other->ino &&
	       id->generation == other->generation &&
	       (a->added || (a->differs == b->differs && id->size == other->size &&
			     id->mtime_sec == other->mtime_sec &&
			     id->mtime_nsec == other->mtime_nsec));
}

/*
 * As above, for @code->seen. In place, the mapping of a frame is looked up once, and that
 * answers all questions about it.
 */
static enum unwind_user_status unwind_code_lookup_vma(struct unwind_code *code, unsigned long pc)
{
	enum unwind_user_status status;

	if (code->in_place && unwind_range_has(&code->seen, pc) &&
	    code->seen.seq != UNWIND_SEQ_NONE)
		return UNWIND_USER_FOUND;
	status = unwind_vma_lookup(current->mm, pc, &code->seen);
	if (status != UNWIND_USER_FOUND)
		code->seen.end = code->seen.start;
	return status;
}

/*
 * Does @range still match what is mapped at @pc? @code gets the part that does. A mapping
 * that a writer may be about to change is the one that this task has been executing.
 */
static bool unwind_code_revalidate(struct unwind_code *code, struct unwind_range *range,
				   unsigned long pc)
{
	const struct unwind_range *now = &code->seen;

	code->start = range->start;
	code->len = range->end - range->start;
	if (unwind_range_is_current(range))
		return true;

	if (unwind_code_lookup_vma(code, pc) != UNWIND_USER_FOUND ||
	    !unwind_range_is_same(range, now))
		return false;
	if (now->start <= range->start && now->end >= range->end) {
		WRITE_ONCE(range->seq, now->seq);
		return true;
	}

	/* The memory of a JIT compiler often is in several mappings. */
	if (!range->added)
		return false;
	code->start = max(range->start, now->start);
	code->len = min(range->end, now->end) - code->start;
	return true;
}

/*
 * Find the added range with @pc, if it matches what is mapped there; otherwise return
 * @range, minus the parts that other added ranges cover.
 */
static noinline struct unwind_range *
unwind_code_find_added(struct unwind_code *code, struct unwind_range *range, unsigned long pc)
{
	struct unwind_range *const *added = code->map->ranges;
	unsigned int nr = unwind_ranges_to(added, code->map->nr_added, pc);
	bool has_pc = nr && unwind_range_has(added[nr - 1], pc);
	unsigned int seq = unwind_mmap_seq(current->mm);
	unsigned long start, end;

	if (has_pc && unwind_code_revalidate(code, added[nr - 1], pc))
		return added[nr - 1];
	/* A mapping that is being split appears as another. Pairs as in unwind_vma_lookup() */
	smp_rmb();
	if (has_pc && (seq & 1 || READ_ONCE(current->mm->mm_lock_seq.sequence) != seq))
		return NULL;
	if (!range || !unwind_code_revalidate(code, range, pc))
		return NULL;

	start = code->start;
	end = start + code->len;
	if (nr)
		start = max(start, has_pc ? added[nr - 1]->start : added[nr - 1]->end);
	if (has_pc)
		end = min(end, added[nr - 1]->end);
	if (nr < code->map->nr_added)
		end = min(end, added[nr]->start);
	code->start = start;
	code->len = end - start;
	return range;
}

/* Is there more to know about the file than when the range was found? */
static bool unwind_code_is_stale(struct unwind_code *code, struct unwind_range *range)
{
	unsigned int count;

	if (range->added)
		return false;
	if (range->sframe_open && time_after32((u32)jiffies, range->sframe_asked + HZ)) {
		code->wants_look = true;
		if (!code->in_place)
			return true;
	}
	if (range->file)
		return unwind_file_is_dead(range->file);
	if (!unwind_files_used())
		return false;
	/* Have files got tables since this one was found to have none? */
	count = unwind_files_added();
	if (READ_ONCE(range->count) != count && unwind_range_is_file(range) &&
	    unwind_file_find_table(range->key, NULL))
		return true;
	WRITE_ONCE(range->count, count);
	return false;
}

/* Put all that is known about a range at hand. */
static bool unwind_code_use_range(struct unwind_code *code, const struct unwind_range *range)
{
	struct unwind_sframe *sframe = range->sframe;

	code->delta = 0;
	if (sframe) {
		code->sframe_mix = rule_cache_mix(sframe->random);
		code->mix = code->sframe_mix;
	}
	code->known_sframe = sframe;
	code->anon = !unwind_range_is_file(range) && !sframe;
	unwind_code_use_table(code, range);
	code->no_table = !code->table && !sframe && !code->anon;
	if (code->in_place || code->sframe == sframe)
		return true;
	unwind_sframe_put(code->sframe);
	code->sframe = sframe && refcount_inc_not_zero(&sframe->ref) ? sframe : NULL;
	return code->sframe == sframe;
}

/**
 * unwind_code_find - Find what is known about the code around an address
 * @state:	State of the walk
 * @range:	unwind_code_range() of the address
 * @pc:		Address
 *
 * Context: Process context, or any if the walk is in place; in an RCU reader, which keeps
 *	    the table at hand. The rest stays as long as the walk.
 * Return: false if the map does not know the code, or no longer. Otherwise what is at hand
 *	   has @pc, unless a call there would return to a special address.
 */
bool unwind_code_find(const struct unwind_user_state *state, struct unwind_range *range,
		      unsigned long pc)
{
	struct unwind_code *code = state->code;
	unsigned int i;

	code->no_table = false;
	code->anon = false;
	code->table = NULL;
	if (code->map && code->map->nr_added)
		range = unwind_code_find_added(code, range, pc);
	else if (range && !unwind_code_revalidate(code, range, pc))
		range = NULL;
	if (!range || unwind_code_is_stale(code, range) || !unwind_code_use_range(code, range)) {
		code->start = ULONG_MAX;
		code->len = 0;
		return false;
	}
	unwind_code_leave_out(code, pc, state->uretprobe);
	for (i = 0; i < UNWIND_USER_SIGRETURNS; i++)
		unwind_code_leave_out(code, pc, state->sigreturn[i]);
	return true;
}

static void unwind_range_put_tables(const struct unwind_range *range)
{
	unwind_file_put(range->file);
	unwind_sframe_put(range->sframe);
}

static void unwind_range_free(struct unwind_range *range)
{
	unwind_range_put_tables(range);
	kfree_rcu(range, rcu);
}

/**
 * struct unwind_map_change - A change of a map
 * @new:	Range to insert, replaces what it overlaps of its kind; or NULL
 * @sframe_start: Without @new: ranges added with the SFrame table there are removed
 * @first:	Gets the index of the first range that may be removed,
 * @end:	and of the one behind the last
 */
struct unwind_map_change {
	struct unwind_range	*new;
	u64			sframe_start;
	unsigned int		first;
	unsigned int		end;
};

static void unwind_map_find_place(struct unwind_map_change *change, const struct unwind_map *map)
{
	const struct unwind_range *new = change->new;
	bool found = new && !new->added;

	change->first = found ? map->nr_added : 0;
	change->end = found ? map->nr : map->nr_added;
	/* If there is no room, remove all that was found: it can be found again. */
	if (new && (new->added || map->nr - map->nr_added < UNWIND_MAX_FOUND)) {
		struct unwind_range *const *ranges = map->ranges + change->first;
		unsigned int nr = change->end - change->first;
		unsigned int before = unwind_ranges_to(ranges, nr, new->start);

		change->end = change->first + unwind_ranges_to(ranges, nr, new->end - 1);
		if (before && ranges[before - 1]->end > new->start)
			before--;
		change->first += before;
	}
}

/* Is a range from @change->first on, before @change->end, removed? */
static bool unwind_range_is_removed(const struct unwind_range *range,
				    const struct unwind_map_change *change)
{
	return change->new || range->sframe->sec.start == change->sframe_start;
}

/* Fill in @map, which has room for all of it. Returns how many ranges are removed. */
static unsigned int unwind_map_fill(struct unwind_map *map, const struct unwind_map *old,
				    const struct unwind_map_change *change)
{
	unsigned int gone = 0, nr = change->first, i;

	memcpy(map->ranges, old->ranges, nr * sizeof(*map->ranges));
	if (change->new)
		map->ranges[nr++] = change->new;
	for (i = change->first; i < change->end; i++) {
		struct unwind_range *range = old->ranges[i];

		if (unwind_range_is_removed(range, change))
			gone++;
		else
			map->ranges[nr++] = range;
	}
	memcpy(map->ranges + nr, old->ranges + i, (old->nr - i) * sizeof(*map->ranges));
	map->nr = nr + old->nr - i;
	map->nr_added = old->nr_added;
	if (!change->new || change->new->added)
		map->nr_added += map->nr - old->nr;
	return gone;
}

static struct unwind_map *unwind_map_alloc(unsigned int room, gfp_t gfp)
{
	struct unwind_map *map = kvmalloc(struct_size(map, ranges, room), gfp);

	if (map)
		map->nr = room;
	return map;
}

/* Replace the map by a changed copy. Returns the number of removed ranges, or an error. */
static int unwind_map_update(struct unwind_mm *um, struct unwind_map_change *change, gfp_t gfp)
{
	static struct unwind_map unwind_map_none;
	struct unwind_map *map = NULL, *old;
	unsigned int gone, room = 0, i;

	spin_lock(&um->lock);
	for (;;) {
		old = rcu_dereference_protected(um->map, lockdep_is_held(&um->lock)) ?:
		      &unwind_map_none;
		if (room > old->nr)
			break;
		room = old->nr + 1;
		/* Nobody waits for an allocation of somebody else. */
		spin_unlock(&um->lock);
		kvfree(map);
		map = unwind_map_alloc(room, gfp);
		if (!map)
			return -ENOMEM;
		spin_lock(&um->lock);
	}
	unwind_map_find_place(change, old);
	gone = unwind_map_fill(map, old, change);
	if (map->nr_added > UNWIND_MAX_ADDED) {
		spin_unlock(&um->lock);
		kvfree(map);
		return -ENOSPC;
	}

	/* See map+lookup.litmus. */
	rcu_assign_pointer(um->map, map);
	spin_unlock(&um->lock);
	/* added_lock keeps those that were added; of those found, all these are removed. */
	for (i = change->first; i < change->end; i++) {
		if (unwind_range_is_removed(old->ranges[i], change))
			unwind_range_free(old->ranges[i]);
	}
	if (old != &unwind_map_none)
		kvfree_rcu(old, rcu);
	return gone;
}

/**
 * unwind_map_insert - Insert a range, replacing what it overlaps of its kind
 * @um:		State of current's mm
 * @range:	The range, whose references are the map's on success
 * @gfp:	How to get the memory
 *
 * Context: Process context, may sleep.
 * Return: 0; -ENOMEM; or -ENOSPC if UNWIND_MAX_ADDED have been added.
 */
int unwind_map_insert(struct unwind_mm *um, const struct unwind_range *range, gfp_t gfp)
{
	struct unwind_map_change change = { };
	int ret;

	change.new = kmemdup(range, sizeof(*range), gfp);
	if (!change.new)
		return -ENOMEM;
	ret = unwind_map_update(um, &change, gfp);
	if (ret < 0)
		kfree(change.new);
	return min(ret, 0);
}

/**
 * unwind_map_remove - Remove an SFrame table that the process has added
 * @um:			State of current's mm
 * @sframe_start:	Address of the table
 * @gfp:		How to get the memory
 *
 * Context: Process context, may sleep.
 * Return: 0; -ENOMEM; or -ENOENT if there is no such table.
 */
int unwind_map_remove(struct unwind_mm *um, u64 sframe_start, gfp_t gfp)
{
	struct unwind_map_change change = { .sframe_start = sframe_start };
	int ret = unwind_map_update(um, &change, gfp);

	return ret ? min(ret, 0) : -ENOENT;
}

/*
 * Learn about the code around an address from its mapping, without waiting for a lock: a
 * writer may hold those of all mappings for as long as a fork takes.
 */
static enum unwind_user_status unwind_code_learn(struct unwind_code *code, unsigned long pc)
{
	struct unwind_range range = { .sframe_asked = (u32)jiffies };
	struct mm_struct *mm = current->mm;
	const gfp_t gfp = unwind_gfp();
	struct file *file __free(fput) = NULL;
	struct vm_area_struct *vma;
	unsigned int seq;

	code->um = unwind_mm_get(mm, gfp);
	if (unlikely(!code->um)) {
		unwind_no_memory(gfp);
		return UNWIND_USER_FAULT;
	}
	vma = lock_vma_under_rcu(mm, pc);
	if (!vma) {
		guard(rcu)();
		return unwind_code_lookup_vma(code, pc) == UNWIND_USER_NO_CODE ?
		       UNWIND_USER_NO_CODE : UNWIND_USER_CHANGING;
	}
	if (!(vma->vm_flags & VM_EXEC)) {
		vma_end_read(vma);
		return UNWIND_USER_NO_CODE;
	}
	unwind_range_set(&range, vma);
	/* Other mappings may change now, this one does not, see seq+learn.litmus. */
	seq = unwind_mmap_seq(mm);
	if (!(seq & 1))
		range.seq = seq;
	if (unwind_range_is_file(&range)) {
		file = vma->vm_file;
		range.count = unwind_files_added();
		if (unwind_files_used())
			range.file = unwind_file_get(range.key,
						     file ? file_inode(file) : NULL);
		if (file)
			get_file(file);
	}
	vma_end_read(vma);

	/* User memory is read, which may take time. */
	range.sframe = IS_ENABLED(CONFIG_UNWIND_USER_SFRAME) ?
		       unwind_sframe_find(&range, file, pc) : ERR_PTR(-ENOENT);
	/* A table for the file is better than one that is not there now. */
	if (range.sframe == ERR_PTR(-EAGAIN) && !range.file)
		return UNWIND_USER_FAULT;
	range.sframe_open = range.sframe != ERR_PTR(-ENOENT) && IS_ERR_OR_NULL(range.sframe);
	if (IS_ERR(range.sframe))
		range.sframe = NULL;
	range.settled = unwind_range_is_file(&range) && !range.sframe && !range.sframe_open;
	if (!unwind_map_insert(code->um, &range, gfp))
		return UNWIND_USER_FOUND;
	unwind_no_memory(gfp);
	unwind_range_put_tables(&range);
	return UNWIND_USER_FAULT;
}

/*
 * Find the rule, in place, for code that the map does not know. Nothing is kept, since that
 * takes memory and a lock. A look by the task will tell whether the file has an SFrame
 * table.
 */
static noinline enum unwind_user_status
unwind_code_rule_in_place(struct unwind_code *code, unsigned long pc, struct unwind_rule *rule)
{
	const struct unwind_range *range = &code->seen;
	const struct unwind_table *table;
	enum unwind_user_status status;

	code->len = 0;
	code->table = NULL;
	status = unwind_code_lookup_vma(code, pc);
	/* An address that is no code is not worth a look by the task. */
	if (status != UNWIND_USER_FOUND)
		return status;
	code->wants_look = true;
	/* A table added for the address was for the code that was mapped there then. */
	if (range->seq == UNWIND_SEQ_NONE ||
	    (code->map && unwind_range_at(code->map->ranges, code->map->nr_added, pc)))
		return UNWIND_USER_CHANGING;
	code->anon = !unwind_range_is_file(range);
	if (code->anon || !unwind_files_used())
		return UNWIND_USER_NO_RULE;
	table = unwind_file_find_table(range->key, &range->identity);
	code->table = table;
	return table ? unwind_table_find(table, pc + range->delta, rule) : UNWIND_USER_NO_RULE;
}

/* Cache a rule, if it fits into a word. */
static void unwind_rules_add(u64 place, u64 mix, const struct unwind_rule *rule)
{
	u64 tag = rule_cache_tag(place, mix);

	if (rule->word)
		rule_slot_set(rule_cache_slot(&unwind_rules, tag), tag, mix, rule->word);
}

/*
 * Find the rule for @pc without reading user memory. Returns UNWIND_USER_NO_RULE if an
 * SFrame table has to be read, UNWIND_USER_END if no table has one, and
 * UNWIND_USER_CHANGING if the code is not known.
 */
static enum unwind_user_status unwind_code_known_rule(const struct unwind_user_state *state,
						      unsigned long pc, struct unwind_rule *rule)
{
	struct unwind_code *code = state->code;
	struct unwind_range *range;

	guard(rcu)();
	unwind_code_enter(code);
	if (!unwind_code_has(code, pc)) {
		range = unwind_code_range(code, pc);
		if (!unwind_code_find_settled(state, code, range, pc) &&
		    !unwind_code_find(state, range, pc))
			return UNWIND_USER_CHANGING;
	}
	if (code->no_table || code->anon)
		return UNWIND_USER_END;
	if (code->table) {
		if (rule_cache_get(pc + code->delta, code->mix, &rule->word))
			return UNWIND_USER_FOUND;
		if (unwind_table_find(code->table, pc + code->delta, rule) == UNWIND_USER_FOUND) {
			unwind_rules_add(pc + code->delta, code->mix, rule);
			return UNWIND_USER_FOUND;
		}
	}
	if (!code->known_sframe)
		return UNWIND_USER_END;
	return rule_cache_get(pc, code->sframe_mix, &rule->word) ? UNWIND_USER_FOUND :
								   UNWIND_USER_NO_RULE;
}

/**
 * unwind_code_rule - Find the rule for an address in its table
 * @state:	State of the walk
 * @pc:		Address
 * @not_at_hand: The window has not found it
 * @rule:	The rule; its word is 0 if it has only the long form
 * @type:	Which kind of table it is from
 *
 * A rule that fits into a word is in the cache afterwards, and so is the answer of an SFrame
 * table that there is no rule.
 *
 * Context: Process context, may sleep and take page faults; or any if the walk is in place.
 * Return: UNWIND_USER_FOUND; UNWIND_USER_NO_RULE if no table covers the address; or why
 *	   its table cannot be read, or the code is not known, which ends the walk.
 */
enum unwind_user_status
unwind_code_rule(const struct unwind_user_state *state, unsigned long pc, bool not_at_hand,
		 struct unwind_rule *rule, enum unwind_user_type *type)
{
	enum unwind_user_status status = UNWIND_USER_NO_RULE;
	struct unwind_code *code = state->code;
	unsigned int tries = 0;

	*type = UNWIND_USER_TYPE_FILE;
	/* The window has just asked the map in vain. */
	if (code->in_place && not_at_hand && code->start == ULONG_MAX)
		return unwind_code_rule_in_place(code, pc, rule);
	/* Other threads may unmap and map what is learnt. */
	while (!not_at_hand || !code->sframe || code->table || code->no_table ||
	       !unwind_code_has(code, pc)) {
		status = unwind_code_known_rule(state, pc, rule);
		if (status != UNWIND_USER_CHANGING || tries++ == 3)
			break;
		if (code->in_place)
			return unwind_code_rule_in_place(code, pc, rule);
		status = unwind_code_learn(code, pc);
		if (status != UNWIND_USER_FOUND)
			return status;
		not_at_hand = false;
	}
	if (status == UNWIND_USER_END)
		return UNWIND_USER_NO_RULE;
	if (IS_ENABLED(CONFIG_UNWIND_USER_SFRAME) && status == UNWIND_USER_NO_RULE) {
		*type = UNWIND_USER_TYPE_SFRAME;
		if (code->in_place)
			status = unwind_sframe_kept_rule(code->known_sframe, pc, rule);
		else
			status = unwind_sframe_rule(code->sframe, pc, rule);
		/* In place, the program's table is not read. The task gets the rule later. */
		if (code->in_place && status != UNWIND_USER_FOUND)
			code->wants_look = true;
		if (status == UNWIND_USER_FOUND)
			unwind_rules_add(pc, code->sframe_mix, rule);
	}
	if (status != UNWIND_USER_FOUND || !rule->word)
		return status;
	if (!(rule->word & UNWIND_WORD_TABLE))
		return UNWIND_USER_NO_RULE;
	*type = rule->word & UNWIND_WORD_FILE ? UNWIND_USER_TYPE_FILE : UNWIND_USER_TYPE_SFRAME;
	return UNWIND_USER_FOUND;
}

/**
 * unwind_mm_get - Get the unwinder's state of an mm, which is made if there is none
 * @mm:		Address space that has users
 * @gfp:	How to get the memory
 *
 * Return: The state, which lives as long as the mm has users; NULL if there is no memory.
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
	spin_lock_init(&um->lock);
	mutex_init(&um->added_lock);
	um->looks = (u32)jiffies;
	old = cmpxchg(&mm->unwind, NULL, um);
	if (!old)
		return um;
	kfree(um);
	return old;
}

/**
 * unwind_code_begin - Begin a walk
 * @code:	What the walk knows, not initialized
 * @in_place:	See struct unwind_code. If false, the caller puts @code->sframe at the end
 *
 * Context: Process context; or an RCU reader in any context if @in_place.
 */
void unwind_code_begin(struct unwind_code *code, bool in_place)
{
	code->start = 0;
	code->len = 0;
	code->no_table = false;
	code->anon = false;
	code->unchecked = false;
	code->table = NULL;
	code->sframe = NULL;
	code->in_place = in_place;
	code->wants_look = false;
	code->seen.start = 0;
	code->seen.end = 0;
	/* As in unwind_mm_get(), which makes it where code has to be learnt. */
	code->um = smp_load_acquire(&current->mm->unwind);
}

/* Copy an added range for another mm. NULL if there is no memory. */
static struct unwind_range *unwind_range_dup(const struct unwind_range *range)
{
	struct unwind_range *copy = kmalloc(sizeof(*copy), GFP_KERNEL_ACCOUNT);

	if (!copy)
		return NULL;
	/* A walk may be writing the sequence, which is not used here. */
	*copy = data_race(*range);
	copy->seq = UNWIND_SEQ_NONE;
	copy->sframe = unwind_sframe_alloc(&range->sframe->sec, GFP_KERNEL_ACCOUNT);
	if (!copy->sframe) {
		kfree(copy);
		return NULL;
	}
	/* From here on, each mm finds out by itself. */
	copy->sframe->bad = READ_ONCE(range->sframe->bad);
	return copy;
}

/* See unwind_mm_dup(). unwind_mm_exit() frees what is allocated before an error. */
int __unwind_mm_dup(struct unwind_mm *old, struct mm_struct *mm)
{
	const struct unwind_map *from;
	struct unwind_map *map;
	struct unwind_mm *um;
	unsigned int nr = 0;

	/* Added ranges stay, in whichever map walks in the parent put them meanwhile. */
	guard(mutex)(&old->added_lock);
	scoped_guard(rcu) {
		from = rcu_dereference(old->map);
		if (from)
			nr = from->nr_added;
	}
	if (!IS_ENABLED(CONFIG_UNWIND_USER_SFRAME) || !nr)
		return 0;
	um = unwind_mm_get(mm, GFP_KERNEL_ACCOUNT);
	map = unwind_map_alloc(nr, GFP_KERNEL_ACCOUNT);
	if (!um || !map) {
		kvfree(map);
		return -ENOMEM;
	}
	scoped_guard(rcu)
		memcpy(map->ranges, rcu_dereference(old->map)->ranges, nr * sizeof(*map->ranges));
	for (map->nr_added = 0; map->nr_added < nr; map->nr_added++) {
		map->ranges[map->nr_added] = unwind_range_dup(map->ranges[map->nr_added]);
		if (!map->ranges[map->nr_added])
			break;
	}
	map->nr = map->nr_added;
	rcu_assign_pointer(um->map, map);
	return map->nr == nr ? 0 : -ENOMEM;
}

/* See unwind_mm_exit(). */
void __unwind_mm_exit(struct mm_struct *mm)
{
	struct unwind_mm *um = mm->unwind;
	struct unwind_map *map = rcu_dereference_protected(um->map, true);
	unsigned int i;

	/* Only tasks that use the mm walk. */
	WARN_ON_ONCE(atomic_read(&mm->mm_users));

	for (i = 0; map && i < map->nr; i++)
		unwind_range_free(map->ranges[i]);
	kvfree(map);
	kfree(um);
	mm->unwind = NULL;
}

static unsigned long unwind_rules_entries __initdata;

static int __init unwind_rules_set_entries(char *str)
{
	return str && !kstrtoul(str, 0, &unwind_rules_entries);
}
__setup("unwind_rules=", unwind_rules_set_entries);

/* 1 MB where there are 2 GB of memory or more */
static int __init unwind_rules_init(void)
{
	unwind_rules.slots = alloc_large_system_hash("Unwind rules", sizeof(struct rule_slot),
						     unwind_rules_entries, 15, HASH_ZERO, NULL,
						     &unwind_rules.mask, 2,
						     SZ_1M / sizeof(struct rule_slot));
	return 0;
}
core_initcall(unwind_rules_init);
