// SPDX-License-Identifier: GPL-2.0-only
/* Tracepoints. Their code copies fields of all floors' structures, and calls nothing. */

#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

#define CREATE_TRACE_POINTS
#include "openreg_trace.h"
