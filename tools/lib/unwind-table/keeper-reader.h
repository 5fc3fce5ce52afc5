/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_KEEPER_READER_H
#define __UNWIND_KEEPER_READER_H

/*
 * The child process with which the keeper looks at other processes and their files.
 * The two share a page for questions and answers; one question is open at a time.
 */

#include <stdbool.h>
#include <linux/types.h>
#include <sys/types.h>

/* A question that takes longer is given up, with the reader. */
#define READER_SECONDS		10
/* What is beyond is left out: a process has about 30, and wine some hundred. */
#define READER_MAX_MAPPINGS	8192
#define READER_MAX_AVOIDED	64
/* Bytes of a path, and of the names that one question finds */
#define READER_MAX_PATH		4096
#define READER_MAX_NAMES	16384

/*
 * A file with its content, as fstat() tells them apart. The time of modification can be
 * set back, and the kernel goes by that; the time of change cannot.
 */
struct file_id {
	__u64 dev;
	__u64 ino;
	__u64 size;
	__s64 mtime_sec;
	__s64 ctime_sec;
	__u32 mtime_nsec;
	__u32 ctime_nsec;
};

/* Is it what it was? If the same file is meant */
static inline bool same_content(const struct file_id *a, const struct file_id *b)
{
	return a->size == b->size &&
	       a->mtime_sec == b->mtime_sec && a->mtime_nsec == b->mtime_nsec &&
	       a->ctime_sec == b->ctime_sec && a->ctime_nsec == b->ctime_nsec;
}

/* An executable mapping of a file */
struct mapping {
	__u64 start;
	__u64 end;
	/* As in /proc/PID/maps, which need not be what fstat() says */
	__u64 dev;
	__u64 ino;
	/* If @error is 0 */
	struct file_id id;
	int error;
};

/* A file system, or else a process, that did not answer in time */
struct avoided {
	__u64 dev;
	pid_t pid;
};

enum reader_question {
	READER_LIST,	/* Which mappings does the process have? */
	READER_LOOK,	/* Which ones, and of which files are they? */
	READER_MAKE,	/* Make a table for the file of a mapping, and attach it. */
	READER_ATTACH,	/* Attach a table that is there already. */
	READER_VDSO,	/* Make a table for the vDSO, and attach it. */
	READER_NAMES,	/* What is in a directory? */
	READER_TIME,	/* When has it been changed? */
};

/* How far a question has come: says what failed, or what does not end */
enum reader_step {
	READER_FIND,
	READER_OPEN,
	READER_READ,
	READER_ROOM,
	READER_HAND_OVER,
	READER_BIND,
};

struct reader_page {
	/* Question */
	enum reader_question question;
	/*
	 * 0: what is meant is the path, below the directory if there is one. Nobody need
	 * have it mapped.
	 */
	pid_t pid;
	/* Of the mapping; 0 stands for all mappings. */
	__u64 address;
	/* For READER_ATTACH: the table, and the content that it was made of */
	__u32 table;
	struct file_id id;
	/* Bytes that a new table may have */
	__u64 room;
	/* The file may have a table already, under another device. */
	bool probe;
	unsigned int nr_avoided;
	struct avoided avoided[READER_MAX_AVOIDED];
	char directory[READER_MAX_PATH];
	char path[READER_MAX_PATH];
	/* For READER_NAMES: how far it has got, which the answer changes */
	__u64 position;

	/* Answer: 0 or a negative errno */
	int error;
	enum reader_step step;
	__u32 new_table;
	__u64 bytes;
	__u64 rows;
	__u64 build_ns;
	/* Of all that the question took */
	__u64 cpu_ns;
	/* Of READER_NAMES: a letter for the kind of each, then the name; was it all? */
	size_t names_len;
	bool end;
	char names[READER_MAX_NAMES];
	/* For messages, without control characters */
	char name[256];
	/* Of a question that does not end, the last one is being looked at. */
	unsigned int nr_mappings;
	bool more_mappings;
	struct mapping mappings[READER_MAX_MAPPINGS];
};

struct reader {
	struct reader_page *page;
	int device;
	/* 0: there is none, the next question starts one */
	pid_t pid;
	int socket;
};

int reader_open(struct reader *reader, int device);
void reader_close(struct reader *reader);

/*
 * Have the question in reader->page answered. The answer is there if this returns 0.
 * -ETIMEDOUT: it took too long; -EAGAIN: a file became shorter while it was read;
 * -EPIPE: the reader died. Its page then says how far it got.
 */
int reader_ask(struct reader *reader);

#endif /* __UNWIND_KEEPER_READER_H */
