/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of the walker and of the perf ABI share: a ring buffer read
 * into an array of records, each checked to the byte and taken apart, for tests
 * that count and compare records across several buffers.
 */
#ifndef _SELFTESTS_UNWIND_PERF_H
#define _SELFTESTS_UNWIND_PERF_H

#include "unwind_test.h"

#define UP_CONTEXT_MAX		((uint64_t)-4095)

/* One 8-byte word of each: header, ip, pid+tid, time, id, cpu+res, nr */
#define UP_SAMPLE_SIZE(nr)	(7 * 8 + (nr) * 8)
/* Header, cookie, nr; pid+tid, time, id, cpu+res */
#define UP_DEFERRED_SIZE(nr)	(3 * 8 + (nr) * 8 + UP_SAMPLE_ID_SIZE)
#define UP_SAMPLE_ID_SIZE	(4 * 8)

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

static inline void up_attr_init(struct perf_event_attr *attr, uint32_t type,
				uint64_t config, uint64_t bits)
{
	perf_attr_init(attr, type, config, bits);
	attr->sample_type |= PERF_SAMPLE_ID;
}

/* Open an event with its own ring buffer. Returns 0 or -errno. */
static inline int up_open_pages(struct up_ring *ring, struct perf_event_attr *attr,
				pid_t pid, int cpu, int group, size_t pages)
{
	int ret;

	memset(ring, 0, sizeof(*ring));
	ring->sample_id_all = attr->sample_id_all;
	ring->sample_addr = attr->sample_type & PERF_SAMPLE_ADDR;
	ring->sample_stack = attr->sample_type & PERF_SAMPLE_STACK_USER;
	ring->fd = perf_open(attr, pid, cpu, group, 0);
	if (ring->fd < 0)
		return ring->fd;
	ret = ioctl(ring->fd, PERF_EVENT_IOC_ID, &ring->id) ? -errno :
	      ring_open(&ring->ring, ring->fd, pages);
	if (ret) {
		close(ring->fd);
		ring->fd = -1;
	}
	return ret;
}

static inline int up_open(struct up_ring *ring, struct perf_event_attr *attr,
			  pid_t pid, int cpu, int group)
{
	return up_open_pages(ring, attr, pid, cpu, group, 64);
}

static inline int up_enable(struct up_ring *ring)
{
	return ioctl(ring->fd, PERF_EVENT_IOC_ENABLE, 0);
}

static inline int up_disable(struct up_ring *ring)
{
	return ioctl(ring->fd, PERF_EVENT_IOC_DISABLE, 0);
}

static inline void up_forget(struct up_ring *ring)
{
	size_t i;

	for (i = 0; i < ring->nr_recs; i++) {
		free(ring->recs[i].ips);
		free(ring->recs[i].body);
	}
	ring->nr_recs = 0;
}

static inline void up_close(struct up_ring *ring)
{
	ring_close(&ring->ring);
	if (ring->fd >= 0)
		close(ring->fd);
	up_forget(ring);
	free(ring->recs);
	memset(ring, 0, sizeof(*ring));
	ring->fd = -1;
}

/* Split a sample's chain at its context markers. */
static inline void up_split_chain(struct up_rec *rec)
{
	uint64_t context = 0;
	uint64_t i;

	for (i = 0; i < rec->nr; i++) {
		uint64_t ip = rec->ips[i];

		if (ip == UT_CONTEXT_USER_DEFERRED) {
			/* Last but one, with the cookie last, and only once */
			if (rec->deferred || i + 2 != rec->nr) {
				rec->bad = true;
				return;
			}
			rec->deferred = true;
			rec->cookie = rec->ips[i + 1];
			return;
		}
		if (ip >= UP_CONTEXT_MAX) {
			context = ip;
			if (ip == PERF_CONTEXT_USER) {
				rec->has_user = true;
				rec->user = &rec->ips[i + 1];
			} else if (ip == PERF_CONTEXT_KERNEL) {
				rec->kernel = &rec->ips[i + 1];
			}
			continue;
		}
		if (context == PERF_CONTEXT_USER)
			rec->nr_user++;
		else if (context == PERF_CONTEXT_KERNEL)
			rec->nr_kernel++;
		else
			rec->bad = true;
	}
}

