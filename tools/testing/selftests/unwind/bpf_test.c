// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of deferred user stacks for BPF programs, black-box: the answers of
 * bpf_unwind_user_request(), and the completions at the tracepoint
 * unwind_deferred_complete.
 */
#include "engine_test.h"
#include "unwind_harness.h"

#ifdef NO_BPF

TEST(bpf)
{
	SKIP(return, "%s", NO_BPF);
}

#else

#include <dlfcn.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf_test.h"
#include "bpf_test.skel.h"
#include "bpf_refused.skel.h"
#include "unwind_perf.h"

#define ENTRIES		100
#define LONG		600
#define MAX_WORKS	62
#define MAX_LINKS	16

/* ------------------------------------------------------------------------ */
/* Programs, loaded and attached					      */

struct bpf {
	struct bpf_test *skel;
	struct ring_buffer *ring;
	struct bpf_link *links[MAX_LINKS];
	struct ub_rec *recs;
	size_t nr;
	size_t size;
};

static char verifier_log[65536];

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return 0;
}

static int bpf_add(void *ctx, void *data, size_t size)
{
	struct bpf *b = ctx;

	if (size != sizeof(struct ub_rec))
		return -EPROTO;
	if (b->nr == b->size) {
		b->size = b->size ? 2 * b->size : 64;
		b->recs = realloc(b->recs, b->size * sizeof(*b->recs));
		if (!b->recs)
			abort();
	}
	b->recs[b->nr++] = *(struct ub_rec *)data;
	return 0;
}

static const char *need_bpf(void)
{
	if (need_root())
		return need_root();
	libbpf_set_print(quiet);
	if (need_file("/sys/kernel/btf/vmlinux"))
		return need_file("/sys/kernel/btf/vmlinux");
	if (up_read_number("/proc/sys/net/core/bpf_jit_enable") <= 0)
		return "needs net.core.bpf_jit_enable";
	return need_tracepoint("unwind", "unwind_deferred_complete");
}

/* Take programs by name, separated by blanks; returns those that do not fit. */
static struct bpf_program *next_program(struct bpf *b, const char **names)
{
	struct bpf_program *prog;
	char name[32];
	int used = 0;

	if (sscanf(*names, " %31s%n", name, &used) != 1)
		return NULL;
	*names += used;
	prog = bpf_object__find_program_by_name(b->skel->obj, name);
	if (!prog) {
		fprintf(stderr, "# no program %s\n", name);
		abort();
	}
	return prog;
}

/*
 * Load those programs, for threads of @tgid; with @hooked, as replacements of a
 * function of that program. Returns 0 or -errno.
 */
static int bpf_load_for(struct bpf *b, pid_t tgid, const char *names,
			struct bpf_program *hooked)
{
	struct bpf_program *prog;
	int ret;

	memset(b, 0, sizeof(*b));
	b->skel = bpf_test__open();
	if (!b->skel)
		return -errno;
	bpf_object__for_each_program(prog, b->skel->obj)
		bpf_program__set_autoload(prog, false);
	while ((prog = next_program(b, &names))) {
		bpf_program__set_autoload(prog, true);
		ret = hooked ? bpf_program__set_attach_target(prog, bpf_program__fd(hooked),
							      "hooked") : 0;
		if (ret)
			return ret;
	}
	ret = bpf_test__load(b->skel);
	if (ret)
		return ret;
	b->skel->bss->want_tgid = tgid;
	b->ring = ring_buffer__new(bpf_map__fd(b->skel->maps.records), bpf_add,
				   b, NULL);
	return b->ring ? 0 : -errno;
}

static int bpf_load(struct bpf *b, pid_t tgid, const char *names)
{
	return bpf_load_for(b, tgid, names, NULL);
}

static int bpf_keep(struct bpf *b, struct bpf_link *link)
{
	int i;

	if (!link)
		return -errno;
	for (i = 0; b->links[i]; i++)
		;
	b->links[i] = link;
	return 0;
}

/* Attach by the section names of the programs. Returns 0 or -errno. */
static int bpf_attach(struct bpf *b, const char *names)
{
	struct bpf_program *prog;
	int ret = 0;

	while (!ret && (prog = next_program(b, &names)))
		ret = bpf_keep(b, bpf_program__attach(prog));
	return ret;
}

/* Detach the programs that were attached last. */
static void bpf_detach(struct bpf *b)
{
	int i;

	for (i = 0; b->links[i]; i++)
		;
	if (i) {
		bpf_link__destroy(b->links[i - 1]);
		b->links[i - 1] = NULL;
	}
}

/* Load and attach. At its tracepoints, only the system call @nr is asked about. */
static int bpf_start(struct bpf *b, pid_t tgid, const char *names, long nr)
{
	int ret = bpf_load(b, tgid, names);

	if (ret)
		return ret;
	b->skel->data->want_nr = nr;
	return bpf_attach(b, names);
}

static void bpf_end(struct bpf *b)
{
	int i;

	for (i = MAX_LINKS - 1; i >= 0; i--)
		bpf_link__destroy(b->links[i]);
	ring_buffer__free(b->ring);
	bpf_test__destroy(b->skel);
	free(b->recs);
	memset(b, 0, sizeof(*b));
}

/* Read the records that have come. Returns an error, or an empty string. */
static const char *bpf_read(struct bpf *b)
{
	if (ring_buffer__consume(b->ring) < 0)
		return "cannot read the records";
	return b->skel->bss->lost ? "records were lost" : "";
}

/* Read them after as many calls of getsid(). */
static const char *bpf_getsid(struct bpf *b, int times)
{
	while (times--)
		chain0(SYS_getsid);
	return bpf_read(b);
}

static void bpf_forget(struct bpf *b)
{
	bpf_read(b);
	b->nr = 0;
}

static size_t count_type(struct bpf *b, int type)
{
	size_t i, n = 0;

	for (i = 0; i < b->nr; i++)
		n += b->recs[i].type == type;
	return n;
}

static size_t count_cookie(struct bpf *b, int type, uint64_t cookie)
{
	size_t i, n = 0;

	for (i = 0; i < b->nr; i++)
		n += b->recs[i].type == type && b->recs[i].cookie == cookie;
	return n;
}

/* The nth request from a place, from 0; or NULL. */
static struct ub_rec *request_at(struct bpf *b, int place, size_t n)
{
	size_t i;

	for (i = 0; i < b->nr; i++)
		if (b->recs[i].type == 'R' && b->recs[i].place == place && !n--)
			return &b->recs[i];
	return NULL;
}

static uint64_t cookie_at(struct bpf *b, int place, size_t n)
{
	struct ub_rec *rec = request_at(b, place, n);

	return rec ? rec->cookie : 0;
}

static int ret_at(struct bpf *b, int place, size_t n)
{
	struct ub_rec *rec = request_at(b, place, n);

	return rec ? rec->ret : -ESRCH;
}

static struct ub_rec *answer_to(struct bpf *b, int type, uint64_t cookie)
{
	size_t i;

	for (i = 0; i < b->nr; i++)
		if (b->recs[i].type == type && b->recs[i].cookie == cookie)
			return &b->recs[i];
	return NULL;
}

