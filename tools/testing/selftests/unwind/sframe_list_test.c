// SPDX-License-Identifier: GPL-2.0
/*
 * Tables that prctl() adds and removes by a struct, and the list of those that it
 * has added: /proc/PID/sframe_tables.
 */
#include <pthread.h>
#include <signal.h>

#include "sframe_image.h"
#include "unwind_harness.h"

/* What the kernel documents as its limit for tables that are added */
#define MAX_ADDED	4096

/* ------------------------------------------------------------------------ */
/* The list of tables							      */

#define LINE_MAX_LEN	72

/* What comes from @fd, in reads of no more than @chunk bytes; NULL if it fails */
static char *read_all(int fd, size_t chunk)
{
	size_t len = 0, room = (MAX_ADDED + 1) * LINE_MAX_LEN;
	char *text = malloc(room + 1);
	ssize_t n;

	do {
		n = read(fd, text + len, chunk < room - len ? chunk : room - len);
		if (n > 0)
			len += n;
	} while (n > 0);
	text[len] = '\0';
	return n ? NULL : text;
}

static int list_open(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/sframe_tables", pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The list of a process, or the reason why there is none */
static char *list_of(pid_t pid)
{
	int fd = list_open(pid);
	char *text;

	if (fd < 0)
		return strerror(errno);
	text = read_all(fd, PAGE);
	close(fd);
	return text ?: "read() failed";
}

/* Append the line of a table. */
static char *put_line(char *to, unsigned long text, unsigned long text_end,
		      unsigned long table, unsigned long table_end)
{
	return to + sprintf(to, "%08lx-%08lx %08lx-%08lx\n", text, text_end,
			    table, table_end);
}

/* Pieces of code, in the order of their addresses */
#define NR_AREAS	3

FIXTURE(tables)
{
	struct area areas[NR_AREAS];
	char *mem;
};

FIXTURE_SETUP(tables)
{
	int i;

	if (must_skip(_metadata, need_sframe()))
		return;
	self->mem = (char *)map_anon(0, NR_AREAS * AREA_SIZE, PROT_CODE, 0);
	ASSERT_NE(MAP_FAILED, self->mem);
	for (i = 0; i < NR_AREAS; i++)
		ASSERT_TRUE(area_fill(&self->areas[i],
				      (u8 *)self->mem + i * AREA_SIZE,
				      i ? 3 : 2, true, true));
}

FIXTURE_TEARDOWN(tables)
{
	munmap(self->mem, NR_AREAS * AREA_SIZE);
}

/* The list of the areas whose bit is in @which */
static const char *lines_of(const struct area *areas, unsigned int which)
{
	static char text[NR_AREAS * LINE_MAX_LEN];
	char *to = text;
	int i;

	*to = '\0';
	for (i = 0; i < NR_AREAS; i++) {
		if (which & (1 << i))
			to = put_line(to, areas[i].text, areas[i].text_end,
				      areas[i].table, areas[i].table_end);
	}
	return text;
}

static struct prctl_sframe arg_of(const struct area *area)
{
	struct prctl_sframe arg = {
		.size = sizeof(arg),
		.sframe_start = area->table,
		.sframe_end = area->table_end,
		.text_start = area->text,
		.text_end = area->text_end,
	};

	return arg;
}

/* ------------------------------------------------------------------------ */
/* The struct								      */

static const unsigned long ops[] = { PR_SFRAME_ADD, PR_SFRAME_REMOVE };

TEST_F(tables, struct_adds_and_removes)
{
	struct area *a = &self->areas[0];
	struct prctl_sframe arg = arg_of(a);

	EXPECT_EQ(-ENOENT, struct_op(PR_SFRAME_REMOVE, &arg));
	ASSERT_EQ(0, struct_op(PR_SFRAME_ADD, &arg));
	EXPECT_TRUE(is_exact(&a->code));
	EXPECT_EQ(-EEXIST, struct_op(PR_SFRAME_ADD, &arg));
	EXPECT_EQ(-EEXIST, area_add(a));
	ASSERT_EQ(0, struct_op(PR_SFRAME_REMOVE, &arg));
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_EQ(-ENOENT, struct_op(PR_SFRAME_REMOVE, &arg));
	EXPECT_EQ(-ENOENT, remove_table(a->table));

	/* What the one command adds, the other removes. */
	ASSERT_EQ(0, area_add(a));
	EXPECT_EQ(0, struct_op(PR_SFRAME_REMOVE, &arg));
	EXPECT_TRUE(is_without_table(&a->code));
	ASSERT_EQ(0, struct_op(PR_SFRAME_ADD, &arg));
	EXPECT_EQ(0, remove_table(a->table));
	EXPECT_TRUE(is_without_table(&a->code));
	EXPECT_STREQ("", list_of(getpid()));
}

TEST_F(tables, unknown_operations_and_used_arguments_give_einval)
{
	struct prctl_sframe arg = arg_of(&self->areas[0]);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		EXPECT_EQ(-1, prctl(PR_SFRAME, ops[i], &arg, 1, 0));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, prctl(PR_SFRAME, ops[i], &arg, 0, 1));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-EINVAL, struct_op(ops[i] | 1UL << 32, &arg));
		EXPECT_EQ(-EINVAL, struct_op(ops[i] | 1UL << 31, &arg));
	}
	EXPECT_EQ(-EINVAL, struct_op(0, &arg));
	EXPECT_EQ(-EINVAL, struct_op(PR_SFRAME_ADD | PR_SFRAME_REMOVE, &arg));
	EXPECT_EQ(-EINVAL, struct_op(4, &arg));
	EXPECT_EQ(-EINVAL, struct_op(-1UL, &arg));
	/* Of an unknown one, the argument is not looked at. */
	EXPECT_EQ(-EINVAL, struct_op(0, NULL));
	EXPECT_STREQ("", list_of(getpid()));
}

