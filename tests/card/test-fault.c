/* SPDX-License-Identifier: MIT */
/* Every fault: its packet, operand and address; other queues still run. */
#include <string.h>

#include "host.h"
#include "random.h"

#define SEG_LEN 8192
#define NONE OPENREG_NO_OPERAND
#define READ_ONLY(off) OPENREG_ADDR(0, 3, off)
#define WRITE_ONLY(off) OPENREG_ADDR(0, 4, off)

struct fixture {
	struct rig *rig;
	struct client_queue q;
	struct client_queue bystander;
	uint32_t records;
};

static int setup(void **state)
{
	static struct fixture f;
	struct rig *rig = rig_new(2);

	memset(&f, 0, sizeof(f));
	f.rig = rig;
	rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0);
	rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 2, 0);
	rig_do(rig, cmd_vram(1, 1, 4096, SEG_LEN, RW));
	rig_do(rig, cmd_system(rig, 1, 2, rig_alloc(rig, SEG_LEN), SEG_LEN, RW, true));
	rig_do(rig, cmd_vram(1, 3, 65536, SEG_LEN, OPENREG_SEG_READ));
	rig_do(rig, cmd_vram(1, 4, 131072, SEG_LEN, OPENREG_SEG_WRITE));
	tq_create(rig, &f.q, 1, 0);
	tq_create(rig, &f.bystander, 2, 1);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	rig_free(((struct fixture *)*state)->rig);
	return 0;
}

/*
 * Publishes the pushed packets; the last one must have this fault. The fault record has
 * the same contents, another queue still runs, and the queue can be reset.
 */
static void expect(struct fixture *f, uint32_t code, uint32_t operand,
		   uint64_t address)
{
	struct rig *rig = f->rig;
	unsigned int mine = atomic_load(&rig->bus.raised[f->q.vector]);
	unsigned int zero = atomic_load(&rig->bus.raised[0]);
	struct openreg_fault_summary fault;
	struct openreg_fault_record record;

	client_publish(&f->q);
	fault = tq_wait_fault(&f->q);
	assert_int_equal(fault.code, code);
	assert_int_equal(fault.operand, operand);
	assert_int_equal(fault.address, address);
	assert_int_equal(fault.seq, f->q.seq);
	assert_int_equal(client_done(&f->q), f->q.seq - 1);
	record = rig_record(rig, f->records++);
	assert_memory_equal(&record.fault, &fault, sizeof(fault));
	assert_int_equal(record.ctx, 1);
	assert_int_equal(record.queue, 0);
	WAIT_FOR(atomic_load(&rig->bus.raised[f->q.vector]) > mine &&
		 atomic_load(&rig->bus.raised[0]) > zero);
	openreg_card_reg_write(rig->card, OPENREG_REG_FAULT_HEAD, f->records, 4);
	tq_nop(&f->bystander);
	client_publish(&f->bystander);
	tq_wait(&f->bystander);
	assert_int_equal(tq_reset(&f->q, f->q.tail, f->q.seq), 0);
	tq_nop(&f->q);
	client_publish(&f->q);
	tq_wait(&f->q);
}

static void expect_packet(struct fixture *f, struct pkt *p, uint32_t code,
			  uint32_t operand, uint64_t address)
{
	/* The fault must name the second of three packets. */
	tq_nop(&f->q);
	tq_push(&f->q, p);
	expect(f, code, operand, address);
}

static void expect_copy(struct fixture *f, uint64_t dst, uint64_t src,
			int64_t n, uint32_t code, uint32_t operand,
			uint64_t address)
{
	struct pkt p;

	pkt_copy(&p, dst, src, OPENREG_F32, n);
	expect_packet(f, &p, code, operand, address);
}

