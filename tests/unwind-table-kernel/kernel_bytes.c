// SPDX-License-Identifier: GPL-2.0
/*
 * The half of memory.c that sees the kernel's headers: they and the library's have
 * a structure of equal names.
 */
#include "../table.h"

#include "memory.h"

long kernel_bytes(const void *data, size_t len)
{
	struct unwind_table *table;
	const char *why;
	long bytes;

	table = unwind_table_make(data, len, &why);
	if (IS_ERR(table))
		return PTR_ERR(table);
	bytes = table->size;
	kvfree(table);
	return bytes;
}
