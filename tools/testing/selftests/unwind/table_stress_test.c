// SPDX-License-Identifier: GPL-2.0
/*
 * Tables for files under load: they are inserted and removed, are made up of random bytes,
 * and their files and memory change, while all CPUs walk stacks. Each walk has the frames of
 * one of the tables, or those without. If the table is removed in the middle of it, the rest
 * of the walk is by another one, or without.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "sframe_image.h"
#include "table_lib.h"
#include "unwind_harness.h"

/* How long each test goes on */
#define SECONDS		4
#define MAX_WALKERS	8

/**
 * struct walker - A thread that walks
 * @thread:	The thread
 * @mem:	Code
 * @stop:	The end
 * @random:	The stack is made of random words; frames are not looked at
 * @by_fp:	Walks without a table
 * @by_table:	Walks by each of the tables
 * @mixed:	Walks that began with a table, and went on without
 * @cut:	Walks that ended where mappings were being changed
 * @lost:	Walks without a record
 * @other:	Other walks
 */
struct walker {
	pthread_t thread;
	const u8 *mem;
	const int *stop;
	bool random;
	unsigned long by_fp;
	unsigned long by_table[PLAIN_NR];
	unsigned long mixed;
	unsigned long cut;
	unsigned long lost;
	unsigned long other;
};

FIXTURE(storm)
{
	struct code_file file;
	struct walker walkers[MAX_WALKERS];
	/* All of them together, when they have ended */
	struct walker sum;
	struct table *table;
	time_t start;
	unsigned int rounds;
	int nr_walkers;
	int stop;
	int fd;
};

FIXTURE_SETUP(storm)
{
	self->fd = -1;
	if (must_skip(_metadata, need_tables()))
		return;
	ASSERT_TRUE(tables_start("storm", &self->file, &self->table, &self->fd));
	self->nr_walkers = sysconf(_SC_NPROCESSORS_ONLN);
	if (self->nr_walkers > MAX_WALKERS)
		self->nr_walkers = MAX_WALKERS;
	self->start = time(NULL);
}

FIXTURE_TEARDOWN(storm)
{
	if (self->fd >= 0)
		tables_end(&self->file, self->table, self->fd);
}

/* Quietly: by which table is the second frame? -1 if it is by none. */
static int table_of_second(const struct trace *t, const u8 *mem)
{
	unsigned long first = (unsigned long)mem + PLAIN_CALLER, n = (t->ips[1] - first) / 16;

	return n < PLAIN_NR && t->ips[1] == first + 16 * n ? (int)n : -1;
}

/* ... and which one has this walk been made by? */
static int table_of(const struct trace *t, const u8 *mem)
{
	if (t->nr != 3 || !t->outermost || t->ips[2] != (unsigned long)mem + PLAIN_OUTER)
		return -1;
	return table_of_second(t, mem);
}

/*
 * Mappings were being changed, or some code was not there just then, and the rest of the
 * stack is unknown. The frames are those that a table and frame pointers have.
 */
static bool is_cut_short(const struct trace *t, const u8 *mem)
{
	unsigned long at = (unsigned long)mem;

	if ((t->end != UT_END_CHANGING && t->end != UT_END_CORRUPT) ||
	    t->ips[0] != at + AT_MIDDLE)
		return false;
	return t->nr == 1 ||
	       (t->nr == 2 && (t->ips[1] == at + PLAIN_FP || table_of_second(t, mem) >= 0));
}

/* A table for the topmost frame or two, and then none */
static bool is_mixed(const struct trace *t, const u8 *mem)
{
	unsigned long at = (unsigned long)mem;

	return (t->nr == 3 || t->nr == 4) && table_of_second(t, mem) >= 0 &&
	       (t->ips[2] == at + PLAIN_OUTER || t->ips[2] == at + PLAIN_FP);
}

static void count(struct walker *w, const struct trace *t)
{
	unsigned long at = (unsigned long)w->mem;
	int n = table_of(t, w->mem);

	if (n >= 0) {
		w->by_table[n]++;
	} else if (t->nr == 2 && !t->outermost && t->ips[1] == at + PLAIN_FP) {
		w->by_fp++;
	} else if (t->nr < 0) {
		w->lost++;
	} else if (is_mixed(t, w->mem)) {
		w->mixed++;
	} else if (is_cut_short(t, w->mem)) {
		w->cut++;
	} else {
		w->other++;
		is_by_fp(t, w->mem);
	}
}

