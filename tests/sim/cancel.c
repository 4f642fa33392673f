// SPDX-License-Identifier: MIT
/* After a thread is cancelled during a call, other threads can still use the card. */
#include <pthread.h>
#include <unistd.h>

#include "harness.h"

#define ROUNDS 20
#define NEVER 1000000 /* a packet that is never submitted */

static void *wait_long(void *state)
{
	struct card *c = state;

	openreg_queue_wait(c->q, NEVER, SECOND / 5);
	for (;;)
		pthread_testcancel();
	return NULL;
}

static void *allocate(void *state)
{
	struct card *c = state;
	struct openreg_bo *bo;

	for (;;) {
		openreg_bo_alloc(c->dev, 4096, OPENREG_BO_VRAM, &bo);
		openreg_bo_free(bo);
		pthread_testcancel();
	}
	return NULL;
}

static void *reopen(void *state)
{
	struct openreg_device *dev;

	(void)state;
	for (;;) {
		if (!openreg_device_open(1, &dev))
			openreg_device_close(dev);
		pthread_testcancel();
	}
	return NULL;
}

static void cancel(void *(*body)(void *), struct card *c, useconds_t us)
{
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, body, c), 0);
	usleep(us);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
}

static void test_wait(void **state)
{
	for (int i = 0; i < 3; i++) {
		cancel(wait_long, *state, 50000);
		still_works(*state);
	}
}

static void test_admin(void **state)
{
	for (int i = 0; i < ROUNDS; i++) {
		cancel(allocate, *state, 2000);
		still_works(*state);
	}
}

static void test_open(void **state)
{
	for (int i = 0; i < ROUNDS; i++)
		cancel(reopen, *state, 5000);
	still_works(*state);
}

#define CARD_TEST(f) cmocka_unit_test_setup_teardown(f, card_open, card_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CARD_TEST(test_wait),
		CARD_TEST(test_admin),
		CARD_TEST(test_open),
	};

	alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