static inline uint64_t up_get(const unsigned char **p, const unsigned char *end,
			      size_t size, bool *bad)
{
	uint32_t word;
	uint64_t val = 0;

	if ((size_t)(end - *p) < size) {
		*bad = true;
		return 0;
	}
	if (size == 4) {
		memcpy(&word, *p, 4);
		val = word;
	} else {
		memcpy(&val, *p, 8);
	}
	*p += size;
	return val;
}

static inline void up_get_ips(struct up_rec *rec, const unsigned char **p,
			      const unsigned char *end)
{
	rec->nr = up_get(p, end, 8, &rec->bad);
	if (rec->nr > (size_t)(end - *p) / 8) {
		rec->bad = true;
		rec->nr = 0;
		return;
	}
	rec->ips = malloc(rec->nr * 8 + 8);
	memcpy(rec->ips, *p, rec->nr * 8);
	*p += rec->nr * 8;
}

/* A dump of the stack: its size, the dump, and how much of it is valid */
static inline void up_get_stack(struct up_rec *rec, const unsigned char **p,
				const unsigned char *end)
{
	rec->stack_size = up_get(p, end, 8, &rec->bad);
	if (!rec->stack_size)
		return;
	if (rec->stack_size > (size_t)(end - *p)) {
		rec->bad = true;
		return;
	}
	*p += rec->stack_size;
	if (up_get(p, end, 8, &rec->bad) > rec->stack_size)
		rec->bad = true;
}

static inline void up_get_sample_id(struct up_rec *rec, const unsigned char *p,
				    const unsigned char *end)
{
	rec->pid = up_get(&p, end, 4, &rec->bad);
	rec->tid = up_get(&p, end, 4, &rec->bad);
	rec->time = up_get(&p, end, 8, &rec->bad);
	rec->id = up_get(&p, end, 8, &rec->bad);
	rec->cpu = up_get(&p, end, 4, &rec->bad);
	up_get(&p, end, 4, &rec->bad);
	/* What is left over is as wrong as what is missing */
	if (p != end)
		rec->bad = true;
}

static inline void up_parse(struct up_ring *ring, struct up_rec *rec,
			    const unsigned char *buf)
{
	const struct perf_event_header *hdr = (const void *)buf;
	const unsigned char *p = buf + sizeof(*hdr);
	const unsigned char *end = buf + hdr->size;

	memset(rec, 0, sizeof(*rec));
	rec->type = hdr->type;
	rec->misc = hdr->misc;
	rec->size = hdr->size;

	switch (hdr->type) {
	case PERF_RECORD_SAMPLE:
		rec->ip = up_get(&p, end, 8, &rec->bad);
		rec->pid = up_get(&p, end, 4, &rec->bad);
		rec->tid = up_get(&p, end, 4, &rec->bad);
		rec->time = up_get(&p, end, 8, &rec->bad);
		if (ring->sample_addr)
			rec->addr = up_get(&p, end, 8, &rec->bad);
		rec->id = up_get(&p, end, 8, &rec->bad);
		rec->cpu = up_get(&p, end, 4, &rec->bad);
		up_get(&p, end, 4, &rec->bad);
		up_get_ips(rec, &p, end);
		if (ring->sample_stack)
			up_get_stack(rec, &p, end);
		if (p != end)
			rec->bad = true;
		up_split_chain(rec);
		break;
	case UT_RECORD_CALLCHAIN_DEFERRED:
		rec->cookie = up_get(&p, end, 8, &rec->bad);
		up_get_ips(rec, &p, end);
		if (ring->sample_id_all)
			up_get_sample_id(rec, p, end);
		else if (p != end)
			rec->bad = true;
		break;
	case PERF_RECORD_LOST:
		up_get(&p, end, 8, &rec->bad);
		rec->lost = up_get(&p, end, 8, &rec->bad);
		break;
	default:
		rec->body = malloc(hdr->size);
		memcpy(rec->body, p, end - p);
		if (ring->sample_id_all && end - p >= UP_SAMPLE_ID_SIZE)
			up_get_sample_id(rec, end - UP_SAMPLE_ID_SIZE, end);
		break;
	}
}

