// SPDX-License-Identifier: MIT
/*
 * A rank ends after it has published its socket. A process of another user takes the address,
 * and gets nothing of the rank that connects to it.
 */
#include "ranks.h"

#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define NOBODY 65534

enum stage { BEGUN, TAKEN, TRIED };

/* Memory of all processes. */
static _Atomic enum stage *stage;

static struct sockaddr_un taken;
static socklen_t length;

/* Notes the address, which the communicator publishes. */
int listen(int sock, int backlog)
{
	length = sizeof(taken);
	must(!getsockname(sock, (struct sockaddr *)&taken, &length));
	return (int)syscall(SYS_listen, sock, backlog);
}

static void wait_until(enum stage wanted)
{
	const int64_t begin = now();

	while (*stage < wanted)
		must(!usleep(1000) && now() - begin < LONG);
}

static void be_a_stranger(void)
{
	struct openreg_comm_attr attr = attributes();
	struct pollfd call = { .events = POLLIN };
	char byte;
	int sock;

	attr.timeout_ns = 1;
	must(create(&attr) == -ETIME && length > offsetof(struct sockaddr_un, sun_path));
	must(!setresuid(NOBODY, NOBODY, NOBODY));
	sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	must(sock >= 0 && !bind(sock, (struct sockaddr *)&taken, length));
	must(!listen(sock, 1));
	call.fd = sock;
	*stage = TAKEN;
	must(poll(&call, 1, (int)(LONG / 1000000)) == 1);
	sock = accept(sock, NULL, NULL);
	must(sock >= 0 && recv(sock, &byte, 1, 0) == 0);
	wait_until(TRIED);
}

static void meet_a_stranger(void)
{
	struct openreg_comm_attr attr = attributes();

	wait_until(TAKEN);
	must(create(&attr) == -ECONNREFUSED && says("rank 1 cannot meet rank 0: it has ended"));
	*stage = TRIED;
}

static void play(void)
{
	if (me.rank)
		meet_a_stranger();
	else
		be_a_stranger();
}

static void test_another_user(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	assert_ptr_not_equal(stage, MAP_FAILED);
	run_ranks(2, play, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_user),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
