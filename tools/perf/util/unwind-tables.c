// SPDX-License-Identifier: GPL-2.0
/*
 * Complete stacks of programs that have neither frame pointers nor SFrame tables:
 * the kernel needs tables of unwind rules for their files. These are made by unwind-tables(8),
 * which is started here and ends with us. Reading any file of any process is better done in another
 * process: a hang or crash there does no harm to a recording.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <linux/time64.h>

#include "callchain.h"
#include "debug.h"
#include "record.h"
#include "target.h"
#include "time-utils.h"
#include "unwind-tables.h"

#define DEVICE		"/dev/unwind_tables"
/* A container sees this, though not the device. */
#define SYSCTL		"/proc/sys/kernel/unwind_table_max_kb"
#define PROGRAM		"unwind-tables"
/* For the tables of running programs. The others follow while we record. */
#define READY_MSECS	10000
/* A shorter wait needs no message. */
#define SILENT_MSECS	1000

/* Its word if the kernel does not accept all tables from it */
#define LIMITED		"limited\n"

#define OWN_ONLY	"Without CAP_SYS_ADMIN, unwind tables are made for your own files only"
#define CUT		"user stacks of programs without frame pointers will be cut"

/* Our end of a socket that is its standard input and output */
static int service = -1;

/* Of the program that is going to be started: files whose tables take too long */
static unsigned int nr_left;

/* Only these of the processes that run already, or threads of them; NULL: all */
static const char *only_processes(struct target *target)
{
	if (target->pid || target->tid)
		return target->pid ?: target->tid;
	return target__none(target) ? "" : NULL;
}

/* It is no child of ours: we may be waiting for another one. */
static void exec_service(int end, const char *only)
{
	char *arg = NULL;
	int null;

	/* After ^C, the last stacks of the recording are still wanted. */
	setsid();
	if (fork())
		_exit(0);

	if (dup2(end, STDIN_FILENO) < 0 || dup2(end, STDOUT_FILENO) < 0)
		_exit(1);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (!verbose && null >= 0)
		dup2(null, STDERR_FILENO);
	if (only && asprintf(&arg, "--only=%s", only) < 0)
		_exit(1);
	execlp(PROGRAM, PROGRAM, "serve", "--parent", arg, NULL);
	/* After su(1), PATH may be that of a user, without sbin. */
	execl("/usr/sbin/" PROGRAM, PROGRAM, "serve", "--parent", arg, NULL);
	_exit(errno == ENOENT ? 0 : 1);
}

static int start_service(const char *only)
{
	int ends[2], err;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;

	fflush(NULL);
	pid = fork();
	if (!pid)
		exec_service(ends[1], only);
	err = pid < 0 ? -errno : 0;
	if (pid > 0)
		waitpid(pid, NULL, 0);
	close(ends[1]);
	service = ends[0];
	return err;
}

/*
 * Wait for a line, or for one that says that it takes too long; skip others. Returns 1, 0 if
 * nothing comes in time, less if nothing can come any more.
 */
static int wait_for(const char *line, int msecs)
{
	struct pollfd fd = { .fd = service, .events = POLLIN };
	size_t len = 0;
	char buf[33] = "";

	while (len < sizeof(buf) - 1) {
		int ret = poll(&fd, 1, msecs);

		if (ret < 0 && errno == EINTR)
			return 0;
		if (ret <= 0)
			return ret;
		if (read(service, &buf[len], 1) <= 0)
			return -EPIPE;
		if (buf[len++] != '\n')
			continue;
		if (!strcmp(buf, line))
			return 1;
		if (sscanf(buf, "left %u", &nr_left) == 1)
			return 1;
		if (!strcmp(buf, LIMITED))
			pr_warning(OWN_ONLY "; others have those of the service " PROGRAM ".\n");
		len = 0;
		memset(buf, 0, sizeof(buf));
	}
	return -EPIPE;
}

static void wait_for_tables(void)
{
	if (wait_for("ready\n", SILENT_MSECS))
		return;
	pr_info("Preparing unwind tables for the programs that are running ...\n");
	if (!wait_for("ready\n", READY_MSECS))
		pr_info("... this goes on in the background; user stacks of the first samples may be cut.\n");
}

/**
 * unwind_tables__supported - whether the running kernel can use tables
 *
 * Such a kernel also marks callchains that are complete, so unmarked ones are cut.
 */
bool unwind_tables__supported(void)
{
	return !access(SYSCTL, F_OK);
}

/**
 * unwind_tables__start - have tables made for running programs
 * @opts: options of the recording. Only deferred callchains need tables
 *
 * Without tables perf works as well; it warns that stacks will be cut, except on a
 * kernel without the device, where only -v says so. The same holds for users who may not open the
 * device: the service may be running, and have made all tables. The summary of the recording tells.
 */
void unwind_tables__start(struct record_opts *opts)
{
	const char *only = only_processes(&opts->target);
	int fd, ret;

	if (!opts->unwind_tables || callchain_param.record_mode != CALLCHAIN_FP ||
	    !callchain_param.defer)
		return;

	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		if (errno == EACCES || errno == EPERM)
			pr_debug("Cannot open " DEVICE ", which takes CAP_PERFMON: %m\n");
		else if (errno == ENOENT || errno == ENXIO || errno == ENODEV)
			pr_debug("No " DEVICE "%s: " CUT "\n", unwind_tables__supported() ?
				 " here" : ", this kernel has no CONFIG_UNWIND_USER_TABLE");
		else
			pr_warning("Cannot open " DEVICE ": %m; " CUT ".\n"
				   "--no-unwind-tables goes without.\n");
		return;
	}
	close(fd);

	ret = start_service(only);
	if (!ret)
		ret = wait_for("watching\n", READY_MSECS);
	if (ret <= 0) {
		pr_warning("Cannot start " PROGRAM "(8): " CUT ".\n");
		pr_warning("Is it installed? With -v its own messages are shown.\n");
		unwind_tables__stop();
		return;
	}
	if (!only || *only)
		wait_for_tables();
}

/**
 * unwind_tables__prepare_workload - have tables made for a program before it starts
 * @name: of the program, as for execvp()
 *
 * They are for the files that are known before: the program, for a script its interpreter, the
 * dynamic linker and the libraries. Before each file the service looks whether a second of CPU time
 * has gone by; then, and after READY_MSECS by the clock in any case, the remaining tables are made
 * while the program runs.
 */
void unwind_tables__prepare_workload(const char *name)
{
	u64 begin = rdclock();
	int msecs;

	if (service < 0 || strchr(name, '\n'))
		return;

	if (send(service, name, strlen(name), MSG_NOSIGNAL) < 0 ||
	    send(service, "\n", 1, MSG_NOSIGNAL) < 0 ||
	    wait_for("done\n", READY_MSECS) <= 0) {
		pr_warning("Not all unwind tables for %s are ready; its first user stacks may be cut.\n",
			   name);
		return;
	}
	if (nr_left) {
		pr_warning("Unwind tables for %u file%s of %s are not ready yet; its first user stacks may be cut.\n",
			   nr_left, nr_left == 1 ? "" : "s", name);
		return;
	}
	msecs = (rdclock() - begin) / NSEC_PER_MSEC;
	if (msecs >= SILENT_MSECS)
		pr_info("Preparing unwind tables for %s took %d ms.\n", name, msecs);
	else
		pr_debug("Preparing unwind tables for %s took %d ms.\n", name, msecs);
}

/**
 * unwind_tables__stop - take them back
 */
void unwind_tables__stop(void)
{
	if (service < 0)
		return;
	close(service);
	service = -1;
}