/* Words that may be anything: addresses of the code, or of the stack, or none */
static void fill_random(struct stack *s, const u8 *mem, unsigned int *seed)
{
	int i;

	for (i = 0; i < 512; i++) {
		unsigned int r = rand_r(seed);

		switch (r % 4) {
		case 0:
			s->words[i] = (unsigned long)mem + r / 4 % (FILE_PAGES * PAGE);
			break;
		case 1:
			s->words[i] = (unsigned long)&s->words[r / 4 % STACK_WORDS];
			break;
		case 2:
			s->words[i] = (u64)r << 32 | rand_r(seed);
			break;
		default:
			s->words[i] = (s64)(r % 64) - 32;
		}
	}
	for (i = 0; i < 16; i++) {
		if (i != RAX && i != RSP)
			s->regs[i] = s->words[i];
	}
}

static void *walk(void *arg)
{
	struct walker *w = arg;
	unsigned int seed = (unsigned long)w;
	struct stack s;
	struct trace t;

	if (!plain_stack(&s, w->mem) || !table_ring_open())
		return arg;
	while (!get_flag(w->stop)) {
		if (w->random)
			fill_random(&s, w->mem, &seed);
		table_walk(&s, &t);
		if (w->random)
			w->by_fp++;
		else
			count(w, &t);
	}
	up_close(&table_ring);
	stack_end(&s);
	return NULL;
}

/* All CPUs walk plain stacks in the file, or others. */
static bool start_walkers(struct _test_data_storm *self, bool random)
{
	int i;

	for (i = 0; i < self->nr_walkers; i++) {
		self->walkers[i] = (struct walker){
			.mem = self->file.mem, .stop = &self->stop, .random = random,
		};
		if (pthread_create(&self->walkers[i].thread, NULL, walk, &self->walkers[i]))
			return false;
	}
	return true;
}

/* A walk of which there is no record is counted; and there must not be any others. */
static void stop_walkers(struct __test_metadata *_metadata, struct _test_data_storm *self)
{
	struct walker *sum = &self->sum;
	void *ret;
	int i, n;

	set_flag(&self->stop, 1);
	for (i = 0; i < self->nr_walkers; i++) {
		struct walker *w = &self->walkers[i];

		if (pthread_join(w->thread, &ret) || ret)
			sum->other++;
		sum->by_fp += w->by_fp;
		sum->lost += w->lost;
		sum->mixed += w->mixed;
		sum->cut += w->cut;
		sum->other += w->other;
		for (n = 0; n < PLAIN_NR; n++)
			sum->by_table[n] += w->by_table[n];
	}
	fprintf(stderr, "# walks: %lu by frame pointer, %lu %lu %lu %lu by tables\n",
		sum->by_fp, sum->by_table[0], sum->by_table[1], sum->by_table[2],
		sum->by_table[3]);
	fprintf(stderr, "# %lu mixed, %lu cut\n", sum->mixed, sum->cut);
	EXPECT_EQ(0, sum->other);
	EXPECT_EQ(0, sum->lost);
}

/* Begin one more round, unless the time is up. */
static bool next_round(struct _test_data_storm *self)
{
	if (time(NULL) - self->start >= SECONDS)
		return false;
	self->rounds++;
	return true;
}

/* The next of four tables */
static int use_next(struct _test_data_storm *self, int fd)
{
	return plain_use(fd, self->rounds % 4, &self->file);
}

TEST_F(storm, tables_that_are_attached_and_dropped)
{
	int nr;

	ASSERT_TRUE(start_walkers(self, false));
	while (next_round(self)) {
		nr = use_next(self, self->fd);
		EXPECT_LT(0, nr);
		if (self->rounds % 3)
			usleep(2000);
		EXPECT_EQ(0, dev_drop(self->fd, nr));
		if (self->rounds % 5 == 0)
			usleep(1000);
	}
	stop_walkers(_metadata, self);
	EXPECT_LT(0, self->sum.by_table[0] + self->sum.by_table[1]);
	EXPECT_TRUE(walks_by_fp(self->file.mem));
	EXPECT_EQ(0, dev_info(self->fd, "attached"));
}

