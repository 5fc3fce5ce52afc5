/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLE_INTERNAL_H
#define __UNWIND_TABLE_INTERNAL_H

/*
 * The parts of the library: what each of them answers, and who calls it.
 *
 *	make.c		What is the table of a file?				The user
 *	print.c		What is it as text?					The user
 *	compare.c	Do the instructions say what CFI says?			The user
 *	elf.c		Where is a file's code, and where its CFI?		All
 *	cfi.c		What FDEs are there, and what rows has one?		make.c, callee.c
 *	expr.c		What rule does a row have, also by an expression?	cfi.c
 *	rows.c		How do rows and rules become a table?			cfi.c, gaps.c
 *	callee.c	Where is a register saved that has the CFA?		make.c, rows.c
 *	gaps.c		What is code without FDE?				rows.c
 *	known.c		Is it code that is known byte by byte?			gaps.c
 *	framed.c	Does it keep a frame pointer?				gaps.c
 *	starts.c	What says that a function starts somewhere?		gaps.c, pieces.c
 *	bytes.c		Do bytes look like a prologue, padding, or an end?	framed.c, pieces.c
 *	follow.c	What rules do the instructions lead to?			gaps.c, compare.c
 *	pieces.c	Which code is followed, and where do functions begin?	follow.c, paths.c
 *	paths.c		Which paths are there, and what is known on them?	follow.c, jumps.c
 *	jumps.c		Where do jumps lead whose targets are computed?		paths.c
 *	imports.c	Where do the pointers lead that the loader sets?	follow.c
 *	state.c		What does an instruction change, and what is the rule?	paths.c
 *	insn.c		What is the effect of an instruction?			paths.c, callee.c
 *
 * An error that concerns a file as a whole is a negative errno. An error in a piece of it
 * is a reason (enum unwind_table_reason), and the code of that piece is unknown, or only
 * the FP of its caller.
 */

#include <linux/types.h>
#include <linux/unwind_table.h>
#include <stdbool.h>
#include <string.h>

#include "map.h"
#include "unwind-table.h"

#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))

#define UT_NO_REASON		UNWIND_TABLE_NR_REASONS
#define UT_PAGE_MASK		(UNWIND_TABLE_PAGE_SIZE - 1)
#define UT_PAGE_BLOCKS(shift)	(1U << (UNWIND_TABLE_PAGE_SHIFT - (shift)))

/* DWARF numbers of registers */
#define UT_REG_FP		6
#define UT_REG_SP		7
#define UT_REG_RA		16
#define UT_NR_REGS		16

/*
 * Where the bytes of a file come from. A position is an offset in the file, or,
 * if @loaded, an address as the program headers have it.
 */
struct ut_source {
	const __u8	*image;		/* NULL: they are read from @fd */
	__u64		len;
	int		fd;
	__u64		stored;		/* bytes that are not holes, 0: not known */
	bool		loaded;		/* only with @image */
};

/*
 * Work is counted, in operations of some nanoseconds each, and a file may cause so
 * much for each of its bytes: UNWIND_TABLE_WORK. No clock is asked, so whether a file has
 * a table does not depend on the load of the machine.
 */
struct ut_work {
	__u64	done;
	__u64	limit;
};

/* The work of some operations */
#define UT_WORK_READ		64	/* from a file */
#define UT_WORK_RECORD		4	/* of CFI, without its instructions */
#define UT_WORK_KNOWN		64	/* to compare code with all that is known */
#define UT_WORK_SCAN(len)	((len) / 16 + 1)

/* Count work. False: it is more than the file may cause. */
static inline bool ut_work(struct ut_work *work, __u64 n)
{
	work->done += n;
	return work->done <= work->limit;
}

/* Bytes that were read. The file can change meanwhile, these do not. */
struct ut_bytes {
	const __u8	*data;
	size_t		len;
	void		*copy;		/* to be freed, or NULL */
};

struct ut_segment {
	__u64		offset;
	__u64		addr;
	__u64		len;
	bool		exec;
};

static inline __u64 ut_offset_of(const struct ut_segment *segment, __u64 addr)
{
	return addr - segment->addr + segment->offset;
}

static inline __u64 ut_addr_of(const struct ut_segment *segment, __u64 offset)
{
	return offset - segment->offset + segment->addr;
}

#define UT_MAX_SEGMENTS		256

struct ut_section {
	struct ut_bytes	bytes;
	__u64		addr;		/* of its first byte, .eh_frame only */
	bool		debug;		/* .debug_frame */
	bool		exact;		/* where it ends is known */
};

