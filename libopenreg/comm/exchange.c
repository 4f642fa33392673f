// SPDX-License-Identifier: MIT
/*
 * Exchanges: send, recv, gather, scatter, all_to_all, and groups of sends and receives.
 *
 * What a rank sends to another rank in one exchange is a stream of ranges, in pieces that
 * fit a slot. In each round a rank sends a piece to each rank, and takes a piece from
 * each. As a piece waits only for earlier rounds, ranks that both send first do not wait
 * for each other.
 */
#include <errno.h>
#include <stdlib.h>

#include "comm.h"

static int add(struct openreg_comm *comm, struct stream *s, uint64_t at, uint64_t bytes)
{
	struct exchange *ex = &comm->exchange;
	struct range *ranges;

	if (!bytes)
		return 0;
	if (ex->num == ex->room) {
		const uint32_t room = ex->room ? 2 * ex->room : 32;

		ranges = realloc(ex->ranges, room * sizeof(*ranges));
		if (!ranges)
			return comm_fail(-ENOMEM, "out of memory");
		ex->ranges = ranges;
		ex->room = room;
	}
	ex->ranges[ex->num] = (struct range){ at, bytes, comm->signature, 0 };
	/* Numbers count from 1: 0 is none. */
	ex->num++;
	if (s->last)
		ex->ranges[s->last - 1].next = ex->num;
	else
		s->first = ex->num;
	s->last = ex->num;
	return 0;
}

static int add_send(struct openreg_comm *comm, uint32_t to, uint64_t at, uint64_t bytes)
{
	return add(comm, &comm->exchange.sends[to], at, bytes);
}

static int add_receive(struct openreg_comm *comm, uint32_t from, uint64_t at, uint64_t bytes)
{
	return add(comm, &comm->exchange.receives[from], at, bytes);
}

/*
 * Takes up to most bytes of the stream's first range, and its signature. 0: the stream has
 * ended.
 */
static uint64_t take(struct openreg_comm *comm, struct stream *s, uint64_t most, uint64_t *at)
{
	struct exchange *ex = &comm->exchange;
	struct range *r;
	uint64_t bytes;

	if (!s->first)
		return 0;
	r = &ex->ranges[s->first - 1];
	bytes = r->left < most ? r->left : most;
	*at = r->at;
	comm->signature = r->signature;
	r->at += bytes;
	r->left -= bytes;
	if (!r->left)
		s->first = r->next;
	return bytes;
}

static uint64_t first_bytes(const struct exchange *ex, const struct stream *s)
{
	return s->first ? ex->ranges[s->first - 1].left : 0;
}

/* What the rank sends to itself. The two streams have the same length. */
static int copy_own(struct openreg_comm *comm)
{
	struct exchange *ex = &comm->exchange;
	struct stream *from = &ex->sends[comm->rank], *to = &ex->receives[comm->rank];
	uint64_t src, dst, bytes;
	int ret = 0;

	while (!ret && from->first && to->first) {
		bytes = first_bytes(ex, from);
		if (bytes > first_bytes(ex, to))
			bytes = first_bytes(ex, to);
		take(comm, from, bytes, &src);
		take(comm, to, bytes, &dst);
		ret = push_copy(comm, dst, src, bytes);
	}
	return ret;
}

static int send_round(struct openreg_comm *comm)
{
	uint64_t at, bytes;
	int ret = 0;

	for_peers(comm, r) {
		bytes = take(comm, &comm->exchange.sends[r], comm->slot_bytes, &at);
		if (bytes && !ret)
			ret = push_send(comm, r, 0, at, bytes);
	}
	return ret;
}

static int take_round(struct openreg_comm *comm)
{
	uint64_t at, bytes;
	int ret = 0;

	for_peers(comm, r) {
		bytes = take(comm, &comm->exchange.receives[r], comm->slot_bytes, &at);
		if (bytes && !ret)
			ret = take_one(comm, r, 0, at, bytes);
	}
	return ret;
}

