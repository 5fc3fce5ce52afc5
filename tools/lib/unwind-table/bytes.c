// SPDX-License-Identifier: GPL-2.0
/*
 * What bytes look like: a prologue, padding, the end of a function. Instructions are not decoded,
 * so the bytes may be something else; what is made of that says how sure it has to be.
 */

#include "internal.h"

static const __u8 endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

/*
 * Bytes of a prologue that makes a frame: endbr64 or not; push %rbp; and
 * mov %rsp,%rbp in either form. 0: another one.
 */
size_t ut_bytes_prologue(const __u8 *code, size_t len)
{
	static const __u8 forms[][4] = {
		{ 0x55, 0x48, 0x89, 0xe5 },
		{ 0x55, 0x48, 0x8b, 0xec },
	};
	size_t n = 0;

	if (len >= sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64)))
		n = sizeof(endbr64);
	if (len - n < sizeof(forms[0]) ||
	    (memcmp(code + n, forms[0], sizeof(forms[0])) &&
	     memcmp(code + n, forms[1], sizeof(forms[1]))))
		return 0;
	return n + sizeof(forms[0]);
}

/* Bytes of a no-operation that ends here; @n: bytes there are */
static size_t nop_before(const __u8 *end, size_t n)
{
	static const struct {
		__u8	len;
		__u8	code[8];
	} forms[] = {
		{ 1, { 0x90 } },
		{ 3, { 0x0f, 0x1f, 0x00 } },
		{ 4, { 0x0f, 0x1f, 0x40 } },
		{ 5, { 0x0f, 0x1f, 0x44 } },
		{ 7, { 0x0f, 0x1f, 0x80 } },
		{ 8, { 0x0f, 0x1f, 0x84 } },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(forms); i++) {
		const __u8 *at;

		if (forms[i].len > n)
			continue;
		at = end - forms[i].len;
		if (memcmp(at, forms[i].code, forms[i].len))
			continue;
		/* Prefixes that make it longer; the last cs may be part of the nop itself. */
		while (at > end - n && (at[-1] == 0x66 || at[-1] == 0x2e))
			at--;
		return end - at;
	}
	return 0;
}

/* What is the code right before @at, where @n bytes can be read? */
enum ut_before ut_bytes_before(const __u8 *at, size_t n)
{
	bool padded = false;
	size_t nop;

	if (n && at[-1] == 0xcc)
		return UT_RETURNS;
	while ((nop = nop_before(at, n))) {
		padded = true;
		at -= nop;
		n -= nop;
	}
	/* Arguments on the stack are whole words, and few. */
	if ((n >= 1 && at[-1] == 0xc3) ||
	    (n >= 3 && at[-3] == 0xc2 && !(at[-2] % 8) && !at[-1]))
		return UT_RETURNS;
	if (padded || (n >= 5 && at[-5] == 0xe9) || (n >= 2 && at[-2] == 0xeb) ||
	    (n >= 2 && at[-2] == 0x0f && at[-1] == 0x0b) ||
	    (n >= 2 && at[-2] == 0xff && (at[-1] & 0xf8) == 0xe0) ||
	    (n >= 1 && at[-1] == 0xf4))
		return UT_STAYS_AWAY;
	return n >= 5 && at[-5] == 0xe8 ? UT_CALLS : UT_RUNS_ON;
}

/* Is the end of a function, or padding, before @at? UT_MAX_CALL bytes can be read there. */
bool ut_bytes_is_no_call(const __u8 *at)
{
	int n;

	for (n = 2; n <= UT_MAX_CALL; n++) {
		if (at[-n] == 0xff && (at[1 - n] & 0x30) == 0x10)
			return false;
	}
	return at[-5] != 0xe8 && ut_bytes_before(at, UT_MAX_CALL) >= UT_STAYS_AWAY;
}

/* Is there padding before the code at @at, before which @n bytes can be read? */
bool ut_bytes_is_padded(const __u8 *at, size_t n)
{
	return nop_before(at, n < UT_LEN_BEFORE ? n : UT_LEN_BEFORE);
}

/* Does some code consist of no-operations? */
bool ut_bytes_is_padding(const __u8 *code, size_t len)
{
	while (len) {
		size_t nop = nop_before(code + len, len);

		if (!nop)
			return false;
		len -= nop;
	}
	return true;
}

/*
 * Is there only padding up to where a function starts? Then the call before it does not return.
 */
bool ut_bytes_is_end(const __u8 *code, size_t len, __u64 addr)
{
	__u64 pad = -addr % UT_ALIGN;

	return len >= pad + sizeof(endbr64) && !memcmp(code + pad, endbr64, sizeof(endbr64)) &&
	       ut_bytes_is_padding(code, pad);
}

/* Does code begin with a no-operation? No function does; padding before one does. */
static bool begins_with_nop(const __u8 *code, size_t len)
{
	while (len && (*code == 0x66 || *code == 0x2e)) {
		code++;
		len--;
	}
	return (len && *code == 0x90) || (len > 1 && code[0] == 0x0f && code[1] == 0x1f);
}

/*
 * May a function start at @at, where @len bytes can be read, and @before before it? Then nothing
 * runs into it. Bytes that look like a jump, or like padding of one byte, often are neither;
 * without @more evidence, do not rely on them.
 */
bool ut_bytes_is_apart(const __u8 *at, size_t len, size_t before, bool more)
{
	size_t n = before < UT_LEN_BEFORE ? before : UT_LEN_BEFORE;
	enum ut_before what = ut_bytes_before(at, n);

	if (begins_with_nop(at, len))
		return false;
	return what == UT_RETURNS || (what == UT_STAYS_AWAY && (more || nop_before(at, n) > 1));
}

/*
 * Does a function that is called by pointers seem to start there? Tables of jumps do not lead to
 * endbr64, nor does code run into an aligned one.
 */
bool ut_bytes_is_entry(const __u8 *code, size_t len, __u64 addr, size_t before)
{
	return !(addr % UT_ALIGN) && len >= sizeof(endbr64) &&
	       !memcmp(code, endbr64, sizeof(endbr64)) &&
	       ut_bytes_is_apart(code, len, before, true);
}