TEST_F(tables, flags_give_einval)
{
	struct prctl_sframe arg = arg_of(&self->areas[0]);
	struct prctl_sframe other = arg_of(&self->areas[1]);
	int bit;

	ASSERT_EQ(0, struct_op(PR_SFRAME_ADD, &arg));
	for (bit = 0; bit < 32; bit++) {
		arg.flags = 1U << bit;
		EXPECT_EQ(-EINVAL, struct_op(PR_SFRAME_REMOVE, &arg));
		other.flags = 1U << bit;
		EXPECT_EQ(-EINVAL, struct_op(PR_SFRAME_ADD, &other));
	}
	EXPECT_STREQ(lines_of(self->areas, 1), list_of(getpid()));
}

TEST_F(tables, struct_that_is_too_small_gives_einval)
{
	struct prctl_sframe arg = arg_of(&self->areas[0]);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		for (arg.size = 0; arg.size < sizeof(arg); arg.size++)
			EXPECT_EQ(-EINVAL, struct_op(ops[i], &arg));
	}
	EXPECT_STREQ("", list_of(getpid()));
}

TEST_F(tables, larger_struct_is_accepted_if_the_rest_is_zero)
{
	static const u32 sizes[] = { 41, 47, 48, 64, 100, PAGE - 1, PAGE };
	struct area *a = &self->areas[0];
	struct {
		struct prctl_sframe arg;
		u8 rest[2 * PAGE];
	} large = { arg_of(a) };
	struct prctl_sframe *arg = &large.arg;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u8 *last = (u8 *)arg + sizes[i] - 1;

		arg->size = sizes[i];
		*last = 1;
		EXPECT_EQ(-E2BIG, struct_op(PR_SFRAME_ADD, arg));
		*last = 0;
		/* What comes after the struct is nobody's business. */
		last[1] = 1;
		EXPECT_EQ(0, struct_op(PR_SFRAME_ADD, arg));
		last[1] = 0;
		EXPECT_STREQ(lines_of(self->areas, 1), list_of(getpid()));
		EXPECT_TRUE(is_exact(&a->code));

		large.rest[0] = 1;
		EXPECT_EQ(-E2BIG, struct_op(PR_SFRAME_REMOVE, arg));
		large.rest[0] = 0;
		EXPECT_EQ(0, struct_op(PR_SFRAME_REMOVE, arg));
		EXPECT_STREQ("", list_of(getpid()));
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		arg->size = PAGE + 1;
		EXPECT_EQ(-E2BIG, struct_op(ops[i], arg));
		arg->size = -1U;
		EXPECT_EQ(-E2BIG, struct_op(ops[i], arg));
	}
}

