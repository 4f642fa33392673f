// SPDX-License-Identifier: MIT
/*
 * CONV of halves by oneDNN, on hosts that multiply halves faster than f32. The first
 * phase copies the weights to oneDNN's layout. Then each slice copies some images, or
 * rows of an image, to dense channels-last elements, convolves these, and copies the
 * result.
 */
#include <string.h>

#include "conv_dnnl.h"
#include "matmul/matmul.h"

#define SIDE_MAX (1 << 12)
#define CHANNELS_MAX (1 << 14)
#define PRODUCTS_MIN ((double)(1 << 22)) /* with fewer, making primitives takes longer */
#define SLICE_BYTES ((double)(2 << 20)) /* bytes of source and result */
#define BYTES_MAX ((double)(16 << 20)) /* scratch memory of each worker */
#define WEIGHTS_MAX ((size_t)8 << 20) /* bytes that one slice can copy */
#define SIZES_MAX 8 /* sizes of slices; oneDNN compiles each for ms, and cannot stop */
#define PRODUCT_NS 0.002
#define BYTE_NS 0.1
#define WHOLE 0.6 /* an image is not cut if a slice could do this much of it */
#define TARGET_NS (OPENREG_SLICE_NS / 2)

/* Finds the part of the input that some outputs meet. */
static void find_space(const struct openreg_conv *cv, unsigned int d,
		       int64_t first, int64_t count,
		       struct openreg_conv_box *box)
{
	const struct openreg_geometry *w = &cv->w;
	int64_t begin = first * w->stride[d] - w->padding[d];
	int64_t end = begin + (count - 1) * w->stride[d] +
		      (w->kernel[d] - 1) * w->dilation[d] + 1;

	box->out0[d] = first;
	box->out[d] = count;
	box->in0[d] = openreg_greatest(begin, 0);
	box->low[d] = openreg_greatest(-begin, 0);
	box->high[d] = openreg_greatest(end - w->input[d], 0);
	/* A gradient needs all elements written, even those that no output meets. */
	box->in[d] = (cv->kind == OPENREG_CONV_FORWARD ?
			      openreg_least(end, w->input[d]) :
			      w->input[d]) -
		     box->in0[d];
}

static struct openreg_conv_box find_box(const struct openreg_conv *cv,
					int64_t slice)
{
	const struct openreg_conv_whole *plan = &cv->whole;
	int64_t row = slice % plan->row_slices * plan->rows;
	struct openreg_conv_box box = {
		.n0 = slice / plan->row_slices * plan->images,
	};
	unsigned int d;

	box.n = openreg_least(plan->images, cv->n - box.n0);
	for (d = 0; d < 3; d++) {
		int64_t out = cv->w.output[d];

		if (d == plan->axis)
			find_space(cv, d, row,
				   openreg_least(plan->rows, out - row), &box);
		else
			find_space(cv, d, 0, out, &box);
	}
	return box;
}

static bool is_small(const struct openreg_conv *cv)
{
	const int64_t *size[] = { cv->w.kernel, cv->w.input,  cv->w.stride,
				  cv->w.output, cv->w.padding, cv->w.dilation };
	unsigned int i, d;

	for (i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		for (d = 0; d < 3; d++) {
			if (size[i][d] > SIDE_MAX)
				return false;
		}
	}
	return cv->g <= CHANNELS_MAX && cv->ic <= CHANNELS_MAX &&
	       cv->oc <= CHANNELS_MAX && cv->n <= INT32_MAX;
}

/* Does every output meet the input? */
static bool is_plain(const struct openreg_conv *cv,
		     const struct openreg_conv_box *box)
{
	unsigned int d;

	for (d = 0; d < 3; d++) {
		int64_t reach = (cv->w.kernel[d] - 1) * cv->w.dilation[d];

		if (box->in[d] < 1 || box->low[d] > reach ||
		    box->high[d] > reach)
			return false;
	}
	return true;
}

static int64_t volume(const int64_t size[3])
{
	return size[0] * size[1] * size[2];
}

static double box_bytes(const struct openreg_conv *cv,
			const struct openreg_conv_box *box)
{
	double in = (double)volume(box->in) * (double)cv->ic;
	double out = (double)volume(box->out) * (double)cv->oc;

	return (in + out) * (double)box->n * (double)cv->g * 2;
}

