// SPDX-License-Identifier: MIT
/*
 * How the ranks meet. Each publishes a socket and a secret in the store. A rank connects
 * to all lower ranks, shows their secret, and the two exchange their pools. A rank that
 * fails tells the ranks that it has connected to why.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"

#define MAGIC 0x346d6d6f6367726full
#define ID_MAX 64
#define STRANGER_NS 1000000000ll /* a caller has this long to show the secret */

/* What a rank publishes. */
struct card_of_rank {
	uint64_t magic;
	char machine[ID_MAX];
	char path[112];
	uint8_t token[16];
};

int64_t comm_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int read_machine(char *id)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, id, ID_MAX - 1);
	close(fd);
	return n > 0 ? 0 : -EIO;
}

static int publish(struct openreg_comm *comm, const char *name,
		   const struct openreg_comm_store *store, const struct card_of_rank *me)
{
	char key[160];
	int ret;

	snprintf(key, sizeof(key), "%s.%u", name, comm->rank);
	ret = store->set(store->opaque, key, me, sizeof(*me));
	if (ret)
		return comm_fail(ret, "rank %u cannot write the store's key %s: %s",
				 comm->rank, key, comm_strerror(ret));
	return 0;
}

static int look_up(struct openreg_comm *comm, const char *name, uint32_t rank,
		   const struct openreg_comm_store *store, int64_t deadline,
		   struct card_of_rank *its)
{
	int64_t left = deadline - comm_now(), n;
	char key[160];

	snprintf(key, sizeof(key), "%s.%u", name, rank);
	n = store->get(store->opaque, key, its, sizeof(*its), left > 0 ? left : 0);
	if (n == -ETIME)
		return comm_fail(-ETIME,
				 "rank %u of %u has not come to communicator %s in %.1f s: see if it has ended or makes other calls, or set a longer timeout",
				 rank, comm->size, name, (double)comm->timeout_ns / 1e9);
	if (n < 0)
		return comm_fail((int)n, "rank %u cannot read the store's key %s: %s",
				 comm->rank, key, comm_strerror((int)n));
	if (n != sizeof(*its) || its->magic != MAGIC)
		return comm_fail(-EPROTO,
				 "the store's key %s is not of this version of openreg-comm",
				 key);
	its->machine[ID_MAX - 1] = 0;
	its->path[sizeof(its->path) - 1] = 0;
	return 0;
}

static int fail_meet(const struct openreg_comm *comm, uint32_t rank, int error)
{
	return comm_fail(error, "rank %u cannot meet rank %u: %s", comm->rank, rank,
			 error == -ETIME ? "it has not answered in time" :
			 error == -ECONNRESET ? "it has ended" :
			 error == -ECONNREFUSED ?
					   "it has ended, or is in another network namespace" :
					   comm_strerror(error));
}

/* A rank that gave up has said why. */
static int fail_as(int error, const char *text)
{
	return comm_fail(error == -EPROTO ? -EPROTO : -ECONNRESET, "%.*s", TEXT_MAX - 1, text);
}

static int use_pool(struct openreg_comm *comm, uint32_t rank, int sock, const int *fds)
{
	struct peer *p = &comm->peers[rank];
	int ret = openreg_bo_import(comm->dev, fds[0], &p->bo);

	if (ret)
		return comm_fail_card(ret, "rank %u cannot import the pool of rank %u",
				      comm->rank, rank);
	if (openreg_bo_size(p->bo) != openreg_bo_size(comm->pool))
		return comm_fail(-EPROTO, "rank %u has another pool than rank %u", rank,
				 comm->rank);
	ret = board_import(comm, rank, fds[1]);
	if (ret)
		return ret;
	p->process = sock_open_process(sock);
	/* Other errors are those of a kernel that does not show the process. */
	if (p->process == -EMFILE)
		return fail_meet(comm, rank, p->process);
	p->sock = sock;
	p->pool = openreg_bo_address(p->bo);
	return 0;
}

static bool same(const struct openreg_comm *comm, const struct hello *h)
{
	return h->magic == MAGIC && h->size == comm->size &&
	       h->slot_bytes == comm->slot_bytes && h->one_shot_bytes == comm->one_shot_bytes;
}

static int fail_same(const struct openreg_comm *comm, uint32_t rank)
{
	return comm_fail(-EPROTO,
			 "rank %u has another size, slot_bytes or one_shot_bytes than rank %u",
			 rank, comm->rank);
}

static void greet(const struct openreg_comm *comm, const uint8_t *token, struct hello *h)
{
	*h = (struct hello){
		.magic = MAGIC,
		.rank = comm->rank,
		.size = comm->size,
		.slot_bytes = comm->slot_bytes,
		.one_shot_bytes = comm->one_shot_bytes,
	};
	memcpy(h->token, token, sizeof(h->token));
}

