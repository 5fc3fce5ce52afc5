// SPDX-License-Identifier: GPL-2.0
/*
 * step [-s] [-b BURSTS] [-r ROOT] N COMMAND [ARGUMENT...] - are the rules right where code
 * really goes?
 *
 * Steps through the first N instructions of a program and keeps count of calls and
 * returns. At each instruction the rule for it has to give the return address, CFA
 * and frame pointer of the call that led there. This does not use CFI, so it checks the rules of
 * gaps as well. Exits with 1 if anything is wrong.
 *
 * Of the callers' rules, one that takes the CFA from memory depends on what the functions below
 * have done so far, so it is checked at each instruction, if a walk comes to it: -s: there has to
 * be one.
 *
 * With -b, that many times N instructions are stepped through, of the thread that has
 * worked most since the last time, and the program runs freely in between, and again when
 * it has ended. The calls
 * that led there were not seen. So all rules of a call must agree with the first one about the
 * caller, until the function returns: it has to return there. Calls that have not returned by the
 * end are not proven. For each file the executed code is printed, and how much of it has no FDE.
 * -r: the command is in another root.
 */

#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <elfutils/libdw.h>
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
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "unwind-table.h"

#define REG_FP		6
#define REG_SP		7
#define MAX_DEPTH	10000
#define VDSO_BYTES	(2 * 4096)
#define MAX_MAPS	200
#define MAX_FILES	200
#define MAX_THREADS	100
/* A thread of the program runs so long between bursts, at least. */
#define PAUSE_NS	1000000
#define MAX_REPORTS	20

struct call {
	__u64	ra;
	__u64	cfa;
	__u64	fp;
	bool	is_claim;	/* A rule has said so; nobody has seen it. */
	bool	has_fp;
	struct unwind_table_rule rule;	/* for where it returns to, if that was seen */
};

struct count {
	unsigned long	right;
	unsigned long	claimed;	/* right if the claim is */
	unsigned long	not_proven;
	unsigned long	unknown;
	unsigned long	wrong;
	unsigned long	lost_fp;	/* .eh_frame says that FP is the same, and it is not */
};

struct file {
	struct unwind_table	*table;
	struct count		all;
	struct count		no_fde;
	unsigned long		places;		/* instructions without FDE */
	Elf			*elf;
	Dwarf_CFI		*cfi;
	__u8			*asked;		/* by offset: 0 or an enum */
	size_t			len;
	char			name[256];
};

enum asked { ASKED_HAS_FDE = 1, ASKED_HAS_NONE };

struct map {
	__u64		start;
	__u64		end;
	__u64		offset;
	struct file	*file;
};

static struct call calls[MAX_DEPTH];
static unsigned int depth;
static struct map maps[MAX_MAPS];
static unsigned int nr_maps;
static struct file files[MAX_FILES];
static unsigned int nr_files;
static bool in_bursts;
static pid_t pid, thread;

static unsigned long nr_right, nr_outermost, nr_unknown, nr_not_covered, nr_no_table,
	nr_not_proven, nr_wrong, nr_lost_fp, nr_steps, nr_saved;

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

/* The call frame information of a file, only used to look for FDEs */
static void open_cfi(struct file *file, int fd)
{
	off_t len = lseek(fd, 0, SEEK_END);

	file->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!file->elf || len <= 0)
		return;
	file->cfi = dwarf_getcfi_elf(file->elf);
	file->asked = calloc(len, 1);
	file->len = file->asked ? len : 0;
}

