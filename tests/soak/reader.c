// SPDX-License-Identifier: GPL-2.0
/*
 * reader SECONDS - record the whole system with deferred callchains, and account
 * for each record. Beside them, with callchains that are taken at the event: each of a
 * thread in user space must begin where it was.
 *
 * Each cookie of a sample must have exactly one PERF_RECORD_CALLCHAIN_DEFERRED,
 * of the same thread, that begins where the thread was in user space. At the end the
 * sampling events are disabled first; those for the records stay on for a while. A
 * cookie that has no record then is
 *
 *   waiting  nothing was seen of the thread: it is still in the kernel
 *   lost     as many as the buffers counted as lost, at most
 *   missing  the thread has been back in user space, or has exited
 *
 * Prints one "name number" a line and exits with 1 where they do not add up.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RECORD_DEFERRED		22
#define CONTEXT_USER_DEFERRED	((uint64_t)-640)
#define CONTEXT_USER		((uint64_t)PERF_CONTEXT_USER)
#define DEFER_CALLCHAIN		(1ULL << 38)
#define DEFER_OUTPUT		(1ULL << 39)
#define FLAGS			(offsetof(struct perf_event_attr, read_format) + 8)

#define MAX_CPUS		64
#define MAX_EVENTS		16
#define RING_PAGES		2048
/* How long the records may take, in seconds */
#define SETTLE			3
/*
 * Clocks of different CPUs may be apart by that, in ns; a thread that is seen outside
 * of the kernel later than that has left it.
 */
#define CLOCK_SLACK		200000000ULL
/*
 * The out-of-line slots of uprobes are in the last page but one of user space;
 * the walk shows the addresses that they replace.
 */
#define XOL_PAGE_47		0x7fffffffe000ULL
#define XOL_PAGE_56		0xffffffffffe000ULL
#define KERNEL			(1ULL << 56)
#define MAX_TIDS		(1 << 22)

enum {
	SAMPLES, DEFERRED, IN_PLACE, IN_PLACE_COMPARED, BARE, RECORDS, EMPTY, ANSWERED, OF_OTHERS,
	COMPARED, NOT_COMPARED, LOST, WAITING,
	BAD_MISSING, BAD_TWICE, BAD_THREAD, BAD_FRAMES, BAD_IN_PLACE, BAD_RECORD, NR_COUNTS
};

static const char *const count_names[NR_COUNTS] = {
	[SAMPLES] = "samples",
	[DEFERRED] = "samples_deferred",
	[IN_PLACE] = "samples_with_frames",
	[IN_PLACE_COMPARED] = "samples_with_frames_compared",
	[BARE] = "samples_without_user_part",
	[RECORDS] = "records",
	[EMPTY] = "records_without_frames",
	[ANSWERED] = "cookies_with_their_record",
	[OF_OTHERS] = "records_for_others",
	[COMPARED] = "first_frames_compared",
	[NOT_COMPARED] = "first_frames_not_compared",
	[LOST] = "lost_by_buffers",
	[WAITING] = "still_in_the_kernel",
	[BAD_MISSING] = "bad_missing",
	[BAD_TWICE] = "bad_twice",
	[BAD_THREAD] = "bad_other_thread",
	[BAD_FRAMES] = "bad_frames_of_another_context",
	[BAD_IN_PLACE] = "bad_first_frame_at_the_event",
	[BAD_RECORD] = "bad_record",
};

static unsigned long counts[NR_COUNTS];

/* A context */
struct cookie {
	uint64_t cookie;
	uint32_t sample_tid;
	uint32_t record_tid;
	/* Of the first sample */
	uint64_t time;
	/* Where samples saw the thread in user space, 0 if not known */
	uint64_t ip;
	uint64_t record_ip;
	uint32_t samples;
	uint32_t records;
};

static struct cookie *cookies;
static size_t nr_cookies, max_cookies;

/* By thread: when it was last seen outside of the kernel, or to exit */
static uint64_t *last_seen;

/* Of the first sample of all, with or without a callchain */
static uint64_t first_time;

static struct {
	int fds[MAX_EVENTS];
	int nr;
	struct perf_event_mmap_page *page;
} cpus[MAX_CPUS];
static int nr_cpus;

static int details = 20;

