// SPDX-License-Identifier: BSD-3-Clause
// fake_quantize: rounds to the levels of a quantized dtype and back, per tensor and per
// channel, and the gradients of learnable scales and zero points.
//
//   level = zero_point + rint(x / scale)
//   result = (clamp(level, quant_min, quant_max) - zero_point) * scale
//
// As on the CPU, a level per channel is an int64, and a level per tensor becomes a float32,
// whatever the input's dtype is. x / scale of a float64 is a float64.
#include "aten/convention.h"
#include "aten/pointwise.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/fake_quantize_per_channel_affine.h>
#include <ATen/ops/fake_quantize_per_tensor_affine.h>
#include <torch/library.h>

#include <cmath>
#include <tuple>

namespace openreg {

namespace {

using at::Tensor;

OpName tensor_name, qparams_name, channel_name, tensor_backward_name, channel_backward_name;

struct Limits {
  int64_t least, most;

  void check() const {
    TORCH_CHECK(
        least <= most, "`quant_min` should be less than or equal to `quant_max`, but they are ",
        least, " and ", most);
  }
  void check_zero_point(int64_t zero_point) const {
    TORCH_CHECK(
        zero_point >= least && zero_point <= most,
        "`zero_point` must be between `quant_min` and `quant_max`, ", least, " and ", most,
        ", but it is ", zero_point);
  }
  // Whether F32 holds all levels and differences of levels.
  bool fit_f32() const {
    constexpr int64_t kExact = int64_t{1} << 23;
    return least >= -kExact && most <= kExact;
  }
};

// The level of an input before the clamp. The conversion to an int64 gives the least int64
// for NaN and for what is too large: `good` is false for these.
struct Level {
  Value level, good;

  Level(Value v, Limits limits)
      : level(v), good((v >= imm(limits.least)) & (v < v.program->imm(0x1p63, v.type))) {}

  Value imm(int64_t x) const {
    return level.program->imm(x, level.type);
  }
  Value clamped(Limits limits) const {
    return select(good, min(level, imm(limits.most)), imm(limits.least));
  }
  Value inside(Limits limits) const {
    return good & (level <= imm(limits.most));
  }
};

// With rounds_sum the CPU rounds x / scale + zero_point, which it computes by an FMA.
Value to_level(Pointwise& p, Value x, Value scale, Value zero, bool rounds_sum) {
  const Value inverse = p.convert(p.imm(1.0, OPENREG_VT_F32) / scale, x.type);
  zero = p.convert(zero, x.type);
  return rounds_sum ? rint(p.convert(fma(x, inverse, zero), OPENREG_VT_F32))
                    : rint(x * inverse) + zero;
}

void check_float(const Tensor& t, const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      t.is_floating_point() && card_dtype(t.scalar_type()) != 0,
      "\"", name, "\" not implemented for '", t.scalar_type(),
      "'; the input must be float32, float64, float16 or bfloat16");
}

c10::ScalarType compute_type(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Puts result and mask per channel. A zero point may be a float.
void put_channels(Pointwise& p, Limits limits, bool float_zero) {
  const Value x = p.in(0), scale = p.in_as(1, at::kFloat), zero = p.in(2);
  Value level = to_level(p, x, scale, zero, float_zero);
  if (float_zero || !limits.fit_f32()) {
    level = p.convert(level, OPENREG_VT_F64);
  }
  const Level l(level, limits);
  p.out(0, (l.clamped(limits) - p.convert(zero, level.type)) * p.convert(scale, level.type));
  p.out(1, l.inside(limits));
}

// Puts result and mask per tensor. fmax() takes the limit instead of NaN.
void put_tensor(
    Pointwise& p,
    Value scale,
    Value zero,
    Limits limits,
    std::optional<Value> enabled = std::nullopt) {
  const Value x = p.in(0);
  const Value level = p.convert(to_level(p, x, scale, zero, false), OPENREG_VT_F32);
  const Value least = p.imm(limits.least, level.type), most = p.imm(limits.most, level.type);
  Value out = (fmin(fmax(level, least), most) - zero) * scale;
  Value inside = (level >= least) & (level <= most);
  if (enabled.has_value()) {
    const Value off = *enabled == 0.0;
    out = select(off, x, p.convert(out, x.type));
    inside = inside | off;
  }
  p.out(0, out);
  p.out(1, inside);
}

at::TensorIterator iterator(const Tensor& out, const Tensor& mask, at::TensorList inputs) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).add_output(out).add_output(mask);
  for (const Tensor& t : inputs) {
    config.add_owned_const_input(t);
  }
  return config.build();
}

