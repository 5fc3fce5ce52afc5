// SPDX-License-Identifier: GPL-2.0
/*
 * ELF headers: where a file's code is, and where its CFI is. For a linked file,
 * program headers say all that is needed. Section headers are used if they are there;
 * a file in memory has none.
 */

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

/* Limits of the data that is read of one file at once */
#define MAX_HEADERS	UT_MAX_SEGMENTS
#define MAX_SECTIONS	(1 << 16)
#define MAX_NAMES	(1 << 24)
#define MAX_NOTES	(1 << 16)
#define MAX_DYNAMIC	(1 << 14)
#define MAX_CFI		(1ULL << 27)
#define MAX_RELOCATIONS	(1ULL << 28)

static bool read_file(int fd, __u64 pos, __u8 *to, size_t len)
{
	while (len) {
		ssize_t n;

		if (pos > INT64_MAX)
			return false;
		n = pread(fd, to, len, pos);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		pos += n;
		len -= n;
	}
	return true;
}

/* Read the bytes at a position, all or none. */
bool ut_elf_read(const struct ut_elf *elf, __u64 pos, void *to, size_t len)
{
	const struct ut_source *src = &elf->src;

	pos += elf->base;
	if (!src->image)
		return read_file(src->fd, pos, to, len);
	if (pos > src->len || len > src->len - pos)
		return false;
	memcpy(to, src->image + pos, len);
	return true;
}

static void put_bytes(struct ut_bytes *bytes)
{
	free(bytes->copy);
	memset(bytes, 0, sizeof(*bytes));
}

/* Copies only if it has to */
static int get_bytes(const struct ut_elf *elf, __u64 pos, __u64 len,
		     struct ut_bytes *bytes)
{
	const struct ut_source *src = &elf->src;

	memset(bytes, 0, sizeof(*bytes));
	/* A length that the file does not have costs no memory. */
	if (pos + elf->base > src->len || len > src->len - (pos + elf->base))
		return -ENODATA;
	bytes->len = len;
	if (src->image) {
		bytes->data = src->image + pos + elf->base;
		return 0;
	}
	bytes->copy = malloc(len ? len : 1);
	if (!bytes->copy)
		return -ENOMEM;
	bytes->data = bytes->copy;
	if (!ut_elf_read(elf, pos, bytes->copy, len)) {
		put_bytes(bytes);
		return -ENODATA;
	}
	return 0;
}

/* The segment that has an address, within its bytes in the file */
static const struct ut_segment *segment_at(const struct ut_elf *elf, __u64 addr)
{
	unsigned int i;

	for (i = 0; i < elf->nr_segments; i++) {
		const struct ut_segment *segment = &elf->segments[i];

		if (addr - segment->addr < segment->len)
			return segment;
	}
	return NULL;
}

/* Where a byte of a segment is in the source */
static __u64 position(const struct ut_elf *elf, const struct ut_segment *segment,
		      __u64 addr)
{
	if (elf->src.loaded)
		return addr;
	return ut_offset_of(segment, addr);
}

const struct ut_segment *ut_elf_code_at(const struct ut_elf *elf, __u64 addr)
{
	unsigned int i;

	for (i = 0; i < elf->nr_code; i++) {
		if (addr - elf->code[i].addr < elf->code[i].len)
			return &elf->code[i];
	}
	return NULL;
}

/*
 * Where does the next section with code begin, from the offset @at on, and where does it end? @at
 * gets @end if there is none. Without sections, all of a segment may be code.
 */
void ut_elf_text(const struct ut_elf *elf, __u64 *at, __u64 end, __u64 *text_end)
{
	unsigned int i;

	*text_end = end;
	for (i = 0; i < elf->nr_texts; i++) {
		const struct ut_table *text = &elf->texts[i];

		if (text->pos + text->len <= *at)
			continue;
		if (*at < text->pos)
			*at = text->pos < end ? text->pos : end;
		if (text->pos + text->len < end)
			*text_end = text->pos + text->len;
		return;
	}
	if (elf->nr_texts)
		*at = end;
}