static double box_products(const struct openreg_conv *cv,
			   const struct openreg_conv_box *box)
{
	return (double)box->n * (double)cv->g * (double)cv->oc *
	       (double)cv->ic * (double)volume(box->out) *
	       (double)volume(cv->w.kernel);
}

static double box_ns(const struct openreg_conv *cv,
		     const struct openreg_conv_box *box)
{
	return box_products(cv, box) * PRODUCT_NS +
	       box_bytes(cv, box) * BYTE_NS;
}

/* Are there enough channels? With few, weighted lines are faster. */
static bool is_faster(const struct openreg_conv *cv)
{
	int64_t sum = cv->kind == OPENREG_CONV_FORWARD ? cv->ic : cv->oc;

	return (cv->rows >= 16 && sum >= 16) ||
	       (cv->g == 1 && cv->rows >= 32 &&
		sum * volume(cv->w.kernel) >= 128);
}

static bool is_alike(const struct openreg_conv_box *a,
		     const struct openreg_conv_box *b)
{
	const size_t size = sizeof(a->in);

	return memcmp(a->in, b->in, size) == 0 &&
	       memcmp(a->out, b->out, size) == 0 &&
	       memcmp(a->low, b->low, size) == 0 &&
	       memcmp(a->high, b->high, size) == 0;
}

/* Can oneDNN convolve each slice of an image? */
static bool check_boxes(const struct openreg_conv *cv)
{
	struct openreg_conv_box box, before = { 0 };
	int64_t row, sizes = 0;

	for (row = 0; row < cv->whole.row_slices; row++, before = box) {
		box = find_box(cv, row);
		if (!is_plain(cv, &box) || box_bytes(cv, &box) > BYTES_MAX ||
		    box_ns(cv, &box) > 4 * OPENREG_SLICE_NS)
			return false;
		sizes += !is_alike(&box, &before);
	}
	return sizes <= SIZES_MAX;
}

/* Cuts slices. Returns false if they would take too long or too much memory. */
static bool cut(struct openreg_conv *cv)
{
	struct openreg_conv_whole *plan = &cv->whole;
	struct openreg_conv_box box;
	double ns, part;
	int64_t out;

	plan->axis = 0;
	while (plan->axis < 2 && cv->w.output[plan->axis] == 1)
		plan->axis++;
	out = cv->w.output[plan->axis];
	plan->images = 1;
	plan->rows = out;
	plan->row_slices = 1;
	box = find_box(cv, 0);
	ns = box_ns(cv, &box);
	if (!is_plain(cv, &box) ||
	    box_products(cv, &box) * (double)cv->n < PRODUCTS_MIN)
		return false;
	part = openreg_slice_ns(ns * (double)cv->n);
	part = (part < TARGET_NS ? part : TARGET_NS) / ns;
	if (part * box_bytes(cv, &box) > SLICE_BYTES)
		part = SLICE_BYTES / box_bytes(cv, &box);
	if (part >= 1)
		plan->images = openreg_least(cv->n, (int64_t)part);
	else if (part < WHOLE && cv->kind == OPENREG_CONV_FORWARD)
		plan->row_slices = openreg_least((int64_t)(1 / part) + 1, out);
	plan->rows = openreg_div_up(out, plan->row_slices);
	plan->row_slices = openreg_div_up(out, plan->rows);
	plan->slices = openreg_div_up(cv->n, plan->images) * plan->row_slices;
	return plan->slices <= UINT32_MAX && check_boxes(cv);
}

/*
 * oneDNN chooses the layout of the weights for this box. It is not the last box, which
 * may be smaller than the others.
 */
static struct openreg_conv_box main_box(const struct openreg_conv *cv)
{
	return find_box(cv, (cv->whole.row_slices - 1) / 2);
}

static enum openreg_primitive_result
make_box(const struct openreg_conv *cv, struct openreg_primitives **cache,
	 const struct openreg_conv_box *box)
{
	struct openreg_conv_box of = main_box(cv);

	return openreg_conv_primitive(cache, cv, &of, box, NULL);
}

/* Makes a primitive for each size, also for the last images, which may be fewer. */
static enum openreg_primitive_result
make_all(const struct openreg_conv *cv, struct openreg_primitives **cache)
{
	const struct openreg_conv_whole *plan = &cv->whole;
	enum openreg_primitive_result result = OPENREG_PRIMITIVE_DONE;
	struct openreg_conv_box box, before = { 0 };
	int64_t row;

	for (row = 0; row < plan->row_slices; row++, before = box) {
		box = find_box(cv, row);
		if (is_alike(&box, &before))
			continue;
		result = make_box(cv, cache, &box);
		if (result == OPENREG_PRIMITIVE_DONE && cv->n % plan->images) {
			box.n = cv->n % plan->images;
			result = make_box(cv, cache, &box);
		}
		if (result != OPENREG_PRIMITIVE_DONE)
			break;
	}
	return result;
}

