// SPDX-License-Identifier: MIT
/* MATMUL: checks a packet and cuts its work into tiles. */
#include <string.h>

#include "packed.h"

#define RESULTS_MAX (1ULL << 36)

enum { D, A, B, C };

/* Bit i: the operand has dimension i of [b, m, n, k]. */
static const uint8_t operand_dims[] = { [D] = 0x7, [A] = 0xb, [B] = 0xd,
					[C] = 0x7 };
#define SCALED_DIMS 0xd /* of scale and zero */
#define SCALED_A_DIMS 0xb

static double imm(const struct openreg_args *args, unsigned int i)
{
	double f;

	memcpy(&f, &args->imm[i], sizeof(f));
	return f;
}

static bool is_scaled(const struct openreg_args *args)
{
	return args->arg[0] != OPENREG_MATMUL_B;
}

static uint8_t dims_of(const struct openreg_args *args, unsigned int i)
{
	if (!is_scaled(args) || i < C)
		return operand_dims[i];
	return args->arg[0] == OPENREG_MATMUL_SCALED_F8 && i == C ? SCALED_A_DIMS
								  : SCALED_DIMS;
}

/* Are there as many operands and immediates as this kind has? */
static bool has_counts(const struct openreg_args *args)
{
	unsigned int least = 3, most = 4;

	if (is_scaled(args)) {
		least = args->arg[0] == OPENREG_MATMUL_SCALED_F8 ? 5 : 4;
		most = 5;
	}
	return args->nops >= least && args->nops <= most &&
	       args->nimm == (is_scaled(args) ? 3 : 2) && !args->ninstr;
}

static bool fits(const struct openreg_args *args, unsigned int i)
{
	unsigned int dtype = args->op[i].dtype, d = args->op[D].dtype;

	if (is_scaled(args))
		return openreg_matmul_scaled_dtype(args, i);
	if (openreg_is_mixed(d, args->op[A].dtype) && (i == A || i == B))
		return i == A || dtype == OPENREG_I8;
	if ((i == A || i == B) && openreg_is_factor(args->op[A].dtype))
		return openreg_is_factor(dtype) && openreg_dtype_is_float(d) &&
		       d != OPENREG_F64;
	return openreg_dtype_is_common(dtype) && dtype != OPENREG_BOOL &&
	       dtype == d;
}

static struct openreg_verdict check_dtype(const struct openreg_args *args,
					  unsigned int i)
{
	if (!fits(args, i))
		return openreg_bad(OPENREG_FAULT_DTYPE, i, args->op[i].dtype);
	return openreg_good();
}

static struct openreg_verdict check_strides(const struct openreg_args *args,
					    unsigned int i)
{
	const struct openreg_arg *op = &args->op[i];
	uint8_t dims = dims_of(args, i);
	unsigned int d;

	for (d = 0; d < 4; d++) {
		if (!(dims >> d & 1) && op->stride[d] != 0)
			return openreg_bad(OPENREG_FAULT_SHAPE, i, d);
		if (i == D && dims >> d & 1 && args->size[d] > 1 &&
		    op->stride[d] == 0)
			return openreg_bad(OPENREG_FAULT_SHAPE, i, d);
	}
	return openreg_good();
}

/* With k = 0 the core counts no work, but the packet still stores results. */
static uint64_t count_results(const struct openreg_args *args)
{
	uint64_t n;

	if (__builtin_mul_overflow((uint64_t)args->size[0],
				   (uint64_t)args->size[1], &n) ||
	    __builtin_mul_overflow(n, (uint64_t)args->size[2], &n))
		return UINT64_MAX;
	return n;
}

static bool is_packed(const struct openreg_args *args)
{
	return args->arg[3] & OPENREG_MATMUL_PACKED_B;
}

static struct openreg_verdict check_shape(struct openreg_args *args,
					  unsigned int i)
{
	if (i == B && is_packed(args))
		return openreg_packed_check(args, B, 2, args->size[3],
					    args->size[2]);
	args->op[i].dims = dims_of(args, i);
	return check_strides(args, i);
}

struct openreg_verdict openreg_matmul_check(struct openreg_args *args)
{
	unsigned int i;
	struct openreg_verdict v;

