// SPDX-License-Identifier: BSD-3-Clause
// The common part of layer, group, batch and RMS normalization. All tensors have the same
// number of dimensions; statistics and weights broadcast to the input.
#pragma once

#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>

#include "aten/convention.h"
#include "aten/space.h"

namespace openreg {

// Statistics and gradients are computed and saved in this type.
inline c10::ScalarType statistics_type(c10::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}
at::Tensor statistics_like(const at::Tensor& x, at::IntArrayRef sizes);

struct Normalized {
  at::Tensor x;
  at::Tensor mean; // undefined: zero (RMS norm)
  at::Tensor rstd;
  at::Tensor weight; // undefined: one
};

// Computes mean = mean of x if mean is defined, and variance = mean of (x - mean)^2. Both
// are over the dimensions in which variance has size 1.
void moments(OpId id, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& variance);
// rstd = 1 / sqrt(rstd + eps)
void finish_rstd(OpId id, const at::Tensor& rstd, double eps);
// out = (x - mean) * rstd * weight + bias
void apply(OpId id, const at::Tensor& out, const Normalized& n, const at::Tensor& bias);

// out = the gradient with respect to x. The statistics depend on x.
void input_gradient(OpId id, const at::Tensor& out, const at::Tensor& grad, const Normalized& n);
// out = sum of grad * xhat, or of grad, over the dimensions in which out has size 1.
void weight_gradient(OpId id, const at::Tensor& out, const at::Tensor& grad, const Normalized& n);
void bias_gradient(OpId id, const at::Tensor& out, const at::Tensor& grad);

// Returns the tensor, or an undefined tensor.
inline at::Tensor value_or_none(const std::optional<at::Tensor>& t) {
  return t.has_value() ? *t : at::Tensor();
}
// Returns the tensor with this shape, or an undefined tensor.
inline at::Tensor viewed(const std::optional<at::Tensor>& t, at::IntArrayRef sizes) {
  return t.has_value() && t->defined() ? t->reshape(sizes) : at::Tensor();
}
// Calls fill() with out in another shape. If out's strides do not allow the view, fill()
// writes dense memory, which is then copied to out.
template <class Fill>
void fill_viewed(const at::Tensor& out, at::IntArrayRef sizes, Fill&& fill) {
  if (at::detail::computeStride(out.sizes(), out.strides(), sizes)) {
    fill(out.view(sizes));
    return;
  }
  const at::Tensor dense = empty(sizes, {}, out.options());
  fill(dense);
  out.copy_(dense.view(out.sizes()));
}

} // namespace openreg
