// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of closing a socket, whose inode might have a table, while very many files are
 * mapped: each a file of tmpfs with one page of code, in which the task is sampled. Run it
 * in a guest that counts instructions as time.
 *
 * files NUMBER prints instructions of a socket() and close(), of which most are the base's:
 *
 *	closed		nobody has the device open
 *	open		somebody has
 *	mapped		and the files are mapped, and have been sampled
 *	tables		and as many of them as possible have tables
 *	after		the device is closed again, the files are still mapped
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <linux/unwind_table.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

#define PAGE		4096UL
#define RING_PAGES	64
#define ROUNDS		20000
#define MAX_TABLES	65536
#define DIR		"/tmp/mapped"

static const struct timespec long_ago[2] = { { 1000000000, 1 }, { 1000000000, 1 } };
static struct perf_event_mmap_page *ring;
static uint64_t records;

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		err(1, "%s", path);
	close(fd);
}

static void sockets(const char *what)
{
	uint64_t start = 0;
	int i;

	for (i = -100; i < ROUNDS; i++) {
		if (!i)
			start = now();
		close(socket(AF_UNIX, SOCK_STREAM, 0));
	}
	printf("%s %llu\n", what, (unsigned long long)(now() - start) / ROUNDS);
	fflush(stdout);
}

static void open_event(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = tracepoint(),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_CALLCHAIN,
		.exclude_callchain_kernel = 1,
	};
	int event;

	*ATTR_BITS(&attr) |= DEFER_CALLCHAIN | DEFER_OUTPUT;
	event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (event < 0 || ioctl(event, PERF_EVENT_IOC_SET_FILTER, "id == 110"))
		err(1, "perf_event_open");
	ring = mmap(NULL, (RING_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
	if (ring == MAP_FAILED)
		err(1, "mmap of the ring buffer");
}

/* A file with a function that calls getppid(), mapped */
static void *make_file(unsigned int nr)
{
	static const uint8_t code[] = {
		0x55, 0x48, 0x89, 0xe5,		/* push %rbp; mov %rsp, %rbp */
		0xb8, 110, 0, 0, 0,		/* mov $110, %eax */
		0x0f, 0x05, 0x5d, 0xc3 };	/* syscall; pop %rbp; ret */
	char path[64];
	void *mem;
	int fd;

	/* Large directories of tmpfs are lists. */
	snprintf(path, sizeof(path), DIR "/%u/%u", nr / 1000, nr % 1000);
	fd = open(path, O_WRONLY | O_CREAT, 0700);
	if (fd < 0 || write(fd, code, sizeof(code)) != sizeof(code) || ftruncate(fd, PAGE) ||
	    futimens(fd, long_ago))
		err(1, "%s", path);
	close(fd);
	fd = open(path, O_RDONLY);
	mem = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (mem == MAP_FAILED)
		err(1, "mmap of %s", path);
	close(fd);
	return mem;
}

static void map_files(void **files, unsigned int nr)
{
	unsigned int i;
	char dir[64];

	for (i = 0; i < nr; i++) {
		if (i % 1000 == 0) {
			snprintf(dir, sizeof(dir), DIR "/%u", i / 1000);
			mkdir(dir, 0700);
		}
		files[i] = make_file(i);
		((void (*)(void))files[i])();
		records += ring->data_head != ring->data_tail;
		ring->data_tail = ring->data_head;
	}
}

/* The smallest possible table: one page without known code */
static int make_table(int device)
{
	struct {
		struct unwind_table_header	header;
		struct unwind_table_run		run;
		uint32_t			blocks[2];
		struct unwind_table_row		row;
		struct unwind_table_rule	rule;
	} __attribute__((packed)) table = {
		.header = { .magic = UNWIND_TABLE_MAGIC, .version = UNWIND_TABLE_VERSION,
			    .machine = 62, .word_size = 8, .nr_runs = 1, .nr_pages = 1,
			    .nr_rows = 1, .nr_rules = 1,
			    .block_shift = UNWIND_TABLE_MAX_BLOCK_SHIFT },
		.run = { .nr_pages = 1 },
		.rule = { .kind = UNWIND_TABLE_UNKNOWN },
	};
	struct unwind_table_make make = {
		.size = sizeof(make), .data = (uint64_t)&table, .len = sizeof(table) };
	int nr = ioctl(device, UNWIND_TABLE_MAKE, &make);

	if (nr < 0)
		err(1, "UNWIND_TABLE_MAKE");
	return nr;
}

static int attach(int device, int table, int pidfd, void *mem, unsigned int nr)
{
	struct unwind_table_attach attach = {
		.size = sizeof(attach), .flags = UNWIND_TABLE_ATTACH_FD, .table = table,
		.address = (uint64_t)mem, .pidfd = pidfd, .file_size = PAGE,
		.mtime_sec = long_ago[1].tv_sec, .mtime_nsec = long_ago[1].tv_nsec };
	char path[64];
	int ret;

	snprintf(path, sizeof(path), DIR "/%u/%u", nr / 1000, nr % 1000);
	attach.file = open(path, O_PATH);
	ret = ioctl(device, UNWIND_TABLE_ATTACH, &attach);
	ret = ret ? errno : 0;
	close(attach.file);
	return ret;
}

int main(int argc, char **argv)
{
	unsigned int nr = argc > 1 ? atoi(argv[1]) : 1000000, i;
	void **files = calloc(nr, sizeof(*files));
	int device, table, pidfd, ret = 0;

	write_text("/proc/sys/vm/max_map_count", "2000000");
	mkdir(DIR, 0700);
	if (!files || mount("files", DIR, "tmpfs", 0, "size=100%,nr_inodes=0,huge=never"))
		err(1, "%s", DIR);
	open_event();
	sockets("closed");
	device = open("/dev/unwind_tables", O_RDWR);
	if (device < 0)
		err(1, "/dev/unwind_tables");
	sockets("open");
	map_files(files, nr);
	if (records != nr)
		errx(1, "%llu records of %u files", (unsigned long long)records, nr);
	sockets("mapped");
	table = make_table(device);
	pidfd = syscall(SYS_pidfd_open, getpid(), 0);
	for (i = 0; i < nr && !ret; i++)
		ret = attach(device, table, pidfd, files[i], i);
	/* The only refusals are for lack of places. */
	if (i - !!ret != (nr < MAX_TABLES ? nr : MAX_TABLES) || (ret && ret != ENOSPC))
		errx(1, "%u files have tables, then: %s", i - !!ret, strerror(ret));
	sockets("tables");
	close(device);
	sockets("after");
	return 0;
}
