// SPDX-License-Identifier: GPL-2.0
/*
 * Samples and their deferred user callchains have to find each other in whatever
 * order and at whatever distance they come, and no event may get lost for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "debug.h"
#include "deferred-callchain.h"
#include "event.h"
#include "sample.h"
#include "tests.h"

#define MAX_LOG		1024
#define MAX_STEPS	16
#define MAX_USER	512
#define NR_STRESS	20000
#define NR_STRESS_TIDS	16

/* What comes in: a sample, a record, an exit or some other event. */
struct step {
	char	type;
	u32	tid;
	u64	cookie;
	u64	time;
	/* Entries of a record */
	u64	nr;
};

/*
 * What comes out, in order, each as its time and
 *   +N a sample with N user entries, - one without, r a record, . anything else
 */
struct merge_case {
	const char		*name;
	struct deferred_limits	limits;
	bool			ignore_tid;
	bool			unordered;
	struct step		steps[MAX_STEPS];
	const char		*expected;
	struct deferred_stats	stats;
};

#define BIG		1000000
#define UNLIMITED	{ .queued = BIG, .parked = BIG, .cached = BIG, .grace = 1000 }

static const struct merge_case merge_cases[] = {
	{
		.name		= "record after its samples",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'S', 1, 7, 20 }, { 'R', 1, 7, 30, 2 } },
		.expected	= "10+2 20+2 30r ",
		.stats		= { .nr_samples = 2, .nr_records = 1, .nr_merged = 2 },
	}, {
		.name		= "record before its samples",
		.limits		= UNLIMITED,
		.steps		= { { 'R', 1, 7, 10, 3 }, { 'S', 1, 7, 20 }, { 'S', 1, 7, 30 } },
		.expected	= "10r 20+3 30+3 ",
		.stats		= { .nr_samples = 2, .nr_records = 1, .nr_merged = 2 },
	}, {
		.name		= "other events keep their place",
		.limits		= UNLIMITED,
		.steps		= { { 'O', 2, 0, 5 }, { 'S', 1, 7, 10 }, { 'O', 2, 0, 20 },
				    { 'S', 2, 9, 30 }, { 'R', 2, 9, 40, 1 }, { 'O', 1, 0, 50 },
				    { 'R', 1, 7, 60, 2 } },
		.expected	= "5. 10+2 20. 30+1 40r 50. 60r ",
		.stats		= { .nr_samples = 2, .nr_records = 2, .nr_merged = 2 },
	}, {
		.name		= "same cookie, other thread",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'R', 2, 7, 20, 2 } },
		.expected	= "10- 20r ",
		.stats		= { .nr_samples = 1, .nr_records = 1, .nr_blocked = 1 },
	}, {
		.name		= "thread unknown, cookie alone decides",
		.limits		= UNLIMITED,
		.ignore_tid	= true,
		.steps		= { { 'S', 1, 7, 10 }, { 'R', -1, 7, 20, 2 }, { 'S', 2, 9, 30 } },
		.expected	= "10+2 20r 30- ",
		.stats		= { .nr_samples = 2, .nr_records = 1, .nr_merged = 1,
				    .nr_blocked = 1 },
	}, {
		.name		= "deeper of two records",
		.limits		= UNLIMITED,
		.steps		= { { 'R', 1, 7, 10, 4 }, { 'R', 1, 7, 11, 2 }, { 'S', 1, 7, 20 },
				    { 'R', 1, 9, 30, 1 }, { 'R', 1, 9, 31, 5 }, { 'S', 1, 9, 40 } },
		.expected	= "10r 11r 20+4 30r 31r 40+5 ",
		.stats		= { .nr_samples = 2, .nr_records = 4, .nr_merged = 2 },
	}, {
		.name		= "empty record",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'R', 1, 7, 20, 0 } },
		.expected	= "10+0 20r ",
		.stats		= { .nr_samples = 1, .nr_records = 1, .nr_merged = 1,
				    .nr_empty = 1 },
	}, {
		.name		= "lost: the thread went on, noticed after the grace time",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'S', 1, 9, 20 }, { 'R', 1, 9, 30, 1 },
				    { 'O', 2, 0, 1019 }, { 'O', 2, 0, 1020 },
				    { 'S', 2, 11, 2000 } },
		.expected	= "10- 20+1 30r 1019. 1020. 2000- ",
		.stats		= { .nr_samples = 3, .nr_records = 1, .nr_merged = 1,
				    .nr_lost = 1, .nr_blocked = 1 },
	}, {
		.name		= "late within the grace time",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'S', 1, 9, 20 }, { 'R', 1, 9, 30, 1 },
				    { 'R', 1, 7, 1000, 2 } },
		.expected	= "10+2 20+1 30r 1000r ",
		.stats		= { .nr_samples = 2, .nr_records = 2, .nr_merged = 2 },
	}, {
		.name		= "lost: the thread exited",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'E', 1, 0, 20 } },
		.expected	= "10- 20. ",
		.stats		= { .nr_samples = 1, .nr_lost = 1 },
	}, {
		.name		= "record after the exit",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'E', 1, 0, 20 }, { 'R', 1, 7, 30, 2 } },
		.expected	= "10+2 20. 30r ",
		.stats		= { .nr_samples = 1, .nr_records = 1, .nr_merged = 1 },
	}, {
		.name		= "no conclusions without order",
		.limits		= UNLIMITED,
		.unordered	= true,
		.steps		= { { 'S', 1, 7, 10 }, { 'S', 1, 9, 20 }, { 'R', 1, 9, 30, 1 },
				    { 'O', 2, 0, 99999 }, { 'R', 1, 7, 15, 2 } },
		.expected	= "10+2 20+1 30r 99999. 15r ",
		.stats		= { .nr_samples = 2, .nr_records = 2, .nr_merged = 2 },
	}, {
		.name		= "parked after the delay, then merged out of order",
		.limits		= { .queued = BIG, .parked = BIG, .cached = BIG,
				    .delay = 100, .grace = 1000 },
		.steps		= { { 'S', 1, 7, 10 }, { 'O', 2, 0, 110 }, { 'O', 2, 0, 111 },
				    { 'R', 1, 7, 200, 2 } },
		.expected	= "110. 111. 10+2 200r ",
		.stats		= { .nr_samples = 1, .nr_records = 1, .nr_merged = 1 },
	}, {
		.name		= "given up after the delay",
		.limits		= { .queued = BIG, .cached = BIG, .delay = 100, .grace = 1000 },
		.steps		= { { 'S', 1, 7, 10 }, { 'O', 2, 0, 111 }, { 'R', 1, 7, 200, 2 } },
		.expected	= "10- 111. 200r ",
		.stats		= { .nr_samples = 1, .nr_records = 1, .nr_late = 1 },
	}, {
		.name		= "queue full",
		.limits		= { .queued = 1, .parked = BIG, .cached = BIG, .grace = 1000 },
		.steps		= { { 'S', 1, 7, 10 }, { 'O', 2, 0, 20 }, { 'S', 2, 9, 30 },
				    { 'R', 2, 9, 40, 1 }, { 'R', 1, 7, 50, 2 } },
		.expected	= "20. 30+1 40r 10+2 50r ",
		.stats		= { .nr_samples = 2, .nr_records = 2, .nr_merged = 2 },
	}, {
		.name		= "queue full of what a record holds",
		.limits		= { .queued = 4000, .parked = BIG, .cached = BIG, .grace = 1000 },
		.steps		= { { 'S', 1, 7, 10 }, { 'S', 2, 9, 20 }, { 'R', 2, 9, 30, 500 },
				    { 'R', 1, 7, 40, 2 } },
		.expected	= "20+500 30r 10+2 40r ",
		.stats		= { .nr_samples = 2, .nr_records = 2, .nr_merged = 2 },
	}, {
		.name		= "parking lot full",
		.limits		= { .queued = 1, .parked = 1, .cached = BIG, .grace = 1000 },
		.steps		= { { 'S', 1, 7, 10 }, { 'O', 2, 0, 20 }, { 'R', 1, 7, 30, 2 } },
		.expected	= "10- 20. 30r ",
		.stats		= { .nr_samples = 1, .nr_records = 1, .nr_late = 1 },
	}, {
		.name		= "parked at the end",
		.limits		= { .queued = 1, .parked = BIG, .cached = BIG, .grace = 1000 },
		.steps		= { { 'S', 1, 7, 10 }, { 'O', 2, 0, 20 }, { 'S', 1, 7, 30 } },
		.expected	= "20. 10- 30- ",
		.stats		= { .nr_samples = 2, .nr_blocked = 2 },
	}, {
		.name		= "no cache for later samples",
		.limits		= { .queued = BIG, .parked = BIG, .grace = 1000 },
		.steps		= { { 'S', 1, 7, 10 }, { 'R', 1, 7, 20, 2 }, { 'S', 1, 7, 30 } },
		.expected	= "10+2 20r 30- ",
		.stats		= { .nr_samples = 2, .nr_records = 1, .nr_merged = 1,
				    .nr_blocked = 1 },
	},
};

