// SPDX-License-Identifier: MIT
/* Collectives that reduce: all_reduce, reduce and reduce_scatter. */
#include <errno.h>

#include "comm.h"

/* PREMUL_SUM: this rank's elements times its factor, in the slots that no message uses. */
static int scale(struct openreg_comm *comm, uint64_t *src, uint64_t count,
		 const struct reduction *red)
{
	const uint64_t scaled = pool_slot(comm, comm->pool_at, comm->rank, 0, 0);
	int ret = 0;

	if (red->op == OPENREG_COMM_PREMUL_SUM && count) {
		ret = push_scale(comm, scaled, *src, count, red);
		*src = scaled;
	}
	return ret;
}

/* Receives a message from each other rank; own is this rank's part. */
static int reduce_parts(struct openreg_comm *comm, uint64_t dst, uint64_t own,
			uint64_t count, const struct reduction *red)
{
	const uint64_t bytes = count * openreg_dtype_size(red->dtype);
	uint64_t parts[OPENREG_COMM_RANKS_MAX];
	int ret = 0;

	parts[comm->rank] = own;
	for_peers(comm, r)
		ret = ret ? ret : push_receive(comm, r, 0, bytes, &parts[r]);
	if (!ret)
		ret = push_reduce(comm, dst, parts, count, red);
	for_peers(comm, r)
		ret = ret ? ret : push_taken(comm, r, 0);
	return ret;
}

static int send_parts(struct openreg_comm *comm, const struct parts *p, uint64_t src,
		      uint64_t piece, const struct reduction *red)
{
	int ret = 0;

	for_peers(comm, r) {
		const uint64_t n = part_length(p, r, piece);
		uint64_t from = part_at(p, src, r, piece);

		if (!ret && n)
			ret = scale(comm, &from, n, red);
		if (!ret && n)
			ret = push_send(comm, r, 0, from, n * p->esize);
	}
	return ret;
}

/* own: where the result of the own range goes. */
static int reduce_piece(struct openreg_comm *comm, const struct parts *p, uint64_t own,
			uint64_t src, uint64_t piece, const struct reduction *red)
{
	const uint64_t n = part_length(p, comm->rank, piece);
	uint64_t from = part_at(p, src, comm->rank, piece);
	int ret = scale(comm, &from, n, red);

	return ret || !n ? ret : reduce_parts(comm, own + piece * p->piece * p->esize, from,
					      n, red);
}

/* Each rank sends all it has. root comm->size: all ranks reduce it, else only root. */
static int one_shot(struct openreg_comm *comm, uint64_t dst, uint64_t src, uint64_t count,
		    const struct reduction *red, uint32_t root)
{
	const uint64_t bytes = count * openreg_dtype_size(red->dtype);
	int ret = scale(comm, &src, count, red);

	if (!ret)
		ret = root == comm->size ? send_all(comm, 0, src, bytes) :
		      root == comm->rank ? 0 : push_send(comm, root, 0, src, bytes);
	if (ret || (root < comm->size && root != comm->rank))
		return ret;
	return reduce_parts(comm, dst, src, count, red);
}

/*
 * Each rank reduces a shard and sends the result to all, or to root. The parts of the
 * next piece are sent before those of this piece are reduced, so that no rank waits for a
 * copy. A rank that is not root has the results of its own shard in its scratch slots.
 */
static int two_shot(struct openreg_comm *comm, uint64_t dst, uint64_t src, uint64_t count,
		    const struct reduction *red, uint32_t root)
{
	const bool takes = root == comm->size || root == comm->rank;
	const uint64_t scratch = pool_slot(comm, comm->pool_at, comm->rank, 1, 0);
	struct parts p;
	int ret;

	make_shards(comm, &p, count, openreg_dtype_size(red->dtype));
	ret = send_parts(comm, &p, src, 0, red);
	for (uint64_t i = 0; i < p.num && !ret; i++) {
		const uint64_t bytes = part_length(&p, comm->rank, i) * p.esize;
		const uint64_t own = takes ? part_at(&p, dst, comm->rank, 0) :
					     scratch - i * p.piece * p.esize;

		if (i + 1 < p.num)
			ret = send_parts(comm, &p, src, i + 1, red);
		if (!ret)
			ret = reduce_piece(comm, &p, own, src, i, red);
		if (!ret && root == comm->size)
			ret = send_own(comm, &p, 1, own, i);
		else if (!ret && !takes && bytes)
			ret = push_send(comm, root, 1, scratch, bytes);
		if (!ret && takes)
			ret = take_all(comm, &p, 1, dst, i);
	}
	return ret;
}