static bool has_ended(const struct openreg_comm *comm)
{
	for_peers(comm, r)
		if (comm->exchange.sends[r].first || comm->exchange.receives[r].first)
			return false;
	return true;
}

static void clear(struct openreg_comm *comm)
{
	struct exchange *ex = &comm->exchange;

	ex->num = 0;
	for (uint32_t r = 0; r < comm->size; r++)
		ex->sends[r] = ex->receives[r] = (struct stream){ 0 };
}

/* Each round sends a piece before it takes the piece of the round before. */
static int run(struct openreg_comm *comm)
{
	int ret = copy_own(comm);

	if (!ret)
		ret = send_round(comm);
	while (!ret && !has_ended(comm)) {
		ret = send_round(comm);
		if (!ret)
			ret = take_round(comm);
	}
	clear(comm);
	return ret;
}

void exchange_free(struct openreg_comm *comm)
{
	free(comm->exchange.ranges);
}

/* Ends at an error, and also if the rank sends to itself more or less than it receives. */
static int check_own(const struct openreg_comm *comm)
{
	const struct exchange *ex = &comm->exchange;
	uint64_t sent = 0, received = 0;

	for (uint32_t i = ex->sends[comm->rank].first; i; i = ex->ranges[i - 1].next)
		sent += ex->ranges[i - 1].left;
	for (uint32_t i = ex->receives[comm->rank].first; i; i = ex->ranges[i - 1].next)
		received += ex->ranges[i - 1].left;
	return sent == received ? 0 :
	       comm_fail(-EINVAL, "rank %u sends %llu bytes to itself in a group and receives %llu",
			 comm->rank, (unsigned long long)sent, (unsigned long long)received);
}

int exchange_flush(struct openreg_comm *comm)
{
	static const struct call call = { .kind = CALL_GROUP };
	int64_t seq;
	int ret;

	if (!comm->exchange.num)
		return 0;
	ret = check_own(comm);
	if (!ret)
		ret = call_record(comm, &call);
	if (ret) {
		clear(comm);
		return ret;
	}
	seq = call_submit(comm, run(comm));
	return seq < 0 ? (int)seq : 0;
}

/* ---- the calls --------------------------------------------------------- */

/* Inside a group the message waits for the group's end. */
static int64_t message(struct openreg_comm *comm, enum direction dir, uint64_t at,
		       uint64_t count, enum openreg_dtype dtype, uint32_t rank)
{
	const struct call call = { .kind = dir == SENT ? CALL_SEND : CALL_RECV };
	const uint64_t bytes = count * openreg_dtype_size(dtype);
	int ret = call_check(comm, dtype, count);

	if (!ret)
		ret = call_check_rank(comm, rank);
	if (!ret)
		ret = call_enter(comm);
	if (ret)
		return ret;
	if (rank == comm->rank && !comm->group)
		ret = comm_fail(-EINVAL,
				"rank %u cannot send to itself outside a group: copy, or begin a group",
				rank);
	else if (!comm->group)
		ret = call_record(comm, &call);
	comm->signature = sign_message(count, dtype);
	if (!ret)
		ret = dir == SENT ? add_send(comm, rank, at, bytes) :
				    add_receive(comm, rank, at, bytes);
	if (!ret && rank != comm->rank)
		board_message(comm, rank, dir, count, dtype);
	if (!ret && !comm->group)
		return call_end(comm, run(comm));
	call_leave(comm);
	return ret;
}

API int64_t openreg_comm_send(struct openreg_comm *comm, uint64_t src, uint64_t count,
			      enum openreg_dtype dtype, uint32_t to)
{
	return message(comm, SENT, src, count, dtype, to);
}

API int64_t openreg_comm_recv(struct openreg_comm *comm, uint64_t dst, uint64_t count,
			      enum openreg_dtype dtype, uint32_t from)
{
	return message(comm, TAKEN, dst, count, dtype, from);
}

API int openreg_comm_group_begin(struct openreg_comm *comm)
{
	int ret = call_enter(comm);

	if (ret)
		return ret;
	comm->group++;
	call_leave(comm);
	return 0;
}

