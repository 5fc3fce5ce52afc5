// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/unwind_tables: refusals and their errors; rights; accounting and limits.
 */
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include "slow_page.h"
#include "table_lib.h"
#include "unwind_harness.h"

#define SYSCTL_MAX_KB	"/proc/sys/kernel/unwind_table_max_kb"

/* An argument of any command, with room for fields of a later kernel */
union big {
	u8 bytes[2 * PAGE];
	u32 size;
	struct unwind_table_make make;
	struct unwind_table_attach attach;
	struct unwind_table_query query;
};

FIXTURE(dev)
{
	struct code_file file;
	struct table *table;
	u8 *data;
	size_t len;
	long long max_kb;
	int fd;
	int nr;
	int pidfd;
};

FIXTURE_SETUP(dev)
{
	self->fd = -1;
	if (must_skip(_metadata, need_tables()))
		return;
	ASSERT_TRUE(tables_start("dev", &self->file, &self->table, &self->fd));
	self->data = map_anon(0, TABLE_ROOM, PROT_READ | PROT_WRITE, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->data);
	plain_table(self->table, 0);
	self->len = table_join(self->table, self->data);
	self->nr = dev_make(self->fd, self->data, self->len);
	ASSERT_LT(0, self->nr);
	self->pidfd = pidfd_of(getpid());
	ASSERT_LE(0, self->pidfd);
	self->max_kb = up_read_number(SYSCTL_MAX_KB);
	ASSERT_LT(0, self->max_kb);
}

FIXTURE_TEARDOWN(dev)
{
	if (self->fd < 0)
		return;
	up_write_number(SYSCTL_MAX_KB, self->max_kb);
	close(self->pidfd);
	munmap(self->data, TABLE_ROOM);
	tables_end(&self->file, self->table, self->fd);
}

static struct unwind_table_attach attach_arg(struct _test_data_dev *self)
{
	struct unwind_table_attach arg;

	arg = attach_arg_of(self->nr, self->file.mem, &self->file);
	arg.pidfd = self->pidfd;
	return arg;
}

static struct unwind_table_query query_arg(struct _test_data_dev *self)
{
	return (struct unwind_table_query){
		.size = sizeof(struct unwind_table_query), .pidfd = self->pidfd,
		.address = (unsigned long)self->file.mem,
	};
}

/* Drop the table, and make one that is not attached to any file. */
static bool renew(struct _test_data_dev *self)
{
	if (dev_drop(self->fd, self->nr))
		return false;
	self->nr = dev_make(self->fd, self->data, self->len);
	return self->nr > 0;
}

/* What a command says about an address of a process */
typedef int ask_fn(struct _test_data_dev *self, int pidfd, u64 address);

static int attach_at(struct _test_data_dev *self, int pidfd, u64 address)
{
	struct unwind_table_attach arg = attach_arg(self);

	arg.pidfd = pidfd;
	arg.address = address;
	return dev_attach(self->fd, &arg);
}

static int query_at(struct _test_data_dev *self, int pidfd, u64 address)
{
	struct unwind_table_query arg = query_arg(self);

	arg.pidfd = pidfd;
	arg.address = address;
	return dev_query(self->fd, &arg);
}

static void check_processes(struct __test_metadata *_metadata, struct _test_data_dev *self,
			    ask_fn *ask)
{
	const u64 addr = (unsigned long)self->file.mem;
	int pidfd;
	pid_t pid;

	EXPECT_EQ(-EBADF, ask(self, -1, addr));
	EXPECT_EQ(-EBADF, ask(self, self->fd, addr));
	EXPECT_EQ(-EBADF, ask(self, 1000000, addr));

	pid = fork();
	if (!pid)
		_exit(0);
	pidfd = pidfd_of(pid);
	ASSERT_LE(0, pidfd);
	ASSERT_EQ(0, waitid(P_PID, pid, NULL, WEXITED | WNOWAIT));
	/* It has no memory any more, and then it is gone. */
	EXPECT_EQ(-ESRCH, ask(self, pidfd, addr));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(-ESRCH, ask(self, pidfd, addr));
	close(pidfd);

	/* A kernel thread */
	pidfd = pidfd_of(2);
	if (pidfd >= 0) {
		EXPECT_EQ(-ESRCH, ask(self, pidfd, addr));
		close(pidfd);
	}
}

/* Afterwards the first page of the file is no code. */
static void check_addresses(struct __test_metadata *_metadata, struct _test_data_dev *self,
			    ask_fn *ask)
{
	u8 *mem = map_anon(0, PAGE, PROT_CODE, 0);
	const u64 data[] = {
		0, -1ULL, 1ULL << 47,
		/* vsyscall */
		0xffffffffff600000,
		(unsigned long)&mem, (unsigned long)self->table,
		(unsigned long)self->file.mem + PAGE - 1,
	};
	unsigned int i;

	ASSERT_EQ(0, mprotect(self->file.mem, PAGE, PROT_READ));
	for (i = 0; i < ARRAY_SIZE(data); i++) {
		EXPECT_EQ(-EFAULT, ask(self, self->pidfd, data[i])) {
			TH_LOG("address %#llx", (unsigned long long)data[i]);
		}
	}
	EXPECT_EQ(-ENOEXEC, ask(self, self->pidfd, (unsigned long)mem));
	ASSERT_EQ(0, munmap(mem, PAGE));
	EXPECT_EQ(-EFAULT, ask(self, self->pidfd, (unsigned long)mem));
}

/* Is the argument taken? Then the table can be attached to the file once more. */
static bool is_taken(struct _test_data_dev *self, unsigned int cmd, union big *big)
{
	int ret = ioctl(self->fd, cmd, big);

	if (_IOC_NR(cmd) == _IOC_NR(UNWIND_TABLE_MAKE))
		return ret > 0;
	if (_IOC_NR(cmd) == _IOC_NR(UNWIND_TABLE_QUERY))
		return ret == 1;
	if (ret || !renew(self))
		return false;
	big->attach.table = self->nr;
	return true;
}

static int refusal(struct _test_data_dev *self, unsigned int cmd, void *arg)
{
	return ioctl(self->fd, cmd, arg) < 0 ? errno : 0;
}

/* Larger arguments are taken if what is unknown in them is 0. */
static void check_sizes(struct __test_metadata *_metadata, struct _test_data_dev *self,
			unsigned int cmd, union big *big)
{
	const u32 size = _IOC_SIZE(cmd), sizes[] = { size + 1, size + 8, PAGE };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		big->size = sizes[i];
		EXPECT_TRUE(is_taken(self, cmd, big));
		big->bytes[size] = 1;
		EXPECT_EQ(E2BIG, refusal(self, cmd, big));
		big->bytes[size] = 0;
		big->bytes[sizes[i] - 1] = 1;
		EXPECT_EQ(E2BIG, refusal(self, cmd, big));
		big->bytes[sizes[i] - 1] = 0;
		/* It is not looked at. */
		big->bytes[sizes[i]] = 1;
		EXPECT_TRUE(is_taken(self, cmd, big));
		big->bytes[sizes[i]] = 0;
	}
	big->size = PAGE + 1;
	EXPECT_EQ(E2BIG, refusal(self, cmd, big));
	big->size = -1;
	EXPECT_EQ(E2BIG, refusal(self, cmd, big));
	for (i = 0; i < size; i++) {
		big->size = i;
		EXPECT_EQ(EINVAL, refusal(self, cmd, big));
	}
	/* The size that is part of the command may be that of another kernel. */
	big->size = 64;
	EXPECT_TRUE(is_taken(self, _IOC(_IOC_WRITE, UNWIND_TABLE_IOC, _IOC_NR(cmd), 64), big));
	EXPECT_EQ(EFAULT, refusal(self, cmd, (void *)8));
}

static int make_arg(int fd, void *arg)
{
	int ret = ioctl(fd, UNWIND_TABLE_MAKE, arg);

	return ret < 0 ? -errno : ret;
}

/* ------------------------------------------------------------------------ */
/* UNWIND_TABLE_MAKE							      */