static bool has_fde(struct file *file, __u64 offset)
{
	Dwarf_Frame *frame = NULL;
	GElf_Phdr phdr;
	size_t nr, i;

	if (offset >= file->len)
		return true;
	if (file->asked[offset])
		return file->asked[offset] == ASKED_HAS_FDE;
	file->asked[offset] = ASKED_HAS_NONE;
	if (!elf_getphdrnum(file->elf, &nr) && file->cfi) {
		for (i = 0; i < nr; i++) {
			if (!gelf_getphdr(file->elf, i, &phdr) || phdr.p_type != PT_LOAD ||
			    offset - phdr.p_offset >= phdr.p_filesz)
				continue;
			if (!dwarf_cfi_addrframe(file->cfi,
						 offset - phdr.p_offset + phdr.p_vaddr, &frame))
				file->asked[offset] = ASKED_HAS_FDE;
		}
	}
	free(frame);
	file->places += file->asked[offset] == ASKED_HAS_NONE;
	return file->asked[offset] == ASKED_HAS_FDE;
}

static struct file *find_file(const char *name)
{
	struct file *file;
	unsigned int i;
	int fd;

	for (i = 0; i < nr_files; i++) {
		if (!strcmp(files[i].name, name))
			return &files[i];
	}
	if (nr_files == MAX_FILES)
		errx(2, "too many files");
	file = &files[nr_files++];
	snprintf(file->name, sizeof(file->name), "%s", name);
	if (!strcmp(name, "[vdso]")) {
		/* All processes have the same. */
		unwind_table_from_memory((void *)getauxval(AT_SYSINFO_EHDR), VDSO_BYTES,
					 &file->table);
	} else if (name[0] == '/') {
		fd = open(name, O_RDONLY);
		unwind_table_from_fd(fd, &file->table);
		if (in_bursts)
			open_cfi(file, fd);
		else
			close(fd);
	}
	return file;
}

static void read_maps(void)
{
	char path[64], line[512], flags[8], name[256];
	unsigned long start, end, offset;
	FILE *file;

	nr_maps = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "r");
	if (!file)
		err(2, "%s", path);
	while (fgets(line, sizeof(line), file) && nr_maps < MAX_MAPS) {
		name[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %255s", &start, &end, flags,
			   &offset, name) < 4 || flags[2] != 'x')
			continue;
		maps[nr_maps++] = (struct map){ start, end, offset, find_file(name) };
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

static struct unwind_table_rule find_rule_of(__u64 ip)
{
	static const struct unwind_table_rule none = { .kind = UNWIND_TABLE_NOT_COVERED };
	const struct map *map = find_map(ip);

	return map && map->file->table ? find_rule(map->file->table, ip - map->start + map->offset) :
					 none;
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
	printf("%s: 0x%llx: %s\n", map->file->name, offset, what);
	fflush(stdout);
	unwind_table_print(map->file->table, offset, offset + 1, stdout);
}

/* The outcome of instructions that are right if the claim is */
static void settle(bool is_proven)
{
	struct count *counts;
	unsigned int i, k;

	for (i = 0; i < nr_files; i++) {
		counts = &files[i].all;
		for (k = 0; k < 2; k++, counts = &files[i].no_fde) {
			if (is_proven)
				counts->right += counts->claimed;
			else
				counts->not_proven += counts->claimed;
			if (!k && is_proven)
				nr_right += counts->claimed;
			else if (!k)
				nr_not_proven += counts->claimed;
			counts->claimed = 0;
		}
	}
}

enum verdict { RIGHT, CLAIMED, UNKNOWN, WRONG, LOST_FP, OTHER };

static enum verdict judge(const struct user_regs_struct *r, const struct map *map, __u64 offset)
{
	struct call *call = depth ? &calls[depth - 1] : NULL;
	struct unwind_table_rule rule = find_rule(map->file->table, offset);
	bool has_fp = rule.fp.where != UNWIND_TABLE_NONE;
	__u64 cfa, fp = 0;

