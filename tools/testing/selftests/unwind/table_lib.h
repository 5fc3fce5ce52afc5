/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the tests of tables for files: tables, made of C structures; files
 * with code whose frames only a table can tell; and walks of stacks that are made
 * up, so that each frame is known.
 */
#ifndef _SELFTESTS_TABLE_LIB_H
#define _SELFTESTS_TABLE_LIB_H

#include <linux/unwind_table.h>

#include "sframe_code.h"

#define TABLE_DEVICE	"/dev/unwind_tables"

/* ------------------------------------------------------------------------ */
/* Tables								      */

#define TABLE_ROOM	(4UL << 20)

/**
 * struct table - A table on its way to the kernel
 * @header:	Its header; numbers are those of what was added so far
 * @runs:	Runs
 * @blocks:	Last rows of pages, each of which is a block
 * @rows:	Rows
 * @rules:	Rules
 * @last:	The rule of the last row
 * @at:		Offset after which the next row has to be
 */
struct table {
	struct unwind_table_header	header;
	struct unwind_table_run		runs[UNWIND_TABLE_MAX_RUNS];
	u32				blocks[4096];
	struct unwind_table_row		rows[65536];
	struct unwind_table_rule	rules[4096];
	unsigned int			last;
	u64				at;
};

#define LOC(_where, _reg, _off)	\
	((struct unwind_table_loc){ .where = UNWIND_TABLE_##_where,	\
				    .reg = (_reg), .off = (_off) })

/* DWARF numbers */
enum { RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP, R8, R9, R10, R11, R12, R13, R14, R15 };

struct unwind_table_rule rule_of(unsigned int kind);

#define NOT_COVERED	rule_of(UNWIND_TABLE_NOT_COVERED)
#define UNKNOWN		rule_of(UNWIND_TABLE_UNKNOWN)
#define OUTERMOST	rule_of(UNWIND_TABLE_OUTERMOST)

struct unwind_table_rule rule_cfa(unsigned int reg, s32 off);
struct unwind_table_rule rule_saved(unsigned int reg, s32 off, s32 fp_off);

void table_start(struct table *t);
void table_row(struct table *t, u64 offset, struct unwind_table_rule rule);
void table_end(struct table *t, u64 offset);
void table_empty(struct table *t);
void table_of_one(struct table *t, u64 start, struct unwind_table_rule rule, u64 end);
size_t table_join(const struct table *t, void *to);

/* The device. All return -errno if the kernel refuses. */
const char *need_tables(void);
int dev_open(void);
int dev_make(int fd, const void *data, size_t len);
int dev_make_table(int fd, const struct table *t);
int dev_attach(int fd, struct unwind_table_attach *arg);
int dev_drop(int fd, unsigned long nr);
int dev_query(int fd, struct unwind_table_query *arg);
int dev_query_at(int fd, pid_t pid, const void *addr);
long long dev_info(int fd, const char *name);
int pidfd_of(pid_t pid);

/* ------------------------------------------------------------------------ */
/* Children								      */

/* The exit status of a child that runs @run */
#define IN_CHILD(run) ({						\
	int __status;							\
	pid_t __pid = fork();						\
									\
	if (!__pid) {							\
		alarm(60);						\
		_exit(run);						\
	}								\
	waitpid(__pid, &__status, 0) == __pid && WIFEXITED(__status) ?	\
		WEXITSTATUS(__status) : -1;				\
})

pid_t child_that_waits(bool (*prepare)(void *arg), void *arg);
bool child_kill(pid_t pid);

/* ------------------------------------------------------------------------ */
/* Files with code							      */

/* Pages of a file */
#define FILE_PAGES	16UL

/*
 * Where code of a file makes a system call, see table_walk(). The address after
 * it is where a walk begins: AT_*, the first byte of a page, and one in the
 * middle.
 */
#define CALL_PAGE	(2 * PAGE - 2)
#define AT_PAGE		(2 * PAGE)
#define CALL_MIDDLE	(3 * PAGE + 0x100)
#define AT_MIDDLE	(CALL_MIDDLE + 2)
#define CALL_LAST	(5 * PAGE - 3)
#define AT_LAST		(5 * PAGE - 1)

struct code_file {
	char path[128];
	int fd;
	struct stat st;
	u8 *mem;
};

