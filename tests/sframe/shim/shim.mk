# SPDX-License-Identifier: GPL-2.0
#
# For kernel code in user space: flags, and $(O)/headers, where each of the kernel's
# headers is shim/kernel.h. The directory of this file is SHIM.

WARNINGS := -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	    -Wno-missing-field-initializers -Wno-pointer-arith
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all
CFLAGS ?= -O1 -g
ALL_CFLAGS = -std=gnu11 $(CFLAGS) $(WARNINGS) $(SANITIZE) $(INCLUDES)
FUZZ_CFLAGS = -std=gnu11 -O2 -g $(WARNINGS) -fsanitize=fuzzer $(SANITIZE) $(INCLUDES)

HEADERS := kunit/visibility linux/atomic linux/bitops linux/bits linux/compiler linux/elf \
	   linux/err linux/ioctl linux/limits linux/list linux/log2 linux/minmax linux/mm \
	   linux/mman linux/module linux/nospec linux/sched/signal linux/sizes linux/slab \
	   linux/string linux/types linux/uaccess linux/unaligned linux/unwind_user
SHIM_FILES := $(SHIM)/kernel.h $(SHIM)/kunit/test.h $(SHIM)/../user_memory.h $(O)/headers/made

$(O)/headers/made: $(SHIM)/shim.mk
	for h in $(HEADERS); do mkdir -p $(@D)/$$(dirname $$h); \
		echo '#include "kernel.h"' > $(@D)/$$h.h || exit; done
	touch $@
