/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the tests of the engine: a session with the test module, and a
 * thread or a process that is made to do something with requests pending.
 */
#ifndef ENGINE_TEST_H
#define ENGINE_TEST_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include "unwind_test.h"

struct session {
	int		fd;
	struct log	log;
};

/* Open a session with works 0 to @works - 1, armed. Returns 0 or -errno. */
static inline int session_start(struct session *s, int works)
{
	int i, ret;

	memset(s, 0, sizeof(*s));
	s->fd = mod_open();
	if (s->fd < 0)
		return s->fd;
	for (i = 0; i < works; i++) {
		ret = mod_cmd(s->fd, "init %d", i);
		if (ret)
			return ret;
	}
	return mod_cmd(s->fd, "arm");
}

static inline void session_end(struct session *s)
{
	close(s->fd);
	log_free(&s->log);
}

/* Forget what was read from the log, after reading all of it. */
static inline void session_forget(struct session *s)
{
	mod_log(s->fd, &s->log);
	log_free(&s->log);
}

/* The index-th request that was made at @point; or NULL. */
static inline struct log_entry *
log_at(struct log *log, const char *point, int work, unsigned int index)
{
	unsigned int i;

	for (i = 0; i < log->nr; i++) {
		struct log_entry *e = &log->entries[i];

		if (e->type == 'R' && !strcmp(e->point, point) &&
		    (work < 0 || e->work == work) && index-- == 0)
			return e;
	}
	return NULL;
}

/* How many requests by @work returned @ret. */
static inline unsigned int log_rets(struct log *log, int work, int ret)
{
	unsigned int i, nr = 0;

	for (i = 0; i < log->nr; i++)
		nr += log->entries[i].type == 'R' &&
		      log->entries[i].ret == ret &&
		      (work < 0 || log->entries[i].work == work);
	return nr;
}

/*
 * The rule of all rules: every cookie that a work was given has exactly one
 * callback of that work, and every callback was asked for. Returns NULL or
 * the first entry that breaks it.
 */
static inline struct log_entry *log_unpaired(struct log *log)
{
	struct log_entry *e, *f;
	unsigned int i, j, other;

	for (i = 0; i < log->nr; i++) {
		e = &log->entries[i];
		if (e->type != 'C' && (e->type != 'R' || e->ret < 0))
			continue;
		if (e->type == 'R' && e->ret == UT_ALREADY_PENDING)
			continue;
		other = 0;
		/* Most partners are near. */
		for (j = 0; j < log->nr; j++) {
			f = &log->entries[j];
			if (f->work != e->work || f->cookie != e->cookie)
				continue;
			if (e->type == 'R')
				other += f->type == 'C';
			else
				other += f->type == 'R' && f->ret == UT_QUEUED;
		}
		if (other != 1)
			return e;
	}
	return NULL;
}

/*
 * Disarm, and wait until the engine is really off, which it never is while
 * somebody else uses it. Returns what is wrong, or an empty string.
 */
static inline const char *switch_off(struct session *s)
{
	unsigned int before = log_rets(&s->log, 1, -EINVAL);
	int tries;

	if (mod_cmd(s->fd, "disarm"))
		return "disarm failed";
	for (tries = 0; tries < 300; tries++) {
		/* Not work 0: its callbacks are counted. */
		if (mod_cmd(s->fd, "req 2 task") || mod_log(s->fd, &s->log))
			return "request failed";
		if (log_rets(&s->log, 1, -EINVAL) > before)
			return "";
		usleep(50000);
	}
	return "it is still on: is there a profiler?";
}

/* Wait until thread @tid sleeps in the system call @nr. */
static inline bool wait_blocked(pid_t tid, long nr)
{
	char path[64], line[128], *end;
	int tries;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/syscall", tid);
	for (tries = 0; tries < 20000; tries++) {
		f = fopen(path, "r");
		if (!f)
			return false;
		/* Not a number: the thread is running. */
		if (fgets(line, sizeof(line), f) &&
		    strtol(line, &end, 10) == nr && end != line) {
			fclose(f);
			return true;
		}
		fclose(f);
		usleep(1000);
	}
	return false;
}

/* Wait until *flag is set by another thread. */
static inline void wait_flag(const int *flag)
{
	while (!get_flag(flag))
		usleep(1000);
}

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

