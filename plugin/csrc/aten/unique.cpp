// SPDX-License-Identifier: BSD-3-Clause
// unique and unique_consecutive. An element, or a slice of a dimension, begins a group if
// it differs from the one before. unique sorts first. The caller waits for the count of
// groups.
#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/convention.h"
#include "aten/sort.h"

namespace openreg {

namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

// The most columns of slices that the card sorts. It sorts by one column after the other.
constexpr int64_t kColumns = 4096;

OpName unique_name, unique2_name, consecutive_name, dim_name,
    dim_consecutive_name;

// Returns the first row of each group, the group of each row, and the number of rows of
// each group. Without inverse or counts, the second or third result is empty.
Three groups(const Tensor& rows, bool inverse, bool counts) {
  const auto options = rows.options().dtype(at::kLong);
  const int64_t n = rows.size(0);
  Tensor group = at::empty({0}, options), count = group;
  if (n == 0) {
    return {at::empty(rows.sizes(), rows.options()), group, count};
  }
  Tensor differs = at::ne(rows.narrow(0, 1, n - 1), rows.narrow(0, 0, n - 1));
  if (rows.dim() > 1) {
    differs = differs.any(1);
  }
  const Tensor begins = at::ones({n}, rows.options().dtype(at::kBool));
  begins.narrow(0, 1, n - 1).copy_(differs);
  const Tensor places = at::nonzero(begins).squeeze(1);
  if (inverse) {
    group = at::cumsum(begins, 0, at::kLong) - 1;
  }
  if (counts) {
    const Tensor ends = places.narrow(0, 1, places.numel() - 1);
    count = at::cat({ends, at::full({1}, n, options)}) - places;
  }
  return {rows.index_select(0, places), group, count};
}

// Converts the groups of sorted rows to the groups of the rows in their original order.
Tensor unsorted(const Tensor& group, const Tensor& order) {
  return at::empty_like(group).scatter_(0, order, group);
}

// Returns the order that sorts a vector. values receives the sorted vector.
Tensor order_of(OpId id, const Tensor& vector, Tensor* values = nullptr, Part part = Part::FIRST) {
  const Tensor sorted = at::empty(vector.sizes(), vector.options());
  const Tensor order = at::empty(vector.sizes(), vector.options().dtype(at::kLong));
  sort_rows(id, sorted, order, vector, 0, {0, vector.numel()}, part);
  if (values != nullptr) {
    *values = sorted;
  }
  return order;
}

Three unique_elements(OpId id, const Tensor& self, bool inverse, bool counts) {
  Tensor sorted;
  const Tensor order = order_of(id, self.reshape({self.numel()}), &sorted);
  auto [values, group, count] = groups(sorted, inverse, counts);
  if (inverse) {
    group = unsorted(group, order).view(self.sizes());
  }
  return {values, group, count};
}

bool serves(const Tensor& self) {
  return on_card(self) && self.numel() <= OPENREG_SORT_ROW_MAX;
}

Three unique2(const Tensor& self, bool sorted, bool inverse, bool counts) {
  return serves(self)
      ? unique_elements(unique2_name.id, self, inverse, counts)
      : fallback<Three, const Tensor&, bool, bool, bool>(
            unique2_name, self, sorted, inverse, counts);
}

std::tuple<Tensor, Tensor> unique(const Tensor& self, bool sorted, bool inverse) {
  if (!serves(self)) {
    return fallback<std::tuple<Tensor, Tensor>, const Tensor&, bool, bool>(
        unique_name, self, sorted, inverse);
  }
  auto [values, group, count] = unique_elements(unique_name.id, self, inverse, false);
  return {values, group};
}

// Checks empty slices with core's errors. Returns true if the tensor has no slices.
bool no_slices(const Tensor& self, int64_t dim) {
  const auto sizes = self.sizes();
  const auto zeros = std::count(sizes.begin(), sizes.end(), 0);
  if (self.size(dim) == 0) {
    TORCH_CHECK(
        zeros == 1,
        "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    return true;
  }
  TORCH_CHECK(
      zeros == 0,
      "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  return false;
}

Three nothing(const Tensor& self) {
  const auto options = self.options().dtype(at::kLong);
  return {at::empty(self.sizes(), self.options()), at::empty({0}, options), at::empty({0}, options)};
}

// rows_of() converts slices to the rows of a matrix; slices_of() converts them back.
Tensor rows_of(const Tensor& self, int64_t dim) {
  return self.movedim(dim, 0).reshape({self.size(dim), -1});
}
Tensor slices_of(const Tensor& rows, const Tensor& self, int64_t dim) {
  auto sizes = self.movedim(dim, 0).sizes().vec();
  sizes[0] = rows.size(0);
  return rows.reshape(sizes).movedim(0, dim).contiguous();
}

Three dim_consecutive(const Tensor& self, int64_t dim, bool inverse, bool counts) {
  if (!on_card(self) || self.dim() == 0) {
    return fallback<Three, const Tensor&, int64_t, bool, bool>(
        dim_consecutive_name, self, dim, inverse, counts);
  }
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (no_slices(self, dim)) {
    return nothing(self);
  }
  auto [values, group, count] = groups(rows_of(self, dim), true, true);
  return {slices_of(values, self, dim), group, count};
}

Three unique_dim(const Tensor& self, int64_t dim, bool sorted, bool inverse, bool counts) {
  if (!serves(self) || self.dim() == 0 ||
      self.numel() > kColumns * std::max<int64_t>(self.size(dim), 1)) {
    return fallback<Three, const Tensor&, int64_t, bool, bool, bool>(
        dim_name, self, dim, sorted, inverse, counts);
  }
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (no_slices(self, dim)) {
    return nothing(self);
  }
  const Tensor rows = rows_of(self, dim);
  Tensor order = order_of(dim_name.id, rows.select(1, rows.size(1) - 1));
  for (int64_t column = rows.size(1) - 2; column >= 0; column--) {
    const Tensor key = rows.select(1, column).index_select(0, order);
    order = order.index_select(0, order_of(dim_name.id, key, nullptr, Part::FURTHER));
  }
  auto [values, group, count] = groups(rows.index_select(0, order), true, true);
  return {slices_of(values, self, dim), unsorted(group, order), count};
}

Three unique_consecutive(
    const Tensor& self,
    bool inverse,
    bool counts,
    std::optional<int64_t> dim) {
  if (!on_card(self)) {
    return fallback<Three, const Tensor&, bool, bool, std::optional<int64_t>>(
        consecutive_name, self, inverse, counts, dim);
  }
  // The slices of a vector are its elements.
  if (dim.has_value() && !(*dim == 0 && self.dim() == 1)) {
    return dim_consecutive(self, *dim, inverse, counts);
  }
  auto [values, group, count] = groups(self.reshape({self.numel()}), inverse, counts);
  if (inverse) {
    group = group.view(self.sizes());
  }
  return {values, group, count};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  unique_name.set("_unique");
  unique2_name.set("_unique2");
  consecutive_name.set("unique_consecutive");
  dim_name.set("unique_dim");
  dim_consecutive_name.set("unique_dim_consecutive");
  m.impl("_unique", unique);
  m.impl("_unique2", unique2);
  m.impl("unique_consecutive", unique_consecutive);
  m.impl("unique_dim", unique_dim);
  m.impl("unique_dim_consecutive", dim_consecutive);
}

} // namespace openreg
