/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLES_MESSAGE_H
#define __UNWIND_TABLES_MESSAGE_H

/* Messages between processes that may have a file descriptor with them. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* No descriptor goes with it if @fd is negative. False: the message was not sent. */
bool message_send(int sock, const void *data, size_t len, int fd);

/*
 * The result of recv(), without -EINTR. @fd gets the descriptor, which is closed on exec, or
 * -1; the sender may have sent one with any message.
 */
ssize_t message_receive(int sock, void *data, size_t len, int *fd);

#endif /* __UNWIND_TABLES_MESSAGE_H */
