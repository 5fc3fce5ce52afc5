// SPDX-License-Identifier: GPL-2.0
/* unwind-tables stat: the tables of the kernel and their holders; or the files of a process */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <linux/unwind_table.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"
#include "share.h"
#include "unwind-tables.h"

/* Descriptors beyond this are not listed. */
#define MAX_HOLDERS	256
/* How long to ask about a process that keeps its memory locked, in all */
#define LOCKED_MSECS	1000

struct counts {
	unsigned long long tables;
	unsigned long long bytes;
	unsigned long long attached;
	unsigned long long all_tables;
	unsigned long long all_bytes;
	unsigned long long walks;
	unsigned long long walks_complete;
	unsigned long long frames;
	unsigned long long frames_by_fp;
};

static const struct {
	const char *name;
	size_t offset;
} fields[] = {
	{ "tables:",			offsetof(struct counts, tables) },
	{ "bytes:",			offsetof(struct counts, bytes) },
	{ "attached:",			offsetof(struct counts, attached) },
	{ "all_tables:",		offsetof(struct counts, all_tables) },
	{ "all_bytes:",			offsetof(struct counts, all_bytes) },
	{ "walks:",			offsetof(struct counts, walks) },
	{ "walks_complete:",		offsetof(struct counts, walks_complete) },
	{ "frames:",			offsetof(struct counts, frames) },
	{ "frames_by_fp:",		offsetof(struct counts, frames_by_fp) },
	{ }
};

static struct holder {
	int pid;
	int fd;
} holders[MAX_HOLDERS];

static unsigned int nr_holders;

/* Whatever the descriptor is called, no other has all of these lines. */
static bool read_counts(int pid, int fd, struct counts *counts)
{
	char path[64], line[256], name[64];
	unsigned long long value;
	unsigned int found = 0, i;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", pid, fd);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63s %llu", name, &value) != 2)
			continue;
		for (i = 0; fields[i].name; i++) {
			if (strcmp(name, fields[i].name))
				continue;
			*(unsigned long long *)((char *)counts +
						fields[i].offset) = value;
			found |= 1 << i;
		}
	}
	fclose(file);
	for (i = 0; fields[i].name; i++)
		if (!(found & 1 << i))
			return false;
	return true;
}

/* The service manager, for one, has the same one open as the service. */
static bool is_same(const struct holder *a, const struct holder *b)
{
	return syscall(SYS_kcmp, a->pid, b->pid, KCMP_FILE, a->fd, b->fd) == 0;
}

static bool is_known(const struct holder *holder)
{
	unsigned int i;

	for (i = 0; i < nr_holders; i++)
		if (is_same(&holders[i], holder))
			return true;
	return false;
}

static void print_holder(const struct holder *holder, const struct counts *counts)
{
	char path[64], comm[64] = "?\n";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", holder->pid);
	file = fopen(path, "re");
	if (file) {
		if (!fgets(comm, sizeof(comm), file))
			comm[0] = '\0';
		fclose(file);
	}
	comm[strcspn(comm, "\n")] = '\0';
	log_printable(comm);
	if (!nr_holders)
		printf("%7s %-16s %8s %10s %8s\n", "PID", "COMMAND", "TABLES",
		       "KB", "ATTACHED");
	printf("%7d %-16s %8llu %10llu %8llu\n", holder->pid, comm,
	       counts->tables, counts->bytes >> 10, counts->attached);
}

static void print_shares(const char *path)
{
	char line[512];
	FILE *file;

	file = fopen(path, "re");
	if (!file)
		return;
	printf("  %-40s %8s %10s\n", "SHARE", "FILES", "KB");
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		log_printable(line);
		printf("  %s\n", line);
	}
	fclose(file);
}

static void show_shares(int pid)
{
	char path[300], target[64];
	struct dirent *entry;
	ssize_t len;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
		len = readlink(path, target, sizeof(target) - 1);
		target[len < 0 ? 0 : len] = '\0';
		if (!strcmp(target, "/memfd:" SHARES_PUBLISHED " (deleted)"))
			print_shares(path);
	}
	if (dir)
		closedir(dir);
}

static void see_descriptor(int pid, int fd, struct counts *all)
{
	struct holder holder = { .pid = pid, .fd = fd };
	struct counts counts = { };
	char path[64], target[256];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return;
	target[len] = '\0';
	/* With other file systems mounted, the directory part may differ. */
	if (!strstr(target, "unwind_tables"))
		return;
	if (!read_counts(pid, fd, &counts) || is_known(&holder))
		return;
	print_holder(&holder, &counts);
	show_shares(pid);
	*all = counts;
	if (nr_holders < MAX_HOLDERS)
		holders[nr_holders++] = holder;
}

static void see_process(int pid, struct counts *all)
{
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			see_descriptor(pid, atoi(entry->d_name), all);
	closedir(dir);
}

