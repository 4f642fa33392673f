// SPDX-License-Identifier: GPL-2.0-only
// test litmus not kselftest-checked
// test litmus-1cpu not kselftest-checked: --cpus 1 --device virtio-serial-pci,max_ports=90,vectors=184
/*
 * The wake rule: no doorbell and no interrupt is lost, however producer, card and sleeper
 * race. Run this with one CPU and with two.
 */
#include <errno.h>
#include <pthread.h>

#include "kselftest_harness.h"

#include "card.h"

#define ROUNDS 20000
/* Only a lost wake-up takes so long. */
#define LOST (10 * SEC_NS)

FIXTURE(litmus)
{
	int fd;
	struct queue q;
	struct packet nop;
};

FIXTURE_SETUP(litmus)
{
	self->fd = card_open();
	ASSERT_LE(0, self->fd) TH_LOG("no " NODE ": %s", strerror(-self->fd));
	ASSERT_EQ(0, queue_create(self->fd, 256, &self->q));
	packet_nop(&self->nop);
}

FIXTURE_TEARDOWN(litmus)
{
	close(self->fd);
}

static void pause_for(unsigned int loops)
{
	while (loops--)
		__asm__ volatile("" ::: "memory");
}

static unsigned int dice(unsigned int *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Sleeper and card race: armed against completed. */
TEST_F_TIMEOUT(litmus, interrupts, 900)
{
	unsigned int state = 1;
	int i;

	for (i = 1; i <= ROUNDS; i++) {
		queue_push(&self->q, &self->nop);
		pause_for(i % 2 ? 0 : dice(&state) % 1000);
		ASSERT_EQ(0, queue_wait(&self->q, i, LOST))
			TH_LOG("lost after %d", i);
	}
}

/* Producer and card race: tail against asleep, about when the card falls asleep. */
TEST_F_TIMEOUT(litmus, doorbells, 900)
{
	unsigned int state = 2;
	__s64 deadline, until;
	int i;

	for (i = 1; i <= ROUNDS; i++) {
		queue_push(&self->q, &self->nop);
		deadline = now_ns() + LOST;
		while (self->q.card->completed < (__u64)i)
			ASSERT_GT(deadline, now_ns())
				TH_LOG("lost after %d", i);
		until = now_ns() + dice(&state) % 200000;
		while (now_ns() < until && !self->q.card->asleep)
			;
	}
}

struct pair {
	struct queue *q;
	unsigned int parity;
	int rounds;
	int result;
};

/* Sleeps on every other packet while the other thread produces. */
static void *sleeper(void *data)
{
	struct pair *pair = data;
	int i;

	for (i = 0; i < pair->rounds && !pair->result; i++)
		pair->result = queue_wait(pair->q, 2 * i + 1 + pair->parity,
					  LOST);
	return NULL;
}

/* Two sleepers on one queue, so that armed alternates between them. */
TEST_F_TIMEOUT(litmus, hand_over, 900)
{
	struct pair pair[2];
	pthread_t thread[2];
	unsigned int state = 3;
	int i;

	for (i = 0; i < 2; i++) {
		pair[i] = (struct pair) {
			.q = &self->q, .parity = i, .rounds = ROUNDS / 2,
		};
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, sleeper,
					    &pair[i]));
	}
	for (i = 0; i < ROUNDS; i++) {
		queue_push(&self->q, &self->nop);
		if (dice(&state) % 4 == 0)
			usleep(dice(&state) % 100);
	}
	for (i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(0, pair[i].result);
	}
}

TEST_HARNESS_MAIN