/* x or y of a box. Either positions of a channel are adjacent, or channels are. */
struct plane {
	const struct openreg_conv_view *view;
	const int64_t *first, *size;
	int64_t channels, step; /* channels of a group, and their stride */
	bool by_position;
};

static bool follows(int64_t stride, int64_t size, int64_t step)
{
	return size == 1 || stride == step;
}

static struct plane plane_of(const struct openreg_conv *cv,
			     const struct openreg_conv_box *box, bool input)
{
	struct plane p = {
		.view = input ? &cv->x : &cv->y,
		.first = input ? box->in0 : box->out0,
		.size = input ? box->in : box->out,
		.channels = input ? cv->ic : cv->oc,
	};

	p.step = input ? p.view->ic : p.view->oc;
	p.by_position = !follows(p.step, p.channels, 1);
	return p;
}

/*
 * Are channels or positions of x or y adjacent? Tests whole rows, because boxes differ:
 * one may have a single element of each row.
 */
static bool is_lined(const struct openreg_conv *cv, bool input)
{
	const struct openreg_conv_view *v = input ? &cv->x : &cv->y;
	const struct openreg_geometry *w = &cv->w;

	return follows(input ? v->ic : v->oc, input ? cv->ic : cv->oc, 1) ||
	       follows(v->at[2], (input ? w->input : w->output)[2], 1);
}

/* Number of positions that are adjacent in memory, as in a dense image. */
static int64_t run_of(const struct plane *p)
{
	int64_t run = p->size[2];
	int d;

	for (d = 1; d >= 0 && follows(p->view->at[d], p->size[d], run); d--)
		run *= p->size[d];
	return run;
}

static void copy_run(const struct openreg_conv *cv, const struct plane *p,
		     uint16_t *there, uint16_t *dense, int64_t n, bool back)
{
	int64_t all = cv->g * p->channels, i;

	if (p->by_position && back)
		cv->kernels->transpose(there, p->step, dense, all, (size_t)n,
				       (size_t)p->channels);
	else if (p->by_position)
		cv->kernels->transpose(dense, all, there, p->step,
				       (size_t)p->channels, (size_t)n);
	for (i = 0; !p->by_position && i < n; i++) {
		uint16_t *x = there + openreg_offset(i, p->view->at[2]);
		uint16_t *y = dense + i * all;

		memcpy(back ? x : y, back ? y : x, (size_t)p->channels * 2);
	}
}

/* Copies a group of an image. */
static void copy_image(const struct openreg_conv *cv, const struct plane *p,
		       int64_t n, int64_t g, uint16_t *dense, bool back)
{
	int64_t run = p->by_position ? run_of(p) : p->size[2], i;
	const struct openreg_conv_view *v = p->view;

	for (i = 0; i < volume(p->size); i += run) {
		const int64_t at[3] = { i / p->size[2] / p->size[1],
					i / p->size[2] % p->size[1], 0 };
		int64_t off = openreg_offset_add(openreg_offset(n, v->n),
						 openreg_offset(g, v->g));
		unsigned int d;

		for (d = 0; d < 3; d++)
			off = openreg_offset_add(
				off, openreg_offset(p->first[d] + at[d],
						    v->at[d]));
		copy_run(cv, p,
			 (uint16_t *)(v->base + (uintptr_t)openreg_offset(off, 2)),
			 dense + i * cv->g * p->channels, run, back);
	}
}

/* Copies x or y of a box to dense channels-last elements, or back. */
static void copy_box(const struct openreg_conv *cv,
		     const struct openreg_conv_box *box, bool input,
		     uint16_t *dense, bool back)
{
	struct plane p = plane_of(cv, box, input);
	int64_t n, g, image = volume(p.size) * cv->g * p.channels;

	for (n = 0; n < box->n; n++, dense += image) {
		for (g = 0; g < cv->g; g++)
			copy_image(cv, &p, box->n0 + n, g,
				   dense + g * p.channels, back);
	}
}

