// SPDX-License-Identifier: GPL-2.0
/*
 * Keeper of tables: remembers which files were seen, which table is for which file,
 * and which files have none and why. It alone has the device. Everything that can block or
 * crash is done by its reader, see keeper-reader.c.
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
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/elf-em.h>
#include <linux/unwind_table.h>

#include "internal.h"
#include "keeper-ahead.h"
#include "keeper-reader.h"
#include "keeper-share.h"
#include "unwind-keeper.h"
#include "unwind-table.h"

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
/* How often the device is asked whose answer is that some memory is locked: for 31 ms in all */
#define LOCKED_TRIES	6
#define LOCKED_NS	1000000
/* The vDSO, if it was refused, which is not its fault, is tried again after this. */
#define VDSO_SECONDS	2
/* A sweep to make room comes at least this long after the last sweep. */
#define SWEEP_SECONDS	10
/* A file that changes while it is read is read this many times. */
#define READ_ATTEMPTS	2
/* After this many timeouts, this look at a process is given up. */
#define MAX_HANGS	3
/* Nobody pays for what is listed when the keeper wants to know, if it does not take longer. */
#define FREE_LIST_NS	10000000
/* Processes whose shares are known */
#define NR_MAPPERS	256

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
	struct share *share;
	enum file_state state;
	/* FILE_BUSY because the share has no time, and for no other reason */
	bool waits;
	/* Who was needed to see it, if it has no table; or OWNER_UNKNOWN */
	__u32 seen_by;
	__u32 table;
	/* Of what the table was made of */
	__u64 fingerprint;
	__u64 bytes;
	__u64 rows;
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
	/* It is kept though nobody has it mapped: the last walk ahead came past it. */
	bool ahead;
	unsigned int walk;
	/* When somebody was seen to have it mapped, 0 if never */
	time_t mapped_at;
};

struct unwind_keeper {
	struct reader reader;
	int device;
	/* The kernel takes tables only for files that are our user's. */
	bool own_only;
	__u64 max_bytes;
	void (*complain)(void *arg, const char *message);
	void (*alive)(void *arg);
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
	/* The table that was made last, and how much there was room for */
	__u32 new_table;
	__u64 new_bytes;
	__u64 new_rows;
	__u64 new_fingerprint;
	__u64 room;
	/* There was no room on this walk, or on the one before it. */
	bool ahead_full;
	bool ahead_was_full;
	/* Room was made: files without a table may have one now. */
	bool made_room;
	/* The process of the last question about one */
	struct process asked;
	/* Questions that were not answered in time */
	unsigned int hangs;
	struct shares shares;
	/* Root's own; that of the process of the last question; who pays for the next */
	struct share *root;
	struct share *mapper;
	struct share *payer;
	/* By the last bits of their numbers */
	struct {
		struct process process;
		struct share *share;
	} mappers[NR_MAPPERS];
	/* 1: has a table; -ENODATA: cannot have one; else it is tried again after that time. */
	int vdso;
	time_t vdso_retry;
};

static time_t seconds(void)
{
	return monotonic_ns() / 1000000000;
}

static __u64 own_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
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

static bool avoids(const struct unwind_keeper *keeper, const struct process *process)
{
	const struct reader_page *page = keeper->reader.page;
	unsigned int i;

	for (i = 0; i < page->nr_avoided; i++)
		if (page->avoided[i].process.pid == process->pid &&
		    page->avoided[i].process.identity == process->identity)
			return true;
	return false;
}

static void avoid(struct unwind_keeper *keeper, __u64 dev, struct process process)
{
	struct reader_page *page = keeper->reader.page;
	unsigned int i = keeper->next_avoided++ % READER_MAX_AVOIDED;

	page->avoided[i] = (struct avoided){ .dev = dev, .process = process };
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
		avoid(keeper, 0, keeper->asked);
		return;
	}
	/*
	 * Who is known pays, and is left alone by himself. If a file system does not even
	 * say which file it is, it has to ask somebody else, as FUSE and NFS do.
	 */
	if (!page->pid || !last->error || major(last->dev) || !owner_is_root(&page->mapper)) {
		complain(keeper, "%s: takes too long to read",
			 file_name(keeper, name, sizeof(name)));
		return;
	}
	complain(keeper,
		 "%s: does not answer within %d s, what root has mapped of its device %u:%u is left alone for %d s",
		 file_name(keeper, name, sizeof(name)), READER_SECONDS,
		 major(last->dev), minor(last->dev), AVOID_SECONDS);
	avoid(keeper, last->dev, (struct process){ });
}

/*
 * For the last question. While the reader waits for a file system, others wait for the
 * reader, so not only the CPU's time counts. @took: all of it
 */