	switch (rule.kind) {
	case UNWIND_TABLE_NOT_COVERED:
		nr_not_covered++;
		return OTHER;
	case UNWIND_TABLE_UNKNOWN:
		nr_unknown++;
		return UNKNOWN;
	case UNWIND_TABLE_OUTERMOST:
		nr_outermost++;
		if (!call)
			return OTHER;
		wrong(map, offset, "has a caller");
		return WRONG;
	}
	if (!call && !in_bursts) {
		wrong(map, offset, "has no caller");
		return WRONG;
	}
	cfa = at_loc(&rule.cfa, 0, r) + rule.cfa_add;
	if (has_fp)
		fp = at_loc(&rule.fp, cfa, r);
	if (!call) {
		call = &calls[depth++];
		*call = (struct call){
			.ra = at_loc(&rule.ra, cfa, r), .cfa = cfa, .fp = fp,
			.is_claim = true, .has_fp = has_fp,
		};
		return CLAIMED;
	}
	if (cfa != call->cfa) {
		wrong(map, offset, "CFA");
	} else if (at_loc(&rule.ra, cfa, r) != call->ra) {
		wrong(map, offset, "return address");
	} else if (has_fp && call->has_fp && fp != call->fp) {
		/* Functions that only assembly calls have CFI that does not know of it. */
		if (in_bursts && rule.fp.where == UNWIND_TABLE_SAME && has_fde(map->file, offset)) {
			nr_lost_fp++;
			return LOST_FP;
		}
		wrong(map, offset, "frame pointer");
	} else {
		if (has_fp) {
			call->fp = fp;
			call->has_fp = true;
		}
		if (call->is_claim)
			return CLAIMED;
		nr_right++;
		return RIGHT;
	}
	return WRONG;
}

static void add_verdict(struct count *count, enum verdict verdict)
{
	count->right += verdict == RIGHT;
	count->claimed += verdict == CLAIMED;
	count->unknown += verdict == UNKNOWN;
	count->wrong += verdict == WRONG;
	count->lost_fp += verdict == LOST_FP;
}

/* The callers that a walk comes to: SP and FP are all that is known there. */
static void check_callers(void)
{
	struct user_regs_struct r = { 0 };
	unsigned int i;

	for (i = depth - 1; i > 0; i--) {
		const struct unwind_table_rule *rule = &calls[i].rule;
		const struct map *map;
		__u64 cfa;

		if (rule->kind != UNWIND_TABLE_CALLER ||
		    (rule->cfa.reg != REG_SP && rule->cfa.reg != REG_FP))
			return;
		if (rule->cfa.where != UNWIND_TABLE_REG_DEREF)
			continue;
		r.rsp = calls[i].cfa;
		r.rbp = calls[i].fp;
		cfa = at_loc(&rule->cfa, 0, &r) + rule->cfa_add;
		if (cfa == calls[i - 1].cfa && at_loc(&rule->ra, cfa, &r) == calls[i - 1].ra) {
			nr_saved++;
			continue;
		}
		map = find_map(calls[i].ra - 1);
		wrong(map, calls[i].ra - 1 - map->start + map->offset, "caller");
		return;
	}
}

