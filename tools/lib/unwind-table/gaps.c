// SPDX-License-Identifier: GPL-2.0
/*
 * Code without FDE that is known nevertheless. Everything here was checked in the
 * disassembly of real files; code that is not exactly like this stays unknown.
 */

#include "internal.h"

/*
 * How to get to the caller from code that is known byte by byte. It follows from the
 * code itself: what has to be on the stack for the "ret" or the jump at its end.
 */
enum shape {
	END,
	AT_8,		/* as at the entry of a function */
	AT_16,		/* 8 bytes are taken */
	AT_24,
	PUSHED,		/* rbp is pushed */
	FRAME,		/* and is the frame pointer */
	PADDING,	/* any, up to the next multiple of 16 */
};

static const struct unwind_table_rule shapes[] = {
	[AT_8] = {
		.kind	= UNWIND_TABLE_CALLER,
		.cfa	= { .where = UNWIND_TABLE_REG, .reg = UT_REG_SP, .off = 8 },
		.ra	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -8 },
		.fp	= { .where = UNWIND_TABLE_SAME },
	},
	[AT_16] = {
		.kind	= UNWIND_TABLE_CALLER,
		.cfa	= { .where = UNWIND_TABLE_REG, .reg = UT_REG_SP, .off = 16 },
		.ra	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -8 },
		.fp	= { .where = UNWIND_TABLE_SAME },
	},
	[AT_24] = {
		.kind	= UNWIND_TABLE_CALLER,
		.cfa	= { .where = UNWIND_TABLE_REG, .reg = UT_REG_SP, .off = 24 },
		.ra	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -8 },
		.fp	= { .where = UNWIND_TABLE_SAME },
	},
	[PUSHED] = {
		.kind	= UNWIND_TABLE_CALLER,
		.cfa	= { .where = UNWIND_TABLE_REG, .reg = UT_REG_SP, .off = 16 },
		.ra	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -8 },
		.fp	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -16 },
	},
	[FRAME] = {
		.kind	= UNWIND_TABLE_CALLER,
		.cfa	= { .where = UNWIND_TABLE_REG, .reg = UT_REG_FP, .off = 16 },
		.ra	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -8 },
		.fp	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -16 },
	},
};

static const struct unwind_table_rule outermost = { .kind = UNWIND_TABLE_OUTERMOST };
static const struct unwind_table_rule not_covered = { .kind = UNWIND_TABLE_NOT_COVERED };

#define MAX_PARTS	8

/* Bytes in hexadecimal, "??" for any */
struct part {
	enum shape	shape;
	const char	*code;
};

/*
 * The start files of gcc and glibc are linked into every program and library and
 * are built without tables. They call constructors and destructors. Each comes
 * with the address of something from the GOT, and with a constant that the linker
 * has put there instead.
 *
 * They may be found anywhere in a gap, so each of these has to be right whatever
 * surrounds it: it ends with a "ret" that all of it reaches, or cannot be mistaken
 * for anything else.
 */
