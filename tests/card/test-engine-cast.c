// SPDX-License-Identifier: MIT
/* Casts from every dtype to every other, by VECTOR and by the copy engine. */
#include <math.h>
#include <stdlib.h>

#include "engine-harness.h"
#include "vector-reference.h"

#define END OPENREG_DTYPE_END

static const double interesting[] = {
	0.0, -0.0, 0.5, -0.5, 0.999, 1, -1, 1.5, 2.5, -2.5, 3, 127, 128, 129,
	-128, -129, 255, 256, 257, 300.7, -300.7, 2047, 2048, 2049, 4097, 32767,
	32768, -32768, -32769, 65504, 65519, 65520, 65535, 65536, 1e5, -1e5,
	16777215, 16777216, 16777217, 2147483647, 2147483648.0, 2147483904.0,
	-2147483648.0, -2147483649.0, -2147484000.0, 4294967295.0, 4294967296.0,
	4294967297.0, 9007199254740993.0, 9223372036854774784.0,
	9223372036854775808.0, -9223372036854775808.0, -1e19, 1e19, 1e30, 1e38,
	3.4e38, 3.5e38, -1e39, 1e300, -1e300, 6e-8, 3e-8, 2.9e-8, 6.1e-5,
	5.96e-8, 1e-40, 1e-45, 1e-310, 5e-324, 0.1, -0.1, 1.0009765625,
	1.00048828125, 1.001, 1.00390625, 1.01171875, INFINITY, -INFINITY, NAN,
	240, 247.9, 248, 447, 448, 463.9, 464, 464.1, 480, -500, 57344, 61439,
	61440, 61441, 9.765625e-4, 9.7656e-4, 4.8828125e-4, 1.953125e-3,
	2.9296875e-3, 0.0146484375, 0.0185546875, 7.62939453125e-6,
	1.52587890625e-5, 2.288818359375e-5, 1.0625, 1.1875, 1.125, 1.375,
	1.5, 1.75, 3.0, 5.877471754111438e-39, 5.9e-39, 1.17549435e-38,
	2.5521178e38, 2.552117e38,
};
#define COUNT ((int64_t)(sizeof(interesting) / sizeof(*interesting)))

static bool same(double x, double y)
{
	if (isnan(x) || isnan(y))
		return isnan(x) && isnan(y);
	return x == y && !signbit(x) == !signbit(y);
}

/* A source element in the form that the references take. */
static void check_element(unsigned int to, const void *result,
			  unsigned int from, const void *source, int64_t i)
{
	double want;

	if (element_is_float(from) && !element_is_float(to)) {
		assert_int_equal(element_get_int(to, result, i),
				 reference_to_int(to, element_get(from, source, i)));
	} else if (!element_is_float(from) && !element_is_float(to)) {
		assert_int_equal(element_get_int(to, result, i),
				 reference_wrap(to, element_get_int(from, source, i)));
	} else {
		want = element_is_float(from)
			       ? reference_to_float(to, element_get(from, source, i))
		       : to == OPENREG_F64
			       ? (double)element_get_int(from, source, i)
			       : reference_to_float(to, (float)element_get_int(
							from, source, i));
		if (!same(element_get(to, result, i), want))
			fail_msg("%u to %u: %a is not %a", from, to,
				 element_get(to, result, i), want);
	}
}

/* Elements of a dtype, with its special values; does not use the card's code. */
static void fill_source(unsigned int dtype, void *to)
{
	int64_t i;

	for (i = 0; i < COUNT; i++) {
		double x = interesting[i];

		switch (dtype) {
		case OPENREG_F32:
			((float *)to)[i] = (float)x;
			break;
		case OPENREG_F64:
			((double *)to)[i] = x;
			break;
		case OPENREG_F16:
		case OPENREG_BF16:
			((uint16_t *)to)[i] = (uint16_t)(i * 877);
			break;
		case OPENREG_I64:
			((int64_t *)to)[i] =
				i & 1	? (int64_t)random_u64()
				: i & 2 ? INT64_MAX - i
					: INT64_MIN + i;
			break;
		case OPENREG_BOOL:
			((uint8_t *)to)[i] = (uint8_t)(i & 1 ? i : 0);
			break;
		case OPENREG_F8E4M3FN:
		case OPENREG_F8E5M2:
		case OPENREG_F8E4M3FNUZ:
		case OPENREG_F8E5M2FNUZ:
		case OPENREG_F8E8M0FNU:
			((uint8_t *)to)[i] = (uint8_t)(i * 37);
			break;
		default:
			memset((char *)to + i * openreg_dtype_size(dtype),
			       (int)(i * 37), openreg_dtype_size(dtype));
		}
	}
}