struct merge_log {
	char	buf[MAX_LOG];
	int	len;
	/* Fail the delivery of the event with this time */
	u64	fail_at;
};

/* Held events are parsed again, so all that matters is in the event itself. */
static void make_event(union perf_event *event, struct perf_sample *sample,
		       const struct step *step, struct ip_callchain *user)
{
	u64 i;

	memset(sample, 0, sizeof(*sample));
	memset(event, 0, sizeof(event->sample) + 8 * sizeof(u64));
	event->header.size = sizeof(event->header) + 4 * sizeof(u64);
	event->sample.array[3] = step->time;

	sample->tid = step->tid;
	sample->time = step->time;
	sample->deferred_cookie = step->cookie;

	switch (step->type) {
	case 'S':
		event->header.type = PERF_RECORD_SAMPLE;
		sample->deferred_callchain = true;
		break;
	case 'R':
		event->header.type = PERF_RECORD_CALLCHAIN_DEFERRED;
		user->nr = step->nr;
		for (i = 0; i < user->nr; i++)
			user->ips[i] = 0x1000 + i;
		sample->callchain = user;
		break;
	case 'E':
		event->header.type = PERF_RECORD_EXIT;
		event->header.size = sizeof(event->fork) + 4 * sizeof(u64);
		event->fork.tid = step->tid;
		break;
	default:
		event->header.type = PERF_RECORD_COMM;
		break;
	}
}

