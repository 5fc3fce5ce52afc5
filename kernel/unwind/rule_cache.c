// SPDX-License-Identifier: GPL-2.0
/*
 * Rules that were found in tables, see rule_cache.h.
 */

#include <linux/gfp.h>
#include <linux/slab.h>

#include "rule_cache.h"

/**
 * rule_cache_alloc - Make an empty cache
 * @gfp:	How to get the memory, which is single pages
 *
 * Return: The cache, or NULL if there is no memory.
 */
struct rule_cache *rule_cache_alloc(gfp_t gfp)
{
	struct rule_cache *cache;
	unsigned int i;

	cache = kzalloc(sizeof(*cache), gfp);
	if (!cache)
		return NULL;

	for (i = 0; i < RULE_PAGES; i++) {
		cache->pages[i] = (void *)__get_free_page(gfp | __GFP_ZERO);
		if (!cache->pages[i]) {
			rule_cache_free(cache);
			return NULL;
		}
	}
	return cache;
}

/**
 * rule_cache_free - Free a cache
 * @cache:	Cache that nobody uses any more, or NULL
 */
void rule_cache_free(struct rule_cache *cache)
{
	unsigned int i;

	if (!cache)
		return;

	for (i = 0; i < RULE_PAGES; i++)
		free_page((unsigned long)cache->pages[i]);
	kfree(cache);
}
