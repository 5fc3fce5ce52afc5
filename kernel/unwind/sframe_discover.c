// SPDX-License-Identifier: GPL-2.0
/*
 * Find the SFrame table for an address by the ELF headers of its mapping.
 *
 * The headers are read as user memory, or from the page cache by a task that must not
 * wait, but never through the file: a task that waits in a page fault can be killed, but
 * not always one that waits for a file system. So nothing is locked while they are read,
 * and the mappings may change under us. For the headers that does not matter, as they
 * are not trusted anyway. But the result must not be kept for other mappings than those
 * it was found for: struct sframe_search tells whether any of them was unmapped.
 *
 * "There is no table" is a result like any other, and is remembered until the mapping
 * goes. What cannot be read although page faults are possible is remembered for a
 * second.
 *
 * If the table for the file says that there is none, nobody looks; that is believed
 * for as long as that table is the one that applies.
 */

#include <linux/elf.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/secretmem.h>
#include <linux/uaccess.h>
#include <linux/unwind_user.h>

#include <asm/sframe.h>

#include "deferred.h"
#include "sframe_mm.h"
#include "user.h"

/* Program headers of a file. Linkers make about a dozen. */
#define SFRAME_MAX_PHDRS	64

/* Mappings between the code and the headers of its file. */
#define SFRAME_MAX_STEPS	64

/* Mappings that may have the headers, the nearest is tried first. */
#define SFRAME_MAX_HEADERS	4

/* Looking at device memory can have effects. */
#define SFRAME_NO_MEMORY	(VM_IO | VM_PFNMAP)

/**
 * struct sframe_image - The mapping that has an address, and its file's headers
 * @sm:		Store that the search is for
 * @search:	Tells whether something of all this was unmapped
 * @pc:		The address
 * @epoch:	unwind_files_get_epoch() before all that
 * @start:	First byte of the mapping
 * @end:	The end of it (exclusive)
 * @pgoff:	Page of the file that is mapped there
 * @mapped:	The file, with a reference while its headers are read; NULL for the vDSO
 * @inode:	Of the file, or NULL. Only used with the mmap lock held, or that of the
 *		mapping, which keeps it
 * @key:	What the file is known by where tables for files are
 * @file:	What such tables are attached to, with a reference; NULL if nobody makes
 *		any
 * @no_memory:	There was none to make @file
 * @may_differ:	The code need not be that of the file, as long as it can be written
 * @claimed:	Nobody has looked: the table for @file says that there is no SFrame table
 * @nr_headers:	Number of mappings of the same file that start with its headers
 * @headers:	Where they start
 * @lens:	Their lengths
 * @is_vdso:	The code is that of the vDSO; there are no file and no page
 */
struct sframe_image {
	struct sframe_mm	*sm;
	struct sframe_search	search;
	unsigned long		pc;
	unsigned int		epoch;
	unsigned long		start;
	unsigned long		end;
	unsigned long		pgoff;
	struct file		*mapped;
	const struct inode	*inode;
	const void		*key;
	struct unwind_file	*file;
	bool			no_memory;
	bool			may_differ;
	bool			claimed;
	unsigned int		nr_headers;
	unsigned long		headers[SFRAME_MAX_HEADERS];
	unsigned long		lens[SFRAME_MAX_HEADERS];
	bool			is_vdso;
};

/* With page faults disabled nothing may wait: nobody could kill the task. */
static bool lock_mm(struct mm_struct *mm)
{
	if (pagefault_disabled())
		return mmap_read_trylock(mm);
	return !mmap_read_lock_killable(mm);
}

/*
 * Collect the mappings that may start with the headers of the file of @vma, which @vmi
 * is at. The search ends at one that is as far from @vma as in the file, which is where
 * linkers put it. Returns why there cannot be a table, NULL if there can.
 */
static const char *find_headers(struct sframe_image *image, struct vma_iterator *vmi,
				struct vm_area_struct *vma)
{
	unsigned int steps;

	if (image->is_vdso) {
		image->nr_headers = 1;
		image->headers[0] = sframe_arch_vdso(vma->vm_mm);
		image->lens[0] = vma->vm_end - image->headers[0];
		return NULL;
	}