static void pay(struct unwind_keeper *keeper, __s64 took)
{
	const struct reader_page *page = keeper->reader.page;
	unsigned int slot = page->pid % NR_MAPPERS;
	struct share *payer;

	keeper->mapper = keeper->root;
	if (page->pid) {
		keeper->mapper = share_of_process(&keeper->shares, &page->mapper) ?:
				 keeper->root;
		keeper->mappers[slot].process = keeper->asked;
		keeper->mappers[slot].share = keeper->mapper;
	}
	payer = keeper->payer ?: keeper->mapper;
	if (keeper->reader.hung >= 0)
		share_set_hung(payer, keeper->reader.hung);
	keeper->reader.hung = -1;
	if (page->busy_ns)
		took = page->busy_ns;
	if (page->question == READER_LIST && took < FREE_LIST_NS)
		return;
	share_take_time(payer, took);
	if (!payer->root)
		keeper->stats.apart_ns += page->cpu_ns;
	else if (page->build_ns <= page->cpu_ns)
		keeper->stats.apart_ns += page->build_ns;
}

/* The share of a process that was asked about, or NULL if it is another one now */
static struct share *known_share(const struct unwind_keeper *keeper, const struct process *process)
{
	unsigned int slot = process->pid % NR_MAPPERS;

	return keeper->mappers[slot].process.pid == process->pid &&
	       keeper->mappers[slot].process.identity == process->identity ?
	       keeper->mappers[slot].share : NULL;
}

/* Is the process known to be one whose share has no time left? */
static bool must_wait(struct unwind_keeper *keeper, pid_t pid)
{
	const struct process process = process_of(pid);
	struct share *share = known_share(keeper, &process);

	return share && !share_has_time(share);
}

/*
 * Get to know the share before the reader is asked for the first time: who has no time left
 * would have some for each process that he starts. To read this blocks nobody. NULL if the
 * process has ended.
 */
static struct share *find_share(struct unwind_keeper *keeper, pid_t pid)
{
	const struct process process = process_of(pid);
	struct share *share = known_share(keeper, &process);
	unsigned int slot = pid % NR_MAPPERS;
	struct owner owner;
	char path[32];
	int proc;

	if (!process.identity)
		return NULL;
	if (share)
		return share;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return NULL;
	owner_read(proc, &owner);
	close(proc);
	share = share_of_process(&keeper->shares, &owner) ?: keeper->root;
	keeper->mappers[slot].process = process;
	keeper->mappers[slot].share = share;
	return share;
}

/* About the file that was asked about last */
static int ask_more(struct unwind_keeper *keeper, enum reader_question question)
{
	struct reader_page *page = keeper->reader.page;
	__s64 start;
	int error;

	if (keeper->alive)
		keeper->alive(keeper->arg);
	page->question = question;
	start = monotonic_ns();
	error = reader_ask(&keeper->reader);
	keeper->stats.build_ns += page->build_ns;
	keeper->stats.cpu_ns += page->cpu_ns;
	pay(keeper, monotonic_ns() - start);
	/* A parser may have had as much of a CPU as it may. */
	if (error == -ETIMEDOUT ||
	    (!error && page->error == -ETIMEDOUT && page->step == READER_READ))
		avoid_what_hangs(keeper);
	return error ?: page->error;
}

static int ask(struct unwind_keeper *keeper, enum reader_question question,
	       pid_t pid, __u64 address)
{
	struct reader_page *page = keeper->reader.page;
	int error;

	forget_avoided(keeper);
	/* Before: if the number is another process's by the time of the answer, it has ended. */
	if (pid)
		keeper->asked = process_of(pid);
	if (pid && avoids(keeper, &keeper->asked))
		return -ETIMEDOUT;
	page->pid = pid;
	page->address = address;
	error = ask_more(keeper, question);
	/* Somebody has killed the reader, or it has crashed, which it will again. */
	return error == -ECONNRESET ? ask_more(keeper, question) : error;
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
		file->share->bytes += by * (__s64)file->bytes;
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

/*
 * Ask about what is mapped, in this process or the reader. The kernel does not wait where
 * somebody has locked that, as khugepaged may have; but that is soon over.
 */
static int ask_device(struct unwind_keeper *keeper, unsigned long command, void *arg)
{
	struct timespec pause = { .tv_nsec = LOCKED_NS };
	int i, ret;

	for (i = 1; ; i++) {
		ret = ioctl(keeper->device, command, arg);
		if (ret >= 0 || errno != EAGAIN || i == LOCKED_TRIES)
			return ret < 0 ? -errno : ret;
		nanosleep(&pause, NULL);
		pause.tv_nsec *= 2;
	}
}

static void drop_table(const struct unwind_keeper *keeper, __u32 table)
{
	ioctl(keeper->device, UNWIND_TABLE_DROP, table);
}

/* Drop the table of a file, and forget the file. */
static void forget(struct unwind_keeper *keeper, struct file *file)
{
	struct file **link = bucket(keeper, file->maps_dev, file->maps_ino);

	if (file->state == FILE_TABLE)
		drop_table(keeper, file->table);
	account(keeper, file, -1);
	file->share->nr_files--;
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
		keeper->made_room = true;
	}
	return done;
}

/* Whoever pays for a file that the process of the last question has mapped */
static struct share *payer_of(struct unwind_keeper *keeper, const struct file_id *id)
{
	const struct reader_page *page = keeper->reader.page;

