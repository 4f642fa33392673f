// SPDX-License-Identifier: MIT
/* A key-value store in a directory: a file for each key. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"

static int set(void *opaque, const char *key, const void *value, size_t len)
{
	const char *dir = opaque;
	char path[512], temp[560];
	int fd, ret = 0;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, key) >= sizeof(path))
		return -ENAMETOOLONG;
	snprintf(temp, sizeof(temp), "%s.%d.XXXXXX", path, getpid());
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, value, len) != (ssize_t)len)
		ret = -EIO;
	close(fd);
	/* A reader sees all of the value or none of it. */
	if (!ret && rename(temp, path))
		ret = -errno;
	if (ret)
		unlink(temp);
	return ret;
}

static int64_t get(void *opaque, const char *key, void *value, size_t len,
		   int64_t timeout_ns)
{
	const struct timespec rest = { .tv_nsec = 1000000 };
	const int64_t deadline = comm_now() + timeout_ns;
	char path[512];
	ssize_t n;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", (const char *)opaque, key) >=
	    sizeof(path))
		return -ENAMETOOLONG;
	while ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
		if (errno != ENOENT)
			return -errno;
		if (comm_now() >= deadline)
			return -ETIME;
		nanosleep(&rest, NULL);
	}
	n = read(fd, value, len);
	close(fd);
	return n < 0 ? -EIO : n;
}

API struct openreg_comm_store openreg_comm_directory(const char *path)
{
	return (struct openreg_comm_store){
		.set = set,
		.get = get,
		.opaque = (void *)(uintptr_t)path,
	};
}
