// SPDX-License-Identifier: MIT
/*
 * Packed matrices: PACK and UNPACK keep all bits, MATMUL with a packed B gives the results
 * of nested loops, and a damaged packed matrix faults or gives wrong numbers.
 */
#include <stdlib.h>

#include "engine-harness.h"

#define GUARD 256 /* bytes behind a packed matrix */

static const uint8_t dtypes[] = { OPENREG_F32, OPENREG_F16, OPENREG_BF16 };
#define DTYPES (sizeof(dtypes) / sizeof(*dtypes))

static const int64_t run_of[2] = { 0, 1 };
static const int64_t one_word[2] = { 0, 0 };

static int64_t packed_size(unsigned int dtype, int64_t k, int64_t n)
{
	const int64_t size[2] = { k, n };
	struct openreg_args args;
	int64_t bytes = -1;

	args_begin(&args, OPENREG_OP_PACK, 2, size);
	args.arg[0] = OPENREG_PACK_SIZE;
	args_operand(&args, OPENREG_I64, &bytes, one_word);
	args_operand(&args, dtype, NULL, NULL);
	args_run(&args);
	return bytes;
}

struct matrix {
	unsigned int dtype;
	int64_t size[2]; /* k, n */
	struct layout layout;
	unsigned char *memory;
	unsigned char *packed;
	int64_t bytes; /* of packed */
};

static void *element(const struct matrix *x)
{
	return x->memory + x->layout.origin * openreg_dtype_size(x->dtype);
}

static void copy_args(struct openreg_args *args, const struct matrix *x,
		      unsigned int kind)
{
	args_begin(args, OPENREG_OP_PACK, 2, x->size);
	args->arg[0] = (uint8_t)kind;
	if (kind == OPENREG_PACK_PACK)
		args_operand(args, x->dtype, x->packed, run_of);
	args_operand(args, x->dtype, element(x), x->layout.stride);
	if (kind == OPENREG_PACK_UNPACK)
		args_operand(args, x->dtype, x->packed, run_of);
}

/* Makes a matrix of any layout, of random bits or of small integers, and packs it. */
static void make(struct matrix *x, unsigned int dtype, int64_t k, int64_t n,
		 bool bits)
{
	struct openreg_args args;
	int64_t esize = openreg_dtype_size(dtype), i;

	*x = (struct matrix){ .dtype = dtype, .size = { k, n } };
	random_layout(&x->layout, 2, x->size, false);
	x->memory = malloc((size_t)(x->layout.extent * esize + 1));
	x->bytes = packed_size(dtype, k, n);
	x->packed = aligned_alloc(64, (size_t)(x->bytes + 63 + GUARD) / 64 * 64);
	assert_non_null(x->memory);
	assert_non_null(x->packed);
	for (i = 0; bits && i < x->layout.extent * esize; i++)
		x->memory[i] = (unsigned char)random_u64();
	if (!bits)
		fill_small(dtype, x->memory, x->layout.extent, -3, 3);
	memset(x->packed, 0xa5, (size_t)(x->bytes + GUARD));
	copy_args(&args, x, OPENREG_PACK_PACK);
	args_run_order(&args, random_range(0, 1));
	for (i = 0; i < GUARD; i++)
		assert_int_equal(x->packed[x->bytes + i], 0xa5);
}

static void drop(struct matrix *x)
{
	free(x->memory);
	free(x->packed);
}

static int64_t any_size(void)
{
	return random_range(0, 3) ? random_range(1, 20) : random_range(1, 300);
}

static void test_copies(void **state)
{
	unsigned int i, round;

	(void)state;
	random_seed(1);
	for (round = 0; round < 200 / SCALE; round++) {
		for (i = 0; i < DTYPES; i++) {
			int64_t at[2] = { 0 };
			struct openreg_args args;
			unsigned char *back;
			struct matrix x;
			size_t esize = openreg_dtype_size(dtypes[i]), len;

			make(&x, dtypes[i], any_size(), any_size(), true);
			len = (size_t)x.layout.extent * esize;
			back = malloc(len + 1);
			assert_non_null(back);
			memcpy(back, x.memory, len);
			do
				memset(x.memory + layout_at(&x.layout, 2, at) *
							  (int64_t)esize,
				       0, esize);
			while (next_point(2, x.size, at));
			copy_args(&args, &x, OPENREG_PACK_UNPACK);
			args_run_order(&args, round & 1);
			assert_memory_equal(x.memory, back, len);
			free(back);
			drop(&x);
		}
	}
}

