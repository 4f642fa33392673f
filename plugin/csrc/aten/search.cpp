// SPDX-License-Identifier: BSD-3-Clause
// searchsorted and what can be had from it, isin, and results whose size is
// read from the card: repeat_interleave.
#include "aten/step.h"
#include "aten/structured.h"

#include <ATen/ATen.h>
#include <ATen/native/BucketizationUtils.h>
#include <ATen/ops/isin_meta.h>

#include <bit>
#include <cmath>

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;
using OptTensor = std::optional<Tensor>;
using OptSide = std::optional<std::string_view>;

OpName searchsorted_name, searchsorted_out_name, histc_name, histc_out_name;

// The elements of the rows at these places along them.
Tensor at_places(const Tensor& rows, const Tensor& places) {
  return rows.dim() == 1
      ? rows.index_select(0, places.reshape({-1})).view(places.sizes())
      : rows.gather(-1, places);
}

// How many elements of a row come before each value: all rows and values at
// once, by halves of the largest power of two.
Tensor count_before(const Tensor& rows, const Tensor& values, bool right) {
  const int64_t n = rows.size(-1);
  Tensor count = at::zeros(values.sizes(), values.options().dtype(at::kLong));
  for (auto half = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n))); half > 0; half /= 2) {
    const Tensor next = count + half;
    const Tensor probe = at_places(rows, (next - 1).clamp_max_(n - 1));
    const Tensor after = right ? probe.gt(values) : probe.ge(values);
    const Tensor taken = next.le(n).logical_and_(after.logical_not_());
    count = at::where(taken, next, count);
  }
  return count;
}

bool is_right(bool right, const OptSide& side) {
  return right || (side && *side == "right");
}

Tensor& searchsorted_into(
    const Tensor& rows,
    const Tensor& values,
    bool out_int32,
    bool right,
    const OptSide& side,
    const Tensor& sorter,
    Tensor& out) {
  at::native::searchsorted_pre_check(rows, values, out, out_int32, right, side, sorter);
  at::native::resize_output(out, values.sizes());
  if (values.numel() == 0) {
    return out;
  }
  if (rows.numel() == 0) {
    return out.zero_();
  }
  at::native::ResultTypeState state = {};
  state = at::native::update_result_type_state(rows, state);
  state = at::native::update_result_type_state(values, state);
  const auto type = at::native::result_type(state);
  const Tensor sorted = sorter.defined() ? rows.gather(-1, sorter) : rows;
  return out.copy_(
      count_before(sorted.to(type), values.to(type), is_right(right, side)));
}

Tensor index_tensor(const Tensor& like, bool out_int32) {
  return at::empty({0}, like.options().dtype(out_int32 ? at::kInt : at::kLong));
}

Tensor& searchsorted_out(
    const Tensor& rows,
    const Tensor& values,
    bool out_int32,
    bool right,
    OptSide side,
    const OptTensor& sorter,
    Tensor& out) {
  if (!on_card(rows) || !on_card(values)) {
    return fallback<Tensor&, const Tensor&, const Tensor&, bool, bool, OptSide, const OptTensor&, Tensor&>(
        searchsorted_out_name, rows, values, out_int32, right, side, sorter, out);
  }
  return searchsorted_into(
      rows, values, out_int32, right, side, sorter.value_or(Tensor()), out);
}

Tensor searchsorted(
    const Tensor& rows,
    const Tensor& values,
    bool out_int32,
    bool right,
    OptSide side,
    const OptTensor& sorter) {
  if (!on_card(rows) || !on_card(values)) {
    return fallback<Tensor, const Tensor&, const Tensor&, bool, bool, OptSide, const OptTensor&>(
        searchsorted_name, rows, values, out_int32, right, side, sorter);
  }
  Tensor out = index_tensor(values, out_int32);
  return searchsorted_into(
      rows, values, out_int32, right, side, sorter.value_or(Tensor()), out);
}

