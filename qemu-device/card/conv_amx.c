// SPDX-License-Identifier: MIT
/*
 * CONV of floats on a matrix unit for bf16. The engine splits the source of a block of
 * the reduction once, as lines of 32 channels of a position. Then it picks the taps of
 * all positions from these lines. It gives a tile up at the first number that the unit
 * would not treat as f32 does.
 */
#include <string.h>

#include "conv_amx.h"

#define SUMS (PANEL * PANEL)
#define SIDE_MAX (1 << 12)
#define SUM_MIN 256 /* products of a weight; with fewer, packing takes most of the time */
#define SPAN_MAX (4 * OPENREG_CONV_COLUMNS_MAX) /* with more lines, few taps meet each */

_Static_assert(STEP == PANEL && OPENREG_CONV_BLOCK % STEP == 0,
	       "channels and positions take turns");

int64_t openreg_conv_amx_channels(const struct openreg_conv *cv)
{
	int64_t most = openreg_conv_is_gather(cv) ? 4 : STEPS;
	int64_t volume = openreg_window_volume(cv->w.kernel);

	return STEP * openreg_least(STEPS / volume, most);
}

/* Is at most a quarter of the steps or panels padding? */
static bool fills(int64_t x)
{
	return x * 4 >= openreg_div_up(x, PANEL) * PANEL * 3;
}

static bool is_small(const struct openreg_conv *cv)
{
	const int64_t *size[] = { cv->w.input, cv->w.stride, cv->w.padding,
				  cv->w.output, cv->w.dilation };
	unsigned int i, d;

	for (i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		for (d = 0; d < 3; d++) {
			if (size[i][d] > SIDE_MAX)
				return false;
		}
	}
	return cv->n <= SIDE_MAX * SIDE_MAX;
}

/* Positions of the source between the first and the last tap of a kernel. */
static int64_t span(const struct openreg_conv *cv)
{
	const int64_t *size = cv->kind == OPENREG_CONV_BACKWARD_DATA ?
				      cv->w.output :
				      cv->w.input;
	int64_t sum = 0;
	unsigned int d;

	for (d = 0; d < 3; d++)
		sum = sum * size[d] +
		      (cv->w.kernel[d] - 1) * cv->w.dilation[d];
	return sum;
}

/* Are there enough products for each packed element? */
static bool is_faster(const struct openreg_conv *cv)
{
	if (openreg_window_volume(cv->w.stride) >
		    openreg_window_volume(cv->w.kernel) ||
	    span(cv) > SPAN_MAX)
		return false;
	if (!openreg_conv_is_gather(cv))
		return cv->n * openreg_window_volume(cv->w.output) >= SUM_MIN;
	return cv->classes == 1 || cv->columns >= SUM_MIN;
}

void openreg_conv_amx_plan(struct openreg_conv *cv)
{
	int64_t volume = openreg_window_volume(cv->w.kernel);

	cv->amx_parts = 0;
	if (cv->type != OPENREG_VT_F32 || volume < 1 || volume > TAPS ||
	    !is_small(cv) || !cv->oc || !cv->ic || !fills(cv->oc) ||
	    !fills(cv->ic) || !is_faster(cv) || !openreg_amx())
		return;
	cv->amx_parts = cv->dtype == OPENREG_BF16  ? 1
			: cv->dtype == OPENREG_F16 ? 2
						   : 3;
}

int64_t openreg_conv_amx_memory(const struct openreg_conv *cv,
				const struct openreg_conv_tile *t)
{
	int64_t rows = openreg_div_up(t->rows, PANEL);
	int64_t columns = openreg_div_up(t->columns, PANEL) + TAPS;

	if (!cv->amx_parts)
		return 0;
	return LINES_MAX + (rows + 1) * STEPS * step_bytes(cv) +
	       (int64_t)PANEL * OPENREG_CONV_BLOCK * 4 +
	       rows * columns * SUMS * 4;
}

static void place(struct amx_tile *s)
{
	int64_t panel = STEPS * step_bytes(s->cv);

	s->line = s->work->amx;
	s->a = s->line + LINES_MAX;
	s->b = s->a + (openreg_conv_is_gather(s->cv) ? 1 : s->m) * panel;
	s->stage = (float *)(s->a +
			     (openreg_div_up(s->t->rows, PANEL) + 1) * panel);
	s->sums = s->stage + PANEL * OPENREG_CONV_BLOCK;
}