std::tuple<Tensor, Tensor> results_like(const Tensor& x) {
  return {
      at::empty_like(x, x.options(), at::MemoryFormat::Preserve),
      at::empty_like(x, x.options().dtype(at::kBool), at::MemoryFormat::Preserve)};
}

std::tuple<Tensor, Tensor> per_tensor(
    const Tensor& self,
    double scale,
    int64_t zero_point,
    int64_t quant_min,
    int64_t quant_max) {
  const Limits limits{quant_min, quant_max};
  check_float(self, "fake_quantize_per_tensor_affine");
  limits.check();
  limits.check_zero_point(zero_point);
  auto [out, mask] = results_like(self);
  if (self.numel() != 0) {
    const auto iter = iterator(out, mask, {self});
    Pointwise p(iter, compute_type(self));
    put_tensor(
        p, p.imm(static_cast<double>(static_cast<float>(scale)), OPENREG_VT_F32),
        p.imm(zero_point, OPENREG_VT_F32), limits);
    launch(iter, p, tensor_name.id);
  }
  return {out, mask};
}

// A tensor that a broadcast reads at each point of self.
Tensor one(const Tensor& t, const Tensor& self, const char* name) {
  TORCH_CHECK(
      t.numel() == 1, "`", name, "` must have one element, but it has ", t.numel());
  check_tensor_device(t, self.device());
  return t.reshape({});
}

std::tuple<Tensor, Tensor> per_tensor_qparams(
    const Tensor& self,
    const Tensor& scale,
    const Tensor& zero_point,
    const Tensor& enabled,
    int64_t quant_min,
    int64_t quant_max) {
  const Limits limits{quant_min, quant_max};
  check_float(self, "fake_quantize_per_tensor_affine");
  limits.check();
  auto [out, mask] = results_like(self);
  const Tensor one_scale = one(scale, self, "scale");
  const Tensor one_zero = one(zero_point, self, "zero_point");
  const Tensor one_enabled = one(enabled, self, "fake_quant_enabled");
  if (self.numel() != 0) {
    const auto iter = iterator(out, mask, {self, one_scale, one_zero, one_enabled});
    Pointwise p(iter, compute_type(self));
    put_tensor(
        p, p.in_as(1, at::kFloat), trunc(p.in_as(2, at::kFloat)), limits,
        p.in_as(3, at::kFloat));
    launch(iter, p, qparams_name.id);
  }
  return {out, mask};
}

void check_channels(
    const Tensor& self,
    const Tensor& scale,
    const Tensor& zero_point,
    int64_t axis) {
  TORCH_CHECK(
      scale.scalar_type() == at::kFloat || scale.scalar_type() == at::kBFloat16,
      "Scale must be Float or BFloat16, found ", scale.scalar_type());
  TORCH_CHECK(
      scale.dim() == 1,
      "scale should be a 1-D tensor, but it has ", scale.dim(), " dimensions");
  TORCH_CHECK(
      zero_point.dim() == 1,
      "zero point should be a 1-D tensor, but it has ", zero_point.dim(), " dimensions");
  TORCH_CHECK(
      scale.numel() == zero_point.numel(),
      "scale and zero-point need to have the same dimensions, but they have ",
      scale.numel(), " and ", zero_point.numel(), " elements");
  TORCH_CHECK(
      axis >= 0 && axis < self.dim(),
      "`axis` must be between 0 and number of dimensions of input, ", self.dim(),
      ", but it is ", axis);
  TORCH_CHECK(
      scale.numel() == self.size(axis),
      "dimensions of scale and zero-point are not consistent with input tensor: they have ",
      scale.numel(), " elements, and the input has the size ", self.size(axis),
      " along axis ", axis);
  check_tensor_device(scale, self.device());
  check_tensor_device(zero_point, self.device());
}

