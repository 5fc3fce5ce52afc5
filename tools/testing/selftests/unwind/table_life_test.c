// SPDX-License-Identifier: GPL-2.0
/*
 * How long a table is used: it is inserted and removed while the process runs, with its
 * descriptor or its file; and which of several applies.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mount.h>

#include "sframe_image.h"
#include "table_lib.h"
#include "unwind_harness.h"

FIXTURE(life)
{
	struct code_file file;
	struct table *table;
	int fd;
	int nr;
};

FIXTURE_SETUP(life)
{
	self->fd = -1;
	if (must_skip(_metadata, need_tables()))
		return;
	ASSERT_TRUE(tables_start("life", &self->file, &self->table, &self->fd));
	plain_table(self->table, 0);
	self->nr = dev_make_table(self->fd, self->table);
	ASSERT_LT(0, self->nr);
}

FIXTURE_TEARDOWN(life)
{
	if (self->fd >= 0)
		tables_end(&self->file, self->table, self->fd);
}

/* Another descriptor with a table of its own, of that number */
static int other_user(struct _test_data_life *self, unsigned int n)
{
	int fd = dev_open();

	if (fd >= 0 && plain_use(fd, n, &self->file) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Warm: all that can be remembered is. */
static bool warm(const void *mem, unsigned int n)
{
	return walks_plain(mem, n) && walks_plain(mem, n) && walks_plain(mem, n);
}

static bool warm_by_fp(const void *mem)
{
	return walks_by_fp(mem) && walks_by_fp(mem);
}

static int attach(struct _test_data_life *self)
{
	return file_attach(self->fd, self->nr, &self->file);
}

static bool attach_and_warm(struct _test_data_life *self)
{
	return !attach(self) && warm(self->file.mem, 0);
}

/* Drop the table, and make one that is not attached to any file. */
static bool renew(struct _test_data_life *self)
{
	if (dev_drop(self->fd, self->nr))
		return false;
	self->nr = dev_make_table(self->fd, self->table);
	return self->nr > 0;
}

/* ------------------------------------------------------------------------ */
/* Coming and going							      */

TEST_F(life, table_counts_from_the_next_walk_on)
{
	EXPECT_TRUE(warm_by_fp(self->file.mem));
	ASSERT_TRUE(attach_and_warm(self));
}

TEST_F(life, process_that_was_walked_before_the_device_was_open)
{
	int fd;

	/* In the tests nobody else has it. */
	close(self->fd);
	EXPECT_TRUE(warm_by_fp(self->file.mem));
	fd = dev_open();
	EXPECT_TRUE(walks_by_fp(self->file.mem));
	ASSERT_LT(0, plain_use(fd, 0, &self->file));
	EXPECT_TRUE(warm(self->file.mem, 0));
	close(fd);
	EXPECT_TRUE(walks_by_fp(self->file.mem));
	self->fd = other_user(self, 3);
	ASSERT_LE(0, self->fd);
	EXPECT_TRUE(warm(self->file.mem, 3));
}

TEST_F(life, nothing_of_a_dropped_table_is_left)
{
	int round;

	for (round = 0; round < 4; round++) {
		self->nr = plain_use(self->fd, round, &self->file);
		ASSERT_LT(0, self->nr);
		EXPECT_TRUE(warm(self->file.mem, round));
		ASSERT_EQ(0, dev_drop(self->fd, self->nr));
		EXPECT_TRUE(walks_by_fp(self->file.mem));
	}
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
}

/* Code that it does not cover is remembered, too. */
TEST_F(life, nothing_of_what_a_dropped_table_did_not_cover_is_left)
{
	struct table *t = self->table;
	int nr;

	table_start(t);
	table_row(t, 0, NOT_COVERED);
	table_row(t, 8 * PAGE, UNKNOWN);
	table_end(t, 9 * PAGE);
	nr = file_use(self->fd, t, &self->file);
	ASSERT_LT(0, nr);
	EXPECT_TRUE(warm_by_fp(self->file.mem));
	ASSERT_EQ(0, dev_drop(self->fd, nr));
	EXPECT_TRUE(walks_by_fp(self->file.mem));
	ASSERT_TRUE(attach_and_warm(self));
}

TEST_F(life, table_goes_when_the_last_descriptor_is_closed)
{
	int second;

	ASSERT_TRUE(attach_and_warm(self));
	second = dup(self->fd);
	close(self->fd);
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
	close(second);
	EXPECT_TRUE(walks_by_fp(self->file.mem));
	self->fd = dev_open();
}

/* In a child, for its parent */
static bool attaches_to_parent(void *arg)
{
	struct _test_data_life *self = arg;
	int fd = dev_open(), nr;

	plain_table(self->table, 2);
	nr = dev_make_table(fd, self->table);
	return nr >= 0 && !attach_as(fd, nr, getppid(), self->file.mem, &self->file);
}

TEST_F(life, table_goes_with_a_holder_that_is_killed)
{
	pid_t pid = child_that_waits(attaches_to_parent, self);

	ASSERT_LT(0, pid);
	EXPECT_TRUE(warm(self->file.mem, 2));
	ASSERT_TRUE(child_kill(pid));
	EXPECT_TRUE(walks_by_fp(self->file.mem));
}

TEST_F(life, next_table_takes_over_when_the_first_one_goes)
{
	int first, second, third;

	first = other_user(self, 1);
	second = other_user(self, 2);
	third = other_user(self, 3);
	ASSERT_LE(0, third);
	EXPECT_TRUE(warm(self->file.mem, 1));
	/* Removing an unused one goes unnoticed. */
	close(second);
	EXPECT_TRUE(warm(self->file.mem, 1));
	close(first);
	EXPECT_TRUE(warm(self->file.mem, 3));
	first = other_user(self, 4);
	EXPECT_TRUE(warm(self->file.mem, 3));
	close(third);
	EXPECT_TRUE(warm(self->file.mem, 4));
	close(first);
	EXPECT_TRUE(walks_by_fp(self->file.mem));
}

/* ------------------------------------------------------------------------ */
/* The file								      */

TEST_F(life, all_mappings_of_a_file_have_its_table)
{
	struct code_file second = self->file, third;

	ASSERT_EQ(0, attach(self));
	ASSERT_TRUE(file_map(&second));
	EXPECT_TRUE(warm(second.mem, 0));
	/* By another name, too */
	snprintf(third.path, sizeof(third.path), "%s", test_path("life.link"));
	ASSERT_EQ(0, link(self->file.path, third.path));
	ASSERT_TRUE(file_map(&third));
	EXPECT_TRUE(warm(third.mem, 0));
	ASSERT_EQ(0, chmod(third.path, 0700));
	ASSERT_EQ(0, unlink(third.path));
	file_unmap(&third);
	ASSERT_TRUE(file_map_over(&self->file, third.mem));
	EXPECT_TRUE(warm(third.mem, 0));
	/* It is not that of the mapping it was attached by. */
	file_unmap(&self->file);
	EXPECT_TRUE(warm(second.mem, 0));
	self->file = second;
	munmap(third.mem, FILE_PAGES * PAGE);
}

/* Mappings of two files */
#define MANY	60

/* Map this file once more. */
static u8 *map_once_more(const struct code_file *file)
{
	struct code_file f = *file;

	if (!file_map(&f))
		return NULL;
	close(f.fd);
	return f.mem;
}

TEST_F(life, mappings_that_come_and_go_in_any_order_are_told_apart)
{
	struct code_file other, *files[] = { &self->file, &other };
	unsigned int numbers[] = { 0, 5 }, which[MANY], i, at, round;
	u8 *mem[MANY];

	ASSERT_EQ(0, attach(self));
	ASSERT_LT(0, plain_other(self->fd, numbers[1], &other));
	for (i = 0; i < MANY; i++) {
		which[i] = i % 2;
		mem[i] = map_once_more(files[which[i]]);
		ASSERT_NE(NULL, mem[i]);
	}
	for (round = 0; round < 6; round++) {
		for (i = 0; i < MANY; i++) {
			at = i * 37 % MANY;
			EXPECT_TRUE(walks_plain(mem[at], numbers[which[at]]));
		}
		/* A third goes; then the other file is there. */
		for (i = 0; i < MANY; i++) {
			at = i * 23 % MANY;
			if (at % 3 == round % 3)
				munmap(mem[at], FILE_PAGES * PAGE);
		}
		for (i = round % 3; i < MANY; i += 3) {
			which[i] ^= 1;
			ASSERT_TRUE(file_map_over(files[which[i]], mem[i]));
		}
	}
	for (i = 0; i < MANY; i++)
		munmap(mem[i], FILE_PAGES * PAGE);
	file_end(&other);
}

TEST_F(life, file_that_is_not_mapped_meanwhile_keeps_its_table)
{
	struct code_file *f = &self->file;

	ASSERT_TRUE(attach_and_warm(self));
	file_unmap(f);
	ASSERT_TRUE(file_map(f));
	EXPECT_TRUE(warm(f->mem, 0));
	EXPECT_EQ(1, dev_info(self->fd, "attached"));
}

TEST_F(life, file_of_another_name_and_other_processes_have_it)
{
	struct code_file f = self->file;

	ASSERT_EQ(0, attach(self));
	/* The mapping that came with the fork, and one of its own */
	EXPECT_EQ(0, IN_CHILD(!warm(f.mem, 0) || !file_map(&f) || !warm(f.mem, 0)));
}

enum change { WRITE, APPEND, TRUNCATE, TOUCH };

static const struct timespec long_ago[2] = { { 1000, 5 }, { 1000, 5 } };

static bool change_file(const char *path, enum change change)
{
	bool ok;
	int fd;

	if (change == TRUNCATE)
		return !truncate(path, FILE_PAGES * PAGE - 1);
	if (change == TOUCH)
		return !utimensat(AT_FDCWD, path, long_ago, 0);
	/* Time goes by in ticks. */
	usleep(20000);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok = pwrite(fd, "\x90", 1, change == WRITE ? 0 : FILE_PAGES * PAGE) == 1;
	close(fd);
	return ok;
}

/* Processes that map it from then on have other code. */
TEST_F(life, changed_file_has_no_table_where_it_is_mapped_anew)
{
	enum change change;

	for (change = WRITE; change <= TOUCH; change++) {
		struct code_file f, anew;

		ASSERT_TRUE(file_make(&f, test_path("changed"), 0xcc));
		ASSERT_EQ(0, file_attach(self->fd, self->nr, &f));
		EXPECT_TRUE(warm(f.mem, 0));
		ASSERT_TRUE(change_file(f.path, change));
		anew = f;
		ASSERT_TRUE(file_map(&anew));
		EXPECT_TRUE(walks_by_fp(anew.mem)) {
			TH_LOG("change %d", change);
		}
		/* Its old contents have no table any more. */
		EXPECT_TRUE(walks_by_fp(f.mem));
		EXPECT_EQ(0, dev_info(self->fd, "attached"));
		EXPECT_EQ(-ESTALE, file_attach(self->fd, self->nr, &f));
		/* Its new contents can have another one. */
		EXPECT_EQ(0, file_attach(self->fd, self->nr, &anew));
		EXPECT_TRUE(warm(anew.mem, 0));
		file_unmap(&anew);
		file_end(&f);
	}
}

/* Nor where it is mapped again in its own place, with or without something else in between */
TEST_F(life, changed_file_has_no_table_in_its_own_place)
{
	enum change change;
	int gap;

	for (change = WRITE; change <= TOUCH; change++) {
		for (gap = 0; gap < 2; gap++) {
			struct code_file f;

			ASSERT_TRUE(file_make(&f, test_path("changed"), 0xcc));
			ASSERT_EQ(0, file_attach(self->fd, self->nr, &f));
			EXPECT_TRUE(warm(f.mem, 0));
			if (gap)
				ASSERT_TRUE(map_over((unsigned long)f.mem,
						     FILE_PAGES * PAGE, PROT_NONE));
			ASSERT_TRUE(change_file(f.path, change));
			ASSERT_TRUE(file_map_over(&f, f.mem));
			EXPECT_TRUE(warm_by_fp(f.mem)) {
				TH_LOG("change %d, gap %d", change, gap);
			}
			EXPECT_EQ(0, dev_info(self->fd, "attached"));
			file_end(&f);
			ASSERT_TRUE(renew(self));
		}
	}
}

/* The state of the mapping is from before the change, and no mapping changes since. */
TEST_F(life, file_that_was_touched_in_its_place_gets_a_table)
{
	struct code_file *f = &self->file;
	struct stack s;
	struct trace t;

	ASSERT_TRUE(plain_stack(&s, f->mem));
	table_walk(&s, &t);
	table_walk(&s, &t);
	EXPECT_TRUE(is_by_fp(&t, f->mem));
	ASSERT_TRUE(change_file(f->path, TOUCH));
	ASSERT_EQ(0, stat(f->path, &f->st));
	ASSERT_EQ(0, attach(self));
	table_walk(&s, &t);
	EXPECT_TRUE(is_plain(&t, f->mem, 0));
	stack_end(&s);
}

/* Code that a process may have changed for itself is not that of the file. */
TEST_F(life, private_mapping_has_no_table_while_it_can_be_written)
{
	struct code_file *f = &self->file;
	const size_t size = FILE_PAGES * PAGE;

	ASSERT_EQ(0, mprotect(f->mem, size, PROT_CODE));
	EXPECT_EQ(-ETXTBSY, attach(self));
	ASSERT_EQ(0, mprotect(f->mem, size, PROT_READ | PROT_EXEC));
	ASSERT_EQ(0, attach(self));
	ASSERT_EQ(0, mprotect(f->mem, size, PROT_CODE));
	EXPECT_TRUE(warm_by_fp(f->mem));
	ASSERT_EQ(0, mprotect(f->mem, size, PROT_READ | PROT_EXEC));
	EXPECT_TRUE(warm(f->mem, 0));
}

/* Debuggers write to memory that is not writable. */
TEST_F(life, breakpoint_takes_no_table_away)
{
	struct code_file *f = &self->file;
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	ASSERT_TRUE(attach_and_warm(self));
	EXPECT_EQ(1, pwrite(mem, "\xcc", 1, (unsigned long)f->mem + PLAIN_CALLER));
	EXPECT_TRUE(warm(f->mem, 0));
	close(mem);
}

/* Nor does the kernel's, which is in the code of all processes. */
TEST_F(life, uprobe_takes_no_table_away)
{
	struct perf_event_attr attr;
	struct up_ring probe;
	struct code_file f;
	int i;

	/* There can be none where an int3 is already. */
	ASSERT_TRUE(file_make(&f, test_path("probed"), 0x90));
	if (up_attr_uprobe(&attr, f.mem + PLAIN_CALLER, false, 0))
		SKIP(return, "needs uprobes");
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, up_open(&probe, &attr, 0, -1, -1));
		ASSERT_EQ(0xcc, f.mem[PLAIN_CALLER]);
		if (!i)
			ASSERT_EQ(0, file_attach(self->fd, self->nr, &f));
		EXPECT_TRUE(warm(f.mem, 0));
		up_close(&probe);
		ASSERT_EQ(0x90, f.mem[PLAIN_CALLER]);
		EXPECT_TRUE(warm(f.mem, 0));
	}
	file_end(&f);
}

