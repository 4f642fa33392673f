/*
 * QTest of the openreg card
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "libqtest.h"
#include "openreg/tests.h"

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    or_add_device_tests();
    or_add_admin_tests();
    or_add_packet_tests();
    or_add_fault_tests();
    or_add_life_tests();
    or_add_migration_tests();
    or_add_iommu_tests();
    or_add_iommu_fault_tests();
    or_add_inject_tests();
    return g_test_run();
}
