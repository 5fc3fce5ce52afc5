// SPDX-License-Identifier: GPL-2.0
/* What the tests execute; linked statically, so that it starts at its entry. */
int main(void)
{
	return 0;
}