/* The segment of an address that has code: lld puts data into it, too, unless told */
const struct ut_segment *ut_elf_text_at(const struct ut_elf *elf, __u64 addr)
{
	const struct ut_segment *segment = ut_elf_code_at(elf, addr);
	__u64 offset, at, end;

	if (!segment)
		return NULL;
	offset = ut_offset_of(segment, addr);
	at = offset;
	ut_elf_text(elf, &at, offset + 1, &end);
	return at == offset ? segment : NULL;
}

/* Code at an offset in the file: how much of it there is, up to @len */
size_t ut_elf_read_code(const struct ut_elf *elf,
			const struct ut_segment *segment, __u64 offset,
			void *to, size_t len)
{
	__u64 at = offset - segment->offset;

	if (at >= segment->len)
		return 0;
	if (len > segment->len - at)
		len = segment->len - at;
	if (!ut_elf_read(elf, position(elf, segment, segment->addr + at), to, len))
		return 0;
	return len;
}

/* An entry of the dynamic section; false: there is none */
bool ut_elf_dynamic(const struct ut_elf *elf, __u64 tag, __u64 *value)
{
	const struct ut_segment *segment = segment_at(elf, elf->dynamic);
	__u64 pos, end;
	Elf64_Dyn dyn;

	if (!segment || elf->dynamic_len > MAX_DYNAMIC)
		return false;
	pos = position(elf, segment, elf->dynamic);
	end = pos + elf->dynamic_len;
	for (; end - pos >= sizeof(dyn); pos += sizeof(dyn)) {
		if (!ut_elf_read(elf, pos, &dyn, sizeof(dyn)) || dyn.d_tag == DT_NULL)
			return false;
		if ((__u64)dyn.d_tag == tag) {
			*value = dyn.d_un.d_val;
			return true;
		}
	}
	return false;
}

/* Read the bytes at an address from the dynamic section. */
bool ut_elf_read_addr(const struct ut_elf *elf, __u64 addr, void *to, size_t len)
{
	const struct ut_segment *segment = segment_at(elf, addr);

	return segment && len <= segment->addr + segment->len - addr &&
	       ut_elf_read(elf, position(elf, segment, addr), to, len);
}

/*
 * Look at each record of a table at @at, which @read reads: by a position, or by an address.
 * Records that cannot be read, and those after them, are passed over.
 */
int ut_elf_each(const struct ut_records *records, __u64 at, __u64 left, ut_elf_read_t read)
{
	size_t size = records->size, nr, i;
	__u8 *buf;
	int err = 0;

	if (left < size)
		return 0;
	buf = malloc(records->max * size);
	if (!buf)
		return -ENOMEM;
	while (left >= size && !err) {
		nr = left / size < records->max ? left / size : records->max;
		if (!read(records->elf, at, buf, nr * size))
			break;
		if (records->work && !ut_work(records->work, UT_WORK_READ + nr))
			err = -E2BIG;
		for (i = 0; i < nr && !err; i++)
			err = records->each(records->data, buf + i * size);
		at += nr * size;
		left -= nr * size;
	}
	free(buf);
	return err;
}

/* The same for a table that the dynamic section knows, if it does */
int ut_elf_each_dynamic(const struct ut_records *records, __u64 tag, __u64 size_tag)
{
	__u64 addr, len;

	if (!ut_elf_dynamic(records->elf, tag, &addr) ||
	    !ut_elf_dynamic(records->elf, size_tag, &len) || len > MAX_RELOCATIONS)
		return 0;
	return ut_elf_each(records, addr, len, ut_elf_read_addr);
}

