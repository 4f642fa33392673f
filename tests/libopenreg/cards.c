// SPDX-License-Identifier: MIT
/* All cards of the machine at once, and copies from each card to the next. */
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define MOST 16
#define SIZE (1 << 20)

static struct card cards[MOST];
static unsigned int count;

static int open_all(void **state)
{
	(void)state;
	count = (unsigned int)openreg_device_count();
	assert_true(count >= 1);
	for (unsigned int i = 0; i < count; i++) {
		ok(openreg_device_open(i, &cards[i].dev));
		ok(openreg_queue_create(cards[i].dev, NULL, &cards[i].q));
	}
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < count; i++) {
		openreg_queue_destroy(cards[i].q);
		openreg_device_close(cards[i].dev);
	}
	return 0;
}

static void test_distinct(void **state)
{
	struct openreg_device_info a, b;

	(void)state;
	for (unsigned int i = 0; i < count; i++) {
		ok(openreg_device_get_info(cards[i].dev, &a));
		assert_int_equal(a.card, i);
		for (unsigned int k = 0; k < i; k++) {
			ok(openreg_device_get_info(cards[k].dev, &b));
			assert_string_not_equal(a.pci, b.pci);
		}
	}
}

static void test_at_once(void **state)
{
	struct openreg_bo *bo[MOST];
	uint64_t seq[MOST];

	(void)state;
	for (unsigned int i = 0; i < count; i++) {
		bo[i] = vram(&cards[i], SIZE);
		assert_int_equal(OPENREG_ADDR_CARD(address(bo[i])), i);
		for (int k = 0; k < 100; k++)
			seq[i] = (uint64_t)ok(openreg_fill_async(
				cards[i].q, address(bo[i]), (uint8_t)(i + k),
				SIZE));
	}
	for (unsigned int i = 0; i < count; i++) {
		ok(openreg_queue_wait(cards[i].q, seq[i], LONG));
		assert_int_equal(((uint8_t *)mapped(bo[i]))[SIZE - 1], i + 99);
		openreg_bo_free(bo[i]);
	}
}

/* Copies through memory that is registered with both cards. */
static void copy_over(struct card *from, struct card *to)
{
	uint8_t *host = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct openreg_bo *src = vram(from, SIZE), *dst = vram(to, SIZE);
	struct openreg_bo *out, *in;

	assert_ptr_not_equal(host, MAP_FAILED);
	ok(openreg_mem_register(from->dev, host, SIZE, 0, &out));
	ok(openreg_mem_register(to->dev, host, SIZE, 0, &in));
	noise(mapped(src), SIZE, 5);
	ok(openreg_copy_async(from->q, address(out), address(src), SIZE));
	run(from);
	ok(openreg_copy_async(to->q, address(dst), address(in), SIZE));
	run(to);
	assert_memory_equal(mapped(src), mapped(dst), SIZE);
	openreg_bo_free(out);
	openreg_bo_free(in);
	openreg_bo_free(src);
	openreg_bo_free(dst);
	munmap(host, SIZE);
}

static void test_copy(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < count; i++)
		copy_over(&cards[i], &cards[(i + 1) % count]);
}

/* Copies directly between cards, not through system memory. */
static void test_peers(void **state)
{
	(void)state;
	if (on_sim())
		skip(); /* cards inside the process share no memory */
	for (unsigned int i = 0; i + 1 < count; i++) {
		struct openreg_bo *src = vram(&cards[i], SIZE), *in;
		struct openreg_bo *dst = vram(&cards[i + 1], SIZE);
		int fd = (int)ok(openreg_bo_export(src, 0));

		noise(mapped(src), SIZE, i);
		ok(openreg_bo_import(cards[i + 1].dev, fd, &in));
		ok(openreg_copy_async(cards[i + 1].q, address(dst), address(in), SIZE));
		run(&cards[i + 1]);
		assert_memory_equal(mapped(dst), mapped(src), SIZE);
		push_twice(&cards[i + 1], address(dst), address(in), SIZE / 4);
		run(&cards[i + 1]);
		for (int k = 0; k < SIZE / 4; k++)
			assert_int_equal(((uint32_t *)mapped(dst))[k],
					 2 * ((uint32_t *)mapped(src))[k]);
		push_twice(&cards[i + 1], address(in), address(dst), 4);
		assert_int_equal(run_fault(&cards[i + 1]).code, OPENREG_FAULT_ENGINE);
		close(fd);
		openreg_bo_free(in);
		openreg_bo_free(src);
		openreg_bo_free(dst);
	}
}

/* An address of one card faults on another card. */
static void test_foreign_address(void **state)
{
	(void)state;
	for (unsigned int i = 0; i + 1 < count; i++) {
		struct openreg_bo *bo = vram(&cards[i + 1], 4096);
		struct openreg_fault_summary f;

		ok(openreg_fill_async(cards[i].q, address(bo), 1, 1));
		f = run_fault(&cards[i]);
		assert_int_equal(f.code, OPENREG_FAULT_ADDRESS);
		assert_int_equal(f.address, address(bo));
		openreg_bo_free(bo);
	}
}

static void test_no_such_card(void **state)
{
	struct openreg_device *dev;

	(void)state;
	fails(openreg_device_open(count, &dev), ENODEV, on_sim() ? "OPENREG_SIM_CARDS" : "cards of this machine");
	assert_null(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distinct),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_peers),
		cmocka_unit_test(test_foreign_address),
		cmocka_unit_test(test_no_such_card),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
