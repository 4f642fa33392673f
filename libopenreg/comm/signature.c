// SPDX-License-Identifier: MIT
/*
 * Signatures. A message has a signature of the call that it belongs to and of its size. The
 * receiver's card waits for exactly this signature. So the message of another call does not
 * reach the result, but for one in 2^24: the receiver waits until its host has compared the
 * boards.
 */
#include "comm.h"

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

uint64_t sign_call(const struct openreg_comm *comm, const struct call *call)
{
	uint64_t hash = mix(1, comm->collectives);

	hash = mix(hash, call->kind);
	hash = mix(hash, call->dtype);
	hash = mix(hash, call->op);
	hash = mix(hash, call->root);
	hash = mix(hash, call->count);
	/* Each rank has counts of its own in an all_to_all. */
	for (uint32_t r = 0; r < comm->size && call->kind != CALL_ALL_TO_ALL; r++)
		hash = mix(hash, call->counts[r]);
	return hash;
}

uint64_t sign_message(uint64_t count, enum openreg_dtype dtype)
{
	return mix(mix(2, count), dtype);
}

uint64_t sent_word(const struct openreg_comm *comm, uint64_t message, uint64_t bytes)
{
	return (message + 1) << SIGNATURE_BITS |
	       mix(comm->signature, bytes) >> (64 - SIGNATURE_BITS);
}
