/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the tests of the engine and of its consumers: threads and processes
 * that are made to do something with requests pending.
 */
#ifndef _SELFTESTS_ENGINE_TEST_H
#define _SELFTESTS_ENGINE_TEST_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "unwind_chain.h"
#include "unwind_module.h"
#include "unwind_test.h"

/*
 * A thread that makes one system call from below the chain, when told to, and
 * lives until it is told to end.
 */
struct actor {
	pthread_t	thread;
	int		tid;
	int		go;
	int		done;
	int		end;
	int		cpu;
	struct chain_call call;
};

/*
 * A child that makes one system call from below the chain, when told to. The
 * child does nothing else between fork() and that call but read a pipe.
 */
struct child {
	pid_t	pid;
	int	go[2];
};

/* A call that may block, made by a thread of its own. */
struct side {
	pthread_t	thread;
	int		(*call)(void *arg);
	void		*arg;
	int		tid;
	int		ret;
	int		done;
};

/*
 * Work 0 is held in its callback, in a thread of its own, and another thread
 * waits for that, to cancel the work.
 */
struct held {
	struct session	s;
	struct actor	actor;
	struct side	cancel;
};

bool wait_blocked(pid_t tid, long nr);
void wait_flag(const int *flag);

bool actor_run(struct actor *actor, int cpu, void *(*function)(void *arg));
bool actor_start(struct actor *actor, int cpu);
void actor_go(struct actor *actor, long nr, long a0, long a1, long a2);
int actor_feed(struct actor *actor, int fd);
void actor_end(struct actor *actor);
bool spinner_start(struct actor *actor, int cpu);

bool side_start(struct side *side, int (*call)(void *arg), void *arg);
bool side_returns(struct side *side);
int side_end(struct side *side);
int cancel_work_0(void *arg);
int held_start(struct held *held);
int held_end(struct held *held);

bool child_start(struct child *child, long nr, long a0, long a1, long a2);
void child_go(struct child *child);
int child_wait(struct child *child);
int child_run(struct child *child);

/* No arguments, and no environment */
extern char * const no_strings[];

unsigned long elf_entry(const char *path);

#endif /* _SELFTESTS_ENGINE_TEST_H */
