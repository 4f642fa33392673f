// SPDX-License-Identifier: MIT
/*
 * Compares SORT with qsort(), which breaks ties by index: any dtype, layout and part of
 * the rows. Bytes outside the results must not change.
 */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"

#define SPARE 16 /* bytes after an arena that its layout does not use */

struct tensor {
	int64_t size[OPENREG_DIMS_MAX];
	struct layout at;
	unsigned int dtype;
	size_t bytes;
	unsigned char *memory;
};

struct problem {
	unsigned int ndim, axis, flags, dtype;
	int64_t first, count;
	int64_t size[OPENREG_DIMS_MAX];
	int pattern;
	bool dense, has_index;
	struct tensor source, values, index;
};

/* Data for the comparison of qsort(). */
static struct {
	unsigned int dtype;
	bool descending;
	const unsigned char *row;
	int64_t stride;
} order;

static int compare_doubles(double a, double b)
{
	if (isnan(a) || isnan(b))
		return !!isnan(a) - !!isnan(b);
	return (a > b) - (a < b);
}

static int compare_elements(int64_t a, int64_t b)
{
	int64_t x, y;

	if (order.dtype <= OPENREG_BF16)
		return compare_doubles(
			element_get(order.dtype, order.row, a * order.stride),
			element_get(order.dtype, order.row, b * order.stride));
	x = element_get_int(order.dtype, order.row, a * order.stride);
	y = element_get_int(order.dtype, order.row, b * order.stride);
	return (x > y) - (x < y);
}

static int compare_places(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	int difference = compare_elements(x, y);

	if (difference)
		return order.descending ? -difference : difference;
	return (x > y) - (x < y);
}

static void make(struct tensor *t, const struct problem *p, unsigned int dtype,
		 int64_t length, bool broadcast)
{
	unsigned int d;

	t->dtype = dtype;
	for (d = 0; d < p->ndim; d++)
		t->size[d] = p->size[d];
	/* With no results, uses the strides of one result. */
	t->size[p->axis] = length ? length : 1;
	random_layout(&t->at, p->ndim, t->size, broadcast);
	if (p->dense) {
		t->at.origin = 0;
		dense_strides(p->ndim, t->size, t->at.stride);
	}
	t->bytes = (size_t)t->at.extent * openreg_dtype_size(dtype) + SPARE;
	t->memory = malloc(t->bytes);
	memset(t->memory, 0xa5, t->bytes);
}

/* Fills with few different numbers, with random bits, or with sorted numbers. */
static void fill(struct problem *p)
{
	struct tensor *t = &p->source;
	unsigned int esize = openreg_dtype_size(t->dtype);
	int64_t i;
	size_t k;

	switch (p->pattern) {
	case 0:
		fill_small(t->dtype, t->memory, t->at.extent, -2, 2);
		break;
	case 1:
		for (k = 0; k < t->bytes; k++)
			t->memory[k] = (unsigned char)random_u64();
		break;
	default:
		for (i = 0; i < t->at.extent; i++) {
			double x = (double)(p->pattern == 2 ? i : -i);

			openreg_convert(t->memory + i * esize, t->dtype, 1, &x,
					OPENREG_F64, 1, 1);
		}
	}
}

static void put(unsigned char *memory, const struct tensor *t,
		const struct problem *p, const int64_t *at, const void *element)
{
	unsigned int esize = openreg_dtype_size(t->dtype);

	memcpy(memory + layout_at(&t->at, p->ndim, at) * esize, element, esize);
}

static void expect_row(const struct problem *p, int64_t *at, int64_t *places,
		       unsigned char *values, unsigned char *index)
{
	unsigned int esize = openreg_dtype_size(p->dtype);
	int64_t i, n = p->size[p->axis];

	order.dtype = p->dtype;
	order.descending = p->flags & OPENREG_SORT_DESCENDING;
	order.row = p->source.memory +
		    layout_at(&p->source.at, p->ndim, at) * esize;
	order.stride = p->source.at.stride[p->axis];
	for (i = 0; i < n; i++)
		places[i] = i;
	qsort(places, (size_t)n, sizeof(*places), compare_places);
	for (i = 0; i < p->count; i++) {
		int64_t place = places[p->first + i];

		at[p->axis] = i;
		put(values, &p->values, p, at,
		    order.row + place * order.stride * esize);
		if (p->has_index)
			put(index, &p->index, p, at, &place);
	}
	at[p->axis] = 0;
}