static void test_header(void **state)
{
	static const struct {
		uint8_t at;
		uint8_t value;
	} bad[] = {
		{ 0, OPENREG_OP_END }, { 0, OPENREG_OP_EXPERIMENT }, { 0, 255 },  { 1, 0 },  { 1, 33 },
		{ 2, 1 },	       { 3, 0x80 }, { 8, 1 },  { 15, 1 },
		/* struct openreg_op */
		{ 16, 9 },	       { 17, 17 },  { 18, 17 }, { 19, 65 },
		{ 24, 1 },	       { 31, 1 },   { 17, 16 }, { 18, 16 },
		{ 19, 64 },	       { 20, 1 },   { 23, 1 },
	};
	struct fixture *f = *state;
	struct pkt p;
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pkt_copy(&p, VRAM(0), SYSTEM(0), OPENREG_F32, 4);
		p.bytes[bad[i].at] = bad[i].value;
		expect_packet(f, &p, OPENREG_FAULT_PACKET, NONE, 0);
	}
	/* An operand's reserved bytes. */
	for (i = 0; i < 7; i++) {
		pkt_copy(&p, VRAM(0), SYSTEM(0), OPENREG_F32, 4);
		p.bytes[32 + 8 + 9 + i] = 1;
		expect_packet(f, &p, OPENREG_FAULT_PACKET, 0, VRAM(0));
	}
}

static void test_cookie(void **state)
{
	struct fixture *f = *state;
	struct openreg_fault_summary fault;
	struct pkt p;

	pkt_copy(&p, VRAM(0), OPENREG_ADDR(0, 99, 0), OPENREG_F32, 4);
	tq_push(&f->q, &p);
	client_publish(&f->q);
	fault = tq_wait_fault(&f->q);
	assert_int_equal(fault.cookie, 0xc0de);
	assert_int_equal(fault.opcode, OPENREG_OP_COPY);
	assert_int_equal(fault.detail, 99);
}

/* Writes raw words into the ring, as a hostile producer does. */
static void push_raw(struct client_queue *q, uint8_t slots, uint64_t advance)
{
	uint8_t *slot = rig_ptr(rig_of(q),
				q->ring + (q->tail % q->slots) * 64);

	memset(slot, 0, 64);
	slot[1] = slots;
	q->tail += advance;
	q->seq++;
}

static void test_ring(void **state)
{
	struct fixture *f = *state;
	struct client_queue *q = &f->q;

	/* A packet longer than the published slots. */
	push_raw(q, 5, 4);
	expect(f, OPENREG_FAULT_RING, NONE, 0);
	/* A packet that wraps around the end. */
	while (q->tail % q->slots != q->slots - 2)
		tq_nop(q);
	push_raw(q, 3, 3);
	expect(f, OPENREG_FAULT_RING, NONE, 0);
	/* A tail farther ahead than the ring's length, or behind the head. */
	push_raw(q, 1, q->slots + 1);
	expect(f, OPENREG_FAULT_RING, NONE, 0);
	push_raw(q, 1, (uint64_t)-1);
	expect(f, OPENREG_FAULT_RING, NONE, 0);
	push_raw(q, 1, 1ULL << 63);
	expect(f, OPENREG_FAULT_RING, NONE, 0);
}

static void test_address(void **state)
{
	static const uint64_t bad[] = {
		0,
		4096,
		0x7fffdeadb000ULL,
		UINT64_MAX,
		VRAM(0) & ~(1ULL << OPENREG_ADDR_FIXED_BIT),
		VRAM(0) | 1ULL << 63,
		OPENREG_ADDR(1, 1, 0), /* another card */
		OPENREG_ADDR(0, 0, 0), /* no segment has this number */
		OPENREG_ADDR(0, 5, 0), /* not bound */
		OPENREG_ADDR(0, OPENREG_MAX_SEGMENTS - 1, 0),
	};
	struct fixture *f = *state;
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		expect_copy(f, bad[i], VRAM(0), 4, OPENREG_FAULT_ADDRESS, 0,
			    bad[i]);
		expect_copy(f, VRAM(0), bad[i], 4, OPENREG_FAULT_ADDRESS, 1,
			    bad[i]);
	}
}

