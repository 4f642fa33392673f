// SPDX-License-Identifier: MIT
/* oneDNN's primitives for CONV, by shape and strides. */
#include <string.h>

#include "conv_dnnl.h"

#define DIMS 6 /* images, groups, channels, space */

struct shape {
	int64_t n, in[3], out[3], low[3], high[3];
};

struct conv_key {
	int64_t kind;
	int64_t conv, g, ic, oc, bias;
	int64_t kernel[3], stride[3], dilation[3];
	struct shape of; /* oneDNN chooses the layout of the weights for this shape */
};

/* The boxes of a packet differ in their images and along one axis. */
struct run_key {
	struct conv_key conv;
	int64_t axis, n, in, out, low, high;
};

struct pack_key {
	struct conv_key conv;
	int64_t strides[DIMS]; /* groups, outputs, inputs, space */
};

union any_key {
	struct run_key run;
	struct pack_key pack;
	int64_t word[OPENREG_KEY_MAX];
};

_Static_assert(sizeof(union any_key) == OPENREG_KEY_MAX * sizeof(int64_t),
	       "a key has room for each");

static struct shape shape_of(const struct openreg_conv_box *box)
{
	struct shape s = { .n = box->n };

	memcpy(s.in, box->in, sizeof(s.in));
	memcpy(s.out, box->out, sizeof(s.out));
	memcpy(s.low, box->low, sizeof(s.low));
	memcpy(s.high, box->high, sizeof(s.high));
	return s;
}

static struct conv_key conv_key(const struct openreg_conv *cv,
				const struct openreg_conv_box *of)
{
	struct conv_key key = {
		.kind = OPENREG_PRIMITIVE_CONV,
		.conv = cv->kind,
		.g = cv->g,
		.ic = cv->ic,
		.oc = cv->oc,
		.bias = cv->has_bias,
		.of = shape_of(of),
	};

	memcpy(key.kernel, cv->w.kernel, sizeof(key.kernel));
	memcpy(key.stride, cv->w.stride, sizeof(key.stride));
	memcpy(key.dilation, cv->w.dilation, sizeof(key.dilation));
	return key;
}

/* 1 if the first axis can be left out: oneDNN has more kernels for images. */
static unsigned int first_dim(const struct conv_key *k)
{
	return k->kernel[0] == 1 && k->of.in[0] == 1 && k->of.out[0] == 1 &&
	       !k->of.low[0] && !k->of.high[0];
}

static dnnl_status_t channels_last(dnnl_memory_desc_t *md, unsigned int first,
				   int64_t n, int64_t channels,
				   const int64_t space[3])
{
	dnnl_dims_t size = { n, channels };
	unsigned int d;

	for (d = first; d < 3; d++)
		size[2 + d - first] = space[d];
	return dnnl_memory_desc_create_with_tag(md, 5 - (int)first, size,
						dnnl_bf16,
						first ? dnnl_acdb : dnnl_acdeb);
}

/* strides NULL: oneDNN chooses the layout. */
static dnnl_status_t weights(dnnl_memory_desc_t *md, const struct conv_key *k,
			     const int64_t strides[DIMS])
{
	const int64_t all[DIMS] = { k->g,	  k->oc,	k->ic,
				    k->kernel[0], k->kernel[1], k->kernel[2] };
	dnnl_dims_t size, stride;
	unsigned int d, n = 0;

	for (d = k->g == 1; d < DIMS; d++) {
		if (d == 3 && first_dim(k))
			continue;
		size[n] = all[d];
		stride[n++] = strides ? strides[d] : 0;
	}
	if (strides)
		return dnnl_memory_desc_create_with_strides(md, (int)n, size,
							    dnnl_bf16, stride);
	return dnnl_memory_desc_create_with_tag(md, (int)n, size, dnnl_bf16,
						dnnl_format_tag_any);
}

enum { SOURCE, WEIGHTS, RESULT, BIAS, MEMORIES };

static dnnl_status_t describe(dnnl_memory_desc_t md[MEMORIES],
			      const struct conv_key *k, const struct shape *s)
{
	bool forward = k->conv == OPENREG_CONV_FORWARD;
	const dnnl_dims_t channels = { k->g * k->oc };
	dnnl_status_t status;

	status = channels_last(&md[forward ? SOURCE : RESULT], first_dim(k),
			       s->n, k->g * k->ic, s->in);
	if (status == dnnl_success)
		status = channels_last(&md[forward ? RESULT : SOURCE],
				       first_dim(k), s->n, k->g * k->oc,
				       s->out);
	if (status == dnnl_success && k->bias)
		status = dnnl_memory_desc_create_with_tag(
			&md[BIAS], 1, channels, dnnl_f32, dnnl_a);
	return status;
}