TEST_F(dev, tables_have_numbers_of_their_own)
{
	int second = dev_make(self->fd, self->data, self->len);

	EXPECT_EQ(1, self->nr);
	EXPECT_EQ(2, second);
	EXPECT_EQ(2, dev_info(self->fd, "tables"));
	EXPECT_EQ(0, dev_drop(self->fd, second));
	EXPECT_EQ(-ENOENT, dev_drop(self->fd, second));
	EXPECT_EQ(1, dev_info(self->fd, "tables"));
	/* An old number does not stand for a later table. */
	EXPECT_EQ(3, dev_make(self->fd, self->data, self->len));
	EXPECT_EQ(0, dev_drop(self->fd, 3));
	EXPECT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
}

TEST_F(dev, make_refuses_arguments_that_make_no_sense)
{
	const u64 data = (unsigned long)self->data, len = self->len;
	u8 *last = self->data + TABLE_ROOM - PAGE;
	const struct {
		u64 data, len;
		u32 flags;
		int ret;
	} cases[] = {
		{ data, len, 1, -EINVAL }, { data, len, 1U << 31, -EINVAL },
		{ data, 0, 0, -EINVAL }, { data, len - 1, 0, -EINVAL },
		{ data, len + 1, 0, -EINVAL }, { data, 1ULL << 30, 0, -E2BIG },
		{ data, (1ULL << 32) + len, 0, -E2BIG }, { data, -1ULL, 0, -E2BIG },
		{ 8, len, 0, -EFAULT }, { 1ULL << 63, len, 0, -EFAULT },
		/* Only its first byte can be read. */
		{ (unsigned long)last - 1, len, 0, -EFAULT },
		{ data, len, 0, 2 },
	};
	unsigned int i;

	ASSERT_EQ(0, mprotect(last, PAGE, PROT_NONE));
	EXPECT_EQ(-EFAULT, make_arg(self->fd, (void *)8));
	EXPECT_EQ(-EFAULT, make_arg(self->fd, last));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct unwind_table_make arg = {
			.size = sizeof(arg), .flags = cases[i].flags, .data = cases[i].data,
			.len = cases[i].len,
		};

		EXPECT_EQ(1, dev_info(self->fd, "tables"));
		EXPECT_EQ(cases[i].ret, make_arg(self->fd, &arg)) {
			TH_LOG("case %u", i);
		}
	}
}

TEST_F(dev, make_refuses_flags_and_reserved_fields_of_the_header)
{
	struct unwind_table_header *h = &self->table->header;
	unsigned int i;

	for (i = 0; i < 32; i++) {
		h->flags = 1U << i;
		EXPECT_EQ(-EINVAL, dev_make_table(self->fd, self->table));
	}
	h->flags = 0;
	for (i = 0; i < ARRAY_SIZE(h->reserved); i++) {
		h->reserved[i] = 1U << 31;
		EXPECT_EQ(-EINVAL, dev_make_table(self->fd, self->table));
		h->reserved[i] = 0;
	}
	EXPECT_EQ(2, dev_make_table(self->fd, self->table));
}

TEST_F(dev, table_at_an_odd_address_is_taken)
{
	memmove(self->data + 3, self->data, self->len);
	EXPECT_EQ(2, dev_make(self->fd, self->data + 3, self->len));
}

TEST_F(dev, make_takes_larger_arguments_if_what_is_unknown_is_0)
{
	union big big = { };

	big.make.data = (unsigned long)self->data;
	big.make.len = self->len;
	check_sizes(_metadata, self, UNWIND_TABLE_MAKE, &big);
}

/* The size that is part of the command may be that of another kernel. */
TEST_F(dev, commands_of_other_sizes_are_the_same)
{
	union big big = { };

	big.make.size = 64;
	big.make.data = (unsigned long)self->data;
	big.make.len = self->len;
	EXPECT_EQ(2, ioctl(self->fd, _IOC(_IOC_WRITE, UNWIND_TABLE_IOC, 0, 64), &big));
}

TEST_F(dev, other_commands_are_refused)
{
	static const unsigned int cmds[] = {
		_IOC(_IOC_WRITE, UNWIND_TABLE_IOC, 4, 24),
		_IOC(_IOC_WRITE, UNWIND_TABLE_IOC, 2, 24),
		_IOC(_IOC_READ, UNWIND_TABLE_IOC, 0, 24),
		_IOC(_IOC_NONE, UNWIND_TABLE_IOC, 0, 0),
		_IOC(_IOC_NONE, UNWIND_TABLE_IOC, 3, 0),
		_IOC(_IOC_READ, UNWIND_TABLE_IOC, 3, 16),
		_IOC(_IOC_WRITE, UNWIND_TABLE_IOC + 1, 0, 24),
		0,
	};
	struct unwind_table_make arg = {
		.size = sizeof(arg), .data = (unsigned long)self->data,
		.len = self->len,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cmds); i++) {
		errno = 0;
		EXPECT_EQ(-1, ioctl(self->fd, cmds[i], &arg));
		EXPECT_EQ(ENOTTY, errno);
	}
}

TEST_F(dev, trace_event_says_why_a_table_was_refused)
{
	struct unwind_table_row *row;

	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_table", true));
	self->table->header.version = 9;
	EXPECT_EQ(-EINVAL, dev_make_table(self->fd, self->table));
	EXPECT_EQ(1, trace_count_of_task("unwind_table: table=0 rows=0 bytes="));
	EXPECT_EQ(1, trace_count_of_task(" version"));
	self->table->header.version = UNWIND_TABLE_VERSION;
	row = &self->table->rows[self->table->header.nr_rows - 1];
	row->offset = PAGE;
	EXPECT_EQ(-EINVAL, dev_make_table(self->fd, self->table));
	ASSERT_EQ(0, trace_event("unwind_table", false));
	EXPECT_EQ(2, trace_count_of_task("unwind_table: table=0 rows=0 bytes="));
}

TEST_F(dev, trace_event_tells_what_became_of_a_table)
{
	trace_clear();
	ASSERT_EQ(0, trace_event("unwind_table", true));
	ASSERT_EQ(0, trace_event("unwind_table_file", true));
	self->nr = dev_make(self->fd, self->data, self->len);
	ASSERT_LT(0, self->nr);
	EXPECT_EQ(1, trace_count_of_task(" made"));
	ASSERT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	EXPECT_EQ(1, trace_count_of_task(" attached"));
	EXPECT_EQ(0, dev_drop(self->fd, self->nr));
	EXPECT_EQ(1, trace_count_of_task(" detached"));
	EXPECT_EQ(1, trace_count_of_task(" gone"));
	ASSERT_EQ(0, trace_event("unwind_table", false));
	ASSERT_EQ(0, trace_event("unwind_table_file", false));
}

/* ------------------------------------------------------------------------ */
/* UNWIND_TABLE_ATTACH							      */

TEST_F(dev, attach_refuses_arguments_that_make_no_sense)
{
	const struct unwind_table_attach arg = attach_arg(self);
	struct unwind_table_attach bad[5] = { arg, arg, arg, arg, arg };
	unsigned int i;

	bad[0].flags |= 2;
	bad[1].mtime_nsec = 1000000000;
	/* The file is named without saying so. */
	bad[2].flags = 0;
	/* Or no file is named, as for the vDSO. */
	bad[3] = attach_arg_of(self->nr, self->file.mem, NULL);
	bad[3].pidfd = self->pidfd;
	/* Arguments for files, with the vDSO */
	bad[4].address = getauxval(AT_SYSINFO_EHDR);
	for (i = 0; i < (bad[4].address ? 5 : 4); i++) {
		EXPECT_EQ(-EINVAL, dev_attach(self->fd, &bad[i])) {
			TH_LOG("case %u", i);
		}
	}
	EXPECT_EQ(EFAULT, refusal(self, UNWIND_TABLE_ATTACH, (void *)8));
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
	EXPECT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	EXPECT_EQ(1, dev_info(self->fd, "attached"));
}

TEST_F(dev, attach_takes_larger_arguments_if_what_is_unknown_is_0)
{
	union big big = { };

	big.attach = attach_arg(self);
	check_sizes(_metadata, self, UNWIND_TABLE_ATTACH, &big);
}

TEST_F(dev, attach_wants_a_table_that_there_is)
{
	static const u32 tables[] = { 0, 2, 65536, 65537, -1 };
	struct unwind_table_attach arg = attach_arg(self);
	unsigned int i;
	int other;

	for (i = 0; i < ARRAY_SIZE(tables); i++) {
		arg.table = tables[i];
		EXPECT_EQ(-ENOENT, dev_attach(self->fd, &arg));
	}
	/* Numbers are those of a descriptor. */
	arg.table = self->nr;
	other = dev_open();
	EXPECT_EQ(-ENOENT, dev_attach(other, &arg));
	close(other);
	EXPECT_EQ(0, dev_drop(self->fd, self->nr));
	EXPECT_EQ(-ENOENT, dev_attach(self->fd, &arg));
}

