// SPDX-License-Identifier: MIT
/*
 * MATMUL of floats on a matrix unit for bf16. Packs and multiplies a tile some k at a
 * time. Gives the tile up at the first number that the unit would not treat as f32 does.
 */
#include <string.h>

#include "amx.h"
#include "matmul.h"

#define PANEL OPENREG_AMX_PANEL
#define K_BLOCK 128 /* a panel of B stays in L1, all panels of A in L2 */
#define K_LEAST 64
#define MOST (1 << 13) /* rows plus columns */
#define SUMS ((int64_t)PANEL * PANEL * 4)

struct split {
	const struct openreg_matmul *mm;
	const struct openreg_matmul_tile *tile;
	const struct openreg_amx *amx;
	unsigned int parts;
	int64_t m, n; /* in panels */
	unsigned char *out, *a, *b;
	float *sums; /* [n][m] */
	unsigned char *stage; /* a panel as f32 */
	struct openreg_amx_range range_a, range_b;
};

static unsigned int parts_of(unsigned int dtype)
{
	return dtype == OPENREG_BF16 ? 1 : dtype == OPENREG_F16 ? 2 : 3;
}

/* Packing costs in proportion to m + n; what multiplying saves, to m * n. */
static bool is_faster(const struct split *s, const struct openreg_matmul_tile *t)
{
	int64_t more = s->parts == 3 ? 48 : 24;

	return t->k >= K_LEAST && t->m + t->n <= MOST &&
	       t->m * t->n >= more * (t->m + t->n);
}

static int64_t panel_bytes(const struct split *s)
{
	return K_BLOCK / OPENREG_AMX_STEP * (int64_t)OPENREG_AMX_PART *
	       s->parts;
}

/* Divides the scratch memory. Returns false if memory is short. */
static bool place(struct split *s, bool rows, struct openreg_scratch *scratch)
{
	const struct openreg_matmul_tile *t = s->tile;
	int64_t spare = (int64_t)openreg_matmul_spare(s->mm);
	int64_t out = rows ? openreg_round_up(t->batch * t->m * t->n * 4, 64)
			   : 0;
	int64_t a = s->m * panel_bytes(s), b = s->n * panel_bytes(s);
	int64_t sums = s->m * s->n * SUMS, stage = (int64_t)PANEL * K_BLOCK * 4;
	unsigned char *memory = openreg_scratch_buffer(
		scratch, (size_t)(spare + out + a + b + sums + stage));

	if (!memory)
		return false;
	s->out = memory + spare;
	s->a = s->out + out;
	s->b = s->a + a;
	s->sums = (float *)(s->b + b);
	s->stage = s->b + b + sums;
	return true;
}

/*
 * Copies lines of a matrix to the stage: dense, in f32, with zeros around them. The rows
 * of x are those of the panel, its columns are along k.
 */
static void fill_stage(const struct split *s, const struct openreg_matrix *x,
		       int64_t batch, int64_t row, int64_t rows, int64_t k0,
		       int64_t k, bool along_k)
{
	int64_t lines = along_k ? rows : k, length = along_k ? k : rows, i;
	int64_t ld = along_k ? K_BLOCK : PANEL;
	unsigned char *to = s->stage;

	if (rows < PANEL || k % OPENREG_AMX_STEP)
		memset(to, 0, (size_t)PANEL * K_BLOCK * 4);
	for (i = 0; i < lines; i++, to += ld * 4)
		s->mm->kernels->load[s->mm->dtype][OPENREG_VT_F32](
			to,
			(const void *)openreg_matrix_at(
				x, s->mm->esize, batch,
				row + (along_k ? i : 0), k0 + (along_k ? 0 : i)),
			along_k ? x->column : x->row, (size_t)length);
}

static bool is_lesser(int64_t x, int64_t y)
{
	return (x < 0 ? -(uint64_t)x : (uint64_t)x) <=
	       (y < 0 ? -(uint64_t)y : (uint64_t)y);
}

static void pack(struct split *s, const struct openreg_matrix *x, int64_t batch,
		 int64_t row, int64_t rows, int64_t k0, int64_t k,
		 enum openreg_amx_side side)
{
	size_t steps = (size_t)((k + OPENREG_AMX_STEP - 1) / OPENREG_AMX_STEP);
	bool plain = s->mm->dtype == OPENREG_F32 &&
		     (x->row == 1 || x->column == 1) &&
		     k % OPENREG_AMX_STEP == 0;
	bool along_k = plain ? x->column == 1 : is_lesser(x->column, x->row);
	struct openreg_amx_range *range =
		side == OPENREG_AMX_A ? &s->range_a : &s->range_b;
	unsigned char *to = side == OPENREG_AMX_A ? s->a : s->b;
	int64_t i, left;

