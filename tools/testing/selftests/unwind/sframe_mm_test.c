// SPDX-License-Identifier: GPL-2.0
/*
 * SFrame tables and memory management: exec, fork and its relatives, mappings that end and
 * come back, libraries that are loaded and unloaded beside walking threads, memory
 * cgroups, and pages that take long to read.
 */
#include <dlfcn.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/shm.h>

#include "sframe_image.h"
#include "slow_page.h"
#include "unwind_harness.h"

/* ------------------------------------------------------------------------ */
/* Programs								      */

/* Where neither programs nor libraries are put */
#define EXEC_ADDR	0x100000000000UL

static struct area area;

FIXTURE(exec) {};

FIXTURE_VARIANT(exec)
{
	const char *program;
};

FIXTURE_VARIANT_ADD(exec, dynamic) { "sframe_target" };
FIXTURE_VARIANT_ADD(exec, static) { "sframe_target_static" };
FIXTURE_VARIANT_ADD(exec, static_pie) { "sframe_target_pie" };

FIXTURE_SETUP(exec)
{
	must_skip(_metadata, need_lib());
}

FIXTURE_TEARDOWN(exec) {}

static const char *exec_program;

static int child_execs(struct area *area)
{
	char addr[32];
	u8 *mem = map_anon(EXEC_ADDR, AREA_SIZE, PROT_CODE, MAP_FIXED_NOREPLACE);

	if (mem != (u8 *)EXEC_ADDR || !area_fill(area, mem, 3, true, true))
		return 100;
	if (area_add(area) || !is_exact(&area->code))
		return 101;
	snprintf(addr, sizeof(addr), "%lx", area->addr);
	execl(exec_program, exec_program, addr, NULL);
	return 102;
}

TEST_F(exec, program_has_its_own_tables_and_not_those_of_the_one_before)
{
	exec_program = test_file(variant->program);
	EXPECT_EQ(0, in_child(child_execs, &area));
}

static void exec_path(const void *path)
{
	execl(path, path, NULL);
}

/*
 * The trace of the getppid() that the program at @path makes: are there all of the library's
 * frames, wherever it was put, and no others?
 */
static bool is_exact_program(const char *path)
{
	struct up_ring ring;
	struct up_rec *rec;
	struct lib lib;
	uint64_t move;
	int status, i;

	if (!lib_open(&lib, test_file("sframe_lib.so")))
		return false;
	dlclose(lib.handle);
	if (!stack_of_child(&ring, SYS_getppid, exec_path, path, &status) || status)
		return false;
	rec = up_nth(&ring, UT_RECORD_CALLCHAIN_DEFERRED, 0);
	if (!rec || rec->bad || up_count(&ring, rec->type) != 1 || !rec->nr)
		return false;
	lib.ips[LIB_IPS] = lib.start;
	move = rec->ips[0] - lib.ips[0];
	for (i = 0; i < LIB_IPS + 1; i++)
		lib.ips[i] += move;
	return !(move % PAGE) && up_frames_equal(rec->ips, rec->nr, lib.ips, LIB_IPS + 1);
}

TEST(program_without_a_libc_is_exact_from_its_first_system_call)
{
	if (must_skip(_metadata, need_lib()))
		return;
	EXPECT_TRUE(is_exact_program(test_file("sframe_lib.so")));
}

TEST(interpreter_of_a_program_is_exact)
{
	char path[] = "/tmp/unwind_interp_XXXXXX";
	struct {
		Elf64_Ehdr ehdr;
		Elf64_Phdr phdr[2];
		char interp[512];
	} file = {};
	int fd;

	if (must_skip(_metadata, need_lib()))
		return;
	image_ehdr(&file.ehdr, 2);
	file.ehdr.e_type = ET_EXEC;
	file.ehdr.e_entry = EXEC_ADDR;
	snprintf(file.interp, sizeof(file.interp), "%s", test_file("sframe_lib.so"));
	image_phdr(&file.phdr[0], PT_INTERP, PF_R, offsetof(typeof(file), interp),
		   0, strlen(file.interp) + 1);
	image_phdr(&file.phdr[1], PT_LOAD, PF_R | PF_X, 0, EXEC_ADDR, sizeof(file));
	fd = mkstemp(path);
	ASSERT_LE(0, fd);
	ASSERT_EQ((ssize_t)sizeof(file), write(fd, &file, sizeof(file)));
	ASSERT_EQ(0, fchmod(fd, 0755));
	close(fd);
	EXPECT_TRUE(is_exact_program(path));
	unlink(path);
}

/* ------------------------------------------------------------------------ */
/* Mappings								      */

FIXTURE(mapped) {};

FIXTURE_SETUP(mapped)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&area, 3, true, true));
}

FIXTURE_TEARDOWN(mapped) {}

/*
 * Code or table are in memory that @take maps and @drop takes away. Does the table count
 * once both are there again, without being added anew?
 */
