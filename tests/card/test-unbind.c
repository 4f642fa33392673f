/* SPDX-License-Identifier: MIT */
/* SEG_UNBIND: when the card releases a segment, and the contents of its memory then. */
#include <string.h>

#include "host.h"
#include "random.h"

#define LEN ((8u << 20) / SCALE)

static int setup(void **state)
{
	*state = rig_new(2);
	rig_bind_two(*state, LEN);
	return 0;
}

static void push_grind(struct client_queue *q, unsigned int rounds)
{
	struct pkt p;

	pkt_grind(&p, VRAM(0), LEN / 4, rounds);
	tq_push(q, &p);
}

static void push_copy(struct client_queue *q)
{
	struct pkt p;

	pkt_copy(&p, VRAM(0), SYSTEM(0), OPENREG_I64, LEN / 8);
	tq_push(q, &p);
}

/* A FILL elsewhere, which the copy thread runs after all its earlier work. */
static void fill_elsewhere(struct rig *rig)
{
	struct openreg_admin_cmd fill = cmd_fill(HOST_VRAM - (2u << 20), 2u << 20, 0);

	assert_int_equal(rig_admin(rig, &fill), 0);
}

/* The card releases a segment after the packet that uses it, not before. */
static void test_unbind_in_use(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd bind = cmd_vram(1, 1, 0, LEN, RW);
	unsigned int i, held = 0, busy = 0;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 60; i++) {
		uint64_t done;

		/* Avoid a pad among the packets: a pad uses no segment. */
		while (q.tail % q.slots > q.slots - 32)
			tq_nop(&q);
		client_publish(&q);
		tq_wait(&q);
		if (i % 2)
			push_copy(&q);
		else
			push_grind(&q, 50);
		push_grind(&q, 1);
		client_publish(&q);
		if (i % 3)
			WAIT_FOR(rig_load(rig, q.page) ||
				 rig_reg(rig, OPENREG_REG_STAT_PACKETS));
		busy += rig_unbind(rig, 1, 1);
		/* Packets that began before have completed; later packets fault. */
		done = client_done(&q);
		if (done < q.seq) {
			assert_int_equal(tq_wait_fault(&q).code,
					 OPENREG_FAULT_ADDRESS);
			assert_int_equal(client_done(&q), done);
			held++;
			assert_int_equal(tq_reset(&q, q.tail, q.seq), 0);
		}
		assert_int_equal(rig_admin(rig, &bind), 0);
		openreg_card_reg_write(
			rig->card, OPENREG_REG_FAULT_HEAD,
			rig_reg(rig, OPENREG_REG_FAULT_TAIL), 4);
	}
	assert_true(held > 0 && busy > 0);
}

/* SEG_UNBIND completes at once: a packet that uses the segment delays no command. */
static void test_unbind_completes_at_once(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd bind = cmd_vram(1, 1, 0, LEN, RW);
	unsigned int i, raised;
	struct client_queue q, late;
	struct pkt p;

	tq_create(rig, &q, 1, 0);
	tq_create(rig, &late, 1, 1);
	pkt_endless(&p, VRAM(0));
	tq_push(&q, &p);
	client_publish(&q);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STAT_COMPUTE_NS));
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_SEG_UNBIND, 1, 1), 0);
	for (i = 0; i < 3 * HOST_ADMIN_SLOTS; i++) {
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_SEG_UNBIND, 1, 1),
				 OPENREG_ADMIN_ENOENT);
		assert_int_equal(rig_admin(rig, &bind), OPENREG_ADMIN_EEXIST);
		assert_false(rig_released(rig, 1, 1));
	}
	assert_int_equal(client_done(&q), 0);
	push_grind(&late, 1);
	client_publish(&late);
	assert_int_equal(tq_wait_fault(&late).code, OPENREG_FAULT_ADDRESS);
	raised = atomic_load(&rig->bus.raised[0]);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_STOP, 1, 0), 0);
	WAIT_FOR(rig_released(rig, 1, 1));
	/* One interrupt for QUEUE_STOP, one for the release. */
	WAIT_FOR(atomic_load(&rig->bus.raised[0]) >= raised + 2);
	assert_int_equal(rig_admin(rig, &bind), 0);
	assert_false(rig_released(rig, 1, 1));
}

