// SPDX-License-Identifier: BSD-3-Clause
// Computes the product of complex matrices A and B as one real product. The rows of one
// operand are used in place, as pairs of real numbers. There are two ways:
//  - The rows of A are used in place. Every number of B becomes the matrix
//    [[re, im], [-im, re]].
//  - The rows of B are used in place. The matrices of A's real and imaginary parts are
//    stacked.
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "aten/matmul.h"
#include "aten/step.h"
#include "runtime/checks.h"

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;

constexpr int64_t kWidth = 4096;

// Returns t as it is in memory, and whether t is the conjugate of the memory.
std::pair<Tensor, bool> stored(const Tensor& t) {
  const Tensor plain = t.resolve_neg();
  return {plain.is_conj() ? plain.conj() : plain, plain.is_conj()};
}

bool has_rows(const Tensor& t) {
  return !t.is_conj() && !t.is_neg() && (t.stride(-1) == 1 || t.size(-1) <= 1);
}

// Views [..., m, k] as [..., m, 2 k] real numbers. t must satisfy has_rows().
Tensor rows(const Tensor& t) {
  const Tensor pairs = at::view_as_real(t);
  at::DimVector sizes(t.sizes()), strides(pairs.strides().slice(0, t.dim()));
  sizes.back() *= 2;
  strides.back() = 1;
  return pairs.as_strided(sizes, strides);
}

// Returns [..., k, n] as [..., 2 k, 2 n] real numbers. A walk with large strides would be
// slow: so the row (re, im) is a plain copy, and each element of the row (-im, re) comes
// from the neighbour before or after it.
Tensor matrices(OpId id, const Tensor& t) {
  const auto [plain, conjugate] = stored(t);
  const int64_t k = t.size(-2), n = t.size(-1), all = 2 * t.numel();
  const auto type = c10::toRealValueType(t.scalar_type());
  const auto options = t.options().dtype(type);
  const Tensor out = at::empty({t.numel() / std::max<int64_t>(n, 1), 2, 2 * n}, options);
  const Tensor buffer = at::empty({all + 2}, options);
  allow_unwritten(*buffer.storage().unsafeGetStorageImpl()); // of the two ends
  const Tensor pairs = buffer.narrow(0, 1, all).view({-1, 2 * n});
  pairs.copy_(at::view_as_real(plain.contiguous()).view({-1, 2 * n}));
  const auto shifted = [&](int64_t by) { return buffer.narrow(0, 1 + by, all).view({-1, 2 * n}); };
  Step s(id, pairs, type);
  const Value here = s.load(pairs), before = s.load(shifted(-1)), after = s.load(shifted(1));
  const Value odd = s.index(1) & s.program.imm(1, OPENREG_VT_I64);
  const Value is_odd = odd == 1.0;
  s.store(out.select(1, 0), conjugate ? select(is_odd, -here, here) : here);
  s.store(out.select(1, 1), select(is_odd, before, conjugate ? after : -after));
  s.run(Part::FURTHER);
  at::DimVector flat(t.sizes().slice(0, t.dim() - 2));
  flat.append({2 * k, 2 * n});
  return out.view(flat);
}

// Whether b is so much larger than a that using b's rows in place is faster.
bool splits(const Tensor& a, const Tensor& b) {
  const double m = static_cast<double>(a.size(-2)), k = static_cast<double>(a.size(-1)),
               n = static_cast<double>(b.size(-1));
  return has_rows(stored(b).first) && 2 * m * k + 8 * m * n < 5 * k * n;
}

// out = alpha * a @ b, from the product of a's stacked parts and b's rows.
void multiply_split(OpId id, const Tensor& out, const Tensor& a, const Tensor& b, double alpha) {
  const auto [left, left_conjugate] = stored(a);
  const auto [right, right_conjugate] = stored(b);
  const Tensor pairs = at::view_as_real(left), to = at::view_as_real(out);
  at::DimVector sizes(a.sizes().slice(0, a.dim() - 2)), of_parts(sizes), of_products(sizes);
  sizes.append({2, a.size(-2), a.size(-1)});
  of_parts.append({2 * a.size(-2), a.size(-1)});
  of_products.append({2, a.size(-2), b.size(-1), 2});
  const Tensor parts = at::empty(sizes, pairs.options());
  parts.select(-3, 0).copy_(pairs.select(-1, 0));
  parts.select(-3, 1).copy_(pairs.select(-1, 1));
  const Tensor rows_of_b = rows(right);
  at::DimVector flat(of_parts);
  flat.back() = rows_of_b.size(-1);
  const Tensor products = at::empty(flat, pairs.options());
  multiply(id, products, parts.view(of_parts), rows_of_b, nullptr, alpha);
  const Tensor four = products.view(of_products);
  const double of_a = left_conjugate ? -1 : 1, of_b = right_conjugate ? -1 : 1;
  Step s(id, out.sizes(), out.get_device(), pairs.scalar_type());
  const auto product = [&](int64_t part_of_a, int64_t part_of_b) {
    return s.load(four.select(-1, part_of_b).select(-3, part_of_a));
  };
  s.store(to.select(-1, 0), product(0, 0) - product(1, 1) * (of_a * of_b));
  s.store(to.select(-1, 1), product(0, 1) * of_b + product(1, 0) * of_a);
  s.run(Part::FURTHER);
}