static int comes_back_with(bool table, u8 *(*take)(void), int (*drop)(u8 *mem))
{
	u8 *mem = take(), *text = area.mem + CODE_OFF, *at = area.mem + TABLE_OFF;

	if (!mem)
		return 1;
	if (table)
		at = mem;
	else
		text = mem;
	if (!area_place(&area, text, at, 3, true, true))
		return 2;
	if (area_add(&area) || !is_exact(&area.code))
		return 3;
	if (drop(mem))
		return 4;
	/* The rules of this code are known by now. */
	if (table && !is_exact(&area.code))
		return 5;

	if (take() != mem)
		return 6;
	area_place(&area, text, at, 3, true, true);
	if (!is_exact(&area.code))
		return 7;
	if (remove_table(area.table) || !is_without_table(&area.code))
		return 8;
	return drop(mem) ? 9 : 0;
}

static unsigned long brk_base;

/* Pages beyond those that malloc() has */
static u8 *heap_take(void)
{
	if (!brk_base) {
		/* It is not to use any of them. */
		mallopt(M_MMAP_THRESHOLD, 1);
		mallopt(M_TRIM_THRESHOLD, -1);
		brk_base = ((unsigned long)sbrk(0) + 2 * PAGE - 1) & -PAGE;
	}
	if (brk((void *)(brk_base + TABLE_SIZE)) ||
	    mprotect((void *)brk_base, TABLE_SIZE, PROT_CODE))
		return NULL;
	return (u8 *)brk_base;
}

static int heap_drop(u8 *mem)
{
	return brk(mem);
}

/* All but the last page of the table's range remains. */
static int heap_drop_one(u8 *mem)
{
	return brk(mem + TABLE_SIZE - PAGE);
}

TEST_F(mapped, brk_that_shrinks_and_grows_leaves_the_table)
{
	EXPECT_EQ(0, comes_back_with(true, heap_take, heap_drop));
}

TEST_F(mapped, brk_that_shrinks_by_a_page_and_grows_leaves_the_table)
{
	EXPECT_EQ(0, comes_back_with(true, heap_take, heap_drop_one));
}

TEST_F(mapped, brk_that_shrinks_and_grows_leaves_the_code)
{
	EXPECT_EQ(0, comes_back_with(false, heap_take, heap_drop));
}

static int shm_id;
static u8 *shm_at;

static bool shm_make(void)
{
	shm_id = shmget(IPC_PRIVATE, TABLE_SIZE, 0700);
	return shm_id >= 0;
}

static u8 *shm_take(void)
{
	void *mem = shmat(shm_id, shm_at, SHM_EXEC);

	if (mem == (void *)-1L)
		return NULL;
	shm_at = mem;
	return mem;
}

static int shm_drop(u8 *mem)
{
	return shmdt(mem);
}

TEST_F(mapped, table_in_shared_memory_that_is_attached_again)
{
	ASSERT_TRUE(shm_make());
	EXPECT_EQ(0, comes_back_with(true, shm_take, shm_drop));
	shmctl(shm_id, IPC_RMID, NULL);
}

TEST_F(mapped, code_in_shared_memory_that_is_attached_again)
{
	ASSERT_TRUE(shm_make());
	EXPECT_EQ(0, comes_back_with(false, shm_take, shm_drop));
	shmctl(shm_id, IPC_RMID, NULL);
}

TEST_F(mapped, other_shared_memory_with_the_same_code_has_no_table)
{
	u8 *mem;

	ASSERT_TRUE(shm_make());
	mem = shm_take();
	ASSERT_NE(NULL, mem);
	ASSERT_TRUE(area_place(&area, mem, area.mem + TABLE_OFF, 3, true, true));
	ASSERT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
	ASSERT_EQ(0, shm_drop(mem));
	shmctl(shm_id, IPC_RMID, NULL);
	ASSERT_TRUE(shm_make());
	ASSERT_EQ(mem, shm_take());
	code_make(&area.code, mem, (unsigned long)mem, true);
	EXPECT_TRUE(is_without_table(&area.code));
	EXPECT_EQ(0, remove_table(area.table));
	shmctl(shm_id, IPC_RMID, NULL);
}

/* The kernel knows the address of the table, and its contents. */
TEST_F(mapped, other_memory_with_the_same_table_is_as_good)
{
	ASSERT_TRUE(shm_make());
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ((void *)area.table, shmat(shm_id, (void *)area.table, SHM_REMAP));
	memcpy((void *)area.table, build.mem, TABLE_SIZE);
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_EQ(0, remove_table(area.table));
	shmctl(shm_id, IPC_RMID, NULL);
}

TEST_F(mapped, growing_in_place_leaves_it)
{
	ASSERT_EQ(0, munmap((void *)(area.table + 2 * PAGE), TABLE_SIZE - 2 * PAGE));
	ASSERT_EQ(0, add_table(area.table, area.table + 2 * PAGE, area.text, area.text_end));
	EXPECT_TRUE(is_exact(&area.code));
	ASSERT_EQ((void *)(area.table + PAGE),
		  mremap((void *)(area.table + PAGE), PAGE, 2 * PAGE, 0));
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_EQ(0, remove_table(area.table));
}

