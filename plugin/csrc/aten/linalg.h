// SPDX-License-Identifier: BSD-3-Clause
// Factorizations and triangular systems, for operators that are made of them.
// All work in place on [batch, rows, columns] and halve the matrix until one
// column is left, so that most of the work is matrix products.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/launch.h"

namespace openreg {

// The types that LAPACK has of those on the card.
inline bool of_lapack(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
}
// A kernel's serves() for operators on such matrices.
struct OfLapack {
  template <class... Rest>
  static bool serves(const at::Tensor& first, const Rest&...) {
    return of_lapack(first);
  }
};

// As three dimensions; a copy if strides ask for one.
at::Tensor as_batch(const at::Tensor& matrices);
// A copy in any case, row-major.
at::Tensor batch_copy(const at::Tensor& matrices);

at::Tensor rows(const at::Tensor& t, int64_t first, int64_t last);
at::Tensor columns(const at::Tensor& t, int64_t first, int64_t last);

// b becomes the solution of a @ x = b. Of a, only that triangle is read; with
// unit, its diagonal is not, either.
void solve_lower(const at::Tensor& a, const at::Tensor& b, bool unit);
void solve_upper(const at::Tensor& a, const at::Tensor& b, bool unit);

// The lower triangle becomes the factor. info: [batch], 0 or the order of the
// first minor that is not positive.
void factor_cholesky(OpId id, const at::Tensor& a, const at::Tensor& info);

// L, without its diagonal of ones, and U take the place of a. pivots: [batch,
// min(rows, columns)], which row was swapped with this one, from 1. info: 0 or
// the first zero in the diagonal, from 1. Without pivot no rows are swapped.
void factor_lu(
    OpId id,
    const at::Tensor& a,
    const at::Tensor& pivots,
    const at::Tensor& info,
    bool pivot);

// Which row of the matrix each row of L @ U was.
at::Tensor row_order(const at::Tensor& pivots, int64_t rows);
void permute_rows(const at::Tensor& t, const at::Tensor& order);
void restore_rows(const at::Tensor& t, const at::Tensor& order);

// For at least as many rows as columns: R and, below the diagonal, V take the
// place of a; the result is T. Q is I - V @ T @ V^T.
at::Tensor factor_qr(OpId id, const at::Tensor& a);
// V, with the ones that are not stored.
at::Tensor reflectors(const at::Tensor& a);

} // namespace openreg
