/* SPDX-License-Identifier: MIT */
/*
 * POOL computes in f64 or i64. Forward a unit is part of a row of outputs;
 * backward it is a box of the input, which takes from all windows that it meets
 * in their order, so that no two units write one element.
 */
#ifndef OPENREG_POOL_ENGINE_H
#define OPENREG_POOL_ENGINE_H

#include "kernels.h"
#include "window.h"

#define OPENREG_POOL_DIMS 5
#define OPENREG_POOL_LINE 256 /* elements worked on at a time */
#define OPENREG_POOL_BOX 8192 /* elements of a box at most */
#define OPENREG_POOL_PLANE 1024 /* of a plane that others are worked on with */

/* An operand: strides of n, c and three of space, in elements. */
struct openreg_pool_view {
	uintptr_t base;
	int64_t stride[OPENREG_POOL_DIMS];
};

union openreg_pool_value {
	double f;
	int64_t i;
};

struct openreg_pool {
	const struct openreg_kernels *kernels;
	uint8_t kind, flags, dtype;
	bool is_float, has_index;
	bool by_output; /* forward: one window after the other */
	int64_t esize, n, c, divisor;
	struct openreg_geometry w;
	struct openreg_pool_view x, y, index;
	int64_t piece[3]; /* of a unit: of the output, backward of the input */
	int64_t pieces[3];
	int64_t units, slice_units;
	int64_t lanes; /* planes that are worked on together; 0: none */
	int64_t groups; /* of so many planes, along c */
};

/* Where a unit is. */
struct openreg_pool_place {
	int64_t n, c, first[3], count[3];
};

/* The part of a window along one dimension that is in the input. */
struct openreg_pool_span {
	int64_t first, step, count;
	int64_t counted; /* what AVG divides by */
};

struct openreg_pool_work {
	union openreg_pool_value line[OPENREG_POOL_LINE];
	union openreg_pool_value sum[OPENREG_POOL_LINE];
	int64_t index[OPENREG_POOL_LINE];
	union openreg_pool_value box[OPENREG_POOL_BOX];
	/* Along a row; of planes that are worked on together, along each dimension. */
	struct openreg_pool_span span[OPENREG_POOL_PLANE + 2];
	struct openreg_pool_span part[OPENREG_POOL_LINE]; /* in the box */
	bool inside[OPENREG_POOL_PLANE];
};

/* Windows that are looked at for n elements in a row along d, at most. */
static inline int64_t openreg_pool_meets(const struct openreg_geometry *w,
					 unsigned int flags, unsigned int d,
					 int64_t n)
{
	int64_t out = w->output[d], reach;

	if (!out || !w->input[d])
		return 0;
	if (flags & OPENREG_POOL_ADAPTIVE)
		return openreg_least(out, n * out / w->input[d] + 3);
	reach = (w->kernel[d] - 1) * w->dilation[d];
	return openreg_least(out, (reach + n - 1) / w->stride[d] + 2);
}

struct openreg_verdict openreg_pool_check(struct openreg_args *args);
void openreg_pool_forward(const struct openreg_pool *pool,
			  const struct openreg_pool_place *at,
			  struct openreg_pool_work *work);
void openreg_pool_backward(const struct openreg_pool *pool,
			   const struct openreg_pool_place *at,
			   struct openreg_pool_work *work);

/* false: the planes are worked on one by one. */
bool openreg_pool_planes_plan(struct openreg_pool *pool);
void openreg_pool_planes_run(const struct openreg_pool *pool, int64_t unit,
			     int64_t end, struct openreg_pool_work *work);

/* Divides units, ns each, into slices. */
void openreg_pool_share(struct openreg_pool *pool, int64_t units, double ns);
/* What a window's elements are folded into. */
union openreg_pool_value openreg_pool_neutral(const struct openreg_pool *pool);
struct openreg_pool_span openreg_pool_span(const struct openreg_pool *pool,
					   unsigned int d, int64_t output);
/* What AVG divides by in this window; 0 if there is nothing in it. */
int64_t openreg_pool_divisor(const struct openreg_pool *pool,
			     const struct openreg_pool_span span[3]);

static inline uintptr_t openreg_pool_at(const struct openreg_pool_view *v,
					int64_t esize, int64_t n, int64_t c,
					const int64_t at[3])
{
	int64_t off = openreg_offset_add(openreg_offset(n, v->stride[0]),
					 openreg_offset(c, v->stride[1]));
	unsigned int d;

	for (d = 0; d < 3; d++)
		off = openreg_offset_add(off,
					 openreg_offset(at[d],
							v->stride[2 + d]));
	return v->base + (uintptr_t)openreg_offset(off, esize);
}

static inline void openreg_pool_load(const struct openreg_pool *pool, void *to,
				     uintptr_t from, int64_t stride, int64_t n)
{
	unsigned int type = pool->is_float ? OPENREG_VT_F64 : OPENREG_VT_I64;

	pool->kernels->load[pool->dtype][type](to, (const void *)from, stride,
					       (size_t)n);
}

static inline void openreg_pool_store(const struct openreg_pool *pool,
				      uintptr_t to, int64_t stride,
				      const void *from, int64_t n)
{
	unsigned int type = pool->is_float ? OPENREG_VT_F64 : OPENREG_VT_I64;

	pool->kernels->store[pool->dtype][type]((void *)to, stride, from,
						(size_t)n);
}

/* A plane of the input, which is one piece of memory. */
bool openreg_pool_is_dense(const struct openreg_pool *pool);
/* n at x, all by the same. */
void openreg_pool_divide(const struct openreg_pool *pool,
			 union openreg_pool_value *x, int64_t by, int64_t n);
/* n at x, each by its window's divisor; the windows are those of work->span. */
void openreg_pool_divide_row(const struct openreg_pool *pool,
			     struct openreg_pool_span span[3],
			     struct openreg_pool_work *work,
			     union openreg_pool_value *x, int64_t n);
/* work->span: of n windows of a row. */
void openreg_pool_row_spans(const struct openreg_pool *pool, int64_t first,
			    int64_t n, struct openreg_pool_work *work);

#endif
