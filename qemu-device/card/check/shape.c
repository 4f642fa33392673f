/* SPDX-License-Identifier: MIT */
#include "shape.h"

#include <string.h>

#define ROWS_MAX (1u << 20)

static void add_dim(struct shape *s, int64_t count, int64_t step)
{
	const uint64_t size = step < 0 ? -(uint64_t)step : (uint64_t)step;
	unsigned int i;

	if (count <= 1 || !step)
		return;
	if (step < 0)
		s->lo -= size * (uint64_t)(count - 1);
	for (i = s->ndim++; i && s->step[i - 1] > size; i--) {
		s->step[i] = s->step[i - 1];
		s->count[i] = s->count[i - 1];
	}
	s->step[i] = size;
	s->count[i] = (uint64_t)count;
}

static void drop_dim(struct shape *s, unsigned int d)
{
	s->ndim--;
	memmove(&s->step[d], &s->step[d + 1], (s->ndim - d) * sizeof(s->step[0]));
	memmove(&s->count[d], &s->count[d + 1], (s->ndim - d) * sizeof(s->count[0]));
}

/* Joins rows without a gap, and dimensions that continue each other. */
static void merge(struct shape *s)
{
	unsigned int d;

	while (s->ndim && s->step[0] <= s->row) {
		s->row += (s->count[0] - 1) * s->step[0];
		drop_dim(s, 0);
	}
	for (d = 0; d + 1 < s->ndim;) {
		if (s->step[d + 1] != s->step[d] * s->count[d]) {
			d++;
			continue;
		}
		s->count[d] *= s->count[d + 1];
		drop_dim(s, d + 1);
	}
}

void shape_of(struct shape *s, const struct openreg_args *args,
	      const struct openreg_arg *op, uint64_t off)
{
	const int64_t esize = openreg_dtype_size(op->dtype);
	unsigned int d;

	s->lo = off;
	s->row = (uint64_t)esize;
	s->ndim = 0;
	for (d = 0; d < args->ndim; d++)
		if (op->dims & 1u << d)
			add_dim(s, op->sized ? op->size[d] : args->size[d],
				op->stride[d] * esize);
	for (d = 0; d < args->nextents; d++)
		if (op->indirect & 1u << d)
			add_dim(s, args->extent[d], args->step[d] * esize);
	merge(s);
	s->hi = s->lo + s->row;
	for (d = 0; d < s->ndim; d++)
		s->hi += (s->count[d] - 1) * s->step[d];
}

/*
 * Does the part of s along its first n dimensions, at lo, have a byte of [from, to)? Takes
 * no more than *rounds rounds.
 */
static bool hits(const struct shape *s, unsigned int n, uint64_t lo, uint64_t from,
		 uint64_t to, uint64_t *rounds)
{
	uint64_t len = s->row, first = 0, last, i;
	unsigned int d;

	for (d = 0; d + 1 < n; d++)
		len += (s->count[d] - 1) * s->step[d];
	if (!n)
		return lo < to && lo + len > from;
	if (lo >= to)
		return false;
	if (from >= lo + len)
		first = (from - lo - len) / s->step[n - 1] + 1;
	last = (to - 1 - lo) / s->step[n - 1];
	if (last >= s->count[n - 1])
		last = s->count[n - 1] - 1;
	for (i = first; i <= last && *rounds; i++) {
		const uint64_t at = lo + i * s->step[n - 1];

		--*rounds;
		if ((from <= at && at + s->row <= to) || hits(s, n - 1, at, from, to, rounds))
			return true;
	}
	return false;
}

static bool is_same(const struct shape *a, const struct shape *b)
{
	return a->lo == b->lo && a->row == b->row && a->ndim == b->ndim &&
	       !memcmp(a->step, b->step, a->ndim * sizeof(a->step[0])) &&
	       !memcmp(a->count, b->count, a->ndim * sizeof(a->count[0]));
}

static uint64_t count_rows(const struct shape *s)
{
	uint64_t rows = 1;
	unsigned int d;

	for (d = 0; d < s->ndim && rows <= ROWS_MAX; d++)
		rows = s->count[d] > ROWS_MAX ? ROWS_MAX + 1 : rows * s->count[d];
	return rows;
}

bool shape_meets(const struct shape *a, const struct shape *b, uint64_t *rounds)
{
	struct rows rows;

	if (a->lo >= b->hi || b->lo >= a->hi)
		return false;
	if (!a->ndim)
		return hits(b, b->ndim, b->lo, a->lo, a->hi, rounds);
	if (!b->ndim)
		return hits(a, a->ndim, a->lo, b->lo, b->hi, rounds);
	if (is_same(a, b))
		return true;
	if (count_rows(a) > count_rows(b))
		return shape_meets(b, a, rounds);
	if (!rows_begin(&rows, a))
		return false;
	for (; !rows.done && *rounds; rows_next(&rows)) {
		--*rounds;
		if (hits(b, b->ndim, b->lo, rows.lo, rows.lo + a->row, rounds))
			return true;
	}
	return false;
}

bool shape_covers(const struct shape *a, const struct shape *b)
{
	return (!a->ndim && a->lo <= b->lo && b->hi <= a->hi) || is_same(a, b);
}

bool rows_begin(struct rows *rows, const struct shape *shape)
{
	memset(rows, 0, sizeof(*rows));
	rows->shape = shape;
	rows->lo = shape->lo;
	return count_rows(shape) <= ROWS_MAX;
}

void rows_next(struct rows *rows)
{
	const struct shape *s = rows->shape;
	unsigned int d;

	for (d = 0; d < s->ndim; d++) {
		rows->lo += s->step[d];
		if (++rows->at[d] < s->count[d])
			return;
		rows->lo -= s->count[d] * s->step[d];
		rows->at[d] = 0;
	}
	rows->done = true;
}