// A 1-D tensor as a broadcast along the other dimensions of self.
Tensor along(const Tensor& t, const Tensor& self, int64_t axis) {
  at::DimVector sizes(self.dim(), 1);
  sizes[axis] = t.numel();
  return t.reshape(sizes);
}

std::tuple<Tensor, Tensor> per_channel(
    const Tensor& self,
    const Tensor& scale,
    const Tensor& zero_point,
    int64_t axis,
    int64_t quant_min,
    int64_t quant_max) {
  const Limits limits{quant_min, quant_max};
  const auto zero_type = zero_point.scalar_type();
  check_float(self, "fake_quantize_per_channel_affine");
  TORCH_CHECK(
      zero_type == at::kInt || zero_type == at::kFloat || zero_type == at::kHalf,
      "Zero-point must be Int32, Float or Half, found ", zero_type);
  check_channels(self, scale, zero_point, axis);
  limits.check();
  const bool float_zero = zero_type != at::kInt;
  if (!float_zero && zero_point.numel() != 0) {
    limits.check_zero_point(zero_point.min().item<int64_t>());
    limits.check_zero_point(zero_point.max().item<int64_t>());
  }
  auto [out, mask] = results_like(self);
  if (self.numel() != 0) {
    const auto iter =
        iterator(out, mask, {self, along(scale, self, axis), along(zero_point, self, axis)});
    Pointwise p(iter, compute_type(self));
    put_channels(p, limits, float_zero);
    launch(iter, p, channel_name.id);
  }
  return {out, mask};
}

void check_learnable(const Limits& limits) {
  TORCH_CHECK(
      limits.least <= 0 && limits.most >= 0,
      "`quant_min` should be less than or equal to `quant_max`, and the quantization range "
      "should include 0, but it is ",
      limits.least, " to ", limits.most);
}

Tensor learnable_per_tensor(
    const Tensor& self,
    const Tensor& scale,
    const Tensor& zero_point,
    int64_t quant_min,
    int64_t quant_max,
    double) {
  const float zero = std::clamp(
      zero_point.reshape({-1})[0].item<float>() + 0.5f, static_cast<float>(quant_min),
      static_cast<float>(quant_max));
  return at::fake_quantize_per_tensor_affine(
      self, scale.reshape({-1})[0].item<float>(), static_cast<int64_t>(zero), quant_min, quant_max);
}

Tensor rounded_zero_point(const Tensor& zero_point, Limits limits) {
  return zero_point.round().clamp_(limits.least, limits.most);
}

Tensor learnable_per_channel(
    const Tensor& self,
    const Tensor& scale,
    const Tensor& zero_point,
    int64_t axis,
    int64_t quant_min,
    int64_t quant_max,
    double) {
  const Tensor zero = rounded_zero_point(zero_point, {quant_min, quant_max}).to(at::kInt);
  return at::fake_quantize_per_channel_affine(self, scale, zero, axis, quant_min, quant_max);
}

// The gradients by input, scale and zero point at each point.
std::tuple<Tensor, Tensor, Tensor> gradients(
    OpId id,
    const Tensor& grad,
    const Tensor& self,
    const Tensor& scale,
    const Tensor& zero_point,
    Limits limits,
    double factor,
    bool rounds_sum) {
  const Tensor by_x = at::empty_like(self), by_scale = at::empty_like(self),
               by_zero = at::empty_like(self);
  const auto iter = at::TensorIteratorConfig()
                        .check_all_same_dtype(false)
                        .add_output(by_x)
                        .add_output(by_scale)
                        .add_output(by_zero)
                        .add_const_input(grad)
                        .add_const_input(self)
                        .add_owned_const_input(scale)
                        .add_owned_const_input(zero_point)
                        .build();
  Pointwise p(iter, at::kFloat);
  const Value g = p.in(0), x = p.in(1), s = p.in(2), zero = p.in(3);
  const Level l(to_level(p, x, s, zero, rounds_sum), limits);
  const Value inside = l.inside(limits), scaled = g * p(factor);
  const Value q = (l.clamped(limits) - zero) * s;
  const Value edge = select(l.good, l.imm(limits.most), l.imm(limits.least)) - zero;
  p.out(0, select(inside, g, g * 0.0));
  p.out(1, select(inside, g * (q - x) * (p(1.0) / s) * p(factor), g * edge * p(factor)));
  p.out(2, select(inside, p(0.0), scaled * -s));
  launch(iter, p, id);
  return {by_x, by_scale, by_zero};
}

