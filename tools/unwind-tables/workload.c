// SPDX-License-Identifier: GPL-2.0
/*
 * Which files is a program going to run from? The dynamic linker says so without running
 * the program; one that asks for auditors, which would be run, is not listed. A program
 * that is made to deceive can have code run all the same, with no more rights than it is
 * going to have in a moment. All this is done by a child process: a program may be on a file
 * system that hangs, and nothing that the linker says has to be true or to end.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unwind-tables.h"

/* Time for listing: of a CPU, and by the clock, since the machine may be busy */
#define LIST_CPU_SECONDS 1
#define LIST_SECONDS	10
/* Maximum length of the list */
#define MAX_LIST	65536
/* As many interpreters as the kernel follows */
#define MAX_SCRIPTS	5
/* Bytes of a script that the kernel looks at */
#define SCRIPT_LEN	256

/* As execvp() finds it. Returns an absolute path without symbolic links, or NULL. */
static char *find_program(const char *name)
{
	const char *at = getenv("PATH") ?: "/bin:/usr/bin";
	char path[PATH_MAX];

	if (strchr(name, '/'))
		return realpath(name, NULL);
	for (;;) {
		size_t len = strcspn(at, ":");
		struct stat st;

		if (snprintf(path, sizeof(path), "%.*s/%s", (int)len, len ? at : ".",
			     name) < (int)sizeof(path) &&
		    !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK))
			return realpath(path, NULL);
		if (!at[len])
			return NULL;
		at += len + 1;
	}
}

/* The interpreter of a script, or the program that env(1) is told to run; NULL: none. */
static char *find_interpreter(char *script)
{
	char *name, *arg, *rest, *path;

	if (strncmp(script, "#!", 2))
		return NULL;
	script[strcspn(script, "\n")] = '\0';
	name = strtok_r(script + 2, " \t", &rest);
	arg = strtok_r(NULL, " \t", &rest);
	path = name ? realpath(name, NULL) : NULL;
	if (!path || strlen(path) < 4 || strcmp(path + strlen(path) - 4, "/env"))
		return path;
	while (arg && (!strcmp(arg, "-S") || strchr(arg, '=')))
		arg = strtok_r(NULL, " \t", &rest);
	return arg ? find_program(arg) ?: path : path;
}

/* Does a program want to be watched while it is linked? */
static bool has_auditor(int fd, const Elf64_Phdr *phdr)
{
	Elf64_Dyn dyn;
	size_t at;

	for (at = 0; at + sizeof(dyn) <= phdr->p_filesz; at += sizeof(dyn)) {
		if (pread(fd, &dyn, sizeof(dyn), phdr->p_offset + at) != sizeof(dyn) ||
		    dyn.d_tag == DT_NULL)
			break;
		if (dyn.d_tag == DT_AUDIT || dyn.d_tag == DT_DEPAUDIT)
			return true;
	}
	return false;
}

/* The dynamic linker that a program asks for. Returns whether it can be asked. */
static bool read_linker(int fd, char *linker, size_t size)
{
	bool ask = true;
	Elf64_Ehdr header;
	Elf64_Phdr phdr;
	int i;

	*linker = '\0';
	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_phentsize != sizeof(phdr))
		return false;
	for (i = 0; i < header.e_phnum; i++) {
		if (pread(fd, &phdr, sizeof(phdr), header.e_phoff + i * sizeof(phdr)) !=
		    sizeof(phdr))
			return false;
		if (phdr.p_type == PT_DYNAMIC && has_auditor(fd, &phdr))
			ask = false;
		if (phdr.p_type != PT_INTERP || *linker)
			continue;
		if (!phdr.p_filesz || phdr.p_filesz > size ||
		    pread(fd, linker, phdr.p_filesz, phdr.p_offset) !=
		    (ssize_t)phdr.p_filesz)
			phdr.p_filesz = 1;
		linker[phdr.p_filesz - 1] = '\0';
	}
	return ask && *linker;
}

/* It is root's, and nobody else may write it. FUSE is not believed about that. */
static bool is_trusted(int fd)
{
	struct statfs fs;
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && !st.st_uid &&
	       !(st.st_mode & 0022) && !fstatfs(fd, &fs) &&
	       fs.f_type != FUSE_SUPER_MAGIC;
}