/*
 * The rule of all rules: each cookie that was given out has one completion, in
 * the thread that was asked, and each completion was asked for. A program that
 * sees none of this is told first that it was queued. Returns what is wrong, or
 * an empty string.
 */
static const char *check_pairs(struct bpf *b)
{
	struct ub_rec *rec, *other;
	size_t i;

	for (i = 0; i < b->nr; i++) {
		rec = &b->recs[i];
		if (rec->type == 'R' && rec->ret >= 0) {
			if (!rec->cookie)
				return "a request without cookie";
			if (count_cookie(b, 'C', rec->cookie) != 1)
				return "a cookie without exactly one completion";
			other = answer_to(b, 'C', rec->cookie);
			if (other->tid != rec->tid)
				return "a completion in another thread";
		} else if (rec->type == 'R' && rec->cookie) {
			return "a cookie of a refused request";
		} else if (rec->type == 'C') {
			if (!count_cookie(b, 'R', rec->cookie))
				return "a completion that nobody asked for";
			if (rec->copied != (int)rec->nr * 8)
				return "another size copied than the trace has";
			if (!rec->timestamp)
				return "a completion without time";
		}
	}
	return "";
}

/* Pairs, and @nr records in all */
static const char *check_records(struct bpf *b, size_t nr)
{
	static char why[64];

	snprintf(why, sizeof(why), "%zu records, not %zu", b->nr, nr);
	return b->nr == nr ? check_pairs(b) : why;
}

static bool is_chain(const struct ub_rec *rec)
{
	return rec && chain_syscall_ok(rec->ips, rec->nr);
}

/* ------------------------------------------------------------------------ */
/* An instance of ftrace						      */

#define INSTANCE	"instances/unwind_bpf_test"

static __printf(2, 3)
int trace_write(const char *file, const char *text, ...)
{
	char path[256], line[128];
	va_list args;

	va_start(args, text);
	vsnprintf(line, sizeof(line), text, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/" INSTANCE "/%s", tracefs(), file);
	return write_file(path, line);
}

static int trace_create(void)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/" INSTANCE, tracefs());
	/* A test that was killed may have left its own. */
	rmdir(path);
	return mkdir(path, 0700) ? -errno : 0;
}

static int trace_end(void)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/" INSTANCE, tracefs());
	return rmdir(path) ? -errno : 0;
}

/* ------------------------------------------------------------------------ */
/* Types of programs							      */

FIXTURE(type)
{
	struct bpf b;
};

FIXTURE_VARIANT(type)
{
	const char *names;
	int place;
};

FIXTURE_VARIANT_ADD(type, tp_btf) { .names = "complete enter", .place = UB_ENTER };
FIXTURE_VARIANT_ADD(type, fentry) { .names = "complete function", .place = UB_FENTRY };
FIXTURE_VARIANT_ADD(type, kprobe) { .names = "complete kernel_probe", .place = UB_KPROBE };

FIXTURE_VARIANT_ADD(type, tracepoint)
{
	.names = "complete trace_point", .place = UB_TRACEPOINT,
};

FIXTURE_SETUP(type)
{
	if (must_skip(_metadata, need_bpf()))
		return;
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	ASSERT_EQ(0, bpf_start(&self->b, getpid(), variant->names, SYS_getsid));
}

FIXTURE_TEARDOWN(type)
{
	bpf_end(&self->b);
}

TEST_F(type, each_entry_has_one_request_and_one_exact_trace)
{
	uint64_t cookie, last = 0;
	int i;

	ASSERT_STREQ("", bpf_getsid(&self->b, ENTRIES));
	EXPECT_STREQ("", check_records(&self->b, 2 * ENTRIES));
	for (i = 0; i < ENTRIES; i++) {
		EXPECT_EQ(UT_QUEUED, ret_at(&self->b, variant->place, i));
		cookie = cookie_at(&self->b, variant->place, i);
		EXPECT_NE(last, cookie);
		EXPECT_TRUE(is_chain(answer_to(&self->b, 'C', cookie)));
		last = cookie;
	}
}

/* ------------------------------------------------------------------------ */

FIXTURE(bpf)
{
	struct bpf b;
	struct bpf c;
};

FIXTURE_SETUP(bpf)
{
	if (must_skip(_metadata, need_bpf()))
		return;
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
}

FIXTURE_TEARDOWN(bpf)
{
	bpf_end(&self->b);
	bpf_end(&self->c);
}

/* A kernel with the engine has the functions. */
TEST_F(bpf, programs_can_ask_where_perf_defers)
{
	EXPECT_EQ(NULL, need_perf_deferred());
	EXPECT_EQ(0, bpf_load(&self->b, getpid(), "enter complete"));
}

TEST_F(bpf, requests_of_one_entry_share_a_cookie_and_a_completion)
{
	int i;

	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete enter function leave", SYS_getsid));
	ASSERT_STREQ("", bpf_getsid(&self->b, ENTRIES));
	EXPECT_EQ(4 * ENTRIES, self->b.nr);
	EXPECT_EQ(ENTRIES, count_type(&self->b, 'C'));
	EXPECT_STREQ("", check_pairs(&self->b));
	for (i = 0; i < ENTRIES; i++) {
		uint64_t cookie = cookie_at(&self->b, UB_ENTER, i);

		EXPECT_EQ(3, count_cookie(&self->b, 'R', cookie));
		EXPECT_EQ(UT_QUEUED, ret_at(&self->b, UB_ENTER, i));
		EXPECT_EQ(UT_ALREADY_PENDING, ret_at(&self->b, UB_FENTRY, i));
		EXPECT_EQ(UT_ALREADY_PENDING, ret_at(&self->b, UB_EXIT, i));
		EXPECT_TRUE(is_chain(answer_to(&self->b, 'C', cookie)));
	}
}

/* Two objects, as of two users: both get the completion of a request of one. */
TEST_F(bpf, every_listener_gets_every_completion)
{
	uint64_t cookie;
	int i;

	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete complete_too enter walk", SYS_getsid));
	ASSERT_EQ(0, bpf_start(&self->c, getpid(), "complete leave", SYS_getsid));
	self->b.skel->bss->walks = 0;
	for (i = 0; i < ENTRIES; i++)
		chain0(SYS_getsid);
	EXPECT_EQ(ENTRIES, self->b.skel->bss->walks);
	ASSERT_STREQ("", bpf_read(&self->b));
	ASSERT_STREQ("", bpf_read(&self->c));
	EXPECT_EQ(3 * ENTRIES, self->b.nr);
	EXPECT_EQ(2 * ENTRIES, self->c.nr);
	for (i = 0; i < ENTRIES; i++) {
		cookie = cookie_at(&self->b, UB_ENTER, i);
		EXPECT_EQ(cookie, cookie_at(&self->c, UB_EXIT, i));
		EXPECT_EQ(UT_ALREADY_PENDING, ret_at(&self->c, UB_EXIT, i));
		EXPECT_EQ(1, count_cookie(&self->b, 'C', cookie));
		EXPECT_EQ(1, count_cookie(&self->b, 'D', cookie));
		EXPECT_EQ(1, count_cookie(&self->c, 'C', cookie));
		EXPECT_TRUE(is_chain(answer_to(&self->b, 'C', cookie)));
		EXPECT_TRUE(is_chain(answer_to(&self->b, 'D', cookie)));
		EXPECT_TRUE(is_chain(answer_to(&self->c, 'C', cookie)));
	}
}

