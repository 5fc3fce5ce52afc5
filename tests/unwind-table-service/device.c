// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/unwind_tables for programs that are started with this library in
 * LD_PRELOAD, where the kernel has none: answers as linux/unwind_table.h says it,
 * but nobody unwinds by it. The contents of fdinfo are in $UNWIND_TABLES_STATE.PID. As long as
 * there is a file $UNWIND_TABLES_STATE.full, there is no room, and as long as there is one
 * $UNWIND_TABLES_STATE.old, UNWIND_TABLE_NO_CALL is not known. Files of some sizes control the
 * parser. As often as $UNWIND_TABLES_STATE.locked has bytes, the memory of the process that is
 * asked about is locked.
 *
 * If there is a file $UNWIND_TABLES_STATE.PID.forget, it forgets all files, as the kernel
 * does for want of memory. With UNWIND_TABLES_HIDE=ctime, files have no time of change of their own,
 * and with =handle no handle either.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/unwind_table.h>

#include "check.h"
#include "unwind-table.h"

#define MAX_TABLES	4096

/* Parent and child see the same. One call is open at a time. */
static struct state {
	pid_t owner;
	ino_t ino;
	/* The opener had CAP_SYS_ADMIN. */
	bool admin;
	unsigned int makes;
	unsigned int attaches;
	struct {
		bool used;
		size_t len;
		bool attached;
		/* How often it was to be attached to a file that has one */
		unsigned int again;
		struct known {
			ino_t ino;
			struct timespec mtime;
			/* Stands for the generation of the inode */
			unsigned char handle[MAX_HANDLE_SZ];
		} file;
		char name[256];
	} tables[MAX_TABLES];
} *state;

static bool hides(const char *what)
{
	const char *hidden = getenv("UNWIND_TABLES_HIDE");

	return hidden && (!strcmp(hidden, what) || !strcmp(hidden, "handle"));
}

int fstat(int fd, struct stat *st)
{
	int ret = syscall(SYS_fstat, fd, st);

	if (!ret && hides("ctime"))
		st->st_ctim = st->st_mtim;
	return ret;
}

int name_to_handle_at(int fd, const char *path, struct file_handle *handle, int *mount,
		      int flags)
{
	if (!hides("handle"))
		return syscall(SYS_name_to_handle_at, fd, path, handle, mount, flags);
	errno = EOPNOTSUPP;
	return -1;
}

static void show(void)
{
	const char *path = getenv("UNWIND_TABLES_STATE");
	unsigned int tables = 0, attached = 0;
	char name[512], temporary[520];
	size_t bytes = 0;
	FILE *out;
	int i;

	if (!path)
		return;
	snprintf(name, sizeof(name), "%s.%d", path, state->owner);
	snprintf(temporary, sizeof(temporary), "%s.new", name);
	out = fopen(temporary, "we");
	if (!out)
		abort();
	for (i = 1; i < MAX_TABLES; i++) {
		if (!state->tables[i].used)
			continue;
		tables++;
		bytes += state->tables[i].len;
		attached += state->tables[i].attached;
		fprintf(out, "# %d %s\n", i, state->tables[i].name);
		fprintf(out, "%s: %zu %d\n", state->tables[i].name, state->tables[i].len,
			state->tables[i].attached);
		fprintf(out, "again: %u %s\n", state->tables[i].again, state->tables[i].name);
	}
	fprintf(out, "tables:\t%u\nbytes:\t%zu\nattached:\t%u\n", tables, bytes,
		attached);
	fprintf(out, "makes:\t%u\nattaches:\t%u\n", state->makes,
		state->attaches);
	fclose(out);
	rename(temporary, name);
}

static bool is_admin(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = { };

	syscall(SYS_capget, &header, data);
	return data[0].effective & 1 << CAP_SYS_ADMIN;
}

int open(const char *path, int flags, ...)
{
	struct stat st;
	va_list args;
	mode_t mode;
	int fd;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	if (strcmp(path, "/dev/unwind_tables"))
		return syscall(SYS_openat, AT_FDCWD, path, flags, mode);

	fd = memfd_create("unwind_tables", MFD_CLOEXEC);
	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fd < 0 || state == MAP_FAILED || fstat(fd, &st))
		abort();
	state->ino = st.st_ino;
	state->owner = getpid();
	state->admin = is_admin();
	show();
	return fd;
}

#define FIRST_HOSTILE	777777
#define EXIT(status)	syscall(SYS_exit_group, status)

