/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_UNWIND_USER_H
#define _LINUX_UNWIND_USER_H

#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/unwind_user_types.h>

struct inode;
struct k_sigaction;

#ifdef CONFIG_UNWIND_USER

DECLARE_STATIC_KEY_FALSE(unwind_in_place_key);
extern bool sysctl_unwind_in_place;

int unwind_user(struct unwind_stacktrace *trace, unsigned int max_entries);
void unwind_user_in_place(struct unwind_stacktrace *trace, unsigned int max_entries,
			  const struct pt_regs *regs);
void unwind_user_look(void);
bool unwind_user_is_mapped(struct mm_struct *mm, unsigned long addr);
int unwind_user_fault_in(unsigned long addr, unsigned int len);
int unwind_user_read(void *to, unsigned long from, unsigned int len);

void arch_unwind_user_sigaction(const struct k_sigaction *ka);
bool arch_unwind_regs_saved(const struct pt_regs *regs);

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

/**
 * unwind_user_has_tables - Is unwind_user_in_place() better than frame pointers alone?
 *
 * Return: True if there may be tables for some code, unless kernel.unwind_in_place is 0.
 */
static __always_inline bool unwind_user_has_tables(void)
{
	return IS_ENABLED(CONFIG_UNWIND_USER_TABLE) &&
	       static_branch_unlikely(&unwind_in_place_key) &&
	       READ_ONCE(sysctl_unwind_in_place);
}

#ifdef CONFIG_UNWIND_USER_CODE
/**
 * unwind_vma_gone - Is a mapping no longer there?
 * @vma:	The mapping
 * @inode:	What was read as the inode of its file, or NULL
 *
 * Context: The RCU reader in which @vma was found.
 * Return: True if @vma may have been freed, so that what was read of it does not count.
 */
static inline bool unwind_vma_gone(const struct vm_area_struct *vma,
				   const struct inode *inode)
{
	return READ_ONCE(vma->detached);
}
#endif

#else /* !CONFIG_UNWIND_USER */

static inline void unwind_user_in_place(struct unwind_stacktrace *trace,
					unsigned int max_entries,
					const struct pt_regs *regs) { }

static inline bool unwind_user_has_tables(void)
{
	return false;
}

static inline bool arch_unwind_regs_saved(const struct pt_regs *regs)
{
	return true;
}

static inline void unwind_user_sigaction(const struct k_sigaction *ka) { }

#endif /* CONFIG_UNWIND_USER */
#endif /* _LINUX_UNWIND_USER_H */
