/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Layout of the words that deferred unwinding keeps; for deferred.c and its tests.
 */
#ifndef _KERNEL_UNWIND_DEFERRED_H
#define _KERNEL_UNWIND_DEFERRED_H

#include <linux/bitfield.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/unwind_deferred_types.h>

/* The task_work is to process requests; set by the first of them. */
#define UNWIND_PENDING		BIT(0)
/* The cache holds the complete trace of this context. */
#define UNWIND_USED		BIT(1)
/* Bits of the registered works follow. */
#define UNWIND_WORK_SHIFT	2
#define UNWIND_WORKS		(~(UNWIND_PENDING | UNWIND_USED))

/*
 * unwind_task_info::id, one word so that an NMI sees all or nothing of it. The
 * cookie is the id without the epoch: CPU + 1 in the low half, the counter of
 * that CPU in the high half. The counter is odd, hence the cookie is never 0.
 */
#define UNWIND_ID_CPU		GENMASK_ULL(15, 0)
#define UNWIND_ID_EPOCH		GENMASK_ULL(31, 16)
#define UNWIND_ID_COUNT		GENMASK_ULL(63, 32)

static inline u32 unwind_next_count(u32 count)
{
	return (count + 2) | 1;
}

static inline u64 unwind_id_make(unsigned int cpu, u32 count, u16 epoch)
{
	BUILD_BUG_ON(CONFIG_NR_CPUS >= U16_MAX);

	return FIELD_PREP(UNWIND_ID_CPU, cpu + 1) |
	       FIELD_PREP(UNWIND_ID_EPOCH, epoch) |
	       FIELD_PREP(UNWIND_ID_COUNT, count);
}

static inline u16 unwind_id_epoch(u64 id)
{
	return FIELD_GET(UNWIND_ID_EPOCH, id);
}

static inline u64 unwind_id_set_epoch(u64 id, u16 epoch)
{
	return (id & ~UNWIND_ID_EPOCH) | FIELD_PREP(UNWIND_ID_EPOCH, epoch);
}

static inline u64 unwind_id_cookie(u64 id)
{
	return id & ~UNWIND_ID_EPOCH;
}

#if IS_ENABLED(CONFIG_KUNIT)
bool unwind_context_publish(struct unwind_task_info *info, long *old, long bits);
unsigned long unwind_context_add(struct unwind_task_info *info,
				 unsigned long bits, u16 epoch);
bool unwind_context_reset(struct unwind_task_info *info);
bool unwind_executed(const struct unwind_task_info *info, unsigned long mask,
		     unsigned long bit);
struct unwind_cache *unwind_get_cache(struct unwind_task_info *info, u16 epoch);
int unwind_set_last_epoch(u16 epoch);
#endif

#endif /* _KERNEL_UNWIND_DEFERRED_H */
