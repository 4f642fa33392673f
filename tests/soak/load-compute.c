// SPDX-License-Identifier: MIT
/* VECTOR and MATMUL on small integers, with results that are exact in f32. */
#include "client.h"

#define SIDE 64
#define LENGTH 20000
#define PART (1u << 17) /* bytes of an operand */

struct compute {
	struct openreg_bo *bo;
	uint64_t at; /* of three operands */
	float a[LENGTH], b[LENGTH], d[LENGTH];
};

static int compute_begin(struct client *c)
{
	struct compute *x = c->load;
	int ret = alloc(c, 3 * PART, OPENREG_BO_VRAM, &x->bo);

	if (!ret)
		x->at = openreg_bo_address(x->bo);
	return ret;
}

static void compute_end(struct client *c)
{
	openreg_bo_free(((struct compute *)c->load)->bo);
}

static int inputs(struct client *c, size_t na, size_t nb)
{
	struct compute *x = c->load;
	size_t i;
	int ret;

	for (i = 0; i < na; i++)
		x->a[i] = (float)random_below(c, 17) - 8;
	for (i = 0; i < nb; i++)
		x->b[i] = (float)random_below(c, 17) - 8;
	ret = openreg_copy_to_device(c->q[0], x->at + PART, x->a,
				     na * sizeof(float));
	return ret ? ret : openreg_copy_to_device(c->q[0], x->at + 2 * PART,
						  x->b, nb * sizeof(float));
}

static int output(struct client *c, size_t n)
{
	struct compute *x = c->load;

	return openreg_copy_from_device(c->q[0], x->d, x->at,
					n * sizeof(float));
}

static int vector(struct client *c)
{
	struct compute *x = c->load;
	const int64_t n = 1 + (int64_t)random_below(c, LENGTH);
	const struct openreg_tensor ops[] = {
		openreg_view(x->at, OPENREG_F32, NULL),
		openreg_view(x->at + PART, OPENREG_F32, NULL),
		openreg_view(x->at + 2 * PART, OPENREG_F32, NULL),
	};
	const struct openreg_instr program[] = {
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1),
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 1, 0, 0, 0, 2),
		openreg_ins(OPENREG_V_MUL, OPENREG_VT_F32, 2, 0, 1, 0, 0),
		openreg_ins(OPENREG_V_ADD, OPENREG_VT_F32, 2, 2, 0, 0, 0),
		openreg_ins(OPENREG_V_STORE, OPENREG_VT_F32, 0, 2, 0, 0, 0),
	};
	const struct openreg_command v = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 1, .size = &n, .nops = 3, .ops = ops,
		.ninstr = COUNT(program), .instr = program,
	};
	int ret = inputs(c, (size_t)n, (size_t)n);
	int64_t i;

	if (!ret)
		ret = openreg_push(c->q[0], &v);
	if (!ret)
		ret = output(c, (size_t)n);
	for (i = 0; i < n && !ret; i++)
		if (x->d[i] != x->a[i] * x->b[i] + x->a[i])
			ret = wrong(c, "VECTOR of %lld: [%lld] is %g",
				    (long long)n, (long long)i, (double)x->d[i]);
	return ret;
}

static float dot(const struct compute *x, int64_t row, int64_t column,
		 int64_t n, int64_t k)
{
	float sum = 0;
	int64_t i;

	for (i = 0; i < k; i++)
		sum += x->a[row * k + i] * x->b[i * n + column];
	return sum;
}

static int matmul(struct client *c)
{
	struct compute *x = c->load;
	const int64_t m = 1 + (int64_t)random_below(c, SIDE);
	const int64_t n = 1 + (int64_t)random_below(c, SIDE);
	const int64_t k = 1 + (int64_t)random_below(c, SIDE);
	const int64_t size[] = { 1, m, n, k };
	const int64_t sd[] = { 0, n, 1, 0 }, sa[] = { 0, k, 0, 1 };
	const int64_t sb[] = { 0, 0, 1, n };
	const struct openreg_tensor d = openreg_view(x->at, OPENREG_F32, sd);
	const struct openreg_tensor a =
		openreg_view(x->at + PART, OPENREG_F32, sa);
	const struct openreg_tensor b =
		openreg_view(x->at + 2 * PART, OPENREG_F32, sb);
	int ret = inputs(c, (size_t)(m * k), (size_t)(k * n));
	int64_t i;

	if (!ret)
		ret = openreg_push_matmul(c->q[0], size, &d, &a, &b, NULL, 1, 0);
	if (!ret)
		ret = output(c, (size_t)(m * n));
	for (i = 0; i < m * n && !ret; i++)
		if (x->d[i] != dot(x, i / n, i % n, n, k))
			ret = wrong(c, "MATMUL of %lldx%lldx%lld: [%lld] is %g",
				    (long long)m, (long long)n, (long long)k,
				    (long long)i, (double)x->d[i]);
	return ret;
}

static int compute_turn(struct client *c)
{
	return random_below(c, 2) ? vector(c) : matmul(c);
}

const struct load load_compute = {
	"compute", sizeof(struct compute), compute_begin, compute_turn,
	compute_end,
};
