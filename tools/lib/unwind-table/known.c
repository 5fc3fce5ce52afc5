// SPDX-License-Identifier: GPL-2.0
/*
 * Code without FDE that is known byte by byte. Everything here was checked in the
 * disassembly of real files; code that is not exactly like this is not known.
 */

#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/*
 * How to get to the caller. It follows from the code itself: from the words that have to be
 * on the stack for the "ret" or the jump at its end.
 */
enum shape {
	END,
	AT_8,		/* as at the entry of a function */
	AT_16,		/* 8 bytes are taken */
	AT_24,
	AT_56,
	AT_72,
	PUSHED,		/* rbp is pushed */
	FRAME,		/* and is the frame pointer */
	SAVED_56,	/* rbp is saved, and more is taken below it */
	SAVED_64,
	SAVED_72,
	SAVED_88,
	IN_R8,		/* nothing is left, the return address is in r8 */
	SWITCHED,	/* rbp is the frame pointer, on another stack */
	NEW_THREAD,	/* as at the entry, or where a thread begins */
	OUTERMOST,
	NOT_COVERED,
	UNKNOWN,
	PADDING,	/* any, up to the next multiple of 16 */
};

#define BY(cfa_reg, cfa_off, fp_where, fp_off) {					\
	.kind	= UNWIND_TABLE_CALLER,						\
	.cfa	= { .where = UNWIND_TABLE_REG, .reg = cfa_reg, .off = cfa_off },	\
	.ra	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -8 },			\
	.fp	= { .where = fp_where, .off = fp_off },					\
}

#define BY_SP(off)		BY(UT_REG_SP, off, UNWIND_TABLE_SAME, 0)
#define BY_SP_SAVED(off, fp)	BY(UT_REG_SP, off, UNWIND_TABLE_CFA_DEREF, fp)

static const struct unwind_table_rule shapes[] = {
	[AT_8]		= BY_SP(8),
	[AT_16]		= BY_SP(16),
	[AT_24]		= BY_SP(24),
	[AT_56]		= BY_SP(56),
	[AT_72]		= BY_SP(72),
	[PUSHED]	= BY_SP_SAVED(16, -16),
	[FRAME]		= BY(UT_REG_FP, 16, UNWIND_TABLE_CFA_DEREF, -16),
	[SAVED_56]	= BY_SP_SAVED(56, -24),
	[SAVED_64]	= BY_SP_SAVED(64, -16),
	[SAVED_72]	= BY_SP_SAVED(72, -16),
	[SAVED_88]	= BY_SP_SAVED(88, -16),
	[IN_R8] = {
		.kind	= UNWIND_TABLE_CALLER,
		.cfa	= { .where = UNWIND_TABLE_REG, .reg = UT_REG_SP },
		.ra	= { .where = UNWIND_TABLE_REG, .reg = 8 },
		.fp	= { .where = UNWIND_TABLE_SAME },
	},
	/*
	 * The CFA is just above the place of the frame pointer, on a stack that may be
	 * lower than this one, which only a rule that loads the CFA may lead to. The caller
	 * is compiled by Go: it keeps its frame pointer, and its SP is only used to find its
	 * caller's. For this the CFA is as good as any value between its SP and its frame
	 * pointer, of which only the latter can be loaded.
	 */
	[SWITCHED] = {
		.kind	= UNWIND_TABLE_CALLER,
		.cfa	= { .where = UNWIND_TABLE_REG_DEREF, .reg = UT_REG_FP },
		.ra	= { .where = UNWIND_TABLE_REG_DEREF, .reg = UT_REG_FP, .off = 8 },
		.fp	= { .where = UNWIND_TABLE_REG_DEREF, .reg = UT_REG_FP },
	},
	[NEW_THREAD] = {
		.kind	= UNWIND_TABLE_CALLER,
		.flags	= UNWIND_TABLE_NEW_THREAD,
		.cfa	= { .where = UNWIND_TABLE_REG, .reg = UT_REG_SP, .off = 8 },
		.ra	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -8 },
		.fp	= { .where = UNWIND_TABLE_SAME },
	},
	[OUTERMOST]	= { .kind = UNWIND_TABLE_OUTERMOST },
	[NOT_COVERED]	= { .kind = UNWIND_TABLE_NOT_COVERED },
};

