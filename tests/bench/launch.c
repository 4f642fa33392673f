// SPDX-License-Identifier: MIT
/*
 * (c) The cost of a launch and of a launch with a wait, compared with a system call and
 * a ping-pong of two threads; (f) doorbells and interrupts.
 *
 * The ring has 16,384 slots, and a batch has 10,000 launches, so the ring is never full.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "card.h"

#define BATCH 10000
#define BATCHES 20
#define ROUNDS 2000

static void bench_getppid(void)
{
	double times[BATCHES];

	for (size_t b = 0; b < BATCHES; b++) {
		const double begin = seconds();

		for (int i = 0; i < BATCH; i++)
			syscall(SYS_getppid);
		times[b] = (seconds() - begin) / BATCH;
	}
	figure("c", "getppid", 1e9 * median(times, BATCHES), "ns");
}

static void bench_launch(void)
{
	struct card c = open_card(OPENREG_RING_SLOTS_MAX);
	struct openreg_queue_stats before, after;
	double times[BATCHES];
	int64_t seq = 0;

	check(openreg_queue_get_stats(c.q, &before));
	for (size_t b = 0; b < BATCHES; b++) {
		const double begin = seconds();

		for (int i = 0; i < BATCH; i++) {
			check(openreg_push_nop(c.q));
			seq = openreg_queue_submit(c.q);
		}
		times[b] = (seconds() - begin) / BATCH;
		finish(&c, seq);
	}
	check(openreg_queue_get_stats(c.q, &after));
	figure("c", "NOP launch, asynchronous, ring of 16384",
	       1e9 * median(times, BATCHES), "ns");
	if (after.full_waits)
		figure("c", "times the ring was full", (double)after.full_waits,
		       "");
	figure("f", "doorbells per 1000 launches from C",
	       1e3 * (double)(after.doorbells - before.doorbells) /
		       (BATCH * BATCHES), "");
	figure("f", "interrupts per 1000 launches from C",
	       1e3 * (double)(after.interrupts - before.interrupts) /
		       (BATCH * BATCHES), "");
	close_card(&c);
}

/* The card is idle for idle_us before each round. */
static void bench_wait(const char *what, int64_t spin_ns, useconds_t idle_us)
{
	struct card c = open_card(0);
	double times[ROUNDS];
	const size_t rounds = idle_us ? ROUNDS / 10 : ROUNDS;

	openreg_queue_set_spin(c.q, spin_ns);
	for (size_t i = 0; i < rounds; i++) {
		double begin;

		if (idle_us)
			usleep(idle_us);
		begin = seconds();
		check(openreg_push_nop(c.q));
		finish(&c, openreg_queue_submit(c.q));
		times[i] = seconds() - begin;
	}
	figure("c", what, 1e6 * median(times, rounds), "us");
	close_card(&c);
}

struct pong {
	int ping, pong, cpu;
};

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("sched_setaffinity");
}

static void *pong_main(void *arg)
{
	const struct pong *p = arg;
	uint64_t v;

	pin(p->cpu);
	while (read(p->ping, &v, sizeof(v)) == sizeof(v) && v == 1)
		if (write(p->pong, &v, sizeof(v)) != sizeof(v))
			break;
	return NULL;
}

static double round_trip(const struct pong *p)
{
	const double begin = seconds();
	uint64_t v = 1;

	if (write(p->ping, &v, sizeof(v)) != sizeof(v) ||
	    read(p->pong, &v, sizeof(v)) != sizeof(v)) {
		perror("eventfd");
		exit(1);
	}
	return seconds() - begin;
}

static void bench_eventfd(void)
{
	struct pong p = { eventfd(0, 0), eventfd(0, 0), 1 };
	const uint64_t stop = 2;
	double times[ROUNDS];
	cpu_set_t all;
	pthread_t thread;

	sched_getaffinity(0, sizeof(all), &all);
	if (CPU_COUNT(&all) < 2) {
		fprintf(stderr, "bench: one CPU: no ping-pong across two\n");
		return;
	}
	pin(0);
	pthread_create(&thread, NULL, pong_main, &p);
	for (size_t i = 0; i < ROUNDS; i++)
		times[i] = round_trip(&p);
	if (write(p.ping, &stop, sizeof(stop)) != sizeof(stop))
		exit(1);
	pthread_join(thread, NULL);
	sched_setaffinity(0, sizeof(all), &all);
	figure("c", "eventfd round trip across two CPUs",
	       1e6 * median(times, ROUNDS), "us");
}

int main(void)
{
	bench_getppid();
	bench_launch();
	bench_eventfd();
	bench_wait("launch and wait, spinning", 1000000000, 0);
	bench_wait("launch and wait, asleep", 0, 0);
	bench_wait("launch and wait, spinning, card asleep", 1000000000, 2000);
	bench_wait("launch and wait, asleep, card asleep", 0, 2000);
	return 0;
}
