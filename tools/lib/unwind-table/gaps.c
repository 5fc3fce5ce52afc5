// SPDX-License-Identifier: GPL-2.0
/*
 * Code without FDE that is known nevertheless: by its surroundings, or byte by byte, see
 * known.c. Code that is not exactly like this stays unknown.
 */

#include <errno.h>

#include "follow.h"

static const struct unwind_table_rule outermost = { .kind = UNWIND_TABLE_OUTERMOST };
static const struct unwind_table_rule not_covered = { .kind = UNWIND_TABLE_NOT_COVERED };

/* Code that is looked through at once, and without success */
#define MAX_CODE	4096
/* Shorter gaps are padding between functions, except at the ends of a segment. */
#define MIN_CODE	16

/*
 * The program's entry, which has no FDE in ld.so. It has no caller. Where it ends is
 * not known, but it is short. Should a function that it calls begin within that
 * range, walks from there miss one frame, that of the entry.
 */
#define MAX_ENTRY	64

/* Add code that is not followed; @framed: the kernel may follow the frame pointer there. */
static int add_rest(struct ut_build *build, struct ut_rows *rows, __u64 start, __u64 end,
		    bool framed)
{
	if (!framed)
		return ut_rows_add_unknown(rows, start, end, UNWIND_TABLE_R_GAP);
	build->stats->origins[UNWIND_TABLE_O_FRAME_POINTER] += end - start;
	return ut_rows_add(rows, start, end, &not_covered);
}

/* A stretch of code, as offsets in the file, of which a part is followed */
struct stretch {
	struct ut_build	*build;
	struct ut_rows	*rows;
	__u64		bias;		/* from an offset to an address */
	__u64		done;
	__u64		end;
	bool		framed;
};

static int add_followed(void *data, __u64 start, __u64 end, const struct unwind_table_rule *rule)
{
	struct stretch *stretch = data;
	int err;

	start -= stretch->bias;
	end -= stretch->bias;
	if (end > stretch->end)
		end = stretch->end;
	err = add_rest(stretch->build, stretch->rows, stretch->done, start, stretch->framed);
	if (err)
		return err;
	stretch->done = end;
	if (rule->kind == UNWIND_TABLE_UNKNOWN && !stretch->framed)
		return ut_rows_add_unknown(stretch->rows, start, end, UNWIND_TABLE_R_LOST);
	if (rule->kind == UNWIND_TABLE_UNKNOWN)
		return add_rest(stretch->build, stretch->rows, start, end, true);
	stretch->build->stats->origins[UNWIND_TABLE_O_INSTRUCTIONS] += end - start;
	return ut_rows_add(stretch->rows, start, end, rule);
}

static int add_stretch(struct ut_build *build, const struct ut_gap *gap, __u64 start, __u64 end,
		       bool framed, struct ut_rows *rows)
{
	struct stretch stretch = {
		.build = build, .rows = rows, .done = start, .end = end, .framed = framed,
		.bias = gap->segment->addr - gap->segment->offset,
	};
	int err = 0;

	if (build->follow)
		err = ut_follow_rows(build->follow, start + stretch.bias, end + stretch.bias,
				     add_followed, &stretch);
	return err ? err : add_rest(build, rows, stretch.done, end, framed);
}

/* More code than any file with functions that have neither CFI nor a frame pointer */
#define MAX_FOLLOWED	(32 * 1024 * 1024ULL)

static int follow_from(struct ut_build *build, const struct ut_segment *segment, __u64 start,
		       __u64 end, enum ut_start kind, bool aligned)
{
	__u64 bias = segment->addr - segment->offset, at;
	enum ut_follow_start how = UT_FOLLOW_POSSIBLE;
	int err = 0;

	if (kind == UT_START_SYMBOL)
		how = UT_FOLLOW_CERTAIN;
	else if (aligned && (kind == UT_START_ADDRESS || kind == UT_START_POINTER))
		how = UT_FOLLOW_LIKELY;
	else if (!aligned && kind == UT_START_CALL)
		how = UT_FOLLOW_DOUBTFUL;
	for (at = start; !err; at++) {
		at = ut_starts_find_next(build, segment, kind, at, end);
		if (at == end)
			break;
		if (!aligned || !((at + bias) % UT_ALIGN))
			err = ut_follow_from(build->follow, at + bias, how);
	}
	return err;
}

static bool has_start(struct ut_build *build, const struct ut_segment *segment, __u64 start,
		      __u64 end)
{
	enum ut_start kind;

	for (kind = 0; kind < UT_NR_STARTS; kind++) {
		if (ut_starts_find_next(build, segment, kind, start, end) < end)
			return true;
	}
	return false;
}

