// SPDX-License-Identifier: GPL-2.0
/* Executed by the tests; linked statically, so that it starts at its entry. */
int main(void)
{
	return 0;
}
