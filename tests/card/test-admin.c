/* SPDX-License-Identifier: MIT */
/* Every admin command and every status. */
#include <string.h>

#include "host.h"

static uint32_t run(struct rig *rig, struct openreg_admin_cmd cmd)
{
	return rig_admin(rig, &cmd);
}

static int setup(void **state)
{
	rig_setup(state);
	return (int)rig_op(*state, OPENREG_ADMIN_CTX_CREATE, 1, 0);
}

static void test_unknown(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd cmd = { 0 };

	assert_int_equal(rig_op(rig, 10, 0, 0), OPENREG_ADMIN_EOPCODE);
	assert_int_equal(rig_op(rig, 0xffff, 0, 0), OPENREG_ADMIN_EOPCODE);
	cmd.flags = 1;
	assert_int_equal(run(rig, cmd), OPENREG_ADMIN_EINVAL);
	cmd.flags = 0;
	cmd.reserved = 1;
	assert_int_equal(run(rig, cmd), OPENREG_ADMIN_EINVAL);
}

/* Several commands at once, around the ring; each completion raises vector 0. */
static void test_ring(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd nop = { 0 };
	unsigned int before, i, k;

	rig_pause(rig); /* after this all vectors of earlier commands were raised */
	before = atomic_load(&rig->bus.raised[0]);
	openreg_card_resume(rig->card);
	for (i = 0; i < 20; i++) {
		for (k = 0; k < HOST_ADMIN_SLOTS; k++)
			rig_submit(rig, &nop);
		for (k = HOST_ADMIN_SLOTS; k > 0; k--)
			assert_int_equal(rig_status(rig, rig->client.tail - k),
					 0);
	}
	WAIT_FOR(atomic_load(&rig->bus.raised[0]) ==
		 before + 20 * HOST_ADMIN_SLOTS);
}

static void test_contexts(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd cmd = cmd_context(2, 0);
	unsigned int i;

	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0),
			 OPENREG_ADMIN_EEXIST);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE,
				OPENREG_MAX_CONTEXTS, 0),
			 OPENREG_ADMIN_EINVAL);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 2, 1),
			 OPENREG_ADMIN_EINVAL);
	cmd.arg[5] = 1;
	assert_int_equal(run(rig, cmd), OPENREG_ADMIN_EINVAL);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_DESTROY, 2, 0),
			 OPENREG_ADMIN_ENOENT);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_DESTROY, UINT32_MAX, 0),
			 OPENREG_ADMIN_ENOENT);
	for (i = 0; i < OPENREG_MAX_CONTEXTS; i++)
		if (i != 1)
			assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE,
						i, 0), 0);
	for (i = 0; i < OPENREG_MAX_CONTEXTS; i++)
		assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_DESTROY, i, 0),
				 0);
}

static void test_bind_vram(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd good = cmd_vram(1, 5, 4096, 100, RW), c;

#define REFUSED(change)                                                        \
	do {                                                                   \
		c = good;                                                      \
		change;                                                        \
		assert_int_equal(run(rig, c), OPENREG_ADMIN_EINVAL);           \
	} while (0)
	REFUSED(c.id = 0);
	REFUSED(c.id = OPENREG_MAX_SEGMENTS);
	REFUSED(c.seg.kind = 0);
	REFUSED(c.seg.kind = OPENREG_SEG_PEER);
	REFUSED(c.seg.kind = 77);
	REFUSED(c.seg.perm = 0);
	REFUSED(c.seg.perm = 4 | RW);
	REFUSED(c.seg.length = 0);
	REFUSED(c.seg.length = UINT64_MAX);
	REFUSED(c.seg.length = HOST_VRAM - 4096 + 1);
	REFUSED(c.seg.base = 100);
	REFUSED(c.seg.base = HOST_VRAM);
	REFUSED(c.seg.base = UINT64_MAX & ~4095ULL);
	REFUSED(c.seg.npages = 1);
	REFUSED(c.seg.page_shift = 12);
	REFUSED(c.seg.offset = 1);
	REFUSED(c.seg.reserved = 1);
	c = good;
	c.ctx = 2;
	assert_int_equal(run(rig, c), OPENREG_ADMIN_ENOENT);
	assert_int_equal(run(rig, good), OPENREG_ADMIN_OK);
	assert_int_equal(run(rig, good), OPENREG_ADMIN_EEXIST);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_SEG_UNBIND, 1, 5), 0);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_SEG_UNBIND, 1, 5),
			 OPENREG_ADMIN_ENOENT);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_SEG_UNBIND, 1, UINT32_MAX),
			 OPENREG_ADMIN_ENOENT);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_SEG_UNBIND, 9, 5),
			 OPENREG_ADMIN_ENOENT);
	assert_int_equal(run(rig, good), OPENREG_ADMIN_OK);
}

