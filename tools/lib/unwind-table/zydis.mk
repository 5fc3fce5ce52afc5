# SPDX-License-Identifier: GPL-2.0
#
# Zydis decodes instructions of code that has no call frame information. Without it, the
# library has no rules for such code. ZYDIS=no leaves it out, even where it is
# installed.

ZYDIS ?= $(shell $(CC) -include Zydis/Zydis.h -E -x c /dev/null > /dev/null 2>&1 && echo yes)
ifeq ($(ZYDIS),yes)
zydis_cppflags := -DHAVE_ZYDIS
zydis_libs := -lZydis
endif