/* Is a name among those of the dynamic symbols? */
bool ut_elf_has_symbol(const struct ut_elf *elf, const char *name)
{
	const struct ut_segment *segment;
	__u64 strings, len;
	struct ut_bytes bytes;
	bool found;

	if (!ut_elf_dynamic(elf, DT_STRTAB, &strings) ||
	    !ut_elf_dynamic(elf, DT_STRSZ, &len))
		return false;
	segment = segment_at(elf, strings);
	if (!segment || len > MAX_NAMES ||
	    get_bytes(elf, position(elf, segment, strings), len, &bytes))
		return false;
	/* With its terminating zero */
	found = memmem(bytes.data, bytes.len, name, strlen(name) + 1);
	put_bytes(&bytes);
	return found;
}

static int compare_offsets(const void *a, const void *b)
{
	const struct ut_segment *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool add_segment(struct ut_elf *elf, const Elf64_Phdr *phdr)
{
	struct ut_segment segment = {
		.offset	= phdr->p_offset,
		.addr	= phdr->p_vaddr,
		.len	= phdr->p_filesz,
		.exec	= phdr->p_flags & PF_X,
	};
	const struct ut_source *src = &elf->src;
	__u64 pos = src->loaded ? segment.addr + elf->base : segment.offset;

	/* Code beyond the end of the file cannot be executed, or not be read. */
	if (pos >= src->len)
		return true;
	if (segment.len > src->len - pos)
		segment.len = src->len - pos;
	if (!segment.len)
		return true;
	/* The kernel maps no others. */
	if ((segment.offset ^ segment.addr) & UT_PAGE_MASK)
		return false;
	if (segment.offset + segment.len < segment.offset ||
	    segment.addr + segment.len < segment.addr)
		return false;

	elf->segments[elf->nr_segments++] = segment;
	if (segment.exec) {
		elf->code[elf->nr_code++] = segment;
		elf->code_bytes += segment.len;
	}
	return true;
}

/*
 * A byte of the file that is code in two places would need two rules. No linker makes
 * such files, nor two segments at one address.
 */
static bool code_is_ambiguous(const struct ut_elf *elf)
{
	unsigned int i, k;

	for (i = 0; i < elf->nr_code; i++) {
		const struct ut_segment *a = &elf->code[i];

		if (i && a->offset < a[-1].offset + a[-1].len)
			return true;
		for (k = 0; k < elf->nr_segments; k++) {
			const struct ut_segment *b = &elf->segments[k];

			if (a->addr == b->addr && a->offset == b->offset)
				continue;
			if (a->addr - b->addr < b->len ||
			    b->addr - a->addr < a->len)
				return true;
		}
	}
	return false;
}

/* Go's linker leaves a note: its compiler keeps frame pointers. */
static bool has_go_note(const struct ut_elf *elf, const Elf64_Phdr *phdr)
{
	const struct ut_segment *segment = segment_at(elf, phdr->p_vaddr);
	static const char name[4] = "Go";
	struct ut_bytes notes;
	Elf64_Nhdr note;
	__u64 at = 0, len;
	bool found = false;

	if (!segment || phdr->p_filesz > MAX_NOTES ||
	    get_bytes(elf, position(elf, segment, phdr->p_vaddr), phdr->p_filesz, &notes))
		return false;
	while (notes.len - at >= sizeof(note) + sizeof(name) && !found) {
		memcpy(&note, notes.data + at, sizeof(note));
		found = note.n_type == 4 && note.n_namesz == sizeof(name) &&
			!memcmp(notes.data + at + sizeof(note), name, sizeof(name));
		len = sizeof(note) + ((note.n_namesz + 3ULL) & ~3ULL) +
		      ((note.n_descsz + 3ULL) & ~3ULL);
		if (len > notes.len - at)
			break;
		at += len;
	}
	put_bytes(&notes);
	return found;
}

static int read_headers(const struct ut_elf *elf, Elf64_Ehdr *ehdr,
			Elf64_Phdr *phdrs)
{
	if (!ut_elf_read(elf, 0, ehdr, sizeof(*ehdr)))
		return -ENOEXEC;
	if (memcmp(ehdr->e_ident, ELFMAG, SELFMAG) ||
	    ehdr->e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr->e_ident[EI_DATA] != ELFDATA2LSB ||
	    ehdr->e_machine != EM_X86_64 ||
	    (ehdr->e_type != ET_EXEC && ehdr->e_type != ET_DYN) ||
	    ehdr->e_phentsize != sizeof(*phdrs) ||
	    !ehdr->e_phnum || ehdr->e_phnum > MAX_HEADERS)
		return -ENOEXEC;
	if (!ut_elf_read(elf, ehdr->e_phoff, phdrs, ehdr->e_phnum * sizeof(*phdrs)))
		return -ENOEXEC;
	return 0;
}

/*
 * The end of .eh_frame by program headers: that of its segment, or the start of
 * something else.
 */
static __u64 limit_of(const struct ut_elf *elf, const Elf64_Phdr *phdrs,
		      unsigned int nr, __u64 addr)
{
	const struct ut_segment *segment = segment_at(elf, addr);
	__u64 end = segment->addr + segment->len;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		__u64 start = phdrs[i].p_vaddr;

		if (phdrs[i].p_filesz && start > addr && start < end)
			end = start;
	}
	return end;
}

