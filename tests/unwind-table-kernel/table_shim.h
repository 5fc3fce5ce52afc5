/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the kernel's headers that table.c and its tests need, in user
 * space.
 */
#ifndef _TABLE_SHIM_H
#define _TABLE_SHIM_H

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* This one has the types, and most of the rest. */
#include "../sframe/sframe_shim.h"

typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
typedef int32_t __s32;
typedef int64_t __s64;

#define S32_MAX		INT32_MAX
#define S32_MIN		INT32_MIN
#define S64_MAX		INT64_MAX

#define EM_386		3
#define EM_X86_64	62

#define BIT(nr)		(1UL << (nr))
#define BITS_PER_LONG	64
#define SZ_1M		(1 << 20)
#define min_t(type, a, b)	((type)min(a, b))
#define __fls(word)	((unsigned long)(63 - __builtin_clzl(word)))

#define IS_ERR(p)	((unsigned long)(p) >= -4095UL)
#define PTR_ERR(p)	((long)(p))
#define ERR_PTR(error)	((void *)(long)(error))

#define GFP_KERNEL		0
#define GFP_KERNEL_ACCOUNT	0
#define __GFP_NOWARN		0
#define __GFP_RETRY_MAYFAIL	0
#define kvmalloc(size, gfp)	malloc(size)
#define kvzalloc(size, gfp)	calloc(1, size)
#define kvfree(p)		free(p)

struct rcu_head {
	int unused;
};

struct list_head {
	struct list_head *next, *prev;
};

typedef struct {
	int counter;
} atomic_t;

static inline const void *memchr_inv(const void *start, int c, size_t bytes)
{
	const uint8_t *p = start;

	for (; bytes; bytes--, p++)
		if (*p != (uint8_t)c)
			return p;
	return NULL;
}

#define current				0
#define cond_resched()			((void)0)
#define fatal_signal_pending(task)	((void)(task), 0)

#endif /* _TABLE_SHIM_H */
