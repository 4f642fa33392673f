// SPDX-License-Identifier: MIT
/* VECTOR reads operands in PEER segments: right values, and faults of bad ones. */
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "random.h"

#define LEN (192u << 10) /* bytes of each segment */
#define N 1000
#define BIG (5u << 20)

enum { VRAM_SEG = 1, PEER_SEG, OTHER_SEG, HALF_SEG, BIG_SEG };

struct fixture {
	struct rig *rig;
	struct client_queue q;
	uint64_t peer, other; /* bus */
};

static uint64_t at(unsigned int seg, uint64_t off)
{
	return OPENREG_ADDR(0, seg, off);
}

static void bind(struct rig *rig, unsigned int id, uint64_t bus, uint64_t len, uint32_t perm,
		 bool scattered)
{
	struct openreg_admin_cmd cmd = cmd_system(rig, 1, id, bus, len, perm, scattered);

	cmd.seg.kind = OPENREG_SEG_PEER;
	rig_do(rig, cmd);
}

static int setup(void **state)
{
	static struct fixture f;
	struct rig *rig = rig_new(2);

	memset(&f, 0, sizeof(f));
	f.rig = rig;
	f.peer = rig_alloc(rig, LEN);
	f.other = rig_alloc(rig, LEN);
	rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0);
	rig_do(rig, cmd_vram(1, VRAM_SEG, 0, LEN, RW));
	bind(rig, PEER_SEG, f.peer, LEN, RW, true);
	bind(rig, OTHER_SEG, f.other, LEN, OPENREG_SEG_READ, false);
	bind(rig, HALF_SEG, f.other, LEN, OPENREG_SEG_WRITE, false);
	tq_create(rig, &f.q, 1, 0);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	rig_free(((struct fixture *)*state)->rig);
	return 0;
}

/* Pages of the scattered segment are in reverse order. */
static float *peer_word(struct fixture *f, uint64_t i)
{
	const uint64_t page = LEN / 4096 - 1 - i / 1024;

	return (float *)rig_ptr(f->rig, f->peer + page * 4096) + i % 1024;
}

static float *other_word(struct fixture *f, uint64_t i)
{
	return (float *)rig_ptr(f->rig, f->other) + i;
}

static float *vram_word(struct fixture *f, uint64_t i)
{
	return (float *)f->rig->vram + i;
}

/* operand 0 = operand 1 + operand 2 */
static void pkt_add(struct pkt *p, int64_t n, uint64_t to, uint64_t a, int64_t stride_a,
		    uint64_t b, int64_t stride_b)
{
	const int64_t one = 1;

	pkt_begin(p, OPENREG_OP_VECTOR, 1, &n);
	pkt_operand(p, to, OPENREG_F32, &one);
	pkt_operand(p, a, OPENREG_F32, &stride_a);
	pkt_operand(p, b, OPENREG_F32, &stride_b);
	pkt_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1);
	pkt_instr(p, OPENREG_V_LOAD, OPENREG_VT_F32, 1, 0, 0, 0, 2);
	pkt_instr(p, OPENREG_V_ADD, OPENREG_VT_F32, 0, 0, 1, 0, 0);
	pkt_instr(p, OPENREG_V_STORE, OPENREG_VT_F32, 0, 0, 0, 0, 0);
}

static void fill(struct fixture *f)
{
	for (uint64_t i = 0; i < LEN / 4; i++) {
		*vram_word(f, i) = (float)below(1000);
		*peer_word(f, i) = (float)below(1000);
		*other_word(f, i) = (float)below(1000);
	}
}

/* All strides and offsets, with VRAM and with another peer. */
static void test_values(void **state)
{
	static const int64_t strides[] = { 1, -1, 0, 3, -7 };
	struct fixture *f = *state;
	float want[N];
	struct pkt p;

	for (unsigned int k = 0; k < 25; k++) {
		const int64_t sa = strides[k % 5], sb = strides[k / 5];
		const uint64_t first = 8000 + below(100);

		fill(f);
		for (int64_t i = 0; i < N; i++)
			want[i] = *peer_word(f, first + (uint64_t)(i * sa)) +
				  *other_word(f, first + (uint64_t)(i * sb));
		pkt_add(&p, N, at(VRAM_SEG, 64), at(PEER_SEG, 4 * first), sa,
			at(OTHER_SEG, 4 * first), sb);
		tq_run(&f->q, &p);
		assert_memory_equal(vram_word(f, 16), want, sizeof(want));

		for (int64_t i = 0; i < N; i++)
			want[i] = *vram_word(f, 20000 + (uint64_t)i) +
				  *peer_word(f, first + (uint64_t)(i * sb));
		pkt_add(&p, N, at(VRAM_SEG, 64), at(VRAM_SEG, 80000), 1,
			at(PEER_SEG, 4 * first), sb);
		tq_run(&f->q, &p);
		assert_memory_equal(vram_word(f, 16), want, sizeof(want));
	}
}

