// SPDX-License-Identifier: MIT
/*
 * Errors of a process: each one stops the queue with a record that names packet, operand
 * and address. Queues of another open device still work.
 */
#include "harness.h"

#define N 16

struct rig {
	struct card c;
	struct card other; /* another context: to the card, another process */
	struct openreg_bo *bo; /* one page */
	uint64_t at;
};

static int rig_open(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	ok(openreg_device_open(0, &r->c.dev));
	ok(openreg_queue_create(r->c.dev, NULL, &r->c.q));
	ok(openreg_device_open(0, &r->other.dev));
	ok(openreg_queue_create(r->other.dev, NULL, &r->other.q));
	r->bo = vram(&r->c, 4096);
	r->at = address(r->bo);
	*state = r;
	return 0;
}

static int rig_close(void **state)
{
	struct rig *r = *state;

	openreg_bo_free(r->bo);
	openreg_queue_destroy(r->c.q);
	openreg_device_close(r->c.dev);
	openreg_queue_destroy(r->other.q);
	openreg_device_close(r->other.dev);
	free(r);
	return 0;
}

/* Runs the pushed packet, which must fault with this record. */
static void expect(struct rig *r, uint32_t code, uint32_t operand,
		   uint64_t address)
{
	const uint64_t good = openreg_queue_submitted(r->c.q);
	struct openreg_fault_summary f;
	char text[320], part[32];

	still_works(&r->other);
	f = run_fault(&r->c);
	openreg_fault_text(&f, text, sizeof(text));
	if (f.code != code || f.operand != operand ||
	    (address && f.address != address))
		fail_msg("want code %u operand %u address %#llx, have: %s",
			 code, operand, (unsigned long long)address, text);
	assert_int_equal(f.seq, good + 1);
	snprintf(part, sizeof(part), "packet %llu ", (unsigned long long)f.seq);
	assert_non_null(strstr(text, part));
	assert_non_null(strstr(text, openreg_fault_name(code)));
	assert_null(strstr(text, "?"));
	still_works(&r->other);
	still_works(&r->c);
}

/* Pushes a COPY from a bad view to the page. */
static void bad_view(struct rig *r, uint64_t address, uint32_t dtype,
		     unsigned int ndim, const int64_t *size,
		     const int64_t *stride)
{
	const int64_t near[OPENREG_DIMS_MAX] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	const struct openreg_tensor src = openreg_view(address, dtype, stride);
	const struct openreg_tensor dst = openreg_view(r->at, OPENREG_U8, near);

	ok(openreg_push_copy(r->c.q, ndim, size, &dst, &src));
}

static void test_address(void **state)
{
	struct rig *r = *state;
	const uint64_t freed_size = 4096;
	struct openreg_bo *freed = vram(&r->c, freed_size);
	const uint64_t bad[] = {
		0, 0x7fff12345678, UINT64_MAX, address(freed),
		OPENREG_ADDR(15, 1, 0), OPENREG_ADDR(0, 0, 0),
		r->at & ~(1ULL << OPENREG_ADDR_FIXED_BIT),
	};
	const int64_t size[] = { N };

	openreg_bo_free(freed);
	for (size_t i = 0; i < COUNT(bad); i++) {
		bad_view(r, bad[i], OPENREG_U8, 1, size, NULL);
		expect(r, OPENREG_FAULT_ADDRESS, 1, bad[i]);
	}
}

static void test_one_past(void **state)
{
	struct rig *r = *state;
	const int64_t size[] = { N }, grid[] = { 4, 5 };
	const int64_t step[] = { 3 }, back[] = { -1 }, grid_stride[] = { 7, 2 };

	/* The last of 16 floats begins at the page's end. */
	bad_view(r, r->at + 4096 - 4 * (N - 1), OPENREG_F32, 1, size, NULL);
	expect(r, OPENREG_FAULT_BOUNDS, 1, 0);
	/* The same with a stride. */
	bad_view(r, r->at + 4096 - 4 * 3 * (N - 1), OPENREG_F32, 1, size, step);
	expect(r, OPENREG_FAULT_BOUNDS, 1, 0);
	/* A negative stride: the last element is one before the page. */
	bad_view(r, r->at + 4 * (N - 2), OPENREG_F32, 1, size, back);
	expect(r, OPENREG_FAULT_BOUNDS, 1, 0);
	/* Two dimensions: the last element is 7 * 3 + 2 * 4 elements further. */
	bad_view(r, r->at + 4096 - 2 * 29, OPENREG_I16, 2, grid, grid_stride);
	expect(r, OPENREG_FAULT_BOUNDS, 1, 0);
}