	/* A file system may name any owner. Nothing of root's is to be paid for by root. */
	if (page->pid && id->uid != page->mapper.uid && !keeper->mapper->root)
		return keeper->mapper;
	return share_of_owner(&keeper->shares, id->uid) ?: keeper->mapper;
}

/* What nobody has mapped goes first, then what is not root's, then what is largest. */
static bool goes_before(const struct file *a, const struct file *b)
{
	if (!a->unused_since != !b->unused_since)
		return a->unused_since;
	if (!a->id.uid != !b->id.uid)
		return a->id.uid;
	return a->bytes > b->bytes;
}

/* What this share needs least, of its tables or of all its files */
static struct file *dispensable(struct unwind_keeper *keeper, const struct share *share,
				bool with_table)
{
	struct file *file, *least = NULL;
	unsigned int i;

	for (i = 0; i < NR_BUCKETS; i++) {
		for (file = keeper->buckets[i]; file; file = file->next) {
			if (file->share != share || file->ahead ||
			    (with_table && file->state != FILE_TABLE))
				continue;
			if (!least || goes_before(file, least))
				least = file;
		}
	}
	return least;
}

/* There is no place for one more. Returns whether there is now. */
static bool made_place(struct unwind_keeper *keeper, struct share *share)
{
	struct file *file = NULL;
	struct share *most;

	most = share_with_more_files(&keeper->shares, share);
	if (most)
		file = dispensable(keeper, most, false);
	else if (share->root && !keeper->on_walk)
		file = oldest_ahead(keeper, false);
	if (!file)
		return false;
	keeper->stats.dropped += file->state == FILE_TABLE;
	forget(keeper, file);
	return true;
}

static struct file *remember(struct unwind_keeper *keeper, pid_t pid,
			     const struct mapping *mapping)
{
	struct share *share = payer_of(keeper, &mapping->id);
	struct file **link, *file;

	if (keeper->nr_files == MAX_FILES && !made_place(keeper, share)) {
		if (!(share->lacks & SHARE_FILES))
			complain(keeper,
				 "limit of %d files reached, %u of them for %s, whose further files get no tables until some are unmapped; check which processes map so many",
				 MAX_FILES, share->nr_files, share->name);
		share->lacks |= SHARE_FILES;
		return NULL;
	}
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->maps_dev = mapping->dev;
	file->maps_ino = mapping->ino;
	file->id = mapping->id;
	file->share = share;
	share->nr_files++;
	file->state = FILE_BUSY;
	file->address = mapping->start;
	file->seen_by = OWNER_UNKNOWN;
	if (pid) {
		file->witness = keeper->asked;
		file->mapped_at = seconds();
	} else {
		file->unused_since = seconds();
	}
	link = bucket(keeper, mapping->dev, mapping->ino);
	file->next = *link;
	*link = file;
	keeper->nr_files++;
	return file;
}

static int sweep(struct unwind_keeper *keeper, const struct share *needy);

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

/* What tables made ahead may still take of their part */
static __u64 half_left(const struct unwind_keeper *keeper)
{
	__u64 max = keeper->kernel_max;

	if (keeper->max_bytes && max > keeper->max_bytes)
		max = keeper->max_bytes;
	max /= AHEAD_PART;
	return max > keeper->stats.ahead_bytes ? max - keeper->stats.ahead_bytes : 0;
}

/*
 * No room: what the share does not need any more makes some, and then who has more than
 * the share would have.
 */
static bool made_room(struct unwind_keeper *keeper, struct share *share, __u64 bytes)
{
	struct share *most;
	struct file *file;
	__u64 done = 0;

	if (keeper->on_walk && half_left(keeper) < bytes)
		return false;
	while (done < bytes) {
		file = keeper->on_walk ? NULL : dispensable(keeper, share, true);
		if (!file || !file->unused_since) {
			most = share_with_more_room(&keeper->shares, share, bytes);
			file = most ? dispensable(keeper, most, true) : NULL;
		}
		if (!file)
			break;
		done += file->bytes;
		forget(keeper, file);
		keeper->stats.dropped++;
	}
	if (done)
		return true;
	if (keeper->on_walk)
		return false;
	if (share->root && drop_ahead(keeper, bytes))
		return true;
	if (keeper->sweeping || seconds() - keeper->last_sweep < SWEEP_SECONDS)
		return false;
	sweep(keeper, share);
	return true;
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
			    same_times(&file->id, id))
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

/* ... for a table that may not be needed */
static __u64 room_ahead(const struct unwind_keeper *keeper)
{
	__u64 half = half_left(keeper), all = room(keeper);

	return half < all ? half : all;
}

/* ------------------------------------------------------------------------ */
/* Tables in the kernel							      */

