// SPDX-License-Identifier: GPL-2.0
/*
 * How many of the user stacks of a recording are complete, and for the others where
 * they end. It is counted when perf record reads its data anyway, and kept in
 * the file's header.
 */
#include <byteswap.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/zalloc.h>

#include "deferred-summary.h"
#include "hashmap.h"
#include "memswap.h"

/*
 * The format in the file. Unknown versions are ignored, so it can change. It begins
 * with "PERFUSER", since very old files have other data in its place.
 */
#define SUMMARY_MAGIC		0x5245535546524550ULL
#define SUMMARY_VERSION		3
#define SUMMARY_MERGED		BIT(0)
#define SUMMARY_COUNTED		BIT(1)
#define SUMMARY_FLAGS		(SUMMARY_MERGED | SUMMARY_COUNTED)

struct raw_summary {
	u64			magic;
	u32			version;
	u32			flags;
	u32			max_stack;
	u32			nr_ends;
	struct deferred_figures	figures;
};

/* Followed by the name, padded with zeros to @len, which is a multiple of 8 */
struct raw_end {
	u64	nr;
	u32	reason;
	u32	len;
};

/* There is no limit to the files that are mapped in the course of a recording. */
#define MAX_COUNTS		4096

static size_t end_hash(long key, void *ctx __maybe_unused)
{
	const struct deferred_end *end = (void *)key;

	return str_hash(end->file) + end->reason;
}

static bool end_equal(long key1, long key2, void *ctx __maybe_unused)
{
	const struct deferred_end *a = (void *)key1, *b = (void *)key2;

	return a->reason == b->reason && !strcmp(a->file, b->file);
}

struct deferred_summary *deferred_summary__new(void)
{
	return zalloc(sizeof(struct deferred_summary));
}

static void free_counts(struct deferred_summary *summary)
{
	struct hashmap_entry *cur, *tmp;
	size_t bkt;

	if (!summary->counts)
		return;

	hashmap__for_each_entry_safe(summary->counts, cur, tmp, bkt) {
		struct deferred_end *end = cur->pvalue;

		free(end->file);
		free(end);
	}
	hashmap__free(summary->counts);
	summary->counts = NULL;
}

/* Start anew with the counting. */
void deferred_summary__reset(struct deferred_summary *summary)
{
	u32 max_stack = summary->max_stack;
	unsigned int i;

	for (i = 0; i < summary->nr_ends; i++)
		free(summary->ends[i].file);
	free_counts(summary);
	memset(summary, 0, sizeof(*summary));
	summary->max_stack = max_stack;
}

void deferred_summary__delete(struct deferred_summary *summary)
{
	if (!summary)
		return;

	deferred_summary__reset(summary);
	free(summary);
}

static struct deferred_end *findnew_end(struct deferred_summary *summary,
					const struct deferred_end *key)
{
	struct deferred_end *end;

	if (!summary->counts) {
		struct hashmap *counts = hashmap__new(end_hash, end_equal, NULL);

		if (IS_ERR_OR_NULL(counts))
			return NULL;
		summary->counts = counts;
	}

	if (hashmap__find(summary->counts, key, &end))
		return end;

	if (hashmap__size(summary->counts) >= MAX_COUNTS)
		return NULL;

	end = zalloc(sizeof(*end));
	if (!end)
		return NULL;

	end->reason = key->reason;
	end->file = strdup(key->file);
	if (!end->file || hashmap__add(summary->counts, end, end)) {
		zfree(&end->file);
		free(end);
		return NULL;
	}
	return end;
}

/**
 * deferred_summary__count_end - count a user stack that is not complete
 * @summary: the summary
 * @file: name of the file that its last address is in, or NULL
 * @reason: why it ends there, as in header.misc
 *
 * With too many files, or a name that is too long to keep, it is in some other file.
 */
void deferred_summary__count_end(struct deferred_summary *summary, const char *file,
				 u16 reason)
{
	struct deferred_end key = {
		.file	= (char *)(file ?: DEFERRED_END__NO_FILE),
		.reason	= reason,
	};
	struct deferred_end *end = NULL;

	if (strlen(key.file) < PATH_MAX)
		end = findnew_end(summary, &key);
	if (end)
		end->nr++;
	else
		summary->figures.nr_other++;
}

/* The most frequent first. Names make it the same each time. */
static int cmp_ends(const void *p, const void *q)
{
	const struct deferred_end *a = *(const struct deferred_end **)p;
	const struct deferred_end *b = *(const struct deferred_end **)q;

	if (a->nr != b->nr)
		return a->nr > b->nr ? -1 : 1;
	if (a->reason != b->reason)
		return a->reason < b->reason ? -1 : 1;
	return strcmp(a->file, b->file);
}

/**
 * deferred_summary__rank - find the files that most of the user stacks end in
 * @summary: the summary, with all of them counted
 */
