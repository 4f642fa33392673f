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

// Writes out = (x - mean) * rstd * weight + bias with rstd = 1 / sqrt(variance + eps), and
// the statistics over the dimensions in which n.rstd has size 1.
void normalize(
    OpId id, const at::Tensor& out, const Normalized& n, const at::Tensor& bias, double eps);
// The same with statistics that the caller has.
void apply(OpId id, const at::Tensor& out, const Normalized& n, const at::Tensor& bias);

// out = the gradient with respect to x. The statistics depend on x.
void input_gradient(OpId id, const at::Tensor& out, const at::Tensor& grad, const Normalized& n);
// Sums over the dimensions in which they have size 1: weight = sum of grad * xhat, bias = sum
// of grad. Each may be undefined.
struct ParameterGradients {
  at::Tensor weight, bias;
};
void parameter_gradients(
    OpId id,
    const ParameterGradients& out,
    const at::Tensor& grad,
    const Normalized& n,
    Part part);

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
