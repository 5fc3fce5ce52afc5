// SPDX-License-Identifier: GPL-2.0
/*
 * Who has how much of what there is for all. The service writes it into memory that others
 * find among its descriptors, if they may look at those: it writes no files.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unwind-keeper.h"
#include "unwind-tables.h"

#define NAME	"unwind-tables-shares"

int shares_open(void)
{
	return memfd_create(NAME, MFD_CLOEXEC);
}

void shares_publish(int fd, struct unwind_keeper *keeper)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out;

	out = fd < 0 ? NULL : open_memstream(&text, &len);
	if (!out)
		return;
	unwind_keeper_print_shares(keeper, out);
	/* Without memory, what was there before stays. */
	if (!fclose(out) && pwrite(fd, text, len, 0) == (ssize_t)len && ftruncate(fd, len))
		log_line(LOG_WARNING, "cannot publish shares: %m");
	free(text);
}

static void print_file(const char *path)
{
	char line[512];
	FILE *file;

	file = fopen(path, "re");
	if (!file)
		return;
	printf("  %-40s %8s %10s\n", "SHARE", "FILES", "KB");
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		make_printable(line);
		printf("  %s\n", line);
	}
	fclose(file);
}

void shares_show(int pid)
{
	char path[300], target[64];
	struct dirent *entry;
	ssize_t len;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
		len = readlink(path, target, sizeof(target) - 1);
		target[len < 0 ? 0 : len] = '\0';
		if (!strcmp(target, "/memfd:" NAME " (deleted)"))
			print_file(path);
	}
	if (dir)
		closedir(dir);
}