/* The address of .eh_frame, from the fields before the table of .eh_frame_hdr */
static bool eh_frame_by_header(const struct ut_elf *elf, const Elf64_Phdr *phdr,
			       __u64 *addr)
{
	const struct ut_segment *segment = segment_at(elf, phdr->p_vaddr);
	struct ut_cursor c;
	__u8 header[16];
	size_t len = sizeof(header);
	__u8 encoding;
	__u64 at;

	if (!segment || phdr->p_filesz < 5)
		return false;
	if (len > phdr->p_filesz)
		len = phdr->p_filesz;
	if (!ut_elf_read(elf, position(elf, segment, phdr->p_vaddr), header, len))
		return false;
	/* Version, and the encodings of this pointer, of count and table */
	encoding = header[1];
	if (header[0] != 1 || encoding == UT_PE_OMIT)
		return false;

	c = (struct ut_cursor){ .pos = header + 4, .end = header + len };
	at = ut_get_encoded(&c, encoding & 0x0f);
	switch (encoding & 0xf0) {
	case UT_PE_ABSPTR:
		break;
	case UT_PE_PCREL:
		at += phdr->p_vaddr + 4;
		break;
	case UT_PE_DATAREL:
		at += phdr->p_vaddr;
		break;
	default:
		return false;
	}
	*addr = at;
	return !c.bad && segment_at(elf, at);
}

static bool name_is(const struct ut_bytes *names, __u32 at, const char *name)
{
	size_t len = strlen(name) + 1;

	return at < names->len && len <= names->len - at &&
	       !memcmp(names->data + at, name, len);
}

/* Sections that matter for their kind, whatever their names */
static void note_section(struct ut_elf *elf, const Elf64_Shdr *shdr)
{
	const struct ut_table *last = &elf->texts[elf->nr_texts];
	struct ut_table table = { shdr->sh_offset, shdr->sh_size };

	if (shdr->sh_type == SHT_SYMTAB)
		elf->symbols[0] = table;
	if (shdr->sh_type == SHT_DYNSYM)
		elf->symbols[1] = table;
	if (!(shdr->sh_flags & SHF_EXECINSTR) || elf->nr_texts == UT_MAX_TEXTS ||
	    table.pos + table.len < table.pos)
		return;
	/* They are in order in all files but malicious ones. */
	if (!elf->nr_texts || table.pos >= last[-1].pos + last[-1].len)
		elf->texts[elf->nr_texts++] = table;
}

