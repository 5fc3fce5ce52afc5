// SPDX-License-Identifier: GPL-2.0
/* The table of a file: has it made and attached, and handles the outcome */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/unwind_table.h>

#include "internal.h"

/* A file that is being written is looked at again after this, then twice that ... */
#define BUSY_SECONDS	2
/*
 * ... so often, if it does not change. After that, if the kernel still says that it is another
 * file, it always will.
 */
#define MAX_TRIES	6
/* A file that changes while it is read is read this many times. */
#define READ_ATTEMPTS	2

/* ------------------------------------------------------------------------ */
/* The reader's file							      */

/* The last thing that a parser writes */
static bool read_fingerprint(int table, __u64 *print)
{
	off_t end = lseek(table, 0, SEEK_END);

	return end >= (off_t)sizeof(*print) &&
	       pread(table, print, sizeof(*print), end - sizeof(*print)) == sizeof(*print);
}

/*
 * The bytes of a table, from a parser that may be controlled by the author of the file. The kernel
 * checks that they are a table, and nobody else reads them.
 */
static enum outcome hand_over(struct worker *worker, struct made *made)
{
	struct kernel *kernel = &worker->keeper->kernel;
	int table = worker->reader.table;
	struct unwind_table_header header;
	enum outcome outcome;
	struct stat st;
	void *data;

	if (!read_fingerprint(table, &made->fingerprint) || fstat(table, &st) ||
	    pread(table, &header, sizeof(header), 0) != sizeof(header))
		return OUTCOME_CRASHED;
	made->bytes = st.st_size - sizeof(made->fingerprint);
	made->rows = header.nr_rows;
	if (made->bytes > keeper_room(worker))
		return OUTCOME_FULL;
	data = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, table, 0);
	if (data == MAP_FAILED) {
		kernel->error = errno;
		return OUTCOME_NOT_MADE;
	}
	outcome = kernel_make(kernel, data, made->bytes, made);
	munmap(data, st.st_size);
	reader_drop_table(&worker->reader);
	return outcome;
}

/* Does it have a table, from any maker? */
static bool has_table(const struct worker *worker)
{
	return kernel_has_table(&worker->keeper->kernel, worker->reader.pidfd,
				worker->reader.page->here);
}

/* Before a table is made */
static enum outcome check_owner(const struct worker *worker)
{
	if (!worker->keeper->kernel.own_only ||
	    worker->reader.page->mappings[0].id.uid == geteuid())
		return OUTCOME_DONE;
	return has_table(worker) ? OUTCOME_SHARED : OUTCOME_DENIED;
}

static enum outcome attach(struct worker *worker, __u32 table)
{
	const struct reader_page *page = worker->reader.page;

	return kernel_attach(&worker->keeper->kernel, table, worker->reader.pidfd, page->here,
			     worker->reader.file, &page->mappings[0].id);
}

/* Have the file closed. Is it unchanged since before it was read? */
static enum outcome finish(struct worker *worker, enum outcome outcome)
{
	enum outcome now;

	reader_drop_file(&worker->reader);
	now = keeper_ask_more(worker, READER_CHECK);

	return outcome ?: now;
}

/* Would this file get the same table again? */
static enum outcome check_fingerprint(struct worker *worker, __u64 fingerprint)
{
	enum outcome outcome = keeper_ask_more(worker, READER_MAKE);
	__u64 now;

	if (outcome)
		return outcome == OUTCOME_NO_CFI ? OUTCOME_CHANGED : outcome;
	if (!read_fingerprint(worker->reader.table, &now))
		return OUTCOME_CRASHED;
	return now == fingerprint ? OUTCOME_DONE : OUTCOME_CHANGED;
}

/*
 * If the kernel has a table for the file, it is most likely this one, and the call will say so.
 * Otherwise it has forgotten the file, and one that looks like it has to be proved the same.
 */
static enum outcome attach_known(struct worker *worker, const struct held *held,
				 __u64 fingerprint)
{
	bool had_table = has_table(worker);
	enum outcome outcome = had_table ? OUTCOME_DONE : check_fingerprint(worker, fingerprint);
	const struct file *file = files_held(&worker->keeper->files, held);

	/* Its table may be gone, and the number be another table's. */
	if (!file)
		return OUTCOME_GONE;
	outcome = outcome ?: attach(worker, file->made.table);
	/* The process that has it mapped now is the next witness. */
	if (had_table && outcome == OUTCOME_SHARED)
		return OUTCOME_DONE;
	/* It was another service's table; ours is attached behind it now. */
	if (!outcome && had_table)
		outcome = check_fingerprint(worker, fingerprint);
	return outcome;
}