static const struct part known[][MAX_PARTS] = {
	/* _init: calls __gmon_start__ if there is one */
	{
		{ AT_8, "48 83 ec 08" },
		{ AT_16, "48 8b 05 ?? ?? ?? ?? 48 85 c0 74 02 ff d0 48 83 c4 08" },
		{ AT_8, "c3" },
	},
	/* _init in static programs */
	{
		{ AT_8, "48 83 ec 08" },
		{ AT_16, "48 c7 c0 00 00 00 00 48 85 c0 74 02 ff d0 48 83 c4 08" },
		{ AT_8, "c3" },
	},
	/* libcrypto adds a call of OPENSSL_cpuid_setup */
	{
		{ AT_8, "48 83 ec 08" },
		{ AT_16, "48 8b 05 ?? ?? ?? ?? 48 85 c0 74 02 ff d0 "
			 "e8 ?? ?? ?? ?? 48 83 c4 08" },
		{ AT_8, "c3" },
	},
	/* _init where indirect branches are tracked */
	{
		{ AT_8, "f3 0f 1e fa 48 83 ec 08" },
		{ AT_16, "48 8b 05 ?? ?? ?? ?? 48 85 c0 74 02 ff d0 48 83 c4 08" },
		{ AT_8, "c3" },
	},
	/* _fini: does nothing */
	{
		{ AT_8, "48 83 ec 08" },
		{ AT_16, "48 83 c4 08" },
		{ AT_8, "c3" },
	},
	/* _fini where indirect branches are tracked */
	{
		{ AT_8, "f3 0f 1e fa 48 83 ec 08" },
		{ AT_16, "48 83 c4 08" },
		{ AT_8, "c3" },
	},
	/* deregister_tm_clones of crtbeginS.o: calls nothing, may jump away */
	{
		{ AT_8, "48 8d 3d ?? ?? ?? ?? 48 8d 05 ?? ?? ?? ?? 48 39 f8 74 15 "
			"48 8b 05 ?? ?? ?? ?? 48 85 c0 74 09 ff e0 "
			"0f 1f 80 00 00 00 00 c3" },
	},
	/* deregister_tm_clones in static programs at any address */
	{
		{ AT_8, "48 8d 3d ?? ?? ?? ?? 48 8d 05 ?? ?? ?? ?? 48 39 f8 74 15 "
			"48 c7 c0 00 00 00 00 48 85 c0 74 09 ff e0 "
			"0f 1f 80 00 00 00 00 c3" },
	},
	/* deregister_tm_clones of crtbegin.o, for programs at a fixed address */
	{
		{ AT_8, "b8 ?? ?? ?? ?? 48 3d ?? ?? ?? ?? 74 13 b8 00 00 00 00 48 85 c0 "
			"74 09 bf ?? ?? ?? ?? ff e0 66 90 c3" },
	},
	/* register_tm_clones of crtbeginS.o: calls nothing either */
	{
		{ AT_8, "48 8d 3d ?? ?? ?? ?? 48 8d 35 ?? ?? ?? ?? 48 29 fe 48 89 f0 "
			"48 c1 ee 3f 48 c1 f8 03 48 01 c6 48 d1 fe 74 14 "
			"48 8b 05 ?? ?? ?? ?? 48 85 c0 74 08 ff e0 "
			"66 0f 1f 44 00 00 c3" },
	},
	/* register_tm_clones in static programs at any address */
	{
		{ AT_8, "48 8d 3d ?? ?? ?? ?? 48 8d 35 ?? ?? ?? ?? 48 29 fe 48 89 f0 "
			"48 c1 ee 3f 48 c1 f8 03 48 01 c6 48 d1 fe 74 14 "
			"48 c7 c0 00 00 00 00 48 85 c0 74 08 ff e0 "
			"66 0f 1f 44 00 00 c3" },
	},
	/* register_tm_clones of crtbegin.o */
	{
		{ AT_8, "be ?? ?? ?? ?? 48 81 ee ?? ?? ?? ?? 48 89 f0 48 c1 ee 3f "
			"48 c1 f8 03 48 01 c6 48 d1 fe 74 11 b8 00 00 00 00 48 85 c0 "
			"74 07 bf ?? ?? ?? ?? ff e0 c3" },
	},
	/* __do_global_dtors_aux of crtbeginS.o: calls __cxa_finalize */
	{
		{ AT_8, "f3 0f 1e fa 80 3d ?? ?? ?? ?? 00 75 2b 55" },
		{ PUSHED, "48 83 3d ?? ?? ?? ?? 00 48 89 e5" },
		{ FRAME, "74 0c 48 8b 3d ?? ?? ?? ?? e8 ?? ?? ?? ?? "
			 "e8 ?? ?? ?? ?? c6 05 ?? ?? ?? ?? 01 5d" },
		{ AT_8, "c3 0f 1f 00 c3" },
		{ PADDING, "" },
		/* frame_dummy: jumps to register_tm_clones */
		{ AT_8, "f3 0f 1e fa e9 ?? ?? ?? ??" },
	},
	/* __do_global_dtors_aux of crtbegin.o */
	{
		{ AT_8, "f3 0f 1e fa 80 3d ?? ?? ?? ?? 00 75 13 55" },
		{ PUSHED, "48 89 e5" },
		{ FRAME, "e8 ?? ?? ?? ?? c6 05 ?? ?? ?? ?? 01 5d" },
		{ AT_8, "c3 90 c3" },
		{ PADDING, "" },
		{ AT_8, "f3 0f 1e fa eb ??" },
	},
	/* Entry of a PLT, which lld gives no FDE: jump, or push a number and bind */
	{
		{ AT_8, "ff 25 ?? ?? ?? ?? 68 ?? ?? ?? ??" },
		{ AT_16, "e9 ?? ?? ?? ??" },
	},
	/* Its first entry: that number is on the stack already. */
	{
		{ AT_16, "ff 35 ?? ?? ?? ??" },
		{ AT_24, "ff 25 ?? ?? ?? ?? 0f 1f 40 00" },
	},
	/* Two entries of a PLT that is not lazy, as for ifuncs in static programs */
	{
		{ AT_8, "ff 25 ?? ?? ?? ?? 66 90 ff 25 ?? ?? ?? ?? 66 90" },
	},
};

