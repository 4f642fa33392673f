/* SPDX-License-Identifier: MIT */
/*
 * MATMUL: the engine cuts D into tiles of batches, rows and columns. If k is too long for
 * one slice, it cuts k, too, and a second phase adds up the parts.
 */
#ifndef OPENREG_MATMUL_H
#define OPENREG_MATMUL_H

#include "job/work.h"
#include "kernels/kernels.h"

/* A matrix in VRAM or scratch memory; strides in elements. */
struct openreg_matrix {
	uintptr_t base;
	int64_t batch, row, column;
};

/*
 * A product for oneDNN, D (+)= A B. The elements of a row of D are adjacent;
 * openreg_gemm_is_plain() is true for A and B.
 *
 * - A and B have one dtype, F32 or a half; D has that dtype or F32; sums are in f32
 * - or A has I8 or U8, B I8, and D I32, without accumulate
 */
struct openreg_gemm {
	uint8_t dtype, d_dtype;
	uint8_t b_dtype; /* 0: dtype */
	int64_t batch, m, n, k;
	struct openreg_matrix a, b, d;
	bool packed; /* B is a block of a packed matrix and those after it; batch is 1 */
	bool accumulate;
};

enum openreg_gemm_result {
	OPENREG_GEMM_DONE,
	OPENREG_GEMM_UNSUPPORTED, /* oneDNN has no fast implementation */
	OPENREG_GEMM_FAILED, /* oneDNN failed, or memory is short */
};

/* Can oneDNN read matrices of rows x columns in place? */
bool openreg_gemm_is_plain(const struct openreg_matrix *x, int64_t batch,
			   int64_t rows, int64_t columns);
/* Computes a product by oneDNN. Makes *cache at the first use; its size is bounded. */
enum openreg_gemm_result openreg_gemm_dnnl(struct openreg_primitives **cache,
					   const struct openreg_gemm *gemm);

/* How to compute B: scale * Q + zero; with SCALED_F8 also A: a_scale * A. */
struct openreg_scaled {
	uint8_t how; /* enum openreg_matmul_b */
	uint8_t dtype, zero_dtype, a_dtype; /* of scale, zero and a_scale */
	bool has_zero;
	int64_t group;
	struct openreg_matrix scale, zero, a_scale; /* a row for each group */
};

static inline struct openreg_matrix openreg_transposed(struct openreg_matrix x)
{
	int64_t row = x.row;

	x.row = x.column;
	x.column = row;
	return x;
}

struct openreg_matmul {
	const struct openreg_kernels *kernels;
	uint8_t dtype; /* of C and D */
	uint8_t a_dtype, b_dtype;
	uint8_t type; /* enum openreg_vtype of the sums */
	int64_t esize, width; /* bytes of an element of C and D in memory, in type */
	int64_t a_size, b_size; /* bytes of an element of A and B in memory */
	struct openreg_scaled scaled;
	bool few; /* openreg_gemm_few() runs the tiles */
	int64_t batch, m, n, k;
	struct openreg_matrix a, b, c, d;
	const void *packed; /* B as a packed matrix, or NULL: b is B */
	double alpha, beta;
	bool has_c; /* beta is not 0, so C is read */
	int64_t tile_batch, tile_m, tile_n, tile_k;
	int64_t tiles_batch, tiles_m, tiles_n, tiles_k;
	unsigned char *partial; /* [tiles_k][batch][m][n] of type */
	int64_t sum_rows; /* rows of a slice of the second phase */
};

/* Is D = A B a product of bytes with sums in I32? */
static inline bool openreg_is_mixed(uint8_t d, uint8_t a)
{
	return d == OPENREG_I32 && (a == OPENREG_I8 || a == OPENREG_U8);
}

/* Has A scales, too? */
static inline bool openreg_matmul_scales_a(const struct openreg_matmul *mm)
{
	return mm->scaled.how == OPENREG_MATMUL_SCALED_F8;
}

/* Is it a float8 dtype that can be multiplied? */
static inline bool openreg_is_factor(unsigned int dtype)
{
	return openreg_dtype_is_float8(dtype) && dtype != OPENREG_F8E8M0FNU;
}

static inline bool openreg_matmul_is_mixed(const struct openreg_matmul *mm)
{
	return openreg_is_mixed(mm->dtype, mm->a_dtype);
}

/* The card's own kernel for the product. */
static inline const struct openreg_gemm_kernel *
openreg_matmul_kernel(const struct openreg_matmul *mm)
{
	return openreg_matmul_is_mixed(mm) ? &mm->kernels->pairs
					   : &mm->kernels->gemm[mm->type];
}

/* The first element of a tile and its sizes. */
struct openreg_matmul_tile {
	int64_t batch0, m0, n0, k0;
	int64_t batch, m, n, k;
};

/* The product of a tile: rows of adjacent elements of the type. */
struct openreg_product {
	unsigned char *data;
	int64_t batch, row; /* elements */
};

/* Memory of `scratch` for the product, after openreg_matmul_spare() bytes. */
bool openreg_product_place(const struct openreg_matmul *mm,
			   const struct openreg_matmul_tile *tile,
			   struct openreg_product *product,
			   struct openreg_scratch *scratch, size_t more);