static bool can_multiply(const struct amx_tile *s, int64_t k)
{
	return openreg_amx_in_range(&s->range_lines, &s->range_other, k);
}

static float *sums_of(const struct amx_tile *s, int64_t j, int64_t i)
{
	return s->sums + (j * s->m + i) * SUMS;
}

/* Multiplies the panels of A with those of B; `apart`: distance of their sums. */
static void multiply(struct amx_tile *s, float *sums, int64_t apart,
		     int64_t steps, bool accumulate)
{
	bool gather = openreg_conv_is_gather(s->cv);
	int64_t n = gather ? s->n : s->m, panel = steps * step_bytes(s->cv), i;

	s->amx->begin();
	for (i = 0; i < n; i++, sums += apart * SUMS)
		s->amx->block(sums, s->a + (gather ? 0 : i * panel),
			      s->b + (gather ? i * panel : 0), (size_t)steps,
			      s->parts, accumulate, sums + apart * SUMS);
	s->amx->end();
}

/* Tap i of the class as a tap of the kernel. */
static int64_t kernel_tap(const struct amx_tile *s, int64_t i)
{
	int64_t tap[3], at = 0;
	unsigned int d;

	openreg_conv_tap(s->t->axis, i, tap);
	for (d = 0; d < 3; d++)
		at = at * s->cv->w.kernel[d] + s->t->axis[d].tap0 +
		     tap[d] * s->t->axis[d].tap_step;
	return at;
}

static uintptr_t weight(const struct amx_tile *s, int64_t oc, int64_t ic,
			int64_t tap)
{
	const struct openreg_conv_view *w = &s->cv->weight;
	const int64_t *size = s->cv->w.kernel;
	int64_t row = tap / size[2];
	int64_t at = openreg_offset_add(openreg_offset(s->t->g, w->g),
					openreg_offset(oc, w->oc));

	at = openreg_offset_add(at, openreg_offset(ic, w->ic));
	at = openreg_offset_add(at, openreg_offset(row / size[1], w->at[0]));
	at = openreg_offset_add(at, openreg_offset(row % size[1], w->at[1]));
	at = openreg_offset_add(at, openreg_offset(tap % size[2], w->at[2]));
	return w->base + (uintptr_t)openreg_offset(at, s->cv->esize);
}

/* Are the weights of an output channel adjacent floats? */
static bool is_plain(const struct openreg_conv *cv)
{
	const struct openreg_conv_view *w = &cv->weight;
	const int64_t *size = cv->w.kernel;

	return cv->dtype == OPENREG_F32 &&
	       w->ic == openreg_window_volume(size) &&
	       (size[2] == 1 || w->at[2] == 1) &&
	       (size[1] == 1 || w->at[1] == size[2]) &&
	       (size[0] == 1 || w->at[0] == size[1] * size[2]);
}

/* Stages weights as [input channel][tap of the kernel][PANEL output channels]. */
static void stage_weights(struct amx_tile *s, int64_t oc, int64_t ic)
{
	int64_t outs = openreg_least(PANEL, s->cv->oc - oc), i, k;
	int64_t ins = openreg_least(PANEL, s->cv->ic - ic);

	if (outs == PANEL && ins == PANEL && is_plain(s->cv)) {
		s->amx->transpose(s->stage, PANEL,
				  (const float *)weight(s, oc, ic, 0),
				  s->cv->weight.oc, PANEL, PANEL * s->volume);
		return;
	}
	memset(s->stage, 0, (size_t)(PANEL * PANEL * s->volume) * 4);
	for (i = 0; i < ins; i++) {
		for (k = 0; k < s->volume; k++)
			s->cv->kernels->load[s->cv->dtype][OPENREG_VT_F32](
				s->stage + (i * s->volume + k) * PANEL,
				(const void *)weight(s, oc, ic + i, k),
				s->cv->weight.oc, (size_t)outs);
	}
}

static void pack_weights(struct amx_tile *s, int64_t row, int64_t c0,
			 int64_t channels, unsigned char *to)
{
	bool forward = s->cv->kind == OPENREG_CONV_FORWARD;
	int64_t c, k;

	for (c = c0; c < c0 + channels; c += STEP) {
		stage_weights(s, forward ? row : c, forward ? c : row);
		for (k = 0; k < s->taps; k++, to += step_bytes(s->cv))
			s->amx->split(to, s->stage + s->tap[k] * PANEL,
				      s->volume * PANEL, !forward, 1, s->parts,
				      OPENREG_AMX_B, &s->range_other);
	}
}