static void test_convert(void **state)
{
	uint64_t source[COUNT], result[COUNT], strided[COUNT * 3];
	unsigned int from, to;
	int64_t i;

	(void)state;
	for (from = 1; from < END; from++) {
		fill_source(from, source);
		for (to = 1; to < END; to++) {
			unsigned int size = openreg_dtype_size(to);

			openreg_convert(result, to, 1, source, from, 1, COUNT);
			for (i = 0; i < COUNT; i++)
				check_element(to, result, from, source, i);
			openreg_convert((char *)strided +
						(COUNT - 1) * 3 * size,
					to, -3, source, from, 1, COUNT);
			for (i = 0; i < COUNT; i++)
				assert_memory_equal(
					(char *)strided +
						(COUNT - 1 - i) * 3 * size,
					(char *)result + i * size, size);
		}
	}
}

/* LOAD with the register type of the source, then STORE to every dtype. */
static void test_load_store(void **state)
{
	static const uint8_t exact[END] = {
		[OPENREG_F32] = OPENREG_VT_F32,	 [OPENREG_F64] = OPENREG_VT_F64,
		[OPENREG_F16] = OPENREG_VT_F32,	 [OPENREG_BF16] = OPENREG_VT_F32,
		[OPENREG_I8] = OPENREG_VT_I32,	 [OPENREG_U8] = OPENREG_VT_I32,
		[OPENREG_I16] = OPENREG_VT_I32,	 [OPENREG_I32] = OPENREG_VT_I32,
		[OPENREG_I64] = OPENREG_VT_I64,	 [OPENREG_BOOL] = OPENREG_VT_I32,
		[OPENREG_F8E4M3FN] = OPENREG_VT_F32,
		[OPENREG_F8E5M2] = OPENREG_VT_F32,
		[OPENREG_F8E4M3FNUZ] = OPENREG_VT_F32,
		[OPENREG_F8E5M2FNUZ] = OPENREG_VT_F32,
		[OPENREG_F8E8M0FNU] = OPENREG_VT_F32,
	};
	uint64_t source[COUNT], result[COUNT];
	struct openreg_args args;
	unsigned int from, to;
	int64_t n = COUNT, i;

	(void)state;
	for (from = 1; from < END; from++) {
		fill_source(from, source);
		for (to = 1; to < END; to++) {
			args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
			args_operand(&args, to, result, NULL);
			args_operand(&args, from, source, NULL);
			args_instr(&args, OPENREG_V_LOAD, exact[from], 0, 0, 0,
				   0, 1);
			args_instr(&args, OPENREG_V_STORE, exact[from], 0, 0,
				   0, 0, 0);
			args_run(&args);
			for (i = 0; i < n; i++)
				check_element(to, result, from, source, i);
		}
	}
}

/* LOAD with a cast, and CVT, do what STORE's cast does. */
static void test_load_and_cvt_cast(void **state)
{
	static const uint8_t dtype_of[] = { OPENREG_F32, OPENREG_F64,
					    OPENREG_I32, OPENREG_I64 };
	uint64_t source[COUNT], by_load[COUNT], by_cvt[COUNT];
	struct openreg_args args;
	unsigned int from, to;
	int64_t n = COUNT, i;

	(void)state;
	for (from = 0; from < 4; from++) {
		fill_source(dtype_of[from], source);
		for (to = 0; to < 4; to++) {
			args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
			args_operand(&args, dtype_of[to], by_load, NULL);
			args_operand(&args, dtype_of[to], by_cvt, NULL);
			args_operand(&args, dtype_of[from], source, NULL);
			args_instr(&args, OPENREG_V_LOAD, to, 0, 0, 0, 0, 2);
			args_instr(&args, OPENREG_V_STORE, to, 0, 0, 0, 0, 0);
			/* In place, and not in the memory of the source. */
			args_instr(&args, OPENREG_V_LOAD, from, 1, 0, 0, 0, 2);
			args_instr(&args, OPENREG_V_MOV, from, 1, 1, 0, 0, 0);
			args_instr(&args, OPENREG_V_CVT, to, 1, 1, 0, 0, from);
			args_instr(&args, OPENREG_V_STORE, to, 0, 1, 0, 0, 1);
			args_run(&args);
			for (i = 0; i < n; i++) {
				check_element(dtype_of[to], by_load,
					      dtype_of[from], source, i);
				check_element(dtype_of[to], by_cvt,
					      dtype_of[from], source, i);
			}
		}
	}
}

