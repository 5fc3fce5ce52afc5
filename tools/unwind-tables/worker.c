// SPDX-License-Identifier: GPL-2.0
/*
 * The reader, one for each share: looks at processes and files that cannot be trusted.
 *
 * A malicious file system can block any process that opens or reads a file on it, or
 * only asks for its size; and a process whose memory is on such a file system can
 * block any process that looks at its mappings. Only a fatal signal ends such a wait, and
 * not even that if the file system has read the request. None of this may
 * happen to the service, nor to other shares. So a child process, the reader, does the reading.
 * The keeper kills a reader that does not answer, and starts another one for the next question.
 * The reader leaves its answers in memory that it shares with the keeper. It has neither the
 * device nor a table in the kernel, so no harm is done if it never ends. The parser makes the
 * bytes of a table, and the keeper hands them to the kernel. The table is attached to the file
 * that the reader has mapped, so it does not matter what the process does meanwhile that was
 * asked about.
 *
 * The reader passes no descriptor on that is open for reading: to close it may take for ever, too.
 * So it is the reader that starts the parser, a process for each file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <linux/capability.h>
#include <linux/fs.h>

#include "hash.h"
#include "message.h"
#include "parser.h"
#include "paths.h"
#include "process.h"
#include "user.h"

/*
 * CPU time of a parser for a file. On real machines no honest file needs a second. In an emulator,
 * time that the host has taken away counts as well.
 */
#define PARSER_SECONDS	10
#define PARSER_SECONDS_ROOT 300

/* Memory that the reader itself may take */
#define OWN_BYTES	(16ull << 20)

/*
 * Capabilities of the reader: for mappings of processes, files by their mappings, all files; to
 * run parsers as nobody, and to become the user of a file that is shown to nobody else; to kill a
 * child that has become a user when the reader ends, also if the user has stopped it
 */
#define OPENER_CAPABILITIES						\
	(1ull << CAP_SYS_PTRACE | 1ull << CAP_CHECKPOINT_RESTORE |	\
	 1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_SETUID |		\
	 1ull << CAP_SETGID | 1ull << CAP_KILL)

/*
 * In the reader: the file that was asked for last, from READER_HOLD to READER_CHECK. @found is
 * not open for reading; @fd is, or -1 if that is not allowed.
 */
static struct {
	int found;
	int fd;
	void *here;
	struct file_id id;
	__u64 stored;
} opened = { .found = -1, .fd = -1 };

/* ... and the descriptor that is passed with the answer */
static int passed = -1;

/* ------------------------------------------------------------------------ */
/* Mappings								      */

/* A file system may lie as it likes, but only about its own files. */
static enum outcome outcome_of(int error)
{
	if (error >= 0)
		return OUTCOME_DONE;
	switch (-error) {
	case ESRCH:
	case ENOENT:
	case EXDEV:
		return OUTCOME_GONE;
	case ENODATA:
		return OUTCOME_EXCLUDED;
	case ENOTDIR:
		return OUTCOME_NO_DIRECTORY;
	case ENOEXEC:
		return OUTCOME_NO_PROGRAM;
	case EACCES:
	case EPERM:
		return OUTCOME_CLOSED;
	case EAGAIN:
		return OUTCOME_IN_USE;
	case ETXTBSY:
		return OUTCOME_WRITTEN;
	case ESTALE:
		return OUTCOME_CHANGED;
	case EXFULL:
		return OUTCOME_MOVED;
	default:
		return OUTCOME_NOT_OPENED;
	}
}

static int open_process(pid_t pid)
{
	char name[16];
	int proc;

	/*
	 * Everything else goes by this descriptor. It stands for the process, not
	 * for the number, which another one may get.
	 */
	snprintf(name, sizeof(name), "%d", pid);
	proc = process_open_proc(name, O_PATH | O_DIRECTORY);
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
	id->uid = st->st_uid;
	id->size = st->st_size;
	id->mtime_sec = st->st_mtim.tv_sec;
	id->mtime_nsec = st->st_mtim.tv_nsec;
	id->ctime_sec = st->st_ctim.tv_sec;
	id->ctime_nsec = st->st_ctim.tv_nsec;
}

