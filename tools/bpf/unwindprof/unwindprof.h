/* SPDX-License-Identifier: GPL-2.0 */
/* Records that the BPF programs of unwindprof send to user space */
#ifndef _UNWINDPROF_H
#define _UNWINDPROF_H

#define KERNEL_DEPTH	127
#define USER_DEPTH	510

enum event_type {
	/* A sample; its user stack is here, or comes later with its cookie */
	EVENT_SAMPLE,
	/* The user stack for a cookie */
	EVENT_STACK,
	/* A process has another program, or is gone: so are its mappings */
	EVENT_EXEC,
	EVENT_EXIT,
};

/* A sample without its user part; most samples are kept in this form only */
struct prof_head {
	__u32 type;
	__u32 tgid;
	__u32 tid;
	/* Bytes, or an error */
	__s32 kernel_size;
	__s32 user_size;
	__u32 unused;
	/* 0: the user stack is in here, or there is none */
	__u64 cookie;
	/* If it was asked for */
	__u64 cgroup;
	/* Samples, or microseconds off the CPU */
	__u64 weight;
	char comm[16];
	__u64 kernel[KERNEL_DEPTH];
};

struct prof_sample {
	struct prof_head head;
	__u64 user[USER_DEPTH];
};

struct prof_stack {
	__u32 type;
	__u32 tid;
	__s32 size;
	__u32 unused;
	__u64 cookie;
	__u64 user[USER_DEPTH];
};

struct prof_process {
	__u32 type;
	__u32 tgid;
};

#endif /* _UNWINDPROF_H */
