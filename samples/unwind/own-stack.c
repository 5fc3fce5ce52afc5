// SPDX-License-Identifier: GPL-2.0
/*
 * A program looks at its own stack: one perf event of its own, one sample, and
 * the deferred callchain for it. It does the same as "perf record --call-graph
 * fp,defer", reduced to a single sample at a known place.
 *
 * See Documentation/userspace-api/perf-deferred-callchains.rst.
 */

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "own-stack.h"

/* Pages of the buffer that the kernel writes records to: 2^n, and one in front */
#define RING_PAGES	8

/* Needs no privileges, as the event counts in user mode only. */
struct sample {
	struct perf_event_header	header;
	__u64				addr;
	__u64				nr;
	__u64				ips[];
};

struct deferred {
	struct perf_event_header	header;
	__u64				cookie;
	__u64				nr;
	__u64				ips[];
};

struct own_stack own_stack;

static int open_event(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_ADDR | PERF_SAMPLE_CALLCHAIN,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.defer_callchain = 1,
		.defer_output = 1,
	};

	return syscall(__NR_perf_event_open, &attr, 0, -1, -1,
		       PERF_FLAG_FD_CLOEXEC);
}

/* The cookie of a sample whose callchain follows, or 0. */
static __u64 cookie_of(const struct sample *sample)
{
	if (sample->nr < 2 ||
	    sample->ips[sample->nr - 2] != (__u64)PERF_CONTEXT_USER_DEFERRED)
		return 0;
	return sample->ips[sample->nr - 1];
}

static void keep(const struct deferred *deferred)
{
	own_stack.nr = deferred->nr < OWN_STACK_MAX ? deferred->nr : OWN_STACK_MAX;
	memcpy(own_stack.ips, deferred->ips, own_stack.nr * sizeof(__u64));
}

/*
 * The event is new, so the first record is at the start of the buffer, and the
 * few records have not wrapped around. Pages that are touched for the first time
 * by chance are sampled as well.
 */
static int read_records(const void *ring, size_t page_size, const void *addr)
{
	const struct perf_event_mmap_page *control = ring;
	const char *data = (const char *)ring + page_size;
	__u64 at, head, cookie = 0;

	head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
	if (head > RING_PAGES * page_size)
		return -EOVERFLOW;

	for (at = 0; at < head; ) {
		const void *record = data + at;
		const struct perf_event_header *header = record;
		const struct sample *sample = record;
		const struct deferred *deferred = record;

		if (header->type == PERF_RECORD_SAMPLE &&
		    sample->addr == (unsigned long)addr) {
			cookie = cookie_of(sample);
		} else if (header->type == PERF_RECORD_CALLCHAIN_DEFERRED &&
			   cookie && deferred->cookie == cookie) {
			keep(deferred);
			return 0;
		}
		at += header->size;
	}
	return -ENODATA;
}

/*
 * Touch a page that is not there yet: an event at exactly this place. The kernel
 * puts the callchain into the buffer before it goes on with the program.
 */
void own_stack_take(void)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	size_t ring_size = (1 + RING_PAGES) * page_size;
	char *ring, *page;
	int fd;

	own_stack.nr = 0;
	own_stack.error = 0;

	fd = open_event();
	if (fd < 0) {
		own_stack.error = -errno;
		return;
	}
	ring = mmap(NULL, ring_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	page = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ring == MAP_FAILED || page == MAP_FAILED) {
		own_stack.error = -errno;
	} else {
		ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
		__atomic_store_n(page, 1, __ATOMIC_RELAXED);
		ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
		own_stack.error = read_records(ring, page_size, page);
	}

	if (ring != MAP_FAILED)
		munmap(ring, ring_size);
	if (page != MAP_FAILED)
		munmap(page, page_size);
	close(fd);
}
