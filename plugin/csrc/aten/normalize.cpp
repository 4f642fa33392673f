// SPDX-License-Identifier: BSD-3-Clause
// Normalization with VECTOR packets, one for each direction: the card keeps a row in its
// cache from the sums to the pass that needs them. Gradients of weights are a second packet.
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

// The operands of a packet.
struct Operands {
  Operands(Step& s, const Normalized& n)
      : x(s.add_read(n.x)),
        mean(add(s, n.mean)),
        rstd(add(s, n.rstd)),
        weight(add(s, n.weight)) {}
  static std::optional<uint8_t> add(Step& s, const Tensor& t) {
    return t.defined() ? std::optional(s.add_read(t)) : std::nullopt;
  }
  uint8_t x;
  std::optional<uint8_t> mean, rstd, weight;
};

Value centred(Step& s, const Operands& o) {
  const Value v = s.load(o.x);
  return o.mean ? v - s.load(*o.mean) : v;
}

Value standardised(Step& s, const Operands& o) {
  const Value v = centred(s, o);
  return v * s.load(*o.rstd);
}

Value weighted(Step& s, uint8_t grad, const Operands& o) {
  const Value g = s.load(grad);
  return o.weight ? g * s.load(*o.weight) : g;
}

Value affine(Step& s, Value y, const Tensor& weight, const Tensor& bias) {
  y = weight.defined() ? y * s.load(weight) : y;
  return bias.defined() ? y + s.load(bias) : y;
}

} // namespace

Tensor statistics_like(const Tensor& x, at::IntArrayRef sizes) {
  return empty(sizes, {}, x.options().dtype(statistics_type(x.scalar_type())));
}

void normalize(OpId id, const Tensor& out, const Normalized& n, const Tensor& bias, double eps) {
  const auto dims = folded(n.x, n.rstd);
  const double scale = share(n.x, n.rstd);
  Step s = over(id, n.x);
  const auto result = s.add(out);
  const auto x = s.add_read(n.x);
  std::optional<Value> mean;
  if (n.mean.defined()) {
    mean = s.sum(n.mean, s.load(x), dims, scale);
  }
  const auto centred = [&] { return mean ? s.load(x) - *mean : s.load(x); };
  const Value d = centred();
  const Value variance = s.sum({}, d * d, dims, scale);
  const Value rstd = rsqrt(variance + eps);
  s.store(n.rstd, rstd);
  s.program.store(result, affine(s, centred() * rstd, n.weight, bias));
  s.run();
}

void apply(OpId id, const Tensor& out, const Normalized& n, const Tensor& bias) {
  Step s = over(id, n.x);
  const auto result = s.add(out);
  const Operands o(s, {n.x, n.mean, n.rstd, {}});
  s.program.store(result, affine(s, standardised(s, o), n.weight, bias));
  s.run(Part::FURTHER);
}

// out = rstd * (g - mean of g - xhat * mean of g * xhat), where g = grad * weight. Factors that
// are the same for a row are outside of the sum, and in one product.
void input_gradient(OpId id, const Tensor& out, const Tensor& grad, const Normalized& n) {
  const auto dims = folded(n.x, n.rstd);
  const double scale = share(n.x, n.rstd);
  Step s = over(id, n.x);
  const auto result = s.add(out);
  const auto dy = s.add_read(grad);
  const Operands o(s, n);
  const Value g = weighted(s, dy, o);
  const Value product = g * centred(s, o);
  std::optional<Value> mean;
  if (n.mean.defined()) {
    mean = s.sum({}, g, dims, scale);
  }
  const Value dot = s.sum({}, product, dims, scale);
  const Value rstd = s.load(*o.rstd);
  const Value slope = dot * rstd * rstd;
  Value d = weighted(s, dy, o);
  d = mean ? d - *mean : d;
  s.program.store(result, (d - centred(s, o) * slope) * rstd);
  s.run();
}

void parameter_gradients(
    OpId id, const ParameterGradients& out, const Tensor& grad, const Normalized& n, Part part) {
  const Tensor& any = out.weight.defined() ? out.weight : out.bias;
  if (!any.defined()) {
    return;
  }
  if (n.x.numel() == 0) {
    for (const Tensor& t : {out.weight, out.bias}) {
      if (t.defined()) {
        t.zero_();
      }
    }
    return;
  }
  const auto dims = folded(n.x, any);
  Step s = over(id, n.x);
  const Value g = s.load(grad);
  std::optional<Value> product;
  if (out.weight.defined()) {
    const Operands o(s, {n.x, n.mean, n.rstd, {}});
    product = g * standardised(s, o);
  }
  if (out.bias.defined()) {
    s.sum(out.bias, g, dims);
  }
  if (product) {
    s.sum(out.weight, *product, dims);
  }
  s.run(part);
}

} // namespace openreg
