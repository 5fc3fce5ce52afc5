// SPDX-License-Identifier: GPL-2.0
/*
 * What a table was made of, in 64 bits that nobody else can compute: SipHash-2-4 with a
 * random key. See Aumasson and Bernstein, "SipHash: a fast short-input PRF".
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "fingerprint.h"
#include "internal.h"

static __u64 key[2];

void ut_hash_prepare(void)
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

__u64 ut_siphash(const __u64 k[2], const void *data, size_t len)
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

__u64 ut_hash(const void *data, size_t len)
{
	ut_hash_prepare();
	return ut_siphash(key, data, len);
}

int ut_fingerprint(const struct ut_source *src, __u64 *print)
{
	Elf64_Phdr phdrs[UT_MAX_SEGMENTS];
	__u64 parts[5] = { };
	struct ut_elf elf;
	Elf64_Ehdr ehdr;
	int err;

	*print = 0;
	err = ut_elf_open(&elf, src);
	if (err)
		return err;
	/* It has been read before, but may have been changed since. */
	if (!ut_elf_read(&elf, 0, &ehdr, sizeof(ehdr)) || ehdr.e_phnum > UT_MAX_SEGMENTS ||
	    !ut_elf_read(&elf, ehdr.e_phoff, phdrs, ehdr.e_phnum * sizeof(*phdrs))) {
		err = -ENOEXEC;
	} else {
		parts[0] = ut_hash(&ehdr, sizeof(ehdr));
		parts[1] = ut_hash(phdrs, ehdr.e_phnum * sizeof(*phdrs));
		parts[2] = elf.eh_frame.addr;
		parts[3] = ut_hash(elf.eh_frame.bytes.data, elf.eh_frame.bytes.len);
		parts[4] = ut_hash(elf.debug_frame.bytes.data, elf.debug_frame.bytes.len);
		*print = ut_hash(parts, sizeof(parts));
	}
	ut_elf_close(&elf);
	return err;
}
