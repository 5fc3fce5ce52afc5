// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of a sample: a getppid() loop at a chosen user stack depth under a
 * raw_syscalls:sys_enter event of every hit. Run it in a guest that counts
 * instructions as nanoseconds. Prints "mode depth nanoseconds bytes", the last
 * being the bytes of one sample in the ring buffer, its share of records
 * included.
 *
 * Modes: off, fp (in place), defer, dwarf (8192 bytes of stack); with -burst
 * after the last two, SAMPLES events without the kernel's part of the
 * callchain share each entry and a buffer. Besides these, each of depth 0: fork,
 * exec (both with the wait for the child), mmap.
 */
#define _GNU_SOURCE
#include <err.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS		400
#define WARM		50
#define RING_PAGES	8192
#define SAMPLES		10
#define REGS_X86_64	0xff0fffULL

static bool is_burst(const char *mode)
{
	return strstr(mode, "-burst");
}

static int open_event(const char *mode, int leader)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			       PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN,
		.disabled = 1,
		.sample_id_all = 1,
	};
	uint64_t *flags = ATTR_BITS(&attr);
	int fd;

	attr.config = tracepoint();
	if (is_burst(mode))
		attr.exclude_callchain_kernel = 1;
	if (!strncmp(mode, "defer", 5)) {
		*flags |= DEFER_CALLCHAIN;
		if (leader < 0)
			*flags |= DEFER_OUTPUT;
	} else if (!strncmp(mode, "dwarf", 5)) {
		attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
		attr.sample_regs_user = REGS_X86_64;
		attr.sample_stack_user = 8192;
		attr.exclude_callchain_user = 1;
	}
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (fd < 0)
		err(1, "perf_event_open %s", mode);
	if (leader >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, leader))
		err(1, "PERF_EVENT_IOC_SET_OUTPUT");
	return fd;
}

static void sample(const char *mode, int depth)
{
	int i, nr = is_burst(mode) ? SAMPLES : 1, rounds = ROUNDS / nr;
	struct perf_event_mmap_page *ring;
	uint64_t before, ns, bytes;
	int fd[SAMPLES];

	if (!strcmp(mode, "off")) {
		at_depth(depth, WARM);
		printf("off %d %llu 0\n", depth,
		       (unsigned long long)at_depth(depth, ROUNDS) / ROUNDS);
		return;
	}

	fd[0] = open_event(mode, -1);
	ring = mmap(NULL, (RING_PAGES + 1) * 4096UL, PROT_READ | PROT_WRITE,
		    MAP_SHARED, fd[0], 0);
	if (ring == MAP_FAILED)
		err(1, "mmap");
	for (i = 1; i < nr; i++)
		fd[i] = open_event(mode, fd[0]);
	for (i = 0; i < nr; i++)
		ioctl(fd[i], PERF_EVENT_IOC_ENABLE, 0);
	at_depth(depth, WARM);
	before = ring->data_head;
	ns = at_depth(depth, rounds);
	bytes = ring->data_head - before;
	for (i = 0; i < nr; i++)
		ioctl(fd[i], PERF_EVENT_IOC_DISABLE, 0);
	if (bytes + before > ring->data_size)
		errx(1, "ring buffer too small");
	printf("%s %d %llu %llu\n", mode, depth,
	       (unsigned long long)ns / rounds / nr,
	       (unsigned long long)bytes / rounds / nr);

	munmap(ring, (RING_PAGES + 1) * 4096UL);
	for (i = 0; i < nr; i++)
		close(fd[i]);
}

static void forks(const char *self, int exec)
{
	uint64_t start = 0;
	int i;

	for (i = -20; i < 100; i++) {
		pid_t pid;

		if (!i)
			start = now();
		pid = fork();
		if (pid < 0)
			err(1, "fork");
		if (!pid) {
			if (exec)
				execl(self, self, "exit", NULL);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	printf("%s 0 %llu 0\n", exec ? "exec" : "fork",
	       (unsigned long long)(now() - start) / 100);
}

static void mappings(void)
{
	uint64_t start = 0;
	int i;

	for (i = -50; i < 400; i++) {
		void *p;

		if (!i)
			start = now();
		p = mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(p, 65536);
	}
	printf("mmap 0 %llu 0\n", (unsigned long long)(now() - start) / 400);
}

int main(int argc, char **argv)
{
	static const int depths[] = { 1, 10, 60, 100 };
	unsigned int i;
	int m;

	if (argc > 1 && !strcmp(argv[1], "exit"))
		return 0;
	for (m = 1; m < argc; m++) {
		if (!strcmp(argv[m], "fork"))
			forks(argv[0], 0);
		else if (!strcmp(argv[m], "exec"))
			forks(argv[0], 1);
		else if (!strcmp(argv[m], "mmap"))
			mappings();
		else
			for (i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
				sample(argv[m], depths[i]);
	}
	return 0;
}