	for (steps = 0; vma && steps < SFRAME_MAX_STEPS; steps++) {
		if (vma->vm_file && file_inode(vma->vm_file) == image->inode &&
		    !vma->vm_pgoff && (vma->vm_flags & VM_READ) &&
		    !(vma->vm_flags & SFRAME_NO_MEMORY)) {
			unsigned int i = image->nr_headers++;

			image->headers[i] = vma->vm_start;
			image->lens[i] = vma->vm_end - vma->vm_start;
			if (image->nr_headers == SFRAME_MAX_HEADERS ||
			    image->start - vma->vm_start == image->pgoff << PAGE_SHIFT)
				break;
		}
		vma = vma_prev(vmi);
	}
	return image->nr_headers ? NULL : "ELF headers not mapped";
}

/* Note what @vma is. Returns as find_headers(). */
static const char *note_mapping(struct sframe_image *image,
				const struct vm_area_struct *vma)
{
	unsigned long vdso = sframe_arch_vdso(vma->vm_mm);

	image->start = vma->vm_start;
	image->end = vma->vm_end;
	image->pgoff = vma->vm_pgoff;

	if (sframe_arch_is_vdso(vma) && vdso >= vma->vm_start &&
	    vdso < vma->vm_end) {
		image->is_vdso = true;
		image->key = sframe_arch_vdso_key(vma->vm_mm);
		return NULL;
	}

	if (!vma->vm_file)
		return "no file";
	if (vma->vm_flags & SFRAME_NO_MEMORY)
		return "device memory";

	image->inode = file_inode(vma->vm_file);
	image->may_differ = unwind_vma_may_differ(vma);
	if (!image->may_differ)
		image->key = image->inode;
	return NULL;
}

/*
 * Note which file the code is mapped from, if anybody has the device for tables open.
 * Whoever made a table for it may have seen that it has no SFrame table. Returns as
 * find_headers().
 */
static const char *note_file(struct sframe_image *image)
{
	if (!image->key || !unwind_files_used())
		return NULL;
	image->file = unwind_file_get(image->inode, image->key, unwind_gfp());
	if (IS_ERR(image->file)) {
		image->file = NULL;
		image->no_memory = true;
	}
	image->claimed = image->file && unwind_file_claims_no_sframe(image->file);
	return image->claimed ? "none, says the table for the file" : NULL;
}

/* Addresses of a segment that is loaded @bias bytes above where it says. */
static bool segment_range(const struct elf64_phdr *phdr, unsigned long bias,
			  unsigned long *start, unsigned long *end)
{
	unsigned long size = phdr->p_memsz;

	*start = bias + phdr->p_vaddr;
	*end = *start + size;
	return size && size < TASK_SIZE_MAX && *start < TASK_SIZE_MAX &&
	       *end <= TASK_SIZE_MAX;
}

static bool check_ehdr(const struct elf64_hdr *ehdr)
{
	return !memcmp(ehdr->e_ident, ELFMAG, SELFMAG) &&
	       ehdr->e_ident[EI_CLASS] == ELFCLASS64 &&
	       ehdr->e_ident[EI_DATA] == ELFDATA2LSB &&
	       ehdr->e_ident[EI_VERSION] == EV_CURRENT &&
	       (ehdr->e_type == ET_EXEC || ehdr->e_type == ET_DYN) &&
	       ehdr->e_machine == EM_X86_64 &&
	       ehdr->e_phentsize == sizeof(struct elf64_phdr) &&
	       ehdr->e_phnum && ehdr->e_phnum <= SFRAME_MAX_PHDRS;
}

/*
 * Read what the page cache has of a file: without a wait, but also without the changes
 * that a process has made to its mapping.
 */
static int read_cached(const struct file *file, void *to, unsigned long off,
		       unsigned int len)
{
	struct address_space *mapping = file->f_mapping;
	struct folio *folio;
	struct page *page;
	int ret = -EAGAIN;

	if (!S_ISREG(mapping->host->i_mode) || secretmem_mapping(mapping) ||
	    is_file_hugepages(file))
		return ret;
	folio = filemap_get_folio(mapping, off >> PAGE_SHIFT);
	if (IS_ERR(folio))
		return ret;

	/* shmem keeps a page whose memory has failed: to read it could be fatal. */
	page = folio_file_page(folio, off >> PAGE_SHIFT);
	off = offset_in_page(off);
	if (folio_test_uptodate(folio) && !PageHWPoison(page) && off + len <= PAGE_SIZE) {
		memcpy_from_page(to, page, off, len);
		ret = 0;
	}
	folio_put(folio);
	return ret;
}