	if (args->ndim != 4)
		return openreg_bad(OPENREG_FAULT_SHAPE, OPENREG_NO_OPERAND,
				   args->ndim);
	if (!has_counts(args))
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND,
				   args->nops);
	if (args->arg[0] >= OPENREG_MATMUL_END || args->arg[1] || args->arg[2] ||
	    args->arg[3] & ~OPENREG_MATMUL_PACKED_B ||
	    (is_scaled(args) && is_packed(args)))
		return openreg_bad(OPENREG_FAULT_PACKET, OPENREG_NO_OPERAND, 0);
	if (args->size[3] == 0 && count_results(args) > RESULTS_MAX)
		return openreg_bad(OPENREG_FAULT_LIMIT, OPENREG_NO_OPERAND,
				   count_results(args));
	/* A beta other than 0 needs C. */
	if ((args->nops == 3 || is_scaled(args)) && imm(args, 1) != 0)
		return openreg_bad(OPENREG_FAULT_PACKET, C, args->imm[1]);
	for (i = 0; i < args->nops; i++) {
		v = check_dtype(args, i);
		if (!v.code)
			v = check_shape(args, i);
		if (v.code)
			return v;
		args->op[i].written = i == D;
		args->op[i].read = i == A || i == B ||
				   (i >= C && is_scaled(args)) ||
				   (i == C && imm(args, 1) != 0);
	}
	return is_scaled(args) ? openreg_matmul_check_scaled(args)
			       : openreg_good();
}

static struct openreg_matrix matrix(const struct openreg_args *args,
				    unsigned int op, unsigned int row,
				    unsigned int column)
{
	const struct openreg_arg *x = &args->op[op];

	return (struct openreg_matrix){
		.base = (uintptr_t)x->ptr,
		.batch = x->stride[0],
		.row = x->stride[row],
		.column = x->stride[column],
	};
}

/* Computes D^T = B^T A^T instead, for a D with row stride 1. */
static void transpose(struct openreg_matmul *mm)
{
	struct openreg_matrix a = mm->a;
	uint8_t dtype = mm->a_dtype;
	int64_t m = mm->m;

	mm->m = mm->n;
	mm->n = m;
	mm->a = openreg_transposed(mm->b);
	mm->b = openreg_transposed(a);
	mm->a_dtype = mm->b_dtype;
	mm->b_dtype = dtype;
	mm->c = openreg_transposed(mm->c);
	mm->d = openreg_transposed(mm->d);
}

/* Do the batches follow each other? With k = 0 strides of A can have any value. */
static bool follows(const struct openreg_matmul *mm,
		    const struct openreg_matrix *x)
{
	return (__int128)mm->m * x->row == x->batch;
}

/* Batches that share B and follow each other become rows of one product. */
static void fold_batch(struct openreg_matmul *mm)
{
	if (mm->batch == 1 || openreg_matmul_scales_a(mm) || mm->b.batch != 0 ||
	    mm->scaled.scale.batch != 0 || mm->scaled.zero.batch != 0 || !follows(mm, &mm->a) ||
	    !follows(mm, &mm->d) || (mm->has_c && !follows(mm, &mm->c)))
		return;
	mm->m *= mm->batch;
	mm->batch = 1;
}

/* ns of a product of bytes: with instructions for it, and by 16-bit numbers */
#define BYTES_MAC 0.006
#define PAIRS_MAC 0.012

static bool has_unit(const struct openreg_matmul *mm)
{
	return mm->a_dtype == OPENREG_BF16 && !mm->scaled.how &&
	       openreg_gemm_has_unit(OPENREG_BF16);
}

/* Estimated time of a tile on slower hosts, in ns. */
static double tile_cost(const struct openreg_matmul *mm, int64_t m, int64_t n,
			int64_t k)
{
	static const double mac[OPENREG_VT_END] = { 0.012, 0.04, 0.05, 0.2 };
	double memory = (double)(m + n) * (double)k + (double)m * (double)n;
	double each = mac[mm->type], ns;

	if (openreg_matmul_is_mixed(mm))
		each = openreg_gemm_has_bytes() ? BYTES_MAC : PAIRS_MAC;
	ns = (double)m * (double)n * (double)k * each +
	     memory * 0.1 * (double)mm->width;
	return has_unit(mm) ? ns / openreg_gemm_unit_speed(OPENREG_BF16) : ns;
}