static void compare(const struct problem *p, unsigned char *values,
		    unsigned char *index)
{
	int64_t at[OPENREG_DIMS_MAX] = { 0 }, rows[OPENREG_DIMS_MAX];
	int64_t *places = malloc((size_t)p->size[p->axis] * 8);

	memcpy(rows, p->size, sizeof(rows));
	rows[p->axis] = 1;
	do {
		expect_row(p, at, places, values, index);
	} while (next_point(p->ndim, rows, at));
	assert_memory_equal(values, p->values.memory, p->values.bytes);
	assert_memory_equal(index, p->index.memory, p->index.bytes);
	free(places);
}

static void add(struct openreg_args *args, struct tensor *t)
{
	args_operand(args, t->dtype,
		     t->memory +
			     t->at.origin * openreg_dtype_size(t->dtype),
		     t->at.stride);
}

static unsigned char *copy_of(const struct tensor *t)
{
	return memcpy(malloc(t->bytes), t->memory, t->bytes);
}

static void run(struct problem *p, bool reverse)
{
	struct openreg_args args;
	unsigned char *values, *index;

	make(&p->source, p, p->dtype, p->size[p->axis], !p->dense);
	make(&p->values, p, p->dtype, p->count, false);
	make(&p->index, p, OPENREG_I64, p->count, false);
	fill(p);
	values = copy_of(&p->values);
	index = copy_of(&p->index);
	args_begin(&args, OPENREG_OP_SORT, p->ndim, p->size);
	args.arg[0] = (uint8_t)p->axis;
	args.arg[1] = (uint8_t)p->flags;
	add(&args, &p->values);
	add(&args, &p->source);
	if (p->has_index)
		add(&args, &p->index);
	args_imm_i(&args, p->first);
	args_imm_i(&args, p->count);
	args_run_order(&args, reverse);
	compare(p, values, index);
	free(values);
	free(index);
	free(p->values.memory);
	free(p->index.memory);
	free(p->source.memory);
}

static void random_part(struct problem *p, int64_t n)
{
	switch (random_range(0, 3)) {
	case 0:
		p->first = 0;
		p->count = n;
		break;
	case 1:
		p->first = 0;
		p->count = random_range(0, n < 9 ? n : 9);
		break;
	case 2:
		p->first = random_range(0, n - 1);
		p->count = 1;
		break;
	default:
		p->first = random_range(0, n);
		p->count = random_range(0, n - p->first);
	}
}

static void test_random(void **state)
{
	unsigned int i, d;

	(void)state;
	for (i = 0; i < 4000 / SCALE; i++) {
		struct problem p = { .has_index = i % 5 != 0 };
		int64_t points = 1;

		random_seed(i);
		p.ndim = (unsigned int)random_range(1, 5);
		p.axis = (unsigned int)random_range(0, p.ndim - 1);
		p.flags = (unsigned int)random_range(0, 1);
		p.dtype = (unsigned int)random_range(OPENREG_F32, OPENREG_BOOL);
		p.pattern = (int)random_range(0, 3);
		for (d = 0; d < p.ndim; d++) {
			p.size[d] = random_range(1, d == p.axis ? 300 : 6);
			if (points * p.size[d] > 6000)
				p.size[d] = 1;
			points *= p.size[d];
		}
		random_part(&p, p.size[p.axis]);
		run(&p, random_range(0, 1));
	}
}

/* Lengths near each change of method, and small parts of the rows. */
static void test_lengths(void **state)
{
	static const int64_t lengths[] = { 47, 48, 49, 64, 65, 4095, 16383,
					   16384, 16385, 32768, 32769, 70000 };
	static const int64_t counts[] = { 1, 15, 16, 1000, 4096, 4097 };
	unsigned int i, k, dtype;

	(void)state;
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
			dtype = SCALE > 1 ? 1 + (i + k) % 3 : 1;
			for (; dtype <= OPENREG_BOOL;
			     dtype += SCALE > 1 ? 3 : 1) {
				struct problem p = {
					.ndim = 1, .dtype = dtype,
					.size = { lengths[i] },
					.has_index = true,
				};

				random_seed(i * 100 + k * 10 + dtype);
				p.flags = (unsigned int)random_range(0, 1);
				p.pattern = (int)random_range(0, 3);
				p.dense = random_range(0, 1);
				p.count = counts[k] > p.size[0] ? p.size[0]
								: counts[k];
				if (p.count > 1000)
					p.first = random_range(
						0, p.size[0] - p.count);
				run(&p, random_range(0, 1));
			}
		}
	}
}

