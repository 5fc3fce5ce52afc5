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

#include "keeper-exclude.h"
#include "keeper-share.h"

/*
 * A question that takes longer is given up, with the reader. Where a parser is at work, its time on
 * a CPU does not count, nor that for which it waits for one.
 */
#define READER_SECONDS		10
/* What is beyond is left out: a process has about 30, and wine some hundred. */
#define READER_MAX_MAPPINGS	8192
#define READER_MAX_AVOIDED	64
#define READER_MAX_ABANDONED	32
/* Bytes of a path, and of the names that one question finds */
#define READER_MAX_PATH		4096
#define READER_MAX_NAMES	16384

/*
 * A file with its content, as fstat() tells them apart. The time of modification can be
 * set back, and the kernel goes by that; the time of change cannot. The number of an
 * inode is used again when its file is deleted; the handle has its generation, too.
 */
struct file_id {
	__u64 dev;
	__u64 ino;
	__u64 handle;	/* what ut_hash() makes of it; 0 if there is none */
	__u64 size;
	__s64 mtime_sec;
	__s64 ctime_sec;
	__u32 mtime_nsec;
	__u32 ctime_nsec;
	__u32 uid;	/* of the owner */
};

static inline bool same_times(const struct file_id *a, const struct file_id *b)
{
	return a->size == b->size &&
	       a->mtime_sec == b->mtime_sec && a->mtime_nsec == b->mtime_nsec &&
	       a->ctime_sec == b->ctime_sec && a->ctime_nsec == b->ctime_nsec;
}

/* Is it what it was? If the number of the inode is the same */
static inline bool same_content(const struct file_id *a, const struct file_id *b)
{
	return a->handle == b->handle && same_times(a, b);
}

static inline bool same_id(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && same_content(a, b);
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

/* Numbers of processes are used again. The identity is that of a pidfd; 0: it has ended. */
struct process {
	pid_t pid;
	__u64 identity;
};

struct process process_of(pid_t pid);

/* A file system that did not answer root's processes in time, or else a process */
struct avoided {
	__u64 dev;
	struct process process;
};

enum reader_question {
	READER_LIST,	/* Which mappings does the process have? */
	READER_LOOK,	/* Which ones, and of which files are they? */
	READER_HOLD,	/* Have the file of a mapping mapped, for the next two. */
	READER_MAKE,	/* Which table is right for it? */
	READER_PRINT,	/* What would be the fingerprint of such a table? */
	READER_CHECK,	/* Is it still what it was? It is closed then. */
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
	unsigned int nr_avoided;
	struct avoided avoided[READER_MAX_AVOIDED];
	struct exclude exclude;
	char directory[READER_MAX_PATH];
	char path[READER_MAX_PATH];
	/* For READER_NAMES: how far it has got, which the answer changes */
	__u64 position;

	/* Answer: 0 or a negative errno */
	int error;
	/* Of @pid */
	struct owner mapper;
	enum reader_step step;
	/* The file system shows the file to @mapper's user, and not to us. */
	bool as_user;
	/* What the reader has started for the question, and has not seen end; or 0 */
	pid_t child;
	/* Of READER_HOLD: where the reader has the file mapped. A descriptor is passed. */
	__u64 here;
	/* Spent on making a table, whose bytes are passed */
	__u64 build_ns;
	/* Of all that the question took */
	__u64 cpu_ns;
	/* The same with what it had to wait for, but not for a CPU, as the parser has too */
	__u64 busy_ns;
	__u64 delay_ns;
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
	/* 0: there is none, the next question starts one */
	pid_t pid;
	int pidfd;
	int socket;
	/*
	 * What has come with answers, or -1: of READER_HOLD the file, not open for reading; of
	 * READER_MAKE memory with the table and what ut_fingerprint() says, of READER_PRINT only
	 * with that
	 */
	int file;
	int table;
	/* A pidfd, or -1: what was to end after a question without answer, and has not */
	int hung;
	/* A question may take long without anything being wrong. */
	void (*alive)(void *arg);
	void *arg;
	/* Those before it that have not ended */
	pid_t abandoned[READER_MAX_ABANDONED];
};

int reader_open(struct reader *reader);
void reader_close(struct reader *reader);

/* Is the process a reader, or has it been one? It maps the files that it opens. */
bool reader_is_own(const struct reader *reader, pid_t pid);

/* It is with the kernel now. */
void reader_drop_table(struct reader *reader);

/*
 * Have the question in reader->page answered. The answer is there if this returns 0.
 * -ETIMEDOUT: it took too long; -ECONNRESET: the reader died. Its page then says how far it
 * got.
 */
int reader_ask(struct reader *reader);

#endif /* __UNWIND_KEEPER_READER_H */