	for (i = 0; i < rows; i += PANEL, to += panel_bytes(s)) {
		left = rows - i < PANEL ? rows - i : PANEL;
		if (plain && left == PANEL) {
			s->amx->split(to,
				      (const void *)openreg_matrix_at(
					      x, 4, batch, row + i, k0),
				      along_k ? x->row : x->column, along_k,
				      steps, s->parts, side, range);
			continue;
		}
		fill_stage(s, x, batch, row + i, left, k0, k, along_k);
		s->amx->split(to, s->stage, along_k ? K_BLOCK : PANEL, along_k,
			      steps, s->parts, side, range);
	}
}

static void multiply(const struct split *s, int64_t k, bool accumulate)
{
	size_t steps = (size_t)((k + OPENREG_AMX_STEP - 1) / OPENREG_AMX_STEP);
	float *sums = s->sums;
	int64_t i, j;

	s->amx->begin();
	for (j = 0; j < s->n; j++) {
		for (i = 0; i < s->m; i++, sums += PANEL * PANEL)
			s->amx->block(sums, s->a + i * panel_bytes(s),
				      s->b + j * panel_bytes(s), steps,
				      s->parts, accumulate,
				      sums + PANEL * PANEL);
	}
	s->amx->end();
}

/* Copies or adds the sums from blocks to the rows of the product. */
static void unpack_sums(const struct split *s, const struct openreg_product *p,
			int64_t batch, bool accumulate)
{
	openreg_kernel *add = s->mm->kernels->op[OPENREG_V_ADD][OPENREG_VT_F32];
	const struct openreg_matmul_tile *t = s->tile;
	int64_t r, j, left;

	for (r = 0; r < t->m; r++) {
		unsigned char *to = p->data + (batch * p->batch + r * p->row) * 4;
		const float *from = s->sums + r * PANEL;

		for (j = 0; j < t->n; j += PANEL, to += PANEL * 4) {
			left = t->n - j < PANEL ? t->n - j : PANEL;
			if (accumulate)
				add(to, to, from, to, (size_t)left);
			else
				memcpy(to, from, (size_t)left * 4);
			from += s->m * PANEL * PANEL;
		}
	}
}

/* Returns false if the unit cannot multiply these numbers as f32 does. */
static bool one_product(struct split *s, const struct openreg_product *p,
			int64_t batch, bool accumulate)
{
	const struct openreg_matmul_tile *t = s->tile;
	struct openreg_matrix b = s->mm->b;
	int64_t k0, k, row = b.row;

	b.row = b.column;
	b.column = row;
	s->range_a = OPENREG_AMX_RANGE;
	s->range_b = OPENREG_AMX_RANGE;
	for (k0 = 0; k0 < t->k; k0 += K_BLOCK) {
		k = t->k - k0 < K_BLOCK ? t->k - k0 : K_BLOCK;
		pack(s, &s->mm->a, t->batch0 + batch, t->m0, t->m, t->k0 + k0,
		     k, OPENREG_AMX_A);
		pack(s, &b, t->batch0 + batch, t->n0, t->n, t->k0 + k0, k,
		     OPENREG_AMX_B);
		if (!openreg_amx_in_range(&s->range_a, &s->range_b, t->k))
			return false;
		multiply(s, k, k0 > 0);
	}
	unpack_sums(s, p, batch, accumulate);
	return true;
}

enum openreg_gemm_result
openreg_gemm_split(const struct openreg_matmul *mm,
		   const struct openreg_matmul_tile *t,
		   struct openreg_product *product, bool accumulate,
		   struct openreg_scratch *scratch)
{
	struct split s = { .mm = mm,
			   .tile = t,
			   .amx = openreg_amx(),
			   .parts = parts_of(mm->dtype) };
	struct openreg_product p = *product;
	int64_t batch;

	/* A sum that is already in D cannot be undone, so this must not fail later. */
	if (!s.amx || !is_faster(&s, t) || (accumulate && t->batch > 1))
		return OPENREG_GEMM_UNSUPPORTED;
	s.m = (t->m + PANEL - 1) / PANEL;
	s.n = (t->n + PANEL - 1) / PANEL;
	if (!place(&s, !p.data, scratch))
		return OPENREG_GEMM_FAILED;
	if (!p.data)
		p = (struct openreg_product){ s.out, t->m * t->n, t->n };
	for (batch = 0; batch < t->batch; batch++) {
		if (!one_product(&s, &p, batch, accumulate))
			return OPENREG_GEMM_UNSUPPORTED;
	}
	*product = p;
	return OPENREG_GEMM_DONE;
}
