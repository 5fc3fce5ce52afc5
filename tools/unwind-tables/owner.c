// SPDX-License-Identifier: GPL-2.0
/* The user that a process works for: see owner.h */
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
#include "process.h"

#define SUBUID		"/etc/subuid"
#define PASSWD		"/etc/passwd"
/* User namespaces are not nested deeper. */
#define MAX_NESTED	33

/* User IDs that a user may give to his processes; his own is looked up when it is needed */
struct range {
	__u32 first;
	__u32 nr;
	char *name;
	bool is_known;
	__u32 user;
};

/* A file, as it was read */
struct version {
	ino_t ino;
	struct timespec ctime;
};

static struct {
	struct range *ranges;
	size_t nr;
	struct version subuid;
	struct version passwd;
} subuids;

static bool has_changed(const char *path, struct version *version)
{
	struct stat st = { };

	stat(path, &st);
	if (st.st_ino == version->ino && st.st_ctim.tv_sec == version->ctime.tv_sec &&
	    st.st_ctim.tv_nsec == version->ctime.tv_nsec)
		return false;
	version->ino = st.st_ino;
	version->ctime = st.st_ctim;
	return true;
}

/* The service asks no name service, which may have to wait for others. */
__u32 owner_uid_named(const char *name)
{
	const struct passwd *user;
	__u32 uid = OWNER_UNKNOWN;
	unsigned long number;
	FILE *file;

	file = fopen(PASSWD, "re");
	while (file && uid == OWNER_UNKNOWN && (user = fgetpwent(file)))
		if (!strcmp(user->pw_name, name))
			uid = user->pw_uid;
	if (file)
		fclose(file);
	number = strtoul(name, NULL, 10);
	if (uid == OWNER_UNKNOWN && *name && !name[strspn(name, "0123456789")] &&
	    number < OWNER_UNKNOWN)
		uid = number;
	return uid;
}

static void add_range(const char *line)
{
	struct range range = { }, *more;
	char name[64];

	if (sscanf(line, "%63[^:]:%u:%u", name, &range.first, &range.nr) != 3)
		return;
	more = realloc(subuids.ranges, (subuids.nr + 1) * sizeof(range));
	if (!more)
		return;
	subuids.ranges = more;
	range.name = strdup(name);
	if (range.name)
		more[subuids.nr++] = range;
}

static void read_subuids(void)
{
	char line[256];
	FILE *file;

	while (subuids.nr)
		free(subuids.ranges[--subuids.nr].name);
	file = fopen(SUBUID, "re");
	while (file && fgets(line, sizeof(line), file))
		add_range(line);
	if (file)
		fclose(file);
}

__u32 owner_of_uid(__u32 uid)
{
	__u32 user = OWNER_UNKNOWN;
	struct range *range, *end;
	bool other_users;

	if (uid < OWNER_MAX_UID)
		return uid;
	other_users = has_changed(PASSWD, &subuids.passwd);
	if (has_changed(SUBUID, &subuids.subuid))
		read_subuids();
	end = subuids.ranges + subuids.nr;
	for (range = subuids.ranges; range < end; range++) {
		range->is_known &= !other_users;
		if (user != OWNER_UNKNOWN || uid - range->first >= range->nr)
			continue;
		if (!range->is_known)
			range->user = owner_uid_named(range->name);
		range->is_known = true;
		/* Nothing counts for root. */
		if (range->user)
			user = range->user;
	}
	return user;
}

bool owner_of_namespace(int userns, __u32 *owner, __u64 *outermost)
{
	int i, parent, at = -1, own = process_open_proc("self/ns/user", O_RDONLY);
	struct stat own_st, parent_st, st = { };
	bool found = false;

	if (own >= 0 && !fstat(own, &own_st))
		at = dup(userns);
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
	if (own >= 0)
		close(own);
	return found;
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
	static const char named[] = ":name=systemd:";
	const char *second = strchrnul(line, ':');

	*path = !strncmp(line, "0::", 3) ? line + 3 :
		!strncmp(second, named, sizeof(named) - 1) ? second + sizeof(named) - 1 : "/";
	return (*path)[0] == '/' && (*path)[1];
}

static void read_cgroup(int proc, struct owner *owner)
{
	FILE *file = open_in(proc, "cgroup");
	char line[4096];
	const char *path;

	while (file && !owner->cgroup[0] && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (is_cgroup(line, &path))
			snprintf(owner->cgroup, sizeof(owner->cgroup), "%s", path + 1);
	}
	if (file)
		fclose(file);
}

bool owner_read_ids(int proc, struct owner *owner)
{
	char line[4096];
	FILE *file;

	if (owner->uid != OWNER_UNKNOWN)
		return true;
	file = open_in(proc, "status");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Uid: %u", &owner->uid) != 1 &&
		    sscanf(line, "Gid: %u", &owner->gid) == 1)
			break;
	if (file)
		fclose(file);
	return owner->uid != OWNER_UNKNOWN;
}

/*
 * A namespace that a user has made counts for that user. If root has made it, as for a
 * container, the user ID decides; otherwise, as for root in there, the namespace does.
 */
bool owner_read(int proc, struct owner *owner)
{
	__u32 maker = 0;
	bool is_below;
	int userns;

	memset(owner, 0, sizeof(*owner));
	owner->user = OWNER_UNKNOWN;
	owner->uid = OWNER_UNKNOWN;
	owner->gid = OWNER_UNKNOWN;
	read_cgroup(proc, owner);
	if (!owner_is_in_roots_cgroup(owner))
		return true;
	userns = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
	is_below = userns >= 0 && owner_of_namespace(userns, &maker, &owner->userns);
	if (userns >= 0)
		close(userns);
	if (!maker && !owner_read_ids(proc, owner))
		return false;
	owner->user = owner_of_uid(maker ?: owner->uid);
	if (maker || !is_below)
		owner->user = owner->user == OWNER_UNKNOWN ? maker ?: owner->uid : owner->user;
	else if (!owner->user)
		owner->user = OWNER_UNKNOWN;
	return true;
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
