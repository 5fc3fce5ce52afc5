// SPDX-License-Identifier: GPL-2.0
/*
 * From a file to its table: FDEs are put into the order of the file, overlaps are
 * resolved, and code between them is a gap.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "follow.h"

struct key {
	__u64	start;
	__u32	fde;
};

/*
 * Sort FDEs by where they start; those that start at the same place stay in the order
 * of the section. This is a radix sort from the lowest byte on, which skips bytes that
 * are the same in all.
 */
static struct key *radix_sort(struct key *keys, struct key *other, size_t nr)
{
	__u64 all = 0, some = ~0ULL;
	unsigned int shift;
	size_t i;

	for (i = 0; i < nr; i++) {
		all |= keys[i].start;
		some &= keys[i].start;
	}
	for (shift = 0; shift < 64; shift += 8) {
		size_t sum = 0, where[256] = { 0 };
		struct key *swap = keys;

		if (!(((all ^ some) >> shift) & 0xff))
			continue;
		for (i = 0; i < nr; i++)
			where[(keys[i].start >> shift) & 0xff]++;
		for (i = 0; i < 256; i++) {
			size_t here = where[i];

			where[i] = sum;
			sum += here;
		}
		for (i = 0; i < nr; i++)
			other[where[(keys[i].start >> shift) & 0xff]++] = keys[i];
		keys = other;
		other = swap;
	}
	return keys;
}

static int sort_fdes(struct ut_fdes *fdes)
{
	struct key *keys, *sorted;
	struct ut_fde *to;
	bool is_sorted = true;
	size_t i;

	for (i = 1; i < fdes->nr_fdes && is_sorted; i++)
		is_sorted = fdes->fdes[i - 1].start <= fdes->fdes[i].start;
	if (is_sorted)
		return 0;

	keys = malloc(2 * fdes->nr_fdes * sizeof(*keys));
	to = malloc(fdes->nr_fdes * sizeof(*to));
	if (!keys || !to) {
		free(keys);
		free(to);
		return -ENOMEM;
	}
	for (i = 0; i < fdes->nr_fdes; i++)
		keys[i] = (struct key){ fdes->fdes[i].start, i };
	sorted = radix_sort(keys, keys + fdes->nr_fdes, fdes->nr_fdes);
	for (i = 0; i < fdes->nr_fdes; i++)
		to[i] = fdes->fdes[sorted[i].fde];
	free(keys);
	free(fdes->fdes);
	fdes->fdes = to;
	fdes->max_fdes = fdes->nr_fdes;
	return 0;
}

/* FDEs of a section in order, and how far they have come */
struct sweep {
	struct ut_fdes	fdes;
	size_t		next;
	__u64		end;		/* of those before next */
};

static int open_sweep(struct sweep *sweep, struct ut_build *build,
		      const struct ut_section *section)
{
	int err;

	if (!section->bytes.len)
		return 0;
	err = ut_cfi_read(build, section, &sweep->fdes);
	return err ? err : sort_fdes(&sweep->fdes);
}

static void close_sweep(struct sweep *sweep)
{
	free(sweep->fdes.fdes);
	free(sweep->fdes.cies);
}

/*
 * The next FDE that has code of its own; @skip is how much of it others had
 * before.
 */
static const struct ut_fde *peek(struct sweep *sweep, __u64 *skip,
				 struct unwind_table_stats *stats)
{
	while (sweep->next < sweep->fdes.nr_fdes) {
		const struct ut_fde *fde = &sweep->fdes.fdes[sweep->next];

		*skip = sweep->end > fde->start ? sweep->end - fde->start : 0;
		if (*skip < fde->end - fde->start)
			return fde;
		sweep->next++;
		stats->places[UNWIND_TABLE_R_OVERLAP]++;
		stats->bytes[UNWIND_TABLE_R_OVERLAP] += fde->end - fde->start;
	}
	return NULL;
}

static void take(struct sweep *sweep, const struct ut_fde *fde, __u64 skip,
		 struct unwind_table_stats *stats)
{
	if (skip) {
		stats->places[UNWIND_TABLE_R_OVERLAP]++;
		stats->bytes[UNWIND_TABLE_R_OVERLAP] += skip;
	}
	sweep->next++;
	sweep->end = fde->end;
}

struct maker {
	struct ut_build			build;
	struct sweep			eh_frame;
	struct sweep			debug_frame;
	struct ut_machine		machine;
	struct ut_rows			*rows;
	struct unwind_table_stats	*stats;
	const struct ut_segment		*segment;
	__u64				end;	/* of what was added */
};

