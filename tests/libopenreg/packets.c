// SPDX-License-Identifier: MIT
/* Compares the builders' packets with bytes written by hand from openreg_isa.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <openreg.h>

#define A 0x4f80004000001000ULL

static _Alignas(64) uint8_t slot[OPENREG_PACKET_SLOTS_MAX * 64];

/* A queue without a card: takes the place of the library's function. */
static unsigned int slots;

int openreg_queue_begin(struct openreg_queue *queue, unsigned int length,
			void **packet, uint64_t *seq)
{
	assert_null(queue);
	assert_null(seq);
	slots = length;
	*packet = slot;
	return length ? 0 : -EINVAL;
}

static int clear(void **state)
{
	(void)state;
	memset(slot, 0xee, sizeof(slot));
	return 0;
}

/* Checks what a push returned, and that the packet has the reserved length. */
static void pushed(int ret, unsigned int length)
{
	assert_int_equal(ret, 0);
	assert_int_equal(slots, length);
	assert_int_equal(slot[1], length);
}

/* Compares the packet; the bytes behind it must be unchanged. */
static void expect(const uint8_t *bytes, size_t len)
{
	assert_memory_equal(slot, bytes, len);
	for (size_t i = len; i < sizeof(slot); i++)
		assert_int_equal(slot[i], 0xee);
}

static void test_nop(void **state)
{
	static const uint8_t want[16] = { 0, 3 };

	(void)state;
	openreg_encode_nop(slot, 3);
	expect(want, sizeof(want));
}

static void test_copy(void **state)
{
	static const uint8_t want[] = {
		1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		5, 0, 0, 0, 0, 0, 0, 0,
		0x00, 0x10, 0x00, 0x00, 0x40, 0x00, 0x80, 0x4f,
		1, 0, 0, 0, 0, 0, 0, 0,
		1, 0, 0, 0, 0, 0, 0, 0,
		0x08, 0x10, 0x00, 0x00, 0x40, 0x00, 0x80, 0x4f,
		4, 0, 0, 0, 0, 0, 0, 0,
		0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	};
	const int64_t size[] = { 5 }, back[] = { -2 };
	const struct openreg_tensor dst = openreg_view(A, OPENREG_F32, NULL);
	const struct openreg_tensor src =
		openreg_view(A + 8, OPENREG_BF16, back);

	(void)state;
	pushed(openreg_push_copy(NULL, 1, size, &dst, &src), 2);
	expect(want, sizeof(want));
}

static void test_fill(void **state)
{
	static const uint8_t want[] = {
		2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		3, 0, 0, 0, 0, 0, 0, 0,
		7, 0, 0, 0, 0, 0, 0, 0,
		0x00, 0x10, 0x00, 0x00, 0x40, 0x00, 0x80, 0x4f,
		7, 0, 0, 0, 0, 0, 0, 0,
		7, 0, 0, 0, 0, 0, 0, 0, /* dense strides */
		1, 0, 0, 0, 0, 0, 0, 0,
		0xcd, 0xab, 0, 0, 0, 0, 0, 0,
	};
	const int64_t size[] = { 3, 7 };
	const struct openreg_tensor dst = openreg_view(A, OPENREG_I16, NULL);

	(void)state;
	pushed(openreg_push_fill(NULL, 2, size, &dst, 0xabcd), 2);
	expect(want, sizeof(want));
}

