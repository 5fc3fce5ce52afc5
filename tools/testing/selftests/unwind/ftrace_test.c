// SPDX-License-Identifier: GPL-2.0
/*
 * The trace option userstacktrace_delay. Events are fired from a stack that is
 * known to the byte, and the buffer of an instance is read in binary afterwards, by the
 * offsets in the format files: each event with its cookie, each cookie with its stack,
 * and no more than that.
 */
#include <sys/sysinfo.h>

#include "engine_test.h"
#include "unwind_perf.h"
#include "unwind_harness.h"

#define ENTRIES		100
/* Seconds, for actions that take long on a kernel with checkers */
#define LONG		300
#define NAME		"unwind_test"
/* Places that the engine has for works */
#define MAX_WORKS	62

/* Bits of a trace entry's flags */
#define FLAG_HARDIRQ	0x08
#define FLAG_NMI	0x40

/* ------------------------------------------------------------------------ */
/* Format files								      */

static struct {
	int cookie_id, stack_id, user_id;
	unsigned int cookie;
	unsigned int stack_cookie, timestamp, tgid, nr, caller;
	unsigned int user_caller;
} fmt;

static bool slurp(const char *path, char *buf, size_t size)
{
	ssize_t len, done = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	do {
		len = read(fd, buf + done, size - 1 - done);
		done += len > 0 ? len : 0;
	} while (len > 0 && done < (ssize_t)size - 1);
	close(fd);
	buf[done] = 0;
	return len >= 0;
}

/* The number after @key; @from is where to start looking. */
static bool number_after(const char *from, const char *key, unsigned int *val)
{
	const char *pos = from ? strstr(from, key) : NULL;

	return pos && sscanf(pos + strlen(key), "%u", val) == 1;
}

/* The offset of a field, given as "type name;". */
static bool field_offset(const char *text, const char *field, unsigned int *val)
{
	return number_after(strstr(text, field), "offset:", val);
}

static bool read_format(const char *event, char *text, size_t size, int *id)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/events/ftrace/%s/format", tracefs(), event);
	return slurp(path, text, size) && number_after(text, "ID: ", (unsigned int *)id);
}

static const char *read_formats(void)
{
	char text[8192];

	if (!read_format("user_unwind_cookie", text, sizeof(text), &fmt.cookie_id) ||
	    !field_offset(text, "u64 cookie;", &fmt.cookie))
		return "user_unwind_cookie";

	if (!read_format("user_unwind_stack", text, sizeof(text), &fmt.stack_id) ||
	    !field_offset(text, "u64 cookie;", &fmt.stack_cookie) ||
	    !field_offset(text, "u64 timestamp;", &fmt.timestamp) ||
	    !field_offset(text, "unsigned int tgid;", &fmt.tgid) ||
	    !field_offset(text, "unsigned int nr;", &fmt.nr) ||
	    !field_offset(text, "u64 caller[];", &fmt.caller) ||
	    !strstr(text, "__print_array(REC->caller, REC->nr, 8)"))
		return "user_unwind_stack";

	if (!read_format("user_stack", text, sizeof(text), &fmt.user_id) ||
	    !field_offset(text, "unsigned long caller[8];", &fmt.user_caller))
		return "user_stack";
	return NULL;
}

/* ------------------------------------------------------------------------ */
/* An instance and what is in its buffer				      */

struct rec {
	uint64_t	time;
	size_t		seq;
	int		cpu;
	int		type;
	int		pid;
	uint8_t		flags;
	/* For cookies and stacks */
	uint64_t	cookie;
	/* For stacks; ips also for those taken in place */
	uint64_t	timestamp;
	unsigned int	tgid;
	unsigned int	nr;
	uint64_t	*ips;
};

struct inst {
	char		dir[128];
	struct rec	*recs;
	size_t		nr;
	size_t		max;
	/* The reader met something that it does not understand. */
	bool		bad;
	bool		lost;
};

static const char *inst_path(struct inst *inst, const char *file)
{
	static char path[384];

	snprintf(path, sizeof(path), "%s/%s", inst->dir, file);
	return path;
}

static __printf(3, 4)
int inst_write(struct inst *inst, const char *file, const char *text, ...)
{
	char line[256];
	va_list args;

	va_start(args, text);
	vsnprintf(line, sizeof(line), text, args);
	va_end(args);
	return write_file(inst_path(inst, file), line);
}

static char *inst_read(struct inst *inst, const char *file)
{
	static char text[1 << 20];

	if (!slurp(inst_path(inst, file), text, sizeof(text)))
		text[0] = 0;
	return text;
}

static bool inst_has(struct inst *inst, const char *file)
{
	return !access(inst_path(inst, file), F_OK);
}

static int inst_enable(struct inst *inst, const char *event, int on)
{
	char file[256];

	snprintf(file, sizeof(file), "events/%s/enable", event);
	return inst_write(inst, file, "%d", on);
}

/* One event, of one thread only. */
static int inst_trace(struct inst *inst, const char *event, pid_t tid)
{
	return inst_write(inst, "set_event_pid", "%d", tid) ?:
	       inst_enable(inst, event, 1);
}