/* Gaps up to an offset, the ends of segments among them */
static int skip_to(struct maker *maker, __u64 start)
{
	const struct ut_elf *elf = &maker->build.elf;
	int err;

	for (;;) {
		const struct ut_segment *segment = maker->segment;
		__u64 end = segment->offset + segment->len;

		if (start < end)
			break;
		err = ut_rows_add_gap(maker->rows, segment, maker->end, end);
		if (!err)
			err = ut_rows_flush(maker->rows);
		if (err)
			return err;
		maker->segment++;
		if (maker->segment == elf->code + elf->nr_code)
			return 0;
		maker->end = maker->segment->offset;
	}
	return ut_rows_add_gap(maker->rows, maker->segment, maker->end, start);
}

/* Bytes with a rule that were not counted by their origin yet */
static __u64 uncounted(const struct unwind_table_stats *stats)
{
	__u64 bytes = stats->covered_bytes;
	unsigned int i;

	for (i = 0; i < UNWIND_TABLE_O_FRAME_POINTER; i++)
		bytes -= stats->origins[i];
	return bytes;
}

bool unwind_table_says_no_call = true;

/*
 * No call returns to where a function begins right behind another one, unless a call of a
 * function that does not return is before it. But coroutines that are entered by a return leave
 * such addresses on the stack. These are looked up by the byte before, whose rule ends the walk.
 */
static int end_walks(struct maker *maker, const struct ut_fde *fde)
{
	const struct ut_segment *segment = &maker->build.elf.code[fde->segment];
	__u8 code[UT_MAX_CALL];

	if (!ut_work(&maker->build.work, UT_WORK_READ))
		return -E2BIG;
	if (!unwind_table_says_no_call ||
	    ut_elf_read_code(&maker->build.elf, segment, fde->start - sizeof(code), code,
			     sizeof(code)) != sizeof(code) ||
	    !ut_bytes_is_no_call(code + sizeof(code)))
		return 0;
	return ut_rows_end_walks(maker->rows);
}

static int run(struct maker *maker, struct sweep *sweep, const struct ut_fde *fde,
	       __u64 skip)
{
	struct unwind_table_stats *stats = maker->stats;
	bool is_next = maker->end == fde->start && maker->end > maker->segment->offset && !skip;
	int err = skip_to(maker, fde->start + skip);

	if (!err && is_next && !sweep->fdes.cies[fde->cie].signal)
		err = end_walks(maker, fde);
	if (err)
		return err;
	maker->end = fde->end;
	err = ut_cfi_run(&maker->build, &sweep->fdes, fde, skip, &maker->machine, maker->rows);
	stats->origins[sweep == &maker->eh_frame ? UNWIND_TABLE_O_EH_FRAME :
						   UNWIND_TABLE_O_DEBUG_FRAME] +=
		uncounted(stats);
	return err;
}

/*
 * All FDEs of .eh_frame, and those of .debug_frame for code that .eh_frame does not
 * cover. An FDE of .debug_frame that covers both kinds of code is not used, since one
 * cannot know which of the two sections is right.
 */
static int add_rows(struct maker *maker)
{
	struct sweep *eh_frame = &maker->eh_frame, *debug_frame = &maker->debug_frame;
	struct unwind_table_stats *stats = maker->stats;
	__u64 skip = 0, debug_skip = 0;
	int err;

	maker->rows = ut_rows_new(&maker->build, &err);
	maker->segment = maker->build.elf.code;
	maker->end = maker->build.elf.code[0].offset;
	*eh_frame = (struct sweep){ .fdes = eh_frame->fdes };
	*debug_frame = (struct sweep){ .fdes = debug_frame->fdes };
	while (!err) {
		const struct ut_fde *fde = peek(eh_frame, &skip, stats);
		const struct ut_fde *debug = peek(debug_frame, &debug_skip, stats);
		__u64 end = eh_frame->end;

		if (!fde && !debug)
			return skip_to(maker, ~0ULL);
		if (!debug || (fde && fde->start + skip <= debug->start + debug_skip)) {
			take(eh_frame, fde, skip, stats);
			err = run(maker, eh_frame, fde, skip);
			continue;
		}
		take(debug_frame, debug, debug_skip, stats);
		if (debug->start + debug_skip >= end &&
		    (!fde || debug->end <= fde->start + skip))
			err = run(maker, debug_frame, debug, debug_skip);
		else if (debug->end > end)
			stats->places[UNWIND_TABLE_R_OVERLAP]++;
	}
	return err;
}

/* File systems that compress files store less than they have. */
#define MAX_COMPRESSION		4

