// SPDX-License-Identifier: MIT
/* Splitting a communicator: the ranks exchange colors, and then meet, over its sockets. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm.h"

#define STEP_MS 20

/* The ranks of the parent that are in the new communicator, in order. */
struct members {
	struct openreg_comm *parent;
	uint64_t number; /* of the split */
	int64_t deadline;
	uint32_t size, rank;
	uint32_t ranks[OPENREG_COMM_RANKS_MAX];
	struct note colors[OPENREG_COMM_RANKS_MAX];
};

static void drop_note(struct note *note)
{
	sock_close_all(note->fds);
	free(note);
}

/* Takes the note of this kind and number out of the list; false: it has not come. */
static bool take_note(struct peer *p, uint64_t kind, uint64_t number, struct note *note)
{
	for (struct note **at = &p->notes; *at;) {
		struct note *n = *at;
		const bool match = n->kind == kind && n->number == number;

		if (match) {
			*note = *n;
			n->fds[0] = n->fds[1] = -1;
		}
		/* An older one is of a call that failed. */
		if (match || n->number < number) {
			*at = n->next;
			drop_note(n);
		} else {
			at = &n->next;
		}
		if (match)
			return true;
	}
	return false;
}

void notes_free(struct openreg_comm *comm)
{
	for (uint32_t r = 0; r < comm->size; r++)
		while (comm->peers[r].notes) {
			struct note *n = comm->peers[r].notes;

			comm->peers[r].notes = n->next;
			drop_note(n);
		}
}

static void rest(const struct openreg_comm *comm, uint32_t rank)
{
	struct pollfd p = { .fd = comm->peers[rank].sock, .events = POLLIN };

	poll(&p, 1, STEP_MS);
}

int comm_wait_note(struct openreg_comm *comm, uint32_t rank, enum note_kind kind,
		   uint64_t number, int64_t deadline, struct note *note)
{
	char text[TEXT_MAX];
	bool found;
	int ret;

	for (;;) {
		pthread_mutex_lock(&comm->lock);
		ret = comm_look(comm);
		found = !ret && take_note(&comm->peers[rank], kind, number, note);
		/* The rank does not send the note any more. */
		if (!ret && !found && comm->peers[rank].gave_up)
			ret = comm_break(comm, comm->peers[rank].gave_up,
					 comm->peers[rank].why);
		if (!ret && !found && comm->peers[rank].ended) {
			snprintf(text, sizeof(text),
				 "rank %u has ended: rank %u waited for it in %s %" PRIu64,
				 rank, comm->rank,
				 call_name(comm->records[comm->calls % RECORDS].kind), number);
			ret = comm_break(comm, -ECONNRESET, text);
		}
		pthread_mutex_unlock(&comm->lock);
		if (ret || found)
			return ret;
		if (comm_now() >= deadline)
			return -ETIME;
		rest(comm, rank);
	}
}

int comm_send_note(struct openreg_comm *comm, uint32_t rank, const struct note *note,
		   const int *fds)
{
	return sock_send(comm->peers[rank].sock, note, sizeof(*note), fds);
}

static int exchange_colors(struct members *m, int32_t color, int32_t key)
{
	struct openreg_comm *comm = m->parent;
	const struct note mine = { .magic = NOTE_MAGIC, .kind = NOTE_COLOR,
				   .number = m->number, .color = color, .key = key };
	int ret = 0;

	m->colors[comm->rank] = mine;
	/* A rank that does not get the note has ended: the wait says so. */
	for_peers(comm, r)
		comm_send_note(comm, r, &mine, NULL);
	for_peers(comm, r)
		if (!ret)
			ret = comm_wait_note(comm, r, NOTE_COLOR, m->number, m->deadline,
					     &m->colors[r]);
	if (ret == -ETIME) {
		pthread_mutex_lock(&comm->lock);
		ret = comm_break_late(comm, comm->timeout_ns);
		pthread_mutex_unlock(&comm->lock);
	}
	return ret;
}

/* In the order of the keys; ranks with equal keys stay in their order. */
static void choose(struct members *m, int32_t color)
{
	const struct openreg_comm *comm = m->parent;

	for (uint32_t r = 0; r < comm->size; r++) {
		uint32_t at = m->size;

		if (m->colors[r].color != color)
			continue;
		for (; at && m->colors[m->ranks[at - 1]].key > m->colors[r].key; at--)
			m->ranks[at] = m->ranks[at - 1];
		m->ranks[at] = r;
		m->size++;
	}
	while (m->ranks[m->rank] != comm->rank)
		m->rank++;
}

/* The store of the new communicator: a value goes to all its ranks. */
static int set(void *opaque, const char *key, const void *value, size_t len)
{
	const struct members *m = opaque;
	struct note note = { .magic = NOTE_MAGIC, .kind = NOTE_VALUE, .number = m->number };

	(void)key;
	if (len > sizeof(note.text))
		return -ENOSPC;
	memcpy(note.text, value, len);
	for (uint32_t i = 0; i < m->size; i++)
		if (i != m->rank)
			comm_send_note(m->parent, m->ranks[i], &note, NULL);
	return 0;
}

/* The key ends in ".RANK". */
static int64_t get(void *opaque, const char *key, void *value, size_t len,
		   int64_t timeout_ns)
{
	const struct members *m = opaque;
	const char *dot = strrchr(key, '.');
	const unsigned long rank = dot ? strtoul(dot + 1, NULL, 10) : m->size;
	struct note note;
	int ret;

	if (rank >= m->size || len > sizeof(note.text))
		return -EINVAL;
	ret = comm_wait_note(m->parent, m->ranks[rank], NOTE_VALUE, m->number,
			     comm_now() + timeout_ns, &note);
	if (ret)
		return ret;
	memcpy(value, note.text, len);
	return (int64_t)len;
}

static int create(struct members *m, struct openreg_comm **out)
{
	const struct openreg_comm *comm = m->parent;
	const struct openreg_comm_store store = { .set = set, .get = get, .opaque = m };
	const struct openreg_comm_attr attr = {
		.rank = m->rank, .size = m->size, .name = "split",
		.timeout_ns = comm->timeout_ns, .slot_bytes = comm->slot_bytes,
		.one_shot_bytes = comm->one_shot_bytes, .priority = comm->priority,
	};

	return openreg_comm_create(comm->dev, &attr, &store, out);
}

API int openreg_comm_split(struct openreg_comm *comm, int32_t color, int32_t key,
			   struct openreg_comm **out)
{
	const struct call call = { .kind = CALL_SPLIT };
	struct members m = { .parent = comm };
	int ret = call_begin(comm, &call);

	*out = NULL;
	if (ret)
		return ret;
	m.number = comm->collectives;
	m.deadline = comm_now() + comm->timeout_ns;
	ret = exchange_colors(&m, color, key);
	if (!ret && color >= 0) {
		choose(&m, color);
		ret = create(&m, out);
	}
	call_submit(comm, 0);
	call_leave(comm);
	return ret;
}
