// SPDX-License-Identifier: MIT
/* An allocation waits for memory of closed buffers, also of other open devices. */
#include <pthread.h>
#include <unistd.h>

#include "harness.h"

#define MIB (1ull << 20)
#define LARGE (768 * MIB) /* two do not fit */

struct taker {
	pthread_t thread;
	struct card *c;
	uint64_t size;
	bool after_free; /* begin when another thread has closed its buffer */
	int ret;
};

static void await_free(struct card *c)
{
	struct openreg_memory_info info;

	do
		openreg_device_get_memory(c->dev, &info);
	while (info.process_vram);
}

static void *take(void *arg)
{
	struct taker *t = arg;
	struct openreg_bo *bo;

	if (t->after_free)
		await_free(t->c);
	t->ret = openreg_bo_alloc(t->c->dev, t->size, OPENREG_BO_VRAM, &bo);
	if (!t->ret)
		openreg_bo_free(bo);
	return NULL;
}

static void start(struct taker *t)
{
	assert_int_equal(pthread_create(&t->thread, NULL, take, t), 0);
}

static void finish(struct taker *t)
{
	pthread_join(t->thread, NULL);
	assert_int_equal(t->ret, 0);
}

/* A buffer that a running packet uses. */
static struct openreg_bo *busy(struct card *c)
{
	struct openreg_bo *bo = vram(c, LARGE);
	volatile uint8_t *p = mapped(bo);

	ok(openreg_fill_async(c->q, address(bo), 1, LARGE));
	while (!p[0])
		;
	return bo;
}

/* The card zeroes closed memory before the memory is free: allocations wait. */
static void test_freeing(void **state)
{
	struct taker t = { .c = *state, .size = LARGE, .after_free = true };

	for (int i = 0; i < 2; i++) {
		struct openreg_bo *bo = vram(t.c, LARGE);

		start(&t);
		openreg_bo_free(bo);
		finish(&t);
	}
}

/* Several threads allocate memory that a packet still uses; each one waits. */
static void test_closing(void **state)
{
	struct taker t[4];

	for (int i = 0; i < 2; i++) {
		struct openreg_bo *bo = busy(*state);

		openreg_bo_free(bo);
		for (size_t k = 0; k < COUNT(t); k++) {
			t[k] = (struct taker){ .c = *state,
					       .size = LARGE / COUNT(t) };
			start(&t[k]);
		}
		for (size_t k = 0; k < COUNT(t); k++)
			finish(&t[k]);
		run(*state);
	}
}

/* Another open device gets the memory; the first one makes no more calls. */
static void test_other_open(void **state)
{
	struct card other;

	ok(openreg_device_open(0, &other.dev));
	for (int i = 0; i < 2; i++) {
		struct openreg_bo *bo = busy(*state);

		openreg_bo_free(bo);
		bo = vram(&other, LARGE);
		openreg_bo_free(bo);
		run(*state);
	}
	openreg_device_close(other.dev);
}

/* The same if the first device is closed while packets use the memory. */
static void test_other_close(void **state)
{
	struct card other;
	struct taker t = { .c = *state, .size = LARGE };

	for (int i = 0; i < 2; i++) {
		struct openreg_bo *bo;

		ok(openreg_device_open(0, &other.dev));
		ok(openreg_queue_create(other.dev, NULL, &other.q));
		bo = busy(&other);
		openreg_bo_free(bo);
		start(&t);
		openreg_queue_destroy(other.q);
		openreg_device_close(other.dev);
		finish(&t);
	}
	still_works(*state);
}

#define CARD_TEST(f) cmocka_unit_test_setup_teardown(f, card_open, card_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CARD_TEST(test_freeing),
		CARD_TEST(test_closing),
		CARD_TEST(test_other_open),
		CARD_TEST(test_other_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
