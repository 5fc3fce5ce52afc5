// SPDX-License-Identifier: GPL-2.0
/*
 * The walker: a walk waits for pages that the kernel supplies, and for nobody else. It
 * ends where a process supplies the page, where the task may be one that others wait
 * for, and where a signal is pending.
 */
#include <limits.h>
#include <linux/fuse.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "walker.h"
#include "unwind_harness.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER	57
#endif

/*
 * Three frames, the second in a page of its own, of a file:
 *
 *	walk.fp:	page, RA(0)
 *	page:		behind, RA(1)
 *	behind:		0, RA(2)
 */
FIXTURE(wait)
{
	unsigned long page;
	unsigned long behind;
};

FIXTURE_SETUP(wait)
{
	if (must_skip(_metadata, need_walker()))
		return;
	ASSERT_TRUE(walk_begin());
	ASSERT_TRUE(stack_from_file());
	self->page = walk.stack + STACK_SIZE - 8 * PAGE;
	self->behind = walk.stack + STACK_SIZE - 4 * PAGE;
	put_frame(walk.fp, self->page, RA(0));
	put_frame(self->page, self->behind, RA(1));
	put_frame(self->behind, 0, RA(2));
}

FIXTURE_TEARDOWN(wait)
{
	walk_end();
}

/*
 * Drop the page, after a walk through the other two frames: the state of their code is not
 * waited for, either.
 */
static bool drop(struct _test_data_wait *self)
{
	put_frame(walk.fp, 0, RA(0));
	if (!plain_has_frames(walk.fp, 1))
		return false;
	put_frame(walk.fp, self->page, RA(0));
	return !madvise((void *)self->page, PAGE, MADV_DONTNEED);
}

/* Is the walk cut before the page, for this reason? */
static bool is_cut(unsigned int end)
{
	struct probe p = probe_of(stub_plain, walk.sp, walk.fp, NR_GETPPID);
	struct up_rec *rec = sample(&p);

	WANT(A(stub_plain_ip), RA(0));
	return is_wanted(rec) && UT_MISC_END(rec->misc) == end;
}

TEST_F(wait, page_that_the_kernel_supplies_is_waited_for)
{
	ASSERT_TRUE(drop(self));
	EXPECT_TRUE(plain_has_frames(walk.fp, 3));
}

/* ------------------------------------------------------------------------ */
/* Pages that a process supplies						    */

/* Nobody serves it: a walk that waits does so for ever. */
static bool is_not_waited_for(int uffd, unsigned long page, int advice)
{
	struct pollfd asked = { .fd = uffd, .events = POLLIN };

	return !madvise((void *)page, PAGE, advice) && is_cut(UT_END_REMOTE) &&
	       !poll(&asked, 1, 0);
}

TEST_F(wait, missing_page_of_userfaultfd_ends_the_walk)
{
	int uffd = uffd_on(self->page, PAGE, UFFDIO_REGISTER_MODE_MISSING, 0);

	if (uffd < 0)
		SKIP(return, "needs userfaultfd");
	EXPECT_TRUE(is_not_waited_for(uffd, self->page, MADV_REMOVE));
}

/* The page is in the file, and not in the page tables. */
TEST_F(wait, minor_fault_of_userfaultfd_ends_the_walk)
{
	int uffd = uffd_on(self->page, PAGE, UFFDIO_REGISTER_MODE_MINOR,
			   UFFD_FEATURE_MINOR_SHMEM);

	if (uffd < 0)
		SKIP(return, "needs userfaultfd with minor faults");
	EXPECT_TRUE(is_not_waited_for(uffd, self->page, MADV_DONTNEED));
}

/* A file system with one file of one page, whose server is a child and ends when this does */
struct fuse {
	int fd;
	char dir[32];
	pid_t server;
	word contents[PAGE / sizeof(word)];
	int reads;
	/* Reads are answered when this is 0. */
	int held;
	uint32_t open_flags;
	/* By threads that are to wait for it */
	int fd_read, fd_map;
	int mapper;
};

#define FUSE_FILE	2

static struct fuse_attr fuse_attr_of(uint64_t node)
{
	struct fuse_attr attr = {
		.ino = node, .mode = S_IFDIR | 0755, .nlink = 1, .blksize = PAGE,
	};

