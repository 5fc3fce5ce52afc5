// SPDX-License-Identifier: GPL-2.0
/*
 * Print the user stack of each call of a kernel function by a process:
 *
 *	user_stack __x64_sys_nanosleep 1234
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "user_stack.h"
#include "user_stack.skel.h"

static int print(void *ctx, void *data, size_t size)
{
	const struct event *event = data;
	long i;

	printf("%s %d, cookie %llx:", event->is_call ? "call by" : "stack of", event->tid,
	       event->cookie);
	if (event->size < 0)
		printf(" %s", strerror(-event->size));
	for (i = 0; i < event->size / 8; i++)
		printf(" %llx", event->ips[i]);
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct ring_buffer *ring;
	struct user_stack *skel;

	if (argc != 3) {
		fprintf(stderr, "usage: user_stack FUNCTION PID\n");
		return 2;
	}
	skel = user_stack__open();
	if (!skel)
		return 1;
	skel->rodata->pid = atoi(argv[2]);
	if (libbpf_find_vmlinux_btf_id("unwind_deferred_complete", BPF_TRACE_RAW_TP) < 0) {
		fprintf(stderr, "This kernel has no deferred user stacks: taking them in place.\n");
		bpf_program__set_autoload(skel->progs.complete, false);
	}
	/* The listener first: while there is none, requests are refused. */
	if (user_stack__load(skel) || user_stack__attach(skel) ||
	    !bpf_program__attach_kprobe(skel->progs.ask, false, argv[1]))
		return 1;

	setlinebuf(stdout);
	printf("waiting for calls of %s by %s\n", argv[1], argv[2]);
	ring = ring_buffer__new(bpf_map__fd(skel->maps.events), print, NULL, NULL);
	while (ring && ring_buffer__poll(ring, -1) >= 0)
		;
	return 1;
}