static void test_dead_segment(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(rig_op(f->rig, OPENREG_ADMIN_SEG_UNBIND, 1, 3), 0);
	expect_copy(f, VRAM(0), READ_ONLY(0), 4, OPENREG_FAULT_ADDRESS, 1,
		    READ_ONLY(0));
}

static void test_bounds(void **state)
{
	struct fixture *f = *state;
	const int64_t n = SEG_LEN / 4;

	/* Up to the last element that fits, then one element more. */
	struct pkt p;

	pkt_copy(&p, VRAM(0), SYSTEM(0), OPENREG_F32, n);
	tq_run(&f->q, &p);
	expect_copy(f, VRAM(4), SYSTEM(0), n, OPENREG_FAULT_BOUNDS, 0,
		    VRAM(SEG_LEN));
	expect_copy(f, VRAM(0), SYSTEM(0), n + 1, OPENREG_FAULT_BOUNDS, 0,
		    VRAM(SEG_LEN));
	expect_copy(f, VRAM(0), SYSTEM(8), n - 1, OPENREG_FAULT_BOUNDS, 1,
		    SYSTEM(SEG_LEN));
	expect_copy(f, VRAM(SEG_LEN), SYSTEM(0), 1, OPENREG_FAULT_BOUNDS, 0,
		    VRAM(SEG_LEN));
	expect_copy(f, VRAM(SEG_LEN + 400), SYSTEM(0), 1, OPENREG_FAULT_BOUNDS,
		    0, VRAM(SEG_LEN + 400));
	expect_copy(f, VRAM(0), SYSTEM((1ULL << 38) - 4), 2,
		    OPENREG_FAULT_BOUNDS, 1, SYSTEM((1ULL << 38) - 4));
}

static void strided(struct pkt *p, uint64_t dst, int64_t n, int64_t stride)
{
	const int64_t one = 1;

	pkt_begin(p, OPENREG_OP_COPY, 1, &n);
	pkt_operand(p, dst, OPENREG_F32, &stride);
	pkt_operand(p, SYSTEM(0), OPENREG_F32, &one);
}

static void test_strides(void **state)
{
	struct fixture *f = *state;
	struct pkt p;

	strided(&p, VRAM(SEG_LEN - 4), SEG_LEN / 4, -1);
	tq_run(&f->q, &p);
	strided(&p, VRAM(SEG_LEN - 8), SEG_LEN / 4, -1);
	expect_packet(f, &p, OPENREG_FAULT_BOUNDS, 0, VRAM(SEG_LEN - 8));
	strided(&p, VRAM(0), 2, SEG_LEN / 4 - 1);
	tq_run(&f->q, &p);
	strided(&p, VRAM(0), 2, SEG_LEN / 4);
	expect_packet(f, &p, OPENREG_FAULT_BOUNDS, 0, VRAM(SEG_LEN));
	/* Offsets that overflow 64 bits, also those that wrap back into the segment. */
	strided(&p, VRAM(0), 2, INT64_MAX);
	expect_packet(f, &p, OPENREG_FAULT_BOUNDS, 0, VRAM(SEG_LEN));
	strided(&p, VRAM(0), 2, INT64_MIN);
	expect_packet(f, &p, OPENREG_FAULT_BOUNDS, 0, VRAM(0));
	strided(&p, VRAM(0), 5, 1LL << 62);
	expect_packet(f, &p, OPENREG_FAULT_BOUNDS, 0, VRAM(SEG_LEN));
	strided(&p, VRAM(0), 1LL << 34, 1LL << 30);
	expect_packet(f, &p, OPENREG_FAULT_BOUNDS, 0, VRAM(SEG_LEN));
}

static void test_empty(void **state)
{
	const int64_t size[] = { 3, 0, 1LL << 62 };
	const int64_t stride[] = { INT64_MIN, INT64_MAX, 1 };
	struct fixture *f = *state;
	struct pkt p;

	pkt_begin(&p, OPENREG_OP_COPY, 3, size);
	pkt_operand(&p, 0xdead, OPENREG_F32, stride);
	pkt_operand(&p, OPENREG_ADDR(9, 9, 9), OPENREG_F32, stride);
	tq_run(&f->q, &p);
}

