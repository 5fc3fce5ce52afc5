// SPDX-License-Identifier: GPL-2.0
/*
 * Keeper of tables: remembers which files were seen, which table is for which file,
 * and which files have none and why. It alone has the device. Everything that can block or
 * crash is done by readers, see worker.c. This part finds out whose work it is.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

/* A refused vDSO, which is not at fault, is tried again after this. */
#define VDSO_SECONDS	2
/* A file that was looked at is not looked at again for so long. */
#define RECENT_NS	1000000000ll
/* So many processes are given to their shares before something else is done. */
#define PROCESSES_AT_ONCE 64

void keeper_complain(struct keeper *keeper, struct share *share, const char *format, ...)
{
	char message[512];
	va_list args;

	if (share && !share_may_complain(share))
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	keeper->opts.complain(keeper->opts.arg, message);
}

time_t keeper_say_left_out(struct keeper *keeper)
{
	struct share *share;
	unsigned int nr;
	time_t next = 0;

	for (share = keeper->files.shares.first; share; share = share->next) {
		nr = share_left_out(share);
		if (nr)
			keeper_complain(keeper, NULL,
					"%s: %u messages about its files were left out",
					share->name, nr);
		if (share->left_out && (!next || share->say_at < next))
			next = share->say_at;
	}
	return next;
}

void keeper_complain_denied(struct keeper *keeper)
{
	if (!keeper->files.stats.denied++)
		keeper_complain(keeper, NULL,
				"CAP_SYS_ADMIN is missing: only files of user %u get tables from here, except on overlayfs; all others, and the vDSO, have those of the service unwind-tables, if that runs",
				geteuid());
}

/* The vDSO is the same for all. If we may not or need not attach a table, another service has. */
void keeper_see_to_vdso(struct keeper *keeper)
{
	struct made made = { };
	enum outcome outcome;

	if (keeper->vdso_done || now_seconds() < keeper->vdso_retry)
		return;
	outcome = kernel_make_vdso(&keeper->kernel, &made);
	keeper->has_vdso = !outcome;
	keeper->vdso_done = !outcome || outcome == OUTCOME_NO_CFI || outcome == OUTCOME_SHARED ||
			    outcome == OUTCOME_DENIED;
	if (outcome == OUTCOME_DENIED)
		keeper_complain_denied(keeper);
	else if (!keeper->vdso_done && !keeper->vdso_retry)
		keeper_complain(keeper, NULL, "[vdso]: no table for it: %s",
				strerror(keeper->kernel.error));
	if (!outcome) {
		keeper->files.stats.tables++;
		keeper->files.stats.bytes += made.bytes;
	}
	keeper->vdso_retry = now_seconds() + VDSO_SECONDS;
}

/* ------------------------------------------------------------------------ */
/* The share of a process						      */

void keeper_set_share(struct keeper *keeper, const struct process *process, struct share *share)
{
	unsigned int slot = process->pid % KEEPER_NR_MAPPERS;

	if (!process_is(&keeper->mappers[slot].process, process))
		keeper->mappers[slot].slow_until = 0;
	keeper->mappers[slot].process = *process;
	keeper->mappers[slot].share = share;
}

struct share *keeper_share_of(struct keeper *keeper, pid_t pid)
{
	const struct process process = process_of(pid);
	unsigned int slot = pid % KEEPER_NR_MAPPERS;
	struct share *share;
	struct owner owner;
	char name[16];
	int proc;
	bool known;

	if (!process.identity)
		return NULL;
	if (keeper->mappers[slot].share && process_is(&keeper->mappers[slot].process, &process))
		return keeper->mappers[slot].share;
	snprintf(name, sizeof(name), "%d", pid);
	proc = process_open_proc(name, O_PATH | O_DIRECTORY);
	if (proc < 0)
		return NULL;
	known = owner_read(proc, &owner);
	close(proc);
	if (!known)
		return NULL;
	share = share_of_process(&keeper->files.shares, &owner);
	if (share)
		keeper_set_share(keeper, &process, share);
	return share;
}

void keeper_leave_alone(struct keeper *keeper, const struct process *process)
{
	unsigned int slot = process->pid % KEEPER_NR_MAPPERS;

	if (process_is(&keeper->mappers[slot].process, process))
		keeper->mappers[slot].slow_until = now_seconds() + KEEPER_SLOW_SECONDS;
}

bool keeper_leaves_alone(const struct keeper *keeper, const struct process *process)
{
	unsigned int slot = process->pid % KEEPER_NR_MAPPERS;

	return process_is(&keeper->mappers[slot].process, process) &&
	       now_seconds() < keeper->mappers[slot].slow_until;
}

