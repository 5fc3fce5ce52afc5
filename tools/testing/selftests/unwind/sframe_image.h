/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files with SFrame tables: one that is made here, and the library sframe_lib.so.
 */
#ifndef _SELFTESTS_SFRAME_IMAGE_H
#define _SELFTESTS_SFRAME_IMAGE_H

#include <elf.h>

#include "sframe_code.h"

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME		0x6474e554
#endif

/*
 * A file with the shape of a library: headers and table in its first segment,
 * code in the next.
 */
#define FILE_TABLE	0x400UL
#define FILE_TEXT	(2 * PAGE)
#define FILE_SIZE	(4 * PAGE)

enum { PH_HEADERS, PH_TEXT, PH_SFRAME, PH_SPARE, PH_NR };

struct image {
	int fd;
	u8 *file;
	Elf64_Ehdr *ehdr;
	Elf64_Phdr *phdr;
	unsigned long addr;
	struct code code;
};

void image_phdr(Elf64_Phdr *phdr, unsigned int type, unsigned int flags,
		unsigned long off, unsigned long vaddr, size_t size);
void image_ehdr(Elf64_Ehdr *ehdr, unsigned int nr);
void image_headers(u8 *mem, unsigned long data);
bool image_make(struct image *image, unsigned int version, bool pcrel);
size_t image_fill(struct image *image, unsigned int version, bool pcrel, bool odd);
bool image_map(struct image *image);
bool image_map_code(const struct image *image, unsigned long text, unsigned long off);
unsigned long image_table_apart(struct image *image, unsigned int version, bool pcrel);
bool image_map_table(const struct image *image, unsigned long table);
void image_free(struct image *image);

/* ------------------------------------------------------------------------ */
/* The library sframe_lib.so						      */

bool lib_open(struct lib *lib, const char *path);
const char *need_lib(void);

#endif /* _SELFTESTS_SFRAME_IMAGE_H */
