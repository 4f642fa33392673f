// SPDX-License-Identifier: BSD-3-Clause
// Normalization with VECTOR packets. Forward takes one or two sums and one pass. Backward
// takes two sums over the statistics' dimensions, one pass, and two sums for the weights.
#include "aten/normalize.h"

#include "aten/step.h"

namespace openreg {

namespace {

using at::Tensor;

Space::Mask folded(const Tensor& x, const Tensor& result) {
  Space::Mask mask;
  for (int64_t i = 0; i < x.dim(); i++) {
    mask[i] = result.size(i) == 1;
  }
  return mask;
}

double share(const Tensor& x, const Tensor& result) {
  return static_cast<double>(result.numel()) / static_cast<double>(x.numel());
}

Step over(OpId id, const Tensor& x) {
  return Step(id, x, statistics_type(x.scalar_type()));
}

Value centred(Step& s, const Tensor& x, const Tensor& mean) {
  const Value v = s.load(x);
  return mean.defined() ? v - s.load(mean) : v;
}

Value standardised(Step& s, const Normalized& n) {
  const Value v = centred(s, n.x, n.mean);
  return v * s.load(n.rstd);
}

Value weighted(Step& s, const Tensor& grad, const Tensor& weight) {
  const Value g = s.load(grad);
  return weight.defined() ? g * s.load(weight) : g;
}

} // namespace

Tensor statistics_like(const Tensor& x, at::IntArrayRef sizes) {
  return empty(sizes, {}, x.options().dtype(statistics_type(x.scalar_type())));
}

void moments(OpId id, const Tensor& x, const Tensor& mean, const Tensor& variance) {
  const auto dims = folded(x, variance);
  const double scale = share(x, variance);
  if (mean.defined()) {
    Step s = over(id, x);
    const Value v = s.load(x);
    s.sum(mean, v, dims, scale);
    s.run();
  }
  Step s = over(id, x);
  const Value d = centred(s, x, mean);
  s.sum(variance, d * d, dims, scale);
  s.run(mean.defined() ? Part::FURTHER : Part::FIRST);
}

void finish_rstd(OpId id, const Tensor& rstd, double eps) {
  Step s = over(id, rstd);
  const auto operand = s.add(rstd);
  s.program.store(operand, rsqrt(s.load(operand) + eps));
  s.run(Part::FURTHER);
}

void apply(OpId id, const Tensor& out, const Normalized& n, const Tensor& bias) {
  Step s = over(id, n.x);
  const auto result = s.add(out);
  Value y = standardised(s, n);
  y = n.weight.defined() ? y * s.load(n.weight) : y;
  s.program.store(result, bias.defined() ? y + s.load(bias) : y);
  s.run(Part::FURTHER);
}

// out = rstd * (g - mean of g - xhat * mean of g * xhat), where g = grad * weight.
void input_gradient(OpId id, const Tensor& out, const Tensor& grad, const Normalized& n) {
  const auto dims = folded(n.x, n.rstd);
  const double scale = share(n.x, n.rstd);
  const Tensor dot = statistics_like(n.x, n.rstd.sizes());
  Tensor sum;
  {
    Step s = over(id, n.x);
    const Value g = weighted(s, grad, n.weight);
    s.sum(dot, g * standardised(s, n), dims, scale);
    s.run();
  }
  if (n.mean.defined()) {
    sum = statistics_like(n.x, n.rstd.sizes());
    Step s = over(id, n.x);
    s.sum(sum, weighted(s, grad, n.weight), dims, scale);
    s.run(Part::FURTHER);
  }
  Step s = over(id, n.x);
  const auto result = s.add(out);
  Value d = weighted(s, grad, n.weight);
  d = sum.defined() ? d - s.load(sum) : d;
  const Value rstd = s.load(n.rstd);
  const Value xhat = centred(s, n.x, n.mean) * rstd;
  s.program.store(result, rstd * (d - xhat * s.load(dot)));
  s.run(Part::FURTHER);
}

void weight_gradient(OpId id, const Tensor& out, const Tensor& grad, const Normalized& n) {
  if (n.x.numel() == 0) {
    out.zero_();
    return;
  }
  Step s = over(id, n.x);
  const Value g = s.load(grad);
  s.sum(out, g * standardised(s, n), folded(n.x, out));
  s.run(Part::FURTHER);
}

void bias_gradient(OpId id, const Tensor& out, const Tensor& grad) {
  if (grad.numel() == 0) {
    out.zero_();
    return;
  }
  Step s = over(id, grad);
  const Value g = s.load(grad);
  s.sum(out, g, folded(grad, out));
  s.run(Part::FURTHER);
}

} // namespace openreg