struct range {
	const struct ut_segment	*segment;
	__u64			start;
	__u64			end;
};

static int follow_range(struct ut_build *build, void *data)
{
	/* The surest first: less sure ones may be in the middle of their code. */
	static const struct {
		enum ut_start	kind;
		bool		aligned;
	} order[] = {
		{ UT_START_SYMBOL, false },
		{ UT_START_POINTER, true },
		{ UT_START_ADDRESS, true },
		{ UT_START_CALL, true },
		{ UT_START_POINTER, false },
		{ UT_START_ADDRESS, false },
		{ UT_START_CALL, false },
		{ UT_START_JUMP, true },
	};
	const struct range *range = data;
	const struct ut_segment *segment = range->segment;
	__u64 start = range->start, end = range->end, at;
	unsigned int i;
	int err = 0;

	/* Code that runs into a function ends there, whichever is followed first. */
	for (at = start; !err; at++) {
		at = ut_starts_find_next(build, segment, UT_START_SYMBOL, at, end);
		if (at == end)
			break;
		err = ut_follow_declare(build->follow, ut_addr_of(segment, at));
	}
	for (i = 0; i < ARRAY_SIZE(order) && !err; i++)
		err = follow_from(build, segment, start, end, order[i].kind, order[i].aligned);
	return err;
}

/* Follow code in [start, end) of a file's offsets from all evidence of functions in it. */
int ut_follow_found(struct ut_build *build, const struct ut_segment *segment, __u64 start,
		    __u64 end)
{
	struct range range = { segment, start, end };
	int err = ut_starts_find(build);

	if (err || !has_start(build, segment, start, end))
		return err;
	if (!build->follow)
		err = ut_follow_new(build, build->no_cfi ? 0 : start, build->no_cfi ? ~0ULL : end,
				    &build->follow);
	return err ? err : ut_follow_passes(build, follow_range, &range);
}

/* Follow the code of a gap. If that fails, the rest of the table is as good. */
static void follow_gap(struct ut_build *build, const struct ut_gap *gap, __u64 start, __u64 end)
{
	if (build->no_follow || build->elf.code_bytes > MAX_FOLLOWED)
		return;
	build->follow_work.limit = UNWIND_TABLE_WORK_CODE *
				 (build->elf.code_bytes + UNWIND_TABLE_PAGE_SIZE);
	if (!ut_follow_found(build, gap->segment, start, end))
		return;
	/* A partial result does not have all paths. */
	ut_follow_free(build->follow);
	build->follow = NULL;
	build->no_follow = true;
}

/* Is there anything but padding? */
static bool is_padding(const struct ut_build *build, const struct ut_gap *gap, __u64 start,
		       __u64 end)
{
	__u8 code[MIN_CODE * 4];
	size_t len, i;

	if (end - start > sizeof(code))
		return false;
	len = ut_elf_read_code(&build->elf, gap->segment, start, code, end - start);
	for (i = 1; i < len && code[i] == code[0]; i++)
		;
	return i >= len || ut_bytes_is_padding(code, len);
}

/*
 * Unknown code, except for functions that begin by making a frame: these keep a frame
 * pointer, so they are not covered, which lets the kernel follow it.
 */
static int add_functions(struct ut_build *build, const struct ut_gap *gap,
			 __u64 start, __u64 end, struct ut_rows *rows)
{
	bool framed = false, next_framed;
	__u64 at = start;
	int err = 0;

	if (end - start < MIN_CODE)
		return ut_rows_add_unknown(rows, start, end, UNWIND_TABLE_R_GAP);
	if (!is_padding(build, gap, start, end))
		follow_gap(build, gap, start, end);
	while (start < end && !err) {
		next_framed = framed;
		err = ut_framed_next(build, gap->segment, &at, end, &next_framed);
		if (!err)
			err = add_stretch(build, gap, start, at, framed, rows);
		framed = next_framed;
		start = at;
	}
	/* The state of one gap is of no use for another. */
	ut_follow_free(build->follow);
	build->follow = NULL;
	return err;
}

static int add_unknown(struct ut_build *build, const struct ut_gap *gap,
		       __u64 start, __u64 end, struct ut_rows *rows)
{
	__u64 entry = build->elf.entry - gap->segment->addr + gap->segment->offset;
	__u64 entry_end;
	int err;

	if (!build->elf.has_entry || entry < start || entry >= end)
		return add_functions(build, gap, start, end, rows);
	entry_end = end - entry > MAX_ENTRY ? entry + MAX_ENTRY : end;
	err = add_functions(build, gap, start, entry, rows);
	if (!err)
		err = ut_rows_add(rows, entry, entry_end, &outermost);
	if (!err)
		err = add_functions(build, gap, entry_end, end, rows);
	return err;
}

