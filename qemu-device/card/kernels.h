/* SPDX-License-Identifier: MIT */
/*
 * The inner loops, built once for each level of instruction set. All levels
 * give the same bits.
 */
#ifndef OPENREG_KERNELS_H
#define OPENREG_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openreg_isa.h"

/* n elements; dst may be one of the sources only if no wider than it. */
typedef void openreg_kernel(void *dst, const void *a, const void *b,
			    const void *c, size_t n);
/* Memory to register; stride in elements. */
typedef void openreg_load_fn(void *dst, const void *src, int64_t stride,
			     size_t n);
typedef void openreg_store_fn(void *dst, int64_t stride, const void *src,
			      size_t n);

/* Which stream of random words. */
struct openreg_philox {
	uint64_t key, counter;
};

/* Elements first, first + stride ... of a stream, n of them. */
typedef void openreg_random_fn(void *dst, struct openreg_philox from,
			       uint64_t first, int64_t stride, size_t n);

/* What a reduction folds into: f for F types, i for I types. */
union openreg_acc {
	double f;
	int64_t i;
};

/* Folds n elements of a register into one accumulator. */
typedef void openreg_fold_fn(union openreg_acc *acc, const void *src, size_t n);
/* Folds element i of a register into accumulator i. */
typedef void openreg_accumulate_fn(union openreg_acc *acc, const void *src,
				   size_t n);
/* The same, and index[i] = position where element i wins. */
typedef void openreg_accumulate_index_fn(union openreg_acc *acc,
					 int64_t *index, const void *src,
					 int64_t position, size_t n);
/* First i with src[i] == value, or NaN if value is; n if there is none. */
typedef size_t openreg_find_fn(union openreg_acc value, const void *src,
			       size_t n);

/*
 * out (rows x columns, ld elements apart) = or += panels of A and B over k.
 * Everything is aligned to 64 bytes, ld a multiple of columns.
 */
typedef void openreg_gemm_fn(void *out, size_t ld, const void *a,
			     const void *b, size_t k, bool accumulate);
/* p = alpha * p + beta * c; c may be NULL. Integers take both toward zero. */
typedef void openreg_axpby_fn(void *p, const void *c, double alpha,
			      double beta, size_t n);

struct openreg_gemm_kernel {
	openreg_gemm_fn *block;
	openreg_axpby_fn *axpby;
	unsigned int rows, columns; /* of a block */
};

/*
 * lines x width elements at dst, densely. Element j of line i is at
 * src[at[i] + index[j]], counted in elements, or 0 without bit j of mask[i].
 * width is at most OPENREG_GATHER_WIDTH, and index has that many.
 */
typedef void openreg_gather_fn(void *dst, size_t width, uintptr_t src,
			       const int64_t *at, const uint32_t *mask,
			       const int64_t *index, size_t lines);
#define OPENREG_GATHER_WIDTH 32

/*
 * Element i of row r is bias[r], or what out has if there is none, and the sum of
 * w[step * k + r] * src[at[k] + i] over all lines k. out's rows are ld elements
 * apart.
 */
typedef void openreg_slide_fn(float *out, size_t ld, const float *src,
			      const int64_t *at, const float *w, size_t step,
			      const float *bias, size_t lines);
/*
 * sums[r * to_ld + k] += the sum of y[r * ld + i] * x[at[k] + i] over i < n,
 * which is rounded up to whole vectors.
 */
typedef void openreg_slide_dot_fn(float *sums, size_t to_ld, const float *y,
				  size_t ld, const float *x, const int64_t *at,
				  size_t n);

struct openreg_slide_kernel {
	openreg_slide_fn *run;
	openreg_slide_dot_fn *dot; /* NULL: the one before is as good */
	/* Of run: rows and columns. Of dot: rows and lines. */
	unsigned int rows, columns, lines;
};

/*
 * The same where an element is a float of each of OPENREG_LANES lanes, and so
 * are weights, bias and sums: n elements, step floats apart in the source.
 */
#define OPENREG_LANES 16
typedef void openreg_lanes_some_fn(float *out, const float *src, int64_t step,
				   const int64_t *at, const float *w,
				   const float *bias, size_t lines);
typedef void openreg_lanes_fn(float *out, const float *src, int64_t step,
			      const int64_t *at, const float *w,
			      const float *bias, size_t lines, size_t n);
/* Element k of sums += the sum over n elements of y with those of line k. */
typedef void openreg_lanes_dot_fn(float *sums, const float *y, const float *x,
				  int64_t step, const int64_t *at, size_t lines,
				  size_t n);

struct openreg_lanes_kernel {
	openreg_lanes_fn *run;
	openreg_lanes_dot_fn *dot; /* lines are rounded up to whole blocks */
	/* n elements from and to rows, one a lane, ld apart. */
	void (*from_rows)(float *to, const float *from, int64_t ld, size_t n);
	void (*to_rows)(float *to, int64_t ld, const float *from, size_t n);
	unsigned int lines; /* of a block of dot */
};

/*
 * Each element of a block . value[its row]. Rows lie across lines of `width` elements, or
 * there are `rows` of n elements, one after another.
 */
