// SPDX-License-Identifier: GPL-2.0
/*
 * Keeper of tables: remembers which files were seen, which table is for which file,
 * and which files have none and why. Everything that can block or crash is done by
 * its reader, see keeper-reader.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include <linux/unwind_table.h>

#include "keeper-ahead.h"
#include "keeper-reader.h"
#include "unwind-keeper.h"

#define __printf(format, first) __attribute__((__format__(printf, format, first)))

#define DEVICE_NAME	"/dev/unwind_tables"
#define MAX_KB_NAME	"/proc/sys/kernel/unwind_table_max_kb"

#define NR_BUCKETS	4096
/* A large machine has some thousands; more than this is an attack. */
#define MAX_FILES	32768
/* At most this many of them are kept ahead, for programs that need not run. */
#define MAX_AHEAD	(MAX_FILES / 2)
/* Of the room for tables, those made ahead may take one part in so many. */
#define AHEAD_PART	2
/* What did not answer in time is left alone for so long. */
#define AVOID_SECONDS	300
/* A file that is being written is looked at again after this, then twice that ... */
#define BUSY_SECONDS	2
/*
 * ... so often, if it does not change. If the kernel says that it is another one, it
 * always will then.
 */
#define MAX_TRIES	6
/* A sweep to make room comes at least this long after the last sweep. */
#define SWEEP_SECONDS	10
/* After this many timeouts, this look at a process is given up. */
#define MAX_HANGS	3

enum file_state {
	FILE_TABLE,	/* It has the table @table. */
	FILE_SHARED,	/* It has one that was made under another identity. */
	FILE_NO_CFI,	/* None can be made. */
	FILE_REFUSED,	/* None can be made, and somebody was told. */
	FILE_BUSY,	/* It is being written, or does not answer; after @retry */
	FILE_FULL,	/* No room; when there is some */
};

/*
 * A file with certain contents. The mapping of it that was seen last is a witness:
 * as long as it is there, the kernel has not forgotten the file.
 */
struct file {
	struct file *next;
	__u64 maps_dev;
	__u64 maps_ino;
	struct file_id id;
	enum file_state state;
	__u32 table;
	__u64 bytes;
	__u64 rows;
	time_t retry;
	unsigned int tries;
	pid_t pid;
	__u64 address;
	/* During a sweep: the first mapping, and whether the witness is there */
	pid_t seen_pid;
	__u64 seen_address;
	bool witnessed;
	/* Since when it has not been mapped; 0 if it is mapped */
	time_t unused_since;
	/* It is kept though nobody has it mapped: the last walk ahead came past it. */
	bool ahead;
	unsigned int walk;
	/* When somebody was seen to have it mapped, 0 if never */
	time_t mapped_at;
};

struct unwind_keeper {
	struct reader reader;
	int device;
	__u64 max_bytes;
	void (*complain)(void *arg, const char *message);
	void *arg;
	unsigned int keep_seconds;
	struct unwind_keeper_stats stats;
	struct file *buckets[NR_BUCKETS];
	unsigned int nr_files;
	/* When entries of reader.page->avoided end */
	time_t avoid_until[READER_MAX_AVOIDED];
	unsigned int next_avoided;
	time_t last_sweep;
	bool sweeping;
	/* Walks ahead; NULL if there are none */
	struct ahead *ahead;
	unsigned int walk;
	unsigned int nr_ahead;
	__u64 kernel_max;
	/* What is being seen to need not be mapped. */
	bool on_walk;
	/* There was no room on this walk, or on the one before it. */
	bool ahead_full;
	bool ahead_was_full;
	/* Room was made: files without a table may have one now. */
	bool dropped_ahead;
	/* Questions that were not answered in time */
	unsigned int hangs;
	/* Complained about once, until there is room again */
	bool full;
	bool too_many;
	/* 1: has a table; negative: cannot have one */
	int vdso;
};

static time_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void __printf(2, 3) complain(struct unwind_keeper *keeper,
				    const char *format, ...)
{
	char message[512];
	va_list args;

	if (!keeper->complain)
		return;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	keeper->complain(keeper->arg, message);
}

/* The mapping that the reader was at last */
static const struct mapping *last_mapping(const struct unwind_keeper *keeper)
{
	const struct reader_page *page = keeper->reader.page;

	if (page->question == READER_LIST || !page->nr_mappings)
		return NULL;
	return &page->mappings[page->nr_mappings - 1];
}

/* The file that the reader was at, or if it does not know its name: whose it is */
static const char *file_name(const struct unwind_keeper *keeper, char *text, size_t size)
{
	const struct reader_page *page = keeper->reader.page;
	const struct mapping *last = last_mapping(keeper);

	if (page->name[0])
		snprintf(text, size, "%s", page->name);
	else if (!page->pid)
		snprintf(text, size, "%.140s/%.150s", page->directory, page->path);
	else
		snprintf(text, size, "a file that process %d has at %#llx",
			 page->pid, (unsigned long long)
			 (last ? last->start : page->address));
	return text;
}

