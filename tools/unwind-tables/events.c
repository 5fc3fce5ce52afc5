// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings and ends of all processes, from an event that counts nothing: one on each CPU, with the
 * ring of its records.
 *
 * On some kernels it takes CAP_SYS_ADMIN to open them, and they have to be opened again when CPUs
 * come online. So separate processes do that, which do nothing else and look at nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hash.h"
#include "message.h"
#include "process.h"
#include "unwind-tables.h"

/* Of a ring; a record has about 130 bytes. Fewer if there may not be as many. */
#define MAX_RING_PAGES	64
#define MIN_RING_PAGES	4

/* More than the clock of events moves at once, on any machine */
#define TICK_NS		20000000

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

/* ------------------------------------------------------------------------ */
/* The process that opens events						      */

/* Where it has its socket */
#define SOCKET		3

/* How often a process that does not answer within a second is asked */
#define OPENER_TRIES	5

/* To it, from us */
static int opener = -1;

struct opened {
	int cpu;
	int error;
};

static int open_event(int cpu)
{
	struct perf_event_attr attr = {
		.size		= sizeof(attr),
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_DUMMY,
		/* To see whether it is still there */
		.read_format	= PERF_FORMAT_TOTAL_TIME_ENABLED,
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
	int fd;

	fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * There are two such processes, since nobody else could start another one: the second has the
 * socket, too, and takes over when the first has ended, if the service has not. Returns a pidfd of
 * the second, in the one that opens.
 */
static int have_successor(void)
{
	struct pollfd fds[2] = { { .fd = SOCKET }, { .events = POLLIN } };
	pid_t pid;

	for (;;) {
		fds[1].fd = syscall(SYS_pidfd_open, getpid(), 0);
		pid = fork();
		if (pid) {
			close(fds[1].fd);
			return pid < 0 ? -1 : syscall(SYS_pidfd_open, pid, 0);
		}
		while (poll(fds, 2, -1) < 0)
			;
		if (fds[0].revents)
			_exit(0);
		close(fds[1].fd);
	}
}

static void answer(void)
{
	struct opened opened;
	int fd, none;

	if (message_receive(SOCKET, &opened.cpu, sizeof(opened.cpu), &none) !=
	    sizeof(opened.cpu))
		_exit(0);
	fd = open_event(opened.cpu);
	opened.error = fd < 0 ? fd : 0;
	if (!message_send(SOCKET, &opened, sizeof(opened), fd))
		_exit(0);
	if (fd >= 0)
		close(fd);
}

static void be_opener(int sock)
{
	const __u64 needed = 1ull << CAP_PERFMON | 1ull << CAP_SYS_ADMIN;
	struct pollfd fds[2] = { { .fd = SOCKET, .events = POLLIN }, { .events = POLLIN } };
	int fd, i;

	/* The terminal's are for the service. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (dup2(sock, SOCKET) < 0)
		_exit(1);
	syscall(SYS_close_range, SOCKET + 1, ~0U, 0);
	/* The program that started the service may wait until these are closed. */
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (i = 0; i <= STDERR_FILENO; i++)
		if (fd < 0)
			close(i);
		else
			dup2(fd, i);
	close(fd);
	process_limit_capabilities(needed, needed);
	fds[1].fd = have_successor();
	for (;;) {
		if (poll(fds, 2, -1) > 0 && fds[0].revents)
			answer();
		if (!fds[1].revents)
			continue;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		close(fds[1].fd);
		fds[1].fd = have_successor();
	}
}

int events_start(void)
{
	const struct timeval second = { .tv_sec = 1 };
	int sockets[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	pid = fork();
	if (!pid)
		be_opener(sockets[1]);
	close(sockets[1]);
	opener = sockets[0];
	setsockopt(opener, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	return pid < 0 ? -errno : 0;
}

/* A process that was killed may have lost the request; a slow one may answer twice. */
static int have_opened(int cpu)
{
	struct opened opened;
	int fd, i;

	for (i = 0; i < OPENER_TRIES; i++) {
		if (!message_send(opener, &cpu, sizeof(cpu), -1))
			break;
		while (message_receive(opener, &opened, sizeof(opened), &fd) == sizeof(opened)) {
			/* There may be no room for it here. */
			if (opened.cpu == cpu)
				return opened.error ?: fd < 0 ? -EMFILE : fd;
			if (fd >= 0)
				close(fd);
		}
	}
	return -EPIPE;
}

/* ------------------------------------------------------------------------ */
/* Their rings								      */

static int ring_open(struct ring *ring, int cpu)
{
	size_t pages;
	int error;

	ring->fd = have_opened(cpu);
	if (ring->fd < 0)
		return ring->fd;
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

static __u64 time_enabled(const struct ring *ring)
{
	struct {
		__u64 value;
		__u64 enabled;
	} count = { };

	return read(ring->fd, &count, sizeof(count)) == sizeof(count) ? count.enabled : 0;
}

/*
 * When a CPU goes offline, perf takes its events off, and when it is online again, nothing puts
 * them back. poll() does not say so; but their time stands still.
 */
static bool is_off(const struct ring *ring)
{
	const struct timespec tick = { .tv_nsec = TICK_NS };
	__u64 before = time_enabled(ring);

	if (time_enabled(ring) != before)
		return false;
	nanosleep(&tick, NULL);
	return time_enabled(ring) == before;
}

bool events_outdated(const struct events *events)
{
	char online[sizeof(events->online)];
	int i;

	read_online(online, sizeof(online));
	if (strcmp(online, events->online))
		return true;
	for (i = 0; i < events->nr; i++)
		if (is_off(&events->rings[i]))
			return true;
	return false;
}

int events_nr(const struct events *events)
{
	return events->nr;
}

int events_fd(const struct events *events, int i)
{
	return events->rings[i].fd;
}

/* Nobody can make up a name whose key is that of somebody else's file. */
static __u64 key_of(const struct mmap_record *record)
{
	size_t room = record->header.size - sizeof(*record);
	const char *end = record->filename + strnlen(record->filename, room);

	return hash_bytes(&record->maj, end - (const char *)&record->maj);
}

/* A mapping, or one that mprotect() has changed. Without an inode it has no file. */
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