/* Takes the answer on a new socket to a lower rank. */
static int finish_call(struct openreg_comm *comm, uint32_t rank, int sock,
		       int64_t deadline)
{
	struct hello h;
	int fds[FDS], ret = sock_recv(sock, &h, sizeof(h), fds, deadline);

	if (ret)
		ret = fail_meet(comm, rank, ret);
	else if (h.magic == MAGIC && h.error)
		ret = fail_as(h.error, h.text);
	else if (!same(comm, &h) || fds[1] < 0)
		ret = fail_same(comm, rank);
	else
		ret = use_pool(comm, rank, sock, fds);
	sock_close_all(fds);
	return ret;
}

static void send_give_up(int sock, int error)
{
	struct note note = { .magic = NOTE_MAGIC, .kind = NOTE_GIVE_UP, .error = error };

	snprintf(note.text, sizeof(note.text), "%s", openreg_comm_last_error());
	sock_send(sock, &note, sizeof(note), NULL);
}

static int call(struct openreg_comm *comm, uint32_t rank, const struct card_of_rank *its,
		const int *fds, int64_t deadline)
{
	struct hello h;
	int ret, sock = sock_connect(its->path, deadline);

	if (sock < 0)
		return fail_meet(comm, rank, sock);
	greet(comm, its->token, &h);
	ret = sock_send(sock, &h, sizeof(h), fds);
	/* A rank that has closed the socket may have sent the reason before. */
	if (ret == -EPIPE || ret == -ECONNRESET)
		ret = 0;
	ret = ret ? fail_meet(comm, rank, ret) : finish_call(comm, rank, sock, deadline);
	if (ret) {
		/* The other rank may know this one already. */
		send_give_up(sock, ret);
		close(sock);
	}
	return ret;
}

/* Takes the pool of a higher rank, and sends its own pool or the reason of a failure. */
static int greet_back(struct openreg_comm *comm, const struct card_of_rank *me,
		      const struct hello *h, int sock, int error, const int *its,
		      const int *fds)
{
	struct hello mine;
	int sent, ret;

	greet(comm, me->token, &mine);
	if (error)
		ret = fail_meet(comm, h->rank, error);
	else
		ret = same(comm, h) ? use_pool(comm, h->rank, sock, its) :
				      fail_same(comm, h->rank);
	if (ret) {
		mine.error = ret;
		snprintf(mine.text, sizeof(mine.text), "%s", openreg_comm_last_error());
	}
	sent = sock_send(sock, &mine, sizeof(mine), ret ? NULL : fds);
	if (!ret && sent) {
		comm->peers[h->rank].sock = -1; /* the caller closes it */
		ret = fail_meet(comm, h->rank, sent);
	}
	return ret;
}

/* Answers a call of a higher rank. Sets *known if it shows the secret. */
static int answer(struct openreg_comm *comm, const struct card_of_rank *me, int sock,
		  const int *fds, int64_t deadline, bool *known)
{
	const int64_t soon = comm_now() + STRANGER_NS;
	struct hello h;
	int its[FDS], ret = sock_recv(sock, &h, sizeof(h), its, soon < deadline ? soon : deadline);

	*known = (ret == -EMFILE || (!ret && its[1] >= 0)) && h.magic == MAGIC &&
		 !memcmp(h.token, me->token, sizeof(h.token)) && h.rank > comm->rank &&
		 h.rank < OPENREG_COMM_RANKS_MAX && comm->peers[h.rank].sock < 0;
	if (*known)
		ret = greet_back(comm, me, &h, sock, ret, its, fds);
	sock_close_all(its);
	return *known ? ret : 0;
}

static uint32_t first_missing(const struct openreg_comm *comm)
{
	uint32_t r = comm->rank + 1;

	while (r < comm->size && comm->peers[r].sock >= 0)
		r++;
	return r;
}

/* Reads the note of a rank that has connected to all ranks, or has failed. */
static int read_peer(struct openreg_comm *comm, uint32_t rank)
{
	struct peer *p = &comm->peers[rank];
	struct note note;
	int ret = sock_recv(p->sock, &note, sizeof(note), NULL, 0);

	if (ret)
		return ret == -ETIME ? 0 : fail_meet(comm, rank, ret);
	if (note.magic != NOTE_MAGIC)
		return fail_meet(comm, rank, -EPROTO);
	if (note.kind == NOTE_GIVE_UP)
		return fail_as(note.error, note.text);
	p->met = note.kind == NOTE_MET;
	return 0;
}

/* A rank sends nothing before NOTE_MET, except that it has failed. */
static bool is_awaited(const struct peer *p)
{
	return p->sock >= 0 && !p->met;
}

/* Waits for notes of the known ranks, and for a call if there is a listener. -ETIME: late. */
static int poll_peers(struct openreg_comm *comm, int listener, int64_t deadline)
{
	struct pollfd polled[OPENREG_COMM_RANKS_MAX + 1] = { { listener, POLLIN, 0 } };
	const int64_t left = (deadline - comm_now() + 999999) / 1000000;
	nfds_t num = 1;
	int ret = 0;

	for (uint32_t r = 0; r < comm->size; r++)
		if (is_awaited(&comm->peers[r]))
			polled[num++] = (struct pollfd){ comm->peers[r].sock, POLLIN, 0 };
	if (left <= 0)
		return -ETIME;
	if (poll(polled, num, left < 1000 ? (int)left : 1000) < 0 && errno != EINTR)
		return comm_fail(-errno, "rank %u cannot wait for the other ranks: %s",
				 comm->rank, strerror(errno));
	for (uint32_t r = 0; r < comm->size && !ret; r++)
		if (is_awaited(&comm->peers[r]))
			ret = read_peer(comm, r);
	return ret;
}

