// SPDX-License-Identifier: GPL-2.0-only
/* The code of the tracepoints: it copies fields of the structures of objects. */

#include "openreg_ctx.h"
#include "openreg_device.h"
#include "openreg_gem.h"
#include "openreg_queue.h"

#define CREATE_TRACE_POINTS
#include "openreg_trace.h"