API int64_t openreg_comm_group_end(struct openreg_comm *comm)
{
	int64_t seq = call_enter(comm);

	if (seq)
		return seq;
	if (!comm->group)
		seq = comm_fail(-EINVAL, "the group has not begun: call openreg_comm_group_begin() first");
	else if (!--comm->group)
		seq = exchange_flush(comm);
	if (!seq)
		seq = (int64_t)openreg_queue_submitted(comm->queue);
	call_leave(comm);
	return seq;
}

API int64_t openreg_comm_gather(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				const uint64_t *counts, enum openreg_dtype dtype,
				uint32_t root)
{
	struct call call = { .kind = CALL_GATHER, .dtype = dtype, .root = root };
	const uint64_t esize = openreg_dtype_size(dtype);
	int ret = call_check_counts(comm, counts, dtype, call.counts);

	if (!ret)
		ret = call_check_rank(comm, root);
	if (!ret)
		ret = call_begin(comm, &call);
	if (ret)
		return ret;
	ret = add_send(comm, root, src, counts[comm->rank] * esize);
	for (uint32_t r = 0; r < comm->size && comm->rank == root && !ret; r++) {
		ret = add_receive(comm, r, dst, counts[r] * esize);
		dst += counts[r] * esize;
	}
	return call_end(comm, ret ? ret : run(comm));
}

API int64_t openreg_comm_scatter(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				 const uint64_t *counts, enum openreg_dtype dtype,
				 uint32_t root)
{
	struct call call = { .kind = CALL_SCATTER, .dtype = dtype, .root = root };
	const uint64_t esize = openreg_dtype_size(dtype);
	int ret = call_check_counts(comm, counts, dtype, call.counts);

	if (!ret)
		ret = call_check_rank(comm, root);
	if (!ret)
		ret = call_begin(comm, &call);
	if (ret)
		return ret;
	ret = add_receive(comm, root, dst, counts[comm->rank] * esize);
	for (uint32_t r = 0; r < comm->size && comm->rank == root && !ret; r++) {
		ret = add_send(comm, r, src, counts[r] * esize);
		src += counts[r] * esize;
	}
	return call_end(comm, ret ? ret : run(comm));
}

static int check_all_to_all(const struct openreg_comm *comm, uint64_t dst, uint64_t src,
			    const uint64_t *receives, const uint64_t *sends,
			    struct call *call)
{
	const enum openreg_dtype dtype = (enum openreg_dtype)call->dtype;
	int ret = call_check_counts(comm, receives, dtype, call->counts);

	if (!ret)
		ret = call_check_counts(comm, sends, dtype, call->sends);
	if (!ret && dst && dst == src && comm->size > 1)
		ret = comm_fail(-EINVAL, "all_to_all cannot work in place: use other memory for dst");
	if (!ret && receives[comm->rank] != sends[comm->rank])
		ret = comm_fail(-EINVAL,
				"rank %u sends %llu elements to itself and receives %llu: the two counts must be equal",
				comm->rank, (unsigned long long)sends[comm->rank],
				(unsigned long long)receives[comm->rank]);
	return ret;
}

API int64_t openreg_comm_all_to_all(struct openreg_comm *comm, uint64_t dst, uint64_t src,
				    const uint64_t *receives, const uint64_t *sends,
				    enum openreg_dtype dtype)
{
	const uint64_t esize = openreg_dtype_size(dtype);
	struct call call = { .kind = CALL_ALL_TO_ALL, .dtype = dtype };
	int ret = check_all_to_all(comm, dst, src, receives, sends, &call);

	if (!ret)
		ret = call_begin(comm, &call);
	if (ret)
		return ret;
	for (uint32_t r = 0; r < comm->size && !ret; r++) {
		ret = add_send(comm, r, src, sends[r] * esize);
		if (!ret)
			ret = add_receive(comm, r, dst, receives[r] * esize);
		src += sends[r] * esize;
		dst += receives[r] * esize;
	}
	return call_end(comm, ret ? ret : run(comm));
}
