// SPDX-License-Identifier: GPL-2.0
/*
 * Shared by the tests of tables for files.
 */
#include <signal.h>
#include <sys/mount.h>
#include <time.h>

#include "table_lib.h"

/* ------------------------------------------------------------------------ */
/* Tables								      */

struct unwind_table_rule rule_of(unsigned int kind)
{
	return (struct unwind_table_rule){ .kind = kind };
}

/* An ordinary rule, with the frame pointer still in its register */
struct unwind_table_rule rule_cfa(unsigned int reg, s32 off)
{
	return (struct unwind_table_rule){
		.kind = UNWIND_TABLE_CALLER,
		.cfa = LOC(REG, reg, off),
		.ra = LOC(CFA_DEREF, 0, -8),
		.fp = LOC(SAME, 0, 0),
	};
}

/* An ordinary rule, with the frame pointer in memory */
struct unwind_table_rule rule_saved(unsigned int reg, s32 off, s32 fp_off)
{
	struct unwind_table_rule rule = rule_cfa(reg, off);

	rule.fp = LOC(CFA_DEREF, 0, fp_off);
	return rule;
}

void table_start(struct table *t)
{
	memset(t, 0, sizeof(*t));
	t->header.magic = UNWIND_TABLE_MAGIC;
	t->header.version = UNWIND_TABLE_VERSION;
	t->header.machine = 62;
	t->header.word_size = 8;
	t->header.block_shift = UNWIND_TABLE_PAGE_SHIFT;
	/* The part before the first row */
	t->header.nr_rules = 1;
	t->rules[0] = NOT_COVERED;
}

static void put_row(struct table *t, u16 offset, unsigned int rule)
{
	t->rows[t->header.nr_rows] = (struct unwind_table_row){ offset, rule };
	t->blocks[t->header.nr_pages] = t->header.nr_rows++;
}

/* The page after the last one, or any other; then it is in a new run. */
static void put_page(struct table *t, u64 page)
{
	struct unwind_table_run *run = &t->runs[t->header.nr_runs];

	if (t->header.nr_runs && run[-1].page + run[-1].nr_pages == page) {
		run--;
	} else {
		run->page = page;
		run->first_block = t->header.nr_pages;
		t->header.nr_runs++;
	}
	run->nr_pages++;
	t->header.nr_pages++;
}

static void go_to(struct table *t, u64 offset, bool row)
{
	u64 page = offset / PAGE;

	/* All pages from the last one on have the last rule. */
	if (t->header.nr_runs) {
		u64 next = t->at / PAGE + 1;

		/* Except for code that is not covered, which is in no run. */
		if (!t->last && next < page)
			next = page;
		for (; next < page || (next == page && offset % PAGE); next++) {
			put_page(t, next);
			put_row(t, 0, t->last);
		}
		if (next == page && row)
			put_page(t, page);
	} else {
		put_page(t, page);
		if (offset % PAGE)
			put_row(t, 0, 0);
	}
}

/* This rule applies from @offset on, which is beyond that of the last row. */
void table_row(struct table *t, u64 offset, struct unwind_table_rule rule)
{
	go_to(t, offset, true);
	t->last = t->header.nr_rules++;
	t->rules[t->last] = rule;
	put_row(t, offset % PAGE, t->last);
	t->at = offset;
}

/* From @offset on nothing is covered. */
void table_end(struct table *t, u64 offset)
{
	go_to(t, offset, false);
	if (offset % PAGE)
		put_row(t, offset % PAGE, 0);
	t->at = offset % PAGE ? offset : offset - 1;
	t->last = 0;
}

/* A page that is not covered, which comes after the last one */
void table_empty(struct table *t)
{
	put_page(t, t->at / PAGE + 1);
	put_row(t, 0, 0);
	t->at += PAGE;
	t->last = 0;
}

/* A table with one rule */
void table_of_one(struct table *t, u64 start, struct unwind_table_rule rule, u64 end)
{
	table_start(t);
	table_row(t, start, rule);
	table_end(t, end);
}

static void *join(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	return (u8 *)to + len;
}

size_t table_join(const struct table *t, void *to)
{
	const struct unwind_table_header *h = &t->header;
	u8 *at = to;

	at = join(at, h, sizeof(*h));
	at = join(at, t->runs, h->nr_runs * sizeof(t->runs[0]));
	at = join(at, t->blocks, (h->nr_pages + 1) * sizeof(t->blocks[0]));
	at = join(at, t->rows, h->nr_rows * sizeof(t->rows[0]));
	at = join(at, t->rules, h->nr_rules * sizeof(t->rules[0]));
	return at - (u8 *)to;
}