/* As package managers do it */
TEST_F(life, file_that_replaces_another_has_no_table)
{
	struct code_file *f = &self->file, new;
	char path[160];

	ASSERT_TRUE(attach_and_warm(self));
	snprintf(path, sizeof(path), "%s.new", f->path);
	ASSERT_TRUE(file_make(&new, path, 0xcc));
	ASSERT_EQ(0, rename(path, f->path));
	EXPECT_TRUE(walks_by_fp(new.mem));
	/* The old one is still mapped. */
	EXPECT_TRUE(warm(f->mem, 0));
	file_unmap(f);
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
	f->mem = new.mem;
	f->fd = new.fd;
	EXPECT_TRUE(walks_by_fp(new.mem));
}

TEST_F(life, deleted_file_keeps_its_table_while_it_is_mapped)
{
	struct code_file *f = &self->file;
	struct code_file second = *f;

	ASSERT_TRUE(file_map(&second));
	ASSERT_EQ(0, unlink(f->path));
	ASSERT_TRUE(attach_and_warm(self));
	file_unmap(f);
	EXPECT_TRUE(warm(second.mem, 0));
	EXPECT_EQ(1, dev_info(self->fd, "attached"));
	file_unmap(&second);
	/* The inode is gone, and with it the attachment of the table */
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
	EXPECT_EQ(1, dev_info(self->fd, "tables"));
	ASSERT_TRUE(file_write(f->path, 0xcc));
	ASSERT_TRUE(file_map(f));
	EXPECT_TRUE(walks_by_fp(f->mem));
	EXPECT_EQ(0, file_attach(self->fd, self->nr, f));
	EXPECT_TRUE(warm(f->mem, 0));
}

