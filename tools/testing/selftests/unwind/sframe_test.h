/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of SFrame tables share: code that frame pointers cannot walk,
 * put together byte by byte, tables for it, and a look at its stack.
 */
#ifndef _SELFTESTS_SFRAME_TEST_H
#define _SELFTESTS_SFRAME_TEST_H

#include <dlfcn.h>
#include <elf.h>
#include <linux/userfaultfd.h>
#include <sys/prctl.h>

#include "engine_test.h"
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

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME		0x6474e554
#endif
#ifndef PR_ADD_SFRAME
#define PR_ADD_SFRAME		0x53460001
#define PR_REMOVE_SFRAME	0x53460002
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

/* What even stubs move the stack pointer by */
static u8 code_frame = 24;

static inline u8 *code_bytes(u8 *to, const void *bytes, size_t len)
{
	memcpy(to, bytes, len);
	return to + len;
}

static inline u8 *code_call(u8 *to, unsigned long at, unsigned long target)
{
	*to++ = 0xe8;
	return sframe_build_put(to, target - (at + 5), 4);
}

/* Write the code that is to run at @addr to @mem. @odd: odd stubs as well. */
static inline void code_make(struct code *code, u8 *mem, unsigned long addr,
			     bool odd)
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
static inline void code_funcs(const struct code *code, bool odd,
			      struct sframe_build *b)
{
	unsigned int i;

	sframe_build_func(b, code->leaf, 7, SFRAME_BUILD_ROW1);
	sframe_build_sp(b, 0, 8);

	for (i = 0; i < NR_STUBS; i++) {
		if (odd && i % 2) {
			sframe_build_func(b, code->stub[i], 13,
					  SFRAME_BUILD_ROW1);
			sframe_build_sp(b, 0, 8);
			sframe_build_saved(b, 1, SFRAME_BUILD_SP, 16, -16);
			sframe_build_sp(b, 12, 8);
		} else {
			sframe_build_func(b, code->stub[i], 14,
					  SFRAME_BUILD_ROW1);
			sframe_build_sp(b, 0, 8);
			sframe_build_sp(b, 4, 8 + code_frame);
			sframe_build_sp(b, 13, 8);
		}
	}
}

/* Make a table for it that is to be at @addr. Returns its length. */
static inline size_t code_table(const struct code *code, bool odd,
				struct sframe_build *b, unsigned int version,
				bool pcrel, unsigned long addr)
{
	sframe_build_init(b, version, pcrel, addr);
	code_funcs(code, odd, b);
	return sframe_build_finish(b);
}

/*
 * The event that traces come from. It is that of one task, and stays open: a
 * perf event takes long to close.
 */
static __thread struct up_ring stack_ring;
static __thread pid_t stack_ring_tid;

static inline bool stack_ring_open(void)
{
	struct perf_event_attr attr;

	if (stack_ring_tid == my_tid())
		return true;

	/* A child has a copy of its parent's, which is of no use here. */
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	if (up_open_pages(&stack_ring, &attr, 0, -1, -1, 4))
		return false;
	/* getppid() */
	if (ioctl(stack_ring.fd, PERF_EVENT_IOC_SET_FILTER, "id == 110"))
		return false;
	stack_ring_tid = my_tid();
	return true;
}

/*
 * What has been recorded since stack_ring was enabled: the number of addresses,
 * or -1 if there was not exactly one record.
 */
static inline int stack_take(uint64_t *ips)
{
	struct up_rec *rec;
	int nr = -1;

	up_disable(&stack_ring);
	up_drain(&stack_ring);

	rec = up_nth(&stack_ring, UT_RECORD_CALLCHAIN_DEFERRED, 0);
	if (rec && !rec->bad && up_count(&stack_ring, rec->type) == 1) {
		nr = rec->nr < MAX_IPS ? rec->nr : MAX_IPS;
		memcpy(ips, rec->ips, nr * sizeof(*ips));
	}
	up_forget(&stack_ring);
	return nr;
}

/* The user stack of a getppid() that @function is told to make. */
static inline int stack_of(const void *function, uint64_t *ips)
{
	if (!stack_ring_open())
		return -1;
	up_enable(&stack_ring);
	call_code(SYS_getppid, function);
	return stack_take(ips);
}

/* That of one whose stack pointer and frame pointer are @words. */
static inline int stack_of_words(u64 *words, uint64_t *ips)
{
	if (!stack_ring_open())
		return -1;
	up_enable(&stack_ring);
	framed_syscall(SYS_getppid, 0, 0, 0, words, words);
	return stack_take(ips);
}

/* Does the trace of this code have every frame? */
static inline bool is_exact(const struct code *code)
{
	uint64_t ips[MAX_IPS];
	int nr = stack_of((void *)code->top, ips);

	if (nr < (int)code->nr_ips + 1)
		nr = nr < 0 ? 0 : nr;
	else
		nr = code->nr_ips;
	return up_frames_equal(ips, nr, code->ips, code->nr_ips);
}

