// SPDX-License-Identifier: MIT
/* SCAN: checks a packet and cuts its work. */
#include "job/dims.h"
#include "scan.h"

enum { VALUES, SOURCE, INDEX };
#define PIECE_DIM (-1)

static bool has_places(unsigned int mode)
{
	return mode == OPENREG_SCAN_MAX || mode == OPENREG_SCAN_MIN;
}

static struct openreg_verdict check_operand(struct openreg_args *args,
					    unsigned int i)
{
	struct openreg_arg *op = &args->op[i];
	unsigned int d;
	bool fits = openreg_dtype_is_common(op->dtype);

	if (args->arg[1] == OPENREG_SCAN_LOGSUMEXP)
		fits = openreg_dtype_is_float(op->dtype);
	if (i == INDEX ? op->dtype != OPENREG_I64 : !fits)
		return openreg_bad(OPENREG_FAULT_DTYPE, i, op->dtype);
	op->dims = (1u << args->ndim) - 1;
	op->read = i == SOURCE;
	op->written = i != SOURCE;
	for (d = 0; d < args->ndim && op->written; d++) {
		if (args->size[d] > 1 && op->stride[d] == 0)
			return openreg_bad(OPENREG_FAULT_SHAPE, i, d);
	}
	return openreg_good();
}

struct openreg_verdict openreg_scan_check(struct openreg_args *args)
{
	const uint32_t none = OPENREG_NO_OPERAND;
	struct openreg_verdict v = openreg_good();
	unsigned int i;

	if (args->arg[1] >= OPENREG_SCAN_END || args->arg[2] || args->arg[3])
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->arg[1]);
	if (args->nops < 2 || args->nimm || args->ninstr ||
	    args->nops > (has_places(args->arg[1]) ? 3 : 2))
		return openreg_bad(OPENREG_FAULT_PACKET, none, args->nops);
	if (args->arg[0] >= args->ndim)
		return openreg_bad(OPENREG_FAULT_SHAPE, none, args->arg[0]);
	for (i = 0; i < args->nops && !v.code; i++)
		v = check_operand(args, i);
	return v;
}

/* The dimension along which the rows of the source are neighbours, or -1. */
static int neighbours(const struct openreg_args *args)
{
	unsigned int axis = args->arg[0], d;
	const int64_t *stride = args->op[SOURCE].stride;
	int best = -1;

	for (d = 0; d < args->ndim; d++) {
		if (d == axis || args->size[d] < 8 || !stride[d] ||
		    openreg_magnitude(stride[d]) >= openreg_magnitude(stride[axis]))
			continue;
		if (best < 0 || openreg_magnitude(stride[d]) < openreg_magnitude(stride[best]))
			best = (int)d;
	}
	return best;
}

static void add_dim(struct openreg_scan_part *part, int64_t size, int64_t dim)
{
	part->dim[part->ndim] = dim;
	part->size[part->ndim++] = size;
}

/* Puts the dimension along which units are first: that of neighbours, or the longest. */
static void order_dims(const struct openreg_scan *scan,
		       struct openreg_scan_part *part,
		       const struct openreg_args *args, int64_t pieces)
{
	int group = scan->mode == OPENREG_SCAN_LOGSUMEXP ? -1
							 : neighbours(args);
	int64_t longest = pieces;
	int d;

	part->lines = group >= 0;
	for (d = 0; d < args->ndim && !part->lines; d++) {
		if (d != args->arg[0] && args->size[d] > longest) {
			longest = args->size[d];
			group = d;
		}
	}
	part->ndim = 0;
	if (group >= 0)
		add_dim(part, args->size[group], group);
	if (pieces > 1 || group < 0)
		add_dim(part, pieces, PIECE_DIM);
	for (d = 0; d < args->ndim; d++) {
		if (d != args->arg[0] && d != group && args->size[d] > 1)
			add_dim(part, args->size[d], d);
	}
}

static void set_operand(const struct openreg_scan_part *part,
			struct openreg_scan_operand *op,
			const struct openreg_arg *arg, unsigned int axis)
{
	unsigned int d;

	op->dtype = arg->dtype;
	op->esize = openreg_dtype_size(arg->dtype);
	op->axis = arg->stride[axis];
	op->base = (uintptr_t)arg->ptr +
		   (uintptr_t)(part->first * OPENREG_SCAN_PIECE) *
			   (uintptr_t)op->axis * (uintptr_t)op->esize;
	for (d = 0; d < part->ndim; d++)
		op->stride[d] = part->dim[d] != PIECE_DIM
					? arg->stride[part->dim[d]]
				: part->size[d] > 1
					? OPENREG_SCAN_PIECE * op->axis
					: 0;
}

