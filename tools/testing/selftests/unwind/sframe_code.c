// SPDX-License-Identifier: GPL-2.0
/*
 * Shared by the tests of SFrame tables.
 */

#include "sframe_code.h"

u8 code_frame = 24;
struct sframe_build build;

asm(".pushsection .text\n"
	".globl call_code, call_code_ip\n"
	".type call_code, @function\n"
	"call_code:\n"
	"	push	%rbp\n"
	"	mov	%rsp, %rbp\n"
	"	call	*%rsi\n"
	"call_code_ip:\n"
	"	mov	%rbp, %rsp\n"
	"	pop	%rbp\n"
	"	ret\n"
	".size call_code, . - call_code\n"
	".popsection\n");

u8 *code_bytes(u8 *to, const void *bytes, size_t len)
{
	memcpy(to, bytes, len);
	return to + len;
}

u8 *code_call(u8 *to, unsigned long at, unsigned long target)
{
	*to++ = 0xe8;
	return sframe_build_put(to, target - (at + 5), 4);
}

/* Write the code that is to run at @addr to @mem. @odd: odd stubs as well. */
void code_make(struct code *code, u8 *mem, unsigned long addr, bool odd)
{
	unsigned long target = addr;
	unsigned int i;
	u8 *to;

	memset(mem, 0xcc, STUB_SIZE * (NR_STUBS + 1));
	code->addr = addr;
	code->leaf = addr;
	code->nr_ips = 0;

	/*
	 * mov %rdi, %rax; syscall; nop; ret. The walker knows what to make of
	 * a ret, so there must not be one at the address.
	 */
	code_bytes(mem, "\x48\x89\xf8\x0f\x05\x90\xc3", 7);
	code->ips[code->nr_ips++] = addr + 5;

	for (i = 0; i < NR_STUBS; i++) {
		unsigned long at = addr + STUB_SIZE * (i + 1);

		to = mem + STUB_SIZE * (i + 1);
		code->stub[i] = at;
		if (odd && i % 2) {
			/* push %rbp; mov $0x1230 + i, %ebp; call; pop; ret */
			to = code_bytes(to, "\x55\xbd", 2);
			to = sframe_build_put(to, 0x1230 + i, 4);
			to = code_call(to, at + 6, target);
			code_bytes(to, "\x5d\xc3", 2);
			code->ips[code->nr_ips++] = at + 11;
		} else {
			/* sub $24, %rsp; call; add $24, %rsp; ret */
			to = code_bytes(to, "\x48\x83\xec", 3);
			*to++ = code_frame;
			to = code_call(to, at + 4, target);
			to = code_bytes(to, "\x48\x83\xc4", 3);
			*to++ = code_frame;
			*to++ = 0xc3;
			code->ips[code->nr_ips++] = at + 9;
		}
		target = at;
	}
	code->top = target;
	code->end = addr + STUB_SIZE * (NR_STUBS + 1);
	code->ips[code->nr_ips++] = (unsigned long)call_code_ip;
}

