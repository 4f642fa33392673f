/* SPDX-License-Identifier: MIT */
/*
 * Blocks, as NOTE packets describe them: an access must stay inside its block, and a
 * packet must write a byte before another reads it.
 */
#include <stdlib.h>
#include <string.h>

#include "inside.h"

/* The first block that ends after off, or nblocks. */
static unsigned int first_after(const struct openreg_check_memory *m, uint64_t off)
{
	unsigned int lo = 0, hi = m->nblocks;

	while (lo < hi) {
		const unsigned int mid = (lo + hi) / 2;

		if (m->blocks[mid].hi <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct block *block_at(struct openreg_check_memory *m, uint64_t off)
{
	const unsigned int i = first_after(m, off);

	return i < m->nblocks && m->blocks[i].lo <= off ? &m->blocks[i] : NULL;
}

/* Removes the blocks that have a byte of [lo, hi). Returns their place. */
static unsigned int remove_blocks(struct openreg_check_memory *m, uint64_t lo, uint64_t hi)
{
	const unsigned int first = first_after(m, lo);
	unsigned int end = first;

	for (; end < m->nblocks && m->blocks[end].lo < hi; end++)
		free(m->blocks[end].written);
	if (end > first)
		memmove(&m->blocks[first], &m->blocks[end],
			(m->nblocks - end) * sizeof(*m->blocks));
	m->nblocks -= end - first;
	return first;
}

void openreg_check_unblock(struct openreg_check *check,
			   struct openreg_check_memory *m, uint64_t lo, uint64_t hi)
{
	if (!check->failed && m)
		remove_blocks(m, lo, hi);
}

static bool reserve(struct openreg_check_memory *m)
{
	const unsigned int room = m->blocks_room ? 2 * m->blocks_room : 16;
	struct block *blocks;

	if (m->nblocks < m->blocks_room)
		return true;
	blocks = realloc(m->blocks, room * sizeof(*blocks));
	if (!blocks)
		return false;
	m->blocks = blocks;
	m->blocks_room = room;
	return true;
}

void openreg_check_block(struct openreg_check *check, struct openreg_check_queue *q,
			 struct openreg_check_memory **memory, uint64_t lo, uint64_t hi,
			 uint64_t zone)
{
	struct openreg_check_memory *m;
	unsigned int at;

	if (check->failed)
		return;
	if (!*memory)
		*memory = calloc(1, sizeof(**memory));
	m = *memory;
	if (!m || !reserve(m)) {
		check->failed = true;
		return;
	}
	at = remove_blocks(m, lo, hi + zone);
	memmove(&m->blocks[at + 1], &m->blocks[at], (m->nblocks++ - at) * sizeof(*m->blocks));
	m->blocks[at] = (struct block){
		.lo = lo, .hi = hi, .zone = hi + zone, .note = q->now, .unwritten = hi - lo };
}

static void fill_finding(struct openreg_finding *f, const struct openreg_check_memory *m,
			 const struct block *b, uint64_t lo, uint64_t bytes)
{
	f->other = b->note;
	f->addr = m->base + lo;
	f->bytes = bytes;
	f->block = m->base + b->lo;
	f->block_bytes = b->hi - b->lo;
}

/* The block to which element 0 at this offset belongs: it is in it, or in its red zone. */
static const struct block *block_of(const struct openreg_check_memory *m, uint64_t off)
{
	const unsigned int i = first_after(m, off);

	if (i < m->nblocks && m->blocks[i].lo <= off)
		return &m->blocks[i];
	return i && off < m->blocks[i - 1].zone ? &m->blocks[i - 1] : NULL;
}

void check_bounds(struct openreg_check_queue *q, struct openreg_check_memory *m,
		  const struct shape *s, const struct openreg_finding_access *access,
		  uint64_t off)
{
	const struct block *b = block_of(m, off);
	struct openreg_finding f = { .kind = OPENREG_FINDING_BOUNDS, .access = *access };

	/* Elsewhere: the program has not said where this access belongs. */
	if (!b || (s->lo >= b->lo && s->hi <= b->hi))
		return;
	if (s->lo >= b->hi)
		fill_finding(&f, m, b, s->lo, s->hi - s->lo);
	else if (s->hi > b->hi)
		fill_finding(&f, m, b, b->hi, s->hi - b->hi);
	else
		fill_finding(&f, m, b, s->lo, b->lo - s->lo);
	check_find(q, &f);
}

/* The bits of word w of [lo, hi) */
static uint64_t mask_of(uint64_t w, uint64_t lo, uint64_t hi)
{
	uint64_t mask = ~0ULL;

	if (w == lo / 64)
		mask &= ~0ULL << lo % 64;
	if (w == (hi - 1) / 64)
		mask &= ~0ULL >> (63 - (hi - 1) % 64);
	return mask;
}

/* lo, hi: inside the block. Returns the bytes that were not written before. */
static uint64_t write_bits(struct block *b, uint64_t lo, uint64_t hi)
{
	uint64_t w, found = 0;

	for (w = lo / 64; w <= (hi - 1) / 64; w++) {
		const uint64_t mask = mask_of(w, lo, hi);

		found += (uint64_t)__builtin_popcountll(mask & ~b->written[w]);
		b->written[w] |= mask;
	}
	return found;
}

/* Returns the number of unwritten bytes of [lo, hi); *first: offset of the first. */
static uint64_t unwritten(const struct block *b, uint64_t lo, uint64_t hi, uint64_t *first)
{
	uint64_t w, found = 0;

	if (!b->written) {
		*first = lo;
		return hi - lo;
	}
	for (w = lo / 64; w <= (hi - 1) / 64; w++) {
		const uint64_t bits = mask_of(w, lo, hi) & ~b->written[w];

		if (bits && !found)
			*first = w * 64 + (uint64_t)__builtin_ctzll(bits);
		found += (uint64_t)__builtin_popcountll(bits);
	}
	return found;
}

static void all_written(struct block *b)
{
	free(b->written);
	b->written = NULL;
	b->unwritten = 0;
}

/* Returns false if memory is short. */
static bool write_rows(struct block *b, const struct shape *s)
{
	const uint64_t size = b->hi - b->lo;
	struct rows rows;

	if (!rows_begin(&rows, s) || (!s->ndim && s->hi - s->lo == size)) {
		all_written(b);
		return true;
	}
	if (!b->written)
		b->written = calloc((size + 63) / 64, 8);
	if (!b->written)
		return false;
	for (; !rows.done; rows_next(&rows))
		b->unwritten -= write_bits(b, rows.lo - b->lo, rows.lo - b->lo + s->row);
	if (!b->unwritten)
		all_written(b);
	return true;
}

static void read_rows(struct openreg_check_queue *q, struct openreg_check_memory *m,
		      struct block *b, const struct shape *s,
		      const struct openreg_finding_access *access)
{
	struct openreg_finding f = { .kind = OPENREG_FINDING_INIT, .access = *access };
	uint64_t first = 0, at = 0, bytes = 0, n;
	struct rows rows;

	if (!rows_begin(&rows, s))
		return;
	for (; !rows.done; rows_next(&rows)) {
		n = unwritten(b, rows.lo - b->lo, rows.lo - b->lo + s->row, &at);
		if (n && !bytes)
			first = at;
		bytes += n;
	}
	if (!bytes)
		return;
	fill_finding(&f, m, b, b->lo + first, bytes);
	check_find(q, &f);
	/* One report of a block suffices. */
	all_written(b);
}

/* exact: the packet accesses every byte of the shape. */
void check_init(struct openreg_check *check, struct openreg_check_queue *q,
		struct openreg_check_memory *m, const struct shape *s,
		const struct openreg_finding_access *access, bool exact)
{
	struct block *b = block_at(m, s->lo);

	if (!b || s->hi > b->hi || !b->unwritten)
		return;
	if (access->written) {
		if (!write_rows(b, s))
			check->failed = true;
	} else if (exact) {
		read_rows(q, m, b, s, access);
	}
}
