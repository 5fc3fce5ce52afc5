// SPDX-License-Identifier: GPL-2.0
/*
 * step N COMMAND [ARGUMENT...] - are the rules right where code really goes?
 *
 * Steps through the first N instructions of a program and keeps count of calls and
 * returns. At each instruction the rule for it has to give the return address, CFA
 * and frame pointer of the call that led there. This knows nothing of CFI, so it
 * checks what is known of gaps as well. Exits with 1 if anything is wrong.
 */

#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <linux/unwind_table.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "unwind-table.h"

#define MAX_DEPTH	10000
#define MAX_MAPS	200
#define MAX_REPORTS	20

struct call {
	__u64	ra;
	__u64	cfa;
	__u64	fp;
};

struct map {
	__u64			start;
	__u64			end;
	__u64			offset;
	struct unwind_table	*table;
	char			name[128];
};

static struct call calls[MAX_DEPTH];
static unsigned int depth;
static struct map maps[MAX_MAPS];
static unsigned int nr_maps;
static pid_t pid;

static unsigned long nr_right, nr_outermost, nr_unknown, nr_not_covered, nr_no_table,
	nr_wrong;

static bool read_memory(__u64 addr, void *to, size_t len)
{
	struct iovec local = { to, len }, remote = { (void *)addr, len };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)len;
}

static __u64 word_at(__u64 addr)
{
	__u64 word = 0;

	read_memory(addr, &word, sizeof(word));
	return word;
}

static void read_maps(void)
{
	char path[64], line[512], flags[8];
	unsigned long start, end, offset;
	struct map *map;
	FILE *file;
	int fd;

	while (nr_maps)
		unwind_table_free(maps[--nr_maps].table);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "r");
	if (!file)
		err(2, "%s", path);
	while (fgets(line, sizeof(line), file) && nr_maps < MAX_MAPS) {
		map = &maps[nr_maps];
		map->name[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %127s", &start, &end, flags,
			   &offset, map->name) < 4 || flags[2] != 'x')
			continue;
		map->start = start;
		map->end = end;
		map->offset = offset;
		map->table = NULL;
		if (!strcmp(map->name, "[vdso]")) {
			unwind_table_from_process(pid, start, &map->table);
		} else if (map->name[0] == '/') {
			fd = open(map->name, O_RDONLY);
			unwind_table_from_fd(fd, &map->table);
			close(fd);
		}
		nr_maps++;
	}
	fclose(file);
}

static const struct map *find_map(__u64 ip)
{
	unsigned int i, tries;

	for (tries = 0; tries < 2; tries++) {
		for (i = 0; i < nr_maps; i++) {
			if (ip >= maps[i].start && ip < maps[i].end)
				return &maps[i];
		}
		read_maps();
	}
	return NULL;
}

/* The rule for a byte of a file, as the kernel finds it */
static struct unwind_table_rule find_rule(const struct unwind_table *table, __u64 offset)
{
	struct unwind_table_rule found = { .kind = UNWIND_TABLE_NOT_COVERED };
	const struct unwind_table_header *header;
	const struct unwind_table_run *runs;
	const struct unwind_table_row *rows;
	const struct unwind_table_rule *rules;
	__u64 page = offset >> UNWIND_TABLE_PAGE_SHIFT, index;
	const __u32 *blocks;
	__u32 run, first = 0, shift, i;
	size_t len;

	header = unwind_table_data(table, &len);
	runs = (const void *)(header + 1);
	blocks = (const void *)(runs + header->nr_runs);
	shift = UNWIND_TABLE_PAGE_SHIFT - header->block_shift;
	rows = (const void *)(blocks + (header->nr_pages << shift) + 1);
	rules = (const void *)(rows + header->nr_rows);
	for (run = 0; run < header->nr_runs; first += runs[run++].nr_pages) {
		if (page - runs[run].page >= runs[run].nr_pages)
			continue;
		index = first + page - runs[run].page;
		/* From the first row of the page to its last */
		i = index ? blocks[index << shift] + 1 : 0;
		for (; i <= blocks[(index + 1) << shift]; i++) {
			if (rows[i].offset <= offset % UNWIND_TABLE_PAGE_SIZE)
				found = rules[rows[i].rule];
		}
	}
	return found;
}

static __u64 reg_of(const struct user_regs_struct *r, unsigned int reg)
{
	const __u64 regs[] = {
		r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi, r->rbp, r->rsp,
		r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15,
	};

	return regs[reg];
}

static __u64 at_loc(const struct unwind_table_loc *loc, __u64 cfa,
		    const struct user_regs_struct *r)
{
	switch (loc->where) {
	case UNWIND_TABLE_REG:
		return reg_of(r, loc->reg) + loc->off;
	case UNWIND_TABLE_REG_DEREF:
		return word_at(reg_of(r, loc->reg) + loc->off);
	case UNWIND_TABLE_CFA:
		return cfa + loc->off;
	case UNWIND_TABLE_CFA_DEREF:
		return word_at(cfa + loc->off);
	default:
		return r->rbp;
	}
}

static void wrong(const struct map *map, __u64 offset, const char *what)
{
	if (nr_wrong++ >= MAX_REPORTS)
		return;
	printf("%s: 0x%llx: %s\n", map->name, offset, what);
	fflush(stdout);
	unwind_table_print(map->table, offset, offset + 1, stdout);
}