/*
 * glibc's clone() and clone3() have no FDE from the system call up to the code that
 * only the new thread runs: syscall; test %rax,%rax; jl error; je child; ret. None of
 * that touches SP or FP.
 */
static bool is_clone(const struct ut_build *build, const struct ut_gap *gap)
{
	static const char * const forms[] = {
		"0f 05 48 85 c0 7c ?? 74 01 c3",
		"0f 05 48 85 c0 0f 8c ?? ?? ?? ?? 74 01 c3",
	};
	__u8 code[16];
	size_t len = gap->end - gap->start;
	unsigned int i;

	if (!ut_is_plain(&gap->before) || gap->after.kind != UNWIND_TABLE_OUTERMOST ||
	    len > sizeof(code) ||
	    ut_elf_read_code(&build->elf, gap->segment, gap->start, code, len) != len)
		return false;
	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		if (ut_match(forms[i], code, len) == len)
			return true;
	}
	return false;
}

static int add_clone(const struct ut_gap *gap, struct ut_rows *rows)
{
	struct unwind_table_rule rule = gap->before;
	__u64 returned = gap->start + 2;
	int err;

	err = ut_rows_add(rows, gap->start, returned, &rule);
	rule.flags = UNWIND_TABLE_NEW_THREAD;
	return err ? err : ut_rows_add(rows, returned, gap->end, &rule);
}

/*
 * Functions of makecontext() return to the first byte of __start_context. For a
 * caller, the byte before the return address is looked up, and here that is padding.
 * It has no caller in turn.
 */
static bool is_start_context(const struct ut_build *build, const struct ut_gap *gap)
{
	/* mov %rbx,%rsp; mov (%rsp),%rdi; test %rdi,%rdi; je; call setcontext */
	static const char form[] = "48 89 dc 48 8b 3c 24 48 85 ff 74 ?? e8";
	__u64 len = gap->after_end - gap->end;
	__u8 code[13];

	if (!ut_is_plain(&gap->after) || len < 20 || len > 64)
		return false;
	return ut_match(form, code, ut_elf_read_code(&build->elf, gap->segment, gap->end,
						     code, sizeof(code)));
}

/* Code of a gap, as much as was read at once */
struct window {
	__u8	code[MAX_CODE];
	__u64	start;
	size_t	len;
};

/* Code at an offset, up to @end, read on demand; NULL: it cannot be read */
static const __u8 *code_at(struct ut_build *build, const struct ut_gap *gap, __u64 at,
			   __u64 end, struct window *window, size_t *len)
{
	*len = end - at < UT_MAX_KNOWN ? end - at : UT_MAX_KNOWN;

	if (at - window->start + *len > window->len) {
		if (!ut_work(&build->work, UT_WORK_READ))
			return NULL;
		window->start = at;
		window->len = ut_elf_read_code(&build->elf, gap->segment, at, window->code,
					       end - at < MAX_CODE ? end - at : MAX_CODE);
		if (window->len < *len)
			return NULL;
	}
	return window->code + (at - window->start);
}

/* Look for known code in a gap. */
static int add_code(struct ut_build *build, const struct ut_gap *gap, __u64 end,
		    struct ut_rows *rows)
{
	/* The functions of start files, and PLTs, are aligned. */
	__u64 done = gap->start, at = (gap->start + 3) & ~3ULL;
	struct window window = { .start = at };
	struct ut_known known;
	int err = ut_known_prepare(build);

	while (at < end && at - done < MAX_CODE && !err) {
		size_t len;
		const __u8 *code = code_at(build, gap, at, end, &window, &len);

		if (!code || !ut_known_may_start(build, code, len)) {
			at += 4;
			continue;
		}
		if (!ut_work(&build->work, UT_WORK_KNOWN))
			return -E2BIG;
		if (!ut_known_find(code, len, false, &known)) {
			at += 4;
			continue;
		}
		err = add_unknown(build, gap, done, at, rows);
		if (!err)
			err = ut_known_add(rows, at, &known);
		done = at + known.len;
		at = (done + 3) & ~3ULL;
	}
	if (!err && !ut_work(&build->work, (at - gap->start) / 4))
		err = -E2BIG;
	return err ? err : add_unknown(build, gap, done, end, rows);
}

/*
 * Go's linker puts all code of Go into one piece, without FDEs. It keeps frame pointers,
 * but for a few functions of the runtime. Start files and C code that was linked with it
 * may be around it. The runtime alone is larger than this; other gaps are smaller.
 */