/* The table is in the first page of its memory. */
TEST_F(mapped, changes_of_the_memory_after_the_table_leave_it)
{
	ASSERT_EQ(0, area_add(&area));
	/* Not the last page of the mapping: so it cannot grow where it is. */
	ASSERT_NE(MAP_FAILED, mremap((void *)(area.table + PAGE), PAGE, 2 * PAGE,
				     MREMAP_MAYMOVE));
	EXPECT_TRUE(is_exact(&area.code));
	ASSERT_EQ((void *)(area.table + 2 * PAGE),
		  mremap((void *)(area.table + 2 * PAGE), 2 * PAGE, PAGE, 0));
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_EQ(0, remove_table(area.table));
	EXPECT_EQ(-EFAULT, area_add(&area));
}

TEST_F(mapped, moving_contents_over_the_table_leaves_it)
{
	ASSERT_EQ(0, area_add(&area));
	memcpy(area.mem, build.mem, PAGE);
	memset((void *)area.table, 0, PAGE);
	ASSERT_TRUE(move_page(area.addr, area.table, MREMAP_DONTUNMAP));
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_EQ(0, remove_table(area.table));
}

/* It is read at the old address, where nothing is mapped any more. */
TEST_F(mapped, table_that_moves_away_ends_walks_that_need_it)
{
	ASSERT_EQ(0, area_add(&area));
	ASSERT_TRUE(move_page(area.table, area.addr, 0));
	EXPECT_TRUE(is_cut(&area.code));
	EXPECT_TRUE(is_cut(&area.code));
	ASSERT_TRUE(move_page(area.addr, area.table, 0));
	EXPECT_TRUE(is_exact(&area.code));
	EXPECT_EQ(0, remove_table(area.table));
}

/* The mapping without its contents is still there. */
static void check_dropped(struct __test_metadata *_metadata, int advice)
{
	ASSERT_EQ(0, area_add(&area));
	ASSERT_EQ(0, madvise((void *)area.table, TABLE_SIZE, advice));
	EXPECT_TRUE(is_without_table(&area.code));
	EXPECT_EQ(0, remove_table(area.table));
	EXPECT_EQ(-ENOEXEC, area_add(&area));
	memcpy((void *)area.table, build.mem, PAGE);
	EXPECT_EQ(0, area_add(&area));
	EXPECT_TRUE(is_exact(&area.code));
}

TEST_F(mapped, dropping_the_contents_leaves_it_added)
{
	check_dropped(_metadata, MADV_DONTNEED);
}