static void refuse_lists(struct rig *rig, uint32_t id, uint32_t kind)
{
	uint64_t mem = rig_alloc(rig, 8192), odd = rig_alloc(rig, 8);
	struct openreg_admin_cmd good = cmd_system(rig, 1, id, mem + 40, 5000,
						   RW, true), c;

	good.seg.kind = kind;
	REFUSED(c.seg.npages = 1);
	REFUSED(c.seg.npages = 3);
	REFUSED(c.seg.npages = 0);
	REFUSED(c.seg.npages = UINT64_MAX);
	REFUSED(c.seg.page_shift = 13);
	REFUSED(c.seg.page_shift = 0);
	REFUSED(c.seg.page_shift = 64);
	REFUSED(c.seg.offset = 4096);
	REFUSED(c.seg.base += 4);
	REFUSED(c.seg.length = (1ULL << 38) + 1);
	rig_store(rig, odd, mem + 8);
	REFUSED(c.seg.base = odd; c.seg.length = 8; c.seg.npages = 1);
	rig_store(rig, odd, UINT64_MAX & ~4095ULL);
	REFUSED(c.seg.base = odd; c.seg.length = 8; c.seg.npages = 1);
	/* A page list outside of memory, or partly outside. */
	c = good;
	c.seg.base = 0x1000;
	assert_int_equal(run(rig, c), OPENREG_ADMIN_EDMA);
	c.seg.base = BUS_BASE + HOST_MEM - 8;
	assert_int_equal(run(rig, c), OPENREG_ADMIN_EDMA);
	c.seg.length = 1ULL << 38;
	c.seg.npages = (c.seg.length + c.seg.offset + 4095) / 4096;
	assert_int_equal(run(rig, c), OPENREG_ADMIN_EDMA);
	assert_int_equal(run(rig, good), OPENREG_ADMIN_OK);
}

static void test_bind_system(void **state)
{
	refuse_lists(*state, 5, OPENREG_SEG_SYSTEM);
}

static void test_bind_peer(void **state)
{
	refuse_lists(*state, 6, OPENREG_SEG_PEER);
}

/* Pages of 2 MiB; the segment begins inside the first page. */
static void test_large_pages(void **state)
{
	struct rig *rig = *state;
	uint64_t list = rig_alloc(rig, 16);
	struct openreg_admin_cmd cmd = cmd_pages(1, 9, list, 1 << 20, 2 << 20, RW);
	uint64_t first = BUS_BASE + (40u << 20), second = BUS_BASE + (20u << 20);
	struct openreg_admin_cmd vram = cmd_vram(1, 1, 0, 4 << 20, RW);
	struct client_queue q;
	struct pkt p;

	cmd.seg.npages = 2;
	cmd.seg.page_shift = 21;
	rig_store(rig, list, first);
	rig_store(rig, list + 8, second);
	assert_int_equal(run(rig, cmd), 0);
	assert_int_equal(run(rig, vram), 0);
	rig_store(rig, first + (2 << 20) - 8, 1111);
	rig_store(rig, second, 2222);
	tq_create(rig, &q, 1, 0);
	pkt_copy(&p, OPENREG_ADDR(0, 1, 0), OPENREG_ADDR(0, 9, (1 << 20) - 8),
		 OPENREG_I64, 2);
	tq_run(&q, &p);
	assert_int_equal(((uint64_t *)rig->vram)[0], 1111);
	assert_int_equal(((uint64_t *)rig->vram)[1], 2222);
}

