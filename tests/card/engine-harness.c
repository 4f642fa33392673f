// SPDX-License-Identifier: MIT
#include <pthread.h>
#include <stdlib.h>

#include "engine-harness.h"

static uint64_t random_state = 1;

void args_begin(struct openreg_args *args, unsigned int opcode,
		unsigned int ndim, const int64_t *size)
{
	memset(args, 0, sizeof(*args));
	args->opcode = (uint8_t)opcode;
	args->ndim = (uint8_t)ndim;
	if (ndim)
		memcpy(args->size, size, ndim * sizeof(*size));
}

void dense_strides(unsigned int ndim, const int64_t *size, int64_t *stride)
{
	int64_t step = 1;
	unsigned int d;

	for (d = ndim; d-- > 0;) {
		stride[d] = step;
		step *= size[d];
	}
}

unsigned int args_operand(struct openreg_args *args, unsigned int dtype,
			  void *ptr, const int64_t *stride)
{
	struct openreg_arg *op = &args->op[args->nops];

	op->dtype = (uint8_t)dtype;
	op->ptr = ptr;
	if (stride)
		memcpy(op->stride, stride, args->ndim * sizeof(*stride));
	else
		dense_strides(args->ndim, args->size, op->stride);
	return args->nops++;
}

unsigned int args_imm_f(struct openreg_args *args, double value)
{
	memcpy(&args->imm[args->nimm], &value, sizeof(value));
	return args->nimm++;
}

unsigned int args_imm_i(struct openreg_args *args, int64_t value)
{
	args->imm[args->nimm] = (uint64_t)value;
	return args->nimm++;
}

void args_instr(struct openreg_args *args, unsigned int op, unsigned int type,
		unsigned int dst, unsigned int a, unsigned int b,
		unsigned int c, unsigned int aux)
{
	struct openreg_instr *in = &args->instr[args->ninstr++];

	in->op = (uint8_t)op;
	in->type = (uint8_t)type;
	in->dst = (uint8_t)dst;
	in->a = (uint8_t)a;
	in->b = (uint8_t)b;
	in->c = (uint8_t)c;
	in->aux = (uint16_t)aux;
}

uint32_t args_check(struct openreg_args *args)
{
	return openreg_engine_check(args).code;
}

/* A phase of a job. Two threads run its slices, each with its own scratch. */
struct phase {
	struct openreg_job *job;
	unsigned int number;
	uint32_t slices, next;
	bool reverse, failed;
};

struct worker {
	struct phase *phase;
	struct openreg_scratch *scratch;
};

