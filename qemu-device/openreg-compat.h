/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Differences between QEMU 10.0 and 11.x. Tests look for the header or the type, not for
 * the version, because distributions backport changes.
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

/* The release that moved memory.h also made class data constant. */
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
#include "system/runstate.h"

/*
 * Since 10.2 the function takes two handlers; the second can return an error. Its address
 * passes through void *, because the compiler checks both branches of _Generic: it would
 * warn about the type in the branch that is not chosen.
 */
typedef VMChangeStateEntry *OpenregAdd(DeviceState *, VMChangeStateHandler *, void *);
typedef VMChangeStateEntry *OpenregAdd2(DeviceState *, VMChangeStateHandler *,
                                        int (*)(void *, bool, RunState), void *);

static inline VMChangeStateEntry *openreg_add(void *add, DeviceState *dev,
                                              VMChangeStateHandler *cb, void *opaque)
{
    return ((OpenregAdd *)add)(dev, cb, opaque);
}

static inline VMChangeStateEntry *openreg_add2(void *add, DeviceState *dev,
                                               VMChangeStateHandler *cb, void *opaque)
{
    return ((OpenregAdd2 *)add)(dev, cb, NULL, opaque);
}

#define openreg_add_vm_change(dev, cb, opaque)                                 \
    _Generic(&qdev_add_vm_change_state_handler, OpenregAdd *: openreg_add,     \
             OpenregAdd2 *: openreg_add2)(qdev_add_vm_change_state_handler,    \
                                          dev, cb, opaque)

/* Since 11.1 post_save returns nothing. */
#define OPENREG_POST_SAVE(with_result, without)                                \
    _Generic(((VMStateDescription *)NULL)->post_save,                          \
             int (*)(void *): with_result, void (*)(void *): without)

/* VMSTATE_*_EQUAL had a hint argument before 11.1. QEMU's error names the field. */
#define OPENREG_VMSTATE_EQUAL(_field, _state, _type, _info) {                  \
    .name = stringify(_field),                                                 \
    .info = &(_info),                                                          \
    .size = sizeof(_type),                                                     \
    .flags = VMS_SINGLE,                                                       \
    .offset = vmstate_offset_value(_state, _field, _type),                     \
}

#endif
