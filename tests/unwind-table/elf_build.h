/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __ELF_BUILD_H
#define __ELF_BUILD_H

/*
 * Small ELF files in memory: code at 0x1000, more than one segment of it if
 * wanted, and .eh_frame after it, of any bytes.
 */

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BUILD_CODE	0x1000

struct build {
	uint64_t	code_len;
	unsigned int	nr_segments;	/* of code, with a page between each two */
	const uint8_t	*cfi;
	size_t		cfi_len;
};

/* The file; to be freed */
static inline uint8_t *build_elf(const struct build *b, size_t *len)
{
	uint64_t cfi = (BUILD_CODE + b->code_len * 2 * b->nr_segments + 0xfff) & ~0xfffULL;
	Elf64_Phdr phdrs[100] = { { 0 } };
	Elf64_Ehdr ehdr = {
		.e_ident	= ELFMAG "\2\1\1",
		.e_type		= ET_DYN,
		.e_machine	= EM_X86_64,
		.e_version	= 1,
		.e_phoff	= sizeof(ehdr),
		.e_ehsize	= sizeof(ehdr),
		.e_phentsize	= sizeof(Elf64_Phdr),
		.e_phnum	= b->nr_segments + 3,
	};
	uint8_t header[8] = { 1, 0x1b, 0xff, 0xff, 4, 0, 0, 0 };
	uint8_t *image;
	unsigned int i;

	phdrs[0] = (Elf64_Phdr) { .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x800 };
	for (i = 0; i < b->nr_segments; i++) {
		uint64_t at = BUILD_CODE + 2 * b->code_len * i;

		phdrs[i + 1] = (Elf64_Phdr) { .p_type = PT_LOAD, .p_flags = PF_R | PF_X,
			.p_offset = at, .p_vaddr = at,
			.p_filesz = b->code_len, .p_memsz = b->code_len };
	}
	phdrs[i + 1] = (Elf64_Phdr) { .p_type = PT_LOAD, .p_flags = PF_R, .p_offset = cfi,
		.p_vaddr = cfi, .p_filesz = sizeof(header) + b->cfi_len };
	phdrs[i + 2] = (Elf64_Phdr) { .p_type = PT_GNU_EH_FRAME, .p_flags = PF_R,
		.p_offset = cfi, .p_vaddr = cfi, .p_filesz = sizeof(header) };

	*len = cfi + sizeof(header) + b->cfi_len;
	image = calloc(1, *len);
	if (!image)
		abort();
	memcpy(image, &ehdr, sizeof(ehdr));
	memcpy(image + sizeof(ehdr), phdrs, (b->nr_segments + 3) * sizeof(phdrs[0]));
	memcpy(image + cfi, header, sizeof(header));
	if (b->cfi_len)
		memcpy(image + cfi + sizeof(header), b->cfi, b->cfi_len);
	return image;
}

/* .eh_frame, piece by piece; addresses are absolute */
struct cfi {
	uint8_t	*data;
	size_t	len;
	size_t	max;
	size_t	record;
};

static inline void cfi_put(struct cfi *cfi, const void *data, size_t len)
{
	if (cfi->len + len > cfi->max) {
		cfi->max = 2 * (cfi->len + len);
		cfi->data = realloc(cfi->data, cfi->max);
		if (!cfi->data)
			abort();
	}
	if (len)
		memcpy(cfi->data + cfi->len, data, len);
	cfi->len += len;
}

static inline void cfi_u8(struct cfi *cfi, uint8_t n)
{
	cfi_put(cfi, &n, sizeof(n));
}

static inline void cfi_u32(struct cfi *cfi, uint32_t n)
{
	cfi_put(cfi, &n, sizeof(n));
}

static inline void cfi_u64(struct cfi *cfi, uint64_t n)
{
	cfi_put(cfi, &n, sizeof(n));
}

static inline void cfi_end(struct cfi *cfi)
{
	uint32_t len;

	while (cfi->len % 8)
		cfi_u8(cfi, 0);
	len = cfi->len - cfi->record - 4;
	memcpy(cfi->data + cfi->record, &len, sizeof(len));
}

/* The only CIE, at 0: CFA = rsp + 8, RA at CFA - 8 */
static inline void cfi_cie(struct cfi *cfi)
{
	static const uint8_t cie[] = { 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1 };

	cfi->record = cfi->len;
	cfi_u32(cfi, 0);
	cfi_u32(cfi, 0);
	cfi_put(cfi, cie, sizeof(cie));
	cfi_end(cfi);
}

static inline void cfi_fde(struct cfi *cfi, uint64_t start, uint64_t len)
{
	cfi->record = cfi->len;
	cfi_u32(cfi, 0);
	cfi_u32(cfi, cfi->len);
	cfi_u64(cfi, start);
	cfi_u64(cfi, len);
}

#endif /* __ELF_BUILD_H */