/* Files are made one after the other, each mapped at @addr if that is not 0. */
static void check_reused(struct __test_metadata *_metadata, struct _test_data_life *self,
			 unsigned long addr)
{
	struct code_file f;
	u8 *mem;
	int i;

	for (i = 0; i < 200; i++) {
		ASSERT_TRUE(file_make(&f, test_path("reused"), 0xcc));
		mem = addr ? (u8 *)addr : f.mem;
		if (addr)
			ASSERT_TRUE(file_map_over(&f, mem));
		if (i % 2) {
			EXPECT_TRUE(walks_by_fp(mem));
		} else {
			ASSERT_EQ(0, attach_as(self->fd, self->nr, getpid(), mem + PAGE, &f));
			EXPECT_TRUE(walks_plain(mem, 0) && walks_plain(mem, 0));
		}
		file_end(&f);
		if (addr)
			ASSERT_TRUE(map_over(addr, FILE_PAGES * PAGE, PROT_NONE));
		EXPECT_EQ(0, dev_info(self->fd, "attached"));
	}
}

/* Inodes that come after others are in the same memory. */
TEST_F(life, inodes_that_come_and_go_do_not_inherit_tables)
{
	check_reused(_metadata, self, 0);
}

/* All of them are at one address, where there is nothing in between, or no walk. */
TEST_F(life, file_at_the_address_of_one_that_is_gone_does_not_inherit_its_table)
{
	u8 *mem = map_anon(0, FILE_PAGES * PAGE, PROT_NONE, 0);

	ASSERT_NE(MAP_FAILED, (void *)mem);
	check_reused(_metadata, self, (unsigned long)mem);
	munmap(mem, FILE_PAGES * PAGE);
}

TEST_F(life, file_system_is_unmounted_while_a_table_is_attached)
{
	struct code_file f;
	char dir[80], path[96];

	snprintf(dir, sizeof(dir), "%s", test_path("mnt"));
	snprintf(path, sizeof(path), "%s/file", dir);
	ASSERT_EQ(0, mkdir(dir, 0755));
	if (mount("none", dir, "tmpfs", 0, NULL))
		SKIP(return, "needs tmpfs (CONFIG_TMPFS)");
	EXPECT_TRUE(file_make(&f, path, 0xcc));
	EXPECT_EQ(0, file_attach(self->fd, self->nr, &f));
	EXPECT_TRUE(warm(f.mem, 0));
	EXPECT_EQ(-1, umount2(dir, UMOUNT_NOFOLLOW));
	EXPECT_EQ(EBUSY, errno);
	file_unmap(&f);
	EXPECT_EQ(1, dev_info(self->fd, "attached"));
	EXPECT_EQ(0, umount2(dir, UMOUNT_NOFOLLOW)) {
		umount2(dir, MNT_DETACH);
	}
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
	rmdir(dir);
}

/* An inode that nobody uses is not kept, and its table is removed with it. */
TEST_F(life, inode_that_was_evicted_has_no_table_when_it_comes_back)
{
	static const char target[] = "/usr/bin/true";
	struct code_file f;
	int i;

	snprintf(f.path, sizeof(f.path), "%s", target);
	if (!file_map(&f))
		SKIP(return, "needs /usr/bin/true");
	ASSERT_EQ(0, file_attach(self->fd, self->nr, &f));
	ASSERT_EQ(0, write_file("/proc/sys/vm/drop_caches", "2"));
	EXPECT_EQ(1, dev_info(self->fd, "attached"));
	file_unmap(&f);
	for (i = 0; i < 10 && dev_info(self->fd, "attached"); i++)
		write_file("/proc/sys/vm/drop_caches", "2");
	if (dev_info(self->fd, "attached"))
		SKIP(return, "this file system keeps its inodes");

	ASSERT_TRUE(file_map(&f));
	EXPECT_EQ(0, file_attach(self->fd, self->nr, &f));
	EXPECT_EQ(1, dev_info(self->fd, "attached"));
	file_unmap(&f);
}

/* The inode is the one below; a file that is copied up is another one. */
TEST_F(life, file_of_an_overlay_has_the_table_of_the_file_below)
{
	struct code_file f, up, mixed;
	struct overlay o;

	if (!overlay_make(&o, ""))
		SKIP(return, "needs overlayfs (CONFIG_OVERLAY_FS)");
	EXPECT_TRUE(overlay_map(&o, &f));
	/* Attached by way of the overlay */
	EXPECT_EQ(0, file_attach(self->fd, self->nr, &f));
	EXPECT_TRUE(warm(f.mem, 0));
	EXPECT_TRUE(warm(o.lower.mem, 0));
	EXPECT_EQ(-EEXIST, file_attach(self->fd, self->nr, &o.lower));
	/* The two have names of their own. */
	mixed = f;
	mixed.fd = o.lower.fd;
	EXPECT_EQ(-ESTALE, file_attach(self->fd, self->nr, &mixed));

	/* Copied up */
	EXPECT_TRUE(change_file(f.path, WRITE));
	up = f;
	EXPECT_TRUE(file_map(&up));
	EXPECT_TRUE(walks_by_fp(up.mem));
	EXPECT_TRUE(warm(f.mem, 0));
	/* A reader of the file does not read the mapped one now. */
	up.mem = f.mem;
	EXPECT_EQ(-ESTALE, file_attach(self->fd, self->nr, &up));
	overlay_end(&o);
}

