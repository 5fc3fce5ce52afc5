/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_HASH_H
#define __UNWIND_TABLES_HASH_H

/*
 * Hashes that decide whether two things are the same, where the maker of one of them
 * may try to have it taken for the other.
 */

#include <stddef.h>
#include <linux/types.h>

/* Choose the key, which a process has in common with those that it forks afterwards. */
void hash_prepare(void);

/* SipHash-2-4 with that key, or with a known one */
__u64 hash_bytes(const void *data, size_t len);
__u64 hash_siphash(const __u64 key[2], const void *data, size_t len);

#endif /* __UNWIND_TABLES_HASH_H */
