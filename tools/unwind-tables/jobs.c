// SPDX-License-Identifier: GPL-2.0
/*
 * The jobs of the shares, and the threads that do them. If a process or a file of a share makes
 * somebody wait, only the thread of that share waits.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "parser.h"

/* Of a share. If more files are mapped at once, its processes are looked at. */
#define MAX_EVENTS	256
/* After so long without anything to do, a worker ends. */
#define IDLE_NS		(5 * NSEC_PER_SEC)
/* At most so many idle readers are kept: each may have 3 MB of its own that were the service's. */
#define MAX_IDLE	64
/* After so long without progress, keeper_awaits() ignores a worker: root's own, and others */
#define ROOTS_LATE_NS	(15 * NSEC_PER_SEC)
#define LATE_NS		(3 * NSEC_PER_SEC)
/* After so long, others no longer wait for a worker's table, its parser, or its turn. */
#define STUCK_NS	(2 * NSEC_PER_SEC)
/* In all, a worker waits so long while others, one after another, make the same file. */
#define MAKERS_NS	(6 * NSEC_PER_SEC)
/* Maximum sum of the memory limits of all parsers; light ones begin even beyond that. */
#define PARSERS_BYTES	(480ull << 20)
/*
 * A parser is light if its limit is at most this, and its share is root's own or idle. So many
 * parsers may run before a light one has to wait; root's own light ones never wait.
 */
#define LIGHT_BYTES	(144ull << 20)
#define MAX_LIGHT	16
/* After a parser has waited so long, only light ones begin before it, and do not count. */
#define PATIENCE_NS	(10 * NSEC_PER_SEC)
/* How often a hanging process that can be left behind is checked for its end */
#define LEFT_MS		2000
/* So many shares are served at a time: all threads here wait for one lock. */
#define MAX_TURNS	16
/* The stack of a worker, and of the processes that it forks. Nothing is recursive. */
#define STACK_BYTES	0x100000

/* ------------------------------------------------------------------------ */
/* Waiting								      */

static void wait_on(struct keeper *keeper, pthread_cond_t *cond, __s64 ns)
{
	const __s64 end = now_ns() + ns;
	const struct timespec until = { end / NSEC_PER_SEC, end % NSEC_PER_SEC };

	pthread_cond_timedwait(cond, &keeper->lock, &until);
}

static bool is_light(const struct worker *worker)
{
	return worker->parser_bytes <= LIGHT_BYTES &&
	       (worker->share->root || share_is_idle(worker->share));
}

/* A worker that has waited for too long comes before all others but light ones. */
static bool gives_way(const struct worker *worker, __s64 now)
{
	const struct worker *other;

	for (other = worker->keeper->workers; other; other = other->next)
		if (other->awaits_parser && other->awaits_parser < worker->awaits_parser &&
		    now - other->awaits_parser >= PATIENCE_NS)
			return !is_light(worker);
	return false;
}

static bool may_parse(const struct worker *worker)
{
	const long nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const struct worker *other;
	__u64 bytes = worker->parser_bytes;
	const __s64 now = now_ns();
	const bool is_late = now - worker->awaits_parser >= PATIENCE_NS;
	long nr = 0;

	for (other = worker->keeper->workers; other; other = other->next) {
		if (!other->parsing_since || now - other->parsing_since >= STUCK_NS ||
		    (is_late && is_light(other)))
			continue;
		nr++;
		bytes += other->parser_bytes;
	}
	if (gives_way(worker, now))
		return false;
	if (!nr || (is_light(worker) && (worker->share->root || nr < MAX_LIGHT)))
		return true;
	return bytes <= PARSERS_BYTES && nr < (nr_cpus > 2 ? nr_cpus : 2);
}

void keeper_begin_parser(struct worker *worker)
{
	worker->parser_bytes = parser_bytes(worker->reader.page->mappings[0].id.size);
	worker->awaits_parser = now_ns();
	while (!may_parse(worker))
		wait_on(worker->keeper, &worker->keeper->changed, STUCK_NS / 4);
	worker->awaits_parser = 0;
	worker->parsing_since = now_ns();
	/* Wake those that gave way. */
	pthread_cond_broadcast(&worker->keeper->changed);
}

void keeper_end_parser(struct worker *worker)
{
	worker->parsing_since = 0;
	pthread_cond_broadcast(&worker->keeper->changed);
}

