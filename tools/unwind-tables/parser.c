// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the table of one file, which may have been written to break its readers: a process for
 * each, which has only the file and memory for the table, and may do next to nothing.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "hash.h"
#include "parser.h"
#include "process.h"
#include "reader.h"
#include "unwind-table.h"
#include "user.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* The descriptors of a parser */
#define PARSER_IN	0
#define PARSER_OUT	1
/* MFD_CLOEXEC | MFD_NOEXEC_SEAL, which older C libraries do not know */
#define MEMFD_FLAGS	0x9
/* The user who owns nothing */
#define NOBODY		65534
/* After so long without CPU time, it is taken to wait for something else. */
#define IDLE_SECONDS	20

/* Of a filter of system calls */
#define LOAD(field)	((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
					offsetof(struct seccomp_data, field)))
#define RETURN(what)	((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what))
/* The next instruction is for this value, or for any other. */
#define IF(value)	((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1))
#define IF_NOT(value)	((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0))

/*
 * Allowed to a parser: reading its file, and writing its table. It cannot end its alarm either.
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

/* The C library would change the IDs of all threads, and there is one. */
static void be_nobody(void)
{
	if (!syscall(SYS_setgroups, 0, NULL) && !syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY))
		syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY);
}

/* The file can only make its own table wrong, or the parser end. */
static void confine(const struct parse *parse, pid_t reader)
{
	const struct rlimit limit = { parse->seconds, parse->seconds + 1 };

	setrlimit(RLIMIT_CPU, &limit);
	process_limit_memory(parser_bytes(parse->len), parser_bytes(parse->len));
	dup2(parse->file, PARSER_IN);
	dup2(parse->out, PARSER_OUT);
	/* FUSE refuses requests of users whom it does not know, even by a descriptor. */
	if (user_was_needed()) {
		user_become(reader, PARSER_OUT + 1);
	} else {
		process_close_from(PARSER_OUT + 1, -1);
		be_nobody();
	}
	if (process_limit_capabilities(0, 0))
		_exit(EPERM);
	/* Each change of credentials takes these away. */
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != reader)
		_exit(EPERM);
	filter_calls();
}

static bool write_all(const void *data, size_t len)
{
	size_t done;
	ssize_t n;

	for (done = 0; done < len; done += n) {
		n = write(PARSER_OUT, data + done, len - done);
		if (n <= 0)
			return false;
	}
	return true;
}

/*
 * The table, then its fingerprint: two files that have the same table may have it in common,
 * whatever else is in them.
 */
static void be_parser(const struct parse *parse, pid_t reader)
{
	struct unwind_table *table;
	const void *data;
	size_t len;
	__u64 print;
	int error;

	confine(parse, reader);
	error = unwind_table_from_file(PARSER_IN, parse->len, parse->stored, &table);
	if (error)
		_exit(-error);
	data = unwind_table_data(table, &len);
	print = hash_bytes(data, len);
	_exit(write_all(data, len) && write_all(&print, sizeof(print)) ? 0 : ENOMEM);
}

/* Its word counts if it makes sense. A user may have killed a process of his own. */
static enum outcome outcome_of(int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		return OUTCOME_SLOW;
	/* Other processes of nobody may kill it, and so may the kernel when memory is short. */
	if (!WIFEXITED(status))
		return user_was_needed() || WTERMSIG(status) == SIGKILL ||
		       WTERMSIG(status) == SIGTERM ? OUTCOME_IN_USE : OUTCOME_CRASHED;
	switch (WEXITSTATUS(status)) {
	case 0:
		return OUTCOME_DONE;
	case ENODATA:
	case ENOEXEC:
		return OUTCOME_NO_CFI;
	case ENOMEM:
	case EFBIG:
		return OUTCOME_NOT_PARSED;
	case E2BIG:
		return OUTCOME_COSTLY;
	default:
		return OUTCOME_CRASHED;
	}
}

/*
 * The work that a file makes is bounded, so a parser has the time that it needs, also where it
 * hardly ever gets a CPU. But it may not wait for the file system for long. Returns whether it
 * has ended.
 */
static bool wait_for_parser(pid_t pid)
{
	struct pollfd ended = { .events = POLLIN };
	__s64 used, last = 0;
	clockid_t clock;
	int idle = 0;

	ended.fd = syscall(SYS_pidfd_open, pid, 0);
	if (ended.fd < 0)
		return false;
	while (idle < IDLE_SECONDS && poll(&ended, 1, 1000) <= 0) {
		used = clock_getcpuclockid(pid, &clock) ? last : clock_ns(clock);
		idle = used > last ? 0 : idle + 1;
		last = used;
	}
	close(ended.fd);
	return ended.revents;
}

bool parser_run(struct parse *parse)
{
	const pid_t reader = getpid();
	struct rusage usage;
	int status;
	pid_t pid;

	parse->outcome = OUTCOME_NOT_PARSED;
	parse->out = memfd_create("unwind-table", MEMFD_FLAGS);
	pid = parse->out < 0 ? -1 : fork();
	parse->error = errno;
	if (pid < 0)
		return true;
	if (!pid)
		be_parser(parse, reader);
	*parse->child = pid;
	if (!wait_for_parser(pid))
		return false;
	while (wait4(pid, &status, 0, &usage) < 0)
		if (errno != EINTR)
			return true;
	*parse->child = 0;
	parse->build_ns = process_rusage_ns(&usage);
	parse->outcome = outcome_of(status);
	parse->error = WEXITSTATUS(status);
	return true;
}
