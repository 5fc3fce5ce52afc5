// SPDX-License-Identifier: GPL-2.0
/*
 * The perf ABI: deferred events with a BPF program, which sees the stack in place.
 */
#include <linux/bpf.h>
#include <linux/hw_breakpoint.h>
#include <time.h>

#include "walker_stubs.h"
#include "perf_fixture.h"

#define SYSCTL_IN_PLACE		"/proc/sys/kernel/unwind_in_place"

/* ------------------------------------------------------------------------ */
/* BPF									    */

struct bpf_result {
	int64_t hits;
	int64_t user_id;
	int64_t kernel_id;
	int64_t user_size;
	int64_t kernel_size;
	int64_t pad;
	uint64_t user[32];
	uint64_t kernel[32];
};

#define STACK_DEPTH	32

static int sys_bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

static int bpf_map(int type, int key, int value, int entries)
{
	union bpf_attr attr = {
		.map_type = type, .key_size = key, .value_size = value,
		.max_entries = entries,
	};

	return sys_bpf(BPF_MAP_CREATE, &attr);
}

static int bpf_lookup(int fd, uint32_t key, void *value)
{
	union bpf_attr attr = {
		.map_fd = fd, .key = A(&key), .value = A(value),
	};

	return sys_bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

#define INSN(c, d, s, o, i) \
	((struct bpf_insn){ .code = c, .dst_reg = d, .src_reg = s, .off = o, .imm = i })
#define MOV_REG(d, s)	INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOV_IMM(d, i)	INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD_IMM(d, i)	INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define STORE(d, o, s)	INSN(BPF_STX | BPF_MEM | BPF_DW, d, s, o, 0)
#define LOAD(d, s, o)	INSN(BPF_LDX | BPF_MEM | BPF_DW, d, s, o, 0)
#define STORE_IMM(d, o, i) INSN(BPF_ST | BPF_MEM | BPF_W, d, 0, o, i)
#define CALL(f)		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define JNE_IMM(d, i, o) INSN(BPF_JMP | BPF_JNE | BPF_K, d, 0, o, i)
#define EXIT()		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define MAP_FD(d, f)	INSN(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_FD, 0, f)
/* The second half of it */
#define MAP_FD_END()	INSN(0, 0, 0, 0, 0)

/* Returns the program's fd or -errno. */
static int bpf_load(const struct bpf_insn *insns, size_t nr)
{
	static char log[65536];
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_PERF_EVENT,
		.insns = A(insns), .insn_cnt = nr,
		.license = A("GPL"),
		.log_buf = A(log), .log_size = sizeof(log), .log_level = 1,
	};
	int fd = sys_bpf(BPF_PROG_LOAD, &attr);

	if (fd < 0)
		fprintf(stderr, "# %s\n", log);
	return fd;
}

/* What bpf_stack_prog() fills in */
struct maps {
	int array;
	int stacks;
};

static void maps_open(struct __test_metadata *_metadata, struct maps *maps)
{
	maps->array = bpf_map(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct bpf_result), 1);
	ASSERT_LE(0, maps->array);
	maps->stacks = bpf_map(BPF_MAP_TYPE_STACK_TRACE, 4, STACK_DEPTH * 8, 4096);
	ASSERT_LE(0, maps->stacks);
}

static void maps_close(struct maps *maps)
{
	close(maps->array);
	close(maps->stacks);
}

/*
 * Into the one element of the array: bpf_get_stackid() and bpf_get_stack() of
 * the user and of the kernel part. @keep: the sample goes to the ring buffer as
 * well. Returns the program's fd or -errno.
 */
