/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_EXCLUDE_H
#define __UNWIND_TABLES_EXCLUDE_H

/*
 * What the administrator wants to have no tables, from a file of lines "path PATTERN",
 * "user NAME" and "cgroup PATTERN".
 */

#include <stdbool.h>
#include <stddef.h>

enum exclude_kind {
	EXCLUDE_PATH	= 'p',
	EXCLUDE_USER	= 'u',	/* a number */
	EXCLUDE_CGROUP	= 'c',
};

/* Kinds with what is excluded, each of which ends with a zero */
struct exclude {
	size_t len;
	char all[8192];
};

/* Returns 0, the number of the line that is wrong, or -ENOSPC or another negative errno. */
int exclude_read(struct exclude *exclude, const char *path);

/* Patterns are those of the shell, and stand for what is below, too. */
bool exclude_has(const struct exclude *exclude, enum exclude_kind kind, const char *text);

#endif /* __UNWIND_TABLES_EXCLUDE_H */
