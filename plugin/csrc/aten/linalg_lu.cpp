// SPDX-License-Identifier: BSD-3-Clause
// LU factors, and what is made of them: solutions, inverses, determinants.
#include "aten/linalg.h"
#include "aten/structured.h"

#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_det_meta.h>
#include <ATen/ops/_linalg_slogdet_meta.h>
#include <ATen/ops/_linalg_solve_ex_meta.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_inv_ex_meta.h>
#include <ATen/ops/linalg_lu_factor_ex_meta.h>
#include <ATen/ops/linalg_lu_meta.h>
#include <ATen/ops/linalg_lu_solve_meta.h>
#include <ATen/ops/lu_unpack_meta.h>
#include <ATen/ops/zeros.h>

namespace openreg {

namespace {

using at::Tensor;

Tensor as_rows(const Tensor& pivots) {
  const auto sizes = pivots.sizes();
  return pivots.reshape(
      {c10::multiply_integers(sizes.slice(0, sizes.size() - 1)), pivots.size(-1)});
}

// Writes the factors of a, whose batch the outputs have.
void factor(
    OpId id,
    const Tensor& a,
    const Tensor& lu,
    const Tensor& pivots,
    const Tensor& info,
    bool pivot = true) {
  const Tensor work = batch_copy(a);
  const auto options = a.options().dtype(at::kInt);
  const Tensor swaps =
      at::empty({work.size(0), std::min(a.size(-2), a.size(-1))}, options);
  const Tensor said = at::empty({work.size(0)}, options);
  factor_lu(id, work, swaps, said, pivot);
  lu.copy_(work.view(lu.sizes()));
  pivots.copy_(swaps.view(pivots.sizes()));
  if (info.defined()) {
    info.copy_(said.view(info.sizes()));
  }
}

// out: the solution, whose batch lu and b broadcast to.
void solve(
    const Tensor& lu,
    const Tensor& pivots,
    const Tensor& b,
    const Tensor& out,
    bool left,
    bool adjoint) {
  if (out.numel() == 0) {
    return;
  }
  const auto batch = out.sizes().slice(0, out.dim() - 2);
  at::DimVector of_lu(batch), of_pivots(batch);
  of_lu.append({lu.size(-2), lu.size(-1)});
  of_pivots.push_back(pivots.size(-1));
  const Tensor a = as_batch(lu.expand(of_lu)), work = batch_copy(b.expand(out.sizes()));
  const Tensor order = row_order(as_rows(pivots.expand(of_pivots)), lu.size(-1));
  const Tensor x = left ? work : work.mT();
  if (adjoint == left) {
    solve_lower(a.mT(), x, false);
    solve_upper(a.mT(), x, true);
    restore_rows(x, order);
  } else {
    permute_rows(x, order);
    solve_lower(a, x, true);
    solve_upper(a, x, false);
  }
  out.copy_(work.view(out.sizes()));
}

struct LuFactor : OfLapack {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a, bool pivot, bool check) const {
    const Tensor& info = op.maybe_get_output(2);
    factor(id, a, op.maybe_get_output(0), op.maybe_get_output(1), info, pivot);
    if (check) {
      at::_linalg_check_errors(info, "torch.linalg.lu_factor_ex", a.dim() == 2);
    }
  }
};

struct LuSolve : OfLapack {
  template <class Op>
  void operator()(
      OpId, Op& op, const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool adjoint) const {
    solve(lu, pivots, b, op.maybe_get_output(0), left, adjoint);
  }
};

void unpack_factors(const Tensor& lu, const Tensor& lower, const Tensor& upper) {
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  const Tensor l = lu.narrow(-1, 0, k).tril(-1);
  l.diagonal(0, -2, -1).fill_(1);
  lower.copy_(l);
  upper.copy_(lu.narrow(-2, 0, k).triu());
}

void unpack_pivots(const Tensor& pivots, const Tensor& out) {
  if (out.numel() == 0) {
    return;
  }
  const int64_t m = out.size(-1);
  const Tensor order = row_order(as_rows(pivots), m);
  const Tensor p = at::zeros({order.size(0), m, m}, out.options());
  out.copy_(p.scatter_(1, order.unsqueeze(1), 1).view(out.sizes()));
}

struct LuUnpack : OfLapack {
  template <class Op>
  void operator()(OpId, Op& op, const Tensor& lu, const Tensor& pivots, bool data, bool of_pivots) const {
    if (of_pivots) {
      unpack_pivots(pivots, op.maybe_get_output(0));
    }
    if (data) {
      unpack_factors(lu, op.maybe_get_output(1), op.maybe_get_output(2));
    }
  }
};

Tensor empty_pivots(const Tensor& a) {
  at::DimVector sizes(a.sizes().slice(0, a.dim() - 2));
  sizes.push_back(std::min(a.size(-2), a.size(-1)));
  return at::empty(sizes, a.options().dtype(at::kInt));
}

struct LinalgLu : OfLapack {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a, bool pivot) const {
    const Tensor lu = at::empty(a.sizes(), a.options()), pivots = empty_pivots(a);
    factor(id, a, lu, pivots, Tensor(), pivot);
    if (pivot) {
      unpack_pivots(pivots, op.maybe_get_output(0));
    }
    unpack_factors(lu, op.maybe_get_output(1), op.maybe_get_output(2));
  }
};