#define MAX_PARTS	UT_KNOWN_PARTS

/* Bytes in hexadecimal, "??" for any, "*" for a few of them */
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
static const struct part others[][MAX_PARTS] = {
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
	/*
	 * make_fcontext of boost.context. The coroutine that it makes returns into the
	 * second part, so the byte before that is looked up for a caller.
	 */
	{
		{ AT_8, "48 89 f8 48 83 e0 f0 48 8d 40 b8 48 89 50 30 0f ae 18 d9 78 04 "
			"48 8d 0d 10 00 00 00 48 89 48 40 48 8d 0d 08 00 00 00 48 89 48 38" },
		{ UNKNOWN, "c3" },
		{ OUTERMOST, "55 ff e3 48 31 ff e8 ?? ?? ?? ?? f4" },
	},
	/* jump_fcontext: the stacks that it goes from and to look the same. */
	{
		{ AT_8, "48 8d 64 24 c0" },
		{ AT_72, "0f ae 1c 24 d9 7c 24 04 4c 89 64 24 10 4c 89 6c 24 18 4c 89 74 24 20 "
			 "4c 89 7c 24 28 48 89 5c 24 30 48 89 6c 24 38 48 89 e0 48 89 fc" },
		{ SAVED_72, "4c 8b 44 24 40 0f ae 14 24 d9 6c 24 04 4c 8b 64 24 10 4c 8b 6c 24 18 "
			    "4c 8b 74 24 20 4c 8b 7c 24 28 48 8b 5c 24 30 48 8b 6c 24 38 "
			    "48 8d 64 24 48" },
		{ IN_R8, "48 89 f2 48 89 c7 41 ff e0" },
	},
	/* ontop_fcontext: as if the other stack had called a function */
	{
		{ AT_8, "49 89 d0 48 8d 64 24 c0" },
		{ AT_72, "0f ae 1c 24 d9 7c 24 04 4c 89 64 24 10 4c 89 6c 24 18 4c 89 74 24 20 "
			 "4c 89 7c 24 28 48 89 5c 24 30 48 89 6c 24 38 48 89 e0 48 89 fc" },
		{ SAVED_72, "0f ae 14 24 d9 6c 24 04 4c 8b 64 24 10 4c 8b 6c 24 18 "
			    "4c 8b 74 24 20 4c 8b 7c 24 28 48 8b 5c 24 30 48 8b 6c 24 38 "
			    "48 8d 64 24 40" },
		{ AT_8, "48 89 f2 48 89 c7 41 ff e0" },
	},
	/* crosscall1 of runtime/cgo: calls the function of a new thread */
	{
		{ UNKNOWN, "53 55 41 54 41 55 41 56 41 57" },
		{ SAVED_56, "48 89 fb 48 89 d7 ff d6 ff d3" },
		{ UNKNOWN, "41 5f 41 5e 41 5d 41 5c 5d 5b" },
		{ AT_8, "c3" },
	},
};

/*
 * The runtime of Go 1.24, as it is in programs at a fixed address and at any. Go's code
 * keeps frame pointers, and so do these functions: rbp leads to the own frame, whatever
 * stack SP is on. "*" is how they get at the variable g. They may be anywhere in Go's
 * code, and nowhere else.
 */
