// SPDX-License-Identifier: GPL-2.0
/*
 * Samples and their deferred user callchains have to find each other in any order and at
 * any distance, and no event may get lost for it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>

#include "debug.h"
#include "deferred-callchain.h"
#include "deferred-summary.h"
#include "deferred-switch.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "hashmap.h"
#include "record.h"
#include "sample.h"
#include "tests.h"

#define MAX_LOG		1024
#define MAX_STEPS	16
#define MAX_USER	512
#define NR_STRESS	20000
#define NR_STRESS_TIDS	16
#define NO_RULE		PERF_RECORD_MISC_CALLCHAIN_NO_RULE
#define DEPTH		PERF_RECORD_MISC_CALLCHAIN_DEPTH

/*
 * Input: a sample, a record, a complete record, one that ends without a rule (N), an exit
 * or some other event; or only the timer (T), which has a time of its own.
 */
struct step {
	char	type;
	u32	tid;
	u64	cookie;
	u64	time;
	/* Entries of a record */
	u64	nr;
};

/*
 * Output, in order, each as its time and
 *   +N a sample with N user entries, - one without, r a record, . anything else;
 *   c after a sample that is known to be complete, x after one that is cut, n if it is
 *   known to be cut without a rule
 */
struct merge_case {
	const char		*name;
	struct deferred_limits	limits;
	bool			ignore_tid;
	bool			unordered;
	bool			tells;
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
		.name		= "parked, the thread went on, noticed after the grace time",
		.limits		= { .queued = 1, .parked = BIG, .cached = BIG, .grace = 1000 },
		.steps		= { { 'S', 1, 7, 10 }, { 'O', 2, 0, 20 }, { 'S', 1, 9, 30 },
				    { 'R', 1, 9, 40, 1 }, { 'O', 2, 0, 1029 },
				    { 'O', 2, 0, 1030 }, { 'S', 2, 11, 1040 } },
		.expected	= "20. 30+1 40r 1029. 1030. 10- 1040- ",
		.stats		= { .nr_samples = 3, .nr_records = 1, .nr_merged = 1,
				    .nr_lost = 1, .nr_blocked = 1 },
	}, {
		.name		= "parked, the thread exited, noticed after the grace time",
		.limits		= { .queued = 1, .parked = BIG, .cached = BIG, .grace = 1000 },
		.steps		= { { 'S', 1, 7, 10 }, { 'S', 1, 7, 15 }, { 'E', 1, 0, 20 },
				    { 'O', 2, 0, 1020 }, { 'R', 1, 7, 1030, 2 } },
		.expected	= "20. 1020. 10- 15- 1030r ",
		.stats		= { .nr_samples = 2, .nr_records = 1, .nr_lost = 2 },
	}, {
		.name		= "by the timer others go on, the sample waits for its record",
		.limits		= { .queued = BIG, .parked = BIG, .cached = BIG,
				    .delay = 100, .grace = 1000 },
		.unordered	= true,
		.steps		= { { 'T', 0, 0, 500 }, { 'S', 1, 7, 10 }, { 'O', 2, 0, 20 },
				    { 'T', 0, 0, 600 }, { 'O', 2, 0, 30 }, { 'T', 0, 0, 601 },
				    { 'O', 2, 0, 40 }, { 'T', 0, 0, 9999 },
				    { 'R', 1, 7, 50, 2 } },
		.expected	= "20. 30. 40. 10+2 50r ",
		.stats		= { .nr_samples = 1, .nr_records = 1, .nr_merged = 1 },
	}, {
		.name		= "by the timer a sample is known to be lost, without order",
		.limits		= { .queued = BIG, .parked = BIG, .cached = BIG,
				    .delay = 5000, .grace = 1000 },
		.unordered	= true,
		.steps		= { { 'T', 0, 0, 500 }, { 'S', 1, 7, 10 }, { 'S', 1, 9, 20 },
				    { 'R', 1, 9, 30, 1 }, { 'T', 0, 0, 1499 },
				    { 'O', 2, 0, 40 }, { 'T', 0, 0, 1500 }, { 'O', 2, 0, 50 } },
		.expected	= "10- 20+1 30r 40. 50. ",
		.stats		= { .nr_samples = 2, .nr_records = 1, .nr_merged = 1,
				    .nr_lost = 1 },
	}, {
		.name		= "by the timer a parked sample is known to be lost, without order",
		.limits		= { .queued = BIG, .parked = BIG, .cached = BIG,
				    .delay = 100, .grace = 1000 },
		.unordered	= true,
		.steps		= { { 'T', 0, 0, 500 }, { 'S', 1, 7, 10 }, { 'T', 0, 0, 601 },
				    { 'O', 2, 0, 20 }, { 'S', 1, 9, 30 }, { 'R', 1, 9, 40, 1 },
				    { 'T', 0, 0, 1600 }, { 'O', 2, 0, 50 },
				    { 'T', 0, 0, 1601 }, { 'O', 2, 0, 60 } },
		.expected	= "20. 30+1 40r 50. 10- 60. ",
		.stats		= { .nr_samples = 2, .nr_records = 1, .nr_merged = 1,
				    .nr_lost = 1 },
	}, {
		.name		= "by the timer the older one is known to be lost, without order",
		.limits		= { .queued = 1, .parked = BIG, .cached = BIG, .grace = 1000 },
		.unordered	= true,
		.steps		= { { 'T', 0, 0, 500 }, { 'S', 1, 9, 20 }, { 'S', 1, 7, 10 },
				    { 'T', 0, 0, 1500 }, { 'R', 1, 9, 30, 1 } },
		.expected	= "10- 20+1 30r ",
		.stats		= { .nr_samples = 2, .nr_records = 1, .nr_merged = 1,
				    .nr_lost = 1 },
	}, {
		.name		= "given up by the timer",
		.limits		= { .queued = BIG, .cached = BIG, .delay = 100, .grace = 1000 },
		.steps		= { { 'T', 0, 0, 500 }, { 'S', 1, 7, 10 }, { 'T', 0, 0, 601 },
				    { 'R', 1, 7, 20, 2 } },
		.expected	= "10- 20r ",
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
	}, {
		.name		= "cut ones are known once a complete one was seen",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'R', 1, 7, 20, 2 }, { 'S', 1, 9, 30 },
				    { 'C', 1, 9, 40, 3 }, { 'S', 1, 7, 50 }, { 'S', 1, 9, 60 } },
		.expected	= "10+2 20r 30+3c 40r 50+2x 60+3c ",
		.stats		= { .nr_samples = 4, .nr_records = 2, .nr_merged = 4,
				    .nr_complete = 2 },
	}, {
		.name		= "cut ones are known from the start",
		.limits		= UNLIMITED,
		.tells		= true,
		.steps		= { { 'S', 1, 7, 10 }, { 'R', 1, 7, 20, 2 }, { 'S', 1, 9, 30 } },
		.expected	= "10+2x 20r 30- ",
		.stats		= { .nr_samples = 2, .nr_records = 1, .nr_merged = 1,
				    .nr_blocked = 1 },
	}, {
		.name		= "who says why says that it is cut",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'N', 1, 7, 20, 2 }, { 'S', 1, 9, 30 },
				    { 'R', 1, 9, 40, 3 } },
		.expected	= "10+2n 20r 30+3x 40r ",
		.stats		= { .nr_samples = 2, .nr_records = 2, .nr_merged = 2 },
	}, {
		.name		= "the deeper of two records says how far it reaches",
		.limits		= UNLIMITED,
		.steps		= { { 'R', 1, 7, 10, 2 }, { 'C', 1, 7, 11, 3 }, { 'S', 1, 7, 20 },
				    { 'C', 1, 9, 30, 2 }, { 'R', 1, 9, 31, 3 }, { 'S', 1, 9, 40 } },
		.expected	= "10r 11r 20+3c 30r 31r 40+3x ",
		.stats		= { .nr_samples = 2, .nr_records = 4, .nr_merged = 2,
				    .nr_complete = 1 },
	}, {
		.name		= "nothing is not complete",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'C', 1, 7, 20, 0 }, { 'S', 1, 9, 30 },
				    { 'R', 1, 9, 40, 1 } },
		.expected	= "10+0 20r 30+1 40r ",
		.stats		= { .nr_samples = 2, .nr_records = 2, .nr_merged = 2,
				    .nr_empty = 1 },
	}, {
		.name		= "a marker among the entries is not complete",
		.limits		= UNLIMITED,
		.steps		= { { 'S', 1, 7, 10 }, { 'M', 1, 7, 20, 3 } },
		.expected	= "10+3 20r ",
		.stats		= { .nr_samples = 1, .nr_records = 1, .nr_merged = 1 },
	},
};

