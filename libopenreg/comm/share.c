// SPDX-License-Identifier: MIT
/* Descriptors that each rank gives to all others, over the communicator's sockets. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "comm.h"

int comm_send_all(struct openreg_comm *comm, const struct note *note, const int *fds,
		  const char *what)
{
	char text[TEXT_MAX];
	int ret;

	for_peers(comm, r) {
		ret = comm_send_note(comm, r, note, fds);
		/* The wait for a rank that has ended says so. */
		if (!ret || ret == -EPIPE || ret == -ECONNRESET)
			continue;
		snprintf(text, sizeof(text), "rank %u cannot send its %s to rank %u: %s",
			 comm->rank, what, r, comm_strerror(ret));
		return comm_break_with(comm, ret, text);
	}
	return 0;
}

int comm_take_note(struct openreg_comm *comm, uint32_t rank, enum note_kind kind,
		   const char *what, int64_t deadline, struct note *note)
{
	char text[TEXT_MAX];
	const int ret = comm_wait_note(comm, rank, kind, comm->collectives, deadline, note);

	if (ret != -ETIME)
		return ret;
	snprintf(text, sizeof(text),
		 "rank %u is late: rank %u has waited %.1f s for its %s; see what rank %u does",
		 rank, comm->rank, (double)comm->timeout_ns / 1e9, what, rank);
	return comm_break_with(comm, -ETIME, text);
}

static int fail_room(struct openreg_comm *comm, uint32_t rank)
{
	char text[TEXT_MAX];

	snprintf(text, sizeof(text),
		 "rank %u has no room for the descriptors of rank %u: raise the limit (ulimit -n)",
		 comm->rank, rank);
	return comm_break_with(comm, -EMFILE, text);
}

static int take(struct openreg_comm *comm, uint32_t rank, int64_t deadline,
		struct openreg_comm_shared *its)
{
	struct note note;
	const int ret = comm_take_note(comm, rank, NOTE_SHARE, "descriptors", deadline, &note);

	if (ret)
		return ret;
	if (note.fds[0] < 0 || note.fds[1] < 0) {
		sock_close_all(note.fds);
		return fail_room(comm, rank);
	}
	memcpy(its->fds, note.fds, sizeof(its->fds));
	memcpy(its->bytes, note.text, sizeof(its->bytes));
	if (comm->peers[rank].process < 0)
		return 0;
	its->process = fcntl(comm->peers[rank].process, F_DUPFD_CLOEXEC, 0);
	return its->process < 0 ? fail_room(comm, rank) : 0;
}

static int share(struct openreg_comm *comm, const struct openreg_comm_shared *mine,
		 struct openreg_comm_shared *all)
{
	struct note note = { .magic = NOTE_MAGIC, .kind = NOTE_SHARE,
			     .number = comm->collectives };
	const int64_t deadline = comm_now() + comm->timeout_ns;
	int ret;

	memcpy(note.text, mine->bytes, sizeof(mine->bytes));
	ret = comm_send_all(comm, &note, mine->fds, "descriptors");
	for_peers(comm, r)
		if (!ret)
			ret = take(comm, r, deadline, &all[r]);
	return ret;
}

API int openreg_comm_share(struct openreg_comm *comm, const struct openreg_comm_shared *mine,
			   struct openreg_comm_shared *all)
{
	const struct call call = { .kind = CALL_SHARE };
	int ret;

	for (uint32_t r = 0; r < comm->size; r++)
		all[r] = (struct openreg_comm_shared){ .fds = { -1, -1 }, .process = -1 };
	memcpy(all[comm->rank].bytes, mine->bytes, sizeof(mine->bytes));
	if (fcntl(mine->fds[0], F_GETFD) < 0 || fcntl(mine->fds[1], F_GETFD) < 0)
		return comm_fail(-EBADF, "openreg_comm_share() needs two open descriptors");
	ret = call_begin(comm, &call);
	if (ret)
		return ret;
	ret = share(comm, mine, all);
	call_submit(comm, 0);
	call_leave(comm);
	for (uint32_t r = 0; ret && r < comm->size; r++) {
		const int process[FDS] = { all[r].process, -1 };

		sock_close_all(all[r].fds);
		sock_close_all(process);
		all[r].fds[0] = all[r].fds[1] = all[r].process = -1;
	}
	return ret;
}
