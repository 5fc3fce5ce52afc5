/* SPDX-License-Identifier: GPL-2.0 */
#include "sframe_shim.h"