/* The same views, one element shorter, are valid. */
static void test_to_the_end(void **state)
{
	struct rig *r = *state;
	const int64_t size[] = { N }, grid[] = { 4, 5 };
	const int64_t step[] = { 3 }, back[] = { -1 }, grid_stride[] = { 7, 2 };

	bad_view(r, r->at + 4096 - 4 * N, OPENREG_F32, 1, size, NULL);
	bad_view(r, r->at + 4096 - 4 * (3 * (N - 1) + 1), OPENREG_F32, 1, size,
		 step);
	bad_view(r, r->at + 4 * (N - 1), OPENREG_F32, 1, size, back);
	bad_view(r, r->at + 4096 - 2 * 30, OPENREG_I16, 2, grid, grid_stride);
	run(&r->c);
}

static void test_overflow(void **state)
{
	static const int64_t strides[] = {
		INT64_MAX, INT64_MIN, INT64_MAX / 4, 1LL << 62, -(1LL << 62),
		1LL << 60, (1LL << 60) / 15,
	};
	struct rig *r = *state;
	const int64_t size[] = { N }, huge[] = { INT64_MAX };
	const int64_t negative[] = { -1 }, one[] = { 1 };

	for (size_t i = 0; i < COUNT(strides); i++) {
		bad_view(r, r->at, OPENREG_F64, 1, size, &strides[i]);
		expect(r, OPENREG_FAULT_BOUNDS, 1, 0);
	}
	bad_view(r, r->at, OPENREG_U8, 1, huge, one);
	assert_true(run_fault(&r->c).code != OPENREG_FAULT_NONE);
	bad_view(r, r->at, OPENREG_U8, 1, negative, one);
	assert_int_equal(run_fault(&r->c).code, OPENREG_FAULT_SHAPE);
	still_works(&r->c);
}

/* An empty operand outside its segment does not fault. */
static void test_empty(void **state)
{
	struct rig *r = *state;
	const int64_t size[] = { 5, 0, 7 }, stride[] = { 1, 1, 1 };

	bad_view(r, r->at + 4096, OPENREG_F32, 3, size, stride);
	bad_view(r, r->at + 4096, OPENREG_F32, 3, size, NULL);
	run(&r->c);
}

static void test_alignment(void **state)
{
	struct rig *r = *state;
	const int64_t size[] = { N };

	bad_view(r, r->at + 2, OPENREG_F32, 1, size, NULL);
	expect(r, OPENREG_FAULT_ALIGNMENT, 1, r->at + 2);
}

static void test_dtype(void **state)
{
	static const uint32_t bad[] = { 0, OPENREG_DTYPE_END, 77, 255 };
	struct rig *r = *state;
	const int64_t size[] = { N };

	for (size_t i = 0; i < COUNT(bad); i++) {
		bad_view(r, r->at, bad[i], 1, size, NULL);
		expect(r, OPENREG_FAULT_DTYPE, 1, 0);
	}
}

static void push_program(struct rig *r, unsigned int ninstr,
			 const struct openreg_instr *instr)
{
	const int64_t size[] = { N };
	const struct openreg_tensor t = openreg_view(r->at, OPENREG_F32, NULL);
	const struct openreg_command v = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 1, .nops = 1, .ninstr = ninstr,
		.size = size, .ops = &t, .instr = instr,
	};

	ok(openreg_push(r->c.q, &v));
}

static void test_program(void **state)
{
	struct rig *r = *state;
	const struct openreg_instr bad[] = {
		openreg_ins(OPENREG_V_END, OPENREG_VT_F32, 0, 0, 0, 0, 0),
		openreg_ins(15, OPENREG_VT_F32, 0, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_END, 0, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 16, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1),
		openreg_ins(OPENREG_V_IMM, OPENREG_VT_F32, 0, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_ADD, OPENREG_VT_F32, 0, 16, 0, 0, 0),
		openreg_ins(OPENREG_V_SQRT, OPENREG_VT_I32, 0, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_AND, OPENREG_VT_F32, 0, 0, 0, 0, 0),
	};

	for (size_t i = 0; i < COUNT(bad); i++) {
		const struct openreg_instr program[] = {
			openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0,
				    0),
			bad[i],
		};
		const uint64_t seq = openreg_queue_submitted(r->c.q) + 1;
		struct openreg_fault_summary f;

		push_program(r, 2, program);
		f = run_fault(&r->c);
		if (f.code != OPENREG_FAULT_PROGRAM || f.detail != 1)
			fail_msg("program %zu: code %u, detail %llu", i, f.code,
				 (unsigned long long)f.detail);
		assert_int_equal(f.seq, seq);
		assert_int_equal(f.opcode, OPENREG_OP_VECTOR);
	}
	still_works(&r->c);
}

/* Compute packets work on VRAM only. */
static void test_engine(void **state)
{
	struct rig *r = *state;
	struct openreg_bo *sys;
	const int64_t size[] = { N };
	const struct openreg_instr program[] = {
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_STORE, OPENREG_VT_F32, 0, 0, 0, 0, 0),
	};
	struct openreg_command v = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 1, .nops = 1, .ninstr = 2, .size = size,
		.instr = program,
	};
	struct openreg_tensor t;

	ok(openreg_bo_alloc(r->c.dev, 4096, OPENREG_BO_SYSTEM, &sys));
	t = openreg_view(address(sys), OPENREG_F32, NULL);
	v.ops = &t;
	ok(openreg_push(r->c.q, &v));
	expect(r, OPENREG_FAULT_ENGINE, 0, address(sys));
	openreg_bo_free(sys);
}