/* One is always there: the walk finds it, or the one before. */
TEST_F(storm, tables_that_take_over_from_each_other)
{
	int fd = dev_open(), old;

	ASSERT_LT(0, use_next(self, fd));
	ASSERT_TRUE(start_walkers(self, false));
	while (next_round(self)) {
		old = fd;
		fd = dev_open();
		EXPECT_LT(0, use_next(self, fd));
		close(old);
	}
	stop_walkers(_metadata, self);
	EXPECT_EQ(0, self->sum.by_fp);
	EXPECT_EQ(0, self->sum.mixed);
	EXPECT_LT(0, self->sum.by_table[0]);
	close(fd);
}

TEST_F(storm, device_that_is_opened_and_closed)
{
	/* It is open only where it is opened below. */
	close(self->fd);
	ASSERT_TRUE(start_walkers(self, false));
	while (next_round(self)) {
		int fd = dev_open();

		ASSERT_LE(0, fd);
		EXPECT_LT(0, use_next(self, fd));
		/* The last table is the one that is attached now. */
		EXPECT_TRUE(walks_plain(self->file.mem, self->rounds % 4));
		close(fd);
		EXPECT_TRUE(walks_by_fp(self->file.mem));
	}
	stop_walkers(_metadata, self);
	EXPECT_LT(0, self->sum.by_fp);
	self->fd = dev_open();
}

/* Code is mapped and unmapped at one address, while its tables are inserted and removed. */
static void *churn_mappings(void *arg)
{
	struct _test_data_storm *self = arg;
	unsigned long addr = (unsigned long)self->file.mem + 11 * PAGE;
	unsigned int n = 0;

	while (!get_flag(&self->stop)) {
		if (n++ % 2)
			map_over(addr, PAGE, PROT_CODE);
		else
			file_map_at(self->file.path, addr, 8 * PAGE, PAGE);
	}
	return NULL;
}

TEST_F(storm, mappings_that_change_beside_the_code)
{
	pthread_t churn;
	int nr;

	ASSERT_TRUE(start_walkers(self, false));
	ASSERT_EQ(0, pthread_create(&churn, NULL, churn_mappings, self));
	while (next_round(self)) {
		nr = use_next(self, self->fd);
		EXPECT_LT(0, nr);
		EXPECT_TRUE(walks_plain(self->file.mem, self->rounds % 4));
		EXPECT_EQ(0, dev_drop(self->fd, nr));
	}
	stop_walkers(_metadata, self);
	pthread_join(churn, NULL);
}

/* Files with tables are made and deleted; their inodes are used again. */
TEST_F(storm, files_that_are_made_and_deleted)
{
	int nr = plain_use(self->fd, 1, &self->file);
	struct code_file f;

	ASSERT_LT(0, nr);
	ASSERT_TRUE(start_walkers(self, false));
	while (next_round(self)) {
		ASSERT_TRUE(file_make(&f, test_path("gone"), 0xcc));
		EXPECT_TRUE(walks_by_fp(f.mem));
		EXPECT_EQ(0, file_attach(self->fd, nr, &f));
		EXPECT_TRUE(walks_plain(f.mem, 1));
		file_end(&f);
		EXPECT_EQ(1, dev_info(self->fd, "attached"));
	}
	stop_walkers(_metadata, self);
	EXPECT_EQ(0, self->sum.by_fp);
	EXPECT_EQ(0, self->sum.mixed);
	EXPECT_EQ(0, self->sum.cut);
}

