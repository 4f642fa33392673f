// SPDX-License-Identifier: MIT
/* The library with a checking card: order by waits, findings in a file or taken. */
#include <sys/wait.h>
#include <unistd.h>

#include <openreg_packet.h>

#include "harness.h"

#define BYTES 256

struct bench {
	struct openreg_device *dev;
	struct openreg_queue *a, *b;
	struct openreg_bo *bo;
	uint64_t at;
};

static void open_bench(struct bench *b)
{
	ok(openreg_device_open(0, &b->dev));
	ok(openreg_queue_create(b->dev, NULL, &b->a));
	ok(openreg_queue_create(b->dev, NULL, &b->b));
	ok(openreg_bo_alloc(b->dev, 1 << 20, OPENREG_BO_VRAM, &b->bo));
	b->at = openreg_bo_address(b->bo);
}

static void close_bench(struct bench *b)
{
	openreg_queue_destroy(b->a);
	openreg_queue_destroy(b->b);
	openreg_bo_free(b->bo);
	openreg_device_close(b->dev);
}

static uint64_t fill(struct openreg_queue *q, uint64_t at)
{
	return (uint64_t)ok(openreg_fill_async(q, at, 1, BYTES));
}

static void wait_for(struct openreg_queue *q, uint64_t seq)
{
	ok(openreg_queue_wait(q, seq, LONG));
}

static int race(const void *path)
{
	struct bench b;

	(void)path;
	open_bench(&b);
	fill(b.a, b.at);
	wait_for(b.b, fill(b.b, b.at));
	wait_for(b.a, openreg_queue_submitted(b.a));
	close_bench(&b);
	return 0;
}

static int no_race(const void *path)
{
	struct bench b;
	uint64_t seq;

	(void)path;
	open_bench(&b);
	for (int i = 0; i < 100; i++) {
		wait_for(b.a, fill(b.a, b.at));
		wait_for(b.b, fill(b.b, b.at));
	}
	/* A program that polls has waited, too. */
	seq = fill(b.a, b.at);
	while (openreg_queue_completed(b.a) < seq)
		;
	wait_for(b.b, fill(b.b, b.at));
	seq = openreg_queue_submitted(b.b);
	while (!openreg_queue_done(b.b, seq))
		;
	wait_for(b.a, fill(b.a, b.at));
	close_bench(&b);
	return 0;
}

static int blocks(const void *path)
{
	struct bench b;

	(void)path;
	open_bench(&b);
	ok(openreg_queue_note_block(b.a, b.at, 100, 77));
	ok(openreg_copy_async(b.a, b.at + 4096, b.at, 64));
	ok(openreg_fill_async(b.a, b.at, 0, 101));
	ok(openreg_queue_note_unblock(b.a, b.at, 100));
	wait_for(b.a, fill(b.a, b.at));
	fails(openreg_queue_note_block(b.a, b.at, 0, 0), EINVAL, "leave it out");
	close_bench(&b);
	return 0;
}

/* The program takes the findings itself, so nothing is printed. */
static int taken(const void *path)
{
	struct openreg_finding f[2];
	struct bench b;

	(void)path;
	open_bench(&b);
	assert_int_equal(ok(openreg_device_findings(b.dev, f, 2)), 0);
	ok(openreg_queue_note_block(b.a, b.at, 100, 77));
	wait_for(b.a, (uint64_t)ok(openreg_copy_async(b.a, b.at + 4096, b.at, 64)));
	assert_int_equal(ok(openreg_device_findings(b.dev, f, 2)), 1);
	assert_int_equal(f[0].kind, OPENREG_FINDING_INIT);
	assert_int_equal(f[0].access.queue, openreg_queue_number(b.a));
	assert_int_equal(f[0].other.cookie, 77);
	assert_int_equal(ok(openreg_device_findings(b.dev, f, 2)), 0);
	close_bench(&b);
	return 0;
}

static int off(const void *path)
{
	struct openreg_finding f;
	struct bench b;

	(void)path;
	open_bench(&b);
	ok(openreg_queue_note_block(b.a, b.at, 100, 77));
	ok(openreg_queue_note_unblock(b.a, b.at, 100));
	wait_for(b.a, fill(b.a, b.at));
	assert_int_equal(openreg_queue_completed(b.a), 1);
	assert_int_equal(ok(openreg_device_findings(b.dev, &f, 1)), 0);
	close_bench(&b);
	return 0;
}

/* Runs the program with these checks, and returns what the log has then. */
static const char *logged(const char *checks, int (*program)(const void *))
{
	static char text[4096];
	char path[] = "/tmp/openreg-check-XXXXXX";
	const int fd = mkstemp(path);
	ssize_t n;
	int status;
	pid_t pid;

	assert_true(fd >= 0);
	pid = fork();
	if (!pid) {
		setenv("OPENREG_CHECK", checks, 1);
		setenv("OPENREG_CHECK_LOG", path, 1);
		_exit(program(path));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	n = read(fd, text, sizeof(text) - 1);
	assert_true(n >= 0);
	text[n] = 0;
	close(fd);
	unlink(path);
	return text;
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in: %s", part, text);
}

static void test_race(void **state)
{
	(void)state;
	has(logged("race", race), "openreg: race: FILL (queue ");
	has(logged("race,init,bounds", race), "and neither waits for the other\n");
	assert_string_equal(logged("init,bounds", race), "");
	assert_string_equal(logged("race", no_race), "");
}

static void test_blocks(void **state)
{
	const char *text = logged("race,init,bounds", blocks);

	(void)state;
	has(text, "uninitialised read: COPY (queue ");
	has(text, "reads 64 bytes");
	has(text, "out of bounds: FILL (queue ");
	has(text, "writes 1 bytes");
	assert_string_equal(logged("race", blocks), "");
	has(logged("bounds", blocks), "out of bounds");
}

static void test_taken(void **state)
{
	(void)state;
	assert_string_equal(logged("init", taken), "");
}

static void test_off(void **state)
{
	(void)state;
	assert_string_equal(logged("", off), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_race),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
