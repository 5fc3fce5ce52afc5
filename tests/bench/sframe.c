// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of a user frame whose caller a table tells: the deferred unwind of a getppid()
 * below a chain of functions without frame pointers. Run it in a guest that counts
 * instructions as time.
 *
 * The functions are those of shared libraries that are made here: so many
 * functions in a file, which is mapped as so many libraries, and each frame is in
 * another library than its caller. A chain that is walked again and again is warm.
 * For a cold one, each frame of each walk is at another call site, and the rules
 * that the kernel has cached are made worthless before. At last, mappings elsewhere are
 * changed before each walk of a warm one; and of tables for files, before each walk another
 * process attaches a table to files of its own, which are then removed with it.
 *
 * sframe VERSION... prints for each version of the SFrame format (0: a table for the
 * file, by /dev/unwind_tables), number of functions and number of libraries:
 *
 *	VERSION FUNCTIONS LIBRARIES W1 W100 F100 M100 O1 O100
 *
 * instructions of a system call and its unwind, below 1 and 100 frames, and below 100
 * when the libraries are walked for the first time, and after a change of mappings; and
 * beside other files, 0 if there are no tables for files. Each frame has another call site:
 * where the kernel's cache has two rules (unwind_rules=2), all rules are looked up.
 *
 * sframe worst prints the instructions of the longest walk at the event, with the system call:
 *
 *	worst TABLES
 *
 * It has as many frames as a sample has, each in a file that is mapped elsewhere than the
 * kernel knows, with as many rows in each block and as long a rule as there may be.
 *
 * sframe fresh prints the instructions of the first walk of a process, by tables whose rules
 * another process has looked up, with the system call, by number of calls:
 *
 *	fresh CALLS_10 CALLS_100
 */
#define _GNU_SOURCE
#include <elf.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include <linux/unwind_table.h>

#include "bench.h"
#include "../sframe/sframe_build.h"

#ifndef PT_GNU_SFRAME
#define PT_GNU_SFRAME		0x6474e554
#endif
#define PR_ADD_SFRAME		0x53460001
#define PR_REMOVE_SFRAME	0x53460002
#define RECORD_DEFERRED		22

#define PAGE		4096UL
#define RING_PAGES	64
#define GETPPID_ONLY	"id == 110"

#define DEPTH		100
#define ROUNDS		25

/* Frames of the longest walk, as many as a sample has */
#define WORST_FRAMES	127

/* Where the libraries are: the same each time, since caches go by addresses. */
#define LIBRARIES	0x100000000000UL
#define MAX_LIBRARIES	300

/* Layout of a library: headers, table, code */
#define TABLE_OFF	256
#define FUNC_LEN	128
#define SITES		16

/* Function i is of shape i % SHAPES, and pushes one register more than that. */
#define SHAPES		3

struct shape {
	u8	code[FUNC_LEN];
	u32	len;
	u32	body;
	/* As the table has them; version 3 with the attribute in front */
	const u8 *rows;
	u32	rows_len;
	u32	num_rows;
	/* For a table for the file; a rule is an index in rules */
	struct unwind_table_row table_rows[FUNC_LEN];
	u32	num_table_rows;
};

/* A frame's call site, and the function that it calls */
struct link {
	u64	site;
	u64	callee;
};

static unsigned int version;
static unsigned long functions;
static unsigned long libraries;

static struct shape shapes[SHAPES];
static struct sframe_build build;
static struct unwind_table_rule rules[16];
static u32 nr_rules;
static int tables;
static int table;

static int file;
static u8 *file_mem;
static u64 file_len;
static u64 text_off;

static struct link chain[WORST_FRAMES];
static u64 chain_start;
static u64 returns[WORST_FRAMES];
/* How far behind LIBRARIES they are */
static u64 moved;

/* Have walks take as long as they can */
static bool worst;

static int event;
static struct perf_event_mmap_page *ring;
/* Of the last system call, by leaf() */
u32 cost;

/* Bytes of the code in which the return address of site @i is a place */
static u32 site_off(const struct shape *shape, unsigned int i)
{
	return shape->body + 7 + 5 * i;
}