static int inst_clear(struct inst *inst)
{
	int fd = open(inst_path(inst, "trace"), O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void inst_forget(struct inst *inst)
{
	size_t i;

	for (i = 0; i < inst->nr; i++)
		free(inst->recs[i].ips);
	inst->nr = 0;
}

static int inst_options(struct inst *inst)
{
	return inst_write(inst, "options/userstacktrace", "1") ?:
	       inst_write(inst, "options/userstacktrace_delay", "1");
}

/* Make an instance, with both options on. */
static int inst_create(struct inst *inst, int nr)
{
	memset(inst, 0, sizeof(*inst));
	snprintf(inst->dir, sizeof(inst->dir), "%s/instances/" NAME "%d",
		 tracefs(), nr);
	/* A test that was killed may have left its own. */
	rmdir(inst->dir);
	if (mkdir(inst->dir, 0700)) {
		inst->dir[0] = 0;
		return -errno;
	}
	return inst_options(inst);
}

static int inst_remove(struct inst *inst)
{
	int ret = 0;

	if (inst->dir[0] && rmdir(inst->dir))
		ret = -errno;
	inst_forget(inst);
	free(inst->recs);
	memset(inst, 0, sizeof(*inst));
	return ret;
}

static uint64_t get64(const unsigned char *p)
{
	uint64_t val;

	memcpy(&val, p, sizeof(val));
	return val;
}

static uint32_t get32(const unsigned char *p)
{
	uint32_t val;

	memcpy(&val, p, sizeof(val));
	return val;
}

static void get_ips(struct rec *rec, const unsigned char *p, unsigned int nr)
{
	rec->nr = nr;
	rec->ips = malloc(nr * 8 + 8);
	memcpy(rec->ips, p, nr * 8);
}

static void inst_add(struct inst *inst, const unsigned char *p, size_t size,
		     uint64_t time, int cpu)
{
	struct rec *rec;
	uint16_t type;

	if (size < 8) {
		inst->bad = true;
		return;
	}
	if (inst->nr == inst->max) {
		inst->max = inst->max ? 2 * inst->max : 256;
		inst->recs = realloc(inst->recs, inst->max * sizeof(*rec));
		if (!inst->recs)
			abort();
	}
	memcpy(&type, p, sizeof(type));
	rec = &inst->recs[inst->nr];
	*rec = (struct rec){
		.time = time, .seq = inst->nr, .cpu = cpu, .type = type,
		.flags = p[2], .pid = get32(p + 4),
	};
	inst->nr++;

	if (type == fmt.cookie_id) {
		if (size < fmt.cookie + 8)
			inst->bad = true;
		else
			rec->cookie = get64(p + fmt.cookie);
	} else if (type == fmt.stack_id) {
		/* Exactly as long as it says */
		if (size < fmt.caller ||
		    size != fmt.caller + 8 * (size_t)get32(p + fmt.nr)) {
			inst->bad = true;
			return;
		}
		rec->cookie = get64(p + fmt.stack_cookie);
		rec->timestamp = get64(p + fmt.timestamp);
		rec->tgid = get32(p + fmt.tgid);
		get_ips(rec, p + fmt.caller, get32(p + fmt.nr));
	} else if (type == fmt.user_id) {
		if (size < fmt.user_caller + 64) {
			inst->bad = true;
			return;
		}
		get_ips(rec, p + fmt.user_caller, 8);
		while (rec->nr && !rec->ips[rec->nr - 1])
			rec->nr--;
	}
}

/* A page as trace_pipe_raw hands it out; events/header_page describes it. */
static void inst_page(struct inst *inst, const unsigned char *page, int cpu)
{
	uint64_t time = get64(page), commit = get64(page + 8);
	const unsigned char *p = page + 16, *end = p + (commit & 0xfffff);

	if (commit & (1ULL << 31))
		inst->lost = true;
	while (end - p >= 4) {
		uint32_t word = get32(p), type_len = word & 31, delta = word >> 5;
		size_t size;

		p += 4;
		switch (type_len) {
		case 29:
			/* Padding: of a discarded event, or to the end */
			if (!delta)
				return;
			time += delta;
			p += get32(p);
			break;
		case 30:
			time += ((uint64_t)get32(p) << 27) + delta;
			p += 4;
			break;
		case 31:
			time = ((uint64_t)get32(p) << 27) + delta;
			p += 4;
			break;
		default:
			time += delta;
			size = type_len ? 4 * type_len : get32(p) - 4;
			p += type_len ? 0 : 4;
			if (size > (size_t)(end - p)) {
				inst->bad = true;
				return;
			}
			inst_add(inst, p, size, time, cpu);
			p += size;
			break;
		}
	}
}

static int rec_cmp(const void *a, const void *b)
{
	const struct rec *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Read the buffers of all CPUs; in order of time. */
static int inst_drain_file(struct inst *inst, const char *name)
{
	static unsigned char page[1 << 17];
	char path[384];
	ssize_t len;
	int cpu, fd;

	inst_forget(inst);
	for (cpu = 0; cpu < get_nprocs_conf(); cpu++) {
		snprintf(path, sizeof(path), "%s/per_cpu/cpu%d/%s", inst->dir,
			 cpu, name);
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		for (;;) {
			/* The unread rest of a page is not read again. */
			memset(page, 0, 16);
			len = read(fd, page, sizeof(page));
			if (len <= 0)
				break;
			inst_page(inst, page, cpu);
		}
		close(fd);
	}
	qsort(inst->recs, inst->nr, sizeof(*inst->recs), rec_cmp);
	return inst->bad ? -EPROTO : 0;
}

static int inst_drain(struct inst *inst)
{
	return inst_drain_file(inst, "trace_pipe_raw");
}

static size_t count_type(struct inst *inst, int type)
{
	size_t i, n = 0;

	for (i = 0; i < inst->nr; i++)
		n += inst->recs[i].type == type;
	return n;
}

/* The @n-th of a type, counted from 0, or NULL. */
static struct rec *nth_type(struct inst *inst, int type, size_t n)
{
	size_t i;

	for (i = 0; i < inst->nr; i++)
		if (inst->recs[i].type == type && !n--)
			return &inst->recs[i];
	return NULL;
}

static size_t count_cookie(struct inst *inst, int type, uint64_t cookie)
{
	size_t i, n = 0;

	for (i = 0; i < inst->nr; i++)
		n += inst->recs[i].type == type &&
		     inst->recs[i].cookie == cookie;
	return n;
}

static struct rec *stack_of(struct inst *inst, uint64_t cookie)
{
	size_t i;

	for (i = 0; i < inst->nr; i++)
		if (inst->recs[i].type == fmt.stack_id &&
		    inst->recs[i].cookie == cookie)
			return &inst->recs[i];
	return NULL;
}

/* An event is named as its directory is: system/name. */
static long event_id(const char *event)
{
	char system[32], name[64];

	if (sscanf(event, "%31[^/]/%63s", system, name) != 2)
		return -1;
	return tracepoint_id(system, name);
}

static const char *need_event(const char *event)
{
	char system[32], name[64];

	if (sscanf(event, "%31[^/]/%63s", system, name) != 2)
		return "a bad name";
	return need_tracepoint(system, name);
}

/* The cookie that follows the @n-th event of a kind on its CPU; 0 if none. */
static uint64_t cookie_of(struct inst *inst, const char *event, size_t n)
{
	struct rec *rec;
	size_t i;

	rec = nth_type(inst, event_id(event), n);
	if (!rec)
		return 0;
	for (i = rec - inst->recs + 1; i < inst->nr; i++) {
		if (inst->recs[i].cpu != rec->cpu)
			continue;
		return inst->recs[i].type == fmt.cookie_id &&
		       inst->recs[i].pid == rec->pid ? inst->recs[i].cookie : 0;
	}
	return 0;
}

static size_t count_event(struct inst *inst, const char *event)
{
	return count_type(inst, event_id(event));
}

/*
 * Forget the records of other threads. If an NMI hits while the CPU switches to another
 * thread, the filter still is the one for the thread before.
 */
static void inst_keep(struct inst *inst, int tid)
{
	size_t i, kept = 0;

	for (i = 0; i < inst->nr; i++) {
		if (inst->recs[i].pid == tid)
			inst->recs[kept++] = inst->recs[i];
		else
			free(inst->recs[i].ips);
	}
	inst->nr = kept;
}

/*
 * The rule of all rules: each cookie has one stack, by the same thread, and
 * each stack was asked for. Returns what is wrong, or an empty string.
 */
static const char *check_pairs(struct inst *inst)
{
	size_t i;

	if (inst->lost)
		return "the buffer lost something";
	for (i = 0; i < inst->nr; i++) {
		struct rec *rec = &inst->recs[i], *stack;

		if (rec->type == fmt.cookie_id) {
			if (count_cookie(inst, fmt.stack_id, rec->cookie) != 1)
				return "a cookie without exactly one stack";
			stack = stack_of(inst, rec->cookie);
			if (stack->pid != rec->pid)
				return "a stack of another thread";
		} else if (rec->type == fmt.stack_id &&
			   !count_cookie(inst, fmt.cookie_id, rec->cookie)) {
			return "a stack that nobody asked for";
		}
	}
	return "";
}

/* Pairs, and @nr records in all */
static const char *check_records(struct inst *inst, size_t nr)
{
	static char why[64];

	snprintf(why, sizeof(why), "%zu records, not %zu", inst->nr, nr);
	return inst->nr == nr ? check_pairs(inst) : why;
}

static bool is_chain(const struct rec *rec)
{
	return rec && chain_syscall_ok(rec->ips, rec->nr);
}

/* Has the @n-th event of a kind the stack of a chain_syscall()? */
static bool has_chain(struct inst *inst, const char *event, size_t n)
{
	return is_chain(stack_of(inst, cookie_of(inst, event, n)));
}

static const char *need_option(void)
{
	char path[128];

	if (need_root())
		return need_root();
	snprintf(path, sizeof(path), "%s/instances", tracefs());
	if (need_file(path))
		return need_file(path);
	snprintf(path, sizeof(path), "%s/options/userstacktrace_delay", tracefs());
	return access(path, F_OK) ?
	       "this kernel has no userstacktrace_delay (CONFIG_UNWIND_USER)" : NULL;
}

/* ------------------------------------------------------------------------ */

#define GETPPID		"syscalls/sys_enter_getppid"
#define GETPPID_EXIT	"syscalls/sys_exit_getppid"

/* Calls of getppid(), recorded; with what has been set up besides */
static int inst_getppid(struct inst *inst, int times)
{
	int ret = inst_trace(inst, GETPPID, my_tid());

	while (!ret && times--)
		chain0(SYS_getppid);
	return ret ?: inst_drain(inst);
}

FIXTURE(ftrace)
{
	struct inst a;
	struct inst b;
};

FIXTURE_SETUP(ftrace)
{
	if (must_skip(_metadata, need_option()) ||
	    must_skip(_metadata, need_event(GETPPID)))
		return;
	ASSERT_EQ(NULL, read_formats());
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	ASSERT_EQ(0, inst_create(&self->a, 1));
}

FIXTURE_TEARDOWN(ftrace)
{
	inst_remove(&self->a);
	inst_remove(&self->b);
}

/* The option exists exactly if the kernel has the engine's other users. */
TEST(option_is_there_where_perf_defers)
{
	const char *why = need_perf_deferred();
	char path[256];

	if (must_skip(_metadata, need_root()))
		return;
	if (why && strstr(why, "perf_event_open"))
		SKIP(return, "%s", why);
	snprintf(path, sizeof(path), "%s/options/userstacktrace_delay", tracefs());
	EXPECT_EQ(!why, !access(path, F_OK));
}

TEST_F(ftrace, event_has_a_cookie_and_the_exact_stack)
{
	uint64_t cookie;
	struct rec *rec;

	ASSERT_EQ(0, inst_getppid(&self->a, 1));

	EXPECT_EQ(3, self->a.nr);
	cookie = cookie_of(&self->a, GETPPID, 0);
	EXPECT_NE(0, cookie);
	rec = stack_of(&self->a, cookie);
	ASSERT_NE(NULL, rec);
	EXPECT_TRUE(is_chain(rec));
	EXPECT_EQ(my_tid(), rec->pid);
	EXPECT_EQ(getpid(), rec->tgid);
	EXPECT_NE(0, rec->timestamp);
}

TEST_F(ftrace, events_of_one_entry_share_a_cookie_and_a_stack)
{
	uint64_t cookie;

	ASSERT_EQ(0, inst_enable(&self->a, GETPPID_EXIT, 1));
	ASSERT_EQ(0, inst_getppid(&self->a, 1));

	EXPECT_EQ(5, self->a.nr);
	cookie = cookie_of(&self->a, GETPPID, 0);
	EXPECT_NE(0, cookie);
	EXPECT_EQ(cookie, cookie_of(&self->a, GETPPID_EXIT, 0));
	EXPECT_EQ(1, count_type(&self->a, fmt.stack_id));
	EXPECT_TRUE(is_chain(stack_of(&self->a, cookie)));
}

TEST_F(ftrace, each_entry_has_its_own_cookie_and_stack)
{
	uint64_t last = 0, cookie;
	int i;

	ASSERT_EQ(0, inst_getppid(&self->a, ENTRIES));

	EXPECT_STREQ("", check_records(&self->a, 3 * ENTRIES));
	for (i = 0; i < ENTRIES; i++) {
		cookie = cookie_of(&self->a, GETPPID, i);
		EXPECT_NE(last, cookie);
		EXPECT_TRUE(is_chain(stack_of(&self->a, cookie)));
		last = cookie;
	}
}

/* Both options are needed, and each works without the other's traces. */
TEST_F(ftrace, without_userstacktrace_the_option_records_nothing)
{
	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace", "0"));
	ASSERT_EQ(0, inst_getppid(&self->a, 1));
	EXPECT_EQ(1, self->a.nr);
}

TEST_F(ftrace, without_the_option_stacks_are_taken_in_place)
{
	struct rec *rec;

	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace_delay", "0"));
	ASSERT_EQ(0, inst_getppid(&self->a, 1));

	EXPECT_EQ(2, self->a.nr);
	rec = nth_type(&self->a, fmt.user_id, 0);
	EXPECT_TRUE(is_chain(rec));
}

/* ------------------------------------------------------------------------ */
/* NMI and interrupt							      */

FIXTURE(irq)
{
	struct inst a;
	struct session s;
	struct actor actor;
	int flag;
};

/* The context in which the event fires, and the means to fire it there */
FIXTURE_VARIANT(irq)
{
	const char *ctx;
	const char *event;
	/* Where it comes from another CPU */
	const char *remote;
	int flag;
};

FIXTURE_VARIANT_ADD(irq, nmi)
{
	.ctx = "nmi", .flag = FLAG_NMI,
	.event = "nmi/nmi_handler", .remote = "nmi/nmi_handler",
};

FIXTURE_VARIANT_ADD(irq, interrupt)
{
	.ctx = "irq", .flag = FLAG_HARDIRQ,
	.event = "irq_vectors/irq_work_entry",
	.remote = "irq_vectors/call_function_single_entry",
};

FIXTURE_SETUP(irq)
{
	if (must_skip(_metadata, need_option()) ||
	    must_skip(_metadata, need_module()) ||
	    must_skip(_metadata, need_event(variant->event)) ||
	    must_skip(_metadata, need_event(variant->remote)))
		return;
	ASSERT_EQ(NULL, read_formats());
	/* No work of its own: it only sends NMIs and interrupts. */
	ASSERT_EQ(0, session_start(&self->s, 0));
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	ASSERT_EQ(0, inst_create(&self->a, 1));
}

FIXTURE_TEARDOWN(irq)
{
	session_end(&self->s);
	inst_remove(&self->a);
}

/* How many events fired in the intended context. */
static size_t count_flagged(struct inst *inst, int type, int flag)
{
	size_t i, n = 0;

	for (i = 0; i < inst->nr; i++)
		n += inst->recs[i].type == type && (inst->recs[i].flags & flag);
	return n;
}

/* Have the event fire in a system call. Returns how often it did. */
static size_t fire(struct __test_metadata *_metadata, struct _test_data_irq *self,
		   const struct _fixture_variant_irq *variant)
{
	EXPECT_EQ(0, inst_trace(&self->a, variant->event, my_tid()));
	EXPECT_EQ(0, chain_cmd(self->s.fd, "req 0 %s -1 1 0", variant->ctx));
	EXPECT_EQ(0, inst_enable(&self->a, variant->event, 0));
	EXPECT_EQ(0, inst_drain(&self->a));
	return count_event(&self->a, variant->event);
}

TEST_F(irq, in_a_system_call_gets_its_exact_stack)
{
	size_t events, i, chains = 0;

	events = fire(_metadata, self, variant);
	EXPECT_LE(1, events);
	EXPECT_STREQ("", check_pairs(&self->a));
	EXPECT_EQ(events, count_type(&self->a, fmt.cookie_id));
	EXPECT_EQ(events, count_flagged(&self->a, fmt.cookie_id, variant->flag));
	/* Others may have come before it and after it. */
	for (i = 0; i < events; i++)
		chains += has_chain(&self->a, variant->event, i);
	EXPECT_LE(1, chains);
	EXPECT_EQ(0, count_type(&self->a, fmt.user_id));
}

TEST_F(irq, in_user_space_gets_the_interrupted_stack)
{
	struct actor *actor = &self->actor;
	size_t events;
	struct rec *rec;

	if (must_skip(_metadata, need_cpus(2)))
		return;
	ASSERT_TRUE(spinner_start(actor, nth_cpu(1)));
	ASSERT_EQ(0, inst_trace(&self->a, variant->remote, actor->tid));
	ASSERT_EQ(0, mod_cmd(self->s.fd, "req 0 %s %d 20 0", variant->ctx,
			     actor->cpu));
	ASSERT_EQ(0, inst_enable(&self->a, variant->remote, 0));
	actor_end(actor);
	ASSERT_EQ(0, inst_drain(&self->a));
	inst_keep(&self->a, actor->tid);

	events = count_event(&self->a, variant->remote);
	EXPECT_LE(1, events);
	EXPECT_STREQ("", check_pairs(&self->a));
	EXPECT_EQ(events, count_type(&self->a, fmt.cookie_id));
	/* The last one certainly hit the loop. */
	rec = stack_of(&self->a, cookie_of(&self->a, variant->remote, events - 1));
	ASSERT_NE(NULL, rec);
	EXPECT_TRUE(chain_spin_ok(rec->ips, rec->nr));
}

/* The purpose of the option: taken in place, an NMI has no user stack. */
TEST_F(irq, without_the_option_an_nmi_has_no_stack)
{
	size_t events;

	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace_delay", "0"));
	events = fire(_metadata, self, variant);
	EXPECT_LE(1, events);
	EXPECT_EQ(variant->flag == FLAG_NMI ? 0 : events,
		  count_type(&self->a, fmt.user_id));
	EXPECT_EQ(0, count_type(&self->a, fmt.cookie_id));
	EXPECT_EQ(0, count_type(&self->a, fmt.stack_id));
}

/* ------------------------------------------------------------------------ */
/* Several at once							      */

TEST_F(ftrace, two_instances_have_the_same_cookie_and_a_stack_each)
{
	uint64_t cookie;
	int i;

	ASSERT_EQ(0, inst_create(&self->b, 2));
	ASSERT_EQ(0, inst_trace(&self->a, GETPPID, my_tid()));
	ASSERT_EQ(0, inst_trace(&self->b, GETPPID_EXIT, my_tid()));
	for (i = 0; i < ENTRIES; i++)
		chain0(SYS_getppid);
	ASSERT_EQ(0, inst_drain(&self->a));
	ASSERT_EQ(0, inst_drain(&self->b));

	EXPECT_STREQ("", check_records(&self->a, 3 * ENTRIES));
	EXPECT_STREQ("", check_records(&self->b, 3 * ENTRIES));
	for (i = 0; i < ENTRIES; i++) {
		cookie = cookie_of(&self->a, GETPPID, i);
		EXPECT_EQ(cookie, cookie_of(&self->b, GETPPID_EXIT, i));
		EXPECT_TRUE(is_chain(stack_of(&self->a, cookie)));
		EXPECT_TRUE(is_chain(stack_of(&self->b, cookie)));
	}
}

TEST_F(ftrace, instance_starts_without_the_option)
{
	struct inst top = { };
	char was;

	snprintf(top.dir, sizeof(top.dir), "%s", tracefs());
	was = inst_read(&top, "options/userstacktrace_delay")[0];
	ASSERT_EQ(0, inst_write(&top, "options/userstacktrace_delay", "1"));
	snprintf(self->b.dir, sizeof(self->b.dir), "%s/instances/" NAME "2",
		 tracefs());
	EXPECT_EQ(0, mkdir(self->b.dir, 0700));
	EXPECT_STREQ("0\n", inst_read(&self->b, "options/userstacktrace_delay"));
	EXPECT_STREQ("1\n", inst_read(&top, "options/userstacktrace_delay"));
	ASSERT_EQ(0, inst_write(&top, "options/userstacktrace_delay", "%c", was));
}

TEST_F(ftrace, top_level_instance_has_the_option_too)
{
	struct inst top = { };

	snprintf(top.dir, sizeof(top.dir), "%s", tracefs());
	ASSERT_EQ(0, inst_clear(&top));
	ASSERT_EQ(0, inst_options(&top));
	ASSERT_EQ(0, inst_trace(&top, GETPPID, my_tid()));
	chain0(SYS_getppid);
	ASSERT_EQ(0, inst_enable(&top, GETPPID, 0));
	ASSERT_EQ(0, inst_write(&top, "options/userstacktrace", "0"));
	ASSERT_EQ(0, inst_write(&top, "options/userstacktrace_delay", "0"));
	ASSERT_EQ(0, inst_write(&top, "set_event_pid", "\n"));
	EXPECT_STREQ("", inst_read(&top, "set_event_pid"));
	ASSERT_EQ(0, inst_drain(&top));

	EXPECT_EQ(3, top.nr);
	EXPECT_TRUE(has_chain(&top, GETPPID, 0));
	inst_forget(&top);
	free(top.recs);
}

TEST_F(ftrace, perf_has_the_same_cookie_and_frames)
{
	struct perf_event_attr attr;
	struct up_rec *sample, *record;
	struct up_ring ring;
	uint64_t cookie;
	struct rec *rec;
	int i;

	if (must_skip(_metadata, need_perf_deferred()))
		return;
	up_attr_init(&attr, PERF_TYPE_TRACEPOINT,
		     tracepoint_id("syscalls", "sys_enter_getppid"),
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	ASSERT_EQ(0, up_open(&ring, &attr, 0, -1, -1));
	ASSERT_EQ(0, inst_trace(&self->a, GETPPID, my_tid()));
	ASSERT_EQ(0, up_enable(&ring));
	for (i = 0; i < ENTRIES; i++)
		chain0(SYS_getppid);
	ASSERT_EQ(0, up_disable(&ring));
	ASSERT_EQ(0, inst_drain(&self->a));
	up_drain(&ring);

	EXPECT_EQ(ENTRIES, up_count(&ring, PERF_RECORD_SAMPLE));
	EXPECT_EQ(ENTRIES, up_count(&ring, UT_RECORD_CALLCHAIN_DEFERRED));
	EXPECT_EQ(3 * ENTRIES, self->a.nr);
	for (i = 0; i < ENTRIES; i++) {
		sample = up_nth(&ring, PERF_RECORD_SAMPLE, i);
		cookie = cookie_of(&self->a, GETPPID, i);
		ASSERT_NE(NULL, sample);
		EXPECT_EQ(sample->cookie, cookie);
		record = up_find_cookie(&ring, cookie);
		rec = stack_of(&self->a, cookie);
		ASSERT_TRUE(record && rec);
		EXPECT_TRUE(is_chain(rec));
		EXPECT_TRUE(up_frames_equal(rec->ips, rec->nr, record->ips,
					    record->nr));
	}
	up_close(&ring);
}

/* The engine has 62 places. Without one, the option stays off. */
TEST_F(ftrace, without_a_place_the_option_is_refused)
{
	struct session s;
	struct rec *rec;
	int i, ret = 0;

	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&s, 0));
	for (i = 0; !ret; i++)
		ret = mod_cmd(s.fd, "init %d", i);
	ASSERT_EQ(-EBUSY, ret);
	/* perf, BPF and instance a have one each; others may have some. */
	EXPECT_LE(i - 1, MAX_WORKS - 3);
	EXPECT_EQ(-EBUSY, inst_create(&self->b, 2));
	EXPECT_EQ(-EBUSY, inst_write(&self->b, "trace_options", "userstacktrace_delay"));
	EXPECT_STREQ("0\n", inst_read(&self->b, "options/userstacktrace_delay"));

	ASSERT_EQ(0, inst_getppid(&self->b, 1));
	EXPECT_EQ(2, self->b.nr);
	rec = nth_type(&self->b, fmt.user_id, 0);
	EXPECT_TRUE(is_chain(rec));

	/* An instance that has a place keeps it. */
	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace_delay", "0"));
	EXPECT_EQ(-EBUSY, inst_write(&self->b, "options/userstacktrace_delay", "1"));
	EXPECT_EQ(0, inst_write(&self->a, "options/userstacktrace_delay", "1"));

	ASSERT_EQ(0, mod_cmd(s.fd, "cancel 0"));
	ASSERT_EQ(0, inst_write(&self->b, "options/userstacktrace_delay", "1"));
	chain0(SYS_getppid);
	ASSERT_EQ(0, inst_drain(&self->b));
	EXPECT_STREQ("", check_records(&self->b, 3));

	/* The place of a removed instance becomes free soon after. */
	EXPECT_EQ(-EBUSY, mod_cmd(s.fd, "init 0"));
	ASSERT_EQ(0, inst_remove(&self->b));
	for (i = 0; i < 20000 && mod_cmd(s.fd, "init 0"); i++)
		usleep(1000);
	EXPECT_LT(i, 20000);
	session_end(&s);
}

static int come_and_go(void *arg)
{
	struct inst *inst = arg;

	return inst_create(inst, 2) ?:
	       inst_write(inst, "options/userstacktrace_delay", "0") ?:
	       inst_write(inst, "options/userstacktrace_delay", "1") ?:
	       inst_remove(inst);
}

/*
 * A callback may sleep as long as it likes. All of tracing is locked while an
 * option is set or an instance is removed: neither may wait for callbacks.
 */
TEST_F_TIMEOUT(ftrace, instance_comes_and_goes_while_a_callback_waits, LONG)
{
	struct side side;
	struct held held;

	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, held_start(&held));
	ASSERT_TRUE(side_start(&side, come_and_go, &self->b));
	EXPECT_TRUE(side_returns(&side));
	EXPECT_EQ(0, held_end(&held));
	EXPECT_EQ(0, side_end(&side));

	ASSERT_EQ(0, inst_create(&self->b, 2));
	ASSERT_EQ(0, inst_getppid(&self->b, 1));
	EXPECT_STREQ("", check_records(&self->b, 3));
}

TEST_F(ftrace, engine_is_armed_as_long_as_the_option_is_on)
{
	struct session s;

	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&s, 2));
	ASSERT_EQ(0, mod_cmd(s.fd, "disarm"));
	ASSERT_EQ(0, chain_cmd(s.fd, "req 1 task"));
	ASSERT_EQ(0, mod_log(s.fd, &s.log));
	EXPECT_EQ(1, log_rets(&s.log, 0, UT_QUEUED));

	/* After this disarm nobody is left. */
	ASSERT_EQ(0, mod_cmd(s.fd, "arm"));
	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace_delay", "0"));
	EXPECT_STREQ("", switch_off(&s));
	session_forget(&s);

	/* Removing an instance with its option on disarms as well. */
	ASSERT_EQ(0, mod_cmd(s.fd, "arm"));
	ASSERT_EQ(0, inst_create(&self->b, 2));
	ASSERT_EQ(0, inst_remove(&self->b));
	EXPECT_STREQ("", switch_off(&s));
	session_end(&s);
}

