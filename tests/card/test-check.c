// SPDX-License-Identifier: MIT
/* A checking card finds each planted fault with both packets, and reports nothing else. */
#include <string.h>

#include "core/exec.h"
#include "host.h"

#define LEN (1u << 20)
#define REPORT (LEN / 2) /* offset of the findings in segment 2 */
#define PLACES 64
#define WORD(n) VRAM(LEN - 8 * ((n) + 1))
#define QUEUES 4

struct bench {
	struct rig *rig;
	struct client_queue q[QUEUES];
	uint64_t bus; /* of segment 2 */
	unsigned int seen; /* findings that the test has looked at */
};

static struct bench bench;

static void note(struct client_queue *q, unsigned int kind, uint64_t addr, unsigned int dtype,
		 uint64_t imm)
{
	struct pkt p;

	pkt_begin(&p, OPENREG_OP_NOTE, 0, NULL);
	pkt_arg(&p, 0, (uint8_t)kind);
	if (addr)
		pkt_operand(&p, addr, dtype, NULL);
	pkt_imm(&p, imm);
	tq_push(q, &p);
}

static void make_rig(unsigned int checks)
{
	bench.rig = rig_new(2);
	openreg_card_free(bench.rig->card);
	bench.rig->config.checks = checks;
	rig_make_card(bench.rig);
	rig_enable(bench.rig);
}

static void create_queues(void)
{
	unsigned int i;

	for (i = 0; i < QUEUES; i++) {
		tq_create(bench.rig, &bench.q[i], 1, i);
		note(&bench.q[i], OPENREG_NOTE_QUEUE, 0, 0, i + 1);
	}
	note(&bench.q[0], OPENREG_NOTE_REPORT, SYSTEM(REPORT), OPENREG_I64, PLACES);
	for (i = 0; i < QUEUES; i++) {
		client_publish(&bench.q[i]);
		tq_wait(&bench.q[i]);
	}
	bench.seen = 0;
}

static int setup(void **state)
{
	memset(&bench, 0, sizeof(bench));
	make_rig(7);
	bench.bus = rig_alloc(bench.rig, LEN);
	rig_bind(bench.rig, 1, 0, bench.bus, LEN, false);
	create_queues();
	*state = bench.rig;
	return 0;
}

static struct openreg_finding finding(unsigned int n)
{
	struct openreg_finding f;

	memcpy(&f, (uint8_t *)rig_ptr(bench.rig, bench.bus) + REPORT + n * sizeof(f),
	       sizeof(f));
	return f;
}

static void run(unsigned int q)
{
	client_publish(&bench.q[q]);
	tq_wait(&bench.q[q]);
}

static void push(unsigned int q, struct pkt *p, uint32_t cookie)
{
	memcpy(p->bytes + offsetof(struct openreg_packet, cookie), &cookie, 4);
	tq_push(&bench.q[q], p);
}

/* n elements of F32 from addr on, stride apart */
static void fill(unsigned int q, uint64_t addr, int64_t n, int64_t stride, uint32_t cookie)
{
	struct pkt p;

	pkt_begin(&p, OPENREG_OP_FILL, 1, &n);
	pkt_operand(&p, addr, OPENREG_F32, &stride);
	pkt_imm(&p, 0);
	push(q, &p, cookie);
}

static void copy(unsigned int q, uint64_t to, uint64_t from, int64_t n, uint32_t cookie)
{
	struct pkt p;

	pkt_copy(&p, to, from, OPENREG_F32, n);
	push(q, &p, cookie);
}

static void sync(unsigned int q, unsigned int opcode, unsigned int mode, uint64_t word,
		 uint64_t value)
{
	struct pkt p;

	pkt_sync(&p, opcode, mode, word, value);
	push(q, &p, 0);
}

static void signal(unsigned int q, uint64_t word, uint64_t value)
{
	sync(q, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_SET, word, value);
	run(q);
}

static void wait_ge(unsigned int q, uint64_t word, uint64_t value)
{
	sync(q, OPENREG_OP_WAIT, OPENREG_WAIT_GE, word, value);
	run(q);
}

