/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_KERNEL_H
#define __UNWIND_TABLES_KERNEL_H

/* The service's use of /dev/unwind_tables */

#include <stddef.h>
#include <linux/types.h>

#include "files.h"

#define KERNEL_DEVICE	"/dev/unwind_tables"

struct kernel {
	int device;
	/* It takes tables only for files that are our user's. */
	bool own_only;
	/* Why the last table was not made or attached, for messages */
	int error;
};

/* 0 or a negative errno. @device: NULL stands for the usual one. */
int kernel_open(struct kernel *kernel, const char *device);

/* Make a table of some bytes, of which the first are its header. */
enum outcome kernel_make(struct kernel *kernel, const void *data, size_t len, struct made *made);
void kernel_drop(const struct kernel *kernel, __u32 table);

/* Does the file mapped there have a table, from any maker? */
bool kernel_has_table(const struct kernel *kernel, int pidfd, __u64 address);

/*
 * Attach a table to the file that the process has mapped there, which is @file with @id. Neither
 * is used for the vDSO, of this process.
 */
enum outcome kernel_attach(struct kernel *kernel, __u32 table, int pidfd, __u64 address, int file,
			   const struct file_id *id);

/* A table for the vDSO. OUTCOME_NO_CFI: it needs none. */
enum outcome kernel_make_vdso(struct kernel *kernel, struct made *made);

/* The limit for all tables, of which others need a part, too */
__u64 kernel_max_bytes(void);

#endif /* __UNWIND_TABLES_KERNEL_H */
