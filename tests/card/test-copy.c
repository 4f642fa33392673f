/* SPDX-License-Identifier: MIT */
/* Compares every byte of COPY and FILL with an element-by-element oracle. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "host.h"
#include "random.h"

#define LEN (192u << 10) /* bytes of each segment */
#define KINDS 4 /* VRAM, VRAM, contiguous and scattered system memory */

struct fixture {
	struct rig *rig;
	struct client_queue q;
	uint64_t mem[KINDS]; /* bus, or VRAM offset */
	uint8_t *want; /* the expected destination */
};

struct operand {
	unsigned int kind;
	unsigned int dtype;
	uint64_t off;
	int64_t stride[OPENREG_DIMS_MAX];
};

static uint64_t address(unsigned int kind, uint64_t off)
{
	return OPENREG_ADDR(0, 1 + kind, off);
}

static int setup(void **state)
{
	static struct fixture f;
	struct rig *rig = rig_new(2);
	struct openreg_admin_cmd peer;

	memset(&f, 0, sizeof(f));
	f.rig = rig;
	f.want = malloc(LEN);
	rig_op(rig, OPENREG_ADMIN_CTX_CREATE, 1, 0);
	f.mem[0] = 4096;
	f.mem[1] = 1 << 20;
	f.mem[2] = rig_alloc(rig, LEN);
	f.mem[3] = rig_alloc(rig, LEN);
	rig_do(rig, cmd_vram(1, 1, f.mem[0], LEN, RW));
	rig_do(rig, cmd_vram(1, 2, f.mem[1], LEN, RW));
	rig_do(rig, cmd_system(rig, 1, 3, f.mem[2], LEN, RW, false));
	/* To copies, memory of a peer is like system memory. */
	peer = cmd_system(rig, 1, 4, f.mem[3], LEN, RW, true);
	peer.seg.kind = OPENREG_SEG_PEER;
	rig_do(rig, peer);
	tq_create(rig, &f.q, 1, 0);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	rig_free(f->rig);
	free(f->want);
	return 0;
}

/* A page of a segment; the scattered segment has its pages in reverse order. */
static uint8_t *page(struct fixture *f, unsigned int kind, uint64_t n)
{
	if (kind < 2)
		return f->rig->vram + f->mem[kind] + n * 4096;
	if (kind == 3)
		n = LEN / 4096 - 1 - n;
	return rig_ptr(f->rig, f->mem[kind] + n * 4096);
}

static uint8_t *byte(struct fixture *f, unsigned int kind, uint64_t off)
{
	return page(f, kind, off / 4096) + off % 4096;
}

static void get(struct fixture *f, unsigned int kind, uint64_t off, void *to,
		unsigned int n)
{
	uint8_t *bytes = to;

	while (n--)
		*bytes++ = *byte(f, kind, off++);
}

static void scramble(struct fixture *f)
{
	unsigned int kind, i;

	for (kind = 0; kind < KINDS; kind++)
		for (i = 0; i < LEN; i += 8) {
			/* Small numbers: every cast is defined. */
			uint64_t value = random64() & 0x0f0f0f0f0f0f0f0fULL;

			memcpy(byte(f, kind, i), &value, 8);
		}
}

static void snapshot(struct fixture *f, unsigned int kind)
{
	uint64_t i;

	for (i = 0; i < LEN / 4096; i++)
		memcpy(f->want + i * 4096, page(f, kind, i), 4096);
}

static void same_bytes(const uint8_t *got, const uint8_t *want, uint64_t n,
		       uint64_t at)
{
	uint64_t i;

	if (!memcmp(got, want, n))
		return;
	for (i = 0; got[i] == want[i];)
		i++;
	fail_msg("byte %llu is %u, not %u", (unsigned long long)(at + i), got[i],
		 want[i]);
}

static void compare(struct fixture *f, unsigned int kind)
{
	uint64_t i;

	for (i = 0; i < LEN; i += 4096)
		same_bytes(page(f, kind, i / 4096), f->want + i, 4096, i);
}

/* Random order of dimensions in memory, with gaps and strides of both signs. */
static void random_layout(struct operand *op, unsigned int ndim,
			  const int64_t *size, bool source)
{
	unsigned int order[OPENREG_DIMS_MAX], i, gap = (unsigned int)below(3);
	unsigned int esize = openreg_dtype_size(op->dtype);
	int64_t step = 1, lo = 0;

	for (i = 0; i < ndim; i++)
		order[i] = i;
	for (i = 0; i < ndim && below(3); i++) {
		unsigned int k = (unsigned int)below(ndim), t = order[i];

		order[i] = order[k];
		order[k] = t;
	}
	if (gap == 2)
		step = 1 + (int64_t)below(3);
	for (i = ndim; i-- > 0;) {
		unsigned int d = order[i];

		op->stride[d] = step;
		step *= size[d];
		if (gap && !below(3))
			step += (int64_t)below(4);
		if (!below(5))
			op->stride[d] = -op->stride[d];
		if (source && !below(8))
			op->stride[d] = 0;
		if (op->stride[d] < 0)
			lo += op->stride[d] * (size[d] - 1);
	}
	assert_true(step * (int64_t)esize <= LEN);
	op->off = (uint64_t)-lo * esize +
		  below((LEN - (uint64_t)step * esize) / esize + 1) * esize;
}