void keeper_forget_mappers(struct keeper *keeper)
{
	int i;

	for (i = 0; i < KEEPER_NR_MAPPERS; i++)
		keeper->mappers[i].share = NULL;
}

void keeper_forget_old_shares(struct keeper *keeper)
{
	struct file *file, *next;
	struct share *share;

	while ((share = shares_oldest(&keeper->files.shares))) {
		for (file = files_next(&keeper->files, NULL); file; file = next) {
			next = files_next(&keeper->files, file);
			if (file->share == share)
				keeper_drop(keeper, file);
		}
		keeper_forget_mappers(keeper);
		shares_remove(&keeper->files.shares, share);
	}
}

/* ------------------------------------------------------------------------ */
/* Files to look at							      */

/* The first mappings of a process that hangs are known. */
static bool see_to_listed(struct worker *worker, pid_t pid)
{
	const struct reader_page *page = worker->reader.page;
	struct mapping *mappings;
	bool settled = false;
	unsigned int i, nr;

	/* The answers to further questions overwrite these. */
	nr = worker->reader.nr_mappings;
	mappings = malloc(nr * sizeof(*mappings));
	if (!mappings)
		return false;
	memcpy(mappings, page->mappings, nr * sizeof(*mappings));
	for (i = 0; i < nr; i++)
		settled = keeper_see_to(worker, pid, &mappings[i]);
	free(mappings);
	return settled;
}

bool keeper_see_process(struct worker *worker, pid_t pid, __u64 address)
{
	const struct reader_page *page = worker->reader.page;
	struct keeper *keeper = worker->keeper;

	if (!share_has_time(worker->share) || keeper_ask(worker, READER_LOOK, pid, address))
		return false;
	/* Only this cgroup is excluded: others may have the same files mapped. */
	if (exclude_has(&keeper->exclude, EXCLUDE_CGROUP, page->mapper.cgroup))
		return false;
	if (page->more_mappings)
		keeper_complain(keeper, worker->share,
				"process %d: only the first %d of its mappings are looked at",
				pid, READER_MAX_MAPPINGS);
	return see_to_listed(worker, pid) && address;
}

void keeper_see_named(struct worker *worker, const char *path)
{
	struct mapping mapping;

	if (keeper_ask_path(worker, READER_LOOK, "", path))
		return;
	mapping = worker->reader.page->mappings[0];
	keeper_see_to(worker, 0, &mapping);
}

/*
 * 0 and -1 are processes of other PID namespaces. Readers map files to attach their tables; their
 * children, such as parsers, belong to no share.
 */
static bool does_not_count(const struct keeper *keeper, pid_t pid)
{
	return pid <= 0 || keeper_is_own(keeper, pid);
}

/*
 * The share of the process pays for this. A share without time is not served; one that waits for
 * a hanging process will be.
 */
static void give_process(struct keeper *keeper, const struct job *job, bool in_any_case)
{
	const __u64 before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct share *share;

	share = does_not_count(keeper, job->pid) ? NULL : keeper_share_of(keeper, job->pid);
	if (!share || !(in_any_case || share->looked_at))
		return;
	if (job->kind == JOB_LOOK && share->looks) {
		share->again = true;
		return;
	}
	if (share_has_time(share) || share->hung) {
		keeper_give(keeper, share, job);
		share_take_time(share, clock_ns(CLOCK_THREAD_CPUTIME_ID) - before);
	} else if (job->kind == JOB_LIST) {
		share->unlisted = true;
	}
}

void keeper_map(struct keeper *keeper, pid_t pid, uint64_t address, uint64_t key)
{
	const struct job job = { .kind = JOB_EVENT, .pid = pid, .address = address, .key = key };
	const unsigned int slot = key % KEEPER_NR_RECENT;

	if (keeper->recent[slot].key != key || now_ns() - keeper->recent[slot].when >= RECENT_NS)
		give_process(keeper, &job, true);
}

void keeper_path(struct keeper *keeper, const char *path)
{
	const struct job job = { .kind = JOB_PATH, .path = (char *)path };

	keeper_see_to_vdso(keeper);
	keeper_give(keeper, keeper->root, &job);
}

void keeper_process(struct keeper *keeper, pid_t pid)
{
	const struct job job = { .kind = JOB_LOOK, .pid = pid };

	give_process(keeper, &job, true);
}

