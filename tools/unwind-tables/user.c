// SPDX-License-Identifier: GPL-2.0
/*
 * Files that may be seen by a user and not by root.
 *
 * FUSE lets only its user look at a file, or with allow_other only the user namespace where it was
 * mounted; root may not even ask for the size. Examples are AppImages, sshfs, and the containers
 * of podman without root. NFS takes root for nobody. If a file is refused to the reader, a child
 * asks for it that becomes the user of the process which has the file mapped, in the user
 * namespace of that process.
 *
 * A user may stop and kill his own processes. So the child answers one question only: it has just
 * the descriptors for that, no capabilities, and nobody may trace it or read its memory, which has
 * a copy of the reader's. If it is stopped, the reader does not answer, and is killed, and the
 * child with it, which takes CAP_KILL. If the file system has taken a request and does not answer,
 * nobody can end the child: until that has ended, the user gets no more tables.
 *
 * Can a user have a false table made so, for files that others run? A file system of his may say
 * of a file what it likes, and show other contents to each reader. But others who map a file from
 * there run his code, and the table is attached to nothing else: the kernel says which file the
 * process has mapped, this process opens that before it asks anybody, and for a table the child
 * must have opened the same inode. He could only gain by naming another owner, who would have to
 * pay; so he counts as the owner of each file that had to be asked for in his name. Other file
 * systems, such as NFS, show the same to all readers.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reader.h"
#include "message.h"
#include "user.h"
#include "process.h"

/* The descriptors of the child, and no others */
#define FILE_FD		0
#define SOCKET_FD	1
#define USERNS_FD	2
/* Where it finds these, by which FILE_FD is opened */
#define FDS_FD		3

static struct {
	int proc;
	__u32 uid;
	__u32 gid;
	bool needed;
	pid_t *child;
	/* The namespace of the process, if it is not ours, or -1; and the user who may enter it */
	bool looked;
	int userns;
	__u32 owner;
} user = { .proc = -1, .userns = -1, .uid = OWNER_UNKNOWN };

/* The answer to the question that the child was forked for */
struct answer {
	int error;
	struct stat st;
};

void user_forget(void)
{
	if (user.proc >= 0)
		close(user.proc);
	if (user.userns >= 0)
		close(user.userns);
	user.proc = -1;
	user.userns = -1;
	user.uid = OWNER_UNKNOWN;
	user.looked = false;
	user.needed = false;
}

void user_set(int proc, const struct owner *owner, pid_t *child)
{
	user_forget();
	user.child = child;
	user.proc = proc;
	user.uid = owner->uid;
	user.gid = owner->gid;
}

bool user_was_needed(void)
{
	return user.needed;
}

/* ------------------------------------------------------------------------ */
/* User namespaces							      */

static void find_userns(void)
{
	__u64 outermost;

	user.looked = true;
	user.userns = openat(user.proc, "ns/user", O_RDONLY | O_CLOEXEC);
	if (user.userns >= 0 && !owner_of_namespace(user.userns, &user.owner, &outermost)) {
		close(user.userns);
		user.userns = -1;
	}
}

/* ------------------------------------------------------------------------ */
/* The child								      */

static void drop_capabilities(void)
{
	if (process_limit_capabilities(0, 0))
		_exit(1);
}

/*
 * FUSE wants all IDs to be the user's. The C library would change them in all threads, and there
 * is one. Only the owner of a user namespace can enter it without capabilities.
 */
