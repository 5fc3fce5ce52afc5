/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM unwind

#if !defined(_TRACE_UNWIND_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_UNWIND_H

#include <linux/tracepoint.h>
#include <linux/unwind_user_types.h>

#ifndef _TRACE_UNWIND_STATUS
#define _TRACE_UNWIND_STATUS
/* The walker stops at the room of the trace without a status of its own. */
#define trace_unwind_status(status)					\
	__print_symbolic(status,					\
			 { UNWIND_USER_FOUND,		"full" },	\
			 { UNWIND_USER_END,		"end" },	\
			 { UNWIND_USER_END_UNCHECKED,	"end, unchecked" },	\
			 { UNWIND_USER_FAULT,		"fault" },	\
			 { UNWIND_USER_REMOTE,		"remote" },	\
			 { UNWIND_USER_CORRUPT,		"corrupt" },	\
			 { UNWIND_USER_UNKNOWN,		"unknown" },	\
			 { UNWIND_USER_NO_CODE,		"no code" },	\
			 { UNWIND_USER_CHANGING,	"changing" },	\
			 { UNWIND_USER_NO_FRAME,	"no frame" },	\
			 { UNWIND_USER_NO_FP,		"no frame pointer" },	\
			 { UNWIND_USER_KILLED,		"killed" })
#endif

TRACE_DEFINE_ENUM(UNWIND_USER_FOUND);
TRACE_DEFINE_ENUM(UNWIND_USER_END);
TRACE_DEFINE_ENUM(UNWIND_USER_END_UNCHECKED);
TRACE_DEFINE_ENUM(UNWIND_USER_FAULT);
TRACE_DEFINE_ENUM(UNWIND_USER_REMOTE);
TRACE_DEFINE_ENUM(UNWIND_USER_CORRUPT);
TRACE_DEFINE_ENUM(UNWIND_USER_UNKNOWN);
TRACE_DEFINE_ENUM(UNWIND_USER_NO_CODE);
TRACE_DEFINE_ENUM(UNWIND_USER_CHANGING);
TRACE_DEFINE_ENUM(UNWIND_USER_NO_FRAME);
TRACE_DEFINE_ENUM(UNWIND_USER_NO_FP);
TRACE_DEFINE_ENUM(UNWIND_USER_KILLED);

/*
 * The SFrame table for a range of code, or the lack of it: "found" by the kernel, "added"
 * or "removed" by prctl(), or the reason why there is none, or why one that was there is
 * not used any more.
 */
TRACE_EVENT(unwind_sframe_section,

	TP_PROTO(unsigned long text_start, unsigned long text_end,
		 u64 table, u32 functions, unsigned int version,
		 const char *what),

	TP_ARGS(text_start, text_end, table, functions, version, what),

	TP_STRUCT__entry(
		__field(unsigned long,	text_start)
		__field(unsigned long,	text_end)
		__field(u64,		table)
		__field(u32,		functions)
		__field(unsigned int,	version)
		__string(what,		what)
	),

	TP_fast_assign(
		__entry->text_start	= text_start;
		__entry->text_end	= text_end;
		__entry->table		= table;
		__entry->functions	= functions;
		__entry->version	= version;
		__assign_str(what);
	),

	TP_printk("text=%#lx-%#lx table=%#llx functions=%u version=%u %s",
		  __entry->text_start, __entry->text_end, __entry->table,
		  __entry->functions, __entry->version, __get_str(what))
);

/*
 * A walk has ended: how many frames it has, how their callers were found, and
 * why there are no more.
 */
TRACE_EVENT(unwind_user_done,

	TP_PROTO(const struct unwind_user_state *state, unsigned int nr),

	TP_ARGS(state, nr),

	TP_STRUCT__entry(
		__field(unsigned int,	nr)
		__field(unsigned int,	sframe)
		__field(unsigned int,	file)
		__field(unsigned int,	fp)
		__field(unsigned int,	entry)
		__field(unsigned int,	signal)
		__field(unsigned int,	status)
		__field(unsigned long,	ip)
	),

	TP_fast_assign(
		__entry->nr	= nr;
		__entry->sframe	= state->frames[UNWIND_USER_TYPE_SFRAME];
		__entry->file	= state->frames[UNWIND_USER_TYPE_FILE];
		__entry->fp	= state->frames[UNWIND_USER_TYPE_FP];
		__entry->entry	= state->frames[UNWIND_USER_TYPE_ENTRY];
		__entry->signal	= state->frames[UNWIND_USER_TYPE_SIGNAL];
		__entry->status	= state->status;
		__entry->ip	= state->ip;
	),

	TP_printk("nr=%u file=%u sframe=%u fp=%u entry=%u signal=%u last=%#lx end=%s",
		  __entry->nr, __entry->file, __entry->sframe, __entry->fp,
		  __entry->entry, __entry->signal, __entry->ip,
		  trace_unwind_status(__entry->status))
);

#endif /* _TRACE_UNWIND_H */

#include <trace/define_trace.h>
