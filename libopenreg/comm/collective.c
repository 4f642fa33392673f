// SPDX-License-Identifier: MIT
/* The collectives: which messages each rank sends, and what it does with those it gets. */
#include <errno.h>

#include "comm.h"

/* A range of elements for each rank, in pieces that fit a slot. */
struct parts {
	uint64_t begin[OPENREG_COMM_RANKS_MAX + 1];
	uint64_t piece; /* elements */
	uint64_t esize;
	uint64_t num; /* pieces of the longest range */
};

/* Calls f for all other ranks, beginning with the next one. */
#define for_peers(comm, r)                                                     \
	for (uint32_t r##_ = 1, r; r##_ < (comm)->size &&                      \
	     (r = ((comm)->rank + r##_) % (comm)->size, true); r##_++)

static uint64_t at(const struct parts *p, uint64_t base, uint32_t rank, uint64_t piece)
{
	return base + (p->begin[rank] + piece * p->piece) * p->esize;
}

/* Elements of a piece; 0: this range has fewer pieces. */
static uint64_t length(const struct parts *p, uint32_t rank, uint64_t piece)
{
	const uint64_t begin = p->begin[rank] + piece * p->piece;
	const uint64_t end = p->begin[rank + 1];

	if (begin >= end)
		return 0;
	return end - begin < p->piece ? end - begin : p->piece;
}

static void make_parts(const struct openreg_comm *comm, struct parts *p,
		       const uint64_t *counts, unsigned int esize)
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
static void make_shards(const struct openreg_comm *comm, struct parts *p, uint64_t count,
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

static int send_all(struct openreg_comm *comm, unsigned int ch, uint64_t src, uint64_t bytes)
{
	int ret = 0;

	for_peers(comm, r)
		ret = ret ? ret : push_send(comm, r, ch, src, bytes);
	return ret;
}

/* Receives a message from each other rank; own is this rank's part. */
static int reduce_parts(struct openreg_comm *comm, uint64_t dst, uint64_t own,
			uint64_t count, enum openreg_dtype dtype, enum openreg_comm_op op)
{
	uint64_t parts[OPENREG_COMM_RANKS_MAX];
	int ret = 0;

	parts[comm->rank] = own;
	for_peers(comm, r)
		ret = ret ? ret : push_receive(comm, r, 0, &parts[r]);
	if (!ret)
		ret = push_reduce(comm, dst, parts, count, dtype, op);
	for_peers(comm, r)
		ret = ret ? ret : push_taken(comm, r, 0);
	return ret;
}

static int send_parts(struct openreg_comm *comm, const struct parts *p, uint64_t src,
		      uint64_t piece)
{
	int ret = 0;

	for_peers(comm, r)
		if (!ret && length(p, r, piece))
			ret = push_send(comm, r, 0, at(p, src, r, piece),
					length(p, r, piece) * p->esize);
	return ret;
}

/* Sends the own piece of the range that begins at own, to all. */
static int send_own(struct openreg_comm *comm, const struct parts *p, unsigned int ch,
		    uint64_t own, uint64_t piece)
{
	const uint64_t n = length(p, comm->rank, piece);

	return n ? send_all(comm, ch, own + piece * p->piece * p->esize, n * p->esize) : 0;
}

static int take_one(struct openreg_comm *comm, uint32_t from, unsigned int ch, uint64_t dst,
		    uint64_t bytes)
{
	uint64_t slot;
	int ret = push_receive(comm, from, ch, &slot);

	if (!ret)
		ret = push_copy(comm, dst, slot, bytes);
	return ret ? ret : push_taken(comm, from, ch);
}

static int take_all(struct openreg_comm *comm, const struct parts *p, unsigned int ch,
		    uint64_t dst, uint64_t piece)
{
	int ret = 0;

	for_peers(comm, r)
		if (!ret && length(p, r, piece))
			ret = take_one(comm, r, ch, at(p, dst, r, piece),
				       length(p, r, piece) * p->esize);
	return ret;
}

static int one_shot(struct openreg_comm *comm, uint64_t dst, uint64_t src, uint64_t count,
		    enum openreg_dtype dtype, enum openreg_comm_op op)
{
	int ret = send_all(comm, 0, src, count * openreg_dtype_size(dtype));

	return ret ? ret : reduce_parts(comm, dst, src, count, dtype, op);
}

/* own: where the result of the own range goes. */
static int reduce_piece(struct openreg_comm *comm, const struct parts *p, uint64_t own,
			uint64_t src, uint64_t piece, enum openreg_dtype dtype,
			enum openreg_comm_op op)
{
	const uint64_t n = length(p, comm->rank, piece);

	return n ? reduce_parts(comm, own + piece * p->piece * p->esize,
				at(p, src, comm->rank, piece), n, dtype, op) : 0;
}

/*
 * Each rank reduces a shard and sends the result to all. The parts of the next piece are
 * sent before those of this piece are reduced, so that no rank waits for a copy.
 */
static int two_shot(struct openreg_comm *comm, uint64_t dst, uint64_t src, uint64_t count,
		    enum openreg_dtype dtype, enum openreg_comm_op op)
{
	struct parts p;
	uint64_t own;
	int ret;

	make_shards(comm, &p, count, openreg_dtype_size(dtype));
	own = at(&p, dst, comm->rank, 0);
	ret = send_parts(comm, &p, src, 0);
	for (uint64_t i = 0; i < p.num && !ret; i++) {
		if (i + 1 < p.num)
			ret = send_parts(comm, &p, src, i + 1);
		if (!ret)
			ret = reduce_piece(comm, &p, own, src, i, dtype, op);
		if (!ret)
			ret = send_own(comm, &p, 1, own, i);
		if (!ret)
			ret = take_all(comm, &p, 1, dst, i);
	}
	return ret;
}

/* ---- the calls --------------------------------------------------------- */

static void begin(struct openreg_comm *comm, const char *name)
{
	struct record *rec = &comm->records[++comm->collectives % RECORDS];

	rec->name = name;
	rec->number = comm->collectives;
	rec->last = UINT64_MAX;
	for (uint32_t r = 0; r < comm->size; r++)
		for (unsigned int ch = 0; ch < CHANNELS; ch++)
			rec->from[r][ch] = comm->peers[r].received[ch];
}

static int64_t end(struct openreg_comm *comm, int ret)
{
	int64_t seq = ret ? ret : openreg_queue_submit(comm->queue);

	if (seq < 0)
		return comm_break_push(comm, (int)seq);
	comm->records[comm->collectives % RECORDS].last = (uint64_t)seq;
	return seq;
}

static int check(const struct openreg_comm *comm, enum openreg_dtype dtype, uint64_t count)
{
	const unsigned int esize = openreg_dtype_size(dtype);

	if (comm->error)
		return comm_fail(-EIO, "the communicator is broken, create a new one: %s",
				 comm->text);
	if (!esize)
		return comm_fail(-EINVAL, "dtype %d has no size", (int)dtype);
	if (count > (1ull << OPENREG_ADDR_OFFSET_BITS) / esize)
		return comm_fail(-EINVAL, "%llu elements are more than a card has",
				 (unsigned long long)count);
	return 0;
}

static int check_op(enum openreg_dtype dtype, enum openreg_comm_op op)
{
	const uint64_t can = 1u << OPENREG_F32 | 1u << OPENREG_F64 | 1u << OPENREG_F16 |
			     1u << OPENREG_BF16 | 1u << OPENREG_I32 | 1u << OPENREG_I64;

	if (!(can >> dtype & 1))
		return comm_fail(-EINVAL,
				 "%s cannot be reduced: use f32, f64, f16, bf16, i32 or i64",
				 openreg_dtype_name(dtype));
	if ((unsigned int)op > OPENREG_COMM_MAX)
		return comm_fail(-EINVAL, "reduction %d is none of enum openreg_comm_op",
				 (int)op);
	return 0;
}

static int check_rank(const struct openreg_comm *comm, uint32_t rank)
{
	return rank < comm->size ? 0 :
	       comm_fail(-EINVAL, "there is no rank %u: the communicator has %u", rank,
			 comm->size);
}

static int check_counts(const struct openreg_comm *comm, const uint64_t *counts,
			enum openreg_dtype dtype)
{
	uint64_t sum = 0;
	int ret = check(comm, dtype, 0);

	for (uint32_t r = 0; r < comm->size && !ret; r++) {
		ret = check(comm, dtype, counts[r]);
		sum += counts[r];
	}
	return ret ? ret : check(comm, dtype, sum);
}

API int64_t openreg_comm_all_reduce(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				    uint64_t count, enum openreg_dtype dtype,
				    enum openreg_comm_op op)
{
	int ret = check(comm, dtype, count);
	uint64_t bytes;

	if (!ret)
		ret = check_op(dtype, op);
	if (ret)
		return ret;
	begin(comm, "all_reduce");
	bytes = count * openreg_dtype_size(dtype);
	if (comm->size == 1)
		ret = push_copy(comm, dst, src, bytes);
	else if (bytes > comm->one_shot_bytes)
		ret = two_shot(comm, dst, src, count, dtype, op);
	else if (count)
		ret = one_shot(comm, dst, src, count, dtype, op);
	return end(comm, ret);
}

API int64_t openreg_comm_reduce_scatter(struct openreg_comm *comm, uint64_t dst,
					uint64_t src, const uint64_t *counts,
					enum openreg_dtype dtype, enum openreg_comm_op op)
{
	int ret = check_counts(comm, counts, dtype);
	struct parts p;

	if (!ret)
		ret = check_op(dtype, op);
	if (ret)
		return ret;
	begin(comm, "reduce_scatter");
	make_parts(comm, &p, counts, openreg_dtype_size(dtype));
	if (comm->size == 1)
		return end(comm, push_copy(comm, dst, src, counts[0] * p.esize));
	ret = p.num ? send_parts(comm, &p, src, 0) : 0;
	for (uint64_t i = 0; i < p.num && !ret; i++) {
		if (i + 1 < p.num)
			ret = send_parts(comm, &p, src, i + 1);
		if (!ret)
			ret = reduce_piece(comm, &p, dst, src, i, dtype, op);
	}
	return end(comm, ret);
}

API int64_t openreg_comm_all_gather(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				    const uint64_t *counts, enum openreg_dtype dtype)
{
	int ret = check_counts(comm, counts, dtype);
	struct parts p;

	if (ret)
		return ret;
	begin(comm, "all_gather");
	make_parts(comm, &p, counts, openreg_dtype_size(dtype));
	ret = p.num ? send_own(comm, &p, 0, src, 0) : 0;
	if (!ret)
		ret = push_copy(comm, at(&p, dst, comm->rank, 0), src,
				counts[comm->rank] * p.esize);
	for (uint64_t i = 0; i < p.num && !ret; i++) {
		if (i + 1 < p.num)
			ret = send_own(comm, &p, 0, src, i + 1);
		if (!ret)
			ret = take_all(comm, &p, 0, dst, i);
	}
	return end(comm, ret);
}

/* Sends or receives a range piece by piece: as a collective of which one rank has all. */
static int64_t move(struct openreg_comm *comm, const char *name, uint64_t address,
		    uint64_t count, enum openreg_dtype dtype, uint32_t from, uint32_t to)
{
	uint64_t left = count * openreg_dtype_size(dtype);
	int ret = 0;

	begin(comm, name);
	while (left && !ret) {
		const uint64_t bytes = left < comm->slot_bytes ? left : comm->slot_bytes;

		if (comm->rank != from)
			ret = take_one(comm, from, 0, address, bytes);
		else if (to < comm->size)
			ret = push_send(comm, to, 0, address, bytes);
		else
			ret = send_all(comm, 0, address, bytes);
		address += bytes;
		left -= bytes;
	}
	return end(comm, ret);
}

API int64_t openreg_comm_broadcast(struct openreg_comm *comm, uint64_t address,
				   uint64_t count, enum openreg_dtype dtype, uint32_t root)
{
	int ret = check(comm, dtype, count);

	if (!ret)
		ret = check_rank(comm, root);
	return ret ? ret : move(comm, "broadcast", address, count, dtype, root, comm->size);
}

static int check_other(const struct openreg_comm *comm, uint32_t rank)
{
	int ret = check_rank(comm, rank);

	if (!ret && rank == comm->rank)
		ret = comm_fail(-EINVAL, "rank %u cannot send to itself: copy", rank);
	return ret;
}

API int64_t openreg_comm_send(struct openreg_comm *comm, uint64_t src, uint64_t count,
			      enum openreg_dtype dtype, uint32_t to)
{
	int ret = check(comm, dtype, count);

	if (!ret)
		ret = check_other(comm, to);
	return ret ? ret : move(comm, "send", src, count, dtype, comm->rank, to);
}

API int64_t openreg_comm_recv(struct openreg_comm *comm, uint64_t dst, uint64_t count,
			      enum openreg_dtype dtype, uint32_t from)
{
	int ret = check(comm, dtype, count);

	if (!ret)
		ret = check_other(comm, from);
	return ret ? ret : move(comm, "recv", dst, count, dtype, from, comm->rank);
}

API int64_t openreg_comm_barrier(struct openreg_comm *comm)
{
	int ret = check(comm, OPENREG_U8, 0);

	if (ret)
		return ret;
	begin(comm, "barrier");
	ret = send_all(comm, 0, comm->pool_at, 0);
	for_peers(comm, r)
		ret = ret ? ret : take_one(comm, r, 0, comm->pool_at, 0);
	return end(comm, ret);
}