/* The program itself has waited for all of queue `of`. */
static void saw(unsigned int q, unsigned int of)
{
	struct pkt p;

	pkt_begin(&p, OPENREG_OP_NOTE, 0, NULL);
	pkt_arg(&p, 0, OPENREG_NOTE_SEEN);
	pkt_imm(&p, of + 1);
	pkt_imm(&p, client_done(&bench.q[of]));
	push(q, &p, 0);
	run(q);
}

static void none(void)
{
	struct openreg_finding f = finding(bench.seen);

	if (f.number)
		fail_msg("finding %llu: kind %u at %llx, cookies %u and %u",
			 (unsigned long long)f.number, f.kind, (unsigned long long)f.addr,
			 f.access.cookie, f.other.cookie);
}

/* The next finding; there is no other. */
static struct openreg_finding one(unsigned int kind, uint32_t cookie, unsigned int queue,
				  unsigned int operand, uint64_t addr, uint64_t bytes)
{
	struct openreg_finding f = finding(bench.seen);

	assert_int_equal(f.number, bench.seen + 1);
	assert_int_equal(f.kind, kind);
	assert_int_equal(f.access.cookie, cookie);
	assert_int_equal(f.access.queue, queue + 1);
	assert_int_equal(f.access.operand, operand);
	assert_int_equal(f.addr, addr);
	assert_int_equal(f.bytes, bytes);
	bench.seen++;
	none();
	return f;
}

static void race(uint32_t cookie, unsigned int queue, unsigned int operand, uint32_t other,
		 unsigned int other_queue, uint64_t addr, uint64_t bytes)
{
	struct openreg_finding f = one(OPENREG_FINDING_RACE, cookie, queue, operand, addr, bytes);

	assert_int_equal(f.other.cookie, other);
	assert_int_equal(f.other.queue, other_queue + 1);
}

static void test_races(void **state)
{
	(void)state;
	/* 1 write, write; the second report of the same pair is not made */
	fill(0, VRAM(0), 16, 1, 10), run(0);
	fill(1, VRAM(0), 16, 1, 11), run(1);
	race(11, 1, 0, 10, 0, VRAM(0), 64);
	fill(0, VRAM(0), 16, 1, 10), run(0);
	fill(1, VRAM(0), 16, 1, 11), run(1);
	none();
	/* 2 write, read */
	fill(0, VRAM(0x1000), 16, 1, 20), run(0);
	copy(1, VRAM(0x2000), VRAM(0x1000), 16, 21), run(1);
	race(21, 1, 1, 20, 0, VRAM(0x1000), 64);
	/* 3 read, write, of system memory */
	copy(0, VRAM(0x3000), SYSTEM(0), 16, 30), run(0);
	fill(1, SYSTEM(60), 1, 1, 31), run(1);
	race(31, 1, 0, 30, 0, SYSTEM(60), 4);
	/* 4 a part of a row */
	fill(0, VRAM(0x4000), 64, 1, 40), run(0);
	fill(2, VRAM(0x4020), 4, 1, 41), run(2);
	race(41, 2, 0, 40, 0, VRAM(0x4020), 16);
	/* 5 columns that meet */
	fill(0, VRAM(0x5000), 8, 4, 50), run(0);
	fill(1, VRAM(0x5010), 8, 2, 51), run(1);
	assert_int_equal(finding(bench.seen).other.cookie, 50);
	bench.seen++;
	/* 6 a WAIT for a SIGNAL that came before the write */
	signal(0, WORD(0), 1);
	fill(0, VRAM(0x6000), 16, 1, 60);
	signal(0, WORD(0), 2);
	wait_ge(1, WORD(0), 1);
	fill(1, VRAM(0x6000), 16, 1, 61), run(1);
	race(61, 1, 0, 60, 0, VRAM(0x6000), 64);
	/* 7 order with a third queue only */
	fill(0, VRAM(0x7000), 16, 1, 70);
	signal(0, WORD(1), 1);
	wait_ge(2, WORD(1), 1);
	copy(2, VRAM(0x7100), VRAM(0x7000), 16, 71), run(2);
	none();
	fill(3, VRAM(0x7000), 16, 1, 72), run(3);
	assert_int_equal(finding(bench.seen).access.cookie, 72);
	assert_int_equal(finding(bench.seen + 1).access.cookie, 72);
	bench.seen += 2;
	none();
	/* 8 memory that is used again: the reader of another queue is not done */
	copy(1, VRAM(0x8100), VRAM(0x8000), 16, 80), run(1);
	note(&bench.q[0], OPENREG_NOTE_BLOCK, VRAM(0x8000), OPENREG_U8, 64);
	fill(0, VRAM(0x8000), 16, 1, 81), run(0);
	race(81, 0, 0, 80, 1, VRAM(0x8000), 64);
	/* 9 the program waited for an earlier packet than the writer */
	fill(0, VRAM(0x9000), 16, 1, 90), run(0);
	saw(3, 0);
	fill(0, VRAM(0x9100), 16, 1, 91), run(0);
	fill(3, VRAM(0x9000), 16, 1, 92), run(3);
	none();
	fill(3, VRAM(0x9100), 16, 1, 93), run(3);
	race(93, 3, 0, 91, 0, VRAM(0x9100), 64);
	/* 10 a SIGNAL that another queue overtakes: the word was set by queue 3 */
	fill(1, VRAM(0xa000), 16, 1, 100), run(1);
	signal(3, WORD(2), 5);
	wait_ge(2, WORD(2), 5);
	fill(2, VRAM(0xa000), 16, 1, 101), run(2);
	race(101, 2, 0, 100, 1, VRAM(0xa000), 64);
}

