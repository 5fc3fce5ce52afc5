// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables whose pages are missing, late or changing.
 */
#include <pthread.h>
#include <signal.h>

#include "sframe_code.h"
#include "slow_page.h"
#include "unwind_harness.h"

static struct area area;

FIXTURE(slow)
{
	int fd;
};

FIXTURE_SETUP(slow)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&area, 3, true, true));
	self->fd = memfd_create("table", 0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ((ssize_t)TABLE_SIZE, write(self->fd, (void *)area.table, TABLE_SIZE));
	ASSERT_TRUE(map_fd(area.table, TABLE_SIZE, PROT_READ, MAP_SHARED, self->fd, 0));
}

FIXTURE_TEARDOWN(slow) {}

TEST_F(slow, dropped_pages_leave_it)
{
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, madvise((void *)area.table, TABLE_SIZE, MADV_DONTNEED));
	EXPECT_TRUE(is_exact(&area.code));
	ASSERT_EQ(0, madvise((void *)area.table, TABLE_SIZE, MADV_DONTNEED));
	EXPECT_TRUE(is_exact(&area.code));
}

TEST_F(slow, truncated_file_is_a_passing_fault)
{
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, ftruncate(self->fd, 0));
	EXPECT_TRUE(is_cut(&area.code));
	ASSERT_EQ(TABLE_SIZE, (unsigned long)pwrite(self->fd, build.mem, TABLE_SIZE, 0));
	EXPECT_TRUE(is_exact(&area.code));
}

TEST_F(slow, punched_hole_gives_the_table_up)
{
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, fallocate(self->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       0, TABLE_SIZE));
	EXPECT_TRUE(is_without_table(&area.code));
}

/*
 * Where the frame pointer ceases to be one, a stack says anything. No walk takes
 * the mmap lock for that: another thread may hold it for long.
 */
TEST_F(slow, address_that_is_no_code_costs_no_lock)
{
	u64 words[] = { 0, 0x1000, 0 };
	uint64_t ips[MAX_IPS];

	if (must_skip(_metadata, need_tracepoint("mmap_lock", "mmap_lock_start_locking")))
		return;
	words[0] = (u64)&words[2];
	/* All else has been looked up, and has been faulted in. */
	EXPECT_EQ(1, stack_of_words(words, ips));

	trace_clear();
	ASSERT_EQ(0, trace_event_of("mmap_lock", "mmap_lock_start_locking", true));
	EXPECT_EQ(1, stack_of_words(words, ips));
	EXPECT_EQ(1, stack_of_words(words, ips));
	trace_event_of("mmap_lock", "mmap_lock_start_locking", false);
	EXPECT_EQ(0, trace_count_of_task("mmap_lock_start_locking"));
	trace_clear();
}

/* The table was there when it was added, and is read again for the walk. */
TEST_F(slow, walk_that_waits_for_its_table_can_be_killed)
{
	void *table = (void *)area.table;
	struct slow_disk disk;
	uint64_t ips[MAX_IPS];
	int status, i;
	pid_t pid;

	if (must_skip(_metadata, need_slow_disk()))
		return;
	ASSERT_TRUE(slow_disk_open(&disk, build.mem, PAGE));
	ASSERT_TRUE(map_fd(area.table, PAGE, PROT_READ, MAP_PRIVATE, disk.fd, 0));
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, madvise(table, PAGE, MADV_DONTNEED));
	ASSERT_TRUE(slow_page_withhold(&disk, 0));

	pid = fork();
	if (!pid) {
		stack_of((void *)area.code.top, ips);
		_exit(0);
	}
	ASSERT_TRUE(slow_page_is_asked_for(&disk));
	usleep(100000);
	/* It does not come back by itself. */
	EXPECT_EQ(0, waitpid(pid, &status, WNOHANG));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	for (i = 0; i < 100 && waitpid(pid, &status, WNOHANG) != pid; i++)
		usleep(50000);
	ASSERT_LT(i, 100);
	EXPECT_TRUE(WIFSIGNALED(status));
}

/* A thread writes nonsense into a table while it is used. */
static int stop_scribbling;

static void *scribble(void *arg)
{
	u8 *table = (u8 *)area.table;
	unsigned int seed = 1;

	while (!get_flag(&stop_scribbling)) {
		unsigned int at = SFRAME_BUILD_HEADER + rand_r(&seed) % 200;

		table[at] = rand_r(&seed);
		if (!(rand_r(&seed) % 4))
			memcpy(table, build.mem, PAGE);
	}
	return NULL;
}

TEST_F(slow, table_that_changes_all_the_time_does_no_harm)
{
	uint64_t ips[MAX_IPS];
	pthread_t thread;
	int i, nr;

	ASSERT_TRUE(area_make(&area, 3, true, true));
	ASSERT_EQ(0, pthread_create(&thread, NULL, scribble, NULL));
	for (i = 0; i < 300; i++) {
		area_add(&area);
		nr = stack_of((void *)area.code.top, ips);
		EXPECT_LE(1, nr);
		if (nr > 0)
			EXPECT_EQ(area.code.ips[0], ips[0]);
		remove_table(area.table);
	}
	set_flag(&stop_scribbling, 1);
	ASSERT_EQ(0, pthread_join(thread, NULL));
}

TEST_HARNESS_MAIN
