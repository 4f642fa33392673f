// SPDX-License-Identifier: BSD-3-Clause
// Group normalization of [N, groups, channels of a group, pixels].
#include "aten/normalize.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include <array>

namespace openreg {

namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

OpName forward_name, backward_name;

struct Groups {
  int64_t n, channels, pixels, groups;

  void check(const Tensor& input) const {
    TORCH_CHECK(
        groups > 0 && channels % groups == 0,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape ",
        input.sizes(),
        " and num_groups=",
        groups);
    TORCH_CHECK(
        input.numel() == n * channels * pixels,
        "Expected an input of ",
        n * channels * pixels,
        " elements, got shape ",
        input.sizes());
    TORCH_CHECK_NOT_IMPLEMENTED(
        input.is_floating_point(), "group_norm not implemented for '", input.scalar_type(), "'");
  }
  std::array<int64_t, 4> sizes() const {
    return {n, groups, channels / groups, pixels};
  }
  Tensor of(const Tensor& t) const {
    return t.reshape(sizes());
  }
  Tensor statistics(const Tensor& t) const {
    return t.reshape({n, groups, 1, 1});
  }
  std::array<int64_t, 4> parameter() const {
    return {1, groups, channels / groups, 1};
  }
};

Three forward(
    const Tensor& input,
    const OptTensor& weight,
    const OptTensor& bias,
    int64_t n,
    int64_t channels,
    int64_t pixels,
    int64_t groups,
    double eps) {
  check_device(weight, input.device());
  check_device(bias, input.device());
  const Groups g{n, channels, pixels, groups};
  g.check(input);
  const Tensor out = at::empty_like(input, input.suggest_memory_format());
  const Tensor mean = statistics_like(input, {n, groups});
  const Tensor rstd = statistics_like(input, {n, groups});
  if (input.numel() != 0) {
    const Normalized norm{
        g.of(input), g.statistics(mean), g.statistics(rstd), viewed(weight, g.parameter())};
    fill_viewed(out, g.sizes(), [&](const Tensor& y) {
      normalize(forward_name.id, y, norm, viewed(bias, g.parameter()), eps);
    });
  } else {
    mean.zero_();
    rstd.zero_();
  }
  const auto kept = weight && weight->defined() ? weight->scalar_type() : input.scalar_type();
  return {out, mean.to(kept), rstd.to(kept)};
}

Three backward(
    const Tensor& grad,
    const Tensor& input,
    const Tensor& mean,
    const Tensor& rstd,
    const OptTensor& weight,
    int64_t n,
    int64_t channels,
    int64_t pixels,
    int64_t groups,
    std::array<bool, 3> wanted) {
  for (const Tensor& t : {grad, mean, rstd}) {
    check_device(t, input.device());
  }
  const Groups g{n, channels, pixels, groups};
  g.check(input);
  const Normalized norm{
      g.of(input), g.statistics(mean), g.statistics(rstd), viewed(weight, g.parameter())};
  const Tensor dy = g.of(grad);
  const auto like = norm.weight.defined() ? weight->options() : input.options();
  Three result;
  auto& [dx, dw, db] = result;
  if (wanted[0]) {
    dx = at::empty_like(input, input.suggest_memory_format());
    if (dx.numel() != 0) {
      fill_viewed(dx, g.sizes(), [&](const Tensor& to) {
        input_gradient(backward_name.id, to, dy, norm);
      });
    }
  }
  // With few pixels the sums over n have one for each pixel, so that the card reads lines of
  // all channels and not runs of pixels.
  const bool by_pixel = pixels < 64;
  auto sizes = g.parameter();
  sizes[3] = by_pixel ? pixels : 1;
  const auto sum_like = by_pixel ? like.dtype(statistics_type(input.scalar_type())) : like;
  const auto sums = [&](bool wants) { return wants ? empty(sizes, {}, sum_like) : Tensor(); };
  const ParameterGradients p{sums(wanted[1]), sums(wanted[2])};
  parameter_gradients(backward_name.id, p, dy, norm, wanted[0] ? Part::FURTHER : Part::FIRST);
  const auto parameter = [&](const Tensor& t) {
    return by_pixel ? t.sum({3}, false, like.dtype().toScalarType()).view({channels})
                    : t.view({channels});
  };
  if (wanted[1]) {
    dw = parameter(p.weight);
  }
  if (wanted[2]) {
    db = parameter(p.bias);
  }
  return result;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  forward_name.set("native_group_norm");
  backward_name.set("native_group_norm_backward");
  m.impl("native_group_norm", forward);
  m.impl("native_group_norm_backward", backward);
}

} // namespace openreg