static void test_order(void **state)
{
	unsigned int i;

	(void)state;
	/* one queue */
	for (i = 0; i < 3; i++)
		fill(0, VRAM(0), 64, 1, 1), copy(0, VRAM(0x400), VRAM(0), 64, 2);
	run(0);
	/* a SIGNAL, and a chain of them */
	signal(0, WORD(0), 1);
	wait_ge(1, WORD(0), 1);
	fill(1, VRAM(0), 64, 1, 3);
	signal(1, WORD(1), 1);
	wait_ge(2, WORD(1), 1);
	fill(2, VRAM(0x400), 64, 1, 4), run(2);
	/* readers do not race */
	signal(2, WORD(2), 1);
	wait_ge(0, WORD(2), 1);
	copy(0, VRAM(0x1000), VRAM(0), 64, 5), run(0);
	copy(2, VRAM(0x2000), VRAM(0), 64, 6), run(2);
	/* columns beside each other, and rows of one matrix */
	fill(0, VRAM(0x3000), 64, 2, 7), run(0);
	fill(1, VRAM(0x3004), 64, 2, 8), run(1);
	/* the program has waited, for a queue that had waited for another */
	saw(3, 2), saw(3, 0);
	fill(3, VRAM(0), 64, 1, 9), run(3);
	/* many signals: the card forgets the oldest, which must not invent a race */
	for (i = 2; i < 200; i++) {
		fill(3, VRAM(0x4000), 16, 1, 20);
		signal(3, WORD(3), i);
	}
	wait_ge(0, WORD(3), 4);
	fill(0, VRAM(0), 64, 1, 21), run(0);
	/* a barrier of ADDs: a WAIT for the sum is after all of them */
	for (i = 0; i < 3; i++) {
		fill(i, VRAM(0x5000 + 64 * i), 16, 1, 30);
		sync(i, OPENREG_OP_SIGNAL, OPENREG_SIGNAL_ADD, WORD(4), 1);
		run(i);
	}
	wait_ge(3, WORD(4), 3);
	fill(3, VRAM(0x5000), 48, 1, 31), run(3);
	/* a word that the program itself stores */
	fill(0, VRAM(0x6000), 16, 1, 40), run(0);
	rig_store(bench.rig, bench.bus, 7);
	wait_ge(1, SYSTEM(0), 7);
	fill(1, VRAM(0x6000), 16, 1, 41), run(1);
	/* a queue that is gone */
	fill(1, VRAM(0x7000), 16, 1, 50), run(1);
	assert_int_equal(rig_op(bench.rig, OPENREG_ADMIN_QUEUE_DESTROY, 1, 1), 0);
	fill(2, VRAM(0x7000), 16, 1, 51), run(2);
	none();
}