TEST_F(mapped, removing_the_pages_of_a_file_leaves_it_added)
{
	int fd = memfd_create("table", 0);

	ASSERT_EQ((ssize_t)TABLE_SIZE, write(fd, (void *)area.table, TABLE_SIZE));
	ASSERT_TRUE(map_fd(area.table, TABLE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	check_dropped(_metadata, MADV_REMOVE);
}

/* ------------------------------------------------------------------------ */
/* Processes								      */

/*
 * A process that does as it is told, by shared memory: a pipe would need memory
 * of the cgroup.
 */
enum peer_cmd {
	PEER_IDLE,
	PEER_ADD,
	PEER_REMOVE,
	PEER_IS_EXACT,
	PEER_IS_WITHOUT,
	/* A child of it does the commands from now on. */
	PEER_FORK,
	/*
	 * A getppid() without a sample, one with it, which takes no memory of
	 * its own, and then the number of addresses
	 */
	PEER_WARM,
	PEER_CALL,
	PEER_TAKE,
	/* Tables for one byte each, until that fails: the number of new ones */
	PEER_ADD_MANY,
	PEER_EXIT,
};

struct peer {
	pid_t pid;
	struct peer_talk {
		int cmd;
		int which;
		int ret;
		/* Of PEER_ADD_MANY: how many there are, why no more */
		int added;
		int error;
	} *talk;
};

#define NR_AREAS	2
#define MAX_ADDED	4096

static struct area areas[NR_AREAS];

static void make_areas(struct __test_metadata *_metadata)
{
	int i;

	for (i = 0; i < NR_AREAS; i++)
		ASSERT_TRUE(area_make(&areas[i], 3, true, true));
}

/* Returns the number of new ones. */
static int peer_add_many(struct peer_talk *talk, struct area *a)
{
	int before = talk->added;

	for (; talk->added < MAX_ADDED; talk->added++) {
		unsigned long text = a->text + talk->added;

		talk->error = add_table(a->table, a->table_end, text, text + 1);
		if (talk->error)
			break;
	}
	return talk->added - before;
}

static int peer_do(struct peer_talk *talk, struct area *a)
{
	uint64_t ips[MAX_IPS];
	int status;
	pid_t pid;

	switch (talk->cmd) {
	case PEER_ADD:
		return area_add(a);
	case PEER_REMOVE:
		return remove_table(a->table);
	case PEER_IS_EXACT:
		return is_exact(&a->code);
	case PEER_IS_WITHOUT:
		return is_without_table(&a->code);
	case PEER_FORK:
		pid = fork();
		if (!pid)
			return 0;
		waitpid(pid, &status, 0);
		_exit(0);
	case PEER_WARM:
		if (!stack_ring_open())
			return -1;
		up_enable(&stack_ring);
		up_disable(&stack_ring);
		call_code(SYS_getppid, (void *)a->code.top);
		return 0;
	case PEER_CALL:
		up_enable(&stack_ring);
		call_code(SYS_getppid, (void *)a->code.top);
		up_disable(&stack_ring);
		return 0;
	case PEER_TAKE:
		return stack_take(ips);
	case PEER_ADD_MANY:
		return peer_add_many(talk, a);
	default:
		_exit(0);
	}
}

static bool peer_start(struct peer *peer)
{
	struct peer_talk *talk;

	talk = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (talk == MAP_FAILED)
		return false;
	peer->talk = talk;
	peer->pid = fork();
	if (peer->pid)
		return peer->pid > 0;

	alarm(600);
	for (;;) {
		while (get_flag(&talk->cmd) == PEER_IDLE)
			usleep(1000);
		talk->ret = peer_do(talk, &areas[talk->which]);
		set_flag(&talk->cmd, PEER_IDLE);
	}
}

/* The result of the command; -ESRCH if the process has ended. */
static int peer_tell(struct peer *peer, enum peer_cmd cmd, int which)
{
	int status;

	if (!peer->pid)
		return -ESRCH;
	peer->talk->which = which;
	set_flag(&peer->talk->cmd, cmd);
	while (get_flag(&peer->talk->cmd) != PEER_IDLE) {
		if (waitpid(peer->pid, &status, WNOHANG) == peer->pid) {
			peer->pid = 0;
			return -ESRCH;
		}
		usleep(1000);
	}
	return peer->talk->ret;
}

static void peer_end(struct peer *peer)
{
	if (peer->pid)
		peer_tell(peer, PEER_EXIT, 0);
}

FIXTURE(process)
{
	struct peer peer;
};

FIXTURE_SETUP(process)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	make_areas(_metadata);
	ASSERT_EQ(0, area_add(&areas[0]));
	ASSERT_TRUE(peer_start(&self->peer));
}

FIXTURE_TEARDOWN(process)
{
	peer_end(&self->peer);
}

TEST_F(process, parent_and_child_of_a_fork_do_not_see_what_the_other_does)
{
	struct peer *peer = &self->peer;

	/* The parent removes and adds. */
	ASSERT_EQ(0, remove_table(areas[0].table));
	ASSERT_EQ(0, area_add(&areas[1]));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_EXACT, 0));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_WITHOUT, 1));
	EXPECT_EQ(-ENOENT, peer_tell(peer, PEER_REMOVE, 1));
	EXPECT_TRUE(is_without_table(&areas[0].code));
	EXPECT_TRUE(is_exact(&areas[1].code));

	/* The child does. */
	EXPECT_EQ(0, peer_tell(peer, PEER_REMOVE, 0));
	EXPECT_EQ(0, peer_tell(peer, PEER_ADD, 1));
	EXPECT_EQ(0, area_add(&areas[0]));
	EXPECT_EQ(0, remove_table(areas[1].table));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_WITHOUT, 0));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_EXACT, 1));
	EXPECT_TRUE(is_exact(&areas[0].code));
	EXPECT_TRUE(is_without_table(&areas[1].code));
}

TEST_F(process, grandchild_has_what_the_child_had)
{
	struct peer *peer = &self->peer;

	EXPECT_EQ(0, peer_tell(peer, PEER_ADD, 1));
	EXPECT_EQ(0, peer_tell(peer, PEER_FORK, 0));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_EXACT, 0));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_EXACT, 1));
	EXPECT_EQ(0, peer_tell(peer, PEER_REMOVE, 0));
	EXPECT_EQ(0, peer_tell(peer, PEER_REMOVE, 1));
	EXPECT_EQ(-ENOENT, peer_tell(peer, PEER_REMOVE, 1));
	EXPECT_TRUE(is_exact(&areas[0].code));
	EXPECT_TRUE(is_without_table(&areas[1].code));
}

FIXTURE(shared) {};

FIXTURE_VARIANT(shared)
{
	int flags;
};

FIXTURE_VARIANT_ADD(shared, vfork) { CLONE_VM | CLONE_VFORK };
FIXTURE_VARIANT_ADD(shared, clone_vm) { CLONE_VM };

FIXTURE_SETUP(shared)
{
	if (!must_skip(_metadata, need_sframe()))
		make_areas(_metadata);
}

FIXTURE_TEARDOWN(shared) {}

