// SPDX-License-Identifier: BSD-3-Clause
// Matrix products, for operators that are composed of them.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/launch.h"

namespace openreg {

// out = alpha * a @ b, in any number of dimensions. All tensors have the same dtype and
// the same batch shape; a and b may broadcast with strides of 0. out must not overlap a
// or b.
void multiply_batches(
    OpId id,
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    double alpha = 1,
    Part part = Part::FURTHER);

// a and b may also have float8 types, and out then float, half or bfloat16.
//
// out = alpha * a @ b + beta * c, in two or three dimensions. c broadcasts.
void multiply(
    OpId id,
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    const at::Tensor* c = nullptr,
    double alpha = 1,
    double beta = 0);

// out = (scale_a * a) @ (scale_b * b) for matrices of float8, as one packet if it is not too
// large. A scale serves `group` elements along k: scale_a is [m, k / group], scale_b
// [k / group, n], each of float8_e8m0fnu or float32. out is float, half or bfloat16, and
// overlaps no other tensor.
void multiply_scaled(
    OpId id,
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    const at::Tensor& scale_a,
    const at::Tensor& scale_b,
    int64_t group);

// Like multiply(), for complex numbers.
void multiply_complex(
    OpId id,
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    const at::Tensor* c = nullptr,
    const at::Scalar& alpha = 1,
    const at::Scalar& beta = 0);

// out = sum of a * b, or of conj(a) * b, for complex vectors.
void dot_complex(
    OpId id,
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    bool conjugate);

} // namespace openreg