static void init(uint32_t cookie, unsigned int operand, uint64_t addr, uint64_t bytes,
		 uint64_t block)
{
	struct openreg_finding f = one(OPENREG_FINDING_INIT, cookie, 0, operand, addr, bytes);

	assert_int_equal(f.block, block);
	assert_int_equal(f.other.opcode, OPENREG_OP_NOTE);
}

static void block(uint64_t addr, uint64_t bytes)
{
	note(&bench.q[0], OPENREG_NOTE_BLOCK, addr, OPENREG_U8, bytes);
}

/* y = 2 x, or 2 y; y += sum(y). The second stage loads what the first one stored. */
static void staged(uint64_t y, uint64_t x, int64_t n, bool load_y, uint32_t cookie)
{
	const int64_t one = 1;
	struct pkt p;

	pkt_begin(&p, OPENREG_OP_VECTOR, 1, &n);
	pkt_arg(&p, 0, 1);
	pkt_operand(&p, x, OPENREG_F32, &one);
	pkt_operand(&p, y, OPENREG_F32, &one);
	pkt_instr(&p, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, load_y ? 1 : 0);
	pkt_instr(&p, OPENREG_V_ADD, OPENREG_VT_F32, 0, 0, 0, 0, 0);
	pkt_instr(&p, OPENREG_V_STORE, OPENREG_VT_F32, 0, 0, 0, 0, 1);
	pkt_instr(&p, OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 0, OPENREG_VNONE,
		  OPENREG_VNONE, OPENREG_VNONE);
	pkt_instr(&p, OPENREG_V_LOAD, OPENREG_VT_F32, 1, 0, 0, 0, 1);
	pkt_instr(&p, OPENREG_V_ADD, OPENREG_VT_F32, 0, 0, 1, 0, 0);
	pkt_instr(&p, OPENREG_V_STORE, OPENREG_VT_F32, 0, 0, 0, 0, 1);
	push(0, &p, cookie), run(0);
}

static void test_init_of_stages(void **state)
{
	(void)state;
	block(VRAM(0), 64);
	block(VRAM(0x1000), 64);
	fill(0, VRAM(0x1000), 16, 1, 10);
	staged(VRAM(0), VRAM(0x1000), 16, false, 11);
	copy(0, VRAM(0x2000), VRAM(0), 16, 12), run(0);
	none();
	/* The next packet's operand 1 is only read. */
	block(VRAM(0), 64);
	block(VRAM(0x3000), 64);
	staged(VRAM(0), VRAM(0x1000), 16, false, 13);
	copy(0, VRAM(0x2000), VRAM(0x3000), 16, 14), run(0);
	init(14, 1, VRAM(0x3000), 64, VRAM(0x3000));
	block(VRAM(0), 64);
	staged(VRAM(0), VRAM(0x1000), 16, true, 15);
	init(15, 1, VRAM(0), 64, VRAM(0));
}

