// SPDX-License-Identifier: GPL-2.0
/*
 * In a program with this, events have their stack walked in place, by the tests that
 * otherwise look at deferred walks.
 */
#include "unwind_perf.h"

const bool in_place = true;