void deferred_summary__rank(struct deferred_summary *summary)
{
	struct hashmap_entry *cur;
	struct deferred_end **sorted;
	size_t bkt, nr = 0, i;

	if (!summary->counts)
		return;

	sorted = calloc(hashmap__size(summary->counts), sizeof(*sorted));
	hashmap__for_each_entry(summary->counts, cur, bkt) {
		struct deferred_end *end = cur->pvalue;

		if (sorted)
			sorted[nr++] = end;
		else
			summary->figures.nr_other += end->nr;
	}
	if (nr)
		qsort(sorted, nr, sizeof(*sorted), cmp_ends);

	for (i = 0; i < nr; i++) {
		if (summary->nr_ends < DEFERRED_SUMMARY_ENDS) {
			summary->ends[summary->nr_ends++] = *sorted[i];
			sorted[i]->file = NULL;
		} else {
			summary->figures.nr_other += sorted[i]->nr;
		}
	}
	free(sorted);
	free_counts(summary);
}

static size_t padded_len(const char *file)
{
	return PERF_ALIGN(strlen(file) + 1, sizeof(u64));
}

/**
 * deferred_summary__encode - make the form that is kept in a file
 * @summary: the summary
 * @size: its size there
 *
 * Return: an allocated buffer, or NULL.
 */
void *deferred_summary__encode(const struct deferred_summary *summary, size_t *size)
{
	struct raw_summary *raw;
	unsigned int i;
	void *pos;

	*size = sizeof(*raw);
	for (i = 0; i < summary->nr_ends; i++)
		*size += sizeof(struct raw_end) + padded_len(summary->ends[i].file);

	raw = zalloc(*size);
	if (!raw)
		return NULL;

	*raw = (struct raw_summary) {
		.magic		= SUMMARY_MAGIC,
		.version	= SUMMARY_VERSION,
		.flags		= (summary->merged ? SUMMARY_MERGED : 0) |
				  (summary->counted ? SUMMARY_COUNTED : 0),
		.max_stack	= summary->max_stack,
		.nr_ends	= summary->nr_ends,
		.figures	= summary->figures,
	};

	pos = raw + 1;
	for (i = 0; i < summary->nr_ends; i++) {
		const struct deferred_end *end = &summary->ends[i];
		struct raw_end raw_end = {
			.nr	= end->nr,
			.reason	= end->reason,
			.len	= padded_len(end->file),
		};

		memcpy(pos, &raw_end, sizeof(raw_end));
		pos += sizeof(raw_end);
		memcpy(pos, end->file, strlen(end->file));
		pos += raw_end.len;
	}
	return raw;
}

static u32 get32(u32 value, bool swap)
{
	return swap ? bswap_32(value) : value;
}

static u64 get64(u64 value, bool swap)
{
	return swap ? bswap_64(value) : value;
}

/* Each sample is counted once. */
static bool adds_up(const struct deferred_summary *summary)
{
	const struct deferred_figures *figures = &summary->figures;
	u64 left = figures->nr_samples;
	const u64 parts[] = {
		figures->nr_complete, figures->nr_unchecked, figures->nr_missing,
		figures->nr_empty, figures->nr_other,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		if (parts[i] > left)
			return false;
		left -= parts[i];
	}
	for (i = 0; i < summary->nr_ends; i++) {
		if (summary->ends[i].nr > left)
			return false;
		left -= summary->ends[i].nr;
	}
	return !left;
}

static bool decode_ends(struct deferred_summary *summary, u32 nr_ends, const void *buf,
			size_t size, bool swap)
{
	while (summary->nr_ends < nr_ends) {
		struct deferred_end *end = &summary->ends[summary->nr_ends];
		struct raw_end raw;
		u32 len, reason;

		if (size < sizeof(raw))
			return false;
		memcpy(&raw, buf, sizeof(raw));
		buf += sizeof(raw);
		size -= sizeof(raw);

		len = get32(raw.len, swap);
		if (!len || len > size || len % sizeof(u64) || strnlen(buf, len) == len)
			return false;

		end->nr = get64(raw.nr, swap);
		reason = get32(raw.reason, swap);
		if (reason & ~PERF_RECORD_MISC_CALLCHAIN_END_MASK)
			return false;
		end->reason = reason;

		end->file = strdup(buf);
		if (!end->file)
			return false;

		summary->nr_ends++;
		buf += len;
		size -= len;
	}
	return !size;
}

/**
 * deferred_summary__decode - read the form that is kept in a file
 * @buf: the data in the file
 * @size: its size
 * @swap: whether it has the other byte order
 *
 * Return: a summary, or NULL if @buf is not valid or not known.
 */
struct deferred_summary *deferred_summary__decode(const void *buf, size_t size, bool swap)
{
	struct deferred_summary *summary;
	struct raw_summary raw;
	u32 flags, nr_ends;

	if (size < sizeof(raw))
		return NULL;
	memcpy(&raw, buf, sizeof(raw));

	flags = get32(raw.flags, swap);
	nr_ends = get32(raw.nr_ends, swap);
	if (get64(raw.magic, swap) != SUMMARY_MAGIC ||
	    get32(raw.version, swap) != SUMMARY_VERSION ||
	    (flags & ~SUMMARY_FLAGS) || nr_ends > DEFERRED_SUMMARY_ENDS)
		return NULL;

