/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _OWN_STACK_H
#define _OWN_STACK_H

#include <linux/types.h>

#define OWN_STACK_MAX	128

/*
 * The frames that own_stack_take() saw: its own frame, its caller's, ...;
 * @error is 0 or a negative errno.
 */
struct own_stack {
	int		error;
	unsigned int	nr;
	__u64		ips[OWN_STACK_MAX];
};

extern struct own_stack own_stack;

void own_stack_take(void);

#endif