static void test_vector(void **state)
{
	static const uint8_t want[] = {
		3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		1, 2, 1, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		9, 0, 0, 0, 0, 0, 0, 0,
		0x00, 0x10, 0x00, 0x00, 0x40, 0x00, 0x80, 0x4f,
		1, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0,
		0x00, 0x20, 0x00, 0x00, 0x40, 0x00, 0x80, 0x4f,
		1, 0, 0, 0, 0, 0, 0, 0,
		1, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0xf8, 0x3f, /* 1.5 */
		0, 0, 0, 0, 0, 0, 1, 0, /* LOAD r0, operand 1 */
		2, 0, 1, 0, 0, 0, 0, 0, /* IMM r1, 0 */
		16, 0, 2, 0, 1, 0, 0, 0, /* ADD r2, r0, r1 */
		112, 0, 0, 2, 0xff, 0xff, 0, 0, /* RED_SUM r2, operand 0 */
	};
	const int64_t size[] = { 9 }, zero[] = { 0 };
	const struct openreg_tensor ops[] = {
		openreg_view(A, OPENREG_F32, zero),
		openreg_view(A + 0x1000, OPENREG_F32, NULL),
	};
	const uint64_t imm[] = { openreg_imm_f64(1.5) };
	const struct openreg_instr instr[] = {
		openreg_ins(OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1),
		openreg_ins(OPENREG_V_IMM, OPENREG_VT_F32, 1, 0, 0, 0, 0),
		openreg_ins(OPENREG_V_ADD, OPENREG_VT_F32, 2, 0, 1, 0, 0),
		openreg_ins(OPENREG_V_RED_SUM, OPENREG_VT_F32, 0, 2,
			    OPENREG_VNONE, OPENREG_VNONE, 0),
	};
	const struct openreg_command sum = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 1, .nops = 2, .nimm = 1, .ninstr = 4, .arg = { 1 },
		.size = size, .ops = ops, .imm = imm, .instr = instr,
	};

	(void)state;
	pushed(openreg_push(NULL, &sum), 2);
	expect(want, sizeof(want));
}

/* One 64-bit little-endian value of the packet. */
static uint64_t at(size_t off)
{
	uint64_t v;

	memcpy(&v, slot + off, sizeof(v));
	return v;
}

static void test_matmul(void **state)
{
	const int64_t size[4] = { 2, 3, 4, 5 };
	const int64_t sd[4] = { 12, 4, 1, 0 }, sa[4] = { 15, 5, 0, 1 };
	const int64_t sb[4] = { 20, 0, 1, 4 };
	const struct openreg_tensor d = openreg_view(A, OPENREG_F32, sd);
	const struct openreg_tensor a = openreg_view(A + 256, OPENREG_F32, sa);
	const struct openreg_tensor b = openreg_view(A + 512, OPENREG_F32, sb);
	const size_t ops = 32 + 4 * 8, each = 16 + 4 * 8;

	(void)state;
	pushed(openreg_push_matmul(NULL, size, &d, &a, &b, NULL, 1.0, 0.0), 4);
	assert_int_equal(at(0), 4 | 4 << 8);
	assert_int_equal(at(16), 4 | 3 << 8 | 2 << 16);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(at(32 + 8 * i), size[i]);
		assert_int_equal(at(ops + 16 + 8 * i), sd[i]);
		assert_int_equal(at(ops + each + 16 + 8 * i), sa[i]);
		assert_int_equal(at(ops + 2 * each + 16 + 8 * i), sb[i]);
	}
	assert_int_equal(at(ops + each), A + 256);
	assert_int_equal(at(ops + 3 * each), 0x3ff0000000000000);
	assert_int_equal(at(ops + 3 * each + 8), 0);
	assert_int_equal(at(ops + 3 * each + 16), 0xeeeeeeeeeeeeeeee);

	pushed(openreg_push_matmul(NULL, size, &d, &a, &b, &d, -2.0, 1.0), 5);
	assert_int_equal(at(16), 4 | 4 << 8 | 2 << 16);
	assert_int_equal(at(ops + 3 * each), A);
	assert_int_equal(at(ops + 4 * each), 0xc000000000000000);
}

