// SPDX-License-Identifier: MIT
#include "values.h"

const uint64_t sizes[SIZES] = { 0, 1, 3, 63, 1000, 16384, 16385, 100001, 400000 };

const uint64_t uneven[UNEVEN][RANKS] = {
	{ 1000, 1000, 1000, 1000 }, { 0, 50000, 1, 16 },
	{ 100000, 0, 0, 7 },	    { 0, 0, 0, 0 },
};

uint64_t begin_of(const uint64_t *counts, uint32_t rank)
{
	uint64_t sum = 0;

	for (uint32_t r = 0; r < rank; r++)
		sum += counts[r];
	return sum;
}

/*
 * Small integers, so that every result is exact in each dtype; not 0: its sign a product
 * of floats would keep.
 */
int64_t value(uint32_t rank, uint64_t i)
{
	const int64_t v = (int64_t)((i * 7 + rank * 3) % 11) - 5;

	return v < 0 ? v : v + 1;
}

static void put_double(uint8_t *p, enum openreg_dtype dtype, uint64_t i, double v)
{
	const _Float16 half = (_Float16)v;
	const float f = (float)v;
	const unsigned int esize = openreg_dtype_size(dtype);
	const int64_t n = (int64_t)v;
	uint32_t bits;

	memcpy(&bits, &f, 4);
	/* Exact, or half to even. */
	bits += 0x7fff + (bits >> 16 & 1);
	p += i * esize;
	switch (dtype) {
	case OPENREG_F64:
		memcpy(p, &v, 8);
		break;
	case OPENREG_F32:
		memcpy(p, &f, 4);
		break;
	case OPENREG_F16:
		memcpy(p, &half, 2);
		break;
	case OPENREG_BF16:
		memcpy(p, (char *)&bits + 2, 2);
		break;
	case OPENREG_BOOL:
		*p = n != 0;
		break;
	default:
		memcpy(p, &n, esize);
	}
}

void put(uint8_t *p, enum openreg_dtype dtype, uint64_t i, int64_t v)
{
	put_double(p, dtype, i, (double)v);
}

static int64_t combine(int64_t v, int64_t x, enum openreg_comm_op op)
{
	switch (op) {
	case OPENREG_COMM_PROD:
		return v * x;
	case OPENREG_COMM_MIN:
		return x < v ? x : v;
	case OPENREG_COMM_MAX:
		return x > v ? x : v;
	case OPENREG_COMM_AND:
		return v & x;
	case OPENREG_COMM_OR:
		return v | x;
	case OPENREG_COMM_XOR:
		return v ^ x;
	default:
		return v + x;
	}
}

static bool is_float(enum openreg_dtype dtype)
{
	return dtype == OPENREG_F64 || dtype == OPENREG_F32 || dtype == OPENREG_F16 ||
	       dtype == OPENREG_BF16;
}

static double expect(uint64_t i, enum openreg_dtype dtype, enum openreg_comm_op op)
{
	int64_t v = 0;

	for (uint32_t r = 0; r < me.size; r++) {
		const int64_t x = value(r, i) *
				  (op == OPENREG_COMM_PREMUL_SUM ? FACTOR(r) : 1);

		v = r ? combine(v, x, op) : x;
	}
	if (op != OPENREG_COMM_AVG)
		return (double)v;
	/* Half types divide in f32. */
	return !is_float(dtype) ? (double)(v / (int64_t)me.size) :
	       dtype == OPENREG_F64 ? (double)v / me.size : (float)v / (float)me.size;
}

void fill(uint8_t *p, enum openreg_dtype dtype, uint64_t first, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		put(p, dtype, i, value(me.rank, first + i));
}

void check_reduced(const uint8_t *p, enum openreg_dtype dtype, uint64_t first,
		   uint64_t count, enum openreg_comm_op op)
{
	const unsigned int esize = openreg_dtype_size(dtype);
	uint8_t want[8];

	for (uint64_t i = 0; i < count; i++) {
		put_double(want, dtype, 0, expect(first + i, dtype, op));
		must(!memcmp(p + i * esize, want, esize));
	}
	must(p[count * esize] == 0xee);
}

uint8_t *check_values(uint8_t *p, enum openreg_dtype dtype, uint32_t rank, uint64_t first,
		      uint64_t count)
{
	const unsigned int esize = openreg_dtype_size(dtype);
	uint8_t want[8];

	for (uint64_t i = 0; i < count; i++, p += esize) {
		put(want, dtype, 0, value(rank, first + i));
		must(!memcmp(p, want, esize));
	}
	return p;
}
