/* SPDX-License-Identifier: MIT */
/*
 * Copy engine: moving the elements, one tile at a time.
 *
 * Rows that are dense on both sides and need no cast move directly between VRAM and the
 * bus. All other rows pass through buffers: stage[0] holds elements read from system
 * memory, stage[1] elements to write there.
 */
#include <string.h>

#include "core.h"
#include "exec.h"
#include "queue.h"

#define SLICE_NS (OPENREG_DECIDE_NS / 4)
#define TILE_BYTES (2u << 20)
#define STAGE_ELEMENTS (OPENREG_STAGE_SIZE / 8)
#define SPAN_STRIDE 512 /* bytes; with larger strides, one transfer for each element */
#define SINGLES 1024 /* most transfers of one element in a step */
#define LINE 64
#define LINES 8192 /* most elements in a step that share no cache line */
#define CLOCK_BYTES (256u << 10) /* work between two reads of the clock */

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int64_t row_stride(const struct copy *c, const struct copy_side *side)
{
	return side->stride[c->ndim - 1];
}

static uint8_t *vram_at(const struct copy_side *side)
{
	return side->vram + side->at * side->esize;
}

static uint64_t offset_at(const struct copy_side *side, int64_t elements)
{
	return side->off + (uint64_t)((side->at + elements) * side->esize);
}

static bool is_straight(const struct copy *c)
{
	return c->dst.dtype == c->src.dtype && row_stride(c, &c->dst) == 1 &&
	       row_stride(c, &c->src) == 1;
}

static bool is_scattered(const struct copy *c, const struct copy_side *dst)
{
	return !dst->vram && !dst->staged && row_stride(c, dst) != 1;
}

static uint64_t span_of(const struct copy *c, const struct copy_side *side)
{
	int64_t stride = row_stride(c, side);

	return (uint64_t)(stride < 0 ? -stride : stride) * side->esize;
}

static bool misses_caches(const struct copy *c)
{
	return span_of(c, &c->dst) > LINE ||
	       (!c->fill && span_of(c, &c->src) > LINE);
}

/* How many elements fit into the stage, with the bytes between them. */
static uint64_t stage_max(const struct copy *c)
{
	uint64_t span = span_of(c, &c->src);

	if (c->fill || c->src.vram || span <= 8)
		return STAGE_ELEMENTS;
	return span > SPAN_STRIDE ? SINGLES : OPENREG_STAGE_SIZE / span;
}

/* Most elements of a row that one step copies. */
static uint64_t row_max(const struct copy *c)
{
	bool vram = c->dst.vram && (c->fill || c->src.vram);

	if (!c->fill && is_straight(c) && (c->dst.vram || c->src.vram))
		return TILE_BYTES / c->dst.esize;
	if (vram)
		return misses_caches(c) ? LINES : TILE_BYTES / 8;
	if (is_scattered(c, &c->dst))
		return min64(SINGLES, stage_max(c));
	return stage_max(c);
}

static int gather(struct queue *q, uint8_t *stage, uint64_t n)
{
	const struct copy_side *src = &q->copy.src;
	int64_t stride = row_stride(&q->copy, src);
	uint64_t i;

	for (i = 0; i < n; i++)
		if (segment_read(q, src->seg, offset_at(src, (int64_t)i * stride),
				 stage + i * src->esize, src->esize))
			return -1;
	return 0;
}

/* Reads n elements of a row from system memory; *stride: their stride in the stage. */
static const uint8_t *load_row(struct queue *q, uint8_t *stage, uint64_t n,
			       int64_t *stride)
{
	const struct copy_side *src = &q->copy.src;
	int64_t s = row_stride(&q->copy, src), back = s < 0 ? -s : 0;
	uint64_t step = (uint64_t)(s < 0 ? -s : s);
	int64_t first = -back * (int64_t)(n - 1);

	*stride = s;
	if (step * src->esize > SPAN_STRIDE) {
		*stride = 1;
		return gather(q, stage, n) ? NULL : stage;
	}
	if (segment_read(q, src->seg, offset_at(src, first), stage,
			 (step * (n - 1) + 1) * src->esize))
		return NULL;
	return stage - first * src->esize;
}

static int store_row(struct queue *q, const uint8_t *from, uint64_t n)
{
	const struct copy_side *dst = &q->copy.dst;
	int64_t stride = row_stride(&q->copy, dst);
	uint64_t i;

	if (stride == 1)
		return segment_write(q, dst->seg, offset_at(dst, 0), from,
				     n * dst->esize);
	for (i = 0; i < n; i++)
		if (segment_write(q, dst->seg,
				  offset_at(dst, (int64_t)i * stride),
				  from + i * dst->esize, dst->esize))
			return -1;
	return 0;
}

static void move(const struct copy *c, void *dst, int64_t dst_stride,
		 const void *src, int64_t src_stride, uint64_t n)
{
	if (c->dst.dtype == c->src.dtype && dst_stride == 1 && src_stride == 1)
		memmove(dst, src, n * c->dst.esize);
	else
		openreg_convert(dst, c->dst.dtype, dst_stride, src,
				c->src.dtype, src_stride, n);
}