static void test_matmul_scaled(void **state)
{
	const int64_t size[4] = { 1, 2, 3, 64 };
	const int64_t stride[4] = { 0, 0, 1, 3 };
	const struct openreg_tensor d = openreg_view(A, OPENREG_BF16, NULL);
	const struct openreg_tensor q = openreg_view(A + 256, OPENREG_U8, stride);
	const struct openreg_tensor s = openreg_view(A + 512, OPENREG_F32, stride);
	const size_t ops = 32 + 4 * 8, each = 16 + 4 * 8;

	(void)state;
	pushed(openreg_push_matmul_scaled(NULL, OPENREG_MATMUL_SCALED_I4, size, &d,
					  &d, &q, &s, NULL, 2.0, 32), 5);
	assert_int_equal(at(16), 4 | 4 << 8 | 3 << 16 |
					 (uint64_t)OPENREG_MATMUL_SCALED_I4 << 32);
	assert_int_equal(at(ops + 2 * each), A + 256);
	assert_int_equal(at(ops + 3 * each), A + 512);
	assert_int_equal(at(ops + 4 * each), 0x4000000000000000);
	assert_int_equal(at(ops + 4 * each + 8), 0);
	assert_int_equal(at(ops + 4 * each + 16), 32);

	pushed(openreg_push_matmul_scaled(NULL, OPENREG_MATMUL_SCALED_I8, size, &d,
					  &d, &q, &s, &s, 1.0, 64), 6);
	assert_int_equal(at(16), 4 | 5 << 8 | 3 << 16 |
					 (uint64_t)OPENREG_MATMUL_SCALED_I8 << 32);
	assert_int_equal(at(ops + 5 * each + 16), 64);
}

static void test_matmul_f8(void **state)
{
	const int64_t size[4] = { 1, 2, 3, 64 };
	const int64_t rows[4] = { 0, 64, 0, 1 }, columns[4] = { 0, 0, 64, 1 };
	const int64_t by_row[4] = { 0, 2, 0, 1 }, by_column[4] = { 0, 0, 2, 1 };
	const struct openreg_tensor d = openreg_view(A, OPENREG_BF16, NULL);
	const struct openreg_tensor a = openreg_view(A + 256, OPENREG_F8E4M3FN, rows);
	const struct openreg_tensor b = openreg_view(A + 512, OPENREG_F8E5M2, columns);
	const struct openreg_tensor s = openreg_view(A + 768, OPENREG_F8E8M0FNU, by_row);
	const struct openreg_tensor t = openreg_view(A + 1024, OPENREG_F32, by_column);
	const size_t ops = 32 + 4 * 8, each = 16 + 4 * 8;

	(void)state;
	pushed(openreg_push_matmul_f8(NULL, size, &d, &a, &b, &s, &t, 2.0, 32), 6);
	assert_int_equal(at(16), 4 | 5 << 8 | 3 << 16 |
					 (uint64_t)OPENREG_MATMUL_SCALED_F8 << 32);
	assert_int_equal(at(ops + each), A + 256);
	assert_int_equal(at(ops + 2 * each), A + 512);
	assert_int_equal(at(ops + 3 * each), A + 768);
	assert_int_equal(at(ops + 3 * each + 8), OPENREG_F8E8M0FNU);
	assert_int_equal(at(ops + 3 * each + 24), 2); /* along m */
	assert_int_equal(at(ops + 4 * each), A + 1024);
	assert_int_equal(at(ops + 4 * each + 32), 2); /* along n */
	assert_int_equal(at(ops + 5 * each), 0x4000000000000000);
	assert_int_equal(at(ops + 5 * each + 16), 32);
}

static void test_softmax(void **state)
{
	const int64_t size[2] = { 3, 4 };
	const struct openreg_tensor x = openreg_view(A, OPENREG_F16, NULL);
	const struct openreg_tensor y = openreg_view(A + 64, OPENREG_F16, NULL);
	const struct openreg_tensor z =
		openreg_view(A + 128, OPENREG_F16, NULL);

	(void)state;
	pushed(openreg_push_softmax(NULL, 2, size, 1, OPENREG_SOFTMAX_LOG, &x,
				    &y, NULL), 2);
	assert_int_equal(at(16), 2ULL | 2 << 8 | 1ULL << 32 | 1ULL << 40);
	pushed(openreg_push_softmax(NULL, 2, size, 0, OPENREG_SOFTMAX_BACKWARD,
				    &x, &y, &z), 3);
	assert_int_equal(at(16), 2ULL | 3 << 8 | 2ULL << 40);
	assert_int_equal(at(48 + 2 * 32), A + 128);
}