static void destroy_all(dnnl_memory_desc_t md[MEMORIES])
{
	int i;

	for (i = 0; i < MEMORIES; i++) {
		if (md[i])
			dnnl_memory_desc_destroy(md[i]);
	}
}

static dnnl_status_t
describe_conv(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
	      dnnl_memory_desc_t const md[MEMORIES], const struct conv_key *k,
	      const struct shape *s, dnnl_primitive_attr_t attr)
{
	unsigned int first = first_dim(k), d;
	dnnl_dims_t stride, dilation, low, high;
	dnnl_primitive_desc_t hint;
	dnnl_status_t status;

	for (d = first; d < 3; d++) {
		stride[d - first] = k->stride[d];
		dilation[d - first] = k->dilation[d] - 1;
		low[d - first] = s->low[d];
		high[d - first] = s->high[d];
	}
	if (k->conv == OPENREG_CONV_FORWARD)
		return dnnl_convolution_forward_primitive_desc_create(
			pd, engine, dnnl_forward_inference,
			dnnl_convolution_direct, md[SOURCE], md[WEIGHTS],
			md[BIAS], md[RESULT], stride, dilation, low, high,
			attr);
	status = dnnl_convolution_forward_primitive_desc_create(
		&hint, engine, dnnl_forward_training, dnnl_convolution_direct,
		md[RESULT], md[WEIGHTS], NULL, md[SOURCE], stride, dilation,
		low, high, NULL);
	if (status != dnnl_success)
		return status;
	status = dnnl_convolution_backward_data_primitive_desc_create(
		pd, engine, dnnl_convolution_direct, md[RESULT], md[WEIGHTS],
		md[SOURCE], stride, dilation, low, high, hint, attr);
	dnnl_primitive_desc_destroy(hint);
	return status;
}

/* The caller sets md[WEIGHTS]; this describes the others. */
static dnnl_primitive_desc_t find_fast(dnnl_engine_t engine,
				       dnnl_memory_desc_t md[MEMORIES],
				       const struct conv_key *k,
				       const struct shape *s, bool *failed)
{
	dnnl_primitive_attr_t attr = openreg_primitive_attr(false);
	dnnl_primitive_desc_t pd = NULL;
	dnnl_status_t status;

	*failed = !attr;
	if (!attr)
		return NULL;
	status = describe(md, k, s);
	if (status == dnnl_success)
		status = describe_conv(&pd, engine, md, k, s, attr);
	pd = openreg_primitive_fast(pd, status, failed);
	dnnl_primitive_attr_destroy(attr);
	return pd;
}

/* Asks oneDNN for the layout of the weights. NULL: no fast implementation, or failed. */
static dnnl_memory_desc_t query_order(dnnl_engine_t engine,
				      const struct conv_key *k, bool *failed)
{
	dnnl_memory_desc_t md[MEMORIES] = { NULL }, order = NULL;
	dnnl_primitive_desc_t pd = NULL;
	dnnl_status_t status = weights(&md[WEIGHTS], k, NULL);

	*failed = status == dnnl_out_of_memory;
	if (status == dnnl_success)
		pd = find_fast(engine, md, k, &k->of, failed);
	if (pd) {
		*failed = dnnl_memory_desc_clone(
				  &order, dnnl_primitive_desc_query_md(
						  pd, dnnl_query_weights_md,
						  0)) != dnnl_success;
		dnnl_primitive_desc_destroy(pd);
	}
	destroy_all(md);
	return order;
}

/* The last layout found: all slices and the packing need the same one. */
static struct {
	struct conv_key key;
	dnnl_memory_desc_t order;
} last;

/* Uses `last` without a lock, because only one maker runs at a time. */
static dnnl_memory_desc_t find_order(dnnl_engine_t engine,
				     const struct conv_key *k, bool *failed)
{
	dnnl_memory_desc_t order = NULL;
	struct conv_key key = *k;

	/* Primitives of both kinds share the layout. */
	key.kind = OPENREG_PRIMITIVE_CONV;
	if (!last.order || memcmp(&last.key, &key, sizeof(key)) != 0) {
		if (last.order)
			dnnl_memory_desc_destroy(last.order);
		last.key = key;
		last.order = query_order(engine, &key, failed);
	}
	if (last.order)
		*failed = dnnl_memory_desc_clone(&order, last.order) !=
			  dnnl_success;
	return order;
}