/* A parser reads its file from standard input, and writes to standard output. */
ssize_t write(int fd, const void *data, size_t len)
{
	char garbage[4096];

	if (fd != STDOUT_FILENO)
		return syscall(SYS_write, fd, data, len);
	switch (lseek(STDIN_FILENO, 0, SEEK_END) - FIRST_HOSTILE) {
	case 0:
		memset(garbage, 0xff, sizeof(garbage));
		syscall(SYS_write, fd, garbage, sizeof(garbage));
		EXIT(0);
	case 1:
		syscall(SYS_write, fd, data, 10);
		EXIT(0);
	case 2:
		EXIT(0);
	case 3:
		EXIT(ESRCH);
	case 4:
		EXIT(EEXIST);
	case 5:
		/* May this process open a file, or be heard of? */
		if (syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY) >= 0 ||
		    !syscall(SYS_kill, getppid(), 0))
			syscall(SYS_write, fd, data, len);
		EXIT(0);
	case 6:
		while (true)
			;
	default:
		return syscall(SYS_write, fd, data, len);
	}
}

#define __alias(symbol) __attribute__((__alias__(symbol)))

int open64(const char *path, int flags, ...) __alias("open");
int fstat64(int fd, struct stat64 *st) __alias("fstat");

static bool is_told(const char *what)
{
	const char *path = getenv("UNWIND_TABLES_STATE");
	char name[512];

	snprintf(name, sizeof(name), "%s.%s", path ?: "", what);
	return path && !access(name, F_OK);
}

static bool has_no_call(const void *data, size_t len)
{
	const struct unwind_table_header *header = data;
	const struct unwind_table_rule *rule = data + len;
	unsigned int i;

	for (i = 0; i < header->nr_rules; i++)
		if ((--rule)->flags & UNWIND_TABLE_NO_CALL)
			return true;
	return false;
}

static int make(const struct unwind_table_make *arg)
{
	const char *wrong;
	int i;

	if (is_told("full"))
		return -ENOSPC;
	if (arg->size != sizeof(*arg) || arg->flags)
		return -EINVAL;
	wrong = unwind_table_check((void *)(unsigned long)arg->data, arg->len);
	if (wrong) {
		fprintf(stderr, "device: %s\n", wrong);
		return -EINVAL;
	}
	if (is_told("old") && has_no_call((void *)(unsigned long)arg->data, arg->len))
		return -EINVAL;
	for (i = 1; i < MAX_TABLES; i++) {
		if (state->tables[i].used)
			continue;
		memset(&state->tables[i], 0, sizeof(state->tables[i]));
		state->tables[i].used = true;
		state->tables[i].len = arg->len;
		state->makes++;
		return i;
	}
	return -ENOSPC;
}

static pid_t pid_of(int pidfd)
{
	char path[64], line[256];
	pid_t pid = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Pid: %d", &pid);
	if (file)
		fclose(file);
	return pid;
}

/* The file that is mapped there, not for reading */
static int open_mapped(pid_t pid, __u64 address, char *name, size_t size)
{
	struct procmap_query query = {
		.size		= sizeof(query),
		.query_flags	= PROCMAP_QUERY_VMA_EXECUTABLE,
		.query_addr	= address,
		.vma_name_addr	= (unsigned long)name,
		.vma_name_size	= size,
	};
	char path[128];
	int maps, fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (maps < 0)
		return -ESRCH;
	if (syscall(SYS_ioctl, maps, PROCMAP_QUERY, &query)) {
		close(maps);
		return -EFAULT;
	}
	close(maps);
	if (!query.inode)
		return strcmp(name, "[vdso]") ? -ENOEXEC : -ENODATA;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", pid,
		 query.vma_start, query.vma_end);
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	/* The kernel needs no permission to see its size, nor any capability to find it. */
	if (fd < 0)
		fd = syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
	return fd;
}

/* The only user in tests of whom there are files that root may not see; the kernel may. */
#define USER		12345

static int stat_of(int fd, struct stat *st)
{
	struct stat *seen;
	pid_t pid;

	if (!fstat(fd, st))
		return 0;
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	if (seen == MAP_FAILED)
		abort();
	pid = fork();
	if (!pid) {
		syscall(SYS_setresgid, USER, USER, USER);
		syscall(SYS_setresuid, USER, USER, USER);
		EXIT(fstat(fd, seen) ? 1 : 0);
	}
	waitpid(pid, NULL, 0);
	*st = *seen;
	munmap(seen, sizeof(*seen));
	return st->st_ino ? 0 : -1;
}

/* Not by device: for the kernel, files beneath overlayfs are the same. */
static struct known known_of(int fd)
{
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} all = { .handle.handle_bytes = MAX_HANDLE_SZ };
	struct known known = { };
	struct stat st;
	int mount;

	if (fd < 0 || stat_of(fd, &st))
		return known;
	known.ino = st.st_ino;
	known.mtime = st.st_mtim;
	/* 0x200: AT_HANDLE_FID. That of a file on overlayfs has the layer in it. */
	if (!syscall(SYS_name_to_handle_at, fd, "", &all, &mount, AT_EMPTY_PATH | 0x200) &&
	    all.handle.handle_type < 0x80)
		memcpy(known.handle, all.handle.f_handle, all.handle.handle_bytes);
	return known;
}

static bool has_table(const struct known *file)
{
	int i;

	for (i = 1; i < MAX_TABLES; i++)
		if (state->tables[i].used && state->tables[i].attached &&
		    !memcmp(&state->tables[i].file, file, sizeof(*file)))
			return true;
	return false;
}