static void test_init(void **state)
{
	const int64_t sizes[2] = { 8, 8 }, rows[2] = { 16, 1 }, columns[2] = { 1, 8 };
	struct pkt p;

	(void)state;
	/* 1 nothing written */
	block(VRAM(0), 64);
	copy(0, VRAM(0x100), VRAM(0), 16, 10), run(0);
	init(10, 1, VRAM(0), 64, VRAM(0));
	/* ... is reported once */
	copy(0, VRAM(0x100), VRAM(0), 16, 11), run(0);
	none();
	/* 2 the last element */
	block(VRAM(0x1000), 64);
	fill(0, VRAM(0x1000), 15, 1, 20);
	copy(0, VRAM(0x1100), VRAM(0x1000), 16, 21), run(0);
	init(21, 1, VRAM(0x103c), 4, VRAM(0x1000));
	/* 3 every other element */
	block(VRAM(0x2000), 256);
	fill(0, VRAM(0x2000), 32, 2, 30);
	copy(0, VRAM(0x2100), VRAM(0x2000), 64, 31), run(0);
	init(31, 1, VRAM(0x2004), 128, VRAM(0x2000));
	/* 4 memory that is used again */
	block(VRAM(0x3000), 64);
	fill(0, VRAM(0x3000), 16, 1, 40);
	block(VRAM(0x3000), 32);
	copy(0, VRAM(0x3100), VRAM(0x3000), 8, 41), run(0);
	init(41, 1, VRAM(0x3000), 32, VRAM(0x3000));
	/* 5 a packet that writes what it reads */
	block(VRAM(0x4000), 64);
	pkt_grind(&p, VRAM(0x4000), 16, 1);
	push(0, &p, 50), run(0);
	init(50, 0, VRAM(0x4000), 64, VRAM(0x4000));
	/* All of it written: rows, then columns; read with gaps; memory without a block. */
	block(VRAM(0x5000), 1024);
	fill(0, VRAM(0x5000), 128, 2, 60);
	fill(0, VRAM(0x5004), 128, 2, 61);
	copy(0, VRAM(0x6000), VRAM(0x5000), 256, 62);
	block(VRAM(0x7000), 512);
	pkt_begin(&p, OPENREG_OP_FILL, 2, sizes);
	pkt_operand(&p, VRAM(0x7000), OPENREG_F32, rows);
	pkt_imm(&p, 0);
	push(0, &p, 63);
	pkt_begin(&p, OPENREG_OP_COPY, 2, sizes);
	pkt_operand(&p, VRAM(0x8000), OPENREG_F32, columns);
	pkt_operand(&p, VRAM(0x7000), OPENREG_F32, rows);
	push(0, &p, 64);
	copy(0, VRAM(0x9000), VRAM(0xa000), 64, 65);
	note(&bench.q[0], OPENREG_NOTE_UNBLOCK, VRAM(0x7000), OPENREG_U8, 512);
	copy(0, VRAM(0x9000), VRAM(0x7000), 128, 66), run(0);
	none();
}

static void bounds(uint32_t cookie, unsigned int operand, uint64_t addr, uint64_t bytes,
		   uint64_t block_at)
{
	struct openreg_finding f = one(OPENREG_FINDING_BOUNDS, cookie, 0, operand, addr, bytes);

	assert_int_equal(f.block, block_at);
}

static void test_bounds(void **state)
{
	const int64_t n = 16, back = -1;
	struct pkt p;

	(void)state;
	block(VRAM(0), 64);
	block(VRAM(0x40), 64);
	block(VRAM(0x200), 60);
	fill(0, VRAM(0), 32, 1, 0);
	fill(0, VRAM(0x200), 15, 1, 0), run(0);
	assert_int_equal(finding(0).kind, OPENREG_FINDING_BOUNDS); /* 1: into the next block */
	bench.seen++;
	none();
	/* 2 one element after the end, of a read */
	copy(0, VRAM(0x1000), VRAM(0x200), 16, 20), run(0);
	bounds(20, 1, VRAM(0x23c), 4, VRAM(0x200));
	/* 3 a write behind the end */
	fill(0, VRAM(0x200), 20, 1, 30), run(0);
	bounds(30, 0, VRAM(0x23c), 20, VRAM(0x200));
	/* 4 a stride too large */
	fill(0, VRAM(0x200), 8, 4, 40), run(0);
	bounds(40, 0, VRAM(0x23c), 0x200 + 28 * 4 + 4 - 0x23c, VRAM(0x200));
	/* 5 before the start */
	pkt_begin(&p, OPENREG_OP_FILL, 1, &n);
	pkt_operand(&p, VRAM(0x238), OPENREG_F32, &back);
	pkt_imm(&p, 0);
	push(0, &p, 50), run(0);
	bounds(50, 0, VRAM(0x1fc), 4, VRAM(0x200));
	/* inside */
	fill(0, VRAM(0x200), 15, 1, 60);
	fill(0, VRAM(0x40), 16, 1, 61);
	fill(0, VRAM(0x300), 64, 1, 62), run(0);
	none();
}