enum outcome keeper_attach_again(struct worker *worker, pid_t pid, __u64 address,
				 const struct held *held)
{
	enum outcome outcome = keeper_ask(worker, READER_HOLD, pid, address);
	const struct file *file = files_held(&worker->keeper->files, held);

	if (outcome)
		return outcome;
	if (!file)
		outcome = OUTCOME_GONE;
	else if (!same_id(&worker->reader.page->mappings[0].id, &file->id))
		outcome = OUTCOME_CHANGED;
	else
		outcome = attach_known(worker, held, file->made.fingerprint);
	return finish(worker, outcome);
}

static enum outcome make_once(struct worker *worker, pid_t pid, __u64 address, bool has_twin,
			      struct made *made)
{
	const struct reader_page *page = worker->reader.page;
	struct kernel *kernel = &worker->keeper->kernel;
	enum outcome outcome;

	memset(made, 0, sizeof(*made));
	outcome = keeper_ask(worker, READER_HOLD, pid, address);
	made->error = page->error;
	if (outcome)
		return outcome;
	if (has_twin && has_table(worker))
		outcome = OUTCOME_SHARED;
	outcome = outcome ?: check_owner(worker);
	if (!outcome) {
		outcome = keeper_ask_more(worker, READER_MAKE);
		made->error = page->error;
	}
	if (!outcome) {
		outcome = hand_over(worker, made) ?: attach(worker, made->table);
		made->error = kernel->error;
	}
	outcome = finish(worker, outcome);
	if (outcome && made->table)
		kernel_drop(kernel, made->table);
	return outcome;
}

static enum outcome make(struct worker *worker, pid_t pid, __u64 address,
			 const struct file_id *id, struct made *made)
{
	bool has_twin = files_has_twin(&worker->keeper->files, id);
	enum outcome outcome = OUTCOME_CHANGED;
	int i;

	/* The file may change meanwhile, or somebody may kill the reader. */
	for (i = 0; (outcome == OUTCOME_CHANGED || outcome == OUTCOME_DIED) && i < READ_ATTEMPTS;
	     i++)
		outcome = make_once(worker, pid, address, has_twin, made);
	return outcome;
}

/* Others see that it is being made, and the share that pays is not removed meanwhile. */
static enum outcome make_for(struct worker *worker, struct share *share, pid_t pid, __u64 address,
			     const struct file_id *id, struct made *made)
{
	enum outcome outcome;

	share->users++;
	worker->payer = share;
	worker->making = *id;
	worker->making_since = now_ns();
	do {
		outcome = make(worker, pid, address, id, made);
	} while ((outcome == OUTCOME_FULL || outcome == OUTCOME_KERNEL_FULL) &&
		 keeper_make_room(worker, share, made->bytes));
	worker->making_since = 0;
	worker->payer = NULL;
	share->users--;
	pthread_cond_broadcast(&worker->keeper->changed);
	return outcome;
}

/* ------------------------------------------------------------------------ */
/* Outcomes								      */

void keeper_complain_ahead(struct keeper *keeper, const char *name, const char *why)
{
	const struct keeper_stats *stats = &keeper->files.stats;

	if (!keeper->ahead_full && !keeper->ahead_was_full)
		keeper_complain(keeper, NULL,
				"%s: %s, so it and others get their tables when they run; %llu tables with %llu KB are there ahead",
				name, why, (unsigned long long)stats->ahead,
				(unsigned long long)stats->ahead_bytes >> 10);
	keeper->ahead_full = true;
}

static void complain_full(struct worker *worker, struct share *share, const char *name,
			  enum outcome outcome, __u64 bytes)
{
	struct keeper *keeper = worker->keeper;