/* Loads n numbers as f32. Stores them as f32 in wide, rounded, and as dtype in back. */
static void round_again(unsigned int dtype, void *from, float *wide, void *back,
			int64_t n)
{
	struct openreg_args args;

	args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
	args_operand(&args, OPENREG_F32, wide, NULL);
	args_operand(&args, dtype, from, NULL);
	args_operand(&args, dtype, back, NULL);
	args_instr(&args, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_ROUND, OPENREG_VT_F32, 1, 0, 0, 0, dtype);
	args_instr(&args, OPENREG_V_STORE, OPENREG_VT_F32, 0, 1, 0, 0, 0);
	args_instr(&args, OPENREG_V_STORE, OPENREG_VT_F32, 0, 0, 0, 0, 2);
	args_run(&args);
}

/* ROUND must not change a half; tests all of them. */
static void test_all_halves(void **state)
{
	uint16_t *half = malloc(65536 * 2), *back = malloc(65536 * 2);
	float *wide = malloc(65536 * 4);
	unsigned int dtype;
	int64_t n = 65536, i;

	(void)state;
	for (i = 0; i < n; i++)
		half[i] = (uint16_t)i;
	for (dtype = OPENREG_F16; dtype <= OPENREG_BF16; dtype++) {
		round_again(dtype, half, wide, back, n);
		for (i = 0; i < n; i++) {
			assert_true(same(wide[i], element_get(dtype, half, i)));
			if (!isnan(wide[i]))
				assert_int_equal(back[i], half[i]);
			else
				assert_true(isnan(element_get(dtype, back, i)));
		}
	}
	free(half);
	free(back);
	free(wide);
}

/* Random bits of f32, rounded to a half. */
static void test_round_to_halves(void **state)
{
	enum { N = 200000 };
	float *x = malloc(N * 4);
	uint16_t *h = malloc(N * 2);
	unsigned int dtype;
	int i;

	(void)state;
	random_seed(5);
	for (i = 0; i < N; i++) {
		uint32_t bits = (uint32_t)random_u64();

		/* Half of them in the range of f16. */
		if (i & 1)
			bits = (bits & 0x8fffffff) | 0x30000000 |
			       (bits & 0x08000000);
		memcpy(&x[i], &bits, 4);
	}
	for (dtype = OPENREG_F16; dtype <= OPENREG_BF16; dtype++) {
		openreg_convert(h, dtype, 1, x, OPENREG_F32, 1, N);
		for (i = 0; i < N; i++)
			check_element(dtype, h, OPENREG_F32, x, i);
	}
	free(x);
	free(h);
}

/* ROUND must not change a float8; tests all of them. */
static void test_all_float8(void **state)
{
	uint8_t bits[256], back[256], stored[256];
	float wide[256];
	unsigned int dtype;
	int64_t n = 256, i;

	(void)state;
	for (i = 0; i < n; i++)
		bits[i] = (uint8_t)i;
	for (dtype = OPENREG_F8E4M3FN; dtype <= OPENREG_F8E8M0FNU; dtype++) {
		round_again(dtype, bits, wide, back, n);
		openreg_convert(stored, dtype, 1, wide, OPENREG_F32, 1, n);
		for (i = 0; i < n; i++) {
			assert_true(same(wide[i], element_get(dtype, bits, i)));
			assert_int_equal(back[i], stored[i]);
			if (!isnan(wide[i]))
				assert_int_equal(back[i], i);
			else
				assert_true(isnan(element_get(dtype, back, i)));
		}
	}
}

/* Every bf16 and every f16, and random bits of f32, half of them in the range. */
static void test_round_to_float8(void **state)
{
	enum { N = 3 * 65536 };
	float *x = malloc(N * 4);
	uint8_t *h = malloc(N);
	uint32_t bits;
	unsigned int dtype;
	int i;

	(void)state;
	random_seed(6);
	for (i = 0; i < N; i++) {
		uint16_t half = (uint16_t)i;

		bits = (uint32_t)random_u64();
		if (i & 1)
			bits = (bits & 0x87ffffff) | 0x38000000;
		memcpy(&x[i], &bits, 4);
		if (i < 65536)
			x[i] = (float)element_get(OPENREG_BF16, &half, 0);
		else if (i < 2 * 65536)
			x[i] = (float)element_get(OPENREG_F16, &half, 0);
	}
	for (dtype = OPENREG_F8E4M3FN; dtype <= OPENREG_F8E8M0FNU; dtype++) {
		openreg_convert(h, dtype, 1, x, OPENREG_F32, 1, N);
		for (i = 0; i < N; i++)
			check_element(dtype, h, OPENREG_F32, x, i);
	}
	free(x);
	free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_convert),
		cmocka_unit_test(test_load_store),
		cmocka_unit_test(test_load_and_cvt_cast),
		cmocka_unit_test(test_all_halves),
		cmocka_unit_test(test_round_to_halves),
		cmocka_unit_test(test_all_float8),
		cmocka_unit_test(test_round_to_float8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
