/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_DEFERRED_CALLCHAIN_H
#define __PERF_DEFERRED_CALLCHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/types.h>
#include "sample.h"

struct deferred_callchains;
struct evlist;
struct ip_callchain;
union perf_event;

/**
 * struct deferred_stats - what became of the samples with a deferred callchain
 * @nr_samples: samples whose callchain ends with a cookie
 * @nr_records: PERF_RECORD_CALLCHAIN_DEFERRED seen
 * @nr_invalid: records too small for what they claim to have, ignored
 * @nr_merged: samples that found their record
 * @nr_empty: those of @nr_merged whose record has no entries
 * @nr_complete: those of @nr_merged whose record reaches the outermost frame
 * @nr_unchecked: those for which frame pointers that nothing checked do so
 * @nr_lost: samples without a record although their thread went on or exited
 * @nr_blocked: samples of threads that were not seen to leave the kernel
 * @nr_late: samples that could not wait any longer, see struct deferred_limits
 *
 * @nr_samples is the sum of @nr_merged, @nr_lost, @nr_blocked and @nr_late once
 * everything is delivered.
 */
struct deferred_stats {
	u64	nr_samples;
	u64	nr_records;
	u64	nr_invalid;
	u64	nr_merged;
	u64	nr_empty;
	u64	nr_complete;
	u64	nr_unchecked;
	u64	nr_lost;
	u64	nr_blocked;
	u64	nr_late;
};

/**
 * struct deferred_limits - how much to keep and how long to wait
 * @queued: bytes of events held back behind a sample without its record
 * @parked: bytes of samples that wait outside of the stream
 * @cached: bytes of records kept for samples that come later
 * @delay: longest time to hold back the stream, in ns; 0: no limit
 * @grace: how long to wait on for the record of a thread that was seen to have
 *	   left the kernel or to have exited, in ns
 *
 * Both are times of events, and of deferred_callchains__tick() if that is called:
 * whichever is over first.
 *
 * When @queued or @delay is exceeded the first sample of the stream is parked:
 * it will be delivered as soon as its record comes, but out of order. With
 * @parked exceeded, or 0, it is delivered without user callchain instead. No event is
 * ever dropped.
 */
struct deferred_limits {
	size_t	queued;
	size_t	parked;
	size_t	cached;
	u64	delay;
	u64	grace;
};

/**
 * struct deferred_source - where the events come from
 * @evlist: to parse them again, and to merge the callchains; NULL: neither is done
 * @copy: they are only valid during deferred_callchains__process(), and must be
 *	  copied to be held back
 * @unordered: they come in any order, so that their times tell nothing
 * @ignore_tid: the records don't tell their thread, as without sample_id_all. Cookies
 *		are unique in the whole system, so match by cookie alone
 * @tells: the kernel says how far callchains reach, and unmarked ones are cut. Not all
 *	   kernels do. If it is not known, the first marked callchain shows it; until
 *	   then the reach of others is unknown
 */
struct deferred_source {
	struct evlist	*evlist;
	bool		copy;
	bool		unordered;
	bool		ignore_tid;
	bool		tells;
};

/**
 * typedef deferred_deliver_t - receives the events, with the callchains found
 * @priv: as given to deferred_callchains__new()
 * @event: the event
 * @sample: the parsed event with its callchain; without an evlist, the callchain is not
 *	    merged, and it is NULL if the event has been held back in between
 * @user: the user callchain for a sample with a deferred one, NULL if there is
 *	  none or if the event has no deferred callchain
 * @state: how far @user reaches, if the event has a deferred callchain
 * @file_offset: where the event is in its file
 * @file_path: the event's file
 *
 * Return: 0, or a negative error that stops the processing.
 */
typedef int (*deferred_deliver_t)(void *priv, union perf_event *event,
				  struct perf_sample *sample,
				  const struct ip_callchain *user,
				  enum user_callchain state,
				  u64 file_offset, const char *file_path);

/**
 * typedef deferred_parked_t - looks at a sample that waits outside of the stream
 * @priv: as given to deferred_callchains__visit_parked()
 * @tid: thread of the sample
 * @event: the sample
 * @file_offset: where it is in its file, which may change
 *
 * Return: 0 to go on with the next one.
 */
typedef int (*deferred_parked_t)(void *priv, u32 tid, union perf_event *event,
				 u64 *file_offset);

extern const struct deferred_limits deferred_limits__file;
extern const struct deferred_limits deferred_limits__in_order;
extern const struct deferred_limits deferred_limits__live;
extern const struct deferred_limits deferred_limits__top;

struct deferred_callchains *deferred_callchains__new(const struct deferred_limits *limits,
						     const struct deferred_source *source,
						     struct deferred_stats *stats,
						     deferred_deliver_t deliver, void *priv);
void deferred_callchains__delete(struct deferred_callchains *dc);

int deferred_callchains__process(struct deferred_callchains *dc, union perf_event *event,
				 struct perf_sample *sample, u64 file_offset,
				 const char *file_path);
int deferred_callchains__tick(struct deferred_callchains *dc, u64 now);
bool deferred_callchains__waits(const struct deferred_callchains *dc);
int deferred_callchains__visit_parked(struct deferred_callchains *dc, deferred_parked_t fn,
				      void *priv);
int deferred_callchains__flush(struct deferred_callchains *dc);

u64 deferred_stats__missing(const struct deferred_stats *stats);
size_t deferred_stats__fprintf(const struct deferred_stats *stats, bool all_cpus,
			       const char *prefix, const char *suffix, FILE *fp);

u64 deferred_callchain__nr_valid(const struct ip_callchain *user);
int sample__merge_deferred_callchain(struct perf_sample *sample,
				     const struct ip_callchain *user,
				     enum user_callchain state);
void sample__free_merged_callchain(struct perf_sample *sample);

#endif /* __PERF_DEFERRED_CALLCHAIN_H */
