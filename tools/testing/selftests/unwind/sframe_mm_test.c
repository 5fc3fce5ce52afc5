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

FIXTURE(exec)
{
	struct area area;
};

FIXTURE_VARIANT(exec)
{
	const char *program;
};

FIXTURE_VARIANT_ADD(exec, dynamic)
{
	.program = "sframe_target",
};

FIXTURE_VARIANT_ADD(exec, static)
{
	.program = "sframe_target_static",
};

FIXTURE_VARIANT_ADD(exec, static_pie)
{
	.program = "sframe_target_pie",
};

FIXTURE_SETUP(exec)
{
	if (must_skip(_metadata, need_lib()))
		return;
}

FIXTURE_TEARDOWN(exec)
{
}

static const char *exec_program;

static int child_execs(struct area *area)
{
	char addr[32];

	area->addr = EXEC_ADDR;
	area->mem = map_anon(area->addr, AREA_SIZE, PROT_CODE,
			     MAP_FIXED_NOREPLACE);
	if (area->mem != (u8 *)area->addr ||
	    !area_place(area, area->mem + CODE_OFF, area->mem + TABLE_OFF, 3,
			true, true))
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
	EXPECT_EQ(0, in_child(child_execs, &self->area));
}

/*
 * The trace of the getppid() that the program at @path makes. Returns the number
 * of addresses; -1 if there was not exactly one record, or it did not end well.
 */
