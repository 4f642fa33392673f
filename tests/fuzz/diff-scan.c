// SPDX-License-Identifier: MIT
/* Reference for SCAN: computes each row element by element. */
#include <math.h>

#include "diff.h"
#include "vector-reference.h"

struct row {
	double f;
	uint64_t i;
	int64_t place;
};

static bool is_extreme(const struct diff *d)
{
	return d->draft.op.arg[1] == OPENREG_SCAN_MAX ||
	       d->draft.op.arg[1] == OPENREG_SCAN_MIN;
}

static void begin(const struct diff *d, struct row *row)
{
	bool one = d->draft.op.arg[1] == OPENREG_SCAN_PROD;

	*row = (struct row){ .f = one, .i = one };
}

static void step(const struct diff *d, struct row *row, int64_t i, double f,
		 int64_t n)
{
	bool max = d->draft.op.arg[1] == OPENREG_SCAN_MAX, wins;

	switch (d->draft.op.arg[1]) {
	case OPENREG_SCAN_SUM:
		row->f += f;
		row->i += (uint64_t)n;
		return;
	case OPENREG_SCAN_PROD:
		row->f *= f;
		row->i *= (uint64_t)n;
		return;
	}
	if (diff_is_float(d->op[0].dtype))
		wins = isnan(f) || (max ? f >= row->f : f <= row->f);
	else
		wins = max ? n >= (int64_t)row->i : n <= (int64_t)row->i;
	if (i && !wins)
		return;
	*row = (struct row){ .f = f, .i = (uint64_t)n, .place = i };
}

static void scan_row(struct diff *d, int64_t *point)
{
	unsigned int axis = d->draft.op.arg[0], dtype = d->op[0].dtype;
	struct row row;
	int64_t i;

	begin(d, &row);
	for (i = 0; i < d->draft.size[axis]; i++) {
		const uint8_t *x;

		point[axis] = i;
		x = diff_element(d, &d->op[1], diff_at(d, &d->op[1], point));
		if (diff_is_float(dtype)) {
			step(d, &row, i, element_get(dtype, x, 0), 0);
			diff_put_float(d, &d->op[0],
				       diff_at(d, &d->op[0], point), row.f);
		} else {
			step(d, &row, i, 0, element_get_int(dtype, x, 0));
			diff_put_int(d, &d->op[0],
				     diff_at(d, &d->op[0], point),
				     (int64_t)row.i);
		}
		if (d->draft.op.nops > 2)
			diff_put_int(d, &d->op[2],
				     diff_at(d, &d->op[2], point), row.place);
	}
	point[axis] = 0;
}

void diff_scan(struct diff *d)
{
	unsigned int ndim = (unsigned int)random_range(1, 5), dtype;
	int64_t point[OPENREG_DIMS_MAX] = { 0 };
	uint32_t all = (1u << ndim) - 1;

	diff_begin(d, OPENREG_OP_SCAN, ndim, random_range(0, 3) ? 60 : 1000);
	d->draft.op.arg[0] = (uint8_t)random_range(0, ndim - 1);
	d->draft.op.arg[1] =
		(uint8_t)random_range(OPENREG_SCAN_SUM, OPENREG_SCAN_MIN);
	dtype = diff_common_dtype();
	diff_operand(d, SPACE_VRAM, dtype, all, false);
	diff_operand(d, SPACE_VRAM, dtype, all, true);
	if (is_extreme(d) && random_range(0, 1))
		diff_operand(d, SPACE_VRAM, OPENREG_I64, all, false);
	diff_run(d);
	do {
		if (!point[d->draft.op.arg[0]])
			scan_row(d, point);
	} while (next_point(ndim, d->draft.size, point));
}