struct product {
	int64_t size[4]; /* b, m, n, k */
	double alpha, beta;
	struct layout d, a, c;
	unsigned char *d_memory, *a_memory, *c_memory;
	struct matrix b;
};

static unsigned char *lay_out(const struct product *p, struct layout *l,
			      unsigned int lacks, bool broadcast)
{
	int64_t size[4];
	unsigned char *memory;

	memcpy(size, p->size, sizeof(size));
	size[lacks] = 1;
	random_layout(l, 4, size, broadcast);
	l->stride[lacks] = 0;
	memory = calloc((size_t)l->extent + 1, 8);
	assert_non_null(memory);
	fill_small(p->b.dtype, memory, l->extent, -3, 3);
	return memory;
}

static void make_product(struct product *p, unsigned int dtype, bool has_c)
{
	make(&p->b, dtype, p->size[3], p->size[2], false);
	p->d_memory = lay_out(p, &p->d, 3, false);
	p->a_memory = lay_out(p, &p->a, 2, true);
	p->c_memory = lay_out(p, &p->c, 3, true);
	p->alpha = random_range(0, 1) ? 1 : 2;
	p->beta = has_c ? -1 : 0;
}

static void drop_product(struct product *p)
{
	drop(&p->b);
	free(p->d_memory);
	free(p->a_memory);
	free(p->c_memory);
}

static void product_args(struct openreg_args *args, const struct product *p)
{
	static const int64_t run[4] = { 0, 0, 1, 0 };
	unsigned int dtype = p->b.dtype, esize = openreg_dtype_size(dtype);

	args_begin(args, OPENREG_OP_MATMUL, 4, p->size);
	args->arg[3] = OPENREG_MATMUL_PACKED_B;
	args_operand(args, dtype, p->d_memory + p->d.origin * esize, p->d.stride);
	args_operand(args, dtype, p->a_memory + p->a.origin * esize, p->a.stride);
	args_operand(args, dtype, p->b.packed, run);
	if (p->beta != 0)
		args_operand(args, dtype, p->c_memory + p->c.origin * esize,
			     p->c.stride);
	args_imm_f(args, p->alpha);
	args_imm_f(args, p->beta);
}

static double value(const struct product *p, const unsigned char *memory,
		    const struct layout *l, const int64_t *at)
{
	return element_get(p->b.dtype, memory, layout_at(l, 4, at));
}

/* A as [b, m, k], or B as [n, k]. */
static double *unfold(const struct product *p, bool of_b)
{
	int64_t rows = of_b ? p->size[2] : p->size[0] * p->size[1];
	int64_t k = p->size[3], r, i;
	double *x = malloc((size_t)(rows * k) * sizeof(*x)), *to = x;

	assert_non_null(x);
	for (r = 0; r < rows; r++) {
		for (i = 0; i < k; i++) {
			const int64_t in_b[2] = { i, r };
			const int64_t in_a[4] = { r / p->size[1],
						  r % p->size[1], 0, i };

			*to++ = of_b ? element_get(p->b.dtype, p->b.memory,
						   layout_at(&p->b.layout, 2,
							     in_b))
				     : value(p, p->a_memory, &p->a, in_a);
		}
	}
	return x;
}

/* Small integers: every sum is exact, in any order. */
static void expect_product(const struct product *p)
{
	int64_t size[4] = { p->size[0], p->size[1], p->size[2], 1 };
	double *a = unfold(p, false), *b = unfold(p, true);
	int64_t at[4] = { 0 }, k = p->size[3], i;

	do {
		const double *row = a + (at[0] * size[1] + at[1]) * k;
		const double *column = b + at[2] * k;
		double sum = 0;

		for (i = 0; i < k; i++)
			sum += row[i] * column[i];
		sum *= p->alpha;
		if (p->beta != 0)
			sum += p->beta * value(p, p->c_memory, &p->c, at);
		assert_true(value(p, p->d_memory, &p->d, at) ==
			    element_round(p->b.dtype, sum));
	} while (next_point(4, size, at));
	free(a);
	free(b);
}

