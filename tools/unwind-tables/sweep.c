// SPDX-License-Identifier: GPL-2.0
/*
 * Checks which files are still mapped: drops tables that are not needed, and has failed ones tried
 * again. The shares' own threads do all that takes long.
 */
#include <string.h>

#include "internal.h"

/* A sweep to make room comes at least this long after the last sweep. */
#define SWEEP_SECONDS	10
/* The longest wait for all lists together */
#define LISTS_NS	(20 * NSEC_PER_SEC)

/* Mark the files that the reader has just listed. */
static void mark_mapped(struct worker *worker, pid_t pid)
{
	const struct reader_page *page = worker->reader.page;
	/* If the PID is this process now, it was when the mappings were listed. */
	const struct process process = process_of(pid);
	const struct mapping *mapping;
	struct file *file;
	unsigned int i;

	for (i = 0; i < worker->reader.nr_mappings; i++) {
		mapping = &page->mappings[i];
		for (file = files_first_of(&worker->keeper->files, mapping); file;
		     file = files_next_of(file)) {
			if (!file->seen_pid) {
				file->seen_pid = pid;
				file->seen_address = mapping->start;
			}
			if (file->address == mapping->start && process_is(&file->witness, &process))
				file->witnessed = true;
		}
	}
}

void keeper_list(struct worker *worker, pid_t pid)
{
	/* Its mappings are not known. */
	if (!share_has_time(worker->share) ||
	    keeper_ask(worker, READER_LIST, pid, 0) == OUTCOME_SLOW)
		worker->share->unlisted = true;
	else
		mark_mapped(worker, pid);
}

/* Would it help to look at a file again that is still mapped? */
static bool is_due(const struct file *file, bool dropped)
{
	switch (file->state) {
	case FILE_TABLE:
		return !file->witnessed;
	case FILE_SHARED:
	case FILE_FULL:
		return dropped;
	case FILE_BUSY:
		return now_seconds() >= file->retry;
	default:
		return false;
	}
}

/* A file that no process has mapped. Its table is not needed, or not now. */
static bool is_unused(const struct file *file)
{
	return !file->seen_pid;
}

static void unmark_all(struct keeper *keeper)
{
	struct file *file;

	for (file = files_next(&keeper->files, NULL); file;
	     file = files_next(&keeper->files, file)) {
		file->seen_pid = 0;
		file->witnessed = false;
	}
}

static bool is_any_unseen(const struct keeper *keeper)
{
	const struct file *file = files_next(&keeper->files, NULL);

	while (file && (!is_unused(file) || file->ahead))
		file = files_next(&keeper->files, file);
	return file;
}

static int drop_unused(struct keeper *keeper)
{
	const __u64 before = keeper->files.stats.dropped;
	struct file *file, *next;
	time_t now = now_seconds();
	struct share *share;
	int dropped;

	keeper->files.stats.unused = 0;
	for (file = files_next(&keeper->files, NULL); file; file = next) {
		next = files_next(&keeper->files, file);
		if (!is_unused(file)) {
			file->unused_since = 0;
			file->mapped_at = now;
			continue;
		}
		/* Its processes have not been looked at. */
		if (file->share->unlisted)
			continue;
		if (!file->unused_since)
			file->unused_since = now;
		if (file->ahead)
			continue;
		if (!file->share->needy && now - file->unused_since < keeper->opts.keep_seconds)
			keeper->files.stats.unused++;
		else
			keeper_drop(keeper, file);
	}
	dropped = keeper->files.stats.dropped - before;
	for (share = keeper->files.shares.first; share; share = share->next) {
		share->needy = false;
		if (keeper->files.nr < FILES_MAX)
			share->lacks &= ~SHARE_FILES;
		if (dropped)
			share->lacks &= ~SHARE_ROOM;
	}
	return dropped;
}

/* To the worker of the process that has it mapped, which may look at that */
static void give_due(struct keeper *keeper, bool dropped)
{
	struct job job = { .kind = JOB_RETRY, .address = dropped };
	struct share *share;
	struct file *file;

	for (file = files_next(&keeper->files, NULL); file;
	     file = files_next(&keeper->files, file)) {
		if (file->queued || is_unused(file) || !is_due(file, dropped))
			continue;
		share = keeper_share_of(keeper, file->seen_pid);
		job.file.dev = file->maps_dev;
		job.file.ino = file->maps_ino;
		job.file.id = file->id;
		file->queued = share && keeper_give(keeper, share, &job);
	}
}

void keeper_try_again(struct worker *worker, const struct mapping *due, bool dropped)
{
	struct file *file = files_find(&worker->keeper->files, due);

	if (!file)
		return;
	file->queued = false;
	if (!is_due(file, dropped) || is_unused(file))
		return;
	if (file->state == FILE_TABLE)
		keeper_attach_to_seen(worker, file);
	else if (!share_has_time(file->share))
		file->retry = now_seconds() + share_wait(file->share);
	else
		keeper_new_table(worker, file->share, file->seen_pid, file->seen_address, &due->id);
}

static void begin(struct keeper *keeper)
{
	struct sweep *sweep = &keeper->sweep;
	struct share *share;

	keeper_see_to_vdso(keeper);
	for (share = keeper->files.shares.first; share; share = share->next)
		share->unlisted = false;
	unmark_all(keeper);
	sweep->proc = process_list_proc();
	sweep->runs = sweep->proc;
	sweep->again = false;
	sweep->wanted = false;
}

static void end(struct keeper *keeper)
{
	const struct job walk = { .kind = JOB_WALK };
	bool dropped;

	keeper->sweep.runs = false;
	keeper->sweep.last = now_seconds();
	dropped = drop_unused(keeper) || keeper->made_room;
	keeper->made_room = false;
	give_due(keeper, dropped);
	keeper_forget_mappers(keeper);
	shares_tidy(&keeper->files.shares);
	if (keeper->ahead)
		keeper_give(keeper, keeper->root, &walk);
}

bool keeper_sweep(struct keeper *keeper)
{
	struct sweep *sweep = &keeper->sweep;

	if (!sweep->runs) {
		begin(keeper);
		return sweep->runs;
	}
	if (sweep->proc) {
		keeper_give_processes(keeper, &sweep->proc, JOB_LIST);
		sweep->given = now_ns();
		return true;
	}
	/* Nobody may delay the end by answers that come just in time. */
	if (keeper_awaits(keeper, JOB_LIST) && now_ns() - sweep->given < LISTS_NS)
		return true;
	keeper_give_up_lists(keeper);
	/*
	 * A process may have got a PID that had already been passed, as the child of one that
	 * ended before.
	 */
	if (!sweep->again && is_any_unseen(keeper)) {
		sweep->again = true;
		sweep->proc = process_list_proc();
		if (sweep->proc)
			return true;
	}
	end(keeper);
	return false;
}

bool keeper_is_busy(const struct keeper *keeper)
{
	return keeper->sweep.proc || keeper->scan;
}

time_t keeper_sweep_at(const struct keeper *keeper)
{
	return keeper->sweep.wanted ? keeper->sweep.last + SWEEP_SECONDS : 0;
}

void keeper_others_went(struct keeper *keeper)
{
	struct share *share;

	for (share = keeper->files.shares.first; share; share = share->next)
		share->lacks &= ~SHARE_ROOM;
	keeper->made_room = true;
	if (!keeper->has_vdso) {
		keeper->vdso_done = false;
		keeper->vdso_retry = 0;
	}
	keeper_see_to_vdso(keeper);
	keeper->sweep.wanted = true;
	keeper->sweep.last = 0;
	if (keeper->ahead_full)
		keeper_ahead(keeper);
}