/* The headers of a file that are mapped at @addr */
struct sframe_headers {
	const struct file	*file;
	unsigned long		addr;
	unsigned long		phdrs;
	unsigned int		nr_phdrs;
};

/*
 * Returns as unwind_user_read(). A task that must not wait often has them in memory,
 * but not in its page tables: those of a child of fork() have no files at first.
 */
static int read_headers(const struct sframe_headers *headers, void *to,
			unsigned long off, unsigned int len)
{
	int err = unwind_user_read(to, headers->addr + off, len);

	if (err == -EAGAIN && headers->file)
		err = read_cached(headers->file, to, off, len);
	return err;
}

/*
 * Find the program headers in the mapping, which has @len bytes; none of them if
 * it is no ELF file that can be understood. Returns as unwind_user_read().
 */
static int find_phdrs(struct sframe_headers *headers, unsigned long len)
{
	unsigned long size;
	struct elf64_hdr ehdr;
	int err;

	if (len < sizeof(ehdr))
		return 0;
	err = read_headers(headers, &ehdr, 0, sizeof(ehdr));
	if (err)
		return err;
	if (!check_ehdr(&ehdr))
		return 0;

	size = ehdr.e_phnum * sizeof(struct elf64_phdr);
	if (ehdr.e_phoff > len || size > len - ehdr.e_phoff)
		return 0;
	headers->phdrs = ehdr.e_phoff;
	headers->nr_phdrs = ehdr.e_phnum;
	return 0;
}

static int read_phdr(const struct sframe_headers *headers, unsigned int i,
		     struct elf64_phdr *phdr)
{
	return read_headers(headers, phdr, headers->phdrs + i * sizeof(*phdr),
			    sizeof(*phdr));
}

/* As unwind_user_read() has it */
#define SFRAME_NOT_READABLE	ERR_PTR(-EFAULT)
#define SFRAME_NOT_PRESENT	ERR_PTR(-EAGAIN)

/*
 * The first pass. How far above its own addresses is the file mapped, if its
 * first byte is at @addr? Two segments with the first byte would be two answers.
 * And which header names the table?
 */
static const char *find_bias(const struct sframe_headers *headers,
			     unsigned long *bias, struct elf64_phdr *table)
{
	bool has_first = false;
	struct elf64_phdr phdr;
	unsigned int i;
	int err;

	table->p_type = PT_NULL;
	for (i = 0; i < headers->nr_phdrs; i++) {
		err = read_phdr(headers, i, &phdr);
		if (err)
			return ERR_PTR(err);
		if (phdr.p_type == PT_GNU_SFRAME) {
			if (table->p_type != PT_NULL)
				return "several tables";
			*table = phdr;
		}
		if (phdr.p_type != PT_LOAD || phdr.p_offset || !phdr.p_filesz)
			continue;
		if (has_first)
			return "ELF headers in several segments";
		if (!PAGE_ALIGNED(phdr.p_vaddr))
			return "ELF segment not aligned";
		has_first = true;
		*bias = headers->addr - phdr.p_vaddr;
	}
	return has_first ? NULL : "ELF headers in no segment";
}

/* Does the file's segment explain that @image has this page of it there? */
static bool segment_has(const struct sframe_image *image,
			const struct elf64_phdr *phdr, unsigned long start,
			unsigned long end)
{
	unsigned long first = start & PAGE_MASK;

	if (image->pc < first || image->pc >= PAGE_ALIGN(end))
		return false;
	if (image->is_vdso)
		return true;

	return image->pgoff - (image->start >> PAGE_SHIFT) ==
	       (phdr->p_offset >> PAGE_SHIFT) - (first >> PAGE_SHIFT);
}

/*
 * The second pass. Set the code range of @entry, and the text range of the
 * table, to the segment with the address that was asked for; others have entries
 * of their own. Set the memory of the table.
 */
static const char *find_segments(const struct sframe_image *image,
				 const struct sframe_headers *headers,
				 unsigned long bias,
				 const struct elf64_phdr *table,
				 struct sframe_entry *entry)
{
	unsigned long table_start = 0, table_end = 0, start, end;
	bool has_text = false, has_table = false;
	struct elf64_phdr phdr;
	unsigned int i;
	int err;

	if (table->p_type != PT_NULL &&
	    !segment_range(table, bias, &table_start, &table_end))
		return "table out of range";