static void guarded(uint64_t addr, uint64_t bytes, uint64_t zone)
{
	struct pkt p;

	pkt_begin(&p, OPENREG_OP_NOTE, 0, NULL);
	pkt_arg(&p, 0, OPENREG_NOTE_BLOCK);
	pkt_operand(&p, addr, OPENREG_U8, NULL);
	pkt_imm(&p, bytes);
	pkt_imm(&p, zone);
	push(0, &p, 1);
}

/* Blocks side by side with red zones between them. */
static void test_red_zones(void **state)
{
	(void)state;
	guarded(VRAM(0), 64, 448);
	guarded(VRAM(0x200), 512, 512);
	guarded(VRAM(0x600), 64, 0);
	/* 1 a write that misses its block by an element */
	fill(0, VRAM(0x40), 1, 1, 10), run(0);
	bounds(10, 0, VRAM(0x40), 4, VRAM(0));
	/* 2 a read before the next block, which reaches into it */
	copy(0, VRAM(0x1000), VRAM(0x1f0), 8, 20), run(0);
	bounds(20, 1, VRAM(0x1f0), 32, VRAM(0));
	/* 3 from a block through its red zone */
	fill(0, VRAM(0x200), 129, 1, 30), run(0);
	bounds(30, 0, VRAM(0x400), 4, VRAM(0x200));
	/* 4 the last byte of a red zone */
	fill(0, VRAM(0x5fc), 1, 1, 40), run(0);
	bounds(40, 0, VRAM(0x5fc), 4, VRAM(0x200));
	/* inside the blocks, and behind the last one, which has no red zone */
	fill(0, VRAM(0), 16, 1, 50);
	fill(0, VRAM(0x200), 128, 1, 51);
	fill(0, VRAM(0x600), 16, 1, 52);
	fill(0, VRAM(0x640), 16, 1, 53), run(0);
	none();
	/* A new block ends the blocks in its red zone, and an older red zone under it. */
	guarded(VRAM(0x100), 64, 0x200);
	fill(0, VRAM(0x100), 16, 1, 60);
	fill(0, VRAM(0x400), 16, 1, 61), run(0);
	none();
	fill(0, VRAM(0x200), 1, 1, 62), run(0);
	bounds(62, 0, VRAM(0x200), 4, VRAM(0x100));
	/* An UNBLOCK ends the red zone, too. */
	note(&bench.q[0], OPENREG_NOTE_UNBLOCK, VRAM(0x100), OPENREG_U8, 1);
	fill(0, VRAM(0x200), 2, 1, 70), run(0);
	none();
}

static void test_bad_red_zones(void **state)
{
	const uint64_t bad[] = { LEN - 63, 1ULL << 38, 1ULL << 39, UINT64_MAX };
	struct pkt p;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pkt_begin(&p, OPENREG_OP_NOTE, 0, NULL);
		pkt_arg(&p, 0, OPENREG_NOTE_BLOCK);
		pkt_operand(&p, VRAM(0), OPENREG_U8, NULL);
		pkt_imm(&p, 64);
		pkt_imm(&p, bad[i]);
		tq_expect(&bench.q[0], &p,
			  bad[i] > 1ULL << OPENREG_ADDR_OFFSET_BITS ? OPENREG_FAULT_LIMIT :
								      OPENREG_FAULT_BOUNDS);
	}
	/* Only a BLOCK has a red zone. */
	pkt_begin(&p, OPENREG_OP_NOTE, 0, NULL);
	pkt_arg(&p, 0, OPENREG_NOTE_UNBLOCK);
	pkt_operand(&p, VRAM(0), OPENREG_U8, NULL);
	pkt_imm(&p, 64);
	pkt_imm(&p, 64);
	tq_expect(&bench.q[0], &p, OPENREG_FAULT_PACKET);
}