/* Picks panel i of A: positions, by channels and taps. */
static void pick_positions(struct amx_tile *s, int64_t i, int64_t channels)
{
	unsigned char *to = s->a;
	int64_t c, k;

	for (c = 0; c < channels; c += STEP) {
		for (k = 0; k < s->taps; k++, to += step_bytes(s->cv))
			s->amx->pick_rows(to, openreg_conv_lines(s, c),
					  s->work->points.base + i * PANEL,
					  s->shift[k] - s->line0, s->mask[k][i],
					  s->parts);
	}
}

/* Runs a block of FORWARD or BACKWARD_DATA. */
static bool gather_block(struct amx_tile *s, int64_t block, bool accumulate)
{
	const struct openreg_conv *cv = s->cv;
	int64_t all = cv->kind == OPENREG_CONV_FORWARD ? cv->ic : cv->oc;
	int64_t c0 = block * cv->block_channels, i;
	int64_t channels = openreg_least(cv->block_channels, all - c0);
	int64_t steps = openreg_div_up(channels, STEP) * s->taps;
	int64_t panel = steps * step_bytes(cv);

	openreg_conv_split_lines(s, c0, channels);
	for (i = 0; i < s->n; i++)
		pack_weights(s, s->t->row0 + i * PANEL, c0, channels,
			     s->b + i * panel);
	if (!can_multiply(s, all * s->taps))
		return false;
	for (i = 0; i < s->m; i++) {
		pick_positions(s, i, channels);
		multiply(s, sums_of(s, 0, i), s->m, steps, accumulate);
	}
	return true;
}

/* Copies the sums from blocks of positions to rows, or adds them to the rows. */
static void gather_end(const struct amx_tile *s, bool accumulate)
{
	openreg_kernel *add = s->cv->kernels->op[OPENREG_V_ADD][OPENREG_VT_F32];
	const float *sums = s->sums;
	int64_t i, j, r;

	for (j = 0; j < s->t->rows; j += PANEL) {
		int64_t rows = openreg_least(PANEL, s->t->rows - j);

		for (i = 0; i < s->t->columns; i += PANEL, sums += SUMS) {
			size_t n =
				(size_t)openreg_least(PANEL, s->t->columns - i);
			float *to = (float *)s->work->out +
				    j * s->work->columns + i;

			s->amx->transpose(s->stage, PANEL, sums, PANEL, PANEL,
					  PANEL);
			for (r = 0; r < rows; r++, to += s->work->columns) {
				if (accumulate)
					add(to, to, s->stage + r * PANEL, to,
					    n);
				else
					memcpy(to, s->stage + r * PANEL, n * 4);
			}
		}
	}
}

static bool gather(struct amx_tile *s, int64_t block, int64_t last,
		   bool accumulate)
{
	const struct openreg_conv *cv = s->cv;
	bool forward = cv->kind == OPENREG_CONV_FORWARD;
	int64_t first = block, k;

	s->source =
		forward ? openreg_conv_plane(&cv->x, cv->w.input, cv->x.ic)
			: openreg_conv_plane(&cv->y, cv->w.output, cv->y.oc);
	s->m = openreg_div_up(s->t->columns, PANEL);
	s->n = openreg_div_up(s->t->rows, PANEL);
	place(s);
	if (!openreg_conv_find_lines(s, s->t->column0, s->t->columns,
				     cv->block_channels))
		return false;
	for (k = 0; k < s->taps; k++)
		s->tap[k] = kernel_tap(s, k);
	for (; block < last; block++) {
		if (!gather_block(s, block, block > first))
			return false;
	}
	gather_end(s, accumulate);
	return true;
}

