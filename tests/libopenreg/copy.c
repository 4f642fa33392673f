// SPDX-License-Identifier: MIT
/* Copies and fills of all kinds, at odd sizes and addresses. */
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define GUARD 64

static const uint64_t sizes[] = {
	0, 1, 2, 3, 7, 63, 64, 65, 4095, 4096, 4097, 65536,
	(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (2 << 20) + 3, (5 << 20) + 4099,
};

static void check_guard(const uint8_t *p, uint64_t size, uint8_t value)
{
	for (unsigned int i = 0; i < GUARD; i++) {
		assert_int_equal(p[i], value);
		assert_int_equal(p[GUARD + size + i], value);
	}
}

/* Copies to the card and back, from pageable memory; neighbouring bytes do not change. */
static void test_pageable(void **state)
{
	struct card *c = *state;
	const uint64_t most = sizes[COUNT(sizes) - 1];
	struct openreg_bo *bo = vram(c, most + 2 * GUARD + 8);
	uint8_t *in = malloc(most + 8), *out = malloc(most + 2 * GUARD);
	uint8_t *card = mapped(bo);

	for (size_t i = 0; i < COUNT(sizes); i++) {
		const uint64_t n = sizes[i], shift = i % 5;
		const uint64_t at = address(bo) + shift + GUARD;

		noise(in, n, (unsigned int)i);
		memset(card, 0x11, most + 2 * GUARD + 8);
		memset(out, 0x22, most + 2 * GUARD);
		ok(openreg_copy_to_device(c->q, at, in, n));
		assert_memory_equal(card + shift + GUARD, in, n);
		check_guard(card + shift, n, 0x11);
		ok(openreg_copy_from_device(c->q, out + GUARD, at, n));
		assert_memory_equal(out + GUARD, in, n);
		check_guard(out, n, 0x22);
	}
	free(in);
	free(out);
	openreg_bo_free(bo);
}

/* Static memory: anonymous except for its first page. */
static uint8_t static_in[(3 << 20) + 77], static_out[(3 << 20) + 77];

static void test_static(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, sizeof(static_in));

	for (uint64_t n = sizeof(static_in); n; n /= 3) {
		noise(static_in, n, (unsigned int)n);
		memset(static_out, 0, n);
		ok(openreg_copy_to_device(c->q, address(bo), static_in, n));
		ok(openreg_copy_from_device(c->q, static_out, address(bo), n));
		assert_memory_equal(static_out, static_in, n);
	}
	openreg_bo_free(bo);
}

static void test_file(void **state)
{
	struct card *c = *state;
	const uint64_t n = (2 << 20) + 5;
	struct openreg_bo *bo = vram(c, n);
	FILE *f = tmpfile();
	uint8_t *p;

	assert_non_null(f);
	assert_int_equal(ftruncate(fileno(f), (off_t)n), 0);
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	noise(p, n, 3);
	ok(openreg_copy_to_device(c->q, address(bo), p, n));
	assert_memory_equal(mapped(bo), p, n);
	memset(p, 0, n);
	ok(openreg_copy_from_device(c->q, p, address(bo), n));
	assert_memory_equal(mapped(bo), p, n);
	munmap(p, n);
	fclose(f);
	openreg_bo_free(bo);
}

enum kind { VRAM, SYSTEM, USER, KINDS };

struct side {
	struct openreg_bo *bo;
	uint8_t *cpu;
};

static void make_side(struct card *c, enum kind kind, uint64_t size,
		      struct side *s)
{
	static const uint32_t flags[] = { OPENREG_BO_VRAM, OPENREG_BO_SYSTEM };

	if (kind == USER) {
		s->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(s->cpu, MAP_FAILED);
		ok(openreg_mem_register(c->dev, s->cpu, size, 0, &s->bo));
	} else {
		ok(openreg_bo_alloc(c->dev, size, flags[kind], &s->bo));
		s->cpu = mapped(s->bo);
	}
}

static void free_side(enum kind kind, uint64_t size, struct side *s)
{
	openreg_bo_free(s->bo);
	if (kind == USER)
		munmap(s->cpu, size);
}