/*
 * Of a file whose mode or time was changed only these are copied up. So the layers
 * of composefs are made, too.
 */
TEST_F(life, file_of_an_overlay_that_has_another_time_than_its_data)
{
	struct code_file f;
	struct overlay o;

	if (!overlay_make(&o, ",metacopy=on"))
		SKIP(return, "needs CONFIG_OVERLAY_FS and CONFIG_TMPFS_XATTR");
	EXPECT_TRUE(overlay_map(&o, &f));
	EXPECT_TRUE(change_file(f.path, TOUCH));
	file_unmap(&f);
	EXPECT_TRUE(overlay_map(&o, &f));
	EXPECT_EQ(1000, f.st.st_mtim.tv_sec);
	EXPECT_LT(1000, o.lower.st.st_mtim.tv_sec);
	EXPECT_EQ(0, file_attach(self->fd, self->nr, &f));
	EXPECT_TRUE(warm(f.mem, 0));
	EXPECT_TRUE(warm(o.lower.mem, 0));
	file_unmap(&f);
	overlay_end(&o);
}

/* ------------------------------------------------------------------------ */
/* Three walks of a stack with the same frames */
static bool walks_as(const struct stack *s, const u64 *ips, int nr, bool outermost)
{
	struct trace t;
	int i;

	for (i = 0; i < 3; i++) {
		table_walk(s, &t);
		if (!is_trace(&t, ips, nr, outermost))
			return false;
	}
	return true;
}

/* ... which are those of plain_table() number @n, but for the last address */
static bool walks_to(const struct stack *s, const u8 *mem, unsigned int n, u64 outer)
{
	unsigned long at = (unsigned long)mem;
	u64 ips[] = { at + AT_MIDDLE, at + PLAIN_CALLER + 16 * n, at + outer };

	return walks_as(s, ips, 3, true);
}

/* A walk of a plain stack that has its first frames, and no more */
static bool walk_has(const u8 *mem, int nr, bool outermost)
{
	u64 ips[] = { (unsigned long)mem + AT_MIDDLE, (unsigned long)mem + PLAIN_CALLER };
	struct trace t;

	walk_plain(mem, &t);
	return is_trace(&t, ips, nr, outermost) &&
	       ends_with(&t, outermost ? 0 : UT_END_CORRUPT);
}

/* Mappings								      */

TEST_F(life, code_that_takes_the_place_of_other_code)
{
	struct code_file *f = &self->file, other;
	unsigned long addr = (unsigned long)f->mem;
	u8 *bytes;

	ASSERT_EQ(0, attach(self));
	ASSERT_TRUE(file_make(&other, test_path("other"), 0xcc));
	EXPECT_TRUE(warm(f->mem, 0));
	/* Another file, without a table */
	ASSERT_TRUE(file_map_over(&other, f->mem));
	EXPECT_TRUE(walks_by_fp(f->mem));
	ASSERT_TRUE(file_map_over(f, f->mem));
	EXPECT_TRUE(warm(f->mem, 0));
	/* Memory */
	bytes = map_anon(addr, FILE_PAGES * PAGE, PROT_CODE, MAP_FIXED);
	ASSERT_EQ(f->mem, bytes);
	code_fill(bytes, 0xcc);
	EXPECT_TRUE(walks_by_fp(f->mem));
	ASSERT_TRUE(file_map_over(f, f->mem));
	EXPECT_TRUE(warm(f->mem, 0));
	/* Other parts of the same file */
	ASSERT_TRUE(file_map_at(f->path, addr + PAGE, PAGE, PAGE));
	ASSERT_TRUE(file_map_at(f->path, addr + 8 * PAGE, 9 * PAGE, PAGE));
	/* The caller is in what the table has for an outermost frame. */
	EXPECT_TRUE(walk_has(f->mem, 2, true));
	file_end(&other);
}

TEST_F(life, moved_and_split_mapping_is_the_same_file)
{
	struct code_file *f = &self->file;
	u8 *room, *to;

	ASSERT_TRUE(attach_and_warm(self));
	room = map_anon(0, FILE_PAGES * PAGE, PROT_NONE, 0);
	to = mremap(f->mem, FILE_PAGES * PAGE, FILE_PAGES * PAGE,
		    MREMAP_MAYMOVE | MREMAP_FIXED, room);
	ASSERT_EQ(room, to);
	f->mem = to;
	EXPECT_TRUE(warm(f->mem, 0));
	ASSERT_EQ(0, munmap(f->mem + 5 * PAGE, PAGE));
	EXPECT_TRUE(warm(f->mem, 0));
	ASSERT_EQ(0, mprotect(f->mem + 11 * PAGE, PAGE, PROT_READ));
	EXPECT_TRUE(warm(f->mem, 0));
}

/* The code of the caller comes when the mapping grows. */
TEST_F(life, mapping_that_grows_has_the_table_in_all_of_it)
{
	u8 *mem = self->file.mem;
	int i;

	ASSERT_TRUE(attach_and_warm(self));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, munmap(mem + 8 * PAGE, 8 * PAGE));
		EXPECT_TRUE(walk_has(mem, 1, false));
		ASSERT_EQ(mem, mremap(mem, 8 * PAGE, FILE_PAGES * PAGE, 0));
		EXPECT_TRUE(warm(mem, 0));
	}
}

/* A part that is no code for a while, also if the rest is still to be found by then */
TEST_F(life, protection_of_a_part_leaves_the_table_for_the_rest)
{
	u8 *mem = self->file.mem, *part = mem + 8 * PAGE;
	u64 ips[] = { (u64)mem + AT_MIDDLE, (u64)mem + PLAIN_CALLER, (u64)mem + PLAIN_FP };
	struct trace t;
	int i;

	ASSERT_EQ(0, attach(self));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, mprotect(part, PAGE, PROT_READ));
		EXPECT_TRUE(walk_has(mem, 1, false));
		ASSERT_EQ(0, mprotect(part, PAGE, PROT_READ | PROT_EXEC));
		EXPECT_TRUE(warm(mem, 0));
		/* Written to by nobody, but that could be: by frame pointer from there */
		ASSERT_EQ(0, mprotect(part, PAGE, PROT_CODE));
		walk_plain(mem, &t);
		EXPECT_TRUE(is_trace(&t, ips, 3, false));
		ASSERT_EQ(0, mprotect(part, PAGE, PROT_READ | PROT_EXEC));
	}
	EXPECT_TRUE(warm(mem, 0));
}

