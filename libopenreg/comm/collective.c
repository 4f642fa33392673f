// SPDX-License-Identifier: MIT
/* broadcast, all_gather and barrier. */
#include "comm.h"

API int64_t openreg_comm_broadcast(struct openreg_comm *comm, uint64_t address,
				   uint64_t count, enum openreg_dtype dtype, uint32_t root)
{
	const struct call call = { .kind = CALL_BROADCAST, .dtype = dtype, .count = count,
				   .root = root };
	uint64_t left = count * openreg_dtype_size(dtype);
	int ret = call_check(comm, dtype, count);

	if (!ret)
		ret = call_check_rank(comm, root);
	if (!ret)
		ret = call_begin(comm, &call);
	if (ret)
		return ret;
	while (left && !ret) {
		const uint64_t bytes = left < comm->slot_bytes ? left : comm->slot_bytes;

		if (comm->rank == root)
			ret = send_all(comm, 0, address, bytes);
		else
			ret = take_one(comm, root, 0, address, bytes);
		address += bytes;
		left -= bytes;
	}
	return call_end(comm, ret);
}

API int64_t openreg_comm_all_gather(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				    const uint64_t *counts, enum openreg_dtype dtype)
{
	struct call call = { .kind = CALL_ALL_GATHER, .dtype = dtype };
	int ret = call_check_counts(comm, counts, dtype, call.counts);
	struct parts p;

	if (!ret)
		ret = call_begin(comm, &call);
	if (ret)
		return ret;
	make_parts(comm, &p, counts, openreg_dtype_size(dtype));
	ret = p.num ? send_own(comm, &p, 0, src, 0) : 0;
	if (!ret)
		ret = push_copy(comm, part_at(&p, dst, comm->rank, 0), src,
				counts[comm->rank] * p.esize);
	for (uint64_t i = 0; i < p.num && !ret; i++) {
		if (i + 1 < p.num)
			ret = send_own(comm, &p, 0, src, i + 1);
		if (!ret)
			ret = take_all(comm, &p, 0, dst, i);
	}
	return call_end(comm, ret);
}

API int64_t openreg_comm_barrier(struct openreg_comm *comm)
{
	const struct call call = { .kind = CALL_BARRIER };
	int ret = call_begin(comm, &call);

	if (ret)
		return ret;
	ret = send_all(comm, 0, comm->pool_at, 0);
	for_peers(comm, r)
		ret = ret ? ret : take_one(comm, r, 0, comm->pool_at, 0);
	return call_end(comm, ret);
}