static void test_permission(void **state)
{
	struct fixture *f = *state;
	struct pkt p;

	expect_copy(f, READ_ONLY(4), VRAM(0), 4, OPENREG_FAULT_PERMISSION, 0,
		    READ_ONLY(4));
	expect_copy(f, VRAM(0), WRITE_ONLY(8), 4, OPENREG_FAULT_PERMISSION, 1,
		    WRITE_ONLY(8));
	pkt_copy(&p, WRITE_ONLY(0), READ_ONLY(0), OPENREG_F32, 4);
	tq_run(&f->q, &p);
	pkt_grind(&p, READ_ONLY(0), 4, 1);
	expect_packet(f, &p, OPENREG_FAULT_PERMISSION, 0, READ_ONLY(0));
}

static void test_alignment(void **state)
{
	struct fixture *f = *state;
	struct pkt p;

	expect_copy(f, VRAM(2), SYSTEM(0), 4, OPENREG_FAULT_ALIGNMENT, 0,
		    VRAM(2));
	pkt_sync(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, VRAM(12), 1);
	expect_packet(f, &p, OPENREG_FAULT_ALIGNMENT, 0, VRAM(12));
}

/* Registered memory may begin and end at any byte. */
static void test_alignment_on_the_bus(void **state)
{
	const uint64_t odd = OPENREG_ADDR(0, 11, 0), even = OPENREG_ADDR(0, 12, 8);
	struct fixture *f = *state;
	uint64_t at = rig_alloc(f->rig, SEG_LEN);
	struct pkt p;

	rig_do(f->rig, cmd_system(f->rig, 1, 11, at + 4, 64, RW, false));
	rig_do(f->rig, cmd_system(f->rig, 1, 12, at + 512, 20, RW, false));
	pkt_sync(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, odd, 1);
	expect_packet(f, &p, OPENREG_FAULT_ALIGNMENT, 0, odd);
	pkt_sync(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, even, 77);
	tq_run(&f->q, &p);
	assert_int_equal(rig_load(f->rig, at + 520), 77);
}

static void test_dtype(void **state)
{
	struct fixture *f = *state;
	struct pkt p;

	pkt_copy(&p, VRAM(0), SYSTEM(0), 0, 4);
	expect_packet(f, &p, OPENREG_FAULT_DTYPE, 0, VRAM(0));
	pkt_copy(&p, VRAM(0), SYSTEM(0), OPENREG_DTYPE_END, 4);
	expect_packet(f, &p, OPENREG_FAULT_DTYPE, 0, VRAM(0));
	pkt_copy(&p, VRAM(0), SYSTEM(0), OPENREG_F32, 4);
	p.bytes[32 + 8 + 24 + 8] = 77; /* the source's */
	expect_packet(f, &p, OPENREG_FAULT_DTYPE, 1, SYSTEM(0));
	pkt_sync(&p, OPENREG_OP_TIMESTAMP, 0, VRAM(0), 0);
	p.bytes[32 + 8] = OPENREG_F64;
	expect_packet(f, &p, OPENREG_FAULT_DTYPE, 0, VRAM(0));
	pkt_grind(&p, VRAM(0), 4, 1);
	p.bytes[32 + 8 + 8] = 31;
	expect_packet(f, &p, OPENREG_FAULT_DTYPE, 0, VRAM(0));
}