static bool is_being_made(const struct worker *worker, const struct file_id *id)
{
	const struct worker *other;

	for (other = worker->keeper->workers; other; other = other->next)
		if (other != worker && other->making_since && other->making.dev == id->dev &&
		    other->making.ino == id->ino && now_ns() - other->making_since < STUCK_NS)
			return true;
	return false;
}

void keeper_await_maker(struct worker *worker, const struct file_id *id)
{
	const __s64 end = now_ns() + MAKERS_NS;

	while (is_being_made(worker, id) && now_ns() < end)
		wait_on(worker->keeper, &worker->keeper->changed, STUCK_NS / 4);
}

static bool has_ended(int pidfd, int ms)
{
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };

	return poll(&ended, 1, ms) > 0;
}

static bool is_left(const struct keeper *keeper, int i)
{
	return keeper->left[i].pid && !has_ended(keeper->left[i].pidfd, 0);
}

/* Root's share goes on without. Returns whether there is a place for one more. */
static bool leave(struct worker *worker)
{
	struct keeper *keeper = worker->keeper;
	int i;

	for (i = 0; i < KEEPER_MAX_LEFT && is_left(keeper, i); i++)
		;
	if (i == KEEPER_MAX_LEFT)
		return false;
	if (keeper->left[i].pid > 0)
		waitpid(keeper->left[i].pid, NULL, WNOHANG);
	if (keeper->left[i].pid)
		close(keeper->left[i].pidfd);
	keeper->left[i].pid = worker->reader.hung_pid ?: -1;
	keeper->left[i].pidfd = worker->reader.hung;
	keeper->left[i].asked = worker->reader.page->pid ? worker->asked : (struct process){ };
	return true;
}

/* No reader hangs twice because of the same process, and the last place is not used for paths. */
bool keeper_may_ask(const struct keeper *keeper, const struct process *process)
{
	int i, nr = 0;

	for (i = 0; i < KEEPER_MAX_LEFT; i++) {
		if (!is_left(keeper, i))
			continue;
		if (process && process_is(&keeper->left[i].asked, process))
			return false;
		nr++;
	}
	return process || nr < KEEPER_MAX_LEFT - 1;
}

void keeper_await_end(struct worker *worker)
{
	struct reader *reader = &worker->reader;
	struct keeper *keeper = worker->keeper;
	bool ended = false;

	worker->share->hung = true;
	keeper->changes = true;
	keeper_tell(keeper);
	while (!ended && !(worker->share->root && leave(worker))) {
		pthread_mutex_unlock(&keeper->lock);
		ended = has_ended(reader->hung, LEFT_MS);
		pthread_mutex_lock(&keeper->lock);
	}
	worker->share->hung = false;
	if (ended) {
		if (reader->hung_pid)
			waitpid(reader->hung_pid, NULL, WNOHANG);
		close(reader->hung);
	}
	reader->hung = -1;
	reader->hung_pid = 0;
}

/* ------------------------------------------------------------------------ */
/* Turns								      */

static void call_next(const struct keeper *keeper)
{
	if (keeper->line)
		pthread_cond_signal(&keeper->line->more);
}

/* A worker that makes no progress holds up nobody. */
static bool has_turn(const struct worker *worker)
{
	const struct keeper *keeper = worker->keeper;
	const struct worker *other;
	unsigned int nr = 0;

	for (other = keeper->workers; other; other = other->next)
		nr += other->at_work && now_ns() - other->progress < STUCK_NS;
	return worker->share->root || (keeper->line == worker && nr < MAX_TURNS);
}

/* First come, first served. The first one polls, since nothing reports a worker that is stuck. */
static void begin_turn(struct worker *worker)
{
	struct keeper *keeper = worker->keeper;
	struct worker **link = &keeper->line;

	while (*link)
		link = &(*link)->behind;
	*link = worker;
	while (!has_turn(worker)) {
		if (keeper->line == worker)
			wait_on(keeper, &worker->more, STUCK_NS / 4);
		else
			pthread_cond_wait(&worker->more, &keeper->lock);
	}
	for (link = &keeper->line; *link != worker; link = &(*link)->behind)
		;
	*link = worker->behind;
	worker->behind = NULL;
	worker->at_work = true;
	worker->progress = now_ns();
	call_next(keeper);
}

static void end_turn(struct worker *worker)
{
	worker->at_work = false;
	call_next(worker->keeper);
}

/* ------------------------------------------------------------------------ */
/* A worker								      */

