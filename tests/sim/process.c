// SPDX-License-Identifier: MIT
/* Processes that fork or exit while the card's engines work. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define MATRIX 64
#define MATRIX_BYTES (MATRIX * MATRIX * 4)

static unsigned int shape; /* gives each product another shape */

/* A product for which the card must compile a new kernel. */
static void push_product(struct card *c, uint64_t at)
{
	unsigned int s = __atomic_fetch_add(&shape, 1, __ATOMIC_RELAXED);
	const int64_t m = 1 + s % MATRIX, n = 1 + s / 7 % MATRIX;
	const int64_t k = 1 + s / 3 % MATRIX;
	const int64_t size[4] = { 1, m, n, k };
	const int64_t sa[4] = { 0, k, 0, 1 }, sb[4] = { 0, 0, 1, n };
	const int64_t sd[4] = { 0, n, 1, 0 };
	const struct openreg_tensor a = openreg_view(at, OPENREG_F32, sa);
	const struct openreg_tensor b =
		openreg_view(at + MATRIX_BYTES, OPENREG_F32, sb);
	const struct openreg_tensor d =
		openreg_view(at + 2 * MATRIX_BYTES, OPENREG_F32, sd);

	ok(openreg_push_matmul(c->q, size, &d, &a, &b, &d, 1.0, 0.0));
}

static void multiply(struct card *c, unsigned int count)
{
	struct openreg_bo *bo = vram(c, 3 * MATRIX_BYTES);

	while (count--)
		push_product(c, address(bo));
	run(c);
	openreg_bo_free(bo);
}

static bool over;

static void *multiply_on(void *arg)
{
	struct card c;

	(void)arg;
	ok(openreg_device_open(0, &c.dev));
	ok(openreg_queue_create(c.dev, NULL, &c.q));
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
		multiply(&c, 8);
	openreg_queue_destroy(c.q);
	openreg_device_close(c.dev);
	return NULL;
}

static void *reopen_on(void *arg)
{
	struct openreg_device *dev;

	(void)arg;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		ok(openreg_device_open(1, &dev));
		openreg_device_close(dev);
	}
	return NULL;
}

static void child(void)
{
	struct card c;

	alarm(20);
	ok(openreg_device_open(1, &c.dev));
	ok(openreg_queue_create(c.dev, NULL, &c.q));
	multiply(&c, 2);
	openreg_queue_destroy(c.q);
	openreg_device_close(c.dev);
	_exit(0);
}

/* A child's own devices work, at any point of the other threads' work. */
static void test_fork(void **state)
{
	pthread_t thread[2];
	int status;

	(void)state;
	assert_int_equal(pthread_create(&thread[0], NULL, multiply_on, NULL), 0);
	assert_int_equal(pthread_create(&thread[1], NULL, reopen_on, NULL), 0);
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();

		if (pid == 0)
			child();
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	for (size_t i = 0; i < COUNT(thread); i++)
		pthread_join(thread[i], NULL);
}

static int exit_status(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(20);
		body();
		exit(7); /* with destructors */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static struct card last;
static struct openreg_bo *last_bo;

static void leave_products(void)
{
	last_bo = vram(&last, 3 * MATRIX_BYTES);
	/* Vary how many kernels the card has compiled before the exit. */
	multiply(&last, shape % 5);
	for (unsigned int i = 0; i < 300; i++)
		push_product(&last, address(last_bo));
	ok(openreg_queue_submit(last.q));
}

static void open_last(void)
{
	ok(openreg_device_open(0, &last.dev));
	ok(openreg_queue_create(last.dev, NULL, &last.q));
}

static void exit_multiplying(void)
{
	open_last();
	leave_products();
}

/* The process exits while the engines compile kernels. */
static void test_exit(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++) {
		assert_int_equal(exit_status(exit_multiplying), 7);
		shape += 11;
	}
}

/* Runs after the cards have stopped: no call may wait for them. */
static void use_late(void)
{
	struct openreg_memory_info info;
	struct openreg_device *dev;
	struct openreg_bo *bo;

	if (openreg_bo_alloc(last.dev, 4096, OPENREG_BO_VRAM, &bo) != -ENODEV ||
	    openreg_device_open(1, &dev) != -ENODEV ||
	    openreg_queue_wait(last.q, openreg_queue_submitted(last.q) + 1,
			       -1) != -ENODEV)
		_exit(8);
	openreg_device_get_memory(last.dev, &info);
	openreg_bo_free(last_bo);
	openreg_queue_destroy(last.q);
	openreg_device_close(last.dev);
}

static void exit_in_use(void)
{
	atexit(use_late);
	open_last();
	leave_products();
}

static void test_late_use(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		assert_int_equal(exit_status(exit_in_use), 7);
}

static pthread_t waiter;

static void *wait_for_last(void *unused)
{
	(void)unused;
	openreg_queue_wait(last.q, openreg_queue_submitted(last.q), -1);
	return NULL;
}

static void join_waiter(void)
{
	pthread_join(waiter, NULL);
}

static void exit_while_waiting(void)
{
	atexit(join_waiter);
	open_last();
	leave_products();
	assert_int_equal(pthread_create(&waiter, NULL, wait_for_last, NULL), 0);
	usleep(5000);
}

/* A card that stops wakes its waiters. */
static void test_late_waiter(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		assert_int_equal(exit_status(exit_while_waiting), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exit),
		cmocka_unit_test(test_late_use),
		cmocka_unit_test(test_late_waiter),
		cmocka_unit_test(test_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