/* Code that is looked through at once, and without success */
#define MAX_CODE	4096
/* Bytes of the longest of them */
#define MAX_KNOWN	80
/* Less is padding between functions, but at the ends of a segment. */
#define MIN_CODE	16

static int hex(char digit)
{
	return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* Bytes that a pattern has, 0: the code is another one */
static size_t match(const char *pattern, const __u8 *code, size_t len)
{
	size_t n = 0;

	for (; *pattern; pattern += pattern[2] ? 3 : 2, n++) {
		if (n == len)
			return 0;
		if (*pattern == '?')
			continue;
		if (code[n] != hex(pattern[0]) * 16 + hex(pattern[1]))
			return 0;
	}
	return n;
}

/* How long a part is, @n bytes after the beginning, which is a multiple of 16 */
static size_t length_of(const struct part *part, size_t n)
{
	if (part->shape == PADDING)
		return -n % 16;
	return (strlen(part->code) + 1) / 3;
}

static size_t match_all(const struct part *parts, const __u8 *code, size_t len)
{
	size_t n = 0;
	unsigned int i;

	for (i = 0; i < MAX_PARTS && parts[i].shape; i++) {
		if (n > len)
			return 0;
		if (parts[i].shape != PADDING &&
		    !match(parts[i].code, code + n, len - n))
			return 0;
		n += length_of(&parts[i], n);
	}
	return n;
}

static const struct part *find_known(const __u8 *code, size_t len, size_t *size)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		*size = match_all(known[i], code, len);
		if (*size)
			return known[i];
	}
	return NULL;
}

static int add_known(struct ut_rows *rows, __u64 start, const struct part *parts)
{
	size_t n = 0, len;
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < MAX_PARTS && parts[i].shape; i++, n += len) {
		__u64 at = start + n;

		len = length_of(&parts[i], n);
		if (parts[i].shape == PADDING)
			err = ut_rows_add_unknown(rows, at, at + len, UNWIND_TABLE_R_GAP);
		else
			err = ut_rows_add(rows, at, at + len, &shapes[parts[i].shape]);
	}
	return err;
}

/*
 * The program's entry, which has no FDE in ld.so. It has no caller. Where it ends is
 * not known, but it is short. Should a function that it calls begin within that
 * range, walks from there miss one frame, that of the entry.
 */
#define MAX_ENTRY	64

static int add_unknown(const struct ut_elf *elf, const struct ut_gap *gap,
		       __u64 start, __u64 end, struct ut_rows *rows)
{
	__u64 entry = elf->entry - gap->segment->addr + gap->segment->offset;
	__u64 entry_end;
	int err;

	if (entry < start || entry >= end)
		return ut_rows_add_unknown(rows, start, end, UNWIND_TABLE_R_GAP);
	entry_end = end - entry > MAX_ENTRY ? entry + MAX_ENTRY : end;
	err = ut_rows_add_unknown(rows, start, entry, UNWIND_TABLE_R_GAP);
	if (!err)
		err = ut_rows_add(rows, entry, entry_end, &outermost);
	if (!err)
		err = ut_rows_add_unknown(rows, entry_end, end, UNWIND_TABLE_R_GAP);
	return err;
}

/* As at the entry of a function */
static bool is_plain(const struct unwind_table_rule *rule)
{
	return !memcmp(rule, &shapes[AT_8], sizeof(*rule));
}

/*
 * glibc's clone() and clone3() have no FDE from the system call up to the code that
 * only the new thread runs: syscall; test %rax,%rax; jl error; je child; ret. None of
 * that touches SP or FP.
 */