typedef void openreg_by_row_fn(void *block, const double *value,
			       size_t rows_or_width, size_t n_or_lines);
/* value[row] = what the row's elements come to; rows lie one after another. */
typedef void openreg_of_rows_fn(double *value, const void *block, size_t rows,
				size_t n);
#define OPENREG_SOFTMAX_WIDTH 256

/*
 * Element i of line against the greatest before it, and its place at + i * step
 * where it wins.
 */
typedef void openreg_window_max_fn(void *most, int64_t *index,
				   const void *line, int64_t at, int64_t step,
				   size_t n);

/*
 * Scans: each x becomes what its accumulator is after it. MAX and MIN also keep the
 * winner's place in where and, unless that is NULL, in index. Of line: n chains, one
 * element each.
 */
typedef void openreg_scan_line_fn(union openreg_acc *acc, int64_t *where,
				  void *x, int64_t *index, size_t n,
				  int64_t at);
/* Places of row r: first + r * step and on. */
struct openreg_scan_places {
	int64_t first, step;
};
/* Rows of n elements, ld apart, a chain each. */
typedef void openreg_scan_rows_fn(union openreg_acc *acc, int64_t *where,
				  void *x, int64_t *index, size_t ld,
				  size_t rows, size_t n,
				  const struct openreg_scan_places *at);

/*
 * How many of n elements are not 0, n below 2^31. found, unless it is NULL, takes their
 * places, of which the first element's is first.
 */
typedef int64_t openreg_places_fn(int64_t *found, const void *x, int64_t first,
				  size_t n);

/* to[j * to_ld + i] = from[i * from_ld + j], of elements of two bytes. */
typedef void openreg_transpose_fn(uint16_t *to, int64_t to_ld, const uint16_t *from,
				  int64_t from_ld, size_t rows, size_t columns);

/*
 * A tile of INDEX: a run of elements at each of the points of a walk, strides in bytes.
 * off is where each point is in the indirect operand; AHEAD more repeat the last.
 */
#define OPENREG_INDEX_AHEAD 16
struct openreg_index_tile {
	char *dst;
	const char *src;
	const int64_t *off; /* bytes */
	int64_t walk, run; /* points */
	int64_t direct; /* the walk's stride in the other operand */
	int64_t dst_run, src_run;
};
typedef void openreg_index_fn(const struct openreg_index_tile *tile);

struct openreg_index_range {
	uint64_t extent;
	uint64_t step; /* bytes, of the indirect operand; modulo 2^64 */
	bool wrap; /* negative indices count from the end */
};
/* n indices, stride bytes apart. */
typedef void openreg_index_read_fn(int64_t *to, uintptr_t from, int64_t stride,
				   size_t n);
/* off[i] = i * stride, modulo 2^64. */
typedef void openreg_index_walk_fn(uint64_t *off, uint64_t stride, size_t n);
/* Adds index * step to off, modulo 2^64; false if an index is outside. */
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
	 * The same, but of a (1), b (2) and c (4) those that are added up are one
	 * element, the same for all. NULL: there is none
	 */
	openreg_kernel *ones[8][OPENREG_V_END][OPENREG_VT_END];
	openreg_kernel *cvt[OPENREG_VT_END][OPENREG_VT_END]; /* [from][to] */
	openreg_kernel *round[OPENREG_DTYPE_END]; /* F16, BF16 */
	openreg_load_fn *index; /* src is the value, stride its step */
	openreg_random_fn *random[OPENREG_VT_END]; /* I types */
	openreg_fold_fn *fold[OPENREG_REDUCTIONS][OPENREG_VT_END];
	openreg_accumulate_fn *accumulate[OPENREG_REDUCTIONS][OPENREG_VT_END];
	openreg_accumulate_index_fn
		*accumulate_index[OPENREG_REDUCTIONS][OPENREG_VT_END];
	openreg_find_fn *find[OPENREG_VT_END];
	openreg_gather_fn *gather[4]; /* elements of 1, 2, 4, 8 bytes */
	struct openreg_gemm_kernel gemm[OPENREG_VT_END];
	struct openreg_slide_kernel slide[3]; /* for 1 row, some, many */
	struct openreg_lanes_kernel lanes;
	/* [rows lie one after another], F types */
	openreg_by_row_fn *subtract[2][OPENREG_VT_END];
	openreg_by_row_fn *multiply[2][OPENREG_VT_END];
	openreg_of_rows_fn *most_of_rows[OPENREG_VT_END]; /* NaN above all */
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
	OPENREG_ISA_BASE, /* whatever the compiler's default is */
	OPENREG_ISA_V3, /* x86-64-v3: AVX2, FMA */
	OPENREG_ISA_V4, /* x86-64-v4: AVX-512 F, BW, CD, DQ, VL */
	OPENREG_ISA_LEVELS
};

/* NULL if this host lacks it. */
const struct openreg_kernels *openreg_kernels_at(enum openreg_isa_level level);
/* The best that this host has. */
const struct openreg_kernels *openreg_kernels(void);

extern const struct openreg_kernels openreg_kernels_base;
extern const struct openreg_kernels openreg_kernels_v3;
extern const struct openreg_kernels openreg_kernels_v4;

#endif