/* Rows of many blocks, in several groups, by rows and by columns. */
static void test_long(void **state)
{
	static const struct problem problems[] = {
		{ .ndim = 1, .dtype = OPENREG_F32, .size = { 300000 },
		  .count = 300000, .pattern = 1 },
		{ .ndim = 1, .dtype = OPENREG_F64, .size = { 300000 },
		  .count = 300000, .pattern = 1 },
		{ .ndim = 1, .dtype = OPENREG_I64, .size = { 200000 },
		  .first = 1000, .count = 150000, .pattern = 3 },
		{ .ndim = 1, .dtype = OPENREG_I64, .size = { 200000 },
		  .count = 200000, .pattern = 0 },
		{ .ndim = 2, .axis = 1, .dtype = OPENREG_U8,
		  .size = { 150, 17000 }, .count = 17000, .pattern = 1 },
		{ .ndim = 2, .axis = 0, .dtype = OPENREG_I16,
		  .size = { 40000, 70 }, .count = 40000, .pattern = 1 },
		{ .ndim = 2, .axis = 0, .dtype = OPENREG_BF16,
		  .size = { 100000, 5 }, .count = 4000, .pattern = 1 },
		{ .ndim = 2, .axis = 1, .dtype = OPENREG_I32,
		  .size = { 3, 400000 }, .first = 3, .count = 3, .pattern = 1 },
		{ .ndim = 1, .dtype = OPENREG_BOOL, .size = { 100000 },
		  .count = 100000, .pattern = 1 },
		{ .ndim = 1, .dtype = OPENREG_F16, .size = { 100000 },
		  .count = 100000, .pattern = 0 },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(problems) / sizeof(problems[0]);
	     i += SCALE > 1 ? 2 : 1) {
		struct problem p = problems[i];

		random_seed(i);
		p.dense = p.has_index = true;
		p.flags = i & 1;
		run(&p, i & 2);
	}
}

/* NaNs of both signs are the greatest, zeros of both signs are equal. */
static void test_special(void **state)
{
	static const uint32_t x[] = {
		0x7fc00000, 0x80000000, 0, 0xffc00001, 0x7f800000, 0xff800000,
		0x80000001, 1,
	};
	static const int64_t up[] = { 5, 6, 1, 2, 7, 4, 0, 3 };
	static const int64_t down[] = { 0, 3, 4, 7, 1, 2, 6, 5 };
	const int64_t n = 8;
	struct openreg_args args;
	int64_t index[8], i;
	uint32_t y[8];

	(void)state;
	for (i = 0; i < 2; i++) {
		const int64_t *want = i ? down : up;
		int64_t k;

		args_begin(&args, OPENREG_OP_SORT, 1, &n);
		args.arg[1] = (uint8_t)i;
		args_operand(&args, OPENREG_F32, y, NULL);
		args_operand(&args, OPENREG_F32, (void *)x, NULL);
		args_operand(&args, OPENREG_I64, index, NULL);
		args_imm_i(&args, 0);
		args_imm_i(&args, n);
		args_run(&args);
		for (k = 0; k < n; k++) {
			assert_int_equal(index[k], want[k]);
			assert_int_equal(y[k], x[want[k]]);
		}
	}
}

static void good(struct openreg_args *args)
{
	static const int64_t size[2] = { 2, 6 }, out[2] = { 4, 1 };
	static float x[12], y[8];
	static int64_t index[8];

	args_begin(args, OPENREG_OP_SORT, 2, size);
	args->arg[0] = 1;
	args_operand(args, OPENREG_F32, y, out);
	args_operand(args, OPENREG_F32, x, NULL);
	args_operand(args, OPENREG_I64, index, out);
	args_imm_i(args, 2);
	args_imm_i(args, 4);
}

