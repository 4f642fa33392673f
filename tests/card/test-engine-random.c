// SPDX-License-Identifier: MIT
/* Random words of VECTOR: known answers, any layout, any number of slices. */
#include <stdlib.h>

#include "engine-harness.h"
#include "kernels/kernels.h"
#include "kernels/philox.h"

#define I32 OPENREG_VT_I32
#define I64 OPENREG_VT_I64
#define KEY 0x0123456789abcdefULL
#define COUNTER 0xfedcba9876543210ULL

struct answer {
	uint64_t key, low, high;
	uint32_t word[4];
};

/* Known answers that the authors of the paper publish with their code. */
static const struct answer answers[] = {
	{ 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
	{ ~0ULL,
	  ~0ULL,
	  ~0ULL,
	  { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
	{ 0x299f31d0a4093822,
	  0x85a308d3243f6a88,
	  0x0370734413198a2e,
	  { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};

static void test_known_answers(void **state)
{
	uint32_t word[4];
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		openreg_philox(word, answers[i].key, answers[i].low,
			       answers[i].high);
		assert_memory_equal(word, answers[i].word, sizeof(word));
	}
}

static uint32_t word_of(uint64_t key, uint64_t counter, uint64_t n)
{
	uint32_t word[4];

	openreg_philox(word, key, n / 4, counter);
	return word[n % 4];
}

/* Element i of a stream; the bits above an I32 are 0. */
static uint64_t element_of(unsigned int type, uint64_t key, uint64_t counter,
			   uint64_t i)
{
	if (type == I32)
		return word_of(key, counter, i);
	return word_of(key, counter, 2 * i) |
	       (uint64_t)word_of(key, counter, 2 * i + 1) << 32;
}

static uint64_t bits_at(unsigned int type, const void *p, int64_t at)
{
	return type == I32 ? ((const uint32_t *)p)[at]
			   : ((const uint64_t *)p)[at];
}

static unsigned int dtype_of(unsigned int type)
{
	return type == I32 ? OPENREG_I32 : OPENREG_I64;
}

static void program(struct openreg_args *args, unsigned int type, uint64_t key,
		    uint64_t counter, unsigned int aux)
{
	args_imm_i(args, 77);
	args_imm_i(args, (int64_t)counter);
	args_imm_i(args, (int64_t)key);
	args_instr(args, OPENREG_V_RANDOM, type, 3, 2, 1, 0, aux);
	args_instr(args, OPENREG_V_STORE, type, 0, 3, 0, 0, 0);
}

/* Stores the words of known answers, in the order of their index. */
static void test_first_words(void **state)
{
	static const int64_t four = 4, two = 2;
	uint32_t word[4];
	uint64_t pair[2];
	struct openreg_args args;

	(void)state;
	args_begin(&args, OPENREG_OP_VECTOR, 1, &four);
	args_operand(&args, OPENREG_I32, word, NULL);
	program(&args, I32, 0, 0, 0);
	args_run(&args);
	assert_memory_equal(word, answers[0].word, sizeof(word));
	args_begin(&args, OPENREG_OP_VECTOR, 1, &two);
	args_operand(&args, OPENREG_I64, pair, NULL);
	program(&args, I64, 0, 0, 0);
	args_run(&args);
	assert_int_equal(pair[0], 0xe169c58d6627e8d5);
	assert_int_equal(pair[1], 0x9b00dbd8bc57ac4c);
	/* The addition of aux carries through all 64 bits of the counter. */
	args_begin(&args, OPENREG_OP_VECTOR, 1, &four);
	args_operand(&args, OPENREG_I32, word, NULL);
	program(&args, I32, 0, 0ULL - 65535, 65535);
	args_run(&args);
	assert_memory_equal(word, answers[0].word, sizeof(word));
}

/*
 * Any layout of the stored operand, with another operand that prevents the merge of
 * dimensions. The numbers must depend only on the packet's space.
 */
static void one_walk(unsigned int type)
{
	unsigned int ndim = (unsigned int)random_range(0, 6), d;
	int64_t size[OPENREG_DIMS_MAX], at[OPENREG_DIMS_MAX] = { 0 };
	uint64_t key = random_u64(), counter = random_u64(), i = 0;
	unsigned int aux = (unsigned int)random_range(0, 65535);
	struct layout out, in;
	struct openreg_args args;
	int64_t points = 1;
	char *memory, *other;

	for (d = 0; d < ndim; d++) {
		int64_t most = 20000 / points > 1 ? 20000 / points : 1;

		size[d] = random_range(1, most < 70 || random_range(0, 3) == 0
						  ? most
						  : 70);
		points *= size[d];
	}
	random_layout(&out, ndim, size, false);
	random_layout(&in, ndim, size, true);
	memory = calloc((size_t)out.extent, 8);
	other = calloc((size_t)in.extent, 8);
	args_begin(&args, OPENREG_OP_VECTOR, ndim, size);
	args_operand(&args, dtype_of(type),
		     memory + out.origin * (type == I32 ? 4 : 8), out.stride);
	args_operand(&args, dtype_of(type),
		     other + in.origin * (type == I32 ? 4 : 8), in.stride);
	program(&args, type, key, counter, aux);
	args.ninstr--;
	args_instr(&args, OPENREG_V_LOAD, type, 4, 0, 0, 0, 1);
	args_instr(&args, OPENREG_V_XOR, type, 3, 3, 4, 0, 0);
	args_instr(&args, OPENREG_V_STORE, type, 0, 3, 0, 0, 0);
	args_run_order(&args, random_range(0, 1));
	do {
		int64_t where = layout_at(&out, ndim, at);

		assert_int_equal(bits_at(type, memory, where),
				 element_of(type, key, counter + aux, i));
		i++;
	} while (next_point(ndim, size, at));
	free(memory);
	free(other);
}

static void test_layouts(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 600; i++) {
		random_seed(i);
		one_walk(i % 2 ? I32 : I64);
	}
}

/* Many slices on two threads, in either order. No size is a multiple of 4. */
static void test_slices(void **state)
{
	static const int64_t size[3] = { 1237, 3, 811 };
	int64_t points = size[0] * size[1] * size[2], transposed[3], i;
	unsigned int type, turn;
	char *memory = malloc((size_t)points * 8);

	(void)state;
	transposed[0] = 1;
	transposed[1] = size[0];
	transposed[2] = size[0] * size[1];
	for (type = I32; type <= I64; type++) {
		for (turn = 0; turn < 4; turn++) {
			bool turned = turn & 1;
			struct openreg_args args;

			args_begin(&args, OPENREG_OP_VECTOR, 3, size);
			args_operand(&args, dtype_of(type), memory,
				     turned ? transposed : NULL);
			program(&args, type, KEY, COUNTER, turn);
			args_run_order(&args, turn & 2);
			for (i = 0; i < points; i++) {
				int64_t a = i / (size[1] * size[2]);
				int64_t b = i / size[2] % size[1];
				int64_t c = i % size[2];
				int64_t at = turned ? a + b * transposed[1] +
							      c * transposed[2]
						    : i;

				if (bits_at(type, memory, at) !=
				    element_of(type, KEY, COUNTER + turn,
					       (uint64_t)i))
					fail_msg("type %u, turn %u: point %ld",
						 type, turn, (long)i);
			}
		}
	}
	free(memory);
}

/* The index of a point counts folded dimensions, too. */
static void test_reduction(void **state)
{
	static const int64_t size[3] = { 37, 29, 41 };
	unsigned int mask;

	(void)state;
	for (mask = 1; mask < 8; mask++) {
		int64_t sum[37 * 29 * 41] = { 0 }, want[37 * 29 * 41] = { 0 };
		int64_t stride[3] = { 0 }, step = 1, i;
		struct openreg_args args;
		unsigned int d;

		for (d = 3; d-- > 0;) {
			stride[d] = mask >> d & 1 ? 0 : step;
			step *= mask >> d & 1 ? 1 : size[d];
		}
		args_begin(&args, OPENREG_OP_VECTOR, 3, size);
		args_operand(&args, OPENREG_I64, sum, stride);
		program(&args, I64, KEY, COUNTER, 5);
		args.ninstr--;
		args.arg[0] = (uint8_t)mask;
		args_instr(&args, OPENREG_V_RED_SUM, I64, 0, 3, OPENREG_VNONE,
			   OPENREG_VNONE, 0);
		args_run(&args);
		for (i = 0; i < size[0] * size[1] * size[2]; i++) {
			int64_t at = i / (size[1] * size[2]) * stride[0] +
				     i / size[2] % size[1] * stride[1] +
				     i % size[2] * stride[2];

			want[at] = (int64_t)((uint64_t)want[at] +
					     element_of(I64, KEY, COUNTER + 5,
							(uint64_t)i));
		}
		assert_memory_equal(sum, want, (size_t)step * 8);
	}
}

/* Two streams in one program, a register written twice, an empty space. */
static void test_programs(void **state)
{
	static const int64_t n = 3001, none = 0;
	static int64_t out[3001];
	struct openreg_args args;
	int64_t i;

	(void)state;
	args_begin(&args, OPENREG_OP_VECTOR, 1, &n);
	args_operand(&args, OPENREG_I64, out, NULL);
	program(&args, I32, KEY, COUNTER, 0);
	args.ninstr--;
	args_instr(&args, OPENREG_V_CVT, I64, 4, 3, 0, 0, I32);
	args_instr(&args, OPENREG_V_RANDOM, I64, 3, 2, 1, 0, 1);
	args_instr(&args, OPENREG_V_SUB, I64, 3, 3, 4, 0, 0);
	args_instr(&args, OPENREG_V_STORE, I64, 0, 3, 0, 0, 0);
	args_run(&args);
	for (i = 0; i < n; i++) {
		int32_t first = (int32_t)element_of(I32, KEY, COUNTER,
						    (uint64_t)i);

		assert_int_equal((uint64_t)out[i],
				 element_of(I64, KEY, COUNTER + 1,
					    (uint64_t)i) -
					 (uint64_t)(int64_t)first);
	}
	args_begin(&args, OPENREG_OP_VECTOR, 1, &none);
	args_operand(&args, OPENREG_I64, NULL, NULL);
	program(&args, I64, KEY, COUNTER, 0);
	args_run(&args);
}

/* The kernels of all levels, without a plan, far along the streams. */
static void test_levels(void **state)
{
	static const int64_t strides[] = { 1,  2,  3, 4, 1000,
					   -1, -7, 0, 1LL << 33 };
	unsigned char out[200 * 8], untouched[8];
	unsigned int level, type, i, j;

	(void)state;
	memset(untouched, 0xee, sizeof(untouched));
	for (level = 0; level < OPENREG_ISA_LEVELS; level++) {
		const struct openreg_kernels *k = openreg_kernels_at(level);

		for (i = 0; k && i < 4000; i++) {
			struct openreg_philox from = { random_u64(),
						       random_u64() };
			uint64_t first = (1 << 20) + (random_u64() >>
						      random_range(2, 63));
			int64_t stride = strides[random_range(0, 8)];
			size_t n = (size_t)random_range(0, 150), width;

			if (i % 5 == 0) /* a carry between the counter's words */
				first = (1ULL << 34) -
					(uint64_t)random_range(0, 200);
			type = i % 2 ? I32 : I64;
			width = type == I32 ? 4 : 8;
			memset(out, 0xee, sizeof(out));
			k->random[type](out, from, first, stride, n);
			for (j = 0; j < n; j++)
				assert_int_equal(
					bits_at(type, out, j),
					element_of(type, from.key, from.counter,
						   first + j * (uint64_t)stride));
			assert_memory_equal(out + n * width, untouched, 8);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_answers),
		cmocka_unit_test(test_first_words),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_reduction),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_levels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
