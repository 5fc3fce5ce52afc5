/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A linked ELF file with .sframe as the decoder would see it in memory.
 */
#ifndef _SFRAME_ELF_FILE_H
#define _SFRAME_ELF_FILE_H

#include <err.h>
#include <fcntl.h>
#include <gelf.h>

#include "../../kernel/unwind/sframe.h"

#define ELF_FILE_SEGMENTS	16

struct elf_file {
	Elf			*elf;
	struct sframe_section	sec;
	/* Executable ones */
	GElf_Phdr		segments[ELF_FILE_SEGMENTS];
	int			nr_segments;
};

static inline GElf_Shdr *elf_file_section(struct elf_file *e, const char *name,
					  Elf_Scn **scn)
{
	static GElf_Shdr shdr;
	size_t strings;

	*scn = NULL;
	if (elf_getshdrstrndx(e->elf, &strings))
		return NULL;
	while ((*scn = elf_nextscn(e->elf, *scn))) {
		if (gelf_getshdr(*scn, &shdr) &&
		    !strcmp(elf_strptr(e->elf, strings, shdr.sh_name), name))
			return &shdr;
	}
	return NULL;
}

/* False if it has no table; exits if it should have one. */
static inline bool elf_file_open(struct elf_file *e, const char *name)
{
	enum sframe_status status;
	GElf_Shdr *shdr;
	GElf_Ehdr ehdr;
	Elf_Data *data;
	GElf_Phdr phdr;
	Elf_Scn *scn;
	int fd, i;

	elf_version(EV_CURRENT);
	fd = open(name, O_RDONLY);
	e->elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!e->elf || !gelf_getehdr(e->elf, &ehdr))
		errx(2, "%s: no ELF file", name);
	shdr = elf_file_section(e, ".sframe", &scn);
	if (!shdr) {
		warnx("%s: no .sframe", name);
		return false;
	}

	data = elf_rawdata(scn, NULL);
	user_memory = (struct user_memory) { data->d_buf, shdr->sh_addr, data->d_size };
	e->sec.start = shdr->sh_addr;
	e->sec.end = shdr->sh_addr + data->d_size;
	status = user_open(&e->sec);
	if (status != SFRAME_OK)
		errx(1, "%s: %s", name, sframe_status_text[status]);

	for (i = 0; i < ehdr.e_phnum; i++) {
		if (gelf_getphdr(e->elf, i, &phdr) && phdr.p_type == PT_LOAD &&
		    phdr.p_flags & PF_X && e->nr_segments < ELF_FILE_SEGMENTS)
			e->segments[e->nr_segments++] = phdr;
	}
	return true;
}

static inline enum sframe_status elf_file_find(struct elf_file *e, u64 pc,
					       struct unwind_rule *rule)
{
	struct sframe_span span;
	int i;

	for (i = 0; i < e->nr_segments; i++) {
		e->sec.text_start = e->segments[i].p_vaddr;
		e->sec.text_end = e->sec.text_start + e->segments[i].p_memsz;
		if (pc >= e->sec.text_start && pc < e->sec.text_end)
			break;
	}
	memset(rule, 0, sizeof(*rule));
	return user_find(&e->sec, pc, rule, &span);
}

#endif /* _SFRAME_ELF_FILE_H */