static void die(const char *what)
{
	fprintf(stderr, "reader: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void tell(const char *what, const struct cookie *cookie)
{
	if (details-- <= 0)
		return;
	printf("# %s: cookie %llx, %u samples of thread %u at %llx, %u records of thread %u that begin at %llx\n",
	       what, (unsigned long long)cookie->cookie, cookie->samples,
	       cookie->sample_tid, (unsigned long long)cookie->ip, cookie->records,
	       cookie->record_tid, (unsigned long long)cookie->record_ip);
}

static struct cookie *place(struct cookie *table, size_t size, uint64_t cookie)
{
	size_t i = (cookie * 0x9e3779b97f4a7c15ULL) >> 20;

	for (;; i++) {
		struct cookie *entry = &table[i & (size - 1)];

		if (!entry->cookie || entry->cookie == cookie)
			return entry;
	}
}

static struct cookie *find(uint64_t cookie)
{
	struct cookie *table, *entry;
	size_t size, i;

	if (2 * nr_cookies >= max_cookies) {
		size = max_cookies ? 2 * max_cookies : 1 << 16;
		table = calloc(size, sizeof(*table));
		if (!table)
			die("no memory");
		for (i = 0; i < max_cookies; i++) {
			if (cookies[i].cookie)
				*place(table, size, cookies[i].cookie) = cookies[i];
		}
		free(cookies);
		cookies = table;
		max_cookies = size;
	}
	entry = place(cookies, max_cookies, cookie);
	if (!entry->cookie) {
		entry->cookie = cookie;
		nr_cookies++;
	}
	return entry;
}

static void seen(uint32_t tid, uint64_t time)
{
	if (tid < MAX_TIDS && last_seen[tid] < time)
		last_seen[tid] = time;
}

/* IP, TID, TIME, CPU, CALLCHAIN, all of them events of the same sample type */
struct sample {
	struct perf_event_header header;
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, res;
	uint64_t nr;
	uint64_t ips[];
};

struct deferred {
	struct perf_event_header header;
	uint64_t cookie;
	uint64_t nr;
	uint64_t ips[];
};

struct sample_id {
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, res;
};

struct lost {
	struct perf_event_header header;
	uint64_t id;
	uint64_t lost;
};

struct task {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
};

static bool in_user_space(uint16_t misc)
{
	return (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
}

static bool in_uprobe(uint64_t ip)
{
	uint64_t page = ip & ~0xfffULL;

	return page == XOL_PAGE_47 || page == XOL_PAGE_56;
}

/* A sample whose user part, from @ips[@first] on, was taken at the event */
static void take_in_place(const struct sample *sample, uint64_t first)
{
	counts[IN_PLACE]++;
	if (first == sample->nr || !in_user_space(sample->header.misc) ||
	    sample->ip >= KERNEL || in_uprobe(sample->ip))
		return;
	counts[IN_PLACE_COMPARED]++;
	if (sample->ips[first] == sample->ip)
		return;
	counts[BAD_IN_PLACE]++;
	if (details-- > 0)
		printf("# first frame: sample of thread %u at %llx has %llx\n", sample->tid,
		       (unsigned long long)sample->ip, (unsigned long long)sample->ips[first]);
}

static void take_sample(const struct sample *sample)
{
	struct cookie *cookie;
	bool user = in_user_space(sample->header.misc);
	uint64_t i;

	if (sample->header.size < sizeof(*sample) ||
	    sample->header.size != sizeof(*sample) + sample->nr * 8) {
		counts[BAD_RECORD]++;
		return;
	}
	if (!first_time || sample->time < first_time)
		first_time = sample->time;
	if (user)
		seen(sample->tid, sample->time);
	/* A sample that only shows which thread is in user space */
	if (!sample->nr)
		return;

	counts[SAMPLES]++;
	if (sample->nr < 2 || sample->ips[sample->nr - 2] != CONTEXT_USER_DEFERRED) {
		for (i = 0; i < sample->nr && sample->ips[i] != CONTEXT_USER; i++) {
			if (sample->ips[i] == CONTEXT_USER_DEFERRED)
				counts[BAD_RECORD]++;
		}
		if (i < sample->nr)
			take_in_place(sample, i + 1);
		else
			counts[BARE]++;
		return;
	}

	counts[DEFERRED]++;
	cookie = find(sample->ips[sample->nr - 1]);
	if (!cookie->samples++) {
		cookie->sample_tid = sample->tid;
		cookie->time = sample->time;
	} else if (cookie->sample_tid != sample->tid) {
		counts[BAD_THREAD]++;
		tell("samples of two threads", cookie);
	}
	if (user && sample->ip < KERNEL)
		cookie->ip = sample->ip;
}

static void take_deferred(const struct deferred *rec)
{
	const struct sample_id *id;
	struct cookie *cookie;

	if (rec->header.size < sizeof(*rec) + sizeof(*id) || !rec->cookie ||
	    rec->header.size != sizeof(*rec) + rec->nr * 8 + sizeof(*id)) {
		counts[BAD_RECORD]++;
		return;
	}
	id = (const void *)&rec->ips[rec->nr];

	counts[RECORDS]++;
	if (!rec->nr)
		counts[EMPTY]++;
	cookie = find(rec->cookie);
	if (cookie->records++) {
		counts[BAD_TWICE]++;
		tell("two records", cookie);
	}
	cookie->record_tid = id->tid;
	cookie->record_ip = rec->nr ? rec->ips[0] : 0;
}

static void take(const struct perf_event_header *header)
{
	const struct task *task = (const void *)header;

	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		take_sample((const void *)header);
		break;
	case RECORD_DEFERRED:
		take_deferred((const void *)header);
		break;
	case PERF_RECORD_LOST:
		counts[LOST] += ((const struct lost *)header)->lost;
		break;
	case PERF_RECORD_EXIT:
		/* Long after anything that it was asked in its life */
		seen(task->tid, task->time + 2 * CLOCK_SLACK);
		break;
	}
}

static bool drain(int cpu)
{
	static char copy[1 << 16] __attribute__((aligned(8)));
	struct perf_event_mmap_page *page = cpus[cpu].page;
	char *data = (char *)page + sysconf(_SC_PAGESIZE);
	size_t size = RING_PAGES * sysconf(_SC_PAGESIZE);
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = page->data_tail;
	bool any = head != tail;
	size_t first;

	while (tail != head) {
		struct perf_event_header *header = (void *)(data + tail % size);

		first = size - tail % size;
		if (header->size > first) {
			size_t whole = header->size;

			memcpy(copy, header, first);
			memcpy(copy + first, data, whole - first);
			header = (void *)copy;
		}
		take(header);
		tail += header->size;
	}
	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
	return any;
}

static void drain_for(double seconds)
{
	struct timespec begin, now;
	bool any;
	int cpu;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (any = false, cpu = 0; cpu < nr_cpus; cpu++)
			any |= drain(cpu);
		if (!any)
			usleep(20000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
}

static int tracepoint(const char *name)
{
	char path[256];
	FILE *file;
	int id = -1;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/%s/id", name);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%d", &id) != 1)
		die(path);
	fclose(file);
	return id;
}

/* Open an event on each CPU, with callchains or without. Returns its number there. */
static int event(uint32_t type, uint64_t config, uint64_t period, uint64_t bits, bool chain)
{
	struct perf_event_attr attr = {
		.type = type, .size = sizeof(attr), .config = config,
		.sample_period = period, .disabled = 1, .sample_id_all = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU | PERF_SAMPLE_CALLCHAIN,
		.exclude_callchain_kernel = 1,
	};
	int cpu, fd, nr = cpus[0].nr;
	uint64_t flags;

	if (bits & DEFER_OUTPUT)
		attr.task = 1;
	if (!chain)
		attr.exclude_callchain_user = attr.exclude_kernel = 1;
	/* Bits that have no names in this C library's headers, after read_format */
	memcpy(&flags, (char *)&attr + FLAGS, sizeof(flags));
	flags |= bits;
	memcpy((char *)&attr + FLAGS, &flags, sizeof(flags));

	for (cpu = 0; cpu < nr_cpus; cpu++) {
		fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		if (fd < 0)
			die("perf_event_open");
		if (!nr) {
			cpus[cpu].page = mmap(NULL, (RING_PAGES + 1) * sysconf(_SC_PAGESIZE),
					      PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			if (cpus[cpu].page == MAP_FAILED)
				die("mmap");
		} else if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, cpus[cpu].fds[0])) {
			die("PERF_EVENT_IOC_SET_OUTPUT");
		}
		cpus[cpu].fds[cpus[cpu].nr++] = fd;
	}
	return nr;
}