struct merge_log {
	char	buf[MAX_LOG];
	int	len;
	/* Fail the delivery of the event with this time */
	u64	fail_at;
};

/* Held events are parsed again, so all data is in the event itself. */
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
	case 'C':
	case 'M':
		sample->misc = PERF_RECORD_MISC_CALLCHAIN_OUTERMOST;
		fallthrough;
	case 'N':
	case 'R':
		if (step->type == 'N')
			sample->misc = NO_RULE;
		event->header.type = PERF_RECORD_CALLCHAIN_DEFERRED;
		user->nr = step->nr;
		for (i = 0; i < user->nr; i++)
			user->ips[i] = 0x1000 + i;
		if (step->type == 'M')
			user->ips[i - 1] = PERF_CONTEXT_USER;
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
		     const struct ip_callchain *user, enum user_callchain state,
		     u64 file_offset __maybe_unused, const char *file_path __maybe_unused)
{
	static const char * const states[] = {
		[USER_CALLCHAIN__UNKNOWN]	= "",
		[USER_CALLCHAIN__COMPLETE]	= "c",
		[USER_CALLCHAIN__MISSING]	= "",
		[USER_CALLCHAIN__CUT]		= "x",
		[USER_CALLCHAIN__CUT | NO_RULE]	= "n",
	};
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

	/* Only samples have a callchain, and missing ones are empty */
	if ((event->header.type != PERF_RECORD_SAMPLE && state != USER_CALLCHAIN__UNKNOWN) ||
	    (state == USER_CALLCHAIN__MISSING && user && user->nr))
		scnprintf(what, sizeof(what), "?");

	log->len += scnprintf(log->buf + log->len, sizeof(log->buf) - log->len,
			      "%llu%s%s ", (unsigned long long)time, what, states[state]);
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
		if (steps[i].type == 'T') {
			err = deferred_callchains__tick(dc, steps[i].time);
			continue;
		}
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
	const struct deferred_source source = {
		.copy		= true,
		.ignore_tid	= test->ignore_tid,
		.unordered	= test->unordered,
		.tells		= test->tells,
	};
	struct deferred_callchains *dc;
	struct deferred_stats stats = {};
	struct merge_log log = {};
	int err;

	pr_debug("%s\n", test->name);

	dc = deferred_callchains__new(&test->limits, &source, &stats, log_event, &log);
	TEST_ASSERT_VAL("new", dc);

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
	static const struct deferred_source source = { .copy = true, };
	static const struct step steps[MAX_STEPS] = {
		{ 'S', 1, 7, 10, 0 }, { 'S', 2, 9, 20, 0 },
		{ 'R', 1, 7, 30, 2 }, { 'O', 1, 0, 40, 0 },
	};
	struct deferred_stats stats = {};
	struct merge_log log = { .fail_at = 10, };
	struct deferred_callchains *dc;
	int err;

	dc = deferred_callchains__new(&limits, &source, &stats, log_event, &log);
	TEST_ASSERT_VAL("new", dc);

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
		       enum user_callchain state __maybe_unused,
		       u64 file_offset __maybe_unused, const char *file_path __maybe_unused)
{
	u8 *seen = priv;

	/* Exactly once */
	if (seen[event->sample.array[3]]++)
		return -EEXIST;
	return 0;
}