static const struct part go_runtime[][MAX_PARTS] = {
	/* runtime.goexit: what a goroutine returns to */
	{
		{ OUTERMOST, "90 e8 ?? ?? ?? ?? 90 cc cc cc cc cc cc cc cc cc" },
	},
	/* runtime.mstart: what a thread calls */
	{
		{ AT_8, "e8 ?? ?? ?? ?? c3 cc cc cc cc cc cc cc cc cc cc" },
	},
	/* gosave_systemstack_switch, which systemstack and asmcgocall call */
	{
		{ AT_8, "4c 8d 0d ?? ?? ?? ?? 4d 89 4e ?? 4c 8d 4c 24 08 4d 89 4e ?? "
			"49 c7 46 ?? 00 00 00 00 49 89 6e ?? 4d 8b 4e ?? 4d 85 c9 74 05 "
			"e8 ?? ?? ?? ?? c3" },
	},
	/* runtime.asmcgocall_landingpad: jumps */
	{
		{ AT_8, "48 89 df ff e0 cc cc cc cc cc cc cc cc cc cc cc" },
	},
	/* setg_gcc and _cgo_topofstack, each in both forms: C calls them. */
	{
		{ AT_8, "64 48 89 3c 25 ?? ?? ?? ?? 49 89 fe c3" },
	},
	{
		{ AT_8, "48 c7 c0 ?? ?? ?? ?? 64 48 89 38 49 89 fe c3" },
	},
	{
		{ AT_8, "64 48 8b 04 25 ?? ?? ?? ?? 48 8b 40 ?? 48 8b 80 ?? ?? ?? ?? "
			"48 8b 40 ?? c3" },
	},
	{
		{ AT_8, "48 c7 c1 ?? ?? ?? ?? 64 48 8b 01 48 8b 40 ?? 48 8b 80 ?? ?? ?? ?? "
			"48 8b 40 ?? c3" },
	},
	/* runtime.sigtramp: what the kernel calls for a signal */
	{
		{ AT_8, "48 83 ec 30" },
		{ AT_56, "48 89 6c 24 28 48 8d 6c 24 28" },
		{ FRAME, "48 89 1c 24 4c 89 64 24 08 4c 89 6c 24 10 4c 89 74 24 18 4c 89 7c 24 20 "
			 "* 66 45 0f ef ff 48 83 ec 18 48 89 f8 48 89 f3 48 89 d1 e8 ?? ?? ?? ?? "
			 "48 83 c4 18 48 8b 1c 24 4c 8b 64 24 08 4c 8b 6c 24 10 4c 8b 74 24 18 "
			 "4c 8b 7c 24 20 48 8b 6c 24 28" },
		{ AT_56, "48 83 c4 30" },
		{ AT_8, "c3" },
	},
	/* runtime.cgoSigtramp: or this, which jumps to it or to the program's own */
	{
		{ AT_8, "48 8b 05 ?? ?? ?? ?? 48 85 c0 74 ?? 48 8b 05 ?? ?? ?? ?? 48 85 c0 74 ?? * "
			"48 85 c0 74 ?? 48 8b 40 ?? 48 85 c0 74 ?? 8b 88 ?? ?? ?? ?? 85 c9 74 ?? "
			"48 8b 88 ?? ?? ?? ?? 48 85 c9 74 ?? 48 8b 49 ?? 48 85 c9 74 ?? "
			"4c 8b 80 ?? ?? ?? ?? 4d 85 c0 74 ?? 8b 88 ?? ?? ?? ?? 85 c9 75 ?? "
			"48 8b 0d ?? ?? ?? ?? 4c 8d 0d ?? ?? ?? ?? 48 8b 05 ?? ?? ?? ?? ff e0 "
			"e9 ?? ?? ?? ?? 83 ff 1b 75 ?? b8 00 00 00 00 b9 01 00 00 00 "
			"4c 8d 1d ?? ?? ?? ?? f0 41 0f b1 0b 75 ?? 48 8b 0d ?? ?? ?? ?? "
			"4c 8d 05 ?? ?? ?? ?? 4c 8d 0d ?? ?? ?? ?? 48 8b 05 ?? ?? ?? ?? ff e0" },
	},
	/* runtime.systemstack: calls a function on the stack of g0 */
	{
		{ NOT_COVERED, "55 48 89 e5 48 8b 7c 24 10 * 48 8b 58 ?? 48 3b 43 ?? 74 ?? 48 "
			       "8b 13 48 39 d0 74 ?? 48 3b 83 ?? ?? ?? ?? 75 ?? e8 ?? ?? ?? "
			       "?? * 49 89 d6 48 8b 62 ??" },
		{ SWITCHED, "48 89 fa 48 8b 3f ff d7 * 48 8b 58 ?? 48 8b 83 ?? ?? ?? ?? * "
			    "48 8b 60 ??" },
		{ NOT_COVERED, "48 8b 68 ?? 48 c7 40 ?? 00 00 00 00 48 c7 40 ?? 00 00 00 00 "
			       "5d c3 48 89 fa 48 8b 3f 5d ff e7 48 8d 05 ?? ?? ?? ?? ff d0 "
			       "cd 03" },
	},
	/* runtime.asmcgocall: calls C on the stack of g0 */
	{
		{ NOT_COVERED, "55 48 89 e5 48 8b 44 24 10 48 8b 5c 24 18 48 89 e2 * 48 83 ff "
			       "00 74 ?? 4c 8b 47 ?? 49 8b 70 ?? 48 39 f7 74 ?? 49 8b 30 48 "
			       "39 f7 74 ?? e8 ?? ?? ?? ?? * 48 8b 66 ??" },
		{ SWITCHED, "48 83 ec 10 48 83 e4 f0 48 89 7c 24 08 48 8b 7f ?? 48 29 d7 "
			    "48 89 3c 24 e8 ?? ?? ?? ?? * 48 8b 7c 24 08 48 8b 77 ?? 48 2b "
			    "34 24 * 48 89 f4" },
		{ NOT_COVERED, "89 44 24 20 5d c3 48 83 ec 10 48 83 e4 f0 48 c7 44 24 08 00 "
			       "00 00 00 48 89 14 24 e8 ?? ?? ?? ?? 48 8b 34 24 48 89 f4 89 "
			       "44 24 20 5d c3" },
	},
	/* time.now: asks the vDSO on the stack of g0 */
	{
		{ NOT_COVERED, "55 48 89 e5 48 83 ec 10 49 89 e4 49 8b 5e ?? 48 8b 8b ?? ?? "
			       "?? ?? 48 8b 93 ?? ?? ?? ?? 48 89 0c 24 48 89 54 24 08 48 8d "
			       "54 24 20 48 8b 4a ?? 48 89 8b ?? ?? ?? ?? 48 89 93 ?? ?? ?? "
			       "?? 4c 3b b3 ?? ?? ?? ?? 75 07 48 8b 13 48 8b 62 ??" },
		{ SWITCHED, "48 83 ec 20 48 83 e4 f0 bf 00 00 00 00 48 8d 74 24 10 48 8b "
			    "05 ?? ?? ?? ?? 48 83 f8 00 74 54 ff d0 bf 01 00 00 00 48 8d "
			    "34 24 48 8b 05 ?? ?? ?? ?? ff d0 48 8b 44 24 10 48 8b 7c 24 "
			    "18 48 8b 0c 24 48 69 c9 00 ca 9a 3b 48 8b 54 24 08 4c 89 e4" },
		{ NOT_COVERED, "48 8b 74 24 08 48 89 b3 ?? ?? ?? ?? 48 8b 34 24 48 89 b3 ?? "
			       "?? ?? ?? 48 89 fb 48 01 d1 48 83 c4 10 5d c3" },
		{ SWITCHED, "48 c7 c0 e4 00 00 00 0f 05 bf 01 00 00 00 48 8d 34 24 48 c7 "
			    "c0 e4 00 00 00 0f 05 eb a3" },
	},
	/* runtime.nanotime1: so does this */
	{
		{ NOT_COVERED, "55 48 89 e5 48 83 ec 10 49 89 e4 49 8b 5e ?? 48 8b 8b ?? ?? "
			       "?? ?? 48 8b 93 ?? ?? ?? ?? 48 89 0c 24 48 89 54 24 08 48 8d "
			       "54 24 20 48 8b 4a ?? 48 89 8b ?? ?? ?? ?? 48 89 93 ?? ?? ?? "
			       "?? 4c 3b b3 ?? ?? ?? ?? 75 07 48 8b 13 48 8b 62 ??" },
		{ SWITCHED, "48 83 ec 10 48 83 e4 f0 bf 01 00 00 00 48 8d 34 24 48 8b 05 "
			    "?? ?? ?? ?? 48 83 f8 00 74 3a ff d0 48 8b 04 24 48 8b 54 24 "
			    "08 4c 89 e4" },
		{ NOT_COVERED, "48 8b 4c 24 08 48 89 8b ?? ?? ?? ?? 48 8b 0c 24 48 89 8b ?? "
			       "?? ?? ?? 48 69 c0 00 ca 9a 3b 48 01 d0 48 89 44 24 20 48 83 "
			       "c4 10 5d c3" },
		{ SWITCHED, "48 c7 c0 e4 00 00 00 0f 05 eb bd" },
	},
	/* runtime.mcall: calls a function that does not return, on the stack of g0 */
	{
		{ NOT_COVERED, "55 48 89 e5 48 89 c2 48 89 e3 48 8b 5b ?? 49 89 5e ?? 48 8d "
			       "5c 24 10 49 89 5e ?? 48 8b 5d 00 49 89 5e ?? 49 8b 5e ?? 48 "
			       "8b 33 4c 39 f6 75 ?? e9 ?? ?? ?? ?? 4c 89 f0 49 89 f6 * 49 8b "
			       "66 ??" },
		{ OUTERMOST, "50 4c 8b 22 41 ff d4 90 58 e9 ?? ?? ?? ??" },
		{ NOT_COVERED, "5d c3" },
	},
	/* runtime.morestack: the other stack is known only to g */
	{
		{ AT_8, "* 48 8b 5f ?? 48 8b 04 24 48 89 47 ?? 48 8d 44 24 08 48 89 47 "
			"?? 48 89 6f ?? 48 89 57 ?? 48 8b 33 48 39 f7 75 ?? e8 ?? ?? "
			"?? ?? e8 ?? ?? ?? ?? 48 8b 73 ?? 48 39 f7 75 ?? e8 ?? ?? ?? "
			"?? e8 ?? ?? ?? ?? 48 8b 44 24 08 48 89 43 ?? 48 8d 44 24 10 "
			"48 89 43 ?? 48 89 7b ?? 48 8b 1b * 48 8b 63 ??" },
		{ UNKNOWN, "48 8b 6b ?? e8 ?? ?? ?? ?? e8 ?? ?? ?? ?? c3" },
	},
	/* runtime.clone: the old thread and the new one */
	{
		{ AT_8, "8b 7c 24 08 48 8b 74 24 10 48 c7 c2 00 00 00 00 49 c7 c2 00 "
			"00 00 00 49 c7 c0 00 00 00 00 4c 8b 6c 24 18 4c 8b 4c 24 20 "
			"4c 8b 64 24 28 49 83 fd 00 74 ?? 49 83 f9 00 74 ?? 4d 8d 85 "
			"?? ?? ?? ?? 49 83 c0 08 48 81 cf 00 00 08 00 b8 38 00 00 00 "
			"0f 05" },
		{ NEW_THREAD, "48 83 f8 00 74 ?? 89 44 24 30 c3" },
		{ OUTERMOST, "48 89 f4 49 83 fd 00 74 ?? 49 83 f9 00 74 ?? b8 ba 00 00 00 "
			     "0f 05 49 89 45 ?? * 4d 89 69 ?? * 4d 89 ce e8 ?? ?? ?? ?? 41 ff "
			     "d4 bf 6f 00 00 00 b8 3c 00 00 00 0f 05 eb f2" },
	},
	/* crosscall2: C calls Go */
	{
		{ AT_8, "55" },
		{ PUSHED, "48 89 e5" },
		{ FRAME, "48 83 ec 30 48 89 6c 24 28 48 8d 6c 24 28" },
		{ SAVED_64, "48 89 1c 24 4c 89 64 24 08 4c 89 6c 24 10 4c 89 74 24 18 4c "
			    "89 7c 24 20 48 83 ec 18" },
		{ SAVED_88, "48 89 3c 24 48 89 74 24 08 48 89 4c 24 10 e8 ?? ?? ?? ?? 48 "
			    "83 c4 18" },
		{ SAVED_64, "48 8b 1c 24 4c 8b 64 24 08 4c 8b 6c 24 10 4c 8b 74 24 18 4c "
			    "8b 7c 24 20 48 8b 6c 24 28 48 83 c4 30" },
		{ PUSHED, "5d" },
		{ AT_8, "c3" },
	},
};