static uint64_t element(const struct operand *op, unsigned int ndim,
			const int64_t *index)
{
	int64_t at = 0;
	unsigned int d;

	for (d = 0; d < ndim; d++)
		at += index[d] * op->stride[d];
	return op->off + (uint64_t)(at * (int64_t)openreg_dtype_size(op->dtype));
}

static bool next_index(unsigned int ndim, const int64_t *size, int64_t *index)
{
	unsigned int d = ndim;

	while (d-- > 0) {
		if (++index[d] < size[d])
			return true;
		index[d] = 0;
	}
	return false;
}

/* Computes the expected destination. src NULL: a fill with pattern. */
static void expect_elements(struct fixture *f, unsigned int ndim,
			    const int64_t *size, const struct operand *dst,
			    const struct operand *src, uint64_t pattern)
{
	int64_t index[OPENREG_DIMS_MAX] = { 0 };
	uint64_t from, to;
	unsigned int n = openreg_dtype_size(dst->dtype);

	do {
		from = to = pattern;
		if (src) {
			get(f, src->kind, element(src, ndim, index), &from,
			    openreg_dtype_size(src->dtype));
			to = from;
		}
		if (src && src->dtype != dst->dtype)
			openreg_convert(&to, dst->dtype, 1, &from, src->dtype,
					1, 1);
		memcpy(f->want + element(dst, ndim, index), &to, n);
	} while (next_index(ndim, size, index));
}

static unsigned int random_shape(int64_t *size)
{
	unsigned int ndim = (unsigned int)below(5), d;
	int64_t room = 2500;

	for (d = 0; d < ndim; d++) {
		int64_t most = room < 40 || !below(4) ? room : 40;

		size[d] = 1 + (int64_t)below((uint64_t)most);
		room /= size[d] + 1;
		if (room < 1)
			room = 1;
	}
	return ndim;
}

static unsigned int random_dtype(void)
{
	return 1 + (unsigned int)below(OPENREG_DTYPE_END - 1);
}

static void run_random_copy(struct fixture *f)
{
	int64_t size[OPENREG_DIMS_MAX];
	unsigned int ndim = random_shape(size);
	struct operand dst, src;
	struct pkt p;

	dst.kind = (unsigned int)below(KINDS);
	do
		src.kind = (unsigned int)below(KINDS);
	while (src.kind == dst.kind);
	dst.dtype = random_dtype();
	src.dtype = below(2) ? dst.dtype : random_dtype();
	random_layout(&dst, ndim, size, false);
	random_layout(&src, ndim, size, true);
	snapshot(f, dst.kind);
	expect_elements(f, ndim, size, &dst, &src, 0);
	pkt_begin(&p, OPENREG_OP_COPY, ndim, size);
	pkt_operand(&p, address(dst.kind, dst.off), dst.dtype, dst.stride);
	pkt_operand(&p, address(src.kind, src.off), src.dtype, src.stride);
	tq_run(&f->q, &p);
	compare(f, dst.kind);
}

static void test_random_copies(void **state)
{
	struct fixture *f = *state;
	unsigned int i;

	for (i = 0; i < 3000 / SCALE; i++) {
		if (i % 100 == 0)
			scramble(f);
		run_random_copy(f);
	}
}

static void test_random_fills(void **state)
{
	int64_t size[OPENREG_DIMS_MAX];
	struct fixture *f = *state;
	struct operand dst;
	unsigned int i, ndim;
	uint64_t pattern;
	struct pkt p;

	for (i = 0; i < 1000 / SCALE; i++) {
		ndim = random_shape(size);
		dst.kind = (unsigned int)below(KINDS);
		dst.dtype = random_dtype();
		pattern = below(2) ? 0 : random64();
		random_layout(&dst, ndim, size, false);
		snapshot(f, dst.kind);
		expect_elements(f, ndim, size, &dst, NULL, pattern);
		pkt_begin(&p, OPENREG_OP_FILL, ndim, size);
		pkt_operand(&p, address(dst.kind, dst.off), dst.dtype,
			    dst.stride);
		pkt_imm(&p, pattern);
		tq_run(&f->q, &p);
		compare(f, dst.kind);
	}
}

#define WIDE_ROW 1500
#define WIDE_LEN (2u << 20)