/* Can oneDNN compute this shape with this layout? Cuts the slices. */
static bool is_suitable(struct openreg_conv *cv)
{
	return cv->kind != OPENREG_CONV_BACKWARD_WEIGHTS &&
	       (cv->kind == OPENREG_CONV_FORWARD || !cv->has_bias) &&
	       cv->dtype == OPENREG_BF16 &&
	       openreg_gemm_has_unit(OPENREG_BF16) && cv->blocks &&
	       is_small(cv) && is_faster(cv) && is_lined(cv, true) &&
	       is_lined(cv, false) && cut(cv);
}

/* Makes the primitives of the weights and of all slices. */
static enum openreg_primitive_result
prepare(const struct openreg_conv *cv, struct openreg_primitives **cache,
	size_t *weights)
{
	struct openreg_conv_box of = main_box(cv);
	enum openreg_primitive_result result =
		openreg_conv_pack_primitive(cache, cv, &of, NULL, weights);

	if (result != OPENREG_PRIMITIVE_DONE)
		return result;
	return *weights > WEIGHTS_MAX ? OPENREG_PRIMITIVE_UNSUPPORTED :
					make_all(cv, cache);
}

/*
 * If memory is short the packet waits or faults. The other implementations are correct,
 * too, but results would differ in the last bits.
 */
bool openreg_conv_whole_plan(struct openreg_conv *cv, struct openreg_job *job,
			     struct openreg_scratch *scratch)
{
	struct openreg_conv_whole *plan = &cv->whole;
	enum openreg_primitive_result result;
	unsigned char *memory;
	size_t weights;

	plan->on = false;
	if (!is_suitable(cv))
		return true;
	result = prepare(cv, openreg_scratch_primitives(scratch), &weights);
	if (result != OPENREG_PRIMITIVE_DONE)
		return result == OPENREG_PRIMITIVE_UNSUPPORTED;
	weights = (size_t)openreg_round_up((int64_t)weights, 64);
	memory = openreg_job_extra(job,
				   weights + (size_t)(cv->g * cv->oc) * 4);
	if (!memory)
		return false;
	plan->on = true;
	plan->weights = memory;
	plan->bias = (float *)(memory + weights);
	job->phases = 2;
	job->slices[0] = 1;
	job->slices[1] = (uint32_t)plan->slices;
	return true;
}

static void load_bias(const struct openreg_conv *cv)
{
	int64_t g;

	for (g = 0; g < cv->g; g++)
		cv->kernels->load[OPENREG_BF16][OPENREG_VT_F32](
			cv->whole.bias + g * cv->oc,
			(const void *)(cv->bias.base +
				       (uintptr_t)openreg_offset(
					       openreg_offset(g, cv->bias.g),
					       cv->esize)),
			cv->bias.oc, (size_t)cv->oc);
}

static bool pack(const struct openreg_conv *cv,
		 struct openreg_primitives **cache)
{
	struct openreg_conv_box of = main_box(cv);
	void *const data[] = { (void *)cv->weight.base, cv->whole.weights };

	if (cv->has_bias)
		load_bias(cv);
	return openreg_conv_pack_primitive(cache, cv, &of, data, NULL) ==
	       OPENREG_PRIMITIVE_DONE;
}

static bool convolve(const struct openreg_conv *cv, int64_t slice,
		     struct openreg_scratch *scratch)
{
	struct openreg_conv_box of = main_box(cv), box = find_box(cv, slice);
	bool forward = cv->kind == OPENREG_CONV_FORWARD;
	int64_t in = openreg_round_up(
		box.n * cv->g * cv->ic * volume(box.in) * 2, 64);
	int64_t out = openreg_round_up(
		box.n * cv->g * cv->oc * volume(box.out) * 2, 64);
	unsigned char *x = openreg_scratch_buffer(scratch, (size_t)(in + out));
	unsigned char *y = x + in;
	void *data[4] = { forward ? x : y, cv->whole.weights, forward ? y : x,
			  cv->whole.bias };

	if (!x)
		return false;
	copy_box(cv, &box, forward, data[0], false);
	if (openreg_conv_primitive(openreg_scratch_primitives(scratch), cv, &of,
				   &box, data) != OPENREG_PRIMITIVE_DONE)
		return false;
	copy_box(cv, &box, !forward, data[2], true);
	return true;
}

bool openreg_conv_whole(const struct openreg_conv *cv, unsigned int phase,
			int64_t slice, struct openreg_scratch *scratch)
{
	return phase ? convolve(cv, slice, scratch)
		     : pack(cv, openreg_scratch_primitives(scratch));
}