/* Small limits and many threads: no event gets lost. */
static int test__deferred_stress(struct test_suite *test __maybe_unused,
				 int subtest __maybe_unused)
{
	static const struct deferred_limits limits = {
		.queued = 8192, .parked = 4096, .cached = 4096, .delay = 500, .grace = 50,
	};
	static const struct deferred_source source = { .copy = true, };
	struct deferred_stats stats = {};
	struct deferred_callchains *dc;
	struct ip_callchain *user = malloc(sizeof(*user) + 8 * sizeof(u64));
	union perf_event *event = malloc(sizeof(*event));
	u8 *seen = zalloc(NR_STRESS + 1);
	int err = -ENOMEM, ret = TEST_FAIL;
	u64 time;

	dc = deferred_callchains__new(&limits, &source, &stats, count_event, seen);
	if (!dc || !user || !event || !seen)
		goto out;

	srandom(1);
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
		/* In the second half, at half the speed and not for each event */
		if (!err && time > NR_STRESS / 2 && !(random() % 4))
			err = deferred_callchains__tick(dc, time / 2);
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

		if (sample__merge_deferred_callchain(&sample, user, USER_CALLCHAIN__CUT) ||
		    !chain_is(&sample, c->expected, c->nr_expected) ||
		    sample.deferred_callchain || !sample.merged_callchain ||
		    sample.user_callchain != USER_CALLCHAIN__CUT) {
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

#define NR_FILES	12
#define MAX_STACK	8

/* Twelve files, the Nth of them N times, and one of each other kind */
static struct deferred_summary *make_summary(void)
{
	struct deferred_summary *summary = deferred_summary__new();
	char name[32];
	int i, j;

	if (!summary)
		return NULL;

	summary->counted = true;
	summary->max_stack = MAX_STACK;
	for (i = 1; i <= NR_FILES; i++) {
		scnprintf(name, sizeof(name), "/lib/%d", i);
		for (j = 0; j < i; j++)
			deferred_summary__count_end(summary, name, NO_RULE);
		summary->figures.nr_samples += i;
	}
	deferred_summary__count_end(summary, "/lib/12", DEPTH);
	deferred_summary__count_end(summary, NULL, DEPTH);
	deferred_summary__count_end(summary, NULL, NO_RULE);
	summary->figures.nr_complete = 100;
	summary->figures.nr_unchecked = 5;
	summary->figures.nr_missing = 2;
	summary->figures.nr_empty = 1;
	summary->figures.nr_samples += 3 + summary->figures.nr_complete +
				       summary->figures.nr_unchecked +
				       summary->figures.nr_missing +
				       summary->figures.nr_empty;
	deferred_summary__rank(summary);
	return summary;
}

/* 10 of 15 ends are listed, the others are these: 2, and four that came once */
static bool is_made(const struct deferred_summary *summary)
{
	unsigned int i;
	char name[32];

	if (summary->nr_ends != DEFERRED_SUMMARY_ENDS || summary->figures.nr_samples != 189 ||
	    summary->figures.nr_complete != 100 || summary->figures.nr_unchecked != 5 ||
	    summary->figures.nr_missing != 2 ||
	    summary->figures.nr_empty != 1 || summary->figures.nr_other != 6 ||
	    !summary->counted || summary->max_stack != MAX_STACK)
		return false;

	for (i = 0; i < DEFERRED_SUMMARY_ENDS; i++) {
		scnprintf(name, sizeof(name), "/lib/%d", NR_FILES - i);
		if (summary->ends[i].nr != NR_FILES - i || strcmp(summary->ends[i].file, name) ||
		    summary->ends[i].reason != NO_RULE)
			return false;
	}
	return true;
}

static int test__deferred_summary(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	struct deferred_summary *summary = make_summary();
	int i;

	TEST_ASSERT_VAL("summary", summary);
	TEST_ASSERT_VAL("worst ten", is_made(summary));

	deferred_summary__reset(summary);
	TEST_ASSERT_VAL("reset", !summary->figures.nr_samples && !summary->nr_ends &&
			summary->max_stack == MAX_STACK);

	/* More files than are counted one by one, most of them once */
	for (i = 0; i < 10000; i++) {
		char name[32];

		scnprintf(name, sizeof(name), "/lib/%d", i);
		deferred_summary__count_end(summary, name, i ? NO_RULE : DEPTH);
		summary->figures.nr_samples++;
	}
	deferred_summary__count_end(summary, "/lib/0", DEPTH);
	summary->figures.nr_samples++;
	TEST_ASSERT_VAL("bounded", hashmap__size(summary->counts) <= 4096);
	deferred_summary__rank(summary);
	TEST_ASSERT_EQUAL("listed", summary->nr_ends, DEFERRED_SUMMARY_ENDS);
	TEST_ASSERT_VAL("worst", summary->ends[0].nr == 2 &&
			summary->ends[0].reason == DEPTH &&
			!strcmp(summary->ends[0].file, "/lib/0"));
	TEST_ASSERT_EQUAL("others", (int)summary->figures.nr_other, 10001 - 2 - 9);
	deferred_summary__delete(summary);
	return TEST_OK;
}

static bool decodes(const void *buf, size_t size, bool swap)
{
	struct deferred_summary *summary = deferred_summary__decode(buf, size, swap);
	bool ret = summary && is_made(summary);

	deferred_summary__delete(summary);
	return ret;
}

static int test__deferred_section(struct test_suite *test __maybe_unused,
				  int subtest __maybe_unused)
{
	/*
	 * Where the fields are: magic, version, flags, number of ends, samples; reason
	 * and length
	 */
	static const size_t fields[] = { 0, 8, 12, 20, 24, 72 + 8, 72 + 12, };
	struct deferred_summary *summary = make_summary();
	size_t size, i;
	u8 *buf, *part;

	TEST_ASSERT_VAL("summary", summary);
	summary->merged = true;
	buf = deferred_summary__encode(summary, &size);
	deferred_summary__delete(summary);
	TEST_ASSERT_VAL("encode", buf);
	TEST_ASSERT_VAL("size", size == 72 + 10 * (16 + 8));
	TEST_ASSERT_VAL("decode", decodes(buf, size, false));

	/* A copy of the right size, so that address sanitizer sees each read */
	for (i = 0; i < size; i++) {
		part = memdup(buf, i ?: 1);
		TEST_ASSERT_VAL("memdup", part);
		TEST_ASSERT_VAL("truncated", !decodes(part, i, false));
		free(part);
	}

	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		buf[fields[i]] ^= 0x40;
		TEST_ASSERT_VAL("changed", !decodes(buf, size, false));
		buf[fields[i]] ^= 0x40;
	}
	TEST_ASSERT_VAL("other byte order", !decodes(buf, size, true));

	/* A name without end, and too many of everything */
	memset(buf + 72 + 16, 'x', 8);
	TEST_ASSERT_VAL("no end", !decodes(buf, size, false));
	memset(buf + 12, 0xff, size - 12);
	TEST_ASSERT_VAL("all ones", !decodes(buf, size, false));
	free(buf);
	return TEST_OK;
}

#define MAX_EVENTS	3

/*
 * Events, and which of them receive the records. Each event is a string of letters:
 *   d for deferred callchains, i for inherited, b for a ring that is overwritten,
 *   k for no user callchains, 0 and 1 for the only CPU that it counts on
 */
static const struct output_case {
	const char	*events[MAX_EVENTS];
	int		tracking;
	const char	*expected;
} output_cases[] = {
	{ { "", "" }, 0, "00" },
	{ { "d", "d" }, 0, "10" },
	{ { "d", "di", "i" }, 2, "001" },
	{ { "d", "d", "k" }, 2, "100" },
	/* Children have the second event only */
	{ { "d", "di" }, 0, "01" },
	{ { "d", "d", "di" }, 0, "001" },
	{ { "di", "d", "d" }, 1, "100" },
	{ { "d", "i", "d" }, 0, "100" },
	/* One ring is read when the other has been overwritten */
	{ { "db", "d" }, 0, "11" },
	{ { "db", "d", "" }, 2, "101" },
	{ { "db", "db", "b" }, 2, "001" },
	{ { "db", "d", "db" }, 0, "110" },
	{ { "db", "" }, 1, "10" },
	{ { "dib", "db", "di" }, 1, "101" },
	/* The CPU where the task goes on, not where it was */
	{ { "d0", "d" }, 0, "01" },
	{ { "d0", "d1" }, 0, "11" },
	{ { "d0", "d1", "" }, 2, "001" },
};

static struct evsel *add_event(struct evlist *evlist, const char *flags)
{
	struct perf_event_attr attr = {
		.type			= PERF_TYPE_SOFTWARE,
		.config			= PERF_COUNT_SW_CPU_CLOCK,
		.defer_callchain	= !!strchr(flags, 'd'),
		.inherit		= !!strchr(flags, 'i'),
		.write_backward		= !!strchr(flags, 'b'),
		.exclude_callchain_user = !!strchr(flags, 'k'),
		.sample_max_stack	= 10,
	};
	struct evsel *evsel = evsel__new(&attr);
	size_t cpu = strcspn(flags, "01");

	if (!evsel)
		return NULL;

	evlist__add(evlist, evsel);
	perf_cpu_map__put(evsel->core.cpus);
	evsel->core.cpus = perf_cpu_map__new(flags[cpu] ? &flags[cpu] : "0-1");
	return evsel;
}

static int check_output(const struct output_case *c)
{
	struct evlist *evlist = evlist__new();
	char got[MAX_EVENTS + 1] = "";
	struct evsel *evsel;
	int i;

	TEST_ASSERT_VAL("evlist", evlist);
	for (i = 0; i < MAX_EVENTS && c->events[i]; i++) {
		evsel = add_event(evlist, c->events[i]);
		TEST_ASSERT_VAL("evsel", evsel);
		if (i == c->tracking)
			evlist__set_tracking_event(evlist, evsel);
	}

	evlist__config_defer_output(evlist);
	evlist__for_each_entry(evlist, evsel)
		got[evsel->core.idx] = evsel->core.attr.defer_output ? '1' : '0';
	evlist__delete(evlist);

	if (strcmp(got, c->expected)) {
		pr_err("case %d: expected %s, got %s\n", (int)(c - output_cases), c->expected,
		       got);
		return TEST_FAIL;
	}
	return TEST_OK;
}

static int test__deferred_output(struct test_suite *test __maybe_unused,
				 int subtest __maybe_unused)
{
	int ret = TEST_OK;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(output_cases); i++) {
		if (check_output(&output_cases[i]) != TEST_OK)
			ret = TEST_FAIL;
	}
	return ret;
}

