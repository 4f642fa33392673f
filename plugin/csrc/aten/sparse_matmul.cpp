// SPDX-License-Identifier: BSD-3-Clause
// Products of a sparse and a dense matrix. Each entry of the sparse matrix names a row of
// the dense matrix by its column. This row, times the entry's value, is added to the
// result's row.
#include "aten/sparse.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "aten/convention.h"
#include "aten/index.h"
#include "aten/parts.h"
#include "aten/segments.h"
#include "aten/step.h"

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;

OpName mm_name, mm_out_name, mv_name, addmm_name, addmm_out_name, addmm_in_place_name, sampled_name;

// The entries of a sparse matrix.
struct Entries {
  Tensor row, col, value;
};

// Returns the start of every row except the first.
Tensor inner(const Tensor& begins) {
  return begins.narrow(0, 1, std::max<int64_t>(begins.numel() - 2, 0));
}

Entries entries(const Tensor& t) {
  if (t.layout() == at::kSparse) {
    const Tensor places = t._indices();
    return {places.select(0, 0), places.select(0, 1), t._values()};
  }
  const Tensor values = t.values();
  if (t.layout() == at::kSparseCsr) {
    return {segments_of(inner(t.crow_indices()), values.numel()), t.col_indices(), values};
  }
  return {t.row_indices(), segments_of(inner(t.ccol_indices()), values.numel()), values};
}

bool is_matrix_of_entries(const Tensor& t) {
  if (t.dim() != 2) {
    return false;
  }
  return t.layout() == at::kSparse ? t.sparse_dim() == 2
                                   : t.layout() == at::kSparseCsr || t.layout() == at::kSparseCsc;
}

bool is_single_or_double(const Tensor& t) {
  return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
}

// Whether a is sparse, b dense, and both can be multiplied on the card.
bool serves(const Tensor& a, const Tensor& b) {
  return is_matrix_of_entries(a) && b.layout() == at::kStrided && b.dim() == 2 &&
      is_single_or_double(a) && a.scalar_type() == b.scalar_type() && a.device() == b.device() &&
      a.size(1) == b.size(0);
}

bool serves(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return serves(a, b) && c.layout() == at::kStrided && c.scalar_type() == a.scalar_type() &&
      c.device() == a.device() && !beta.isComplex() && !alpha.isComplex() &&
      at::is_expandable_to(c.sizes(), {a.size(0), b.size(1)});
}

// Calls fn(entries, take) for one part of the entries at a time; an entry has `width`
// elements. take() returns the same part of a vector.
template <class Fn>
void entries_in_parts(const Entries& all, int64_t width, Fn&& fn) {
  in_parts(all.value.numel(), width, [&](int64_t first, int64_t n) {
    const auto take = [&](const Tensor& t) { return t.narrow(0, first, n); };
    fn(Entries{take(all.row), take(all.col), take(all.value)}, take);
  });
}

void add_product(OpId id, const Tensor& out, const Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (out.numel() == 0 || alpha.equal(0)) {
    return;
  }
  Entries all = entries(a);
  if (!alpha.equal(1)) {
    all.value = all.value.mul(alpha);
  }
  Part part = Part::FIRST;
  entries_in_parts(all, out.size(1), [&](const Entries& some, auto&&) {
    const Tensor rows = at::empty({some.value.numel(), out.size(1)}, out.options());
    part = index_slices(id, OPENREG_INDEX_GET, Negative::BAD, rows, b, 0, some.col, part);
    Step s(id, rows, rows.scalar_type());
    const uint8_t to = s.add(rows);
    s.program.store(to, s.load(to) * s.load(some.value.unsqueeze(1)));
    s.run(Part::FURTHER);
    index_slices(id, OPENREG_INDEX_ADD, Negative::BAD, out, rows, 0, some.row, Part::FURTHER);
  });
}

Tensor product(OpId id, const Tensor& a, const Tensor& b) {
  const Tensor out = at::zeros({a.size(0), b.size(1)}, b.options());
  add_product(id, out, a, b, 1);
  return out;
}

Tensor sum(
    OpId id,
    const Tensor& c,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha) {
  Tensor out = at::empty({a.size(0), b.size(1)}, b.options());
  if (beta.equal(0)) {
    out.zero_();
  } else {
    out.copy_(c);
    if (!beta.equal(1)) {
      out.mul_(beta);
    }
  }
  add_product(id, out, a, b, alpha);
  return out;
}

Tensor mm(const Tensor& a, const Tensor& b) {
  return serves(a, b) ? product(mm_name.id, a, b)
                      : fallback<Tensor, const Tensor&, const Tensor&>(mm_name, a, b);
}