/* Does the kernel know what the tables say? Parsers are forks of this process. */
static void ask_for_no_call(const struct unwind_keeper *keeper)
{
	const struct {
		struct unwind_table_header	header;
		struct unwind_table_run		run;
		__u32				blocks[2];
		struct unwind_table_row		row;
		struct unwind_table_rule	rule;
		__u32				end[];
	} table = {
		.header = {
			.magic		= UNWIND_TABLE_MAGIC,
			.version	= UNWIND_TABLE_VERSION,
			.machine	= EM_X86_64,
			.word_size	= 8,
			.nr_runs	= 1,
			.nr_pages	= 1,
			.nr_rows	= 1,
			.nr_rules	= 1,
			.block_shift	= UNWIND_TABLE_PAGE_SHIFT,
		},
		.run.nr_pages = 1,
		.rule = {
			.kind	= UNWIND_TABLE_CALLER,
			.flags	= UNWIND_TABLE_NO_CALL,
			.cfa	= { .where = UNWIND_TABLE_REG, .reg = UT_REG_SP, .off = 8 },
			.ra	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -8 },
		},
	};
	struct unwind_table_make arg = {
		.size	= sizeof(arg),
		.data	= (unsigned long)&table,
		.len	= offsetof(typeof(table), end),
	};
	int number = ioctl(keeper->device, UNWIND_TABLE_MAKE, &arg);

	ut_says_no_call = number >= 0 || errno != EINVAL;
	if (number >= 0)
		drop_table(keeper, number);
}

static int make_in_kernel(struct unwind_keeper *keeper, const void *data, __u64 len)
{
	struct unwind_table_make arg = {
		.size	= sizeof(arg),
		.data	= (unsigned long)data,
		.len	= len,
	};
	int number;

	keeper->new_bytes = len;
	keeper->reader.page->step = READER_ROOM;
	if (len > keeper->room)
		return -ENOSPC;
	keeper->reader.page->step = READER_HAND_OVER;
	number = ioctl(keeper->device, UNWIND_TABLE_MAKE, &arg);
	if (number < 0)
		return -errno;
	keeper->new_table = number;
	return 0;
}

/* The last thing that a parser writes */
static bool read_fingerprint(struct unwind_keeper *keeper, __u64 *print)
{
	off_t end = lseek(keeper->reader.table, 0, SEEK_END);

	return end >= (off_t)sizeof(*print) &&
	       pread(keeper->reader.table, print, sizeof(*print), end - sizeof(*print)) ==
	       sizeof(*print);
}

/*
 * The bytes of a table, from a parser that may be in the hands of whoever wrote the file. The
 * kernel looks whether they are one, and nobody else reads them.
 */
static int hand_over(struct unwind_keeper *keeper)
{
	int error, table = keeper->reader.table;
	struct unwind_table_header header;
	struct stat st;
	void *data;

	if (!read_fingerprint(keeper, &keeper->new_fingerprint) || fstat(table, &st) ||
	    pread(table, &header, sizeof(header), 0) != sizeof(header))
		return -EPIPE;
	data = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, table, 0);
	if (data == MAP_FAILED)
		return -errno;
	error = make_in_kernel(keeper, data, st.st_size - sizeof(__u64));
	munmap(data, st.st_size);
	keeper->new_rows = header.nr_rows;
	reader_drop_table(&keeper->reader);
	return error;
}

/* Does what is mapped there have a table, whoever made it? */
static int query_at(struct unwind_keeper *keeper, int pidfd, __u64 address)
{
	struct unwind_table_query arg = {
		.size		= sizeof(arg),
		.pidfd		= pidfd,
		.address	= address,
	};

	return ask_device(keeper, UNWIND_TABLE_QUERY, &arg) == 1 ? -EEXIST : 0;
}

/* ... the file that the reader has mapped */
static int query_table(struct unwind_keeper *keeper)
{
	return query_at(keeper, keeper->reader.pidfd, keeper->reader.page->here);
}

/* Attach. -EPERM: that is not for us to do, and nobody else has. */
static int attach_at(struct unwind_keeper *keeper, struct unwind_table_attach *arg)
{
	int error = ask_device(keeper, UNWIND_TABLE_ATTACH, arg);

	if (error != -EPERM)
		return error;
	keeper->own_only = true;
	return query_at(keeper, arg->pidfd, arg->address) ?: -EPERM;
}

/* As above, before a table is made for the file that the reader has mapped */
static int check_owner(struct unwind_keeper *keeper)
{
	struct reader_page *page = keeper->reader.page;

	if (!keeper->own_only || page->mappings[0].id.uid == geteuid())
		return 0;
	page->step = READER_BIND;
	return query_table(keeper) ?: -EPERM;
}

/* To the file that the reader has opened */
static int attach(struct unwind_keeper *keeper, __u32 table)
{
	struct reader_page *page = keeper->reader.page;
	const struct file_id *id = &page->mappings[0].id;
	struct unwind_table_attach arg = {
		.size		= sizeof(arg),
		.flags		= UNWIND_TABLE_ATTACH_FD,
		.table		= table,
		.pidfd		= keeper->reader.pidfd,
		.address	= page->here,
		.file_size	= id->size,
		.mtime_sec	= id->mtime_sec,
		.mtime_nsec	= id->mtime_nsec,
		.file		= keeper->reader.file,
	};
	int error;

	page->step = READER_BIND;
	error = attach_at(keeper, &arg);
	/* The reader has gone, and what it had mapped. */
	return error == -EFAULT || error == -ESRCH ? -ECONNRESET : error;
}

