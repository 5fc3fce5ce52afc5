// SPDX-License-Identifier: GPL-2.0
/*
 * Keeper of tables: remembers which files were seen, which table is for which of
 * them, and which files have none and why. All that can wait or break is done by
 * its reader, see keeper-reader.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include <linux/unwind_table.h>

#include "keeper-reader.h"
#include "unwind-keeper.h"

#define __printf(format, first) __attribute__((__format__(printf, format, first)))

#define DEVICE_NAME	"/dev/unwind_tables"

#define NR_BUCKETS	4096
/* A large machine has some thousand; whoever maps more is up to something. */
#define MAX_FILES	32768
/* What did not answer in time is left alone for so long. */
#define AVOID_SECONDS	300
/* A file that is being written is looked at again after this. */
#define BUSY_SECONDS	2
/* To make room, but not each time that there is none */
#define SWEEP_SECONDS	10
/* A process whose files hang one after the other is left alone, too. */
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
 * A file with some content. The mapping of it that was seen last is a witness:
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
	time_t retry;
	pid_t pid;
	__u64 address;
	/* During a sweep: the first mapping, and whether the witness is there */
	pid_t seen_pid;
	__u64 seen_address;
	bool witnessed;
	/* When nobody had it mapped for the first time, 0 if somebody has */
	time_t unused_since;
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

	if (!last) {
		complain(keeper,
			 "process %d: its mappings cannot be read within %d s, left alone for %d s",
			 page->pid, READER_SECONDS, AVOID_SECONDS);
		avoid(keeper, 0, page->pid);
		return;
	}
	/*
	 * A disk does not do it on purpose, and has many other files: the machine
	 * is slow. Of file systems without one it has to be assumed.
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

static bool same_content(const struct file_id *a, const struct file_id *b)
{
	return a->size == b->size && a->mtime_sec == b->mtime_sec &&
	       a->mtime_nsec == b->mtime_nsec;
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

/* Drop the table of a file, and forget the file. */
static void forget(struct unwind_keeper *keeper, struct file *file)
{
	struct file **link = bucket(keeper, file->maps_dev, file->maps_ino);

	if (file->state == FILE_TABLE)
		ioctl(keeper->device, UNWIND_TABLE_DROP, file->table);
	account(keeper, file, -1);
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	keeper->nr_files--;
	free(file);
}

static struct file *remember(struct unwind_keeper *keeper, pid_t pid,
			     const struct mapping *mapping)
{
	struct file **link, *file;

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
	link = bucket(keeper, mapping->dev, mapping->ino);
	file->next = *link;
	*link = file;
	keeper->nr_files++;
	return file;
}

static int sweep(struct unwind_keeper *keeper, unsigned int keep);

/* No room: tables that are not needed any more make some. */
static bool made_room(struct unwind_keeper *keeper)
{
	if (keeper->sweeping || seconds() - keeper->last_sweep < SWEEP_SECONDS)
		return false;
	return sweep(keeper, 0) > 0;
}

/*
 * Containers of one image have the same files, by other devices. Where overlayfs
 * is beneath, they are one file to the kernel, too, and one table is enough.
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

static int make(struct unwind_keeper *keeper, pid_t pid, __u64 address,
		const struct file_id *id)
{
	struct reader_page *page = keeper->reader.page;
	__u64 bytes = keeper->stats.bytes;

	page->probe = has_twin(keeper, id);

	page->room = UINT64_MAX;
	if (keeper->max_bytes)
		page->room = keeper->max_bytes > bytes ?
			     keeper->max_bytes - bytes : 0;
	return ask(keeper, READER_MAKE, pid, address);
}

static void complain_full(struct unwind_keeper *keeper, const char *name)
{
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

/* What was the matter with a file, in the reader's answer */
static enum file_state state_of(struct unwind_keeper *keeper, int error)
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

/*
 * A table for a file that has none. What the reader finds at the address counts,
 * which may be another file than it was before.
 */
static int new_table(struct unwind_keeper *keeper, pid_t pid, __u64 address,
		     struct file_id id)
{
	struct reader_page *page = keeper->reader.page;
	struct mapping mapping;
	struct file *file;
	int error;

	error = make(keeper, pid, address, &id);
	if (error == -ENOSPC && page->step >= READER_ROOM && made_room(keeper))
		error = make(keeper, pid, address, &id);
	/* It ended, or has unmapped it: nothing was found, or not what was */
	if (!page->nr_mappings || page->mappings[0].error)
		return error ?: -ESRCH;
	if (error == -ESRCH)
		return error;

	mapping = page->mappings[0];
	file = find(keeper, &mapping);
	if (file)
		forget(keeper, file);
	file = remember(keeper, pid, &mapping);
	if (!file) {
		if (!error)
			ioctl(keeper->device, UNWIND_TABLE_DROP, page->new_table);
		return -ENOSPC;
	}
	keeper->stats.files++;
	file->table = page->new_table;
	file->bytes = page->bytes;
	file->retry = seconds() + (error == -ETIMEDOUT ? AVOID_SECONDS :
							 BUSY_SECONDS);
	set_state(keeper, file, state_of(keeper, error));
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
	set_state(keeper, file, state_of(keeper, mapping.error));
	return mapping.error;
}

static void attach_again(struct unwind_keeper *keeper, struct file *file);

/* Nobody had it mapped for a while, in which the kernel may have forgotten it. */
static void see_again(struct unwind_keeper *keeper, struct file *file, pid_t pid,
		      const struct mapping *mapping)
{
	if (!file->unused_since)
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
	if (file)
		see_again(keeper, file, pid, mapping);
	if (file && (file->state != FILE_BUSY || seconds() < file->retry))
		return result_of(file);
	return new_table(keeper, pid, mapping->start, mapping->id);
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

/* A file that no process has mapped. Its table is not needed. */
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
			if (is_unused(file))
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
				continue;
			}
			if (!file->unused_since)
				file->unused_since = now;
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
	for (i = 0; i < NR_BUCKETS; i++) {
		for (file = keeper->buckets[i]; file; file = next) {
			next = file->next;
			free(file);
		}
	}
	free(keeper);
}

int unwind_keeper_map(struct unwind_keeper *keeper, pid_t pid, uint64_t address)
{
	int error;

	/* It maps files to attach their tables. */
	if (pid == keeper->reader.pid)
		return 0;
	error = see_to_mappings(keeper, pid, address);
	/* Nothing is there, or no file */
	return error == -ENOENT ? -ENODATA : error;
}

int unwind_keeper_process(struct unwind_keeper *keeper, pid_t pid)
{
	see_to_vdso(keeper);
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
	 * A process may have begun with a number that had been passed, as the child
	 * of one that ended before its own was reached.
	 */
	if (any_unused(keeper))
		visit_processes(keeper, mark);
	dropped = drop_unused(keeper, keep);
	try_again(keeper, dropped);
	keeper->sweeping = false;
	keeper->last_sweep = seconds();
	return dropped;
}

int unwind_keeper_sweep(struct unwind_keeper *keeper)
{
	return sweep(keeper, keeper->keep_seconds);
}

void unwind_keeper_get_stats(const struct unwind_keeper *keeper,
			     struct unwind_keeper_stats *stats)
{
	*stats = keeper->stats;
}
