// SPDX-License-Identifier: GPL-2.0
/*
 * Bring samples and their deferred user callchains together.
 *
 * A sample with a deferred callchain has only a cookie for its user part. The
 * callchain itself follows in a PERF_RECORD_CALLCHAIN_DEFERRED with the thread
 * and the cookie, for all samples of that entry to the kernel. The record can be
 * in the buffer of another CPU, it can follow hours later if the thread blocks,
 * it can precede some of its samples, and it can be lost.
 *
 * All events of a stream go through deferred_callchains__process(). From the
 * first sample that lacks its record on they are held back, so that they leave
 * in the order in which they came; everything else passes at once. Tools that resolve
 * addresses or compute times then see mmaps, forks and context switches exactly as if the
 * callchain had been in the sample. See struct deferred_limits for what happens when that
 * takes too long.
 *
 * A context, that is, one entry of one thread to the kernel, is found by hash.
 * It lives as long as an event waits for it; if it has a record, it is kept after
 * that until it is the least recently used one and there is no more room.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>

#include "callchain.h"
#include "deferred-callchain.h"
#include "event.h"
#include "evlist.h"
#include "hashmap.h"
#include "sample.h"

/*
 * A file can be read on to its end, and its events stay in memory anyway. A held-back
 * event costs some 100 bytes, as much as sorting it did.
 */
const struct deferred_limits deferred_limits__file = {
	.queued	= 256 << 20,
	.parked	= 64 << 20,
	.cached	= 64 << 20,
	.grace	= NSEC_PER_SEC,
};

/*
 * For tools that compute with the times of events. They show their results at the end, so
 * that a pipe may be read on as well.
 */
const struct deferred_limits deferred_limits__in_order = {
	.queued	= 256 << 20,
	.cached	= 64 << 20,
	.grace	= NSEC_PER_SEC,
};

/* Someone wants to see the output of a pipe while it runs. */
const struct deferred_limits deferred_limits__live = {
	.queued	= 64 << 20,
	.parked	= 64 << 20,
	.cached	= 32 << 20,
	.delay	= NSEC_PER_SEC,
	.grace	= 100 * NSEC_PER_MSEC,
};

/* A display that is updated all the time: late samples are of no use. */
const struct deferred_limits deferred_limits__top = {
	.queued	= 32 << 20,
	.cached	= 16 << 20,
	.delay	= NSEC_PER_SEC,
	.grace	= 100 * NSEC_PER_MSEC,
};

struct deferred_thread {
	u32				machine_pid;
	u32				tid;
	/* The latest one; earlier ones can't get a record any more */
	struct deferred_context		*current;
	unsigned int			nr_contexts;
	bool				exited;
};

struct deferred_context {
	struct deferred_thread		*thread;
	u64				cookie;
	/* Time of its first event */
	u64				time;
	/* When to stop waiting for the record, in event time and by the timer, or 0 */
	u64				deadline;
	u64				timer_deadline;
	/* In deferred_callchains.expiring, if there is a deadline and no record */
	struct list_head		expiring;
	/* Events in the queue or parked that belong to this context */
	unsigned int			nr_held;
	struct list_head		parked;
	/* In deferred_callchains.lru, if there is a record and nobody waits */
	struct list_head		lru;
	size_t				size;
	/* Bytes of @user that count as held back, if there is a record and someone waits */
	size_t				charged;
	struct ip_callchain		*user;
	/* How far @user reaches */
	enum user_callchain		state;
};

struct held_event {
	/* In deferred_callchains.queue or .parked */
	struct list_head		list;
	/* In deferred_context.parked */
	struct list_head		parked;
	/* NULL if it is only waiting for its turn */
	struct deferred_context		*context;
	union perf_event		*event;
	u64				time;
	/* By the timer */
	u64				arrived;
	u64				file_offset;
	const char			*file_path;
	size_t				size;
};

struct deferred_callchains {
	struct deferred_limits		limits;
	struct deferred_source		source;
	struct deferred_stats		*stats;
	deferred_deliver_t		deliver;
	void				*priv;
	struct hashmap			threads;
	struct hashmap			contexts;
	u64				factor;		/* of their hashes, odd */
	struct list_head		queue;
	struct list_head		parked;
	struct list_head		lru;
	/* Contexts with a deadline, which is later for later ones */
	struct list_head		expiring;
	size_t				queued_size;
	size_t				parked_size;
	size_t				cached_size;
	/* The latest time of an event */
	u64				now;
	/* The latest time of deferred_callchains__tick(), 0 if nobody calls it */
	u64				timer;
	/* No more events to come */
	bool				final;
};

