/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KERNEL_UNWIND_USER_H
#define _KERNEL_UNWIND_USER_H

/* What the walker (user.c) and the providers of rules share. */

#include <linux/build_bug.h>
#include <linux/limits.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/uaccess.h>
#include <linux/unwind_rule.h>
#include <linux/unwind_user_types.h>

#include "table.h"

struct rule_cache;
struct sframe_entry;
struct sframe_mm;
struct unwind_file;

/* A program and its C library: most stacks are in these two. */
#define UNWIND_USER_BARE	2

/**
 * struct unwind_user_bare - Some code that is known to have no table
 * @start:	First byte
 * @len:	Bytes from there
 */
struct unwind_user_bare {
	unsigned long	start;
	unsigned long	len;
};

/**
 * struct unwind_user_code - Some code and the file that it is mapped from
 * @start:	First byte
 * @len:	Bytes from there
 * @delta:	From an address to the offset in @file
 * @file:	The file
 */
struct unwind_user_code {
	unsigned long		start;
	unsigned long		len;
	unsigned long		delta;
	struct unwind_file	*file;
};

/**
 * struct unwind_user_tables - What a walk knows of the tables of its mm
 * @bare:	Code without table: the program's own, and what was needed last
 * @cache:	Rules by address, NULL as long as the mm has no table
 * @mix:	rule_cache_mix() of @gen and @files_gen
 * @gen:	Generation of the store for which all this is valid
 * @files_gen:	unwind_files_get_gen() when the walk began
 * @code:	Code that may have a table for its file, and that was needed last.
 *		Good as long as @code_cuts is what sframe_mm::cuts is; may be empty
 * @code_cuts:	See @code
 * @part:	In a window, some of a table for a file. Its start is an address. Empty
 *		if there is none
 * @sm:		Store of current's mm, NULL if there is none
 * @entry:	Entry of the store that was needed last, with a reference, or NULL
 *
 * Without @sm, for which there was no memory, nothing is known of any code.
 */
struct unwind_user_tables {
	struct unwind_user_bare	bare[UNWIND_USER_BARE];
	struct rule_cache	*cache;
	u64			mix;
	u64			gen;
	u64			files_gen;
	struct unwind_user_code	code;
	struct unwind_table_part part;
	u64			code_cuts;
	struct sframe_mm	*sm;
	struct sframe_entry	*entry;
};

/* Is this code that is known to have no table? */
static __always_inline bool
unwind_user_is_bare(const struct unwind_user_tables *tables, unsigned long pc)
{
	BUILD_BUG_ON(UNWIND_USER_BARE != 2);

	return likely(pc - tables->bare[0].start < tables->bare[0].len) ||
	       pc - tables->bare[1].start < tables->bare[1].len;
}

#ifdef CONFIG_UNWIND_USER_SFRAME

void unwind_user_tables_begin(struct unwind_user_tables *tables);
void unwind_user_tables_end(struct unwind_user_tables *tables,
			    const struct unwind_user_state *state);
bool unwind_user_find_part(struct unwind_user_tables *tables, unsigned long pc);
enum unwind_user_status
unwind_user_table_rule(struct unwind_user_tables *tables, unsigned long pc,
		       struct unwind_rule *rule, enum unwind_user_type *type);

#else /* !CONFIG_UNWIND_USER_SFRAME */

/* All code is bare. */
static inline void
unwind_user_tables_begin(struct unwind_user_tables *tables)
{
	memset(tables, 0, sizeof(*tables));
	tables->bare[0].len = ULONG_MAX;
}

static inline void
unwind_user_tables_end(struct unwind_user_tables *tables,
		       const struct unwind_user_state *state) { }

static inline bool
unwind_user_find_part(struct unwind_user_tables *tables, unsigned long pc)
{
	return false;
}

static inline enum unwind_user_status
unwind_user_table_rule(struct unwind_user_tables *tables, unsigned long pc,
		       struct unwind_rule *rule, enum unwind_user_type *type)
{
	return UNWIND_USER_NO_RULE;
}

#endif /* CONFIG_UNWIND_USER_SFRAME */
#endif /* _KERNEL_UNWIND_USER_H */