TEST_F(bpf, trace_is_copied_into_the_value_of_a_map)
{
	uint64_t value[UB_IPS];
	uint32_t key = 0;

	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete_too enter", SYS_getsid));
	chain0(SYS_getsid);
	ASSERT_EQ(0, bpf_map__lookup_elem(self->b.skel->maps.last_trace, &key,
					  sizeof(key), value, sizeof(value), 0));
	EXPECT_TRUE(chain_syscall_ok(value, CHAIN_NR));
	EXPECT_EQ(0, value[CHAIN_NR]);
}

TEST_F(bpf, uprobe_has_the_stack_at_the_probed_instruction)
{
	struct bpf_link *link;
	struct ub_rec *rec;
	uint64_t offset;
	char path[512];

	ASSERT_EQ(0, bpf_load(&self->b, getpid(), "complete user_probe"));
	ASSERT_EQ(0, bpf_attach(&self->b, "complete"));
	/* The last instruction in the loop's way out */
	offset = file_offset(chain_spin_hi, path, sizeof(path));
	link = bpf_program__attach_uprobe(self->b.skel->progs.user_probe, false, 0,
					  path, offset);
	ASSERT_EQ(0, bpf_keep(&self->b, link));
	chain_spin(&(int){ 1 });
	ASSERT_STREQ("", bpf_read(&self->b));
	EXPECT_STREQ("", check_records(&self->b, 2));
	EXPECT_EQ(UT_QUEUED, ret_at(&self->b, UB_UPROBE, 0));
	rec = answer_to(&self->b, 'C', cookie_at(&self->b, UB_UPROBE, 0));
	ASSERT_NE(NULL, rec);
	EXPECT_TRUE(chain_callers_ok(rec->ips, rec->nr));
	EXPECT_EQ((unsigned long)chain_spin_hi, rec->ips[0]);
}

/* ------------------------------------------------------------------------ */
/* Contexts								      */

TEST_F(bpf, perf_event_program_has_the_interrupted_stack)
{
	struct perf_event_attr attr;
	struct actor actor;
	struct bpf_link *link;
	size_t i, spins = 0;
	int fd;

	ASSERT_EQ(0, bpf_load(&self->b, getpid(), "complete on_clock"));
	ASSERT_EQ(0, bpf_attach(&self->b, "complete"));
	ASSERT_TRUE(spinner_start(&actor, nth_cpu(0)));
	self->b.skel->bss->want_tid = actor.tid;
	/* An event with no callchain of its own */
	perf_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 0);
	attr.sample_type = PERF_SAMPLE_IP;
	attr.sample_period = 10000000;
	fd = perf_open(&attr, actor.tid, -1, -1, 0);
	ASSERT_LE(0, fd);
	link = bpf_program__attach_perf_event(self->b.skel->progs.on_clock, fd);
	ASSERT_EQ(0, bpf_keep(&self->b, link));
	while (count_type(&self->b, 'C') < 20) {
		usleep(10000);
		ASSERT_STREQ("", bpf_read(&self->b));
	}
	bpf_detach(&self->b);
	actor_end(&actor);
	ASSERT_STREQ("", bpf_read(&self->b));

	EXPECT_STREQ("", check_pairs(&self->b));
	for (i = 0; i < self->b.nr; i++)
		spins += self->b.recs[i].type == 'C' &&
			 chain_spin_ok(self->b.recs[i].ips, self->b.recs[i].nr);
	/* The first and the last may have hit it elsewhere. */
	EXPECT_LE(count_type(&self->b, 'C') - 2, spins);
}

/* Although the program takes no stack, its replacement may. */
TEST_F(bpf, extension_of_a_perf_event_program_has_the_stack_of_a_deferred_event)
{
	struct timespec ts = { .tv_nsec = 100000000 };
	struct perf_event_attr attr;
	struct bpf_program *prog;
	size_t i, exact = 0;
	int fd;

	ASSERT_EQ(0, bpf_load(&self->b, getpid(), "calls_hook"));
	prog = self->b.skel->progs.calls_hook;
	ASSERT_EQ(0, bpf_load_for(&self->c, getpid(), "hook", prog));
	ASSERT_EQ(0, bpf_attach(&self->c, "hook"));
	perf_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES,
		       UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	fd = perf_open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bpf_keep(&self->b, bpf_program__attach_perf_event(prog, fd)));
	chain_syscall(SYS_nanosleep, (long)&ts, 0, 0, 0, 0, 0);
	bpf_detach(&self->b);
	ASSERT_STREQ("", bpf_read(&self->c));
	ASSERT_LE(1, self->c.nr);
	for (i = 0; i < self->c.nr; i++) {
		struct ub_rec *rec = &self->c.recs[i];

		ASSERT_EQ('S', rec->type);
		/* The first is the marker */
		ASSERT_LT(1, rec->nr);
		EXPECT_EQ((unsigned long)PERF_CONTEXT_USER, rec->ips[0]);
		exact += chain_syscall_ok(rec->ips + 1, rec->nr - 1);
	}
	/* It may have been preempted, too. */
	EXPECT_LE(1, exact);
}

FIXTURE(irq)
{
	struct bpf b;
	struct session s;
};

FIXTURE_VARIANT(irq)
{
	const char *ctx;
	const char *system;
	const char *event;
	const char *prog;
	int place;
};

FIXTURE_VARIANT_ADD(irq, nmi)
{
	.ctx = "nmi", .system = "nmi", .event = "nmi_handler",
	.prog = "nmi", .place = UB_NMI,
};

FIXTURE_VARIANT_ADD(irq, interrupt)
{
	.ctx = "irq", .system = "irq_vectors", .event = "call_function_single_entry",
	.prog = "irq", .place = UB_IRQ,
};

FIXTURE_SETUP(irq)
{
	char names[64];

	if (must_skip(_metadata, need_bpf()) ||
	    must_skip(_metadata, need_module()) ||
	    must_skip(_metadata, need_cpus(2)) ||
	    must_skip(_metadata, need_tracepoint(variant->system, variant->event)))
		return;
	/* No work of its own: it only sends NMIs and interrupts. */
	ASSERT_EQ(0, session_start(&self->s, 0));
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	snprintf(names, sizeof(names), "complete %s", variant->prog);
	ASSERT_EQ(0, bpf_start(&self->b, getpid(), names, -1));
}

FIXTURE_TEARDOWN(irq)
{
	session_end(&self->s);
	bpf_end(&self->b);
}