/* A row with gaps that is larger than the card's staging buffer. */
static void run_wide_copy(struct fixture *f, const int64_t *from, uint8_t *to,
			  unsigned int seg, unsigned int dtype, int64_t ds,
			  int64_t ss)
{
	const uint64_t esize = openreg_dtype_size(dtype), last = WIDE_ROW - 1;
	const int64_t size[1] = { WIDE_ROW };
	const uint64_t dst = ds < 0 ? (uint64_t)-ds * last * esize : 0;
	const uint64_t src = ss < 0 ? (uint64_t)-ss * last * 8 : 0;
	struct pkt p;

	memset(to, 0x5a, WIDE_LEN);
	pkt_begin(&p, OPENREG_OP_COPY, 1, size);
	pkt_operand(&p, OPENREG_ADDR(0, seg, dst), dtype, &ds);
	pkt_operand(&p, OPENREG_ADDR(0, 20, src), OPENREG_I64, &ss);
	tq_run(&f->q, &p);
	from += src / 8;
	to += dst;
	for (uint64_t i = 0; i < WIDE_ROW; i++) {
		/* The numbers fit in both types. */
		assert_memory_equal(to, from, esize);
		if (ds != 1 && ds != -1)
			assert_int_equal(to[esize], 0x5a);
		to += ds * (int64_t)esize;
		from += ss;
	}
}

static void test_wide_rows(void **state)
{
	static const int64_t dst[] = { 1, 2, -3, 70 };
	static const int64_t src[] = { 1, 2, 8, 16, 31, 32, 33, -63, 64, 65, 100 };
	struct fixture *f = *state;
	struct rig *rig = f->rig;
	uint64_t a = rig_alloc(rig, WIDE_LEN), b = rig_alloc(rig, WIDE_LEN);
	uint8_t *to[] = { rig_ptr(rig, b), rig->vram + (8u << 20) };
	int64_t *from = rig_ptr(rig, a);
	unsigned int d, s, kind;

	rig_do(rig, cmd_system(rig, 1, 20, a, WIDE_LEN, RW, false));
	rig_do(rig, cmd_system(rig, 1, 21, b, WIDE_LEN, RW, false));
	rig_do(rig, cmd_vram(1, 22, 8u << 20, WIDE_LEN, RW));
	for (d = 0; d < WIDE_LEN / 8; d++)
		from[d] = (int64_t)(random64() >> 34);
	for (d = 0; d < 4; d++)
		for (s = 0; s < 11; s++)
			for (kind = 0; kind < 2; kind++) {
				run_wide_copy(f, from, to[kind], 21 + kind,
					      OPENREG_I64, dst[d], src[s]);
				run_wide_copy(f, from, to[kind], 21 + kind,
					      OPENREG_I32, dst[d], src[s]);
			}
}

/* Copies larger than a slice, also by the copy thread: two queues at once. */
static void test_large(void **state)
{
	struct fixture *f = *state;
	struct rig *rig = f->rig;
	const uint64_t n = 24u << 20;
	uint64_t a = rig_alloc(rig, n + 4096), b = rig_alloc(rig, n), i;
	struct client_queue other;
	struct pkt p;
	uint64_t *words;

	rig_do(rig, cmd_vram(1, 10, 8u << 20, n, RW));
	/* Not page aligned, like registered memory. */
	rig_do(rig, cmd_system(rig, 1, 11, a + 24, n, RW, false));
	rig_do(rig, cmd_system(rig, 1, 12, b, n, RW, true));
	tq_create(rig, &other, 1, 1);
	words = rig_ptr(rig, a + 24);
	for (i = 0; i < n / 8; i++)
		words[i] = random64();
	pkt_copy(&p, OPENREG_ADDR(0, 10, 0), OPENREG_ADDR(0, 11, 0), OPENREG_I64,
		 (int64_t)(n / 8));
	tq_push(&f->q, &p);
	pkt_copy(&p, OPENREG_ADDR(0, 12, 0), OPENREG_ADDR(0, 10, 0), OPENREG_U8,
		 (int64_t)n);
	tq_push(&f->q, &p);
	client_publish(&f->q);
	while (client_done(&f->q) < f->q.seq) {
		tq_nop(&other);
		client_publish(&other);
		tq_wait(&other);
	}
	tq_wait(&f->q);
	same_bytes(rig->vram + (8u << 20), (uint8_t *)words, n, 0);
	for (i = 0; i < n; i += 4096)
		same_bytes(rig_ptr(rig, b + i), (uint8_t *)words + n - i - 4096,
			   4096, i);
	/* The card reports written VRAM, for migration. */
	assert_true(atomic_load(&rig->bus.dirty) >= n);
}

static void test_bad_packets(void **state)
{
	struct fixture *f = *state;
	struct pkt p;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		pkt_copy(&p, address(0, 0), address(1, 0), OPENREG_U8, 8);
		if (i == 0)
			pkt_imm(&p, 0);
		if (i == 1)
			pkt_instr(&p, 0, 0, 0, 0, 0, 0, 0);
		if (i == 2)
			p.bytes[0] = OPENREG_OP_FILL;
		tq_push(&f->q, &p);
		client_publish(&f->q);
		assert_int_equal(tq_wait_fault(&f->q).code,
				 OPENREG_FAULT_PACKET);
		assert_int_equal(tq_reset(&f->q, f->q.tail, f->q.seq), 0);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_random_copies),
		T(test_random_fills),
		T(test_wide_rows),
		T(test_large),
		T(test_bad_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
