// SPDX-License-Identifier: GPL-2.0
/* The device: see kernel.h */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <linux/elf-em.h>
#include <linux/unwind_table.h>

#include "kernel.h"
#include "process.h"
#include "unwind-table.h"

#define MAX_KB_NAME	"sys/kernel/unwind_table_max_kb"

/* By the numbers of DWARF */
#define REG_SP		7

/* How often the device is asked while some memory is locked: for 31 ms in all */
#define LOCKED_TRIES	6
#define LOCKED_NS	1000000

/* Does the kernel know the flag in the tables? Parsers are forks of this process. */
static void ask_for_no_call(struct kernel *kernel)
{
	const struct {
		struct unwind_table_header	header;
		struct unwind_table_run		run;
		__u32				blocks[2];
		struct unwind_table_row		row;
		struct unwind_table_rule	rule;
		__u32				end[];
	} table = {
		.header = {
			.magic		= UNWIND_TABLE_MAGIC,
			.version	= UNWIND_TABLE_VERSION,
			.machine	= EM_X86_64,
			.word_size	= 8,
			.nr_runs	= 1,
			.nr_pages	= 1,
			.nr_rows	= 1,
			.nr_rules	= 1,
			.block_shift	= UNWIND_TABLE_PAGE_SHIFT,
		},
		.run.nr_pages = 1,
		.rule = {
			.kind	= UNWIND_TABLE_CALLER,
			.flags	= UNWIND_TABLE_NO_CALL,
			.cfa	= { .where = UNWIND_TABLE_REG, .reg = REG_SP, .off = 8 },
			.ra	= { .where = UNWIND_TABLE_CFA_DEREF, .off = -8 },
		},
	};
	enum outcome outcome;
	struct made made;

	outcome = kernel_make(kernel, &table, offsetof(typeof(table), end), &made);
	unwind_table_says_no_call = outcome != OUTCOME_BAD_TABLE;
	if (!outcome)
		kernel_drop(kernel, made.table);
}

int kernel_open(struct kernel *kernel, const char *device)
{
	kernel->device = open(device ?: KERNEL_DEVICE, O_RDWR | O_CLOEXEC);
	if (kernel->device < 0)
		return -errno;
	ask_for_no_call(kernel);
	return 0;
}

/*
 * Ask about a mapping of this process or the reader. The kernel does not wait if the memory is
 * locked, as by khugepaged; but that is soon over.
 */
static int ask(const struct kernel *kernel, unsigned long command, void *arg)
{
	struct timespec pause = { .tv_nsec = LOCKED_NS };
	int i, ret;

	for (i = 1; ; i++) {
		ret = ioctl(kernel->device, command, arg);
		if (ret >= 0 || errno != EAGAIN || i == LOCKED_TRIES)
			return ret < 0 ? -errno : ret;
		nanosleep(&pause, NULL);
		pause.tv_nsec *= 2;
	}
}

enum outcome kernel_make(struct kernel *kernel, const void *data, size_t len, struct made *made)
{
	struct unwind_table_make arg = {
		.size	= sizeof(arg),
		.data	= (unsigned long)data,
		.len	= len,
	};
	int number = ioctl(kernel->device, UNWIND_TABLE_MAKE, &arg);

	if (number >= 0) {
		made->table = number;
		return OUTCOME_DONE;
	}
	kernel->error = errno;
	switch (errno) {
	case ENOMEM:
	case ENOSPC:
		return OUTCOME_KERNEL_FULL;
	case EINVAL:
		return OUTCOME_BAD_TABLE;
	default:
		return OUTCOME_NOT_MADE;
	}
}

void kernel_drop(const struct kernel *kernel, __u32 table)
{
	ioctl(kernel->device, UNWIND_TABLE_DROP, table);
}

bool kernel_has_table(const struct kernel *kernel, int pidfd, __u64 address)
{
	struct unwind_table_query arg = {
		.size		= sizeof(arg),
		.pidfd		= pidfd,
		.address	= address,
	};

	return ask(kernel, UNWIND_TABLE_QUERY, &arg) == 1;
}

enum outcome kernel_attach(struct kernel *kernel, __u32 table, int pidfd, __u64 address, int file,
			   const struct file_id *id)
{
	struct unwind_table_attach arg = {
		.size		= sizeof(arg),
		.table		= table,
		.pidfd		= pidfd,
		.address	= address,
	};

	if (id) {
		arg.flags = UNWIND_TABLE_ATTACH_FD;
		arg.file = file;
		arg.file_size = id->size;
		arg.mtime_sec = id->mtime_sec;
		arg.mtime_nsec = id->mtime_nsec;
	}
	kernel->error = -ask(kernel, UNWIND_TABLE_ATTACH, &arg);
	switch (kernel->error) {
	case 0:
		return OUTCOME_DONE;
	case EEXIST:
		return OUTCOME_SHARED;
	case EPERM:
		/* We may not do that. If another service has, there is nothing to do. */
		kernel->own_only = true;
		return kernel_has_table(kernel, pidfd, address) ? OUTCOME_SHARED : OUTCOME_DENIED;
	case EAGAIN:
		return OUTCOME_IN_USE;
	case ETXTBSY:
		return OUTCOME_WRITTEN;
	case ESTALE:
		return OUTCOME_CHANGED;
	case EFAULT:
	case ESRCH:
		/* The process has ended, or has unmapped the file. */
		return OUTCOME_DIED;
	case ENOMEM:
	case ENOSPC:
		return OUTCOME_KERNEL_FULL;
	default:
		return OUTCOME_NOT_ATTACHED;
	}
}

/* The size of the vDSO in this process; it is the same in all, and nobody has written to it. */
static size_t vdso_size(void)
{
	unsigned long start, end;
	char line[256];
	size_t size = 0;
	FILE *maps;

	maps = process_fopen_proc("self/maps");
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, " [vdso]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
			size = end - start;
	if (maps)
		fclose(maps);
	return size;
}

enum outcome kernel_make_vdso(struct kernel *kernel, struct made *made)
{
	unsigned long address = getauxval(AT_SYSINFO_EHDR);
	struct unwind_table *table;
	enum outcome outcome;
	const void *data;
	int pidfd, error;
	size_t len;

	if (!address)
		return OUTCOME_NO_CFI;
	error = unwind_table_from_memory((void *)address, vdso_size(), &table);
	kernel->error = -error;
	if (error)
		return error == -ENOMEM ? OUTCOME_NOT_MADE : OUTCOME_NO_CFI;
	data = unwind_table_data(table, &len);
	made->bytes = len;
	outcome = kernel_make(kernel, data, len, made);
	unwind_table_free(table);
	if (outcome)
		return outcome;
	pidfd = syscall(SYS_pidfd_open, getpid(), 0);
	outcome = kernel_attach(kernel, made->table, pidfd, address, -1, NULL);
	close(pidfd);
	if (outcome)
		kernel_drop(kernel, made->table);
	return outcome;
}

__u64 kernel_max_bytes(void)
{
	unsigned long long kb = 0;
	FILE *file;

	file = process_fopen_proc(MAX_KB_NAME);
	if (!file)
		return UINT64_MAX;
	if (fscanf(file, "%llu", &kb) != 1)
		kb = UINT64_MAX >> 10;
	fclose(file);
	return kb << 10;
}
