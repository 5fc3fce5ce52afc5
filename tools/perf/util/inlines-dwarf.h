/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_INLINES_DWARF_H
#define __PERF_INLINES_DWARF_H

#include <linux/types.h>

struct dso;

#define MAX_DWARF_INLINES 64

/* Strings belong to the debug information. */
struct dwarf_inline {
	const char	*function;
	const char	*file;
	unsigned int	line;
};

#ifdef HAVE_DWARF_SUPPORT
int dwarf_inlines__find(struct dso *dso, const char *dso_name, u64 addr,
			struct dwarf_inline frames[MAX_DWARF_INLINES]);
void dwarf_inlines__free(struct dso *dso);
#else
static inline int dwarf_inlines__find(struct dso *dso __maybe_unused,
				      const char *dso_name __maybe_unused,
				      u64 addr __maybe_unused,
				      struct dwarf_inline *frames __maybe_unused)
{
	return 0;
}

static inline void dwarf_inlines__free(struct dso *dso __maybe_unused) {}
#endif

#endif /* __PERF_INLINES_DWARF_H */