TEST_F(irq, in_user_space_gets_the_interrupted_stack)
{
	struct actor actor;
	struct ub_rec *rec;
	size_t nr;

	ASSERT_TRUE(spinner_start(&actor, nth_cpu(1)));
	bpf_forget(&self->b);
	self->b.skel->bss->want_tid = actor.tid;
	ASSERT_EQ(0, mod_cmd(self->s.fd, "req 0 %s %d 20 0", variant->ctx,
			     actor.cpu));
	/* The other CPU may have a last one to answer. */
	do {
		ASSERT_STREQ("", bpf_read(&self->b));
	} while (strstr(check_pairs(&self->b), "without exactly one"));
	actor_end(&actor);

	nr = count_type(&self->b, 'R');
	EXPECT_LE(1, nr);
	EXPECT_STREQ("", check_pairs(&self->b));
	/* The last one certainly hit the loop. */
	rec = request_at(&self->b, variant->place, nr - 1);
	ASSERT_NE(NULL, rec);
	rec = answer_to(&self->b, 'C', rec->cookie);
	ASSERT_NE(NULL, rec);
	EXPECT_TRUE(chain_spin_ok(rec->ips, rec->nr));
}

/* ------------------------------------------------------------------------ */
/* Answers that are not a queued request				      */

/* task_work in the middle of the system call: the trace has been taken. */
TEST_F(bpf, executed_request_gets_the_cached_trace)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_NOP };
	struct ub_rec *before, *after;
	int ring;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")))
		return;
	ring = uring_open(&sqe);
	if (ring == -EPERM)
		SKIP(return, "needs io_uring");
	ASSERT_LE(0, ring);

	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete enter leave", SYS_io_uring_enter));
	ASSERT_EQ(1, chain_syscall(SYS_io_uring_enter, ring, 1, 1,
				   IORING_ENTER_GETEVENTS, 0, 0));
	ASSERT_STREQ("", bpf_read(&self->b));
	close(ring);

	EXPECT_STREQ("", check_records(&self->b, 3));
	before = request_at(&self->b, UB_ENTER, 0);
	after = request_at(&self->b, UB_EXIT, 0);
	ASSERT_TRUE(before && after);
	EXPECT_EQ(UT_QUEUED, before->ret);
	EXPECT_EQ(-ENOENT, before->copied);
	EXPECT_EQ(UT_ALREADY_EXECUTED, after->ret);
	EXPECT_EQ(before->cookie, after->cookie);
	EXPECT_EQ(CHAIN_NR * 8, after->copied);
	EXPECT_TRUE(is_chain(after));
	EXPECT_TRUE(is_chain(answer_to(&self->b, 'C', before->cookie)));
}

/* A request within a completion is answered as pending. */
TEST_F(bpf, request_within_the_completion_is_pending)
{
	int i;

	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete complete_asks enter", SYS_getsid));
	ASSERT_STREQ("", bpf_getsid(&self->b, ENTRIES));
	EXPECT_STREQ("", check_records(&self->b, 3 * ENTRIES));
	for (i = 0; i < ENTRIES; i++) {
		struct ub_rec *rec = request_at(&self->b, UB_COMPLETE, i);

		ASSERT_NE(NULL, rec);
		EXPECT_EQ(UT_ALREADY_PENDING, rec->ret);
		EXPECT_EQ(cookie_at(&self->b, UB_ENTER, i), rec->cookie);
		EXPECT_TRUE(is_chain(rec));
	}
}

TEST_F(bpf, without_a_listener_requests_are_refused)
{
	struct perf_event_attr attr;
	int fd;

	if (must_skip(_metadata, need_perf_deferred()))
		return;
	/* The engine is armed: that is not the reason. */
	perf_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY,
		       UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	fd = perf_open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, bpf_load(&self->b, getpid(), "complete enter"));
	ASSERT_EQ(0, bpf_attach(&self->b, "enter"));
	self->b.skel->data->want_nr = SYS_getsid;
	chain0(SYS_getsid);
	ASSERT_EQ(0, bpf_attach(&self->b, "complete"));
	chain0(SYS_getsid);
	bpf_detach(&self->b);
	ASSERT_STREQ("", bpf_getsid(&self->b, 1));
	close(fd);

	EXPECT_EQ(4, self->b.nr);
	EXPECT_EQ(-ENOENT, ret_at(&self->b, UB_ENTER, 0));
	EXPECT_EQ(0, cookie_at(&self->b, UB_ENTER, 0));
	EXPECT_EQ(UT_QUEUED, ret_at(&self->b, UB_ENTER, 1));
	EXPECT_EQ(-ENOENT, ret_at(&self->b, UB_ENTER, 2));
	EXPECT_STREQ("", check_pairs(&self->b));
}

/* Past the last look at the flags nothing could answer. */
TEST_F(bpf, on_the_way_out_requests_are_refused)
{
	size_t i;

	if (must_skip(_metadata, need_tracepoint("context_tracking", "user_enter")))
		return;
	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete way_out", -1));
	for (i = 0; i < ENTRIES; i++)
		chain0(SYS_getsid);
	self->b.skel->bss->want_tgid = 0;
	ASSERT_STREQ("", bpf_read(&self->b));
	if (!self->b.nr)
		SKIP(return, "needs CONFIG_CONTEXT_TRACKING_USER_FORCE or nohz_full=");
	EXPECT_LE(ENTRIES, self->b.nr);
	EXPECT_EQ(self->b.nr, count_type(&self->b, 'R'));
	for (i = 0; i < self->b.nr; i++) {
		EXPECT_EQ(-EINVAL, self->b.recs[i].ret);
		EXPECT_EQ(0, self->b.recs[i].cookie);
	}
}

/* ------------------------------------------------------------------------ */
/* Where a context ends							      */

TEST_F(bpf, execve_has_the_old_stack_then_the_new_one)
{
	const char *target = test_file("exec_target");
	uint64_t before, after;
	struct child child;
	struct ub_rec *rec;

	if (must_skip(_metadata, need_program("exec_target")))
		return;
	ASSERT_TRUE(child_start(&child, SYS_execve, (long)target,
				(long)no_strings, (long)no_strings));
	ASSERT_EQ(0, bpf_start(&self->b, child.pid, "complete enter exec", SYS_execve));
	EXPECT_EQ(0, child_run(&child));
	ASSERT_STREQ("", bpf_read(&self->b));

	EXPECT_STREQ("", check_records(&self->b, 4));
	before = cookie_at(&self->b, UB_ENTER, 0);
	after = cookie_at(&self->b, UB_EXEC, 0);
	EXPECT_NE(before, after);
	EXPECT_TRUE(is_chain(answer_to(&self->b, 'C', before)));
	rec = answer_to(&self->b, 'C', after);
	ASSERT_NE(NULL, rec);
	EXPECT_EQ(1, rec->nr);
	EXPECT_EQ(elf_entry(target), rec->ips[0]);
}

TEST_F(bpf, exit_has_its_stack_and_an_exiting_task_is_refused)
{
	struct child child;

	ASSERT_TRUE(child_start(&child, SYS_exit_group, 0, 0, 0));
	ASSERT_EQ(0, bpf_start(&self->b, child.pid, "complete enter task_exit", SYS_exit_group));
	EXPECT_EQ(0, child_run(&child));
	ASSERT_STREQ("", bpf_read(&self->b));

	EXPECT_STREQ("", check_records(&self->b, 3));
	EXPECT_EQ(UT_QUEUED, ret_at(&self->b, UB_ENTER, 0));
	EXPECT_EQ(-EINVAL, ret_at(&self->b, UB_TASK_EXIT, 0));
	EXPECT_TRUE(is_chain(answer_to(&self->b, 'C', cookie_at(&self->b, UB_ENTER, 0))));
}

