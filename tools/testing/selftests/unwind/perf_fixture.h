/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of the tests of the perf ABI. This is for programs, as the harness is.
 */
#ifndef _SELFTESTS_UNWIND_PERF_FIXTURE_H
#define _SELFTESTS_UNWIND_PERF_FIXTURE_H

#include "perf_abi.h"
#include "unwind_harness.h"

FIXTURE(abi)
{
};

FIXTURE_SETUP(abi)
{
	if (must_skip(_metadata, need_abi()))
		return;
	abi_begin();
}

FIXTURE_TEARDOWN(abi)
{
	abi_end();
}

#endif /* _SELFTESTS_UNWIND_PERF_FIXTURE_H */
