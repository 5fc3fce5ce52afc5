/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As much of KUnit as the suite of tables uses, with TAP as output.
 */
#ifndef _TABLE_KUNIT_H
#define _TABLE_KUNIT_H

#include <stdio.h>

#include "../../table_shim.h"

struct kunit {
	void	*priv;
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
#define KUNIT_EXPECT_EQ(test, a, b)	KUNIT_CHECK(test, ==, a, b, "")
#define KUNIT_EXPECT_LE(test, a, b)	KUNIT_CHECK(test, <=, a, b, "")
#define KUNIT_EXPECT_TRUE(test, a)	KUNIT_CHECK(test, ==, !!(a), 1, "")
#define KUNIT_EXPECT_FALSE(test, a)	KUNIT_CHECK(test, ==, !!(a), 0, "")
#define KUNIT_EXPECT_STREQ(test, a, b) do {				\
	const char *__s = (a), *__t = (b);				\
	KUNIT_CHECK(test, ==, strcmp(__s, __t), 0, " %s, not %s", __s, __t); \
} while (0)

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

		if (suite->init(&test))
			abort();
		c->run(&test);
		suite->exit(&test);
		failed += test.failed;
		printf("%sok %d %s\n", test.failed ? "not " : "", ++n, c->name);
		fflush(stdout);
	}
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define kunit_test_suite(suite)						\
	int main(void) { return kunit_run(&(suite)); }
#define MODULE_DESCRIPTION(text)	_Static_assert(1, text)
#define MODULE_INFO(tag, info)		_Static_assert(1, #tag)
#define MODULE_LICENSE(text)		_Static_assert(1, text)

#endif /* _TABLE_KUNIT_H */