/* ------------------------------------------------------------------------ */
/* The device								      */

const char *need_tables(void)
{
	if (need_perf_deferred())
		return need_perf_deferred();
	if (need_tracepoint("raw_syscalls", "sys_enter"))
		return need_tracepoint("raw_syscalls", "sys_enter");
	return need_file(TABLE_DEVICE);
}

int dev_open(void)
{
	int fd = open(TABLE_DEVICE, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int dev_make(int fd, const void *data, size_t len)
{
	struct unwind_table_make arg = {
		.size = sizeof(arg), .data = (unsigned long)data, .len = len,
	};
	int ret = ioctl(fd, UNWIND_TABLE_MAKE, &arg);

	return ret < 0 ? -errno : ret;
}

int dev_make_table(int fd, const struct table *t)
{
	void *data = malloc(TABLE_ROOM);
	int ret;

	if (!data)
		return -ENOMEM;
	ret = dev_make(fd, data, table_join(t, data));
	free(data);
	return ret;
}

int dev_attach(int fd, struct unwind_table_attach *arg)
{
	return ioctl(fd, UNWIND_TABLE_ATTACH, arg) ? -errno : 0;
}

int dev_drop(int fd, unsigned long nr)
{
	return ioctl(fd, UNWIND_TABLE_DROP, nr) ? -errno : 0;
}

int dev_query(int fd, struct unwind_table_query *arg)
{
	int ret = ioctl(fd, UNWIND_TABLE_QUERY, arg);

	return ret < 0 ? -errno : ret;
}

/* Is there a table for the file mapped at an address of a process? */
int dev_query_at(int fd, pid_t pid, const void *addr)
{
	struct unwind_table_query arg = {
		.size = sizeof(arg), .pidfd = pidfd_of(pid), .address = (unsigned long)addr,
	};
	int ret = dev_query(fd, &arg);

	close(arg.pidfd);
	return ret;
}

/* A number of the descriptor's fdinfo, or -1 */
long long dev_info(int fd, const char *name)
{
	char path[64], line[256];
	long long val = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		size_t len = strlen(name);

		if (!strncmp(line, name, len) && line[len] == ':')
			val = atoll(line + len + 1);
	}
	fclose(f);
	return val;
}

int pidfd_of(pid_t pid)
{
	return syscall(SYS_pidfd_open, pid, 0);
}

/* ------------------------------------------------------------------------ */
/* Children								      */

/* A child that has prepared something, and waits for its end; -1 if it could not */
pid_t child_that_waits(bool (*prepare)(void *arg), void *arg)
{
	int ready[2];
	pid_t pid;
	char c;

	if (pipe(ready))
		return -1;
	pid = fork();
	if (!pid) {
		alarm(60);
		if (prepare(arg) && write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	if (pid > 0 && read(ready[0], &c, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

bool child_kill(pid_t pid)
{
	return !kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid;
}

/* ------------------------------------------------------------------------ */
/* Files with code							      */

/* Of table_enter() */
__thread unsigned long table_saved_sp, table_jump, table_return;

/*
 * syscall; jmp *%fs:table_return. It is the same in all processes that execute this
 * program, wherever that is.
 */
static void put_call(u8 *to)
{
#ifdef __x86_64__
	unsigned long base;

	asm("mov %%fs:0, %0" : "=r" (base));
	memcpy(to, "\x0f\x05\x64\xff\x24\x25", 6);
	sframe_build_put(to + 6, (unsigned long)&table_return - base, 4);
#endif
}

/* Contents of a file: nothing that a walk could make a guess by */
void code_fill(u8 *mem, u8 mark)
{
	memset(mem, mark, FILE_PAGES * PAGE);
	put_call(mem + CALL_PAGE);
	put_call(mem + CALL_MIDDLE);
	put_call(mem + CALL_LAST);
}

/* Write a file, which is not open any more then. */
bool file_write(const char *path, u8 mark)
{
	static u8 bytes[FILE_PAGES * PAGE];
	bool ok;
	int fd;

	code_fill(bytes, mark);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	ok = fd >= 0 && write(fd, bytes, sizeof(bytes)) == sizeof(bytes);
	close(fd);
	return ok;
}

/*
 * Until then another change might not show: the kernel takes no table. A time of whole
 * seconds, as one in some hundred is by chance, may be from a file system that keeps no
 * more of it.
 */
void wait_for_clock(const struct stat *st)
{
	long long age, least = st->st_mtim.tv_nsec ? 1 : 2000000000LL;
	struct timespec now;

	do {
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		age = (now.tv_sec - st->st_mtim.tv_sec) * 1000000000LL +
		      now.tv_nsec - st->st_mtim.tv_nsec;
	} while (age >= 0 && age < least);
}

bool file_map(struct code_file *f)
{
	f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
	if (f->fd < 0 || fstat(f->fd, &f->st))
		return false;
	wait_for_clock(&f->st);
	f->mem = mmap(NULL, FILE_PAGES * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE,
		      f->fd, 0);
	return f->mem != MAP_FAILED;
}

/* Map a part of a file at an address, over anything there. */
bool file_map_at(const char *path, unsigned long addr, off_t offset, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *mem;

	mem = mmap((void *)addr, len, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
		   fd, offset);
	close(fd);
	return mem == (void *)addr;
}

/* Map all of it once more, over the mapping at @mem. */
bool file_map_over(const struct code_file *f, const void *mem)
{
	return file_map_at(f->path, (unsigned long)mem, 0, FILE_PAGES * PAGE);
}

void file_unmap(struct code_file *f)
{
	munmap(f->mem, FILE_PAGES * PAGE);
	close(f->fd);
	f->fd = -1;
}

/* A file of code, filled with @mark, and mapped */
bool file_make(struct code_file *f, const char *path, u8 mark)
{
	snprintf(f->path, sizeof(f->path), "%s", path);
	return file_write(path, mark) && file_map(f);
}

void file_end(struct code_file *f)
{
	file_unmap(f);
	unlink(f->path);
}

/* A directory of this process, which the first one to ask makes */
const char *test_dir(void)
{
	static char dir[64];
	static pid_t pid;

	if (pid != getpid()) {
		pid = getpid();
		snprintf(dir, sizeof(dir), "/tmp/table_test.%d", pid);
		mkdir(dir, 0755);
	}
	return dir;
}

const char *test_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
	return path;
}

void overlay_end(struct overlay *o)
{
	file_unmap(&o->lower);
	umount2(o->merged, MNT_DETACH);
	umount2(o->dir, MNT_DETACH);
	rmdir(o->dir);
}

bool overlay_make(struct overlay *o, const char *more)
{
	static const char * const dirs[] = { "l", "u", "w", "m" };
	char options[400], path[96];
	unsigned int i;

	snprintf(o->dir, sizeof(o->dir), "%s/ovl", test_dir());
	if (mkdir(o->dir, 0755) || mount("none", o->dir, "tmpfs", 0, NULL))
		return false;
	for (i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(o->merged, sizeof(o->merged), "%s/%s", o->dir, dirs[i]);
		if (mkdir(o->merged, 0755))
			return false;
	}
	snprintf(path, sizeof(path), "%s/l/file", o->dir);
	snprintf(options, sizeof(options),
		 "lowerdir=%s/l,upperdir=%s/u,workdir=%s/w%s", o->dir, o->dir, o->dir,
		 more);
	if (!file_make(&o->lower, path, 0xcc))
		return false;
	if (!mount("none", o->merged, "overlay", 0, options))
		return true;
	overlay_end(o);
	return false;
}

/* The file, as the overlay shows it */
bool overlay_map(const struct overlay *o, struct code_file *f)
{
	snprintf(f->path, sizeof(f->path), "%s/file", o->merged);
	return file_map(f);
}

/* An argument that says that this file was read, or for NULL, the vDSO */
struct unwind_table_attach attach_arg_of(int nr, const void *addr,
					 const struct code_file *f)
{
	struct unwind_table_attach arg = {
		.size = sizeof(arg), .table = nr, .address = (unsigned long)addr,
	};

	if (f) {
		arg.flags = UNWIND_TABLE_ATTACH_FD;
		arg.file = f->fd;
		arg.file_size = f->st.st_size;
		arg.mtime_sec = f->st.st_mtim.tv_sec;
		arg.mtime_nsec = f->st.st_mtim.tv_nsec;
	}
	return arg;
}

/* Attach to the file mapped at an address, as above */
int attach_as(int fd, int nr, pid_t pid, const void *addr, const struct code_file *f)
{
	struct unwind_table_attach arg = attach_arg_of(nr, addr, f);
	int ret;

	arg.pidfd = pidfd_of(pid);
	if (arg.pidfd < 0)
		return -EIO;
	ret = dev_attach(fd, &arg);
	close(arg.pidfd);
	return ret;
}

int file_attach(int fd, int nr, const struct code_file *f)
{
	return attach_as(fd, nr, getpid(), f->mem + PAGE, f);
}

/* Make a table and attach it. Returns its number, or -errno. */
int file_use(int fd, const struct table *t, const struct code_file *f)
{
	int nr = dev_make_table(fd, t), ret;

	if (nr < 0)
		return nr;
	ret = file_attach(fd, nr, f);
	return ret ?: nr;
}

/* What a test has: a mapped file with this name, room for a table, and the device */
bool tables_start(const char *name, struct code_file *f, struct table **t, int *fd)
{
	if (!file_make(f, test_path(name), 0xcc))
		return false;
	*t = calloc(1, sizeof(**t));
	*fd = dev_open();
	return *t && *fd >= 0;
}

void tables_end(struct code_file *f, struct table *t, int fd)
{
	close(fd);
	free(t);
	file_end(f);
	rmdir(test_dir());
}

/* ------------------------------------------------------------------------ */
/* Walks								      */

#ifdef __x86_64__
/*
 * table_enter(stack) goes to stack->ip with all registers of @stack. The code there
 * makes a system call, and goes on at table_back.
 */
asm(".pushsection .text\n"
	".globl table_enter\n"
	".type table_enter, @function\n"
	"table_enter:\n"
	"	.irp	reg, rbp, rbx, r12, r13, r14, r15\n"
	"	push	%\\reg\n"
	"	.endr\n"
	"	mov	%rsp, %fs:table_saved_sp@tpoff\n"
	"	lea	table_back(%rip), %rax\n"
	"	mov	%rax, %fs:table_return@tpoff\n"
	"	mov	128(%rdi), %rax\n"
	"	mov	%rax, %fs:table_jump@tpoff\n"
	"	mov	0(%rdi), %rax\n"
	"	mov	8(%rdi), %rdx\n"
	"	mov	16(%rdi), %rcx\n"
	"	mov	24(%rdi), %rbx\n"
	"	mov	32(%rdi), %rsi\n"
	"	mov	48(%rdi), %rbp\n"
	"	mov	56(%rdi), %rsp\n"
	"	mov	64(%rdi), %r8\n"
	"	mov	72(%rdi), %r9\n"
	"	mov	80(%rdi), %r10\n"
	"	mov	88(%rdi), %r11\n"
	"	mov	96(%rdi), %r12\n"
	"	mov	104(%rdi), %r13\n"
	"	mov	112(%rdi), %r14\n"
	"	mov	120(%rdi), %r15\n"
	"	mov	40(%rdi), %rdi\n"
	"	jmp	*%fs:table_jump@tpoff\n"
	"table_back:\n"
	"	mov	%fs:table_saved_sp@tpoff, %rsp\n"
	"	.irp	reg, r15, r14, r13, r12, rbx, rbp\n"
	"	pop	%\\reg\n"
	"	.endr\n"
	"	ret\n"
	".size table_enter, . - table_enter\n"
	".popsection\n");

/* An empty stack, and code that calls getppid() */
bool stack_start(struct stack *s, const void *code)
{
	memset(s, 0, sizeof(*s));
	s->words = mmap(NULL, STACK_WORDS * 8, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->words == MAP_FAILED)
		return false;
	s->ip = (unsigned long)code;
	s->regs[RAX] = SYS_getppid;
	s->regs[RSP] = (unsigned long)s->words;
	return true;
}

void stack_end(struct stack *s)
{
	munmap(s->words, STACK_WORDS * 8);
}

__thread struct up_ring table_ring;
static __thread pid_t table_ring_tid;

/* An event at sys_enter or sys_exit */
void syscall_attr_init(struct perf_event_attr *attr, const char *event, uint64_t bits)
{
	up_attr_init(attr, PERF_TYPE_TRACEPOINT, tracepoint_id("raw_syscalls", event), bits);
	attr->exclude_callchain_kernel = 1;
}

/* ... of the task @tid, at the system calls that the filter is for */
bool syscall_open(struct up_ring *ring, struct perf_event_attr *attr, pid_t tid,
		  const char *filter)
{
	return !up_open_pages(ring, attr, tid, -1, -1, 4) &&
	       !ioctl(ring->fd, PERF_EVENT_IOC_SET_FILTER, filter);
}

/* The event of this task; it stays open, since closing one takes long. */
bool table_ring_open(void)
{
	struct perf_event_attr attr;

	if (table_ring_tid == my_tid())
		return true;

	syscall_attr_init(&attr, "sys_enter", DEFER_BITS);
	/* getppid(), and getuid(), whose result is 0 */
	if (!syscall_open(&table_ring, &attr, 0, "id == 110 || id == 102"))
		return false;
	table_ring_tid = my_tid();
	return true;
}

/* Walk @s, of which @ring has one sample. */
void ring_walk(struct up_ring *ring, const struct stack *s, struct trace *t)
{
	struct up_rec *rec = NULL;

	memset(t, 0, sizeof(*t));
	t->nr = -1;
	up_enable(ring);
	table_enter(s);
	up_disable(ring);
	up_drain(ring);

	/* Requests of others are recorded here as well. */
	if (up_count(ring, PERF_RECORD_SAMPLE) == 1)
		rec = up_answer(ring, up_nth(ring, PERF_RECORD_SAMPLE, 0));
	if (rec && !rec->bad) {
		t->nr = rec->nr < ARRAY_SIZE(t->ips) ? rec->nr : ARRAY_SIZE(t->ips);
		t->end = UT_MISC_END(rec->misc);
		t->outermost = rec->misc & UT_MISC_OUTERMOST && !t->end;
		memcpy(t->ips, rec->ips, t->nr * sizeof(*t->ips));
	}
	up_forget(ring);
}

/* Walk @s at its getppid() or getuid(). */
void table_walk(const struct stack *s, struct trace *t)
{
	t->nr = -1;
	if (table_ring_open())
		ring_walk(&table_ring, s, t);
}

/* A stack taken in place does not say why it ends. */
bool ends_with(const struct trace *t, unsigned int end)
{
	if (in_place || t->end == end)
		return true;
	fprintf(stderr, "# the walk ends with %u instead of %u\n", t->end, end);
	return false;
}

bool is_trace(const struct trace *t, const u64 *ips, int nr, bool outermost)
{
	if (!up_frames_equal(t->ips, t->nr < 0 ? 0 : t->nr, ips, nr))
		return false;
	/* A stack taken in place does not say. */
	if (in_place || t->outermost == outermost)
		return true;
	fprintf(stderr, "# the walk is %scomplete\n", t->outermost ? "" : "not ");
	return false;
}

/* ------------------------------------------------------------------------ */
/* One stack with and without a table				      */

void plain_table(struct table *t, unsigned int n)
{
	table_start(t);
	table_row(t, PAGE, UNKNOWN);
	table_row(t, AT_MIDDLE, rule_cfa(RSP, 8 + 8 * n));
	table_row(t, AT_MIDDLE + 1, UNKNOWN);
	table_row(t, 8 * PAGE, rule_saved(RSP, 512, -16));
	table_row(t, 9 * PAGE, OUTERMOST);
	table_end(t, 10 * PAGE);
}

/* Have that table for a file. Returns the number that the kernel has given it, or -errno. */
int plain_use(int fd, unsigned int n, const struct code_file *f)
{
	static struct table t;

	plain_table(&t, n);
	return file_use(fd, &t, f);
}

/* Another file, with that table */
int plain_other(int fd, unsigned int n, struct code_file *other)
{
	return file_make(other, test_path("other"), 0xcc) ? plain_use(fd, n, other) : -EIO;
}

bool plain_stack(struct stack *s, const void *mem)
{
	unsigned long at = (unsigned long)mem;
	unsigned int n;

	if (!stack_start(s, mem + CALL_MIDDLE))
		return false;
	/* Wherever the caller's frame begins, it ends somewhere here. */
	for (n = 0; n < PLAIN_NR; n++) {
		s->words[n] = at + PLAIN_CALLER + 16 * n;
		s->words[n + 64] = at + PLAIN_OUTER;
	}
	s->regs[RBP] = (unsigned long)&s->words[256];
	s->words[256] = 0;
	s->words[257] = at + PLAIN_FP;
	return true;
}

bool is_plain(const struct trace *t, const void *mem, unsigned int n)
{
	unsigned long at = (unsigned long)mem;
	u64 ips[] = { at + AT_MIDDLE, at + PLAIN_CALLER + 16 * n, at + PLAIN_OUTER };

	return is_trace(t, ips, 3, true);
}

bool is_by_fp(const struct trace *t, const void *mem)
{
	unsigned long at = (unsigned long)mem;
	u64 ips[] = { at + AT_MIDDLE, at + PLAIN_FP };

	return is_trace(t, ips, 2, false);
}

void walk_plain(const void *mem, struct trace *t)
{
	struct stack s;

	t->nr = -1;
	if (!plain_stack(&s, mem))
		return;
	table_walk(&s, t);
	stack_end(&s);
}

bool walks_plain(const void *mem, unsigned int n)
{
	struct trace t;

	walk_plain(mem, &t);
	return is_plain(&t, mem, n);
}

bool walks_by_fp(const void *mem)
{
	struct trace t;

	walk_plain(mem, &t);
	return is_by_fp(&t, mem);
}
#endif /* __x86_64__ */
