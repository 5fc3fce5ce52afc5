/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_AHEAD_H
#define __UNWIND_TABLES_AHEAD_H

/*
 * The keeper's walk through directories whose programs and libraries get tables before
 * they run: ahead.c knows the way, walk.c the files.
 */

#include <stdbool.h>

#include "reader.h"

struct worker;
struct ahead;

/* Directories, or single files; the last one is NULL. */
int ahead_open(struct ahead **ahead, const char * const *named);
void ahead_close(struct ahead *ahead);

/* Start from the beginning, even in the middle of a walk. */
void ahead_start(struct ahead *ahead);
bool ahead_is_walking(const struct ahead *ahead);

/* Look at one file, or read a part of a directory. */
void ahead_step(struct ahead *ahead, struct worker *worker);

/* Has one of the directories with programs been changed since it was read? */
bool ahead_is_outdated(struct ahead *ahead, struct worker *worker);

/* walk.c and keeper.c */

/* Ask the reader about a path. The page has the answer. */
enum outcome keeper_ask_path(struct worker *worker, enum reader_question question,
			     const char *directory, const char *path);
struct reader_page *keeper_page(struct worker *worker);

/*
 * A file on the way. OUTCOME_DONE if it is a program or a library, whether there is a table for
 * it or not; OUTCOME_SLOW if it did not answer.
 */
enum outcome keeper_see_path(struct worker *worker, const char *directory, const char *path);

void keeper_walk_begins(struct worker *worker);
/* Nothing was left out, so files that the walk did not meet have been removed or replaced. */
void keeper_walk_ends(struct worker *worker);

/* The named path that was asked about last does not exist, or cannot be used. */
void keeper_complain_named(struct worker *worker, const char *named);

#endif /* __UNWIND_TABLES_AHEAD_H */
