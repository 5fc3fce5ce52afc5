/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_UNWIND_TABLES_H
#define __PERF_UNWIND_TABLES_H

struct target;

void unwind_tables__start(struct target *target);
void unwind_tables__stop(void);

#endif /* __PERF_UNWIND_TABLES_H */