static void on_signal(int sig)
{
}

TEST_F(bpf, signal_has_its_stack_and_the_middle_of_its_return_is_refused)
{
	struct sigaction act = { .sa_handler = on_signal };
	uint64_t kill;

	ASSERT_EQ(0, sigaction(SIGUSR1, &act, NULL));
	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete enter signal sigreturn", SYS_tgkill));
	chain_syscall(SYS_tgkill, getpid(), my_tid(), SIGUSR1, 0, 0, 0);
	ASSERT_STREQ("", bpf_read(&self->b));

	EXPECT_STREQ("", check_records(&self->b, 4));
	EXPECT_EQ(1, count_type(&self->b, 'C'));
	kill = cookie_at(&self->b, UB_ENTER, 0);
	EXPECT_EQ(kill, cookie_at(&self->b, UB_SIGNAL, 0));
	EXPECT_TRUE(is_chain(answer_to(&self->b, 'C', kill)));
	/* The registers are neither the old ones nor the new ones. */
	EXPECT_EQ(-EAGAIN, ret_at(&self->b, UB_SIGRETURN, 0));
	EXPECT_EQ(0, cookie_at(&self->b, UB_SIGRETURN, 0));
}

/* ------------------------------------------------------------------------ */
/* Long traces, small buffers						      */

/* Frames on a stack of our own, each one the caller of the one below. */
static uint64_t deep_stack[2 * 600];
#define DEEP_RA		0x10000000UL

static void make_deep_stack(void)
{
	uint64_t *frame = deep_stack;
	int i;

	for (i = 0; i < 600; i++, frame += 2) {
		frame[0] = i < 599 ? (unsigned long)(frame + 2) : 0;
		frame[1] = DEEP_RA + i;
	}
}

/* A task that has been walked has room for more as soon as more may be asked for. */
TEST_F(bpf, deep_stack_is_copied_as_far_as_it_was_taken)
{
	static const struct {
		int allowed;
		unsigned int nr;
	} cases[] = { { 127, 127 }, { 128, UT_MAX_ENTRIES }, { 1024, UT_MAX_ENTRIES } };
	long long allowed = up_read_number(SYSCTL_MAX_STACK);
	unsigned int i, j;
	struct ub_rec *rec;

	make_deep_stack();
	ASSERT_TRUE(map_code(DEEP_RA, 600));
	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete enter", SYS_getsid));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT_EQ(0, up_write_number(SYSCTL_MAX_STACK, cases[i].allowed));
		framed_syscall(SYS_getsid, 0, 0, 0, deep_stack, deep_stack);
	}
	up_write_number(SYSCTL_MAX_STACK, allowed);
	ASSERT_STREQ("", bpf_read(&self->b));
	EXPECT_STREQ("", check_pairs(&self->b));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		rec = answer_to(&self->b, 'C', cookie_at(&self->b, UB_ENTER, i));
		ASSERT_NE(NULL, rec);
		ASSERT_EQ(cases[i].nr, rec->nr);
		EXPECT_EQ((unsigned long)framed_ip_syscall, rec->ips[0]);
		for (j = 1; j < rec->nr; j++)
			ASSERT_EQ(DEEP_RA + j - 1, rec->ips[j]);
	}
}

TEST_F(bpf, small_buffer_gets_whole_innermost_addresses)
{
	static const struct {
		int room;
		int copied;
	} cases[] = {
		{ 0, 0 }, { 7, 0 }, { 8, 8 }, { 15, 8 }, { 31, 24 },
		{ 32, 32 }, { 33, 32 }, { 4096, 32 },
	};
	struct ub_rec *rec;
	size_t i;

	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete enter", SYS_getsid));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		self->b.skel->data->room = cases[i].room;
		chain0(SYS_getsid);
		ASSERT_STREQ("", bpf_read(&self->b));
		rec = answer_to(&self->b, 'C', cookie_at(&self->b, UB_ENTER, i));
		ASSERT_NE(NULL, rec);
		EXPECT_EQ(CHAIN_NR, rec->nr);
		EXPECT_EQ(cases[i].copied, rec->copied);
		if (rec->copied)
			EXPECT_EQ((unsigned long)chain_ip_syscall, rec->ips[0]);
	}
}

/* ------------------------------------------------------------------------ */
/* Use of the engine							      */

/*
 * All programs and links together are one of 62 tracers, from boot on: they work
 * with every other place taken.
 */
TEST_F(bpf, programs_have_a_place_of_their_own)
{
	struct session s;
	int nr;

	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&s, 0));
	for (nr = 0; nr < MAX_WORKS && !mod_cmd(s.fd, "init %d", nr); nr++)
		;
	/* perf has one as well; others may have some. */
	EXPECT_LE(nr, MAX_WORKS - 2);
	EXPECT_LE(MAX_WORKS - 10, nr);

	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete complete_too enter leave",
			       SYS_getsid));
	ASSERT_EQ(0, bpf_start(&self->c, getpid(), "complete enter function", SYS_getsid));

	/* And each of them is served, in the same context. */
	ASSERT_EQ(0, chain_cmd(s.fd, "req %lx task", (1UL << nr) - 1));
	ASSERT_EQ(0, mod_log(s.fd, &s.log));
	EXPECT_EQ(nr, log_count(&s.log, 'C', -1));
	EXPECT_EQ(NULL, log_unpaired(&s.log));
	ASSERT_STREQ("", bpf_getsid(&self->b, 1));
	ASSERT_STREQ("", bpf_read(&self->c));
	EXPECT_STREQ("", check_records(&self->b, 4));
	EXPECT_STREQ("", check_records(&self->c, 3));
	session_end(&s);
}

/* Programs that ask arm nothing; those that listen do, until they are detached. */
TEST_F(bpf, engine_is_armed_as_long_as_somebody_listens)
{
	struct session s;

	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&s, 2));
	ASSERT_EQ(0, bpf_load(&self->b, getpid(), "complete enter"));
	ASSERT_EQ(0, bpf_attach(&self->b, "enter"));
	EXPECT_STREQ("", switch_off(&s));
	session_forget(&s);

	ASSERT_EQ(0, bpf_attach(&self->b, "complete"));
	ASSERT_EQ(0, chain_cmd(s.fd, "req 1 task"));
	ASSERT_EQ(0, mod_log(s.fd, &s.log));
	EXPECT_EQ(1, log_rets(&s.log, 0, UT_QUEUED));
	EXPECT_EQ(1, log_count(&s.log, 'C', 0));

	/* After this disarm nobody is left. */
	ASSERT_EQ(0, mod_cmd(s.fd, "arm"));
	bpf_detach(&self->b);
	EXPECT_STREQ("", switch_off(&s));
	session_end(&s);
}

static int listener_comes_and_goes(void *arg)
{
	struct bpf *b = arg;
	int ret = bpf_attach(b, "complete");

	bpf_detach(b);
	return ret;
}

/*
 * A callback may sleep as long as it likes. All tracepoints are locked while a
 * listener is attached or detached: neither may wait for callbacks.
 */
