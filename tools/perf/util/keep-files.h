/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_KEEP_FILES_H
#define __PERF_KEEP_FILES_H

#include <sys/types.h>

struct target;

void keep_files__start(const struct target *target, pid_t workload, bool inherit);
void keep_files__stop(void);

#endif /* __PERF_KEEP_FILES_H */