/* Have the file closed. Is it as it was before it was read? */
static int finish(struct unwind_keeper *keeper, int error)
{
	int now = ask_more(keeper, READER_CHECK);

	return error ?: now;
}

/* -ESTALE: the table was not made of the file that the reader has opened. */
static int check_fingerprint(struct unwind_keeper *keeper, const struct file *file)
{
	int error = ask_more(keeper, READER_PRINT);
	__u64 now;

	if (error == -ENODATA || error == -ENOEXEC)
		return -ESTALE;
	if (!error && !read_fingerprint(keeper, &now))
		return -EPIPE;
	return error ?: now == file->fingerprint ? 0 : -ESTALE;
}

/*
 * If the kernel has a table for the file that the reader has opened, it is most likely this
 * one, and the call will say so. Else it has forgotten the file, and what looks like it
 * has to prove that it is the same.
 */
static int attach_known(struct unwind_keeper *keeper, const struct file *file)
{
	bool has_table = query_table(keeper);
	int error = has_table ? 0 : check_fingerprint(keeper, file);

	error = error ?: attach(keeper, file->table);
	/* It was somebody else's table, behind which this one is now. */
	if (!error && has_table)
		error = check_fingerprint(keeper, file);
	return error;
}

/* Attach a table again. -ESTALE: it is of another file, or of other content. */
static int attach_again(struct unwind_keeper *keeper, pid_t pid, __u64 address,
			const struct file *file)
{
	int error;

	error = ask(keeper, READER_HOLD, pid, address);
	if (error)
		return error;
	if (!same_id(&keeper->reader.page->mappings[0].id, &file->id))
		error = -ESTALE;
	return finish(keeper, error ?: attach_known(keeper, file));
}

static int make_once(struct unwind_keeper *keeper, pid_t pid, __u64 address, bool has_twin)
{
	int error;

	keeper->new_table = 0;
	keeper->new_bytes = 0;
	keeper->new_rows = 0;
	keeper->new_fingerprint = 0;
	error = ask(keeper, READER_HOLD, pid, address);
	if (error)
		return error;
	if (has_twin)
		error = query_table(keeper);
	error = error ?: check_owner(keeper) ?: ask_more(keeper, READER_MAKE) ?:
		hand_over(keeper);
	error = finish(keeper, error ?: attach(keeper, keeper->new_table));
	if (error && keeper->new_table)
		drop_table(keeper, keeper->new_table);
	return error;
}

static int make(struct unwind_keeper *keeper, struct share *share, pid_t pid,
		__u64 address, const struct file_id *id)
{
	bool twin = has_twin(keeper, id);
	int i, error = -ESTALE;

	keeper->payer = share;
	/* The file may change meanwhile, or somebody may kill the reader. */
	keeper->room = keeper->on_walk ? room_ahead(keeper) : room(keeper);
	for (i = 0; (error == -ESTALE || error == -ECONNRESET) && i < READ_ATTEMPTS; i++)
		error = make_once(keeper, pid, address, twin);
	keeper->payer = NULL;
	return error;
}

/* How much of this process the vDSO is; it is the same in all, and nobody has written to it. */
static size_t vdso_size(void)
{
	unsigned long start, end;
	char line[256];
	size_t size = 0;
	FILE *maps;

	maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, " [vdso]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
			size = end - start;
	if (maps)
		fclose(maps);
	return size;
}

static int make_vdso(struct unwind_keeper *keeper)
{
	unsigned long address = getauxval(AT_SYSINFO_EHDR);
	struct unwind_table_attach arg = { .size = sizeof(arg), .address = address };
	struct unwind_table *table;
	const void *data;
	size_t len;
	int error;

	if (!address)
		return -ENODATA;
	error = unwind_table_from_memory((const void *)address, vdso_size(), &table);
	if (error)
		return error;
	data = unwind_table_data(table, &len);
	keeper->room = UINT64_MAX;
	error = make_in_kernel(keeper, data, len);
	unwind_table_free(table);
	if (error)
		return error;
	arg.table = keeper->new_table;
	arg.pidfd = syscall(SYS_pidfd_open, getpid(), 0);
	error = attach_at(keeper, &arg);
	close(arg.pidfd);
	if (error)
		drop_table(keeper, arg.table);
	return error;
}

/* ------------------------------------------------------------------------ */
/* What came of it							      */

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

/* Once, for all: it is about the user, and not about a file. */
static void complain_denied(struct unwind_keeper *keeper)
{
	if (!keeper->stats.denied++)
		complain(keeper,
			 "CAP_SYS_ADMIN is missing: only files of user %u get tables from here, except on overlayfs; all others, and the vDSO, have those of the service unwind-tables, if that runs",
			 geteuid());
}