static void copy_between(struct card *c, enum kind from, enum kind to)
{
	const uint64_t size = (2 << 20) + 8192;
	struct side a, b;

	make_side(c, from, size, &a);
	make_side(c, to, size, &b);
	for (size_t i = 0; i < COUNT(sizes) && sizes[i] <= 2 << 20; i++) {
		const uint64_t n = sizes[i], skew = i % 7;

		noise(a.cpu + skew, n, 100 + (unsigned int)i);
		memset(b.cpu, 0x33, size);
		ok(openreg_copy_async(c->q, address(b.bo) + GUARD,
				      address(a.bo) + skew, n));
		run(c);
		assert_memory_equal(b.cpu + GUARD, a.cpu + skew, n);
		check_guard(b.cpu, n, 0x33);
	}
	free_side(from, size, &a);
	free_side(to, size, &b);
}

static void test_all_ways(void **state)
{
	for (enum kind from = VRAM; from < KINDS; from++)
		for (enum kind to = VRAM; to < KINDS; to++)
			copy_between(*state, from, to);
}

static void test_strided(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 8192);
	int16_t *p = mapped(bo);
	float *out = (float *)(p + 2048);
	const int64_t size[] = { 3, 4 };
	const int64_t transposed[] = { 1, 3 }, back[] = { -4, -1 };
	const struct openreg_tensor src =
		openreg_view(address(bo) + 2 * 11, OPENREG_I16, back);
	const struct openreg_tensor dst =
		openreg_view(address(bo) + 4096, OPENREG_F32, transposed);

	for (int i = 0; i < 12; i++)
		p[i] = (int16_t)(i - 6);
	ok(openreg_push_copy(c->q, 2, size, &dst, &src));
	run(c);
	for (int r = 0; r < 3; r++)
		for (int k = 0; k < 4; k++)
			assert_true(out[r + 3 * k] == (float)(5 - 4 * r - k));
	openreg_bo_free(bo);
}

static void test_memset(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 3 << 20);
	uint8_t *p = mapped(bo);

	for (size_t i = 0; i < COUNT(sizes) && sizes[i] <= 2 << 20; i++) {
		const uint64_t n = sizes[i];

		memset(p, 0x44, 3 << 20);
		ok(openreg_memset(c->q, address(bo) + GUARD, 0x5a, n));
		for (uint64_t k = 0; k < n; k++)
			if (p[GUARD + k] != 0x5a)
				fail_msg("byte %llu of %llu is %#x",
					 (unsigned long long)k,
					 (unsigned long long)n, p[GUARD + k]);
		check_guard(p, n, 0x44);
	}
	openreg_bo_free(bo);
}

static void test_overlap_in_order(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 1 << 20);
	uint8_t *p = mapped(bo);

	ok(openreg_fill_async(c->q, address(bo), 1, 1 << 20));
	ok(openreg_fill_async(c->q, address(bo) + 1000, 2, 1 << 18));
	ok(openreg_copy_async(c->q, address(bo), address(bo) + 1000, 500));
	run(c);
	assert_int_equal(p[0], 2);
	assert_int_equal(p[499], 2);
	assert_int_equal(p[500], 1);
	openreg_bo_free(bo);
}

/* Synchronous calls return the errors of the card, too. */
static void test_faults(void **state)
{
	struct card *c = *state;
	struct openreg_bo *bo = vram(c, 4096);
	const uint64_t at = address(bo);
	char buf[64];

	fails(openreg_copy_to_device(c->q, at + 4096 - 63, buf, 64), EIO,
	      "out of bounds");
	ok(openreg_queue_reset(c->q));
	fails(openreg_copy_from_device(c->q, buf, 0x1234, 64), EIO,
	      "no memory at this address");
	ok(openreg_queue_reset(c->q));
	fails(openreg_memset(c->q, at, 0, 4097), EIO, "out of bounds");
	ok(openreg_queue_reset(c->q));
	still_works(c);
	openreg_bo_free(bo);
}

#define CARD_TEST(f) cmocka_unit_test_setup_teardown(f, card_open, card_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CARD_TEST(test_pageable),
		CARD_TEST(test_static),
		CARD_TEST(test_file),
		CARD_TEST(test_all_ways),
		CARD_TEST(test_strided),
		CARD_TEST(test_memset),
		CARD_TEST(test_overlap_in_order),
		CARD_TEST(test_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