static void test_shape_and_limit(void **state)
{
	const int64_t negative = -1;
	const int64_t large[] = { 1LL << 20, 1LL << 17 };
	const int64_t wraps[] = { 1LL << 62, 4, 1 };
	const int64_t zero[] = { 0, 0, 0 };
	struct fixture *f = *state;
	struct pkt p;

	pkt_begin(&p, OPENREG_OP_FILL, 1, &negative);
	pkt_operand(&p, VRAM(0), OPENREG_F32, zero);
	pkt_imm(&p, 0);
	expect_packet(f, &p, OPENREG_FAULT_SHAPE, NONE, 0);
	pkt_begin(&p, OPENREG_OP_FILL, 2, large);
	pkt_operand(&p, VRAM(0), OPENREG_F32, zero);
	pkt_imm(&p, 0);
	expect_packet(f, &p, OPENREG_FAULT_LIMIT, NONE, 0);
	pkt_begin(&p, OPENREG_OP_VECTOR, 3, wraps);
	pkt_operand(&p, VRAM(0), OPENREG_F32, zero);
	expect_packet(f, &p, OPENREG_FAULT_LIMIT, NONE, 0);
	pkt_begin(&p, OPENREG_OP_WAIT, 1, large);
	pkt_operand(&p, VRAM(0), OPENREG_I64, zero);
	pkt_imm(&p, 0);
	expect_packet(f, &p, OPENREG_FAULT_SHAPE, NONE, 0);
}

static void test_program(void **state)
{
	struct fixture *f = *state;
	struct openreg_fault_summary fault;
	struct pkt p;

	pkt_grind(&p, VRAM(0), 4, 3);
	p.bytes[p.len - 8] = 255; /* the last instruction's opcode */
	tq_push(&f->q, &p);
	client_publish(&f->q);
	fault = tq_wait_fault(&f->q);
	assert_int_equal(fault.code, OPENREG_FAULT_PROGRAM);
	assert_int_equal(fault.detail, 5);
}

static void test_engine_space(void **state)
{
	struct fixture *f = *state;
	const uint64_t peer = OPENREG_ADDR(0, 10, 0);
	struct openreg_admin_cmd cmd =
		cmd_system(f->rig, 1, 10, rig_alloc(f->rig, SEG_LEN), SEG_LEN,
			   RW, false);
	struct pkt p;

	cmd.seg.kind = OPENREG_SEG_PEER;
	rig_do(f->rig, cmd);
	pkt_grind(&p, SYSTEM(0), 4, 1);
	expect_packet(f, &p, OPENREG_FAULT_ENGINE, 0, SYSTEM(0));
	pkt_grind(&p, peer, 4, 1);
	expect_packet(f, &p, OPENREG_FAULT_ENGINE, 0, peer);
}

static void test_dma(void **state)
{
	struct fixture *f = *state;
	uint64_t mem = rig_alloc(f->rig, 8 * 4096);
	struct openreg_admin_cmd cmd =
		cmd_system(f->rig, 1, 10, mem, 8 * 4096, RW, false);
	const uint64_t at = OPENREG_ADDR(0, 10, 0);
	const int64_t size[] = { 16, 16 }, wide[] = { 1024, 2 };
	const int64_t dense[] = { 16, 1 };
	struct pkt p;

	rig_do(f->rig, cmd);
	atomic_store(&f->rig->bus.bad_len, 4096);
	atomic_store(&f->rig->bus.bad_bus, mem);
	expect_copy(f, VRAM(0), at, 4, OPENREG_FAULT_DMA, 1, at);
	expect_copy(f, at, VRAM(0), 4, OPENREG_FAULT_DMA, 0, at);
	expect_copy(f, at, SYSTEM(0), 4, OPENREG_FAULT_DMA, 0, at);
	expect_copy(f, SYSTEM(0), at, 4, OPENREG_FAULT_DMA, 1, at);
	/* A DMA fault as source and as destination of a staged copy. */
	pkt_begin(&p, OPENREG_OP_COPY, 2, size);
	pkt_operand(&p, VRAM(0), OPENREG_F64, (const int64_t[]){ 1, 16 });
	pkt_operand(&p, at, OPENREG_F32, dense);
	expect_packet(f, &p, OPENREG_FAULT_DMA, 1, at);
	pkt_begin(&p, OPENREG_OP_COPY, 2, size);
	pkt_operand(&p, at, OPENREG_F32, dense);
	pkt_operand(&p, VRAM(0), OPENREG_F64, (const int64_t[]){ 1, 16 });
	expect_packet(f, &p, OPENREG_FAULT_DMA, 0, at);
	pkt_begin(&p, OPENREG_OP_COPY, 1, (const int64_t[]){ 4 });
	pkt_operand(&p, at, OPENREG_F32, wide);
	pkt_operand(&p, VRAM(0), OPENREG_F32, dense + 1);
	expect_packet(f, &p, OPENREG_FAULT_DMA, 0, at);
	pkt_sync(&p, OPENREG_OP_WAIT, OPENREG_WAIT_GE, at, 0);
	expect_packet(f, &p, OPENREG_FAULT_DMA, 0, at);
	pkt_sync(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD, at, 1);
	expect_packet(f, &p, OPENREG_FAULT_DMA, 0, at);
	atomic_store(&f->rig->bus.bad_bus, 0);
}

