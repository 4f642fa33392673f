// SPDX-License-Identifier: MIT
/* Long copies and fills within VRAM, which the card runs as programs. */
#include <stdlib.h>

#include "core/copy.h"
#include "engine-harness.h"

struct problem {
	unsigned int ndim;
	int64_t size[OPENREG_DIMS_MAX];
	unsigned int dtype[2]; /* destination, source */
	struct layout at[2];
	unsigned char *memory[2], *want;
};

static unsigned char *element(const struct problem *p, unsigned int op,
			      unsigned char *memory, const int64_t *at)
{
	return memory + layout_at(&p->at[op], p->ndim, at) *
				openreg_dtype_size(p->dtype[op]);
}

static void add_operand(struct openreg_args *args, const struct problem *p,
			unsigned int op)
{
	args_operand(args, p->dtype[op],
		     p->memory[op] +
			     p->at[op].origin * openreg_dtype_size(p->dtype[op]),
		     p->at[op].stride);
}

static void choose(struct problem *p, unsigned int i)
{
	unsigned int d;
	int64_t points = 1;

	p->ndim = (unsigned int)random_range(1, 4);
	for (d = 0; d < p->ndim; d++) {
		p->size[d] = random_range(1, 60);
		points *= p->size[d];
	}
	/* Long enough, and sometimes a multiple of the elements of 8 bytes. */
	while (points < 20000) {
		p->size[p->ndim - 1] *= 2;
		points *= 2;
	}
	p->dtype[0] = (unsigned int)random_range(OPENREG_F32,
						    OPENREG_F8E8M0FNU);
	p->dtype[1] = i % 2 ? p->dtype[0]
			    : (unsigned int)random_range(OPENREG_F32,
							 OPENREG_F8E8M0FNU);
}

static void allocate(struct problem *p)
{
	bool dense = random_range(0, 2) == 0;
	unsigned int op;
	int64_t i;

	for (op = 0; op < 2; op++) {
		random_layout(&p->at[op], p->ndim, p->size, op == 1 && !dense);
		if (dense) {
			dense_strides(p->ndim, p->size, p->at[op].stride);
			p->at[op].origin = 0;
		}
		p->memory[op] = malloc((size_t)p->at[op].extent * 8 + 8);
		/* Small numbers, so that every cast is defined. */
		for (i = 0; i < p->at[op].extent * 8 + 8; i++)
			p->memory[op][i] = (unsigned char)(random_u64() & 15);
	}
	p->want = malloc((size_t)p->at[0].extent * 8 + 8);
	memcpy(p->want, p->memory[0], (size_t)p->at[0].extent * 8 + 8);
}

static void release(struct problem *p)
{
	free(p->memory[0]);
	free(p->memory[1]);
	free(p->want);
}

static void compare(const struct problem *p)
{
	assert_memory_equal(p->memory[0], p->want,
			    (size_t)p->at[0].extent * 8 + 8);
}

static void run_copy(struct problem *p, bool reverse)
{
	struct openreg_args args;

	args_begin(&args, OPENREG_OP_COPY, p->ndim, p->size);
	add_operand(&args, p, 0);
	add_operand(&args, p, 1);
	assert_true(copy_to_program(&args));
	args_run_order(&args, reverse);
	compare(p);
	release(p);
}

static void test_copies(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 400 / SCALE; i++) {
		int64_t at[OPENREG_DIMS_MAX] = { 0 };
		struct problem p = { 0 };

		random_seed(i);
		choose(&p, i);
		allocate(&p);
		do {
			unsigned char *to = element(&p, 0, p.want, at);
			unsigned char *from = element(&p, 1, p.memory[1], at);

			/* Without a cast the copy keeps all bits, also of BOOL. */
			if (p.dtype[0] == p.dtype[1])
				memcpy(to, from, openreg_dtype_size(p.dtype[0]));
			else
				openreg_convert(to, p.dtype[0], 1, from,
						p.dtype[1], 1, 1);
		} while (next_point(p.ndim, p.size, at));
		run_copy(&p, i % 3 == 0);
	}
}