TEST_F(tables, struct_that_cannot_be_read_gives_efault)
{
	struct prctl_sframe arg = arg_of(&self->areas[0]);
	u8 *end = map_anon(0, 2 * PAGE, PROT_READ | PROT_WRITE, 0) + PAGE;
	unsigned int i, len;

	ASSERT_EQ(0, munmap(end, PAGE));
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		EXPECT_EQ(-EFAULT, struct_op(ops[i], NULL));
		EXPECT_EQ(-EFAULT, struct_op(ops[i], (void *)end));
		EXPECT_EQ(-EFAULT, struct_op(ops[i], (void *)0xffffffff81000000));
		EXPECT_EQ(-EFAULT, struct_op(ops[i], (void *)-8UL));

		arg.size = sizeof(arg);
		for (len = 1; len < sizeof(arg); len++) {
			memcpy(end - len, &arg, len);
			EXPECT_EQ(-EFAULT, struct_op(ops[i], (void *)(end - len)));
		}
		/* As it is for the part that this kernel does not know */
		arg.size = sizeof(arg) + 1;
		memcpy(end - sizeof(arg), &arg, sizeof(arg));
		EXPECT_EQ(-EFAULT, struct_op(ops[i], (void *)(end - sizeof(arg))));
	}
	EXPECT_STREQ("", list_of(getpid()));

	arg.size = sizeof(arg);
	memcpy(end - sizeof(arg), &arg, sizeof(arg));
	EXPECT_EQ(0, struct_op(PR_SFRAME_ADD, (void *)(end - sizeof(arg))));
	EXPECT_TRUE(is_exact(&self->areas[0].code));
}

TEST_F(tables, remove_wants_all_of_both_ranges_exact)
{
	struct area *a = &self->areas[1];
	const struct prctl_sframe right = arg_of(a);
	const struct prctl_sframe other = arg_of(&self->areas[0]);
	unsigned int i;

	ASSERT_EQ(0, area_add(&self->areas[0]));
	ASSERT_EQ(0, area_add(a));
	for (i = 0; i < 4; i++) {
		struct prctl_sframe arg = right;
		__u64 *member = &arg.sframe_start + i;

		*member += 1;
		EXPECT_EQ(-ENOENT, struct_op(PR_SFRAME_REMOVE, &arg));
		*member -= 2;
		EXPECT_EQ(-ENOENT, struct_op(PR_SFRAME_REMOVE, &arg));
		*member = *(&other.sframe_start + i);
		EXPECT_EQ(-ENOENT, struct_op(PR_SFRAME_REMOVE, &arg));
		*member = 0;
		EXPECT_EQ(-ENOENT, struct_op(PR_SFRAME_REMOVE, &arg));
		*member = -1UL;
		EXPECT_EQ(-ENOENT, struct_op(PR_SFRAME_REMOVE, &arg));
	}
	EXPECT_STREQ(lines_of(self->areas, 3), list_of(getpid()));
	EXPECT_TRUE(is_exact(&a->code));
	EXPECT_EQ(0, struct_op(PR_SFRAME_REMOVE, &right));
	EXPECT_STREQ(lines_of(self->areas, 1), list_of(getpid()));
}

/*
 * The leaf and stub 0 are in the first range. Without the second one, the walk
 * ends at stub 1, which leaves nothing in the frame pointer.
 */
