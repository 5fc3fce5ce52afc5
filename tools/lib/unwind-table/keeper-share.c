// SPDX-License-Identifier: GPL-2.0
/* Shares of what the keeper has for all users: see keeper-share.h */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "keeper-share.h"

/* More than this many have one together. */
#define MAX_SHARES	1024
/* Until a share is looked at again for which something hangs */
#define HUNG_SECONDS	30

/* ------------------------------------------------------------------------ */
/* Processes								      */

static FILE *open_in(int proc, const char *name)
{
	int fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !file)
		close(fd);
	return file;
}

/* Where there is no unified hierarchy, that of systemd stands for it. */
static bool is_cgroup(const char *line, const char **path)
{
	const char *named = strstr(line, ":name=systemd:");

	*path = !strncmp(line, "0::", 3) ? line + 3 : named ? named + 14 : "/";
	return (*path)[0] == '/' && (*path)[1];
}

void owner_read(int proc, struct owner *owner)
{
	char line[4096];
	const char *path;
	FILE *file;

	owner->uid = OWNER_UNKNOWN;
	owner->gid = OWNER_UNKNOWN;
	owner->cgroup[0] = '\0';
	file = open_in(proc, "status");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Uid: %u", &owner->uid) != 1 &&
		    sscanf(line, "Gid: %u", &owner->gid) == 1)
			break;
	if (file)
		fclose(file);
	file = open_in(proc, "cgroup");
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (!is_cgroup(line, &path))
			continue;
		snprintf(owner->cgroup, sizeof(owner->cgroup), "%s", path + 1);
		break;
	}
	if (file)
		fclose(file);
}

/* In a cgroup that says nothing about whom its processes work for */
static bool is_in_roots_cgroup(const struct owner *owner)
{
	static const char of_root[] = "user.slice/user-0.slice";
	const size_t len = sizeof(of_root) - 1;

	return !owner->cgroup[0] || !strcmp(owner->cgroup, "init.scope") ||
	       (!strncmp(owner->cgroup, of_root, len) &&
		(!owner->cgroup[len] || owner->cgroup[len] == '/'));
}

bool owner_is_root(const struct owner *owner)
{
	return !owner->uid && is_in_roots_cgroup(owner);
}

/* ------------------------------------------------------------------------ */
/* Shares								      */

__s64 monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static struct share *share_named(struct shares *shares, const char *name)
{
	struct share *share;

	for (share = shares->first; share; share = share->next)
		if (!strcmp(share->name, name))
			return share;
	if (shares->nr >= MAX_SHARES && strcmp(name, "others"))
		return share_named(shares, "others");
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	snprintf(share->name, sizeof(share->name), "%s", name);
	share->time = SHARE_TIME_NS;
	share->when = monotonic_ns();
	share->hung = -1;
	share->next = shares->first;
	shares->first = share;
	shares->nr++;
	return share;
}

struct share *share_of_root(struct shares *shares)
{
	struct share *share = share_named(shares, "root");

	if (share)
		share->root = true;
	return share;
}

static struct share *share_of_user(struct shares *shares, __u32 uid)
{
	char name[32];

	snprintf(name, sizeof(name), "user %u", uid);
	return share_named(shares, name);
}

struct share *share_of_process(struct shares *shares, const struct owner *owner)
{
	char name[sizeof(((struct share *)0)->name)];
	const char *end;

	if (owner->uid == OWNER_UNKNOWN)
		return share_named(shares, "unknown");
	if (owner_is_root(owner))
		return share_of_root(shares);
	if (is_in_roots_cgroup(owner))
		return share_of_user(shares, owner->uid);
	end = strchrnul(owner->cgroup, '/');
	if (*end)
		end = strchrnul(end + 1, '/');
	snprintf(name, sizeof(name), "cgroup %.*s", (int)(end - owner->cgroup), owner->cgroup);
	return share_named(shares, name);
}

struct share *share_of_owner(struct shares *shares, __u32 uid)
{
	return uid && uid < SHARE_MAX_UID ? share_of_user(shares, uid) : NULL;
}

struct share *share_with_more_files(struct shares *shares, const struct share *than)
{
	struct share *share, *most = NULL;
	unsigned int files = than->nr_files + 1;

	for (share = shares->first; share; share = share->next) {
		if (share == than || share->root || share->nr_files <= files)
			continue;
		files = share->nr_files;
		most = share;
	}
	return most;
}

struct share *share_with_more_room(struct shares *shares, const struct share *than,
				   __u64 bytes)
{
	struct share *share, *most = NULL;

	bytes += than->bytes;
	for (share = shares->first; share; share = share->next) {
		if (share == than || share->root || share->bytes <= bytes)
			continue;
		bytes = share->bytes;
		most = share;
	}
	return most;
}

static void add_time(struct share *share)
{
	__s64 now = monotonic_ns();

	share->time += (now - share->when) / SHARE_TIME_PART;
	if (share->time > SHARE_TIME_NS)
		share->time = SHARE_TIME_NS;
	share->when = now;
}

static bool hangs(struct share *share)
{
	struct pollfd ended = { .fd = share->hung, .events = POLLIN };

	if (share->hung < 0)
		return false;
	if (!poll(&ended, 1, 0))
		return true;
	close(share->hung);
	share->hung = -1;
	return false;
}

void share_set_hung(struct share *share, int pidfd)
{
	if (share->root || hangs(share))
		close(pidfd);
	else
		share->hung = pidfd;
}

bool share_has_time(struct share *share)
{
	add_time(share);
	return share->root || (share->time > 0 && !hangs(share));
}

void share_take_time(struct share *share, __u64 ns)
{
	add_time(share);
	share->time -= ns;
}

unsigned int share_wait(struct share *share)
{
	if (share_has_time(share))
		return 0;
	return share->time > 0 ? HUNG_SECONDS : -share->time * SHARE_TIME_PART / 1000000000 + 1;
}

void shares_tidy(struct shares *shares)
{
	struct share **link = &shares->first, *share;

	while ((share = *link)) {
		add_time(share);
		if (share->root || share->nr_files || share->time < SHARE_TIME_NS ||
		    hangs(share)) {
			link = &share->next;
			continue;
		}
		*link = share->next;
		free(share);
		shares->nr--;
	}
}

void shares_free(struct shares *shares)
{
	struct share *share;

	while ((share = shares->first)) {
		shares->first = share->next;
		if (share->hung >= 0)
			close(share->hung);
		free(share);
	}
}

void shares_print(struct shares *shares, FILE *out)
{
	struct share *share;

	for (share = shares->first; share; share = share->next) {
		bool has_time = share_has_time(share);

		fprintf(out, "%-40s %8u %10llu", share->name, share->nr_files,
			(unsigned long long)share->bytes >> 10);
		if (share->lacks || !has_time)
			fprintf(out, "  exhausted:%s%s%s",
				share->lacks & SHARE_FILES ? " files" : "",
				share->lacks & SHARE_ROOM ? " room" : "",
				has_time ? "" : " time");
		fputc('\n', out);
	}
}
