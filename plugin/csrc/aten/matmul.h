// SPDX-License-Identifier: BSD-3-Clause
// Matrix products for operators that are made of them.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/launch.h"

namespace openreg {

// out = alpha * a @ b. All of one dtype and one batch shape, in any number of
// dimensions; a and b may broadcast by strides of 0. out overlaps neither.
void multiply_batches(
    OpId id,
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    double alpha = 1,
    Part part = Part::FURTHER);

} // namespace openreg