TEST_F(dev, drop_wants_a_table_that_there_is)
{
	static const unsigned long tables[] = {
		0, 2, 65536, 65537, 0xffffffff, 0x100000001, -1
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tables); i++)
		EXPECT_EQ(-ENOENT, dev_drop(self->fd, tables[i]));
	EXPECT_EQ(0, dev_drop(self->fd, self->nr));
	EXPECT_EQ(-ENOENT, dev_drop(self->fd, self->nr));
}

TEST_F(dev, attach_wants_a_process)
{
	check_processes(_metadata, self, attach_at);
}

static void *sleeps_for_good(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* The first thread of a process exits before the other. Does not return. */
static void exits_in_the_first_thread(void)
{
	pthread_t thread;

	alarm(60);
	if (!pthread_create(&thread, NULL, sleeps_for_good, NULL))
		syscall(SYS_exit, 0);
	_exit(1);
}

TEST_F(dev, attach_takes_a_process_whose_main_thread_has_exited)
{
	struct unwind_table_attach arg = attach_arg(self);
	char path[32], state[256] = "";
	pid_t pid;
	int i;

	pid = fork();
	if (!pid)
		exits_in_the_first_thread();
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (i = 0; i < 5000 && !strstr(state, ") Z"); i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		usleep(1000);
		EXPECT_LT(0, read(fd, state, sizeof(state) - 1));
		close(fd);
	}
	EXPECT_NE(NULL, strstr(state, ") Z"));
	arg.pidfd = pidfd_of(pid);
	EXPECT_EQ(0, dev_attach(self->fd, &arg));
	EXPECT_TRUE(child_kill(pid));
	EXPECT_EQ(-ESRCH, dev_attach(self->fd, &arg));
	close(arg.pidfd);
}

static void *attaches_in_a_thread(void *data)
{
	struct _test_data_dev *self = data;
	struct unwind_table_attach arg = attach_arg(self);
	long ret;

	/* PIDFD_THREAD */
	arg.pidfd = syscall(SYS_pidfd_open, gettid(), O_EXCL);
	ret = arg.pidfd < 0 ? -EIO : dev_attach(self->fd, &arg);
	close(arg.pidfd);
	return (void *)ret;
}

TEST_F(dev, attach_takes_a_thread)
{
	pthread_t thread;
	void *ret;

	ASSERT_EQ(0, pthread_create(&thread, NULL, attaches_in_a_thread, self));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(0, (long)ret);
}

TEST_F(dev, attach_wants_executable_code_of_a_file)
{
	struct unwind_table_attach arg = attach_arg(self);

	check_addresses(_metadata, self, attach_at);
	/* Any address of the mapping will do. The file need not be open for reading. */
	arg.file = open(self->file.path, O_PATH | O_CLOEXEC);
	arg.address += FILE_PAGES * PAGE - 1;
	EXPECT_EQ(0, dev_attach(self->fd, &arg));
	close(arg.file);
}

/* Another file with the same size and time */
static bool make_double(const struct code_file *of, const char *name,
			struct code_file *f)
{
	struct timespec times[2] = { of->st.st_mtim, of->st.st_mtim };

	if (!file_make(f, test_path(name), 0x90) || futimens(f->fd, times) ||
	    fstat(f->fd, &f->st))
		return false;
	return f->st.st_size == of->st.st_size &&
	       !memcmp(&f->st.st_mtim, &of->st.st_mtim, sizeof(of->st.st_mtim));
}

/*
 * The file that is read is one of a process, with rules of its own; then a file that others run
 * is mapped in its place.
 */
TEST_F(dev, file_that_took_the_place_of_the_one_that_was_read)
{
	struct unwind_table_attach arg = attach_arg(self);
	struct code_file victim;

	ASSERT_TRUE(make_double(&self->file, "victim", &victim));
	ASSERT_TRUE(file_map_over(&victim, self->file.mem));
	EXPECT_EQ(-ESTALE, dev_attach(self->fd, &arg));
	EXPECT_TRUE(walks_by_fp(victim.mem));
	arg.file = -1;
	EXPECT_EQ(-EBADF, dev_attach(self->fd, &arg));
	arg.file = self->fd;
	EXPECT_EQ(-ESTALE, dev_attach(self->fd, &arg));
	arg.file = victim.fd;
	EXPECT_EQ(0, dev_attach(self->fd, &arg));
	file_end(&victim);
}

TEST_F(dev, attach_wants_the_file_that_the_table_is_for)
{
	const struct unwind_table_attach arg = attach_arg(self);
	struct unwind_table_attach stale[] = { arg, arg, arg, arg, arg, arg };
	static const struct {
		int flags, ret;
	} opens[] = { { O_WRONLY, -ETXTBSY }, { O_RDWR, -ETXTBSY }, { O_RDONLY, 0 } };
	unsigned int i;

	stale[0].file_size++;
	stale[1].file_size = 0;
	stale[2].file_size += 1ULL << 32;
	stale[3].mtime_sec++;
	stale[4].mtime_sec = -1;
	stale[5].mtime_nsec ^= 1;
	for (i = 0; i < ARRAY_SIZE(stale); i++) {
		EXPECT_EQ(-ESTALE, dev_attach(self->fd, &stale[i])) {
			TH_LOG("case %u", i);
		}
	}
	for (i = 0; i < ARRAY_SIZE(opens); i++) {
		int fd = open(self->file.path, opens[i].flags | O_CLOEXEC);

		ASSERT_LE(0, fd);
		EXPECT_EQ(opens[i].ret, file_attach(self->fd, self->nr, &self->file));
		close(fd);
	}
}

/* Nothing is written to it, but somebody could. */
TEST_F(dev, file_with_a_writable_mapping_is_open_for_writing)
{
	int fd = open(self->file.path, O_RDWR | O_CLOEXEC);
	void *mem = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	close(fd);
	ASSERT_NE(MAP_FAILED, mem);
	EXPECT_EQ(-ETXTBSY, file_attach(self->fd, self->nr, &self->file));
	munmap(mem, PAGE);
	EXPECT_EQ(0, file_attach(self->fd, self->nr, &self->file));
}

/* Change the time of the file, and attach to the file as it is then. */
static int attach_changed(struct _test_data_dev *self, const struct timespec *times)
{
	struct code_file *f = &self->file;

	if (utimensat(AT_FDCWD, f->path, times, 0) || fstat(f->fd, &f->st))
		return -EIO;
	return file_attach(self->fd, self->nr, f);
}

/* A change just now might not show. */
TEST_F(dev, file_that_was_changed_just_now)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	int i, ret = 0;

	/* In the same tick of the clock, unless that goes on in between */
	for (i = 0; i < 1000 && !ret; i++) {
		ret = attach_changed(self, NULL);
		if (!ret)
			ASSERT_TRUE(renew(self));
	}
	EXPECT_EQ(-ETXTBSY, ret);
	wait_for_clock(&self->file.st);
	EXPECT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	ASSERT_TRUE(renew(self));

	/* In the same second, where there is nothing finer */
	clock_gettime(CLOCK_REALTIME, &times[1]);
	times[1].tv_nsec = 0;
	EXPECT_EQ(-ETXTBSY, attach_changed(self, times));
	times[1].tv_sec -= 10;
	EXPECT_EQ(0, attach_changed(self, times));
}