TEST_F(bpf, listener_comes_and_goes_while_a_callback_waits)
{
	struct held held;
	struct side side;

	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, bpf_load(&self->b, getpid(), "complete"));
	ASSERT_EQ(0, held_start(&held));
	ASSERT_TRUE(side_start(&side, listener_comes_and_goes, &self->b));
	EXPECT_TRUE(side_returns(&side));
	EXPECT_EQ(0, held_end(&held));
	EXPECT_EQ(0, side_end(&side));
}

/* Enabling all events must not request user stacks. */
TEST_F_TIMEOUT(bpf, enabling_all_events_arms_nothing, LONG)
{
	struct session s;

	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, bpf_load(&self->b, getpid(), "enter"));
	ASSERT_EQ(0, bpf_attach(&self->b, "enter"));
	self->b.skel->data->want_nr = SYS_getsid;
	ASSERT_EQ(0, session_start(&s, 2));
	ASSERT_EQ(0, trace_create());
	/* Enabled, though not recorded: that would take long. */
	ASSERT_EQ(0, trace_write("tracing_on", "0"));
	EXPECT_EQ(0, trace_write("events/unwind/enable", "1"));
	EXPECT_EQ(0, trace_write("set_event", "*:*"));
	EXPECT_EQ(0, trace_write("events/enable", "1"));
	EXPECT_STREQ("", switch_off(&s));
	ASSERT_STREQ("", bpf_getsid(&self->b, 1));
	EXPECT_EQ(1, self->b.nr);
	EXPECT_EQ(-ENOENT, ret_at(&self->b, UB_ENTER, 0));
	EXPECT_EQ(0, trace_end());
	session_end(&s);
}

/* Each kind of listening program arms the engine. */
TEST_F(bpf, program_at_the_trace_event_is_a_listener)
{
	struct ub_rec *rec;

	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete_event enter", SYS_getsid));
	ASSERT_STREQ("", bpf_getsid(&self->b, 1));
	EXPECT_EQ(2, self->b.nr);
	EXPECT_EQ(UT_QUEUED, ret_at(&self->b, UB_ENTER, 0));
	EXPECT_STREQ("", check_pairs(&self->b));
	rec = answer_to(&self->b, 'C', cookie_at(&self->b, UB_ENTER, 0));
	ASSERT_NE(NULL, rec);
	EXPECT_EQ(CHAIN_NR, rec->nr);
}

/* ------------------------------------------------------------------------ */
/* Detached with a request pending					      */

FIXTURE(pending)
{
	struct bpf b;
	struct bpf c;
	struct actor actor;
	int pipe[2];
	char byte;
};

/* A thread waits in read(), for which a program has asked. */
FIXTURE_SETUP(pending)
{
	if (must_skip(_metadata, need_bpf()))
		return;
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	ASSERT_EQ(0, pipe(self->pipe));
	ASSERT_TRUE(actor_start(&self->actor, nth_cpu(0)));
	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "enter complete", -1));
	self->b.skel->bss->want_tid = self->actor.tid;
	self->b.skel->data->want_nr = SYS_read;
	actor_go(&self->actor, SYS_read, self->pipe[0], (long)&self->byte, 1);
	ASSERT_TRUE(wait_blocked(self->actor.tid, SYS_read));
	ASSERT_STREQ("", bpf_read(&self->b));
	ASSERT_EQ(1, self->b.nr);
	ASSERT_EQ(UT_QUEUED, ret_at(&self->b, UB_ENTER, 0));
}

FIXTURE_TEARDOWN(pending)
{
	actor_end(&self->actor);
	close(self->pipe[0]);
	close(self->pipe[1]);
	bpf_end(&self->b);
	bpf_end(&self->c);
}

TEST_F(pending, completion_comes_with_the_return_to_user_space)
{
	ASSERT_EQ(0, actor_feed(&self->actor, self->pipe[1]));
	ASSERT_STREQ("", bpf_read(&self->b));
	EXPECT_STREQ("", check_records(&self->b, 2));
	EXPECT_TRUE(is_chain(answer_to(&self->b, 'C', self->b.recs[0].cookie)));
}

TEST_F(pending, detached_there_is_no_completion_then_it_works_again)
{
	bpf_detach(&self->b);
	ASSERT_EQ(0, actor_feed(&self->actor, self->pipe[1]));
	ASSERT_EQ(0, bpf_attach(&self->b, "complete"));
	actor_go(&self->actor, SYS_read, self->pipe[0], (long)&self->byte, 1);
	ASSERT_TRUE(wait_blocked(self->actor.tid, SYS_read));
	ASSERT_EQ(0, actor_feed(&self->actor, self->pipe[1]));
	ASSERT_STREQ("", bpf_read(&self->b));
	EXPECT_EQ(3, self->b.nr);
	EXPECT_EQ(0, count_cookie(&self->b, 'C', self->b.recs[0].cookie));
	EXPECT_EQ(UT_QUEUED, ret_at(&self->b, UB_ENTER, 1));
	EXPECT_EQ(1, count_cookie(&self->b, 'C', cookie_at(&self->b, UB_ENTER, 1)));
}

/* A completion needs a listener only when the thread returns. */
TEST_F(pending, detached_and_attached_there_is_the_completion)
{
	bpf_detach(&self->b);
	ASSERT_EQ(0, bpf_attach(&self->b, "complete"));
	ASSERT_EQ(0, actor_feed(&self->actor, self->pipe[1]));
	ASSERT_STREQ("", bpf_read(&self->b));
	EXPECT_STREQ("", check_records(&self->b, 2));
}

TEST_F(pending, another_listener_keeps_what_was_asked)
{
	ASSERT_EQ(0, bpf_start(&self->c, getpid(), "complete", -1));
	bpf_detach(&self->b);
	ASSERT_EQ(0, actor_feed(&self->actor, self->pipe[1]));
	ASSERT_STREQ("", bpf_read(&self->b));
	ASSERT_STREQ("", bpf_read(&self->c));
	EXPECT_EQ(1, self->b.nr);
	EXPECT_EQ(1, self->c.nr);
	EXPECT_TRUE(is_chain(answer_to(&self->c, 'C', self->b.recs[0].cookie)));
}

/* The program that asked is gone; the listener gets its completion. */
TEST_F(pending, all_gone_the_thread_returns)
{
	bpf_end(&self->b);
	EXPECT_EQ(0, actor_feed(&self->actor, self->pipe[1]));
}

/* ------------------------------------------------------------------------ */
/* Beside perf and ftrace						      */

/* An instance whose events have deferred user stacks. */
static int trace_start(pid_t tid, const char *event)
{
	return trace_create() ?:
	       trace_write("buffer_size_kb", "4096") ?:
	       trace_write("options/userstacktrace", "1") ?:
	       trace_write("options/userstacktrace_delay", "1") ?:
	       trace_write("set_event_pid", "%d", tid) ?:
	       trace_write(event, "1");
}