/* From @offset on the CFA is SP + @cfa, and the FP saved if @saved. */
static void add_row(struct shape *shape, u32 offset, int cfa, bool saved, int fp)
{
	struct unwind_table_rule rule = {
		.kind = UNWIND_TABLE_CALLER,
		.cfa = { .off = cfa, .where = UNWIND_TABLE_REG, .reg = 7 },
		.ra = { .off = -8, .where = UNWIND_TABLE_CFA_DEREF },
		.fp = { .where = UNWIND_TABLE_SAME },
	};
	u32 i;

	if (saved)
		rule.fp = (struct unwind_table_loc) {
			.off = fp, .where = UNWIND_TABLE_CFA_DEREF };
	/* It says the same, and does not fit into a word. */
	if (worst)
		rule.ra = (struct unwind_table_loc) {
			.off = cfa - 8, .where = UNWIND_TABLE_REG_DEREF, .reg = 7 };
	for (i = 0; i < nr_rules && memcmp(&rules[i], &rule, sizeof(rule)); i++)
		;
	if (i == nr_rules)
		rules[nr_rules++] = rule;
	shape->table_rows[shape->num_table_rows++] =
		(struct unwind_table_row) { offset, i };
}

/* A row for each byte of @shape, without another rule for any of them */
static void repeat_rows(struct shape *shape)
{
	struct unwind_table_row *rows = shape->table_rows;
	u32 row = shape->num_table_rows - 1, offset;

	for (offset = FUNC_LEN; offset--;) {
		rows[offset] = (struct unwind_table_row) { offset, rows[row].rule };
		if (row && rows[row].offset == offset)
			row--;
	}
	shape->num_table_rows = FUNC_LEN;
}

/*
 *	push ...			one to three registers; where it is two
 *					the last but one is %rbp
 *	add $16, %rbx			on to the next link of the chain
 *	jmp *-16(%rbx)			to one of
 *	call *-8(%rbx); jmp 1f		SITES times
 * 1:	pop ...
 *	ret
 */
static void make_shape(struct shape *shape, unsigned int pushes)
{
	unsigned int saved = pushes > 1 ? pushes - 2 : pushes, i;
	int fp = -8 * (int)pushes;
	u8 *to = shape->code;
	u32 end;

	sframe_build_func(&build, 0, 0, SFRAME_BUILD_ROW1);
	sframe_build_sp(&build, 0, 8);
	shape->num_table_rows = 0;
	add_row(shape, 0, 8, false, 0);

	for (i = 0; i < pushes; i++) {
		*to++ = i == saved ? 0x55 : 0x50;
		if (i < saved)
			sframe_build_sp(&build, i + 1, 16 + 8 * i);
		else
			sframe_build_saved(&build, i + 1, SFRAME_BUILD_SP,
					   16 + 8 * i, fp);
		add_row(shape, i + 1, 16 + 8 * i, i >= saved, fp);
	}

	shape->body = to - shape->code;
	memcpy(to, "\x48\x83\xc3\x10\xff\x63\xf0", 7);
	to += 7;
	end = site_off(shape, SITES);
	for (i = 0; i < SITES; i++) {
		memcpy(to, "\xff\x53\xf8\xeb", 4);
		to[4] = end - site_off(shape, i + 1);
		to += 5;
	}

	for (i = pushes; i--;) {
		*to++ = i == saved ? 0x5d : 0x5a;
		if (i <= saved)
			sframe_build_sp(&build, to - shape->code, 8 + 8 * i);
		else
			sframe_build_saved(&build, to - shape->code,
					   SFRAME_BUILD_SP, 8 + 8 * i, fp);
		add_row(shape, to - shape->code, 8 + 8 * i, i > saved, fp);
	}
	*to++ = 0xc3;
	shape->len = to - shape->code;
	if (worst)
		repeat_rows(shape);
}

static void make_shapes(void)
{
	unsigned int i;

	sframe_build_init(&build, version ?: 3, true, 0);
	nr_rules = 0;
	for (i = 0; i < SHAPES; i++)
		make_shape(&shapes[i], i + 1);
	sframe_build_finish(&build);

	for (i = 0; i < SHAPES; i++) {
		u32 off = build.funcs[i].rows_off;
		u32 end = i + 1 < SHAPES ? build.funcs[i + 1].rows_off :
					   build.rows_len;

		shapes[i].rows = build.rows + off;
		shapes[i].rows_len = end - off;
		shapes[i].num_rows = build.funcs[i].num_rows;
	}
}