/* ------------------------------------------------------------------------ */
/* The reader								      */

static void forget_avoided(struct unwind_keeper *keeper)
{
	struct reader_page *page = keeper->reader.page;
	time_t now = seconds();
	unsigned int i;

	for (i = 0; i < page->nr_avoided; i++)
		if (keeper->avoid_until[i] < now)
			page->avoided[i] = (struct avoided){ };
}

static bool avoids(const struct unwind_keeper *keeper, pid_t pid)
{
	const struct reader_page *page = keeper->reader.page;
	unsigned int i;

	for (i = 0; i < page->nr_avoided; i++)
		if (page->avoided[i].pid == pid)
			return true;
	return false;
}

static void avoid(struct unwind_keeper *keeper, __u64 dev, pid_t pid)
{
	struct reader_page *page = keeper->reader.page;
	unsigned int i = keeper->next_avoided++ % READER_MAX_AVOIDED;

	page->avoided[i] = (struct avoided){ .dev = dev, .pid = pid };
	keeper->avoid_until[i] = seconds() + AVOID_SECONDS;
	if (page->nr_avoided <= i)
		page->nr_avoided = i + 1;
}

/* The reader was at some file, or had not got to one when it did not go on. */
static void avoid_what_hangs(struct unwind_keeper *keeper)
{
	const struct reader_page *page = keeper->reader.page;
	const struct mapping *last = last_mapping(keeper);
	char name[300];

	keeper->hangs++;
	if (!last && !page->pid) {
		complain(keeper, "%s: cannot be found within %d s",
			 file_name(keeper, name, sizeof(name)), READER_SECONDS);
		return;
	}
	if (!last) {
		complain(keeper,
			 "process %d: its mappings cannot be read within %d s, left alone for %d s",
			 page->pid, READER_SECONDS, AVOID_SECONDS);
		avoid(keeper, 0, page->pid);
		return;
	}
	/*
	 * A disk does not hang on purpose, and has many other files: the
	 * machine is slow. Without a disk, malice has to be assumed.
	 */
	if (major(last->dev)) {
		complain(keeper,
			 "%s: cannot be read within %d s, left alone for %d s",
			 file_name(keeper, name, sizeof(name)), READER_SECONDS,
			 AVOID_SECONDS);
		return;
	}
	complain(keeper,
		 "%s: does not answer within %d s, all files on its device %u:%u are left alone for %d s",
		 file_name(keeper, name, sizeof(name)), READER_SECONDS,
		 major(last->dev), minor(last->dev), AVOID_SECONDS);
	avoid(keeper, last->dev, 0);
}

static int ask(struct unwind_keeper *keeper, enum reader_question question,
	       pid_t pid, __u64 address)
{
	struct reader_page *page = keeper->reader.page;
	int error;

	forget_avoided(keeper);
	if (pid && avoids(keeper, pid))
		return -ETIMEDOUT;
	page->question = question;
	page->pid = pid;
	page->address = address;
	error = reader_ask(&keeper->reader);
	keeper->stats.build_ns += page->build_ns;
	keeper->stats.cpu_ns += page->cpu_ns;
	if (error == -ETIMEDOUT)
		avoid_what_hangs(keeper);
	return error ?: page->error;
}

/* ------------------------------------------------------------------------ */
/* Files								      */

