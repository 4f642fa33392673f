// SPDX-License-Identifier: MIT
/*
 * The mean of a vector over several processes, each with a card.
 *
 *   cc all-reduce.c $(pkg-config --cflags --libs openreg-comm) -o all-reduce
 *   ./all-reduce 4        # processes; OPENREG_TRANSPORT=sim gives each a card
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openreg_comm.h>

#define N 1000000

static void check(int64_t ret, const char *what, const char *(*why)(void))
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, why());
	exit(1);
}

/* A process of a group: rank of size. The processes meet in the directory. */
static void work(uint32_t rank, uint32_t size, const char *dir)
{
	const struct openreg_comm_store store = openreg_comm_directory(dir);
	const struct openreg_comm_attr attr = { .rank = rank, .size = size, .name = "world" };
	unsigned int cards = (unsigned int)openreg_device_count();
	struct openreg_device *dev;
	struct openreg_comm *comm;
	struct openreg_bo *bo;
	void *mapped;
	float *x;
	int64_t seq;

	check(openreg_device_open(cards ? rank % cards : 0, &dev), "open", openreg_last_error);
	check(openreg_bo_alloc(dev, N * sizeof(*x), OPENREG_BO_VRAM, &bo), "alloc",
	      openreg_last_error);
	check(openreg_bo_map(bo, &mapped), "map", openreg_last_error);
	x = mapped;
	for (int i = 0; i < N; i++)
		x[i] = (float)(i % 1000 + (int)rank);

	check(openreg_comm_create(dev, &attr, &store, &comm), "create", openreg_comm_last_error);
	/* Queue the packets; the cards do the rest while this process does other work. */
	seq = openreg_comm_all_reduce(comm, openreg_bo_address(bo), openreg_bo_address(bo), N,
				      OPENREG_F32, OPENREG_COMM_AVG);
	check(seq, "all_reduce", openreg_comm_last_error);
	check(openreg_comm_wait(comm, seq), "wait", openreg_comm_last_error);

	for (int i = 0; i < N; i++)
		if (x[i] != (float)(i % 1000) + (float)(size - 1) / 2) {
			fprintf(stderr, "rank %u: element %d is %g\n", rank, i, (double)x[i]);
			exit(1);
		}
	printf("rank %u of %u: %d means are right\n", rank, size, N);
	openreg_comm_destroy(comm);
	openreg_bo_free(bo);
	openreg_device_close(dev);
	exit(0);
}

int main(int argc, char **argv)
{
	const uint32_t size = argc > 1 ? (uint32_t)atoi(argv[1]) : 2;
	char dir[] = "/tmp/all-reduce.XXXXXX", command[64];
	int status, failed = 0;

	if (!size || size > OPENREG_COMM_RANKS_MAX || !mkdtemp(dir)) {
		fprintf(stderr, "usage: all-reduce [1 to %d processes]\n",
			OPENREG_COMM_RANKS_MAX);
		return 2;
	}
	/* Fork before the first card is opened: a child cannot use its parent's device. */
	for (uint32_t rank = 0; rank < size; rank++)
		if (!fork())
			work(rank, size, dir);
	for (uint32_t rank = 0; rank < size; rank++)
		failed |= wait(&status) < 0 || status;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command) || failed;
}
