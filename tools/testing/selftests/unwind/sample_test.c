// SPDX-License-Identifier: GPL-2.0
/*
 * The sample tracer, samples/unwind/unwind-tracer.c: load it, call what it
 * probes, and read what it prints.
 */
#include "unwind_chain.h"
#include "unwind_harness.h"

#define MODULE		"unwind-tracer"
#define CALLS		3

/* It lies beside the test, or where modprobe finds it. */
static const char *load(const char *args)
{
	char command[512];
	int fd, ret;

	fd = open(test_file(MODULE ".ko"), O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ret = syscall(SYS_finit_module, fd, args, 0);
		close(fd);
		return ret ? "the module cannot be loaded" : NULL;
	}
	snprintf(command, sizeof(command), "modprobe -q " MODULE " %s", args);
	return system(command) ? "needs the module " MODULE
				 " (CONFIG_SAMPLE_UNWIND_DEFERRED=m)" : NULL;
}

/* The next line of the module's, without its prefix; NULL if there is none. */
static char *next_line(int kmsg)
{
	static const char prefix[] = ";unwind_tracer: ";
	static char record[8192];
	ssize_t len;
	char *line;

	for (;;) {
		len = read(kmsg, record, sizeof(record) - 1);
		/* What was overwritten meanwhile is not ours. */
		if (len < 0 && errno == EPIPE)
			continue;
		if (len <= 0)
			return NULL;
		record[len] = 0;
		line = strstr(record, prefix);
		if (line) {
			record[strcspn(record, "\n")] = 0;
			return line + strlen(prefix);
		}
	}
}

TEST(module_prints_the_exact_stack_of_each_call)
{
	static const char * const ips[] = {
		chain_ip_syscall, chain_ip_middle, chain_ip_outer, chain_ip_base
	};
	char args[64], want[128], cookie[32], last[32] = "";
	const char *why;
	int kmsg, i, j;
	char *line;

	if (must_skip(_metadata, need_root()))
		return;
	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg < 0)
		SKIP(return, "needs /dev/kmsg");
	lseek(kmsg, 0, SEEK_END);
	snprintf(args, sizeof(args), "symbol=__x64_sys_getppid pid=%d", getpid());
	why = load(args);
	if (must_skip(_metadata, why && strstr(why, "needs") ? why : NULL))
		return;
	ASSERT_EQ(NULL, why);

	for (i = 0; i < CALLS; i++)
		chain_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
	ASSERT_EQ(0, syscall(SYS_delete_module, "unwind_tracer", O_NONBLOCK));
	/* Of this one it does not know. */
	chain_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);

	for (i = 0; i < CALLS; i++) {
		line = next_line(kmsg);
		ASSERT_NE(NULL, line);
		snprintf(want, sizeof(want), "call by %d, stack ", my_tid());
		ASSERT_EQ(0, strncmp(want, line, strlen(want)));
		snprintf(cookie, sizeof(cookie), "%s", line + strlen(want));
		EXPECT_STRNE(last, cookie);
		snprintf(last, sizeof(last), "%s", cookie);

		snprintf(want, sizeof(want), "stack %s of %d, %d frames", cookie,
			 my_tid(), CHAIN_NR);
		EXPECT_STREQ(want, next_line(kmsg));
		for (j = 0; j < CHAIN_NR; j++) {
			snprintf(want, sizeof(want), "  %lx", (unsigned long)ips[j]);
			EXPECT_STREQ(want, next_line(kmsg));
		}
	}
	EXPECT_EQ(NULL, next_line(kmsg));
	close(kmsg);
}

TEST_HARNESS_MAIN
