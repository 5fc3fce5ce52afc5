// SPDX-License-Identifier: GPL-2.0
/*
 * Inlined functions that addr2line of binutils does not find: those of units whose debug
 * information is in other files (-gsplit-dwarf), and of clang's -g1.
 */
#include <string.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include "debug.h"
#include "debuginfo.h"
#include "dso.h"
#include "dwarf-aux.h"
#include "inlines-dwarf.h"

struct dwarf_inlines {
	struct debuginfo	*info;
	bool			warned;
};

struct walk {
	struct dwarf_inline	*frames;
	int			nr;
};

static struct dwarf_inlines *dso_inlines(struct dso *dso, const char *dso_name)
{
	struct dwarf_inlines **inlines = dso__dwarf_inlines(dso);

	if (!*inlines) {
		*inlines = zalloc(sizeof(**inlines));
		if (*inlines)
			(*inlines)->info = debuginfo__new(dso_name);
	}
	return *inlines && (*inlines)->info ? *inlines : NULL;
}

void dwarf_inlines__free(struct dso *dso)
{
	struct dwarf_inlines **inlines = dso__dwarf_inlines(dso);

	if (*inlines && (*inlines)->info)
		debuginfo__delete((*inlines)->info);
	zfree(inlines);
}

/* The outermost function comes first; the next one tells where it calls. */
static int walk_function(Dwarf_Die *die, void *data)
{
	struct walk *walk = data;
	struct dwarf_inline *frame = &walk->frames[walk->nr];

	if (walk->nr == MAX_DWARF_INLINES)
		return 1;
	if (walk->nr) {
		frame[-1].file = die_get_call_file(die);
		frame[-1].line = max(die_get_call_lineno(die), 0);
	}
	*frame = (struct dwarf_inline) {
		.function = die_get_linkage_name(die) ?: dwarf_diename(die),
	};
	walk->nr++;
	return 0;
}

/* The unit that has the functions, if addr2line does not look into it */
static bool find_unit(struct dwarf_inlines *inlines, const char *dso_name, Dwarf_Die *unit)
{
	Dwarf_Attribute attr;
	const char *producer;
	Dwarf_Die split;
	uint8_t type;

	if (dwarf_cu_info(unit->cu, NULL, &type, NULL, &split, NULL, NULL, NULL))
		return false;

	if (type != DW_UT_skeleton) {
		producer = dwarf_formstring(dwarf_attr(unit, DW_AT_producer, &attr));
		return producer && strstr(producer, "clang");
	}

	if (!split.cu && !inlines->warned) {
		pr_warning("No inlined functions of %s: its split debug information (%s) is not here.\n",
			   dso_name,
			   dwarf_formstring(dwarf_attr(unit, DW_AT_dwo_name, &attr)) ?:
			   dwarf_formstring(dwarf_attr(unit, DW_AT_GNU_dwo_name, &attr)) ?:
			   ".dwo");
		inlines->warned = true;
	}
	*unit = split;
	return split.cu;
}

/*
 * The functions at an address, outermost first: the others are inlined in that one.
 * Returns their number, 0 if there is nothing that addr2line would not know.
 */
int dwarf_inlines__find(struct dso *dso, const char *dso_name, u64 addr,
			struct dwarf_inline frames[MAX_DWARF_INLINES])
{
	struct dwarf_inlines *inlines = dso_inlines(dso, dso_name);
	struct walk walk = { .frames = frames, };
	Dwarf_Die *found, unit;
	Dwarf_Addr bias;
	Dwarf_Line *line;
	int i, nr;

	if (!inlines)
		return 0;
	found = dwfl_module_addrdie(inlines->info->mod, addr + inlines->info->bias, &bias);
	if (!found)
		return 0;
	line = dwarf_getsrc_die(found, addr);
	unit = *found;
	if (!find_unit(inlines, dso_name, &unit))
		return 0;

	cu_walk_functions_at(&unit, addr, walk_function, &walk);
	nr = walk.nr;
	if (nr && line) {
		frames[nr - 1].file = dwarf_linesrc(line, NULL, NULL);
		if (dwarf_lineno(line, &i) == 0)
			frames[nr - 1].line = i;
	}
	return nr;
}
