// SPDX-License-Identifier: GPL-2.0
/*
 * Asks the reader. One that dies, or does not answer, is replaced with the next question.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hash.h"
#include "message.h"
#include "reader.h"

/* A reader that ends does so within this time, or waits for something. */
#define END_MS		1000

/* Only the reader that is to have the page gets it. */
static pid_t fork_with_page(struct reader *reader, int sock)
{
	const pid_t self = getpid();
	pid_t pid;

	madvise(reader->page, sizeof(*reader->page), MADV_DOFORK);
	pid = fork();
	if (!pid)
		worker_run(reader->page, sock, self);
	madvise(reader->page, sizeof(*reader->page), MADV_DONTFORK);
	return pid;
}

static int start(struct reader *reader)
{
	int sockets[2], error;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	pid = fork_with_page(reader, sockets[1]);
	error = -errno;
	close(sockets[1]);
	if (pid < 0) {
		close(sockets[0]);
		return error;
	}
	reader->pid = pid;
	reader->socket = sockets[0];
	reader->pidfd = syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/*
 * It may be the last use of a user's file system: then close() unmounts it, writes data back, and
 * may wait.
 */
static void drop_unlocked(struct reader *reader, int *fd)
{
	int old = *fd;

	*fd = -1;
	if (old < 0)
		return;
	pthread_mutex_unlock(reader->lock);
	close(old);
	pthread_mutex_lock(reader->lock);
}

void reader_drop_file(struct reader *reader)
{
	drop_unlocked(reader, &reader->file);
}

static void drop_passed(struct reader *reader)
{
	reader_drop_file(reader);
	drop(&reader->table);
}

void reader_drop_table(struct reader *reader)
{
	drop(&reader->table);
}

/* Returns whether there is something to read, or something has ended, in time. */
static bool wait_for(const struct reader *reader, int fd, int ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	int nr;

	pthread_mutex_unlock(reader->lock);
	nr = poll(&ready, 1, ms);
	pthread_mutex_lock(reader->lock);
	return nr > 0;
}

/*
 * The reader has ended, or is to end, which may take for ever. Returns why there was no answer:
 * it took too long, by our clock or the reader's own alarm, or the reader died.
 */
static enum outcome stop(struct reader *reader, bool late)
{
	const pid_t pid = reader->pid;
	enum outcome outcome = OUTCOME_SLOW;
	int status = 0;

	if (late)
		kill(pid, SIGKILL);
	/* A descriptor may be in flight there. */
	drop_unlocked(reader, &reader->socket);
	drop_passed(reader);
	if (!wait_for(reader, reader->pidfd, END_MS)) {
		kill(pid, SIGKILL);
		reader->hung = reader->pidfd;
		reader->hung_pid = pid;
		reader->pidfd = -1;
	} else {
		waitpid(pid, &status, 0);
		if (!late && (!WIFSIGNALED(status) || (WTERMSIG(status) != SIGALRM &&
						       WTERMSIG(status) != SIGXCPU)))
			outcome = OUTCOME_DIED;
		/* It was killed with the reader. */
		if (reader->page->child)
			reader->hung = syscall(SYS_pidfd_open, reader->page->child, 0);
	}
	reader->pid = 0;
	drop(&reader->pidfd);
	return outcome;
}

int reader_open(struct reader *reader, const char *share, pthread_mutex_t *lock)
{
	memset(reader, 0, sizeof(*reader));
	reader->pidfd = -1;
	reader->socket = -1;
	reader->file = -1;
	reader->table = -1;
	reader->hung = -1;
	reader->lock = lock;
	hash_prepare();
	reader->page = mmap(NULL, sizeof(*reader->page), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reader->page == MAP_FAILED)
		return -errno;
	madvise(reader->page, sizeof(*reader->page), MADV_DONTFORK);
	snprintf(reader->page->share, sizeof(reader->page->share), "%s", share);
	return 0;
}

void reader_stop(struct reader *reader)
{
	if (reader->pid)
		stop(reader, false);
}

void reader_close(struct reader *reader)
{
	munmap(reader->page, sizeof(*reader->page));
}

static bool send_to(const struct reader *reader)
{
	return send(reader->socket, "", 1, MSG_NOSIGNAL) == 1;
}

/* A reader that ended in the meantime has a successor, but that has no file open. */
static bool send_question(struct reader *reader, bool is_about_opened)
{
	if (reader->pid && send_to(reader))
		return true;
	if (reader->pid)
		stop(reader, false);
	return !is_about_opened && !start(reader) && send_to(reader);
}

/* No answer of the reader may lead out of the page. */
static void confine(struct reader *reader)
{
	struct reader_page *page = reader->page;

	reader->nr_mappings = __atomic_load_n(&page->nr_mappings, __ATOMIC_RELAXED);
	if (reader->nr_mappings > READER_MAX_MAPPINGS)
		reader->nr_mappings = READER_MAX_MAPPINGS;
	page->name[sizeof(page->name) - 1] = '\0';
	page->mapper.cgroup[sizeof(page->mapper.cgroup) - 1] = '\0';
}

/* An answer, and the descriptor that comes with it; or why there is none */
static enum outcome receive(struct reader *reader, int *got)
{
	const int seconds = reader->page->question == READER_MAKE ? READER_PARSER_SECONDS :
								    READER_SECONDS;
	char byte;

	if (!wait_for(reader, reader->socket, seconds * 1000))
		return OUTCOME_SLOW;
	return message_receive(reader->socket, &byte, 1, got) == 1 ? OUTCOME_DONE : OUTCOME_DIED;
}

enum outcome reader_ask(struct reader *reader)
{
	struct reader_page *page = reader->page;
	const enum reader_question question = page->question;
	bool is_about_opened = question == READER_MAKE || question == READER_CHECK;
	enum outcome received;
	int got = -1;

	page->child = 0;
	page->error = 0;
	page->build_ns = 0;
	page->cpu_ns = 0;
	if (!is_about_opened) {
		drop_passed(reader);
		memset(&page->mapper, 0, sizeof(page->mapper));
		page->mapper.uid = OWNER_UNKNOWN;
		page->here = 0;
		page->as_user = false;
		page->names_len = 0;
		page->end = false;
		page->name[0] = '\0';
		page->nr_mappings = 0;
		page->more_mappings = false;
	}

	confine(reader);
	if (!send_question(reader, is_about_opened))
		return OUTCOME_DIED;
	received = receive(reader, &got);
	confine(reader);
	if (!received && question == READER_HOLD) {
		reader->file = got;
	} else if (!received && question == READER_MAKE) {
		drop(&reader->table);
		reader->table = got;
	} else {
		drop(&got);
	}
	return received ? stop(reader, received == OUTCOME_SLOW) : page->outcome;
}
