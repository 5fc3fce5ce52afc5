// SPDX-License-Identifier: GPL-2.0
/*
 * The sample tracer, samples/unwind/unwind-tracer.c: load it, call the probed
 * function, and read its output.
 */
#include "unwind_chain.h"
#include "unwind_harness.h"

#define MODULE		"unwind-tracer"
#define OWN_STACK	"/sys/kernel/debug/unwind_tracer"
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

/* The next line of the module, without its prefix; NULL if there is none. */
static char *next_line(int kmsg)
{
	static const char prefix[] = ";unwind_tracer: ";
	static char record[8192];
	ssize_t len;
	char *line;

	for (;;) {
		len = read(kmsg, record, sizeof(record) - 1);
		/* Overwritten lines are not ours. */
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

FIXTURE(sample)
{
	int kmsg;
};

FIXTURE_SETUP(sample)
{
	if (must_skip(_metadata, need_root()))
		return;
	self->kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (self->kmsg < 0)
		SKIP(return, "needs /dev/kmsg");
}

FIXTURE_TEARDOWN(sample)
{
	close(self->kmsg);
}

/*
 * Trace @symbol in this process, and read @kmsg from here on. Returns false on
 * failure.
 */
static bool traced(struct __test_metadata *_metadata, int kmsg, const char *symbol)
{
	char args[128];
	const char *why;

	snprintf(args, sizeof(args), "symbol=%s pid=%d", symbol, getpid());
	why = load(args);
	if (must_skip(_metadata, why && strstr(why, "needs") ? why : NULL))
		return false;
	EXPECT_EQ(NULL, why);
	lseek(kmsg, 0, SEEK_END);
	return !why;
}

static void untraced(struct __test_metadata *_metadata)
{
	ASSERT_EQ(0, syscall(SYS_delete_module, "unwind_tracer", O_NONBLOCK));
}

/* The next call is one that a stack follows; put its cookie into @cookie. */
static void expect_call(struct __test_metadata *_metadata, int kmsg, char cookie[32])
{
	char want[64], *line = next_line(kmsg);

	ASSERT_NE(NULL, line);
	snprintf(want, sizeof(want), "call by %d, stack ", my_tid());
	ASSERT_EQ(0, strncmp(want, line, strlen(want)));
	snprintf(cookie, 32, "%s", line + strlen(want));
}

static void expect_stack(struct __test_metadata *_metadata, int kmsg, const char *cookie)
{
	char want[128];
	int i;

	snprintf(want, sizeof(want), "stack %s of %d, %d frames", cookie, my_tid(),
		 CHAIN_NR);
	EXPECT_STREQ(want, next_line(kmsg));
	for (i = 0; i < CHAIN_NR; i++) {
		snprintf(want, sizeof(want), "  %lx", (unsigned long)chain_frames[i]);
		EXPECT_STREQ(want, next_line(kmsg));
	}
}

TEST_F(sample, module_prints_the_exact_stack_of_each_call)
{
	char cookie[32], last[32] = "";
	int i;

	if (!traced(_metadata, self->kmsg, "__x64_sys_getppid"))
		return;
	for (i = 0; i < CALLS; i++)
		chain_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
	untraced(_metadata);
	/* The module does not trace this call. */
	chain_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);

	for (i = 0; i < CALLS; i++) {
		expect_call(_metadata, self->kmsg, cookie);
		EXPECT_STRNE(last, cookie);
		snprintf(last, sizeof(last), "%s", cookie);
		expect_stack(_metadata, self->kmsg, cookie);
	}
	EXPECT_EQ(NULL, next_line(self->kmsg));
}

/*
 * On the way out the task is called with the stack, and looks for signals after that.
 * The one it finds is ignored; a handler would begin a new context.
 */
TEST_F(sample, module_prints_the_stack_again_for_a_call_that_comes_after_it)
{
	uint64_t set = 1ULL << (SIGUSR1 - 1);
	char cookie[32], want[64], *line;
	int again = 0;

	signal(SIGUSR1, SIG_IGN);
	ASSERT_EQ(0, syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, sizeof(set)));
	ASSERT_EQ(0, raise(SIGUSR1));
	if (!traced(_metadata, self->kmsg, "recalc_sigpending"))
		return;
	ASSERT_EQ(0, chain_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&set, 0,
				   sizeof(set), 0, 0));
	untraced(_metadata);

	expect_call(_metadata, self->kmsg, cookie);
	expect_stack(_metadata, self->kmsg, cookie);
	snprintf(want, sizeof(want), "call by %d, stack is known", my_tid());
	while ((line = next_line(self->kmsg))) {
		EXPECT_STREQ(want, line);
		expect_stack(_metadata, self->kmsg, cookie);
		again++;
	}
	EXPECT_LE(1, again);
}

/*
 * Both ways in one system call: the reader gets its stack at once, and earlier
 * requests are answered with the same one.
 */
TEST_F(sample, reader_of_the_file_gets_its_own_stack_at_once)
{
	char cookie[32], got[256], want[256];
	int fd;

	if (!traced(_metadata, self->kmsg, "__x64_sys_read"))
		return;
	fd = open(OWN_STACK, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	memset(got, 0, sizeof(got));
	EXPECT_LT(0, chain_syscall(SYS_read, fd, (long)got, sizeof(got) - 1, 0, 0, 0));
	close(fd);
	untraced(_metadata);

	snprintf(want, sizeof(want), "%lx\n%lx\n%lx\n%lx\n",
		 (long)chain_ip_syscall, (long)chain_ip_middle, (long)chain_ip_outer,
		 (long)chain_ip_base);
	EXPECT_STREQ(want, got);
	expect_call(_metadata, self->kmsg, cookie);
	expect_stack(_metadata, self->kmsg, cookie);
	EXPECT_EQ(NULL, next_line(self->kmsg));
	EXPECT_EQ(-1, access(OWN_STACK, F_OK));
}

TEST_HARNESS_MAIN
