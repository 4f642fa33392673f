// SPDX-License-Identifier: MIT
/* Sockets between ranks: they carry file descriptors, and show that a rank has ended. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "comm.h"

/* The kernel chooses an abstract address: no file stays behind. path is without its 0. */
int sock_listen(char *path, size_t len)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t size = sizeof(addr);
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -errno;
	if (bind(s, (struct sockaddr *)&addr, sizeof(addr.sun_family)) ||
	    listen(s, OPENREG_COMM_RANKS_MAX) ||
	    getsockname(s, (struct sockaddr *)&addr, &size)) {
		const int error = -errno;

		close(s);
		return error;
	}
	size -= (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1;
	snprintf(path, len, "%.*s", (int)size, addr.sun_path + 1);
	return s;
}

static bool is_of_this_user(int sock)
{
	socklen_t len = sizeof(struct ucred);
	struct ucred its;

	return !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &its, &len) && its.uid == geteuid();
}

/*
 * -ECONNREFUSED, too, if another user has taken the address of a rank that has ended. Such a
 * user may also never accept.
 */
int sock_connect(const char *path, int64_t deadline)
{
	const int64_t left = deadline - comm_now();
	const struct timeval patience = {
		.tv_sec = left > 0 ? left / 1000000000 : 0,
		.tv_usec = left > 0 ? left % 1000000000 / 1000 + 1 : 1,
	};
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const size_t len = strnlen(path, sizeof(addr.sun_path) - 1);
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -errno;
	memcpy(addr.sun_path + 1, path, len);
	setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(s, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len))) {
		const int error = errno == EAGAIN ? -ETIME : -errno;

		close(s);
		return error;
	}
	if (is_of_this_user(s))
		return s;
	close(s);
	return -ECONNREFUSED;
}

/* 0, or -ETIME */
static int wait_readable(int sock, int64_t deadline)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };

	for (;;) {
		int64_t left = (deadline - comm_now() + 999999) / 1000000;
		int n;

		left = left < 0 ? 0 : left > 60000 ? 60000 : left;
		n = poll(&p, 1, (int)left);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n && !left)
			return -ETIME;
	}
}

/* -EAGAIN: a process of another user has called. */
int sock_accept(int listener, int64_t deadline)
{
	int s, ret = wait_readable(listener, deadline);

	if (ret)
		return ret;
	s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (s < 0)
		return -errno;
	if (is_of_this_user(s))
		return s;
	close(s);
	return -EAGAIN;
}

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(FDS * sizeof(int))];
};

int sock_send(int sock, const void *buf, size_t len, const int *fds)
{
	union control control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fds) {
		struct cmsghdr *c = &control.header;

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(FDS * sizeof(int));
		memcpy(CMSG_DATA(c), fds, FDS * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len ? 0 : -errno;
}

/*
 * A child of the other process may hold its end of the socket open, so the process itself
 * is watched, too.
 */
int sock_open_process(int sock)
{
	socklen_t len = sizeof(struct ucred);
	struct ucred its;
	int process;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &its, &len) || its.pid <= 0)
		return -ESRCH;
	process = (int)syscall(SYS_pidfd_open, its.pid, 0);
	return process < 0 ? -errno : process;
}

bool sock_process_ended(int process)
{
	struct pollfd p = { .fd = process, .events = POLLIN };

	return process >= 0 && poll(&p, 1, 0) == 1;
}

void sock_close_all(const int *fds)
{
	for (int i = 0; i < FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Descriptors that the caller does not want are closed. */
int sock_recv(int sock, void *buf, size_t len, int *fds, int64_t deadline)
{
	union control control = { 0 };
	struct iovec iov = { buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = &control, .msg_controllen = sizeof(control) };
	int got[FDS] = { -1, -1 };
	struct cmsghdr *c;
	ssize_t n;
	int ret = wait_readable(sock, deadline);

	if (fds)
		fds[0] = fds[1] = -1;
	if (ret)
		return ret;
	n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	/*
	 * A peer that closes its end with unread messages in it: the kernel reports this once,
	 * before the messages that the peer has sent.
	 */
	if (n < 0 && errno == ECONNRESET) {
		msg.msg_controllen = sizeof(control);
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	}
	if (n < 0)
		return -errno;
	c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len <= CMSG_LEN(FDS * sizeof(int)))
		memcpy(got, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	if (n == (ssize_t)len && fds)
		memcpy(fds, got, sizeof(got));
	else
		sock_close_all(got);
	if (n != (ssize_t)len)
		return n ? -EPROTO : -ECONNRESET;
	return fds && msg.msg_flags & MSG_CTRUNC ? -EMFILE : 0;
}
