// SPDX-License-Identifier: MIT
/* The beginning and the end of each call, and the checks of its arguments. */
#include <errno.h>

#include "comm.h"

static int fail_broken(const struct openreg_comm *comm)
{
	return comm_fail(-EIO, "the communicator is broken, create a new one: %s", comm->text);
}

int call_begin(struct openreg_comm *comm, const char *name)
{
	struct record *rec = &comm->records[(comm->collectives + 1) % RECORDS];

	if (comm->error)
		return fail_broken(comm);
	comm->collectives++;
	rec->name = name;
	rec->number = comm->collectives;
	rec->last = UINT64_MAX;
	for (uint32_t r = 0; r < comm->size; r++)
		for (unsigned int ch = 0; ch < CHANNELS; ch++)
			rec->from[r][ch] = comm->peers[r].received[ch];
	return 0;
}

int64_t call_end(struct openreg_comm *comm, int ret)
{
	int64_t seq = ret ? ret : openreg_queue_submit(comm->queue);

	if (seq < 0)
		return comm_break_push(comm, (int)seq);
	comm->records[comm->collectives % RECORDS].last = (uint64_t)seq;
	return seq;
}

int call_check(const struct openreg_comm *comm, enum openreg_dtype dtype, uint64_t count)
{
	const unsigned int esize = openreg_dtype_size(dtype);

	if (comm->error)
		return fail_broken(comm);
	if (!esize)
		return comm_fail(-EINVAL, "dtype %d has no size", (int)dtype);
	if (count > (1ull << OPENREG_ADDR_OFFSET_BITS) / esize)
		return comm_fail(-EINVAL, "%llu elements are more than a card has",
				 (unsigned long long)count);
	return 0;
}

int call_check_rank(const struct openreg_comm *comm, uint32_t rank)
{
	return rank < comm->size ? 0 :
	       comm_fail(-EINVAL, "there is no rank %u: the communicator has %u", rank,
			 comm->size);
}

int call_check_counts(const struct openreg_comm *comm, const uint64_t *counts,
		      enum openreg_dtype dtype)
{
	uint64_t sum = 0;
	int ret = call_check(comm, dtype, 0);

	for (uint32_t r = 0; r < comm->size && !ret; r++) {
		ret = call_check(comm, dtype, counts[r]);
		sum += counts[r];
	}
	return ret ? ret : call_check(comm, dtype, sum);
}
