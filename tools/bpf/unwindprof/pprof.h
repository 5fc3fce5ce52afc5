/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A profile in the format of pprof, which is described in
 * https://github.com/google/pprof/blob/main/proto/profile.proto
 */
#ifndef _UNWINDPROF_PPROF_H
#define _UNWINDPROF_PPROF_H

#include <stdio.h>
#include <linux/types.h>

/* A file where a process has mapped it, or the kernel or one of its modules */
struct pprof_mapping {
	unsigned long start;
	unsigned long end;
	const char *file;
	const unsigned char *build_id;
	int build_id_size;
};

/* The labels of a sample; without a cgroup if that is NULL */
struct pprof_labels {
	const char *comm;
	const char *pid;
	const char *cgroup;
};

/* Of a whole profile, in nanoseconds; without a period if that is 0 */
struct pprof_times {
	__u64 start;
	__u64 duration;
	__u64 period;
};

void pprof_begin(const char *path);
__u64 pprof_mapping(const struct pprof_mapping *mapping);
__u64 pprof_location(__u64 mapping, unsigned long addr, const char *name);
void pprof_stack(FILE *out, const __u64 *locations, int nr, const struct pprof_labels *labels);
void pprof_sample(const char *stack, size_t len, __u64 samples, __u64 nanoseconds);
void pprof_end(const struct pprof_times *times);

/* In unwindprof.c */
void die(const char *what, int error);
void *need(void *mem);

#endif /* _UNWINDPROF_PPROF_H */
