// SPDX-License-Identifier: GPL-2.0
/*
 * The keeper's reader: looks at processes and files that cannot be trusted.
 *
 * A malicious file system can block any process that opens or reads a file on it, or
 * only asks for its size; and a process whose memory is on such a file system can
 * block any process that looks at its mappings. Only a fatal signal ends such a wait, and
 * not even that if the file system has read the request. None of this may
 * happen to the service. So a child does the reading, with an alarm set;
 * if it dies, or does not, the next question starts another one. It leaves its results in
 * memory that both share, and has nothing that would matter if it stayed for ever: neither the
 * device nor a table. The keeper makes and attaches tables, of bytes that it gets. A file is
 * attached where the reader has mapped it, so it does not matter what a process does meanwhile.
 *
 * The reader passes no descriptor on that is open for reading: to close it may take for ever, too.
 * So it is the reader that starts the parser, a process for each file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>

#include "fingerprint.h"
#include "internal.h"
#include "keeper-reader.h"
#include "pass-fd.h"
#include "reader-paths.h"
#include "reader-user.h"
#include "unwind-keeper.h"

/* Where the reader has it */
#define SOCKET		3
/* ... and the parser what it has */
#define PARSER_IN	0
#define PARSER_OUT	1
/* What the reader says as long as a parser is busy, and how often */
#define BUSY		"b"
#define BUSY_MS		1000
/*
 * Of a CPU, for what a parser does for a file. On real machines no honest file needs a second. In
 * an emulator, what the host has taken away counts as well.
 */
#define PARSER_SECONDS	READER_SECONDS
#define PARSER_SECONDS_ROOT 300
/* MFD_CLOEXEC | MFD_NOEXEC_SEAL, which older C libraries do not know */
#define MEMFD_FLAGS	0x9
/* Who owns nothing */
#define NOBODY		65534

/* Of a filter of system calls */
#define LOAD(field)	((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
					offsetof(struct seccomp_data, field)))
#define RETURN(what)	((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what))
/* The next one is for this value, or for any other */
#define IF(value)	((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1))
#define IF_NOT(value)	((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0))
/* A reader that ends does so within this time, or waits for something. */
#define END_MS		1000

/*
 * What the reader needs: mappings of processes, files by their mappings, all files; to make
 * parsers nobody's, and to become the user of a file that is shown to nobody else; what has
 * become a user is killed when the reader ends, also if the user has stopped it
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
	/* What the parser reads: @fd */
	struct ut_source src;
} opened = { .found = -1, .fd = -1 };

/* ... and what goes with the answer */
static int passed = -1;

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

struct process process_of(pid_t pid)
{
	struct process process = { .pid = pid };
	struct stat st;
	int pidfd;

	/* Inodes of pidfds are not used again until the next boot. */
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return process;
	if (!fstat(pidfd, &st))
		process.identity = st.st_ino;
	close(pidfd);
	return process;
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

/* To be compared, not to be opened, so all file systems have one. */
static __u64 get_handle(int fd)
{
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} all = { .handle.handle_bytes = MAX_HANDLE_SZ };
	int mount;

	if (name_to_handle_at(fd, "", &all.handle, &mount, AT_EMPTY_PATH | AT_HANDLE_FID))
		return 0;
	return ut_hash(&all, sizeof(all.handle) + all.handle.handle_bytes);
}

/* Not opened yet: that may have effects where it is a device, and wait. */
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

	/* A path that the kernel made has no links. If it has now, it is another file. */
	if (query(maps, address, 0, &found, name, sizeof(name)))
		return -ENOENT;
	name[sizeof(name) - 1] = '\0';
	if (name[0] != '/')
		return -ENOENT;
	root = openat(proc, way ? "/" : "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = reader_walk(root, name, NULL);
	if (fd != root)
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
		/* It is the file, however little may be done with it. */
		if (!way && fd >= 0)
			return error;
		if (!first_error)
			first_error = error;
	}
	return first_error;
}

