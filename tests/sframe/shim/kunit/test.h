/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As much of KUnit as the suites of SFrame and of tables for files use, with TAP as
 * output: they run in user space under sanitizers.
 */
#ifndef _SHIM_KUNIT_H
#define _SHIM_KUNIT_H

#include <stdio.h>
#include <stdlib.h>

#include "../kernel.h"

struct kunit {
	void	*priv;
	void	*memory;
	void	*user;
	bool	failed;
};

struct kunit_case {
	const char	*name;
	void		(*run)(struct kunit *test);
};

struct kunit_suite {
	const char		*name;
	int			(*init)(struct kunit *test);
	void			(*exit)(struct kunit *test);
	struct kunit_case	*test_cases;
};

#define KUNIT_CASE(fn)	{ #fn, fn }

/* One allocation for each case is enough. */
static inline void *kunit_kzalloc(struct kunit *test, size_t size, int gfp)
{
	(void)gfp;
	test->memory = calloc(1, size);
	return test->memory;
}

#define PROT_READ		0
#define PROT_WRITE		0
#define MAP_PRIVATE		0
#define MAP_ANONYMOUS		0
#define MAP_FIXED_NOREPLACE	0

/* And one mapping, of a size of its own, so that ASan sees accesses after its end */
static inline unsigned long
kunit_vm_mmap(struct kunit *test, void *file, unsigned long addr, unsigned long len,
	      unsigned long prot, unsigned long flags, unsigned long off)
{
	test->user = calloc(1, len);
	user_memory = (struct user_memory) { test->user, addr, len };
	return test->user ? addr : 0;
}

#define KUNIT_CHECK(test, op, a, b, fmt, ...) do {			\
	long long __a = (long long)(a), __b = (long long)(b);		\
	if (!(__a op __b)) {						\
		printf("# %s:%d: %s (%lld) " #op " %s (%lld)" fmt "\n",	\
		       __FILE__, __LINE__, #a, __a, #b, __b, ##__VA_ARGS__); \
		(test)->failed = true;					\
	}								\
} while (0)

#define KUNIT_EXPECT_EQ_MSG(test, a, b, fmt, ...)			\
	KUNIT_CHECK(test, ==, a, b, " " fmt, ##__VA_ARGS__)
#define KUNIT_EXPECT_MEMEQ(test, a, b, size)	\
	KUNIT_EXPECT_EQ(test, memcmp(a, b, size), 0)
#define KUNIT_EXPECT_EQ(test, a, b)	KUNIT_CHECK(test, ==, a, b, "")
#define KUNIT_EXPECT_NE(test, a, b)	KUNIT_CHECK(test, !=, a, b, "")
#define KUNIT_EXPECT_LE(test, a, b)	KUNIT_CHECK(test, <=, a, b, "")
#define KUNIT_EXPECT_LT(test, a, b)	KUNIT_CHECK(test, <, a, b, "")
#define KUNIT_EXPECT_TRUE(test, a)	KUNIT_CHECK(test, ==, !!(a), 1, "")
#define KUNIT_EXPECT_FALSE(test, a)	KUNIT_CHECK(test, ==, !!(a), 0, "")
#define KUNIT_EXPECT_STREQ(test, a, b) do {				\
	const char *__s = (a), *__t = (b);				\
	KUNIT_CHECK(test, ==, strcmp(__s, __t), 0, " %s, not %s", __s, __t); \
} while (0)
#define KUNIT_EXPECT_STRNEQ(test, a, b)	KUNIT_CHECK(test, !=, strcmp(a, b), 0, "")
#define KUNIT_ASSERT_NOT_NULL(test, p) do {				\
	if (!(p))							\
		abort();						\
} while (0)
#define KUNIT_ASSERT_EQ(test, a, b)	KUNIT_ASSERT_NOT_NULL(test, (a) == (b))

static inline int kunit_run(struct kunit_suite *suite)
{
	struct kunit_case *c;
	int n = 0, failed = 0;

	for (c = suite->test_cases; c->run; c++)
		n++;
	printf("TAP version 13\n1..%d\n", n);
	n = 0;
	for (c = suite->test_cases; c->run; c++) {
		struct kunit test = { };

		if (suite->init && suite->init(&test))
			abort();
		c->run(&test);
		if (suite->exit)
			suite->exit(&test);
		free(test.memory);
		free(test.user);
		failed += test.failed;
		printf("%sok %d %s\n", test.failed ? "not " : "", ++n, c->name);
		fflush(stdout);
	}
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define kunit_test_suite(suite)						\
	int main(void) { return kunit_run(&(suite)); }
#define MODULE_DESCRIPTION(text)	_Static_assert(1, text)
#define MODULE_IMPORT_NS(ns)		_Static_assert(1, #ns)
#define MODULE_INFO(tag, info)		_Static_assert(1, #tag)
#define MODULE_LICENSE(text)		_Static_assert(1, text)

#endif /* _SHIM_KUNIT_H */