static void check(const struct user_regs_struct *r)
{
	const struct map *map = find_map(r->rip);
	enum verdict verdict;
	__u64 offset;

	if (!map || !map->file->table) {
		nr_no_table++;
		return;
	}
	offset = r->rip - map->start + map->offset;
	verdict = judge(r, map, offset);
	add_verdict(&map->file->all, verdict);
	if (verdict == RIGHT)
		check_callers();
	if (in_bursts && !has_fde(map->file, offset))
		add_verdict(&map->file->no_fde, verdict);
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
 * Is a handler about to run? Not every signal has one, and an instruction that makes room on the
 * stack moves SP as far: the frame of a signal holds the interrupted registers.
 */
static bool in_handler(const struct user_regs_struct *before,
		       const struct user_regs_struct *after)
{
	return saved_reg(after->rsp, REG_RIP) == before->rip &&
	       saved_reg(after->rsp, REG_RSP) == before->rsp;
}

/*
 * A signal's handler is called by the kernel: it returns to the restorer, which goes back to the
 * interrupted code.
 */
static void signalled(const struct user_regs_struct *before,
		      const struct user_regs_struct *after)
{
	if (depth + 2 > MAX_DEPTH)
		errx(2, "too deep");
	calls[depth++] = (struct call){
		.ra = before->rip, .cfa = before->rsp, .fp = before->rbp, .has_fp = true,
	};
	calls[depth++] = (struct call){
		.ra = word_at(after->rsp), .cfa = after->rsp + 8, .fp = after->rbp, .has_fp = true,
	};
}

/* A function that was there before returns: there, and with that frame pointer? */
static void check_claim(const struct call *claim, const struct user_regs_struct *before,
			const __u8 *code, const struct user_regs_struct *after)
{
	const struct map *map = find_map(before->rip);
	bool is_right;

	while (*code == 0xf3 || *code == 0xf2)
		code++;
	if (*code != 0xc3 && *code != 0xc2) {
		if (after->rsp > claim->cfa)
			settle(false);
		return;
	}
	is_right = before->rsp + 8 == claim->cfa && after->rip == claim->ra;
	if (is_right && claim->has_fp && after->rbp != claim->fp) {
		is_right = map && has_fde(map->file, before->rip - map->start + map->offset);
		nr_lost_fp += is_right;
	}
	settle(is_right);
	if (is_right || !map)
		return;
	wrong(map, before->rip - map->start + map->offset, "returns to another place");
	depth--;
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
			.has_fp	= true,
			.rule	= find_rule_of(word_at(after->rsp) - 1),
		};
		return;
	}
	if (depth && calls[depth - 1].is_claim)
		check_claim(&calls[depth - 1], before, code, after);
	/*
	 * After the return from a call, nothing of it is on the stack. vfork() has taken its
	 * return address from there, but does not return with that. A jump to where SP was, as
	 * longjmp's, comes to the same as many returns.
	 */
	while (depth && (after->rsp > calls[depth - 1].cfa ||
			 (after->rsp == calls[depth - 1].cfa &&
			  is_return(code, after->rsp != before->rsp))))
		depth--;
}

/* Returns whether the thread is still there. */
static bool step_through(unsigned long n, bool is_checked)
{
	struct user_regs_struct regs, next;
	__u8 code[16];
	int status, sig = 0;

	if (ptrace(PTRACE_GETREGS, thread, 0, &regs))
		return false;
	for (; n; n--, regs = next) {
		if (is_checked)
			check(&regs);
		memset(code, 0, sizeof(code));
		if (!read_memory(regs.rip, code, sizeof(code)))
			read_memory(regs.rip, code, 8);
		if (ptrace(PTRACE_SINGLESTEP, thread, 0, sig) ||
		    waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status) ||
		    ptrace(PTRACE_GETREGS, thread, 0, &next))
			return false;
		nr_steps++;
		if (sig && in_handler(&regs, &next))
			signalled(&regs, &next);
		else if (is_checked)
			follow(&regs, code, &next);
		sig = WSTOPSIG(status) == SIGTRAP || status >> 16 ? 0 : WSTOPSIG(status);
	}
	return true;
}

/* A thread and the CPU time that it had the last time, in nanoseconds */
static struct {
	pid_t		id;
	long long	time;
} threads[MAX_THREADS];

static long long time_of(pid_t id)
{
	long long time = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, id);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (fscanf(file, "%lld", &time) != 1)
		time = 0;
	fclose(file);
	return time;
}

/* The thread that has worked most since the last time, and so long; 0: none is there */
static pid_t busiest(long long *most)
{
	char path[64];
	struct dirent *entry;
	long long time;
	pid_t found = 0;
	unsigned int i;
	DIR *dir;

	*most = -1;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		pid_t id = atoi(entry->d_name);

		if (!isdigit(entry->d_name[0]))
			continue;
		for (i = 0; i + 1 < MAX_THREADS && threads[i].id && threads[i].id != id; i++)
			;
		time = time_of(id);
		if (threads[i].id != id)
			threads[i].time = 0;
		threads[i].id = id;
		if (time - threads[i].time > *most) {
			*most = time - threads[i].time;
			found = id;
		}
	}
	closedir(dir);
	return found;
}

