// SPDX-License-Identifier: GPL-2.0
/*
 * The KUnit suite over the decoder's back end for user memory, see user_shim.h.
 */

#define sframe_open_buf	user_open
#define sframe_find_buf	user_find
#include "../../kernel/unwind/tests/sframe_kunit.c"
#undef sframe_open_buf
#undef sframe_find_buf

#include "user_shim.h"

bool user_window;
bool user_absent;
bool user_waits;
static const struct sframe_buf *user_buf;

const void *user_memory(u64 addr, u64 len)
{
	u64 off = addr - user_buf->addr;

	if (!user_window || addr > USER_PTR_MAX || len > USER_PTR_MAX - addr)
		abort();
	if (user_absent || off > user_buf->len || len > user_buf->len - off)
		return NULL;
	return user_buf->data + off;
}

/* Where nothing is present, and not to be waited for, there is no answer. */
static void check_absent(enum sframe_status status)
{
	if (user_window || (status != SFRAME_FAULT && status != SFRAME_NO_ROW &&
			    status != SFRAME_BAD_BOUNDS))
		abort();
}

enum sframe_status user_open(struct sframe_section *sec,
			     const struct sframe_buf *buf)
{
	struct sframe_section copy = *sec;
	enum sframe_status status;

	user_buf = buf;
	user_absent = true;
	check_absent(sframe_open_user(&copy));
	user_absent = false;
	status = sframe_open_user(sec);
	if (user_window)
		abort();
	return status;
}

enum sframe_status user_find(const struct sframe_section *sec, u64 ip,
			     struct unwind_rule *rule, const struct sframe_buf *buf)
{
	enum sframe_status status;

	user_buf = buf;
	user_absent = true;
	user_waits = false;
	check_absent(sframe_find_user(sec, ip, rule));
	user_waits = true;
	status = sframe_find_user(sec, ip, rule);
	user_absent = false;
	if (user_window)
		abort();
	if (status == SFRAME_OK)
		unwind_rule_unpack(rule);
	return status;
}