#ifndef AT_HANDLE_FID
#define AT_HANDLE_FID	0x200
#endif

/* Only compared, never opened, so all file systems have a handle. */
static __u64 get_handle(int fd)
{
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} all = { .handle.handle_bytes = MAX_HANDLE_SZ };
	int mount;

	if (name_to_handle_at(fd, "", &all.handle, &mount, AT_EMPTY_PATH | AT_HANDLE_FID))
		return 0;
	return hash_bytes(&all, sizeof(all.handle) + all.handle.handle_bytes);
}

/* Not opened yet: opening a device may have effects, and wait. */
static int get_id(int fd, struct file_id *id)
{
	struct stat st;
	int error;

	error = user_stat(fd, &st);
	if (error)
		return error;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	set_id(id, &st);
	id->handle = get_handle(fd);
	return 0;
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

	/* A path that the kernel made has no links. If it has one now, it is another file. */
	if (query(maps, address, 0, &found, name, sizeof(name)))
		return -ENOENT;
	name[sizeof(name) - 1] = '\0';
	if (name[0] != '/')
		return -ENOENT;
	root = openat(proc, way ? "/" : "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = paths_walk(root, name, NULL);
	if (fd != root)
		close(root);
	return fd;
}

/*
 * The file of a mapping, which is not opened for reading yet. The first way
 * always leads to the file itself, but needs CAP_CHECKPOINT_RESTORE. A file that the others find
 * counts if it has the same inode number. The device may differ, on btrfs and overlayfs it does.
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
		/* It is the file, although it may not be read. */
		if (!way && fd >= 0)
			return error;
		if (!first_error)
			first_error = error;
	}
	return first_error;
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
	(*mapping)->outcome = OUTCOME_SLOW;
	page->nr_mappings++;
	return 0;
}

