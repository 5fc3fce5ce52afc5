// SPDX-License-Identifier: GPL-2.0
/* Handles the files that a walk finds: see ahead.h */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* At most this many files are kept ahead, for programs that need not run. */
#define MAX_AHEAD	(FILES_MAX / 2)

struct reader_page *keeper_page(struct worker *worker)
{
	return worker->reader.page;
}

enum outcome keeper_ask_path(struct worker *worker, enum reader_question question,
			     const char *directory, const char *path)
{
	struct reader_page *page = worker->reader.page;

	snprintf(page->directory, sizeof(page->directory), "%s", directory);
	snprintf(page->path, sizeof(page->path), "%s", path);
	return keeper_ask(worker, question, 0, 0);
}

void keeper_complain_named(struct worker *worker, const char *named)
{
	keeper_complain(worker->keeper, worker->share, "%s: no tables can be made ahead: %s", named,
			strerror(worker->reader.page->error));
}

static struct file *make_ahead(struct worker *worker, const struct mapping *mapping)
{
	struct keeper *keeper = worker->keeper;
	struct file *file;

	if (!keeper->ahead_full && keeper->files.nr_ahead >= MAX_AHEAD)
		keeper_complain_ahead(keeper, worker->reader.page->name,
				      "there are enough files");
	if (keeper->ahead_full)
		return NULL;
	keeper_new_table(worker, worker->share, 0, 0, &mapping->id);
	file = files_find(&keeper->files, mapping);
	if (!file || file->state != FILE_FULL)
		return file;
	files_forget(&keeper->files, file);
	return NULL;
}

/* Attach the table of a file anew. Does it still fit? */
static bool still_fits(struct worker *worker, const struct file *file)
{
	const struct held held = files_hold(file);

	return file->state != FILE_TABLE ||
	       keeper_attach_again(worker, 0, 0, &held) != OUTCOME_CHANGED;
}

/* Mapped files get missing tables in other ways. */
static void see_to_path(struct worker *worker, const struct mapping *mapping)
{
	struct files *files = &worker->keeper->files;
	struct file *file;
	bool fits;

	if (keeper_excludes_user(worker->keeper, &mapping->id))
		return;
	keeper_await_maker(worker, &mapping->id);
	file = files_find(files, mapping);
	fits = file && same_content(&file->id, &mapping->id) && still_fits(worker, file);
	file = files_find(files, mapping);
	if (file && !fits) {
		files_forget(files, file);
		file = NULL;
	}
	if (!file || (file->unused_since && (file->state == FILE_BUSY ||
					     file->state == FILE_SHARED)))
		file = make_ahead(worker, mapping);
	if (!file)
		return;
	file->walk = worker->keeper->walk;
	files_set_ahead(files, file, true);
}

enum outcome keeper_see_path(struct worker *worker, const char *directory, const char *path)
{
	unsigned int hangs = worker->hangs;
	enum outcome outcome;
	struct mapping mapping;

	outcome = keeper_ask_path(worker, READER_LOOK, directory, path);
	if (outcome)
		return outcome;
	mapping = worker->reader.page->mappings[0];
	worker->on_walk = true;
	see_to_path(worker, &mapping);
	worker->on_walk = false;
	return hangs == worker->hangs ? OUTCOME_DONE : OUTCOME_SLOW;
}

/* Of this process and of all readers */
static __u64 cpu_ns(const struct keeper *keeper)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) + keeper->files.stats.cpu_ns;
}

void keeper_walk_begins(struct worker *worker)
{
	struct keeper *keeper = worker->keeper;

	keeper->walk++;
	keeper->walk_cpu_ns = cpu_ns(keeper);
	keeper->kernel_max = kernel_max_bytes();
	keeper->ahead_was_full = keeper->ahead_full;
	keeper->ahead_full = false;
}

void keeper_walk_ends(struct worker *worker)
{
	struct keeper *keeper = worker->keeper;
	struct file *file, *next;

	for (file = files_next(&keeper->files, NULL); file; file = next) {
		next = files_next(&keeper->files, file);
		if (!file->ahead || file->walk == keeper->walk)
			continue;
		files_set_ahead(&keeper->files, file, false);
		if (file->unused_since)
			keeper_drop(keeper, file);
	}
}

void keeper_walk(struct worker *worker, bool anew)
{
	struct ahead *ahead = worker->keeper->ahead;

	if (anew || (!ahead_is_walking(ahead) && ahead_is_outdated(ahead, worker)))
		ahead_start(ahead);
}

bool keeper_walk_on(struct worker *worker)
{
	struct keeper *keeper = worker->keeper;

	if (!keeper->ahead || !ahead_is_walking(keeper->ahead))
		return false;
	ahead_step(keeper->ahead, worker);
	if (ahead_is_walking(keeper->ahead))
		return true;
	keeper->files.stats.ahead_cpu_ns = cpu_ns(keeper) - keeper->walk_cpu_ns;
	keeper->walked = true;
	keeper->changes = true;
	keeper_tell(keeper);
	return true;
}

void keeper_ahead(struct keeper *keeper)
{
	const struct job job = { .kind = JOB_WALK, .address = true };

	if (keeper->ahead)
		keeper_give(keeper, keeper->root, &job);
}

bool keeper_has_walked(struct keeper *keeper)
{
	bool walked = keeper->walked;

	keeper->walked = false;
	return walked;
}