static int log_event(void *priv, union perf_event *event,
		     struct perf_sample *sample __maybe_unused,
		     const struct ip_callchain *user, u64 file_offset __maybe_unused,
		     const char *file_path __maybe_unused)
{
	struct merge_log *log = priv;
	u64 time = event->sample.array[3];
	char what[16];

	if (log->fail_at && time == log->fail_at)
		return -EBADMSG;

	if (event->header.type == PERF_RECORD_CALLCHAIN_DEFERRED)
		scnprintf(what, sizeof(what), "r");
	else if (event->header.type != PERF_RECORD_SAMPLE)
		scnprintf(what, sizeof(what), ".");
	else if (user)
		scnprintf(what, sizeof(what), "+%d", (int)user->nr);
	else
		scnprintf(what, sizeof(what), "-");

	log->len += scnprintf(log->buf + log->len, sizeof(log->buf) - log->len,
			      "%llu%s ", (unsigned long long)time, what);
	return 0;
}

static int run_steps(struct deferred_callchains *dc, const struct step *steps)
{
	struct ip_callchain *user = malloc(sizeof(*user) + MAX_USER * sizeof(u64));
	union perf_event *event = malloc(sizeof(*event));
	struct perf_sample sample;
	int i, err = 0;

	if (!user || !event) {
		err = -ENOMEM;
		goto out;
	}

	for (i = 0; !err && i < MAX_STEPS && steps[i].type; i++) {
		make_event(event, &sample, &steps[i], user);
		err = deferred_callchains__process(dc, event, &sample, 0, NULL);
	}
	if (!err)
		err = deferred_callchains__flush(dc);
out:
	free(event);
	free(user);
	return err;
}

