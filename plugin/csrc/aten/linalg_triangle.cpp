// SPDX-License-Identifier: BSD-3-Clause
// Triangular systems and Cholesky factors.
#include "aten/linalg.h"
#include "aten/structured.h"

#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_cholesky_ex_meta.h>
#include <ATen/ops/triangular_solve_meta.h>

namespace openreg {

namespace {

using at::Tensor;

OpName triangular, triangular_out, cholesky_helper, inverse_of, inverse_of_out;

// out = a^-1 b, or b a^-1; both of out's batch.
void solve(const Tensor& a, const Tensor& b, const Tensor& out, bool upper, bool left, bool unit) {
  if (out.numel() == 0) {
    return;
  }
  const Tensor work = batch_copy(b), x = left ? work : work.mT();
  const Tensor factor = left ? as_batch(a) : as_batch(a).mT();
  if (upper == left) {
    solve_upper(factor, x, unit);
  } else {
    solve_lower(factor, x, unit);
  }
  out.copy_(work.view(out.sizes()));
}

void check(const Tensor& a, const Tensor& b, bool left) {
  at::native::checkInputsSolver(a, b, left, "linalg.solve_triangular");
  check_tensor_device(b, a.device());
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit) {
  if (!of_lapack(a)) {
    return fallback<Tensor>(triangular, a, b, upper, left, unit);
  }
  check(a, b, left);
  const auto [x, factor] = at::native::_linalg_broadcast_batch_dims(b, a, nullptr);
  const Tensor out = at::empty_strided(
      x.sizes(), at::native::batched_matrix_contiguous_strides(x.sizes(), /*f_contig=*/true), a.options());
  solve(factor, x, out, upper, left, unit);
  return out;
}

Tensor& solve_triangular_out(
    const Tensor& a, const Tensor& b, bool upper, bool left, bool unit, Tensor& out) {
  if (!of_lapack(a)) {
    return fallback<Tensor&, const Tensor&, const Tensor&, bool, bool, bool, Tensor&>(
        triangular_out, a, b, upper, left, unit, out);
  }
  check(a, b, left);
  const auto [x, factor] = at::native::_linalg_broadcast_batch_dims(b, a, nullptr);
  resize_out(out, x.sizes(), at::native::batched_matrix_contiguous_strides(x.sizes(), /*f_contig=*/true), a.options());
  solve(factor, x, out, upper, left, unit);
  return out;
}

struct TriangularSolve : OfLapack {
  template <class Op>
  void operator()(
      OpId, Op& op, const Tensor& b, const Tensor& a, bool upper, bool transpose, bool unit) const {
    const auto [x, factor] = at::native::_linalg_broadcast_batch_dims(b, a, nullptr);
    op.maybe_get_output(1).copy_(factor);
    solve(
        transpose ? factor.mT() : factor, x, op.maybe_get_output(0), upper != transpose, true, unit);
  }
};

struct Cholesky : OfLapack {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a, bool upper, bool check) const {
    const Tensor &out = op.maybe_get_output(0), &info = op.maybe_get_output(1);
    const Tensor work = batch_copy(upper ? a.mT() : a);
    const Tensor said = at::empty({work.size(0)}, info.options());
    factor_cholesky(id, work, said);
    const Tensor lower = work.tril_().view(out.sizes());
    out.copy_(upper ? lower.mT() : lower);
    info.copy_(said.view(info.sizes()));
    if (check) {
      at::_linalg_check_errors(info, "linalg.cholesky_ex", a.dim() == 2);
    }
  }
};

// work, a batch, becomes what the matrix with this factor makes it from.
void solve_factored(const Tensor& factor, const Tensor& work, bool upper) {
  solve_lower(upper ? factor.mT() : factor, work, false);
  solve_upper(upper ? factor : factor.mT(), work, false);
}

Tensor cholesky_solve_helper(const Tensor& b, const Tensor& factor, bool upper) {
  if (!of_lapack(b)) {
    return fallback<Tensor>(cholesky_helper, b, factor, upper);
  }
  const Tensor out = at::native::cloneBatchedColumnMajor(b);
  solve_factored(as_batch(factor), as_batch(out), upper);
  return out;
}

Tensor inverse(const Tensor& factor, bool upper) {
  at::native::squareCheckInputs(factor, "cholesky_inverse");
  const Tensor one = at::eye(factor.size(-1), factor.options());
  const Tensor out = at::native::cloneBatchedColumnMajor(one.expand(factor.sizes()));
  solve_factored(as_batch(factor), as_batch(out), upper);
  return out;
}

Tensor cholesky_inverse(const Tensor& factor, bool upper) {
  return of_lapack(factor) ? inverse(factor, upper)
                           : fallback<Tensor>(inverse_of, factor, upper);
}

Tensor& cholesky_inverse_out(const Tensor& factor, bool upper, Tensor& out) {
  if (!of_lapack(factor)) {
    return fallback<Tensor&, const Tensor&, bool, Tensor&>(inverse_of_out, factor, upper, out);
  }
  const Tensor fresh = inverse(factor, upper);
  resize_out(out, fresh.sizes(), {}, fresh.options());
  return out.copy_(fresh);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  triangular.set("linalg_solve_triangular");
  triangular_out.set("linalg_solve_triangular.out");
  cholesky_helper.set("_cholesky_solve_helper");
  inverse_of.set("cholesky_inverse");
  inverse_of_out.set("cholesky_inverse.out");
  m.impl("linalg_solve_triangular", solve_triangular);
  m.impl("linalg_solve_triangular.out", solve_triangular_out);
  m.impl("_cholesky_solve_helper", cholesky_solve_helper);
  m.impl("cholesky_inverse", cholesky_inverse);
  m.impl("cholesky_inverse.out", cholesky_inverse_out);
  add_op<at::meta::structured_triangular_solve, 2>(
      m, NamesWithoutInplace{"triangular_solve", "triangular_solve.X"}, TriangularSolve());
  add_op<at::meta::structured_linalg_cholesky_ex, 2>(
      m, NamesWithoutInplace{"linalg_cholesky_ex", "linalg_cholesky_ex.L"}, Cholesky());
}

} // namespace openreg