static struct file **bucket(struct unwind_keeper *keeper, __u64 dev,
			    __u64 ino)
{
	__u64 hash = (dev + ino * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;

	return &keeper->buckets[(hash >> 32) % NR_BUCKETS];
}

/*
 * By both names: subvolumes of btrfs have the same device and the same numbers in
 * /proc/PID/maps.
 */
static struct file *find(struct unwind_keeper *keeper,
			 const struct mapping *mapping)
{
	struct file *file;

	for (file = *bucket(keeper, mapping->dev, mapping->ino); file;
	     file = file->next)
		if (file->maps_dev == mapping->dev &&
		    file->maps_ino == mapping->ino &&
		    file->id.dev == mapping->id.dev &&
		    file->id.ino == mapping->id.ino)
			return file;
	return NULL;
}

static void account(struct unwind_keeper *keeper, const struct file *file, int by)
{
	switch (file->state) {
	case FILE_TABLE:
		keeper->stats.tables += by;
		keeper->stats.bytes += by * (__s64)file->bytes;
		if (!file->ahead)
			break;
		keeper->stats.ahead += by;
		keeper->stats.ahead_rows += by * (__s64)file->rows;
		keeper->stats.ahead_bytes += by * (__s64)file->bytes;
		break;
	case FILE_NO_CFI:
		keeper->stats.no_cfi += by;
		break;
	case FILE_REFUSED:
		keeper->stats.refused += by;
		break;
	default:
		break;
	}
}

static void set_state(struct unwind_keeper *keeper, struct file *file,
		      enum file_state state)
{
	account(keeper, file, -1);
	file->state = state;
	account(keeper, file, 1);
}

static void set_ahead(struct unwind_keeper *keeper, struct file *file, bool ahead)
{
	account(keeper, file, -1);
	keeper->nr_ahead += ahead - file->ahead;
	file->ahead = ahead;
	account(keeper, file, 1);
}

/* Drop the table of a file, and forget the file. */
static void forget(struct unwind_keeper *keeper, struct file *file)
{
	struct file **link = bucket(keeper, file->maps_dev, file->maps_ino);

	if (file->state == FILE_TABLE)
		ioctl(keeper->device, UNWIND_TABLE_DROP, file->table);
	account(keeper, file, -1);
	keeper->nr_ahead -= file->ahead;
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	keeper->nr_files--;
	free(file);
}

/* Of files kept ahead but not mapped: the one last mapped longest ago */
static struct file *oldest_ahead(struct unwind_keeper *keeper, bool with_table)
{
	struct file *file, *oldest = NULL;
	unsigned int i;

	for (i = 0; i < NR_BUCKETS; i++)
		for (file = keeper->buckets[i]; file; file = file->next)
			if (file->ahead && file->unused_since &&
			    (!with_table || file->state == FILE_TABLE) &&
			    (!oldest || file->mapped_at < oldest->mapped_at))
				oldest = file;
	return oldest;
}

/* Files that run come before those that may. Returns whether there is more room. */
static bool drop_ahead(struct unwind_keeper *keeper, __u64 bytes)
{
	struct file *file;
	__u64 done = 0;

	if (keeper->on_walk)
		return false;
	while (done < bytes) {
		file = oldest_ahead(keeper, true);
		if (!file)
			break;
		done += file->bytes;
		forget(keeper, file);
		keeper->stats.dropped++;
		keeper->dropped_ahead = true;
	}
	return done;
}

static struct file *remember(struct unwind_keeper *keeper, pid_t pid,
			     const struct mapping *mapping)
{
	struct file **link, *file;

	if (keeper->nr_files == MAX_FILES && !keeper->on_walk) {
		file = oldest_ahead(keeper, false);
		if (file)
			forget(keeper, file);
	}
	if (keeper->nr_files == MAX_FILES) {
		if (!keeper->too_many)
			complain(keeper,
				 "limit of %d files reached, further files get no tables until some are unmapped; check which processes map so many",
				 MAX_FILES);
		keeper->too_many = true;
		return NULL;
	}
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->maps_dev = mapping->dev;
	file->maps_ino = mapping->ino;
	file->id = mapping->id;
	file->state = FILE_BUSY;
	file->pid = pid;
	file->address = mapping->start;
	if (pid)
		file->mapped_at = seconds();
	else
		file->unused_since = seconds();
	link = bucket(keeper, mapping->dev, mapping->ino);
	file->next = *link;
	*link = file;
	keeper->nr_files++;
	return file;
}

static int sweep(struct unwind_keeper *keeper, unsigned int keep);

/* No room: tables that are not needed any more make some. */
static bool made_room(struct unwind_keeper *keeper, __u64 bytes)
{
	if (keeper->on_walk)
		return false;
	if (drop_ahead(keeper, bytes))
		return true;
	if (keeper->sweeping || seconds() - keeper->last_sweep < SWEEP_SECONDS)
		return false;
	return sweep(keeper, 0) > 0;
}

/*
 * Containers of one image have the same files on different devices. With overlayfs,
 * the kernel also knows these as one file, and one table is enough.
 */
static bool has_twin(const struct unwind_keeper *keeper,
		     const struct file_id *id)
{
	const struct file *file;
	unsigned int i;

	for (i = 0; i < NR_BUCKETS; i++)
		for (file = keeper->buckets[i]; file; file = file->next)
			if (file->id.ino == id->ino && file->id.dev != id->dev &&
			    same_content(&file->id, id))
				return true;
	return false;
}

static __u64 room(const struct unwind_keeper *keeper)
{
	__u64 bytes = keeper->stats.bytes;

	if (!keeper->max_bytes)
		return UINT64_MAX;
	return keeper->max_bytes > bytes ? keeper->max_bytes - bytes : 0;
}

/* The kernel's limit, of which others need a part, too */
static __u64 kernel_max_bytes(void)
{
	unsigned long long kb = 0;
	FILE *file;

	file = fopen(MAX_KB_NAME, "re");
	if (!file)
		return UINT64_MAX;
	if (fscanf(file, "%llu", &kb) != 1)
		kb = UINT64_MAX >> 10;
	fclose(file);
	return kb << 10;
}

/* ... for a table that may not be needed */
static __u64 room_ahead(const struct unwind_keeper *keeper)
{
	__u64 max = keeper->kernel_max, all = room(keeper);

	if (keeper->max_bytes && max > keeper->max_bytes)
		max = keeper->max_bytes;
	max /= AHEAD_PART;
	if (max <= keeper->stats.ahead_bytes)
		return 0;
	max -= keeper->stats.ahead_bytes;
	return max < all ? max : all;
}

static int make(struct unwind_keeper *keeper, pid_t pid, __u64 address,
		const struct file_id *id)
{
	struct reader_page *page = keeper->reader.page;

	page->probe = has_twin(keeper, id);
	page->room = keeper->on_walk ? room_ahead(keeper) : room(keeper);
	return ask(keeper, READER_MAKE, pid, address);
}

/* Once, as long as it does not change from one walk to the next */
static void complain_ahead(struct unwind_keeper *keeper, const char *name,
			   const char *why)
{
	if (!keeper->ahead_full && !keeper->ahead_was_full)
		complain(keeper,
			 "%s: %s, so it and others get their tables when they run; %llu tables with %llu KB are there ahead",
			 name, why, (unsigned long long)keeper->stats.ahead,
			 (unsigned long long)keeper->stats.ahead_bytes >> 10);
	keeper->ahead_full = true;
}

static void complain_full(struct unwind_keeper *keeper, const char *name)
{
	if (keeper->on_walk) {
		complain_ahead(keeper, name,
			       keeper->reader.page->step == READER_ROOM ?
			       "half the room is taken (see --max-mb, unwind_table_max_kb)" :
			       "the kernel has no room");
		return;
	}
	if (keeper->full)
		return;
	keeper->full = true;
	if (keeper->reader.page->step == READER_ROOM)
		complain(keeper,
			 "%s: no room for a table of %llu KB within the limit of %llu MB, it and further files get none until tables are dropped; raise --max-mb",
			 name, (unsigned long long)keeper->reader.page->bytes >> 10,
			 (unsigned long long)keeper->max_bytes >> 20);
	else
		complain(keeper,
			 "%s: the kernel has no room for its table, it and further files get none until tables are dropped; raise the sysctl kernel.unwind_table_max_kb or the memory limit of this cgroup",
			 name);
}

/*
 * What was wrong with a file, from the reader's answer. @tries: how often it has been
 * busy, with the same content
 */
static enum file_state state_of(struct unwind_keeper *keeper, int error,
				unsigned int tries)
{
	enum reader_step step = keeper->reader.page->step;
	char name[300];

	file_name(keeper, name, sizeof(name));
	switch (error) {
	case 0:
		return FILE_TABLE;
	case -EEXIST:
		return FILE_SHARED;
	case -ENODATA:
	case -ENOEXEC:
		return FILE_NO_CFI;
	/* -EAGAIN: cut off, or a lease is on it */
	case -EAGAIN:
	case -ESTALE:
		if (tries < MAX_TRIES)
			return FILE_BUSY;
		break;
	case -ETXTBSY:
	/* Its device is left alone for now. */
	case -ETIMEDOUT:
		return FILE_BUSY;
	case -ENOMEM:
	case -ENOSPC:
		if (step == READER_READ)
			break;
		complain_full(keeper, name);
		return FILE_FULL;
	case -EINVAL:
		if (step != READER_HAND_OVER)
			break;
		complain(keeper,
			 "%s: the kernel refused its table; trace the event unwind:unwind_table and restart the service to see why",
			 name);
		return FILE_REFUSED;
	case -E2BIG:
		if (step != READER_READ)
			break;
		complain(keeper, "%s: no table: it takes more work than a file of its size may",
			 name);
		return FILE_REFUSED;
	case -EPIPE:
		complain(keeper,
			 "%s: the process that reads files crashed on it, so it gets no table; please report this and attach the file",
			 name);
		return FILE_REFUSED;
	default:
		break;
	}
	complain(keeper, "%s: no table: cannot %s: %s", name,
		 step <= READER_OPEN ? "open the file" :
		 step <= READER_ROOM ? "make the table" :
		 step == READER_HAND_OVER ? "hand the table to the kernel" : "attach the table",
		 strerror(-error));
	return FILE_REFUSED;
}

static int result_of(const struct file *file)
{
	switch (file->state) {
	case FILE_TABLE:
	case FILE_SHARED:
		return 0;
	case FILE_BUSY:
		return -ETXTBSY;
	case FILE_FULL:
		return -ENOSPC;
	default:
		return -ENODATA;
	}
}

/* There is no room for the table that was made last. */
static bool is_full(const struct unwind_keeper *keeper, int error)
{
	return (error == -ENOSPC || error == -ENOMEM) &&
	       keeper->reader.page->step >= READER_ROOM;
}

/*
 * A table for a file that has none. What the reader finds at the address counts,
 * which may be another file than it was before.
 */
static int new_table(struct unwind_keeper *keeper, pid_t pid, __u64 address,
		     struct file_id id)
{
	struct reader_page *page = keeper->reader.page;
	unsigned int tries = 0;
	struct mapping mapping;
	struct file *file;
	int error;

	error = make(keeper, pid, address, &id);
	while (is_full(keeper, error) && made_room(keeper, page->bytes))
		error = make(keeper, pid, address, &id);
	/* Nothing is mapped there any more, or the file could not be opened. */
	if (!page->nr_mappings || page->mappings[0].error)
		return error ?: -ESRCH;
	if (error == -ESRCH)
		return error;

	mapping = page->mappings[0];
	file = find(keeper, &mapping);
	if (file) {
		if (file->state == FILE_BUSY && same_content(&file->id, &mapping.id))
			tries = file->tries < MAX_TRIES ? file->tries + 1 : MAX_TRIES;
		forget(keeper, file);
	}
	file = remember(keeper, pid, &mapping);
	if (!file) {
		if (!error)
			ioctl(keeper->device, UNWIND_TABLE_DROP, page->new_table);
		return -ENOSPC;
	}
	keeper->stats.files++;
	file->table = page->new_table;
	file->bytes = page->bytes;
	file->rows = page->rows;
	file->tries = tries;
	file->retry = seconds() + (error == -ETIMEDOUT ? AVOID_SECONDS :
							 BUSY_SECONDS << tries);
	set_state(keeper, file, state_of(keeper, error, tries));
	return result_of(file);
}

/* A file that we cannot open: it has no identity but that of its mapping. */
static int see_to_closed(struct unwind_keeper *keeper, pid_t pid,
			 struct mapping mapping)
{
	struct reader_page *page = keeper->reader.page;
	struct file *file;

	memset(&mapping.id, 0, sizeof(mapping.id));
	if (find(keeper, &mapping))
		return mapping.error;
	file = remember(keeper, pid, &mapping);
	if (!file)
		return -ENOSPC;
	keeper->stats.files++;
	page->name[0] = '\0';
	page->step = READER_OPEN;
	page->pid = pid;
	page->mappings[0] = mapping;
	page->nr_mappings = 1;
	set_state(keeper, file, state_of(keeper, mapping.error, 0));
	return mapping.error;
}

static void attach_again(struct unwind_keeper *keeper, struct file *file);

/* Another attempt, after which it is kept if it was before */
static int new_again(struct unwind_keeper *keeper, const struct file *file, pid_t pid,
		     const struct mapping *mapping)
{
	unsigned int walk = file ? file->walk : 0;
	bool ahead = file && file->ahead;
	struct file *now;
	int ret;

	ret = new_table(keeper, pid, mapping->start, mapping->id);
	now = find(keeper, mapping);
	if (now && ahead) {
		now->walk = walk;
		set_ahead(keeper, now, true);
	}
	return ret;
}

/* Whoever may not be sent a signal is there. */
static bool is_alive(pid_t pid)
{
	return pid > 0 && (!kill(pid, 0) || errno == EPERM);
}

/*
 * If nobody had it mapped for a while, the kernel may have forgotten it. If the
 * process that was seen with it is gone, there may have been such a while.
 */
static void see_again(struct unwind_keeper *keeper, struct file *file, pid_t pid,
		      const struct mapping *mapping)
{
	file->mapped_at = seconds();
	if (!file->unused_since && is_alive(file->pid))
		return;
	file->unused_since = 0;
	file->seen_pid = pid;
	file->seen_address = mapping->start;
	if (file->state == FILE_TABLE)
		attach_again(keeper, file);
}

static int see_to(struct unwind_keeper *keeper, pid_t pid,
		  const struct mapping *mapping)
{
	struct file *file;

	if (mapping->error == -ENOEXEC)
		return -ENODATA;
	if (mapping->error == -EACCES || mapping->error == -EPERM)
		return see_to_closed(keeper, pid, *mapping);
	if (mapping->error)
		return mapping->error;

	file = find(keeper, mapping);
	if (file && !same_content(&file->id, &mapping->id)) {
		/* To the kernel it is the same file: it must lose its table first. */
		forget(keeper, file);
		file = NULL;
	}
	/* The file whose table it shared may have gone, and the table, too. */
	if (file && file->state == FILE_SHARED && file->unused_since)
		return new_again(keeper, file, pid, mapping);
	if (file)
		see_again(keeper, file, pid, mapping);
	/* That may have found that it is another file now. */
	if (file)
		file = find(keeper, mapping);
	if (file && (file->state != FILE_BUSY || seconds() < file->retry))
		return result_of(file);
	return new_again(keeper, file, pid, mapping);
}

/* ------------------------------------------------------------------------ */
/* Processes								      */

/* Once; it is the same for all. */
static void see_to_vdso(struct unwind_keeper *keeper)
{
	const struct reader_page *page = keeper->reader.page;
	int error;

	if (keeper->vdso)
		return;
	keeper->reader.page->room = UINT64_MAX;
	error = ask(keeper, READER_VDSO, 0, 0);
	keeper->vdso = error ?: 1;
	if (!error) {
		keeper->stats.tables++;
		keeper->stats.bytes += page->bytes;
	} else if (error != -ENODATA) {
		complain(keeper, "[vdso]: no table for it: %s", strerror(-error));
	}
}

static int see_to_mappings(struct unwind_keeper *keeper, pid_t pid,
			   __u64 address)
{
	struct reader_page *page = keeper->reader.page;
	unsigned int i, nr, hangs = 0;
	struct mapping *mappings;
	int error, ret = 0;

	do {
		error = ask(keeper, READER_LOOK, pid, address);
	} while (error == -ETIMEDOUT && page->nr_mappings &&
		 ++hangs < MAX_HANGS);
	if (error)
		return error;
	if (page->more_mappings)
		complain(keeper, "process %d: only the first %d of its mappings are looked at",
			 pid, READER_MAX_MAPPINGS);

	/* Other questions follow, whose answers stand in the same place. */
	nr = page->nr_mappings;
	mappings = malloc(nr * sizeof(*mappings));
	if (!mappings && nr)
		return -ENOMEM;
	memcpy(mappings, page->mappings, nr * sizeof(*mappings));
	for (i = 0; i < nr; i++)
		ret = see_to(keeper, pid, &mappings[i]);
	free(mappings);
	return address ? ret : 0;
}

typedef void (*visit_t)(struct unwind_keeper *keeper, pid_t pid);

static int visit_processes(struct unwind_keeper *keeper, visit_t visit)
{
	struct dirent *entry;
	DIR *proc;

	proc = opendir("/proc");
	if (!proc)
		return -errno;
	while ((entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			visit(keeper, atoi(entry->d_name));
	closedir(proc);
	return 0;
}

static void see_to_process(struct unwind_keeper *keeper, pid_t pid)
{
	unwind_keeper_process(keeper, pid);
}

/* ------------------------------------------------------------------------ */
/* Sweeping								      */

static void mark(struct unwind_keeper *keeper, pid_t pid)
{
	const struct reader_page *page = keeper->reader.page;
	const struct mapping *mapping;
	struct file *file;
	unsigned int i;

	if (pid == keeper->reader.pid || ask(keeper, READER_LIST, pid, 0))
		return;
	for (i = 0; i < page->nr_mappings; i++) {
		mapping = &page->mappings[i];
		file = *bucket(keeper, mapping->dev, mapping->ino);
		for (; file; file = file->next) {
			if (file->maps_dev != mapping->dev ||
			    file->maps_ino != mapping->ino)
				continue;
			if (!file->seen_pid) {
				file->seen_pid = pid;
				file->seen_address = mapping->start;
			}
			if (file->pid == pid && file->address == mapping->start)
				file->witnessed = true;
		}
	}
}

/*
 * The kernel may have forgotten the file while nobody had it mapped; then the table
 * is there, but nothing leads to it.
 */
static void attach_again(struct unwind_keeper *keeper, struct file *file)
{
	struct reader_page *page = keeper->reader.page;
	int error;

	file->pid = file->seen_pid;
	file->address = file->seen_address;
	page->table = file->table;
	page->id = file->id;
	error = ask(keeper, READER_ATTACH, file->pid, file->address);
	/* It has other content now: that needs a new table. */
	if (error == -ESTALE) {
		const struct file old = *file;

		forget(keeper, file);
		new_table(keeper, old.pid, old.address, old.id);
	}
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
		return seconds() >= file->retry;
	default:
		return false;
	}
}

static void mark_all(struct unwind_keeper *keeper)
{
	struct file *file;
	unsigned int i;

	for (i = 0; i < NR_BUCKETS; i++) {
		for (file = keeper->buckets[i]; file; file = file->next) {
			file->seen_pid = 0;
			file->witnessed = false;
		}
	}
	visit_processes(keeper, mark);
}

/* A file that no process has mapped. Its table is not needed, or not now. */
static bool is_unused(const struct file *file)
{
	return !file->seen_pid;
}

static bool any_unused(const struct unwind_keeper *keeper)
{
	const struct file *file;
	unsigned int i;

	for (i = 0; i < NR_BUCKETS; i++)
		for (file = keeper->buckets[i]; file; file = file->next)
			if (is_unused(file) && !file->ahead)
				return true;
	return false;
}

static int drop_unused(struct unwind_keeper *keeper, unsigned int keep)
{
	struct file *file, *next;
	time_t now = seconds();
	int dropped = 0;
	unsigned int i;

	keeper->stats.unused = 0;
	for (i = 0; i < NR_BUCKETS; i++) {
		for (file = keeper->buckets[i]; file; file = next) {
			next = file->next;
			if (!is_unused(file)) {
				file->unused_since = 0;
				file->mapped_at = now;
				continue;
			}
			if (!file->unused_since)
				file->unused_since = now;
			if (file->ahead)
				continue;
			if (now - file->unused_since < keep) {
				keeper->stats.unused++;
				continue;
			}
			if (file->state == FILE_TABLE)
				dropped++;
			forget(keeper, file);
		}
	}
	keeper->stats.dropped += dropped;
	if (keeper->nr_files < MAX_FILES)
		keeper->too_many = false;
	if (dropped)
		keeper->full = false;
	return dropped;
}

/* As of now: looking at one may change which others there are. */
static struct mapping *list_due(struct unwind_keeper *keeper, bool dropped,
				unsigned int *nr)
{
	struct mapping *due;
	struct file *file;
	unsigned int i;

	*nr = 0;
	due = calloc(keeper->nr_files ?: 1, sizeof(*due));
	for (i = 0; due && i < NR_BUCKETS; i++) {
		for (file = keeper->buckets[i]; file; file = file->next) {
			if (!is_due(file, dropped))
				continue;
			due[*nr].dev = file->maps_dev;
			due[*nr].ino = file->maps_ino;
			due[*nr].id = file->id;
			++*nr;
		}
	}
	return due;
}

static void try_again(struct unwind_keeper *keeper, bool dropped)
{
	struct mapping *due;
	struct file *file;
	unsigned int i, nr;

	due = list_due(keeper, dropped, &nr);
	for (i = 0; i < nr; i++) {
		file = find(keeper, &due[i]);
		if (!file || !is_due(file, dropped) || is_unused(file))
			continue;
		if (file->state == FILE_TABLE)
			attach_again(keeper, file);
		else
			new_table(keeper, file->seen_pid, file->seen_address,
				  file->id);
	}
	free(due);
}

/* ------------------------------------------------------------------------ */
/* Ahead								      */

struct reader_page *keeper_page(struct unwind_keeper *keeper)
{
	return keeper->reader.page;
}

int keeper_ask_path(struct unwind_keeper *keeper, enum reader_question question,
		    const char *directory, const char *path)
{
	struct reader_page *page = keeper->reader.page;

	snprintf(page->directory, sizeof(page->directory), "%s", directory);
	snprintf(page->path, sizeof(page->path), "%s", path);
	return ask(keeper, question, 0, 0);
}

void keeper_complain_named(struct unwind_keeper *keeper, const char *named, int error)
{
	complain(keeper, "%s: no tables can be made ahead: %s", named,
		 strerror(-error));
}

/* Attach the table of a file anew. False if the file needs another one. */
static bool still_fits(struct unwind_keeper *keeper, const struct file *file)
{
	struct reader_page *page = keeper->reader.page;

	page->table = file->table;
	page->id = file->id;
	return ask(keeper, READER_ATTACH, 0, 0) != -ESTALE;
}

static struct file *make_ahead(struct unwind_keeper *keeper,
			       const struct mapping *mapping)
{
	struct file *file;

	if (!keeper->ahead_full && keeper->nr_ahead >= MAX_AHEAD)
		complain_ahead(keeper, keeper->reader.page->name,
			       "there are enough files");
	if (keeper->ahead_full)
		return NULL;
	new_table(keeper, 0, 0, mapping->id);
	file = find(keeper, mapping);
	if (!file || file->state != FILE_FULL)
		return file;
	forget(keeper, file);
	return NULL;
}

/* Files that somebody has mapped get what they lack in other ways. */
static void see_to_path(struct unwind_keeper *keeper, const struct mapping *mapping)
{
	struct file *file = find(keeper, mapping);

	if (file && (!same_content(&file->id, &mapping->id) ||
		     (file->state == FILE_TABLE && !still_fits(keeper, file)))) {
		forget(keeper, file);
		file = NULL;
	}
	if (!file || (file->unused_since && (file->state == FILE_BUSY ||
					     file->state == FILE_SHARED)))
		file = make_ahead(keeper, mapping);
	if (!file)
		return;
	file->walk = keeper->walk;
	set_ahead(keeper, file, true);
}

int keeper_see_path(struct unwind_keeper *keeper, const char *directory,
		    const char *path)
{
	const struct reader_page *page = keeper->reader.page;
	unsigned int hangs = keeper->hangs;
	struct mapping mapping;
	int error;

	error = keeper_ask_path(keeper, READER_LOOK, directory, path);
	if (error)
		return error;
	mapping = page->mappings[0];
	keeper->on_walk = true;
	see_to_path(keeper, &mapping);
	keeper->on_walk = false;
	return hangs == keeper->hangs ? 0 : -ETIMEDOUT;
}

void keeper_walk_begins(struct unwind_keeper *keeper)
{
	keeper->walk++;
	keeper->kernel_max = kernel_max_bytes();
	keeper->ahead_was_full = keeper->ahead_full;
	keeper->ahead_full = false;
}

/* What the walk did not come past has been removed, or replaced. */
void keeper_walk_ends(struct unwind_keeper *keeper, bool whole)
{
	struct file *file, *next;
	unsigned int i;

	for (i = 0; whole && i < NR_BUCKETS; i++) {
		for (file = keeper->buckets[i]; file; file = next) {
			next = file->next;
			if (!file->ahead || file->walk == keeper->walk)
				continue;
			set_ahead(keeper, file, false);
			if (!file->unused_since)
				continue;
			keeper->stats.dropped += file->state == FILE_TABLE;
			forget(keeper, file);
		}
	}
}

bool unwind_keeper_ahead(struct unwind_keeper *keeper)
{
	if (unwind_keeper_is_ahead_due(keeper))
		ahead_step(keeper->ahead, keeper);
	return unwind_keeper_is_ahead_due(keeper);
}

bool unwind_keeper_is_ahead_due(const struct unwind_keeper *keeper)
{
	return keeper->ahead && ahead_is_walking(keeper->ahead);
}

bool unwind_keeper_ahead_again(struct unwind_keeper *keeper)
{
	if (keeper->ahead)
		ahead_start(keeper->ahead);
	return keeper->ahead;
}

/* ------------------------------------------------------------------------ */

int unwind_keeper_open(struct unwind_keeper **keeperp,
		       const struct unwind_keeper_opts *opts)
{
	struct unwind_keeper *keeper;
	int error;

	keeper = calloc(1, sizeof(*keeper));
	if (!keeper)
		return -ENOMEM;
	keeper->max_bytes = opts->max_bytes;
	keeper->complain = opts->complain;
	keeper->arg = opts->arg;
	keeper->keep_seconds = opts->keep_seconds;
	keeper->last_sweep = seconds();
	keeper->device = open(opts->device ?: DEVICE_NAME, O_RDWR | O_CLOEXEC);
	if (keeper->device < 0) {
		error = -errno;
		free(keeper);
		return error;
	}
	error = reader_open(&keeper->reader, keeper->device);
	if (error) {
		close(keeper->device);
		free(keeper);
		return error;
	}
	if (opts->ahead)
		error = ahead_open(&keeper->ahead, opts->ahead);
	if (error) {
		unwind_keeper_close(keeper);
		return error;
	}
	*keeperp = keeper;
	return 0;
}

void unwind_keeper_close(struct unwind_keeper *keeper)
{
	struct file *file, *next;
	unsigned int i;

	if (!keeper)
		return;
	reader_close(&keeper->reader);
	close(keeper->device);
	ahead_close(keeper->ahead);
	for (i = 0; i < NR_BUCKETS; i++) {
		for (file = keeper->buckets[i]; file; file = next) {
			next = file->next;
			free(file);
		}
	}
	free(keeper);
}

/* 0 and -1 are processes of other PID namespaces. To the reader, 0 is a path. */
static bool has_no_number(pid_t pid)
{
	return pid <= 0;
}

int unwind_keeper_map(struct unwind_keeper *keeper, pid_t pid, uint64_t address)
{
	if (has_no_number(pid))
		return -ESRCH;
	/* It maps files to attach their tables. */
	if (pid == keeper->reader.pid)
		return -EBUSY;
	return see_to_mappings(keeper, pid, address);
}

int unwind_keeper_path(struct unwind_keeper *keeper, const char *path)
{
	struct mapping mapping;
	int error;

	see_to_vdso(keeper);
	error = keeper_ask_path(keeper, READER_LOOK, "", path);
	if (error)
		return error == -ENOEXEC ? -ENODATA : error;
	mapping = keeper->reader.page->mappings[0];
	return see_to(keeper, 0, &mapping);
}

int unwind_keeper_process(struct unwind_keeper *keeper, pid_t pid)
{
	see_to_vdso(keeper);
	if (has_no_number(pid))
		return -ESRCH;
	if (pid == keeper->reader.pid)
		return 0;
	return see_to_mappings(keeper, pid, 0);
}

int unwind_keeper_all(struct unwind_keeper *keeper)
{
	see_to_vdso(keeper);
	return visit_processes(keeper, see_to_process);
}

static int sweep(struct unwind_keeper *keeper, unsigned int keep)
{
	int dropped;

	keeper->sweeping = true;
	mark_all(keeper);
	/*
	 * A process may have got a PID that the scan had already passed, as the
	 * child of one that ended before the scan reached it.
	 */
	if (any_unused(keeper))
		visit_processes(keeper, mark);
	dropped = drop_unused(keeper, keep);
	try_again(keeper, dropped || keeper->dropped_ahead);
	keeper->dropped_ahead = false;
	keeper->sweeping = false;
	keeper->last_sweep = seconds();
	return dropped;
}

int unwind_keeper_sweep(struct unwind_keeper *keeper)
{
	int dropped = sweep(keeper, keeper->keep_seconds);

	if (keeper->ahead && !ahead_is_walking(keeper->ahead) &&
	    ahead_is_outdated(keeper->ahead, keeper))
		ahead_start(keeper->ahead);
	return dropped;
}

void unwind_keeper_get_stats(const struct unwind_keeper *keeper,
			     struct unwind_keeper_stats *stats)
{
	*stats = keeper->stats;
}