/* The maker of the file does not know the factor, and cannot fill one bucket. */
static size_t hash(const struct deferred_callchains *dc, u64 key)
{
	return key * dc->factor >> 32;
}

static size_t thread_hash(long key, void *ctx)
{
	const struct deferred_thread *thread = (void *)key;

	return hash(ctx, ((u64)thread->machine_pid << 32) | thread->tid);
}

static bool thread_equal(long key1, long key2, void *ctx __maybe_unused)
{
	const struct deferred_thread *a = (void *)key1, *b = (void *)key2;

	return a->machine_pid == b->machine_pid && a->tid == b->tid;
}

static size_t context_hash(long key, void *ctx)
{
	const struct deferred_context *context = (void *)key;

	return hash(ctx, context->cookie) ^ thread_hash((long)context->thread, ctx);
}

static bool context_equal(long key1, long key2, void *ctx __maybe_unused)
{
	const struct deferred_context *a = (void *)key1, *b = (void *)key2;

	return a->cookie == b->cookie && a->thread == b->thread;
}

struct deferred_callchains *deferred_callchains__new(const struct deferred_limits *limits,
						     const struct deferred_source *source,
						     struct deferred_stats *stats,
						     deferred_deliver_t deliver, void *priv)
{
	struct deferred_callchains *dc = zalloc(sizeof(*dc));

	if (!dc)
		return NULL;

	dc->limits = *limits;
	dc->source = *source;
	dc->stats = stats;
	dc->deliver = deliver;
	dc->priv = priv;
	if (getrandom(&dc->factor, sizeof(dc->factor), 0) != sizeof(dc->factor))
		dc->factor = (unsigned long)dc;
	dc->factor |= 1;
	hashmap__init(&dc->threads, thread_hash, thread_equal, dc);
	hashmap__init(&dc->contexts, context_hash, context_equal, dc);
	INIT_LIST_HEAD(&dc->queue);
	INIT_LIST_HEAD(&dc->parked);
	INIT_LIST_HEAD(&dc->lru);
	INIT_LIST_HEAD(&dc->expiring);
	return dc;
}

static struct deferred_thread *find_thread(struct deferred_callchains *dc,
					   const struct perf_sample *sample)
{
	struct deferred_thread key = {
		.machine_pid	= sample->machine_pid,
		.tid		= dc->source.ignore_tid ? 0 : sample->tid,
	};
	struct deferred_thread *thread;

	if (hashmap__find(&dc->threads, &key, &thread))
		return thread;
	return NULL;
}

static struct deferred_thread *findnew_thread(struct deferred_callchains *dc,
					      const struct perf_sample *sample)
{
	struct deferred_thread *thread = find_thread(dc, sample);

	if (thread)
		return thread;

	thread = zalloc(sizeof(*thread));
	if (!thread)
		return NULL;

	thread->machine_pid = sample->machine_pid;
	thread->tid = dc->source.ignore_tid ? 0 : sample->tid;
	if (hashmap__add(&dc->threads, thread, thread)) {
		free(thread);
		return NULL;
	}
	return thread;
}

static void put_thread(struct deferred_callchains *dc, struct deferred_thread *thread)
{
	if (thread->nr_contexts)
		return;

	hashmap__delete(&dc->threads, thread, NULL, NULL);
	free(thread);
}

/*
 * Stop waiting soon: the record should have been there before now. Among events in
 * any order its time means nothing, but all buffers will have been read once more
 * before the timer gets there.
 */
static void set_deadline(struct deferred_callchains *dc, struct deferred_context *context)
{
	if (!context || context->user || context->deadline || context->timer_deadline)
		return;

	if (!dc->source.unordered)
		context->deadline = dc->now + dc->limits.grace;
	if (dc->timer)
		context->timer_deadline = dc->timer + dc->limits.grace;
	if (context->deadline || context->timer_deadline)
		list_add_tail(&context->expiring, &dc->expiring);
}