/* It is not counted as open for writing, but the holder of the descriptor can write. */
TEST_F(dev, memfd_needs_to_be_sealed)
{
	struct code_file f = { .fd = memfd_create("table", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
	const pid_t me = getpid();
	void *rw;

	ASSERT_EQ(0, ftruncate(f.fd, PAGE));
	ASSERT_EQ(0, fstat(f.fd, &f.st));
	wait_for_clock(&f.st);
	f.mem = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, f.fd, 0);
	ASSERT_NE(MAP_FAILED, (void *)f.mem);
	EXPECT_EQ(-ENOEXEC, attach_as(self->fd, self->nr, me, f.mem, &f));
	ASSERT_EQ(0, fcntl(f.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	EXPECT_EQ(-ENOEXEC, attach_as(self->fd, self->nr, me, f.mem, &f));
	/* A process that had it mapped before can still write. */
	rw = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, f.fd, 0);
	ASSERT_NE(MAP_FAILED, rw);
	ASSERT_EQ(0, fcntl(f.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	EXPECT_EQ(-ETXTBSY, attach_as(self->fd, self->nr, me, f.mem, &f));
	munmap(rw, PAGE);
	EXPECT_EQ(0, attach_as(self->fd, self->nr, me, f.mem, &f));
	munmap(f.mem, PAGE);
	close(f.fd);
}

TEST_F(dev, descriptor_attaches_to_a_file_once)
{
	int second = dev_make(self->fd, self->data, self->len);
	int other = dev_open(), nr;

	ASSERT_LT(0, second);
	EXPECT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	EXPECT_EQ(-EEXIST, file_attach(self->fd, self->nr, &self->file));
	EXPECT_EQ(-EEXIST, file_attach(self->fd, second, &self->file));
	EXPECT_EQ(1, dev_info(self->fd, "attached"));
	nr = dev_make(other, self->data, self->len);
	EXPECT_EQ(0, file_attach(other, nr, &self->file));
	EXPECT_EQ(-EEXIST, file_attach(other, nr, &self->file));
	close(other);
	ASSERT_EQ(0, dev_drop(self->fd, self->nr));
	EXPECT_EQ(0, file_attach(self->fd, second, &self->file));
}

TEST_F(dev, table_for_many_files)
{
	struct code_file files[10];
	char name[16];
	int i;

	for (i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "many%d", i);
		ASSERT_TRUE(file_make(&files[i], test_path(name), i));
		EXPECT_EQ(0, file_attach(self->fd, self->nr, &files[i]));
		EXPECT_EQ(i + 1, dev_info(self->fd, "attached"));
		EXPECT_TRUE(walks_plain(files[i].mem, 0));
	}
	EXPECT_EQ(0, dev_drop(self->fd, self->nr));
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
	for (i = 0; i < 10; i++) {
		EXPECT_TRUE(walks_by_fp(files[i].mem));
		file_end(&files[i]);
	}
}

/* ------------------------------------------------------------------------ */
/* UNWIND_TABLE_QUERY							      */

TEST_F(dev, query_tells_whether_there_is_a_table)
{
	struct unwind_table_query arg = query_arg(self);
	int other = dev_open();

	EXPECT_EQ(0, dev_query(self->fd, &arg));
	ASSERT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	EXPECT_EQ(1, dev_query(self->fd, &arg));
	/* Any address of the mapping, and anybody's descriptor */
	arg.address += FILE_PAGES * PAGE - 1;
	EXPECT_EQ(1, dev_query(self->fd, &arg));
	EXPECT_EQ(1, dev_query(other, &arg));
	ASSERT_LT(0, plain_use(other, 0, &self->file));
	ASSERT_EQ(0, dev_drop(self->fd, self->nr));
	EXPECT_EQ(1, dev_query(self->fd, &arg));
	close(other);
	EXPECT_EQ(0, dev_query(self->fd, &arg));
}

/* Also where a walk would find no rule */
TEST_F(dev, query_is_about_the_file_and_not_about_the_rules)
{
	struct code_file second = self->file, other;

	table_of_one(self->table, 12 * PAGE, OUTERMOST, 13 * PAGE);
	ASSERT_LT(0, file_use(self->fd, self->table, &self->file));
	EXPECT_EQ(1, dev_query_at(self->fd, getpid(), self->file.mem));
	ASSERT_TRUE(file_map(&second));
	EXPECT_EQ(1, dev_query_at(self->fd, getpid(), second.mem));
	ASSERT_TRUE(file_make(&other, test_path("other"), 0xcc));
	EXPECT_EQ(0, dev_query_at(self->fd, getpid(), other.mem));
	/* It takes the place of the second mapping. */
	ASSERT_TRUE(file_map_over(&other, second.mem));
	EXPECT_EQ(0, dev_query_at(self->fd, getpid(), second.mem));
	ASSERT_TRUE(file_map_over(&self->file, second.mem));
	EXPECT_EQ(1, dev_query_at(self->fd, getpid(), second.mem));
	file_unmap(&second);
	file_end(&other);
}

TEST_F(dev, query_of_the_vdso)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);

	if (!vdso)
		SKIP(return, "needs a vDSO");
	EXPECT_EQ(0, dev_query_at(self->fd, getpid(), vdso));
	ASSERT_EQ(0, attach_as(self->fd, self->nr, getpid(), vdso, NULL));
	EXPECT_EQ(1, dev_query_at(self->fd, getpid(), vdso));
	ASSERT_EQ(0, dev_drop(self->fd, self->nr));
	EXPECT_EQ(0, dev_query_at(self->fd, getpid(), vdso));
}

TEST_F(dev, query_wants_executable_code_of_a_file)
{
	u8 *code = self->file.mem + PAGE;

	ASSERT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	check_addresses(_metadata, self, query_at);
	EXPECT_EQ(1, dev_query_at(self->fd, getpid(), code));
	/* Code that may differ from that of the file */
	ASSERT_EQ(0, mprotect(code, PAGE, PROT_CODE));
	EXPECT_EQ(-ETXTBSY, dev_query_at(self->fd, getpid(), code));
	ASSERT_EQ(0, mprotect(code, PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(1, dev_query_at(self->fd, getpid(), code));
}

TEST_F(dev, query_wants_a_process)
{
	check_processes(_metadata, self, query_at);
}

struct moved {
	const struct code_file *file;
	u8 *to;
};

/* The file is mapped elsewhere. */
static bool moves_the_file(void *arg)
{
	const struct moved *m = arg;

	return file_map_at(m->file->path, (unsigned long)m->to, PAGE, PAGE) &&
	       !munmap(m->file->mem, FILE_PAGES * PAGE);
}

/* It looks into the other one, not into the caller. */
TEST_F(dev, query_is_about_the_process_that_it_names)
{
	u8 *mem = map_anon(0, PAGE, PROT_CODE, 0);
	struct moved moved = { &self->file, mem };
	pid_t pid;

	ASSERT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	pid = child_that_waits(moves_the_file, &moved);
	ASSERT_LT(0, pid);
	EXPECT_EQ(1, dev_query_at(self->fd, pid, mem));
	EXPECT_EQ(-ENOEXEC, dev_query_at(self->fd, getpid(), mem));
	EXPECT_EQ(-EFAULT, dev_query_at(self->fd, pid, self->file.mem));
	EXPECT_EQ(1, dev_query_at(self->fd, getpid(), self->file.mem));
	ASSERT_TRUE(child_kill(pid));
	munmap(mem, PAGE);
}

TEST_F(dev, query_takes_larger_arguments_if_what_is_unknown_is_0)
{
	union big big = { };

	ASSERT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	big.query = query_arg(self);
	check_sizes(_metadata, self, UNWIND_TABLE_QUERY, &big);
}

/* ------------------------------------------------------------------------ */
/* Rights								      */

#define NOBODY		65534

static bool set_caps(u64 effective, u64 permitted)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = {
		{ .effective = effective, .permitted = permitted },
		{ .effective = effective >> 32, .permitted = permitted >> 32 },
	};

	return !syscall(SYS_capset, &header, data);
}

#define CAP(nr)		(1ULL << (nr))

/* Another user, with these capabilities and no others. */
static bool become_nobody(u64 caps)
{
	return !prctl(PR_SET_KEEPCAPS, 1) && !setresgid(NOBODY, NOBODY, NOBODY) &&
	       !setresuid(NOBODY, NOBODY, NOBODY) && set_caps(caps, caps) &&
	       !prctl(PR_SET_DUMPABLE, 1);
}

/* All of these return an errno. */
static int opens_as_nobody(u64 caps)
{
	int fd = become_nobody(caps) ? dev_open() : -200;

	return fd < 0 ? -fd : 0;
}

TEST_F(dev, opening_takes_cap_perfmon)
{
	const u64 perfmon = CAP(CAP_PERFMON), admin = CAP(CAP_SYS_ADMIN);
	const u64 others = (2 * admin - 1) & ~(perfmon | admin);

	EXPECT_EQ(EPERM, IN_CHILD(opens_as_nobody(0)));
	EXPECT_EQ(0, IN_CHILD(opens_as_nobody(perfmon)));
	EXPECT_EQ(0, IN_CHILD(opens_as_nobody(admin)));
	EXPECT_EQ(EPERM, IN_CHILD(opens_as_nobody(others)));
}

static int opens_as_root_of_a_namespace(void)
{
	int fd = unshare(CLONE_NEWUSER) ? -201 : dev_open();

	return fd < 0 ? -fd : 0;
}

TEST_F(dev, root_of_a_user_namespace_cannot_open)
{
	int ret = IN_CHILD(opens_as_root_of_a_namespace());

	if (ret == 201)
		SKIP(return, "needs user namespaces (CONFIG_USER_NS)");
	EXPECT_EQ(EPERM, ret);
}

/* A descriptor that somebody else opened can be used without capabilities. */
static int makes_and_drops_as_nobody(struct _test_data_dev *self)
{
	int nr;

	if (!become_nobody(0))
		return 200;
	nr = dev_make(self->fd, self->data, self->len);
	return nr < 0 ? -nr : -dev_drop(self->fd, nr);
}

static int attaches_to_as_nobody(struct _test_data_dev *self, pid_t pid, u64 caps)
{
	if (!become_nobody(caps))
		return 200;
	return -attach_as(self->fd, self->nr, pid, self->file.mem, &self->file);
}

TEST_F(dev, descriptor_is_used_with_the_rights_of_its_opener)
{
	ASSERT_EQ(0, chmod(test_dir(), 0755));
	EXPECT_EQ(0, IN_CHILD(makes_and_drops_as_nobody(self)));
}

/* But for mappings of others the rights of the caller count. */
TEST_F(dev, attaching_takes_cap_perfmon_and_ptrace_access)
{
	u64 perfmon = CAP(CAP_PERFMON), ptrace = CAP(CAP_SYS_PTRACE);
	pid_t me = getpid();

	EXPECT_EQ(EPERM, IN_CHILD(attaches_to_as_nobody(self, getpid(), 0)));
	EXPECT_EQ(EPERM, IN_CHILD(attaches_to_as_nobody(self, me, 0)));
	EXPECT_EQ(EPERM, IN_CHILD(attaches_to_as_nobody(self, me, ptrace)));
	EXPECT_EQ(EACCES, IN_CHILD(attaches_to_as_nobody(self, me, perfmon)));
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
	EXPECT_EQ(0, IN_CHILD(attaches_to_as_nobody(self, me, perfmon | ptrace)));
	ASSERT_EQ(1, dev_info(self->fd, "attached"));
	ASSERT_TRUE(renew(self));
	EXPECT_EQ(0, IN_CHILD(attaches_to_as_nobody(self, getpid(), perfmon)));
	EXPECT_EQ(1, dev_info(self->fd, "attached"));
}

static int queries_as_nobody(struct _test_data_dev *self, pid_t pid, u64 caps)
{
	int ret;

	if (!become_nobody(caps))
		return 200;
	ret = dev_query_at(self->fd, pid, self->file.mem);
	/* 0 and 1 are answers. */
	return ret < 0 ? -ret : 100 + ret;
}

TEST_F(dev, asking_takes_cap_perfmon_and_ptrace_access)
{
	u64 perfmon = CAP(CAP_PERFMON), ptrace = CAP(CAP_SYS_PTRACE);
	pid_t me = getpid();

	ASSERT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	EXPECT_EQ(EPERM, IN_CHILD(queries_as_nobody(self, getpid(), 0)));
	EXPECT_EQ(EPERM, IN_CHILD(queries_as_nobody(self, me, ptrace)));
	EXPECT_EQ(EACCES, IN_CHILD(queries_as_nobody(self, me, perfmon)));
	EXPECT_EQ(101, IN_CHILD(queries_as_nobody(self, me, perfmon | ptrace)));
	/* Its own memory, which is that of a child */
	EXPECT_EQ(101, IN_CHILD(queries_as_nobody(self, getpid(), perfmon)));
}

/* ------------------------------------------------------------------------ */
/* Descriptors that are passed on					      */

/* Send a message of one byte with a descriptor, or receive one. Returns that, or -1. */
static int pass_fd(int sock, int fd)
{
	char c = 0, room[CMSG_SPACE(sizeof(fd))] = { };
	struct iovec iov = { .iov_base = &c, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room,
		.msg_controllen = sizeof(room),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	if (fd < 0) {
		if (recvmsg(sock, &msg, 0) == 1 && msg.msg_controllen)
			memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
		return fd;
	}
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	return sendmsg(sock, &msg, 0) == 1 ? fd : -1;
}

/* A child attaches to its parent, and passes its descriptor on. */
static int child_sends(struct _test_data_dev *self, int sock)
{
	int fd = dev_open(), nr;

	nr = dev_make(fd, self->data, self->len);
	if (nr < 0 || attach_as(fd, nr, getppid(), self->file.mem, &self->file))
		return 1;
	return pass_fd(sock, fd) < 0 ? 2 : 0;
}

TEST_F(dev, passed_descriptor_keeps_its_tables)
{
	int socks[2], fd;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, socks));
	EXPECT_EQ(0, IN_CHILD(child_sends(self, socks[1])));
	/* It is in the socket only. */
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
	fd = pass_fd(socks[0], -1);
	ASSERT_LE(0, fd);
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
	EXPECT_EQ(1, dev_info(fd, "tables"));
	EXPECT_EQ(1, dev_info(fd, "attached"));
	EXPECT_EQ(-EEXIST, file_attach(fd, 1, &self->file));
	close(fd);
	EXPECT_TRUE(walks_by_fp(self->file.mem));
	close(socks[0]);
	close(socks[1]);
}

TEST_F(dev, descriptor_in_a_socket_that_nobody_reads_goes_with_it)
{
	int socks[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, socks));
	EXPECT_EQ(0, IN_CHILD(child_sends(self, socks[1])));
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
	close(socks[0]);
	close(socks[1]);
	EXPECT_TRUE(walks_by_fp(self->file.mem));
}

