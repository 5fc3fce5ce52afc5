// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>

#include "../../kernel/unwind/sframe.h"
#include "../../kernel/unwind/tests/rule_unpack.h"

struct user_memory user_memory;

void user_check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

const void *user_bytes(u64 addr, u64 len)
{
	u64 off = addr - user_memory.addr;

	user_check(addr <= USER_PTR_MAX && len <= USER_PTR_MAX - addr,
		   "read of what is not user memory");
	user_check(addr >= user_memory.start && addr + len <= user_memory.end,
		   "read of what is not the table");
	if (user_memory.absent || off > user_memory.len || len > user_memory.len - off)
		return NULL;
	return user_memory.data + off;
}

/* Where nothing is present, and not to be waited for, there is no answer. */
static void check_absent(enum sframe_status status)
{
	user_check(!user_memory.window, "no end of the window");
	user_check(status == SFRAME_FAULT || status == SFRAME_NO_ROW ||
		   status == SFRAME_BAD_BOUNDS, "an answer from absent memory");
}

enum sframe_status user_open(struct sframe_section *sec)
{
	struct sframe_section copy = *sec;
	enum sframe_status status;

	user_memory.start = sec->start;
	user_memory.end = sec->end;
	user_memory.absent = true;
	check_absent(sframe_open(&copy));
	user_memory.absent = false;
	status = sframe_open(sec);
	user_check(!user_memory.window, "no end of the window");
	return status;
}

enum sframe_status user_find(const struct sframe_section *sec, u64 ip,
			     struct unwind_rule *rule, struct sframe_span *span)
{
	enum sframe_status status;

	user_memory.start = sec->start;
	user_memory.end = sec->end;
	user_memory.absent = true;
	user_memory.waits = false;
	check_absent(sframe_find(sec, ip, rule, span));
	user_memory.waits = true;
	status = sframe_find(sec, ip, rule, span);
	user_memory.absent = false;
	user_check(!user_memory.window, "no end of the window");
	if (status == SFRAME_OK) {
		user_check(span->func_start <= span->start && span->start <= ip &&
			   ip < span->end && span->end <= span->func_end,
			   "no span of the address");
		unwind_rule_unpack(rule);
	}
	return status;
}