/* As many instances as there are places: each has its stack. */
TEST_F_TIMEOUT(ftrace, every_place_serves_an_instance, LONG)
{
	static struct inst inst[MAX_WORKS];
	/* An instance takes seconds under checkers: most places are the module's. */
	int i, nr, ret = 0, others = need_module() ? 0 : 52;
	struct session s = { .fd = -1 };
	uint64_t cookie = 0;

	if (others)
		ASSERT_EQ(0, session_start(&s, others));
	for (nr = 0; nr < MAX_WORKS; nr++) {
		ret = inst_create(&inst[nr], 10 + nr);
		if (ret)
			break;
		ASSERT_EQ(0, inst_trace(&inst[nr], GETPPID, my_tid()));
	}
	/* perf, BPF and instance a have one each. */
	EXPECT_EQ(-EBUSY, ret);
	EXPECT_LE(nr, MAX_WORKS - 3 - others);
	EXPECT_GE(nr, MAX_WORKS - 10 - others);
	chain0(SYS_getppid);
	for (i = 0; i < nr; i++) {
		EXPECT_EQ(0, inst_drain(&inst[i]));
		EXPECT_EQ(3, inst[i].nr);
		if (!i)
			cookie = cookie_of(&inst[i], GETPPID, 0);
		EXPECT_EQ(cookie, cookie_of(&inst[i], GETPPID, 0));
		EXPECT_TRUE(is_chain(stack_of(&inst[i], cookie)));
	}
	for (i = 0; i <= nr && i < MAX_WORKS; i++)
		EXPECT_EQ(0, inst_remove(&inst[i]));
	if (others)
		session_end(&s);
}