/* Strangers may call, too: they are not answered. */
static int take_calls(struct openreg_comm *comm, const struct card_of_rank *me,
		      int listener, const int *fds, int64_t deadline)
{
	int ret = 0;

	while (!ret && first_missing(comm) < comm->size) {
		bool known;
		int sock;

		ret = poll_peers(comm, listener, deadline);
		if (ret == -ETIME)
			return comm_fail(-ETIME,
					 "rank %u of %u has not come in %.1f s: see if it has ended or makes other calls, or set a longer timeout",
					 first_missing(comm), comm->size,
					 (double)comm->timeout_ns / 1e9);
		if (ret)
			return ret;
		sock = sock_accept(listener, 0);
		if (sock == -ETIME || sock == -EAGAIN)
			continue;
		if (sock < 0)
			return fail_meet(comm, first_missing(comm), sock);
		ret = answer(comm, me, sock, fds, deadline, &known);
		if (!known || ret)
			close(sock);
	}
	return ret;
}

static uint32_t first_awaited(const struct openreg_comm *comm)
{
	uint32_t r = 0;

	while (r < comm->size && !is_awaited(&comm->peers[r]))
		r++;
	return r;
}

/* All ranks have imported all pools when this returns. */
static int meet(struct openreg_comm *comm, int64_t deadline)
{
	const struct note note = { .magic = NOTE_MAGIC, .kind = NOTE_MET };
	int ret = 0;

	/* A rank that does not get the note has said why, or has ended. */
	for_peers(comm, r)
		sock_send(comm->peers[r].sock, &note, sizeof(note), NULL);
	while (!ret && first_awaited(comm) < comm->size)
		ret = poll_peers(comm, -1, deadline);
	return ret == -ETIME ? fail_meet(comm, first_awaited(comm), ret) : ret;
}

/* Ranks that have called, and are not known yet, get the reason as well. */
static void give_up(struct openreg_comm *comm, int listener, int error)
{
	struct hello mine = { .magic = MAGIC, .error = error }, its;
	int sock, strangers = 0;

	snprintf(mine.text, sizeof(mine.text), "%s", openreg_comm_last_error());
	for (uint32_t r = 0; r < comm->size; r++)
		if (comm->peers[r].sock >= 0)
			send_give_up(comm->peers[r].sock, error);
	while ((sock = sock_accept(listener, 0)) >= 0 || sock == -EAGAIN) {
		if (sock < 0) {
			/* A process of another user: it cannot keep this loop going. */
			if (++strangers > 2 * OPENREG_COMM_RANKS_MAX)
				break;
			continue;
		}
		sock_send(sock, &mine, sizeof(mine), NULL);
		/* If it stayed unread, the caller would get ECONNRESET. */
		sock_recv(sock, &its, sizeof(its), NULL, 0);
		close(sock);
	}
}

int comm_connect(struct openreg_comm *comm, const char *name,
		 const struct openreg_comm_store *store, const int *fds, int64_t deadline)
{
	struct card_of_rank me = { .magic = MAGIC }, its;
	int listener = sock_listen(me.path, sizeof(me.path)), spare, ret;

	if (listener < 0)
		return comm_fail(listener, "cannot make a socket: %s",
				 comm_strerror(listener));
	/* give_up() needs a descriptor to accept callers, when there may be none. */
	spare = dup(listener);
	if (spare < 0) {
		ret = comm_fail(-errno, "cannot make a socket: %s",
				comm_strerror(-errno));
		close(listener);
		return ret;
	}
	ret = read_machine(me.machine);
	if (!ret && getrandom(me.token, sizeof(me.token), 0) != sizeof(me.token))
		ret = -EIO;
	if (ret) {
		comm_fail(ret, "cannot read /proc/sys/kernel/random/boot_id: %s",
			  comm_strerror(ret));
		goto out;
	}
	ret = publish(comm, name, store, &me);
	for (uint32_t r = 0; r < comm->rank && !ret; r++) {
		ret = look_up(comm, name, r, store, deadline, &its);
		if (!ret && strcmp(its.machine, me.machine))
			ret = comm_fail(-EHOSTUNREACH,
					"rank %u is on another machine than rank %u: a communicator has ranks of one machine",
					r, comm->rank);
		if (!ret)
			ret = call(comm, r, &its, fds, deadline);
	}
	if (!ret)
		ret = take_calls(comm, &me, listener, fds, deadline);
	if (!ret)
		ret = meet(comm, deadline);
out:
	close(spare);
	if (ret)
		give_up(comm, listener, ret);
	close(listener);
	return ret;
}