static bool is_expired(const struct deferred_callchains *dc,
		       const struct deferred_context *context)
{
	return (context->deadline && dc->now >= context->deadline) ||
	       (context->timer_deadline && dc->timer >= context->timer_deadline);
}

static struct deferred_context *findnew_context(struct deferred_callchains *dc,
						const struct perf_sample *sample)
{
	struct deferred_context key = { .cookie = sample->deferred_cookie, };
	struct deferred_context *context;
	struct deferred_thread *thread = findnew_thread(dc, sample);

	if (!thread)
		return NULL;

	key.thread = thread;
	if (hashmap__find(&dc->contexts, &key, &context))
		return context;

	context = zalloc(sizeof(*context));
	if (!context)
		goto out_put;

	context->thread = thread;
	context->cookie = sample->deferred_cookie;
	context->time = sample->time;
	INIT_LIST_HEAD(&context->lru);
	INIT_LIST_HEAD(&context->parked);
	INIT_LIST_HEAD(&context->expiring);
	if (hashmap__add(&dc->contexts, context, context)) {
		free(context);
		goto out_put;
	}
	thread->nr_contexts++;
	thread->exited = false;

	if (dc->source.ignore_tid)
		return context;

	/* Among events in any order, a later one may have happened before. */
	if (thread->current && thread->current->time > context->time) {
		set_deadline(dc, context);
	} else {
		set_deadline(dc, thread->current);
		thread->current = context;
	}
	return context;

out_put:
	put_thread(dc, thread);
	return NULL;
}

static void uncache_context(struct deferred_callchains *dc, struct deferred_context *context)
{
	if (list_empty(&context->lru))
		return;

	list_del_init(&context->lru);
	dc->cached_size -= context->size;
}

static void delete_context(struct deferred_callchains *dc, struct deferred_context *context)
{
	struct deferred_thread *thread = context->thread;

	uncache_context(dc, context);
	list_del(&context->expiring);
	hashmap__delete(&dc->contexts, context, NULL, NULL);
	if (thread->current == context)
		thread->current = NULL;
	thread->nr_contexts--;
	put_thread(dc, thread);
	free(context->user);
	free(context);
}

/* Nobody waits for @context: keep it for later samples if it has a record. */
static void cache_context(struct deferred_callchains *dc, struct deferred_context *context)
{
	if (context->nr_held)
		return;

	if (!context->user) {
		delete_context(dc, context);
		return;
	}

	if (list_empty(&context->lru)) {
		context->size = sizeof(*context) + (context->user->nr + 1) * sizeof(u64);
		dc->cached_size += context->size;
	}
	list_move_tail(&context->lru, &dc->lru);

	while (dc->cached_size > dc->limits.cached) {
		context = list_first_entry(&dc->lru, struct deferred_context, lru);
		delete_context(dc, context);
	}
}

/* A record that is held back together with events takes memory as they do. */
static void charge_context(struct deferred_callchains *dc, struct deferred_context *context)
{
	size_t size = 0;

	if (context->nr_held && context->user)
		size = (context->user->nr + 1) * sizeof(u64);

	dc->queued_size += size - context->charged;
	context->charged = size;
}

static void hold_context(struct deferred_callchains *dc, struct deferred_context *context)
{
	context->nr_held++;
	uncache_context(dc, context);
	charge_context(dc, context);
}

static void unhold_context(struct deferred_callchains *dc, struct deferred_context *context)
{
	context->nr_held--;
	charge_context(dc, context);
}

static void count_sample(struct deferred_callchains *dc, struct deferred_context *context)
{
	struct deferred_stats *stats = dc->stats;
	struct deferred_thread *thread = context->thread;

	if (context->user) {
		stats->nr_merged++;
		if (!context->user->nr)
			stats->nr_empty++;
		stats->nr_complete += context->state == USER_CALLCHAIN__COMPLETE;
		stats->nr_unchecked += context->state == USER_CALLCHAIN__UNCHECKED;
	} else if (!dc->source.ignore_tid && (thread->current != context || thread->exited)) {
		stats->nr_lost++;
	} else if (dc->final) {
		stats->nr_blocked++;
	} else {
		stats->nr_late++;
	}
}

static enum user_callchain context_state(const struct deferred_callchains *dc,
					 const struct deferred_context *context)
{
	if (!context->user || !deferred_callchain__nr_valid(context->user))
		return USER_CALLCHAIN__MISSING;
	if (context->state == USER_CALLCHAIN__CUT && !dc->source.tells)
		return USER_CALLCHAIN__UNKNOWN;

	return context->state;
}