/* Does it have none but the leaf's? That is how it looks without a table. */
static inline bool is_without_table(const struct code *code)
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
static inline bool is_cut(const struct code *code)
{
	uint64_t ips[MAX_IPS];

	return stack_of((void *)code->top, ips) == 1 && ips[0] == code->ips[0];
}

static inline int add_table(unsigned long start, unsigned long end,
			    unsigned long text_start, unsigned long text_end)
{
	return prctl(PR_ADD_SFRAME, start, end, text_start, text_end) ?
	       -errno : 0;
}

static inline int remove_table(unsigned long start)
{
	return prctl(PR_REMOVE_SFRAME, start, 0, 0, 0) ? -errno : 0;
}

static inline const char *need_sframe(void)
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

/* Layout of the memory of a test: code, table, and the rest */
#define AREA_SIZE	(16 * PAGE)
#define CODE_OFF	(4 * PAGE)
#define TABLE_OFF	(8 * PAGE)
#define TABLE_SIZE	(4 * PAGE)

/* The table that was made last */
static struct sframe_build build;

struct area {
	u8 *mem;
	unsigned long addr;
	unsigned long text;
	unsigned long text_end;
	unsigned long table;
	unsigned long table_end;
	struct code code;
};

static inline u8 *map_anon(unsigned long addr, size_t size, int prot, int flags)
{
	return mmap((void *)addr, size, prot,
		    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/* Put new, empty memory over what is there. */
static inline bool map_over(unsigned long addr, size_t size, int prot)
{
	return map_anon(addr, size, prot, MAP_FIXED) == (u8 *)addr;
}

#define PROT_CODE	(PROT_READ | PROT_WRITE | PROT_EXEC)

/* Code at @text and a table for it at @table; not added yet. */
static inline bool area_place(struct area *area, u8 *text, u8 *table,
			      unsigned int version, bool pcrel, bool odd)
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
static inline bool area_fill(struct area *area, u8 *mem, unsigned int version,
			     bool pcrel, bool odd)
{
	area->mem = mem;
	area->addr = (unsigned long)area->mem;
	return area_place(area, area->mem + CODE_OFF, area->mem + TABLE_OFF,
			  version, pcrel, odd);
}

/* The same in anonymous memory of its own */
static inline bool area_make(struct area *area, unsigned int version, bool pcrel,
			     bool odd)
{
	u8 *mem = map_anon(0, AREA_SIZE, PROT_CODE, 0);

	return mem != MAP_FAILED && area_fill(area, mem, version, pcrel, odd);
}

static inline int area_add(struct area *area)
{
	return add_table(area->table, area->table_end, area->text,
			 area->text_end);
}

/* What @child returns is its exit status. */
static inline int in_child(int (*child)(struct area *area), struct area *area)
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

static inline int child_is_exact(struct area *area)
{
	return is_exact(&area->code) ? 0 : 1;
}

static inline int child_is_without_table(struct area *area)
{
	return is_without_table(&area->code) ? 0 : 1;
}

static inline int uffd_on(unsigned long addr, size_t len)
{
	struct uffdio_register reg = {
		.range = { addr, len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) ||
	    ioctl(fd, UFFDIO_REGISTER, &reg))
		return -1;
	return fd;
}

/* ------------------------------------------------------------------------ */
/* Files with tables							      */

/*
 * A file with the shape of a library: headers and table in its first segment,
 * code in the next.
 */
#define FILE_TABLE	0x400UL
#define FILE_TEXT	(2 * PAGE)
#define FILE_SIZE	(4 * PAGE)

enum { PH_HEADERS, PH_TEXT, PH_SFRAME, PH_SPARE, PH_NR };

struct image {
	int fd;
	u8 *file;
	Elf64_Ehdr *ehdr;
	Elf64_Phdr *phdr;
	unsigned long addr;
	struct code code;
};

static inline void image_phdr(Elf64_Phdr *phdr, unsigned int type,
			      unsigned int flags, unsigned long off,
			      unsigned long vaddr, size_t size)
{
	phdr->p_type = type;
	phdr->p_flags = flags;
	phdr->p_offset = off;
	phdr->p_vaddr = vaddr;
	phdr->p_filesz = size;
	phdr->p_memsz = size;
	phdr->p_align = PAGE;
}

/* Make the file, for @addr. Its headers can be changed until image_map(). */
static inline bool image_make(struct image *image, unsigned int version, bool pcrel)
{
	size_t len;

	image->fd = memfd_create("image", 0);
	if (image->fd < 0 || ftruncate(image->fd, FILE_SIZE))
		return false;
	image->file = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			   image->fd, 0);
	/* Room with space below and above */
	image->addr = (unsigned long)map_anon(0, 4 * FILE_SIZE, PROT_NONE, 0);
	if (image->file == MAP_FAILED || image->addr == -1UL)
		return false;
	image->addr += FILE_SIZE;

	code_make(&image->code, image->file + FILE_TEXT,
		  image->addr + FILE_TEXT, true);
	len = code_table(&image->code, true, &build, version, pcrel,
			 image->addr + FILE_TABLE);
	memcpy(image->file + FILE_TABLE, build.mem, len);

	image->ehdr = (Elf64_Ehdr *)image->file;
	image->phdr = (Elf64_Phdr *)(image->ehdr + 1);
	memcpy(image->ehdr->e_ident, ELFMAG, SELFMAG);
	image->ehdr->e_ident[EI_CLASS] = ELFCLASS64;
	image->ehdr->e_ident[EI_DATA] = ELFDATA2LSB;
	image->ehdr->e_ident[EI_VERSION] = EV_CURRENT;
	image->ehdr->e_type = ET_DYN;
	image->ehdr->e_machine = EM_X86_64;
	image->ehdr->e_version = EV_CURRENT;
	image->ehdr->e_phoff = sizeof(Elf64_Ehdr);
	image->ehdr->e_ehsize = sizeof(Elf64_Ehdr);
	image->ehdr->e_phentsize = sizeof(Elf64_Phdr);
	image->ehdr->e_phnum = PH_NR;
	image_phdr(&image->phdr[PH_HEADERS], PT_LOAD, PF_R, 0, 0, FILE_TEXT);
	image_phdr(&image->phdr[PH_TEXT], PT_LOAD, PF_R | PF_X, FILE_TEXT,
		   FILE_TEXT, PAGE);
	image_phdr(&image->phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, FILE_TABLE,
		   FILE_TABLE, len);
	/* Not used, but has the file's first byte */
	image_phdr(&image->phdr[PH_SPARE], PT_NULL, PF_R, 0, 16 * PAGE, PAGE);
	return true;
}

/* Map it as a loader does. */
static inline bool image_map(struct image *image)
{
	void *headers = (void *)image->addr;
	void *text = (void *)(image->addr + FILE_TEXT);

	return mmap(headers, FILE_TEXT, PROT_READ, MAP_PRIVATE | MAP_FIXED,
		    image->fd, 0) == headers &&
	       mmap(text, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
		    image->fd, FILE_TEXT) == text;
}

static inline void image_free(struct image *image)
{
	munmap((void *)(image->addr - FILE_SIZE), 4 * FILE_SIZE);
	munmap(image->file, FILE_SIZE);
	close(image->fd);
}

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
	/* Behind the call in the entry point that it has as a program */
	uint64_t start;
};

