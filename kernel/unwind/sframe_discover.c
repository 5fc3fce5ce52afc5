// SPDX-License-Identifier: GPL-2.0
/*
 * Find the SFrame table for an address by the ELF headers of its mapping.
 *
 * The headers are read as the user memory that they are, never by way of the
 * file: a page fault can be killed, a read from a file system cannot always.
 * So nothing is locked while they are read, and the mappings may change under
 * us. That does not matter for the headers, which are not to be trusted anyway,
 * but the result must not be kept for other mappings than it was found for: a
 * struct sframe_probe tells whether some of them was unmapped.
 *
 * "There is no table" is a result as good as a table, and is remembered until
 * the mapping goes. "Could not be read just now" is not.
 */

#include <linux/elf.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <asm/sframe.h>

#include "sframe_sections.h"

/* Program headers of a file. Linkers make about a dozen. */
#define SFRAME_MAX_PHDRS	64

/* Mappings between the code and the headers of its file. */
#define SFRAME_MAX_STEPS	64

/* Mappings that may have the headers, the nearest is tried first. */
#define SFRAME_MAX_HEADERS	4

/**
 * struct sframe_image - The mapping that has an address, and its file's headers
 * @sm:		Store that the search is for
 * @probe:	Tells whether something of all this was unmapped
 * @pc:		The address
 * @start:	First byte of the mapping
 * @end:	Behind the last one
 * @pgoff:	Page of the file that is mapped there
 * @inode:	Of the file. Never followed, compared with the mmap lock held only
 * @nr_headers:	Number of mappings of the same file that start with its headers
 * @headers:	Where they start
 * @lens:	Their lengths
 * @is_vdso:	The code is that of the vDSO; there are no file and no page
 */
struct sframe_image {
	struct sframe_mm	*sm;
	struct sframe_probe	probe;
	unsigned long		pc;
	unsigned long		start;
	unsigned long		end;
	unsigned long		pgoff;
	const struct inode	*inode;
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

/* Collect the mappings that may start with the headers of the file of @vma. */
static void find_headers(struct sframe_image *image,
			 struct vm_area_struct *vma)
{
	VMA_ITERATOR(vmi, vma->vm_mm, vma->vm_start);
	unsigned int steps;

	/* Puts the iterator on @vma itself. */
	vma = vma_next(&vmi);
	for (steps = 0; vma && steps < SFRAME_MAX_STEPS; steps++) {
		if (vma->vm_file && file_inode(vma->vm_file) == image->inode &&
		    !vma->vm_pgoff && (vma->vm_flags & VM_READ)) {
			unsigned int i = image->nr_headers++;

			image->headers[i] = vma->vm_start;
			image->lens[i] = vma->vm_end - vma->vm_start;
			if (image->nr_headers == SFRAME_MAX_HEADERS)
				break;
		}
		vma = vma_prev(&vmi);
	}
}

/*
 * Note what @vma is. Returns why there cannot be a table in its file, NULL if
 * there can.
 */
static const char *note_mapping(struct sframe_image *image,
				struct vm_area_struct *vma)
{
	unsigned long vdso = sframe_arch_vdso(vma->vm_mm);

	image->start = vma->vm_start;
	image->end = vma->vm_end;
	image->pgoff = vma->vm_pgoff;
	image->nr_headers = 0;

	if (vdso && vdso >= vma->vm_start && vdso < vma->vm_end) {
		image->is_vdso = true;
		image->inode = NULL;
		image->nr_headers = 1;
		image->headers[0] = vdso;
		image->lens[0] = vma->vm_end - vdso;
		return NULL;
	}

	image->is_vdso = false;
	if (!vma->vm_file)
		return "no file";
	/* To look at device memory can have effects. */
	if (vma->vm_flags & (VM_IO | VM_PFNMAP))
		return "device memory";

