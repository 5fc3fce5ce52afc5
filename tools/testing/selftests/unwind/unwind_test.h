/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by all tests of deferred user space unwinding: prerequisites of the
 * machine and of the kernel, and functions that libc does not have.
 */
#ifndef _SELFTESTS_UNWIND_TEST_H
#define _SELFTESTS_UNWIND_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest.h"

/* Flags between threads: writes before set_flag() are seen after it. */
static inline int get_flag(const int *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static inline void set_flag(int *flag, int value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/*
 * Prerequisites of a test. These return NULL, or the reason for a skip.
 * Anything that goes wrong after them is a failure.
 */
const char *need_root(void);
const char *need_file(const char *path);
const char *need_program(const char *name);
const char *need_debugfs(void);
const char *need_tracepoint(const char *system, const char *name);
const char *need_cpus(int nr);
const char *need_failing_allocations(void);

/* The files of the test and of the kernel */
const char *test_file(const char *name);
const char *tracefs(void);
long tracepoint_id(const char *system, const char *name);
struct mapping {
	unsigned long start;
	unsigned long offset;
	char path[512];
};

bool find_mapping(const void *addr, struct mapping *map);
uint64_t file_offset(const void *addr, char *path, size_t size);
int write_file(const char *path, const char *text);
long long up_read_number(const char *path);
int up_write_number(const char *path, long long val);

/* The nth allocation of the thread fails whose number is written there. */
#define FAIL_NTH	"/proc/thread-self/fail-nth"
int let_allocations_fail(bool on);

/* The machine */
pid_t my_tid(void);
int pin_to_cpu(int cpu);
int nth_cpu(int index);
bool cpu_has(const char *flag);
bool cpu_has_la57(void);
uint64_t kernel_alias(unsigned long addr);
int uring_open(const struct io_uring_sqe *sqe);
bool map_code(unsigned long addr, size_t size);
char *absent_stack(const void *ret);
int uffd_on(unsigned long addr, size_t len, uint64_t mode, uint64_t features);

/* Signals, past the C library */
#ifndef SA_RESTORER
#define SA_RESTORER	0x04000000
#endif

struct raw_sigaction {
	unsigned long handler;
	unsigned long flags;
	unsigned long restorer;
	unsigned char mask[8];
};

int raw_sigaction(int sig, const void *handler, unsigned long flags, const void *restorer);

#endif /* _SELFTESTS_UNWIND_TEST_H */