	for (i = 0; i < headers->nr_phdrs; i++) {
		err = read_phdr(headers, i, &phdr);
		if (err)
			return ERR_PTR(err);
		if (phdr.p_type != PT_LOAD)
			continue;
		if (!segment_range(&phdr, bias, &start, &end)) {
			if (phdr.p_flags & PF_X)
				return "ELF segment out of range";
			continue;
		}

		if (!has_text && (phdr.p_flags & PF_X) &&
		    segment_has(image, &phdr, start, end)) {
			has_text = true;
			entry->code.start = start & PAGE_MASK;
			entry->code.end = PAGE_ALIGN(end);
			entry->sec.text_start = start;
			entry->sec.text_end = end;
		}
		if (!has_table && table_start >= start && table_start < end) {
			has_table = true;
			/* Linkers make it longer than the table; the header counts. */
			entry->sec.start = table_start;
			entry->sec.end = min3(table_end, end,
					      table_start + SFRAME_MAX_TABLE);
		}
	}

	if (!has_text)
		return "not mapped as the ELF headers say";
	if (table->p_type == PT_NULL)
		return "no table";
	return has_table ? NULL : "table in no segment";
}

/* Read the header of a table as unwind_user_read() does, and returns. */
static int open_table(struct sframe_section *sec, enum sframe_status *status)
{
	unsigned int tries;
	int err;

	for (tries = 0; tries < 2; tries++) {
		pagefault_disable();
		*status = sframe_open_user(sec);
		pagefault_enable();
		if (*status != SFRAME_FAULT)
			return 0;
		err = unwind_user_fault_in(sec->start, SFRAME_HEADER_LEN);
		if (err)
			return err;
	}
	return -EAGAIN;
}

/*
 * Try one mapping for the headers. Returns the reason why it does not lead to a
 * table, NULL if it does, SFRAME_NOT_READABLE or SFRAME_NOT_PRESENT.
 */
static const char *try_headers(struct sframe_image *image,
			       unsigned int which, struct sframe_entry *entry)
{
	struct sframe_headers headers = {
		.file = image->mapped, .addr = image->headers[which],
	};
	enum sframe_status status;
	struct elf64_phdr table;
	const char *reason;
	unsigned long bias;
	int err;

	err = find_phdrs(&headers, image->lens[which]);
	if (err)
		return ERR_PTR(err);
	if (!headers.nr_phdrs)
		return "no ELF headers";

	reason = find_bias(&headers, &bias, &table);
	if (!reason)
		reason = find_segments(image, &headers, bias, &table, entry);
	if (reason)
		return reason;

	sframe_search_extend(image->sm, &image->search, entry->sec.start,
			     entry->sec.end);
	err = open_table(&entry->sec, &status);
	if (err)
		return ERR_PTR(err);
	return status == SFRAME_OK ? NULL : sframe_status_text(status);
}

/*
 * Fill in an entry for the mapping; its range may be larger than the mapping.
 * Returns as try_headers().
 */
static const char *fill_entry(struct sframe_image *image,
			      struct sframe_entry *entry)
{
	const char *reason = "no ELF headers";
	unsigned int i;

	for (i = 0; i < image->nr_headers; i++) {
		entry->code.start = 0;
		entry->code.end = ULONG_MAX;
		reason = try_headers(image, i, entry);

		/* The headers of this mapping's file: no others are better. */
		if (IS_ERR_OR_NULL(reason) || entry->code.start)
			break;
	}
	return reason;
}

/*
 * Can this be code? It may be anything: a stack can be made up, and where code does
 * not keep a frame pointer, following the register gives arbitrary addresses. As this
 * happens often, do not take the mmap lock, which another thread may hold for as long
 * as a fork takes.
 */
static bool maybe_code(struct mm_struct *mm, unsigned long pc)
{
	MA_STATE(mas, &mm->mm_mt, pc, pc);
	struct vm_area_struct *vma;

	/* With CONFIG_PER_VMA_LOCK, mappings are freed after a grace period. */
	guard(rcu)();
	vma = mas_walk(&mas);
	return vma && (READ_ONCE(vma->vm_flags) & VM_EXEC);
}

/* Hand over the file that some code is from. */
static void set_file(struct sframe_image *image, struct sframe_range *range)
{
	range->file = image->file;
	range->delta = (image->pgoff << PAGE_SHIFT) - image->start;
	if (image->claimed)
		range->delta |= SFRAME_RANGE_CLAIMED;
	image->file = NULL;
}

