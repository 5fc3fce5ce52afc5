/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLE_FOLLOW_H
#define __UNWIND_TABLE_FOLLOW_H

#include "internal.h"
#include "state.h"

/* Rules by instructions, of one file */
struct ut_follow;

/* How sure it is that a function starts somewhere */
enum ut_follow_start {
	UT_FOLLOW_CERTAIN,
	UT_FOLLOW_LIKELY,		/* counts if the function returns properly */
	UT_FOLLOW_POSSIBLE,		/* and nothing runs into it */
	UT_FOLLOW_DOUBTFUL,		/* the same, and two calls of it, or a return before it */
};

int ut_follow_new(struct ut_build *build, __u64 start, __u64 end, struct ut_follow **follow);
void ut_follow_free(struct ut_follow *follow);
int ut_follow_passes(struct ut_build *build, int (*pass)(struct ut_build *build, void *data),
		     void *data);
int ut_follow_found(struct ut_build *build, const struct ut_segment *segment, __u64 start,
		    __u64 end);
int ut_follow_declare(struct ut_follow *follow, __u64 addr);
int ut_follow_from(struct ut_follow *follow, __u64 addr, enum ut_follow_start how);

/*
 * Rows for code in [start, end) of the addresses of the file, in order: @add is called
 * for each stretch of code that was followed, with an unknown rule where SP was lost.
 */
typedef int (*ut_follow_add_t)(void *data, __u64 start, __u64 end,
			       const struct unwind_table_rule *rule);
int ut_follow_rows(struct ut_follow *follow, __u64 start, __u64 end, ut_follow_add_t add,
		   void *data);

/* @look is called for each instruction that is reached and believed, in order. */
typedef int (*ut_follow_look_t)(void *data, __u64 addr, unsigned int len,
				const struct state *state);
int ut_follow_look(struct ut_follow *follow, __u64 start, __u64 end, ut_follow_look_t look,
		   void *data);

/* imports.c: where a pointer leads, besides an address */
#define UT_IMPORT_NO_RETURN	(NONE - 1)

int ut_imports_find(struct ut_build *build);

#endif /* __UNWIND_TABLE_FOLLOW_H */
