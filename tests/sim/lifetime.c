// SPDX-License-Identifier: MIT
/* A card begins and ends with its process. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define SIZE (1 << 20)

/* Packets that take much longer than the process lives. */
static void keep_busy(struct card *c)
{
	struct openreg_bo *bo = vram(c, 256 << 20);

	for (int i = 0; i < 200; i++)
		ok(openreg_fill_async(c->q, address(bo), 1, 256 << 20));
	ok(openreg_queue_submit(c->q));
}

static int exit_status(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		body();
		exit(7); /* with destructors */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void exit_busy(void)
{
	void *state;

	card_open(&state);
	keep_busy(state);
}

static void exit_idle(void)
{
	void *state;

	card_open(&state);
	still_works(state);
}

static void *wait_for_ever(void *state)
{
	struct card *c = state;

	openreg_queue_wait(c->q, 1000000, -1);
	return NULL;
}

static void exit_waited_for(void)
{
	pthread_t thread;
	void *state;

	card_open(&state);
	keep_busy(state);
	pthread_create(&thread, NULL, wait_for_ever, state);
	usleep(10000);
}

static void test_exit(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(exit_status(exit_idle), 7);
		assert_int_equal(exit_status(exit_busy), 7);
		assert_int_equal(exit_status(exit_waited_for), 7);
	}
}

/* A child of a process with a card opens its own card; the parent's card still works. */
static void open_in_child(void)
{
	void *state;

	card_open(&state);
	still_works(state);
	card_close(&state);
}

static void test_fork(void **state)
{
	struct card *c = *state;

	assert_int_equal(exit_status(open_in_child), 7);
	still_works(c);
}

/* A close with busy queues and open buffers frees all memory. */
static void test_close_busy(void **state)
{
	struct openreg_memory_info before, after;
	struct card *c = *state;
	struct card other;

	ok(openreg_device_get_memory(c->dev, &before));
	for (int i = 0; i < 20; i++) {
		ok(openreg_device_open(0, &other.dev));
		ok(openreg_queue_create(other.dev, NULL, &other.q));
		keep_busy(&other);
		openreg_queue_destroy(other.q);
		openreg_device_close(other.dev);
	}
	ok(openreg_device_get_memory(c->dev, &after));
	assert_int_equal(before.vram_free, after.vram_free);
	assert_int_equal(before.vram_largest, after.vram_largest);
	still_works(c);
}

/* Closing a registration waits until the card no longer writes the memory. */
static void test_unregister_busy(void **state)
{
	struct card *c = *state;
	const size_t size = 64 << 20;
	struct openreg_bo *src = vram(c, size), *dst;

	ok(openreg_fill_async(c->q, address(src), 1, size));
	for (int i = 0; i < 10; i++) {
		volatile uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		ok(openreg_mem_register(c->dev, (void *)p, size, 0, &dst));
		ok(openreg_copy_async(c->q, address(dst), address(src), size));
		ok(openreg_queue_submit(c->q));
		while (!p[0])
			;
		openreg_bo_free(dst);
		/* A write of the card after this is a SIGSEGV. */
		munmap((void *)p, size);
	}
	run(c);
	still_works(c);
	openreg_bo_free(src);
}

static void test_map_again(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, SIZE);
	uint8_t *p = mapped(bo);

	p[5] = 42;
	openreg_bo_unmap(bo);
	p = mapped(bo);
	assert_int_equal(p[5], 42);
	openreg_bo_free(bo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exit),
		cmocka_unit_test_setup_teardown(test_fork, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_close_busy, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_unregister_busy, card_open, card_close),
		cmocka_unit_test_setup_teardown(test_map_again, card_open, card_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
