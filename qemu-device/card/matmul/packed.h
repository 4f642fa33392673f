/* SPDX-License-Identifier: MIT */
/*
 * Packed matrices: B of MATMUL in the order in which oneDNN reads it. The order is the
 * same on every host, so that a packed matrix survives a migration.
 *
 * A header is followed by blocks of OPENREG_PACKED_COLUMNS columns. A block has all k rows
 * of its columns, `group` rows at a time: element (row, column) of a block is
 *
 *	(row / group * OPENREG_PACKED_COLUMNS + column) * group + row % group
 *
 * Rows and columns are rounded up with zeros. All addresses follow from the sizes in the
 * packet. The card compares the header with them, and uses nothing else of it.
 */
#ifndef OPENREG_PACKED_H
#define OPENREG_PACKED_H

#include "matmul.h"

struct openreg_packed {
	uint8_t dtype;
	uint8_t group;
	int64_t k, n;
	int64_t block; /* elements of a block */
};

/* F32, F16 and BF16 have a packed form. */
bool openreg_packed_has(unsigned int dtype);
/* k and n are positive, and their product is at most the work of a packet. */
struct openreg_packed openreg_packed(unsigned int dtype, int64_t k, int64_t n);
/* Elements of a packed matrix with its header, counted in the dtype. */
int64_t openreg_packed_elements(const struct openreg_packed *p);
/* Writes the header at the start of a packed matrix. */
void openreg_packed_start(const struct openreg_packed *p, void *at);
bool openreg_packed_is(const struct openreg_packed *p, const void *at);
/* The block that begins with column n0, a multiple of OPENREG_PACKED_COLUMNS. */
uintptr_t openreg_packed_block(const struct openreg_packed *p, const void *at,
			       int64_t n0);

struct openreg_packed_part {
	int64_t k0, k, n0, n; /* n0 is a multiple of OPENREG_PACKED_COLUMNS */
};

/* x: the matrix with element (k0, n0) of the part at its base. */
void openreg_packed_pack(const struct openreg_packed *p, void *at,
			 const struct openreg_matrix *x,
			 const struct openreg_packed_part *part);
void openreg_packed_unpack(const struct openreg_packed *p, const void *at,
			   const struct openreg_matrix *x,
			   const struct openreg_packed_part *part);

/*
 * Checks operand i as a packed matrix of k x n along dimension d, and sets its sizes. All
 * other strides must be 0.
 */
struct openreg_verdict openreg_packed_check(struct openreg_args *args,
					    unsigned int i, unsigned int d,
					    int64_t k, int64_t n);

extern const struct openreg_engine openreg_pack_engine;

#endif