static int64_t halve(int64_t x)
{
	return openreg_round_up(x / 2, 16);
}

static int64_t min64(int64_t x, int64_t y)
{
	return x < y ? x : y;
}

static int64_t max64(int64_t x, int64_t y)
{
	return x > y ? x : y;
}

/* Each tile packs B once, so tiles are as large as a slice may be. */
#define SLICE_COST (4.4 * OPENREG_SLICE_NS)
#define PARTIAL_MAX ((double)(256 << 20)) /* bytes */

static void cut_k(struct openreg_matmul *mm)
{
	double cost = tile_cost(mm, mm->tile_m, mm->tile_n, mm->k);
	double bytes = (double)mm->batch * (double)mm->m * (double)mm->n *
		       (double)mm->width;
	double pieces = cost / SLICE_COST;

	mm->tile_k = mm->k;
	if (pieces < 2)
		return;
	if (pieces * bytes > PARTIAL_MAX)
		pieces = PARTIAL_MAX / bytes;
	if (pieces < 2)
		return;
	mm->tile_k = openreg_round_up((int64_t)((double)mm->k / pieces), 64);
}

#define PRODUCT_NS 100.0 /* fixed cost of each product in a batch */

/* Puts several whole products of the batch into a tile. */
static void cut_batch(struct openreg_matmul *mm)
{
	const struct openreg_gemm_kernel *kernel = openreg_matmul_kernel(mm);
	int64_t m = mm->tile_m, n = mm->tile_n, volume;
	double ns;

	mm->tile_batch = 1;
	if (m != mm->m || n != mm->n || mm->tile_k != mm->k || mm->packed)
		return;
	/* The card's own loop stores and computes whole blocks. */
	if (mm->type != OPENREG_VT_F32) {
		m = openreg_round_up(m, kernel->rows);
		n = openreg_round_up(n, kernel->columns);
	}
	volume = max64(m * n, (m + n) * mm->k / 4);
	mm->tile_batch = min64(mm->batch, max64(1, 65536 / volume));
	ns = tile_cost(mm, m, n, mm->k) + PRODUCT_NS;
	mm->tile_batch = min64(mm->tile_batch,
			       max64(1, (int64_t)(OPENREG_SLICE_NS / ns)));
}

#define TALL_TILES_MIN 8

/*
 * On the unit, packing takes about as long as multiplying. Tall tiles pack B less often,
 * but a small result then has too few tiles for many workers. The real number of workers
 * does not count, because results must not depend on it.
 */
static int64_t least_rows(const struct openreg_matmul *mm)
{
	double tall = (double)((mm->m + 1023) / 1024) *
		      (double)((mm->n + 511) / 512) * (double)mm->batch;

	if (!has_unit(mm))
		return 256;
	return tall < TALL_TILES_MIN ? 512 : 1024;
}

#define FEW_NS 0.02 /* of a product with scales, and of a third of its memory */

#define TILES_MIN 4 /* tiles of a product that costs more than so many TILE_COST */
#define TILE_COST (2 * OPENREG_SHARE_NS)

/*
 * The highest cost of a tile. A smaller product gets several tiles, too. It gets one if
 * more would make lines of a matrix short, or if the host has a unit for bf16, where
 * packing takes as long as multiplying.
 */
static double most_cost(const struct openreg_matmul *mm)
{
	double total = tile_cost(mm, mm->m, mm->n, mm->k) * (double)mm->batch;
	double most = total / TILES_MIN;

	if (has_unit(mm) || mm->m == 1 || (mm->n == 1 && mm->a.column != 1))
		return SLICE_COST;
	if (most < TILE_COST)
		most = TILE_COST;
	return most < SLICE_COST ? most : SLICE_COST;
}

/* Memory limits the speed of a few rows, so even a small product gets several tiles. */
static void cut_few(struct openreg_matmul *mm, int64_t columns)
{
	double column = (double)mm->k * FEW_NS * (3 + (double)mm->m);
	double tile = openreg_slice_ns((double)(mm->n * mm->batch) * column);

	mm->tile_batch = 1;
	mm->tile_m = mm->m;
	mm->tile_k = mm->k;
	mm->tile_n = min64(mm->n, openreg_round_up((int64_t)(tile / column) + 1,
						   columns));
}