	image->inode = file_inode(vma->vm_file);
	find_headers(image, vma);
	return image->nr_headers ? NULL : "ELF headers not mapped";
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
 * Read the program headers of the mapping of @len bytes at @addr. Returns how
 * many there are, 0 if it is no ELF file that can be understood, or -EFAULT.
 */
static int read_phdrs(unsigned long addr, unsigned long len, struct elf64_phdr *phdrs)
{
	unsigned long size;
	struct elf64_hdr ehdr;

	if (len < sizeof(ehdr))
		return 0;
	if (copy_from_user(&ehdr, (void __user *)addr, sizeof(ehdr)))
		return -EFAULT;
	if (!check_ehdr(&ehdr))
		return 0;

	size = ehdr.e_phnum * sizeof(*phdrs);
	if (ehdr.e_phoff > len || size > len - ehdr.e_phoff)
		return 0;
	if (copy_from_user(phdrs, (void __user *)(addr + ehdr.e_phoff), size))
		return -EFAULT;
	return ehdr.e_phnum;
}

/*
 * How far above its own addresses is the file mapped, if its first byte is at
 * @addr? Two segments with the first byte would be two answers.
 */
static const char *find_bias(const struct elf64_phdr *phdrs, int nr,
			     unsigned long addr, unsigned long *bias)
{
	const struct elf64_phdr *first = NULL;
	int i;

	for (i = 0; i < nr; i++) {
		if (phdrs[i].p_type != PT_LOAD || phdrs[i].p_offset ||
		    !phdrs[i].p_filesz)
			continue;
		if (first)
			return "ELF headers in several segments";
		first = &phdrs[i];
	}
	if (!first)
		return "ELF headers in no segment";
	if (!PAGE_ALIGNED(first->p_vaddr))
		return "ELF segment not aligned";

	*bias = addr - first->p_vaddr;
	return NULL;
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
 * Set the code range of @entry, and the text range of the table, to the segment
 * with the address that was asked for. Others have entries of their own.
 */
static const char *find_text(const struct sframe_image *image,
			     const struct elf64_phdr *phdrs, int nr,
			     unsigned long bias, struct sframe_entry *entry)
{
	unsigned long start, end;
	int i;

	for (i = 0; i < nr; i++) {
		if (phdrs[i].p_type != PT_LOAD || !(phdrs[i].p_flags & PF_X))
			continue;
		if (!segment_range(&phdrs[i], bias, &start, &end))
			return "ELF segment out of range";
		if (!segment_has(image, &phdrs[i], start, end))
			continue;

		entry->start = start & PAGE_MASK;
		entry->end = PAGE_ALIGN(end);
		entry->sec.text_start = start;
		entry->sec.text_end = end;
		return NULL;
	}
	return "not mapped as the ELF headers say";
}

/* Set the memory of the table. */
static const char *find_table(const struct elf64_phdr *phdrs, int nr,
			      unsigned long bias, struct sframe_entry *entry)
{
	unsigned long start, end, load_start, load_end;
	const struct elf64_phdr *table = NULL;
	int i;

	for (i = 0; i < nr; i++) {
		if (phdrs[i].p_type != PT_GNU_SFRAME)
			continue;
		if (table)
			return "several tables";
		table = &phdrs[i];
	}
	if (!table)
		return "no table";
	if (!segment_range(table, bias, &start, &end))
		return "table out of range";

	for (i = 0; i < nr; i++) {
		if (phdrs[i].p_type != PT_LOAD ||
		    !segment_range(&phdrs[i], bias, &load_start, &load_end))
			continue;
		if (start < load_start || start >= load_end)
			continue;

		/* Linkers make it longer than the table; the header counts. */
		entry->sec.start = start;
		entry->sec.end = min3(end, load_end, start + SFRAME_MAX_TABLE);
		return NULL;
	}
	return "table in no segment";
}

/*
 * Try one mapping for the headers. Returns the reason why it does not lead to a
 * table, NULL if it does, or an ERR_PTR(): -EFAULT if it does and the table
 * cannot be read, -EAGAIN if that cannot be told just now.
 */
static const char *try_headers(struct sframe_image *image,
			       unsigned int which, struct elf64_phdr *phdrs,
			       struct sframe_entry *entry)
{
	enum sframe_status status;
	const char *reason;
	unsigned long bias;
	int nr;

	nr = read_phdrs(image->headers[which], image->lens[which], phdrs);
	if (nr < 0)
		return ERR_PTR(-EAGAIN);
	if (!nr)
		return "no ELF headers";

	reason = find_bias(phdrs, nr, image->headers[which], &bias);
	if (!reason)
		reason = find_text(image, phdrs, nr, bias, entry);
	if (!reason)
		reason = find_table(phdrs, nr, bias, entry);
	if (reason)
		return reason;

	sframe_probe_extend(image->sm, &image->probe, entry->sec.start,
			    entry->sec.end);
	status = sframe_open_user(&entry->sec);
	if (status == SFRAME_FAULT)
		return ERR_PTR(-EFAULT);
	if (status != SFRAME_OK)
		return sframe_status_text(status);
	return NULL;
}

/*
 * Fill in an entry for the mapping. The range may be larger than the mapping.
 * Returns 0, -EFAULT if there is a table that cannot be read, or another error
 * if that was not possible just now.
 */
static int fill_entry(struct sframe_image *image, struct sframe_entry *entry)
{
	const char *reason = "no ELF headers";
	struct elf64_phdr *phdrs;
	unsigned int i;

	phdrs = kmalloc_array(SFRAME_MAX_PHDRS, sizeof(*phdrs), SFRAME_GFP);
	if (!phdrs)
		return -ENOMEM;

	for (i = 0; i < image->nr_headers; i++) {
		entry->start = 0;
		entry->end = ULONG_MAX;
		reason = try_headers(image, i, phdrs, entry);

		/* The headers of this mapping's file: no others are better. */
		if (IS_ERR_OR_NULL(reason) || entry->start)
			break;
	}
	kfree(phdrs);

	if (IS_ERR(reason))
		return PTR_ERR(reason);
	entry->reason = reason;
	entry->has_table = !reason;
	return 0;
}

/* Put @entry into the store for what of its range @vma has. */
static struct sframe_entry *insert_for_vma(struct sframe_mm *sm,
					   struct sframe_entry *entry,
					   struct sframe_probe *probe,
					   struct vm_area_struct *vma,
					   unsigned long pc)
{
	entry->start = max(entry->start, vma->vm_start);
	entry->end = min(entry->end, vma->vm_end);
	return sframe_insert_found(sm, entry, probe, pc);
}

/* An entry for a mapping that cannot have a table. mmap lock held. */
static struct sframe_entry *insert_none(struct sframe_mm *sm,
					struct vm_area_struct *vma,
					unsigned long pc, const char *reason)
{
	struct sframe_entry *entry = sframe_entry_alloc(SFRAME_GFP);

	if (!entry)
		return NULL;

	entry->end = ULONG_MAX;
	entry->reason = reason;
	return insert_for_vma(sm, entry, NULL, vma, pc);
}

/* The second half: without the lock read the headers, then take it again. */
static struct sframe_entry *discover_unlocked(struct sframe_image *image)
{
	struct mm_struct *mm = current->mm;
	struct sframe_entry *entry, *ret = NULL;
	struct vm_area_struct *vma;
	int err;

	entry = sframe_entry_alloc(SFRAME_GFP);
	if (!entry)
		return NULL;

	err = fill_entry(image, entry);
	if (err || !lock_mm(mm)) {
		sframe_entry_put(entry);
		return err == -EFAULT ? ERR_PTR(err) : NULL;
	}

	/*
	 * It is what was noted, or a part of that, and may be executable no
	 * more. What takes its place does so with the mmap lock held for
	 * writing, behind an unmapping that has told the probe: munmap()
	 * downgrades the lock before it does, but keeps it until then.
	 */
	vma = vma_lookup(mm, image->pc);
	if (vma && (vma->vm_flags & VM_EXEC))
		ret = insert_for_vma(image->sm, entry, &image->probe, vma,
				     image->pc);
	else
		sframe_entry_put(entry);

	mmap_read_unlock(mm);
	return ret;
}

/**
 * sframe_discover - Find the table for an address by its mapping
 * @sm:		Store of current's mm, which has no entry for @pc
 * @pc:		Address of code, or what a stack says is one
 * @start:	First byte of what could not be searched
 * @end:	Behind the last one
 *
 * Context: Process context, may sleep. Takes the mmap lock for reading; not
 *	    while user memory is read, which may take any time but ends when the
 *	    task is killed.
 * Return: The entry for @pc, in the store, with a reference. NULL if it cannot
 *	   be told just now, or if @pc is not in executable memory; @start and
 *	   @end are valid then: there is no point in asking for another address
 *	   between them in the same walk. ERR_PTR(-EFAULT) if there is a table
 *	   that cannot be read.
 */
struct sframe_entry *sframe_discover(struct sframe_mm *sm, unsigned long pc,
				     unsigned long *start, unsigned long *end)
{
	struct mm_struct *mm = current->mm;
	struct sframe_image image = { .sm = sm, .pc = pc };
	struct sframe_entry *entry;
	struct vm_area_struct *vma;
	const char *reason;

	*start = pc & PAGE_MASK;
	*end = *start + PAGE_SIZE;

	if (!lock_mm(mm))
		return NULL;

	vma = vma_lookup(mm, pc);
	if (!vma || !(vma->vm_flags & VM_EXEC)) {
		mmap_read_unlock(mm);
		return NULL;
	}
	*start = vma->vm_start;
	*end = vma->vm_end;

	reason = note_mapping(&image, vma);
	if (reason) {
		entry = insert_none(sm, vma, pc, reason);
		mmap_read_unlock(mm);
		return entry;
	}

	/* The headers that were found last are the lowest. */
	image.probe.start = min(image.start,
				image.headers[image.nr_headers - 1]);
	image.probe.end = image.end;
	sframe_probe_begin(sm, &image.probe);
	mmap_read_unlock(mm);

	entry = discover_unlocked(&image);

	sframe_probe_end(sm, &image.probe);
	return entry;
}