static int run_merge_case(const struct merge_case *test)
{
	struct deferred_callchains *dc;
	struct deferred_stats stats = {};
	struct merge_log log = {};
	int err;

	pr_debug("%s\n", test->name);

	dc = deferred_callchains__new(&test->limits, &stats, log_event, &log);
	TEST_ASSERT_VAL("new", dc);

	deferred_callchains__set_copy(dc, true);
	deferred_callchains__set_ignore_tid(dc, test->ignore_tid);
	deferred_callchains__set_unordered(dc, test->unordered);
	err = run_steps(dc, test->steps);
	deferred_callchains__delete(dc);

	TEST_ASSERT_EQUAL("run", err, 0);
	if (strcmp(log.buf, test->expected)) {
		pr_debug("expected '%s', got '%s'\n", test->expected, log.buf);
		return TEST_FAIL;
	}
	TEST_ASSERT_VAL("stats", !memcmp(&stats, &test->stats, sizeof(stats)));
	return TEST_OK;
}

static int test__deferred_merge(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	int ret = TEST_OK;

	for (size_t i = 0; i < ARRAY_SIZE(merge_cases); i++) {
		if (run_merge_case(&merge_cases[i]) != TEST_OK) {
			pr_debug("failed: %s\n", merge_cases[i].name);
			ret = TEST_FAIL;
		}
	}
	return ret;
}

static int test__deferred_error(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	static const struct deferred_limits limits = UNLIMITED;
	static const struct step steps[MAX_STEPS] = {
		{ 'S', 1, 7, 10, 0 }, { 'S', 2, 9, 20, 0 },
		{ 'R', 1, 7, 30, 2 }, { 'O', 1, 0, 40, 0 },
	};
	struct deferred_stats stats = {};
	struct merge_log log = { .fail_at = 10, };
	struct deferred_callchains *dc;
	int err;

	dc = deferred_callchains__new(&limits, &stats, log_event, &log);
	TEST_ASSERT_VAL("new", dc);

	deferred_callchains__set_copy(dc, true);
	err = run_steps(dc, steps);
	/* With events still in the queue */
	deferred_callchains__delete(dc);

	TEST_ASSERT_EQUAL("error from the delivery", err, -EBADMSG);
	TEST_ASSERT_VAL("nothing delivered", log.len == 0);
	return TEST_OK;
}

static int count_event(void *priv, union perf_event *event,
		       struct perf_sample *sample __maybe_unused,
		       const struct ip_callchain *user __maybe_unused,
		       u64 file_offset __maybe_unused, const char *file_path __maybe_unused)
{
	u8 *seen = priv;

	/* Exactly once */
	if (seen[event->sample.array[3]]++)
		return -EEXIST;
	return 0;
}

/* Small limits and many threads: whatever happens, nothing gets lost. */
static int test__deferred_stress(struct test_suite *test __maybe_unused,
				 int subtest __maybe_unused)
{
	static const struct deferred_limits limits = {
		.queued = 8192, .parked = 4096, .cached = 4096, .delay = 500, .grace = 50,
	};
	struct deferred_stats stats = {};
	struct deferred_callchains *dc;
	struct ip_callchain *user = malloc(sizeof(*user) + 8 * sizeof(u64));
	union perf_event *event = malloc(sizeof(*event));
	u8 *seen = zalloc(NR_STRESS + 1);
	int err = -ENOMEM, ret = TEST_FAIL;
	u64 time;

	dc = deferred_callchains__new(&limits, &stats, count_event, seen);
	if (!dc || !user || !event || !seen)
		goto out;

	srandom(1);
	deferred_callchains__set_copy(dc, true);
	for (err = 0, time = 1; !err && time <= NR_STRESS; time++) {
		static const char types[] = "SSSSSRRROE";
		struct step step = {
			.type	= types[random() % (sizeof(types) - 1)],
			.tid	= random() % NR_STRESS_TIDS,
			.time	= time,
			.nr	= random() % 8,
		};
		struct perf_sample sample;

		step.cookie = time / 64 + random() % 3;
		make_event(event, &sample, &step, user);
		err = deferred_callchains__process(dc, event, &sample, 0, NULL);
	}
	if (!err)
		err = deferred_callchains__flush(dc);

	for (time = 1; !err && time <= NR_STRESS; time++) {
		if (seen[time] != 1) {
			pr_debug("event %llu got lost\n", (unsigned long long)time);
			goto out;
		}
	}

	if (!err && stats.nr_samples == stats.nr_merged + deferred_stats__missing(&stats) &&
	    stats.nr_merged && stats.nr_lost && stats.nr_late)
		ret = TEST_OK;
out:
	deferred_callchains__delete(dc);
	free(seen);
	free(event);
	free(user);
	return ret;
}