	if (worker->on_walk) {
		keeper_complain_ahead(keeper, name, outcome == OUTCOME_FULL ?
				      "half the room is taken (see --max-mb, unwind_table_max_kb)" :
				      "the kernel has no room");
		return;
	}
	if (share->lacks & SHARE_ROOM)
		return;
	share->lacks |= SHARE_ROOM;
	if (outcome == OUTCOME_FULL)
		keeper_complain(keeper, share,
				"%s: no room for a table of %llu KB within the limit of %llu MB, of which %s has %llu KB; it and further files of that share get none until tables are dropped; raise --max-mb",
				name, (unsigned long long)bytes >> 10,
				(unsigned long long)keeper->opts.max_bytes >> 20, share->name,
				(unsigned long long)share->bytes >> 10);
	else
		keeper_complain(keeper, share,
				"%s: the kernel has no room for its table, and %s has %llu KB; it and further files of that share get none until tables are dropped; raise the sysctl kernel.unwind_table_max_kb or the memory limit of this cgroup",
				name, share->name, (unsigned long long)share->bytes >> 10);
}

/* Why a file has no table for good */
static void complain_refused(struct keeper *keeper, struct share *share, const char *name,
			     enum outcome outcome, int error)
{
	const char *cannot = "open the file", *why = strerror(error);

	switch (outcome) {
	case OUTCOME_BAD_TABLE:
		keeper_complain(keeper, share,
				"%s: the kernel refused its table; trace the event unwind:unwind_table and restart the service to see why",
				name);
		return;
	case OUTCOME_COSTLY:
		keeper_complain(keeper, share,
				"%s: no table: it takes more work than a file of its size may",
				name);
		return;
	case OUTCOME_CRASHED:
	case OUTCOME_DIED:
		keeper_complain(keeper, share,
				"%s: the process that reads files crashed on it, so it gets no table; please report this and attach the file",
				name);
		return;
	case OUTCOME_NOT_PARSED:
		cannot = "make the table";
		break;
	case OUTCOME_NOT_MADE:
		cannot = "hand the table to the kernel";
		break;
	case OUTCOME_NOT_ATTACHED:
		cannot = "attach the table";
		break;
	case OUTCOME_IN_USE:
		why = "somebody is in the way each time";
		break;
	case OUTCOME_CHANGED:
		why = "it is another one each time";
		break;
	default:
		break;
	}
	keeper_complain(keeper, share, "%s: no table: cannot %s: %s", name, cannot, why);
}

/* @tries: how often the file has been busy, with the same content */
static enum file_state state_of(struct worker *worker, struct share *share, enum outcome outcome,
				unsigned int tries, const struct made *made)
{
	char name[300];

	keeper_file_name(worker, name, sizeof(name));
	switch (outcome) {
	case OUTCOME_DONE:
		return FILE_TABLE;
	case OUTCOME_SHARED:
		return FILE_SHARED;
	case OUTCOME_EXCLUDED:
	case OUTCOME_NO_PROGRAM:
	case OUTCOME_NO_CFI:
		return FILE_NO_CFI;
	case OUTCOME_IN_USE:
	case OUTCOME_CHANGED:
		if (tries >= MAX_TRIES)
			break;
		return FILE_BUSY;
	case OUTCOME_WRITTEN:
	case OUTCOME_SLOW:
		return FILE_BUSY;
	case OUTCOME_FULL:
	case OUTCOME_KERNEL_FULL:
		complain_full(worker, share, name, outcome, made->bytes);
		return FILE_FULL;
	case OUTCOME_DENIED:
		keeper_complain_denied(worker->keeper);
		return FILE_REFUSED;
	default:
		break;
	}
	complain_refused(worker->keeper, share, name, outcome, made->error);
	return FILE_REFUSED;
}

static bool has_one(const struct file *file)
{
	return file->state == FILE_TABLE || file->state == FILE_SHARED;
}

static bool is_settled(const struct file *file)
{
	/* The next process that has it may be another user's. */
	return has_one(file) || ((file->state == FILE_NO_CFI || file->state == FILE_REFUSED) &&
				 file->seen_by == OWNER_UNKNOWN);
}

/* ------------------------------------------------------------------------ */
/* Files								      */

/* The share that pays for a file that the process of the last question has mapped */
static struct share *payer_of(struct worker *worker, const struct file_id *id)
{
	const struct reader_page *page = worker->reader.page;

	/*
	 * A file system may name any owner, and a container have processes of any user. Root must
	 * not pay for a file just because its owner is said to be root.
	 */
	if (page->pid && !worker->share->root)
		return worker->share;
	return share_of_owner(&worker->keeper->files.shares, id->uid) ?: worker->share;
}

static struct file *remember(struct worker *worker, pid_t pid, const struct mapping *mapping)
{
	struct share *share = payer_of(worker, &mapping->id);
	struct keeper *keeper = worker->keeper;
	struct file *file;

