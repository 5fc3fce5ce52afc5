// SPDX-License-Identifier: GPL-2.0
/*
 * Shared by the tests of the engine and of its consumers.
 */
#include "engine_test.h"

/* Wait until thread @tid sleeps in the system call @nr. */
bool wait_blocked(pid_t tid, long nr)
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
void wait_flag(const int *flag)
{
	while (!get_flag(flag))
		usleep(1000);
}

static void *actor_main(void *arg)
{
	struct actor *actor = arg;

	if (actor->cpu >= 0)
		pin_to_cpu(actor->cpu);
	set_flag(&actor->tid, my_tid());
	for (;;) {
		/* Poll by a system call that no probe takes for ours. */
		while (!get_flag(&actor->go) && !get_flag(&actor->end))
			sched_yield();
		if (!get_flag(&actor->go))
			return NULL;
		chain_call(&actor->call);
		set_flag(&actor->go, 0);
		set_flag(&actor->done, 1);
	}
}

bool actor_run(struct actor *actor, int cpu,
	       void *(*function)(void *arg))
{
	memset(actor, 0, sizeof(*actor));
	actor->cpu = cpu;
	if (pthread_create(&actor->thread, NULL, function, actor))
		return false;
	wait_flag(&actor->tid);
	return true;
}

bool actor_start(struct actor *actor, int cpu)
{
	return actor_run(actor, cpu, actor_main);
}

/* Let it make a system call; wait_flag(&actor->done) if it returns. */
void actor_go(struct actor *actor, long nr, long a0, long a1, long a2)
{
	actor->call = (struct chain_call){ .nr = nr, .args = { a0, a1, a2 } };
	set_flag(&actor->done, 0);
	set_flag(&actor->go, 1);
}

void actor_end(struct actor *actor)
{
	set_flag(&actor->end, 1);
	pthread_join(actor->thread, NULL);
}

static void *side_main(void *arg)
{
	struct side *side = arg;

	set_flag(&side->tid, my_tid());
	side->ret = side->call(side->arg);
	set_flag(&side->done, 1);
	return NULL;
}

bool side_start(struct side *side, int (*call)(void *arg), void *arg)
{
	*side = (struct side){ .call = call, .arg = arg };
	if (pthread_create(&side->thread, NULL, side_main, side))
		return false;
	wait_flag(&side->tid);
	return true;
}

/* Does it return within seconds? It does not take one, but guests are slow. */
bool side_returns(struct side *side)
{
	int tries;

	for (tries = 0; tries < 20000 && !get_flag(&side->done); tries++)
		usleep(1000);
	return get_flag(&side->done);
}

int side_end(struct side *side)
{
	pthread_join(side->thread, NULL);
	return side->ret;
}

int cancel_work_0(void *arg)
{
	return mod_cmd(((struct session *)arg)->fd, "cancel 0");
}

/* Returns 0 or -errno. */
int held_start(struct held *held)
{
	static const char cmd[] = "req 1 task";
	int ret;

	ret = session_start(&held->s, 1) ?: mod_cmd(held->s.fd, "hold 0");
	if (ret)
		return ret;
	if (!actor_start(&held->actor, -1))
		return -EAGAIN;
	actor_go(&held->actor, SYS_write, held->s.fd, (long)cmd, sizeof(cmd) - 1);
	/* The callback logs, then it waits. */
	ret = session_wait(&held->s, 'C', 0, 1);
	if (ret)
		return ret;
	if (!side_start(&held->cancel, cancel_work_0, &held->s))
		return -EAGAIN;
	usleep(300000);
	return 0;
}

/* Let it go. Returns 0, or what failed; -EALREADY if it was not held any more. */
int held_end(struct held *held)
{
	bool was_held = !get_flag(&held->cancel.done) &&
			!get_flag(&held->actor.done);
	int ret;

	ret = mod_cmd(held->s.fd, "release 0");
	wait_flag(&held->actor.done);
	actor_end(&held->actor);
	ret = ret ?: side_end(&held->cancel);
	session_end(&held->s);
	return ret ?: was_held ? 0 : -EALREADY;
}

/* Let it return from a read() of one byte of the pipe that ends in @fd. */
int actor_feed(struct actor *actor, int fd)
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
bool spinner_start(struct actor *actor, int cpu)
{
	return actor_run(actor, cpu, spinner_main);
}

bool child_start(struct child *child, long nr, long a0, long a1, long a2)
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

void child_go(struct child *child)
{
	wait_blocked(child->pid, SYS_read);
	if (write(child->go[1], "x", 1) != 1)
		abort();
}

int child_wait(struct child *child)
{
	int status = -1;

	waitpid(child->pid, &status, 0);
	close(child->go[0]);
	close(child->go[1]);
	return status;
}

/* Both. Returns its status. */
int child_run(struct child *child)
{
	child_go(child);
	return child_wait(child);
}

char * const no_strings[] = { NULL };

/* Offset of e_entry in the header of a 64-bit ELF file */
#define ELF64_ENTRY	24

unsigned long elf_entry(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t entry;

	if (pread(fd, &entry, sizeof(entry), ELF64_ENTRY) != sizeof(entry))
		entry = 0;
	close(fd);
	return entry;
}
