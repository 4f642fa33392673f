// SPDX-License-Identifier: BSD-3-Clause
// Gamma variates by the rejection method of Marsaglia and Tsang. Every round draws for
// all elements; an element keeps its first accepted number.
#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <limits>

#include "aten/convention.h"
#include "aten/random.h"
#include "aten/step.h"

namespace openreg {

namespace {

using at::Tensor;

OpName gamma_name;

// A round accepts at least 95 of 100 numbers. After this many rounds, one or two elements
// of 10^8 have no number, and take the most likely one.
constexpr int kRounds = 6;
constexpr double kNone = -1;

// The parameter d of the method: alpha - 1/3. Uses alpha + 1 if alpha is less than 1: see
// widen().
Tensor centers(const Tensor& alpha, const Tensor& like) {
  const Tensor out = at::empty(like.sizes(), like.options());
  Step s(gamma_name.id, out, out.scalar_type());
  const uint8_t to = s.add(out);
  const Value a = s.load(alpha);
  s.program.store(to, select(a < 1.0, a + 1.0, a) - 1.0 / 3);
  s.run();
  return out;
}

void draw_round(const Tensor& out, const Tensor& center, const OptGenerator& generator, int round) {
  const uint8_t type = vector_type(out.scalar_type());
  draw({gamma_name.id, generator, type, {out}, {center}}, [&](Program& p, Draws& draws) {
    const Value d = p.load(1, type), x = draws.normal(type), one = number(d, 1.0);
    const Value y = x * (rsqrt(d) * (1.0 / 3)) + one, v = y * y * y;
    // The comparison rejects NaN: from the logarithm of a negative v, or from alpha.
    const Value most = (one - v + log(v)) * d + x * x * 0.5;
    const Value accepted = log(draws.open_uniform(type)) < most, none = number(d, kNone);
    const Value drawn = select(accepted, d * v, round + 1 == kRounds ? d : none);
    if (round == 0) {
      p.store(0, drawn);
    } else {
      const Value before = p.load(0, type);
      p.store(0, select(before == none, drawn, before));
    }
  });
}

template <class T>
double least() {
  return static_cast<double>(std::numeric_limits<T>::min());
}

// Converts numbers that were drawn for alpha + 1 to numbers for alpha, if alpha is less
// than 1.
void widen(const Tensor& out, const Tensor& alpha, const OptGenerator& generator) {
  const uint8_t type = vector_type(out.scalar_type());
  const double smallest = out.scalar_type() == at::kDouble ? least<double>() : least<float>();
  draw({gamma_name.id, generator, type, {out}, {alpha}}, [&](Program& p, Draws& draws) {
    const Value a = p.load(1, type), drawn = p.load(0, type);
    const Value scale = exp(log(draws.open_uniform(type)) / a);
    p.store(0, max(select(a < 1.0, drawn * scale, drawn), smallest));
  });
}

Tensor standard_gamma(const Tensor& alpha, OptGenerator generator) {
  if (!alpha.is_floating_point() || card_dtype(alpha.scalar_type()) == 0) {
    return fallback<Tensor, const Tensor&, OptGenerator>(gamma_name, alpha, generator);
  }
  // Draw into one dimension: with more dimensions than a packet holds, draw() uses a
  // temporary copy, and a round could not read the result of the round before.
  const Tensor shape = alpha.contiguous().view({-1});
  const Tensor out =
      at::empty(shape.sizes(), shape.options().dtype(at::toOpMathType(alpha.scalar_type())));
  const Tensor center = centers(shape, out);
  for (int round = 0; round < kRounds; round++) {
    draw_round(out, center, generator, round);
  }
  widen(out, shape, generator);
  const Tensor found = out.to(alpha.scalar_type()).view(alpha.sizes());
  // Rounding to half may give 0, and the logarithm of 0 is infinite.
  return alpha.scalar_type() == at::kHalf ? found.clamp_min_(least<at::Half>()) : found;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  gamma_name.set("_standard_gamma");
  m.impl("_standard_gamma", standard_gamma);
}

} // namespace openreg