static u64 library_at(unsigned long i)
{
	/* There is room to move each of them. */
	return LIBRARIES + moved + i * (file_len + (worst ? 2 * ROUNDS * PAGE : 0));
}

static u64 func_off(unsigned long i)
{
	return text_off + i * FUNC_LEN;
}

/* Index entry of function @i, @at is its place in the file. */
static u8 *put_fde(u8 *to, u64 at, unsigned long i, u32 rows_off)
{
	const struct shape *shape = &shapes[i % SHAPES];

	to = sframe_build_put(to, func_off(i) - at, version == 2 ? 4 : 8);
	to = sframe_build_put(to, shape->len, 4);
	to = sframe_build_put(to, rows_off, 4);
	if (version == 2) {
		to = sframe_build_put(to, shape->num_rows, 4);
		to = sframe_build_put(to, SFRAME_BUILD_ROW1, 4);
	}
	return to;
}

static void make_table(u32 fdes_len)
{
	u8 *to, *rows, *all_rows;
	unsigned long i;

	build.nr_funcs = functions;
	to = sframe_build_header(&build, file_mem + TABLE_OFF, fdes_len);
	all_rows = to + fdes_len;
	rows = all_rows;
	for (i = 0; i < functions; i++) {
		const struct shape *shape = &shapes[i % SHAPES];

		to = put_fde(to, to - file_mem, i, rows - all_rows);
		memcpy(rows, shape->rows, shape->rows_len);
		rows += shape->rows_len;
	}
}

static void make_headers(u64 table_len)
{
	Elf64_Ehdr ehdr = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
			     ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(ehdr),
		.e_ehsize = sizeof(ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = version ? 3 : 2,
	};
	u64 text_len = functions * FUNC_LEN;
	Elf64_Phdr phdrs[] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R, .p_align = PAGE,
		  .p_filesz = text_off, .p_memsz = text_off },
		{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_align = PAGE,
		  .p_offset = text_off, .p_vaddr = text_off,
		  .p_filesz = text_len, .p_memsz = text_len },
		{ .p_type = PT_GNU_SFRAME, .p_flags = PF_R, .p_align = 8,
		  .p_offset = TABLE_OFF, .p_vaddr = TABLE_OFF,
		  .p_filesz = table_len, .p_memsz = table_len },
	};

	memcpy(file_mem, &ehdr, sizeof(ehdr));
	memcpy(file_mem + sizeof(ehdr), phdrs, ehdr.e_phnum * sizeof(phdrs[0]));
}

static void open_tables(void)
{
	tables = open("/dev/unwind_tables", O_RDWR);
	if (tables < 0)
		err(1, "/dev/unwind_tables");
}

/* The table for the file: bytes outside of functions are never executed. */
static void make_file_table(void)
{
	u32 nr_pages = (file_len - text_off) / PAGE, nr_rows = 0, nr_blocks, *blocks;
	struct unwind_table_make make = { .size = sizeof(make) };
	struct unwind_table_header *header;
	struct unwind_table_row *rows;
	struct unwind_table_run *run;
	u32 shift = UNWIND_TABLE_MIN_BLOCK_SHIFT, row = 0, j;
	unsigned long i, *at;

	for (i = 0; i < functions; i++)
		nr_rows += shapes[i % SHAPES].num_table_rows;
	/* Blocks of some eight rows, as the library makes them */
	while (shift < UNWIND_TABLE_MAX_BLOCK_SHIFT &&
	       (worst || nr_pages * (PAGE >> shift) * 8 > nr_rows))
		shift++;
	nr_blocks = nr_pages * (PAGE >> shift);
	at = calloc(nr_rows, sizeof(*at));
	make.len = sizeof(*header) + sizeof(*run) + (nr_blocks + 1) * sizeof(*blocks) +
		   nr_rows * sizeof(*rows) + nr_rules * sizeof(rules[0]);
	header = calloc(1, make.len);
	if (!header || !at)
		err(1, "table of %llu bytes", (unsigned long long)make.len);
	make.data = (u64)header;
	*header = (struct unwind_table_header) {
		.magic = UNWIND_TABLE_MAGIC, .version = UNWIND_TABLE_VERSION,
		.machine = EM_X86_64, .word_size = 8,
		.nr_runs = 1,
		.nr_pages = nr_pages, .nr_rows = nr_rows, .nr_rules = nr_rules,
		.block_shift = shift };
	run = (void *)(header + 1);
	run->page = text_off / PAGE;
	run->nr_pages = nr_pages;
	blocks = (void *)(run + 1);
	rows = (void *)(blocks + nr_blocks + 1);
	nr_rows = 0;
	for (i = 0; i < functions; i++) {
		const struct shape *shape = &shapes[i % SHAPES];
		u32 start = i * FUNC_LEN % PAGE;

		for (j = 0; j < shape->num_table_rows; j++) {
			at[nr_rows] = i * FUNC_LEN + shape->table_rows[j].offset;
			rows[nr_rows] = shape->table_rows[j];
			rows[nr_rows++].offset += start;
		}
	}
	/* The row that applies at the last byte of each block */
	for (i = 0; i < nr_blocks; i++) {
		while (row + 1 < nr_rows && at[row + 1] < (i + 1) << shift)
			row++;
		blocks[i + 1] = row;
	}
	free(at);
	memcpy(rows + nr_rows, rules, nr_rules * sizeof(rules[0]));

	table = ioctl(tables, UNWIND_TABLE_MAKE, &make);
	if (table < 0)
		err(1, "UNWIND_TABLE_MAKE");
	free(header);
}