static int bpf_stack_prog(struct maps *maps, bool keep)
{
	struct bpf_insn insns[] = {
		MOV_REG(6, 1),
		STORE_IMM(10, -4, 0),
		MAP_FD(1, maps->array),
		MAP_FD_END(),
		MOV_REG(2, 10),
		ADD_IMM(2, -4),
		CALL(BPF_FUNC_map_lookup_elem),
		JNE_IMM(0, 0, 2),
		MOV_IMM(0, 0),
		EXIT(),
		MOV_REG(7, 0),
		LOAD(1, 7, offsetof(struct bpf_result, hits)),
		ADD_IMM(1, 1),
		STORE(7, offsetof(struct bpf_result, hits), 1),

		MOV_REG(1, 6),
		MAP_FD(2, maps->stacks),
		MAP_FD_END(),
		MOV_IMM(3, BPF_F_USER_STACK),
		CALL(BPF_FUNC_get_stackid),
		STORE(7, offsetof(struct bpf_result, user_id), 0),

		MOV_REG(1, 6),
		MAP_FD(2, maps->stacks),
		MAP_FD_END(),
		MOV_IMM(3, 0),
		CALL(BPF_FUNC_get_stackid),
		STORE(7, offsetof(struct bpf_result, kernel_id), 0),

		MOV_REG(1, 6),
		MOV_REG(2, 7),
		ADD_IMM(2, offsetof(struct bpf_result, user)),
		MOV_IMM(3, STACK_DEPTH * 8),
		MOV_IMM(4, BPF_F_USER_STACK),
		CALL(BPF_FUNC_get_stack),
		STORE(7, offsetof(struct bpf_result, user_size), 0),

		MOV_REG(1, 6),
		MOV_REG(2, 7),
		ADD_IMM(2, offsetof(struct bpf_result, kernel)),
		MOV_IMM(3, STACK_DEPTH * 8),
		MOV_IMM(4, 0),
		CALL(BPF_FUNC_get_stack),
		STORE(7, offsetof(struct bpf_result, kernel_size), 0),

		MOV_IMM(0, keep),
		EXIT(),
	};

	return bpf_load(insns, ARRAY_SIZE(insns));
}

/*
 * The stack that the program saw, by both helpers: exactly these entries, of which the
 * first is the marker.
 */
static void expect_stack(struct __test_metadata *_metadata, struct maps *maps,
			 const uint64_t *seen, int64_t size, int64_t id,
			 const uint64_t *expected, size_t nr)
{
	uint64_t stack[STACK_DEPTH];
	size_t i, wrong = 0;

	ASSERT_EQ(nr * 8, size);
	EXPECT_TRUE(up_frames_equal(seen, nr, expected, nr));
	ASSERT_LE(0, id);
	ASSERT_EQ(0, bpf_lookup(maps->stacks, id, stack));
	EXPECT_TRUE(up_frames_equal(stack, nr, expected, nr));
	for (i = nr; i < STACK_DEPTH; i++)
		wrong += stack[i] != 0;
	EXPECT_EQ(0, wrong);
}

/* A program that takes no stack. */
static int bpf_plain_prog(bool keep)
{
	struct bpf_insn insns[] = {
		MOV_IMM(0, keep),
		EXIT(),
	};

	return bpf_load(insns, ARRAY_SIZE(insns));
}

/* A program that takes at most two entries of the user part. */
static int bpf_short_stack_prog(void)
{
	struct bpf_insn insns[] = {
		MOV_REG(2, 10),
		ADD_IMM(2, -16),
		MOV_IMM(3, 16),
		MOV_IMM(4, BPF_F_USER_STACK),
		CALL(BPF_FUNC_get_stack),
		MOV_IMM(0, 1),
		EXIT(),
	};

	return bpf_load(insns, ARRAY_SIZE(insns));
}

/* A program that tail calls the first of @progs. */
static int bpf_tail_prog(int progs)
{
	struct bpf_insn insns[] = {
		MAP_FD(2, progs),
		MAP_FD_END(),
		MOV_IMM(3, 0),
		CALL(BPF_FUNC_tail_call),
		MOV_IMM(0, 0),
		EXIT(),
	};

	return bpf_load(insns, ARRAY_SIZE(insns));
}

/*
 * A context switch below chain_syscall(), with the program on the event, and at
 * most @depth frames in a chain. Returns the number of those that are the kernel's.
 */
