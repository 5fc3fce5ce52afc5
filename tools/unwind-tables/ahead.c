// SPDX-License-Identifier: GPL-2.0
/*
 * The keeper's walk through directories, whose programs and libraries get tables
 * before they run. It goes in small steps, so that its caller can handle programs that
 * start in between. The keeper's reader does all the reading; this file only keeps
 * track of the questions that remain.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ahead.h"

/* After this many unanswered questions, the rest of a named directory is skipped. */
#define MAX_HANGS	3

/* A directory to look at again when it has changed */
struct place {
	unsigned int named;
	struct file_id id;
	char *path;
};

struct ahead {
	const char **named;
	unsigned int nr_named;
	/* The named directory that the walk is in, and the paths still to be read there */
	unsigned int at_named;
	bool inside;
	char **pending;
	size_t nr_pending;
	size_t max_pending;
	unsigned int hangs;
	/* The directory that is being read. NULL: none */
	char *path;
	struct file_id id;
	__u64 position;
	bool end;
	bool has_program;
	/* The names found there, in the reader's format */
	char names[READER_MAX_NAMES + 1];
	size_t at_name;
	size_t names_len;
	/* The directories that were named, and those with programs */
	struct place *places;
	size_t nr_places;
	size_t max_places;
	bool walking;
	/* Nothing had to be left out so far. */
	bool whole;
};

int ahead_open(struct ahead **aheadp, const char * const *named)
{
	struct ahead *ahead;
	unsigned int nr = 0;

	while (named[nr])
		nr++;
	ahead = calloc(1, sizeof(*ahead));
	if (!ahead)
		return -ENOMEM;
	ahead->named = calloc(nr, sizeof(*ahead->named));
	if (!ahead->named) {
		free(ahead);
		return -ENOMEM;
	}
	memcpy(ahead->named, named, nr * sizeof(*ahead->named));
	ahead->nr_named = nr;
	ahead_start(ahead);
	*aheadp = ahead;
	return 0;
}

static void leave_directory(struct ahead *ahead)
{
	free(ahead->path);
	ahead->path = NULL;
	ahead->at_name = 0;
	ahead->names_len = 0;
}

static void forget_pending(struct ahead *ahead)
{
	while (ahead->nr_pending)
		free(ahead->pending[--ahead->nr_pending]);
}

static void forget_places(struct ahead *ahead)
{
	while (ahead->nr_places)
		free(ahead->places[--ahead->nr_places].path);
}

void ahead_close(struct ahead *ahead)
{
	if (!ahead)
		return;
	leave_directory(ahead);
	forget_pending(ahead);
	forget_places(ahead);
	free(ahead->pending);
	free(ahead->places);
	free(ahead->named);
	free(ahead);
}

void ahead_start(struct ahead *ahead)
{
	leave_directory(ahead);
	forget_pending(ahead);
	ahead->at_named = 0;
	ahead->inside = false;
	ahead->walking = true;
}

bool ahead_is_walking(const struct ahead *ahead)
{
	return ahead->walking;
}

/* Room for one more in an array */
static bool grow(void *arrayp, size_t *max, size_t nr, size_t size)
{
	void **array = arrayp, *more;

	if (nr < *max)
		return true;
	more = realloc(*array, (*max * 2 + 64) * size);
	if (!more)
		return false;
	*array = more;
	*max = *max * 2 + 64;
	return true;
}

static bool add_pending(struct ahead *ahead, const char *path)
{
	char *copy;

	if (!grow(&ahead->pending, &ahead->max_pending, ahead->nr_pending,
		  sizeof(*ahead->pending)))
		return false;
	copy = strdup(path);
	if (copy)
		ahead->pending[ahead->nr_pending++] = copy;
	return copy;
}

/* Note the directory that is being read, once. Without memory it is not looked at again. */
static void add_place(struct ahead *ahead)
{
	struct place *place;

	if (ahead->has_program)
		return;
	ahead->has_program = true;
	if (!grow(&ahead->places, &ahead->max_places, ahead->nr_places,
		  sizeof(*ahead->places)))
		return;
	place = &ahead->places[ahead->nr_places];
	place->named = ahead->at_named;
	place->id = ahead->id;
	place->path = strdup(ahead->path);
	if (place->path)
		ahead->nr_places++;
}

/* Skip the rest of the directory that was named. */
static void leave_named(struct ahead *ahead)
{
	leave_directory(ahead);
	forget_pending(ahead);
	ahead->whole = false;
}

static void hung(struct ahead *ahead)
{
	ahead->whole = false;
	if (++ahead->hangs == MAX_HANGS)
		leave_named(ahead);
}

/* The name is not of a directory: it may be of a program. */
static enum outcome see_named(struct ahead *ahead, struct worker *worker)
{
	const char *named = ahead->named[ahead->at_named];
	const char *slash = strrchr(named, '/');
	const char *name = slash ? slash + 1 : named;
	char directory[READER_MAX_PATH];
	enum outcome outcome;

