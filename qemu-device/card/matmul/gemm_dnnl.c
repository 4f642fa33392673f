// SPDX-License-Identifier: MIT
/* oneDNN's matmul: primitives by shape and strides. */
#include <pthread.h>
#include <string.h>

#include "matmul.h"
#include "job/primitives.h"

/* Everything that determines a primitive. */
struct key {
	int64_t kind;
	int64_t batch, m, n, k;
	int64_t a_batch, a_row, a_column;
	int64_t b_batch, b_row, b_column;
	int64_t d_batch, d_row;
	int64_t accumulate;
	int64_t dtype, b_dtype, d_dtype;
	int64_t packed;
};

union any_key {
	struct key key;
	int64_t word[OPENREG_KEY_MAX];
};

/* A stride along a dimension of size 1 has no meaning: sets one value for all keys. */
static void normalise(int64_t rows, int64_t columns, int64_t *row,
		      int64_t *column)
{
	if (columns == 1)
		*column = 1;
	if (rows == 1)
		*row = *column == 1 ? columns : 1;
	if (columns == 1 && *row < 1)
		*row = 1;
}

/*
 * oneDNN refuses operands with elements that overlap. In ascending order, each stride
 * must be at least the span of the dimensions with smaller strides.
 */
static bool batches_apart(int64_t stride, int64_t batch, int64_t rows,
			  int64_t columns, int64_t row, int64_t column)
{
	int64_t line, within, span;

	normalise(rows, columns, &row, &column);
	line = row < column ? column : row;
	within = row < column ? rows * row : columns * column;
	span = line * (row < column ? columns : rows);
	return stride >= span || (stride >= within && stride * batch <= line);
}

bool openreg_gemm_is_plain(const struct openreg_matrix *x, int64_t batch,
			   int64_t rows, int64_t columns)
{
	int64_t row = x->row, column = x->column;

	if (batch > 1 && x->batch != 0 &&
	    !batches_apart(x->batch, batch, rows, columns, row, column))
		return false;
	if (columns == 1)
		return rows == 1 || row >= 1;
	if (rows == 1)
		return column >= 1;
	return (column == 1 && row >= columns) || (row == 1 && column >= rows);
}

static struct key make_key(const struct openreg_gemm *g)
{
	struct key key = {
		.batch = g->batch,	 .m = g->m,
		.n = g->n,		 .k = g->k,
		.a_row = g->a.row,	 .a_column = g->a.column,
		.b_row = g->b.row,	 .b_column = g->b.column,
		.d_row = g->d.row,	 .accumulate = g->accumulate,
		.dtype = g->dtype,	 .d_dtype = g->d_dtype,
		.packed = g->packed,
		.b_dtype = g->b_dtype ? g->b_dtype : g->dtype,
	};
	int64_t one = 1;

	if (g->batch > 1) {
		key.a_batch = g->a.batch;
		key.b_batch = g->b.batch;
		key.d_batch = g->d.batch;
	}
	normalise(g->m, g->k, &key.a_row, &key.a_column);
	if (!g->packed)
		normalise(g->k, g->n, &key.b_row, &key.b_column);
	normalise(g->m, g->n, &key.d_row, &one);
	return key;
}

/* batch 0: a matrix without a batch. batch_stride 0: all batches share one matrix. */
static dnnl_status_t describe(dnnl_memory_desc_t *md, int64_t dtype,
			      int64_t batch, int64_t rows, int64_t columns,
			      int64_t batch_stride, int64_t row, int64_t column)
{
	dnnl_dims_t dims = { 0 }, strides = { 0 };
	int n = 0;

	if (batch) {
		dims[n] = batch_stride ? batch : 1;
		strides[n++] = batch_stride ? batch_stride
					    : rows * row + columns * column;
	}
	dims[n] = rows;
	strides[n++] = row;
	dims[n] = columns;
	strides[n++] = column;
	return dnnl_memory_desc_create_with_strides(
		md, n, dims, openreg_primitive_type(dtype), strides);
}

/* The order of packed.h. */
static dnnl_status_t describe_packed(dnnl_memory_desc_t *md, const struct key *k)
{
	const dnnl_dims_t dims = { k->k, k->n };

	return dnnl_memory_desc_create_with_tag(
		md, 2, dims, openreg_primitive_type(k->dtype),
		k->dtype == OPENREG_BF16 ? dnnl_BA16a64b2a : dnnl_BA16a64b);
}

