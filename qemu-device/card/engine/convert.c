// SPDX-License-Identifier: MIT
/* Casts from memory to memory, for the copy engine. */
#include "engine.h"
#include "job/work.h"
#include "kernels/kernels.h"

#define PIECE 512

/* Copies elements of one size without a cast. */
#define COPY(type)                                                             \
	static void copy_##type(type *dst, int64_t dst_stride,                 \
				const type *src, int64_t src_stride,           \
				uint64_t n)                                    \
	{                                                                      \
		uint64_t i;                                                    \
                                                                               \
		for (i = 0; i < n; i++)                                        \
			dst[(int64_t)i * dst_stride] =                         \
				src[(int64_t)i * src_stride];                  \
	}

COPY(uint8_t)
COPY(uint16_t)
COPY(uint32_t)
COPY(uint64_t)

static void copy(void *dst, int64_t dst_stride, const void *src,
		 int64_t src_stride, unsigned int size, uint64_t n)
{
	if (dst_stride == 1 && src_stride == 1) {
		__builtin_memcpy(dst, src, n * size);
		return;
	}
	switch (size) {
	case 1:
		copy_uint8_t(dst, dst_stride, src, src_stride, n);
		break;
	case 2:
		copy_uint16_t(dst, dst_stride, src, src_stride, n);
		break;
	case 4:
		copy_uint32_t(dst, dst_stride, src, src_stride, n);
		break;
	default:
		copy_uint64_t(dst, dst_stride, src, src_stride, n);
	}
}

void openreg_convert(void *dst, unsigned int dst_dtype, int64_t dst_stride,
		     const void *src, unsigned int src_dtype,
		     int64_t src_stride, uint64_t n)
{
	const struct openreg_kernels *k = openreg_kernels();
	unsigned int dst_size = openreg_dtype_size(dst_dtype);
	unsigned int src_size = openreg_dtype_size(src_dtype);
	unsigned int type = openreg_dtype_register(src_dtype);
	uint64_t piece[PIECE];
	uintptr_t d = (uintptr_t)dst, s = (uintptr_t)src;

	if (dst_dtype == src_dtype && dst_dtype != OPENREG_BOOL) {
		copy(dst, dst_stride, src, src_stride, dst_size, n);
		return;
	}
	while (n) {
		uint64_t m = n < PIECE ? n : PIECE;

		k->load[src_dtype][type](piece, (const void *)s, src_stride, m);
		k->store[dst_dtype][type]((void *)d, dst_stride, piece, m);
		s += m * src_size * (uint64_t)src_stride;
		d += m * dst_size * (uint64_t)dst_stride;
		n -= m;
	}
}