bool file_write(const char *path, u8 mark);
bool file_make(struct code_file *f, const char *path, u8 mark);
bool file_map(struct code_file *f);
void file_unmap(struct code_file *f);
bool file_map_at(const char *path, unsigned long addr, off_t offset, size_t len);
bool file_map_over(const struct code_file *f, const void *mem);
void file_end(struct code_file *f);
void code_fill(u8 *mem, u8 mark);

const char *test_dir(void);
const char *test_path(const char *name);

/* An overlay over a directory with a file, in a file system of their own */
struct overlay {
	char dir[80];
	char merged[96];
	struct code_file lower;
};

bool overlay_make(struct overlay *o, const char *more);
bool overlay_map(const struct overlay *o, struct code_file *f);
void overlay_end(struct overlay *o);

void wait_for_clock(const struct stat *st);
struct unwind_table_attach attach_arg_of(int nr, const void *addr,
					 const struct code_file *f);
int attach_as(int fd, int nr, pid_t pid, const void *addr, const struct code_file *f);
int file_attach(int fd, int nr, const struct code_file *f);
int file_use(int fd, const struct table *t, const struct code_file *f);
bool tables_start(const char *name, struct code_file *f, struct table **t, int *fd);
void tables_end(struct code_file *f, struct table *t, int fd);

/* ------------------------------------------------------------------------ */
/* Walks								      */

#define STACK_WORDS	1024

/**
 * struct stack - A stack that is made up, and the registers of its topmost frame
 * @regs:	By DWARF number; the system call's result takes the place of RAX,
 *		and the processor changes RCX and R11
 * @ip:		Where the system call is
 * @words:	Memory of the stack. SP is that of the first word until somebody
 *		sets it
 */
struct stack {
	u64 regs[16];
	u64 ip;
	u64 *words;
};

/**
 * struct trace - Result of a walk
 * @nr:		Number of addresses, -1 if there was not exactly one sample with a
 *		record
 * @outermost:	The record says that it is complete
 * @end:	UT_MISC_END() of the record
 */
struct trace {
	int nr;
	bool outermost;
	unsigned int end;
	uint64_t ips[512];
};

bool stack_start(struct stack *s, const void *code);
void stack_end(struct stack *s);
void syscall_attr_init(struct perf_event_attr *attr, const char *event, uint64_t bits);
bool syscall_open(struct up_ring *ring, struct perf_event_attr *attr, pid_t tid,
		  const char *filter);
bool table_ring_open(void);
extern __thread struct up_ring table_ring;
void table_enter(const struct stack *s);
void ring_walk(struct up_ring *ring, const struct stack *s, struct trace *t);
void table_walk(const struct stack *s, struct trace *t);
bool ends_with(const struct trace *t, unsigned int end);
bool is_trace(const struct trace *t, const u64 *ips, int nr, bool outermost);

/* ------------------------------------------------------------------------ */
/* One stack with and without a table				      */

/*
 * Of a stack that plain_stack() makes in @mem's code. With plain_table():
 *
 *	AT_MIDDLE	CFA is SP + plain_cfa
 *	PLAIN_CALLER	saves the frame pointer, and moves SP by 32
 *	PLAIN_OUTER	is outermost
 *
 * By frame pointer instead, PLAIN_FP comes after AT_MIDDLE, and that is all.
 * The table with number n has another SP rule in the topmost frame, so that
 * PLAIN_CALLER + 16 * n comes next.
 */
#define PLAIN_CALLER	(8 * PAGE + 0x10)
#define PLAIN_OUTER	(9 * PAGE + 0x20)
#define PLAIN_FP	(10 * PAGE + 0x30)
#define PLAIN_NR	8

void plain_table(struct table *t, unsigned int n);
int plain_use(int fd, unsigned int n, const struct code_file *f);
int plain_other(int fd, unsigned int n, struct code_file *other);
bool plain_stack(struct stack *s, const void *mem);
bool is_plain(const struct trace *t, const void *mem, unsigned int n);
bool is_by_fp(const struct trace *t, const void *mem);
void walk_plain(const void *mem, struct trace *t);
bool walks_plain(const void *mem, unsigned int n);
bool walks_by_fp(const void *mem);

#endif /* _SELFTESTS_TABLE_LIB_H */