static void do_job(struct worker *worker, const struct job *job)
{
	struct keeper *keeper = worker->keeper;

	switch (job->kind) {
	case JOB_EVENT:
		/* If it is not settled, the next process that has it may live longer. */
		if (keeper_see_process(worker, job->pid, job->address)) {
			keeper->recent[job->key % KEEPER_NR_RECENT].key = job->key;
			keeper->recent[job->key % KEEPER_NR_RECENT].when = now_ns();
		}
		break;
	case JOB_LOOK:
		keeper_see_process(worker, job->pid, 0);
		break;
	case JOB_PATH:
		keeper_see_named(worker, job->path);
		break;
	case JOB_LIST:
		keeper_list(worker, job->pid);
		break;
	case JOB_RETRY:
		keeper_try_again(worker, &job->file, job->address);
		break;
	case JOB_WALK:
		keeper_walk(worker, job->address);
		break;
	case JOB_KINDS:
		break;
	}
}

static void free_job(struct worker *worker, struct job *job)
{
	worker->nr_jobs[job->kind]--;
	free(job->path);
	free(job);
}

/*
 * The share also pays for the CPU time of this thread, as for the search for a place for a file.
 * It does not pay for jobs that are refused because it has no time left: otherwise it would
 * never have any again.
 */
static void finish_job(struct worker *worker, struct job *job)
{
	const __u64 before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	const bool is_served = share_has_time(worker->share);
	struct keeper *keeper = worker->keeper;
	struct share *other;

	worker->progress = now_ns();
	worker->moved = false;
	keeper_forget_old_shares(keeper);
	do_job(worker, job);
	if (is_served)
		share_take_time(worker->share, clock_ns(CLOCK_THREAD_CPUTIME_ID) - before);
	other = worker->moved && job->kind != JOB_RETRY ? keeper_share_of(keeper, job->pid) : NULL;
	if (other && other != worker->share)
		keeper_give(keeper, other, job);
	worker->progress = now_ns();
	if (!keeper->changes || (job->kind >= JOB_LOOK && job->kind <= JOB_LIST &&
				 worker->nr_jobs[job->kind] == 1))
		keeper_tell(keeper);
	keeper->changes = true;
	free_job(worker, job);
}

static struct job *take(struct worker *worker)
{
	const int later = !worker->first[0];
	struct job *job = worker->first[later];

	if (!job)
		return NULL;
	worker->first[later] = job->next;
	if (!job->next)
		worker->last[later] = &worker->first[later];
	job->next = NULL;
	return job;
}

static bool is_kept(const struct worker *worker)
{
	const struct worker *other;
	unsigned int nr = 0;

	for (other = worker->keeper->workers; other; other = other->next)
		nr += other != worker && other->reader.pid && !other->at_work;
	return nr < MAX_IDLE;
}

/* Returns whether there was anything. */
static bool do_next(struct worker *worker)
{
	struct keeper *keeper = worker->keeper;
	struct job *job = take(worker);

	if (job) {
		begin_turn(worker);
		finish_job(worker, job);
		end_turn(worker);
		return true;
	}
	/* There is a place for all its processes now. */
	if (worker->share->again && !keeper->scan_wanted) {
		keeper->scan_wanted = true;
		keeper_tell(keeper);
	}
	if (worker->share->root && keeper_walk_on(worker))
		return true;
	worker->progress = now_ns();
	wait_on(keeper, &worker->more, is_kept(worker) ? IDLE_NS : 0);
	return worker->first[0] || worker->first[1];
}

static void end(struct worker *worker)
{
	struct keeper *keeper = worker->keeper;
	struct worker **link = &keeper->workers;

	while (*link != worker)
		link = &(*link)->next;
	*link = worker->next;
	worker->share->worker = NULL;
	worker->share->users--;
	reader_close(&worker->reader);
	pthread_cond_destroy(&worker->more);
	free(worker);
	keeper_forget_old_shares(keeper);
}

static void *run(void *arg)
{
	struct worker *worker = arg;
	struct keeper *keeper = worker->keeper;

	pthread_mutex_lock(&keeper->lock);
	do {
		while (do_next(worker))
			;
		reader_stop(&worker->reader);
		if (worker->reader.hung >= 0)
			keeper_await_end(worker);
		/* There may be something to do again. */
	} while (worker->first[0] || worker->first[1]);
	end(worker);
	pthread_mutex_unlock(&keeper->lock);
	return NULL;
}

static bool begin(struct worker *worker)
{
	pthread_condattr_t monotonic;
	pthread_attr_t attr;
	pthread_t thread;
	int error;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&worker->more, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	error = pthread_create(&thread, &attr, run, worker);
	pthread_attr_destroy(&attr);
	return !error;
}