/* Runs on the parent's memory, while the parent does nothing but wait. */
static int shared_child(void *arg)
{
	pid_t old_tid = stack_ring_tid;
	struct up_ring old = stack_ring;
	int ret = 0;

	if (remove_table(areas[0].table))
		ret = 1;
	else if (area_add(&areas[1]))
		ret = 2;
	else if (!is_without_table(&areas[0].code))
		ret = 3;
	else if (!is_exact(&areas[1].code))
		ret = 4;

	up_close(&stack_ring);
	stack_ring = old;
	stack_ring_tid = old_tid;
	return ret;
}

TEST_F(shared, tables_are_those_of_the_address_space)
{
	int size = 64 * PAGE, status;
	u8 *stack;
	pid_t pid;

	ASSERT_EQ(0, area_add(&areas[0]));
	EXPECT_TRUE(is_exact(&areas[0].code));
	stack = map_anon(0, size, PROT_READ | PROT_WRITE, 0);
	ASSERT_NE(MAP_FAILED, (void *)stack);
	pid = clone(shared_child, stack + size, variant->flags | SIGCHLD, NULL);
	ASSERT_LT(0, pid);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(is_without_table(&areas[0].code));
	EXPECT_TRUE(is_exact(&areas[1].code));
	EXPECT_EQ(-ENOENT, remove_table(areas[0].table));
	EXPECT_EQ(0, remove_table(areas[1].table));
}

/* ------------------------------------------------------------------------ */
/* Memory cgroups							      */

#define CGROUP		"/sys/fs/cgroup"

/* Enough to stand out from what CPUs have in stock, which is charged already */
#define NR_PEERS	2

FIXTURE(cgroup)
{
	struct peer peers[NR_PEERS];
	char path[64];
};

static const char *need_memcg(void)
{
	if (need_sframe())
		return need_sframe();
	if (access(CGROUP "/cgroup.subtree_control", W_OK))
		return "needs cgroup2 on " CGROUP;
	write_file(CGROUP "/cgroup.subtree_control", "+memory");
	if (mkdir(CGROUP "/unwind_test", 0755) && errno != EEXIST)
		return "needs to make cgroups";
	if (access(CGROUP "/unwind_test/memory.max", W_OK))
		return "needs the memory controller (CONFIG_MEMCG)";
	return NULL;
}

static const char *cg_file(const char *dir, const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static long cg_current(const char *dir)
{
	return up_read_number(cg_file(dir, "memory.current"));
}

static int cg_write(const char *dir, const char *name, long val)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", val);
	return write_file(cg_file(dir, name), text);
}

/* The number after @key in memory.events */
static long cg_event(const char *dir, const char *key)
{
	char name[32];
	long val, found = -1;
	FILE *f = fopen(cg_file(dir, "memory.events"), "r");

	if (!f)
		return -1;
	while (found < 0 && fscanf(f, "%31s %ld", name, &val) == 2)
		found = strcmp(name, key) ? -1 : val;
	fclose(f);
	return found;
}

FIXTURE_SETUP(cgroup)
{
	int i;

	if (must_skip(_metadata, need_memcg()))
		return;
	snprintf(self->path, sizeof(self->path), CGROUP "/unwind_test/%d", getpid());
	ASSERT_EQ(0, write_file(CGROUP "/unwind_test/cgroup.subtree_control", "+memory"));
	ASSERT_EQ(0, mkdir(self->path, 0755));
	make_areas(_metadata);
	for (i = 0; i < NR_PEERS; i++) {
		ASSERT_TRUE(peer_start(&self->peers[i]));
		ASSERT_EQ(0, cg_write(self->path, "cgroup.procs", self->peers[i].pid));
	}
}

FIXTURE_TEARDOWN(cgroup)
{
	int i;

	for (i = 0; i < NR_PEERS; i++)
		peer_end(&self->peers[i]);
	if (self->path[0])
		rmdir(self->path);
}

#define MEGABYTE	(1024 * 1024L)

TEST_F(cgroup, added_tables_are_charged_until_the_process_ends)
{
	struct peer *peers = self->peers;
	long before;
	int i;

	for (i = 0; i < NR_PEERS; i++) {
		ASSERT_EQ(0, peer_tell(&peers[i], PEER_ADD, 0));
		ASSERT_EQ(0, peer_tell(&peers[i], PEER_REMOVE, 0));
	}
	before = cg_current(self->path);
	ASSERT_LT(0, before);
	/* Each takes about a megabyte. */
	for (i = 0; i < NR_PEERS; i++)
		ASSERT_EQ(MAX_ADDED, peer_tell(&peers[i], PEER_ADD_MANY, 0));
	EXPECT_LT(NR_PEERS * MEGABYTE / 2, cg_current(self->path) - before);

	for (i = 0; i < NR_PEERS; i++)
		peer_end(&peers[i]);
	/* Some of it is given back later. */
	for (i = 0; i < 200 && cg_current(self->path) >= before + MEGABYTE; i++)
		usleep(100000);
	EXPECT_GT(before + MEGABYTE, cg_current(self->path));
}

