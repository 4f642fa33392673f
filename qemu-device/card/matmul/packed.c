// SPDX-License-Identifier: MIT
/* The order of packed matrices. */
#include <string.h>

#include "packed.h"

#define MAGIC 0x4b50524fu /* "ORPK" */
#define VERSION 1
#define ROWS 16 /* groups; rows are rounded up to whole ones */

struct header {
	uint32_t magic;
	uint16_t version;
	uint16_t dtype;
	uint64_t k, n;
	uint64_t reserved[5];
};

_Static_assert(sizeof(struct header) == OPENREG_PACK_ALIGN,
	       "the elements are aligned as the packed matrix is");

bool openreg_packed_has(unsigned int dtype)
{
	return dtype == OPENREG_F32 || dtype == OPENREG_F16 ||
	       dtype == OPENREG_BF16;
}

struct openreg_packed openreg_packed(unsigned int dtype, int64_t k, int64_t n)
{
	struct openreg_packed p = {
		.dtype = (uint8_t)dtype,
		.group = dtype == OPENREG_BF16 ? 2 : 1,
		.k = k,
		.n = n,
	};

	p.block = openreg_round_up(k, ROWS * p.group) * OPENREG_PACKED_COLUMNS;
	return p;
}

int64_t openreg_packed_elements(const struct openreg_packed *p)
{
	int64_t blocks = (p->n + OPENREG_PACKED_COLUMNS - 1) /
			 OPENREG_PACKED_COLUMNS;

	return blocks * p->block +
	       (int64_t)(sizeof(struct header) / openreg_dtype_size(p->dtype));
}

static struct header header_of(const struct openreg_packed *p)
{
	return (struct header){
		.magic = MAGIC,
		.version = VERSION,
		.dtype = p->dtype,
		.k = (uint64_t)p->k,
		.n = (uint64_t)p->n,
	};
}

void openreg_packed_start(const struct openreg_packed *p, void *at)
{
	struct header h = header_of(p);

	memcpy(at, &h, sizeof(h));
}

bool openreg_packed_is(const struct openreg_packed *p, const void *at)
{
	struct header h = header_of(p);

	return memcmp(at, &h, sizeof(h)) == 0;
}

uintptr_t openreg_packed_block(const struct openreg_packed *p, const void *at,
			       int64_t n0)
{
	int64_t elements = n0 / OPENREG_PACKED_COLUMNS * p->block;

	return (uintptr_t)at + sizeof(struct header) +
	       (uintptr_t)elements * openreg_dtype_size(p->dtype);
}

/* Packs columns of a block: `rows` rows with k of the matrix, then zeros. */
#define PACK(name, type, group)                                                \
	static void name(type *to, const type *from, int64_t row,              \
			 int64_t column, int64_t k, int64_t rows, int64_t n)   \
	{                                                                      \
		int64_t i, j, r;                                               \
                                                                               \
		for (i = 0; i < rows; i += (group)) {                          \
			for (j = 0; j < OPENREG_PACKED_COLUMNS; j++) {         \
				for (r = 0; r < (group); r++)                  \
					*to++ = i + r < k && j < n             \
						? from[(i + r) * row + j * column] \
						: 0;                           \
			}                                                      \
		}                                                              \
	}

PACK(pack_words, uint32_t, 1)
PACK(pack_halves, uint16_t, 1)
PACK(pack_pairs, uint16_t, 2)

#define UNPACK(name, type, group)                                              \
	static void name(const type *from, type *to, int64_t row,              \
			 int64_t column, int64_t k0, int64_t k, int64_t n)     \
	{                                                                      \
		int64_t i, j;                                                  \
                                                                               \
		for (i = 0; i < k; i++) {                                      \
			const type *line = from + (k0 + i) / (group) *         \
						  (group) *                    \
						  OPENREG_PACKED_COLUMNS +     \
					   (k0 + i) % (group);                 \
                                                                               \
			for (j = 0; j < n; j++)                                \
				to[i * row + j * column] = line[j * (group)];  \
		}                                                              \
	}

UNPACK(unpack_words, uint32_t, 1)
UNPACK(unpack_halves, uint16_t, 1)
UNPACK(unpack_pairs, uint16_t, 2)

static int64_t columns_of(const struct openreg_packed_part *part, int64_t j)
{
	int64_t left = part->n - j;

	return left < OPENREG_PACKED_COLUMNS ? left : OPENREG_PACKED_COLUMNS;
}

void openreg_packed_pack(const struct openreg_packed *p, void *at,
			 const struct openreg_matrix *x,
			 const struct openreg_packed_part *part)
{
	int64_t rows = p->block / OPENREG_PACKED_COLUMNS, j;
	int64_t esize = openreg_dtype_size(p->dtype);

	for (j = 0; j < part->n; j += OPENREG_PACKED_COLUMNS) {
		uintptr_t to = openreg_packed_block(p, at, part->n0 + j);
		uintptr_t from = openreg_matrix_at(x, esize, 0, 0, j);
		int64_t n = columns_of(part, j);

		if (esize == 4)
			pack_words((uint32_t *)to, (const uint32_t *)from,
				   x->row, x->column, p->k, rows, n);
		else if (p->group == 1)
			pack_halves((uint16_t *)to, (const uint16_t *)from,
				    x->row, x->column, p->k, rows, n);
		else
			pack_pairs((uint16_t *)to, (const uint16_t *)from,
				   x->row, x->column, p->k, rows, n);
	}
}

void openreg_packed_unpack(const struct openreg_packed *p, const void *at,
			   const struct openreg_matrix *x,
			   const struct openreg_packed_part *part)
{
	int64_t esize = openreg_dtype_size(p->dtype), j;

	for (j = 0; j < part->n; j += OPENREG_PACKED_COLUMNS) {
		uintptr_t from = openreg_packed_block(p, at, part->n0 + j);
		uintptr_t to = openreg_matrix_at(x, esize, 0, 0, j);
		int64_t n = columns_of(part, j);

		if (esize == 4)
			unpack_words((const uint32_t *)from, (uint32_t *)to,
				     x->row, x->column, part->k0, part->k, n);
		else if (p->group == 1)
			unpack_halves((const uint16_t *)from, (uint16_t *)to,
				      x->row, x->column, part->k0, part->k, n);
		else
			unpack_pairs((const uint16_t *)from, (uint16_t *)to,
				     x->row, x->column, part->k0, part->k, n);
	}
}

struct openreg_verdict openreg_packed_check(struct openreg_args *args,
					    unsigned int i, unsigned int d,
					    int64_t k, int64_t n)
{
	struct openreg_arg *op = &args->op[i];
	struct openreg_packed p;
	bool empty = false;
	unsigned int e;

	if (!openreg_packed_has(op->dtype))
		return openreg_bad(OPENREG_FAULT_DTYPE, i, op->dtype);
	op->dims = 1u << d;
	op->sized = true;
	op->size[d] = 0;
	for (e = 0; e < args->ndim; e++)
		empty |= args->size[e] == 0;
	if (empty)
		return openreg_good();
	for (e = 0; e < args->ndim; e++) {
		if (op->stride[e] != (e == d))
			return openreg_bad(OPENREG_FAULT_SHAPE, i, e);
	}
	if (op->addr % OPENREG_PACK_ALIGN)
		return openreg_bad(OPENREG_FAULT_ALIGNMENT, i,
				   OPENREG_PACK_ALIGN);
	p = openreg_packed(op->dtype, k, n);
	op->size[d] = openreg_packed_elements(&p);
	return openreg_good();
}