/* How much code a thread-local variable takes, at most */
#define MAX_ANY		12

static int hex(char digit)
{
	return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/*
 * How many bytes does a pattern have that is at the start of @code? 0: other code. It has bytes in
 * hexadecimal, "??" for any, "*" for up to MAX_ANY of them.
 */
size_t ut_match(const char *pattern, const __u8 *code, size_t len)
{
	size_t n = 0, any, more;

	for (; *pattern; pattern += pattern[2] ? 3 : 2, n++) {
		if (*pattern == '*') {
			for (any = 0; any <= MAX_ANY && any < len - n; any++) {
				more = ut_match(pattern + 2, code + n + any, len - n - any);
				if (more)
					return n + any + more;
			}
			return 0;
		}
		if (n == len)
			return 0;
		if (*pattern == '?')
			continue;
		if (code[n] != hex(pattern[0]) * 16 + hex(pattern[1]))
			return 0;
	}
	return n;
}

static bool match_all(const struct part *parts, const __u8 *code, size_t len,
		      struct ut_known *known)
{
	size_t n = 0;
	unsigned int i;

	for (i = 0; i < MAX_PARTS && parts[i].shape; i++) {
		size_t part = -n % 16;

		if (n > len)
			return false;
		if (parts[i].shape != PADDING)
			part = ut_match(parts[i].code, code + n, len - n);
		if (!part && parts[i].shape != PADDING)
			return false;
		known->lens[i] = part;
		n += part;
	}
	known->parts = parts;
	known->nr = i;
	known->len = n;
	return true;
}

/* A bit for each possible value of the first two bytes */
#define NR_WORDS	(0x10000 / 64)

/*
 * Note how code that is known starts. Nearly no code starts like this, so that comparing it with
 * all that is known can be spared.
 */
int ut_known_prepare(struct ut_build *build)
{
	unsigned int i;

	if (build->known)
		return 0;
	build->known = calloc(NR_WORDS, sizeof(*build->known));
	if (!build->known)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		const char *code = others[i][0].code;
		unsigned int first = hex(code[0]) * 16 + hex(code[1]), second, last;

		second = code[2] && code[3] != '?' ? hex(code[3]) * 16 + hex(code[4]) : 0;
		last = code[2] && code[3] != '?' ? second : 0xff;
		for (; second <= last; second++)
			build->known[first * 4 + second / 64] |= 1ULL << (second % 64);
	}
	return 0;
}