	if (keeper->files.nr == FILES_MAX && !keeper_make_place(worker, share)) {
		if (!(share->lacks & SHARE_FILES))
			keeper_complain(keeper, share,
					"limit of %d files reached, %u of them for %s, whose further files get no tables until some are unmapped; check which processes map so many",
					FILES_MAX, share->nr_files, share->name);
		share->lacks |= SHARE_FILES;
		return NULL;
	}
	file = files_add(&keeper->files, mapping, share);
	if (file && pid) {
		file->witness = worker->asked;
		file->mapped_at = now_seconds();
		/* A sweep may be past this process. */
		file->seen_pid = pid;
		file->seen_address = mapping->start;
		file->witnessed = true;
	} else if (file) {
		file->unused_since = now_seconds();
	}
	return file;
}

/* Forget the file, which is to be looked at again. Returns how often it has been busy. */
static unsigned int forget_before(struct files *files, const struct mapping *mapping)
{
	struct file *file = files_find(files, mapping);
	unsigned int tries = 0;

	if (!file)
		return 0;
	if (file->state == FILE_BUSY && same_content(&file->id, &mapping->id))
		tries = file->tries < MAX_TRIES ? file->tries + 1 : MAX_TRIES;
	files_forget(files, file);
	return tries;
}

/* Has another share made one meanwhile? */
static bool has_one_now(const struct files *files, const struct mapping *mapping)
{
	const struct file *file = files_find(files, mapping);

	return file && file->state == FILE_TABLE && same_content(&file->id, &mapping->id);
}

bool keeper_new_table(struct worker *worker, struct share *share, pid_t pid, __u64 address,
		      const struct file_id *id)
{
	const struct reader_page *page = worker->reader.page;
	struct keeper *keeper = worker->keeper;
	const unsigned int nr_excludes = keeper->nr_excludes;
	struct files *files = &keeper->files;
	struct file *file = NULL;
	enum outcome outcome;
	struct mapping mapping;
	unsigned int tries;
	struct made made;
	bool has_one;

	outcome = make_for(worker, share, pid, address, id, &made);
	/* Nothing is mapped there any more, or the file could not be opened. */
	if (!worker->reader.nr_mappings || page->mappings[0].outcome || outcome == OUTCOME_GONE)
		return false;

	mapping = page->mappings[0];
	has_one = has_one_now(files, &mapping);
	if (!has_one && nr_excludes == keeper->nr_excludes) {
		tries = forget_before(files, &mapping);
		file = remember(worker, pid, &mapping);
	}
	if (!file) {
		if (!outcome)
			kernel_drop(&keeper->kernel, made.table);
		return has_one;
	}
	files->stats.files++;
	file->made = made;
	file->tries = tries;
	if (page->as_user)
		file->seen_by = page->mapper.uid;
	file->retry = now_seconds() + (outcome == OUTCOME_SLOW ? KEEPER_SLOW_SECONDS :
								  BUSY_SECONDS << tries);
	files_set_state(files, file, state_of(worker, file->share, outcome, tries, &made));
	return is_settled(file);
}

/* A file that we cannot open: it has only the identity of its mapping. */
static void see_to_closed(struct worker *worker, pid_t pid, struct mapping mapping)
{
	const struct made made = { .error = EACCES };
	struct reader_page *page = worker->reader.page;
	struct files *files = &worker->keeper->files;
	struct file *file;

	memset(&mapping.id, 0, sizeof(mapping.id));
	if (files_find(files, &mapping))
		return;
	file = remember(worker, pid, &mapping);
	if (!file)
		return;
	files->stats.files++;
	page->name[0] = '\0';
	page->pid = pid;
	page->mappings[0] = mapping;
	worker->reader.nr_mappings = 1;
	files_set_state(files, file, state_of(worker, file->share, mapping.outcome, 0, &made));
}

/* Another attempt, after which it is kept if it was before */
static bool new_again(struct worker *worker, const struct file *file, pid_t pid,
		      const struct mapping *mapping)
{
	unsigned int walk = file ? file->walk : 0;
	bool ahead = file && file->ahead;
	struct files *files = &worker->keeper->files;
	struct file *now;
	bool settled;

	settled = keeper_new_table(worker, payer_of(worker, &mapping->id), pid, mapping->start,
				   &mapping->id);
	now = files_find(files, mapping);
	if (now && ahead) {
		now->walk = walk;
		files_set_ahead(files, now, true);
	}
	return settled;
}

