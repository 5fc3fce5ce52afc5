// SPDX-License-Identifier: GPL-2.0
/* Decides which share gives way: for places for files, and room for tables */
#include "internal.h"

/* Tables made ahead may take one part in so many of the room. */
#define AHEAD_PART	2

void keeper_drop(struct keeper *keeper, struct file *file)
{
	keeper->files.stats.dropped += file->state == FILE_TABLE;
	files_forget(&keeper->files, file);
}

bool keeper_make_place(struct worker *worker, struct share *share)
{
	struct keeper *keeper = worker->keeper;
	struct file *file = NULL;
	struct share *most;

	most = share_with_more_files(&keeper->files.shares, share);
	if (most)
		file = files_dispensable(&keeper->files, most, false);
	else if (share->root && !worker->on_walk)
		file = files_oldest_ahead(&keeper->files, false);
	if (!file)
		return false;
	keeper_drop(keeper, file);
	return true;
}

static __u64 less(__u64 max, __u64 used)
{
	return max > used ? max - used : 0;
}

/* Room that tables made ahead may still take of their part */
static __u64 part_left(const struct keeper *keeper)
{
	__u64 max = keeper->kernel_max;

	if (keeper->opts.max_bytes && max > keeper->opts.max_bytes)
		max = keeper->opts.max_bytes;
	return less(max / AHEAD_PART, keeper->files.stats.ahead_bytes);
}

__u64 keeper_room(const struct worker *worker)
{
	const struct keeper *keeper = worker->keeper;
	__u64 all = UINT64_MAX, part;

	if (keeper->opts.max_bytes)
		all = less(keeper->opts.max_bytes, keeper->files.stats.bytes);
	part = worker->on_walk ? part_left(keeper) : all;
	return part < all ? part : all;
}

/* Files that run come before those that might. */
static bool drop_ahead(struct keeper *keeper, __u64 bytes)
{
	struct file *file;
	__u64 done = 0;

	while (done < bytes) {
		file = files_oldest_ahead(&keeper->files, true);
		if (!file)
			break;
		done += file->made.bytes;
		keeper_drop(keeper, file);
		keeper->made_room = true;
	}
	return done;
}

/*
 * First drop tables that the share does not need any more, then some of a share that has more
 * than this one would have.
 */
static bool drop_dispensable(struct worker *worker, struct share *share, __u64 bytes)
{
	struct keeper *keeper = worker->keeper;
	struct share *most;
	struct file *file;
	__u64 done = 0;

	while (done < bytes) {
		file = worker->on_walk ? NULL : files_dispensable(&keeper->files, share, true);
		if (!file || !file->unused_since) {
			most = share_with_more_room(&keeper->files.shares, share, bytes);
			file = most ? files_dispensable(&keeper->files, most, true) : NULL;
		}
		if (!file)
			break;
		done += file->made.bytes;
		keeper_drop(keeper, file);
	}
	return done;
}

bool keeper_make_room(struct worker *worker, struct share *share, __u64 bytes)
{
	struct keeper *keeper = worker->keeper;

	if (worker->on_walk && part_left(keeper) < bytes)
		return false;
	if (drop_dispensable(worker, share, bytes))
		return true;
	if (worker->on_walk)
		return false;
	if (share->root && drop_ahead(keeper, bytes))
		return true;
	share->needy = true;
	keeper->sweep.wanted = true;
	keeper_tell(keeper);
	return false;
}
