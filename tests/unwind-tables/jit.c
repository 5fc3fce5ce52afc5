// SPDX-License-Identifier: GPL-2.0
/*
 * As a compiler at run time does: a function in anonymous memory, with a frame
 * pointer, which libc calls and which calls libc. Prints its address, and sorts
 * strings by it for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SIZE	(64 * 1024)
#define NR	8

static const unsigned char code[] = {
	0x55,				/* push %rbp */
	0x48, 0x89, 0xe5,		/* mov %rsp,%rbp */
	0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0,	/* movabs $strcmp,%rax */
	0xff, 0xd0,			/* call *%rax */
	0x5d,				/* pop %rbp */
	0xc3,				/* ret */
};

static char strings[NR][SIZE];

int main(void)
{
	int (*compare)(const char *a, const char *b) = strcmp;
	unsigned char *mem;
	int i;

	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return 1;
	memcpy(mem, code, sizeof(code));
	memcpy(mem + 6, &compare, sizeof(compare));
	if (mprotect(mem, SIZE, PROT_READ | PROT_EXEC))
		return 1;
	printf("%p\n", (void *)mem);
	fflush(stdout);

	for (i = 0; i < NR; i++)
		memset(strings[i], 'a', SIZE - 1);
	for (;;)
		qsort(strings, NR, SIZE, (int (*)(const void *, const void *))mem);
}