static int stack_of_program(const char *path, uint64_t *ips)
{
	struct perf_event_attr attr;
	int status, nr = -1, go[2];
	struct up_ring ring;
	struct up_rec *rec;
	pid_t pid;
	char c;

	if (pipe(go))
		return -1;
	pid = fork();
	if (!pid) {
		if (read(go[0], &c, 1) == 1)
			execl(path, path, NULL);
		_exit(99);
	}

	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("raw_syscalls", "sys_enter"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	if (up_open_pages(&ring, &attr, pid, -1, -1, 4) ||
	    ioctl(ring.fd, PERF_EVENT_IOC_SET_FILTER, "id == 110"))
		return -1;
	up_enable(&ring);
	if (write(go[1], "x", 1) != 1 || waitpid(pid, &status, 0) != pid)
		status = -1;
	up_drain(&ring);
	rec = up_nth(&ring, UT_RECORD_CALLCHAIN_DEFERRED, 0);
	if (!status && rec && !rec->bad && up_count(&ring, rec->type) == 1) {
		nr = rec->nr < MAX_IPS ? rec->nr : MAX_IPS;
		memcpy(ips, rec->ips, nr * sizeof(*ips));
	}
	up_close(&ring);
	close(go[0]);
	close(go[1]);
	return nr;
}

/* All of the library's frames, wherever it was put, and no others? */
static bool is_exact_program(const char *path)
{
	uint64_t ips[MAX_IPS], want[LIB_IPS + 1], move;
	struct lib lib;
	int nr, i;

	if (!lib_open(&lib, test_file("sframe_lib.so")))
		return false;
	dlclose(lib.handle);
	nr = stack_of_program(path, ips);
	if (nr < 1)
		return false;
	lib.ips[LIB_IPS] = lib.start;
	move = ips[0] - lib.ips[0];
	for (i = 0; i < LIB_IPS + 1; i++)
		want[i] = lib.ips[i] + move;
	return !(move % PAGE) && up_frames_equal(ips, nr, want, LIB_IPS + 1);
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
	} file = {
		.ehdr = {
			.e_ident = {
				ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
				ELFDATA2LSB, EV_CURRENT,
			},
			.e_type = ET_EXEC,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_entry = EXEC_ADDR,
			.e_phoff = sizeof(Elf64_Ehdr),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 2,
		},
	};
	int fd;

	if (must_skip(_metadata, need_lib()))
		return;
	snprintf(file.interp, sizeof(file.interp), "%s",
		 test_file("sframe_lib.so"));
	image_phdr(&file.phdr[0], PT_INTERP, PF_R, offsetof(typeof(file), interp),
		   0, strlen(file.interp) + 1);
	image_phdr(&file.phdr[1], PT_LOAD, PF_R | PF_X, 0, EXEC_ADDR,
		   sizeof(file));
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

FIXTURE(mapped)
{
	struct area area;
};

FIXTURE_SETUP(mapped)
{
	if (must_skip(_metadata, need_sframe()))
		return;
	ASSERT_TRUE(area_make(&self->area, 3, true, true));
}

FIXTURE_TEARDOWN(mapped)
{
	remove_table(self->area.table);
	munmap(self->area.mem, AREA_SIZE);
}

/*
 * Code or table are in memory that @take maps and @drop takes away. Does the table count
 * once both are there again, without being added anew?
 */
static int comes_back_with(struct area *area, bool table, u8 *(*take)(void),
			   int (*drop)(u8 *mem))
{
	u8 *text = area->mem + CODE_OFF, *mem = take();

	if (!mem)
		return 1;
	if (!area_place(area, table ? text : mem,
			table ? mem : area->mem + TABLE_OFF, 3, true, true))
		return 2;
	if (area_add(area) || !is_exact(&area->code))
		return 3;
	if (drop(mem))
		return 4;
	/* The rules of this code are known by now. */
	if (table && !is_exact(&area->code))
		return 5;

	if (take() != mem)
		return 6;
	area_place(area, table ? text : mem, table ? mem : area->mem + TABLE_OFF,
		   3, true, true);
	if (!is_exact(&area->code))
		return 7;
	if (remove_table(area->table) || !is_without_table(&area->code))
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

static int child_heap_table(struct area *area)
{
	return comes_back_with(area, true, heap_take, heap_drop);
}

static int child_heap_table_part(struct area *area)
{
	return comes_back_with(area, true, heap_take, heap_drop_one);
}

static int child_heap_code(struct area *area)
{
	return comes_back_with(area, false, heap_take, heap_drop);
}

TEST_F(mapped, brk_that_shrinks_and_grows_leaves_the_table)
{
	EXPECT_EQ(0, in_child(child_heap_table, &self->area));
}

TEST_F(mapped, brk_that_shrinks_by_a_page_and_grows_leaves_the_table)
{
	EXPECT_EQ(0, in_child(child_heap_table_part, &self->area));
}

TEST_F(mapped, brk_that_shrinks_and_grows_leaves_the_code)
{
	EXPECT_EQ(0, in_child(child_heap_code, &self->area));
}

static int shm_id;
static u8 *shm_at;

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
	shm_id = shmget(IPC_PRIVATE, TABLE_SIZE, 0700);
	ASSERT_LE(0, shm_id);
	EXPECT_EQ(0, comes_back_with(&self->area, true, shm_take, shm_drop));
	shmctl(shm_id, IPC_RMID, NULL);
}

TEST_F(mapped, code_in_shared_memory_that_is_attached_again)
{
	shm_id = shmget(IPC_PRIVATE, TABLE_SIZE, 0700);
	ASSERT_LE(0, shm_id);
	EXPECT_EQ(0, comes_back_with(&self->area, false, shm_take, shm_drop));
	shmctl(shm_id, IPC_RMID, NULL);
}

TEST_F(mapped, other_shared_memory_with_the_same_code_has_no_table)
{
	struct area *a = &self->area;
	u8 *mem;

	shm_id = shmget(IPC_PRIVATE, TABLE_SIZE, 0700);
	ASSERT_LE(0, shm_id);
	mem = shm_take();
	ASSERT_NE(NULL, mem);
	ASSERT_TRUE(area_place(a, mem, a->mem + TABLE_OFF, 3, true, true));
	ASSERT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ(0, shm_drop(mem));
	shmctl(shm_id, IPC_RMID, NULL);
	shm_id = shmget(IPC_PRIVATE, TABLE_SIZE, 0700);
	ASSERT_EQ(mem, shm_take());
	code_make(&a->code, mem, (unsigned long)mem, true);
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_EQ(0, remove_table(a->table));
	shmctl(shm_id, IPC_RMID, NULL);
}

/* The kernel knows the address of the table, and its contents. */
TEST_F(mapped, other_memory_with_the_same_table_is_as_good)
{
	struct area *a = &self->area;

	shm_id = shmget(IPC_PRIVATE, TABLE_SIZE, 0700);
	ASSERT_LE(0, shm_id);
	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ((void *)a->table, shmat(shm_id, (void *)a->table, SHM_REMAP));
	memcpy((void *)a->table, build.mem, TABLE_SIZE);
	EXPECT_TRUE(is_exact(&a->code));
	EXPECT_EQ(0, remove_table(a->table));
	shmctl(shm_id, IPC_RMID, NULL);
}

TEST_F(mapped, growing_in_place_leaves_it)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, munmap((void *)(a->table + 2 * PAGE), TABLE_SIZE - 2 * PAGE));
	ASSERT_EQ(0, add_table(a->table, a->table + 2 * PAGE, a->text, a->text_end));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ((void *)(a->table + PAGE),
		  mremap((void *)(a->table + PAGE), PAGE, 2 * PAGE, 0));
	EXPECT_TRUE(is_exact(&a->code));
	EXPECT_EQ(0, remove_table(a->table));
}