/* Find .eh_frame and .debug_frame by name. Files without names are no error. */
static int find_sections(struct ut_elf *elf, const Elf64_Ehdr *ehdr,
			 Elf64_Shdr *eh_frame, Elf64_Shdr *debug_frame)
{
	__u64 nr = ehdr->e_shnum, index = ehdr->e_shstrndx;
	struct ut_bytes names, table;
	Elf64_Shdr shdr;
	__u64 i;
	int err;

	memset(eh_frame, 0, sizeof(*eh_frame));
	memset(debug_frame, 0, sizeof(*debug_frame));
	if (elf->src.loaded || !ehdr->e_shoff || ehdr->e_shentsize != sizeof(shdr))
		return 0;
	/* Numbers that do not fit are in the first one. */
	if (!ut_elf_read(elf, ehdr->e_shoff, &shdr, sizeof(shdr)))
		return 0;
	if (!nr)
		nr = shdr.sh_size;
	if (index == SHN_XINDEX)
		index = shdr.sh_link;
	if (!nr || nr > MAX_SECTIONS || index >= nr)
		return 0;

	err = get_bytes(elf, ehdr->e_shoff, nr * sizeof(shdr), &table);
	if (err)
		return err == -ENOMEM ? err : 0;
	memcpy(&shdr, table.data + index * sizeof(shdr), sizeof(shdr));
	if (shdr.sh_type != SHT_STRTAB || shdr.sh_size > MAX_NAMES)
		goto out;
	err = get_bytes(elf, shdr.sh_offset, shdr.sh_size, &names);
	if (err) {
		err = err == -ENOMEM ? err : 0;
		goto out;
	}
	for (i = 0; i < nr; i++) {
		memcpy(&shdr, table.data + i * sizeof(shdr), sizeof(shdr));
		if (shdr.sh_type == SHT_NOBITS || shdr.sh_type == SHT_NULL)
			continue;
		note_section(elf, &shdr);
		if (!eh_frame->sh_type && (shdr.sh_flags & SHF_ALLOC) &&
		    name_is(&names, shdr.sh_name, ".eh_frame"))
			*eh_frame = shdr;
		if (!debug_frame->sh_type && !(shdr.sh_flags & SHF_COMPRESSED) &&
		    name_is(&names, shdr.sh_name, ".debug_frame"))
			*debug_frame = shdr;
	}
	put_bytes(&names);
out:
	put_bytes(&table);
	return err;
}

static int read_eh_frame(struct ut_elf *elf, __u64 addr, __u64 end, bool exact)
{
	const struct ut_segment *segment = segment_at(elf, addr);
	int err;

	if (end - addr > MAX_CFI)
		return -EFBIG;
	err = get_bytes(elf, position(elf, segment, addr), end - addr,
			&elf->eh_frame.bytes);
	elf->eh_frame.addr = addr;
	elf->eh_frame.exact = exact;
	return err;
}

static int find_cfi(struct ut_elf *elf, const Elf64_Ehdr *ehdr,
		    const Elf64_Phdr *phdrs)
{
	Elf64_Shdr eh_frame, debug_frame;
	__u64 addr = 0, end;
	bool found = false;
	unsigned int i;
	int err;

	err = find_sections(elf, ehdr, &eh_frame, &debug_frame);
	if (err)
		return err;
	for (i = 0; i < ehdr->e_phnum && !found; i++)
		found = phdrs[i].p_type == PT_GNU_EH_FRAME &&
			eh_frame_by_header(elf, &phdrs[i], &addr);
	if (!found && eh_frame.sh_type && segment_at(elf, eh_frame.sh_addr)) {
		addr = eh_frame.sh_addr;
		found = true;
	}
	if (found) {
		const struct ut_segment *segment = segment_at(elf, addr);
		__u64 left = segment->addr + segment->len - addr;
		bool exact = eh_frame.sh_type && eh_frame.sh_addr == addr &&
			     eh_frame.sh_size <= left;

		end = exact ? addr + eh_frame.sh_size :
			      limit_of(elf, phdrs, ehdr->e_phnum, addr);
		err = read_eh_frame(elf, addr, end, exact);
		if (err)
			return err;
	}

	/* Go describes only SP there, and its code keeps frame pointers. */
	if (debug_frame.sh_type && !elf->is_go) {
		if (debug_frame.sh_size > MAX_CFI)
			return -EFBIG;
		err = get_bytes(elf, debug_frame.sh_offset, debug_frame.sh_size,
				&elf->debug_frame.bytes);
		if (err == -ENOMEM)
			return err;
		elf->debug_frame.debug = true;
		elf->debug_frame.exact = true;
	}
	if (!elf->eh_frame.bytes.len && !elf->debug_frame.bytes.len && !elf->is_go)
		return -ENODATA;
	return 0;
}

