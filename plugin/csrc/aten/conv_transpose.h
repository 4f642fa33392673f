// SPDX-License-Identifier: BSD-3-Clause
// The derivative of a convolution with respect to its input, as a matrix product.
#pragma once

#include <ATen/core/Tensor.h>

#include "aten/window.h"

namespace openreg {

// Whether the product is faster than a CONV packet. The packet gathers the gradients of
// all taps for each element of the result. With few channels of the result, this takes
// longer than the products.
bool product_is_faster(const at::Tensor& x, const at::Tensor& w, int64_t groups);

// x = the derivative for the gradient y and the weight w, plus bias if it is defined.
void put_product(
    OpId id,
    const at::Tensor& x,
    const at::Tensor& y,
    const at::Tensor& w,
    const at::Tensor& bias,
    const Windows& windows);

} // namespace openreg
