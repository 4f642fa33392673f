// SPDX-License-Identifier: BSD-3-Clause
// digamma, polygamma and the Hurwitz zeta function. A recurrence shifts the argument to a
// range where an asymptotic series is exact. All are computed in F64.
#include "aten/step.h"
#include "aten/structured.h"

#include <ATen/ops/digamma.h>
#include <ATen/ops/digamma_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/polygamma_meta.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/special_zeta_meta.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>

namespace openreg {

namespace {

using at::Tensor;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor double_like(const Tensor& t) {
  return at::empty(t.sizes(), t.options().dtype(at::kDouble));
}

// For y >= 0: psi(y) = psi(y + 8) - sum of 1 / (y + k). Two terms of the sum share one
// denominator.
Value psi(Value y) {
  const Value near = min(y, 1e30);
  const Value far_end = near + 7.0, u = near * far_end;
  const Value sum =
      recip(u) + recip(u + 6.0) + recip(u + 10.0) + recip(u + 12.0);
  const Value z = y + 8.0, r = recip(z * z);
  constexpr double c[] = {1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760, 1. / 12};
  Value series = number(y, c[6]);
  for (int i = 5; i >= 0; i--) {
    series = fma(series, r, number(r, c[i]));
  }
  return log(z) - recip(z + z) - series * r - sum * (near + far_end);
}

struct Digamma {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self) const {
    const Tensor& out = op.maybe_get_output(0);
    const Tensor positive = double_like(out);
    Step first(id, out, at::kDouble);
    const Value x = first.load(self);
    first.store(positive, psi(select(x < 0.0, 1.0 - x, x)));
    first.run();

    Step second(id, out, at::kDouble);
    const Value z = second.load(self), result = second.load(positive);
    const Value fraction = z - trunc(z);
    const Value mirrored = result - M_PI / tan(fraction * M_PI);
    const Value negative = select(fraction == 0.0, kNaN, mirrored);
    const Value finite = select(z < 0.0, negative, result);
    second.store(out, select(z == 0.0, -recip(z), finite));
    second.run(Part::FURTHER);
  }
};

// The Euler-Maclaurin formula. Direct terms are added until the base of a term is at
// least 10; the formula gives the rest. One packet adds at most kTerms terms.
class Zeta {
 public:
  Zeta(OpId id, const Tensor& x, const Tensor& q, at::IntArrayRef sizes)
      : id_(id), x_(x), q_(q) {
    const auto options = q.options().dtype(at::kDouble);
    base_ = at::empty(sizes, options).copy_(q);
    sum_ = at::zeros(sizes, options);
  }

  // Returns nothing if there are too many terms.
  std::optional<Tensor> run() {
    const double wanted = sum_.numel() == 0 ? 0 : terms();
    if (wanted > kMostTerms) {
      return std::nullopt;
    }
    for (double left = wanted; left > 0; left -= kTerms) {
      add_terms(static_cast<int>(std::min<double>(left, kTerms)));
    }
    add_rest();
    return sum_;
  }

 private:
  static constexpr int kTerms = 16, kMostTerms = 4096;

  // Whether choose() will ignore the sum.
  static Value chosen(Value x, Value q) {
    const Value at_pole = q == floor(q), no_power = x != floor(x);
    const Value below = (q <= 0.0) & (at_pole | no_power);
    return below | (x <= 1.0) | isnan(x) | (isfinite(q) == 0.0);
  }

  double terms() {
    const Tensor summed = at::empty(sum_.sizes(), sum_.options());
    Step s(id_, summed, at::kDouble);
    const Value x = s.load(x_), q = s.load(q_);
    s.store(summed, select(chosen(x, q), 0.0, q));
    s.run(part_);
    part_ = Part::FURTHER;
    return 10 - std::min(0.0, std::floor(summed.min().item<double>()));
  }

  void add_terms(int count) {
    Step s(id_, sum_, at::kDouble);
    const uint8_t sum_at = s.add(sum_), base_at = s.add(base_);
    const Value minus_x = -s.load(x_), one = number(minus_x, 1.0);
    Value base = s.load(base_at), sum = s.load(sum_at);
    for (int i = 0; i < count; i++) {
      sum = sum + pow(base, minus_x);
      base = base + one;
    }
    s.program.store(base_at, base);
    s.program.store(sum_at, sum);
    s.run(part_);
    part_ = Part::FURTHER;
  }