/* Can this be the start of code that is known? */
bool ut_known_may_start(const struct ut_build *build, const __u8 *code, size_t len)
{
	return len > 1 && build->known[code[0] * 4 + code[1] / 64] & 1ULL << (code[1] % 64);
}

/* Is this code that is known? @go: the linker of Go has put it together. */
bool ut_known_find(const __u8 *code, size_t len, bool go, struct ut_known *known)
{
	size_t i;

	for (i = 0; go && i < ARRAY_SIZE(go_runtime); i++) {
		if (match_all(go_runtime[i], code, len, known))
			return true;
	}
	for (i = 0; !go && i < ARRAY_SIZE(others); i++) {
		if (match_all(others[i], code, len, known))
			return true;
	}
	return false;
}

/* Add the rows of code that is known, at an offset in the file. */
int ut_known_add(struct ut_rows *rows, __u64 start, const struct ut_known *known)
{
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < known->nr; i++) {
		enum shape shape = known->parts[i].shape;
		__u64 end = start + known->lens[i];

		if (shape == PADDING || shape == UNKNOWN)
			err = ut_rows_add_unknown(rows, start, end, UNWIND_TABLE_R_GAP);
		else
			err = ut_rows_add(rows, start, end, &shapes[shape]);
		start = end;
	}
	return err;
}

/* Is a rule that of a function's entry? */
bool ut_is_plain(const struct unwind_table_rule *rule)
{
	return !memcmp(rule, &shapes[AT_8], sizeof(*rule));
}