/* Does @vma, which may have taken the place of another mapping, have the file noted? */
static bool has_file(const struct sframe_image *image,
		     const struct vm_area_struct *vma)
{
	return !image->file || !image->inode ||
	       (vma->vm_file && image->inode == file_inode(vma->vm_file));
}

/*
 * Remember that some code has no SFrame table. But do not if its file was not noted, as
 * there was no memory, or the mapping can be written now: then a table for that file
 * would never be seen. Code that can be written has no table meanwhile.
 */
static enum unwind_user_status
insert_bare(const struct sframe_image *image, struct sframe_range *bare, u64 *cuts,
	    struct sframe_search *search, const char *reason)
{
	if (image->may_differ && unwind_files_used()) {
		bare->start = image->pc;
		bare->end = image->pc + 1;
		return UNWIND_USER_NO_RULE;
	}
	if (image->no_memory ||
	    !sframe_bare_insert(image->sm, bare, search, image->pc, image->epoch,
				reason, cuts))
		return UNWIND_USER_FAULT;
	return UNWIND_USER_NO_RULE;
}

/* Put an entry for what was found into the store. */
static enum unwind_user_status
insert_entry(struct sframe_image *image, const struct sframe_entry *found,
	     struct sframe_entry **entry)
{
	struct sframe_entry *new;

	new = sframe_entry_alloc(unwind_gfp());
	if (!new) {
		unwind_file_put(found->code.file);
		return UNWIND_USER_FAULT;
	}

	new->sec = found->sec;
	new->code = found->code;
	new->reason = found->reason;
	new->retry = found->retry;
	new->has_table = found->has_table;
	*entry = sframe_insert_found(image->sm, new, &image->search, image->pc,
				     image->epoch);
	return *entry ? UNWIND_USER_FOUND : UNWIND_USER_FAULT;
}

/* The second half: without the lock read the headers, then take it again. */
static enum unwind_user_status
discover_unlocked(struct sframe_image *image, struct sframe_entry **entry,
		  struct sframe_range *bare, u64 *cuts)
{
	enum unwind_user_status status = UNWIND_USER_NO_CODE;
	struct mm_struct *mm = current->mm;
	struct sframe_entry found = { };
	struct vm_area_struct *vma;
	const char *reason;

	reason = fill_entry(image, &found);
	if (reason == SFRAME_NOT_PRESENT)
		return UNWIND_USER_FAULT;
	if (IS_ERR(reason)) {
		found.reason = "not readable";
		found.retry = jiffies + SFRAME_RETRY;
	}
	found.has_table = !reason;
	if (!lock_mm(mm))
		return UNWIND_USER_FAULT;

	/*
	 * It is what was noted, or a part of that, and may be executable no
	 * more. What takes its place does so with the mmap lock held for
	 * writing, after an unmapping that has told the search: munmap()
	 * downgrades the lock before it does, but keeps it until then.
	 */
	vma = vma_lookup(mm, image->pc);
	if (!vma || !(vma->vm_flags & VM_EXEC))
		goto out;

	found.code.start = max(found.code.start, vma->vm_start);
	found.code.end = min(found.code.end, vma->vm_end);
	status = UNWIND_USER_FAULT;
	if (!has_file(image, vma))
		goto out;

	set_file(image, &found.code);
	if (IS_ERR_OR_NULL(reason)) {
		status = insert_entry(image, &found, entry);
	} else {
		*bare = found.code;
		status = insert_bare(image, bare, cuts, &image->search, reason);
	}
out:
	mmap_read_unlock(mm);
	return status;
}

/* All of the mapping has no table. Takes @image->file. */
static enum unwind_user_status no_table(struct sframe_image *image,
					struct sframe_range *bare, u64 *cuts,
					const char *reason)
{
	bare->start = image->start;
	bare->end = image->end;
	set_file(image, bare);
	return insert_bare(image, bare, cuts, NULL, reason);
}

/*
 * What can be told from @vma alone. Returns UNWIND_USER_END if nothing. With the mmap
 * lock held for reading, or the lock of @vma.
 */
static enum unwind_user_status discover_vma(struct sframe_image *image,
					    const struct vm_area_struct *vma,
					    struct sframe_range *bare, u64 *cuts)
{
	const char *reason;

