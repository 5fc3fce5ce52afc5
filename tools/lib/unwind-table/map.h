/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UNWIND_TABLE_MAP_H
#define __UNWIND_TABLE_MAP_H

/* Sets of bits, arrays that grow, and maps from a number to the index of something */

#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NONE		(~0U)

static inline bool bit(const __u64 *bits, __u64 index)
{
	return bits[index / 64] >> index % 64 & 1;
}

/* Is one of @nr bits set? There are less than 64 of them, and another word behind them. */
static inline bool has_bits(const __u64 *bits, __u64 index, unsigned int nr)
{
	__u64 some = bits[index / 64] >> index % 64;

	if (index % 64)
		some |= bits[index / 64 + 1] << (64 - index % 64);
	return some & ((1ULL << nr) - 1);
}

static inline void set_bit(__u64 *bits, __u64 index)
{
	bits[index / 64] |= 1ULL << index % 64;
}

/* For qsort(): by a number, or by one that comes first in a structure */
static inline int ut_compare_numbers(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* An array of structures of @size bytes */
struct array {
	void	*items;
	size_t	size;
	size_t	max;
	__u32	nr;
};

/* Room for one more item of @size bytes behind @nr of them: the items, or NULL */
static inline void *ut_grow(void *items, size_t nr, size_t *max, size_t size)
{
	size_t want = *max ? 2 * *max : 64;

	if (nr < *max)
		return items;
	items = realloc(items, want * size);
	if (items)
		*max = want;
	return items;
}

/* Room for one more: 0 or -ENOMEM */
static inline int array_grow(struct array *array)
{
	void *items = ut_grow(array->items, array->nr, &array->max, array->size);

	if (!items)
		return -ENOMEM;
	array->items = items;
	return 0;
}

/* An array of numbers as a stack */
static inline int array_push(struct array *array, __u32 number)
{
	int err = array_grow(array);

	if (!err)
		((__u32 *)array->items)[array->nr++] = number;
	return err;
}

static inline __u32 array_pop(struct array *array)
{
	return ((__u32 *)array->items)[--array->nr];
}

static inline void array_clear(struct array *array)
{
	array->nr = 0;
}

static inline void array_free(struct array *array)
{
	free(array->items);
}

struct map {
	__u64	*keys;		/* + 1 */
	__u32	*values;
	size_t	size;
	size_t	nr;
};

static inline __u64 map_hash(__u64 key)
{
	key *= 0x9e3779b97f4a7c15ULL;
	return key ^ key >> 29;
}

static inline __u32 map_get(const struct map *map, __u64 key)
{
	size_t i;

	if (!map->size)
		return NONE;
	for (i = map_hash(key) & (map->size - 1); map->keys[i]; i = (i + 1) & (map->size - 1)) {
		if (map->keys[i] == key + 1)
			return map->values[i];
	}
	return NONE;
}

static inline void map_put(struct map *map, __u64 key, __u32 value)
{
	size_t i = map_hash(key) & (map->size - 1);

	while (map->keys[i])
		i = (i + 1) & (map->size - 1);
	map->keys[i] = key + 1;
	map->values[i] = value;
	map->nr++;
}

static inline int map_add(struct map *map, __u64 key, __u32 value)
{
	if (2 * map->nr >= map->size) {
		struct map more = { .size = map->size ? 2 * map->size : 1024 };
		size_t i;

		more.keys = calloc(more.size, sizeof(*more.keys));
		more.values = calloc(more.size, sizeof(*more.values));
		if (!more.keys || !more.values) {
			free(more.keys);
			free(more.values);
			return -ENOMEM;
		}
		for (i = 0; i < map->size; i++) {
			if (map->keys[i])
				map_put(&more, map->keys[i] - 1, map->values[i]);
		}
		free(map->keys);
		free(map->values);
		*map = more;
	}
	map_put(map, key, value);
	return 0;
}

static inline void map_clear(struct map *map)
{
	if (map->nr)
		memset(map->keys, 0, map->size * sizeof(*map->keys));
	map->nr = 0;
}

static inline void map_free(struct map *map)
{
	free(map->keys);
	free(map->values);
}

/* An array whose items are found by a key */
struct keyed {
	struct array	all;
	struct map	at;
};

static inline __u32 keyed_get(const struct keyed *keyed, __u64 key)
{
	return map_get(&keyed->at, key);
}

/* Room for one more with a key, at the end: 0 or -ENOMEM */
static inline int keyed_grow(struct keyed *keyed, __u64 key)
{
	int err = array_grow(&keyed->all);

	return err ? err : map_add(&keyed->at, key, keyed->all.nr);
}

#endif /* __UNWIND_TABLE_MAP_H */