/* Waits a while for memory that is freed later. */
static int peer_add_later(struct peer *peer, int which)
{
	int i, ret = -ENOMEM;

	for (i = 0; i < 600 && ret == -ENOMEM; i++) {
		ret = peer_tell(peer, PEER_ADD, which);
		if (ret)
			usleep(100000);
	}
	return ret;
}

TEST_F(cgroup, limit_gives_enomem_and_kills_nobody)
{
	struct peer *peer = &self->peers[0], *other = &self->peers[1];
	int tries, removed;

	/* All later actions have been done once. */
	ASSERT_EQ(1, peer_tell(peer, PEER_IS_WITHOUT, 0));
	ASSERT_EQ(0, peer_tell(peer, PEER_ADD, 0));
	ASSERT_EQ(0, peer_tell(peer, PEER_REMOVE, 0));
	ASSERT_EQ(0, peer_tell(other, PEER_WARM, 0));

	/* The limit must not be below what is in use. */
	ASSERT_EQ(0, cg_write(self->path, "memory.max",
			      cg_current(self->path) + 512 * 1024));
	EXPECT_LT(0, peer_tell(peer, PEER_ADD_MANY, 0));
	/* What CPUs have in stock comes back in a while. */
	for (tries = 0; tries < 10; tries++) {
		usleep(10000);
		if (peer_tell(peer, PEER_ADD_MANY, 0) > 0)
			tries = 0;
	}
	EXPECT_GT(MAX_ADDED, peer->talk->added);
	EXPECT_EQ(-ENOMEM, peer->talk->error);

	/* A process whose stack nobody has asked for so far: nobody is killed for that. */
	EXPECT_EQ(0, peer_tell(other, PEER_CALL, 0));
	/* Nor for the memory that removing a table takes */
	removed = peer_tell(peer, PEER_REMOVE, 0);
	EXPECT_TRUE(removed == 0 || removed == -ENOMEM)
		TH_LOG("removed: %d", removed);
	EXPECT_EQ(0, cg_event(self->path, "oom_kill"));
	EXPECT_EQ(0, waitpid(peer->pid, NULL, WNOHANG));
	EXPECT_EQ(0, waitpid(other->pid, NULL, WNOHANG));

	/* Both go on once there is room. */
	if (removed) {
		ASSERT_EQ(0, cg_write(self->path, "memory.max", LONG_MAX));
		EXPECT_EQ(0, peer_tell(peer, PEER_REMOVE, 0));
	}
	EXPECT_EQ(0, peer_add_later(peer, 0));
	EXPECT_EQ(0, cg_write(self->path, "memory.max", LONG_MAX));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_EXACT, 0));
	/* A record, though an empty one if there was no memory for it */
	EXPECT_LE(0, peer_tell(other, PEER_TAKE, 0));
	EXPECT_EQ(0, peer_tell(other, PEER_ADD, 0));
	EXPECT_EQ(1, peer_tell(other, PEER_IS_EXACT, 0));
}

/* ------------------------------------------------------------------------ */
/* Mappings that change while a search looks at them			      */

/*
 * A thread walks by way of code whose table is not there yet: the disk says when it
 * waits for that. Meanwhile something happens.
 */
static struct image image;
static unsigned long late_text, late_table;

FIXTURE(late)
{
	struct slow_disk disk;
};

FIXTURE_VARIANT(late)
{
	bool (*meanwhile)(void);
	/* Addresses that the walk has then, and that the next one has */
	int nr;
	int nr_next;
};

static bool change_nothing(void)
{
	return true;
}

static bool change_others(void)
{
	return map_over(late_table + 2 * PAGE, PAGE, PROT_READ) &&
	       !munmap(map_anon(0, PAGE, PROT_CODE, 0), PAGE);
}

/* By the same */
static bool change_code(void)
{
	return !munmap((void *)late_text, PAGE) && image_map_code(&image, late_text, FILE_TEXT);
}

/* By another file with the same code, and without a table */
static bool change_file(void)
{
	int fd = memfd_create("other", 0);

	return fd >= 0 && pwrite(fd, image.file + FILE_TEXT, PAGE, FILE_TEXT) == PAGE &&
	       map_fd(late_text, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, FILE_TEXT);
}

static bool change_headers(void)
{
	return map_fd(image.addr, PAGE, PROT_READ, MAP_PRIVATE, image.fd, 0);
}

static bool change_protection(void)
{
	return !mprotect((void *)late_text, PAGE, PROT_READ);
}

static bool change_table(void)
{
	return map_over(late_table + PAGE, PAGE, PROT_READ);
}

