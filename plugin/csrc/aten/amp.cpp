// SPDX-License-Identifier: BSD-3-Clause
// The operators of torch.amp.GradScaler. One packet a gradient unscales the gradient and
// checks it for overflow. The caller never waits for the card.
#include "aten/convention.h"
#include "aten/step.h"

#include <torch/library.h>

namespace openreg {

namespace {

using at::Tensor;

OpName unscale_name, update_name;

// Whether one packet can hold t's dimensions. The dimensions of a dense tensor merge into
// one.
bool fits(const Tensor& t) {
  return t.dim() <= OPENREG_DIMS_MAX || t.is_non_overlapping_and_dense();
}

// Multiplies grad by the inverse scale, and sets flag if any element is infinite or NaN.
void unscale(const Tensor& grad, const Tensor& inverse, const Tensor& flag, Part part) {
  if (!fits(grad)) {
    at::assert_no_internal_overlap(grad);
    const Tensor dense = grad.contiguous();
    unscale(dense, inverse, flag, part);
    grad.copy_(dense);
    return;
  }
  Step s(unscale_name.id, grad, grad.scalar_type());
  const auto operand = s.add_written(grad);
  const Value g = s.load(operand);
  s.program.store(operand, g * s.load(inverse));
  Space::Mask all;
  for (int64_t i = 0; i < grad.dim(); i++) {
    all.set(i);
  }
  s.reduce(OPENREG_V_RED_OR, flag, isfinite(g) == 0.0, all);
  s.run(part);
}

void check_and_unscale(at::TensorList grads, Tensor& found, const Tensor& inverse) {
  TORCH_CHECK(
      inverse.numel() == 1 && found.numel() == 1,
      "inv_scale and found_inf must be 1-element tensors.");
  TORCH_CHECK(
      inverse.scalar_type() == at::kFloat && found.scalar_type() == at::kFloat,
      "inv_scale and found_inf must be float tensors.");
  check_tensor_device(inverse, found.device());
  if (grads.empty()) {
    return;
  }
  const auto count = static_cast<int64_t>(grads.size());
  const Tensor flags = empty({count + 1}, {}, found.options()).zero_();
  const Tensor factor = inverse.reshape({}), result = found.view(at::IntArrayRef());
  Part part = Part::FIRST;
  for (int64_t i = 0; i < count; i++) {
    const Tensor& grad = grads[i];
    check_tensor_device(grad, found.device());
    TORCH_CHECK(
        at::isFloatingType(grad.scalar_type()),
        "gradients must be floating-point tensors, got ",
        grad.scalar_type());
    if (grad.numel() != 0) {
      unscale(grad, factor, flags.select(0, i), part);
      part = Part::FURTHER;
    }
  }
  flags.select(0, count).copy_(result);
  Step s(unscale_name.id, flags, at::kFloat);
  s.reduce(OPENREG_V_RED_MAX, result, s.load(flags), Space::Mask(1));
  s.run(Part::FURTHER);
}

// Shrinks the scale after an overflow. Grows the scale after `interval` steps without an
// overflow, unless it would become infinite.
Tensor& update_scale_(
    Tensor& scale,
    Tensor& tracker,
    const Tensor& found,
    double growth,
    double backoff,
    int64_t interval) {
  TORCH_CHECK(tracker.numel() == 1, "growth_tracker must be a 1-element tensor.");
  TORCH_CHECK(tracker.scalar_type() == at::kInt, "growth_tracker must be an int tensor.");
  TORCH_CHECK(scale.numel() == 1, "current_scale must be a 1-element tensor.");
  TORCH_CHECK(scale.scalar_type() == at::kFloat, "current_scale must be a float tensor.");
  TORCH_CHECK(found.numel() == 1, "found_inf must be a 1-element tensor.");
  TORCH_CHECK(found.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
  check_tensor_device(tracker, scale.device());
  check_tensor_device(found, scale.device());
  Step s(update_name.id, {}, scale.get_device(), at::kFloat);
  const auto scale_at = s.add_written(scale.view(at::IntArrayRef()));
  const auto tracker_at = s.add_written(tracker.view(at::IntArrayRef()));
  const Value now = s.load(scale_at);
  const Value steps = s.program.load(tracker_at, OPENREG_VT_I32) + 1.0;
  const Value overflow = s.load(found.reshape({})) != 0.0;
  const Value due = steps == static_cast<double>(interval);
  const Value grown = now * growth;
  const Value larger = select(due & isfinite(grown), grown, now);
  s.program.store(scale_at, select(overflow, now * backoff, larger));
  s.program.store(tracker_at, select(overflow | due, 0.0, steps));
  s.run();
  return scale;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  unscale_name.set("_amp_foreach_non_finite_check_and_unscale_");
  update_name.set("_amp_update_scale_");
  m.impl("_amp_foreach_non_finite_check_and_unscale_", check_and_unscale);
  m.impl("_amp_update_scale_", update_scale_);
}

} // namespace openreg