/* LISTs: each packet of it has a number. */
static void test_list(void **state)
{
	uint8_t *at = rig_ptr(bench.rig, bench.bus);
	struct openreg_finding f;
	struct pkt p;

	(void)state;
	block(VRAM(0), 64), run(0);
	pkt_begin(&p, OPENREG_OP_NOTE, 0, NULL);
	pkt_arg(&p, 0, OPENREG_NOTE_BLOCK);
	pkt_operand(&p, VRAM(0), OPENREG_U8, NULL);
	pkt_imm(&p, 64);
	memcpy(at, p.bytes, 64);
	pkt_copy(&p, VRAM(0x100), VRAM(0), OPENREG_F32, 16);
	memcpy(at + 64, p.bytes, 128);
	pkt_begin(&p, OPENREG_OP_LIST, 0, NULL);
	pkt_operand(&p, SYSTEM(0), OPENREG_I64, NULL);
	pkt_imm(&p, 3);
	pkt_imm(&p, 2);
	push(0, &p, 0), run(0);
	f = one(OPENREG_FINDING_INIT, 0xc0de, 0, 1, VRAM(0), 64);
	assert_int_equal(f.access.in_list, 2);
	assert_int_equal(f.other.in_list, 1);
}

/* A program gets the findings that an earlier one with the same queues got, too. */
static void test_reported_again(void **state)
{
	unsigned int times, i;

	(void)state;
	for (times = 0; times < 3; times++) {
		fill(0, VRAM(0x1000), 16, 1, 10), run(0);
		fill(1, VRAM(0x1000), 16, 1, 11), run(1);
		race(11, 1, 0, 10, 0, VRAM(0x1000), 64);
		none();
		memset((uint8_t *)rig_ptr(bench.rig, bench.bus) + REPORT, 0,
		       sizeof(struct openreg_finding));
		for (i = 0; i < QUEUES; i++)
			assert_int_equal(rig_op(bench.rig, OPENREG_ADMIN_QUEUE_DESTROY, 1, i),
					 0);
		create_queues();
	}
}

/* Findings beyond the places are lost, and nothing is written behind them. */
static void test_full(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < PLACES + 8; i++) {
		block(VRAM(0x100 * i), 64);
		copy(0, VRAM(0xf0000), VRAM(0x100 * i), 16, i);
	}
	run(0);
	assert_int_equal(finding(PLACES - 1).number, PLACES);
	assert_int_equal(finding(PLACES).number, 0);
}