static size_t check_bpf(struct __test_metadata *_metadata, uint64_t bits,
			unsigned int depth)
{
	/* The helpers take the marker of the user part for one of its frames */
	uint64_t expected[] = {
		PERF_CONTEXT_USER, A(chain_ip_syscall), A(chain_ip_middle),
		A(chain_ip_outer), A(chain_ip_base),
	};
	int nr = ARRAY_SIZE(expected);
	struct timespec ts = { .tv_nsec = 2000000 };
	struct bpf_result res = {}, zero = {};
	struct perf_event_attr attr;
	struct up_rec *sample, *rec;
	struct up_ring *ring;
	struct maps maps;
	int prog, i, tries;
	uint32_t key = 0;

	union bpf_attr update = { .key = A(&key), .value = A(&zero) };

	maps_open(_metadata, &maps);
	prog = bpf_stack_prog(&maps, true);
	ASSERT_LE(0, prog);
	update.map_fd = maps.array;

	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, bits);
	attr.sample_max_stack = depth;
	ring = open_ring(&attr, 0, -1);
	ASSERT_EQ(0, ioctl(ring->fd, PERF_EVENT_IOC_SET_BPF, prog));
	/* Until the one switch is that of the sleep, and not of the tick */
	for (tries = 0; tries < 50; tries++) {
		up_reset(ring);
		ASSERT_EQ(0, sys_bpf(BPF_MAP_UPDATE_ELEM, &update));
		ASSERT_EQ(0, up_enable(ring));
		chain_syscall(SYS_nanosleep, (long)&ts, 0, 0, 0, 0, 0);
		ASSERT_EQ(0, up_disable(ring));
		ASSERT_EQ(0, bpf_lookup(maps.array, 0, &res));
		up_drain(ring);
		if (res.hits == 1 && count_samples(ring) == 1)
			break;
	}
	ASSERT_EQ(1, res.hits);
	ASSERT_EQ(1, count_samples(ring));
	EXPECT_EQ(0, up_count_bad(ring));
	sample = sample_nr(ring, 0);
	/* The kernel's part can be shorter than the one from which @depth was computed. */
	if (depth && (int)(1 + depth - sample->nr_kernel) < nr)
		nr = 1 + depth - sample->nr_kernel;

	expect_stack(_metadata, &maps, res.user, res.user_size, res.user_id, expected, nr);
	expect_stack(_metadata, &maps, res.kernel, res.kernel_size, res.kernel_id,
		     sample->ips, sample->nr_kernel + 1);

	/* The sample itself is the same as without the program */
	if (bits) {
		rec = answer_to(sample, ring);
		ASSERT_NE(NULL, rec);
		EXPECT_TRUE(up_frames_equal(rec->ips, rec->nr, chain_frames,
					    depth && depth < CHAIN_NR ? depth : CHAIN_NR));
		for (i = 0; i < STACK_DEPTH; i++) {
			EXPECT_NE(rec->cookie, res.user[i]);
			EXPECT_NE(rec->cookie, res.kernel[i]);
		}
	} else {
		EXPECT_TRUE(has_frames(sample, chain_frames, nr - 1));
	}
	close(prog);
	maps_close(&maps);
	return sample->nr_kernel;
}

FIXTURE(bpf)
{
};

FIXTURE_VARIANT(bpf)
{
	uint64_t bits;
};

FIXTURE_VARIANT_ADD(bpf, deferred) { .bits = DEFER | OUTPUT };

FIXTURE_VARIANT_ADD(bpf, in_place)
{
};

FIXTURE_SETUP(bpf)
{
	if (must_skip(_metadata, need_abi()))
		return;
	if (must_skip(_metadata, need_file("/proc/sys/kernel/unprivileged_bpf_disabled")))
		return;
	abi_begin();
}

FIXTURE_TEARDOWN(bpf)
{
	abi_end();
}

TEST_F(bpf, stacks_are_those_taken_in_place)
{
	check_bpf(_metadata, variant->bits, 0);
}

/* Two frames are left for the user part. */
TEST_F(bpf, stacks_respect_the_events_depth)
{
	size_t nr = check_bpf(_metadata, variant->bits, 0);

	check_bpf(_metadata, variant->bits, nr + 2);
}

/*
 * io_uring_enter() unwinds when it runs task work, then it sleeps: the sample of
 * the context switch has the frames from the cache.
 */
