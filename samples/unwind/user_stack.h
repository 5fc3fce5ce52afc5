/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _USER_STACK_H
#define _USER_STACK_H

/*
 * A record of user_stack.bpf.c for user_stack.c: a call, or a requested stack
 */
struct event {
	int			is_call;
	int			tid;
	unsigned long long	cookie;
	/* Bytes in ips, or a negative errno. 0 of a call: the stack comes later. */
	long			size;
	unsigned long long	ips[128];
};

#endif
