// SPDX-License-Identifier: MIT
/*
 * Two processes queue N all_reduces of 8 bytes, and wait for the last one. For strace:
 * close(-1) marks the begin and the end of the loop.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <openreg_comm.h>

#include <stdio.h>
#include <stdlib.h>

static void check(int64_t ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s %s\n", openreg_comm_last_error(), openreg_last_error());
	exit(1);
}

static void run(uint32_t rank, const char *dir, int n)
{
	const struct openreg_comm_store store = openreg_comm_directory(dir);
	const struct openreg_comm_attr attr = { .rank = rank, .size = 2, .name = "calls" };
	struct openreg_device *dev;
	struct openreg_comm *comm;
	struct openreg_bo *bo;
	int64_t seq = 0;

	check(openreg_device_open(openreg_device_count() > 1 ? rank : 0, &dev));
	check(openreg_bo_alloc(dev, 4096, OPENREG_BO_VRAM, &bo));
	check(openreg_comm_create(dev, &attr, &store, &comm));
	close(-1);
	for (int i = 0; i < n; i++) {
		seq = openreg_comm_all_reduce(comm, openreg_bo_address(bo),
					      openreg_bo_address(bo), 1, OPENREG_F64,
					      OPENREG_COMM_SUM);
		check(seq);
	}
	close(-1);
	check(openreg_comm_wait(comm, seq));
	openreg_comm_destroy(comm);
	openreg_bo_free(bo);
	openreg_device_close(dev);
	exit(0);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/collectives.XXXXXX", command[64];
	int status, failed = 0;

	if (argc != 2 || !mkdtemp(dir))
		return 2;
	for (uint32_t rank = 0; rank < 2; rank++)
		if (!fork())
			run(rank, dir, atoi(argv[1]));
	for (int i = 0; i < 2; i++)
		failed |= wait(&status) < 0 || status;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command) || failed;
}