/* Put its functions into a table. */
void code_funcs(const struct code *code, bool odd, struct sframe_build *b)
{
	unsigned int i;

	sframe_build_func(b, code->leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(b, 0, 8);

	for (i = 0; i < NR_STUBS; i++) {
		const bool saves = odd && i % 2;

		sframe_build_func(b, code->stub[i], saves ? 13 : 14, SFRAME_BUILD_ROW1);
		sframe_build_sp(b, 0, 8);
		if (saves) {
			sframe_build_saved(b, 1, SFRAME_BUILD_SP, 16, -16);
			sframe_build_sp(b, 12, 8);
		} else {
			sframe_build_sp(b, 4, 8 + code_frame);
			sframe_build_sp(b, 13, 8);
		}
	}
}

/* Make a table for it that is to be at @addr. Returns its length. */
size_t code_table(const struct code *code, bool odd, struct sframe_build *b,
		  unsigned int version, bool pcrel, unsigned long addr)
{
	sframe_build_init(b, version, pcrel, addr);
	code_funcs(code, odd, b);
	return sframe_build_finish(b);
}

/* A function whose CFA is at a fixed distance from the stack pointer, in the table in @build */
void func_sp(unsigned long start, u32 size, s32 cfa)
{
	sframe_build_func(&build, start, size, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, cfa);
}

/* Finish that table, and write it to @addr. */
void table_write(unsigned long addr)
{
	memcpy((void *)addr, build.mem, sframe_build_finish(&build));
}

/* ------------------------------------------------------------------------ */
/* A look at a stack							      */

__thread struct up_ring stack_ring;
__thread pid_t stack_ring_tid;

/* The event of one system call of a task */
bool syscall_ring_open(struct up_ring *ring, pid_t pid, long nr)
{
	struct perf_event_attr attr;
	char filter[32];

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"), DEFER_BITS);
	attr.exclude_callchain_kernel = 1;
	snprintf(filter, sizeof(filter), "id == %ld", nr);
	return !up_open_pages(ring, &attr, pid, -1, -1, 4) &&
	       !ioctl(ring->fd, PERF_EVENT_IOC_SET_FILTER, filter);
}

bool stack_ring_open(void)
{
	if (stack_ring_tid == my_tid())
		return true;

	/* A child has a copy of its parent's, which is of no use here. */
	if (!syscall_ring_open(&stack_ring, 0, SYS_getppid))
		return false;
	stack_ring_tid = my_tid();
	return true;
}

/*
 * The number of addresses recorded since stack_ring was enabled, or -1 if there was
 * not exactly one record.
 */
int stack_take(uint64_t *ips)
{
	struct up_rec *rec;
	int nr = -1;

	up_disable(&stack_ring);
	up_drain(&stack_ring);

	rec = up_nth(&stack_ring, in_place ? PERF_RECORD_SAMPLE :
					     UT_RECORD_CALLCHAIN_DEFERRED, 0);
	if (rec && !rec->bad && up_count(&stack_ring, rec->type) == 1) {
		if (in_place)
			rec = up_answer(&stack_ring, rec);
		nr = rec->nr < MAX_IPS ? rec->nr : MAX_IPS;
		memcpy(ips, rec->ips, nr * sizeof(*ips));
	}
	up_forget(&stack_ring);
	return nr;
}

/* The user stack of a getppid() that @function is told to make. */
int stack_of(const void *function, uint64_t *ips)
{
	if (!stack_ring_open())
		return -1;
	up_enable(&stack_ring);
	call_code(SYS_getppid, function);
	return stack_take(ips);
}

/* That of one whose stack pointer and frame pointer are @words. */
int stack_of_words(u64 *words, uint64_t *ips)
{
	if (!stack_ring_open())
		return -1;
	up_enable(&stack_ring);
	framed_syscall(SYS_getppid, 0, 0, 0, words, words);
	return stack_take(ips);
}

/* The number of its addresses, cold and warm; -1 if that is not the same */
int frames_of_words(u64 *words)
{
	uint64_t ips[MAX_IPS];
	int nr = stack_of_words(words, ips);

	return stack_of_words(words, ips) == nr ? nr : -1;
}

/*
 * A child that makes the system call @nr, of which @ring tells, and its exit status. It
 * does nothing before the event is there.
 */
bool stack_of_child(struct up_ring *ring, long nr, void (*child)(const void *arg),
		    const void *arg, int *status)
{
	bool ok;
	int go[2];
	pid_t pid;
	char c = 0;

	if (pipe(go))
		return false;
	pid = fork();
	if (!pid) {
		alarm(60);
		if (read(go[0], &c, 1) == 1)
			child(arg);
		_exit(99);
	}
	ok = pid > 0 && syscall_ring_open(ring, pid, nr) && !up_enable(ring) &&
	     write(go[1], &c, 1) == 1;
	close(go[0]);
	close(go[1]);
	if (waitpid(pid, status, 0) != pid || !ok)
		return false;
	up_drain(ring);
	return true;
}

/* Does the stack of @function begin with these? */
static bool begins_with(const void *function, const uint64_t *want, int nr_want)
{
	uint64_t ips[MAX_IPS];
	int nr = stack_of(function, ips);

	if (nr > nr_want)
		nr = nr_want;
	return up_frames_equal(ips, nr < 0 ? 0 : nr, want, nr_want);
}

/* Does the trace of this code have every frame? */
bool is_exact(const struct code *code)
{
	return begins_with((void *)code->top, code->ips, code->nr_ips);
}

/* Does it have only the leaf's? That is the trace without a table. */
bool is_without_table(const struct code *code)
{
	uint64_t ips[MAX_IPS];
	int i, nr = stack_of((void *)code->top, ips);

	if (nr < 1 || ips[0] != code->ips[0])
		return false;
	for (i = 1; i < nr; i++) {
		if (ips[i] >= code->addr && ips[i] < code->end) {
			fprintf(stderr, "# frame %d is %#llx\n", i,
				(unsigned long long)ips[i]);
			return false;
		}
	}
	return true;
}

/* Does it end at the leaf? It does where a table cannot be read. */
bool is_cut(const struct code *code)
{
	uint64_t ips[MAX_IPS];

	return stack_of((void *)code->top, ips) == 1 && ips[0] == code->ips[0];
}

bool stays_exact(const struct code *code)
{
	return is_exact(code) && is_exact(code);
}

bool stays_without_table(const struct code *code)
{
	return is_without_table(code) && is_without_table(code);
}

/* Let all functions of the table in @build start after all code, the last first. */
void spoil_index(u8 *table)
{
	u8 *fdes = table + SFRAME_BUILD_HEADER;
	u32 i;

	for (i = 0; i < build.nr_funcs; i++) {
		s64 start = 0x10000000 + 0x1000 * (s64)(build.nr_funcs - i);

		if (build.version == 2)
			*(s32 *)(fdes + i * 20) = start;
		else
			*(s64 *)(fdes + i * 16) = start;
	}
}

int add_table(unsigned long start, unsigned long end, unsigned long text_start,
	      unsigned long text_end)
{
	return prctl(PR_ADD_SFRAME, start, end, text_start, text_end) ?
	       -errno : 0;
}

int remove_table(unsigned long start)
{
	return prctl(PR_REMOVE_SFRAME, start, 0, 0, 0) ? -errno : 0;
}

const char *need_sframe(void)
{
	if (need_perf_deferred())
		return need_perf_deferred();
	if (need_tracepoint("raw_syscalls", "sys_enter"))
		return need_tracepoint("raw_syscalls", "sys_enter");
	if (remove_table(8) == -EINVAL)
		return "this kernel does not read SFrame tables";
	return NULL;
}

/* ------------------------------------------------------------------------ */
/* Code with a table in anonymous memory				      */

u8 *map_anon(unsigned long addr, size_t size, int prot, int flags)
{
	return mmap((void *)addr, size, prot,
		    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/* Put new, empty memory over the present one. */
bool map_over(unsigned long addr, size_t size, int prot)
{
	return map_anon(addr, size, prot, MAP_FIXED) == (u8 *)addr;
}

bool map_fd(unsigned long addr, size_t size, int prot, int flags, int fd, off_t offset)
{
	return mmap((void *)addr, size, prot, flags | MAP_FIXED, fd, offset) == (void *)addr;
}

/* With @flags for mremap(), if it is more than to move */
bool move_page(unsigned long from, unsigned long to, int flags)
{
	return mremap((void *)from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | flags,
		      (void *)to) == (void *)to;
}

/* Put new memory with such code over the present one. */
bool code_anew(struct code *code, unsigned long addr)
{
	if (!map_over(addr, PAGE, PROT_CODE))
		return false;
	code_make(code, (u8 *)addr, addr, true);
	return true;
}

/* Put it into a mapping of its own. */
bool code_elsewhere(struct code *code)
{
	u8 *mem = map_anon(0, PAGE, PROT_CODE, 0);

	if (mem == MAP_FAILED || map_anon(0, PAGE, PROT_NONE, 0) == MAP_FAILED)
		return false;
	code_make(code, mem, (unsigned long)mem, true);
	return true;
}

/* Code at @text and a table for it at @table; not added yet. */
bool area_place(struct area *area, u8 *text, u8 *table, unsigned int version,
		bool pcrel, bool odd)
{
	size_t len;

	area->text = (unsigned long)text;
	area->table = (unsigned long)table;
	area->table_end = area->table + TABLE_SIZE;

	code_make(&area->code, text, area->text, odd);
	area->text_end = area->code.end;
	len = code_table(&area->code, odd, &build, version, pcrel, area->table);
	if (len > TABLE_SIZE)
		return false;
	memcpy(table, build.mem, len);
	return true;
}

/* Both in @mem, AREA_SIZE bytes */
bool area_fill(struct area *area, u8 *mem, unsigned int version, bool pcrel,
	       bool odd)
{
	area->mem = mem;
	area->addr = (unsigned long)area->mem;
	return area_place(area, area->mem + CODE_OFF, area->mem + TABLE_OFF,
			  version, pcrel, odd);
}

/* Both in anonymous memory of their own */
bool area_make(struct area *area, unsigned int version, bool pcrel, bool odd)
{
	u8 *mem = map_anon(0, AREA_SIZE, PROT_CODE, 0);

	return mem != MAP_FAILED && area_fill(area, mem, version, pcrel, odd);
}

int area_add(struct area *area)
{
	return add_table(area->table, area->table_end, area->text,
			 area->text_end);
}

/* The result of @child is its exit status. */
int in_child(int (*child)(struct area *area), struct area *area)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		alarm(60);
		_exit(child(area));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

int child_is_exact(struct area *area)
{
	return is_exact(&area->code) ? 0 : 1;
}

int child_remove_error(struct area *area)
{
	return -remove_table(area->table);
}

int child_is_without_table(struct area *area)
{
	return is_without_table(&area->code) ? 0 : 1;
}

/* Does the trace of a system call from within have every frame? */
bool lib_is_exact(const struct lib *lib)
{
	return begins_with((void *)lib->call, lib->ips, LIB_IPS + 1);
}

/* ------------------------------------------------------------------------ */
/* The kernel's own tracepoints					      */

static const char *trace_path(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/trace", tracefs());
	return path;
}

/* Lines of the trace that have @what, and @task if that is not NULL. */
static int trace_lines(const char *what, const char *task)
{
	char line[512];
	int n = 0;
	FILE *f;

	f = fopen(trace_path(), "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		n += strstr(line, what) && (!task || strstr(line, task));
	fclose(f);
	return n;
}

int trace_count(const char *what)
{
	return trace_lines(what, NULL);
}

/* Only what the calling thread has done */
int trace_count_of_task(const char *what)
{
	char task[16];

	snprintf(task, sizeof(task), "-%d ", my_tid());
	return trace_lines(what, task);
}

int trace_event_of(const char *system, const char *name, bool on)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/events/%s/%s/enable", tracefs(), system,
		 name);
	return write_file(path, on ? "1" : "0");
}

int trace_event(const char *name, bool on)
{
	return trace_event_of("unwind", name, on);
}

void trace_clear(void)
{
	close(open(trace_path(), O_WRONLY | O_TRUNC));
}
