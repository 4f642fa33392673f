/* SPDX-License-Identifier: MIT */
/*
 * SORT is a radix sort, least significant digit first, of keys that have the order of the
 * elements. An entry is a key and the position of its element in the row. Entries are in
 * memory that the guest cannot reach. At the end the engine copies the elements by their
 * positions, so that all their bits survive.
 *
 * One slice sorts a short row in scratch memory. A long row is cut into pieces. If the
 * packet wants only a few of the least elements, each piece keeps that many. The entries
 * that are left form a short or a long row again. Long rows take three phases for each
 * digit: count blocks of entries, turn the counts into positions, move the entries there.
 * Rows run in groups, one after the other, which limits their memory.
 */
#ifndef OPENREG_SORT_ENGINE_H
#define OPENREG_SORT_ENGINE_H

#include "job/work.h"

#define OPENREG_SORT_PIECE 16384 /* most elements of a row that one slice sorts */
#define OPENREG_SORT_BLOCK 32768 /* elements that a slice moves */
#define OPENREG_SORT_LINE 512 /* elements that are loaded or stored at a time */
#define OPENREG_SORT_BUCKETS 256
#define OPENREG_SORT_KEEP (OPENREG_SORT_PIECE / 4) /* most elements kept of a piece */

struct openreg_sort;

/* Makes the keys of elements that are `stride` bytes apart: u32, or u64 if wide. */
typedef void openreg_sort_keys_fn(void *keys, const void *from, int64_t stride,
				  int64_t n);
/* Copies the elements at positions `place` of a row to `to`; strides in bytes. */
typedef void openreg_sort_fetch_fn(void *to, int64_t to_stride,
				   const void *row, int64_t stride,
				   const uint32_t *place, int64_t n);

/* The functions for entries of one width. */
struct openreg_sort_kernels {
	size_t entry; /* bytes */
	/* Makes the entries of n elements of a row, from position `first` on. */
	void (*load)(const struct openreg_sort *sort, const void *from,
		     uint32_t first, int64_t n, void *entries);
	/* seen[0]: bits that are 1 in some key, seen[1]: bits that are 0 in some. */
	void (*find_bits)(const void *entries, int64_t n, uint64_t seen[2]);
	/* Returns the buffer of the two that holds the result. */
	void *(*sort)(void *entries, void *other, int64_t n,
		      unsigned int digits);
	/* Makes the sort->keep least entries of n elements, sorted. Returns how many. */
	int64_t (*least)(const struct openreg_sort *sort, const void *from,
			 uint32_t first, int64_t n, void *entries, void *other);
	void (*count)(const void *entries, int64_t n, unsigned int digit,
		      uint32_t *count);
	void (*move)(void *to, const void *entries, int64_t n,
		     unsigned int digit, uint32_t *place);
	void (*places)(uint32_t *place, const void *entries, int64_t n);
};

extern const struct openreg_sort_kernels openreg_sort_narrow;
extern const struct openreg_sort_kernels openreg_sort_wide;

struct openreg_sort_operand {
	uintptr_t base;
	int64_t axis; /* stride along the axis; all strides are in bytes */
	int64_t stride[OPENREG_DIMS_MAX];
};

struct openreg_sort {
	const struct openreg_sort_kernels *kernels;
	openreg_sort_keys_fn *keys;
	openreg_sort_fetch_fn *fetch;
	unsigned int digits; /* of a key, 8 bits each */
	uint64_t flip; /* XOR of keys: all bits set if the order is descending */
	int64_t esize;
	int64_t n, first, count;
	int64_t keep; /* entries kept of a piece; 0: all */
	int64_t room; /* entries that `least` has memory for */
	/* Dimensions of rows, outermost first. */
	unsigned int ndim;
	int64_t size[OPENREG_DIMS_MAX];
	struct openreg_sort_operand source, values, index;
	bool has_index;
	int64_t rows;
	int64_t slice_rows; /* short rows of a slice; 0: rows are long */
	/* For long rows: */
	int64_t piece, pieces; /* elements of a piece, pieces of a row */
	int64_t entries; /* of a row, once it is loaded */
	int64_t blocks; /* of these entries */
	int64_t stores; /* pieces that a row's results are stored in */
	int64_t group; /* rows of a group */
	unsigned int steps; /* phases of a group */
	uint64_t varying; /* bits that differ between keys of a row of this group */
	unsigned char *from, *to; /* [row][entry] */
	uint32_t *counts; /* [row][block][bucket] */
	uint64_t (*seen)[2]; /* [row][piece] */
};

/*
 * The phases of a group: LOAD and FINISH if few entries are left; else LOAD, MERGE, the
 * three steps of each digit, and a last phase that stores the results.
 */
enum openreg_sort_step {
	OPENREG_SORT_LOAD,
	OPENREG_SORT_FINISH, /* sort and store */
	OPENREG_SORT_MERGE = OPENREG_SORT_FINISH, /* merge sort->seen */
	OPENREG_SORT_DIGITS,
};

enum openreg_sort_digit_step {
	OPENREG_SORT_COUNT,
	OPENREG_SORT_SCAN,
	OPENREG_SORT_MOVE,
	OPENREG_SORT_DIGIT_STEPS
};

struct openreg_verdict openreg_sort_check(struct openreg_args *args);
/* Returns false if the packet has no work. */
bool openreg_sort_plan(struct openreg_sort *sort,
		       const struct openreg_args *args);
/* Bytes of job memory for long rows. */
size_t openreg_sort_memory(const struct openreg_sort *sort);
void openreg_sort_place(struct openreg_sort *sort, unsigned char *memory);

openreg_sort_keys_fn *openreg_sort_keys(unsigned int dtype);
openreg_sort_fetch_fn *openreg_sort_fetch(unsigned int esize);

static inline int64_t openreg_sort_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Turns counts into the positions where the buckets begin. */
static inline void openreg_sort_sum(uint32_t *count)
{
	uint32_t before = 0, n;
	unsigned int i;

	for (i = 0; i < OPENREG_SORT_BUCKETS; i++) {
		n = count[i];
		count[i] = before;
		before += n;
	}
}

static inline int64_t openreg_sort_up(int64_t x, int64_t by)
{
	return (x + by - 1) / by;
}

extern const struct openreg_engine openreg_sort_engine;

#endif