/* More code than is remembered makes room for itself. */
TEST_F(life, very_many_mappings_of_other_files_leave_the_table)
{
	static u8 *mem[1200];
	struct code_file other;
	unsigned int i;

	ASSERT_TRUE(file_make(&other, test_path("other"), 0xcc));
	ASSERT_TRUE(attach_and_warm(self));
	for (i = 0; i < ARRAY_SIZE(mem); i++) {
		mem[i] = map_once_more(&other);
		ASSERT_NE(NULL, mem[i]);
		ASSERT_TRUE(walks_by_fp(mem[i]));
		if (i % 100 == 0)
			EXPECT_TRUE(walks_plain(self->file.mem, 0));
	}
	EXPECT_TRUE(warm(self->file.mem, 0));
	/* All of these have a table now, and have none again. */
	self->nr = plain_use(self->fd, 6, &other);
	ASSERT_LT(0, self->nr);
	for (i = 0; i < ARRAY_SIZE(mem); i += 7)
		EXPECT_TRUE(walks_plain(mem[i], 6));
	ASSERT_EQ(0, dev_drop(self->fd, self->nr));
	for (i = 0; i < 2 * ARRAY_SIZE(mem); i += 7)
		EXPECT_TRUE(walks_by_fp(mem[i % ARRAY_SIZE(mem)]));
	EXPECT_TRUE(warm(self->file.mem, 0));
	for (i = 0; i < ARRAY_SIZE(mem); i++)
		munmap(mem[i], FILE_PAGES * PAGE);
	file_end(&other);
}

static int stop_churning;

/* Code and data are mapped and unmapped beside the walked code. */
static void *churns(void *arg)
{
	const char *path = arg;

	while (!get_flag(&stop_churning)) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		void *mem = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		close(fd);
		munmap(map_anon(0, PAGE, PROT_READ, 0), PAGE);
		munmap(mem, PAGE);
	}
	return NULL;
}

/*
 * Two files take turns at one place, each with its table, while another thread holds the
 * lock of all mappings most of the time. A walk may end there, and says why; its frames are
 * right.
 */
TEST_F(life, walk_while_another_thread_maps_and_unmaps_is_right_or_cut)
{
	struct code_file other, *files[] = { &self->file, &other };
	unsigned int numbers[] = { 0, 5 }, i, exact = 0;
	const u8 *mem = self->file.mem;
	pthread_t thread;
	struct trace t;

	ASSERT_EQ(0, attach(self));
	ASSERT_LT(0, plain_other(self->fd, numbers[1], &other));
	set_flag(&stop_churning, 0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, churns, self->file.path));
	for (i = 0; i < 400; i++) {
		u64 ips[] = { (u64)mem + AT_MIDDLE,
			      (u64)mem + PLAIN_CALLER + 16 * numbers[i % 2],
			      (u64)mem + PLAIN_OUTER };
		int nr = 3;

		ASSERT_TRUE(file_map_over(files[i % 2], mem));
		walk_plain(mem, &t);
		if (t.end == UT_END_CHANGING && t.nr < nr)
			nr = t.nr;
		exact += nr == 3;
		EXPECT_LE(1, nr);
		EXPECT_TRUE(is_trace(&t, ips, nr, nr == 3));
		/* Once more, as it is known by now */
		walk_plain(mem, &t);
		if (t.end != UT_END_CHANGING)
			EXPECT_TRUE(is_trace(&t, ips, 3, true));
	}
	set_flag(&stop_churning, 1);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	fprintf(stderr, "# %u of 400 walks are complete\n", exact);
	EXPECT_LT(200, exact);
	file_end(&other);
}

/*
 * Another file whose table leads from PLAIN_CALLER to another address. It is for that page,
 * in the middle of the code on the stack.
 */
#define OTHER_OUTER	(PLAIN_OUTER + 1)

static bool other_page(struct _test_data_life *self, struct code_file *other,
		       struct stack *s)
{
	table_of_one(self->table, 8 * PAGE, rule_saved(RSP, 256, -16), 9 * PAGE);
	if (!file_make(other, test_path("other"), 0xcc) ||
	    file_use(self->fd, self->table, other) < 0 || !plain_stack(s, self->file.mem))
		return false;
	s->words[32] = (unsigned long)self->file.mem + OTHER_OUTER;
	return true;
}

static bool map_page(const struct code_file *f, const u8 *mem)
{
	return file_map_at(f->path, (unsigned long)mem + 8 * PAGE, 8 * PAGE, PAGE);
}

TEST_F(life, page_of_another_file_has_the_table_of_that)
{
	struct code_file *f = &self->file, other;
	struct stack s;
	int i;

	ASSERT_EQ(0, attach(self));
	ASSERT_TRUE(other_page(self, &other, &s));
	for (i = 0; i < 4; i++) {
		EXPECT_TRUE(walks_to(&s, f->mem, 0, PLAIN_OUTER));
		ASSERT_TRUE(map_page(&other, f->mem));
		EXPECT_TRUE(walks_to(&s, f->mem, 0, OTHER_OUTER));
		ASSERT_TRUE(map_page(f, f->mem));
	}
	stack_end(&s);
	file_end(&other);
}

/* As large as the mapping before, at the same place, and of the same file */
TEST_F(life, page_from_elsewhere_in_the_file_has_its_own_rules)
{
	unsigned long at = (unsigned long)self->file.mem;
	u64 ips[] = { at + AT_MIDDLE, at + PLAIN_CALLER, at + PLAIN_FP };
	struct trace t;
	int i, n;

	ASSERT_EQ(0, attach(self));
	for (i = 0; i < 6; i++) {
		/* Page 9 is outermost, and page 10 is not covered. */
		ASSERT_TRUE(file_map_at(self->file.path, at + 8 * PAGE,
					(9 + i % 2) * PAGE, PAGE));
		for (n = 0; n < 2; n++) {
			walk_plain(self->file.mem, &t);
			EXPECT_TRUE(is_trace(&t, ips, i % 2 ? 3 : 2, !(i % 2)));
		}
	}
}

/**
 * struct splitter - A thread that splits a mapping, and lets it become whole
 * @files:	The file of the mapping, and the other one
 * @mem:	The mapping
 * @moves:	It is odd while something is being changed
 * @stop:	The end
 * @failed:	Something could not be changed
 */
struct splitter {
	const struct code_file *files[2];
	u8 *mem;
	int moves;
	int stop;
	bool failed;
};

#define SPLIT_MOVES	6

/* Which file has the page in the middle after so many moves? */
static int file_after(int moves)
{
	return moves / 2 % SPLIT_MOVES == 5;
}

static void *splits(void *arg)
{
	struct splitter *split = arg;
	u8 *page = split->mem + 6 * PAGE;
	int n;

	for (n = 0; !get_flag(&split->stop); n++) {
		bool ok;

		set_flag(&split->moves, 2 * n + 1);
		switch (n % SPLIT_MOVES) {
		case 0:
			ok = !mprotect(page, PAGE, PROT_READ);
			break;
		case 1:
			ok = !mprotect(page, PAGE, PROT_READ | PROT_EXEC);
			break;
		case 2:
			ok = !munmap(page, PAGE);
			break;
		case 3:
			ok = file_map_at(split->files[0]->path, (unsigned long)page,
					 6 * PAGE, PAGE);
			break;
		default:
			ok = map_page(split->files[n % SPLIT_MOVES == 4], split->mem);
		}
		set_flag(&split->moves, 2 * n + 2);
		split->failed |= !ok;
		if (n / SPLIT_MOVES % 2)
			usleep(100);
	}
	return NULL;
}

/*
 * Both halves stay what they are, and the page in the middle is that of one file or the
 * other. While nothing changes, a walk is by the one that is there. Other walks may end
 * early, but only since mappings change.
 */
