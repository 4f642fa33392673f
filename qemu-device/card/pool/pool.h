/* SPDX-License-Identifier: MIT */
/*
 * POOL computes in f64 or i64. Forward, a unit is a part of a row of outputs. Backward, a
 * unit is a box of the input that sums over all windows that meet it, in their order. So
 * no two units write the same element.
 */
#ifndef OPENREG_POOL_ENGINE_H
#define OPENREG_POOL_ENGINE_H

#include "kernels/kernels.h"
#include "job/window.h"

#define OPENREG_POOL_DIMS 5
#define OPENREG_POOL_LINE 256 /* elements that a unit computes at a time */
#define OPENREG_POOL_BOX 8192 /* most elements of a box */
#define OPENREG_POOL_PLANE 1024 /* most elements of a plane that shares a unit */

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
	bool by_output; /* forward: computes one window after the other */
	int64_t esize, n, c, divisor;
	struct openreg_geometry w;
	struct openreg_pool_view x, y, index;
	int64_t piece[3]; /* size of a unit in the output, backward in the input */
	int64_t pieces[3];
	int64_t units, slice_units;
	int64_t lanes; /* planes of a unit, one for each lane; 0: see piece */
	int64_t groups; /* groups of so many planes along c */
};

/* The position and size of a unit. */
struct openreg_pool_place {
	int64_t n, c, first[3], count[3];
};

/* The part of a window along one dimension that is in the input. */
struct openreg_pool_span {
	int64_t first, step, count;
	int64_t counted; /* elements that AVG counts in its divisor */
};

struct openreg_pool_work {
	union openreg_pool_value line[OPENREG_POOL_LINE];
	union openreg_pool_value sum[OPENREG_POOL_LINE];
	int64_t index[OPENREG_POOL_LINE];
	union openreg_pool_value box[OPENREG_POOL_BOX];
	/* The windows of a row; with lanes, of each dimension in turn. */
	struct openreg_pool_span span[OPENREG_POOL_PLANE + 2];
	struct openreg_pool_span part[OPENREG_POOL_LINE]; /* the part in the box */
	bool inside[OPENREG_POOL_PLANE];
};

/* Most windows that n adjacent elements along d can meet. */
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

/* Plans units of several planes. Returns false if a unit is of one plane. */
bool openreg_pool_planes_plan(struct openreg_pool *pool);
void openreg_pool_planes_run(const struct openreg_pool *pool, int64_t unit,
			     int64_t end, struct openreg_pool_work *work);

/* Divides units that take ns each into slices. */
void openreg_pool_share(struct openreg_pool *pool, int64_t units, double ns);
/* The initial value of a window's result. */
union openreg_pool_value openreg_pool_neutral(const struct openreg_pool *pool);
struct openreg_pool_span openreg_pool_span(const struct openreg_pool *pool,
					   unsigned int d, int64_t output);
/* The divisor of AVG for this window; 0 if the window has no element. */
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

/* Is a plane of the input dense in memory? */
bool openreg_pool_is_dense(const struct openreg_pool *pool);
/* Divides n values by the same number. */
void openreg_pool_divide(const struct openreg_pool *pool,
			 union openreg_pool_value *x, int64_t by, int64_t n);
/* Divides n values, each by the divisor of its window in work->span. */
void openreg_pool_divide_row(const struct openreg_pool *pool,
			     struct openreg_pool_span span[3],
			     struct openreg_pool_work *work,
			     union openreg_pool_value *x, int64_t n);
/* Sets work->span for n windows of a row. */
void openreg_pool_row_spans(const struct openreg_pool *pool, int64_t first,
			    int64_t n, struct openreg_pool_work *work);

extern const struct openreg_engine openreg_pool_engine;

#endif