static void attach_table(void)
{
	struct unwind_table_attach attach = {
		.size = sizeof(attach), .flags = UNWIND_TABLE_ATTACH_FD,
		.table = table, .file = file, .address = library_at(0) + text_off };
	struct stat st;

	attach.pidfd = syscall(SYS_pidfd_open, getpid(), 0);
	if (attach.pidfd < 0 || fstat(file, &st))
		err(1, "pidfd_open, fstat");
	attach.file_size = st.st_size;
	attach.mtime_sec = st.st_mtim.tv_sec;
	attach.mtime_nsec = st.st_mtim.tv_nsec;
	/* The file may have been written in this very tick of the clock. */
	while (ioctl(tables, UNWIND_TABLE_ATTACH, &attach) && errno != EEXIST) {
		if (errno != ETXTBSY)
			err(1, "UNWIND_TABLE_ATTACH");
	}
	close(attach.pidfd);
}

/* A table is for a file that nobody writes to any more: all functions are there. */
static void finish_file(const char *path)
{
	unsigned long i;

	for (i = 0; i < functions; i++)
		memcpy(file_mem + func_off(i), shapes[i % SHAPES].code, FUNC_LEN);
	munmap(file_mem, file_len);
	close(file);
	file = open(path, O_RDONLY);
	if (file < 0)
		err(1, "%s", path);
	file_mem = mmap(NULL, file_len, PROT_READ, MAP_SHARED, file, 0);
	if (file_mem == MAP_FAILED)
		err(1, "mmap");
	make_file_table();
}

static void make_file(void)
{
	static const char path[] = "/tmp/library";
	u32 fdes_len = functions * (version == 2 ? 20 : 16), i;
	u64 table_len;

	make_shapes();
	build.rows_len = 0;
	build.nr_rows = 0;
	for (i = 0; i < functions; i++) {
		build.rows_len += shapes[i % SHAPES].rows_len;
		build.nr_rows += shapes[i % SHAPES].num_rows;
	}
	table_len = version ? SFRAME_BUILD_HEADER + fdes_len + (u64)build.rows_len : 0;
	text_off = (TABLE_OFF + table_len + PAGE - 1) & -PAGE;
	file_len = (text_off + functions * FUNC_LEN + PAGE - 1) & -PAGE;

	unlink(path);
	file = open(path, O_RDWR | O_CREAT, 0700);
	if (file < 0 || ftruncate(file, file_len))
		err(1, "file of %llu bytes", (unsigned long long)file_len);
	file_mem = mmap(NULL, file_len, PROT_READ | PROT_WRITE, MAP_SHARED,
			file, 0);
	if (file_mem == MAP_FAILED)
		err(1, "mmap");
	make_headers(table_len);
	if (version)
		make_table(fdes_len);
	else
		finish_file(path);
}

