// SPDX-License-Identifier: BSD-3-Clause
// What layer, group, batch and RMS normalisation share. Tensors have the same
// number of dimensions; those of statistics and weights broadcast to the input.
#pragma once

#include <ATen/core/Tensor.h>

#include "aten/convention.h"
#include "aten/space.h"

namespace openreg {

// Statistics and gradients are computed and kept in this type.
inline c10::ScalarType statistics_type(c10::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}
at::Tensor statistics_like(const at::Tensor& x, at::IntArrayRef sizes);

struct Normalized {
  at::Tensor x;
  at::Tensor mean; // undefined: taken as zero (RMS norm)
  at::Tensor rstd;
  at::Tensor weight; // undefined: one
};

// mean = mean of x, if it is wanted, and variance = mean of (x - mean)^2, over
// the dimensions in which variance has size 1.
void moments(OpId id, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& variance);
// rstd = 1 / sqrt(rstd + eps)
void finish_rstd(OpId id, const at::Tensor& rstd, double eps);
// out = (x - mean) * rstd * weight + bias
void apply(OpId id, const at::Tensor& out, const Normalized& n, const at::Tensor& bias);

// The gradient by x, written to out: statistics depend on x.
void input_gradient(OpId id, const at::Tensor& out, const at::Tensor& grad, const Normalized& n);
// sums of grad * xhat and of grad over the dimensions in which they have size 1.
void weight_gradient(OpId id, const at::Tensor& out, const at::Tensor& grad, const Normalized& n);
void bias_gradient(OpId id, const at::Tensor& out, const at::Tensor& grad);

// The tensor, or an undefined one.
inline at::Tensor value_or_none(const std::optional<at::Tensor>& t) {
  return t.has_value() ? *t : at::Tensor();
}
// The same as this shape.
inline at::Tensor viewed(const std::optional<at::Tensor>& t, at::IntArrayRef sizes) {
  return t.has_value() && t->defined() ? t->reshape(sizes) : at::Tensor();
}

} // namespace openreg