static void *work(void *opaque)
{
	struct worker *worker = opaque;
	struct phase *p = worker->phase;
	uint32_t i;

	while ((i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) <
	       p->slices) {
		if (p->reverse)
			i = p->slices - 1 - i;
		if (!openreg_job_run(p->job, p->number, i, worker->scratch))
			__atomic_store_n(&p->failed, true, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void run_phase(struct phase *phase, struct openreg_scratch *scratch[2])
{
	struct worker workers[2] = { { phase, scratch[0] },
				     { phase, scratch[1] } };
	pthread_t thread;

	if (phase->slices > 1)
		assert_int_equal(pthread_create(&thread, NULL, work,
						&workers[1]),
				 0);
	work(&workers[0]);
	if (phase->slices > 1)
		pthread_join(thread, NULL);
}

struct openreg_verdict args_try(struct openreg_args *args, bool reverse)
{
	struct openreg_verdict verdict = { .code = OPENREG_FAULT_NONE };
	atomic_size_t extra = 0;
	struct openreg_scratch *scratch[2] = { openreg_scratch_new(&extra),
					       openreg_scratch_new(&extra) };
	struct phase phase = { .reverse = reverse };
	bool later;

	assert_non_null(scratch[0]);
	assert_non_null(scratch[1]);
	assert_int_equal(args_check(args), OPENREG_FAULT_NONE);
	phase.job = openreg_job_new(args, scratch[0], &later);
	assert_true(phase.job || !later);
	if (!phase.job)
		verdict.code = OPENREG_FAULT_MEMORY;
	for (; phase.job && phase.number < openreg_job_phases(phase.job) &&
	       !phase.failed;
	     phase.number++) {
		phase.slices = openreg_job_slices(phase.job, phase.number);
		phase.next = 0;
		run_phase(&phase, scratch);
	}
	if (phase.failed)
		verdict = openreg_job_verdict(phase.job, phase.number);
	openreg_job_free(phase.job);
	assert_int_equal(extra, 0);
	openreg_scratch_free(scratch[0]);
	openreg_scratch_free(scratch[1]);
	return verdict;
}

void args_run_order(struct openreg_args *args, bool reverse)
{
	assert_int_equal(args_try(args, reverse).code, OPENREG_FAULT_NONE);
}

void args_run(struct openreg_args *args)
{
	args_run_order(args, false);
}

void random_seed(uint64_t seed)
{
	random_state = seed * 2 + 1;
}

/* A Weyl sequence, then a mixing function. */
uint64_t random_u64(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
	return x ^ x >> 32;
}

double random_unit(void)
{
	return (double)(random_u64() >> 11) * 0x1p-53;
}

int64_t random_range(int64_t lo, int64_t hi)
{
	return lo + (int64_t)(random_u64() % (uint64_t)(hi - lo + 1));
}

static double half_value(uint16_t h)
{
	int exponent = h >> 10 & 31, mantissa = h & 0x3ff;
	double sign = h & 0x8000 ? -1 : 1;

	if (exponent == 31)
		return mantissa ? __builtin_nan("") : sign * __builtin_inf();
	if (exponent == 0)
		return sign * mantissa * 0x1p-24;
	return sign * __builtin_ldexp(1024 + mantissa, exponent - 25);
}

static double bfloat_value(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

/* By the formats' definition: exponent and mantissa follow the sign. */
static double float8_value(unsigned int dtype, uint8_t h)
{
	static const struct {
		int digits, bias;
	} of[OPENREG_DTYPE_END] = { [OPENREG_F8E4M3FN] = { 3, 7 },
				    [OPENREG_F8E5M2] = { 2, 15 },
				    [OPENREG_F8E4M3FNUZ] = { 3, 8 },
				    [OPENREG_F8E5M2FNUZ] = { 2, 16 } };
	int digits = of[dtype].digits, mantissa = h & ((1 << digits) - 1);
	int exponent = (h & 0x7f) >> digits;
	double sign = h & 0x80 ? -1 : 1;

	if (dtype == OPENREG_F8E8M0FNU)
		return h == 0xff ? __builtin_nan("") :
				   __builtin_ldexp(1, h - 127);
	if (dtype == OPENREG_F8E5M2 && exponent == 31)
		return mantissa ? __builtin_nan("") : sign * __builtin_inf();
	if (dtype == OPENREG_F8E4M3FN ? (h & 0x7f) == 0x7f :
	    dtype != OPENREG_F8E5M2 && h == 0x80)
		return __builtin_nan("");
	if (exponent == 0)
		return sign *
		       __builtin_ldexp(mantissa, 1 - of[dtype].bias - digits);
	return sign * __builtin_ldexp((1 << digits) + mantissa,
				      exponent - of[dtype].bias - digits);
}

bool element_is_float(unsigned int dtype)
{
	return dtype <= OPENREG_BF16 || dtype > OPENREG_BOOL;
}

int64_t element_get_int(unsigned int dtype, const void *ptr, int64_t at)
{
	switch (dtype) {
	case OPENREG_I8:
		return ((const int8_t *)ptr)[at];
	case OPENREG_U8:
		return ((const uint8_t *)ptr)[at];
	case OPENREG_I16:
		return ((const int16_t *)ptr)[at];
	case OPENREG_I32:
		return ((const int32_t *)ptr)[at];
	case OPENREG_I64:
		return ((const int64_t *)ptr)[at];
	case OPENREG_BOOL:
		return ((const uint8_t *)ptr)[at] != 0;
	default:
		fail_msg("dtype %u is not an integer dtype", dtype);
		return 0;
	}
}

double element_get(unsigned int dtype, const void *ptr, int64_t at)
{
	switch (dtype) {
	case OPENREG_F32:
		return ((const float *)ptr)[at];
	case OPENREG_F64:
		return ((const double *)ptr)[at];
	case OPENREG_F16:
		return half_value(((const uint16_t *)ptr)[at]);
	case OPENREG_BF16:
		return bfloat_value(((const uint16_t *)ptr)[at]);
	case OPENREG_F8E4M3FN:
	case OPENREG_F8E5M2:
	case OPENREG_F8E4M3FNUZ:
	case OPENREG_F8E5M2FNUZ:
	case OPENREG_F8E8M0FNU:
		return float8_value(dtype, ((const uint8_t *)ptr)[at]);
	default:
		return (double)element_get_int(dtype, ptr, at);
	}
}

double element_round(unsigned int dtype, double x)
{
	uint64_t element = 0;

	if (dtype >= OPENREG_I8 && dtype <= OPENREG_I64) {
		int64_t i = (int64_t)x;

		memcpy(&element, &i, 8);
		return element_get(dtype, &element, 0);
	}
	openreg_convert(&element, dtype, 1, &x, OPENREG_F64, 1, 1);
	return element_get(dtype, &element, 0);
}

void fill_small(unsigned int dtype, void *ptr, int64_t n, int lo, int hi)
{
	int64_t i, value;
	float f;

	for (i = 0; i < n; i++) {
		value = random_range(lo, hi);
		f = (float)value;
		openreg_convert((char *)ptr + i * openreg_dtype_size(dtype),
				dtype, 1, &f, OPENREG_F32, 1, 1);
	}
}

void random_layout(struct layout *l, unsigned int ndim,
			  const int64_t *size, bool broadcast)
{
	unsigned int order[OPENREG_DIMS_MAX], d, e, swap;
	int64_t step = random_range(1, 2);

	for (d = 0; d < ndim; d++)
		order[d] = d;
	for (d = ndim; d > 1 && random_range(0, 1); d--) {
		e = (unsigned int)random_range(0, d - 1);
		swap = order[e];
		order[e] = order[d - 1];
		order[d - 1] = swap;
	}
	l->origin = 0;
	for (d = ndim; d-- > 0;) {
		e = order[d];
		if (broadcast && random_range(0, 3) == 0) {
			l->stride[e] = 0;
			continue;
		}
		l->stride[e] = step;
		step = step * size[e] + random_range(0, 1);
		if (random_range(0, 4) == 0) {
			l->stride[e] = -l->stride[e];
			if (size[e])
				l->origin -= l->stride[e] * (size[e] - 1);
		}
	}
	l->extent = step + 1;
}

int64_t layout_at(const struct layout *l, unsigned int ndim,
			 const int64_t *at)
{
	int64_t offset = l->origin;
	unsigned int d;

	for (d = 0; d < ndim; d++)
		offset += at[d] * l->stride[d];
	return offset;
}

bool next_point(unsigned int ndim, const int64_t *size, int64_t *at)
{
	unsigned int d;

	for (d = ndim; d-- > 0;) {
		if (++at[d] < size[d])
			return true;
		at[d] = 0;
	}
	return false;
}
