/* SPDX-License-Identifier: MIT */
/*
 * The inner loops, compiled once for each level of the instruction set. All levels give
 * the same bits.
 */
#ifndef OPENREG_KERNELS_H
#define OPENREG_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openreg_isa.h"

/* n elements; dst may be one of the sources, if its elements are not wider. */
typedef void openreg_kernel(void *dst, const void *a, const void *b,
			    const void *c, size_t n);
/* Loads from memory to a register, or stores back; stride in elements. */
typedef void openreg_load_fn(void *dst, const void *src, int64_t stride,
			     size_t n);
typedef void openreg_store_fn(void *dst, int64_t stride, const void *src,
			      size_t n);

/* Names a stream of random words. */
struct openreg_philox {
	uint64_t key, counter;
};

/* n elements of a stream: first, first + stride, ... */
typedef void openreg_random_fn(void *dst, struct openreg_philox from,
			       uint64_t first, int64_t stride, size_t n);

/* The accumulator of a reduction: f for F types, i for I types. */
union openreg_acc {
	double f;
	int64_t i;
};

/* Folds n elements of a register into one accumulator. */
typedef void openreg_fold_fn(union openreg_acc *acc, const void *src, size_t n);
/* Folds element i of a register into accumulator i. */
typedef void openreg_accumulate_fn(union openreg_acc *acc, const void *src,
				   size_t n);
/* Also sets index[i] = position where element i replaces accumulator i. */
typedef void openreg_accumulate_index_fn(union openreg_acc *acc,
					 int64_t *index, const void *src,
					 int64_t position, size_t n);
/* Returns the first i with src[i] == value (NaN equals NaN here), or n. */
typedef size_t openreg_find_fn(union openreg_acc value, const void *src,
			       size_t n);

/*
 * out (rows x columns, rows ld elements apart) = the product of panels of A and B over k,
 * or += with accumulate. All pointers are aligned to 64 bytes; ld is a multiple of
 * columns.
 */
typedef void openreg_gemm_fn(void *out, size_t ld, const void *a,
			     const void *b, size_t k, bool accumulate);
/* p = alpha * p + beta * c; c may be NULL. Integers round alpha and beta toward zero. */
typedef void openreg_axpby_fn(void *p, const void *c, double alpha,
			      double beta, size_t n);

struct openreg_gemm_kernel {
	openreg_gemm_fn *block;
	openreg_axpby_fn *axpby;
	unsigned int rows, columns; /* of a block */
};

/*
 * out (rows x OPENREG_PACKED_COLUMNS) = rows of A with the first k rows of a block of a
 * packed matrix. Rows of A are ld elements apart, and have a 0 behind an odd k.
 */
#define OPENREG_PACKED_COLUMNS 64
#define OPENREG_PACKED_ROWS 4
typedef void openreg_packed_fn(float *out, const float *a, size_t ld,
			       const void *block, size_t k);

#define OPENREG_DOTS_ROWS 4
#define OPENREG_DOTS_COLUMNS 4

/* Products of rows of A with columns of Q, of which each group has a scale. */
struct openreg_dots {
	/* Rows of k elements. If Q has numbers of 4 bits, the even elements come first. */
	const float *a;
	const uint8_t *q[OPENREG_DOTS_COLUMNS]; /* the bytes of each column */
	const float *scale, *zero; /* [groups][ld]; zero is added to scale * q */
	const float *sums; /* [row][groups] of A; NULL: there is no zero */
	size_t k, groups, ld;
	float out[OPENREG_DOTS_ROWS][OPENREG_DOTS_COLUMNS];
};
typedef void openreg_dots_fn(struct openreg_dots *d);

/*
 * Stores lines x width elements at dst, dense. Element j of line i is
 * src[at[i] + index[j]], counted in elements, or 0 if bit j of mask[i] is 0. width is at
 * most OPENREG_GATHER_WIDTH; index has OPENREG_GATHER_WIDTH entries.
 */
typedef void openreg_gather_fn(void *dst, size_t width, uintptr_t src,
			       const int64_t *at, const uint32_t *mask,
			       const int64_t *index, size_t lines);
#define OPENREG_GATHER_WIDTH 32

/*
 * Element i of row r = bias[r] + the sum of w[step * k + r] * src[at[k] + i] over all
 * lines k. With bias NULL, adds the sum to out. Rows of out are ld elements apart.
 */
typedef void openreg_slide_fn(float *out, size_t ld, const float *src,
			      const int64_t *at, const float *w, size_t step,
			      const float *bias, size_t lines);
/*
 * sums[r * to_ld + k] += the sum of y[r * ld + i] * x[at[k] + i] over i < n. n is
 * rounded up to whole vectors.
 */
