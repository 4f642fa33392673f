// SPDX-License-Identifier: BSD-3-Clause
// Convolutions run on the CPU, counted. ATen gives out-of-tree devices operators
// of their own for them, which the general fallback cannot serve: the CPU has
// them under other names.
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include <array>

#include "runtime/fallback.h"

namespace openreg {
namespace {

using at::IntArrayRef;
using at::Tensor;

Tensor convolution(
    const Tensor& input,
    const Tensor& weight,
    const std::optional<Tensor>& bias,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups) {
  count_fallback("aten::convolution_overrideable");
  const bool biased = bias && bias->defined();
  return at::convolution(
             input.cpu(),
             weight.cpu(),
             biased ? std::optional<Tensor>(bias->cpu()) : std::nullopt,
             stride,
             padding,
             dilation,
             transposed,
             output_padding,
             groups)
      .to(input.device());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& grad_output,
    const Tensor& input,
    const Tensor& weight,
    IntArrayRef stride,
    IntArrayRef padding,
    IntArrayRef dilation,
    bool transposed,
    IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> output_mask) {
  count_fallback("aten::convolution_backward_overrideable");
  const std::array<int64_t, 1> bias_sizes = {grad_output.size(1)};
  auto grads = at::convolution_backward(
      grad_output.cpu(),
      input.cpu(),
      weight.cpu(),
      IntArrayRef(bias_sizes),
      stride,
      padding,
      dilation,
      transposed,
      output_padding,
      groups,
      output_mask);
  const auto back = [&](Tensor& t) {
    return t.defined() ? t.to(input.device()) : t;
  };
  return {
      back(std::get<0>(grads)),
      back(std::get<1>(grads)),
      back(std::get<2>(grads))};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

} // namespace openreg