Tensor& searchsorted_scalar_out(
    const Tensor& rows,
    const Scalar& value,
    bool out_int32,
    bool right,
    OptSide side,
    const OptTensor& sorter,
    Tensor& out) {
  return searchsorted_out(
      rows,
      at::native::searchsorted_scalar_tensor(value, rows.device()),
      out_int32,
      right,
      side,
      sorter,
      out);
}

Tensor searchsorted_scalar(
    const Tensor& rows,
    const Scalar& value,
    bool out_int32,
    bool right,
    OptSide side,
    const OptTensor& sorter) {
  Tensor out = index_tensor(rows, out_int32);
  return searchsorted_scalar_out(rows, value, out_int32, right, side, sorter, out);
}

Tensor& bucketize_out(
    const Tensor& self, const Tensor& boundaries, bool out_int32, bool right, Tensor& out) {
  TORCH_CHECK(
      boundaries.dim() == 1,
      "boundaries tensor must be 1 dimension, but got dim(",
      boundaries.dim(),
      ")");
  return searchsorted_out(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
}

Tensor bucketize_tensor(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right) {
  Tensor out = index_tensor(self, out_int32);
  return bucketize_out(self, boundaries, out_int32, right, out);
}

Tensor bucketize_scalar(const Scalar& self, const Tensor& boundaries, bool out_int32, bool right) {
  return bucketize_tensor(
      at::native::searchsorted_scalar_tensor(self, boundaries.device()), boundaries, out_int32, right);
}

// Every element against every other one: one packet, no memory.
struct IsIn {
  static bool serves(const Tensor& elements, const Tensor& others, bool, bool) {
    constexpr int64_t kMost = int64_t{1} << 30;
    return others.numel() == 0 || elements.numel() <= kMost / others.numel();
  }

  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& elements, const Tensor& others, bool, bool invert) const {
    const Tensor& out = op.maybe_get_output(0);
    if (others.numel() == 0) {
      const_cast<Tensor&>(out).fill_(invert);
      return;
    }
    const auto type = at::result_type(elements, others);
    const int64_t n = elements.numel(), m = others.numel();
    const Tensor result = at::empty({n, 1}, out.options());
    Step s(id, {n, m}, out.get_device(), type);
    const Value a = s.load(elements.to(type).reshape({n, 1}));
    const Value b = s.load(others.to(type).reshape({1, m}));
    s.reduce(
        invert ? OPENREG_V_RED_AND : OPENREG_V_RED_OR,
        result,
        invert ? a != b : a == b,
        Space::Mask(2));
    s.run();
    const_cast<Tensor&>(out).copy_(result.view(out.sizes()));
  }
};

struct IsInNumber {
  template <class Op>
  void operator()(OpId, Op& op, const Tensor& elements, const Scalar& other, bool, bool invert) const {
    Tensor out = op.maybe_get_output(0);
    invert ? at::ne_out(out, elements, other) : at::eq_out(out, elements, other);
  }
};

// repeats[i] times i. Every row's first place gets how far it is from the row
// before; rows without places add up.
Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(
      repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
      "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) {
    return at::empty_like(repeats);
  }
  const Tensor ends = repeats.cumsum(0, at::kLong);
  TORCH_CHECK(repeats.ge(0).all().item<bool>(), "repeats can not be negative");
  const int64_t total = ends[-1].item<int64_t>();
  TORCH_CHECK(!output_size || *output_size == total, "allocated size does not match required size");
  const Tensor starts = ends.slice(0, 0, -1);
  Tensor steps = at::zeros({total + 1}, ends.options());
  steps.index_add_(0, starts, at::ones_like(starts));
  return steps.cumsum(0).slice(0, 0, total).to(repeats.scalar_type());
}

