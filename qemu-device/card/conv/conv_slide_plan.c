// SPDX-License-Identifier: MIT
/* CONV as weighted lines: decides whether this is faster, and cuts the work. */
#include "conv_slide.h"

#define LINE_MAX 4096	  /* elements of a line, so that some lines stay in L1 */
#define TILE_MAX (1 << 17) /* elements that a tile packs, at most */
#define LANES_PRODUCTS 32	  /* most weights of a tap in a group */
#define ROWS_MAX 48		  /* BACKWARD_WEIGHTS: beyond this a matrix is faster */
#define TILE_ROWS 128
#define ROWS_FIRST 512 /* tiles with at most so many positions are cut by rows */
#define BLOCK_MAX (1 << 16) /* most elements of the source or of weights in a block */
#define PARTIAL_MAX ((double)(64 << 20)) /* bytes */
#define PART_NS (OPENREG_SLICE_NS / 8)

/* The estimate of a tile; elements are floats. */
struct estimate {
	double longest; /* elements of a line */
	double packed, ns;
};

/* Positions of the largest class, and the elements that taps add to them. */
struct extents {
	int64_t count[4], reach[4], step[4];
	double taps, phases, channels;
};

static bool has_lanes(const struct openreg_conv *cv)
{
	return cv->slide.groups > 1;
}

static void find_extents(const struct openreg_conv *cv, struct extents *e)
{
	bool data = cv->kind == OPENREG_CONV_BACKWARD_DATA;
	struct openreg_conv_axis axis[3];
	unsigned int d;

	openreg_conv_axes(cv, 0, axis);
	*e = (struct extents){ .count = { cv->n }, .step = { 1 }, .taps = 1,
			       .phases = 1,
			       .channels = (double)(data ? cv->oc : cv->ic) };
	for (d = 0; d < 3; d++) {
		int64_t step = axis[d].step;
		int64_t apart = openreg_greatest(axis[d].at_step,
						 -axis[d].at_step);
		int64_t taps = openreg_div_up(cv->w.kernel[d],
					      axis[d].tap_step);
		int64_t phases = has_lanes(cv) ?
					 1 :
					 step / openreg_gcd(step, apart);

		e->count[d + 1] = axis[d].count;
		e->step[d + 1] = has_lanes(cv) ? step : 1;
		e->reach[d + 1] = (taps - 1) * apart / (has_lanes(cv) ? 1 : step);
		e->taps *= (double)taps;
		e->phases *= (double)openreg_least(taps, phases);
	}
}

/* Time of a product in ns, with rows in whole blocks. */
static double mac_ns(double rows, const struct openreg_conv *cv)
{
	const struct openreg_slide_kernel *k = cv->kernels->slide;

	if (rows == 1)
		return 0.03;
	if (rows <= (double)k[1].rows)
		return 0.016 * (double)k[1].rows / rows;
	return 0.0145 * (double)(openreg_div_up((int64_t)rows, k[1].rows) *
				 k[1].rows) / rows;
}

/* Estimated time of a tile on slower hosts, in ns. */
static struct estimate estimate(const struct openreg_conv *cv,
				const struct extents *e, const int64_t tile[4])
{
	bool gather = openreg_conv_is_gather(cv);
	double rows = (double)(gather ? cv->slide.tile_rows : cv->rows);
	double lines = e->taps * e->channels, source = e->phases * e->channels;
	double load = cv->direct ? 0.2 : 0.4, length = 1, points = 1;
	struct estimate is;
	unsigned int d;

	for (d = 0; d < 4; d++) {
		length *= (double)((tile[d] - 1) * e->step[d] + 1 +
				   e->reach[d]);
		points *= (double)tile[d];
	}
	is.longest = length;
	is.packed = length * (gather ? rows : source + rows);
	if (!has_lanes(cv)) {
		is.ns = 500 + rows * lines * 0.5 +
			length * (rows * lines * mac_ns(rows, cv) +
				  (source + rows) * load);
		return is;
	}
	is.longest = (double)tile[3] * OPENREG_LANES;
	is.packed = length * source * OPENREG_LANES;
	is.ns = 500 + rows * lines * 20 +
		points * rows * (lines * 0.25 + OPENREG_LANES * load) +
		is.packed * load;
	return is;
}

/* Time of all products as a matrix, in ns; see tile_cost() in conv_plan.c. */
static double matrix_ns(const struct openreg_conv *cv, const struct extents *e)
{
	double m = (double)(openreg_div_up(cv->rows, cv->gemm->rows) *
			    cv->gemm->rows);
	double pack = cv->direct ? 0.6 : 1.2, lines = e->taps * e->channels;
	double points = (double)e->count[0] * (double)e->count[1] *
			(double)e->count[2] * (double)e->count[3];
	double g = (double)cv->g;

	if (openreg_conv_is_gather(cv))
		return g * points * (lines * (m * 0.016 + pack) + m);
	return g * points * (m * lines * 0.016 + (m + lines) * pack);
}

static bool too_large(const struct estimate *is)
{
	return is->longest > LINE_MAX || is->packed > TILE_MAX;
}

static double count_tiles(const struct extents *e, const int64_t tile[4])
{
	double tiles = 1;
	unsigned int d;

	for (d = 0; d < 4; d++)
		tiles *= (double)openreg_div_up(e->count[d], tile[d]);
	return tiles;
}

/* The outermost dimension that can be cut; 4 if none can. */
static unsigned int outermost(const int64_t tile[4])
{
	unsigned int d = 0;

	while (d < 4 && tile[d] == 1)
		d++;
	return d;
}

/* Groups to compute; as many as there are lanes count as one. */
static double groups(const struct openreg_conv *cv)
{
	return (double)openreg_div_up(cv->g, cv->slide.groups);
}

