// SPDX-License-Identifier: GPL-2.0
/*
 * Messages with a file descriptor, as unix(7) has them: SCM_RIGHTS.
 */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "message.h"

/* Padding has room for a second descriptor, which message_receive() does not let the kernel see. */
union control {
	char space[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

bool message_send(int sock, const void *data, size_t len, int fd)
{
	union control control = { };
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;

	if (fd >= 0) {
		message.msg_control = control.space;
		message.msg_controllen = sizeof(control.space);
		cmsg = CMSG_FIRSTHDR(&message);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	}
	return sendmsg(sock, &message, MSG_NOSIGNAL) == (ssize_t)len;
}

ssize_t message_receive(int sock, void *data, size_t len, int *fd)
{
	union control control;
	struct iovec iov = { .iov_base = data, .iov_len = len };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;
	ssize_t got;

	do {
		message.msg_control = control.space;
		message.msg_controllen = CMSG_LEN(sizeof(*fd));
		got = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	*fd = -1;
	cmsg = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(cmsg), sizeof(*fd));
	return got;
}
