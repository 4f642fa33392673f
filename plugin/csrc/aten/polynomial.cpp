// SPDX-License-Identifier: BSD-3-Clause
// Orthogonal polynomials of a degree that differs by element: their recurrences
// run to the greatest one, in F64, and every element takes its own.
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

namespace openreg {

namespace {

using at::Tensor;

// P0 = 1, P1 = slope x + offset, P(k+1) = (x a + b) Pk - c P(k-1).
struct Recurrence {
  double a, b, c;
};

template <int Slope, int Offset, bool Shifted = false>
struct Chebyshev {
  static constexpr double slope = Slope, offset = Offset;
  static constexpr bool shifted = Shifted;
  static Recurrence at(double) {
    return {2, 0, 1};
  }
};

struct HermiteH {
  static constexpr double slope = 2, offset = 0;
  static constexpr bool shifted = false;
  static Recurrence at(double k) {
    return {2, 0, 2 * k};
  }
};

struct HermiteHe {
  static constexpr double slope = 1, offset = 0;
  static constexpr bool shifted = false;
  static Recurrence at(double k) {
    return {1, 0, k};
  }
};

struct Laguerre {
  static constexpr double slope = -1, offset = 1;
  static constexpr bool shifted = false;
  static Recurrence at(double k) {
    return {-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1)};
  }
};

struct Legendre {
  static constexpr double slope = 1, offset = 0;
  static constexpr bool shifted = false;
  static Recurrence at(double k) {
    return {(2 * k + 1) / (k + 1), 0, k / (k + 1)};
  }
};

template <class Family>
class Evaluation {
 public:
  Evaluation(OpId id, const Tensor& x, const Tensor& n, const Tensor& out)
      : id_(id), x_(x.to(out.device())), n_(n.to(out.device())), out_(out) {
    const auto options = out.options().dtype(at::kDouble);
    for (Tensor* t : {&last_, &next_, &result_}) {
      *t = at::empty(out.sizes(), options);
    }
  }

  void run(int64_t greatest) {
    begin();
    for (int64_t k = 1; k < greatest; k += kSteps) {
      advance(k);
    }
    const_cast<Tensor&>(out_).copy_(result_);
  }

 private:
  static constexpr int kSteps = 3; // immediates are scarce

  Value argument(Step& s) {
    const Value x = s.load(x_);
    return Family::shifted ? x * 2.0 - 1.0 : x;
  }

  void begin() {
    Step s(id_, result_, at::kDouble);
    const Value x = argument(s), n = trunc(s.load(n_));
    const Value p1 = x * Family::slope + Family::offset;
    const Value one = number(x, 1.0);
    s.store(last_, one);
    s.store(next_, p1);
    s.store(result_, select(n == one, p1, select(n == 0.0, one, number(x, 0.0))));
    s.run();
  }

  void advance(int64_t first) {
    Step s(id_, result_, at::kDouble);
    const uint8_t result_at = s.add(result_), last_at = s.add(last_), next_at = s.add(next_);
    const Value x = argument(s), n = trunc(s.load(n_));
    Value result = s.load(result_at), last = s.load(last_at), next = s.load(next_at);
    for (int64_t k = first; k < first + kSteps; k++) {
      const Recurrence r = Family::at(static_cast<double>(k));
      const Value after = (x * r.a + r.b) * next - last * r.c;
      last = next;
      next = after;
      result = select(n == static_cast<double>(k + 1), next, result);
    }
    s.program.store(result_at, result);
    s.program.store(last_at, last);
    s.program.store(next_at, next);
    s.run(Part::FURTHER);
  }

  OpId id_;
  Tensor x_, n_, out_, last_, next_, result_;
};

template <class Family>
struct Polynomial {
  // A greater degree takes the CPU's closed forms.
  static constexpr int64_t kMost = 128;
  static bool serves(const Tensor&, const Tensor& n) {
    return n.numel() == 0 || greatest(n) <= kMost;
  }
  static int64_t greatest(const Tensor& n) {
    return n.to(at::kDouble).nan_to_num(0).clamp(0, kMost + 1).max().item().to<int64_t>();
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