/* Two files take turns at one place, and each has its table there at once. */
TEST_F(storm, files_that_take_each_others_place)
{
	struct code_file other, *files[] = { &self->file, &other };

	ASSERT_LT(0, plain_use(self->fd, 1, &self->file));
	ASSERT_LT(0, plain_other(self->fd, 2, &other));
	ASSERT_TRUE(start_walkers(self, false));
	while (next_round(self)) {
		unsigned int i = self->rounds % 2;

		EXPECT_TRUE(file_map_over(files[i], self->file.mem));
		EXPECT_TRUE(walks_plain(self->file.mem, 1 + i));
	}
	/* If the code is unmapped in the middle of a walk, there is no table either. */
	stop_walkers(_metadata, self);
	EXPECT_LT(0, self->sum.by_table[1]);
	EXPECT_LT(0, self->sum.by_table[2]);
	file_end(&other);
}

static struct unwind_table_loc random_loc(unsigned int *seed, unsigned int allowed)
{
	struct unwind_table_loc loc = { };

	do {
		loc.where = rand_r(seed) % 6;
	} while (!(allowed & 1 << loc.where));
	if (loc.where == UNWIND_TABLE_REG || loc.where == UNWIND_TABLE_REG_DEREF)
		loc.reg = rand_r(seed) % 16;
	if (loc.where > UNWIND_TABLE_SAME)
		loc.off = rand_r(seed) % 8 ? 8 * (int)(rand_r(seed) % 64) - 256 :
					     (s32)((u32)rand_r(seed) * 2);
	return loc;
}

static struct unwind_table_rule random_rule(unsigned int *seed)
{
	struct unwind_table_rule rule = { .kind = rand_r(seed) % 16 };

	if (rule.kind < UNWIND_TABLE_CALLER)
		return rule;
	rule.kind = UNWIND_TABLE_CALLER;
	rule.flags = rand_r(seed) % 4 ? 0 : rand_r(seed) % 8;
	rule.cfa = random_loc(seed, 0x0c);
	rule.ra = random_loc(seed, 0x2c);
	rule.fp = random_loc(seed, 0x3f);
	if (rule.cfa.where == UNWIND_TABLE_REG_DEREF)
		rule.cfa_add = 8 * (int)(rand_r(seed) % 64) - 256;
	return rule;
}

/* Rules that are in order as far as anybody can tell, and stacks of random words */
TEST_F(storm, rules_that_make_no_sense)
{
	unsigned int seed = 1;

	ASSERT_TRUE(start_walkers(self, true));
	while (next_round(self)) {
		u64 offset;
		int nr;

		table_start(self->table);
		for (offset = 0; offset < FILE_PAGES * PAGE;
		     offset += 1 + rand_r(&seed) % 200)
			table_row(self->table, offset, random_rule(&seed));
		table_end(self->table, FILE_PAGES * PAGE);
		nr = file_use(self->fd, self->table, &self->file);
		ASSERT_LT(0, nr);
		usleep(5000);
		ASSERT_EQ(0, dev_drop(self->fd, nr));
	}
	stop_walkers(_metadata, self);
	EXPECT_TRUE(walks_by_fp(self->file.mem));
}

/* Tables with a valid header that are changed somewhere, or everywhere */
TEST_F(storm, tables_of_random_bytes)
{
	const unsigned int at = sizeof(struct unwind_table_header);
	unsigned long refused = 0, taken = 0;
	u8 *data = malloc(TABLE_ROOM);
	unsigned int seed = 2;

	ASSERT_NE(NULL, data);
	plain_table(self->table, 0);
	ASSERT_TRUE(start_walkers(self, true));
	while (next_round(self)) {
		size_t len = table_join(self->table, data);
		unsigned int i, n = rand_r(&seed) % 8 ? 1 + rand_r(&seed) % 3 : len;
		int nr;

		for (i = 0; i < n; i++)
			data[at + rand_r(&seed) % (len - at)] = rand_r(&seed);
		nr = dev_make(self->fd, data, len);
		if (nr < 0) {
			EXPECT_EQ(-EINVAL, nr);
			refused++;
			continue;
		}
		taken++;
		EXPECT_EQ(0, file_attach(self->fd, nr, &self->file));
		usleep(500);
		EXPECT_EQ(0, dev_drop(self->fd, nr));
	}
	stop_walkers(_metadata, self);
	fprintf(stderr, "# %lu tables refused, %lu taken\n", refused, taken);
	EXPECT_LT(0, refused);
	EXPECT_LT(0, taken);
	EXPECT_EQ(0, dev_info(self->fd, "tables"));
	free(data);
}