/* The table is in the first page of its memory. */
TEST_F(mapped, changes_of_the_memory_after_the_table_leave_it)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	/* Not the last page of the mapping: so it cannot grow where it is. */
	ASSERT_NE(MAP_FAILED, mremap((void *)(a->table + PAGE), PAGE, 2 * PAGE,
				     MREMAP_MAYMOVE));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ((void *)(a->table + 2 * PAGE),
		  mremap((void *)(a->table + 2 * PAGE), 2 * PAGE, PAGE, 0));
	EXPECT_TRUE(is_exact(&a->code));
	EXPECT_EQ(0, remove_table(a->table));
	EXPECT_EQ(-EFAULT, area_add(a));
}

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP	4
#endif

TEST_F(mapped, moving_contents_over_the_table_leaves_it)
{
	struct area *a = &self->area;
	void *from = (void *)a->addr;

	ASSERT_EQ(0, area_add(a));
	memcpy(from, build.mem, PAGE);
	memset((void *)a->table, 0, PAGE);
	ASSERT_EQ((void *)a->table,
		  mremap(from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP |
			 MREMAP_FIXED, (void *)a->table));
	EXPECT_TRUE(is_exact(&a->code));
	EXPECT_EQ(0, remove_table(a->table));
}

/* It is read at the old address, where nothing is mapped any more. */
TEST_F(mapped, table_that_moves_away_ends_walks_that_need_it)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_NE(MAP_FAILED, mremap((void *)a->table, PAGE, PAGE, MREMAP_MAYMOVE |
				     MREMAP_FIXED, a->addr));
	EXPECT_TRUE(is_cut(&a->code));
	EXPECT_TRUE(is_cut(&a->code));
	ASSERT_NE(MAP_FAILED, mremap((void *)a->addr, PAGE, PAGE, MREMAP_MAYMOVE |
				     MREMAP_FIXED, a->table));
	EXPECT_TRUE(is_exact(&a->code));
	EXPECT_EQ(0, remove_table(a->table));
}

/* The mapping without its contents is still there. */
TEST_F(mapped, dropping_the_contents_leaves_it_added)
{
	struct area *a = &self->area;

	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, madvise((void *)a->table, TABLE_SIZE, MADV_DONTNEED));
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_EQ(0, remove_table(a->table));
	EXPECT_EQ(-ENOEXEC, area_add(a));
	memcpy((void *)a->table, build.mem, PAGE);
	EXPECT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
}