static void forget_if_told(void)
{
	char name[512];
	int i;

	snprintf(name, sizeof(name), "%s.%d.forget", getenv("UNWIND_TABLES_STATE") ?: "",
		 state->owner);
	if (unlink(name))
		return;
	for (i = 1; i < MAX_TABLES; i++)
		state->tables[i].attached = false;
}

/* Is the memory of the process locked this time? */
static bool is_locked(void)
{
	char name[512];
	struct stat st;

	snprintf(name, sizeof(name), "%s.locked", getenv("UNWIND_TABLES_STATE") ?: "");
	return !stat(name, &st) && st.st_size && !truncate(name, st.st_size - 1);
}

/* May the caller attach a table to that file, or if there is none, to the vDSO? */
static bool may_attach(int fd, const struct stat *st)
{
	struct statfs fs;

	return state->admin || (fd >= 0 && st->st_uid == geteuid() && !fstatfs(fd, &fs) &&
				fs.f_type != OVERLAYFS_SUPER_MAGIC);
}

/* Only tables that this process has attached count. */
static int query(const struct unwind_table_query *arg)
{
	struct known known;
	char name[4096] = "";
	int fd;

	if (arg->size != sizeof(*arg))
		return -EINVAL;
	if (is_locked())
		return -EAGAIN;
	fd = open_mapped(pid_of(arg->pidfd), arg->address, name, sizeof(name));
	if (fd < 0 && fd != -ENODATA)
		return fd == -1 ? -EIO : fd;
	known = known_of(fd);
	if (fd >= 0)
		close(fd);
	return has_table(&known);
}

static int attach(const struct unwind_table_attach *arg)
{
	struct stat st = { }, read;
	struct known known;
	char name[4096] = "";
	int fd;

	if (arg->size != sizeof(*arg) || arg->flags & ~UNWIND_TABLE_ATTACH_FD)
		return -EINVAL;
	if (arg->table >= MAX_TABLES || !state->tables[arg->table].used)
		return -ENOENT;
	if (is_locked())
		return -EAGAIN;
	state->attaches++;
	fd = open_mapped(pid_of(arg->pidfd), arg->address, name, sizeof(name));
	if (fd < 0 && fd != -ENODATA)
		return fd == -1 ? -EIO : fd;
	known = known_of(fd);
	if (fd >= 0)
		stat_of(fd, &st);
	if (!may_attach(fd, &st)) {
		close(fd);
		return -EPERM;
	}
	if (fd >= 0) {
		bool busy;

		/* A read lease needs a file that nobody writes. */
		busy = fcntl(fd, F_SETLEASE, F_RDLCK) < 0 && errno == EAGAIN;
		close(fd);
		if (busy)
			return -ETXTBSY;
		if (!(arg->flags & UNWIND_TABLE_ATTACH_FD) || stat_of(arg->file, &read) ||
		    read.st_dev != st.st_dev || read.st_ino != st.st_ino)
			return -ESTALE;
	}
	if (arg->file_size != st.st_size || arg->mtime_sec != st.st_mtim.tv_sec ||
	    arg->mtime_nsec != st.st_mtim.tv_nsec)
		return -ESTALE;
	if (has_table(&known)) {
		state->tables[arg->table].again++;
		return -EEXIST;
	}
	state->tables[arg->table].attached = true;
	state->tables[arg->table].file = known;
	snprintf(state->tables[arg->table].name, 256, "%s", name);
	return 0;
}

/* The kernel needs no capability to see mappings; @all or those of before */
static void use_capabilities(bool all)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];
	static __u32 effective[2];
	int i;

	syscall(SYS_capget, &header, data);
	for (i = 0; i < 2; i++) {
		if (all)
			effective[i] = data[i].effective;
		data[i].effective = all ? data[i].permitted : effective[i];
	}
	syscall(SYS_capset, &header, data);
}

int ioctl(int fd, unsigned long request, ...)
{
	struct stat st;
	va_list args;
	void *arg;
	int ret;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (!state || fstat(fd, &st) || st.st_ino != state->ino)
		return syscall(SYS_ioctl, fd, request, arg);

	use_capabilities(true);
	forget_if_told();
	switch (request) {
	case UNWIND_TABLE_MAKE:
		ret = make(arg);
		break;
	case UNWIND_TABLE_ATTACH:
		ret = attach(arg);
		break;
	case UNWIND_TABLE_QUERY:
		ret = query(arg);
		break;
	case UNWIND_TABLE_DROP:
		ret = -ENOENT;
		if ((unsigned long)arg < MAX_TABLES &&
		    state->tables[(unsigned long)arg].used) {
			state->tables[(unsigned long)arg].used = false;
			ret = 0;
		}
		break;
	default:
		ret = -ENOTTY;
	}
	use_capabilities(false);
	show();
	if (ret >= 0)
		return ret;
	errno = -ret;
	return -1;
}