TEST_F(life, walk_while_another_thread_splits_the_mapping)
{
	struct code_file *f = &self->file, other;
	unsigned long at = (unsigned long)f->mem;
	struct splitter split = { .files = { f, &other }, .mem = f->mem };
	unsigned int exact[2] = { }, beside = 0, cut = 0, i;
	pthread_t thread;
	struct stack s;
	struct trace t;

	ASSERT_EQ(0, attach(self));
	ASSERT_TRUE(other_page(self, &other, &s));
	ASSERT_EQ(0, pthread_create(&thread, NULL, splits, &split));
	for (i = 0; i < 20000; i++) {
		u64 ips[] = { at + AT_MIDDLE, at + PLAIN_CALLER, at + PLAIN_OUTER };
		int moves = get_flag(&split.moves), nr = 3, which = file_after(moves);

		table_walk(&s, &t);
		if (moves & 1 || get_flag(&split.moves) != moves) {
			beside++;
			which = t.nr == 3 && t.ips[2] != ips[2];
			if (t.end == UT_END_CHANGING && t.nr >= 1 && t.nr < 3)
				nr = t.nr;
			cut += nr < 3;
		} else {
			exact[which]++;
		}
		ips[2] = at + (which ? OTHER_OUTER : PLAIN_OUTER);
		ASSERT_TRUE(is_trace(&t, ips, nr, nr == 3)) {
			TH_LOG("moves %d, then %d, end %u", moves, split.moves, t.end);
			set_flag(&split.stop, 1);
		}
	}
	set_flag(&split.stop, 1);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_FALSE(split.failed);
	fprintf(stderr, "# %u and %u walks beside no change, %u others, %u cut\n", exact[0],
		exact[1], beside, cut);
	EXPECT_LT(0, exact[0]);
	EXPECT_LT(0, exact[1]);
	EXPECT_LT(0, beside);
	EXPECT_TRUE(map_page(f, f->mem));
	stack_end(&s);
	file_end(&other);
}

/*
 * do_mmap() is called with all mappings locked, and asks for a walk. The walk is made after
 * it, by the tables of the new mappings.
 */
TEST_F(life, mmap_that_a_kprobe_samples_has_the_tables)
{
	struct code_file *f = &self->file, other, *files[] = { &other, f };
	unsigned long at = (unsigned long)f->mem;
	struct perf_event_attr attr;
	struct up_ring ring;
	struct stack s;
	struct trace t;
	int i;

	ASSERT_EQ(0, attach(self));
	ASSERT_TRUE(other_page(self, &other, &s));
	up_attr_init(&attr, pmu_type("kprobe"), 0,
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	attr.kprobe_func = (unsigned long)"do_mmap";
	if (up_open(&ring, &attr, 0, -1, -1))
		SKIP(return, "needs kprobe events");
	s.regs[RAX] = SYS_mmap;
	s.regs[RDI] = at + 8 * PAGE;
	s.regs[RSI] = PAGE;
	s.regs[RDX] = PROT_READ | PROT_EXEC;
	s.regs[R10] = MAP_PRIVATE | MAP_FIXED;
	s.regs[R9] = 8 * PAGE;
	for (i = 0; i < 6; i++) {
		u64 ips[] = { at + AT_MIDDLE, at + PLAIN_CALLER,
			      at + (i % 2 ? PLAIN_OUTER : OTHER_OUTER) };

		s.regs[R8] = files[i % 2]->fd;
		ring_walk(&ring, &s, &t);
		EXPECT_TRUE(is_trace(&t, ips, 3, true));
	}
	up_close(&ring);
	stack_end(&s);
	file_end(&other);
}

/* Only the part of the table for mapped code is used, wherever that is */
TEST_F(life, mapping_of_a_part_of_a_file_has_that_part_of_the_table)
{
	u8 *mem = map_anon(0, 32 * PAGE, PROT_CODE, 0), *part = mem + 17 * PAGE;
	u64 fp = (u64)self->file.mem + PLAIN_FP, after = (u64)part + 2 * PAGE;
	const struct {
		u64 caller, outer;
		bool outermost;
	} cases[] = {
		{ (u64)part + PAGE, after, true },
		/* One byte before it, and one after it, are not covered. */
		{ (u64)part, fp, false },
		{ after + 1, fp, false },
		/* It is still there. */
		{ (u64)part + PAGE, after, true },
	};
	struct stack s;
	struct trace t;
	unsigned int i;

	ASSERT_NE(MAP_FAILED, (void *)mem);
	/* Pages 8 and 9 of the file, in the middle of something else */
	memset(mem, 0xcc, 32 * PAGE);
	ASSERT_TRUE(file_map_at(self->file.path, (u64)part, 8 * PAGE, 2 * PAGE));
	ASSERT_EQ(0, attach(self));
	ASSERT_TRUE(plain_stack(&s, self->file.mem));
	s.words[64] = after;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u64 ips[] = { (u64)self->file.mem + AT_MIDDLE, cases[i].caller, cases[i].outer };

		s.words[0] = cases[i].caller;
		table_walk(&s, &t);
		EXPECT_TRUE(is_trace(&t, ips, 3, cases[i].outermost)) {
			TH_LOG("case %u", i);
		}
	}
	stack_end(&s);
	munmap(mem, 32 * PAGE);
}

/* Runs instead of the tests in a program that a test has started. */
__attribute__((constructor)) static void child_of_exec(void)
{
	const char *path = getenv("TABLE_TEST_FILE");
	struct code_file f;

	if (!path)
		return;
	alarm(60);
	snprintf(f.path, sizeof(f.path), "%s", path);
	_exit(!file_map(&f) + 2 * !warm(f.mem, 0));
}

static int walks_and_executes(const struct code_file *f)
{
	if (!warm(f->mem, 0))
		return 10;
	setenv("TABLE_TEST_FILE", f->path, 1);
	execl("/proc/self/exe", "table_life_test", NULL);
	return 11;
}

TEST_F(life, program_that_was_executed_has_the_tables_of_its_files)
{
	ASSERT_EQ(0, attach(self));
	EXPECT_EQ(0, IN_CHILD(walks_and_executes(&self->file)));
}

static void *thread_walks(void *arg)
{
	return (void *)(long)!warm(arg, 0);
}

TEST_F(life, threads_share_what_is_known)
{
	pthread_t thread;
	void *ret;

	EXPECT_TRUE(walks_by_fp(self->file.mem));
	ASSERT_EQ(0, attach(self));
	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_walks, self->file.mem));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(0, (long)ret);
	EXPECT_TRUE(warm(self->file.mem, 0));
}

/* ------------------------------------------------------------------------ */
/* The vDSO								      */

TEST_F(life, vdso_can_have_a_table)
{
	const u8 *vdso = (const u8 *)getauxval(AT_SYSINFO_EHDR);
	u64 mem = (unsigned long)self->file.mem;
	u64 ips[] = { mem + AT_MIDDLE, (u64)vdso + 0x800, mem + PLAIN_OUTER };
	u64 by_fp[] = { ips[0], ips[1], mem + PLAIN_FP };
	struct table *t = self->table;
	struct trace trace;
	struct stack s;
	int i;

	if (!vdso)
		SKIP(return, "needs a vDSO");
	ASSERT_EQ(0, attach(self));
	table_start(t);
	table_row(t, 0, UNKNOWN);
	table_row(t, 0x7ff, rule_cfa(RSP, 24));
	table_row(t, 0x800, UNKNOWN);
	table_end(t, PAGE);
	self->nr = dev_make_table(self->fd, t);
	ASSERT_LT(0, self->nr);
	ASSERT_TRUE(plain_stack(&s, self->file.mem));
	s.words[0] = ips[1];
	s.words[3] = ips[2];
	for (i = 0; i < 2; i++) {
		table_walk(&s, &trace);
		EXPECT_TRUE(is_trace(&trace, by_fp, 3, false));
		ASSERT_EQ(0, attach_as(self->fd, self->nr, getpid(), vdso + 0x123, NULL));
		EXPECT_TRUE(walks_as(&s, ips, 3, true));
		EXPECT_EQ(-EEXIST, attach_as(self->fd, self->nr, getpid(), vdso, NULL));
		ASSERT_TRUE(renew(self));
	}
	stack_end(&s);
}