/* ------------------------------------------------------------------------ */
/* With a request pending						      */

#define READ		"syscalls/sys_enter_read"

FIXTURE(pending)
{
	struct inst a;
	struct inst b;
	struct actor actor;
	int pipe[2];
	char byte;
};

/* A thread waits in read(), its event is recorded, its stack is not. */
FIXTURE_SETUP(pending)
{
	if (must_skip(_metadata, need_option()) ||
	    must_skip(_metadata, need_event(READ)))
		return;
	ASSERT_EQ(NULL, read_formats());
	ASSERT_EQ(0, pin_to_cpu(nth_cpu(0)));
	ASSERT_EQ(0, inst_create(&self->a, 1));
	ASSERT_EQ(0, inst_create(&self->b, 2));
	ASSERT_EQ(0, pipe(self->pipe));
	ASSERT_TRUE(actor_start(&self->actor, nth_cpu(0)));
	ASSERT_EQ(0, inst_trace(&self->a, READ, self->actor.tid));
	ASSERT_EQ(0, inst_trace(&self->b, READ, self->actor.tid));
	actor_go(&self->actor, SYS_read, self->pipe[0], (long)&self->byte, 1);
	ASSERT_TRUE(wait_blocked(self->actor.tid, SYS_read));
}

FIXTURE_TEARDOWN(pending)
{
	actor_end(&self->actor);
	close(self->pipe[0]);
	close(self->pipe[1]);
	inst_remove(&self->a);
	inst_remove(&self->b);
}

