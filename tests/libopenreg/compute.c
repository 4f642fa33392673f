// SPDX-License-Identifier: MIT
/* VECTOR, MATMUL and SOFTMAX packets of the builders, with checked results. */
#include <math.h>

#include "harness.h"

static void test_vector(void **state)
{
	enum { ROWS = 7, COLS = 1000 };
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 2 * ROWS * COLS * 4 + ROWS * 4);
	float *a = mapped(bo), *b = a + ROWS * COLS, *sum = b + ROWS * COLS;
	const uint64_t at = address(bo);
	const int64_t size[] = { ROWS, COLS }, folded[] = { 1, 0 };
	const struct openreg_tensor ops[] = {
		openreg_view(at + 2 * ROWS * COLS * 4, OPENREG_F32, folded),
		openreg_view(at, OPENREG_F32, NULL),
		openreg_view(at + ROWS * COLS * 4, OPENREG_F32, NULL),
	};
	const uint64_t imm[] = { openreg_imm_f64(3.0) };
	const struct openreg_instr instr[] = {
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1),
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 1, 0, 0, 0, 2),
		openreg_ins(OPENREG_V_IMM, OPENREG_VT_F32, 2, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_FMA, OPENREG_VT_F32, 3, 0, 2, 1, 0),
		openreg_ins(OPENREG_V_STORE, OPENREG_VT_F32, 0, 3, 0, 0, 2),
		openreg_ins(OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 3,
			    OPENREG_VNONE, OPENREG_VNONE, 0),
	};
	const struct openreg_command v = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 2, .nops = 3, .nimm = 1, .ninstr = COUNT(instr),
		.arg = { 1 << 1 },
		.size = size, .ops = ops, .imm = imm, .instr = instr,
	};

	for (int i = 0; i < ROWS * COLS; i++) {
		a[i] = (float)(i % 50);
		b[i] = (float)(i % 3);
	}
	ok(openreg_push(c->q, &v));
	run(c);
	for (int r = 0; r < ROWS; r++) {
		double want = 0;

		for (int k = r * COLS; k < (r + 1) * COLS; k++) {
			assert_true(b[k] == (float)(k % 50 * 3 + k % 3));
			want += b[k];
		}
		assert_true(sum[r] == (float)want);
	}
	openreg_bo_free(bo);
}

static void test_matmul(void **state)
{
	enum { M = 5, N = 6, K = 7 };
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	float *a = mapped(bo), *b = a + M * K, *d = b + K * N;
	const uint64_t at = address(bo);
	const int64_t size[4] = { 1, M, N, K };
	const int64_t sa[4] = { 0, K, 0, 1 }, sb[4] = { 0, 0, 1, N };
	const int64_t sd[4] = { 0, N, 1, 0 };
	const struct openreg_tensor ta = openreg_view(at, OPENREG_F32, sa);
	const struct openreg_tensor tb =
		openreg_view(at + 4 * M * K, OPENREG_F32, sb);
	const struct openreg_tensor td =
		openreg_view(at + 4 * (M * K + K * N), OPENREG_F32, sd);

	for (int i = 0; i < M * K; i++)
		a[i] = (float)(i % 5);
	for (int i = 0; i < K * N; i++)
		b[i] = (float)(i % 4 - 2);
	for (int i = 0; i < M * N; i++)
		d[i] = 100;
	ok(openreg_push_matmul(c->q, size, &td, &ta, &tb, &td, 2.0, 0.5));
	run(c);
	for (int m = 0; m < M; m++)
		for (int n = 0; n < N; n++) {
			float want = 0;

			for (int k = 0; k < K; k++)
				want += a[m * K + k] * b[k * N + n];
			assert_true(d[m * N + n] == 2 * want + 50);
		}
	openreg_bo_free(bo);
}

static void test_softmax(void **state)
{
	enum { ROWS = 3, COLS = 4 };
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	float *x = mapped(bo), *y = x + ROWS * COLS;
	const int64_t size[] = { ROWS, COLS };
	const struct openreg_tensor in =
		openreg_view(address(bo), OPENREG_F32, NULL);
	const struct openreg_tensor out =
		openreg_view(address(bo) + 4 * ROWS * COLS, OPENREG_F32, NULL);

	for (int i = 0; i < ROWS * COLS; i++)
		x[i] = (float)(i % 5) - 2;
	ok(openreg_push_softmax(c->q, 2, size, 1, 0, &out, &in, NULL));
	run(c);
	for (int r = 0; r < ROWS; r++) {
		double sum = 0;

		for (int k = 0; k < COLS; k++)
			sum += exp(x[r * COLS + k]);
		for (int k = 0; k < COLS; k++)
			assert_true(fabs(y[r * COLS + k] -
					 exp(x[r * COLS + k]) / sum) < 1e-5);
	}
	openreg_bo_free(bo);
}

#define CARD_TEST(f) cmocka_unit_test_setup_teardown(f, card_open, card_close)

/* A list in system memory runs again and again; a fault names the packet in it. */
static void test_list(void **state)
{
	enum { PACKETS = 50 };
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096), *memory;
	const struct openreg_tensor word =
		openreg_view(address(bo), OPENREG_I64, NULL);
	const uint64_t one[] = { 1 };
	struct openreg_command add = {
		.opcode = OPENREG_OP_SIGNAL, .nops = 1, .nimm = 1,
		.arg = { OPENREG_SIGNAL_ADD }, .cookie = 77,
		.ops = &word, .imm = one,
	};
	struct openreg_fault_summary f;
	uint8_t *slots;

	ok(openreg_bo_alloc(c->dev, PACKETS * OPENREG_SLOT_SIZE, OPENREG_BO_SYSTEM,
			    &memory));
	slots = mapped(memory);
	for (int i = 0; i < PACKETS; i++)
		assert_int_equal(openreg_pack(slots + i * OPENREG_SLOT_SIZE, &add), 1);
	for (int i = 0; i < 3; i++)
		ok(openreg_push_list(c->q, address(memory), PACKETS, PACKETS));
	run(c);
	assert_int_equal(*(uint64_t *)mapped(bo), 3 * PACKETS);
	add.arg[0] = 9;
	openreg_pack(slots + 7 * OPENREG_SLOT_SIZE, &add);
	ok(openreg_push_list(c->q, address(memory), PACKETS, PACKETS));
	f = run_fault(c);
	assert_int_equal(f.code, OPENREG_FAULT_PACKET);
	assert_int_equal(f.opcode, OPENREG_OP_SIGNAL);
	assert_int_equal(f.in_list, 8);
	assert_int_equal(f.cookie, 77);
	assert_int_equal(*(uint64_t *)mapped(bo), 3 * PACKETS + 7);
	openreg_bo_free(memory);
	openreg_bo_free(bo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CARD_TEST(test_vector),
		CARD_TEST(test_matmul),
		CARD_TEST(test_softmax),
		CARD_TEST(test_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
