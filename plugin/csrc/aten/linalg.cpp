// SPDX-License-Identifier: BSD-3-Clause
#include "aten/linalg.h"

#include "aten/step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

namespace openreg {

using at::Tensor;

Tensor as_batch(const Tensor& matrices) {
  const auto sizes = matrices.sizes();
  const int64_t batch = c10::multiply_integers(sizes.slice(0, sizes.size() - 2));
  return matrices.reshape({batch, matrices.size(-2), matrices.size(-1)});
}

Tensor batch_copy(const Tensor& matrices) {
  return as_batch(matrices.clone(at::MemoryFormat::Contiguous));
}

Tensor rows(const Tensor& t, int64_t first, int64_t last) {
  return t.narrow(1, first, last - first);
}

Tensor columns(const Tensor& t, int64_t first, int64_t last) {
  return t.narrow(2, first, last - first);
}

namespace {

struct Quarters {
  explicit Quarters(const Tensor& a, int64_t n, int64_t half)
      : upper_left(columns(rows(a, 0, half), 0, half)),
        upper_right(columns(rows(a, 0, half), half, n)),
        lower_left(columns(rows(a, half, a.size(1)), 0, half)),
        lower_right(columns(rows(a, half, a.size(1)), half, n)) {}

  Tensor upper_left, upper_right, lower_left, lower_right;
};

void subtract_product(const Tensor& from, const Tensor& a, const Tensor& b) {
  from.baddbmm_(a, b, 1, -1);
}

// Whether there is nothing left to halve.
bool solve_one(const Tensor& a, const Tensor& b, bool unit) {
  if (b.numel() == 0) {
    return true;
  }
  if (a.size(1) == 1 && !unit) {
    b.div_(a);
  }
  return a.size(1) == 1;
}

} // namespace

void solve_lower(const Tensor& a, const Tensor& b, bool unit) {
  if (solve_one(a, b, unit)) {
    return;
  }
  const int64_t n = a.size(1), half = n / 2;
  const Quarters part(a, n, half);
  const Tensor first = rows(b, 0, half), second = rows(b, half, n);
  solve_lower(part.upper_left, first, unit);
  subtract_product(second, part.lower_left, first);
  solve_lower(part.lower_right, second, unit);
}

void solve_upper(const Tensor& a, const Tensor& b, bool unit) {
  if (solve_one(a, b, unit)) {
    return;
  }
  const int64_t n = a.size(1), half = n / 2;
  const Quarters part(a, n, half);
  const Tensor first = rows(b, 0, half), second = rows(b, half, n);
  solve_upper(part.lower_right, second, unit);
  subtract_product(first, part.upper_right, second);
  solve_upper(part.upper_left, first, unit);
}

namespace {

// What info becomes if the column with this number, from 0, is bad.
Value first_bad(Value info, Value good, int64_t column) {
  const Value fresh = select(info == 0.0, static_cast<double>(column + 1), info);
  return select(good, info, fresh);
}

// Calls fn(step, operand of x) for a program that keeps info.
template <class Fn>
void with_info(OpId id, const Tensor& x, const Tensor& info, int64_t column, Fn&& fn) {
  Step s(id, x, x.scalar_type());
  const uint8_t one = s.add(x), said = s.add(info.view({-1, 1, 1}));
  const Value good = fn(s, one);
  s.program.store(
      said, first_bad(s.program.load(said, OPENREG_VT_I32), good, column));
  s.run();
}

void factor_cholesky(OpId id, const Tensor& a, const Tensor& info, int64_t column) {
  const int64_t n = a.size(1), half = n / 2;
  if (n == 1) {
    with_info(id, a, info, column, [](Step& s, uint8_t one) {
      const Value x = s.load(one);
      s.program.store(one, sqrt(x));
      return x > 0.0;
    });
    return;
  }
  const Quarters part(a, n, half);
  factor_cholesky(id, part.upper_left, info, column);
  solve_lower(part.upper_left, part.lower_left.mT(), false);
  subtract_product(part.lower_right, part.lower_left, part.lower_left.mT());
  factor_cholesky(id, part.lower_right, info, column + half);
}

} // namespace

void factor_cholesky(OpId id, const Tensor& a, const Tensor& info) {
  info.zero_();
  if (a.numel() != 0) {
    factor_cholesky(id, a, info, 0);
  }
}

void permute_rows(const Tensor& t, const Tensor& order) {
  t.copy_(t.gather(1, order.unsqueeze(2).expand_as(t)));
}

void restore_rows(const Tensor& t, const Tensor& order) {
  t.copy_(at::empty_like(t).scatter_(1, order.unsqueeze(2).expand_as(t), t));
}

Tensor row_order(const Tensor& pivots, int64_t rows) {
  const int64_t batch = pivots.size(0);
  const auto options = pivots.options().dtype(at::kLong);
  const Tensor order = at::arange(rows, options).expand({batch, rows}).contiguous();
  const Tensor places = pivots.to(at::kLong) - 1;
  for (int64_t i = 0; i < pivots.size(1); i++) {
    const Tensor place = places.narrow(1, i, 1), here = order.narrow(1, i, 1);
    const Tensor there = order.gather(1, place);
    order.scatter_(1, place, here.clone());
    here.copy_(there);
  }
  return order;
}

namespace {

struct Lu {
  OpId id;
  Tensor pivots, info;
  bool pivot;
};

// The order of rows in which the first and that at place have been swapped.
Tensor swapped(OpId id, const Tensor& place, int64_t rows) {
  const Tensor order = at::empty({place.size(0), rows}, place.options());
  Step s(id, order, at::kLong);
  const Value i = s.index(1), p = s.load(place);
  s.store(order, select(i == p, 0.0, select(i == 0.0, p, i)));
  s.run();
  return order;
}

Tensor factor_column(const Lu& lu, const Tensor& a, int64_t column) {
  const Tensor place = lu.pivot
      ? a.select(2, 0).abs().argmax(1, true)
      : at::zeros({a.size(0), 1}, a.options().dtype(at::kLong));
  lu.pivots.narrow(1, column, 1).copy_(place + (column + 1));
  const Tensor order = swapped(lu.id, place, a.size(1));
  permute_rows(a, order);
  const Tensor divisor = at::empty({a.size(0), 1, 1}, a.options());
  with_info(lu.id, rows(a, 0, 1), lu.info, column, [&](Step& s, uint8_t one) {
    const Value x = s.load(one);
    s.store(divisor, select(x == 0.0, 1.0, x));
    return x != 0.0;
  });
  rows(a, 1, a.size(1)).div_(divisor);
  return order;
}

// The upper part of what is right of factored columns.
void eliminate(const Tensor& left, const Tensor& right, const Tensor& order) {
  permute_rows(right, order);
  solve_lower(rows(left, 0, left.size(2)), rows(right, 0, left.size(2)), true);
}

// For at least as many rows as columns.
Tensor factor_columns(const Lu& lu, const Tensor& a, int64_t column) {
  const int64_t m = a.size(1), n = a.size(2), half = n / 2;
  if (n == 1) {
    return factor_column(lu, a, column);
  }
  const Tensor order = factor_columns(lu, columns(a, 0, half), column);
  eliminate(columns(a, 0, half), columns(a, half, n), order);
  const Quarters part(a, n, half);
  subtract_product(part.lower_right, part.lower_left, part.upper_right);
  const Tensor rest = factor_columns(lu, part.lower_right, column + half);
  permute_rows(part.lower_left, rest);
  permute_rows(order.narrow(1, half, m - half).unsqueeze(2), rest);
  return order;
}

} // namespace

void factor_lu(OpId id, const Tensor& a, const Tensor& pivots, const Tensor& info, bool pivot) {
  info.zero_();
  if (a.numel() == 0) {
    return;
  }
  const int64_t n = a.size(2), square = std::min(a.size(1), n);
  const Tensor left = columns(a, 0, square);
  const Tensor order = factor_columns({id, pivots, info, pivot}, left, 0);
  if (square < n) {
    eliminate(left, columns(a, square, n), order);
  }
}

Tensor reflectors(const Tensor& a) {
  const Tensor v = a.tril(-1);
  v.diagonal(0, 1, 2).fill_(1);
  return v;
}

namespace {

// Reflects a column onto its first element; the result is tau, [batch, 1, 1].
Tensor reflect(OpId id, const Tensor& a) {
  const Tensor head = rows(a, 0, 1), tail = rows(a, 1, a.size(1));
  // Squares and reciprocals of floats fit in doubles, and scale is one therefore;
  // those of doubles are kept from the limits.
  Tensor unit;
  if (a.scalar_type() == at::kDouble) {
    unit = a.abs().amax(1, true);
    a.div_(unit.masked_fill_(unit.eq(0), 1));
  }
  const Tensor norm = at::linalg_vector_norm(tail, 2, at::IntArrayRef{1}, true, at::kDouble);
  const Tensor tau = at::empty(head.sizes(), a.options()), scale = at::empty_like(norm);
  Step s(id, head, at::kDouble);
  const uint8_t first = s.add(head);
  const Value x = s.load(first), y = s.load(norm);
  const Value nothing = y == 0.0;
  const Value length = -copysign(hypot(x, y), x);
  s.store(tau, select(nothing, 0.0, (length - x) / length));
  s.store(scale, select(nothing, 0.0, 1.0 / (x - length)));
  s.program.store(first, select(nothing, x, length));
  s.run();
  tail.mul_(scale);
  if (unit.defined()) {
    head.mul_(unit);
  }
  return tau;
}

} // namespace

Tensor factor_qr(OpId id, const Tensor& a) {
  const int64_t m = a.size(1), n = a.size(2), half = n / 2;
  if (n == 1) {
    return reflect(id, a);
  }
  const Tensor left = columns(a, 0, half), right = columns(a, half, n);
  const Tensor first = factor_qr(id, left), v = reflectors(left);
  subtract_product(right, v, first.mT().bmm(v.mT().bmm(right)));
  const Tensor rest = rows(right, half, m);
  const Tensor second = factor_qr(id, rest);
  const Tensor t = at::zeros({a.size(0), n, n}, a.options());
  const Quarters part(t, n, half);
  part.upper_left.copy_(first);
  part.lower_right.copy_(second);
  const Tensor between = rows(v, half, m).mT().bmm(reflectors(rest));
  part.upper_right.copy_(first.bmm(between).bmm(second).neg_());
  return t;
}

} // namespace openreg
