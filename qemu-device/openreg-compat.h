/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names that moved between QEMU 10.0 and 11.x. What is there is looked at, not
 * the version: distributions backport.
 */
#ifndef HW_MISC_OPENREG_COMPAT_H
#define HW_MISC_OPENREG_COMPAT_H

#if __has_include("hw/core/qdev-properties.h")
#include "hw/core/qdev-properties.h"
#else
#include "hw/qdev-properties.h"
#endif

#if __has_include("hw/core/resettable.h")
#include "hw/core/resettable.h"
#else
#include "hw/resettable.h"
#endif

/* The move of memory.h and constant class data came in the same release. */
#if __has_include("system/memory.h")
#include "system/address-spaces.h"
#include "system/memory.h"
#define OPENREG_CLASS_CONST const
#else
#include "exec/address-spaces.h"
#include "exec/memory.h"
#define OPENREG_CLASS_CONST
#endif

#if __has_include("system/memory_cached.h")
#include "system/memory_cached.h"
#endif

#include "migration/vmstate.h"

#endif
