// SPDX-License-Identifier: MIT
/*
 * A cache of oneDNN's primitives. Its size is bounded, and it belongs to one thread.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "primitives.h"

/* Functions of OpenMP. Compilers have omp.h in different places, or not at all. */
int omp_get_max_threads(void);
void omp_set_num_threads(int n);

#define ENTRIES 256
#define SHARED_PRIMITIVES 1024 /* capacity of oneDNN's own cache, for the process */
#define SCRATCHPAD_MAX ((size_t)64 << 20)

struct openreg_primitives {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	uint64_t clock;
	void *scratchpad;
	size_t scratchpad_size;
	struct openreg_primitive entry[ENTRIES];
};

/*
 * Held to make or free primitives, because oneDNN's own cache shares them between
 * threads. Both are rare.
 */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT; /* bound_shared_cache() */

static void clear(struct openreg_primitive *p)
{
	unsigned int i;

	if (p->primitive)
		dnnl_primitive_destroy(p->primitive);
	for (i = 0; i < p->args; i++)
		dnnl_memory_destroy(p->memory[i]);
	memset(p, 0, sizeof(*p));
}

void openreg_primitives_free(struct openreg_primitives *cache)
{
	unsigned int i;

	if (!cache)
		return;
	pthread_mutex_lock(&making);
	for (i = 0; i < ENTRIES; i++)
		clear(&cache->entry[i]);
	if (cache->stream)
		dnnl_stream_destroy(cache->stream);
	if (cache->engine)
		dnnl_engine_destroy(cache->engine);
	pthread_mutex_unlock(&making);
	free(cache->scratchpad);
	free(cache);
}

/*
 * Holds the lock during a fork. Otherwise the child could inherit a lock without its
 * holder, and a cache of oneDNN that is half changed.
 */
void openreg_job_fork_begin(void)
{
	pthread_mutex_lock(&making);
}

void openreg_job_fork_end(void)
{
	pthread_mutex_unlock(&making);
}

static void bound_shared_cache(void)
{
	dnnl_set_primitive_cache_capacity(SHARED_PRIMITIVES);
}

static struct openreg_primitives *cache_new(void)
{
	struct openreg_primitives *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	pthread_once(&once, bound_shared_cache);
	if (dnnl_engine_create(&cache->engine, dnnl_cpu, 0) != dnnl_success ||
	    dnnl_stream_create(&cache->stream, cache->engine,
			       dnnl_stream_default_flags) != dnnl_success) {
		openreg_primitives_free(cache);
		return NULL;
	}
	return cache;
}

dnnl_data_type_t openreg_primitive_type(int64_t dtype)
{
	return dtype == OPENREG_BF16  ? dnnl_bf16
	       : dtype == OPENREG_F16 ? dnnl_f16
	       : dtype == OPENREG_I8  ? dnnl_s8
	       : dtype == OPENREG_U8  ? dnnl_u8
	       : dtype == OPENREG_I32 ? dnnl_s32
				      : dnnl_f32;
}

dnnl_primitive_attr_t openreg_primitive_attr(bool accumulate)
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

/* Is this one of oneDNN's plain loops? */
static bool is_slow(const char *name)
{
	return strstr(name, "ref") || strstr(name, "simple");
}

dnnl_primitive_desc_t openreg_primitive_fast(dnnl_primitive_desc_t pd,
					     dnnl_status_t status, bool *failed)
{
	const char *name;

	*failed = status == dnnl_out_of_memory;
	if (status != dnnl_success)
		return NULL;
	for (;;) {
		if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0,
					      &name) == dnnl_success &&
		    !is_slow(name))
			return pd;
		if (dnnl_primitive_desc_next_impl(pd) != dnnl_success)
			break;
	}
	dnnl_primitive_desc_destroy(pd);
	return NULL;
}

bool openreg_primitive_arg(struct openreg_primitive *p, dnnl_engine_t engine,
			   int id, const_dnnl_memory_desc_t md)
{
	if (p->args > OPENREG_PRIMITIVE_ARGS ||
	    dnnl_memory_create(&p->memory[p->args], md, engine, NULL) !=
		    dnnl_success)
		return false;
	p->id[p->args++] = id;
	return true;
}

bool openreg_primitive_create(struct openreg_primitive *p, dnnl_engine_t engine,
			      dnnl_primitive_desc_t pd)
{
	const_dnnl_memory_desc_t pad =
		dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);

	p->scratchpad = dnnl_memory_desc_get_size(pad);
	if (p->scratchpad > SCRATCHPAD_MAX)
		return true;
	return openreg_primitive_arg(p, engine, DNNL_ARG_SCRATCHPAD, pad) &&
	       dnnl_primitive_create(&p->primitive, pd) == dnnl_success;
}

