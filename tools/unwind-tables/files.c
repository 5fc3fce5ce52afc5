// SPDX-License-Identifier: GPL-2.0
/* The files that were seen: see files.h */
#include <stdlib.h>

#include "files.h"
#include "hash.h"
#include "kernel.h"

static unsigned int bucket(__u64 dev, __u64 ino)
{
	const __u64 number[2] = { dev, ino };

	/* A file system may give its files any numbers. */
	return hash_bytes(number, sizeof(number)) % FILES_NR_BUCKETS;
}

struct file *files_next(const struct files *files, const struct file *file)
{
	unsigned int i = file ? bucket(file->maps_dev, file->maps_ino) + 1 : 0;

	if (file && file->next)
		return file->next;
	while (i < FILES_NR_BUCKETS && !files->buckets[i])
		i++;
	return i < FILES_NR_BUCKETS ? files->buckets[i] : NULL;
}

static struct file *with_number(struct file *file, __u64 dev, __u64 ino)
{
	while (file && (file->maps_dev != dev || file->maps_ino != ino))
		file = file->next;
	return file;
}

struct file *files_first_of(const struct files *files, const struct mapping *mapping)
{
	return with_number(files->buckets[bucket(mapping->dev, mapping->ino)], mapping->dev,
			   mapping->ino);
}

struct file *files_next_of(const struct file *file)
{
	return with_number(file->next, file->maps_dev, file->maps_ino);
}

/*
 * By both names: subvolumes of btrfs have the same device and the same numbers in
 * /proc/PID/maps.
 */
struct file *files_find(const struct files *files, const struct mapping *mapping)
{
	struct file *file = files_first_of(files, mapping);

	while (file && (file->id.dev != mapping->id.dev || file->id.ino != mapping->id.ino))
		file = files_next_of(file);
	return file;
}

struct held files_hold(const struct file *file)
{
	return (struct held){ file->maps_dev, file->maps_ino, file->serial };
}

struct file *files_held(const struct files *files, const struct held *held)
{
	struct file *file = files->buckets[bucket(held->dev, held->ino)];

	while (file && file->serial != held->serial)
		file = file->next;
	return file;
}

static void account(struct files *files, const struct file *file, int by)
{
	struct keeper_stats *stats = &files->stats;

	switch (file->state) {
	case FILE_TABLE:
		stats->tables += by;
		stats->bytes += by * (__s64)file->made.bytes;
		file->share->bytes += by * (__s64)file->made.bytes;
		if (!file->ahead)
			break;
		stats->ahead += by;
		stats->ahead_rows += by * (__s64)file->made.rows;
		stats->ahead_bytes += by * (__s64)file->made.bytes;
		break;
	case FILE_NO_CFI:
		stats->no_cfi += by;
		break;
	case FILE_REFUSED:
		stats->refused += by;
		break;
	default:
		break;
	}
}

void files_set_state(struct files *files, struct file *file, enum file_state state)
{
	account(files, file, -1);
	file->state = state;
	account(files, file, 1);
}

void files_set_ahead(struct files *files, struct file *file, bool ahead)
{
	account(files, file, -1);
	files->nr_ahead += ahead - file->ahead;
	file->ahead = ahead;
	account(files, file, 1);
}

void files_set_share(struct files *files, struct file *file, struct share *share)
{
	account(files, file, -1);
	file->share->nr_files--;
	file->share = share;
	share->nr_files++;
	account(files, file, 1);
}

struct file *files_add(struct files *files, const struct mapping *mapping, struct share *share)
{
	struct file **link = &files->buckets[bucket(mapping->dev, mapping->ino)];
	struct file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->serial = ++files->last_serial;
	file->maps_dev = mapping->dev;
	file->maps_ino = mapping->ino;
	file->id = mapping->id;
	file->address = mapping->start;
	file->share = share;
	share->nr_files++;
	file->state = FILE_BUSY;
	file->seen_by = OWNER_UNKNOWN;
	file->next = *link;
	*link = file;
	files->nr++;
	return file;
}

static void unlink_file(struct files *files, struct file *file)
{
	struct file **link = &files->buckets[bucket(file->maps_dev, file->maps_ino)];

	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	files->nr--;
	free(file);
}

void files_forget(struct files *files, struct file *file)
{
	if (file->state == FILE_TABLE)
		kernel_drop(files->kernel, file->made.table);
	account(files, file, -1);
	file->share->nr_files--;
	files->nr_ahead -= file->ahead;
	unlink_file(files, file);
}

/*
 * Containers of one image have the same files on different devices. With overlayfs,
 * the kernel also knows these as one file, and one table is enough.
 */
bool files_has_twin(const struct files *files, const struct file_id *id)
{
	const struct file *file;

	for (file = files_next(files, NULL); file; file = files_next(files, file))
		if (file->id.ino == id->ino && file->id.dev != id->dev &&
		    same_times(&file->id, id))
			return true;
	return false;
}

struct file *files_oldest_ahead(const struct files *files, bool with_table)
{
	struct file *file, *oldest = NULL;

	for (file = files_next(files, NULL); file; file = files_next(files, file))
		if (file->ahead && file->unused_since &&
		    (!with_table || file->state == FILE_TABLE) &&
		    (!oldest || file->mapped_at < oldest->mapped_at))
			oldest = file;
	return oldest;
}

/* Unmapped files are dropped first, then those that are not root's, then the largest. */
static bool goes_before(const struct file *a, const struct file *b)
{
	if (!a->unused_since != !b->unused_since)
		return a->unused_since;
	if (!a->id.uid != !b->id.uid)
		return a->id.uid;
	return a->made.bytes > b->made.bytes;
}

struct file *files_dispensable(const struct files *files, const struct share *share,
			       bool with_table)
{
	struct file *file, *least = NULL;

	for (file = files_next(files, NULL); file; file = files_next(files, file)) {
		if (file->share != share || file->ahead ||
		    (with_table && file->state != FILE_TABLE))
			continue;
		if (!least || goes_before(file, least))
			least = file;
	}
	return least;
}

void files_free(struct files *files)
{
	struct file *file;

	/* Closing the device drops their tables. */
	while ((file = files_next(files, NULL)))
		unlink_file(files, file);
	shares_free(&files->shares);
}