TEST_F(abi, sample_of_a_bpf_program_holds_the_frames_of_the_record)
{
	struct __kernel_timespec ts = { .tv_nsec = 100000000 };
	struct io_uring_getevents_arg arg = { .ts = A(&ts) };
	struct io_uring_params params = {};
	struct up_ring *enter, *sleeps;
	struct perf_event_attr attr;
	struct up_rec *sample, *rec;
	size_t i;
	int fd;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	fd = syscall(SYS_io_uring_setup, 4, &params);
	ASSERT_LE(0, fd);
	enter = open_enter(SYS_io_uring_enter, DEFER | OUTPUT);
	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, DEFER);
	sleeps = open_ring(&attr, 0, -1);
	ASSERT_EQ(0, ioctl(sleeps->fd, PERF_EVENT_IOC_SET_BPF, bpf_plain_prog(true)));
	ASSERT_TRUE(enable_all());
	EXPECT_EQ(-ETIME, chain_syscall(SYS_io_uring_enter, fd, 0, 1,
					IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
					A(&arg), sizeof(arg)));
	EXPECT_TRUE(drain_all());
	ASSERT_EQ(1, count_samples(enter));
	/* The task may be preempted in other system calls, too. */
	ASSERT_LE(1, count_records(enter));
	rec = answer_to(sample_nr(enter, 0), enter);
	ASSERT_NE(NULL, rec);
	EXPECT_TRUE(chain_syscall_ok(rec->ips, rec->nr));
	/* The last one: the tick may have come between */
	for (i = count_samples(sleeps); i; i--) {
		sample = sample_nr(sleeps, i - 1);
		if (!sample->deferred)
			break;
	}
	ASSERT_LT(0, i);
	EXPECT_LE(rec->time, sample->time);
	EXPECT_LT(0, sample->nr_kernel);
	ASSERT_TRUE(sample->has_user);
	EXPECT_TRUE(up_frames_equal(sample->user, sample->nr_user, rec->ips, rec->nr));
	close(fd);
}

/* ------------------------------------------------------------------------ */
/* Walks in place that are cut short					      */

/*
 * touch_at() writes to the watched word from below two frames, of which a walk
 * that may not wait for pages finds one only:
 *
 *	touch_ip		after the write
 *	TOUCH_NEAR		of a frame in memory
 *	TOUCH_FAR		of a frame in a page that is not mapped yet
 */
#define TOUCH_NEAR	0x10000000UL
#define TOUCH_FAR	0x20000000UL

static __u64 touch_word;
static const uint64_t touch_frames[] = { A(touch_ip), TOUCH_NEAR, TOUCH_FAR };

FIXTURE(touch)
{
	struct up_ring *ring;
	/* Page faults of the kernel at the frame that is far */
	struct up_ring *faults;
	unsigned long sp;
	unsigned long fp;
	struct maps maps;
};

static void attr_touch(struct perf_event_attr *attr, uint64_t bits)
{
	up_attr_init(attr, PERF_TYPE_BREAKPOINT, 0, bits);
	attr->bp_type = HW_BREAKPOINT_W;
	attr->bp_addr = A(&touch_word);
	attr->bp_len = HW_BREAKPOINT_LEN_8;
	attr->exclude_kernel = 1;
}

FIXTURE_SETUP(touch)
{
	struct perf_event_attr attr;
	unsigned long far;
	uint64_t *frame;
	int fd;

	if (must_skip(_metadata, need_perf_deferred()))
		return;
	if (must_skip(_metadata, need_file("/proc/sys/kernel/unprivileged_bpf_disabled")))
		return;
	if (must_skip(_metadata, need_tracepoint("exceptions", "page_fault_kernel")))
		return;
	abi_begin();
	/* A look of the task for walks by tables takes page faults, too. */
	up_write_number(SYSCTL_IN_PLACE, 0);
	ASSERT_TRUE(map_code(TOUCH_NEAR, 1));
	ASSERT_TRUE(map_code(TOUCH_FAR, 1));
	maps_open(_metadata, &self->maps);

	fd = memfd_create("far", 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, 4096));
	frame = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, (void *)frame);
	frame[0] = 0;
	frame[1] = TOUCH_FAR;
	frame = mmap(NULL, 0x20000, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)frame);
	self->sp = A(frame) + 0x8000;
	self->fp = A(frame) + 0x9000;
	far = A(frame) + 0x10000;
	frame = (uint64_t *)self->fp;
	frame[0] = far;
	frame[1] = TOUCH_NEAR;
	ASSERT_EQ(far, A(mmap((void *)far, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0)));
	close(fd);

	attr_touch(&attr, DEFER | OUTPUT);
	self->ring = open_ring(&attr, 0, -1);
	/* Not deferred, and longer than the other's chain */
	attr_tracepoint(&attr, "exceptions", "page_fault_kernel", 0);
	attr.exclude_callchain_kernel = 0;
	self->faults = open_ring(&attr, 0, -1);
	ASSERT_EQ(0, set_filter(self->faults, "address >= %#lx && address < %#lx",
				far, far + 4096));
}