static void test_index(void **state)
{
	const int64_t size[2] = { 3, 4 }, extent[2] = { 10, 7 };
	const int64_t step[2] = { 4, -1 }, rows[2] = { 1, 0 };
	const struct openreg_tensor index[2] = {
		openreg_view(A + 128, OPENREG_I64, rows),
		openreg_view(A + 192, OPENREG_I32, NULL),
	};
	const struct openreg_index_access x = {
		.ndim = 2, .nindex = 2, .mode = OPENREG_INDEX_ADD,
		.flags = OPENREG_INDEX_WRAP, .size = size,
		.dst = openreg_view(A, OPENREG_F16, NULL),
		.src = openreg_view(A + 64, OPENREG_F16, NULL),
		.index = index, .extent = extent, .step = step, .sources = 2,
	};

	(void)state;
	pushed(openreg_push_index(NULL, &x), 4); /* 48 + 4 * 32 + 32 */
	assert_int_equal(slot[0], OPENREG_OP_INDEX);
	assert_int_equal(at(16), 2ULL | 4 << 8 | 4 << 16 |
				 (uint64_t)OPENREG_INDEX_ADD << 32 |
				 (uint64_t)OPENREG_INDEX_WRAP << 40 | 2ULL << 48);
	assert_int_equal(at(48), A);
	assert_int_equal(at(48 + 32), A + 64);
	assert_int_equal(at(48 + 2 * 32), A + 128);
	assert_int_equal(at(48 + 2 * 32 + 24), 0);
	assert_int_equal(at(48 + 3 * 32 + 8), OPENREG_I32);
	assert_int_equal(at(48 + 4 * 32), 10);
	assert_int_equal(at(48 + 4 * 32 + 8), 4);
	assert_int_equal(at(48 + 4 * 32 + 16), 7);
	assert_int_equal(at(48 + 4 * 32 + 24), (uint64_t)-1);
}

static void test_windows(void **state)
{
	const int64_t conv[7] = { 1, 2, 3, 4, 5, 6, 7 };
	const struct openreg_windows w = {
		.kernel = { 1, 2, 3 }, .input = { 4, 5, 6 },
		.stride = { 7, 8, 9 }, .padding = { 10, 11, 12 },
		.dilation = { 13, 14, 15 }, .divisor = 16,
	};
	const struct openreg_tensor y = openreg_view(A, OPENREG_F32, NULL);
	const struct openreg_tensor x = openreg_view(A + 64, OPENREG_F32, NULL);
	const struct openreg_tensor z = openreg_view(A + 128, OPENREG_F32, NULL);
	const size_t each = 16 + 7 * 8, ops = 32 + 7 * 8;

	(void)state;
	pushed(openreg_push_conv(NULL, OPENREG_CONV_BACKWARD_DATA, conv, &w,
				 &y, &x, &z, &y), 8);
	assert_int_equal(at(16), 7ULL | 4 << 8 | 15 << 16 | 1ULL << 32);
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(at(32 + 8 * i), conv[i]);
	assert_int_equal(at(ops + each), A + 64);
	assert_int_equal(at(ops + 2 * each), A + 128);
	assert_int_equal(at(ops + 3 * each), A);
	for (size_t i = 0; i < 15; i++)
		assert_int_equal(at(ops + 4 * each + 8 * i), i + 1);
	pushed(openreg_push_conv(NULL, 0, conv, &w, &y, &x, &z, NULL), 7);
	assert_int_equal(at(16), 7ULL | 3 << 8 | 15 << 16);
	pushed(openreg_push_pool(NULL, OPENREG_POOL_AVG, OPENREG_POOL_BACKWARD,
				 conv, &w, &y, &x, NULL), 5);
	assert_int_equal(at(16), 5ULL | 2 << 8 | 16 << 16 | 1ULL << 32 |
					 1ULL << 40);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(at(72 + 2 * 56 + 8 * i), i + 1);
	pushed(openreg_push_pool(NULL, OPENREG_POOL_MAX, 0, conv, &w, &y, &x,
				 &z), 6);
	assert_int_equal(at(16), 5ULL | 3 << 8 | 16 << 16);
	assert_int_equal(at(72 + 2 * 56), A + 128);
}

