/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_H
#define _LINUX_UNWIND_USER_H

#include <linux/unwind_user_types.h>

struct k_sigaction;

#ifdef CONFIG_UNWIND_USER

int unwind_user(struct unwind_stacktrace *trace, unsigned int max_entries);
int unwind_user_fault_in(unsigned long addr, unsigned int len);
int unwind_user_read(void *to, unsigned long from, unsigned int len);

void arch_unwind_user_sigaction(const struct k_sigaction *ka);

/**
 * unwind_user_sigaction - Note where the handler of a signal will return to
 * @ka:	The action that has been installed
 *
 * Context: @ka belongs to current, whose sighand is locked.
 */
static inline void unwind_user_sigaction(const struct k_sigaction *ka)
{
	arch_unwind_user_sigaction(ka);
}

#else /* !CONFIG_UNWIND_USER */

static inline void unwind_user_sigaction(const struct k_sigaction *ka) { }

#endif /* CONFIG_UNWIND_USER */
#endif /* _LINUX_UNWIND_USER_H */