FIXTURE_TEARDOWN(touch)
{
	up_write_number(SYSCTL_IN_PLACE, 1);
	abi_end();
	maps_close(&self->maps);
}

/* With @prog on the event: one sample at most. */
static void touch(struct __test_metadata *_metadata, struct _test_data_touch *self,
		  int prog)
{
	ASSERT_LE(0, prog);
	ASSERT_EQ(0, ioctl(self->ring->fd, PERF_EVENT_IOC_SET_BPF, prog));
	close(prog);
	ASSERT_TRUE(enable_all());
	touch_at(self->sp, self->fp, &touch_word);
	EXPECT_TRUE(drain_all());
}

/* The stack that the program saw. */
static void expect_touch_in_place(struct __test_metadata *_metadata,
				  struct _test_data_touch *self)
{
	uint64_t expected[] = { PERF_CONTEXT_USER, A(touch_ip), TOUCH_NEAR };
	struct bpf_result res = {};

	ASSERT_EQ(0, bpf_lookup(self->maps.array, 0, &res));
	EXPECT_EQ(1, res.hits);
	expect_stack(_metadata, &self->maps, res.user, res.user_size, res.user_id, expected,
		     ARRAY_SIZE(expected));
	EXPECT_EQ(0, res.kernel_size);
}

static void expect_touch_deferred(struct __test_metadata *_metadata,
				  struct _test_data_touch *self)
{
	ASSERT_EQ(1, count_samples(self->ring));
	ASSERT_EQ(1, count_records(self->ring));
	EXPECT_EQ(2, sample_nr(self->ring, 0)->nr);
	EXPECT_TRUE(is_answered(sample_nr(self->ring, 0), self->ring, touch_frames,
				ARRAY_SIZE(touch_frames)));
}

/*
 * The walk in place stumbles over the page, which is a sample with a callchain
 * of its own in the same context. Then the one on the way out stumbles over it as
 * well, at first among other frames and then by itself. The page is then read in without
 * another exception.
 */
TEST_F(touch, bpf_program_has_its_chain_although_the_walk_is_sampled)
{
	struct up_rec *fault;
	size_t i;

	touch(_metadata, self, bpf_stack_prog(&self->maps, true));
	expect_touch_in_place(_metadata, self);
	expect_touch_deferred(_metadata, self);
	ASSERT_EQ(3, count_samples(self->faults));
	/* Its place was taken */
	EXPECT_EQ(0, sample_nr(self->faults, 0)->nr);
	for (i = 1; i < 3; i++) {
		fault = sample_nr(self->faults, i);
		EXPECT_LT(0, fault->nr_kernel);
		ASSERT_TRUE(fault->has_user);
		EXPECT_EQ(A(touch_ip), fault->user[0]);
	}
}

TEST_F(touch, bpf_program_that_takes_no_stack_costs_no_walk_in_place)
{
	touch(_metadata, self, bpf_plain_prog(true));
	expect_touch_deferred(_metadata, self);
	/* Twice on the way out: see above. */
	EXPECT_EQ(2, count_samples(self->faults));
}

TEST_F(touch, sample_that_a_bpf_program_drops_asks_for_no_record)
{
	touch(_metadata, self, bpf_plain_prog(false));
	EXPECT_EQ(0, count_samples(self->ring));
	EXPECT_EQ(0, count_records(self->ring));
	EXPECT_EQ(0, count_samples(self->faults));
}

TEST_F(touch, sample_dropped_by_a_bpf_program_that_took_the_stack_asks_for_no_record)
{
	touch(_metadata, self, bpf_stack_prog(&self->maps, false));
	expect_touch_in_place(_metadata, self);
	EXPECT_EQ(0, count_samples(self->ring));
	EXPECT_EQ(0, count_records(self->ring));
	EXPECT_EQ(1, count_samples(self->faults));
}