/* The thread gets its byte. */
static int pending_ends(struct _test_data_pending *self, struct inst *inst)
{
	return actor_feed(&self->actor, self->pipe[1]) ?: inst_drain(inst);
}

TEST_F(pending, stack_comes_with_the_return_to_user_space)
{
	uint64_t cookie;

	ASSERT_EQ(0, inst_drain(&self->a));
	EXPECT_EQ(2, self->a.nr);
	cookie = cookie_of(&self->a, READ, 0);
	EXPECT_NE(0, cookie);
	ASSERT_EQ(0, pending_ends(self, &self->a));
	EXPECT_EQ(1, self->a.nr);
	EXPECT_TRUE(is_chain(stack_of(&self->a, cookie)));
}

TEST_F(pending, switched_off_there_is_no_stack_then_it_works_again)
{
	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace_delay", "0"));
	ASSERT_EQ(0, pending_ends(self, &self->a));
	EXPECT_EQ(2, self->a.nr);
	EXPECT_EQ(0, count_type(&self->a, fmt.stack_id));
	/* The other instance is not concerned. */
	ASSERT_EQ(0, inst_drain(&self->b));
	EXPECT_STREQ("", check_records(&self->b, 3));

	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace_delay", "1"));
	actor_go(&self->actor, SYS_read, self->pipe[0], (long)&self->byte, 1);
	ASSERT_EQ(0, pending_ends(self, &self->a));
	EXPECT_STREQ("", check_records(&self->a, 3));
	EXPECT_TRUE(is_chain(nth_type(&self->a, fmt.stack_id, 0)));
}

/* The stack is recorded if the option is on when the thread returns. */
TEST_F(pending, switched_off_and_on_there_is_the_stack)
{
	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace_delay", "0"));
	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace_delay", "1"));
	ASSERT_EQ(0, pending_ends(self, &self->a));
	EXPECT_STREQ("", check_records(&self->a, 3));
}

TEST_F(pending, removed_instance_leaves_the_other_its_stack)
{
	ASSERT_EQ(0, inst_remove(&self->a));
	ASSERT_EQ(0, pending_ends(self, &self->b));
	EXPECT_EQ(3, self->b.nr);
	EXPECT_TRUE(has_chain(&self->b, READ, 0));
}

TEST_F(pending, both_instances_removed_the_thread_returns)
{
	ASSERT_EQ(0, inst_remove(&self->a));
	ASSERT_EQ(0, inst_remove(&self->b));
	ASSERT_EQ(0, actor_feed(&self->actor, self->pipe[1]));
}

TEST_F(pending, cleared_buffer_gets_the_stack_of_a_cookie_it_lost)
{
	ASSERT_EQ(0, inst_clear(&self->a));
	ASSERT_EQ(0, pending_ends(self, &self->a));
	EXPECT_EQ(1, self->a.nr);
	EXPECT_TRUE(is_chain(nth_type(&self->a, fmt.stack_id, 0)));
}

TEST_F(pending, snapshot_keeps_the_cookie_and_the_stack_is_in_the_buffer)
{
	uint64_t cookie;

	if (!inst_has(&self->a, "snapshot"))
		SKIP(return, "needs snapshots (CONFIG_TRACER_SNAPSHOT)");
	ASSERT_EQ(0, inst_write(&self->a, "snapshot", "1"));
	ASSERT_EQ(0, actor_feed(&self->actor, self->pipe[1]));

	ASSERT_EQ(0, inst_drain_file(&self->a, "snapshot_raw"));
	EXPECT_EQ(2, self->a.nr);
	cookie = cookie_of(&self->a, READ, 0);
	EXPECT_NE(0, cookie);
	ASSERT_EQ(0, inst_drain(&self->a));
	EXPECT_EQ(1, self->a.nr);
	EXPECT_TRUE(is_chain(stack_of(&self->a, cookie)));
}

TEST_F(pending, snapshot_after_the_stack_has_both)
{
	if (!inst_has(&self->a, "snapshot"))
		SKIP(return, "needs snapshots (CONFIG_TRACER_SNAPSHOT)");
	ASSERT_EQ(0, actor_feed(&self->actor, self->pipe[1]));
	ASSERT_EQ(0, inst_write(&self->a, "snapshot", "1"));

	ASSERT_EQ(0, inst_drain_file(&self->a, "snapshot_raw"));
	EXPECT_STREQ("", check_records(&self->a, 3));
	ASSERT_EQ(0, inst_drain(&self->a));
	EXPECT_EQ(0, self->a.nr);
}

