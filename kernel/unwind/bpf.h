/* SPDX-License-Identifier: GPL-2.0 */
/* The functions that BPF programs call; nothing else does. */
#ifndef _KERNEL_UNWIND_BPF_H
#define _KERNEL_UNWIND_BPF_H

#include <linux/types.h>
#include <linux/unwind_user_types.h>

int bpf_unwind_user_request(u64 *cookie);
int bpf_unwind_user_copy(const struct unwind_stacktrace *trace, void *buf,
			 u32 buf__sz);
int bpf_unwind_user_cached(void *buf, u32 buf__sz);

#endif /* _KERNEL_UNWIND_BPF_H */