struct openreg_verdict openreg_matmul_check(struct openreg_args *args);
/* Sets shapes, operands and tiles. Returns false if the packet has no work. */
bool openreg_matmul_plan(struct openreg_matmul *mm,
			 const struct openreg_args *args);

/* The checks of a packet with scales that MATMUL's others do not make. */
struct openreg_verdict openreg_matmul_check_scaled(struct openreg_args *args);
bool openreg_matmul_scaled_dtype(const struct openreg_args *args, unsigned int op);
/* Sets mm->scaled. */
void openreg_matmul_plan_scaled(struct openreg_matmul *mm,
				const struct openreg_args *args);
/* Is openreg_gemm_few() made for so few rows? Ask when m is final. */
bool openreg_matmul_is_few(const struct openreg_matmul *mm);
/* Computes B[k0 .. k0 + k, n] in f32. */
void openreg_matmul_unscale(const struct openreg_matmul *mm, float *to, int64_t batch,
			    int64_t n, int64_t k0, int64_t k);
/* Computes A[m, k0 .. k0 + k] in f32 if openreg_matmul_scales_a(). */
void openreg_matmul_unscale_a(const struct openreg_matmul *mm, float *to, int64_t batch,
			      int64_t m, int64_t k0, int64_t k);

/*
 * Computes a tile by the card's kernels, for any layout and type. The product is in
 * memory of `scratch`, after openreg_matmul_spare() bytes.
 */
bool openreg_gemm_own(const struct openreg_matmul *mm,
		      const struct openreg_matmul_tile *tile,
		      struct openreg_product *product,
		      struct openreg_scratch *scratch);
/*
 * Computes a tile of f32, halves or float8 by oneDNN. product->data: where to store the product;
 * NULL: in memory of `scratch`, as openreg_gemm_own() does.
 */
enum openreg_gemm_result
openreg_gemm_fast(const struct openreg_matmul *mm,
		  const struct openreg_matmul_tile *tile,
		  struct openreg_product *product, bool accumulate,
		  struct openreg_scratch *scratch);
/* Is this a shape that oneDNN computes wrongly without packing? */
bool openreg_gemm_has_lone_rows(const struct openreg_matmul *mm,
				const struct openreg_matmul_tile *t);
/*
 * Computes a tile of halves, or of f32 with a packed B, by oneDNN, without packing.
 * product->data, if not NULL, holds elements of the dtype if in_place, else f32. Returns
 * UNSUPPORTED where openreg_gemm_fast() is faster.
 */
enum openreg_gemm_result
openreg_gemm_halves(const struct openreg_matmul *mm,
		    const struct openreg_matmul_tile *tile,
		    struct openreg_product *product, bool in_place,
		    struct openreg_scratch *scratch);
/*
 * Computes a tile of a few rows with scales. Reads Q once, and B never is in memory. The
 * product is in memory of `scratch`, as that of openreg_gemm_own().
 */
bool openreg_gemm_few(const struct openreg_matmul *mm,
		      const struct openreg_matmul_tile *tile,
		      struct openreg_product *product,
		      struct openreg_scratch *scratch);
/* Computes a tile of bytes by oneDNN, if this host has instructions for them. */
enum openreg_gemm_result
openreg_gemm_bytes(const struct openreg_matmul *mm,
		   const struct openreg_matmul_tile *tile,
		   struct openreg_product *product,
		   struct openreg_scratch *scratch);
/*
 * Packs lines of x, which lie along rows, for openreg_kernels.pairs: blocks of `width`
 * lines, with zeros behind the last line and behind an odd k.
 */
void openreg_pairs_pack(int16_t *to, uint8_t dtype, const struct openreg_matrix *x,
			int64_t lines, int64_t width, int64_t k);
/*
 * Computes a tile with a packed B by the card's kernels. tile->k0 is even. product->data as in
 * openreg_gemm_fast().
 */
bool openreg_gemm_packed(const struct openreg_matmul *mm,
			 const struct openreg_matmul_tile *tile,
			 struct openreg_product *product,
			 struct openreg_scratch *scratch);
/* Does this host have instructions for bytes? */
bool openreg_gemm_has_bytes(void);
/* How many times as fast as f32 does this host multiply such halves? 1: no faster. */
unsigned int openreg_gemm_unit_speed(unsigned int dtype);

static inline bool openreg_gemm_has_unit(unsigned int dtype)
{
	return openreg_gemm_unit_speed(dtype) > 1;
}

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

/* A call finishes about this many elements, of one long row or of several short ones. */
#define OPENREG_FINISH_MIN 1024

/* Bytes before a product in scratch memory; they hold rows of C. */
static inline size_t openreg_matmul_spare(const struct openreg_matmul *mm)
{
	int64_t n = mm->tile_n > OPENREG_FINISH_MIN ? mm->tile_n
						    : OPENREG_FINISH_MIN;

	return (size_t)openreg_round_up(n * mm->width, 64);
}

/* Makes oneDNN's static data; see openreg_engine_init(). */
void openreg_gemm_init(void);

extern const struct openreg_engine openreg_matmul_engine;

#endif
