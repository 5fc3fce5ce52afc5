// SPDX-License-Identifier: GPL-2.0
/*
 * The KUnit suite in user space, under sanitizers.
 */
#include "../../kernel/unwind/sframe.h"

#define sframe_open	user_open
#define sframe_find	user_find
#include "../../kernel/unwind/tests/sframe_kunit.c"