/* Packs panels of A: rows of y along the positions of y. */
static void pack_rows(struct amx_tile *s, int64_t first, int64_t k)
{
	struct plane y =
		openreg_conv_plane(&s->cv->y, s->cv->w.output, s->cv->y.oc);
	int64_t steps = openreg_div_up(k, STEP), i, r;
	bool run = k % STEP == 0 && openreg_conv_is_run(s, &y, first, k);
	unsigned char *to = s->a;
	struct runs runs;

	openreg_conv_find_runs(&y, first, k, &runs);
	for (i = 0; i < s->t->rows;
	     i += PANEL, to += steps * step_bytes(s->cv)) {
		int64_t rows = openreg_least(PANEL, s->t->rows - i);
		int64_t row = s->t->row0 + i, ld = OPENREG_CONV_BLOCK;
		const float *from = s->stage;

		if (run && rows == PANEL) {
			from = (const float *)(openreg_conv_channel(s, &y,
								    row) +
					       openreg_conv_position(&y,
								     first) *
						       4);
			ld = y.channel;
		} else {
			if (rows < PANEL || k % STEP)
				memset(s->stage, 0,
				       (size_t)PANEL * OPENREG_CONV_BLOCK * 4);
			for (r = 0; r < rows; r++)
				openreg_conv_load_runs(
					s, &y,
					openreg_conv_channel(s, &y, row + r),
					&runs, s->stage + r * ld);
		}
		s->amx->split(to, from, ld, true, (size_t)steps, s->parts,
			      OPENREG_AMX_A, &s->range_other);
	}
}

/* Runs a block of BACKWARD_WEIGHTS. */
static bool weights_block(struct amx_tile *s, int64_t block, int64_t c0,
			  int64_t channels, bool accumulate)
{
	const struct openreg_conv *cv = s->cv;
	int64_t all = cv->n * openreg_window_volume(cv->w.output);
	int64_t first = block * cv->block, c, i, k, j = 0;
	int64_t n = openreg_least(cv->block, all - first);
	int64_t steps = openreg_div_up(n, STEP);

	if (!openreg_conv_find_lines(s, first, n, channels))
		return false;
	openreg_conv_split_lines(s, c0, channels);
	pack_rows(s, first, n);
	if (!can_multiply(s, all))
		return false;
	for (c = 0; c < channels; c += STEP) {
		for (k = 0; k < s->taps; k++, j++) {
			for (i = 0; i < steps; i++)
				s->amx->pick_columns(s->b + i * step_bytes(cv),
						     openreg_conv_lines(s, c),
						     s->work->points.base +
							     i * STEP,
						     s->shift[k] - s->line0,
						     s->mask[k][i], s->parts);
			multiply(s, sums_of(s, j, 0), 1, steps, accumulate);
		}
	}
	return true;
}

static void weights_end(const struct amx_tile *s, int64_t channels)
{
	openreg_store_fn *store =
		s->cv->kernels->store[OPENREG_F32][OPENREG_VT_F32];
	const float *sums = s->sums;
	int64_t c, i, k;

	for (c = 0; c < channels; c += STEP) {
		int64_t n = openreg_least(STEP, channels - c);

		for (k = 0; k < s->taps; k++, sums += s->m * SUMS) {
			float *to = (float *)s->work->out + c * s->volume + k;

			for (i = 0; i < s->t->rows; i++)
				store(to + i * s->work->columns, s->volume,
				      sums + i * PANEL, (size_t)n);
		}
	}
}

static bool weights(struct amx_tile *s, int64_t block, int64_t last)
{
	int64_t c0 = s->t->column0 / s->volume, first = block;
	int64_t channels = s->t->columns / s->volume;

	s->source = openreg_conv_plane(&s->cv->x, s->cv->w.input, s->cv->x.ic);
	s->m = openreg_div_up(s->t->rows, PANEL);
	s->n = openreg_div_up(channels, STEP) * s->taps;
	place(s);
	for (; block < last; block++) {
		if (!weights_block(s, block, c0, channels, block > first))
			return false;
	}
	weights_end(s, channels);
	return true;
}

bool openreg_conv_amx(const struct openreg_conv *cv,
		      const struct openreg_conv_tile *t, int64_t block,
		      int64_t last, bool accumulate,
		      struct openreg_conv_work *work)
{
	struct amx_tile s = { .cv = cv,
			      .t = t,
			      .work = work,
			      .amx = openreg_amx(),
			      .parts = cv->amx_parts,
			      .range_lines = OPENREG_AMX_RANGE,
			      .range_other = OPENREG_AMX_RANGE };

	s.volume = openreg_window_volume(cv->w.kernel);
	s.taps = t->axis[0].taps * t->axis[1].taps * t->axis[2].taps;
	if (!cv->amx_parts || block >= last || !s.taps)
		return false;
	if (!openreg_conv_is_gather(cv))
		return weights(&s, block, last);
	if (gather(&s, block, last, accumulate))
		return true;
	openreg_conv_columns(cv, t, work);
	return false;
}