/* The attached program does not know what the next one does. */
TEST_F(touch, bpf_program_at_the_end_of_a_tail_call_has_the_stack)
{
	int progs = bpf_map(BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 1);
	int next = bpf_stack_prog(&self->maps, true);
	uint32_t key = 0;
	union bpf_attr update = {
		.map_fd = progs, .key = A(&key), .value = A(&next),
	};

	ASSERT_LE(0, progs);
	ASSERT_LE(0, next);
	ASSERT_EQ(0, sys_bpf(BPF_MAP_UPDATE_ELEM, &update));
	touch(_metadata, self, bpf_tail_prog(progs));
	expect_touch_in_place(_metadata, self);
	expect_touch_deferred(_metadata, self);
	close(next);
	close(progs);
}

/* The last sample before the limit, which is as long as it turns out. */
TEST_F(touch, last_sample_of_a_bpf_program_is_unwound_in_place)
{
	ASSERT_EQ(0, ioctl(self->ring->fd, PERF_EVENT_IOC_SET_BPF, bpf_plain_prog(true)));
	ASSERT_EQ(0, up_enable(self->faults));
	ASSERT_EQ(0, ioctl(self->ring->fd, PERF_EVENT_IOC_REFRESH, 1));
	touch_at(self->sp, self->fp, &touch_word);
	EXPECT_TRUE(drain_all());
	ASSERT_EQ(1, count_samples(self->ring));
	EXPECT_EQ(0, count_records(self->ring));
	EXPECT_TRUE(has_frames(sample_nr(self->ring, 0), touch_frames, 2));
	EXPECT_EQ(1, count_samples(self->faults));
}

/* A dump takes what the rest of the largest record leaves: 65528 in all. */
static void check_dump(struct __test_metadata *_metadata, struct _test_data_touch *self,
		       bool last)
{
	struct perf_event_attr attr;
	struct up_rec *rec;

	up_close(self->ring);
	attr_touch(&attr, DEFER | OUTPUT);
	attr.sample_type |= PERF_SAMPLE_STACK_USER;
	attr.sample_stack_user = 65528;
	ASSERT_EQ(0, up_open(self->ring, &attr, 0, -1, -1));
	ASSERT_EQ(0, ioctl(self->ring->fd, PERF_EVENT_IOC_SET_BPF, bpf_plain_prog(true)));
	ASSERT_EQ(0, last ? ioctl(self->ring->fd, PERF_EVENT_IOC_REFRESH, 1) :
			    up_enable(self->ring));
	touch_at(self->sp, self->fp, &touch_word);
	ASSERT_EQ(0, up_disable(self->ring));
	up_drain(self->ring);
	EXPECT_EQ(0, up_count_bad(self->ring));
	ASSERT_EQ(1, count_samples(self->ring));
	rec = sample_nr(self->ring, 0);
	EXPECT_EQ(65528, rec->size);
	EXPECT_EQ(65528 - UP_SAMPLE_SIZE(rec->nr) - 2 * 8, rec->stack_size);
}

TEST_F(touch, dump_of_the_stack_leaves_room_for_marker_and_cookie)
{
	check_dump(_metadata, self, false);
	expect_touch_deferred(_metadata, self);
}

TEST_F(touch, dump_of_the_stack_leaves_room_for_the_frames)
{
	check_dump(_metadata, self, true);
	EXPECT_EQ(0, count_records(self->ring));
	EXPECT_TRUE(has_frames(sample_nr(self->ring, 0), touch_frames, 2));
}

/* The buffer of a program does not limit the sample. */
static void check_short_stack(struct __test_metadata *_metadata,
			      struct _test_data_touch *self, uint64_t bits)
{
	struct perf_event_attr attr;

	up_close(self->ring);
	attr_touch(&attr, bits);
	ASSERT_EQ(0, up_open(self->ring, &attr, 0, -1, -1));
	touch(_metadata, self, bpf_short_stack_prog());
}

TEST_F(touch, sample_is_whole_after_a_bpf_program_took_a_part_of_the_stack)
{
	check_short_stack(_metadata, self, 0);
	ASSERT_EQ(1, count_samples(self->ring));
	EXPECT_TRUE(has_frames(sample_nr(self->ring, 0), touch_frames, 2));
}

TEST_F(touch, deferred_sample_is_whole_after_a_bpf_program_took_a_part_of_the_stack)
{
	check_short_stack(_metadata, self, DEFER | OUTPUT);
	expect_touch_deferred(_metadata, self);
}

TEST_HARNESS_MAIN
