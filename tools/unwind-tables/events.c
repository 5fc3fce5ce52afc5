// SPDX-License-Identifier: GPL-2.0
/*
 * What all processes map, and that they end, by an event that counts nothing: one on
 * each CPU, with the ring of its records.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unwind-tables.h"

/* Of a ring; a record has about 130 bytes. Fewer if there may not be as many. */
#define MAX_RING_PAGES	64
#define MIN_RING_PAGES	4

#define ONLINE		"/sys/devices/system/cpu/online"

struct ring {
	int fd;
	struct perf_event_mmap_page *meta;
	size_t size;	/* of the data, after the first page */
};

struct events {
	char online[4096];
	int nr;
	struct ring rings[];
};

/* As linux/perf_event.h describes PERF_RECORD_MMAP2 */
struct mmap_record {
	struct perf_event_header header;
	__u32 pid, tid;
	__u64 addr, len, pgoff;
	__u32 maj, min;
	__u64 ino, ino_generation;
	__u32 prot, flags;
	char filename[];
};

static void read_online(char *text, size_t size)
{
	ssize_t len = -1;
	int fd;

	fd = open(ONLINE, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		len = read(fd, text, size - 1);
		close(fd);
	}
	text[len < 0 ? 0 : len] = '\0';
}

static size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static void ring_close(struct ring *ring)
{
	munmap(ring->meta, page_size() + ring->size);
	close(ring->fd);
}

static int ring_open(struct ring *ring, int cpu)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_DUMMY,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		/* Executable mappings; others would be mmap_data */
		.mmap		= 1,
		.mmap2		= 1,
		/* Ends of processes */
		.task		= 1,
		/* Wake us at once. */
		.watermark	= 1,
		.wakeup_watermark = 1,
	};
	size_t pages;
	int error;

	ring->fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1,
			   PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0)
		return -errno;
	for (pages = MAX_RING_PAGES; pages >= MIN_RING_PAGES; pages /= 2) {
		ring->size = pages * page_size();
		ring->meta = mmap(NULL, page_size() + ring->size,
				  PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
		if (ring->meta != MAP_FAILED)
			return 0;
	}
	error = -errno;
	close(ring->fd);
	return error;
}

void events_close(struct events *events)
{
	int i;

	if (!events)
		return;
	for (i = 0; i < events->nr; i++)
		ring_close(&events->rings[i]);
	free(events);
}

int events_open(struct events **eventsp)
{
	int cpu, nr_cpus = sysconf(_SC_NPROCESSORS_CONF), error = -ENODEV;
	struct events *events;

	events = calloc(1, sizeof(*events) + nr_cpus * sizeof(events->rings[0]));
	if (!events)
		return -ENOMEM;
	/* First, so that a change after this is noticed */
	read_online(events->online, sizeof(events->online));
	for (cpu = 0; cpu < nr_cpus; cpu++) {
		error = ring_open(&events->rings[events->nr], cpu);
		/* It is offline. */
		if (error == -ENODEV)
			continue;
		if (error) {
			events_close(events);
			return error;
		}
		events->nr++;
	}
	if (!events->nr) {
		events_close(events);
		return -ENODEV;
	}
	*eventsp = events;
	return 0;
}

bool events_outdated(const struct events *events)
{
	char online[sizeof(events->online)];

	read_online(online, sizeof(online));
	return strcmp(online, events->online);
}

int events_nr(const struct events *events)
{
	return events->nr;
}

int events_fd(const struct events *events, int i)
{
	return events->rings[i].fd;
}

/* FNV-1a */
static __u64 hash(__u64 hash, const void *data, size_t len)
{
	const unsigned char *byte = data;

	while (len--)
		hash = (hash ^ *byte++) * 0x100000001b3;
	return hash;
}

static __u64 key_of(const struct mmap_record *record)
{
	size_t room = record->header.size - sizeof(*record);
	__u64 key = 0xcbf29ce484222325;

	key = hash(key, &record->maj, (char *)&record->prot - (char *)&record->maj);
	return hash(key, record->filename, strnlen(record->filename, room));
}

/* A mapping, or what mprotect() has made of one. Without an inode it has no file. */
static void see_mapping(const struct mmap_record *record, events_mapping_t mapped,
			void *arg)
{
	if ((record->prot & PROT_EXEC) && record->ino)
		mapped(arg, record->pid, record->addr, key_of(record));
}

static void see(const struct perf_event_header *header, events_mapping_t mapped,
		void *arg, struct events_seen *seen)
{
	switch (header->type) {
	case PERF_RECORD_LOST:
		seen->lost = true;
		break;
	case PERF_RECORD_EXIT:
		seen->exited = true;
		break;
	case PERF_RECORD_MMAP2:
		if (header->size >= sizeof(struct mmap_record))
			see_mapping((const void *)header, mapped, arg);
		break;
	default:
		break;
	}
}

static void copy(void *to, const struct ring *ring, __u64 pos, size_t len)
{
	const char *data = (char *)ring->meta + page_size();
	size_t start = pos & (ring->size - 1), first = len;

	if (first > ring->size - start)
		first = ring->size - start;
	memcpy(to, data + start, first);
	memcpy((char *)to + first, data, len - first);
}

static void ring_read(struct ring *ring, events_mapping_t mapped, void *arg,
		      struct events_seen *seen)
{
	static union {
		struct perf_event_header header;
		char bytes[1 << 16];
	} record;
	__u64 head, tail = ring->meta->data_tail;

	/* Pairs with the barrier of perf_output_put_handle(). */
	head = __atomic_load_n(&ring->meta->data_head, __ATOMIC_ACQUIRE);
	while (tail != head) {
		copy(&record, ring, tail, sizeof(record.header));
		/* That would be a mistake of the kernel. Do not turn for ever. */
		if (record.header.size < sizeof(record.header)) {
			seen->lost = true;
			__atomic_store_n(&ring->meta->data_tail, head,
					 __ATOMIC_RELEASE);
			break;
		}
		copy(&record, ring, tail, record.header.size);
		tail += record.header.size;
		/* Free before it is dealt with, which may take a while. */
		__atomic_store_n(&ring->meta->data_tail, tail, __ATOMIC_RELEASE);
		see(&record.header, mapped, arg, seen);
	}
}

void events_read(struct events *events, events_mapping_t mapped, void *arg,
		 struct events_seen *seen)
{
	int i;

	for (i = 0; i < events->nr; i++)
		ring_read(&events->rings[i], mapped, arg, seen);
}