static void test_bad_notes(void **state)
{
	static const struct {
		uint8_t kind;
		bool operand;
		uint8_t dtype;
		uint64_t imm;
		uint32_t code;
	} bad[] = {
		{ OPENREG_NOTE_END, false, 0, 1, OPENREG_FAULT_PACKET },
		{ OPENREG_NOTE_BLOCK, false, 0, 1, OPENREG_FAULT_PACKET },
		{ OPENREG_NOTE_BLOCK, true, OPENREG_F32, 1, OPENREG_FAULT_DTYPE },
		{ OPENREG_NOTE_BLOCK, true, OPENREG_U8, 0, OPENREG_FAULT_LIMIT },
		{ OPENREG_NOTE_BLOCK, true, OPENREG_U8, LEN + 1, OPENREG_FAULT_BOUNDS },
		{ OPENREG_NOTE_BLOCK, true, OPENREG_U8, 1ULL << 63, OPENREG_FAULT_LIMIT },
		{ OPENREG_NOTE_UNBLOCK, true, OPENREG_U8, LEN + 1, OPENREG_FAULT_BOUNDS },
		{ OPENREG_NOTE_QUEUE, true, OPENREG_U8, 1, OPENREG_FAULT_PACKET },
		{ OPENREG_NOTE_QUEUE, false, 0, 0, OPENREG_FAULT_LIMIT },
		{ OPENREG_NOTE_QUEUE, false, 0, 1ULL << 32, OPENREG_FAULT_LIMIT },
		{ OPENREG_NOTE_SEEN, false, 0, 1, OPENREG_FAULT_PACKET },
		{ OPENREG_NOTE_REPORT, true, OPENREG_U8, 1, OPENREG_FAULT_DTYPE },
		{ OPENREG_NOTE_REPORT, true, OPENREG_I64, 0, OPENREG_FAULT_LIMIT },
		{ OPENREG_NOTE_REPORT, true, OPENREG_I64, LEN, OPENREG_FAULT_LIMIT },
		{ OPENREG_NOTE_REPORT, true, OPENREG_I64, LEN / 128 + 1, OPENREG_FAULT_BOUNDS },
	};
	struct pkt p;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pkt_begin(&p, OPENREG_OP_NOTE, 0, NULL);
		pkt_arg(&p, 0, bad[i].kind);
		if (bad[i].operand)
			pkt_operand(&p, VRAM(0), bad[i].dtype, NULL);
		pkt_imm(&p, bad[i].imm);
		tq_expect(&bench.q[0], &p, bad[i].code);
	}
	/* A queue that nobody has named, and an unknown one. */
	note(&bench.q[0], OPENREG_NOTE_UNBLOCK, VRAM(0x40), OPENREG_U8, 64);
	pkt_begin(&p, OPENREG_OP_NOTE, 0, NULL);
	pkt_arg(&p, 0, OPENREG_NOTE_SEEN);
	pkt_imm(&p, 77);
	pkt_imm(&p, 1);
	tq_run(&bench.q[0], &p);
}

/* A card that does not check has no NOTE. */
static void test_off(void **state)
{
	struct rig *rig = bench.rig;
	struct pkt p;

	(void)state;
	assert_true(openreg_card_reg_read(rig->card, OPENREG_REG_PACKETS, 8) >>
			    OPENREG_OP_NOTE & 1);
	rig_free(rig);
	make_rig(0);
	bench.bus = rig_alloc(bench.rig, LEN);
	rig_bind(bench.rig, 1, 0, bench.bus, LEN, false);
	tq_create(bench.rig, &bench.q[0], 1, 0);
	assert_false(openreg_card_reg_read(bench.rig->card, OPENREG_REG_PACKETS, 8) >>
			     OPENREG_OP_NOTE & 1);
	pkt_begin(&p, OPENREG_OP_NOTE, 0, NULL);
	pkt_imm(&p, 1);
	tq_expect(&bench.q[0], &p, OPENREG_FAULT_PACKET);
}

static void test_words(void **state)
{
	const char *error = NULL;
	unsigned int checks;

	(void)state;
	assert_true(openreg_card_parse_checks("race,init,bounds", &checks, &error));
	assert_int_equal(checks, 7);
	assert_true(openreg_card_parse_checks("race+bounds", &checks, &error));
	assert_int_equal(checks, 5);
	assert_true(openreg_card_parse_checks("init", &checks, &error));
	assert_int_equal(checks, 2);
	assert_true(openreg_card_parse_checks("", &checks, &error));
	assert_int_equal(checks, 0);
	assert_false(openreg_card_parse_checks("race,all", &checks, &error));
	assert_non_null(strstr(error, "race, init and bounds"));
	assert_false(openreg_card_parse_checks("rac", &checks, &error));
	assert_false(openreg_card_parse_checks("races", &checks, &error));
}

static int teardown(void **state)
{
	(void)state;
	rig_free(bench.rig);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_races), TEST(test_order),	TEST(test_init),
		TEST(test_bounds), TEST(test_list),	TEST(test_full),
		TEST(test_bad_notes), TEST(test_off),	TEST(test_red_zones),
		TEST(test_bad_red_zones), TEST(test_reported_again),
		TEST(test_init_of_stages),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
