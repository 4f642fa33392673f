/* SPDX-License-Identifier: MIT */
/* The scheduler: how contexts share engine time and card memory. */
#include "core/core.h"
#include "core/queue.h"
#include "job/work.h"
#include "host.h"

#define HALF (HOST_VRAM / 2)
#define ROW (262144 / SCALE) /* elements: a SORT of many slices that needs card memory */
#define ROW_MEMORY (25ULL * ROW)
#define WAITERS 16
#define SIGNALS 500
#define SORTS 8
#define OTHERS 12 /* queues */
#define FLOOD 28
#define QUEUES 320
#define CONTEXTS 64 /* each with its own doorbell */
#define ROUNDS 500
#define IDLE 33 /* awake queues without packets */
#define COPIES 100
#define PLACE (HALF / 32) /* bytes of a queue's destination */
#define TRIES 10
#define TURNS 8
#define GROUND ((2 << 20) / SCALE) /* elements of a packet of many slices */

static int setup(void **state)
{
	struct rig *rig = rig_new(2);

	rig_bind_two(rig, HALF);
	*state = rig;
	return 0;
}

/* The card polls for a second, so queues stay awake. */
static int set_up_awake(void **state, unsigned int workers)
{
	struct rig *rig = rig_new_spin(workers, 1000000);

	rig_enable(rig);
	rig_bind_two(rig, HALF);
	*state = rig;
	return 0;
}

static int setup_awake(void **state)
{
	return set_up_awake(state, 2);
}

static int setup_alone(void **state)
{
	return set_up_awake(state, 1);
}

static void create(struct rig *rig, struct client_queue *q, uint32_t ctx, uint32_t id,
		   uint32_t priority)
{
	tq_init(rig, q, ctx, id, 256);
	rig_do(rig, cmd_queue(q, priority));
}

static bool is_backed_off(struct rig *rig, uint32_t id)
{
	const struct queue *q = rig->card->queue[id];
	bool rarely;

	pthread_mutex_lock(&rig->card->sched.lock);
	rarely = q->waiting && q->backoff_ns == OPENREG_BACKOFF_MAX_NS;
	pthread_mutex_unlock(&rig->card->sched.lock);
	return rarely;
}

/* Number of turns of all queues. */
static uint64_t served(struct rig *rig)
{
	uint64_t n;

	pthread_mutex_lock(&rig->card->sched.lock);
	n = rig->card->sched.served;
	pthread_mutex_unlock(&rig->card->sched.lock);
	return n;
}

/* A SIGNAL of one context does not make the card check the WAITs of another. */
static void test_signals_of_others(void **state)
{
	struct rig *rig = *state;
	struct client_queue from, q[WAITERS];
	uint64_t start, n, ms;
	unsigned int i;
	struct pkt p;

	pkt_sync(&p, OPENREG_OP_WAIT, OPENREG_WAIT_EQ, VRAM(0), 1);
	for (i = 0; i < WAITERS; i++) {
		create(rig, &q[i], 2, i + 1, OPENREG_PRIORITY_NORMAL);
		tq_push(&q[i], &p);
		client_publish(&q[i]);
	}
	create(rig, &from, 1, 0, OPENREG_PRIORITY_NORMAL);
	for (i = 0; i < WAITERS; i++)
		WAIT_FOR(is_backed_off(rig, i + 1));
	pkt_sync(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, VRAM(8), 1);
	start = host_now();
	n = served(rig);
	for (i = 0; i < SIGNALS; i++)
		tq_run(&from, &p);
	n = served(rig) - n;
	ms = (host_now() - start) / OPENREG_BACKOFF_MAX_NS;
	print_message("%llu turns in %llu ms\n", (unsigned long long)n,
		      (unsigned long long)ms);
	assert_true(n <= 2 * SIGNALS + WAITERS * (ms + 2));
	/* The back-off poll still finds a changed word. */
	__atomic_store_n((uint64_t *)(rig->vram + HALF), 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < WAITERS; i++)
		tq_wait(&q[i]);
}

static void push_sort(struct client_queue *q, int64_t n)
{
	const int64_t one = 1;
	struct pkt p;

	pkt_begin(&p, OPENREG_OP_SORT, 1, &n);
	pkt_operand(&p, VRAM(8ULL * ROW * (q->id + 1)), OPENREG_I64, &one);
	pkt_operand(&p, VRAM(0), OPENREG_I64, &one);
	pkt_imm(&p, 0);
	pkt_imm(&p, (uint64_t)n);
	tq_push(q, &p);
}

/* Leaves job memory for one large SORT only. */
static void leave_memory_for_one(struct rig *rig)
{
	atomic_store(&rig->card->extra, OPENREG_EXTRA_MAX - ROW_MEMORY);
}

/* Checks that all jobs have freed their memory. */
static void check_extra(struct rig *rig)
{
	WAIT_FOR(atomic_load(&rig->card->extra) ==
		 OPENREG_EXTRA_MAX - ROW_MEMORY);
	assert_int_equal(atomic_load(&rig->card->sched.ntickets), 0);
}

