/* SPDX-License-Identifier: MIT */
/*
 * openreg_engine_init() makes all static data of oneDNN, and no packet makes more. exit()
 * would destroy later data before the card has stopped, and a child of fork() could find
 * it half made. Tests one child for each instruction set, because oneDNN reads the
 * setting once.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine-harness.h"
#include "matmul/matmul.h"

#define SIZE_MOST 100

static bool watching;
static unsigned int made;

int __cxa_atexit(void (*end)(void *), void *arg, void *dso);
int __cxa_guard_acquire(void *guard);

/* The functions of the program come before those of the library. */
int __cxa_atexit(void (*end)(void *), void *arg, void *dso)
{
	static int (*next)(void (*)(void *), void *, void *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "__cxa_atexit");
	made += watching;
	return next(end, arg, dso);
}

/* The compiler's code calls this before it makes a static object. */
int __cxa_guard_acquire(void *guard)
{
	static int (*next)(void *);
	int mine;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "__cxa_guard_acquire");
	mine = next(guard);
	made += watching && mine;
	return mine;
}

static void multiply(struct openreg_primitives **cache, int64_t batch,
		     int64_t m, int64_t n, int64_t k, unsigned int form)
{
	static float a[2 * SIZE_MOST * SIZE_MOST], b[2 * SIZE_MOST * SIZE_MOST];
	static float d[2 * SIZE_MOST * SIZE_MOST];
	bool a_turned = form & 1, b_turned = form & 2;
	const struct openreg_gemm g = {
		.batch = batch, .m = m, .n = n, .k = k,
		.a = { (uintptr_t)a, m * k, a_turned ? 1 : k, a_turned ? m : 1 },
		.b = { (uintptr_t)b, n * k, b_turned ? 1 : n, b_turned ? k : 1 },
		.d = { (uintptr_t)d, m * n, n, 1 },
		.accumulate = form & 4,
	};

	if (openreg_gemm_dnnl(cache, &g) == OPENREG_GEMM_FAILED)
		_exit(255);
}

/* Returns how many objects were made late. */
static unsigned int multiply_all(void)
{
	static const int64_t size[] = { 1, 2, 5, 16, 64, SIZE_MOST };
	enum { SIZES = sizeof(size) / sizeof(size[0]) };
	struct openreg_primitives *cache = NULL;
	unsigned int i, form;

	openreg_engine_init();
	watching = true;
	for (i = 0; i < 2 * SIZES * SIZES * SIZES; i++) {
		for (form = 0; form < 8; form++)
			multiply(&cache, 1 + i % 2, size[i / 2 % SIZES],
				 size[i / 2 / SIZES % SIZES],
				 size[i / 2 / SIZES / SIZES], form);
	}
	watching = false;
	openreg_primitives_free(cache);
	return made;
}

static void test_isa(void **state)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		unsigned int late;

		setenv("ONEDNN_MAX_CPU_ISA", *state, 1);
		late = multiply_all();
		_exit(late < 254 ? (int)late : 254);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Does the test see static data? Without a card the first product makes it. */
static void test_watches(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		struct openreg_primitives *cache = NULL;

		watching = true;
		multiply(&cache, 1, 1, 2, 1, 0);
		_exit(made > 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
}

#define ISA(isa)                                     \
	{                                            \
		.name = "test_isa_" isa, .test_func = test_isa, \
		.initial_state = (void *)(uintptr_t)isa, \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_watches),
		ISA("SSE41"), ISA("AVX"), ISA("AVX2"), ISA("AVX2_VNNI"),
		ISA("AVX512_CORE"), ISA("AVX512_CORE_BF16"), ISA("DEFAULT"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
