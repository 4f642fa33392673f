// SPDX-License-Identifier: BSD-3-Clause
// Activations and their derivatives, one line for each operator.
#include "aten/step.h"
#include "aten/structured.h"
#include "runtime/overlap.h"

#include <ATen/ops/elu_backward_meta.h>
#include <ATen/ops/elu_meta.h>
#include <ATen/ops/gelu_backward_meta.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/glu_meta.h>
#include <ATen/ops/hardshrink_backward_meta.h>
#include <ATen/ops/hardshrink_meta.h>
#include <ATen/ops/hardsigmoid_backward_meta.h>
#include <ATen/ops/hardsigmoid_meta.h>
#include <ATen/ops/leaky_relu_backward_meta.h>
#include <ATen/ops/leaky_relu_meta.h>
#include <ATen/ops/logit_backward_meta.h>
#include <ATen/ops/mish_meta.h>
#include <ATen/ops/sigmoid_backward_meta.h>
#include <ATen/ops/silu_backward_meta.h>
#include <ATen/ops/silu_meta.h>
#include <ATen/ops/softplus_backward_meta.h>
#include <ATen/ops/softplus_meta.h>
#include <ATen/ops/softshrink_backward_meta.h>
#include <ATen/ops/softshrink_meta.h>
#include <ATen/ops/tanh_backward_meta.h>
#include <ATen/ops/threshold.h>
#include <ATen/ops/threshold_backward_meta.h>
#include <ATen/ops/threshold_meta.h>

#include <ATen/native/Gelu.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/WrapDimMinimal.h>

#include <cmath>
#include <limits>
#include <string_view>

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;
using T = const Tensor&;
using S = const Scalar&;

// Shape functions of activations that are not structured in core.
struct unary_meta : at::TensorIteratorBase {
  void meta(T self) {
    build_borrowing_unary_op(maybe_get_output(0), self);
  }
};
struct gradient_meta : at::TensorIteratorBase {
  void meta(T grad, T self) {
    build_borrowing_binary_op(maybe_get_output(0), grad, self);
  }
};
struct range_meta : at::TensorIteratorBase {
  void meta(T self, S, S) {
    build_borrowing_unary_op(maybe_get_output(0), self);
  }
};
struct range_gradient_meta : at::TensorIteratorBase {
  void meta(T grad, T self, S, S) {
    build_borrowing_binary_op(maybe_get_output(0), grad, self);
  }
};

constexpr double kTanhScale = M_SQRT2 * M_2_SQRTPI * 0.5; // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;

bool by_tanh(std::string_view approximate) {
  return at::native::get_gelutype_enum(approximate) == at::native::GeluType::Tanh;
}

// x / 2 * (1 + y)
Value half(Value x, Value y) {
  const Value h = x * 0.5;
  return fma(h, y, h);
}

Value gelu(Value x, std::string_view approximate) {
  if (by_tanh(approximate)) {
    const Value inner = x * (x * x * (kTanhCubic * kTanhScale) + kTanhScale);
    return half(x, tanh(inner));
  }
  return half(x, erf(x * M_SQRT1_2));
}