static uint64_t completed(struct client_queue *q, unsigned int n)
{
	uint64_t sum = 0;

	while (n--)
		sum += client_done(&q[n]);
	return sum;
}

/* Number of small SORTs that complete while the large SORTs run. */
static uint64_t count_small(struct client_queue *q, struct client_queue *others)
{
	uint64_t before = completed(others, OTHERS), done;
	unsigned int i, j;

	for (i = 0; i < SORTS; i++)
		push_sort(q, ROW);
	for (i = 0; i < OTHERS; i++) {
		for (j = 0; j < 4 * SORTS; j++)
			push_sort(&others[i], ROW / 4);
		client_publish(&others[i]);
	}
	WAIT_FOR(completed(others, OTHERS) > before);
	done = completed(others, OTHERS);
	client_publish(q);
	tq_wait(q);
	done = completed(others, OTHERS) - done;
	for (i = 0; i < OTHERS; i++)
		tq_wait(&others[i]);
	return done;
}

/*
 * Small jobs of one context do not take all memory from a large job of another. Take the
 * best of several tries: this thread may lose the CPU before it counts.
 */
static void test_memory_in_turns(void **state)
{
	struct client_queue q, others[OTHERS];
	struct rig *rig = *state;
	uint64_t least = UINT64_MAX;
	unsigned int i;

	leave_memory_for_one(rig);
	create(rig, &q, 2, OTHERS, OPENREG_PRIORITY_NORMAL);
	for (i = 0; i < OTHERS; i++)
		create(rig, &others[i], 1, i, OPENREG_PRIORITY_NORMAL);
	for (i = 0; i < TRIES; i++) {
		uint64_t done = count_small(&q, others);

		if (done < least)
			least = done;
	}
	print_message("at least %llu small jobs while %u large jobs ran\n",
		      (unsigned long long)least, SORTS);
	assert_true(least <= OTHERS * SORTS / 2);
	check_extra(rig);
}

/*
 * Priority inversion: a LOW queue holds memory for which another context waits. The other
 * queues of its own context do not starve it.
 */
static void test_memory_and_priority(void **state)
{
	struct rig *rig = *state;
	struct client_queue low, flood[2], q;
	unsigned int i;
	struct pkt p;

	leave_memory_for_one(rig);
	create(rig, &low, 1, 0, OPENREG_PRIORITY_LOW);
	create(rig, &flood[0], 1, 1, OPENREG_PRIORITY_NORMAL);
	create(rig, &flood[1], 1, 2, OPENREG_PRIORITY_NORMAL);
	create(rig, &q, 2, 3, OPENREG_PRIORITY_NORMAL);
	for (i = 0; i < SORTS; i++)
		push_sort(&low, ROW);
	for (i = 0; i < 2 * FLOOD; i++) {
		pkt_grind(&p, VRAM(HALF / 2 + i % 2 * (HALF / 4)), GROUND, 40);
		tq_push(&flood[i % 2], &p);
	}
	push_sort(&q, ROW);
	client_publish(&low);
	WAIT_FOR(atomic_load(&rig->card->extra) >
			 OPENREG_EXTRA_MAX - ROW_MEMORY ||
		 client_done(&low));
	client_publish(&flood[0]);
	client_publish(&flood[1]);
	client_publish(&q);
	tq_wait(&q);
	assert_true(client_done(&flood[0]) < FLOOD);
	assert_true(client_done(&flood[1]) < FLOOD);
}

/* Makes two contexts wait for memory, in this order. */
static void wait_for_memory(struct rig *rig, struct client_queue q[2])
{
	unsigned int i;

	atomic_store(&rig->card->extra, OPENREG_EXTRA_MAX);
	for (i = 0; i < 2; i++) {
		create(rig, &q[i], i + 1, i, OPENREG_PRIORITY_NORMAL);
		push_sort(&q[i], ROW);
		client_publish(&q[i]);
		WAIT_FOR(is_backed_off(rig, i));
	}
}

/* A stopped queue gives up its place among the waiters for memory. */
static void test_memory_and_stop(void **state)
{
	struct rig *rig = *state;
	struct client_queue q[2];

	wait_for_memory(rig, q);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_STOP, 1, 0), 0);
	leave_memory_for_one(rig);
	tq_wait(&q[1]);
	check_extra(rig);
}

/* A queue loses its place if a WAIT replaces the packet that waited for memory. */
static void test_memory_and_wait(void **state)
{
	struct rig *rig = *state;
	struct client_queue q[2];
	struct pkt p;

	wait_for_memory(rig, q);
	pkt_sync(&p, OPENREG_OP_WAIT, OPENREG_WAIT_EQ, VRAM(0), 1);
	q[0].tail = 0;
	tq_push(&q[0], &p);
	leave_memory_for_one(rig);
	tq_wait(&q[1]);
	check_extra(rig);
}

struct sched_stats {
	unsigned int nawake;
	uint64_t rounds;
	uint64_t loads;
};

static struct sched_stats sched_stats(struct rig *rig)
{
	struct openreg_card *card = rig->card;
	struct sched_stats l;

