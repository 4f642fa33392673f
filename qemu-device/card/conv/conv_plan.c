// SPDX-License-Identifier: MIT
/* CONV: cuts the work into tiles, parts and slices. */
#include <string.h>

#include "conv.h"

#define PARTIAL_MAX ((double)(256 << 20)) /* bytes, as for MATMUL */
#define SMALL_TILE (128 * 128)

bool openreg_conv_is_gather(const struct openreg_conv *cv)
{
	return cv->kind != OPENREG_CONV_BACKWARD_WEIGHTS;
}

/* Returns x with a * x = 1 modulo m; a and m have no common divisor. */
static int64_t inverse(int64_t a, int64_t m)
{
	int64_t r0 = m, r1 = a % m, x0 = 0, x1 = 1, q, rest;

	while (r1 > 0) {
		q = r0 / r1;
		rest = r0 - q * r1;
		r0 = r1;
		r1 = rest;
		rest = x0 - q * x1;
		x0 = x1;
		x1 = rest;
	}
	return x0 < 0 ? x0 + m : x0;
}

/* The axis of the class of input positions r, r + stride, ... */
static void backward_axis(const struct openreg_geometry *w, unsigned int d,
			  int64_t r, struct openreg_conv_axis *a)
{
	int64_t stride = w->stride[d], from = r + w->padding[d];
	int64_t common = openreg_gcd(stride, w->dilation[d]), tap;

	a->first = r;
	a->spread = stride;
	a->count = openreg_div_up(w->input[d] - r, stride);
	a->step = 1;
	a->tap_step = stride / common;
	a->at_step = -(w->dilation[d] / common);
	a->taps = 0;
	a->tap0 = 0;
	a->at0 = 0;
	if (from % common)
		return;
	tap = from / common % a->tap_step *
	      inverse(w->dilation[d] / common, a->tap_step) % a->tap_step;
	if (tap >= w->kernel[d])
		return;
	a->tap0 = tap;
	a->taps = (w->kernel[d] - 1 - tap) / a->tap_step + 1;
	a->at0 = (from - tap * w->dilation[d]) / stride;
}

static int64_t classes_along(const struct openreg_geometry *w, unsigned int d)
{
	return openreg_least(w->stride[d], w->input[d]);
}

void openreg_conv_axes(const struct openreg_conv *cv, int64_t class,
		       struct openreg_conv_axis axis[3])
{
	const struct openreg_geometry *w = &cv->w;
	unsigned int d;

	for (d = 3; d-- > 0;) {
		if (cv->kind == OPENREG_CONV_BACKWARD_DATA) {
			int64_t n = classes_along(w, d);

			backward_axis(w, d, class % n, &axis[d]);
			class /= n;
			continue;
		}
		axis[d] = (struct openreg_conv_axis){
			.count = w->output[d],
			.spread = 1,
			.step = w->stride[d],
			.taps = w->kernel[d],
			.tap_step = 1,
			.at0 = -w->padding[d],
			.at_step = w->dilation[d],
		};
	}
}

static struct openreg_conv_view view(const struct openreg_arg *op)
{
	struct openreg_conv_view v = {
		.base = (uintptr_t)op->ptr,
		.n = op->stride[0],
		.g = op->stride[1],
		.oc = op->stride[2],
		.ic = op->stride[3],
	};

	memcpy(v.at, &op->stride[4], sizeof(v.at));
	return v;
}

static void set_operands(struct openreg_conv *cv,
			 const struct openreg_args *args)
{
	static const uint8_t order[][3] = {
		/* y, x, weight */
		[OPENREG_CONV_FORWARD] = { 0, 1, 2 },
		[OPENREG_CONV_BACKWARD_DATA] = { 1, 0, 2 },
		[OPENREG_CONV_BACKWARD_WEIGHTS] = { 1, 2, 0 },
	};
	const uint8_t *at = order[args->arg[0]];

	cv->kind = args->arg[0];
	cv->kernels = openreg_kernels();
	cv->dtype = args->op[0].dtype;
	cv->type = openreg_dtype_register(cv->dtype);
	cv->gemm = &cv->kernels->gemm[cv->type];
	cv->esize = openreg_dtype_size(cv->dtype);
	cv->width = cv->type == OPENREG_VT_F64 || cv->type == OPENREG_VT_I64
			    ? 8
			    : 4;
	cv->direct = cv->dtype == OPENREG_F32 || cv->dtype == OPENREG_F64 ||
		     cv->dtype == OPENREG_I32 || cv->dtype == OPENREG_I64;
	cv->n = args->size[0];
	cv->g = args->size[1];
	cv->oc = args->size[2];
	cv->ic = args->size[3];
	cv->y = view(&args->op[at[0]]);
	cv->x = view(&args->op[at[1]]);
	cv->weight = view(&args->op[at[2]]);
	cv->has_bias = args->nops == 4;
	if (cv->has_bias)
		cv->bias = view(&args->op[3]);
}

static int64_t most_taps(const struct openreg_conv *cv)
{
	struct openreg_conv_axis a[3];
	int64_t taps = 1;
	unsigned int d;

	openreg_conv_axes(cv, 0, a);
	for (d = 0; d < 3; d++)
		taps *= openreg_div_up(cv->w.kernel[d], a[d].tap_step);
	return taps;
}