static int drops_of_parent(struct _test_data_dev *self)
{
	return -dev_drop(self->fd, self->nr);
}

TEST_F(dev, descriptor_of_a_forked_child_is_the_same_one)
{
	ASSERT_EQ(0, file_attach(self->fd, self->nr, &self->file));
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
	EXPECT_EQ(0, IN_CHILD(0));
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
	EXPECT_EQ(0, IN_CHILD(drops_of_parent(self)));
	EXPECT_TRUE(walks_by_fp(self->file.mem));
	EXPECT_EQ(0, dev_info(self->fd, "tables"));
}

/* ------------------------------------------------------------------------ */
/* Owners of files							      */

#define PERFMON		CAP(CAP_PERFMON)
#define WITH_ADMIN	(PERFMON | CAP(CAP_SYS_ADMIN))

/* Nobody opens the device with @opening, and has @caps after that. Returns a table's number. */
static int opens_as(struct _test_data_dev *self, u64 opening, u64 caps)
{
	if (!become_nobody(opening | caps) || !set_caps(opening, opening | caps))
		return -1;
	self->fd = dev_open();
	return set_caps(caps, caps) ? dev_make(self->fd, self->data, self->len) : -1;
}

/* ... and attaches. The result is an errno. */
static int attaches_as(struct _test_data_dev *self, u64 opening, u64 caps, const void *addr,
		       const struct code_file *f)
{
	int nr = opens_as(self, opening, caps);

	return nr < 0 ? 200 : -attach_as(self->fd, nr, getpid(), addr, f);
}

static int attaches_file_as(struct _test_data_dev *self, u64 opening, u64 caps,
			    const struct code_file *f)
{
	return attaches_as(self, opening, caps, f->mem, f);
}

/* The C library of this program, mapped once more */
static bool map_libc(struct code_file *f)
{
	return file_offset(dlsym(RTLD_DEFAULT, "getppid"), f->path, sizeof(f->path)) &&
	       file_map(f);
}

