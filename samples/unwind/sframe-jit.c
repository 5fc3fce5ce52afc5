// SPDX-License-Identifier: GPL-2.0
/*
 * A just-in-time compiler tells the kernel how to walk the stack of its code.
 *
 * It makes two functions that keep no frame pointer, one of which even uses the
 * register for something else, and an SFrame table for them. While the table is
 * announced by prctl(), deferred callchains go through these functions up to
 * main(); otherwise they end there.
 *
 * What to copy from here:
 *
 *	emit_moved()	note where the stack pointer is after an instruction
 *	table_write()	make a table of these notes
 *	jit_publish()	make code and table final, add the table
 *	jit_free()	remove the table before the memory is freed
 *
 * See Documentation/userspace-api/sframe-unwinding.rst.
 */

#define _GNU_SOURCE
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <linux/types.h>

#include "own-stack.h"

#define MAX_FUNCS	2
#define MAX_ROWS	8
#define CODE_SIZE	4096

/*
 * One row of a table: how to find the caller, from the instruction at @start
 * on. CFA (canonical frame address) is the stack pointer before the function was
 * called; the return address is right below it.
 */
struct jit_row {
	/* Bytes from the start of the function */
	__u16	start;
	/* CFA = stack pointer + cfa */
	__s16	cfa;
	/* Caller's frame pointer is saved at CFA + fp; 0: still in its register */
	__s16	fp;
};

struct jit_func {
	const char	*name;
	/* Bytes from the start of the code */
	__u32		start;
	__u32		size;
	unsigned int	nr_rows;
	struct jit_row	rows[MAX_ROWS];
};

/* Functions are in the order of their addresses, as they have to be in a table. */
struct jit {
	__u8		*code;
	size_t		code_len;
	__u8		*table;
	size_t		table_len;
	bool		added;
	unsigned int	nr_funcs;
	struct jit_func	funcs[MAX_FUNCS];
};

/*
 * Part 1: code, and notes for the table.
 */

static struct jit_func *this_func(struct jit *jit)
{
	return &jit->funcs[jit->nr_funcs - 1];
}

/* Bytes of an instruction that leaves the stack pointer alone. */
static void emit(struct jit *jit, const char *bytes, size_t len)
{
	assert(jit->code_len + len <= CODE_SIZE);
	memcpy(jit->code + jit->code_len, bytes, len);
	jit->code_len += len;
}

static void add_row(struct jit *jit, int cfa, int fp)
{
	struct jit_func *func = this_func(jit);

	assert(func->nr_rows < MAX_ROWS);
	func->rows[func->nr_rows++] = (struct jit_row) {
		.start = jit->code_len - func->start,
		.cfa = cfa,
		.fp = fp,
	};
}

/*
 * An instruction that moves the SP, and its row: the CFA is now @cfa bytes up, and
 * the caller's frame pointer was saved at CFA + @fp or, with 0, is in its register.
 */
static void emit_moved(struct jit *jit, const char *bytes, size_t len, int cfa,
		       int fp)
{
	emit(jit, bytes, len);
	add_row(jit, cfa, fp);
}

static void func_begin(struct jit *jit, const char *name)
{
	assert(jit->nr_funcs < MAX_FUNCS);
	jit->nr_funcs++;
	this_func(jit)->name = name;
	this_func(jit)->start = jit->code_len;
	/* Nothing is on the stack but the return address. */
	add_row(jit, 8, 0);
}

static void func_end(struct jit *jit)
{
	this_func(jit)->size = jit->code_len - this_func(jit)->start;
}

/*
 * void repeat(void (*func)(void), int n): call func() n times. The counter is
 * where others have their frame pointer.
 */
static void compile_repeat(struct jit *jit)
{
	func_begin(jit, "repeat");
	/* push %rbp; push %rbx; sub $8,%rsp */
	emit_moved(jit, "\x55", 1, 16, -16);
	emit_moved(jit, "\x53", 1, 24, -16);
	emit_moved(jit, "\x48\x83\xec\x08", 4, 32, -16);
	/* mov %rdi,%rbx; mov %esi,%ebp */
	emit(jit, "\x48\x89\xfb\x89\xf5", 5);
	/* 1: call *%rbx; dec %ebp; jnz 1b */
	emit(jit, "\xff\xd3\xff\xcd\x75\xfa", 6);
	/* add $8,%rsp; pop %rbx; pop %rbp */
	emit_moved(jit, "\x48\x83\xc4\x08", 4, 24, -16);
	emit_moved(jit, "\x5b", 1, 16, -16);
	emit_moved(jit, "\x5d", 1, 8, 0);
	/* ret */
	emit(jit, "\xc3", 1);
	func_end(jit);
}