/* Its cookies and stacks, as records of the kinds 'R' and 'C'. */
static size_t trace_read(struct ub_rec *recs, size_t max)
{
	struct ub_rec *rec = NULL;
	char path[256], *line = NULL, *pos;
	size_t nr = 0, size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/" INSTANCE "/trace", tracefs());
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (getline(&line, &size, file) > 0) {
		pos = strstr(line, "<user unwind cookie> cookie=") ?:
		      strstr(line, "<user unwind stack> cookie=");
		if (pos) {
			if (nr == max)
				break;
			rec = &recs[nr++];
			memset(rec, 0, sizeof(*rec));
			rec->type = strstr(pos, "unwind cookie>") ? 'R' : 'C';
			rec->cookie = strtoul(strchr(pos, '=') + 1, NULL, 16);
		} else if (rec && strstr(line, " =>  <") == line &&
			   rec->nr < UB_IPS) {
			rec->ips[rec->nr++] = strtoul(line + 6, NULL, 16);
		}
	}
	free(line);
	fclose(file);
	return nr;
}

FIXTURE(three)
{
	struct bpf b;
	struct up_ring ring;
	struct ub_rec *recs;
	size_t nr;
	void *lib;
};

FIXTURE_VARIANT(three)
{
	bool sframe;
};

FIXTURE_VARIANT_ADD(three, frame_pointers) { .sframe = false };
FIXTURE_VARIANT_ADD(three, sframe_tables) { .sframe = true };

FIXTURE_SETUP(three)
{
	struct perf_event_attr attr;

	if (must_skip(_metadata, need_bpf()) ||
	    must_skip(_metadata, need_perf_deferred()) ||
	    must_skip(_metadata, need_tracepoint("syscalls", "sys_enter_getsid")))
		return;
	if (variant->sframe) {
		if (must_skip(_metadata, need_file(test_file("sframe_lib.so"))))
			return;
		self->lib = dlopen(test_file("sframe_lib.so"), RTLD_NOW);
		ASSERT_NE(NULL, self->lib);
	}
	self->recs = calloc(2 * ENTRIES + 1, sizeof(*self->recs));
	ASSERT_NE(NULL, self->recs);
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("syscalls", "sys_enter_getsid"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	ASSERT_EQ(0, up_open(&self->ring, &attr, 0, -1, -1));
	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete enter walk", SYS_getsid));
	ASSERT_EQ(0, trace_start(my_tid(),
				 "events/syscalls/sys_enter_getsid/enable"));
	ASSERT_EQ(0, up_enable(&self->ring));
}

FIXTURE_TEARDOWN(three)
{
	bpf_end(&self->b);
	up_close(&self->ring);
	trace_end();
	free(self->recs);
	if (self->lib)
		dlclose(self->lib);
}

/* The nth request of this thread at sys_enter, from 0; or NULL. */
static struct ub_rec *own_request(struct bpf *b, size_t n)
{
	size_t i;

	for (i = 0; i < b->nr; i++)
		if (b->recs[i].type == 'R' && b->recs[i].tid == my_tid() && !n--)
			return &b->recs[i];
	return NULL;
}

static void *entries_main(void *arg)
{
	int i;

	pin_to_cpu(nth_cpu((long)arg));
	for (i = 0; i < ENTRIES; i++)
		chain0(SYS_getsid);
	return NULL;
}

/* Every tracer on every entry, while programs ask other threads as well. */
TEST_F_TIMEOUT(three, have_one_walk_the_same_cookie_and_the_same_frames, LONG)
{
	static const char * const symbols[] = {
		"sframe_lib_ip_leaf", "sframe_lib_ip_inner", "sframe_lib_ip_middle",
		"sframe_lib_ip_call",
	};
	long (*call)(long nr) = self->lib ? dlsym(self->lib, "sframe_lib_call") : chain0;
	struct ub_rec *request, *bpf, *stack;
	struct up_rec *sample, *record;
	pthread_t threads[2];
	uint64_t cookie;
	long i, j;

	self->b.skel->bss->walks = 0;
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, entries_main,
					    (void *)(nth_cpu(1) < 0 ? 0 : i)));
	for (i = 0; i < ENTRIES; i++)
		call(SYS_getsid);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ASSERT_EQ(0, up_disable(&self->ring));
	ASSERT_EQ(0, trace_write("tracing_on", "0"));
	self->b.skel->data->want_nr = -1;

	up_drain(&self->ring);
	self->nr = trace_read(self->recs, 2 * ENTRIES + 1);
	ASSERT_STREQ("", bpf_read(&self->b));

	EXPECT_EQ(ENTRIES, up_count(&self->ring, PERF_RECORD_SAMPLE));
	EXPECT_EQ(ENTRIES, up_count(&self->ring, UT_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(2 * ENTRIES, self->nr);
	EXPECT_STREQ("", check_records(&self->b, 3 * 2 * ENTRIES));
	EXPECT_EQ(3 * ENTRIES, self->b.skel->bss->walks);
	for (i = 0; i < ENTRIES; i++) {
		request = own_request(&self->b, i);
		ASSERT_NE(NULL, request);
		EXPECT_EQ(UT_QUEUED, request->ret);
		cookie = request->cookie;
		bpf = answer_to(&self->b, 'C', cookie);
		sample = up_nth(&self->ring, PERF_RECORD_SAMPLE, i);
		ASSERT_TRUE(bpf && sample);
		EXPECT_EQ(cookie, sample->cookie);
		EXPECT_EQ(1, up_count_cookie(&self->ring, cookie));
		record = up_find_cookie(&self->ring, cookie);
		ASSERT_NE(NULL, record);
		EXPECT_TRUE(up_frames_equal(record->ips, record->nr, bpf->ips, bpf->nr));

		for (stack = NULL, j = 0; j < (long)self->nr; j++) {
			if (self->recs[j].type != 'C' || self->recs[j].cookie != cookie)
				continue;
			EXPECT_EQ(NULL, stack);
			stack = &self->recs[j];
		}
		ASSERT_NE(NULL, stack);
		EXPECT_TRUE(up_frames_equal(stack->ips, stack->nr, bpf->ips, bpf->nr));

		if (!self->lib) {
			EXPECT_TRUE(is_chain(bpf));
			continue;
		}
		ASSERT_LT(ARRAY_SIZE(symbols), bpf->nr);
		for (j = 0; j < (long)ARRAY_SIZE(symbols); j++)
			EXPECT_EQ((unsigned long)dlsym(self->lib, symbols[j]),
				  bpf->ips[j]);
	}
}

/* Every place is taken, by all kinds, and all ask in one entry. */
TEST_F(three, and_as_many_others_as_there_are_places)
{
	struct log_entry *entry;
	struct session s;
	uint64_t cookie;
	int i, nr;

	if (must_skip(_metadata, need_module()) ||
	    must_skip(_metadata, need_tracepoint("syscalls", "sys_enter_write")))
		return;
	ASSERT_EQ(0, session_start(&s, 0));
	for (nr = 0; !mod_cmd(s.fd, "init %d", nr); nr++)
		;
	/* perf, this instance of ftrace and BPF have one each. */
	EXPECT_LE(nr, MAX_WORKS - 3);
	EXPECT_LE(MAX_WORKS - 10, nr);
	/* It asks in write(), so all have to look there. */
	ASSERT_EQ(0, trace_write("events/syscalls/sys_enter_getsid/enable", "0"));
	ASSERT_EQ(0, trace_write("events/syscalls/sys_enter_write/enable", "1"));
	self->b.skel->data->want_nr = SYS_write;
	self->b.skel->bss->walks = 0;
	ASSERT_EQ(0, chain_cmd(s.fd, "req %llx task", (1ULL << nr) - 1));
	self->b.skel->data->want_nr = -1;
	EXPECT_EQ(1, self->b.skel->bss->walks);
	ASSERT_EQ(0, trace_write("tracing_on", "0"));

	ASSERT_STREQ("", bpf_read(&self->b));
	EXPECT_STREQ("", check_records(&self->b, 2));
	cookie = cookie_at(&self->b, UB_ENTER, 0);
	EXPECT_TRUE(is_chain(answer_to(&self->b, 'C', cookie)));

	ASSERT_EQ(0, mod_log(s.fd, &s.log));
	EXPECT_EQ(NULL, log_unpaired(&s.log));
	EXPECT_EQ(nr, log_count(&s.log, 'R', -1));
	EXPECT_EQ(nr, log_count(&s.log, 'C', -1));
	for (i = 0; i < nr; i++) {
		entry = log_answer(&s.log, i, cookie);
		ASSERT_NE(NULL, entry);
		EXPECT_TRUE(chain_syscall_ok(entry->ips, entry->nr));
	}

	/* Writes to other files come after it. */
	self->nr = trace_read(self->recs, 2 * ENTRIES + 1);
	for (i = 0, nr = 0; i < (int)self->nr; i++) {
		if (self->recs[i].type != 'C' || self->recs[i].cookie != cookie)
			continue;
		nr++;
		EXPECT_TRUE(is_chain(&self->recs[i]));
	}
	EXPECT_EQ(1, nr);
	session_end(&s);
}

/* One walk for all three, and no other walk. */
TEST_F(three, are_served_by_one_walk)
{
	int i;

	self->b.skel->bss->walks = 0;
	for (i = 0; i < ENTRIES; i++)
		chain0(SYS_getsid);
	self->b.skel->bss->want_tgid = 0;
	EXPECT_EQ(ENTRIES, self->b.skel->bss->walks);
}

/* ------------------------------------------------------------------------ */
/* Refusals of the verifier						      */

static const struct {
	const char *name;
	/* A part of its message, so that it refuses for the intended reason */
	const char *why;
} refused[] = {
	{ "cookie_null", "Possibly NULL pointer" },
	{ "cookie_number", "expected=fp" },
	{ "cookie_in_the_kernel", "is not supported" },
	{ "cookie_of_four_bytes", "invalid access to map value" },
	{ "cookie_that_may_be_null", "Possibly NULL pointer" },
	{ "cookie_that_is_read_only", "write into map forbidden" },
	{ "cached_to_null", "Possibly NULL pointer" },
	{ "cached_too_large", "leads to invalid memory access" },
	{ "cached_of_any_size", "unbounded memory access" },
	{ "cached_into_the_kernel", "is not supported" },
	{ "copy_too_large", "leads to invalid memory access" },
	{ "copy_of_null", "Possibly NULL pointer" },
	{ "copy_of_a_task", "expected pointer to STRUCT unwind_stacktrace" },
	{ "copy_of_own_memory", "must point to scalar" },
	{ "copy_of_a_cast", "must be referenced or trusted" },
	{ "trace_is_written_to", "only read is supported" },
	{ "copy_of_an_argument", "must be referenced or trusted" },
	{ "by_raw_tracepoint", "is not allowed" },
	{ "by_socket_filter", "is not allowed" },
	{ "by_xdp", "is not allowed" },
};

TEST_F_TIMEOUT(bpf, verifier_refuses_bad_arguments_and_other_types, LONG)
{
	struct bpf_refused *skel;
	struct bpf_program *prog;
	size_t i, nr = 0;
	int ret;

	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		skel = bpf_refused__open();
		ASSERT_NE(NULL, skel);
		nr = 0;
		bpf_object__for_each_program(prog, skel->obj) {
			bool load = !strcmp(bpf_program__name(prog), refused[i].name);

			nr++;
			bpf_program__set_autoload(prog, load);
			if (load)
				bpf_program__set_log_buf(prog, verifier_log,
							 sizeof(verifier_log));
		}
		verifier_log[0] = 0;
		ret = bpf_refused__load(skel);
		bpf_refused__destroy(skel);
		EXPECT_TRUE(ret == -EACCES || ret == -EINVAL)
			TH_LOG("%s: %d\n%s", refused[i].name, ret, verifier_log);
		EXPECT_NE(NULL, strstr(verifier_log, refused[i].why))
			TH_LOG("%s:\n%s", refused[i].name, verifier_log);
	}
	EXPECT_EQ(nr, ARRAY_SIZE(refused));
}

