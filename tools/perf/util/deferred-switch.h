/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_DEFERRED_SWITCH_H
#define __PERF_DEFERRED_SWITCH_H

#include <stddef.h>
#include <linux/types.h>
#include "deferred-callchain.h"

struct deferred_switch;
struct evlist;

struct deferred_switch *deferred_switch__new(struct evlist *evlist);
void deferred_switch__delete(struct deferred_switch *ds);

void deferred_switch__written(struct deferred_switch *ds, const void *buffer, const void *buf,
			      size_t size, u64 offset);
int deferred_switch__blank(struct deferred_switch *ds, int fd);
int deferred_switch__write(struct deferred_switch *ds, deferred_parked_t write, void *priv);

#endif /* __PERF_DEFERRED_SWITCH_H */
