// SPDX-License-Identifier: GPL-2.0
/*
 * perf_event_open(), and an exact reader of its buffers.
 */
#include "unwind_perf.h"

__attribute__((weak)) const bool in_place;

/* The flag bits of an attr as one word, for bits that a header may lack. */
static void perf_attr_set(struct perf_event_attr *attr, uint64_t bits)
{
	uint64_t word;

	memcpy(&word, (char *)attr + 40, sizeof(word));
	word |= bits;
	memcpy((char *)attr + 40, &word, sizeof(word));
}

int perf_open(struct perf_event_attr *attr, pid_t pid, int cpu, int group,
	      unsigned long flags)
{
	int fd;

	attr->size = sizeof(*attr);
	fd = syscall(SYS_perf_event_open, attr, pid, cpu, group,
		     flags | PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * A disabled event of sample type IP | TID | TIME | CPU | CALLCHAIN, with
 * sample_id_all. Change it before perf_open() as needed.
 */
void perf_attr_init(struct perf_event_attr *attr, uint32_t type,
		    uint64_t config, uint64_t defer_bits)
{
	memset(attr, 0, sizeof(*attr));
	attr->type = type;
	attr->config = config;
	attr->sample_period = 1;
	attr->sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			    PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
			    PERF_SAMPLE_CALLCHAIN;
	attr->sample_id_all = 1;
	attr->disabled = 1;
	perf_attr_set(attr, defer_bits);
}

const char *need_perf_deferred(void)
{
	struct perf_event_attr attr;
	int fd;

	if (need_root())
		return need_root();
	perf_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY,
		       UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	fd = perf_open(&attr, 0, -1, -1, 0);
	if (fd == -EINVAL)
		return "this kernel has no deferred callchains (CONFIG_UNWIND_USER)";
	if (fd < 0)
		return "needs perf_event_open()";
	close(fd);
	return NULL;
}

/* For tests that do not apply to walks in place */
const char *need_deferral(void)
{
	return in_place ? "is about walks on the way to user space" : NULL;
}

/* The PMU type number of "uprobe", "kprobe" and the like; -1 if not there. */
int pmu_type(const char *pmu)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type",
		 pmu);
	return up_read_number(path);
}

/* Map the buffer of @fd; @pages is a power of two. Returns 0 or -errno. */
static int ring_open(struct ring *ring, int fd, size_t pages)
{
	size_t page_size = sysconf(_SC_PAGESIZE);

	memset(ring, 0, sizeof(*ring));
	ring->page = mmap(NULL, (pages + 1) * page_size, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
	if (ring->page == MAP_FAILED) {
		ring->page = NULL;
		return -errno;
	}
	ring->size = pages * page_size;
	return 0;
}

static void ring_close(struct ring *ring)
{
	if (ring->page)
		munmap(ring->page, ring->size + sysconf(_SC_PAGESIZE));
	ring->page = NULL;
}

/* Take the next record. False when the buffer is empty. */
bool ring_next(struct ring *ring, struct record *rec)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	char *data = (char *)ring->page + page_size;
	uint64_t head, tail, i;
	char *to = (char *)rec;

	head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	tail = ring->page->data_tail;
	if (head == tail)
		return false;
	for (i = 0; i < sizeof(rec->header); i++)
		to[i] = data[(tail + i) % ring->size];
	for (; i < rec->header.size; i++)
		to[i] = data[(tail + i) % ring->size];
	__atomic_store_n(&ring->page->data_tail, tail + rec->header.size,
			 __ATOMIC_RELEASE);
	return true;
}

void up_attr_init(struct perf_event_attr *attr, uint32_t type, uint64_t config,
		  uint64_t bits)
{
	perf_attr_init(attr, type, config, bits);
	attr->sample_type |= PERF_SAMPLE_ID;
}

/* An attribute for a uprobe (or uretprobe) on an address of this program. */
int up_attr_uprobe(struct perf_event_attr *attr, const void *addr, bool ret,
		   uint64_t bits)
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

/* Open an event with its own ring buffer. Returns 0 or -errno. */
int up_open_pages(struct up_ring *ring, struct perf_event_attr *attr, pid_t pid,
		  int cpu, int group, size_t pages)
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