/* Totals are in the row-major order of the packet's rows, with the pieces last. */
static void set_totals(const struct openreg_scan *scan,
		       struct openreg_scan_part *part,
		       const struct openreg_args *args)
{
	int64_t stride[OPENREG_DIMS_MAX], step = scan->pieces;
	unsigned int d;

	for (d = args->ndim; d-- > 0;) {
		stride[d] = step;
		step *= d == args->arg[0] ? 1 : args->size[d];
	}
	for (d = 0; d < part->ndim; d++)
		part->total[d] =
			part->dim[d] == PIECE_DIM ? 1 : stride[part->dim[d]];
}

static void cut(const struct openreg_scan *scan, struct openreg_scan_part *part)
{
	double ns = scan->mode == OPENREG_SCAN_LOGSUMEXP ? 8 : 2;
	int64_t rows = 1, most;
	unsigned int d;

	for (d = 0; d < part->ndim; d++)
		rows *= part->size[d];
	/* Gives each worker some units, if there are enough rows. */
	most = part->lines ? rows / 8 : rows / 4;
	part->width = part->lines ? OPENREG_SCAN_WIDTH : 8;
	if (part->width > most)
		part->width = most > 0 ? most : 1;
	if (part->lines)
		part->width = (part->width + 15) & ~(int64_t)15;
	if (part->width > part->size[0])
		part->width = part->size[0];
	part->block = part->lines ? OPENREG_SCAN_BLOCK / part->width
				  : OPENREG_SCAN_BLOCK / 8;
	if (part->block > part->n)
		part->block = part->n;
	part->units = (part->size[0] + part->width - 1) / part->width;
	for (d = 1; d < part->ndim; d++)
		part->units *= part->size[d];
	ns = 100 + ns * (double)(part->width * part->n);
	part->slice_units =
		(int64_t)(openreg_slice_ns(ns * (double)part->units) / ns) + 1;
}

static bool add_part(struct openreg_scan *scan, const struct openreg_args *args,
		     int64_t n, int64_t first, int64_t pieces)
{
	struct openreg_scan_part *part = &scan->part[scan->nparts++];
	unsigned int axis = args->arg[0];
	int64_t slices;

	part->n = n;
	part->first = first;
	order_dims(scan, part, args, pieces);
	set_operand(part, &part->values, &args->op[VALUES], axis);
	set_operand(part, &part->source, &args->op[SOURCE], axis);
	if (scan->has_index)
		set_operand(part, &part->index, &args->op[INDEX], axis);
	set_totals(scan, part, args);
	cut(scan, part);
	slices = (part->units + part->slice_units - 1) / part->slice_units;
	part->slices = (uint32_t)slices;
	return slices <= UINT32_MAX / 2;
}

/* Returns false if there are too many slices. */
bool openreg_scan_plan(struct openreg_scan *scan,
		       const struct openreg_args *args)
{
	const int64_t piece = OPENREG_SCAN_PIECE;
	unsigned int d;

	scan->kernels = openreg_kernels();
	scan->mode = args->arg[1];
	scan->type = scan->mode == OPENREG_SCAN_LOGSUMEXP
			     ? OPENREG_VT_F64
			     : openreg_dtype_register(args->op[VALUES].dtype);
	scan->esize = scan->type == OPENREG_VT_F64 ||
				      scan->type == OPENREG_VT_I64
			      ? 8
			      : 4;
	scan->has_index = args->nops > INDEX;
	scan->n = args->size[args->arg[0]];
	scan->pieces = (scan->n + piece - 1) / piece;
	scan->rows = 1;
	for (d = 0; d < args->ndim; d++)
		scan->rows *= d == args->arg[0] ? 1 : args->size[d];
	scan->nparts = 0;
	scan->totals = NULL;
	if (scan->pieces == 1)
		return add_part(scan, args, scan->n, 0, 1);
	return add_part(scan, args, piece, 0, scan->n / piece) &&
	       (scan->n % piece == 0 ||
		add_part(scan, args, scan->n % piece, scan->n / piece, 1));
}
