/* SPDX-License-Identifier: MIT */
/*
 * SORT by digits, least first, of keys that are in order where the elements
 * are. An entry is a key and the place of its element in the row, and lies in
 * memory that the guest cannot reach; elements are fetched by their places in
 * the end, so that all their bits survive.
 *
 * A short row is sorted by one slice in scratch memory. A long one is cut into
 * pieces. Where few of the least elements are wanted each piece keeps so many,
 * and what is left is a short row again, or a long one. Long rows take phases:
 * for each digit, blocks of entries are counted, the counts become places, and
 * the entries move there. Rows take turns in groups that bound their memory.
 */
#ifndef OPENREG_SORT_ENGINE_H
#define OPENREG_SORT_ENGINE_H

#include "engine_internal.h"

#define OPENREG_SORT_PIECE 16384 /* elements that a slice sorts in a row */
#define OPENREG_SORT_BLOCK 32768 /* elements that a slice moves */
#define OPENREG_SORT_LINE 512 /* elements worked on at a time */
#define OPENREG_SORT_BUCKETS 256
#define OPENREG_SORT_KEEP (OPENREG_SORT_PIECE / 4) /* of a piece, at most */

struct openreg_sort;

/* Keys of elements, which are `stride` bytes apart: u32, or u64 if wide. */
typedef void openreg_sort_keys_fn(void *keys, const void *from, int64_t stride,
				  int64_t n);
/* Elements at places of a row go where they are sorted; strides in bytes. */
typedef void openreg_sort_fetch_fn(void *to, int64_t to_stride,
				   const void *row, int64_t stride,
				   const uint32_t *place, int64_t n);

/* For entries of one width. */
struct openreg_sort_kernels {
	size_t entry; /* bytes */
	/* Of n elements of a row from place `first` on. */
	void (*load)(const struct openreg_sort *sort, const void *from,
		     uint32_t first, int64_t n, void *entries);
	/* Bits that are one in some key, and bits that are zero in some. */
	void (*look)(const void *entries, int64_t n, uint64_t seen[2]);
	/* Returns which of the two holds the result. */
	void *(*sort)(void *entries, void *other, int64_t n,
		      unsigned int digits);
	/* The first sort->keep of what load would give, sorted; how many. */
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
	int64_t axis; /* stride in bytes, and so below */
	int64_t stride[OPENREG_DIMS_MAX];
};

struct openreg_sort {
	const struct openreg_sort_kernels *kernels;
	openreg_sort_keys_fn *keys;
	openreg_sort_fetch_fn *fetch;
	unsigned int digits; /* of a key, 8 bits each */
	uint64_t flip; /* every bit of a key if the order is descending */
	int64_t esize;
	int64_t n, first, count;
	int64_t keep; /* of a piece; 0: all */
	int64_t room; /* for entries of `least` */
	/* Dimensions of rows, outermost first. */
	unsigned int ndim;
	int64_t size[OPENREG_DIMS_MAX];
	struct openreg_sort_operand source, values, index;
	bool has_index;
	int64_t rows;
	int64_t slice_rows; /* short rows of a slice; 0: rows are long */
	/* Long rows. */
	int64_t piece, pieces; /* of a row, as it is loaded */
	int64_t entries; /* of a row, after that */
	int64_t blocks; /* of these */
	int64_t stores; /* blocks of what is stored */
	int64_t group; /* rows */
	unsigned int steps; /* phases that a group takes */
	uint64_t varying; /* bits of the keys of this group */
	unsigned char *from, *to; /* [row][entry] */
	uint32_t *counts; /* [row][block][bucket] */
	uint64_t (*seen)[2]; /* [row][piece] */
};

/* What the phases of a group do. Between the two, three for each digit. */
enum openreg_sort_step {
	OPENREG_SORT_LOAD,
	OPENREG_SORT_FINISH, /* if what is left is short; the last one then */
	OPENREG_SORT_MERGE = OPENREG_SORT_FINISH, /* what was seen */
	OPENREG_SORT_DIGITS,
};

enum openreg_sort_digit_step {
	OPENREG_SORT_COUNT,
	OPENREG_SORT_SCAN,
	OPENREG_SORT_MOVE,
	OPENREG_SORT_DIGIT_STEPS
};

struct openreg_verdict openreg_sort_check(struct openreg_args *args);
/* false: there is nothing to do. */
bool openreg_sort_plan(struct openreg_sort *sort,
		       const struct openreg_args *args);
/* Bytes of job memory that long rows take. */
size_t openreg_sort_memory(const struct openreg_sort *sort);
void openreg_sort_place(struct openreg_sort *sort, unsigned char *memory);

openreg_sort_keys_fn *openreg_sort_keys(unsigned int dtype);
openreg_sort_fetch_fn *openreg_sort_fetch(unsigned int esize);

static inline int64_t openreg_sort_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Counts become the places where the buckets begin. */
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

#endif