/* It can be unmapped as a whole only. 0 if it is not found */
static size_t vdso_size(unsigned long vdso)
{
	unsigned long start, end;
	size_t size = 0;
	char line[256];
	FILE *maps;

	maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start == vdso)
			size = end - start;
	}
	if (maps)
		fclose(maps);
	return size;
}

/* A page of a file takes the place of the vDSO: nothing may look at a clock any more. */
static bool loses_its_vdso(void *arg)
{
	const struct code_file *f = arg;
	unsigned long vdso = getauxval(AT_SYSINFO_EHDR);

	return !munmap((void *)vdso, vdso_size(vdso)) &&
	       file_map_at(f->path, vdso, 2 * PAGE, PAGE);
}

/* Otherwise a process could have its own rules used for the vDSO of all others. */
TEST_F(life, file_in_the_place_of_a_vdso_is_a_file)
{
	void *vdso = (void *)getauxval(AT_SYSINFO_EHDR);
	pid_t pid;

	if (!vdso)
		SKIP(return, "needs a vDSO");
	pid = child_that_waits(loses_its_vdso, &self->file);
	ASSERT_LT(0, pid);
	EXPECT_EQ(0, attach_as(self->fd, self->nr, pid, vdso, &self->file));
	EXPECT_TRUE(warm(self->file.mem, 0));
	/* The table of the one that is left can still be attached. */
	EXPECT_EQ(0, attach_as(self->fd, self->nr, getpid(), vdso, NULL));
	EXPECT_TRUE(child_kill(pid));
}

/* ------------------------------------------------------------------------ */
/* Which one counts							      */

/**
 * struct added - An SFrame table in memory of its own, for code of the file
 * @mem:	The table
 * @text:	The code
 * @s:		The plain stack of the file
 */
struct added {
	u8 *mem;
	unsigned long text;
	struct stack s;
};

/* One function, or two, in which CFA is the stack pointer plus @cfa */
struct added_func {
	u64 offset;
	unsigned int size;
	s32 cfa;
};

/* Functions of plain_table() number 3, and of the page of the callers */
static const struct added_func func_top = { CALL_MIDDLE, 16, 32 };
static const struct added_func func_caller = { 8 * PAGE, PAGE, 256 };

static bool added_make(struct added *a, struct _test_data_life *self,
		       const struct added_func *func, const struct added_func *second)
{
	a->mem = map_anon(0, PAGE, PROT_READ | PROT_WRITE, 0);
	a->text = (unsigned long)self->file.mem;
	sframe_build_init(&build, 3, true, (unsigned long)a->mem);
	for (; func; func = second, second = NULL) {
		sframe_build_func(&build, a->text + func->offset, func->size,
				  SFRAME_BUILD_ROW1);
		sframe_build_sp(&build, 0, func->cfa);
	}
	if (a->mem == MAP_FAILED || !sframe_build_finish(&build))
		return false;
	memcpy(a->mem, build.mem, PAGE);
	return plain_stack(&a->s, self->file.mem);
}

/* It is for the code from here to there in the file. */
static int added_use(const struct added *a, u64 start, u64 end)
{
	return add_table((unsigned long)a->mem, (unsigned long)a->mem + PAGE,
			 a->text + start, a->text + end);
}

static int added_remove(const struct added *a)
{
	return remove_table((unsigned long)a->mem);
}

static void added_end(struct added *a)
{
	stack_end(&a->s);
	munmap(a->mem, PAGE);
}

/* Tables that prctl() added come first, for code of a file as well. */
TEST_F(life, added_sframe_table_comes_before_the_table_for_the_file)
{
	struct added a;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(attach_and_warm(self));
	ASSERT_TRUE(added_make(&a, self, &func_top, NULL));
	ASSERT_EQ(0, added_use(&a, 0, 7 * PAGE));
	EXPECT_TRUE(walks_to(&a.s, self->file.mem, 3, PLAIN_OUTER));
	ASSERT_EQ(0, added_remove(&a));
	EXPECT_TRUE(warm(self->file.mem, 0));
	added_end(&a);
}

/* With any state and start of the code after it */
TEST_F(life, added_sframe_table_counts_up_to_its_last_byte)
{
	struct added a;
	struct trace t;
	u64 end;
	int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_EQ(0, attach(self));
	ASSERT_TRUE(added_make(&a, self, &func_top, NULL));
	for (end = AT_MIDDLE + 1; end <= AT_MIDDLE + 4; end++) {
		u64 ips[] = { a.text + AT_MIDDLE, a.text + PLAIN_CALLER + 48,
			      a.text + PLAIN_OUTER };
		/* The first byte after it, which the table for the file does not know */
		u64 after[] = { ips[0], a.text + end + 1 };

		ASSERT_EQ(0, added_use(&a, 0, end));
		for (i = 0; i < 2; i++) {
			a.s.words[3] = after[1];
			table_walk(&a.s, &t);
			EXPECT_TRUE(is_trace(&t, after, 2, false));
			a.s.words[3] = ips[1];
			table_walk(&a.s, &t);
			EXPECT_TRUE(is_trace(&t, ips, 3, true));
		}
		ASSERT_EQ(0, added_remove(&a));
	}
	added_end(&a);
}

/* The state of the code beside it, with a table or without, does not extend to it. */
TEST_F(life, caller_in_the_range_of_an_added_sframe_table)
{
	unsigned long text = (unsigned long)self->file.mem;
	u64 ips[] = { text + AT_MIDDLE, text + PLAIN_CALLER, text + OTHER_OUTER };
	struct added a;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(added_make(&a, self, &func_caller, NULL));
	ASSERT_EQ(0, added_use(&a, 8 * PAGE, 9 * PAGE));
	/* By frame pointer, and by the table for the file */
	a.s.words[257] = ips[1];
	a.s.words[257 + 32] = ips[2];
	a.s.words[32] = ips[2];
	EXPECT_TRUE(walks_as(&a.s, ips, 3, false));
	ASSERT_EQ(0, attach(self));
	EXPECT_TRUE(walks_to(&a.s, self->file.mem, 0, OTHER_OUTER));
	ASSERT_EQ(0, added_remove(&a));
	added_end(&a);
}

/* Memory with an added table, and a file with its own, take turns at one place. */
TEST_F(life, added_sframe_table_and_a_file_with_a_table_take_turns)
{
	struct code_file *f = &self->file;
	const size_t size = 9 * PAGE;
	struct added a;
	int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(added_make(&a, self, &func_top, &func_caller));
	a.s.words[3 + 32] = a.text + OTHER_OUTER;
	ASSERT_EQ(0, attach(self));
	/* It is not in one mapping with the code after it, which would lose its rules. */
	ASSERT_EQ(0, madvise(f->mem + size, FILE_PAGES * PAGE - size, MADV_DONTDUMP));

	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, munmap(f->mem, size));
		ASSERT_TRUE(map_over(a.text, size, PROT_CODE));
		ASSERT_EQ((ssize_t)size, pread(f->fd, f->mem, size, 0));
		if (!i)
			ASSERT_EQ(0, added_use(&a, 0, size));
		EXPECT_TRUE(walks_to(&a.s, f->mem, 3, OTHER_OUTER));
		ASSERT_EQ(0, munmap(f->mem, size));
		ASSERT_TRUE(file_map_at(f->path, a.text, 0, size));
		EXPECT_TRUE(walks_to(&a.s, f->mem, 0, PLAIN_OUTER));
	}
	ASSERT_EQ(0, added_remove(&a));
	added_end(&a);
}