Value gelu_slope(Value x, std::string_view approximate) {
  if (by_tanh(approximate)) {
    const Value square = x * x;
    const Value t = tanh((x + x * square * kTanhCubic) * kTanhScale);
    const Value inner = (square * (3 * kTanhCubic) + 1.0) * kTanhScale;
    return (t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner;
  }
  const Value cdf = (erf(x * M_SQRT1_2) + 1.0) * 0.5;
  const Value pdf = exp(x * x * -0.5) * (M_2_SQRTPI * M_SQRT1_2 * 0.5);
  return fma(x, pdf, cdf);
}

Value softplus(Value x, double beta, double threshold) {
  const Value scaled = x * beta;
  return select(scaled > threshold, x, log1p(exp(scaled)) / beta);
}

Value times(Value x, double factor) {
  return factor == 1 ? x : x * factor;
}

Value softplus_gradient(Value g, Value x, double beta, double threshold) {
  const Value scaled = times(x, beta);
  return select(scaled > threshold, g, g * sigmoid(scaled));
}

Value leaky_relu(Value x, double slope) {
  const Value below = x * slope;
  return slope > 0 && slope <= 1 ? max(x, below) : select(x > 0.0, x, below);
}

// A result of zero keeps the sign of x.
Value softshrink(Value x, double l) {
  return copysign(x - min(max(x, -l), l), x);
}

Value elu(Pointwise& p, S alpha, S scale, S input_scale) {
  const Value x = p.in(0);
  const double negative = alpha.toDouble() * scale.toDouble();
  const double inner = input_scale.toDouble();
  const Value below = times(expm1(times(x, inner)), negative);
  return select(x < 0.0, below, times(x, scale.toDouble()));
}

Value elu_gradient(Pointwise& p, S alpha, S scale, S input_scale, bool is_result) {
  const Value g = p.in(0), x = p.in(1);
  const double negative = alpha.toDouble() * scale.toDouble();
  const double inner = input_scale.toDouble();
  const Value slope = is_result ? times(x + negative, inner)
                                : times(exp(times(x, inner)), inner * negative);
  return select(x > 0.0, times(g, scale.toDouble()), g * slope);
}

Value silu_slope(Value x) {
  const Value s = sigmoid(x);
  return s * (x * (1.0 - s) + 1.0);
}

Value mish_slope(Value x) {
  const Value t = tanh(log1p(exp(x)));
  return t + x * sigmoid(x) * (1.0 - t * t);
}

Value hard_six(Value x) {
  return min(max(x + 3.0, 0.0), 6.0) / 6.0;
}

Value hardswish_slope(Value g, Value x) {
  const Value middle = g * (x / 3.0 + 0.5);
  return select(x <= -3.0, 0.0, select(x >= 3.0, g, middle));
}

Value logit_slope(Value g, Value x, std::optional<double> eps) {
  const double lo = eps.value_or(0), hi = 1.0 - lo;
  const double outside = eps ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  return select((x < lo) | (x > hi), outside, g / (x * (1.0 - x)));
}

// Core allows elements of self to share memory. Compute each shared element only once.
Tensor& threshold_(Tensor& self, const Scalar& limit, const Scalar& value) {
  Tensor once = without_repeats(self);
  at::threshold_out(once, once, limit, value);
  return self;
}

#define PLAIN(op) (Names{#op, #op "_", #op ".out"})
#define GRADIENT(op) \
  (NamesWithoutInplace{#op "_backward", #op "_backward.grad_input"})
#define CORE(op) at::meta::structured_##op
#define POINTWISE(names, shape, arguments, formula) \
  add_pointwise<shape>(m, names, [] arguments { return formula; });

void add_activations(torch::Library& m) {
  POINTWISE(PLAIN(elu), CORE(elu), (Pointwise& p, T, S a, S s, S i), elu(p, a, s, i))
  POINTWISE(PLAIN(gelu), CORE(gelu), (Pointwise& p, T, std::string_view how),
            gelu(p.in(0), how))
  POINTWISE((NamesWithoutInplace{"hardshrink", "hardshrink.out"}), CORE(hardshrink),
            (Pointwise& p, T, S l),
            select(abs(p.in(0)) <= p(l), 0.0, p.in(0)))
  POINTWISE(PLAIN(hardsigmoid), CORE(hardsigmoid), (Pointwise& p, T),
            hard_six(p.in(0)))
  POINTWISE((NamesWithoutInplace{"glu", "glu.out"}), CORE(glu), (Pointwise& p, T, int64_t),
            p.in(0) * sigmoid(p.in(1)))
  POINTWISE(PLAIN(hardswish), unary_meta, (Pointwise& p, T),
            p.in(0) * hard_six(p.in(0)))
  POINTWISE(PLAIN(hardtanh), range_meta, (Pointwise& p, T, S lo, S hi),
            min(max(p.in(0), p(lo)), p(hi)))
  POINTWISE(PLAIN(leaky_relu), CORE(leaky_relu), (Pointwise& p, T, S slope),
            leaky_relu(p.in(0), slope.toDouble()))
  POINTWISE(PLAIN(mish), CORE(mish), (Pointwise& p, T),
            p.in(0) * tanh(log1p(exp(p.in(0)))))
  POINTWISE((FunctionalName{"_prelu_kernel"}), gradient_meta, (Pointwise& p, T, T),
            select(p.in(0) > 0.0, p.in(0), p.in(0) * p.in(1)))
  POINTWISE((NamesWithoutOut{"relu", "relu_"}), unary_meta, (Pointwise& p, T),
            max(p.in(0), 0.0))
  POINTWISE(PLAIN(silu), CORE(silu), (Pointwise& p, T), p.in(0) * sigmoid(p.in(0)))
  POINTWISE((NamesWithoutInplace{"softplus", "softplus.out"}), CORE(softplus),
            (Pointwise& p, T, S beta, S threshold),
            softplus(p.in(0), beta.toDouble(), threshold.toDouble()))
  POINTWISE((NamesWithoutInplace{"softshrink", "softshrink.out"}), CORE(softshrink),
            (Pointwise& p, T, S l),
            softshrink(p.in(0), l.toDouble()))
  POINTWISE((NamesWithoutInplace{"threshold", "threshold.out"}), CORE(threshold),
            (Pointwise& p, T, S limit, S value),
            select(p.in(0) <= p(limit), p(value), p.in(1)))
  m.impl("threshold_", threshold_);
}

void add_gradients(torch::Library& m) {
  POINTWISE(GRADIENT(elu), CORE(elu_backward),
            (Pointwise& p, T, S a, S s, S i, bool is_result, T),
            elu_gradient(p, a, s, i, is_result))
  POINTWISE(GRADIENT(gelu), CORE(gelu_backward),
            (Pointwise& p, T, T, std::string_view how),
            p.in(0) * gelu_slope(p.in(1), how))
  POINTWISE(GRADIENT(hardshrink), CORE(hardshrink_backward), (Pointwise& p, T, T, S l),
            select(abs(p.in(1)) > p(l), p.in(0), 0.0))
  POINTWISE(GRADIENT(hardsigmoid), CORE(hardsigmoid_backward), (Pointwise& p, T, T),
            select(abs(p.in(1)) < 3.0, p.in(0) * (1.0 / 6), 0.0))
  POINTWISE((FunctionalName{"hardswish_backward"}), gradient_meta, (Pointwise& p, T, T),
            hardswish_slope(p.in(0), p.in(1)))
  POINTWISE(GRADIENT(hardtanh), range_gradient_meta, (Pointwise& p, T, T, S lo, S hi),
            select((p.in(1) > p(lo)) & (p.in(1) < p(hi)), p.in(0), 0.0))
  POINTWISE(GRADIENT(leaky_relu), CORE(leaky_relu_backward),
            (Pointwise& p, T, T, S slope, bool),
            select(p.in(0) > 0.0, p.in(1), p.in(1) * p(slope)))
  POINTWISE(GRADIENT(logit), CORE(logit_backward),
            (Pointwise& p, T, T, std::optional<double> eps),
            logit_slope(p.in(0), p.in(1), eps))
  POINTWISE((FunctionalName{"mish_backward"}), gradient_meta, (Pointwise& p, T, T),
            p.in(0) * mish_slope(p.in(1)))
  POINTWISE(GRADIENT(sigmoid), CORE(sigmoid_backward), (Pointwise& p, T, T),
            p.in(0) * (1.0 - p.in(1)) * p.in(1))
  POINTWISE(GRADIENT(silu), CORE(silu_backward), (Pointwise& p, T, T),
            p.in(0) * silu_slope(p.in(1)))
  POINTWISE(GRADIENT(softplus), CORE(softplus_backward),
            (Pointwise& p, T, T, S beta, S threshold),
            softplus_gradient(p.in(0), p.in(1), beta.toDouble(), threshold.toDouble()))
  POINTWISE(GRADIENT(softshrink), CORE(softshrink_backward), (Pointwise& p, T, T, S l),
            select(abs(p.in(1)) > p(l), p.in(0), 0.0))
  POINTWISE(GRADIENT(tanh), CORE(tanh_backward), (Pointwise& p, T, T),
            p.in(0) * (1.0 - p.in(1) * p.in(1)))
  POINTWISE(GRADIENT(threshold), CORE(threshold_backward), (Pointwise& p, T, T, S limit),
            select(p.in(0) <= p(limit), 0.0, p.in(1)))
}

// The operators below do not fit POINTWISE: they have two results, or take halves of a
// tensor.

OpName glu_backward_name, prelu_backward_name;

Tensor& glu_backward_out(T grad, T self, int64_t dim, Tensor& out) {
  check_tensor_device(grad, self.device());
  glu_backward_name.check_type(self.scalar_type());
  const int64_t d = c10::maybe_wrap_dim(dim, self.dim());
  const int64_t half = self.size(d) / 2;
  TORCH_CHECK(
      self.size(d) % 2 == 0,
      "Halving dimension must be even, but dimension ",
      d,
      " is size ",
      self.size(d));
  at::native::resize_output(out, self.sizes());
  Step s(glu_backward_name.id, grad, grad.scalar_type());
  const Value g = s.load(grad);
  const Value a = s.load(self.narrow(d, 0, half));
  const Value gate = sigmoid(s.load(self.narrow(d, half, half)));
  s.store(out.narrow(d, 0, half), g * gate);
  s.store(out.narrow(d, half, half), g * a * gate * (1.0 - gate));
  s.run();
  return out;
}

Tensor glu_backward(T grad, T self, int64_t dim) {
  Tensor out = empty(self.sizes(), {}, self.options());
  return glu_backward_out(grad, self, dim, out);
}

// The caller has broadcast weight to the dimensions of self.
std::tuple<Tensor, Tensor> prelu_backward(T grad, T self, T weight) {
  check_tensor_device(grad, self.device());
  check_tensor_device(weight, self.device());
  prelu_backward_name.check_type(self.scalar_type());
  const Tensor by_self = at::empty_like(self), by_weight = at::empty_like(self);
  Step s(prelu_backward_name.id, self, self.scalar_type());
  const Value x = s.load(self), g = s.load(grad);
  s.store(by_self, select(x > 0.0, g, g * s.load(weight)));
  s.store(by_weight, select(x > 0.0, 0.0, g * x));
  s.run();
  return {by_self, by_weight};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_activations(m);
  add_gradients(m);
  glu_backward_name.set("glu_backward");
  prelu_backward_name.set("_prelu_kernel_backward");
  m.impl("glu_backward", glu_backward);
  m.impl("glu_backward.grad_input", glu_backward_out);
  m.impl("_prelu_kernel_backward", prelu_backward);
}

} // namespace openreg
