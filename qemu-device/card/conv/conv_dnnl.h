/* SPDX-License-Identifier: MIT */
/*
 * oneDNN's primitives for CONV. Operands are channels-last and dense; oneDNN chooses the
 * layout of the weights.
 */
#ifndef OPENREG_CONV_DNNL_H
#define OPENREG_CONV_DNNL_H

#include "conv.h"
#include "job/primitives.h"

/* Images, or a part of an image, with the padding around the input. */
struct openreg_conv_box {
	int64_t n0, n;
	int64_t out0[3], out[3], in0[3], in[3];
	int64_t low[3], high[3];
};

/*
 * Convolves a box. data: source, weights in the layout for the box `of`, result, bias;
 * NULL: make the primitive without running it.
 */
enum openreg_primitive_result
openreg_conv_primitive(struct openreg_primitives **cache,
		       const struct openreg_conv *cv,
		       const struct openreg_conv_box *of,
		       const struct openreg_conv_box *box, void *const *data);
/* Copies weights to that layout, which takes *size bytes. */
enum openreg_primitive_result
openreg_conv_pack_primitive(struct openreg_primitives **cache,
			    const struct openreg_conv *cv,
			    const struct openreg_conv_box *of,
			    void *const *data, size_t *size);

#endif
