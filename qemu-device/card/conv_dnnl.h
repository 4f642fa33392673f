/* SPDX-License-Identifier: MIT */
/*
 * CONV's primitives of oneDNN. Operands are channels-last and dense, weights lie as
 * oneDNN likes.
 */
#ifndef OPENREG_CONV_DNNL_H
#define OPENREG_CONV_DNNL_H

#include "conv.h"
#include "primitives.h"

/* Images, or a part of one, with the padding around its input. */
struct openreg_conv_box {
	int64_t n0, n;
	int64_t out0[3], out[3], in0[3], in[3];
	int64_t low[3], high[3];
};

/*
 * The convolution of a box with weights in the order that `of` asks for: source,
 * weights, result, bias. data NULL: makes the primitive only.
 */
enum openreg_primitive_result
openreg_conv_primitive(struct openreg_primitives **cache,
		       const struct openreg_conv *cv,
		       const struct openreg_conv_box *of,
		       const struct openreg_conv_box *box, void *const *data);
/* Weights, from as they lie to that order, which takes *size bytes. */
enum openreg_primitive_result
openreg_conv_pack_primitive(struct openreg_primitives **cache,
			    const struct openreg_conv *cv,
			    const struct openreg_conv_box *of,
			    void *const *data, size_t *size);

#endif