void check_types(const Tensor& out, const Tensor& t) {
  TORCH_CHECK(
      t.scalar_type() == out.scalar_type(),
      "expected matrices of the same dtype, but got: ",
      out.scalar_type(),
      " and ",
      t.scalar_type());
}

} // namespace

void multiply_complex(
    OpId id,
    const Tensor& out,
    const Tensor& a,
    const Tensor& b,
    const Tensor* c,
    const Scalar& alpha,
    const Scalar& beta) {
  check_types(out, a);
  check_types(out, b);
  if (out.numel() == 0) {
    return;
  }
  if (!has_rows(out) || out.is_alias_of(a) || (c != nullptr && out.is_alias_of(*c) && !out.is_same(*c))) {
    const Tensor fresh = at::empty(out.sizes(), out.options());
    multiply_complex(id, fresh, a, b, c, alpha, beta);
    out.copy_(fresh);
    return;
  }
  const bool sums = c != nullptr && beta.toComplexDouble() != 0.0;
  if (!sums && !alpha.isComplex()) {
    if (splits(a, b)) {
      multiply_split(id, out, a, b, alpha.toDouble());
      return;
    }
    if (!has_rows(stored(a).first) && splits(b.mT(), a.mT()) && has_rows(out.mT())) {
      multiply_split(id, out.mT(), b.mT(), a.mT(), alpha.toDouble());
      return;
    }
  }
  const Tensor right = matrices(id, alpha.isComplex() ? b.mul(alpha) : b);
  if (sums) {
    check_types(out, *c);
    if (!out.is_same(*c)) {
      out.copy_(*c);
    }
    if (!beta.equal(1)) {
      out.mul_(beta);
    }
  }
  const Tensor result = rows(out);
  multiply(
      id,
      result,
      rows(has_rows(a) ? a : a.resolve_neg().resolve_conj().contiguous()),
      right,
      sums ? &result : nullptr,
      alpha.isComplex() ? 1 : alpha.toDouble(),
      sums ? 1 : 0);
}

void dot_complex(OpId id, const Tensor& out, const Tensor& a, const Tensor& b, bool conjugate) {
  if (a.numel() == 0) {
    out.zero_();
    return;
  }
  const auto [x, x_conjugate] = stored(a);
  const auto [y, y_conjugate] = stored(b);
  const bool negates_x = x_conjugate != conjugate, negates_y = y_conjugate;
  const Tensor to = at::view_as_real(out), p = at::view_as_real(x.contiguous()).view({-1}),
               q = at::view_as_real(y.contiguous()).view({-1});
  const int64_t n = p.numel();
  // The mask is 1 for real parts. Loading the mask is faster than computing it.
  const Tensor is_real = at::zeros({kWidth}, p.options());
  is_real.slice(0, 0, {}, 2).fill_(1);
  Part launched = Part::FIRST;
  // Sums rows of the mask's width, then the remainder.
  const auto sum = [&](int64_t part, int64_t count, auto&& formula) {
    const Tensor pieces = at::zeros({2, 1, 1}, p.options());
    const int64_t whole = count / kWidth * kWidth;
    const auto add = [&](int64_t piece, int64_t begin, int64_t rows, int64_t width) {
      if (rows * width == 0) {
        return;
      }
      Step s(id, {rows, width}, p.get_device(), p.scalar_type());
      const auto load = [&](const Tensor& t, int64_t first) {
        return s.load(t.narrow(0, begin + first, rows * width).view({rows, width}));
      };
      const Value v = formula(load, [&] { return s.load(is_real.narrow(0, 0, width)); });
      s.sum(pieces.select(0, piece), v, Space::Mask(3));
      s.run(std::exchange(launched, Part::FURTHER));
    };
    add(0, 0, whole / kWidth, kWidth);
    add(1, whole, 1, count - whole);
    to.narrow(0, part, 1).copy_(pieces.sum().view({1}));
  };
  const auto signed_as = [](bool negative, Value v) { return negative ? -v : v; };
  sum(0, n, [&](auto&& load, auto&& real) {
    const Value product = load(p, 0) * load(q, 0);
    return negates_x != negates_y ? product : product * (real() * 2.0 - 1.0);
  });
  // Add the products of neighbours, starting at each real part.
  sum(1, n - 1, [&](auto&& load, auto&& real) {
    const Value with_q = signed_as(negates_y, load(p, 0) * load(q, 1));
    const Value with_p = signed_as(negates_x, load(p, 1) * load(q, 0));
    return select(real() == 1.0, with_q + with_p, 0.0);
  });
}

} // namespace openreg