static void check(const struct user_regs_struct *r)
{
	const struct call *call = depth ? &calls[depth - 1] : NULL;
	const struct map *map = find_map(r->rip);
	struct unwind_table_rule rule;
	__u64 cfa, offset;

	if (!map || !map->table) {
		nr_no_table++;
		return;
	}
	offset = r->rip - map->start + map->offset;
	rule = find_rule(map->table, offset);
	switch (rule.kind) {
	case UNWIND_TABLE_NOT_COVERED:
		nr_not_covered++;
		return;
	case UNWIND_TABLE_UNKNOWN:
		nr_unknown++;
		return;
	case UNWIND_TABLE_OUTERMOST:
		nr_outermost++;
		if (call)
			wrong(map, offset, "has a caller");
		return;
	}
	if (!call) {
		wrong(map, offset, "has no caller");
		return;
	}
	cfa = at_loc(&rule.cfa, 0, r) + rule.cfa_add;
	if (cfa != call->cfa)
		wrong(map, offset, "CFA");
	else if (at_loc(&rule.ra, cfa, r) != call->ra)
		wrong(map, offset, "return address");
	else if (rule.fp.where != UNWIND_TABLE_NONE && at_loc(&rule.fp, cfa, r) != call->fp)
		wrong(map, offset, "frame pointer");
	else
		nr_right++;
}

/* Does an instruction call? e8, or ff /2, whatever its prefixes are */
static bool is_call(const __u8 *code)
{
	while (*code == 0x66 || *code == 0x67 || *code == 0x3e || *code == 0xf2 ||
	       *code == 0x2e || (*code & 0xf0) == 0x40)
		code++;
	return code[0] == 0xe8 || (code[0] == 0xff && (code[1] >> 3 & 7) == 2);
}

/*
 * c3, c2; a jump to an address in a register, which longjmp() ends with; a system
 * call that returns from a signal, so to another SP
 */
static bool is_return(const __u8 *code, bool moved)
{
	while (*code == 0xf3 || *code == 0xf2 || *code == 0x3e)
		code++;
	return code[0] == 0xc3 || code[0] == 0xc2 ||
	       (code[0] == 0xff && (code[1] & 0xf8) == 0xe0) ||
	       (code[0] == 0x0f && code[1] == 0x05 && moved);
}

static __u64 saved_reg(__u64 sp, unsigned int reg)
{
	return word_at(sp + sizeof(__u64) + offsetof(ucontext_t, uc_mcontext.gregs[reg]));
}

/*
 * Is a handler about to run? Not every signal has one, and an instruction that makes
 * room on the stack moves SP as far: the frame of a signal holds what it interrupted.
 */
static bool in_handler(const struct user_regs_struct *before,
		       const struct user_regs_struct *after)
{
	return saved_reg(after->rsp, REG_RIP) == before->rip &&
	       saved_reg(after->rsp, REG_RSP) == before->rsp;
}

/*
 * A signal's handler is called by the kernel: it returns to the restorer, which
 * goes back to what was interrupted.
 */
static void signalled(const struct user_regs_struct *before,
		      const struct user_regs_struct *after)
{
	if (depth + 2 > MAX_DEPTH)
		errx(2, "too deep");
	calls[depth++] = (struct call){ before->rip, before->rsp, before->rbp };
	calls[depth++] = (struct call){ word_at(after->rsp), after->rsp + 8, after->rbp };
}

/* From one instruction to the next */
static void follow(const struct user_regs_struct *before, const __u8 *code,
		   const struct user_regs_struct *after)
{
	if (is_call(code) && after->rsp == before->rsp - 8) {
		if (depth == MAX_DEPTH)
			errx(2, "too deep");
		calls[depth++] = (struct call){
			.ra	= word_at(after->rsp),
			.cfa	= before->rsp,
			.fp	= before->rbp,
		};
		return;
	}
	/*
	 * Who is back from a call has no more of it on the stack. vfork() has taken
	 * its return address from there, but does not return with that. A jump to
	 * where SP was, as longjmp's, comes to the same as many returns.
	 */
	while (depth && (after->rsp > calls[depth - 1].cfa ||
			 (after->rsp == calls[depth - 1].cfa &&
			  is_return(code, after->rsp != before->rsp))))
		depth--;
}

int main(int argc, char **argv)
{
	struct user_regs_struct regs, next;
	unsigned long i, n;
	__u8 code[16];
	int status, sig = 0;

	if (argc < 3)
		errx(2, "usage: step N COMMAND [ARGUMENT...]");
	n = strtoul(argv[1], NULL, 0);
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		dup2(open("/dev/null", O_WRONLY), 1);
		execv(argv[2], argv + 2);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		errx(2, "%s cannot be started", argv[2]);
	if (ptrace(PTRACE_GETREGS, pid, 0, &regs))
		err(2, "PTRACE_GETREGS");
	for (i = 0; i < n; i++, regs = next) {
		check(&regs);
		memset(code, 0, sizeof(code));
		if (!read_memory(regs.rip, code, sizeof(code)))
			read_memory(regs.rip, code, 8);
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, sig) || waitpid(pid, &status, 0) != pid ||
		    !WIFSTOPPED(status) || ptrace(PTRACE_GETREGS, pid, 0, &next))
			break;
		if (sig && in_handler(&regs, &next))
			signalled(&regs, &next);
		else
			follow(&regs, code, &next);
		sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
	}
	kill(pid, SIGKILL);
	printf("%s: %lu instructions, %lu right, %lu outermost, ", argv[2], i, nr_right,
	       nr_outermost);
	printf("%lu unknown, %lu not covered, %lu without table, %lu wrong\n", nr_unknown,
	       nr_not_covered, nr_no_table, nr_wrong);
	return nr_wrong || !nr_right;
}
