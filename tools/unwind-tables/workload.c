// SPDX-License-Identifier: GPL-2.0
/*
 * Which files is a program going to run from? The dynamic linker says so without running
 * anything of the program. What it is asked is asked in a child process, since a program
 * may be on a file system that hangs, and nothing that it says has to be true.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unwind-tables.h"

#define LIST_SECONDS	1
/* As many as the kernel follows */
#define MAX_SCRIPTS	5
/* What the kernel looks at of a script */
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

/* What runs a script, for env(1) the program that it is told to run; NULL: none does. */
static char *find_interpreter(char *script)
{
	char *name, *arg, *rest, *path;

	if (strncmp(script, "#!", 2))
		return NULL;
	script[strcspn(script, "\n")] = '\0';
	name = strtok_r(script + 2, " \t", &rest);
	arg = strtok_r(NULL, " \t", &rest);
	if (!name)
		return NULL;
	path = find_program(name);
	if (path && arg && *arg != '-' && strlen(path) > 4 &&
	    !strcmp(path + strlen(path) - 4, "/env"))
		return find_program(arg);
	return path;
}

/* The dynamic linker that a program asks for, or an empty name */
static void read_linker(int fd, char *linker, size_t size)
{
	Elf64_Ehdr header;
	Elf64_Phdr phdr;
	int i;

	*linker = '\0';
	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_phentsize != sizeof(phdr))
		return;
	for (i = 0; i < header.e_phnum; i++) {
		if (pread(fd, &phdr, sizeof(phdr), header.e_phoff + i * sizeof(phdr)) !=
		    sizeof(phdr))
			return;
		if (phdr.p_type != PT_INTERP)
			continue;
		if (!phdr.p_filesz || phdr.p_filesz > size ||
		    pread(fd, linker, phdr.p_filesz, phdr.p_offset) !=
		    (ssize_t)phdr.p_filesz)
			phdr.p_filesz = 1;
		linker[phdr.p_filesz - 1] = '\0';
		return;
	}
}

/* Nobody but root can have written it. */
static bool is_trusted(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && !st.st_uid &&
	       !(st.st_mode & 0022);
}

/* In the child: print the files to standard output, one in a line. */
static void print_files(const char *name)
{
	char *path = find_program(name), script[SCRIPT_LEN], linker[PATH_MAX];
	int fd = -1, i;
	ssize_t len;

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

	read_linker(fd, linker, sizeof(linker));
	if (!*linker)
		return;
	printf("%s\n", linker);
	fd = open(linker, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || !is_trusted(fd))
		return;
	fflush(stdout);
	/* It would run what is named there. */
	unsetenv("LD_AUDIT");
	fexecve(fd, (char *[]){ linker, "--list", path, NULL }, environ);
}

static void be_child(const char *name, int out)
{
	sigset_t none;
	int null;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
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
static void take_line(char *line, workload_file_t found, void *arg)
{
	char *path = strchr(line, '/'), *end, *next;

	if (!path)
		return;
	path[strcspn(path, "\n")] = '\0';
	if (path != line) {
		for (end = NULL, next = path; (next = strstr(next, " (0x")); next++)
			end = next;
		if (end)
			*end = '\0';
	}
	found(arg, path);
}

/**
 * workload_files - find the files that a program is going to run from
 * @name:	as for execvp(), in this process's environment and directory
 * @found:	is called for each file, with its absolute path
 * @arg:	for @found
 *
 * These are the program, or the script and what runs it, the dynamic linker and the
 * libraries. The linker is asked only if root alone can have written it.
 */
void workload_files(const char *name, workload_file_t found, void *arg)
{
	char *line = NULL;
	size_t size = 0;
	int out[2];
	FILE *file;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC))
		return;
	pid = fork();
	if (!pid)
		be_child(name, out[1]);
	close(out[1]);
	file = pid > 0 ? fdopen(out[0], "r") : NULL;
	if (!file) {
		close(out[0]);
	} else {
		while (getline(&line, &size, file) > 0)
			take_line(line, found, arg);
		fclose(file);
	}
	free(line);
	if (pid > 0)
		waitpid(pid, NULL, 0);
}