#define UT_MAX_TEXTS		64

/* Evidence that a function starts somewhere */
enum ut_start {
	UT_START_CALL,		/* the target of an apparent call */
	UT_START_CALLS,		/* of two of them */
	UT_START_POINTER,	/* of an address that the loader relocates */
	UT_START_SYMBOL,	/* of a symbol for a function */
	UT_START_ADDRESS,	/* of an apparent computation of an address */
	UT_START_JUMP,		/* of an apparent jump from afar */
	UT_NR_STARTS
};

/* Called for an apparent call of @target at the address @at */
typedef int (*ut_starts_call_t)(void *data, __u64 at, __u64 target);

/* Code that is looked through at once */
#define UT_SCAN_LEN		(64 * 1024)

struct ut_table {
	__u64		pos;
	__u64		len;
};

/* An ELF file: where its code is, and where its CFI */
struct ut_elf {
	struct ut_source	src;
	__u64			base;		/* is added to a position */
	__u64			entry;
	/* All that are loaded, by address; and those with code, by offset */
	struct ut_segment	segments[UT_MAX_SEGMENTS];
	struct ut_segment	code[UT_MAX_SEGMENTS];
	unsigned int		nr_segments;
	unsigned int		nr_code;
	__u64			code_bytes;
	bool			is_go;
	bool			has_entry;	/* a program or an interpreter */
	/* PT_DYNAMIC, for names of symbols */
	__u64			dynamic;
	__u64			dynamic_len;
	/* Sections with code, by offset; without any, all of a segment may be code */
	struct ut_table		texts[UT_MAX_TEXTS];
	unsigned int		nr_texts;
	struct ut_table		symbols[2];	/* .symtab, .dynsym */
	struct ut_section	eh_frame;
	struct ut_section	debug_frame;
};

/* Evidence of starts of functions: see starts.c */
struct ut_starts {
	/* By byte of code; NULL: not asked for yet */
	__u64			*bits[UT_NR_STARTS];
	ut_starts_call_t	call;		/* for each call, perhaps more than once */
	void			*call_data;
	/* Addresses of data that instructions seem to compute, sorted */
	__u64			*data;
	size_t			nr_data;
	size_t			nr_sorted;
	size_t			max_data;
};

/* A table that is being made of a file */
struct ut_build {
	struct ut_elf		elf;
	struct ut_work		work;
	struct unwind_table_stats *stats;
	struct ut_starts	starts;
	struct ut_scan		*scan;		/* code that was read last: see framed.c */
	__u64			*known;		/* see known.c */
	bool			asked_for_v8;
	bool			has_v8;
	/* Code without CFI is followed, unless that has failed */
	bool			no_follow;
	bool			no_cfi;		/* as if there were none: it is the judge */
	struct ut_follow	*follow;
	struct ut_work		follow_work;
	struct map		endless;	/* functions that seem not to return */
	struct map		imports;	/* pointers to functions, by address */
	bool			has_imports;
	struct ut_callees	*callees;
	const struct ut_patch	*patches;	/* in order, with one behind all code; or NULL */
};

int ut_build_open(struct ut_build *build, const struct ut_source *src,
		  struct unwind_table_stats *stats);
void ut_build_close(struct ut_build *build);

int ut_elf_open(struct ut_elf *elf, const struct ut_source *src);
void ut_elf_close(struct ut_elf *elf);
bool ut_elf_dynamic(const struct ut_elf *elf, __u64 tag, __u64 *value);
bool ut_elf_read_addr(const struct ut_elf *elf, __u64 addr, void *to, size_t len);
bool ut_elf_read(const struct ut_elf *elf, __u64 pos, void *to, size_t len);
const struct ut_segment *ut_elf_code_at(const struct ut_elf *elf, __u64 addr);
const struct ut_segment *ut_elf_text_at(const struct ut_elf *elf, __u64 addr);
void ut_elf_text(const struct ut_elf *elf, __u64 *at, __u64 end, __u64 *text_end);
bool ut_elf_has_symbol(const struct ut_elf *elf, const char *name);
/* Number of a byte among those of all code */
static inline __u64 ut_code_index(const struct ut_elf *elf, const struct ut_segment *segment,
				  __u64 offset)
{
	const struct ut_segment *other;
	__u64 index = offset - segment->offset;

	for (other = elf->code; other < segment; other++)
		index += other->len;
	return index;
}

/* Records of a table in the file, each of which is looked at */
struct ut_records {
	const struct ut_elf	*elf;
	struct ut_work		*work;		/* NULL: @each counts it */
	size_t			size;		/* of a record */
	size_t			max;		/* that are read at once */
	int			(*each)(void *data, const void *record);
	void			*data;
};

