// SPDX-License-Identifier: MIT
/*
 * oneDNN's matmul: primitives by shape and strides, in a bounded cache that
 * belongs to one thread.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "matmul.h"

/* OpenMP's; each compiler has its omp.h elsewhere, or not at all. */
int omp_get_max_threads(void);
void omp_set_num_threads(int n);

#define ENTRIES 64
#define SHARED_PRIMITIVES 256 /* of oneDNN's own, process-wide cache */
#define SCRATCHPAD_MAX ((size_t)64 << 20)

/* All that a primitive is made from. */
struct key {
	int64_t batch, m, n, k;
	int64_t a_batch, a_row, a_column;
	int64_t b_batch, b_row, b_column;
	int64_t d_batch, d_row;
	int64_t accumulate;
	int64_t dtype, d_dtype;
};

struct entry {
	struct key key;
	uint64_t used; /* 0: the entry is free */
	size_t scratchpad;
	dnnl_primitive_t primitive; /* NULL: oneDNN has no fast way */
	dnnl_memory_t a, b, d, pad;
};

struct openreg_matmul_cache {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	uint64_t clock;
	void *scratchpad;
	size_t scratchpad_size;
	struct entry entry[ENTRIES];
};

/*
 * oneDNN's own cache shares primitives between threads. One thread at a time
 * makes or drops them, which is rare.
 */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT; /* bound_shared_cache() */

static void entry_clear(struct entry *e)
{
	if (e->primitive)
		dnnl_primitive_destroy(e->primitive);
	if (e->a)
		dnnl_memory_destroy(e->a);
	if (e->b)
		dnnl_memory_destroy(e->b);
	if (e->d)
		dnnl_memory_destroy(e->d);
	if (e->pad)
		dnnl_memory_destroy(e->pad);
	memset(e, 0, sizeof(*e));
}

void openreg_matmul_cache_free(struct openreg_matmul_cache *cache)
{
	unsigned int i;

	if (!cache)
		return;
	pthread_mutex_lock(&making);
	for (i = 0; i < ENTRIES; i++)
		entry_clear(&cache->entry[i]);
	if (cache->stream)
		dnnl_stream_destroy(cache->stream);
	if (cache->engine)
		dnnl_engine_destroy(cache->engine);
	pthread_mutex_unlock(&making);
	free(cache->scratchpad);
	free(cache);
}

/* Its holder would not be there in a child, nor oneDNN's cache whole. */
void openreg_engine_fork_begin(void)
{
	pthread_mutex_lock(&making);
}

void openreg_engine_fork_end(void)
{
	pthread_mutex_unlock(&making);
}

static void bound_shared_cache(void)
{
	dnnl_set_primitive_cache_capacity(SHARED_PRIMITIVES);
}

static struct openreg_matmul_cache *cache_new(void)
{
	struct openreg_matmul_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	pthread_once(&once, bound_shared_cache);
	if (dnnl_engine_create(&cache->engine, dnnl_cpu, 0) != dnnl_success ||
	    dnnl_stream_create(&cache->stream, cache->engine,
			       dnnl_stream_default_flags) != dnnl_success) {
		openreg_matmul_cache_free(cache);
		return NULL;
	}
	return cache;
}

/* Strides along a dimension of size 1 say nothing: make them alike. */
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
 * oneDNN refuses matrices that overlap. In the order of their strides, each
 * dimension must lie beyond all that the ones before it span.
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
	};
	int64_t one = 1;

	if (g->batch > 1) {
		key.a_batch = g->a.batch;
		key.b_batch = g->b.batch;
		key.d_batch = g->d.batch;
	}
	normalise(g->m, g->k, &key.a_row, &key.a_column);
	normalise(g->k, g->n, &key.b_row, &key.b_column);
	normalise(g->m, g->n, &key.d_row, &one);
	return key;
}

static dnnl_data_type_t data_type(int64_t dtype)
{
	return dtype == OPENREG_BF16  ? dnnl_bf16
	       : dtype == OPENREG_F16 ? dnnl_f16
				      : dnnl_f32;
}

/* batch 0: a plain matrix. Batch stride 0: one matrix for all. */
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
		md, n, dims, data_type(dtype), strides);
}