TEST_F(mapped, removing_the_pages_of_a_file_leaves_it_added)
{
	struct area *a = &self->area;
	int fd = memfd_create("table", 0);

	ASSERT_EQ((ssize_t)TABLE_SIZE, write(fd, (void *)a->table, TABLE_SIZE));
	ASSERT_EQ((void *)a->table, mmap((void *)a->table, TABLE_SIZE,
					 PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_FIXED, fd, 0));
	ASSERT_EQ(0, area_add(a));
	ASSERT_EQ(0, madvise((void *)a->table, TABLE_SIZE, MADV_REMOVE));
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_EQ(0, remove_table(a->table));
	EXPECT_EQ(-ENOEXEC, area_add(a));
	memcpy((void *)a->table, build.mem, PAGE);
	EXPECT_EQ(0, area_add(a));
	EXPECT_TRUE(is_exact(&a->code));
	close(fd);
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

/* Returns the number of new ones. */
static int peer_add_many(struct peer_talk *talk, struct area *a)
{
	int before = talk->added;

	for (; talk->added < MAX_ADDED; talk->added++) {
		talk->error = add_table(a->table, a->table_end,
					a->text + talk->added,
					a->text + talk->added + 1);
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

static bool peer_start(struct peer *peer, struct area *areas)
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
	munmap(peer->talk, PAGE);
}

FIXTURE(process)
{
	struct area areas[NR_AREAS];
	struct peer peer;
};

FIXTURE_SETUP(process)
{
	int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	for (i = 0; i < NR_AREAS; i++)
		ASSERT_TRUE(area_make(&self->areas[i], 3, true, true));
}

FIXTURE_TEARDOWN(process)
{
}

TEST_F(process, parent_and_child_of_a_fork_do_not_see_what_the_other_does)
{
	struct area *a = self->areas;
	struct peer *peer = &self->peer;

	ASSERT_EQ(0, area_add(&a[0]));
	ASSERT_TRUE(peer_start(peer, a));

	/* The parent removes and adds. */
	ASSERT_EQ(0, remove_table(a[0].table));
	ASSERT_EQ(0, area_add(&a[1]));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_EXACT, 0));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_WITHOUT, 1));
	EXPECT_EQ(-ENOENT, peer_tell(peer, PEER_REMOVE, 1));
	EXPECT_TRUE(is_without_table(&a[0].code));
	EXPECT_TRUE(is_exact(&a[1].code));

	/* The child does. */
	EXPECT_EQ(0, peer_tell(peer, PEER_REMOVE, 0));
	EXPECT_EQ(0, peer_tell(peer, PEER_ADD, 1));
	EXPECT_EQ(0, area_add(&a[0]));
	EXPECT_EQ(0, remove_table(a[1].table));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_WITHOUT, 0));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_EXACT, 1));
	EXPECT_TRUE(is_exact(&a[0].code));
	EXPECT_TRUE(is_without_table(&a[1].code));
	peer_end(peer);
}

TEST_F(process, grandchild_has_what_the_child_had)
{
	struct area *a = self->areas;
	struct peer *peer = &self->peer;

	ASSERT_EQ(0, area_add(&a[0]));
	ASSERT_TRUE(peer_start(peer, a));
	EXPECT_EQ(0, peer_tell(peer, PEER_ADD, 1));
	EXPECT_EQ(0, peer_tell(peer, PEER_FORK, 0));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_EXACT, 0));
	EXPECT_EQ(1, peer_tell(peer, PEER_IS_EXACT, 1));
	EXPECT_EQ(0, peer_tell(peer, PEER_REMOVE, 0));
	EXPECT_EQ(0, peer_tell(peer, PEER_REMOVE, 1));
	EXPECT_EQ(-ENOENT, peer_tell(peer, PEER_REMOVE, 1));
	EXPECT_TRUE(is_exact(&a[0].code));
	EXPECT_TRUE(is_without_table(&a[1].code));
	peer_end(peer);
}

FIXTURE(shared)
{
	struct area areas[NR_AREAS];
};

FIXTURE_VARIANT(shared)
{
	int flags;
};

FIXTURE_VARIANT_ADD(shared, vfork)
{
	.flags = CLONE_VM | CLONE_VFORK,
};

FIXTURE_VARIANT_ADD(shared, clone_vm)
{
	.flags = CLONE_VM,
};

FIXTURE_SETUP(shared)
{
	int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	for (i = 0; i < NR_AREAS; i++)
		ASSERT_TRUE(area_make(&self->areas[i], 3, true, true));
}

FIXTURE_TEARDOWN(shared)
{
}

/* Runs on the parent's memory, while the parent does nothing but wait. */
static int shared_child(void *arg)
{
	pid_t old_tid = stack_ring_tid;
	struct up_ring old = stack_ring;
	struct area *a = arg;
	int ret = 0;

	if (remove_table(a[0].table))
		ret = 1;
	else if (area_add(&a[1]))
		ret = 2;
	else if (!is_without_table(&a[0].code))
		ret = 3;
	else if (!is_exact(&a[1].code))
		ret = 4;

	up_close(&stack_ring);
	stack_ring = old;
	stack_ring_tid = old_tid;
	return ret;
}

