// SPDX-License-Identifier: MIT
// test nocard not sim
/* A machine without a card, with the driver: the error text says what to do. */
#include "harness.h"

static void test_open(void **state)
{
	struct openreg_device *dev = (void *)1;

	(void)state;
	assert_int_equal(openreg_device_count(), 0);
	fails(openreg_device_open(0, &dev), ENODEV,
	      "no openreg card on the PCI bus");
	assert_null(dev);
	fails(openreg_device_open(0, &dev), ENODEV, "scripts/vm --cards 1");
	fails(openreg_device_open(0, &dev), ENODEV, "OPENREG_TRANSPORT=sim");
	fails(openreg_device_open(3, &dev), ENODEV, "/dev/openreg3");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_open) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
