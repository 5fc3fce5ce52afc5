/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLE_TRAMPOLINES_H
#define __UNWIND_TABLE_TRAMPOLINES_H

/* Memory that consists of nothing but copies of a piece of code that is known */

#include <stdbool.h>
#include <linux/types.h>

#include "unwind-table.h"

/* Bytes of memory that programs fill with copies at once */
#define TRAMPOLINE_ARENA	(64 * 1024)
/* Kinds that are known */
#define NR_TRAMPOLINES		6

/* Could an arena begin with these bytes? */
#define TRAMPOLINE_BEGINNING	16
bool trampoline_begins(const __u8 *code);

/* Which kind is it, byte for byte, that fills these TRAMPOLINE_ARENA bytes? Or -1 */
int trampoline_kind(const __u8 *arena);

/* A table whose first TRAMPOLINE_ARENA bytes are for an arena of some kind */
int trampoline_table(int kind, struct unwind_table **table);

#endif /* __UNWIND_TABLE_TRAMPOLINES_H */