static dnnl_primitive_attr_t make_attr(bool accumulate)
{
	dnnl_primitive_attr_t attr;
	dnnl_post_ops_t ops;

	if (dnnl_primitive_attr_create(&attr) != dnnl_success)
		return NULL;
	dnnl_primitive_attr_set_scratchpad_mode(attr,
						dnnl_scratchpad_mode_user);
	if (!accumulate)
		return attr;
	if (dnnl_post_ops_create(&ops) != dnnl_success)
		goto fail;
	if (dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef) !=
		    dnnl_success ||
	    dnnl_primitive_attr_set_post_ops(attr, ops) != dnnl_success) {
		dnnl_post_ops_destroy(ops);
		goto fail;
	}
	dnnl_post_ops_destroy(ops);
	return attr;
fail:
	dnnl_primitive_attr_destroy(attr);
	return NULL;
}

/*
 * A primitive that is not the slow reference, or NULL. *failed: memory is
 * short, which says nothing of another time.
 */
static dnnl_primitive_desc_t find_fast(dnnl_engine_t engine,
				       const dnnl_memory_desc_t md[3],
				       dnnl_primitive_attr_t attr, bool *failed)
{
	dnnl_primitive_desc_t pd;
	dnnl_status_t status;
	const char *name;

	status = dnnl_matmul_primitive_desc_create(&pd, engine, md[0], md[1],
						   NULL, md[2], attr);
	*failed = status == dnnl_out_of_memory;
	if (status != dnnl_success)
		return NULL;
	for (;;) {
		if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0,
					      &name) == dnnl_success &&
		    !strstr(name, "ref"))
			return pd;
		if (dnnl_primitive_desc_next_impl(pd) != dnnl_success)
			break;
	}
	dnnl_primitive_desc_destroy(pd);
	return NULL;
}

static bool make_memories(struct entry *e, dnnl_engine_t engine,
			  const dnnl_memory_desc_t md[3],
			  const_dnnl_memory_desc_t pad)
{
	return dnnl_memory_create(&e->a, md[0], engine, NULL) == dnnl_success &&
	       dnnl_memory_create(&e->b, md[1], engine, NULL) == dnnl_success &&
	       dnnl_memory_create(&e->d, md[2], engine, NULL) == dnnl_success &&
	       dnnl_memory_create(&e->pad, pad, engine, NULL) == dnnl_success;
}

/* What oneDNN will not even describe it has no fast way for. */
static dnnl_status_t describe_all(dnnl_memory_desc_t md[3], const struct key *k)
{
	int64_t batch = k->batch > 1 ? k->batch : 0;
	dnnl_status_t status;

	status = describe(&md[0], k->dtype, batch, k->m, k->k, k->a_batch,
			  k->a_row, k->a_column);
	if (status == dnnl_success)
		status = describe(&md[1], k->dtype, batch, k->k, k->n,
				  k->b_batch, k->b_row, k->b_column);
	if (status == dnnl_success)
		status = describe(&md[2], k->d_dtype, batch, k->m, k->n,
				  k->d_batch, k->d_row, 1);
	return status;
}

/* Fills an entry; false if the library fails. */
static bool entry_make(struct entry *e, dnnl_engine_t engine,
		       const struct key *k)
{
	dnnl_primitive_attr_t attr = make_attr(k->accumulate);
	dnnl_memory_desc_t md[3] = { NULL, NULL, NULL };
	const_dnnl_memory_desc_t pad;
	dnnl_primitive_desc_t pd = NULL;
	dnnl_status_t status;
	bool ok = false, failed;
	int i;

	if (!attr)
		goto out;
	e->key = *k;
	status = describe_all(md, k);
	ok = status != dnnl_out_of_memory;
	if (status != dnnl_success)
		goto out;
	pd = find_fast(engine, md, attr, &failed);
	ok = !failed;
	if (!pd)
		goto out;
	pad = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
	e->scratchpad = dnnl_memory_desc_get_size(pad);
	if (e->scratchpad > SCRATCHPAD_MAX)
		goto out;
	ok = make_memories(e, engine, md, pad) &&
	     dnnl_primitive_create(&e->primitive, pd) == dnnl_success;
out:
	if (pd)
		dnnl_primitive_desc_destroy(pd);
	for (i = 0; i < 3; i++) {
		if (md[i])
			dnnl_memory_desc_destroy(md[i]);
	}
	if (attr)
		dnnl_primitive_attr_destroy(attr);
	return ok;
}