TEST_F(tables, remove_leaves_the_other_range_of_the_same_table)
{
	struct area *a = &self->areas[0];
	unsigned long middle = a->code.stub[1];
	struct prctl_sframe first = arg_of(a), second = arg_of(a);
	char line[LINE_MAX_LEN];
	u64 ips[MAX_IPS];

	first.text_end = middle;
	second.text_start = middle;

	ASSERT_EQ(0, struct_op(PR_SFRAME_ADD, &first));
	ASSERT_EQ(0, struct_op(PR_SFRAME_ADD, &second));
	EXPECT_TRUE(is_exact(&a->code));

	ASSERT_EQ(0, struct_op(PR_SFRAME_REMOVE, &second));
	put_line(line, a->text, middle, a->table, a->table_end);
	EXPECT_STREQ(line, list_of(getpid()));
	EXPECT_EQ(3, stack_of((void *)a->code.top, ips));
	EXPECT_TRUE(up_frames_equal(ips, 3, a->code.ips, 3));

	ASSERT_EQ(0, struct_op(PR_SFRAME_ADD, &second));
	EXPECT_TRUE(is_exact(&a->code));
	ASSERT_EQ(0, struct_op(PR_SFRAME_REMOVE, &first));
	put_line(line, middle, a->text_end, a->table, a->table_end);
	EXPECT_STREQ(line, list_of(getpid()));
	EXPECT_TRUE(is_without_table(&a->code));
}

/* ------------------------------------------------------------------------ */
/* What is in the list							      */

TEST_F(tables, list_has_what_was_added_and_nothing_else)
{
	struct area *a = self->areas;

	EXPECT_STREQ("", list_of(getpid()));
	/* That there is no table is remembered, and not listed. */
	EXPECT_TRUE(is_without_table(&a[0].code));
	EXPECT_STREQ("", list_of(getpid()));

	ASSERT_EQ(0, area_add(&a[2]));
	EXPECT_STREQ(lines_of(a, 4), list_of(getpid()));
	ASSERT_EQ(0, area_add(&a[0]));
	EXPECT_STREQ(lines_of(a, 5), list_of(getpid()));
	ASSERT_EQ(0, area_add(&a[1]));
	EXPECT_STREQ(lines_of(a, 7), list_of(getpid()));
	EXPECT_EQ(-EEXIST, area_add(&a[1]));
	EXPECT_STREQ(lines_of(a, 7), list_of(getpid()));

	ASSERT_EQ(0, remove_table(a[1].table));
	EXPECT_STREQ(lines_of(a, 5), list_of(getpid()));
	ASSERT_EQ(0, remove_table(a[0].table));
	EXPECT_STREQ(lines_of(a, 4), list_of(getpid()));
	ASSERT_EQ(0, remove_table(a[2].table));
	EXPECT_STREQ("", list_of(getpid()));
}

/* Tables that the kernel found by itself are not for prctl(). */
TEST_F(tables, table_of_a_file_is_neither_listed_nor_removed)
{
	struct area *a = self->areas;
	struct prctl_sframe arg = { .size = sizeof(arg) };
	struct image image;

	ASSERT_TRUE(image_make(&image, 3, true));
	ASSERT_TRUE(image_map(&image));
	ASSERT_EQ(0, area_add(&a[0]));
	EXPECT_TRUE(is_exact(&image.code));
	EXPECT_STREQ(lines_of(a, 1), list_of(getpid()));

	arg.sframe_start = image.addr + FILE_TABLE;
	arg.sframe_end = arg.sframe_start + image.phdr[PH_SFRAME].p_memsz;
	arg.text_start = image.addr + FILE_TEXT;
	arg.text_end = arg.text_start + PAGE;
	EXPECT_EQ(-ENOENT, struct_op(PR_SFRAME_REMOVE, &arg));

	/* But one that was added takes its place. */
	ASSERT_EQ(0, struct_op(PR_SFRAME_ADD, &arg));
	EXPECT_TRUE(is_exact(&image.code));
	EXPECT_EQ(0, struct_op(PR_SFRAME_REMOVE, &arg));
	EXPECT_EQ(-ENOENT, struct_op(PR_SFRAME_REMOVE, &arg));
	EXPECT_TRUE(is_exact(&image.code));
	EXPECT_EQ(-ENOENT, struct_op(PR_SFRAME_REMOVE, &arg));
	EXPECT_STREQ(lines_of(a, 1), list_of(getpid()));
	image_free(&image);
}

