/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kselftest harness, as the tests of deferred unwinding use it. This is for
 * programs: there can be only one copy of the harness in each.
 */
#ifndef _SELFTESTS_UNWIND_HARNESS_H
#define _SELFTESTS_UNWIND_HARNESS_H

#include "../kselftest_harness.h"

/* Against hangs only: a guest on a busy machine may take long. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	120

/*
 * Mark the test as skipped if there is a reason to, which a need_*() returned.
 * For use directly inside a TEST() or TEST_F(), which returns if this is true.
 */
static inline bool must_skip(struct __test_metadata *_metadata, const char *why)
{
	if (why)
		SKIP(return true, "%s", why);
	return false;
}

#endif /* _SELFTESTS_UNWIND_HARNESS_H */