static void multiply(unsigned int dtype, int64_t b, int64_t m, int64_t n,
		     int64_t k, bool has_c)
{
	struct product p = { .size = { b, m, n, k } };
	struct openreg_args args;

	make_product(&p, dtype, has_c);
	product_args(&args, &p);
	args_run_order(&args, random_range(0, 1));
	expect_product(&p);
	drop_product(&p);
}

static void test_products(void **state)
{
	unsigned int i, round;

	(void)state;
	random_seed(2);
	for (round = 0; round < 60 / SCALE; round++) {
		for (i = 0; i < DTYPES; i++)
			multiply(dtypes[i], random_range(1, 3), any_size() % 80 + 1,
				 any_size(), any_size(), round & 1);
	}
}

/* Several tiles of columns, of rows, and of k, for which the card unpacks. */
static void test_tiles(void **state)
{
	unsigned int i;

	(void)state;
	random_seed(3);
	for (i = 0; i < DTYPES; i++) {
		multiply(dtypes[i], 1, 1, 3000 / SCALE + 1, 515, false);
		multiply(dtypes[i], 2, 200, 700 / SCALE + 3, 130, true);
		multiply(dtypes[i], 1, 300 / SCALE, 1100 / SCALE, 77, false);
	}
	multiply(OPENREG_F32, 1, 64, 65, 60000 / SCALE, false);
}

/* Dense operands, as those of a layer: oneDNN reads all of them in place. */
static void test_dense(void **state)
{
	unsigned int i;

	(void)state;
	random_seed(4);
	for (i = 0; i < DTYPES; i++) {
		static const int64_t rows[] = { 1, 2, 4, 16, 33, 64 };
		unsigned int r;

		for (r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
			struct product p = { .size = { 1, rows[r], 256, 256 } };
			struct openreg_args args;

			make_product(&p, dtypes[i], false);
			free(p.a_memory);
			p.a_memory = lay_out(&p, &p.a, 2, false);
			dense_strides(4, (int64_t[]){ 1, rows[r], 256, 1 },
				      p.d.stride);
			dense_strides(4, (int64_t[]){ 1, rows[r], 1, 256 },
				      p.a.stride);
			p.d.stride[3] = p.a.stride[2] = 0;
			p.d.origin = p.a.origin = 0;
			product_args(&args, &p);
			args_run(&args);
			expect_product(&p);
			drop_product(&p);
		}
	}
}

static void expect_format(struct openreg_args *args, uint32_t operand)
{
	struct openreg_verdict v = args_try(args, false);

	assert_int_equal(v.code, OPENREG_FAULT_FORMAT);
	assert_int_equal(v.operand, operand);
}

/* Damages each byte of the header, then all bytes behind it. */
static void test_damage(void **state)
{
	struct product p = { .size = { 1, 5, 40, 50 } };
	struct openreg_args args, unpack;
	unsigned int i, k;

	(void)state;
	random_seed(5);
	for (k = 0; k < DTYPES; k++) {
		make_product(&p, dtypes[k], false);
		product_args(&args, &p);
		copy_args(&unpack, &p.b, OPENREG_PACK_UNPACK);
		for (i = 0; i < 64; i++) {
			p.b.packed[i] ^= 0x40;
			expect_format(&args, 2);
			expect_format(&unpack, 1);
			p.b.packed[i] ^= 0x40;
		}
		for (i = 64; i < p.b.bytes; i++)
			p.b.packed[i] = (unsigned char)random_u64();
		assert_int_equal(args_try(&args, false).code, OPENREG_FAULT_NONE);
		assert_int_equal(args_try(&unpack, false).code,
				 OPENREG_FAULT_NONE);
		drop_product(&p);
	}
}

/* A packed matrix of other sizes or of another dtype. */
static void test_others(void **state)
{
	static const int64_t sizes[][2] = { { 50, 41 }, { 50, 39 }, { 49, 40 },
					    { 51, 40 }, { 40, 50 }, { 1, 1 } };
	struct openreg_args args;
	unsigned int i, k;
	struct matrix x;

	(void)state;
	for (k = 0; k < DTYPES; k++) {
		unsigned int other = dtypes[(k + 1) % DTYPES];

		make(&x, dtypes[k], 50, 40, false);
		x.memory = realloc(x.memory, 1 << 16);
		x.packed = realloc(x.packed, 1 << 16);
		assert_non_null(x.memory);
		assert_non_null(x.packed);
		x.layout.origin = 0;
		dense_strides(2, (int64_t[]){ 60, 60 }, x.layout.stride);
		for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			memcpy(x.size, sizes[i], sizeof(x.size));
			copy_args(&args, &x, OPENREG_PACK_UNPACK);
			expect_format(&args, 1);
		}
		memcpy(x.size, (int64_t[]){ 50, 40 }, sizeof(x.size));
		x.dtype = other;
		copy_args(&args, &x, OPENREG_PACK_UNPACK);
		expect_format(&args, 1);
		drop(&x);
	}
}