/* Move what the kernel has written into ring->recs; returns how many came. */
static inline size_t up_drain(struct up_ring *ring)
{
	struct record *rec = malloc(sizeof(*rec));
	size_t old = ring->nr_recs;

	while (ring_next(&ring->ring, rec)) {
		if (ring->nr_recs == ring->max_recs) {
			ring->max_recs = ring->max_recs ? 2 * ring->max_recs : 64;
			ring->recs = realloc(ring->recs, ring->max_recs *
					     sizeof(*ring->recs));
			if (!ring->recs)
				abort();
		}
		up_parse(ring, &ring->recs[ring->nr_recs++],
			 (unsigned char *)rec);
	}
	free(rec);
	return ring->nr_recs - old;
}

/* Throw away what is in the buffer. */
static inline void up_reset(struct up_ring *ring)
{
	up_drain(ring);
	up_forget(ring);
}

static inline size_t up_count(struct up_ring *ring, uint32_t type)
{
	size_t i, n = 0;

	for (i = 0; i < ring->nr_recs; i++)
		n += ring->recs[i].type == type;
	return n;
}

static inline size_t up_count_bad(struct up_ring *ring)
{
	size_t i, n = 0;

	for (i = 0; i < ring->nr_recs; i++)
		n += ring->recs[i].bad;
	return n;
}

static inline uint64_t up_count_lost(struct up_ring *ring)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < ring->nr_recs; i++)
		n += ring->recs[i].lost;
	return n;
}

static inline size_t up_count_cookie(struct up_ring *ring, uint64_t cookie)
{
	size_t i, n = 0;

	for (i = 0; i < ring->nr_recs; i++)
		n += ring->recs[i].type == UT_RECORD_CALLCHAIN_DEFERRED &&
		     ring->recs[i].cookie == cookie;
	return n;
}

/* The nth record of a type, counted from 0, or NULL. */
static inline struct up_rec *up_nth(struct up_ring *ring, uint32_t type, size_t n)
{
	size_t i;

	for (i = 0; i < ring->nr_recs; i++)
		if (ring->recs[i].type == type && !n--)
			return &ring->recs[i];
	return NULL;
}

static inline struct up_rec *up_find_cookie(struct up_ring *ring, uint64_t cookie)
{
	size_t i;

	for (i = 0; i < ring->nr_recs; i++)
		if (ring->recs[i].type == UT_RECORD_CALLCHAIN_DEFERRED &&
		    ring->recs[i].cookie == cookie)
			return &ring->recs[i];
	return NULL;
}

/* Compare frames one by one; on a difference print both sides. */
static inline bool up_frames_equal(const uint64_t *seen, uint64_t nr_seen,
				   const uint64_t *want, uint64_t nr_want)
{
	uint64_t i, n = nr_seen > nr_want ? nr_seen : nr_want;

	if (nr_seen == nr_want && !memcmp(seen, want, nr_want * 8))
		return true;

	fprintf(stderr, "# frames: %llu seen, %llu expected\n",
		(unsigned long long)nr_seen, (unsigned long long)nr_want);
	for (i = 0; i < n && i < 40; i++) {
		char a[24] = "-", b[24] = "-";

		if (i < nr_seen)
			snprintf(a, sizeof(a), "%#llx", (unsigned long long)seen[i]);
		if (i < nr_want)
			snprintf(b, sizeof(b), "%#llx", (unsigned long long)want[i]);
		fprintf(stderr, "#   %3llu %18s %18s%s\n", (unsigned long long)i,
			a, b, strcmp(a, b) ? "  <--" : "");
	}
	return false;
}

static inline long long up_read_number(const char *path)
{
	long long val = -1;
	FILE *f = fopen(path, "r");

	if (!f)
		return -1;
	if (fscanf(f, "%lld", &val) != 1)
		val = -1;
	fclose(f);
	return val;
}

static inline int up_write_number(const char *path, long long val)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	char buf[32];
	ssize_t n;

	if (fd < 0)
		return -1;
	snprintf(buf, sizeof(buf), "%lld\n", val);
	n = write(fd, buf, strlen(buf));
	close(fd);
	return n == (ssize_t)strlen(buf) ? 0 : -1;
}

/* An attribute for a uprobe (or uretprobe) on an address of this program. */
static inline int up_attr_uprobe(struct perf_event_attr *attr, const void *addr,
				 bool ret, uint64_t bits)
{
	static char path[512];
	int type = pmu_type("uprobe");
	uint64_t offset = file_offset(addr, path, sizeof(path));

	if (type < 0 || !offset)
		return -1;
	up_attr_init(attr, type, ret, bits);
	attr->config1 = (unsigned long)path;
	attr->config2 = offset;
	return 0;
}

#endif