static void complain_full(struct unwind_keeper *keeper, struct share *share,
			  const char *name)
{
	if (keeper->on_walk) {
		complain_ahead(keeper, name,
			       keeper->reader.page->step == READER_ROOM ?
			       "half the room is taken (see --max-mb, unwind_table_max_kb)" :
			       "the kernel has no room");
		return;
	}
	if (share->lacks & SHARE_ROOM)
		return;
	share->lacks |= SHARE_ROOM;
	if (keeper->reader.page->step == READER_ROOM)
		complain(keeper,
			 "%s: no room for a table of %llu KB within the limit of %llu MB, of which %s has %llu KB; it and further files of that share get none until tables are dropped; raise --max-mb",
			 name, (unsigned long long)keeper->new_bytes >> 10,
			 (unsigned long long)keeper->max_bytes >> 20, share->name,
			 (unsigned long long)share->bytes >> 10);
	else
		complain(keeper,
			 "%s: the kernel has no room for its table, and %s has %llu KB; it and further files of that share get none until tables are dropped; raise the sysctl kernel.unwind_table_max_kb or the memory limit of this cgroup",
			 name, share->name, (unsigned long long)share->bytes >> 10);
}

/*
 * What was wrong with a file, from the reader's answer. @tries: how often it has been
 * busy, with the same content
 */
static enum file_state state_of(struct unwind_keeper *keeper, struct share *share,
				int error, unsigned int tries)
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
	/* -EAGAIN: a lease is on it, or the reader's memory was locked all the time */
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
		complain_full(keeper, share, name);
		return FILE_FULL;
	case -EPERM:
		if (step != READER_BIND)
			break;
		complain_denied(keeper);
		return FILE_REFUSED;
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
	case -ECONNRESET:
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
		/* The next process that has it may be one of somebody else's. */
		return file->seen_by == OWNER_UNKNOWN ? -ENODATA : -EACCES;
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
static int new_table(struct unwind_keeper *keeper, struct share *share, pid_t pid,
		     __u64 address, struct file_id id)
{
	struct reader_page *page = keeper->reader.page;
	unsigned int tries = 0;
	struct mapping mapping;
	struct file *file;
	int error;

	error = make(keeper, share, pid, address, &id);
	while (is_full(keeper, error) && made_room(keeper, share, keeper->new_bytes))
		error = make(keeper, share, pid, address, &id);
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
			drop_table(keeper, keeper->new_table);
		return -ENOSPC;
	}
	keeper->stats.files++;
	file->table = keeper->new_table;
	file->fingerprint = keeper->new_fingerprint;
	file->bytes = keeper->new_bytes;
	file->rows = keeper->new_rows;
	file->tries = tries;
	if (page->as_user)
		file->seen_by = page->mapper.uid;
	file->retry = seconds() + (error == -ETIMEDOUT ? AVOID_SECONDS :
							 BUSY_SECONDS << tries);
	set_state(keeper, file, state_of(keeper, file->share, error, tries));
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
	set_state(keeper, file, state_of(keeper, file->share, mapping.error, 0));
	return mapping.error;
}

static void attach_to_seen(struct unwind_keeper *keeper, struct file *file);

/* Another attempt, after which it is kept if it was before */
static int new_again(struct unwind_keeper *keeper, const struct file *file, pid_t pid,
		     const struct mapping *mapping)
{
	unsigned int walk = file ? file->walk : 0;
	bool ahead = file && file->ahead;
	struct file *now;
	int ret;

	ret = new_table(keeper, payer_of(keeper, &mapping->id), pid, mapping->start,
			mapping->id);
	now = find(keeper, mapping);
	if (now && ahead) {
		now->walk = walk;
		set_ahead(keeper, now, true);
	}
	return ret;
}

/*
 * Root has it mapped, too, or somebody who has more left: then it does not have to go when
 * there is not enough for who has paid so far.
 */
static void move(struct unwind_keeper *keeper, struct file *file, struct share *share)
{
	if (file->share->root || share == file->share ||
	    (!share->root && (share->bytes > file->share->bytes ||
			      share->nr_files > file->share->nr_files)))
		return;
	account(keeper, file, -1);
	file->share->nr_files--;
	file->share = share;
	share->nr_files++;
	account(keeper, file, 1);
}

/* The file is remembered until the share has time for it, if it has a place. */
static int wait_for_time(struct unwind_keeper *keeper, struct file *file, pid_t pid,
			 const struct mapping *mapping, struct share *share)
{
	if (!file)
		file = remember(keeper, pid, mapping);
	if (!file)
		return -ENOSPC;
	file->waits = true;
	file->retry = seconds() + share_wait(share);
	return -EBUSY;
}

static bool is_alive(const struct process *process)
{
	return process->identity && process_of(process->pid).identity == process->identity;
}

/*
 * If nobody had it mapped for a while, the kernel may have forgotten it. If the
 * process that was seen with it is gone, there may have been such a while.
 */
static void see_again(struct unwind_keeper *keeper, struct file *file, pid_t pid,
		      const struct mapping *mapping)
{
	move(keeper, file, payer_of(keeper, &mapping->id));
	file->mapped_at = seconds();
	if (!file->unused_since && is_alive(&file->witness))
		return;
	file->unused_since = 0;
	file->seen_pid = pid;
	file->seen_address = mapping->start;
	if (file->state == FILE_TABLE)
		attach_to_seen(keeper, file);
}