static bool is_clone(const struct ut_elf *elf, const struct ut_gap *gap)
{
	static const char * const forms[] = {
		"0f 05 48 85 c0 7c ?? 74 01 c3",
		"0f 05 48 85 c0 0f 8c ?? ?? ?? ?? 74 01 c3",
	};
	__u8 code[16];
	size_t len = gap->end - gap->start;
	unsigned int i;

	if (!is_plain(&gap->before) || gap->after.kind != UNWIND_TABLE_OUTERMOST ||
	    len > sizeof(code) ||
	    ut_elf_read_code(elf, gap->segment, gap->start, code, len) != len)
		return false;
	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		if (match(forms[i], code, len) == len)
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
static bool is_start_context(const struct ut_elf *elf, const struct ut_gap *gap)
{
	/* mov %rbx,%rsp; mov (%rsp),%rdi; test %rdi,%rdi; je; call setcontext */
	static const char form[] = "48 89 dc 48 8b 3c 24 48 85 ff 74 ?? e8";
	__u64 len = gap->after_end - gap->end;
	__u8 code[13];

	if (!is_plain(&gap->after) || len < 20 || len > 64)
		return false;
	return match(form, code, ut_elf_read_code(elf, gap->segment, gap->end,
						  code, sizeof(code)));
}

/* Code of a gap, as much as was read at once */
struct window {
	__u8	code[MAX_CODE];
	__u64	start;
	size_t	len;
};

/* What is known at an offset, up to @end; code is read as it is wanted */
static const struct part *known_at(const struct ut_elf *elf, const struct ut_gap *gap,
				   __u64 at, __u64 end, struct window *window, size_t *size)
{
	size_t want = end - at < MAX_KNOWN ? end - at : MAX_KNOWN;

	if (at - window->start + want > window->len) {
		window->start = at;
		window->len = ut_elf_read_code(elf, gap->segment, at, window->code,
					       end - at < MAX_CODE ? end - at : MAX_CODE);
		if (window->len < want)
			return NULL;
	}
	return find_known(window->code + (at - window->start), want, size);
}

/* Look for what is known in the code of a gap. */
static int add_code(const struct ut_elf *elf, const struct ut_gap *gap, __u64 end,
		    struct ut_rows *rows)
{
	/* The functions of start files, and PLTs, are aligned. */
	__u64 done = gap->start, at = (gap->start + 3) & ~3ULL;
	struct window window;
	size_t size;
	int err = 0;

	window.start = at;
	window.len = 0;
	while (at < end && at - done < MAX_CODE && !err) {
		const struct part *parts = known_at(elf, gap, at, end, &window, &size);

		if (!parts) {
			at += 4;
			continue;
		}
		err = add_unknown(elf, gap, done, at, rows);
		if (!err)
			err = add_known(rows, at, parts);
		done = at + size;
		at = (done + 3) & ~3ULL;
	}
	return err ? err : add_unknown(elf, gap, done, end, rows);
}

/*
 * Node's library has the machine code of V8's builtins as one piece, without FDEs.
 * Like all code that V8 makes it keeps frame pointers. The piece has no symbol of
 * its own, but only V8 has a function that tells where it is.
 */
#define MIN_V8		(512 * 1024)

static bool is_v8(struct ut_elf *elf, const struct ut_gap *gap)
{
	static const char name[] = "_ZN2v87Isolate20GetEmbeddedCodeRangeEPPKvPm";

	if (gap->end - gap->start < MIN_V8)
		return false;
	/* All names have to be looked through, so once is enough. */
	if (!elf->asked_for_v8) {
		elf->asked_for_v8 = true;
		elf->has_v8 = ut_elf_has_symbol(elf, name);
	}
	return elf->has_v8;
}

/* Rows for code without FDE */
int ut_gap_add(struct ut_elf *elf, const struct ut_gap *gap, struct ut_rows *rows)
{
	const struct ut_segment *segment = gap->segment;
	bool at_edge = gap->start == segment->offset ||
		       gap->end == segment->offset + segment->len;
	__u64 end = gap->end;
	int err;

	/* Go's compiler keeps frame pointers, and makes no FDEs. */
	if (elf->is_go || is_v8(elf, gap))
		return ut_rows_add(rows, gap->start, end, &not_covered);
	if (is_clone(elf, gap))
		return add_clone(gap, rows);
	if (is_start_context(elf, gap))
		end--;
	if (end - gap->start >= MIN_CODE || at_edge)
		err = add_code(elf, gap, end, rows);
	else
		err = add_unknown(elf, gap, gap->start, end, rows);
	if (!err)
		err = ut_rows_add(rows, end, gap->end, &outermost);
	return err;
}