/* Three samples of two contexts, the first of which has its record among them. */
static const u64 switched[] = {
	PERF_RECORD_SAMPLE | 40ULL << 48, 0x100000001ULL, 2, PERF_CONTEXT_USER_DEFERRED, 7,
	PERF_RECORD_SAMPLE | 40ULL << 48, 0x100000001ULL, 2, PERF_CONTEXT_USER_DEFERRED, 9,
	PERF_RECORD_CALLCHAIN_DEFERRED | 40ULL << 48, 7, 1, 0x401000, 0x100000001ULL,
	PERF_RECORD_SAMPLE | 40ULL << 48, 0x100000001ULL, 2, PERF_CONTEXT_USER_DEFERRED, 7,
};

static int take_along(void *priv, u32 tid, union perf_event *event, u64 *offset __maybe_unused)
{
	++*(int *)priv;
	return tid == 1 && event->header.size == 40 && ((u64 *)event)[4] == 9 ? 0 : -EINVAL;
}

/* The result does not depend on where the data of a ring buffer wrap around. */
static int switch_output_at(struct evlist *evlist, size_t split)
{
	struct deferred_switch *ds = deferred_switch__new(evlist);
	const u64 record[] = { PERF_RECORD_CALLCHAIN_DEFERRED | 32ULL << 48, 9, 0, 0x100000001ULL };
	u64 data[ARRAY_SIZE(switched)];
	FILE *file = tmpfile();
	int nr = 0;

	TEST_ASSERT_VAL("switch", ds && file);
	TEST_ASSERT_VAL("write", fwrite(switched, sizeof(switched), 1, file) == 1 &&
			!fflush(file));
	deferred_switch__written(ds, file, switched, split, 0);
	deferred_switch__written(ds, file, (void *)switched + split, sizeof(switched) - split,
				 split);

	TEST_ASSERT_VAL("blank", !deferred_switch__blank(ds, fileno(file)));
	TEST_ASSERT_VAL("read", pread(fileno(file), data, sizeof(data), 0) == sizeof(data));
	TEST_ASSERT_VAL("the one without record", (u32)data[5] == PERF_RECORD_HEADER_EVENT_TYPE);
	data[5] = switched[5];
	TEST_ASSERT_VAL("no other", !memcmp(data, switched, sizeof(data)));

	TEST_ASSERT_VAL("taken along", !deferred_switch__write(ds, take_along, &nr) && nr == 1);
	deferred_switch__written(ds, file, record, sizeof(record), sizeof(switched));
	TEST_ASSERT_VAL("until its record is there",
			!deferred_switch__write(ds, take_along, &nr) && nr == 1);
	deferred_switch__delete(ds);
	fclose(file);
	return TEST_OK;
}

