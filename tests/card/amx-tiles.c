// SPDX-License-Identifier: MIT
/*
 * Emulates the eight AMX tiles for the card's AMX kernels, on hosts with AVX512-BF16 but
 * without AMX. Two differences to the processor: a refused operation ends the test, and a
 * sanitizer sees the loads and stores of tiles.
 */
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#include "isa_amx.h"

#define TILES 8
#define ROWS 16
#define ROW_BYTES 64
#define COLUMNS (ROW_BYTES / 4)

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig tile_loadconfig
#define _tile_release tile_release
#define _tile_zero tile_zero
#define _tile_loadd tile_loadd
#define _tile_stored tile_stored
#define _tile_dpbf16ps tile_dpbf16ps

struct tile_config {
	uint8_t palette, start_row, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
};

static _Thread_local struct {
	bool configured;
	uint32_t tile[TILES][ROWS][COLUMNS];
} unit;

static void expect(bool good)
{
	if (!good)
		abort();
}

/* The card uses only tiles of the greatest size, so no other size is emulated. */
static void tile_loadconfig(const void *from)
{
	struct tile_config config;
	unsigned int i;

	memcpy(&config, from, sizeof(config));
	expect(config.palette == 1 && !config.start_row);
	for (i = 0; i < sizeof(config.reserved); i++)
		expect(!config.reserved[i]);
	for (i = 0; i < 16; i++) {
		expect(config.bytes[i] == (i < TILES ? ROW_BYTES : 0));
		expect(config.rows[i] == (i < TILES ? ROWS : 0));
	}
	memset(&unit, 0, sizeof(unit));
	unit.configured = true;
}

static void tile_release(void)
{
	memset(&unit, 0, sizeof(unit));
}

static void tile_zero(int tile)
{
	expect(unit.configured);
	memset(unit.tile[tile], 0, sizeof(unit.tile[tile]));
}

static void tile_loadd(int tile, const void *from, size_t stride)
{
	unsigned int i;

	expect(unit.configured);
	for (i = 0; i < ROWS; i++)
		memcpy(unit.tile[tile][i], (const char *)from + i * stride,
		       ROW_BYTES);
}

static void tile_stored(int tile, void *to, size_t stride)
{
	unsigned int i;

	expect(unit.configured);
	for (i = 0; i < ROWS; i++)
		memcpy((char *)to + i * stride, unit.tile[tile][i], ROW_BYTES);
}

/* The first and the second bf16 of each element, as f32. */
#define LOW(x) ((__m512)_mm512_slli_epi32(x, 16))
#define HIGH(x) ((__m512)_mm512_and_si512(x, _mm512_set1_epi32(-0x10000)))

/* Adds up a step's products separately: the first of each pair, and the second. */
__attribute__((target("avx512f"))) static void
multiply_row(uint32_t *to, const uint32_t *a, uint32_t (*b)[COLUMNS])
{
	__m512 low = _mm512_setzero_ps(), high = low;
	unsigned int k;

	for (k = 0; k < COLUMNS; k++) {
		__m512i x = _mm512_set1_epi32((int)a[k]);
		__m512i y = _mm512_loadu_si512(b[k]);

		low = _mm512_fmadd_ps(LOW(x), LOW(y), low);
		high = _mm512_fmadd_ps(HIGH(x), HIGH(y), high);
	}
	_mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to),
					   _mm512_add_ps(low, high)));
}

/* The unit treats subnormal operands and results as zero. */
static void tile_dpbf16ps(int to, int a, int b)
{
	unsigned int control = _mm_getcsr(), i;

	expect(unit.configured && to != a && to != b && a != b);
	_mm_setcsr(control | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
	for (i = 0; i < ROWS; i++)
		multiply_row(unit.tile[to][i], unit.tile[a][i], unit.tile[b]);
	_mm_setcsr(control);
}

#define SKIPPED 77 /* meson's exit status for a skipped test */

/* Skip the test before a kernel uses instructions that the host lacks. */
const struct openreg_amx *openreg_amx(void)
{
	if (!__builtin_cpu_supports("avx512bf16"))
		exit(SKIPPED);
	return openreg_isa_amx();
}

#include "isa_amx.c"