/* A table that the program added is the only one for its range. */
TEST_F(life, added_sframe_table_without_a_rule_comes_before_other_tables)
{
	static const struct added_func elsewhere = { 16, 16, 8 };
	struct added a;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(attach_and_warm(self));
	ASSERT_TRUE(added_make(&a, self, &elsewhere, NULL));
	ASSERT_EQ(0, added_use(&a, 0, FILE_PAGES * PAGE));
	EXPECT_TRUE(warm_by_fp(self->file.mem));
	ASSERT_EQ(0, added_remove(&a));
	EXPECT_TRUE(warm(self->file.mem, 0));
	added_end(&a);
}

/* A mapped file with an SFrame table that nobody can write to */
static bool image_to_disk(struct image *image)
{
	static u8 copy[FILE_SIZE];
	struct stat st;
	bool done;
	int fd;

	fd = open(test_path("image"), O_RDWR | O_CREAT | O_CLOEXEC, 0755);
	memcpy(copy, image->file, FILE_SIZE);
	done = write(fd, copy, FILE_SIZE) == FILE_SIZE;
	close(fd);
	munmap(image->file, FILE_SIZE);
	close(image->fd);
	image->fd = open(test_path("image"), O_RDONLY | O_CLOEXEC);
	if (!done || !image_map(image) || fstat(image->fd, &st))
		return false;
	wait_for_clock(&st);
	return true;
}

/* Have the table in @self->table for the image. Returns its number, or -errno. */
static int image_use(struct _test_data_life *self, const struct image *image)
{
	struct code_file f = { .fd = image->fd };
	int nr = dev_make_table(self->fd, self->table), ret;

	if (nr < 0 || fstat(f.fd, &f.st))
		return -EIO;
	ret = attach_as(self->fd, nr, getpid(), (void *)image->code.addr, &f);
	return ret ?: nr;
}

/*
 * One whose section is in a segment of its own, at @at, which is not mapped yet, and whose
 * table leaves all code to the section
 */
static bool image_apart(struct _test_data_life *self, struct image *image, unsigned long *at)
{
	if (!image_make(image, 3, true))
		return false;
	*at = image_table_apart(image, 3, true);
	table_of_one(self->table, FILE_TEXT, NOT_COVERED, FILE_TEXT + PAGE);
	return image_to_disk(image) && image_use(self, image) > 0;
}

static void image_end(const struct image *image)
{
	close(image->fd);
	unlink(test_path("image"));
}

/* With the table in @self->table, are its frames such, when found and when known? */
static bool image_is(struct _test_data_life *self, const struct image *image,
		     bool (*is)(const struct code *code))
{
	int nr = image_use(self, image);

	return nr > 0 && is(&image->code) && is(&image->code) && !dev_drop(self->fd, nr);
}

/* By frame pointer from framed_syscall() to code that @ip is in, and to @next */
static int stack_through(u64 ip, u64 next, uint64_t *ips)
{
	u64 words[4] = { };

	words[0] = (unsigned long)&words[2];
	words[1] = ip;
	words[3] = next;
	return stack_of_words(words, ips);
}

/* The file's own table has the rules for code that the table for it does not cover. */
TEST_F(life, table_for_the_file_comes_before_its_sframe_section)
{
	u64 next = (unsigned long)call_code_ip, beyond, leaf;
	struct table *t = self->table;
	uint64_t ips[MAX_IPS];
	struct image image;
	int nr, i;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(image_make(&image, 3, true));
	ASSERT_TRUE(image_to_disk(&image));
	EXPECT_TRUE(is_exact(&image.code) && is_exact(&image.code));

	/* All of it is unknown. */
	table_of_one(t, 0, UNKNOWN, FILE_SIZE);
	nr = image_use(self, &image);
	ASSERT_LT(0, nr);
	EXPECT_TRUE(is_cut(&image.code) && is_cut(&image.code));
	/* The code after all functions of the section, too */
	beyond = (image.code.addr & -PAGE) + PAGE - 8;
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(2, stack_through(beyond, next, ips));
		EXPECT_EQ(beyond, ips[1]);
	}
	ASSERT_EQ(0, dev_drop(self->fd, nr));
	EXPECT_TRUE(is_exact(&image.code));
	EXPECT_EQ(3, stack_through(beyond, next, ips));
	EXPECT_EQ(next, ips[2]);

	/* Only the leaf is known: as something else than it is, and as what it is. */
	leaf = image.code.leaf - image.addr;
	table_of_one(t, leaf, OUTERMOST, leaf + STUB_SIZE);
	EXPECT_TRUE(image_is(self, &image, is_cut));
	table_of_one(t, leaf, rule_cfa(RSP, 8), leaf + STUB_SIZE);
	EXPECT_TRUE(image_is(self, &image, is_exact));

	/* Nothing is known of any of it, by a row that says so, and by none. */
	table_start(t);
	table_row(t, FILE_TEXT, NOT_COVERED);
	table_row(t, FILE_TEXT + PAGE / 2, UNKNOWN);
	table_end(t, FILE_TEXT + PAGE);
	EXPECT_TRUE(image_is(self, &image, is_exact));
	table_of_one(t, 0, UNKNOWN, PAGE);
	EXPECT_TRUE(image_is(self, &image, is_exact));
	image_end(&image);
}

/* Rules that were cached while it could not be read do not count any longer. */
TEST_F(life, sframe_section_that_can_be_read_later_counts_from_then_on)
{
	struct image image;
	unsigned long at;
	int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(image_apart(self, &image, &at));
	/* Nothing is mapped where the section should be. */
	EXPECT_TRUE(is_without_table(&image.code));
	EXPECT_TRUE(is_without_table(&image.code));
	ASSERT_TRUE(image_map_table(&image, at));
	/* It is looked for again within a second or so. */
	for (i = 0; i < 50 && !is_exact(&image.code); i++)
		usleep(100000);
	EXPECT_TRUE(is_exact(&image.code));
	image_end(&image);
}

static int child_spoils_index(const struct image *image, unsigned long at)
{
	if (mprotect((void *)at, PAGE, PROT_READ | PROT_WRITE))
		return 1;
	spoil_index((u8 *)at);
	return is_cut(&image->code) ? 0 : 2;
}

/*
 * The file is the same, and its table leaves the rules to the section, of which each process
 * can have a copy of its own. Rules that one has looked up there are not found by the other.
 */
TEST_F(life, sframe_rules_of_a_process_do_not_count_for_another)
{
	struct image image;
	unsigned long at;

	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(image_apart(self, &image, &at));
	ASSERT_TRUE(image_map_table(&image, at));
	EXPECT_TRUE(is_exact(&image.code));
	EXPECT_EQ(0, IN_CHILD(child_spoils_index(&image, at)));
	EXPECT_TRUE(is_exact(&image.code));
	image_end(&image);
}

TEST_HARNESS_MAIN