/* Sets rows, columns and blocks. With an empty source, sums have no products. */
static void set_shape(struct openreg_conv *cv, bool empty)
{
	bool forward = cv->kind == OPENREG_CONV_FORWARD;
	int64_t taps, channels, most;
	unsigned int d;

	cv->classes = 1;
	for (d = 0; d < 3 && cv->kind == OPENREG_CONV_BACKWARD_DATA; d++)
		cv->classes *= classes_along(&cv->w, d);
	if (!openreg_conv_is_gather(cv)) {
		cv->rows = cv->oc;
		cv->columns = cv->ic * openreg_window_volume(cv->w.kernel);
		most = empty ? 0
			     : cv->n * openreg_window_volume(cv->w.output);
		cv->blocks = openreg_div_up(most, OPENREG_CONV_BLOCK);
		return;
	}
	cv->rows = forward ? cv->oc : cv->ic;
	channels = forward ? cv->ic : cv->oc;
	cv->columns = cv->n;
	for (d = 0; d < 3; d++)
		cv->columns *= forward ? cv->w.output[d]
				       : openreg_div_up(cv->w.input[d],
							cv->w.stride[d]);
	taps = empty ? 1 : most_taps(cv);
	cv->block_taps = openreg_least(taps, OPENREG_CONV_BLOCK);
	cv->block_channels = openreg_least(OPENREG_CONV_BLOCK / cv->block_taps,
					   openreg_greatest(channels, 1));
	cv->blocks = empty ? 0
			   : openreg_div_up(channels, cv->block_channels) *
				     openreg_div_up(taps, cv->block_taps);
}

/* Estimated time of a tile with so many blocks on slower hosts, in ns. */
static double tile_cost(const struct openreg_conv *cv, int64_t blocks)
{
	static const double mac[OPENREG_VT_END] = { 0.014, 0.04, 0.05, 0.2 };
	double pack = cv->direct ? 0.6 : 1.2;
	double m = (double)(cv->tile_rows + cv->gemm->rows);
	double n = (double)(cv->tile_columns + cv->gemm->columns);
	int64_t block = openreg_conv_is_gather(cv) ?
				cv->block_channels * cv->block_taps :
				OPENREG_CONV_BLOCK;
	double k = (double)blocks * (double)block;

	return 1000 + m * n + k * (m * n * mac[cv->type] + (m + n) * pack);
}

static int64_t halve(int64_t x, int64_t to)
{
	return (x / 2 + to - 1) / to * to;
}

static double result_bytes(const struct openreg_conv *cv)
{
	return (double)cv->classes * (double)cv->g * (double)cv->rows *
	       (double)cv->columns * (double)cv->width;
}

/* Is there enough memory to cut the reduction instead of the tile? */
static bool can_part(const struct openreg_conv *cv)
{
	return tile_cost(cv, cv->blocks) / OPENREG_SLICE_NS *
		       result_bytes(cv) <
	       PARTIAL_MAX;
}

/* Cuts the reduction so that a part takes about a slice, within PARTIAL_MAX. */
static void cut_parts(struct openreg_conv *cv)
{
	double bytes = result_bytes(cv);
	double cost = tile_cost(cv, cv->blocks);
	double parts = cost / OPENREG_SLICE_NS;

	cv->part_blocks = openreg_greatest(cv->blocks, 1);
	if (parts * bytes > PARTIAL_MAX)
		parts = PARTIAL_MAX / bytes;
	if (cost > 2 * OPENREG_SLICE_NS && parts >= 2)
		cv->part_blocks = (int64_t)((double)cv->blocks / parts) + 1;
	cv->parts = openreg_greatest(
		openreg_div_up(cv->blocks, cv->part_blocks), 1);
}

static void cut_tile(struct openreg_conv *cv)
{
	int64_t *m = &cv->tile_rows, *n = &cv->tile_columns;
	int64_t rows = cv->gemm->rows, columns = cv->gemm->columns;

	*m = openreg_least(cv->rows, OPENREG_CONV_ROWS_MAX / rows * rows);
	*n = openreg_least(cv->columns, OPENREG_CONV_COLUMNS_MAX);
	/* In tiles that are too small, packing takes longer than multiplying. */
	while (tile_cost(cv, cv->blocks) > OPENREG_SLICE_NS &&
	       (*m > 4 * rows || *n > 4 * columns) &&
	       (*m * *n > SMALL_TILE || !can_part(cv))) {
		if (*m > 4 * rows && *m >= *n)
			*m = halve(*m, rows);
		else if (*n > 4 * columns)
			*n = halve(*n, columns);
		else
			*m = halve(*m, rows);
	}
}

static void cut(struct openreg_conv *cv)
{
	cut_tile(cv);
	cut_parts(cv);
	cv->tiles_rows = openreg_div_up(cv->rows, cv->tile_rows);
	cv->tiles_columns = openreg_div_up(cv->columns, cv->tile_columns);
	cv->slots = openreg_conv_is_gather(cv)
			    ? 0
			    : openreg_least(
				      cv->tile_columns,
				      openreg_window_volume(cv->w.kernel));
}

/* Sets units, or -1 if they are more than slices can be. */
static void count_units(struct openreg_conv *cv)
{
	const int64_t factor[] = { cv->classes, cv->g, cv->tiles_rows,
				   cv->tiles_columns, cv->parts };
	double cost = tile_cost(cv, openreg_least(cv->part_blocks,
						  cv->blocks));

	cv->units = openreg_window_product(factor, 5);
	cv->slice_units = (int64_t)(OPENREG_SLICE_NS / cost) + 1;
}

bool openreg_conv_plan(struct openreg_conv *cv, const struct openreg_args *args)
{
	bool empty = false;
	unsigned int i, d;

	openreg_window_get(&cv->w, args);
	set_operands(cv, args);
	for (i = 0; i < 3; i++) {
		for (d = 0; d < OPENREG_CONV_DIMS; d++) {
			if (!(args->op[i].dims >> d & 1) || args->op[i].size[d])
				continue;
			if (i == 0)
				return false;
			empty = true;
		}
	}
	set_shape(cv, empty);
	cv->partial = NULL;
	cut(cv);
	count_units(cv);
	openreg_conv_slide_plan(cv);
	return true;
}