/* A held-back event is parsed again, since @sample did not outlast it. */
static int deliver_event(struct deferred_callchains *dc, union perf_event *event,
			 struct perf_sample *sample, struct deferred_context *context,
			 u64 file_offset, const char *file_path)
{
	struct evlist *evlist = dc->source.evlist;
	const struct ip_callchain *user = NULL;
	enum user_callchain state = USER_CALLCHAIN__UNKNOWN;
	struct perf_sample parsed;
	int err = 0;

	if (context) {
		count_sample(dc, context);
		user = context->user;
		state = context_state(dc, context);
	} else if (dc->source.tells && event->header.type == PERF_RECORD_SAMPLE) {
		/* Only counts for an unmarked user callchain that is in place */
		state = USER_CALLCHAIN__CUT;
	}

	if (evlist && !sample) {
		sample = &parsed;
		err = evlist__parse_sample(evlist, event, sample);
	}
	if (evlist && !err && event->header.type == PERF_RECORD_SAMPLE)
		err = sample__merge_deferred_callchain(sample, user, state);
	if (err)
		return err;

	err = dc->deliver(dc->priv, event, sample, user, state, file_offset, file_path);
	if (evlist)
		sample__free_merged_callchain(sample);
	return err;
}

static void free_held(struct deferred_callchains *dc, struct held_event *held)
{
	struct deferred_context *context = held->context;

	if (context) {
		unhold_context(dc, context);
		cache_context(dc, context);
	}
	if (dc->source.copy)
		free(held->event);
	free(held);
}

static int deliver_held(struct deferred_callchains *dc, struct held_event *held)
{
	int err;

	list_del(&held->list);
	if (!list_empty(&held->parked)) {
		list_del(&held->parked);
		dc->parked_size -= held->size;
	} else {
		dc->queued_size -= held->size;
	}

	err = deliver_event(dc, held->event, NULL, held->context, held->file_offset,
			    held->file_path);
	free_held(dc, held);
	return err;
}

static int hold_event(struct deferred_callchains *dc, union perf_event *event,
		      struct perf_sample *sample, struct deferred_context *context,
		      u64 file_offset, const char *file_path)
{
	struct held_event *held = zalloc(sizeof(*held));

	if (!held)
		return -ENOMEM;

	held->size = sizeof(*held) + (context ? sizeof(*context) : 0);
	held->event = event;
	if (dc->source.copy) {
		held->event = memdup(event, event->header.size);
		if (!held->event) {
			free(held);
			return -ENOMEM;
		}
		held->size += event->header.size;
	}
	held->context = context;
	held->time = sample->time;
	held->arrived = dc->timer;
	held->file_offset = file_offset;
	held->file_path = file_path;
	INIT_LIST_HEAD(&held->parked);
	list_add_tail(&held->list, &dc->queue);
	dc->queued_size += held->size;
	if (context)
		hold_context(dc, context);
	return 0;
}

/* Let the stream go on without this sample, which stays for its record. */
static int park_event(struct deferred_callchains *dc, struct held_event *held)
{
	int err = 0;

	list_move_tail(&held->list, &dc->parked);
	list_add_tail(&held->parked, &held->context->parked);
	dc->queued_size -= held->size;
	dc->parked_size += held->size;

	while (!err && dc->parked_size > dc->limits.parked) {
		held = list_first_entry(&dc->parked, struct held_event, list);
		err = deliver_held(dc, held);
	}
	return err;
}

static bool must_wait(struct deferred_callchains *dc, const struct held_event *held)
{
	const struct deferred_context *context = held->context;

	if (!context || context->user || dc->final)
		return false;

	return !is_expired(dc, context);
}

static bool too_long(struct deferred_callchains *dc, const struct held_event *held)
{
	if (dc->queued_size > dc->limits.queued)
		return true;

	if (!dc->limits.delay)
		return false;

	return (held->time != -1ULL && held->time + dc->limits.delay < dc->now) ||
	       held->arrived + dc->limits.delay < dc->timer;
}