static void map_part(u64 addr, u64 len, int prot, u64 off)
{
	volatile u8 *mem = mmap((void *)addr, len, prot,
				MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, off);

	if (mem != (u8 *)addr)
		err(1, "mmap at %#llx", (unsigned long long)addr);
	/* A loader has been at the headers. */
	(void)*mem;
}

/* The loader has looked at the headers of a library before anybody calls it. */
static void map_libraries(void)
{
	unsigned long i;

	for (i = 0; i < libraries; i++) {
		u64 addr = library_at(i);

		map_part(addr, text_off, PROT_READ, 0);
		map_part(addr + text_off, file_len - text_off,
			 PROT_READ | PROT_EXEC, text_off);
		*(volatile const u8 *)addr;
	}
}

static void unmap_libraries(void)
{
	munmap((void *)library_at(0), library_at(libraries) - library_at(0));
}

static u64 function_at(unsigned long nr)
{
	/* Far apart, and each in turn: neither 2 nor 5 divides the factor. */
	unsigned long i = nr * 618037 % functions;

	if (version)
		memcpy(file_mem + func_off(i), shapes[i % SHAPES].code,
		       FUNC_LEN);
	/* In no order: the code map is sorted by address. */
	return library_at(nr * 37 % libraries) + func_off(i);
}

/* Call site @nr, all of the first SITES * functions are others. */
static u64 site_at(unsigned long nr)
{
	unsigned long i = nr * 618037 % functions;

	return function_at(nr) + site_off(&shapes[i % SHAPES],
					  (nr + nr / functions) % SITES);
}

void run_chain(const struct link *first_link, u64 function);
void leaf(void);

/* run_chain() calls a function with a chain, whose end is leaf(). */
asm(".pushsection .text\n"
	"run_chain:\n"
	"	push	%rbp\n"
	"	mov	%rsp, %rbp\n"
	"	push	%rbx\n"
	"	mov	%rdi, %rbx\n"
	"	call	*%rsi\n"
	"	pop	%rbx\n"
	"	pop	%rbp\n"
	"	ret\n"
	/* getppid(). The time stamp counter counts instructions, too. */
	"leaf:\n"
	"	push	%rbp\n"
	"	mov	%rsp, %rbp\n"
	"	rdtsc\n"
	"	mov	%eax, %esi\n"
	"	mov	$110, %eax\n"
	"	syscall\n"
	"	rdtsc\n"
	"	sub	%esi, %eax\n"
	"	mov	%eax, cost(%rip)\n"
	"	pop	%rbp\n"
	"	ret\n"
	".popsection\n");

static void make_chain(int depth, unsigned long first_site)
{
	int i;

	chain_start = function_at(first_site);
	for (i = 0; i < depth; i++) {
		chain[i].site = site_at(first_site + i);
		chain[i].callee = i + 1 < depth ?
				  function_at(first_site + i + 1) : (u64)leaf;
		/* After a call of three bytes */
		returns[i] = chain[i].site + 3;
	}
}

/* Walk at the event, instead of on the way to user space */
static int in_place;

static void open_event(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = tracepoint(),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_CALLCHAIN,
		.exclude_callchain_kernel = 1,
	};

	if (!in_place)
		*ATTR_BITS(&attr) |= DEFER_CALLCHAIN | DEFER_OUTPUT;
	event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (event < 0)
		err(1, "perf_event_open");
	if (ioctl(event, PERF_EVENT_IOC_SET_FILTER, GETPPID_ONLY))
		err(1, "PERF_EVENT_IOC_SET_FILTER");
	ring = mmap(NULL, (RING_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE,
		    MAP_SHARED, event, 0);
	if (ring == MAP_FAILED)
		err(1, "mmap of the ring buffer");
}

static u64 ring_word(u64 at)
{
	return *(u64 *)((u8 *)ring + ring->data_offset + at % ring->data_size);
}

/*
 * There must be one record, with all frames of the chain after the leaf, or with as many
 * addresses as @exact, if that is not 0. In place it is the sample, with a marker in front of
 * the leaf, where the other has the number.
 */