	snprintf(directory, sizeof(directory), "%.*s", (int)(name - named), named);
	outcome = keeper_see_path(worker, slash ? directory : ".", name);
	if (outcome && outcome != OUTCOME_SLOW)
		keeper_complain_named(worker, named);
	return outcome;
}

/* The next part of the directory that the walk is in */
static void read_names(struct ahead *ahead, struct worker *worker)
{
	const char *named = ahead->named[ahead->at_named];
	struct reader_page *page = keeper_page(worker);
	bool first = !ahead->position;
	enum outcome outcome;

	page->position = ahead->position;
	outcome = keeper_ask_path(worker, READER_NAMES, named, ahead->path);
	if (outcome) {
		if (!ahead->path[0] && outcome == OUTCOME_NO_DIRECTORY)
			outcome = see_named(ahead, worker);
		/* Others may have been removed meanwhile, or have something mounted. */
		else if (!ahead->path[0] && outcome != OUTCOME_SLOW)
			keeper_complain_named(worker, named);
		if (outcome && outcome != OUTCOME_GONE && outcome != OUTCOME_EXCLUDED)
			ahead->whole = false;
		leave_directory(ahead);
		if (outcome == OUTCOME_SLOW)
			hung(ahead);
		return;
	}
	ahead->position = page->position;
	ahead->end = page->end;
	ahead->at_name = 0;
	ahead->names_len = page->names_len;
	/* The reader is not trusted with the length. */
	if (ahead->names_len > sizeof(page->names))
		ahead->names_len = sizeof(page->names);
	memcpy(ahead->names, page->names, ahead->names_len);
	ahead->names[ahead->names_len] = '\0';
	if (first) {
		ahead->id = page->mappings[0].id;
		if (!ahead->path[0])
			add_place(ahead);
	}
}

static void see_name(struct ahead *ahead, struct worker *worker)
{
	char kind = ahead->names[ahead->at_name], path[READER_MAX_PATH];
	const char *name = &ahead->names[ahead->at_name + 1];
	enum outcome outcome;
	int len;

	ahead->at_name += strlen(name) + 2;
	len = snprintf(path, sizeof(path), "%s%s%s", ahead->path,
		       ahead->path[0] ? "/" : "", name);
	if (len >= (int)sizeof(path))
		return;

	if (kind == 'd') {
		if (!add_pending(ahead, path))
			ahead->whole = false;
		return;
	}
	outcome = keeper_see_path(worker, ahead->named[ahead->at_named], path);
	if (!outcome)
		add_place(ahead);
	else if (outcome == OUTCOME_SLOW)
		hung(ahead);
}

static void enter_directory(struct ahead *ahead, char *path)
{
	ahead->path = path;
	ahead->position = 0;
	ahead->end = false;
	ahead->has_program = false;
}

static void begin(struct ahead *ahead, struct worker *worker)
{
	forget_places(ahead);
	ahead->whole = true;
	keeper_walk_begins(worker);
}

/* Into the next directory, or to the end */
static void go_on(struct ahead *ahead, struct worker *worker)
{
	leave_directory(ahead);
	if (ahead->nr_pending) {
		enter_directory(ahead, ahead->pending[--ahead->nr_pending]);
		return;
	}
	if (ahead->inside)
		ahead->at_named++;
	else
		begin(ahead, worker);
	ahead->inside = true;
	if (ahead->at_named == ahead->nr_named) {
		ahead->walking = false;
		if (ahead->whole)
			keeper_walk_ends(worker);
		return;
	}
	ahead->hangs = 0;
	enter_directory(ahead, strdup(""));
	if (!ahead->path)
		ahead->whole = false;
}

void ahead_step(struct ahead *ahead, struct worker *worker)
{
	if (ahead->path && ahead->at_name < ahead->names_len)
		see_name(ahead, worker);
	else if (ahead->path && !ahead->end)
		read_names(ahead, worker);
	else
		go_on(ahead, worker);
}

bool ahead_is_outdated(struct ahead *ahead, struct worker *worker)
{
	const struct reader_page *page = keeper_page(worker);
	const struct file_id *id = &page->mappings[0].id;
	const struct place *place;
	enum outcome outcome;

	for (place = ahead->places; place < ahead->places + ahead->nr_places; place++) {
		outcome = keeper_ask_path(worker, READER_TIME, ahead->named[place->named],
					  place->path);
		if (outcome == OUTCOME_SLOW)
			return false;
		if (outcome || id->dev != place->id.dev || id->ino != place->id.ino ||
		    id->mtime_sec != place->id.mtime_sec ||
		    id->mtime_nsec != place->id.mtime_nsec)
			return true;
	}
	return false;
}
