// SPDX-License-Identifier: GPL-2.0
/*
 * Write a profile in the format of pprof: a message of protobuf, compressed. The
 * fields of a message may have any order, so each item of a table is written when it
 * is first needed.
 */
#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "pprof.h"

/* Fields of the message Profile */
enum {
	SAMPLE_TYPE	= 1,
	SAMPLE		= 2,
	MAPPING		= 3,
	LOCATION	= 4,
	FUNCTION	= 5,
	STRING_TABLE	= 6,
	TIME_NANOS	= 9,
	DURATION_NANOS	= 10,
	PERIOD_TYPE	= 11,
	PERIOD		= 12,
};

/* A message, or packed integers, while it is made */
struct message {
	FILE *out;
	char *data;
	size_t len;
};

/* The number of the item with this content in its table */
struct item {
	char *data;
	size_t len;
	__u64 number;
};

struct table {
	int field;
	void *items;
	__u64 nr;
};

static struct table mappings = { .field = MAPPING };
static struct table functions = { .field = FUNCTION };
static struct table strings = { .field = STRING_TABLE };

struct location {
	__u64 mapping;
	unsigned long addr;
	const char *name;
	__u64 number;
};

static void *locations;
static __u64 nr_locations;

static struct message profile;
static const char *profile_path;
static gzFile profile_file;

static void message_begin(struct message *message)
{
	message->out = need(open_memstream(&message->data, &message->len));
}

static void message_end(struct message *message)
{
	if (fclose(message->out))
		die("no memory", ENOMEM);
}

/* Seven bits to a byte, the lowest ones first */
static void put_varint(FILE *out, __u64 value)
{
	for (; value > 0x7f; value >>= 7)
		fputc((value & 0x7f) | 0x80, out);
	fputc(value, out);
}

/* Readers take a missing field for 0. */
static void put_integer(FILE *out, int field, __u64 value)
{
	if (!value)
		return;
	put_varint(out, field << 3);
	put_varint(out, value);
}

static void put_data(FILE *out, int field, const char *data, size_t len)
{
	put_varint(out, field << 3 | 2);
	put_varint(out, len);
	fwrite(data, 1, len, out);
}

/* The end of @message, which is a field of another one */
static void put_message(FILE *out, int field, struct message *message)
{
	message_end(message);
	put_data(out, field, message->data, message->len);
	free(message->data);
}

static int item_cmp(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return memcmp(x->data, y->data, x->len);
}

