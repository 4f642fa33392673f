/* SPDX-License-Identifier: MIT */
/* oneDNN by itself, with its own threads: what the engine's figures are held against. */
#ifndef BENCH_NATIVE_H
#define BENCH_NATIVE_H

#include <stdint.h>

/* Seconds of the best of several; dtype is one of OPENREG_F32, _BF16, _F16. */
double native_matmul(unsigned int dtype, int64_t n, int threads);

/*
 * size is { images, channels, height, width } of input and output alike; taps by
 * taps. The time has the orders of input, weights and output changed as well, as
 * torch's CPU does.
 */
double native_conv(unsigned int dtype, const int64_t size[4], int64_t taps,
		   int threads);

#endif
