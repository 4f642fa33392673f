// SPDX-License-Identifier: MIT
/* Ranges of elements for each rank, in pieces that fit a slot. */
#include "comm.h"

uint64_t part_at(const struct parts *p, uint64_t base, uint32_t rank, uint64_t piece)
{
	return base + (p->begin[rank] + piece * p->piece) * p->esize;
}

uint64_t part_length(const struct parts *p, uint32_t rank, uint64_t piece)
{
	const uint64_t begin = p->begin[rank] + piece * p->piece;
	const uint64_t end = p->begin[rank + 1];

	if (begin >= end)
		return 0;
	return end - begin < p->piece ? end - begin : p->piece;
}

void make_parts(const struct openreg_comm *comm, struct parts *p, const uint64_t *counts,
		unsigned int esize)
{
	uint64_t longest = 0;

	p->esize = esize;
	p->piece = comm->slot_bytes / esize;
	p->begin[0] = 0;
	for (uint32_t r = 0; r < comm->size; r++) {
		p->begin[r + 1] = p->begin[r] + counts[r];
		longest = counts[r] > longest ? counts[r] : longest;
	}
	p->num = (longest + p->piece - 1) / p->piece;
}

/* Divides count evenly, in multiples of a cache line. */
void make_shards(const struct openreg_comm *comm, struct parts *p, uint64_t count,
		 unsigned int esize)
{
	const uint64_t line = 64 / esize;
	const uint64_t lines = (count + line - 1) / line;
	const uint64_t each = (lines + comm->size - 1) / comm->size * line;
	uint64_t counts[OPENREG_COMM_RANKS_MAX], left = count;

	for (uint32_t r = 0; r < comm->size; r++) {
		counts[r] = left < each ? left : each;
		left -= counts[r];
	}
	make_parts(comm, p, counts, esize);
}

int send_all(struct openreg_comm *comm, unsigned int ch, uint64_t src, uint64_t bytes)
{
	int ret = 0;

	for_peers(comm, r)
		ret = ret ? ret : push_send(comm, r, ch, src, bytes);
	return ret;
}

int send_own(struct openreg_comm *comm, const struct parts *p, unsigned int ch,
	     uint64_t own, uint64_t piece)
{
	const uint64_t n = part_length(p, comm->rank, piece);

	return n ? send_all(comm, ch, own + piece * p->piece * p->esize, n * p->esize) : 0;
}

int take_one(struct openreg_comm *comm, uint32_t from, unsigned int ch, uint64_t dst,
	     uint64_t bytes)
{
	uint64_t slot;
	int ret = push_receive(comm, from, ch, bytes, &slot);

	if (!ret)
		ret = push_copy(comm, dst, slot, bytes);
	return ret ? ret : push_taken(comm, from, ch);
}

int take_all(struct openreg_comm *comm, const struct parts *p, unsigned int ch,
	     uint64_t dst, uint64_t piece)
{
	int ret = 0;

	for_peers(comm, r)
		if (!ret && part_length(p, r, piece))
			ret = take_one(comm, r, ch, part_at(p, dst, r, piece),
				       part_length(p, r, piece) * p->esize);
	return ret;
}
