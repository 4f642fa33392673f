// SPDX-License-Identifier: BSD-3-Clause
// fused_moving_avg_obs_fake_quant: observes the extremes of a tensor, chooses a scale and a
// zero point, and fake-quantizes with them.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.h>
#include <ATen/ops/_fused_moving_avg_obs_fq_helper.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/fake_quantize_per_channel_affine_cachemask.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

namespace openreg {

namespace {

using at::Tensor;

// The extremes of the tensor, or of each channel, as rows of two elements.
Tensor extremes(const Tensor& x, int64_t axis, bool by_channel) {
  if (!by_channel) {
    const auto [least, most] = at::aminmax(x);
    return at::stack({least, most});
  }
  const auto [least, most] = at::aminmax(x.movedim(axis, 0).flatten(1), 1);
  return at::stack({least, most}, 1);
}

// The card finds the extremes. The CPU's operator then observes these few numbers, so that
// its rules for moving averages, scales and zero points hold.
std::tuple<Tensor, Tensor> observe_and_quantize(
    const Tensor& self,
    const Tensor& observer_on,
    const Tensor& fake_quant_on,
    Tensor& running_min,
    Tensor& running_max,
    Tensor& scale,
    Tensor& zero_point,
    double averaging_const,
    int64_t quant_min,
    int64_t quant_max,
    int64_t axis,
    bool by_channel,
    bool symmetric) {
  TORCH_CHECK(
      axis < self.dim(),
      "fused_moving_avg_obs_fake_quant: ch_axis must be less than the input's number of "
      "dimensions, ",
      self.dim(), ", but it is ", axis);
  const bool quantizes = fake_quant_on.item<int64_t>() != 0;
  if (observer_on.item<int64_t>() != 0) {
    const std::array<Tensor*, 4> states{&running_min, &running_max, &scale, &zero_point};
    std::array<Tensor, 4> host;
    for (size_t i = 0; i < states.size(); i++) {
      host[i] = states[i]->cpu();
    }
    at::_fused_moving_avg_obs_fq_helper(
        extremes(self, axis, by_channel).cpu(), at::ones({1}, at::kLong),
        at::full({1}, int64_t{quantizes}, at::kLong), host[0], host[1], host[2], host[3], averaging_const, quant_min,
        quant_max, 0, by_channel, symmetric);
    for (size_t i = 0; i < states.size(); i++) {
      states[i]->resize_(host[i].sizes());
      states[i]->copy_(host[i]);
    }
  }
  if (!quantizes) {
    return {self.clone(), at::ones_like(self, self.options().dtype(at::kBool))};
  }
  if (by_channel) {
    return at::fake_quantize_per_channel_affine_cachemask(
        self, scale, zero_point, axis, quant_min, quant_max);
  }
  return at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
      self, scale, zero_point, fake_quant_on, quant_min, quant_max);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_moving_avg_obs_fq_helper", observe_and_quantize);
}

} // namespace openreg
