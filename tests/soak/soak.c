// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many processes use the cards. The program kills them at random, and resets and unplugs
 * the cards meanwhile. After each round all memory must be free again.
 *
 *   soak [--minutes N] [--seed N] [--clients N] [--round SECONDS] [--stall SECONDS]
 *        [--cards N] [--calm 1]    --calm 1: only kill, no resets and unplugs
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kselftest/card.h"
#include "../kselftest/machine.h"
#include "soak.h"

#define TELL_NS (10 * SEC_NS)
/* Most turns of all clients between two actions: leave time for work. */
#define CALM_TURNS 60

uint64_t soak_below(struct soak *s, uint64_t below)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 7;
	s->rng ^= s->rng << 17;
	return s->rng % below;
}

bool soak_fail(struct soak *s, const char *format, ...)
{
	va_list args;

	printf("soak: FAILED: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	/* The console does not show messages of low priority. */
	if (!s->failed && system("dmesg | tail -n 60 | sed 's/^/# /'"))
		printf("# no dmesg\n");
	s->failed = true;
	return false;
}

struct sums {
	uint64_t turns, launches, ioctls, ends;
};

static struct sums sum_up(const struct soak *s)
{
	struct sums sums = { 0 };
	unsigned int i;

	for (i = 0; i < SOAK_CLIENTS_MAX; i++) {
		sums.turns += s->shared->slots[i].turns;
		sums.launches += s->shared->slots[i].launches;
		sums.ioctls += s->shared->slots[i].ioctls;
		sums.ends += s->shared->slots[i].ends;
	}
	return sums;
}

uint64_t soak_turns(const struct soak *s)
{
	return sum_up(s).turns;
}

void soak_tell(struct soak *s)
{
	struct sums sums = sum_up(s);

	if (now_ns() < s->told_ns + TELL_NS)
		return;
	s->told_ns = now_ns();
	printf("soak: %lld s, round %u: %u kills, %u unplugs, %u resets, %u sleeps, %u ends by themselves; %llu turns, %llu launches, %llu ioctls, %llu sessions cut\n",
	       (s->told_ns - s->begun_ns) / SEC_NS, s->round, s->kills,
	       s->unplugs, s->resets, s->sleeps, s->exits,
	       (unsigned long long)sums.turns,
	       (unsigned long long)sums.launches,
	       (unsigned long long)sums.ioctls, (unsigned long long)sums.ends);
	fflush(stdout);
}

/* Waits until the clients have completed turns more turns. */
static bool calm(struct soak *s, uint64_t turns, long long until)
{
	uint64_t from = soak_turns(s);

	while (soak_turns(s) - from < turns && now_ns() < until) {
		usleep(2000);
		soak_tell(s);
		if (!crew_look(s))
			return false;
	}
	return true;
}

static bool act(struct soak *s)
{
	switch (s->calm ? 11 : soak_below(s, 12)) {
	case 0:
		return event_unplug(s);
	case 1:
	case 2:
		return event_reset(s);
	case 3:
		return event_sleep(s);
	default:
		return crew_kill_one(s);
	}
}

static bool round_of(struct soak *s, long long seconds)
{
	long long until = now_ns() + seconds * SEC_NS;

	s->round++;
	if (!crew_start(s))
		return false;
	while (now_ns() < until)
		if (!calm(s, 1 + soak_below(s, CALM_TURNS), until) || !act(s))
			return false;
	return smi_look(s) && crew_stop(s) && memory_look(s);
}

static void close_up(const struct soak *s)
{
	struct sums sums = sum_up(s);

	printf("soak: end: %u kills, %u unplugs, %u resets, %u sleeps, %llu launches, %llu ioctls, %u times openreg-smi agreed, %.1f minutes, guest %lld to %lld KiB\n",
	       s->kills, s->unplugs, s->resets, s->sleeps,
	       (unsigned long long)sums.launches,
	       (unsigned long long)sums.ioctls, s->compared,
	       (double)(now_ns() - s->begun_ns) / (60.0 * SEC_NS),
	       memory_first(), memory_last());
}

static bool set_up(struct soak *s)
{
	s->shared_fd = memfd_create("soak", 0);
	if (s->shared_fd < 0 || ftruncate(s->shared_fd, sizeof(*s->shared)))
		return soak_fail(s, "no shared memory");
	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED, s->shared_fd, 0);
	if (s->shared == MAP_FAILED)
		return soak_fail(s, "no shared memory");
	s->shared->cards = s->cards;
	if (!events_begin(s))
		return false;
	memory_begin(s);
	return true;
}

static const struct option options[] = {
	{ "minutes", required_argument, NULL, 'm' },
	{ "seed", required_argument, NULL, 's' },
	{ "clients", required_argument, NULL, 'c' },
	{ "round", required_argument, NULL, 'r' },
	{ "stall", required_argument, NULL, 't' },
	{ "cards", required_argument, NULL, 'n' },
	{ "calm", required_argument, NULL, 'q' },
	{ 0 },
};

int main(int argc, char **argv)
{
	struct soak s = { .rng = 1, .clients = 12, .cards = 1,
			  .stall_ns = 300 * SEC_NS };
	long long minutes = 3, round = 20;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		long long value = optarg ? atoll(optarg) : 0;

		if (value <= 0 || (option == 'c' && value > SOAK_CLIENTS_MAX) ||
		    (option == 'n' && value > SOAK_CARDS_MAX))
			return 2;
		minutes = option == 'm' ? value : minutes;
		round = option == 'r' ? value : round;
		s.rng = option == 's' ? (uint64_t)value : s.rng;
		s.clients = option == 'c' ? (unsigned int)value : s.clients;
		s.cards = option == 'n' ? (unsigned int)value : s.cards;
		s.calm |= option == 'q';
		s.stall_ns = option == 't' ? value * SEC_NS : s.stall_ns;
	}
	printf("soak: %lld minutes, seed %llu, %u clients, %u card(s)\n", minutes,
	       (unsigned long long)s.rng, s.clients, s.cards);
	if (!set_up(&s))
		return 1;
	s.begun_ns = s.told_ns = now_ns();
	s.deadline_ns = s.begun_ns + minutes * 60 * SEC_NS;
	while (now_ns() < s.deadline_ns && !s.failed)
		round_of(&s, round);
	if (!s.failed)
		memory_judge(&s);
	close_up(&s);
	printf("soak: %s\n", s.failed ? "FAILED" : "ok");
	return s.failed;
}