TEST_F(shared, tables_are_those_of_the_address_space)
{
	struct area *a = self->areas;
	int size = 64 * PAGE, status;
	u8 *stack;
	pid_t pid;

	ASSERT_EQ(0, area_add(&a[0]));
	EXPECT_TRUE(is_exact(&a[0].code));
	stack = map_anon(0, size, PROT_READ | PROT_WRITE, 0);
	ASSERT_NE(MAP_FAILED, (void *)stack);
	pid = clone(shared_child, stack + size, variant->flags | SIGCHLD, a);
	ASSERT_LT(0, pid);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(is_without_table(&a[0].code));
	EXPECT_TRUE(is_exact(&a[1].code));
	EXPECT_EQ(-ENOENT, remove_table(a[0].table));
	EXPECT_EQ(0, remove_table(a[1].table));
}

/* ------------------------------------------------------------------------ */
/* Memory cgroups							      */

#define CGROUP		"/sys/fs/cgroup"

FIXTURE(cgroup)
{
	struct area areas[NR_AREAS];
	struct peer peer;
	struct peer other;
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

FIXTURE_SETUP(cgroup)
{
	if (must_skip(_metadata, need_memcg()))
		return;
	snprintf(self->path, sizeof(self->path), CGROUP "/unwind_test/%d",
		 getpid());
	ASSERT_EQ(0, write_file(CGROUP "/unwind_test/cgroup.subtree_control",
				"+memory"));
	ASSERT_EQ(0, mkdir(self->path, 0755));
	ASSERT_TRUE(area_make(&self->areas[0], 3, true, true));
	ASSERT_TRUE(area_make(&self->areas[1], 3, true, true));
}

FIXTURE_TEARDOWN(cgroup)
{
	if (self->path[0])
		rmdir(self->path);
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
	char line[64], name[32];
	long val, found = -1;
	FILE *f = fopen(cg_file(dir, "memory.events"), "r");

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%31s %ld", name, &val) == 2 &&
		    !strcmp(name, key))
			found = val;
	}
	fclose(f);
	return found;
}

/* Enough to stand out from what CPUs have in stock, which is charged already */
#define NR_CHARGED	2
#define MEGABYTE	(1024 * 1024L)

TEST_F(cgroup, added_tables_are_charged_until_the_process_ends)
{
	struct peer peers[NR_CHARGED];
	long before;
	int i;

	for (i = 0; i < NR_CHARGED; i++) {
		ASSERT_TRUE(peer_start(&peers[i], self->areas));
		ASSERT_EQ(0, cg_write(self->path, "cgroup.procs", peers[i].pid));
		ASSERT_EQ(0, peer_tell(&peers[i], PEER_ADD, 0));
		ASSERT_EQ(0, peer_tell(&peers[i], PEER_REMOVE, 0));
	}
	before = cg_current(self->path);
	ASSERT_LT(0, before);
	/* Each takes about a megabyte. */
	for (i = 0; i < NR_CHARGED; i++)
		ASSERT_EQ(MAX_ADDED, peer_tell(&peers[i], PEER_ADD_MANY, 0));
	EXPECT_LT(NR_CHARGED * MEGABYTE / 2, cg_current(self->path) - before);

	for (i = 0; i < NR_CHARGED; i++)
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
	struct peer *peer = &self->peer, *other = &self->other;
	int tries, removed;

	ASSERT_TRUE(peer_start(peer, self->areas));
	ASSERT_TRUE(peer_start(other, self->areas));
	ASSERT_EQ(0, cg_write(self->path, "cgroup.procs", peer->pid));
	ASSERT_EQ(0, cg_write(self->path, "cgroup.procs", other->pid));
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
	EXPECT_TRUE(removed == 0 || removed == -ENOMEM) {
		TH_LOG("removed: %d", removed);
	}
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
	peer_end(peer);
	peer_end(other);
}

/* ------------------------------------------------------------------------ */
/* Mappings that change while a search looks at them			      */

/*
 * A thread walks by way of code whose table is not there yet: the disk says when it
 * waits for that. Meanwhile something happens.
 */
