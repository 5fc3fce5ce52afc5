/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_KEEPER_AHEAD_H
#define __UNWIND_KEEPER_AHEAD_H

/*
 * The keeper's walk through directories whose programs and libraries get tables before
 * they run: keeper-ahead.c knows the way, keeper.c the files.
 */

#include <stdbool.h>

#include "keeper-reader.h"

struct unwind_keeper;
struct ahead;

/* Directories, or single files; the last one is NULL. */
int ahead_open(struct ahead **ahead, const char * const *named);
void ahead_close(struct ahead *ahead);

/* Start from the beginning, even in the middle of a walk. */
void ahead_start(struct ahead *ahead);
bool ahead_is_walking(const struct ahead *ahead);

/* Look at one file, or read a part of a directory. */
void ahead_step(struct ahead *ahead, struct unwind_keeper *keeper);

/* Has one of the directories with programs been changed since it was read? */
bool ahead_is_outdated(struct ahead *ahead, struct unwind_keeper *keeper);

/* keeper.c */

/* Ask the reader about a path. The page has the answer. */
int keeper_ask_path(struct unwind_keeper *keeper, enum reader_question question,
		    const char *directory, const char *path);
struct reader_page *keeper_page(struct unwind_keeper *keeper);

/*
 * A file on the way. 0 if it is a program or a library, whether there is a table for
 * it or not; -ETIMEDOUT if it did not answer.
 */
int keeper_see_path(struct unwind_keeper *keeper, const char *directory,
		    const char *path);

void keeper_walk_begins(struct unwind_keeper *keeper);
/* @whole: nothing was left out, so what the walk did not meet is gone. */
void keeper_walk_ends(struct unwind_keeper *keeper, bool whole);

/* What was named is not there, or cannot be used. */
void keeper_complain_named(struct unwind_keeper *keeper, const char *named, int error);

#endif /* __UNWIND_KEEPER_AHEAD_H */