  // Adds B_2k / (2k)! x (x + 1) ... (x + 2k - 2) base^(-x - 2k + 1) for k from 1.
  void add_rest() {
    Step s(id_, sum_, at::kDouble);
    const uint8_t sum_at = s.add(sum_);
    const Value x = s.load(x_), a = s.load(base_), one = number(x, 1.0);
    const Value term = pow(a, -x), r = recip(a);
    constexpr double c[] = {1. / 12, -1. / 720, 1. / 30240, -1. / 1209600, 1. / 47900160,
                            -691. / 1307674368000};
    Value factor = x * term * r, next = x;
    Value rest = term * a / (x - one) + term * 0.5 + factor * c[0];
    const Value r2 = r * r;
    for (int k = 1; k < 6; k++) {
      const Value odd = next + one;
      next = odd + one;
      factor = factor * odd * next * r2;
      rest = fma(factor, number(x, c[k]), rest);
    }
    const Value sum = s.load(sum_at) + select(isinf(a), 0.0, rest);
    s.program.store(sum_at, sum);
    s.run(part_);
    choose();
  }

  // Replaces the sum where the series has no finite sum.
  void choose() {
    Step s(id_, sum_, at::kDouble);
    const uint8_t sum_at = s.add(sum_);
    const Value x = s.load(x_), q = s.load(q_), sum = s.load(sum_at);
    const Value below = q <= 0.0;
    const Value pole = below & (q == floor(q)), no_power = below & (x != floor(x));
    Value v = select(pole, kInf, select(no_power, kNaN, sum));
    v = select(x < 1.0, kNaN, select(x == 1.0, kInf, v));
    s.program.store(sum_at, select(isnan(x) | isnan(q), kNaN, v));
    s.run(Part::FURTHER);
  }

  OpId id_;
  Tensor x_, q_, base_, sum_;
  Part part_ = Part::FIRST;
};

struct ZetaOut {
  static inline OpName name;
};
struct PolygammaOut {
  static inline OpName name;
};

struct ZetaKernel {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& x, const Tensor& q) const {
    Tensor out = op.maybe_get_output(0);
    const auto sum = Zeta(id, x.to(out.device()), q.to(out.device()), out.sizes()).run();
    if (sum) {
      out.copy_(*sum);
    } else {
      fallback<Tensor&, const Tensor&, const Tensor&, Tensor&>(ZetaOut::name, x, q, out);
    }
  }
};

// polygamma of an order up to kMostOrder, with the accuracy of a float. Computes
// n! zeta(n + 1, y) with kShift direct terms and the Euler-Maclaurin formula. Where x is
// negative, y is 1 - x, and the reflection formula adds a derivative of the cotangent.
class ShortPolygamma {
 public:
  static bool serves(int64_t n, const Tensor& out) {
    return n <= kMostOrder && out.scalar_type() != at::kDouble;
  }

  ShortPolygamma(OpId id, int64_t n, const Tensor& x, const Tensor& out)
      : id_(id), n_(static_cast<int>(n)), x_(x), out_(out) {}

  void run() const {
    const Tensor sum = double_like(out_);
    add(sum);
    mirror(sum);
  }

 private:
  static constexpr int kMostOrder = 6, kShift = 6;

  static Value power(Value x, int n) {
    return n == 1 ? x
        : n % 2   ? power(x, n - 1) * x
                  : power(x * x, n / 2);
  }

