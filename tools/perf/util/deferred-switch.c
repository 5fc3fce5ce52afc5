// SPDX-License-Identifier: GPL-2.0
/*
 * Take samples that wait for their user callchain along to the next output file.
 *
 * The record of a task that blocks comes when it goes on, and with --switch-output
 * that can be some files later, where nothing is known of its samples. So what is
 * written is looked through for samples without record. When the output is
 * switched they move to the beginning of the new file: in the old one they turn
 * into events of a type that all versions of perf pass over. If a record turns out to
 * be lost, its samples stay where they are.
 *
 * Cookies are unique in the whole system, so they tell contexts on their own.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "deferred-switch.h"
#include "event.h"
#include "evlist.h"
#include "hashmap.h"
#include "sample.h"

/* More than that stays where it is, with its user part in another file */
#define MAX_WAITING	(64 << 20)
/* Records that came before the samples of other buffers */
#define MAX_ANSWERED	65536

struct waiting_sample {
	struct list_head	list;
	u64			offset;
	size_t			size;
	u8			event[];
};

struct context {
	u64			cookie;
	/* Of what was seen of it first */
	u32			tid;
	u64			time;
	bool			answered;
	/* Its samples move no more */
	bool			lost;
	/* In deferred_switch.answered */
	struct list_head	list;
	struct list_head	samples;
};

/* The event at the end of what has been written of a ring buffer, if it is not whole */
struct partial {
	struct list_head	list;
	const void		*buffer;
	u64			offset;
	size_t			len;
	u8			event[PERF_SAMPLE_MAX_SIZE] __aligned(8);
};

struct deferred_switch {
	struct evlist		*evlist;
	struct hashmap		contexts;
	struct list_head	answered;
	unsigned int		nr_answered;
	size_t			waiting;
	struct list_head	partials;
};

static size_t cookie_hash(long key, void *ctx __maybe_unused)
{
	return hash_64(*(u64 *)key, 32);
}

static bool cookie_equal(long key1, long key2, void *ctx __maybe_unused)
{
	return *(u64 *)key1 == *(u64 *)key2;
}

/**
 * deferred_switch__new - look for samples without record
 * @evlist: the events that are recorded
 *
 * Return: NULL if there is not enough memory.
 */
struct deferred_switch *deferred_switch__new(struct evlist *evlist)
{
	struct deferred_switch *ds = zalloc(sizeof(*ds));

	if (!ds)
		return NULL;

	ds->evlist = evlist;
	hashmap__init(&ds->contexts, cookie_hash, cookie_equal, NULL);
	INIT_LIST_HEAD(&ds->answered);
	INIT_LIST_HEAD(&ds->partials);
	return ds;
}

static void free_samples(struct deferred_switch *ds, struct context *context)
{
	struct waiting_sample *pos, *tmp;

	list_for_each_entry_safe(pos, tmp, &context->samples, list) {
		ds->waiting -= pos->size;
		list_del(&pos->list);
		free(pos);
	}
}

static void delete_context(struct deferred_switch *ds, struct context *context)
{
	free_samples(ds, context);
	if (context->answered) {
		list_del(&context->list);
		ds->nr_answered--;
	}
	hashmap__delete(&ds->contexts, &context->cookie, NULL, NULL);
	free(context);
}

void deferred_switch__delete(struct deferred_switch *ds)
{
	struct partial *partial, *next;
	struct hashmap_entry *cur, *tmp;
	size_t bkt;

	if (!ds)
		return;

	hashmap__for_each_entry_safe((&ds->contexts), cur, tmp, bkt)
		delete_context(ds, cur->pvalue);
	hashmap__clear(&ds->contexts);
	list_for_each_entry_safe(partial, next, &ds->partials, list)
		free(partial);
	free(ds);
}

static struct context *findnew_context(struct deferred_switch *ds, u64 cookie,
				       const struct perf_sample *sample)
{
	struct context *context;

	if (hashmap__find(&ds->contexts, &cookie, &context))
		return context;

	context = zalloc(sizeof(*context));
	if (!context)
		return NULL;

	context->cookie = cookie;
	context->tid = sample->tid;
	context->time = sample->time;
	INIT_LIST_HEAD(&context->samples);
	if (hashmap__add(&ds->contexts, &context->cookie, context)) {
		free(context);
		return NULL;
	}
	return context;
}

static void add_record(struct deferred_switch *ds, u64 cookie, const struct perf_sample *sample)
{
	struct context *context = findnew_context(ds, cookie, sample);

	if (!context || context->answered)
		return;

	free_samples(ds, context);
	context->answered = true;
	list_add_tail(&context->list, &ds->answered);
	if (++ds->nr_answered > MAX_ANSWERED)
		delete_context(ds, list_first_entry(&ds->answered, struct context, list));
}

static void add_sample(struct deferred_switch *ds, const struct perf_sample *parsed,
		       const union perf_event *event, u64 offset)
{
	size_t size = event->header.size;
	struct waiting_sample *sample;
	struct context *context;

	if (ds->waiting + size > MAX_WAITING)
		return;

	context = findnew_context(ds, parsed->deferred_cookie, parsed);
	if (!context || context->answered)
		return;

	sample = malloc(sizeof(*sample) + size);
	if (!sample)
		return;

	sample->offset = offset;
	sample->size = size;
	memcpy(sample->event, event, size);
	list_add_tail(&sample->list, &context->samples);
	ds->waiting += size;
}

