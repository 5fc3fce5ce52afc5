// SPDX-License-Identifier: GPL-2.0
/*
 * The keeper's reader: looks at processes and files that cannot be trusted.
 *
 * A malicious file system can block any process that opens or reads a file on it, or
 * only asks for its size; and a process whose memory is on such a file system can
 * block any process that looks at its mappings. Only a fatal signal ends such a wait.
 * A file that is truncated while it is mapped even kills its reader. None of this may
 * happen to the service, nor to perf. So a child does the reading, with an alarm set;
 * if it dies, the next question starts another one. It leaves its results in memory
 * that both share. Tables do not have to be sent: the child has the same open device.
 *
 * The child is hidden from wait() and SIGCHLD, which perf uses for programs
 * that it starts.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <linux/unwind_table.h>

#include "keeper-reader.h"
#include "reader-paths.h"
#include "unwind-table.h"

/* How the reader ends when the file that it reads was cut off */
#define EXIT_CUT_OFF	3
/* Where the reader has them */
#define SOCKET		3
#define DEVICE		4
/* A file that changes while it is read is read this many times. */
#define READ_ATTEMPTS	2

/* In the reader: itself */
static int own_pidfd;

/* ------------------------------------------------------------------------ */
/* Mappings								      */

static int open_process(pid_t pid)
{
	char path[32];
	int proc;

	/*
	 * Everything else goes by this descriptor. It stands for the process, not
	 * for the number, which another one may get.
	 */
	snprintf(path, sizeof(path), "/proc/%d", pid);
	proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return proc < 0 ? -ESRCH : proc;
}

static int open_maps(int proc)
{
	int maps = openat(proc, "maps", O_RDONLY | O_CLOEXEC);

	if (maps < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return maps;
}

/*
 * The executable mapping of a file at an address, or with PROCMAP_QUERY_COVERING_
 * OR_NEXT_VMA beyond it. Unlike the text of maps, this cannot be led astray by
 * names.
 */
static int query(int maps, __u64 address, __u64 flags,
		 struct procmap_query *found, char *name, size_t size)
{
	*found = (struct procmap_query) {
		.size		= sizeof(*found),
		.query_flags	= flags | PROCMAP_QUERY_VMA_EXECUTABLE,
		.query_addr	= address,
		.vma_name_addr	= (unsigned long)name,
		.vma_name_size	= size,
	};
	return ioctl(maps, PROCMAP_QUERY, found) ? -errno : 0;
}

static void set_id(struct file_id *id, const struct stat *st)
{
	/* It is compared as a whole. */
	memset(id, 0, sizeof(*id));
	id->dev = st->st_dev;
	id->ino = st->st_ino;
	id->size = st->st_size;
	id->mtime_sec = st->st_mtim.tv_sec;
	id->mtime_nsec = st->st_mtim.tv_nsec;
	id->ctime_sec = st->st_ctim.tv_sec;
	id->ctime_nsec = st->st_ctim.tv_nsec;
}

static bool same_id(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && same_content(a, b);
}

/* Not opened yet: that may have effects where it is a device, and wait. */
static int get_id(int fd, struct file_id *id)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	set_id(id, &st);
	return 0;
}

