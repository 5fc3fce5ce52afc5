// SPDX-License-Identifier: GPL-2.0
/* Processes: see process.h */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"

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

	file = fopen("/proc/self/statm", "re");
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