int up_open(struct up_ring *ring, struct perf_event_attr *attr, pid_t pid,
	    int cpu, int group)
{
	return up_open_pages(ring, attr, pid, cpu, group, 64);
}

int up_enable(struct up_ring *ring)
{
	return ioctl(ring->fd, PERF_EVENT_IOC_ENABLE, 0);
}

int up_disable(struct up_ring *ring)
{
	return ioctl(ring->fd, PERF_EVENT_IOC_DISABLE, 0);
}

void up_forget(struct up_ring *ring)
{
	size_t i;

	for (i = 0; i < ring->nr_recs; i++) {
		free(ring->recs[i].ips);
		free(ring->recs[i].body);
	}
	ring->nr_recs = 0;
}

void up_close(struct up_ring *ring)
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
static void up_split_chain(struct up_rec *rec)
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

static uint64_t up_get(const unsigned char **p, const unsigned char *end,
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

static void up_get_ips(struct up_rec *rec, const unsigned char **p,
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
static void up_get_stack(struct up_rec *rec, const unsigned char **p,
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

static void up_get_sample_id(struct up_rec *rec, const unsigned char *p,
			     const unsigned char *end)
{
	rec->pid = up_get(&p, end, 4, &rec->bad);
	rec->tid = up_get(&p, end, 4, &rec->bad);
	rec->time = up_get(&p, end, 8, &rec->bad);
	rec->id = up_get(&p, end, 8, &rec->bad);
	rec->cpu = up_get(&p, end, 4, &rec->bad);
	up_get(&p, end, 4, &rec->bad);
	/* Surplus bytes are as wrong as missing ones */
	if (p != end)
		rec->bad = true;
}

static void up_parse(struct up_ring *ring, struct up_rec *rec,
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

/* Move the records of the kernel into ring->recs; returns their number. */
size_t up_drain(struct up_ring *ring)
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

/* Discard the contents of the buffer. */
void up_reset(struct up_ring *ring)
{
	up_drain(ring);
	up_forget(ring);
}

size_t up_count(struct up_ring *ring, uint32_t type)
{
	size_t i, n = 0;

	for (i = 0; i < ring->nr_recs; i++)
		n += ring->recs[i].type == type;
	return n;
}

size_t up_count_bad(struct up_ring *ring)
{
	size_t i, n = 0;

	for (i = 0; i < ring->nr_recs; i++)
		n += ring->recs[i].bad;
	return n;
}

uint64_t up_count_lost(struct up_ring *ring)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < ring->nr_recs; i++)
		n += ring->recs[i].lost;
	return n;
}

size_t up_count_cookie(struct up_ring *ring, uint64_t cookie)
{
	size_t i, n = 0;

	for (i = 0; i < ring->nr_recs; i++)
		n += ring->recs[i].type == UT_RECORD_CALLCHAIN_DEFERRED &&
		     ring->recs[i].cookie == cookie;
	return n;
}

/* The nth record of a type, counted from 0, or NULL. */
struct up_rec *up_nth(struct up_ring *ring, uint32_t type, size_t n)
{
	size_t i;

	for (i = 0; i < ring->nr_recs; i++)
		if (ring->recs[i].type == type && !n--)
			return &ring->recs[i];
	return NULL;
}

struct up_rec *up_find_cookie(struct up_ring *ring, uint64_t cookie)
{
	size_t i;

	for (i = 0; i < ring->nr_recs; i++)
		if (ring->recs[i].type == UT_RECORD_CALLCHAIN_DEFERRED &&
		    ring->recs[i].cookie == cookie)
			return &ring->recs[i];
	return NULL;
}

/*
 * The record that has the user stack of a sample; NULL if there is not exactly one. In
 * place, that is the sample itself: a copy, until the next call.
 */
struct up_rec *up_answer(struct up_ring *ring, struct up_rec *sample)
{
	static struct up_rec own;

	if (in_place && sample && !sample->deferred) {
		own = *sample;
		own.nr = sample->nr_user;
		own.ips = sample->user;
		return &own;
	}
	if (in_place || !sample || !sample->deferred || !sample->cookie ||
	    up_count_cookie(ring, sample->cookie) != 1)
		return NULL;
	return up_find_cookie(ring, sample->cookie);
}

/* Compare frames one by one; on a difference print both sides. */
bool up_frames_equal(const uint64_t *seen, uint64_t nr_seen,
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
