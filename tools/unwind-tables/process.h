/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_PROCESS_H
#define __UNWIND_TABLES_PROCESS_H

/* Processes: their identity, the time that they have used, and the rights of this one */

#include <dirent.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#define NSEC_PER_SEC	1000000000ll

static inline __s64 clock_ns(clockid_t clock)
{
	struct timespec now = { };

	clock_gettime(clock, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static inline __s64 now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline time_t now_seconds(void)
{
	return now_ns() / NSEC_PER_SEC;
}

/* Numbers of processes are used again. The identity is that of a pidfd; 0: it has ended. */
struct process {
	pid_t pid;
	__u64 identity;
};

struct process process_of(pid_t pid);
bool process_is_alive(const struct process *process);

/*
 * Have an instance of procfs that nobody else can look names up in. In the usual one, any user can
 * have a directory that he may read locked for as long as he likes, /proc/PID of somebody else
 * included: getdents() locks it while it writes to memory, which may be on his file system. 0 or a
 * negative errno: without CAP_SYS_ADMIN it remains the usual one.
 */
int process_mount_proc(void);
/* Its directory, or -1. A process of a user must not get it. */
extern int process_proc;
/* Open a file there: a descriptor or -1, and errno */
int process_open_proc(const char *name, int flags);
FILE *process_fopen_proc(const char *name);
DIR *process_list_proc(void);
/* Close all descriptors from @first on but one. */
void process_close_from(int first, int but);

static inline bool process_is(const struct process *a, const struct process *b)
{
	return a->pid == b->pid && a->identity == b->identity;
}

/* CPU time of the process and of its children that have ended */
__u64 process_cpu_ns(void);
struct rusage;
__u64 process_rusage_ns(const struct rusage *usage);

/*
 * Limit memory, beside that inherited at the fork: @more for this process, at most @most for its
 * children
 */
void process_limit_memory(__u64 more, __u64 most);

/*
 * Give up all capabilities of this process but these, for good. 0 or a negative errno
 */
int process_limit_capabilities(__u64 permitted, __u64 effective);

#endif /* __UNWIND_TABLES_PROCESS_H */
