// SPDX-License-Identifier: GPL-2.0
/* Shares of what the keeper has for all users: see share.h */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process.h"
#include "share.h"

/* Until a share whose reader hangs is looked at again */
#define HUNG_SECONDS	30

static struct share *share_named(struct shares *shares, const char *name)
{
	struct share *share;

	for (share = shares->first; share; share = share->next)
		if (!strcmp(share->name, name)) {
			share->used_at = now_ns();
			return share;
		}
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	snprintf(share->name, sizeof(share->name), "%s", name);
	share->time = SHARE_TIME_NS;
	share->when = now_ns();
	share->used_at = share->when;
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

void share_name(const struct owner *owner, char *name)
{
	const char *end;

	if (owner_is_root(owner)) {
		snprintf(name, SHARE_NAME, "root");
	} else if (!owner_is_in_roots_cgroup(owner)) {
		end = strchrnul(owner->cgroup, '/');
		if (*end)
			end = strchrnul(end + 1, '/');
		snprintf(name, SHARE_NAME, "cgroup %.*s", (int)(end - owner->cgroup),
			 owner->cgroup);
	} else if (owner->user != OWNER_UNKNOWN) {
		snprintf(name, SHARE_NAME, "user %u", owner->user);
	} else {
		snprintf(name, SHARE_NAME, "namespace %llu", (unsigned long long)owner->userns);
	}
}

struct share *share_of_process(struct shares *shares, const struct owner *owner)
{
	char name[SHARE_NAME];

	share_name(owner, name);
	return share_named(shares, name);
}

struct share *share_of_owner(struct shares *shares, __u32 uid)
{
	__u32 user = owner_of_uid(uid);
	char name[SHARE_NAME];

	if (!user || user == OWNER_UNKNOWN)
		return NULL;
	snprintf(name, sizeof(name), "user %u", user);
	return share_named(shares, name);
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
	__s64 now = now_ns();

	share->time += (now - share->when) / SHARE_TIME_PART;
	if (share->time > SHARE_TIME_NS)
		share->time = SHARE_TIME_NS;
	share->when = now;
}

bool share_has_time(struct share *share)
{
	add_time(share);
	return share->root || (share->time > 0 && !share->hung);
}

bool share_is_idle(const struct share *share)
{
	return share->time >= SHARE_TIME_NS - SHARE_IDLE_NS;
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

bool share_may_complain(struct share *share)
{
	time_t now = now_seconds();
	unsigned int more = (now - share->line_at) / SHARE_LINE_SECONDS;

	if (more >= share->lines) {
		share->lines = 0;
		share->line_at = now;
	} else {
		share->lines -= more;
		share->line_at += more * SHARE_LINE_SECONDS;
	}
	if (share->lines < SHARE_LINES) {
		share->lines++;
		return true;
	}
	if (!share->left_out++) {
		share->say_at = now + SHARE_SAY_SECONDS;
		if (share->said_at && share->say_at < share->said_at + SHARE_LINE_SECONDS)
			share->say_at = share->said_at + SHARE_LINE_SECONDS;
	}
	return false;
}

unsigned int share_left_out(struct share *share)
{
	unsigned int left_out = share->left_out;

	if (!left_out || now_seconds() < share->say_at)
		return 0;
	share->left_out = 0;
	share->said_at = now_seconds();
	return left_out;
}

struct share *shares_oldest(const struct shares *shares)
{
	struct share *share, *oldest = NULL;

	for (share = shares->first; share; share = share->next)
		if (!share->root && !share->users && (!oldest || share->used_at < oldest->used_at))
			oldest = share;
	return shares->nr > SHARES_MAX ? oldest : NULL;
}

void shares_remove(struct shares *shares, struct share *share)
{
	struct share **link = &shares->first;

	while (*link != share)
		link = &(*link)->next;
	*link = share->next;
	free(share);
	shares->nr--;
}

void shares_tidy(struct shares *shares)
{
	struct share *share, *next;

	for (share = shares->first; share; share = next) {
		next = share->next;
		add_time(share);
		if (!share->root && !share->users && !share->again && !share->nr_files &&
		    share->time >= SHARE_TIME_NS && !share->left_out &&
		    now_seconds() >= share->line_at + SHARE_LINE_SECONDS)
			shares_remove(shares, share);
	}
}

void shares_free(struct shares *shares)
{
	if (shares->published >= 0)
		close(shares->published);
	while (shares->first)
		shares_remove(shares, shares->first);
}

static void print(struct shares *shares, FILE *out)
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

void shares_open(struct shares *shares)
{
	shares->published = memfd_create(SHARES_PUBLISHED, MFD_CLOEXEC);
}

int shares_publish(struct shares *shares)
{
	int fd = shares->published;
	char *text = NULL;
	size_t len = 0;
	int error = 0;
	FILE *out;

	out = fd < 0 ? NULL : open_memstream(&text, &len);
	if (!out)
		return 0;
	print(shares, out);
	/* Without memory, the previous list stays. */
	if (!fclose(out) && pwrite(fd, text, len, 0) == (ssize_t)len && ftruncate(fd, len))
		error = -errno;
	free(text);
	return error;
}