static void test_packed(void **state)
{
	const int64_t size[4] = { 1, 2, 3, 4 }, stride[4] = { 8, 4, 1, 0 };
	const struct openreg_tensor
		d = openreg_view(A, OPENREG_BF16, stride),
		a = openreg_view(A + 64, OPENREG_BF16, stride),
		matrix = openreg_view(A + 128, OPENREG_BF16, NULL);

	(void)state;
	pushed(openreg_push_pack(NULL, OPENREG_PACK_PACK, size + 2, A + 192,
				 &matrix), 2);
	assert_int_equal(slot[0], OPENREG_OP_PACK);
	assert_int_equal(at(16), 2ULL | 2 << 8);
	assert_int_equal(at(32), 3);
	assert_int_equal(at(40), 4);
	assert_int_equal(at(48), A + 192);
	assert_int_equal(at(56), OPENREG_BF16);
	assert_int_equal(at(64), 0);
	assert_int_equal(at(72), 1);
	assert_int_equal(at(80), A + 128);
	assert_int_equal(at(96), 4);
	assert_int_equal(at(104), 1);
	pushed(openreg_push_pack(NULL, OPENREG_PACK_UNPACK, size + 2, A + 192,
				 &matrix), 2);
	assert_int_equal(at(16), 2ULL | 2 << 8 | 1ULL << 32);
	assert_int_equal(at(48), A + 128);
	assert_int_equal(at(80), A + 192);
	assert_int_equal(at(104), 1);
	pushed(openreg_push_pack(NULL, OPENREG_PACK_SIZE, size + 2, A, &matrix),
	       2);
	assert_int_equal(at(16), 2ULL | 2 << 8 | 2ULL << 32);
	assert_int_equal(at(48), A);
	assert_int_equal(at(56), OPENREG_I64);
	assert_int_equal(at(72), 0);
	assert_int_equal(at(88), OPENREG_BF16);
	pushed(openreg_push_matmul_packed(NULL, size, &d, &a, A + 192, NULL, 1,
					  0), 4);
	assert_int_equal(slot[0], OPENREG_OP_MATMUL);
	assert_int_equal(at(16), 4ULL | 3 << 8 | 2 << 16 | 0x80ULL << 56);
	assert_int_equal(at(160), A + 192);
	assert_int_equal(at(168), OPENREG_BF16);
	assert_int_equal(at(176), 0);
	assert_int_equal(at(192), 1);
}

static void test_sort(void **state)
{
	const int64_t size[2] = { 5, 7 }, stride[2] = { 3, 1 };
	const struct openreg_tensor index = openreg_view(A + 128, OPENREG_I64,
							 stride);
	struct openreg_sort_rows x = {
		.ndim = 2, .axis = 1, .flags = OPENREG_SORT_DESCENDING,
		.size = size, .first = 2, .count = 3,
		.values = openreg_view(A, OPENREG_F16, stride),
		.src = openreg_view(A + 64, OPENREG_F16, NULL),
		.index = &index,
	};

	(void)state;
	pushed(openreg_push_sort(NULL, &x), 3);
	assert_int_equal(slot[0], OPENREG_OP_SORT);
	assert_int_equal(at(16), 2ULL | 3 << 8 | 2 << 16 | 1ULL << 32 |
					 1ULL << 40);
	assert_int_equal(at(32), 5);
	assert_int_equal(at(40), 7);
	assert_int_equal(at(48), A);
	assert_int_equal(at(64), 3);
	assert_int_equal(at(80), A + 64);
	assert_int_equal(at(96), 7);
	assert_int_equal(at(112), A + 128);
	assert_int_equal(at(120), OPENREG_I64);
	assert_int_equal(at(128), 3);
	assert_int_equal(at(144), 2);
	assert_int_equal(at(152), 3);
	x.index = NULL;
	pushed(openreg_push_sort(NULL, &x), 2);
	assert_int_equal(at(16), 2ULL | 2 << 8 | 2 << 16 | 1ULL << 32 |
					 1ULL << 40);
	assert_int_equal(at(112), 2);
}

