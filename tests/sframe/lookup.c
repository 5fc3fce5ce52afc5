// SPDX-License-Identifier: GPL-2.0
/*
 * lookup FILE - print the rule for each hexadecimal address in the input, in
 * the words of objdump --sframe: CFA, FP, RA and 'S' for signal frames
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "elf_file.h"

static void print_loc(const struct unwind_loc *loc)
{
	static const char * const regs[UNWIND_NR_REGS] = {
		[UNWIND_REG_FP] = "fp", [UNWIND_REG_SP] = "sp",
	};
	char reg[8] = "c";

	if (loc->where == UNWIND_SAME) {
		printf(" u");
		return;
	}
	if (loc->where == UNWIND_REG || loc->where == UNWIND_REG_DEREF)
		snprintf(reg, sizeof(reg), regs[loc->reg] ? "%s" : "r%.0s%u",
			 regs[loc->reg] ? regs[loc->reg] : "", loc->reg);
	/* A slot relative to the CFA is the ordinary case. */
	printf(loc->where == UNWIND_REG_DEREF ? " (%s%+d)" :
	       loc->where == UNWIND_CFA ? " =%s%+d" : " %s%+d", reg, loc->off);
}

int main(int argc, char **argv)
{
	struct elf_file e = { };
	struct unwind_rule rule;
	enum sframe_status status;
	u64 pc;

	if (argc != 2 || !elf_file_open(&e, argv[1]))
		errx(2, "usage: lookup FILE");
	while (scanf("%" SCNx64, &pc) == 1) {
		status = elf_file_find(&e, pc, &rule);
		printf("%" PRIx64, pc);
		if (status != SFRAME_OK) {
			printf(" %s\n", sframe_status_text[status]);
			continue;
		}
		if (rule.outermost) {
			printf(" RA undefined\n");
			continue;
		}
		print_loc(&rule.cfa);
		print_loc(&rule.fp);
		print_loc(&rule.ra);
		printf("%s\n", rule.signal ? " S" : "");
	}
	elf_end(e.elf);
	return 0;
}