/* The card drops and counts records if the fault ring is full; queues still stop. */
static void test_ring_full(void **state)
{
	struct fixture *f = *state;
	unsigned int i;
	struct pkt p;

	for (i = 0; i < HOST_FAULT_SLOTS + 3; i++) {
		pkt_copy(&p, 0, VRAM(0), OPENREG_F32, 1);
		tq_push(&f->q, &p);
		client_publish(&f->q);
		tq_wait_fault(&f->q);
		assert_int_equal(tq_reset(&f->q, f->q.tail, f->q.seq), 0);
	}
	assert_int_equal(rig_reg(f->rig, OPENREG_REG_FAULT_TAIL),
			 HOST_FAULT_SLOTS);
	WAIT_FOR(rig_reg(f->rig, OPENREG_REG_FAULT_DROPPED) == 3);
	f->records = HOST_FAULT_SLOTS;
	openreg_card_reg_write(f->rig->card, OPENREG_REG_FAULT_HEAD, 8, 4);
	expect_copy(f, 0, VRAM(0), 1, OPENREG_FAULT_ADDRESS, 0, 0);
}

/* A packet with random bytes faults or runs; the card still works. */
static void test_noise(void **state)
{
	struct fixture *f = *state;
	unsigned int i, k, n;
	struct pkt p;

	for (i = 0; i < 4000; i++) {
		if (i % 3 == 0)
			pkt_grind(&p, VRAM(0), 64, 2);
		else if (i % 3 == 1)
			pkt_copy(&p, VRAM(0), SYSTEM(0), OPENREG_F32, 64);
		else
			pkt_sync(&p, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD,
				 VRAM(64), 1);
		n = 1 + (unsigned int)(random64() % 4);
		for (k = 0; k < n; k++)
			p.bytes[2 + random64() % (p.len - 2)] ^=
				(uint8_t)(1u << random64() % 8);
		tq_push(&f->q, &p);
		client_publish(&f->q);
		WAIT_FOR(client_done(&f->q) == f->q.seq ||
			 client_state(&f->q) == OPENREG_QUEUE_FAULTED);
		if (client_state(&f->q) == OPENREG_QUEUE_FAULTED)
			assert_int_equal(tq_reset(&f->q, f->q.tail, f->q.seq),
					 0);
		openreg_card_reg_write(
			f->rig->card, OPENREG_REG_FAULT_HEAD,
			rig_reg(f->rig, OPENREG_REG_FAULT_TAIL), 4);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_header),	     T(test_cookie),	T(test_ring),
		T(test_address),     T(test_dead_segment), T(test_bounds),
		T(test_strides),     T(test_empty),	T(test_permission),
		T(test_alignment),   T(test_alignment_on_the_bus),
		T(test_dtype),	     T(test_shape_and_limit),
		T(test_program),     T(test_engine_space), T(test_dma),
		T(test_ring_full),   T(test_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
