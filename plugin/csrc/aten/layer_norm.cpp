// SPDX-License-Identifier: BSD-3-Clause
// Layer and RMS normalization. Each row has the elements of one set of statistics.
#include "aten/normalize.h"

#include <ATen/native/layer_norm.h>
#include <torch/library.h>

#include <array>
#include <limits>
#include <tuple>

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

OpName layer_name, layer_backward_name, rms_name, rms_backward_name;

struct Rows {
  Rows(
      const Tensor& input,
      at::IntArrayRef normalized,
      const OptTensor& weight,
      const OptTensor& bias = {}) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        input.is_floating_point(), "layer_norm not implemented for '", input.scalar_type(), "'");
    std::tie(rows, width) = at::native::_check_layer_norm_inputs(
        input, normalized, weight.value_or(Tensor()), bias.value_or(Tensor()));
    // Statistics have the input's dimensions, with size 1 where they are folded.
    statistics = input.sizes().slice(0, input.dim() - normalized.size()).vec();
    statistics.resize(input.dim(), 1);
  }
  Tensor flat(const Tensor& t) const {
    return t.reshape({rows, width});
  }
  Tensor column(const Tensor& t) const {
    return t.reshape({rows, 1});
  }
  Tensor row(const OptTensor& t) const {
    return viewed(t, {1, width});
  }
  // Returns an uninitialized gradient of a parameter, as a row.
  Tensor row_like(const Tensor& t) const {
    return empty({1, width}, {}, t.options());
  }
  int64_t rows, width;
  std::vector<int64_t> statistics;
};

Three layer_norm(
    const Tensor& input,
    at::IntArrayRef normalized,
    const OptTensor& weight,
    const OptTensor& bias,
    double eps) {
  if (!on_card(input)) {
    return fallback<Three, const Tensor&, at::IntArrayRef, const OptTensor&, const OptTensor&, double>(
        layer_name, input, normalized, weight, bias, eps);
  }
  check_device(weight, input.device());
  check_device(bias, input.device());
  const Rows r(input, normalized, weight, bias);
  const Tensor out = empty(input.sizes(), {}, input.options());
  // As in core, half inputs with f32 weights have f32 statistics.
  const auto kept = weight && weight->defined() ? weight->scalar_type() : input.scalar_type();
  const Tensor mean = statistics_like(input, {r.rows, 1});
  const Tensor rstd = statistics_like(input, {r.rows, 1});
  if (out.numel() != 0) {
    normalize(
        layer_name.id, r.flat(out), {r.flat(input), mean, rstd, r.row(weight)}, r.row(bias), eps);
  }
  return {out, mean.view(r.statistics).to(kept), rstd.view(r.statistics).to(kept)};
}

// wanted selects the gradients of the input, the weight and the bias.
Three gradients(
    OpId id,
    const Rows& r,
    const Tensor& grad,
    const Tensor& input,
    const Normalized& n,
    const OptTensor& weight,
    const OptTensor& bias,
    std::array<bool, 3> wanted) {
  Three result;
  auto& [dx, dw, db] = result;
  const Tensor g = r.flat(grad);
  if (wanted[0]) {
    dx = empty(input.sizes(), {}, input.options());
    if (dx.numel() != 0) {
      input_gradient(id, r.flat(dx), g, n);
    }
  }
  ParameterGradients p;
  if (wanted[1] && n.weight.defined()) {
    p.weight = r.row_like(*weight);
    dw = p.weight.view(weight->sizes());
  }
  if (wanted[2] && bias && bias->defined()) {
    p.bias = r.row_like(*bias);
    db = p.bias.view(bias->sizes());
  }
  parameter_gradients(id, p, g, n, wanted[0] ? Part::FURTHER : Part::FIRST);
  return result;
}

Three layer_norm_backward(
    const Tensor& grad,
    const Tensor& input,
    at::IntArrayRef normalized,
    const Tensor& mean,
    const Tensor& rstd,
    const OptTensor& weight,
    const OptTensor& bias,
    std::array<bool, 3> wanted) {
  for (const Tensor& t : {grad, mean, rstd}) {
    check_device(t, input.device());
  }
  check_device(weight, input.device());
  const Rows r(input, normalized, weight, bias);
  return gradients(
      layer_backward_name.id,
      r,
      grad,
      input,
      {r.flat(input), r.column(mean), r.column(rstd), r.row(weight)},
      weight,
      bias,
      wanted);
}

Two rms_norm(
    const Tensor& input,
    at::IntArrayRef normalized,
    const OptTensor& weight,
    std::optional<double> eps) {
  check_device(weight, input.device());
  const Rows r(input, normalized, weight);
  const Tensor out = empty(input.sizes(), {}, input.options());
  const Tensor rstd = statistics_like(input, {r.rows, 1});
  if (out.numel() != 0) {
    const bool is_double = rstd.scalar_type() == at::kDouble;
    const double least = is_double ? std::numeric_limits<double>::epsilon()
                                   : std::numeric_limits<float>::epsilon();
    normalize(
        rms_name.id,
        r.flat(out),
        {r.flat(input), {}, rstd, r.row(weight)},
        {},
        eps.value_or(least));
  }
  return {out, rstd.view(r.statistics)};
}

Two rms_norm_backward(
    const Tensor& grad,
    const Tensor& input,
    at::IntArrayRef normalized,
    const Tensor& rstd,
    const OptTensor& weight,
    std::array<bool, 2> wanted) {
  for (const Tensor& t : {grad, rstd}) {
    check_device(t, input.device());
  }
  const Rows r(input, normalized, weight);
  auto [dx, dw, none] = gradients(
      rms_backward_name.id,
      r,
      grad,
      input,
      {r.flat(input), {}, r.column(rstd), r.row(weight)},
      weight,
      {},
      {wanted[0], wanted[1], false});
  return {dx, dw};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  layer_name.set("native_layer_norm");
  layer_backward_name.set("native_layer_norm_backward");
  rms_name.set("_fused_rms_norm");
  rms_backward_name.set("_fused_rms_norm_backward");
  m.impl("native_layer_norm", layer_norm);
  m.impl("native_layer_norm_backward", layer_norm_backward);
  m.impl("_fused_rms_norm", rms_norm);
  m.impl("_fused_rms_norm_backward", rms_norm_backward);
}

} // namespace openreg