// The range that histc counts in: that of the elements if none is given.
std::pair<double, double> histogram_range(const Tensor& self, const Scalar& min, const Scalar& max) {
  double low = min.toDouble(), high = max.toDouble();
  if (low == high && self.numel() > 0) {
    low = self.min().item<double>();
    high = self.max().item<double>();
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  TORCH_CHECK(
      std::isfinite(low) && std::isfinite(high),
      "torch.histc: range of [",
      low,
      ", ",
      high,
      "] is not finite");
  TORCH_CHECK(low < high, "torch.histc: max must be larger than min");
  return {low, high};
}

bool histc_serves(const Tensor& self) {
  return self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble;
}

Tensor count_bins(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  TORCH_CHECK(bins > 0, "torch.histc(): bins must be > 0");
  const auto [low, high] = histogram_range(self, min, max);
  Tensor counts = at::zeros({bins}, self.options());
  if (self.numel() == 0) {
    return counts;
  }
  const Tensor values = self.reshape({-1});
  const Tensor edges = at::linspace(low, high, bins + 1, self.options());
  const Tensor places = count_before(edges, values, true).sub_(1).clamp_(0, bins - 1);
  const Tensor inside = values.ge(edges[0]).logical_and_(values.le(edges[-1]));
  return counts.index_add_(0, places, inside.to(self.scalar_type()));
}

Tensor histc(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  return histc_serves(self) ? count_bins(self, bins, min, max)
                            : fallback<Tensor, const Tensor&, int64_t, const Scalar&, const Scalar&>(
                                  histc_name, self, bins, min, max);
}

Tensor& histc_out(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max, Tensor& out) {
  if (!histc_serves(self) || out.scalar_type() != self.scalar_type()) {
    return fallback<Tensor&, const Tensor&, int64_t, const Scalar&, const Scalar&, Tensor&>(
        histc_out_name, self, bins, min, max, out);
  }
  const Tensor counts = count_bins(self, bins, min, max);
  at::native::resize_output(out, counts.sizes());
  return out.copy_(counts);
}

// As many of the places as there is room for; the rest is filled.
Tensor nonzero_padded(const Tensor& self, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  const Tensor found = at::nonzero(self);
  const int64_t n = std::min(size, found.size(0));
  Tensor out = at::full({size, self.dim()}, fill_value, found.options());
  out.narrow(0, 0, n).copy_(found.narrow(0, 0, n));
  return out;
}

Tensor& nonzero_padded_out(const Tensor& self, int64_t size, int64_t fill_value, Tensor& out) {
  TORCH_CHECK(
      out.scalar_type() == at::kLong,
      "nonzero_static: Expected out tensor to have scalar type ",
      at::kLong,
      " but got scalar type",
      out.scalar_type());
  const Tensor found = nonzero_padded(self, size, fill_value);
  at::native::resize_output(out, found.sizes());
  return out.copy_(found);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  searchsorted_name.set("searchsorted.Tensor");
  searchsorted_out_name.set("searchsorted.Tensor_out");
  histc_name.set("histc");
  histc_out_name.set("histc.out");
  m.impl("searchsorted.Tensor", searchsorted);
  m.impl("searchsorted.Tensor_out", searchsorted_out);
  m.impl("searchsorted.Scalar", searchsorted_scalar);
  m.impl("searchsorted.Scalar_out", searchsorted_scalar_out);
  m.impl("bucketize.Tensor", bucketize_tensor);
  m.impl("bucketize.Tensor_out", bucketize_out);
  m.impl("bucketize.Scalar", bucketize_scalar);
  add_op<at::meta::structured_isin_Tensor_Tensor>(
      m, NamesWithoutInplace{"isin.Tensor_Tensor", "isin.Tensor_Tensor_out"}, IsIn());
  add_op<at::meta::structured_isin_Tensor_Scalar>(
      m, NamesWithoutInplace{"isin.Tensor_Scalar", "isin.Tensor_Scalar_out"}, IsInNumber());
  m.impl("repeat_interleave.Tensor", repeat_interleave);
  m.impl("histc", histc);
  m.impl("histc.out", histc_out);
  m.impl("nonzero_static", nonzero_padded);
  m.impl("nonzero_static.out", nonzero_padded_out);
}

} // namespace openreg