static bool is_users_excluded(const struct unwind_keeper *keeper, const struct file_id *id)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", id->uid);
	return is_excluded(&keeper->reader.page->exclude, EXCLUDE_USER, number);
}

static int see_to(struct unwind_keeper *keeper, pid_t pid,
		  const struct mapping *mapping)
{
	bool was_refused = false;
	struct share *share;
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
	if (is_users_excluded(keeper, &mapping->id))
		return -ENODATA;
	/* Whoever had neither room nor time for it need not be the one who maps it now. */
	share = payer_of(keeper, &mapping->id);
	if (file && file->share != share)
		was_refused = file->state == FILE_FULL || file->waits;
	/* Nor need somebody else see what he does, who may have been in the way, too. */
	if (file && result_of(file) && file->seen_by != OWNER_UNKNOWN)
		was_refused |= file->seen_by != keeper->reader.page->mapper.uid;
	/* The file whose table it shared may have gone, and the table, too. */
	if (file && file->state == FILE_SHARED && file->unused_since)
		return new_again(keeper, file, pid, mapping);
	if (file)
		see_again(keeper, file, pid, mapping);
	/* That may have found that it is another file now. */
	if (file)
		file = find(keeper, mapping);
	if (file && !was_refused && (file->state != FILE_BUSY || seconds() < file->retry))
		return result_of(file);
	if (!share_has_time(share))
		return wait_for_time(keeper, file, pid, mapping, share);
	return new_again(keeper, file, pid, mapping);
}

/* ------------------------------------------------------------------------ */
/* Processes								      */

/* It is the same for all. */
static void see_to_vdso(struct unwind_keeper *keeper)
{
	int error;

	if (keeper->vdso > 0 || keeper->vdso == -ENODATA)
		return;
	if (keeper->vdso && seconds() < keeper->vdso_retry)
		return;
	error = make_vdso(keeper);
	if (error == -EPERM)
		complain_denied(keeper);
	/* If we may not, somebody else may. */
	if (error == -EPERM || error == -EEXIST)
		error = -ENODATA;
	if (!error) {
		keeper->stats.tables++;
		keeper->stats.bytes += keeper->new_bytes;
	} else if (error != -ENODATA && !keeper->vdso) {
		complain(keeper, "[vdso]: no table for it: %s", strerror(-error));
	}
	keeper->vdso = error ?: 1;
	keeper->vdso_retry = seconds() + VDSO_SECONDS;
}

static int see_to_all(struct unwind_keeper *keeper, pid_t pid, __u64 address)
{
	struct reader_page *page = keeper->reader.page;
	unsigned int i, nr, hangs = 0;
	struct mapping *mappings;
	int error, ret = 0;

	/* What hangs is left out the next time, if it is root who has it mapped. */
	do {
		error = ask(keeper, READER_LOOK, pid, address);
	} while (error == -ETIMEDOUT && page->nr_mappings && keeper->mapper->root &&
		 ++hangs < MAX_HANGS);
	if (error)
		return error;
	/* Others may have the same files mapped. */
	if (is_excluded(&page->exclude, EXCLUDE_CGROUP, page->mapper.cgroup))
		return -EBUSY;
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

/*
 * Whoever makes the keeper search for a place for each of his files pays for that, too, but
 * not for being refused: who has no time left would never have any again.
 */
static int see_to_mappings(struct unwind_keeper *keeper, pid_t pid, __u64 address)
{
	const __u64 before = own_cpu_ns();
	struct share *share = find_share(keeper, pid);
	bool is_served = share && share_has_time(share);
	int ret = is_served ? see_to_all(keeper, pid, address) : -EBUSY;
	__u64 used = own_cpu_ns() - before;

	if (is_served)
		share_take_time(share, used);
	if (share && !share->root)
		keeper->stats.apart_ns += used;
	return ret;
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
	struct process process;
	struct file *file;
	unsigned int i;

	if (reader_is_own(&keeper->reader, pid) || must_wait(keeper, pid) ||
	    ask(keeper, READER_LIST, pid, 0))
		return;
	/* If it is that one now, it was when its mappings were listed. */
	process = process_of(pid);
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
			if (file->witness.pid == pid && file->address == mapping->start &&
			    file->witness.identity == process.identity)
				file->witnessed = true;
		}
	}
}

/*
 * The kernel may have forgotten the file while nobody had it mapped; then the table
 * is there, but nothing leads to it.
 */
