// SPDX-License-Identifier: MIT
/* VECTOR: transposes numbers of four bytes, in blocks of 4 x 4. */
#include "vector.h"

typedef uint32_t number __attribute__((may_alias));
typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint64_t pairs __attribute__((vector_size(16)));

static four *at(uintptr_t address)
{
	return (four *)address;
}

static void transpose_block(uintptr_t dst, uintptr_t dst_step, uintptr_t src,
			    uintptr_t src_step)
{
	four a = *at(src), b = *at(src + src_step);
	four c = *at(src + 2 * src_step), d = *at(src + 3 * src_step);
	pairs ab = (pairs)__builtin_shufflevector(a, b, 0, 4, 1, 5);
	pairs cd = (pairs)__builtin_shufflevector(c, d, 0, 4, 1, 5);

	*at(dst) = (four)__builtin_shufflevector(ab, cd, 0, 2);
	*at(dst + dst_step) = (four)__builtin_shufflevector(ab, cd, 1, 3);
	ab = (pairs)__builtin_shufflevector(a, b, 2, 6, 3, 7);
	cd = (pairs)__builtin_shufflevector(c, d, 2, 6, 3, 7);
	*at(dst + 2 * dst_step) = (four)__builtin_shufflevector(ab, cd, 0, 2);
	*at(dst + 3 * dst_step) = (four)__builtin_shufflevector(ab, cd, 1, 3);
}

/* The steps are the bytes from one line to the next. */
void openreg_transpose(uintptr_t dst, uintptr_t dst_step, uintptr_t src,
		       uintptr_t src_step, int64_t lines, int64_t n)
{
	uintptr_t i, j, k, m;

	for (i = 0; i < (uintptr_t)lines; i += k) {
		k = (uintptr_t)lines - i < 4 ? 1 : 4;
		for (j = 0; k == 4 && j + 4 <= (uintptr_t)n; j += 4)
			transpose_block(dst + j * dst_step + i * 4, dst_step,
					src + i * src_step + j * 4, src_step);
		for (; j < (uintptr_t)n; j++)
			for (m = i; m < i + k; m++)
				*(number *)(dst + j * dst_step + m * 4) =
					*(number *)(src + m * src_step + j * 4);
	}
}
