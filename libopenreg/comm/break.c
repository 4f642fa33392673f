// SPDX-License-Identifier: MIT
/* How a communicator breaks: a rank that ends, is late, or makes another call; a fault. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"

/* Collectives of this rank that have completed, or less if very many have not. */
static uint64_t completed(const struct openreg_comm *comm)
{
	const uint64_t done = openreg_queue_completed(comm->queue);
	uint64_t n = comm->collectives;

	for (uint64_t i = comm->calls; i && comm->calls - i < RECORDS; i--) {
		const struct record *rec = &comm->records[i % RECORDS];

		if (rec->last <= done)
			return n;
		n -= rec->kind < CALL_SEND;
	}
	return comm->calls < RECORDS ? n : 0;
}

int comm_break(struct openreg_comm *comm, int error, const char *text)
{
	struct note note = { .magic = NOTE_MAGIC, .kind = NOTE_GIVE_UP, .error = error };

	if (!comm->error) {
		note.number = completed(comm);
		snprintf(comm->text, sizeof(comm->text), "%s", text);
		snprintf(note.text, sizeof(note.text), "%s", text);
		for (uint32_t r = 0; r < comm->size; r++)
			if (comm->peers[r].sock >= 0)
				sock_send(comm->peers[r].sock, &note, sizeof(note), NULL);
		comm->error = error;
	}
	return comm_fail(comm->error, "%s", comm->text);
}