static int deliver_parked(struct deferred_callchains *dc, struct deferred_context *context)
{
	int err = 0;

	/* The last one may free the context */
	hold_context(dc, context);
	while (!err && !list_empty(&context->parked)) {
		struct held_event *held = list_first_entry(&context->parked, struct held_event,
							   parked);

		err = deliver_held(dc, held);
	}
	unhold_context(dc, context);
	return err;
}

/* Deliver parked samples whose record must be lost: they wait no longer. */
static int expire_parked(struct deferred_callchains *dc)
{
	int err = 0;

	while (!err && !list_empty(&dc->expiring)) {
		struct deferred_context *context = list_first_entry(&dc->expiring,
								    struct deferred_context,
								    expiring);

		if (!is_expired(dc, context))
			break;

		list_del_init(&context->expiring);
		if (list_empty(&context->parked))
			continue;
		err = deliver_parked(dc, context);
		cache_context(dc, context);
	}
	return err;
}

static int drain_queue(struct deferred_callchains *dc)
{
	int err = expire_parked(dc);

	while (!err && !list_empty(&dc->queue)) {
		struct held_event *held = list_first_entry(&dc->queue, struct held_event, list);

		if (!must_wait(dc, held))
			err = deliver_held(dc, held);
		else if (too_long(dc, held))
			err = park_event(dc, held);
		else
			break;
	}
	return err;
}

/* How far a record reaches: all entries up to the outermost frame have to be valid. */
static enum user_callchain record_state(const struct perf_sample *sample)
{
	const struct ip_callchain *user = sample->callchain;

	if ((sample->misc & PERF_RECORD_MISC_CALLCHAIN_OUTERMOST) && user->nr &&
	    deferred_callchain__nr_valid(user) == user->nr)
		return user_callchain__whole(sample->misc);

	return user_callchain__cut(sample->misc);
}

static int process_record(struct deferred_callchains *dc, struct perf_sample *sample)
{
	struct ip_callchain *user = sample->callchain;
	struct deferred_context *context;
	int err;

	dc->stats->nr_records++;
	if (record_state(sample) != USER_CALLCHAIN__CUT)
		dc->source.tells = true;

	context = findnew_context(dc, sample);
	if (!context)
		return -ENOMEM;

	/*
	 * Several events may have got the record, each up to its own depth:
	 * take the longest.
	 */
	if (!context->user || context->user->nr < user->nr) {
		hold_context(dc, context);
		unhold_context(dc, context);
		user = memdup(user, (user->nr + 1) * sizeof(u64));
		if (!user) {
			cache_context(dc, context);
			return -ENOMEM;
		}
		free(context->user);
		context->user = user;
		list_del_init(&context->expiring);
		context->state = record_state(sample);
		charge_context(dc, context);
	}

	err = deliver_parked(dc, context);
	cache_context(dc, context);
	return err;
}

static void process_exit(struct deferred_callchains *dc, const union perf_event *event,
			 const struct perf_sample *sample)
{
	struct perf_sample key = {
		.machine_pid	= sample->machine_pid,
		.tid		= event->fork.tid,
	};
	struct deferred_thread *thread;

	if (dc->source.ignore_tid)
		return;

	thread = find_thread(dc, &key);
	if (thread) {
		thread->exited = true;
		set_deadline(dc, thread->current);
	}
}

static int __process(struct deferred_callchains *dc, union perf_event *event,
		     struct perf_sample *sample, struct deferred_context *context,
		     u64 file_offset, const char *file_path)
{
	int err;

	if (!list_empty(&dc->queue) || (context && !context->user))
		return hold_event(dc, event, sample, context, file_offset, file_path);

	/* Delivery must not free the callchain that it uses */
	if (context)
		hold_context(dc, context);
	err = deliver_event(dc, event, sample, context, file_offset, file_path);
	if (context) {
		unhold_context(dc, context);
		cache_context(dc, context);
	}
	return err;
}

/**
 * deferred_callchains__process - pass one event of the stream
 * @dc: the stream
 * @event: the event
 * @sample: the same, parsed
 * @file_offset: where it is in its file
 * @file_path: its file
 *
 * Delivers the event, and others before it, or keeps it for later.
 *
 * Return: 0, -ENOMEM, or what the delivery returned.
 */
