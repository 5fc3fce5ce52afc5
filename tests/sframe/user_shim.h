/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lets the decoder's other back end, for the kernel, run in user space: user
 * memory is a buffer outside of which each access faults. Checks what hardware
 * and objtool would: access in a window only, to addresses of user space.
 */
#ifndef _SFRAME_USER_SHIM_H
#define _SFRAME_USER_SHIM_H

#include <stdlib.h>

#include "sframe_shim.h"

#define __user
#define __force
#define USER_PTR_MAX		0x7ffffffff000ULL

#define pagefault_disable()	((void)0)
#define pagefault_enable()	((void)0)

struct sframe_section;
struct unwind_rule;
struct sframe_buf;

extern bool user_window;
/* Each access faults; and whether unwind_user_fault_in() can do something about it */
extern bool user_absent;
extern bool user_waits;

/* Where the bytes at an address are; NULL is a fault. */
const void *user_memory(u64 addr, u64 len);

/* As in the kernel: the last bytes may be those at the maximum. */
static inline bool access_ok(const void *ptr, u64 len)
{
	return (u64)ptr + len >= len && (u64)ptr + len <= USER_PTR_MAX;
}

static inline void *mask_user_address(const void *ptr)
{
	return (u64)ptr > USER_PTR_MAX ? (void *)USER_PTR_MAX : (void *)ptr;
}

#define masked_user_access_begin(ptr) ({	\
	if (user_window)			\
		abort();			\
	user_window = true;			\
	mask_user_address(ptr);			\
})

static inline void user_access_end(void)
{
	if (!user_window)
		abort();
	user_window = false;
}

#define unsafe_get_user(val, ptr, label) do {				\
	const void *__from = user_memory((u64)(ptr), sizeof(*(ptr)));	\
	__typeof__(+*(ptr)) __val = 0;					\
	if (!__from)							\
		goto label;						\
	memcpy(&__val, __from, sizeof(*(ptr)));				\
	(val) = __val;							\
} while (0)

static inline int unwind_user_fault_in(unsigned long addr, unsigned int len)
{
	if (user_window)
		abort();
	if (!user_waits)
		return -1;
	user_absent = false;
	return 0;
}

#endif /* _SFRAME_USER_SHIM_H */
