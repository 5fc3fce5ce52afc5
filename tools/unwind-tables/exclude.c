// SPDX-License-Identifier: GPL-2.0
/* Files that get no tables because the administrator says so: see exclude.h */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exclude.h"
#include "owner.h"

static int add(struct exclude *exclude, enum exclude_kind kind, const char *text)
{
	size_t len = strlen(text) + 1;

	if (len + 1 > sizeof(exclude->all) - exclude->len)
		return -ENOSPC;
	exclude->all[exclude->len] = kind;
	memcpy(&exclude->all[exclude->len + 1], text, len);
	exclude->len += len + 1;
	return 0;
}

static int add_user(struct exclude *exclude, const char *name)
{
	const __u32 uid = owner_uid_named(name);
	char number[16];

	if (uid == OWNER_UNKNOWN)
		return -EINVAL;
	snprintf(number, sizeof(number), "%u", uid);
	return add(exclude, EXCLUDE_USER, number);
}

static int add_line(struct exclude *exclude, char *line)
{
	const char *blanks = " \t\n";
	char *kind, *text, *end;

	kind = line + strspn(line, blanks);
	if (!*kind || *kind == '#')
		return 0;
	text = kind + strcspn(kind, blanks);
	if (*text)
		*text++ = '\0';
	text += strspn(text, blanks);
	for (end = text + strlen(text); end > text && strchr(blanks, end[-1]); end--)
		end[-1] = '\0';
	if (!strcmp(kind, "user") && *text)
		return add_user(exclude, text);
	if (!strcmp(kind, "path") && *text == '/')
		return add(exclude, EXCLUDE_PATH, text);
	if (!strcmp(kind, "cgroup") && *text == '/' && text[1])
		return add(exclude, EXCLUDE_CGROUP, text + 1);
	return -EINVAL;
}

int exclude_read(struct exclude *exclude, const char *path)
{
	int error = 0, number = 0;
	char *line = NULL;
	size_t size = 0;
	FILE *file;

	exclude->len = 0;
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? 0 : -errno;
	while (!error && getline(&line, &size, file) > 0) {
		number++;
		error = add_line(exclude, line);
	}
	if (!error && ferror(file))
		error = -EIO;
	free(line);
	fclose(file);
	return error == -EINVAL ? number : error;
}

bool exclude_has(const struct exclude *exclude, enum exclude_kind kind, const char *text)
{
	const int flags = FNM_PATHNAME | FNM_LEADING_DIR;
	const char *at = exclude->all;

	for (; at < exclude->all + exclude->len; at += strlen(at) + 1)
		if ((enum exclude_kind)*at == kind && !fnmatch(at + 1, text, flags))
			return true;
	return false;
}