FIXTURE(late)
{
	struct image image;
	unsigned long table;
	struct slow_disk disk;
	pthread_t thread;
};

FIXTURE_VARIANT(late)
{
	bool (*meanwhile)(struct image *image, unsigned long table);
	/* Addresses that the walk has then, and that the next one has */
	int nr;
	int nr_next;
};

static bool change_nothing(struct image *image, unsigned long table)
{
	(void)image;
	(void)table;
	return true;
}

static bool change_others(struct image *image, unsigned long table)
{
	(void)image;
	return map_over(table + 2 * PAGE, PAGE, PROT_READ) &&
	       !munmap(map_anon(0, PAGE, PROT_CODE, 0), PAGE);
}

static bool map_code_of(struct image *image, int fd)
{
	void *text = (void *)(image->addr + FILE_TEXT);

	return mmap(text, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
		    FILE_TEXT) == text;
}

/* By the same */
static bool change_code(struct image *image, unsigned long table)
{
	(void)table;
	return !munmap((void *)(image->addr + FILE_TEXT), PAGE) &&
	       map_code_of(image, image->fd);
}

/* By another file with the same code, and without a table */
static bool change_file(struct image *image, unsigned long table)
{
	int fd = memfd_create("other", 0);
	bool ok;

	(void)table;
	ok = fd >= 0 && pwrite(fd, image->file + FILE_TEXT, PAGE, FILE_TEXT) == PAGE &&
	     map_code_of(image, fd);
	close(fd);
	return ok;
}

static bool change_headers(struct image *image, unsigned long table)
{
	void *headers = (void *)image->addr;

	(void)table;
	return mmap(headers, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED,
		    image->fd, 0) == headers;
}

static bool change_protection(struct image *image, unsigned long table)
{
	void *text = (void *)(image->addr + FILE_TEXT);

	(void)table;
	return !mprotect(text, PAGE, PROT_READ);
}

static bool change_table(struct image *image, unsigned long table)
{
	(void)image;
	return map_over(table + PAGE, PAGE, PROT_READ);
}

FIXTURE_VARIANT_ADD(late, nothing_happens)
{
	.meanwhile = change_nothing,
	.nr = 3,
	.nr_next = 3,
};

FIXTURE_VARIANT_ADD(late, others_go)
{
	.meanwhile = change_others,
	.nr = 3,
	.nr_next = 3,
};

FIXTURE_VARIANT_ADD(late, the_code_is_mapped_anew)
{
	.meanwhile = change_code,
	.nr = 3,
	.nr_next = 3,
};

FIXTURE_VARIANT_ADD(late, the_code_is_that_of_another_file)
{
	.meanwhile = change_file,
	.nr = 2,
	.nr_next = 2,
};

FIXTURE_VARIANT_ADD(late, the_code_is_none_any_more)
{
	.meanwhile = change_protection,
	.nr = 1,
	.nr_next = 3,
};

FIXTURE_VARIANT_ADD(late, the_headers_are_mapped_anew)
{
	.meanwhile = change_headers,
	.nr = 3,
	.nr_next = 3,
};

FIXTURE_VARIANT_ADD(late, a_part_of_its_segment_is_replaced)
{
	.meanwhile = change_table,
	.nr = 3,
	.nr_next = 3,
};

FIXTURE_SETUP(late)
{
	unsigned long off = FILE_SIZE - PAGE;
	struct image *image = &self->image;
	size_t len;

	if (must_skip(_metadata, need_sframe()) ||
	    must_skip(_metadata, need_slow_disk()))
		return;
	ASSERT_TRUE(image_make(image, 3, true));
	self->table = image->addr + 6 * PAGE;
	len = code_table(&image->code, true, &build, 3, true, self->table);
	memcpy(image->file + off, build.mem, len);
	image_phdr(&image->phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, off, 6 * PAGE,
		   2 * PAGE);
	image_phdr(&image->phdr[PH_SPARE], PT_LOAD, PF_R, off, 6 * PAGE,
		   2 * PAGE);

	/* The table comes from a disk that has the same as the file. */
	ASSERT_TRUE(slow_disk_open(&self->disk, image->file, FILE_SIZE));
	ASSERT_TRUE(slow_page_withhold(&self->disk, off));
	ASSERT_TRUE(image_map(image));
	ASSERT_EQ((void *)self->table, mmap((void *)self->table, PAGE, PROT_READ,
					    MAP_PRIVATE | MAP_FIXED, self->disk.fd, off));
	ASSERT_TRUE(map_over(self->table + PAGE, PAGE, PROT_READ));
}

