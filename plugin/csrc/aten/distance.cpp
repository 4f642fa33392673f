// SPDX-License-Identifier: BSD-3-Clause
// cdist: the distances of all pairs of rows. One reduction over [batch, row, row,
// channel] computes them, so the differences need no memory.
#include "aten/convention.h"
#include "aten/step.h"

#include <ATen/ExpandUtils.h>
#include <torch/library.h>

#include <algorithm>
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
  // Calls fn(pairs, cut, part) for runs of a's rows. Each run stays below a packet's
  // limit of work. cut() takes the same run out of a tensor with all rows.
  template <class Fn>
  void for_each_run(c10::DeviceIndex device, Fn&& fn) const {
    const int64_t dim = a.dim() - 3, rows = sizes[dim];
    const double each = static_cast<double>(c10::multiply_integers(sizes)) /
        static_cast<double>(rows);
    const double fit = std::clamp(
        std::floor(max_work(device) / each), 1.0, static_cast<double>(rows));
    const auto most = static_cast<int64_t>(fit);
    for (int64_t i = 0; i < rows; i += most) {
      const int64_t n = std::min(most, rows - i);
      Pairs some(*this);
      some.sizes[dim] = n;
      some.a = a.narrow(dim, i, n);
      fn(some,
         [&](const Tensor& t) { return t.narrow(dim, i, n); },
         i == 0 ? Part::FIRST : Part::FURTHER);
    }
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
  if (out.numel() == 0) {
    return out;
  }
  const uint8_t op = std::isinf(p) ? OPENREG_V_RED_MAX : OPENREG_V_RED_SUM;
  pairs.for_each_run(x1.get_device(), [&](const Pairs& some, auto cut, Part part) {
    Step s(forward_name.id, some.sizes, x1.get_device(), x1.scalar_type());
    const Value a = s.load(some.a);
    s.reduce(op, cut(out.unsqueeze(-1)), term(a - s.load(some.b), p), some.dim_from_end(1));
    s.run(part);
  });
  if (p != 0 && p != 1 && !std::isinf(p)) {
    take_root(out, p);
  }
  return out;
}

// The derivative of the distance with respect to one difference d.
Value slope(Value d, Value distance, double p) {
  if (p == 1) {
    return sign(d);
  }
  if (std::isinf(p)) {
    return sign(d) * d.program->convert(abs(d) == distance, d.type);
  }
  Value inner = p == 2 ? d / distance
                       : sign(d) * pow(abs(d), p - 1) / pow(distance, p - 1);
  // The power of 0 is infinite for p < 1.
  inner = p < 1 ? select(d == 0.0, 0.0, inner) : inner;
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
  backward_name.check_type(x1.scalar_type());
  pairs.for_each_run(x1.get_device(), [&](const Pairs& some, auto cut, Part part) {
    Step s(backward_name.id, some.sizes, x1.get_device(), x1.scalar_type());
    const Value d = s.load(some.a) - s.load(some.b);
    const Value g = s.load(cut(grad.unsqueeze(-1)));
    const Value f = slope(d, s.load(cut(distance.unsqueeze(-1))), p);
    s.sum(cut(out.unsqueeze(-2)), g * f, some.dim_from_end(2));
    s.run(part);
  });
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