/* ------------------------------------------------------------------------ */
/* Samples of all CPUs							      */

static bool busy_open(struct up_ring *ring, int cpu)
{
	struct perf_event_attr attr;

	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK,
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.sample_period = 200000;
	return !up_open_pages(ring, &attr, -1, cpu, -1, 64);
}

/* Processes that start, are sampled, and end, with files of their own */
static int child_lives(unsigned int n)
{
	struct code_file f;
	int fd, nr, i;

	if (!file_make(&f, test_path("child"), n))
		return 1;
	fd = dev_open();
	for (i = 0; i < 3; i++) {
		nr = plain_use(fd, n % 4, &f);
		if (nr < 0 || !walks_plain(f.mem, n % 4) || dev_drop(fd, nr) ||
		    !walks_by_fp(f.mem))
			return 2;
	}
	if (plain_use(fd, n % 4, &f) < 0)
		return 3;
	/* Tables that are still attached are then removed in any order. */
	unlink(f.path);
	rmdir(test_dir());
	return 0;
}

TEST_F(storm, samples_of_all_cpus)
{
	struct up_ring rings[MAX_WALKERS];
	unsigned long samples = 0, bad = 0;
	int i, nr;

	for (i = 0; i < self->nr_walkers; i++) {
		ASSERT_TRUE(busy_open(&rings[i], nth_cpu(i)));
		up_enable(&rings[i]);
	}
	ASSERT_TRUE(start_walkers(self, false));
	while (next_round(self)) {
		nr = use_next(self, self->fd);
		EXPECT_LT(0, nr);
		EXPECT_EQ(0, IN_CHILD(child_lives(self->rounds)));
		EXPECT_EQ(0, dev_drop(self->fd, nr));
		for (i = 0; i < self->nr_walkers; i++) {
			samples += up_drain(&rings[i]);
			bad += up_count_bad(&rings[i]);
			up_forget(&rings[i]);
		}
	}
	stop_walkers(_metadata, self);
	for (i = 0; i < self->nr_walkers; i++)
		up_close(&rings[i]);
	fprintf(stderr, "# %lu samples and records, %u processes\n", samples, self->rounds);
	EXPECT_LT(0, samples);
	EXPECT_EQ(0, bad);
}

/* ------------------------------------------------------------------------ */
/* A program of several threads, whose mappings change all the time	      */

/*
 * Before the system call of a file, a loop of RBX rounds. Some code after it goes back
 * to the test.
 */
#define SPIN		(CALL_MIDDLE - 5)
#define SPIN_END	(CALL_MIDDLE + 10)
/* Words of a caller's frame in the file with this number */
#define FRAME_SIZE(n)	(40 + 2 * (n))

#define LOAD_SECONDS	10
#define NR_SAMPLED	3
#define SAMPLED_DEPTH	14
#define SAMPLED_NR	(SAMPLED_DEPTH + 2)
#define SAMPLED_ROUNDS	100
#define SAMPLED_RECS	200
#define PERIOD_NS	100000
/* Files of the program, whose numbers come after those of the libraries */
#define NR_FIXED	2
#define FIXED_NR(i)	(2 * NR_SAMPLED + (i))

/* Parts of a large mapping, every other one readable */
#define LARGE_SIZE	(4UL << 30)
#define LARGE_PART	(2UL << 20)

/**
 * struct sampled - A thread that is sampled in one of two libraries
 * @thread:	The thread
 * @libs:	The libraries, which it loads in turn. They have other rules for the same code
 * @fixed:	Other files that its stack goes through
 * @nr:		Its number
 * @base:	Address of the library
 * @stop:	The end
 * @room:	A page to map and to unmap
 * @ips:	Addresses that a walk must have, except for the first one
 * @ring:	Its samples
 * @loads:	So often a library was loaded
 * @same_place:	and so often in the place of the other one
 * @complete:	Exact walks
 * @cut:	Walks that have the beginning of the exact one, by reason
 * @elsewhere:	Walks from other code than that of the library, such as the test's
 * @lost:	Samples without a walk
 * @wrong:	Other walks, and samples
 */
