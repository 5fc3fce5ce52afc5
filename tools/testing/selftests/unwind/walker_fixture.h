/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of tests that walk a stack which they write themselves.
 */
#ifndef _SELFTESTS_UNWIND_WALKER_FIXTURE_H
#define _SELFTESTS_UNWIND_WALKER_FIXTURE_H

#include "walker.h"
#include "unwind_harness.h"

/* For the set-up of a fixture. Returns false if the test is skipped. */
static inline bool walk_set_up(struct __test_metadata *_metadata)
{
	if (must_skip(_metadata, need_walker()))
		return false;
	ASSERT_TRUE(walk_begin());
	return true;
}

FIXTURE(walk) {};

FIXTURE_SETUP(walk)
{
	walk_set_up(_metadata);
}

FIXTURE_TEARDOWN(walk)
{
	walk_end();
}

#endif /* _SELFTESTS_UNWIND_WALKER_FIXTURE_H */
