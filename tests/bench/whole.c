// SPDX-License-Identifier: GPL-2.0
/*
 * The whole way of an event: the instructions of perf record, from the event in the kernel
 * to perf.data, for each of a program's system calls. Dynamically linked, as programs are.
 *
 * usage: whole DEPTH ROUNDS - prints "whole DEPTH INSTRUCTIONS" of one round to stderr
 *        whole - makes system calls until it is killed
 */
#include <stdlib.h>

#include "bench.h"

int main(int argc, char **argv)
{
	int depth, rounds;

	if (argc != 3) {
		for (;;)
			at_depth(1, 1000);
	}
	depth = atoi(argv[1]);
	rounds = atoi(argv[2]);
	/* Until everything has been looked up */
	at_depth(depth, 200);
	fprintf(stderr, "whole %d %lu\n", depth,
		(unsigned long)at_depth(depth, rounds) / rounds);
	return 0;
}
