/* SPDX-License-Identifier: MIT */
/* oneDNN alone, with its own threads: the figures to compare the engine with. */
#ifndef BENCH_NATIVE_H
#define BENCH_NATIVE_H

#include <stdint.h>

/* Seconds of the best of several runs. dtype: OPENREG_F32, _BF16 or _F16. */
double native_matmul(unsigned int dtype, int64_t n, int threads);

/*
 * size is { images, channels, height, width } of both input and output; the window has
 * taps by taps elements. The time includes reordering input, weights and output, as
 * torch does it on the CPU.
 */
double native_conv(unsigned int dtype, const int64_t size[4], int64_t taps,
		   int threads);

#endif
