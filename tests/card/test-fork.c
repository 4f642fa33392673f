/* SPDX-License-Identifier: MIT */
/* A child of fork() can use the engines, also if the parent's card worked at fork(). */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"
#include "matmul/matmul.h"

#define LEN ((1u << 20) / SCALE)
#define CHILDREN 12

static int multiply(void)
{
	float a[4] = { 1, 2, 3, 4 }, b[4] = { 5, 6, 7, 8 }, d[4] = { 0 };
	const struct openreg_gemm g = {
		.batch = 1, .m = 2, .n = 2, .k = 2,
		.a = { (uintptr_t)a, 0, 2, 1 },
		.b = { (uintptr_t)b, 0, 2, 1 },
		.d = { (uintptr_t)d, 0, 2, 1 },
	};
	struct openreg_primitives *cache = NULL;
	bool done = openreg_gemm_dnnl(&cache, &g) == OPENREG_GEMM_DONE;

	openreg_primitives_free(cache);
	return done && d[0] == 19 && d[3] == 50 ? 0 : 1;
}

/* Products of always new shapes: the card makes a primitive for each, under a lock. */
static void push_products(struct client_queue *q, unsigned int round)
{
	const int64_t size[4] = { 1, 3 + round % 40, 5 + round / 40, 7 };
	const int64_t d[4] = { 0, size[2], 1, 0 }, a[4] = { 0, 7, 0, 1 };
	const int64_t b[4] = { 0, 0, 1, size[2] };
	struct pkt p;

	pkt_begin(&p, OPENREG_OP_MATMUL, 4, size);
	pkt_operand(&p, OPENREG_ADDR(0, 1, 0), OPENREG_F32, d);
	pkt_operand(&p, OPENREG_ADDR(0, 1, LEN / 4), OPENREG_F32, a);
	pkt_operand(&p, OPENREG_ADDR(0, 1, LEN / 2), OPENREG_F32, b);
	pkt_imm(&p, 0x3ff0000000000000);
	pkt_imm(&p, 0);
	tq_push(q, &p);
}

static void test_fork(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd cmd = cmd_vram(1, 1, 0, LEN, RW);
	unsigned int i, k, round = 0;
	struct client_queue q;

	rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0);
	rig_do(rig, cmd);
	tq_create(rig, &q, 1, 0);
	for (i = 0; i < CHILDREN; i++) {
		int status = -1;
		pid_t pid;

		for (k = 0; k < 30; k++)
			push_products(&q, round++);
		client_publish(&q);
		openreg_card_fork_begin();
		pid = fork();
		openreg_card_fork_end();
		if (!pid) {
			alarm(120);
			_exit(multiply());
		}
		assert_true(pid > 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		tq_wait(&q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fork, rig_setup,
						rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