struct sampled {
	pthread_t thread;
	const struct code_file *libs;
	const struct code_file *fixed;
	unsigned int nr;
	unsigned long base;
	const int *stop;
	u8 *room;
	u64 ips[SAMPLED_NR];
	struct up_ring ring;
	unsigned long loads;
	unsigned long same_place;
	unsigned long complete;
	unsigned long cut[16];
	unsigned long elsewhere;
	unsigned long lost;
	unsigned long wrong;
};

static void spin_table(struct table *t, unsigned int n)
{
	table_start(t);
	table_row(t, PAGE, UNKNOWN);
	table_row(t, SPIN, rule_cfa(RSP, 8 + 8 * n));
	table_row(t, SPIN_END, UNKNOWN);
	table_row(t, 8 * PAGE, rule_saved(RSP, 8 * FRAME_SIZE(n), -16));
	table_row(t, 9 * PAGE, OUTERMOST);
	table_end(t, 10 * PAGE);
}

/* Make a library, and use a table of that number for it. */
static bool spin_make(struct code_file *f, int dev, struct table *t, unsigned int n)
{
	static u8 bytes[(FILE_PAGES + 1) * PAGE];
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "spin%u", n);
	snprintf(f->path, sizeof(f->path), "%s", test_path(name));
	code_fill(bytes, 0xcc);
	/* dec %rbx; jnz */
	code_bytes(bytes + SPIN, "\x48\xff\xcb\x75\xfb", 5);
	image_headers(bytes, FILE_PAGES * PAGE);
	fd = open(f->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes))
		return false;
	close(fd);
	spin_table(t, n);
	return file_map(f) && file_use(dev, t, f) > 0;
}

/* A stack from the loop through all of its files. @which is the library. */
static void spin_stack(struct sampled *w, struct stack *s, unsigned int which)
{
	unsigned int own = 2 * w->nr + which, n = own, sp = 0, i;

	/* The target of any other rule */
	for (i = 0; i < STACK_WORDS; i++)
		s->words[i] = w->base + PLAIN_FP;
	s->ip = w->base + SPIN;
	for (i = 1; i < SAMPLED_NR; i++) {
		unsigned int k = i / 2 % NR_FIXED;
		unsigned long at = i % 2 ? w->base : (unsigned long)w->fixed[k].mem;

		sp += i == 1 ? 1 + n : FRAME_SIZE(n);
		n = i % 2 ? own : FIXED_NR(k);
		w->ips[i] = at + (i < SAMPLED_NR - 1 ? PLAIN_CALLER : PLAIN_OUTER) + i;
		s->words[sp - 1] = w->ips[i];
	}
}

/* How much of the exact stack is there? -1 if there is anything else. */
static int spin_frames(const struct sampled *w, const u64 *ips, u64 nr, bool outermost)
{
	u64 i;

	for (i = 1; i < nr && i < SAMPLED_NR && ips[i] == w->ips[i]; i++)
		;
	return i == nr && outermost == (i == SAMPLED_NR) ? (int)i : -1;
}

static bool is_spinning(const struct sampled *w, const u64 *ips, u64 nr)
{
	return nr && ips[0] - w->base - SPIN < SPIN_END - SPIN;
}

/* A record is a walk, of which there are samples before and after it. */
static void spin_count(struct sampled *w, const struct up_rec *rec)
{
	const struct up_rec *last = &w->ring.recs[w->ring.nr_recs - 1];
	unsigned int end = UT_MISC_END(rec->misc);
	int nr;

	if (rec->type == PERF_RECORD_SAMPLE && rec->deferred) {
		/* None comes once the event is disabled. */
		w->lost += rec->cookie != last->cookie &&
			   up_count_cookie(&w->ring, rec->cookie) != 1;
		return;
	}
	if (rec->type == PERF_RECORD_SAMPLE) {
		w->wrong += is_spinning(w, rec->user, rec->nr_user) &&
			    spin_frames(w, rec->user, rec->nr_user,
					rec->misc & UT_MISC_OUTERMOST) < 0;
		return;
	}
	if (!is_spinning(w, rec->ips, rec->nr)) {
		w->elsewhere++;
		return;
	}
	nr = spin_frames(w, rec->ips, rec->nr, rec->misc & UT_MISC_OUTERMOST);
	if (nr == SAMPLED_NR)
		w->complete++;
	else if (nr > 0)
		w->cut[end]++;
	else if (!w->wrong++)
		up_frames_equal(rec->ips + 1, rec->nr - 1, w->ips + 1, SAMPLED_NR - 1);
}