static int check(const struct openreg_comm *comm, const struct reduction *red)
{
	const enum openreg_comm_op op = red->op;
	const bool is_float = red->dtype == OPENREG_F32 || red->dtype == OPENREG_F64 ||
			      red->dtype == OPENREG_F16 || red->dtype == OPENREG_BF16;

	if (red->dtype >= OPENREG_F8E4M3FN)
		return comm_fail(-EINVAL, "%s cannot be reduced: convert it first",
				 openreg_dtype_name(red->dtype));
	if ((unsigned int)op > OPENREG_COMM_XOR)
		return comm_fail(-EINVAL, "reduction %d is none of enum openreg_comm_op",
				 (int)op);
	if (is_float && op >= OPENREG_COMM_AND)
		return comm_fail(-EINVAL, "%s has no AND, OR or XOR: use integers or bool",
				 openreg_dtype_name(red->dtype));
	if (red->dtype == OPENREG_BOOL &&
	    (op == OPENREG_COMM_AVG || op == OPENREG_COMM_PREMUL_SUM))
		return comm_fail(-EINVAL, "bool has no AVG or PREMUL_SUM: convert it first");
	if (op == OPENREG_COMM_PREMUL_SUM && !is_float &&
	    !(comm->factor >= -0x1p53 && comm->factor <= 0x1p53 &&
	      comm->factor == (double)(int64_t)comm->factor))
		return comm_fail(-EINVAL, "the factor %g of PREMUL_SUM is no integer, but %s is",
				 comm->factor, openreg_dtype_name(red->dtype));
	return 0;
}

static int64_t reduce(struct openreg_comm *comm, enum call_kind kind, uint64_t dst,
		      uint64_t src, uint64_t count, const struct reduction *red,
		      uint32_t root)
{
	const struct call call = { .kind = kind, .dtype = red->dtype, .op = red->op,
				   .root = root, .count = count };
	int ret = call_begin(comm, &call);

	if (ret)
		return ret;
	if (!count)
		return call_end(comm, 0);
	if (comm->size == 1)
		ret = push_reduce(comm, dst, &src, count, red);
	else if (count * openreg_dtype_size(red->dtype) > comm->one_shot_bytes)
		ret = two_shot(comm, dst, src, count, red, root);
	else
		ret = one_shot(comm, dst, src, count, red, root);
	return call_end(comm, ret);
}

API int64_t openreg_comm_all_reduce(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				    uint64_t count, enum openreg_dtype dtype,
				    enum openreg_comm_op op)
{
	const struct reduction red = { dtype, op };
	int ret = call_check(comm, dtype, count);

	if (!ret)
		ret = check(comm, &red);
	return ret ? ret : reduce(comm, CALL_ALL_REDUCE, dst, src, count, &red, comm->size);
}

API int64_t openreg_comm_reduce(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				uint64_t count, enum openreg_dtype dtype,
				enum openreg_comm_op op, uint32_t root)
{
	const struct reduction red = { dtype, op };
	int ret = call_check(comm, dtype, count);

	if (!ret)
		ret = check(comm, &red);
	if (!ret)
		ret = call_check_rank(comm, root);
	return ret ? ret : reduce(comm, CALL_REDUCE, dst, src, count, &red, root);
}

API int64_t openreg_comm_reduce_scatter(struct openreg_comm *comm, uint64_t dst,
					uint64_t src, const uint64_t *counts,
					enum openreg_dtype dtype, enum openreg_comm_op op)
{
	struct call call = { .kind = CALL_REDUCE_SCATTER, .dtype = dtype, .op = op };
	const struct reduction red = { dtype, op };
	int ret = call_check_counts(comm, counts, dtype, call.counts);
	struct parts p;

	if (!ret)
		ret = check(comm, &red);
	if (!ret)
		ret = call_begin(comm, &call);
	if (ret)
		return ret;
	make_parts(comm, &p, counts, openreg_dtype_size(dtype));
	if (comm->size == 1 && p.num)
		return call_end(comm, push_reduce(comm, dst, &src, counts[0], &red));
	ret = p.num ? send_parts(comm, &p, src, 0, &red) : 0;
	for (uint64_t i = 0; i < p.num && !ret; i++) {
		if (i + 1 < p.num)
			ret = send_parts(comm, &p, src, i + 1, &red);
		if (!ret)
			ret = reduce_piece(comm, &p, dst, src, i, &red);
	}
	return call_end(comm, ret);
}

API int openreg_comm_set_factor(struct openreg_comm *comm, double factor)
{
	int ret = call_enter(comm);

	if (ret)
		return ret;
	comm->factor = factor;
	call_leave(comm);
	return 0;
}