/* A path that the kernel made has no links. If it has now, it is another file. */
static int open_path(int dir, const char *path)
{
	struct open_how how = {
		.flags		= O_PATH | O_CLOEXEC,
		.resolve	= RESOLVE_NO_SYMLINKS,
	};
	int fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/*
 * By its name, as long as it has one: in the file system that the process sees,
 * or, after a chroot(), in ours.
 */
static int open_by_name(int proc, int maps, __u64 address, int way)
{
	struct procmap_query found;
	char name[4096] = "";
	int root, fd;

	if (query(maps, address, 0, &found, name, sizeof(name)))
		return -ENOENT;
	name[sizeof(name) - 1] = '\0';
	if (name[0] != '/')
		return -ENOENT;
	if (way)
		return open_path(AT_FDCWD, name);

	root = openat(proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = open_path(root, name + strspn(name, "/"));
	close(root);
	return fd;
}

/*
 * The file of a mapping, which is not opened for reading yet. The first way
 * always leads to the file itself, but needs CAP_CHECKPOINT_RESTORE. What is found
 * on the others counts if it has the same inode number. The device may differ, on
 * btrfs and overlayfs it does.
 */
static int open_mapped(int proc, int maps, const struct mapping *mapping,
		       struct file_id *id)
{
	int fd, way, error, first_error = 0;
	char path[64];

	for (way = 0; way < 4; way++) {
		if (way == 0) {
			snprintf(path, sizeof(path), "map_files/%llx-%llx",
				 (unsigned long long)mapping->start,
				 (unsigned long long)mapping->end);
			fd = openat(proc, path, O_PATH | O_CLOEXEC);
			error = fd < 0 ? -errno : 0;
		} else if (way == 3) {
			fd = openat(proc, "exe", O_PATH | O_CLOEXEC);
			error = fd < 0 ? -errno : 0;
		} else {
			fd = open_by_name(proc, maps, mapping->start, way - 1);
			error = fd < 0 ? fd : 0;
		}
		if (!error)
			error = get_id(fd, id);
		if (!error && way && id->ino != mapping->ino)
			error = -ENOENT;
		if (!error)
			return fd;
		if (fd >= 0)
			close(fd);
		if (!first_error)
			first_error = error;
	}
	return first_error;
}

static bool avoided(const struct reader_page *page, __u64 dev)
{
	unsigned int i;

	for (i = 0; i < page->nr_avoided; i++)
		if (page->avoided[i].dev == dev)
			return true;
	return false;
}

/* Append the mapping at an address, or the next one, to page->mappings. */
static int next_mapping(struct reader_page *page, int maps, __u64 address,
			struct mapping **mapping)
{
	__u64 flags = PROCMAP_QUERY_FILE_BACKED_VMA;
	struct procmap_query found;
	int error;

	if (!page->address)
		flags |= PROCMAP_QUERY_COVERING_OR_NEXT_VMA;
	error = query(maps, address, flags, &found, NULL, 0);
	if (error)
		return error;
	if (page->nr_mappings == READER_MAX_MAPPINGS) {
		page->more_mappings = true;
		return -ENOENT;
	}

	*mapping = &page->mappings[page->nr_mappings];
	memset(*mapping, 0, sizeof(**mapping));
	(*mapping)->start = found.vma_start;
	(*mapping)->end = found.vma_end;
	(*mapping)->dev = makedev(found.dev_major, found.dev_minor);
	(*mapping)->ino = found.inode;
	(*mapping)->error = -ETIMEDOUT;
	page->nr_mappings++;
	return 0;
}

static void look_at(const struct reader_page *page, int proc, int maps,
		    struct mapping *mapping)
{
	int fd;

	if (avoided(page, mapping->dev))
		return;
	fd = open_mapped(proc, maps, mapping, &mapping->id);
	mapping->error = fd < 0 ? fd : 0;
	if (fd >= 0)
		close(fd);
}

static int list_mappings(struct reader_page *page, int proc, bool look)
{
	struct mapping *mapping, *last = NULL;
	__u64 address = page->address;
	int maps, error;

	maps = open_maps(proc);
	if (maps < 0)
		return maps;
	for (;;) {
		error = next_mapping(page, maps, address, &mapping);
		if (error)
			break;
		address = mapping->end;
		if (last && last->dev == mapping->dev &&
		    last->ino == mapping->ino) {
			/* Another part of the same file */
			page->nr_mappings--;
			continue;
		}
		last = mapping;
		if (look)
			look_at(page, proc, maps, mapping);
		if (page->address)
			break;
	}
	close(maps);
	return error == -ENOENT && !page->address ? 0 : error;
}

/* ------------------------------------------------------------------------ */
/* Tables								      */

static void set_name(struct reader_page *page, int fd)
{
	char path[32], *c;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = readlink(path, page->name, sizeof(page->name) - 1);
	page->name[len < 0 ? 0 : len] = '\0';
	for (c = page->name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
}

static __u64 cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* @id is that of @fd, which need not be open for reading. -1: it is the vDSO. */
static int attach(__u32 table, int pidfd, __u64 address, int fd,
		  const struct file_id *id)
{
	struct unwind_table_attach arg = {
		.size		= sizeof(arg),
		.table		= table,
		.pidfd		= pidfd,
		.address	= address,
	};
	struct file_id now;
	int error;

	if (fd >= 0) {
		arg.flags	= UNWIND_TABLE_ATTACH_FD;
		arg.file	= fd;
		arg.file_size	= id->size;
		arg.mtime_sec	= id->mtime_sec;
		arg.mtime_nsec	= id->mtime_nsec;
	}
	if (ioctl(DEVICE, UNWIND_TABLE_ATTACH, &arg))
		return -errno;
	if (fd < 0)
		return 0;
	/* From now on the kernel goes by size and time. Until now, they may have lied. */
	error = get_id(fd, &now);
	return error ?: same_id(id, &now) ? 0 : -ESTALE;
}

/*
 * Attach to the file that was opened and read, whatever the process has mapped
 * there by now: for that, it is mapped here.
 */
static int attach_here(__u32 table, int fd, const struct file_id *id)
{
	void *here;
	int error;

	here = mmap(NULL, 1, PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (here == MAP_FAILED)
		return -errno;
	error = attach(table, own_pidfd, (unsigned long)here, fd, id);
	munmap(here, 1);
	return error;
}

/*
 * Does the file have a table of ours? If so, the kernel refuses another one.
 * The one that is tried covers nothing, and is dropped at once.
 */
static int probe(int fd, const struct file_id *id)
{
	struct {
		struct unwind_table_header header;
		struct unwind_table_run run;
		__u32 blocks[2];
		struct unwind_table_row row;
		struct unwind_table_rule rule;
	} empty = {
		.header = {
			.magic		= UNWIND_TABLE_MAGIC,
			.version	= UNWIND_TABLE_VERSION,
			.machine	= EM_X86_64,
			.word_size	= sizeof(__u64),
			.nr_runs	= 1,
			.nr_pages	= 1,
			.nr_rows	= 1,
			.nr_rules	= 1,
			.block_shift	= UNWIND_TABLE_MAX_BLOCK_SHIFT,
		},
		.run.nr_pages = 1,
	};
	struct unwind_table_make arg = {
		.size	= sizeof(arg),
		.data	= (unsigned long)&empty,
		.len	= sizeof(empty),
	};
	int table, error;

	table = ioctl(DEVICE, UNWIND_TABLE_MAKE, &arg);
	if (table < 0)
		return 0;
	error = attach_here(table, fd, id);
	ioctl(DEVICE, UNWIND_TABLE_DROP, table);
	return error == -EEXIST ? error : 0;
}

static int hand_over(struct reader_page *page, struct unwind_table *table)
{
	struct unwind_table_make arg = { .size = sizeof(arg) };
	const void *data;
	size_t len;
	int number;

	data = unwind_table_data(table, &len);
	page->bytes = len;
	page->rows = unwind_table_stats(table)->rows;
	page->step = READER_ROOM;
	if (len > page->room)
		return -ENOSPC;

	page->step = READER_HAND_OVER;
	arg.data = (unsigned long)data;
	arg.len = len;
	number = ioctl(DEVICE, UNWIND_TABLE_MAKE, &arg);
	return number < 0 ? -errno : number;
}

static int made(struct reader_page *page, int number, int error)
{
	if (error)
		ioctl(DEVICE, UNWIND_TABLE_DROP, number);
	else
		page->new_table = number;
	return error;
}

/* In seconds, where a file system keeps whole ones: FAT keeps every other one. */
#define COARSE_SECONDS	2
/* Else in nanoseconds: more than a tick of the clock, and than other file systems keep */
#define FINE_NSEC	20000000

/* Would a change from now on be seen by these times? */
static bool shows_changes(__s64 sec, __u32 nsec)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (!nsec)
		return now.tv_sec < sec || now.tv_sec - sec >= COARSE_SECONDS;
	return (now.tv_sec - sec) * 1000000000ll + now.tv_nsec - nsec >= FINE_NSEC ||
	       now.tv_sec + 1 < sec;
}

/* The size and times of a file that is going to be read, once they show each change */
static int get_settled_id(int fd, struct file_id *id)
{
	const struct timespec while_fine = { .tv_nsec = FINE_NSEC };
	int error, i;

	for (i = 0; i < 2; i++) {
		error = get_id(fd, id);
		if (error || (shows_changes(id->mtime_sec, id->mtime_nsec) &&
			      shows_changes(id->ctime_sec, id->ctime_nsec)))
			return error;
		nanosleep(&while_fine, NULL);
	}
	return -ETXTBSY;
}

/* From a file that is open. -ESTALE: it changed while it was read. */
static int make_from_fd(struct reader_page *page, int fd, struct file_id *id)
{
	struct unwind_table *table;
	__u64 start = cpu_ns();
	struct file_id after;
	int error, number;

	page->step = READER_READ;
	error = get_settled_id(fd, id);
	if (error)
		return error;
	error = unwind_table_from_fd(fd, &table);
	page->build_ns += cpu_ns() - start;
	if (error)
		return error;
	error = get_id(fd, &after);
	if (!error && !same_id(id, &after))
		error = -ESTALE;
	if (error) {
		unwind_table_free(table);
		return error;
	}

	number = hand_over(page, table);
	unwind_table_free(table);
	if (number < 0)
		return number;
	page->step = READER_BIND;
	return made(page, number, attach_here(number, fd, id));
}

/*
 * From the memory of the process, for a file that we must not read. There is no other
 * way than to attach it by its address. The process could still have had another file
 * there while this was read. That is of no use to it if it might as well write to the
 * file, and of others' files none is made.
 */
static int make_from_process(struct reader_page *page, int proc, int fd,
			     const struct mapping *mapping)
{
	struct stat owner, process;
	__u64 start = cpu_ns();
	struct unwind_table *table;
	int error, number, pidfd;

	page->step = READER_READ;
	if (fstat(fd, &owner) || fstat(proc, &process) || owner.st_uid != process.st_uid)
		return -EACCES;
	pidfd = syscall(SYS_pidfd_open, page->pid, 0);
	if (pidfd < 0)
		return -errno;
	error = unwind_table_from_process(page->pid, mapping->start, &table);
	page->build_ns += cpu_ns() - start;
	if (error)
		goto out;

	/* If it has not ended, the number was its own all the time. */
	if (faccessat(proc, "maps", F_OK, 0)) {
		unwind_table_free(table);
		error = -ESRCH;
		goto out;
	}
	number = hand_over(page, table);
	unwind_table_free(table);
	if (number < 0) {
		error = number;
		goto out;
	}
	page->step = READER_BIND;
	error = made(page, number,
		     attach(number, pidfd, mapping->start, fd, &mapping->id));
out:
	close(pidfd);
	return error;
}

/* For reading, now that it is known to be a regular file */
static int reopen(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* As others see it in their maps once they have it mapped, too */
static int identify(int fd, struct mapping *mapping)
{
	struct procmap_query found;
	int maps, error;
	void *here;

	maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps < 0)
		return -errno;
	here = mmap(NULL, 1, PROT_EXEC, MAP_PRIVATE, fd, 0);
	error = here == MAP_FAILED ? -errno : 0;
	if (!error) {
		error = query(maps, (unsigned long)here, 0, &found, NULL, 0);
		munmap(here, 1);
	}
	close(maps);
	if (error)
		return error;
	mapping->dev = makedev(found.dev_major, found.dev_minor);
	mapping->ino = found.inode;
	return 0;
}

/* What the path leads to, if it does not have to be left alone */
static int find_path(struct reader_page *page, mode_t type)
{
	struct mapping *mapping = &page->mappings[0];
	struct stat st;
	int fd, error;

	fd = reader_open_path(page);
	if (fd < 0)
		return fd;
	error = fstat(fd, &st) ? -errno : 0;
	if (!error && (st.st_mode & S_IFMT) != type)
		error = type == S_IFDIR ? -ENOTDIR : -ENOEXEC;
	if (!error) {
		memset(mapping, 0, sizeof(*mapping));
		mapping->dev = st.st_dev;
		mapping->error = -ETIMEDOUT;
		set_id(&mapping->id, &st);
		page->nr_mappings = 1;
		set_name(page, fd);
		if (avoided(page, mapping->dev))
			error = -ETIMEDOUT;
	}
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

static int open_program(struct reader_page *page, struct mapping **mapping)
{
	int found, fd, error;

	page->step = READER_OPEN;
	found = find_path(page, S_IFREG);
	if (found < 0)
		return found;
	*mapping = &page->mappings[0];
	fd = reopen(found);
	close(found);
	if (fd < 0)
		return fd;
	error = reader_check_program(fd) ?: identify(fd, *mapping);
	(*mapping)->error = error;
	if (!error)
		return fd;
	close(fd);
	return error;
}

static int look_at_path(struct reader_page *page)
{
	struct mapping *mapping;
	int fd;

	fd = open_program(page, &mapping);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int see_directory(struct reader_page *page)
{
	int fd, error = 0;

	page->step = READER_OPEN;
	fd = find_path(page, S_IFDIR);
	if (fd < 0)
		return fd;
	if (page->question == READER_NAMES)
		error = reader_list_directory(page, fd);
	close(fd);
	return error;
}

/*
 * The file of the mapping that was asked about, or that of the path. @found: not for
 * reading, if that cannot be had
 */
static int open_file(struct reader_page *page, int proc, int maps,
		     struct mapping **mapping, int *found)
{
	int fd, error;

	*found = -1;
	if (!page->pid)
		return open_program(page, mapping);
	error = next_mapping(page, maps, page->address, mapping);
	if (error)
		return error;
	if (avoided(page, (*mapping)->dev))
		return -ETIMEDOUT;

	page->step = READER_OPEN;
	*found = open_mapped(proc, maps, *mapping, &(*mapping)->id);
	(*mapping)->error = *found < 0 ? *found : 0;
	if (*found < 0)
		return *found;
	set_name(page, *found);
	fd = reopen(*found);
	if (fd == -EACCES || fd == -EPERM)
		return fd;
	close(*found);
	*found = -1;
	return fd;
}

static int make_table(struct reader_page *page, int proc, int maps)
{
	int fd, found, i, error = 0;
	struct mapping *mapping;

	fd = open_file(page, proc, maps, &mapping, &found);
	if (found >= 0) {
		error = make_from_process(page, proc, found, mapping);
		close(found);
		return error;
	}
	if (fd < 0)
		return fd;

	if (page->probe)
		error = probe(fd, &mapping->id);
	for (i = 0; !error && i < READ_ATTEMPTS; i++) {
		error = make_from_fd(page, fd, &mapping->id);
		if (error == -ESTALE && i + 1 < READ_ATTEMPTS)
			error = 0;
		else
			break;
	}
	close(fd);
	return error;
}

static int attach_again(struct reader_page *page, int proc, int maps)
{
	struct mapping *mapping;
	int fd, found, error;

	fd = open_file(page, proc, maps, &mapping, &found);
	if (found >= 0)
		close(found);
	if (fd < 0)
		return fd;
	page->step = READER_BIND;
	error = same_id(&mapping->id, &page->id) ?
		attach_here(page->table, fd, &page->id) : -ESTALE;
	close(fd);
	return error;
}

/*
 * The vDSO of this process: it is the same in all of them, and here there is no
 * question who wrote it.
 */
static int make_vdso(struct reader_page *page)
{
	struct procmap_query found;
	struct unwind_table *table;
	__u64 start = cpu_ns();
	unsigned long address;
	int maps, error, number;

	snprintf(page->name, sizeof(page->name), "[vdso]");
	address = getauxval(AT_SYSINFO_EHDR);
	if (!address)
		return -ENODATA;
	maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps < 0)
		return -errno;
	error = query(maps, address, 0, &found, NULL, 0);
	close(maps);
	if (error)
		return error;

	page->step = READER_READ;
	error = unwind_table_from_memory((const void *)address,
					 found.vma_end - address, &table);
	page->build_ns += cpu_ns() - start;
	if (error)
		return error;
	number = hand_over(page, table);
	unwind_table_free(table);
	if (number < 0)
		return number;
	page->step = READER_BIND;
	return made(page, number, attach(number, own_pidfd, address, -1, NULL));
}

/* ------------------------------------------------------------------------ */
/* The reader								      */

static int answer_about_path(struct reader_page *page)
{
	switch (page->question) {
	case READER_NAMES:
	case READER_TIME:
		return see_directory(page);
	case READER_LOOK:
		return look_at_path(page);
	case READER_MAKE:
		return make_table(page, -1, -1);
	case READER_ATTACH:
		return attach_again(page, -1, -1);
	default:
		return -EINVAL;
	}
}

static int answer(struct reader_page *page)
{
	int proc, maps, error;

	if (page->question == READER_VDSO)
		return make_vdso(page);
	if (!page->pid)
		return answer_about_path(page);

	proc = open_process(page->pid);
	if (proc < 0)
		return proc;
	if (page->question == READER_LIST || page->question == READER_LOOK) {
		error = list_mappings(page, proc,
				      page->question == READER_LOOK);
	} else {
		maps = open_maps(proc);
		if (maps < 0)
			error = maps;
		else if (page->question == READER_MAKE)
			error = make_table(page, proc, maps);
		else
			error = attach_again(page, proc, maps);
		if (maps >= 0)
			close(maps);
	}
	close(proc);
	return error;
}

static void on_bus_error(int signal)
{
	(void)signal;
	_exit(EXIT_CUT_OFF);
}

/* A fork has the handlers and the mask of whoever made it. */
static void set_signals(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t none;
	int i;

	for (i = 1; i < NSIG; i++)
		sigaction(i, &action, NULL);
	/* The terminal's are for the one who asks. */
	action.sa_handler = SIG_IGN;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGQUIT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	sigaction(SIGTSTP, &action, NULL);
	action.sa_handler = on_bus_error;
	sigaction(SIGBUS, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* What others have open must not stay open because of us. */
static void set_descriptors(int sock, int device)
{
	int null, i;

	sock = fcntl(sock, F_DUPFD, DEVICE + 1);
	device = fcntl(device, F_DUPFD, DEVICE + 1);
	if (sock < 0 || device < 0 || dup2(sock, SOCKET) < 0 ||
	    dup2(device, DEVICE) < 0)
		_exit(1);
	null = open("/dev/null", O_RDWR);
	for (i = 0; i <= STDERR_FILENO; i++)
		if (null < 0)
			close(i);
		else
			dup2(null, i);
	syscall(SYS_close_range, DEVICE + 1, ~0U, 0);
}

static void be_reader(struct reader_page *page, int sock, int device)
{
	ssize_t len;
	__u64 start;
	char byte;
	int fd;

	/* Before anything that could wait */
	set_signals();
	alarm(READER_SECONDS);
	set_descriptors(sock, device);

	/* If memory runs out, a file without a table is the least harm. */
	fd = open("/proc/self/oom_score_adj", O_WRONLY);
	if (fd >= 0) {
		len = write(fd, "1000", 4);
		close(fd);
	}
	own_pidfd = syscall(SYS_pidfd_open, getpid(), 0);

	for (;;) {
		alarm(0);
		len = read(SOCKET, &byte, 1);
		if (len < 0 && errno == EINTR)
			continue;
		if (len != 1)
			_exit(0);
		alarm(READER_SECONDS);
		start = cpu_ns();
		page->error = answer(page);
		page->cpu_ns = cpu_ns() - start;
		if (send(SOCKET, &byte, 1, MSG_NOSIGNAL) != 1)
			_exit(0);
	}
}

/* ------------------------------------------------------------------------ */
/* Who asks								      */

static int start(struct reader *reader)
{
	/* The alarm does not end a wait that is broken altogether. */
	struct timeval timeout = { .tv_sec = READER_SECONDS + 5 };
	int sockets[2], error;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout,
		   sizeof(timeout));

	/*
	 * Like fork(), but without a signal when it ends, and wait() does not see
	 * it. With threads around, a lock of malloc() may be held in the copy for
	 * ever; the alarm ends that, too.
	 */
	pid = syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
	if (!pid)
		be_reader(reader->page, sockets[1], reader->device);
	error = -errno;
	close(sockets[1]);
	if (pid < 0) {
		close(sockets[0]);
		return error;
	}
	reader->pid = pid;
	reader->socket = sockets[0];
	return 0;
}

/* The reader has ended, or is to end. Returns its wait status, or -1. */
static int stop(struct reader *reader, bool wait)
{
	pid_t pid = reader->pid;
	int status = -1;

	reader->pid = 0;
	close(reader->socket);
	if (!wait)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, __WCLONE | (wait ? 0 : WNOHANG)) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

int reader_open(struct reader *reader, int device)
{
	reader->pid = 0;
	reader->device = device;
	reader->page = mmap(NULL, sizeof(*reader->page), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return reader->page == MAP_FAILED ? -errno : 0;
}

void reader_close(struct reader *reader)
{
	/* It has the device, too: the tables go when it does. */
	if (reader->pid)
		stop(reader, true);
	munmap(reader->page, sizeof(*reader->page));
}

/* Send the question. A reader that ended in the meantime has a successor. */
static int send_question(struct reader *reader)
{
	int error;

	if (reader->pid && send(reader->socket, "", 1, MSG_NOSIGNAL) == 1)
		return 0;
	if (reader->pid)
		stop(reader, false);
	error = start(reader);
	if (error)
		return error;
	return send(reader->socket, "", 1, MSG_NOSIGNAL) == 1 ? 0 : -EPIPE;
}

int reader_ask(struct reader *reader)
{
	struct reader_page *page = reader->page;
	int status, error;
	ssize_t len;
	char byte;

	page->error = 0;
	page->step = READER_FIND;
	page->new_table = 0;
	page->bytes = 0;
	page->rows = 0;
	page->build_ns = 0;
	page->cpu_ns = 0;
	page->names_len = 0;
	page->end = false;
	page->name[0] = '\0';
	page->nr_mappings = 0;
	page->more_mappings = false;

	error = send_question(reader);
	if (error)
		return error;
	do {
		len = recv(reader->socket, &byte, 1, 0);
	} while (len < 0 && errno == EINTR);
	if (len == 1)
		return 0;

	/* No answer at all: not even the alarm was heard. */
	status = stop(reader, len == 0);
	if (len < 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM))
		return -ETIMEDOUT;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CUT_OFF)
		return -EAGAIN;
	return -EPIPE;
}