static void check_record(int depth, u64 exact)
{
	const u32 type = in_place ? PERF_RECORD_SAMPLE : RECORD_DEFERRED;
	u64 at, nr, head = ring->data_head;
	unsigned int records = 0;
	int i;

	for (at = ring->data_tail; at < head; at += ring_word(at) >> 48) {
		if ((u32)ring_word(at) != type)
			continue;
		records++;
		nr = in_place ? ring_word(at + 8) - 1 : ring_word(at + 16);
		if (exact ? nr != exact : nr < (u64)depth + 2)
			errx(1, "%llu of %llu frames", (unsigned long long)nr,
			     exact ? (unsigned long long)exact : depth + 2ULL);
		for (i = 0; i < depth && i + 1U < nr; i++) {
			if (ring_word(at + 32 + 8 * i) != returns[depth - 1 - i])
				errx(1, "frame %d is %#llx, not %#llx", i + 1,
				     (unsigned long long)ring_word(at + 32 + 8 * i),
				     (unsigned long long)returns[depth - 1 - i]);
		}
	}
	if (records != 1)
		errx(1, "%u records", records);
	ring->data_tail = head;
}

static u64 sample(int depth)
{
	run_chain(chain, chain_start);
	check_record(depth, 0);
	return cost;
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* The differences from one round to the next */
enum round { SAME, CHANGED, OTHERS };

static void change_mappings(void)
{
	void *mem = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED || munmap(mem, PAGE))
		err(1, "mappings");
}

/* How many files of another process get the table, and are removed, before each walk */
#define OTHER_FILES	10

/* Pipes to the other process and back */
static int others[2][2];

static void come_and_go(void)
{
	static const struct timespec long_ago[2] = { { 1000000000, 1 }, { 1000000000, 1 } };
	static const char path[] = "/tmp/other";
	struct unwind_table_attach attach = {
		.size = sizeof(attach), .flags = UNWIND_TABLE_ATTACH_FD, .table = table,
		.file_size = PAGE, .mtime_sec = long_ago[1].tv_sec,
		.mtime_nsec = long_ago[1].tv_nsec };
	int fd = open(path, O_RDWR | O_CREAT, 0700);
	void *mem;

	if (fd < 0 || ftruncate(fd, PAGE) || futimens(fd, long_ago))
		err(1, "%s", path);
	close(fd);
	attach.file = open(path, O_RDONLY);
	attach.pidfd = syscall(SYS_pidfd_open, getpid(), 0);
	mem = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, attach.file, 0);
	attach.address = (u64)mem;
	if (mem == MAP_FAILED || ioctl(tables, UNWIND_TABLE_ATTACH, &attach))
		err(1, "UNWIND_TABLE_ATTACH of another file");
	munmap(mem, PAGE);
	close(attach.file);
	close(attach.pidfd);
	unlink(path);
}

static void start_others(void)
{
	char byte;
	int i;

	if (pipe(others[0]) || pipe(others[1]))
		err(1, "pipe");
	switch (fork()) {
	case -1:
		err(1, "fork");
	case 0:
		close(others[0][1]);
		while (read(others[0][0], &byte, 1) == 1) {
			for (i = 0; i < OTHER_FILES; i++)
				come_and_go();
			if (write(others[1][1], &byte, 1) != 1)
				break;
		}
		_exit(0);
	}
}

static void end_others(void)
{
	int i;

	for (i = 0; i < 4; i++)
		close(others[i / 2][i % 2]);
	wait(NULL);
}

static void have_others(void)
{
	char byte = 0;

	if (write(others[0][1], &byte, 1) != 1 || read(others[1][0], &byte, 1) != 1)
		errx(1, "the other process is gone");
}

/* The median: some rounds have an interrupt in them. */
static u64 median(u64 costs[ROUNDS])
{
	qsort(costs, ROUNDS, sizeof(costs[0]), compare);
	return costs[ROUNDS / 2];
}

static u64 measure(int depth, enum round kind)
{
	u64 costs[ROUNDS];
	int pass, round;

	/* The first time for page faults */
	for (pass = 0; pass < 2; pass++) {
		for (round = 0; round < ROUNDS; round++) {
			if (kind == CHANGED)
				change_mappings();
			if (kind == OTHERS)
				have_others();
			make_chain(depth, 0);
			costs[round] = sample(depth);
		}
	}
	return median(costs);
}

