// SPDX-License-Identifier: GPL-2.0
/*
 * Files with SFrame tables.
 */
#include <dlfcn.h>

#include "sframe_image.h"

void image_phdr(Elf64_Phdr *phdr, unsigned int type, unsigned int flags,
		unsigned long off, unsigned long vaddr, size_t size)
{
	phdr->p_type = type;
	phdr->p_flags = flags;
	phdr->p_offset = off;
	phdr->p_vaddr = vaddr;
	phdr->p_filesz = size;
	phdr->p_memsz = size;
	phdr->p_align = PAGE;
}

/* The header of a library with @nr program headers, which come right after it */
void image_ehdr(Elf64_Ehdr *ehdr, unsigned int nr)
{
	memcpy(ehdr->e_ident, ELFMAG, SELFMAG);
	ehdr->e_ident[EI_CLASS] = ELFCLASS64;
	ehdr->e_ident[EI_DATA] = ELFDATA2LSB;
	ehdr->e_ident[EI_VERSION] = EV_CURRENT;
	ehdr->e_type = ET_DYN;
	ehdr->e_machine = EM_X86_64;
	ehdr->e_version = EV_CURRENT;
	ehdr->e_phoff = sizeof(Elf64_Ehdr);
	ehdr->e_ehsize = sizeof(Elf64_Ehdr);
	ehdr->e_phentsize = sizeof(Elf64_Phdr);
	ehdr->e_phnum = nr;
}

/*
 * Make a file that ld.so takes for a library: headers in the first page of its code, and
 * after the code, at @data, a page with nothing but an empty symbol table.
 */
void image_headers(u8 *mem, unsigned long data)
{
	Elf64_Phdr *phdr = (Elf64_Phdr *)((Elf64_Ehdr *)mem + 1);
	Elf64_Dyn dynamic[] = {
		{ DT_STRTAB, { data + PAGE / 2 } }, { DT_STRSZ, { 1 } },
		{ DT_SYMTAB, { data + PAGE / 2 } }, { DT_SYMENT, { sizeof(Elf64_Sym) } },
		{ DT_NULL, { 0 } },
	};

	memset(mem, 0, PAGE);
	image_ehdr((Elf64_Ehdr *)mem, 4);
	image_phdr(&phdr[0], PT_LOAD, PF_R | PF_X, 0, 0, data);
	image_phdr(&phdr[1], PT_LOAD, PF_R | PF_W, data, data, PAGE);
	image_phdr(&phdr[2], PT_DYNAMIC, PF_R | PF_W, data, data, sizeof(dynamic));
	image_phdr(&phdr[3], PT_GNU_STACK, PF_R | PF_W, 0, 0, 0);
	memcpy(mem + data, dynamic, sizeof(dynamic));
}

/* Its code, and a table for it. Returns the length of the table. */
size_t image_fill(struct image *image, unsigned int version, bool pcrel, bool odd)
{
	size_t len;

	code_make(&image->code, image->file + FILE_TEXT, image->addr + FILE_TEXT, odd);
	len = code_table(&image->code, odd, &build, version, pcrel, image->addr + FILE_TABLE);
	memcpy(image->file + FILE_TABLE, build.mem, len);
	return len;
}

/* Make the file, for @addr. Its headers can be changed until image_map(). */
bool image_make(struct image *image, unsigned int version, bool pcrel)
{
	size_t len;

	image->fd = memfd_create("image", 0);
	if (image->fd < 0 || ftruncate(image->fd, FILE_SIZE))
		return false;
	image->file = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			   image->fd, 0);
	/* Room with space below and above */
	image->addr = (unsigned long)map_anon(0, 4 * FILE_SIZE, PROT_NONE, 0);
	if (image->file == MAP_FAILED || image->addr == -1UL)
		return false;
	image->addr += FILE_SIZE;

	len = image_fill(image, version, pcrel, true);

	image->ehdr = (Elf64_Ehdr *)image->file;
	image->phdr = (Elf64_Phdr *)(image->ehdr + 1);
	image_ehdr(image->ehdr, PH_NR);
	image_phdr(&image->phdr[PH_HEADERS], PT_LOAD, PF_R, 0, 0, FILE_TEXT);
	image_phdr(&image->phdr[PH_TEXT], PT_LOAD, PF_R | PF_X, FILE_TEXT,
		   FILE_TEXT, PAGE);
	image_phdr(&image->phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, FILE_TABLE,
		   FILE_TABLE, len);
	/* Not used, but has the file's first byte */
	image_phdr(&image->phdr[PH_SPARE], PT_NULL, PF_R, 0, 16 * PAGE, PAGE);
	return true;
}

/* Map a page of code at @text. */
bool image_map_code(const struct image *image, unsigned long text, unsigned long off)
{
	return map_fd(text, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, image->fd, off);
}

/* Map it as a loader does. */
bool image_map(struct image *image)
{
	return map_fd(image->addr, FILE_TEXT, PROT_READ, MAP_PRIVATE, image->fd, 0) &&
	       image_map_code(image, image->addr + FILE_TEXT, FILE_TEXT);
}

/* Have the table in a segment of its own, at the end of the file. Returns its address. */
unsigned long image_table_apart(struct image *image, unsigned int version, bool pcrel)
{
	unsigned long off = FILE_SIZE - PAGE, table = image->addr + 6 * PAGE;
	size_t len;

	/* The frame pointer of this code leads to call_code()'s caller. */
	code_make(&image->code, image->file + FILE_TEXT, image->addr + FILE_TEXT, false);
	len = code_table(&image->code, false, &build, version, pcrel, table);
	memcpy(image->file + off, build.mem, len);
	image_phdr(&image->phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, off, 6 * PAGE, len);
	image_phdr(&image->phdr[PH_SPARE], PT_LOAD, PF_R, off, 6 * PAGE, PAGE);
	return table;
}

/* ... and map it, which image_map() does not. */
bool image_map_table(const struct image *image, unsigned long table)
{
	return map_fd(table, PAGE, PROT_READ, MAP_PRIVATE, image->fd, FILE_SIZE - PAGE);
}

void image_free(struct image *image)
{
	munmap((void *)(image->addr - FILE_SIZE), 4 * FILE_SIZE);
	munmap(image->file, FILE_SIZE);
	close(image->fd);
}

bool lib_open(struct lib *lib, const char *path)
{
	static const char * const names[LIB_IPS] = {
		"sframe_lib_ip_leaf", "sframe_lib_ip_inner",
		"sframe_lib_ip_middle", "sframe_lib_ip_call",
	};
	unsigned int i;

	lib->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib->handle) {
		fprintf(stderr, "# %s\n", dlerror());
		return false;
	}
	lib->call = dlsym(lib->handle, "sframe_lib_call");
	for (i = 0; i < LIB_IPS; i++)
		lib->ips[i] = (uint64_t)dlsym(lib->handle, names[i]);
	lib->ips[LIB_IPS] = (uint64_t)call_code_ip;
	lib->start = (uint64_t)dlsym(lib->handle, "sframe_lib_ip_start");
	return lib->call && lib->start;
}

const char *need_lib(void)
{
	if (need_sframe())
		return need_sframe();
	if (access(test_file("sframe_lib.so"), R_OK))
		return "sframe_lib.so is not built (assembler)";
	return NULL;
}
