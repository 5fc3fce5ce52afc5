/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLE_FINGERPRINT_H
#define __UNWIND_TABLE_FINGERPRINT_H

/*
 * Hashes that decide whether two things are the same, where whoever made one of them
 * might like to have it taken for the other.
 */

#include <stddef.h>
#include <linux/types.h>

/* Choose the key, which a process has in common with those that it forks afterwards. */
void ut_hash_prepare(void);

/* SipHash-2-4 with that key, or with a known one */
__u64 ut_hash(const void *data, size_t len);
__u64 ut_siphash(const __u64 key[2], const void *data, size_t len);

struct ut_source;

/*
 * Of the headers and the CFI of a file, from which its table is made. 0, or what making a
 * table would return.
 */
int ut_fingerprint(const struct ut_source *src, __u64 *print);

#endif /* __UNWIND_TABLE_FINGERPRINT_H */
