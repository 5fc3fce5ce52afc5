// SPDX-License-Identifier: GPL-2.0
/*
 * Take samples that wait for their user callchain along to the next output file.
 *
 * The record of a task that blocks comes when it goes on, and with --switch-output that
 * can be some files later, where nothing is known of its samples. So written data is
 * searched for samples without record. When the output is switched they move to the
 * beginning of the new file: in the old one they turn into events of a type that all
 * versions of perf pass over. If a record turns out to be lost, its samples stay where
 * they are.
 *
 * Waiting samples are found in the same way as when a file is read, see
 * deferred-callchain.c. Nothing is delivered anywhere; the offset of an event in its file
 * changes with each switch.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "deferred-switch.h"
#include "event.h"
#include "evlist.h"
#include "sample.h"

/*
 * The timer counts switches. A thread that went on, or ended, has written its record
 * by then, and when the output has been switched twice, all of it has been read.
 */
static const struct deferred_limits limits = {
	.parked	= 64 << 20,
	.cached	= 16 << 20,
	.grace	= 2,
};

/* The event at the end of the written data of a ring buffer, if it is not whole */
struct partial {
	struct list_head	list;
	const void		*buffer;
	u64			offset;
	size_t			len;
	u8			event[PERF_SAMPLE_MAX_SIZE] __aligned(8);
};

struct deferred_switch {
	struct evlist			*evlist;
	struct deferred_callchains	*waiting;
	struct deferred_stats		stats;
	u64				timer;
	struct list_head		partials;
};

static int deliver_nowhere(void *priv __maybe_unused, union perf_event *event __maybe_unused,
			   struct perf_sample *sample __maybe_unused,
			   const struct ip_callchain *user __maybe_unused,
			   enum user_callchain state __maybe_unused,
			   u64 file_offset __maybe_unused,
			   const char *file_path __maybe_unused)
{
	return 0;
}

/**
 * deferred_switch__new - look for samples without record
 * @evlist: the events that are recorded
 *
 * Return: NULL if there is not enough memory.
 */
struct deferred_switch *deferred_switch__new(struct evlist *evlist)
{
	const struct deferred_source source = { .copy = true, .unordered = true, };
	struct deferred_switch *ds = zalloc(sizeof(*ds));

	if (!ds)
		return NULL;

	ds->evlist = evlist;
	INIT_LIST_HEAD(&ds->partials);
	ds->waiting = deferred_callchains__new(&limits, &source, &ds->stats, deliver_nowhere,
					       NULL);
	if (!ds->waiting) {
		free(ds);
		return NULL;
	}
	deferred_callchains__tick(ds->waiting, ++ds->timer);
	return ds;
}

void deferred_switch__delete(struct deferred_switch *ds)
{
	struct partial *partial, *next;

	if (!ds)
		return;

	deferred_callchains__delete(ds->waiting);
	list_for_each_entry_safe(partial, next, &ds->partials, list)
		free(partial);
	free(ds);
}

/* Without memory, waiting samples stay where they are. */
static void look_at(struct deferred_switch *ds, union perf_event *event, u64 offset)
{
	struct perf_sample sample;

	switch (event->header.type) {
	case PERF_RECORD_SAMPLE:
	case PERF_RECORD_CALLCHAIN_DEFERRED:
	case PERF_RECORD_EXIT:
		if (!evlist__parse_sample(ds->evlist, event, &sample))
			deferred_callchains__process(ds->waiting, event, &sample, offset, NULL);
		break;
	default:
		break;
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
 * deferred_switch__written - search the data read from a ring buffer
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

/* Samples of a thread that has ended without an event that says so wait in vain. */
static int find_ended(void *priv, u32 tid, union perf_event *event __maybe_unused,
		      u64 *offset __maybe_unused)
{
	struct deferred_switch *ds = priv;
	union perf_event exited = {
		.fork = {
			.header	= { .type = PERF_RECORD_EXIT, .size = sizeof(exited.fork), },
			.tid	= tid,
		},
	};
	struct perf_sample sample = { .time = -1ULL, };

	/* 0 and -1: of another PID namespace, or unknown */
	if ((s32)tid <= 0 || !kill(tid, 0) || errno != ESRCH)
		return 0;
	return deferred_callchains__process(ds->waiting, &exited, &sample, 0, NULL);
}

static int blank_sample(void *priv, u32 tid __maybe_unused,
			union perf_event *event __maybe_unused, u64 *offset)
{
	/* Nothing has this type any more, and each perf passes over it */
	const u32 type = PERF_RECORD_HEADER_EVENT_TYPE;

	return pwrite(*(int *)priv, &type, sizeof(type), *offset) == sizeof(type) ? 0 : -EIO;
}

/**
 * deferred_switch__blank - take waiting samples out of the file
 * @ds: what waits
 * @fd: the file
 *
 * Return: 0 or a negative error.
 */
int deferred_switch__blank(struct deferred_switch *ds, int fd)
{
	int err = deferred_callchains__visit_parked(ds->waiting, find_ended, ds);

	if (!err)
		err = deferred_callchains__tick(ds->waiting, ++ds->timer);
	return err ?: deferred_callchains__visit_parked(ds->waiting, blank_sample, &fd);
}

/**
 * deferred_switch__write - write waiting samples to the next file
 * @ds: what waits
 * @write: writes a sample, and tells where it is
 * @priv: for @write
 *
 * Return: 0 or what @write returned.
 */
int deferred_switch__write(struct deferred_switch *ds, deferred_parked_t write, void *priv)
{
	return deferred_callchains__visit_parked(ds->waiting, write, priv);
}
