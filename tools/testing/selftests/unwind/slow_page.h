/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A page that the kernel reads from a disk, which takes as long as a test wants: the
 * disk is a network block device, and its server is the test. Unlike with userfaultfd
 * or FUSE, a page fault there waits for nobody but the kernel.
 */
#ifndef _SELFTESTS_UNWIND_SLOW_PAGE_H
#define _SELFTESTS_UNWIND_SLOW_PAGE_H

#include <linux/nbd.h>
#include <pthread.h>

#include "unwind_test.h"

#define SLOW_PAGE_SIZE	4096UL

/*
 * A disk, whose contents the kernel reads once and then has in its page cache. It
 * disappears with the process that has opened it; waiters for a page then get an
 * error. The struct must not be moved.
 */
struct slow_disk {
	/* To be mapped, also in children */
	int		fd;
	const char	*data;
	size_t		size;
	/* How often the slow page has been asked for */
	int		asked;

	/* The fields below are private. */
	int		socket;
	int		ended;
	bool		withheld;
	uint64_t	page;
	struct nbd_request waiting;
	pthread_mutex_t	lock;
	pthread_t	client;
	pthread_t	server;
};

const char *need_slow_disk(void);
bool slow_disk_open(struct slow_disk *disk, const void *data, size_t size);
bool slow_page_withhold(struct slow_disk *disk, uint64_t offset);
bool slow_page_is_asked_for(struct slow_disk *disk);
void slow_page_supply(struct slow_disk *disk);

/* A disk of one page */
bool slow_page_map(struct slow_disk *disk, void *addr, const void *data);

#endif /* _SELFTESTS_UNWIND_SLOW_PAGE_H */
