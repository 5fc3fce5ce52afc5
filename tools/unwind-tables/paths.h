/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_PATHS_H
#define __UNWIND_TABLES_PATHS_H

#include "reader.h"

/*
 * The reader's questions about page->path below page->directory. Symbolic links are
 * not followed, and other file systems not entered, unless there is no directory.
 */

/*
 * The way from a directory, or if the path is empty that itself, without following
 * symbolic links or "..". @mount: NULL, or the mount that may not be left. openat2() could do
 * this, but systemd does not allow it to services that may set no set-user-ID bits: a filter
 * of system calls does not see its flags.
 */
int paths_walk(int dir, const char *path, const __u64 *mount);

/* A descriptor that is not open for reading yet, or a negative errno */
int paths_open(const struct reader_page *page);

/* -ENOEXEC: no executable or shared library of this machine */
int paths_check_program(int fd);

/* Entries of a directory that may be of interest, after page->position */
int paths_list(struct reader_page *page, int directory);

#endif /* __UNWIND_TABLES_PATHS_H */