static int open_device(void)
{
	int fd = open(KERNEL_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (errno == ENOENT || errno == ENXIO || errno == ENODEV)
		log_no_device(KERNEL_DEVICE, errno);
	else
		log_error("%s: cannot be opened: %s; CAP_PERFMON is needed", KERNEL_DEVICE,
			  strerror(errno));
	return -1;
}

/* The totals, where nobody has the device open: we open it. */
static bool read_own(struct counts *all)
{
	int fd = open_device();
	bool ok;

	if (fd < 0)
		return false;
	ok = read_counts(getpid(), fd, all);
	close(fd);
	if (!ok)
		log_error("%s: no counts in /proc/self/fdinfo, is it of another kernel?",
			  KERNEL_DEVICE);
	return ok;
}

/* A line of /proc/PID/maps. NULL: it is not code of a file, nor the vDSO. */
static char *parse_mapping(char *line, unsigned long long *address)
{
	unsigned long long inode;
	char flags[5];
	int at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%llx-%*x %4s %*s %*s %llu %n", address, flags, &inode, &at) != 3 ||
	    !at || flags[2] != 'x' || (!inode && strcmp(line + at, "[vdso]")))
		return NULL;
	log_printable(line + at);
	return line + at;
}

/* The kernel does not wait for a process that is in mmap() or execve(). */
static int ask(int device, struct unwind_table_query *query)
{
	static unsigned int msecs;
	int ret;

	for (;;) {
		ret = ioctl(device, UNWIND_TABLE_QUERY, query);
		if (ret >= 0 || errno != EAGAIN || msecs++ >= LOCKED_MSECS)
			return ret;
		usleep(1000);
	}
}

/* Where the kernel takes no table, there is none. @name may be unmapped by now. */
static bool print_mapping(int device, int pidfd, unsigned long long address,
			  const char *name)
{
	struct unwind_table_query query = {
		.size		= sizeof(query),
		.pidfd		= pidfd,
		.address	= address,
	};
	int ret = ask(device, &query);

	if (ret < 0 && errno == EFAULT)
		return true;
	if (ret < 0 && errno != ENOEXEC && errno != ETXTBSY) {
		log_error("%s: cannot ask for its table: %s", name, errno == EAGAIN ?
			  "the process keeps its memory locked" : strerror(errno));
		return false;
	}
	printf("%-5s %12llx %s\n", ret > 0 ? "yes" : "no", address, name);
	return true;
}

static bool print_mappings(int device, int pidfd, FILE *maps)
{
	unsigned long long address;
	char *line = NULL, *name;
	size_t size = 0;
	bool ok = true;

	printf("%-5s %12s FILE\n", "TABLE", "ADDRESS");
	while (ok && getline(&line, &size, maps) > 0) {
		name = parse_mapping(line, &address);
		ok = !name || print_mapping(device, pidfd, address, name);
	}
	free(line);
	return ok;
}

static int print_process(pid_t pid)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0), device = -1;
	FILE *maps = NULL;
	char path[64];
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	if (pidfd >= 0)
		maps = fopen(path, "re");
	/* If it has not ended, the PID was its own when the file was opened. */
	if (maps && syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) && errno == ESRCH) {
		fclose(maps);
		maps = NULL;
		errno = ESRCH;
	}
	if (maps)
		device = open_device();
	else
		log_error("process %d: %s", pid, strerror(errno));
	ok = device >= 0 && print_mappings(device, pidfd, maps);
	if (maps)
		fclose(maps);
	close(device);
	close(pidfd);
	return ok ? EXIT_OK : EXIT_FAILED;
}

int cmd_stat(int argc, char **argv)
{
	struct counts all = { };
	struct dirent *entry;
	char *end;
	long pid;
	DIR *proc;

	if (argc > 1) {
		pid = strtol(argv[1], &end, 10);
		if (argc == 2 && !*end && pid > 0 && pid <= INT_MAX)
			return print_process(pid);
		log_error("stat: expected the ID of a process; see unwind-tables --help");
		return EXIT_USAGE;
	}
	proc = opendir("/proc");
	if (!proc) {
		log_error("/proc: %s", strerror(errno));
		return EXIT_FAILED;
	}
	while ((entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]) && atoi(entry->d_name) != 1)
			see_process(atoi(entry->d_name), &all);
	closedir(proc);
	/* A service manager keeps those of services, too. */
	see_process(1, &all);
	if (!nr_holders && !read_own(&all))
		return EXIT_FAILED;
	printf("all: %llu tables, %llu KB\n", all.all_tables, all.all_bytes >> 10);
	printf("while the device was open: %llu walks, %llu of them complete\n",
	       all.walks, all.walks_complete);
	printf("%llu frames by tables, %llu by frame pointer\n", all.frames,
	       all.frames_by_fp);
	return EXIT_OK;
}