	if (!(vma->vm_flags & VM_EXEC))
		return UNWIND_USER_NO_CODE;

	reason = note_mapping(image, vma);
	if (!reason)
		reason = note_file(image);
	return reason ? no_table(image, bare, cuts, reason) : UNWIND_USER_END;
}

/*
 * If there are tables for files, mostly no more than the VMA itself is needed, and its
 * own lock will do: before sframe_unmap(), a VMA that goes is locked for writing and
 * detached. So what was remembered before is forgotten, and nobody locks it after
 * that. Returns UNWIND_USER_END if the mmap lock is needed.
 */
static enum unwind_user_status discover_short(struct sframe_mm *sm, unsigned long pc,
					      struct sframe_range *bare, u64 *cuts)
{
	struct sframe_image image = {
		.sm = sm, .pc = pc, .epoch = unwind_files_get_epoch(),
	};
	enum unwind_user_status status;
	struct vm_area_struct *vma;

	vma = lock_vma_under_rcu(current->mm, pc);
	if (!vma)
		return maybe_code(current->mm, pc) ? UNWIND_USER_END : UNWIND_USER_NO_CODE;
	status = discover_vma(&image, vma, bare, cuts);
	vma_end_read(vma);
	unwind_file_put(image.file);
	return status;
}

static enum unwind_user_status discover_long(struct sframe_mm *sm, unsigned long pc,
					     struct sframe_entry **entry,
					     struct sframe_range *bare, u64 *cuts)
{
	VMA_ITERATOR(vmi, current->mm, pc);
	struct mm_struct *mm = current->mm;
	struct sframe_image image = {
		.sm = sm, .pc = pc, .epoch = unwind_files_get_epoch(),
	};
	enum unwind_user_status status = UNWIND_USER_NO_CODE;
	struct vm_area_struct *vma;
	const char *reason;

	if (!lock_mm(mm))
		return UNWIND_USER_FAULT;

	vma = vma_next(&vmi);
	if (vma && pc >= vma->vm_start)
		status = discover_vma(&image, vma, bare, cuts);
	if (status == UNWIND_USER_END) {
		reason = find_headers(&image, &vmi, vma);
		if (reason)
			status = no_table(&image, bare, cuts, reason);
	}
	if (status != UNWIND_USER_END) {
		mmap_read_unlock(mm);
		return status;
	}

	/* The headers that were found last are the lowest. */
	image.search.start = min(image.start,
				 image.headers[image.nr_headers - 1]);
	image.search.end = image.end;
	if (vma->vm_file)
		image.mapped = get_file(vma->vm_file);
	sframe_search_begin(sm, &image.search);
	mmap_read_unlock(mm);

	status = discover_unlocked(&image, entry, bare, cuts);

	sframe_search_end(sm, &image.search);
	if (image.mapped)
		fput(image.mapped);
	unwind_file_put(image.file);
	return status;
}

/**
 * sframe_discover - Find the table for an address by its mapping
 * @sm:		Store of current's mm, which knows nothing of @pc
 * @pc:		Address of code, or what a stack says is one
 * @entry:	The entry for @pc, in the store, with a reference
 * @bare:	Code around @pc that has no table. If it has a file, it is remembered;
 *		the caller has no reference to that
 * @cuts:	As long as this is sm->cuts, a @bare with a file is in the store
 *
 * Context: Process context, may sleep. Takes the mmap lock for reading, or that of the
 *	    mapping; not while user memory is read, which may take any time but ends
 *	    when the task is killed.
 * Return: UNWIND_USER_FOUND with @entry, whose table may have turned out to be
 *	   of no use; UNWIND_USER_NO_RULE with @bare; UNWIND_USER_NO_CODE if @pc
 *	   is not in executable memory; UNWIND_USER_FAULT if it cannot be told
 *	   just now.
 */
enum unwind_user_status
sframe_discover(struct sframe_mm *sm, unsigned long pc,
		struct sframe_entry **entry, struct sframe_range *bare, u64 *cuts)
{
	enum unwind_user_status status = UNWIND_USER_END;

	if (unwind_files_used())
		status = discover_short(sm, pc, bare, cuts);
	else if (!maybe_code(current->mm, pc))
		status = UNWIND_USER_NO_CODE;
	return status == UNWIND_USER_END ?
	       discover_long(sm, pc, entry, bare, cuts) : status;
}
