// SPDX-License-Identifier: GPL-2.0
/*
 * Shared by the tests of the perf ABI.
 */
#include "perf_abi.h"

struct up_ring rings[MAX_RINGS];
int nr_rings;

static long long max_stack;
static long long max_contexts;

const char *need_abi(void)
{
	if (need_perf_deferred())
		return need_perf_deferred();
	if (need_tracepoint("raw_syscalls", "sys_enter"))
		return need_tracepoint("raw_syscalls", "sys_enter");
	return need_tracepoint("raw_syscalls", "sys_exit");
}

void abi_begin(void)
{
	max_stack = up_read_number(SYSCTL_MAX_STACK);
	max_contexts = up_read_number(SYSCTL_MAX_CONTEXTS);
}

void abi_end(void)
{
	while (nr_rings)
		up_close(&rings[--nr_rings]);
	if (up_read_number(SYSCTL_MAX_STACK) != max_stack)
		up_write_number(SYSCTL_MAX_STACK, max_stack);
	if (up_read_number(SYSCTL_MAX_CONTEXTS) != max_contexts)
		up_write_number(SYSCTL_MAX_CONTEXTS, max_contexts);
}

/* ------------------------------------------------------------------------ */
/* Attributes								      */

void attr_tracepoint(struct perf_event_attr *attr, const char *system, const char *name,
		     uint64_t bits)
{
	up_attr_init(attr, PERF_TYPE_TRACEPOINT, tracepoint_id(system, name), bits);
	attr->exclude_callchain_kernel = 1;
}

void attr_enter(struct perf_event_attr *attr, uint64_t bits)
{
	attr_tracepoint(attr, "raw_syscalls", "sys_enter", bits);
}

void attr_exit(struct perf_event_attr *attr, uint64_t bits)
{
	attr_tracepoint(attr, "raw_syscalls", "sys_exit", bits);
}

void attr_fault(struct perf_event_attr *attr, uint64_t bits)
{
	up_attr_init(attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, bits);
	attr->exclude_callchain_kernel = 1;
	attr->exclude_kernel = 1;
}

/* An event that does nothing but hold records. */
void attr_holder(struct perf_event_attr *attr)
{
	up_attr_init(attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, OUTPUT);
	attr->sample_type &= ~PERF_SAMPLE_CALLCHAIN;
	attr->disabled = 0;
}

/* ------------------------------------------------------------------------ */
/* Events								      */

struct up_ring *open_ring(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	struct up_ring *ring = &rings[nr_rings];
	int ret;

	if (nr_rings == MAX_RINGS)
		abort();
	ret = up_open(ring, attr, pid, cpu, -1);
	if (ret) {
		fprintf(stderr, "# event %d cannot be opened: %d\n", nr_rings, ret);
		ring->fd = -1;
	}
	nr_rings++;
	return ring;
}

static int set_filter_args(struct up_ring *ring, const char *fmt, va_list args)
{
	char filter[128];

	vsnprintf(filter, sizeof(filter), fmt, args);
	return ioctl(ring->fd, PERF_EVENT_IOC_SET_FILTER, filter) ? -errno : 0;
}

int set_filter(struct up_ring *ring, const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = set_filter_args(ring, fmt, args);
	va_end(args);
	return ret;
}

/* One filter for all events */
int set_filter_all(const char *fmt, ...)
{
	va_list args;
	int i, ret = 0;

	for (i = 0; i < nr_rings && !ret; i++) {
		va_start(args, fmt);
		ret = set_filter_args(&rings[i], fmt, args);
		va_end(args);
	}
	return ret;
}

/* A tracepoint event of this task, filtered for one system call. */
struct up_ring *open_syscall(struct perf_event_attr *attr, long nr)
{
	struct up_ring *ring = open_ring(attr, 0, -1);

	if (ring->fd >= 0 && set_filter(ring, "id == %ld", nr)) {
		fprintf(stderr, "# event %d takes no filter\n", nr_rings - 1);
		up_close(ring);
	}
	return ring;
}

struct up_ring *open_enter(long nr, uint64_t bits)
{
	struct perf_event_attr attr;

	attr_enter(&attr, bits);
	return open_syscall(&attr, nr);
}

struct up_ring *open_exit(long nr, uint64_t bits)
{
	struct perf_event_attr attr;

	attr_exit(&attr, bits);
	return open_syscall(&attr, nr);
}

struct up_ring *open_holder(pid_t pid, int cpu)
{
	struct perf_event_attr attr;

	attr_holder(&attr);
	return open_ring(&attr, pid, cpu);
}

/*
 * An event of this task, of the group of @group, which puts its records into the buffer
 * of @ring: of the system call @nr, or if that is -1, without a filter. Returns its fd,
 * or -errno.
 */
int open_into(struct up_ring *ring, struct perf_event_attr *attr, int group, long nr)
{
	int fd = perf_open(attr, 0, -1, group, 0);
	char filter[32];

	if (fd < 0)
		return fd;
	snprintf(filter, sizeof(filter), "id == %ld", nr);
	if (!ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) &&
	    (nr < 0 || !ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter)))
		return fd;
	close(fd);
	return -errno;
}

