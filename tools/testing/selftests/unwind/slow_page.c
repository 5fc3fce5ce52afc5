// SPDX-License-Identifier: GPL-2.0
/*
 * A page that the kernel reads from a disk, which takes as long as a test wants.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "slow_page.h"

/* As many devices as the driver makes by itself */
#define NR_DEVICES	16

const char *need_slow_disk(void)
{
	if (need_root())
		return need_root();
	return access("/dev/nbd0", F_OK) ? "needs /dev/nbd0 (CONFIG_BLK_DEV_NBD)" : NULL;
}

static void answer(struct slow_disk *disk, const struct nbd_request *request)
{
	struct nbd_reply reply = {
		.magic = htonl(NBD_REPLY_MAGIC), .cookie = request->cookie,
	};
	struct iovec iov[] = {
		{ &reply, sizeof(reply) },
		{ (char *)disk->data + be64toh(request->from), ntohl(request->len) },
	};

	if (writev(disk->socket, iov, 2) < 0)
		perror("# network block device");
}

static bool is_withheld(const struct slow_disk *disk,
			const struct nbd_request *request)
{
	uint64_t from = be64toh(request->from);

	return disk->withheld && from < disk->page + SLOW_PAGE_SIZE &&
	       from + ntohl(request->len) > disk->page;
}

/* Nobody writes to the disk, so that each request is one to read. */
static void *serve(void *arg)
{
	struct slow_disk *disk = arg;
	struct nbd_request request;

	while (recv(disk->socket, &request, sizeof(request), MSG_WAITALL) ==
	       sizeof(request)) {
		pthread_mutex_lock(&disk->lock);
		if (is_withheld(disk, &request)) {
			disk->waiting = request;
			set_flag(&disk->asked, disk->asked + 1);
		} else {
			answer(disk, &request);
		}
		pthread_mutex_unlock(&disk->lock);
	}
	return NULL;
}

/*
 * The device exists as long as this call lasts: until the process ends. Then the driver
 * wakes all waiters, in any process.
 */
static void *be_client(void *arg)
{
	struct slow_disk *disk = arg;

	ioctl(disk->fd, NBD_DO_IT);
	set_flag(&disk->ended, 1);
	return NULL;
}

/* A device that nobody else uses: it has no size. Its partitions are not looked for. */
static bool take_device(struct slow_disk *disk, int socket)
{
	uint64_t size;
	char path[32];
	int i;

	for (i = 0; i < NR_DEVICES; i++) {
		snprintf(path, sizeof(path), "/dev/nbd%d", i);
		disk->fd = open(path, O_RDONLY | O_CLOEXEC);
		if (disk->fd < 0)
			return false;
		if (!ioctl(disk->fd, BLKGETSIZE64, &size) && !size &&
		    !ioctl(disk->fd, NBD_SET_SOCK, socket))
			return true;
		close(disk->fd);
	}
	return false;
}

/*
 * From now on there is a disk that has the @size bytes at @data, which are not
 * copied: a number of pages.
 */
bool slow_disk_open(struct slow_disk *disk, const void *data, size_t size)
{
	uint64_t ready = 0;
	sigset_t all, old;
	int pair[2];
	bool ok;

	memset(disk, 0, sizeof(*disk));
	disk->data = data;
	disk->size = size;
	pthread_mutex_init(&disk->lock, NULL);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return false;
	disk->socket = pair[0];
	ok = take_device(disk, pair[1]);
	close(pair[1]);
	if (!ok || ioctl(disk->fd, NBD_SET_BLKSIZE, SLOW_PAGE_SIZE) ||
	    ioctl(disk->fd, NBD_SET_SIZE_BLOCKS, size / SLOW_PAGE_SIZE))
		return false;

	/* A signal would end the device. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ok = !pthread_create(&disk->server, NULL, serve, disk) &&
	     !pthread_create(&disk->client, NULL, be_client, disk);
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	while (ok && ready != size) {
		ok = !get_flag(&disk->ended) &&
		     !ioctl(disk->fd, BLKGETSIZE64, &ready);
		usleep(1000);
	}
	/* No page is read along with another: the driver's limit, then the file's */
	return ok && !ioctl(disk->fd, BLKRASET, 0) &&
	       !posix_fadvise(disk->fd, 0, 0, POSIX_FADV_NORMAL);
}

/*
 * From now on the page at @offset of the disk is slow. It must not be mapped in any
 * page table.
 */
bool slow_page_withhold(struct slow_disk *disk, uint64_t offset)
{
	pthread_mutex_lock(&disk->lock);
	disk->page = offset;
	disk->withheld = true;
	pthread_mutex_unlock(&disk->lock);
	return !posix_fadvise(disk->fd, offset, SLOW_PAGE_SIZE, POSIX_FADV_DONTNEED);
}

/* Wait until somebody waits for the page. */
bool slow_page_is_asked_for(struct slow_disk *disk)
{
	int i;

	for (i = 0; i < 60000 && !get_flag(&disk->asked); i++)
		usleep(1000);
	return get_flag(&disk->asked);
}

/* Let the waiters have the page now; it is not slow any more. */
void slow_page_supply(struct slow_disk *disk)
{
	pthread_mutex_lock(&disk->lock);
	if (disk->withheld && disk->asked)
		answer(disk, &disk->waiting);
	disk->withheld = false;
	pthread_mutex_unlock(&disk->lock);
}

/*
 * Put a slow page at @addr, in place of the present one. It has the contents at @data,
 * or zeroes if that is NULL.
 */
bool slow_page_map(struct slow_disk *disk, void *addr, const void *data)
{
	static const char zeroes[SLOW_PAGE_SIZE];

	return slow_disk_open(disk, data ?: zeroes, SLOW_PAGE_SIZE) &&
	       slow_page_withhold(disk, 0) &&
	       mmap(addr, SLOW_PAGE_SIZE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_FIXED, disk->fd, 0) == addr;
}