static void look_at(int proc, int maps, struct mapping *mapping)
{
	int fd;

	fd = open_mapped(proc, maps, mapping, &mapping->id);
	mapping->outcome = outcome_of(fd);
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
			look_at(proc, maps, mapping);
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
	char name[32], *c;
	ssize_t len;
	int link;

	snprintf(name, sizeof(name), "self/fd/%d", fd);
	link = process_open_proc(name, O_PATH | O_NOFOLLOW);
	len = readlinkat(link, "", page->name, sizeof(page->name) - 1);
	if (link >= 0)
		close(link);
	page->name[len < 0 ? 0 : len] = '\0';
	for (c = page->name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
}

/* In seconds, where a file system keeps whole ones: FAT keeps every other one. */
#define COARSE_SECONDS	2
/* Else in nanoseconds: more than a tick of the clock, and than other file systems keep */
#define FINE_NSEC	20000000

/* Would a change from now on show in these times? */
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

/* The answers are on their way, or there will be none. */
static void close_opened(void)
{
	if (opened.here)
		munmap(opened.here, 1);
	if (opened.fd >= 0)
		close(opened.fd);
	if (opened.found >= 0)
		close(opened.found);
	opened.here = NULL;
	opened.fd = -1;
	opened.found = -1;
}

/* For a file of root's that no other share pays for, the parser is trusted to need more time. */
static unsigned int parser_seconds(const struct reader_page *page)
{
	return !opened.id.uid && (!page->pid || owner_is_root(&page->mapper)) ?
	       PARSER_SECONDS_ROOT : PARSER_SECONDS;
}

static enum outcome have_parsed(struct reader_page *page)
{
	struct parse parse = {
		.file = opened.fd,
		.len = opened.id.size,
		.stored = opened.stored,
		.seconds = parser_seconds(page),
		.child = &page->child,
	};
	bool ended;

	if (opened.found < 0)
		return OUTCOME_DIED;
	ended = parser_run(&parse);
	/* The keeper knows this by the signal. The parser ends with this process. */
	if (!ended)
		raise(SIGALRM);
	passed = parse.out;
	page->error = parse.error;
	page->build_ns = parse.build_ns;
	return parse.outcome;
}

/*
 * From now on the kernel compares size and time of the file. Until now, they may have lied: is it
 * unchanged since before it was read?
 */
static int check_opened(void)
{
	struct file_id now = { };
	int error;

	if (opened.found < 0)
		return -EBADF;
	error = get_id(opened.found, &now);
	if (!error && !same_id(&opened.id, &now))
		error = -ESTALE;
	close_opened();
	return error;
}

/* As others see it in their maps once they have it mapped, too */
static int identify(int fd, struct mapping *mapping)
{
	struct procmap_query found;
	int maps, error;
	void *here;

	maps = process_open_proc("self/maps", O_RDONLY);
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

/* The file that the path leads to, unless it has to be left alone */
static int find_path(struct reader_page *page, mode_t type)
{
	struct mapping *mapping = &page->mappings[0];
	struct stat st;
	int fd, error;

	fd = paths_open(page);
	if (fd < 0)
		return fd;
	error = fstat(fd, &st) ? -errno : 0;
	if (!error && (st.st_mode & S_IFMT) != type)
		error = type == S_IFDIR ? -ENOTDIR : -ENOEXEC;
	if (!error) {
		memset(mapping, 0, sizeof(*mapping));
		mapping->dev = st.st_dev;
		mapping->outcome = OUTCOME_SLOW;
		set_id(&mapping->id, &st);
		mapping->id.handle = get_handle(fd);
		page->nr_mappings = 1;
		set_name(page, fd);
		if (exclude_has(&page->exclude, EXCLUDE_PATH, page->name))
			error = -ENODATA;
	}
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

static int open_program(struct reader_page *page, struct mapping **mapping, int *found)
{
	int fd, error;

	*found = find_path(page, S_IFREG);
	if (*found < 0)
		return *found;
	*mapping = &page->mappings[0];
	fd = user_open(*found);
	if (fd < 0)
		return fd;
	error = paths_check_program(fd) ?: identify(fd, *mapping);
	(*mapping)->outcome = outcome_of(error);
	if (!error)
		return fd;
	close(fd);
	return error;
}

static int look_at_path(struct reader_page *page)
{
	struct mapping *mapping;
	int fd, found;

	fd = open_program(page, &mapping, &found);
	if (found >= 0)
		close(found);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int see_directory(struct reader_page *page)
{
	int fd, error = 0;

	fd = find_path(page, S_IFDIR);
	if (fd < 0)
		return fd;
	if (page->question == READER_NAMES)
		error = paths_list(page, fd);
	close(fd);
	return error;
}

/* The file of the mapping that was asked about, or that of the path; @found in any case */
static int open_file(struct reader_page *page, int proc, int maps,
		     struct mapping **mapping, int *found)
{
	int error;

	*found = -1;
	if (!page->pid)
		return open_program(page, mapping, found);
	error = next_mapping(page, maps, page->address, mapping);
	if (error)
		return error;
	*found = open_mapped(proc, maps, *mapping, &(*mapping)->id);
	(*mapping)->outcome = outcome_of(*found);
	if (*found < 0)
		return *found;
	set_name(page, *found);
	return exclude_has(&page->exclude, EXCLUDE_PATH, page->name) ? -ENODATA :
								       user_open(*found);
}

static __u64 stored_bytes(int fd)
{
	struct stat st;

	return user_stat(fd, &st) ? 0 : st.st_blocks * 512ULL;
}

static int open_for_table(struct reader_page *page, int proc, int maps)
{
	struct mapping *mapping;
	int error;

	opened.fd = open_file(page, proc, maps, &mapping, &opened.found);
	if (opened.fd < 0)
		return opened.fd;
	error = get_settled_id(opened.fd, &mapping->id);
	if (error)
		return error;
	opened.here = mmap(NULL, 1, PROT_EXEC, MAP_PRIVATE, opened.fd, 0);
	if (opened.here == MAP_FAILED) {
		opened.here = NULL;
		return -errno;
	}
	/* Children need no copy of this mapping. */
	madvise(opened.here, 1, MADV_DONTFORK);
	opened.id = mapping->id;
	opened.stored = stored_bytes(opened.fd);
	page->here = (unsigned long)opened.here;
	passed = opened.found;
	return 0;
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
	case READER_HOLD:
		return open_for_table(page, -1, -1);
	default:
		return -EINVAL;
	}
}

/*
 * A process may have become another user's since the question, and its program may be on that
 * user's file system.
 */
static int check_share(struct reader_page *page, int proc)
{
	char name[SHARE_NAME];

	if (!owner_read(proc, &page->mapper))
		return -ESRCH;
	share_name(&page->mapper, name);
	if (strcmp(name, page->share))
		return -EXFULL;
	return owner_read_ids(proc, &page->mapper) ? 0 : -ESRCH;
}

static int answer_anew(struct reader_page *page)
{
	int proc, maps, error;

	close_opened();
	user_forget();
	if (!page->pid)
		return answer_about_path(page);

	proc = open_process(page->pid);
	if (proc < 0)
		return proc;
	error = check_share(page, proc);
	if (error) {
		close(proc);
		return error;
	}
	user_set(proc, &page->mapper, &page->child);
	if (page->question == READER_LIST || page->question == READER_LOOK) {
		error = list_mappings(page, proc,
				      page->question == READER_LOOK);
	} else {
		maps = open_maps(proc);
		error = maps < 0 ? maps : open_for_table(page, proc, maps);
		if (maps >= 0)
			close(maps);
	}
	return error;
}

static enum outcome answer(struct reader_page *page)
{
	int error;

	if (page->question == READER_MAKE)
		return have_parsed(page);
	error = page->question == READER_CHECK ? check_opened() : answer_anew(page);
	if (error && page->question == READER_HOLD)
		close_opened();
	page->error = -error;
	return outcome_of(error);
}

/* A fork inherits handlers and mask. */
static void set_signals(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t none;
	int i;

	for (i = 1; i < NSIG; i++)
		sigaction(i, &action, NULL);
	/* Signals of the terminal are for the parent. */
	action.sa_handler = SIG_IGN;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGQUIT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	sigaction(SIGTSTP, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Descriptors of others must not stay open because of us. */
static void set_descriptors(int sock)
{
	int null, i;

	if (dup2(sock, READER_SOCKET) < 0)
		_exit(1);
	null = open("/dev/null", O_RDWR);
	for (i = 0; i <= STDERR_FILENO; i++)
		if (null < 0)
			close(i);
		else
			dup2(null, i);
	process_close_from(READER_SOCKET + 1, process_proc);
}

static bool send_answer(void)
{
	bool sent = message_send(READER_SOCKET, "", 1, passed);

	if (passed >= 0 && passed != opened.found)
		close(passed);
	passed = -1;
	return sent;
}

/* The answer is waited for no longer than this. */
static void limit_cpu(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_CPU, &limit);
	limit.rlim_cur = clock_ns(CLOCK_PROCESS_CPUTIME_ID) / NSEC_PER_SEC + READER_SECONDS + 1;
	setrlimit(RLIMIT_CPU, &limit);
}

void worker_run(struct reader_page *page, int sock, pid_t parent)
{
	ssize_t len;
	__u64 start;
	char byte;
	int fd;

	set_signals();
	set_descriptors(sock);

	/* If memory runs out, a file without a table is the least harm. */
	fd = process_open_proc("self/oom_score_adj", O_WRONLY);
	if (fd >= 0) {
		len = write(fd, "1000", 4);
		close(fd);
	}
	process_limit_memory(OWN_BYTES, OWN_BYTES + PARSER_MAX_BYTES);
	process_limit_capabilities(OPENER_CAPABILITIES, OPENER_CAPABILITIES);
	/* It ends with the thread that has made it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	/* The keeper attaches tables by the mappings here. */
	prctl(PR_SET_DUMPABLE, 1);
	/* Children must not have the keeper's page. */
	madvise(page, sizeof(*page), MADV_DONTFORK);

	for (;;) {
		len = read(READER_SOCKET, &byte, 1);
		if (len < 0 && errno == EINTR)
			continue;
		if (len != 1)
			_exit(0);
		limit_cpu();
		start = process_cpu_ns();
		page->child = 0;
		page->outcome = answer(page);
		page->as_user = user_was_needed();
		page->cpu_ns = process_cpu_ns() - start;
		if (!send_answer())
			_exit(0);
	}
}
