/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the kernel's headers that sframe.c, table.c and their tests need, in
 * user space. User memory is a buffer: see user_memory.h.
 */
#ifndef _SHIM_KERNEL_H
#define _SHIM_KERNEL_H

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
typedef int32_t __s32;
typedef int64_t __s64;

#define U16_MAX		UINT16_MAX
#define U32_MAX		UINT32_MAX
#define U64_MAX		UINT64_MAX
#define S32_MAX		INT32_MAX
#define S32_MIN		INT32_MIN
#define S64_MAX		INT64_MAX

#undef __always_inline
#define __always_inline	inline __attribute__((always_inline))
#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

#define __user
#define __uninitialized
/* Nothing to hide from in user space */
#define array_index_nospec(index, size)	(index)

#define sizeof_field(type, field)	sizeof(((type *)0)->field)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define GENMASK(h, l)	(~0UL << (l) & ~0UL >> (63 - (h)))
#define EXPORT_SYMBOL_IF_KUNIT(symbol)

#define max(a, b) ({					\
	u64 __max_a = (a), __max_b = (b);		\
	__max_a > __max_b ? __max_a : __max_b;		\
})
#define min3(a, b, c)	min(min(a, b), c)
#define min(a, b) ({					\
	u64 __min_a = (a), __min_b = (b);		\
	__min_a < __min_b ? __min_a : __min_b;		\
})
#define min_t(type, a, b)	((type)min(a, b))

static inline u64 rounddown_pow_of_two(u64 n)
{
	return 1ULL << (63 - __builtin_clzll(n));
}

static inline u16 get_unaligned_le16(const void *p)
{
	u16 val;

	memcpy(&val, p, sizeof(val));
	return val;
}

static inline u32 get_unaligned_le32(const void *p)
{
	u32 val;

	memcpy(&val, p, sizeof(val));
	return val;
}

static inline u64 get_unaligned_le64(const void *p)
{
	u64 val;

	memcpy(&val, p, sizeof(val));
	return val;
}

#define EM_386		3
#define EM_X86_64	62

#define BIT(nr)		(1UL << (nr))
#define BITS_PER_LONG	64
#define SZ_1M		(1 << 20)
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

#include "../user_memory.h"

#endif /* _SHIM_KERNEL_H */