typedef void openreg_slide_dot_fn(float *sums, size_t to_ld, const float *y,
				  size_t ld, const float *x, const int64_t *at,
				  size_t n);

struct openreg_slide_kernel {
	openreg_slide_fn *run;
	openreg_slide_dot_fn *dot; /* NULL: use that of the entry before */
	/* The sizes of a block: rows and columns for run, rows and lines for dot. */
	unsigned int rows, columns, lines;
};

/*
 * As openreg_slide_fn, but an element is a float of each of OPENREG_LANES lanes, and so
 * are weights, bias and sums. n elements, step floats apart in the source.
 */
#define OPENREG_LANES 16
typedef void openreg_lanes_some_fn(float *out, const float *src, int64_t step,
				   const int64_t *at, const float *w,
				   const float *bias, size_t lines);
typedef void openreg_lanes_fn(float *out, const float *src, int64_t step,
			      const int64_t *at, const float *w,
			      const float *bias, size_t lines, size_t n);
/* Element k of sums += the sum of n elements of y times those of line k. */
typedef void openreg_lanes_dot_fn(float *sums, const float *y, const float *x,
				  int64_t step, const int64_t *at, size_t lines,
				  size_t n);

struct openreg_lanes_kernel {
	openreg_lanes_fn *run;
	openreg_lanes_dot_fn *dot; /* rounds lines up to whole blocks */
	/* Copies n elements from or to rows, a row for each lane, ld floats apart. */
	void (*from_rows)(float *to, const float *from, int64_t ld, size_t n);
	void (*to_rows)(float *to, int64_t ld, const float *from, size_t n);
	unsigned int lines; /* of a block of dot */
};

/*
 * Combines each element of a block with the value of its row. The block is `lines` lines
 * with an element of each of `width` rows, or `rows` rows of n elements.
 */
typedef void openreg_by_row_fn(void *block, const double *value,
			       size_t rows_or_width, size_t n_or_lines);
/* value[row] = the maximum or the sum of the row; rows follow one another. */
typedef void openreg_of_rows_fn(double *value, const void *block, size_t rows,
				size_t n);
#define OPENREG_SOFTMAX_WIDTH 256

/*
 * Compares element i of line with most[i]. If it is greater, stores it in most[i] and its
 * position, at + i * step, in index[i].
 */
typedef void openreg_window_max_fn(void *most, int64_t *index,
				   const void *line, int64_t at, int64_t step,
				   size_t n);

/*
 * Scans: each element of x becomes the value of its accumulator after the element. MAX
 * and MIN also keep the position of the extreme in where and, unless index is NULL, store
 * it in index. scan_line has n chains with one element each.
 */
typedef void openreg_scan_line_fn(union openreg_acc *acc, int64_t *where,
				  void *x, int64_t *index, size_t n,
				  int64_t at);
/* The positions of row r begin at first + r * step. */
struct openreg_scan_places {
	int64_t first, step;
};
/* Each row of n elements is a chain; rows are ld elements apart. */
typedef void openreg_scan_rows_fn(union openreg_acc *acc, int64_t *where,
				  void *x, int64_t *index, size_t ld,
				  size_t rows, size_t n,
				  const struct openreg_scan_places *at);

/*
 * Returns how many of n elements are not 0; n is below 2^31. Stores their positions in
 * found, unless found is NULL; the position of element 0 is `first`.
 */
typedef int64_t openreg_places_fn(int64_t *found, const void *x, int64_t first,
				  size_t n);

/* to[j * to_ld + i] = from[i * from_ld + j], with elements of two bytes. */
typedef void openreg_transpose_fn(uint16_t *to, int64_t to_ld, const uint16_t *from,
				  int64_t from_ld, size_t rows, size_t columns);

/*
 * A tile of INDEX: a run of elements at each point of a walk; strides are in bytes. off
 * is the offset of each point in the indirect operand. AHEAD further entries repeat
 * the last.
 */
#define OPENREG_INDEX_AHEAD 16
struct openreg_index_tile {
	char *dst;
	const char *src;
	const int64_t *off; /* bytes */
	int64_t walk, run; /* points of the walk, elements of a run */
	int64_t direct; /* stride of the walk in the other operand */
	int64_t dst_run, src_run;
};
typedef void openreg_index_fn(const struct openreg_index_tile *tile);

struct openreg_index_range {
	uint64_t extent;
	uint64_t step; /* bytes in the indirect operand for one index; modulo 2^64 */
	bool wrap; /* negative indices count from the end */
};
/* Copies n indices, which are stride bytes apart. */
typedef void openreg_index_read_fn(int64_t *to, uintptr_t from, int64_t stride,
				   size_t n);