/* With UNBIND_CLEAR released memory is zero, also if a packet used the segment. */
static void test_unbind_clears(void **state)
{
	static const uint64_t lens[] = { 100, 4096, LEN };
	struct rig *rig = *state;
	struct openreg_admin_cmd bind, unbind = cmd_unbind(1, 3, OPENREG_UNBIND_CLEAR);
	const uint64_t off = HOST_VRAM / 2;
	unsigned int i;
	struct client_queue q;

	tq_create(rig, &q, 1, 0);
	for (i = 0; i < 6; i++) {
		uint64_t len = lens[i % 3];

		bind = cmd_vram(1, 3, off, len, RW);
		assert_int_equal(rig_admin(rig, &bind), 0);
		memset(rig->vram + off, 0x5a, LEN + 1);
		if (i >= 3) {
			struct pkt p;

			pkt_sync(&p, OPENREG_OP_SIGNAL, 0,
				 OPENREG_ADDR(0, 3, 0), 0x77);
			tq_push(&q, &p);
			pkt_grind(&p, OPENREG_ADDR(0, 3, 0), len / 4, 5);
			tq_push(&q, &p);
			client_publish(&q);
			WAIT_FOR(rig_load(rig, q.page) >= q.seq - 1);
		}
		assert_int_equal(rig_admin(rig, &unbind), 0);
		WAIT_FOR(rig_released(rig, 1, 3));
		assert_int_equal(rig->vram[off], 0);
		assert_int_equal(memcmp(rig->vram + off, rig->vram + off + 1,
					len - 1), 0);
		assert_int_equal(rig->vram[off + len], 0x5a);
		WAIT_FOR(client_done(&q) == q.seq ||
			 client_state(&q) == OPENREG_QUEUE_FAULTED);
		if (client_done(&q) != q.seq)
			tq_recover(&q);
	}
	unbind.id = 2;
	assert_int_equal(rig_admin(rig, &unbind), OPENREG_ADMIN_EINVAL);
	unbind.unbind.flags = 2;
	assert_int_equal(rig_admin(rig, &unbind), OPENREG_ADMIN_EINVAL);
	unbind.unbind.flags = 0;
	unbind.arg[1] = 1;
	assert_int_equal(rig_admin(rig, &unbind), OPENREG_ADMIN_EINVAL);
	rig_unbind(rig, 1, 2);
}

/* CTX_DESTROY waits until memory is cleared: another context may get it afterwards. */
static void test_destroy_while_clearing(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd unbind = cmd_unbind(1, 1, OPENREG_UNBIND_CLEAR);
	struct openreg_admin_cmd bind = cmd_vram(1, 1, 0, LEN, RW);
	unsigned int i, k;

	for (i = 0; i < 40; i++) {
		memset(rig->vram, 0x5a, LEN);
		rig_submit(rig, &unbind);
		for (k = (unsigned int)below(20000); k; k--)
			__asm__ volatile("");
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_DESTROY, 1, 0),
				 0);
		assert_true(rig_released(rig, 1, 1));
		assert_int_equal(rig->vram[0], 0);
		assert_int_equal(memcmp(rig->vram, rig->vram + 1, LEN - 1), 0);
		memset(rig->vram, 0x5a, LEN);
		fill_elsewhere(rig);
		assert_int_equal(rig->vram[0], 0x5a);
		assert_int_equal(memcmp(rig->vram, rig->vram + 1, LEN - 1), 0);
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0),
				 0);
		assert_int_equal(rig_admin(rig, &bind), 0);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_unbind_in_use),
		T(test_unbind_completes_at_once),
		T(test_unbind_clears),
		T(test_destroy_while_clearing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
