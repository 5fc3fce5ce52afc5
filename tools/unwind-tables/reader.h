/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_READER_H
#define __UNWIND_TABLES_READER_H

/*
 * The child process with which a share's processes and their files are looked at.
 * It has a page in common with the keeper, for questions and answers; one question is open at a
 * time.
 */

#include <pthread.h>
#include <stdbool.h>
#include <linux/types.h>
#include <sys/types.h>

#include "exclude.h"
#include "process.h"
#include "share.h"

/*
 * If an answer takes longer, the question is given up and the reader killed. A question that
 * needs a parser may take longer, since the machine may be busy; other shares wait for that for
 * some seconds only.
 */
#define READER_SECONDS		10
#define READER_PARSER_SECONDS	600
/* Where the reader has its socket */
#define READER_SOCKET		3
/* Further mappings are left out: a process has about 30, and wine some hundred. */
#define READER_MAX_MAPPINGS	8192
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
	__u64 handle;	/* its hash_bytes(); 0 if there is none */
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

/* Is the content the same? For two with the same inode number */
static inline bool same_content(const struct file_id *a, const struct file_id *b)
{
	return a->handle == b->handle && same_times(a, b);
}

static inline bool same_id(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && same_content(a, b);
}

/* Outcome of a question, or of an attempt to make a table and attach it */
enum outcome {
	OUTCOME_DONE,
	OUTCOME_GONE,		/* the process, the mapping, or the name */
	OUTCOME_MOVED,		/* It is another share's process by now. */
	OUTCOME_EXCLUDED,	/* by the administrator */
	OUTCOME_NO_DIRECTORY,
	OUTCOME_NO_PROGRAM,	/* no regular file, or no program or library */
	OUTCOME_CLOSED,		/* It may not be opened. */
	OUTCOME_NOT_OPENED,	/* ... or cannot; see page->error */
	OUTCOME_IN_USE,		/* by a lease, a user who gets in the way, or in mmap() */
	OUTCOME_WRITTEN,	/* It is open for writing, or was changed just now. */
	OUTCOME_CHANGED,	/* It is another file by now, or has other contents. */
	OUTCOME_SLOW,		/* no answer in time */
	OUTCOME_DIED,		/* The reader did, or has never been. */
	/* Of a parser */
	OUTCOME_NO_CFI,
	OUTCOME_COSTLY,		/* more work than a file of its size may cause */
	OUTCOME_NOT_PARSED,	/* see page->error */
	OUTCOME_CRASHED,	/* or its result makes no sense */
	/* Of the keeper and of the kernel */
	OUTCOME_SHARED,		/* The file has a table already. */
	OUTCOME_FULL,		/* no room by our limit */
	OUTCOME_KERNEL_FULL,	/* ... by the kernel's */
	OUTCOME_DENIED,		/* We may not attach it. */
	OUTCOME_BAD_TABLE,
	OUTCOME_NOT_MADE,	/* see kernel->error */
	OUTCOME_NOT_ATTACHED,
};

/* An executable mapping of a file */
struct mapping {
	__u64 start;
	__u64 end;
	/* As in /proc/PID/maps, which may differ from fstat() */
	__u64 dev;
	__u64 ino;
	/* If @outcome is OUTCOME_DONE */
	struct file_id id;
	enum outcome outcome;
};

enum reader_question {
	READER_LIST,	/* Which mappings does the process have? */
	READER_LOOK,	/* Which ones, and of which files are they? */
	READER_HOLD,	/* Map the file of a mapping, for the next questions. */
	READER_MAKE,	/* Which table is right for it? */
	READER_CHECK,	/* Is it unchanged? It is closed then. */
	READER_NAMES,	/* What is in a directory? */
	READER_TIME,	/* When has it been changed? */
};

struct reader_page {
	/* The share whose processes may be looked at */
	char share[SHARE_NAME];
	/* Question */
	enum reader_question question;
	/*
	 * 0: the question is about the path, below the directory if there is one. Nobody need
	 * have it mapped.
	 */
	pid_t pid;
	/* Of the mapping; 0 stands for all mappings. */
	__u64 address;
	struct exclude exclude;
	char directory[READER_MAX_PATH];
	char path[READER_MAX_PATH];
	/* For READER_NAMES: how far it has got, which the answer changes */
	__u64 position;

	/* Answer, and for messages a number of errno */
	enum outcome outcome;
	int error;
	/* Of @pid */
	struct owner mapper;
	/* The file system shows the file to @mapper's user, and not to us. */
	bool as_user;
	/* The child that the reader has started for the question, and that has not ended; or 0 */
	pid_t child;
	/* Of READER_HOLD: where the reader has the file mapped. A descriptor is passed. */
	__u64 here;
	/* Spent on making a table, whose bytes are passed */
	__u64 build_ns;
	/* CPU time of the whole question */
	__u64 cpu_ns;
	/* Of READER_NAMES: a letter for the kind of each, then the name; whether that is all */
	size_t names_len;
	bool end;
	char names[READER_MAX_NAMES];
	/* For messages, without control characters */
	char name[256];
	/* If a question does not end, the last one is being looked at. */
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
	 * Descriptors passed with answers, or -1: of READER_HOLD the file, not open for reading;
	 * of READER_MAKE memory with the table and its fingerprint
	 */
	int file;
	int table;
	/* A reader, or a child of it, that was killed and does not end: its pidfd, or -1 */
	int hung;
	/* Its PID if it is the reader, otherwise 0 */
	pid_t hung_pid;
	/* page->nr_mappings, at most READER_MAX_MAPPINGS whatever the reader says */
	unsigned int nr_mappings;
	/* The keeper's lock, which is released while an answer is waited for */
	pthread_mutex_t *lock;
};

/* 0 or a negative errno. The caller holds @lock, here and down to reader_ask(). */
int reader_open(struct reader *reader, const char *share, pthread_mutex_t *lock);
/* The next question starts another one. */
void reader_stop(struct reader *reader);
void reader_close(struct reader *reader);

/* Drop our copy first, so that the last close is the reader's. */
void reader_drop_file(struct reader *reader);

/* The kernel has a copy now. */
void reader_drop_table(struct reader *reader);

/*
 * Have the question in reader->page answered. If there was no answer, the page says how far the
 * reader got.
 */
enum outcome reader_ask(struct reader *reader);

/*
 * worker.c: answer questions in @page as long as @parent has the other end of @sock, in a process
 * made for that.
 */
_Noreturn void worker_run(struct reader_page *page, int sock, pid_t parent);

#endif /* __UNWIND_TABLES_READER_H */