static void test_scan(void **state)
{
	const int64_t size[2] = { 5, 7 };
	const struct openreg_tensor
		dst = openreg_view(A, OPENREG_F32, NULL),
		src = openreg_view(A + 64, OPENREG_F32, NULL),
		index = openreg_view(A + 128, OPENREG_I64, NULL);

	(void)state;
	pushed(openreg_push_scan(NULL, 2, size, 1, OPENREG_SCAN_MIN, &dst, &src,
				 &index), 3);
	assert_int_equal(slot[0], OPENREG_OP_SCAN);
	assert_int_equal(at(16), 2ULL | 3 << 8 | 1ULL << 32 |
					 (uint64_t)OPENREG_SCAN_MIN << 40);
	assert_int_equal(at(48), A);
	assert_int_equal(at(80), A + 64);
	assert_int_equal(at(112), A + 128);
	pushed(openreg_push_scan(NULL, 2, size, 0, OPENREG_SCAN_SUM, &dst, &src,
				 NULL), 2);
	assert_int_equal(at(16), 2ULL | 2 << 8);
}

static void test_places(void **state)
{
	const int64_t size[2] = { 5, 7 };
	const struct openreg_tensor
		found[2] = { openreg_view(A, OPENREG_I64, NULL),
			     openreg_view(A + 64, OPENREG_I64, NULL) },
		src = openreg_view(A + 128, OPENREG_BOOL, NULL);

	(void)state;
	pushed(openreg_push_places(NULL, 2, size, found, 9, &src), 3);
	assert_int_equal(slot[0], OPENREG_OP_PLACES);
	assert_int_equal(at(16), 2ULL | 3 << 8 | 1 << 16);
	assert_int_equal(at(48), A);
	assert_int_equal(at(80), A + 64);
	assert_int_equal(at(112), A + 128);
	assert_int_equal(at(144), 9);
}

static void test_words(void **state)
{
	static const uint8_t wait[] = {
		6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 1, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x00, 0x10, 0x00, 0x00, 0x40, 0x00, 0x80, 0x4f,
		9, 0, 0, 0, 0, 0, 0, 0,
		5, 0, 0, 0, 0, 0, 0, 0,
	};

	(void)state;
	pushed(openreg_push_wait(NULL, A, OPENREG_WAIT_NE, 5), 1);
	expect(wait, sizeof(wait));
	pushed(openreg_push_signal(NULL, A, OPENREG_SIGNAL_ADD, 7), 1);
	assert_int_equal(at(0), 7 | 1 << 8);
	assert_int_equal(at(16), 1 << 8 | 1 << 16 | 1ULL << 32);
	assert_int_equal(at(48), 7);
	pushed(openreg_push_timestamp(NULL, A), 1);
	assert_int_equal(at(0), 8 | 1 << 8);
	assert_int_equal(at(16), 1 << 8);
}

static void test_list(void **state)
{
	static const uint8_t list[] = {
		15, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x00, 0x10, 0x00, 0x00, 0x40, 0x00, 0x80, 0x4f,
		9, 0, 0, 0, 0, 0, 0, 0,
		0x00, 0x01, 0, 0, 0, 0, 0, 0,
		77, 0, 0, 0, 0, 0, 0, 0,
	};

	(void)state;
	pushed(openreg_push_list(NULL, A, 256, 77), 1);
	expect(list, sizeof(list));
}

static void test_cookie(void **state)
{
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_TIMESTAMP, .cookie = 0x12345678,
	};

	(void)state;
	pushed(openreg_push(NULL, &cmd), 1);
	assert_int_equal(at(0), 0x1234567800000108);
}

static void test_limits(void **state)
{
	struct openreg_command cmd = {
		.ndim = OPENREG_DIMS_MAX, .nops = OPENREG_OPERANDS_MAX,
		.nimm = OPENREG_IMMS_MAX, .ninstr = OPENREG_INSTRS_MAX,
	};

	(void)state;
	assert_int_equal(openreg_command_slots(&cmd), OPENREG_PACKET_SLOTS_MAX);
	cmd.ninstr++;
	assert_int_equal(openreg_command_slots(&cmd), 0);
	cmd.ninstr--;
	cmd.nimm++;
	assert_int_equal(openreg_command_slots(&cmd), 0);
	cmd.nimm--;
	cmd.nops++;
	assert_int_equal(openreg_command_slots(&cmd), 0);
	cmd.nops--;
	cmd.ndim++;
	assert_int_equal(openreg_command_slots(&cmd), 0);
	assert_int_equal(openreg_push(NULL, &cmd), -EINVAL);
}