static struct worker *worker_of(struct keeper *keeper, struct share *share)
{
	struct worker *worker;

	if (share->worker)
		return share->worker;
	worker = calloc(1, sizeof(*worker));
	if (!worker)
		return NULL;
	worker->keeper = keeper;
	worker->share = share;
	worker->last[0] = &worker->first[0];
	worker->last[1] = &worker->first[1];
	worker->progress = now_ns();
	if (reader_open(&worker->reader, share->name, &keeper->lock)) {
		free(worker);
		return NULL;
	}
	if (!begin(worker)) {
		reader_close(&worker->reader);
		free(worker);
		return NULL;
	}
	worker->next = keeper->workers;
	keeper->workers = worker;
	share->worker = worker;
	share->users++;
	return worker;
}

/* ------------------------------------------------------------------------ */
/* Giving it jobs							      */

/*
 * Of many processes that have mapped the same file, the last one is the most likely to live on.
 */
static bool replace(struct worker *worker, const struct job *job)
{
	struct job *other;

	for (other = worker->first[0]; other; other = other->next) {
		if (other->kind != JOB_EVENT || other->key != job->key)
			continue;
		other->pid = job->pid;
		other->address = job->address;
		return true;
	}
	return false;
}

static bool is_idle(const struct worker *worker)
{
	int kind;

	for (kind = 0; kind < JOB_KINDS && !worker->nr_jobs[kind]; kind++)
		;
	return kind == JOB_KINDS;
}

bool keeper_give(struct keeper *keeper, struct share *share, const struct job *job)
{
	struct worker *worker = worker_of(keeper, share);
	const bool is_full = worker && job->kind == JOB_EVENT &&
			     worker->nr_jobs[JOB_EVENT] >= MAX_EVENTS;
	const int later = job->kind >= JOB_LIST;
	struct job *copy;

	if (worker && job->kind == JOB_EVENT && replace(worker, job))
		return true;
	copy = worker && !is_full ? malloc(sizeof(*copy)) : NULL;
	if (!copy) {
		share->again |= job->kind <= JOB_LOOK;
		share->unlisted |= job->kind == JOB_LIST;
		if (!worker)
			keeper->scan_wanted |= share->again;
		return false;
	}
	if (is_idle(worker))
		worker->progress = now_ns();
	*copy = *job;
	copy->path = job->path ? strdup(job->path) : NULL;
	copy->next = NULL;
	*worker->last[later] = copy;
	worker->last[later] = &copy->next;
	worker->nr_jobs[job->kind]++;
	pthread_cond_signal(&worker->more);
	return true;
}

static bool is_late(const struct worker *worker)
{
	return worker->at_work &&
	       now_ns() - worker->progress >= (worker->share->root ? ROOTS_LATE_NS : LATE_NS);
}

unsigned int keeper_awaits(const struct keeper *keeper, enum job_kind kind)
{
	const struct worker *worker;
	unsigned int nr = 0;

	for (worker = keeper->workers; worker; worker = worker->next)
		if (!is_late(worker))
			nr += worker->nr_jobs[kind];
	return nr;
}

void keeper_give_up_lists(struct keeper *keeper)
{
	struct worker *worker;
	struct job **link, *job;

	for (worker = keeper->workers; worker; worker = worker->next) {
		worker->share->unlisted |= worker->nr_jobs[JOB_LIST] > 0;
		for (link = &worker->first[1]; (job = *link); ) {
			if (job->kind != JOB_LIST) {
				link = &job->next;
				continue;
			}
			*link = job->next;
			free_job(worker, job);
		}
		worker->last[1] = link;
	}
}

bool keeper_is_own(const struct keeper *keeper, pid_t pid)
{
	const struct worker *worker;
	int i;

	/* 0 is the parent of PID 1, and stands in reader.pid where there is no reader. */
	if (pid <= 0)
		return false;
	for (i = 0; i < KEEPER_MAX_LEFT; i++)
		if (pid == keeper->left[i].pid)
			return true;
	for (worker = keeper->workers; worker; worker = worker->next)
		if (pid == worker->reader.pid || pid == worker->reader.hung_pid ||
		    pid == worker->reader.page->child)
			return true;
	return false;
}

void keeper_stop(struct keeper *keeper)
{
	const struct worker *worker;

	for (worker = keeper->workers; worker; worker = worker->next)
		if (worker->reader.pid)
			kill(worker->reader.pid, SIGKILL);
}