typedef bool (*ut_elf_read_t)(const struct ut_elf *elf, __u64 at, void *to, size_t len);

int ut_elf_each(const struct ut_records *records, __u64 at, __u64 left, ut_elf_read_t read);
int ut_elf_each_dynamic(const struct ut_records *records, __u64 tag, __u64 size_tag);
size_t ut_elf_read_code(const struct ut_elf *elf,
			const struct ut_segment *segment, __u64 offset,
			void *to, size_t len);

/*
 * A cursor over bytes that are not trusted. Once something is missing @bad is
 * set, and all further values are 0.
 */
struct ut_cursor {
	const __u8	*pos;
	const __u8	*end;
	bool		bad;
};

static inline size_t ut_left(const struct ut_cursor *c)
{
	return c->end - c->pos;
}

static inline bool ut_more(const struct ut_cursor *c)
{
	return !c->bad && c->pos < c->end;
}

static inline const __u8 *ut_skip(struct ut_cursor *c, __u64 len)
{
	const __u8 *at = c->pos;

	if (c->bad || len > ut_left(c)) {
		c->bad = true;
		c->pos = c->end;
		return NULL;
	}
	c->pos += len;
	return at;
}

/* A number of @size bytes, at most 8; the machine is little endian, as its files. */
static inline __u64 ut_get(struct ut_cursor *c, size_t size)
{
	const __u8 *at = ut_skip(c, size);
	__u64 value = 0;

	if (at)
		memcpy(&value, at, size);
	return value;
}

__u64 ut_get_uleb_long(struct ut_cursor *c);
__s64 ut_get_sleb(struct ut_cursor *c);

/* Nearly all are of one byte. */
static inline __u64 ut_get_uleb(struct ut_cursor *c)
{
	if (ut_more(c) && *c->pos < 0x80)
		return *c->pos++;
	return ut_get_uleb_long(c);
}

/* How an address is written down: DW_EH_PE_* */
#define UT_PE_ABSPTR		0x00
#define UT_PE_PCREL		0x10
#define UT_PE_DATAREL		0x30
#define UT_PE_ALIGNED		0x50
#define UT_PE_OMIT		0xff

__u64 ut_get_encoded(struct ut_cursor *c, __u8 encoding);

/* Location of a register's value in the calling frame, as CFI says it */
enum ut_how {
	UT_UNSPECIFIED,
	UT_UNDEFINED,
	UT_SAME,
	UT_OFFSET,		/* in memory at CFA + off */
	UT_VAL_OFFSET,		/* CFA + off */
	UT_REGISTER,		/* in the register off */
	UT_EXPRESSION,		/* in memory at what the expression gives */
	UT_VAL_EXPRESSION,	/* what the expression gives */
};

/*
 * The value of an expression: a constant, or a register or the CFA or the IP plus a
 * constant; or the word in memory there plus a constant.
 */
enum ut_base {
	UT_CONST,
	UT_BASE_REG,
	UT_BASE_CFA,
	UT_BASE_IP,
};

struct ut_value {
	enum ut_base	base;
	unsigned int	reg;
	__u64		off;
	bool		deref;
	__u64		add;		/* if @deref */
};

/* What is known of an expression before the IP is */
enum ut_result {
	UT_DEPENDS,		/* on the IP */
	UT_FAILS,		/* a rule cannot express it */
	UT_EVALUATED,
};

struct ut_loc {
	enum ut_how	how;
	__u32		expr_len;
	union {
		__s64		off;
		const __u8	*expr;
	};
	/* Of the expression: evaluated once, however many rows it is for */
	enum ut_result	result;
	struct ut_value	value;
};

/* A row of CFI, of the registers that matter */
struct ut_state {
	/* CFA: UT_VAL_OFFSET (register + offset) or UT_EXPRESSION */
	struct ut_loc	cfa;
	__u64		cfa_reg;
	struct ut_loc	fp;
	struct ut_loc	sp;
	struct ut_loc	ra;
	/* The place of one more register: where it is saved, as an offset from the CFA, or 0 */
	__u64		kept_reg;
	__s64		kept;
};

struct ut_cie {
	__u64			pos;
	const struct ut_section	*section;
	const __u8		*program;
	const __u8		*program_end;
	__u64			code_align;
	__s64			data_align;
	__u8			encoding;	/* of addresses in its FDEs */
	__u8			lsda;		/* of those of exception tables */
	bool			augmented;	/* they have augmentation data */
	bool			signal;
	/* Why its FDEs cannot be used: not even their range, or not their rows */
	enum unwind_table_reason unreadable;
	enum unwind_table_reason unusable;
	struct ut_state		state;		/* of their first row */
};