/* The system calls of the loop map a page, and unmap it. */
static void spin(struct sampled *w, struct stack *s, unsigned int rounds)
{
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		s->regs[RBX] = 100000;
		s->regs[RAX] = i % 2 ? SYS_munmap : SYS_mmap;
		s->regs[RDI] = (unsigned long)w->room;
		s->regs[RSI] = PAGE;
		s->regs[RDX] = PROT_READ;
		s->regs[R10] = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
		s->regs[R8] = -1;
		table_enter(s);
	}
}

static void *load_and_spin(void *arg)
{
	struct sampled *w = arg;
	struct perf_event_attr attr;
	unsigned long last = 0;
	struct stack s;
	size_t i;

	up_attr_init(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK,
		     UT_ATTR_DEFER_CALLCHAIN | UT_ATTR_DEFER_OUTPUT);
	attr.exclude_callchain_kernel = 1;
	attr.sample_period = PERIOD_NS;
	if (up_open(&w->ring, &attr, 0, -1, -1) || !stack_start(&s, NULL))
		return arg;
	while (!get_flag(w->stop)) {
		unsigned int which = w->loads % 2;
		struct link_map *map = dlopen(w->libs[which].path, RTLD_NOW | RTLD_LOCAL);

		if (!map)
			return arg;
		w->base = map->l_addr;
		w->loads++;
		w->same_place += w->base == last;
		last = w->base;
		spin_stack(w, &s, which);
		/* A slow machine has many samples in a round. The buffer must not fill. */
		up_enable(&w->ring);
		for (i = 0; i < SAMPLED_ROUNDS && w->ring.nr_recs < SAMPLED_RECS; i += 4) {
			spin(w, &s, 4);
			up_drain(&w->ring);
		}
		up_disable(&w->ring);
		dlclose(map);

		up_drain(&w->ring);
		for (i = 0; i < w->ring.nr_recs; i++) {
			if (w->ring.recs[i].type == PERF_RECORD_SAMPLE ||
			    w->ring.recs[i].type == UT_RECORD_CALLCHAIN_DEFERRED)
				spin_count(w, &w->ring.recs[i]);
		}
		w->lost += up_count_lost(&w->ring) + up_count_bad(&w->ring);
		up_forget(&w->ring);
	}
	up_close(&w->ring);
	stack_end(&s);
	return NULL;
}

static void *churn_files(void *arg)
{
	struct _test_data_storm *self = arg;

	while (!get_flag(&self->stop)) {
		struct code_file f = self->file;

		if (file_map(&f))
			file_unmap(&f);
		munmap(map_anon(0, PAGE, PROT_READ, 0), PAGE);
		usleep(500);
	}
	return NULL;
}

/* Untouched: a fork takes long because of the mappings, each of which it locks. */
static u8 *map_large(void)
{
	u8 *mem = map_anon(0, LARGE_SIZE, PROT_NONE, MAP_NORESERVE);
	unsigned long at;

	for (at = 0; at < LARGE_SIZE; at += 2 * LARGE_PART) {
		if (mem == MAP_FAILED || mprotect(mem + at, LARGE_PART, PROT_READ))
			return NULL;
	}
	return mem;
}

/*
 * Has enough time passed, and has the test seen all outcomes that it wants? Even a slow
 * machine does not need eight times as long.
 */
static bool loaded_enough(const struct sampled *workers, time_t start)
{
	unsigned long same_place = 0, complete = 0;
	time_t took = time(NULL) - start;
	int i;

	for (i = 0; i < NR_SAMPLED; i++) {
		same_place += __atomic_load_n(&workers[i].same_place, __ATOMIC_RELAXED);
		complete += __atomic_load_n(&workers[i].complete, __ATOMIC_RELAXED);
	}
	return took >= 8 * LOAD_SECONDS ||
	       (took >= LOAD_SECONDS && same_place && complete > 100);
}

