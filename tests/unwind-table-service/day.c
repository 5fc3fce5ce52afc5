// SPDX-License-Identifier: GPL-2.0
/*
 * day - how many of a share's lines get into the log on a day on which each minute has a
 * thousand programs that cause a line; and when the log says that lines were left out. The clock
 * goes as fast as this program.
 */
#include <stdio.h>
#include <time.h>

#include "../../tools/unwind-tables/share.h"

static time_t now = 1000;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){ .tv_sec = now };
	return 0;
}

int main(void)
{
	unsigned long lines = 0, said = 0, counted = 0, first = 0, i, left_out;
	struct shares shares = { .published = -1 };
	struct share *share = share_of_owner(&shares, 1000), *other = share_of_owner(&shares, 1001);
	const time_t begin = now;

	for (i = 0; i < 24 * 60 * 1000; i++) {
		now = begin + i * 60 / 1000;
		lines += share_may_complain(share);
		left_out = share_left_out(share);
		said += !!left_out;
		counted += left_out;
		if (left_out && !first)
			first = now - begin;
		/* Another one has its own lines. */
		if (!(i % (8 * 60 * 1000)) && !share_may_complain(other))
			return printf("the other share has no line\n"), 1;
	}
	printf("%lu lines, and %lu that tell of %lu left out, the first after %lu s\n", lines, said,
	       counted, first);
	now += 3600;
	counted += share_left_out(share);
	shares_free(&shares);
	return lines + said > 100 || first > 60 || lines + counted != i;
}
