/* SPDX-License-Identifier: GPL-2.0 */
/*
 * perf_event_open(), and an exact reader of its buffers: each record is checked
 * to the byte and taken apart, for tests that count and compare records across
 * several buffers.
 */
#ifndef _SELFTESTS_UNWIND_PERF_H
#define _SELFTESTS_UNWIND_PERF_H

#include <linux/const.h>
#include <linux/perf_event.h>

#include "unwind_test.h"

/*
 * The ABI under test. Own numbers, so that the tests build against the headers
 * of any kernel and notice when the kernel's numbers move.
 */
#define UT_RECORD_CALLCHAIN_DEFERRED	22
#define UT_CONTEXT_USER_DEFERRED	((uint64_t)-640)
#define UT_ATTR_DEFER_CALLCHAIN		_BITULL(38)
#define UT_ATTR_DEFER_OUTPUT		_BITULL(39)

/* A walk that ends at an outermost frame, in the misc of a record or a sample */
#define UT_MISC_OUTERMOST	_BITUL(13)
/* Why another one ends, there as well; and whether nothing has checked one that does */
#define UT_MISC_END(misc)	((misc) >> 8 & 15)
#define UT_END_NO_RULE		1
#define UT_END_ABSENT		2
#define UT_END_CORRUPT		3
#define UT_END_DEPTH		4
#define UT_END_REFUSED		5
#define UT_END_CHANGING		7
#define UT_END_REMOTE		8
#define UT_END_NO_FP		9
#define UT_END_UNCHECKED	10

/* Most user addresses that a record can have. */
#define UT_MAX_ENTRIES			510
#define SYSCTL_MAX_STACK		"/proc/sys/kernel/perf_event_max_stack"

#define UP_CONTEXT_MAX		((uint64_t)-4095)

/* One 8-byte word of each: header, ip, pid+tid, time, id, cpu+res, nr */
#define UP_SAMPLE_SIZE(nr)	(7 * 8 + (nr) * 8)
/* Header, cookie, nr; pid+tid, time, id, cpu+res */
#define UP_DEFERRED_SIZE(nr)	(3 * 8 + (nr) * 8 + UP_SAMPLE_ID_SIZE)
#define UP_SAMPLE_ID_SIZE	(4 * 8)

struct ring {
	struct perf_event_mmap_page	*page;
	size_t				size;
};

/* A record, whole and in one piece. */
struct record {
	struct perf_event_header	header;
	char				body[65536];
};

struct up_rec {
	uint32_t type;
	uint16_t misc;
	uint16_t size;
	uint32_t pid;
	uint32_t tid;
	uint64_t time;
	uint64_t id;
	uint32_t cpu;
	/* Of a sample */
	uint64_t ip;
	/* Of a sample that has it */
	uint64_t addr;
	uint64_t stack_size;
	/* Of a deferred record; of a sample that ends with marker and cookie */
	uint64_t cookie;
	/* The callchain of a sample, the trace of a deferred record */
	uint64_t nr;
	uint64_t *ips;
	/* Of a sample's callchain: the parts */
	bool deferred;
	uint64_t *kernel;
	uint64_t nr_kernel;
	uint64_t *user;
	uint64_t nr_user;
	bool has_user;
	/* Of PERF_RECORD_LOST */
	uint64_t lost;
	/* Of a side-band record: its body */
	void *body;
	/* Set when sizes inside the record contradict each other */
	bool bad;
};

struct up_ring {
	int fd;
	uint64_t id;
	struct ring ring;
	/* Everything read so far, in order */
	struct up_rec *recs;
	size_t nr_recs;
	size_t max_recs;
	bool sample_id_all;
	bool sample_addr;
	bool sample_stack;
};

/* Are walks taken in place? See in_place.c */
extern const bool in_place;
/* Records that have user stacks */
#define UP_STACKS	(in_place ? PERF_RECORD_SAMPLE : UT_RECORD_CALLCHAIN_DEFERRED)
#define DEFER_BITS	(in_place ? 0 : UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT)

void perf_attr_init(struct perf_event_attr *attr, uint32_t type,
		    uint64_t config, uint64_t defer_bits);
int perf_open(struct perf_event_attr *attr, pid_t pid, int cpu, int group,
	      unsigned long flags);
const char *need_perf_deferred(void);
const char *need_deferral(void);
int pmu_type(const char *pmu);

/* The next record of a buffer, as the kernel wrote it */
bool ring_next(struct ring *ring, struct record *rec);

/* An event with a buffer of its own */
void up_attr_init(struct perf_event_attr *attr, uint32_t type, uint64_t config,
		  uint64_t bits);
int up_attr_uprobe(struct perf_event_attr *attr, const void *addr, bool ret,
		   uint64_t bits);
int up_open(struct up_ring *ring, struct perf_event_attr *attr, pid_t pid,
	    int cpu, int group);
int up_open_pages(struct up_ring *ring, struct perf_event_attr *attr, pid_t pid,
		  int cpu, int group, size_t pages);
int up_enable(struct up_ring *ring);
int up_disable(struct up_ring *ring);
void up_close(struct up_ring *ring);

/* Its records, read into ring->recs */
size_t up_drain(struct up_ring *ring);
void up_forget(struct up_ring *ring);
void up_reset(struct up_ring *ring);

size_t up_count(struct up_ring *ring, uint32_t type);
size_t up_count_bad(struct up_ring *ring);
uint64_t up_count_lost(struct up_ring *ring);
size_t up_count_cookie(struct up_ring *ring, uint64_t cookie);
struct up_rec *up_nth(struct up_ring *ring, uint32_t type, size_t n);
struct up_rec *up_find_cookie(struct up_ring *ring, uint64_t cookie);
struct up_rec *up_answer(struct up_ring *ring, struct up_rec *sample);
bool up_frames_equal(const uint64_t *seen, uint64_t nr_seen,
		     const uint64_t *want, uint64_t nr_want);

#endif /* _SELFTESTS_UNWIND_PERF_H */