/* All tracers believe a table for a file of root's. */
TEST_F(dev, cap_perfmon_alone_attaches_to_own_files_only)
{
	struct code_file *f = &self->file, libc;

	ASSERT_TRUE(map_libc(&libc));
	ASSERT_EQ(0, libc.st.st_uid);
	EXPECT_EQ(EPERM, IN_CHILD(attaches_file_as(self, PERFMON, PERFMON, &libc)));
	EXPECT_EQ(0, IN_CHILD(attaches_file_as(self, WITH_ADMIN, WITH_ADMIN, &libc)));
	file_unmap(&libc);

	EXPECT_EQ(EPERM, IN_CHILD(attaches_file_as(self, PERFMON, PERFMON, f)));
	ASSERT_EQ(0, chown(f->path, NOBODY, 0));
	EXPECT_EQ(0, IN_CHILD(attaches_file_as(self, PERFMON, PERFMON, f)));
	/* A group owns nothing. */
	ASSERT_EQ(0, chown(f->path, 1, NOBODY));
	EXPECT_EQ(EPERM, IN_CHILD(attaches_file_as(self, PERFMON, PERFMON, f)));
}

/* The opener may give the capability up later; a later holder has not opened it. */
TEST_F(dev, cap_sys_admin_counts_when_the_device_is_opened)
{
	struct code_file *f = &self->file;

	EXPECT_EQ(0, IN_CHILD(attaches_file_as(self, WITH_ADMIN, PERFMON, f)));
	EXPECT_EQ(EPERM, IN_CHILD(attaches_file_as(self, PERFMON, WITH_ADMIN, f)));
	/* The right to change any file is the caller's. */
	EXPECT_EQ(0, IN_CHILD(attaches_file_as(self, PERFMON, PERFMON | CAP(CAP_FOWNER), f)));
	EXPECT_EQ(EPERM, IN_CHILD(attaches_file_as(self, PERFMON | CAP(CAP_FOWNER), PERFMON, f)));
}

/* Many containers have the file below it. */
TEST_F(dev, owner_of_a_file_on_overlayfs_does_not_attach)
{
	struct code_file f;
	struct overlay o;

	if (!overlay_make(&o, ""))
		SKIP(return, "needs overlayfs (CONFIG_OVERLAY_FS)");
	EXPECT_EQ(0, chown(o.lower.path, NOBODY, NOBODY));
	EXPECT_TRUE(overlay_map(&o, &f));
	EXPECT_EQ(NOBODY, f.st.st_uid);
	EXPECT_EQ(EPERM, IN_CHILD(attaches_file_as(self, PERFMON, PERFMON, &f)));
	EXPECT_EQ(EPERM, IN_CHILD(attaches_file_as(self, PERFMON, PERFMON | CAP(CAP_FOWNER), &f)));
	EXPECT_EQ(0, IN_CHILD(attaches_file_as(self, WITH_ADMIN, PERFMON, &f)));
	EXPECT_EQ(0, IN_CHILD(attaches_file_as(self, PERFMON, PERFMON, &o.lower)));
	file_unmap(&f);
	overlay_end(&o);
}

TEST_F(dev, vdso_takes_cap_sys_admin)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	u64 owner = PERFMON | CAP(CAP_FOWNER);

	if (!vdso)
		SKIP(return, "needs a vDSO");
	EXPECT_EQ(EPERM, IN_CHILD(attaches_as(self, PERFMON, owner, vdso, NULL)));
	EXPECT_EQ(EPERM, IN_CHILD(attaches_as(self, PERFMON, WITH_ADMIN, vdso, NULL)));
	EXPECT_EQ(0, IN_CHILD(attaches_as(self, WITH_ADMIN, PERFMON, vdso, NULL)));
}

static bool unshares(void *unused)
{
	return !unshare(CLONE_NEWUSER);
}

/* A user namespace in which root's files are nobody's, or -1 */
static int open_namespace(void)
{
	static const char * const maps[] = { "uid_map", "gid_map" };
	pid_t pid = child_that_waits(unshares, NULL);
	char path[48];
	int i, fd;

	if (pid < 0)
		return -1;
	for (i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, maps[i]);
		write_file(path, "0 65534 1");
	}
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	child_kill(pid);
	return fd;
}

/* The directory once more, where the user namespace says whose its files are */
static bool mount_for(int namespace, const char *dir, const char *at)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = namespace };
	int tree = open_tree(AT_FDCWD, dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	bool ok;

	ok = tree >= 0 && !mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) &&
	     !move_mount(tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH);
	close(tree);
	return ok;
}

TEST_F(dev, owner_is_who_the_mount_says_that_he_is)
{
	int namespace = open_namespace();
	char dir[64], at[64], path[80];
	struct code_file plain, f;

	snprintf(dir, sizeof(dir), "%s", test_path("plain"));
	snprintf(at, sizeof(at), "%s", test_path("mapped"));
	snprintf(path, sizeof(path), "%s/file", dir);
	ASSERT_EQ(0, mkdir(dir, 0755));
	ASSERT_EQ(0, mkdir(at, 0755));
	ASSERT_EQ(0, mount("none", dir, "tmpfs", 0, NULL));
	ASSERT_TRUE(file_make(&plain, path, 0xcc));
	if (namespace >= 0 && mount_for(namespace, dir, at)) {
		snprintf(f.path, sizeof(f.path), "%s/file", at);
		EXPECT_TRUE(file_map(&f));
		EXPECT_EQ(NOBODY, f.st.st_uid);
		EXPECT_EQ(0, IN_CHILD(attaches_file_as(self, PERFMON, PERFMON, &f)));
		EXPECT_EQ(EPERM, IN_CHILD(attaches_file_as(self, PERFMON, PERFMON, &plain)));
		file_unmap(&f);
		EXPECT_EQ(0, umount(at));
	} else {
		fprintf(stderr, "# needs user namespaces (CONFIG_USER_NS)\n");
	}
	file_end(&plain);
	close(namespace);
	EXPECT_EQ(0, umount(dir));
	EXPECT_EQ(0, rmdir(dir));
	EXPECT_EQ(0, rmdir(at));
}

static int attaches_and_sends(struct _test_data_dev *self, int sock)
{
	if (attaches_file_as(self, PERFMON, PERFMON, &self->file))
		return 1;
	return pass_fd(sock, self->fd) < 0 ? 2 : 0;
}

/* The rights are checked once. The descriptor lets root do no more than its opener could. */
TEST_F(dev, table_of_a_file_whose_owner_changes_stays)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	int socks[2], fd;

	ASSERT_EQ(0, chown(self->file.path, NOBODY, 0));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, socks));
	ASSERT_EQ(0, IN_CHILD(attaches_and_sends(self, socks[1])));
	fd = pass_fd(socks[0], -1);
	ASSERT_LE(0, fd);
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
	ASSERT_EQ(0, chown(self->file.path, 0, 0));
	EXPECT_TRUE(walks_plain(self->file.mem, 0));
	EXPECT_EQ(1, dev_query_at(self->fd, getpid(), self->file.mem));
	if (vdso)
		EXPECT_EQ(-EPERM, attach_as(fd, 1, getpid(), vdso, NULL));
	close(fd);
	EXPECT_TRUE(walks_by_fp(self->file.mem));
	close(socks[0]);
	close(socks[1]);
}

/* ------------------------------------------------------------------------ */
/* Processes whose memory is locked					      */

/* Contents of the disk */
static const char zeroes[SLOW_PAGE_SIZE];

/*
 * Memory that has been locked, and of which nothing is there, is fetched when it becomes
 * writable: with the mmap lock held for writing, until the disk answers.
 */
static int locks_its_memory(const struct slow_disk *disk, void *at)
{
	if (mmap(at, SLOW_PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_FIXED | MAP_LOCKED,
		 disk->fd, 0) != at ||
	    mprotect(at, SLOW_PAGE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC))
		return 1;
	pause();
	return 2;
}

static const char *need_aio(void)
{
	aio_context_t context = 0;

	if (syscall(SYS_io_setup, 1, &context))
		return "needs CONFIG_AIO";
	syscall(SYS_io_destroy, context);
	return NULL;
}

/* The disk still reads into memory that execve() leaves behind, which it waits for. */
static int waits_in_execve(const struct slow_disk *disk)
{
	struct iocb iocb = { .aio_lio_opcode = IOCB_CMD_PREAD, .aio_nbytes = SLOW_PAGE_SIZE };
	struct iocb *list = &iocb;
	aio_context_t context = 0;

	iocb.aio_fildes = disk->fd;
	iocb.aio_buf = (unsigned long)map_anon(0, SLOW_PAGE_SIZE, PROT_READ | PROT_WRITE, 0);
	if (fcntl(disk->fd, F_SETFL, O_DIRECT) || syscall(SYS_io_setup, 1, &context) ||
	    syscall(SYS_io_submit, context, 1, &list) != 1)
		return 201;
	execl(test_file("exec_target"), "exec_target", NULL);
	return 202;
}