static void *actor_main(void *arg)
{
	struct actor *actor = arg;

	if (actor->cpu >= 0)
		pin_to_cpu(actor->cpu);
	set_flag(&actor->tid, my_tid());
	for (;;) {
		/* No system call that a probe might take for ours. */
		while (!get_flag(&actor->go) && !get_flag(&actor->end))
			sched_yield();
		if (!get_flag(&actor->go))
			return NULL;
		chain_call(&actor->call);
		set_flag(&actor->go, 0);
		set_flag(&actor->done, 1);
	}
}

static inline bool actor_run(struct actor *actor, int cpu,
			     void *(*function)(void *arg))
{
	memset(actor, 0, sizeof(*actor));
	actor->cpu = cpu;
	if (pthread_create(&actor->thread, NULL, function, actor))
		return false;
	wait_flag(&actor->tid);
	return true;
}

static inline bool actor_start(struct actor *actor, int cpu)
{
	return actor_run(actor, cpu, actor_main);
}

/* Let it make a system call; wait_flag(&actor->done) if it returns. */
static inline void actor_go(struct actor *actor, long nr, long a0,
			    long a1, long a2)
{
	actor->call = (struct chain_call){ .nr = nr, .args = { a0, a1, a2 } };
	set_flag(&actor->done, 0);
	set_flag(&actor->go, 1);
}

static inline void actor_end(struct actor *actor)
{
	set_flag(&actor->end, 1);
	pthread_join(actor->thread, NULL);
}

/* Let it return from a read() of one byte of the pipe that ends in @fd. */
static inline int actor_feed(struct actor *actor, int fd)
{
	if (write(fd, "x", 1) != 1)
		return -errno;
	wait_flag(&actor->done);
	return actor->call.ret == 1 ? 0 : -EIO;
}

static void *spinner_main(void *arg)
{
	struct actor *actor = arg;

	pin_to_cpu(actor->cpu);
	set_flag(&actor->tid, my_tid());
	chain_spin(&actor->end);
	return NULL;
}

/* One that stays in user mode until actor_end() */
static inline bool spinner_start(struct actor *actor, int cpu)
{
	return actor_run(actor, cpu, spinner_main);
}

/*
 * A child that makes one system call from below the chain, when told to. The
 * child does nothing else between fork() and that call but read a pipe.
 */
struct child {
	pid_t	pid;
	int	go[2];
};

static inline bool child_start(struct child *child, long nr, long a0,
			       long a1, long a2)
{
	char c;

	if (pipe(child->go))
		return false;
	child->pid = fork();
	if (child->pid < 0)
		return false;
	if (child->pid)
		return true;
	if (read(child->go[0], &c, 1) == 1)
		chain_syscall(nr, a0, a1, a2, 0, 0, 0);
	_exit(77);
}

static inline void child_go(struct child *child)
{
	wait_blocked(child->pid, SYS_read);
	if (write(child->go[1], "x", 1) != 1)
		abort();
}

static inline int child_wait(struct child *child)
{
	int status = -1;

	waitpid(child->pid, &status, 0);
	close(child->go[0]);
	close(child->go[1]);
	return status;
}

/* No arguments, and no environment */
static char * const no_strings[] = { NULL };

/* Offset of e_entry in the header of a 64-bit ELF file */
#define ELF64_ENTRY	24

static inline unsigned long elf_entry(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t entry;

	if (pread(fd, &entry, sizeof(entry), ELF64_ENTRY) != sizeof(entry))
		entry = 0;
	close(fd);
	return entry;
}

/*
 * Make a system call with a stack and a frame pointer of the caller's choice.
 * The first address of its user stack is framed_ip_syscall.
 */
long framed_syscall(long nr, long a0, long a1, long a2, void *sp, void *fp);
extern const char framed_ip_syscall[];

asm(".pushsection .text\n"
	".globl framed_syscall\n"
	".type framed_syscall, @function\n"
	"framed_syscall:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	mov %rsp, %rbx\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rcx, %rdx\n"
	"	mov %r8, %rsp\n"
	"	mov %r9, %rbp\n"
	"	syscall\n"
	".globl framed_ip_syscall\n"
	"framed_ip_syscall:\n"
	"	mov %rbx, %rsp\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	".size framed_syscall, . - framed_syscall\n"
	".popsection\n");

#endif /* ENGINE_TEST_H */
