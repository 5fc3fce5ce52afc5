/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_PARSER_H
#define __UNWIND_TABLES_PARSER_H

#include <stdbool.h>
#include <linux/types.h>
#include <sys/types.h>

#include "reader.h"

/* A file to be parsed, and the result */
struct parse {
	/* Open for reading; its size, and how much of that is stored */
	int file;
	__u64 len;
	__u64 stored;
	/* CPU time that the parser may use */
	unsigned int seconds;
	/* Has its PID while it lives */
	pid_t *child;
	/* Memory with the table and its fingerprint, or -1 */
	int out;
	enum outcome outcome;
	int error;
	/* Time spent on it */
	__u64 build_ns;
};

/* Limit of memory for a file of this size: less than the service may have, with tables */
#define PARSER_MIN_BYTES	(96ull << 20)
#define PARSER_MAX_BYTES	(480ull << 20)

static inline __u64 parser_bytes(__u64 file_size)
{
	__u64 bytes = PARSER_MIN_BYTES + 6 * file_size;

	return bytes < PARSER_MAX_BYTES ? bytes : PARSER_MAX_BYTES;
}

/* Have a parser look at a file. False: it waits for something, and has not ended. */
bool parser_run(struct parse *parse);

#endif /* __UNWIND_TABLES_PARSER_H */
