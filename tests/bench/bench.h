/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the programs that measure. */
#ifndef _BENCH_H
#define _BENCH_H

#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

static inline uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static inline uint64_t loop(int rounds)
{
	uint64_t start = now();
	int i;

	for (i = 0; i < rounds; i++)
		syscall(SYS_getppid);
	return now() - start;
}

/* The loop below a user stack of that many frames, and some more */
static __attribute__((noinline, unused)) uint64_t at_depth(int depth, int rounds)
{
	uint64_t t = depth > 1 ? at_depth(depth - 1, rounds) : loop(rounds);

	asm volatile("" : "+r" (t));
	return t;
}

#endif
