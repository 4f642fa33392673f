// SPDX-License-Identifier: MIT
/* The packets of a message. */
#include "comm.h"

uint64_t pool_slot(const struct openreg_comm *comm, uint64_t pool, uint32_t from,
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

	int ret;

	if (!bytes || dst == src)
		return 0;
	ret = comm_room(comm);
	return ret ? ret : openreg_push_copy(comm->queue, 1, &size, &d, &s);
}

int push_wait(struct openreg_comm *comm, uint64_t word, enum openreg_wait how,
	      uint64_t value)
{
	int ret = comm_room(comm);

	return ret ? ret : openreg_push_wait(comm->queue, word, how, value);
}

int push_signal(struct openreg_comm *comm, uint64_t word, uint64_t value)
{
	int ret = comm_room(comm);

	return ret ? ret : openreg_push_signal(comm->queue, word, OPENREG_SIGNAL_SET, value);
}

int push_send(struct openreg_comm *comm, uint32_t to, unsigned int ch, uint64_t src,
	      uint64_t bytes)
{
	struct peer *p = &comm->peers[to];
	const uint64_t message = p->sent[ch]++;
	int ret = 0;

	/* No WAIT if the slot is free already, as it mostly is. */
	if (message >= SLOTS && pool_word(comm, POOL_TAKEN(to, ch)) < message + 1 - SLOTS)
		ret = push_wait(comm, comm->pool_at + POOL_TAKEN(to, ch), OPENREG_WAIT_GE,
				message + 1 - SLOTS);
	if (!ret)
		ret = push_copy(comm, pool_slot(comm, p->pool, comm->rank, ch, message),
				src, bytes);
	if (!ret)
		ret = push_signal(comm, p->pool + POOL_SENT(comm->rank, ch, message),
				  sent_word(comm, message, bytes));
	return ret;
}

/* The word keeps its value until this rank has taken the message. */
int push_receive(struct openreg_comm *comm, uint32_t from, unsigned int ch, uint64_t bytes,
		 uint64_t *at)
{
	const uint64_t message = comm->peers[from].received[ch]++;

	*at = pool_slot(comm, comm->pool_at, from, ch, message);
	return push_wait(comm, comm->pool_at + POOL_SENT(from, ch, message), OPENREG_WAIT_EQ,
			 sent_word(comm, message, bytes));
}

int push_taken(struct openreg_comm *comm, uint32_t from, unsigned int ch)
{
	struct peer *p = &comm->peers[from];

	return push_signal(comm, p->pool + POOL_TAKEN(comm->rank, ch), p->received[ch]);
}