void user_become(pid_t parent, int first)
{
	bool enters = user.userns >= 0;
	__u32 ids[3];

	/* Between two changes of credentials, the user may be able to get at open descriptors. */
	process_close_from(first, user.userns);
	/* The first change of an ID would set this to fs.suid_dumpable. */
	prctl(PR_SET_DUMPABLE, 0);
	if (syscall(SYS_setgroups, 0, NULL) ||
	    syscall(SYS_setresgid, user.gid, user.gid, user.gid) ||
	    syscall(SYS_setresuid, user.uid, enters ? user.owner : user.uid, user.uid))
		_exit(1);
	drop_capabilities();
	/* setns() gives all capabilities there. */
	if (enters && !setns(user.userns, CLONE_NEWUSER))
		drop_capabilities();
	/* The user may have another number there, or none; then it stays the owner. */
	if (enters && !syscall(SYS_getresuid, &ids[0], &ids[1], &ids[2]))
		syscall(SYS_setresuid, -1, ids[0], -1);
	prctl(PR_SET_DUMPABLE, 0);
	/* Each change of credentials takes that away. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (enters)
		close(user.userns);
}

/* @fds: /proc/self/fd */
static int open_again(int fds, int fd)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", fd);
	fd = openat(fds, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void be_user(int file, int sock, bool to_read, pid_t parent)
{
	struct answer answer = { };
	const int fds = process_open_proc("self/fd", O_PATH | O_DIRECTORY);
	int fd = -1, i;
	/* None of these is at a number that another one is moved to. */
	const int have[] = { fcntl(file, F_DUPFD, 10), fcntl(sock, F_DUPFD, 10),
			     user.userns < 0 ? -1 : fcntl(user.userns, F_DUPFD, 10),
			     fcntl(fds, F_DUPFD, 10) };

	for (i = FILE_FD; i <= FDS_FD; i++)
		if (have[i] < 0)
			close(i);
		else
			dup2(have[i], i);
	if (user.userns >= 0)
		user.userns = USERNS_FD;
	user_become(parent, FDS_FD + 1);
	if (to_read) {
		fd = open_again(FDS_FD, FILE_FD);
		answer.error = fd < 0 ? fd : 0;
	} else if (fstat(FILE_FD, &answer.st)) {
		answer.error = -errno;
	}
	_exit(!message_send(SOCKET_FD, &answer, sizeof(answer), fd));
}

/* ------------------------------------------------------------------------ */
/* The asking side							      */

/* The child's answer, if it makes sense: 0 or a descriptor, which only comes with 0 */
static int receive_answer(int sock, bool to_read, struct stat *st)
{
	struct answer answer;
	int fd;
	ssize_t len = message_receive(sock, &answer, sizeof(answer), &fd);

	if (len == sizeof(answer) && answer.error < 0 && answer.error >= -4095 && fd < 0)
		return answer.error;
	if (len == sizeof(answer) && !answer.error && (to_read ? fd >= 0 : fd < 0)) {
		*st = answer.st;
		return to_read ? fd : 0;
	}
	/* It was killed, before it had the user's IDs or afterwards. */
	if (fd >= 0)
		close(fd);
	return -EAGAIN;
}

static int ask(int file, bool to_read, struct stat *st)
{
	const pid_t self = getpid();
	int sockets[2], answer;
	pid_t pid;

	if (user.uid == OWNER_UNKNOWN)
		return -EACCES;
	if (!user.looked)
		find_userns();
	if (user.uid == getuid() && user.gid == getgid() && user.userns < 0)
		return -EACCES;
	user.needed = true;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	pid = fork();
	if (!pid)
		be_user(file, sockets[1], to_read, self);
	answer = -errno;
	close(sockets[1]);
	if (pid > 0) {
		*user.child = pid;
		answer = receive_answer(sockets[0], to_read, st);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		*user.child = 0;
	}
	close(sockets[0]);
	return answer;
}

static bool is_refusal(int error)
{
	return error == -EACCES || error == -EPERM;
}

int user_stat(int fd, struct stat *st)
{
	int error = fstat(fd, st) ? -errno : 0;

	if (!is_refusal(error))
		return error;
	error = ask(fd, false, st);
	if (!error)
		st->st_uid = user.uid;
	return error;
}

int user_open(int fd)
{
	const int fds = process_open_proc("self/fd", O_PATH | O_DIRECTORY);
	int opened = fds < 0 ? -errno : open_again(fds, fd);
	struct stat none;

	if (fds >= 0)
		close(fds);
	return is_refusal(opened) ? ask(fd, true, &none) : opened;
}