struct SolveEx : OfLapack {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a, const Tensor& b, bool left, bool check) const {
    const Tensor &out = op.maybe_get_output(0), &lu = op.maybe_get_output(1),
                 &pivots = op.maybe_get_output(2), &info = op.maybe_get_output(3);
    factor(id, a, lu, pivots, info);
    if (check) {
      at::_linalg_check_errors(info, "torch.linalg.solve_ex", a.dim() == 2);
    }
    const bool vectors = at::native::linalg_solve_is_vector_rhs(lu, b);
    const auto matrix = [&](const Tensor& t) { return vectors ? t.unsqueeze(-1) : t; };
    solve(lu, pivots, matrix(b), matrix(out), left, false);
  }
};

struct InvEx : OfLapack {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a, bool check) const {
    const Tensor &out = op.maybe_get_output(0), &info = op.maybe_get_output(1);
    const Tensor lu = at::empty(a.sizes(), a.options()), pivots = empty_pivots(a);
    factor(id, a, lu, pivots, info);
    const Tensor one = at::eye(a.size(-1), a.options());
    solve(lu, pivots, one, out, true, false);
    if (check) {
      at::_linalg_check_errors(info, "torch.linalg.inv_ex", a.dim() == 2);
    }
  }
};

// The transpose of a contiguous matrix: which of the two was factored is what
// the derivatives of determinants go by.
Tensor columns_first(const Tensor& a) {
  return a.is_contiguous() ? a.mT() : a;
}

// -1 for an odd number of swaps, of the matrices' type.
Tensor sign_of_swaps(const Tensor& pivots, const Tensor& like) {
  const Tensor none = at::arange(1, pivots.size(-1) + 1, pivots.options());
  const Tensor odd = pivots.ne(none).sum(-1).remainder(2);
  return odd.mul(-2).add(1).to(like.scalar_type());
}

struct Det : OfLapack {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a) const {
    Tensor out = op.maybe_get_output(0);
    const Tensor &lu = op.maybe_get_output(1), &pivots = op.maybe_get_output(2);
    factor(id, columns_first(a), lu, pivots, Tensor());
    out.copy_(lu.diagonal(0, -2, -1).prod(-1).mul_(sign_of_swaps(pivots, a)));
  }
};

struct SlogDet : OfLapack {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a) const {
    const Tensor &lu = op.maybe_get_output(2), &pivots = op.maybe_get_output(3);
    factor(id, columns_first(a), lu, pivots, Tensor());
    const Tensor diagonal = lu.diagonal(0, -2, -1);
    op.maybe_get_output(0).copy_(diagonal.sgn().prod(-1).mul_(sign_of_swaps(pivots, a)));
    op.maybe_get_output(1).copy_(diagonal.abs().log_().sum(-1));
  }
};

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<at::meta::structured_linalg_lu_factor_ex, 3>(
      m, NamesWithoutInplace{"linalg_lu_factor_ex", "linalg_lu_factor_ex.out"}, LuFactor());
  add_op<at::meta::structured_linalg_lu_solve>(
      m, NamesWithoutInplace{"linalg_lu_solve", "linalg_lu_solve.out"}, LuSolve());
  add_op<at::meta::structured_lu_unpack, 3>(
      m, NamesWithoutInplace{"lu_unpack", "lu_unpack.out"}, LuUnpack());
  add_op<at::meta::structured_linalg_lu, 3>(
      m, NamesWithoutInplace{"linalg_lu", "linalg_lu.out"}, LinalgLu());
  add_op<at::meta::structured__linalg_solve_ex, 4>(
      m, NamesWithoutInplace{"_linalg_solve_ex", "_linalg_solve_ex.result"}, SolveEx());
  add_op<at::meta::structured_linalg_inv_ex, 2>(
      m, NamesWithoutInplace{"linalg_inv_ex", "linalg_inv_ex.inverse"}, InvEx());
  add_op<at::meta::structured__linalg_det, 3>(
      m, NamesWithoutInplace{"_linalg_det", "_linalg_det.result"}, Det());
  add_op<at::meta::structured__linalg_slogdet, 4>(
      m, NamesWithoutInplace{"_linalg_slogdet", "_linalg_slogdet.sign"}, SlogDet());
}

} // namespace openreg
