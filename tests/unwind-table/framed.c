// SPDX-License-Identifier: GPL-2.0
/*
 * A program that keeps frame pointers and has no call frame information of its own, as
 * chromium: only the start files that are linked into it have some. It works for a while.
 */
__attribute__((__noinline__)) int work(int n)
{
	volatile int i, sum = n;

	for (i = 0; i < 100000000; i++)
		sum += i;
	return sum;
}

__attribute__((__noinline__)) int down(int n)
{
	volatile int ret = n ? down(n - 1) : work(n);

	return ret;
}

int main(void)
{
	return down(8) == 1;
}
