// SPDX-License-Identifier: BSD-3-Clause
// Orthogonal polynomials with a degree for each element. The recurrence runs to the
// greatest degree, in F64, and every element keeps the value at its own degree.
#include "aten/step.h"
#include "aten/structured.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/special_chebyshev_polynomial_t_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_u_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_v_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_w_meta.h>
#include <ATen/ops/special_hermite_polynomial_h_meta.h>
#include <ATen/ops/special_hermite_polynomial_he_meta.h>
#include <ATen/ops/special_laguerre_polynomial_l_meta.h>
#include <ATen/ops/special_legendre_polynomial_p_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_t_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_u_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_v_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_w_meta.h>

#include <algorithm>
#include <cmath>

namespace openreg {

namespace {

using at::Tensor;

// P0 = 1, P1 = slope x + offset, P(k+1) = (x a + b) Pk - c P(k-1). A packet can hold the
// instructions and immediates of `steps` steps.
struct Recurrence {
  double a, b, c;
};

template <int Slope, int Offset, bool Shifted = false>
struct Chebyshev {
  static constexpr double slope = Slope, offset = Offset;
  static constexpr bool shifted = Shifted;
  static constexpr int steps = 7;
  static Recurrence at(double) {
    return {2, 0, 1};
  }
};

struct HermiteH {
  static constexpr double slope = 2, offset = 0;
  static constexpr bool shifted = false;
  static constexpr int steps = 7;
  static Recurrence at(double k) {
    return {2, 0, 2 * k};
  }
};

struct HermiteHe {
  static constexpr double slope = 1, offset = 0;
  static constexpr bool shifted = false;
  static constexpr int steps = 7;
  static Recurrence at(double k) {
    return {1, 0, k};
  }
};

struct Laguerre {
  static constexpr double slope = -1, offset = 1;
  static constexpr bool shifted = false;
  static constexpr int steps = 4;
  static Recurrence at(double k) {
    return {-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1)};
  }
};

struct Legendre {
  static constexpr double slope = 1, offset = 0;
  static constexpr bool shifted = false;
  static constexpr int steps = 6;
  static Recurrence at(double k) {
    return {(2 * k + 1) / (k + 1), 0, k / (k + 1)};
  }
};

template <class Family>
class Evaluation {
 public:
  Evaluation(OpId id, const Tensor& x, const Tensor& n, const Tensor& out)
      : id_(id), x_(x.to(out.device())), n_(n.to(out.device())), out_(out) {}

  void run(int64_t greatest) {
    if (greatest > 1 + Family::steps) {
      const auto options = out_.options().dtype(at::kDouble);
      last_ = at::empty(out_.sizes(), options);
      next_ = at::empty(out_.sizes(), options);
    }
    int64_t k = 1;
    do {
      advance(k, greatest);
      k += Family::steps;
    } while (k < greatest);
  }

 private:
  // Continues from P(first - 1) and P(first). An element of degree k keeps its P(k).
  void advance(int64_t first, int64_t greatest) {
    Step s(id_, out_, at::kDouble);
    const bool ends = first + Family::steps >= greatest;
    const uint8_t to = s.add(ends ? out_ : next_), from = first > 1 && ends ? s.add(next_) : to;
    const Value one = s.program(1.0);
    const Value loaded = s.load(x_), x = Family::shifted ? loaded * 2.0 - one : loaded;
    const Value n = trunc(s.load(n_));
    const Value scaled = times(x, Family::at(1).a); // reused while the factor is the same
    Value last = one, next = one, left = n;
    if (first == 1) {
      next = Family::slope == Family::at(1).a ? scaled : times(x, Family::slope);
      next = plus(next, Family::offset);
    } else {
      last = s.load(last_), next = s.load(from);
      left = n - static_cast<double>(first - 1);
    }
    for (int64_t k = first; k < std::min(first + Family::steps, greatest); k++) {
      const Recurrence r = Family::at(static_cast<double>(k));
      const Value factor = plus(r.a == Family::at(1).a ? scaled : times(x, r.a), r.b);
      const Value after = r.c == 1 ? factor * next - last : fma(factor, next, last * -r.c);
      last = next;
      next = select(left > one, after, next);
      left = k + 1 < greatest ? left - one : left;
    }
    if (ends) {
      next = select(n >= one, next, select(n == 0.0, one, 0.0));
    } else {
      s.store(last_, last);
    }
    s.program.store(to, next);
    s.run(first == 1 ? Part::FIRST : Part::FURTHER);
  }

  static Value times(Value v, double factor) {
    return factor == 1 ? v : v * factor;
  }
  static Value plus(Value v, double term) {
    return term == 0 ? v : v + term;
  }

  OpId id_;
  Tensor x_, n_, out_, last_, next_;
};

template <class Family>
struct Polynomial {
  // Leave greater degrees to the CPU, which uses closed forms.
  static constexpr int64_t kMost = 128;
  static bool serves(const Tensor&, const Tensor& n) {
    return n.numel() == 0 || greatest(n) <= kMost;
  }
  static int64_t greatest(const Tensor& n) {
    double most = n.max().item().toDouble();
    if (std::isnan(most)) { // a NaN is no degree: ignore it
      most = n.nan_to_num(0).max().item().toDouble();
    }
    return static_cast<int64_t>(std::clamp(most, 0.0, kMost + 1.0));
  }

  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& x, const Tensor& n) const {
    const Tensor& out = op.maybe_get_output(0);
    if (out.numel() != 0) {
      Evaluation<Family>(id, x, n, out).run(greatest(n));
    }
  }
};

#define OPENREG_POLYNOMIAL(name, ...)                                    \
  add_op<at::meta::structured_special_##name>(                           \
      m,                                                                 \
      NamesWithoutInplace{"special_" #name, "special_" #name ".out"},    \
      Polynomial<__VA_ARGS__>());

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OPENREG_POLYNOMIAL(chebyshev_polynomial_t, Chebyshev<1, 0>)
  OPENREG_POLYNOMIAL(chebyshev_polynomial_u, Chebyshev<2, 0>)
  OPENREG_POLYNOMIAL(chebyshev_polynomial_v, Chebyshev<2, -1>)
  OPENREG_POLYNOMIAL(chebyshev_polynomial_w, Chebyshev<2, 1>)
  OPENREG_POLYNOMIAL(shifted_chebyshev_polynomial_t, Chebyshev<1, 0, true>)
  OPENREG_POLYNOMIAL(shifted_chebyshev_polynomial_u, Chebyshev<2, 0, true>)
  OPENREG_POLYNOMIAL(shifted_chebyshev_polynomial_v, Chebyshev<2, -1, true>)
  OPENREG_POLYNOMIAL(shifted_chebyshev_polynomial_w, Chebyshev<2, 1, true>)
  OPENREG_POLYNOMIAL(hermite_polynomial_h, HermiteH)
  OPENREG_POLYNOMIAL(hermite_polynomial_he, HermiteHe)
  OPENREG_POLYNOMIAL(laguerre_polynomial_l, Laguerre)
  OPENREG_POLYNOMIAL(legendre_polynomial_p, Legendre)
}

} // namespace openreg
