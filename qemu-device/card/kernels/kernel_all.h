/* SPDX-License-Identifier: MIT */
/* All kernels and their table. Each isa_*.c includes this file once. */
#include "kernel_types.h"

#include "kernel_arith.h"
#include "kernel_cast.h"
#include "kernel_math.h"
#include "kernel_modulo.h"
/* These need the headers that kernel_math.h includes. */
#include "kernel_dots.h"
#include "kernel_gather.h"
#include "kernel_gemm.h"
#include "kernel_index.h"
#include "kernel_lanes.h"
#include "kernel_packed.h"
#include "kernel_pairs.h"
#include "kernel_places.h"
#include "kernel_pool.h"
#include "kernel_random.h"
#include "kernel_reduce.h"
#include "kernel_scan.h"
#include "kernel_slide.h"
#include "kernel_softmax.h"
#include "kernel_transpose.h"

const struct openreg_kernels KERNELS = {
	.name = KERNELS_NAME,
	.op = { ARITH_ENTRIES MATH_ENTRIES },
	ONES_TABLES
	CAST_TABLES
	RANDOM_TABLES
	REDUCE_TABLES
	GATHER_TABLES
	DOTS_TABLES
	GEMM_TABLES
	PAIRS_TABLES
	PACKED_TABLES
	INDEX_TABLES
	PLACES_TABLES
	SCAN_TABLES
	SLIDE_TABLES
	LANES_TABLES
	SOFTMAX_TABLES
	.transpose = transpose,
	POOL_TABLES
};