/* Wait until a thread has worked; false: the program has ended */
static bool pause_until_busy(void)
{
	const struct timespec moment = { .tv_nsec = 200000 };
	long long most;
	unsigned int i;
	int status;

	do {
		nanosleep(&moment, NULL);
		if (waitpid(pid, &status, WNOHANG))
			return false;
		thread = busiest(&most);
	} while (thread && most < PAUSE_NS);
	for (i = 0; i < MAX_THREADS && threads[i].id; i++)
		threads[i].time = time_of(threads[i].id);
	return thread;
}

/* Returns whether the program is still there. */
static bool burst(unsigned long n)
{
	int status;

	if (!pause_until_busy())
		return false;
	/* It may have ended since, and then another one has its turn. */
	if (ptrace(PTRACE_SEIZE, thread, 0, 0) || ptrace(PTRACE_INTERRUPT, thread, 0, 0) ||
	    waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
		return true;
	/* A system call may have been interrupted, which begins anew. */
	if (step_through(1, false) && step_through(n, true))
		ptrace(PTRACE_DETACH, thread, 0, 0);
	settle(false);
	depth = 0;
	return true;
}

static void print_counts(const struct count *count)
{
	printf("%lu right, %lu not proven, %lu unknown, %lu wrong", count->right,
	       count->not_proven, count->unknown, count->wrong);
	if (count->lost_fp)
		printf(", %lu with another FP than .eh_frame says", count->lost_fp);
}

static void print_file(const struct file *file)
{
	printf("%s: ", file->name);
	print_counts(&file->all);
	printf("; at %lu places without FDE: ", file->places);
	print_counts(&file->no_fde);
	putchar('\n');
}

static void start(char **argv, const char *root)
{
	int status, null;

	pid = fork();
	if (!pid) {
		if (!in_bursts)
			ptrace(PTRACE_TRACEME, 0, 0, 0);
		null = open("/dev/null", O_WRONLY);
		dup2(null, 1);
		if (in_bursts)
			dup2(null, 2);
		if (!root || !chroot(root))
			execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0)
		err(2, "fork");
	thread = pid;
	if (!in_bursts && (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)))
		errx(2, "%s cannot be started", argv[0]);
}

int main(int argc, char **argv)
{
	unsigned long bursts = 0, n, i;
	bool is_saved = false;
	const char *root = NULL;
	int option;

	while ((option = getopt(argc, argv, "+b:r:s")) != -1) {
		if (option == 'b')
			bursts = strtoul(optarg, NULL, 0);
		else if (option == 'r')
			root = optarg;
		else if (option == 's')
			is_saved = true;
		else
			return 2;
	}
	argv += optind;
	if (argc - optind < 2)
		errx(2, "usage: step [-s] [-b BURSTS] [-r ROOT] N COMMAND [ARGUMENT...]");
	n = strtoul(argv[0], NULL, 0);
	in_bursts = bursts;
	elf_version(EV_CURRENT);
	start(argv + 1, root);
	if (!in_bursts)
		step_through(n, true);
	for (i = 0; i < bursts; i++) {
		if (burst(n))
			continue;
		memset(threads, 0, sizeof(threads));
		nr_maps = 0;
		start(argv + 1, root);
	}
	kill(pid, SIGKILL);
	settle(false);
	for (i = 0; in_bursts && i < nr_files; i++)
		print_file(&files[i]);
	printf("%s: %lu instructions, %lu right, %lu outermost, ", argv[1], nr_steps, nr_right,
	       nr_outermost);
	printf("%lu unknown, %lu not covered, %lu without table, %lu wrong, ", nr_unknown,
	       nr_not_covered, nr_no_table, nr_wrong);
	printf("%lu callers by what is saved below them", nr_saved);
	if (in_bursts)
		printf(", %lu not proven, %lu with another FP than .eh_frame says", nr_not_proven,
		       nr_lost_fp);
	putchar('\n');
	return nr_wrong || !nr_right || (is_saved && !nr_saved);
}