struct ut_fde {
	__u64			start;		/* offset in the file */
	__u64			end;
	__u32			cie;
	__u32			segment;	/* in ut_elf.code */
	const __u8		*program;
	const __u8		*program_end;
};

struct ut_fdes {
	struct ut_fde	*fdes;
	struct ut_cie	*cies;
	size_t		nr_fdes;
	size_t		max_fdes;
	size_t		nr_cies;
	size_t		max_cies;
};

/* The table that is being made */
struct ut_rows;

/* An expression that depends on the IP does so by its lowest bits. */
#define UT_SPREAD		16

/* Rules of a state at each place where they may differ */
struct ut_spread {
	const struct ut_cie		*cie;
	struct ut_state			state;
	struct unwind_table_rule	rules[UT_SPREAD];
	enum unwind_table_reason	reasons[UT_SPREAD];
};

/* The interpreter of FDEs, besides the state */
struct ut_machine {
	struct ut_state	*stack;		/* DW_CFA_remember_state */
	size_t		nr;
	size_t		max;
	bool		realigned;	/* the CFA was an expression before */
	struct ut_spread spread;	/* the last one */
	/* If set, called instead of adding rows, with NULL for a state that is unknown */
	int		(*look)(void *data, __u64 start, __u64 end, const struct ut_state *state);
	void		*data;
	__u64		kept_reg;
};

__u64 ut_cfi_lsda(const struct ut_cie *cie, const struct ut_fde *fde);
int ut_cfi_read(struct ut_build *build, const struct ut_section *section,
		struct ut_fdes *fdes);
int ut_cfi_run(struct ut_build *build, const struct ut_fdes *fdes,
	       const struct ut_fde *fde, __u64 skip, struct ut_machine *machine,
	       struct ut_rows *rows);

/* The inputs of an expression, and those that it was found to depend on */
struct ut_context {
	__u64		ip;
	bool		has_cfa;
	__u64		ip_mask;	/* bits of the IP that it looked at */
	__u64		work;		/* operations */
};

void ut_expr_prepare(struct ut_loc *loc, bool has_cfa);

/* Reason why a rule cannot express a row, or UT_NO_REASON */
enum unwind_table_reason ut_rule_of(const struct ut_state *state, bool signal,
				    struct ut_context *context,
				    struct unwind_table_rule *rule);

/* rows.c */
#define UT_RULE_NOT_COVERED	0
#define UT_RULE_UNKNOWN		1

struct ut_rows *ut_rows_new(struct ut_build *build, int *err);
void ut_rows_free(struct ut_rows *rows);
int ut_rows_add(struct ut_rows *rows, __u64 start, __u64 end,
		const struct unwind_table_rule *rule);
int ut_rows_add_unknown(struct ut_rows *rows, __u64 start, __u64 end,
			enum unwind_table_reason reason);
bool ut_rows_add_recent(struct ut_rows *rows, __u64 start, __u64 end, __u64 key, int *err);
void ut_rows_set_recent(struct ut_rows *rows, __u64 key);
int ut_rows_add_gap(struct ut_rows *rows, const struct ut_segment *segment,
		    __u64 start, __u64 end);
int ut_rows_flush(struct ut_rows *rows);
int ut_rows_end_walks(struct ut_rows *rows);
int ut_rows_finish(struct ut_rows *rows, void **table, size_t *len);

/* callee.c */
/* Bits of rbx, r12 to r15 */
#define UT_CALLEE_SAVED		0xf008U

/* Another rule for some code, by offsets in the file */
struct ut_patch {
	__u64				start;
	__u64				end;
	struct unwind_table_rule	rule;
};

int ut_callees_note(struct ut_build *build, __u64 start, __u64 end,
		    const struct unwind_table_rule *rule);
int ut_callees_find(struct ut_build *build, const struct ut_fdes *fdes);
void ut_callees_free(struct ut_callees *callees);

/* known.c */
#define UT_MAX_KNOWN		512
#define UT_KNOWN_PARTS		8

/* Code that is known: its parts, and how long they are here */
struct ut_known {
	const struct part	*parts;
	unsigned int		nr;
	size_t			len;
	size_t			lens[UT_KNOWN_PARTS];
};

