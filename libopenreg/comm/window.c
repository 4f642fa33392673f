// SPDX-License-Identifier: MIT
/*
 * Windows: memory of a rank that the other ranks write without a call of that rank. A put is
 * a COPY into its memory. A signal raises a word in its pool, in the order of the puts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm.h"

/* What a rank tells the others, with a descriptor of the memory. 0 bytes: it has none. */
struct window_text {
	uint64_t offset, bytes;
};

void window_free(struct openreg_comm *comm)
{
	for (uint32_t r = 0; r < comm->size; r++) {
		struct window *w = &comm->peers[r].window;

		openreg_bo_free(w->bo);
		*w = (struct window){ 0 };
	}
}

/* The other ranks replace their windows only after this rank has done its puts. */
static int finish_puts(struct openreg_comm *comm)
{
	const int64_t seq = openreg_queue_submit(comm->queue);

	return seq < 0 ? comm_break_call(comm, (int)seq) :
			 comm_wait_for(comm, (uint64_t)seq, comm->timeout_ns);
}

static int send_window(struct openreg_comm *comm, int fd, const struct window_text *window)
{
	const int fds[FDS] = { fd, fd };
	struct note note = { .magic = NOTE_MAGIC, .kind = NOTE_WINDOW,
			     .number = comm->collectives };

	memcpy(note.text, window, sizeof(*window));
	return comm_send_all(comm, &note, window->bytes ? fds : NULL, "window");
}

/* Takes the note's descriptors, which are the same. */
static int open_window(struct openreg_comm *comm, struct window *w, const struct note *note)
{
	struct window_text text;
	int ret = 0;

	memcpy(&text, note->text, sizeof(text));
	*w = (struct window){ .bytes = text.bytes };
	if (note->fds[0] >= 0) {
		ret = openreg_bo_import(comm->dev, note->fds[0], &w->bo);
		sock_close_all(note->fds);
	} else if (text.bytes) {
		ret = -EMFILE; /* the kernel had no room for the descriptor */
	}
	if (!ret && w->bo && (text.offset > openreg_bo_size(w->bo) ||
			      text.bytes > openreg_bo_size(w->bo) - text.offset))
		ret = -EPROTO;
	if (!ret && w->bo)
		w->at = openreg_bo_address(w->bo) + text.offset;
	if (ret) {
		openreg_bo_free(w->bo);
		*w = (struct window){ 0 };
	}
	return ret;
}

static int take_windows(struct openreg_comm *comm)
{
	const int64_t deadline = comm_now() + comm->timeout_ns;
	char text[TEXT_MAX];
	struct note note;
	int ret;

	for_peers(comm, r) {
		ret = comm_take_note(comm, r, NOTE_WINDOW, "window", deadline, &note);
		if (ret)
			return ret;
		ret = open_window(comm, &comm->peers[r].window, &note);
		if (ret) {
			snprintf(text, sizeof(text),
				 "rank %u cannot use the window of rank %u: %s", comm->rank, r,
				 comm_strerror(ret));
			return comm_break_with(comm, ret, text);
		}
	}
	return 0;
}

static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ENOSPC;
}

/* Opens this rank's window. After an error it has none. */
static int open_own(struct openreg_comm *comm, int fd, const struct window_text *text)
{
	struct note note = { .fds = { -1, -1 } };
	int ret = 0;

	memcpy(note.text, text, sizeof(*text));
	if (text->bytes) {
		note.fds[0] = dup(fd);
		if (note.fds[0] < 0)
			return comm_fail(-errno, "rank %u cannot use the window's descriptor: %s",
					 comm->rank, comm_strerror(-errno));
	}
	ret = open_window(comm, &comm->peers[comm->rank].window, &note);
	if (is_shortage(ret))
		return comm_fail(ret, "rank %u cannot use its window: %s", comm->rank,
				 comm_strerror(ret));
	return ret ? comm_fail(ret, "the window is no memory of a card, or is smaller than offset and bytes") :
		     0;
}

API int openreg_comm_window(struct openreg_comm *comm, int fd, uint64_t offset,
			    uint64_t bytes)
{
	const struct call call = { .kind = CALL_WINDOW };
	const struct window_text mine = { offset, fd < 0 ? 0 : bytes }, none = { 0 };
	int ret, bad = 0;

	if (fd >= 0 && !bytes)
		return comm_fail(-EINVAL, "a window of 0 bytes: give -1 for none");
	ret = call_begin(comm, &call);
	if (ret)
		return ret;
	ret = finish_puts(comm);
	if (!ret) {
		window_free(comm);
		bad = open_own(comm, fd, &mine);
		/* After a wrong argument of this rank, the others have their windows. */
		if (is_shortage(bad))
			ret = comm_break_with(comm, bad, openreg_comm_last_error());
		else
			ret = send_window(comm, fd, bad ? &none : &mine);
	}
	if (!ret)
		ret = take_windows(comm);
	call_submit(comm, 0);
	call_leave(comm);
	return ret ? ret : bad;
}

API uint64_t openreg_comm_window_bytes(const struct openreg_comm *comm, uint32_t rank)
{
	return rank < comm->size ? comm->peers[rank].window.bytes : 0;
}

API int64_t openreg_comm_put(struct openreg_comm *comm, uint32_t rank, uint64_t offset,
			     uint64_t src, uint64_t bytes)
{
	const struct call call = { .kind = CALL_PUT, .root = rank };
	const struct window *w;
	int ret = call_check_rank(comm, rank);

	if (!ret)
		ret = call_begin(comm, &call);
	if (ret)
		return ret;
	w = &comm->peers[rank].window;
	if (offset <= w->bytes && bytes <= w->bytes - offset)
		return call_end(comm, push_copy(comm, w->at + offset, src, bytes));
	ret = comm_fail(-EINVAL, "put of %llu bytes at offset %llu: the window of rank %u has %llu",
			(unsigned long long)bytes, (unsigned long long)offset, rank,
			(unsigned long long)w->bytes);
	call_submit(comm, 0);
	call_leave(comm);
	return ret;
}

API int64_t openreg_comm_signal(struct openreg_comm *comm, uint32_t rank)
{
	const struct call call = { .kind = CALL_SIGNAL, .root = rank };
	uint64_t pool;
	int ret = call_check_rank(comm, rank);

	if (!ret)
		ret = call_begin(comm, &call);
	if (ret)
		return ret;
	pool = rank == comm->rank ? comm->pool_at : comm->peers[rank].pool;
	return call_end(comm, push_signal(comm, pool + POOL_SIGNAL(comm->rank),
					  ++comm->peers[rank].signals_sent));
}

API int64_t openreg_comm_wait_signal(struct openreg_comm *comm, uint32_t rank)
{
	struct call call = { .kind = CALL_WAIT_SIGNAL, .root = rank };
	int ret = call_check_rank(comm, rank);

	if (!ret)
		ret = call_enter(comm);
	if (ret)
		return ret;
	call.count = comm->peers[rank].signals_taken + 1;
	ret = exchange_flush(comm);
	if (!ret)
		ret = call_record(comm, &call);
	if (ret) {
		call_leave(comm);
		return ret;
	}
	comm->peers[rank].signals_taken++;
	return call_end(comm, push_wait(comm, comm->pool_at + POOL_SIGNAL(rank),
					OPENREG_WAIT_GE, call.count));
}
