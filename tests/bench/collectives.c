// SPDX-License-Identifier: MIT
/*
 * (k) Collectives among processes with a card each: an all_reduce of 8 bytes compared with
 * a launch and a wait, and the bus bandwidth of 64 MiB compared with its bound.
 *
 * An all_reduce in two steps moves (5n - 3) times its size among n cards in one memory, so
 * its bus bandwidth is at most 2(n - 1)/n of the memory's bandwidth divided by 5n - 3.
 *
 * The first argument is appended to the names of the figures.
 */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openreg_comm.h>

#include "card.h"

#define BYTES (64ull << 20)
#define ROUNDS 1000
#define LARGE_ROUNDS 9
#define CPUS_MAX 64

static const char *suffix = "";
static char dir[] = "/tmp/collectives.XXXXXX";

static int64_t check_comm(int64_t ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "bench: %s\n", openreg_comm_last_error());
	exit(1);
}

static void print(const char *what, uint32_t ranks, double value, const char *unit)
{
	char name[128];

	snprintf(name, sizeof(name), "%s on %u cards%s", what, ranks, suffix);
	figure("k", name, value, unit);
}

/* ---- the memory's bandwidth: memcpy on all CPUs ------------------------- */

static pthread_barrier_t start;

struct copier {
	pthread_t thread;
	char *memory;
	double begin[LARGE_ROUNDS], end[LARGE_ROUNDS];
};

static void *copy_main(void *arg)
{
	struct copier *c = arg;

	for (int i = 0; i < LARGE_ROUNDS; i++) {
		pthread_barrier_wait(&start);
		c->begin[i] = seconds();
		memcpy(c->memory + BYTES, c->memory, BYTES);
		c->end[i] = seconds();
	}
	return NULL;
}

/* From the first begin to the last end: a thread may begin late. */
static double round_time(const struct copier *copiers, unsigned int n, int round)
{
	double begin = copiers[0].begin[round], end = copiers[0].end[round];

	for (unsigned int i = 1; i < n; i++) {
		const struct copier *c = &copiers[i];

		begin = c->begin[round] < begin ? c->begin[round] : begin;
		end = c->end[round] > end ? c->end[round] : end;
	}
	return end - begin;
}

/* Bytes read and written in a second; the best round. */
static double memory_bandwidth(void)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const unsigned int n = cpus < CPUS_MAX ? (unsigned int)cpus : CPUS_MAX;
	struct copier copiers[CPUS_MAX];
	double least = 1e9;

	pthread_barrier_init(&start, NULL, n);
	for (unsigned int i = 0; i < n; i++) {
		copiers[i].memory = malloc(2 * BYTES);
		memset(copiers[i].memory, 1, 2 * BYTES);
		pthread_create(&copiers[i].thread, NULL, copy_main, &copiers[i]);
	}
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(copiers[i].thread, NULL);
		free(copiers[i].memory);
	}
	for (int i = 0; i < LARGE_ROUNDS; i++) {
		const double time = round_time(copiers, n, i);

		least = time < least ? time : least;
	}
	pthread_barrier_destroy(&start);
	return 2.0 * n * (double)BYTES / least;
}

/* ---- the ranks ---------------------------------------------------------- */

struct rank {
	struct card c;
	struct openreg_comm *comm;
	uint64_t at;
	uint32_t rank, size;
};

static void sum(struct rank *r, uint64_t bytes)
{
	int64_t seq = check_comm(openreg_comm_all_reduce(r->comm, r->at, r->at, bytes / 4,
							 OPENREG_F32, OPENREG_COMM_SUM));

	check_comm(openreg_comm_wait(r->comm, seq));
}

static void meet(struct rank *r)
{
	check_comm(openreg_comm_wait(r->comm, check_comm(openreg_comm_barrier(r->comm))));
}

/* All ranks do this at once. */
static double launch_and_wait(struct rank *r)
{
	double times[ROUNDS];

	meet(r);
	for (size_t i = 0; i < ROUNDS; i++) {
		times[i] = seconds();
		check(openreg_push_nop(r->c.q));
		finish(&r->c, openreg_queue_submit(r->c.q));
		times[i] = seconds() - times[i];
	}
	meet(r);
	return median(times, ROUNDS);
}

static double small(struct rank *r)
{
	double times[ROUNDS];

	meet(r);
	for (size_t i = 0; i < ROUNDS; i++) {
		times[i] = seconds();
		sum(r, 8);
		times[i] = seconds() - times[i];
	}
	return median(times, ROUNDS);
}

/* The best round. */
static double large(struct rank *r)
{
	double best = 1e9;

	for (int i = 0; i < LARGE_ROUNDS; i++) {
		double begin;

		meet(r);
		begin = seconds();
		sum(r, BYTES);
		begin = seconds() - begin;
		best = begin < best ? begin : best;
	}
	return best;
}

static void measure(struct rank *r, double memory)
{
	const double n = r->size, share = 2 * (n - 1) / n;
	double time = launch_and_wait(r);

	if (!r->rank)
		print("launch and wait", r->size, 1e6 * time, "us");
	time = small(r);
	if (!r->rank)
		print("all_reduce of 8 bytes", r->size, 1e6 * time, "us");
	time = large(r);
	if (r->rank)
		return;
	print("all_reduce of 64 MiB, bus bandwidth", r->size,
	      1e-9 * share * (double)BYTES / time, "GB/s");
	print("bound of all_reduce, from memcpy,", r->size,
	      1e-9 * share * memory / (5 * n - 3), "GB/s");
}

static void run(uint32_t rank, uint32_t size, double memory)
{
	const struct openreg_comm_store store = openreg_comm_directory(dir);
	const int cards = openreg_device_count();
	struct openreg_comm_attr attr = { .rank = rank, .size = size };
	struct rank r = { .rank = rank, .size = size };
	struct openreg_bo *bo;
	char name[16];

	snprintf(name, sizeof(name), "bench%u", size);
	attr.name = name;
	check(openreg_device_open(cards > 0 ? rank % (uint32_t)cards : 0, &r.c.dev));
	check(openreg_queue_create(r.c.dev, NULL, &r.c.q));
	bo = make_bo(&r.c, BYTES, OPENREG_BO_VRAM);
	r.at = openreg_bo_address(bo);
	check_comm(openreg_comm_create(r.c.dev, &attr, &store, &r.comm));
	measure(&r, memory);
	meet(&r);
	openreg_comm_destroy(r.comm);
	openreg_bo_free(bo);
	close_card(&r.c);
	exit(0);
}

int main(int argc, char **argv)
{
	const double memory = memory_bandwidth();
	char command[64];
	int status, failed = 0;

	if (argc > 1)
		suffix = argv[1];
	if (!mkdtemp(dir))
		return 1;
	for (uint32_t size = 2; size <= 4; size += 2) {
		for (uint32_t rank = 0; rank < size; rank++)
			if (!fork())
				run(rank, size, memory);
		for (uint32_t rank = 0; rank < size; rank++)
			failed |= wait(&status) < 0 || status;
	}
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command) || failed;
}