/* Runs @run in a child, which waits for the disk then. Returns its number. */
#define CHILD_THAT_WAITS(disk, run) ({					\
	pid_t __pid = fork();						\
									\
	if (!__pid) {							\
		alarm(60);						\
		_exit(run);						\
	}								\
	slow_page_is_asked_for(disk) ? __pid : -1;			\
})

/* A disk whose page does not come until slow_page_supply() */
static bool withhold_page(struct slow_disk *disk)
{
	return slow_disk_open(disk, zeroes, SLOW_PAGE_SIZE) && slow_page_withhold(disk, 0);
}

TEST_F(dev, nobody_waits_for_a_process_that_has_its_memory_locked)
{
	static struct slow_disk disk;
	u8 *mem = map_anon(0, PAGE, PROT_READ, 0);
	int i, ret;
	pid_t pid;

	if (must_skip(_metadata, need_slow_disk()))
		return;
	ASSERT_TRUE(withhold_page(&disk));
	pid = CHILD_THAT_WAITS(&disk, locks_its_memory(&disk, mem));
	ASSERT_LT(0, pid);
	EXPECT_EQ(-EAGAIN, attach_as(self->fd, self->nr, pid, mem, &self->file));
	EXPECT_EQ(-EAGAIN, dev_query_at(self->fd, pid, mem));
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
	/* Its other mappings, and addresses without one, are not affected. */
	EXPECT_EQ(-EFAULT, dev_query_at(self->fd, pid, NULL));
	EXPECT_EQ(0, attach_as(self->fd, self->nr, pid, self->file.mem, &self->file));
	EXPECT_EQ(1, dev_query_at(self->fd, pid, self->file.mem));

	slow_page_supply(&disk);
	for (i = 0; i < 5000; i++) {
		ret = dev_query_at(self->fd, pid, mem);
		if (ret != -EAGAIN)
			break;
		usleep(1000);
	}
	/* A disk is no file that could have a table. */
	EXPECT_EQ(-ENOEXEC, ret);
	EXPECT_TRUE(child_kill(pid));
}

TEST_F(dev, nobody_waits_for_a_process_in_execve)
{
	static struct slow_disk disk;
	int status = -1, i, ret = 0;
	pid_t pid;

	if (must_skip(_metadata, need_slow_disk() ?: need_aio() ?: need_program("exec_target")))
		return;
	ASSERT_TRUE(withhold_page(&disk));
	pid = CHILD_THAT_WAITS(&disk, waits_in_execve(&disk));
	ASSERT_LT(0, pid);
	/* Until then it has the file mapped. */
	for (i = 0; i < 5000 && !ret; i++) {
		ret = dev_query_at(self->fd, pid, self->file.mem);
		usleep(1000);
	}
	EXPECT_EQ(-EAGAIN, ret);
	EXPECT_EQ(-EAGAIN, attach_as(self->fd, self->nr, pid, self->file.mem, &self->file));
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
	slow_page_supply(&disk);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* ------------------------------------------------------------------------ */
/* Accounting and limits						      */

/* A table whose rows need @kb KiB, and that is made quickly */
static size_t large_table(struct _test_data_dev *self, unsigned int kb)
{
	struct table *t = self->table;
	unsigned int i;
	u64 offset;

	table_start(t);
	table_row(t, 0, rule_cfa(RSP, 8));
	t->at = 0;
	/* 256 rows for each KiB, that is for half a page */
	for (i = 1; i < 256 * kb; i++) {
		offset = 8 * i;
		if (offset % PAGE == 0) {
			t->runs[0].nr_pages++;
			t->header.nr_pages++;
		}
		t->rows[t->header.nr_rows] = (struct unwind_table_row){
			.offset = offset % PAGE, .rule = 1,
		};
		t->blocks[t->header.nr_pages] = t->header.nr_rows++;
	}
	return table_join(t, self->data);
}

/*
 * The memory of all tables, without those that were dropped and are still kept for walks: a
 * maker that is short of room waits until these have ended.
 */
static long long all_bytes(struct _test_data_dev *self)
{
	if (up_write_number(SYSCTL_MAX_KB, 0) ||
	    dev_make(self->fd, self->data, self->len) != -ENOSPC ||
	    up_write_number(SYSCTL_MAX_KB, self->max_kb))
		return -1;
	return dev_info(self->fd, "all_bytes");
}

TEST_F(dev, bytes_are_accounted_for)
{
	long long all = all_bytes(self), bytes;
	long long mine = dev_info(self->fd, "bytes");
	size_t len = large_table(self, 200);
	int nr = dev_make(self->fd, self->data, len);

	ASSERT_LT(0, all);
	ASSERT_LT(0, nr);
	bytes = dev_info(self->fd, "bytes") - mine;
	/* Four for a row, and little else. */
	EXPECT_LE(200 * 1024, bytes);
	EXPECT_GE(210 * 1024, bytes);
	EXPECT_EQ(bytes, dev_info(self->fd, "all_bytes") - all);
	/* Refused tables are not accounted for. */
	EXPECT_EQ(-EINVAL, dev_make(self->fd, self->data, len - 4));
	EXPECT_EQ(bytes, dev_info(self->fd, "all_bytes") - all);
	EXPECT_EQ(0, dev_drop(self->fd, nr));
	EXPECT_EQ(mine, dev_info(self->fd, "bytes"));
	EXPECT_EQ(all, all_bytes(self));
}

static int makes_in_vain(struct _test_data_dev *self, size_t len, int nr)
{
	int fd = dev_open();

	while (nr--) {
		if (dev_make(fd, self->data, len) < 0)
			return 1;
	}
	return 0;
}

TEST_F(dev, what_a_process_leaves_is_given_back)
{
	long long bytes = all_bytes(self), tables = dev_info(self->fd, "all_tables");
	size_t len = large_table(self, 200);

	EXPECT_EQ(0, IN_CHILD(makes_in_vain(self, len, 20)));
	EXPECT_EQ(bytes, all_bytes(self));
	EXPECT_EQ(tables, dev_info(self->fd, "all_tables"));
}

/* Dropping one does not wait for the walks that may be using it. */
TEST_F(dev, tables_are_made_and_dropped_a_thousand_times)
{
	long long bytes = all_bytes(self), tables = dev_info(self->fd, "all_tables");
	int i;

	for (i = 0; i < 1000; i++) {
		int nr = file_use(self->fd, self->table, &self->file);

		ASSERT_LT(0, nr);
		if (i % 100 == 0)
			EXPECT_TRUE(walks_plain(self->file.mem, 0));
		ASSERT_EQ(0, dev_drop(self->fd, nr));
		if (i % 100 == 0)
			EXPECT_TRUE(walks_by_fp(self->file.mem));
	}
	EXPECT_EQ(1, dev_info(self->fd, "tables"));
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
	EXPECT_EQ(tables, dev_info(self->fd, "all_tables"));
	EXPECT_EQ(bytes, all_bytes(self));
}

/* There is room for one at a time, and for the copy that it is made from. */
TEST_F(dev, table_that_was_dropped_makes_room_at_once)
{
	long long all = all_bytes(self);
	size_t len = large_table(self, 200);
	int i, nr;

	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_KB, all / 1024 + 1 + 500));
	for (i = 0; i < 20; i++) {
		nr = dev_make(self->fd, self->data, len);
		EXPECT_LT(0, nr);
		EXPECT_EQ(-ENOSPC, dev_make(self->fd, self->data, len));
		EXPECT_EQ(0, dev_drop(self->fd, nr));
	}
}