static void test_check(void **state)
{
	struct openreg_args args;

	(void)state;
	good(&args);
	assert_int_equal(args_check(&args), 0);
	assert_true(args.op[0].written && !args.op[0].read);
	assert_true(args.op[1].read && !args.op[1].written);
	assert_true(args.op[2].written && !args.op[2].read);
	assert_true(args.op[0].sized && args.op[2].sized && !args.op[1].sized);
	assert_int_equal(args.op[0].size[1], 4);
	assert_int_equal(args.op[2].size[0], 2);
	assert_int_equal(args.op[1].dims, 3);
#define BAD(change, fault)                                                     \
	do {                                                                   \
		good(&args);                                                   \
		change;                                                        \
		assert_int_equal(args_check(&args), OPENREG_FAULT_##fault);    \
	} while (0)
	BAD(args.arg[0] = 2, SHAPE);
	BAD(args.ndim = 0, SHAPE);
	BAD(args.arg[1] = 2, PACKET);
	BAD(args.arg[2] = 1, PACKET);
	BAD(args.arg[3] = 1, PACKET);
	BAD(args.nops = 1, PACKET);
	BAD(args.nops = 4, PACKET);
	BAD(args.nimm = 1, PACKET);
	BAD(args.ninstr = 1, PACKET);
	BAD(args.imm[0] = 7, SHAPE);
	BAD(args.imm[0] = 3, SHAPE);
	BAD(args.imm[0] = UINT64_MAX, SHAPE);
	BAD(args.imm[1] = 5, SHAPE);
	BAD(args.imm[1] = UINT64_MAX - 1, SHAPE);
	BAD(args.op[0].dtype = OPENREG_I32, DTYPE);
	BAD(args.op[1].dtype = OPENREG_F64, DTYPE);
	BAD(args.op[0].dtype = args.op[1].dtype = 0, DTYPE);
	BAD(args.op[0].dtype = args.op[1].dtype = OPENREG_DTYPE_END, DTYPE);
	BAD(args.op[0].dtype = args.op[1].dtype = OPENREG_F8E5M2, DTYPE);
	BAD(args.op[2].dtype = OPENREG_I32, DTYPE);
	BAD(args.op[0].stride[1] = 0, SHAPE);
	BAD(args.op[2].stride[0] = 0, SHAPE);
	BAD(args.size[1] = OPENREG_SORT_ROW_MAX + 1, LIMIT);
#undef BAD
	good(&args);
	args.op[1].stride[1] = 0;
	args.size[1] = OPENREG_SORT_ROW_MAX;
	assert_int_equal(args_check(&args), 0);
}

static void test_nothing(void **state)
{
	struct openreg_args args;

	(void)state;
	good(&args);
	args.size[0] = 0;
	args.op[0].ptr = args.op[1].ptr = args.op[2].ptr = NULL;
	args_run(&args);
	good(&args);
	args.imm[1] = 0;
	args.op[0].ptr = args.op[2].ptr = NULL;
	args_run(&args);
	good(&args);
	args.size[1] = args.imm[0] = args.imm[1] = 0;
	args.op[0].ptr = args.op[1].ptr = args.op[2].ptr = NULL;
	args_run(&args);
}

/* The longest row has many slices, and one context cannot take all memory with it. */
static void test_longest(void **state)
{
	const int64_t n = OPENREG_SORT_ROW_MAX;
	atomic_size_t extra = 0, others = 0;
	struct openreg_scratch *scratch = openreg_scratch_new(&extra);
	struct openreg_scratch *other = openreg_scratch_new(&others);
	struct openreg_job *job, *more[8];
	struct openreg_args args;
	static double x;
	unsigned int i;
	bool later;

	(void)state;
	args_begin(&args, OPENREG_OP_SORT, 1, &n);
	args_operand(&args, OPENREG_F64, &x, NULL);
	args_operand(&args, OPENREG_F64, &x, NULL);
	args_imm_i(&args, 0);
	args_imm_i(&args, n);
	assert_int_equal(args_check(&args), 0);
	job = openreg_job_new(&args, scratch, &later);
	assert_non_null(job);
	assert_true(openreg_job_memory(job) <= 25 * (size_t)n);
	assert_true(openreg_job_memory(job) <= 256u << 20); /* limit of a context */
	assert_true(openreg_job_slices(job, 0) >= 256);
	assert_true(openreg_job_slices(job, openreg_job_phases(job) - 1) >=
		    256);
	for (i = 0; i < 8; i++) {
		more[i] = openreg_job_new(&args, scratch, &later);
		if (!more[i])
			break;
	}
	assert_true(i >= 3 && i < 8);
	assert_true(later);
	openreg_job_free(job);
	/* The jobs of one card do not limit another card. */
	job = openreg_job_new(&args, other, &later);
	assert_non_null(job);
	assert_int_equal(others, openreg_job_memory(job));
	openreg_job_free(job);
	more[i] = openreg_job_new(&args, scratch, &later);
	assert_non_null(more[i]);
	do
		openreg_job_free(more[i]);
	while (i--);
	assert_int_equal(extra, 0);
	openreg_scratch_free(scratch);
	openreg_scratch_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_special),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_longest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