static int location_cmp(const void *a, const void *b)
{
	const struct location *x = a, *y = b;

	if (x->mapping != y->mapping)
		return x->mapping < y->mapping ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Takes @data; *@new: the item has no number yet. */
static struct item *find_item(struct table *table, char *data, size_t len, bool *new)
{
	struct item *item = need(malloc(sizeof(*item))), *found;

	item->data = data;
	item->len = len;
	found = *(struct item **)need(tsearch(item, &table->items, item_cmp));
	*new = found == item;
	if (!*new) {
		free(data);
		free(item);
	}
	return found;
}

static __u64 string_number(const char *text)
{
	struct item *item;
	bool new;

	item = find_item(&strings, need(strdup(text)), strlen(text), &new);
	if (new) {
		item->number = strings.nr++;
		put_data(profile.out, STRING_TABLE, text, item->len);
	}
	return item->number;
}

/* The end of @fields, which are those of an item except for its number */
static __u64 item_number(struct table *table, struct message *fields)
{
	struct message message;
	struct item *item;
	bool new;

	message_end(fields);
	item = find_item(table, fields->data, fields->len, &new);
	if (new) {
		item->number = ++table->nr;
		message_begin(&message);
		put_integer(message.out, 1, item->number);
		fwrite(item->data, 1, item->len, message.out);
		put_message(profile.out, table->field, &message);
	}
	return item->number;
}

/* The number of a mapping, for pprof_location() */
__u64 pprof_mapping(const struct pprof_mapping *mapping)
{
	struct message fields;
	char *text;
	int i;

	text = need(calloc(mapping->build_id_size + 1, 2));
	for (i = 0; i < mapping->build_id_size; i++)
		sprintf(text + 2 * i, "%02x", mapping->build_id[i]);

	message_begin(&fields);
	put_integer(fields.out, 2, mapping->start);
	put_integer(fields.out, 3, mapping->end);
	put_integer(fields.out, 5, string_number(mapping->file));
	put_integer(fields.out, 6, string_number(text));
	/* Functions have been looked up. */
	put_integer(fields.out, 7, 1);
	free(text);
	return item_number(&mappings, &fields);
}

/* The number of a location in a function, for pprof_stack(); without a mapping if that is 0 */
__u64 pprof_location(__u64 mapping, unsigned long addr, const char *name)
{
	struct location *location = need(malloc(sizeof(*location))), *found;
	struct message fields, line;
	__u64 function;

	location->mapping = mapping;
	location->addr = addr;
	location->name = name;
	found = *(struct location **)need(tsearch(location, &locations, location_cmp));
	if (found != location) {
		free(location);
		return found->number;
	}
	location->name = need(strdup(name));
	location->number = ++nr_locations;

	message_begin(&fields);
	put_integer(fields.out, 2, string_number(name));
	function = item_number(&functions, &fields);

	message_begin(&fields);
	put_integer(fields.out, 1, location->number);
	put_integer(fields.out, 2, mapping);
	put_integer(fields.out, 3, addr);
	message_begin(&line);
	put_integer(line.out, 1, function);
	put_message(fields.out, 4, &line);
	put_message(profile.out, LOCATION, &fields);
	return location->number;
}

static void put_label(FILE *out, const char *key, const char *value)
{
	struct message label;

	message_begin(&label);
	put_integer(label.out, 1, string_number(key));
	put_integer(label.out, 2, string_number(value));
	put_message(out, 3, &label);
}

/* The common part of samples with the same labels and stack, innermost location first */
void pprof_stack(FILE *out, const __u64 *numbers, int nr, const struct pprof_labels *labels)
{
	struct message packed;
	int i;

	message_begin(&packed);
	for (i = 0; i < nr; i++)
		put_varint(packed.out, numbers[i]);
	put_message(out, 1, &packed);
	put_label(out, "comm", labels->comm);
	put_label(out, "pid", labels->pid);
	if (labels->cgroup)
		put_label(out, "cgroup", labels->cgroup);
}

/* How many samples have a stack of pprof_stack(), and the time they stand for */
void pprof_sample(const char *stack, size_t len, __u64 samples, __u64 nanoseconds)
{
	struct message sample, values;

	message_begin(&sample);
	fwrite(stack, 1, len, sample.out);
	message_begin(&values);
	put_varint(values.out, samples);
	put_varint(values.out, nanoseconds);
	put_message(sample.out, 2, &values);
	put_message(profile.out, SAMPLE, &sample);
}

static void put_type(int field, const char *name, const char *unit)
{
	struct message type;

	message_begin(&type);
	put_integer(type.out, 1, string_number(name));
	put_integer(type.out, 2, string_number(unit));
	put_message(profile.out, field, &type);
}

void pprof_begin(const char *path)
{
	profile_path = path;
	profile_file = gzopen(path, "wbe");
	if (!profile_file)
		die(path, errno);
	message_begin(&profile);
	/* The first one has to be empty. */
	string_number("");
	put_type(SAMPLE_TYPE, "samples", "count");
	put_type(SAMPLE_TYPE, "time", "nanoseconds");
}

void pprof_end(const struct pprof_times *times)
{
	put_integer(profile.out, TIME_NANOS, times->start);
	put_integer(profile.out, DURATION_NANOS, times->duration);
	if (times->period)
		put_type(PERIOD_TYPE, "cpu", "nanoseconds");
	put_integer(profile.out, PERIOD, times->period);
	message_end(&profile);
	if (gzfwrite(profile.data, 1, profile.len, profile_file) != profile.len ||
	    gzclose(profile_file) != Z_OK)
		die(profile_path, errno);
}