/* The work that a file may cause: holes in it do not count. */
static __u64 work_limit(const struct ut_elf *elf)
{
	__u64 stored = elf->src.stored, code_bytes = elf->code_bytes;

	if (stored && code_bytes > stored * MAX_COMPRESSION)
		code_bytes = stored * MAX_COMPRESSION;
	return UNWIND_TABLE_WORK * (elf->eh_frame.bytes.len + elf->debug_frame.bytes.len +
				    code_bytes + UNWIND_TABLE_PAGE_SIZE);
}

int ut_build_open(struct ut_build *build, const struct ut_source *src,
		  struct unwind_table_stats *stats)
{
	build->stats = stats;
	return ut_elf_open(&build->elf, src);
}

void ut_build_close(struct ut_build *build)
{
	ut_starts_free(&build->starts);
	free(build->scan);
	free(build->known);
	ut_follow_free(build->follow);
	map_free(&build->endless);
	map_free(&build->imports);
	ut_callees_free(build->callees);
	ut_elf_close(&build->elf);
}

static int make(struct maker *maker, struct unwind_table *table)
{
	struct ut_build *build = &maker->build;
	const struct ut_elf *elf = &build->elf;
	struct unwind_table_stats read;
	int err;

	table->stats.code_bytes = elf->code_bytes;
	build->work.limit = work_limit(elf);
	err = open_sweep(&maker->eh_frame, build, &elf->eh_frame);
	if (!err)
		err = open_sweep(&maker->debug_frame, build, &elf->debug_frame);
	if (err)
		return err;
	if (!maker->eh_frame.fdes.nr_fdes && !maker->debug_frame.fdes.nr_fdes && !elf->is_go)
		return -ENODATA;

	read = table->stats;
	err = add_rows(maker);
	if (!err && !table->stats.places[UNWIND_TABLE_R_OVERLAP])
		err = ut_callees_find(build, &maker->eh_frame.fdes);
	/* Few files need that, and they are small. */
	if (!err && build->patches) {
		ut_rows_free(maker->rows);
		table->stats = read;
		build->work.done = 0;
		build->follow_work.done = 0;
		err = add_rows(maker);
	}
	if (err)
		return err;
	/* Go files have no FDEs, unless C was linked with them. */
	if (!table->stats.covered_bytes)
		return -ENODATA;
	table->stats.work = build->work.done;
	table->stats.work_code = build->follow_work.done;
	return ut_rows_finish(maker->rows, &table->data, &table->len);
}

static int make_table(const struct ut_source *src, struct unwind_table **result)
{
	struct unwind_table *table;
	struct maker *maker;
	int err;

	*result = NULL;
	table = calloc(1, sizeof(*table));
	maker = calloc(1, sizeof(*maker));
	if (!table || !maker) {
		free(table);
		free(maker);
		return -ENOMEM;
	}
	maker->stats = &table->stats;
	err = ut_build_open(&maker->build, src, &table->stats);
	if (!err) {
		err = make(maker, table);
		ut_rows_free(maker->rows);
		close_sweep(&maker->eh_frame);
		close_sweep(&maker->debug_frame);
		free(maker->machine.stack);
		ut_build_close(&maker->build);
	}
	free(maker);
	if (err)
		unwind_table_free(table);
	else
		*result = table;
	return err;
}

int unwind_table_from_image(const void *image, size_t len, struct unwind_table **table)
{
	struct ut_source src = { .image = image, .len = len };

	return make_table(&src, table);
}

int unwind_table_from_memory(const void *image, size_t len, struct unwind_table **table)
{
	struct ut_source src = { .image = image, .len = len, .loaded = true };

	return make_table(&src, table);
}

int unwind_table_from_file(int fd, uint64_t len, uint64_t stored, struct unwind_table **table)
{
	struct ut_source src = { .fd = fd, .len = len, .stored = stored };

	return make_table(&src, table);
}

int unwind_table_from_fd(int fd, struct unwind_table **table)
{
	struct stat stat;

	*table = NULL;
	if (fstat(fd, &stat))
		return -errno;
	if (!S_ISREG(stat.st_mode))
		return -ENOEXEC;
	return unwind_table_from_file(fd, stat.st_size, stat.st_blocks * 512ULL, table);
}

void unwind_table_free(struct unwind_table *table)
{
	if (!table)
		return;
	free(table->data);
	free(table);
}

const void *unwind_table_data(const struct unwind_table *table, size_t *len)
{
	*len = table->len;
	return table->data;
}

const struct unwind_table_stats *unwind_table_stats(const struct unwind_table *table)
{
	return &table->stats;
}