	summary = deferred_summary__new();
	if (!summary)
		return NULL;

	summary->merged = flags & SUMMARY_MERGED;
	summary->counted = flags & SUMMARY_COUNTED;
	summary->max_stack = get32(raw.max_stack, swap);
	summary->figures = raw.figures;
	if (swap)
		mem_bswap_64(&summary->figures, sizeof(summary->figures));

	if (!decode_ends(summary, nr_ends, buf + sizeof(raw), size - sizeof(raw), swap) ||
	    !adds_up(summary)) {
		deferred_summary__delete(summary);
		return NULL;
	}
	return summary;
}

static const char *reason_text(u16 reason)
{
	switch (reason) {
	case PERF_RECORD_MISC_CALLCHAIN_NO_RULE:
		return "no unwind rule for the code there";
	case PERF_RECORD_MISC_CALLCHAIN_ABSENT:
		return "the stack, or a table, could not be read";
	case PERF_RECORD_MISC_CALLCHAIN_CORRUPT:
		return "no return address where one should be";
	case PERF_RECORD_MISC_CALLCHAIN_DEPTH:
		return "deeper than the limit";
	case PERF_RECORD_MISC_CALLCHAIN_REFUSED:
		return "walked in place, by frame pointers only";
	case PERF_RECORD_MISC_CALLCHAIN_KILLED:
		return "the task was being killed";
	case PERF_RECORD_MISC_CALLCHAIN_CHANGING:
		return "another thread was changing the mappings";
	case PERF_RECORD_MISC_CALLCHAIN_REMOTE:
		return "another process supplies the memory of the stack";
	case PERF_RECORD_MISC_CALLCHAIN_NO_FP:
		return "the frame pointer is not known there";
	default:
		return "the kernel does not say why";
	}
}

struct text {
	const char	*prefix;
	FILE		*fp;
	size_t		printed;
};

static void print_end(struct text *text, u64 nr, const char *file, const char *why)
{
	text->printed += fprintf(text->fp, "%s%10llu  ", text->prefix, (unsigned long long)nr);

	/* Anybody can map a file whose name has control sequences of a terminal. */
	for (; file && *file; file++) {
		unsigned char c = *file, next = file[1];
		bool is_control = c < ' ' || c == 0x7f || (c == 0xc2 && next < 0xa0);

		text->printed += fprintf(text->fp, "%c", is_control ? '?' : c);
	}
	text->printed += fprintf(text->fp, "%s\n", why);
}

/**
 * deferred_summary__fprintf - tell the user
 * @summary: the summary
 * @prefix: what to begin each line with
 * @title: comes after @prefix in the first line
 * @suffix: end of the first line
 * @fp: where to
 *
 * Return: the number of bytes written.
 */
size_t deferred_summary__fprintf(const struct deferred_summary *summary, const char *prefix,
				 const char *title, const char *suffix, FILE *fp)
{
	const struct deferred_figures *figures = &summary->figures;
	struct text text = { .prefix = prefix, .fp = fp, };
	unsigned long long complete = figures->nr_complete, nr = figures->nr_samples;
	unsigned long long unchecked = figures->nr_unchecked;
	unsigned int i, tenths;
	char why[64];

	if (!summary->counted || !nr)
		return 0;

	/* Rounded down, so that 100% are all of them */
	tenths = (double)complete / nr * 1000;
	if (tenths == 1000 && complete < nr)
		tenths--;

	text.printed = fprintf(fp, "%s%s%llu of %llu complete (%u.%u%%)%s%s\n", prefix, title,
			       complete, nr, tenths / 10, tenths % 10,
			       unchecked + complete < nr ? "; the others end" : "", suffix);
	if (unchecked)
		print_end(&text, unchecked, NULL,
			  "at the outermost frame, by frame pointers that nothing checked");

	for (i = 0; i < summary->nr_ends; i++) {
		const struct deferred_end *end = &summary->ends[i];

		if (end->reason == PERF_RECORD_MISC_CALLCHAIN_DEPTH && summary->max_stack)
			scnprintf(why, sizeof(why), ": deeper than the limit of %u frames",
				  summary->max_stack);
		else
			scnprintf(why, sizeof(why), ": %s", reason_text(end->reason));
		print_end(&text, end->nr, end->file, why);
	}
	if (figures->nr_other)
		print_end(&text, figures->nr_other, NULL, "in other files");
	if (figures->nr_empty)
		print_end(&text, figures->nr_empty, NULL,
			  "before the first frame: there was no stack, or it could not be read");
	if (figures->nr_missing)
		print_end(&text, figures->nr_missing, NULL,
			  "before the first frame: lost, or still in the kernel at the end");
	if (unchecked)
		text.printed += fprintf(fp, "%s%12s%s\n", prefix, "",
					"(frame pointers are kept by java -XX:+PreserveFramePointer, node --interpreted-frames-native-stack, erl +JPperf true, MONO_DEBUG=disable_omit_fp mono)");
	return text.printed;
}