/* off[i] = i * stride, modulo 2^64. */
typedef void openreg_index_walk_fn(uint64_t *off, uint64_t stride, size_t n);
/* Adds index * step to off, modulo 2^64. Returns false if an index is out of range. */
typedef bool openreg_index_offsets_fn(const struct openreg_index_range *range,
				      const int64_t *index, uint64_t *off,
				      size_t n);

#define OPENREG_REDUCTIONS (OPENREG_V_RED_OR - OPENREG_V_RED_SUM + 1)

struct openreg_kernels {
	const char *name;
	openreg_load_fn *load[OPENREG_DTYPE_END][OPENREG_VT_END];
	openreg_store_fn *store[OPENREG_DTYPE_END][OPENREG_VT_END];
	openreg_kernel *op[OPENREG_V_END][OPENREG_VT_END];
	/*
	 * As op, but some sources are a single element for all results. The first
	 * index is the sum of the bits of these sources: a is 1, b 2, c 4. Most
	 * entries are NULL.
	 */
	openreg_kernel *ones[8][OPENREG_V_END][OPENREG_VT_END];
	openreg_kernel *cvt[OPENREG_VT_END][OPENREG_VT_END]; /* [from][to] */
	openreg_kernel *round[OPENREG_DTYPE_END]; /* F16, BF16, float8 */
	openreg_load_fn *index; /* src is the first value, stride the step */
	openreg_random_fn *random[OPENREG_VT_END]; /* I types */
	openreg_fold_fn *fold[OPENREG_REDUCTIONS][OPENREG_VT_END];
	openreg_accumulate_fn *accumulate[OPENREG_REDUCTIONS][OPENREG_VT_END];
	openreg_accumulate_index_fn
		*accumulate_index[OPENREG_REDUCTIONS][OPENREG_VT_END];
	openreg_find_fn *find[OPENREG_VT_END];
	openreg_gather_fn *gather[4]; /* elements of 1, 2, 4, 8 bytes */
	struct openreg_gemm_kernel gemm[OPENREG_VT_END];
	/* As gemm[I32], but panels have pairs of 16-bit numbers along an even k. */
	struct openreg_gemm_kernel pairs;
	/* One row, or OPENREG_PACKED_ROWS; F32, F16 and BF16 */
	openreg_packed_fn *packed[OPENREG_DTYPE_END][2];
	/* Numbers of 8 or 4 bits; one row, or OPENREG_DOTS_ROWS */
	openreg_dots_fn *dots[2][2];
	struct openreg_slide_kernel slide[3]; /* for one row, some rows, many rows */
	struct openreg_lanes_kernel lanes;
	/* Index 1: a row lies along the line; 0: the rows lie side by side. F types only */
	openreg_by_row_fn *subtract[2][OPENREG_VT_END];
	openreg_by_row_fn *multiply[2][OPENREG_VT_END];
	openreg_of_rows_fn *most_of_rows[OPENREG_VT_END]; /* NaN is the greatest */
	openreg_of_rows_fn *sum_of_rows[OPENREG_VT_END];
	openreg_scan_line_fn *scan_line[OPENREG_SCAN_END][OPENREG_VT_END];
	openreg_scan_rows_fn *scan_rows[OPENREG_SCAN_END][OPENREG_VT_END];
	openreg_places_fn *places[OPENREG_VT_END];
	openreg_window_max_fn *window_max[OPENREG_VT_END]; /* F64, I64 */
	openreg_transpose_fn *transpose;
	openreg_index_read_fn *index_read[2]; /* I32, I64 */
	openreg_index_walk_fn *index_walk;
	openreg_index_offsets_fn *index_offsets;
	openreg_index_fn *index_get[4]; /* elements of 1, 2, 4, 8 bytes */
	openreg_index_fn *index_put[4];
	/* [mode - OPENREG_INDEX_ADD] */
	openreg_index_fn *index_combine[OPENREG_DTYPE_END][4];
};

enum openreg_isa_level {
	OPENREG_ISA_BASE, /* the compiler's default */
	OPENREG_ISA_V3, /* x86-64-v3: AVX2, FMA */
	OPENREG_ISA_V4, /* x86-64-v4: AVX-512 F, BW, CD, DQ, VL */
	OPENREG_ISA_LEVELS
};

/* Returns NULL if this host does not have the level. */
const struct openreg_kernels *openreg_kernels_at(enum openreg_isa_level level);
/* Returns the kernels of the highest level that this host has. */
const struct openreg_kernels *openreg_kernels(void);

extern const struct openreg_kernels openreg_kernels_base;
extern const struct openreg_kernels openreg_kernels_v3;
extern const struct openreg_kernels openreg_kernels_v4;

#endif