static bool avoided(const struct reader_page *page, __u64 dev)
{
	unsigned int i;

	/* Others pay for their time themselves. */
	if (page->pid && !owner_is_root(&page->mapper))
		return false;
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

static __u64 rusage_ns(const struct rusage *usage)
{
	return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000000ull +
	       (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000ull;
}

/* With what its children have used, which have ended */
static __u64 cpu_ns(void)
{
	struct rusage children = { };
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	getrusage(RUSAGE_CHILDREN, &children);
	return now.tv_sec * 1000000000ull + now.tv_nsec + rusage_ns(&children);
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

/* That a process has waited for a CPU, in nanoseconds; 0 if this kernel does not say so */
static __u64 delay_ns(pid_t pid)
{
	unsigned long long delay = 0;
	char path[32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%*u %llu", &delay) != 1)
		delay = 0;
	if (file)
		fclose(file);
	return delay;
}

/* Does it run now, or wait for a CPU, which is no delay before it has got one? */
static bool is_running(pid_t pid)
{
	char path[32], line[512], *end = NULL;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (file && fgets(line, sizeof(line), file))
		end = strrchr(line, ')');
	if (file)
		fclose(file);
	return end && !strncmp(end, ") R", 3);
}

/*
 * What a parser may do: read what it has, and write what it has made. It cannot end its alarm
 * either.
 */
static void filter_calls(void)
{
	static const unsigned int calls[] = {
		SYS_pread64, SYS_lseek, SYS_write, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap,
		SYS_madvise, SYS_exit_group,
	};
	struct sock_filter filter[2 * ARRAY_SIZE(calls) + 5], *to = filter;
	struct sock_fprog program = { .filter = filter };
	unsigned int i;

	*to++ = LOAD(arch);
	*to++ = IF_NOT(AUDIT_ARCH_X86_64);
	*to++ = RETURN(SECCOMP_RET_KILL_PROCESS);
	*to++ = LOAD(nr);
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		*to++ = IF(calls[i]);
		*to++ = RETURN(SECCOMP_RET_ALLOW);
	}
	*to++ = RETURN(SECCOMP_RET_ERRNO | EPERM);
	program.len = to - filter;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(EPERM);
}

/* The C library would give another number to all threads, and there is one. */
static void be_nobody(void)
{
	if (!syscall(SYS_setgroups, 0, NULL) && !syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY))
		syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY);
}

/* What the file says can do no more than make its table wrong, or the parser ends. */
static void confine(int out, pid_t reader, unsigned int seconds)
{
	const struct rlimit limit = { .rlim_cur = seconds, .rlim_max = seconds + 1 };

	setrlimit(RLIMIT_CPU, &limit);
	if (opened.here)
		munmap(opened.here, 1);
	dup2(opened.fd, PARSER_IN);
	dup2(out, PARSER_OUT);
	/* FUSE takes requests of no user whom it does not know, by a descriptor neither. */
	if (user_was_needed())
		user_become(reader);
	else
		be_nobody();
	syscall(SYS_close_range, PARSER_OUT + 1, ~0U, 0);
	if (unwind_keeper_limit_capabilities(0, 0))
		_exit(EPERM);
	/* Each change of credentials takes these away. */
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	filter_calls();
}

/* Without a table, only its fingerprint is of interest; with one it follows that. */
static void be_parser(int out, bool with_table, pid_t reader, unsigned int seconds)
{
	struct unwind_table *table = NULL;
	struct ut_source src = opened.src;
	const char *data = NULL;
	size_t len = 0, done;
	__u64 print;
	ssize_t n;
	int error;

	confine(out, reader, seconds);
	src.fd = PARSER_IN;
	error = with_table ? ut_make(&src, &table) : 0;
	error = error ?: ut_fingerprint(&src, &print);
	if (error)
		_exit(-error);
	if (with_table)
		data = unwind_table_data(table, &len);
	for (done = 0; done < len; done += n) {
		n = write(PARSER_OUT, data + done, len - done);
		if (n <= 0)
			_exit(ENOMEM);
	}
	_exit(write(PARSER_OUT, &print, sizeof(print)) == sizeof(print) ? 0 : ENOMEM);
}

/* What it says goes if it makes sense. A user may have killed what is his. */
static int parser_error(int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		return -ETIMEDOUT;
	if (!WIFEXITED(status))
		return user_was_needed() ? -EAGAIN : -EPIPE;
	switch (WEXITSTATUS(status)) {
	case 0:
	case ENODATA:
	case ENOEXEC:
	case ENOMEM:
	case EFBIG:
	case E2BIG:
		return -WEXITSTATUS(status);
	default:
		return -EPIPE;
	}
}

/* What another process has run, and waited for a CPU */
static __u64 busy_ns(pid_t pid)
{
	struct timespec ran = { };
	clockid_t clock;

	if (!clock_getcpuclockid(pid, &clock))
		clock_gettime(clock, &ran);
	return ran.tv_sec * 1000000000ull + ran.tv_nsec + delay_ns(pid);
}

/*
 * The work that a file makes is bounded, so a parser has the time that it needs, also where it
 * hardly ever gets a CPU. What it may not do for long is wait for something else, the file
 * system. As long as it does not, the keeper hears of it. One that has become a user may be stopped
 * by him or kept from running as often as he likes, so it has that time by the clock. Returns
 * whether it has ended.
 */
static bool wait_for_parser(pid_t pid)
{
	__u64 now, last = monotonic_ns(), busy, last_busy = 0;
	const bool is_users = user_was_needed();
	struct pollfd ended = { .events = POLLIN };
	__s64 blocked = 0;

	ended.fd = syscall(SYS_pidfd_open, pid, 0);
	if (ended.fd < 0)
		return false;
	do {
		alarm(READER_SECONDS);
		if (poll(&ended, 1, BUSY_MS) > 0)
			break;
		now = monotonic_ns();
		busy = busy_ns(pid);
		/* Of a while at whose end it runs nothing is certain, if there are no delays. */
		if (is_users)
			blocked += now - last;
		else if (!is_running(pid) && now - last > busy - last_busy)
			blocked += now - last - (busy - last_busy);
		last = now;
		last_busy = busy;
	} while (blocked < READER_SECONDS * 1000000000ll &&
		 send(SOCKET, BUSY, 1, MSG_NOSIGNAL) == 1);
	close(ended.fd);
	return ended.revents;
}

/* Who has it for a file of root's that no other share pays for is trusted to need it. */
static unsigned int parser_seconds(const struct reader_page *page)
{
	return !opened.id.uid && (!page->pid || owner_is_root(&page->mapper)) ?
	       PARSER_SECONDS_ROOT : PARSER_SECONDS;
}

/* Have a parser look at what is open, and write. -EPIPE: it crashed. */
static int run_parser(struct reader_page *page, bool with_table)
{
	const unsigned int seconds = parser_seconds(page);
	const pid_t reader = getpid();
	struct rusage usage;
	int out, status;
	siginfo_t info;
	pid_t pid;

	page->step = READER_READ;
	if (opened.found < 0)
		return -EBADF;
	out = memfd_create("unwind-table", MEMFD_FLAGS);
	if (out < 0)
		return -errno;
	passed = out;
	pid = fork();
	if (!pid)
		be_parser(out, with_table, reader, seconds);
	if (pid < 0)
		return -errno;
	page->child = pid;
	/* This process ends as by its alarm, and the parser with it. */
	if (!wait_for_parser(pid)) {
		page->busy_ns = READER_SECONDS * 1000000000ull;
		raise(SIGALRM);
	}
	/* What it has waited for is known as long as it is not gone altogether. */
	while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
	/* A user can have it wait. */
	page->delay_ns = user_was_needed() ? 0 : delay_ns(pid);
	while (wait4(pid, &status, 0, &usage) < 0)
		if (errno != EINTR)
			return -errno;
	page->child = 0;
	page->build_ns = rusage_ns(&usage);
	return parser_error(status);
}

/*
 * From now on the kernel goes by size and time of the file. Until now, they may have lied:
 * is it as it was before it was read?
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
		mapping->id.handle = get_handle(fd);
		page->nr_mappings = 1;
		set_name(page, fd);
		if (avoided(page, mapping->dev))
			error = -ETIMEDOUT;
		else if (is_excluded(&page->exclude, EXCLUDE_PATH, page->name))
			error = -ENOENT;
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

	page->step = READER_OPEN;
	*found = find_path(page, S_IFREG);
	if (*found < 0)
		return *found;
	*mapping = &page->mappings[0];
	fd = user_open(*found);
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

	page->step = READER_OPEN;
	fd = find_path(page, S_IFDIR);
	if (fd < 0)
		return fd;
	if (page->question == READER_NAMES)
		error = reader_list_directory(page, fd);
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
	if (avoided(page, (*mapping)->dev))
		return -ETIMEDOUT;

	page->step = READER_OPEN;
	*found = open_mapped(proc, maps, *mapping, &(*mapping)->id);
	(*mapping)->error = *found < 0 ? *found : 0;
	if (*found < 0)
		return *found;
	set_name(page, *found);
	return is_excluded(&page->exclude, EXCLUDE_PATH, page->name) ? -ENODATA :
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
	page->step = READER_READ;
	error = get_settled_id(opened.fd, &mapping->id);
	if (error)
		return error;
	page->step = READER_BIND;
	opened.here = mmap(NULL, 1, PROT_EXEC, MAP_PRIVATE, opened.fd, 0);
	if (opened.here == MAP_FAILED) {
		opened.here = NULL;
		return -errno;
	}
	opened.id = mapping->id;
	opened.src = (struct ut_source){
		.fd = opened.fd, .len = mapping->id.size, .stored = stored_bytes(opened.fd)
	};
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

static int answer(struct reader_page *page)
{
	int proc, maps, error;

	if (page->question == READER_MAKE)
		return run_parser(page, true);
	if (page->question == READER_PRINT)
		return run_parser(page, false);
	if (page->question == READER_CHECK)
		return check_opened();
	close_opened();
	user_forget();
	if (!page->pid)
		return answer_about_path(page);

	proc = open_process(page->pid);
	if (proc < 0)
		return proc;
	owner_read(proc, &page->mapper);
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
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* What others have open must not stay open because of us. */
static void set_descriptors(int sock)
{
	int null, i;

	if (dup2(sock, SOCKET) < 0)
		_exit(1);
	null = open("/dev/null", O_RDWR);
	for (i = 0; i <= STDERR_FILENO; i++)
		if (null < 0)
			close(i);
		else
			dup2(null, i);
	syscall(SYS_close_range, SOCKET + 1, ~0U, 0);
}

static bool send_answer(void)
{
	bool sent = message_send(SOCKET, "", 1, passed);

	if (passed >= 0 && passed != opened.found)
		close(passed);
	passed = -1;
	return sent;
}

static void be_reader(struct reader_page *page, int sock)
{
	ssize_t len;
	__u64 start, begin, delay;
	char byte;
	int fd;

	/* Before anything that could wait */
	set_signals();
	alarm(READER_SECONDS);
	set_descriptors(sock);

	/* If memory runs out, a file without a table is the least harm. */
	fd = open("/proc/self/oom_score_adj", O_WRONLY);
	if (fd >= 0) {
		len = write(fd, "1000", 4);
		close(fd);
	}
	unwind_keeper_limit_capabilities(OPENER_CAPABILITIES, OPENER_CAPABILITIES);
	/* The keeper attaches tables to what is mapped here. */
	prctl(PR_SET_DUMPABLE, 1);
	/* What it starts has nothing to say to the keeper. */
	madvise(page, sizeof(*page), MADV_DONTFORK);

	for (;;) {
		alarm(0);
		len = read(SOCKET, &byte, 1);
		if (len < 0 && errno == EINTR)
			continue;
		if (len != 1)
			_exit(0);
		alarm(READER_SECONDS);
		start = cpu_ns();
		begin = monotonic_ns();
		delay = delay_ns(getpid());
		page->child = 0;
		page->error = answer(page);
		if (page->error && page->question == READER_HOLD)
			close_opened();
		page->as_user = user_was_needed();
		page->cpu_ns = cpu_ns() - start;
		page->busy_ns = monotonic_ns() - begin - page->delay_ns -
				(delay_ns(getpid()) - delay);
		if (!send_answer())
			_exit(0);
	}
}

/* ------------------------------------------------------------------------ */
/* Who asks								      */

int unwind_keeper_limit_capabilities(uint64_t permitted, uint64_t effective)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];
	int i;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_capget, &header, data))
		return -errno;
	for (i = 0; i < 2; i++) {
		data[i].permitted &= permitted >> (32 * i);
		data[i].effective = data[i].permitted & (effective >> (32 * i));
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

/* Those that were given up have ended, perhaps. */
static void reap(struct reader *reader)
{
	int i;

	for (i = 0; i < READER_MAX_ABANDONED; i++)
		if (reader->abandoned[i] && waitpid(reader->abandoned[i], NULL, WNOHANG))
			reader->abandoned[i] = 0;
}

/* If there are too many, the last one will not be known any more. */
static void abandon(struct reader *reader, pid_t pid)
{
	int i;

	reap(reader);
	for (i = 0; i < READER_MAX_ABANDONED - 1 && reader->abandoned[i]; i++)
		;
	reader->abandoned[i] = pid;
}

bool reader_is_own(const struct reader *reader, pid_t pid)
{
	int i;

	for (i = 0; i < READER_MAX_ABANDONED; i++)
		if (pid == reader->abandoned[i])
			return true;
	return pid == reader->pid;
}

static int start(struct reader *reader)
{
	/* The alarm does not end a wait that is broken altogether. */
	struct timeval timeout = { .tv_sec = READER_SECONDS + 5 };
	int sockets[2], error;
	pid_t pid;

	reap(reader);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout,
		   sizeof(timeout));
	pid = fork();
	if (!pid)
		be_reader(reader->page, sockets[1]);
	error = -errno;
	close(sockets[1]);
	if (pid < 0) {
		close(sockets[0]);
		return error;
	}
	reader->pid = pid;
	reader->socket = sockets[0];
	reader->pidfd = syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void drop_passed(struct reader *reader)
{
	drop(&reader->file);
	drop(&reader->table);
}

void reader_drop_table(struct reader *reader)
{
	drop(&reader->table);
}

/*
 * It has ended, or is to end, which may take for ever. Why there was no answer: it took too long,
 * or the reader died.
 */
static int stop(struct reader *reader)
{
	struct pollfd ended = { .fd = reader->pidfd, .events = POLLIN };
	pid_t pid = reader->pid;
	int status = 0, error;

	poll(&ended, 1, END_MS);
	if (waitpid(pid, &status, WNOHANG) != pid) {
		kill(pid, SIGKILL);
		abandon(reader, pid);
		error = -ETIMEDOUT;
		reader->hung = reader->pidfd;
		reader->pidfd = -1;
	} else {
		error = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? -ETIMEDOUT :
			-ECONNRESET;
		if (reader->page->child)
			reader->hung = syscall(SYS_pidfd_open, reader->page->child, 0);
	}
	reader->pid = 0;
	close(reader->socket);
	drop(&reader->pidfd);
	drop_passed(reader);
	return error;
}

int reader_open(struct reader *reader)
{
	memset(reader, 0, sizeof(*reader));
	reader->pidfd = -1;
	reader->file = -1;
	reader->table = -1;
	reader->hung = -1;
	ut_hash_prepare();
	reader->page = mmap(NULL, sizeof(*reader->page), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return reader->page == MAP_FAILED ? -errno : 0;
}

void reader_close(struct reader *reader)
{
	if (reader->pid)
		stop(reader);
	drop(&reader->hung);
	munmap(reader->page, sizeof(*reader->page));
}

static bool send_to(const struct reader *reader)
{
	return send(reader->socket, "", 1, MSG_NOSIGNAL) == 1;
}

/* A reader that ended in the meantime has a successor, but that has no file open. */
static int send_question(struct reader *reader, bool is_about_opened)
{
	int error;

	if (reader->pid && send_to(reader))
		return 0;
	if (reader->pid)
		stop(reader);
	error = is_about_opened ? -ECONNRESET : start(reader);
	if (error)
		return error;
	return send_to(reader) ? 0 : -ECONNRESET;
}

/* An answer, and the descriptor that comes with it */
static ssize_t receive(struct reader *reader)
{
	int got;
	char byte;
	ssize_t len;

	while ((len = message_receive(reader->socket, &byte, 1, &got)) == 1 && byte == BUSY[0]) {
		drop(&got);
		if (reader->alive)
			reader->alive(reader->arg);
	}
	if (reader->page->question == READER_HOLD) {
		reader->file = got;
		return len;
	}
	if (reader->page->question == READER_MAKE || reader->page->question == READER_PRINT) {
		drop(&reader->table);
		reader->table = got;
		got = -1;
	}
	drop(&got);
	return len;
}

int reader_ask(struct reader *reader)
{
	struct reader_page *page = reader->page;
	bool is_about_opened = page->question == READER_MAKE ||
			       page->question == READER_PRINT ||
			       page->question == READER_CHECK;
	int error;

	page->error = 0;
	page->build_ns = 0;
	page->cpu_ns = 0;
	page->busy_ns = 0;
	page->delay_ns = 0;
	if (!is_about_opened) {
		drop_passed(reader);
		memset(&page->mapper, 0, sizeof(page->mapper));
		page->mapper.uid = OWNER_UNKNOWN;
		page->step = READER_FIND;
		page->here = 0;
		page->as_user = false;
		page->names_len = 0;
		page->end = false;
		page->name[0] = '\0';
		page->nr_mappings = 0;
		page->more_mappings = false;
	}

	error = send_question(reader, is_about_opened);
	if (error)
		return error;
	if (receive(reader) == 1)
		return 0;
	return stop(reader);
}