/* ------------------------------------------------------------------------ */
/* Under load								      */

#define ROUNDS		6

struct load {
	pthread_t thread;
	int cpu;
	int *end;
};

static void *load_main(void *arg)
{
	struct load *load = arg;

	pin_to_cpu(load->cpu);
	while (!get_flag(load->end))
		chain0(SYS_getsid);
	return NULL;
}

TEST_F_TIMEOUT(bpf, listeners_and_programs_that_come_and_go_disturb_nobody, LONG)
{
	typeof(*self->b.skel->bss) *count;
	struct load loads[3];
	int i, end = 0, round;

	ASSERT_EQ(0, bpf_load(&self->b, getpid(), "complete enter leave"));
	count = self->b.skel->bss;
	count->count_only = 1;
	self->b.skel->data->want_nr = SYS_getsid;
	for (i = 0; i < 3; i++) {
		/* One on our CPU, the others where they race with us. */
		loads[i].cpu = nth_cpu(nth_cpu(1) < 0 ? 0 : !!i);
		loads[i].end = &end;
		ASSERT_EQ(0, pthread_create(&loads[i].thread, NULL, load_main, &loads[i]));
	}
	for (round = 0; round < ROUNDS; round++) {
		ASSERT_EQ(0, bpf_attach(&self->b, round % 2 ? "enter complete leave" :
							      "complete leave enter"));
		usleep(20000);
		if (round % 3 == 2) {
			/* A whole object is closed, with pending requests. */
			ASSERT_EQ(0, bpf_start(&self->c, getpid(), "complete enter", -1));
			self->c.skel->bss->count_only = 1;
			self->c.skel->data->want_nr = SYS_getsid;
			usleep(20000);
			bpf_end(&self->c);
		}
		bpf_detach(&self->b);
		bpf_detach(&self->b);
		bpf_detach(&self->b);
	}

	/*
	 * Only requests pending when the listener was detached may lack a
	 * completion.
	 */
	EXPECT_LE(1, count->completed);
	EXPECT_LE(count->completed, count->queued);
	EXPECT_LE(count->queued - count->completed, 3 * ROUNDS);
	set_flag(&end, 1);
	for (i = 0; i < 3; i++)
		pthread_join(loads[i].thread, NULL);

	/* Afterwards requests work as before. */
	bpf_end(&self->b);
	ASSERT_EQ(0, bpf_start(&self->b, getpid(), "complete enter", SYS_getsid));
	ASSERT_STREQ("", bpf_getsid(&self->b, 1));
	EXPECT_STREQ("", check_records(&self->b, 2));
}

#endif /* !NO_BPF */

TEST_HARNESS_MAIN
