// SPDX-License-Identifier: MIT
/* Random VECTOR programs without a reduction. */
#include "diff-author.h"

void diff_vector(struct diff *d)
{
	unsigned int stores = 1 + below(2), loads, i, dtype;
	int64_t point[OPENREG_DIMS_MAX] = { 0 };
	uint64_t index = 0;
	struct author a;
	uint32_t all;

	diff_begin(d, OPENREG_OP_VECTOR, below(8),
		   random_range(0, 15) ? 300 : 4000);
	all = (1u << d->draft.op.ndim) - 1;
	for (i = 0; i < stores; i++)
		diff_operand(d, SPACE_VRAM, diff_any_dtype(), all, false);
	loads = 1 + below(3);
	for (i = 0; i < loads; i++) {
		dtype = diff_any_dtype();
		diff_operand(d, SPACE_VRAM, dtype, all, true);
	}
	author_begin(&a, d, ((1u << loads) - 1) << stores);
	author_write(&a, below(random_range(0, 7) ? 12 : 50), OPENREG_VT_F32);
	for (i = 0; i < stores; i++)
		author_store(&a, i);
	diff_run(d);
	do {
		struct machine m = { 0 };

		interpret(d, &m, 0, point, index++);
	} while (next_point(d->draft.op.ndim, d->draft.size, point));
}
