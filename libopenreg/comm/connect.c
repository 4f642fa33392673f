// SPDX-License-Identifier: MIT
/*
 * How the ranks meet. Each publishes a socket and a secret in the store. A rank connects
 * to all lower ranks, shows their secret, and the two exchange their pools.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"

#define MAGIC 0x336d6d6f6367726full
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
	ssize_t n = fd < 0 ? -1 : read(fd, id, ID_MAX - 1);

	if (fd >= 0)
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
				 comm->rank, key, strerror(-ret));
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
				 "rank %u of %u has not come to communicator %s in time: start it, or set a longer timeout_ns",
				 rank, comm->size, name);
	if (n < 0)
		return comm_fail((int)n, "rank %u cannot read the store's key %s: %s",
				 comm->rank, key, strerror((int)-n));
	if (n != sizeof(*its) || its->magic != MAGIC)
		return comm_fail(-EPROTO,
				 "the store's key %s is not of this version of openreg-comm",
				 key);
	its->machine[ID_MAX - 1] = 0;
	its->path[sizeof(its->path) - 1] = 0;
	return 0;
}

static int use_pool(struct openreg_comm *comm, uint32_t rank, int sock, const int *fds)
{
	struct peer *p = &comm->peers[rank];
	int ret = openreg_bo_import(comm->dev, fds[0], &p->bo);

	if (ret)
		return comm_fail_card(ret, "cannot import the pool of a rank");
	if (openreg_bo_size(p->bo) != openreg_bo_size(comm->pool))
		return comm_fail(-EPROTO, "rank %u has another pool than rank %u", rank,
				 comm->rank);
	ret = board_import(comm, rank, fds[1]);
	if (ret)
		return ret;
	p->sock = sock;
	p->process = sock_open_process(sock);
	p->pool = openreg_bo_address(p->bo);
	return 0;
}

static int fail_meet(const struct openreg_comm *comm, uint32_t rank, int error)
{
	return comm_fail(error, "rank %u cannot meet rank %u: %s", comm->rank, rank,
			 error == -ETIME ? "it has not answered in time" :
			 error == -ECONNRESET ? "it has ended" :
			 error == -ECONNREFUSED ?
					   "it has ended, or is in another network namespace" :
					   strerror(-error));
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
		return fail_meet(comm, rank, ret);
	if (!same(comm, &h) || fds[1] < 0)
		ret = fail_same(comm, rank);
	else
		ret = use_pool(comm, rank, sock, fds);
	sock_close_all(fds);
	return ret;
}

static int call(struct openreg_comm *comm, uint32_t rank, const struct card_of_rank *its,
		const int *fds, int64_t deadline)
{
	struct hello h;
	int ret, sock = sock_connect(its->path);

	if (sock < 0)
		return fail_meet(comm, rank, sock);
	greet(comm, its->token, &h);
	ret = sock_send(sock, &h, sizeof(h), fds);
	ret = ret ? fail_meet(comm, rank, ret) : finish_call(comm, rank, sock, deadline);
	if (ret)
		close(sock);
	return ret;
}

/* Answers a call of a higher rank. Sets *known if it shows the secret. */
static int answer(struct openreg_comm *comm, const struct card_of_rank *me, int sock,
		  const int *fds, int64_t deadline, bool *known)
{
	const int64_t soon = comm_now() + STRANGER_NS;
	struct hello h, mine;
	int its[FDS], ret = sock_recv(sock, &h, sizeof(h), its, soon < deadline ? soon : deadline);

	*known = !ret && its[1] >= 0 && h.magic == MAGIC &&
		 !memcmp(h.token, me->token, sizeof(h.token)) && h.rank > comm->rank &&
		 h.rank < OPENREG_COMM_RANKS_MAX && comm->peers[h.rank].sock < 0;
	if (*known) {
		greet(comm, me->token, &mine);
		ret = sock_send(sock, &mine, sizeof(mine), fds);
		if (ret)
			ret = fail_meet(comm, h.rank, ret);
		else
			ret = same(comm, &h) ? use_pool(comm, h.rank, sock, its) :
					       fail_same(comm, h.rank);
	}
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

/* Strangers may call, too: they are not answered. */
static int take_calls(struct openreg_comm *comm, const struct card_of_rank *me,
		      int listener, const int *fds, int64_t deadline)
{
	int ret = 0;

	while (!ret && first_missing(comm) < comm->size) {
		int sock = sock_accept(listener, deadline);
		bool known;

		if (sock == -ETIME)
			return comm_fail(-ETIME,
					 "rank %u of %u has not come in time: start it, or set a longer timeout_ns",
					 first_missing(comm), comm->size);
		if (sock == -EAGAIN)
			continue;
		if (sock < 0)
			return fail_meet(comm, first_missing(comm), sock);
		ret = answer(comm, me, sock, fds, deadline, &known);
		if (!known || ret)
			close(sock);
	}
	return ret;
}

/* All ranks have imported all pools when this returns. */
static int meet(struct openreg_comm *comm, int64_t deadline)
{
	uint64_t word = MAGIC;
	int ret = 0;

	for (uint32_t r = 0; r < comm->size && !ret; r++)
		if (r != comm->rank)
			ret = sock_send(comm->peers[r].sock, &word, sizeof(word), NULL) ?
				      fail_meet(comm, r, -ECONNRESET) : 0;
	for (uint32_t r = 0; r < comm->size && !ret; r++) {
		if (r == comm->rank)
			continue;
		ret = sock_recv(comm->peers[r].sock, &word, sizeof(word), NULL, deadline);
		if (ret)
			ret = fail_meet(comm, r, ret);
	}
	return ret;
}

int comm_connect(struct openreg_comm *comm, const char *name,
		 const struct openreg_comm_store *store, const int *fds, int64_t deadline)
{
	struct card_of_rank me = { .magic = MAGIC }, its;
	int listener = sock_listen(me.path, sizeof(me.path)), ret;

	if (listener < 0)
		return comm_fail(listener, "cannot make a socket: %s", strerror(-listener));
	if (read_machine(me.machine) ||
	    getrandom(me.token, sizeof(me.token), 0) != sizeof(me.token)) {
		ret = comm_fail(-EIO, "cannot read /proc/sys/kernel/random/boot_id");
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
	close(listener);
	return ret;
}
