/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the tests of SFrame tables: code that frame pointers cannot walk,
 * put together byte by byte, tables for it, and a look at its stack.
 */
#ifndef _SELFTESTS_SFRAME_CODE_H
#define _SELFTESTS_SFRAME_CODE_H

#include <sys/prctl.h>

#include "unwind_chain.h"
#include "unwind_perf.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#include "../../../../kernel/unwind/tests/sframe_build.h"

#ifndef PR_ADD_SFRAME
#define PR_ADD_SFRAME		0x53460001
#define PR_REMOVE_SFRAME	0x53460002
#endif

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP	4
#endif

#define PAGE		4096UL
/* Stubs between the leaf and the C code */
#define NR_STUBS	4
/* Addresses of a trace that tests look at */
#define MAX_IPS		64

/*
 * call_code(nr, function) calls function(nr) with a frame pointer that leads
 * past whatever is called, and returns to call_code_ip.
 */
long call_code(long nr, const void *function);
extern const char call_code_ip[];

/*
 * A piece of code:
 *
 *	leaf		makes the system call whose number it was given
 *	stub 0		calls leaf
 *	stub 1		calls stub 0
 *	...
 *
 * Even stubs move the stack pointer and leave the frame pointer alone; so a walk
 * by it skips them. Odd ones save it and put something else in. Each is in its
 * own 32 bytes. @ips are the addresses that a trace begins with.
 */
struct code {
	unsigned long addr;
	unsigned long leaf;
	unsigned long stub[NR_STUBS];
	unsigned long top;
	unsigned long end;
	uint64_t ips[NR_STUBS + 2];
	unsigned int nr_ips;
};

#define STUB_SIZE	32

/* Distance by which even stubs move the stack pointer */
extern u8 code_frame;

/* The table that was made last */
extern struct sframe_build build;

u8 *code_bytes(u8 *to, const void *bytes, size_t len);
u8 *code_call(u8 *to, unsigned long at, unsigned long target);
void code_make(struct code *code, u8 *mem, unsigned long addr, bool odd);
void code_funcs(const struct code *code, bool odd, struct sframe_build *b);
size_t code_table(const struct code *code, bool odd, struct sframe_build *b,
		  unsigned int version, bool pcrel, unsigned long addr);
void func_sp(unsigned long start, u32 size, s32 cfa);
void table_write(unsigned long addr);

/*
 * The event that traces come from. It is that of one task, and stays open: a
 * perf event takes long to close.
 */
extern __thread struct up_ring stack_ring;
extern __thread pid_t stack_ring_tid;

bool syscall_ring_open(struct up_ring *ring, pid_t pid, long nr);
bool stack_ring_open(void);
int stack_take(uint64_t *ips);
int stack_of(const void *function, uint64_t *ips);
int stack_of_words(u64 *words, uint64_t *ips);
int frames_of_words(u64 *words);
bool stack_of_child(struct up_ring *ring, long nr, void (*child)(const void *arg),
		    const void *arg, int *status);

bool is_exact(const struct code *code);
bool is_without_table(const struct code *code);
bool is_cut(const struct code *code);

/* Twice, since then more is known */
bool stays_exact(const struct code *code);
bool stays_without_table(const struct code *code);

void spoil_index(u8 *table);

int add_table(unsigned long start, unsigned long end, unsigned long text_start,
	      unsigned long text_end);
int remove_table(unsigned long start);
const char *need_sframe(void);

/* ------------------------------------------------------------------------ */
/* Code with a table in anonymous memory				      */

/* Layout of the memory of a test: code, table, and the rest */
#define AREA_SIZE	(16 * PAGE)
#define CODE_OFF	(4 * PAGE)
#define TABLE_OFF	(8 * PAGE)
#define TABLE_SIZE	(4 * PAGE)

struct area {
	u8 *mem;
	unsigned long addr;
	unsigned long text;
	unsigned long text_end;
	unsigned long table;
	unsigned long table_end;
	struct code code;
};

#define PROT_CODE	(PROT_READ | PROT_WRITE | PROT_EXEC)

u8 *map_anon(unsigned long addr, size_t size, int prot, int flags);
bool map_over(unsigned long addr, size_t size, int prot);
bool map_fd(unsigned long addr, size_t size, int prot, int flags, int fd, off_t offset);
bool move_page(unsigned long from, unsigned long to, int flags);
bool code_anew(struct code *code, unsigned long addr);
bool code_elsewhere(struct code *code);

bool area_place(struct area *area, u8 *text, u8 *table, unsigned int version,
		bool pcrel, bool odd);
bool area_fill(struct area *area, u8 *mem, unsigned int version, bool pcrel,
	       bool odd);
bool area_make(struct area *area, unsigned int version, bool pcrel, bool odd);
int area_add(struct area *area);

int in_child(int (*child)(struct area *area), struct area *area);
int child_is_exact(struct area *area);
int child_is_without_table(struct area *area);
int child_remove_error(struct area *area);

/* ------------------------------------------------------------------------ */
/* The library sframe_lib.so						      */

/* Addresses that a trace from within has */
#define LIB_IPS		4

/* Where the library is a part of the program */
extern const char sframe_lib_ip_leaf[], sframe_lib_ip_inner[];
extern const char sframe_lib_ip_middle[], sframe_lib_ip_call[];
long sframe_lib_call(long nr);

struct lib {
	void *handle;
	long (*call)(long nr);
	uint64_t ips[LIB_IPS + 1];
	/* After the call in the entry point that it has as a program */
	uint64_t start;
};

bool lib_is_exact(const struct lib *lib);

/* ------------------------------------------------------------------------ */
/* The kernel's own tracepoints					      */

int trace_count(const char *what);
int trace_count_of_task(const char *what);
int trace_event_of(const char *system, const char *name, bool on);
int trace_event(const char *name, bool on);
void trace_clear(void);

#endif /* _SELFTESTS_SFRAME_CODE_H */
