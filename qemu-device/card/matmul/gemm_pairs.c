// SPDX-License-Identifier: MIT
/* Panels of bytes for the kernel that multiplies pairs of 16-bit numbers. */
#include <string.h>

#include "matmul.h"

/*
 * Packs `lines` lines of k bytes for a block of `width` lines, as 16-bit numbers: two
 * neighbours along k, then those of the next line. Adds zeros.
 */
#define PACK(name, type)                                                       \
	static void name(int16_t *to, const type *from, int64_t line,          \
			 int64_t step, int64_t lines, int64_t width,           \
			 int64_t k)                                            \
	{                                                                      \
		int64_t i, j;                                                  \
                                                                               \
		for (j = 0; j < k; j += 2, to += 2 * width) {                  \
			const type *one = from + j * step;                     \
			const type *two = one + step;                          \
                                                                               \
			if (j + 1 == k) {                                      \
				for (i = 0; i < lines; i++) {                  \
					to[2 * i] = one[i * line];             \
					to[2 * i + 1] = 0;                     \
				}                                              \
			} else if (line == 1) {                                \
				for (i = 0; i < lines; i++) {                  \
					to[2 * i] = one[i];                    \
					to[2 * i + 1] = two[i];                \
				}                                              \
			} else {                                               \
				for (i = 0; i < lines; i++) {                  \
					to[2 * i] = one[i * line];             \
					to[2 * i + 1] = two[i * line];         \
				}                                              \
			}                                                      \
			memset(to + 2 * lines, 0,                              \
			       (size_t)(width - lines) * 2 * sizeof(*to));     \
		}                                                              \
	}

PACK(pack_signed, int8_t)
PACK(pack_unsigned, uint8_t)

void openreg_pairs_pack(int16_t *to, uint8_t dtype, const struct openreg_matrix *x,
			int64_t lines, int64_t width, int64_t k)
{
	int64_t block = width * openreg_round_up(k, 2), i;

	for (i = 0; i < lines; i += width, to += block) {
		int64_t left = lines - i < width ? lines - i : width;
		uintptr_t from = openreg_matrix_at(x, 1, 0, i, 0);

		if (dtype == OPENREG_U8)
			pack_unsigned(to, (const uint8_t *)from, x->row,
				      x->column, left, width, k);
		else
			pack_signed(to, (const int8_t *)from, x->row, x->column,
				    left, width, k);
	}
}