static void test_queues(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd good, c;
	struct client_queue q;

	tq_init(rig, &q, 1, 3, 64);
	good = cmd_queue(&q, OPENREG_PRIORITY_HIGH);
	REFUSED(c.id = OPENREG_MAX_QUEUES);
	REFUSED(c.queue.slots = 0);
	REFUSED(c.queue.slots = 32);
	REFUSED(c.queue.slots = 65);
	REFUSED(c.queue.slots = OPENREG_RING_SLOTS_MAX * 2);
	REFUSED(c.queue.ring += 64);
	REFUSED(c.queue.user_page += 8);
	REFUSED(c.queue.card_page += 8);
	REFUSED(c.queue.kernel_page += 8);
	REFUSED(c.queue.doorbell = 64);
	REFUSED(c.queue.vector = 0);
	REFUSED(c.queue.vector = 32);
	REFUSED(c.queue.priority = OPENREG_PRIORITY_HIGH + 1);
	REFUSED(c.queue.flags = OPENREG_QUEUE_KEEP << 1);
	c = good;
	c.queue.kernel_page = 0x1000;
	assert_int_equal(run(rig, c), OPENREG_ADMIN_EDMA);
	c = good;
	c.queue.ring = BUS_BASE + HOST_MEM - 4096;
	c.queue.slots = 128;
	assert_int_equal(run(rig, c), OPENREG_ADMIN_EDMA);
	c = good;
	c.ctx = 0;
	assert_int_equal(run(rig, c), OPENREG_ADMIN_ENOENT);
	assert_int_equal(run(rig, good), OPENREG_ADMIN_OK);
	assert_int_equal(run(rig, good), OPENREG_ADMIN_EEXIST);
	/* Another context cannot name the queue. */
	rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 2, 0);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_STOP, 2, 3),
			 OPENREG_ADMIN_ENOENT);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_DESTROY, 2, 3),
			 OPENREG_ADMIN_ENOENT);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_RESET, 1, 4),
			 OPENREG_ADMIN_ENOENT);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_STOP, 1, 3), 0);
	assert_int_equal(rig_op(rig, OPENREG_ADMIN_QUEUE_DESTROY, 1, 3), 0);
}

static void test_fill(void **state)
{
	static const struct {
		uint64_t off, len, value;
	} bad[] = {
		{ 1, 4096, 0 },
		{ 0, 1, 0 },
		{ 0, 4096, 256 },
		{ 0, HOST_VRAM + 4096, 0 },
		{ HOST_VRAM, 4096, 0 },
		{ 4096, UINT64_MAX & ~4095ULL, 0 },
	};
	struct rig *rig = *state;
	struct openreg_admin_cmd cmd;
	uint32_t first, i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(run(rig, cmd_fill(bad[i].off, bad[i].len,
						   bad[i].value)),
				 OPENREG_ADMIN_EINVAL);
	cmd = cmd_fill(0, 4096, 0);
	cmd.ctx = 1;
	assert_int_equal(run(rig, cmd), OPENREG_ADMIN_EINVAL);
	cmd.ctx = 0;
	cmd.id = 1;
	assert_int_equal(run(rig, cmd), OPENREG_ADMIN_EINVAL);
	assert_int_equal(run(rig, cmd_fill(4096, 0, 1)), 0);
	/* Small fills run at once, large fills on the copy thread, all in parallel. */
	first = rig->client.tail;
	for (i = 0; i < 8; i++) {
		cmd = cmd_fill(i * (8u << 20), i % 2 ? 8u << 20 : 4096, i + 1);
		rig_submit(rig, &cmd);
	}
	for (i = 0; i < 8; i++)
		assert_int_equal(rig_status(rig, first + i), 0);
	for (i = 0; i < HOST_VRAM; i++) {
		uint32_t n = i / (8u << 20), at = i % (8u << 20);

		if (n % 2 || at < 4096)
			assert_true(rig->vram[i] == n + 1);
		else
			assert_true(rig->vram[i] == 0);
	}
}

/* Fills complete in the order of their commands. */
static void test_fill_order(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd cmd;
	uint32_t first = rig->client.tail, i;

	for (i = 0; i < 40; i++) {
		cmd = cmd_fill(0, HOST_VRAM, i);
		rig_submit(rig, &cmd);
	}
	for (i = 0; i < 40; i++)
		assert_int_equal(rig_status(rig, first + i), 0);
	for (i = 0; i < HOST_VRAM; i += 4096)
		assert_int_equal(rig->vram[i], 39);
}

static void test_bus_address_of_rings(void **state)
{
	struct rig *rig = *state;
	struct openreg_admin_cmd nop = { 0 };
	uint32_t index;

	/* The bus refuses the command's slot: the card stays FATAL. */
	atomic_store(&rig->bus.bad_len, 64);
	atomic_store(&rig->bus.bad_bus, rig->client.cmds + rig->client.tail * 64);
	index = rig_submit(rig, &nop);
	WAIT_FOR(rig_reg(rig, OPENREG_REG_STATUS) == OPENREG_STATUS_FATAL);
	assert_false(rig_completed(rig, index));
	atomic_store(&rig->bus.bad_bus, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(test_unknown),	T(test_ring),
		T(test_contexts),	T(test_bind_vram),
		T(test_bind_system),	T(test_bind_peer),
		T(test_large_pages),
		T(test_queues),		T(test_fill),
		T(test_fill_order),	T(test_bus_address_of_rings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
