// SPDX-License-Identifier: GPL-2.0
/* Processes: see process.h */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"

/* For want of an instance of our own */
#define PROC	"/proc/"

/* It has this number, or a higher one: those below mean something else. */
#define MIN_FD	64
int process_proc = -1;

struct process process_of(pid_t pid)
{
	struct process process = { .pid = pid };
	struct stat st;
	int pidfd;

	/* Inodes of pidfds are not used again until the next boot. */
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return process;
	if (!fstat(pidfd, &st))
		process.identity = st.st_ino;
	close(pidfd);
	return process;
}

bool process_is_alive(const struct process *process)
{
	return process->identity && process_of(process->pid).identity == process->identity;
}

int process_mount_proc(void)
{
	int fs = fsopen("proc", FSOPEN_CLOEXEC), at = -1, error;

	if (fs >= 0 && !fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		at = fsmount(fs, FSMOUNT_CLOEXEC,
			     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (at >= 0)
		process_proc = fcntl(at, F_DUPFD_CLOEXEC, MIN_FD);
	error = process_proc < 0 ? -errno : 0;
	if (at >= 0)
		close(at);
	if (fs >= 0)
		close(fs);
	return error;
}

int process_open_proc(const char *name, int flags)
{
	char path[64];

	if (process_proc >= 0)
		return openat(process_proc, name, flags | O_CLOEXEC);
	snprintf(path, sizeof(path), PROC "%s", name);
	return open(path, flags | O_CLOEXEC);
}

FILE *process_fopen_proc(const char *name)
{
	int fd = process_open_proc(name, O_RDONLY);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !file)
		close(fd);
	return file;
}

DIR *process_list_proc(void)
{
	int fd = process_open_proc(".", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

void process_close_from(int first, int but)
{
	if (but > first)
		syscall(SYS_close_range, first, but - 1, 0);
	syscall(SYS_close_range, but < first ? first : but + 1, ~0U, 0);
}

__u64 process_rusage_ns(const struct rusage *usage)
{
	return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * NSEC_PER_SEC +
	       (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
}

__u64 process_cpu_ns(void)
{
	struct rusage children = { };

	getrusage(RUSAGE_CHILDREN, &children);
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) + process_rusage_ns(&children);
}

void process_limit_memory(__u64 more, __u64 most)
{
	unsigned long pages = 0;
	struct rlimit limit;
	FILE *file;

	file = process_fopen_proc("self/statm");
	if (file && fscanf(file, "%lu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	limit.rlim_cur = pages * sysconf(_SC_PAGESIZE) + more;
	limit.rlim_max = pages * sysconf(_SC_PAGESIZE) + most;
	setrlimit(RLIMIT_AS, &limit);
}

int process_limit_capabilities(__u64 permitted, __u64 effective)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];
	int i;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_capget, &header, data))
		return -errno;
	for (i = 0; i < 2; i++) {
		data[i].permitted &= permitted >> (32 * i);
		data[i].effective = data[i].permitted & (effective >> (32 * i));
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}
