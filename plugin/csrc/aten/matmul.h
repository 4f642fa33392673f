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

// out = alpha * a @ b + beta * c for two or three dimensions; c broadcasts.
void multiply(
    OpId id,
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    const at::Tensor* c = nullptr,
    double alpha = 1,
    double beta = 0);

// The same for complex numbers.
void multiply_complex(
    OpId id,
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    const at::Tensor* c = nullptr,
    const at::Scalar& alpha = 1,
    const at::Scalar& beta = 0);

// The sum of a's numbers, or their conjugates, times b's.
void dot_complex(
    OpId id,
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    bool conjugate);

} // namespace openreg
