// SPDX-License-Identifier: GPL-2.0
/*
 * SipHash-2-4 with a random key: 64 bits that nobody else can compute. See Aumasson and
 * Bernstein, "SipHash: a fast short-input PRF".
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "hash.h"

static __u64 key[2];

void hash_prepare(void)
{
	/* It ends early only for a signal, and for sizes that are larger than this. */
	if (!key[0] && !key[1] && getrandom(key, sizeof(key), 0) != sizeof(key))
		abort();
}

static __u64 rotate(__u64 x, int by)
{
	return x << by | x >> (64 - by);
}

static void rounds(__u64 v[4], int nr)
{
	while (nr--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32) + v[3];
		v[2] += v[1];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

__u64 hash_siphash(const __u64 k[2], const void *data, size_t len)
{
	__u64 v[4] = {
		k[0] ^ 0x736f6d6570736575, k[1] ^ 0x646f72616e646f6d,
		k[0] ^ 0x6c7967656e657261, k[1] ^ 0x7465646279746573,
	};
	const __u8 *byte = data, *end = byte + (len & ~7UL);
	__u64 word;

	for (; byte < end; byte += 8) {
		memcpy(&word, byte, 8);
		v[3] ^= word;
		rounds(v, 2);
		v[0] ^= word;
	}
	word = 0;
	if (len & 7)
		memcpy(&word, byte, len & 7);
	word |= (__u64)len << 56;
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

__u64 hash_bytes(const void *data, size_t len)
{
	hash_prepare();
	return hash_siphash(key, data, len);
}
