// SPDX-License-Identifier: MIT
/* A LIST goes on where it was stopped, saved or put to sleep: no packet runs twice. */
#include <stdlib.h>
#include <string.h>

#include "core/state.h"
#include "lists.h"
#include "random.h"

#define DATA(off) OPENREG_ADDR(0, SEG_DATA, off)
#define LEN ((4u << 20) / SCALE)
#define OLD_WORDS 6 /* of a queue, that states before LIST lack */

static int setup(void **state)
{
	*state = lists_rig(2, LEN);
	return 0;
}

/* Each round adds 30 to every word, and moves the words to system memory and back. */
static void make_work(struct list *list, unsigned int rounds)
{
	const uint64_t away = OPENREG_ADDR(0, SEG_SYSTEM, LIST_LEN / 2);
	struct pkt p;

	while (rounds--) {
		pkt_grind(&p, DATA(0), LEN / 4, 30);
		list_add(list, &p);
		list_nop(list, 1);
		pkt_copy(&p, away, DATA(0), OPENREG_I64, LIST_LEN / 16);
		list_add(list, &p);
		pkt_copy(&p, DATA(0), away, OPENREG_I64, LIST_LEN / 16);
		list_add(list, &p);
	}
}

static void check_words(struct rig *rig, uint32_t want)
{
	const uint32_t *words = (const uint32_t *)rig->vram;
	unsigned int i;

	for (i = 0; i < LEN / 4; i++)
		if (words[i] != want)
			fail_msg("word %u is %u, not %u", i, words[i], want);
}

static uint64_t page_word(struct client_queue *q, size_t off)
{
	return rig_load(rig_of(q), q->page + off);
}

static void stop_queue(struct client_queue *q)
{
	rig_do(rig_of(q), cmd_stop(1, q->id, OPENREG_STOP_AFTER_PACKET));
	assert_int_equal(client_state(q), OPENREG_QUEUE_STOPPED);
}

static bool is_inside(struct client_queue *q)
{
	return page_word(q, offsetof(struct openreg_card_page, list_done));
}

/* Stops at random moments, and continues with the same queue or a new one. */
static void stop_and_go(struct rig *rig, bool keep)
{
	const unsigned int rounds = 4;
	struct openreg_admin_cmd cmd;
	unsigned int i, lists = 0, inside = 0;
	struct list list;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_VRAM);
	make_work(&list, rounds);
	/* On a busy host the lists may end during the delays. */
	for (i = 0; i < 60 || inside < 4; i++) {
		if (client_done(&q) == q.seq) {
			list_push(&q, &list);
			list_push(&q, &list);
			client_publish(&q);
			lists += 2;
		}
		random_delay(i % 8 ? 2000000 : 1);
		stop_queue(&q);
		inside += is_inside(&q);
		if (keep) {
			assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_DESTROY,
						1, 0), 0);
			cmd = cmd_queue(&q, OPENREG_PRIORITY_NORMAL);
			cmd.queue.flags = OPENREG_QUEUE_KEEP;
			rig_do(rig, cmd);
			assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
		}
		assert_int_equal(tq_reset(&q, client_head(&q), client_done(&q)),
				 0);
	}
	tq_wait(&q);
	check_words(rig, lists * rounds * 30);
}

static void test_stop(void **state)
{
	stop_and_go(*state, false);
}

static void test_keep(void **state)
{
	stop_and_go(*state, true);
}

/* Replaces the card by a new one that loads the saved state. */
static void load(struct rig *rig, void *blob, size_t len)
{
	const char *error = NULL;
	uint32_t tail = rig->client.tail;

	openreg_card_free(rig->card);
	rig_make_card(rig);
	rig->client.tail = tail;
	rig_pause(rig);
	if (openreg_card_load(rig->card, blob, len, &error))
		fail_msg("load: %s", error);
	free(blob);
	openreg_card_resume(rig->card);
}

static void migrate(struct rig *rig)
{
	size_t len;
	void *blob;

	rig_pause(rig);
	openreg_card_finish(rig->card);
	blob = openreg_card_save(rig->card, &len);
	assert_non_null(blob);
	load(rig, blob, len);
}

static void test_migrate(void **state)
{
	const unsigned int lists = 8, rounds = 4;
	struct rig *rig = *state;
	struct list list;
	unsigned int i;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	list_init(rig, &list, SEG_SYSTEM);
	make_work(&list, rounds);
	for (i = 0; i < lists; i++)
		list_push(&q, &list);
	client_publish(&q);
	for (i = 0; i < 40; i++) {
		random_delay(i % 5 ? 2000000 : 1);
		migrate(rig);
	}
	tq_wait(&q);
	assert_int_equal(client_done(&q), lists);
	check_words(rig, lists * rounds * 30);
}

/* A LIST of counts that waits in its middle. */
static void park(struct rig *rig, struct client_queue *q)
{
	struct list list;
	unsigned int i;

	tq_create(rig, q, 1, 0);
	list_init(rig, &list, SEG_SYSTEM);
	for (i = 0; i < 400; i++) {
		if (i == 200)
			list_sync(&list, OPENREG_OP_WAIT, OPENREG_WAIT_GE, DATA(8), 1);
		else
			list_count(&list, DATA(0));
	}
	list_push(q, &list);
	client_publish(q);
	WAIT_FOR(list_data(rig, 0) == 200);
}

static void unpark(struct rig *rig, struct client_queue *q, uint64_t want)
{
	__atomic_store_n((uint64_t *)(rig->vram + 8), 1, __ATOMIC_SEQ_CST);
	tq_wait(q);
	assert_int_equal(*(uint64_t *)rig->vram, want);
}

/* A LIST that waits survives a save, a stop, and a save of the stopped queue. */
static void test_parked(void **state)
{
	struct rig *rig = *state;
	struct client_queue q;

	park(rig, &q);
	migrate(rig);
	stop_queue(&q);
	migrate(rig);
	assert_int_equal(client_state(&q), OPENREG_QUEUE_STOPPED);
	assert_int_equal(tq_reset(&q, 0, 0), 0);
	unpark(rig, &q, 399);
}

/* Loads the state as one of an older card, which has `less` words less for each queue. */
static void load_old(struct rig *rig, uint64_t magic, unsigned int less)
{
	uint64_t *words;
	size_t len, i;
	struct client_queue q;

	park(rig, &q);
	rig_pause(rig);
	openreg_card_finish(rig->card);
	words = openreg_card_save(rig->card, &len);
	assert_non_null(words);
	assert_int_equal(words[0], STATE_MAGIC);
	words[0] = magic;
	for (i = 0; words[i] != q.ring; i++)
		assert_true(i < len / 8);
	/* ring, three pages, slots to priority, state to dying, head, completed */
	i += 1 + 3 + 4 + 3 + 2;
	assert_int_equal(words[i], 200);
	assert_int_equal(words[i + 1], 200);
	i += OLD_WORDS - less;
	memmove(words + i, words + i + less, len - 8 * (i + less));
	load(rig, words, len - 8 * less);
	/* A card without LIST has none to be in: the LIST begins. */
	unpark(rig, &q, less == OLD_WORDS ? 200 + 399 : 399);
}

static void test_old_states(void **state)
{
	load_old(*state, STATE_MAGIC_NO_LISTS, OLD_WORDS);
}

static void test_old_states_with_lists(void **state)
{
	load_old(*state, STATE_MAGIC_NO_TRACE, 4);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_stop),
		T(test_keep),
		T(test_migrate),
		T(test_parked),
		T(test_old_states),
		T(test_old_states_with_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
