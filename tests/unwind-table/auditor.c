// SPDX-License-Identifier: GPL-2.0
/*
 * Looks at each call between objects and at the returns, see rtld-audit(7). For these, ld.so
 * calls the functions, so not such as return twice.
 */

#define _GNU_SOURCE
#include <link.h>
#include <string.h>

unsigned int la_version(unsigned int version)
{
	return version;
}

unsigned int la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
	(void)map;
	(void)lmid;
	(void)cookie;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *sym, unsigned int n, uintptr_t *from, uintptr_t *to,
				  La_x86_64_regs *regs, unsigned int *flags, const char *name,
				  long *size)
{
	(void)n;
	(void)from;
	(void)to;
	(void)regs;
	(void)flags;
	if (!strstr(name, "setjmp") && strcmp(name, "vfork"))
		*size = 64;
	return sym->st_value;
}

unsigned int la_x86_64_gnu_pltexit(Elf64_Sym *sym, unsigned int n, uintptr_t *from, uintptr_t *to,
				   const La_x86_64_regs *regs, La_x86_64_retval *result,
				   const char *name)
{
	(void)sym;
	(void)n;
	(void)from;
	(void)to;
	(void)regs;
	(void)result;
	(void)name;
	return 0;
}