static void switch_event(int nr, unsigned long how)
{
	int cpu;

	for (cpu = 0; cpu < nr_cpus; cpu++) {
		if (ioctl(cpus[cpu].fds[nr], how, 0))
			die("ioctl");
	}
}

static void judge(const struct cookie *cookie, unsigned long *missing)
{
	if (!cookie->samples) {
		counts[OF_OTHERS]++;
		return;
	}
	if (!cookie->records) {
		if (cookie->sample_tid < MAX_TIDS &&
		    last_seen[cookie->sample_tid] > cookie->time + CLOCK_SLACK) {
			++*missing;
			tell("no record", cookie);
			if (details >= 0)
				printf("# sampled %.6f s after the first sample, and its thread was seen until %.6f s\n",
				       (cookie->time - first_time) / 1e9,
				       (last_seen[cookie->sample_tid] - first_time) / 1e9);
		} else {
			counts[WAITING]++;
		}
		return;
	}
	counts[ANSWERED]++;
	if (cookie->sample_tid != cookie->record_tid) {
		counts[BAD_THREAD]++;
		tell("record of another thread", cookie);
	}
	if (!cookie->ip || !cookie->record_ip || in_uprobe(cookie->ip)) {
		counts[NOT_COMPARED]++;
	} else {
		counts[COMPARED]++;
		if (cookie->ip != cookie->record_ip) {
			counts[BAD_FRAMES]++;
			tell("other frames", cookie);
		}
	}
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 10;
	int holder, witness, nr, i;
	unsigned long missing = 0;
	bool bad = false;
	size_t at;

	nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (nr_cpus > MAX_CPUS)
		nr_cpus = MAX_CPUS;
	last_seen = calloc(MAX_TIDS, sizeof(*last_seen));
	if (!last_seen)
		die("no memory");

	holder = event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0, DEFER_OUTPUT, true);
	witness = event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 4000000, 0, false);
	event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1000000, DEFER_CALLCHAIN, true);
	event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 3, DEFER_CALLCHAIN, true);
	event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 1, DEFER_CALLCHAIN, true);
	event(PERF_TYPE_TRACEPOINT, tracepoint("raw_syscalls/sys_enter"), 11, DEFER_CALLCHAIN, true);
	event(PERF_TYPE_TRACEPOINT, tracepoint("raw_syscalls/sys_exit"), 13, DEFER_CALLCHAIN, true);
	event(PERF_TYPE_TRACEPOINT, tracepoint("signal/signal_deliver"), 1, DEFER_CALLCHAIN, true);
	event(PERF_TYPE_TRACEPOINT, tracepoint("sched/sched_process_exec"), 1, DEFER_CALLCHAIN, true);
	/* At the event */
	event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1500000, 0, true);
	event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 5, 0, true);
	event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 3, 0, true);
	event(PERF_TYPE_TRACEPOINT, tracepoint("raw_syscalls/sys_enter"), 17, 0, true);
	nr = cpus[0].nr;

	for (i = 0; i < nr; i++)
		switch_event(i, PERF_EVENT_IOC_ENABLE);
	drain_for(seconds);
	for (i = 0; i < nr; i++) {
		if (i != holder && i != witness)
			switch_event(i, PERF_EVENT_IOC_DISABLE);
	}
	drain_for(SETTLE);
	switch_event(witness, PERF_EVENT_IOC_DISABLE);
	/* Records after the last one that it has seen are in a buffer by then. */
	drain_for(0.5);
	switch_event(holder, PERF_EVENT_IOC_DISABLE);
	drain_for(0);

	for (at = 0; at < max_cookies; at++) {
		if (cookies[at].cookie)
			judge(&cookies[at], &missing);
	}
	if (missing > counts[LOST])
		counts[BAD_MISSING] = missing;
	for (i = 0; i < NR_COUNTS; i++) {
		printf("%s %lu\n", count_names[i], counts[i]);
		bad |= i >= BAD_MISSING && counts[i];
	}
	return bad;
}