	if (node == FUSE_FILE) {
		attr.mode = S_IFREG | 0644;
		attr.size = PAGE;
	}
	return attr;
}

static void fuse_reply(struct fuse *fuse, uint64_t unique, const void *data, size_t len,
		       int err)
{
	struct fuse_out_header out = {
		.len = sizeof(out) + len, .unique = unique, .error = -err,
	};
	struct iovec iov[] = { { &out, sizeof(out) }, { (void *)data, len } };

	if (writev(fuse->fd, iov, 2) != (ssize_t)out.len)
		fprintf(stderr, "# a reply is refused: %s\n", strerror(errno));
}

static void fuse_serve(struct fuse *fuse)
{
	union {
		struct fuse_in_header h;
		char buf[FUSE_MIN_READ_BUFFER + 65536];
	} in;
	struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
		.max_write = PAGE,
	};
	struct fuse_entry_out entry = {
		.nodeid = FUSE_FILE, .attr_valid = 3600, .attr = fuse_attr_of(FUSE_FILE),
	};
	struct fuse_open_out open = { .fh = 1 };
	struct fuse_attr_out attr = { .attr_valid = 3600 };

	/* Until it is unmounted */
	while (read(fuse->fd, &in, sizeof(in)) > 0) {
		switch (in.h.opcode) {
		case FUSE_INIT:
			fuse_reply(fuse, in.h.unique, &init, sizeof(init), 0);
			break;
		case FUSE_LOOKUP:
			fuse_reply(fuse, in.h.unique, &entry, sizeof(entry), 0);
			break;
		case FUSE_GETATTR:
			attr.attr = fuse_attr_of(in.h.nodeid);
			fuse_reply(fuse, in.h.unique, &attr, sizeof(attr), 0);
			break;
		case FUSE_OPEN:
			open.open_flags = fuse->open_flags;
			fuse_reply(fuse, in.h.unique, &open, sizeof(open), 0);
			break;
		case FUSE_READ:
			__atomic_add_fetch(&fuse->reads, 1, __ATOMIC_SEQ_CST);
			while (get_flag(&fuse->held))
				usleep(1000);
			fuse_reply(fuse, in.h.unique, fuse->contents, PAGE, 0);
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		case FUSE_FLUSH:
		case FUSE_RELEASE:
			fuse_reply(fuse, in.h.unique, NULL, 0, 0);
			break;
		default:
			fuse_reply(fuse, in.h.unique, NULL, 0, EOPNOTSUPP);
		}
	}
}

static int fuse_open(struct fuse *fuse, uint32_t flags)
{
	char path[64];

	fuse->open_flags = flags;
	snprintf(path, sizeof(path), "%s/page", fuse->dir);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Map the file over a page, whose contents it gets. Returns NULL on failure. */
static struct fuse *fuse_start(unsigned long page)
{
	struct fuse *fuse = mmap(NULL, sizeof(*fuse), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid();
	char options[80];
	void *map;
	int fd;

	if (fuse == MAP_FAILED)
		return NULL;
	memcpy(fuse->contents, (void *)page, PAGE);
	snprintf(fuse->dir, sizeof(fuse->dir), "/tmp/unwind-fuse-XXXXXX");
	fuse->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0",
		 fuse->fd);
	if (fuse->fd < 0 || !mkdtemp(fuse->dir) ||
	    mount("unwind", fuse->dir, "fuse", MS_NOSUID | MS_NODEV, options))
		return NULL;
	fuse->server = fork();
	if (!fuse->server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			fuse_serve(fuse);
		_exit(0);
	}
	close(fuse->fd);

	fd = fuse_open(fuse, 0);
	map = mmap((void *)page, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	close(fd);
	return A(map) == page ? fuse : NULL;
}

static void fuse_end(struct fuse *fuse, unsigned long page)
{
	munmap((void *)page, PAGE);
	umount2(fuse->dir, MNT_DETACH);
	waitpid(fuse->server, NULL, 0);
	rmdir(fuse->dir);
	munmap(fuse, sizeof(*fuse));
}

TEST_F(wait, page_of_a_fuse_file_ends_the_walk)
{
	struct fuse *fuse;

	if (must_skip(_metadata, need_root() ?: need_file("/dev/fuse")))
		return;
	fuse = fuse_start(self->page);
	ASSERT_NE(NULL, fuse);
	EXPECT_TRUE(is_cut(UT_END_REMOTE));
	EXPECT_EQ(0, fuse->reads);

	/* It counts like any other once the program itself has read it. */
	EXPECT_EQ(self->behind, __atomic_load_n((word *)self->page, __ATOMIC_RELAXED));
	EXPECT_NE(0, fuse->reads);
	EXPECT_TRUE(plain_has_frames(walk.fp, 3));
	fuse_end(fuse, self->page);
}

static void *fuse_read(void *arg)
{
	struct fuse *fuse = arg;
	char byte;

	pread(fuse->fd_read, &byte, 1, 0);
	return NULL;
}

/* Without the page cache, which is emptied first: a page that is being read is waited for. */
static void *fuse_map(void *arg)
{
	struct fuse *fuse = arg;

	set_flag(&fuse->mapper, gettid());
	munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fuse->fd_map, 0), PAGE);
	return NULL;
}