/*
 * Shared libraries have an entry, too, which may be anything: old linkers put the start
 * of the code there. Only the start of a program or its interpreter has no caller.
 */
static bool has_entry(const struct ut_elf *elf, const Elf64_Ehdr *ehdr,
		      const Elf64_Phdr *phdrs)
{
	__u64 flags = 0, needed;
	unsigned int i;

	if (ehdr->e_type == ET_EXEC)
		return true;
	for (i = 0; i < ehdr->e_phnum; i++) {
		if (phdrs[i].p_type == PT_INTERP)
			return true;
	}
	if (ut_elf_dynamic(elf, DT_FLAGS_1, &flags) && flags & DF_1_PIE)
		return true;
	/* The interpreter needs no other file, and has this symbol for all the others. */
	return !ut_elf_dynamic(elf, DT_NEEDED, &needed) &&
	       ut_elf_has_symbol(elf, "__tls_get_addr");
}

/* Bytes of @elf->src are used up to ut_elf_close(). */
int ut_elf_open(struct ut_elf *elf, const struct ut_source *src)
{
	Elf64_Phdr phdrs[MAX_HEADERS];
	Elf64_Ehdr ehdr;
	unsigned int i;
	int err;

	memset(elf, 0, sizeof(*elf));
	elf->src = *src;
	err = read_headers(elf, &ehdr, phdrs);
	if (err)
		return err;
	/*
	 * In memory, headers are where the first segment begins, and positions
	 * are addresses from now on.
	 */
	for (i = 0; src->loaded && i < ehdr.e_phnum; i++) {
		if (phdrs[i].p_type == PT_LOAD) {
			elf->base = -(phdrs[i].p_vaddr & ~(__u64)UT_PAGE_MASK);
			break;
		}
	}
	for (i = 0; i < ehdr.e_phnum; i++) {
		if (phdrs[i].p_type == PT_LOAD && !add_segment(elf, &phdrs[i]))
			return -ENOEXEC;
	}
	qsort(elf->code, elf->nr_code, sizeof(elf->code[0]), compare_offsets);
	if (!elf->nr_code || code_is_ambiguous(elf))
		return -ENOEXEC;
	for (i = 0; i < ehdr.e_phnum; i++) {
		if (phdrs[i].p_type == PT_NOTE && has_go_note(elf, &phdrs[i]))
			elf->is_go = true;
		if (phdrs[i].p_type == PT_DYNAMIC) {
			elf->dynamic = phdrs[i].p_vaddr;
			elf->dynamic_len = phdrs[i].p_filesz;
		}
	}
	elf->entry = ehdr.e_entry;
	elf->has_entry = has_entry(elf, &ehdr, phdrs);

	err = find_cfi(elf, &ehdr, phdrs);
	if (err)
		ut_elf_close(elf);
	return err;
}

void ut_elf_close(struct ut_elf *elf)
{
	put_bytes(&elf->eh_frame.bytes);
	put_bytes(&elf->debug_frame.bytes);
}