/* Samples of a thread that has ended, of this one, and two of one that goes on */
static const u64 waiting[] = {
	PERF_RECORD_SAMPLE | 48ULL << 48, 0x7fffffffULL << 32, 1, 2, PERF_CONTEXT_USER_DEFERRED, 7,
	PERF_RECORD_SAMPLE | 48ULL << 48, 0, 1, 2, PERF_CONTEXT_USER_DEFERRED, 9,
	PERF_RECORD_SAMPLE | 48ULL << 48, 0x100000001ULL, 2, 2, PERF_CONTEXT_USER_DEFERRED, 11,
	PERF_RECORD_SAMPLE | 48ULL << 48, 0x100000001ULL, 3, 2, PERF_CONTEXT_USER_DEFERRED, 13,
};

struct next_file {
	FILE			*file;
	u64			cookies;
};

static int write_next(void *priv, u32 tid __maybe_unused, union perf_event *event, u64 *offset)
{
	struct next_file *next = priv;

	*offset = ftell(next->file);
	next->cookies += ((u64 *)event)[5];
	return fwrite(event, event->header.size, 1, next->file) == 1 ? 0 : -EIO;
}

/* A sample that waits in vain moves only once. */
static int switch_output_lost(struct evlist *evlist)
{
	struct deferred_switch *ds = deferred_switch__new(evlist);
	struct next_file next = { .file = tmpfile() };
	/* For each switch: the sum of the cookies of those that move */
	const u64 expected[] = { 7 + 9 + 11 + 13, 9 + 13, 9 + 13 };
	u64 data[ARRAY_SIZE(waiting)];
	size_t i;

	TEST_ASSERT_VAL("switch", ds && next.file);
	memcpy(data, waiting, sizeof(data));
	data[7] = getpid() * 0x100000001ULL;
	TEST_ASSERT_VAL("write", fwrite(data, sizeof(data), 1, next.file) == 1);
	deferred_switch__written(ds, next.file, data, sizeof(data), 0);
	for (i = 0; i < ARRAY_SIZE(expected); i++) {
		TEST_ASSERT_VAL("flush", !fflush(next.file));
		TEST_ASSERT_VAL("blank", !deferred_switch__blank(ds, fileno(next.file)));
		fclose(next.file);
		next.file = tmpfile();
		next.cookies = 0;
		TEST_ASSERT_VAL("next file", next.file &&
				!deferred_switch__write(ds, write_next, &next));
		TEST_ASSERT_EQUAL("moved", (int)next.cookies, (int)expected[i]);
	}
	deferred_switch__delete(ds);
	fclose(next.file);
	return TEST_OK;
}