TEST_F(pending, resized_buffer_gets_the_stack)
{
	ASSERT_EQ(0, inst_write(&self->a, "buffer_size_kb", "16"));
	ASSERT_EQ(0, inst_write(&self->a, "buffer_size_kb", "2000"));
	ASSERT_EQ(0, pending_ends(self, &self->a));
	EXPECT_STREQ("", check_records(&self->a, 3));
}

TEST_F(pending, stopped_instance_gets_no_stack)
{
	ASSERT_EQ(0, inst_write(&self->a, "tracing_on", "0"));
	ASSERT_EQ(0, pending_ends(self, &self->a));
	EXPECT_EQ(2, self->a.nr);
	EXPECT_EQ(0, count_type(&self->a, fmt.stack_id));
}

/* ------------------------------------------------------------------------ */
/* Where a user context ends						      */

TEST_F(ftrace, execve_has_the_old_stack_then_the_new_one)
{
	const char *target = test_file("exec_target");
	uint64_t before, after;
	struct child child;
	struct rec *rec;

	if (must_skip(_metadata, need_program("exec_target")))
		return;
	ASSERT_TRUE(child_start(&child, SYS_execve, (long)target,
				(long)no_strings, (long)no_strings));
	ASSERT_EQ(0, inst_trace(&self->a, "syscalls/sys_enter_execve", child.pid));
	ASSERT_EQ(0, inst_enable(&self->a, "sched/sched_process_exec", 1));
	ASSERT_EQ(0, child_run(&child));
	ASSERT_EQ(0, inst_drain(&self->a));

	EXPECT_STREQ("", check_records(&self->a, 6));
	before = cookie_of(&self->a, "syscalls/sys_enter_execve", 0);
	after = cookie_of(&self->a, "sched/sched_process_exec", 0);
	EXPECT_NE(before, after);
	EXPECT_TRUE(is_chain(stack_of(&self->a, before)));
	rec = stack_of(&self->a, after);
	ASSERT_NE(NULL, rec);
	EXPECT_EQ(1, rec->nr);
	EXPECT_EQ(elf_entry(target), rec->ips[0]);
}

TEST_F(ftrace, exit_has_its_stack)
{
	struct child child;

	ASSERT_TRUE(child_start(&child, SYS_exit_group, 0, 0, 0));
	ASSERT_EQ(0, inst_trace(&self->a, "syscalls/sys_enter_exit_group", child.pid));
	ASSERT_EQ(0, child_run(&child));
	ASSERT_EQ(0, inst_drain(&self->a));

	EXPECT_EQ(3, self->a.nr);
	EXPECT_TRUE(has_chain(&self->a, "syscalls/sys_enter_exit_group", 0));
}

/* Its memory is gone: nothing could be recorded but zeros. */
TEST_F(ftrace, exiting_task_without_memory_has_no_stack)
{
	struct child child;

	if (must_skip(_metadata, need_event("sched/sched_process_exit")))
		return;
	ASSERT_TRUE(child_start(&child, SYS_exit_group, 0, 0, 0));
	ASSERT_EQ(0, inst_trace(&self->a, "sched/sched_process_exit", child.pid));
	ASSERT_EQ(0, child_run(&child));
	ASSERT_EQ(0, inst_drain(&self->a));

	EXPECT_EQ(1, self->a.nr);
	EXPECT_EQ(1, count_event(&self->a, "sched/sched_process_exit"));
}

static void on_signal(int sig)
{
}

TEST_F(ftrace, signal_and_its_return_have_a_stack_each)
{
	struct sigaction act = { .sa_handler = on_signal };
	uint64_t kill, back;
	struct rec *rec;

	ASSERT_EQ(0, sigaction(SIGUSR1, &act, NULL));
	ASSERT_EQ(0, inst_trace(&self->a, "syscalls/sys_enter_tgkill", my_tid()));
	ASSERT_EQ(0, inst_enable(&self->a, "signal/signal_deliver", 1));
	ASSERT_EQ(0, inst_enable(&self->a, "syscalls/sys_enter_rt_sigreturn", 1));
	chain_syscall(SYS_tgkill, getpid(), my_tid(), SIGUSR1, 0, 0, 0);
	ASSERT_EQ(0, inst_drain(&self->a));

	EXPECT_STREQ("", check_pairs(&self->a));
	EXPECT_EQ(3, count_type(&self->a, fmt.cookie_id));
	EXPECT_EQ(2, count_type(&self->a, fmt.stack_id));
	kill = cookie_of(&self->a, "syscalls/sys_enter_tgkill", 0);
	back = cookie_of(&self->a, "syscalls/sys_enter_rt_sigreturn", 0);
	EXPECT_EQ(kill, cookie_of(&self->a, "signal/signal_deliver", 0));
	EXPECT_NE(kill, back);
	EXPECT_TRUE(is_chain(stack_of(&self->a, kill)));
	/* Where it is, and what the signal interrupted */
	rec = stack_of(&self->a, back);
	ASSERT_NE(NULL, rec);
	EXPECT_EQ(1 + CHAIN_NR, rec->nr);
	EXPECT_TRUE(chain_syscall_ok(rec->ips + 1, rec->nr - 1));
}

/* task_work in the middle of the system call: the same context, one stack. */
TEST_F(ftrace, event_after_the_stack_has_only_the_cookie)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_NOP };
	char *event = "syscalls/sys_enter_io_uring_enter";
	char *exit = "syscalls/sys_exit_io_uring_enter";
	struct rec *stack;
	uint64_t cookie;
	int ring;

	if (must_skip(_metadata, need_file("/proc/sys/kernel/io_uring_disabled")) ||
	    must_skip(_metadata, need_event(event)))
		return;
	ring = uring_open(&sqe);
	if (ring == -EPERM)
		SKIP(return, "needs io_uring");
	ASSERT_LE(0, ring);

	ASSERT_EQ(0, inst_trace(&self->a, event, my_tid()));
	ASSERT_EQ(0, inst_enable(&self->a, exit, 1));
	ASSERT_EQ(1, chain_syscall(SYS_io_uring_enter, ring, 1, 1,
				   IORING_ENTER_GETEVENTS, 0, 0));
	ASSERT_EQ(0, inst_drain(&self->a));
	close(ring);

	EXPECT_EQ(5, self->a.nr);
	cookie = cookie_of(&self->a, event, 0);
	EXPECT_EQ(cookie, cookie_of(&self->a, exit, 0));
	EXPECT_STREQ("", check_pairs(&self->a));
	stack = stack_of(&self->a, cookie);
	EXPECT_TRUE(is_chain(stack));
	/* This test depends on the unwind in between. */
	EXPECT_LT(stack, nth_type(&self->a, fmt.cookie_id, 1));
}

/* ------------------------------------------------------------------------ */
/* Events on the way out						      */

/* The first event after @time, or NULL. */
static struct rec *event_after(struct inst *inst, const char *event, uint64_t time)
{
	int type = event_id(event);
	size_t i;

	for (i = 0; i < inst->nr; i++)
		if (inst->recs[i].type == type && inst->recs[i].time > time)
			return &inst->recs[i];
	return NULL;
}

/*
 * Past the last look at the flags: nothing could answer, so it is in place.
 * Interrupts return to user space too, also to where the system call does: only
 * the next event after the end of a system call is certainly its own.
 */