TEST_F(tables, list_does_not_have_what_was_unmapped_or_moved)
{
	struct area *a = self->areas;
	void *to;
	int i;

	for (i = 0; i < NR_AREAS; i++)
		ASSERT_EQ(0, area_add(&a[i]));
	/* The last page of one table */
	ASSERT_EQ(0, munmap((void *)(a[1].table_end - PAGE), PAGE));
	EXPECT_STREQ(lines_of(a, 5), list_of(getpid()));
	/* The code of another one */
	ASSERT_TRUE(map_over(a[0].text, PAGE, PROT_CODE));
	EXPECT_STREQ(lines_of(a, 4), list_of(getpid()));
	/* Changes of protection are not looked at. */
	ASSERT_EQ(0, mprotect((void *)a[2].table, PAGE, PROT_NONE));
	EXPECT_STREQ(lines_of(a, 4), list_of(getpid()));
	to = map_anon(0, PAGE, PROT_NONE, 0);
	ASSERT_EQ(to, mremap((void *)a[2].table, PAGE, PAGE,
			     MREMAP_MAYMOVE | MREMAP_FIXED, to));
	EXPECT_STREQ("", list_of(getpid()));
}

/* It still keeps others from its code. */
TEST_F(tables, table_that_is_given_up_stays_in_the_list)
{
	/* That of @build */
	struct area *a = &self->areas[NR_AREAS - 1];

	ASSERT_EQ(0, area_add(a));
	spoil_index((u8 *)a->table);
	EXPECT_TRUE(is_cut(&a->code));
	EXPECT_STREQ(lines_of(self->areas, 4), list_of(getpid()));
	EXPECT_EQ(-EEXIST, area_add(a));
	EXPECT_EQ(0, remove_table(a->table));
	EXPECT_STREQ("", list_of(getpid()));
}

/* Whatever the size of the reads is, and wherever they begin */
TEST_F(tables, long_list_is_complete)
{
	static const size_t chunks[] = { 1 << 20, PAGE, 61, 7 };
	static char expected[(MAX_ADDED + 1) * LINE_MAX_LEN];
	struct area *a = &self->areas[0];
	char *to = expected, part[100];
	size_t len, at;
	unsigned int i;
	int fd;

	for (i = 0; i < MAX_ADDED; i++) {
		ASSERT_EQ(0, add_table(a->table, a->table_end, a->text + i,
				       a->text + i + 1));
		to = put_line(to, a->text + i, a->text + i + 1, a->table,
			      a->table_end);
	}
	len = to - expected;

	for (i = 0; i < ARRAY_SIZE(chunks); i++) {
		fd = list_open(getpid());
		ASSERT_LE(0, fd);
		EXPECT_EQ(0, strcmp(expected, read_all(fd, chunks[i]) ?: ""));
		ASSERT_EQ(0, lseek(fd, 0, SEEK_SET));
		EXPECT_EQ(0, strcmp(expected, read_all(fd, PAGE) ?: ""));
		close(fd);
	}

	fd = list_open(getpid());
	ASSERT_LE(0, fd);
	for (at = 0; at + sizeof(part) <= len; at += len / 13) {
		ASSERT_EQ(sizeof(part), pread(fd, part, sizeof(part), at));
		EXPECT_EQ(0, memcmp(part, expected + at, sizeof(part)));
	}
	EXPECT_EQ(0, pread(fd, part, sizeof(part), len));
	EXPECT_EQ(0, remove_table(a->table));
	EXPECT_EQ(0, pread(fd, part, sizeof(part), 0));
	close(fd);
}