bool keeper_give_processes(struct keeper *keeper, DIR **proc, enum job_kind kind)
{
	const bool all = kind != JOB_LOOK || keeper->scan_all;
	struct job job = { .kind = kind };
	struct dirent *entry;
	int i;

	for (i = 0; i < PROCESSES_AT_ONCE; i++) {
		entry = readdir(*proc);
		if (!entry) {
			closedir(*proc);
			*proc = NULL;
			return false;
		}
		job.pid = atoi(entry->d_name);
		if (isdigit((unsigned char)entry->d_name[0]))
			give_process(keeper, &job, all);
	}
	return true;
}

void keeper_scan(struct keeper *keeper, bool all)
{
	struct share *share;

	keeper_see_to_vdso(keeper);
	if (keeper->scan)
		closedir(keeper->scan);
	keeper->scan = process_list_proc();
	keeper->scan_all = all;
	keeper->scan_wanted = false;
	for (share = keeper->files.shares.first; share; share = share->next) {
		share->looked_at = share->again;
		share->again = false;
		share->looks = share->worker && share->worker->nr_jobs[JOB_LOOK];
	}
}

bool keeper_scan_on(struct keeper *keeper)
{
	return keeper->scan && keeper_give_processes(keeper, &keeper->scan, JOB_LOOK);
}

bool keeper_wants_scan(const struct keeper *keeper)
{
	return keeper->scan_wanted;
}

/* ------------------------------------------------------------------------ */

int keeper_open(struct keeper **keeperp, const struct keeper_opts *opts)
{
	pthread_condattr_t monotonic;
	struct keeper *keeper;
	int error;

	keeper = calloc(1, sizeof(*keeper));
	if (!keeper)
		return -ENOMEM;
	keeper->opts = *opts;
	keeper->files.kernel = &keeper->kernel;
	keeper->sweep.last = now_seconds();
	error = kernel_open(&keeper->kernel, opts->device);
	if (error) {
		free(keeper);
		return error;
	}
	pthread_mutex_init(&keeper->lock, NULL);
	pthread_mutex_lock(&keeper->lock);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&keeper->changed, &monotonic);
	keeper->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = keeper->news < 0 ? -errno : 0;
	shares_open(&keeper->files.shares);
	keeper->root = share_of_root(&keeper->files.shares);
	if (!error && !keeper->root)
		error = -ENOMEM;
	if (!error && opts->ahead)
		error = ahead_open(&keeper->ahead, opts->ahead);
	if (error)
		keeper_close(keeper);
	else
		*keeperp = keeper;
	return error;
}

void keeper_close(struct keeper *keeper)
{
	if (!keeper)
		return;
	close(keeper->news);
	close(keeper->kernel.device);
	ahead_close(keeper->ahead);
	files_free(&keeper->files);
	free(keeper);
}

void keeper_lock(struct keeper *keeper)
{
	pthread_mutex_lock(&keeper->lock);
}

void keeper_unlock(struct keeper *keeper)
{
	pthread_mutex_unlock(&keeper->lock);
}

int keeper_news(const struct keeper *keeper)
{
	return keeper->news;
}

void keeper_tell(struct keeper *keeper)
{
	eventfd_write(keeper->news, 1);
}

void keeper_hear_news(struct keeper *keeper)
{
	eventfd_t nr;

	eventfd_read(keeper->news, &nr);
}

int keeper_device(const struct keeper *keeper)
{
	return keeper->kernel.device;
}

bool keeper_has_changed(const struct keeper *keeper)
{
	return keeper->changes;
}

void keeper_publish_shares(struct keeper *keeper)
{
	int error = shares_publish(&keeper->files.shares);

	keeper->changes = false;
	if (error)
		keeper_complain(keeper, NULL, "cannot publish shares: %s", strerror(-error));
}

/* If the exclusions have changed, all files are forgotten. */
void keeper_exclude(struct keeper *keeper, const char *path)
{
	struct exclude *exclude = &keeper->exclude, before = *exclude;
	struct file *file;
	int error;

	error = exclude_read(exclude, path);
	if (error)
		*exclude = before;
	if (error > 0)
		keeper_complain(keeper, NULL,
				"%s, line %d: neither path, user (of /etc/passwd, or a number) nor cgroup; the file is not used",
				path, error);
	else if (error)
		keeper_complain(keeper, NULL, "%s: cannot be used: %s", path, strerror(-error));
	if (before.len == exclude->len && !memcmp(before.all, exclude->all, before.len))
		return;
	keeper->nr_excludes++;
	while ((file = files_next(&keeper->files, NULL)))
		files_forget(&keeper->files, file);
}

const struct keeper_stats *keeper_stats(const struct keeper *keeper)
{
	return &keeper->files.stats;
}