static double tiles_of_rows(const struct openreg_conv *cv)
{
	return openreg_conv_is_gather(cv) ?
		       (double)openreg_div_up(cv->rows, cv->slide.tile_rows) :
		       1;
}

/* Is the tile too long for a slice, or are there too few units to share? */
static bool too_few(const struct openreg_conv *cv, const struct extents *e,
		    const int64_t tile[4], double ns)
{
	double units = count_tiles(e, tile);

	if (openreg_conv_is_gather(cv))
		units *= groups(cv) * (double)cv->classes * tiles_of_rows(cv);
	return ns > OPENREG_SLICE_NS || (units < 4 && ns > PART_NS);
}

static bool cut_tile(struct openreg_conv *cv, const struct extents *e,
		     int64_t tile[4], struct estimate *is)
{
	unsigned int d;

	for (d = 0; d < 4; d++)
		tile[d] = e->count[d];
	for (;;) {
		*is = estimate(cv, e, tile);
		d = outermost(tile);
		if (!too_large(is) && !too_few(cv, e, tile, is->ns))
			break;
		/* With few positions, cut rows: loading weights would dominate. */
		if (openreg_conv_is_gather(cv) && is->longest <= ROWS_FIRST &&
		    cv->slide.tile_rows >= 4 * OPENREG_LANES &&
		    !has_lanes(cv)) {
			cv->slide.tile_rows = (cv->slide.tile_rows + 31) / 32 *
					      OPENREG_LANES;
			continue;
		}
		if (d == 4)
			return !too_large(is);
		tile[d] = openreg_div_up(tile[d], 2);
	}
	for (d = 0; d < 4; d++)
		tile[d] = openreg_div_up(e->count[d],
					 openreg_div_up(e->count[d], tile[d]));
	*is = estimate(cv, e, tile);
	return true;
}

static bool can(const struct openreg_conv *cv)
{
	unsigned int d;

	if (cv->type != OPENREG_VT_F32 || !cv->blocks || !cv->rows ||
	    !cv->columns ||
	    (!openreg_conv_is_gather(cv) && cv->rows > ROWS_MAX))
		return false;
	for (d = 0; d < 3; d++) {
		if (cv->w.kernel[d] > OPENREG_SLIDE_TAPS)
			return false;
	}
	return true;
}

/* Do most lanes have a group, and do groups have few channels? */
static bool lanes_are_faster(const struct openreg_conv *cv)
{
	int64_t lanes = openreg_div_up(cv->g, OPENREG_LANES) * OPENREG_LANES;

	return cv->g * 2 >= lanes && cv->oc <= LANES_PRODUCTS &&
	       cv->ic <= LANES_PRODUCTS && cv->oc * cv->ic <= LANES_PRODUCTS;
}

static void cut_parts(struct openreg_conv *cv, double ns)
{
	struct openreg_conv_slide *s = &cv->slide;
	double bytes = (double)cv->g * (double)cv->rows * (double)cv->columns * 4;
	double parts = ns * (double)s->all_tiles / PART_NS;

	/* Workers can share groups, too. */
	if (groups(cv) >= 8)
		parts /= 4;
	if (parts * bytes > PARTIAL_MAX)
		parts = PARTIAL_MAX / bytes;
	s->part_tiles = parts < 2 ? s->all_tiles
				  : (int64_t)((double)s->all_tiles / parts) + 1;
	cv->parts = openreg_div_up(s->all_tiles, s->part_tiles);
}

/* Cuts channels into blocks, so that source and weights of a block stay in L2. */
static void cut_channels(struct openreg_conv *cv, const struct extents *e,
			 const struct estimate *is)
{
	struct openreg_conv_slide *s = &cv->slide;
	double rows = (double)(s->tile_rows + OPENREG_LANES);
	double block = BLOCK_MAX / (is->longest * e->phases);

	if (block > BLOCK_MAX / (rows * e->taps))
		block = BLOCK_MAX / (rows * e->taps);
	s->block = block < e->channels ? (int64_t)block + 1
				       : (int64_t)e->channels;
}

void openreg_conv_slide_plan(struct openreg_conv *cv)
{
	struct openreg_conv_slide *s = &cv->slide;
	struct estimate is;
	struct extents e;
	unsigned int d;

	s->on = false;
	if (!can(cv))
		return;
	s->groups = lanes_are_faster(cv) ? OPENREG_LANES : 1;
	s->tile_rows = openreg_div_up(cv->rows,
				      openreg_div_up(cv->rows, TILE_ROWS));
	s->tile_rows = openreg_div_up(s->tile_rows, 16) * 16;
	s->tile_rows = openreg_least(s->tile_rows, cv->rows);
	find_extents(cv, &e);
	if (!cut_tile(cv, &e, s->tile, &is) ||
	    is.ns * count_tiles(&e, s->tile) * groups(cv) * tiles_of_rows(cv) >
		    matrix_ns(cv, &e))
		return;
	cut_channels(cv, &e, &is);
	s->on = true;
	s->all_tiles = 1;
	for (d = 0; d < 4; d++) {
		s->tiles[d] = openreg_div_up(e.count[d], s->tile[d]);
		s->all_tiles *= s->tiles[d];
	}
	cv->parts = 1;
	cv->units = cv->classes * (int64_t)groups(cv) *
		    (int64_t)tiles_of_rows(cv) * s->all_tiles;
	if (!openreg_conv_is_gather(cv)) {
		cut_parts(cv, is.ns);
		is.ns *= (double)s->part_tiles;
		cv->units = (int64_t)groups(cv) * cv->parts;
	}
	cv->slice_units = (int64_t)(PART_NS / is.ns) + 1;
}
