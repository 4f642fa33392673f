/* SPDX-License-Identifier: MIT */
/*
 * MATMUL: D is cut into tiles of batches, rows and columns, and if there is
 * too much k for one slice, k is cut too and a second phase adds up.
 */
#ifndef OPENREG_MATMUL_H
#define OPENREG_MATMUL_H

#include "engine_internal.h"
#include "kernels.h"

/* A matrix in VRAM or scratch memory; strides in elements. */
struct openreg_matrix {
	uintptr_t base;
	int64_t batch, row, column;
};

/*
 * One product, D (+)= A B, whose sums are f32. D's columns are adjacent; A and B
 * lie as gemm_dnnl.c's openreg_gemm_is_plain() wants. A and B have one dtype, F32
 * or a half; D has that, or is F32.
 */
struct openreg_gemm {
	uint8_t dtype, d_dtype;
	int64_t batch, m, n, k;
	struct openreg_matrix a, b, d;
	bool accumulate;
};

enum openreg_gemm_result {
	OPENREG_GEMM_DONE,
	OPENREG_GEMM_UNSUPPORTED, /* the library has no fast way */
	OPENREG_GEMM_FAILED, /* the library or memory failed */
};

/* Can the library read rows x columns as they lie? */
bool openreg_gemm_is_plain(const struct openreg_matrix *x, int64_t batch,
			   int64_t rows, int64_t columns);
/* By oneDNN. *cache is made on first use and bounded. */
enum openreg_gemm_result openreg_gemm_dnnl(struct openreg_primitives **cache,
					   const struct openreg_gemm *gemm);

struct openreg_matmul {
	const struct openreg_kernels *kernels;
	uint8_t dtype;
	uint8_t type; /* enum openreg_vtype it computes in */
	int64_t esize, width; /* bytes in memory, bytes in type */
	int64_t batch, m, n, k;
	struct openreg_matrix a, b, c, d;
	double alpha, beta;
	bool has_c; /* it is read */
	int64_t tile_batch, tile_m, tile_n, tile_k;
	int64_t tiles_batch, tiles_m, tiles_n, tiles_k;
	unsigned char *partial; /* [tiles_k][batch][m][n] of type */
	int64_t sum_rows; /* of a slice of the second phase */
};

/* Where a tile is. */
struct openreg_matmul_tile {
	int64_t batch0, m0, n0, k0;
	int64_t batch, m, n, k;
};

/* A tile's product, anywhere: rows of adjacent elements of the type. */
struct openreg_product {
	unsigned char *data;
	int64_t batch, row; /* elements */
};

struct openreg_verdict openreg_matmul_check(struct openreg_args *args);
/* Shapes, operands and tiles; false if there is nothing to do. */
bool openreg_matmul_plan(struct openreg_matmul *mm,
			 const struct openreg_args *args);

/*
 * By the kernels: any layout and type. The product is in memory of `scratch`,
 * after openreg_matmul_spare() bytes.
 */
bool openreg_gemm_own(const struct openreg_matmul *mm,
		      const struct openreg_matmul_tile *tile,
		      struct openreg_product *product,
		      struct openreg_scratch *scratch);
/*
 * f32 and halves by oneDNN. product->data NULL: as openreg_gemm_own() does;
 * else where the product goes.
 */
enum openreg_gemm_result
openreg_gemm_fast(const struct openreg_matmul *mm,
		  const struct openreg_matmul_tile *tile,
		  struct openreg_product *product, bool accumulate,
		  struct openreg_scratch *scratch);
/* A shape that oneDNN gets wrong as it lies. */
bool openreg_gemm_has_lone_rows(const struct openreg_matmul *mm,
				const struct openreg_matmul_tile *t);
/*
 * Halves by oneDNN, as they lie in memory. product->data, where it is given, is
 * in halves if in_place and in f32 if not. UNSUPPORTED where openreg_gemm_fast()
 * or openreg_gemm_split() is faster.
 */
enum openreg_gemm_result
openreg_gemm_halves(const struct openreg_matmul *mm,
		    const struct openreg_matmul_tile *tile,
		    struct openreg_product *product, bool in_place,
		    struct openreg_scratch *scratch);
/* Does this host multiply such halves faster than f32? Whatever their shape. */
bool openreg_gemm_has_unit(unsigned int dtype);
/*
 * The same on a matrix unit; UNSUPPORTED if there is none, or if it does not
 * pay, or if the numbers are not such that the result is as good as f32's.
 */
enum openreg_gemm_result
openreg_gemm_split(const struct openreg_matmul *mm,
		   const struct openreg_matmul_tile *tile,
		   struct openreg_product *product, bool accumulate,
		   struct openreg_scratch *scratch);

static inline uintptr_t openreg_matrix_at(const struct openreg_matrix *x,
					  int64_t esize, int64_t batch,
					  int64_t row, int64_t column)
{
	int64_t at = batch * x->batch + row * x->row + column * x->column;

	return x->base + (uintptr_t)(at * esize);
}

static inline int64_t openreg_round_up(int64_t x, int64_t to)
{
	return (x + to - 1) / to * to;
}

/* Elements of rows that are finished together, so that short ones take no call each. */
#define OPENREG_FINISH_MIN 1024

/* Bytes before a product in scratch memory, for rows of C. */
static inline size_t openreg_matmul_spare(const struct openreg_matmul *mm)
{
	int64_t n = mm->tile_n > OPENREG_FINISH_MIN ? mm->tile_n
						    : OPENREG_FINISH_MIN;

	return (size_t)openreg_round_up(n * mm->width, 64);
}

#endif