#define MIN_GO		(64 * 1024)
#define GO_ALIGN	16

/*
 * runtime.rt0_go, where a program begins that Go's linker has made; others call it. It
 * ends with calls of runtime.mstart and runtime.abort.
 */
static size_t find_rt0_go(const __u8 *code, size_t len)
{
	static const char start[] =
		"48 89 f8 48 89 f3 48 83 ec 28 48 83 e4 f0 48 89 44 24 18 48 89 5c 24 20";
	static const char last[] = "e8 ?? ?? ?? ?? e8 ?? ?? ?? ?? c3";
	size_t n;

	if (!ut_match(start, code, len))
		return 0;
	for (n = 0; n < len; n++) {
		size_t more = ut_match(last, code + n, len - n);

		if (more)
			return n + more;
	}
	return 0;
}

static int add_go(struct ut_build *build, const struct ut_gap *gap, struct ut_rows *rows)
{
	const __u64 align = GO_ALIGN - 1, bias = gap->segment->addr - gap->segment->offset;
	bool has_entry = build->elf.has_entry &&
			 build->elf.entry - bias - gap->start < gap->end - gap->start;
	__u64 done = gap->start, at = (gap->start + align) & ~align;
	struct window window = { .start = at };
	struct ut_known known;
	int err = 0;

	while (at < gap->end && !err) {
		size_t len, rt0_len;
		const __u8 *code = code_at(build, gap, at, gap->end, &window, &len);

		if (!ut_work(&build->work, UT_WORK_KNOWN))
			return -E2BIG;
		rt0_len = code ? find_rt0_go(code, len) : 0;
		if (!code || (!rt0_len && !ut_known_find(code, len, true, &known))) {
			at += GO_ALIGN;
			continue;
		}
		err = add_rest(build, rows, done, at, true);
		if (!err && !rt0_len)
			err = ut_known_add(rows, at, &known);
		else if (!err && has_entry)
			err = ut_rows_add(rows, at, at + rt0_len, &outermost);
		else if (!err)
			err = ut_rows_add_unknown(rows, at, at + rt0_len,
						  UNWIND_TABLE_R_GAP);
		done = at + (rt0_len ? rt0_len : known.len);
		at = (done + align) & ~align;
	}
	return err ? err : add_rest(build, rows, done, gap->end, true);
}

/*
 * Node's library has the machine code of V8's builtins as one piece, without FDEs.
 * Like all code that V8 makes it keeps frame pointers. The piece has no symbol of
 * its own, but only V8 has a function that tells where it is.
 */
#define MIN_V8		(512 * 1024)

static bool is_v8(struct ut_build *build, const struct ut_gap *gap)
{
	static const char name[] = "_ZN2v87Isolate20GetEmbeddedCodeRangeEPPKvPm";

	if (gap->end - gap->start < MIN_V8)
		return false;
	/* All names have to be looked through, so once is enough. */
	if (!build->asked_for_v8) {
		build->asked_for_v8 = true;
		build->has_v8 = ut_elf_has_symbol(&build->elf, name);
	}
	return build->has_v8;
}

static int add_gap(struct ut_build *build, const struct ut_gap *gap, struct ut_rows *rows)
{
	const struct ut_segment *segment = gap->segment;
	bool at_edge = gap->start == segment->offset ||
		       gap->end == segment->offset + segment->len;
	__u64 end = gap->end;
	int err;

	if (build->elf.is_go && end - gap->start >= MIN_GO)
		return add_go(build, gap, rows);
	if (is_v8(build, gap))
		return add_rest(build, rows, gap->start, end, true);
	if (is_clone(build, gap))
		return add_clone(gap, rows);
	if (is_start_context(build, gap))
		end--;
	if (end - gap->start >= MIN_CODE || at_edge)
		err = add_code(build, gap, end, rows);
	else
		err = add_unknown(build, gap, gap->start, end, rows);
	if (!err)
		err = ut_rows_add(rows, end, gap->end, &outermost);
	return err;
}

/* Rows for code without FDE */
int ut_gap_add(struct ut_build *build, const struct ut_gap *gap, struct ut_rows *rows)
{
	struct unwind_table_stats *stats = build->stats;
	__u64 covered = stats->covered_bytes;
	__u64 followed = stats->origins[UNWIND_TABLE_O_INSTRUCTIONS];
	int err = add_gap(build, gap, rows);

	stats->origins[UNWIND_TABLE_O_KNOWN] += stats->covered_bytes - covered -
		(stats->origins[UNWIND_TABLE_O_INSTRUCTIONS] - followed);
	return err;
}