/*
 * Root has it mapped, too, or a user who has more left: then it is not dropped when the share that
 * has paid so far runs short.
 */
static void move(struct files *files, struct file *file, struct share *share)
{
	if (file->share->root || share == file->share ||
	    (!share->root && (share->bytes > file->share->bytes ||
			      share->nr_files > file->share->nr_files)))
		return;
	files_set_share(files, file, share);
}

/* The file is remembered until the share has time for it, if it has a place. */
static void wait_for_time(struct worker *worker, struct file *file, pid_t pid,
			  const struct mapping *mapping, struct share *share)
{
	if (!file)
		file = remember(worker, pid, mapping);
	if (!file)
		return;
	file->waits = true;
	file->retry = now_seconds() + share_wait(share);
}

void keeper_attach_to_seen(struct worker *worker, struct file *file)
{
	struct files *files = &worker->keeper->files;
	const struct held held = files_hold(file);
	const pid_t pid = file->seen_pid;
	const __u64 address = file->seen_address;
	enum outcome outcome;

	file->witness = process_of(pid);
	file->address = address;
	outcome = keeper_attach_again(worker, pid, address, &held);
	file = files_held(files, &held);
	if (!file)
		return;
	/* It has other content now: that needs a new table. */
	if (outcome == OUTCOME_CHANGED) {
		const struct file old = *file;

		files_forget(files, file);
		keeper_new_table(worker, old.share, pid, address, &old.id);
	} else if (outcome) {
		/* The table was not attached, so this process is no witness. */
		file->witness = (struct process){ };
	}
}

/*
 * If nobody had it mapped for a while, the kernel may have forgotten it. That is possible if the
 * witness has ended.
 */
static void see_again(struct worker *worker, struct file *file, pid_t pid,
		      const struct mapping *mapping)
{
	move(&worker->keeper->files, file, payer_of(worker, &mapping->id));
	file->mapped_at = now_seconds();
	file->seen_pid = pid;
	file->seen_address = mapping->start;
	if (!file->unused_since && process_is_alive(&file->witness))
		return;
	file->unused_since = 0;
	if (file->state == FILE_TABLE)
		keeper_attach_to_seen(worker, file);
}

bool keeper_excludes_user(const struct keeper *keeper, const struct file_id *id)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", id->uid);
	return exclude_has(&keeper->exclude, EXCLUDE_USER, number);
}

bool keeper_see_to(struct worker *worker, pid_t pid, const struct mapping *mapping)
{
	struct files *files = &worker->keeper->files;
	bool was_refused = false;
	struct share *share;
	struct file *file;

	if (mapping->outcome == OUTCOME_NO_PROGRAM)
		return true;
	if (mapping->outcome == OUTCOME_CLOSED)
		see_to_closed(worker, pid, *mapping);
	if (mapping->outcome)
		return false;

	keeper_await_maker(worker, &mapping->id);
	file = files_find(files, mapping);
	if (file && !same_content(&file->id, &mapping->id)) {
		/* To the kernel it is the same file: it must lose its table first. */
		files_forget(files, file);
		file = NULL;
	}
	if (keeper_excludes_user(worker->keeper, &mapping->id))
		return true;
	/* The share that had neither room nor time for it may not be the one that maps it now. */
	share = payer_of(worker, &mapping->id);
	if (file && file->share != share)
		was_refused = file->state == FILE_FULL || file->waits;
	/* Another user may see other contents, and the last one may have interfered. */
	if (file && !has_one(file) && file->seen_by != OWNER_UNKNOWN)
		was_refused |= file->seen_by != worker->reader.page->mapper.uid;
	/* The file whose table it shared may be gone, and the table, too. */
	if (file && file->state == FILE_SHARED && file->unused_since)
		return new_again(worker, file, pid, mapping);
	if (file)
		see_again(worker, file, pid, mapping);
	/* see_again() may have found another file there, or it was forgotten meanwhile. */
	file = files_find(files, mapping);
	if (file && !was_refused && (file->state != FILE_BUSY || now_seconds() < file->retry))
		return is_settled(file);
	share = payer_of(worker, &mapping->id);
	if (share_has_time(share))
		return new_again(worker, file, pid, mapping);
	wait_for_time(worker, file, pid, mapping, share);
	return false;
}
