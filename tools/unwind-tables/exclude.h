/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_EXCLUDE_H
#define __UNWIND_TABLES_EXCLUDE_H

/*
 * Files that get no tables because the administrator says so, from a file of lines "path
 * PATTERN", "user NAME" and "cgroup PATTERN".
 */

#include <stdbool.h>
#include <stddef.h>

enum exclude_kind {
	EXCLUDE_PATH	= 'p',
	EXCLUDE_USER	= 'u',	/* a number */
	EXCLUDE_CGROUP	= 'c',
};

/* Each entry is a kind, then an excluded name or pattern, and ends with a zero. */
struct exclude {
	size_t len;
	char all[8192];
};

/* Returns 0, the number of the line that is wrong, or -ENOSPC or another negative errno. */
int exclude_read(struct exclude *exclude, const char *path);

/* Patterns are those of the shell, and also match everything below. */
bool exclude_has(const struct exclude *exclude, enum exclude_kind kind, const char *text);

#endif /* __UNWIND_TABLES_EXCLUDE_H */
