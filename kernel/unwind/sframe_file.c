// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables in the memory of a process: the search for the one of a file, and
 * their use.
 *
 * Where a file has its table is read from the ELF headers in its first page, if the
 * page cache has that: no task waits for a file system here. It is a hint, as the
 * table itself is read through the memory of the process, whatever is there.
 */

#include <linux/dax.h>
#include <linux/elf.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/hugetlb.h>
#include <linux/jiffies.h>
#include <linux/pagemap.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/secretmem.h>
#include <linux/slab.h>
#include <linux/unwind_user.h>

#include <asm/unwind_user.h>

#include "code.h"
#include "deferred.h"

#include <trace/events/unwind.h>

/* Bytes that a table may have; offsets in it are of 32 bits. */
#define SFRAME_MAX_LEN		BIT(32)
/* Mappings that a table may be in: all are checked again when one changes. */
#define SFRAME_MAX_VMAS		16

/*
 * Is a table in memory, not on a device? One can be mapped there at any time, and each word
 * that is read from it can take as long as a thousand instructions. One that is mapped after
 * this makes the task wait for its own device, for one rule.
 */
static bool unwind_sframe_is_memory(const struct sframe_section *sec, unsigned int *seen)
{
	MA_STATE(mas, &current->mm->mm_mt, sec->start, sec->start);
	struct mm_struct *mm = current->mm;
	unsigned int seq = unwind_mmap_seq(mm), nr = 0;
	struct vm_area_struct *vma;

	if (likely(READ_ONCE(*seen) == seq && !(seq & 1)))
		return true;
	guard(rcu)();
	mas_for_each(&mas, vma, sec->end - 1) {
		if (READ_ONCE(vma->vm_flags) & (VM_IO | VM_PFNMAP) || ++nr > SFRAME_MAX_VMAS)
			return false;
	}
	/* The flags are read before the sequence is read again, see seq+lookup.litmus. */
	smp_rmb();
	if (!(seq & 1) && unwind_mmap_seq(mm) == seq)
		WRITE_ONCE(*seen, seq);
	return true;
}

/**
 * unwind_sframe_alloc - Make what is kept of a table
 * @sec:	The table
 * @gfp:	How to get the memory
 *
 * Return: It, with a reference; NULL if there is no memory.
 */
struct unwind_sframe *unwind_sframe_alloc(const struct sframe_section *sec, gfp_t gfp)
{
	struct unwind_sframe *sframe = kzalloc(sizeof(*sframe), gfp);