TEST_F(ftrace, event_on_the_way_out_is_recorded_in_place)
{
	const char *event = "context_tracking/user_enter";
	struct rec *end, *next, *rec, *last = NULL;
	size_t i;

	if (must_skip(_metadata, need_event(event)))
		return;
	/* Tells where system calls end, in the order of both instances' events. */
	ASSERT_EQ(0, inst_create(&self->b, 2));
	ASSERT_EQ(0, inst_write(&self->b, "options/userstacktrace", "0"));
	ASSERT_EQ(0, inst_write(&self->a, "trace_clock", "counter"));
	ASSERT_EQ(0, inst_write(&self->b, "trace_clock", "counter"));
	ASSERT_EQ(0, inst_trace(&self->b, GETPPID_EXIT, my_tid()));
	ASSERT_EQ(0, inst_trace(&self->a, event, my_tid()));
	for (i = 0; i < ENTRIES; i++)
		chain0(SYS_getppid);
	ASSERT_EQ(0, inst_enable(&self->a, event, 0));
	ASSERT_EQ(0, inst_drain(&self->a));
	ASSERT_EQ(0, inst_drain(&self->b));

	EXPECT_FALSE(self->a.lost);
	EXPECT_EQ(0, count_type(&self->a, fmt.cookie_id));
	EXPECT_EQ(0, count_type(&self->a, fmt.stack_id));
	EXPECT_EQ(count_event(&self->a, event), count_type(&self->a, fmt.user_id));
	EXPECT_EQ(ENTRIES, self->b.nr);
	for (i = 0; i < ENTRIES; i++) {
		end = nth_type(&self->b, event_id(GETPPID_EXIT), i);
		ASSERT_NE(NULL, end);
		rec = event_after(&self->a, event, end->time);
		ASSERT_NE(NULL, rec);
		/* Not that of a later system call */
		EXPECT_NE(last, rec);
		last = rec;
		next = rec + 1;
		ASSERT_LT(next, self->a.recs + self->a.nr);
		EXPECT_EQ(fmt.user_id, next->type);
		EXPECT_TRUE(is_chain(next));
	}
}

/* All events that fire while a task returns to user space: it does return. */
TEST_F_TIMEOUT(ftrace, events_of_the_way_out_make_no_endless_loop, LONG)
{
	static const char * const events[] = {
		"preemptirq", "context_tracking", "irq_vectors", "sched",
		"raw_syscalls", "unwind", "msr", "nmi",
	};
	size_t i, on = 0, chains = 0;

	ASSERT_EQ(0, inst_write(&self->a, "buffer_size_kb", "32768"));
	ASSERT_EQ(0, inst_write(&self->a, "set_event_pid", "%d", my_tid()));
	for (i = 0; i < ARRAY_SIZE(events); i++)
		on += !inst_enable(&self->a, events[i], 1);
	EXPECT_LE(4, on);
	for (i = 0; i < ENTRIES; i++)
		chain0(SYS_getppid);
	ASSERT_EQ(0, inst_write(&self->a, "tracing_on", "0"));
	ASSERT_EQ(0, inst_write(&self->a, "events/enable", "0"));
	ASSERT_EQ(0, inst_drain(&self->a));

	for (i = 0; i < self->a.nr; i++)
		chains += self->a.recs[i].type == fmt.stack_id &&
			  is_chain(&self->a.recs[i]);
	EXPECT_LE(ENTRIES, chains);
	EXPECT_FALSE(self->a.lost);
	/* One stack for one context, however many events fired in it */
	for (i = 0; i < self->a.nr; i++) {
		struct rec *rec = &self->a.recs[i];

		if (rec->type == fmt.stack_id)
			ASSERT_EQ(1, count_cookie(&self->a, fmt.stack_id, rec->cookie));
	}
	EXPECT_LT(count_type(&self->a, fmt.stack_id),
		  count_type(&self->a, fmt.cookie_id));
}

/* ------------------------------------------------------------------------ */
/* Other settings of an instance					      */

TEST_F(ftrace, only_threads_of_the_pid_filter_are_asked)
{
	struct actor actor;

	ASSERT_TRUE(actor_start(&actor, nth_cpu(0)));
	ASSERT_EQ(0, inst_trace(&self->a, GETPPID, my_tid()));
	actor_go(&actor, SYS_getppid, 0, 0, 0);
	wait_flag(&actor.done);
	chain0(SYS_getppid);
	actor_end(&actor);
	ASSERT_EQ(0, inst_drain(&self->a));
	EXPECT_EQ(3, self->a.nr);
	EXPECT_EQ(my_tid(), self->a.recs[0].pid);
	EXPECT_STREQ("", check_pairs(&self->a));
}

TEST_F(ftrace, only_events_that_pass_the_filter_ask)
{
	struct actor actor;

	ASSERT_TRUE(actor_start(&actor, nth_cpu(0)));
	ASSERT_EQ(0, inst_write(&self->a, "events/" GETPPID "/filter",
				"common_pid == %d", actor.tid));
	ASSERT_EQ(0, inst_enable(&self->a, GETPPID, 1));
	actor_go(&actor, SYS_getppid, 0, 0, 0);
	wait_flag(&actor.done);
	chain0(SYS_getppid);
	actor_end(&actor);
	ASSERT_EQ(0, inst_drain(&self->a));
	EXPECT_EQ(3, self->a.nr);
	EXPECT_EQ(actor.tid, self->a.recs[0].pid);
	EXPECT_STREQ("", check_pairs(&self->a));
	EXPECT_TRUE(is_chain(nth_type(&self->a, fmt.stack_id, 0)));
}

/* The event is only shown to the trigger. Nothing recorded, nobody asked. */
TEST_F(ftrace, event_that_only_a_trigger_sees_asks_for_nothing)
{
	ASSERT_EQ(0, inst_write(&self->a, "tracing_on", "0"));
	ASSERT_EQ(0, inst_write(&self->a, "set_event_pid", "%d", my_tid()));
	ASSERT_EQ(0, inst_write(&self->a, "events/" GETPPID "/trigger",
				"traceon if common_pid == %d", my_tid()));
	ASSERT_EQ(0, inst_enable(&self->a, GETPPID, 1));
	chain0(SYS_getppid);
	ASSERT_EQ(0, inst_drain(&self->a));
	EXPECT_STREQ("1\n", inst_read(&self->a, "tracing_on"));
	EXPECT_EQ(0, self->a.nr);

	chain0(SYS_getppid);
	ASSERT_EQ(0, inst_drain(&self->a));
	EXPECT_STREQ("", check_records(&self->a, 3));
}

TEST_F(ftrace, function_tracer_beside_it_changes_nothing)
{
	size_t i;

	if (!strstr(inst_read(&self->a, "available_tracers"), "function"))
		SKIP(return, "needs the function tracer");
	ASSERT_EQ(0, inst_write(&self->a, "set_ftrace_filter", "*unwind*"));
	ASSERT_EQ(0, inst_write(&self->a, "set_ftrace_pid", "%d", my_tid()));
	ASSERT_EQ(0, inst_write(&self->a, "current_tracer", "function"));
	ASSERT_EQ(0, inst_trace(&self->a, GETPPID, my_tid()));
	ASSERT_EQ(0, inst_enable(&self->a, GETPPID_EXIT, 1));
	for (i = 0; i < ENTRIES; i++)
		chain0(SYS_getppid);
	ASSERT_EQ(0, inst_write(&self->a, "current_tracer", "nop"));
	/* A change of the tracer clears the buffer of the old one. */
	EXPECT_EQ(0, inst_drain(&self->a));
	chain0(SYS_getppid);
	ASSERT_EQ(0, inst_drain(&self->a));
	EXPECT_EQ(5, self->a.nr);
	EXPECT_TRUE(has_chain(&self->a, GETPPID, 0));
}

/* Frames on a stack of our own, each one the caller of the one below. */
static uint64_t deep_stack[2 * 600];
#define DEEP_RA		0x10000000UL

TEST_F(ftrace, deep_stack_is_cut_to_what_a_page_holds)
{
	long long allowed = up_read_number(SYSCTL_MAX_STACK);
	unsigned int i, room, data_size;
	uint64_t *frame = deep_stack;
	struct rec *rec;

	for (i = 0; i < 600; i++, frame += 2) {
		frame[0] = i < 599 ? (unsigned long)(frame + 2) : 0;
		frame[1] = DEEP_RA + i;
	}
	ASSERT_TRUE(map_code(DEEP_RA, 600));
	ASSERT_TRUE(number_after(strstr(inst_read(&self->a, "../../events/header_page"),
					"char data;"), "size:", &data_size));
	/* An event's header, twice, and its fields */
	room = (data_size - 16 - fmt.caller) / 8;

	ASSERT_EQ(0, inst_trace(&self->a, GETPPID, my_tid()));
	ASSERT_EQ(0, up_write_number(SYSCTL_MAX_STACK, 1024));
	framed_syscall(SYS_getppid, 0, 0, 0, deep_stack, deep_stack);
	up_write_number(SYSCTL_MAX_STACK, allowed);
	ASSERT_EQ(0, inst_drain(&self->a));
	EXPECT_EQ(3, self->a.nr);
	rec = nth_type(&self->a, fmt.stack_id, 0);
	ASSERT_NE(NULL, rec);
	EXPECT_EQ(room, rec->nr);
	EXPECT_EQ((unsigned long)framed_ip_syscall, rec->ips[0]);
	for (i = 1; i < rec->nr; i++)
		ASSERT_EQ(DEEP_RA + i - 1, rec->ips[i]);
}

