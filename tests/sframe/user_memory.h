/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User memory for the decoder in user space: a buffer outside of which each access
 * faults. Checks the same as hardware and objtool: access in a window only, to
 * addresses of user space; and that nothing is read but the table.
 */
#ifndef _SFRAME_USER_MEMORY_H
#define _SFRAME_USER_MEMORY_H

struct sframe_section;
struct sframe_span;
struct unwind_rule;

#define USER_PTR_MAX	0x7ffffffff000ULL

/**
 * struct user_memory - All the user memory there is
 * @data:	The bytes
 * @addr:	The address that the first one has
 * @len:	Number of bytes
 * @start:	First address that may be read
 * @end: The end (exclusive) of the readable range
 * @window:	Access is enabled
 * @absent:	Each access faults
 * @waits:	unwind_user_fault_in() can do something about that
 */
struct user_memory {
	u8	*data;
	u64	addr;
	u64	len;
	u64	start;
	u64	end;
	bool	window;
	bool	absent;
	bool	waits;
};

extern struct user_memory user_memory;

/* Ends the test if not @ok. */
void user_check(bool ok, const char *what);

/* Where the bytes at an address are; NULL is a fault. */
const void *user_bytes(u64 addr, u64 len);

/*
 * sframe_open() and sframe_find(), with checks of the reads, and of the outcome
 * where nothing is present. All of the rule is filled in.
 */
enum sframe_status user_open(struct sframe_section *sec);
enum sframe_status user_find(const struct sframe_section *sec, u64 ip,
			     struct unwind_rule *rule, struct sframe_span *span);

#define pagefault_disable()	((void)0)
#define pagefault_enable()	((void)0)

/* As in the kernel: the last bytes may be those at the maximum. */
static inline bool access_ok(const void *ptr, u64 len)
{
	return (u64)ptr + len >= len && (u64)ptr + len <= USER_PTR_MAX;
}

static inline void *mask_user_address(const void *ptr)
{
	return (u64)ptr > USER_PTR_MAX ? (void *)USER_PTR_MAX : (void *)ptr;
}

#define masked_user_access_begin(ptr) ({					\
	user_check(!user_memory.window, "a window within a window");		\
	user_memory.window = true;						\
	mask_user_address(ptr);							\
})

static inline void user_access_end(void)
{
	user_check(user_memory.window, "the end of no window");
	user_memory.window = false;
}

#define unsafe_get_user(val, ptr, label) do {					\
	const void *__from = user_bytes((u64)(ptr), sizeof(*(ptr)));		\
	__typeof__(+*(ptr)) __val = 0;						\
	user_check(user_memory.window, "access without a window");		\
	if (!__from)								\
		goto label;							\
	memcpy(&__val, __from, sizeof(*(ptr)));					\
	(val) = *(__typeof__(ptr))&__val;					\
} while (0)

static inline int unwind_user_read(void *to, unsigned long addr, unsigned int len)
{
	const void *from = user_bytes(addr, len);

	user_check(!user_memory.window, "copy in a window");
	if (!from)
		return -1;
	memcpy(to, from, len);
	return 0;
}

static inline u64 copy_to_user(void *ptr, const void *from, u64 len)
{
	u64 off = (u64)ptr - user_memory.addr;

	if (off > user_memory.len || len > user_memory.len - off)
		return len;
	memcpy(user_memory.data + off, from, len);
	return 0;
}

static inline int unwind_user_fault_in(unsigned long addr, unsigned int len)
{
	user_check(!user_memory.window, "waiting in a window");
	if (!user_memory.waits)
		return -1;
	user_memory.waits = false;
	user_memory.absent = false;
	return 0;
}

#endif /* _SFRAME_USER_MEMORY_H */