	if (sframe) {
		sframe->sec = *sec;
		sframe->random = get_random_u64();
		sframe->seq = UNWIND_SEQ_NONE;
		/* In nodes without gaps, mt_free_walk() takes the metadata for a child. */
		mt_init_flags(&sframe->rules, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
		refcount_set(&sframe->ref, 1);
	}
	return sframe;
}

/* A rule that has no word */
struct unwind_kept_rule {
	struct unwind_rule	rule;
	struct rcu_head		rcu;
};

/* Forget the rules of a table. Walks at the event may be reading them. */
static void unwind_sframe_forget_rules(struct unwind_sframe *sframe)
{
	MA_STATE(mas, &sframe->rules, 0, 0);
	struct unwind_mm *um = READ_ONCE(sframe->um);
	struct rcu_head *gone = NULL;
	struct unwind_kept_rule *kept;
	int nr = 0;

	if (!um)
		return;
	mas_lock(&mas);
	mas_for_each(&mas, kept, ULONG_MAX) {
		nr++;
		if (xa_is_value(kept))
			continue;
		kept->rcu.next = gone;
		gone = &kept->rcu;
	}
	__mt_destroy(&sframe->rules);
	mas_unlock(&mas);
	atomic_sub(nr, &um->nr_rules);
	/* From here on nobody finds them any more. */
	while (gone) {
		kept = container_of(gone, struct unwind_kept_rule, rcu);
		gone = gone->next;
		kfree_rcu(kept, rcu);
	}
}

/* Forget the rules of all tables: others may have taken all the room. */
static void unwind_mm_forget_rules(struct unwind_mm *um)
{
	const struct unwind_map *map;
	unsigned int i;

	guard(spinlock)(&um->lock);
	map = rcu_dereference_protected(um->map, lockdep_is_held(&um->lock));
	for (i = 0; map && i < map->nr; i++) {
		if (map->ranges[i]->sframe)
			unwind_sframe_forget_rules(map->ranges[i]->sframe);
	}
}

/* No memory is reclaimed for what nobody has asked for. Returns false if there is no room. */
static bool unwind_sframe_keep_rule(struct unwind_sframe *sframe, const struct unwind_rule *rule,
				    const struct sframe_span *span)
{
	MA_STATE(mas, &sframe->rules, span->start, span->end - 1);
	const gfp_t gfp = GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN;
	/* The top bit is the sign of an offset, which is more than 0. */
	void *entry = xa_mk_value(rule->word);
	struct unwind_kept_rule *kept = NULL;
	bool known, done = false;

	if (!rule->word) {
		kept = kmalloc(sizeof(*kept), gfp);
		if (!kept)
			return false;
		kept->rule = *rule;
		entry = kept;
	}
	mas_lock(&mas);
	known = mas_find(&mas, span->end - 1);
	mas_set_range(&mas, span->start, span->end - 1);
	if (!known && atomic_read(&sframe->um->nr_rules) < UNWIND_MAX_RULES &&
	    !mas_preallocate(&mas, entry, gfp)) {
		mas_store_prealloc(&mas, entry);
		atomic_inc(&sframe->um->nr_rules);
		done = true;
	}
	mas_unlock(&mas);
	if (!done)
		kfree(kept);
	return known || done;
}

/*
 * Keep the rule for an address that a walk has come to, and the others of its function: the
 * address of a sample is nearly always another one.
 */
static void unwind_sframe_keep_func(struct unwind_sframe *sframe, struct unwind_rule rule,
				    struct sframe_span *span)
{
	u64 at = span->func_start, end = span->func_end;
	unsigned int i;

	WRITE_ONCE(sframe->um, current->mm->unwind);
	/* What is needed now is found again. */
	if (atomic_read(&sframe->um->nr_rules) >= UNWIND_MAX_RULES)
		unwind_mm_forget_rules(sframe->um);
	if (!unwind_sframe_keep_rule(sframe, &rule, span))
		return;
	/* The table can change meanwhile. */
	for (i = 0; i < UNWIND_MAX_FUNC_RULES && at < end; i++, at = span->end) {
		cond_resched();
		if (span->num_rows > UNWIND_MAX_FUNC_RULES ||
		    sframe_find(&sframe->sec, at, &rule, span) != SFRAME_OK ||
		    !unwind_sframe_keep_rule(sframe, &rule, span))
			break;
	}
}

/**
 * unwind_sframe_kept_rule - Find the rule for an address among those that were kept
 * @sframe:	The table
 * @pc:		Address
 * @rule:	The rule; its word is 0 if it has only the long form
 *
 * Context: Any, in an RCU reader.
 * Return: UNWIND_USER_FOUND, or UNWIND_USER_UNKNOWN.
 */
enum unwind_user_status unwind_sframe_kept_rule(struct unwind_sframe *sframe,
						unsigned long pc,
						struct unwind_rule *rule)
{
	MA_STATE(mas, &sframe->rules, pc, pc);
	const void *kept = mas_walk(&mas);

