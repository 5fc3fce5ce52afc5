/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's tests use it, too, so the file is there. */
#include "shim/kernel.h"
#include "../../kernel/unwind/tests/sframe_build.h"