static void look_at(struct deferred_switch *ds, union perf_event *event, u64 offset)
{
	struct perf_sample sample;

	if (event->header.type == PERF_RECORD_CALLCHAIN_DEFERRED) {
		if (event->header.size >= sizeof(event->callchain_deferred) &&
		    !evlist__parse_sample(ds->evlist, event, &sample))
			add_record(ds, event->callchain_deferred.cookie, &sample);
	} else if (event->header.type == PERF_RECORD_SAMPLE) {
		if (!evlist__parse_sample(ds->evlist, event, &sample) &&
		    sample.deferred_callchain)
			add_sample(ds, &sample, event, offset);
	}
}

static struct partial *findnew_partial(struct deferred_switch *ds, const void *buffer)
{
	struct partial *partial;

	list_for_each_entry(partial, &ds->partials, list) {
		if (partial->buffer == buffer)
			return partial;
	}

	partial = zalloc(sizeof(*partial));
	if (partial) {
		partial->buffer = buffer;
		list_add(&partial->list, &ds->partials);
	}
	return partial;
}

/* Of an event that begins in @partial: how much of it is missing there. */
static size_t missing_part(const struct partial *partial)
{
	const struct perf_event_header *header = (const void *)partial->event;

	if (partial->len < sizeof(*header))
		return sizeof(*header) - partial->len;
	if (header->size <= partial->len)
		return 0;
	return header->size - partial->len;
}

/**
 * deferred_switch__written - look through what has been read of a ring buffer
 * @ds: what waits
 * @buffer: the ring buffer, which may end amid an event and go on with the next call
 * @buf: the data
 * @size: its size
 * @offset: where it is in the file
 */
void deferred_switch__written(struct deferred_switch *ds, const void *buffer, const void *buf,
			      size_t size, u64 offset)
{
	struct partial *partial = findnew_partial(ds, buffer);
	size_t len;

	if (!partial)
		return;

	while (size) {
		if (!partial->len)
			partial->offset = offset;
		/* First the header, then the rest of the event */
		len = min(missing_part(partial), size);
		memcpy(partial->event + partial->len, buf, len);
		partial->len += len;
		buf += len;
		size -= len;
		offset += len;
		if (!missing_part(partial)) {
			look_at(ds, (union perf_event *)partial->event, partial->offset);
			partial->len = 0;
		}
	}
}

/**
 * deferred_switch__blank - take what waits out of the file
 * @ds: what waits
 * @fd: the file
 *
 * Return: 0 or a negative error.
 */
int deferred_switch__blank(struct deferred_switch *ds, int fd)
{
	/* Nothing has this type any more, and each perf passes over it */
	const u32 type = PERF_RECORD_HEADER_EVENT_TYPE;
	struct waiting_sample *sample;
	struct hashmap_entry *cur;
	struct context *context;
	size_t bkt;

	hashmap__for_each_entry((&ds->contexts), cur, bkt) {
		context = cur->pvalue;
		if (context->lost)
			free_samples(ds, context);
		list_for_each_entry(sample, &context->samples, list) {
			if (pwrite(fd, &type, sizeof(type), sample->offset) != sizeof(type))
				return -EIO;
		}
	}
	return 0;
}

static size_t tid_hash(long key, void *ctx __maybe_unused)
{
	return hash_64(key, 32);
}

static bool tid_equal(long key1, long key2, void *ctx __maybe_unused)
{
	return key1 == key2;
}

/*
 * A thread has one context after the other, and none when it has ended. What waits
 * nevertheless has lost its record, unless that is still in a ring buffer: when the
 * output is switched the next time, it has been read.
 */
static void find_lost(struct deferred_switch *ds)
{
	struct context *context, *other;
	struct hashmap_entry *cur;
	struct hashmap newest;
	size_t bkt;

	hashmap__init(&newest, tid_hash, tid_equal, NULL);
	hashmap__for_each_entry((&ds->contexts), cur, bkt) {
		context = cur->pvalue;
		if (!hashmap__find(&newest, context->tid, &other) || other->time < context->time)
			hashmap__set(&newest, context->tid, context, NULL, NULL);
	}
	hashmap__for_each_entry((&ds->contexts), cur, bkt) {
		context = cur->pvalue;
		/* 0 and -1: of another PID namespace, or unknown */
		if (context->answered || (s32)context->tid <= 0)
			continue;
		context->lost = (hashmap__find(&newest, context->tid, &other) &&
				 other->time > context->time) ||
				(kill(context->tid, 0) && errno == ESRCH);
	}
	hashmap__clear(&newest);
}

/**
 * deferred_switch__write - write what waits to the next file
 * @ds: what waits
 * @write: writes it, and calls deferred_switch__written()
 * @priv: for @write
 *
 * Return: 0, -ENOMEM or what @write returned.
 */
int deferred_switch__write(struct deferred_switch *ds, deferred_write_t write, void *priv)
{
	struct waiting_sample *sample, *tmp;
	struct hashmap_entry *cur, *next;
	LIST_HEAD(waiting);
	size_t bkt;
	int err = 0;

	hashmap__for_each_entry_safe((&ds->contexts), cur, next, bkt) {
		struct context *context = cur->pvalue;

		if (context->answered)
			continue;
		list_splice_init(&context->samples, &waiting);
		delete_context(ds, context);
	}

	list_for_each_entry_safe(sample, tmp, &waiting, list) {
		ds->waiting -= sample->size;
		if (!err)
			err = write(priv, sample->event, sample->size);
		list_del(&sample->list);
		free(sample);
	}
	find_lost(ds);
	return err;
}
