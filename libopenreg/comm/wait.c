// SPDX-License-Identifier: MIT
/* Waiting for a collective, and finding the rank that keeps it from completing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm.h"

#define STEP_NS 20000000ll /* between two looks at the sockets */
#define GIVE_UP 0x70752d6576696721ull

/* What a rank sends that gives the communicator up. */
struct give_up {
	uint64_t magic;
	char text[TEXT_MAX];
};

int comm_break(struct openreg_comm *comm, int error, const char *text)
{
	struct give_up g = { .magic = GIVE_UP };

	if (!comm->error) {
		comm->error = error;
		snprintf(comm->text, sizeof(comm->text), "%s", text);
		snprintf(g.text, sizeof(g.text), "%s", text);
		for (uint32_t r = 0; r < comm->size; r++)
			if (comm->peers[r].sock >= 0)
				sock_send(comm->peers[r].sock, &g, sizeof(g), -1);
		openreg_queue_destroy(comm->queue);
		comm->queue = NULL;
	}
	return comm_fail(comm->error, "%s", comm->text);
}

/* The oldest collective that has not completed. */
static const struct record *pending(const struct openreg_comm *comm)
{
	const uint64_t done = openreg_queue_completed(comm->queue);
	uint64_t i = comm->collectives;

	while (i > 1 && comm->collectives - i < RECORDS - 1 &&
	       comm->records[(i - 1) % RECORDS].last > done)
		i--;
	return &comm->records[i % RECORDS];
}

static uint64_t word(const struct openreg_comm *comm, uint64_t off)
{
	return comm->words[off / 8];
}

/* Messages from a rank since the collective began, and how many it needs. */
static uint64_t arrived(const struct openreg_comm *comm, const struct record *rec,
			uint32_t rank, uint64_t *needed)
{
	const bool newest = rec->number == comm->collectives;
	uint64_t n = 0;

	*needed = 0;
	for (unsigned int ch = 0; ch < CHANNELS; ch++) {
		const uint64_t end = newest ? comm->peers[rank].received[ch] :
			comm->records[(rec->number + 1) % RECORDS].from[rank][ch];
		const uint64_t begin = rec->from[rank][ch];
		uint64_t got = word(comm, POOL_SENT(rank, ch));

		got = got < begin ? begin : got > end ? end : got;
		n += got - begin;
		*needed += end - begin;
	}
	return n;
}

/* Messages that the rank must take before this rank can go on. */
static bool is_full(const struct openreg_comm *comm, uint32_t rank)
{
	for (unsigned int ch = 0; ch < CHANNELS; ch++)
		if (comm->peers[rank].sent[ch] >
		    word(comm, POOL_TAKEN(rank, ch)) + SLOTS)
			return true;
	return false;
}

/* The other rank with most messages missing, or comm->size. */
static uint32_t latest(const struct openreg_comm *comm, const struct record *rec)
{
	uint32_t found = comm->size;
	uint64_t least = UINT64_MAX, needed;

	for (uint32_t r = 0; r < comm->size; r++) {
		const uint64_t n = arrived(comm, rec, r, &needed);

		if (r == comm->rank || n >= needed || n >= least)
			continue;
		least = n;
		found = r;
	}
	for (uint32_t r = 0; r < comm->size && found == comm->size; r++)
		if (r != comm->rank && is_full(comm, r))
			found = r;
	return found;
}

static int break_late(struct openreg_comm *comm)
{
	const struct record *rec = pending(comm);
	const uint32_t r = latest(comm, rec);
	char text[TEXT_MAX];
	uint64_t needed = 0, n;

	if (r == comm->size) {
		snprintf(text, sizeof(text),
			 "%s %" PRIu64 " of rank %u has not completed in %.1f s, although no rank is late: the card is busy or what the queue waits for has not come",
			 rec->name, rec->number, comm->rank, (double)comm->timeout_ns / 1e9);
		return comm_break(comm, -ETIME, text);
	}
	n = arrived(comm, rec, r, &needed);
	snprintf(text, sizeof(text),
		 "rank %u is late: rank %u has waited %.1f s in %s %" PRIu64 " (%" PRIu64 " of its %" PRIu64 " messages have come); see what rank %u does, and whether all ranks call the same collectives with the same counts",
		 r, comm->rank, (double)comm->timeout_ns / 1e9, rec->name, rec->number, n,
		 needed, r);
	return comm_break(comm, -ETIME, text);
}

/* A rank that has sent and taken all that the collective needs may leave. */
static bool is_needed(const struct openreg_comm *comm, uint32_t rank)
{
	uint64_t needed, n = arrived(comm, pending(comm), rank, &needed);

	return n < needed || is_full(comm, rank);
}

/* Returns 0, or an error if a rank has left. */
static int look_at(struct openreg_comm *comm, uint32_t rank)
{
	const struct record *rec = pending(comm);
	struct give_up g;
	char text[TEXT_MAX];
	int fd, ret = sock_recv(comm->peers[rank].sock, &g, sizeof(g), &fd, 0);

	if (fd >= 0)
		close(fd);
	if (ret == -ETIME)
		return 0;
	if (!ret && g.magic == GIVE_UP) {
		g.text[TEXT_MAX - 1] = 0;
		return comm_break(comm, -ECONNRESET, g.text);
	}
	if (!is_needed(comm, rank))
		return 0;
	snprintf(text, sizeof(text),
		 "rank %u has ended: rank %u waited for it in %s %" PRIu64, rank, comm->rank,
		 rec->name, rec->number);
	return comm_break(comm, -ECONNRESET, text);
}

static int look_at_all(struct openreg_comm *comm)
{
	int ret = 0;

	for (uint32_t r = 0; r < comm->size && !ret; r++)
		if (comm->peers[r].sock >= 0)
			ret = look_at(comm, r);
	return ret;
}

static int break_fault(struct openreg_comm *comm, int error)
{
	const struct record *rec = pending(comm);
	char text[TEXT_MAX];

	snprintf(text, sizeof(text), "%s %" PRIu64 " of rank %u failed: %s", rec->name,
		 rec->number, comm->rank, openreg_last_error());
	return comm_break(comm, error, text);
}

int comm_break_push(struct openreg_comm *comm, int error)
{
	int ret = error == -ETIME ? look_at_all(comm) : break_fault(comm, error);

	return ret ? ret : break_late(comm);
}

API int openreg_comm_wait(struct openreg_comm *comm, int64_t seq)
{
	const int64_t deadline = comm_now() + comm->timeout_ns;
	int ret;

	if (comm->error)
		return comm_fail(-EIO, "the communicator is broken, create a new one: %s",
				 comm->text);
	if (seq < 0)
		return comm_fail(-EINVAL, "the collective failed: there is nothing to wait for");
	do {
		ret = openreg_queue_wait(comm->queue, (uint64_t)seq, STEP_NS);
		if (!ret)
			return 0;
		if (ret != -ETIME)
			return break_fault(comm, ret);
		ret = look_at_all(comm);
		if (ret)
			return ret;
	} while (comm_now() < deadline);
	return break_late(comm);
}
