/* SPDX-License-Identifier: GPL-2.0 */
#include <stddef.h>

/*
 * unwind_table_check - does a block have the form of linux/unwind_table.h? NULL if it
 * does, otherwise the error
 */
const char *unwind_table_check(const void *data, size_t len);