/* Copies n elements of a row; done: elements of the tile that come before them. */
static int copy_row(struct worker *w, struct queue *q, uint64_t done,
		    uint64_t n, uint32_t *failed)
{
	struct copy *c = &q->copy;
	int64_t ss = row_stride(c, &c->src);
	const uint8_t *from;

	*failed = 1;
	if (c->src.staged) {
		from = w->stage[0] + done * c->src.esize;
		ss = 1;
	} else if (c->src.vram) {
		from = vram_at(&c->src);
	} else if (is_straight(c) && c->dst.vram) {
		return segment_read(q, c->src.seg, offset_at(&c->src, 0),
				    vram_at(&c->dst), n * c->dst.esize);
	} else {
		from = load_row(q, w->stage[0], n, &ss);
		if (!from)
			return -1;
	}
	*failed = 0;
	if (c->dst.vram) {
		move(c, vram_at(&c->dst), row_stride(c, &c->dst), from, ss, n);
		return 0;
	}
	if (c->dst.staged) {
		move(c, w->stage[1] + done * c->dst.esize, 1, from, ss, n);
		return 0;
	}
	if (c->dst.dtype == c->src.dtype && ss == 1)
		return store_row(q, from, n);
	move(c, w->stage[1], 1, from, ss, n);
	return store_row(q, w->stage[1], n);
}

static int fill_row(struct worker *w, struct queue *q, uint64_t n)
{
	struct copy *c = &q->copy;

	if (!c->dst.vram)
		return store_row(q, w->stage[1], n);
	copy_fill(vram_at(&c->dst), row_stride(c, &c->dst), c->dst.esize,
		  c->pattern, n);
	return 0;
}

/* Moves on by n elements, at most to the end of the row. */
static void advance(struct copy *c, uint64_t n)
{
	unsigned int d = c->ndim - 1;

	c->index[d] += n;
	c->dst.at += (int64_t)n * c->dst.stride[d];
	c->src.at += (int64_t)n * c->src.stride[d];
	c->left -= n;
	while (d && c->index[d] == c->size[d]) {
		c->dst.at -= (int64_t)c->size[d] * c->dst.stride[d];
		c->src.at -= (int64_t)c->size[d] * c->src.stride[d];
		c->index[d--] = 0;
		c->index[d]++;
		c->dst.at += c->dst.stride[d];
		c->src.at += c->src.stride[d];
	}
}

static uint64_t row_left(const struct copy *c)
{
	unsigned int d = c->ndim - 1;

	return min64(c->size[d] - c->index[d], row_max(c));
}

static uint64_t row_cost(const struct copy *c, uint64_t n)
{
	uint64_t cost = n * (misses_caches(c) ? LINE : c->dst.esize) + LINE;

	if (!c->dst.vram && !c->dst.staged)
		cost += row_stride(c, &c->dst) == 1 ? 4096 : n * 512;
	if (!c->fill && !c->src.vram && !c->src.staged)
		cost += row_stride(c, &c->src) == 1 ? 4096 : n * 512;
	return cost;
}

/* cost: work since the last read of the clock; end: when the slice ends. */
struct timer {
	uint64_t cost;
	uint64_t end;
};

static bool is_expired(struct timer *t, uint64_t cost)
{
	t->cost += cost;
	if (t->cost < CLOCK_BYTES)
		return false;
	t->cost = 0;
	return now_ns() >= t->end;
}

/*
 * Copies rows until a stage is full or the slice is over. One bulk transfer before the
 * rows reads stage[0], or one after them writes stage[1].
 */
static int staged_tile(struct worker *w, struct queue *q, uint32_t *failed,
		       struct timer *t)
{
	struct copy *c = &q->copy;
	uint64_t n = min64(c->left, STAGE_ELEMENTS), done, m;
	struct copy_side first = c->dst;

	*failed = 1;
	if (c->src.staged &&
	    segment_read(q, c->src.seg, offset_at(&c->src, 0), w->stage[0],
			 n * c->src.esize))
		return -1;
	for (done = 0; done < n; done += m) {
		m = min64(row_left(c), n - done);
		if (copy_row(w, q, done, m, failed))
			return -1;
		advance(c, m);
		if (is_expired(t, row_cost(c, m)))
			n = done + m;
	}
	*failed = 0;
	if (c->dst.staged)
		return segment_write(q, first.seg, offset_at(&first, 0),
				     w->stage[1], n * first.esize);
	return 0;
}

/* Sets *over when the slice is over. */
static int step(struct worker *w, struct queue *q, uint32_t *failed,
		struct timer *t, bool *over)
{
	struct copy *c = &q->copy;
	uint64_t n;
	int r;

	if (c->src.staged || c->dst.staged) {
		r = staged_tile(w, q, failed, t);
		*over = is_expired(t, CLOCK_BYTES);
		return r;
	}
	n = row_left(c);
	*failed = 0;
	r = c->fill ? fill_row(w, q, n) : copy_row(w, q, 0, n, failed);
	advance(c, n);
	*over = is_expired(t, row_cost(c, n));
	return r;
}

enum copy_result copy_slice(struct worker *w, struct queue *q, uint32_t *failed)
{
	struct copy *c = &q->copy;
	struct timer t = { .end = now_ns() + SLICE_NS };
	bool over = false;

	if (c->fill && c->left && !c->dst.vram)
		copy_fill(w->stage[1], 1, c->dst.esize, c->pattern,
			  min64(c->left, STAGE_ELEMENTS));
	while (c->left) {
		if (over)
			return COPY_MORE;
		if (step(w, q, failed, &t, &over))
			return COPY_FAILED;
	}
	return COPY_DONE;
}
