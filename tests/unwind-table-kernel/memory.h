/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _TEST_MEMORY_H
#define _TEST_MEMORY_H

#include <stddef.h>

/* Bytes that the kernel keeps of a table, or -errno if it refuses it */
long kernel_bytes(const void *data, size_t len);

#endif