/* One reader goes on where a table was that is gone. */
TEST_F(tables, list_goes_on_while_tables_come_and_go)
{
	struct area *a = self->areas;
	size_t len = strlen(lines_of(a, 1));
	char line[LINE_MAX_LEN];
	int fd;

	/* No more than what is asked for is kept from the time before. */
	ASSERT_EQ(0, area_add(&a[0]));
	ASSERT_EQ(0, area_add(&a[1]));
	fd = list_open(getpid());
	ASSERT_LE(0, fd);
	ASSERT_EQ(len, read(fd, line, len));
	EXPECT_EQ(0, memcmp(line, lines_of(a, 1), len));
	ASSERT_EQ(0, remove_table(a[0].table));
	ASSERT_EQ(0, remove_table(a[1].table));
	/* It starts in what was listed, and is too late. */
	ASSERT_EQ(0, add_table(a[0].table, a[0].table_end, a[0].text + 8,
			       a[0].text_end + 8));
	ASSERT_EQ(0, area_add(&a[2]));
	len = strlen(lines_of(a, 4));
	ASSERT_EQ(len, read(fd, line, sizeof(line)));
	EXPECT_EQ(0, memcmp(line, lines_of(a, 4), len));
	EXPECT_EQ(0, read(fd, line, sizeof(line)));
	close(fd);
}

static int stop_changes;

static void *change_tables(void *arg)
{
	struct area *a = arg;

	while (!get_flag(&stop_changes)) {
		struct prctl_sframe one = arg_of(a);

		if (struct_op(PR_SFRAME_ADD, &one) ||
		    struct_op(PR_SFRAME_REMOVE, &one))
			return arg;
	}
	return NULL;
}

TEST_F(tables, list_is_right_while_threads_add_and_remove)
{
	struct area *a = self->areas;
	unsigned int i, with = 0;
	char *both, *all;
	pthread_t thread;
	void *failed;

	ASSERT_EQ(0, area_add(&a[0]));
	ASSERT_EQ(0, area_add(&a[2]));
	both = strdup(lines_of(a, 5));
	all = strdup(lines_of(a, 7));
	set_flag(&stop_changes, 0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, change_tables, &a[1]));
	for (i = 0; i < 400; i++) {
		int fd = list_open(getpid());
		/* One line at a time */
		char *text = read_all(fd, 30);
		bool is_all;

		close(fd);
		ASSERT_NE(NULL, text);
		is_all = !strcmp(text, all);
		with += is_all;
		EXPECT_STREQ(is_all ? all : both, text);
		free(text);
	}
	set_flag(&stop_changes, 1);
	ASSERT_EQ(0, pthread_join(thread, &failed));
	EXPECT_EQ(NULL, failed);
	EXPECT_LT(0, with);
	EXPECT_GT(i, with);
	EXPECT_STREQ(both, list_of(getpid()));
}

/* ------------------------------------------------------------------------ */
/* Whose list it is							      */

/* A child that says when it has begun, and goes on when it is told to */
struct partner {
	pid_t pid;
	int in;
	int out;
};

/* Returns 0 in the child, whose standard input and output are the parent's. */
static pid_t partner_start(struct partner *partner)
{
	int in[2], out[2];
	char c = 0;

	if (pipe(in) || pipe(out))
		return -1;
	fflush(NULL);
	partner->pid = fork();
	if (!partner->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[0]);
		close(in[1]);
		close(out[0]);
		close(out[1]);
		if (write(1, "r", 1) != 1 || read(0, &c, 1) != 1)
			_exit(100);
		return 0;
	}
	partner->in = in[1];
	partner->out = out[0];
	close(in[0]);
	close(out[1]);
	if (partner->pid < 0 || read(partner->out, &c, 1) != 1 || c != 'r')
		return -1;
	return partner->pid;
}

static bool partner_go(struct partner *partner)
{
	return write(partner->in, "g", 1) == 1;
}

