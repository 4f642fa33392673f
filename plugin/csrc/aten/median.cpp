// SPDX-License-Identifier: BSD-3-Clause
// median and nanmedian. With NaNs, the place of the median in a sorted row depends on the
// count of NaNs: the kernel sorts the rows and gathers the medians.
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/SortingUtils.h>
#include <torch/library.h>

#include <limits>

#include "aten/convention.h"
#include "aten/index.h"
#include "aten/sort.h"

namespace openreg {

namespace {

using at::Tensor;
using Pair = std::tuple<Tensor&, Tensor&>;

enum class NaNs { WIN, DO_NOT_COUNT };

// Returns the median's place in each sorted row. NaNs come last; the first NaN is the
// median if NaNs win.
Tensor median_places(const Tensor& self, int64_t dim, NaNs nans) {
  const int64_t n = self.size(dim);
  const Tensor count = at::isnan(self).sum(dim, true);
  if (nans == NaNs::DO_NOT_COUNT) {
    return at::div((n - 1 - count).clamp_min(0), 2, "trunc");
  }
  return at::where(count > 0, n - count, at::full_like(count, (n - 1) / 2));
}

// values and indices keep the reduced dimension.
void median_rows(
    OpId op,
    const Tensor& values,
    const Tensor& indices,
    const Tensor& self,
    int64_t dim,
    NaNs nans) {
  const int64_t n = self.size(dim);
  if (values.numel() == 0) {
    return;
  }
  if (has_many_dims(self)) {
    const auto few = [&](const Tensor& t) { return with_few_dims(t, dim); };
    median_rows(op, few(values), few(indices), few(self), 0, nans);
    return;
  }
  if (!self.is_floating_point()) {
    sort_rows(op, values, indices, self, dim, {(n - 1) / 2, 1});
    return;
  }
  const Tensor sorted = at::empty(self.sizes(), self.options());
  const Tensor order = at::empty(self.sizes(), indices.options());
  sort_rows(op, sorted, order, self, dim, {0, n});
  const Tensor places = median_places(self, dim, nans);
  index_points(op, OPENREG_INDEX_GET, values, sorted, dim, places, Part::FURTHER);
  index_points(op, OPENREG_INDEX_GET, indices, order, dim, places, Part::FURTHER);
}

// The CPU refuses truth values.
bool serves(const Tensor& self) {
  return on_card(self) && self.scalar_type() != at::kBool;
}

// Both operators. They differ only in the handling of NaN.
template <NaNs How>
struct Median {
  static inline OpName name, dim_name;

  static Pair
  rows(const Tensor& self, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
    if (!serves(self) || !on_card(values) || !row_fits(self, dim)) {
      return fallback<Pair, const Tensor&, int64_t, bool, Tensor&, Tensor&>(
          dim_name, self, dim, keepdim, values, indices);
    }
    dim = at::maybe_wrap_dim(dim, self.dim());
    at::native::zero_numel_check_dims(self, dim, "median()");
    const at::CheckedFrom from = "median";
    check_tensor_device(values, self.device());
    check_tensor_device(indices, self.device());
    at::checkScalarType(from, {indices, "indices", 1}, at::kLong);
    at::checkSameType(from, {values, "values", 0}, {self, "self", 2});
    at::native::_reduction_with_indices_allocate_or_resize_output(
        values, indices, self, dim, keepdim);
    at::assert_no_internal_overlap(values);
    at::assert_no_internal_overlap(indices);
    median_rows(
        dim_name.id,
        with_dim(values),
        with_dim(indices),
        with_dim(self),
        dim,
        How);
    if (!keepdim) {
      values.squeeze_(dim);
      indices.squeeze_(dim);
    }
    return {values, indices};
  }

  static Tensor all(const Tensor& self) {
    if (!serves(self) || self.numel() > OPENREG_SORT_ROW_MAX) {
      return fallback<Tensor, const Tensor&>(name, self);
    }
    if (self.numel() == 0) {
      const auto nan = std::numeric_limits<float>::quiet_NaN();
      return at::full({}, nan).to(self.options());
    }
    const Tensor flat = self.reshape({self.numel()});
    const Tensor value = at::empty({1}, self.options());
    const Tensor index = at::empty({1}, self.options().dtype(at::kLong));
    median_rows(name.id, value, index, flat, 0, How);
    return value.squeeze(0);
  }

  static void add(torch::Library& m, const char* all_form, const char* dim_form) {
    name.set(all_form);
    dim_name.set(dim_form);
    m.impl(all_form, all);
    m.impl(dim_form, rows);
  }
};

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Median<NaNs::WIN>::add(m, "median", "median.dim_values");
  Median<NaNs::DO_NOT_COUNT>::add(m, "nanmedian", "nanmedian.dim_values");
}

} // namespace openreg