/* An inherited event of this task and its children on each CPU. */
void open_inherited(struct perf_event_attr *attr)
{
	int i;

	attr->inherit = 1;
	for (i = 0; i < MAX_CPUS && nth_cpu(i) >= 0; i++)
		open_ring(attr, 0, nth_cpu(i));
}

/* False if one is not there. */
bool enable_all(void)
{
	bool ok = true;
	int i;

	for (i = 0; i < nr_rings; i++)
		ok &= !up_enable(&rings[i]);
	return ok;
}

/* Stop all, and read their buffers. False if one is missing, or has nonsense in it. */
bool drain_all(void)
{
	bool ok = true;
	int i;

	for (i = 0; i < nr_rings; i++)
		ok &= !up_disable(&rings[i]);
	for (i = 0; i < nr_rings; i++) {
		if (rings[i].fd < 0)
			continue;
		up_drain(&rings[i]);
		if (up_count_bad(&rings[i])) {
			fprintf(stderr, "# event %d holds %zu bad records\n", i,
				up_count_bad(&rings[i]));
			ok = false;
		}
	}
	return ok;
}

/* ------------------------------------------------------------------------ */
/* Samples and records							      */

size_t count_samples(struct up_ring *ring)
{
	return up_count(ring, PERF_RECORD_SAMPLE);
}

size_t count_records(struct up_ring *ring)
{
	return up_count(ring, UT_RECORD_CALLCHAIN_DEFERRED);
}

struct up_rec *sample_nr(struct up_ring *ring, size_t n)
{
	return up_nth(ring, PERF_RECORD_SAMPLE, n);
}

struct up_rec *record_nr(struct up_ring *ring, size_t n)
{
	return up_nth(ring, UT_RECORD_CALLCHAIN_DEFERRED, n);
}

/* The one record of @holder that answers a deferred sample; NULL if none does. */
struct up_rec *answer_to(struct up_rec *sample, struct up_ring *holder)
{
	struct up_rec *rec;

	if (!sample || !sample->deferred || sample->has_user || !sample->cookie) {
		fprintf(stderr, "# %s\n", sample ? "not deferred" : "no sample");
		return NULL;
	}
	if (up_count_cookie(holder, sample->cookie) != 1) {
		fprintf(stderr, "# cookie %#llx has %zu records\n",
			(unsigned long long)sample->cookie,
			up_count_cookie(holder, sample->cookie));
		return NULL;
	}
	rec = up_find_cookie(holder, sample->cookie);
	if (sample->pid != rec->pid || sample->tid != rec->tid) {
		fprintf(stderr, "# sample of %u/%u, record of %u/%u\n", sample->pid,
			sample->tid, rec->pid, rec->tid);
		return NULL;
	}
	return rec;
}

/* Is that a sample which has exactly these frames in itself? */
bool has_frames(struct up_rec *sample, const uint64_t *ips, uint64_t nr)
{
	return sample && !sample->deferred && sample->has_user &&
	       up_frames_equal(sample->user, sample->nr_user, ips, nr);
}

/* Is that a sample whose answer has exactly these frames? */
bool is_answered(struct up_rec *sample, struct up_ring *holder, const uint64_t *ips,
		 uint64_t nr)
{
	struct up_rec *rec = answer_to(sample, holder);

	return rec && up_frames_equal(rec->ips, rec->nr, ips, nr);
}

/* With the stack of a chain_syscall() */
bool has_chain(struct up_rec *sample, struct up_ring *holder)
{
	return is_answered(sample, holder, chain_frames, CHAIN_NR);
}

bool has_chain_in_place(struct up_rec *sample)
{
	return has_frames(sample, chain_frames, CHAIN_NR);
}

/*
 * The samples of @tid in all buffers, each with one record in all buffers, which
 * is the stack of a chain_syscall(). Returns their number, or -1.
 */
int count_answered(__u32 tid)
{
	int i, j, samples = 0;
	struct up_rec *sample;
	size_t n;

	for (i = 0; i < nr_rings; i++) {
		for (n = 0; (sample = sample_nr(&rings[i], n)); n++) {
			struct up_ring *holder = NULL;

			if (sample->tid != tid)
				continue;
			samples++;
			for (j = 0; j < nr_rings; j++) {
				if (!up_find_cookie(&rings[j], sample->cookie))
					continue;
				if (holder)
					return -1;
				holder = &rings[j];
			}
			if (!holder || !has_chain(sample, holder))
				return -1;
		}
	}
	return samples;
}

void getppid_from_chain(void)
{
	chain0(SYS_getppid);
}

/* Calls of getppid() with all events on. False as for enable_all() and drain_all(). */
bool sample_getppid(int times)
{
	if (!enable_all())
		return false;
	while (times--)
		getppid_from_chain();
	return drain_all();
}
