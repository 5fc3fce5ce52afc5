// SPDX-License-Identifier: GPL-2.0
/*
 * Keep the files of containers: when a container has ended, they are gone, and with them the
 * names of its functions. Files that are mapped while we record, and cannot be found here by
 * their names, are copied into the build-id cache at once.
 *
 * A file system may belong to a user, and never answer. So a process does the copying, with a
 * side band thread of its own. It ends with the recording, and nobody waits for it for long. It
 * has no file open except while it copies one: that would keep the file system mounted.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <internal/lib.h>
#include <linux/capability.h>
#include <linux/perf_event.h>

#include "build-id.h"
#include "cap.h"
#include "debug.h"
#include "event.h"
#include "evlist.h"
#include "keep-files.h"
#include "symbol.h"
#include "target.h"

/* Bytes of all files together */
#define MAX_BYTES	(1024ULL << 20)
/* For the first answer, and for copying when the recording has ended */
#define WAIT_MSECS	5000
/* The process's end of the socket */
#define SOCKET		3
/* Of /proc/self/ns/user, outside of all user namespaces */
#define INIT_USER_NS	0xEFFFFFFDU

#ifndef SYS_close_range
#define SYS_close_range	436
#endif

/* Our end, and the process that has the other one */
static int keeper = -1;
static pid_t keeper_pid;

/* In the process: bytes that may still be copied */
static u64 left = MAX_BYTES;

static int keep_file(union perf_event *event, void *data __maybe_unused)
{
	const struct perf_record_mmap2 *map = &event->mmap2;
	struct build_id bid, found;
	struct stat st, here;
	char path[64];

	if (map->header.type != PERF_RECORD_MMAP2 || map->filename[0] != '/' ||
	    !(map->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID))
		return 0;

	scnprintf(path, sizeof(path), "/proc/%u/map_files/%" PRI_lx64 "-%" PRI_lx64, map->pid,
		  map->start, map->start + map->len);
	if (stat(path, &st) || !S_ISREG(st.st_mode) || (u64)st.st_size > left ||
	    (!stat(map->filename, &here) && here.st_dev == st.st_dev && here.st_ino == st.st_ino))
		return 0;

	/* The process may have mapped another file there meanwhile. */
	build_id__init(&bid, map->build_id, map->build_id_size);
	if (filename__read_build_id(path, &found) <= 0 || found.size != bid.size ||
	    memcmp(found.data, bid.data, bid.size))
		return 0;

	if (build_id_cache__add_mapped(&bid, map->filename, path) > 0)
		left -= st.st_size;
	return 0;
}

static void be_keeper(int end, struct target *target, bool inherit)
{
	const struct rlimit limit = { MAX_BYTES, MAX_BYTES };
	struct perf_event_attr attr = {
		.type		  = PERF_TYPE_SOFTWARE,
		.config		  = PERF_COUNT_SW_DUMMY,
		.size		  = sizeof(attr),
		.exclude_kernel	  = 1,
		.inherit	  = inherit,
		.mmap		  = 1,
		.mmap2		  = 1,
		.build_id	  = 1,
		.sample_id_all	  = 1,
		.watermark	  = 1,
		.wakeup_watermark = 1,
	};
	struct pollfd ended = { .fd = SOCKET, .events = POLLIN };
	struct evlist *evlist = evlist__new();
	pid_t self = getpid();
	int null;

	/* Others wait until our descriptors are closed. */
	null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    (!verbose && dup2(null, STDERR_FILENO) < 0) || dup2(end, SOCKET) < 0)
		_exit(1);
	syscall(SYS_close_range, SOCKET + 1, ~0U, 0);
	/* A file may grow while it is copied. */
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	/* Nothing is to be downloaded. */
	unsetenv("DEBUGINFOD_URLS");

	/* The thread also polls the socket, so that it does not sleep when it is to end. */
	if (!evlist || evlist__add_sb_event(evlist, &attr, keep_file, NULL) ||
	    evlist__add_pollfd(evlist, SOCKET) < 0 || evlist__start_sb_thread(evlist, target) ||
	    write(SOCKET, &self, sizeof(self)) != sizeof(self))
		_exit(1);
	while (poll(&ended, 1, -1) < 0 && errno == EINTR)
		;
	evlist__stop_sb_thread(evlist);
	_exit(0);
}

/*
 * The links to mapped files take CAP_SYS_ADMIN. Buffers count against the memory that a user may
 * lock, and the recording needs all of it, except with CAP_IPC_LOCK. The root user of a user
 * namespace has neither as far as the kernel is concerned.
 */
static bool may_keep_files(void)
{
	bool used_root;
	struct stat ns;

	return perf_cap__capable(CAP_SYS_ADMIN, &used_root) &&
	       perf_cap__capable(CAP_IPC_LOCK, &used_root) &&
	       !stat("/proc/self/ns/user", &ns) && ns.st_ino == INIT_USER_NS;
}

static bool wait_for_keeper(void)
{
	struct pollfd fd = { .fd = keeper, .events = POLLIN };

	return poll(&fd, 1, WAIT_MSECS) > 0;
}

/**
 * keep_files__start - copy files that cannot be found by their names
 * @target: the tasks that are going to be recorded
 * @workload: the process that is going to be started, or 0
 * @inherit: its children, too
 *
 * If that is refused, as for ordinary users, everything else works as well.
 */
void keep_files__start(const struct target *target, pid_t workload, bool inherit)
{
	struct target own = *target;
	sighandler_t handler;
	int ends[2];
	char str[16];
	pid_t pid;

	scnprintf(str, sizeof(str), "%d", workload);
	if (workload)
		own.pid = str;
	if (!may_keep_files() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return;

	/* It is no child of ours: when one ends, the recording does. */
	handler = signal(SIGCHLD, SIG_DFL);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		/* After ^C, the files of the recording are still wanted. */
		setsid();
		if (!fork())
			be_keeper(ends[1], &own, inherit);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	signal(SIGCHLD, handler);
	close(ends[1]);

	keeper = ends[0];
	if (pid < 0 || !wait_for_keeper() ||
	    read(keeper, &keeper_pid, sizeof(keeper_pid)) != sizeof(keeper_pid)) {
		pr_debug("Files of containers that end are not kept.\n");
		close(keeper);
		keeper = -1;
	}
}

/**
 * keep_files__stop - have the last mapped files copied, too
 */
void keep_files__stop(void)
{
	if (keeper < 0)
		return;
	shutdown(keeper, SHUT_WR);
	if (!wait_for_keeper()) {
		pr_warning("Not all files of containers could be kept.\n");
		kill(keeper_pid, SIGKILL);
	}
	close(keeper);
	keeper = -1;
}
