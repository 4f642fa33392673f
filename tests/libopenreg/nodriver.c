// SPDX-License-Identifier: MIT
// test nodriver not sim
/* A machine with a card but without a driver: the error text names the driver. */
#include "harness.h"

static void test_open(void **state)
{
	struct openreg_device *dev = (void *)1;

	(void)state;
	assert_int_equal(openreg_device_count(), 0);
	fails(openreg_device_open(0, &dev), ENODEV, "insmod openreg.ko");
	assert_null(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_open) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