/* In the child: print the files to standard output, one in a line. */
static void print_files(const char *name)
{
	char *path = find_program(name), script[SCRIPT_LEN], linker[PATH_MAX];
	int fd = -1, i;
	ssize_t len;
	bool ask;

	for (i = 0; path && i <= MAX_SCRIPTS; i++) {
		char *next;

		printf("%s\n", path);
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return;
		len = pread(fd, script, sizeof(script) - 1, 0);
		script[len < 0 ? 0 : len] = '\0';
		next = find_interpreter(script);
		if (!next)
			break;
		close(fd);
		path = next;
	}
	if (!path || i > MAX_SCRIPTS)
		return;

	ask = read_linker(fd, linker, sizeof(linker));
	if (*linker)
		printf("%s\n", linker);
	fd = ask ? open(linker, O_PATH | O_CLOEXEC) : -1;
	if (fd < 0 || !is_trusted(fd))
		return;
	fflush(stdout);
	/* It would run the programs that are named there. */
	unsetenv("LD_AUDIT");
	fexecve(fd, (char *[]){ linker, "--list", path, NULL }, environ);
}

static void be_child(const char *name, int out)
{
	const struct rlimit cpu = { LIST_CPU_SECONDS, LIST_CPU_SECONDS };
	sigset_t none;
	int null;

	setpgid(0, 0);
	signal(SIGALRM, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setrlimit(RLIMIT_CPU, &cpu);
	alarm(LIST_SECONDS);
	null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0)
		_exit(1);
	print_files(name);
	fflush(stdout);
	_exit(0);
}

/* "/a/file", or as the dynamic linker says: "\tlibfile.so => /a/file (0x7f0000000000)" */
static char *path_in(char *line)
{
	char *path = line, *end, *next;

	if (*line == '\t') {
		path = strstr(line, " => ");
		path = path ? path + 4 : line + 1;
		for (end = NULL, next = path; (next = strstr(next, " (0x")); next++)
			end = next;
		if (end)
			*end = '\0';
	}
	return strchr(path, '/') ? path : NULL;
}

/* Until it ends, or for as long as the child may take, and a little longer */
static size_t read_list(int in, char *list)
{
	struct pollfd fd = { .fd = in, .events = POLLIN };
	struct timespec now, end;
	size_t size = 0;
	ssize_t len;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += LIST_SECONDS + 1;
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= end.tv_sec || size == MAX_LIST ||
		    poll(&fd, 1, (end.tv_sec - now.tv_sec) * 1000) <= 0)
			return size;
		len = read(in, list + size, MAX_LIST - size);
		if (len <= 0)
			return size;
		size += len;
	}
}

static __u64 cpu_ns(pid_t pid)
{
	struct timespec used = { };
	clockid_t clock;

	if (!clock_getcpuclockid(pid, &clock))
		clock_gettime(clock, &used);
	return used.tv_sec * 1000000000ull + used.tv_nsec;
}

static unsigned int count_files(const char *list)
{
	unsigned int nr = 0;
	const char *end;

	for (; (end = strchr(list, '\n')); list = end + 1)
		nr += list + strcspn(list, "/") < end;
	return nr;
}

/**
 * workload_files - find the files that a program is going to run from
 * @name:	as for execvp(), in this process's environment and directory
 * @found:	is called for each file, with a path from this directory, the number of files that
 *		are left, this one included, and the CPU time that listing took
 * @arg:	for @found
 *
 * These are the program, or the script and what runs it, the dynamic linker and the
 * libraries. The linker is asked only if it is root's.
 */
void workload_files(const char *name, workload_file_t found, void *arg)
{
	static char list[MAX_LIST + 1];
	static pid_t last;
	char *line = list, *end, *path;
	__u64 used;
	int out[2];
	pid_t pid;

	/* The child of the last call. There are other children. */
	if (last > 0)
		waitpid(last, NULL, WNOHANG);
	if (pipe2(out, O_CLOEXEC))
		return;
	pid = fork();
	if (!pid)
		be_child(name, out[1]);
	last = pid;
	close(out[1]);
	if (pid > 0) {
		setpgid(pid, pid);
		list[read_list(out[0], list)] = '\0';
		used = cpu_ns(pid);
		while ((end = strchr(line, '\n'))) {
			*end = '\0';
			path = path_in(line);
			line = end + 1;
			if (path)
				found(arg, path, 1 + count_files(line), used);
		}
		/* With its own children. Nobody waits: they might not end. */
		kill(-pid, SIGKILL);
	}
	close(out[0]);
}