static int test__deferred_switch(struct test_suite *test __maybe_unused,
				 int subtest __maybe_unused)
{
	struct evlist *evlist = evlist__new();
	int ret = TEST_OK;
	struct evsel *evsel;
	size_t split;

	TEST_ASSERT_VAL("evlist", evlist);
	evsel = add_event(evlist, "d");
	TEST_ASSERT_VAL("evsel", evsel);
	evsel->core.attr.sample_id_all = 1;
	evsel__set_sample_bit(evsel, TID);
	evsel__set_sample_bit(evsel, CALLCHAIN);
	for (split = 0; ret == TEST_OK && split <= sizeof(switched); split++)
		ret = switch_output_at(evlist, split);
	if (ret == TEST_OK) {
		evsel__set_sample_bit(evsel, TIME);
		ret = switch_output_lost(evlist);
	}
	evlist__delete(evlist);
	return ret;
}

static struct test_case deferred_callchain_tests[] = {
	TEST_CASE("Order, limits and figures", deferred_merge),
	TEST_CASE("Error from the delivery", deferred_error),
	TEST_CASE("Random events with small limits", deferred_stress),
	TEST_CASE("Merged callchains", deferred_chain),
	TEST_CASE("Where user stacks end", deferred_summary),
	TEST_CASE("Summary of user stacks in a file", deferred_section),
	TEST_CASE("Events that receive the records", deferred_output),
	TEST_CASE("Samples taken along to the next file", deferred_switch),
	{ .name = NULL, }
};

struct test_suite suite__deferred_callchain = {
	.desc		= "Deferred user callchains",
	.test_cases	= deferred_callchain_tests,
};
