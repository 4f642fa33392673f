// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"

static bool card_is_gone;

/* Replaces libc's ioctl(), for all libraries, to simulate a removed card. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (!card_is_gone)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	errno = ENODEV;
	return -1;
}

static void test_count(void **state)
{
	const char *cards = getenv("OPENREG_CARDS");

	(void)state;
	assert_true(openreg_device_count() > 0);
	if (cards)
		assert_int_equal(openreg_device_count(), atoi(cards));
}

static void test_info(void **state)
{
	struct card *c = *state;
	struct openreg_device_info i;

	ok(openreg_device_get_info(c->dev, &i));
	assert_string_equal(i.path, on_sim() ? "sim:0" : "/dev/openreg");
	assert_non_null(strstr(i.driver, "openreg "));
	assert_int_equal(i.isa_version >> 16, OPENREG_ISA_MAJOR);
	assert_int_equal(i.card, 0);
	assert_int_equal(i.packets & 0x1ff, 0x1ff);
	assert_int_equal(i.dtypes, 0xfffe);
	assert_true(i.vram_size >= 1 << 20);
	assert_true(i.max_bo_size > 0);
	assert_true(i.max_queues > 0);
	assert_true(i.max_segments > 1);
	assert_true(i.max_ring_slots >= OPENREG_RING_SLOTS_MIN);
	assert_true(i.workers > 0);
	assert_true(i.vectors >= 2);
	assert_int_equal(strlen(i.pci),
			 strlen(on_sim() ? "sim:0" : "0000:01:00.0"));
}

static void test_memory(void **state)
{
	struct card *c = *state;
	struct openreg_memory_info before, now;
	struct openreg_bo *bo;

	ok(openreg_device_get_memory(c->dev, &before));
	assert_true(before.vram_free <= before.vram_total);
	assert_true(before.vram_largest <= before.vram_free);
	bo = vram(c, 1 << 20);
	ok(openreg_device_get_memory(c->dev, &now));
	assert_int_equal(now.process_vram, before.process_vram + (1 << 20));
	openreg_bo_free(bo);
	ok(openreg_device_get_memory(c->dev, &now));
	assert_int_equal(now.process_vram, before.process_vram);
}

static void test_timestamp(void **state)
{
	struct card *c = *state;
	struct openreg_timestamp a, b;

	ok(openreg_device_get_timestamp(c->dev, &a));
	ok(openreg_device_get_timestamp(c->dev, &b));
	assert_true(a.cpu_before <= a.cpu_after);
	assert_true(a.cpu_after <= b.cpu_before);
	assert_true(a.card <= b.card);
}

static void test_fd(void **state)
{
	struct card *c = *state;

	if (on_sim())
		assert_int_equal(openreg_device_fd(c->dev), -1);
	else
		assert_true(fcntl(openreg_device_fd(c->dev), F_GETFD) &
			    FD_CLOEXEC);
}

static void test_two_nodes(void **state)
{
	struct card *c = *state;
	struct openreg_device_info a, b;
	const char *other = on_sim() ? "sim:0" : "/dev/accel/accel0";
	struct openreg_device *dev;

	ok(openreg_device_open_path(other, &dev));
	ok(openreg_device_get_info(c->dev, &a));
	ok(openreg_device_get_info(dev, &b));
	assert_string_equal(a.pci, b.pci);
	openreg_device_close(dev);
}

/* A card removed between open() and the first query gives ENODEV, not EPROTO. */
static void test_gone_at_once(void **state)
{
	struct openreg_device *dev;

	(void)state;
	if (on_sim())
		return;
	card_is_gone = true;
	assert_int_equal(openreg_device_open(0, &dev), -ENODEV);
	card_is_gone = false;
	assert_int_equal(openreg_device_open_path("/dev/null", &dev), -EPROTO);
	ok(openreg_device_open(0, &dev));
	openreg_device_close(dev);
}

/* Every open device has its own address space: addresses of another one fault. */
static void test_isolated(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	struct openreg_fault_summary f;
	struct card other;

	ok(openreg_device_open(0, &other.dev));
	ok(openreg_queue_create(other.dev, NULL, &other.q));
	ok(openreg_fill_async(other.q, address(bo), 1, 16));
	f = run_fault(&other);
	assert_int_equal(f.code, OPENREG_FAULT_ADDRESS);
	assert_int_equal(f.address, address(bo));
	still_works(c);
	openreg_queue_destroy(other.q);
	openreg_device_close(other.dev);
	openreg_bo_free(bo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),
		cmocka_unit_test_setup_teardown(test_info, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_memory, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_timestamp, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_fd, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_two_nodes, card_open, card_close),
		cmocka_unit_test(test_gone_at_once),
		cmocka_unit_test_setup_teardown(test_isolated, card_open, card_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