/* A push refuses counts that its packet cannot have, also those above 255. */
static void test_counts(void **state)
{
	const struct openreg_tensor t = openreg_view(A, OPENREG_F32, NULL);
	const struct openreg_index_access index = {
		.nindex = OPENREG_INDEX_OPERANDS_MAX + 1,
	};

	(void)state;
	assert_int_equal(openreg_push_copy(NULL, 9, NULL, &t, &t), -EINVAL);
	assert_int_equal(openreg_push_copy(NULL, 257, NULL, &t, &t), -EINVAL);
	assert_int_equal(openreg_push_index(NULL, &index), -EINVAL);
	assert_int_equal(openreg_push_places(NULL, 0, NULL, &t, 1, &t),
			 -EINVAL);
	assert_int_equal(openreg_push_places(NULL, 9, NULL, &t, 1, &t),
			 -EINVAL);
	assert_int_equal(slot[0], 0xee);
}

static void test_largest(void **state)
{
	const int64_t size[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct openreg_tensor ops[16];
	struct openreg_instr instr[64];
	uint64_t imm[16];
	const struct openreg_command cmd = {
		.opcode = OPENREG_OP_VECTOR,
		.ndim = 8, .nops = 16, .nimm = 16, .ninstr = 64,
		.arg = { 1, 2, 3, 4 }, .cookie = 77,
		.size = size, .ops = ops, .imm = imm, .instr = instr,
	};

	(void)state;
	for (unsigned int i = 0; i < 16; i++) {
		ops[i] = openreg_view(A + i, OPENREG_U8, size);
		imm[i] = 1000 + i;
	}
	for (unsigned int i = 0; i < 64; i++)
		instr[i] = openreg_ins(i, 0, 1, 2, 3, 4, 5 + i);
	assert_int_equal(openreg_pack(slot, &cmd), 32);
	assert_int_equal(at(0), 3ULL | 32 << 8 | 77ULL << 32);
	assert_int_equal(at(16), 0x0403020140101008);
	assert_int_equal(at(96 + 15 * 80), A + 15);
	assert_int_equal(at(96 + 15 * 80 + 72), 8);
	assert_int_equal(at(96 + 16 * 80 + 15 * 8), 1015);
	assert_int_equal(at(96 + 16 * 80 + 128 + 63 * 8), 0x004404030201003f);
	assert_int_equal(at(96 + 16 * 80 + 128 + 64 * 8), 0xeeeeeeeeeeeeeeee);
}

static void test_dtype_sizes(void **state)
{
	static const unsigned int want[OPENREG_DTYPE_END] = {
		0, 4, 8, 2, 2, 1, 1, 2, 4, 8, 1, 1, 1, 1, 1, 1
	};

	(void)state;
	for (unsigned int i = 0; i < OPENREG_DTYPE_END; i++)
		assert_int_equal(openreg_dtype_size(i), want[i]);
	assert_int_equal(openreg_dtype_size(OPENREG_DTYPE_END), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nop, clear),
		cmocka_unit_test_setup(test_copy, clear),
		cmocka_unit_test_setup(test_fill, clear),
		cmocka_unit_test_setup(test_vector, clear),
		cmocka_unit_test_setup(test_matmul, clear),
		cmocka_unit_test_setup(test_matmul_scaled, clear),
		cmocka_unit_test_setup(test_matmul_f8, clear),
		cmocka_unit_test_setup(test_softmax, clear),
		cmocka_unit_test_setup(test_index, clear),
		cmocka_unit_test_setup(test_windows, clear),
		cmocka_unit_test_setup(test_packed, clear),
		cmocka_unit_test_setup(test_sort, clear),
		cmocka_unit_test_setup(test_scan, clear),
		cmocka_unit_test_setup(test_places, clear),
		cmocka_unit_test_setup(test_list, clear),
		cmocka_unit_test_setup(test_words, clear),
		cmocka_unit_test_setup(test_cookie, clear),
		cmocka_unit_test_setup(test_limits, clear),
		cmocka_unit_test_setup(test_counts, clear),
		cmocka_unit_test_setup(test_largest, clear),
		cmocka_unit_test_setup(test_dtype_sizes, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