/*
 * Forks, brk(), mmap() and dlopen() go on beside threads whose code only tables describe.
 * Each walk is complete and exact, or ends early since mappings change: those are the first
 * ones in a library, if they come while a fork has locked its mapping.
 */
TEST_F(storm, program_whose_mappings_change_all_the_time)
{
	struct code_file libs[2 * NR_SAMPLED], fixed[NR_FIXED];
	struct sampled workers[NR_SAMPLED] = { }, sum = { };
	unsigned long forks = 0, all;
	int i, n;
	time_t start;
	pthread_t churn;
	void *brk, *ret;
	u8 *large;

	for (i = 0; i < 2 * NR_SAMPLED; i++) {
		ASSERT_TRUE(spin_make(&libs[i], self->fd, self->table, i));
		munmap(libs[i].mem, FILE_PAGES * PAGE);
	}
	for (i = 0; i < NR_FIXED; i++)
		ASSERT_TRUE(spin_make(&fixed[i], self->fd, self->table, FIXED_NR(i)));
	large = map_large();
	ASSERT_NE(NULL, large);
	ASSERT_EQ(0, pthread_create(&churn, NULL, churn_files, self));
	for (i = 0; i < NR_SAMPLED; i++) {
		workers[i] = (struct sampled){
			.libs = &libs[2 * i], .fixed = fixed, .nr = i, .stop = &self->stop,
			.room = map_anon(0, PAGE, PROT_READ, 0),
		};
		ASSERT_EQ(0, pthread_create(&workers[i].thread, NULL, load_and_spin,
					    &workers[i]));
	}

	/* Only this thread's malloc() has what brk() gives. */
	brk = sbrk(0);
	for (start = time(NULL); !loaded_enough(workers, start); forks++) {
		EXPECT_EQ(0, IN_CHILD(0));
		for (i = 0; i < 20; i++) {
			syscall(SYS_brk, brk + PAGE);
			syscall(SYS_brk, brk);
			usleep(1000);
		}
	}

	set_flag(&self->stop, 1);
	for (i = 0; i < NR_SAMPLED; i++) {
		struct sampled *w = &workers[i];

		ASSERT_EQ(0, pthread_join(w->thread, &ret));
		EXPECT_EQ(NULL, ret);
		sum.loads += w->loads;
		sum.same_place += w->same_place;
		sum.complete += w->complete;
		for (n = 0; n < 16; n++)
			sum.cut[n] += w->cut[n];
		sum.elsewhere += w->elsewhere;
		sum.lost += w->lost;
		sum.wrong += w->wrong;
	}
	pthread_join(churn, NULL);
	fprintf(stderr, "# %lu libraries, %lu in the place of the other one, %lu forks\n",
		sum.loads, sum.same_place, forks);
	fprintf(stderr, "# walks: %lu complete, %lu wrong, %lu elsewhere, %lu lost\n",
		sum.complete, sum.wrong, sum.elsewhere, sum.lost);
	for (n = 0, all = sum.complete; n < 16; n++) {
		all += sum.cut[n];
		if (sum.cut[n])
			fprintf(stderr, "# %lu cut with reason %d\n", sum.cut[n], n);
		if (n != UT_END_CHANGING)
			EXPECT_EQ(0, sum.cut[n]);
	}
	EXPECT_EQ(0, sum.wrong);
	EXPECT_EQ(0, sum.lost);
	EXPECT_LE(20 * sum.cut[UT_END_CHANGING], all);
	EXPECT_LT(100, sum.complete);
	EXPECT_LT(0, sum.same_place);
	EXPECT_LT(0, forks);

	munmap(large, LARGE_SIZE);
	for (i = 0; i < NR_FIXED; i++)
		file_end(&fixed[i]);
	for (i = 0; i < 2 * NR_SAMPLED; i++) {
		close(libs[i].fd);
		unlink(libs[i].path);
	}
}

TEST_HARNESS_MAIN
