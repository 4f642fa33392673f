// SPDX-License-Identifier: MIT
/* The packets of a message, and of a reduction. */
#include "comm.h"

static uint64_t slot(const struct openreg_comm *comm, uint64_t pool, uint32_t from,
		     unsigned int ch, uint64_t message)
{
	return pool + POOL_SLOTS +
	       ((from * CHANNELS + ch) * SLOTS + message % SLOTS) * comm->slot_bytes;
}

int push_copy(struct openreg_comm *comm, uint64_t dst, uint64_t src, uint64_t bytes)
{
	const int64_t size = (int64_t)bytes;
	struct openreg_tensor d = openreg_view(dst, OPENREG_U8, NULL);
	struct openreg_tensor s = openreg_view(src, OPENREG_U8, NULL);

	return bytes && dst != src ? openreg_push_copy(comm->queue, 1, &size, &d, &s) : 0;
}

int push_send(struct openreg_comm *comm, uint32_t to, unsigned int ch, uint64_t src,
	      uint64_t bytes)
{
	struct peer *p = &comm->peers[to];
	const uint64_t message = p->sent[ch]++;
	int ret = 0;

	if (message >= SLOTS)
		ret = openreg_push_wait(comm->queue, comm->pool_at + POOL_TAKEN(to, ch),
					OPENREG_WAIT_GE, message + 1 - SLOTS);
	if (!ret)
		ret = push_copy(comm, slot(comm, p->pool, comm->rank, ch, message), src,
				bytes);
	if (!ret)
		ret = openreg_push_signal(comm->queue, p->pool + POOL_SENT(comm->rank, ch),
					  OPENREG_SIGNAL_SET, message + 1);
	return ret;
}

int push_receive(struct openreg_comm *comm, uint32_t from, unsigned int ch, uint64_t *at)
{
	const uint64_t message = comm->peers[from].received[ch]++;

	*at = slot(comm, comm->pool_at, from, ch, message);
	return openreg_push_wait(comm->queue, comm->pool_at + POOL_SENT(from, ch),
				 OPENREG_WAIT_GE, message + 1);
}

int push_taken(struct openreg_comm *comm, uint32_t from, unsigned int ch)
{
	struct peer *p = &comm->peers[from];

	return openreg_push_signal(comm->queue, p->pool + POOL_TAKEN(comm->rank, ch),
				   OPENREG_SIGNAL_SET, p->received[ch]);
}

static unsigned int type_of(enum openreg_dtype dtype)
{
	switch (dtype) {
	case OPENREG_F64:
		return OPENREG_VT_F64;
	case OPENREG_I32:
		return OPENREG_VT_I32;
	case OPENREG_I64:
		return OPENREG_VT_I64;
	default:
		return OPENREG_VT_F32;
	}
}

int push_reduce(struct openreg_comm *comm, uint64_t dst, const uint64_t *parts,
		uint64_t count, enum openreg_dtype dtype, enum openreg_comm_op op)
{
	static const unsigned int codes[] = {
		[OPENREG_COMM_SUM] = OPENREG_V_ADD,
		[OPENREG_COMM_PROD] = OPENREG_V_MUL,
		[OPENREG_COMM_MIN] = OPENREG_V_MIN,
		[OPENREG_COMM_MAX] = OPENREG_V_MAX,
	};
	struct openreg_tensor ops[1 + OPENREG_COMM_RANKS_MAX];
	struct openreg_instr program[2 * OPENREG_COMM_RANKS_MAX];
	const int64_t size = (int64_t)count;
	const unsigned int type = type_of(dtype);
	unsigned int n = 0;

	ops[0] = openreg_view(dst, dtype, NULL);
	for (unsigned int r = 0; r < comm->size; r++) {
		ops[1 + r] = openreg_view(parts[r], dtype, NULL);
		program[n++] = openreg_ins(OPENREG_V_LOAD, type, r ? 1 : 0, 0, 0, 0, 1 + r);
		if (r)
			program[n++] = openreg_ins(codes[op], type, 0, 0, 1, 0, 0);
	}
	program[n++] = openreg_ins(OPENREG_V_STORE, type, 0, 0, 0, 0, 0);

	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 1,
		.size = &size,
		.nops = (uint8_t)(1 + comm->size),
		.ops = ops,
		.ninstr = (uint8_t)n,
		.instr = program,
	};

	return openreg_push(comm->queue, &cmd);
}