void check_gradient(
    const Tensor& grad,
    const Tensor& self,
    const Tensor& scale,
    const Tensor& zero) {
  for (const Tensor& t : {self, scale, zero}) {
    check_float(t, "fake_quantize_learnable");
    check_tensor_device(t, grad.device());
  }
  TORCH_CHECK(
      grad.sizes() == self.sizes(), "`X` and `dY` are not the same size: ", self.sizes(),
      " and ", grad.sizes());
}

std::tuple<Tensor, Tensor, Tensor> learnable_per_tensor_backward(
    const Tensor& grad,
    const Tensor& self,
    const Tensor& scale,
    const Tensor& zero_point,
    int64_t quant_min,
    int64_t quant_max,
    double factor) {
  const Limits limits{quant_min, quant_max};
  check_gradient(grad, self, scale, zero_point);
  check_learnable(limits);
  if (self.numel() == 0) {
    return {self, scale, zero_point};
  }
  const Tensor zero = rounded_zero_point(zero_point.reshape({-1})[0], limits);
  auto [by_x, by_scale, by_zero] = gradients(
      tensor_backward_name.id, grad, self, scale.reshape({-1})[0], zero, limits, factor,
      false);
  return {by_x, by_scale.sum().unsqueeze(0), by_zero.sum().unsqueeze(0)};
}

std::tuple<Tensor, Tensor, Tensor> learnable_per_channel_backward(
    const Tensor& grad,
    const Tensor& self,
    const Tensor& scale,
    const Tensor& zero_point,
    int64_t axis,
    int64_t quant_min,
    int64_t quant_max,
    double factor) {
  const Limits limits{quant_min, quant_max};
  check_gradient(grad, self, scale, zero_point);
  check_learnable(limits);
  check_channels(self, scale, zero_point, axis);
  if (self.numel() == 0) {
    return {self, scale, zero_point};
  }
  const Tensor zero = rounded_zero_point(zero_point, limits);
  auto [by_x, by_scale, by_zero] = gradients(
      channel_backward_name.id, grad, self, along(scale, self, axis), along(zero, self, axis),
      limits, factor, true);
  at::DimVector others;
  for (int64_t d = 0; d < self.dim(); d++) {
    if (d != axis) {
      others.push_back(d);
    }
  }
  if (others.empty()) {
    return {by_x, by_scale, by_zero};
  }
  return {by_x, by_scale.sum(others), by_zero.sum(others)};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const auto add = [&](OpName& name, const char* text, auto* function) {
    name.set(text);
    m.impl(text, function);
  };
  add(tensor_name, "fake_quantize_per_tensor_affine_cachemask", per_tensor);
  add(qparams_name, "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
      per_tensor_qparams);
  add(channel_name, "fake_quantize_per_channel_affine_cachemask", per_channel);
  add(tensor_backward_name, "_fake_quantize_learnable_per_tensor_affine_backward",
      learnable_per_tensor_backward);
  add(channel_backward_name, "_fake_quantize_learnable_per_channel_affine_backward",
      learnable_per_channel_backward);
  m.impl("_fake_quantize_learnable_per_tensor_affine", learnable_per_tensor);
  m.impl("_fake_quantize_learnable_per_channel_affine", learnable_per_channel);
}

} // namespace openreg
