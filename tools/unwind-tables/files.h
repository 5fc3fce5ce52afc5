/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_FILES_H
#define __UNWIND_TABLES_FILES_H

/* The files that were seen: the table of each, or why there is none, and who pays for it */

#include "keeper.h"
#include "reader.h"
#include "share.h"

struct kernel;

#define FILES_NR_BUCKETS 4096
/* A large machine has some thousands; more than this is an attack. */
#define FILES_MAX	32768

enum file_state {
	FILE_TABLE,	/* It has the table @table. */
	FILE_SHARED,	/* It has one that was made under another identity. */
	FILE_NO_CFI,	/* None can be made. */
	FILE_REFUSED,	/* None can be made, and somebody was told. */
	FILE_BUSY,	/* It is being written, or does not answer; after @retry */
	FILE_FULL,	/* No room; when there is some */
};

/* A table in the kernel, and the data that it was made from */
struct made {
	__u32 table;
	__u64 fingerprint;
	__u64 bytes;
	__u64 rows;
	/* A number of errno: why there is none, for messages */
	int error;
};

/*
 * A file with certain contents. The mapping of it that was seen last is a witness:
 * as long as it is there, the kernel has not forgotten the file.
 */
struct file {
	struct file *next;
	/* Of all that have been known */
	__u64 serial;
	__u64 maps_dev;
	__u64 maps_ino;
	struct file_id id;
	struct share *share;
	enum file_state state;
	/* FILE_BUSY because the share has no time, and for no other reason */
	bool waits;
	/* It is in the queue of a share that is to try it again. */
	bool queued;
	/* The user who was needed to see it, if it has no table; or OWNER_UNKNOWN */
	__u32 seen_by;
	struct made made;
	time_t retry;
	unsigned int tries;
	struct process witness;
	__u64 address;
	/* During a sweep: the first mapping, and whether the witness is there */
	pid_t seen_pid;
	__u64 seen_address;
	bool witnessed;
	/* Since when it has not been mapped; 0 if it is mapped */
	time_t unused_since;
	/* It is kept though nobody has it mapped: the last walk ahead found it. */
	bool ahead;
	unsigned int walk;
	/* When somebody was seen to have it mapped, 0 if never */
	time_t mapped_at;
};

struct files {
	struct file *buckets[FILES_NR_BUCKETS];
	__u64 last_serial;
	unsigned int nr;
	unsigned int nr_ahead;
	struct shares shares;
	struct keeper_stats stats;
	const struct kernel *kernel;
};

/* All, in any order: the one after @file, the first one after NULL */
struct file *files_next(const struct files *files, const struct file *file);
/* Those that have the number of a mapping in /proc/PID/maps */
struct file *files_first_of(const struct files *files, const struct mapping *mapping);
struct file *files_next_of(const struct file *file);
struct file *files_find(const struct files *files, const struct mapping *mapping);

/* Identifies a file for a later look-up, which finds NULL if the file has been forgotten */
struct held {
	__u64 dev;
	__u64 ino;
	__u64 serial;
};

struct held files_hold(const struct file *file);
struct file *files_held(const struct files *files, const struct held *held);

/* NULL: no memory. It is FILE_BUSY. */
struct file *files_add(struct files *files, const struct mapping *mapping, struct share *share);
void files_free(struct files *files);
/* Drop the table of a file, and forget the file. */
void files_forget(struct files *files, struct file *file);
void files_set_state(struct files *files, struct file *file, enum file_state state);
void files_set_ahead(struct files *files, struct file *file, bool ahead);
void files_set_share(struct files *files, struct file *file, struct share *share);

/* Does one have the same content, with another identity? */
bool files_has_twin(const struct files *files, const struct file_id *id);
/* The file that a share needs least, of those with tables or of all; or NULL */
struct file *files_dispensable(const struct files *files, const struct share *share,
			       bool with_table);
/* The file kept ahead, but not mapped, that was last mapped longest ago */
struct file *files_oldest_ahead(const struct files *files, bool with_table);

#endif /* __UNWIND_TABLES_FILES_H */