static bool is_blocked(int tid)
{
	char path[48], stat[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	read(fd, stat, sizeof(stat) - 1);
	close(fd);
	return strstr(stat, ") D ");
}

/* It would be for ever if the walk's task were the one that has to answer. */
TEST_F(wait, mmap_lock_of_who_waits_for_fuse_is_not_waited_for)
{
	pthread_t reader, mapper;
	struct fuse *fuse;
	void *room;

	if (must_skip(_metadata, need_root() ?: need_file("/dev/fuse")))
		return;
	fuse = fuse_start(walk.stack);
	ASSERT_NE(NULL, fuse);
	fuse->fd_map = fuse_open(fuse, FOPEN_DIRECT_IO | FOPEN_KEEP_CACHE);
	fuse->fd_read = fuse_open(fuse, FOPEN_KEEP_CACHE);
	ASSERT_TRUE(drop(self));
	/* From here on, malloc() must not have to ask the kernel for memory. */
	ASSERT_TRUE(mallopt(M_MMAP_MAX, 0) && mallopt(M_TRIM_THRESHOLD, INT_MAX));
	room = malloc(1 << 20);
	asm volatile("" : "+r" (room));
	free(room);

	fuse->held = 1;
	ASSERT_EQ(0, pthread_create(&reader, NULL, fuse_read, fuse));
	while (!__atomic_load_n(&fuse->reads, __ATOMIC_SEQ_CST))
		usleep(1000);
	ASSERT_EQ(0, pthread_create(&mapper, NULL, fuse_map, fuse));
	while (!get_flag(&fuse->mapper) || !is_blocked(fuse->mapper))
		usleep(1000);
	EXPECT_TRUE(plain_has_frames(walk.fp, 3));
	/* Nobody has answered yet. */
	EXPECT_TRUE(is_blocked(fuse->mapper));

	set_flag(&fuse->held, 0);
	pthread_join(reader, NULL);
	pthread_join(mapper, NULL);
	close(fuse->fd_map);
	close(fuse->fd_read);
	fuse_end(fuse, walk.stack);
}

/* ------------------------------------------------------------------------ */
/* Tasks that do not wait						    */

/* Tasks that do such work may be the ones that supply the page. */
TEST_F(wait, io_flusher_waits_for_no_page)
{
	ASSERT_TRUE(drop(self));
	ASSERT_EQ(0, prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0));
	EXPECT_TRUE(is_cut(UT_END_ABSENT));

	ASSERT_EQ(0, prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0));
	EXPECT_TRUE(plain_has_frames(walk.fp, 3));
}

/* The walk is made before the signal is delivered, and does not hold that up. */
TEST_F(wait, pending_signal_is_not_held_up)
{
	struct probe p = probe_kill(stub_plain, walk.sp, walk.fp, SIGUSR1);

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, handler_empty, SA_SIGINFO, restorer_rt));
	ASSERT_TRUE(drop(self));
	ASSERT_TRUE(sample_syscall(NR_TGKILL));
	EXPECT_TRUE(sample_is_wanted(&p));

	ASSERT_EQ(0, raw_sigaction(SIGUSR1, SIG_IGN, 0, NULL));
	want_frames(1, 2);
	EXPECT_TRUE(sample_is_wanted(&p));
}

TEST_HARNESS_MAIN
