/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_UNWIND_TABLES_H
#define __PERF_UNWIND_TABLES_H

#include <stdbool.h>

struct record_opts;

bool unwind_tables__supported(void);
void unwind_tables__start(struct record_opts *opts);
void unwind_tables__prepare_workload(const char *name);
void unwind_tables__stop(void);

#endif /* __PERF_UNWIND_TABLES_H */