Tensor mv(const Tensor& a, const Tensor& v) {
  return v.dim() == 1 && serves(a, v.unsqueeze(1))
      ? product(mv_name.id, a, v.unsqueeze(1)).squeeze(1)
      : fallback<Tensor, const Tensor&, const Tensor&>(mv_name, a, v);
}

bool takes(const Tensor& out, const Tensor& b) {
  return out.layout() == at::kStrided && out.scalar_type() == b.scalar_type() &&
      out.device() == b.device();
}

Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) {
  if (!serves(a, b) || !takes(out, b)) {
    return fallback<Tensor&, const Tensor&, const Tensor&, Tensor&>(mm_out_name, a, b, out);
  }
  const Tensor result = product(mm_out_name.id, a, b);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return serves(c, a, b, beta, alpha)
      ? sum(addmm_name.id, c, a, b, beta, alpha)
      : fallback<Tensor, const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&>(
            addmm_name, c, a, b, beta, alpha);
}

Tensor& addmm_out(
    const Tensor& c,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha,
    Tensor& out) {
  if (!serves(c, a, b, beta, alpha) || !takes(out, b)) {
    return fallback<
        Tensor&,
        const Tensor&,
        const Tensor&,
        const Tensor&,
        const Scalar&,
        const Scalar&,
        Tensor&>(addmm_out_name, c, a, b, beta, alpha, out);
  }
  const Tensor result = sum(addmm_out_name.id, c, a, b, beta, alpha);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

Tensor& addmm_(Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  if (!serves(c, a, b, beta, alpha) || c.dim() != 2 || c.size(0) != a.size(0) || c.size(1) != b.size(1)) {
    return fallback<Tensor&, Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&>(
        addmm_in_place_name, c, a, b, beta, alpha);
  }
  return c.copy_(sum(addmm_in_place_name.id, c, a, b, beta, alpha));
}

// Returns beta * self + alpha * (a @ b), computed only at the places of self's entries.
Tensor sampled_addmm(
    const Tensor& self,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha) {
  const bool served = self.layout() == at::kSparseCsr && self.dim() == 2 && a.dim() == 2 &&
      b.dim() == 2 && a.layout() == at::kStrided && b.layout() == at::kStrided &&
      is_single_or_double(self) && a.scalar_type() == self.scalar_type() &&
      b.scalar_type() == self.scalar_type() && a.device() == self.device() &&
      b.device() == self.device() && a.size(0) == self.size(0) && b.size(1) == self.size(1) &&
      a.size(1) == b.size(0) && a.size(1) > 0 && !beta.isComplex() && !alpha.isComplex();
  if (!served) {
    return fallback<Tensor, const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&>(
        sampled_name, self, a, b, beta, alpha);
  }
  const Entries all = entries(self);
  const Tensor sums = at::empty(all.value.sizes(), all.value.options());
  const Tensor columns = b.t().contiguous();
  Part part = Part::FIRST;
  entries_in_parts(all, a.size(1), [&](const Entries& some, auto&& take) {
    const int64_t n = some.value.numel();
    const Tensor x = at::empty({n, a.size(1)}, a.options()), y = at::empty_like(x);
    part = index_slices(sampled_name.id, OPENREG_INDEX_GET, Negative::BAD, x, a, 0, some.row, part);
    index_slices(sampled_name.id, OPENREG_INDEX_GET, Negative::BAD, y, columns, 0, some.col, part);
    Step s(sampled_name.id, x, x.scalar_type());
    s.sum(
        take(sums).unsqueeze(1), s.load(x) * s.load(y), Space::Mask(2), alpha.toDouble());
    s.run(part);
  });
  if (!beta.equal(0)) {
    sums.add_(all.value, beta);
  }
  return at::_sparse_csr_tensor_unsafe(
      self.crow_indices().clone(), self.col_indices().clone(), sums, self.sizes(), self.options());
}

} // namespace

void add_sparse_products(torch::Library& m, bool first) {
  if (first) {
    mm_name.set("mm");
    mm_out_name.set("mm.out");
    mv_name.set("mv");
    addmm_name.set("addmm");
    addmm_out_name.set("addmm.out");
    addmm_in_place_name.set("addmm_");
  }
  m.impl("mm", mm);
  m.impl("mm.out", mm_out);
  m.impl("mv", mv);
  m.impl("addmm", addmm);
  m.impl("addmm.out", addmm_out);
  m.impl("addmm_", addmm_);
}

void add_sampled_products(torch::Library& m) {
  sampled_name.set("sparse_sampled_addmm");
  m.impl("sparse_sampled_addmm", sampled_addmm);
}

} // namespace openreg