/* A reduction, and an empty packet, which touches nothing. */
static void test_reduction(void **state)
{
	struct fixture *f = *state;
	const int64_t zero = 0, one = 1;
	int64_t n = 40000;
	float want = 0;
	struct pkt p;

	fill(f);
	for (int64_t i = 0; i < n; i++)
		want += (float)(int)(*peer_word(f, (uint64_t)i) = (float)(i % 8));
	for (int round = 0; round < 2; round++, n = 0) {
		pkt_begin(&p, OPENREG_OP_VECTOR, 1, &n);
		pkt_arg(&p, 0, 1);
		pkt_operand(&p, at(VRAM_SEG, 0), OPENREG_F32, &zero);
		pkt_operand(&p, at(PEER_SEG, 0), OPENREG_F32, &one);
		pkt_instr(&p, OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1);
		pkt_instr(&p, OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 0, OPENREG_VNONE,
			  OPENREG_VNONE, 0);
		tq_run(&f->q, &p);
		assert_true(*vram_word(f, 0) == (round ? 0 : want));
	}
}

static void expect(struct fixture *f, struct pkt *p, uint32_t code, uint32_t operand,
		   uint64_t detail)
{
	const struct openreg_fault_summary fault = tq_expect(&f->q, p, code);

	assert_int_equal(fault.operand, operand);
	assert_int_equal(fault.detail, detail);
}

static void test_faults(void **state)
{
	struct fixture *f = *state;
	struct pkt p;

	/* Not for results, and not without the permission or beyond the end. */
	pkt_add(&p, N, at(PEER_SEG, 0), at(VRAM_SEG, 0), 1, at(VRAM_SEG, 0), 1);
	expect(f, &p, OPENREG_FAULT_ENGINE, 0, OPENREG_SEG_PEER);
	pkt_add(&p, N, at(VRAM_SEG, 0), at(VRAM_SEG, 0), 1, at(HALF_SEG, 0), 1);
	expect(f, &p, OPENREG_FAULT_PERMISSION, 2, OPENREG_SEG_READ);
	pkt_add(&p, N, at(VRAM_SEG, 0), at(PEER_SEG, LEN - 4 * N + 4), 1, at(VRAM_SEG, 0), 1);
	expect(f, &p, OPENREG_FAULT_BOUNDS, 1, LEN + 4);
	pkt_add(&p, N, at(VRAM_SEG, 0), at(VRAM_SEG, 0), 1, at(PEER_SEG, 4), -1);
	expect(f, &p, OPENREG_FAULT_BOUNDS, 2, (uint64_t)(4 - 4 * (N - 1)));
	pkt_add(&p, N, at(VRAM_SEG, 0), at(PEER_SEG, 2), 1, at(VRAM_SEG, 0), 1);
	expect(f, &p, OPENREG_FAULT_ALIGNMENT, 1, 4);
	pkt_grind(&p, at(PEER_SEG, 0), N, 1);
	expect(f, &p, OPENREG_FAULT_ENGINE, 0, OPENREG_SEG_PEER);
	/* The card still works, and has changed nothing of the peer. */
	fill(f);
	pkt_add(&p, 1, at(VRAM_SEG, 0), at(PEER_SEG, 0), 1, at(OTHER_SEG, 0), 1);
	tq_run(&f->q, &p);
	assert_true(*vram_word(f, 0) == *peer_word(f, 0) + *other_word(f, 0));
}

/* The sum of the bytes of all PEER operands is limited. */
static void test_limit(void **state)
{
	struct fixture *f = *state;
	const int64_t most = OPENREG_PEER_BYTES_MAX / 4;
	struct pkt p;

	bind(f->rig, BIG_SEG, rig_alloc(f->rig, BIG), BIG, RW, false);
	/* One element of VRAM for each: the result has stride 0 only in a reduction. */
	pkt_add(&p, 2, at(VRAM_SEG, 0), at(BIG_SEG, 0), most - 1, at(VRAM_SEG, 0), 1);
	tq_run(&f->q, &p);
	pkt_add(&p, 2, at(VRAM_SEG, 0), at(BIG_SEG, 0), most, at(VRAM_SEG, 0), 1);
	expect(f, &p, OPENREG_FAULT_LIMIT, 1, OPENREG_PEER_BYTES_MAX + 4);
	pkt_add(&p, 2, at(VRAM_SEG, 0), at(BIG_SEG, 0), most - 1, at(PEER_SEG, 0), 1);
	expect(f, &p, OPENREG_FAULT_LIMIT, 2, OPENREG_PEER_BYTES_MAX + 8);
}

/* Memory of the peer that does not answer; a segment that is gone. */
static void test_gone(void **state)
{
	struct fixture *f = *state;
	struct pkt p;

	atomic_store(&f->rig->bus.bad_len, 4096);
	atomic_store(&f->rig->bus.bad_bus, f->other);
	pkt_add(&p, N, at(VRAM_SEG, 0), at(PEER_SEG, 0), 1, at(OTHER_SEG, 0), 1);
	expect(f, &p, OPENREG_FAULT_DMA, 2, 0);
	/* The second page is good. */
	pkt_add(&p, N, at(VRAM_SEG, 0), at(PEER_SEG, 0), 1, at(OTHER_SEG, 4096), 1);
	tq_run(&f->q, &p);
	atomic_store(&f->rig->bus.bad_len, 0);
	rig_unbind(f->rig, 1, OTHER_SEG);
	expect(f, &p, OPENREG_FAULT_ADDRESS, 2, OTHER_SEG);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_values), T(test_reduction), T(test_faults), T(test_limit), T(test_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
