// SPDX-License-Identifier: BSD-3-Clause
// sort, topk and kthvalue, with one SORT packet each. Core composes argsort and msort of
// sort.
#include "aten/sort.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/SortingUtils.h>
#include <ATen/ops/sort_meta.h>
#include <ATen/ops/topk_meta.h>

#include "aten/index.h"
#include "aten/structured.h"

namespace openreg {

namespace {

using at::Tensor;
using Pair = std::tuple<Tensor&, Tensor&>;

OpName kthvalue_name;

bool overlap(const Tensor& a, const Tensor& b) {
  return a.is_alias_of(b) &&
      at::get_overlap_status(a, b) != at::MemOverlapStatus::No;
}

struct Sort {
  static bool serves(const Tensor& self, std::optional<bool>, int64_t dim, bool) {
    return row_fits(self, dim);
  }
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      std::optional<bool>,
      int64_t dim,
      bool descending) const {
    const int64_t n = self.dim() == 0 ? 1 : self.size(dim);
    sort_rows(
        id,
        op.maybe_get_output(0),
        op.maybe_get_output(1),
        self,
        dim,
        {0, n, descending});
  }
};

struct TopK {
  static bool serves(const Tensor& self, int64_t, int64_t dim, bool, bool) {
    return row_fits(self, dim);
  }
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& self,
      int64_t k,
      int64_t dim,
      bool largest,
      bool) const {
    // For a tensor of 0 dimensions core allows k = 0, and returns one result even then.
    sort_rows(
        id,
        op.maybe_get_output(0),
        op.maybe_get_output(1),
        self,
        dim,
        {0, self.dim() == 0 ? 1 : k, largest});
  }
};

Pair kthvalue_out(
    const Tensor& self,
    int64_t k,
    int64_t dim,
    bool keepdim,
    Tensor& values,
    Tensor& indices) {
  const bool truth = self.scalar_type() == at::kBool; // the CPU reports an error
  if (!on_card(self) || truth || !on_card(values) || !row_fits(self, dim)) {
    return fallback<Pair, const Tensor&, int64_t, int64_t, bool, Tensor&, Tensor&>(
        kthvalue_name, self, k, dim, keepdim, values, indices);
  }
  dim = at::maybe_wrap_dim(dim, self.dim(), true);
  at::native::zero_numel_check_dims(self, dim, "kthvalue()");
  TORCH_CHECK(
      k >= 1 && k <= (self.dim() == 0 ? 1 : self.size(dim)),
      "kthvalue(): selected number k out of range for dimension ",
      dim);
  check_tensor_device(values, self.device());
  at::assert_no_overlap(self, values);
  at::native::_reduction_with_indices_allocate_or_resize_output(
      values, indices, self, dim, keepdim);
  sort_rows(kthvalue_name.id, values, indices, self, dim, {k - 1, 1});
  if (!keepdim) {
    values.squeeze_(dim);
    indices.squeeze_(dim);
  }
  return {values, indices};
}

} // namespace

bool has_many_dims(const Tensor& self) {
  return self.dim() > static_cast<int64_t>(Space::Mask().size());
}

Tensor with_few_dims(const Tensor& t, int64_t dim) {
  at::DimVector sizes{t.size(dim)}, strides{t.stride(dim)};
  for (int64_t i = 0; i < t.dim(); i++) {
    if (i != dim && t.size(i) != 1) {
      sizes.push_back(t.size(i));
      strides.push_back(t.stride(i));
    }
  }
  return t.as_strided(sizes, strides);
}

bool row_fits(const Tensor& self, int64_t dim) {
  if (self.dim() == 0) {
    return true;
  }
  dim = at::maybe_wrap_dim(dim, self.dim());
  return self.size(dim) <= OPENREG_SORT_ROW_MAX;
}

void sort_rows(
    OpId op,
    const Tensor& values,
    const Tensor& indices,
    const Tensor& self,
    int64_t dim,
    Places places,
    Part part) {
  if (values.numel() == 0) {
    return;
  }
  at::assert_no_internal_overlap(values);
  at::assert_no_internal_overlap(indices);
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (has_many_dims(self)) {
    const auto few = [&](const Tensor& t) { return with_few_dims(t, dim); };
    sort_rows(op, few(values), few(indices), few(self), 0, places, part);
    return;
  }
  const bool apart = !overlap(self, values) && !overlap(self, indices);
  const Tensor source = with_dim(apart ? self : self.clone());
  Space space(source.sizes(), source.get_device());
  indices.mutable_data_ptr(); // a copy-on-write tensor gets memory of its own
  space.add(values, at::DimVector(with_dim(values).strides()));
  space.add(source, at::DimVector(source.strides()));
  space.add(indices, at::DimVector(with_dim(indices).strides()));
  space.keep(static_cast<int>(dim));
  space.coalesce();
  space.for_each_launchable([&](const Space& s) {
    Packet packet(OPENREG_OP_SORT, op);
    packet.arg(0, s.kept());
    packet.arg(1, places.descending ? OPENREG_SORT_DESCENDING : 0);
    s.put(packet);
    packet.imm(places.first);
    packet.imm(places.count);
    launch(packet, s.device(), part);
    part = Part::FURTHER;
  });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<at::meta::structured_sort_stable, 2>(
      m, NamesWithoutInplace{"sort.stable", "sort.values_stable"}, Sort());
  add_op<at::meta::structured_topk, 2>(
      m, NamesWithoutInplace{"topk", "topk.values"}, TopK());
  kthvalue_name.set("kthvalue.values");
  m.impl("kthvalue.values", kthvalue_out);
}

} // namespace openreg