FIXTURE_TEARDOWN(late)
{
	image_free(&self->image);
}

/* The number of addresses: the system call, its caller, and by table one more */
static void *late_walk(void *arg)
{
	struct image *image = arg;
	u64 words[] = { 0, image->code.ips[0], image->code.ips[0], 0 };
	uint64_t ips[MAX_IPS];
	int nr = stack_of_words(words, ips);

	up_close(&stack_ring);
	return (void *)(long)nr;
}

TEST_F(late, answer_is_for_the_mappings_that_it_was_found_for)
{
	struct image *image = &self->image;
	void *text = (void *)(image->addr + FILE_TEXT);
	void *nr;

	ASSERT_EQ(0, pthread_create(&self->thread, NULL, late_walk, image));
	ASSERT_TRUE(slow_page_is_asked_for(&self->disk));
	EXPECT_TRUE(variant->meanwhile(image, self->table));
	slow_page_supply(&self->disk);
	ASSERT_EQ(0, pthread_join(self->thread, &nr));
	EXPECT_EQ(variant->nr, (long)nr);

	/* Another walk finds out what there is now. */
	ASSERT_EQ(0, mprotect(text, PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(variant->nr_next, (long)late_walk(image));
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

FIXTURE_TEARDOWN(stuck)
{
}

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
	struct image image;
	void *table;

	if (!image_make(&image, 3, true))
		_exit(1);
	image_phdr(&image.phdr[PH_SFRAME], PT_GNU_SFRAME, PF_R, 0, 6 * PAGE, PAGE);
	image_phdr(&image.phdr[PH_SPARE], PT_LOAD, PF_R, 0, 6 * PAGE, PAGE);
	table = (void *)(image.addr + 6 * PAGE);
	if (!image_map(&image) || mmap(table, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED,
				       fd, 0) != table || !stack_ring_open())
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
	EXPECT_EQ(0, stuck_can_be_killed(stick_in_prctl, self->stuck,
					 &self->disk));
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
	struct area *area;
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
		if (user->area) {
			user->wrong += !is_exact(&user->area->code);
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

FIXTURE(libraries)
{
	struct area area;
};

FIXTURE_SETUP(libraries)
{
	if (must_skip(_metadata, need_lib()))
		return;
	ASSERT_TRUE(area_make(&self->area, 3, true, true));
	ASSERT_EQ(0, area_add(&self->area));
}

FIXTURE_TEARDOWN(libraries)
{
	munmap(self->area.mem, AREA_SIZE);
}

TEST_F_TIMEOUT(libraries, threads_are_exact_while_others_come_and_go, 300)
{
	struct user loaders[NR_LOADERS] = {}, samples[NR_SAMPLED] = {};
	int i;

	samples[0].area = &self->area;
	set_flag(&stop_loading, 0);
	for (i = 0; i < NR_LOADERS; i++) {
		ASSERT_TRUE(copy_lib(&loaders[i], i));
		ASSERT_EQ(0, pthread_create(&loaders[i].thread, NULL,
					    load_and_unload, &loaders[i]));
	}
	for (i = 0; i < NR_SAMPLED; i++) {
		ASSERT_TRUE(copy_lib(&samples[i], NR_LOADERS + i));
		ASSERT_EQ(0, pthread_create(&samples[i].thread, NULL, sampled,
					    &samples[i]));
	}
	for (i = 0; i < NR_SAMPLED; i++) {
		ASSERT_EQ(0, pthread_join(samples[i].thread, NULL));
		EXPECT_EQ(0, samples[i].wrong);
		unlink(samples[i].path);
	}
	set_flag(&stop_loading, 1);
	for (i = 0; i < NR_LOADERS; i++) {
		ASSERT_EQ(0, pthread_join(loaders[i].thread, NULL));
		EXPECT_EQ(0, loaders[i].wrong);
		unlink(loaders[i].path);
	}
}

TEST_HARNESS_MAIN
