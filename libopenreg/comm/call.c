// SPDX-License-Identifier: MIT
/* The beginning and the end of each call, and the checks of its arguments. */
#include <errno.h>

#include "comm.h"

int call_enter(struct openreg_comm *comm)
{
	if (!*comm->mine)
		return comm_fail_forked();
	if (comm->error)
		return comm_fail_broken(comm);
	if (atomic_exchange(&comm->busy, 1))
		return comm_fail(-EBUSY,
				 "two threads use the communicator at once: let one thread make all calls, or use a lock");
	return 0;
}

void call_leave(struct openreg_comm *comm)
{
	atomic_store(&comm->busy, 0);
	if (comm->error)
		comm_stop(comm);
}

/* After this, errors name the call. */
int call_record(struct openreg_comm *comm, const struct call *call)
{
	const bool collective = call->kind < CALL_SEND;
	struct record *rec;
	int ret;

	pthread_mutex_lock(&comm->lock);
	ret = comm->error ? comm_fail_broken(comm) : 0;
	if (!ret) {
		rec = &comm->records[++comm->calls % RECORDS];
		rec->kind = (enum call_kind)call->kind;
		rec->call = comm->calls;
		comm->collectives += collective;
		rec->number = collective ? comm->collectives : comm->calls - comm->collectives;
		rec->began = comm_now();
		rec->last = UINT64_MAX;
		rec->root = call->root;
		rec->count = call->count;
		for (uint32_t r = 0; r < comm->size; r++)
			for (unsigned int ch = 0; ch < CHANNELS; ch++) {
				rec->from[r][ch] = comm->peers[r].received[ch];
				rec->to[r][ch] = comm->peers[r].sent[ch];
			}
		comm->signature = sign_call(comm, call);
		if (collective)
			board_call(comm, call);
	}
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

int call_begin(struct openreg_comm *comm, const struct call *call)
{
	int ret = call_enter(comm);

	if (ret)
		return ret;
	ret = exchange_flush(comm);
	if (!ret)
		ret = call_record(comm, call);
	if (ret)
		call_leave(comm);
	return ret;
}

/* Submits the packets of a recorded call. */
int64_t call_submit(struct openreg_comm *comm, int ret)
{
	int64_t seq = ret ? ret : openreg_queue_submit(comm->queue);

	if (seq < 0)
		return comm_break_call(comm, (int)seq);
	pthread_mutex_lock(&comm->lock);
	comm->records[comm->calls % RECORDS].last = (uint64_t)seq;
	pthread_mutex_unlock(&comm->lock);
	return seq;
}

int64_t call_end(struct openreg_comm *comm, int ret)
{
	const int64_t seq = call_submit(comm, ret);

	call_leave(comm);
	return seq;
}

int call_check(const struct openreg_comm *comm, enum openreg_dtype dtype, uint64_t count)
{
	const unsigned int esize = openreg_dtype_size(dtype);

	if (comm->error)
		return comm_fail_broken(comm);
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
		      enum openreg_dtype dtype, uint64_t *copy)
{
	uint64_t sum = 0;
	int ret = call_check(comm, dtype, 0);

	for (uint32_t r = 0; r < comm->size && !ret; r++) {
		ret = call_check(comm, dtype, counts[r]);
		sum += counts[r];
		copy[r] = counts[r];
	}
	return ret ? ret : call_check(comm, dtype, sum);
}
