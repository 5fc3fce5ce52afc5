/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM unwind

#if !defined(_TRACE_UNWIND_TABLE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_UNWIND_TABLE_H

#include <linux/kdev_t.h>
#include <linux/tracepoint.h>

/*
 * A table of rules for a file was handed in: "made", or why it was refused; or it is
 * "gone".
 */
TRACE_EVENT(unwind_table,

	TP_PROTO(u64 serial, u32 rows, u64 bytes, const char *what),

	TP_ARGS(serial, rows, bytes, what),

	TP_STRUCT__entry(
		__field(u64,		serial)
		__field(u32,		rows)
		__field(u64,		bytes)
		__string(what,		what)
	),

	TP_fast_assign(
		__entry->serial	= serial;
		__entry->rows	= rows;
		__entry->bytes	= bytes;
		__assign_str(what);
	),

	TP_printk("table=%llu rows=%u bytes=%llu %s", __entry->serial,
		  __entry->rows, __entry->bytes, __get_str(what))
);

/*
 * A table was "attached" to a file, or "detached" from it. The inode is 0 for a vDSO.
 */
TRACE_EVENT(unwind_table_file,

	TP_PROTO(u64 serial, dev_t dev, unsigned long ino, const char *what),

	TP_ARGS(serial, dev, ino, what),

	TP_STRUCT__entry(
		__field(u64,		serial)
		__field(dev_t,		dev)
		__field(unsigned long,	ino)
		__string(what,		what)
	),

	TP_fast_assign(
		__entry->serial	= serial;
		__entry->dev	= dev;
		__entry->ino	= ino;
		__assign_str(what);
	),

	TP_printk("table=%llu dev=%u:%u ino=%lu %s", __entry->serial,
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->ino,
		  __get_str(what))
);

#endif /* _TRACE_UNWIND_TABLE_H */

#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE unwind_table
#include <trace/define_trace.h>