int deferred_callchains__process(struct deferred_callchains *dc, union perf_event *event,
				 struct perf_sample *sample, u64 file_offset,
				 const char *file_path)
{
	struct deferred_context *context = NULL;
	int err = 0;

	if (sample->time != -1ULL && sample->time > dc->now)
		dc->now = sample->time;

	switch (event->header.type) {
	case PERF_RECORD_CALLCHAIN_DEFERRED:
		err = process_record(dc, sample);
		if (!err)
			err = drain_queue(dc);
		break;
	case PERF_RECORD_EXIT:
		process_exit(dc, event, sample);
		break;
	case PERF_RECORD_SAMPLE:
		if (!sample->deferred_callchain)
			break;
		dc->stats->nr_samples++;
		context = findnew_context(dc, sample);
		if (!context)
			err = -ENOMEM;
		break;
	default:
		break;
	}

	if (!err)
		err = __process(dc, event, sample, context, file_offset, file_path);

	return err ?: drain_queue(dc);
}

/**
 * deferred_callchains__tick - time goes on, with or without events
 * @dc: the stream
 * @now: time in ns, of a clock that need not be that of the events
 *
 * For tools that show events as they come. All buffers must have been read since the last
 * call.
 *
 * Return: as deferred_callchains__process().
 */
int deferred_callchains__tick(struct deferred_callchains *dc, u64 now)
{
	dc->timer = now;
	return drain_queue(dc);
}

/* Whether there are events that deferred_callchains__tick() may have to deliver. */
bool deferred_callchains__waits(const struct deferred_callchains *dc)
{
	return !list_empty(&dc->queue) || !list_empty(&dc->parked);
}

/**
 * deferred_callchains__visit_parked - look at samples that wait outside of the stream
 * @dc: the stream
 * @fn: gets each sample. It must not add samples or records
 * @priv: for @fn
 *
 * Return: 0, or what @fn returned if that was something else.
 */
int deferred_callchains__visit_parked(struct deferred_callchains *dc, deferred_parked_t fn,
				      void *priv)
{
	struct held_event *held;
	int err = 0;

	list_for_each_entry(held, &dc->parked, list) {
		err = fn(priv, held->context->thread->tid, held->event, &held->file_offset);
		if (err)
			break;
	}
	return err;
}

/**
 * deferred_callchains__flush - the end of the stream
 * @dc: the stream
 *
 * Delivers the remaining events, in order, without waiting for records any more.
 *
 * Return: 0, or what the delivery returned.
 */
int deferred_callchains__flush(struct deferred_callchains *dc)
{
	int err = 0;

	dc->final = true;
	while (!err && !list_empty(&dc->parked))
		err = deliver_held(dc, list_first_entry(&dc->parked, struct held_event, list));
	if (!err)
		err = drain_queue(dc);
	dc->final = false;
	return err;
}

void deferred_callchains__delete(struct deferred_callchains *dc)
{
	struct held_event *held, *tmp;

	if (!dc)
		return;

	/* Contexts that nobody waits for need no place in the cache now */
	dc->limits.cached = 0;

	list_splice_init(&dc->parked, &dc->queue);
	list_for_each_entry_safe(held, tmp, &dc->queue, list)
		free_held(dc, held);
	while (!list_empty(&dc->lru))
		delete_context(dc, list_first_entry(&dc->lru, struct deferred_context, lru));

	hashmap__clear(&dc->contexts);
	hashmap__clear(&dc->threads);
	free(dc);
}

/* Samples that had to be delivered without user callchain */
u64 deferred_stats__missing(const struct deferred_stats *stats)
{
	return stats->nr_lost + stats->nr_blocked + stats->nr_late;
}

struct part {
	u64		nr;
	const char	*text;
};

/* In parentheses, the non-zero parts of a figure */
static size_t fprintf_parts(FILE *fp, const struct part *parts, size_t nr)
{
	const char *before = " (";
	size_t printed = 0;

	for (size_t i = 0; i < nr; i++) {
		if (!parts[i].nr)
			continue;
		printed += fprintf(fp, "%s%llu %s", before, (unsigned long long)parts[i].nr,
				   parts[i].text);
		before = ", ";
	}
	return *before == ',' ? printed + fprintf(fp, ")") : 0;
}

/**
 * deferred_stats__fprintf - one line for the user
 * @stats: the figures
 * @all_cpus: whether all CPUs were recorded
 * @prefix: what to begin the line with
 * @suffix: what to end the line with
 * @fp: where to
 *
 * Return: the number of bytes written, none without deferred callchains.
 */
