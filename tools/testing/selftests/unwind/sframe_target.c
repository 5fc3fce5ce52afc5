// SPDX-License-Identifier: GPL-2.0
/*
 * Executed by sframe_mm_test, with sframe_lib.S linked in, to see that a new
 * program has its own tables and none of the old one's. The argument is the
 * address (hex) where the old one had code and a table.
 *
 * The exit status is 0, or tells what was wrong.
 */
#include "sframe_code.h"

int main(int argc, char **argv)
{
	unsigned long addr;
	struct area area;
	struct lib lib = {
		.call = sframe_lib_call,
		.ips = {
			(uint64_t)sframe_lib_ip_leaf,
			(uint64_t)sframe_lib_ip_inner,
			(uint64_t)sframe_lib_ip_middle,
			(uint64_t)sframe_lib_ip_call,
			(uint64_t)call_code_ip,
		},
	};

	if (argc != 2)
		return 1;
	addr = strtoul(argv[1], NULL, 16);
	if (remove_table(addr + TABLE_OFF) != -ENOENT)
		return 2;
	if (map_anon(addr, AREA_SIZE, PROT_CODE, MAP_FIXED_NOREPLACE) != (u8 *)addr)
		return 3;
	if (!area_fill(&area, (u8 *)addr, 3, true, true))
		return 4;
	if (!is_without_table(&area.code))
		return 5;
	if (!lib_is_exact(&lib) || !lib_is_exact(&lib))
		return 6;
	if (area_add(&area) || !is_exact(&area.code))
		return 7;
	return 0;
}
