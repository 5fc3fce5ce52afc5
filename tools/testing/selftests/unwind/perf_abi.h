/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the tests of the perf ABI: the events of a test, and the records that
 * answer their samples. Frames are those of chain_syscall(), compared one by one.
 */
#ifndef _SELFTESTS_UNWIND_PERF_ABI_H
#define _SELFTESTS_UNWIND_PERF_ABI_H

#include "unwind_chain.h"
#include "unwind_perf.h"

#define SYSCTL_MAX_CONTEXTS	"/proc/sys/kernel/perf_event_max_contexts_per_stack"

#define DEFER		UT_ATTR_DEFER_CALLCHAIN
#define OUTPUT		UT_ATTR_DEFER_OUTPUT
#define MAX_RINGS	16
#define MAX_CPUS	16

#define A(label)	((unsigned long)(label))

/* The events of the test that runs; each has a process of its own. */
extern struct up_ring rings[MAX_RINGS];
extern int nr_rings;

const char *need_abi(void);
void abi_begin(void);
void abi_end(void);

void attr_tracepoint(struct perf_event_attr *attr, const char *system, const char *name,
		     uint64_t bits);
void attr_enter(struct perf_event_attr *attr, uint64_t bits);
void attr_exit(struct perf_event_attr *attr, uint64_t bits);
void attr_fault(struct perf_event_attr *attr, uint64_t bits);
void attr_holder(struct perf_event_attr *attr);

/* An event that does not open makes enable_all() and drain_all() fail. */
struct up_ring *open_ring(struct perf_event_attr *attr, pid_t pid, int cpu);
struct up_ring *open_syscall(struct perf_event_attr *attr, long nr);
struct up_ring *open_enter(long nr, uint64_t bits);
struct up_ring *open_exit(long nr, uint64_t bits);
struct up_ring *open_holder(pid_t pid, int cpu);
int open_into(struct up_ring *ring, struct perf_event_attr *attr, int group, long nr);
void open_inherited(struct perf_event_attr *attr);
int __printf(2, 3) set_filter(struct up_ring *ring, const char *fmt, ...);
int __printf(1, 2) set_filter_all(const char *fmt, ...);

bool enable_all(void);
bool drain_all(void);

size_t count_samples(struct up_ring *ring);
size_t count_records(struct up_ring *ring);
struct up_rec *sample_nr(struct up_ring *ring, size_t n);
struct up_rec *record_nr(struct up_ring *ring, size_t n);

struct up_rec *answer_to(struct up_rec *sample, struct up_ring *holder);
bool has_frames(struct up_rec *sample, const uint64_t *ips, uint64_t nr);
bool is_answered(struct up_rec *sample, struct up_ring *holder, const uint64_t *ips,
		 uint64_t nr);
bool has_chain(struct up_rec *sample, struct up_ring *holder);
bool has_chain_in_place(struct up_rec *sample);
int count_answered(__u32 tid);

void getppid_from_chain(void);
bool sample_getppid(int times);

#endif /* _SELFTESTS_UNWIND_PERF_ABI_H */