size_t deferred_stats__fprintf(const struct deferred_stats *stats, bool all_cpus,
			       const char *prefix, const char *suffix, FILE *fp)
{
	/* Not all kernels say which ones are complete. */
	const struct part merged[] = {
		{ stats->nr_complete, "complete" },
		{ stats->nr_unchecked, "by unchecked frame pointers" },
		{ stats->nr_empty, "empty" },
	};
	const struct part missing[] = {
		{ stats->nr_lost, all_cpus ? "lost" :
				  "lost or on a CPU that was not recorded" },
		{ stats->nr_blocked, "still in the kernel at the end" },
		{ stats->nr_late, "given up, since their record came too late" },
	};
	size_t printed;

	if (!stats->nr_samples && !stats->nr_records && !stats->nr_invalid)
		return 0;

	printed = fprintf(fp, "%s%llu samples, %llu records, %llu merged", prefix,
			  (unsigned long long)stats->nr_samples,
			  (unsigned long long)stats->nr_records,
			  (unsigned long long)stats->nr_merged);
	printed += fprintf_parts(fp, merged, ARRAY_SIZE(merged));
	printed += fprintf(fp, ", %llu without record",
			   (unsigned long long)deferred_stats__missing(stats));
	printed += fprintf_parts(fp, missing, ARRAY_SIZE(missing));
	if (stats->nr_invalid)
		printed += fprintf(fp, ", %llu invalid records ignored",
				   (unsigned long long)stats->nr_invalid);
	return printed + fprintf(fp, "%s\n", suffix);
}

/*
 * How many entries of a record can be used: a value in the range of the context
 * markers would be taken for one, and ends the callchain.
 */
u64 deferred_callchain__nr_valid(const struct ip_callchain *user)
{
	u64 i;

	for (i = 0; i < user->nr; i++) {
		if (user->ips[i] >= PERF_CONTEXT_MAX)
			break;
	}
	return i;
}

/**
 * sample__merge_deferred_callchain - replace the cookie by the user callchain
 * @sample: a sample, with a deferred callchain or another one
 * @user: the user callchain, or NULL if there is none
 * @state: how far @user reaches
 *
 * Nothing has to be merged into a sample that has its user callchain already. Without
 * the mark of a complete one, it reaches as far as @state says.
 *
 * Without entries in @user, a sample that hit user space still gets the one
 * frame that is known, its own address. The new callchain belongs to @sample
 * until sample__free_merged_callchain().
 *
 * Return: 0 or -ENOMEM.
 */
int sample__merge_deferred_callchain(struct perf_sample *sample,
				     const struct ip_callchain *user,
				     enum user_callchain state)
{
	u64 nr_user = user ? deferred_callchain__nr_valid(user) : 0;
	const u64 *ips = user ? user->ips : NULL;
	struct ip_callchain *chain;
	u64 nr_kernel;

	if (!sample->deferred_callchain) {
		if (sample->in_place_callchain &&
		    sample->user_callchain == USER_CALLCHAIN__UNKNOWN)
			sample->user_callchain = state;
		return 0;
	}

	/* The last two are PERF_CONTEXT_USER_DEFERRED and the cookie */
	nr_kernel = sample->callchain->nr - 2;
	if (!nr_user && sample->cpumode == PERF_RECORD_MISC_USER && sample->ip) {
		nr_user = 1;
		ips = &sample->ip;
	}

	chain = malloc(sizeof(*chain) + (nr_kernel + nr_user + 1) * sizeof(u64));
	if (!chain)
		return -ENOMEM;

	memcpy(chain->ips, sample->callchain->ips, nr_kernel * sizeof(u64));
	chain->nr = nr_kernel;
	if (nr_user) {
		chain->ips[chain->nr++] = PERF_CONTEXT_USER;
		memcpy(chain->ips + chain->nr, ips, nr_user * sizeof(u64));
		chain->nr += nr_user;
	}

	sample->callchain = chain;
	sample->merged_callchain = true;
	sample->deferred_callchain = false;
	sample->user_callchain = state;
	return 0;
}

void sample__free_merged_callchain(struct perf_sample *sample)
{
	if (!sample->merged_callchain)
		return;

	zfree(&sample->callchain);
	sample->merged_callchain = false;
}