TEST_F(dev, sysctl_limits_all_tables_together)
{
	long long all = all_bytes(self);
	size_t len = large_table(self, 200);
	int nr, other = dev_open();

	/* Two, and the copy from which the second one is made */
	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_KB, all / 1024 + 1 + 700));
	nr = dev_make(self->fd, self->data, len);
	EXPECT_LT(0, nr);
	EXPECT_LT(0, dev_make(other, self->data, len));
	EXPECT_EQ(-ENOSPC, dev_make(self->fd, self->data, len));
	EXPECT_EQ(-ENOSPC, dev_make(other, self->data, len));
	EXPECT_EQ(0, dev_drop(self->fd, nr));
	EXPECT_LT(0, dev_make(other, self->data, len));
	EXPECT_EQ(-ENOSPC, dev_make(self->fd, self->data, len));
	/* Less than there is already */
	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_KB, 0));
	EXPECT_EQ(-ENOSPC, dev_make(self->fd, self->data, len));
	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_KB, self->max_kb));
	EXPECT_LT(0, dev_make(self->fd, self->data, len));
	close(other);
}

struct slow_make {
	int fd;
	void *data;
	size_t len;
	int ret;
};

static void *makes_slowly(void *data)
{
	struct slow_make *m = data;

	m->ret = dev_make(m->fd, m->data, m->len);
	return NULL;
}

/* Each thread may have a copy of a table that it hands in, and room for the table. */
TEST_F(dev, sysctl_limits_copies_that_are_not_tables_yet)
{
	long long all = all_bytes(self);
	size_t len = large_table(self, 200), room = (len + PAGE - 1) & -PAGE;
	struct slow_make slow = { .fd = self->fd, .len = len };
	struct uffdio_copy copy = { .src = (unsigned long)self->data, .len = room };
	pthread_t thread;
	int uffd, i;

	slow.data = map_anon(0, room, PROT_READ | PROT_WRITE, 0);
	uffd = uffd_on((unsigned long)slow.data, room, UFFDIO_REGISTER_MODE_MISSING, 0);
	if (uffd < 0)
		SKIP(return, "needs userfaultfd (CONFIG_USERFAULTFD)");
	ASSERT_EQ(0, pthread_create(&thread, NULL, makes_slowly, &slow));
	for (i = 0; i < 5000 && dev_info(self->fd, "all_bytes") == all; i++)
		usleep(1000);
	EXPECT_EQ(2 * len, dev_info(self->fd, "all_bytes") - all);

	/* There is room for one more table, and none for its copy. */
	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_KB, all / 1024 + 1 + 500));
	EXPECT_EQ(-ENOSPC, dev_make(self->fd, self->data, len));
	copy.dst = (unsigned long)slow.data;
	EXPECT_EQ(0, ioctl(uffd, UFFDIO_COPY, &copy));
	EXPECT_EQ(0, pthread_join(thread, NULL));
	EXPECT_LT(0, slow.ret);
	EXPECT_EQ(0, dev_drop(self->fd, slow.ret));
	EXPECT_EQ(all, all_bytes(self));
	munmap(slow.data, room);
	close(uffd);
}

TEST_F(dev, number_of_tables_of_a_descriptor_is_limited)
{
	struct unwind_table_header *h = (void *)self->data;
	const time_t start = time(NULL);
	size_t len;
	int i, ret = 0;

	/* The smallest one there is: one page with a row */
	memset(self->data, 0, PAGE);
	*h = self->table->header;
	h->nr_runs = 1;
	h->nr_pages = 1;
	h->nr_rows = 1;
	h->nr_rules = 1;
	((struct unwind_table_run *)(h + 1))->nr_pages = 1;
	len = sizeof(*h) + sizeof(struct unwind_table_run) + 2 * 4 +
	      sizeof(struct unwind_table_row) + sizeof(struct unwind_table_rule);
	for (i = 1; i < 65536 && ret >= 0; i++) {
		ret = dev_make(self->fd, self->data, len);
		if (i == 65536 / 16 && time(NULL) > start + 1)
			SKIP(return, "takes a minute on this kernel");
	}
	EXPECT_EQ(65536, ret);
	EXPECT_EQ(-ENOSPC, dev_make(self->fd, self->data, len));
	EXPECT_EQ(0, dev_drop(self->fd, 7));
	EXPECT_EQ(7, dev_make(self->fd, self->data, len));
	EXPECT_EQ(65536, dev_info(self->fd, "tables"));
}

/* As many files as can have tables, from all makers */
#define MAX_FILES	65536

/* A new file of a page, which has been as it is for long, with the table */
static int attach_to_new(struct _test_data_dev *self, const char *dir, const char *name)
{
	static const struct timespec long_ago[2] = { { 1000000000, 1 }, { 1000000000, 1 } };
	struct code_file f = { };
	int ret = -EIO;

	snprintf(f.path, sizeof(f.path), "%s/%s", dir, name);
	f.fd = open(f.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (f.fd < 0 || ftruncate(f.fd, PAGE) || futimens(f.fd, long_ago) ||
	    fstat(f.fd, &f.st))
		return -EIO;
	close(f.fd);
	f.fd = open(f.path, O_RDONLY | O_CLOEXEC);
	f.mem = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, f.fd, 0);
	if (f.mem != MAP_FAILED) {
		ret = attach_as(self->fd, self->nr, getpid(), f.mem, &f);
		munmap(f.mem, PAGE);
	}
	close(f.fd);
	return ret;
}

TEST_F_TIMEOUT(dev, number_of_files_with_tables_is_limited, 240)
{
	char dir[64], name[80];
	time_t start = time(NULL);
	long long refused;
	int i, ret = 0;

	snprintf(dir, sizeof(dir), "%s", test_path("many"));
	ASSERT_EQ(0, mkdir(dir, 0755));
	/* Unmounting the file system removes all of them at once. */
	ASSERT_EQ(0, mount("many", dir, "tmpfs", 0, "nr_inodes=0"));
	for (i = 0; i < MAX_FILES && !ret; i++) {
		snprintf(name, sizeof(name), "%d", i);
		ret = attach_to_new(self, dir, name);
		if (i == MAX_FILES / 64 && time(NULL) > start + 2) {
			umount(dir);
			SKIP(return, "takes minutes on this kernel");
		}
	}
	EXPECT_EQ(0, ret);
	EXPECT_EQ(MAX_FILES, i);
	refused = dev_info(self->fd, "all_refused");
	EXPECT_EQ(-ENOSPC, attach_to_new(self, dir, "more"));
	EXPECT_EQ(MAX_FILES, dev_info(self->fd, "attached"));
	EXPECT_EQ(refused + 1, dev_info(self->fd, "all_refused"));

	/* After one is removed, another one can be made. */
	snprintf(name, sizeof(name), "%s/0", dir);
	EXPECT_EQ(0, unlink(name));
	EXPECT_EQ(MAX_FILES - 1, dev_info(self->fd, "attached"));
	EXPECT_EQ(0, attach_to_new(self, dir, "more"));
	EXPECT_EQ(-ENOSPC, attach_to_new(self, dir, "most"));

	EXPECT_EQ(0, umount(dir));
	EXPECT_EQ(0, rmdir(dir));
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
	EXPECT_EQ(0, file_attach(self->fd, self->nr, &self->file));
}

/* A memory cgroup without children, or NULL */
static const char *make_cgroup(void)
{
	static const char dir[] = "/sys/fs/cgroup/table_test";

	if (access("/sys/fs/cgroup/cgroup.controllers", F_OK))
		return NULL;
	write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	if (mkdir(dir, 0755) && errno != EEXIST)
		return NULL;
	return access("/sys/fs/cgroup/table_test/memory.max", F_OK) ? NULL : dir;
}

/* Until the cgroup has no more memory: that is an error, and nobody gets killed for it. */
static int makes_until_refused(struct _test_data_dev *self, size_t len)
{
	int fd = dev_open(), i, ret = 0;

	if (write_file("/sys/fs/cgroup/table_test/cgroup.procs", "0"))
		return 200;
	for (i = 0; i < 200 && ret >= 0; i++)
		ret = dev_make(fd, self->data, len);
	return ret < 0 ? -ret : 0;
}

TEST_F(dev, memory_of_tables_is_that_of_the_callers_cgroup)
{
	size_t len = large_table(self, 200);

	if (!make_cgroup())
		SKIP(return, "needs the memory controller of cgroup v2");
	ASSERT_EQ(0, write_file("/sys/fs/cgroup/table_test/memory.max", "16M"));
	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_KB, 1024 * 1024));
	EXPECT_EQ(ENOMEM, IN_CHILD(makes_until_refused(self, len)));
	rmdir("/sys/fs/cgroup/table_test");
}

TEST_HARNESS_MAIN
