/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_QTEST_OPENREG_TESTS_H
#define TESTS_QTEST_OPENREG_TESTS_H

/* Each adds the tests of one file. */
void or_add_device_tests(void);
void or_add_admin_tests(void);
void or_add_packet_tests(void);
void or_add_fault_tests(void);
void or_add_life_tests(void);
void or_add_migration_tests(void);
void or_add_iommu_tests(void);
void or_add_iommu_fault_tests(void);
void or_add_inject_tests(void);

#endif