static struct entry *entry_get(struct openreg_matmul_cache *cache,
			       const struct key *key)
{
	struct entry *oldest = &cache->entry[0], *e;
	unsigned int i;
	bool made;

	for (i = 0; i < ENTRIES; i++) {
		e = &cache->entry[i];
		if (e->used && memcmp(&e->key, key, sizeof(*key)) == 0) {
			e->used = ++cache->clock;
			return e;
		}
		if (e->used < oldest->used)
			oldest = e;
	}
	pthread_mutex_lock(&making);
	entry_clear(oldest);
	made = entry_make(oldest, cache->engine, key);
	if (!made)
		entry_clear(oldest);
	pthread_mutex_unlock(&making);
	if (!made)
		return NULL;
	oldest->used = ++cache->clock;
	return oldest;
}

static bool have_scratchpad(struct openreg_matmul_cache *cache, size_t size)
{
	if (size <= cache->scratchpad_size)
		return true;
	free(cache->scratchpad);
	cache->scratchpad_size = 0;
	size = (size + 4095) & ~(size_t)4095;
	cache->scratchpad = aligned_alloc(4096, size);
	if (cache->scratchpad)
		cache->scratchpad_size = size;
	return cache->scratchpad;
}

static enum openreg_gemm_result multiply(struct openreg_matmul_cache **cache,
					 const struct openreg_gemm *g)
{
	struct key key = make_key(g);
	struct entry *e;

	if (!*cache)
		*cache = cache_new();
	if (!*cache)
		return OPENREG_GEMM_FAILED;
	e = entry_get(*cache, &key);
	if (!e)
		return OPENREG_GEMM_FAILED;
	if (!e->primitive)
		return OPENREG_GEMM_UNSUPPORTED;
	if (!have_scratchpad(*cache, e->scratchpad))
		return OPENREG_GEMM_FAILED;
	dnnl_memory_set_data_handle(e->a, (void *)g->a.base);
	dnnl_memory_set_data_handle(e->b, (void *)g->b.base);
	dnnl_memory_set_data_handle(e->d, (void *)g->d.base);
	dnnl_memory_set_data_handle(e->pad, (*cache)->scratchpad);
	{
		const dnnl_exec_arg_t args[] = {
			{ DNNL_ARG_SRC, e->a },
			{ DNNL_ARG_WEIGHTS, e->b },
			{ DNNL_ARG_DST, e->d },
			{ DNNL_ARG_SCRATCHPAD, e->pad },
		};

		if (dnnl_primitive_execute(e->primitive, (*cache)->stream, 4,
					   args) != dnnl_success)
			return OPENREG_GEMM_FAILED;
	}
	return dnnl_stream_wait((*cache)->stream) == dnnl_success
		       ? OPENREG_GEMM_DONE
		       : OPENREG_GEMM_FAILED;
}

enum openreg_gemm_result openreg_gemm_dnnl(struct openreg_matmul_cache **cache,
					   const struct openreg_gemm *g)
{
	/* The setting belongs to the thread, which may be a lent one. */
	int threads = omp_get_max_threads();
	enum openreg_gemm_result result;

	/* The card's workers are the threads; libgomp's would only spin. */
	omp_set_num_threads(1);
	result = multiply(cache, g);
	omp_set_num_threads(threads);
	return result;
}

/*
 * Shapes that take oneDNN all its ways, whatever the host's processor: dot
 * products, vectors, matrices without depth, and blocks.
 */
static void multiply_each_way(void)
{
	static const int64_t shape[][3] = {
		{ 1, 1, 1 }, { 1, 2, 1 }, { 2, 2, 1 }, { 16, 16, 16 }
	};
	static float a[16 * 16], b[16 * 16], d[16 * 16];
	struct openreg_matmul_cache *cache = NULL;
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

		/* It may fail: then the first packet does it, or fails, too. */
		openreg_gemm_dnnl(&cache, &g);
	}
	openreg_matmul_cache_free(cache);
}

/*
 * oneDNN makes static memory when it first multiplies. What is there before the
 * first packet ends after whoever asked for a card at the end of the process,
 * and no child of fork() finds it half made.
 */
void openreg_engine_init(void)
{
	static pthread_once_t first = PTHREAD_ONCE_INIT;

	pthread_once(&first, multiply_each_way);
}