static void measure_libraries(void)
{
	u64 first, same, same1, changed, other = 0, other1 = 0;

	map_libraries();
	if (!version)
		attach_table();

	make_chain(DEPTH, 0);
	/* The task looks at the new code once, and then for what is new ten times a second. */
	if (in_place)
		usleep(200000);
	first = sample(DEPTH);
	same = measure(DEPTH, SAME);
	same1 = measure(1, SAME);
	changed = measure(DEPTH, CHANGED);
	if (!version) {
		start_others();
		other = measure(DEPTH, OTHERS);
		other1 = measure(1, OTHERS);
		end_others();
	}
	printf("%u %lu %lu %llu %llu %llu %llu %llu %llu\n", version, functions,
	       libraries, (unsigned long long)same1, (unsigned long long)same,
	       (unsigned long long)first, (unsigned long long)changed,
	       (unsigned long long)other1, (unsigned long long)other);
	fflush(stdout);

	unmap_libraries();
}

static void end_file(void)
{
	munmap(file_mem, file_len);
	close(file);
}

/*
 * Each frame but those of the program is in a mapping that the kernel knows, a bit further
 * on, to be another one: it looks at the mapping, compares in vain, and finds the table by
 * the file. After a walk the task may look, sixteen times in a row and then once in a while,
 * which is in fewer than half of the rounds that count.
 */
static u64 worst_by_tables(void)
{
	const int depth = WORST_FRAMES - 2;
	u64 costs[ROUNDS];
	int round;

	version = 0;
	functions = 10000;
	libraries = WORST_FRAMES;
	make_file();
	/* The first half for page faults */
	for (round = 0; round < 2 * ROUNDS; round++) {
		moved = round * PAGE;
		map_libraries();
		if (!round)
			attach_table();
		make_chain(depth, 0);
		run_chain(chain, chain_start);
		check_record(depth, WORST_FRAMES);
		costs[round % ROUNDS] = cost;
		unmap_libraries();
	}
	moved = 0;
	end_file();
	return median(costs);
}

/* The first walk of a new process, whose rules the walks of another one have found */
static u64 fresh(int depth)
{
	u64 costs[ROUNDS];
	int round, fds[2];

	if (pipe(fds))
		err(1, "pipe");
	make_chain(depth, 0);
	sample(depth);
	for (round = 0; round < ROUNDS; round++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (!pid) {
			open_event();
			costs[0] = sample(depth);
			_exit(write(fds[1], costs, sizeof(costs[0])) < 0);
		}
		if (read(fds[0], &costs[round], sizeof(costs[0])) != sizeof(costs[0]))
			errx(1, "a process has failed");
		waitpid(pid, NULL, 0);
	}
	close(fds[0]);
	close(fds[1]);
	return median(costs);
}

static void measure_fresh(void)
{
	functions = 1000;
	libraries = 1;
	make_file();
	map_libraries();
	attach_table();
	printf("fresh %llu", (unsigned long long)fresh(10));
	printf(" %llu\n", (unsigned long long)fresh(100));
}

int main(int argc, char **argv)
{
	static const unsigned long numbers[] = { 10, 1000, 1000000 };
	static const unsigned long maps[] = { 1, 30, 300 };
	unsigned int i, j;

	/* Versions of the SFrame format, or 0 for tables of files; "in-place" before them */
	worst = argc == 2 && !strcmp(argv[1], "worst");
	in_place = worst || (argc > 1 && !strcmp(argv[1], "in-place"));
	argc -= in_place;
	argv += in_place;
	open_event();
	if (worst) {
		open_tables();
		printf("worst %llu\n", (unsigned long long)worst_by_tables());
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "fresh")) {
		open_tables();
		measure_fresh();
		return 0;
	}
	for (argv++; --argc; argv++) {
		version = atoi(*argv);
		if (!version)
			open_tables();
		for (i = 0; i < ARRAY_SIZE(numbers); i++) {
			functions = numbers[i];
			/* They have a million rows. */
			if (!version && functions == 1000000)
				functions = 250000;
			make_file();
			for (j = 0; j < ARRAY_SIZE(maps); j++) {
				libraries = maps[j];
				measure_libraries();
			}
			end_file();
			if (!version)
				ioctl(tables, UNWIND_TABLE_DROP, table);
		}
	}
	return 0;
}
