// SPDX-License-Identifier: MIT
/*
 * Loads: two processes, on one card or on two cards, share memory as a dma-buf.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

#define SIZE_MAX_SHARED (1u << 17)
#define PATIENCE_MS 200000

struct message {
	uint64_t size, seed;
	uint32_t over; /* struct client's over of the sender */
	uint32_t readonly;
	int32_t result; /* of the peer */
};

enum { PEER_ENDS = 1 /* a card was reset or removed */, PEER_WRONG };

static int line = -1;
static bool is_peer;

bool share_split(void)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return false;
	pid = fork();
	if (pid < 0)
		return false;
	is_peer = pid == 0;
	if (is_peer)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	line = ends[is_peer];
	close(ends[!is_peer]);
	return true;
}

bool share_is_peer(void)
{
	return is_peer;
}

/* Sends a message, with a file descriptor or -1. */
static bool send_message(const struct message *m, int fd)
{
	struct iovec iov = { (void *)(uintptr_t)m, sizeof(*m) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;

	if (fd >= 0) {
		h.msg_control = &control;
		h.msg_controllen = sizeof(control);
		cmsg = CMSG_FIRSTHDR(&h);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	}
	return sendmsg(line, &h, MSG_NOSIGNAL) == sizeof(*m);
}

/* Receives a message. False if the peer has ended or does not answer. */
static bool receive_message(struct message *m, int *fd)
{
	struct iovec iov = { m, sizeof(*m) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	struct pollfd p = { .fd = line, .events = POLLIN };
	struct cmsghdr *cmsg;

	*fd = -1;
	while (poll(&p, 1, PATIENCE_MS) < 0 && errno == EINTR)
		;
	if (!(p.revents & POLLIN) ||
	    recvmsg(line, &h, MSG_CMSG_CLOEXEC) != sizeof(*m))
		return false;
	cmsg = CMSG_FIRSTHDR(&h);
	if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(cmsg), sizeof(int));
	return true;
}

/* ---- the exporter -------------------------------------------------------- */

struct share {
	struct openreg_bo *bo;
};

static int share_begin(struct client *c)
{
	(void)c;
	return 0;
}

static void share_end(struct client *c)
{
	struct share *x = c->load;

	openreg_bo_free(x->bo);
	x->bo = NULL;
}

/* Sends the dma-buf. keep: keep the handle open while the peer works. */
static int share_out(struct client *c, struct message *m, bool keep)
{
	struct share *x = c->load;
	void *map;
	int fd, ret;

	ret = alloc_mapped(c, m->size, random_below(c, 2) ? OPENREG_BO_VRAM :
							    OPENREG_BO_SYSTEM,
			   &x->bo, &map);
	if (ret)
		return ret;
	noise(map, m->size, m->seed);
	fd = openreg_bo_export(x->bo, m->readonly ? OPENREG_BO_READONLY : 0);
	if (fd < 0)
		return fd;
	if (!keep)
		share_end(c);
	ret = send_message(m, fd) ? 0 : wrong(c, "the peer has ended");
	close(fd);
	return ret;
}

static int share_turn(struct client *c)
{
	struct share *x = c->load;
	struct message m = {
		.size = 1 + random_below(c, SIZE_MAX_SHARED),
		.seed = random64(c) >> 1,
		.over = c->over,
		.readonly = random_below(c, 4) == 0,
	};
	bool keep = random_below(c, 4);
	void *map;
	int fd, ret = share_out(c, &m, keep);
	size_t at;

	if (ret)
		return ret;
	if (!receive_message(&m, &fd))
		return wrong(c, "the peer did not answer");
	if (m.result == PEER_WRONG)
		return wrong(c, "the peer saw other bytes");
	if (m.result) {
		share_end(c);
		return 0;
	}
	if (!keep)
		return 0;
	ret = openreg_bo_map(x->bo, &map);
	if (ret)
		return ret;
	at = not_noise(map, m.size, m.seed + !m.readonly);
	ret = at == m.size ? 0 : wrong(c, "byte %zu of %llu is not what the peer wrote",
				       at, (unsigned long long)m.size);
	if (!ret)
		share_end(c);
	return ret;
}

/* ---- the importer -------------------------------------------------------- */

struct peer {
	struct openreg_bo *vram, *in;
	unsigned char bytes[SIZE_MAX_SHARED];
};

static int peer_begin(struct client *c)
{
	struct peer *x = c->load;

	return alloc(c, SIZE_MAX_SHARED, OPENREG_BO_VRAM, &x->vram);
}

static void peer_end(struct client *c)
{
	struct peer *x = c->load;

	openreg_bo_free(x->in);
	openreg_bo_free(x->vram);
}

static int peer_work(struct client *c, const struct message *m)
{
	struct peer *x = c->load;
	const uint64_t vram = openreg_bo_address(x->vram);
	const uint64_t in = openreg_bo_address(x->in);
	int64_t seq = openreg_copy_async(c->q[0], vram, in, m->size);
	size_t at;
	int ret;

	if (seq < 0)
		return (int)seq;
	ret = openreg_copy_from_device(c->q[0], x->bytes, vram, m->size);
	if (ret)
		return ret;
	at = not_noise(x->bytes, m->size, m->seed);
	if (at != m->size)
		return wrong(c, "byte %zu of %llu is not what the exporter wrote", at,
			     (unsigned long long)m->size);
	if (m->readonly)
		return 0;
	noise(x->bytes, m->size, m->seed + 1);
	return openreg_copy_to_device(c->q[0], in, x->bytes, m->size);
}

static int peer_turn(struct client *c)
{
	struct peer *x = c->load;
	struct message m;
	int fd, ret;

	/* End with the exporter. */
	if (!receive_message(&m, &fd))
		exit(0);
	ret = openreg_bo_import(c->dev, fd, &x->in);
	close(fd);
	if (!ret)
		ret = peer_work(c, &m);
	m.result = 0;
	/* A reset of this card alone: the exporter must not judge the error. */
	if (ret && disturbed_since(c, c->card, c->over))
		m.result = PEER_ENDS;
	else if (ret && disturbed_since(c, c->other, m.over))
		m.result = ret == -EBADMSG ? PEER_WRONG : PEER_ENDS;
	openreg_bo_free(x->in);
	x->in = NULL;
	if (!send_message(&m, -1))
		exit(0);
	/* Only the exporter's card was reset or removed: end this session, too. */
	if (!m.result || disturbed_since(c, c->card, c->over))
		return ret;
	c->cut = true;
	return -ENODEV;
}

const struct load load_share = {
	"share", sizeof(struct share), share_begin, share_turn, share_end,
};

/* The peer uses the other card. */
const struct load load_pair = {
	"pair", sizeof(struct share), share_begin, share_turn, share_end,
};

const struct load load_share_peer = {
	"share's peer", sizeof(struct peer), peer_begin, peer_turn, peer_end,
};