	if (!kept)
		return UNWIND_USER_UNKNOWN;
	if (xa_is_value(kept))
		rule->word = xa_to_value(kept);
	else
		*rule = ((const struct unwind_kept_rule *)kept)->rule;
	return UNWIND_USER_FOUND;
}

/**
 * unwind_sframe_put - Drop a reference
 * @sframe:	Table, or NULL
 */
void unwind_sframe_put(struct unwind_sframe *sframe)
{
	if (!sframe || !refcount_dec_and_test(&sframe->ref))
		return;
	unwind_sframe_forget_rules(sframe);
	kfree_rcu(sframe, rcu);
}

static bool unwind_sframe_check_ehdr(const struct elf64_hdr *ehdr)
{
	return !memcmp(ehdr->e_ident, ELFMAG, SELFMAG) &&
	       ehdr->e_ident[EI_CLASS] == ELFCLASS64 &&
	       ehdr->e_ident[EI_DATA] == ELFDATA2LSB &&
	       ehdr->e_ident[EI_VERSION] == EV_CURRENT &&
	       (ehdr->e_type == ET_EXEC || ehdr->e_type == ET_DYN) &&
	       ehdr->e_machine == EM_X86_64 &&
	       ehdr->e_phentsize == sizeof(struct elf64_phdr) &&
	       ehdr->e_phoff <= PAGE_SIZE &&
	       ehdr->e_phnum <= (PAGE_SIZE - ehdr->e_phoff) / sizeof(struct elf64_phdr);
}

/* Does the segment cover this page of the file, as code? */
static bool unwind_sframe_is_text(const struct elf64_phdr *phdr, u64 offset)
{
	u64 first = phdr->p_offset & PAGE_MASK;

	return (phdr->p_flags & PF_X) && phdr->p_filesz < TASK_SIZE_MAX &&
	       offset >= first &&
	       offset - first < PAGE_ALIGN(phdr->p_offset - first + phdr->p_filesz);
}

/*
 * Find the table for the code at @pc by the first page of its file, @head, which may hold
 * anything, and may be written to meanwhile. Returns why there is none, or NULL.
 */
static const char *unwind_sframe_locate(const void *head, const struct unwind_range *range,
					unsigned long pc, struct sframe_section *sec)
{
	bool has_text = false, is_loaded = false;
	struct elf64_phdr phdr, table = { };
	struct elf64_hdr ehdr;
	unsigned int i;
	u64 bias;

	memcpy(&ehdr, head, sizeof(ehdr));
	if (!unwind_sframe_check_ehdr(&ehdr))
		return "no ELF headers";

	head += ehdr.e_phoff;
	for (i = 0; i < ehdr.e_phnum; i++) {
		memcpy(&phdr, head + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type != PT_GNU_SFRAME)
			continue;
		if (table.p_type)
			return "several tables";
		table = phdr;
	}
	if (!table.p_type)
		return "no table";

	for (i = 0; i < ehdr.e_phnum; i++) {
		memcpy(&phdr, head + i * sizeof(phdr), sizeof(phdr));
		if (phdr.p_type != PT_LOAD)
			continue;
		if (table.p_vaddr - phdr.p_vaddr < phdr.p_memsz)
			is_loaded = true;
		if (!has_text && unwind_sframe_is_text(&phdr, pc + range->delta)) {
			has_text = true;
			/* How far addresses are above those of the headers */
			bias = phdr.p_offset - range->delta - phdr.p_vaddr;
		}
	}
	if (!is_loaded)
		return "table in no segment";
	if (!has_text)
		return "not mapped as the ELF headers say";

	/* Linkers make it longer than the table; the header counts. */
	sec->start = bias + table.p_vaddr;
	sec->end = sec->start + min(table.p_memsz, SFRAME_MAX_LEN);
	return sec->start && sec->start < sec->end && sec->end <= TASK_SIZE_MAX ?
	       NULL : "table out of range";
}

/* As unwind_sframe_locate(); and ERR_PTR(-EAGAIN) if the page cache has no first page now. */
static const char *unwind_sframe_locate_file(const struct file *file,
					     const struct unwind_range *range,
					     unsigned long pc, struct sframe_section *sec)
{
	struct address_space *mapping = file->f_mapping;
	const char *why = ERR_PTR(-EAGAIN);
	struct folio *folio;
	const void *head;

	if (!S_ISREG(mapping->host->i_mode) || secretmem_mapping(mapping) ||
	    dax_mapping(mapping) || is_file_hugepages(file))
		return "no file in the page cache";
	folio = filemap_get_folio(mapping, 0);
	if (IS_ERR(folio))
		return why;

	/* shmem keeps a page whose memory has failed: to read it could be fatal. */
	if (folio_test_uptodate(folio) && !PageHWPoison(folio_page(folio, 0))) {
		head = kmap_local_folio(folio, 0);
		why = unwind_sframe_locate(head, range, pc, sec);
		kunmap_local(head);
	}
	folio_put(folio);
	return why;
}

/**
 * unwind_sframe_find - Find the SFrame table of some code
 * @range:	The code, with its place
 * @file:	What it is mapped from; NULL if it is a vDSO, or no file
 * @pc:		Address in it
 *
 * Context: Process context, may sleep.
 * Return: The table, with a reference; ERR_PTR(-ENOENT) if there is none, or none that
 *	   can be used; NULL if the page cache does not tell now; ERR_PTR(-EAGAIN) if
 *	   there is one that cannot be read now, or no memory.
 */
struct unwind_sframe *unwind_sframe_find(const struct unwind_range *range,
					 struct file *file, unsigned long pc)
{
	struct sframe_section sec = {
		.text_start = range->start, .text_end = range->end,
	};
	unsigned int seq = UNWIND_SEQ_NONE;
	const gfp_t gfp = unwind_gfp();
	struct unwind_sframe *sframe;
	enum sframe_status status;
	const char *why;