static bool add_args(struct openreg_primitive *p, dnnl_engine_t engine,
		     dnnl_memory_desc_t const md[MEMORIES], bool forward)
{
	return openreg_primitive_arg(p, engine,
				     forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_DST,
				     md[SOURCE]) &&
	       openreg_primitive_arg(p, engine, DNNL_ARG_WEIGHTS,
				     md[WEIGHTS]) &&
	       openreg_primitive_arg(p, engine,
				     forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_SRC,
				     md[RESULT]) &&
	       (!md[BIAS] ||
		openreg_primitive_arg(p, engine, DNNL_ARG_BIAS, md[BIAS]));
}

static bool make_conv(struct openreg_primitive *p, dnnl_engine_t engine)
{
	const struct run_key *k = (const struct run_key *)p->key;
	dnnl_memory_desc_t md[MEMORIES] = { NULL };
	dnnl_primitive_desc_t pd = NULL;
	struct shape s = k->conv.of;
	bool failed;

	s.n = k->n;
	s.in[k->axis] = k->in;
	s.out[k->axis] = k->out;
	s.low[k->axis] = k->low;
	s.high[k->axis] = k->high;
	md[WEIGHTS] = find_order(engine, &k->conv, &failed);
	if (md[WEIGHTS])
		pd = find_fast(engine, md, &k->conv, &s, &failed);
	if (pd) {
		failed = !add_args(p, engine, md,
				   k->conv.conv == OPENREG_CONV_FORWARD) ||
			 !openreg_primitive_create(p, engine, pd);
		dnnl_primitive_desc_destroy(pd);
	}
	destroy_all(md);
	return !failed;
}

static bool make_pack(struct openreg_primitive *p, dnnl_engine_t engine)
{
	const struct pack_key *k = (const struct pack_key *)p->key;
	dnnl_memory_desc_t from, order;
	dnnl_status_t status;
	bool failed;

	order = find_order(engine, &k->conv, &failed);
	if (!order)
		return !failed;
	status = weights(&from, &k->conv, k->strides);
	failed = status == dnnl_out_of_memory;
	if (status == dnnl_success) {
		failed = !openreg_primitive_reorder(p, engine, from, order);
		dnnl_memory_desc_destroy(from);
	}
	dnnl_memory_desc_destroy(order);
	return !failed;
}

enum openreg_primitive_result
openreg_conv_primitive(struct openreg_primitives **cache,
		       const struct openreg_conv *cv,
		       const struct openreg_conv_box *of,
		       const struct openreg_conv_box *box, void *const *data)
{
	union any_key key = { .word = { 0 } };
	unsigned int axis = cv->whole.axis;

	key.run = (struct run_key){
		.conv = conv_key(cv, of),
		.axis = axis,
		.n = box->n,
		.in = box->in[axis],
		.out = box->out[axis],
		.low = box->low[axis],
		.high = box->high[axis],
	};
	return openreg_primitive_run(cache, key.word, make_conv, data, NULL);
}

/* A stride along a dimension of size 1 has no meaning, but must not look like overlap. */
static void normalise(const int64_t size[DIMS], int64_t stride[DIMS])
{
	int64_t span = 1, all;
	unsigned int d;

	for (d = 0; d < DIMS; d++) {
		if (size[d] > 1 &&
		    !__builtin_mul_overflow(size[d], stride[d], &all))
			span = openreg_greatest(span, all);
	}
	for (d = 0; d < DIMS; d++) {
		if (size[d] == 1)
			stride[d] = span;
	}
}

enum openreg_primitive_result
openreg_conv_pack_primitive(struct openreg_primitives **cache,
			    const struct openreg_conv *cv,
			    const struct openreg_conv_box *of,
			    void *const *data, size_t *size)
{
	const struct openreg_conv_view *w = &cv->weight;
	const int64_t sizes[DIMS] = { cv->g,	       cv->oc,
				      cv->ic,	       cv->w.kernel[0],
				      cv->w.kernel[1], cv->w.kernel[2] };
	union any_key key = { .word = { 0 } };

	key.pack = (struct pack_key){
		.conv = conv_key(cv, of),
		.strides = { w->g, w->oc, w->ic, w->at[0], w->at[1], w->at[2] },
	};
	key.pack.conv.kind = OPENREG_PRIMITIVE_CONV_PACK;
	normalise(sizes, key.pack.strides);
	return openreg_primitive_run(cache, key.word, make_pack, data, size);
}