	pthread_mutex_lock(&card->sched.lock);
	l.nawake = card->sched.nawake;
	l.rounds = card->sched.round;
	l.loads = atomic_load(&rig->bus.loads);
	pthread_mutex_unlock(&card->sched.lock);
	return l;
}

/* On a busy host the first queues may sleep again before the last one is awake. */
static bool all_awake(struct rig *rig, unsigned int awake)
{
	unsigned int i;

	for (i = 0; i < rig->config.doorbells; i++)
		openreg_card_doorbell(rig->card, i);
	return sched_stats(rig).nawake == awake;
}

static void ring_all(struct rig *rig, unsigned int awake)
{
	WAIT_FOR(all_awake(rig, awake));
}

static void run_nops(struct client_queue *q, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		tq_nop(&q[i]);
		client_publish(&q[i]);
	}
	for (i = 0; i < n; i++)
		tq_wait(&q[i]);
}

/* A round reads at most `most` tails, however many queues are awake; each queue runs. */
static void check_tail_reads(struct rig *rig, unsigned int contexts,
			unsigned int most)
{
	static struct client_queue q[QUEUES];
	struct sched_stats start, end;
	unsigned int i;

	for (i = 0; i < QUEUES; i++)
		create(rig, &q[i], 1 + i % contexts, i,
		       OPENREG_PRIORITY_NORMAL);
	ring_all(rig, QUEUES);
	start = sched_stats(rig);
	/* On a busy host all queues may sleep before there were so many rounds. */
	do {
		host_rest();
		end = sched_stats(rig);
	} while (end.nawake && end.rounds <= start.rounds + ROUNDS);
	end.rounds -= start.rounds;
	end.loads -= start.loads;
	print_message("%llu loads in %llu rounds\n",
		      (unsigned long long)end.loads,
		      (unsigned long long)end.rounds);
	assert_true(end.rounds > 0);
	/* Twice, since the card reads a tail again before it puts the queue to sleep. */
	assert_true(end.loads <= end.rounds * 2 * (most + 1));
	run_nops(q, QUEUES);
}

/* Many queues of one context do not delay others by reads of their tails. */
static void test_many_queues(void **state)
{
	check_tail_reads(*state, 1, OPENREG_POLLS_EACH);
}

/* The same for many queues in many contexts. */
static void test_many_contexts(void **state)
{
	unsigned int i;

	for (i = 3; i <= CONTEXTS; i++)
		assert_int_equal(rig_op(*state, OPENREG_ADMIN_CTX_CREATE, i, 0),
				 0);
	check_tail_reads(*state, CONTEXTS, OPENREG_POLLS);
}

/* Copies of a quarter of the context's VRAM; the rows overlap at the destination. */
static void push_copies(struct client_queue *q, unsigned int place)
{
	const int64_t sizes[] = { HALF / 2 / PLACE, PLACE / 2 };
	const int64_t from[] = { PLACE / 2, 1 };
	const int64_t to[] = { 64, 1 };
	struct pkt p;
	unsigned int i;

	pkt_begin(&p, OPENREG_OP_COPY, 2, sizes);
	pkt_operand(&p, VRAM(place * PLACE), OPENREG_U8, to);
	pkt_operand(&p, VRAM(HALF / 2), OPENREG_U8, from);
	for (i = 0; i < COPIES; i++)
		tq_push(q, &p);
}

/* A new packet of an idle queue runs soon, although another context floods the card. */
static void test_seen_in_turns(void **state)
{
	static struct client_queue q[IDLE];
	struct rig *rig = *state;
	struct client_queue flood[OTHERS];
	uint64_t done, least = UINT64_MAX;
	unsigned int i;

	for (i = 0; i < IDLE; i++)
		create(rig, &q[i], 1, i, OPENREG_PRIORITY_NORMAL);
	for (i = 0; i < OTHERS; i++) {
		create(rig, &flood[i], 2, IDLE + i, OPENREG_PRIORITY_NORMAL);
		push_copies(&flood[i], i);
	}
	ring_all(rig, IDLE + OTHERS);
	for (i = 0; i < OTHERS; i++)
		client_publish(&flood[i]);
	WAIT_FOR(completed(flood, OTHERS));
	/* Take the best of several tries: this thread may lose the CPU. */
	for (i = 0; i < TRIES; i++) {
		done = completed(flood, OTHERS);
		run_nops(q, IDLE);
		done = completed(flood, OTHERS) - done;
		least = done < least ? done : least;
	}
	print_message("at least %llu copies meanwhile\n",
		      (unsigned long long)least);
	assert_true(completed(flood, OTHERS) < OTHERS * COPIES);
	assert_true(least <= TURNS);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
#define AWAKE(f) cmocka_unit_test_setup_teardown(f, setup_awake, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_signals_of_others),
		T(test_memory_in_turns),
		T(test_memory_and_priority),
		T(test_memory_and_stop),
		T(test_memory_and_wait),
		AWAKE(test_many_queues),
		AWAKE(test_many_contexts),
		cmocka_unit_test_setup_teardown(test_seen_in_turns,
						setup_alone, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
