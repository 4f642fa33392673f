// SPDX-License-Identifier: MIT
/* Sizes, strides and addresses that fit together, or almost. */
#include <string.h>

#include "matmul/packed.h"
#include "packet.h"
#include "stepper.h"

unsigned int draft_ndim(struct stream *s)
{
	unsigned int n = take(s, 5);

	return rare(s, 8) ? n + 4 : n;
}

int64_t draft_size(struct stream *s)
{
	unsigned int v = take8(s);

	if (v < 200)
		return 1 + v % 6;
	if (v < 240)
		return 1 + v % 67;
	if (v < 254)
		return v % 2;
	return (int64_t)take_odd(s);
}

void draft_sizes(struct stream *s, struct draft *d, unsigned int ndim)
{
	unsigned int i;

	d->op.ndim = (uint8_t)ndim;
	for (i = 0; i < ndim; i++)
		d->size[i] = draft_size(s);
}

void draft_imm(struct draft *d, uint64_t value)
{
	d->imm[d->op.nimm++] = value;
}

/* Elements of the dimensions so far, at most the largest segment. */
static int64_t widen(int64_t step, int64_t size)
{
	int64_t next;

	if (__builtin_mul_overflow(step, size > 0 ? size : 1, &next) ||
	    next > 1LL << OPENREG_ADDR_OFFSET_BITS)
		return step;
	return next;
}

/* Strides: dense in any order, with gaps, negative, or random. */
static void take_strides(struct stream *s, int64_t *stride, unsigned int ndim,
			 uint32_t dims, const int64_t *size, bool written)
{
	unsigned int how = take8(s), i, at = 0;
	int64_t step = 1;

	for (i = 0; i < ndim; i++) {
		at = how & 1 ? i : ndim - 1 - i;
		if (how & 8)
			at = (at + how / 16) % ndim;
		stride[at] = 0;
		if (!(dims >> at & 1))
			continue;
		if (how & 2 && !written && rare(s, 4))
			continue;
		stride[at] = step;
		if (how & 4 && rare(s, 4))
			stride[at] = -step;
		step = widen(step, size[at]);
		if (how & 4 && rare(s, 4))
			step += 1 + take(s, 3);
	}
	if (how < 240 || !ndim)
		return;
	at = take(s, ndim);
	stride[at] = how < 250 ? (int8_t)take8(s) : (int64_t)take_odd(s);
}

/* First and last element relative to element 0, limited to 2^40. */
static void reach_of(const int64_t *stride, unsigned int ndim, uint32_t dims,
		     const int64_t *size, int64_t *lo, int64_t *hi)
{
	const __int128 far = (__int128)1 << 40;
	__int128 first = 0, last = 0;
	unsigned int i;

	for (i = 0; i < ndim; i++) {
		__int128 r = ((__int128)size[i] - 1) * stride[i];

		if (!(dims >> i & 1) || size[i] < 1)
			continue;
		r = r > far ? far : r < -far ? -far : r;
		*(r < 0 ? &first : &last) += r;
	}
	*lo = (int64_t)first;
	*hi = (int64_t)last;
}

static const struct stepper_place *take_place(struct stream *s, bool spread,
					  uint64_t *id)
{
	static const uint8_t near[] = { 0, 0, 0, 0, 0, 0, 1, 1,
					7, 0, 1, 2, 7, 3, 4, 5 };
	static const uint8_t wide[] = { 0, 0, 0, 1, 4, 4, 4, 4,
					1, 0, 7, 2, 3, 5, 6, 6 };
	const struct stepper_place *place;
	unsigned int v = take8(s);

	place = &stepper_places[spread ? wide[v % 16] : near[v % 16]];
	*id = place->id;
	if (v >= 250)
		*id = STEPPER_DEAD + (v - 250);
	return place;
}

static uint64_t take_address(struct stream *s, bool spread, unsigned int esize,
			     int64_t lo, int64_t hi)
{
	uint64_t id, span = (uint64_t)(hi - lo + 1) * esize;
	const struct stepper_place *place = take_place(s, spread, &id);
	unsigned int how = take8(s);
	uint64_t off = (uint64_t)-lo * esize, room = 0;

	if (span <= place->length)
		room = (place->length - span) / esize;
	/* At the beginning, at the end, just beyond it, or anywhere. */
	if (how & 1)
		off += room * esize;
	else if (how & 2 && room)
		off += (how / 4 + 8ULL * take8(s)) % room * esize;
	if (how >= 252)
		off += esize;
	else if (how >= 248)
		off += 1;
	else if (how >= 245)
		off = take_odd(s);
	off &= OPENREG_ADDR_OFFSET_MASK;
	return OPENREG_ADDR(how == 244 ? 3 : 0, id, off);
}

void draft_place_more(struct stream *s, struct draft *d, unsigned int dtype,
		      uint32_t dims, const int64_t *size, bool written,
		      int64_t more)
{
	unsigned int i = d->op.nops, esize = openreg_dtype_size(dtype);
	int64_t lo, hi;

	if (i == OPENREG_OPERANDS_MAX)
		return;
	d->op.nops++;
	d->operand[i].reserved = dtype;
	take_strides(s, d->operand[i].stride, d->op.ndim, dims, size, written);
	reach_of(d->operand[i].stride, d->op.ndim, dims, size, &lo, &hi);
	if (more < 0)
		lo += more;
	else
		hi += more;
	d->operand[i].addr =
		take_address(s, d->spread, esize ? esize : 1, lo, hi);
}

void draft_place(struct stream *s, struct draft *d, unsigned int dtype,
		 uint32_t dims, const int64_t *size, bool written)
{
	draft_place_more(s, d, dtype, dims, size, written, 0);
}

void draft_packed(struct stream *s, struct draft *d, unsigned int dtype,
		  unsigned int dim, int64_t k, int64_t n)
{
	unsigned int i = d->op.nops, e;
	int64_t elements = 0;

	if (openreg_packed_has(dtype) && k > 0 && n > 0 && k <= 1 << 20 &&
	    n <= 1 << 20) {
		struct openreg_packed p = openreg_packed(dtype, k, n);

		elements = openreg_packed_elements(&p);
	}
	draft_place_more(s, d, dtype, 0, d->size, false,
			 elements ? elements - 1 : 0);
	if (d->op.nops == i)
		return;
	for (e = 0; e < d->op.ndim && e < OPENREG_DIMS_MAX; e++)
		d->operand[i].stride[e] = e == dim;
	if (!rare(s, 16))
		d->operand[i].addr &= ~(uint64_t)(OPENREG_PACK_ALIGN - 1);
}