/* void entry(void (*func)(void), int n): pass it on to repeat(). */
static void compile_entry(struct jit *jit)
{
	__s32 to_repeat;

	func_begin(jit, "entry");
	/* sub $8,%rsp */
	emit_moved(jit, "\x48\x83\xec\x08", 4, 16, 0);
	/* call repeat: relative to the instruction after it */
	emit(jit, "\xe8", 1);
	to_repeat = (__s32)jit->funcs[0].start - (__s32)(jit->code_len + 4);
	emit(jit, (const char *)&to_repeat, sizeof(to_repeat));
	/* add $8,%rsp */
	emit_moved(jit, "\x48\x83\xc4\x08", 4, 8, 0);
	/* ret */
	emit(jit, "\xc3", 1);
	func_end(jit);
}

/*
 * Part 2: the table, SFrame version 3.
 *
 *	header
 *	index		of functions, sorted by address
 *	rows		of the first function, after some bytes about it
 *			of the second one, ...
 *
 * Numbers are little endian and not aligned; the table as a whole is to 8 bytes.
 */
#define SFRAME_MAGIC		0xdee2
#define SFRAME_VERSION		3
/* The index is sorted; starts of functions are relative to where they are. */
#define SFRAME_FLAGS		(0x1 | 0x4)
#define SFRAME_ABI_AMD64	3
#define SFRAME_HEADER_LEN	28
#define SFRAME_INDEX_LEN	16
#define SFRAME_ATTR_LEN		5

/* Of a function: its rows' starts are of 16 bits. 0: 8 bits, 2: 32 bits */
#define SFRAME_START_16		1
/* Of a row: CFA is relative to the stack pointer, n words of 16 bits follow */
#define SFRAME_ROW_16(n)	(0x1 | (n) << 1 | 1 << 5)

static __u8 *put(__u8 *to, unsigned int len, __u64 val)
{
	memcpy(to, &val, len);
	return to + len;
}

/* A row that does not say where the frame pointer is: it is in its register. */
static unsigned int row_words(const struct jit_row *row)
{
	return row->fp ? 2 : 1;
}

static size_t table_len(const struct jit *jit)
{
	size_t len = SFRAME_HEADER_LEN;
	unsigned int i, j;

	for (i = 0; i < jit->nr_funcs; i++) {
		const struct jit_func *func = &jit->funcs[i];

		len += SFRAME_INDEX_LEN + SFRAME_ATTR_LEN;
		for (j = 0; j < func->nr_rows; j++)
			len += 2 + 1 + 2 * row_words(&func->rows[j]);
	}
	return len;
}

static __u8 *put_header(__u8 *to, const struct jit *jit, unsigned int nr_rows,
			size_t rows_len)
{
	to = put(to, 2, SFRAME_MAGIC);
	to = put(to, 1, SFRAME_VERSION);
	to = put(to, 1, SFRAME_FLAGS);
	to = put(to, 1, SFRAME_ABI_AMD64);
	/* Rows say where the frame pointer is; the return address is at CFA - 8 */
	to = put(to, 1, 0);
	to = put(to, 1, -8);
	/* Bytes between header and index */
	to = put(to, 1, 0);
	to = put(to, 4, jit->nr_funcs);
	to = put(to, 4, nr_rows);
	to = put(to, 4, rows_len);
	/* Where index and rows are, from the end of the header */
	to = put(to, 4, 0);
	return put(to, 4, jit->nr_funcs * SFRAME_INDEX_LEN);
}

static __u8 *put_func(__u8 *to, const struct jit_func *func)
{
	unsigned int i;

	to = put(to, 2, func->nr_rows);
	to = put(to, 1, SFRAME_START_16);
	/* Ordinary rows; no repeated pattern of code */
	to = put(to, 1, 0);
	to = put(to, 1, 0);

	for (i = 0; i < func->nr_rows; i++) {
		const struct jit_row *row = &func->rows[i];

		to = put(to, 2, row->start);
		to = put(to, 1, SFRAME_ROW_16(row_words(row)));
		to = put(to, 2, row->cfa);
		if (row->fp)
			to = put(to, 2, row->fp);
	}
	return to;
}

/* Write the table where it is going to stay: it has distances to the code. */
static void table_write(struct jit *jit)
{
	__u8 *index = jit->table + SFRAME_HEADER_LEN;
	__u8 *rows = index + jit->nr_funcs * SFRAME_INDEX_LEN, *to = rows;
	unsigned int i, nr_rows = 0;

	for (i = 0; i < jit->nr_funcs; i++) {
		const struct jit_func *func = &jit->funcs[i];

		index = put(index, 8, (unsigned long)jit->code + func->start -
				      (unsigned long)index);
		index = put(index, 4, func->size);
		index = put(index, 4, to - rows);
		to = put_func(to, func);
		nr_rows += func->nr_rows;
	}
	put_header(jit->table, jit, nr_rows, to - rows);
	assert(to == jit->table + jit->table_len);
}