#define PACKED_FEW 16 /* rows */
#define PACKED_FEW_MAX (1 << 18) /* elements of these rows */

static bool is_packed_few(const struct openreg_matmul *mm)
{
	return mm->packed && mm->batch == 1 && mm->m <= PACKED_FEW && mm->k > 0 &&
	       mm->k <= PACKED_FEW_MAX / mm->m;
}

static void cut_blocks(struct openreg_matmul *mm)
{
	int64_t *m = &mm->tile_m, *n = &mm->tile_n;
	int64_t least = least_rows(mm);
	double most = most_cost(mm);

	*m = min64(mm->m, max64(least, min64(1024, 65536 / mm->n)));
	*n = min64(mm->n, max64(512, 65536 / *m));
	/*
	 * Keeps tiles wide: with rows of 512 elements oneDNN reaches 0.9 of its
	 * speed for whole matrices, with 256 only 0.65.
	 */
	while (tile_cost(mm, *m, *n, mm->k) > most &&
	       (*m > 64 || *n > 64)) {
		if (*m > 64 && *m * 4 >= *n)
			*m = halve(*m);
		else
			*n = halve(*n);
	}
	if (mm->packed) /* a tile begins with a block */
		*n = min64(mm->n, openreg_round_up(*n, OPENREG_PACKED_COLUMNS));
	cut_k(mm);
	cut_batch(mm);
}

static void cut(struct openreg_matmul *mm)
{
	if (mm->few)
		cut_few(mm, OPENREG_DOTS_COLUMNS);
	else if (is_packed_few(mm))
		cut_few(mm, OPENREG_PACKED_COLUMNS);
	else
		cut_blocks(mm);
	mm->tiles_batch = (mm->batch + mm->tile_batch - 1) / mm->tile_batch;
	mm->tiles_m = (mm->m + mm->tile_m - 1) / mm->tile_m;
	mm->tiles_n = (mm->n + mm->tile_n - 1) / mm->tile_n;
	mm->tiles_k = mm->k ? (mm->k + mm->tile_k - 1) / mm->tile_k : 1;
}

bool openreg_matmul_plan(struct openreg_matmul *mm,
			 const struct openreg_args *args)
{
	mm->kernels = openreg_kernels();
	mm->dtype = args->op[D].dtype;
	mm->type = openreg_dtype_register(mm->dtype);
	mm->esize = openreg_dtype_size(mm->dtype);
	mm->a_dtype = args->op[A].dtype;
	mm->b_dtype = args->op[B].dtype;
	mm->a_size = openreg_dtype_size(mm->a_dtype);
	mm->b_size = openreg_dtype_size(mm->b_dtype);
	mm->width = mm->type == OPENREG_VT_F64 || mm->type == OPENREG_VT_I64
			    ? 8
			    : 4;
	mm->batch = args->size[0];
	mm->m = args->size[1];
	mm->n = args->size[2];
	mm->k = args->size[3];
	if (!mm->batch || !mm->m || !mm->n)
		return false;
	mm->alpha = imm(args, 0);
	mm->beta = imm(args, 1);
	mm->has_c = mm->beta != 0;
	mm->a = matrix(args, A, 1, 3);
	mm->b = matrix(args, B, 3, 2);
	mm->d = matrix(args, D, 1, 2);
	mm->c = mm->has_c ? matrix(args, C, 1, 2) : (struct openreg_matrix){ 0 };
	mm->packed = is_packed(args) ? args->op[B].ptr : NULL;
	mm->partial = NULL;
	openreg_matmul_plan_scaled(mm, args);
	/* oneDNN multiplies U8 by I8, not I8 by U8. */
	if (!mm->packed && !mm->scaled.how && mm->d.column != 1 && mm->d.row == 1 &&
	    (!openreg_matmul_is_mixed(mm) || mm->a_dtype == mm->b_dtype))
		transpose(mm);
	fold_batch(mm);
	mm->few = openreg_matmul_is_few(mm);
	cut(mm);
	return true;
}