static inline bool lib_open(struct lib *lib, const char *path)
{
	static const char * const names[LIB_IPS] = {
		"sframe_lib_ip_leaf", "sframe_lib_ip_inner",
		"sframe_lib_ip_middle", "sframe_lib_ip_call",
	};
	unsigned int i;

	lib->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib->handle) {
		fprintf(stderr, "# %s\n", dlerror());
		return false;
	}
	lib->call = dlsym(lib->handle, "sframe_lib_call");
	for (i = 0; i < LIB_IPS; i++)
		lib->ips[i] = (uint64_t)dlsym(lib->handle, names[i]);
	lib->ips[LIB_IPS] = (uint64_t)call_code_ip;
	lib->start = (uint64_t)dlsym(lib->handle, "sframe_lib_ip_start");
	return lib->call && lib->start;
}

/* Does the trace of a system call from within have every frame? */
static inline bool lib_is_exact(const struct lib *lib)
{
	uint64_t ips[MAX_IPS];
	int nr = stack_of((void *)lib->call, ips);

	if (nr > LIB_IPS + 1)
		nr = LIB_IPS + 1;
	return up_frames_equal(ips, nr < 0 ? 0 : nr, lib->ips, LIB_IPS + 1);
}

static inline const char *need_lib(void)
{
	if (need_sframe())
		return need_sframe();
	if (access(test_file("sframe_lib.so"), R_OK))
		return "sframe_lib.so is not built (assembler)";
	return NULL;
}

/* ------------------------------------------------------------------------ */
/* The kernel's own tracepoints					      */

/* The lines of the trace buffer that have @what. */
static inline int trace_count(const char *what)
{
	char path[128], line[512];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/trace", tracefs());
	f = fopen(path, "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		n += !!strstr(line, what);
	fclose(f);
	return n;
}

static inline int trace_event(const char *name, bool on)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/events/unwind/%s/enable", tracefs(), name);
	return write_file(path, on ? "1" : "0");
}

static inline void trace_clear(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/trace", tracefs());
	close(open(path, O_WRONLY | O_TRUNC));
}

#endif
