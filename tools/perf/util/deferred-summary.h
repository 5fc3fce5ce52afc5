/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_DEFERRED_SUMMARY_H
#define __PERF_DEFERRED_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <linux/types.h>

struct hashmap;

#define DEFERRED_END__NO_FILE	"[no file]"

/* How many files are listed where incomplete user stacks end */
#define DEFERRED_SUMMARY_ENDS	10
/* More than the largest summary in a file takes */
#define DEFERRED_SUMMARY_SIZE	(64 << 10)

/**
 * struct deferred_end - where user stacks end
 * @nr: how many
 * @reason: why, as in header.misc
 * @file: name of the file that the last address is in, DEFERRED_END__NO_FILE if
 *	  it is in none
 */
struct deferred_end {
	u64	nr;
	u16	reason;
	char	*file;
};

/**
 * struct deferred_figures - what became of the user stacks
 * @nr_samples: samples with a deferred callchain; the sum of all of the following
 * @nr_complete: those whose user stack reaches the outermost frame
 * @nr_unchecked: those for which frame pointers that nothing checked do so
 * @nr_missing: those without a record
 * @nr_empty: those whose record has no entries
 * @nr_other: those that end in files other than the ones in a summary's ends
 */
struct deferred_figures {
	u64	nr_samples;
	u64	nr_complete;
	u64	nr_unchecked;
	u64	nr_missing;
	u64	nr_empty;
	u64	nr_other;
};

/**
 * struct deferred_summary - how many user stacks are complete, and where others end
 * @merged: perf inject has put the user callchains into their samples, and tells by
 *	    bits of header.misc how far they reach
 * @counted: there are figures
 * @max_stack: depth limit of a user stack
 * @figures: how many
 * @nr_ends: number of @ends
 * @ends: files that most of the others end in, most frequent first
 * @counts: all of them, while they are counted
 */
struct deferred_summary {
	bool			merged;
	bool			counted;
	u32			max_stack;
	struct deferred_figures	figures;
	unsigned int		nr_ends;
	struct deferred_end	ends[DEFERRED_SUMMARY_ENDS];
	struct hashmap		*counts;
};

struct deferred_summary *deferred_summary__new(void);
void deferred_summary__delete(struct deferred_summary *summary);
void deferred_summary__reset(struct deferred_summary *summary);

void deferred_summary__count_end(struct deferred_summary *summary, const char *file,
				 u16 reason);
void deferred_summary__rank(struct deferred_summary *summary);

void *deferred_summary__encode(const struct deferred_summary *summary, size_t *size);
struct deferred_summary *deferred_summary__decode(const void *buf, size_t size, bool swap);

size_t deferred_summary__fprintf(const struct deferred_summary *summary, const char *prefix,
				 const char *title, const char *suffix, FILE *fp);

#endif /* __PERF_DEFERRED_SUMMARY_H */