bool openreg_primitive_reorder(struct openreg_primitive *p, dnnl_engine_t engine,
			       const_dnnl_memory_desc_t from,
			       const_dnnl_memory_desc_t to)
{
	dnnl_primitive_attr_t attr = openreg_primitive_attr(false);
	dnnl_primitive_desc_t pd = NULL;
	dnnl_status_t status;
	bool failed = true;

	if (attr) {
		status = dnnl_reorder_primitive_desc_create(
			&pd, from, engine, to, engine, attr);
		pd = openreg_primitive_fast(pd, status, &failed);
		dnnl_primitive_attr_destroy(attr);
	}
	if (!pd)
		return !failed;
	p->packed = dnnl_memory_desc_get_size(to);
	failed = !openreg_primitive_arg(p, engine, DNNL_ARG_FROM, from) ||
		 !openreg_primitive_arg(p, engine, DNNL_ARG_TO, to) ||
		 !openreg_primitive_create(p, engine, pd);
	dnnl_primitive_desc_destroy(pd);
	return !failed;
}

static uint64_t hash_of(const int64_t *key)
{
	uint64_t hash = 0;
	unsigned int i;

	for (i = 0; i < OPENREG_KEY_MAX; i++) {
		hash = (hash ^ (uint64_t)key[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	return hash;
}

static struct openreg_primitive *get(struct openreg_primitives *cache,
				     const int64_t *key,
				     openreg_primitive_maker *make)
{
	struct openreg_primitive *oldest = &cache->entry[0], *p;
	uint64_t hash = hash_of(key);
	unsigned int i;
	bool made;

	for (i = 0; i < ENTRIES; i++) {
		p = &cache->entry[i];
		if (p->used && p->hash == hash &&
		    memcmp(p->key, key, sizeof(p->key)) == 0) {
			p->used = ++cache->clock;
			return p;
		}
		if (p->used < oldest->used)
			oldest = p;
	}
	pthread_mutex_lock(&making);
	clear(oldest);
	memcpy(oldest->key, key, sizeof(oldest->key));
	made = make(oldest, cache->engine);
	if (!made)
		clear(oldest);
	pthread_mutex_unlock(&making);
	if (!made)
		return NULL;
	oldest->hash = hash;
	oldest->used = ++cache->clock;
	return oldest;
}

static bool have_scratchpad(struct openreg_primitives *cache, size_t size)
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

static enum openreg_primitive_result execute(struct openreg_primitives *cache,
					     const struct openreg_primitive *p,
					     void *const *data)
{
	dnnl_exec_arg_t args[OPENREG_PRIMITIVE_ARGS + 1];
	unsigned int i;

	if (!have_scratchpad(cache, p->scratchpad))
		return OPENREG_PRIMITIVE_FAILED;
	for (i = 0; i < OPENREG_PRIMITIVE_ARGS + 1 && i < p->args; i++) {
		dnnl_memory_set_data_handle(p->memory[i],
					    i + 1 < p->args ? data[i]
							    : cache->scratchpad);
		args[i] = (dnnl_exec_arg_t){ p->id[i], p->memory[i] };
	}
	if (dnnl_primitive_execute(p->primitive, cache->stream, (int)p->args,
				   args) != dnnl_success)
		return OPENREG_PRIMITIVE_FAILED;
	return dnnl_stream_wait(cache->stream) == dnnl_success
		       ? OPENREG_PRIMITIVE_DONE
		       : OPENREG_PRIMITIVE_FAILED;
}

static enum openreg_primitive_result
run(struct openreg_primitives **cache, const int64_t *key,
    openreg_primitive_maker *make, void *const *data, size_t *packed)
{
	struct openreg_primitive *p;

	if (!*cache)
		*cache = cache_new();
	if (!*cache)
		return OPENREG_PRIMITIVE_FAILED;
	p = get(*cache, key, make);
	if (!p)
		return OPENREG_PRIMITIVE_FAILED;
	if (!p->primitive)
		return OPENREG_PRIMITIVE_UNSUPPORTED;
	if (packed)
		*packed = p->packed;
	return data ? execute(*cache, p, data) : OPENREG_PRIMITIVE_DONE;
}

enum openreg_primitive_result
openreg_primitive_run(struct openreg_primitives **cache, const int64_t *key,
		      openreg_primitive_maker *make, void *const *data,
		      size_t *packed)
{
	/* Restores the thread's setting later, because the thread may be a lent one. */
	int threads = omp_get_max_threads();
	enum openreg_primitive_result result;

	/* The card has its own workers; threads of libgomp would only spin. */
	omp_set_num_threads(1);
	result = run(cache, key, make, data, packed);
	omp_set_num_threads(threads);
	return result;
}