/* If oneDNN cannot describe an operand, it has no fast implementation. */
static dnnl_status_t describe_all(dnnl_memory_desc_t md[3], const struct key *k)
{
	int64_t batch = k->batch > 1 ? k->batch : 0;
	dnnl_status_t status;

	status = describe(&md[0], k->dtype, batch, k->m, k->k, k->a_batch,
			  k->a_row, k->a_column);
	if (status == dnnl_success && k->packed)
		status = describe_packed(&md[1], k);
	else if (status == dnnl_success)
		status = describe(&md[1], k->b_dtype, batch, k->k, k->n,
				  k->b_batch, k->b_row, k->b_column);
	if (status == dnnl_success)
		status = describe(&md[2], k->d_dtype, batch, k->m, k->n,
				  k->d_batch, k->d_row, 1);
	return status;
}

/* Returns the descriptor of a primitive for these operands, or NULL. */
static dnnl_primitive_desc_t find_fast(dnnl_engine_t engine,
				       dnnl_memory_desc_t const md[3],
				       bool accumulate, bool *failed)
{
	dnnl_primitive_attr_t attr = openreg_primitive_attr(accumulate);
	dnnl_primitive_desc_t pd = NULL;
	dnnl_status_t status;

	*failed = !attr;
	if (!attr)
		return NULL;
	status = dnnl_matmul_primitive_desc_create(&pd, engine, md[0], md[1],
						   NULL, md[2], attr);
	pd = openreg_primitive_fast(pd, status, failed);
	dnnl_primitive_attr_destroy(attr);
	return pd;
}

static bool make_matmul(struct openreg_primitive *p, dnnl_engine_t engine)
{
	const struct key *k = (const struct key *)p->key;
	dnnl_memory_desc_t md[3] = { NULL, NULL, NULL };
	dnnl_primitive_desc_t pd = NULL;
	dnnl_status_t status;
	bool failed;
	int i;

	status = describe_all(md, k);
	failed = status == dnnl_out_of_memory;
	if (status == dnnl_success)
		pd = find_fast(engine, md, k->accumulate, &failed);
	if (pd) {
		failed = !openreg_primitive_arg(p, engine, DNNL_ARG_SRC,
						md[0]) ||
			 !openreg_primitive_arg(p, engine, DNNL_ARG_WEIGHTS,
						md[1]) ||
			 !openreg_primitive_arg(p, engine, DNNL_ARG_DST,
						md[2]) ||
			 !openreg_primitive_create(p, engine, pd);
		dnnl_primitive_desc_destroy(pd);
	}
	for (i = 0; i < 3; i++) {
		if (md[i])
			dnnl_memory_desc_destroy(md[i]);
	}
	return !failed;
}

static enum openreg_gemm_result
as_gemm(enum openreg_primitive_result result)
{
	return result == OPENREG_PRIMITIVE_DONE	     ? OPENREG_GEMM_DONE
	       : result == OPENREG_PRIMITIVE_FAILED ? OPENREG_GEMM_FAILED
						     : OPENREG_GEMM_UNSUPPORTED;
}

enum openreg_gemm_result
openreg_gemm_dnnl(struct openreg_primitives **cache,
		  const struct openreg_gemm *g)
{
	union any_key key = { .word = { 0 } };
	void *const data[] = { (void *)g->a.base, (void *)g->b.base,
			       (void *)g->d.base };

	key.key = make_key(g);
	return as_gemm(openreg_primitive_run(cache, key.word, make_matmul,
					     data, NULL));
}

/*
 * Multiplies shapes that reach all of oneDNN's code paths on any host: dot products,
 * vectors, matrices with k = 1, and blocks.
 */
static void multiply_each_way(void)
{
	static const int64_t shape[][3] = {
		{ 1, 1, 1 }, { 1, 2, 1 }, { 2, 2, 1 }, { 16, 16, 16 }
	};
	static float a[16 * 16], b[16 * 16], d[16 * 16];
	struct openreg_primitives *cache = NULL;
	size_t i;

	for (i = 0; i < sizeof(shape) / sizeof(shape[0]); i++) {
		const int64_t m = shape[i][0], n = shape[i][1], k = shape[i][2];
		const struct openreg_gemm g = {
			.dtype = OPENREG_F32, .d_dtype = OPENREG_F32,
			.batch = 1, .m = m, .n = n, .k = k,
			.a = { (uintptr_t)a, m * k, k, 1 },
			.b = { (uintptr_t)b, k * n, n, 1 },
			.d = { (uintptr_t)d, m * n, n, 1 },
		};

		/* Ignores a failure: the first packet then tries again, or faults. */
		openreg_gemm_dnnl(&cache, &g);
	}
	openreg_primitives_free(cache);
}

/*
 * oneDNN makes static data when it first multiplies. Two reasons to do that before the
 * first packet:
 *
 * - exit() then destroys the data only after it has run handlers that are registered
 *   later, such as those of the card's user
 * - no child of fork() finds the data half made
 */
void openreg_gemm_init(void)
{
	static pthread_once_t first = PTHREAD_ONCE_INIT;

	pthread_once(&first, multiply_each_way);
}