static void test_fills(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 200 / SCALE; i++) {
		int64_t at[OPENREG_DIMS_MAX] = { 0 };
		struct openreg_args args;
		struct problem p = { 0 };
		uint64_t pattern;

		random_seed(i);
		pattern = random_u64();
		choose(&p, i);
		allocate(&p);
		do
			memcpy(element(&p, 0, p.want, at), &pattern,
			       openreg_dtype_size(p.dtype[0]));
		while (next_point(p.ndim, p.size, at));
		args_begin(&args, OPENREG_OP_FILL, p.ndim, p.size);
		add_operand(&args, &p, 0);
		args_imm_i(&args, (int64_t)pattern);
		assert_true(copy_to_program(&args));
		args_run(&args);
		compare(&p);
		release(&p);
	}
}

/* Transposition in blocks of 4 x 4, with and without a remainder on each side. */
static void test_transposed(void **state)
{
	static const int64_t sizes[][3] = {
		{ 1, 200, 200 }, { 2, 64, 196 }, { 2, 196, 64 }, { 2, 67, 131 },
		{ 3, 50, 150 },	 { 2, 9, 1000 }, { 2, 1000, 9 }, { 1, 33, 704 },
	};
	static const unsigned int dtypes[] = { OPENREG_F32, OPENREG_I32, OPENREG_F64,
					       OPENREG_I16 };
	unsigned int i;

	(void)state;
	for (i = 0; i < 2 * 4 * 8; i++) {
		struct problem p = { .ndim = 3 };
		int64_t at[OPENREG_DIMS_MAX] = { 0 }, n = 1, k;
		/* Swaps the last two dimensions, or reverses all three. */
		unsigned int outer = i & 1 ? 1 : 0;

		memcpy(p.size, sizes[i / 8], sizeof(sizes[0]));
		p.dtype[0] = p.dtype[1] = dtypes[i / 2 % 4];
		for (k = 0; k < 3; k++)
			n *= p.size[k];
		dense_strides(3, p.size, p.at[0].stride);
		p.at[1].stride[1] = 1;
		p.at[1].stride[outer ? 0 : 2] = p.size[1];
		p.at[1].stride[outer ? 2 : 0] = p.size[1] * p.size[outer ? 0 : 2];
		p.at[0].extent = n;
		for (k = 0; k < 2; k++)
			p.memory[k] = malloc((size_t)n * 8 + 8);
		p.want = malloc((size_t)n * 8 + 8);
		memset(p.memory[0], 0, (size_t)n * 8 + 8);
		memset(p.want, 0, (size_t)n * 8 + 8);
		for (k = 0; k < n * 8 + 8; k++)
			p.memory[1][k] = (unsigned char)(k * 37 + (k >> 8));
		do
			memcpy(element(&p, 0, p.want, at),
			       element(&p, 1, p.memory[1], at),
			       openreg_dtype_size(p.dtype[0]));
		while (next_point(p.ndim, p.size, at));
		run_copy(&p, i % 3 == 0);
	}
}

/* Short copies, and copies outside VRAM, do not become programs. */
static void test_not_programs(void **state)
{
	const int64_t small = 100, large = 100000, none = 0;
	static unsigned char memory[200000];
	struct openreg_args args;

	(void)state;
	args_begin(&args, OPENREG_OP_COPY, 1, &small);
	args_operand(&args, OPENREG_U8, memory, NULL);
	args_operand(&args, OPENREG_U8, memory + large, NULL);
	assert_false(copy_to_program(&args));
	args_begin(&args, OPENREG_OP_COPY, 1, &none);
	args_operand(&args, OPENREG_U8, memory, NULL);
	args_operand(&args, OPENREG_U8, memory + large, NULL);
	assert_false(copy_to_program(&args));
	args_begin(&args, OPENREG_OP_COPY, 1, &large);
	args_operand(&args, OPENREG_U8, memory, NULL);
	args_operand(&args, OPENREG_U8, NULL, NULL);
	assert_false(copy_to_program(&args));
	assert_int_equal(args.opcode, OPENREG_OP_COPY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_fills),
		cmocka_unit_test(test_transposed),
		cmocka_unit_test(test_not_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