static bool chain_is(const struct perf_sample *sample, const u64 *ips, u64 nr)
{
	return sample->callchain->nr == nr &&
	       !memcmp(sample->callchain->ips, ips, nr * sizeof(u64));
}

struct chain_case {
	const char	*name;
	u8		cpumode;
	u64		kernel[2];
	u64		nr_user;
	u64		user[3];
	u64		expected[6];
	u64		nr_expected;
};

#define KERNEL	PERF_CONTEXT_KERNEL
#define USER	PERF_CONTEXT_USER

static const struct chain_case chain_cases[] = {
	{ "kernel and user", PERF_RECORD_MISC_KERNEL, { KERNEL, 11 }, 2, { 21, 22 },
	  { KERNEL, 11, USER, 21, 22 }, 5 },
	{ "user only", PERF_RECORD_MISC_USER, { }, 3, { 21, 22, 23 },
	  { USER, 21, 22, 23 }, 4 },
	{ "no entries in the kernel", PERF_RECORD_MISC_KERNEL, { KERNEL, 11 }, 0, { },
	  { KERNEL, 11 }, 2 },
	{ "no entries in user space", PERF_RECORD_MISC_USER, { }, 0, { },
	  { USER, 99 }, 2 },
	{ "ends at a marker", PERF_RECORD_MISC_KERNEL, { KERNEL, 11 }, 3,
	  { 21, PERF_CONTEXT_USER_DEFERRED, 23 }, { KERNEL, 11, USER, 21 }, 4 },
	{ "is a marker", PERF_RECORD_MISC_KERNEL, { KERNEL, 11 }, 1, { -1ULL },
	  { KERNEL, 11 }, 2 },
};

static int test__deferred_chain(struct test_suite *test __maybe_unused,
				int subtest __maybe_unused)
{
	struct ip_callchain *chain = malloc(sizeof(*chain) + 4 * sizeof(u64));
	struct ip_callchain *user = malloc(sizeof(*user) + 3 * sizeof(u64));
	int ret = TEST_FAIL;

	if (!chain || !user)
		goto out;

	ret = TEST_OK;
	for (size_t i = 0; i < ARRAY_SIZE(chain_cases); i++) {
		const struct chain_case *c = &chain_cases[i];
		struct perf_sample sample = {
			.ip			= 99,
			.cpumode		= c->cpumode,
			.callchain		= chain,
			.deferred_callchain	= true,
			.deferred_cookie	= 7,
		};

		chain->nr = 0;
		if (c->kernel[0]) {
			chain->ips[chain->nr++] = c->kernel[0];
			chain->ips[chain->nr++] = c->kernel[1];
		}
		chain->ips[chain->nr++] = PERF_CONTEXT_USER_DEFERRED;
		chain->ips[chain->nr++] = 7;
		user->nr = c->nr_user;
		memcpy(user->ips, c->user, sizeof(c->user));

		if (sample__merge_deferred_callchain(&sample, user) ||
		    !chain_is(&sample, c->expected, c->nr_expected) ||
		    sample.deferred_callchain || !sample.merged_callchain) {
			pr_debug("failed: %s\n", c->name);
			ret = TEST_FAIL;
		}
		sample__free_merged_callchain(&sample);
	}
out:
	free(chain);
	free(user);
	return ret;
}

static struct test_case deferred_callchain_tests[] = {
	TEST_CASE("Order, limits and figures", deferred_merge),
	TEST_CASE("Error from the delivery", deferred_error),
	TEST_CASE("Random events with small limits", deferred_stress),
	TEST_CASE("Merged callchains", deferred_chain),
	{ .name = NULL, }
};

struct test_suite suite__deferred_callchain = {
	.desc		= "Deferred user callchains",
	.test_cases	= deferred_callchain_tests,
};