int comm_break_with(struct openreg_comm *comm, int error, const char *text)
{
	int ret;

	pthread_mutex_lock(&comm->lock);
	ret = comm_break(comm, error, text);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

/* A thread that waits looks at the error at least every 20 ms. */
void comm_stop(struct openreg_comm *comm)
{
	const struct timespec rest = { .tv_nsec = 100000 };
	struct openreg_queue *queue;

	while (atomic_exchange(&comm->busy, 1))
		nanosleep(&rest, NULL);
	while (atomic_load(&comm->waiters))
		nanosleep(&rest, NULL);
	pthread_mutex_lock(&comm->lock);
	queue = comm->queue;
	comm->queue = NULL;
	pthread_mutex_unlock(&comm->lock);
	openreg_queue_destroy(queue);
	atomic_store(&comm->busy, 0);
}

/* The oldest call that has not completed. */
static const struct record *pending(const struct openreg_comm *comm)
{
	const uint64_t done = openreg_queue_completed(comm->queue);
	uint64_t i = comm->calls;

	while (i > 1 && comm->calls - i < RECORDS - 1 &&
	       comm->records[(i - 1) % RECORDS].last > done)
		i--;
	return &comm->records[i % RECORDS];
}

/* Messages of a channel that have come. */
static uint64_t sent(const struct openreg_comm *comm, uint32_t rank, unsigned int ch)
{
	uint64_t most = 0;

	for (uint64_t slot = 0; slot < SLOTS; slot++) {
		const uint64_t n = pool_word(comm, POOL_SENT(rank, ch, slot)) >> SIGNATURE_BITS;

		most = n > most ? n : most;
	}
	return most;
}

/* Before the first call there is a record without a number. */
static const char *name_of(const struct record *rec)
{
	return rec->call ? call_name(rec->kind) : "start";
}

/* Messages from a rank since the call began, and how many it needs. */
static uint64_t arrived(const struct openreg_comm *comm, const struct record *rec,
			uint32_t rank, uint64_t *needed)
{
	const bool newest = rec->call == comm->calls;
	uint64_t n = 0;

	*needed = 0;
	for (unsigned int ch = 0; ch < CHANNELS; ch++) {
		const uint64_t end = newest ? comm->peers[rank].received[ch] :
			comm->records[(rec->call + 1) % RECORDS].from[rank][ch];
		const uint64_t begin = rec->from[rank][ch];
		uint64_t got = sent(comm, rank, ch);

		got = got < begin ? begin : got > end ? end : got;
		n += got - begin;
		*needed += end - begin;
	}
	return n;
}

/* Messages that the rank must take before this rank can complete the call. */
static bool is_full(const struct openreg_comm *comm, const struct record *rec, uint32_t rank)
{
	const bool newest = rec->call == comm->calls;

	for (unsigned int ch = 0; ch < CHANNELS; ch++) {
		const uint64_t end = newest ? comm->peers[rank].sent[ch] :
			comm->records[(rec->call + 1) % RECORDS].to[rank][ch];

		if (end > pool_word(comm, POOL_TAKEN(rank, ch)) + SLOTS)
			return true;
	}
	return false;
}

static bool lacks_signal(const struct openreg_comm *comm, const struct record *rec,
			 uint32_t rank)
{
	return rec->kind == CALL_WAIT_SIGNAL && rec->root == rank &&
	       pool_word(comm, POOL_SIGNAL(rank)) < rec->count;
}

static bool has_called(const struct openreg_comm *comm, const struct record *rec,
		       uint32_t rank)
{
	return rec->kind >= CALL_SEND || rank == comm->rank ||
	       atomic_load(&comm->peers[rank].board->collectives) >= rec->number;
}

/* A rank that has not made the call, else the one with most messages missing, or size. */
static uint32_t latest(const struct openreg_comm *comm, const struct record *rec)
{
	uint32_t found = comm->size;
	uint64_t least = UINT64_MAX, needed;

	for (uint32_t r = 0; r < comm->size; r++) {
		const uint64_t n = arrived(comm, rec, r, &needed);

		if (!has_called(comm, rec, r) || lacks_signal(comm, rec, r))
			return r;
		if (r == comm->rank || n >= needed || n >= least)
			continue;
		least = n;
		found = r;
	}
	for (uint32_t r = 0; r < comm->size && found == comm->size; r++)
		if (r != comm->rank && is_full(comm, rec, r))
			found = r;
	return found;
}

/* Seconds since the call began, or those of the caller if the call has completed. */
static double seconds_in(const struct openreg_comm *comm, const struct record *rec,
			 int64_t waited_ns)
{
	const bool waits = rec->call && rec->last > openreg_queue_completed(comm->queue);

	return (double)(waits ? comm_now() - rec->began : waited_ns) / 1e9;
}

int comm_break_late(struct openreg_comm *comm, int64_t waited_ns)
{
	const struct record *rec = pending(comm);
	const uint32_t r = latest(comm, rec);
	const double waited = seconds_in(comm, rec, waited_ns);
	const char *name = name_of(rec);
	char text[TEXT_MAX];
	uint64_t needed = 0, n;

	if (r == comm->size) {
		snprintf(text, sizeof(text),
			 "%s %" PRIu64 " of rank %u has not completed in %.1f s, although no rank is late: the card is busy or what the queue waits for has not come",
			 name, rec->number, comm->rank, waited);
		return comm_break(comm, -ETIME, text);
	}
	n = arrived(comm, rec, r, &needed);
	if (lacks_signal(comm, rec, r))
		snprintf(text, sizeof(text),
			 "rank %u is late: rank %u has waited %.1f s for its signal %" PRIu64 "; see what rank %u does",
			 r, comm->rank, waited, rec->count, r);
	else if (has_called(comm, rec, r))
		snprintf(text, sizeof(text),
			 "rank %u is late: rank %u has waited %.1f s in %s %" PRIu64 " (%" PRIu64 " of its %" PRIu64 " messages have come); see what rank %u does",
			 r, comm->rank, waited, name, rec->number, n, needed, r);
	else
		snprintf(text, sizeof(text),
			 "rank %u is late: rank %u has waited %.1f s in %s %" PRIu64 ", but rank %u has made only %" PRIu64 " collective calls; see what rank %u does",
			 r, comm->rank, waited, name, rec->number, r,
			 atomic_load(&comm->peers[r].board->collectives), r);
	return comm_break(comm, -ETIME, text);
}

/* A rank that has sent and taken all that the call needs may leave. */
static bool is_needed(const struct openreg_comm *comm, uint32_t rank)
{
	const struct record *rec = pending(comm);
	uint64_t needed, n = arrived(comm, rec, rank, &needed);

	return n < needed || is_full(comm, rec, rank) || lacks_signal(comm, rec, rank);
}

/* A note of a call stays until this rank makes the call, too. */
static int keep(struct openreg_comm *comm, uint32_t rank, const struct note *note)
{
	struct note **at = &comm->peers[rank].notes;
	struct note *copy = malloc(sizeof(*copy));

	if (!copy) {
		sock_close_all(note->fds);
		return comm_break(comm, -ENOMEM, "out of memory");
	}
	*copy = *note;
	copy->next = NULL;
	while (*at)
		at = &(*at)->next;
	*at = copy;
	return 0;
}

static void note_give_up(struct peer *p, const struct note *note)
{
	p->gave_up = note->error == -EPROTO ? -EPROTO : -ECONNRESET;
	p->completed = note->number;
	snprintf(p->why, sizeof(p->why), "%.*s", TEXT_MAX - 1, note->text);
}

/*
 * A rank that gives up after a collective has sent and taken all of it: this rank completes
 * the collective without it.
 */
static int leave(struct openreg_comm *comm, uint32_t rank)
{
	const struct record *rec = pending(comm);
	const struct peer *p = &comm->peers[rank];

	if (p->gave_up != -EPROTO && rec->kind < CALL_SEND && rec->number <= p->completed)
		return 0;
	return comm_break(comm, p->gave_up, p->why);
}

/* Returns 0, or an error if a rank has left. */
static int look_at(struct openreg_comm *comm, uint32_t rank)
{
	const struct record *rec = pending(comm);
	struct peer *p = &comm->peers[rank];
	struct note note;
	char text[TEXT_MAX];
	int fds[FDS], ret;

	if (p->gave_up)
		return leave(comm, rank);
	ret = sock_recv(p->sock, &note, sizeof(note), fds, 0);
	if (ret == -EMFILE)
		ret = 0; /* the call that wants the descriptor says so */
	if (ret == -ETIME && !sock_process_ended(p->process))
		return 0;
	note.fds[0] = note.fds[1] = -1;
	if (!ret && note.magic == NOTE_MAGIC &&
	    (note.kind == NOTE_WINDOW || note.kind == NOTE_SHARE))
		memcpy(note.fds, fds, sizeof(fds));
	else
		sock_close_all(fds);
	if (!ret && note.magic == NOTE_MAGIC && note.kind == NOTE_GIVE_UP) {
		note_give_up(p, &note);
		return leave(comm, rank);
	}
	if (!ret && note.magic == NOTE_MAGIC)
		return keep(comm, rank, &note);
	p->ended = true;
	if (!is_needed(comm, rank))
		return 0;
	snprintf(text, sizeof(text),
		 "rank %u has ended: rank %u waited for it in %s %" PRIu64, rank, comm->rank,
		 name_of(rec), rec->number);
	return comm_break(comm, -ECONNRESET, text);
}

int comm_look(struct openreg_comm *comm)
{
	char text[TEXT_MAX];
	int ret = 0;

	if (comm->error)
		return comm_fail(comm->error, "%s", comm->text);
	if (board_differs(comm, text))
		return comm_break(comm, -EPROTO, text);
	for (uint32_t r = 0; r < comm->size && !ret; r++)
		if (comm->peers[r].sock >= 0)
			ret = look_at(comm, r);
	return ret;
}

int comm_break_fault(struct openreg_comm *comm, int error)
{
	const struct record *rec = pending(comm);
	char text[TEXT_MAX];

	snprintf(text, sizeof(text), "%s %" PRIu64 " of rank %u failed: %s",
		 name_of(rec), rec->number, comm->rank, openreg_last_error());
	return comm_break(comm, error, text);
}

API int openreg_comm_abort(struct openreg_comm *comm)
{
	char text[TEXT_MAX];

	if (!*comm->mine)
		return comm_fail_forked();
	snprintf(text, sizeof(text), "rank %u has aborted the communicator", comm->rank);
	pthread_mutex_lock(&comm->lock);
	comm_break(comm, -ECANCELED, text);
	pthread_mutex_unlock(&comm->lock);
	comm_stop(comm);
	return 0;
}