/* Returns its exit status. */
static int partner_wait(struct partner *partner)
{
	int status;

	close(partner->in);
	close(partner->out);
	if (waitpid(partner->pid, &status, 0) != partner->pid ||
	    !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

TEST_F(tables, child_has_the_same_list_and_its_own)
{
	struct area *a = self->areas;
	struct partner partner;
	int fd, is_same;

	ASSERT_EQ(0, area_add(&a[0]));
	ASSERT_EQ(0, area_add(&a[2]));
	if (!partner_start(&partner)) {
		is_same = !strcmp(lines_of(a, 5), list_of(getpid())) &&
			  !remove_table(a[0].table) && !area_add(&a[1]) &&
			  !strcmp(lines_of(a, 6), list_of(getpid())) &&
			  !strcmp(lines_of(a, 1), list_of(getppid()));
		_exit(!is_same);
	}
	ASSERT_LT(0, partner.pid);
	fd = list_open(partner.pid);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, remove_table(a[2].table));
	EXPECT_STREQ(lines_of(a, 5), read_all(fd, PAGE));
	EXPECT_TRUE(partner_go(&partner));
	EXPECT_EQ(0, partner_wait(&partner));
	EXPECT_STREQ(lines_of(a, 1), list_of(getpid()));

	/* The address space is gone. */
	ASSERT_EQ(0, lseek(fd, 0, SEEK_SET));
	EXPECT_STREQ("", read_all(fd, PAGE));
	close(fd);
}

/* The reader may be the last one that uses the address space. */
TEST_F(tables, list_of_a_process_that_exits_is_complete_or_empty)
{
	struct area *a = self->areas;
	int i, fd, status;
	pid_t pid;

	ASSERT_EQ(0, area_add(&a[0]));
	ASSERT_EQ(0, area_add(&a[1]));
	for (i = 0; i < 40; i++) {
		bool is_there = true;

		pid = fork();
		if (!pid)
			pause();
		ASSERT_LT(0, pid);
		fd = list_open(pid);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		while (is_there) {
			char *text;

			ASSERT_EQ(0, lseek(fd, 0, SEEK_SET));
			text = read_all(fd, PAGE);
			ASSERT_NE(NULL, text);
			is_there = *text;
			EXPECT_STREQ(lines_of(a, is_there ? 3 : 0), text);
			free(text);
		}
		close(fd);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
	}
}

TEST_F(tables, program_that_was_executed_has_none)
{
	struct area *a = self->areas;
	struct partner partner;
	char c;
	int fd;

	ASSERT_EQ(0, area_add(&a[0]));
	if (!partner_start(&partner)) {
		/* Its own list, then what it is told */
		execlp("cat", "cat", "/proc/self/sframe_tables", "-", NULL);
		_exit(101);
	}
	ASSERT_LT(0, partner.pid);
	fd = list_open(partner.pid);
	ASSERT_LE(0, fd);
	EXPECT_STREQ(lines_of(a, 1), read_all(fd, PAGE));
	EXPECT_TRUE(partner_go(&partner));
	ASSERT_EQ(2, write(partner.in, "c\n", 2));
	ASSERT_EQ(1, read(partner.out, &c, 1));
	EXPECT_EQ('c', c);

	EXPECT_STREQ("", list_of(partner.pid));
	/* What was opened before is for the address space that was there then. */
	ASSERT_EQ(0, lseek(fd, 0, SEEK_SET));
	EXPECT_STREQ("", read_all(fd, PAGE));
	close(fd);
	EXPECT_EQ(0, partner_wait(&partner));
	EXPECT_STREQ(lines_of(a, 1), list_of(getpid()));
}

TEST_F(tables, kernel_threads_have_none)
{
	char comm[32] = "";
	int fd = open("/proc/2/comm", O_RDONLY);

	if (fd < 0 || read(fd, comm, sizeof(comm) - 1) < 0 ||
	    strcmp(comm, "kthreadd\n"))
		SKIP(return, "cannot see kthreadd");
	close(fd);
	EXPECT_STREQ("", list_of(2));
}

/* Somebody whom nobody shares anything with */
#define OTHER_USER	65534

static bool become_other_user(void)
{
	return !setresgid(OTHER_USER, OTHER_USER, OTHER_USER) &&
	       !setresuid(OTHER_USER, OTHER_USER, OTHER_USER);
}

/* May the caller open the list of its parent? Returns 0 or the error. */
static int open_parent_in_child(void)
{
	int status;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(list_open(getppid()) < 0 ? errno : 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

TEST_F(tables, list_is_for_those_who_may_trace_the_process)
{
	struct area *a = self->areas;
	struct partner partner;
	int fd;

	if (must_skip(_metadata, need_root()))
		return;
	ASSERT_EQ(0, area_add(&a[0]));
	fd = list_open(getpid());
	ASSERT_LE(0, fd);
	if (!partner_start(&partner)) {
		if (!become_other_user())
			_exit(1);
		/* Of another user */
		if (list_open(getppid()) >= 0 || errno != EACCES)
			_exit(2);
		/* Whoever was allowed to open it may pass it on, like maps. */
		if (strcmp(lines_of(a, 1), read_all(fd, PAGE) ?: ""))
			_exit(3);
		/* Its own, although it must not be dumped after setuid() */
		if (strcmp(lines_of(a, 1), list_of(getpid())))
			_exit(4);
		if (open_parent_in_child() != EACCES)
			_exit(5);
		if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) || open_parent_in_child())
			_exit(6);
		_exit(0);
	}
	ASSERT_LT(0, partner.pid);
	EXPECT_TRUE(partner_go(&partner));
	EXPECT_EQ(0, partner_wait(&partner));
	close(fd);
}

/* ------------------------------------------------------------------------ */
/* Checkpoint and restore						      */

/* Do what @op says with the table of each line. Returns the number of lines. */
static int apply_to_lines(const char *text, unsigned long op)
{
	unsigned long text_start, text_end, table, table_end;
	int n = 0, len;

	while (sscanf(text, "%lx-%lx %lx-%lx\n%n", &text_start, &text_end, &table,
		      &table_end, &len) == 4) {
		struct prctl_sframe arg = {
			sizeof(arg), 0, table, table_end, text_start, text_end
		};

		if (struct_op(op, &arg))
			return -1;
		text += len;
		n++;
	}
	return *text ? -1 : n;
}

TEST_F(tables, list_is_enough_to_add_the_same_tables_again)
{
	struct area *a = self->areas;
	u64 before[NR_AREAS][MAX_IPS], after[MAX_IPS];
	unsigned long middle = a[1].code.stub[1];
	int i, nr[NR_AREAS];
	char *text;

	/* One of them in two parts */
	ASSERT_EQ(0, area_add(&a[0]));
	ASSERT_EQ(0, add_table(a[1].table, a[1].table_end, a[1].text, middle));
	ASSERT_EQ(0, add_table(a[1].table, a[1].table_end, middle, a[1].text_end));
	ASSERT_EQ(0, area_add(&a[2]));
	for (i = 0; i < NR_AREAS; i++) {
		EXPECT_TRUE(is_exact(&a[i].code));
		nr[i] = stack_of((void *)a[i].code.top, before[i]);
		ASSERT_LT(0, nr[i]);
	}

	text = list_of(getpid());
	ASSERT_EQ(4, apply_to_lines(text, PR_SFRAME_REMOVE));
	EXPECT_STREQ("", list_of(getpid()));
	for (i = 0; i < NR_AREAS; i++)
		EXPECT_TRUE(is_without_table(&a[i].code));

	ASSERT_EQ(4, apply_to_lines(text, PR_SFRAME_ADD));
	EXPECT_STREQ(text, list_of(getpid()));
	for (i = 0; i < NR_AREAS; i++) {
		ASSERT_EQ(nr[i], stack_of((void *)a[i].code.top, after));
		/* But for the C code that calls stack_of() */
		EXPECT_TRUE(up_frames_equal(after, a[i].code.nr_ips, before[i],
					    a[i].code.nr_ips));
		EXPECT_TRUE(is_exact(&a[i].code));
	}
}

TEST_HARNESS_MAIN