FIXTURE_VARIANT_ADD(late, nothing_happens) { change_nothing, 3, 3 };
FIXTURE_VARIANT_ADD(late, others_go) { change_others, 3, 3 };
FIXTURE_VARIANT_ADD(late, the_code_is_mapped_anew) { change_code, 3, 3 };
FIXTURE_VARIANT_ADD(late, the_code_is_that_of_another_file) { change_file, 2, 2 };
FIXTURE_VARIANT_ADD(late, the_code_is_none_any_more) { change_protection, 1, 3 };
FIXTURE_VARIANT_ADD(late, the_headers_are_mapped_anew) { change_headers, 3, 3 };
FIXTURE_VARIANT_ADD(late, a_part_of_its_segment_is_replaced) { change_table, 3, 3 };

FIXTURE_SETUP(late)
{
	unsigned long off = FILE_SIZE - PAGE;

	if (must_skip(_metadata, need_sframe()) ||
	    must_skip(_metadata, need_slow_disk()))
		return;
	ASSERT_TRUE(image_make(&image, 3, true));
	late_text = image.addr + FILE_TEXT;
	late_table = image.addr + 6 * PAGE;
	memcpy(image.file + off, build.mem,
	       code_table(&image.code, true, &build, 3, true, late_table));
	image_phdr(&image.phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, off, 6 * PAGE, 2 * PAGE);
	image_phdr(&image.phdr[PH_SPARE], PT_LOAD, PF_R, off, 6 * PAGE, 2 * PAGE);

	/* The table comes from a disk that has the same as the file. */
	ASSERT_TRUE(slow_disk_open(&self->disk, image.file, FILE_SIZE));
	ASSERT_TRUE(slow_page_withhold(&self->disk, off));
	ASSERT_TRUE(image_map(&image));
	ASSERT_TRUE(map_fd(late_table, PAGE, PROT_READ, MAP_PRIVATE, self->disk.fd, off));
	ASSERT_TRUE(map_over(late_table + PAGE, PAGE, PROT_READ));
}

FIXTURE_TEARDOWN(late) {}

/* The number of addresses: the system call, its caller, and by table one more */
static void *late_walk(void *arg)
{
	u64 words[] = { 0, image.code.ips[0], image.code.ips[0], 0 };
	uint64_t ips[MAX_IPS];
	int nr = stack_of_words(words, ips);

	up_close(&stack_ring);
	return (void *)(long)nr;
}

TEST_F(late, answer_is_for_the_mappings_that_it_was_found_for)
{
	pthread_t thread;
	void *nr;

	ASSERT_EQ(0, pthread_create(&thread, NULL, late_walk, NULL));
	ASSERT_TRUE(slow_page_is_asked_for(&self->disk));
	EXPECT_TRUE(variant->meanwhile());
	slow_page_supply(&self->disk);
	ASSERT_EQ(0, pthread_join(thread, &nr));
	EXPECT_EQ(variant->nr, (long)nr);

	/* Another walk finds out what there is now. */
	ASSERT_EQ(0, mprotect((void *)late_text, PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(variant->nr_next, (long)late_walk(NULL));
}

/* ------------------------------------------------------------------------ */
/* Pages that never come						      */

/* Frames of a made-up stack */
struct stuck {
	u64 stack[4];
	/* Rounds of a thread beside the one that is stuck */
	int rounds;
};

FIXTURE(stuck)
{
	struct slow_disk disk;
	struct stuck *stuck;
};

FIXTURE_SETUP(stuck)
{
	if (must_skip(_metadata, need_sframe()) ||
	    must_skip(_metadata, need_slow_disk()))
		return;
	self->stuck = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->stuck);
	ASSERT_TRUE(slow_disk_open(&self->disk, build.mem, 2 * PAGE));
	ASSERT_TRUE(slow_page_withhold(&self->disk, 0));
}

FIXTURE_TEARDOWN(stuck) {}

static void *map_and_unmap(void *arg)
{
	struct stuck *stuck = arg;

	for (;;) {
		munmap(map_anon(0, PAGE, PROT_READ | PROT_EXEC, 0), PAGE);
		set_flag(&stuck->rounds, stuck->rounds + 1);
		usleep(1000);
	}
	return NULL;
}

/* An action that is to wait for a page for ever; returns if it does not. */
typedef void (*stick_t)(struct stuck *stuck, int fd);

/* A return address in code whose table is slow */
static void stick_in_walk(struct stuck *stuck, int fd)
{
	if (!image_make(&image, 3, true))
		_exit(1);
	image_phdr(&image.phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, 0, 6 * PAGE, PAGE);
	image_phdr(&image.phdr[PH_SPARE], PT_LOAD, PF_R, 0, 6 * PAGE, PAGE);
	if (!image_map(&image) || !stack_ring_open() ||
	    !map_fd(image.addr + 6 * PAGE, PAGE, PROT_READ, MAP_PRIVATE, fd, 0))
		_exit(1);
	stuck->stack[0] = 0;
	stuck->stack[1] = image.code.ips[0];
	up_enable(&stack_ring);
	framed_syscall(SYS_getppid, 0, 0, 0, stuck->stack, stuck->stack);
}

static void stick_in_prctl(struct stuck *stuck, int fd)
{
	u8 *mem = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	u8 *code = map_anon(0, PAGE, PROT_CODE, 0);

	if (mem == MAP_FAILED || code == MAP_FAILED)
		_exit(1);
	add_table((unsigned long)mem, (unsigned long)mem + PAGE,
		  (unsigned long)code, (unsigned long)code + PAGE);
}

/*
 * The task waits, others of its process map and unmap meanwhile, and it can be
 * killed. Returns 0, or what was wrong.
 */
static int stuck_can_be_killed(stick_t stick, struct stuck *stuck,
			       struct slow_disk *disk)
{
	int status, i, rounds;
	pthread_t thread;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (pthread_create(&thread, NULL, map_and_unmap, stuck))
			_exit(2);
		stick(stuck, disk->fd);
		_exit(3);
	}
	if (!slow_page_is_asked_for(disk))
		return 1;
	rounds = get_flag(&stuck->rounds);
	for (i = 0; i < 600 && get_flag(&stuck->rounds) < rounds + 10; i++)
		usleep(50000);
	if (get_flag(&stuck->rounds) < rounds + 10)
		return 2;
	if (waitpid(pid, &status, WNOHANG) == pid)
		return 1000 + WEXITSTATUS(status);

	kill(pid, SIGKILL);
	for (i = 0; i < 600 && waitpid(pid, &status, WNOHANG) != pid; i++)
		usleep(50000);
	if (i == 600)
		return 3;
	return WIFSIGNALED(status) ? 0 : 4;
}