  void add(const Tensor& result) const {
    Step s(id_, out_, at::kDouble);
    const Value x = s.load(x_), one = number(x, 1.0);
    Value base = select(x < 0.0, one - x, abs(x));
    Value sum = number(x, 0.0);
    for (int i = 0; i < kShift; i++) {
      const Value r = recip(base);
      sum = fma(power(r, n_), r, sum);
      base = base + one;
    }
    const Value r = recip(base), r2 = r * r;
    double factor = n_ + 1;
    constexpr double c[] = {1. / 12, -1. / 720, 1. / 30240, -1. / 1209600, 1. / 47900160};
    std::array<double, 5> coefficient;
    for (int k = 0; k < 5; k++) {
      coefficient[k] = c[k] * factor;
      factor *= (n_ + 2 * k + 2.0) * (n_ + 2 * k + 3.0);
    }
    Value rest = number(x, coefficient[4]);
    for (int k = 3; k >= 0; k--) {
      rest = fma(rest, r2, number(x, coefficient[k]));
    }
    rest = fma(rest, r2, fma(r, number(x, 0.5), number(x, 1.0 / n_)));
    s.store(result, fma(rest, power(r, n_), sum));
    s.run();
  }

  // The coefficients of the nth derivative of cot, as a polynomial in cot.
  std::array<double, kMostOrder + 2> derivative() const {
    std::array<double, kMostOrder + 2> p{0, 1};
    for (int i = 0; i < n_; i++) {
      std::array<double, kMostOrder + 2> next{};
      for (int k = 1; k < kMostOrder + 2; k++) {
        next[k - 1] -= k * p[k];
        if (k + 1 < kMostOrder + 2) {
          next[k + 1] -= k * p[k];
        }
      }
      p = next;
    }
    return p;
  }

  void mirror(const Tensor& sum) const {
    Step s(id_, out_, at::kDouble);
    const Value x = s.load(x_), zeta = s.load(sum);
    const double factorial = std::tgamma(n_ + 1.0), sign = n_ % 2 ? 1 : -1;
    const Value cot = recip(tan((x - rint(x)) * M_PI)), square = cot * cot;
    const auto p = derivative();
    const double scale = -std::pow(M_PI, n_ + 1);
    Value cotangents = number(x, scale * p[n_ + 1]);
    for (int k = n_ - 1; k >= 0; k -= 2) {
      cotangents = fma(cotangents, square, number(x, scale * p[k]));
    }
    if (n_ % 2 == 0) {
      cotangents = cotangents * cot;
    }
    const Value mirrored = cotangents - zeta * factorial;
    const Value negative = select(x == floor(x), sign * kInf, mirrored);
    s.store(out_, select(x < 0.0, negative, zeta * (sign * factorial)));
    s.run(Part::FURTHER);
  }

  OpId id_;
  int n_;
  const Tensor& x_;
  const Tensor& out_;
};

struct Polygamma {
  // Leave integers to the CPU: most are poles, where core's CPU kernel returns large
  // numbers.
  static bool serves(int64_t n, const Tensor& self) {
    return n == 0 || self.is_floating_point();
  }

  template <class Op>
  void operator()(OpId id, Op& op, int64_t n, const Tensor& self) const {
    Tensor out = op.maybe_get_output(0);
    if (n == 0) {
      at::digamma_out(out, self);
      return;
    }
    if (ShortPolygamma::serves(n, out)) {
      ShortPolygamma(id, n, self, out).run();
      return;
    }
    const Tensor order = at::scalar_tensor(
        static_cast<double>(n + 1), out.options().dtype(at::kDouble));
    auto sum = Zeta(id, order, self, out.sizes()).run();
    if (!sum) {
      fallback<Tensor&, int64_t, const Tensor&, Tensor&>(PolygammaOut::name, n, self, out);
      return;
    }
    const double sign = n % 2 ? 1 : -1;
    const double factorial = std::tgamma(static_cast<double>(n) + 1);
    out.copy_(sum->mul_(sign * factorial));
  }
};

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  ZetaOut::name.set("special_zeta.out");
  PolygammaOut::name.set("polygamma.out");
  add_op<at::meta::structured_digamma>(
      m, Names{"digamma", "digamma_", "digamma.out"}, Digamma());
  add_op<at::meta::structured_polygamma>(
      m, NamesWithoutInplace{"polygamma", "polygamma.out"}, Polygamma());
  add_op<at::meta::structured_special_zeta>(
      m, NamesWithoutInplace{"special_zeta", "special_zeta.out"}, ZetaKernel());
}

} // namespace openreg
