// SPDX-License-Identifier: BSD-3-Clause
// cdist: distances of all pairs of rows, one reduction over [batch, row, row,
// channel] without holding the differences.
#include "aten/convention.h"
#include "aten/step.h"

#include <ATen/ExpandUtils.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

namespace openreg {

namespace {

using at::Tensor;

OpName forward_name, backward_name;

Value term(Value d, double p) {
  if (p == 0) {
    return d.program->convert(d != 0.0, d.type);
  }
  if (p == 1 || std::isinf(p)) {
    return abs(d);
  }
  return p == 2 ? d * d : pow(abs(d), p);
}

void take_root(const Tensor& out, double p) {
  Step s(forward_name.id, out, out.scalar_type());
  const auto operand = s.add(out);
  const Value v = s.load(operand);
  s.program.store(operand, p == 2 ? sqrt(v) : pow(v, 1.0 / p));
  s.run(Part::FURTHER);
}

// [batch..., rows, 1, channels] and [batch..., 1, rows, channels].
struct Pairs {
  Pairs(const Tensor& x1, const Tensor& x2) {
    const auto batch = at::infer_size(
        x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
    const auto spread = [&](const Tensor& t, int64_t dim) {
      auto sizes = batch;
      sizes.push_back(t.size(-2));
      sizes.push_back(t.size(-1));
      return t.expand(sizes).unsqueeze(dim);
    };
    a = spread(x1, -2);
    b = spread(x2, -3);
    sizes = at::infer_size(a.sizes(), b.sizes());
  }
  Space::Mask dim_from_end(int64_t d) const {
    return Space::Mask(1) << (sizes.size() - d);
  }
  Tensor a, b;
  std::vector<int64_t> sizes;
};

Tensor forward(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t>) {
  TORCH_CHECK(
      at::isFloatingType(x1.scalar_type()) && x1.scalar_type() == x2.scalar_type(),
      "cdist only supports floating-point dtypes, of one kind, X1 got: ",
      x1.scalar_type(),
      ", X2 got: ",
      x2.scalar_type());
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  check_tensor_device(x2, x1.device());
  TORCH_CHECK(
      x1.dim() >= 2 && x2.dim() >= 2 && x1.size(-1) == x2.size(-1),
      "X1 and X2 must have the same number of columns. X1: ",
      x1.sizes(),
      " X2: ",
      x2.sizes());
  const Pairs pairs(x1, x2);
  const Tensor out = empty(
      at::IntArrayRef(pairs.sizes).slice(0, pairs.sizes.size() - 1), {}, x1.options());
  if (x1.size(-1) == 0) {
    return out.zero_();
  }
  Step s(forward_name.id, pairs.sizes, x1.get_device(), x1.scalar_type());
  const Value a = s.load(pairs.a);
  const uint8_t op = std::isinf(p) ? OPENREG_V_RED_MAX : OPENREG_V_RED_SUM;
  s.reduce(op, out.unsqueeze(-1), term(a - s.load(pairs.b), p), pairs.dim_from_end(1));
  s.run();
  if (p != 0 && p != 1 && !std::isinf(p)) {
    take_root(out, p);
  }
  return out;
}

// The derivative of the distance by one of its differences.
Value slope(Value d, Value distance, double p) {
  if (p == 1) {
    return sign(d);
  }
  if (std::isinf(p)) {
    return sign(d) * d.program->convert(abs(d) == distance, d.type);
  }
  const Value inner = p == 2 ? d / distance
                             : sign(d) * pow(abs(d), p - 1) / pow(distance, p - 1);
  return select(distance == 0.0, 0.0, inner);
}

Tensor backward(
    const Tensor& grad,
    const Tensor& x1,
    const Tensor& x2,
    double p,
    const Tensor& distance) {
  const Pairs pairs(x1, x2);
  auto sizes = pairs.sizes;
  sizes.erase(sizes.end() - 2);
  const Tensor out = empty(sizes, {}, x1.options());
  if (p == 0 || c10::multiply_integers(pairs.sizes) == 0) {
    return out.zero_();
  }
  Step s(backward_name.id, pairs.sizes, x1.get_device(), x1.scalar_type());
  const Value d = s.load(pairs.a) - s.load(pairs.b);
  const Value g = s.load(grad.unsqueeze(-1));
  s.sum(out.unsqueeze(-2), g * slope(d, s.load(distance.unsqueeze(-1)), p), pairs.dim_from_end(2));
  s.run();
  return out;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  forward_name.set("_cdist_forward");
  backward_name.set("_cdist_backward");
  m.impl("_cdist_forward", forward);
  m.impl("_cdist_backward", backward);
}

} // namespace openreg