static void test_checks(void **state)
{
	const int64_t size[2] = { 3, 5 }, product[4] = { 1, 2, 5, 3 };
	static const int64_t run[4] = { 0, 0, 1, 0 };
	struct openreg_args good, args;

	(void)state;
	args_begin(&good, OPENREG_OP_PACK, 2, size);
	args_operand(&good, OPENREG_BF16, NULL, run_of);
	args_operand(&good, OPENREG_BF16, NULL, NULL);
	EXPECT(, NONE);
	EXPECT(args.arg[0] = OPENREG_PACK_END, PACKET);
	EXPECT(args.arg[1] = 1, PACKET);
	EXPECT(args.arg[2] = 1, PACKET);
	EXPECT(args.arg[3] = 1, PACKET);
	EXPECT(args.nops = 1, PACKET);
	EXPECT(args.nops = 3, PACKET);
	EXPECT(args.nimm = 1, PACKET);
	EXPECT(args.ninstr = 1, PACKET);
	EXPECT(args.ndim = 3, SHAPE);
	EXPECT(args.op[0].stride[0] = 1, SHAPE);
	EXPECT(args.op[0].stride[1] = 2, SHAPE);
	EXPECT(args.op[0].dtype = OPENREG_F16, DTYPE);
	EXPECT(args.op[0].dtype = args.op[1].dtype = OPENREG_F64, DTYPE);
	EXPECT(args.op[0].dtype = args.op[1].dtype = OPENREG_I8, DTYPE);
	EXPECT(args.op[0].dtype = args.op[1].dtype = OPENREG_DTYPE_END, DTYPE);
	EXPECT(args.op[0].addr = 32, ALIGNMENT);
	EXPECT(args.op[1].stride[0] = 0, NONE);
	EXPECT(args.arg[0] = OPENREG_PACK_UNPACK, SHAPE);
	EXPECT(args.arg[0] = OPENREG_PACK_SIZE, DTYPE);
	EXPECT(args.arg[0] = OPENREG_PACK_SIZE; args.op[0].dtype = OPENREG_I64,
	       SHAPE);

	args_begin(&good, OPENREG_OP_MATMUL, 4, product);
	good.arg[3] = OPENREG_MATMUL_PACKED_B;
	args_operand(&good, OPENREG_F16, NULL, (int64_t[]){ 10, 5, 1, 0 });
	args_operand(&good, OPENREG_F16, NULL, (int64_t[]){ 6, 3, 0, 1 });
	args_operand(&good, OPENREG_F16, NULL, run);
	args_imm_f(&good, 1);
	args_imm_f(&good, 0);
	EXPECT(, NONE);
	EXPECT(args.arg[3] |= 0x40, PACKET);
	EXPECT(args.op[2].stride[0] = 1, SHAPE);
	EXPECT(args.op[2].stride[1] = 1, SHAPE);
	EXPECT(args.op[2].stride[2] = 0, SHAPE);
	EXPECT(args.op[2].stride[3] = 1, SHAPE);
	EXPECT(args.op[2].addr = 16, ALIGNMENT);
	EXPECT(args.op[2].dtype = OPENREG_BF16, DTYPE);
	EXPECT(args.op[0].dtype = args.op[1].dtype = args.op[2].dtype =
		       OPENREG_F64, DTYPE);
	EXPECT(args.op[0].dtype = args.op[1].dtype = args.op[2].dtype =
		       OPENREG_I32, DTYPE);
	assert_int_equal(packed_size(OPENREG_F32, 0, 1LL << 62), 0);
	assert_int_equal(packed_size(OPENREG_F16, 1LL << 62, 0), 0);
	assert_true(packed_size(OPENREG_F16, 1, 1) >= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies), cmocka_unit_test(test_products),
		cmocka_unit_test(test_tiles),  cmocka_unit_test(test_dense),
		cmocka_unit_test(test_damage), cmocka_unit_test(test_others),
		cmocka_unit_test(test_checks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