	if (!unwind_range_is_file(range))
		return ERR_PTR(-ENOENT);
	if (file)
		why = unwind_sframe_locate_file(file, range, pc, &sec);
	else
		why = unwind_sframe_locate(arch_unwind_vdso_data(range->key), range, pc, &sec);
	if (why == ERR_PTR(-EAGAIN))
		return NULL;

	if (!why && !unwind_sframe_is_memory(&sec, &seq))
		why = "device memory";
	if (!why) {
		status = sframe_open(&sec);
		if (status == SFRAME_FAULT)
			return ERR_PTR(-EAGAIN);
		if (status != SFRAME_OK)
			why = sframe_status_text[status];
	}
	trace_unwind_sframe_section(range->start, range->end, sec.start, sec.num_fdes,
				    sec.version, why ?: "found");
	if (why)
		return ERR_PTR(-ENOENT);

	sframe = unwind_sframe_alloc(&sec, gfp);
	if (sframe)
		return sframe;
	unwind_no_memory(gfp);
	return ERR_PTR(-EAGAIN);
}

/**
 * unwind_sframe_rule - Find the rule for an address in an SFrame table
 * @sframe:	The table
 * @pc:		Address
 * @rule:	The rule; it can be the frame pointer's, if the table does not cover the
 *		address, or one that ends the walk
 *
 * Context: Process context, may sleep and take page faults.
 * Return: UNWIND_USER_FOUND; or UNWIND_USER_FAULT if the table cannot be read now.
 */
enum unwind_user_status unwind_sframe_rule(struct unwind_sframe *sframe,
					   unsigned long pc,
					   struct unwind_rule *rule)
{
	enum unwind_user_status why = UNWIND_USER_CORRUPT;
	enum sframe_status status;
	struct sframe_span span;

	if (unlikely(READ_ONCE(sframe->bad))) {
		rule->word = UNWIND_WORD_STOP(why);
		return UNWIND_USER_FOUND;
	}

	if (unwind_user_has_tables()) {
		guard(rcu)();
		if (unwind_sframe_kept_rule(sframe, pc, rule) == UNWIND_USER_FOUND)
			return UNWIND_USER_FOUND;
	}
	if (!unwind_sframe_is_memory(&sframe->sec, &sframe->seq))
		return UNWIND_USER_FAULT;
	status = sframe_find(&sframe->sec, pc, rule, &span);
	switch (status) {
	case SFRAME_OK:
		if (unwind_user_has_tables())
			unwind_sframe_keep_func(sframe, *rule, &span);
		return UNWIND_USER_FOUND;
	case SFRAME_NO_ROW:
		rule->word = unwind_word_fp(sizeof(u64));
		return UNWIND_USER_FOUND;
	case SFRAME_FAULT:
		return UNWIND_USER_FAULT;
	case SFRAME_UNSUPPORTED:
	case SFRAME_TOO_LONG:
		why = UNWIND_USER_UNKNOWN;
		break;
	default:
		/* Other functions may be better than this one. */
		if (sframe_is_bad_table(status) && !xchg(&sframe->bad, true))
			trace_unwind_sframe_section(sframe->sec.text_start,
						    sframe->sec.text_end,
						    sframe->sec.start,
						    sframe->sec.num_fdes,
						    sframe->sec.version,
						    sframe_status_text[status]);
	}
	rule->word = UNWIND_WORD_STOP(why);
	return UNWIND_USER_FOUND;
}
