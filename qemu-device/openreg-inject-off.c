/*
 * openreg: a device without the hostile card of openreg-inject.c
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "openreg-pci.h"

const MemoryRegionOps openreg_inject_reg_ops = { };

void openreg_inject_class_init(ObjectClass *class)
{
}

void openreg_inject_instance_init(OpenregState *s)
{
}

bool openreg_inject_init(OpenregState *s, Error **errp)
{
    if (s->inject_on) {
        error_setg(errp, "openreg: this QEMU has no hostile card: build it with "
                   "install.sh --inject");
    }
    return !s->inject_on;
}

void openreg_inject_exit(OpenregState *s)
{
}

bool openreg_inject_add_capability(OpenregState *s, Error **errp)
{
    return true;
}

void openreg_inject_config_write(OpenregState *s, uint32_t addr, int len)
{
}

const struct openreg_host_ops *openreg_inject_ops(OpenregState *s)
{
    return &openreg_host_ops;
}
