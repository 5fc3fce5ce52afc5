// SPDX-License-Identifier: GPL-2.0
/* For whom a process works: see owner.h */
#include <fcntl.h>
#include <linux/nsfs.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "owner.h"

#define SUBUID		"/etc/subuid"
#define PASSWD		"/etc/passwd"
/* User namespaces are not nested deeper. */
#define MAX_NESTED	33

/* User IDs that a user may give to his processes */
struct range {
	__u32 first;
	__u32 nr;
	__u32 user;
};

static struct {
	struct range *ranges;
	size_t nr;
	/* Of the file, as it was read */
	ino_t ino;
	struct timespec ctime;
} subuids;

/* The service asks no name service: that may ask somebody else, and wait. */
static __u32 user_named(const char *name)
{
	const struct passwd *user;
	__u32 uid = OWNER_UNKNOWN;
	FILE *file;

	if (!name[strspn(name, "0123456789")])
		return strtoul(name, NULL, 10);
	file = fopen(PASSWD, "re");
	while (file && uid == OWNER_UNKNOWN && (user = fgetpwent(file)))
		if (!strcmp(user->pw_name, name))
			uid = user->pw_uid;
	if (file)
		fclose(file);
	return uid;
}

static void add_range(const char *line)
{
	struct range range, *more;
	char name[64];

	if (sscanf(line, "%63[^:]:%u:%u", name, &range.first, &range.nr) != 3)
		return;
	range.user = user_named(name);
	/* Nothing counts for root. */
	if (!range.user || range.user == OWNER_UNKNOWN)
		return;
	more = realloc(subuids.ranges, (subuids.nr + 1) * sizeof(range));
	if (!more)
		return;
	subuids.ranges = more;
	more[subuids.nr++] = range;
}

static void read_subuids(void)
{
	struct stat st = { };
	char line[256];
	FILE *file;

	stat(SUBUID, &st);
	if (st.st_ino == subuids.ino && st.st_ctim.tv_sec == subuids.ctime.tv_sec &&
	    st.st_ctim.tv_nsec == subuids.ctime.tv_nsec)
		return;
	subuids.ino = st.st_ino;
	subuids.ctime = st.st_ctim;
	subuids.nr = 0;
	file = fopen(SUBUID, "re");
	while (file && fgets(line, sizeof(line), file))
		add_range(line);
	if (file)
		fclose(file);
}

__u32 owner_of_uid(__u32 uid)
{
	const struct range *range;

	if (uid < OWNER_MAX_UID)
		return uid;
	read_subuids();
	for (range = subuids.ranges; range < subuids.ranges + subuids.nr; range++)
		if (uid - range->first < range->nr)
			return range->user;
	return OWNER_UNKNOWN;
}

bool owner_of_namespace(int userns, int own, __u32 *owner, __u64 *outermost)
{
	struct stat own_st, parent_st, st = { };
	int i, parent, at = fstat(own, &own_st) ? -1 : dup(userns);
	bool found = false;

	for (i = 0; i < MAX_NESTED && at >= 0 && !found; i++) {
		parent = ioctl(at, NS_GET_PARENT);
		found = parent >= 0 && !fstat(parent, &parent_st) && !fstat(at, &st) &&
			parent_st.st_ino == own_st.st_ino &&
			!ioctl(at, NS_GET_OWNER_UID, owner);
		*outermost = st.st_ino;
		close(at);
		at = parent;
	}
	if (at >= 0)
		close(at);
	return found;
}

/* Where a user ID does not tell, whoever has made the namespace does, unless that is root. */
static void find_user(int proc, struct owner *owner)
{
	int own, userns;
	__u32 maker;

	owner->userns = 0;
	owner->user = owner_of_uid(owner->uid);
	if (owner->user && owner->user != OWNER_UNKNOWN)
		return;
	own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	userns = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
	if (userns >= 0 && owner_of_namespace(userns, own, &maker, &owner->userns)) {
		owner->user = owner_of_uid(maker);
		if (!owner->user)
			owner->user = OWNER_UNKNOWN;
		else if (owner->user == OWNER_UNKNOWN)
			owner->user = maker;	/* Or each namespace would be a share. */
	} else {
		owner->user = owner->uid;
		owner->userns = 0;
	}
	if (own >= 0)
		close(own);
	if (userns >= 0)
		close(userns);
}

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

	owner->parent = 0;
	owner->uid = OWNER_UNKNOWN;
	owner->gid = OWNER_UNKNOWN;
	owner->user = OWNER_UNKNOWN;
	owner->cgroup[0] = '\0';
	file = open_in(proc, "status");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "PPid: %d", &owner->parent) != 1 &&
		    sscanf(line, "Uid: %u", &owner->uid) != 1 &&
		    sscanf(line, "Gid: %u", &owner->gid) == 1)
			break;
	if (file)
		fclose(file);
	if (owner->uid != OWNER_UNKNOWN)
		find_user(proc, owner);
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

bool owner_is_in_roots_cgroup(const struct owner *owner)
{
	static const char of_root[] = "user.slice/user-0.slice";
	const size_t len = sizeof(of_root) - 1;

	return !owner->cgroup[0] || !strcmp(owner->cgroup, "init.scope") ||
	       (!strncmp(owner->cgroup, of_root, len) &&
		(!owner->cgroup[len] || owner->cgroup[len] == '/'));
}

bool owner_is_root(const struct owner *owner)
{
	return !owner->user && owner_is_in_roots_cgroup(owner);
}
