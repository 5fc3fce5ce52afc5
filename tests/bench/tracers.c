// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of a user stack for each kind of tracer, at the event and on the way
 * back to user space: a getppid() loop under sys_enter, with a clock of BPF
 * before and one after the tracer's own probe. Run it in a guest that counts
 * instructions as nanoseconds. Prints "tracer mode depth event total".
 *
 * Tracers: none, perf, ftrace, bpf. Modes: without a stack, in_place, deferred.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "bench.h"
#include "tracers.skel.h"

#define ROUNDS		400
#define WARM		50
#define RING_PAGES	1024
#define INSTANCE	"/sys/kernel/tracing/instances/bench"

static struct tracers *skel;
static void *ring;

static void put(const char *file, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", INSTANCE, file);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err(1, "%s", path);
	close(fd);
}

static struct bpf_link *attach(struct bpf_program *prog)
{
	struct bpf_link *link = bpf_program__attach(prog);

	if (!link)
		err(1, "cannot attach %s", bpf_program__name(prog));
	return link;
}

static int perf_start(const char *mode)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.exclude_callchain_kernel = 1,
	};
	int fd;

	attr.config = tracepoint();
	if (strcmp(mode, "without"))
		attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	if (!strcmp(mode, "deferred"))
		*ATTR_BITS(&attr) |= DEFER_CALLCHAIN | DEFER_OUTPUT;
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (fd < 0)
		err(1, "perf_event_open");
	ring = mmap(NULL, (RING_PAGES + 1) * 4096UL, PROT_READ | PROT_WRITE,
		    MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		err(1, "mmap");
	return fd;
}

static void ftrace_start(const char *mode)
{
	char text[16];

	if (mkdir(INSTANCE, 0700))
		err(1, "%s", INSTANCE);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	put("buffer_size_kb", "16384");
	put("set_event_pid", text);
	put("options/userstacktrace", strcmp(mode, "without") ? "1" : "0");
	put("options/userstacktrace_delay", strcmp(mode, "deferred") ? "0" : "1");
	put("events/raw_syscalls/sys_enter/enable", "1");
}

static void measure(const char *tracer, const char *mode, int depth)
{
	struct bpf_link *links[4] = { };
	uint64_t total;
	int fd = -1;
	unsigned int i;

	links[0] = attach(skel->progs.before);
	if (!strcmp(tracer, "perf"))
		fd = perf_start(mode);
	else if (!strcmp(tracer, "ftrace"))
		ftrace_start(mode);
	else if (!strcmp(mode, "deferred"))
		links[1] = attach(skel->progs.complete);
	if (!strcmp(tracer, "bpf"))
		links[2] = attach(!strcmp(mode, "deferred") ? skel->progs.request :
				  !strcmp(mode, "in_place") ? skel->progs.in_place :
							      skel->progs.without);
	links[3] = attach(skel->progs.after);

	at_depth(depth, WARM);
	skel->bss->span = 0;
	skel->bss->events = 0;
	total = at_depth(depth, ROUNDS);
	if (skel->bss->events != ROUNDS)
		errx(1, "%llu events", (unsigned long long)skel->bss->events);
	printf("%s %s %d %llu %llu\n", tracer, mode, depth,
	       (unsigned long long)skel->bss->span / ROUNDS,
	       (unsigned long long)total / ROUNDS);
	fflush(stdout);

	for (i = 0; i < 4; i++)
		bpf_link__destroy(links[i]);
	if (fd >= 0) {
		munmap(ring, (RING_PAGES + 1) * 4096UL);
		close(fd);
	}
	if (!strcmp(tracer, "ftrace") && rmdir(INSTANCE))
		err(1, "%s", INSTANCE);
}

int main(void)
{
	static const char * const tracers[] = { "perf", "ftrace", "bpf" };
	static const char * const modes[] = { "without", "in_place", "deferred" };
	static const int depths[] = { 10, 100 };
	unsigned int t, m, d;

	skel = tracers__open_and_load();
	if (!skel)
		err(1, "cannot load the BPF programs");
	skel->bss->tid = getpid();
	for (d = 0; d < 2; d++) {
		measure("none", "without", depths[d]);
		for (t = 0; t < 3; t++)
			for (m = 0; m < 3; m++)
				measure(tracers[t], modes[m], depths[d]);
	}
	return 0;
}
