/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs that measure share. */
#ifndef _BENCH_H
#define _BENCH_H

#include <err.h>
#include <stdio.h>

#define DEFER_CALLCHAIN	(1ULL << 38)
#define DEFER_OUTPUT	(1ULL << 39)

/* The attribute's word of single bits */
#define ATTR_BITS(attr)	((uint64_t *)(attr) + 5)

static inline int tracepoint(void)
{
	FILE *f = fopen("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", "r");
	int id;

	if (!f || fscanf(f, "%d", &id) != 1)
		err(1, "raw_syscalls:sys_enter");
	fclose(f);
	return id;
}

#endif