size_t ut_match(const char *pattern, const __u8 *code, size_t len);
int ut_known_prepare(struct ut_build *build);
bool ut_known_may_start(const struct ut_build *build, const __u8 *code, size_t len);
bool ut_known_find(const __u8 *code, size_t len, bool go, struct ut_known *known);
int ut_known_add(struct ut_rows *rows, __u64 start, const struct ut_known *known);
bool ut_is_plain(const struct unwind_table_rule *rule);

/* bytes.c */
/* Functions are aligned to this, unless they are not aligned at all. */
#define UT_ALIGN		16

/* Bytes of the longest call: ff /2 with a SIB byte and a distance of four bytes */
#define UT_MAX_CALL		7

/* Bytes before some code that may tell what is before it */
#define UT_LEN_BEFORE		32

/* The code right before some other code */
enum ut_before {
	UT_RUNS_ON,		/* may run into it */
	UT_CALLS,		/* a call, which may not return */
	UT_STAYS_AWAY,		/* a jump, or padding, as before the heads of loops, too */
	UT_RETURNS,		/* a return, or breakpoints, which only the linker puts there */
};

size_t ut_bytes_prologue(const __u8 *code, size_t len);
enum ut_before ut_bytes_before(const __u8 *at, size_t n);
bool ut_bytes_is_no_call(const __u8 *at);
bool ut_bytes_is_padded(const __u8 *at, size_t n);
bool ut_bytes_is_padding(const __u8 *code, size_t len);
bool ut_bytes_is_end(const __u8 *code, size_t len, __u64 addr);
bool ut_bytes_is_apart(const __u8 *at, size_t len, size_t before, bool more);
bool ut_bytes_is_entry(const __u8 *code, size_t len, __u64 addr, size_t before);

/* starts.c */
int ut_starts_find(struct ut_build *build);
int ut_starts_find_calls(struct ut_build *build, ut_starts_call_t call, void *data);
void ut_starts_free(struct ut_starts *starts);
bool ut_starts_has(const struct ut_build *build, enum ut_start kind, __u64 addr);
bool ut_starts_add_data(struct ut_starts *starts, __u64 addr);
bool ut_starts_sort_data(struct ut_starts *starts);
__u64 ut_starts_data_end(const struct ut_starts *starts, __u64 addr);
__u64 ut_starts_find_next(const struct ut_build *build, const struct ut_segment *segment,
			  enum ut_start kind, __u64 at, __u64 end);

/* framed.c */
int ut_framed_next(struct ut_build *build, const struct ut_segment *segment, __u64 *at,
		   __u64 end, bool *framed);

/* gaps.c: a stretch of code without FDE */
struct ut_gap {
	const struct ut_segment		*segment;
	__u64				start;
	__u64				end;
	/* Rules of the bytes before and after it, of kind NOT_COVERED if none */
	struct unwind_table_rule	before;
	struct unwind_table_rule	after;
	__u64				after_end;
};

int ut_gap_add(struct ut_build *build, const struct ut_gap *gap, struct ut_rows *rows);

struct unwind_table {
	void				*data;
	size_t				len;
	struct unwind_table_stats	stats;
};

/* Parts of a table, wherever it is */
struct ut_view {
	struct unwind_table_header	header;
	const __u8			*runs;
	const __u8			*blocks;
	__u32				nr_blocks;
	const __u8			*rows;
	const __u8			*rules;
};

void ut_view_open(struct ut_view *view, const void *data);

/* The block may be anywhere, so its elements need not be aligned. */
static inline struct unwind_table_run ut_view_run(const struct ut_view *v, size_t i)
{
	struct unwind_table_run value;

	memcpy(&value, v->runs + i * sizeof(value), sizeof(value));
	return value;
}

static inline __u32 ut_view_block(const struct ut_view *v, size_t i)
{
	__u32 value;

	memcpy(&value, v->blocks + i * sizeof(value), sizeof(value));
	return value;
}

static inline struct unwind_table_row ut_view_row(const struct ut_view *v, size_t i)
{
	struct unwind_table_row value;

	memcpy(&value, v->rows + i * sizeof(value), sizeof(value));
	return value;
}

static inline struct unwind_table_rule ut_view_rule(const struct ut_view *v, size_t i)
{
	struct unwind_table_rule value;

	memcpy(&value, v->rules + i * sizeof(value), sizeof(value));
	return value;
}

/* The first row of a page; of the one after the last, the number of rows */
static inline __u32 ut_view_page(const struct ut_view *v, size_t i)
{
	return i ? ut_view_block(v, i * UT_PAGE_BLOCKS(v->header.block_shift)) + 1 : 0;
}

#endif /* __UNWIND_TABLE_INTERNAL_H */
