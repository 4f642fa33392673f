// SPDX-License-Identifier: MIT
/*
 * A rank that sends an ordinary file as its board could make the file shorter later, and so
 * end the others with SIGBUS. Rank 1 does: its memfd_create() and fcntl() are the ones below.
 */
#include "ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static bool is_ordinary;
static int ordinary = -1;

static int ordinary_file(void)
{
	char path[] = "/tmp/openreg-board-XXXXXX";
	const int fd = mkstemp(path);

	if (fd >= 0)
		unlink(path);
	return fd;
}

int memfd_create(const char *name, unsigned int flags)
{
	if (is_ordinary && !strcmp(name, "openreg-comm"))
		return ordinary = ordinary_file();
	return (int)syscall(SYS_memfd_create, name, flags);
}

/* A file of tmpfs could have seals, a file of a disk cannot. */
static bool is_of_a_disk(int fd)
{
	char link[32], path[32] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlink(link, path, sizeof(path) - 1) > 0 && strncmp(path, "/memfd:", 7);
}

static int control(int fd, int cmd, long arg)
{
	if (cmd == F_GET_SEALS && is_of_a_disk(fd)) {
		errno = EINVAL;
		return -1;
	}
	if (fd == ordinary && cmd == F_ADD_SEALS)
		return 0;
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

int fcntl(int fd, int cmd, ...)
{
	va_list args;
	long arg;

	va_start(args, cmd);
	arg = va_arg(args, long);
	va_end(args);
	return control(fd, cmd, arg);
}

#if _FILE_OFFSET_BITS != 64 /* with 64, fcntl() has the symbol fcntl64 */
int fcntl64(int fd, int cmd, ...) __attribute__((alias("fcntl")));
#endif

static void meet(void)
{
	struct openreg_comm_attr attr = attributes();
	int ret;

	is_ordinary = me.rank == 1;
	attr.timeout_ns = 10000000000ll;
	ret = create(&attr);
	must(ret < 0);
	if (me.rank == 0)
		must(ret == -EPROTO && says("rank 1 has another version"));
}

static void test_ordinary_file(void **state)
{
	(void)state;
	run_ranks(2, meet, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ordinary_file),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