/*
 * Part 3: the kernel.
 */

static const char *add_error(int error)
{
	switch (error) {
	case EINVAL:
		return "no kernel for SFrame tables, or an unaligned table, or an empty range";
	case EFAULT:
		return "code or table are not mapped";
	case EFBIG:
		return "the table is larger than 4 GiB";
	case EACCES:
		return "the code is not executable, or the table not readable";
	case EOPNOTSUPP:
		return "the table's version or machine is not supported";
	case ENOEXEC:
		return "the table's header is wrong";
	case ENOSPC:
		return "too many tables: use one for many functions";
	default:
		return strerror(error);
	}
}

static int sframe_add(struct jit *jit)
{
	unsigned long table = (unsigned long)jit->table;
	unsigned long code = (unsigned long)jit->code;

	if (!prctl(PR_ADD_SFRAME, table, table + jit->table_len, code,
		   code + jit->code_len)) {
		jit->added = true;
		return 0;
	}
	fprintf(stderr, "PR_ADD_SFRAME: %s\n", add_error(errno));
	return -1;
}

static int sframe_remove(struct jit *jit)
{
	if (!jit->added)
		return 0;
	jit->added = false;
	if (!prctl(PR_REMOVE_SFRAME, (unsigned long)jit->table, 0UL, 0UL, 0UL))
		return 0;
	/* ENOMEM: the table is still there, and used */
	perror("PR_REMOVE_SFRAME");
	return -1;
}

static void *map(size_t size)
{
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return mem;
}

static void jit_compile(struct jit *jit)
{
	jit->code = map(CODE_SIZE);
	compile_repeat(jit);
	compile_entry(jit);

	jit->table_len = table_len(jit);
	jit->table = map(jit->table_len);
	table_write(jit);
}

/*
 * Nothing is writable and executable at a time. The table is added before
 * anything can run the code. A compiler goes on if that fails: only profiles
 * suffer.
 */
static int jit_publish(struct jit *jit)
{
	if (mprotect(jit->code, CODE_SIZE, PROT_READ | PROT_EXEC) ||
	    mprotect(jit->table, jit->table_len, PROT_READ)) {
		perror("mprotect");
		exit(1);
	}
	return sframe_add(jit);
}

/*
 * No thread runs the code any more, and none must find this table for the next
 * contents of the memory.
 */
static int jit_free(struct jit *jit)
{
	int ret = sframe_remove(jit);

	munmap(jit->code, CODE_SIZE);
	munmap(jit->table, jit->table_len);
	return ret;
}

/*
 * The benefit: the stack as a profiler sees it in a function that was called by
 * jitted code.
 */

/* Print the function that @ip is in. Returns true if that is main(). */
static bool print_frame(const struct jit *jit, unsigned long ip)
{
	unsigned long off = ip - (unsigned long)jit->code;
	unsigned int i;
	Dl_info info;

	for (i = 0; i < jit->nr_funcs; i++) {
		const struct jit_func *func = &jit->funcs[i];

		if (off >= func->start && off - func->start < func->size) {
			printf(" %s+%#lx", func->name, off - func->start);
			return false;
		}
	}

	/* A return address can be the one after the last byte of its function. */
	if (!dladdr((void *)(ip - 1), &info) || !info.dli_sname) {
		printf(" %#lx", ip);
		return false;
	}
	printf(" %s", info.dli_sname);
	return !strcmp(info.dli_sname, "main");
}

static int print_stack(const struct jit *jit, const char *when)
{
	unsigned int i;

	if (own_stack.error) {
		fprintf(stderr, "no stack of our own: %s\n",
			own_stack.error == -EINVAL ?
			"the kernel does not defer callchains" :
			strerror(-own_stack.error));
		return -1;
	}

	printf("%s:", when);
	for (i = 0; i < own_stack.nr; i++) {
		if (print_frame(jit, own_stack.ips[i]))
			break;
	}
	printf("\n");
	return 0;
}

int main(void)
{
	void (*entry)(void (*func)(void), int n);
	struct jit jit = { };
	int ret = 0;

	jit_compile(&jit);
	ret |= jit_publish(&jit);
	printf("code: %p table: %p\n", jit.code, jit.table);
	entry = (void *)(jit.code + jit.funcs[1].start);

	entry(own_stack_take, 1);
	ret |= print_stack(&jit, "with the table");

	ret |= sframe_remove(&jit);
	entry(own_stack_take, 1);
	ret |= print_stack(&jit, "without it");

	ret |= sframe_add(&jit);
	entry(own_stack_take, 1);
	ret |= print_stack(&jit, "with it again");

	ret |= jit_free(&jit);
	return ret ? 1 : 0;
}