/* ------------------------------------------------------------------------ */
/* As text								      */

#define ON_COOKIE	"<user unwind cookie> cookie="
#define ON_STACK	"<user unwind stack> cookie="

/*
 * Record a call of getppid(), and look for @title in the text. The lines after it are
 * those of the chain, as sym-userobj has them with @userobj.
 */
static void expect_chain_text(struct __test_metadata *_metadata, struct inst *inst,
			      const char *title, bool userobj)
{
	struct mapping map = { };
	char want[4096], *stack;
	size_t len = 0;
	int i;

	for (i = 0; i < CHAIN_NR; i++) {
		unsigned long ip = chain_frames[i];

		find_mapping((void *)ip, &map);
		len += userobj ?
		       snprintf(want + len, sizeof(want) - len, " => %s[+0x%lx]\n",
				map.path, ip - map.start) :
		       snprintf(want + len, sizeof(want) - len, " =>  <%016lx>\n", ip);
	}
	ASSERT_EQ(0, inst_write(inst, "options/sym-userobj", "%d", userobj));
	ASSERT_EQ(0, inst_trace(inst, GETPPID, my_tid()));
	chain0(SYS_getppid);
	stack = strstr(inst_read(inst, "trace"), title);
	ASSERT_NE(NULL, stack);
	EXPECT_STREQ(want, strchr(stack, '\n') + 1);
}

TEST_F(ftrace, text_has_the_cookie_and_each_address)
{
	char *cookie, *stack;

	expect_chain_text(_metadata, &self->a, ON_STACK, false);
	cookie = strstr(inst_read(&self->a, "trace"), ON_COOKIE);
	ASSERT_NE(NULL, cookie);
	stack = strstr(cookie, ON_STACK);
	ASSERT_NE(NULL, stack);
	EXPECT_NE(0, strtoul(cookie + strlen(ON_COOKIE), NULL, 16));
	EXPECT_EQ(strtoul(cookie + strlen(ON_COOKIE), NULL, 16),
		  strtoul(stack + strlen(ON_STACK), NULL, 16));
}

TEST_F(ftrace, sym_userobj_shows_file_and_offset_of_each_address)
{
	expect_chain_text(_metadata, &self->a, ON_STACK, true);
}

/* In place it looks as before. */
TEST_F(ftrace, sym_userobj_shows_the_same_for_a_stack_taken_in_place)
{
	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace_delay", "0"));
	expect_chain_text(_metadata, &self->a, "<user stack trace>\n", true);
}

/* Put an entry of @type into the buffer, with @size bytes after the common ones. */
static int put_entry(struct session *s, int type, const void *data, size_t size)
{
	char hex[129] = "";
	size_t i;

	for (i = 0; i < size; i++)
		sprintf(hex + 2 * i, "%02x", ((const uint8_t *)data)[i]);
	return mod_cmd(s->fd, "entry " NAME "1 %d %s", type, hex);
}

/* As a consuming reader gets it, without waiting for full pages */
static char *inst_consume(struct inst *inst)
{
	static char text[1 << 16];
	int fd = open(inst_path(inst, "trace_pipe"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t len, done = 0;

	while ((len = read(fd, text + done, sizeof(text) - 1 - done)) > 0)
		done += len;
	close(fd);
	text[done] = 0;
	return text;
}

/* The error in the text of a stack of @size bytes; or an empty string. */
static const char *check_text(const char *text, size_t size)
{
	size_t lines = 0;
	const char *pos;

	/* Of a stack, 24 bytes come before the addresses. */
	for (pos = text; (pos = strstr(pos, "\n => ")); pos++)
		lines++;
	if (lines != (size < 24 ? 0 : (size - 24) / 8))
		return "the entry does not have that many addresses";
	if (!strstr(text, size < 24 ? "<user unwind stack> cut off\n" :
				      "<user unwind stack> cookie=c0ffee timestamp=1\n"))
		return "the stack";
	if (!strstr(text, size < 8 ? "<user unwind cookie> cut off\n" :
				     "<user unwind cookie> cookie=decaf\n"))
		return "the cookie";
	return "";
}

/* A buffer that survived a crash may hold anything. */
TEST_F(ftrace, text_ends_where_an_entry_of_a_surviving_buffer_ends)
{
	/* More addresses than there are */
	static const struct {
		uint64_t cookie, timestamp;
		uint32_t tgid, nr;
		uint64_t caller[2];
	} stack = {
		.cookie = 0xc0ffee, .timestamp = 1, .nr = 1000,
		.caller = { 0x1111, 0x2222 },
	};
	static const uint64_t cookie = 0xdecaf;
	/* After an entry that is too short: cookies of large numbers */
	static const uint64_t others[2] = { 0x7777777777777777, 0x7777777777777777 };
	struct session s;
	size_t size;

	if (must_skip(_metadata, need_module()))
		return;
	ASSERT_EQ(0, session_start(&s, 0));
	ASSERT_EQ(0, inst_write(&self->a, "options/userstacktrace", "0"));

	for (size = 0; size <= sizeof(stack); size += 4) {
		ASSERT_EQ(0, put_entry(&s, fmt.stack_id, &stack, size));
		ASSERT_EQ(0, put_entry(&s, fmt.cookie_id, others, sizeof(others)));
		ASSERT_EQ(0, put_entry(&s, fmt.cookie_id, &cookie, size < 8 ? size : 8));
		ASSERT_EQ(0, put_entry(&s, fmt.cookie_id, others, sizeof(others)));
		EXPECT_STREQ("", check_text(inst_read(&self->a, "trace"), size)) {
			TH_LOG("%zu bytes", size);
		}
		EXPECT_STREQ("", check_text(inst_consume(&self->a), size)) {
			TH_LOG("%zu bytes, consumed", size);
		}
	}
	session_end(&s);
}

/* ------------------------------------------------------------------------ */
/* Under load								      */

#define ROUNDS		4

struct caller {
	pthread_t	thread;
	int		*end;
};

static void *call_main(void *arg)
{
	struct caller *caller = arg;

	while (!get_flag(caller->end))
		chain0(SYS_getppid);
	return NULL;
}

/* Instances are made and removed, in all states, while everybody asks. */
TEST_F_TIMEOUT(ftrace, instances_that_come_and_go_disturb_nobody, LONG)
{
	struct caller callers[3];
	int i, end = 0, round;

	for (i = 0; i < 3; i++) {
		callers[i].end = &end;
		ASSERT_EQ(0, pthread_create(&callers[i].thread, NULL, call_main,
					    &callers[i]));
	}
	for (round = 0; round < ROUNDS; round++) {
		ASSERT_EQ(0, inst_create(&self->b, 2));
		ASSERT_EQ(0, inst_enable(&self->b, "raw_syscalls", 1));
		ASSERT_EQ(0, inst_enable(&self->b, "sched", 1));
		if (round % 3 == 1)
			ASSERT_EQ(0, inst_write(&self->b, "options/userstacktrace_delay", "0"));
		if (round % 3 == 2 && inst_has(&self->b, "snapshot"))
			ASSERT_EQ(0, inst_write(&self->b, "snapshot", "1"));
		ASSERT_EQ(0, inst_remove(&self->b));
	}
	set_flag(&end, 1);
	for (i = 0; i < 3; i++)
		pthread_join(callers[i].thread, NULL);

	ASSERT_EQ(0, inst_getppid(&self->a, 1));
	EXPECT_STREQ("", check_records(&self->a, 3));
}

TEST_HARNESS_MAIN