static void attach_to_seen(struct unwind_keeper *keeper, struct file *file)
{
	int error;

	file->witness = process_of(file->seen_pid);
	file->address = file->seen_address;
	error = attach_again(keeper, file->witness.pid, file->address, file);
	/* It has other content now: that needs a new table. */
	if (error == -ESTALE) {
		const struct file old = *file;

		forget(keeper, file);
		new_table(keeper, old.share, old.witness.pid, old.address, old.id);
	} else if (error) {
		/* The next one who has it mapped is no witness of what has not been done. */
		file->witness = (struct process){ };
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

/* @needy: who needs the room now, or NULL */
static int drop_unused(struct unwind_keeper *keeper, const struct share *needy)
{
	struct file *file, *next;
	time_t now = seconds();
	struct share *share;
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
			if (file->share != needy &&
			    now - file->unused_since < keeper->keep_seconds) {
				keeper->stats.unused++;
				continue;
			}
			if (file->state == FILE_TABLE)
				dropped++;
			forget(keeper, file);
		}
	}
	keeper->stats.dropped += dropped;
	for (share = keeper->shares.first; share; share = share->next) {
		if (keeper->nr_files < MAX_FILES)
			share->lacks &= ~SHARE_FILES;
		if (dropped)
			share->lacks &= ~SHARE_ROOM;
	}
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
			attach_to_seen(keeper, file);
		else if (!share_has_time(file->share))
			file->retry = seconds() + share_wait(file->share);
		else
			new_table(keeper, file->share, file->seen_pid,
				  file->seen_address, file->id);
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
	return attach_again(keeper, 0, 0, file) != -ESTALE;
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
	new_table(keeper, keeper->root, 0, 0, mapping->id);
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

	if (is_users_excluded(keeper, &mapping->id))
		return;
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
	keeper->alive = opts->alive;
	keeper->arg = opts->arg;
	keeper->keep_seconds = opts->keep_seconds;
	keeper->last_sweep = seconds();
	keeper->device = open(opts->device ?: DEVICE_NAME, O_RDWR | O_CLOEXEC);
	if (keeper->device < 0) {
		error = -errno;
		free(keeper);
		return error;
	}
	error = reader_open(&keeper->reader);
	if (error) {
		close(keeper->device);
		free(keeper);
		return error;
	}
	ask_for_no_call(keeper);
	keeper->reader.alive = keeper->alive;
	keeper->reader.arg = keeper->arg;
	keeper->root = share_of_root(&keeper->shares);
	keeper->mapper = keeper->root;
	if (!keeper->root)
		error = -ENOMEM;
	if (!error && opts->ahead)
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
	shares_free(&keeper->shares);
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
	if (reader_is_own(&keeper->reader, pid))
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
	if (reader_is_own(&keeper->reader, pid))
		return 0;
	return see_to_mappings(keeper, pid, 0);
}

int unwind_keeper_all(struct unwind_keeper *keeper)
{
	see_to_vdso(keeper);
	return visit_processes(keeper, see_to_process);
}

static int sweep(struct unwind_keeper *keeper, const struct share *needy)
{
	int dropped;

	keeper->sweeping = true;
	see_to_vdso(keeper);
	mark_all(keeper);
	/*
	 * A process may have got a PID that the scan had already passed, as the
	 * child of one that ended before the scan reached it.
	 */
	if (any_unused(keeper))
		visit_processes(keeper, mark);
	dropped = drop_unused(keeper, needy);
	try_again(keeper, dropped || keeper->made_room);
	keeper->made_room = false;
	keeper->sweeping = false;
	keeper->last_sweep = seconds();
	return dropped;
}

int unwind_keeper_sweep(struct unwind_keeper *keeper)
{
	int dropped = sweep(keeper, NULL);

	memset(keeper->mappers, 0, sizeof(keeper->mappers));
	keeper->mapper = keeper->root;
	shares_tidy(&keeper->shares);

	if (keeper->ahead && !ahead_is_walking(keeper->ahead) &&
	    ahead_is_outdated(keeper->ahead, keeper))
		ahead_start(keeper->ahead);
	return dropped;
}

void unwind_keeper_others_went(struct unwind_keeper *keeper)
{
	struct share *share;

	for (share = keeper->shares.first; share; share = share->next)
		share->lacks &= ~SHARE_ROOM;
	keeper->made_room = true;
	if (keeper->vdso < 0)
		keeper->vdso = 0;
	see_to_vdso(keeper);
	unwind_keeper_sweep(keeper);
	if (keeper->ahead && keeper->ahead_full)
		ahead_start(keeper->ahead);
}

int unwind_keeper_device(const struct unwind_keeper *keeper)
{
	return keeper->device;
}

void unwind_keeper_print_shares(struct unwind_keeper *keeper, FILE *out)
{
	shares_print(&keeper->shares, out);
}

/* Everything is forgotten if that is something else than before. */
int unwind_keeper_exclude(struct unwind_keeper *keeper, const char *path)
{
	struct exclude *exclude = &keeper->reader.page->exclude, before = *exclude;
	struct file *file;
	unsigned int i;
	int error;

	error = exclude_read(exclude, path);
	if (error)
		*exclude = before;
	if (error > 0)
		complain(keeper, "%s, line %d: neither path, user nor cgroup; the file is not used",
			 path, error);
	else if (error)
		complain(keeper, "%s: cannot be used: %s", path, strerror(-error));
	if (before.len == exclude->len && !memcmp(before.all, exclude->all, before.len))
		return error;
	for (i = 0; i < NR_BUCKETS; i++)
		while ((file = keeper->buckets[i]))
			forget(keeper, file);
	return error;
}

void unwind_keeper_get_stats(const struct unwind_keeper *keeper,
			     struct unwind_keeper_stats *stats)
{
	*stats = keeper->stats;
}
