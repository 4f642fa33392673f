// SPDX-License-Identifier: MIT
/* All calls fail in a child of fork(), without effect on its parent. */
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define REFUSED(call) \
	do { \
		if ((call) != -EPERM || \
		    !strstr(openreg_last_error(), "child")) { \
			fprintf(stderr, "%s: \"%s\"\n", #call, \
				openreg_last_error()); \
			_exit(1); \
		} \
	} while (0)

static void child_is_refused(struct card *c, struct openreg_bo *bo)
{
	struct openreg_queue_stats stats;
	struct openreg_fault_summary f;
	struct openreg_memory_info m;
	struct openreg_timestamp ts;
	struct openreg_queue *q;
	struct openreg_bo *b;
	char buf[64];
	void *p;

	REFUSED(openreg_queue_begin(c->q, 1, &p, NULL));
	REFUSED(openreg_queue_submit(c->q));
	REFUSED(openreg_queue_wait(c->q, 1, 0));
	REFUSED(openreg_queue_fault(c->q, &f));
	REFUSED(openreg_queue_reset(c->q));
	REFUSED(openreg_queue_get_stats(c->q, &stats));
	REFUSED(openreg_queue_trace_start(c->q, 64));
	REFUSED(openreg_queue_trace_stop(c->q));
	REFUSED(openreg_queue_trace_read(c->q, NULL, 0, NULL));
	REFUSED(openreg_queue_create(c->dev, NULL, &q));
	REFUSED(openreg_bo_alloc(c->dev, 4096, OPENREG_BO_VRAM, &b));
	REFUSED(openreg_mem_register(c->dev, buf, sizeof(buf), 0, &b));
	REFUSED(openreg_bo_map(bo, &p));
	REFUSED(openreg_device_get_memory(c->dev, &m));
	REFUSED(openreg_device_get_timestamp(c->dev, &ts));
	REFUSED(openreg_copy_to_device(c->q, address(bo), buf, sizeof(buf)));
	REFUSED(openreg_copy_from_device(c->q, buf, address(bo), sizeof(buf)));
	REFUSED(openreg_copy_async(c->q, address(bo), address(bo), 1));
	REFUSED(openreg_memset(c->q, address(bo), 0, 1));
	if (openreg_queue_completed(c->q))
		_exit(2);
}

/* The child's own device works; its frees and closes do not affect the parent. */
static void child_goes_on(struct card *c, struct openreg_bo *bo)
{
	struct card own;

	openreg_bo_free(bo);
	openreg_queue_destroy(c->q);
	openreg_device_close(c->dev);
	ok(openreg_device_open(0, &own.dev));
	ok(openreg_queue_create(own.dev, NULL, &own.q));
	still_works(&own);
	openreg_queue_destroy(own.q);
	openreg_device_close(own.dev);
}

static void test_child(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	uint32_t *p = mapped(bo);
	int status;
	pid_t pid;

	p[0] = 0x12345678;
	still_works(c);
	pid = fork();
	if (pid == 0) {
		child_is_refused(c, bo);
		child_goes_on(c, bo);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	ok(openreg_copy_from_device(c->q, p + 1, address(bo), 4));
	assert_int_equal(p[1], 0x12345678);
	still_works(c);
	openreg_bo_free(bo);
}

/* A child's own device is refused in turn in a child of this child. */
static void test_grandchild(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		struct card own;

		ok(openreg_device_open(0, &own.dev));
		ok(openreg_queue_create(own.dev, NULL, &own.q));
		pid = fork();
		if (pid == 0) {
			REFUSED(openreg_queue_submit(own.q));
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			_exit(3);
		still_works(&own);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CARD_TEST(f) cmocka_unit_test_setup_teardown(f, card_open, card_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CARD_TEST(test_child),
		CARD_TEST(test_grandchild),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