TEST_F(stuck, walk_that_waits_for_a_table_can_be_killed)
{
	EXPECT_EQ(0, stuck_can_be_killed(stick_in_walk, self->stuck, &self->disk));
}

TEST_F(stuck, prctl_that_waits_for_the_table_can_be_killed)
{
	EXPECT_EQ(0, stuck_can_be_killed(stick_in_prctl, self->stuck, &self->disk));
}

/* ------------------------------------------------------------------------ */
/* Libraries that are loaded and unloaded				      */

#define NR_LOADERS	2
#define NR_SAMPLED	3
#define SAMPLED_ROUNDS	25

struct user {
	pthread_t thread;
	/* A copy of the library, as one that is open already is not mapped. */
	char path[64];
	/* Sampled in code that was added, rather than in a library */
	bool is_added;
	int wrong;
};

static int stop_loading;

static void *load_and_unload(void *arg)
{
	struct user *user = arg;

	while (!get_flag(&stop_loading)) {
		void *handle = dlopen(user->path, RTLD_NOW | RTLD_LOCAL);

		if (!handle || dlclose(handle))
			user->wrong++;
	}
	return NULL;
}

static void *sampled(void *arg)
{
	struct user *user = arg;
	struct lib lib;
	int i;

	for (i = 0; i < SAMPLED_ROUNDS; i++) {
		if (user->is_added) {
			user->wrong += !is_exact(&area.code);
			continue;
		}
		if (!lib_open(&lib, user->path)) {
			user->wrong += 1000;
			break;
		}
		user->wrong += !lib_is_exact(&lib);
		user->wrong += !lib_is_exact(&lib);
		dlclose(lib.handle);
	}
	up_close(&stack_ring);
	return NULL;
}

static bool copy_lib(struct user *user, int nr)
{
	char command[600];

	snprintf(user->path, sizeof(user->path), "/tmp/unwind_lib_%d.so", nr);
	snprintf(command, sizeof(command), "cp '%s' %s",
		 test_file("sframe_lib.so"), user->path);
	return !system(command);
}

FIXTURE(libraries) {};

FIXTURE_SETUP(libraries)
{
	if (must_skip(_metadata, need_lib()))
		return;
	ASSERT_TRUE(area_make(&area, 3, true, true));
	ASSERT_EQ(0, area_add(&area));
}

FIXTURE_TEARDOWN(libraries) {}

static bool user_start(struct user *user, int nr, void *(*function)(void *arg))
{
	return copy_lib(user, nr) && !pthread_create(&user->thread, NULL, function, user);
}

static int user_end(struct user *user)
{
	pthread_join(user->thread, NULL);
	unlink(user->path);
	return user->wrong;
}

TEST_F_TIMEOUT(libraries, threads_are_exact_while_others_come_and_go, 300)
{
	struct user loaders[NR_LOADERS] = {}, samples[NR_SAMPLED] = {};
	int i;

	samples[0].is_added = true;
	for (i = 0; i < NR_LOADERS; i++)
		ASSERT_TRUE(user_start(&loaders[i], i, load_and_unload));
	for (i = 0; i < NR_SAMPLED; i++)
		ASSERT_TRUE(user_start(&samples[i], NR_LOADERS + i, sampled));
	for (i = 0; i < NR_SAMPLED; i++)
		EXPECT_EQ(0, user_end(&samples[i]));
	set_flag(&stop_loading, 1);
	for (i = 0; i < NR_LOADERS; i++)
		EXPECT_EQ(0, user_end(&loaders[i]));
}

TEST_HARNESS_MAIN
