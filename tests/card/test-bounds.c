/* SPDX-License-Identifier: MIT */
/*
 * The address check against an oracle that visits every corner of the
 * iteration space in 128 bits: a packet runs if and only if each of its
 * elements lies in the segment. Guard bytes around it stay as they were.
 */
#include <string.h>

#include "engine.h"
#include "host.h"
#include "random.h"

#define BASE (1u << 20)
#define GUARD 65536u
#define ROUNDS 20000

struct trial {
	unsigned int ndim;
	unsigned int dtype;
	int64_t size[OPENREG_DIMS_MAX];
	int64_t stride[OPENREG_DIMS_MAX];
	uint64_t off;
	uint64_t length; /* of the segment */
};

static int64_t random_stride(uint64_t length)
{
	switch (below(8)) {
	case 0:
		return 0;
	case 1:
		return (int64_t)random64();
	case 2:
		return (below(2) ? 1 : -1) *
		       (int64_t)(1ULL << (30 + below(33)));
	case 3:
		return below(2) ? INT64_MAX : INT64_MIN;
	case 4:
		return -(int64_t)below(length);
	default:
		return (int64_t)below(length / 4 + 2) - 2;
	}
}

static int64_t random_size(void)
{
	switch (below(12)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return 1LL << below(37);
	default:
		return 1 + (int64_t)below(6);
	}
}

static void random_trial(struct trial *t, uint64_t length)
{
	unsigned int d;

	t->ndim = (unsigned int)below(OPENREG_DIMS_MAX + 1);
	t->dtype = 1 + (unsigned int)below(OPENREG_DTYPE_END - 1);
	t->length = length;
	t->off = below(length + 64);
	if (below(8))
		t->off -= t->off % openreg_dtype_size(t->dtype);
	for (d = 0; d < t->ndim; d++) {
		t->size[d] = random_size();
		t->stride[d] = random_stride(length);
	}
}

/* OPENREG_FAULT_NONE, or what the packet has to fault with. */
static uint32_t oracle(const struct trial *t)
{
	unsigned int esize = openreg_dtype_size(t->dtype), d, corner;
	__int128 work = 1;

	for (d = 0; d < t->ndim; d++)
		if (!t->size[d])
			return OPENREG_FAULT_NONE;
	for (d = 0; d < t->ndim; d++) {
		work *= t->size[d];
		if (work > (__int128)1 << 36)
			return OPENREG_FAULT_LIMIT;
	}
	if (t->off % esize)
		return OPENREG_FAULT_ALIGNMENT;
	for (corner = 0; corner < 1u << t->ndim; corner++) {
		__int128 at = t->off;

		for (d = 0; d < t->ndim; d++)
			if (corner & 1u << d)
				at += (__int128)(t->size[d] - 1) *
				      t->stride[d] * esize;
		if (at < 0 || at + esize > (__int128)t->length)
			return OPENREG_FAULT_BOUNDS;
	}
	return OPENREG_FAULT_NONE;
}

/* Within bounds, but more than a test has time for. */
static bool too_long(const struct trial *t)
{
	__int128 work = 1;
	unsigned int d;

	for (d = 0; d < t->ndim; d++)
		work *= t->size[d];
	return work > 1 << 18;
}

static void check(struct rig *rig, struct tq *q, const struct trial *t,
		  uint32_t seg)
{
	uint32_t want = oracle(t);
	struct openreg_fault_summary fault;
	uint64_t addr = OPENREG_ADDR(0, seg, t->off);
	struct pkt p;

	if (!want && too_long(t))
		return;
	pkt_begin(&p, OPENREG_OP_FILL, t->ndim, t->size);
	pkt_operand(&p, addr, t->dtype, t->stride);
	pkt_imm(&p, 0x5a5a5a5a5a5a5a5a);
	tq_push(q, &p);
	tq_publish(q);
	if (!want) {
		tq_wait(q);
		return;
	}
	fault = tq_wait_fault(q);
	assert_int_equal(fault.code, want);
	if (want == OPENREG_FAULT_BOUNDS) {
		assert_int_equal(fault.operand, 0);
		/* Its own, or the first byte behind the segment. */
		assert_true(fault.address == addr ||
			    fault.address == OPENREG_ADDR(0, seg, t->length));
	}
	assert_int_equal(tq_reset(q, q->tail, q->seq), 0);
	openreg_card_reg_write(rig->card, OPENREG_REG_FAULT_HEAD,
			       rig_reg(rig, OPENREG_REG_FAULT_TAIL), 4);
}

static void test_fuzz(void **state)
{
	static const uint64_t lengths[] = { 1, 7, 4096, 5000, 32768, 65536 };
	const unsigned int n = sizeof(lengths) / sizeof(lengths[0]);
	struct rig *rig = *state;
	struct trial t;
	struct tq q;
	unsigned int i, k;

	assert_int_equal(rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0), 0);
	for (i = 0; i < n; i++) {
		struct openreg_admin_cmd cmd =
			cmd_vram(1, 1 + i, BASE * (1 + i), lengths[i], RW);

		assert_int_equal(rig_admin(rig, &cmd), 0);
	}
	tq_create(rig, &q, 1, 0);
	for (i = 0; i < ROUNDS; i++) {
		k = i % n;
		random_trial(&t, lengths[k]);
		check(rig, &q, &t, 1 + k);
	}
	for (i = 0; i < n; i++)
		for (k = 0; k < GUARD; k++) {
			uint8_t *seg = rig->vram + BASE * (1 + i);

			assert_int_equal(seg[-1 - (int)k], 0);
			assert_int_equal(seg[lengths[i] + k], 0);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fuzz, rig_setup,
						rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