/* Bad packet headers, which no builder makes. */
static void test_packet(void **state)
{
	static const struct {
		uint8_t byte, value;
	} bad[] = {
		{ 0, OPENREG_OP_END }, { 0, 255 }, { 1, 0 }, { 1, 33 },
		{ 2, 1 }, { 3, 1 }, { 8, 1 }, { 15, 1 },
	};
	struct rig *r = *state;
	uint8_t *p;
	void *slot;

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct openreg_fault_summary f;

		ok(openreg_queue_begin(r->c.q, 1, &slot, NULL));
		openreg_encode_nop(slot, 1);
		p = slot;
		p[bad[i].byte] = bad[i].value;
		f = run_fault(&r->c);
		if (f.code != OPENREG_FAULT_PACKET &&
		    f.code != OPENREG_FAULT_RING)
			fail_msg("byte %u = %u: code %u", bad[i].byte,
				 bad[i].value, f.code);
		assert_int_equal(f.operand, OPENREG_NO_OPERAND);
		still_works(&r->c);
	}
}

/* A packet that is longer than the published slots. */
static void test_past_tail(void **state)
{
	struct rig *r = *state;
	void *slot;

	ok(openreg_queue_begin(r->c.q, 1, &slot, NULL));
	openreg_encode_nop(slot, 2);
	assert_int_equal(run_fault(&r->c).code, OPENREG_FAULT_RING);
	still_works(&r->c);
}

static void test_cookie(void **state)
{
	struct rig *r = *state;
	const int64_t size[] = { 1 };
	const struct openreg_tensor t =
		openreg_view(r->at + 4096, OPENREG_U8, NULL);
	const uint64_t bits = 0;
	const struct openreg_command fill = {
		.opcode = OPENREG_OP_FILL, .cookie = 0xfeed,
		.ndim = 1, .nops = 1, .nimm = 1,
		.size = size, .ops = &t, .imm = &bits,
	};
	struct openreg_fault_summary f;
	char text[320];

	ok(openreg_push(r->c.q, &fill));
	f = run_fault(&r->c);
	assert_int_equal(f.cookie, 0xfeed);
	openreg_fault_text(&f, text, sizeof(text));
	assert_non_null(strstr(text, "cookie 0xfeed"));
}

/* After a fault no packet runs until the reset, which drops the queued packets. */
static void test_reset(void **state)
{
	struct rig *r = *state;
	uint8_t *p = mapped(r->bo);
	uint64_t last;

	ok(openreg_fill_async(r->c.q, r->at, 1, 1));
	ok(openreg_push_fill(r->c.q, 0, NULL,
			     &(struct openreg_tensor){ 5, NULL, OPENREG_U8, 0 },
			     0));
	for (int i = 0; i < 10; i++) {
		const struct openreg_tensor t =
			openreg_view(r->at, OPENREG_U8, NULL);

		ok(openreg_push_fill(r->c.q, 0, NULL, &t, 2));
	}
	run_fault(&r->c);
	last = openreg_queue_submitted(r->c.q);
	assert_int_equal(last, 12);
	assert_int_equal(openreg_queue_completed(r->c.q), last);
	assert_int_equal(p[0], 1);
	ok(openreg_fill_async(r->c.q, r->at, 3, 1));
	run(&r->c);
	assert_int_equal(p[0], 3);
	assert_int_equal(openreg_queue_submitted(r->c.q), last + 1);
}

/* A running queue can also be reset. */
static void test_reset_running(void **state)
{
	struct rig *r = *state;

	ok(openreg_push_wait(r->c.q, r->at, OPENREG_WAIT_EQ, 1));
	ok(openreg_queue_submit(r->c.q));
	ok(openreg_push_nop(r->c.q)); /* begun, not submitted: dropped */
	ok(openreg_queue_reset(r->c.q));
	assert_int_equal(openreg_queue_completed(r->c.q), 1);
	still_works(&r->c);
	ok(openreg_queue_reset(r->c.q));
	still_works(&r->c);
}

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_open, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_address),
		RIG_TEST(test_one_past),
		RIG_TEST(test_to_the_end),
		RIG_TEST(test_overflow),
		RIG_TEST(test_empty),
		RIG_TEST(test_alignment),
		RIG_TEST(test_dtype),
		RIG_TEST(test_program),
		RIG_TEST(test_engine),
		RIG_TEST(test_packet),
		RIG_TEST(test_past_tail),
		RIG_TEST(test_cookie),
		RIG_TEST(test_reset),
		RIG_TEST(test_reset_running),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
